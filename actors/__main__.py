"""`python -m actors`: the command line without an installed script, as a submitted Ray job needs it."""

import sys

from actors.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
