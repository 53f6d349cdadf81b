"""The causal graph over attributes: known structure, given by the user (Appendix A)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import networkx as nx

from cfgen.attributes import unknown_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CausalGraph"]


class CausalGraph:
    """A directed acyclic graph over named attributes; every attribute also causes the image x (Fig. 2).

    `order` is topological and breaks ties by the order in which the attributes were declared.

    >>> graph = CausalGraph(["intensity", "thickness", "slant"], [("thickness", "intensity")])
    >>> graph.order, graph.parents["intensity"]
    (['thickness', 'intensity', 'slant'], ['thickness'])
    """

    def __init__(self, names: Iterable[str], edges: Iterable[Sequence[str]] = ()) -> None:
        self.names = list(names)
        self.edges: list[tuple[str, str]] = []
        for edge in edges:
            if len(edge) != 2:
                raise ValueError(f"an edge is a pair [cause, effect], not {list(edge)}")
            cause, effect = edge
            for name in (cause, effect):
                if name not in self.names:
                    raise ValueError(f"edge {cause} -> {effect}: {unknown_name('attribute', name, self.names)}")
            if (cause, effect) in self.edges:
                raise ValueError(f"edge {cause} -> {effect} is given twice")
            self.edges.append((cause, effect))
        self.parents = {name: [c for c, e in self.edges if e == name] for name in self.names}
        self.children = {name: [e for c, e in self.edges if c == name] for name in self.names}
        self._graph = nx.DiGraph(self.edges)
        self._graph.add_nodes_from(self.names)
        self.order = self._order()

    def _order(self) -> list[str]:
        if not nx.is_directed_acyclic_graph(self._graph):
            cycle = [cause for cause, _ in nx.find_cycle(self._graph)]
            raise ValueError(f"the graph has a cycle: {' -> '.join([*cycle, cycle[0]])}")
        return list(nx.lexicographical_topological_sort(self._graph, key=self.names.index))

    def descendants(self, names: Iterable[str], held: Iterable[str] = ()) -> set[str]:
        """Everything caused by `names`, directly or not; a name is not its own descendant.

        What is `held` does not change, and so hands nothing on.

        >>> graph = CausalGraph("abc", [("a", "b"), ("b", "c")])
        >>> sorted(graph.descendants(["a"])), sorted(graph.descendants(["a"], held=["b"]))
        (['b', 'c'], [])
        """
        names = list(names)
        free = nx.restricted_view(self._graph, set(held) - set(names), [])
        return set().union(*(nx.descendants(free, name) for name in names))

    def draw(self, title: str = "") -> Figure:
        """The graph as a figure: causes above effects, the image x below them all."""
        from matplotlib.figure import Figure
        from matplotlib.patches import FancyArrowPatch

        depth = dict.fromkeys(self.names, 0)
        for name in self.order:
            depth[name] = max((depth[p] + 1 for p in self.parents[name]), default=0)
        rows = [[n for n in self.names if depth[n] == level] for level in range(max(depth.values()) + 1)]
        # long rows wrap, so that forty independent attributes stay readable
        rows = [row[i : i + 8] for row in rows for i in range(0, len(row), 8)] + [["x"]]
        widest = max(map(len, rows))
        figure = Figure(figsize=(max(3.0, 1.35 * widest), 1.1 * len(rows) + 0.4), layout="constrained")
        axes = figure.add_subplot()
        place = {
            name: (index - (len(row) - 1) / 2, -float(level))
            for level, row in enumerate(rows)
            for index, name in enumerate(row)
        }
        arrows = [(c, e, "0.2") for c, e in self.edges] + [(n, "x", "0.75") for n in self.names]
        for cause, effect, colour in arrows:
            arrow = FancyArrowPatch(
                place[cause],
                place[effect],
                arrowstyle="-|>",
                mutation_scale=12,
                shrinkA=16,
                shrinkB=16,
                color=colour,
                connectionstyle="arc3,rad=0.08",
                zorder=1,
            )
            axes.add_patch(arrow)
        for name, (across, down) in place.items():
            face = "0.9" if name == "x" else "white"
            axes.text(
                across,
                down,
                name.replace("_", "\n"),
                ha="center",
                va="center",
                fontsize=9,
                zorder=2,
                parse_math=False,  # a name may hold a dollar sign
                bbox={"boxstyle": "round,pad=0.4", "facecolor": face, "edgecolor": "0.2"},
            )
        axes.set_xlim(-widest / 2 - 0.1, widest / 2 + 0.1)
        axes.set_ylim(-len(rows) + 0.4, 0.6)
        axes.axis("off")
        if title:
            axes.set_title(title, fontsize=10, parse_math=False)
        return figure
