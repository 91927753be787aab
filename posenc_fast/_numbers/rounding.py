"""From sums of two doubles to the type of the output, rounded once; and which rows need more than doubles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .doubles import Floats, total, two_product

__all__ = ["HUGE", "MOST", "deliver", "hard_rows", "round_to", "values_of"]

FLOAT64, FLOAT32, FLOAT16, BFLOAT16 = range(4)
# turns: beyond MOST a product no longer rounds to quarter turns; below TINY its error may be subnormal; and a
# bfloat16 reaches as far down as a float32, where rounding to odd is not exact any more
MOST, TINY, TINY_BFLOAT = 2.0**49, 1e-270, 1e-21
# from here on a number cannot be split into halves any more, which is how products are made exact without FMA
HUGE = 2.0**990


def round_to(kind: int, high: Floats, low: Floats) -> npt.NDArray[Any]:
    """The sum of two doubles, rounded once; 16-bit floats as uint16."""
    value = high + low
    if kind == FLOAT64:
        return value
    if kind == FLOAT32:
        return value.astype(np.float32)
    if kind == FLOAT16:
        return value.astype(np.float16).view(np.uint16)
    # first to a float32 whose last place is set when bits were dropped, then to the upper half of it
    bits = value.view(np.uint64)
    dropped = np.uint64((1 << 29) - 1)
    odd = ((bits | ((bits & dropped) + dropped)) & ~dropped).view(np.float64).astype(np.float32).view(np.uint32)
    rounded = (odd + np.uint32(0x7FFF) + ((odd >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    nan = (odd >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(value), nan, rounded).astype(np.uint16)


def values_of(kind: int, x: npt.NDArray[Any]) -> Floats:
    """An array of the output's type as float64."""
    if kind == FLOAT16:
        x = x.view(np.float16)
    elif kind == BFLOAT16:
        x = (x.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return x.astype(np.float64)


def deliver(
    kind: int, high: Floats, low: Floats, out: npt.NDArray[Any], x: npt.NDArray[Any] | None, scale: float
) -> None:
    """Write the encoding, or scale * x + encoding, rounded once."""
    if x is not None:
        values = values_of(kind, x)
        whole = values * scale + high
        product_high, product_low = two_product(values, scale)
        high, low = total(product_high, product_low, high, low)
        # of a sum that is infinite or enormous there is no error to be had
        high, low = np.where(np.isnan(low), whole, high), np.where(np.isnan(low), 0.0, low)
    out[...] = round_to(kind, high, low)


def hard_rows(positions: Floats, largest: Floats, kind: int) -> npt.NDArray[np.bool_]:
    """Which rows an engine leaves out: too many turns, or so few that the error of a product underflows."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        turns = np.abs(positions) * largest
        beyond = ~(turns <= MOST) | (np.abs(positions) > HUGE)
        # a row with a position that is none is no work for anyone
        hard: Any = beyond.any(axis=1) & np.isfinite(positions).all(axis=1)
        if positions.shape[1] == 1:
            tiny = TINY_BFLOAT if kind == BFLOAT16 else TINY
            hard = hard | ((turns[:, 0] < tiny) & (positions[:, 0] != 0))
    return np.asarray(hard)
