"""The DataModules: images, their attributes and the causal graph between them."""

from datamodules.base import AttributeDataModule
from datamodules.morpho_mnist import MorphoMNIST

__all__ = ["AttributeDataModule", "MorphoMNIST"]
