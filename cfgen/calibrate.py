"""`python -m cfgen.calibrate`: the command `cfgen calibrate`."""

import sys

from cfgen.commands.calibrate import main

if __name__ == "__main__":
    sys.exit(main())
