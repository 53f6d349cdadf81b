"""What scores a model besides its data: a classifier, a predictor of attributes, a network's features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cfgen.audit.label import ANY, trained_target
from cfgen.checkpoints import load_module
from cfgen.contracts import ReadsAttributes
from cfgen.errors import UserError
from cfgen.evaluation.subject import Subject, blame
from cfgen.metrics.fid import FID
from cfgen.networks.features import feature_network, network_name
from cfgen.runs.data import require_finished
from lightning_modules import Classifier, Predictor

__all__ = ["Judges", "load_judges"]


@dataclass(frozen=True)
class Judges:
    """Each where it is given.  `network` is the name of FID's, `label` what the classifier's yes means."""

    classifier: Classifier | None = None
    predictor: ReadsAttributes | None = None
    fid: FID | None = None
    network: str = ""
    label: str = ANY

    def to(self, device: torch.device) -> Judges:
        """The same on a device."""
        # FID sums in double precision, which Apple's GPUs do not have
        places = {
            "classifier": device,
            "predictor": device,
            "fid": torch.device("cpu") if device.type == "mps" else device,
        }
        judges = ((name, getattr(self, name), place) for name, place in places.items())
        moved: Any = {name: judge.to(place) for name, judge, place in judges if isinstance(judge, nn.Module)}
        return replace(self, **moved)


def load_judges(
    subject: Subject,
    classifier: str | Path | Classifier | None = None,
    predictor: str | Path | ReadsAttributes | None = None,
    fid: str | None = None,
) -> Judges:
    """Loads what is named; refuses what sees images of another shape than the subject's."""
    label = trained_target(classifier) if isinstance(classifier, str | Path) else None
    return Judges(
        classifier=judge("classifier", classifier, Classifier, subject),
        predictor=judge("predictor", predictor, Predictor, subject),
        fid=None if fid is None else feature_distance(fid, subject),
        network="" if fid is None else network_name(fid),
        label=label or ANY,
    )


def judge(argument: str, what: Any, kind: type[Any], subject: Subject) -> Any:
    """A run's module, or the module itself where it is one."""
    if what is None:
        return None
    if isinstance(what, str | Path):
        with blame(argument):
            require_finished(what)
            what = load_module(what, kind)
    theirs, ours = getattr(what, "image_shape", None), subject.mechanism.image_shape
    if theirs is not None and tuple(theirs) != tuple(ours):
        raise UserError(
            f"it sees images of shape {tuple(theirs)}, and the model makes images of {tuple(ours)}", argument
        )
    return what.eval() if isinstance(what, nn.Module) else what


def feature_distance(fid: str, subject: Subject) -> FID:
    """FID with a network's features, checked on two images."""
    if len(subject.x) < 2:
        raise UserError("FID needs 2 images or more, and says something from a thousand on", argument="fid")
    with blame("fid"):
        distance = FID(feature_network(fid))
        distance.check(subject.x[:2])
    return distance
