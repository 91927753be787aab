"""Convert tensors to arrays, round values to 16 bits, and find the narrowest type that represents values exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..._core.numbers.arrays import Array, Floats
from ..._core.numbers.formats import BFLOAT16, FLOAT16, FLOAT32, Format, float_type, format_of, types_here
from ..._core.numbers.rounding import round_once, values_of
from ..._core.positions.foreign import as_array
from ..identify.angles import BLOCK

# the 16-bit types
HALVES = (BFLOAT16, FLOAT16)
# approximate number of values in which `narrowest` and `widened` look for the narrowest type
TYPE_SAMPLE = 1 << 16


def array_of(values: Any, name: str) -> Array:
    """Convert an array, or a tensor on any device, to an array of float64, float32, float16 or bfloat16.

    Complex arrays stay complex. bfloat16 becomes float32 if ml_dtypes is not installed.
    """
    if hasattr(values, "detach"):
        values = values.detach()
        values = values if values.is_cpu or values.is_meta else values.cpu()
    array = as_array(values, name, keep_type="bfloat16" in types_here())
    dtype = np.dtype(f"f{array.dtype.itemsize // 2}") if array.dtype.kind == "c" else array.dtype
    # arrays from files may have the other byte order
    if not dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
        dtype = dtype.newbyteorder("=")
    float_type(dtype, name)
    return array


def through(form: Format, values: npt.ArrayLike) -> Floats:
    """Return values rounded once to a type, as float64."""
    with np.errstate(over="ignore", under="ignore"):
        return values_of(form.kind, round_once(form.kind, np.asarray(values, np.float64)))


def dtype_for(form: Format) -> type[np.floating[Any]]:
    """Return the dtype in which `identify` must get values of a format, because its tolerance depends on the dtype.

    bfloat16 values are passed as float32, because `identify` recognizes them by their bits.
    """
    dtypes: dict[str, type[np.floating[Any]]] = {"float64": np.float64, "float16": np.float16}
    return dtypes.get(form.name, np.float32)


def fits(form: Format, values: Floats) -> bool:
    """Return whether a type represents all values exactly."""
    return bool((through(form, values) == values).all())


def narrowest(array: Array) -> Format:
    """Return the narrowest type that represents the values of a real array exactly. A sample of the values is tested.

    16-bit values are often stored in 32 bits.
    """
    form = format_of(array.dtype)
    assert form is not None
    if form in HALVES:
        return form
    flat = array.reshape(-1)
    sample = flat[:: max(1, flat.size // TYPE_SAMPLE)].astype(np.float64)
    # every type represents ones and zeros exactly, so they do not determine a type
    if not np.isin(sample, (-1.0, 0.0, 1.0)).all():
        for narrower in (*HALVES, FLOAT32):
            if narrower.bits < form.bits and fits(narrower, sample):
                return narrower
    return form


def is_constant(array: Array) -> bool:
    """Return whether all values are the same number.

    Blocks of values are compared one after the other, because comparing all at once would need as many booleans.
    """
    flat = array.reshape(-1)
    return flat.size > 0 and all(bool((flat[i : i + BLOCK] == flat[0]).all()) for i in range(0, flat.size, BLOCK))


def widened(array: Array) -> Array | None:
    """Return an array as float32 if it is float16, and bfloat16 represents its values exactly, else None.

    Such values were rounded to bfloat16 before they were stored in float16.
    """
    sample = array.reshape(-1)[:: max(1, array.size // TYPE_SAMPLE)]
    if format_of(array.dtype) is not FLOAT16 or narrowest(sample.astype(np.float32)) is not BFLOAT16:
        return None
    return array.astype(np.float32)
