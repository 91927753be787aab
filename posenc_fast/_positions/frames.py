"""Columns and frames of pandas, polars and pyarrow as arrays that keep every digit, without importing any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .._numbers.arrays import Array
from .foreign import check_eager

__all__ = ["column_values"]

# values, and which of them are missing where the values cannot say it themselves
Column = tuple[Array, npt.NDArray[np.bool_] | None]


def column_values(given: Any, name: str) -> Column | None:
    """A column or frame as an array, and which of its integers are missing; None for what is neither.

    Times with a zone become UTC. Nothing passes through float64 that was an integer or a time.
    """
    for each in type(given).__mro__:
        reader = _READERS.get(each.__module__.partition(".")[0])
        if reader is not None:
            return reader(given, name)
    return None


def _pandas(given: Any, name: str) -> Column | None:
    if hasattr(given, "columns"):
        return _side_by_side([given.iloc[:, i] for i in range(given.shape[1])], len(given), name)
    dtype: Any = getattr(given, "dtype", None)
    if dtype is None or not hasattr(given, "to_numpy"):
        return None
    if dtype.kind == "b" or dtype.type is str or dtype.name == "category":
        raise TypeError(
            f"{name} is a column of {dtype}, but must hold integers, real numbers or times; "
            "pandas.to_numeric and pandas.to_datetime make them of text"
        )
    if isinstance(dtype, np.dtype):
        return given.to_numpy(), None
    if hasattr(dtype, "pyarrow_dtype"):
        return _pyarrow(getattr(given, "array", given).__arrow_array__(), name)
    # types for missing integers say which one of NumPy they hold, those of times with a zone their unit
    held: Any = getattr(dtype, "numpy_dtype", None)
    if held is None and dtype.kind == "M":
        held = np.dtype(f"M8[{dtype.unit}]")
    if held is None or held.kind not in "iufmM":
        return np.asarray(given, dtype=object), None
    fill = {"f": np.nan, "M": np.datetime64("NaT", "s"), "m": np.timedelta64("NaT", "s")}.get(held.kind, 0)
    values = given.to_numpy(dtype=held, na_value=fill)
    return values, _some(given.isna()) if held.kind in "iu" else None


def _polars(given: Any, name: str) -> Column | None:
    if hasattr(given, "get_columns"):
        return _side_by_side(given.get_columns(), given.height, name)
    check_eager(given, name)
    if not hasattr(given, "null_count"):
        return None
    dtype = given.dtype
    if hasattr(dtype, "fields"):
        return _polars(given.struct.unnest(), name)
    if not dtype.is_integer():
        return _with_all_digits(given.to_numpy(), dtype, "inner", given.to_list), None
    missing = _some(given.is_null())
    filled = given if missing is None else given.fill_null(0)
    # NumPy has no integers of 128 bits
    values = np.array(filled.to_list(), object) if "128" in str(dtype) else filled.to_numpy()
    return values, missing


def _pyarrow(given: Any, name: str) -> Column | None:
    if hasattr(given, "itercolumns"):
        return _side_by_side(list(given.itercolumns()), given.num_rows, name)
    if not hasattr(given, "null_count"):
        return None
    if hasattr(given.type, "index_type"):
        # of a dictionary in chunks, NumPy is given the first value for one that is missing
        given = given.cast(given.type.value_type)
    missing = None
    if str(given.type).startswith(("int", "uint")):
        missing = _some(given.is_null())
        given = given if missing is None else given.fill_null(0)
    return _with_all_digits(np.asarray(given), given.type, "value_type", given.to_pylist), missing


_READERS: dict[str, Callable[[Any, str], Column | None]] = {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}


def _with_all_digits(values: Array, dtype: Any, inner: str, to_list: Callable[[], list[Any]]) -> Array:
    """The values, one by one where integers beside missing ones became real numbers: in lists, dictionaries and runs."""
    while hasattr(dtype, inner):
        dtype = getattr(dtype, inner)
    rounded = values.dtype.kind == "f" and str(dtype).lower().startswith(("int", "uint"))
    return np.array(to_list(), object) if rounded else values


def _some(missing: Any) -> npt.NDArray[np.bool_] | None:
    mask = np.asarray(missing, np.bool_)
    return mask if mask.any() else None


def _side_by_side(columns: Sequence[Any], rows: int, name: str) -> Column:
    """Columns as one array: of their type where it is one, else of objects."""
    parts = [column_values(column, name) or (np.asarray(column), None) for column in columns]
    masks = [missing for _, missing in parts if missing is not None]
    missing = None
    if masks:
        none = np.zeros(rows, np.bool_)
        missing = np.stack([none if mask is None else mask for _, mask in parts], axis=1)
    if not parts:
        return np.empty((rows, 0)), None
    if len({values.dtype for values, _ in parts}) == 1:
        return np.stack([values for values, _ in parts], axis=1), missing
    together = np.empty((rows, len(parts)), object)
    for i, (values, _) in enumerate(parts):
        # one by one: as a whole, times of nanoseconds would become integers
        together[:, i] = list(values)
    return together, missing
