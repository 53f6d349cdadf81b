"""Tables of a study: coverage, width and bias, overall and for each classifier and intervention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.coverage_study.pool import Floats, Pool
from benchmarks.coverage_study.resampling import HIGH, LOW, METHODS, VALUE

TITLES = dict(
    zip(
        METHODS, ["generator alone", "real images", "combined", "+ 50 pairs", "+ 100 pairs", "+ 200 pairs"], strict=True
    )
)
NOTHING = 0.002  # a true effect below this counts as none


def score(found: Floats, truth: Floats) -> dict[str, Any]:
    """Of estimates (questions, resamples, classifiers, 3) whose true values are (questions, classifiers); NaN is a refusal.

    Several classifiers are asked about the same resamples, so the Monte-Carlo error is that of means over classifiers.
    """
    value, low, high = (found[..., k] for k in (VALUE, LOW, HIGH))
    scored, target = ~np.isnan(value), np.broadcast_to(truth[:, None, :], value.shape)
    if not scored.any():
        return {"scored": 0, "refused": int(scored.size)}
    inside = ((low <= target) & (target <= high))[scored]
    away = masked(value - target, scored)
    return {
        "scored": int(scored.sum()),
        "refused": int((~scored).sum()),
        "coverage": float(inside.mean()),
        "coverage_error": clustered_error((low <= target) & (target <= high), scored),
        "width": float((high - low)[scored].mean()),
        "bias": float(away.mean(axis=1).mean()),
        "absolute_bias": float(np.abs(away.mean(axis=1)).mean()),
        "spread": float(away.std(axis=1).mean()),
    }


def masked(values: Floats, known: np.ndarray) -> np.ma.MaskedArray:
    return np.ma.masked_array(values, ~known)


def clustered_error(hits: np.ndarray, known: np.ndarray) -> float:
    """The standard error of a share over resamples of questions, (questions, resamples, classifiers)."""
    each = masked(hits.astype(np.float64), known).mean(axis=2).compressed()
    return float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else float("nan")


def false_alarms(found: Floats, truth: Floats) -> dict[str, Any]:
    """How often an interval excludes 0 where there is no effect: the negative control."""
    none = np.abs(truth) < NOTHING
    scored = ~np.isnan(found[..., VALUE]) & none[:, None, :]
    away = (found[..., LOW] > 0) | (found[..., HIGH] < 0)
    result: dict[str, Any] = {"interventions": int(none.sum()), "scored": int(scored.sum())}
    if scored.any():
        result |= {"share": float(away[scored].mean()), "share_error": clustered_error(away, scored)}
    return result


def summarise(pool: Pool, sizes: Sequence[int], found: Floats, effective: Floats) -> dict[str, Any]:
    """Everything as plain values."""
    truth = np.stack([question.truth for question in pool.questions])
    result: dict[str, Any] = {"overall": {}, "classifiers": {}, "negative_control": {}, "interventions": []}
    for s, n in enumerate(sizes):
        at = {method: found[:, s, :, :, m] for m, method in enumerate(METHODS)}
        result["overall"][n] = {method: score(values, truth) for method, values in at.items()}
        result["negative_control"][n] = {method: false_alarms(values, truth) for method, values in at.items()}
        result["classifiers"][n] = {
            name: {method: score(values[:, :, [k]], truth[:, [k]]) for method, values in at.items()}
            for k, name in enumerate(pool.classifiers)
        }
        result["interventions"] += [
            {
                "n": n,
                "do": question.name,
                "classifier": name,
                "truth": float(truth[q, k]),
                "generator": float(question.generator_bias[k]),
                "effective": float(effective[q, s].mean()),
                "methods": {m: score(values[[q]][:, :, [k]], truth[[q]][:, [k]]) for m, values in at.items()},
            }
            for q, question in enumerate(pool.questions)
            for k, name in enumerate(pool.classifiers)
        ]
    return result


def tables(summary: dict[str, Any], sizes: Sequence[int]) -> Iterator[str]:
    """As Markdown."""
    yield "Coverage, in brackets twice its Monte-Carlo error:\n"
    yield header("n", "classifier")
    for n in sizes:
        for name, scores in (*summary["classifiers"][n].items(), ("**all**", summary["overall"][n])):
            cells = (with_error(told.get("coverage"), told.get("coverage_error")) for told in scores.values())
            yield f"| {n:,} | {name} | " + " | ".join(cells) + " |"
    for title, key in (("Mean width", "width"), ("Mean distance of the mean estimate from the truth", "absolute_bias")):
        yield f"\n{title}:\n"
        yield header("n", "classifier")
        for n in sizes:
            for name, scores in (*summary["classifiers"][n].items(), ("**all**", summary["overall"][n])):
                cells = (f"{told[key]:.3f}" if told["scored"] else "-" for told in scores.values())
                yield f"| {n:,} | {name} | " + " | ".join(cells) + " |"
    yield "\nRefused, of all resamples:\n"
    yield header("n")
    for n in sizes:
        told = summary["overall"][n].values()
        yield f"| {n:,} | " + " | ".join(f"{t['refused'] / (t['refused'] + t['scored']):.1%}" for t in told) + " |"
    yield f"\nNegative control, intervals that exclude 0 where the true effect is below {NOTHING}:\n"
    yield header("n", "interventions")
    for n in sizes:
        control = summary["negative_control"][n]
        cells = (with_error(told.get("share"), told.get("share_error")) for told in control.values())
        yield f"| {n:,} | {control['generator']['interventions']} | " + " | ".join(cells) + " |"


def header(*first: str) -> str:
    names = [*first, *TITLES.values()]
    return "| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|"


def with_error(share: float | None, error: float | None) -> str:
    if share is None or error is None:
        return "-"
    return f"{share:.1%}" + ("" if np.isnan(error) else f" (± {2 * error:.1%})")
