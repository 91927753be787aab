"""Check the values that benchmarks compute. Of large tables, check the first, middle and last rows."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

import posenc_fast as pf
from posenc_fast._core.numbers.formats import format_of

Array = npt.NDArray[Any]

# largest number of values to compare, because the pure-Python backend is slow
COMPARED = 1 << 17


def dtype_of(name: str) -> np.dtype[Any]:
    """Return a dtype by name. bfloat16 comes from ml_dtypes."""
    return np.dtype(getattr(importlib.import_module("ml_dtypes"), name) if name == "bfloat16" else name)


def bound(exact: Array, dtype: np.dtype[Any]) -> Array:
    """Return the allowed error: half a unit in the last place plus 2^-49, or two units plus 2^-58 for float64."""
    format_ = format_of(dtype)
    assert format_ is not None
    bits, least = format_.bits, format_.least
    unit = np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - bits, least))
    # in float64, both compared values may have an error of one unit
    return 2 * unit + 2.0**-58 if bits == 53 else unit / 2 + 2.0**-49


def blocks(length: int, width: int) -> list[slice]:
    """Return slices of the first, middle and last rows, or one slice of all rows of a small table."""
    rows = max(1, COMPARED // width)
    if length <= rows:
        return [slice(0, length)]
    part = max(1, rows // 3)
    return [slice(first, first + part) for first in (0, length // 2 - part // 2, length - part)]


def true_rows(encoding: pf.Encoding, positions: Array) -> Array:
    """Return float64 rows, computed by the pure-Python backend."""
    with pf.use_backend("python"):
        return encoding.encode(positions, dtype=np.float64)


def check_rows(values: Array, encoding: pf.Encoding, positions: Array, added: Array | float = 0.0) -> None:
    """Assert that rows (..., len(positions), d) equal the encoding plus ``added``, up to the error `bound`."""
    exact = true_rows(encoding, positions) + added
    error = np.abs(values.astype(np.float64) - exact)
    excess = error - bound(exact, values.dtype)
    if not (excess <= 0).all():
        place = np.unravel_index(np.nanargmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
        raise AssertionError(f"value at {place}: {values[place]!r}, but the Python backend has {exact[place]!r}")


def check_table(table: Array, encoding: pf.Encoding, start: int = 0) -> None:
    """Assert that a table of posenc_fast has the right rows."""
    for part in blocks(*table.shape):
        check_rows(table[part], encoding, start + np.arange(part.start, part.stop))


def check_near(table: Array, encoding: pf.Encoding, tolerance: float) -> None:
    """Assert that another program's table differs from the encoding by at most the tolerance."""
    assert table.shape[1] == encoding.d_model
    for part in blocks(*table.shape):
        difference = np.abs(np.asarray(table[part]) - true_rows(encoding, np.arange(part.start, part.stop))).max()
        assert difference <= tolerance, f"off by {difference}, more than {tolerance}"


def single_tolerance(length: int) -> float:
    """Return the tolerance for tables with float32 angles, whose frequencies and products are rounded to float32."""
    return 1e-6 + length * 2.0**-21
