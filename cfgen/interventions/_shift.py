"""`Shift` and `Contrast`: the interventions on one continuous attribute."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cfgen.errors import UserError
from cfgen.interventions._base import END, START, Arm, Intervention, TrainingSD
from cfgen.interventions._exposure import ContrastExposure, Mask, ShiftExposure, window_exposure

if TYPE_CHECKING:
    from torch import Tensor

    from cfgen.attributes import Columns, Schema

__all__ = ["Contrast", "Shift"]


@dataclass(frozen=True)
class Shift(Intervention):
    """`amount` is added to each image's own value, in its units or, with `sd`, in standard deviations of the training images.

    An image that would leave the range of the training images is left out.  `step` and `bounds` are in units, once bound.
    """

    name: str
    attribute: str
    amount: float
    sd: bool = False
    step: float = field(default=float("nan"), repr=False)
    bounds: tuple[float, float] = field(default=(float("nan"), float("nan")), repr=False)
    kind: ClassVar[str] = "shift"

    @property
    def attributes(self) -> tuple[str, ...]:  # type: ignore[override]  # read-only
        return (self.attribute,)

    @property
    def numbers(self) -> tuple[float, ...]:
        return (self.amount,)

    def bind(self, schema: Schema, training_sd: TrainingSD, argument: str = "do") -> Shift:
        _require_continuous(schema, self, argument)
        step = self.amount * (training_sd(self.attribute) if self.sd else 1.0)
        return replace(self, step=step, bounds=schema.bounds(self.attribute))

    def arms(self, columns: Columns) -> tuple[Arm, ...]:
        own = columns[self.attribute].float()
        shifted, (low, high) = own + self.step, self.bounds
        inside = (shifted >= low) & (shifted <= high)
        return (Arm(END, self.name, {self.attribute: shifted.where(inside, own)}),)

    def target(self, columns: Columns) -> Mask:
        shifted = self.arms(columns)[0].values[self.attribute]
        return (shifted != columns[self.attribute].to(shifted.dtype)).cpu().numpy()

    def exposure(self, columns: Columns) -> ShiftExposure:
        values, (low, high) = columns[self.attribute].double().cpu().numpy(), self.bounds
        reachable = (values - self.step >= low) & (values - self.step <= high)
        every, none = np.ones(len(values), dtype=bool), np.zeros((len(values), 0))
        return ShiftExposure(self.target(columns), reachable, every, none, {}, values, self.step)

    def describe(self) -> str:
        """
        >>> Shift("size=-0.5sd", "size", -0.5, sd=True).describe(), Shift("size=+2", "size", 2).describe()
        ('size 0.5 standard deviations lower', 'size 2 higher')
        """
        what = f" standard deviation{'' if abs(self.amount) == 1 else 's'}" if self.sd else ""
        return f"{self.attribute} {abs(self.amount):g}{what} {'higher' if self.amount > 0 else 'lower'}"

    def coverage(self, columns: Columns, images: str = "images") -> str:
        target = self.target(columns)
        if target.all():
            return f"all {len(target):,} {images} are shifted"
        return f"{int(target.sum()):,} of {len(target):,} {images} are shifted; the others would leave the range"

    def notes(self, columns: Columns) -> list[str]:
        left, (low, high) = int((~self.target(columns)).sum()), self.bounds
        if not left:
            return []
        images = f"{left:,} image{'' if left == 1 else 's'}"
        return [
            f"do({self.name}) leaves out {images} of {len(columns[self.attribute]):,}, whose {self.attribute} would leave the "
            f"range of the training images, {low:.4g} to {high:.4g}"
        ]

    def without_target(self, images: str) -> str:
        return f"{self.name} takes all {images} out of the range of the training images"

    def drawn(self, columns: Columns) -> dict[str, Tensor]:
        left, (low, high) = int((~self.target(columns)).sum()), self.bounds
        if left:
            raise UserError(
                f"{self.name} takes {left} of {len(columns[self.attribute])} images out of the range of the training images, "
                f"{low:.4g} to {high:.4g}; shift by less, or choose other images",
                argument="do",
            )
        return super().drawn(columns)


@dataclass(frozen=True)
class Contrast(Intervention):
    """All images at the value `end` of a continuous attribute, compared with all images at `start`."""

    name: str
    attribute: str
    start: float
    end: float
    kind: ClassVar[str] = "contrast"

    @property
    def attributes(self) -> tuple[str, ...]:  # type: ignore[override]  # read-only
        return (self.attribute,)

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.start, self.end

    def bind(self, schema: Schema, training_sd: TrainingSD, argument: str = "do") -> Contrast:
        _require_continuous(schema, self, argument)
        try:
            start, end = (float(schema.check_do({self.attribute: value})[self.attribute]) for value in self.numbers)
        except ValueError as error:
            raise UserError(str(error), argument) from error
        return replace(self, start=start, end=end)

    def arms(self, columns: Columns) -> tuple[Arm, ...]:
        column = columns[self.attribute]
        return tuple(
            Arm(name, f"{self.attribute}={value:g}", {self.attribute: column.float().new_tensor(value)})
            for name, value in ((START, self.start), (END, self.end))
        )

    def target(self, columns: Columns) -> Mask:
        return np.ones(len(columns[self.attribute]), dtype=bool)

    def exposure(self, columns: Columns) -> ContrastExposure:
        own, every = {self.attribute: columns[self.attribute].double().cpu().numpy()}, self.target(columns)
        start, end = (
            replace(window_exposure(own, {self.attribute: value}, (self.attribute,)), target=every)
            for value in self.numbers
        )
        exposed, fit_rows = start.exposed | end.exposed, start.fit_rows | end.fit_rows
        return ContrastExposure(every, exposed, fit_rows, end.distance, end.window, start, end)

    def describe(self) -> str:
        """
        >>> Contrast("size=10:20", "size", 10, 20).describe()
        'size at 20 rather than at 10'
        """
        return f"{self.attribute} at {self.end:g} rather than at {self.start:g}"

    def coverage(self, columns: Columns, images: str = "images") -> str:
        return f"all {len(columns[self.attribute]):,} {images} are compared at both values"

    def drawn(self, columns: Columns) -> dict[str, Tensor]:
        name = self.attribute
        raise UserError(
            f"{self.name} compares two values, which an audit does; draw {name}={self.start:g} and {name}={self.end:g}",
            argument="do",
        )


def _require_continuous(schema: Schema, intervention: Shift | Contrast, argument: str) -> None:
    from cfgen.attributes import Binary, Categorical, Continuous

    try:
        attribute = schema[intervention.attribute]
    except ValueError as error:
        raise UserError(str(error), argument) from error
    if isinstance(attribute, Continuous):
        return
    values = "0 or 1" if isinstance(attribute, Binary) else ""
    if isinstance(attribute, Categorical):
        values = ", ".join(map(str, attribute.values[:-1])) + f" or {attribute.values[-1]}"
    kind = type(attribute).__name__.lower()
    raise UserError(f"{intervention.name}: {intervention.attribute} is {kind}; set it to {values}", argument)
