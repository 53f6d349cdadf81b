"""`Toggle`: one line of the ranking of attributes by importance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cfgen.interventions._base import END, Arm, Intervention, TrainingSD
from cfgen.interventions._exposure import Exposure, Mask

if TYPE_CHECKING:
    from torch import Tensor

    from cfgen.attributes import Columns, Schema

__all__ = ["Toggle"]


@dataclass(frozen=True)
class Toggle(Intervention):
    """One line of the importance ranking (Eq. 6): more of an attribute, or less of it for images that have it.

    A binary attribute is turned over; one value of a categorical one (`position`) replaces the image's own; a continuous
    one is moved by `step`, down where that would leave its range.  `label` is the line's name, `meaning` what more of it is.
    """

    name: str
    label: str
    attribute: str
    meaning: str
    position: float | None = None
    step: float | None = None
    bounds: tuple[float, float] = (float("nan"), float("nan"))
    kind: ClassVar[str] = "toggle"

    @property
    def attributes(self) -> tuple[str, ...]:  # type: ignore[override]  # read-only
        return (self.attribute,)

    def bind(self, schema: Schema, training_sd: TrainingSD, argument: str = "do") -> Toggle:
        return self

    def arms(self, columns: Columns) -> tuple[Arm, ...]:
        own = columns[self.attribute]
        if self.position is not None:
            wanted = own.new_full(own.shape, self.position)
        elif self.step is not None:
            up, (low, high) = self.raises(columns), self.bounds
            wanted = (own + self.step).where(up, own - self.step).clamp(low, high)
        else:
            wanted = 1 - own
        return (Arm(END, self.label, {self.attribute: wanted}),)

    def raises(self, columns: Columns) -> Tensor:
        """Where the image gets more of the attribute; elsewhere it gets less."""
        own = columns[self.attribute]
        if self.position is not None:
            return own == own
        return own == 0 if self.step is None else own + self.step <= self.bounds[1]

    def target(self, columns: Columns) -> Mask:
        return (self.arms(columns)[0].values[self.attribute] != columns[self.attribute]).cpu().numpy()

    def exposure(self, columns: Columns) -> Exposure:
        raise TypeError("the ranking of attributes is not estimated from real images")

    def describe(self) -> str:
        return f"{self.attribute} {self.meaning}"

    def coverage(self, columns: Columns, images: str = "images") -> str:
        return f"{int(self.target(columns).sum()):,} {images} are changed"

    @staticmethod
    def lines(schema: Schema, columns: Columns, names: list[str], rows: Tensor) -> list[Toggle]:
        """The lines of the ranking of these attributes; a continuous one is moved by its standard deviation over `rows`."""
        from cfgen.attributes import Categorical, Continuous

        found = []
        for name in names:
            attribute = schema[name]
            if isinstance(attribute, Categorical):
                for position, value in enumerate(attribute.values):
                    label = f"{name}={value}"
                    found.append(Toggle(f"toggle {label}", label, name, "in place of its own value", float(position)))
            elif isinstance(attribute, Continuous):
                step = float(columns[name][rows].std(correction=0))
                meaning = f"one standard deviation ({step:.3g}) more"
                found.append(Toggle(f"toggle {name}", name, name, meaning, None, step, schema.bounds(name)))
            else:
                found.append(Toggle(f"toggle {name}", name, name, "present"))
        return found
