"""What a predictor reads off images, reconstructions and the counterfactuals of many interventions, as one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.attributes import Columns, Schema
from cfgen.audit.drawn import Readings
from cfgen.audit.reading import evidence, grades, read
from cfgen.contracts import ReadsAttributes
from cfgen.counterfactual import asked_of, sweep
from cfgen.effects import Array
from cfgen.processes import Processes
from lightning_modules import ImageMechanismModule, ResidualKept

__all__ = ["read_images"]


@torch.inference_mode()
def read_images(
    mechanism: ImageMechanismModule,
    predictor: ReadsAttributes,
    x: Tensor,
    columns: Columns,
    do: Mapping[str, Mapping[str, Any]],
    batch_size: int,
    seed: int,
    processes: Processes | None,
    advance: Callable[[int], None],
) -> Readings:
    """What the predictor reads off images, reconstructions and counterfactuals; the same on every process."""
    if processes is not None:
        processes.launch()
        mechanism = mechanism.to(processes.device)
    schema = mechanism.scm.schema
    names = schema.names
    if isinstance(predictor, nn.Module):
        predictor.to(schema.low.device)
    asked = {text: asked_of(mechanism, columns, values, seed, changed_only=True) for text, values in do.items()}
    kinds = ["real", "reconstructed", *asked]
    graded = grades(predictor)
    table = torch.zeros(len(x), len(kinds), len(names) + (predictor.schema.size if graded else 0))
    share = (0, 1) if processes is None else processes.share
    sweeping = sweep(
        mechanism, x, columns, asked, seed=seed, batch_size=batch_size, share=share, advance=advance
    )  # fmt: skip
    for batch in sweeping:
        table[batch.rows, 0] = read_table(predictor, batch.x, names)
        table[batch.rows, 1] = read_table(predictor, batch.own_x_r, names)
        for k, text in enumerate(asked, start=2):
            x_c = batch.decode(batch.a_c(text), batch.of(text))
            table[batch.rows, k] = batch.spread(text, read_table(predictor, x_c, names)).cpu()
    if processes is not None:
        table = processes.sum(table)  # other processes' rows are 0 here
    parts = dict(zip(kinds, table.double().unbind(dim=1), strict=True))
    columns_read = {
        kind: dict(zip(names, part[:, : len(names)].numpy().T, strict=True)) for kind, part in parts.items()
    }
    outputs = {kind: part[:, len(names) :] for kind, part in parts.items()}
    base = columns_read["real" if isinstance(mechanism, ResidualKept) else "reconstructed"]
    a = schema.encode({name: columns[name].to(schema.low.device) for name in names})
    return Readings(
        columns_read["real"],
        columns_read["reconstructed"],
        base,
        {text: columns_read[text] for text in asked},
        a.cpu().double().numpy(),
        {text: one.a_c.cpu().double().numpy() for text, one in asked.items()},
        graded_readings(predictor.schema, schema, outputs, do) if graded else {},
    )


def graded_readings(
    theirs: Schema, ours: Schema, outputs: Mapping[str, Tensor], do: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[Array, Array]]:
    """By intervention on a binary or categorical attribute, how much speaks for its value in images and counterfactuals."""
    found = {}
    for text, assigned in do.items():
        values = {name: value.item() for name, value in ours.check_do(assigned).items()}
        if not set(values) & set(ours.continuous):
            found[text] = tuple(evidence(outputs[kind], theirs, values).numpy() for kind in ("real", text))
    return found  # type: ignore[return-value]  # two of each


def read_table(predictor: ReadsAttributes, images: Tensor, names: Sequence[str]) -> Tensor:
    """The readings of some attributes, (N, names), on the CPU, and after them the predictor's outputs where it grades."""
    if not len(images):
        return torch.empty(0, len(names) + (predictor.schema.size if grades(predictor) else 0))
    columns, outputs = read(predictor, images)
    decided = torch.stack([columns[name].cpu().float() for name in names], dim=1)
    return decided if outputs is None else torch.cat([decided, outputs.cpu().float()], dim=1)
