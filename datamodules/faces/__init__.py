"""Synthetic faces with known counterfactuals."""

from datamodules.faces.data import Faces

__all__ = ["Faces"]
