"""
Rotary encoding (RoPE)
======================

RoPE rotates pairs of values of each query and key. In the picture, each column is a pair of one head, and each row is a
token. The colour shows the angle by which the pair is rotated. An angle of zero is light, and half a turn is dark.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.rotary("llama3", 100, ax=ax)
plt.show()

# %%
# For images and videos, pairs use different axes. Flux has 8 pairs for the first axis, 28 for rows and 28 for columns.
# Here the three positions of a token are equal.

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.rotary("flux", 100, ax=ax)
plt.show()

# %%
# Effect of the base
# ------------------
# For a query and a key with equal values, the picture shows the mean cosine over all pairs. The cosine falls with the
# distance of the two tokens. With a larger base, it falls more slowly. So models for long texts have larger bases.

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for base in (10_000, 500_000, 10_000_000):
    plot.decay(pf.Rotary(128, base=base), label=f"base {base:,}", title="Alignment against distance", ax=ax)
plt.show()

# %%
# Effect of a scaling
# -------------------
# To read texts eight times as long as in training, a model may rotate pairs more slowly. `linear` slows all pairs
# equally, so neighbouring tokens are harder to distinguish. `llama3` and `yarn` do not change the fast pairs, and slow
# the slow pairs. The two scalings differ for the pairs in between.

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
