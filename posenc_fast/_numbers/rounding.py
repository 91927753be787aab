"""From sums of two doubles to the type of the output, rounded once; and which rows need more than doubles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .doubles import Floats, total, two_product
from .formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64

__all__ = ["BFLOAT16", "HUGE", "MOST", "deliver", "hard_rows", "round_to", "rounded", "values_of"]

# turns: beyond MOST a product no longer rounds to quarter turns; below TINY its error may be subnormal
MOST, TINY = 2.0**49, 1e-270
# from here on a number cannot be split into halves any more, which is how products are made exact without FMA
HUGE = 2.0**990


def round_to(kind: int, high: Floats, low: Floats) -> npt.NDArray[Any]:
    """The sum of two doubles, rounded once; 16-bit floats as uint16."""
    value = high + low
    if kind == FLOAT64.kind:
        return value
    if kind == FLOAT32.kind:
        return value.astype(np.float32)
    if kind == FLOAT16.kind:
        return value.astype(np.float16).view(np.uint16)
    # a sum with what is 2^45 times as large has its last place where the bfloat16 has it: subnormals where the least
    # normal number has it. No stop at float32, which has the same exponents: its subnormals have lost bits that decide
    power = (value.view(np.uint64) & np.uint64(0x7FF << 52)).view(np.float64)
    large = 1.5 * 2.0**45 * np.clip(power, 2.0**-126, 2.0**200)
    rounded = np.copysign((value + large) - large, value)
    return (rounded.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def rounded(values: Floats, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Doubles as one of the four types, rounded once; NumPy takes a bfloat16 from a float32."""
    if dtype.name != "bfloat16":
        return values.astype(dtype)
    # a zero keeps its sign when -0.0 is added
    return round_to(BFLOAT16.kind, values, np.full_like(values, -0.0)).view(dtype)


def values_of(kind: int, x: npt.NDArray[Any]) -> Floats:
    """An array of the output's type as float64."""
    if kind == FLOAT16.kind:
        x = x.view(np.float16)
    elif kind == BFLOAT16.kind:
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


def hard_rows(positions: Floats, largest: Floats) -> npt.NDArray[np.bool_]:
    """Which rows the engine leaves out: too many turns, or so few that the error of a product underflows."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        turns = np.abs(positions) * largest
        beyond = ~(turns <= MOST) | (np.abs(positions) > HUGE)
        # a row with a position that is none is no work for anyone
        hard: Any = beyond.any(axis=1) & np.isfinite(positions).all(axis=1)
        if positions.shape[1] == 1:
            hard = hard | ((turns[:, 0] < TINY) & (positions[:, 0] != 0))
    return np.asarray(hard)
