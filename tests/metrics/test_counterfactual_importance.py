"""Importance scores against a classifier whose weights are known, and their ranking."""

import numpy as np
import pytest
import torch
from scipy.stats import norm, sem

from cfgen.metrics import CounterfactualImportance, local_importance, ranking

WEIGHTS = {"Pale_Skin": 0.4, "Smiling": 0.1, "Bangs": 0.0, "Bald": -0.3}


def output(a: torch.Tensor) -> torch.Tensor:
    """A classifier that is linear in the attributes, so that Eq. 6 is a weight whatever the image."""
    return 0.4 + a @ torch.tensor(list(WEIGHTS.values()))


def rows(n: int = 40) -> torch.Tensor:
    return torch.randint(2, (n, len(WEIGHTS)), generator=torch.Generator().manual_seed(0)).float()


def turned(a: torch.Tensor, k: int) -> torch.Tensor:
    a_c = a.clone()
    a_c[:, k] = 1 - a_c[:, k]
    return a_c


def test_scores_of_a_linear_classifier_are_its_weights():
    a = rows()
    metric = CounterfactualImportance(WEIGHTS)
    for k, (name, weight) in enumerate(WEIGHTS.items()):
        local = local_importance(output(a), output(turned(a, k)), a[:, k])
        torch.testing.assert_close(local, torch.full((len(a),), weight))
        for part in a.split(7):
            metric.update(name, output(part), output(turned(part, k)), part[:, k])
    scores = metric.compute()
    for name, weight in WEIGHTS.items():
        assert scores[name].item() == pytest.approx(weight, abs=1e-6)
        assert scores[f"{name}/n"] == len(a)
        assert scores[f"{name}/high"] - scores[f"{name}/low"] < 1e-6  # every image says the same


def test_the_interval_is_that_of_a_mean():
    a, p = rows(200)[:, 0], torch.rand(2, 200, generator=torch.Generator().manual_seed(1))
    metric = CounterfactualImportance(["Bald", "Bangs"])
    for part in torch.arange(200).split(60):
        metric.update("Bald", p[0, part], p[1, part], a[part])
    metric.update("Bangs", p[0, :1], p[1, :1], a[:1])
    found = metric.compute()
    local = np.where(a == 1, p[0] - p[1], p[1] - p[0])
    expected = norm.interval(0.95, local.mean(), sem(local))
    assert [found[f"Bald/{end}"].item() for end in ("low", "high")] == pytest.approx(expected, abs=1e-5)
    assert found["Bangs"].item() == pytest.approx(local[0], abs=1e-6)
    assert found["Bangs/low"].isnan()  # one image has no spread
    assert found["Bangs/high"].isnan()


def test_the_sign_is_that_of_presence_not_of_the_change():
    """Taking away what helps and adding it say the same thing of it."""
    present, absent = torch.ones(1), torch.zeros(1)
    helped, not_helped = torch.tensor([0.9]), torch.tensor([0.2])
    assert local_importance(helped, not_helped, present) == local_importance(not_helped, helped, absent)


def test_parts_add_up_and_absent_images_are_nan():
    a = rows()
    whole, one, other = (CounterfactualImportance(["Bald", "Bangs"]) for _ in range(3))
    for metric, part in ((whole, a), (one, a[:13]), (other, a[13:])):
        metric.update("Bald", output(part).square(), output(turned(part, 3)).square(), part[:, 3])
    one.merge_state(other)
    for key in ("Bald", "Bald/low", "Bald/high", "Bald/n"):
        assert one.compute()[key] == pytest.approx(whole.compute()[key].item(), abs=1e-6)
    assert whole.compute()["Bangs"].isnan()
    assert whole.compute()["Bangs/n"] == 0


def test_ranking():
    scores = {**{name: torch.tensor(weight) for name, weight in WEIGHTS.items()}, "Young": torch.tensor(float("nan"))}
    positive, negative = ranking(scores, k=1)
    assert positive == [("Pale_Skin", pytest.approx(0.4))]
    assert negative == [("Bald", pytest.approx(-0.3))]
    positive, negative = ranking(scores, k=4)
    assert [name for name, _ in positive] == ["Pale_Skin", "Smiling"]
    assert [name for name, _ in negative] == ["Bald"]


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown attribute 'Blad'. Did you mean 'Bald'"):
        CounterfactualImportance(["Bald"]).update("Blad", torch.zeros(1), torch.zeros(1), torch.zeros(1))
