"""What a model of one's own is told before it is trained for nothing."""

import pytest
import torch
from torch import nn

from callbacks import MedianAbsError
from cfgen.attributes import Schema
from cfgen.errors import UserError
from datamodules import MorphoMNIST
from lightning_modules import ImageMechanismModule
from tests.quiet_trainer import quiet_trainer


class Copy(ImageMechanismModule):
    def __init__(self, scm, image_shape, save=True):
        super().__init__(scm, image_shape)
        if save:
            self.save_hyperparameters()
        self.weight = nn.Parameter(torch.zeros(()))

    def prior(self, rows):
        return torch.zeros(rows, *self.image_shape)

    def abduct(self, x, a):
        return x

    def decode(self, z, a):
        return z + self.weight

    def training_step(self, batch, _):
        return (self.decode(batch.x, batch.a) - batch.x).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


def test_what_could_not_be_loaded_again_is_not_trained(digits_cache, tmp_path):
    data = MorphoMNIST(limit=300, batch_size=50, cache_dir=str(digits_cache))
    with pytest.raises(UserError, match=r"Copy could not be loaded again: call self.save_hyperparameters\(\)"):
        quiet_trainer(tmp_path, max_epochs=1).fit(Copy(data.scm_spec, data.image_shape, False), datamodule=data)
    quiet_trainer(tmp_path, max_epochs=1).fit(Copy(data.scm_spec, data.image_shape), datamodule=data)


def test_what_cannot_be_measured_is_not():
    with pytest.raises(ValueError, match="this data has none of these"):
        MedianAbsError().check(Schema({"size": {"kind": "continuous"}, "thickness": {"kind": "binary"}}))
