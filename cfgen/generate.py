"""`python -m cfgen.generate`: the command `cfgen generate`."""

import sys

from cfgen.commands.generate import main

if __name__ == "__main__":
    sys.exit(main())
