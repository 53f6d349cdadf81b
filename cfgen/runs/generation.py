"""Counterfactuals of chosen images: a model's examples, images of its test split, or pictures of one's own."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from torch import Tensor

from cfgen.attributes import Categorical, Continuous, Schema, unknown_name
from cfgen.counterfactual import asked_of, sweep
from cfgen.errors import UserError, require_different
from cfgen.figures import image_grid
from cfgen.interventions import Intervention
from cfgen.io.names import LONGEST
from cfgen.io.writing import new_folder
from cfgen.runs.model import TrainedModel, drawn_values, png_of
from cfgen.runs.sources import Source, known_images, own_images

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AbductedImages", "Generated", "generate", "name_of"]

DPI = 130  # of the grid


class AbductedImages:
    """Images whose states are known (Eq. 1, abduction), so that one counterfactual after another can be drawn of them."""

    def __init__(self, model: TrainedModel, source: Source, seed: int = 0) -> None:
        self.model, self.source, self.seed = model, source, seed
        (self.batch,) = sweep(
            model.module, source.images, source.columns, seed=seed, only=source.rows, batch_size=len(source.rows)
        )

    @property
    def images(self) -> Tensor:
        return self.batch.x.cpu()

    @property
    def reconstructions(self) -> Tensor:
        return self.batch.x_r.cpu()

    @property
    def attributes(self) -> dict[str, Any]:
        """The images' own attributes, in real units."""
        own = {name: self.source.columns[name][self.source.rows] for name in self.model.schema.names}
        return self.model.values(own)

    def under(
        self, do: Intervention | Mapping[str, Any] | str, hold: Iterable[str] = ()
    ) -> tuple[Tensor, dict[str, Any]]:
        """The images under an intervention (Eq. 1), and the attributes that they then have."""
        return self.draw(self.model.intervention(do), hold)

    def draw(self, intervention: Intervention, hold: Iterable[str] = ()) -> tuple[Tensor, dict[str, Any]]:
        """The same for an intervention from `TrainedModel.intervention`."""
        try:
            values = values_on(self.source, intervention)
            asked = asked_of(self.model.module, self.source.columns, values, self.seed, hold=hold)
        except ValueError as error:
            raise UserError(str(error), argument="do") from error
        a_c = asked.a_c[self.source.rows.to(asked.a_c.device)]
        return self.batch.decode(a_c).cpu(), self.model.values(self.model.schema.decode(a_c))


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
        with new_folder(folder) as new:
            new.write({"grid.png": self.grid(), "attributes.csv": self._table()})
            for label, images in self.columns.items():
                for row, image in enumerate(images):
                    new.write({self._file(row, label): png_of(image)})
        return new.path

    def grid(self) -> bytes:
        """The figure as the bytes of a PNG file."""
        buffer = io.BytesIO()
        self.figure().savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()

    def _table(self) -> str:
        text, records = io.StringIO(newline=""), self.to_dict()
        writer = csv.DictWriter(text, list(records[0]))
        writer.writeheader()
        for record in records:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in record.items()})
        return text.getvalue()

    def _file(self, row: int, label: str) -> str:
        """A picture's own file: one that is too long for a name ends in a checksum of itself."""
        name = f"{row:03d}-{self.names[row].removeprefix('#')}-{label}".replace("/", "_")
        whole = name.encode()
        if len(whole) > LONGEST:
            name = f"{whole[: LONGEST - 9].decode(errors='ignore')}-{zlib.crc32(whole):08x}"
        return f"{name}.png"


def generate(
    model: TrainedModel,
    do: Sequence[Intervention | Mapping[str, Any] | str] | Mapping[str, Intervention | Mapping[str, Any] | str],
    *,
    index: Sequence[int] = range(5),
    images: Sequence[str | Path] | None = None,
    given: Mapping[str, Any] | None = None,
    hold: Sequence[str] = (),
    seed: int = 0,
) -> Generated:
    """Counterfactuals (Eq. 1) of images under each intervention of `do`, a list or by the name it is shown under: such as
    {"thickness": 5}, "thickness=5" or "thickness=+1sd".

    Attributes to `hold` keep their values although an intervention would change them.  The images are files of one's own
    (`images`, with what is true of them in `given`; what the model's data can measure is measured), or else those numbered by
    `index` of the examples that come with the model, or of the test split of its data.
    """
    several = list(do.values()) if isinstance(do, Mapping) else list(do)
    if not several or isinstance(do, str) or not all(isinstance(one, Intervention | Mapping | str) for one in several):
        raise UserError('expected a list of interventions, such as [{"thickness": 5}, {"label": 7}]', argument="do")
    named = list(do) if isinstance(do, Mapping) else [name_of(one) for one in do]
    checked = [model.intervention(one) for one in several]
    require_different([content(model.schema, one) for one in checked], "do", names=named)
    interventions = dict(zip(named, checked, strict=True))
    for name in hold:
        if name not in model.schema.names:
            raise UserError(unknown_name("attribute", name, model.schema.names), argument="hold")
        changed = (model.scm.graph.descendants(one.attributes) - set(one.attributes) for one in interventions.values())
        if not any(name in names for names in changed):
            raise UserError(f"no intervention would change {name}, so there is nothing to hold", argument="hold")
    if images is None and given:
        raise UserError(
            "only pictures of your own (images) need it; the attributes of the model's images are known", "given"
        )
    source = known_images(model, index) if images is None else own_images(model, images, given or {})
    abducted = AbductedImages(model, source, seed)
    drawn = {name: abducted.draw(one, hold) for name, one in interventions.items()}
    return Generated(
        names=source.names,
        images=abducted.images,
        reconstructions=abducted.reconstructions,
        attributes=abducted.attributes,
        counterfactuals={name: images for name, (images, _) in drawn.items()},
        counterfactual_attributes={name: attributes for name, (_, attributes) in drawn.items()},
        schema=model.schema,
        description=source.description,
    )


def values_on(source: Source, intervention: Intervention) -> dict[str, Any]:
    """The values under an intervention, of all images of a source; a shift moves the chosen images, the others are not drawn."""
    chosen = {name: source.columns[name][source.rows] for name in intervention.attributes}
    values = drawn_values(intervention, chosen)
    if intervention.assigned is not None:
        return values
    return {name: source.columns[name].to(value).index_put((source.rows,), value) for name, value in values.items()}


def content(schema: Schema, intervention: Intervention) -> dict[str, Any]:
    """What an intervention does, whatever its name: equal for `size=2` and `size=2.0`."""
    if intervention.assigned is None:
        return intervention.to_dict() | {"name": ""}
    return {name: value.tolist() for name, value in schema.check_do(intervention.assigned).items()}


def name_of(do: Intervention | Mapping[str, Any] | str) -> str:
    """`thickness=3,label=7`, as it is typed."""
    if isinstance(do, str):
        return do
    if isinstance(do, Intervention):
        return do.name
    return ",".join(f"{name}={value}" for name, value in do.items())


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
