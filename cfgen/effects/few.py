"""What few images leave possible, however alike their answers are."""

from __future__ import annotations

from dataclasses import replace

from cfgen.effects.estimate import CONFIDENCE, Estimate

__all__ = ["at_least", "equal_answers", "one_more_flip"]


def one_more_flip(n: float) -> float:
    """The variance that one more unexpected answer than was seen adds to a mean over n images (after Wilson, and Agresti and
    Coull).

    Few images show few such answers, and by chance fewer yet: the spread they show is then too small just where the value is,
    too, so that a combination would trust such images most.
    """
    return 1 / max(n, 1) ** 2


def equal_answers(n: float) -> float:
    """With a larger share, seeing none in n would be rarer than 1 in 20 (at 95 %, the rule of three: 3 / n).

    >>> round(equal_answers(100), 3)
    0.03
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / max(n, 1)))


def at_least(estimate: Estimate, half: float) -> Estimate:
    """The estimate, with slack that makes half the width of its interval at least `half`."""
    return replace(estimate, slack=max(half - (estimate.half - estimate.slack), estimate.slack))
