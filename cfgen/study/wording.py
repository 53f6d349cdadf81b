"""What participants read: questions and instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cfgen.attributes import Binary, Categorical, Continuous, Schema

__all__ = ["CHECKED", "EDITED", "instructions_of", "same_text", "shows_text"]

EDITED = "Which picture was edited?"
CHECKED = "Which picture has a chessboard on it?"  # the catch trial of studies that do not ask which one was edited

INSTRUCTIONS = {
    "edited": "You see two pictures side by side. A computer has edited one of them. Choose the one that you think was edited.",
    "shows": "You see two pictures side by side, and a question. Choose the picture that fits the question.",
    "same": "You see two pictures side by side. Say whether you think that both show the same {subject}.",
}
LAST = "If you are not sure, guess. There is no time limit, but your first impression is what counts."


def shows_text(schema: Schema, do: Mapping[str, Any], own: Mapping[str, float]) -> str:
    """Which picture has what an intervention asks for?  `own` has the image's values before.

    >>> shows_text(Schema({"Pale_Skin": Binary()}), {"Pale_Skin": 0}, {"Pale_Skin": 1.0})
    'Which picture shows no pale skin?'
    """
    parts = []
    for name, value in do.items():
        words = name.replace("_", " ").lower()
        match schema[name]:
            case Binary():
                parts.append(words if value else f"no {words}")
            case Categorical():
                parts.append(f"{words} {value}")
            case Continuous():
                parts.append(f"{'more' if float(value) > own[name] else 'less'} {words}")
    return f"Which picture shows {' and '.join(parts)}?"


def same_text(subject: str) -> str:
    return f"Do both pictures show the same {subject}?"


def instructions_of(questions: Sequence[str], subject: str) -> list[str]:
    return [*(INSTRUCTIONS[question].format(subject=subject) for question in questions), LAST]
