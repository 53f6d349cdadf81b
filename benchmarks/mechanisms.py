"""A training step, an abduction and a counterfactual of HVAE beside those of the modulated CondALI, on the same images.

    OMP_NUM_THREADS=1 python -m benchmarks.mechanisms --steps 20

Both have the sizes of their configs, `faces_hvae_cpu` and `faces_modulated`.  Times are CPU time of all threads, which other
programs on the machine disturb little; each is the median over steps or batches, and the two models take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
import yaml
from torch import Tensor
from torch.utils.data import DataLoader

import lightning_modules
from cfgen.batch import Batch
from cfgen.training.configs import find_config
from datamodules.faces.scm import ATTRIBUTES

CONFIGS = {"CondALI, modulated": "faces_modulated", "HVAE": "faces_hvae_cpu"}
SCM = {"attributes": {name: {"kind": "binary"} for name in ATTRIBUTES}, "edges": []}
SHAPE = (3, 64, 64)
TRAINED, ASKED = 16, 250  # images in a batch: of the configs, and of `sweep`
WARM_UP = 3  # steps that compile kernels


class Clock(pl.Callback):
    """CPU seconds of every training step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.start = 0.0

    def on_train_batch_start(self, *_: Any) -> None:
        self.start = time.process_time()

    def on_train_batch_end(self, *_: Any) -> None:
        self.seconds.append(time.process_time() - self.start)


def built(config: str) -> Any:
    """The untrained model of a config; how fast it is does not depend on what it has learned."""
    pl.seed_everything(0, verbose=False)
    model = yaml.safe_load(find_config(config).read_text(encoding="utf-8"))["model"]
    made = getattr(lightning_modules, model["class_path"].rsplit(".", 1)[-1])(SCM, SHAPE, **model["init_args"])
    made.scm.fit({name: torch.arange(8.0) % 2 for name in ATTRIBUTES})
    return made


def images(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(count, *SHAPE, generator=generator), torch.rand(
        count, len(ATTRIBUTES), generator=generator
    ).round()


def step_seconds(model: Any, steps: int) -> float:
    """Of one training step through the Trainer."""
    clock = Clock()
    x, a = images(TRAINED * (steps + WARM_UP))
    batches = [Batch(*(part[i : i + TRAINED] for part in (x, a, a[:, 0].long()))) for i in range(0, len(x), TRAINED)]
    trainer = pl.Trainer(
        accelerator="cpu",
        max_steps=len(batches),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[clock],
    )
    trainer.fit(model, DataLoader(batches, batch_size=None))  # type: ignore[arg-type]  # a list is one
    return statistics.median(clock.seconds[WARM_UP:])


@torch.inference_mode()
def seconds(function: Callable[[], Any], times: int) -> float:
    function()
    found = []
    for _ in range(times):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    x, a = images(ASKED)
    found = {}
    for name, config in CONFIGS.items():
        model = built(config)
        step = step_seconds(model, steps)
        model.eval()
        with torch.inference_mode():
            z = model.abduct(x, a)
        abduct = seconds(lambda model=model: model.abduct(x, a), 5)  # type: ignore[misc]
        decode = seconds(lambda model=model, z=z: model.decode(z, 1 - a), 5)  # type: ignore[misc]
        found[name] = (step, abduct, decode)
    print(f"{'':20}{'step of 16':>14}{'abduct 250':>14}{'decode 250':>14}{'counterfactuals a second':>28}")
    for name, (step, abduct, decode) in found.items():
        rate = ASKED / (abduct + decode)
        print(f"{name:20}{1000 * step:11.0f} ms{1000 * abduct:11.0f} ms{1000 * decode:11.0f} ms{rate:28.0f}")
    ratios = [hvae / ali for ali, hvae in zip(*found.values(), strict=True)]
    print(f"{'HVAE takes, times':20}" + "".join(f"{ratio:14.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
