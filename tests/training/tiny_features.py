"""A network whose features FID compares, in place of Inception, whose weights would be downloaded."""

import torch
from torch import Tensor, nn

__all__ = ["TinyFeatures"]


class TinyFeatures(nn.Module):
    """The mean of each channel."""

    num_features = 3

    def forward(self, x: Tensor) -> Tensor:
        return torch.as_tensor(x).mean(dim=(2, 3))
