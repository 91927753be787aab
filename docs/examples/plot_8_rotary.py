"""
Rotary encoding
===============

Rotary encoding turns pairs of values of each query and key. The picture has a column for each pair of a head and a row
for each token; the colour is the angle. An angle of zero is light, half a turn dark.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.rotary("llama3", 100, ax=ax)
plt.show()

# %%
# Pairs of images and videos read different axes. Flux gives 8 of its pairs to the first axis, and 28 to rows and 28 to
# columns; here the three positions of a token are the same.

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot.rotary("flux", 100, ax=ax)
plt.show()

# %%
# What the base is for
# --------------------
# A query and a key that agree in all pairs are less and less aligned, the farther they are from each other. With a
# larger base that takes longer, which is why models for long texts have one.

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for base in (10_000, 500_000, 10_000_000):
    plot.decay(pf.Rotary(128, base=base), label=f"base {base:,}", title="Alignment against distance", ax=ax)
plt.show()

# %%
# What a scaling does
# -------------------
# To read texts eight times as long as those of its training, a model may turn slower. `linear` slows all pairs alike,
# which blurs neighbouring tokens; `llama3` and `yarn` leave the fast pairs as they are, slow the slow ones, and differ
# in between.

trained = {"factor": 8.0, "original_max_position_embeddings": 8192}
scalings = {
    "linear": {"factor": 8.0},
    "llama3": {**trained, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": trained,
}
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for rope_type, parameters in scalings.items():
    rotary = pf.Rotary(128, base=500_000, scaling={"rope_type": rope_type, **parameters})
    plot.frequencies(rotary, label=f"{rope_type}, factor 8", title="By what each pair is slowed", ax=ax)
plt.show()
