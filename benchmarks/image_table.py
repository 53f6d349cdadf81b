"""A folder of pictures: packing against decoding once, loading against Hugging Face `datasets` with workers, and memory.

The folder is made here: JPEG and PNG files of 128 x 128 pixels, packed at 64 x 64.  For memory its rows are repeated until the
table has 200,000, which all have to be decoded and packed.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.transforms.v2.functional import pil_to_tensor, resize

from datamodules import ImageTable
from datamodules.sources.packing import BLOCK, cores, on_all_cores


def make_folder(folder: Path, count: int, pixels: int, rows: int) -> None:
    """Smooth noise with three attributes; the first eight tenths of the pictures train, `rows` rows name them in turn."""
    random = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (pixels // 8, pixels // 8, 3), dtype=np.uint8))
        coarse.resize((pixels, pixels), Image.Resampling.BICUBIC).save(folder / name(number), quality=90)
    with (folder / "metadata.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file_name", "split", "size", "round", "colour"])
        for row in range(rows):
            number = row % count
            split = "train" if number < 0.8 * count else "val" if number < 0.9 * count else "test"
            table.writerow([name(number), split, f"{random.normal():.4f}", row % 2, ["red", "green", "blue"][row % 3]])


def name(number: int) -> str:
    return f"{number:06d}.{'jpg' if number % 2 else 'png'}"


def decode_all(folder: Path, count: int) -> None:
    """Every picture once to an array, on as many threads as the packing has."""

    def decode(block: slice) -> None:
        for number in range(block.start, block.stop):
            with Image.open(folder / name(number)) as picture:
                np.asarray(picture.convert("RGB"))

    blocks = [slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK)]
    for _ in on_all_cores(decode, blocks):
        pass


def our_rate(data: ImageTable, epochs: int) -> float:
    """Images a second over whole epochs, the scaling to [0, 1] included."""
    images, start = 0, time.perf_counter()
    for _ in range(epochs):
        for batch in data.train_dataloader():
            images += len(data.on_after_batch_transfer(batch, 0).x)
    return images / (time.perf_counter() - start)


def as_item(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """What a user of `datasets` writes: the picture, resized, as a tensor in [0, 1]."""
    pictures = [resize(pil_to_tensor(picture.convert("RGB")), [64, 64], antialias=True) for picture in rows["image"]]
    return rows | {"image": [picture.float() / 255 for picture in pictures]}


def their_rate(folder: Path, scratch: str, batch_size: int, workers: int) -> float:
    """Images a second of `datasets` in a DataLoader, its workers started and its files read once before."""
    import datasets

    datasets.disable_progress_bars()
    rows = datasets.load_dataset("imagefolder", data_dir=str(folder), split="train", cache_dir=scratch)
    rows = rows.filter(lambda split: split == "train", input_columns="split").with_transform(as_item)
    loader: DataLoader[Any] = DataLoader(
        rows, batch_size, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=workers > 0
    )
    for _ in loader:
        pass
    start = time.perf_counter()
    images = sum(len(batch["image"]) for batch in loader)
    return images / (time.perf_counter() - start)


class Memory(threading.Thread):
    """The most memory of its own that the process has while this runs, without files that are mapped, in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self.ended = 0.0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.05):
            self.most = max(self.most, own_memory())

    def __enter__(self) -> Memory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()


def own_memory() -> float:
    """Resident memory that is no mapped file, in MB (Linux)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(lines["RssAnon"].split()[0]) / 1024


def memory(options: argparse.Namespace, scratch: Path) -> None:
    folder = scratch / "many"
    make_folder(folder, 1000, 32, options.rows)
    sizes = {"batch_size": options.batch_size, "image_size": options.many_size}
    data = ImageTable(str(folder), cache_dir=str(scratch / "many_cache"), **sizes)
    before = own_memory()
    with Memory() as most:
        start = time.perf_counter()
        data.prepare_data()
        packing = time.perf_counter() - start
        data.setup()
        for batch in data.train_dataloader():
            data.on_after_batch_transfer(batch, 0)
    size = data.cache_file.stat().st_size / 2**20
    print(f"{options.rows:,} rows, packed to {size:,.0f} MB in {packing:.0f} s and read for an epoch")
    print(f"memory beside mapped files: {before:,.0f} MB before, {most.most:,.0f} MB at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="pictures (default 2000)")
    parser.add_argument("--pixels", type=int, default=128, help="of a picture's side (default 128)")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2, help="of the loader of `datasets` (default 2)")
    parser.add_argument("--epochs", type=int, default=5, help="of our loader (default 5)")
    parser.add_argument("--repeats", type=int, default=3, help="of packing and decoding; the best counts (default 3)")
    parser.add_argument("--rows", type=int, default=200_000, help="of the table for memory; 0 leaves it out")
    parser.add_argument("--many_size", type=int, default=64, help="of an image of that table (default 64)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        folder = scratch / "pictures"
        make_folder(folder, options.count, options.pixels, options.count)

        def module(cache: str) -> ImageTable:
            return ImageTable(str(folder), cache_dir=str(scratch / cache), batch_size=options.batch_size, image_size=64)

        ways: dict[str, Callable[[int], object]] = {
            "decoding every picture once": lambda _: decode_all(folder, options.count),
            "packing (read, decode, frame, resize, hash, write)": lambda repeat: module(str(repeat)).prepare_data(),
        }
        costs = dict.fromkeys(ways, (float("inf"), float("inf")))
        for repeat in range(options.repeats):  # in turn, so that a busy moment of the machine is nobody's alone
            for title, way in ways.items():
                wall, cpu = time.perf_counter(), time.process_time()
                way(repeat)
                costs[title] = min(costs[title], (time.process_time() - cpu, time.perf_counter() - wall))
        data = module("0")
        data.setup()
        ours = our_rate(data, 1) and our_rate(data, options.epochs)
        theirs = their_rate(folder, str(scratch / "hf"), options.batch_size, options.workers)
        print(
            f"{options.count:,} pictures of {options.pixels} x {options.pixels}, batches of {options.batch_size} at 64 x 64"
        )
        print(f"ImageTable, no workers              {ours:10,.0f} images/s")
        print(f"datasets + DataLoader, {options.workers} worker(s)  {theirs:10,.0f} images/s")
        print(f"ratio                               {ours / theirs:10.1f}")
        for title, (cpu, wall) in costs.items():
            print(f"{title:52s} {cpu:7.2f} s of CPU, {wall:6.2f} s on {cores()} thread(s)")
        decoding, packing = costs.values()
        print(
            f"packing against decoding once: {packing[0] / decoding[0]:.2f} in CPU, {packing[1] / decoding[1]:.2f} in time"
        )
        sys.stdout.flush()
        if options.rows:
            memory(options, scratch)


if __name__ == "__main__":
    main()
