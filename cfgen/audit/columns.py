"""The tables of answers: their columns, and which tables a classifier has."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor, nn

from cfgen.attributes import Schema
from cfgen.audit.asking import do_column, start_column
from cfgen.audit.explained import Line
from cfgen.audit.plan import Plan, Scores
from cfgen.audit.reading import grades, readable, target_value
from cfgen.audit.transformations import AFFINE
from cfgen.contracts import ReadsAttributes
from cfgen.external.answers import EveryClass

__all__ = ["column_names", "scores_of", "table_names"]


def table_names(key: str, classifier: nn.Module) -> tuple[str, ...]:
    return classifier.tables if isinstance(classifier, EveryClass) else (key,)


def scores_of(names: list[str], tables: Sequence[str], values: Tensor, value: bool) -> dict[str, Scores]:
    """The tables of one classifier, (tables, N, columns); with several, each has where its class is the most probable."""
    if len(tables) == 1:
        return {tables[0]: Scores(names, values[0], value=value)}
    chosen = values.argmax(dim=0)
    return {name: Scores(names, values[k], chosen == k) for k, name in enumerate(tables)}


def column_names(
    schema: Schema,
    plan: Plan,
    lines: Sequence[Line],
    predictor: ReadsAttributes | None,
    truth: bool,
    pairs: Collection[str],
) -> list[str]:
    """The columns of a table, the same on every process."""
    names = ["real", "base", "mse", *AFFINE, *map(do_column, plan.do), *map(start_column, plan.start)]
    names += ["own"] if plan.keep_residual else []
    names += [f"flip/{line.name}" for line in lines]
    names += [f"dose/{name}/{strength:g}" for name in plan.do for strength in plan.strengths]
    for name in readable(schema, predictor, plan):
        graded = grades(predictor) and target_value(schema, plan.do[name]) is None
        names += [f"read/{name}", f"there/{name}"] if graded else [f"read/{name}"]
        for kind in ("seen", "drawn") if graded else ("seen",):
            names += [f"{kind}/{name}", *(f"{kind}/{name}/{strength:g}" for strength in plan.strengths)]
    if truth:
        known = [name for name in plan.do if name not in plan.start]
        names += [f"{kind}/{name}" for name in known for kind in ("true", "error", "untouched")]
    return names + [f"pair/{name}" for name in plan.do if name in pairs]
