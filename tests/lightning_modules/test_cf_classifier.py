"""CFClassifier on painted images, whose counterfactuals are exact: Eq. 7, what it may change, what a checkpoint needs."""

import shutil

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from callbacks import EpochSeed
from cfgen.checkpoints import load_module
from cfgen.errors import UserError
from lightning_modules import CFClassifier, Classifier
from tests.fakes import BINARY, SHAPE, Dimming, Ignorant, Painted, Painter, fitted, saved
from tests.quiet_trainer import quiet_trainer

ATTRIBUTES = dict.fromkeys(("Black_Hair", "Pale_Skin", "Smiling"), BINARY)
STRENGTH = [100 / 255, 100 / 255, 60 / 255]  # of the stripes
HAIR, PALE = {"Black_Hair": 1}, {"Pale_Skin": 1}


class Unfair(Painted):
    """y follows Smiling and, unfairly, Pale_Skin: 1 in so many cases."""

    rate = torch.tensor([[0.05, 0.6], [0.75, 0.95]])  # without and with a smile, of dark and pale skin

    def __init__(self, attributes=ATTRIBUTES) -> None:
        super().__init__(attributes, rows=800, batch_size=50, strength=STRENGTH)

    def target(self, columns, generator):
        _, pale, smiling = (column.long() for column in columns.values())
        return (torch.rand(self.rows, generator=generator) < self.rate[smiling, pale]).long()

    def background(self, generator):
        return torch.rand(self.rows, *SHAPE, generator=generator) * 100 / 255


@pytest.fixture(scope="module")
def data():
    data = Unfair()
    data.setup()
    return data


@pytest.fixture(scope="module")
def runs(tmp_path_factory, data):
    """A classifier that has learned the unfair label, and the mechanism, as files."""
    folder = tmp_path_factory.mktemp("runs")
    pl.seed_everything(0, verbose=False)
    classifier = Classifier(SHAPE, 2, width=0.2, lr=2e-3)
    quiet_trainer(folder, max_epochs=3, limit_val_batches=0).fit(classifier, datamodule=data)
    painter = fitted(Painter, data, strength=STRENGTH)
    return {
        "classifier": saved(classifier, folder / "classifier.ckpt"),
        "mechanism": saved(painter, folder / "mechanism.ckpt"),
    }


def bias(module, data, k: int) -> float:
    """P(y_c = 1) - P(y_r = 1) under do(k = 1), for those without, by hand."""
    stripes = Painter(data.scm_spec, SHAPE, STRENGTH).stripes
    x, columns = data.images("val").float() / 255, data.columns("val")
    absent = list(columns.values())[k] == 0
    with torch.inference_mode():
        module.eval()
        return (module.predict(x[absent] + stripes[k]).float() - module.predict(x[absent]).float()).mean().item()


def accuracy(module, data) -> float:
    with torch.inference_mode():
        module.eval()
        return (module.predict(data.images("val").float() / 255) == data.targets("val")).float().mean().item()


def test_bias_falls_and_accuracy_is_that_of_the_best_fair_rule(runs, data, tmp_path):
    before = load_module(runs["classifier"], Classifier)
    assert bias(before, data, 1) > 0.2
    modes = set()
    for weight in (0.0, 1.0):  # more training alone does not do it
        pl.seed_everything(0, verbose=False)
        module = CFClassifier(SHAPE, **runs, do=[PALE, HAIR], weight=weight, lr=1e-3)
        painter = {name: value.clone() for name, value in module.mechanisms[0].state_dict().items()}
        module.classifier.register_forward_hook(lambda classifier, *_: modes.add(classifier.training))
        quiet_trainer(tmp_path, max_epochs=3, limit_val_batches=0).fit(module, datamodule=data)
        if weight == 0:
            assert bias(module, data, 1) > 0.4
    assert modes == {False}  # in the Trainer's hands too, the classifier learns as what it is in use
    assert abs(bias(module, data, 1)) < 0.05
    smiling = data.columns("val")["Smiling"] == data.targets("val")
    assert accuracy(module, data) > smiling.float().mean() - 0.01
    # the mechanism is as it was, and the classifier is not
    for name, value in module.mechanisms[0].state_dict().items():
        assert torch.equal(value, painter[name]), name
    assert not any(p.grad is not None for p in module.mechanisms[0].parameters())
    moved = zip(module.classifier.parameters(), before.parameters(), strict=True)
    assert all(not torch.equal(one, other) for one, other in moved)


