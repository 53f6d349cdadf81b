"""Which attributes make the images that have an attribute comparable with those that do not: the adjustment set."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
from torch import Tensor

from cfgen.attributes import Categorical, Continuous, Schema
from cfgen.effects.estimate import Array
from cfgen.scm.graph import CausalGraph

__all__ = ["Adjustment", "adjustment_for", "features"]

IMAGE = "the image"  # no attribute can have this name: names have no space


@dataclass(frozen=True)
class Adjustment:
    """The attributes that are adjusted for; `problem` says why real images cannot answer, where they cannot."""

    names: list[str]
    problem: str = ""


def adjustment_for(
    graph: CausalGraph, changed: Collection[str], hold: Collection[str] = (), among: Collection[str] = ()
) -> Adjustment:
    """All attributes that the intervention does not cause, and those that it is not to move (`hold`).

    By the adjustment criterion (Shpitser, VanderWeele and Robins, 2010) they make the answers of images that have the values
    those that the others would get, if they block every path between the intervention and the image that is not its effect.
    That fails where an effect of one of several intervened attributes causes another of them, and where images are chosen
    (`among`) by an effect of the intervention.

    >>> graph = CausalGraph(["Young", "Gray_Hair", "Bangs"], [("Young", "Gray_Hair")])
    >>> adjustment_for(graph, ["Gray_Hair"]).names, adjustment_for(graph, ["Young"]).names
    (['Young', 'Bangs'], ['Bangs'])
    >>> adjustment_for(graph, ["Young"], hold=["Gray_Hair"]).names
    ['Gray_Hair', 'Bangs']
    """
    effects = graph.descendants(changed) - set(changed)
    names = [name for name in graph.names if name not in changed and (name not in effects or name in hold)]
    if chosen := sorted((effects - set(hold)) & set(among)):
        return Adjustment(names, f"images are chosen by {', '.join(chosen)}, which the intervention itself changes")
    # paths that are effects begin with an edge out of what is set; what is still open without these edges is not an effect
    fixed = set(changed) | (set(hold) & effects)
    open_paths = nx.DiGraph((cause, effect) for cause, effect in graph.edges if cause not in fixed or effect in fixed)
    open_paths.add_nodes_from([*graph.names, IMAGE])
    open_paths.add_edges_from((name, IMAGE) for name in graph.names if name not in fixed)
    if not nx.is_d_separator(open_paths, fixed, {IMAGE}, set(names) - fixed):
        between = sorted(name for name in effects - fixed if graph.descendants([name]) & fixed)
        return Adjustment(
            names, f"{', '.join(between)} follows from the intervention and causes another attribute of it"
        )
    return Adjustment(names)


def features(
    schema: Schema, columns: Mapping[str, Tensor], names: Sequence[str], extra: Mapping[str, Tensor] | None = None
) -> Array:
    """The columns that regressions see, (N, k): continuous ones with their squares, one for each value of a categorical one.

    `extra` are columns beside the attributes.  With few whole numbers as values they are taken as categories.
    """
    parts: list[Array] = []
    for name in names:
        column = columns[name].double().cpu().numpy()
        attribute = schema[name]
        if isinstance(attribute, Categorical):
            parts.append(one_hot(column, range(attribute.size)))
        elif isinstance(attribute, Continuous):
            parts.append(powers(column))
        else:
            parts.append(column[:, None])
    for values in (extra or {}).values():
        column = values.double().cpu().numpy()
        levels = np.unique(column)
        parts.append(one_hot(column, levels[1:]) if len(levels) <= 10 else powers(column))
    rows = len(next(iter(columns.values())))
    return np.concatenate(parts, axis=1) if parts else np.zeros((rows, 0))


def one_hot(column: Array, values: Sequence[float] | range | Array) -> Array:
    return np.stack([(column == value).astype(np.float64) for value in values], axis=1)


def powers(column: Array) -> Array:
    scaled = (column - column.mean()) / (column.std() or 1.0)
    return np.stack([scaled, scaled**2], axis=1)
