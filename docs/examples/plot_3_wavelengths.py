"""
Wavelengths
===========

Wavelengths are spaced like the marks of a slide rule: from 2π positions to almost 10000 times that. A larger base
reaches further with the same number of columns, and leaves larger gaps. With ``freq_shift=1`` the last wavelength is
exactly 10000 times the first.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for base in (100, 10_000, 500_000):
    plot.wavelengths(pf.sinusoidal(64, base=base), label=f"base {base:,}", title="Wavelengths of three bases", ax=ax)
plt.show()
