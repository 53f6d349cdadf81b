"""The contracts between the rooms: what an image mechanism, a data set, a predictor can do, and what a state is.

Every room speaks of the others through these Protocols, and never through their classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from lightning_utilities.core.apply_func import apply_to_collection, apply_to_collections
from torch import Tensor

from cfgen.attributes import Schema

__all__ = [
    "AnswersImages",
    "AttributeModel",
    "CausalImageMechanism",
    "Eyes",
    "HasOtherColumns",
    "ImageData",
    "ImageMechanism",
    "KnowsPersons",
    "KnowsTruth",
    "MeasuresImages",
    "Noise",
    "ReadsAttributes",
    "RedrawsTruth",
    "SetsAttributes",
    "State",
    "interpolate",
    "measured_names",
    "other_columns",
    "rows",
    "true_images",
]

State = Any
"""The exogenous state z of images: a tensor, or a tuple, NamedTuple or dict of tensors, one row an image."""


def rows(state: State, index: Tensor | slice) -> State:
    """The states of chosen images: `index` is a slice, a mask or row numbers.

    >>> rows((torch.arange(3), {"eps": torch.arange(3) * 10}), torch.tensor([2, 0]))
    (tensor([2, 0]), {'eps': tensor([20,  0])})
    """
    return apply_to_collection(state, Tensor, lambda part: part[index])


def interpolate(state: State, other: State, t: float) -> State:
    """The state a share t of the way from one to the other.

    >>> interpolate((torch.zeros(1),), (torch.ones(1),), 0.25)
    (tensor([0.2500]),)
    """
    return apply_to_collections(state, other, Tensor, lambda one, two: torch.lerp(one, two, t))


class Noise:
    """Random numbers with a stream for each image: what an image draws depends on the seed and its number alone.

    A `torch.Generator` would give an image whatever is left of it after the images before: another batch size, another
    number of processes or a selection of images would change its state.

    >>> whole, part = Noise(seed=0, images=torch.arange(8)), Noise(seed=0, images=torch.tensor([5]))
    >>> torch.equal(whole.normal(3)[5], part.normal(3)[0])
    True
    """

    def __init__(self, seed: int, images: Tensor, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)
        # drawn on the CPU: a GPU's streams are others, and filling small tensors one by one would be slow there
        self._streams = [torch.Generator().manual_seed(_mixed(seed, number)) for number in images.tolist()]

    def __len__(self) -> int:
        return len(self._streams)

    def normal(self, *shape: int) -> Tensor:
        """N(0, 1), (images, *shape)."""
        return self._stacked([torch.randn(shape, generator=stream) for stream in self._streams], shape)

    def uniform(self, *shape: int) -> Tensor:
        """U(0, 1), (images, *shape)."""
        return self._stacked([torch.rand(shape, generator=stream) for stream in self._streams], shape)

    def _stacked(self, parts: list[Tensor], shape: tuple[int, ...]) -> Tensor:
        return (torch.stack(parts) if parts else torch.empty(0, *shape)).to(self.device)


def _mixed(seed: int, number: int) -> int:
    """One seed of a seed and an image's number, far apart for neighbours (the finaliser of splitmix64)."""
    mask = (1 << 64) - 1
    value = (seed * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03 + 1) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


@runtime_checkable
class ImageMechanism(Protocol):
    """x := g(z, a).  `decode` runs g, `abduct` inverts it; z is whatever state the model needs for that.

    Images are float in [0, 1], (N, C, H, W); `a` is the model vector of a `Schema`, (N, size).  A mechanism that draws
    takes its numbers from `noise` where it is given, and from torch's own generator in training, where it is not.
    """

    def abduct(self, x: Tensor, a: Tensor, noise: Noise | None = None) -> State:
        """The states of images x with attributes a."""

    def decode(self, z: State, a: Tensor) -> Tensor:
        """The images of states z under attributes a."""

    def prior(self, a: Tensor, noise: Noise | None = None) -> State:
        """States of images nobody has seen, given their attributes a."""


class AttributeModel(Protocol):
    """What a mechanism's callers need of its Attribute-SCM."""

    schema: Schema

    def counterfactual_vector(
        self,
        a: Tensor,
        do: Mapping[str, Any],
        generator: torch.Generator | None = None,
        hold: Iterable[str] = (),
    ) -> Tensor: ...


@runtime_checkable
class CausalImageMechanism(ImageMechanism, Protocol):
    """An image mechanism with the Attribute-SCM over its attributes: all that a counterfactual needs."""

    scm: Any  # an AttributeModel; Any, for isinstance() looks at the name alone
    image_shape: tuple[int, ...]

    def own_reconstruction(self, z: State, a: Tensor) -> Tensor:
        """x_r as the network draws it: `decode(z, a)`, unless the state keeps a residual that is added there."""


