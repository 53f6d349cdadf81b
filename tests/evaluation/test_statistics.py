"""Standard errors against what resampling says."""

import math
import statistics

import pytest
import torch

from cfgen.evaluation.statistics import Score, Scores, mean_score, median_score, over_seeds


def test_batches_together_are_the_whole_and_nan_does_not_count():
    values = torch.randn(100, generator=torch.Generator().manual_seed(0))
    scores = Scores()
    for part in values.split(30):
        scores.add({"one": part})
    scores.add({"one": torch.full((5,), torch.nan)})
    (score,) = scores.summary().values()
    plain = values.double().tolist()
    assert score.n == 100
    assert score.value == pytest.approx(statistics.fmean(plain))
    assert score.standard_error == pytest.approx(statistics.stdev(plain) / 10)


@pytest.mark.parametrize("kind", [mean_score, median_score])
def test_standard_errors_are_the_spread_of_repeated_samples(kind):
    samples = torch.randn(400, 900, generator=torch.Generator().manual_seed(1)).exp()
    found = [kind(sample) for sample in samples]
    spread = statistics.stdev(score.value for score in found)
    assert statistics.fmean(score.standard_error for score in found) == pytest.approx(spread, rel=0.1)


def test_several_values_of_an_image_do_not_count_as_several_images():
    """The spread of medians over sets of images, each asked for many values that go together."""
    generator = torch.Generator().manual_seed(2)
    images, noise = (torch.randn(size, generator=generator) for size in ((300, 200, 1), (300, 200, 20)))
    found = [median_score(sample) for sample in images + 0.3 * noise]
    spread = statistics.stdev(score.value for score in found)
    assert statistics.fmean(score.standard_error for score in found) == pytest.approx(spread, rel=0.15)
    assert found[0].n == 200
    assert median_score(images[0]) == median_score(images[0, :, 0])


def test_median_is_the_median_also_of_images_that_cannot_be_measured():
    assert median_score(torch.tensor([3.0, 1.0])).value == 2
    assert median_score(torch.tensor([3.0, 1.0, torch.inf])).value == 3
    assert median_score(torch.tensor([1.0, torch.inf, torch.inf])).value == math.inf
    names = {"median_abs_error/a/b": torch.tensor([0.0, 0.0, 9.0]), "mse_x": torch.tensor([0.0, 0.0, 9.0])}
    scores = Scores()
    scores.add(names)
    assert {name: score.value for name, score in scores.summary().items()} == {"median_abs_error/a/b": 0, "mse_x": 3}


def test_over_seeds():
    found = over_seeds([{"a": Score(value, error, 7)} for value, error in [(1.0, 0.1), (2.0, 0.2), (6.0, 0.3)]])["a"]
    assert found.value == 3
    assert found.n == 7
    assert found.standard_error == pytest.approx(0.2)
    assert found.over_seeds == pytest.approx(statistics.stdev([1, 2, 6]) / math.sqrt(3))
    assert math.isnan(over_seeds([{"a": Score(1.0, 0.1, 7)}])["a"].over_seeds)
