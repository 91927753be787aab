"""The seed of draws that differ between runs: POSENC_FAST_SEED, or a new seed. Each run prints it at its end."""

from __future__ import annotations

import os

import numpy as np

# SEED has its own module: pytest may import conftest.py under two names, which would draw two seeds
SEED = int(os.environ.get("POSENC_FAST_SEED", "0") or 0) or int(np.random.SeedSequence().entropy) % 2**32
