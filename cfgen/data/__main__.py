"""`python -m cfgen.data`: the command `cfgen data`."""

import sys

from cfgen.commands.data import main

if __name__ == "__main__":
    sys.exit(main())
