"""The Bias callback: exact values for classifiers that read one thing, what a checkpoint is chosen by, one process or two."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch

from callbacks import BestCheckpoint, Bias
from callbacks.bias import intervention_name
from cfgen.errors import UserError
from lightning_modules import Classifier
from tests.fakes import BINARY, SHAPE, Dimming, Painted, Painter, Stripes, fitted, saved
from tests.processes import Pool
from tests.quiet_trainer import quiet_trainer

DO = [{"Black_Hair": 1}, {"Pale_Skin": 1}, {"Bangs": 1}, {"Black_Hair": 0}, {"Black_Hair": 1, "Pale_Skin": 1}]


def with_painter(*weights, do=DO) -> Stripes:
    """A classifier with a mechanism of its own."""
    classifier = Stripes(*weights)
    classifier.do = do
    object.__setattr__(classifier, "mechanism", fitted(Painter, Painted()))
    return classifier


HAIR = (1.0, 0.0, 0.0, 0.0)
BOTH = (1.0, 0.7, 0.0, 0.0)


def trainer(**options) -> pl.Trainer:
    return quiet_trainer(Path(), num_sanity_val_steps=0, **options)


def measured(model, callback, data=None, **options) -> dict[str, float]:
    (logged,) = trainer(callbacks=[callback], **options).validate(model, datamodule=data or Painted(), verbose=False)
    return {key.removeprefix("val/bias/"): value for key, value in logged.items() if key.startswith("val/bias/")}


def test_a_classifier_that_reads_hair_is_biased_for_hair_and_nothing_else():
    values = measured(with_painter(HAIR), Bias())
    assert values == {
        "Black_Hair": 1,
        "Black_Hair=0": -1,
        "Black_Hair+Pale_Skin": pytest.approx(lacking_hair_of_lacking_either(), abs=1e-6),
        "Pale_Skin": 0,
        "Bangs": 0,
        "max_abs": 1,
        "where_accurate": 1,
    }


def lacking_hair_of_lacking_either() -> float:
    data = Painted()
    data.setup()
    hair, pale = (data.columns("val")[name] for name in ("Black_Hair", "Pale_Skin"))
    return ((hair == 0).sum() / ((hair == 0) | (pale == 0)).sum()).item()


@pytest.mark.parametrize("offset", [-1.0, 1.0])
def test_a_constant_classifier_has_no_bias(offset):
    values = measured(with_painter((0.0, 0.0, 0.0, offset)), Bias())
    accuracy = values.pop("where_accurate")
    assert 1 < accuracy < 2  # half of the labels are missed: it would not be chosen
    assert set(values.values()) == {0}


def test_fewer_images_and_other_interventions():
    data = Painted()
    data.setup()
    model = with_painter(BOTH)
    x = data.images("val")[:70].float() / 255
    a = data.schema.encode({name: column[:70] for name, column in data.columns("val").items()})
    absent = a[:, 1] == 0
    a_c = a.clone()
    a_c[:, 1] = 1
    x_c = model.mechanism.decode(model.mechanism.abduct(x, a), a_c)
    expected = (model.predict(x_c[absent]).float() - model.predict(x[absent]).float()).mean().item()
    values = measured(model, Bias(do=[{"Pale_Skin": 1}], images=70))
    assert values.keys() == {"Pale_Skin", "max_abs", "where_accurate"}
    assert values["Pale_Skin"] == pytest.approx(expected, abs=1e-6)
    assert expected > 0.1


def test_images_are_made_once():
    Painter.calls.clear()
    trainer(max_epochs=3, limit_train_batches=1, callbacks=[Bias()]).fit(with_painter(HAIR), datamodule=Painted())
    assert Painter.calls["abduct"] == 3  # 240 images, at most 100 at once


def test_the_checkpoint_is_the_fairest_of_the_accurate(tmp_path):
    """Inaccurate, accurate and biased, accurate and fairer, fair and inaccurate: the third."""
    guess = (0.0, 0.0, 0.0, 1.0)
    model = with_painter(guess, (1.0, 0.7, 0.0, 0.0), (1.0, 0.4, 0.0, 0.0), guess, do=[{"Pale_Skin": 1}])
    scores = []

    class Scores(pl.Callback):
        def on_train_epoch_end(self, trainer, module):
            scores.append(trainer.callback_metrics["val/bias/where_accurate"].item())

    best = BestCheckpoint("val/bias/where_accurate")
    best.dirpath = str(tmp_path)
    fit = trainer(
        max_epochs=4, limit_train_batches=1, callbacks=[Bias(accuracy=0.75), Scores(), best], enable_checkpointing=True
    )
    fit.fit(model, datamodule=Painted())
    assert scores[0] == scores[3] > 1 > scores[1] > scores[2] > 0
    assert torch.load(tmp_path / "best.ckpt", weights_only=True)["epoch"] == 2


def measured_by_two() -> dict[str, float]:
    """In each of two processes."""
    return measured(with_painter(BOTH), Bias(), devices=2, strategy="ddp")


@pytest.mark.xdist_group("two_processes")
@pytest.mark.filterwarnings("ignore:.*recommended to use a single device")  # how they differ is the question
def test_two_processes_measure_like_one(two_processes: Pool):
    one = measured(with_painter(BOTH), Bias())
    two, other = two_processes.run(measured_by_two)
    assert two == other
    assert two.pop("where_accurate") == pytest.approx(one.pop("where_accurate"), abs=1e-2)  # a distributed sampler pads
    assert two == pytest.approx(one, abs=1e-7)
    assert 0 < one["Pale_Skin"] < 1


def test_any_classifier_is_watched_with_a_mechanism_given(tmp_path):
    painter = saved(fitted(Painter, Painted()), tmp_path / "painter.ckpt")
    values = measured(Stripes(BOTH), Bias(painter, DO))
    assert values == measured(with_painter(BOTH), Bias())
    assert 0 < values["Pale_Skin"] < 1


def test_a_classifier_in_training_is_measured_as_it_is_in_use(tmp_path):
    """With dropout and batch norm: the answers are those of evaluation."""
    pl.seed_everything(0, verbose=False)
    model, data = Classifier(SHAPE, 2, width=0.1, lr=1e-2), Painted()
    bias = Bias(saved(fitted(Painter, Painted()), tmp_path / "painter.ckpt"), [{"Black_Hair": 1}])
    fit = trainer(max_epochs=2, callbacks=[bias])
    fit.fit(model, datamodule=data)
    x, absent = data.images("val").float() / 255, data.columns("val")["Black_Hair"] == 0
    x_c = x[absent]
    x_c[:, :, :8] += 0.5
    with torch.inference_mode():
        model.eval()
        expected = (model.predict(x_c).float() - model.predict(x[absent]).float()).mean().item()
    assert fit.callback_metrics["val/bias/Black_Hair"].item() == pytest.approx(
        expected, abs=0.01
    )  # kept in half precision
    assert abs(expected) > 0.1


def test_a_kept_residual_makes_up_for_what_is_lost_and_the_base_image_is_not_drawn(tmp_path):
    dimming = saved(fitted(Dimming, Painted()), tmp_path / "dimming.ckpt")
    exact = measured(with_painter(BOTH), Bias())
    assert measured(Stripes(BOTH), Bias(dimming, DO)) != pytest.approx(exact, abs=0.05)
    Painter.calls.clear()
    assert measured(Stripes(BOTH), Bias(dimming, DO, keep_residual=True)) == pytest.approx(exact, abs=0.02)
    assert Painter.calls["decode"] == 3 * (1 + len(DO))  # in each of three batches: to know the residual, and every x_c


def test_refusals():
    with pytest.raises(
        UserError, match="a Stripes has no mechanism of its own. Give Bias one, and do: .*faces-modulated"
    ):
        measured(Stripes(HAIR), Bias())
    with pytest.raises(UserError, match="binary classifier, not of one of 10 classes"):
        measured(Classifier(SHAPE, 10, width=0.1), Bias())
    with pytest.raises(UserError, match="binary classifier, not of a Painter"):
        Bias().found_mechanism(fitted(Painter, Painted()), Painted())
    with pytest.raises(ValueError, match="keep_residual is for a mechanism given here"):
        Bias(keep_residual=True)
    with pytest.raises(UserError, match="unknown attribute 'Bang'. Did you mean 'Bangs'"):
        measured(with_painter(HAIR), Bias(do=[{"Bang": 1}]))
    with pytest.raises(ValueError, match="unknown attribute 'Bang'"):
        Bias(do=[{"Bang": 1}]).check(Painted())
    first = Painted()
    first.setup()
    own = {name: column[0].item() for name, column in first.columns("val").items()}
    with pytest.raises(UserError, match="changes none of the 1 validation images"):
        measured(with_painter(HAIR), Bias(do=[own], images=1))


def test_a_mechanism_that_does_not_fit_is_refused(tmp_path):
    painter = saved(fitted(Painter, Painted()), tmp_path / "painter.ckpt")
    with pytest.raises(UserError, match="Bias: do names no intervention"):
        measured(Stripes(HAIR), Bias(painter))
    with pytest.raises(UserError, match="no run, checkpoint or exported model at runs/nowhere"):
        Bias("runs/nowhere", DO).check(Painted())
    larger = saved(fitted(Painter, Painted(), image_shape=(1, 64, 64)), tmp_path / "larger.ckpt")
    with pytest.raises(UserError, match="larger.ckpt makes images of 1x64x64 .*, and the data has 1x28x28"):
        measured(Stripes(HAIR), Bias(larger, DO))
    others = Painted(dict.fromkeys(("Black_Hair", "Pale_Skin", "Young"), BINARY))
    with pytest.raises(UserError, match=r"painter.ckpt was trained with other attributes \(Bangs, Young\)"):
        measured(Stripes(HAIR), Bias(painter, [{"Young": 1}]), others)


def test_names():
    assert intervention_name({"Black_Hair": 1, "Pale_Skin": 1}) == "Black_Hair+Pale_Skin"
    assert intervention_name({"Young": 0}) == "Young=0"
