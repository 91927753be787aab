"""Types of arrays, new output arrays, and checks of the caller's output arrays."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from . import annotations as npt
from .arguments import check_bytes

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

# number of bytes of a cache line
_LINE = 64
# minimum number of bytes of an array that `empty` aligns to a cache line; aligning takes two microseconds
_LARGE = 1 << 20


def is_tensor(value: Any) -> bool:
    """Return whether value is a tensor of torch, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_masked_array(value: Any) -> bool:
    """Return whether value is a masked array of NumPy, without importing numpy.ma."""
    # Importing numpy.ma takes longer than many calls. Before the import, no masked array exists.
    masked_array = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked_array is not None and isinstance(value, masked_array)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], *, at_line: bool = False) -> Array:
    """Return a new array. A large array, or any array if at_line is true, begins at a cache line.

    By DLPack, jax imports an array that begins at a cache line without a copy. If the bytes of a row are also a
    multiple of a cache line, no vector store spans two lines.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < _LARGE and not at_line:
        return np.empty(shape, dtype)
    try:
        memory = np.empty(size + _LINE, np.uint8)
    except MemoryError:
        # this raises a MemoryError that names the requested shape and dtype
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, memory, -memory.ctypes.data % _LINE)


def overlap(a: Array, b: Array) -> bool:
    """Return whether two arrays share memory, or True if this cannot be found out in a short time."""
    try:
        return np.shares_memory(a, b, max_work=100000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return a new array for the rows of positions, or raise a ValueError if it would exceed the address space."""
    check_bytes("there are too many positions: a result", shape, dtype.itemsize)
    return empty(shape, dtype)


def _fix(array: Any, name: str, twin: str) -> str:
    if is_tensor(array):
        if twin:
            return f"; posenc_fast.torch.{twin} takes tensors"
        if name.startswith("out"):
            return f"; give {name}.numpy()"
        # NumPy has no bfloat16, so such a tensor must become float32 first
        return f"; give {name}{'.float()' if str(array.dtype) == 'torch.bfloat16' else ''}.numpy(force=True)"
    # for `out`, numpy.asarray could make a copy, and the caller would not get the result
    return "" if name.startswith("out") or array is None else f"; give numpy.asarray({name})"


def base_array(array: Any, name: str, twin: str = "") -> Array:
    """Return a new view of the array as a plain ndarray. The shape and type of the view cannot change after checks.

    A subclass may report another shape than its memory has, and another thread may set the shape of an array. ``twin``
    is the name of a function of posenc_fast.torch that the error for a tensor recommends, or "".
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} must be a numpy array, not {type(array).__name__}{_fix(array, name, twin)}")
    return np.ndarray.view(array, np.ndarray)


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], twin: str = "", name: str = "out") -> Array:
    """Return the caller's output array as a plain ndarray. Raise an error if the array is unsuitable."""
    array = base_array(out, name, twin)
    if array.dtype != dtype:
        raise ValueError(f"{name} has dtype {array.dtype}, but must have dtype {dtype} in native byte order")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, but must have shape {shape}")
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only; give a writable array")
    if array.size and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ValueError(
            f"{name} has strides {array.strides}, but the values of a row must be next to each other (a last stride of "
            f"{array.itemsize}); pass numpy.empty({shape}, {dtype.name!r}) as {name}, then copy it into your "
            "array"
        )
    return array
