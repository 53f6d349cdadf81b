"""DataModules: images described by named attributes with a causal graph.

A module is imported when it is asked for: a command that needs one does not wait for the packages of the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datamodules.base import AttributeDataModule
    from datamodules.celeba import CelebA
    from datamodules.faces import Faces
    from datamodules.morpho_mnist import MorphoMNIST

__all__ = ["AttributeDataModule", "CelebA", "Faces", "MorphoMNIST"]

_FILES = {
    "AttributeDataModule": "base",
    "CelebA": "celeba",
    "Faces": "faces.data",
    "MorphoMNIST": "morpho_mnist",
}


def __getattr__(name: str) -> Any:
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
