"""The attribute schema: what an image is described by, in real units and as the vector `a` that networks see.

Real units are a mapping from name to a column of length N: a continuous attribute's value, 0 or 1 for a binary one, the
position among `values` for a categorical one.  The model vector has one entry for a continuous attribute (scaled to
[0, 1] over its range, Section 3 of the paper), one for a binary and one per value (one-hot) for a categorical one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cfgen.errors import unknown_name

__all__ = ["Attribute", "Binary", "Categorical", "Columns", "Continuous", "Schema", "TargetKind", "unknown_name"]

Columns = Mapping[str, Tensor]


@dataclass(frozen=True)
class Continuous:
    """A real-valued attribute; without a range it takes that of the training split (`Schema.fit_ranges`)."""

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise ValueError("a continuous attribute has both low and high, or neither")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ValueError(f"a range needs low < high, not [{self.low}, {self.high}]")

    @property
    def size(self) -> int:
        return 1


@dataclass(frozen=True)
class Binary:
    """An attribute that is absent (0) or present (1)."""

    @property
    def size(self) -> int:
        return 1


@dataclass(frozen=True)
class Categorical:
    """An attribute with one of several values; a column holds positions in `values`."""

    values: tuple[int | str, ...]

    def __post_init__(self) -> None:
        if len(self.values) < 2 or len(set(self.values)) != len(self.values):
            raise ValueError(f"a categorical attribute has at least two different values, not {list(self.values)}")

    @property
    def size(self) -> int:
        return len(self.values)


Attribute = Continuous | Binary | Categorical


@dataclass(frozen=True)
class TargetKind:
    """What a data set's target `y` is called, its kind ("binary", "categorical" or "continuous") and the names of its values."""

    name: str
    kind: str = "binary"
    values: tuple[str, ...] = ()


def attribute_from_spec(name: str, spec: Mapping[str, Any]) -> Attribute:
    """`{kind: continuous, low: 0, high: 1}`, `{kind: binary}` or `{kind: categorical, values: [...]}`, as in a config."""
    fields = dict(spec)
    kind = fields.pop("kind", None)
    kinds = {"continuous": Continuous, "binary": Binary, "categorical": Categorical}
    if kind not in kinds:
        raise ValueError(f"attribute {name!r}: {unknown_name('kind', str(kind), kinds)}")
    if kind == "categorical" and "values" in fields:
        fields["values"] = tuple(fields["values"])
    try:
        return kinds[kind](**fields)
    except (TypeError, ValueError) as error:
        raise ValueError(f"attribute {name!r} ({kind}): {error}") from None


