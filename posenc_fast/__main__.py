"""Run the command line, as ``python -m posenc_fast`` or ``posenc-fast``."""

import sys

from ._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
