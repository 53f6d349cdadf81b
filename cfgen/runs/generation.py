"""Counterfactuals of chosen images: a model's examples, images of its test split, or pictures of one's own."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from cfgen.attributes import Categorical, Columns, Continuous, Schema, unknown_name
from cfgen.checkpoints import CONFIG
from cfgen.contracts import measured_names
from cfgen.counterfactual import asked_of, sweep
from cfgen.errors import UserError
from cfgen.figures import image_grid
from cfgen.runs.data import run_data
from cfgen.runs.examples import read_examples
from cfgen.runs.model import TrainedModel, save_image
from cfgen.runs.pictures import frame_of, read_picture

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Generated", "generate"]


@dataclass(frozen=True)
class Source:
    """Images with their attributes in real units, what each is called, and which of a larger set they are."""

    images: Tensor
    columns: Columns
    names: list[str]
    rows: Tensor
    description: str


@dataclass(frozen=True)
class Generated:
    """Images, their reconstructions and their counterfactuals, one for each intervention, with the attributes of each."""

    names: list[str]
    images: Tensor
    reconstructions: Tensor
    attributes: dict[str, Any]
    counterfactuals: dict[str, Tensor]
    counterfactual_attributes: dict[str, dict[str, Any]]
    schema: Schema
    description: str

    @property
    def columns(self) -> dict[str, Tensor]:
        """Everything that is drawn, by what it is: `original`, `reconstruction` and `do(...)`."""
        made = {f"do({name})": images for name, images in self.counterfactuals.items()}
        return {"original": self.images, "reconstruction": self.reconstructions, **made}

    def figure(self) -> Figure:
        """A row an image: original, reconstruction, counterfactuals, each with its attributes."""
        columns = self.columns
        own = describe(self.schema, self.attributes)
        captions = [own, own, *(describe(self.schema, values) for values in self.counterfactual_attributes.values())]
        heads = [head.replace(",", ",\n") for head in columns]
        lines = [[images[row] for images in columns.values()] for row in range(len(self.images))]
        return image_grid(lines, heads, self.names, [list(texts) for texts in zip(*captions, strict=True)], cell=1.1)

    def to_dict(self) -> list[dict[str, Any]]:
        """A record for each counterfactual: the image, the intervention and the attributes it was made with."""
        records = []
        for row, name in enumerate(self.names):
            for text, values in self.counterfactual_attributes.items():
                plain = {
                    k: column[row] if isinstance(column, list) else column[row].item() for k, column in values.items()
                }
                records.append({"image": name, "file": self._file(row, f"do({text})"), "do": text, **plain})
        return records

    def to_frame(self) -> pd.DataFrame:
        """The records of `to_dict` as a table."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def save(self, folder: str | Path) -> Path:
        """Writes `grid.png`, every image as a PNG file and `attributes.csv` into a folder that is new or empty."""
        folder = Path(folder)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} exists already; choose a new folder", argument="out")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.figure().savefig(folder / "grid.png", dpi=130)
            for label, images in self.columns.items():
                for row, image in enumerate(images):
                    save_image(image, folder / self._file(row, label))
            records = self.to_dict()
            with (folder / "attributes.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, list(records[0]))
                writer.writeheader()
                for record in records:
                    writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in record.items()})
        except OSError as error:
            raise UserError(f"cannot write {folder}: {error.strerror or error}", argument="out") from error
        return folder

    def _file(self, row: int, label: str) -> str:
        return f"{row:03d}-{self.names[row].removeprefix('#')}-{label}.png"


