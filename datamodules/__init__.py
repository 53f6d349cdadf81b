"""DataModules: images described by named attributes with a causal graph."""

from datamodules.base import AttributeDataModule
from datamodules.celeba import CelebA
from datamodules.faces import Faces
from datamodules.morpho_mnist import MorphoMNIST

__all__ = ["AttributeDataModule", "CelebA", "Faces", "MorphoMNIST"]
