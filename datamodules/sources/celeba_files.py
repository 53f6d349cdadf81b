"""CelebA's own files: the images, in a folder or in the zip as distributed, the attribute table and the partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from cfgen.attributes import unknown_name
from cfgen.errors import UserError
from cfgen.io.files import read_text
from cfgen.io.pictures import decoded_jpeg
from datamodules.sources.picture_files import SPLITS, PictureFiles, PictureTable

__all__ = [
    "ATTRIBUTES",
    "ImageFiles",
    "find_folder",
    "read_persons",
    "read_table",
]

ATTRIBUTES = (
    "5_o_Clock_Shadow", "Arched_Eyebrows", "Attractive", "Bags_Under_Eyes", "Bald", "Bangs", "Big_Lips", "Big_Nose",
    "Black_Hair", "Blond_Hair", "Blurry", "Brown_Hair", "Bushy_Eyebrows", "Chubby", "Double_Chin", "Eyeglasses",
    "Goatee", "Gray_Hair", "Heavy_Makeup", "High_Cheekbones", "Male", "Mouth_Slightly_Open", "Mustache", "Narrow_Eyes",
    "No_Beard", "Oval_Face", "Pale_Skin", "Pointy_Nose", "Receding_Hairline", "Rosy_Cheeks", "Sideburns", "Smiling",
    "Straight_Hair", "Wavy_Hair", "Wearing_Earrings", "Wearing_Hat", "Wearing_Lipstick", "Wearing_Necklace",
    "Wearing_Necktie", "Young",
)  # fmt: skip

IMAGES, TABLE, PARTITION = "img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt"
PERSONS = "identity_CelebA.txt"  # for training it is not needed
MOST_OF_TABLE = 500_000_000  # bytes; CelebA's own has 26 million
HOME = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"


def find_folder(data_dir: Path | None) -> Path:
    """The folder that holds CelebA: the one given or `celeba` in it."""
    expected = f"{IMAGES}/ (or {IMAGES}.zip), {TABLE} and {PARTITION}"
    advice = f"Get CelebA (Align&Cropped Images) from {HOME}, or use datamodules.Faces, which needs no download"
    if data_dir is None:
        raise UserError(
            f"CelebA needs a folder with {expected}: give data_dir or set the variable CFGEN_DATA. {advice}"
        )
    folders = (data_dir, data_dir / "celeba")
    folder = next((folder for folder in folders if (folder / TABLE).is_file()), None)
    if folder is None:
        raise UserError(f"no CelebA in {data_dir} nor in {folders[1]}: a folder with {expected} is expected. {advice}")
    lacking = [name for name in (TABLE, PARTITION) if not (folder / name).is_file()]
    if not (folder / IMAGES).is_dir() and not (folder / f"{IMAGES}.zip").is_file():
        lacking.append(f"{IMAGES}/ or {IMAGES}.zip")
    if lacking:
        raise UserError(f"CelebA in {folder} is not complete: {', '.join(lacking)} is missing. {advice}")
    return folder


class ImageFiles(PictureFiles):
    """The JPEG files of a set by name, from the folder or, where there is none, from the zip."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / IMAGES)
        if self.place.is_dir():
            self.add_folder(lambda name: name.lower().endswith(".jpg"))
        else:
            self.place = folder / f"{IMAGES}.zip"
            self.add_zip(self.place, name_in_zip)
        if not self.stamps:
            raise UserError(f"{self.place} holds no .jpg images")

    def decoded(self, names: Sequence[str], smallest: int) -> Iterator[Image.Image]:
        """The images of files, one after the other; refuses one with a side below the smallest."""
        for name in names:
            image = decoded_jpeg(self.read(name), str(self.place / name))
            if min(image.size) < smallest:
                size = f"{image.width} x {image.height} pixels"
                raise UserError(f"{self.place / name} has {size}: too small for a crop of {smallest}")
            yield image


