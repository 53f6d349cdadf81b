"""What scores a model besides its data: a classifier, predictors of attributes as judges, networks for features and faces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cfgen.checkpoints import load_module
from cfgen.contracts import ReadsAttributes
from cfgen.errors import UserError, blame
from cfgen.evaluation.packaged import fitting_judges, packaged_judge
from cfgen.evaluation.subject import Subject
from cfgen.metrics.fid import FID
from cfgen.networks.features import feature_network, network_name
from cfgen.networks.identity import DlibFaces
from cfgen.runs.data import require_finished
from cfgen.runs.targets import ANY, trained_target
from lightning_modules import Classifier, Predictor

__all__ = ["Judges", "load_judges"]


@dataclass(frozen=True)
class Judges:
    """Each where it is given; predictors by their names.  `network` is that of FID, `label` what the classifier's yes means,
    `identity` knows faces."""

    classifier: Classifier | None = None
    predictors: Mapping[str, ReadsAttributes] = field(default_factory=dict)
    fid: FID | None = None
    network: str = ""
    label: str = ANY
    identity: DlibFaces | None = None

    def to(self, device: torch.device) -> Judges:
        """The same on a device."""
        # FID sums in double precision, which Apple's GPUs do not have
        places = {"classifier": device, "fid": torch.device("cpu") if device.type == "mps" else device}
        judges = ((name, getattr(self, name), place) for name, place in places.items())
        moved: Any = {name: judge.to(place) for name, judge, place in judges if isinstance(judge, nn.Module)}
        predictors: Any = {
            name: one.to(device) if isinstance(one, nn.Module) else one for name, one in self.predictors.items()
        }
        return replace(self, predictors=predictors, **moved)


def load_judges(
    subject: Subject,
    classifier: str | Path | Classifier | None = None,
    predictors: Sequence[str | Path | ReadsAttributes] | None = None,
    fid: str | None = None,
    identity: str | None = None,
    trusted: bool = False,
) -> Judges:
    """Loads what is named; refuses what sees images of another shape than the subject's.

    Without `predictors`, those that come with cfgen and know the subject's data.
    """
    label = trained_target(classifier, trusted) if isinstance(classifier, str | Path) else None
    answering = judge("classifier", classifier, Classifier, subject, trusted)
    if answering is not None and answering.continuous:
        raise UserError("it predicts a value, and metrics ask for classes; an audit takes it", argument="classifier")
    return Judges(
        classifier=answering,
        predictors=named_judges(predictors, subject, trusted),
        fid=None if fid is None else feature_distance(fid, subject),
        network="" if fid is None else network_name(fid),
        label=label or ANY,
        identity=None if identity is None else face_network(),
    )


def named_judges(
    predictors: Sequence[str | Path | ReadsAttributes] | None, subject: Subject, trusted: bool
) -> dict[str, ReadsAttributes]:
    """The predictors by their names: as they were typed, of a module its class."""
    found: dict[str, ReadsAttributes] = {}
    for what in fitting_judges(subject) if predictors is None else predictors:
        name = str(what) if isinstance(what, str | Path) else type(what).__name__
        if name in found and isinstance(what, str | Path):
            raise UserError(f"{name} is given twice; as one judge of two it would count double", argument="predictor")
        if name in found:
            name = f"{name} {len(found) + 1}"
        source = packaged_judge(what) if isinstance(what, str | Path) else what
        found[name] = judge("predictor", source, Predictor, subject, trusted)
    return found


def judge(argument: str, what: Any, kind: type[Any], subject: Subject, trusted: bool) -> Any:
    """A run's module, or the module itself where it is one."""
    if what is None:
        return None
    if isinstance(what, str | Path):
        with blame(argument):
            require_finished(what)
            what = load_module(what, kind, trusted)
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


def face_network() -> DlibFaces:
    """The one network for faces that there is."""
    with blame("identity"):
        return DlibFaces()
