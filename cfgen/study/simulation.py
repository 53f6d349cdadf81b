"""Simulated participants: what an analysis says where it is known what they can see."""

from __future__ import annotations

import random
from collections.abc import Mapping

from cfgen.errors import UserError, unknown_name
from cfgen.study.design import Study, Trial, canonical

__all__ = ["KINDS", "parse_mix", "simulated_lines"]

KINDS = {
    "guessing": "sees no difference, and takes the catch trials seriously",
    "perfect": "is always right",
    "careless": "chooses without looking, and often at once",
}
IN_THE_PAPER = 66  # responses


def parse_mix(text: str) -> dict[str, int]:
    """`guessing`, or how many of each kind.

    >>> parse_mix("guessing"), parse_mix("guessing=50,careless=10")
    ({'guessing': 66}, {'guessing': 50, 'careless': 10})
    """
    mix: dict[str, int] = {}
    for part in text.split(","):
        kind, equals, number = (word.strip() for word in part.partition("="))
        if kind not in KINDS:
            raise UserError(unknown_name("kind of participant", kind, KINDS), argument="simulate")
        if kind in mix or (equals and not (number.isascii() and number.isdecimal() and 0 < int(number[:9]) <= 100_000)):
            raise UserError(
                f"expected each kind once, with 1 to 100000 participants, such as guessing=50,careless=10, not {text!r}",
                argument="simulate",
            )
        mix[kind] = int(number) if equals else IN_THE_PAPER
    return mix


def simulated_lines(study: Study, mix: Mapping[str, int], seed: int = 0) -> list[tuple[str, str]]:
    """Lines as participants of these kinds would leave them, each with its place."""
    chance = random.Random(f"{study.id} {seed}")
    lines = []
    for kind, count in mix.items():
        for k in range(count):
            person = f"{chance.getrandbits(64):016x}"
            at_once = kind == "careless" and chance.random() < 0.5
            for number, (trial, flipped) in enumerate(study.sheet_of(person)):
                right = knows(kind, trial) or chance.random() < 0.5
                line = {
                    "study": study.id,
                    "participant": person,
                    "number": number,
                    "trial": trial.id,
                    "answer": "left" if trial.is_right(flipped, "left") == right else "right",
                    "ms": round(chance.lognormvariate(5.0 if at_once else 7.8, 0.4)),
                }
                lines.append((f"simulated {kind} {k + 1}", canonical(line)))
    return lines


def knows(kind: str, trial: Trial) -> bool:
    """Whether a participant sees the answer."""
    return kind == "perfect" or (kind == "guessing" and trial.role == "catch")
