"""One file a metric: a file with a subclass of `Metric` (see `base.py`) is all that a new metric needs.

The file is called as `--metrics` takes the metric; what follows an underscore tells apart several ways of measuring the same.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cfgen.evaluation.metrics.base import Metric

__all__ = ["metric_classes", "metric_names"]

_BASE = "base"


def _files() -> list[str]:
    return [file.name for file in pkgutil.iter_modules(__path__) if file.name != _BASE]


def metric_names() -> list[str]:
    """The names that `metrics` takes, without importing the metrics.

    >>> "cycles" in metric_names()
    True
    """
    return sorted({name.partition("_")[0] for name in _files()})


def metric_classes() -> list[type[Metric]]:
    """Every metric of this folder, in the order in which results show them."""
    from cfgen.evaluation.metrics.base import Metric

    classes: list[type[Metric]] = []
    for name in _files():
        module = importlib.import_module(f"{__name__}.{name}")
        own = [
            value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__
        ]
        classes += [value for value in own if issubclass(value, Metric) and not inspect.isabstract(value)]
    return sorted(classes, key=lambda metric: (metric.place, metric.__name__))
