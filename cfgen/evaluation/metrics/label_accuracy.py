"""How often a classifier sees the label that was asked for (Appendix G)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from cfgen.attributes import Categorical, Columns, Schema
from cfgen.errors import UserError
from cfgen.evaluation.metrics.asked import asked_values, asked_vectors
from cfgen.evaluation.metrics.batches import batches
from lightning_modules import Classifier, ImageMechanismModule

__all__ = ["label_accuracy", "label_name"]


def label_name(schema: Schema, classes: int) -> str:
    """The one categorical attribute, which a classifier of so many classes judges."""
    names = [name for name, attribute in schema.attributes.items() if isinstance(attribute, Categorical)]
    if len(names) != 1:
        raise UserError(
            f"--classifier has {classes} classes and judges the one categorical attribute of a run; this run has "
            f"{len(names) or 'none'} ({', '.join(schema.names)})"
        )
    if schema[names[0]].size != classes:
        raise UserError(f"--classifier has {classes} classes, and {names[0]} has {schema[names[0]].size} values")
    return names[0]


@torch.inference_mode()
def label_accuracy(
    mechanism: ImageMechanismModule, judge: Classifier, x: Tensor, columns: Columns, seed: int = 0
) -> Iterator[dict[str, Tensor]]:
    """For each image, asked for another label than its own: 1 where the judge sees the label asked for on x_c, else 0.

    `accuracy/do(label)` is that; `accuracy/real images` the same of x and its own label: what the judge itself can do.
    """
    schema = mechanism.scm.schema
    name = label_name(schema, judge.classes)
    own, asked = columns[name].long(), asked_values(columns, schema, seed)[name].long()
    a_c = asked_vectors(mechanism.scm, columns, seed)[name]
    for rows, images, a in batches(schema, x, columns):
        x_c = mechanism.decode(mechanism.abduct(images, a), a_c[rows])
        yield {
            f"accuracy/do({name})": (judge.predict(x_c).cpu() == asked[rows].cpu()).float(),
            "accuracy/real images": (judge.predict(images).cpu() == own[rows].cpu()).float(),
        }
