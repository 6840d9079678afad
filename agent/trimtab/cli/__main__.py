"""`python -m trimtab.cli`, if the command `trimtab` isn't on PATH."""

import sys

from trimtab.cli import main

if __name__ == "__main__":
    sys.exit(main())
