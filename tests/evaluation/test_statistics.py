"""Standard errors against what resampling says."""

import math
import statistics

import pytest
import torch

from cfgen.evaluation.statistics import Score, Table, mean_score, median_score, over_seeds, summary


def test_batches_together_are_the_whole_and_nan_does_not_count():
    values = torch.randn(105, 3, generator=torch.Generator().manual_seed(0))
    values[100:] = torch.nan
    table = Table({"one": 1, "two": 2}, 105)
    for rows in torch.randperm(105, generator=torch.Generator().manual_seed(1)).split(30):
        table.write(rows, {"two": values[rows, 1:], "one": values[rows, 0]})
    torch.testing.assert_close(table["one"], values[:, 0], equal_nan=True)
    torch.testing.assert_close(table["two"], values[:, 1:], equal_nan=True)
    score = summary(table["one"], "mean")
    plain = values[:100, 0].double().tolist()
    assert score.n == 100
    assert score.value == pytest.approx(statistics.fmean(plain))
    assert score.standard_error == pytest.approx(statistics.stdev(plain) / 10)


def test_the_parts_of_two_processes_add_up_to_the_whole():
    values = torch.tensor([1.0, torch.nan, torch.inf, 4.0])
    parts = [Table({"one": 1}, 4) for _ in range(2)]
    for rank, part in enumerate(parts):
        rows = torch.arange(rank, 4, 2)
        part.write(rows, {"one": values[rows]})
    torch.testing.assert_close(parts[0]["one"] + parts[1]["one"], values, equal_nan=True, rtol=0, atol=0)


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
    values = torch.tensor([0.0, 0.0, 9.0])
    assert [summary(values, reduction).value for reduction in ("median", "mean")] == [0, 3]


def test_over_seeds():
    found = over_seeds([{"a": Score(value, error, 7)} for value, error in [(1.0, 0.1), (2.0, 0.2), (6.0, 0.3)]])["a"]
    assert found.value == 3
    assert found.n == 7
    assert found.standard_error == pytest.approx(0.2)
    assert found.over_seeds == pytest.approx(statistics.stdev([1, 2, 6]) / math.sqrt(3))
    assert math.isnan(over_seeds([{"a": Score(1.0, 0.1, 7)}])["a"].over_seeds)
