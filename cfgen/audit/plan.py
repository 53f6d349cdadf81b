"""What an audit asks of images (`Plan`), and the table of answers that it fills (`Scores`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from cfgen.scm.graph import CausalGraph

__all__ = ["Plan", "Scores", "held"]


@dataclass(frozen=True)
class Plan:
    """Interventions by name, and the attributes whose importance (Eq. 6) is wanted.

    Importance is measured on the first `explain_count` images, and so is the bias at other `strengths` of an intervention (1 is
    as asked, 0.5 half way there).  With `keep_residual`, what the model's reconstruction loses is added to every image that it
    makes (`ResidualKept`).  `hold` names attributes that keep their values although an intervention would change them.
    `curves` are interventions on one continuous attribute that belong together, by its name.

    >>> Plan({"Young=0": {"Young": 0}}, explain=["Bangs"]).explain_count
    1000
    """

    do: Mapping[str, Mapping[str, Any]]
    explain: Sequence[str] = ()
    explain_count: int = 1000
    seed: int = 0
    batch_size: int = 100
    keep_residual: bool = False
    hold: Sequence[str] = ()
    strengths: Sequence[float] = ()
    curves: Mapping[str, Sequence[str]] = field(default_factory=dict)


def held(plan: Plan, graph: CausalGraph, do: Mapping[str, Any]) -> list[str]:
    """The attributes that an intervention would change and that are to keep their values."""
    effects = graph.descendants(do) - set(do)
    return [name for name in plan.hold if name in effects]


@dataclass(frozen=True)
class Scores:
    """One row an image, one column a question; NaN where the question does not concern the image.

    Probabilities of the positive class: `real` (x), `base` (x_r; the image x itself where the residual is kept, and then `own`
    is x_r), the names of `AFFINE`, `do/NAME` (x_c), `flip/LINE` (x_c under the intervention of a line of the ranking),
    `dose/NAME/S` (x_c with the attributes a share S of the way), `pair/NAME` (the true counterfactual image of some images) and,
    where the ground truth is known, `true/NAME` (that of all).
    Mean errors of pixels: `mse` (x_r to x), `error/NAME` (|x_c - truth|) and `untouched/NAME` (|x - truth|).
    What a predictor reads: `seen/NAME` in x_c, `read/NAME` in x and `seen/NAME/S` at another strength.  1 where it sees what an
    intervention asks for, else 0; under an intervention on one continuous attribute, its value.  `drawn/NAME`, `there/NAME` and
    `drawn/NAME/S` are the log-odds of that, where the predictor has them.

    >>> import torch
    >>> Scores(["real", "base"], torch.tensor([[0.1, 0.2], [0.3, 0.4]]))["base"]
    tensor([0.2000, 0.4000])
    """

    names: list[str]
    values: Tensor

    def __getitem__(self, name: str) -> Tensor:
        return self.values[:, self.names.index(name)]

    def __contains__(self, name: str) -> bool:
        return name in self.names
