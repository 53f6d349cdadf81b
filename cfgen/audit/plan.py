"""What an audit asks of images (`Plan`), and the table of answers that it fills (`Scores`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from cfgen.scm.graph import CausalGraph

__all__ = ["Plan", "Scores", "do_of", "held"]


@dataclass(frozen=True)
class Plan:
    """Interventions by name, and the attributes whose importance (Eq. 6) is wanted.

    Importance is measured on the first `explain_count` images, and so is the bias at other `strengths` of an intervention (1 is
    as asked, 0.5 half way there).  With `keep_residual`, what the model's reconstruction loses is added to every image that it
    makes (`ResidualKept`).  `hold` names attributes that keep their values although an intervention would change them.
    `curves` are interventions on one continuous attribute that belong together, by its name.

    Once the images are known (`settled`), `do` is in values: under a shift one for each image.  `shifts` are the amounts of
    these, by intervention, and `start` the values that a contrast starts from.

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
    shifts: Mapping[str, float] = field(default_factory=dict)
    start: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def do_of(plan: Plan, name: str, rows: Tensor) -> dict[str, Any]:
    """The values of an intervention for some of the images, chosen by a mask or by their numbers."""
    shifted = name in plan.shifts
    return {key: value[rows] if shifted else value for key, value in plan.do[name].items()}


def held(plan: Plan, graph: CausalGraph, do: Mapping[str, Any]) -> list[str]:
    """The attributes that an intervention would change and that are to keep their values."""
    effects = graph.descendants(do) - set(do)
    return [name for name in plan.hold if name in effects]


@dataclass(frozen=True)
class Scores:
    """One row an image, one column a question; NaN where the question does not concern the image.

    Probabilities of the positive class: `real` (x), `base` (x_r; the image x itself where the residual is kept, and then `own`
    is x_r), the names of `AFFINE`, `do/NAME` (x_c), `start/NAME` (x_c at the value that a contrast starts from), `flip/LINE` (x_c
    under the intervention of a line of the ranking), `dose/NAME/S` (x_c with the attributes a share S of the way), `pair/NAME`
    (the true counterfactual image of some images) and, where the ground truth is known, `true/NAME` (that of all).
    Mean errors of pixels: `mse` (x_r to x), `error/NAME` (|x_c - truth|) and `untouched/NAME` (|x - truth|).
    What a predictor reads: `seen/NAME` in x_c, `read/NAME` in x and `seen/NAME/S` at another strength.  1 where it sees what an
    intervention asks for, else 0; under an intervention on one continuous attribute, its value.  `drawn/NAME`, `there/NAME` and
    `drawn/NAME/S` are the log-odds of that, where the predictor has them.

    Of one of several classes, `chosen` says where it is the most probable of all, which is then what yes means.  Of a network
    that predicts a `value`, that stands in place of a probability, and there is no yes.

    >>> import torch
    >>> Scores(["real", "base"], torch.tensor([[0.1, 0.2], [0.3, 0.4]]))["base"]
    tensor([0.2000, 0.4000])
    """

    names: list[str]
    values: Tensor
    chosen: Tensor | None = None
    value: bool = False

    def __getitem__(self, name: str) -> Tensor:
        return self.values[:, self.names.index(name)]

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def yes(self, name: str, threshold: float) -> Tensor:
        """Where the answer is yes: above the threshold, or the most probable of several classes."""
        return self[name] > threshold if self.chosen is None else self.chosen[:, self.names.index(name)]

    def answers(self, name: str, threshold: float) -> Tensor:
        """1 for yes and 0 for no, or the value predicted; NaN where nothing was asked."""
        asked = self[name]
        return (
            asked if self.value else self.yes(name, threshold).to(asked.dtype).masked_fill(asked.isnan(), float("nan"))
        )

    def base_of(self, change: str) -> str:
        """The column that an intervention or a transformation is compared with."""
        return f"start/{change}" if f"start/{change}" in self.names else "base"
