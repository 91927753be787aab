"""
A wall of clocks
================

The two columns of one frequency are the height and the width of a hand on a clock. Each position sets all clocks: the
first turns once in 6.28 positions, the last once in 55 thousand. As hours and minutes tell the time together, the hands
tell the position together.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

_, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
plot.clocks(pf.sinusoidal(128), [0, 1, 2, 10, 100, 1000], ax=ax)
plt.show()
