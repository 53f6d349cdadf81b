"""StyleALI and the CyclicEncoder on a few digits: shared noise, a frozen G, checkpoints that are whole."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from cfgen.batch import Batch
from cfgen.errors import UnfitRun, UserError
from cfgen.runs.model import TrainedModel, load_mechanism
from datamodules import MorphoMNIST
from lightning_modules import CondALI, CyclicEncoder, ImageMechanismModule, StyleALI
from tests.quiet_trainer import quiet_trainer


@pytest.fixture(scope="module")
def data(digits_cache) -> MorphoMNIST:
    found = MorphoMNIST(limit=300, batch_size=50, cache_dir=str(digits_cache))
    found.prepare_data()
    found.setup()
    return found


def trained(module: ImageMechanismModule, data: MorphoMNIST, folder: Path, epochs: int = 1) -> Path:
    """Fits a module and returns its checkpoint."""
    trainer = quiet_trainer(folder, max_epochs=epochs, limit_val_batches=0)
    trainer.fit(module, datamodule=data)
    trainer.save_checkpoint(folder / "last.ckpt")
    return folder / "last.ckpt"


@pytest.fixture(scope="module", params=[CondALI, StyleALI])
def ali(request, data, tmp_path_factory) -> Path:
    """A checkpoint of each kind of ALI after a few epochs."""
    pl.seed_everything(0, verbose=False)
    module = request.param(data.scm_spec, data.image_shape, width=0.05, latent_dim=8, lr=2e-3)
    epochs = {CondALI: 20, StyleALI: 10}[request.param]  # so few that the cyclic stage has something to improve
    return trained(module, data, tmp_path_factory.mktemp("ali"), epochs)


def rows(data: MorphoMNIST, count: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    x = data.images("val")[:count].float() / 255
    return x, data.schema.encode({name: column[:count] for name, column in data.columns("val").items()})


@pytest.mark.parametrize("option", [{"modulated": True}, {"generator": "plain"}])
def test_an_option_of_the_other_generator_is_refused(data, option):
    with pytest.raises(UserError) as refusal:
        StyleALI(data.scm_spec, data.image_shape, **option)
    assert refusal.value.argument == next(iter(option))


@torch.inference_mode()
def test_counterfactual_and_reconstruction_share_the_noise(data):
    pl.seed_everything(0, verbose=False)
    module = StyleALI(data.scm_spec, data.image_shape, width=0.05, latent_dim=8).eval()
    for network in (module.G, module.averages["G"].module):
        for layer in network.layers:
            layer.noise_strength.fill_(0.5)
    x, a = rows(data, 4)
    state = module.abduct(x, a)
    assert torch.equal(module.decode(state, a), module.decode(module.abduct(x, a), a))
    torch.testing.assert_close(module.decode(state, a)[:1], module.decode(module.abduct(x[:1], a[:1]), a[:1]))
    one, other = module.prior(a), module.prior(a)
    latent = module.latent(one)
    assert not torch.equal(module.decode(one, a), module.decode((latent, other[1]), a))  # noise is part of the state
    assert torch.equal(module.decode(one, a), module.decode((latent, one[1]), a))


@pytest.mark.parametrize(("weights", "falls"), [({"weight_x": 100.0}, "mse_x"), ({"weight_x": 0.0}, "mae_z")])
def test_the_cyclic_stage_keeps_g_and_improves_e(ali, data, tmp_path, weights, falls):
    pl.seed_everything(0, verbose=False)
    module = CyclicEncoder(data.scm_spec, data.image_shape, mechanism=str(ali), lr=1e-3, **weights)
    x, a = rows(data, 30)

    def errors() -> dict[str, float]:
        torch.manual_seed(1)
        with torch.inference_mode():
            return {name: value.item() for name, value in module.eval().ali.cycle_errors(x, a).items()}

    frozen = {name: value.clone() for name, value in module.ali.G.state_dict().items()}
    encoder = {name: value.clone() for name, value in module.ali.E.state_dict().items()}
    before = errors()
    checkpoint = trained(module, data, tmp_path, epochs=8)
    after = errors()
    assert all(torch.equal(value, frozen[name]) for name, value in module.ali.G.state_dict().items())
    assert any(not torch.equal(value, encoder[name]) for name, value in module.ali.E.state_dict().items())
    assert after[falls] < before[falls]
    # and the checkpoint is whole: it loads where the earlier run is gone, to the same images
    moved = tmp_path / "elsewhere.ckpt"
    checkpoint.rename(moved)
    loaded = load_mechanism(moved).eval()
    with torch.inference_mode():
        torch.testing.assert_close(loaded.decode(loaded.abduct(x, a), a), module.decode(module.abduct(x, a), a))
    assert loaded.scm.fitted
    assert not any(name.startswith("ali.D") or "averages" in name for name in loaded.state_dict())


def test_it_starts_from_the_averaged_networks(ali, data):
    """What is evaluated of the earlier run is what is fine-tuned."""
    earlier = load_mechanism(ali).eval()
    module = CyclicEncoder(data.scm_spec, data.image_shape, mechanism=str(ali)).eval()
    x, a = rows(data, 4)
    with torch.inference_mode():
        torch.testing.assert_close(module.decode(module.abduct(x, a), a), earlier.decode(earlier.abduct(x, a), a))


def test_norms_and_weights_are_the_papers_by_default(ali, data):
    module = CyclicEncoder(data.scm_spec, data.image_shape, mechanism=str(ali)).train()
    logged = {}
    module.log_dict = lambda values, **_: logged.update(values)
    x, a = rows(data, 10)
    torch.manual_seed(3)
    loss = module.training_step(Batch(x, a, torch.zeros(10)), 0)
    torch.manual_seed(3)
    errors = module.ali.cycle_errors(x, a)  # the same z
    torch.testing.assert_close(logged["train/loss_x"], errors["mse_x"].detach())
    torch.testing.assert_close(logged["train/loss_z"], errors["mae_z"].detach())
    torch.testing.assert_close(loss, errors["mse_x"] + errors["mae_z"])


def test_an_export_holds_a_cyclic_encoder(ali, data, tmp_path):
    module = CyclicEncoder(data.scm_spec, data.image_shape, mechanism=str(ali)).eval()
    folder = TrainedModel(module).save(tmp_path / "export")
    loaded = load_mechanism(folder).eval()
    x, a = rows(data, 2)
    with torch.inference_mode():
        torch.testing.assert_close(loaded.decode(loaded.abduct(x, a), a), module.decode(module.abduct(x, a), a))


@pytest.mark.parametrize(
    ("shape", "attributes", "says"),
    [
        ((3, 28, 28), None, "makes images of 1x28x28 .* the data has 3x28x28"),
        ((1, 28, 28), ["thickness", "intensity", "label"], r"other attributes \(slant\)"),
    ],
)
def test_an_earlier_run_on_other_data_is_refused(ali, data, digits_cache, shape, attributes, says):
    other = MorphoMNIST(limit=300, cache_dir=str(digits_cache), attributes=attributes)
    with pytest.raises(UnfitRun, match=says):
        CyclicEncoder(other.scm_spec, shape, mechanism=str(ali))


def test_the_generator_has_a_learning_rate_of_its_own(data):
    module = StyleALI(data.scm_spec, data.image_shape, width=0.05, latent_dim=8, lr=1e-3, generator_rate=3.0)
    rates = {
        id(p): group["lr"] for o in module.configure_optimizers() for group in o.param_groups for p in group["params"]
    }
    for network, rate in ((module.G, 3e-3), (module.E, 1e-3), (module.D, 1e-3), (module.P, 1e-3)):
        assert [rates[id(parameter)] for parameter in network.parameters()] == pytest.approx(
            [rate] * len(list(network.parameters()))
        )
