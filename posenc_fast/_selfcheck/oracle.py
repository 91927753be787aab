"""Exact values for ``posenc-fast verify``, from the formula in decimal numbers.

Nothing of the package is used here, so that no mistake of its schedules or its arithmetic can hide itself.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["frequencies", "rows", "scaled", "sums"]

Floats = npt.NDArray[np.float64]
Row = list[Decimal]

# decimal digits: 20 before the point, as many as a double has after it, and twice as many again to be sure of them
CONTEXT = Context(prec=100, Emax=MAX_EMAX, Emin=MIN_EMIN)
# digits of an angle that has been reduced
FEW = 60
# where numbers are brought to that would be subnormal doubles, or their errors would
SMALL, UP = Decimal("1e-200"), 700


@functools.cache
def pi() -> Decimal:
    """Machin: pi = 16 atan(1/5) - 4 atan(1/239)."""
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


def frequencies(d: int, base: float, freq_shift: float) -> Row:
    """Those of ``sinusoidal(d, base=base, freq_shift=freq_shift)``: base ** (-i / (d / 2 - freq_shift))."""
    with localcontext(CONTEXT):
        denominator = Decimal(d) / 2 - Decimal(freq_shift)
        if denominator == 0:
            return [Decimal(1)]
        return [Decimal(base) ** (-i / denominator) for i in range(-(-d // 2))]


def rows(positions: Iterable[float], schedule: Sequence[Decimal], d: int) -> list[Row]:
    """Sine and cosine side by side, d columns, for each position."""
    with localcontext(CONTEXT):
        return [[value for f in schedule for value in _sincos(Decimal(p) * f)][:d] for p in positions]


def sums(encoded: Sequence[Row], x: npt.NDArray[Any], scale: float) -> list[Row]:
    """scale * x + encoded."""
    with localcontext(CONTEXT):
        factor = Decimal(scale)
        values = x.astype(np.float64).tolist()
        return [
            [e + factor * Decimal(v) for e, v in zip(*both, strict=True)] for both in zip(encoded, values, strict=True)
        ]


def scaled(numbers: Sequence[Row]) -> tuple[npt.NDArray[np.int32], Floats, Floats]:
    """Binary exponents by which numbers are scaled up so that doubles hold them, and their high and low parts then."""
    with localcontext(CONTEXT):
        exponents = np.array([[UP if abs(n) < SMALL else 0 for n in row] for row in numbers], np.int32)
        factor = Decimal(2) ** UP
        parts = [[_split(n * factor if abs(n) < SMALL else n) for n in row] for row in numbers]
    high, low = np.moveaxis(np.array(parts), 2, 0)
    return exponents, high, low


def _split(number: Decimal) -> tuple[float, float]:
    high = float(number)
    return high, float(number - Decimal(high))


def _sincos(angle: Decimal) -> tuple[Decimal, Decimal]:
    """Taylor's series about the nearest quarter turn."""
    quarters = (2 * angle / pi()).to_integral_value()
    x = angle - quarters * pi() / 2
    with localcontext() as context:
        context.prec = FEW
        square = -x * x
        sine = term = +x
        n = 1
        while abs(term) > abs(sine).scaleb(-FEW):
            term = term * square / ((n + 1) * (n + 2))
            sine, n = sine + term, n + 2
        cosine = term = Decimal(1)
        n = 0
        while abs(term) > Decimal(1).scaleb(-FEW):
            term = term * square / ((n + 1) * (n + 2))
            cosine, n = cosine + term, n + 2
    return ((sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine))[int(quarters) % 4]
