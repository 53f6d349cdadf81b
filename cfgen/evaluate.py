"""`python -m cfgen.evaluate`: the command `cfgen evaluate`."""

import sys

from cfgen.commands.evaluate import main

if __name__ == "__main__":
    sys.exit(main())
