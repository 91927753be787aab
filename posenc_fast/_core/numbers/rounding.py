"""Round sums of two doubles to the dtype of the output, and find the rows that need exact arithmetic.

The argument kind is the number of the output's format (see `Format`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import annotations as npt
from .arrays import Floats
from .doubles import two_product, two_sum
from .formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64

# Two limits of position * frequency, in turns. Above EXACT_LIMIT, the engines cannot subtract all quarter turns of
# the product exactly. Below TINY, the rounding error of the product may be subnormal.
EXACT_LIMIT, TINY = 2.0**49, 1e-270
# maximum number that `two_product` can split into two parts without overflow
SPLIT_LIMIT = 2.0**990


def round_to(kind: int, high: Floats, low: Floats) -> npt.NDArray[Any]:
    """Return high + low, rounded to a double and then to this kind. Floats of 16 bits are returned as uint16."""
    return round_once(kind, high + low)


def round_once(kind: int, value: Floats) -> npt.NDArray[Any]:
    """Return doubles, rounded once to this kind. Floats of 16 bits are returned as uint16."""
    if kind == FLOAT64.kind:
        return value
    if kind == FLOAT32.kind:
        return value.astype(np.float32)
    if kind == FLOAT16.kind:
        return value.astype(np.float16).view(np.uint16)
    # Adding 1.5 * 2^45 times the value's power of two rounds to the last place of a bfloat16. Subnormals have the same
    # last place as 2^-126, the smallest normal number. Rounding to float32 first would round twice, and subnormals of
    # float32 have lost bits that decide the rounding.
    power = (value.view(np.uint64) & np.uint64(0x7FF << 52)).view(np.float64)
    large = 1.5 * 2.0**45 * np.clip(power, 2.0**-126, 2.0**200)
    rounded = np.copysign((value + large) - large, value)
    return (rounded.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def rounded(values: Floats, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return doubles as one of the four dtypes, rounded once.

    NumPy would round to float32 first, and then to bfloat16.
    """
    # values beyond the largest number of the dtype become infinite, as in the engines
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(dtype) if dtype.name != "bfloat16" else round_once(BFLOAT16.kind, values).view(dtype)


def values_of(kind: int, x: npt.NDArray[Any]) -> Floats:
    """Return the values of an array of this kind as float64."""
    if kind == FLOAT16.kind:
        x = x.view(np.float16)
    elif kind == BFLOAT16.kind:
        x = (x.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return x.astype(np.float64)


def round_into(
    kind: int, high: Floats, low: Floats, out: npt.NDArray[Any], x: npt.NDArray[Any] | None, scale: float
) -> None:
    """Write high + low to `out`, or scale * x + high + low, rounded as in `round_to`."""
    if x is None:
        out[...] = round_to(kind, high, low)
        return
    values = values_of(kind, x)
    product, product_error = two_product(values, scale)
    total, error = two_sum(product, high)
    # `values * .. * 0.0` is 0, or NaN if values are enormous. The error is also NaN if two_product overflows, or if the
    # sum is infinite. A NaN error is left out.
    error += (product_error + low) + values * (2.0**34 * max(1.0, abs(scale))) * 0.0
    out[...] = round_once(kind, total + np.where(np.isnan(error), 0.0, error))


def add_rounded(kind: int, value: Floats, x: npt.NDArray[Any] | None, scale: float) -> npt.NDArray[Any]:
    """Return value, or scale * x + value, computed in doubles and rounded to a type of at most 32 bits."""
    return round_once(kind, value if x is None else scale * values_of(kind, x) + value)


def rows_left_out(positions: Floats, largest: Floats) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that the engine leaves to exact arithmetic.

    These rows have too many turns or too large positions, or the rounding error of a product may underflow. positions
    has the shape (rows, axes). largest has the largest frequency of each axis, in turns.
    """
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        turns = np.abs(positions) * largest
        left_out = (
            ~(turns <= EXACT_LIMIT)
            | (np.abs(positions) > SPLIT_LIMIT)
            | ((turns < TINY) & (positions != 0) & (largest > 0))
        )
        # rows of positions that are not finite become NaN in the engine
        return np.asarray(left_out.any(axis=1) & np.isfinite(positions).all(axis=1))
