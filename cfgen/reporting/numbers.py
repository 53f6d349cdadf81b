"""Numbers as people read them."""

from __future__ import annotations

import math

__all__ = ["count_of", "share", "short", "signed"]

SMALL = 1e-6  # below it, rounding


def share(value: float) -> str:
    """A share in per cent.

    >>> share(0.1234), share(float("nan"))
    ('12.3 %', 'n/a')
    """
    return "n/a" if math.isnan(value) else f"{100 * value:.1f} %"


def signed(value: float) -> str:
    """A difference with its sign.

    >>> signed(0.05), signed(-0.0124)
    ('+0.050', '-0.012')
    """
    return "n/a" if math.isnan(value) else f"{value:+.3f}"


def short(value: float) -> str:
    """Four digits, without an exponent; of what is nothing but rounding, that it is small.

    >>> short(0.00123456), short(48.654), short(12345.6), short(0.0), short(8.9e-9)
    ('0.001235', '48.65', '12346', '0', '< 0.000001')
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:.0f}"
    if 0 < value < SMALL:
        return f"< {SMALL:.6f}"
    return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"


def count_of(number: int, what: str) -> str:
    """A number of things; the plural of most words ends in s.

    >>> count_of(1, "image"), count_of(2000, "image")
    ('1 image', '2,000 images')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
