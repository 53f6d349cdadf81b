"""Laws of counterfactuals, over random graphs with every kind of attribute and mechanism."""

from functools import lru_cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cfgen.scm import AttributeSCM

KINDS = {
    "continuous": {"kind": "continuous"},
    "binary": {"kind": "binary"},
    "categorical": {"kind": "categorical", "values": ["x", "y", "z"]},
}
ROWS = 200


@lru_cache(maxsize=256)
def fitted(kinds: tuple[str, ...], edges: tuple[tuple[int, int], ...], seed: int) -> tuple[AttributeSCM, dict]:
    """An SCM with that structure, fitted on made-up rows in which effects do depend on their causes."""
    generator = torch.Generator().manual_seed(seed)
    names = [f"a{i}" for i in range(len(kinds))]
    columns: dict[str, torch.Tensor] = {}
    for i, kind in enumerate(kinds):
        cause = sum((columns[names[c]] for c, e in edges if e == i), torch.zeros(ROWS))
        value = cause + torch.randn(ROWS, generator=generator)
        states = {"binary": 2, "categorical": 3}.get(kind)
        columns[names[i]] = value if states is None else (value - value.min()).round().remainder(states)
    mechanisms: dict[str, str] = {}
    for i, kind in enumerate(kinds):
        root = not any(e == i for _, e in edges)
        if kind == "continuous":
            mechanisms[names[i]] = ["empirical" if root else "gaussian", "gaussian", "mlp"][seed % 3]
        elif all(kinds[c] != "continuous" for c, e in edges if e == i):
            mechanisms[names[i]] = ["cpt", "logistic"][seed % 2]
    scm = AttributeSCM(
        {n: KINDS[k] for n, k in zip(names, kinds, strict=True)}, [(names[c], names[e]) for c, e in edges], mechanisms
    )
    return scm.fit(columns), columns


@st.composite
def fitted_scms(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=5))
    pairs = [(c, e) for e in range(len(kinds)) for c in range(e)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=6))
    return fitted(tuple(kinds), tuple(edges), draw(st.integers(0, 5)))


@st.composite
def interventions(draw, columns):
    """Values taken from other rows, so that they are always in range."""
    names = draw(st.lists(st.sampled_from(sorted(columns)), unique=True, min_size=1))
    rows = torch.randperm(ROWS, generator=torch.Generator().manual_seed(draw(st.integers(0, 99))))
    return {name: columns[name][rows] for name in names}


def equal(ours, theirs, names=None):
    return all(torch.equal(ours[name], theirs[name]) for name in (ours if names is None else names))


laws = settings(max_examples=40)


@laws
@given(fitted_scms())
def test_null_intervention_is_the_identity(case):
    scm, columns = case
    assert equal(scm.counterfactual(columns, {}), columns)


@laws
@given(fitted_scms(), st.data())
def test_composition(case, data):
    """do() of the observed values changes nothing, to the bit, also as a model vector."""
    scm, columns = case
    names = data.draw(st.lists(st.sampled_from(sorted(columns)), unique=True, min_size=1))
    do = {name: columns[name] for name in names}
    assert equal(scm.counterfactual(columns, do), columns)
    a = scm.schema.encode(columns)
    assert torch.equal(scm.counterfactual_vector(a, scm.schema.decode(a)), a)


@laws
@given(fitted_scms(), st.data())
def test_nothing_moves_upstream(case, data):
    """Intervening on k leaves every non-descendant of k as it was."""
    scm, columns = case
    do = data.draw(interventions(columns))
    result = scm.counterfactual(columns, do)
    still = set(columns) - scm.graph.descendants(do) - set(do)
    assert equal(result, columns, still)
    assert equal(result, do, do)


@laws
@given(fitted_scms(), st.data())
def test_do_on_everything_ignores_the_scm(case, data):
    scm, columns = case
    rows = torch.randperm(ROWS, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 99))))
    do = {name: column[rows] for name, column in columns.items()}
    assert equal(scm.counterfactual(columns, do), do)


@laws
@given(fitted_scms(), st.data())
def test_order_of_simultaneous_interventions_does_not_matter(case, data):
    scm, columns = case
    do = data.draw(interventions(columns))
    backwards = dict(reversed(do.items()))
    assert equal(scm.counterfactual(columns, do), scm.counterfactual(columns, backwards))