def name_in_zip(path: str) -> str | None:
    """The name of a JPEG, in whatever folder of the zip it is; None of another file."""
    name = path.rpartition("/")[2]
    return name if name.lower().endswith(".jpg") and not name.startswith(".") else None


def read_table(folder: Path, images: ImageFiles, wanted: Sequence[str]) -> PictureTable:
    """All columns, of 0 and 1, the wanted ones among them, for the images that exist and that both lists name."""
    split = _read_partition(folder / PARTITION)
    path = folder / TABLE
    lines = _read_lines(path)
    try:
        count, header, rows = int(lines[0]), lines[1].split(), lines[2:]
    except (IndexError, ValueError):
        raise UserError(f"{path} does not begin with a count and a line of attribute names") from None
    if len(rows) != count:
        raise UserError(f"{path} has {len(rows):,} rows where its first line says {count:,}: is it cut off?")
    for name in wanted:
        if name not in header:
            raise UserError(f"{path}: {unknown_name('attribute', name, header)}")
    by_name = {name: values for name, _, values in (row.partition(" ") for row in rows)}
    if len(by_name) != len(rows):
        raise UserError(f"{path} names an image twice")
    names = sorted((n for n in images.stamps if n in by_name and n in split), key=lambda name: (split[name], name))
    if not names:
        raise UserError(
            f"none of the {len(images.stamps):,} images in {images.place} is named in {path} and {PARTITION}"
        )
    splits = np.array([split[name] for name in names])
    for number, title in enumerate(SPLITS):
        if not (splits == number).any():
            raise UserError(f"{images.place} has no image of the {title} split ({number} in {PARTITION})")
    try:
        values = " ".join(by_name[name] for name in names).split()
        matrix = np.array(values, dtype=np.int64).reshape(len(names), len(header))
    except (ValueError, OverflowError):
        raise UserError(f"{path}: a row does not have {len(header)} whole numbers after its name") from None
    if not np.isin(matrix, (-1, 1)).all():
        row = names[int(np.flatnonzero(~np.isin(matrix, (-1, 1)).all(axis=1))[0])]
        raise UserError(f"{path}: the row of {row} has a value that is neither 1 nor -1")
    columns = ((matrix + 1) // 2).astype(np.int8)
    return PictureTable(names, splits, {name: columns[:, header.index(name)] for name in header})


def read_persons(folder: Path, names: Sequence[str]) -> np.ndarray:
    """The number of the person in each of these images, from the set's file of identities."""
    path = folder / PERSONS
    if not path.is_file():
        raise UserError(f"{folder} has no {PERSONS}, which says who is in a photograph. Get it from {HOME}")
    lines = _read_lines(path)
    try:
        person = {name: int(number) for name, number in map(str.split, lines)}
    except ValueError:
        wrong = next(i for i, line in enumerate(lines) if len(words := line.split()) != 2 or not words[1].isdecimal())
        raise UserError(
            f"{path}, line {wrong + 1}: a name and the number of a person are expected, not {lines[wrong].strip()!r}"
        ) from None
    if unknown := [name for name in names if name not in person]:
        raise UserError(f"{path} does not say who is in {unknown[0]}: is it cut off?")
    return np.array([person[name] for name in names], dtype=np.int64)


def _read_partition(path: Path) -> dict[str, int]:
    number = {"0": 0, "1": 1, "2": 2}
    lines = _read_lines(path)
    try:
        return {name: number[part] for name, part in map(str.split, lines)}
    except (KeyError, ValueError):
        wrong = next(i for i, line in enumerate(lines) if len(line.split()) != 2 or line.split()[1] not in number)
        raise UserError(
            f"{path}, line {wrong + 1}: a name and 0, 1 or 2 are expected, not {lines[wrong].strip()!r}"
        ) from None


def _read_lines(path: Path) -> list[str]:
    return read_text(path, MOST_OF_TABLE).strip().splitlines()
