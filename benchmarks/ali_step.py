"""Time of one CondALI training step: through the Trainer, in a bare loop, and as the paper words it.

    python benchmarks/ali_step.py --steps 20

All three do Eq. 2 with R1 on the same batches with equally initialised networks.  The bare loop is what the module
does without Lightning: the difference is what the framework costs.  The naive one builds attribute planes and
concatenates them, runs E and G anew at each player's turn and D once for real and once for fake at each turn, all of
PyTorch's own layers.
They take turns, a step each, so that a busy machine disturbs all three alike.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Iterator

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from cfgen import losses
from cfgen.attributes import Schema
from cfgen.batch import Batch
from cfgen.networks.layers import Conv2d, ConvTranspose2d, PlaneConv2d
from lightning_modules.cond_ali import R1_EVERY, CondALI

SCM = {
    "attributes": {
        **{name: {"kind": "continuous", "low": 0.0, "high": 1.0} for name in ("thickness", "intensity", "slant")},
        "label": {"kind": "categorical", "values": list(range(10))},
    }
}


class NaivePlanes(nn.Module):
    """The first convolution of E or D with attribute planes built and concatenated to the image."""

    def __init__(self, layer: PlaneConv2d) -> None:
        super().__init__()
        channels, planes = layer.in_channels, layer.plane_weight.shape[1]
        has_bias = layer.bias is not None
        self.conv = nn.Conv2d(channels + planes, layer.out_channels, layer.kernel_size, layer.stride, bias=has_bias)
        with torch.no_grad():
            self.conv.weight[:, :channels] = layer.weight
            self.conv.weight[:, channels:] = layer.plane_weight[:, :, None, None]
            if layer.bias is not None and self.conv.bias is not None:
                self.conv.bias.copy_(layer.bias)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        return self.conv(torch.cat([x, a[:, :, None, None].expand(-1, -1, *x.shape[2:])], dim=1))


def naive(model: CondALI) -> CondALI:
    """The same networks of PyTorch's own layers, with planes that are built."""
    twin = copy.deepcopy(model)
    twin.E.first, twin.D.first_x = NaivePlanes(twin.E.first), NaivePlanes(twin.D.first_x)  # type: ignore[arg-type]
    for module in twin.modules():
        for kind, plain in ((Conv2d, nn.Conv2d), (ConvTranspose2d, nn.ConvTranspose2d)):
            if type(module) is kind:
                module.__class__ = plain
    return twin.to(memory_format=torch.contiguous_format)


def optimisers(model: CondALI) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
    d, eg = ([p for network in networks for p in network.parameters()] for networks in model.players().values())
    return torch.optim.Adam(d, model.lr, model.betas), torch.optim.Adam(eg, model.lr, model.betas)


def step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()


def bare_loop(model: CondALI, x: Tensor, a: Tensor) -> Iterator[None]:
    """What CondALI.training_step does, without Lightning."""
    opt_d, opt_eg = optimisers(model)
    batch = 0
    while True:
        z = model.prior(a)
        z_x, x_z = model.E(x, a), model.G(z, a)
        loss = losses.ali_d(*model.scores((x, z_x.detach(), a), (x_z.detach(), z, a)))
        if batch % R1_EVERY == 0:
            loss = loss + R1_EVERY * model.r1_gamma * model.penalty(x, z_x, a)
        step(opt_d, loss)
        model.D.requires_grad_(False)
        step(opt_eg, losses.ali_eg(*model.scores((x, z_x, a), (x_z, z, a))))
        model.D.requires_grad_(True)
        batch += 1
        yield


