"""Synthetic faces with known counterfactuals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datamodules.faces.data import Faces

__all__ = ["Faces"]


def __getattr__(name: str) -> Any:
    """Imported when it is asked for: the distribution of the attributes alone needs neither torch nor images."""
    if name != "Faces":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from datamodules.faces.data import Faces

    return Faces
