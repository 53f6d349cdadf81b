"""The Bias callback: exact values for classifiers that read one thing, what a checkpoint is chosen by, one process or two."""

import warnings

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.strategies import DDPStrategy

from callbacks import BestCheckpoint, Bias
from callbacks.bias import intervention_name
from cfgen.attributes import Schema
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

    calls = 0

    def __init__(self, scm) -> None:
        super().__init__(scm, SHAPE)

    def abduct(self, x, a):
        Painter.calls += 1
        z = x.clone()
        z[:, :, :24] -= painted(a)
        return z

    def decode(self, z, a):
        x = z.clone()
        x[:, :, :24] += painted(a)
        return x


class Painted(AttributeDataModule):
    """Images, some darker than others, with brighter stripes; y is whether the hair is black."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(ATTRIBUTES, [], {}, SHAPE, batch_size=30, seed=seed)

    def read_splits(self):
        return {name: self.split(seed) for seed, name in enumerate(("train", "val", "test"))}

    def split(self, seed: int) -> Split:
        generator = torch.Generator().manual_seed(seed)
        a = torch.randint(2, (240, 3), generator=generator).float()
        x = 0.02 + 0.26 * torch.rand(240, 1, 1, 1, generator=generator).expand(-1, *SHAPE).clone()
        x[:, :, :24] += painted(a)
        return Split((x * 255).round().to(torch.uint8), dict(zip(ATTRIBUTES, a.T, strict=True)), a[:, 0].long())


class Reader(Classifier):
    """Weighs the mean brightness of each attribute's rows; weights may change by the epoch."""

    def __init__(self, *weights, do=DO) -> None:
        super(Classifier, self).__init__()
        self.weights, self.classes, self.do = weights, 2, do
        self.nothing = torch.nn.Parameter(torch.zeros(1))
        data = Painted()
        data.setup()
        object.__setattr__(self, "mechanism", Painter(data.scm_spec))
        self.mechanism.scm.fit(data.train_columns)

    def forward(self, x):
        weights = torch.tensor(self.weights[min(self.current_epoch, len(self.weights) - 1)])
        bright = x[:, 0, :24].mean(dim=2).unflatten(1, (3, 8)).mean(dim=2)
        return (bright - 0.4) @ weights[:3] + weights[3] + 0 * self.nothing

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.0)


HAIR = (1.0, 0.0, 0.0, 0.0)
BOTH = (1.0, 0.7, 0.0, 0.0)


def trainer(**options) -> pl.Trainer:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pl.Trainer(
            accelerator="cpu", num_sanity_val_steps=0, **{"enable_checkpointing": False} | quiet | options
        )


def measured(model, callback, **options) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (logged,) = trainer(callbacks=[callback], **options).validate(model, datamodule=Painted(), verbose=False)
    return {key.removeprefix("val/bias/"): value for key, value in logged.items() if key.startswith("val/bias/")}


def test_a_classifier_that_reads_hair_is_biased_for_hair_and_nothing_else():
    values = measured(Reader(HAIR), Bias())
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
    values = measured(Reader((0.0, 0.0, 0.0, offset)), Bias())
    accuracy = values.pop("where_accurate")
    assert 1 < accuracy < 2  # half of the labels are missed: it would not be chosen
    assert set(values.values()) == {0}


def test_fewer_images_and_other_interventions():
    data = Painted()
    data.setup()
    model = Reader(BOTH)
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
    trainer(max_epochs=3, limit_train_batches=1, callbacks=[Bias()]).fit(Reader(HAIR), datamodule=Painted())
    assert Painter.calls == 3  # 240 images, at most 100 at once


def test_the_checkpoint_is_the_fairest_of_the_accurate(tmp_path):
    """Inaccurate, accurate and biased, accurate and fairer, fair and inaccurate: the third."""
    guess = (0.0, 0.0, 0.0, 1.0)
    model = Reader(guess, (1.0, 0.7, 0.0, 0.0), (1.0, 0.4, 0.0, 0.0), guess, do=[{"Pale_Skin": 1}])
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
    one = measured(Reader(BOTH), Bias())
    two = measured(Reader(BOTH), Bias(), devices=2, strategy=DDPStrategy(start_method="spawn"))
    assert two.pop("where_accurate") == pytest.approx(one.pop("where_accurate"), abs=1e-2)  # a distributed sampler pads
    assert two == pytest.approx(one, abs=1e-7)
    assert 0 < one["Pale_Skin"] < 1


def test_refusals():
    with pytest.raises(UserError, match="needs a classifier with a mechanism, a CFClassifier, not a Classifier"):
        measured(Classifier(SHAPE, 2, width=0.1), Bias())
    with pytest.raises(UserError, match="unknown attribute 'Bang'. Did you mean 'Bangs'"):
        measured(Reader(HAIR), Bias(do=[{"Bang": 1}]))
    with pytest.raises(ValueError, match="unknown attribute 'Bang'"):
        Bias(do=[{"Bang": 1}]).check(Schema(ATTRIBUTES))
    first = Painted()
    first.setup()
    own = {name: column[0].item() for name, column in first.columns("val").items()}
    with pytest.raises(UserError, match="changes none of the 1 validation images"):
        measured(Reader(HAIR), Bias(do=[own], images=1))


def test_names():
    assert intervention_name({"Black_Hair": 1, "Pale_Skin": 1}) == "Black_Hair+Pale_Skin"
    assert intervention_name({"Young": 0}) == "Young=0"
