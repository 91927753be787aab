"""The seed of all random draws: POSENC_FAST_SEED, or a new one, which each run prints at its end."""

from __future__ import annotations

import os

import numpy as np

# SEED has its own module: pytest may import conftest.py under two names, which would draw two seeds
SEED = int(os.environ.get("POSENC_FAST_SEED", "0") or 0) or int(np.random.SeedSequence().entropy) % 2**32
