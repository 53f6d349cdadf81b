"""What a classifier's yes means, where the run that trained it says so."""

from __future__ import annotations

from pathlib import Path

from cfgen.errors import UserError
from cfgen.io.files import exists
from cfgen.runs.data import run_data

__all__ = ["ANY", "target_name", "trained_target"]

ANY = "yes"  # the label where nothing says what yes means


def trained_target(classifier: str | Path | None, trusted: bool = False) -> str | None:
    """What a run of cfgen was trained to answer, as the config beside it says; None for anything else."""
    if classifier is None:
        return None
    path = Path(classifier)
    if not exists(path) or not (path.is_dir() or path.suffix == ".ckpt"):
        return None
    try:
        return target_name(run_data(classifier, trusted))
    except UserError:  # a checkpoint alone, or one whose data is not available here
        return None


def target_name(data: object) -> str:
    """The name of a data set's target.

    >>> target_name(object())
    'the target of object'
    """
    return str(getattr(data, "target", None) or f"the target of {type(data).__name__}")
