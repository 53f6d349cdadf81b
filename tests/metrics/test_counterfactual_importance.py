"""Importance scores against a classifier whose weights are known, and their ranking."""

import pytest
import torch

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
    assert {name: pytest.approx(weight, abs=1e-6) for name, weight in WEIGHTS.items()} == scores


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
    assert one.compute()["Bald"] == pytest.approx(whole.compute()["Bald"].item(), abs=1e-6)
    assert whole.compute()["Bangs"].isnan()


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
