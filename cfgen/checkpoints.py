"""Trained modules from a run folder, a checkpoint file, an exported folder or the name of a packaged model, read without
running code."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from textwrap import shorten
from typing import Any, Protocol, TypeVar, runtime_checkable

import pytorch_lightning as pl
import torch
from safetensors.torch import load_file
from torch import Tensor

from cfgen.attributes import unknown_name
from cfgen.errors import UserError

__all__ = [
    "CARD",
    "PACKAGED",
    "WEIGHTS",
    "best_checkpoint",
    "built",
    "class_path",
    "earlier_runs",
    "found_class",
    "halved",
    "load_module",
    "located",
    "module_of",
    "packaged_models",
    "spec_of",
]

Module = TypeVar("Module", bound=pl.LightningModule)
WEIGHTS, CARD = "model.safetensors", "model.json"
PACKAGED = Path(__file__).parent / "weights"  # exported models that come with cfgen, each in a folder of its name


@runtime_checkable
class Exportable(Protocol):
    """A module that can do without what only training needs."""

    def keep_inference_only(self) -> None: ...


def class_path(module: pl.LightningModule) -> str:
    """What a module is, as its checkpoint says it: `package.module.Class`."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def built(section: Any) -> Any:
    """The object that a config's section (`class_path` and `init_args`) describes."""
    return found_class(section["class_path"])(**dict(section.get("init_args") or {}))


# class paths in checkpoints and configs of earlier versions
MOVED = {"lightning_modules.attribute_reader.AttributeReader": "lightning_modules.predictor.Predictor"}


def found_class(path: str) -> Any:
    """What `package.module.Class` names."""
    module, _, name = MOVED.get(path, path).rpartition(".")
    return getattr(importlib.import_module(module), name)


def earlier_runs(class_path: str) -> Sequence[str]:
    """The arguments of a module's class that name earlier runs, as its `earlier_runs` says."""
    return getattr(found_class(class_path), "earlier_runs", ())


def spec_of(module: pl.LightningModule) -> dict[str, Any]:
    """A module without its weights, as plain values: what a checkpoint needs of a module inside its module."""
    return {"class_path": class_path(module), "init_args": dict(module.hparams)}


def module_of(what: str | Path | Mapping[str, Any], kind: type[Module]) -> Module:
    """An earlier run's trained module; or, from its `spec_of`, one whose weights are still to come from a checkpoint."""
    if isinstance(what, Mapping):
        return imported(what["class_path"], kind, "the checkpoint")(**what["init_args"])
    return load_module(what, kind)


def packaged_models() -> list[str]:
    """The names of the models that come with cfgen."""
    return sorted(card.parent.name for card in PACKAGED.glob(f"*/{CARD}"))


def located(what: str | Path) -> Path:
    """Where a model is: the path, if there is something, else the folder of the packaged model of that name."""
    path = Path(what)
    if path.exists():
        return path
    names = packaged_models()
    if str(what) in names:
        return PACKAGED / what
    runs = sorted(str(run) for run in Path("runs").glob("*") if run.is_dir())
    raise UserError(
        f"there is no run, checkpoint or exported model at {what} (runs here: {', '.join(runs) or 'none'}), and "
        f"{unknown_name('packaged model', str(what), names)}"
    )


def load_module(what: str | Path, kind: type[Module]) -> Module:
    path = located(what)
    if path.is_file():
        return from_checkpoint(path, kind)
    return from_export(path, kind) if (path / CARD).is_file() else from_checkpoint(best_checkpoint(path), kind)


def best_checkpoint(folder: Path) -> Path:
    """`best.ckpt` of a run, or `last.ckpt` of one that was not measured yet; of `runs/NAME`, the newest run's."""
    numbered = sorted((p for p in folder.iterdir() if p.name.isdigit()), key=lambda p: int(p.name), reverse=True)
    for candidate in [folder, *numbered]:
        for name in ("best.ckpt", "last.ckpt"):
            if (candidate / name).is_file():
                return candidate / name
    raise UserError(
        f"{folder} holds no finished run: there is no best.ckpt or last.ckpt in it or in its numbered folders"
    )


def from_checkpoint(path: Path, kind: type[Module]) -> Module:
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        class_name, arguments, state = (checkpoint[key] for key in ("class_path", "hyper_parameters", "state_dict"))
    except Exception as error:  # whatever a torn or foreign file makes of itself
        # an unpickler's own words are a paragraph, with advice that would run code from the file
        reason = "" if isinstance(error, UnpicklingError) else f": {shorten(str(error), 200)}"
        raise UserError(f"{path} is not a checkpoint of cfgen ({type(error).__name__}{reason})") from error
    return rebuild(kind, class_name, arguments, state, path)


def from_export(folder: Path, kind: type[Module]) -> Module:
    try:
        card = json.loads((folder / CARD).read_text())
        state = load_file(folder / WEIGHTS)
        class_name, arguments = card["class_path"], card["hyper_parameters"]
    except Exception as error:  # whatever a torn or foreign file makes of itself
        raise UserError(f"{folder} is not an exported model ({type(error).__name__}: {error})") from error
    return rebuild(kind, class_name, arguments, state, folder, inference_only=True)


def rebuild(
    kind: type[Module],
    class_name: str,
    arguments: Mapping[str, Any],
    state: Mapping[str, Tensor],
    path: Path,
    inference_only: bool = False,
) -> Module:
    """The module from its class, its hyperparameters and its weights."""
    found = imported(class_name, kind, str(path))
    try:
        module = found(**arguments)
        if inference_only and isinstance(module, Exportable):
            module.keep_inference_only()  # as it was exported
        module.load_state_dict(dict(state))
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{path} does not fit {class_name} ({shorten(str(error), 300)})") from error
    return module


def imported(class_name: str, kind: type[Module], path: str) -> type[Module]:
    """The class of that name, if it is one of `kind`."""
    try:
        found = found_class(class_name)
    except (ImportError, AttributeError, ValueError):
        raise UserError(f"{path} needs the class {class_name}, which cannot be imported here") from None
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise UserError(f"{path} is a {class_name}, but a {kind.__name__} is needed here")
    return found


def halved(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights in half precision, which load into a module as they are.

    The Attribute-SCM and the ranges of attributes, which are in real units, and counts stay as they are.
    """
    return {
        name: (
            value.half() if value.is_floating_point() and not name.startswith(("schema.", "scm.")) else value
        ).contiguous()
        for name, value in state.items()
    }
