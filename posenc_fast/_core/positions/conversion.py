"""Convert positions (numbers or times of any type) without rounding. Errors name the argument.

Callers convert their positions once, by `convert`, and pass on the Converted.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, cast

import numpy as np

from ..numbers import annotations as npt
from ..numbers.arguments import LEAST_POSITION, MOST_POSITION, progression, shown
from ..numbers.arrays import is_masked_array
from ..numbers.formats import FLOAT64, is_real
from . import times
from .foreign import as_array
from .frames import column_values
from .positions import EXACT_IN_FLOAT64, Converted, form_of
from .times import Time, common_unit, counts_of, time_of

# maximum number of dimensions of an array in NumPy 2
_MOST_DIMENSIONS = 64


def convert(positions: Any, axes: int, name: str = "positions") -> Converted:
    """Convert positions without rounding. Raise an error if they are invalid.

    The shape of the positions is (...), or (..., axes) for several axes.
    """
    values: npt.NDArray[Any]
    if type(positions) is np.ndarray and positions.dtype.kind in "iuf":
        values, unit, missing, letter = positions, Fraction(1), None, ""
    else:
        values, unit, missing, letter = _values(positions, name)
    shape = values.shape
    if axes > 1:
        if not shape or shape[-1] != axes:
            raise ValueError(
                f"{name} has shape {shape}, but the encoding has {axes} axes, so the last dimension of {name} must be "
                f"{axes}"
            )
        shape = shape[:-1]
    if missing is not None:
        missing = np.logical_or.reduce(missing.reshape(-1, axes), axis=1)
    return Converted(
        values.reshape(math.prod(shape), axes),
        unit,
        missing,
        shape=shape,
        form=_checked_form(values, name),
        letter=letter,
    )


def counted(start: Any, count: int, axes: int) -> Converted:
    """Return `count` positions start, start + 1 and so on, with the same value on every axis."""
    first, _ = progression(start, 1, count)
    if isinstance(first, int):
        values = of_range(range(first, first + count)).values
    else:
        values = _one_type([first + i for i in range(count)], "start")[:, np.newaxis]
    return Converted(np.repeat(values, axes, axis=1), form=_checked_form(values, "start"))


def of_range(numbers: range) -> Converted:
    """Return the integers of a range as positions. Callers have checked that the integers fit in 64 bits."""
    if min(numbers.start, numbers.stop) >= -(2**63) and max(numbers.start, numbers.stop) < 2**63:
        # numpy.arange supports int64; other integers are converted one by one
        values = np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.int64)
    else:
        values = _one_type(list(numbers), "range")
    return Converted(values[:, np.newaxis])


def number(value: Any, name: str) -> Fraction:
    """Return one position, in seconds for times. Raise an error if the position is missing or infinite."""
    converted = convert(value, 1, name)
    if converted.shape != ():
        raise TypeError(f"{name} must be one number or time, not {value!r}")
    if converted.invalid_rows() is not None:
        raise ValueError(f"{name} must be a finite number or a time, not {value!r}")
    return converted.exactly(0)[0]


def check_type(dtype: np.dtype[Any], name: str = "positions") -> None:
    """Raise a TypeError for dtypes other than integers, real numbers and times, so also for the dtype object."""
    if dtype.kind in "mM":
        times.check(dtype, name)
    elif not is_real(dtype):
        raise TypeError(f"{name} must be integers, real numbers or times, not an array of {dtype}")


class _Values(NamedTuple):
    """Values of positions, and what they mean.

    For times, values are counts of a unit, and unit is the number of seconds in a count. For numbers, unit is 1.
    missing is a mask of the missing values, but not of NaNs in values. letter is "M" for timestamps, "m" for durations,
    else "".
    """

    values: npt.NDArray[Any]
    unit: Fraction = Fraction(1)
    missing: npt.NDArray[np.bool_] | None = None
    letter: str = ""


def _values(positions: Any, name: str) -> _Values:
    if isinstance(positions, (list, tuple)):
        return _of_list(positions, name)
    if positions is None:
        raise TypeError(f"{name} must be numbers or times, not None; in a list of positions, None means a missing one")
    if isinstance(positions, (bytes, bytearray)):
        raise _is_text(positions, name)
    values, missing = _array_and_mask(positions, name)
    converted = _of_array(values, name, missing)
    if missing is None or not missing.any():
        return converted
    return converted._replace(missing=missing if converted.missing is None else missing | converted.missing)


def _array_and_mask(array: Any, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Return (array, mask of missing values or None) for an array, column or frame of any package."""
    missing: npt.NDArray[np.bool_] | None = None
    if isinstance(array, np.ndarray):
        values: npt.NDArray[Any] = array
    else:
        values, missing = column_values(array, name) or (as_array(array, name), None)
    if is_masked_array(values):
        missing = np.ma.getmaskarray(values)
        values = np.ma.getdata(values)
    return np.asarray(values), missing


