"""``python -m posenc_fast`` and the command ``posenc-fast``."""

import sys

from ._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
