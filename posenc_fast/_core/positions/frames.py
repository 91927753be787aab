"""Convert columns and frames of pandas, polars and pyarrow to arrays without loss, without importing the packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..numbers import annotations as npt
from ..numbers.arrays import Array
from .foreign import check_eager

# (values, mask of missing values); the mask is None if no values are missing, or if missing values are NaN or NaT
Column = tuple[Array, npt.NDArray[np.bool_] | None]


def column_values(column: Any, name: str) -> Column | None:
    """Return (array, mask of missing integers or None) for a column or frame. Return None for other objects.

    Times with a zone become UTC. Integers and times are never converted to float64.
    """
    for base_class in type(column).__mro__:
        reader = _READERS.get(base_class.__module__.partition(".")[0])
        if reader is not None:
            return reader(column, name)
    return None


def column_zone(column: Any) -> Any:
    """Return the time zone of a column of times, or of a scalar of pyarrow. The zone is a tzinfo or a key.

    Return None if there is no time zone.
    """
    dtype = getattr(column, "dtype", None)
    arrow = getattr(dtype, "pyarrow_dtype", getattr(column, "type", None))
    arrow = getattr(arrow, "value_type", arrow)
    # pandas has tz, polars time_zone, and pyarrow tz
    zones = getattr(dtype, "tz", None), getattr(dtype, "time_zone", None), getattr(arrow, "tz", None)
    return next((zone for zone in zones if zone is not None), None)


def _pandas(column: Any, name: str) -> Column | None:
    if hasattr(column, "columns"):
        return _side_by_side([column.iloc[:, i] for i in range(column.shape[1])], len(column), name)
    dtype: Any = getattr(column, "dtype", None)
    if dtype is None or not hasattr(column, "to_numpy"):
        return None
    if dtype.kind == "b" or dtype.type is str or dtype.name == "category":
        fix = ".astype('Int64')" if dtype.kind == "b" else "pandas.to_numeric or pandas.to_datetime"
        raise TypeError(
            f"{name} is a column of {dtype}, but must hold integers, real numbers or times; convert it by {fix}"
        )
    if isinstance(dtype, np.dtype):
        return column.to_numpy(), None
    if hasattr(dtype, "pyarrow_dtype"):
        return _pyarrow(getattr(column, "array", column).__arrow_array__(), name)
    # Nullable types have a numpy_dtype. Types of times with a zone have a unit instead.
    numpy_type: Any = getattr(dtype, "numpy_dtype", None)
    if numpy_type is None and dtype.kind == "M":
        numpy_type = np.dtype(f"M8[{dtype.unit}]")
    if numpy_type is None or numpy_type.kind not in "iufmM":
        return np.asarray(column, dtype=object), None
    fill = {"f": np.nan, "M": np.datetime64("NaT", "s"), "m": np.timedelta64("NaT", "s")}.get(numpy_type.kind, 0)
    values = column.to_numpy(dtype=numpy_type, na_value=fill)
    return values, _mask_or_none(column.isna()) if numpy_type.kind in "iu" else None


def _polars(column: Any, name: str) -> Column | None:
    if hasattr(column, "get_columns"):
        return _side_by_side(column.get_columns(), column.height, name)
    check_eager(column, name)
    if not hasattr(column, "null_count"):
        return None
    dtype = column.dtype
    if hasattr(dtype, "fields"):
        return _polars(column.struct.unnest(), name)
    if not dtype.is_integer():
        return _with_all_digits(column.to_numpy(), dtype, "inner", column.to_list), None
    missing = _mask_or_none(column.is_null())
    filled = column if missing is None else column.fill_null(0)
    # NumPy has no integers of 128 bits
    values = np.array(filled.to_list(), object) if "128" in str(dtype) else filled.to_numpy()
    return values, missing


def _pyarrow(column: Any, name: str) -> Column | None:
    if hasattr(column, "itercolumns"):
        return _side_by_side(list(column.itercolumns()), column.num_rows, name)
    if not hasattr(column, "null_count"):
        return None
    if hasattr(column.type, "index_type"):
        # NumPy would read a missing value of a chunked pyarrow dictionary as the first value of the dictionary
        column = column.cast(column.type.value_type)
    missing = None
    if str(column.type).startswith(("int", "uint")):
        missing = _mask_or_none(column.is_null())
        column = column if missing is None else column.fill_null(0)
    return _with_all_digits(np.asarray(column), column.type, "value_type", column.to_pylist), missing


_READERS: dict[str, Callable[[Any, str], Column | None]] = {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}


def _with_all_digits(values: Array, dtype: Any, inner: str, to_list: Callable[[], list[Any]]) -> Array:
    """Return the values of a column. Integers stay exact.

    NumPy returns integers of dictionary, run-length and list columns as floats if values are missing. Then the values
    are read from a list.
    """
    while hasattr(dtype, inner):
        dtype = getattr(dtype, inner)
    rounded = values.dtype.kind == "f" and str(dtype).lower().startswith(("int", "uint"))
    return np.array(to_list(), object) if rounded else values


def _mask_or_none(missing: Any) -> npt.NDArray[np.bool_] | None:
    mask = np.asarray(missing, np.bool_)
    return mask if mask.any() else None


def _side_by_side(columns: Sequence[Any], rows: int, name: str) -> Column:
    """Return columns as one array. It has the common type of the columns, or objects if the types differ."""
    parts = [column_values(column, name) or (np.asarray(column), None) for column in columns]
    masks = [missing for _, missing in parts if missing is not None]
    missing = None
    if masks:
        none_missing = np.zeros(rows, np.bool_)
        missing = np.stack([none_missing if mask is None else mask for _, mask in parts], axis=1)
    if not parts:
        return np.empty((rows, 0)), None
    if len({values.dtype for values, _ in parts}) == 1:
        return np.stack([values for values, _ in parts], axis=1), missing
    objects = np.empty((rows, len(parts)), object)
    for i, (values, _) in enumerate(parts):
        # an array of times in nanoseconds would be assigned as integers, but a list keeps the times
        objects[:, i] = list(values)
    return objects, missing
