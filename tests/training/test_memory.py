"""The memory of a training step: counted on a few images, exact for any number, and held against what is free."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from cfgen.attributes import Schema
from cfgen.errors import UserError
from cfgen.training import memory
from cfgen.training.memory import StepMemory, available_memory, check_memory, live_bytes, step_memory
from cfgen.training.run import train
from lightning_modules import HVAE, Classifier, CondALI, DeepSCM, Predictor, StyleALI
from tests.fakes import DIGITS, Noisy

SHAPE = (3, 16, 16)
SCM: dict[str, Any] = {"attributes": DIGITS, "edges": []}
TINY: dict[str, Any] = {"width": 0.05, "latent_dim": 8}
BUILD = {
    "CondALI": lambda: CondALI(SCM, SHAPE, **TINY),
    "StyleALI": lambda: StyleALI(SCM, SHAPE, **TINY, mapping_layers=2),
    "DeepSCM": lambda: DeepSCM(SCM, SHAPE, **TINY),
    "HVAE": lambda: HVAE(SCM, SHAPE, width=0.25, latent_dim=8, joint=0.5, adversary=0.1),
    "Classifier": lambda: Classifier(SHAPE, 2, width=0.05),
    "Predictor": lambda: Predictor(SCM, SHAPE, width=0.05, lr_decay=True),
}


@pytest.mark.parametrize("name", BUILD)
def test_a_few_images_tell_what_many_take(name):
    """The line through four and six images is what twenty take, to the byte, and nothing else notices."""
    torch.manual_seed(0)
    module = BUILD[name]()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    numbers = torch.random.get_rng_state()
    found = step_memory(module, SCM, SHAPE)
    assert found.peak(20) == live_bytes(module, SCM, SHAPE, 20).max()
    assert torch.equal(torch.random.get_rng_state(), numbers)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


class Wide(pl.LightningModule):
    """y = w x, element by element, trained with plain gradient descent: what it holds can be counted by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(SHAPE))

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return (self.w * batch.x).sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


def test_what_can_be_counted_by_hand():
    """At most: w, its gradient before and after it is summed over the images; the product, gone by then, or its gradient."""
    image = 4 * 3 * 16 * 16
    found = step_memory(Wide(), SCM, SHAPE)
    many = found.peak(1000)
    # w * x is alive when its sum is taken; in the backward pass the gradient of the product with w, an image each
    assert 1000 * image <= many <= 1001 * image + 4 * image


def test_the_largest_batch_that_fits():
    line = StepMemory(np.array([100.0, 0.0]), np.array([1.0, 3.0]))
    assert [line.peak(n) for n in (1, 40, 60)] == [101, 140, 180]
    for size in (150, 180, 1000):
        most = line.largest_batch(size)
        assert line.peak(most) <= size < line.peak(most + 1)
    assert line.largest_batch(50) == 0


def checked(monkeypatch: pytest.MonkeyPatch, free: int | None, data: Any = None) -> list[str]:
    data = data or Noisy(SHAPE, batch_size=4)
    module = CondALI(data.scm_spec, SHAPE, **TINY)
    monkeypatch.setattr(memory, "free_memory", lambda device: free)
    told: list[str] = []
    trainer = pl.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
    check_memory(module, data, trainer, told.append)
    return told


def test_what_fits_is_said_and_what_does_not_is_refused_with_what_would(monkeypatch):
    (line,) = checked(monkeypatch, free=8_000_000_000)
    assert line.startswith("memory: a training step on 4 images takes about ")
    assert line.endswith(", and 8.0 GB are free")
    assert "free" not in checked(monkeypatch, free=None)[0]
    data = Noisy(SHAPE, batch_size=4000)
    with pytest.raises(UserError, match="images fit, or train anyway with check_memory: false") as refused:
        checked(monkeypatch, free=100_000_000, data=data)
    assert refused.value.argument == "batch_size"
    fits = int(str(refused.value).split("; ")[1].split()[0])
    assert 2 <= fits < 4000
    (line,) = checked(monkeypatch, free=100_000_000, data=Noisy(SHAPE, batch_size=fits))  # the advice is good
    assert "may not suffice" not in line
    with pytest.raises(UserError, match="no batch"):
        checked(monkeypatch, free=1000, data=data)


