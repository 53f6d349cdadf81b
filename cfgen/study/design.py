"""A study as it is kept in `study.json`: what is asked of whom, and what counts, fixed before the first answer."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from cfgen.errors import UserError
from cfgen.io.checksums import sha256_of
from cfgen.io.files import exists, read_json

__all__ = ["ANSWERS", "PAGE", "QUESTIONS", "STUDY", "Rules", "Study", "Trial", "valid_participant"]

STUDY, PAGE, ANSWERS = "study.json", "page", "answers"
QUESTIONS = ("edited", "shows", "same")
SHORT = 16  # digits of the hash that answers carry

Side = Literal["left", "right"]


@dataclass(frozen=True)
class Trial:
    """A question about two pictures.  `right` is the number of the picture to choose; of `same`, 0 is yes and 1 is no.

    The pictures are in a random order, so that nothing that a participant gets tells which one is right.
    """

    id: str
    role: Literal["practice", "catch", "main"]
    question: str
    text: str
    images: tuple[str, str]
    right: int
    do: str

    def is_right(self, flipped: int, side: Side) -> bool:
        """Whether a side is the right one, where the pictures have been exchanged (1) or not (0)."""
        chosen = int(side == "right")
        return (chosen if self.question == "same" else chosen ^ flipped) == self.right


@dataclass(frozen=True)
class Rules:
    """Who counts, and what is tested: fixed beforehand."""

    catch_right: int  # catch trials that a participant has to answer rightly
    fastest_ms: int  # a participant whose median answer is faster is left out
    margin: float  # shares within 0.5 +- margin count as guessing
    level: float = 0.05  # of the tests; intervals have 1 - level


@dataclass(frozen=True)
class Study:
    """Trials, and sheets that say which trials a participant sees, in which order and with which sides.

    A sheet has 2 x (a trial's number) + (1 where its pictures are exchanged), in the order of the questions.
    """

    title: str
    model: str
    model_fingerprint: str
    images_from: str
    seed: int
    each: int  # main trials of each question that a participant answers
    rules: Rules
    instructions: list[str]
    consent: str
    mail: str
    trials: list[Trial]
    sheets: list[list[int]]
    checksums: dict[str, str]  # of the pictures

    @cached_property
    def hash(self) -> str:
        """Of everything that is fixed beforehand."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def id(self) -> str:
        """What answers carry: the beginning of the hash."""
        return self.hash[:SHORT]

    @property
    def questions(self) -> list[str]:
        asked = {trial.question for trial in self.trials if trial.role == "main"}
        return [question for question in QUESTIONS if question in asked]

    def sheet_of(self, participant: str) -> list[tuple[Trial, int]]:
        """The trials that a participant gets, and whether their pictures are exchanged: settled by the participant's id."""
        sheet = self.sheets[int(participant[:8], 16) % len(self.sheets)]
        return [(self.trials[code // 2], code % 2) for code in sheet]

    def to_dict(self) -> dict[str, Any]:
        return {"hash": self.hash, **dataclasses.asdict(self)}

    def for_page(self) -> dict[str, Any]:
        """What a participant's browser needs; of right answers, only those of practice trials, which get feedback."""
        trials = [
            {"id": t.id, "question": t.question, "text": t.text, "images": list(t.images)}
            | ({"right": t.right} if t.role == "practice" else {})
            for t in self.trials
        ]
        shown = {name: getattr(self, name) for name in ("title", "instructions", "consent", "mail", "sheets")}
        return {"id": self.id, **shown, "trials": trials}

    @classmethod
    def read(cls, folder: str | Path) -> Study:
        """The study of a folder, if neither it nor its pictures were changed since it was made."""
        path = Path(folder) / STUDY
        if not exists(path):
            raise UserError(f"there is no study in {folder}: {STUDY} is missing; `cfgen study new` makes one", "study")
        stored = read_json(path)
        stated = stored.pop("hash", None)
        try:
            trials = [Trial(**{**trial, "images": tuple(trial["images"])}) for trial in stored.pop("trials")]
            study = cls(trials=trials, rules=Rules(**stored.pop("rules")), **stored)
            study.require_whole()
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise UserError(f"{path} is not a study ({type(error).__name__}: {error})", argument="study") from error
        if study.hash != stated:
            raise UserError(
                f"{path} was changed after it was made: its hash is {study.hash[:SHORT]}, and {str(stated)[:SHORT]} was "
                "fixed beforehand; put the first version back",
                argument="study",
            )
        for name, checksum in study.checksums.items():
            picture = Path(folder) / PAGE / "images" / name
            if not exists(picture) or sha256_of(picture) != checksum:
                raise UserError(f"{picture} is missing or was changed after the study was made", argument="study")
        return study

    def require_whole(self) -> None:
        """Refuses, with a ValueError, what the rest relies on and the types do not say."""
        codes = {code for sheet in self.sheets for code in sheet}
        if not self.sheets or not all(0 <= code < 2 * len(self.trials) for code in codes):
            raise ValueError("sheets name trials that do not exist")
        if not all(re.fullmatch(r"[0-9a-f]+\.png", name) for name in self.checksums):
            raise ValueError("pictures have other names than this program gives them")
        if not all(name in self.checksums for trial in self.trials for name in trial.images):
            raise ValueError("trials name pictures without a checksum")
        if not 0 < self.rules.margin < 0.5 or not 0 < self.rules.level < 0.5:
            raise ValueError("margin and level are between 0 and 0.5")


def valid_participant(value: object) -> bool:
    """Whether something is a participant's id: random digits that stand for nobody.

    >>> valid_participant("00ff00ff00ff00ff"), valid_participant("../x"), valid_participant(7)
    (True, False, False)
    """
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16}", value) is not None


def canonical(line: Mapping[str, Any]) -> str:
    """A line of JSON."""
    return json.dumps(line, separators=(",", ":")) + "\n"
