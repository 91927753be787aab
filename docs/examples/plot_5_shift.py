"""
A shift is a matrix
===================

To move all positions by the same offset, rotate each pair of columns by an angle: the offset times the frequency of the
pair. The angle is the same at every position. All rotations together are one matrix, with blocks of 2 x 2 along the
diagonal. So a model can attend to "seven tokens back" with the same weights at every position. RoPE applies the same
rotations to queries and keys.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

plot.shift(pf.sinusoidal(32), 100, 10)
plt.show()

# %%
# For wide matrices, the picture shows some of the frequencies, each with its block:

plot.shift(pf.sinusoidal(128), 100, 10)
plt.show()