def test_what_cannot_be_tried_out_is_left_alone(monkeypatch):
    class Unusual(Noisy):
        @property
        def scm_spec(self) -> dict[str, Any]:
            return {}

    data = Noisy(SHAPE)
    told: list[str] = []
    trainer = pl.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False)
    check_memory(CondALI(data.scm_spec, SHAPE, **TINY), Unusual(SHAPE), trainer, told.append)
    assert told == ["memory: a training step could not be tried out in advance (KeyError: 'attributes')"]


def test_a_run_that_will_not_fit_leaves_nothing_behind_and_can_be_had_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda device: 1_000_000)
    config = tmp_path / "small.yaml"
    config.write_text(
        "model:\n  class_path: lightning_modules.CondALI\n  init_args: {width: 0.05, latent_dim: 8}\n"
        "data:\n  class_path: tests.fakes.Noisy\n  init_args: {image_shape: [3, 16, 16], batch_size: 4}\n"
        "trainer: {max_epochs: 1, accelerator: cpu, limit_val_batches: 0, enable_progress_bar: false}\n"
    )
    with pytest.raises(UserError) as refused:
        train(config, runs_dir=tmp_path / "runs")
    assert refused.value.argument == "data.batch_size"
    assert not (tmp_path / "runs").exists()
    run = train(config, runs_dir=tmp_path / "runs", check_memory=False)
    assert run.steps == 3
    assert run.config["check_memory"] is False


def test_what_a_machine_or_a_container_has_left(tmp_path):
    assert available_memory() is None or available_memory() > 0  # type: ignore[operator]
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal: 8000 kB\nMemAvailable: 4000 kB\nSwapFree: 1000 kB\nHugePages_Free: 0\n"
    )
    assert available_memory(tmp_path) == 5000 * 1024
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("700000\n")
    (group / "memory.stat").write_text("anon 5\ninactive_file 100000\n")
    (group / "memory.max").write_text("max\n")
    assert available_memory(tmp_path) == 5000 * 1024
    (group / "memory.max").write_text("1000000\n")
    assert available_memory(tmp_path) == 400_000


PROGRAM = "import sys; from tests.training.test_memory import resident; print(*resident(sys.argv[1]))"
# a model and the images of its batch
SETTINGS = {
    "CondALI 28": (lambda: CondALI(SCM, (1, 28, 28), width=0.25), 128),
    "CondALI 32": (lambda: CondALI(SCM, (3, 32, 32), width=0.25), 96),
    "HVAE 64": (lambda: HVAE(SCM, (3, 64, 64), width=0.5, latent_dim=64), 32),
    "StyleALI 64": (lambda: StyleALI(SCM, (3, 64, 64), width=0.25, latent_dim=128), 32),
    "Classifier 96": (lambda: Classifier((3, 96, 96), 3, width=0.5), 64),
}


def resident(setting: str) -> tuple[float, int]:
    """Bytes by which the largest size of this process grows in training steps on a batch, and the estimate of it."""
    torch.manual_seed(0)
    build, images = SETTINGS[setting]
    module = build()
    shape = module.image_shape
    estimate = step_memory(module, SCM, shape).peak(images) - sum(
        p.nbytes for p in (*module.parameters(), *module.buffers())
    )
    before = largest()
    memory.train_steps(memory.rehearsal(module), memory.random_batch(Schema(DIGITS), shape, images))
    return 1024.0 * (largest() - before), estimate


def largest() -> int:
    """The most memory, in kB, that this program has had: `ru_maxrss` is also that of the process which started it."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_process_grows_by_about_the_estimate(setting):
    """The system gives memory in larger pieces than tensors are, and convolutions take some to work in: a factor of 1.5."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, setting], cwd=root, capture_output=True, text=True, timeout=300, check=True
    )
    grown, estimate = map(float, done.stdout.split())
    assert estimate / 1.5 < grown < 1.5 * estimate, (grown, estimate)
