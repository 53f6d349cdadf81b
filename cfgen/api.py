"""The public Python API: `load`, `train`, `compare`, and a loaded model that draws, is evaluated, audits and is saved."""

from __future__ import annotations

from pathlib import Path

from cfgen.audit import audit
from cfgen.audit.strength import calibrate
from cfgen.classifiers import ExternalClassifier
from cfgen.evaluation.comparison import compare
from cfgen.evaluation.run import evaluate
from cfgen.runs.data import run_folder
from cfgen.runs.export import export
from cfgen.runs.generation import generate
from cfgen.runs.model import TrainedModel, load_mechanism
from cfgen.training.run import train

__all__ = ["CounterfactualModel", "ExternalClassifier", "compare", "load", "train"]


class CounterfactualModel(TrainedModel):
    """A trained model: an image mechanism with the causal model over its attributes.  `cfgen.load` makes one.

    Nothing here prints; results have `to_frame()`, `to_dict()` and `save(folder)`.  Where a method can take long,
    `progress=True` shows a bar.

    >>> made = load("morphomnist-hvae").generate([{"thickness": 5}, {"label": 7}], index=[0, 1])
    >>> made.to_frame()[["image", "do", "label"]].values.tolist()[:2]
    [['example-0', 'thickness=5', 0], ['example-0', 'label=7', 7]]
    """

    # the functions that the commands call too, with the model as their first argument
    generate = generate
    evaluate = evaluate
    calibrate = calibrate  # type: ignore[has-type]  # mypy reads the files of a lazy package later
    audit = audit
    export = export


def load(what: str | Path, device: str = "cpu", trusted: bool = False) -> CounterfactualModel:
    """A trained model: a run folder (`runs/NAME` or `runs/NAME/001`; its best checkpoint), a checkpoint file, an exported
    folder, or by its name a model that comes with cfgen.

    Its files are read as data.  A model or data of one's own needs its class, which is imported with `trusted` alone, for that
    runs code; a class that is imported already is used.
    """
    return CounterfactualModel(load_mechanism(what, device, trusted), run_folder(what), what, trusted)
