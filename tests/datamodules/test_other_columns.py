"""Columns beside the attributes: read with the table, checked as columns are, and never seen by a model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cfgen.attributes import Schema
from cfgen.contracts import other_columns
from cfgen.errors import UserError
from datamodules import Faces, MorphoMNIST
from datamodules.base import Split, checked
from datamodules.faces.scm import ATTRIBUTES as FIFTEEN
from datamodules.sources.celeba_files import ATTRIBUTES as FORTY
from tests.datamodules.celeba_folder import TABLE, ready
from tests.fakes import Painted

SPLITS = ("train", "val", "test")
SCHEMA, SHAPE, ROWS = Schema({"round": {"kind": "binary"}}), (1, 4, 4), 6


def splits(others: dict[str, Any]) -> dict[str, Split]:
    split = Split(torch.zeros(ROWS, *SHAPE, dtype=torch.uint8), {"round": torch.zeros(ROWS)}, torch.zeros(ROWS))
    return {"train": split, "val": split, "test": replace(split, others=others)}


def table(folder: Path) -> dict[str, dict[str, int]]:
    """CelebA's table, by name of the image."""
    header, *rows = (folder / TABLE).read_text().splitlines()[1:]
    return {
        name: dict(zip(header.split(), map(int, signs), strict=True)) for name, *signs in (row.split() for row in rows)
    }


def test_a_split_has_none_unless_it_says_so() -> None:
    made = checked(splits({}), SCHEMA, SHAPE)
    assert all(split.others == {} for split in made.values())


@pytest.mark.parametrize("of", [list, np.array, torch.tensor])
def test_numbers_of_any_kind_are_taken(of: Callable[[Any], Any]) -> None:
    made = checked(splits({"year": of([1999.5] * ROWS)}), SCHEMA, SHAPE)["test"]
    assert made.others["year"].tolist() == [1999.5] * ROWS
    assert list(made.columns) == ["round"]


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"year": torch.zeros(ROWS - 1)}, r"6 images, and year has the shape \(5,\)"),
        ({"year": torch.zeros(ROWS, 1)}, r"6 images, and year has the shape \(6, 1\)"),
        ({"year": torch.full((ROWS,), torch.nan)}, "year that are not finite"),
        ({"year": ["1999"] * ROWS}, "year that are not numbers"),
        ({"round": torch.zeros(ROWS)}, "round among its other columns: that is an attribute already"),
    ],
)
def test_others_are_checked_as_columns_are(others: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^the test split has .*{message}"):
        checked(splits(others), SCHEMA, SHAPE)


def test_data_without_any_has_none() -> None:
    data = Painted()
    data.setup()
    assert other_columns(data, "test") == {}
    assert other_columns(object(), "test") == {}


@pytest.mark.parametrize("options", [{}, {"attributes": ["Bangs", "Male"]}, {"target": "Smiling"}])
def test_celeba_has_the_rest_of_its_table(made: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    data, rows = ready(made, tmp_path, image_size=20, **options), table(made)
    rest = set(FORTY) - set(data.schema.names) - {data.target}
    assert rest >= {"Blurry", "Young"}
    for split in SPLITS:
        others = other_columns(data, split)
        assert set(others) == rest
        for name, column in others.items():
            assert column.tolist() == [(rows[image][name] + 1) // 2 for image in data.names(split)]


def test_a_column_that_celeba_does_not_have_is_offered_too(layout: Path, tmp_path: Path) -> None:
    count, header, *rows = (layout / TABLE).read_text().splitlines()
    signs = [(-1, 1)[k % 3 == 0] for k in range(len(rows))]
    wider = [f"{row} {sign}" for row, sign in zip(rows, signs, strict=True)]
    (layout / TABLE).write_text("\n".join([count, f"{header} Studio", *wider]) + "\n")
    data = ready(layout, tmp_path / "cache", image_size=20)
    by_image = dict(zip((row.split()[0] for row in rows), signs, strict=True))
    assert data.other_columns("val")["Studio"].tolist() == [(by_image[name] + 1) // 2 for name in data.names("val")]


def test_models_and_the_cache_know_nothing_of_them(made: Path, tmp_path: Path) -> None:
    few, all_but_one = (
        ready(made, tmp_path, image_size=20, attributes=names)
        for names in (["Bangs"], [name for name in FORTY if name not in ("Attractive", "Male")])
    )
    assert len(few.other_columns("train")) == 38
    assert few.cache_file == all_but_one.cache_file
    assert len(list(tmp_path.glob("*.npy"))) == 1
    assert next(iter(few.train_dataloader())).a.shape[1] == 1
    assert list(few.columns("train")) == ["Bangs"]


def test_faces_have_the_rest_of_the_fifteen(tmp_path: Path) -> None:
    whole, part = Faces(20, cache_dir=str(tmp_path)), Faces(20, cache_dir=str(tmp_path), attributes=["Bangs", "Young"])
    for data in (whole, part):
        data.setup()
    assert whole.other_columns("train") == {}
    others = part.other_columns("train")
    assert set(others) == set(FIFTEEN) - {"Bangs", "Young"}
    assert all(torch.equal(column, whole.columns("train")[name]) for name, column in others.items())


def test_digits_have_what_their_models_do_not_see(small: MorphoMNIST) -> None:
    part = MorphoMNIST(limit=300, cache_dir=str(small.cache_dir), attributes=["thickness"])
    part.setup()
    others = part.other_columns("test")
    assert list(others) == ["intensity", "slant"]
    assert torch.equal(others["slant"], small.columns("test")["slant"])
    assert small.other_columns("test") == {}
