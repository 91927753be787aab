"""
Wavelengths
===========

Wavelengths are spaced geometrically, from 2π positions to almost 2π times the base. The three encodings have the same
number of columns, so a larger base gives longer wavelengths with larger gaps. With ``freq_shift=1``, the last
wavelength is exactly the first times the base.
"""

import matplotlib.pyplot as plt

import posenc_fast as pf
from posenc_fast import plot

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for base in (100, 10_000, 500_000):
    plot.wavelengths(pf.sinusoidal(64, base=base), label=f"base {base:,}", title="Wavelengths of three bases", ax=ax)
plt.show()
