"""`python -m cfgen.generate RUN --do thickness=3 --do label=7`: counterfactual images from a trained run."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from rich.console import Console
from rich.progress import track
from torch import Tensor

from cfgen.attributes import Categorical, Continuous, unknown_name
from cfgen.checkpoints import packaged_models
from cfgen.errors import UserError
from cfgen.figures import image_grid
from cfgen.interventions import parse_assignments
from cfgen.metrics.effectiveness import measurable, measured_columns
from cfgen.option_types import natural
from cfgen.runs.examples import read_examples
from cfgen.runs.folders import cannot_write
from cfgen.runs.loading import CounterfactualModel, load, run_data, run_folder
from cfgen.training.cli import one_line_errors

EPILOG = """examples:
  cfgen generate morphomnist-csali --do thickness=5                     a model that comes with cfgen, and its examples
  cfgen generate runs/quickstart --do thickness=3 --do label=7          two counterfactuals of test images 0 to 4
  cfgen generate runs/quickstart --do thickness=3,label=7 --index 0-9   both changes at once
  cfgen generate runs/quickstart --do label=2 --images my.png --given label=3 --out cf/
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cfgen generate",
        description="Counterfactuals of images: what they would have been, had an attribute been different.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    packaged = ", ".join(packaged_models()) or "none"
    parser.add_argument(
        "run",
        help="a run folder (runs/NAME or runs/NAME/001), a checkpoint, an exported model, or a model that comes with "
        f"cfgen by its name ({packaged})",
    )
    parser.add_argument(
        "--do", action="append", required=True, metavar="ATTRIBUTE=VALUE[,...]",
        help="an intervention; commas join simultaneous ones, and each --do makes one counterfactual",
    )  # fmt: skip
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--index", default="0-4",
        help="which test images of the run's data, or which of an exported model's examples, e.g. 3 or 0-9 or 1,5,7",
    )  # fmt: skip
    source.add_argument(
        "--images", nargs="+", metavar="FILE",
        help="image files of your own instead: the middle of a picture in the model's proportions; one of CelebA's 178 x 218 "
        "pixels is cropped as in training",
    )  # fmt: skip
    parser.add_argument("--given", metavar="ATTRIBUTE=VALUE[,...]", help="what is true of your images, e.g. label=3")
    parser.add_argument("--seed", type=natural, default=0, help="of noise that has to be drawn (default: 0)")
    parser.add_argument("--out", metavar="DIR", help="also write single images and attributes.csv into this new folder")
    options = parser.parse_args(arguments)
    return one_line_errors(lambda: generate(options))


def generate(options: argparse.Namespace) -> None:
    interventions = [parse_assignments(text) for text in options.do]
    model = load(options.run)
    for do in interventions:
        try:
            model.schema.check_do(do)
        except ValueError as error:
            raise UserError(str(error)) from error
    out = new_folder(options.out)
    if options.images:
        names, x, a = own_images(model, options.run, options.images, options.given)
    else:
        if options.given:
            raise UserError("--given goes with --images: the attributes of the run's own images are known")
        names, x, a = known_images(model, options.run, options.index)
    own = model.values(model.columns(a, len(x)))
    results = [
        model.counterfactual(x, a, do, options.seed)
        for do in track(interventions, "generating", console=Console(stderr=True), transient=True)
    ]
    heads = ["original", "reconstruction", *(f"do({text})".replace(",", ",\n") for text in options.do)]
    columns = [x, results[0].reconstructions, *(result.images for result in results)]
    described = [describe(model, own)] * 2
    described += [describe(model, result.attributes) for result in results]
    lines = [[column[row] for column in columns] for row in range(len(x))]
    captions = [[texts[row] for texts in described] for row in range(len(x))]
    figure = image_grid(lines, heads, names, captions, cell=1.1)
    path = out / "grid.png" if out else free_name(Path("counterfactuals.png"))
    figure.savefig(path, dpi=130)
    print(f"grid: {path}")
    if out:
        write_singles(out, names, options.do, columns, [result.attributes for result in results])
        print(f"images and attributes.csv: {out}")


def new_folder(name: str | None) -> Path | None:
    if name is None:
        return None
    folder = Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already: --out takes a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    return folder


def free_name(path: Path) -> Path:
    """The path, or with the first number that makes it new: nothing is overwritten."""
    number = 2
    candidate = path
    while candidate.exists():
        candidate = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return candidate


