"""Checks of arguments: every error names the argument, its value and what would do; nothing is written before."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import is_tensor
from .schedule import MOST_COLUMNS, count_of, real

__all__ = [
    "check_out",
    "check_precision",
    "check_width",
    "check_workers",
    "count_of",
    "float_type",
    "kind_of",
    "new",
    "plain",
    "progression",
    "real",
    "types_here",
    "usual_type",
    "wanted_type",
]

# the kinds of the engines, in their order
TYPES = ("float64", "float32", "float16", "bfloat16")
KINDS = {np.dtype(np.float64): 0, np.dtype(np.float32): 1, np.dtype(np.float16): 2}
LEAST, MOST = -(2**63), 2**64 - 1
# products with larger ones could not be made exact
MOST_AMPLITUDE = 2.0**960
# what is usually given as dtype, for calls that must not take long
_USUAL: dict[Any, tuple[np.dtype[Any], int]] = {
    np.float32: (np.dtype(np.float32), 1),
    np.float64: (np.dtype(np.float64), 0),
}
_USUAL.update({usual[0]: usual for usual in list(_USUAL.values())})


def wanted_type(dtype: Any, out: Any = None, twin: str = "") -> np.dtype[Any]:
    """One of the four types: the one that was asked for, else that of out, else float32."""
    if dtype is not None:
        return float_type(dtype)
    if out is None:
        return _USUAL[np.float32][0]
    given = plain(out, "out", twin).dtype
    if kind_of(given) is None:
        raise ValueError(f"out has type {given}, but must have one of {', '.join(TYPES)} in native byte order")
    return given


def usual_type(dtype: Any, out: Any = None) -> tuple[np.dtype[Any], int] | None:
    """float32 or float64, with its kind, when asked for as such or that of out; None means: look closer."""
    if dtype is None:
        dtype = np.float32 if out is None else getattr(out, "dtype", None)
    return _USUAL.get(dtype) if isinstance(dtype, (type, np.dtype)) else None


def kind_of(dtype: np.dtype[Any]) -> int | None:
    """Index into TYPES, or None."""
    kind = KINDS.get(dtype)
    return 3 if kind is None and _is_bfloat16(dtype) else kind


# names of types are long in the making
@functools.lru_cache(maxsize=64)
def _is_bfloat16(dtype: np.dtype[Any]) -> bool:
    return dtype.name == "bfloat16" and dtype.itemsize == 2


def types_here() -> list[str]:
    """Names of the types that can be had: bfloat16 is not without ml_dtypes."""
    return [name for name in TYPES if name != "bfloat16" or importlib.util.find_spec("ml_dtypes")]


def float_type(dtype: Any, name: str = "dtype") -> np.dtype[Any]:
    """One of the four types, in native byte order."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError(
                f"{name}='bfloat16' needs the package ml_dtypes: pip install 'posenc-fast[bfloat16]'"
            ) from None
        dtype = ml_dtypes.bfloat16
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{name} must be one of {', '.join(TYPES)}, not {dtype!r}") from None
    if kind_of(result) is None:
        raise TypeError(f"{name} must be one of {', '.join(TYPES)} in native byte order, not {dtype!r}")
    return result


def check_precision(precision: Any) -> bool:
    """True for the float32 compatibility mode."""
    if precision not in ("exact", "float32"):
        raise ValueError(f"precision must be 'exact' or 'float32', not {precision!r}")
    return bool(precision == "float32")


def check_workers(workers: Any) -> int:
    """Number of threads, as in scipy.fft: None is 1, negative numbers count back from the number of CPUs."""
    if workers is None:
        return 1
    if isinstance(workers, bool):
        raise TypeError(f"workers must be an integer or None, not {workers!r}")
    count = count_of(workers, "workers", -sys.maxsize)
    cpus = os.cpu_count() or 1
    if count == 0:
        raise ValueError("workers=0 must not be zero; None or 1 means one thread, -1 all CPUs")
    if count < 0:
        if count < -cpus:
            raise ValueError(f"workers={count} is less than -{cpus}, the number of CPUs here")
        count += 1 + cpus
    # more threads than CPUs would only wait for one another
    return min(count, cpus)


def check_size(name: str, value: int, shape: tuple[int, ...], itemsize: int) -> None:
    """A ValueError where an array's size has no meaning."""
    size = itemsize
    for n in shape:
        size *= n
    if size > sys.maxsize:
        raise ValueError(
            f"{name}={value} is too large: {shape} values would take {size} bytes, more than can be addressed"
        )


def check_width(d_model: int) -> None:
    """A ValueError where the engines could not count the columns: they do so in 32 bits, twice as many for the waves."""
    if d_model > MOST_COLUMNS:
        raise ValueError(f"d_model={d_model} is too large, the most is {MOST_COLUMNS}; use several encodings")


def new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A new array, or a ValueError where its size has no meaning."""
    check_size("shape", shape[0] if shape else 1, shape, dtype.itemsize)
    return np.empty(shape, dtype)


def _way_out(array: Any, name: str, twin: str) -> str:
    if not is_tensor(array):
        return ""
    return f"; posenc_fast.torch.{twin} takes tensors" if twin else f"; give {name}.numpy()"


def plain(array: Any, name: str, twin: str = "") -> npt.NDArray[Any]:
    """The array, seen through an ndarray of our own: what is checked then stays as it is.

    A subclass may show another shape than its memory has, and another thread may set the shape of an array. ``twin`` is
    the function of posenc_fast.torch that does the same for tensors.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, not {type(array).__name__}{_way_out(array, name, twin)}")
    return np.ndarray.view(array, np.ndarray)


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], twin: str = "") -> npt.NDArray[Any]:
    """The array to write rows to, seen as a plain one, or an error."""
    array = plain(out, "out", twin)
    if array.dtype != dtype:
        raise ValueError(f"out has type {array.dtype}, but must have {dtype} in native byte order")
    if array.shape != shape:
        raise ValueError(f"out has shape {array.shape}, but must have {shape}")
    if not array.flags.writeable:
        raise ValueError("out is read-only; give a writable array")
    if array.size and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ValueError(
            f"out has strides {array.strides}, but the values of a row must be next to each other (a last stride of "
            f"{array.itemsize}): give numpy.empty({shape}, {dtype.name!r}), and copy from it"
        )
    return array


def exact_number(value: Any, name: str) -> Fraction | int:
    """An integer or a finite real number, exactly."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a real number, not {value!r}")
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, Fraction):
        return value
    return Fraction(real(value, name))


def progression(start: Any, step: Any, length: int) -> tuple[Fraction | int, Fraction | int]:
    """start and step as exact numbers, integers if all of start + i * step are 64-bit ones, or an error."""
    steps = max(length - 1, 0)
    if steps and type(start) is type(step) is int and LEAST <= start <= MOST and LEAST <= start + step * steps <= MOST:
        return start, step
    first, each = exact_number(start, "start"), exact_number(step, "step")
    if steps == 0:
        # no position lies there, so the distance may be of any size
        each = 1
    last: Fraction | int = first + each * steps
    if first.denominator == each.denominator == 1:
        if min(first, last) >= LEAST and max(first, last) <= MOST:
            return first.numerator, each.numerator
        if isinstance(first, int) and isinstance(each, int):
            raise ValueError(
                f"start={start!r} and step={step!r} lead from position {first} to {last}, outside of int64 and uint64; "
                "give real (float) numbers if float64 positions are meant"
            )
    if max(abs(Fraction(first)), abs(Fraction(last))) > sys.float_info.max:
        raise ValueError(f"start={start!r} and step={step!r} lead to a position outside of float64")
    return Fraction(first), Fraction(each)
