"""Audits: is a classifier biased, by the counterfactuals of its images?  `python -m cfgen.audit` is the command."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `cfgen audit`."""
    from cfgen.audit.command import main as run  # imported when called: the room's other modules stay light to import

    return run(arguments)
