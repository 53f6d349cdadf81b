"""`answer`: the only step whose cost grows with images times interventions.  Pictures are drawn, shown and forgotten."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from cfgen.audit._choose_pairs import make_pairs
from cfgen.audit._material import Material
from cfgen.audit._tables import Tables, arm_pictures, read_attributes, true_picture
from cfgen.audit._transformations import AFFINE
from cfgen.audit.answers import (
    COUNTERFACTUAL,
    DISTANCE_TO_TRUTH,
    MSE,
    PAIRS,
    REAL,
    RECONSTRUCTION,
    TRANSFORMED,
    TRUE,
    Answers,
    Picture,
    Readings,
)
from cfgen.audit.questions import Questions, Request
from cfgen.audit.strength import read
from cfgen.classifiers import LoadedClassifier
from cfgen.contracts import true_images
from cfgen.counterfactual import Swept, as_unit_float, asked_of, filled_up, spread, sweep
from cfgen.interventions import Intervention
from cfgen.processes import Processes
from cfgen.progress import Progress, reported


def answer(
    questions: Questions, *, processes: Processes | None = None, progress: Progress = False
) -> tuple[Answers, Readings]:
    """The answers of all classifiers to all pictures, and what a predictor reads from them.

    Each image is abducted once and each counterfactual decoded once per model, for all classifiers.  Memory is bounded by a batch
    of images; only the tables grow with their number.  The result is the same on every process, for any batch size.
    """
    material = questions.loaded()
    if processes is not None:
        processes.launch()
    device = questions.schema.low.device if processes is None else processes.device
    material.networks_to(device)
    tables = Tables(questions, material)
    with contextlib.ExitStack() as stack:
        shown = progress if processes is None or processes.first else False
        work = len(material.models) * len(material.x)
        advance = stack.enter_context(reported(shown, "auditing", work))
        for model in material.models:
            _sweep_model(questions, material, model, tables, device, processes, advance)
    tables.add_up(processes)
    _answer_outside_pairs(questions, material, tables, device)
    return tables.answers(), tables.readings()


def _sweep_model(
    questions: Questions,
    material: Material,
    model: str,
    tables: Tables,
    device: torch.device,
    processes: Processes | None,
    advance: Callable[[int], None],
) -> None:
    """Fills the tables with the pictures of one model."""
    batches = sweep(
        material.mechanism(model, device),
        material.x,
        questions.columns,
        seed=questions.seed,
        keys=questions.keys,
        batch_size=material.options.batch_size,
        share=processes.share if processes is not None else (0, 1),
        advance=advance,
    )
    requests = {one: request.to(device) for one, request in questions.requests.items() if one.model == model}
    for batch in batches:
        _Batch(batch, model, questions, material, requests, tables).fill()
        del batch  # before the next batch is made


class _Batch:
    """A batch of images: its pictures are drawn one after another, shown to all classifiers, and read."""

    def __init__(
        self,
        batch: Swept,
        model: str,
        questions: Questions,
        material: Material,
        requests: Mapping[Picture, Request],
        tables: Tables,
    ) -> None:
        self.batch, self.model, self.questions, self.material = batch, model, questions, material
        self.requests, self.tables = requests, tables

    @torch.inference_mode()
    def fill(self) -> None:
        batch, first = self.batch, self.model == self.questions.models[0]
        own = batch.own_x_r if self.material.options.keep_residual else batch.x_r
        self.ask(Picture(RECONSTRUCTION, model=self.model), own)
        if first:
            self.ask(Picture(REAL), batch.x)
            error = (batch.x - own).square().mean((1, 2, 3))
            self.tables.put_reading(Picture(RECONSTRUCTION, model=self.model), MSE, batch.rows, error)
            self.read(Picture(REAL), batch.x, torch.ones(len(batch), dtype=torch.bool), read_attributes(self.material))
            for name, transform in AFFINE.items():
                self.ask(Picture(TRANSFORMED, name), transform(batch.x_r))
        for intervention in self.questions.interventions:
            self.fill_intervention(intervention, first)
        for toggle in self.questions.toggles if first else ():
            self.fill_toggle(toggle)

    def ask(self, picture: Picture, x: Tensor, mask: Tensor | None = None) -> None:
        """All classifiers' answers to pictures of the batch, or of its images in a mask; there may be none."""
        filled = filled_up(len(x), len(self.batch)).to(x.device)
        shown = x if len(filled) == len(x) else x[filled]
        for name, classifier in self.material.classifiers.items():
            raw = classifier.network(shown)[: len(x)] if len(x) else x.new_empty(0, len(classifier.outcome.columns))
            self.tables.put(name, picture, self.batch.rows, raw if mask is None else spread(raw, mask))

    def fill_intervention(self, intervention: Intervention, first: bool) -> None:
        x_c, mask = self.batch.x[:0], torch.zeros(len(self.batch), dtype=torch.bool)
        for picture in arm_pictures(self.questions, intervention, self.model):
            x_c, mask = self.draw(picture)
            self.ask(picture, x_c, mask)
        if first:
            self.read(picture, x_c, mask, self.material.reads.get(intervention.name, ()))
            self.fill_truth(intervention, picture, x_c, mask)

    def draw(self, picture: Picture) -> tuple[Tensor, Tensor]:
        """The counterfactuals of the images that an intervention changes, and which of the batch these are."""
        request = self.requests[picture]
        mask = request.mask[self.batch.rows]
        return self.batch.decode(request.attributes(self.batch.rows[mask]), mask), mask

    def read(self, picture: Picture, x: Tensor, mask: Tensor, attributes: object) -> None:
        """What the predictor reads from pictures of the images in a mask, as far as it reads these images."""
        if self.material.predictor is None or not attributes:
            return
        looked_at = self.material.read_rows[self.batch.rows]
        found = read(self.material.predictor, x[looked_at[mask].to(x.device)], list(attributes))  # type: ignore[call-overload]
        for output, values in found.items():
            self.tables.put_reading(picture, output, self.batch.rows, spread(values, mask & looked_at))

    def fill_truth(self, intervention: Intervention, picture: Picture, x_c: Tensor, mask: Tensor) -> None:
        """Answers to the true counterfactuals, and how far x_c and x are from them, where they are known."""
        true = true_picture(self.questions, intervention)
        if true is None:
            return
        rows, batch = self.batch.rows, self.batch
        if not self.questions.has_truth:  # made for the pairs alone
            mask = mask & self.questions.pairs[intervention.name][rows]
        x_true = batch.x[:0]
        if mask.any():
            x_true = as_unit_float(self.true_counterfactuals(intervention, rows[mask])).to(batch.x.device)
        self.ask(true, x_true, mask)
        if self.questions.has_truth:
            x = batch.x[mask.to(batch.x.device)]
            for where, images in ((picture, x_c), (Picture(REAL, intervention.name), x)):
                distance = spread((images - x_true).abs().mean((1, 2, 3)), mask)
                self.tables.put_reading(where, DISTANCE_TO_TRUTH, rows, distance)

    def true_counterfactuals(self, intervention: Intervention, rows: Tensor) -> Tensor:
        questions, material = self.questions, self.material
        if questions.has_truth:
            arm = intervention.arms(questions.columns)[-1]
            held = {name: questions.columns[name][rows] for name in questions.held_by(intervention)}
            do = {**arm.rows(rows), **held}
            return true_images(material.data, questions.schema, material.options.split, rows, do)  # type: ignore[arg-type]
        made = make_pairs(questions, material.data, material.options.split, intervention, rows)
        assert made is not None
        return made

    def fill_toggle(self, toggle: Intervention) -> None:
        """Answers under a line of the ranking; those of an intervention that asks for the same attributes are reused."""
        (picture,) = arm_pictures(self.questions, toggle, self.model)
        request = self.requests[picture]
        mask = request.mask[self.batch.rows]
        reused = torch.zeros_like(mask)
        sources: list[tuple[Picture, Tensor]] = []
        for one in self.questions.interventions:
            if one.attributes != toggle.attributes or self.questions.held_by(one):
                continue
            source = arm_pictures(self.questions, one, self.model)[-1]
            other = self.requests[source]
            both = (mask & other.mask[self.batch.rows] & ~reused).nonzero()[:, 0]
            rows = self.batch.rows[both]
            same = (request.attributes(rows) == other.attributes(rows)).all(dim=1).cpu()
            sources.append((source, both[same]))
            reused[both[same]] = True
        drawn = mask & ~reused
        self.ask(picture, self.batch.decode(request.attributes(self.batch.rows[drawn]), drawn), drawn)
        for source, places in sources:
            rows = self.batch.rows[places]
            for name in self.material.classifiers:
                raw = self.tables.raw[name]
                raw[self.tables.place[picture], rows] = raw[self.tables.place[source], rows]


