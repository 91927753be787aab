"""
The table, and its angles
=========================

A table has a row for each position. The fast columns are at the left. In the slow columns at the right, sines stay near
0
(white) and cosines near 1 (red).
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(128)
_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot.heatmap(encoding, 100, ax=ax)
plt.show()

# %%
# A sine has most of its values twice in a turn, but the angle only once. This picture has one column for each
# frequency, and shows the angle in cyclic colours. An angle of zero is light.

_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot.angles(encoding, 100, ax=ax)
plt.show()

# %%
# Other libraries put all sines before all cosines. The rows contain the same numbers, so a model can learn either
# order. Trained weights only fit the order that they were trained with.

_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot.heatmap("whisper", 100, ax=ax)
plt.show()
