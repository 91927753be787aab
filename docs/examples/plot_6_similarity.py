"""
Similarity of positions
=======================

The dot product of two rows depends only on the distance of their positions. The picture shows this product, divided by
the dot product of a row with itself. The curve is the same on both sides. It falls with ripples, but not to zero,
because the slow columns are nearly equal everywhere. An accurate encoding gives the same picture at large positions. An
encoding with float32 angles gives noise there.
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
# This picture shows the dot products near position 1000000000. They are not divided by the dot product of a row with
# itself. The curve of posenc_fast has the same shape as above. The usual program, with angles in float32, gives noise:

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
# Half of the encoding's columns depend on the row of a patch, the other half on its column in the image. Patches in the
# same row or column share one half, so the picture shows a cross. The nearest patches are similar in both halves.

_, ax = plt.subplots(figsize=(5.5, 4.2), layout="constrained")
plot.grid("mae", (14, 14), (4, 9), ax=ax)
plt.show()
