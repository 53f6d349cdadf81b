"""CondALI and its two optimisers, trained for a few batches on noise."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader

from callbacks import EpochSeed
from cfgen import losses
from cfgen.batch import Batch
from cfgen.errors import UserError
from lightning_modules.cond_ali import CondALI
from tests.fakes import DIGITS, Noisy, SameOnEveryRank
from tests.processes import Pool
from tests.quiet_trainer import quiet_trainer

SCM = {"attributes": DIGITS, "edges": []}
PAPER = {"r1_gamma": 0.0, "reconstruction": 0.0, "counterfactual": 0.0, "ema_decay": 0.0}


def model(seed: int = 0, **options) -> CondALI:
    pl.seed_everything(seed, verbose=False)
    return CondALI(SCM, (1, 28, 28), **{"width": 0.1, "latent_dim": 8, "lr": 1e-3} | options)


def fitted(tmp_path, seed: int = 0, steps: int = 3, model_options=None, **options) -> tuple[CondALI, pl.Trainer]:
    module = model(seed, **(model_options or {}))
    fit = quiet_trainer(tmp_path, max_steps=steps, limit_val_batches=0, **options)
    fit.fit(module, datamodule=Noisy())
    return module, fit


def weights(module: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.parametrize("options", [{}, PAPER, {"modulated": True}], ids=["recipe", "paper", "modulated"])
def test_every_network_learns_and_validation_measures_reconstruction(tmp_path, options):
    module, start = model(**options), model(**options)
    fit = quiet_trainer(tmp_path, max_epochs=1)
    fit.fit(module, datamodule=Noisy())
    for name in ("G", "E", "D"):
        assert not torch.equal(weights(getattr(module, name)), weights(getattr(start, name))), name
    logged = fit.callback_metrics
    assert logged["val/mse_x"] > 0
    assert {"train/loss_d", "train/loss_eg"} <= logged.keys()


def test_a_turn_reaches_only_its_player(tmp_path):
    """Gradients of D's step never reach G or E, and the other way round, though all three are in both losses."""
    seen: dict[int, set[str]] = {}

    class Watch(pl.Callback):
        def on_before_optimizer_step(self, trainer, module, optimizer):
            player = trainer.optimizers.index(optimizer)
            networks = {"G": module.G, "E": module.E, "D": module.D, "P": module.P}
            moved = {n for n, network in networks.items() if any(p.grad is not None for p in network.parameters())}
            seen.setdefault(player, set()).update(moved)
            module.zero_grad()  # sets .grad to None: what is there next time was put there by that turn
            assert all(
                p.requires_grad == (name in ("DP", "EG")[player])
                for name, network in networks.items()
                for p in network.parameters()
            )

    module, _ = fitted(tmp_path, callbacks=[Watch()])
    assert seen == {0: {"D", "P"}, 1: {"E", "G"}}
    trainable = [p for n, p in module.named_parameters() if not n.startswith("averages")]
    assert all(p.requires_grad for p in trainable)


@pytest.mark.filterwarnings("ignore:.*manual optimization and every_n_train_steps")  # weights after a step are meant
@pytest.mark.filterwarnings("ignore:.*callbacks used to create the checkpoint need to be provided")
@pytest.mark.filterwarnings("ignore:.*ended before the epoch ended")  # which batches come then does not matter here
def test_global_step_counts_batches_also_after_resume(tmp_path):
    checkpoints = ModelCheckpoint(tmp_path, filename="{step}", every_n_train_steps=2, save_top_k=-1)
    module, fit = fitted(tmp_path, steps=4, enable_checkpointing=True, callbacks=[checkpoints])
    assert fit.global_step == 4
    assert fit.fit_loop.epoch_loop.total_batch_idx + 1 == 4
    assert {p.name for p in tmp_path.glob("*.ckpt")} == {"step=2.ckpt", "step=4.ckpt"}

    resumed = quiet_trainer(tmp_path, max_steps=9, limit_val_batches=0)
    module = model()
    resumed.fit(module, datamodule=Noisy(), ckpt_path=tmp_path / "step=4.ckpt", weights_only=True)
    assert resumed.global_step == 9
    assert module.averages["G"].n_averaged == 9


def test_one_epoch_is_as_many_steps_as_batches(tmp_path):
    fit = quiet_trainer(tmp_path, max_epochs=2, limit_val_batches=0)
    fit.fit(model(), datamodule=Noisy())
    assert fit.global_step == 6


