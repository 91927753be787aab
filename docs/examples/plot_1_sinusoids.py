"""
Columns are sinusoids
=====================

Column by column an encoding is a sine or a cosine of the position. The first columns turn over within a few positions
and tell neighbours apart; the later ones change so slowly that they tell the beginning of a text from its end. Dots are
the positions of tokens; the curves are what ``encode`` gives in between.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(128)
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.sinusoids(encoding, ax=ax)
plt.show()
