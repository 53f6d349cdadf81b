"""A user's network as the probability of yes, the probability of each class, or a predicted value.

Its names are imported when they are used: `cfgen.classifiers.spec` alone does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfgen.lazy import lazy_names

if TYPE_CHECKING:
    from cfgen.classifiers._answers import ClassProbabilities, PredictedValue, YesProbability
    from cfgen.classifiers._loaded import LoadedClassifier
    from cfgen.classifiers._network import from_function, load_network, names_function
    from cfgen.classifiers.spec import ExternalClassifier, load_classifiers

__all__ = [
    "ClassProbabilities",
    "ExternalClassifier",
    "LoadedClassifier",
    "PredictedValue",
    "YesProbability",
    "from_function",
    "load_classifiers",
    "load_network",
    "names_function",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ClassProbabilities": "_answers",
        "ExternalClassifier": "spec",
        "LoadedClassifier": "_loaded",
        "PredictedValue": "_answers",
        "YesProbability": "_answers",
        "from_function": "_network",
        "load_classifiers": "spec",
        "load_network": "_network",
        "names_function": "_network",
    },
)
