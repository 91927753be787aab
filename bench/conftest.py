"""Let pytest import the modules of this folder, as the scripts do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