def test_the_loss_is_equation_7(runs, data):
    module = CFClassifier(SHAPE, **runs, do=[PALE], weight=3.0)
    logged = {}
    module.log_dict = lambda values, **_: logged.update(values)
    batch = next(iter(data.train_dataloader()))
    batch = data.on_after_batch_transfer(batch, 0)
    module.train()
    torch.manual_seed(0)
    loss = module.training_step(batch, 0)
    reference = load_module(runs["classifier"], Classifier).eval()
    bce = nn.functional.binary_cross_entropy_with_logits(reference(batch.x), batch.y.float())
    a_c = batch.a.clone()
    a_c[:, 1] = 1
    stripes = module.mechanisms[0].stripes
    x_c = batch.x + torch.einsum("nk,kchw->nchw", a_c - batch.a, stripes)
    mse = (reference(batch.x) - reference(x_c)).square().mean()
    torch.testing.assert_close(loss, bce + 3 * mse)
    torch.testing.assert_close(logged["train/bce"], bce.detach())
    assert mse > 0.1
    assert module.training
    assert not module.classifier.training  # one function, the one that will be used


def test_an_image_that_is_so_already_adds_nothing(runs, data):
    module = CFClassifier(SHAPE, **runs, do=[PALE]).train()
    batch = data.on_after_batch_transfer(next(iter(data.train_dataloader())), 0)
    a = batch.a.clone()
    a[:, 1] = 1
    x_r, x_c = module.base_and_counterfactual(batch._replace(a=a))
    assert torch.equal(x_r, x_c)


def test_a_kept_residual_makes_up_for_what_a_mechanism_loses(runs, data, tmp_path):
    lossy = runs | {"mechanism": saved(fitted(Dimming, data, strength=STRENGTH), tmp_path / "dimming.ckpt")}
    batch = data.on_after_batch_transfer(next(iter(data.train_dataloader())), 0)
    losses = []
    for earlier, keep in ((runs, False), (lossy, True), (lossy, False)):
        module = CFClassifier(SHAPE, **earlier, do=[PALE, HAIR], keep_residual=keep).train()
        module.log_dict = lambda *_, **__: None
        torch.manual_seed(0)
        losses.append(module.training_step(batch, 0).item())
    exact, kept, lost = losses
    assert kept == pytest.approx(exact, rel=1e-5)
    assert lost != pytest.approx(exact, rel=1e-3)


def test_what_a_mechanism_does_not_draw_is_mended_by_real_images(runs, data, tmp_path):
    """Eq. 7 with a mechanism that draws nothing is more training; the gap between real images needs none."""
    blind = runs | {"mechanism": saved(fitted(Ignorant, data, strength=STRENGTH), tmp_path / "ignorant.ckpt")}
    found = {}
    for gap_weight in (0.0, 20.0):
        pl.seed_everything(0, verbose=False)
        module = CFClassifier(SHAPE, **blind, do=[PALE, HAIR], gap_weight=gap_weight, lr=1e-3)
        quiet_trainer(tmp_path, max_epochs=3, limit_val_batches=0).fit(module, datamodule=data)
        found[gap_weight] = bias(module, data, 1)
    smiling = data.columns("val")["Smiling"] == data.targets("val")
    assert found[0.0] > 0.4
    assert abs(found[20.0]) < 0.08
    assert accuracy(module, data) > smiling.float().mean() - 0.02
    assert not any(name.startswith("gap") for name in module.state_dict())


def test_the_gap_is_a_term_of_the_loss(runs, data, tmp_path):
    losses = {}
    batch = data.on_after_batch_transfer(next(iter(data.train_dataloader())), 0)
    for weight, gap_weight in ((0.0, 0.0), (0.0, 3.0), (2.0, 0.0), (2.0, 3.0)):
        module = CFClassifier(SHAPE, **runs, do=[PALE], weight=weight, gap_weight=gap_weight)
        module.trainer = quiet_trainer(tmp_path)
        module.trainer.datamodule = data
        module.setup("fit")
        logged = {}
        module.log_dict = lambda values, logged=logged, **_: logged.update(values)
        losses[weight, gap_weight] = module.training_step(batch, 0).item()
        assert ("train/weighted_gap" in logged) == (gap_weight > 0)
        assert ("train/logit_gap" in logged) == (weight > 0)
    assert logged["train/weighted_gap"] > 0.05
    by_gap, by_mechanism = (losses[key] - losses[0, 0] for key in ((0, 3), (2, 0)))
    assert by_gap == pytest.approx(3 * logged["train/weighted_gap"].item() ** 2, rel=1e-4)
    assert by_mechanism == pytest.approx(2 * logged["train/logit_gap"].item(), rel=1e-4)
    assert losses[2, 3] - losses[0, 0] == pytest.approx(by_gap + by_mechanism, rel=1e-4)


