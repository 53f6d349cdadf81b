"""The sentences of an audit's findings."""

from __future__ import annotations

from typing import NamedTuple

from cfgen.audit.results import EVERYONE, BiasRow
from cfgen.reporting.numbers import share

__all__ = ["Sentence", "cohort_title", "finding"]


class Sentence(NamedTuple):
    """A finding in words, with the part that is emphasised."""

    start: str
    emphasis: str
    rest: str


def finding(row: BiasRow, label: str) -> Sentence:
    """One sentence or two for those who read nothing else."""
    start = f"With {joined(row.change)}, the classifier "
    if row.values["flipped"] == 0:
        most = share(row.values["flipped/high"])
        return Sentence(
            start,
            "gives the same answer",
            f" for all {row.n:,} images [95 % confidence interval: fewer than {most} flip].",
        )
    low, high = (f"{100 * row.values[key]:+.1f}" for key in ("bias/low", "bias/high"))
    unsure = " The interval includes no difference." if row.values["bias/low"] <= 0 <= row.values["bias/high"] else ""
    rate, to_yes = share(row.values["flipped"]), share(row.values["up_given_flip"])
    interval = f" [95 % confidence interval: {low} to {high}].{unsure}"
    rest = f"{interval} {rate} of {row.n:,} answers flip, {to_yes} of these from no to yes."
    return Sentence(start, f"says “{label}” {how_often(row.values['bias'])}", rest)


def how_often(bias: float) -> str:
    """A bias in words.

    >>> how_often(-0.02)
    '2.0 points less often'
    """
    if bias == 0:
        return "as often as before"
    return f"{100 * abs(bias):.1f} points {'more' if bias > 0 else 'less'} often"


def cohort_title(among: str) -> str:
    """What a cohort is called.

    >>> cohort_title("Young=0,Bangs=1")
    'Only images with Young=0 and Bangs=1'
    """
    return "All images" if among == EVERYONE else f"Only images with {joined(among)}"


def joined(assignments: str) -> str:
    return " and ".join(assignments.split(","))
