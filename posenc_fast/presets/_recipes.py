"""Frequencies as float32 frameworks compute them: the same operations in the same order, with the same roundings.

Operations on arrays are rounded to float32. Operations on numbers, such as ``log(base) / d``, are computed in float64
as in Python, and their result is rounded to float32.

Exponentials, powers and logarithms are exact values, rounded once, with the same bits on every machine. Frameworks do
not always round these functions correctly. So a few frequencies of a framework can differ from these by one unit in the
last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.numbers import exact

__all__ = ["Recipe", "exp_divided", "exp_of_even", "exp_of_index", "power", "power_negative", "power_of_inverse"]

Float32 = npt.NDArray[np.float32]
# function of the number of frequencies, the base and the denominator of the exponents, which returns the frequencies
Recipe = Callable[[int, float, float], Float32]


def _rounded(values: Iterable[Decimal]) -> Float32:
    """Return real numbers, rounded once to float32."""
    return np.array([_to_odd(value) for value in values], np.float64).astype(np.float32)


def _to_odd(value: Decimal) -> float:
    """Return ``value`` rounded to odd: ``value`` if it is a double, else the neighbouring double with last bit 1.

    Rounding the result to float32 gives the same number as rounding ``value`` itself to float32.
    """
    nearest = float(value)
    with exact.working():
        rest = value - Decimal(nearest)
    if rest and not np.float64(nearest).view(np.int64) & 1:
        nearest = math.nextafter(nearest, math.inf if rest > 0 else -math.inf)
    return nearest


def _exp(x: Float32) -> Float32:
    return _rounded(map(exact.exp, x.tolist()))


def _power(base: float, x: Float32) -> Float32:
    single = float(np.float32(base))
    return _rounded(exact.power(single, Fraction(exponent)) for exponent in x.tolist())


def _log(base: float) -> float:
    return float(exact.log(base))


def _indices(count: int, step: int = 1) -> Float32:
    return np.arange(0, step * count, step, dtype=np.float32)


def exp_of_index(count: int, base: float, denominator: float) -> Float32:
    """Return ``exp(i * -(log(base) / denominator))``."""
    return _exp(_indices(count) * np.float32(-(_log(base) / denominator)))


def exp_of_even(count: int, base: float, denominator: float) -> Float32:
    """Return ``exp(2i * -(log(base) / d))`` with ``d = 2 * denominator``."""
    return _exp(_indices(count, 2) * np.float32(-(_log(base) / (2 * denominator))))


def exp_divided(count: int, base: float, denominator: float) -> Float32:
    """Return ``exp(-log(base) * i / denominator)``, computed from left to right."""
    return _exp(np.float32(-_log(base)) * _indices(count) / np.float32(denominator))


def power(count: int, base: float, denominator: float) -> Float32:
    """Return ``1 / base ** (i / denominator)``, which equals ``1 / base ** (2i / d)`` with ``d = 2 * denominator``."""
    result: Any = np.float32(1) / _power(base, _indices(count) / np.float32(denominator))
    return np.asarray(result, np.float32)


def power_negative(count: int, base: float, denominator: float) -> Float32:
    """Return ``base ** -(i / denominator)``."""
    return _power(base, -(_indices(count) / np.float32(denominator)))


def power_of_inverse(count: int, base: float, denominator: float) -> Float32:
    """Return ``(1 / base) ** (i / denominator)``."""
    return _power(1 / base, _indices(count) / np.float32(denominator))