def test_an_intervention_that_too_few_images_have_is_left_out_of_the_gap(runs, data, tmp_path):
    """And it is said; where nothing is left, training is Eq. 7's."""
    few = Unfair()
    few.rows = 120
    few.setup()
    everything = dict.fromkeys(ATTRIBUTES, 1)
    for do, left in (([PALE, everything], 1), ([everything], 0)):
        module = CFClassifier(SHAPE, **runs, do=do, gap_weight=1.0)
        module.trainer = quiet_trainer(tmp_path)
        module.trainer.datamodule = few
        with pytest.warns(UserWarning, match="Smiling=1 is left out, because real images cannot answer: ") as said:
            module.setup("fit")
        assert sum("left out" in str(warning.message) for warning in said) == 1
        assert (0 if module.gap is None else len(module.gap.propensity_weights)) == left


@pytest.mark.parametrize("keep", [False, True])
def test_each_image_meets_one_of_several_mechanisms(runs, data, tmp_path, keep):
    lossy = saved(fitted(Dimming, data, strength=STRENGTH), tmp_path / "dimming.ckpt")
    blind = saved(fitted(Ignorant, data, strength=STRENGTH), tmp_path / "ignorant.ckpt")
    batch = data.on_after_batch_transfer(next(iter(data.train_dataloader())), 0)
    batch = batch._replace(a=torch.zeros_like(batch.a))

    def drawn(mechanism):
        module = CFClassifier(SHAPE, runs["classifier"], mechanism, do=[PALE], keep_residual=keep)
        return module.base_and_counterfactual(batch)

    names = [runs["mechanism"], lossy, blind]
    alone = [drawn(name) for name in names]
    x_r, x_c = drawn(names)
    of = [torch.stack([(x_c == c).flatten(1).all(1), (x_r == r).flatten(1).all(1)]).all(0) for r, c in alone]
    counts = [int(rows.sum()) for rows in of]
    assert min(counts) > 5
    assert torch.stack(of).any(dim=0).all()
    if keep:
        assert x_r is batch.x  # no image is classified twice
    else:
        assert sum(counts) == len(x_c)  # and none is of two


def test_each_image_meets_an_intervention_of_its_own(runs, data):
    module = CFClassifier(SHAPE, **runs, do=[PALE, HAIR])
    batch = data.on_after_batch_transfer(next(iter(data.train_dataloader())), 0)
    batch = batch._replace(a=torch.zeros_like(batch.a))
    x_r, x_c = module.base_and_counterfactual(batch)
    change = (x_c - x_r).flatten(1)
    stripes = module.mechanisms[0].stripes.flatten(1)
    is_pale, is_hair = ((change - stripes[k]).abs().amax(1) < 1e-5 for k in (1, 0))
    assert (is_pale ^ is_hair).all()
    assert 10 < is_pale.sum() < 40


def test_a_checkpoint_needs_no_earlier_run(runs, data, tmp_path):
    copies = {key: shutil.copy(path, tmp_path / f"{key}.ckpt") for key, path in runs.items()}
    module = CFClassifier(SHAPE, **{key: str(path) for key, path in copies.items()}, do=[PALE])
    fit = quiet_trainer(tmp_path, max_epochs=1, max_steps=2)
    fit.fit(module, datamodule=data)
    fit.save_checkpoint(tmp_path / "fair.ckpt")
    for path in copies.values():
        path.unlink()
    contents = torch.load(tmp_path / "fair.ckpt", weights_only=True)
    assert all(name.startswith("classifier.") for name in contents["state_dict"])
    assert str(tmp_path) not in str(contents["hyper_parameters"])
    loaded = load_module(tmp_path / "fair.ckpt", Classifier)
    assert isinstance(loaded, CFClassifier)
    x = data.images("val").float() / 255
    assert torch.equal(loaded(x), module.eval()(x))
    with pytest.raises(UserError, match="loaded for prediction: give it a mechanism"):
        quiet_trainer(tmp_path, max_epochs=1).fit(loaded, datamodule=data)
    # and it is a classifier like any other: it may be fine-tuned in its turn
    again = CFClassifier(SHAPE, str(tmp_path / "fair.ckpt"), runs["mechanism"], do=[HAIR])
    assert torch.equal(again.eval()(x), loaded(x))


