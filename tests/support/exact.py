"""Exact values from mpmath at 300 bits, a separate implementation of schedules, and distances in ulps."""

from __future__ import annotations

import contextlib
import functools
import threading
from fractions import Fraction

import mpmath
import numpy as np

PRECISION = 300
TYPES = {"float64": (53, -1074), "float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}
_LOCK = threading.RLock()


@contextlib.contextmanager
def _working(bits):
    """Set mpmath's precision inside a block. The lock is necessary because all threads share this precision."""
    with _LOCK, mpmath.workprec(bits):
        yield


@functools.cache
def schedule(d, base=10000.0, freq_shift=0.0, first=1.0):
    """Return the frequencies of ``sinusoidal(d, ...)`` as mpmath numbers, one for each pair of columns."""
    with _working(PRECISION + 1024):
        denominator = mpmath.mpf(d) / 2 - mpmath.mpf(freq_shift) or mpmath.mpf(1)
        return [mpmath.mpf(first) * mpmath.mpf(base) ** (-i / denominator) for i in range(-(-d // 2))]


def number(value):
    """Return an int, float or Fraction as an mpmath number, exact to 1200 bits."""
    value = Fraction(value)
    with _working(1200):
        return mpmath.mpf(value.numerator) / value.denominator


# cached, because tests need the same values for several dtypes, engines and functions
@functools.lru_cache(2**14)
def sincos(position, frequency):
    """Return sin and cos of position * frequency, to at least 200 bits, also for huge angles."""
    position = number(position)
    size = max(0, int(mpmath.mag(position)) + int(mpmath.mag(frequency))) if position and frequency else 0
    with _working(PRECISION + size):
        return mpmath.sin(position * frequency), mpmath.cos(position * frequency)


def rotation(pair, sine, cosine):
    """Return the two exactly rotated values of a pair, and the length of the pair."""
    with _working(PRECISION):
        a, b = (mpmath.mpf(float(value)) for value in pair)
        return (a * cosine - b * sine, b * cosine + a * sine), mpmath.sqrt(a**2 + b**2)


def fixed_point(positions, frequency):
    """Return sin and cos of positions times one frequency as long doubles, exact to 2^-60.

    This function is fast enough for millions of positions. It rounds the frequency, in turns per unit, to a multiple of
    2^-1024. The product with a position is an integer times a power of two, so whole quarter turns can be subtracted
    exactly. Only the rest is rounded to a long double.
    """
    bits, kept = 1024, 192
    with _working(PRECISION + bits):
        turns = int(mpmath.nint(frequency / (2 * mpmath.pi) * mpmath.ldexp(1, bits)))
    quarters, ratios = [], {}
    one, half = 1 << kept, 1 << (kept - 1)
    for position in positions:
        numerator, denominator = position.as_integer_ratio()
        shift = bits - kept - 2 + denominator.bit_length() - 1
        if shift not in ratios:
            # Drop low bits of the frequency, once for each denominator: the angle needs 192 bits below a quarter turn.
            # Keep 64 more bits for the product with the numerator.
            ratios[shift] = turns >> (shift - 64)
        quadrant, rest = divmod(((numerator * ratios[shift]) >> 64) + half, one)
        quarters.append((quadrant & 3, (rest - half) >> (kept - 63)))
    quadrant, rest = np.array(quarters, dtype=np.int64).T
    x = rest.astype(np.longdouble) * np.longdouble(2) ** -63 * (np.arctan(np.longdouble(1)) * 2)
    s, c = np.sin(x), np.cos(x)
    sine_and_cosine = np.where(quadrant % 2 == 1, [c, s], [s, c])
    return sine_and_cosine * np.where((quadrant + [[0], [1]]) % 4 >= 2, -1, 1)


def near_midpoints(rng, type_name, count):
    """Return doubles at or near midpoints of adjacent numbers of a dtype, many of them subnormal, of either sign."""
    bits, least = TYPES[type_name]
    middles = (rng.integers(0, 2 ** (bits + 1), count) + 0.5) * 2.0**least
    # keep a midpoint, or move it to an adjacent double, or further (by up to 2^-20 of its value)
    moved = 1 + rng.choice([0, 2.0**-52, -(2.0**-53), 2.0**-30, -(2.0**-26), 2.0**-20], count)
    return middles * moved * rng.choice([1, -1], count)


def half_ulp(value, type_name):
    """Return half of the unit in the last place that a type has at an exact value, as an mpmath number."""
    bits, least = TYPES[type_name]
    exponent = int(mpmath.mag(value)) - bits if value else least
    return mpmath.ldexp(1, max(exponent, least) - 1)


def excess(got, exact, type_name, ulps=0.5):
    """Return the error of a result minus ``ulps`` units in the last place."""
    with _working(PRECISION):
        error = abs(mpmath.mpf(float(got)) - exact)
        return float(error - 2 * ulps * half_ulp(exact, type_name))


def report(rows):
    """Return lines about the 5 worst errors. rows: (excess, allowed excess, position, column, result, exact value)."""
    rows = sorted(rows, key=lambda row: row[1] - row[0])[:5]
    return "\n".join(
        f"beyond by {e:.3e}, allowed {b:.3e}: position {p!r}, column {c}: got {float(g)!r} = {float(g).hex()}, "
        f"exactly {mpmath.nstr(x, 25)}"
        for e, b, p, c, g, x in rows
    )


def some_columns(rng, d, n=6):
    """Return the indices of the first and the last of d columns, and of up to n random ones."""
    return sorted({0, d - 1, *rng.integers(0, d, n).tolist()})


def assert_within(got, positions, columns, frequencies, type_name, *, call, scale=0, x=None):
    """Assert that the errors of results are within the promised bounds, or within tighter ones for float64.

    The promised bound of float64 is one ulp + 2^-60, but the tests allow only 0.51 ulps + 2^-64 (measured: 0.5001 ulps,
    and 2^-68 if a sum with x cancels). The bound of the other types is half an ulp + 2^-50 (measured: half an ulp, and
    2^-50.7 if a sum cancels). For `encode`, the power of two is multiplied by min(1, angle). For `add_to`, it is
    multiplied by max(1, |scale * x|). For float64 and angles beyond 2^31, the bound is 2^-50 alone, or 2^-50 |value| if
    |value| is larger than 1.
    """
    failures = []
    for row, position in zip(got, positions, strict=True):
        for c in columns:
            frequency = frequencies[c // 2]
            angle = abs(number(position) * frequency)
            term = 0 if x is None else Fraction(scale) * Fraction(float(x[c]))
            with _working(PRECISION):
                value = sincos(position, frequency)[c % 2] + number(term)
            if type_name != "float64":
                ulps, slack = 0.5, 2.0**-50
            elif angle <= 2**31:
                ulps, slack = 0.51, 2.0**-64
            else:
                ulps, slack = 0.0, 2.0**-50 * max(1.0, float(abs(value)))
            slack *= float(min(1, angle)) if call == "encode" else 1
            slack *= max(1.0, float(abs(term)))
            beyond = excess(row[c], value, type_name, ulps)
            if beyond > slack:
                failures.append((beyond, slack, position, c, row[c], value))
    assert not failures, f"{len(failures)} values of {type_name}\n{report(failures)}"
