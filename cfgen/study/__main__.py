"""`python -m cfgen.study`."""

import sys

from cfgen.study.command import main

if __name__ == "__main__":
    sys.exit(main())
