"""Effects in subgroups of the images, with intervals and tests that are corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from torch import Tensor

from cfgen.attributes import Categorical, Continuous, Schema
from cfgen.audit.questions import Group
from cfgen.audit.verdict import Verdict
from cfgen.effects import CONFIDENCE, Effect, Estimate
from cfgen.errors import UserError, require_different, unknown_name

BiasCell = tuple[Effect, Verdict]


@dataclass(frozen=True)
class SubgroupRow:
    """The bias of one intervention in one subgroup.

    `low` and `high` are the ends of an interval that is simultaneous for all subgroups of the intervention (Bonferroni).
    `differs` is the p-value that the attribute's subgroups have the same bias (Cochran's Q), corrected for the number of
    attributes (Holm).  `corrected` says whether real images correct the estimate; otherwise it is model-only.
    """

    change: str
    attribute: str
    subgroup: str
    n: int
    bias: float
    low: float
    high: float
    corrected: bool
    verdict: str
    differs: float

    def record(self) -> dict[str, Any]:
        return dict(vars(self))


def subgroups_of(schema: Schema, columns: Mapping[str, Tensor], names: str | Sequence[str]) -> tuple[Group, ...]:
    """A group for every value of these binary and categorical attributes ("all": of all) that some image has."""
    known = [name for name in schema.names if not isinstance(schema[name], Continuous)]
    wanted = known if names == "all" else [names] if isinstance(names, str) else list(names)
    require_different(wanted, "subgroups")
    groups = []
    for name in wanted:
        if name not in known:
            raise UserError(unknown_name("binary or categorical attribute", name, known), argument="subgroups")
        attribute = schema[name]
        values: Sequence[Any] = attribute.values if isinstance(attribute, Categorical) else (0, 1)
        for position, value in enumerate(values):
            members = columns[name] == position
            if members.any():
                groups.append(Group(f"{name}={value}", members, (name,)))
    return tuple(groups)


def subgroup_rows(groups: Sequence[Group], rows: Mapping[tuple[str, str], BiasCell]) -> list[SubgroupRow]:
    """`rows` has effect and verdict by the names of subgroup and intervention."""
    found = []
    for change in dict.fromkeys(change for _, change in rows):
        mine = [
            (group.selected_by[0], group.name, *rows[group.name, change])
            for group in groups
            if (group.name, change) in rows
        ]
        confidence = 1 - (1 - CONFIDENCE) / max(len(mine), 1)
        p = holm({
            name: equal_effects([effect.headline for attribute, _, effect, _ in mine if attribute == name])
            for name in dict.fromkeys(attribute for attribute, *_ in mine)
        })  # fmt: skip
        for attribute, name, effect, verdict in mine:
            low, high = effect.headline.interval_at(confidence)
            found.append(
                SubgroupRow(
                    change, attribute, name, effect.n_target, effect.headline.value, low, high,
                    effect.combined is not None, verdict.code, p[attribute],
                )
            )  # fmt: skip
    return found


def equal_effects(estimates: Sequence[Estimate]) -> float:
    """Cochran's Q: the p-value that estimates from different images are of the same quantity.

    >>> same = Estimate(0.1, np.array([0.1, -0.1]), 100)
    >>> round(equal_effects([same, same]), 6), math.isnan(equal_effects([same]))
    (1.0, True)
    """
    usable = [estimate for estimate in estimates if estimate.variance > 0]
    if len(usable) < 2:
        return math.nan
    values = np.array([estimate.value for estimate in usable])
    weights = 1 / np.array([estimate.variance for estimate in usable])
    q = float(weights @ (values - weights @ values / weights.sum()) ** 2)
    return float(stats.chi2.sf(q, len(usable) - 1))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """p-values corrected for their number (Holm); NaN stays.

    >>> holm({"a": 0.01, "b": 0.04})
    {'a': 0.02, 'b': 0.04}
    """
    known = sorted((p, name) for name, p in p_values.items() if not math.isnan(p))
    corrected, least = dict(p_values), 0.0
    for rank, (p, name) in enumerate(known):
        least = max(least, min(p * (len(known) - rank), 1.0))
        corrected[name] = least
    return corrected
