"""CelebA's own files: the images, in a folder or in the zip as distributed, the attribute table and the partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2.functional import resize

from cfgen.attributes import unknown_name
from cfgen.errors import UserError
from cfgen.safety.archives import Archive
from cfgen.safety.files import read_text
from cfgen.safety.pictures import decoded_jpeg

__all__ = [
    "ATTRIBUTES",
    "SPLITS",
    "ImageFiles",
    "Table",
    "crop_and_resize",
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
SPLITS = ("train", "val", "test")  # 0, 1 and 2 of the official partition

IMAGES, TABLE, PARTITION = "img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt"
PERSONS = "identity_CelebA.txt"  # for training it is not needed
MOST_BYTES = 20_000_000  # of one image; CelebA's have fewer than 30,000
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


class ImageFiles:
    """The JPEG files of a set by name, from the folder or, where there is none, from the zip.

    `stamps` tell two versions of a file apart: its size, and the time it was changed or, in a zip, its checksum.
    """

    def __init__(self, folder: Path) -> None:
        self.place = folder / IMAGES
        self.stamps: dict[str, str] = {}
        self._zip: Archive | None = None
        self._paths: dict[str, str] = {}
        if self.place.is_dir():
            self._list_folder()
        else:
            self.place = folder / f"{IMAGES}.zip"
            self._zip = Archive(self.place)
            for path, entry in self._zip.entries.items():
                name = path.rpartition("/")[2]
                if name.lower().endswith(".jpg") and not name.startswith("."):
                    self._paths[name], self.stamps[name] = path, f"{entry.file_size} {entry.CRC:08x}"
        if not self.stamps:
            raise UserError(f"{self.place} holds no .jpg images")

    def _list_folder(self) -> None:
        try:
            with os.scandir(self.place) as entries:
                for entry in entries:
                    if entry.name.lower().endswith(".jpg") and entry.is_file():  # a pipe would keep us waiting for ever
                        about = entry.stat()
                        self.stamps[entry.name] = f"{about.st_size} {about.st_mtime_ns}"
        except OSError as error:
            raise UserError(f"cannot read {self.place}: {error}") from None

    def read(self, name: str) -> bytes:
        """The bytes of one file; any number of threads may read."""
        if self._zip is not None:
            return self._zip.read(self._paths[name], MOST_BYTES)
        try:
            with open(f"{self.place}/{name}", "rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_size > MOST_BYTES:
                    raise UserError(f"{self.place / name} has more than the {MOST_BYTES:,} bytes that are read")
                return file.read()
        except OSError as error:
            raise UserError(f"cannot read {self.place / name}: {error}") from None

    def decoded(self, names: Sequence[str], smallest: int) -> Iterator[Image.Image]:
        """The images of files, one after the other; refuses one with a side below the smallest."""
        for name in names:
            image = decoded_jpeg(self.read(name), str(self.place / name))
            if min(image.size) < smallest:
                size = f"{image.width} x {image.height} pixels"
                raise UserError(f"{self.place / name} has {size}: too small for a crop of {smallest}")
            yield image


def crop_and_resize(images: Iterable[Image.Image], count: int, crop: int, size: int) -> np.ndarray:
    """The middle of images, resized with an antialiased bilinear filter: (count, 3, size, size) bytes.

    The same as torchvision's `CenterCrop(crop)` and `Resize(size)` on a tensor.
    """
    block = np.empty((count, crop * crop * 3), dtype=np.uint8)
    for row, image in enumerate(images):
        left, top = round((image.width - crop) / 2), round((image.height - crop) / 2)  # as torchvision rounds
        block[row] = np.frombuffer(image.crop((left, top, left + crop, top + crop)).tobytes(), dtype=np.uint8)
    # torch resizes bytes with channels last several times quicker than Pillow does
    channels_last = torch.from_numpy(block.reshape(count, crop, crop, 3)).permute(0, 3, 1, 2)
    return resize(channels_last, [size, size], antialias=True).contiguous().numpy()


@dataclass(frozen=True)
class Table:
    """The rows of a set that have an image, by split and then by name: names, split of each (0, 1, 2), columns of 0 and 1."""

    names: list[str]
    split: np.ndarray
    columns: dict[str, np.ndarray]


def read_table(folder: Path, images: ImageFiles, wanted: Sequence[str]) -> Table:
    """All columns, the wanted ones among them, for the images that exist and that both lists name."""
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
    return Table(names, splits, {name: columns[:, header.index(name)] for name in header})


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
