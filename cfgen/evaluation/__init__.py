"""Scores of trained models: `evaluate` one, `compare` several; one file a metric in `metrics/`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cfgen.evaluation.comparison import Comparison, compare
    from cfgen.evaluation.results import Evaluation
    from cfgen.evaluation.run import evaluate
    from cfgen.evaluation.statistics import Score

__all__ = ["Comparison", "Evaluation", "Score", "compare", "evaluate"]

_MODULES = {"Comparison": "comparison", "compare": "comparison", "Evaluation": "results", "evaluate": "run"}
_MODULES |= {"Score": "statistics"}


def __getattr__(name: str) -> Any:
    """What is imported only when used: a command that reads the names of metrics needs no torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
