"""`Set`: attributes are set to values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from cfgen.errors import UserError
from cfgen.interventions._base import END, Arm, Intervention, TrainingSD
from cfgen.interventions._exposure import Exposure, Mask, window_exposure

if TYPE_CHECKING:
    from cfgen.attributes import Columns, Schema

__all__ = ["Set"]


@dataclass(frozen=True)
class Set(Intervention):
    """Attributes are set to values that are the same for all images.

    >>> from cfgen.attributes import Schema
    >>> old = Set("Young=0", {"Young": 0}).bind(Schema({"Young": {"kind": "binary"}}), lambda name: 1.0)
    >>> import torch
    >>> old.target({"Young": torch.tensor([1.0, 0.0])}).tolist()
    [True, False]
    """

    name: str
    values: Mapping[str, Any]
    continuous: tuple[str, ...] = ()
    kind: ClassVar[str] = "set"

    @classmethod
    def from_values(cls, schema: Schema, values: Mapping[str, Any]) -> Set:
        """A bound intervention, named by its values.

        >>> from cfgen.attributes import Schema
        >>> Set.from_values(Schema({"Young": {"kind": "binary"}}), {"Young": 0}).name
        'Young=0'
        """
        return cls(",".join(f"{name}={value}" for name, value in values.items()), values).bind(schema)

    @property
    def attributes(self) -> tuple[str, ...]:  # type: ignore[override]  # read-only
        return tuple(self.values)

    @property
    def assigned(self) -> Mapping[str, float] | None:
        return self.values

    def bind(self, schema: Schema, training_sd: TrainingSD | None = None, argument: str = "do") -> Set:
        try:
            tensors = schema.check_do(self.values)
        except ValueError as error:
            raise UserError(str(error), argument) from error
        for name, tensor in tensors.items():
            if tensor.ndim:
                raise UserError(f"expected one value of {name} for all images, not {len(tensor)}", argument)
        continuous = tuple(name for name in tensors if name in schema.continuous)
        return Set(self.name, {name: float(value) for name, value in tensors.items()}, continuous)

    def arms(self, columns: Columns) -> tuple[Arm, ...]:
        values = {name: columns[name].float().new_tensor(value) for name, value in self.values.items()}
        return (Arm(END, self.name, values),)

    def target(self, columns: Columns) -> Mask:
        return self.exposure(columns).target

    def exposure(self, columns: Columns) -> Exposure:
        own = {name: columns[name].double().cpu().numpy() for name in self.values}
        return window_exposure(own, dict(self.values), self.continuous)

    def describe(self) -> str:
        """
        >>> Set("Young=0,Bangs=1", {}).describe()
        'Young=0 and Bangs=1'
        """
        return " and ".join(self.name.split(","))

    def coverage(self, columns: Columns, images: str = "images") -> str:
        target = self.target(columns)
        return f"{int((~target).sum()):,} of {len(target):,} {images} have it already and are left out"
