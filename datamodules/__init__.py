"""DataModules: images described by named attributes with a causal graph.

A module is imported when it is asked for: a command that needs one does not wait for the packages of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfgen.lazy import lazy_names

if TYPE_CHECKING:
    from datamodules.base import AttributeDataModule
    from datamodules.celeba import CelebA
    from datamodules.faces import Faces
    from datamodules.image_table import ImageTable
    from datamodules.morpho_mnist import MorphoMNIST

__all__ = ["AttributeDataModule", "CelebA", "Faces", "ImageTable", "MorphoMNIST"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AttributeDataModule": "base",
        "CelebA": "celeba",
        "Faces": "faces.data",
        "ImageTable": "image_table.data",
        "MorphoMNIST": "morpho_mnist",
    },
)
