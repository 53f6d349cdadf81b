"""`python -m cfgen.app`."""

import sys

from cfgen.app.command import main

if __name__ == "__main__":
    sys.exit(main())
