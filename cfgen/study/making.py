"""A new study from a model: its trials, its sheets and the pictures themselves."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfgen.counterfactual import sweep
from cfgen.errors import UserError
from cfgen.io.writing import new_folder
from cfgen.options import documented_by, make_options
from cfgen.runs.model import TrainedModel, png_of
from cfgen.runs.provenance import fingerprint
from cfgen.study.design import ANSWERS, PAGE, QUESTIONS, STUDY, Rules, Study, Trial
from cfgen.study.options import StudyOptions
from cfgen.study.planning import Needed, Pair, Planner, images_of
from cfgen.study.wording import instructions_of

__all__ = ["DEFAULT_CONSENT", "NewStudy", "new_study"]

PARTS = Path(__file__).parent / "page"
STATIC = ("index.html", "study.css", "study.js")
DEFAULT_CONSENT = PARTS / "consent.txt"
SHEETS = 500  # a participant's id chooses one


@dataclass(frozen=True)
class NewStudy:
    """A study and its pictures, by file."""

    study: Study
    pictures: dict[str, bytes]

    def to_dict(self) -> dict[str, Any]:
        return self.study.to_dict()

    def save(self, folder: str | Path) -> Path:
        """Writes a new folder: `study.json` and `consent.txt`, which stay with you, and `page/`, which participants get."""
        with new_folder(folder) as new:
            for part in (PAGE, f"{PAGE}/images", ANSWERS):
                (new.place / part).mkdir()
            new.write({f"{PAGE}/images/{name}": png for name, png in self.pictures.items()})
            new.write({f"{PAGE}/{name}": (PARTS / name).read_bytes() for name in STATIC})
            new.write({
                f"{PAGE}/data.js": f"const STUDY = {json.dumps(self.study.for_page(), separators=(',', ':'))};\n",
                "consent.txt": self.study.consent + "\n",
                STUDY: json.dumps(self.study.to_dict(), indent=1) + "\n",
            })  # fmt: skip
        return new.path


@documented_by(StudyOptions)
def new_study(model: TrainedModel, do: Sequence[Mapping[str, Any]], **options: Any) -> NewStudy:
    """The study of Appendix L: pairs of reconstruction (Eq. 3) and counterfactual (Eq. 1), and which one was edited.

    Args:
        model: the model whose counterfactuals are shown.
        do: interventions, such as [{"thickness": 5}].
        options: the other fields of `StudyOptions`.
    """
    chosen = make_options(StudyOptions, {"do": do, **options})
    for one in do:
        try:
            model.schema.check_do(one)
        except ValueError as error:
            raise UserError(str(error), argument="do") from error
    questions = [question for question in QUESTIONS if question in chosen.questions]
    catch_right = chosen.catch if chosen.catch_right is None else chosen.catch_right
    chance = random.Random(chosen.seed)
    needed = Needed(questions, chosen.each, chosen.count, chosen.practice, chosen.catch)
    images = images_of(model, chosen.split, needed)
    planner = Planner(model, images, do, chosen.subject or "", chance, chosen.seed)
    trials, pictures = drawn(model, planner, planner.plan(needed), chance, chosen.seed)
    wording = chosen.consent if chosen.consent is not None else DEFAULT_CONSENT.read_text(encoding="utf-8")
    study = Study(
        title=chosen.title,
        model=str(model.source),
        model_fingerprint=fingerprint(None, model.module),
        images_from=images.description,
        seed=chosen.seed,
        each=chosen.each,
        rules=Rules(catch_right, chosen.fastest_ms, chosen.margin),
        instructions=instructions_of(questions, chosen.subject or ""),
        consent=wording.strip(),
        mail=chosen.mail,
        trials=trials,
        sheets=[sheet(trials, questions, chosen.each, chance) for _ in range(SHEETS)],
        checksums={name: hashlib.sha256(png).hexdigest() for name, png in sorted(pictures.items())},
    )
    return NewStudy(study, pictures)


def drawn(
    model: TrainedModel, planner: Planner, plan: Sequence[Pair], chance: random.Random, seed: int
) -> tuple[list[Trial], dict[str, bytes]]:
    """Draws what was planned: trials in a random order, and pictures under names that tell nothing."""
    images, rows = planner.images, torch.tensor(sorted({row for pair in plan for row in (pair.image, pair.other)}))
    asked = {}
    for name in dict.fromkeys(pair.do for pair in plan if pair.do):
        shown = torch.zeros(len(images.x), dtype=torch.bool)
        shown[[pair.other for pair in plan if pair.do == name]] = True
        asked[name] = replace(planner.asked[name], of=shown)
    x_r: dict[int, Tensor] = {}
    x_c: dict[tuple[str, int], Tensor] = {}
    for batch in sweep(model.module, images.x, images.columns, asked, seed=seed, only=rows):
        x_r |= dict(zip(batch.rows.tolist(), batch.x_r.cpu(), strict=True))
        for name in asked:
            x_c |= {
                (name, row): x
                for row, x in zip(batch.rows[batch.of(name)].tolist(), batch.x_c(name).cpu(), strict=True)
            }
    trials, pictures = [], dict[str, bytes]()
    for number, pair in enumerate(chance.sample(plan, len(plan))):
        first = x_r[pair.image]
        if pair.role == "catch":
            second = first if pair.question == "same" else with_chessboard(first)
        else:
            second = x_c[pair.do, pair.other]
        names = sorted(f"{chance.getrandbits(64):016x}.png" for _ in range(2))
        second_place = chance.randrange(2)
        pictures |= {names[1 - second_place]: png_of(first), names[second_place]: png_of(second)}
        right = int(pair.image != pair.other) if pair.question == "same" else second_place
        trials.append(
            Trial(f"t{number:03d}", pair.role, pair.question, pair.text, (names[0], names[1]), right, pair.do)
        )  # fmt: skip
    return trials, pictures


def with_chessboard(image: Tensor) -> Tensor:
    """An image (C, H, W) with squares over its middle: an edit that nobody misses who looks."""
    _, height, width = image.shape
    size = max(1, height // 14)
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None, :]
    board = ((rows // size + columns // size) % 2).to(image)
    inside = ((rows - height / 2).abs() < height / 5) & ((columns - width / 2).abs() < width / 5)
    return torch.where(inside, board, image)


def sheet(trials: Sequence[Trial], questions: Sequence[str], each: int, chance: random.Random) -> list[int]:
    """What one participant gets: practice first, then `each` of every question and the catch trials, mixed; sides by a coin.

    A coin for each side, and not as many left as right: whatever habit somebody has who sees no difference, the number of
    right answers is then binomial.
    """
    numbers: dict[tuple[str, str], list[int]] = {}
    for number, trial in enumerate(trials):
        numbers.setdefault((trial.role, trial.question), []).append(number)
    practice = [n for question in questions for n in numbers.get(("practice", question), [])]
    rest = [n for question in questions for n in numbers.get(("catch", question), [])]
    for question in questions:
        pool = numbers["main", question]
        if question == "same":
            rest += coin_chosen(trials, pool, each, chance)
        else:
            rest += chance.sample(pool, each)
    chance.shuffle(rest)
    return [2 * number + chance.randrange(2) for number in [*practice, *rest]]


def coin_chosen(trials: Sequence[Trial], pool: Sequence[int], each: int, chance: random.Random) -> list[int]:
    """Pairs of one and of two persons, by a coin for each as far as there are enough of both."""
    waiting = [[n for n in chance.sample(pool, len(pool)) if trials[n].right == right] for right in (0, 1)]
    chosen = []
    for _ in range(each):
        kind = chance.randrange(2)
        chosen.append((waiting[kind] or waiting[1 - kind]).pop())
    return chosen