@pytest.mark.parametrize("gap_weight", [0.0, 5.0])
def test_resume_equals_uninterrupted(runs, data, tmp_path, gap_weight):
    def run(epochs, resume=None):
        pl.seed_everything(7, verbose=False)
        module = CFClassifier(SHAPE, **runs, do=[PALE, HAIR], gap_weight=gap_weight)
        fit = quiet_trainer(
            tmp_path, max_epochs=epochs, callbacks=[EpochSeed(0)], limit_train_batches=2, limit_val_batches=0
        )
        fit.fit(module, datamodule=data, ckpt_path=resume, weights_only=True)
        fit.save_checkpoint(tmp_path / f"{epochs}.ckpt")
        return module.state_dict()

    run(1)
    resumed, whole = run(2, tmp_path / "1.ckpt"), run(2)
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true"])
def test_precisions(runs, data, tmp_path, precision):
    module = CFClassifier(SHAPE, runs["classifier"], [runs["mechanism"]] * 2, do=[PALE], gap_weight=1.0)
    quiet_trainer(tmp_path, max_epochs=1, max_steps=1, precision=precision, limit_val_batches=1).fit(
        module, datamodule=data
    )
    assert all(p.isfinite().all() for p in module.parameters())


def test_refusals(runs, data, tmp_path):
    with pytest.raises(ValueError, match="unknown attribute 'Pale'. Did you mean 'Pale_Skin'"):
        CFClassifier(SHAPE, **runs, do=[{"Pale": 1}])
    with pytest.raises(ValueError, match="0 or 1"):
        CFClassifier(SHAPE, **runs, do=[{"Pale_Skin": 2}])
    with pytest.raises(UserError, match="names no intervention"):
        CFClassifier(SHAPE, **runs, do=[])
    with pytest.raises(UserError, match=r"classifier.ckpt is for images of 1x28x28 .* the data has 3x64x64"):
        CFClassifier((3, 64, 64), **runs, do=[PALE])
    other = saved(Painter(data.scm_spec, (1, 64, 64)), tmp_path / "other.ckpt")
    for several in (other, [runs["mechanism"], other]):
        with pytest.raises(UserError, match=r"other.ckpt is for images of 1x64x64"):
            CFClassifier(SHAPE, runs["classifier"], several, do=[PALE])
    with pytest.raises(UserError, match="names no model") as refusal:
        CFClassifier(SHAPE, runs["classifier"], [], do=[PALE])
    assert refusal.value.argument == "mechanism"
    weight = {"name": "weight", "kind": "continuous", "values": []}
    scales = saved(Classifier(SHAPE, width=0.1, target=weight), tmp_path / "scales.ckpt")
    with pytest.raises(UserError, match="predicts a value"):
        CFClassifier(SHAPE, scales, runs["mechanism"], do=[PALE])
    with pytest.raises(UserError, match="is a run") as refusal:
        CFClassifier(SHAPE, **runs, do=[PALE], std=[0.5])
    assert refusal.value.argument == "std"
    with pytest.raises(UserError, match="but a Classifier is needed"):
        CFClassifier(SHAPE, runs["mechanism"], runs["mechanism"], do=[PALE])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("Black_Hair", "Pale_Skin", "Bangs"), "Smiling, Bangs differ"),
        (("Pale_Skin", "Black_Hair", "Smiling"), "order"),
    ],
)
def test_data_with_other_attributes_is_refused(runs, tmp_path, names, message):
    data = Unfair(dict.fromkeys(names, BINARY))
    with pytest.raises(UserError, match=f"other attributes: .*{message}"):
        quiet_trainer(tmp_path, max_epochs=1).fit(CFClassifier(SHAPE, **runs, do=[PALE]), datamodule=data)
