"""
Columns are sinusoids
=====================

Each column of an encoding is a sine or a cosine of the position. The first columns repeat within a few positions and
distinguish neighbouring positions. The last columns change slowly and distinguish the beginning of a text from its end.
The dots are the values at the positions of tokens. The curves show ``encode`` at the positions in between.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

encoding = pf.sinusoidal(128)
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.sinusoids(encoding, ax=ax)
plt.show()
