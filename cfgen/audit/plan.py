"""What an audit asks of images (`Plan`), and the table of answers that it fills (`Scores`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Plan", "Scores"]


@dataclass(frozen=True)
class Plan:
    """Interventions by name, and the binary attributes whose importance (Eq. 6) is wanted.

    Importance is measured on the first `explain_count` images.  With `keep_residual`, what the model's reconstruction loses is
    added to every image that it makes (`ResidualKept`).

    >>> Plan({"Young=0": {"Young": 0}}, explain=["Bangs"]).explain_count
    1000
    """

    do: Mapping[str, Mapping[str, Any]]
    explain: Sequence[str] = ()
    explain_count: int = 1000
    seed: int = 0
    batch_size: int = 100
    keep_residual: bool = False


@dataclass(frozen=True)
class Scores:
    """One row an image, one column a question; NaN where the question does not concern the image.

    Probabilities of the positive class: `real` (x), `base` (x_r; the image x itself where the residual is kept, and then `own`
    is x_r), the names of `AFFINE`, `do/NAME` (x_c), `flip/ATTRIBUTE` (x_c under do(ATTRIBUTE = the other value)) and, where
    the ground truth is known, `true/NAME` (the true counterfactual image).
    Mean errors of pixels: `mse` (x_r to x), `error/NAME` (|x_c - truth|) and `untouched/NAME` (|x - truth|).
    1 where a predictor sees what an intervention asks for, else 0: `seen/NAME` (in x_c) and `floor/NAME` (in x, where x has
    it).

    >>> import torch
    >>> Scores(["real", "base"], torch.tensor([[0.1, 0.2], [0.3, 0.4]]))["base"]
    tensor([0.2000, 0.4000])
    """

    names: list[str]
    values: Tensor

    def __getitem__(self, name: str) -> Tensor:
        return self.values[:, self.names.index(name)]
