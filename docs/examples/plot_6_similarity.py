"""
Near is alike
=============

The dot product of two rows depends on the distance of their positions and on nothing else, and falls off on both sides
alike; it is divided by that of the row with itself. It does not fall to zero: the slow columns are nearly the same
everywhere. Far from the origin the picture is the
same, digit for digit, if the encoding is accurate there; one that was computed in float32 shows noise.
"""

import matplotlib.pyplot as plt
import numpy as np

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(128)
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.similarity(encoding, 500, ax=ax)
plt.show()

# %%
# A thousand million positions on it is the same, and what the usual program makes of it, with angles in float32, is not:

positions = np.float32(10**9 + np.arange(-100, 101))
usual = np.concatenate(
    [f(positions[:, None] * np.float32(encoding.frequencies[::2])) for f in (np.sin, np.cos)], axis=1
)
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.plot(np.arange(-100, 101), usual @ usual[100], label="angles in float32")
ax.plot(np.arange(-100, 101), encoding.similarity(np.arange(-100, 101)), label="posenc_fast")
ax.set(title="A thousand million positions on", xlabel="offset from position 1000000000", ylabel="dot product")
ax.legend()
plt.show()

# %%
# Patches of an image
# -------------------
# A patch has a row and a column, each with half of the encoding's columns. Patches of the same row or column share one
# half, so that a cross stands out; the nearest ones are like it in both.

_, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
plot.grid("mae", (14, 14), (4, 9), ax=ax)
plt.show()
