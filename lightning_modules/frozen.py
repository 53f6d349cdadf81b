"""Networks that stay in evaluation mode while a module is trained."""

from __future__ import annotations

import warnings

from lightning_fabric.utilities.warnings import PossibleUserWarning

__all__ = ["expect_evaluation_mode"]


def expect_evaluation_mode() -> None:
    """Silences Lightning's warning that some networks are in evaluation mode; for modules that put them there, at fit start.

    Batch norm's statistics and dropout are part of what such a module trains against: the mode is meant.
    """
    message = r"Found \d+ module\(s\) in eval mode at the start of training"
    warnings.filterwarnings("ignore", message=message, category=PossibleUserWarning)
