"""The four floating-point formats of results, and the numbers that identify them in the engines."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from .arrays import base_array
from .names import meant


class Format(NamedTuple):
    """A floating-point format of results.

    name is the name of the dtype. kind is the number of the format in the engines and in src/entry.h. bits is the
    number of significant bits. 2**least is the smallest positive number. stored is the dtype of arrays that are passed
    to the engines: uint16 for formats of 16 bits.
    """

    name: str
    kind: int
    bits: int
    least: int
    stored: np.dtype[Any]

    @property
    def rounding(self) -> float:
        """Maximum relative error of a rounded normal number."""
        return float(2.0**-self.bits)


FLOAT64 = Format("float64", 0, 53, -1074, np.dtype(np.float64))
FLOAT32 = Format("float32", 1, 24, -149, np.dtype(np.float32))
FLOAT16 = Format("float16", 2, 11, -24, np.dtype(np.uint16))
BFLOAT16 = Format("bfloat16", 3, 8, -133, np.dtype(np.uint16))
# the index of a format is its kind
FORMATS = (FLOAT64, FLOAT32, FLOAT16, BFLOAT16)
TYPES = tuple(form.name for form in FORMATS)
# scalar type -> dtype of the formats that NumPy has, which are all except bfloat16
_DTYPES = {np.dtype(form.name).type: np.dtype(form.name) for form in FORMATS[:3]}
# kind of each dtype and each scalar type; bfloat16 is added on first use
KINDS: dict[Any, int] = {
    key: form.kind for form in FORMATS[:3] for key in (np.dtype(form.name), getattr(np, form.name))
}


def format_of(dtype: np.dtype[Any]) -> Format | None:
    """Return the Format of float64, float32, float16 or bfloat16 in native byte order, or None for other dtypes."""
    kind = kind_of(dtype)
    return None if kind is None else FORMATS[kind]


def kind_of(dtype: np.dtype[Any]) -> int | None:
    """Return the kind of a dtype, its number in the engines. Return None for an unsupported dtype."""
    kind = KINDS.get(dtype)
    if kind is None and _is_bfloat16(dtype):
        kind = KINDS[dtype] = KINDS[dtype.type] = BFLOAT16.kind
    return kind


# cached, because reading the name of a dtype takes microseconds
@functools.lru_cache(maxsize=64)
def _is_bfloat16(dtype: np.dtype[Any]) -> bool:
    return dtype.name == "bfloat16" and dtype.itemsize == 2


def is_real(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is an integer or floating-point dtype, including bfloat16."""
    return dtype.kind in "iuf" or _is_bfloat16(dtype)


def wanted_type(dtype: Any, out: Any = None, twin: str = "", name: str = "out") -> np.dtype[Any]:
    """Return the dtype of a result: the argument `dtype`, else the dtype of `out`, else float32."""
    if dtype is not None:
        return float_type(dtype)
    if out is None:
        return FLOAT32.stored
    out_type = base_array(out, name, twin).dtype
    if kind_of(out_type) is None:
        raise ValueError(
            f"{name} has dtype {out_type}, but must have one of the dtypes {', '.join(TYPES)} in native byte order"
        )
    return out_type


def types_here() -> list[str]:
    """Return the names of the available types. bfloat16 is available if ml_dtypes is installed."""
    from importlib.util import find_spec

    return [name for name in TYPES if name != "bfloat16" or find_spec("ml_dtypes")]


def float_type(dtype: Any, name: str = "dtype") -> np.dtype[Any]:
    """Return the argument as a dtype. Raise an error unless it is one of the four formats in native byte order.

    name is "dtype", or the name of the array that has the dtype.
    """
    if isinstance(dtype, np.dtype) and format_of(dtype) is not None:
        return dtype
    if isinstance(dtype, type) and dtype in _DTYPES:
        return _DTYPES[dtype]
    label = name if name == "dtype" else f"the dtype of {name}"
    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError(
                f"{label} is bfloat16, which needs the package ml_dtypes; run pip install ml_dtypes"
            ) from None
        dtype = ml_dtypes.bfloat16
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{label} must be one of {', '.join(TYPES)}, not {dtype!r}{meant(dtype, TYPES)}") from None
    if kind_of(result) is None:
        raise TypeError(f"{label} must be one of {', '.join(TYPES)} in native byte order, not {dtype!r}")
    return result
