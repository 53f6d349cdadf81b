"""Networks of judges: any square size, one image at a time, nothing of a mechanism's; and what augmentation leaves alone."""

import pytest
import torch
from torch import nn

from cfgen.attributes import Schema
from cfgen.errors import UserError
from cfgen.morpho import measure
from cfgen.networks import AttributePredictor, tables_for
from cfgen.networks import augmentation as changes
from cfgen.networks.augmentation import augmented
from cfgen.networks.judges import JUDGES, judge_network
from datamodules import MorphoMNIST

MEASURED = ("thickness", "intensity", "slant")
BINARY = Schema({"Smiling": {"kind": "binary"}})


@pytest.mark.parametrize("name", JUDGES)
@pytest.mark.parametrize("shape", [(1, 16, 16), (1, 28, 28), (3, 37, 37), (3, 64, 64), (3, 128, 128), (1, 256, 256)])
def test_any_square_size_and_any_channels(name, shape):
    torch.manual_seed(0)
    network, x = judge_network(name, shape, 5, width=0.5), torch.rand(3, *shape)
    outputs = network(x)
    assert outputs.shape == (3, 5)
    outputs.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


@pytest.mark.parametrize("name", JUDGES)
def test_an_image_is_read_as_if_it_were_alone(name):
    torch.manual_seed(0)
    network, x = judge_network(name, (1, 28, 28), 5), torch.rand(8, 1, 28, 28)
    network(x)  # statistics of a batch, as training leaves them
    network.eval()
    with torch.no_grad():
        together, alone = network(x), torch.cat([network(one[None]) for one in x])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", JUDGES)
def test_how_bright_an_image_is_reaches_the_outputs(name):
    """Normalisation must not hide it: intensity is an attribute of digits."""
    torch.manual_seed(0)
    network, x = judge_network(name, (1, 28, 28), 5).eval(), torch.rand(4, 1, 28, 28)
    with torch.no_grad():
        assert (network(x) - network(x / 2)).abs().max() > 1e-3


def test_families_are_others_than_the_predictor_that_mechanisms_train_against():
    table = AttributePredictor(tables_for((1, 28, 28)), 1, 13, width=0.5)
    kinds = {name: {type(m) for m in judge_network(name, (1, 28, 28), 13).modules()} for name in JUDGES}
    assert nn.BatchNorm2d in kinds["residual"] - {type(m) for m in table.modules()}
    assert nn.LayerNorm in kinds["patches"]
    patches = judge_network("patches", (1, 28, 28), 13)
    (embedding,) = (m for m in patches.modules() if isinstance(m, nn.Conv2d))
    assert embedding is patches.patches
    assert embedding.stride == (4, 4)  # cuts the image into 7x7 patches, and nothing else


@pytest.mark.parametrize("shape", [(1, 15, 15), (1, 257, 257), (1, 28, 32)])
def test_other_images_are_refused(shape):
    with pytest.raises(UserError, match="square images of 16 to 256 pixels"):
        judge_network("residual", shape, 3)


@pytest.fixture(scope="module")
def digits(digits_cache) -> MorphoMNIST:
    data = MorphoMNIST(limit=300, cache_dir=str(digits_cache))
    data.prepare_data()
    data.setup()
    return data


def moved(one: torch.Tensor, other: torch.Tensor) -> dict[str, float]:
    """The median change of each measure."""
    before, after = (measure(x[:, 0].numpy(), MEASURED) for x in (one, other))
    return {name: torch.as_tensor(after[name] - before[name]).abs().median().item() for name in MEASURED}


def test_what_is_measured_on_a_digit_survives_augmentation(digits):
    torch.manual_seed(0)
    x = digits.images("train")[:200].float() / 255
    still = moved(x, changes.erased(changes.shifted(x, 1.0), 1.0))
    assert still["thickness"] < 0.01
    assert still["intensity"] < 0.5
    assert still["slant"] < 0.005
    noisy = moved(x, augmented(x, digits.schema, 1.0))  # noise frays outlines a little
    assert noisy["thickness"] < 0.25  # of 1 to 6 pixels
    assert noisy["intensity"] < 4  # of 64 to 255
    # what faces get on top would not leave it alone
    assert moved(x, changes.blurred(x, 1.0))["intensity"] > 10
    assert moved(x, changes.toned(x, 1.0).clamp(0, 1))["intensity"] > 4
    assert moved(x, changes.turned(x, 1.0))["slant"] > 0.02


def test_augmentation_by_its_strength():
    torch.manual_seed(0)
    x = torch.rand(64, 3, 32, 32)
    assert augmented(x, BINARY, 0.0) is x
    little, much = ((augmented(x, BINARY, strength) - x).abs().mean().item() for strength in (0.1, 1.0))
    assert 0 < little < much
    changed = augmented(x, BINARY, 1.0)
    assert changed.shape == x.shape
    assert changed.min() >= 0
    assert changed.max() <= 1
    colours = (changed - x).mean(dim=(2, 3)).abs()  # hair and skin are known by their colours
    assert colours.max() < 0.12


def test_each_image_is_changed_in_its_own_way():
    torch.manual_seed(0)
    x = torch.rand(1, 3, 32, 32).expand(6, -1, -1, -1)
    for change in (changes.shifted, changes.turned, changes.blurred, changes.toned):
        rows = change(x, 1.0)
        assert any(not torch.equal(rows[0], row) for row in rows[1:]), change
    shifted = changes.shifted(x, 1.0)
    for row in shifted:  # every row is the image, moved by whole pixels: its inner part is there as it was
        inner = x[0, :, 8:24, 8:24]
        places = [
            (i, j) for i in range(5, 12) for j in range(5, 12) if torch.equal(row[:, i : i + 16, j : j + 16], inner)
        ]
        assert len(places) == 1
