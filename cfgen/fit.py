"""`python -m cfgen.fit --config NAME.yaml`: trains what the config says, in a run folder of its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cfgen.training.cli import FitCLI, one_line_errors


def main(arguments: Sequence[str] | None = None) -> int:
    return one_line_errors(lambda: FitCLI(arguments).fit())


if __name__ == "__main__":
    sys.exit(main())