def generate(
    model: TrainedModel,
    do: Sequence[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]],
    *,
    index: Sequence[int] = range(5),
    images: Sequence[str | Path] | None = None,
    given: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Generated:
    """Counterfactuals (Eq. 1) of images under each intervention of `do`, a list or by the name it is shown under.

    The images are files of one's own (`images`, with what is true of them in `given`; what the model's data can measure is
    measured), or else those numbered by `index` of the examples that come with the model, or of the test split of its data.
    """
    several = list(do.values()) if isinstance(do, Mapping) else list(do)
    if not several or isinstance(do, str) or not all(isinstance(one, Mapping) for one in several):
        raise UserError('expected a list of interventions, such as [{"thickness": 5}, {"label": 7}]', argument="do")
    interventions = dict(do) if isinstance(do, Mapping) else {name_of(one): one for one in do}
    for one in interventions.values():
        try:
            model.schema.check_do(one)
        except ValueError as error:
            raise UserError(str(error), argument="do") from error
    if images is None and given:
        raise UserError(
            "only pictures of your own (images) need it; the attributes of the model's images are known", "given"
        )
    source = known_images(model, index) if images is None else own_images(model, images, given or {})
    module, rows = model.module, source.rows
    asked = {name: asked_of(module, source.columns, one, seed) for name, one in interventions.items()}
    (batch,) = sweep(module, source.images, source.columns, asked, seed=seed, only=rows, batch_size=len(rows))
    own = {name: column[rows] for name, column in source.columns.items()}
    return Generated(
        names=source.names,
        images=batch.x.cpu(),
        reconstructions=batch.x_r.cpu(),
        attributes=model.values({name: own[name] for name in model.schema.names}),
        counterfactuals={name: batch.x_c(name).cpu() for name in asked},
        counterfactual_attributes={name: model.values(model.schema.decode(batch.a_c(name))) for name in asked},
        schema=model.schema,
        description=source.description,
    )


def name_of(do: Mapping[str, Any]) -> str:
    """`thickness=3,label=7`, as it is typed."""
    return ",".join(f"{name}={value}" for name, value in do.items())


def known_images(model: TrainedModel, index: Sequence[int]) -> Source:
    """Chosen examples of an exported model that has some, else chosen images of the test split."""
    examples = read_examples(model.folder, model.schema) if model.folder is not None else None
    if examples is not None:
        images, columns = examples
        kind, prefix = "examples that come with the model", "example-"
    elif model.source is not None:
        data = run_data(model.source, model.trusted)
        data.prepare_data()
        data.setup("test")
        images, columns = data.images("test"), data.columns("test")
        kind, prefix = "test images", "#"
    else:
        raise UserError("this model has no examples and no data set: give images of your own", argument="images")
    numbers = list(index)
    if not numbers or min(numbers) < 0 or max(numbers) >= len(images):
        raise UserError(f"there are {len(images)} {kind}, numbered 0 to {len(images) - 1}", argument="index")
    description = f"{len(numbers)} of the {len(images):,} {kind}"
    return Source(images, columns, [f"{prefix}{number}" for number in numbers], torch.tensor(numbers), description)


def own_images(model: TrainedModel, files: Sequence[str | Path], given: Mapping[str, Any]) -> Source:
    """Image files framed as the model's own images were, with the attributes that are given or can be measured."""
    told = model.folder is not None and (model.folder / CONFIG).is_file()  # else nothing says what its data was
    data: Any = run_data(model.source, model.trusted) if told and model.source is not None else None
    shape = model.module.image_shape
    try:
        pixels = [read_picture(file, shape, frame_of(data, shape)) for file in files]
    except UserError as error:
        raise UserError(str(error), argument="images") from error
    x = model.images(torch.stack(pixels))
    attributes = dict(given)
    for name in attributes:
        if name not in model.schema.names:
            raise UserError(unknown_name("attribute", name, model.schema.names), argument="given")
    if names := [name for name in measured_names(data, model.schema) if name not in attributes]:
        attributes |= data.measure(x, names)
    missing = [name for name in model.schema.names if name not in attributes]
    if missing:
        stated = [f"{name}={value}" for name, value in given.items()]
        example = ",".join([*stated, *(f"{name}=VALUE" for name in missing)])
        raise UserError(f"{', '.join(missing)} of these images is not known; write {example}", argument="given")
    try:
        columns = model.columns(attributes, len(x))
    except UserError as error:
        raise UserError(str(error), argument="given") from error
    return Source(x, columns, [Path(file).name for file in files], torch.arange(len(x)), f"{len(x)} images of your own")


def describe(schema: Schema, attributes: Mapping[str, Any]) -> list[str]:
    """For each image the attributes under it: continuous and categorical ones by value, binary ones where present."""
    texts = []
    for row in range(len(next(iter(attributes.values())))):
        parts = []
        for name, column in attributes.items():
            kind, value = schema[name], column[row]
            if isinstance(kind, Continuous):
                parts.append(f"{name} {float(value):.3g}")
            elif isinstance(kind, Categorical):
                parts.append(f"{name} {value if isinstance(value, str) else int(value)}")
            elif value:
                parts.append(name)
        texts.append("\n".join(parts))
    return texts