class Schema(nn.Module):
    """Named attributes and the conversion between real units and the model vector `a`, both ways and vectorised.

    The ranges of continuous attributes are buffers: they travel in the state dict of the model that uses them.

    >>> schema = Schema({"thickness": Continuous(1, 5), "label": Categorical((3, 7))})
    >>> a = schema.encode({"thickness": torch.tensor([2.0]), "label": torch.tensor([1])})  # a position: 7
    >>> a
    tensor([[0.2500, 0.0000, 1.0000]])
    >>> schema.decode(a)
    {'thickness': tensor([2.]), 'label': tensor([1.])}
    """

    low: Tensor
    high: Tensor

    def __init__(self, attributes: Mapping[str, Attribute | Mapping[str, Any]]) -> None:
        super().__init__()
        if not attributes:
            raise ValueError("a schema needs at least one attribute")
        for name in attributes:
            if not isinstance(name, str) or not name.isprintable() or not name or set(name) & set(".=, /\\"):
                raise ValueError(
                    f"attribute {name!r}: a name has no '.', '=', ',', slash or space, for commands and files use it"
                )
        self.attributes: dict[str, Attribute] = {
            name: attribute_from_spec(name, spec) if isinstance(spec, Mapping) else spec
            for name, spec in attributes.items()
        }
        sizes = [attribute.size for attribute in self.attributes.values()]
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        self.slices = {name: slice(s, s + n) for name, s, n in zip(self.attributes, starts, sizes, strict=True)}
        self.size = sum(sizes)
        ranges = [(v.low, v.high) for v in self.attributes.values() if isinstance(v, Continuous)]
        known = [r if None not in r else (math.nan, math.nan) for r in ranges]
        bounds = torch.tensor(known, dtype=torch.float32).reshape(-1, 2)
        self.register_buffer("low", bounds[:, 0].clone())
        self.register_buffer("high", bounds[:, 1].clone())

    @property
    def names(self) -> list[str]:
        return list(self.attributes)

    @property
    def continuous(self) -> list[str]:
        return [name for name, attribute in self.attributes.items() if isinstance(attribute, Continuous)]

    @property
    def spec(self) -> dict[str, dict[str, Any]]:
        """The plain form, as in a config: `Schema(schema.spec)` is the same schema, ranges that were fitted included."""
        plain: dict[str, dict[str, Any]] = {}
        for name, attribute in self.attributes.items():
            match attribute:
                case Continuous():
                    low, high = self.bounds(name)
                    plain[name] = {"kind": "continuous"} | ({} if math.isnan(low) else {"low": low, "high": high})
                case Binary():
                    plain[name] = {"kind": "binary"}
                case Categorical():
                    plain[name] = {"kind": "categorical", "values": list(attribute.values)}
        return plain

    def difference(self, other: Schema) -> str:
        """How `other`, the data's, differs from this one, a model's, in words; empty where vectors mean the same in both."""
        ours, theirs = self.spec, other.spec
        if list(ours.items()) == list(theirs.items()):
            return ""
        differing = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
        if not differing:
            return "they come in another order"
        example = f"{ours.get(differing[0])} in the model and {theirs.get(differing[0])} in the data"
        return f"{', '.join(differing)} differ, e.g. {example}"

    def __getitem__(self, name: str) -> Attribute:
        if name not in self.attributes:
            raise ValueError(unknown_name("attribute", name, self.attributes))
        return self.attributes[name]

    def bounds(self, name: str) -> tuple[float, float]:
        """The range of a continuous attribute in real units (NaN while unknown)."""
        index = self.continuous.index(name)
        return self.low[index].item(), self.high[index].item()

    def fit_ranges(self, columns: Columns) -> Schema:
        """Takes the range of each continuous attribute that was declared without one from its smallest and largest value."""
        for index, name in enumerate(self.continuous):
            declared = self.attributes[name]
            assert isinstance(declared, Continuous)
            if declared.low is not None:
                continue
            column = columns[name]
            low, high = column.min().item(), column.max().item()
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ValueError(f"attribute {name!r} has no usable range in this data: it runs from {low} to {high}")
            self.low[index], self.high[index] = low, high
        return self

    def encode(self, columns: Columns) -> Tensor:
        """Real units -> the model vector, (N, size)."""
        missing = [name for name in self.names if name not in columns]
        if missing:
            raise ValueError(f"no value for attribute {', '.join(map(repr, missing))}")
        for name in columns:
            self[name]
        return torch.cat([self.encode_one(name, columns[name]) for name in self.names], dim=1)

    def encode_one(self, name: str, column: Tensor) -> Tensor:
        """One attribute's part of the model vector, (N, its size)."""
        match self[name]:
            case Continuous():
                low, high = self._range(name)
                return ((column.to(self.low.dtype) - low) / (high - low))[:, None]
            case Binary():
                return column.to(self.low.dtype)[:, None]
            case Categorical(values):
                return nn.functional.one_hot(column.long(), len(values)).to(self.low.dtype)

    def decode(self, a: Tensor) -> dict[str, Tensor]:
        """The model vector -> real units; the inverse of `encode`."""
        if a.ndim != 2 or a.shape[1] != self.size:
            raise ValueError(f"an attribute vector of shape (N, {self.size}) is expected, not {tuple(a.shape)}")
        columns: dict[str, Tensor] = {}
        for name, attribute in self.attributes.items():
            part = a[:, self.slices[name]]
            match attribute:
                case Continuous():
                    low, high = self._range(name)
                    columns[name] = part[:, 0] * (high - low) + low
                case Binary():
                    columns[name] = part[:, 0].round()
                case Categorical():
                    columns[name] = part.argmax(dim=1).to(a.dtype)
        return columns

    def check_do(self, do: Mapping[str, Any], rows: int | None = None) -> dict[str, Tensor]:
        """The values of an intervention as columns (0-d for a scalar); refuses unknown names and values out of range.

        >>> Schema({"label": Categorical((3, 7))}).check_do({"label": 7})
        {'label': tensor(1.)}
        """
        return {name: self._check_value(name, value, rows, f"do({name})") for name, value in do.items()}

    def check_given(self, given: Mapping[str, Any], rows: int) -> dict[str, Tensor]:
        """What is said to be true of images, as columns; continuous values may lie outside the range that training saw."""
        columns = {}
        for name, value in given.items():
            column = self._check_value(name, value, rows, name, in_range=not isinstance(self[name], Continuous))
            if not column.isfinite().all():
                raise ValueError(f"{name} is not known of every image: it has to be a number")
            columns[name] = column.expand(rows)
        return columns

    def _check_value(self, name: str, value: Any, rows: int | None, what: str, in_range: bool = True) -> Tensor:
        attribute = self[name]
        if isinstance(attribute, Categorical):
            column = self._positions(what, attribute, value)
        else:
            try:
                column = torch.as_tensor(value, dtype=self.low.dtype, device=self.low.device)
            except (TypeError, ValueError, RuntimeError):
                raise ValueError(f"{what}: {value!r} is not a number") from None
        if column.ndim > 1 or (column.ndim == 1 and rows is not None and len(column) != rows):
            raise ValueError(f"{what}: one value, or one for each of the {rows} rows, not {tuple(column.shape)}")
        match attribute:
            case Continuous() if not in_range:
                return column
            case Continuous():
                low, high = self._range(name)
                # the bounds may be typed from a printed table: allow for its rounding
                slack = 1e-4 * (high - low)
                wrong = ~((column >= low - slack) & (column <= high + slack))
                valid = f"{low.item():.4g} to {high.item():.4g}"
            case Binary():
                wrong, valid = ~((column == 0) | (column == 1)), "0 or 1"
            case Categorical():
                return column
        if wrong.any():
            value = f"{name}={column[wrong][0].item():.4g}"
            raise ValueError(f"{what.replace(name, value)} is out of range. Valid: {valid}")
        return column

    def _positions(self, what: str, attribute: Categorical, value: Any) -> Tensor:
        """Positions of categorical values; a tensor already holds positions, anything else is looked up by its name."""
        position: dict[Any, int]
        if isinstance(value, Tensor):
            position = {float(p): p for p in range(len(attribute.values))}
            wanted: Sequence[Any] = value.flatten().tolist()
            shape = value.shape
        else:
            position = {key: p for p, v in enumerate(attribute.values) for key in (v, str(v))}
            single = isinstance(value, str) or not isinstance(value, Iterable)
            # what is typed as 3 may be the name "3"
            wanted = [v if v in position else str(v) for v in ([value] if single else value)]
            shape = torch.Size([] if single else [len(wanted)])
        for v in wanted:
            if v not in position:
                raise ValueError(f"{what}: {unknown_name('value', str(v), map(str, attribute.values))}")
        return self.low.new_tensor([position[v] for v in wanted]).reshape(shape)

    def _range(self, name: str) -> tuple[Tensor, Tensor]:
        index = self.continuous.index(name)
        if torch.isnan(self.low[index]):
            raise ValueError(f"the range of {name!r} is not known yet: declare it, or fit it on training data")
        return self.low[index], self.high[index]

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {type(v).__name__.lower()}" for name, v in self.attributes.items())
