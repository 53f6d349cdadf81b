"""Digits with other attributes by the tool that made the set: as asked, as if made so at first, and nothing else touched."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cfgen.contracts import SetsAttributes
from cfgen.morpho import set_intensity, set_slant, set_thickness
from datamodules import Faces, MorphoMNIST
from datamodules.sources import digits

Columns = dict[str, Tensor]


@pytest.fixture(scope="module")
def sixty(small: MorphoMNIST) -> tuple[Tensor, Columns]:
    """Sixty finished digits of the training split, with their attributes."""
    return small.images("train")[:60], {name: column[:60] for name, column in small.columns("train").items()}


@pytest.fixture(scope="module")
def raw(small: MorphoMNIST) -> np.ndarray:
    """MNIST's own digits that those of the test split were made of."""
    return digits.read("embedded", digits.locate("embedded", None))["test"].images[: len(small.images("test"))]


def having(columns: Columns, **values: Any) -> Columns:
    return columns | {name: torch.as_tensor(value).expand(len(columns[name])) for name, value in values.items()}


def missed(data: MorphoMNIST, images: Tensor, wanted: Columns, name: str) -> Tensor:
    """How far a measure is from what was asked for, in the median."""
    return (data.measure(images / 255, [name])[name] - wanted[name]).abs().nanmedian()


def test_who_can(small: MorphoMNIST) -> None:
    assert isinstance(small, SetsAttributes)
    assert small.settable == ["thickness", "intensity", "slant"]
    assert MorphoMNIST(attributes=["label", "slant"]).settable == ["slant"]
    assert not isinstance(Faces(20), SetsAttributes)


