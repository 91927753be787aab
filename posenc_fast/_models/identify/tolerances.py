"""Tolerances for the differences between exact values and values that sources compute in float32."""

from __future__ import annotations

import math

import numpy as np

from ..._core.numbers.arrays import Floats
from ..._core.numbers.formats import FLOAT32, Format

# Error of a sine or cosine: a constant, plus a fraction of the angle. `identify` compares a table with many encodings.
# It uses one fraction for all of them: 16 roundings of a float32 angle. `check` compares a table with one encoding, and
# must not reject correct float32 code. Its fraction is `relative_slack`, which grows with the range of the frequencies
# (1.6e-6 for base 10000). The constant of `check` is smaller, so that fewer wrong values pass.
IDENTIFIED_SINE, PER_ANGLE = 2e-6, 1e-6
CHECKED_SINE = 1e-6
# Error of a rotation in float32, divided by the length of the pair. Products and their sum are rounded.
PRODUCT = 3e-7


def relative_slack(frequencies: Floats) -> float:
    """Return an upper bound of the relative errors of frequencies that are computed in float32.

    The rounding error of an exponent is multiplied by the logarithm of the base. Powers, quotients and scalings are
    rounded as well.
    """
    size = np.abs(frequencies[frequencies != 0])
    if not size.size:
        return FLOAT32.rounding
    spread = abs(math.log(float(size.max()) / float(size.min())))
    return FLOAT32.rounding * (8 + 2 * spread)


def least_of(form: Format) -> float:
    """Return the smallest positive number of a type, which bounds the rounding errors of results near 0."""
    return math.ldexp(1.0, form.least)
