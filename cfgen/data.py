"""Prepares a set ahead of training and shows what is in it: `python -m cfgen.data morpho_mnist`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.table import Table

from cfgen.attributes import Categorical, Continuous
from cfgen.errors import UserError

if TYPE_CHECKING:
    from datamodules import AttributeDataModule

__all__ = ["contact_sheet", "main", "ranges_table"]


def ranges_table(data: AttributeDataModule) -> Table:
    """The attributes of the training split in real units."""
    table = Table("attribute", "kind", title="training split")
    for heading in ("lowest", "highest", "mean", "std"):
        table.add_column(heading, justify="right")
    for name, column in data.train_columns.items():
        attribute = data.schema[name]
        kind = type(attribute).__name__.lower()
        if isinstance(attribute, Categorical):
            first, *_, last = attribute.values
            table.add_row(name, kind, str(first), str(last), "", "")
        else:
            numbers = (column.min(), column.max(), column.mean(), column.std())
            table.add_row(name, kind, *(f"{number:.3f}" for number in numbers))
    return table


def contact_sheet(data: AttributeDataModule, path: Path, title: str, rows: int = 5, columns: int = 10) -> None:
    """Writes a picture of training images with their attributes: a column for each target, values rise downwards."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    images = data.images("train")
    figure = Figure(figsize=(1.2 * columns, 1.75 * rows + 0.5), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=13)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for column, chosen in enumerate(_choose(data, rows, columns)):
        for axis, image in zip(axes[:, column], chosen, strict=False):
            picture = images[image].permute(1, 2, 0).numpy()
            axis.imshow(picture, cmap="gray", vmin=0, vmax=255)
            axis.set_title("\n".join(_describe(data, image)), y=-0.1, va="top", fontsize=7.5, linespacing=1.25)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.15)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write {path}: {error}") from None


def _choose(data: AttributeDataModule, rows: int, columns: int) -> Iterator[list[int]]:
    """For each target, images from its lowest to its highest value of the first continuous attribute."""
    targets = data.targets("train")
    ordered = data.train_columns[data.schema.continuous[0]] if data.schema.continuous else torch.arange(len(targets))
    for target in targets.unique()[:columns]:
        members = (targets == target).nonzero()[:, 0]
        members = members[ordered[members].argsort()]
        yield members[torch.linspace(0, len(members) - 1, min(rows, len(members))).long()].tolist()


def _describe(data: AttributeDataModule, image: int) -> Iterator[str]:
    for name, column in data.train_columns.items():
        value = column[image].item()
        match data.schema[name]:
            case Continuous():
                low, high = data.schema.bounds(name)
                yield f"{name} {value:.0f}" if high - low > 50 else f"{name} {value:.2f}"
            case Categorical(values):
                yield f"{name} {values[int(value)]}"
            case _:
                yield f"{name} {value:.0f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cfgen data", description=__doc__)
    sets = parser.add_subparsers(dest="set", metavar="SET", required=True, help="the set to prepare")
    digits = sets.add_parser(
        "morpho_mnist",
        help="digits with thickness, intensity, slant and label",
        description="Prepares Morpho-MNIST: reads or makes it, keeps it in the cache, prints what is in it and draws a "
        "sheet of its digits. Training with the same options then starts at once.",
    )
    digits.add_argument(
        "--source",
        default="embedded",
        help="embedded: 5,000 digits, no download (default); mnist: all 70,000, downloaded when missing; "
        "published: the files of DeepSCM",
    )
    digits.add_argument(
        "--data_dir", help="folder of mnist and published; default: the environment variable CFGEN_DATA"
    )
    digits.add_argument("--cache_dir", help="where prepared sets are kept; default: cfgen in the user's cache folder")
    digits.add_argument("--seed", type=int, default=0, help="of the sampled attributes (default 0)")
    digits.add_argument("--independent_slant", action="store_true", help="draw the slant too, instead of measuring it")
    digits.add_argument("--limit", type=int, help="the largest number of images; for trials")
    digits.add_argument(
        "--out",
        type=Path,
        help="the sheet, a picture; default: morpho_mnist-SOURCE.png here. An existing file is replaced",
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    options = _parser().parse_args(argv)
    try:
        _prepare_morpho_mnist(options)
    except (UserError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _prepare_morpho_mnist(options: argparse.Namespace) -> None:
    from datamodules import MorphoMNIST

    data = MorphoMNIST(
        source=options.source,
        data_dir=options.data_dir,
        cache_dir=options.cache_dir,
        seed=options.seed,
        independent_slant=options.independent_slant,
        limit=options.limit,
    )
    data.prepare_data()
    data.setup()
    out = options.out or Path(f"morpho_mnist-{options.source}.png")
    sizes = {split: len(data.images(split)) for split in ("train", "val", "test")}
    contact_sheet(data, out, title=f"Morpho-MNIST, {options.source}: {sizes['train']:,} training digits")
    print(f"cache   {data.cache_file}")
    print("splits  " + ", ".join(f"{size:,} {split}" for split, size in sizes.items()))
    print(f"sheet   {out}", flush=True)
    Console().print(ranges_table(data))


if __name__ == "__main__":
    sys.exit(main())
