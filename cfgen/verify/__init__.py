"""`python -m cfgen.verify MODEL`: are the files of a model as they should be?"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `cfgen verify`."""
    from cfgen.verify.command import main as run  # imported when called: the package stays light to import

    return run(arguments)
