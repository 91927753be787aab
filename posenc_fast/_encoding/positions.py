"""Positions of any type, as the float64 components that the engines take.

A form says what the components of one axis are, and with it which turns they are multiplied with:

``"real"``
    One float64.
``"pair"``
    Two float64 whose sum is meant.
``"integer"``
    A multiple of 2**32 and the remainder, both exact in float64, for all of int64 and uint64.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .._numbers.doubles import product, total
from .._numbers.rounding import HUGE

__all__ = ["Given", "Positions", "Progression", "convert", "split_integers"]

_SECONDS = {
    "W": Fraction(604800),
    "D": Fraction(86400),
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "ps": Fraction(1, 10**12),
    "fs": Fraction(1, 10**15),
    "as": Fraction(1, 10**18),
}
_EXACT_IN_FLOAT64 = 2**53


class Positions(Protocol):
    """Rows of positions: what both kinds below offer."""

    form: str
    unit: Fraction

    def __len__(self) -> int: ...

    def components(self, part: slice, phase: bool) -> npt.NDArray[np.float64]:
        """Rows ``part`` in this form, contiguous; with a component of ones behind them if ``phase``."""
        ...

    def exactly(self, row: int) -> list[Fraction]:
        """The exact position of one row, for each axis."""
        ...


class Given:
    """Positions in an array of shape (rows, axes) of any real type, each counting ``unit``."""

    def __init__(self, values: npt.NDArray[Any], unit: Fraction, missing: npt.NDArray[np.bool_] | None) -> None:
        self.values, self.unit, self.missing = values, unit, missing
        self.form = "real"
        if values.dtype.kind == "O":
            self.form = "integer"
        elif values.dtype.kind in "iu":
            if (
                values.dtype.itemsize == 8
                and values.size
                and max(-int(np.minimum.reduce(values, None)), int(np.maximum.reduce(values, None))) > _EXACT_IN_FLOAT64
            ):
                self.form = "integer"
        elif values.dtype.itemsize > 8:
            self.form = "pair"
            beyond = np.isfinite(values) & (np.abs(values) > np.finfo(np.float64).max)
            if beyond.any():
                raise ValueError(f"positions has {values[beyond][0]}, outside of float64")

    def __len__(self) -> int:
        return len(self.values)

    def components(self, part: slice, phase: bool) -> npt.NDArray[np.float64]:
        values = self.values[part]
        columns: tuple[npt.NDArray[np.float64], ...]
        if self.form == "integer":
            columns = split_integers(values)
        elif self.form == "real":
            columns = (values.astype(np.float64, copy=False),)
        else:
            high = values.astype(np.float64)
            with np.errstate(invalid="ignore"):
                columns = (high, (values - high).astype(np.float64))
        result = _side_by_side(columns, phase)
        if self.missing is not None and self.missing[part].any():
            result = result.copy()
            result[self.missing[part]] = np.nan
        return result

    def exactly(self, row: int) -> list[Fraction]:
        value = self.values[row]
        if value.dtype.kind in "iuO":
            return [Fraction(int(p)) * self.unit for p in value]
        return [Fraction(*p.as_integer_ratio()) for p in value]


class Progression:
    """first + i * each for i in range(rows), exact real numbers."""

    unit = Fraction(1)

    def __init__(self, first: Fraction, each: Fraction, rows: int) -> None:
        self.first, self.each, self.rows = first, each, rows
        last = first + each * (rows - 1)
        denominator = math.lcm(first.denominator, each.denominator)
        largest = max(abs(first), abs(last)) * denominator
        self.scale = 2.0**64 if max(abs(first), abs(last)) > HUGE else 1.0
        # sums of a few binary digits are float64 numbers themselves
        self.form = "real" if largest <= _EXACT_IN_FLOAT64 and denominator & (denominator - 1) == 0 else "pair"

    def __len__(self) -> int:
        return self.rows

    def components(self, part: slice, phase: bool) -> npt.NDArray[np.float64]:
        i = np.arange(part.start, part.stop, dtype=np.float64)[:, np.newaxis]
        # enormous numbers cannot be split into halves: all is made smaller for the time being
        down = 1 / Fraction(self.scale)
        pair = total(*product(i, 0.0, *_pair(self.each * down)), *_pair(self.first * down))
        if self.scale > 1:
            pair = pair[0] * self.scale, pair[1] * self.scale
        return _side_by_side(pair[:1] if self.form == "real" else pair, phase)

    def exactly(self, row: int) -> list[Fraction]:
        return [self.first + self.each * row]


def _pair(number: Fraction) -> tuple[float, float]:
    high = float(number)
    return high, float(number - Fraction(high))


def _side_by_side(columns: tuple[npt.NDArray[np.float64], ...], phase: bool) -> npt.NDArray[np.float64]:
    if phase:
        columns = (*columns, np.ones((len(columns[0]), 1)))
    result = np.ascontiguousarray(columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1))
    # C reads doubles only where doubles may lie
    return result if result.flags.aligned else result.copy()


def convert(positions: Any, axes: int, name: str = "positions") -> tuple[Given, tuple[int, ...]]:
    """Positions of shape (...,) or, for several axes, (..., axes), as rows; and the shape (...,)."""
    try:
        values = np.asarray(positions)
    except ValueError as error:
        raise ValueError(f"{name} must be an array, not {positions!r}: {error}") from None
    kind = values.dtype.kind
    if kind in "fO" and not isinstance(positions, (np.ndarray, np.generic, float)) and values.size:
        # numpy makes float64 of a list that has integers of both int64 and uint64
        objects = np.asarray(positions, dtype=object)
        if all(type(p) is int for p in objects.flat):
            if objects.min() < -(2**63) or objects.max() >= 2**64:
                raise ValueError(
                    f"{name} has {objects.max()} and {objects.min()}, but integers must be int64 or uint64; "
                    "give float64 numbers if they are meant"
                )
            values, kind = objects, "i"
    if kind not in "iufmM":
        if values.size or not isinstance(positions, (list, tuple)):
            raise TypeError(
                f"{name} must be integers, real numbers, datetime64 or timedelta64, not an array of {values.dtype}"
            )
        values = values.astype(np.float64)
    shape = values.shape
    if axes > 1:
        if not shape or shape[-1] != axes:
            raise ValueError(
                f"{name} has shape {shape}, but the encoding has {axes} axes: its last dimension must be {axes}"
            )
        shape = shape[:-1]
    unit, missing = Fraction(1), None
    if kind in "mM":
        values, unit, missing = _times(values, name)
    return Given(values.reshape(-1, axes), unit, missing), shape


def _times(values: npt.NDArray[Any], name: str) -> tuple[npt.NDArray[np.int64], Fraction, npt.NDArray[np.bool_] | None]:
    """Times as counts, the seconds in a count, and which are missing."""
    match = re.search(r"\[(\d*)(\w+)\]", values.dtype.str)
    if match is None:
        raise TypeError(f"{name} of type {values.dtype} have no unit; give them one, as in {values.dtype.name}[s]")
    number, letters = match.groups()
    if letters in "YM":
        if values.dtype.kind == "m":
            raise TypeError(
                f"{name} of type {values.dtype} count {letters}, which differ in length; convert them to days or seconds"
            )
        values = values.astype("M8[s]")
        number, letters = "", "s"
    missing = np.isnat(values)
    counts = values.astype(values.dtype.newbyteorder("="), copy=False).view(np.int64)
    if missing.any():
        return np.where(missing, 0, counts), _SECONDS[letters] * int(number or 1), missing.reshape(-1)
    return counts, _SECONDS[letters] * int(number or 1), None


def split_integers(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Multiples of 2**32 and remainders, both with the sign of the value, so that -p mirrors p."""
    sign = np.where(values < 0, -1.0, 1.0)
    if values.dtype.kind == "O":
        values = np.abs(values)
    with np.errstate(over="ignore"):
        magnitude = np.where(values < 0, np.uint64(0) - values.astype(np.uint64), values.astype(np.uint64))
    high, low = magnitude >> np.uint64(32), magnitude & np.uint64(0xFFFFFFFF)
    return sign * high.astype(np.float64), sign * low.astype(np.float64)


def plainly(positions: Positions) -> Given:
    """The positions as float64 numbers of the base unit, each rounded once."""
    form, unit = positions.form, positions.unit
    values = positions.components(slice(0, len(positions)), False)
    axes = values.shape[1] // (1 if form == "real" else 2)
    if form == "integer":
        values = values[:, :axes] * 2.0**32 + values[:, axes:]
    elif form == "pair":
        values = values[:, :axes] + values[:, axes:]
    if unit != 1:
        values = values * unit.numerator / unit.denominator
    return Given(values, Fraction(1), None)