@pytest.mark.parametrize(
    ("name", "value", "tolerance"),
    # real digits miss their own thickness by 0.1 in the median, and the thicker, the more (strokes grow together)
    [
        ("thickness", 2.0, 0.2),
        ("thickness", 3.0, 0.25),
        ("thickness", 4.0, 0.35),
        ("intensity", 90.0, 0.6),
        ("intensity", 180.0, 0.6),
        ("slant", -0.3, 0.02),
        ("slant", 0.4, 0.02),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_measured_and_the_rest_stays(
    small: MorphoMNIST, sixty: tuple[Tensor, Columns], name: str, value: float, tolerance: float
) -> None:
    images, columns = sixty
    kept, wanted = images.clone(), having(columns, **{name: value})
    made = small.set_attributes(images, columns, wanted)
    assert (made.dtype, made.shape) == (torch.uint8, images.shape)
    assert missed(small, made, wanted, name) < tolerance
    for other, drift in (("thickness", 0.1), ("intensity", 1.0), ("slant", 0.02)):
        if other != name:
            assert missed(small, made, columns, other) < missed(small, images, columns, other) + drift
    assert torch.equal(images, kept)


def test_all_three_at_once(small: MorphoMNIST, sixty: tuple[Tensor, Columns]) -> None:
    images, columns = sixty
    wanted = having(columns, thickness=3.0, intensity=150.0, slant=0.0)
    made = small.set_attributes(images, columns, wanted)
    for name, tolerance in (("thickness", 0.25), ("intensity", 0.6), ("slant", 0.02)):
        assert missed(small, made, wanted, name) < tolerance


@pytest.mark.parametrize("change", [{"thickness": 2.0}, {"thickness": 4.0}, {"thickness": 3.0, "intensity": 120.0}])
def test_the_digit_is_the_one_that_would_have_been_made_at_first(
    small: MorphoMNIST, raw: np.ndarray, change: dict[str, float]
) -> None:
    """The reference starts from MNIST's own digit, and the tool from the finished one."""
    images, columns = small.images("test"), small.columns("test")
    wanted = having(columns, **change)
    truth = set_intensity(set_thickness(raw, wanted["thickness"].numpy()), wanted["intensity"].numpy()).astype(int)
    made = small.set_attributes(images, columns, wanted)[:, 0].numpy()
    left, untouched = np.abs(made - truth).mean(), np.abs(images[:, 0].numpy() - truth).mean()
    assert left < 0.35 * untouched


def test_a_sheared_digit_is_the_one_that_would_have_been_sheared_at_first(small: MorphoMNIST, raw: np.ndarray) -> None:
    images, columns = small.images("test"), small.columns("test")
    truth = set_thickness(set_slant(raw, 0.5), columns["thickness"].numpy())
    truth = set_intensity(truth, columns["intensity"].numpy()).astype(int)
    made = small.set_attributes(images, columns, having(columns, slant=0.5))[:, 0].numpy()
    assert np.abs(made - truth).mean() < 0.35 * np.abs(images[:, 0].numpy() - truth).mean()


def test_images_whose_values_do_not_change_come_back_as_they_are(
    small: MorphoMNIST, sixty: tuple[Tensor, Columns]
) -> None:
    images, columns = sixty
    assert torch.equal(small.set_attributes(images, columns, columns), images)
    assert torch.equal(small.set_attributes(images, columns, {}), images)
    odd = torch.arange(len(images)) % 2 == 1
    for name, value in (("thickness", 3.0), ("intensity", 77.0), ("slant", 0.2)):
        wanted = columns | {name: torch.where(odd, torch.tensor(value), columns[name])}
        made = small.set_attributes(images, columns, wanted)
        assert torch.equal(made[~odd], images[~odd])
        assert (made[odd] != images[odd]).flatten(1).any(dim=1).all()
        # and a digit does not depend on the digits beside it
        few = small.set_attributes(
            images[3:5], *({k: c[3:5] for k, c in values.items()} for values in (columns, wanted))
        )
        assert torch.equal(made[3:5], few)


def test_a_value_that_hardly_changes_hardly_changes_a_digit(small: MorphoMNIST, sixty: tuple[Tensor, Columns]) -> None:
    """Also where a digit is thicker than its value says: it stays so."""
    images, columns = sixty
    made = small.set_attributes(images, columns, having(columns, thickness=columns["thickness"] + 1e-3))
    before, after = (small.measure(x / 255, ["thickness"])["thickness"] for x in (images, made))
    # strokes are redrawn in steps of an eighth of a pixel
    assert ((after - before).abs() < 0.2).float().mean() > 0.9


def test_intensity_alone_scales_the_greys(small: MorphoMNIST, sixty: tuple[Tensor, Columns]) -> None:
    images, columns = sixty
    made = small.set_attributes(images, columns, having(columns, intensity=80.0))
    own = small.measure(images / 255, ["intensity"])["intensity"]
    expected = (images * (80.0 / own)[:, None, None, None]).clamp(0, 255)
    assert (made - expected).abs().max() <= 1.001


def test_attributes_that_a_model_does_not_see_stay(small: MorphoMNIST) -> None:
    part = MorphoMNIST(limit=300, cache_dir=str(small.cache_dir), attributes=["slant", "label"])
    part.setup()
    images, columns = part.images("test"), part.columns("test")
    made = part.set_attributes(images, columns, having(columns, slant=0.4))
    before, after = (part.measure(x / 255, ["thickness", "intensity"]) for x in (images, made))
    assert (after["thickness"] - before["thickness"]).abs().median() < 0.15
    assert (after["intensity"] - before["intensity"]).abs().median() < 1.5


def test_an_image_without_a_digit_stays(small: MorphoMNIST) -> None:
    blank = torch.zeros(2, 1, 28, 28, dtype=torch.uint8)
    own = {"thickness": torch.ones(2), "intensity": torch.ones(2), "slant": torch.zeros(2)}
    wanted = having(own, thickness=3.0, intensity=200.0, slant=0.3)
    assert torch.equal(small.set_attributes(blank, own, wanted), blank)


def test_what_the_tool_cannot_do_is_refused(small: MorphoMNIST, sixty: tuple[Tensor, Columns]) -> None:
    images, columns = sixty
    with pytest.raises(ValueError, match="label cannot be set on an image. Valid: thickness, intensity, slant"):
        small.set_attributes(images, columns, having(columns, label=7.0))
    for wrong in (images / 255, images[:, 0]):
        with pytest.raises(ValueError, match=r"uint8, \(N, 1, H, W\)"):
            small.set_attributes(wrong, columns, columns)