class ImageData(Protocol):
    """A data set, read: images with attributes in three splits."""

    @property
    def schema(self) -> Schema: ...

    @property
    def scm_spec(self) -> dict[str, Any]: ...

    @property
    def image_shape(self) -> tuple[int, int, int]: ...

    def prepare_data(self) -> None: ...

    def setup(self, stage: str | None = None) -> None: ...

    def images(self, split: str) -> Tensor: ...

    def columns(self, split: str) -> dict[str, Tensor]: ...

    def targets(self, split: str) -> Tensor: ...


@runtime_checkable
class HasOtherColumns(Protocol):
    """A data set that describes its images by more than the attributes that models see; ask it by `other_columns`."""

    def other_columns(self, split: str) -> dict[str, Tensor]: ...


@runtime_checkable
class MeasuresImages(Protocol):
    """A data set some of whose attributes can be measured on any image of its kind, such as the thickness of a digit."""

    @property
    def measurable(self) -> Sequence[str]:
        """The attributes that `measure` can measure."""

    def measure(self, images: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
        """Attributes of images (N, C, H, W) in [0, 1] in real units, on their device; NaN where nothing can be measured."""


class Eyes(NamedTuple):
    """Where eyes are in a frame that all faces share: the centres of both across and their height, as shares of the image's
    width and height from its upper left corner."""

    left: float
    right: float
    height: float


@runtime_checkable
class KnowsPersons(Protocol):
    """A data set of faces in one frame that can say who is in an image."""

    @property
    def eyes(self) -> Eyes: ...

    def persons(self, split: str) -> Tensor:
        """A number for each image, (N,): the same where they show the same person."""


@runtime_checkable
class KnowsTruth(Protocol):
    """A synthetic data set that can say what an image would have been."""

    def true_attributes(self, split: str, rows: Any, do: Mapping[str, Any]) -> dict[str, Tensor]: ...

    def true_counterfactual(self, split: str, rows: Any, a_c: Tensor) -> Tensor: ...


@runtime_checkable
class RedrawsTruth(KnowsTruth, Protocol):
    """A synthetic data set that can also say what its own SCM makes of an image, seeing no more than that."""

    def redrawn_counterfactual(self, split: str, rows: Any, do: Mapping[str, Any], seed: int) -> Tensor: ...


@runtime_checkable
class SetsAttributes(Protocol):
    """A data set whose images a tool, and not a model, can give other values of some attributes."""

    @property
    def settable(self) -> Sequence[str]:
        """The attributes that `set_attributes` can set."""

    def set_attributes(self, images: Tensor, columns: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Tensor:
        """What these images (N, C, H, W), uint8, would be with the `wanted` values in place of their own, `columns`.

        Both are in real units, and `wanted` are the values after effects have followed.  An image whose settable attributes
        do not change comes back as it is.
        """


class ReadsAttributes(Protocol):
    """Reads attributes from images: (N, C, H, W) in [0, 1] -> columns in real units (the position of a categorical value)."""

    schema: Schema
    image_shape: tuple[int, ...]

    def read(self, x: Tensor) -> Mapping[str, Tensor]: ...


@runtime_checkable
class AnswersImages(Protocol):
    """A classifier of cfgen: images (N, C, H, W) in [0, 1] -> logits, or the predicted value where it is `continuous`.

    Logits are (N,) for two classes and (N, classes) for more.  `target` is the data's target that it was trained on.
    """

    image_shape: tuple[int, ...]
    classes: int
    continuous: bool
    returns_logits: bool
    target: Mapping[str, Any] | None


def measured_names(data: object, schema: Schema) -> list[str]:
    """The continuous attributes of a model that its data can measure on an image; none where the data measures nothing.

    Goes by what the data says it measures, never by what an attribute is called.

    >>> class Digits:
    ...     measurable = ["slant"]
    ...     def measure(self, images, names): ...
    >>> measured_names(Digits(), Schema({"slant": {"kind": "continuous"}, "height": {"kind": "continuous"}}))
    ['slant']
    """
    known = data.measurable if isinstance(data, MeasuresImages) else ()
    return [name for name in schema.continuous if name in known]


def other_columns(data: object, split: str) -> dict[str, Tensor]:
    """What data says of a split's images beside the attributes that models see; nothing where it has no such columns.

    >>> class Faces:
    ...     def other_columns(self, split): return {"Male": torch.tensor([0.0, 1.0])}
    >>> other_columns(Faces(), "test"), other_columns(object(), "test")
    ({'Male': tensor([0., 1.])}, {})
    """
    return data.other_columns(split) if isinstance(data, HasOtherColumns) else {}


def true_images(data: KnowsTruth, schema: Schema, split: str, rows: Tensor, do: Mapping[str, Any]) -> Tensor:
    """The true counterfactuals of these rows under `do`, its consequences included: uint8, (rows, C, H, W)."""
    attributes = data.true_attributes(split, rows, do)
    a_c = schema.encode({name: attributes[name].to(schema.low.device) for name in schema.names})
    return data.true_counterfactual(split, rows, a_c.cpu())
