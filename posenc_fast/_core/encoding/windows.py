"""Amplitudes that enable the frequencies of an encoding one after another during training.

A *band* has all columns of one frequency. With several axes, it has all columns whose frequency vectors are equally
long.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..numbers import annotations as npt
from ..numbers import exact
from ..numbers.arrays import Floats
from .sinusoids import Sinusoids

# Maximum ratio of two frequencies of one band. It is more than 1, because the computed lengths of two frequency vectors
# of equal length can differ in their last bits.
_ALIKE = 1 + 1e-9


def coarse_to_fine(sinusoids: Sinusoids, alpha: float) -> Floats:
    """Return the amplitudes of the columns times (1 - cos(pi clip(alpha - k, 0, 1))) / 2.

    k is the number of the column's band, counted from 0, lowest frequency first. Constant columns keep their
    amplitudes.
    """
    bands = _bands(sinusoids)
    weights = np.where(bands < alpha, 1.0, 0.0)
    # at most one band has a weight between 0 and 1
    entering = np.floor(alpha)
    weights[bands == entering] = _weight(Fraction(alpha) - Fraction(entering))
    weights[bands < 0] = 1.0
    result: Floats = sinusoids.amplitudes * weights
    return result


def _weight(part: Fraction) -> float:
    """Return the square of sin(part * pi / 2), rounded once."""
    turns = exact.divide(part.numerator, 4 * part.denominator, 200)
    (mantissa, exponent), _ = exact.sincos_turns(turns)
    return float(Fraction(mantissa**2, 1 << (-2 * exponent)))


def _bands(sinusoids: Sinusoids) -> npt.NDArray[np.intp]:
    """Return the band of each column, counted from 0, lowest frequency first. The band of constant columns is -1."""
    rates = sinusoids.radians()[sinusoids.index]
    largest = np.abs(rates).max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", under="ignore"):
        lengths = largest[:, 0] * np.sqrt(((rates / largest) ** 2).sum(axis=1))
    distinct = np.unique(lengths[largest[:, 0] > 0])
    begins = np.append(True, distinct[1:] > _ALIKE * distinct[:-1])[: len(distinct)]
    # If all columns are constant, `distinct` is empty, and `index` is 0. Then -1 is the only entry of `band`.
    band = np.append(np.cumsum(begins) - 1, -1)
    index = np.searchsorted(distinct, np.nan_to_num(lengths))
    return np.where(largest[:, 0] > 0, band[index], -1)
