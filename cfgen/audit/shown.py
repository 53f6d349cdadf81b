"""What a report shows of an audit in detail: which findings, and example images with the names of their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from cfgen.audit.run import Triple

if TYPE_CHECKING:
    from cfgen.audit.outcome import Audited

__all__ = ["Flip", "flip_name", "in_detail"]


class Flip(NamedTuple):
    """Some images whose answer an intervention flips, with p of the base images and of the counterfactuals.

    `compared` says what these two are; under a contrast they are counterfactuals at either value.
    """

    images: Triple
    before: Tensor
    after: Tensor
    compared: tuple[str, str] = ("reconstruction", "counterfactual")


def flip_name(way: str, intervention: str) -> str:
    """The name of the figure of answers that an intervention flips to yes (`up`) or to no (`down`).

    >>> flip_name("up", "Black_Hair=1,Pale_Skin=1")
    'flipped_up_Black_Hair=1+Pale_Skin=1'
    """
    safe = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in "_=+.-" else "+" for letter in intervention
    )
    return f"flipped_{way}_{safe}"


def in_detail(audited: Sequence[Audited], chosen: bool) -> list[Audited]:
    """Which findings a report shows in detail: of every class only where it was `chosen`, else of each classifier that whose
    answers change most."""
    largest: dict[str, tuple[float, str]] = {}
    for one in audited:
        if one.of_class:
            biases = [abs(row.effect.headline.value) for row in one.findings.bias if row.effect is not None]
            largest[one.network] = max(largest.get(one.network, (-1.0, "")), (max(biases, default=0.0), one.of_class))
    return [
        replace(one, detailed=chosen or not one.of_class or largest[one.network][1] == one.of_class) for one in audited
    ]
