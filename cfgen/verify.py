"""`python -m cfgen.verify`: the command `cfgen verify`."""

import sys

from cfgen.commands.verify import main

if __name__ == "__main__":
    sys.exit(main())
