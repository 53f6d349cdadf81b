"""What an intervention is.  A new kind is a subclass, and an `Exposure` if real images can answer its question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from cfgen.interventions._exposure import Exposure, Mask

if TYPE_CHECKING:
    from torch import Tensor

    from cfgen.attributes import Columns, Schema

__all__ = ["END", "START", "Arm", "Intervention", "TrainingSD"]

END, START = "end", "start"
TrainingSD = Callable[[str], float]


class Arm(NamedTuple):
    """One way that images are changed: the values of the attributes that are set, in real units, for all images or per image."""

    name: str
    title: str
    values: dict[str, Tensor]

    def rows(self, index: Tensor) -> dict[str, Tensor]:
        """The values for some of the images."""
        return {name: value[index] if value.ndim else value for name, value in self.values.items()}


class Intervention(ABC):
    """An intervention on attributes of images.  `bind` checks it against a schema; later methods need only attribute columns.

    `name` is as typed and unique within an audit.
    """

    name: str
    attributes: tuple[str, ...]
    kind: ClassVar[str]

    @abstractmethod
    def bind(self, schema: Schema, training_sd: TrainingSD, argument: str = "do") -> Intervention:
        """The intervention in numbers, in the units of a schema; refuses unknown names and values out of range.

        `training_sd` is the standard deviation of an attribute in the training images.
        """

    @abstractmethod
    def arms(self, columns: Columns) -> tuple[Arm, ...]:
        """The images that are compared: one arm is compared with the images as they are, of two the last with the first."""

    @abstractmethod
    def target(self, columns: Columns) -> Mask:
        """The images that the intervention changes: the population of the estimate."""

    @abstractmethod
    def exposure(self, columns: Columns) -> Exposure:
        """Which real images answer the same question; `cfgen.effects` chooses the estimator by its class."""

    @abstractmethod
    def describe(self) -> str:
        """The intervention after "with" in a sentence."""

    def to_dict(self) -> dict[str, Any]:
        """The bound intervention as JSON values; `from_dict` is the inverse."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]  # every kind is a dataclass

    @property
    def title(self) -> str:
        """The intervention in tables and figures.

        >>> from cfgen.interventions import Set
        >>> Set("Black_Hair=1,Pale_Skin=1", {}).title
        'do(Black_Hair=1, Pale_Skin=1)'
        """
        return f"do({self.name.replace(',', ', ')})"

    @property
    def assigned(self) -> Mapping[str, float] | None:
        """The values that all images get, where they are the same for all."""
        return None

    @abstractmethod
    def coverage(self, columns: Columns, images: str = "images") -> str:
        """How many of these images the intervention changes, in words."""

    def notes(self, columns: Columns) -> list[str]:
        """What a reader of an audit should know about the images that are left out."""
        return []

    def without_target(self, images: str) -> str:
        """Why an intervention that changes none of `images` is refused."""
        return f"all {images} have {self.name} already, so it changes nothing"

    def drawn(self, columns: Columns) -> dict[str, Tensor]:
        """The values for images that are all to be drawn; refuses an intervention that leaves some out."""
        return self.arms(columns)[-1].values

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Intervention:
        """A bound intervention from `to_dict`."""
        kinds = {kind.kind: kind for kind in Intervention.__subclasses__()}
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        return kinds[str(given.pop("kind"))](**given)
