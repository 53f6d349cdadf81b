"""The graph check: keeps its level where the graph is right, and finds what is wrong where it is not."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cfgen.attributes import Schema
from cfgen.graph_check import LEVEL, association, check_graph, implied_independences
from cfgen.graph_check.check import MOST_ROWS, adjusted
from cfgen.graph_check.dependence import Dependence
from cfgen.scm import CausalGraph
from tests.graph_check.simulated import CONTRADICTED, KINDS, World

TABLES = 30  # benchmarks/graph_check.py draws 200


@pytest.mark.parametrize("kinds", KINDS)
def test_a_right_graph_is_accepted_at_its_level(kinds):
    """Over all tests of a table together; and each test alone rejects as often as it says."""
    checks = [World(kinds, "true").check(500, seed) for seed in range(TABLES)]
    wrong = sum(bool(check.contradictions) for check in checks)
    assert wrong <= stats.binom(TABLES, LEVEL).ppf(0.999)
    p = np.array([[one.found.p_value for one in check.independences] for check in checks])
    assert p.shape == (TABLES, 6)
    # every test has a level of its own
    assert ((p < 0.1).sum(axis=0) <= stats.binom(TABLES, 0.1).ppf(0.9999)).all()
    # tests of a table depend on each other, but their mean p-value over tables is that of uniform ones
    assert abs(p.mean() - 0.5) < 4 * np.sqrt(1 / 12 / TABLES)
    assert not any(check.unseen_edges for check in checks)


@pytest.mark.parametrize("wrong", CONTRADICTED)
@pytest.mark.parametrize("kinds", KINDS)
def test_finds_what_is_wrong(kinds, wrong):
    """In all of five tables."""
    assert all(World(kinds, wrong).found(800, seed) for seed in range(5))


@pytest.mark.parametrize("kinds", KINDS)
def test_an_edge_too_many_is_a_remark_and_no_contradiction(kinds):
    """Not seen in about 95 of 100 tables; and a graph with more edges is not contradicted for that."""
    schema = Schema(KINDS[kinds])
    edges = [*World(kinds, "true").check(500, 0).edges]
    graph = CausalGraph(schema.names, [*((one.statement.other, one.statement.one) for one in edges), ("e", "d")])
    unseen = []
    for seed in range(10):
        check = check_graph(graph, schema, World(kinds, "true").columns(500, seed))
        unseen.append(("d", "e") in [(one.statement.one, one.statement.other) for one in check.unseen_edges])
        assert len(check.unseen_edges) == unseen[-1]
    assert sum(unseen) >= 7


@given(st.integers(2, 6), st.integers(0, 2**15 - 1))
def test_statements_are_d_separations_one_for_each_pair_without_an_edge(size, bits):
    names = "abcdef"[:size]
    pairs = [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]
    edges = [pair for k, pair in enumerate(pairs) if bits >> k & 1]
    statements = implied_independences(CausalGraph(names, edges))
    dag = nx.DiGraph(edges)
    dag.add_nodes_from(names)
    assert all(nx.is_d_separator(dag, {one.one}, {one.other}, set(one.given)) for one in statements)
    assert {frozenset((one.one, one.other)) for one in statements} == {
        frozenset(pair) for pair in set(pairs) - set(edges)
    }
    assert len(statements) == len(pairs) - len(edges)


def test_adjustment_is_holms():
    p = [0.01, 0.04, 0.03, 0.005]
    found = adjusted([(None, Dependence(0.0, 1, value, 0.0)) for value in p])
    assert [one.adjusted for one in found] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert [one.rejected for one in found] == [True, False, False, True]


def test_what_cannot_be_tested_is_said():
    rng = np.random.default_rng(0)
    columns = {
        "rare": torch.tensor([1.0] * 5 + [0.0] * 295),
        "still": torch.full((300,), 2.0),
        "one": torch.from_numpy(rng.normal(size=300)),
        "two": torch.from_numpy(rng.normal(size=300)),
    }
    schema = Schema({name: {"kind": "binary" if name == "rare" else "continuous"} for name in columns})
    check = check_graph(CausalGraph(schema.names), schema, columns)
    assert set(check.untested) == {"rare", "still"}
    assert [str(one.statement) for one in check.independences] == ["two ⊥ one"]
    assert list(association(schema, columns)) == [("one", "two")]
    few = check_graph(CausalGraph(schema.names), schema, {name: column[:50] for name, column in columns.items()})
    assert not few.independences
    assert len(few.untested) == 4


def test_many_rows_are_sampled_and_the_same_seed_gives_the_same_answer():
    rng = np.random.default_rng(0)
    columns = {name: torch.from_numpy(rng.normal(size=MOST_ROWS + 1000)) for name in "ab"}
    schema = Schema({name: {"kind": "continuous"} for name in "ab"})
    first, again = (check_graph(CausalGraph("ab"), schema, columns) for _ in range(2))
    assert first.rows == MOST_ROWS
    assert first.to_dict() == again.to_dict()
    assert first.to_frame()["p_value"].tolist() == [first.independences[0].found.p_value]
