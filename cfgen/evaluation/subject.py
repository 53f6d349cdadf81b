"""What is evaluated: a trained model with the images it is scored on; several models share their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cfgen.attributes import Schema
from cfgen.contracts import CausalImageMechanism
from cfgen.errors import UserError, blame
from cfgen.runs.data import OWN_DATA, require_finished, results_folder, run_config, run_data, run_folder
from cfgen.runs.model import TrainedModel, load_trained

__all__ = ["Model", "Subject", "subjects_of"]

Model = TrainedModel | str | Path
"""A loaded model, or what it is loaded from."""

PLACES = ("cache_dir", "data_dir")  # where data lies, which says nothing of what it is
ASSUMED = ("edges", "mechanisms", "seed")


@dataclass(frozen=True)
class Subject:
    """A model's mechanism, its data, the images of a split that it is scored on, and the folder that its results go to."""

    name: str
    mechanism: CausalImageMechanism
    data: Any
    split: str
    x: Tensor
    columns: dict[str, Tensor]
    folder: Path | None = None

    @property
    def schema(self) -> Schema:
        return self.mechanism.scm.schema


def subjects_of(models: Sequence[Model], split: str, count: int | None, trusted: bool = False) -> list[Subject]:
    """The models with the first `count` images of a split; `trusted` is about models that are loaded now.

    Refuses runs that are unfinished, models given twice, and several that do not share their images.
    """
    argument = "model" if len(models) == 1 else "models"
    sources = [source_of(model, argument) for model in models]
    with blame(argument):
        for source in sources:
            require_finished(source)
        trained = [
            model if isinstance(model, TrainedModel) else load_trained(model, trusted=trusted) for model in models
        ]
        data = [run_data(source, model.trusted or trusted) for source, model in zip(sources, trained, strict=True)]
    folders = [run_folder(source) for source in sources]
    for place, folder in enumerate(folders):
        if folder in folders[:place]:
            raise UserError(f"{sources[place]} is given twice; its results would go to the same folder", argument)
    names = names_of(folders)
    settings = dict(zip(names, map(data_settings, folders), strict=True))
    for name in names[1:]:
        require_same_settings(names[0], name, settings)
    subjects: list[Subject] = []
    for name, source, model, module in zip(names, sources, trained, data, strict=True):
        module.prepare_data()
        module.setup("test")
        x, columns = module.images(split)[:count], module.columns(split)
        columns = {attribute: column[:count] for attribute, column in columns.items()}
        subjects.append(Subject(name, model.module, module, split, x, columns, results_folder(source)))
        require_same_images(subjects[0], subjects[-1])
    return subjects


def source_of(model: Model, argument: str) -> str | Path:
    """What a model is loaded from, which says what data it is scored on."""
    if not isinstance(model, TrainedModel):
        return model
    if model.source is None:
        raise UserError(
            "this model was not loaded from a run, so its data is not known; load it with cfgen.load", argument
        )
    return model.source


def names_of(folders: Sequence[Path]) -> list[str]:
    """Short names that tell runs apart: `NAME` of `runs/NAME/001`, with the number, or the whole path, where needed.

    >>> names_of([Path("runs/ali/001"), Path("runs/csali/001")])
    ['ali', 'csali']
    """
    absolute = [folder.absolute() for folder in folders]
    short = [folder.parent.name if folder.name.isdigit() else folder.name for folder in absolute]
    for longer in ([f"{folder.parent.name}/{folder.name}" for folder in absolute], list(map(str, absolute))):
        if len(set(short)) < len(short):
            short = longer
    return short


def require_same_settings(first: str, other: str, settings: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuses models whose data settings differ, before any data is read: their scores would be of other images."""
    ours, theirs = settings[first], settings[other]
    differing = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    if "class_path" in differing:
        differing = ["class_path"]  # other data altogether, with other settings of course
    if differing:
        raise other_data(first, other, [f"{key}: {ours.get(key)} and {theirs.get(key)}" for key in differing])


def require_same_images(first: Subject, other: Subject) -> None:
    """Refuses runs that read other data from elsewhere with the same settings."""
    same = first.columns.keys() == other.columns.keys() and torch.equal(first.x, other.x)
    if not same or any(not torch.equal(first.columns[name], other.columns[name]) for name in first.columns):
        raise other_data(first.name, other.name, ["other files"])


def other_data(first: str, other: str, why: Sequence[str]) -> UserError:
    return UserError(
        f"{first} and {other} have different data ({'; '.join(why)}); only models of the same images can be compared",
        argument="models",
    )


def data_settings(folder: Path) -> dict[str, Any]:
    """The data section of a run's config, without where files lie, how they are batched and what is assumed of the attributes:
    models that differ in that are what one wants to compare.  What the images are is looked at once they are read."""
    section = run_config(folder)["data"]
    settings = {"class_path": section["class_path"], **(section.get("init_args") or {})}
    return {key: value for key, value in settings.items() if key not in (*OWN_DATA, *PLACES, *ASSUMED)}
