"""Convert positions of any type to float64 components, the input of the engines.

The engines multiply each component by frequencies. The form of positions tells which components an axis has:

``"real"``
    One float64.
``"pair"``
    Two float64, whose sum is the position, exactly or to about 106 bits.
``"integer"``
    The quotient by 2**32 and the remainder, both exact in float64, for all of int64 and uint64.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from ..numbers import annotations as npt
from ..numbers.doubles import product, total, two_sum
from ..numbers.rounding import SPLIT_LIMIT

EXACT_IN_FLOAT64 = 2**53


class Positions(Protocol):
    """Interface of rows of positions. `Converted` and `Progression` implement it."""

    form: str
    unit: Fraction

    def __len__(self) -> int: ...

    def components(self, part: slice, phase: bool) -> npt.NDArray[np.float64]:
        """Return the components of the rows ``part``, contiguous.

        If ``phase``, add a last component of ones, which the engines multiply by the phases.
        """
        ...

    def exactly(self, row: int) -> list[Fraction]:
        """Return the exact position of one row, a number for each axis."""
        ...


class Converted:
    """Positions of shape ``shape``. They are stored as an array of shape (rows, axes), in multiples of ``unit``.

    values are integers, real numbers, or objects that are integers, floats or fractions. missing is a mask of the
    missing rows, or None. Rows with NaN or infinite values are invalid as well (see `invalid_rows`). letter is "M" for
    timestamps, "m" for durations, else "".
    """

    def __init__(
        self,
        values: npt.NDArray[Any],
        unit: Fraction = Fraction(1),
        missing: npt.NDArray[np.bool_] | None = None,
        *,
        shape: tuple[int, ...] | None = None,
        form: str | None = None,
        letter: str = "",
    ) -> None:
        self.values, self.unit, self.missing, self.letter = values, unit, missing, letter
        self.shape = values.shape[:1] if shape is None else shape
        self.form = form_of(values) if form is None else form

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
            columns = _pairs(values)
        result = _side_by_side(columns, phase)
        if self.missing is not None and self.missing[part].any():
            result = result.copy()
            result[self.missing[part]] = np.nan
        return result

    def exactly(self, row: int) -> list[Fraction]:
        return [_exact(p) * self.unit for p in self.values[row].tolist()]

    def invalid_rows(self) -> npt.NDArray[np.bool_] | None:
        """Return a mask of the rows that are missing, NaN or infinite, or None if all rows are valid."""
        rows: npt.NDArray[np.bool_] = np.zeros(len(self), np.bool_) if self.missing is None else self.missing
        if self.form != "integer" and self.values.dtype.kind in "fO":
            rows = rows | ~np.isfinite(self.values.astype(np.float64)).all(axis=1)
        return rows if rows.any() else None

    def select(self, index: Any) -> Converted:
        """Return the positions that an index selects from an array of shape ``shape``."""
        values = self.values.reshape(*self.shape, self.values.shape[1])[index]
        missing = None if self.missing is None else self.missing.reshape(self.shape)[index].reshape(-1)
        rows = values.reshape(math.prod(values.shape[:-1]), values.shape[-1])
        # the form stays the same, so that the bits of a row do not depend on other rows
        return Converted(rows, self.unit, missing, shape=values.shape[:-1], form=self.form)

    def rows(self, part: slice) -> Converted:
        """Return the rows ``part`` as positions of shape (rows,)."""
        missing = None if self.missing is None else self.missing[part]
        return Converted(self.values[part], self.unit, missing, form=self.form)

    def keep_from(self, memory: npt.NDArray[Any]) -> None:
        """Copy the positions if they share memory with an array that is written next."""
        if np.may_share_memory(self.values, memory):
            self.values = self.values.copy()

    def rounded(self) -> npt.NDArray[np.float64]:
        """Return the positions as float64, times in seconds, of shape (...), or (..., axes) for several axes."""
        axes = self.values.shape[1]
        return as_float64(self).values.reshape(self.shape if axes == 1 else (*self.shape, axes))


class InTurns(Converted):
    """Elapsed parts of cycles, such as 0.25 at 6:00 for the day, as sums of two doubles.

    They are positions for an encoding of one axis with a single period of 1. So a position is also the angle, in turns.
    A missing position is NaN.
    """

    def __init__(self, high: npt.NDArray[np.float64], low: npt.NDArray[np.float64]) -> None:
        super().__init__(high.reshape(-1, 1), shape=high.shape, form="real")
        self.low = low.reshape(-1, 1)

    def turns(self, part: slice) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return (high parts, low parts) of the rows ``part``, each of shape (rows, 1)."""
        return self.values[part], self.low[part]

    def exactly(self, row: int) -> list[Fraction]:
        return [_exact(float(self.values[row, 0])) + _exact(float(self.low[row, 0]))]


