"""DeepSCM: abduction and counterfactuals, and training in Lightning, for a few batches on noise."""

import os
import subprocess
import sys
from pathlib import Path

import pyro
import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader

from cfgen import fit
from cfgen.attributes import Schema
from cfgen.batch import Batch
from cfgen.counterfactual import ImageMechanism, counterfactuals
from cfgen.errors import UserError
from cfgen.figures import interpolations
from lightning_modules.deep_scm import DeepSCM
from tests.quiet_trainer import quiet_trainer

SCM = {
    "attributes": {
        "thickness": {"kind": "continuous", "low": 0.0, "high": 4.0},
        "label": {"kind": "categorical", "values": [0, 1, 2]},
    },
    "edges": [],
}


class Digits(pl.LightningDataModule):
    """Twelve images of grey levels with attributes, in batches of four."""

    def __init__(self, shape: tuple[int, int, int] = (1, 28, 28)) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.schema = Schema(SCM["attributes"])
        self.x = torch.randint(256, (12, *shape), generator=generator) / 255
        self.train_columns = {
            "thickness": torch.rand(12, generator=generator) * 4,
            "label": torch.randint(3, (12,), generator=generator),
        }
        self.a = self.schema.encode(self.train_columns)

    def rows(self) -> list[Batch]:
        return [Batch(x, a, torch.tensor(0)) for x, a in zip(self.x, self.a, strict=True)]

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.rows(), batch_size=4, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.rows(), batch_size=4)


def model(seed: int = 0, shape: tuple[int, int, int] = (1, 28, 28), **options) -> DeepSCM:
    pl.seed_everything(seed, verbose=False)
    return DeepSCM(SCM, shape, **{"width": 0.1, "latent_dim": 8, "lr": 1e-3, "particles": 5} | options)


def fitted(tmp_path, seed: int = 0, steps: int = 3, model_options=None, **options) -> tuple[DeepSCM, pl.Trainer]:
    module = model(seed, **(model_options or {}))
    run = quiet_trainer(tmp_path, max_steps=steps, limit_val_batches=0, **options)
    run.fit(module, datamodule=Digits(module.image_shape))
    return module, run


def weights(module: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 64, 64)])
def test_a_null_intervention_returns_the_original_image(tmp_path, shape):
    module, _ = fitted(tmp_path, model_options={"shape": shape})
    data = Digits(shape)
    module.eval()
    assert isinstance(module, ImageMechanism)
    with torch.inference_mode():
        z = module.abduct(data.x, data.a)
        same, other = module.decode(z, data.a), module.decode(z, data.a.flip(0))
    assert (same - data.x).abs().max() < 1e-4
    assert (other - data.x).abs().max() > 1e-3  # the attributes are not ignored
    assert other.min() >= 0
    assert other.max() <= 1


def test_abduction_is_the_same_for_the_same_image_whatever_its_batch(tmp_path, monkeypatch):
    module, _ = fitted(tmp_path)
    data = Digits()
    module.eval()
    monkeypatch.setattr("lightning_modules.deep_scm.DECODED_AT_ONCE", 15)  # three images at a time
    runs = [
        torch.cat([part.x_c for part in counterfactuals(module, module.scm, data.x, data.a, {"label": 1}, None, size)])
        for size in (5, 12)
    ]
    torch.testing.assert_close(runs[0], runs[1], rtol=0, atol=1e-5)
    state = module.abduct(data.x, data.a)
    torch.manual_seed(99)
    again = module.abduct(data.x, data.a)
    assert all(torch.equal(one, other) for one, other in zip(state, again, strict=True))
    other_seed = DeepSCM(SCM, (1, 28, 28), width=0.1, latent_dim=8, particles=5, seed=1)
    assert not torch.equal(other_seed.eps_z, module.eps_z)
    assert module.decode(module.abduct(data.x[:0], data.a[:0]), data.a[:0]).shape == (0, 1, 28, 28)


def test_particles_are_draws_of_the_posterior():
    module, data = model(particles=4000).eval(), Digits()
    loc, scale = module.posterior(module.flow.centred(data.x[:2]), data.a[:2])
    z, _ = module.abduct(data.x[:2], data.a[:2])
    torch.testing.assert_close(z.mean(dim=1), loc, rtol=0, atol=0.1)
    torch.testing.assert_close(z.std(dim=1), scale, rtol=0.1, atol=0)


def test_states_can_be_mixed(tmp_path):
    module, data = fitted(tmp_path)[0].eval(), Digits()
    assert interpolations(module, data.x, data.a, pairs=2, steps=3) is not None


