"""Predictor: learns what can be read, speaks in real units, and is whole in its checkpoint."""

import pytest
import pytorch_lightning as pl
import torch

from cfgen.checkpoints import load_module
from cfgen.errors import UserError
from cfgen.io.classes import found_class
from cfgen.runs.model import load_trained
from datamodules.base import AttributeDataModule, Split
from lightning_modules import Predictor
from tests.fakes import SHAPE
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


class Readable(AttributeDataModule):
    """Images whose attributes anyone can see: brightness from -20 to 60, a white corner, a black bar."""

    def __init__(self) -> None:
        super().__init__(SCM["attributes"], [], {}, SHAPE, batch_size=20, seed=0)

    def read_splits(self) -> dict[str, Split]:
        sizes = {"train": 400, "val": 100, "test": 100}
        return {name: self.split(rows, seed) for seed, (name, rows) in enumerate(sizes.items())}

    def split(self, rows: int, seed: int) -> Split:
        generator = torch.Generator().manual_seed(seed)
        grey = torch.rand(rows, generator=generator)
        corner = torch.randint(2, (rows,), generator=generator)
        third = torch.randint(3, (rows,), generator=generator)
        x = (0.2 + 0.6 * grey)[:, None, None, None].repeat(1, 1, 28, 28)
        for row in range(rows):
            x[row, :, 3 + 9 * int(third[row]) : 7 + 9 * int(third[row])] = 0.0
            x[row, :, :8, :8] = corner[row].float()
        columns = {"brightness": grey * 80 - 20, "corner": corner.float(), "third": third.float()}
        return Split((x * 255).round().to(torch.uint8), columns, corner)


@pytest.fixture(scope="module")
def data() -> Readable:
    data = Readable()
    data.setup()
    return data


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    pl.seed_everything(0, verbose=False)
    predictor = Predictor(SCM, (1, 28, 28), width=0.25, lr=2e-3, lr_decay=True)
    path = tmp_path_factory.mktemp("predictor") / "last.ckpt"
    trainer = quiet_trainer(path.parent, max_epochs=6)
    trainer.fit(predictor, datamodule=data)
    trainer.save_checkpoint(path)
    return predictor.eval(), path, trainer


@torch.inference_mode()
def test_it_learns_what_can_be_read_and_says_it_in_real_units(data, trained):
    predictor, _, trainer = trained
    held_out = data.columns("val")
    read = predictor.read(data.images("val") / 255)
    error = (read["brightness"] - held_out["brightness"]).abs().mean()
    assert error < 4  # of a range of 80
    assert read["brightness"].min() < -10  # neither cut at 0 nor squeezed by a sigmoid
    assert read["brightness"].max() > 50
    accuracies = {name: (read[name] == held_out[name]).float().mean() for name in ("corner", "third")}
    assert min(accuracies.values()) > 0.97
    logged = trainer.callback_metrics
    assert logged["val/mean_abs_error/brightness"] == pytest.approx(error.item(), rel=1e-4)
    assert logged["val/accuracy/third"] == pytest.approx(accuracies["third"].item(), abs=1e-6)


def test_outputs_are_values_and_logits(data):
    """Decided by hand: a scaled value may leave [0, 1], a binary logit is cut at 0, the largest logit names the value."""
    predictor = Predictor(SCM, (1, 28, 28), width=0.1)
    predictor.schema.fit_ranges({**data.train_columns, "brightness": torch.tensor([-20.0, 60.0])})
    read = predictor.decide(
        torch.tensor([[1.5, 0.1, -3.0, -1.0, -2.0], [0.5, -0.1, 9.0, 0.0, 0.0], [0.0, 7.0, 0.0, 0.0, 4.0]])
    )
    assert read["brightness"].tolist() == [100.0, 20.0, -20.0]
    assert read["corner"].tolist() == [1.0, 0.0, 1.0]
    assert read["third"].tolist() == [1.0, 0.0, 2.0]


@torch.inference_mode()
def test_a_loaded_predictor_is_the_same_and_needs_no_data(data, trained):
    predictor, path, _ = trained
    loaded = load_module(path, Predictor)
    assert loaded.schema.spec == predictor.schema.spec == data.schema.spec
    low, high = loaded.schema.bounds("brightness")
    assert low == data.train_columns["brightness"].min()
    assert high == data.train_columns["brightness"].max()
    loaded.eval()
    x = data.images("val")[:50] / 255
    for name, column in loaded.read(x).items():
        assert torch.equal(column, predictor.read(x)[name])


@pytest.mark.parametrize(
    "path", ["lightning_modules.AttributeReader", "lightning_modules.attribute_reader.AttributeReader"]
)
def test_earlier_versions_called_it_a_reader(path):
    assert found_class(path, Predictor, "a checkpoint") is Predictor


@pytest.mark.parametrize("network", ["residual", "patches"])
def test_a_judge_learns_from_augmented_images(data, network, tmp_path):
    """Another network in the same place: it reads what can be read, and comes back from its checkpoint the same."""
    pl.seed_everything(0, verbose=False)
    judge = Predictor(SCM, (1, 28, 28), width=0.5, lr=3e-3, lr_decay=True, network=network, augment=0.5)
    trainer = quiet_trainer(tmp_path, max_epochs=8)
    trainer.fit(judge, datamodule=data)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    loaded = load_module(tmp_path / "last.ckpt", Predictor).eval()
    x, held_out = data.images("val") / 255, data.columns("val")
    read = loaded.read(x)
    assert all(torch.equal(read[name], column) for name, column in judge.eval().read(x).items())
    assert (read["third"] == held_out["third"]).float().mean() > 0.9
    assert (read["corner"] == held_out["corner"]).float().mean() > 0.9


def test_checkpoints_of_earlier_versions_have_the_table(trained, tmp_path):
    predictor, path, _ = trained
    checkpoint = torch.load(path, weights_only=True)
    for later in ("network", "augment"):
        del checkpoint["hyper_parameters"][later]
    torch.save(checkpoint, tmp_path / "old.ckpt")
    old = load_module(tmp_path / "old.ckpt", Predictor)
    assert old.state_dict().keys() == predictor.state_dict().keys()
    assert (old.hparams["network"], old.augment) == ("table", 0)


def test_refusals(trained, data, tmp_path):
    with pytest.raises(UserError, match="augment is from 0 to 1"):
        Predictor(SCM, (1, 28, 28), network="residual", augment=1.5)
    with pytest.raises(UserError, match="Predictor, but a ImageMechanismModule is needed"):
        load_trained(trained[1])
    with pytest.raises(UserError, match="resize them to 28 or 32"):
        Predictor(SCM, (1, 30, 30))
    endless = quiet_trainer(tmp_path, max_epochs=-1)
    with pytest.raises(UserError, match="lr_decay needs a known end"):
        endless.fit(Predictor(SCM, (1, 28, 28), width=0.1, lr_decay=True), datamodule=data)
