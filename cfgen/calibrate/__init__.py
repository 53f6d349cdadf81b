"""`python -m cfgen.calibrate MODEL`: how strongly does a model draw each attribute?"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `cfgen calibrate`."""
    from cfgen.calibrate.command import main as run  # imported when called: the package stays light to import

    return run(arguments)
