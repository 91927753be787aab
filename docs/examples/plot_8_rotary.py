"""
Rotary encoding (RoPE)
======================

RoPE divides the values of each query and key into pairs, and rotates each pair by an angle. In the picture, each column
is a pair of one head, and each row is a token. The colour shows the angle. An angle of zero is light, and half a turn
is dark.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.rotary("llama3", 100, ax=ax)
plt.show()

# %%
# A token of an image or video has several positions, such as its row and its column. Each pair uses one of them. In
# Flux, 8 pairs use the index of the image, 28 pairs use the row, and 28 pairs use the column. In this picture, the
# three positions of each token are equal. Each of the three blocks of pairs begins with its fastest pair.

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.rotary("flux", 100, ax=ax)
plt.show()

# %%
# Effect of the base
# ------------------
# The picture shows how strongly a query attends to a key with equal values. For each pair, take the cosine of the angle
# between the rotated query and the rotated key. The curve is the mean of these cosines over all pairs. It falls with
# the distance of the two tokens. With a larger base, it falls more slowly. So models for long texts have larger bases.

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for base in (10_000, 500_000, 10_000_000):
    plot.decay(pf.Rotary(128, base=base), label=f"base {base:,}", title="Alignment against distance", ax=ax)
plt.show()

# %%
# Effect of a scaling
# -------------------
# To read texts eight times as long as in training, a model may rotate pairs more slowly. `linear` slows down all pairs
# equally, so neighbouring tokens are harder to distinguish. `llama3` and `yarn` slow down only the slow pairs, and
# leave the fast pairs unchanged. `llama3` and `yarn` differ in the pairs in between.

trained = {"factor": 8.0, "original_max_position_embeddings": 8192}
scalings = {
    "linear": {"factor": 8.0},
    "llama3": {**trained, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": trained,
}
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for rope_type, parameters in scalings.items():
    rotary = pf.Rotary(128, base=500_000, scaling={"rope_type": rope_type, **parameters})
    plot.frequencies(rotary, label=f"{rope_type}, factor 8", title="Slowdown of each pair", ax=ax)
plt.show()
