"""Layers that compute an identity: the same function as what they stand for, with less work."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cfgen.networks.layers import DoublingConv2d


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 5), (7, 7)])
def test_a_doubling_convolution_is_a_convolution_of_repeated_pixels(bias, height, width):
    torch.manual_seed(0)
    layer = DoublingConv2d(3, 4, bias=bias).double()
    x = torch.randn(2, 3, height, width, dtype=torch.double, requires_grad=True)
    plain = F.conv2d(F.interpolate(x, scale_factor=2.0), layer.weight, layer.bias, padding=1)
    doubled = layer(x)
    torch.testing.assert_close(doubled, plain)
    inputs = [x, *layer.parameters()]
    weights = torch.randn_like(plain)
    for one, other in zip(
        torch.autograd.grad((doubled * weights).sum(), inputs),
        torch.autograd.grad((plain * weights).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_its_weights_are_those_of_the_plain_convolution():
    assert {name: value.shape for name, value in DoublingConv2d(3, 4).state_dict().items()} == {
        name: value.shape for name, value in nn.Conv2d(3, 4, 3).state_dict().items()
    }
