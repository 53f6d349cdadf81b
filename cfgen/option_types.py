"""Numbers as options take them: argparse says what is wrong with others."""

from __future__ import annotations

import argparse

__all__ = ["count", "natural"]


def count(text: str) -> int:
    """1 or more."""
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{value} is not 1 or more")
    return value


def natural(text: str) -> int:
    """0 or more: what a seed can be."""
    if (value := int(text)) < 0:
        raise argparse.ArgumentTypeError(f"{value} is not 0 or more")
    return value
