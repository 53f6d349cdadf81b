"""The networks that are audited: small ones trained on the spot, heads of a predictor, and all of them as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from cfgen.counterfactual import as_unit_float
from cfgen.progress import progress

BATCH = 128


class SmallNetwork(nn.Sequential):
    """Four convolutions that halve the image and two dense layers; images (N, C, H, W) to (N, outputs)."""

    def __init__(self, channels: int, outputs: int, width: int = 16) -> None:
        modules: list[nn.Module] = []
        before = channels
        for after in (width, 2 * width, 4 * width, 4 * width):
            modules += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.BatchNorm2d(after), nn.LeakyReLU(0.1)]
            before = after
        modules += [nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16 * before, 64), nn.LeakyReLU(0.1)]
        super().__init__(*modules, nn.Linear(64, outputs))


class Column(nn.Module):
    """One output of a network, (N,)."""

    def __init__(self, network: nn.Module, index: int) -> None:
        super().__init__()
        self.network, self.index = network, index

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)[:, self.index]


class Logit(nn.Module):
    """One class of a classifier against all others, (N,): above 0 where it is the class that is chosen."""

    def __init__(self, network: nn.Module, index: int) -> None:
        super().__init__()
        self.network, self.index = network, index

    def forward(self, x: Tensor) -> Tensor:
        logits = self.network(x)
        others = logits.clone()
        others[:, self.index] = -torch.inf
        return logits[:, self.index] - others.amax(dim=1)


class Together(nn.Module):
    """Scores of several networks, (N, networks); what two of them share is computed once."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, x: Tensor) -> Tensor:
        scores: list[Tensor] = []
        shared: dict[int, Tensor] = {}
        for network in self.networks:
            if isinstance(network, Column):
                if id(network.network) not in shared:
                    shared[id(network.network)] = network.network(x)
                scores.append(shared[id(network.network)][:, network.index])
            else:
                scores.append(network(x))
        return torch.stack(scores, dim=1)


def scores(network: nn.Module, images: Tensor, batch_size: int = 250) -> Tensor:
    """Of images as bytes or in [0, 1], (N, outputs)."""
    network.eval()
    with torch.inference_mode():
        parts = [network(as_unit_float(part)) for part in images.split(batch_size)]
    return torch.cat(parts) if parts else torch.empty(0)


def logistic_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(outputs, targets)


def squared_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().mean()


def train(
    images: Tensor,
    targets: Tensor,
    epochs: int,
    seed: int,
    what: str,
    loss: Callable[[Tensor, Tensor], Tensor] = logistic_loss,
) -> SmallNetwork:
    """A small network that tells `targets` (N, outputs) of images (N, C, H, W), as bytes."""
    torch.manual_seed(seed)
    network = SmallNetwork(images.shape[1], targets.shape[1])
    steps = epochs * (len(images) // BATCH)
    optimiser = torch.optim.Adam(network.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(steps, 1))
    with progress(f"training a small network that tells {what}", steps * BATCH) as advance:
        for _ in range(epochs):
            for rows in torch.randperm(len(images)).split(BATCH):
                if len(rows) < BATCH:
                    continue
                optimiser.zero_grad()
                loss(network(as_unit_float(images[rows])), targets[rows]).backward()
                optimiser.step()
                schedule.step()
                advance(BATCH)
    return network.eval()


def untrained(channels: int, seed: int) -> nn.Module:
    """A network with random weights; its answers depend on the image in no way that anybody meant."""
    torch.manual_seed(seed)
    return Column(SmallNetwork(channels, 1), 0).eval()
