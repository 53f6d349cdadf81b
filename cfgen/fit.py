"""`python -m cfgen.fit`: the command `cfgen fit`."""

import sys

from cfgen.commands.fit import main

if __name__ == "__main__":
    sys.exit(main())
