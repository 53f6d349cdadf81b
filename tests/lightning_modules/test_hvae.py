"""HVAE: its ELBO against a hierarchy that is known by heart, the noise of its pixels, its readers, and its training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

from callbacks import EpochSeed
from cfgen.errors import UserError
from cfgen.networks.asked import asked_attributes
from cfgen.networks.hierarchy import Drawn, Gaussian
from cfgen.networks.pixel_noise import moves, stays, visible
from lightning_modules import HVAE
from tests.fakes import DIGITS, Noisy, SameOnEveryRank
from tests.processes import Pool
from tests.quiet_trainer import quiet_trainer

SCM = {"attributes": DIGITS, "edges": []}
SHAPE = (1, 28, 28)


def model(seed: int = 0, **options: Any) -> HVAE:
    pl.seed_everything(seed, verbose=False)
    return HVAE(SCM, SHAPE, **{"width": 0.25, "latent_dim": 8, "warmup": 2} | options)


def batch(count: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    labels = torch.nn.functional.one_hot(torch.arange(count) % 3, 3).float()
    return torch.rand(count, *SHAPE, generator=generator), torch.cat([torch.linspace(0, 1, count)[:, None], labels], 1)


class LinearGaussian(nn.Module):
    """x = 1/2 + w_1 z_1 + w_2 z_2 + sigma e, hardly ever outside of [0, 1], with one z on each of two levels.

    q(z_1 | x) q(z_2 | x, z_1) is the true posterior.
    """

    shapes = {"global": (1,), "7x7": (1, 1, 1)}  # noqa: RUF012  # as a network's

    def __init__(self, sigma: float) -> None:
        super().__init__()
        self.w, self.sigma = 0.05 * torch.randn(2, 4, dtype=torch.float64), sigma

    def infer(self, x: Tensor, a: Tensor, eps: Any) -> Any:
        y, (w_1, w_2), variance = x.flatten(1) - 0.5, self.w, self.sigma**2
        inverse = torch.linalg.inv(torch.outer(w_2, w_2) + variance * torch.eye(4))  # z_2 integrated out
        first = posterior(w_1 @ inverse @ w_1, y @ inverse @ w_1)
        z_1 = first.sample(eps["global"])
        second = posterior(w_2 @ w_2 / variance, (y - z_1 * w_1) @ w_2 / variance)
        z_2 = second.sample(eps["7x7"].flatten(1))
        mean = (0.5 + z_1 * w_1 + z_2 * w_2).view_as(x)
        drawn = Drawn(mean, torch.full_like(mean, math.log(self.sigma)))
        return drawn, {"global": z_1, "7x7": z_2}, {"global": first, "7x7": second}

    def log_evidence(self, x: Tensor) -> Tensor:
        covariance = self.w.T @ self.w + self.sigma**2 * torch.eye(4)
        return MultivariateNormal(torch.zeros(4, dtype=torch.float64), covariance).log_prob(x.flatten(1) - 0.5)


def posterior(precision: Tensor, weighted: Tensor) -> Gaussian:
    """N(0, 1) after an observation of this precision."""
    variance = 1 / (1 + precision)
    return Gaussian((variance * weighted)[:, None], (0.5 * variance.log()).expand(len(weighted), 1))


def test_with_the_true_posterior_the_elbo_is_the_log_evidence():
    """For every x; each draw scatters about it, as the reconstruction term does."""
    module = model(ema_decay=0.0).double()
    toy = LinearGaussian(sigma=0.05)
    module.net = toy  # type: ignore[assignment]
    x = 0.5 + 0.1 * torch.randn(3, 1, 2, 2, dtype=torch.float64)
    draws = module.elbo(x.repeat(4000, 1, 1, 1), torch.zeros(12000, 4)).unflatten(0, (4000, 3))
    error = draws.std(dim=0) / len(draws) ** 0.5
    assert (error < 0.05).all()
    assert ((draws.mean(dim=0) - toy.log_evidence(x)).abs() < 5 * error).all()


def test_the_pixel_noise_is_abducted_and_scaled_by_the_counterfactual():
    """x = mu(z, a) + sigma(z, a) u, and under other attributes mu(z, a_c) + the smaller of both sigma times u."""
    module, (x, a) = model().eval(), batch()
    nn.init.normal_(module.hierarchy.noise.weight, std=0.1)
    state = module.abduct(x, a)
    drawn = visible(module.hierarchy.draw(state.z, a))
    torch.testing.assert_close(drawn.mean + drawn.log_scale.exp() * state.u, x)
    other = visible(module.hierarchy.draw(state.z, a.flip(0)))
    scale = torch.minimum(other.log_scale.exp(), drawn.log_scale.exp())
    expected = (other.mean + scale * state.u).clamp(0, 1)
    torch.testing.assert_close(module.decode(state, a.flip(0)), expected)
    assert (other.log_scale - drawn.log_scale).abs().max() > 1e-3  # or the scales would be none


def test_a_threshold_keeps_pixels_that_hardly_move():
    """The gate is 1/2 where a change is `threshold` times sigma, and between the image and its counterfactual."""
    module, (x, a) = model(threshold=2.0).eval(), batch()
    state = module.abduct(x, a)
    scale = state.log_scale.exp()
    for times, expected in ((0.0, 0.018), (2.0, 0.5), (20.0, 1.0)):
        moved = state.mean + times * scale
        gate = moves(state, Drawn(moved, state.log_scale), module.threshold)
        assert gate.shape == (5, 1, 28, 28)
        torch.testing.assert_close(gate, torch.full_like(gate, expected), atol=1e-3, rtol=0)
    free, kept = module.abduct(x, a), module.decode(state, a.flip(0))
    module.threshold = 0.0
    moved = module.decode(free, a.flip(0))
    assert ((kept - x).abs() <= (moved - x).abs() + 1e-5).all()
    module.threshold = 1e6  # nothing is believed
    torch.testing.assert_close(module.decode(state, a.flip(0)), x, atol=1e-1, rtol=0)


def test_noise_fades_where_the_mean_moves():
    """All of it stays where nothing moves, 1/e where the mean moves by `fade` sigma, none where it moves by many."""
    module, (x, a) = model(fade=1.5).eval(), batch()
    state = module.abduct(x, a)
    for times, expected in ((0.0, 1.0), (1.5, math.exp(-1)), (20.0, 0.0)):
        share = stays(state, Drawn(state.mean + times * state.log_scale.exp(), state.log_scale), module.fade)
        torch.testing.assert_close(share, torch.full_like(share, expected), atol=1e-4, rtol=0)
    torch.testing.assert_close(module.decode(state, a), x, atol=1e-4, rtol=0)
    module.fade = 1e-6  # the mean alone, wherever it moves
    torch.testing.assert_close(module.decode(state, a.flip(0))[0], module.own_reconstruction(state, a.flip(0))[0])


def test_the_noise_does_not_move_the_mean():
    module, (x, a) = model(independence=0.0, counterfactual=0.0), batch()
    drawn, _, _ = module.net.infer(x, a)
    drawn.log_scale.sum().backward()
    assert {name for name, p in module.net.named_parameters() if p.grad is not None} == {"noise.weight", "noise.bias"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"latents": {"7x7": 2}, "adversary": 0.1, "joint": 0.5, "sampled": True},
        {"independence": 0.0, "counterfactual": 0.0},
        {"ema_decay": 0.0},
    ],
    ids=["as it comes", "all it can do", "the ELBO alone", "no average"],
)
def test_every_network_learns_and_validation_measures(tmp_path, options):
    module, start = model(**options), model(**options)
    trainer = quiet_trainer(tmp_path, max_epochs=1)
    trainer.fit(module, datamodule=Noisy())
    names = [name for name in ("net", "R", "P", "C") if getattr(module, name) is not None]
    for name in names:
        before, after = (torch.cat([p.flatten() for p in getattr(m, name).parameters()]) for m in (start, module))
        assert not torch.equal(before, after), name
    assert {"val/elbo", "val/mse_x", "train/mse_x", "train/kl"} <= trainer.callback_metrics.keys()
    assert trainer.global_step == 3  # one for every batch, however many players take turns


def test_attributes_are_centred_and_counted_on_the_training_split(tmp_path):
    module, data = model(), Noisy()
    quiet_trainer(tmp_path, max_steps=1, limit_val_batches=0).fit(module, datamodule=data)
    a = module.scm.schema.encode(data.train_columns)
    torch.testing.assert_close(module.hierarchy.centre, a.mean(dim=0))
    torch.testing.assert_close(module.eval().hierarchy.centre, a.mean(dim=0))
    assert module.classes is not None
    torch.testing.assert_close(module.classes.frequencies[-3:], a[:, 1:].mean(dim=0))


def test_interventions_change_one_attribute_or_take_those_of_another_image():
    schema, a = model().scm.schema, batch(600)[1]
    a_c, whole = asked_attributes(a, schema, joint=0.0)
    assert not len(whole)
    changed = torch.stack([(a != a_c)[:, part].any(dim=1) for part in schema.slices.values()])
    assert (changed.sum(dim=0) <= 1).all()
    assert changed.any(dim=1).all()
    assert torch.equal(a_c[:, 1:].sum(dim=1), torch.ones(600))
    a_c, whole = asked_attributes(a, schema, joint=0.25)
    assert len(whole) == 150
    rows = {tuple(row) for row in a.tolist()}
    assert all(tuple(row) in rows for row in a_c[whole].tolist())  # in combinations that images have
    assert len(asked_attributes(a[:2], schema, joint=0.25)[1]) == 1  # something for a critic to see


def test_a_critic_without_anything_to_see_is_refused():
    with pytest.raises(UserError) as refused:
        model(adversary=0.1)
    assert refused.value.argument == "joint"


def train_a_little(folder: str, shape: tuple[int, int, int]) -> int:
    trainer = quiet_trainer(
        Path(folder),
        max_steps=2,
        limit_val_batches=0,
        devices=2,
        strategy="ddp_find_unused_parameters_true",
        callbacks=[EpochSeed(0), SameOnEveryRank()],
    )
    data = Noisy(shape)
    trainer.fit(HVAE(data.scm_spec, shape, width=0.25, latent_dim=8, warmup=2), datamodule=data)
    return trainer.global_step


@pytest.mark.xdist_group("two_processes")
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_two_processes_stay_identical(shape, tmp_path, two_processes: Pool):
    assert two_processes.run(train_a_little, str(tmp_path), shape) == [2, 2]


def test_states_on_grids_stay_closed_until_it_is_their_turn(tmp_path):
    module = model(latents={"7x7": 2}, closed=4)
    data = Noisy()
    quiet_trainer(tmp_path, max_steps=2, limit_val_batches=0).fit(module, datamodule=data)
    assert not module.eval().abduct(data.x, data.a).z["7x7"].any()
    quiet_trainer(tmp_path, max_epochs=3, limit_val_batches=0).fit(module.train(), datamodule=data)
    assert module.eval().abduct(data.x, data.a).z["7x7"].any()
    assert module.hierarchy.opened == 1


def test_sizes_and_latents_that_do_not_fit_are_refused():
    with pytest.raises(UserError, match="8x8.*14x14, 7x7"):
        model(latents={"8x8": 4})
    with pytest.raises(UserError, match="square images of 16 to 256"):
        HVAE(SCM, (3, 28, 32))
    with pytest.raises(UserError, match="above 0"):
        model(deviation=0.0)


def test_focus_hears_the_attributes_that_were_asked_for():
    """With focus, an image's error in what was changed counts beside the mean of all; what was left alone adds nothing to it."""
    module = model(focus=3.0)
    x, a = batch(4)
    a_c = a.clone()
    a_c[0, 0] += (
        0.5  # the first image is asked for another thickness, the second for another label, the others for nothing
    )
    a_c[1, 1:] = a[1, 1:].roll(1)
    errors = torch.tensor([[1.0, 10.0], [100.0, 1000.0], [5.0, 5.0], [7.0, 7.0]])
    module.read_errors = lambda x, a: errors  # type: ignore[method-assign]
    assert module.asked_error(x, a_c, a) == errors.mean() + 3 * (1 + 1000) / 4
    module.focus = 0.0
    assert module.asked_error(x, a_c, a) == errors.mean()


