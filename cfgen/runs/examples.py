"""The images that an exported model brings along, with their attributes: it can be tried without the data it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from cfgen.attributes import Columns, Schema
from cfgen.checkpoints import EXAMPLES
from cfgen.errors import UserError
from cfgen.io.writing import write_files

__all__ = ["Examples", "read_examples", "write_examples"]

_IMAGES, _COLUMN = "images", "attributes/"


class Examples(NamedTuple):
    """Images (N, C, H, W) as uint8 and their attributes in real units."""

    images: Tensor
    columns: dict[str, Tensor]


def write_examples(folder: Path, images: Tensor, columns: Columns) -> None:
    tensors = {_IMAGES: images.contiguous()} | {_COLUMN + name: c.float().contiguous() for name, c in columns.items()}
    write_files(folder, {EXAMPLES: save(tensors)})


def read_examples(folder: Path, schema: Schema) -> Examples | None:
    """The examples in a model's folder, where there are any: one value of each of its attributes for each image."""
    path = folder / EXAMPLES
    if not path.is_file():
        return None
    try:
        tensors = load_file(path)
        images, columns = tensors[_IMAGES], {name: tensors[_COLUMN + name] for name in schema.names}
    except Exception as error:  # whatever a torn or foreign file makes of itself
        raise UserError(f"{path} holds no examples for this model ({type(error).__name__}: {error})") from error
    rows = {column.shape for column in columns.values()}
    if images.dtype != torch.uint8 or images.ndim != 4 or rows != {images.shape[:1]}:
        raise UserError(f"{path} is damaged: images and attributes do not match")
    if not all(column.isfinite().all() for column in columns.values()):
        raise UserError(f"{path} is damaged: it has attributes that are not finite numbers")
    return Examples(images, columns)
