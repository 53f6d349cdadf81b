"""`python -m cfgen.app [MODEL]`: a page on this machine for counterfactuals, audits and data, without a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `cfgen app`."""
    from cfgen.app.command import main as run  # imported when called: the package stays light to import

    return run(arguments)
