"""The same folder by Hugging Face `datasets`: the same rows."""

import csv
import shutil
from pathlib import Path

import pytest
import torch
from torchvision.transforms.v2.functional import pil_to_tensor

from datamodules import ImageTable
from datamodules.image_table import write_image_folder
from datamodules.sources.picture_files import SPLITS
from tests.datamodules.image_folder import COUNT, ready


@pytest.mark.parametrize("layout", ["table", "folders", "zip"])
def test_hugging_face_datasets_reads_the_same_rows(folder: Path, tmp_path: Path, layout: str) -> None:
    datasets = pytest.importorskip("datasets")
    place = Path(shutil.copytree(folder, tmp_path / "place"))
    if layout == "folders":
        place = write_image_folder(ready(folder, tmp_path / "cache", target="extent"), tmp_path / "written")
    elif layout == "zip":
        shutil.make_archive(str(tmp_path / "all"), "zip", place)
        shutil.rmtree(place)
        place.mkdir()
        shutil.move(tmp_path / "all.zip", place)
    theirs = datasets.load_dataset("imagefolder", data_dir=str(place), cache_dir=str(tmp_path / "hf"))
    size = {} if layout == "folders" else {"image_size": 16}
    ours = ImageTable(str(place), cache_dir=str(tmp_path / "packs"), target="extent", **size)
    ours.setup()
    if layout == "folders":
        pairs = [
            (split, row, name, row)
            for split, name in zip(SPLITS, ("train", "validation", "test"), strict=True)
            for row in range(len(ours.images(split)))
        ]
    else:  # nothing says the splits: all rows are theirs to train on, in the order of the table
        order = {name: row for row, name in enumerate(table_names(folder))}
        pairs = [(split, row, "train", order[name]) for split in SPLITS for row, name in enumerate(ours.names(split))]
    assert sum(len(part) for part in theirs.values()) == len(pairs) == COUNT
    for split, row, part, number in pairs:
        record = theirs[part][number]
        columns = ours.columns(split)
        assert columns["size"][row].item() == pytest.approx(record["size"])
        assert ours.scm_spec["attributes"]["hair_colour"]["values"][int(columns["hair_colour"][row])] == record.get(
            "hair colour", record.get("hair_colour")
        )
        assert int(columns["round"][row]) == int(record["round"])
        assert ours.target_kind.values[ours.targets(split)[row]] == record["extent"]
        picture = ours.framed(record["image"].convert("RGB"))
        assert torch.equal(pil_to_tensor(picture), ours.images(split)[row])


def table_names(folder: Path) -> list[str]:
    with (folder / "metadata.csv").open(encoding="utf-8", newline="") as file:
        return [record["file_name"] for record in csv.DictReader(file)]
