"""
The table, and its angles
=========================

A table has a row for each position. Seen as colours the fast columns are at the left, the slow ones at the right, where
sines stay near 0 (white) and cosines near 1 (red).
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(128)
_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot.heatmap(encoding, 100, ax=ax)
plt.show()

# %%
# A sine has most of its values twice in a turn. The angle tells them apart: one column for each frequency, with colours
# that close a circle, so that a whole turn brings the same one back; an angle of zero is light.

_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot.angles(encoding, 100, ax=ax)
plt.show()

# %%
# Other libraries put all sines before all cosines. The rows hold the same numbers, so a model can learn the one as well
# as the other; weights, however, only fit the one that they were trained with.

_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot.heatmap("whisper", 100, ax=ax)
plt.show()