def form_of(values: npt.NDArray[Any]) -> str:
    """Return the form that represents all values exactly. An array of objects must contain only integers."""
    letter, size = values.dtype.kind, values.dtype.itemsize
    if letter == "O":
        return "integer"
    if letter in "iu":
        if size < 8 or values.size == 0:
            return "real"
        largest = max(-int(np.minimum.reduce(values, None)), int(np.maximum.reduce(values, None)))
        return "integer" if largest > EXACT_IN_FLOAT64 else "real"
    return "real" if size <= 8 else "pair"


def _exact(value: Any) -> Fraction:
    return Fraction(value) if isinstance(value, (int, Fraction)) else Fraction(*value.as_integer_ratio())


def _pairs(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return numbers of any type as (high parts, low parts)."""
    if values.dtype.kind in "iu":
        high, low = split_integers(values)
        return two_sum(high * 2.0**32, low)
    high = values.astype(np.float64)
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            return high, (values - high).astype(np.float64)
    low = np.zeros_like(high)
    for i, value in enumerate(values.flat):
        # a long double among the objects may be NaN or infinite, and then has no exact value
        if not isinstance(value, float) and math.isfinite(high.flat[i]):
            low.flat[i] = float(_exact(value) - Fraction(high.flat[i]))
    return high, low


class Progression:
    """Positions first + i * step for i in range(rows), as exact real numbers."""

    unit = Fraction(1)

    def __init__(self, first: Fraction, step: Fraction, rows: int) -> None:
        self.first, self.step, self.rows = first, step, rows
        last = first + step * (rows - 1)
        denominator = math.lcm(first.denominator, step.denominator)
        largest = max(abs(first), abs(last)) * denominator
        self.scale = 2.0**64 if max(abs(first), abs(last)) > SPLIT_LIMIT else 1.0
        # if first and step have few binary digits, float64 represents all sums exactly
        self.form = "real" if largest <= EXACT_IN_FLOAT64 and denominator & (denominator - 1) == 0 else "pair"

    def __len__(self) -> int:
        return self.rows

    def components(self, part: slice, phase: bool) -> npt.NDArray[np.float64]:
        i = np.arange(part.start, part.stop, dtype=np.float64)[:, np.newaxis]
        # `product` splits each factor into two parts of 26 bits, which overflows for enormous numbers. Then scale is
        # 2**64: step and first are divided by it, and the sum is multiplied by it.
        down = 1 / Fraction(self.scale)
        sums = total(*product(i, 0.0, *pair(self.step * down)), *pair(self.first * down))
        if self.scale > 1:
            sums = sums[0] * self.scale, sums[1] * self.scale
        return _side_by_side(sums[:1] if self.form == "real" else sums, phase)

    def exactly(self, row: int) -> list[Fraction]:
        return [self.first + self.step * row]


def pair(number: Fraction) -> tuple[float, float]:
    """Return two doubles (high, low) whose sum is the number, to about 106 bits."""
    high = float(number)
    return high, float(number - Fraction(high))


def _side_by_side(columns: tuple[npt.NDArray[np.float64], ...], phase: bool) -> npt.NDArray[np.float64]:
    if phase:
        columns = (*columns, np.ones((len(columns[0]), 1)))
    result = np.ascontiguousarray(columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1))
    # the engines need aligned doubles
    return result if result.flags.aligned else result.copy()


def split_integers(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return (quotients by 2**32, remainders).

    Both have the sign of the value, so that the sine of -p is minus the sine of p.
    """
    sign = np.where(values < 0, -1.0, 1.0)
    if values.dtype.kind == "O":
        values = np.abs(values)
    with np.errstate(over="ignore"):
        magnitude = np.where(values < 0, np.uint64(0) - values.astype(np.uint64), values.astype(np.uint64))
    high, low = magnitude >> np.uint64(32), magnitude & np.uint64(0xFFFFFFFF)
    return sign * high.astype(np.float64), sign * low.astype(np.float64)


def as_float64(positions: Positions) -> Converted:
    """Return the positions rounded to float64, times in seconds.

    If the unit is not 1, the multiplication by the unit rounds them again.
    """
    form, unit = positions.form, positions.unit
    values = positions.components(slice(0, len(positions)), False)
    axes = values.shape[1] // (1 if form == "real" else 2)
    if form == "integer":
        values = values[:, :axes] * 2.0**32 + values[:, axes:]
    elif form == "pair":
        values = values[:, :axes] + values[:, axes:]
    if unit != 1:
        values = values * unit.numerator / unit.denominator
    return Converted(values)
