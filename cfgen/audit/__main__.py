"""`python -m cfgen.audit`: the command `cfgen audit`."""

import sys

from cfgen.commands.audit import main

if __name__ == "__main__":
    sys.exit(main())
