"""An audit's computing: classifiers' answers for images, their base images and counterfactuals (Eq. 3 and 1), as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cfgen.audit.asking import (
    asked_already,
    do_column,
    intervention_asked,
    interventions_asked,
    start_asked,
    start_column,
)
from cfgen.audit.columns import column_names, scores_of, table_names
from cfgen.audit.explained import Line
from cfgen.audit.plan import Plan, Scores, do_of, held
from cfgen.audit.reading import Reading, evidence, grades, matches, read, readable, target_value
from cfgen.audit.transformations import AFFINE
from cfgen.audit.truth import true_images
from cfgen.contracts import KnowsTruth, ReadsAttributes
from cfgen.counterfactual import Swept, as_unit_float, filled_up, spread, sweep
from cfgen.external.answers import EveryClass, Regressor
from cfgen.processes import Processes
from lightning_modules import ImageMechanismModule, ResidualKept

__all__ = ["Images", "Triple", "audited_mechanism", "compute_scores", "example_images"]

READ = 500  # images that a predictor looks at: how strongly an attribute is drawn is then known to a few points
TruePairs = Callable[[Tensor, str, Tensor], Tensor]


@dataclass(frozen=True)
class Images:
    """The images to audit, (N, C, H, W) as bytes, their attributes in real units, and the split they are the first N of.

    `truth` is the data where it knows the true counterfactuals.  `pairs` are the images whose true counterfactual is used, by
    intervention, and `true_pairs` makes them, of (rows, intervention, a_c).
    """

    x: Tensor
    columns: Mapping[str, Tensor]
    split: str
    truth: KnowsTruth | None = None
    pairs: Mapping[str, Tensor] = field(default_factory=dict)
    true_pairs: TruePairs | None = None


class Triple(NamedTuple):
    """The images behind rows of the table: real, base (under a contrast, that at its first value) and counterfactual."""

    x: Tensor
    x_r: Tensor
    x_c: Tensor


def compute_scores(
    mechanism: ImageMechanismModule,
    classifiers: Mapping[str, nn.Module],
    images: Images,
    plan: Plan,
    *,
    lines: Sequence[Line] = (),
    predictor: ReadsAttributes | None = None,
    processes: Processes | None = None,
    advance: Callable[[int], None] = lambda images: None,
) -> dict[str, Scores]:
    """A table of answers for each classifier, the same on every process; a classifier gives p(positive class | image).

    One that gives the probability of every class, (N, classes), has a table for each of them: its `tables` are their names.
    Each image is abducted once and each counterfactual decoded once, for all classifiers.  Memory is bounded by a batch of
    images: what grows with their number is a row of the tables each.  Classifiers and predictor are moved to the mechanism's
    device, and all to that of `processes` where it is given.
    """
    device = mechanism.scm.schema.low.device
    if processes is not None:
        processes.launch()
        device = processes.device
    mechanism = audited_mechanism(mechanism, plan).to(device)
    for module in (*classifiers.values(), predictor):
        if isinstance(module, nn.Module):
            module.to(device)
    batches = sweep(
        mechanism,
        images.x,
        images.columns,
        interventions_asked(mechanism, images.columns, plan, lines),
        seed=plan.seed,
        batch_size=plan.batch_size,
        share=processes.share if processes is not None else (0, 1),
        advance=advance,
    )
    names = column_names(mechanism.scm.schema, plan, lines, predictor, images.truth is not None, images.pairs)
    tables = {key: table_names(key, classifier) for key, classifier in classifiers.items()}
    values = torch.zeros(sum(map(len, tables.values())), len(images.x), len(names))
    for batch in batches:
        answers = BatchAnswers(batch, classifiers, images, plan, lines, predictor)
        answers.fill()
        number = 0
        for key, own in answers.own.items():
            columns = answers.shared | own
            for k in range(len(tables[key])):
                mine = [columns[name] if columns[name].ndim == 1 else columns[name][:, k] for name in names]
                values[number, batch.rows] = torch.stack([one.to("cpu", torch.float32) for one in mine], dim=1)
                number += 1
        del batch, answers  # before the next batch is made
    # other processes' rows are 0 here, and 0 + value is that value to the bit
    whole = values if processes is None else processes.sum(values)
    parts = whole.split([len(mine) for mine in tables.values()])
    found: dict[str, Scores] = {}
    for classifier, own_tables, part in zip(classifiers.values(), tables.values(), parts, strict=True):
        found |= scores_of(names, own_tables, part, isinstance(classifier, Regressor))
    return found


def audited_mechanism(mechanism: ImageMechanismModule, plan: Plan) -> ImageMechanismModule:
    return ResidualKept(mechanism) if plan.keep_residual else mechanism


class BatchAnswers:
    """All columns of a batch: those of images alone (`shared`), and each classifier's own."""

    def __init__(
        self,
        batch: Swept,
        classifiers: Mapping[str, nn.Module],
        images: Images,
        plan: Plan,
        lines: Sequence[Line],
        predictor: ReadsAttributes | None,
    ) -> None:
        self.batch, self.classifiers, self.images, self.plan = batch, classifiers, images, plan
        self.lines, self.predictor = lines, predictor
        self.shared: dict[str, Tensor] = {}
        self.own: dict[str, dict[str, Tensor]] = {name: {} for name in classifiers}

    def ask(self, column: str, x: Tensor, of: Tensor | None = None) -> None:
        """Every classifier's answers for images, at the places of a mask where it is given; there may be no image."""
        filled = filled_up(len(x), len(self.batch)).to(x.device)
        shown = x if len(filled) == len(x) else x[filled]
        for name, classifier in self.classifiers.items():
            several = (len(classifier.classes),) if isinstance(classifier, EveryClass) else ()
            p = classifier(shown)[: len(x)] if len(x) else x.new_empty(0, *several)
            self.own[name][column] = p if of is None else spread(p, of)

    @torch.inference_mode()
    def fill(self) -> None:
        batch, x_r = self.batch, self.batch.x_r
        self.ask("real", batch.x)
        if x_r is batch.x:
            for columns in self.own.values():
                columns["base"] = columns["real"]
        else:
            self.ask("base", x_r)
        own = batch.own_x_r if self.plan.keep_residual else x_r
        self.shared["mse"] = (batch.x - own).square().mean((1, 2, 3))
        if self.plan.keep_residual:
            self.ask("own", own)
        for name, transform in AFFINE.items():
            self.ask(name, transform(x_r))
        for name in self.plan.do:
            self.fill_intervention(name)
        for line in self.lines:
            self.fill_line(line)

    def fill_intervention(self, name: str) -> None:
        batch, column = self.batch, do_column(name)
        of = batch.of(column)
        x_c = batch.decode(batch.a_c(column), of)  # not kept: nothing else looks at them
        self.ask(column, x_c, of)
        if name in self.plan.start:
            self.ask(start_column(name), batch.decode(batch.a_c(start_column(name))))
        self.compare_with_truth(name, x_c, of)
        self.fill_pairs(name, of)
        if name in self.readable:
            self.put_reading(name, x_c, of, ("seen", "drawn"), f"/{name}")
            for kind, values in zip(("read", "there"), self.judged(name, self.read_real), strict=True):
                if values is not None:
                    self.shared[f"{kind}/{name}"] = spread(values, self.looked_at)
        for strength in self.plan.strengths:
            dose = f"dose/{name}/{strength:g}"
            at = batch.of(dose)
            x_s = batch.decode(batch.a_c(dose), at)
            self.ask(dose, x_s, at)
            if name in self.readable:
                self.put_reading(name, x_s, at, ("seen", "drawn"), f"/{name}/{strength:g}")

    @cached_property
    def readable(self) -> dict[str, dict[str, float]]:
        return readable(self.batch.mechanism.scm.schema, self.predictor, self.plan)

    @cached_property
    def looked_at(self) -> Tensor:
        """Which images of the batch the predictor looks at."""
        return self.batch.rows < READ

    @cached_property
    def read_real(self) -> Reading:
        return self.read(self.batch.x[self.looked_at.to(self.batch.x.device)])

    def read(self, x: Tensor) -> Reading:
        """There may be no image to read."""
        assert self.predictor is not None
        if len(x):
            return read(self.predictor, x)
        empty = x.new_empty(0)
        outputs = x.new_empty(0, self.predictor.schema.size) if grades(self.predictor) else None
        return Reading(dict.fromkeys(self.predictor.schema.names, empty), outputs)

    def put_reading(self, name: str, x: Tensor, of: Tensor, kinds: Sequence[str], end: str) -> None:
        """What the predictor reads in images `x` of the rows `of`, as far as they are looked at."""
        reading = self.read(x[self.looked_at[of].to(x.device)])
        for kind, values in zip(kinds, self.judged(name, reading), strict=True):
            if values is not None:
                self.shared[f"{kind}{end}"] = spread(values, of & self.looked_at)

    def judged(self, name: str, reading: Reading) -> tuple[Tensor, Tensor | None]:
        """Whether what is asked for is read, and how much speaks for it; of one continuous attribute, the value that is read."""
        assert self.predictor is not None
        alone = target_value(self.batch.mechanism.scm.schema, self.plan.do[name])
        if alone is not None:
            return reading.columns[alone[0]], None
        values = self.readable[name]
        graded = None if reading.outputs is None else evidence(reading.outputs, self.predictor.schema, values)
        return matches(reading.columns, values), graded

    def compare_with_truth(self, name: str, x_c: Tensor, of: Tensor) -> None:
        """Answers for the true counterfactual images, and how far x_c and x are from these."""
        if self.images.truth is None or name in self.plan.start:
            return
        batch, schema = self.batch, self.batch.mechanism.scm.schema
        x_true, x = batch.x[:0], batch.x[of.to(batch.x.device)]
        if of.any():
            kept = held(self.plan, self.batch.mechanism.scm.graph, self.plan.do[name])
            own = {key: self.images.columns[key][batch.rows[of]] for key in kept}
            values = do_of(self.plan, name, batch.rows[of])
            truth = true_images(self.images.truth, schema, self.images.split, batch.rows[of], {**values, **own})
            x_true = as_unit_float(truth).to(batch.x.device)
        self.ask(f"true/{name}", x_true, of)
        for kind, images in (("error", x_c), ("untouched", x)):
            self.shared[f"{kind}/{name}"] = spread((images - x_true).abs().mean((1, 2, 3)), of)

    def fill_pairs(self, name: str, of: Tensor) -> None:
        """Answers for the true counterfactuals of the images that are used as pairs."""
        if name not in self.images.pairs:
            return
        chosen = self.images.pairs[name][self.batch.rows] & of
        if self.images.truth is not None:  # they are drawn already
            for columns in self.own.values():
                known = columns[f"true/{name}"]
                left = ~chosen.to(known.device)
                columns[f"pair/{name}"] = known.masked_fill(left if known.ndim == 1 else left[:, None], torch.nan)
            return
        x_true = self.batch.x[:0]
        if chosen.any():
            assert self.images.true_pairs is not None
            rows, a_c = self.batch.rows[chosen], self.batch.asked[do_column(name)].a_c
            made = self.images.true_pairs(rows, name, a_c[rows.to(a_c.device)])
            x_true = as_unit_float(made).to(self.batch.x.device)
        self.ask(f"pair/{name}", x_true, chosen)

    def fill_line(self, line: Line) -> None:
        """p under a line of the ranking.  Where an intervention of the plan is just that, its answer is taken."""
        batch, column = self.batch, f"flip/{line.name}"
        of = batch.of(column)
        self.ask(column, batch.decode(batch.a_c(column), of), of)
        for label, same in asked_already(self.plan, batch.mechanism, line).items():
            here = same[batch.rows].to(batch.x.device)
            for columns in self.own.values():
                given, asked = columns[do_column(label)], columns[column]
                columns[column] = torch.where(here if given.ndim == 1 else here[:, None], given, asked)


def example_images(mechanism: ImageMechanismModule, images: Images, plan: Plan, name: str, rows: Tensor) -> Triple:
    """The images of some rows under an intervention: those that `compute_scores` put to the classifiers."""
    mechanism = audited_mechanism(mechanism, plan)
    with torch.inference_mode():
        asked = {name: intervention_asked(mechanism, images.columns, plan, name, changed_only=False)}
        if name in plan.start:
            asked[start_column(name)] = start_asked(mechanism, images.columns, plan, name)
    batches = sweep(
        mechanism, images.x, images.columns, asked, seed=plan.seed, batch_size=plan.batch_size, only=rows
    )  # fmt: skip
    triples = [
        (batch.x, batch.x_c(start_column(name)) if name in plan.start else batch.x_r, batch.x_c(name))
        for batch in batches
    ]
    return Triple(*(torch.cat(parts).cpu() for parts in zip(*triples, strict=True)))
