"""
Positions as clocks
===================

The two columns of one frequency are the height and the width of a clock hand. The first clock turns once in 6.28
positions, the last once in 54 thousand. Hour and minute hands show the time together. In the same way, all hands
together show the position.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

_, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
plot.clocks(pf.sinusoidal(128), [0, 1, 2, 10, 100, 1000], ax=ax)
plt.show()
