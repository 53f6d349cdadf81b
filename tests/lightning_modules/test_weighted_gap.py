"""The weighted gap of real images: by hand, zero where the attribute is ignored, the gradient of its square, any number of processes."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from cfgen.attributes import Schema
from cfgen.effects import Sample
from cfgen.effects.real_images import OVERLAP
from cfgen.interventions import Set
from cfgen.scm.graph import CausalGraph
from lightning_modules.weighted_gap import PropensityWeights, WeightedGap
from tests.processes import Pool

BINARY = {"kind": "binary"}
PALE = {"Pale_Skin": 1}


def confounded(rows: int = 4000) -> tuple[Schema, CausalGraph, dict[str, torch.Tensor]]:
    """Pale skin is commoner among the young, so the answers of a classifier that reads age differ by skin."""
    generator = torch.Generator().manual_seed(0)
    young, u, bangs = torch.rand(3, rows, generator=generator)
    columns = {"Young": (young < 0.5).float(), "Bangs": (bangs < 0.3).float()}
    columns["Pale_Skin"] = (u < 0.15 + 0.4 * columns["Young"]).float()
    schema = Schema(dict.fromkeys(columns, BINARY))
    return schema, CausalGraph(schema.names, []), columns


def weighted_gap(schema: Schema, graph: CausalGraph, columns: dict[str, torch.Tensor], do, **options) -> WeightedGap:
    return WeightedGap(Sample(schema, graph, columns), [Set.from_values(schema, one) for one in do], **options)


def of_group(p: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (weights * p).sum() / weights.sum()


def test_it_is_the_weighted_mean_of_those_who_have_it_less_the_mean_of_the_others():
    """On a small batch, with weights by an implementation of logistic regression that is not ours."""
    schema, graph, columns = confounded()
    gap = weighted_gap(schema, graph, columns, [PALE, {"Bangs": 1, "Pale_Skin": 1}])
    a, logits = schema.encode(columns)[:40], torch.randn(40, generator=torch.Generator().manual_seed(1))
    p = logits.sigmoid()
    expected = []
    for asked, adjusted in ((["Pale_Skin"], ["Young", "Bangs"]), (["Bangs", "Pale_Skin"], ["Young"])):
        have = torch.stack([columns[name] == 1 for name in asked]).all(dim=0)
        w = torch.stack([columns[name] for name in adjusted], dim=1).double().numpy()
        w = (w - w.mean(axis=0)) / w.std(axis=0)
        e = LogisticRegression().fit(w, have).predict_proba(w)[:40, 1]
        weights = torch.from_numpy((1 - e) / e) * have[:40]
        expected.append(of_group(p, weights) - p[~have[:40]].mean())
    found = gap(logits, a)
    torch.testing.assert_close(found, torch.stack(expected).float(), atol=1e-4, rtol=0)
    assert found.abs().min() > 0.01


def test_it_is_zero_for_a_classifier_that_ignores_the_attribute():
    """Its answers differ between pale and other images all the same, since more of the pale are young."""
    schema, graph, columns = confounded()
    logits = 3 * columns["Young"] - 1 + columns["Bangs"]
    p, pale = logits.sigmoid(), columns["Pale_Skin"] == 1
    assert p[pale].mean() - p[~pale].mean() > 0.2
    gap = weighted_gap(schema, graph, columns, [PALE], memory=1.0)
    a, shuffled = schema.encode(columns), torch.randperm(len(p), generator=torch.Generator().manual_seed(0))
    for rows in shuffled.split(20):
        found = gap(logits[rows], a[rows])
    assert found.abs() < 0.004
    # and one that reads nothing else has all the gap there can be
    assert weighted_gap(schema, graph, columns, [PALE])(pale * 1e3 - 500, a).item() == pytest.approx(1)


def test_an_effect_of_the_attribute_is_not_adjusted_away():
    """Where age causes pale skin and the question is about age, skin carries a part of the answer."""
    schema, _, columns = confounded()
    young, pale = columns["Young"] == 1, columns["Pale_Skin"]
    logits, a = (pale - 0.5) * 100, schema.encode(columns)
    caused, apart = (
        weighted_gap(schema, CausalGraph(schema.names, edges), columns, [{"Young": 1}])(logits, a).item()
        for edges in ([["Young", "Pale_Skin"]], [])
    )
    assert caused == pytest.approx((pale[young].mean() - pale[~young].mean()).item(), abs=0.01)
    assert caused > 0.3
    assert apart == pytest.approx(0, abs=0.01)


def test_the_same_batch_again_and_again_has_the_gradient_of_the_plain_square():
    schema, graph, columns = confounded()
    a = schema.encode(columns)[:60]
    logits = torch.randn(60, generator=torch.Generator().manual_seed(1)).requires_grad_()
    fresh, running = (weighted_gap(schema, graph, columns, [PALE]) for _ in range(2))
    for _ in range(5):
        running(logits, a)
    plain, remembered = (gap(logits, a).square().sum() for gap in (fresh, running))
    torch.testing.assert_close(plain, remembered)
    (expected,), (found,) = (torch.autograd.grad(loss, logits) for loss in (plain, remembered))
    torch.testing.assert_close(found, expected)
    assert found.abs().max() > 1e-4
    # a batch with nobody who has it says what earlier ones said, and still teaches the others
    none = columns["Pale_Skin"][:60] == 0
    (found,) = torch.autograd.grad(running(logits[none], a[none]).square().sum(), logits)
    assert found[none].abs().min() > 0


def test_a_batch_of_one_side_alone_has_no_gap_yet():
    schema, graph, columns = confounded()
    gap = weighted_gap(schema, graph, columns, [PALE])
    pale = columns["Pale_Skin"] == 1
    found = gap(torch.randn(int(pale.sum())), schema.encode(columns)[pale])
    assert found.tolist() == [0]


ATTRIBUTES = {
    "thickness": {"kind": "continuous"},
    "label": {"kind": "categorical", "values": [3, 7, 9]},
    "light": {"kind": "continuous"},
}


@pytest.mark.parametrize("do", [{"label": 7}, {"thickness": 2.1}, {"thickness": 2.1, "label": 7}])
def test_weights_are_those_of_the_audit(do):
    """Of any kind of attribute; the audit fits them on other images than it applies them to, hence nearly."""
    generator = torch.Generator().manual_seed(0)
    light, u, eps = torch.randn(3, 6000, generator=generator)
    columns = {"light": light, "thickness": 2 + 0.3 * light + 0.5 * eps}
    columns["label"] = torch.bucketize(u + 0.5 * light, torch.tensor([-0.5, 0.5])).float()
    columns = {name: columns[name] for name in ATTRIBUTES}
    schema = Schema(ATTRIBUTES).fit_ranges(columns)
    graph = CausalGraph(ATTRIBUTES, [])
    sample, intervention = Sample(schema, graph, columns), Set.from_values(schema, do)
    real = sample.comparison(intervention).real
    exposure, audit = real.exposure, real.weights
    assert exposure.target.sum() == intervention.target(columns).sum()  # nothing lacks overlap here
    weights, target = PropensityWeights(sample, intervention)(schema.encode(columns))
    assert np.array_equal(weights.numpy() > 0, exposure.exposed)
    assert np.array_equal(target.numpy() == 1, exposure.target)
    exposed = exposure.exposed
    # a weight of a continuous value is 1 / e, in whatever unit
    assert np.quantile(np.abs(np.log(weights.numpy()[exposed] / audit[exposed])), 0.8) < 0.15
    assert audit[exposed].std() > 0.1 * audit[exposed].mean()


def without_overlap(rows: int = 6000) -> tuple[Schema, CausalGraph, dict[str, torch.Tensor]]:
    """Hardly any of those with bangs, 40 % of all, has pale skin."""
    schema, graph, columns = confounded(rows)
    bangs, pale = torch.rand(2, rows, generator=torch.Generator().manual_seed(1))
    columns["Bangs"] = (bangs < 0.4).float()
    columns["Pale_Skin"] = (pale < torch.where(columns["Bangs"] == 1, 0.002, 0.3 + 0.2 * columns["Young"])).float()
    return schema, graph, columns


def test_images_without_overlap_are_left_out_as_in_the_audit():
    schema, graph, columns = without_overlap()
    sample, intervention = Sample(schema, graph, columns), Set.from_values(schema, PALE)
    comparison = sample.comparison(intervention)
    exposure = comparison.real.exposure
    assert 0.3 < exposure.target.sum() / comparison.n_target < 0.7
    propensity = PropensityWeights(sample, intervention)
    assert propensity.least == pytest.approx(OVERLAP * columns["Pale_Skin"].mean().item())
    weights, target = propensity(schema.encode(columns))
    assert np.array_equal(weights.numpy() > 0, exposure.exposed)
    assert np.array_equal(target.numpy() == 1, exposure.target)
    audit = comparison.real.weights[exposure.exposed]
    assert np.abs(np.log(weights.numpy()[exposure.exposed] / audit)).max() < 0.1
    # the gap is about images without bangs, whatever the answers to the others are
    bangs, pale = columns["Bangs"] == 1, columns["Pale_Skin"] == 1
    logits = torch.where(bangs, 500.0, pale * 1e3 - 500)
    assert weighted_gap(schema, graph, columns, [PALE])(logits, schema.encode(columns)).item() == pytest.approx(1)


def test_what_real_images_cannot_answer():
    schema, graph, columns = confounded()

    def problem(columns, do, graph=graph):
        return Sample(schema, graph, columns).comparison(Set.from_values(schema, do)).problem

    few, both = {name: column[:100] for name, column in columns.items()}, {"Bangs": 1, "Pale_Skin": 1}
    assert problem(columns, both) == ""
    assert "effective sample size of" in problem(few, both)
    assert "and 50 are needed" in problem(few, both)
    between = CausalGraph(schema.names, [["Young", "Bangs"], ["Bangs", "Pale_Skin"]])
    assert "Bangs follows" in problem(columns, {"Young": 1, "Pale_Skin": 1}, between)


def gaps_and_gradients(rank_of: int | None = None) -> tuple[list[list[float]], list[float]]:
    """Three batches; with a rank, that process's half of each, and its gradients at their places."""
    import torch.distributed as dist

    schema, graph, columns = confounded()
    gap, a = weighted_gap(schema, graph, columns, [PALE, {"Bangs": 1}]), schema.encode(columns)
    logits = torch.randn(180, generator=torch.Generator().manual_seed(1)).requires_grad_()
    part = slice(None) if rank_of is None else slice(dist.get_rank(), None, rank_of)
    found, loss = [], torch.tensor(0.0)
    for rows in torch.arange(180).split(60):
        gaps = gap(logits[rows[part]], a[rows[part]])
        found.append(gaps.tolist())
        loss = loss + gaps.square().sum()
    (gradient,) = torch.autograd.grad(loss, logits)
    return found, gradient.tolist()


@pytest.mark.xdist_group("two_processes")
def test_two_processes_have_the_gap_and_together_the_gradient_of_one(two_processes: Pool):
    found, gradient = gaps_and_gradients()
    (one, of_one), (other, of_other) = two_processes.run(gaps_and_gradients, 2)
    assert one == other
    np.testing.assert_allclose(one, found, atol=1e-6)
    # DDP takes the mean of the processes' gradients
    np.testing.assert_allclose(np.add(of_one, of_other) / 2, gradient, atol=1e-6)
