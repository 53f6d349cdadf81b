"""An audit's computing: every image's base image and counterfactuals (Eq. 3 and 1), put to a classifier, as one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from cfgen.attributes import Continuous, Schema
from cfgen.audit.transformations import brighten, horizontal_flip
from cfgen.counterfactual import State, as_unit_float
from cfgen.evaluation.metrics.truth import KnowsTruth, true_images
from cfgen.scm.attribute_scm import Abduction
from lightning_modules import AttributeReader, ImageMechanismModule, ResidualKept

__all__ = ["AFFINE", "Audit", "Images", "KnowsTruth", "Plan", "Scores", "Triple", "readable"]

# Table 3's baselines; of the base image, so that pairs differ in the transformation alone, as counterfactual pairs do
AFFINE: dict[str, Callable[[Tensor], Tensor]] = {"horizontal_flip": horizontal_flip, "brightness": brighten}


@dataclass(frozen=True)
class Plan:
    """What is asked of the images: interventions by name, and binary attributes whose importance (Eq. 6) is wanted.

    Importance is measured on the first `explain_images` images.  `keep_residual`: see `ResidualKept`.
    """

    do: Mapping[str, Mapping[str, Any]]
    explain: Sequence[str] = ()
    explain_images: int = 1000
    seed: int = 0
    batch_size: int = 100
    keep_residual: bool = False


@dataclass(frozen=True)
class Scores:
    """One row an image, one column a question; NaN where the image was not asked.

    Probabilities of the positive class: `real` (x), `base` (x_r, or x with `keep_residual`, and then `own` is x_r), the names
    of AFFINE, `do/NAME` (x_c), `flip/ATTRIBUTE` (x_c under do(ATTRIBUTE = the other value)) and, where the truth is known,
    `true/NAME` (the true counterfactual image).
    Mean errors of pixels: `mse` (x_r to x), `error/NAME` (|x_c - truth|) and `untouched/NAME` (|x - truth|).
    1 where a reader sees what an intervention asks for, else 0: `seen/NAME` (in x_c) and `floor/NAME` (in x, where x has it).
    """

    names: list[str]
    values: Tensor

    def __getitem__(self, name: str) -> Tensor:
        return self.values[:, self.names.index(name)]


class Triple(NamedTuple):
    """The images behind rows of the table: real, base and counterfactual."""

    x: Tensor
    x_r: Tensor
    x_c: Tensor


@dataclass(frozen=True)
class Images:
    """The images to audit, (N, C, H, W) as bytes, their attributes in real units, and the split they are the first N of."""

    x: Tensor
    columns: dict[str, Tensor]
    split: str
    truth: KnowsTruth | None = None


class Audit(pl.LightningModule):
    """Fills `scores` when run by `Trainer.predict`, on any number of devices, each image counted once.

    Devices take turns at the same batches, and the noise abducted for an image is drawn beforehand, so the number of devices
    changes nothing.  Memory is bounded by a batch of images: what grows with their number is a row of the table each.
    """

    def __init__(
        self,
        mechanism: ImageMechanismModule,
        classifier: nn.Module,
        images: Images,
        plan: Plan,
        advance: Callable[[int], None] = lambda images: None,
        reader: AttributeReader | None = None,
    ) -> None:
        super().__init__()
        mechanism = ResidualKept(mechanism) if plan.keep_residual else mechanism
        self.mechanism, self.classifier = mechanism.requires_grad_(False), classifier
        self.images, self.plan, self.advance = images, plan, advance
        scm = mechanism.scm
        self.a = scm.schema.encode(images.columns)
        self.wanted = {name: scm.schema.check_do(do) for name, do in plan.do.items()}
        moving = set().union(*(scm.graph.descendants(do) for do in [*plan.do.values(), *([k] for k in plan.explain)]))
        self.abduction = scm.abduct(images.columns, torch.Generator().manual_seed(plan.seed), only=sorted(moving))
        self.reader = None if reader is None else reader.requires_grad_(False)
        self.readable = {} if reader is None else readable(scm.schema, reader.schema, plan)
        questions = ["real", "base", "mse", *AFFINE, *(f"do/{name}" for name in plan.do)]
        questions += ["own"] if plan.keep_residual else []
        questions += [f"flip/{name}" for name in plan.explain]
        questions += [f"{kind}/{name}" for name in self.readable for kind in ("seen", "floor")]
        if images.truth is not None:
            questions += [f"{kind}/{name}" for name in plan.do for kind in ("true", "error", "untouched")]
        self.scores = Scores(questions, torch.zeros(len(images.x), len(questions)))

    def predict_dataloader(self) -> DataLoader[Any]:
        batches = list(torch.arange(len(self.images.x)).split(self.plan.batch_size))
        mine = batches[self.trainer.global_rank :: self.trainer.world_size]
        return DataLoader(mine, batch_size=None)  # type: ignore[arg-type]  # a list of row numbers is a data set

    def predict_step(self, rows: Tensor, _: int) -> int:
        answers = self.answers(rows.cpu())
        found = [answers[name].to("cpu", torch.float32) for name in self.scores.names]
        self.scores.values[rows.cpu()] = torch.stack(found, dim=1)
        self.advance(len(rows) * self.trainer.world_size)
        return len(rows)

    def on_predict_epoch_end(self) -> None:
        # other processes' rows are 0 here, and 0 + value is that value to the bit
        table = self.trainer.strategy.reduce(self.scores.values.to(self.device), reduce_op="sum")
        self.scores = Scores(self.scores.names, table.cpu())

    def answers(self, rows: Tensor) -> dict[str, Tensor]:
        """All columns of the table for these rows."""
        x, a, z = self.abduct(rows)
        base = self.base(x, a, z)
        lost = z[1] if self.plan.keep_residual else x - base
        real = self.classifier(x)
        answers = {"real": real, "base": real if base is x else self.classifier(base)}
        answers["mse"] = lost.square().mean((1, 2, 3))
        if self.plan.keep_residual:
            answers["own"] = self.classifier(x - lost)
        answers |= {name: self.classifier(transform(base)) for name, transform in AFFINE.items()}
        for name, do in self.plan.do.items():
            changed = self.changed(name, rows)
            x_c = self.decode(z, rows, changed, do)
            answers[f"do/{name}"] = self.spread(changed, self.ask(x_c))
            if self.images.truth is not None:
                answers |= self.truth(name, rows[changed], changed, x[changed.to(x.device)], x_c)
            if name in self.readable:
                answers[f"seen/{name}"] = self.spread(changed, self.seen(name, x_c))
        answers |= self.floors(x, rows)
        for name in self.plan.explain:
            answers[f"flip/{name}"] = self.flipped(name, z, rows, answers)
        return answers

    def abduct(self, rows: Tensor) -> tuple[Tensor, Tensor, State]:
        """Images in [0, 1], their attribute vectors and their states."""
        x = as_unit_float(self.images.x[rows].to(self.device))
        a = self.a[rows].to(self.device)
        # a mechanism may draw its state: what it draws for a batch depends on the seed and the batch alone
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(self.plan.seed + int(rows[0]))
            z = self.mechanism.abduct(x, a)
        return x, a, z

    def base(self, x: Tensor, a: Tensor, z: State) -> Tensor:
        """x_r; where the residual is kept that is x, without drawing it."""
        return x if self.plan.keep_residual else self.mechanism.decode(z, a)

    def changed(self, name: str, rows: Tensor) -> Tensor:
        """Which of the rows an intervention changes; the others have the values already, and are not counted."""
        values = self.wanted[name].items()
        return torch.stack([self.images.columns[k][rows] != value.cpu() for k, value in values]).any(dim=0)

    def decode(self, z: State, rows: Tensor, chosen: Tensor, do: Mapping[str, Any]) -> Tensor:
        """x_c of the chosen rows."""
        mine = rows[chosen]
        factual, noise = ({k: v[mine].to(self.device) for k, v in part.items()} for part in self.abduction)
        values = self.mechanism.scm.predict(Abduction(factual, noise), do)
        a_c = self.a[mine].to(self.device)
        for name, slice_ in self.mechanism.scm.schema.slices.items():
            moved = values[name] != factual[name]  # what did not move keeps its very bits
            a_c[moved, slice_] = self.mechanism.scm.schema.encode_one(name, values[name])[moved]
        return self.mechanism.decode(chosen_states(z, chosen.to(self.device)), a_c) if len(mine) else a_c.new_empty(0)

    def ask(self, images: Tensor) -> Tensor:
        return self.classifier(images) if len(images) else images.new_empty(0)

    def spread(self, chosen: Tensor, values: Tensor) -> Tensor:
        """Values of the chosen rows at their places among all, with NaN between."""
        column = torch.full((len(chosen),), torch.nan, device=self.device)
        column[chosen.to(self.device)] = values.float()
        return column

    def flipped(self, name: str, z: State, rows: Tensor, answers: Mapping[str, Tensor]) -> Tensor:
        """p under do(name = the other value).  Where an intervention of the plan is just that, its answer is taken."""
        column = torch.full((len(rows),), torch.nan, device=self.device)
        for label, do in self.plan.do.items():
            if list(do) == [name]:
                column = torch.where(column.isnan(), answers[f"do/{label}"], column)
        explained = rows < self.plan.explain_images
        column[~explained.to(self.device)] = torch.nan
        missing = explained & column.isnan().cpu()
        if missing.any():
            other = 1 - self.images.columns[name][rows][missing]
            column[missing.to(self.device)] = self.ask(self.decode(z, rows, missing, {name: other})).float()
        return column

    def truth(self, name: str, rows: Tensor, changed: Tensor, x: Tensor, x_c: Tensor) -> dict[str, Tensor]:
        """What the classifier says of the true counterfactual images, and how far x_c and x are from them."""
        known = self.images.truth
        if not len(rows) or known is None:
            nothing = self.spread(changed, x_c)
            return {f"{kind}/{name}": nothing for kind in ("true", "error", "untouched")}
        truth = true_images(known, self.mechanism.scm.schema, self.images.split, rows, self.plan.do[name])
        images = as_unit_float(truth).to(self.device)
        found = {
            "true": self.classifier(images),
            "error": (x_c - images).abs().mean((1, 2, 3)),
            "untouched": (x - images).abs().mean((1, 2, 3)),
        }
        return {f"{kind}/{name}": self.spread(changed, values) for kind, values in found.items()}

    def seen(self, name: str, images: Tensor) -> Tensor:
        """Whether the reader sees in each image what an intervention asks for."""
        if self.reader is None or not len(images):
            return images.new_empty(0)
        return self.having(name, self.reader.read(images))

    def floors(self, x: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """The same of real images that have it: where the reader does not see it there, the generator is not to blame."""
        read = self.reader.read(x) if self.reader is not None else {}
        found = {}
        for name in self.readable:
            has = self.having(name, {k: column[rows] for k, column in self.images.columns.items()})
            found[f"floor/{name}"] = self.spread(has, self.having(name, read)[has.to(self.device)])
        return found

    def having(self, name: str, columns: Mapping[str, Tensor]) -> Tensor:
        wanted = self.wanted[name]
        return torch.stack([columns[k].round() == wanted[k].item() for k in self.readable[name]]).all(dim=0)

    @torch.inference_mode()
    def examples(self, name: str, rows: Tensor) -> Triple:
        """The images of some rows under an intervention, made again."""
        x, a, z = self.abduct(rows)
        x_c = self.decode(z, rows, torch.ones(len(rows), dtype=torch.bool), self.plan.do[name])
        return Triple(x, self.base(x, a, z), x_c)


def readable(schema: Schema, known: Schema, plan: Plan) -> dict[str, list[str]]:
    """Of interventions that a reader can judge, the attributes it is to see: all but continuous ones, which are seen more or
    less.  It has to know them as the same thing."""
    found = {}
    for text, do in plan.do.items():
        names = [name for name in do if not isinstance(schema[name], Continuous)]
        if names and all(schema[name] == known.attributes.get(name) for name in names):
            found[text] = names
    return found


def chosen_states(z: State, chosen: Tensor) -> State:
    """The states of chosen rows: a state is a tensor, or a tuple of them, with a row for each image."""
    if isinstance(z, Tensor):
        return z[chosen]
    return type(z)(chosen_states(part, chosen) for part in z)
