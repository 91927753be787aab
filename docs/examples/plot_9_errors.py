"""
Errors against position
=======================

Programs that compute angles in float32 round the product of position and frequency. What is rounded off grows with the
position; at a million it is in the second decimal, and beyond a hundred million nothing is left of the fast columns.
The values of this package are rounded once, at any position.
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
# Any function of positions can be drawn beside them: here the formula in float64, whose error reaches that of float32
# values at some hundred million.


def in_float64(positions):
    angles = positions[:, np.newaxis] * 10000.0 ** (-np.arange(0, 128, 2) / 128)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(-1, 128)


_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.errors(encoding, in_float64, label="angles in float64", ax=ax)
plot.errors(encoding, encoding.encode, label="posenc_fast in float32", title="Errors of 128 columns", ax=ax)
plt.show()
