"""`EvaluateOptions`: the options of `evaluate`, `compare` and the command `cfgen evaluate`; light to import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from cfgen.command_line import PositiveInt, Seed
from cfgen.errors import UserError, require_different, unknown_name
from cfgen.evaluation.metrics import metric_names
from cfgen.options import option, require_at_least

if TYPE_CHECKING:
    from cfgen.contracts import ReadsAttributes
    from cfgen.processes import Processes
    from lightning_modules import Classifier

    AnyPredictor = str | Path | ReadsAttributes

__all__ = ["EvaluateOptions"]

Split = Literal["test", "val"]
FaceNetwork = Literal["dlib"]
NONE = "none"  # in place of a predictor: no judges
JUDGED = {"effectiveness", "labels"}  # metrics that use judges


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What is measured, on which images.

    >>> EvaluateOptions(metrics=["cycles"], count=100).split
    'test'

    Args:
        metrics: names of the metrics to compute; on the command line they are joined by commas. cycles is reconstruction error
            and composition. bias needs a classifier, labels a classifier or judges, truth data with known counterfactuals; fid
            and identity need the option of that name. commutativity, minimality and reversibility take long if there are many
            attributes (default: all that apply).
        classifier: the run of a Classifier. A digit classifier checks label counterfactuals (Appendix G); for a yes/no
            classifier the bias under every binary attribute is measured (Eq. 5) (default: none; judges check the labels).
        predictor: a judge: the run of a Predictor, which reads the attributes of counterfactuals. Several judges give a mean
            and a range; repeat the option. none leaves these scores out (default: the judges that come with cfgen, if they
            read the attributes of the model's data).
        fid: compute the FID of generated images with the features of inception, efficientnet_lite0 or module:callable
            (default: no FID).
        identity: measure whether counterfactuals of photographs show the same person, with dlib's face recognition network.
            The data must say who is in a photograph, as CelebA does. Set the number of images: it takes long if there are many
            attributes (default: not measured).
        values: number of random target values for each image and measured attribute; the paper uses 100.
        split: the split of the model's data; use val to choose settings.
        count: use the first N images of the split (default: all).
        seed: seed of the target values and of all noise.
        seeds: repeat everything with N seeds, starting at the seed; scores are then means, with errors over seeds.
        batch_size: number of images in a batch; no score depends on it (default: 250 for 28x28 pixels, 64 for 64x64).
        trusted: import classes of your own that a model, its data, a classifier or a predictor names, which runs code; only for
            folders and checkpoints whose source you trust (default: classes that come with cfgen alone).
        processes: several processes that share the images and return the same result (default: one process).
        progress: show a progress bar on stderr.
    """

    metrics: Sequence[str] | None = option(
        None, group="metrics", metavar="NAME[,...]", read=lambda text: text.split(",")
    )
    classifier: str | Path | Classifier | None = option(None, group="metrics", metavar="RUN", type=str)
    predictor: AnyPredictor | Sequence[AnyPredictor] | None = option(None, group="metrics", metavar="RUN", repeat=True)
    fid: str | None = option(None, group="metrics", metavar="NETWORK")
    identity: FaceNetwork | None = option(None, group="metrics")
    values: int = option(1, group="metrics", metavar="N", type=PositiveInt)
    split: Split = option("test", group="images")
    count: int | None = option(None, group="images", metavar="N", type=PositiveInt)
    seed: int = option(0, group="images", metavar="N", type=Seed)
    seeds: int = option(1, group="images", metavar="N", type=PositiveInt)
    batch_size: int | None = option(None, group="computing", metavar="N", type=PositiveInt)
    trusted: bool = option(False, group="computing")
    processes: Processes | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.metrics, str):
            raise UserError(f"expected a list of names, not the text {self.metrics!r}", argument="metrics")
        for name in self.metrics or ():
            if name not in metric_names():
                raise UserError(unknown_name("metric", name, metric_names()), argument="metrics")
        require_different(self.metrics or (), "metrics")
        if self.split not in get_args(Split):
            raise UserError(unknown_name("split", self.split, get_args(Split)), argument="split")
        if self.identity not in (None, *get_args(FaceNetwork)):
            raise UserError(unknown_name("network", str(self.identity), get_args(FaceNetwork)), argument="identity")
        require_at_least(self, count=1, seed=0, seeds=1, values=1, batch_size=1)
        for argument, named in (("classifier", (self.classifier,)), ("predictor", self.judges or ())):
            if "" in named:
                raise UserError("expected a run, and nothing is named", argument)
        if NONE in (several := self.judges or ()) and len(several) > 1:
            raise UserError(f"{NONE} stands for no judge, and cannot be named beside others", argument="predictor")

    @property
    def judges(self) -> tuple[AnyPredictor, ...] | None:
        """The predictors that are named, () where none are wanted; None for those that come with cfgen."""
        if self.predictor is None:
            return None if self.metrics is None or JUDGED.intersection(self.metrics) else ()
        named = tuple(self.predictor) if isinstance(self.predictor, list | tuple) else (self.predictor,)
        return () if named == (NONE,) else named

    @property
    def all_seeds(self) -> range:
        return range(self.seed, self.seed + self.seeds)
