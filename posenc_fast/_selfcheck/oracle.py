"""Exact values for ``posenc-fast verify``, from the definition in `reference.py`.

This module uses nothing else of the package, so that it cannot repeat errors of the package's schedules or arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from ..reference import CONTEXT, exact_row

Floats = npt.NDArray[np.float64]
Row = list[Decimal]

# numbers between -SMALL and SMALL are multiplied by 2^EXPONENT, so that neither they nor their errors are subnormal
SMALL, EXPONENT = Decimal("1e-200"), 700


def rows(positions: Iterable[float], schedule: Sequence[Decimal], d: int) -> list[Row]:
    """Return a row of d columns for each position, with sine and cosine of a frequency side by side."""
    frequencies = [frequency for frequency in schedule for _ in range(2)][:d]
    phases = [c % 2 / 4 for c in range(d)]
    return [exact_row(position, frequencies, phases, [1.0] * d) for position in positions]


def sums(encoded: Sequence[Row], x: npt.NDArray[Any], scale: float) -> list[Row]:
    """Return scale * x + encoded."""
    with localcontext(CONTEXT):
        factor = Decimal(scale)
        values = x.astype(np.float64).tolist()
        return [
            [exact + factor * Decimal(value) for exact, value in zip(encoded_row, x_row, strict=True)]
            for encoded_row, x_row in zip(encoded, values, strict=True)
        ]


def scaled(numbers: Sequence[Row]) -> tuple[npt.NDArray[np.int32], Floats, Floats]:
    """Return three arrays: binary exponents that scale the numbers, and high and low parts of the scaled numbers.

    A scaled number is the sum of two doubles, the high part and the low part.
    """
    with localcontext(CONTEXT):
        exponents = np.array([[EXPONENT if abs(n) < SMALL else 0 for n in row] for row in numbers], np.int32)
        factor = Decimal(2) ** EXPONENT
        parts = [[_split(n * factor if abs(n) < SMALL else n) for n in row] for row in numbers]
    high, low = np.moveaxis(np.array(parts), 2, 0)
    return exponents, high, low


def _split(number: Decimal) -> tuple[float, float]:
    high = float(number)
    return high, float(number - Decimal(high))
