"""What is evaluated: finished runs, each with the images it is scored on; several of them share their data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from cfgen.checkpoints import CARD
from cfgen.errors import UserError
from cfgen.runs.folders import FINISHED, how_to_go_on
from cfgen.runs.loading import CounterfactualModel, load, results_folder, run_data, run_folder
from cfgen.training.stages import OWN_DATA

__all__ = ["Subject", "require_finished", "subjects"]

PLACES = ("cache_dir", "data_dir")  # where data lies, which says nothing of what it is
ASSUMED = ("edges", "mechanisms", "seed")


@dataclass(frozen=True)
class Subject:
    """A model, the folder its results go to, its data, and the images of a split that it is scored on."""

    name: str
    folder: Path
    model: CounterfactualModel
    data: Any
    split: str
    x: Tensor
    columns: dict[str, Tensor]


def subjects(runs: Sequence[str], split: str, images: int | None, device: str) -> list[Subject]:
    """The runs, loaded; refuses those that are unfinished or foreign, and several that do not share their images."""
    for run in runs:
        require_finished(run)
    models = [load(run, device) for run in runs]
    folders = [run_folder(run) for run in runs]
    for place, folder in enumerate(folders):
        if folder in folders[:place]:
            raise UserError(f"{runs[place]} is given twice: its results would go to the same folder")
    modules = [run_data(run) for run in runs]
    for folder in folders[1:]:
        require_same_settings(folders[0], folder)
    found: list[Subject] = []
    for name, run, model, data in zip(names_of(folders), runs, models, modules, strict=True):
        data.prepare_data()
        data.setup("test")
        x = data.images(split)[:images]
        columns = {attribute: column[:images] for attribute, column in data.columns(split).items()}
        found.append(Subject(name, results_folder(run), model, data, split, x, columns))
        require_same_images(found[0], found[-1])
    return found


def require_finished(what: str | Path) -> None:
    """Refuses the folder of a run that was not trained to its end; a checkpoint or an exported model is what it is."""
    path = Path(what)
    if not path.is_dir() or (path / CARD).is_file():
        return
    folder = run_folder(path)
    if not (folder / FINISHED).is_file():
        raise UserError(
            f"{folder} was not trained to its end. {how_to_go_on(folder)} goes on with it; {folder}/last.ckpt is the model as "
            "it is now"
        )


def names_of(folders: Sequence[Path]) -> list[str]:
    """Short names that tell runs apart: `NAME` of `runs/NAME/001`, with the number, or the whole path, where needed."""
    absolute = [folder.absolute() for folder in folders]
    short = [folder.parent.name if folder.name.isdigit() else folder.name for folder in absolute]
    for longer in ([f"{folder.parent.name}/{folder.name}" for folder in absolute], list(map(str, absolute))):
        if len(set(short)) < len(short):
            short = longer
    return short


def require_same_settings(first: Path, other: Path) -> None:
    """Refuses runs whose data settings differ, before any data is read: their scores would be of other images."""
    ours, theirs = data_settings(first), data_settings(other)
    differing = [key for key in ours | theirs if ours.get(key) != theirs.get(key)]
    if differing:
        raise other_data(first, other, [f"{key}: {ours.get(key)} and {theirs.get(key)}" for key in differing])


def require_same_images(first: Subject, other: Subject) -> None:
    """Refuses runs that read other data from elsewhere with the same settings."""
    same = first.columns.keys() == other.columns.keys() and torch.equal(first.x, other.x)
    if not same or any(not torch.equal(first.columns[name], other.columns[name]) for name in first.columns):
        raise other_data(first.folder, other.folder, ["other files"])


def other_data(first: Path, other: Path, why: Sequence[str]) -> UserError:
    return UserError(
        f"{first} and {other} have different data ({'; '.join(why)}): only models of the same images can be compared"
    )


def data_settings(folder: Path) -> dict[str, Any]:
    """The data section of a run's config, without where files lie, how they are batched and what is assumed of the attributes:
    models that differ in that are what one wants to compare.  What the images are is looked at once they are read."""
    section = yaml.safe_load((folder / "config.yaml").read_text())["data"]
    settings = {"class_path": section["class_path"], **(section.get("init_args") or {})}
    return {key: value for key, value in settings.items() if key not in (*OWN_DATA, *PLACES, *ASSUMED)}
