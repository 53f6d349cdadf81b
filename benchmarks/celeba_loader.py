"""Images a second: packed faces against decode, crop and resize per item with workers; and what the packing costs."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets.folder import pil_loader
from torchvision.transforms import CenterCrop, Compose, Resize, ToTensor

from datamodules.celeba import CelebA
from datamodules.faces.data import Faces
from datamodules.sources.celeba_files import ImageFiles
from datamodules.sources.packing import BLOCK, cores, on_all_cores


class OneByOne(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """The usual way: an item opens its JPEG, and the loader stacks a batch of items."""

    def __init__(self, folder: Path, names: list[str], a: Tensor, y: Tensor, crop: int, size: int) -> None:
        self.folder, self.names, self.a, self.y = folder, names, a, y
        self.transform = Compose([CenterCrop(crop), Resize(size), ToTensor()])

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        with Image.open(self.folder / self.names[row]) as image:
            return self.transform(image), self.a[row], self.y[row]


def packed_rate(data: CelebA, epochs: int) -> float:
    """Images a second over whole epochs, the scaling to [0, 1] included."""
    images, start = 0, time.perf_counter()
    for _ in range(epochs):
        for batch in data.train_dataloader():
            images += len(data.on_after_batch_transfer(batch, 0).x)
    return images / (time.perf_counter() - start)


def plain_rate(data: CelebA, rows: int, workers: int) -> float:
    """Images a second of the usual loader, its workers started and its files read once before."""
    a = data.schema.encode(data.train_columns)
    names = data.names("train")[:rows]
    items = OneByOne(data.folder() / "img_align_celeba", names, a, data.targets("train"), data.crop, data.image_size)
    loader = DataLoader(
        items,
        data.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    for _ in loader:
        pass
    start = time.perf_counter()
    images = sum(len(x) for x, _, _ in loader)
    return images / (time.perf_counter() - start)


def decode_all(data: CelebA, decoder: Callable[[str], object]) -> None:
    """Every JPEG once, on as many threads as the packing has."""
    folder = ImageFiles(data.folder()).place
    paths = [str(folder / name) for split in ("train", "val", "test") for name in data.names(split)]
    blocks = [slice(start, start + BLOCK) for start in range(0, len(paths), BLOCK)]
    for _ in on_all_cores(lambda block: [decoder(path) for path in paths[block]], blocks):
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data_dir", help="a folder with CelebA's images unzipped; without it, drawn faces")
    parser.add_argument("--count", type=int, default=4000, help="of drawn faces (default 4000)")
    parser.add_argument("--image_size", type=int, default=64)
    parser.add_argument("--batch_size", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2, help="of the plain loader (default 2)")
    parser.add_argument("--rows", type=int, default=3000, help="images of the plain loader (default 3000)")
    parser.add_argument("--epochs", type=int, default=5, help="of the packed loader (default 5)")
    parser.add_argument("--repeats", type=int, default=3, help="of packing and decoding; the best counts (default 3)")
    parser.add_argument("--cache_dir", help="where drawn faces are kept")
    options = parser.parse_args()
    torch.set_num_threads(1)

    def module(cache_dir: str | None) -> CelebA:
        sizes = {"batch_size": options.batch_size, "image_size": options.image_size}
        if options.data_dir:
            return CelebA(options.data_dir, cache_dir=cache_dir, **sizes)
        return Faces(options.count, cache_dir=cache_dir, **sizes)

    with tempfile.TemporaryDirectory() as scratch:
        data = module(options.cache_dir or scratch)
        data.setup()
        folder = str(data.folder())

        def pack(repeat: int) -> None:
            again = module(str(Path(scratch) / str(repeat)))
            again.folder = lambda: Path(folder)  # type: ignore[method-assign]  # the same files, another cache
            again.prepare_data()

        ways: dict[str, Callable[[int], object]] = {
            "decoding every JPEG once, to an image": lambda _: decode_all(data, pil_loader),
            "decoding every JPEG once, to an array": lambda _: decode_all(
                data, lambda path: np.asarray(pil_loader(path))
            ),
            "packing (decode, crop, resize, write, checksum)": pack,
        }
        costs = dict.fromkeys(ways, (float("inf"), float("inf")))
        for repeat in range(options.repeats):  # in turn, so that a busy moment of the machine is nobody's alone
            for name, way in ways.items():
                wall, cpu = time.perf_counter(), time.process_time()
                way(repeat)
                spent = (time.process_time() - cpu, time.perf_counter() - wall)
                costs[name] = min(costs[name], spent)
        fast = packed_rate(data, 1) and packed_rate(data, options.epochs)
        slow = plain_rate(data, options.rows, options.workers)
        count = sum(len(data.names(split)) for split in ("train", "val", "test"))

    to_image, to_array, packing = costs.values()
    print(f"{count:,} images, batches of {options.batch_size} at {options.image_size} x {options.image_size}")
    print(f"packed, no workers                 {fast:10,.0f} images/s")
    print(f"one by one, {options.workers} worker(s)            {slow:10,.0f} images/s")
    print(f"ratio                              {fast / slow:10.1f}")
    for name, (cpu, wall) in costs.items():
        print(f"{name:48s} {cpu:7.2f} s of CPU, {wall:6.2f} s on {cores()} thread(s)")
    for what, cost in (("to an image", to_image), ("to an array", to_array)):
        cpu, wall = packing[0] / cost[0], packing[1] / cost[1]
        print(f"packing against decoding once {what}: {cpu:.2f} in CPU, {wall:.2f} in time")


if __name__ == "__main__":
    main()
