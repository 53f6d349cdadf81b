"""`python -m cfgen.data DATA`: what is in a data set?"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `cfgen data`."""
    from cfgen.data.command import main as run  # imported when called: the package stays light to import

    return run(arguments)
