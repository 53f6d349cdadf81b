"""The style-based generator: AdaIN, styles, noise, resolutions."""

import pytest
import torch
from torch.nn import functional as F

from cfgen.networks.sizes import resolutions
from cfgen.networks.style import StyledLayer, StyleGenerator


@pytest.fixture
def generator() -> StyleGenerator:
    torch.manual_seed(0)
    network = StyleGenerator((3, 32, 32), a_size=2, latent_dim=16, width=0.05)
    with torch.no_grad():
        for layer in network.layers:  # noise starts without effect and styles with little: here both shall matter
            layer.noise_strength.fill_(0.1)
            layer.style.weight.mul_(10)
    return network.eval()


def test_a_layer_is_adain_of_the_noisy_convolution():
    """Against torch's instance norm: y_s (x - mean) / deviation + y_b."""
    torch.manual_seed(0)
    layer = StyledLayer(3, 5, w_size=4)
    with torch.no_grad():
        layer.noise_strength.normal_()
        layer.bias.normal_()
    x, w, noise = torch.randn(2, 3, 8, 8), torch.randn(2, 4), torch.randn(2, 1, 8, 8)
    convolved = F.conv2d(x, layer.convolution.weight / (3 * 9) ** 0.5, padding=1)
    y_s, y_b = (0.1 * w @ layer.style.weight.T / 2 + layer.style.bias)[:, :, None, None].chunk(2, dim=1)
    expected = y_s * F.instance_norm(F.leaky_relu(convolved + layer.noise_strength * noise + layer.bias, 0.2)) + y_b
    torch.testing.assert_close(layer(x, w, noise), expected, atol=1e-5, rtol=1e-5)


def test_style_decides_the_statistics_of_a_layer_and_noise_cannot():
    torch.manual_seed(0)
    layer = StyledLayer(3, 5, w_size=4)
    with torch.no_grad():
        layer.noise_strength.fill_(3.0)
    x, w = torch.randn(1, 3, 16, 16), torch.randn(1, 4)
    one, other = layer(x, w, torch.randn(1, 1, 16, 16)), layer(x, w, torch.randn(1, 1, 16, 16))
    assert (one - other).abs().mean() > 0.1
    for statistic in (torch.mean, torch.std):
        torch.testing.assert_close(statistic(one, dim=(2, 3)), statistic(other, dim=(2, 3)), atol=1e-3, rtol=1e-3)
    restyled = layer(x, w + 1, torch.randn(1, 1, 16, 16))
    assert ((restyled - one).mean(dim=(2, 3)).abs() > 0.01).all()


def test_the_same_state_and_attributes_give_the_same_image(generator):
    z, a, noise = torch.randn(2, 16), torch.rand(2, 2), torch.randn(2, generator.noise_size)
    assert torch.equal(generator(z, a, noise), generator(z, a, noise))
    assert not torch.equal(generator(z, a), generator(z, a))  # without noise given, it is drawn anew
    torch.testing.assert_close(generator(z, a, noise[:1])[0], generator(z, a, noise)[0])


def test_style_changes_everything_and_noise_only_detail(generator):
    z, a, noise = torch.randn(8, 16), torch.rand(8, 2), torch.randn(8, generator.noise_size)
    image = generator(z, a, noise)
    by_noise = generator(z, a, torch.randn_like(noise)) - image
    for restyled in (generator(torch.randn(8, 16), a, noise), generator(z, 1 - a, noise)):
        by_style = restyled - image
        assert (by_style != 0).float().mean() > 0.99
        # of what noise does, little is left in the mean colour; of what style does, much
        assert by_noise.mean(dim=(2, 3)).abs().mean() < 0.5 * by_style.mean(dim=(2, 3)).abs().mean()
    assert by_noise.abs().mean() > 0


def test_untrained_noise_has_no_effect():
    generator = StyleGenerator((1, 28, 28), a_size=3, latent_dim=8, width=0.05)
    z, a = torch.randn(2, 8), torch.rand(2, 3)
    assert torch.equal(generator(z, a), generator(z, a))


@pytest.mark.parametrize(
    ("size", "sizes"), [(64, [4, 8, 16, 32, 64]), (28, [7, 14, 28]), (24, [6, 12, 24]), (60, [4, 8, 15, 30, 60])]
)
def test_resolutions(size, sizes):
    assert resolutions(size) == sizes
    image = StyleGenerator((3, size, size), a_size=1, latent_dim=4, width=0.02)(torch.randn(2, 4), torch.rand(2, 1))
    assert image.shape == (2, 3, size, size)
    assert image.min() >= 0
    assert image.max() <= 1


def test_equalised_learning_rate():
    """Weights have unit variance, so one Adam step moves every layer's function by a like share."""
    torch.manual_seed(0)
    generator = StyleGenerator((3, 64, 64), a_size=2, latent_dim=64, width=0.25)
    for layer in generator.layers[1:]:
        assert layer.convolution.weight.std().item() == pytest.approx(1, abs=0.05)
    for layer in generator.mapping[::2]:
        assert (layer.weight * layer.rate).std().item() == pytest.approx(1, abs=0.05)
