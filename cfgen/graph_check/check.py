"""What a causal graph says of the data and the data do not bear out, and which of its edges the data do not show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from cfgen.attributes import Binary, Continuous, Schema
from cfgen.effects.estimate import Array
from cfgen.graph_check.dependence import Dependence, dependence
from cfgen.graph_check.regression import Residuals, Smoother
from cfgen.graph_check.scores import FEWEST, scores_of
from cfgen.scm.graph import CausalGraph

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "LEVEL",
    "GraphCheck",
    "Statement",
    "Tested",
    "association",
    "check_graph",
    "implied_independences",
    "measure_name",
]

LEVEL = 0.05  # how often a right graph is contradicted at all, over all tests together
MOST_ROWS = 20_000  # more rows only find smaller contradictions, and take longer
FEWEST_ROWS = 100  # below them, regressions have too little to go by


@dataclass(frozen=True)
class Statement:
    """`one` and `other` are independent, given `given`."""

    one: str
    other: str
    given: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.one} ⊥ {self.other}" + (f" | {', '.join(self.given)}" if self.given else "")


@dataclass(frozen=True)
class Tested:
    """A statement with its test; `adjusted` is its p-value among all tests of its kind (Holm)."""

    statement: Statement
    found: Dependence
    adjusted: float

    @property
    def rejected(self) -> bool:
        return self.adjusted < LEVEL

    def to_dict(self) -> dict[str, Any]:
        said = self.statement
        return {
            "one": said.one,
            "other": said.other,
            "given": list(said.given),
            "statistic": self.found.statistic,
            "degrees_of_freedom": self.found.freedom,
            "p_value": self.found.p_value,
            "adjusted_p_value": self.adjusted,
            "strength": self.found.strength,
            "rejected": self.rejected,
        }


@dataclass(frozen=True)
class GraphCheck:
    """The tests of what a graph implies (`independences`) and of its edges (`edges`: cause, effect, the effect's other causes).

    `untested` says of attributes why they could not be tested.
    """

    independences: list[Tested]
    edges: list[Tested]
    rows: int
    untested: dict[str, str] = field(default_factory=dict)

    @property
    def contradictions(self) -> list[Tested]:
        """The independences that the data reject, the strongest first."""
        return sorted((one for one in self.independences if one.rejected), key=lambda one: -abs(one.found.strength))

    @property
    def unseen_edges(self) -> list[Tested]:
        """Edges along which no dependence is seen, given the effect's other causes: each by its own p-value, for
        not to see one is no error."""
        return [one for one in self.edges if one.found.p_value >= LEVEL]

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "level": LEVEL,
            "independences": [one.to_dict() for one in self.independences],
            "edges": [one.to_dict() for one in self.edges],
            "untested": self.untested,
        }

    def to_frame(self) -> pd.DataFrame:
        """A row for each test; `kind` says whether the graph implies an independence or has an edge there."""
        import pandas as pd

        kinds = {"independence": self.independences, "edge": self.edges}
        return pd.DataFrame([{"kind": kind} | one.to_dict() for kind, tested in kinds.items() for one in tested])


def implied_independences(graph: CausalGraph) -> list[Statement]:
    """The local Markov property: each attribute is independent of every earlier one that is no parent, given its parents.

    All other independences of the graph follow from these.

    >>> [str(one) for one in implied_independences(CausalGraph("abc", [("a", "b"), ("b", "c")]))]
    ['c ⊥ a | b']
    """
    return [
        Statement(name, earlier, tuple(graph.parents[name]))
        for position, name in enumerate(graph.order)
        for earlier in graph.order[:position]
        if earlier not in graph.parents[name]
    ]


def edge_statements(graph: CausalGraph) -> list[Statement]:
    """What would hold without an edge: its effect is independent of its cause, given the effect's other causes."""
    return [
        Statement(effect, cause, tuple(other for other in graph.parents[effect] if other != cause))
        for cause, effect in graph.edges
    ]


def check_graph(graph: CausalGraph, schema: Schema, columns: Mapping[str, Tensor], seed: int = 0) -> GraphCheck:
    """Tests what the graph implies, and its edges, on columns in real units.

    >>> import torch
    >>> a, noise = torch.randn(2, 400, generator=torch.Generator().manual_seed(0))
    >>> schema = Schema({"a": {"kind": "continuous"}, "b": {"kind": "continuous"}})
    >>> found = check_graph(CausalGraph("ab"), schema, {"a": a, "b": a + noise})
    >>> [str(one.statement) for one in found.contradictions]
    ['b ⊥ a']
    """
    tests = Tests(schema, columns, seed)
    independences = list(tests.run(implied_independences(graph)))
    edges = list(tests.run(edge_statements(graph)))
    return GraphCheck(adjusted(independences), adjusted(edges), tests.rows, tests.untested)


def association(schema: Schema, columns: Mapping[str, Tensor], seed: int = 0) -> dict[tuple[str, str], Dependence]:
    """How strongly each pair of attributes depends on each other, nothing held fixed; pairs that cannot be tested are missing."""
    names = schema.names
    pairs = [Statement(one, other) for position, one in enumerate(names) for other in names[position + 1 :]]
    return {(said.one, said.other): found for said, found in Tests(schema, columns, seed).run(pairs)}


def measure_name(schema: Schema, one: str, other: str) -> str:
    """What the strength of a pair is called.

    >>> measure_name(Schema({"age": {"kind": "continuous"}, "grey": {"kind": "binary"}}), "age", "grey")
    'eta'
    """
    match schema[one], schema[other]:
        case Continuous(), Continuous():
            return "Spearman's rho"
        case (Continuous(), _) | (_, Continuous()):
            return "eta"
        case Binary(), Binary():
            return "phi"
    return "Cramér's V"


class Tests:
    """The columns that are tested, and the residuals that several tests share."""

    def __init__(self, schema: Schema, columns: Mapping[str, Tensor], seed: int) -> None:
        values = {name: columns[name].double().cpu().numpy() for name in schema.names}
        total = len(next(iter(values.values())))
        self.schema, self.seed, self.rows = schema, seed, min(total, MOST_ROWS)
        if total > MOST_ROWS:
            chosen = np.random.default_rng(seed).permutation(total)[:MOST_ROWS]
            values = {name: column[chosen] for name, column in values.items()}
        self.values: dict[str, Array] = values
        self.scores = {name: scores_of(schema[name], column) for name, column in values.items()}
        few = f"{self.rows} images are too few, and {FEWEST_ROWS} are needed"
        rare = f"fewer than two of its values have {FEWEST} images"
        self.untested = {name: few if self.rows < FEWEST_ROWS else rare for name in values if not self.testable(name)}

    def testable(self, name: str) -> bool:
        return self.rows >= FEWEST_ROWS and self.scores[name].testable

    def run(self, statements: Sequence[Statement]) -> Iterator[tuple[Statement, Dependence]]:
        """Tests the statements that can be tested; those that hold the same attributes fixed one after the other."""
        smoother: Smoother | None = None
        residuals: dict[str, Residuals] = {}
        given: tuple[str, ...] | None = None
        for said in sorted(statements, key=lambda one: one.given):
            if not (self.testable(said.one) and self.testable(said.other)):
                continue
            if said.given != given or smoother is None:
                fixed = [(self.schema[name], self.values[name]) for name in said.given]
                smoother, residuals, given = Smoother(fixed, self.rows, self.seed), {}, said.given
            for name in (said.one, said.other):
                if name not in residuals:
                    residuals[name] = smoother.residuals(self.scores[name].values)
            found = (residuals[said.one], residuals[said.other])
            yield said, dependence(smoother, self.scores[said.one], self.scores[said.other], found)


def adjusted(tested: Sequence[tuple[Statement, Dependence]]) -> list[Tested]:
    """Holm's step-down p-values: the chance that any true statement among them is rejected is held, however they depend."""
    order = sorted(range(len(tested)), key=lambda position: tested[position][1].p_value)
    p = {}
    highest = 0.0
    for rank, position in enumerate(order):
        highest = max(highest, min(1.0, (len(tested) - rank) * tested[position][1].p_value))
        p[position] = highest
    return [Tested(said, found, p[position]) for position, (said, found) in enumerate(tested)]
