"""Margins for few images, whose spread understates the uncertainty when their answers are alike."""

from __future__ import annotations

from dataclasses import replace

from cfgen.effects.estimate import CONFIDENCE, Estimate

__all__ = ["agresti_coull_variance", "rule_of_three", "with_minimum_half_width"]


def agresti_coull_variance(n: float) -> float:
    """The variance that one more unexpected answer adds to a mean over n images (after Wilson, and Agresti and Coull).

    Few images show few unexpected answers, and by chance fewer still.  Their spread is then too small exactly where their mean is
    wrong, and a combination would trust them most.
    """
    return 1 / max(n, 1) ** 2


def rule_of_three(n: float) -> float:
    """Half-width of the exact interval when all n answers are equal (rule of three: 3 / n at 95 %).

    >>> round(rule_of_three(100), 3)
    0.03
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / max(n, 1)))


def with_minimum_half_width(estimate: Estimate, half: float) -> Estimate:
    """The estimate with the slack that makes its interval at least `half` wide to either side."""
    return replace(estimate, slack=max(half - (estimate.half - estimate.slack), estimate.slack))