@laws
@given(fitted_scms(), st.integers(0, 2**32))
def test_abduct_then_predict_is_the_identity(case, seed):
    """Each mechanism's own g(abduct(a)) is a: exactly for discrete ones, to rounding for continuous ones."""
    scm, columns = case
    abduction = scm.abduct(columns, torch.Generator().manual_seed(seed))
    assert equal(scm.predict(abduction, {}), columns)
    for name in scm.graph.order:
        again = scm._mechanism(name).predict(abduction.noise[name], scm._parents(name, columns))
        if name in scm.schema.continuous:
            torch.testing.assert_close(again, columns[name], rtol=1e-4, atol=1e-4)
        else:
            assert torch.equal(again, columns[name])


@laws
@given(fitted_scms(), st.data())
def test_same_seed_same_counterfactual_whatever_else_is_asked(case, data):
    """Noise belongs to the row and the attribute: subsets of do() see the same noise."""
    scm, columns = case
    do = data.draw(interventions(columns))

    def seeded():
        return torch.Generator().manual_seed(7)

    assert equal(scm.counterfactual(columns, do, seeded()), scm.counterfactual(columns, do, seeded()))
    whole = scm.abduct(columns, seeded())
    assert equal(scm.predict(whole, do), scm.counterfactual(columns, do, seeded()))


@laws
@given(fitted_scms(), st.data())
def test_samples_obey_their_intervention(case, data):
    scm, columns = case
    name = data.draw(st.sampled_from(sorted(columns)))
    do = {name: columns[name][0].item() if name in scm.schema.continuous else columns[name][:1].expand(50)}
    rows = scm.sample(50, do, torch.Generator().manual_seed(1))
    assert list(rows) == scm.schema.names
    assert (rows[name] == columns[name][0]).all()
    free = scm.sample(50, None, torch.Generator().manual_seed(1))
    untouched = set(columns) - scm.graph.descendants([name]) - {name}
    assert equal(rows, free, untouched)


@laws
@given(fitted_scms())
def test_state_dict_carries_the_whole_model(case):
    scm, columns = case
    other = AttributeSCM(**scm.spec)
    other.load_state_dict(scm.state_dict())
    do = {scm.schema.names[0]: columns[scm.schema.names[0]].flip(0)}
    assert equal(other.counterfactual(columns, do), scm.counterfactual(columns, do))


def test_nothing_is_left_for_an_optimiser():
    scm, _ = fitted(("continuous", "continuous"), ((0, 1),), 2)
    assert not any(p.requires_grad for p in scm.parameters())


def test_refusals():
    scm = AttributeSCM({"t": {"kind": "continuous"}, "b": {"kind": "binary"}}, [("t", "b")])
    with pytest.raises(ValueError, match="not been fitted"):
        scm.sample(3)
    scm.fit({"t": torch.arange(10.0), "b": (torch.arange(10) > 4).float()})
    with pytest.raises(ValueError, match="Did you mean 't'|Valid: b, t"):
        scm.counterfactual({"t": torch.ones(2), "b": torch.ones(2)}, {"T": 1})
    with pytest.raises(ValueError, match="no column for attribute 'b'"):
        scm.counterfactual({"t": torch.ones(2)}, {"t": 1})
    with pytest.raises(ValueError, match=r"'b': unknown mechanism 'gausian'. .*Valid: cpt, logistic"):
        AttributeSCM({"b": {"kind": "binary"}}, (), {"b": "gausian"})
    with pytest.raises(ValueError, match="mechanism of 'b': a probability table takes binary"):
        AttributeSCM({"t": {"kind": "continuous"}, "b": {"kind": "binary"}}, [("t", "b")], {"b": "cpt"})
    with pytest.raises(ValueError, match="unknown option 'hiden'. Did you mean 'hidden'"):
        AttributeSCM({"t": {"kind": "continuous"}}, (), {"t": {"kind": "mlp", "hiden": 3}})
    with pytest.raises(ValueError, match="for a root"):
        AttributeSCM({"t": {"kind": "continuous"}, "u": {"kind": "continuous"}}, [("t", "u")], {"u": "empirical"})
