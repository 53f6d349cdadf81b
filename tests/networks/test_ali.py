"""Appendix D's tables: sizes, parameter counts and the attribute planes that are never built."""

import pytest
import torch
from torch import nn

from cfgen.networks import (
    CELEBA,
    MORPHO_MNIST,
    AttributePredictor,
    Discriminator,
    Encoder,
    Generator,
    ModulatedGenerator,
)
from cfgen.networks.layers import Conv2d, ConvTranspose2d, PlaneConv2d, initialise_he

A, Z = 13, 512


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def conv(c_in: int, c_out: int, k: int, bn: bool) -> int:
    """A convolution's weights, with a bias or with batch norm's scale and shift."""
    return c_in * c_out * k * k + (2 * c_out if bn else c_out)


# Worked out from the paper's tables row by row; an attribute plane has one weight per filter here, not K*K.
MORPHO_COUNTS = {
    "G": conv(Z + A, 256, 4, True) + conv(256, 128, 4, True) + conv(128, 64, 4, True) + conv(64, 32, 4, True)
    + conv(32, 32, 1, True) + conv(32, 1, 1, True),
    "E": conv(1, 32, 5, True) + A * 32 + conv(32, 64, 4, True) + conv(64, 128, 4, True) + conv(128, 256, 4, True)
    + conv(256, 512, 3, True) + conv(512, Z, 1, True),
    "D": conv(Z + A, 512, 1, False) + conv(512, 512, 1, False)
    + conv(1, 32, 5, False) + A * 32 + conv(32, 64, 4, True) + conv(64, 128, 4, True) + conv(128, 256, 4, True)
    + conv(256, 512, 3, True) + conv(1024, 1024, 1, False) + conv(1024, 1024, 1, False) + conv(1024, 1, 1, False),
}  # fmt: skip
CELEBA_COUNTS = {
    "G": conv(Z + A, 512, 4, True) + conv(512, 256, 7, True) + conv(256, 256, 5, True) + conv(256, 128, 7, True)
    + conv(128, 64, 2, True) + conv(64, 3, 1, True),
    "E": conv(3, 64, 2, True) + A * 64 + conv(64, 128, 7, True) + conv(128, 256, 5, True) + conv(256, 256, 7, True)
    + conv(256, 512, 4, True) + conv(512, Z, 1, True),
    "D": conv(Z + A, 1024, 1, False) + conv(1024, 1024, 1, False)
    + conv(3, 64, 2, False) + A * 64 + conv(64, 128, 7, True) + conv(128, 256, 5, True) + conv(256, 256, 7, True)
    + conv(256, 512, 4, True) + conv(1536, 2048, 1, False) + conv(2048, 2048, 1, False) + conv(2048, 1, 1, False),
}  # fmt: skip


@pytest.mark.parametrize(("tables", "counts"), [(MORPHO_MNIST, MORPHO_COUNTS), (CELEBA, CELEBA_COUNTS)])
def test_parameter_counts_of_every_table(tables, counts):
    channels = tables.image_shape[0]
    networks = {
        name: cls(tables, channels, A) for name, cls in (("G", Generator), ("E", Encoder), ("D", Discriminator))
    }
    assert {name: count(network) for name, network in networks.items()} == counts


@pytest.mark.parametrize("tables", [MORPHO_MNIST, CELEBA])
def test_shapes(tables):
    x, a, z = torch.rand(2, *tables.image_shape), torch.rand(2, A), torch.randn(2, 7)
    sizes = (tables, tables.image_shape[0], A)
    image = Generator(*sizes, latent_dim=7, width=0.1)(z, a)
    assert image.shape == x.shape
    assert 0 <= image.min() <= image.max() <= 1
    assert Encoder(*sizes, latent_dim=7, width=0.1)(x, a).shape == (2, 7)
    assert Discriminator(*sizes, latent_dim=7, width=0.1)(x, z, a).shape == (2,)
    assert AttributePredictor(*sizes, width=0.1)(x).shape == (2, A)


