"""`python -m cfgen.quickstart`: the command `cfgen quickstart`."""

import sys

from cfgen.commands.quickstart import main

if __name__ == "__main__":
    sys.exit(main())