def _of_list(positions: Any, name: str) -> _Values:
    """Return the values of nested lists. numpy.asarray alone could choose a dtype that rounds the values."""
    types = _types_in(positions, name)
    if types == {float}:
        return _Values(np.array(positions))
    if bool in types or np.bool_ in types:
        raise TypeError(
            f"{name} must be integers, real numbers or times, not a list that contains a bool (True or False)"
        )
    arrays = {kind for kind in types if hasattr(kind, "__array__") and not issubclass(kind, np.generic)}
    values = None
    # numpy.asarray would not recognise missing values in arrays of other packages
    if arrays <= {np.ndarray}:
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            values = np.asarray(positions)
    letter = "O" if values is None else values.dtype.kind
    if values is not None and values.size == 0 and letter == "f":
        return _Values(values)
    # If numpy.asarray returns float64, it may have rounded integers above 2**53. Other dtypes are exact.
    if values is not None and letter in "iufc":
        wide = letter == "f" and values.dtype.itemsize >= 8
        if not (wide and (np.abs(values) >= EXACT_IN_FLOAT64).any()):
            return _of_array(values, name)
    try:
        objects = np.array(_opened(positions, name) if arrays else positions, dtype=object)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array, or lists of equal lengths, not {positions!r} ({error})") from None
    return _of_objects(objects, name)


def _types_in(numbers: Any, name: str, depth: int = 1) -> set[type]:
    """Return the types of all items of nested lists, inner lists and arrays included, and of the values in arrays."""
    if depth > _MOST_DIMENSIONS:
        raise ValueError(f"{name} must be an array, not lists that are nested more than {_MOST_DIMENSIONS} deep")
    types = set(map(type, numbers))
    if list in types or tuple in types:
        types.update(*(_types_in(inner, name, depth + 1) for inner in numbers if isinstance(inner, (list, tuple))))
    if np.ndarray in types:
        types.update(inner.dtype.type for inner in numbers if isinstance(inner, np.ndarray))
    return types


def _opened(value: Any, name: str) -> Any:
    """Return nested lists, in which arrays and columns have become arrays of objects.

    NumPy would convert times in nanoseconds to integers if it read them from arrays in a list.
    """
    if isinstance(value, (list, tuple)):
        return [_opened(item, name) for item in value]
    if isinstance(value, np.generic) or not hasattr(value, "__array__"):
        return value
    values, missing = _array_and_mask(value, name)
    objects = np.empty(values.shape, object)
    objects.reshape(-1)[:] = list(values.reshape(-1))
    if missing is not None:
        objects[missing] = None
    return objects if values.ndim else objects[()]


def _of_array(values: npt.NDArray[Any], name: str, missing: npt.NDArray[np.bool_] | None = None) -> _Values:
    letter = values.dtype.kind
    if letter == "O":
        return _of_objects(values, name, missing)
    if letter in "US" and values.size:
        raise _is_text(values.flat[0], name)
    if letter in "bc" and values.size:
        raise TypeError(
            f"{name} must be integers, real numbers or times, not {values.flat[0]} in an array of {values.dtype}"
        )
    if letter in "mM":
        return _Values(*counts_of(values, name), letter)
    check_type(values.dtype, name)
    if letter == "V":
        values = values.astype(np.float32)
    return _Values(values)


def _of_objects(objects: npt.NDArray[Any], name: str, hidden: npt.NDArray[np.bool_] | None = None) -> _Values:
    """Return the values of an array of integers, floats, fractions or times. None, NA, NaT and NaN mean missing."""
    if objects.size == 0:
        return _Values(objects.astype(np.float64))
    leaves = [_leaf(value, name) for value in objects.reshape(-1).tolist()]
    if hidden is not None:
        leaves = [None if masked else leaf for masked, leaf in zip(hidden.flat, leaves, strict=True)]
    times_only = [leaf for leaf in leaves if isinstance(leaf, Time)]
    numbers = [leaf for leaf in leaves if not isinstance(leaf, Time)]
    unit = Fraction(1)
    if times_only:
        if any(leaf is not None for leaf in numbers) or len({time.letter for time in times_only}) > 1:
            raise TypeError(f"{name} must be all numbers, all timestamps or all durations, not a mixture")
        unit = common_unit(time.unit for time in times_only)
        numbers = [time and int(time.number * (time.unit / unit)) for time in cast(list[Time | None], leaves)]
        if not all(count is None or LEAST_POSITION <= count <= MOST_POSITION for count in numbers):
            numbers, unit = [count and count * unit for count in numbers], Fraction(1)
    missing = np.array([number is None for number in numbers]).reshape(objects.shape)
    letter = times_only[0].letter if times_only else ""
    return _Values(_one_type(numbers, name).reshape(objects.shape), unit, missing if missing.any() else None, letter)


