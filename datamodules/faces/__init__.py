"""Synthetic faces with known counterfactuals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cfgen.lazy import lazy_names

if TYPE_CHECKING:
    from datamodules.faces.data import Faces

__all__ = ["Faces"]

__getattr__, __dir__ = lazy_names(__name__, {"Faces": "data"})
