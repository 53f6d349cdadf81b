"""`cfgen.load`: a trained model from a run, a checkpoint, an exported folder or cfgen itself, ready for counterfactuals."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from safetensors.torch import save
from torch import Tensor

from cfgen import checkpoints
from cfgen.attributes import Categorical, Columns
from cfgen.checkpoints import CARD, WEIGHTS, best_checkpoint, built, class_path, load_module, located
from cfgen.counterfactual import as_unit_float, counterfactuals
from cfgen.errors import UserError
from cfgen.runs.examples import read_examples
from cfgen.runs.folders import write_atomically
from lightning_modules import AttributeReader, Classifier, ImageMechanismModule

__all__ = [
    "CounterfactualModel",
    "Counterfactuals",
    "load",
    "load_classifier",
    "load_reader",
    "results_folder",
    "run_data",
    "run_folder",
]


class Counterfactuals(NamedTuple):
    """Counterfactual images, the base images they are compared with, and their attributes in real units."""

    images: Tensor
    attributes: dict[str, Any]
    reconstructions: Tensor


class CounterfactualModel:
    """A trained image mechanism with its Attribute-SCM, spoken to in real units.

    Images are (N, C, H, W), (N, H, W) or a single (H, W), uint8 or float in [0, 1], arrays or tensors; attributes are a
    mapping from name to one value or one for each image.
    """

    def __init__(self, module: ImageMechanismModule, folder: Path | None = None) -> None:
        self.module, self.folder = module.eval(), folder
        self.scm, self.schema = module.scm, module.scm.schema

    def examples(self) -> tuple[Tensor, dict[str, Any]]:
        """Images that come with an exported or packaged model, and their attributes: what `counterfactual` takes."""
        found = read_examples(self.folder, self.schema) if self.folder is not None else None
        if found is None:
            raise UserError("no examples come with this model: they do with models that cfgen brings along or exports")
        return self.images(found.images), self.values(found.columns)

    def counterfactual(
        self, x: Any, a: Mapping[str, Any], do: Mapping[str, Any], seed: int = 0, batch_size: int = 256
    ) -> Counterfactuals:
        """What these very images would have been under `do` (Eq. 1); e.g. do={"thickness": 3.0, "label": 7}."""
        images = self.images(x)
        columns = self.columns(a, len(images))
        device = self.schema.low.device
        generator = torch.Generator(device).manual_seed(seed)
        vectors = self.schema.encode(columns)
        parts = list(counterfactuals(self.module, self.scm, images, vectors, do, generator, batch_size))
        a_c = self.schema.decode(torch.cat([part.a_c for part in parts]))
        images_c, images_r = torch.cat([part.x_c for part in parts]), torch.cat([part.x_r for part in parts])
        return Counterfactuals(images_c, self.values(a_c), images_r)

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
            raise UserError(f"images of shape {wanted} are expected, not {tuple(torch.as_tensor(x).shape)}")
        if images.numel() and not (images.min() >= 0 and images.max() <= 1):
            raise UserError("images are uint8, or float in [0, 1]; these have values outside")
        return images.float()

    def columns(self, a: Mapping[str, Any], rows: int) -> dict[str, Tensor]:
        """Attributes in real units as columns; categorical values by their names."""
        if not isinstance(a, Mapping):
            raise UserError(f"attributes are {{name: one value, or one for each image}}, not a {type(a).__name__}")
        missing = [name for name in self.schema.names if name not in a]
        if missing:
            raise UserError(f"the images' own attributes are needed too: {', '.join(missing)} is missing")
        try:
            return self.schema.check_given(a, rows)
        except ValueError as error:
            raise UserError(str(error)) from error

    def values(self, columns: Columns) -> dict[str, Any]:
        """Columns with categorical positions turned into the values they stand for."""
        out: dict[str, Any] = dict(columns)
        for name, column in columns.items():
            attribute = self.schema[name]
            if isinstance(attribute, Categorical):
                found = [attribute.values[int(position)] for position in column.tolist()]
                out[name] = torch.tensor(found) if all(isinstance(v, int) for v in found) else found
        return out

    def save(self, folder: str | Path) -> Path:
        """Exports what counterfactuals need: weights as safetensors, how to rebuild them as JSON.  `cfgen.load` takes it."""
        folder = Path(folder)
        if (folder / CARD).exists():
            raise UserError(f"{folder} holds an exported model already: choose another folder")
        module = copy.deepcopy(self.module)
        module.keep_inference_only()
        state = {name: value.contiguous() for name, value in module.state_dict().items()}
        card = {"class_path": class_path(self.module), "hyper_parameters": dict(self.module.hparams)}
        write_atomically(folder / WEIGHTS, lambda file: file.write(save(state)))
        write_atomically(folder / CARD, lambda file: file.write(json.dumps(card, indent=1).encode()))
        return folder


def load(what: str | Path, device: str = "cpu") -> CounterfactualModel:
    """Loads a run folder (`runs/NAME` or `runs/NAME/001`; its best checkpoint), a checkpoint file, an exported folder, or
    by its name a model that comes with cfgen."""
    module = load_module(what, ImageMechanismModule)  # type: ignore[type-abstract]  # only a bound
    return CounterfactualModel(module.to(device), run_folder(what))


def load_classifier(what: str | Path, device: str = "cpu") -> Classifier:
    """Loads a trained classifier from its run folder or a checkpoint file."""
    return load_module(what, Classifier).to(device).eval()


def load_reader(what: str | Path, device: str = "cpu") -> AttributeReader:
    """Loads a trained reader of attributes from its run folder or a checkpoint file."""
    return load_module(what, AttributeReader).to(device).eval()


def run_folder(what: str | Path) -> Path:
    """The folder of a run, a checkpoint, an exported or a packaged model: where its config is."""
    path = located(what)
    if path.is_file():
        return path.parent
    return path if (path / CARD).is_file() else best_checkpoint(path).parent


def results_folder(what: str | Path) -> Path:
    """Where what is found out about a model goes: beside it, or to `runs` for a packaged one, for that stays as installed."""
    folder = run_folder(what)
    return Path("runs") / folder.name if folder.parent == checkpoints.PACKAGED else folder


def run_data(what: str | Path) -> Any:
    """The DataModule a model was trained on, as the config beside it says."""
    path = run_folder(what) / "config.yaml"
    try:
        return built(yaml.safe_load(path.read_text())["data"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, ImportError, AttributeError) as error:
        raise UserError(f"{path} does not say which data this model was trained on ({error})") from error
