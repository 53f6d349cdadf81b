"""Laws of the effectiveness protocol: what doing nothing and doing right must score."""

import pytest
import torch

from cfgen.attributes import Schema
from cfgen.metrics import MedianAbsError
from cfgen.metrics.effectiveness import compare, measured_columns, median_abs_errors, requested_values
from cfgen.morpho import set_intensity
from cfgen.scm import AttributeSCM
from datamodules import MorphoMNIST


@pytest.fixture(scope="module")
def digits(digits_cache):
    data = MorphoMNIST(limit=300, cache_dir=str(digits_cache))
    data.prepare_data()
    data.setup()
    scm = AttributeSCM(**data.scm_spec).fit(data.train_columns)
    columns = data.columns("train")
    return scm, data.images("train")[:120], {name: column[:120] for name, column in columns.items()}


class Ignorant:
    """Decodes the very image whatever is asked."""

    def abduct(self, x, a):
        return x

    def decode(self, z, a):
        return z


class Painter(Ignorant):
    """Sets the intensity that is asked for, by morphology."""

    def __init__(self, schema: Schema):
        self.schema = schema

    def decode(self, z, a):
        pixels = (z[:, 0] * 255).round().to(torch.uint8).numpy()
        wanted = self.schema.decode(a)["intensity"].double().numpy()
        return torch.from_numpy(set_intensity(pixels, wanted)).float()[:, None] / 255


def errors(mechanism, scm, x, columns, **options):
    return {k: m.compute().item() for k, m in median_abs_errors(compare(mechanism, scm, x, columns, **options)).items()}


def test_a_generator_that_ignores_attributes_scores_the_untouched_baseline(digits):
    result = errors(Ignorant(), *digits)
    for name in ("thickness", "intensity", "slant"):
        assert result[f"do({name})", name] == pytest.approx(result["untouched", name], abs=1e-5)
    assert result["do(slant)", "thickness"] == pytest.approx(result["floor", "thickness"], abs=1e-5)


def test_a_generator_that_paints_what_is_asked_scores_the_floor(digits):
    result = errors(Painter(digits[0].schema), *digits)
    assert result["do(intensity)", "intensity"] < 1
    assert result["do(thickness)", "intensity"] < 1  # intensity follows thickness, and is asked for too
    assert result["do(thickness)", "thickness"] > 0.3


def test_shares_together_are_the_whole(digits):
    """What is asked of an image does not depend on how many processes there are, nor on the batch size."""
    whole = median_abs_errors(compare(Painter(digits[0].schema), *digits, batch_size=7))
    halves = [median_abs_errors(compare(Painter(digits[0].schema), *digits, share=(i, 2))) for i in (0, 1)]
    for key, metric in whole.items():
        together = torch.cat([e for half in halves for e in half[key].errors]).sort().values
        torch.testing.assert_close(together, torch.cat(metric.errors).sort().values)


def test_several_values_are_several_askings(digits):
    """Each value is asked as one seed after the other would, and real images count once."""
    painter = Painter(digits[0].schema)
    several = median_abs_errors(compare(painter, *digits, seed=1, values=3))
    single = [median_abs_errors(compare(painter, *digits, seed=seed)) for seed in (3, 4, 5)]
    for name in ("thickness", "intensity", "slant"):
        key = f"do({name})", name
        together = torch.cat([error for metrics in single for error in metrics[key].errors])
        torch.testing.assert_close(torch.cat(several[key].errors), together)
        assert sum(map(len, several["floor", name].errors)) == len(digits[1])


def test_requested_values_stay_in_the_models_range():
    schema = Schema({"thickness": {"kind": "continuous", "low": 1.0, "high": 3.0}})
    values = requested_values({"thickness": torch.tensor([0.0, 2.0, 9.0])}, schema, seed=0)["thickness"]
    assert sorted(values.tolist()) == [1.0, 2.0, 3.0]


def test_a_blank_image_is_infinitely_wrong():
    assert measured_columns(torch.zeros(2, 1, 28, 28), ["thickness"])["thickness"].isnan().all()
    metric = MedianAbsError()
    metric.update(torch.tensor([1.0, float("nan"), float("nan")]), torch.zeros(3))
    assert metric.compute() == torch.inf


@pytest.mark.parametrize("rows", [1, 2, 9, 10])
def test_median_is_the_median(rows):
    values = torch.randn(rows, generator=torch.Generator().manual_seed(rows))
    metric = MedianAbsError()
    for part in values.split(3):
        metric.update(part, torch.ones(len(part)))
    assert metric.compute() == pytest.approx((values - 1).abs().quantile(0.5).item())
