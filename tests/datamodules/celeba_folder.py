"""A small set in CelebA's layout, how it is read, and what its images should be."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2.functional import pil_to_tensor

from datamodules.celeba import CelebA
from datamodules.sources.celeba_files import ATTRIBUTES
from datamodules.sources.picture_files import SPLITS

IMAGES, TABLE, PARTITION = "img_align_celeba", "list_attr_celeba.txt", "list_eval_partition.txt"
COUNT = 44  # rows of the table; two of them have no image
GONE = ("000005.jpg", "000030.jpg")


def name(row: int) -> str:
    return f"{row + 1:06d}.jpg"


def ready(folder: Path, cache: Path, **options: Any) -> CelebA:
    data = CelebA(str(folder), cache_dir=str(cache), batch_size=4, **options)
    data.prepare_data()
    data.setup()
    return data


def reference(path: Path, size: int, crop: int = 148) -> torch.Tensor:
    """One image as torchvision's transforms make it."""
    with Image.open(path) as image:
        pixels = pil_to_tensor(image.convert("RGB"))
    return v2.Compose([v2.CenterCrop(crop), v2.Resize(size, antialias=True)])(pixels)


def every_image(data: CelebA) -> torch.Tensor:
    return torch.cat([data.images(split) for split in SPLITS])


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no JPEG" * 100)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def make_celeba(folder: Path) -> None:
    """A set in CelebA's layout: blurred noise, all forty attributes, splits that are not in order."""
    (folder / IMAGES).mkdir()
    rng = np.random.default_rng(0)
    signs = rng.choice([-1, 1], size=(COUNT, 40))
    rows = [f"{name(row)} {' '.join(f'{sign:2d}' for sign in signs[row])}" for row in range(COUNT)]
    (folder / TABLE).write_text("\n".join([str(COUNT), " ".join(ATTRIBUTES) + " ", *rows]) + "\n")
    (folder / PARTITION).write_text("".join(f"{name(row)} {(0, 0, 1, 0, 2)[row % 5]}\n" for row in range(COUNT)))
    for row in range(COUNT):
        if name(row) not in GONE:
            coarse = Image.fromarray(rng.integers(0, 256, (20, 16, 3), dtype=np.uint8))
            coarse.resize((178, 218)).save(folder / IMAGES / name(row), quality=90)
    Image.new("RGB", (178, 218)).save(folder / IMAGES / "999999.jpg")  # no list names it
