"""What an audit finds about one classifier: rows of Table 3 with effects, strengths and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cfgen.audit._subgroups import SubgroupRow
from cfgen.audit.questions import EVERYONE
from cfgen.audit.verdict import Verdict
from cfgen.effects import Effect, Estimate, Outcome, difference
from cfgen.effects.strength import Strength
from cfgen.metrics.importance import Importance, LocalScore


@dataclass(frozen=True)
class BiasRow:
    """One line of Table 3: the effect of one intervention, or transformation, on one classifier in one cohort.

    Attributes:
        cohort: `EVERYONE`, or the name of the cohort.
        change: the name of the intervention or the transformation.
        flips: what `CounterfactualBias` computes; for predicted values n, the mean change (`bias`) and its interval.
        base_mean: the mean answer to the base images.
        mean_change: the mean change of the probability, or of the value.
        truth: the same as `flips` from the images and their true counterfactuals, where these are known.
        error, untouched: the mean absolute distance of counterfactuals, and of the unchanged images, to the truth (0 to 1).
        effect, strength, verdict: of an intervention; None for a transformation, and where no image changes.
    """

    cohort: str
    change: str
    flips: dict[str, float]
    base_mean: float
    mean_change: float
    truth: dict[str, float] | None = None
    error: float = math.nan
    untouched: float = math.nan
    effect: Effect | None = None
    strength: Strength | None = None
    verdict: Verdict | None = None
    transformation: bool = False

    @property
    def n(self) -> int:
        return int(self.flips["n"])

    @property
    def truth_within(self) -> bool | None:
        """Whether the interval of the headline contains the true effect; None where one of the two is unknown."""
        if self.truth is None or not self.n:
            return None
        if self.effect is None:
            return self.flips["bias/low"] <= self.truth["bias"] <= self.flips["bias/high"]
        return self.effect.headline.holds(self.truth["bias"] if self.effect.truth is None else self.effect.truth)

    def record(self) -> dict[str, Any]:
        """The line as bias.csv has it."""
        plain: dict[str, Any] = {"among": self.cohort, "change": self.change}
        plain |= {"kind": "affine" if self.transformation else "do", "n": self.n}
        plain |= {key: value for key, value in self.flips.items() if key not in ("n", "significant")}
        plain |= {"base_positive": self.base_mean, "mean_change": self.mean_change}
        if self.effect is not None and self.verdict is not None:
            plain |= effect_record(self.effect, self.verdict, self.strength)
        if self.truth is not None:
            plain |= {"true_bias": self.truth["bias"], "true_bias_in_interval": self.truth_within}
            plain |= {"error_to_truth": self.error, "untouched_to_truth": self.untouched}
        if self.strength is not None:
            plain |= {"seen_as_asked": self.strength.seen, "seen_in_real_images": self.strength.seen_real}
        return plain

    def to_dict(self) -> dict[str, Any]:
        """An intervention as audit.json has it."""
        assert self.effect is not None
        assert self.verdict is not None
        return {
            "among": self.cohort,
            "do": self.change,
            "verdict": self.verdict.to_dict(),
            **self.effect.to_dict(),
            "strength": None if self.strength is None else self.strength.to_dict(),
            "truth": None if self.truth is None else self.truth["bias"],
            "truth_inside": self.truth_within,
        }


def effect_record(effect: Effect, verdict: Verdict, strength: Strength | None) -> dict[str, Any]:
    """The columns of bias.csv that are about an effect."""
    plain: dict[str, Any] = {"verdict": verdict.code, "effect": effect.kind, "significant": effect.significant}
    for name in ("combined", "real", "pairs", "gap"):
        estimate: Estimate | None = getattr(effect, name)
        ends = (math.nan, math.nan, math.nan) if estimate is None else (estimate.value, *estimate.interval)
        plain |= dict(zip((name, f"{name}/low", f"{name}/high"), ends, strict=True))
    plain |= {
        "share_compared": effect.share_compared,
        "have": effect.n_with_value,
        "effective": effect.effective_n,
        "pair_count": effect.n_pairs,
    }
    for end in ("value", "low", "high"):
        plain[f"strength/{end}"] = math.nan if strength is None else getattr(strength, end)
    (up_low, up_high), (down_low, down_high) = effect.bounds
    return plain | {"up/least": up_low, "up/most": up_high, "down/least": down_low, "down/most": down_high}


@dataclass(frozen=True)
class ClassifierResult:
    """The results of one classifier, or of one class of a classifier with several.

    Attributes:
        name: what it is called in tables; unique.
        classifier: the classifier's name, the same for all of its classes.
        class_name: the class, empty where there are only yes and no.
        label: what yes means.
        model_error: `mse_x`; `agreement`, how often the answers to an image and to its reconstruction are the same (for values,
            their correlation); the mean answers `positive_real`, `positive_own` (reconstructions) and `positive_base`.
        accuracy: how often the answer agrees with the data's label; NaN without labels.
        detailed: whether a report shows it in detail: of many classes only the one that changes most.
    """

    name: str
    classifier: str
    class_name: str
    label: str
    outcome: Outcome
    bias: list[BiasRow]
    subgroups: list[SubgroupRow]
    importance: list[Importance]
    local: list[LocalScore]
    model_error: dict[str, float]
    n_images: int
    accuracy: float = math.nan
    detailed: bool = True

    @property
    def findings(self) -> list[BiasRow]:
        """The rows of interventions that change an image of their cohort."""
        return [row for row in self.bias if row.effect is not None]

    def finding(self, cohort: str, change: str) -> BiasRow | None:
        return next((row for row in self.findings if (row.cohort, row.change) == (cohort, change)), None)

    @property
    def truths(self) -> tuple[int, int] | None:
        """How many true effects lie in their interval, and how many are known, among all images; None if none is known."""
        known = [row.truth_within for row in self.bias if row.cohort == EVERYONE and row.truth_within is not None]
        return (sum(known), len(known)) if known else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "classifier": self.name,
            "label": self.label,
            "accuracy": self.accuracy,
            "model_error": self.model_error,
            "interventions": [row.to_dict() for row in self.findings],
        }


@dataclass(frozen=True)
class ClassifierDifference:
    """The effect on one classifier minus that on another, on the same images; `corrected` by real images, or model-only."""

    cohort: str
    change: str
    classifier: str
    against: str
    estimate: Estimate
    corrected: bool

    def record(self) -> dict[str, Any]:
        low, high = self.estimate.interval
        names = {"among": self.cohort, "change": self.change, "classifier": self.classifier, "against": self.against}
        return {**names, "difference": self.estimate.value, "low": low, "high": high, "corrected": self.corrected}


def compare_classifiers(results: Sequence[ClassifierResult]) -> list[ClassifierDifference]:
    """Every further classifier against the first (of classes, against the same class), for each intervention and cohort."""
    found = []
    firsts: dict[str, ClassifierResult] = {}
    for one in results:
        first = firsts.setdefault(one.class_name, one)
        for row in one.findings if first is not one else ():
            before, after = first.finding(row.cohort, row.change), row.effect
            if before is None or before.effect is None or after is None:
                continue
            corrected = before.effect.combined is not None and after.combined is not None
            pair = (
                (after.headline, before.effect.headline) if corrected else (after.model_only, before.effect.model_only)
            )
            found.append(
                ClassifierDifference(row.cohort, row.change, one.name, first.name, difference(*pair), corrected)
            )
    return found
