"""Columns of data frames as positions: what both Dask and scikit-learn hand over."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["column_positions"]

Array = npt.NDArray[Any]


def column_positions(column: Any, name: str) -> tuple[Array, npt.NDArray[np.bool_] | None]:
    """The values of a pandas Series or Index as `Encoding.encode` takes them, and which of its integers are missing.

    Times with a zone become UTC. Nothing passes through float64 that was an integer or a time.
    """
    dtype: Any = column.dtype
    of_numpy = isinstance(dtype, np.dtype)
    # types of pandas for missing integers, and of Arrow, say which one of NumPy they hold; those of times their unit
    held: Any = dtype if of_numpy else getattr(dtype, "numpy_dtype", None)
    if held is None and dtype.kind == "M":
        held = np.dtype(f"M8[{dtype.unit}]")
    if held is None or held.kind not in "iufmM":
        raise TypeError(
            f"{name} is a column of {dtype}, but must hold integers, real numbers or times; "
            "pandas.to_numeric and pandas.to_datetime make them of text and objects"
        )
    if of_numpy:
        return column.to_numpy(), None
    fill = {"f": np.nan, "M": np.datetime64("NaT"), "m": np.timedelta64("NaT")}.get(held.kind, 0)
    values = column.to_numpy(dtype=held, na_value=fill)
    if held.kind not in "iu":
        return values, None
    missing = np.asarray(column.isna(), np.bool_)
    return values, missing if missing.any() else None
