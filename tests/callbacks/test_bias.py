"""The Bias callback: exact values for classifiers that read one thing, what a checkpoint is chosen by, one process or two."""

import warnings

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy

from callbacks import BestCheckpoint, Bias
from callbacks.bias import intervention_name
from cfgen.attributes import Schema
from cfgen.checkpoints import class_path
from cfgen.errors import UserError
from datamodules.base import AttributeDataModule, Split
from lightning_modules import Classifier, ImageMechanismModule

SHAPE = (1, 28, 28)
ATTRIBUTES = {name: {"kind": "binary"} for name in ("Black_Hair", "Pale_Skin", "Bangs")}
DO = [{"Black_Hair": 1}, {"Pale_Skin": 1}, {"Bangs": 1}, {"Black_Hair": 0}, {"Black_Hair": 1, "Pale_Skin": 1}]


def painted(a: torch.Tensor) -> torch.Tensor:
    """Each attribute whitens eight rows of the image."""
    return (a.repeat_interleave(8, dim=1)[:, None, :, None] * 0.5).expand(-1, 1, 24, 28)


class Painter(ImageMechanismModule):
    """The image without its attributes is z: exact counterfactuals."""

    calls = decoded = 0

    def __init__(self, scm, image_shape=SHAPE) -> None:
        super().__init__(scm, image_shape)
        self.save_hyperparameters()

    def abduct(self, x, a):
        Painter.calls += 1
        z = x.clone()
        z[:, :, :24] -= painted(a)
        return z

    def decode(self, z, a):
        Painter.decoded += 1
        x = z.clone()
        x[:, :, :24] += painted(a)
        return x


class Dimming(Painter):
    """Loses half of what it does not paint."""

    def decode(self, z, a):
        return super().decode(z / 2, a)


class Painted(AttributeDataModule):
    """Images, some darker than others, with brighter stripes; y is whether the hair is black."""

    def __init__(self, seed: int = 0, attributes=ATTRIBUTES) -> None:
        super().__init__(attributes, [], {}, SHAPE, batch_size=30, seed=seed)

    def read_splits(self):
        return {name: self.split(seed) for seed, name in enumerate(("train", "val", "test"))}

    def split(self, seed: int) -> Split:
        generator = torch.Generator().manual_seed(seed)
        a = torch.randint(2, (240, 3), generator=generator).float()
        x = 0.02 + 0.26 * torch.rand(240, 1, 1, 1, generator=generator).expand(-1, *SHAPE).clone()
        x[:, :, :24] += painted(a)
        return Split(
            (x * 255).round().to(torch.uint8), dict(zip(self.scm_spec["attributes"], a.T, strict=True)), a[:, 0].long()
        )


class Reader(Classifier):
    """Weighs the mean brightness of each attribute's rows; weights may change by the epoch."""

    def __init__(self, *weights) -> None:
        super(Classifier, self).__init__()
        self.weights, self.classes = weights, 2
        self.nothing = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        weights = torch.tensor(self.weights[min(self.current_epoch, len(self.weights) - 1)])
        bright = x[:, 0, :24].mean(dim=2).unflatten(1, (3, 8)).mean(dim=2)
        return (bright - 0.4) @ weights[:3] + weights[3] + 0 * self.nothing

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.0)


def fitted(kind, **options) -> Painter:
    data = Painted()
    data.setup()
    painter = kind(data.scm_spec, **options)
    painter.scm.fit(data.train_columns)
    return painter


def with_painter(*weights, do=DO) -> Reader:
    """A classifier with a mechanism of its own."""
    reader = Reader(*weights)
    reader.do = do
    object.__setattr__(reader, "mechanism", fitted(Painter))
    return reader


def saved(module, path) -> str:
    contents = {"class_path": class_path(module), "hyper_parameters": dict(module.hparams)}
    torch.save(contents | {"state_dict": module.state_dict()}, path)
    return str(path)


HAIR = (1.0, 0.0, 0.0, 0.0)
BOTH = (1.0, 0.7, 0.0, 0.0)


def trainer(**options) -> pl.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.Trainer(
            accelerator="cpu", num_sanity_val_steps=0, **{"enable_checkpointing": False} | quiet | options
        )


def measured(model, callback, data=None, **options) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (logged,) = trainer(callbacks=[callback], **options).validate(
            model, datamodule=data or Painted(), verbose=False
        )
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
    Painter.calls = 0
    trainer(max_epochs=3, limit_train_batches=1, callbacks=[Bias()]).fit(with_painter(HAIR), datamodule=Painted())
    assert Painter.calls == 3  # 240 images, at most 100 at once


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


