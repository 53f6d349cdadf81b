"""`checked`: splits of a user's own are what the rest relies on, or are refused in one line that says where and what."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from cfgen.attributes import Schema
from cfgen.errors import UserError
from datamodules import AttributeDataModule
from datamodules.base import Split, checked

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "size": {"kind": "continuous"},
    "round": {"kind": "binary"},
    "colour": {"kind": "categorical", "values": ["red", "green", "blue"]},
}
SHAPE = (1, 4, 4)
ROWS = 6

Change = Callable[[Split], Split]


def made() -> dict[str, Split]:
    """Three splits with nothing wrong, and numbers of their own."""
    generator = torch.Generator().manual_seed(0)
    splits = {}
    for name in ("train", "val", "test"):
        images = torch.randint(0, 256, (ROWS, *SHAPE), generator=generator, dtype=torch.uint8)
        columns = {
            "size": torch.rand(ROWS, generator=generator) * 9,
            "round": torch.tensor([0.0, 1.0] * (ROWS // 2)),
            "colour": torch.tensor([0.0, 1.0, 2.0] * (ROWS // 3)),
        }
        splits[name] = Split(images, columns, torch.arange(ROWS))
    return splits


def as_arrays(split: Split) -> Split:
    columns: dict[str, Any] = {name: column.numpy() for name, column in split.columns.items()}
    images: Any = split.images.numpy()
    y: Any = split.y.numpy()
    return Split(images, columns, y)


def with_column(name: str, column: Tensor) -> Change:
    return lambda split: replace(split, columns=split.columns | {name: column})


def without_column(name: str) -> Change:
    return lambda split: replace(split, columns={n: c for n, c in split.columns.items() if n != name})


MALFORMED: dict[str, tuple[Change, str]] = {
    "float images": (lambda split: replace(split, images=split.images / 255), "images of torch.float32"),
    "channels last": (lambda split: replace(split, images=split.images.permute(0, 2, 3, 1)), r"\(N, 1, 4, 4\)"),
    "no channels": (lambda split: replace(split, images=split.images[:, 0]), r"\(6, 4, 4\)"),
    "another size": (lambda split: replace(split, images=split.images[..., :3]), r"\(6, 1, 4, 3\)"),
    "one image fewer": (lambda split: replace(split, images=split.images[1:]), "5 images, and size"),
    "column too short": (with_column("round", torch.zeros(ROWS - 1)), r"6 images, and round .*\(5,\)"),
    "column of rows": (with_column("size", torch.zeros(ROWS, 1)), r"6 images, and size .*\(6, 1\)"),
    "y too long": (lambda split: replace(split, y=torch.arange(ROWS + 1)), r"6 images, and y .*\(7,\)"),
    "missing column": (without_column("colour"), "no column for colour"),
    "NaN": (with_column("size", torch.tensor([1.0] * (ROWS - 1) + [torch.nan])), "size that are not finite"),
    "infinite": (with_column("size", torch.tensor([1.0] * (ROWS - 1) + [torch.inf])), "size that are not finite"),
    "NaN in y": (lambda split: replace(split, y=torch.full((ROWS,), torch.nan)), "y that are not finite"),
    "-1 and 1": (with_column("round", torch.tensor([-1.0, 1.0] * 3)), "round from -1 to 1: 0 and 1"),
    "-1 and 1, whole": (with_column("round", torch.tensor([-1, 1] * 3)), "round from -1 to 1: 0 and 1"),
    "half": (with_column("round", torch.tensor([0.5, 1.0] * 3)), "round from 0.5 to 1: 0 and 1"),
    "from 1 on": (with_column("colour", torch.tensor([1.0, 2.0, 3.0] * 2)), "colour from 1 to 3: the positions 0 to 2"),
    "between two": (
        with_column("colour", torch.tensor([0.0, 1.5, 2.0] * 2)),
        "colour from 0 to 2: the positions 0 to 2",
    ),
}


@pytest.mark.parametrize("where", ["train", "val", "test"])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_split_is_refused_by_name(name: str, where: str) -> None:
    change, message = MALFORMED[name]
    splits = made()
    splits[where] = change(splits[where])
    with pytest.raises(UserError, match=rf"^the {where} split has .*{message}") as refusal:
        checked(splits, Schema(ATTRIBUTES), SHAPE)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("names", [["train", "val"], ["train", "valid", "test"], ["train", "val", "test", "extra"]])
def test_other_splits_are_refused(names: list[str]) -> None:
    with pytest.raises(UserError, match=f"splits {', '.join(names)}, and train, val and test are expected"):
        checked(dict.fromkeys(names, made()["train"]), Schema(ATTRIBUTES), SHAPE)


def test_what_is_right_stays_as_it_is() -> None:
    splits = made()
    for name, split in checked(splits, Schema(ATTRIBUTES), SHAPE).items():
        assert split.images is splits[name].images
        assert split.y is splits[name].y
        assert list(split.columns) == list(ATTRIBUTES)
        assert all(split.columns[column] is splits[name].columns[column] for column in ATTRIBUTES)


def test_columns_come_in_the_order_of_the_attributes_and_others_are_left_out() -> None:
    splits = made()
    more = {"note": torch.full((ROWS,), torch.nan)} | dict(reversed(splits["train"].columns.items()))
    splits["train"] = replace(splits["train"], columns=more)
    assert list(checked(splits, Schema(ATTRIBUTES), SHAPE)["train"].columns) == list(ATTRIBUTES)


def test_arrays_are_taken_and_equal_tensors() -> None:
    tensors, arrays = made(), {name: as_arrays(split) for name, split in made().items()}
    for name, split in checked(arrays, Schema(ATTRIBUTES), SHAPE).items():
        torch.testing.assert_close(split.images, tensors[name].images, rtol=0, atol=0)
        torch.testing.assert_close(split.columns, tensors[name].columns, rtol=0, atol=0)
        torch.testing.assert_close(split.y, tensors[name].y, rtol=0, atol=0)


class Own(AttributeDataModule):
    """Data of a user's, whose columns have a type that numpy gives them."""

    def __init__(self, column_type: Any) -> None:
        super().__init__(ATTRIBUTES, [], {}, SHAPE, batch_size=ROWS, seed=0)
        self.column_type = column_type

    def read_splits(self) -> dict[str, Split]:
        splits = {name: as_arrays(split) for name, split in made().items()}
        for split in splits.values():
            for name in ("round", "colour") if self.column_type is not np.float64 else ATTRIBUTES:
                split.columns[name] = np.asarray(split.columns[name]).astype(self.column_type)  # type: ignore[assignment]
        return splits


@pytest.mark.parametrize("column_type", [np.float64, np.float32, np.int64, np.uint8])
def test_a_batch_does_not_depend_on_the_type_of_the_columns(column_type: Any) -> None:
    """numpy's numbers are float64 and int64 where nothing is said, and a network's are float32."""
    data = Own(column_type)
    data.setup()
    batch = data.on_after_batch_transfer(next(iter(data.test_dataloader())), 0)
    assert (batch.x.dtype, batch.a.dtype) == (torch.float32, torch.float32)
    reference = made()
    schema = Schema(ATTRIBUTES)
    schema.fit_ranges(reference["train"].columns)
    torch.testing.assert_close(batch.a, schema.encode(reference["test"].columns))


def test_bool_is_a_binary_column() -> None:
    splits = made()
    splits["train"] = with_column("round", torch.tensor([False, True] * 3))(splits["train"])
    assert checked(splits, Schema(ATTRIBUTES), SHAPE)["train"].columns["round"].tolist() == [False, True] * 3