def test_a_critic_sees_images_of_the_prior_where_asked():
    x, a = batch(4)
    plain, sampled = (model(adversary=0.1, joint=0.5, sampled=sampled) for sampled in (False, True))
    x_c, a_c = plain.fakes(x[:2], a[2:], a[:2])
    assert torch.equal(x_c, x[:2])
    assert torch.equal(a_c, a[2:])
    torch.manual_seed(3)
    seen, of = sampled.fakes(x[:2], a[2:], a[:2])
    torch.manual_seed(3)
    drawn = visible(sampled.net.draw(sampled.eps(2), a[:2])).mean
    assert torch.allclose(seen, torch.cat([x[:2], drawn]), atol=1e-6)
    assert torch.equal(of, torch.cat([a[2:], a[:2]]))
    assert seen.requires_grad
    with pytest.raises(UserError) as refused:
        model(sampled=True)
    assert refused.value.argument == "adversary"


def test_a_robust_reader_learns_from_images_that_were_moved_against_it(monkeypatch):
    """One step differs from that of a reader that sees the images as they are, and moves the readers alone."""
    seen: list[Tensor] = []
    x, a = batch(4)
    for robustness in (0.0, 0.05):
        module = model(robustness=robustness)
        monkeypatch.setattr(module, "read_errors", lambda x, a: seen.append(x) or x.flatten(1)[:, :2])
        loss_arguments = (x, a, x, None, torch.arange(1), {"global": torch.zeros(4, 8)}, 0, {})
        module.readers_loss(*loss_arguments)
    plain, moved_from, moved = seen
    assert torch.equal(plain, x)
    assert torch.equal(moved_from, x)
    assert 0 < (moved - x).square().flatten(1).mean(dim=1).sqrt().max() <= 0.05 + 1e-6
