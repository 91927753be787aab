"""Encodings in functions that numba compiles: the kernel writes rows without the GIL and without calling Python.

Pass the address of an Encoding or a Rotary, from `address_of`, to compiled functions. The address is valid as
long as the object exists. The arrays x and out are float64 or float32, with contiguous rows. Needs numba:
``pip install numba``.

Examples
--------
>>> import numpy as np, posenc_fast as pf
>>> from numba import njit
>>> from posenc_fast.numba import address_of, table
>>> @njit
... def norms(encoding, start, rows):
...     out = np.empty((rows, 8))
...     table(encoding, start, out)
...     return (out**2).sum(axis=1)
>>> encoding = pf.sinusoidal(8)
>>> bool((abs(norms(address_of(encoding), 10**6, 3) - 4) < 1e-15).all())
True
"""

# without numba, pyright resolves `import numba` to this module
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ._core.encoding.value import Encoding
from ._core.engine import backend
from ._core.rotary.value import Rotary

try:
    from numba import njit
    from numba.core import errors, types
    from numba.extending import overload
except ImportError as error:
    raise ImportError("posenc_fast.numba needs numba; run pip install numba") from error

__all__ = ["add_to", "address_of", "encode", "rotate", "table"]


def __dir__() -> list[str]:
    return sorted(__all__)


# ---- posenc_fast.h in ctypes, with pointers as integers -------------------------------------------------------------

_int, _int64, _length, _size = ctypes.c_int, ctypes.c_int64, ctypes.c_ssize_t, ctypes.c_size_t
_pointer = ctypes.c_ssize_t
# types of the last two arguments of many functions: address and number of bytes of the scratch memory
_scratch_types = (_pointer, _size)


class _Api(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("size", ctypes.c_size_t),
        ("error_text", ctypes.CFUNCTYPE(ctypes.c_char_p, _int)),
        ("columns", ctypes.CFUNCTYPE(_length, _pointer)),
        ("axes", ctypes.CFUNCTYPE(_length, _pointer)),
        ("scratch", ctypes.CFUNCTYPE(_size, _pointer)),
        ("table", ctypes.CFUNCTYPE(_int, _pointer, _int64, _length, _int, _pointer, _length, *_scratch_types)),
        ("encode", ctypes.CFUNCTYPE(_int, _pointer, _pointer, _length, _int, _pointer, _length, *_scratch_types)),
        ("encode_int64", ctypes.CFUNCTYPE(_int, _pointer, _pointer, _length, _int, _pointer, _length, *_scratch_types)),
        (
            "add",
            ctypes.CFUNCTYPE(
                # error code as the result; then encoding, start, x_scale, batch, rows and dtype code; then the address
                # and two strides of x, and of out
                *(_int, _pointer, _int64, ctypes.c_double, _length, _length, _int),
                *(_pointer, _length, _length, _pointer, _length, _length),
                *_scratch_types,
            ),
        ),
        ("head_dim", ctypes.CFUNCTYPE(_length, _pointer)),
        ("angles_row", ctypes.CFUNCTYPE(_length, _pointer, _int)),
        ("rotary_scratch", ctypes.CFUNCTYPE(_size, _pointer, _length)),
        ("angles", ctypes.CFUNCTYPE(_int, _pointer, _int64, _length, _int, _pointer, *_scratch_types)),
        ("angles_at", ctypes.CFUNCTYPE(_int, _pointer, _pointer, _length, _int, _pointer, *_scratch_types)),
        (
            "rotate",
            ctypes.CFUNCTYPE(
                # error code as the result; then rotary, angles and dtype code; then the shape; then the address and
                # the strides of x, and of out
                *(_int, _pointer, _pointer, _int, _pointer, _pointer, _pointer, _pointer, _pointer),
                *_scratch_types,
            ),
        ),
    )


def _pointer_in(capsule: object) -> int:
    """Return the address that a PyCapsule of the kernel contains."""
    name_of, get = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address: int = get(capsule, name_of(capsule))
    return address


if backend.kernel is None:
    raise ImportError(f"posenc_fast.numba needs the compiled kernel, which is unavailable: {backend.reason}")
_api = _Api.from_address(_pointer_in(backend.kernel._C_API))
# texts of the codes POSENC_FAST_OK to POSENC_FAST_ERROR_BEYOND
_ERRORS = tuple(_api.error_text(code).decode() for code in range(10))
# functions compiled by numba can call ctypes functions in global variables, but not in fields of a structure
_columns, _axes, _scratch_of, _table, _add = _api.columns, _api.axes, _api.scratch, _api.table, _api.add
_encode, _encode_int64 = _api.encode, _api.encode_int64
_head_dim, _angles_row, _rotary_scratch = _api.head_dim, _api.angles_row, _api.rotary_scratch
_angles, _rotate = _api.angles, _api.rotate


