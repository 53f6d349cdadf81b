"""Example images of an audit, and the names of their figures."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from cfgen.audit.run import Triple

__all__ = ["Flip", "flip_name"]


class Flip(NamedTuple):
    """Some images whose answer an intervention flips, with p of the base images and of the counterfactuals."""

    images: Triple
    before: Tensor
    after: Tensor


def flip_name(way: str, intervention: str) -> str:
    """The name of the figure of answers that an intervention flips to yes (`up`) or to no (`down`).

    >>> flip_name("up", "Black_Hair=1,Pale_Skin=1")
    'flipped_up_Black_Hair=1+Pale_Skin=1'
    """
    safe = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in "_=+.-" else "+" for letter in intervention
    )
    return f"flipped_{way}_{safe}"
