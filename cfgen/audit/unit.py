"""How changes of a network's answers are written: of shares of yes in points, of predicted values in their own units."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["POINTS", "VALUES", "Unit"]


@dataclass(frozen=True)
class Unit:
    """`name` is how it is called in a sentence; a number is multiplied by `factor` and written with `digits`.

    >>> POINTS.text(0.2614), POINTS.text(-0.00001), VALUES.text(0.02614), VALUES.text(-12.34)
    ('+26.1', '0.0', '+0.0261', '-12.3')
    """

    name: str
    factor: float
    digits: str

    def text(self, value: float) -> str:
        """A change with its sign."""
        text = f"{self.factor * value:+{self.digits}}"
        return text[1:] if text.strip("+-0.") == "" else text

    def size(self, value: float) -> str:
        """How large a change is.

        >>> POINTS.size(-0.02), VALUES.size(-0.5)
        ('2.0', '0.5')
        """
        return f"{self.factor * abs(value):{self.digits}}"


POINTS = Unit("points", 100.0, ".1f")
VALUES = Unit("units", 1.0, ".3g")