def test_every_parameter_reaches_the_optimiser_and_none_pyros_global_store(tmp_path):
    pyro.clear_param_store()
    module, start = model(), model()
    run = quiet_trainer(tmp_path, max_epochs=1)
    run.fit(module, datamodule=Digits())
    assert len(pyro.get_param_store()) == 0
    optimised = {id(p) for group in run.optimizers[0].param_groups for p in group["params"]}
    trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
    assert {id(p) for p in trainable.values()} == optimised
    before = dict(start.named_parameters())
    assert all(not torch.equal(p, before[name]) for name, p in trainable.items())
    assert run.global_step == 3
    logged = run.callback_metrics
    assert {"train/elbo", "val/elbo", "val/mse_x_mean"} <= logged.keys()
    assert 0 < logged["val/mse_x_mean"] < 1


def test_training_raises_the_elbo(tmp_path):
    module, data = model(), Digits()
    start = module.elbo(data.x, data.a).item()
    module, _ = fitted(tmp_path, steps=60)
    module.train()
    assert module.elbo(data.x, data.a).item() > start + 1000


def test_same_seed_same_weights(tmp_path):
    first, second, other = (fitted(tmp_path, seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(other))


def test_checkpoint_loads_safely_and_computes_the_same(tmp_path):
    module, run = fitted(tmp_path)
    run.save_checkpoint(tmp_path / "m.ckpt")
    torch.load(tmp_path / "m.ckpt", weights_only=True)
    loaded = DeepSCM.load_from_checkpoint(tmp_path / "m.ckpt", weights_only=True).eval()
    module.eval()
    data = Digits()
    z = module.abduct(data.x, data.a)
    for ours, theirs in zip(z, loaded.abduct(data.x, data.a), strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(loaded.decode(z, data.a.flip(0)), module.decode(z, data.a.flip(0)))
    assert loaded.scm.fitted


def test_mixed_precision_and_the_trainers_flags(tmp_path):
    options = {"precision": "bf16-mixed", "gradient_clip_val": 1.0, "accumulate_grad_batches": 2}
    module, _ = fitted(tmp_path, steps=2, **options)
    assert weights(module).isfinite().all()
    assert weights(module).dtype == torch.float32


def test_learning_rate_ends_at_zero(tmp_path):
    _, run = fitted(tmp_path, steps=4, model_options={"lr_decay": True})
    assert run.optimizers[0].param_groups[0]["lr"] == pytest.approx(0)
    with pytest.raises(UserError, match="max_steps"):
        fitted(tmp_path, steps=-1, model_options={"lr_decay": True}, max_epochs=-1)


def test_misuse_is_refused_with_the_valid_choices():
    with pytest.raises(UserError, match=r"28x28.*64x64"):
        DeepSCM(SCM, (3, 32, 32))
    with pytest.raises(UserError, match="logit, unit"):
        model(preprocessing="logits")
    with pytest.raises(UserError, match="particles"):
        model(particles=0)
    with pytest.raises(UserError, match="elbo_particles"):
        model(elbo_particles=0)


SAME_ON_EVERY_RANK = '''
import pytorch_lightning as pl
import torch

class SameOnEveryRank(pl.Callback):
    """Fails the run unless both processes hold the same weights and drew different noise."""

    def on_train_end(self, trainer, module):
        everyones = module.all_gather(torch.cat([p.detach().flatten() for p in module.parameters()]))
        assert len(everyones) == 2 and torch.equal(everyones[0], everyones[1])
        draws = module.all_gather(torch.rand(1))
        assert draws[0] != draws[1]
        if trainer.is_global_zero:
            print("replicas equal after", trainer.global_step, "steps", flush=True)
'''


@pytest.mark.slow
def test_two_processes_stay_identical(tmp_path, tiny):
    """As a user does it: the shipped config on two devices."""
    (tmp_path / "same.py").write_text(SAME_ON_EVERY_RANK)
    root = Path(fit.__file__).parents[1]
    options = ["--data.source", "embedded", "--trainer.max_epochs", "1", "--trainer.limit_val_batches", "0"]
    options += ["--trainer.accelerator", "cpu", "--trainer.devices", "2", "--trainer.callbacks", "same.SameOnEveryRank"]
    environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{tmp_path}", "WANDB_MODE": "disabled"}
    run = subprocess.run(
        [sys.executable, "-m", "cfgen.fit", "--config", "morphomnist_deepscm_cpu", *tiny, *options],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert "replicas equal after 2 steps" in run.stdout
