"""The loaders of the shared base: each image once an epoch, ordered by seed and epoch alone, shared among devices."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DistributedSampler

from cfgen.batch import Batch
from cfgen.errors import UserError
from datamodules import AttributeDataModule
from datamodules.base import Split
from tests.quiet_trainer import quiet_trainer

SIZES = {"train": 107, "val": 23, "test": 30}


class Counted(AttributeDataModule):
    """Images whose target is their own row, so that a batch shows what it was made of."""

    def __init__(self, batch_size: int = 10, seed: int = 0, **graph: Any) -> None:
        attributes = {"size": {"kind": "continuous"}, "shade": {"kind": "continuous"}, "old": {"kind": "binary"}}
        graph = {"edges": [["size", "shade"]], "mechanisms": {"shade": {"kind": "gaussian"}}} | graph
        super().__init__(attributes, image_shape=(1, 4, 4), batch_size=batch_size, seed=seed, **graph)

    def read_splits(self) -> dict[str, Split]:
        return {name: self.made(rows, scale) for scale, (name, rows) in enumerate(SIZES.items(), start=1)}

    @staticmethod
    def made(rows: int, scale: int) -> Split:
        row = torch.arange(rows)
        columns = {"size": row * float(scale), "shade": 5.0 - row, "old": (row % 2).float()}
        return Split((row % 256).to(torch.uint8)[:, None, None, None].expand(-1, 1, 4, 4), columns, row)


@pytest.fixture
def data() -> Counted:
    data = Counted()
    data.setup()
    return data


def order(data: AttributeDataModule, epoch: int, split: str = "train") -> list[list[int]]:
    """The rows of each batch of an epoch, after Lightning has told the sampler which it is."""
    loader = getattr(data, f"{split}_dataloader")()
    loader.sampler.set_epoch(epoch)
    return [batch.y.tolist() for batch in loader]


def on_device(data: AttributeDataModule, rank: int, devices: int) -> AttributeDataModule:
    device = SimpleNamespace(root_device=torch.device("cpu"))
    data.trainer = SimpleNamespace(world_size=devices, global_rank=rank, strategy=device)  # type: ignore[assignment]
    return data


def test_known_before_data_is_read() -> None:
    data = Counted()
    assert data.scm_spec == {
        "attributes": {"size": {"kind": "continuous"}, "shade": {"kind": "continuous"}, "old": {"kind": "binary"}},
        "edges": [["size", "shade"]],
        "mechanisms": {"shade": {"kind": "gaussian"}},
    }
    assert data.image_shape == (1, 4, 4)
    with pytest.raises(RuntimeError, match="setup"):
        data.schema  # noqa: B018
    before = data.scm_spec
    data.setup()
    assert data.scm_spec == before


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"edges": [["size", "shape"]]}, "'shape'.*Did you mean 'shade'"),
        ({"edges": [["size", "shade", "old"]]}, "cause, effect"),
        ({"edges": [["size", "shade"], ["shade", "size"]]}, "cycle"),
        ({"mechanisms": {"shad": {"kind": "mlp"}}}, "'shad'.*Valid: old, shade, size"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_names_are_refused_at_once(graph: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Counted(**graph)


def test_ranges_come_from_the_training_split_alone(data: Counted) -> None:
    assert data.schema.bounds("size") == (0, SIZES["train"] - 1)
    assert data.train_columns["size"].max() < data.columns("test")["size"].max() * 2
    assert data.columns("val")["size"].max() == 2 * (SIZES["val"] - 1)
    with pytest.raises(ValueError, match=r"'tset'.*Did you mean 'test'"):
        data.columns("tset")


def test_batch_after_the_transfer(data: Counted) -> None:
    raw = next(iter(data.test_dataloader()))
    assert isinstance(raw, Batch)
    assert raw.x.dtype == torch.uint8
    batch = data.on_after_batch_transfer(raw, 0)
    assert (batch.x.dtype, batch.a.dtype, batch.y.dtype) == (torch.float32, torch.float32, torch.int64)
    assert (batch.x.shape, batch.a.shape, batch.y.shape) == ((10, 1, 4, 4), (10, 3), (10,))
    torch.testing.assert_close(batch.x[:, 0, 0, 0] * 255, batch.y.float())
    torch.testing.assert_close(data.schema.decode(batch.a)["size"], data.columns("test")["size"][batch.y])
    assert data.on_after_batch_transfer(batch, 0) is batch
    assert data.on_after_batch_transfer(raw._replace(a=raw.a.double()), 0).x.dtype == torch.float64


def test_each_image_once_an_epoch(data: Counted) -> None:
    batches = order(data, epoch=0)
    assert [len(batch) for batch in batches] == [10] * 10
    assert len({row for batch in batches for row in batch}) == 100
    assert len(data.train_dataloader()) == 10


@pytest.mark.parametrize("split", ["val", "test"])
def test_evaluation_sees_all_in_order(data: Counted, split: str) -> None:
    assert [row for batch in order(data, 3, split) for row in batch] == list(range(SIZES[split]))


def test_order_is_of_seed_and_epoch_alone(data: Counted) -> None:
    first, second = order(data, 0), order(data, 1)
    assert first != second
    torch.manual_seed(123)
    assert order(data, 1) == second
    again = Counted()
    again.setup()
    assert order(again, 1) == second
    other = Counted(seed=7)
    other.setup()
    assert order(other, 0) != first


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_devices_share_the_training_split(data: Counted, devices: int) -> None:
    # Lightning leaves a DistributedSampler as it is, and would wrap any other
    assert isinstance(on_device(data, 0, devices).train_dataloader().sampler, DistributedSampler)
    shares = [order(on_device(data, rank, devices), epoch=2) for rank in range(devices)]
    assert len({len(share) for share in shares}) == 1
    rows = [row for share in shares for batch in share for row in batch]
    assert len(rows) == len(set(rows)) == SIZES["train"] // devices // 10 * 10 * devices
    # before batches are cut, all but the remainder of the division are dealt out
    dealt = [row for rank in range(devices) for row in on_device(data, rank, devices).train_dataloader().sampler]
    assert len(dealt) == len(set(dealt)) == SIZES["train"] // devices * devices


@pytest.mark.parametrize("devices", [2, 4])
def test_devices_share_evaluation_with_padding(data: Counted, devices: int) -> None:
    shares = [order(on_device(data, rank, devices), 0, "val") for rank in range(devices)]
    assert len({sum(map(len, share)) for share in shares}) == 1
    assert {row for share in shares for batch in share for row in batch} == set(range(SIZES["val"]))


def test_more_than_there_is(data: Counted) -> None:
    with pytest.raises(UserError, match="batch_size 10 on 11 device"):
        on_device(data, 0, 11).train_dataloader()


class Recorder(pl.LightningModule):
    """Writes down the rows of each training batch and checks what reaches a module."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.seen: list[list[int]] = []

    def training_step(self, batch: Batch, _: int) -> Tensor:
        assert batch.x.is_floating_point()
        assert batch.x.max() <= 1
        self.seen.append(batch.y.tolist())
        return self.layer(batch.a).mean()

    def validation_step(self, batch: Batch, _: int) -> None:
        assert batch.x.is_floating_point()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(folder: Path, epochs: int, ckpt_path: Path | None = None, **options: Any) -> Recorder:
    module, trainer = Recorder(), quiet_trainer(folder, max_epochs=epochs, **options)
    trainer.fit(module, datamodule=Counted(), ckpt_path=ckpt_path, weights_only=True)
    trainer.save_checkpoint(folder / f"{epochs}.ckpt")
    return module


def test_resumed_run_sees_the_order_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", epochs=3).seen
    assert len(whole) == 30
    assert len({str(whole[e * 10 : e * 10 + 10]) for e in range(3)}) == 3
    first = fit(tmp_path, epochs=2).seen
    assert whole == first + fit(tmp_path, epochs=3, ckpt_path=tmp_path / "2.ckpt").seen


def test_nobody_is_advised_to_take_workers(tmp_path: Path) -> None:
    """Lightning's advice is wrong here, where batches come from memory; also for those who use no command of ours."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit(tmp_path, epochs=1)
    assert not [warning for warning in told if "workers" in str(warning.message)]


@pytest.mark.filterwarnings("ignore:You requested to overfit but enabled")  # it says that it replaces the sampler
def test_overfit_batches(tmp_path: Path) -> None:
    """The Trainer replaces the sampler here; batches stay batches."""
    seen = fit(tmp_path, epochs=2, overfit_batches=2).seen
    assert seen == [list(range(10)), list(range(10, 20))] * 2


@pytest.mark.parametrize("precision", ["bf16-true", "64-true"])
def test_precision_reaches_the_images(tmp_path: Path, precision: str) -> None:
    assert len(fit(tmp_path, epochs=1, precision=precision).seen) == 10