def naive_loop(model: CondALI, x: Tensor, a: Tensor) -> Iterator[None]:
    """Eq. 2 as it is usually coded: everything anew at each turn, gradients for all, D called four times."""
    opt_d, opt_eg = optimisers(model)
    batch = 0
    while True:
        z = model.prior(a)
        z_x, x_z = model.E(x, a), model.G(z, a)
        loss = losses.ali_d(model.D(x, z_x.detach(), a), model.D(x_z.detach(), z, a))
        if batch % R1_EVERY == 0:
            loss = loss + R1_EVERY * model.r1_gamma * model.penalty(x, z_x, a)
        step(opt_d, loss)
        step(opt_eg, losses.ali_eg(model.D(x, model.E(x, a), a), model.D(model.G(z, a), z, a)))
        batch += 1
        yield


class Clock(pl.Callback):
    """Runs the other loops between the Trainer's batches, and keeps the CPU time that everyone took.

    CPU time of all threads, not the clock on the wall: other programs on the machine then disturb little.
    """

    def __init__(self, others: dict[str, Iterator[None]]) -> None:
        self.others = others
        self.seconds: dict[str, list[float]] = {name: [] for name in ("trainer", *others)}
        self.end: float | None = None

    def on_train_batch_start(self, *_: object) -> None:
        # from the end of one batch to that of the next, loading included: the framework's whole share
        for name, loop in self.others.items():
            start = time.process_time()
            next(loop)
            self.seconds[name].append(time.process_time() - start)
            if self.end is not None:
                self.end += self.seconds[name][-1]

    def on_train_batch_end(self, *_: object) -> None:
        now = time.process_time()
        if self.end is not None:
            self.seconds["trainer"].append(now - self.end)
        self.end = time.process_time()


def measure(steps: int, batch_size: int, width: float) -> dict[str, list[float]]:
    """Seconds of each step, by kind of loop; the first steps, which compile kernels, are dropped."""
    pl.seed_everything(0, verbose=False)
    model = CondALI(SCM, (1, 28, 28), width=width, reconstruction=0.0, counterfactual=0.0, ema_decay=0.0)
    x = torch.rand(batch_size, 1, 28, 28)
    a = Schema(SCM["attributes"]).encode(
        {name: torch.rand(batch_size) for name in ("thickness", "intensity", "slant")}
        | {"label": torch.randint(10, (batch_size,))}
    )
    bare = bare_loop(copy.deepcopy(model), x, a)
    clock = Clock({"bare loop": bare, "naive": naive_loop(naive(model), x, a)})
    warm_up = R1_EVERY
    trainer = pl.Trainer(
        accelerator="cpu",
        max_steps=steps + warm_up,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
    batch = Batch(x, a, torch.zeros(batch_size))
    batches = DataLoader([batch] * (steps + warm_up), batch_size=None)
    trainer.fit(model, train_dataloaders=batches)
    return {name: seconds[-steps:] for name, seconds in clock.seconds.items()}


def main(report: Callable[[str], None] = print) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="steps to time (default: 20)")
    parser.add_argument("--batch-size", type=int, default=100, help="images in a batch (default: 100, the paper's)")
    parser.add_argument("--width", type=float, default=1.0, help="width of the networks (default: 1, the tables)")
    parser.add_argument("--threads", type=int, help="threads of PyTorch (default: its own choice)")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    seconds = measure(options.steps, options.batch_size, options.width)
    report(
        f"{options.steps} steps, batch {options.batch_size}, width {options.width}, {torch.get_num_threads()} threads"
    )
    for name, values in seconds.items():
        low, high = min(values), max(values)
        report(f"{name:10} {1e3 * statistics.mean(values):8.1f} ms a step (from {1e3 * low:.1f} to {1e3 * high:.1f})")
    trainer = statistics.mean(seconds["trainer"])
    # step by step against its neighbour in time, then the median: a disturbance hits single pairs
    pairs = zip(seconds["trainer"], seconds["bare loop"], strict=True)
    overhead = statistics.median(ours / bare for ours, bare in pairs) - 1
    report(f"framework overhead: {overhead:+.1%}")
    report(f"naive / trainer: {statistics.mean(seconds['naive']) / trainer:.2f}x")


if __name__ == "__main__":
    main()