def address_of(value: Encoding | Rotary) -> int:
    """Return the address of an Encoding or a Rotary for compiled functions.

    Parameters
    ----------
    value : Encoding or Rotary
        Keep a reference to it as long as compiled functions use the address.

    Returns
    -------
    int

    Raises
    ------
    TypeError
        If value is neither an Encoding nor a Rotary.
    ValueError
        If compiled functions do not support value: an Encoding with exact periods, a Rotary of several axes or with
        xPos.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast.numba import address_of
    >>> encoding = pf.sinusoidal(8)
    >>> address_of(encoding) == address_of(encoding) != 0
    True
    """
    if isinstance(value, Encoding):
        return _pointer_in(value.__posenc_encoding__())
    if isinstance(value, Rotary):
        return _pointer_in(value.__posenc_rotary__())
    raise TypeError(f"value must be an Encoding or a Rotary, not {type(value).__name__}")


# ---- functions that depend on types, selected at compilation --------------------------------------------------------


def _dtype_code(array: Any) -> int:
    """Return POSENC_FAST_FLOAT64 or POSENC_FAST_FLOAT32, by the dtype of an array."""
    raise NotImplementedError("posenc_fast.numba needs numba's compiler; unset the variable NUMBA_DISABLE_JIT")


@overload(_dtype_code)
def _dtype_code_of_type(array: Any) -> Any:
    if not isinstance(array, types.Array) or array.dtype not in (types.float64, types.float32):
        raise errors.TypingError(f"x and out must be arrays of float64 or float32, not {array}")

    def float64(array: Any) -> Any:
        return 0

    def float32(array: Any) -> Any:
        return 1

    return float64 if array.dtype == types.float64 else float32


def _out_check(axes: int) -> Any:
    """Return a function that raises an error, at compilation, unless out is writable and has this number of axes."""

    def check(array: Any) -> Any:
        raise NotImplementedError("posenc_fast.numba needs numba's compiler; unset the variable NUMBA_DISABLE_JIT")

    @overload(check)
    def check_type(array: Any) -> Any:
        if isinstance(array, types.Array) and array.ndim != axes:
            raise errors.TypingError(
                f"out must be an array of {axes} dimensions for this function of posenc_fast.numba, not of {array.ndim}"
            )
        if isinstance(array, types.Array) and not array.mutable:
            raise errors.TypingError("out is a read-only array; pass a writable array")

        def nothing(array: Any) -> Any:
            return None

        return nothing

    return check


# the digit in each name is the number of axes
_check_out2, _check_out3, _check_out4 = _out_check(2), _out_check(3), _out_check(4)


def _start_of(start: Any) -> int:
    """Return start as a signed 64-bit integer."""
    raise NotImplementedError("posenc_fast.numba needs numba's compiler; unset the variable NUMBA_DISABLE_JIT")


@overload(_start_of)
def _start_of_type(start: Any) -> Any:
    # store the result in a variable: after `if not isinstance(..)`, mypy would give start a type without attributes
    is_integer = isinstance(start, types.Integer)
    if not is_integer:
        raise errors.TypingError(
            f"start must be an integer, not {start}; for real positions of an Encoding, use posenc_fast.numba.encode"
        )

    def signed(start: Any) -> Any:
        return start

    def unsigned(start: Any) -> Any:
        number = np.int64(start)
        if number < 0:
            raise ValueError("start must be below 2**63")
        return number

    return signed if start.signed else unsigned


def _encode_any(encoding: Any, positions: Any, out: Any, scratch: Any) -> Any:
    """Write the rows of float64 or int64 positions to out, and return the error code."""
    raise NotImplementedError("posenc_fast.numba needs numba's compiler; unset the variable NUMBA_DISABLE_JIT")


@overload(_encode_any)
def _encode_of_type(encoding: Any, positions: Any, out: Any, scratch: Any) -> Any:
    if positions.dtype not in (types.float64, types.int64):
        raise errors.TypingError(
            f"posenc_fast.numba.encode accepts positions of float64 and int64, not {positions.dtype}; convert them"
        )
    function = _encode if positions.dtype == types.float64 else _encode_int64

    def call(encoding: Any, positions: Any, out: Any, scratch: Any) -> Any:
        return function(
            encoding,
            positions.ctypes.data,
            out.shape[0],
            _dtype_code(out),
            out.ctypes.data,
            out.strides[0],
            scratch.ctypes.data,
            scratch.size,
        )

    return call


