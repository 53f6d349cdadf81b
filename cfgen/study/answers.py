"""Answers: one line of JSON each, held to the study's plan, and the participants that they make up."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cfgen.errors import UserError
from cfgen.io.files import exists, read_text
from cfgen.study.design import ANSWERS, Study, Trial, valid_participant

__all__ = ["Participant", "Sittings", "participants_of", "read_lines", "require_fitting"]

KEYS = {"study", "participant", "number", "trial", "answer", "ms"}
MOST_MS = 86_400_000  # a day


def require_fitting(study: Study, line: Any) -> dict[str, Any]:
    """A line, if it is an answer to the question that this participant got at this place; it may hold nothing else."""
    if not isinstance(line, dict) or line.keys() != KEYS:
        raise UserError(f"an answer has {', '.join(sorted(KEYS))}, and nothing else")
    if line["study"] != study.id:
        raise UserError(f"it belongs to the study {str(line['study'])[:40]!r}, and this one is {study.id!r}")
    if not valid_participant(line["participant"]):
        raise UserError("a participant is 16 digits of 0 to 9 and a to f")
    sheet, number, ms = study.sheet_of(line["participant"]), line["number"], line["ms"]
    if type(number) is not int or not 0 <= number < len(sheet):
        raise UserError(f"questions are numbered 0 to {len(sheet) - 1}")
    if line["trial"] != sheet[number][0].id:
        raise UserError("this participant did not get that question there")
    if line["answer"] not in ("left", "right"):
        raise UserError("an answer is left or right")
    if type(ms) is not int or not 0 <= ms <= MOST_MS:
        raise UserError("a time is a whole number of milliseconds")
    return line


@dataclass
class Participant:
    """The answers of one participant, by the number of the question."""

    id: str
    lines: dict[int, dict[str, Any]] = field(default_factory=dict)
    conflicts: int = 0  # questions that were answered twice, and differently
    unfit: int = 0  # lines that do not fit the plan

    def answers(self, study: Study) -> list[tuple[Trial, bool, int]]:
        """Trials, whether they were answered rightly, and after how many milliseconds."""
        sheet = study.sheet_of(self.id)
        return [
            (sheet[n][0], sheet[n][0].is_right(sheet[n][1], line["answer"]), line["ms"])
            for n, line in sorted(self.lines.items())
        ]

    def excluded(self, study: Study) -> str:
        """Why this participant does not count by the rules that were fixed beforehand; empty where they do."""
        rules, answers = study.rules, self.answers(study)
        if self.unfit:
            return "answers that do not fit the study's plan"
        if self.conflicts:
            return "two different answers to one question"
        if len(self.lines) < len(study.sheet_of(self.id)):
            return "not finished"
        if sum(right for trial, right, _ in answers if trial.role == "catch") < rules.catch_right:
            return "catch trials"
        if statistics.median(ms for trial, _, ms in answers if trial.role == "main") < rules.fastest_ms:
            return "too fast"
        return ""


@dataclass
class Sittings:
    """All participants, and what was wrong with the lines."""

    participants: list[Participant]
    duplicates: int  # lines that came twice, the same
    unreadable: list[str]  # where lines are that belong to nobody


def read_lines(folder: Path, more: Sequence[str | Path] = ()) -> list[tuple[str, str]]:
    """The lines of all files of answers: those that the app kept in the study's folder, and further files or folders."""
    for path in map(Path, more):
        if not exists(path):
            raise UserError(f"there is no file or folder {path}", argument="answers")
    files: dict[Path, None] = {}
    for path in [folder / ANSWERS, *map(Path, more)]:
        found = sorted(path.glob("*.jsonl")) if path.is_dir() else [path] if exists(path) else []
        files |= dict.fromkeys(file.resolve() for file in found)
    return [
        (f"{file.name}, line {number}", line)
        for file in files
        for number, line in enumerate(read_text(file).splitlines(), start=1)
        if line.strip()
    ]


def participants_of(study: Study, lines: Iterable[tuple[str, str]]) -> Sittings:
    """Puts lines together; the same line twice counts once, for a file may be sent twice."""
    found: dict[str, Participant] = {}
    duplicates, unreadable, others = 0, [], set()
    for place, text in lines:
        line = _parsed(text)
        if line is None or not valid_participant(line.get("participant")):
            unreadable.append(place)
            continue
        if line.get("study") != study.id:
            others.add(str(line.get("study"))[:40])
            continue
        person = found.setdefault(line["participant"], Participant(line["participant"]))
        try:
            number = require_fitting(study, line)["number"]
        except UserError:
            person.unfit += 1
            continue
        known = person.lines.setdefault(number, line)
        if known is not line:
            same = known == line
            duplicates, person.conflicts = duplicates + same, person.conflicts + (not same)
    if others:
        raise UserError(
            f"some answers belong to another study, or to this one before it was changed: {', '.join(sorted(others))}; this is "
            f"{study.id}",
            argument="answers",
        )
    return Sittings(list(found.values()), duplicates, unreadable)


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None
