"""Judges that come with cfgen: predictors that no mechanism has anything of, each for the data it was trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytorch_lightning as pl
import torch
import yaml

from cfgen import checkpoints
from cfgen.attributes import Continuous, Schema
from cfgen.checkpoints import CARD, CONFIG, load_module
from cfgen.contracts import ImageData, ReadsAttributes
from cfgen.evaluation.subject import Subject
from cfgen.io.classes import found_class
from cfgen.io.files import exists, read_json
from cfgen.io.writing import new_folder
from cfgen.runs.checksums import write_checksums
from cfgen.runs.data import require_finished, run_config, run_data, run_folder
from cfgen.runs.export import SCORES, recipe
from cfgen.runs.model import write_module
from lightning_modules import Predictor

__all__ = ["fitting_judges", "known_names", "package_judge", "packaged_judge", "packaged_judges", "reading_scores"]

FOLDER = "judges"  # beside the packaged models


def packaged_judges() -> list[str]:
    """The names of the judges that come with cfgen.

    >>> "morphomnist-patches-1" in packaged_judges()
    True
    """
    return sorted(card.parent.name for card in (checkpoints.PACKAGED / FOLDER).glob(f"*/{CARD}"))


def packaged_judge(what: str | Path) -> str | Path:
    """The folder of the packaged judge of that name; what is no such name, or is there as a path, stays as it is."""
    is_name = not exists(what) and str(what) in packaged_judges()
    return checkpoints.PACKAGED / FOLDER / what if is_name else what


def fitting_judges(subject: Subject) -> list[str]:
    """The packaged judges that were trained on the subject's kind of data and read all of its attributes."""
    return [name for name in packaged_judges() if fits(checkpoints.PACKAGED / FOLDER / name, subject)]


def fits(folder: Path, subject: Subject) -> bool:
    card = read_json(folder / CARD)["hyper_parameters"]
    trained_on = run_config(folder)["data"]["class_path"]
    same_data = found_class(trained_on, pl.LightningDataModule, str(folder)) is type(subject.data)
    same_shape = tuple(card["image_shape"]) == tuple(subject.mechanism.image_shape)
    schema: Schema = subject.mechanism.scm.schema
    return same_data and same_shape and known_names(schema, Schema(card["scm"]["attributes"])) == list(schema.names)


def known_names(schema: Schema, known: Schema) -> list[str]:
    """The attributes that both know as the same thing; the ranges of continuous ones may differ."""
    names = []
    for name in schema.names:
        ours, theirs = schema[name], known.attributes.get(name)
        if ours == theirs or (isinstance(ours, Continuous) and isinstance(theirs, Continuous)):
            names.append(name)
    return names


def package_judge(run: str | Path, folder: str | Path) -> Path:
    """Writes a predictor's run as a small folder: weights in half precision, how to rebuild it, its recipe, what it can read.

    The scores are those of the judge as it is written, on all validation images.
    """
    require_finished(run)
    judge = load_module(run, Predictor)
    with new_folder(folder, "folder") as new:
        write_module(judge, new.place, half=True)
        data = run_data(run)
        data.prepare_data()
        data.setup("fit")
        scores = reading_scores(load_module(new.place, Predictor).eval(), data, "val")
        scores_and_size = {**scores, "images": len(data.images("val")), "split": "val"}
        config = yaml.safe_dump(recipe(run_folder(run) / CONFIG), sort_keys=False)
        new.write({CONFIG: config, SCORES: json.dumps(scores_and_size, indent=1)})
        write_checksums(new.place)
    return new.path


@torch.inference_mode()
def reading_scores(judge: ReadsAttributes, data: ImageData, split: str, count: int | None = None) -> dict[str, float]:
    """How well a judge reads real images: the mean absolute error of a continuous attribute, the share right of others."""
    x, columns = data.images(split)[:count], data.columns(split)
    parts = [judge.read(part.float() / 255) for part in x.split(250)]
    scores = {}
    for name in judge.schema.names:
        read, true = torch.cat([part[name] for part in parts]), columns[name][:count]
        error = (read - true).abs()
        scores[name] = (error if isinstance(judge.schema[name], Continuous) else (error < 0.5).float()).mean().item()
    return scores
