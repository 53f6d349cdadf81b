"""Tables drawn from a known graph of continuous, discrete or mixed attributes, and graphs that are wrong about them.

The true graph: a causes b and c, which together cause d; e stands alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cfgen.attributes import Schema
from cfgen.graph_check import GraphCheck, check_graph
from cfgen.scm import CausalGraph

TRUE = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
GRAPHS = {
    "true": TRUE,
    "missing edge": [edge for edge in TRUE if edge != ("a", "c")],
    "wrong edge": [edge for edge in TRUE if edge != ("c", "d")] + [("e", "d")],
    "hidden cause": TRUE,  # of b and e; the data are drawn with it
}
CONTRADICTED = {"missing edge": {"a", "c"}, "wrong edge": {"c", "d"}, "hidden cause": {"b", "e"}}
CONTINUOUS, BINARY, THREE = (
    {"kind": "continuous"},
    {"kind": "binary"},
    {"kind": "categorical", "values": ["x", "y", "z"]},
)
KINDS: dict[str, dict[str, dict[str, Any]]] = {
    "continuous": dict.fromkeys("abcde", CONTINUOUS),
    "discrete": {"a": THREE, "b": BINARY, "c": THREE, "d": BINARY, "e": BINARY},
    "mixed": {"a": CONTINUOUS, "b": BINARY, "c": THREE, "d": CONTINUOUS, "e": CONTINUOUS},
}


@dataclass(frozen=True)
class World:
    kinds: str
    graph: str

    def check(self, rows: int, seed: int) -> GraphCheck:
        schema = Schema(KINDS[self.kinds])
        return check_graph(CausalGraph(schema.names, GRAPHS[self.graph]), schema, self.columns(rows, seed))

    def found(self, rows: int, seed: int) -> bool:
        """Whether what is wrong with the graph is among the contradictions."""
        pairs = [{one.statement.one, one.statement.other} for one in self.check(rows, seed).contradictions]
        return CONTRADICTED[self.graph] in pairs

    def columns(self, rows: int, seed: int) -> dict[str, torch.Tensor]:
        rng = np.random.default_rng([seed, rows])
        kinds, values, signal = KINDS[self.kinds], {}, {}
        hidden = 1.5 * rng.normal(size=rows) if self.graph == "hidden cause" else np.zeros(rows)

        def draw(name: str, cause: np.ndarray) -> None:
            if kinds[name] is CONTINUOUS:
                values[name] = cause + 0.7 * rng.standard_t(5, size=rows)
                signal[name] = np.tanh(values[name])
            elif kinds[name] is BINARY:
                values[name] = (cause + 0.7 * rng.logistic(size=rows) > 0).astype(float)
                signal[name] = 2 * values[name] - 1
            else:
                scores = np.stack([-cause, np.zeros(rows), cause], axis=1) + rng.gumbel(size=(rows, 3))
                values[name] = scores.argmax(axis=1).astype(float)
                signal[name] = values[name] - 1

        draw("a", rng.normal(size=rows))
        draw("b", np.sin(1.5 * signal["a"]) + hidden)
        draw("c", signal["a"] + 0.5 * signal["a"] ** 2)
        draw("d", signal["b"] + signal["c"] + 0.8 * signal["b"] * signal["c"])
        draw("e", hidden)
        return {name: torch.from_numpy(column).float() for name, column in values.items()}
