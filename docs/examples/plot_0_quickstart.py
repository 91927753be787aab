"""
Ten lines
=========

Create an encoding, compute the rows of positions 0 to 99, 1000000 and 0.5, and draw a picture.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(128)
table = encoding.table(100)
far = encoding.encode([1e6, 0.5])
plot.heatmap(encoding, 100)
plt.savefig("encoding.png")
