"""
The table, and its angles
=========================

A table has a row for each position. Seen as colours the fast columns are at the left, the slow ones at the right, where
sines stay near 0 (white) and cosines near 1 (blue). The second picture has the angle of each column in colours that
close a circle, so that a whole turn brings the same colour back.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(64)
_, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot.heatmap(encoding, 80, ax=axes[0])
plot.angles(encoding, 80, ax=axes[1])
plt.show()

# %%
# Other libraries put all sines before all cosines. The rows hold the same numbers, so a model can learn the one as well
# as the other; weights, however, only fit the one that they were trained with.

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.heatmap("whisper", 80, d_model=64, ax=ax)
plt.show()
