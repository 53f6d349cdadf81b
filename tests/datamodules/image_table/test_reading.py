"""A folder of pictures with a table: what is read from it, in every format and layout."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from cfgen.attributes import Categorical, TargetKind
from cfgen.errors import UserError
from datamodules import Faces, ImageTable, MorphoMNIST
from datamodules.base import AttributeDataModule
from datamodules.image_table import write_image_folder
from datamodules.sources.picture_files import SPLITS
from tests.datamodules.image_folder import COUNT, Made, ready, table_of, write_table


def same(one: AttributeDataModule, other: AttributeDataModule) -> bool:
    """Whether two sets have the same images, attributes, graph and targets."""
    return one.scm_spec == other.scm_spec and all(
        torch.equal(one.images(split), other.images(split))
        and torch.equal(one.targets(split), other.targets(split))
        and all(torch.equal(column, other.columns(split)[name]) for name, column in one.columns(split).items())
        for split in SPLITS
    )


def test_what_is_inferred(original: Made, packs: Path) -> None:
    folder, records = original
    data = table_of(folder, packs, target="extent")
    spec = data.scm_spec["attributes"]
    assert list(spec) == ["size", "hair_colour", "round"]
    assert spec["hair_colour"] == {"kind": "categorical", "values": ["blau", "green", "red"]}
    assert spec["round"] == {"kind": "binary"}
    sizes = [record["size"] for record in records]
    assert spec["size"]["kind"] == "continuous"
    assert 4 <= spec["size"]["low"] <= sorted(sizes)[5]
    assert sorted(sizes)[-5] <= spec["size"]["high"] <= 9
    assert data.target_kind == TargetKind("extent", "categorical", ("large", "middle", "small"))
    assert (data.target, data.image_shape, data.findings) == ("extent", (3, 16, 16), [])
    assert table_of(folder, packs, image_size=None).image_shape in (
        (3, 24, 24),
        (3, 28, 28),
    )  # half of the shorter sides


def test_every_row_is_served_as_it_is_written(original: Made, packs: Path) -> None:
    folder, records = original
    data = ready(folder, packs, target="extent")
    by_name = {record["file_name"]: record for record in records}
    assert sorted(name for split in SPLITS for name in data.names(split)) == sorted(by_name)
    kind = data.schema["hair_colour"]
    assert isinstance(kind, Categorical)
    for split in SPLITS:
        columns = data.columns(split)
        for row, name in enumerate(data.names(split)):
            record = by_name[name]
            assert columns["size"][row].item() == pytest.approx(record["size"])
            assert kind.values[int(columns["hair_colour"][row])] == record["hair colour"]
            assert bool(columns["round"][row]) == record["round"]
            assert data.target_kind.values[data.targets(split)[row]] == record["extent"]


def test_description_is_kept_as_it_is(made: Made, packs: Path) -> None:
    """attributes.yaml, written from what was inferred, changes nothing; and it alone is enough without a folder."""
    folder, records = made
    for number, record in enumerate(records):
        record["grade"] = number % 4 + 1
    write_table(folder, records)
    first = ready(folder, packs, target="extent", edges=[["round", "size"]], mechanisms={"size": {"kind": "spline"}})
    assert "grade: {kind: categorical, values: [1, 2, 3, 4]}  # CHECK: few whole numbers" in first.description
    assert "'hair colour' is called hair_colour" in first.description
    (folder / "attributes.yaml").write_text(first.description, encoding="utf-8")
    second = ready(folder, packs, image_size=None)
    assert same(first, second)
    assert "CHECK" not in second.description
    assert yaml.safe_load(second.description) == yaml.safe_load(first.description)
    alone = ImageTable(**second.arguments())
    assert (alone.scm_spec, alone.image_shape, alone.target_kind) == (first.scm_spec, (3, 16, 16), first.target_kind)


def test_columns_are_named_as_in_the_table_or_as_commands_name_them(original: Made, packs: Path) -> None:
    one, other = (
        table_of(original[0], packs, edges=[["round", name]], mechanisms={name: {"kind": "logistic"}}, target="extent")
        for name in ("hair colour", "hair_colour")
    )
    assert one.scm_spec == other.scm_spec
    assert one.scm_spec["edges"] == [["round", "hair_colour"]]


def test_arguments_win_over_attributes_yaml(made: Made, packs: Path) -> None:
    folder, _ = made
    said = "attributes: {size: {kind: continuous, low: 0, high: 10, unit: mm}}\nleave_out: [extent]\nframing: pad\n"
    (folder / "attributes.yaml").write_text(said)
    data = table_of(folder, packs)
    assert data.scm_spec["attributes"]["size"] == {"kind": "continuous", "low": 0.0, "high": 10.0}
    assert list(data.scm_spec["attributes"]) == ["size", "hair_colour", "round"]
    assert (data.units, data.settings.framing) == ({"size": "mm"}, "pad")
    data = table_of(folder, packs, attributes=["round", "size"], target="hair colour", framing="crop")
    assert list(data.scm_spec["attributes"]) == ["round", "size"]
    assert data.scm_spec["attributes"]["size"]["high"] == 10
    assert (data.settings.framing, data.target) == ("crop", "hair_colour")
    data = table_of(folder, packs, attributes={"size": {"low": -1, "high": 20}})
    assert data.scm_spec["attributes"]["size"] == {"kind": "continuous", "low": -1.0, "high": 20.0}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_every_format_says_the_same(made: Made, original: Made, packs: Path, kind: str) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    folder, records = made
    write_table(folder, records, kind)
    assert same(ready(folder, packs, target="extent"), ready(original[0], packs, target="extent"))


def zipped(folder: Path, target: Path, prefix: str = "") -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"{prefix}{path.relative_to(folder)}")


@pytest.mark.parametrize("way", ["a zip", "a zip in a folder", "pictures alone", "a folder in the zip"])
def test_zip_is_the_folder(original: Made, packs: Path, tmp_path: Path, way: str) -> None:
    folder, place = original[0], tmp_path / "place"
    place.mkdir()
    if way == "a zip":
        place = tmp_path / "mine.zip"
        zipped(folder, place)
    elif way == "pictures alone":
        shutil.copy(folder / "metadata.csv", place)
        with zipfile.ZipFile(place / "pictures.zip", "w") as archive:
            for path in sorted(folder.rglob("*.*")):
                if path.name != "metadata.csv":
                    archive.write(path, path.relative_to(folder))
            archive.writestr("__MACOSX/._bild.png", b"no picture")
    else:
        zipped(folder, place / "all.zip", "mine/" if way == "a folder in the zip" else "")
    # names decide who is drawn into which split, and this one differs
    options = {"seed": 0} if way != "a folder in the zip" else {}
    data, plain = ready(place, packs, target="extent", **options), ready(folder, packs, target="extent")
    if way == "a folder in the zip":
        images = {
            name.removeprefix("mine/"): image
            for s in SPLITS
            for name, image in zip(data.names(s), data.images(s), strict=True)
        }
        for split in SPLITS:
            assert all(
                torch.equal(images[name], image)
                for name, image in zip(plain.names(split), plain.images(split), strict=True)
            )
    else:
        assert same(data, plain)


def test_splits(made: Made, packs: Path, tmp_path: Path) -> None:
    folder, records = made

    def sizes(data: ImageTable) -> list[int]:
        data.setup()
        return [len(data.images(split)) for split in SPLITS]

    drawn = table_of(folder, packs, leave_out=["extent"])
    assert sizes(drawn) == [120, 15, 15]
    assert "Splits: val and test drawn by seed 0" in drawn.description
    assert sizes(other := table_of(folder, packs, leave_out=["extent"], seed=1)) == [120, 15, 15]
    assert other.names("test") != drawn.names("test")
    write_table(folder, records[::-1])  # who is drawn depends on the picture, not on its row
    again = table_of(folder, packs, leave_out=["extent"])
    again.setup()
    assert set(again.names("test")) == set(drawn.names("test"))
    words = ["train", "Training", "train", "train", "validation", "dev", "TEST"]
    for number, record in enumerate(records):
        record["split"] = words[number % 7]
    write_table(folder, records)
    told = table_of(folder, packs, leave_out=["extent"])
    assert sizes(told) == [sum(number % 7 in part for number in range(COUNT)) for part in ((0, 1, 2, 3), (4, 5), (6,))]
    assert told.names("train") == [
        record["file_name"] for record in records if record["split"].lower().startswith("train")
    ]
    records = [
        record | {"split": "train" if record["split"].lower().startswith("train") else "test"} for record in records
    ]
    write_table(folder, records)
    tested = table_of(folder, packs, leave_out=["extent"])
    assert sizes(tested)[2] == sum(record["split"] == "test" for record in records)
    assert sizes(tested)[1] == 15
    assert "by the column split, val drawn by seed 0" in tested.description
    # by folders, each with a table of its own
    split_folders = tmp_path / "folders"
    for name, part in (("train", slice(0, 100)), ("val", slice(100, 120)), ("test", slice(120, 150))):
        (split_folders / name).mkdir(parents=True)
        rows = [{key: value for key, value in record.items() if key != "split"} for record in records[part]]
        for row in rows:
            shutil.copy(folder / row["file_name"], split_folders / name)
            row["file_name"] = Path(row["file_name"]).name
        write_table(split_folders / name, rows)
    assert sizes(table_of(split_folders, packs, leave_out=["extent"])) == [100, 20, 30]


def test_numbers_that_are_left_out_are_other_columns(made: Made, packs: Path) -> None:
    folder, records = made
    for number, record in enumerate(records):
        record |= {"year": 2000 + number % 7, "flash": ["yes", "no"][number % 2], "note": f"text {number}"}
    write_table(folder, records)
    data = ready(folder, packs, attributes=["size", "round"], target="extent")
    assert sorted(data.other_columns("test")) == ["flash", "year"]
    assert set(data.other_columns("test")["flash"].tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("kind", ["digits", "faces"])
def test_packaged_sets_as_folders(kind: str, small: MorphoMNIST, tmp_path: Path) -> None:
    """What is written and read back is the same to the bit."""
    own: AttributeDataModule = small
    if kind == "faces":
        own = Faces(60, cache_dir=str(tmp_path / "faces"), image_size=32, attributes=["Bangs", "Young", "Smiling"])
    folder = write_image_folder(own, tmp_path / "folder")
    back = ImageTable(str(folder), cache_dir=str(tmp_path / "cache"))
    back.setup()
    assert back.scm_spec["attributes"] == own.schema.spec
    assert (back.scm_spec["edges"], back.scm_spec["mechanisms"]) == (own.scm_spec["edges"], own.scm_spec["mechanisms"])
    for split in SPLITS:
        assert torch.equal(back.images(split), own.images(split))
        for name, column in own.columns(split).items():
            assert torch.equal(back.columns(split)[name], column.float())
        for name, column in own.other_columns(split).items():
            np.testing.assert_array_equal(back.other_columns(split)[name], column.float())
        if kind == "faces":  # of digits it is the label, an attribute
            assert torch.equal(back.targets(split), own.targets(split))
    with pytest.raises(UserError, match="exists already"):
        write_image_folder(own, folder)
