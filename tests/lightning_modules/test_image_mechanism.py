"""What a model of one's own is told before it is trained for nothing."""

import pytest
import torch
from torch import nn

from callbacks import MedianAbsError
from cfgen.errors import UserError
from datamodules import MorphoMNIST
from lightning_modules import ImageMechanismModule
from tests.fakes import FACES, SHAPE, Measured, Painted
from tests.quiet_trainer import quiet_trainer


class Copy(ImageMechanismModule):
    def __init__(self, scm, image_shape, save=True):
        super().__init__(scm, image_shape)
        if save:
            self.save_hyperparameters()
        self.weight = nn.Parameter(torch.zeros(()))

    def prior(self, a, noise=None):
        return torch.zeros(len(a), *self.image_shape)

    def abduct(self, x, a, noise=None):
        return x

    def decode(self, z, a):
        return z + self.weight

    def training_step(self, batch, _):
        return (self.decode(batch.x, batch.a) - batch.x).square().mean()

    def validation_step(self, batch, _):
        self.log("val/loss", self.training_step(batch, 0))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def test_what_could_not_be_loaded_again_is_not_trained(digits_cache, tmp_path):
    data = MorphoMNIST(limit=300, batch_size=50, cache_dir=str(digits_cache))
    with pytest.raises(UserError, match=r"Copy could not be loaded again: call self.save_hyperparameters\(\)"):
        quiet_trainer(tmp_path, max_epochs=1).fit(Copy(data.scm_spec, data.image_shape, False), datamodule=data)
    quiet_trainer(tmp_path, max_epochs=1).fit(Copy(data.scm_spec, data.image_shape), datamodule=data)


def test_a_mechanism_that_callers_could_not_call_is_refused_when_it_is_written():
    with pytest.raises(UserError, match=r"Older.abduct takes \(x, a\), and \(x, a, noise=None\) is expected"):

        class Older(Copy):
            def abduct(self, x, a):
                return x

    class Half(ImageMechanismModule):
        def abduct(self, x, a, noise=None):
            return x

    with pytest.raises(TypeError, match="abstract"):
        Half({"attributes": FACES}, SHAPE)


def test_what_cannot_be_measured_is_not():
    """By what the data says that it measures, whatever its attributes are called."""
    thick = {"thickness": {"kind": "continuous"}, "Bangs": {"kind": "binary"}}
    with pytest.raises(ValueError, match="Painted cannot"):
        MedianAbsError().check(Painted(thick))
    with pytest.raises(ValueError, match="Measured cannot"):
        MedianAbsError().check(Measured(FACES))
    MedianAbsError().check(Measured(thick))
