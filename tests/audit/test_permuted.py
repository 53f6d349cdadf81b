"""Nothing depends on the order of images: noise, folds and choices are keyed by their ids."""

import json

import pytest
import torch

from cfgen.audit import audit
from cfgen.runs.model import load_trained
from tests.audit.shifting import Reddish

DO = ["Young=0", "Black_Hair=1,Pale_Skin=1"]


class Permuted:
    """The same test images in another order."""

    def __init__(self, data, order):
        self.data, self.order = data, order

    def __getattr__(self, name):
        return getattr(self.data, name)

    def images(self, split):
        return self.data.images(split)[self.order] if split == "test" else self.data.images(split)

    def columns(self, split):
        columns = self.data.columns(split)
        return {name: column[self.order] for name, column in columns.items()} if split == "test" else columns

    def ids(self, split):
        return [self.data.ids(split)[row] for row in self.order.tolist()]

    def true_attributes(self, split, rows, do):
        return self.data.true_attributes(split, self.order[rows], do)

    def true_counterfactual(self, split, rows, a_c):
        return self.data.true_counterfactual(split, self.order[rows], a_c)


def numbers(value, path=""):
    """All numbers of a result by their place."""
    if isinstance(value, dict):
        return {k: v for key, one in value.items() if key != "sha256" for k, v in numbers(one, f"{path}/{key}").items()}
    if isinstance(value, list):
        return {k: v for place, one in enumerate(value) for k, v in numbers(one, f"{path}[{place}]").items()}
    return {path: value}


def test_permuted_images_give_the_same_results(run, data, monkeypatch):
    model = load_trained(run)
    options = {
        "do": DO,
        "among": ["Smiling=1"],
        "pairs": 15,
        "explain": ["Bangs"],
        "explain_count": 20,
        "predictor": None,
    }
    results = []
    for order in (torch.arange(43), torch.randperm(43, generator=torch.Generator().manual_seed(3))):
        monkeypatch.setattr("cfgen.audit._prepare.model_data", lambda model, split, o=order: Permuted(data, o))
        result = audit(model, Reddish(), **options)
        results.append(
            numbers(json.loads(json.dumps(result.to_dict() | {"importance": result.records()["importance"]})))
        )
    straight, permuted = results
    assert straight.keys() == permuted.keys()
    for place, value in straight.items():
        wanted = pytest.approx(value, rel=1e-6, abs=1e-9) if isinstance(value, float) else value
        assert permuted[place] == wanted, place
