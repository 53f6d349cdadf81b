"""The images that an effect is estimated from, and what all classifiers share about one intervention on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from torch import Tensor

from cfgen.attributes import Schema
from cfgen.effects.adjustment import adjustment_for, features
from cfgen.effects.contrasted import ContrastedImages
from cfgen.effects.estimate import Array
from cfgen.effects.real_images import ENOUGH, MAX_OFF_SUPPORT, RealImages
from cfgen.effects.shifted import ShiftedImages
from cfgen.interventions import ContrastExposure, Exposure, Intervention, Mask, ShiftExposure
from cfgen.scm.graph import CausalGraph

__all__ = ["Comparison", "Sample", "real_images"]


class Comparison(NamedTuple):
    """How real images answer an intervention: `real` has the target, restricted to overlap where that was needed.

    `problem` says why they cannot answer, and `more_images_help` whether further images could change that.  `n_target` is the
    number of images that the intervention changes, with or without overlap.
    """

    real: RealImages
    held: list[str]
    adjusted_for: list[str]
    problem: str
    more_images_help: bool
    n_target: int

    @property
    def share(self) -> float:
        """The share of the target images that the estimate is about."""
        return float(self.real.exposure.target.sum() / self.n_target)


@dataclass(frozen=True, eq=False)
class Sample:
    """Images with attributes, from which the effect of interventions on answers is estimated.

    Attributes:
        schema, graph, columns: the attributes, their causal graph and their values, in real units.
        extra: further columns to adjust for.
        hold: attributes that keep their values although an intervention would change them.
        selected_by: attributes that the images were selected by.
        target: the images that the effect is about, where these are not all; the others only serve as exposed images.
        ids: the images' ids, which decide their folds.
        seed: of the folds.
    """

    schema: Schema
    graph: CausalGraph
    columns: Mapping[str, Tensor]
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    hold: Collection[str] = ()
    selected_by: Collection[str] = ()
    target: Mask | None = None
    ids: Sequence[str] | None = None
    seed: int = 0
    _comparisons: dict[str, Comparison] = field(default_factory=dict, repr=False)

    def held_by(self, intervention: Intervention) -> list[str]:
        """The attributes that the intervention would change and that keep their values."""
        changed = self.graph.descendants(intervention.attributes) - set(intervention.attributes)
        return [name for name in self.hold if name in changed]

    def comparison(self, intervention: Intervention) -> Comparison:
        """What all classifiers share about an intervention; fitted once."""
        if intervention.name not in self._comparisons:
            self._comparisons[intervention.name] = self._compare(intervention)
        return self._comparisons[intervention.name]

    def _compare(self, intervention: Intervention) -> Comparison:
        held = self.held_by(intervention)
        adjustment = adjustment_for(self.graph, intervention.attributes, held, self.selected_by)
        exposure = intervention.exposure(self.columns)
        if self.target is not None:
            exposure = replace(exposure, target=exposure.target & self.target)
        matrix = features(self.schema, self.columns, adjustment.names, self.extra)
        whole = real_images(exposure, matrix, self.seed, self.ids)
        real = whole if adjustment.problem or not exposure.target.any() else whole.restrict_to_overlap()
        problem = adjustment.problem or ("" if not exposure.target.any() else overlap_problem(real))
        adjusted_for = [*adjustment.names, *self.extra]
        return Comparison(real, held, adjusted_for, problem, not adjustment.problem, int(exposure.target.sum()))


def real_images(exposure: Exposure, features: Array, seed: int = 0, ids: Sequence[str] | None = None) -> RealImages:
    """The estimator from real images that fits the kind of exposure."""
    kinds: dict[type[Exposure], type[RealImages]] = {
        ShiftExposure: ShiftedImages,
        ContrastExposure: ContrastedImages,
    }
    return kinds.get(type(exposure), RealImages)(exposure, features, seed, ids)


def overlap_problem(real: RealImages) -> str:
    """Why real images cannot answer, in a sentence of an audit; empty where they can."""
    if real.enough or type(real) is not RealImages:
        return real.refusal
    exposed, target = int(real.exposure.exposed.sum()), int(real.exposure.target.sum())
    images = f"{exposed:,} image{'' if exposed == 1 else 's'}"
    if real.effective < ENOUGH:
        return (
            f"{images} with the values have an effective sample size of {real.effective:.0f}, and {ENOUGH} are needed"
        )
    if target < ENOUGH:
        return f"only {target:,} image{'' if target == 1 else 's'} would change, and {ENOUGH} are needed"
    return (
        f"{100 * real.off_support_share:.1f} % of the images are unlike all {images} with the values, and "
        f"{100 * MAX_OFF_SUPPORT:.1f} % may be"
    )
