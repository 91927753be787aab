"""
A shift is a matrix
===================

To move every position by the same offset, each clock is turned by an angle of its own, whatever it shows. That is one
matrix, of 2 x 2 rotations along the diagonal, for all positions. It is why a model can attend to "seven tokens back"
with weights that know nothing about where it is, and it is what rotary encoding does to queries and keys.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

plot.shift(pf.sinusoidal(32), 100, 10)
plt.show()

# %%
# Of wide matrices some of the frequencies are shown, each with its block:

plot.shift(pf.sinusoidal(128), 100, 10)
plt.show()
