"""The models and classifiers that the pages offer: what a browser may name, and what is loaded of it.

A browser names them by the words of these lists and by nothing else, so no path that it makes up is ever opened.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch

from cfgen.checkpoints import CARD, CONFIG, best_checkpoint, located, packaged_models
from cfgen.classifiers import ExternalClassifier, LoadedClassifier, load_classifiers, load_network
from cfgen.errors import UserError, unknown_name
from cfgen.io.classes import found_class, trusting
from cfgen.runs.data import read_config, run_data, run_folder
from cfgen.runs.folders import runs_of
from cfgen.runs.model import TrainedModel, load_trained
from cfgen.runs.targets import ANY, trained_target
from lightning_modules import Classifier, ImageMechanismModule

__all__ = ["Catalogue", "data_of"]

MOST_OPEN = 8  # models and classifiers that are kept in memory


@dataclass
class Catalogue:
    """`model` and `classifiers` are those that the user named; the rest is packaged, or lies in `runs`.

    `inputs` says what the named classifiers take and return, by the fields of `ExternalClassifier`; a run of cfgen knows it.
    """

    model: str | None = None
    classifiers: Sequence[str] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)
    trusted: bool = False
    runs: Path = Path("runs")
    _open: OrderedDict[tuple[Any, ...], Any] = field(default_factory=OrderedDict, repr=False)
    _listed: set[str] = field(default_factory=set, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def models(self) -> list[str]:
        """What can be loaded as a model: the one that was named, runs, and models that come with cfgen."""
        named = [] if self.model is None else [self.model]
        return list(dict.fromkeys([*named, *self._runs(ImageMechanismModule), *packaged_models()]))

    def classifiers_for(self, model: str) -> list[str]:
        """The classifiers that were named, and runs of classifiers on the data that the model was trained on."""
        data = _data_class(model)
        fitting = [what for what in self._runs(Classifier) if data is not None and _data_class(what) == data]
        return list(dict.fromkeys([*self.classifiers, *fitting]))

    def load(self, name: str) -> TrainedModel:
        """A model of the list; kept in memory until it changes on disk, or others are used more."""
        if name not in self._listed:  # once: looking through all runs takes longer than a slider should wait
            known = self.models()
            if name not in known:
                raise UserError(unknown_name("model", name, known), argument="model")
            self._listed.add(name)
        return self._kept(("model", name, _stamp(name)), lambda: load_trained(name, trusted=self.trusted))

    def load_classifier(self, name: str, model: TrainedModel) -> LoadedClassifier:
        """A classifier of the list, tried on an image of the model's size."""
        known = self.classifiers_for(str(model.source))
        if name not in known:
            raise UserError(unknown_name("classifier", name, known), argument="classifier")

        def loaded() -> LoadedClassifier:
            shape, target = model.module.image_shape, getattr(data_of(model), "target_kind", None)
            network = load_network(name, self.trusted)
            options = self.options_of(name, getattr(network, "continuous", False))
            first, *_ = load_classifiers([ExternalClassifier(network, **options)], shape, target)
            first.check(torch.rand(8, *shape, generator=torch.Generator().manual_seed(0)))
            # several classes have names, which say what an answer means
            label = "" if first.classes else first.label or trained_target(name, self.trusted) or ANY
            return replace(first, name=name, source=name, label=label)

        return self._kept(("classifier", name, model.module.image_shape), loaded)

    def options_of(self, name: str, continuous: bool) -> dict[str, Any]:
        """The options of `ExternalClassifier` for a classifier of the list."""
        if name in self.classifiers:
            return dict(self.inputs)
        return {"output": "value"} if continuous else {}

    def _kept(self, key: tuple[Any, ...], load: Callable[[], Any]) -> Any:
        with self._lock:  # an audit and a slider may want the same model at once
            if key not in self._open:
                self._open[key] = load()
                while len(self._open) > MOST_OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(key)
            return self._open[key]

    def _runs(self, kind: type[pl.LightningModule]) -> list[str]:
        """`runs/NAME` of each name whose newest run is of that kind and has a checkpoint."""
        found = []
        for parent in sorted(self.runs.iterdir()) if self.runs.is_dir() else ():
            for run in runs_of(self.runs, parent.name)[:1]:
                try:
                    best_checkpoint(run)
                    path = _class_path(run / CONFIG, "model")
                    with trusting(self.trusted):
                        found_class(path, kind, str(run))
                except UserError:  # nothing trained yet, of another kind, or a class that is not trusted
                    continue
                found.append(str(parent))
        return found


def data_of(model: TrainedModel) -> Any:
    """The model's data, not read; None where nothing says what it was."""
    try:
        return None if model.source is None else run_data(model.source, model.trusted)
    except UserError:
        return None


def _data_class(what: str) -> str | None:
    """The class of the data that a model or classifier was trained on, where its config says so."""
    try:
        return _class_path(run_folder(what) / CONFIG, "data")
    except UserError:
        return None


def _class_path(config: Path, section: str) -> str:
    """The class that a section of a run's config names."""
    try:
        modified = config.stat().st_mtime_ns
    except OSError as error:
        raise UserError(f"cannot read {config}: {error.strerror or error}") from error
    return _read_class_path(config.resolve(), modified, section)


@lru_cache(maxsize=1000)
def _read_class_path(config: Path, modified: int, section: str) -> str:
    """Read again only when the file was `modified`: YAML takes longer than the picture that a slider waits for."""
    return read_config(config, section)[section]["class_path"]


def _stamp(what: str) -> tuple[str, int]:
    """Which file a model is loaded from, and when it was written; refuses one that is gone."""
    path = located(what)
    if path.is_dir():
        path = path / CARD if (path / CARD).is_file() else best_checkpoint(path)
    try:
        return str(path), path.stat().st_mtime_ns
    except OSError as error:
        raise UserError(f"{what} is gone: {error.strerror or error}; choose another model", argument="model") from error
