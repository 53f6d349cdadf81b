"""Trained modules from a run folder, a checkpoint file, an exported folder or the name of a packaged model, read without
running code: what they are made of is plain values and tensors, and their classes come with cfgen unless more is trusted."""

from __future__ import annotations

import warnings
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
from cfgen.io.checksums import require_unchanged, require_whole_checkpoint
from cfgen.io.classes import found_class, trusting
from cfgen.io.files import exists, read_json

__all__ = [
    "CARD",
    "CONFIG",
    "EXAMPLES",
    "PACKAGED",
    "WEIGHTS",
    "best_checkpoint",
    "class_path",
    "earlier_runs",
    "halved",
    "load_module",
    "located",
    "module_of",
    "packaged_models",
    "spec_of",
]

Module = TypeVar("Module", bound=pl.LightningModule)
WEIGHTS, CARD = "model.safetensors", "model.json"
CONFIG, EXAMPLES = "config.yaml", "examples.safetensors"
# a module may have more weights than are kept of it, e.g. those that only training needs
MOST_TIMES, SMALL = 20, 10_000_000
PACKAGED = Path(__file__).parent / "weights"  # exported models that come with cfgen, each in a folder of its name


@runtime_checkable
class Exportable(Protocol):
    """A module that can do without what only training needs."""

    def keep_inference_only(self) -> None: ...


def class_path(module: pl.LightningModule) -> str:
    """What a module is, as its checkpoint says it: `package.module.Class`."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def earlier_runs(class_path: Any) -> Sequence[str]:
    """The arguments of a module's class that name earlier runs, as its `earlier_runs` says; none of a class that is not to be
    had."""
    try:
        return getattr(found_class(class_path, pl.LightningModule, "the config"), "earlier_runs", ())
    except UserError:
        return ()


def spec_of(module: pl.LightningModule) -> dict[str, Any]:
    """A module without its weights, as plain values: what a checkpoint needs of a module inside its module."""
    return {"class_path": class_path(module), "init_args": dict(module.hparams)}


def module_of(what: str | Path | Mapping[str, Any], kind: type[Module]) -> Module:
    """An earlier run's trained module; or, from its `spec_of`, one whose weights are still to come from a checkpoint."""
    if not isinstance(what, Mapping):
        return load_module(what, kind)
    if not isinstance(arguments := what.get("init_args"), Mapping):
        raise UserError("the checkpoint does not say how the model inside it is built")
    return found_class(what.get("class_path"), kind, "the checkpoint")(**arguments)


def packaged_models() -> list[str]:
    """The names of the models that come with cfgen."""
    return sorted(card.parent.name for card in PACKAGED.glob(f"*/{CARD}"))


def located(what: str | Path) -> Path:
    """Where a model is: the path, if there is something, else the folder of the packaged model of that name."""
    path = Path(what)
    if str(what) and exists(path):  # an empty text would be the folder right here
        return path
    names = packaged_models()
    if str(what) in names:
        return PACKAGED / what
    runs = sorted(str(run) for run in Path("runs").glob("*") if run.is_dir())
    raise UserError(
        f"there is no run, checkpoint or exported model at {what} (runs here: {', '.join(runs) or 'none'}), and "
        f"{unknown_name('packaged model', str(what), names)}"
    )


def load_module(what: str | Path, kind: type[Module], trusted: bool = False) -> Module:
    """The trained module that `what` names, if it is of that kind.

    Its class, and those of modules inside it, come with cfgen, or are imported in this process already; with `trusted` they
    are imported from anywhere, which runs code.
    """
    path = located(what)
    with trusting(trusted):
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
    require_whole_checkpoint(path)
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        class_name, arguments, state = (checkpoint[key] for key in ("class_path", "hyper_parameters", "state_dict"))
    except Exception as error:  # whatever a torn or foreign file makes of itself
        # an unpickler's own words are a paragraph, with advice that would run code from the file
        reason = "" if isinstance(error, UnpicklingError) else f": {shorten(str(error), 200)}"
        raise UserError(f"{path} is not a checkpoint of cfgen ({type(error).__name__}{reason})") from error
    return rebuild(kind, class_name, arguments, state, path)


def from_export(folder: Path, kind: type[Module]) -> Module:
    require_unchanged(folder, (CARD, WEIGHTS, CONFIG, EXAMPLES))  # what the model is; the rest is about it
    card = read_json(folder / CARD)
    try:
        class_name, arguments, state = card["class_path"], card["hyper_parameters"], load_file(folder / WEIGHTS)
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
    found = found_class(class_name, kind, str(path))
    try:
        require_fitting_size(found, arguments, state)
        module = found(**arguments)
        if inference_only and isinstance(module, Exportable):
            module.keep_inference_only()  # as it was exported
        module.load_state_dict(dict(state))
    except UserError as error:
        raise UserError(f"{path}: {error}", error.argument) from error
    except Exception as error:  # constructors and torch have many ways to say that a value is none of theirs
        raise UserError(
            f"{path} does not fit {class_name} ({type(error).__name__}: {shorten(str(error), 300)})"
        ) from error
    require_finite(module, path)
    return module


def require_fitting_size(kind: type[Module], arguments: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
    """Refuses hyperparameters that ask for far larger networks than the weights are of, before memory is spent on them."""
    try:
        with torch.device("meta"), warnings.catch_warnings():  # shapes alone
            warnings.simplefilter("ignore")  # a network of the user's own loads its weights into nothing here
            outline = kind(**arguments)
    except Exception:  # it cannot be built without numbers: building it shows what is wrong
        return
    wanted = sum(value.numel() for value in (*outline.parameters(), *outline.buffers()))
    there = sum(value.numel() for value in state.values())
    if wanted > MOST_TIMES * there + SMALL:
        raise UserError(f"its hyperparameters ask for {wanted:,} weights, and it holds {there:,}")


def require_finite(module: pl.LightningModule, path: Path) -> None:
    """Refuses weights that are not numbers: nothing that is drawn with them would say so."""
    for name, value in module.state_dict().items():
        # the range of an attribute is not known before a module has seen data
        if (
            value.is_floating_point()
            and not name.endswith(("schema.low", "schema.high"))
            and not value.isfinite().all()
        ):
            raise UserError(
                f"{path} has weights that are not finite numbers ({name}): it is damaged, or training diverged"
            )


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
