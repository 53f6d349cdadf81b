"""`python -m cfgen.audit`."""

import sys

from cfgen.audit.command import main

if __name__ == "__main__":
    sys.exit(main())
