"""
Examples from tutorials
=======================

This page computes examples from tutorials about the encoding of "Attention Is All You Need", each in a few lines and
with a picture. posenc_fast rounds each exact value once. A tutorial that computes in float32 can differ in the last
digits.

Four positions, four columns, base 100
--------------------------------------

You can check this table by hand. The frequencies are 1 and 1/10. The row of position p is sin(p), cos(p), sin(p/10),
cos(p/10).
"""

import matplotlib.pyplot as plt
import numpy as np

import posenc_fast as pf
from posenc_fast import plot

tiny = pf.positional_encoding(4, 4, base=100)
print(tiny.round(4))
np.testing.assert_allclose(tiny[3], [np.sin(3), np.cos(3), np.sin(0.3), np.cos(0.3)], atol=1e-7)

_, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
plot.heatmap(pf.sinusoidal(4, base=100), 4, ax=ax)
plt.show()

# %%
# 100 and 128 positions, 512 columns
# ----------------------------------
# Many tutorials show this picture. The columns from about 400 on hardly change within a hundred positions. They
# distinguish positions in longer texts. The picture has only the columns of every second frequency, as its label says.

_, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
plot.heatmap(pf.sinusoidal(512), 100, ax=ax)
plt.show()

# %%
# The next picture has 128 positions, and sines before cosines, as in tensor2tensor:

_, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
plot.heatmap(pf.sinusoidal(512, layout="concatenated"), 128, ax=ax)
plt.show()

# %%
# Position 2, four columns, and a widely copied mistake
# -----------------------------------------------------
# In the paper's exponent 2i/d, i counts pairs of columns. Some programs use the number of the column as i. Then no two
# columns share a frequency, and the third and fourth column hardly change.

paper = pf.sinusoidal(4)
copied = pf.presets.evans_unpaired(4)
print("paper ", paper.encode(2).round(6))
print("copied", copied.encode(2).round(6))
np.testing.assert_allclose(paper.encode(2), [np.sin(2), np.cos(2), np.sin(0.02), np.cos(0.02)], atol=1e-7)
np.testing.assert_allclose(copied.encode(2), [np.sin(2), np.cos(0.02), np.sin(2e-4), np.cos(2e-6)], atol=1e-7)

_, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
plot.heatmap(pf.sinusoidal(32), 40, ax=axes[0])
plot.heatmap("evans_unpaired", 40, d_model=32, ax=axes[1])
plt.show()

# %%
# A shift of all positions rotates the two columns of a pair, if both have the same frequency. So one matrix shifts all
# rows of the paper's table. For the copied table, there is no such matrix:

matrix = paper.transition_matrix(1)
assert np.allclose(paper.table(10) @ matrix, paper.table(10, start=1), atol=1e-6)
try:
    copied.transition_matrix(1)
except ValueError as error:
    print(error)

# %%
# Which positions are nearest? 50 positions, 512 columns
# ------------------------------------------------------
# In this table, sines come before cosines, and the last wavelength is exactly 10000 times the first (``freq_shift=1``).
# For each row, the most similar other row is one of its two neighbours. Dot products and squared differences agree
# about this, because all rows have the same norm.

encoding = pf.sinusoidal(512, freq_shift=1, layout="concatenated")
table = encoding.table(50, dtype=np.float64)
products = table @ table.T
distances = ((table[:, np.newaxis] - table) ** 2).sum(axis=-1)

# leave out the row itself; the neighbours on both sides are equally near, so accept either
others = ~np.eye(50, dtype=bool)
by_product = np.where(others, products, -np.inf).argmax(axis=1)
by_distance = np.where(others, distances, np.inf).argmin(axis=1)
assert (abs(by_product - np.arange(50)) == 1).all()
assert (abs(by_distance - np.arange(50)) == 1).all()
np.testing.assert_allclose(distances, 2 * (256 - products), atol=1e-10)

_, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, values, title in zip(axes, (products, distances), ("dot product", "sum of squared differences"), strict=True):
    image = ax.imshow(values, cmap="viridis")
    ax.set(title=title, xlabel="position", ylabel="position")
    ax.figure.colorbar(image, ax=ax)
plt.show()

# %%
# Both measures depend only on the distance of two positions, so one curve shows the dot products of all pairs of rows:

_, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
plot.similarity(encoding, 25, span=25, ax=ax)
plt.show()

# %%
# Ten positions back, and the error
# -----------------------------------------
# The matrix that shifts positions by −10 turns rows 10 to 49 into rows 0 to 39. In float64, only rounding errors
# remain. Some tutorials fit a matrix to the table by least squares. The fitted matrix is right only for the rows of
# this table.

matrix = encoding.transition_matrix(-10)
exact = np.abs(table[10:] @ matrix - table[:-10]).max()
fitted, *_ = np.linalg.lstsq(table[10:], table[:-10], rcond=None)
print(f"largest error of the shift: {exact:.1e}")
print(
    f"the fitted matrix beyond its table: {np.abs(encoding.table(50, start=1000) @ fitted - encoding.table(50, start=990)).max():.1e}"
)
assert exact < 1e-14

plot.shift(encoding, 50, -10)
plt.show()
