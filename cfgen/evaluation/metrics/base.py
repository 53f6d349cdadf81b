"""What a metric is: it says what it is called, what it measures and what it needs, and scores a batch of images at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from cfgen.attributes import Binary, Columns, Schema
from cfgen.counterfactual import Swept
from cfgen.evaluation.judges import Judges
from cfgen.evaluation.statistics import Score
from cfgen.evaluation.subject import Subject
from cfgen.metrics.asked import do_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "LEVELS",
    "OTHER",
    "Again",
    "Cell",
    "Description",
    "Metric",
    "Missing",
    "Values",
    "binary_names",
    "levels_apart",
]

LEVELS = "levels of 255"
Values = dict[str, Tensor]
"""A value for each image by name: (N,), or (N, width) where a score has several an image."""
Again = Callable[[Tensor], Swept]
"""The images of some rows with their counterfactuals, computed once more, for figures."""


class Missing(NamedTuple):
    """What a metric lacks: the argument that would bring it (None where it is the data), and words for it."""

    argument: str | None
    words: str


class Cell(NamedTuple):
    """Where the terminal shows a score: a table, a row (the score's name if empty) and a column.

    Several scores in one cell are shown as their mean.  `error` shows the standard error too.
    """

    table: str = "Other metrics"
    row: str = ""
    column: str = "value"
    error: bool = True


OTHER = Cell()


@dataclass(frozen=True)
class Description:
    """What a score is.

    `group` is the title it stands under in comparisons.  `direction` is -1 where less is better, 1 where more is, 0 where
    neither is: what is no merit, or does not depend on the model.  `attribute` is what was intervened on (an attribute; of
    pairs and of single values their text), None of a score of the whole model.  A `baseline` is there to be compared with.
    Without a `cell` the terminal leaves the score to the files.  `width` is how many values an image has: 0 of a score that
    single images have no part of, which comes from `finish`.  `judges` are the names of those who give it, of whom each has a
    value for every image.
    """

    unit: str
    group: str
    direction: int = 0
    attribute: str | None = None
    baseline: bool = False
    cell: Cell | None = OTHER
    width: int = 1
    judges: tuple[str, ...] = ()


class Metric(ABC):
    """Scores a model by the images of a split; made once for a model, and used for one pass over the images after another.

    A subclass says what it is in class variables: `name`, as the argument `metrics` takes it (several may share one), `title`
    and `unit` of its scores, the `reduction` from images to a score, and its `place` among other metrics in results.

    `update` runs without gradients, perhaps in several threads at once, and sees the images of one process only: it keeps
    nothing from one batch to the next.  What an image draws at random comes from `batch.noise(stream)`, with a stream of its
    own from 16 on.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    unit: ClassVar[str]
    reduction: ClassVar[Literal["mean", "median"]] = "mean"
    place: ClassVar[int] = 100

    def __init__(self, subject: Subject, judges: Judges, values: int = 1) -> None:
        self.subject, self.judges, self.values = subject, judges, values
        self.mechanism, self.data = subject.mechanism, subject.data
        self.schema: Schema = subject.mechanism.scm.schema
        self.seed = 0
        self.asked: Columns = {}

    @classmethod
    def missing(cls, subject: Subject, judges: Judges) -> Missing | None:
        """What it would need to score this subject, None if nothing; refuses a judge that is there and does not fit."""
        return None

    @classmethod
    def uses(cls, judges: Judges) -> set[str]:
        """Which arguments of `evaluate` have a part in its scores alone; one that no metric uses is refused."""
        return set()

    @abstractmethod
    def descriptions(self) -> dict[str, Description]:
        """All its scores, known before any image is seen."""

    def start(self, seed: int, asked: Columns) -> None:
        """Begins a pass over the images; `asked` is the value asked of each image for every attribute, in real units."""
        self.seed, self.asked = seed, asked

    def interventions(self) -> dict[str, Mapping[str, Tensor]]:
        """The interventions of this pass by name, each a value for every image; what several metrics name is decoded once."""
        return {}

    @abstractmethod
    def update(self, batch: Swept) -> Values:
        """By the name of a score (or of a column), a value for each image of the batch, NaN where an image does not count."""

    def finish(self, share: tuple[int, int]) -> dict[str, Score]:
        """At the end of a pass, scores that single images have no part of; every process calls it."""
        return {}

    def extra_columns(self) -> dict[str, int]:
        """Further columns that `update` fills, with their widths: values for the figures that are no scores."""
        return {}

    def figures(self, values: Mapping[str, Tensor], again: Again) -> dict[str, Figure]:
        """Figures from the values of all images, in their order."""
        return {}

    def describe(self, **changes: Any) -> Description:
        """A description with the metric's own unit and title."""
        return Description(**{"unit": self.unit, "group": self.title} | changes)

    def do_each(self, names: Iterable[str]) -> dict[str, Mapping[str, Tensor]]:
        """do(k = the value asked) for attributes k."""
        return {do_name(k): {k: self.asked[k]} for k in names}


def binary_names(schema: Schema) -> list[str]:
    """The binary attributes."""
    return [name for name, attribute in schema.attributes.items() if isinstance(attribute, Binary)]


def levels_apart(one: Tensor, other: Tensor) -> Tensor:
    """The mean |one - other| of each image's pixels, in levels of 0..255: (N,).

    >>> import torch
    >>> levels_apart(torch.zeros(2, 1, 2, 2), torch.ones(2, 1, 2, 2))
    tensor([255., 255.])
    """
    return 255 * (one - other).abs().flatten(1).mean(dim=1)
