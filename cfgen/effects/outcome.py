"""What a classifier answers: yes or no, one of several classes, or a value; its unit, its flips and its numbers as text."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cfgen.effects.estimate import Array

__all__ = ["OneOfClasses", "Outcome", "Value", "YesNo"]

Raw = NDArray[np.floating[Any]]


class Outcome(ABC):
    """The kind of a classifier's answers.

    A classifier's raw output has one column per entry of `columns`, (n, columns).  `answers` turns it into the number whose mean
    an audit compares: 1 for yes and 0 for no, or the predicted value.  NaN stays NaN: the picture does not exist.
    """

    unit: ClassVar[str] = "points"
    factor: ClassVar[float] = 100.0  # a difference is multiplied by it before it is shown
    digits: ClassVar[str] = ".1f"
    flips: ClassVar[bool] = True  # whether an answer can flip between yes and no
    limit: ClassVar[float] = 1.0  # no difference is larger

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the classes that have a column of raw output; one empty name where there is only one column."""
        return ("",)

    @abstractmethod
    def answers(self, raw: Raw, class_name: str = "") -> Array:
        """The answers (n,) in float64, of one class where there are several."""

    def spread(self, real: Array) -> float:
        """What answers are divided by before they are analysed: 1 for shares."""
        return 1.0

    def text(self, difference: float) -> str:
        """A difference with its sign, in the unit.

        >>> YesNo().text(0.2614), YesNo().text(-0.00001), Value().text(0.02614), Value().text(-12.34)
        ('+26.1', '0.0', '+0.0261', '-12.3')
        """
        text = f"{self.factor * difference:+{self.digits}}"
        return text[1:] if text.strip("+-0.") == "" else text

    def size(self, difference: float) -> str:
        """The absolute difference, in the unit.

        >>> YesNo().size(-0.02), Value().size(-0.5)
        ('2.0', '0.5')
        """
        return f"{self.factor * abs(difference):{self.digits}}"


@dataclass(frozen=True)
class YesNo(Outcome):
    """The answer is yes where the probability is above `threshold`.

    >>> YesNo().answers(np.array([[0.7], [0.2], [np.nan]], dtype=np.float32)).tolist()
    [1.0, 0.0, nan]
    """

    threshold: float = 0.5

    def answers(self, raw: Raw, class_name: str = "") -> Array:
        p = raw[:, 0]
        return np.where(np.isnan(p), np.nan, p > self.threshold)


@dataclass(frozen=True)
class OneOfClasses(Outcome):
    """The answer is the most probable of the classes; each class is compared with the rest.

    >>> OneOfClasses(("cat", "dog")).answers(np.array([[0.4, 0.6], [0.9, 0.1]]), "dog").tolist()
    [1.0, 0.0]
    """

    classes: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.classes

    def answers(self, raw: Raw, class_name: str = "") -> Array:
        chosen = raw.argmax(axis=1) == self.classes.index(class_name)
        return np.where(np.isnan(raw[:, 0]), np.nan, chosen)


@dataclass(frozen=True)
class Value(Outcome):
    """The answer is a predicted number, in its own units."""

    unit: ClassVar[str] = "units"
    factor: ClassVar[float] = 1.0
    digits: ClassVar[str] = ".3g"
    flips: ClassVar[bool] = False
    limit: ClassVar[float] = math.inf

    def answers(self, raw: Raw, class_name: str = "") -> Array:
        return raw[:, 0].astype(np.float64)

    def spread(self, real: Array) -> float:
        """The standard deviation over real images, so that margins for few images mean the same as for shares."""
        return float(real.std()) or 1.0
