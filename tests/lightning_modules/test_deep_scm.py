"""DeepSCM: abduction and counterfactuals, and training in Lightning, for a few batches on noise."""

import os

import pyro
import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from cfgen.contracts import ImageMechanism
from cfgen.counterfactual import asked_of, sweep
from cfgen.errors import UserError
from cfgen.figures import interpolations
from lightning_modules.deep_scm import DeepSCM
from tests.fakes import DIGITS, Noisy
from tests.processes import Pool
from tests.quiet_trainer import quiet_trainer

SCM = {"attributes": DIGITS, "edges": []}


def model(seed: int = 0, shape: tuple[int, int, int] = (1, 28, 28), **options) -> DeepSCM:
    pl.seed_everything(seed, verbose=False)
    return DeepSCM(SCM, shape, **{"width": 0.1, "latent_dim": 8, "lr": 1e-3, "particles": 5} | options)


def fitted(tmp_path, seed: int = 0, steps: int = 3, model_options=None, **options) -> tuple[DeepSCM, pl.Trainer]:
    module = model(seed, **(model_options or {}))
    run = quiet_trainer(tmp_path, max_steps=steps, limit_val_batches=0, **options)
    run.fit(module, datamodule=Noisy(module.image_shape))
    return module, run


def weights(module: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 64, 64)])
def test_a_null_intervention_returns_the_original_image(tmp_path, shape):
    module, _ = fitted(tmp_path, model_options={"shape": shape})
    data = Noisy(shape)
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
    data = Noisy()
    data.setup()
    module.eval()
    monkeypatch.setattr("lightning_modules.deep_scm.DECODED_AT_ONCE", 15)  # three images at a time
    asked = {"do": asked_of(module, data.columns("val"), {"label": 1})}
    runs = [
        torch.cat([b.x_c("do") for b in sweep(module, data.x, data.columns("val"), asked, batch_size=size)])
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
    module, data = model(particles=4000).eval(), Noisy()
    loc, scale = module.posterior(module.flow.centred(data.x[:2]), data.a[:2])
    z, _ = module.abduct(data.x[:2], data.a[:2])
    torch.testing.assert_close(z.mean(dim=1), loc, rtol=0, atol=0.1)
    torch.testing.assert_close(z.std(dim=1), scale, rtol=0.1, atol=0)


def test_states_can_be_mixed(tmp_path):
    module, data = fitted(tmp_path)[0].eval(), Noisy()
    data.setup()
    (batch,) = sweep(module, data.x, data.columns("val"))
    drawn = interpolations(batch, pairs=2, steps=3)
    assert len(drawn.axes[0].images) == 2 * (3 + 2)


def test_every_parameter_reaches_the_optimiser_and_none_pyros_global_store(tmp_path):
    pyro.clear_param_store()
    module, start = model(), model()
    run = quiet_trainer(tmp_path, max_epochs=1)
    run.fit(module, datamodule=Noisy())
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
    module, data = model(), Noisy()
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
    data = Noisy()
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
    with pytest.raises(UserError, match="logit, unit"):
        model(preprocessing="logits")
    with pytest.raises(UserError, match="particles"):
        model(particles=0)
    with pytest.raises(UserError, match="elbo_particles"):
        model(elbo_particles=0)


def train_the_shipped_config(tiny: list[str], folder: str) -> int:
    """As a user does it on two devices; in each of two processes."""
    from cfgen.commands import fit

    os.environ["WANDB_MODE"] = "disabled"
    options = ["--data.source", "embedded", "--trainer.max_epochs", "1", "--trainer.limit_val_batches", "0"]
    options += ["--trainer.accelerator", "cpu", "--trainer.devices", "2", "--runs_dir", folder]
    options += ["--trainer.callbacks", "tests.fakes.SameOnEveryRank"]
    return fit.main(["--config", "morphomnist_deepscm_cpu", *tiny, *options])


@pytest.mark.xdist_group("two_processes")
def test_two_processes_stay_identical(tmp_path, tiny, two_processes: Pool):
    assert two_processes.run(train_the_shipped_config, tiny, str(tmp_path)) == [0, 0]
