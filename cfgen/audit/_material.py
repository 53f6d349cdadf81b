"""The models, networks and images of an audit while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.audit.options import AuditOptions
from cfgen.classifiers import LoadedClassifier
from cfgen.contracts import ImageData, ReadsAttributes
from cfgen.errors import UserError, blame
from cfgen.io.files import read_json
from cfgen.runs.data import run_folder
from cfgen.runs.model import TrainedModel, load_trained
from cfgen.runs.pairs import OutsidePairs
from lightning_modules import ImageMechanismModule, ResidualKept


@dataclass(frozen=True)
class Material:
    """What answers come from.

    Attributes:
        models: trained models by their names in the audit, the first one first.
        classifiers: classifiers by their names.
        x: the audited images, uint8 (N, C, H, W).
        data: where they come from.
        options: the options of the audit.
        predictor: reads attributes from pictures.
        reads: the attributes that it reads, by intervention.
        read_rows: the images that it reads, (N,).
        outside: pairs of pictures from outside.
    """

    models: Mapping[str, TrainedModel]
    classifiers: Mapping[str, LoadedClassifier]
    x: Tensor
    data: ImageData
    options: AuditOptions
    predictor: ReadsAttributes | None = None
    reads: Mapping[str, Sequence[str]] = field(default_factory=dict)
    read_rows: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    outside: OutsidePairs | None = None

    def mechanism(self, name: str, device: torch.device | None = None) -> ImageMechanismModule:
        """A model's mechanism, on a device."""
        module = self.models[name].module
        whole = ResidualKept(module) if self.options.keep_residual else module
        return whole if device is None else whole.to(device)

    def networks_to(self, device: torch.device) -> None:
        """Moves classifiers and predictor to a device."""
        for one in self.classifiers.values():
            one.to(device)
        if isinstance(self.predictor, nn.Module):
            self.predictor.to(device)


def matching_models(models: Sequence[TrainedModel | str | Path], trusted: bool = False) -> dict[str, TrainedModel]:
    """The models by name, if all make images of the same shape, with the same attributes and the same graph."""
    first, *others = models
    assert isinstance(first, TrainedModel)
    found = {str(first.source or "model"): first}
    for given in others:
        with blame("model"):
            other = given if isinstance(given, TrainedModel) else load_trained(given, first.schema.low.device, trusted)
        folders = [run_folder(one.source).resolve() for one in (*found.values(), other) if one.source is not None]
        if other.source is not None and folders[-1] in folders[:-1]:
            raise UserError(
                f"{other.source} is given twice; pooling a model with itself adds nothing", argument="model"
            )
        if other.module.image_shape != first.module.image_shape:
            raise UserError(
                f"{other.source} makes images of shape {other.module.image_shape}, and {first.source} of "
                f"{first.module.image_shape}; all models must be of the same data",
                argument="model",
            )
        difference = first.schema.difference(other.schema)
        if difference or set(first.scm.graph.edges) != set(other.scm.graph.edges):
            raise UserError(
                f"{other.source} has other attributes or another causal graph than {first.source}"
                f"{f' ({difference})' if difference else ''}; all models must be of the same data",
                argument="model",
            )
        found[str(other.source or f"model {len(found) + 1}")] = other
    return found


def model_scores(model: TrainedModel) -> dict[str, Any]:
    """The scores that `cfgen evaluate` wrote into the model's folder; empty without a valid file."""
    try:
        return read_json(model.folder / "metrics.json") if model.folder is not None else {}
    except UserError:
        return {}