def _one_type(values: list[Any], name: str) -> npt.NDArray[Any]:
    """Return an array of the numbers, without rounding. None becomes 0.

    If all numbers are integers, the dtype is int64, uint64 or object. Otherwise it is float64 or object.
    """
    filled = [0 if value is None else value for value in values]
    if all(type(value) is int for value in filled):
        least, most = min(filled), max(filled)
        return np.array(filled, np.int64 if most < 2**63 else np.uint64 if least >= 0 else object)
    try:
        if all(float(value) == value for value in filled):
            return np.array(filled, np.float64)
    except OverflowError:
        largest = max(filled, key=abs)
        raise ValueError(f"{name} has {shown(largest)}, outside the range of float64") from None
    result = np.empty(len(filled), object)
    result[:] = filled
    return result


def _leaf(value: Any, name: str) -> int | float | Fraction | Time | None:
    """Return one position without rounding, or None if it is missing."""
    kind: Any = type(value)
    if kind is float:
        return None if math.isnan(value) else value
    if kind is int or (isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))):
        return checked_integer(int(value), name)
    # missing values of pandas and numpy.ma are recognised by the names of their types, without importing these packages
    if value is None or kind.__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return None
    if isinstance(value, (float, np.floating)) or getattr(kind, "__name__", "") == "bfloat16":
        return _leaf_float(value, name)
    if isinstance(value, Fraction):
        return value
    if isinstance(value, (list, tuple)):
        raise ValueError(  # noqa: TRY004
            f"{name} must be an array, or lists of equal lengths; {value!r} stands beside a number, or beside a list "
            "of another length"
        )
    if isinstance(value, (str, bytes, bytearray)):
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
    if getattr(value, "shape", ()):
        raise TypeError(
            f"{name} contains lists or arrays instead of numbers; give one array, or nested lists from .to_list() of "
            "polars, .to_pylist() of pyarrow or .tolist() of pandas"
        )
    raise TypeError(f"{name} has {value!r} of type {kind.__name__}, but must be integers, floats, fractions or times")


def checked_integer(value: int, name: str) -> int:
    """Return the integer. Raise an error if it fits neither int64 nor uint64."""
    if not LEAST_POSITION <= value <= MOST_POSITION:
        raise ValueError(
            f"{name} has {shown(value)}, which is too {'large' if value > 0 else 'small'}. Integers must fit in int64 "
            "or uint64; pass floats for positions outside this range"
        )
    return value


def _leaf_float(value: Any, name: str) -> float | Fraction | None:
    if np.isnan(value):
        return None
    if float(value) == value:
        return float(value)
    if abs(value) > sys.float_info.max:
        raise ValueError(f"{name} has {value!s}, outside the range of float64")
    # the value is a long double
    return Fraction(*value.as_integer_ratio())


def _is_text(value: Any, name: str) -> TypeError:
    text = str(value) if isinstance(value, str) else bytes(value)
    return TypeError(
        f"{name} must be integers, real numbers or times, not text such as {text!r}; for a time, pass "
        "np.datetime64('2026-01-01T12:00') or the result of pandas.to_datetime"
    )


def _checked_form(values: npt.NDArray[Any], name: str) -> str:
    if values.dtype.kind == "O":
        return "integer" if all(type(value) is int for value in values.flat) else "pair"
    form = form_of(values)
    if form == "pair":
        too_large = np.isfinite(values) & (np.abs(values) > sys.float_info.max)
        if too_large.any():
            raise ValueError(f"{name} has {values[too_large][0]!s}, outside the range of float64")
    return form


# ---- several axes together --------------------------------------------------------------------------------------


def together(axes: Sequence[Converted]) -> tuple[list[npt.NDArray[Any]], Fraction, str]:
    """Return (an array for each axis, the unit of all axes, the form of all axes).

    Each array has the positions of its axis, and shape (rows,). All arrays have the same dtype.
    """
    if len({axis.unit for axis in axes}) > 1:
        axes = [_in_base_unit(axis) for axis in axes]
    types = [axis.values.dtype for axis in axes]
    if all(axis.form == "real" for axis in axes):
        form, common = "real", FLOAT64.stored
    elif all(axis.form == "integer" or axis.values.dtype.kind in "iu" for axis in axes):
        form, common = "integer", np.result_type(*types)
    else:
        form, common = "pair", np.result_type(*types) if all(dtype.kind == "f" for dtype in types) else np.dtype(object)
    if form == "integer" and common.kind == "f":
        common = np.dtype(object)
    return [axis.values[:, 0].astype(common) for axis in axes], axes[0].unit, form


def _in_base_unit(axis: Converted) -> Converted:
    if axis.unit == 1:
        return axis
    return Converted(axis.values.astype(object) * axis.unit, missing=axis.missing, form="pair")
