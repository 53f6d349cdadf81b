"""`python -m cfgen.calibrate`."""

import sys

from cfgen.calibrate.command import main

if __name__ == "__main__":
    sys.exit(main())
