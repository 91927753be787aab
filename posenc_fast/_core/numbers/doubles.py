"""Sums and products of doubles with their rounding errors. A pair (high, low) represents the number high + low."""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import Any

import numpy as np

from . import annotations as npt
from .arrays import Floats
from .exact import working

Pair = tuple[Floats, Floats]


def two_sum(a: Any, b: Any) -> Pair:
    """Return (a + b rounded, rounding error), by Knuth's algorithm."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Any, b: Any) -> Pair:
    """Return (a * b rounded, rounding error).

    Each factor is split into two parts of at most 26 bits. The products of these parts are exact (Dekker 1971).
    """
    p = a * b
    t, u = 134217729.0 * a, 134217729.0 * b
    a_high, b_high = t - (t - a), u - (u - b)
    a_low, b_low = a - a_high, b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def fma(a: Any, b: Any, c: Any) -> Floats:
    """Return a * b + c, rounded once.

    a * b + c is computed as the sum of a large double and a small rest. The rest is rounded to odd, so that this sum is
    rounded correctly (Boldo, Melquiond 2008).
    """
    p, e = two_product(a, b)
    t, t_low = two_sum(c, e)
    v, v_low = two_sum(p, t)
    # The exact result is v + small + error. If v + small lies in the middle between two doubles, error decides the
    # rounding.
    small, error = two_sum(t_low, v_low)
    bits = small.view(np.int64)
    toward_error = np.where((error > 0) == (small > 0), 1, -1)
    odd = np.where((error != 0) & (bits & 1 == 0), bits + toward_error, bits).view(np.float64)
    return np.asarray(v + odd)


def product(a: Any, a_low: Any, b: Any, b_low: Any) -> Pair:
    """Return the product of two numbers, each a pair (high, low), as a pair."""
    p, e = two_product(a, b)
    return p, e + (a * b_low + a_low * b)


def total(a: Any, a_low: Any, b: Any, b_low: Any) -> Pair:
    """Return the sum of two numbers, each a pair (high, low), as a pair."""
    s, e = two_sum(a, b)
    e = e + (a_low + b_low)
    r = s + e
    return r, e - (r - s)


@functools.cache
def _powers_of_ln2() -> list[float]:
    """Return ln(2)^n / n! for n from 0 to 14, the coefficients of the power series of 2^x.

    For |x| up to 1/2, the missing terms sum to less than 2^-63.
    """
    with working():
        ln2 = Decimal(2).ln()
        return [float(ln2**n / math.factorial(n)) for n in range(15)]


def exp2(high: Any, low: Any) -> Floats:
    """Return 2^(high + low), with an error of at most two units in the last place."""
    with np.errstate(over="ignore", under="ignore"):
        result: Floats = np.ldexp(*exp2_parts(high, low))
    return result


def exp2_parts(high: Any, low: Any) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return 2^(high + low) as (factor near 1, exponent of two), with an error of at most two units in the last place.

    Only sums and products are used, so that all machines return the same bits.
    """
    # beyond these exponents, the product with any float64 is zero or infinite
    high, low = np.clip(high, -4e3, 4e3), np.where(np.abs(high) < 4e3, low, 0.0)
    whole = np.rint(high)
    rest = (high - whole) + low
    series = _powers_of_ln2()
    value: Floats = np.full(np.shape(rest), series[-1])
    for coefficient in series[-2::-1]:
        value = value * rest + coefficient
    return value, np.nan_to_num(whole).astype(np.int64)
