"""What Appendix D's tables are built from: a table's rows as layers, attribute planes, the initialisation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from cfgen.networks.tables import Row

__all__ = ["Conv2d", "ConvTranspose2d", "PlaneConv2d", "initialise", "initialise_he", "layers", "scaled"]


def scaled(rows: Sequence[Row], width: float) -> list[Row]:
    """The same rows with every filter count multiplied by `width`."""
    return [row._replace(F=max(1, round(row.F * width))) for row in rows]


def layers(rows: Sequence[Row], in_channels: int, slope: float, planes: int = 0) -> list[nn.Module]:
    """Dropout, convolution, batch norm and activation for each row; `planes` attribute planes join the first input.

    A sigmoid is left to the caller, who wants logits from D.  Dropout acts on a row's input, as in ALI's maxout
    ancestry: after the convolution, the last row of D would drop the verdict itself.
    """
    modules: list[nn.Module] = []
    channels = [in_channels, *(row.F for row in rows)]
    for (c_in, c_out), row in zip(pairwise(channels), rows, strict=True):
        if row.D:
            modules.append(nn.Dropout(row.D))
        bias = not row.BN  # batch norm has a bias of its own
        if planes and not any(isinstance(m, PlaneConv2d) for m in modules):
            modules.append(PlaneConv2d(c_in, c_out, row.K, row.S, planes=planes, bias=bias))
        else:
            convolution = Conv2d if row.layer == "Conv2D" else ConvTranspose2d
            modules.append(convolution(c_in, c_out, row.K, row.S, bias=bias))
        if row.BN:
            modules.append(nn.BatchNorm2d(c_out))
        if row.A == "LReLU":
            modules.append(nn.LeakyReLU(slope))
    return modules


class Conv2d(nn.Conv2d):
    """Conv2D that is computed as the matrix product it is where the kernel covers the whole input: many times faster."""

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2:] != self.kernel_size:
            return super().forward(x)
        # channels last, as the networks are kept: no copy
        x, weight = (tensor.permute(0, 2, 3, 1).flatten(1) for tensor in (x, self.weight))
        return nn.functional.linear(x, weight, self.bias)[:, :, None, None]


class ConvTranspose2d(nn.ConvTranspose2d):
    """Conv2DT that is computed as the matrix product it is where the input is a point."""

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        if x.shape[2:] != (1, 1):
            return super().forward(x, output_size)
        y = x.flatten(1) @ self.weight.permute(0, 2, 3, 1).flatten(1)
        y = y.unflatten(1, (*self.kernel_size, self.out_channels)).permute(0, 3, 1, 2)
        return y if self.bias is None else y + self.bias[:, None, None]


class PlaneConv2d(nn.Conv2d):
    """Conv2D of an image with attribute planes (each constant over the image) concatenated to its channels.

    Without padding, a plane's convolution is constant too: the sum of its K*K weights times the attribute.  So no plane
    is built; `plane_weight` holds the mean of those K*K weights.  They all receive the same gradient, so an optimiser
    moves them together, and training stays that of the concatenated convolution (with padding none of this would hold).
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int, planes: int, bias: bool
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, bias=bias)
        self.plane_weight = nn.Parameter(torch.zeros(out_channels, planes))

    def forward(self, x: Tensor, a: Tensor | None = None) -> Tensor:
        assert a is not None
        taps = self.kernel_size[0] * self.kernel_size[1]
        return super().forward(x) + nn.functional.linear(taps * a, self.plane_weight)[:, :, None, None]


@torch.no_grad()
def initialise(network: nn.Module, std: float = 0.01) -> None:
    """Keras' truncated normal (cut at two standard deviations) for all weights and zero biases, in place."""
    for module in network.modules():
        if isinstance(module, PlaneConv2d):
            planes = module.weight.new_empty(*module.plane_weight.shape, *module.kernel_size)
            nn.init.trunc_normal_(planes, std=std, a=-2 * std, b=2 * std)
            module.plane_weight.copy_(planes.mean(dim=(2, 3)))
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


@torch.no_grad()
def initialise_he(network: nn.Module, slope: float) -> None:
    """He's normal for all convolutions and zero biases, in place.

    Without batch norm each layer then passes on as much as it receives.  With it, the scale of the weights changes no image
    but how far a step of Adam turns them: a learning rate of 2e-3 throws weights of 0.01 about at first.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.kaiming_normal_(module.weight, a=slope)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
