"""cfgen: counterfactual images from a causal graph (ImageCFGen), in PyTorch Lightning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfgen.runs.loading import CounterfactualModel

__all__ = ["load"]


def load(what: str | Path, device: str = "cpu") -> CounterfactualModel:
    """A trained model from a run folder, a checkpoint file or an exported folder."""
    # imported only when called: importing cfgen.morpho or cfgen.scm alone stays light
    from cfgen.runs.loading import load as load_model

    return load_model(what, device)
