"""`python -m cfgen.verify`."""

import sys

from cfgen.verify.command import main

if __name__ == "__main__":
    sys.exit(main())
