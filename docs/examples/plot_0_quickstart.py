"""
Ten lines
=========

An encoding, a table of it, rows of any positions, and a picture.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(128)
table = encoding.table(100)  # (100, 128) float32
later = encoding.encode([1e6, 0.5])  # any positions
plot.heatmap(encoding, 100)
plt.savefig("encoding.png")