@njit(nogil=True)
def _check(error_code: Any) -> None:
    if error_code:
        raise ValueError(_ERRORS[error_code])


@njit(nogil=True)
def _check_rows(array: Any, width: Any) -> None:
    if array.shape[-1] != width:
        raise ValueError(
            "each row of x and out must have d_model values (for an Encoding) or head_dim values (for a Rotary)"
        )
    # strides are meaningless in empty arrays and in arrays of one column
    if array.size and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ValueError("each row of x and out must be contiguous in memory; pass C-contiguous arrays")


# ---- functions ------------------------------------------------------------------------------------------------------


@njit(nogil=True)
def table(encoding: Any, start: Any, out: Any) -> None:
    """Write the rows of ``start, start + 1, ..`` to out (rows, d_model), like `Encoding.table`.

    encoding is the address from `address_of`, and start is an integer.
    """
    _check_out2(out)
    _check_rows(out, _columns(encoding))
    scratch = np.empty(_scratch_of(encoding), np.uint8)
    _check(
        _table(
            encoding,
            _start_of(start),
            out.shape[0],
            _dtype_code(out),
            out.ctypes.data,
            out.strides[0],
            scratch.ctypes.data,
            scratch.size,
        )
    )


@njit(nogil=True)
def encode(encoding: Any, positions: Any, out: Any) -> None:
    """Write the rows of positions to out (rows, d_model), like `Encoding.encode`.

    encoding is the address from `address_of`. positions is a contiguous array of float64 or int64, of shape (rows,) or
    (rows, axes).
    """
    _check_out2(out)
    _check_rows(out, _columns(encoding))
    if positions.shape[0] != out.shape[0] or positions.size != out.shape[0] * _axes(encoding):
        raise ValueError(
            "positions must have as many rows as out, and in each row one number for each axis of the encoding"
        )
    if not positions.flags.c_contiguous:
        raise ValueError("positions must be contiguous; pass a C-contiguous array")
    scratch = np.empty(_scratch_of(encoding), np.uint8)
    _check(_encode_any(encoding, positions, out, scratch))


@njit(nogil=True)
def add_to(encoding: Any, x: Any, start: Any, x_scale: Any, out: Any) -> None:
    """Write ``x_scale * x + encoding`` to out, like `Encoding.add_to`.

    encoding is the address from `address_of`. x and out are arrays of shape (batch, rows, d_model), and may be the same
    array.
    """
    _check_out3(out)
    _check_rows(x, _columns(encoding))
    _check_rows(out, _columns(encoding))
    if x.shape != out.shape or _dtype_code(x) != _dtype_code(out):
        raise ValueError("x and out must have the same shape and dtype")
    scratch = np.empty(_scratch_of(encoding), np.uint8)
    _check(
        _add(
            encoding,
            _start_of(start),
            x_scale,
            x.shape[0],
            x.shape[1],
            _dtype_code(x),
            x.ctypes.data,
            x.strides[0],
            x.strides[1],
            out.ctypes.data,
            out.strides[0],
            out.strides[1],
            scratch.ctypes.data,
            scratch.size,
        )
    )


@njit(nogil=True)
def rotate(rotary: Any, x: Any, start: Any, out: Any) -> None:
    """Write x, rotated for the positions ``start, start + 1, ..``, to out, like `Rotary.apply`.

    rotary is the address from `address_of`. x and out are arrays of shape (batch, heads, tokens, head_dim), and may be
    the same array.
    """
    _check_out4(out)
    _check_rows(x, _head_dim(rotary))
    _check_rows(out, _head_dim(rotary))
    if x.shape != out.shape or _dtype_code(x) != _dtype_code(out):
        raise ValueError("x and out must have the same shape and dtype")
    dtype_code, tokens = _dtype_code(x), x.shape[2]
    # _angles_row returns the bytes of the angles of a token, and a float64 has 8 bytes
    angles = np.empty(tokens * _angles_row(rotary, dtype_code) // 8, np.float64)
    scratch = np.empty(_rotary_scratch(rotary, tokens), np.uint8)
    _check(_angles(rotary, _start_of(start), tokens, dtype_code, angles.ctypes.data, scratch.ctypes.data, scratch.size))
    shape = np.array(x.shape[:3])
    x_strides, out_strides = np.array(x.strides[:3]), np.array(out.strides[:3])
    _check(
        _rotate(
            rotary,
            angles.ctypes.data,
            dtype_code,
            shape.ctypes.data,
            x.ctypes.data,
            x_strides.ctypes.data,
            out.ctypes.data,
            out_strides.ctypes.data,
            scratch.ctypes.data,
            scratch.size,
        )
    )