@pytest.mark.parametrize("tables", [MORPHO_MNIST, CELEBA])
def test_every_layer_of_a_modulated_generator_is_told_the_attributes(tables):
    torch.manual_seed(0)
    z, a = torch.randn(6, 8), torch.rand(6, A)
    modulated = ModulatedGenerator(tables, tables.image_shape[0], A, latent_dim=8, width=0.5)
    before = modulated(z, a)
    assert before.shape == (6, *tables.image_shape)
    assert 0 < before.min() <= before.max() < 1
    for modulation in modulated.modulations:  # one layer at a time is told another a
        hook = modulation.register_forward_hook(lambda m, inputs, _: nn.functional.linear(1 - inputs[0], m.weight))
        assert not torch.equal(modulated(z, a), before)
        hook.remove()
    assert torch.equal(modulated(z, a), before)


@pytest.mark.parametrize("tables", [MORPHO_MNIST, CELEBA])
@pytest.mark.parametrize("kind", [Generator, ModulatedGenerator])
def test_only_transposed_convolutions_leave_a_grid(tables, kind):
    """From a first layer that is the same everywhere grows an image that is, but for its border."""
    torch.manual_seed(0)
    generator = kind(tables, tables.image_shape[0], A, latent_dim=8, width=0.25).eval()
    initialise_he(generator, tables.slope)
    first = next(module for module in generator.modules() if isinstance(module, ConvTranspose2d))
    with torch.no_grad():
        first.weight[:] = first.weight.mean(dim=(2, 3), keepdim=True)
        image = generator(torch.randn(6, 8), torch.rand(6, A))
    middle = image[:, :, *(slice(size // 4, -(size // 4)) for size in tables.image_shape[1:])].flatten(2)
    assert middle.std() > 1e-3  # images differ
    grid = (middle.amax(2) - middle.amin(2)).max()
    assert grid < 1e-5 if kind is ModulatedGenerator else grid > 1e-3


@pytest.mark.parametrize("tables", [MORPHO_MNIST, CELEBA])
def test_the_predictor_lets_images_through_from_the_start(tables):
    """Two images read differently by as much as they differ, not by a thousandth: else it begins to learn late or never."""
    torch.manual_seed(0)
    x = torch.rand(64, *tables.image_shape)
    readings = AttributePredictor(tables, tables.image_shape[0], A, width=0.125)(x)
    assert readings.std(dim=0).mean() > 0.2 * x.flatten(1).std(dim=0).mean()


def test_maps_shrink_to_a_point_without_padding():
    """28-24-11-8-3-1 and 64-63-29-13-4-1: the sizes the tables' kernels and strides give."""
    for tables, expected in ((MORPHO_MNIST, [24, 11, 8, 3, 1, 1]), (CELEBA, [63, 29, 13, 4, 1, 1])):
        size, sizes = tables.image_shape[1], []
        for row in tables.encoder:
            size = (size - row.K) // row.S + 1
            sizes.append(size)
        assert sizes == expected


def test_slopes_dropout_and_batch_norm_follow_the_tables():
    d = Discriminator(MORPHO_MNIST, 1, A, width=0.1)
    assert {m.negative_slope for m in d.modules() if isinstance(m, nn.LeakyReLU)} == {0.1}
    assert [m.p for m in d.d_xz if isinstance(m, nn.Dropout)] == [0.2, 0.2, 0.5]
    assert [m.p for m in (*d.drop_x, *d.d_x) if isinstance(m, nn.Dropout)] == [0.2, 0.2, 0.5, 0.5, 0.5]
    assert sum(isinstance(m, nn.BatchNorm2d) for m in d.modules()) == 4
    g, plain_g = (Generator(MORPHO_MNIST, 1, A, width=0.1, plain=plain) for plain in (False, True))
    assert [sum(isinstance(m, nn.BatchNorm2d) for m in network.modules()) for network in (g, plain_g)] == [6, 5]
    plain = Discriminator(MORPHO_MNIST, 1, A, width=0.1, plain=True)
    assert not any(isinstance(m, nn.Dropout | nn.BatchNorm2d) for m in plain.modules())
    celeba = Encoder(CELEBA, 3, A, width=0.1)
    assert {m.negative_slope for m in celeba.modules() if isinstance(m, nn.LeakyReLU)} == {0.02}


def test_initial_weights_are_a_truncated_normal():
    d = Discriminator(MORPHO_MNIST, 1, A)
    weight = d.d_xz[1].weight.detach()
    assert weight.abs().max() <= 0.02
    assert weight.std().item() == pytest.approx(0.0088, rel=0.01)  # a normal of 0.01 cut at two deviations
    assert all((m.bias == 0).all() for m in d.modules() if isinstance(m, nn.Conv2d) and m.bias is not None)


class Concatenated(nn.Module):
    """The convolution as the paper words it: planes built and concatenated to the image."""

    def __init__(self, layer: PlaneConv2d) -> None:
        super().__init__()
        c_in, taps = layer.in_channels, layer.kernel_size
        planes = layer.plane_weight.shape[1]
        self.conv = nn.Conv2d(c_in + planes, layer.out_channels, taps, layer.stride, dtype=layer.weight.dtype)
        with torch.no_grad():
            self.conv.weight[:, :c_in] = layer.weight
            self.conv.weight[:, c_in:] = layer.plane_weight[:, :, None, None]
            self.conv.bias.copy_(layer.bias)

    def forward(self, x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        planes = a[:, :, None, None].expand(-1, -1, *x.shape[2:])
        return self.conv(torch.cat([x, planes], dim=1))


@pytest.mark.parametrize(("kernel", "stride"), [(5, 1), (2, 1), (7, 2)])
def test_planes_need_not_be_built(kernel, stride):
    """Outputs, gradients and ten steps of Adam equal those of the concatenated convolution."""
    torch.manual_seed(0)
    layer = PlaneConv2d(3, 8, kernel, stride, planes=A, bias=True).double()
    nn.init.normal_(layer.plane_weight, std=0.1)
    naive = Concatenated(layer)
    optimisers = [torch.optim.Adam(m.parameters(), lr=1e-2, eps=1e-15) for m in (layer, naive)]
    for step in range(10):
        x = torch.rand(4, 3, 12, 12, dtype=torch.double, requires_grad=True)
        a = torch.rand(4, A, dtype=torch.double, requires_grad=True)
        ours, theirs = layer(x, a), naive(x, a)
        torch.testing.assert_close(ours, theirs)
        gradients = [torch.autograd.grad(y.square().sum(), (x, a), retain_graph=True) for y in (ours, theirs)]
        torch.testing.assert_close(*gradients)
        for optimiser, y in zip(optimisers, (ours, theirs), strict=True):
            optimiser.zero_grad()
            y.square().sum().backward()
        torch.testing.assert_close(layer.weight.grad, naive.conv.weight.grad[:, :3])
        # every tap of a plane has the same gradient; ours is their sum, and Adam does not see the scale
        torch.testing.assert_close(layer.plane_weight.grad, naive.conv.weight.grad[:, 3:].sum(dim=(2, 3)))
        for optimiser in optimisers:
            optimiser.step()
        assert step or not torch.equal(ours, layer(x, a))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("ours", "theirs", "size"), [(Conv2d, nn.Conv2d, 3), (ConvTranspose2d, nn.ConvTranspose2d, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_convolutions_of_a_point_are_matrix_products(ours, theirs, size, bias, memory_format):
    torch.manual_seed(0)
    layer = ours(5, 7, 3, bias=bias).to(memory_format=memory_format)
    reference = theirs(5, 7, 3, bias=bias)
    reference.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, size, size, requires_grad=True)
    torch.testing.assert_close(layer(x), reference(x))
    for a, b in zip(
        torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()]),
        torch.autograd.grad(reference(x).square().sum(), [x, *reference.parameters()]),
        strict=True,
    ):
        torch.testing.assert_close(a, b)
