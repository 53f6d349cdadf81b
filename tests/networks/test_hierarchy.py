"""The hierarchy of any size, and what its readers may say."""

from __future__ import annotations

import math

import pytest
import torch

from cfgen.attributes import Schema
from cfgen.networks.hierarchy import Hierarchy, levels_for
from cfgen.networks.readers import AttributeClasses, ImageCritic, ImageReader, StateReader, disturbed, moved_against

SCHEMA = {
    "thickness": {"kind": "continuous", "low": 0.0, "high": 1.0},
    "label": {"kind": "categorical", "values": [0, 1, 2]},
    "Young": {"kind": "binary"},
}


@pytest.mark.parametrize(("channels", "size"), [(1, 16), (1, 28), (3, 40), (3, 64), (2, 96)])
def test_any_size_comes_back_from_its_state(channels, size):
    levels = levels_for((channels, size, size), 0.25)
    coarsest = levels[-1].grid
    levels = levels_for((channels, size, size), 0.25, {f"{coarsest}x{coarsest}": 2})
    network = Hierarchy(channels, 4, levels, latent_dim=6, heads=2, deviation=0.1)
    x, a = torch.rand(3, channels, size, size), torch.rand(3, 4)
    drawn, z, q = network.infer(x, a)
    assert drawn.mean.shape == drawn.log_scale.shape == x.shape
    assert {part: tuple(value.shape[1:]) for part, value in z.items()} == network.shapes
    torch.testing.assert_close(network.draw(z, a).mean, drawn.mean)
    eps = {part: torch.randn(3, *shape) for part, shape in network.shapes.items()}
    noisy = network.infer(x, a, eps)[1]["global"]
    torch.testing.assert_close(noisy, q["global"].mean + q["global"].log_scale.exp() * eps["global"])
    schema = Schema({name: {"kind": "binary"} for name in "pqrs"})
    for reads in (ImageReader(channels, size, schema), ImageCritic(channels, size, 4)):
        found = reads(x, a) if isinstance(reads, ImageCritic) else reads(x)
        assert len(found) == 3
    assert StateReader(network.shapes, 5)(z).shape == (3, 5)


def test_a_reader_errs_in_standard_deviations_of_continuous_attributes():
    """A reading that is one standard deviation off costs 1, whatever the range is; the others cost as ever."""
    schema = Schema(SCHEMA)
    reader = ImageReader(1, 16, schema)
    a = torch.cat([0.4 + 0.01 * torch.randn(500, 1), torch.eye(3)[torch.arange(500) % 3], torch.ones(500, 1)], dim=1)
    reader.fit(a)
    torch.testing.assert_close(reader.spread, torch.tensor([a[:, 0].std().item(), 1, 1, 1, 1]))
    torch.nn.init.zeros_(reader.out.weight)
    torch.nn.init.zeros_(reader.out.bias)
    x = torch.rand(6, 1, 16, 16)
    torch.testing.assert_close(reader(x)[:, 0], a[:, 0].mean().expand(6))  # it starts from the mean
    asked = torch.cat([a[:, :1].mean().expand(6, 1) + 2 * a[:, :1].std(), a[:6, 1:]], dim=1)
    expected = (2 + math.log(3) + math.log(2)) / 3
    torch.testing.assert_close(reader.errors(x, asked, schema).mean().item(), expected, atol=1e-4, rtol=0)


def test_what_frequencies_say_is_no_leak_and_is_read_as_badly_as_their_entropy():
    schema = Schema(SCHEMA)
    classes = AttributeClasses(schema)
    assert not classes.fitted
    labels = torch.nn.functional.one_hot(torch.arange(900) % 3, 3).float()
    a = torch.cat([torch.rand(900, 1) ** 2, labels, (torch.rand(900, 1) < 0.3).float()], dim=1)
    classes.fit(a)
    assert classes.fitted
    assert classes.sizes == [10, 3, 2]
    torch.testing.assert_close(classes.frequencies[:10], torch.full((10,), 0.1), atol=0.002, rtol=0)
    logits = classes.frequencies.log().expand(900, -1)
    assert classes.leak(logits).abs() < 1e-6
    # the labels are softened: a tenth of each goes to all classes alike
    entropies = [-((0.9 * p + 0.1 / len(p)) * p.log()).sum() for p in classes.frequencies.split(classes.sizes)]
    torch.testing.assert_close(classes.reading(logits, a), torch.stack(entropies).mean())
    told = torch.cat(
        [10.0 * torch.nn.functional.one_hot(of, n) for of, n in zip(classes.of(a), classes.sizes, strict=True)], 1
    )
    assert classes.leak(told) > 1
    assert classes.reading(0.4 * told, a) < classes.reading(logits, a) / 2


def test_disturbing_keeps_the_picture():
    x = torch.zeros(4, 1, 28, 28)
    x[:, :, 10:18, 10:18] = 1.0
    for seed in range(5):
        torch.manual_seed(seed)
        other = disturbed(x, soften=True)
        assert other.shape == x.shape
        assert other[:, :, 13:15, 13:15].mean() > 0.9
        assert other[:, :, :6].abs().mean() < 0.1


def test_images_move_against_a_reader_by_no_more_than_asked():
    """Every image along the gradient of the reader's error: a linear one then errs more by slope times length."""
    torch.manual_seed(0)
    weights, x = torch.randn(2, 8, 8), torch.rand(64, 2, 8, 8)
    moved = moved_against(lambda images: (images * weights).sum(), x, distance=0.05)
    way = moved - x
    lengths = way.square().flatten(1).mean(dim=1).sqrt()
    assert lengths.max() <= 0.05 + 1e-6
    assert lengths.min() < 0.01  # of random length: the reader sees images nearly as they are, too
    torch.testing.assert_close((way * weights).flatten(1).sum(dim=1), lengths * 128**0.5 * weights.norm())
    assert not moved.requires_grad
