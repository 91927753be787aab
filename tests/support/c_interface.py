"""Call the functions of ``posenc_fast.h`` by ctypes, which needs no compiler and releases the GIL."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

import posenc_fast as pf

# dtypes in the order of their codes in the header
TYPES = ("float64", "float32", "float16", "bfloat16")
ERRORS = ("ok", "null", "type", "length", "alignment", "overlap", "scratch", "scale", "axes", "beyond")

_int, _int64, _double = ctypes.c_int, ctypes.c_int64, ctypes.c_double
_length, _size = ctypes.c_ssize_t, ctypes.c_size_t
# the type of all pointers, including pointers to constants
_pointer = ctypes.c_void_p
_scratch = (_pointer, _size)
# fmt: off
_SIGNATURES = {
    "error_text": (ctypes.c_char_p, _int),
    "columns": (_length, _pointer),
    "axes": (_length, _pointer),
    "scratch": (_size, _pointer),
    "table": (_int, _pointer, _int64, _length, _int, _pointer, _length, *_scratch),
    "encode": (_int, _pointer, _pointer, _length, _int, _pointer, _length, *_scratch),
    "encode_int64": (_int, _pointer, _pointer, _length, _int, _pointer, _length, *_scratch),
    "add": (*(_int, _pointer, _int64, _double, _length, _length, _int), *(_pointer, _length, _length, _pointer, _length, _length, *_scratch)),
    "head_dim": (_length, _pointer),
    "angles_row": (_length, _pointer, _int),
    "rotary_scratch": (_size, _pointer, _length),
    "angles": (_int, _pointer, _int64, _length, _int, _pointer, *_scratch),
    "angles_at": (_int, _pointer, _pointer, _length, _int, _pointer, *_scratch),
    "rotate": (_int, _pointer, _pointer, _int, _pointer, _pointer, _pointer, _pointer, _pointer, *_scratch),
}
# fmt: on


class Api(ctypes.Structure):
    """The struct posenc_fast_api."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("size", ctypes.c_size_t),
        *((name, ctypes.CFUNCTYPE(*signature)) for name, signature in _SIGNATURES.items()),
    )


def pointer_of(capsule: object, name: str) -> int:
    """Return the address that a capsule contains. name: the name that the capsule must have."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get(capsule, name.encode()))


def api() -> Api:
    """Return the struct of the kernel's C functions. The import fails if this build has no compiled kernel."""
    from posenc_fast import _kernel

    return Api.from_address(pointer_of(_kernel._C_API, "posenc_fast._kernel._C_API"))


class Handle(NamedTuple):
    """A pointer to an encoding or rotary of the C interface, and the capsule that keeps its memory alive."""

    pointer: int
    capsule: object


def encoding_of(encoding: pf.Encoding) -> Handle:
    capsule = encoding.__posenc_encoding__()
    return Handle(pointer_of(capsule, "posenc_fast_encoding"), capsule)


def rotary_of(rotary: pf.Rotary) -> Handle:
    capsule = rotary.__posenc_rotary__()
    return Handle(pointer_of(capsule, "posenc_fast_rotary"), capsule)


def type_of(array: np.ndarray) -> int:
    return TYPES.index(array.dtype.name)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def scratch_of(size: int, given: np.ndarray | None = None) -> np.ndarray:
    """Return the given memory, or new memory at an unaligned address, because the functions must accept any address."""
    return np.empty(size + 1, np.uint8)[1:] if given is None else given


def check(error: int) -> None:
    assert error == 0, ERRORS[error]


def table(encoding: Handle, start: int, out: np.ndarray, scratch: np.ndarray | None = None) -> np.ndarray:
    c, scratch = api(), scratch_of(api().scratch(encoding.pointer), scratch)
    rows = encoding.pointer, start, len(out), type_of(out), address(out), out.strides[0]
    check(c.table(*rows, address(scratch), len(scratch)))
    return out


def encode(encoding: Handle, positions: np.ndarray, out: np.ndarray, scratch: np.ndarray | None = None) -> np.ndarray:
    c, scratch = api(), scratch_of(api().scratch(encoding.pointer), scratch)
    function: Any = c.encode_int64 if positions.dtype == np.int64 else c.encode
    rows = encoding.pointer, address(positions), len(out), type_of(out), address(out), out.strides[0]
    check(function(*rows, address(scratch), len(scratch)))
    return out


def add(
    encoding: Handle, start: int, scale: float, x: np.ndarray, out: np.ndarray, scratch: np.ndarray | None = None
) -> np.ndarray:
    """Write scale * x + encoding to out. x and out: (batches, rows, columns)."""
    c, scratch = api(), scratch_of(api().scratch(encoding.pointer), scratch)
    places = (address(x), *x.strides[:2], address(out), *out.strides[:2])
    what = encoding.pointer, start, scale, *x.shape[:2], type_of(x)
    check(c.add(*what, *places, address(scratch), len(scratch)))
    return out


def rotate(
    rotary: Handle, start: int | np.ndarray, x: np.ndarray, out: np.ndarray, scratch: np.ndarray | None = None
) -> np.ndarray:
    """Write the rotated x to out. x and out: (batches, heads, tokens, head_dim).

    start: first position, or the positions of all tokens.
    """
    c, scratch = api(), scratch_of(api().rotary_scratch(rotary.pointer, x.shape[2]), scratch)
    angles = np.empty(x.shape[2] * c.angles_row(rotary.pointer, type_of(x)), np.uint8)
    rest = x.shape[2], type_of(x), address(angles), address(scratch), len(scratch)
    if isinstance(start, int):
        check(c.angles(rotary.pointer, start, *rest))
    else:
        check(c.angles_at(rotary.pointer, address(start), *rest))
    shape, x_strides, out_strides = (np.array(numbers[:3], np.intp) for numbers in (x.shape, x.strides, out.strides))
    lengths = address(shape), address(x), address(x_strides), address(out), address(out_strides)
    check(c.rotate(rotary.pointer, address(angles), type_of(x), *lengths, address(scratch), len(scratch)))
    return out
