"""`python -m cfgen.data`."""

import sys

from cfgen.data.command import main

if __name__ == "__main__":
    sys.exit(main())
