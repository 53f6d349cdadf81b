"""An audit's findings from a table of scores: bias (Eq. 4 and 5, Table 3), importance (Eq. 6) and the model's own error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy import stats
from torch import Tensor

from cfgen.audit.dose import Dose, dose_curve
from cfgen.audit.effect import Effect
from cfgen.audit.explained import Line
from cfgen.audit.plan import Plan, Scores
from cfgen.audit.transformations import AFFINE
from cfgen.effects import CONFIDENCE
from cfgen.metrics import CounterfactualBias, CounterfactualImportance

__all__ = ["EVERYONE", "BiasRow", "Findings", "Importance", "findings", "flips", "importances", "local_scores"]

EVERYONE = "everyone"


@dataclass(frozen=True)
class BiasRow:
    """One line of Table 3: how a classifier's answer changes with one intervention (or transformation) in one cohort.

    `values` is what `CounterfactualBias` computes; of predicted values, n, their mean change (`bias`) and its interval.
    `truth` is the same from the real images and their true counterfactuals, where the ground truth is known; `error` and
    `untouched` then say how far the counterfactuals, and the images left as they were, are from it (mean absolute difference,
    0 to 1).  `effect` is what real images and the model say together; a transformation has none.  `dose` is the bias at other
    strengths, where it was asked for.
    """

    among: str
    change: str
    do: Mapping[str, Any] | None
    values: dict[str, float]
    base_positive: float
    mean_change: float
    truth: dict[str, float] | None = None
    error: float = math.nan
    untouched: float = math.nan
    effect: Effect | None = None
    dose: Dose | None = None

    @property
    def n(self) -> int:
        return int(self.values["n"])

    @property
    def truth_within(self) -> bool | None:
        """Whether the true bias lies in the confidence interval of the headline; None where one of the two is not known."""
        if self.truth is None or not self.n:
            return None
        if self.effect is None:
            return self.values["bias/low"] <= self.truth["bias"] <= self.values["bias/high"]
        return self.effect.headline.holds(self.truth["bias"] if self.effect.truth is None else self.effect.truth)

    def record(self) -> dict[str, Any]:
        """The line as bias.csv has it."""
        plain: dict[str, Any] = {"among": self.among, "change": self.change, "kind": "do" if self.do else "affine"}
        plain |= {"n": self.n} | {key: value for key, value in self.values.items() if key not in ("n", "significant")}
        plain |= {"base_positive": self.base_positive, "mean_change": self.mean_change}
        if self.effect is not None:
            plain |= self.effect.record()
        if self.truth is not None:
            plain |= {"true_bias": self.truth["bias"], "true_bias_in_interval": self.truth_within}
            plain |= {"error_to_truth": self.error, "untouched_to_truth": self.untouched}
        if self.effect is not None and self.effect.strength is not None:
            plain |= {"seen_as_asked": self.effect.strength.seen, "seen_in_real_images": self.effect.strength.seen_real}
        return plain


@dataclass(frozen=True)
class Importance:
    """Mean of Eq. 6 over images: how much more probable the attribute makes the positive answer, with its 95 % confidence
    interval.

    `attribute` may be a value, as "label=7"; `meaning` says what more of it is.
    """

    attribute: str
    score: float
    low: float
    high: float
    n: int
    meaning: str = "present"


@dataclass(frozen=True)
class Findings:
    """All that a report says in numbers.

    `model_error` has the model's own error: MSE(x, x_r) as `mse_x`, how often the classifier's answer for x_r is that for x
    (`agreement`), and the share of yes among x (`positive_real`), x_r (`positive_own`) and base images (`positive_base`); of
    predicted values, the correlation of both and the means.
    `accuracy` is how often the classifier's answer for the image itself is the data's own label; NaN where there is none.
    `value` says that a value is predicted.
    """

    bias: list[BiasRow]
    importance: list[Importance]
    model_error: dict[str, float]
    images: int
    accuracy: float = math.nan
    value: bool = False

    @property
    def truths(self) -> tuple[int, int] | None:
        """How many true biases, among all images, lie in the confidence interval, and how many are known; None if none."""
        known = [row.truth_within for row in self.bias if row.among == EVERYONE and row.truth_within is not None]
        return (sum(known), len(known)) if known else None


def findings(
    scores: Scores,
    plan: Plan,
    cohorts: Mapping[str, Tensor],
    threshold: float = 0.5,
    resamples: int = 2000,
    labels: Tensor | None = None,
    lines: Sequence[Line] = (),
    effects: Mapping[tuple[str, str], Effect] | None = None,
) -> Findings:
    """`cohorts` are named masks over the images; an answer is yes where the probability is above `threshold`.

    `labels` are the data's own answers, where it has them, `lines` the ranking's and `effects` those by cohort and intervention.
    A table without the columns of `AFFINE` or `mse` has no rows for these, and no such error.
    """
    changes = [name for name in AFFINE if name in scores.names] + list(plan.do)
    bias = [
        bias_row(scores, change, plan, among, members, threshold, resamples, (effects or {}).get((among, change)))
        for among, members in cohorts.items()
        for change in changes
    ]
    ranked = sorted(importances(scores, lines), key=lambda i: -i.score)
    # the reconstruction, whatever is added to it
    own_column = "own" if "own" in scores.names else "base"
    real, own, base = (scores.answers(column, threshold) for column in ("real", own_column, "base"))
    model_error = {
        "mse_x": scores["mse"].mean().item() if "mse" in scores.names else math.nan,
        "agreement": (real == own).float().mean().item(),
        "positive_real": real.mean().item(),
        "positive_own": own.mean().item(),
        "positive_base": base.mean().item(),
    }
    if scores.value:
        model_error["agreement"] = torch.corrcoef(torch.stack([real, own]))[0, 1].item()
    accuracy = math.nan if labels is None or scores.value else (real == labels).float().mean().item()
    return Findings(bias, ranked, model_error, len(real), accuracy, scores.value)


def bias_row(
    scores: Scores,
    change: str,
    plan: Plan,
    among: str,
    members: Tensor,
    threshold: float,
    resamples: int,
    effect: Effect | None = None,
) -> BiasRow:
    column = change if change in AFFINE else f"do/{change}"
    counted = members & ~scores[column].isnan()
    start = scores.base_of(change)
    base, other = scores[start][counted], scores[column][counted]

    def compare(before: str, after: str, draws: int) -> dict[str, float]:
        if scores.value:
            return mean_change((scores[after] - scores[before])[counted])
        # the table is whole already, and other processes have left
        metric = CounterfactualBias(resamples=draws, seed=plan.seed, sync_on_compute=False)
        metric.update(*(scores.yes(name, threshold)[counted] for name in (before, after)))
        return {key: value.item() for key, value in metric.compute().items()}

    extra: dict[str, Any] = {}
    if f"true/{change}" in scores.names:
        extra["truth"] = compare("real", f"true/{change}", 0)
        extra |= {kind: scores[f"{kind}/{change}"][counted].mean().item() for kind in ("error", "untouched")}
    if change in plan.do and plan.strengths and change not in plan.start:
        extra["dose"] = dose_curve(scores, change, plan, members, threshold, effect)
    return BiasRow(
        among=among,
        change=change,
        do=plan.do.get(change),
        values=compare(start, column, resamples),
        base_positive=scores.answers(start, threshold)[counted].mean().item(),
        mean_change=(other - base).mean().item(),
        effect=effect,
        **extra,
    )


def mean_change(changes: Tensor) -> dict[str, float]:
    """Of predicted values: how many images, and the mean change with its 95 % confidence interval."""
    n = len(changes)
    mean, half = changes.double().mean().item(), math.nan
    if n > 1:
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * changes.double().std().item() / math.sqrt(n)
    return {"n": n, "bias": mean, "bias/low": mean - half, "bias/high": mean + half}


def importances(scores: Scores, lines: Sequence[Line]) -> list[Importance]:
    """Of each line, from the columns `base` and `flip/LINE`."""
    metric = CounterfactualImportance([line.name for line in lines], sync_on_compute=False)  # as above
    for line in lines:
        counted = ~scores[f"flip/{line.name}"].isnan()
        before, after = scores["base"][counted], scores[f"flip/{line.name}"][counted]
        metric.update(line.name, before, after, (~line.more[counted]).long())
    values = {key: value.item() for key, value in metric.compute().items()} if lines else {}
    return [
        Importance(
            line.name,
            values[line.name],
            values[f"{line.name}/low"],
            values[f"{line.name}/high"],
            int(values[f"{line.name}/n"]),
            line.meaning,
        )
        for line in lines
    ]


def local_scores(scores: Scores, lines: Sequence[Line], row: int) -> dict[str, float]:
    """Eq. 6 of one image, by line; the strongest first.  Lines that were not asked of the image are left out."""
    found = {}
    for line in lines:
        p = scores[f"flip/{line.name}"][row]
        if not p.isnan():
            change = (p - scores["base"][row]).item()
            found[line.name] = change if line.more[row] else -change
    return dict(sorted(found.items(), key=lambda pair: -abs(pair[1])))


def flips(scores: Scores, change: str, threshold: float, count: int, seed: int) -> dict[str, Tensor]:
    """Up to `count` images, drawn at random, of those whose answer an intervention flips to yes (`up`) and to no (`down`)."""
    column = f"do/{change}"
    before, after = scores.yes(scores.base_of(change), threshold), scores.yes(column, threshold)
    asked = ~scores[column].isnan()
    flipped = {"up": asked & ~before & after, "down": asked & before & ~after}
    generator = torch.Generator().manual_seed(seed)
    rows = {way: which.nonzero()[:, 0] for way, which in flipped.items()}
    return {way: row[torch.randperm(len(row), generator=generator)[:count]].sort().values for way, row in rows.items()}
