"""Laws of the effectiveness protocol: what doing nothing and doing right must score."""

import pytest
import torch

from cfgen.attributes import Schema
from cfgen.metrics import MedianAbsError
from cfgen.metrics.asked import asked_values
from cfgen.metrics.effectiveness import compare, median_abs_errors
from cfgen.morpho import set_intensity
from datamodules import MorphoMNIST
from tests.fakes import Ignorant, fitted

NAMES = ["thickness", "intensity", "slant"]


class Setter(Ignorant):
    """Sets the intensity that is asked for, by morphology."""

    def abduct(self, x, a, noise=None):
        return x

    def decode(self, z, a):
        pixels = (z[:, 0] * 255).round().to(torch.uint8).numpy()
        wanted = self.scm.schema.decode(a)["intensity"].double().numpy()
        return torch.from_numpy(set_intensity(pixels, wanted)).float()[:, None] / 255


@pytest.fixture(scope="module")
def digits(digits_cache):
    data = MorphoMNIST(limit=300, cache_dir=str(digits_cache))
    data.prepare_data()
    data.setup()
    return data


def errors(kind, data, **options):
    x, columns = data.images("train")[:120], {name: column[:120] for name, column in data.columns("train").items()}
    return median_abs_errors(compare(fitted(kind, data), data, x, columns, NAMES, **options), NAMES)


def values(kind, data, **options):
    return {key: metric.compute().item() for key, metric in errors(kind, data, **options).items()}


def test_a_model_that_ignores_attributes_scores_the_untouched_baseline(digits):
    result = values(Ignorant, digits)
    for name in NAMES:
        assert result[f"do({name})", name] == pytest.approx(result["untouched", name], abs=1e-5)
    assert result["do(slant)", "thickness"] == pytest.approx(result["floor", "thickness"], abs=1e-5)


def test_a_model_that_paints_what_is_asked_scores_the_floor(digits):
    result = values(Setter, digits)
    assert result["do(intensity)", "intensity"] < 1
    assert result["do(thickness)", "intensity"] < 1  # intensity follows thickness, and is asked for too
    assert result["do(thickness)", "thickness"] > 0.3


def test_shares_together_are_the_whole(digits):
    """What is asked of an image does not depend on how many processes there are, nor on the batch size."""
    whole = errors(Setter, digits, batch_size=7)
    halves = [errors(Setter, digits, share=(i, 2)) for i in (0, 1)]
    for key, metric in whole.items():
        together = torch.cat([e for half in halves for e in half[key].errors]).sort().values
        torch.testing.assert_close(together, torch.cat(metric.errors).sort().values)


def test_another_seed_asks_for_other_values(digits):
    one, other = (errors(Setter, digits, seed=seed)["untouched", "thickness"] for seed in (0, 1))
    assert not torch.equal(torch.cat(one.errors), torch.cat(other.errors))


def test_asked_values_stay_in_the_models_range():
    schema = Schema({"thickness": {"kind": "continuous", "low": 1.0, "high": 3.0}})
    asked = asked_values({"thickness": torch.tensor([0.0, 2.0, 9.0])}, schema, seed=0)["thickness"]
    assert sorted(asked.tolist()) == [1.0, 2.0, 3.0]


def test_a_blank_image_is_infinitely_wrong(digits):
    assert digits.measure(torch.zeros(2, 1, 28, 28), ["thickness"])["thickness"].isnan().all()
    metric = MedianAbsError()
    metric.update(torch.tensor([1.0, float("nan"), float("nan")]), torch.zeros(3))
    assert metric.compute() == torch.inf


@pytest.mark.parametrize("rows", [1, 2, 9, 10])
def test_median_is_the_median(rows):
    drawn = torch.randn(rows, generator=torch.Generator().manual_seed(rows))
    metric = MedianAbsError()
    for part in drawn.split(3):
        metric.update(part, torch.ones(len(part)))
    assert metric.compute() == pytest.approx((drawn - 1).abs().quantile(0.5).item())