def test_two_processes_measure_like_one():
    one = measured(with_painter(BOTH), Bias())
    two = measured(with_painter(BOTH), Bias(), devices=2, strategy=DDPStrategy(start_method="spawn"))
    assert two.pop("where_accurate") == pytest.approx(one.pop("where_accurate"), abs=1e-2)  # a distributed sampler pads
    assert two == pytest.approx(one, abs=1e-7)
    assert 0 < one["Pale_Skin"] < 1


def test_any_classifier_is_watched_with_a_mechanism_given(tmp_path):
    painter = saved(fitted(Painter), tmp_path / "painter.ckpt")
    values = measured(Reader(BOTH), Bias(painter, DO))
    assert values == measured(with_painter(BOTH), Bias())
    assert 0 < values["Pale_Skin"] < 1


def test_a_classifier_in_training_is_measured_as_it_is_in_use(tmp_path):
    """With dropout and batch norm: the answers are those of evaluation."""
    pl.seed_everything(0, verbose=False)
    model, data = Classifier(SHAPE, 2, width=0.1, lr=1e-2), Painted()
    bias = Bias(saved(fitted(Painter), tmp_path / "painter.ckpt"), [{"Black_Hair": 1}])
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
    dimming = saved(fitted(Dimming), tmp_path / "dimming.ckpt")
    exact = measured(with_painter(BOTH), Bias())
    assert measured(Reader(BOTH), Bias(dimming, DO)) != pytest.approx(exact, abs=0.05)
    Painter.decoded = 0
    assert measured(Reader(BOTH), Bias(dimming, DO, keep_residual=True)) == pytest.approx(exact, abs=0.02)
    assert Painter.decoded == 3 * (1 + len(DO))  # in each of three batches: to know the residual, and every x_c


def test_refusals():
    with pytest.raises(
        UserError, match="a Reader has no mechanism of its own. Give Bias one, and do: .*faces-modulated"
    ):
        measured(Reader(HAIR), Bias())
    with pytest.raises(UserError, match="binary classifier, not of one of 10 classes"):
        measured(Classifier(SHAPE, 10, width=0.1), Bias())
    with pytest.raises(UserError, match="binary classifier, not of a Painter"):
        Bias().found_mechanism(fitted(Painter), Painted())
    with pytest.raises(ValueError, match="keep_residual is for a mechanism given here"):
        Bias(keep_residual=True)
    with pytest.raises(UserError, match="unknown attribute 'Bang'. Did you mean 'Bangs'"):
        measured(with_painter(HAIR), Bias(do=[{"Bang": 1}]))
    with pytest.raises(ValueError, match="unknown attribute 'Bang'"):
        Bias(do=[{"Bang": 1}]).check(Schema(ATTRIBUTES))
    first = Painted()
    first.setup()
    own = {name: column[0].item() for name, column in first.columns("val").items()}
    with pytest.raises(UserError, match="changes none of the 1 validation images"):
        measured(with_painter(HAIR), Bias(do=[own], images=1))


def test_a_mechanism_that_does_not_fit_is_refused(tmp_path):
    painter = saved(fitted(Painter), tmp_path / "painter.ckpt")
    with pytest.raises(UserError, match="Bias: do names no intervention"):
        measured(Reader(HAIR), Bias(painter))
    with pytest.raises(UserError, match="no run, checkpoint or exported model at runs/nowhere"):
        Bias("runs/nowhere", DO).check(Schema(ATTRIBUTES))
    larger = saved(fitted(Painter, image_shape=(1, 64, 64)), tmp_path / "larger.ckpt")
    with pytest.raises(UserError, match="larger.ckpt makes images of 1x64x64 .*, and the data has 1x28x28"):
        measured(Reader(HAIR), Bias(larger, DO))
    others = Painted(attributes={name: {"kind": "binary"} for name in ("Black_Hair", "Pale_Skin", "Young")})
    with pytest.raises(UserError, match=r"painter.ckpt was trained with other attributes \(Bangs, Young\)"):
        measured(Reader(HAIR), Bias(painter, [{"Young": 1}]), others)


def test_names():
    assert intervention_name({"Black_Hair": 1, "Pale_Skin": 1}) == "Black_Hair+Pale_Skin"
    assert intervention_name({"Young": 0}) == "Young=0"
