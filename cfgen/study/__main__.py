"""`python -m cfgen.study`: the command `cfgen study`."""

import sys

from cfgen.commands.study import main

if __name__ == "__main__":
    sys.exit(main())
