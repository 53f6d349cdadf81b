"""Two audits side by side: the same interventions, before and after a repair, or by two models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cfgen.app.audits import Earlier

__all__ = ["compared"]

Found = Mapping[str, Any]


def compared(one: Earlier, other: Earlier) -> dict[str, Any]:
    """A row for each classifier, intervention and cohort of either audit, with the estimate of each and their difference.

    A difference is left out where either has no number.  It has no interval: two audits do not say which images they share.
    """
    sides = [_rows(audit.found()) for audit in (one, other)]
    rows = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        cells = [side.get(key) for side in sides]
        values = [cell["value"] for cell in cells if cell is not None and cell["value"] is not None]
        rows.append(
            {
                "do": key[0],
                "among": key[1],
                "of_class": key[2],
                "cells": cells,
                "difference": values[1] - values[0] if len(values) == 2 else None,
            }
        )
    return {"rows": rows, "titles": [title_of(audit) for audit in (one, other)]}


def title_of(audit: Earlier) -> dict[str, Any]:
    """What an audit was of, for a list."""
    found = audit.found()
    data = found.get("data") or {}
    return {
        "id": audit.id,
        "model": audit.model,
        "number": audit.folder.name,
        "classifiers": list(
            dict.fromkeys(
                str(part.get("name", part.get("classifier")))
                for part in found.get("classes") or found.get("classifiers_audited") or []
            )
        ),
        "do": list(dict.fromkeys(key[0] for key in _rows(found))),
        "images": data.get("images"),
        "split": data.get("split"),
        "label": "" if found.get("classes") else found.get("label"),
        "command": audit.command(),
    }


def _rows(found: Found) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The headline estimates of the first classifier by intervention, cohort and class: combined, or else model-only."""
    parts = found.get("classifiers_audited") or []
    of_class: dict[str, Found] = {}
    for part in parts if found.get("classes") else parts[:1]:
        # of more than two classes each is a part, labelled by its name; a further classifier has the same ones again
        of_class.setdefault(str(part.get("label")) if found.get("classes") else "", part)
    rows = {}
    for name, part in of_class.items():
        for row in part.get("interventions") or []:
            estimate = row.get("combined") or row.get("generator") or {}
            verdict = row.get("verdict") or {}
            rows[str(row.get("do")), str(row.get("among")), name] = {
                "value": estimate.get("value"),
                "low": estimate.get("low"),
                "high": estimate.get("high"),
                "combined": bool(row.get("combined")),
                "verdict": verdict.get("words", ""),
                "good": verdict.get("code") == "agrees",
            }
    return rows
