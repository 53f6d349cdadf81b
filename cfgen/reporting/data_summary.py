"""What is in a data set: the size of its splits, the range of each attribute, and a sheet of its images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from matplotlib.figure import Figure

from cfgen.attributes import Categorical, Continuous
from cfgen.contracts import ImageData
from cfgen.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DataSummary", "contact_sheet", "summarise"]


@dataclass(frozen=True)
class DataSummary:
    """Sizes of the splits by name, a record for each attribute of the training split, and the contact sheet."""

    splits: dict[str, int]
    attributes: list[dict[str, Any]]
    sheet: Figure

    def to_dict(self) -> dict[str, Any]:
        return {"splits": self.splits, "attributes": self.attributes}

    def to_frame(self) -> pd.DataFrame:
        """A row for each attribute: its kind, and the lowest, highest and mean value and spread in the training split."""
        import pandas as pd

        return pd.DataFrame(self.attributes).set_index("attribute")

    def save(self, path: str | Path) -> Path:
        """Writes the contact sheet as a picture; an existing file is replaced."""
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.sheet.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.15)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot write {path}: {error}", argument="out") from None
        return path


def summarise(data: ImageData, title: str = "") -> DataSummary:
    """Looks at a data set; prepares and reads it first."""
    data.prepare_data()
    data.setup()
    splits = {split: len(data.images(split)) for split in ("train", "val", "test")}
    records = []
    for name, column in data.columns("train").items():
        attribute = data.schema[name]
        record: dict[str, Any] = {"attribute": name, "kind": type(attribute).__name__.lower()}
        if isinstance(attribute, Categorical):
            record |= {"lowest": attribute.values[0], "highest": attribute.values[-1], "mean": None, "std": None}
        else:
            values = {"lowest": column.min(), "highest": column.max(), "mean": column.mean(), "std": column.std()}
            record |= {key: value.item() for key, value in values.items()}
        records.append(record)
    return DataSummary(splits, records, contact_sheet(data, title))


def contact_sheet(data: ImageData, title: str = "", rows: int = 5, columns: int = 10) -> Figure:
    """Training images with their attributes: a column for each target, values rise downwards."""
    images = data.images("train")
    figure = Figure(figsize=(1.2 * columns, 1.75 * rows + 0.5), layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=13)
    axes = figure.subplots(rows, columns, squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for column, chosen in enumerate(_choose(data, rows, columns)):
        for axis, image in zip(axes[:, column], chosen, strict=False):
            axis.imshow(images[image].permute(1, 2, 0).numpy(), cmap="gray", vmin=0, vmax=255)
            axis.set_title("\n".join(_describe(data, image)), y=-0.1, va="top", fontsize=7.5, linespacing=1.25)
    return figure


def _choose(data: ImageData, rows: int, columns: int) -> Iterator[list[int]]:
    """For each target, images from its lowest to its highest value of the first continuous attribute."""
    targets = data.targets("train")
    continuous = data.schema.continuous
    order = data.columns("train")[continuous[0]] if continuous else torch.arange(len(targets))
    for target in targets.unique()[:columns]:
        members = (targets == target).nonzero()[:, 0]
        members = members[order[members].argsort()]
        yield members[torch.linspace(0, len(members) - 1, min(rows, len(members))).long()].tolist()


def _describe(data: ImageData, image: int) -> Iterator[str]:
    for name, column in data.columns("train").items():
        value = column[image].item()
        match data.schema[name]:
            case Continuous():
                low, high = data.schema.bounds(name)
                yield f"{name} {value:.0f}" if high - low > 50 else f"{name} {value:.2f}"
            case Categorical(values):
                yield f"{name} {values[int(value)]}"
            case _:
                yield f"{name} {value:.0f}"
