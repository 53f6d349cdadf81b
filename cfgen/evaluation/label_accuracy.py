"""How often a classifier sees the label that was asked for (Appendix G)."""

from __future__ import annotations

import torch
from torch import Tensor

from cfgen.attributes import Categorical, Columns
from cfgen.errors import UserError
from cfgen.evaluation.batches import batches
from lightning_modules import Classifier, ImageMechanismModule

__all__ = ["label_accuracy"]


@torch.inference_mode()
def label_accuracy(
    mechanism: ImageMechanismModule, judge: Classifier, x: Tensor, columns: Columns, seed: int = 0
) -> dict[str, float]:
    """The share of counterfactuals in which the judge sees the label asked for, each image asked for another than its own.

    Beside it the share of real images in which it sees their own: what the judge itself can do.
    """
    schema = mechanism.scm.schema
    names = [name for name, attribute in schema.attributes.items() if isinstance(attribute, Categorical)]
    if len(names) != 1:
        raise UserError(
            "--classifier judges the one categorical attribute of a run; this run has another number of them"
        )
    (name,) = names
    values = schema[name].size
    own = columns[name].long()
    generator = torch.Generator().manual_seed(seed)
    asked = (own + torch.randint(1, values, (len(x),), generator=generator)) % values
    right = on_real = 0
    for rows, images, a in batches(schema, x, columns):
        a_c = mechanism.scm.counterfactual_vector(a, {name: asked[rows]})
        x_c = mechanism.decode(mechanism.abduct(images, a), a_c)
        right += int((judge.predict(x_c) == asked[rows]).sum())
        on_real += int((judge.predict(images) == own[rows]).sum())
    return {f"accuracy/do({name})": right / len(x), "accuracy/real images": on_real / len(x)}
