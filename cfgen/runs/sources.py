"""The images that counterfactuals are drawn of: a model's examples, images of its test split, or pictures of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Columns, unknown_name
from cfgen.checkpoints import CONFIG
from cfgen.contracts import measured_names
from cfgen.errors import UserError
from cfgen.runs.data import run_data
from cfgen.runs.examples import read_examples
from cfgen.runs.model import TrainedModel
from cfgen.runs.pictures import frame_of, read_picture

__all__ = ["Source", "framed_pictures", "known_images", "own_images"]


@dataclass(frozen=True)
class Source:
    """Images with their attributes in real units, what each is called, and which of a larger set they are."""

    images: Tensor
    columns: Columns
    names: list[str]
    rows: Tensor
    description: str


def known_images(model: TrainedModel, index: Sequence[int]) -> Source:
    """Chosen examples of an exported model that has some, else chosen images of the test split."""
    examples = read_examples(model.folder, model.schema) if model.folder is not None else None
    if examples is not None:
        images, columns = examples
        kind, prefix = "examples that come with the model", "example-"
    elif model.source is not None:
        data = run_data(model.source, model.trusted)
        data.prepare_data()
        data.setup("test")
        images, columns = data.images("test"), data.columns("test")
        kind, prefix = "test images", "#"
    else:
        raise UserError("this model has no examples and no data set: give images of your own", argument="images")
    numbers = list(index)
    if not numbers or min(numbers) < 0 or max(numbers) >= len(images):
        raise UserError(f"there are {len(images)} {kind}, numbered 0 to {len(images) - 1}", argument="index")
    description = f"{len(numbers)} of the {len(images):,} {kind}"
    return Source(images, columns, [f"{prefix}{number}" for number in numbers], torch.tensor(numbers), description)


def framed_pictures(model: TrainedModel, files: Sequence[str | Path]) -> tuple[Tensor, Any]:
    """Image files framed as the model's own images were, and the data that says how; None where nothing says what it was."""
    told = model.folder is not None and (model.folder / CONFIG).is_file()  # else nothing says what its data was
    data: Any = run_data(model.source, model.trusted) if told and model.source is not None else None
    shape = model.module.image_shape
    try:
        pixels = [read_picture(file, shape, frame_of(data, shape)) for file in files]
    except UserError as error:
        raise UserError(str(error), argument="images") from error
    return model.images(torch.stack(pixels)), data


def own_images(model: TrainedModel, files: Sequence[str | Path], given: Mapping[str, Any]) -> Source:
    """Image files with the attributes that are given or can be measured."""
    x, data = framed_pictures(model, files)
    attributes = dict(given)
    for name in attributes:
        if name not in model.schema.names:
            raise UserError(unknown_name("attribute", name, model.schema.names), argument="given")
    if names := [name for name in measured_names(data, model.schema) if name not in attributes]:
        attributes |= data.measure(x, names)
    missing = [name for name in model.schema.names if name not in attributes]
    if missing:
        stated = [f"{name}={value}" for name, value in given.items()]
        example = ",".join([*stated, *(f"{name}=VALUE" for name in missing)])
        raise UserError(f"{', '.join(missing)} of these images is not known; write {example}", argument="given")
    try:
        columns = model.columns(attributes, len(x))
    except UserError as error:
        raise UserError(str(error), argument="given") from error
    return Source(x, columns, [Path(file).name for file in files], torch.arange(len(x)), f"{len(x)} images of your own")
