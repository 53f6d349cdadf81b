"""Predictor: learns what can be read, speaks in real units, and is whole in its checkpoint."""

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from cfgen.attributes import Schema
from cfgen.batch import Batch
from cfgen.errors import UserError
from cfgen.runs.loading import load, load_reader
from lightning_modules import Predictor
from tests.quiet_trainer import quiet_trainer

SCM = {
    "attributes": {
        "brightness": {"kind": "continuous"},  # of the whole image; its range is only in the data
        "corner": {"kind": "binary"},  # a white corner
        "third": {"kind": "categorical", "values": ["top", "middle", "bottom"]},  # which has a black bar
    },
    "edges": [],
    "mechanisms": {},
}


class Readable(pl.LightningDataModule):
    """Images whose attributes anyone can see: brightness from -20 to 60, a white corner, a black bar."""

    def __init__(self, rows: int = 500) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        grey = torch.rand(rows, generator=generator)
        corner = torch.randint(2, (rows,), generator=generator)
        third = torch.randint(3, (rows,), generator=generator)
        self.x = (0.2 + 0.6 * grey)[:, None, None, None].repeat(1, 1, 28, 28)
        for row in range(rows):
            self.x[row, :, 3 + 9 * int(third[row]) : 7 + 9 * int(third[row])] = 0.0
            self.x[row, :, :8, :8] = corner[row].float()
        self.train_columns = {"brightness": grey * 80 - 20, "corner": corner.float(), "third": third.float()}
        self.schema = Schema(SCM["attributes"]).fit_ranges(self.train_columns)
        self.a = self.schema.encode(self.train_columns)

    def loader(self, rows: slice, shuffle: bool) -> DataLoader:
        batches = [Batch(x, a, torch.tensor(0)) for x, a in zip(self.x[rows], self.a[rows], strict=True)]
        return DataLoader(batches, batch_size=20, shuffle=shuffle)

    def train_dataloader(self) -> DataLoader:
        return self.loader(slice(0, 400), shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return self.loader(slice(400, None), shuffle=False)


@pytest.fixture(scope="module")
def data() -> Readable:
    return Readable()


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    pl.seed_everything(0, verbose=False)
    reader = Predictor(SCM, (1, 28, 28), width=0.25, lr=2e-3, lr_decay=True)
    path = tmp_path_factory.mktemp("reader") / "last.ckpt"
    trainer = quiet_trainer(path.parent, max_epochs=6)
    trainer.fit(reader, datamodule=data)
    trainer.save_checkpoint(path)
    return reader.eval(), path, trainer


@torch.inference_mode()
def test_it_learns_what_can_be_read_and_says_it_in_real_units(data, trained):
    reader, _, trainer = trained
    held_out = slice(400, None)
    read = reader.read(data.x[held_out])
    error = (read["brightness"] - data.train_columns["brightness"][held_out]).abs().mean()
    assert error < 4  # of a range of 80
    assert read["brightness"].min() < -10  # neither cut at 0 nor squeezed by a sigmoid
    assert read["brightness"].max() > 50
    accuracies = {
        name: (read[name] == data.train_columns[name][held_out]).float().mean() for name in ("corner", "third")
    }
    assert min(accuracies.values()) > 0.97
    logged = trainer.callback_metrics
    assert logged["val/mean_abs_error/brightness"] == pytest.approx(error.item(), rel=1e-4)
    assert logged["val/accuracy/third"] == pytest.approx(accuracies["third"].item(), abs=1e-6)


def test_outputs_are_values_and_logits(data):
    """Decided by hand: a scaled value may leave [0, 1], a binary logit is cut at 0, the largest logit names the value."""
    reader = Predictor(SCM, (1, 28, 28), width=0.1)
    reader.schema.fit_ranges({**data.train_columns, "brightness": torch.tensor([-20.0, 60.0])})
    read = reader.decide(
        torch.tensor([[1.5, 0.1, -3.0, -1.0, -2.0], [0.5, -0.1, 9.0, 0.0, 0.0], [0.0, 7.0, 0.0, 0.0, 4.0]])
    )
    assert read["brightness"].tolist() == [100.0, 20.0, -20.0]
    assert read["corner"].tolist() == [1.0, 0.0, 1.0]
    assert read["third"].tolist() == [1.0, 0.0, 2.0]


@torch.inference_mode()
def test_a_loaded_reader_is_the_same_and_needs_no_data(data, trained):
    reader, path, _ = trained
    loaded = load_reader(path)
    assert loaded.schema.spec == reader.schema.spec == data.schema.spec
    low, high = loaded.schema.bounds("brightness")
    assert low == data.train_columns["brightness"].min()
    assert high == data.train_columns["brightness"].max()
    assert not loaded.training
    for name, column in loaded.read(data.x[:50]).items():
        assert torch.equal(column, reader.read(data.x[:50])[name])


def test_refusals(trained, data, tmp_path):
    with pytest.raises(UserError, match="Predictor, but a ImageMechanismModule is needed"):
        load(trained[1])
    with pytest.raises(UserError, match="not for image_shape=\\[1, 30, 30\\]"):
        Predictor(SCM, (1, 30, 30))
    endless = quiet_trainer(tmp_path, max_epochs=-1)
    with pytest.raises(UserError, match="lr_decay needs a known end"):
        endless.fit(Predictor(SCM, (1, 28, 28), width=0.1, lr_decay=True), datamodule=data)
