"""Batches a second: the DataModule's loader against a Dataset that returns one image at a time, with two workers."""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from cfgen.batch import Batch
from datamodules import MorphoMNIST


class OneByOne(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """The usual way: an image is scaled and returned on its own, and the loader stacks a batch of them."""

    def __init__(self, images: Tensor, a: Tensor, y: Tensor) -> None:
        self.images, self.a, self.y = images, a, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.images[row].float() / 255, self.a[row], self.y[row]


def rate(loader: DataLoader, epochs: int, data: MorphoMNIST | None = None) -> float:
    """Batches a second over whole epochs, the scaling to [0, 1] and the start of workers included."""
    batches = 0
    start = time.perf_counter()
    for _ in range(epochs):
        for batch in loader:
            if data is not None:
                data.on_after_batch_transfer(Batch(*batch), 0)
            batches += 1
    return batches / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=20, help="of the DataModule's loader (default 20)")
    parser.add_argument("--plain_epochs", type=int, default=3, help="of the plain loader (default 3)")
    parser.add_argument("--workers", type=int, default=2, help="of the plain loader (default 2)")
    parser.add_argument("--threads", type=int, default=1, help="of this process; a worker has one (default 1)")
    parser.add_argument("--cache_dir", help="where the prepared digits are kept")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    data = MorphoMNIST(batch_size=options.batch_size, cache_dir=options.cache_dir)
    data.prepare_data()
    data.setup()
    rows = OneByOne(data.images("train"), data.schema.encode(data.train_columns), data.targets("train"))
    plain = DataLoader(
        rows,
        options.batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    ours = data.train_dataloader()
    rate(ours, 1, data), rate(plain, 1)  # warm up: the workers start here
    fast, slow = rate(ours, options.epochs, data), rate(plain, options.plain_epochs)
    print(f"{len(rows):,} digits, batches of {options.batch_size}, {torch.get_num_threads()} thread(s)")
    print(f"DataModule, no workers            {fast:10,.0f} batches/s")
    print(f"Dataset one by one, {options.workers} worker(s)  {slow:10,.0f} batches/s")
    print(f"ratio                             {fast / slow:10.1f}")


if __name__ == "__main__":
    main()
