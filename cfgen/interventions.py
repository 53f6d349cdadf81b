"""Interventions as they are typed: `thickness=3,label=7`."""

from __future__ import annotations

from typing import Any

from cfgen.errors import UserError

__all__ = ["parse_assignments"]


def parse_assignments(text: str) -> dict[str, Any]:
    """`thickness=3,label=7` -> {"thickness": 3, "label": 7}: numbers where they are numbers, names otherwise."""
    assignments: dict[str, Any] = {}
    for pair in text.split(","):
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value):
            raise UserError(f"an attribute's value is written name=value, not {pair!r}")
        if name in assignments:
            raise UserError(f"{name} is set twice in {text!r}")
        assignments[name] = number_or_name(value)
    return assignments


def number_or_name(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
