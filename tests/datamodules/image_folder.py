"""A small folder of pictures with a table, in every format it may have, and how it is read."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from datamodules import ImageTable

Record = dict[str, Any]
Made = tuple[Path, list[Record]]  # a folder and the records of its table
COLOURS = {"blau": (30, 30, 220), "green": (30, 200, 30), "red": (200, 30, 30)}
INSIDE = "bilder größe"  # names with spaces and umlauts
COUNT = 150


def make_folder(folder: Path, count: int = COUNT, sides: tuple[int, int] = (20, 41)) -> list[Record]:
    """Shapes of mixed sizes, proportions and formats; `metadata.csv` with attributes of three kinds and a target of three."""
    rng = np.random.default_rng(0)
    (folder / INSIDE).mkdir(parents=True)
    records: list[Record] = []
    for number in range(count):
        size, is_round, colour = float(rng.uniform(4, 9)), bool(rng.random() < 0.5), [*COLOURS][number % 3]
        width, height = (int(side) for side in rng.integers(*sides, 2))
        picture = Image.new("RGB", (width, height), tuple(rng.integers(0, 60, 3).tolist()))
        draw, (x, y) = ImageDraw.Draw(picture), (width / 2, height / 2)
        shape = draw.ellipse if is_round else draw.rectangle
        shape([x - size, y - size, x + size, y + size], fill=COLOURS[colour])
        name = f"{INSIDE}/bild ä {number:03d}.{('png', 'JPG', 'webp', 'bmp')[number % 4]}"
        picture.save(folder / name)
        record = {"file_name": name, "size": round(size, 3), "hair colour": colour, "round": is_round}
        records.append(record | {"extent": "small" if size < 5.5 else "middle" if size < 7.5 else "large"})
    write_table(folder, records)
    return records


def write_table(folder: Path, records: list[Record], kind: str = "csv") -> Path:
    """The table in one format, in place of any other."""
    for path in folder.glob("metadata.*"):
        path.unlink()
    path = folder / f"metadata.{kind}"
    columns = list(records[0])
    if kind == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(records)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(records), path)
    return path


def table_of(folder: Path, cache: Path, **options: Any) -> ImageTable:
    return ImageTable(str(folder), cache_dir=str(cache), **{"batch_size": 8, "image_size": 16, **options})


def ready(folder: Path, cache: Path, **options: Any) -> ImageTable:
    data = table_of(folder, cache, **options)
    data.prepare_data()
    data.setup()
    return data
