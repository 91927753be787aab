"""The definition of all encodings in decimal numbers, and two functions as written in tutorials.

Every encoding is a row of independent sinusoids::

    out[n, c] = amplitude[c] * sin(sum_a position[n, a] * frequency[c, a] + 2 pi phase[c])

A cosine is a sine with a phase of a quarter turn. A layout is an order of the columns. A rotary encoding (RoPE) rotates
pairs of values by angles ``position * frequency``. `exact_frequencies`, `exact_row` and `exact_rotation` compute
frequencies, rows and rotations to more digits than any dtype has. posenc_fast rounds rows once. Tests and
``posenc-fast verify`` compare results of posenc_fast with these three functions. To be independent, this module imports
no other module of posenc_fast.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["exact_frequencies", "exact_rotation", "exact_row", "vaswani_loops", "vaswani_numpy"]


def __dir__() -> list[str]:
    return sorted(__all__)


# ---- the definition ---------------------------------------------------------------------------------------------

# type of a position or frequency: int, float or Decimal, or for several axes a tuple with one of them for each axis
Number = Any
Floats = npt.NDArray[np.float64]

# Number of digits. For positions below 2**64 and frequencies up to 1, angles have at most 20 digits before the decimal
# point. The 80 digits after the point are far more than float64 needs.
CONTEXT = Context(prec=100, Emax=MAX_EMAX, Emin=MIN_EMIN)
# number of digits of a sine, after its angle was reduced to an eighth of a turn
SINE_DIGITS = 60


def exact_frequencies(d_model: int, base: float = 10000.0, freq_shift: float = 0.0) -> list[Decimal]:
    """Return the frequency of each pair of columns: base ** (-i / (d_model / 2 - freq_shift)).

    Raise ValueError if the denominator is 0 and there are several pairs.
    """
    with localcontext(CONTEXT):
        pairs, denominator = -(-d_model // 2), Decimal(d_model) / 2 - Decimal(freq_shift)
        if pairs == 1:
            # i is 0, so the frequency is 1 for any denominator
            return [Decimal(1)]
        if denominator == 0:
            raise ValueError(f"freq_shift={freq_shift:g} makes the denominator zero for d_model={d_model}")
        return [Decimal(base) ** (-i / denominator) for i in range(pairs)]


def exact_row(
    position: Number, frequencies: Iterable[Number], phases: Iterable[float], amplitudes: Iterable[float]
) -> list[Decimal]:
    """Return amplitude * sin(position * frequency + 2 pi phase) of each column. Products are summed over axes."""
    with localcontext(CONTEXT):
        columns = zip(frequencies, phases, amplitudes, strict=True)
        return [Decimal(a) * sine(product(position, f), Decimal(phase)) for f, phase, a in columns]


def exact_rotation(
    x: Sequence[float], position: Number, frequencies: Sequence[Number], layout: str = "half"
) -> list[Decimal]:
    """Return x with each pair of values rotated by position * frequency.

    The values of a pair are len(frequencies) apart (layout "half"), or adjacent (layout "interleaved"). Values behind
    the pairs are unchanged.
    """
    with localcontext(CONTEXT):
        rotated = [Decimal(value) for value in x]
        for i, frequency in enumerate(frequencies):
            first, second = (i, i + len(frequencies)) if layout == "half" else (2 * i, 2 * i + 1)
            angle = product(position, frequency)
            cos, sin = sine(angle, Decimal("0.25")), sine(angle, Decimal(0))
            a, b = rotated[first], rotated[second]
            rotated[first], rotated[second] = a * cos - b * sin, a * sin + b * cos
        return rotated


def product(position: Number, frequency: Number) -> Decimal:
    """Return the exact angle position * frequency. Products are summed over axes."""
    if not isinstance(position, tuple):
        return Decimal(position) * Decimal(frequency)
    return sum((Decimal(p) * Decimal(f) for p, f in zip(position, frequency, strict=True)), Decimal(0))


def sine(angle: Decimal, phase: Decimal) -> Decimal:
    """Return sin(angle + 2 pi phase), by Taylor's series about the nearest quarter turn."""
    # the whole angle is `quarters` quarter turns plus x, with abs(x) at most an eighth of a turn
    quarters = int((2 * angle / pi() + 4 * phase).to_integral_value())
    x = angle - (quarters - 4 * phase) * pi() / 2
    with localcontext() as context:
        context.prec = SINE_DIGITS
        # for quarters % 4 = 0, 1, 2, 3 the result is sin x, cos x, -sin x, -cos x
        term, n = (Decimal(1), 0) if quarters % 2 else (+x, 1)
        total, square = term, -x * x
        while abs(term) > abs(total).scaleb(-SINE_DIGITS):
            term, n = term * square / ((n + 1) * (n + 2)), n + 2
            total += term
    return -total if quarters % 4 >= 2 else total


@functools.cache
def pi() -> Decimal:
    """Return pi by Machin's formula, 16 atan(1/5) - 4 atan(1/239)."""
    with localcontext(CONTEXT) as context:
        context.prec += 10

        def arctan_of_inverse(x: int) -> Decimal:
            power = total = Decimal(1) / x
            n = 1
            while abs(power) > Decimal(10) ** -context.prec:
                power, n = -power / (x * x), n + 2
                total += power / n
            return total

        return 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)


# ---- the two programs of the tutorials --------------------------------------------------------------------------


def vaswani_loops(length: int, d_model: int) -> Floats:
    """Return a table of the paper's formula, computed in a double loop.

    Parameters
    ----------
    length, d_model : int
        Numbers of rows and columns.

    Returns
    -------
    ndarray of float64, shape (length, d_model)

    Notes
    -----
    PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d)): section 3.5 of Vaswani et al.,
    "Attention Is All You Need", 2017, arXiv:1706.03762.

    Examples
    --------
    >>> from posenc_fast import reference
    >>> reference.vaswani_loops(2, 2)
    array([[0.        , 1.        ],
           [0.84147098, 0.54030231]])
    """
    table = np.empty((length, d_model))
    for p in range(length):
        for c in range(d_model):
            angle = p / 10000.0 ** ((c - c % 2) / d_model)
            table[p, c] = math.sin(angle) if c % 2 == 0 else math.cos(angle)
    return table


def vaswani_numpy(length: int, d_model: int) -> Floats:
    """Return a table of the paper's formula, computed in array operations.

    Parameters
    ----------
    length, d_model : int
        Numbers of rows and columns.

    Returns
    -------
    ndarray of float64, shape (length, d_model)

    Notes
    -----
    The formula is that of `vaswani_loops`, vectorised as in tutorials.

    Examples
    --------
    >>> from posenc_fast import reference
    >>> reference.vaswani_numpy(2, 2)
    array([[0.        , 1.        ],
           [0.84147098, 0.54030231]])
    """
    positions = np.arange(length)[:, np.newaxis]
    frequencies = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    table = np.empty((length, d_model))
    table[:, 0::2] = np.sin(positions * frequencies)
    table[:, 1::2] = np.cos(positions * frequencies[: d_model // 2])
    return table
