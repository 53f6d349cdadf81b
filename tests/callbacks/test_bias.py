"""The Bias callback: exact values for classifiers that read one thing, what a checkpoint is chosen by, one process or two."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import Logger
from scipy.stats import binomtest

from callbacks import BestCheckpoint, Bias
from callbacks.bias import intervention_name
from cfgen.effects import RealImages, features
from cfgen.errors import UserError
from cfgen.interventions import Set
from lightning_modules import Classifier
from tests.fakes import BINARY, FACES, SHAPE, Dimming, Ignorant, Painted, Painter, Stripes, fitted, saved
from tests.processes import Pool
from tests.quiet_trainer import quiet_trainer

DO = [{"Black_Hair": 1}, {"Pale_Skin": 1}, {"Bangs": 1}, {"Black_Hair": 0}, {"Black_Hair": 1, "Pale_Skin": 1}]


def with_painter(*weights, do=DO) -> Stripes:
    """A classifier with a mechanism of its own."""
    classifier = Stripes(*weights)
    classifier.do = do
    classifier.mechanisms = [fitted(Painter, Painted())]
    return classifier


HAIR = (1.0, 0.0, 0.0, 0.0)
BOTH = (1.0, 0.7, 0.0, 0.0)


def trainer(**options) -> pl.Trainer:
    return quiet_trainer(Path(), num_sanity_val_steps=0, **options)


def measured(model, callback, data=None, kind="bias", **options) -> dict[str, float]:
    """What was found for each intervention; `kind` bias_generator is Eq. 4 alone."""
    (logged,) = trainer(callbacks=[callback], **options).validate(model, datamodule=data or Painted(), verbose=False)
    return {key.removeprefix(f"val/{kind}/"): value for key, value in logged.items() if key.startswith(f"val/{kind}/")}


def test_a_classifier_that_reads_hair_is_biased_for_hair_and_nothing_else():
    expected = {
        "Black_Hair": 1,
        "Black_Hair=0": -1,
        "Black_Hair+Pale_Skin": lacking_hair_of_lacking_either(),
        "Pale_Skin": 0,
        "Bangs": 0,
    }
    assert measured(with_painter(HAIR), Bias(), kind="bias_generator") == pytest.approx(expected, abs=1e-6)
    values = measured(with_painter(HAIR), Bias())
    assert values == pytest.approx(expected | {"max_abs": 1, "where_accurate": 1}, abs=1e-3)


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
    assert list(values.values()) == pytest.approx([0] * 6, abs=1e-6)


def test_counterfactuals_of_some_images_and_answers_for_all():
    data = Painted()
    data.setup()
    model, columns = with_painter(BOTH), data.columns("val")
    (painter,) = model.mechanisms
    x = data.images("val").float() / 255
    a = data.schema.encode(columns)
    absent, first = a[:, 1] == 0, torch.arange(240) < 70
    a_c = a.clone()
    a_c[:, 1] = 1
    answers = model.predict(x).double()
    generated = model.predict(painter.decode(painter.abduct(x, a), a_c)).double()
    eq_4 = (generated - answers)[absent & first].mean().item()
    generated[~(absent & first)] = torch.nan
    exposure = Set.from_values(data.schema, {"Pale_Skin": 1}).exposure(columns)
    real = RealImages(exposure, features(data.schema, columns, ["Black_Hair", "Bangs"]))
    combined = real.combined(answers.numpy(), generated.numpy()).value
    options = {"do": [{"Pale_Skin": 1}], "images": 70}
    assert measured(model, Bias(**options), kind="bias_generator") == {"Pale_Skin": pytest.approx(eq_4, abs=1e-6)}
    values = measured(model, Bias(**options))
    assert values.keys() == {"Pale_Skin", "max_abs", "where_accurate"}
    assert values["Pale_Skin"] == pytest.approx(combined, abs=1e-6)
    assert abs(eq_4 - combined) > 0.01
    assert combined > 0.1


def test_images_are_made_once():
    Painter.calls.clear()
    trainer(max_epochs=3, limit_train_batches=1, callbacks=[Bias()]).fit(with_painter(HAIR), datamodule=Painted())
    # 240 images, at most 100 at once: for validation, and for the test at the end
    assert Painter.calls["abduct"] == 3 + 3


def test_a_generator_that_does_not_draw_an_attribute_hides_nothing():
    """By itself it would say that the classifier is fair."""
    data = Painted()
    model = with_painter(HAIR)
    model.mechanisms = [fitted(Ignorant, data)]
    assert set(measured(model, Bias(), kind="bias_generator").values()) == {0}
    values = measured(model, Bias())
    assert values["Black_Hair"] == pytest.approx(1, abs=0.01)
    assert values["Black_Hair+Pale_Skin"] == pytest.approx(lacking_hair_of_lacking_either(), abs=0.01)
    assert values["Pale_Skin"] == pytest.approx(0, abs=0.01)
    # of two generators the mean counts, and real images correct it
    model.mechanisms = [fitted(Ignorant, data), fitted(Painter, data)]
    assert measured(model, Bias(), kind="bias_generator")["Black_Hair"] == 0.5
    assert measured(model, Bias())["Black_Hair"] == pytest.approx(1, abs=0.01)


def test_where_too_few_real_images_overlap_the_estimate_is_model_only_and_a_warning_says_so():
    do = [{"Black_Hair": 1, "Pale_Skin": 1, "Bangs": 1}, {"Black_Hair": 1}]
    model = with_painter(BOTH, do=do)
    with pytest.warns(
        UserWarning,
        match=r"Black_Hair\+Pale_Skin\+Bangs has a model-only estimate, because 2. images with the values have an effective sample "
        r"size of 21, and 50 are needed",
    ) as warnings:
        values = measured(model, Bias())
    assert not any("Bias: Black_Hair " in str(warning.message) for warning in warnings)
    by_generator = measured(model, Bias(), kind="bias_generator")
    everything = "Black_Hair+Pale_Skin+Bangs"
    assert values[everything] == by_generator[everything] > 0
    assert values["Black_Hair"] != by_generator["Black_Hair"]


@pytest.mark.parametrize("generator", [Painter, Ignorant])
def test_the_checkpoint_is_the_fairest_of_the_accurate(tmp_path, generator):
    """Inaccurate, accurate and biased, accurate and fairer, fair and inaccurate: the third, also where no generator sees it."""
    guess = (0.0, 0.0, 0.0, 1.0)
    model = with_painter(guess, (1.0, 0.7, 0.0, 0.0), (1.0, 0.4, 0.0, 0.0), guess, do=[{"Pale_Skin": 1}])
    model.mechanisms = [fitted(generator, Painted())]
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


class Kept(Logger):
    """Remembers the scalars of tests."""

    name, version = "kept", 0

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, float] = {}

    def log_hyperparams(self, *_, **__) -> None:
        pass

    def log_metrics(self, metrics, step=None) -> None:
        if any(name.startswith("test/") for name in metrics):
            self.values |= metrics


def test_the_chosen_checkpoint_is_measured_on_images_that_chose_nothing(tmp_path, caplog):
    pl.seed_everything(0, verbose=False)
    data, kept, best = Painted(rows=400), Kept(), BestCheckpoint("val/loss", mode="max")  # the worst, so not the last
    best.dirpath = str(tmp_path)
    model = Classifier(SHAPE, 2, width=0.1, lr=1e-2)
    bias = Bias(saved(fitted(Painter, Painted()), tmp_path / "painter.ckpt"), [{"Black_Hair": 1}], every_n_epochs=2)
    fit = trainer(max_epochs=3, callbacks=[bias, best], enable_checkpointing=True, logger=[kept])
    with caplog.at_level("INFO"):
        fit.fit(model, datamodule=data)
    checkpoint = torch.load(best.best_model_path, weights_only=True)
    assert kept.values["epoch"] == checkpoint["epoch"] < 2
    last = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
    assert all(torch.equal(value, last[name]) for name, value in model.state_dict().items())  # as training left it
    model.load_state_dict(checkpoint["state_dict"])
    with torch.inference_mode():
        answers = model.eval().predict(data.images("test").float() / 255)
    right, columns = int((answers == data.targets("test")).sum()), data.columns("test")
    assert kept.values["test/accuracy"] == right / 400
    low, high = (kept.values[f"test/accuracy/{end}"] for end in ("low", "high"))
    assert [low, high] == list(binomtest(right, 400).proportion_ci(method="wilsoncc"))
    hair = columns["Black_Hair"] == 1
    gap = (answers[hair].float().mean() - answers[~hair].float().mean()).item()
    bias_low, found, bias_high = (kept.values[f"test/bias/Black_Hair{end}"] for end in ("/low", "", "/high"))
    assert found == pytest.approx(gap, abs=0.05)  # nothing is confounded here
    assert bias_low < found < bias_high
    (line,) = (record.message for record in caplog.records if "chose nothing" in record.message)
    assert f"on 400 test images, which chose nothing: accuracy {right / 4:.1f} % ({100 * low:.1f} to " in line
    assert f"Black_Hair {found:+.3f} (" in line


def test_an_intervention_that_changes_no_test_image_is_not_reported(caplog):
    class AllBangs(Painted):
        """Every test image has bangs."""

        def read_splits(self):
            splits = super().read_splits()
            splits["test"].columns["Bangs"].fill_(1.0)
            return splits

    kept = Kept()
    model = with_painter(HAIR, do=[{"Bangs": 1}, dict.fromkeys(FACES, 1)])
    fit = trainer(max_epochs=1, limit_train_batches=1, callbacks=[Bias()], logger=[kept])
    with caplog.at_level("INFO"):
        fit.fit(model, datamodule=AllBangs(rows=100))
    assert "test/bias/Bangs" not in kept.values
    everything = "Black_Hair+Pale_Skin+Bangs"
    assert kept.values[f"test/bias/{everything}"] == kept.values[f"test/bias_generator/{everything}"] > 0
    assert "; a model-only estimate)" in caplog.text


def measured_by_two() -> tuple[dict[str, float], dict[str, float]]:
    """In each of two processes."""
    both = [
        measured(with_painter(BOTH), Bias(images=90), kind=kind, devices=2, strategy="ddp")
        for kind in ("bias", "bias_generator")
    ]
    return both[0], both[1]


@pytest.mark.xdist_group("two_processes")
@pytest.mark.filterwarnings("ignore:.*recommended to use a single device")  # how they differ is the question
def test_two_processes_measure_like_one(two_processes: Pool):
    one, generated = (measured(with_painter(BOTH), Bias(images=90), kind=kind) for kind in ("bias", "bias_generator"))
    (two, generated_by_two), other = two_processes.run(measured_by_two)
    assert (two, generated_by_two) == other
    assert generated_by_two == pytest.approx(generated, abs=1e-7)
    assert two.pop("where_accurate") == pytest.approx(one.pop("where_accurate"), abs=1e-2)  # a distributed sampler pads
    assert two == pytest.approx(one, abs=1e-7)
    assert 0 < one["Pale_Skin"] < 1


def report(**options) -> dict[str, float]:
    """What is logged of the test split after training that changes nothing."""
    kept = Kept()
    fit = trainer(max_epochs=1, limit_train_batches=1, callbacks=[Bias(images=90)], logger=[kept], **options)
    fit.fit(with_painter(BOTH), datamodule=Painted(rows=241))  # an odd number: the shares differ
    return kept.values


def report_by_two() -> dict[str, float]:
    return report(devices=2, strategy="ddp")


@pytest.mark.xdist_group("two_processes")
def test_two_processes_test_like_one(two_processes: Pool):
    one, (two, other) = report(), two_processes.run(report_by_two)
    assert two == other == one
    assert one["test/accuracy/low"] < one["test/accuracy"] < one["test/accuracy/high"]
    assert one["test/bias/Pale_Skin"] > 0.1


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
    assert fit.callback_metrics["val/bias_generator/Black_Hair"].item() == pytest.approx(
        expected, abs=0.01
    )  # kept in half precision
    assert abs(expected) > 0.1


def test_a_kept_residual_makes_up_for_what_is_lost_and_the_base_image_is_not_drawn(tmp_path):
    dimming = saved(fitted(Dimming, Painted()), tmp_path / "dimming.ckpt")
    drawn = {"kind": "bias_generator"}
    exact = measured(with_painter(BOTH), Bias(), **drawn)
    assert measured(Stripes(BOTH), Bias(dimming, DO), **drawn) != pytest.approx(exact, abs=0.05)
    Painter.calls.clear()
    assert measured(Stripes(BOTH), Bias(dimming, DO, keep_residual=True), **drawn) == pytest.approx(exact, abs=0.02)
    assert Painter.calls["decode"] == 3 * (1 + len(DO))  # in each of three batches: to know the residual, and every x_c


def test_refusals():
    with pytest.raises(
        UserError, match="a Stripes has no mechanism of its own. Give Bias one, and do: .*faces-modulated"
    ):
        measured(Stripes(HAIR), Bias())
    weight = {"name": "weight", "kind": "continuous", "values": []}
    with pytest.raises(UserError, match="a classifier, not of one that predicts a value"):
        measured(Classifier(SHAPE, width=0.1, target=weight), Bias())
    with pytest.raises(UserError, match="a classifier, not of a Painter"):
        Bias().load_mechanisms(fitted(Painter, Painted()), Painted())
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