def known_images(model: CounterfactualModel, run: str, index: str) -> tuple[list[str], Tensor, dict[str, Any]]:
    """Chosen examples of an exported model that has some, else chosen images of the test split, with their attributes."""
    examples = read_examples(run_folder(run), model.schema)
    if examples is not None:
        images, columns = examples
        rows = parse_index(index, len(images), "examples with this model")
        names = [f"example-{row}" for row in rows]
        print(f"images: {len(rows)} of the {len(images)} examples that come with {run}")
    else:
        data = run_data(run)
        data.prepare_data()
        data.setup("test")
        images, columns = data.images("test"), data.columns("test")
        rows = parse_index(index, len(images), "test images")
        names = [f"#{row}" for row in rows]
    chosen = torch.tensor(rows)
    return names, model.images(images[chosen]), {name: column[chosen] for name, column in columns.items()}


def parse_index(text: str, size: int, what: str) -> list[int]:
    """`0-3,7` -> [0, 1, 2, 3, 7]."""
    rows: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise UserError(f"--index takes numbers and ranges like 0-9 or 1,5,7, not {text!r}")
        rows += range(int(first), int(last or first) + 1)
    if not rows or max(rows) >= size:
        raise UserError(f"--index {text}: there are {size} {what}, 0 to {size - 1}")
    return rows


def own_images(
    model: CounterfactualModel, run: str, files: Sequence[str], given: str | None
) -> tuple[list[str], Tensor, dict[str, Any]]:
    """Image files framed as the model's own images were, with the attributes that are given or can be measured."""
    channels, height, width = model.module.image_shape
    try:
        framed = run_data(run).framed
    except (UserError, AttributeError):  # a data set of another kind, or none that is known of
        framed = partial(ImageOps.fit, size=(width, height))
    pixels = []
    for file in files:
        try:
            image = framed(ImageOps.exif_transpose(Image.open(file)).convert("L" if channels == 1 else "RGB"))
        except (OSError, UnidentifiedImageError) as error:
            raise UserError(f"{file} cannot be read as an image ({error})") from error
        pixels.append(torch.from_numpy(np.array(image)).reshape(height, width, channels).permute(2, 0, 1))
    x = model.images(torch.stack(pixels))
    attributes: dict[str, Any] = parse_assignments(given) if given else {}
    for name in attributes:
        if name not in model.schema.names:
            raise UserError(f"--given: {unknown_name('attribute', name, model.schema.names)}")
    names = [name for name in measurable(model.schema) if name not in attributes]
    if channels == 1 and names:
        attributes |= measured_columns(x, names)
    missing = [name for name in model.schema.names if name not in attributes]
    if missing:
        asked = ",".join(part for part in (given, *(f"{name}=VALUE" for name in missing)) if part)
        raise UserError(f"what is true of these images? Say --given {asked}")
    return [Path(file).name for file in files], x, attributes


def describe(model: CounterfactualModel, attributes: dict[str, Any]) -> list[str]:
    """For each image the attributes under it: continuous and categorical ones by value, binary ones where present."""
    rows = len(next(iter(attributes.values())))
    texts = []
    for row in range(rows):
        parts = []
        for name, column in attributes.items():
            kind, value = model.schema[name], column[row]
            if isinstance(kind, Continuous):
                parts.append(f"{name} {float(value):.3g}")
            elif isinstance(kind, Categorical):
                parts.append(f"{name} {value if isinstance(value, str) else int(value)}")
            elif value:
                parts.append(name)
        texts.append("\n".join(parts))
    return texts


def write_singles(
    out: Path, names: Sequence[str], do: Sequence[str], columns: Sequence[Tensor], attributes: Sequence[dict[str, Any]]
) -> None:
    labels = ["original", "reconstruction", *(f"do({text})" for text in do)]
    with (out / "attributes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "file", "do", *attributes[0]])
        for row, name in enumerate(names):
            stem = f"{row:03d}-{name.removeprefix('#')}"
            for label, images in zip(labels, columns, strict=True):
                pixels = (
                    images[row].detach().clamp(0, 1).mul(255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
                )
                Image.fromarray(pixels.squeeze(-1) if pixels.shape[2] == 1 else pixels).save(
                    out / f"{stem}-{label}.png"
                )
            for text, values in zip(do, attributes, strict=True):
                plain = [v if isinstance(v, str) else f"{float(v):.6g}" for v in (c[row] for c in values.values())]
                writer.writerow([name, f"{stem}-do({text}).png", text, *plain])


if __name__ == "__main__":
    sys.exit(main())
