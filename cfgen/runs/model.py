"""A trained model from a run, a checkpoint, an exported folder or cfgen itself, spoken to in real units."""

from __future__ import annotations

import copy
import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytorch_lightning as pl
import torch
from safetensors.torch import save
from torch import Tensor

from cfgen.attributes import Categorical, Columns
from cfgen.checkpoints import CARD, WEIGHTS, class_path, halved, load_module
from cfgen.contracts import ImageData
from cfgen.counterfactual import as_unit_float, asked_of, sweep
from cfgen.errors import UserError
from cfgen.interventions import Intervention, parse_intervention
from cfgen.io.writing import new_folder, write_files
from cfgen.runs.data import run_data, run_folder
from cfgen.runs.examples import read_examples
from lightning_modules import ImageMechanismModule

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Counterfactuals",
    "TrainedModel",
    "drawn_values",
    "load_mechanism",
    "load_trained",
    "model_data",
    "png_of",
    "read_data",
    "write_module",
]


@dataclass(frozen=True)
class Counterfactuals:
    """Counterfactual images, the reconstructions they are compared with, and their attributes in real units."""

    images: Tensor
    attributes: dict[str, Any]
    reconstructions: Tensor

    def to_dict(self) -> dict[str, list[Any]]:
        """The attributes of the counterfactuals as plain lists, one value an image."""
        return {
            name: list(column) if isinstance(column, list) else column.tolist()
            for name, column in self.attributes.items()
        }

    def to_frame(self) -> pd.DataFrame:
        """The attributes of the counterfactuals, one row an image."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def save(self, folder: str | Path) -> Path:
        """Writes `counterfactual-NNN.png`, `reconstruction-NNN.png` and `attributes.csv` into a new folder."""
        columns = self.to_dict()
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(["image", *columns])
        writer.writerows([number, *values] for number, values in enumerate(zip(*columns.values(), strict=True)))
        files: dict[str, bytes | str] = {"attributes.csv": text.getvalue()}
        for kind, images in (("counterfactual", self.images), ("reconstruction", self.reconstructions)):
            files |= {f"{kind}-{number:03d}.png": png_of(image) for number, image in enumerate(images)}
        with new_folder(folder, "folder") as new:
            new.write(files)
        return new.path


def drawn_values(intervention: Intervention, columns: Columns) -> dict[str, Any]:
    """The values under an intervention from `TrainedModel.intervention` of images that are all drawn, in real units."""
    return intervention.drawn(columns) if intervention.assigned is None else dict(intervention.assigned)


def png_of(image: Tensor) -> bytes:
    """An image (C, H, W) in [0, 1] as the bytes of a PNG file."""
    from PIL import Image

    buffer = io.BytesIO()
    pixels = image.detach().clamp(0, 1).mul(255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    Image.fromarray(pixels.squeeze(-1) if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
    return buffer.getvalue()


class TrainedModel:
    """A trained image mechanism with its Attribute-SCM, spoken to in real units.

    Images are (N, C, H, W), (N, H, W) or a single (H, W), uint8 or float in [0, 1], arrays or tensors; attributes are a
    mapping from name to one value or one for each image.  `source` is what it was loaded from, for what needs its data;
    `trusted` says that the class of that data may be imported from anywhere.
    """

    def __init__(
        self,
        module: ImageMechanismModule,
        folder: Path | None = None,
        source: str | Path | None = None,
        trusted: bool = False,
    ) -> None:
        self.module, self.folder, self.source, self.trusted = module.eval(), folder, source, trusted
        self.scm, self.schema = module.scm, module.scm.schema

    def examples(self) -> tuple[Tensor, dict[str, Any]]:
        """Images that come with an exported or packaged model, and their attributes: what `counterfactual` takes."""
        stored = read_examples(self.folder, self.schema) if self.folder is not None else None
        if stored is None:
            raise UserError("this model has no examples: only models that come with cfgen or were exported have them")
        return self.images(stored.images), self.values(stored.columns)

    def counterfactual(
        self,
        x: Any,
        a: Mapping[str, Any],
        do: Intervention | Mapping[str, Any] | str,
        *,
        seed: int = 0,
        batch_size: int = 250,
    ) -> Counterfactuals:
        """What these very images would have been under `do` (Eq. 1); e.g. do={"thickness": 3.0, "label": 7} or "thickness=+1".

        A value may be an array with one entry per image.
        """
        if batch_size < 1:
            raise UserError(f"expected a whole number of 1 or more, not {batch_size}", argument="batch_size")
        images = self.images(x)
        columns = self.columns(a, len(images))
        try:
            asked = {"do": asked_of(self.module, columns, drawn_values(self.intervention(do), columns), seed)}
        except ValueError as error:
            raise UserError(str(error), argument="do") from error
        batches = sweep(self.module, images, columns, asked, seed=seed, batch_size=batch_size)
        pairs = [(batch.x_c("do").cpu(), batch.x_r.cpu()) for batch in batches]
        x_c, x_r = (torch.cat(parts) for parts in zip(*pairs, strict=True)) if pairs else (images, images)
        return Counterfactuals(x_c, self.values(self.schema.decode(asked["do"].a_c)), x_r)

    def intervention(self, do: Intervention | Mapping[str, Any] | str) -> Intervention:
        """The intervention `do`, checked against the schema.

        Values that are set stay as they are given, because here they may differ between images; other kinds are bound.
        """
        intervention = do if isinstance(do, Intervention) else parse_intervention(do)
        if intervention.assigned is None:
            return intervention.bind(self.schema, self.training_deviation)
        try:
            self.schema.check_do(intervention.assigned)
        except ValueError as error:
            raise UserError(str(error), argument="do") from error
        return intervention

    def training_deviation(self, name: str) -> float:
        """The standard deviation of an attribute in the images that the model was trained on."""
        if self.source is None:
            raise UserError(
                f"the standard deviation of {name} in training is not known of a model that was not loaded from a run or a "
                f"folder; give the shift in units, such as {name}=+1",
                argument="do",
            )
        data = run_data(self.source, self.trusted)
        data.prepare_data()
        data.setup("test")
        return float(data.columns("train")[name].double().std(correction=0))

    def images(self, x: Any) -> Tensor:
        """Images as a float tensor (N, C, H, W) in [0, 1] of the shape the model was trained with."""
        images = as_unit_float(torch.as_tensor(np.asarray(x) if not isinstance(x, Tensor) else x))
        channels, height, width = self.module.image_shape
        if images.ndim == 2:
            images = images[None]
        if images.ndim == 3 and channels == 1:
            images = images[:, None]
        if images.ndim != 4 or images.shape[1:] != (channels, height, width):
            wanted = f"(N, {channels}, {height}, {width})"
            raise UserError(
                f"images of shape {wanted} are expected, not {tuple(torch.as_tensor(x).shape)}", argument="x"
            )
        if images.is_complex():
            raise UserError("images are uint8, or float in [0, 1]; these are complex numbers", argument="x")
        if images.numel() and not (images.min() >= 0 and images.max() <= 1):
            raise UserError("images are uint8, or float in [0, 1]; these have values outside", argument="x")
        return images.float()

    def columns(self, a: Mapping[str, Any], rows: int) -> dict[str, Tensor]:
        """Attributes in real units as columns; categorical values by their names."""
        if not isinstance(a, Mapping):
            raise UserError(
                f"expected {{name: one value, or one for each image}}, not a {type(a).__name__}", argument="a"
            )
        missing = [name for name in self.schema.names if name not in a]
        if missing:
            raise UserError(f"the images' own {', '.join(missing)} is missing; all attributes are needed", argument="a")
        try:
            return self.schema.check_given(a, rows)
        except ValueError as error:
            raise UserError(str(error), argument="a") from error

    def values(self, columns: Columns) -> dict[str, Any]:
        """Columns with categorical positions turned into the values they stand for."""
        out: dict[str, Any] = {name: column.cpu() for name, column in columns.items()}
        for name, column in columns.items():
            attribute = self.schema[name]
            if isinstance(attribute, Categorical):
                names = [attribute.values[int(position)] for position in column.tolist()]
                out[name] = torch.tensor(names) if all(isinstance(v, int) for v in names) else names
        return out

    def save(self, folder: str | Path, half: bool = False) -> Path:
        """Exports what counterfactuals need: weights as safetensors, how to rebuild them as JSON.  `cfgen.load` takes it.

        With `half`, weights are written in half precision: half the size, and images that differ by less than a grey level.
        """
        folder = Path(folder)
        if (folder / CARD).exists():
            raise UserError(f"{folder} holds an exported model already; choose another folder", argument="folder")
        module = copy.deepcopy(self.module)
        module.keep_inference_only()
        write_module(module, folder, half)
        return folder


def write_module(module: pl.LightningModule, folder: Path, half: bool) -> None:
    """A module's weights as safetensors, and as JSON how to rebuild it: what `load_module` takes."""
    whole = module.state_dict()
    state = halved(whole) if half else {name: value.contiguous() for name, value in whole.items()}
    card = {"class_path": class_path(module), "hyper_parameters": dict(module.hparams)}
    write_files(folder, {WEIGHTS: save(state), CARD: json.dumps(card, indent=1)})


