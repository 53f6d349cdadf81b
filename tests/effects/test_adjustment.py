"""Which attributes are adjusted for: the graph decides, and refuses what cannot be told from real images."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cfgen.attributes import Schema
from cfgen.effects import RealImages, adjustment_for, features
from cfgen.interventions import Set
from cfgen.scm.graph import CausalGraph

FACES = CausalGraph(["Young", "Gray_Hair", "Eyeglasses", "Bangs"], [("Young", "Gray_Hair"), ("Young", "Eyeglasses")])


@st.composite
def graphs(draw):
    names = [f"a{k}" for k in range(draw(st.integers(2, 6)))]
    pairs = [(cause, effect) for k, cause in enumerate(names) for effect in names[k + 1 :]]
    return CausalGraph(names, draw(st.lists(st.sampled_from(pairs), unique=True)))


@given(graphs(), st.data())
def test_effects_stay_out_and_all_else_goes_in(graph, data):
    changed = data.draw(st.lists(st.sampled_from(graph.names), min_size=1, unique=True))
    effects = graph.descendants(changed) - set(changed)
    names = adjustment_for(graph, changed).names
    assert set(names) == set(graph.names) - set(changed) - effects


@given(graphs(), st.data())
def test_one_attribute_can_always_be_asked_about(graph, data):
    name = data.draw(st.sampled_from(graph.names))
    assert adjustment_for(graph, [name]).problem == ""


@given(graphs(), st.data())
def test_what_is_held_is_adjusted_for(graph, data):
    name = data.draw(st.sampled_from(graph.names))
    effects = sorted(graph.descendants([name]))
    hold = data.draw(st.lists(st.sampled_from(effects), unique=True)) if effects else []
    assert set(hold) <= set(adjustment_for(graph, [name], hold=hold).names)


def test_holding_one_effect_leaves_the_other_out():
    assert adjustment_for(FACES, ["Young"]).names == ["Bangs"]
    assert adjustment_for(FACES, ["Young"], hold=["Gray_Hair"]).names == ["Gray_Hair", "Bangs"]
    assert adjustment_for(FACES, ["Gray_Hair"]).names == ["Young", "Eyeglasses", "Bangs"]


def test_an_effect_of_one_that_causes_the_other_is_refused():
    """M must be adjusted for, since it makes T and the image alike, and must not be, since A acts through it."""
    graph = CausalGraph(["A", "M", "T"], [("A", "M"), ("M", "T")])
    assert "M" in adjustment_for(graph, ["A", "T"]).problem
    assert adjustment_for(graph, ["A", "T"], hold=["M"]).problem == ""
    assert adjustment_for(CausalGraph(["A", "M", "T"], [("A", "M"), ("A", "T")]), ["A", "T"]).problem == ""


def test_a_cohort_that_the_intervention_changes_is_refused():
    assert "Gray_Hair" in adjustment_for(FACES, ["Young"], among=["Gray_Hair"]).problem
    assert adjustment_for(FACES, ["Young"], hold=["Gray_Hair"], among=["Gray_Hair"]).problem == ""
    assert adjustment_for(FACES, ["Gray_Hair"], among=["Young", "Bangs"]).problem == ""


def test_columns_beside_the_attributes_remove_a_hidden_confounder():
    """`extra` columns, which no model knows, are adjusted for like the others."""
    rng = np.random.default_rng(1)
    n = 6000
    camera = rng.integers(3, size=n)
    bangs = rng.random(n) < np.array([0.2, 0.4, 0.7])[camera]
    answers = (0.8 * camera + rng.normal(size=n) > 1).astype(float)  # Bangs do nothing, the camera does
    schema = Schema({"Bangs": {"kind": "binary"}, "Smiling": {"kind": "binary"}})
    columns = {"Bangs": torch.tensor(bangs).float(), "Smiling": torch.tensor(rng.integers(2, size=n)).float()}
    exposure = Set.from_values(schema, {"Bangs": 1}).exposure(columns)
    blind = RealImages(exposure, features(schema, columns, ["Smiling"])).estimate(answers)
    matrix = features(schema, columns, ["Smiling"], extra={"camera": torch.tensor(camera)})
    assert matrix.shape == (n, 3)  # Smiling, and two of the three cameras
    seeing = RealImages(exposure, matrix).estimate(answers)
    assert blind.low > 0.1
    assert seeing.holds(0)


def test_kinds_of_columns():
    schema = Schema(
        {"t": {"kind": "continuous", "low": 0, "high": 9}, "label": {"kind": "categorical", "values": [3, 7, 8]}}
    )
    columns = {"t": torch.tensor([1.0, 2.0, 3.0, 6.0]), "label": torch.tensor([0.0, 2.0, 2.0, 1.0])}
    matrix = features(schema, columns, ["t", "label"])
    assert matrix.shape == (4, 5)  # t, its square, one column a label
    assert matrix[:, 0].mean() == pytest.approx(0)
    assert matrix[:, 1] == pytest.approx(matrix[:, 0] ** 2)
    assert matrix[:, 2:].tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert features(schema, columns, []).shape == (4, 0)


def test_who_is_changed_and_who_has_it():
    schema = Schema({"t": {"kind": "continuous", "low": 0, "high": 9}, "b": {"kind": "binary"}})
    columns = {"t": torch.linspace(0, 9, 1001), "b": torch.arange(1001).remainder(2).float()}
    joint = Set.from_values(schema, {"t": 4.5, "b": 1}).exposure(columns)
    assert not joint.exact
    assert joint.target.sum() == 1001  # the one at 4.5 has b = 0
    assert (joint.exposed <= joint.fit_rows).all()
    assert (columns["b"][torch.from_numpy(joint.exposed)] == 1).all()
    assert np.abs(columns["t"].numpy()[joint.exposed] - 4.5).max() <= joint.window["t"]
    binary = Set.from_values(schema, {"b": 0}).exposure(columns)
    assert binary.exact
    assert (binary.target == ~binary.exposed).all()
