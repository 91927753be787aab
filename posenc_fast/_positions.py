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

import contextlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from ._arrays import as_array
from ._checks import progression
from ._doubles import product, total, two_sum
from ._frames import column_values
from ._rounding import HUGE
from ._times import Time, common_unit, counts_of, time_of

__all__ = [
    "Given",
    "Positions",
    "Progression",
    "check_type",
    "checked_integer",
    "convert",
    "counted",
    "number",
    "of_range",
    "split_integers",
    "together",
]

_EXACT_IN_FLOAT64 = 2**53
_LEAST, _MOST = -(2**63), 2**64 - 1
_LARGEST = np.finfo(np.float64).max
_FLOAT64: np.dtype[Any] = np.dtype(np.float64)


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
    """Positions of shape ``shape`` in an array of shape (rows, axes), each counting ``unit``.

    values: integers, real numbers, or objects that are integers, floats and fractions. missing: which rows have no
    position; None for none but those that are NaN or infinite.
    """

    def __init__(
        self,
        values: npt.NDArray[Any],
        unit: Fraction = Fraction(1),
        missing: npt.NDArray[np.bool_] | None = None,
        *,
        shape: tuple[int, ...] | None = None,
        form: str | None = None,
    ) -> None:
        self.values, self.unit, self.missing = values, unit, missing
        self.shape = values.shape[:1] if shape is None else shape
        self.form = _form_of(values) if form is None else form

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

    def nowhere(self) -> npt.NDArray[np.bool_] | None:
        """Which rows are no positions: missing, NaN or infinite; None for none."""
        rows: npt.NDArray[np.bool_] = np.zeros(len(self), np.bool_) if self.missing is None else self.missing
        if self.form != "integer" and self.values.dtype.kind in "fO":
            rows = rows | ~np.isfinite(self.values.astype(np.float64)).all(axis=1)
        return rows if rows.any() else None

    def select(self, index: Any) -> Given:
        """Some of the positions: an index into ``shape``."""
        values = self.values.reshape(*self.shape, self.values.shape[1])[index]
        missing = None if self.missing is None else self.missing.reshape(self.shape)[index].reshape(-1)
        rows = values.reshape(math.prod(values.shape[:-1]), values.shape[-1])
        # what is computed must not depend on which positions are next to one
        return Given(rows, self.unit, missing, shape=values.shape[:-1], form=self.form)

    def rows(self, part: slice) -> Given:
        """Some of the rows, one after another."""
        missing = None if self.missing is None else self.missing[part]
        return Given(self.values[part], self.unit, missing, form=self.form)

    def keep_from(self, memory: npt.NDArray[Any]) -> None:
        """Copy the positions if they lie where something is about to be written."""
        if np.may_share_memory(self.values, memory):
            self.values = self.values.copy()

    def rounded(self) -> npt.NDArray[np.float64]:
        """As float64 numbers of the base unit: shape (...), or (..., axes) for several."""
        axes = self.values.shape[1]
        return plainly(self).values.reshape(self.shape if axes == 1 else (*self.shape, axes))


def _form_of(values: npt.NDArray[Any]) -> str:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "O":
        return "integer"
    if kind in "iu":
        if size < 8 or values.size == 0:
            return "real"
        largest = max(-int(np.minimum.reduce(values, None)), int(np.maximum.reduce(values, None)))
        return "integer" if largest > _EXACT_IN_FLOAT64 else "real"
    return "real" if size <= 8 else "pair"


def _exact(value: Any) -> Fraction:
    return Fraction(value) if isinstance(value, (int, Fraction)) else Fraction(*value.as_integer_ratio())


