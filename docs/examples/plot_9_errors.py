"""
Errors against position
=======================

Programs that compute angles in float32 round the product of position and frequency. The rounding error grows with the
position. At a million, the error reaches the second decimal. Beyond a hundred million, the fast columns are noise.
posenc_fast rounds each value once, at any position.
"""

import matplotlib.pyplot as plt
import numpy as np

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(128)
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.errors(encoding, ax=ax)
plt.show()

# %%
# You can draw any function of positions for comparison. The next picture shows the formula in float64. Near
# position 10⁸, its error reaches the rounding error of float32 values.


def in_float64(positions):
    angles = positions[:, np.newaxis] * 10000.0 ** (-np.arange(0, 128, 2) / 128)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(-1, 128)


_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.errors(encoding, in_float64, label="angles in float64", ax=ax)
plot.errors(encoding, encoding.encode, label="posenc_fast in float32", title="Errors of 128 columns", ax=ax)
plt.show()
