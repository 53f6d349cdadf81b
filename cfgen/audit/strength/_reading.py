"""What a predictor reads from pictures: values of attributes, and the log-odds of values where it has them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cfgen.attributes import Binary, Categorical, Continuous, Schema
from cfgen.contracts import ReadsAttributes
from lightning_modules import Predictor


def log_odds(attribute: str, value: object) -> str:
    """The name of the output that has the log-odds of a value.

    >>> log_odds("Young", 1)
    'log-odds of Young=1'
    """
    return f"log-odds of {attribute}={value}"


def same_kind(ours: Schema, theirs: Schema, name: str) -> bool:
    """Whether both schemas mean the same by an attribute; the range of a continuous one may differ."""
    mine, other = ours[name], theirs.attributes.get(name)
    return mine == other or (isinstance(mine, Continuous) and isinstance(other, Continuous))


def output_names(predictor: ReadsAttributes, attributes: Sequence[str]) -> list[str]:
    """The outputs of `read` for these attributes: their names, and log-odds of values where the predictor is a network of ours.

    A binary attribute has the log-odds of 1; those of 0 are the negative.
    """
    names = list(attributes)
    for name in attributes if isinstance(predictor, Predictor) else ():
        match predictor.schema[name]:
            case Binary():
                names.append(log_odds(name, 1))
            case Categorical(values):
                names += [log_odds(name, value) for value in values]
    return names


@torch.inference_mode()
def read(predictor: ReadsAttributes, x: Tensor, attributes: Sequence[str]) -> dict[str, Tensor]:
    """The outputs for images (n, C, H, W), each (n,) on their device; there may be no image.

    Values are in real units: the position of a categorical one.
    """
    names = output_names(predictor, attributes)
    if not len(x):
        return dict.fromkeys(names, x.new_empty(0))
    if not isinstance(predictor, Predictor):
        columns = predictor.read(x)
        return {name: columns[name] for name in names}
    raw = predictor(x)
    columns = predictor.decide(raw)
    outputs = {name: columns[name] for name in attributes}
    for name in attributes:
        part = raw[:, predictor.schema.slices[name]]
        match predictor.schema[name]:
            case Binary():
                outputs[log_odds(name, 1)] = part[:, 0]
            case Categorical(values):
                for k, value in enumerate(values):
                    others = torch.cat([part[:, :k], part[:, k + 1 :]], dim=1)
                    outputs[log_odds(name, value)] = part[:, k] - others.logsumexp(dim=1)
    return outputs
