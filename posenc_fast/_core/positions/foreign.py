"""Convert arrays of other packages to arrays of NumPy with the same values."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..numbers import annotations as npt
from ..numbers.arrays import is_tensor
from ..numbers.formats import BFLOAT16, FLOAT32, Format, float_type, format_of


def as_array(value: Any, name: str, *, keep_type: bool = False) -> npt.NDArray[Any]:
    """Return numpy.asarray(value). Dense tensors on the CPU without gradients are converted, too.

    NumPy has no bfloat16, so tensors of bfloat16 become float32, or with ``keep_type`` bfloat16 of ml_dtypes.
    """
    if not is_tensor(value):
        check_eager(value, name)
        try:
            return np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{name} must be an array, not {value!r} ({error})") from None
        except TypeError as error:
            if package_of(value) != "jax":
                raise
            raise TypeError(
                f"{name} has no values yet, because jax traces it; use the functions of posenc_fast.jax, which work "
                "under jit"
            ) from error
    if value.requires_grad:
        raise ValueError(f"{name} requires gradients, which NumPy cannot compute; give {name}.detach()")
    if not value.is_cpu:
        fix = "a tensor with values" if value.is_meta else f"{name}.cpu()"
        raise ValueError(f"{name} is on {value.device}, but must be on the CPU: give {fix}")
    is_bfloat16 = str(value.dtype) == "torch.bfloat16"
    kept = float_type("bfloat16", name) if is_bfloat16 and keep_type else None
    try:
        if kept is not None:
            array = value.view(sys.modules["torch"].int16).numpy(force=True).view(kept)
        else:
            array = (value.float() if is_bfloat16 else value).numpy(force=True)
    except (TypeError, RuntimeError) as error:
        raise unreadable(value, name, error) from None
    return array  # type: ignore[no-any-return]


def unreadable(tensor: Any, name: str, error: Exception | str) -> Exception:
    """Return the exception to raise for a CPU tensor that NumPy cannot read. `error` is the error that torch raised."""
    if tensor.is_nested:
        return ValueError(f"{name} is a nested tensor, but must be dense: give {name}.to_padded_tensor(0)")
    if str(tensor.layout) != "torch.strided":
        return ValueError(f"{name} has the layout {tensor.layout}, but must be dense: give {name}.to_dense()")
    if tensor.is_quantized:
        return TypeError(f"{name} has the dtype {tensor.dtype}, which NumPy lacks: give {name}.dequantize()")
    if type(tensor).__name__ == "FakeTensor":
        return TypeError(f"{name} is a fake tensor without values: give a tensor with values")
    if isinstance(error, TypeError):
        return TypeError(f"{name} has the dtype {tensor.dtype}, which NumPy lacks: give {name}.float()")
    return ValueError(f"{name} is a tensor that NumPy cannot read: {error}")


def package_of(value: Any) -> str:
    """Return the name of the package that defines a value's class."""
    return type(value).__module__.partition(".")[0]


def check_eager(value: Any, name: str) -> None:
    """Raise a TypeError for lazy values: all values of Dask, and LazyFrames and expressions of polars."""
    package, kind = package_of(value), type(value).__name__
    if package == "dask":
        lazily = ", or use posenc_fast.dask.encode instead of Encoding.encode" if name == "positions" else ""
        raise TypeError(
            f"{name} is a lazy Dask {kind}, which is not computed implicitly; pass {name}.compute(){lazily}"
        )
    if package == "polars" and kind == "LazyFrame":
        raise TypeError(f"{name} is a lazy polars LazyFrame; pass {name}.collect()")
    if package == "polars" and kind == "Expr":
        raise TypeError(
            f"{name} is a polars expression, which has no values yet. Pass a column of a DataFrame, or use "
            "posenc_fast.polars, or call this function in map_batches"
        )


def numbers_of(value: Any, name: str) -> tuple[npt.NDArray[Any], Format]:
    """Return (array, format of the values) of values that are only read, such as weights.

    The format of complex values is that of the real and imaginary parts.

    Tensors are detached and moved to the CPU. Tensors of bfloat16 become float32 arrays, so that ml_dtypes is not
    needed. If bfloat16 represents all values of a float32 array, the format is bfloat16.
    """
    rounded = False
    if is_tensor(value):
        # a meta tensor has no values to move
        value = value.detach() if value.is_meta else value.detach().cpu()
        rounded = str(value.dtype) == "torch.bfloat16"
    array = as_array(value, name)
    dtype = np.dtype(f"f{array.dtype.itemsize // 2}") if array.dtype.kind == "c" else array.dtype
    form = BFLOAT16 if rounded else format_of(float_type(dtype, name))
    assert form is not None
    if form is FLOAT32 and array.dtype.kind == "f" and array.size:
        # programs without bfloat16 store bfloat16 values as float32; the lower 16 bits are then zero
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        form = form if (bits & np.uint32(0xFFFF)).any() else BFLOAT16
    return array, form
