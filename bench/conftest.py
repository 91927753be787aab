"""The suite reads the modules beside it, as the scripts do."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
