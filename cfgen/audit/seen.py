"""How strongly an intervention is drawn, by the columns of a table that a predictor filled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from cfgen.attributes import Schema
from cfgen.audit.plan import Plan, Scores
from cfgen.audit.reading import target_value
from cfgen.audit.strength import Strength, graded_strength, slope_strength, strength
from cfgen.effects import Array, Mask, RealImages

__all__ = ["strength_seen"]


def strength_seen(
    scores: Scores,
    change: str,
    plan: Plan,
    schema: Schema,
    columns: Mapping[str, Tensor],
    real: RealImages,
    rows: Mask,
) -> Strength | None:
    """Of the images `rows`, those that `real` is about; None where no predictor read them."""
    if f"seen/{change}" not in scores:
        return None

    def column(kind: str) -> Array:
        return scores[f"{kind}/{change}"].double().numpy()[rows]

    looked_at = ~np.isnan(column("read"))
    seen, read = column("seen")[looked_at], column("read")[looked_at]
    alone = target_value(schema, plan.do[change])
    if alone is not None:
        name, wanted = alone
        own = columns[name].double().numpy()[rows][looked_at]
        asked = wanted.double().expand(len(rows)).numpy()[rows][looked_at]
        return slope_strength(seen, read, asked, own, real.features[looked_at])
    changed, near = real.exposure.changed[looked_at], real.exposure.near[looked_at]
    weights: Array | None = real.weights[looked_at]
    if not (near.any() and changed.any()):
        return None
    found = strength(seen, read, changed, near, weights)
    if not found.judged:  # weighted, few images count for all: they may say less than all of them alike
        weights = None
        found = strength(seen, read, changed, near)
    if f"drawn/{change}" not in scores:
        return found
    return graded_strength(found, column("drawn")[looked_at], column("there")[looked_at], changed, near, weights)
