"""A classifier takes from the data what its target is: two classes, several, or a value; and learns each."""

import pytest
import pytorch_lightning as pl
import torch

from cfgen.checkpoints import load_module
from cfgen.errors import UserError
from cfgen.training.cli import target_of
from lightning_modules import Classifier
from tests.audit.herd import ANIMALS, Herd
from tests.fakes import SHAPE, Painted, saved
from tests.quiet_trainer import quiet_trainer


def learned(data, folder):
    pl.seed_everything(0, verbose=False)
    classifier = Classifier(SHAPE, width=0.2, lr=3e-3, target=target_of(data))
    trainer = quiet_trainer(folder, max_epochs=10)
    trainer.fit(classifier, datamodule=data)
    return classifier, {name: value.item() for name, value in trainer.callback_metrics.items()}


def test_several_classes_from_the_data(tmp_path):
    data = Herd(rows=400)
    classifier, metrics = learned(data, tmp_path)
    assert classifier.classes == 3
    assert tuple(classifier.target["values"]) == ANIMALS
    commonest = torch.bincount(data.targets("val")).max() / 400
    assert metrics["val/accuracy"] > commonest + 0.1


def test_a_value_from_the_data_in_its_own_units(tmp_path):
    data = Herd(rows=400, continuous=True)
    classifier, metrics = learned(data, tmp_path)
    y = data.targets("val")
    assert metrics["val/mean_abs_error"] < 0.7 * (y - y.median()).abs().mean()
    loaded = load_module(saved(classifier, tmp_path / "scales.ckpt"), Classifier).eval()
    x = data.images("val")[:20].float() / 255
    torch.testing.assert_close(loaded.predict(x), classifier.eval().predict(x))
    assert loaded.continuous


def test_two_classes_are_what_they_were():
    assert target_of(Painted()) == {"name": "y", "kind": "binary", "values": []}
    plain, told = Classifier(SHAPE, 2, width=0.1), Classifier(SHAPE, width=0.1, target=target_of(Painted()))
    assert plain.classes == told.classes == 2
    assert plain.state_dict().keys() == told.state_dict().keys()


@pytest.mark.parametrize(
    ("classes", "target"), [(2, target_of(Herd())), (2, target_of(Herd(continuous=True))), (None, None)]
)
def test_a_number_of_classes_that_the_data_does_not_have_is_refused(classes, target):
    with pytest.raises(UserError) as refusal:
        Classifier(SHAPE, classes, target=target)
    assert refusal.value.argument == "classes"
