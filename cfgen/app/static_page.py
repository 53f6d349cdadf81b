"""`cfgen export MODEL --page DIR`: a page with pre-rendered counterfactuals that needs no server and opens from a disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cfgen.app.drawing import controls, difference_map, graph_levels, picture_uri, plain_row, sweep_values
from cfgen.app.pages import STATIC, environment
from cfgen.app.whatif import AbductedPicture, answer_attributes
from cfgen.checkpoints import CONFIG
from cfgen.errors import UserError
from cfgen.io.writing import new_folder, require_free
from cfgen.runs.data import run_data, run_folder
from cfgen.runs.export import examples_to_share, recipe
from cfgen.runs.model import TrainedModel
from cfgen.runs.sources import Source

__all__ = ["WrittenPage", "write_page"]

FRAMES = 17  # over the range of a continuous attribute
FILES = ("app.css", "shared.js", "page.js")


@dataclass(frozen=True)
class WrittenPage:
    """A page that was written: its folder, how many examples and pictures it shows, and its size in bytes."""

    folder: Path
    examples: int
    frames: int
    size: int


def write_page(model: TrainedModel, folder: str | Path, *, examples: int = 6) -> WrittenPage:
    """Draws the first examples of a model under each value of each attribute, one attribute at a time, as a page.

    The images are those that an export of the model would contain: only of data that may be passed on.  The folder is new,
    and is there whole or not at all.
    """
    folder = Path(folder)
    require_free(folder, "page")  # before the work
    if examples < 1:
        raise UserError("a page needs at least one example", argument="examples")
    source = _shared_images(model, examples)
    shown = [_example(model, replace(source, rows=torch.tensor([row]))) for row in range(len(source.images))]
    channels, height, width = model.module.image_shape
    contents = {
        "model": str(model.source),
        "controls": _controls(model),
        "graph": graph_levels(model.scm.graph),
        "image": {"channels": channels, "height": height, "width": width},
        "examples": shown,
        "same": difference_map(source.images[0] / 255, source.images[0] / 255)[0],
    }
    page = environment().get_template("page.html").render(model=model.source)
    files = {name: (STATIC / name).read_bytes() for name in FILES}
    files |= {"index.html": page.encode(), "frames.js": f"const page = {json.dumps(contents)};\n".encode()}
    with new_folder(folder, "page") as new:
        new.write(files)
    frames = sum(len(some) for one in shown for some in one["frames"].values())
    return WrittenPage(folder, len(shown), frames, sum(map(len, files.values())))


def _shared_images(model: TrainedModel, count: int) -> Source:
    if model.source is None:
        raise UserError(
            "only a model that was loaded from a run, a checkpoint or a folder has examples", argument="model"
        )
    found, _ = examples_to_share(model, recipe(run_folder(model.source) / CONFIG), count)
    if found is None:
        raise UserError(
            "the images of this model's data may not be passed on, or nothing says what its data is: a page would show them",
            argument="model",
        )
    return Source(found.images, found.columns, [], torch.arange(len(found.images)), "")


def _controls(model: TrainedModel) -> list[dict[str, Any]]:
    assert model.source is not None
    return controls(model.schema, getattr(run_data(model.source, model.trusted), "units", None))


def _example(model: TrainedModel, source: Source) -> dict[str, Any]:
    """An image with its frames: by attribute, one for each value."""
    abducted = AbductedPicture(model, source)
    frames = {
        control["name"]: [_frame(abducted, {control["name"]: value}) for value in sweep_values(control, FRAMES)]
        for control in _controls(model)
    }
    return {
        "original": abducted.original,
        "reconstruction": abducted.reconstruction,
        "attributes": abducted.own,
        "frames": frames,
    }


def _frame(abducted: AbductedPicture, do: Mapping[str, Any]) -> dict[str, Any]:
    x_c, after = abducted.under(do)
    difference, scale = difference_map(x_c[0], abducted.reconstructions[0])
    (value,) = do.values()
    told = answer_attributes(abducted, do, (), plain_row(after))
    return {"value": value, "counterfactual": picture_uri(x_c[0]), "difference": difference, "scale": scale, **told}