def _pairs(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Numbers of any kind as high and low parts."""
    if values.dtype.kind in "iu":
        high, low = split_integers(values)
        return two_sum(high * 2.0**32, low)
    high = values.astype(np.float64)
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            return high, (values - high).astype(np.float64)
    low = np.zeros_like(high)
    for i, value in enumerate(values.flat):
        if not isinstance(value, float):
            low.flat[i] = float(_exact(value) - Fraction(high.flat[i]))
    return high, low


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


# ---- the one way in ---------------------------------------------------------------------------------------------


def convert(positions: Any, axes: int, name: str = "positions") -> Given:
    """Positions of shape (...) or, for several axes, (..., axes), exactly as they are; or an error."""
    values, unit, missing = _values(positions, name)
    shape = values.shape
    if axes > 1:
        if not shape or shape[-1] != axes:
            raise ValueError(
                f"{name} has shape {shape}, but the encoding has {axes} axes: its last dimension must be {axes}"
            )
        shape = shape[:-1]
    if missing is not None:
        missing = np.logical_or.reduce(missing.reshape(-1, axes), axis=1)
    return Given(values.reshape(math.prod(shape), axes), unit, missing, shape=shape, form=_checked_form(values, name))


def counted(start: Any, count: int, axes: int) -> Given:
    """start, start + 1, .. on every axis alike."""
    first, _ = progression(start, 1, count)
    if isinstance(first, int):
        values = of_range(range(first, first + count)).values
    else:
        values = _one_type([first + i for i in range(count)], "start")[:, np.newaxis]
    return Given(np.repeat(values, axes, axis=1), form=_checked_form(values, "start"))


def of_range(numbers: range) -> Given:
    """The integers of a range, which are known to be of 64 bits."""
    if min(numbers.start, numbers.stop) >= -(2**63) and max(numbers.start, numbers.stop) < 2**63:
        # NumPy counts in int64, and reads all others one by one
        values = np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64)
    else:
        values = _one_type(list(numbers), "range")
    return Given(values[:, np.newaxis])


def number(value: Any, name: str) -> Fraction:
    """One position, in the base unit; an error for one that is missing or infinite."""
    given = convert(value, 1, name)
    if given.shape != ():
        raise TypeError(f"{name} must be one number or time, not {value!r}")
    if given.nowhere() is not None:
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return given.exactly(0)[0]


def check_type(dtype: np.dtype[Any], name: str = "positions") -> None:
    """A TypeError for arrays of types that have no positions; objects are looked at one by one, later."""
    if dtype.kind in "mM":
        counts_of(np.empty(0, dtype), name)
    elif dtype.kind not in "iuf" and dtype.name != "bfloat16":
        raise TypeError(f"{name} must be integers, real numbers or times, not an array of {dtype}")


# values, the seconds in a count, and which are missing where the values do not say it
_Values = tuple[npt.NDArray[Any], Fraction, npt.NDArray[np.bool_] | None]


def _values(positions: Any, name: str) -> _Values:
    missing: npt.NDArray[np.bool_] | None = None
    if isinstance(positions, np.ndarray):
        values: npt.NDArray[Any] = positions
    elif isinstance(positions, (list, tuple)):
        return _of_list(positions, name)
    elif positions is None:
        raise TypeError(f"{name} must be an array, not None; in a list, None is a missing one")
    else:
        column = column_values(positions, name)
        if column is not None:
            values, missing = column
        else:
            values = as_array(positions, name)
    if isinstance(values, np.ma.MaskedArray):
        missing = np.ma.getmaskarray(values)
        values = np.ma.getdata(values)
    counts, unit, nothing = _of_array(np.asarray(values), name, missing)
    if missing is not None and nothing is not None:
        missing = np.asarray(missing | nothing)
    return counts, unit, nothing if missing is None or not missing.any() else missing


def _of_list(positions: Any, name: str) -> _Values:
    """Lists, whose numbers NumPy would make one type of that may not hold them."""
    types = _types_in(positions)
    values = None
    if type(np.ma.masked) not in types:
        if any(issubclass(each, np.ma.MaskedArray) for each in types):
            return _values(np.ma.array(positions), name)
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            values = np.asarray(positions)
    kind = "O" if values is None else values.dtype.kind
    if values is not None and values.size == 0 and kind == "f":
        return values, Fraction(1), None
    # smaller types are made of nothing that they do not hold
    if values is not None and kind in "iufbc":
        wide = kind == "f" and values.dtype.itemsize >= 8
        if not (wide and (np.abs(values) >= _EXACT_IN_FLOAT64).any()):
            return _of_array(values, name)
    try:
        objects = np.array(positions, dtype=object)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array, not {positions!r}: {error}") from None
    return _of_objects(objects, name)


def _types_in(numbers: Any) -> set[type]:
    types = set(map(type, numbers))
    if list in types or tuple in types:
        types.update(*(_types_in(inner) for inner in numbers if isinstance(inner, (list, tuple))))
    return types


def _of_array(values: npt.NDArray[Any], name: str, missing: npt.NDArray[np.bool_] | None = None) -> _Values:
    kind = values.dtype.kind
    if kind == "O" and values.size:
        return _of_objects(values, name, missing)
    if kind in "US" and values.size:
        raise _is_text(values.flat[0], name)
    if kind in "bc" and values.size:
        raise TypeError(
            f"{name} must be integers, real numbers or times, not {values.flat[0]} in an array of {values.dtype}"
        )
    check_type(values.dtype, name)
    if kind in "mM":
        return counts_of(values, name)
    if kind == "V":
        values = values.astype(np.float32)
    return values, Fraction(1), None


def _of_objects(objects: npt.NDArray[Any], name: str, hidden: npt.NDArray[np.bool_] | None = None) -> _Values:
    """Integers, floats, fractions or times of any type, and None and its like for what is missing."""
    if objects.size == 0:
        return objects.astype(np.float64), Fraction(1), None
    leaves = [_leaf(value, name) for value in objects.reshape(-1).tolist()]
    if hidden is not None:
        leaves = [None if masked else leaf for masked, leaf in zip(hidden.flat, leaves, strict=True)]
    times = [leaf for leaf in leaves if isinstance(leaf, Time)]
    numbers = [leaf for leaf in leaves if not isinstance(leaf, Time)]
    unit = Fraction(1)
    if times:
        if any(leaf is not None for leaf in numbers) or len({time.kind for time in times}) > 1:
            raise TypeError(f"{name} must be all numbers, all points in time or all spans of time, not a mixture")
        unit = common_unit(time.unit for time in times)
        numbers = [time and int(time.number * (time.unit / unit)) for time in cast(list[Time | None], leaves)]
        if not all(count is None or _LEAST <= count <= _MOST for count in numbers):
            numbers, unit = [count and count * unit for count in numbers], Fraction(1)
    missing = np.array([number is None for number in numbers]).reshape(objects.shape)
    return _one_type(numbers, name).reshape(objects.shape), unit, missing if missing.any() else None


def _one_type(values: list[Any], name: str) -> npt.NDArray[Any]:
    """Exact numbers in the smallest type that holds them all; zeros for None."""
    filled = [0 if value is None else value for value in values]
    if all(type(value) is int for value in filled):
        least, most = min(filled), max(filled)
        return np.array(filled, np.int64 if most < 2**63 else np.uint64 if least >= 0 else object)
    try:
        if all(float(value) == value for value in filled):
            return np.array(filled, np.float64)
    except OverflowError:
        largest = max(filled, key=abs)
        raise ValueError(f"{name} has {largest}, outside of float64") from None
    result = np.empty(len(filled), object)
    result[:] = filled
    return result


def _leaf(value: Any, name: str) -> int | float | Fraction | Time | None:
    """One position, exactly; None where it is missing."""
    kind: Any = type(value)
    if kind is float:
        return None if math.isnan(value) else value
    if kind is int or (isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))):
        return checked_integer(int(value), name)
    # pandas' own are known by their names, so that it need not be imported
    if value is None or value is np.ma.masked or kind.__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (float, np.floating)) or getattr(kind, "__name__", "") == "bfloat16":
        return _leaf_float(value, name)
    if isinstance(value, Fraction):
        return value
    if isinstance(value, (list, tuple)):
        raise ValueError(f"{name} must be an array, not one of numbers beside {value!r}")  # noqa: TRY004
    if isinstance(value, (str, bytes)):
        raise _is_text(value, name)
    if isinstance(value, (np.datetime64, np.timedelta64)) and np.isnat(value):
        return None
    time = time_of(value, name)
    if time is not None:
        return time
    if hasattr(value, "as_py"):
        return _leaf(cast(Any, value).as_py(), name)
    if hasattr(value, "__array__") and getattr(value, "shape", None) == () and not isinstance(value, np.generic):
        return _leaf(as_array(value, name)[()], name)
    raise TypeError(f"{name} has {value!r} of type {kind.__name__}, but must be integers, real numbers or times")


def checked_integer(value: int, name: str) -> int:
    """An integer of 64 bits, or an error."""
    if not _LEAST <= value <= _MOST:
        raise ValueError(
            f"{name} has {value}, which is too {'large' if value > 0 else 'small'}: integers must be int64 or uint64; "
            "give float64 numbers if they are meant"
        )
    return value


def _leaf_float(value: Any, name: str) -> float | Fraction | None:
    if np.isnan(value):
        return None
    if float(value) == value:
        return float(value)
    if abs(value) > _LARGEST:
        raise ValueError(f"{name} has {value}, outside of float64")
    # a long double
    return Fraction(*value.as_integer_ratio())


def _is_text(value: Any, name: str) -> TypeError:
    text = str(value) if isinstance(value, str) else bytes(value)
    return TypeError(
        f"{name} must be integers, real numbers or times, not text such as {text!r}; "
        "for a time, give np.datetime64('2026-01-01T12:00') or pandas.to_datetime"
    )


def _checked_form(values: npt.NDArray[Any], name: str) -> str:
    if values.dtype.kind == "O":
        return "integer" if all(type(value) is int for value in values.flat) else "pair"
    form = _form_of(values)
    if form == "pair":
        beyond = np.isfinite(values) & (np.abs(values) > _LARGEST)
        if beyond.any():
            raise ValueError(f"{name} has {values[beyond][0]}, outside of float64")
    return form


# ---- several axes together --------------------------------------------------------------------------------------


def together(axes: Sequence[Given]) -> tuple[list[npt.NDArray[Any]], Fraction, str]:
    """Positions of one axis each as arrays (rows,) of one type, with the unit and the form that they share."""
    if len({given.unit for given in axes}) > 1:
        axes = [_in_base_unit(given) for given in axes]
    types = [given.values.dtype for given in axes]
    if all(given.form == "real" for given in axes):
        form, common = "real", _FLOAT64
    elif all(given.form == "integer" or given.values.dtype.kind in "iu" for given in axes):
        form, common = "integer", np.result_type(*types)
    else:
        form, common = "pair", np.result_type(*types) if all(kind.kind == "f" for kind in types) else np.dtype(object)
    if form == "integer" and common.kind == "f":
        common = np.dtype(object)
    return [given.values[:, 0].astype(common) for given in axes], axes[0].unit, form


def _in_base_unit(given: Given) -> Given:
    if given.unit == 1:
        return given
    return Given(given.values.astype(object) * given.unit, missing=given.missing, form="pair")


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
    return Given(values)
