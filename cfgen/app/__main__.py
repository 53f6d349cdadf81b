"""`python -m cfgen.app`: the command `cfgen app`."""

import sys

from cfgen.commands.app import main

if __name__ == "__main__":
    sys.exit(main())
