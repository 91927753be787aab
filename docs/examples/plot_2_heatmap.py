"""
The table, and its angles
=========================

A table has a row for each position. The fast columns are at the left. In the slow columns at the right, sines stay near
0 (white) and cosines near 1 (red).
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(128)
_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot.heatmap(encoding, 100, ax=ax)
plt.show()

# %%
# Within one turn, a sine has most of its values twice, but each angle occurs only once. This picture shows the angle
# (position times frequency, without whole turns) of each frequency. An angle of zero is light.

_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot.angles(encoding, 100, ax=ax)
plt.show()

# %%
# Some libraries put all sines before all cosines. The rows contain the same numbers, so a model can learn with either
# order. After the training, the weights of the model are right only for the order of the training.

_, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot.heatmap("whisper", 100, ax=ax)
plt.show()