def load_mechanism(what: str | Path, device: str | torch.device = "cpu", trusted: bool = False) -> ImageMechanismModule:
    """The trained mechanism of a run folder, a checkpoint file, an exported folder or a packaged model."""
    module: ImageMechanismModule = load_module(what, ImageMechanismModule, trusted)  # type: ignore[type-abstract]  # only a bound
    return module.to(device)


def load_trained(what: str | Path, device: str | torch.device = "cpu", trusted: bool = False) -> TrainedModel:
    """Loads a run folder (`runs/NAME` or `runs/NAME/001`; its best checkpoint), a checkpoint file, an exported folder, or
    by its name a model that comes with cfgen.  With `trusted`, classes of one's own are imported, which runs code."""
    return TrainedModel(load_mechanism(what, device, trusted), run_folder(what), what, trusted)


def model_data(model: TrainedModel, split: str) -> ImageData:
    """The data that a model was trained on, not read yet; refuses a split other than test and val."""
    if split not in ("test", "val"):
        raise UserError(f"expected test or val, not {split!r}", argument="split")
    if model.source is None:
        raise UserError(
            "this model was not loaded from a run or a folder, so its data is not known; load it with cfgen.load",
            argument="model",
        )
    return run_data(model.source, model.trusted)


def read_data(model: TrainedModel, split: str) -> ImageData:
    """The data that a model was trained on, read from disk."""
    data = model_data(model, split)
    data.prepare_data()
    data.setup("test")
    return data
