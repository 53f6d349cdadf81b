"""`StudyOptions`: the options of `new_study` and the command `cfgen study new`; light to import."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cfgen.command_line import NonNegativeInt, PositiveInt, Seed, parse_assignments
from cfgen.errors import UserError, unknown_name
from cfgen.io.files import read_text
from cfgen.options import option, require_at_least
from cfgen.study.design import QUESTIONS

__all__ = ["StudyOptions"]


def read_consent(path: str) -> str:
    try:
        return read_text(Path(path), 100_000)
    except UserError as error:
        raise UserError(str(error), argument="consent") from error


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """What participants are asked, and which answers count.

    >>> StudyOptions(do=[{"thickness": 5}]).questions
    ('edited',)

    Args:
        do: an intervention, such as thickness=5 or Young=0,Gray_Hair=1; repeat the option for others. Each pair of pictures uses
            one of them, and no image gets a value that it has already.
        questions: edited asks which picture was edited; shows asks which picture shows the intervention; same asks whether both
            pictures show the same subject. Repeat the option to ask several (default: edited).
        subject: the word that the question same uses, such as person (default: none).
        each: pairs of each question that a participant answers; ten in the paper. A participant sees no image twice.
        count: pairs of each question that a participant's pairs are chosen from (default: as many as there are images for, at
            most 40).
        practice: trials with feedback before the study; the paper had none.
        catch: trials that everybody who looks answers correctly; the paper had none.
        catch_right: exclude participants with fewer correct catch trials (default: all must be correct).
        fastest_ms: exclude participants whose median time for an answer is shorter, in milliseconds.
        margin: margin of the equivalence test; a share of correct answers within 0.5 +- margin counts as guessing.
        split: the images, which are the examples that come with the model or a split of its data (default: the examples if
            there are enough, else test).
        title: the heading of the page; it must not give the answer away.
        consent: what participants agree to, with empty lines between paragraphs; on the command line a text file (default: a
            text that comes with cfgen; consent.txt in the new folder is a copy to edit).
        mail: the address that participants send their answers to if the page is not served by `cfgen app` (default: none).
        seed: seed of the choice of images, interventions, sides and orders; it is kept in study.json.
    """

    do: Sequence[Mapping[str, Any]] = option(
        group="questions", metavar="ATTRIBUTE=VALUE", read=lambda text: parse_assignments(text, "do"), repeat=True
    )
    questions: Sequence[str] = option(("edited",), group="questions", name="question", metavar="KIND", repeat=True)
    subject: str | None = option(None, group="questions", metavar="WORD")
    each: int = option(10, group="trials", metavar="N", type=PositiveInt)
    count: int | None = option(None, group="trials", metavar="N", type=PositiveInt)
    practice: int = option(2, group="trials", metavar="N", type=NonNegativeInt)
    catch: int = option(2, group="trials", metavar="N", type=NonNegativeInt)
    split: Literal["examples", "val", "test"] | None = option(None, group="trials")
    seed: int = option(0, group="trials", metavar="N", type=Seed)
    catch_right: int | None = option(None, group="rules", metavar="N", type=NonNegativeInt)
    fastest_ms: int = option(300, group="rules", metavar="MS", type=NonNegativeInt)
    margin: float = option(0.1, group="rules", metavar="SHARE")
    title: str = option("Look at pictures", group="page", metavar="TEXT")
    consent: str | None = option(None, group="page", metavar="FILE", read=read_consent)
    mail: str = option("", group="page", metavar="ADDRESS", type=str)

    def __post_init__(self) -> None:
        for question in self.questions:
            if question not in QUESTIONS:
                raise UserError(unknown_name("question", question, QUESTIONS), argument="question")
        if not self.questions or len(set(self.questions)) < len(self.questions):
            raise UserError("expected each question once, and at least one", argument="question")
        if ("same" in self.questions) != bool(self.subject):
            asked = "same" in self.questions
            problem = "say what the pictures show, such as person" if asked else "only the question same uses it"
            raise UserError(problem, argument="subject")
        if not self.do:
            raise UserError('expected a list of interventions, such as [{"thickness": 5}]', argument="do")
        require_at_least(self, each=1, practice=0, catch=0)
        if self.count is not None and self.count < self.each:
            message = f"a participant answers {self.each} of them, so at least that many are needed"
            raise UserError(message, argument="count")
        if not 0 < self.margin < 0.5:
            raise UserError(f"expected a number between 0 and 0.5, not {self.margin}", argument="margin")
        if self.catch_right is not None and not 0 <= self.catch_right <= self.catch:
            message = f"expected 0 to {self.catch}, the number of catch trials, not {self.catch_right}"
            raise UserError(message, argument="catch_right")
        if self.mail and not re.fullmatch(r"[\w.+-]+@[\w.-]+", self.mail, re.ASCII):
            raise UserError(f"{self.mail!r} is not an address for mail, such as study@example.org", argument="mail")
