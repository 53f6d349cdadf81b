"""`python -m cfgen.export`: the command `cfgen export`."""

import sys

from cfgen.commands.export import main

if __name__ == "__main__":
    sys.exit(main())
