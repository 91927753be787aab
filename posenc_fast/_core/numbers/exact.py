"""Compute real numbers to any precision: pi, powers, logarithms, and sines and cosines of a fraction of a turn.

A number is a pair (mantissa, exponent) of integers, with the value mantissa * 2**exponent. Longer formulas use a
`decimal.Decimal` in the context of `working`. Pairs and Decimals use integer arithmetic, so results are the same on
every machine. The exp, log and pow of mathematical libraries differ between machines.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, getcontext, localcontext
from fractions import Fraction

import numpy as np

from . import annotations as npt

Real = tuple[int, int]

# Numbers above about 2**_FAR count as infinite, and numbers below about 2**-_FAR as zero. Both are far outside the
# range of float64.
_FAR = 20000
# Number of bits of a number that is then rounded once to a double. `_context` adds 30 digits. This is enough to round
# correctly: the hardest known cases, exponentials and logarithms near the middle between two doubles, need about 120
# bits.
_DOUBLE_BITS = 64
# number of bits of a number that is then rounded to a sum of two doubles
PAIR_BITS = 160


def _trim(mantissa: int, exponent: int, bits: int) -> Real:
    excess = mantissa.bit_length() - bits
    return (mantissa >> excess, exponent + excess) if excess > 0 else (mantissa, exponent)


def multiply(a: Real, b: Real, bits: int) -> Real:
    """Return a * b, cut to ``bits`` bits."""
    mantissa = a[0] * b[0]
    excess = mantissa.bit_length() - bits
    return (mantissa >> excess, a[1] + b[1] + excess) if excess > 0 else (mantissa, a[1] + b[1])


def divide(numerator: int, denominator: int, bits: int) -> Real:
    """Return numerator / denominator, rounded down, with at least ``bits`` significant bits."""
    shift = max(0, bits + 2 + denominator.bit_length() - numerator.bit_length())
    return (numerator << shift) // denominator, -shift


@functools.lru_cache(maxsize=8)
def two_pi(bits: int) -> Real:
    """Return 2 pi to ``bits`` bits after the binary point, by Machin's formula pi/4 = 4 atan(1/5) - atan(1/239)."""
    one = 1 << (bits + 16)

    def arctan_of_inverse(x: int) -> int:
        total = term = one // x
        n, sign = 1, 1
        while term:
            term //= x * x
            n, sign = n + 2, -sign
            total += sign * (term // n)
        return total

    return 8 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)), -(bits + 16)


def _context(bits: int) -> Context:
    return Context(prec=int(bits * 0.302) + 30, Emax=MAX_EMAX, Emin=MIN_EMIN)


def working(bits: int = _DOUBLE_BITS) -> AbstractContextManager[Context]:
    """Return a context in which Decimals keep ``bits`` bits, and 30 more digits to absorb the rounding errors."""
    return localcontext(_context(bits))


def decimal_two_pi() -> Decimal:
    """Return 2 pi to the digits of the current context."""
    mantissa, exponent = two_pi(4 * getcontext().prec)
    return Decimal(mantissa) / (1 << -exponent)


def exp(x: float) -> Decimal:
    """Return e ** x."""
    with working():
        return Decimal(x).exp()


def log(x: float) -> Decimal:
    """Return the natural logarithm of x > 0."""
    with working():
        return Decimal(x).ln()


def power(base: float | Fraction, exponent: float | Fraction) -> Decimal:
    """Return base ** exponent for base >= 0, without rounding the arguments. 0 ** 0 is 1."""
    with working():
        if base == 0 or exponent == 0:
            return Decimal(int(exponent == 0))
        b, e = (Decimal(number.numerator) / number.denominator for number in (Fraction(base), Fraction(exponent)))
        return b**e


def real_of(value: Decimal, bits: int) -> Real:
    """Return a Decimal as (mantissa, exponent), with at least ``bits`` significant bits.

    A number far too small for float64 becomes 0. A number far too large becomes a power of two with the same sign.
    """
    if abs(value.adjusted()) * 3 > _FAR:
        # float64 cannot represent such a number, and an exact integer would have too many digits
        return (0, 0) if value.adjusted() < 0 or not value else (-1 if value < 0 else 1, 2 * _FAR)
    numerator, denominator = value.as_integer_ratio()
    mantissa, exponent = divide(abs(numerator), denominator, bits)
    return (-mantissa if numerator < 0 else mantissa), exponent


@functools.lru_cache(maxsize=64)
def power_ratio(base: float, exponent: Fraction, bits: int) -> Real:
    """Return base ** exponent for a float base > 0 and a rational exponent, cut to ``bits`` bits.

    Powers far outside the range of float64 become 0 or a large power of two.
    """
    if base == 1 or exponent == 0:
        return 1, 0
    context = _context(bits)
    multiple = context.multiply(context.ln(Decimal(base)), Decimal(exponent.numerator))
    logarithm = context.divide(multiple, Decimal(exponent.denominator))
    if abs(logarithm) > _FAR:
        # the product with any float64 is zero or infinite, and an exact integer would have millions of digits
        return (0, 0) if logarithm < 0 else (1, 2 * _FAR)
    numerator, denominator = context.exp(logarithm).as_integer_ratio()
    return _trim(*divide(numerator, denominator, bits), bits)


def split(numbers: Sequence[Real]) -> npt.NDArray[np.float64]:
    """Return real numbers as sums of two doubles, an array (2, n) of high and low parts.

    Numbers that are too large for float64 become infinite.
    """
    short = [number if number[0].bit_length() <= 400 else _trim(*number, 400) for number in numbers]
    highs = [float(mantissa) for mantissa, _ in short]
    lows = [float(mantissa - int(high)) for (mantissa, _), high in zip(short, highs, strict=True)]
    with np.errstate(over="ignore", under="ignore"):
        parts: npt.NDArray[np.float64] = np.ldexp(
            np.array([highs, lows]), np.array([exponent for _, exponent in short], np.int64)
        )
    return parts


def sincos_turns(turns: Real, bits: int = 200) -> tuple[Real, Real]:
    """Return the sine and cosine of an angle in turns.

    The relative precision is about ``bits`` bits, even if the sine or cosine is small.
    """
    mantissa, exponent = turns
    if exponent >= 0:
        return (0, 0), (1, 0)
    whole = 1 << -exponent
    mantissa %= whole
    quadrant, remainder = divmod(4 * mantissa + whole // 2, whole)
    remainder -= whole // 2
    # Without the quadrant, the angle in quarter turns is `remainder / whole`, a number in [-1/2, 1/2). x is this angle
    # in radians, with `bits` significant bits.
    x = multiply((remainder, exponent - 2), two_pi(bits + 32), bits + 32)
    scale = bits + 32 + max(0, -(x[0].bit_length() + x[1]))
    fixed = x[0] << (x[1] + scale) if x[1] + scale >= 0 else x[0] >> -(x[1] + scale)
    square = fixed * fixed >> scale
    sine, term, n = fixed, fixed, 1
    while term not in (0, -1):
        term = -(term * square >> scale) // ((n + 1) * (n + 2))
        sine += term
        n += 2
    cosine, term, n = 1 << scale, 1 << scale, 0
    while term not in (0, -1):
        term = -(term * square >> scale) // ((n + 1) * (n + 2))
        cosine += term
        n += 2
    sine, cosine = ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))[quadrant % 4]
    return (sine, -scale), (cosine, -scale)