def test_same_seed_same_weights(tmp_path):
    first, second, other = (fitted(tmp_path, seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(other))


@pytest.mark.parametrize("modulated", [False, True])
def test_checkpoint_loads_safely_and_computes_the_same(tmp_path, modulated):
    module, fit = fitted(tmp_path, model_options={"modulated": modulated})
    fit.save_checkpoint(tmp_path / "m.ckpt")
    torch.load(tmp_path / "m.ckpt", weights_only=True)
    loaded = CondALI.load_from_checkpoint(tmp_path / "m.ckpt", weights_only=True).eval()
    module.eval()
    data = Noisy()
    z = module.abduct(data.x, data.a)
    torch.testing.assert_close(loaded.abduct(data.x, data.a), z)
    torch.testing.assert_close(loaded.decode(z, data.a), module.decode(z, data.a))
    assert loaded.scm.fitted


def test_evaluation_uses_the_average_and_training_does_not(tmp_path):
    module, _ = fitted(tmp_path)
    data = Noisy()
    z = torch.randn(12, 8)
    module.eval()
    torch.testing.assert_close(module.decode(z, data.a), module.averages["G"].module(z, data.a))
    assert not torch.allclose(module.decode(z, data.a), module.G(z, data.a))
    module.train()
    assert module.averaged("G") is module.G


def test_no_average_without_decay(tmp_path):
    module = model(**PAPER).eval()
    assert len(module.averages) == 0
    assert module.averaged("G") is module.G


def test_learning_rate_ends_at_zero(tmp_path):
    _, fit = fitted(tmp_path, steps=4, model_options={"lr_decay": True})
    rates = [group["lr"] for o in fit.optimizers for group in o.param_groups]
    assert rates == pytest.approx([0] * 4)  # a group for each network
    with pytest.raises(UserError, match="max_steps"):
        fitted(tmp_path, steps=-1, model_options={"lr_decay": True}, max_epochs=-1)


def test_shuffled_attributes_keep_each_column(tmp_path):
    """Every attribute keeps its values (a one-hot stays one-hot); only who has which changes."""
    a, shuffled = Noisy().a, model().shuffled(Noisy().a)
    torch.testing.assert_close(shuffled[:, 0].sort().values, a[:, 0].sort().values)
    torch.testing.assert_close(shuffled[:, 1:].sum(dim=0), a[:, 1:].sum(dim=0))
    assert (shuffled[:, 1:].sum(dim=1) == 1).all()


def test_one_forward_of_d_gives_the_gradients_of_two(tmp_path):
    """Without batch norm in D, real and fake in one batch is the same function."""
    module, data = model(), Noisy()
    x, a, z = data.x, data.a, torch.randn(12, 8)
    x_z, z_x = module.G(z, a).detach(), module.E(x, a).detach()
    joint = torch.cat(module.scores((x, z_x, a), (x_z, z, a), (x_z, z_x, a)))
    apart = torch.cat([module.D(x, z_x, a), module.D(x_z, z, a), module.D(x_z, z_x, a)])
    torch.testing.assert_close(joint, apart)
    gradients = [torch.autograd.grad(s.square().sum(), list(module.D.parameters())) for s in (joint, apart)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("term", ["reconstruction", "reconstruction_l1"])
def test_either_error_of_reconstruction_is_lowered_where_it_is_asked_for(tmp_path, term):
    data, errors = Noisy(), []
    for weight in (0.0, 1000.0):
        options = {"reconstruction": 0.0, "counterfactual": 0.0, "ema_decay": 0.0, "lr": 2e-3} | {term: weight}
        module, _ = fitted(tmp_path, steps=30, model_options=options)
        with torch.no_grad():  # in training mode: batch norm's own statistics need more steps than these
            errors.append((module.train().G(module.E(data.x, data.a), data.a) - data.x).abs().mean())
    assert errors[1] < errors[0]  # without the term they would be equal to the bit


def test_steps_are_those_of_the_plain_formulation(tmp_path):
    """E and G anew at each turn, D once for real and once for fake: the same weights after three batches."""
    options = {"reconstruction": 0.0, "counterfactual": 0.0, "ema_decay": 0.0}
    module, reference, data = model(**options).double(), model(**options).double(), Noisy()
    x, a, draws = data.x.double(), data.a.double(), torch.randn(3, 12, 8, dtype=torch.double)
    turns = iter(draws)
    module.gaussian = lambda *_: next(turns)
    batches = DataLoader([Batch(x, a, a)] * 3, batch_size=None)
    quiet_trainer(tmp_path, max_steps=3, precision="64-true", limit_val_batches=0).fit(module, batches, batches)

    D, G, E = reference.D, reference.G, reference.E
    opt_d = torch.optim.Adam(D.parameters(), reference.lr, reference.betas)
    opt_eg = torch.optim.Adam([*E.parameters(), *G.parameters()], reference.lr, reference.betas)
    for step, z in enumerate(draws):
        loss_d = losses.ali_d(D(x, E(x, a).detach(), a), D(G(z, a).detach(), z, a))
        if step % 4 == 0:
            loss_d = loss_d + 4 * reference.penalty(x, E(x, a), a)
        reference.zero_grad()
        loss_d.backward()
        opt_d.step()
        loss_eg = losses.ali_eg(D(x, E(x, a), a), D(G(z, a), z, a))
        reference.zero_grad()
        loss_eg.backward()
        opt_eg.step()
    for name in ("G", "E", "D"):
        torch.testing.assert_close(weights(getattr(module, name)), weights(getattr(reference, name)))


def test_mixed_precision(tmp_path):
    module, _ = fitted(tmp_path, precision="bf16-mixed", steps=5)
    assert weights(module).isfinite().all()
    assert module.G.layers[0].weight.dtype == torch.float32


@pytest.mark.parametrize("flag", [{"gradient_clip_val": 1.0}, {"accumulate_grad_batches": 2}])
def test_trainer_flags_of_one_optimiser_are_refused_by_name(tmp_path, flag):
    with pytest.raises(Exception, match=f"not supported for manual optimization.*{next(iter(flag))}"):
        fitted(tmp_path, **flag)


def test_compiling_the_whole_module_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"model.G.compile\(\)"):
        quiet_trainer(tmp_path, max_steps=1).fit(torch.compile(model()), datamodule=Noisy())


def test_an_average_that_never_moves_is_refused():
    with pytest.raises(UserError, match="ema_decay"):
        model(ema_decay=1.5)


def train_a_little(folder: str) -> int:
    """In each of two processes."""
    strategy = "ddp_find_unused_parameters_true"
    _, fit = fitted(Path(folder), steps=2, devices=2, strategy=strategy, callbacks=[EpochSeed(0), SameOnEveryRank()])
    return fit.global_step


@pytest.mark.xdist_group("two_processes")
def test_two_processes_stay_identical(tmp_path, two_processes: Pool):
    assert two_processes.run(train_a_little, str(tmp_path)) == [2, 2]
