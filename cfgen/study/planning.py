"""Which pictures a study compares: every image gets at most one intervention and one trial."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from cfgen.attributes import Columns
from cfgen.contracts import KnowsPersons
from cfgen.counterfactual import asked_of
from cfgen.errors import UserError
from cfgen.runs.data import run_data
from cfgen.runs.examples import read_examples
from cfgen.runs.generation import name_of
from cfgen.runs.model import TrainedModel
from cfgen.study.wording import CHECKED, EDITED, same_text, shows_text

__all__ = ["Images", "Needed", "Pair", "Planner", "images_of"]

MOST_PAIRS = 40  # of each question, without a wish: a participant's ten differ from another's


@dataclass(frozen=True)
class Images:
    """What pictures are drawn from; `persons` has a number for each image, the same where it is the same person."""

    x: Tensor
    columns: Columns
    persons: Tensor
    description: str


@dataclass(frozen=True)
class Needed:
    """How many pairs a study needs, of which kinds."""

    questions: list[str]
    each: int
    count: int | None
    practice: int
    catch: int

    @property
    def least(self) -> int:
        """Images, at least; every other pair of `same` takes two."""
        pairs = self.count or self.each
        extra = (pairs + 1) // 2 if "same" in self.questions else 0
        return pairs * len(self.questions) + extra + self.practice + self.catch + bool(extra and self.practice)


def images_of(model: TrainedModel, split: str | None, needed: Needed) -> Images:
    """The model's examples or a split of its data."""
    examples = read_examples(model.folder, model.schema) if model.folder is not None else None
    if split is None:
        split = "examples" if examples is not None and len(examples.images) >= needed.least else "test"
    if split == "examples":
        if examples is None:
            raise UserError("this model has no examples: choose val or test", argument="split")
        numbers = torch.arange(len(examples.images))
        return Images(
            examples.images, examples.columns, numbers, f"{len(numbers)} examples that come with the model"
        )  # fmt: skip
    if model.source is None:
        raise UserError("this model has no data set that images could be taken from", argument="split")
    data = run_data(model.source, model.trusted)
    data.prepare_data()
    data.setup("test" if split == "test" else "fit")
    x = data.images(split)
    persons = data.persons(split) if isinstance(data, KnowsPersons) else torch.arange(len(x))
    return Images(x, data.columns(split), persons, f"the {len(x):,} {split} images of the model's data")


@dataclass(frozen=True)
class Pair:
    """A trial to be drawn: the image whose reconstruction is shown, and the one whose counterfactual is shown beside it."""

    role: Literal["practice", "catch", "main"]
    question: str
    text: str
    image: int
    other: int
    do: str


class Planner:
    """Gives every image at most one intervention and one trial, evenly over interventions."""

    def __init__(
        self,
        model: TrainedModel,
        images: Images,
        do: Sequence[Mapping[str, Any]],
        subject: str,
        chance: random.Random,
        seed: int,
    ) -> None:
        self.model, self.images, self.subject, self.chance = model, images, subject, chance
        self.do = {name_of(one): one for one in do}
        self.asked = {
            name: asked_of(model.module, images.columns, one, seed, changed_only=True) for name, one in self.do.items()
        }
        self.used = dict.fromkeys(self.do, 0)
        self.waiting = list(range(len(images.x)))
        chance.shuffle(self.waiting)

    def plan(self, needed: Needed) -> list[Pair]:
        """Catch and practice trials, then main trials in turn of each question until there are enough, or no image is left."""
        kinds, pairs, made = needed.questions, list[Pair](), 0
        try:
            pairs += [self.catch(kinds[k % len(kinds)]) for k in range(needed.catch)]
            pairs += [self.pair("practice", kinds[k % len(kinds)], k // len(kinds)) for k in range(needed.practice)]
            while made < (needed.count or max(MOST_PAIRS, needed.each)):
                pairs += [self.pair("main", question, made) for question in kinds]
                made += 1
        except TooFew:
            if made < (needed.count or needed.each):
                raise UserError(
                    f"{self.images.description} are enough for {made} pairs of each question beside practice and catch trials, "
                    f"and {needed.count or needed.each} are needed; ask for fewer, give further interventions, or take another "
                    "split",
                    argument="count" if needed.count else "each",
                ) from None
        return pairs

    def catch(self, question: str) -> Pair:
        if not self.waiting:
            raise TooFew
        image = self.waiting.pop()
        text = {"edited": EDITED, "shows": CHECKED, "same": same_text(self.subject)}[question]
        return Pair("catch", question, text, image, image, "")

    def pair(self, role: Literal["practice", "main"], question: str, number: int) -> Pair:
        image, name = self.next_image()
        other = image
        match question:
            case "same":
                text = same_text(self.subject)
                other = image if number % 2 else self.double(image, name)
            case "shows":
                own = {key: float(column[image]) for key, column in self.images.columns.items()}
                text = shows_text(self.model.schema, self.do[name], own)
            case _:
                text = EDITED
        return Pair(role, question, text, image, other, name)

    def next_image(self) -> tuple[int, str]:
        """An image that was not used, and of the interventions that change it the one that was used least."""
        for place in reversed(range(len(self.waiting))):  # from the end, which is cheap to take from
            image = self.waiting[place]
            if names := [name for name in self.do if self.asked[name].of[image]]:
                del self.waiting[place]
                name = min(names, key=self.used.__getitem__)
                self.used[name] += 1
                return image, name
        raise TooFew

    def double(self, image: int, name: str) -> int:
        """Another person with attributes like this one's, so that these do not tell that it is somebody else."""
        able = [
            other
            for other in self.waiting
            if self.asked[name].of[other] and self.images.persons[other] != self.images.persons[image]
        ]
        if not able:
            raise TooFew
        schema = self.model.schema
        a = schema.encode({key: self.images.columns[key][[image, *able]] for key in schema.names})
        other = able[int((a[1:] - a[0]).abs().sum(dim=1).argmin())]
        self.waiting.remove(other)
        return other


class TooFew(Exception):
    """No image is left that could be used."""
