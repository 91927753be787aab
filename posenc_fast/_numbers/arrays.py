"""Arrays that are given: those of other packages as NumPy's, and those to be written to, checked."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from .arguments import check_size

__all__ = ["as_array", "check_out", "is_tensor", "new", "plain"]


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch, which is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value: Any, name: str, *, keep_type: bool = False) -> npt.NDArray[Any]:
    """What `numpy.asarray` makes of it; or a CPU tensor of any type.

    Of bfloat16 tensors, which NumPy does not know, the values become float32, or with ``keep_type`` the bfloat16 of
    ml_dtypes.
    """
    if not is_tensor(value):
        try:
            return np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{name} must be an array, not {value!r}: {error}") from None
    if value.requires_grad:
        raise ValueError(f"{name} requires gradients, which would end here; give {name}.detach()")
    if not value.is_cpu:
        raise ValueError(f"{name} is on {value.device}, but must be on the CPU: give {name}.cpu()")
    if str(value.dtype) != "torch.bfloat16":
        return value.numpy(force=True)  # type: ignore[no-any-return]
    if not keep_type:
        return value.float().numpy(force=True)  # type: ignore[no-any-return]
    from .formats import float_type

    torch = sys.modules["torch"]
    return value.view(torch.int16).numpy(force=True).view(float_type("bfloat16", name))  # type: ignore[no-any-return]


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