@torch.inference_mode()
def _answer_outside_pairs(questions: Questions, material: Material, tables: Tables, device: torch.device) -> None:
    """Answers to pairs of pictures from outside, and to the model's counterfactuals of those before."""
    if material.outside is None:
        return
    model = questions.models[0]
    mechanism = material.mechanism(model, device)
    for one in questions.interventions:
        pairs = material.outside.matching(one)
        if pairs is None:
            continue
        before, after, columns = pairs
        do = {name: value.to(device) for name, value in one.drawn(columns).items()}
        do |= {name: columns[name].to(device) for name in questions.held_by(one)}
        asked = {one.name: asked_of(mechanism, columns, do, questions.seed)}
        batches = sweep(mechanism, before, columns, asked, seed=questions.seed, batch_size=material.options.batch_size)
        drawn = torch.cat([batch.x_c(one.name) for batch in batches])
        shown = {REAL: as_unit_float(before), TRUE: as_unit_float(after), COUNTERFACTUAL: drawn}
        for name, classifier in material.classifiers.items():
            for picture, images in shown.items():
                raw = _in_parts(classifier, images.to(device), material.options.batch_size)
                tables.outside[name][Picture(picture, one.name, sample=PAIRS)] = raw


def _in_parts(classifier: LoadedClassifier, images: Tensor, size: int) -> Tensor:
    return torch.cat([classifier.network(part) for part in images.split(size)]).cpu().to(torch.float32)
