"""The causal graph: order, descendants, refusals, and a picture."""

import pytest

from cfgen.scm import CausalGraph


def test_order_and_descendants():
    graph = CausalGraph("dcba", [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
    assert graph.order == ["a", "b", "c", "d"]
    assert graph.descendants(["b"]) == {"c", "d"}
    assert graph.descendants(["a", "c"]) == {"b", "c", "d"}
    assert graph.descendants([]) == set()


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (
            [("thickness", "intensty")],
            "edge thickness -> intensty: unknown attribute 'intensty'. Did you mean 'intensity'",
        ),
        ([("thickness", "intensity")] * 2, "edge thickness -> intensity is given twice"),
        ([("thickness", "intensity"), ("intensity", "thickness")], "cycle: (thickness|intensity) -> .* -> "),
        ([("slant", "slant")], "cycle: slant -> slant"),
        ([("slant",)], "pair"),
    ],
)
def test_bad_graphs_name_the_edge(edges, message):
    with pytest.raises(ValueError, match=message):
        CausalGraph(["thickness", "intensity", "slant"], edges)


def test_draws_every_node_once(tmp_path):
    graph = CausalGraph(["Young", "Gray_Hair", *(f"A{i}" for i in range(20))], [("Young", "Gray_Hair")])
    figure = graph.draw("a title")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(texts) == sorted([*(name.replace("_", "\n") for name in graph.names), "x"])
    figure.savefig(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").stat().st_size > 1000
