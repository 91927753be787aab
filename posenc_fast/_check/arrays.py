"""Arrays of files by name: .npy, .npz and safetensors.

Files are read, not mapped into memory: one that is cut meanwhile is an error, and not the end of the process. What their
headers say is compared with their size before there is memory for it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from .._numbers.arrays import Array
from .._numbers.formats import float_type, types_here

__all__ = [
    "Archive",
    "Header",
    "Vector",
    "as_bfloat16",
    "header_of",
    "named",
    "open_archive",
    "open_vector",
    "read_array",
    "read_vector",
]


# what NumPy, zipfile, json and the parser of headers raise for files that are broken
_BROKEN = (
    AttributeError,
    EOFError,
    KeyError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
_SAFETENSORS = {
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (8, 4, 2)},
    **{f"{kind}{8 * size}": np.dtype(f"<{kind.lower()}{size}") for kind in "IU" for size in (8, 4, 2, 1)},
    "BF16": np.dtype("V2"),
    "BOOL": np.dtype("?"),
    "C64": np.dtype("<c8"),
}


# the longest header that the format allows
_MOST_HEADER = 100_000_000


@contextlib.contextmanager
def named(name: str, hidden: Path | None = None) -> Iterator[None]:
    """Give errors the file's name that the user knows, where they have none or another."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(hidden)):
            raise
        raise OSError(error.errno, error.strerror, name) from None


# ---- .npy -----------------------------------------------------------------------------------------------------------


class Vector(NamedTuple):
    """The one-dimensional array of a .npy file, whose next values ``take`` reads."""

    length: int
    dtype: np.dtype[Any]
    take: Callable[[int], Array]


@contextlib.contextmanager
def open_vector(path: str) -> Iterator[Vector]:
    with open(path, "rb") as file:
        with _reading(path, "a .npy file of numbers"):
            shape, _, dtype = _header(file, os.fstat(file.fileno()).st_size)
        if len(shape) != 1:
            raise ValueError(f"{path} has shape {shape}, but must have one dimension")

        def take(count: int) -> Array:
            with _reading(path, "a .npy file of numbers"):
                return _values(file, dtype, count)

        yield Vector(shape[0], dtype, take)


def read_vector(path: str) -> Array:
    """Return the one-dimensional array of a .npy file."""
    with open_vector(path) as vector:
        return vector.take(vector.length)


def read_array(path: str) -> Array:
    """Return the array of a .npy file."""
    with open(path, "rb") as file, _reading(path, "a .npy file of numbers"):
        return _array(file, os.fstat(file.fileno()).st_size)


def header_of(path: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of the array of a .npy file."""
    with open(path, "rb") as file, _reading(path, "a .npy file of numbers"):
        shape, _, dtype = _header(file, os.fstat(file.fileno()).st_size)
        return shape, dtype


def _array(file: IO[bytes], size: int) -> Array:
    shape, fortran, dtype = _header(file, size)
    return _values(file, dtype, math.prod(shape)).reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of the array in a .npy file of ``size`` bytes."""
    shape, fortran, dtype = _header_of_any(file)
    if _is_foreign(dtype):
        raise ValueError(f"its type is {dtype}")
    _check_room(shape, dtype, size - file.tell())
    return shape, fortran, dtype


def _is_foreign(dtype: np.dtype[Any]) -> bool:
    """Whether an array's values are objects or records, and no numbers."""
    return dtype.hasobject or dtype.subdtype is not None or dtype.names is not None or not dtype.itemsize


def _header_of_any(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of an array whose type may be any."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is not for numbers")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    # of an old header that is read all the same, and of an expression that is none
    with warnings.catch_warnings(action="ignore"):
        try:
            shape, fortran, dtype = read(file)
        except MemoryError:
            raise ValueError("its header is too deep to be parsed") from None
    return shape, fortran, dtype


def _check_room(shape: tuple[int, ...], dtype: np.dtype[Any], there: int) -> None:
    if min(shape, default=0) < 0:
        raise ValueError(f"its shape is {shape}")
    needed = math.prod(shape) * dtype.itemsize
    if needed > there:
        raise ValueError(f"shape {shape} and type {dtype} need {needed} bytes, and {there} are there")


def _values(file: IO[bytes], dtype: np.dtype[Any], count: int) -> Array:
    """Return the next values of a file."""
    values = np.empty(count, dtype)
    left = values.view(np.uint8).data
    while left:
        got = file.readinto(left)  # type: ignore[attr-defined]
        if not got:
            raise EOFError("it ends too early, or was cut while it was read")
        left = left[got:]
    return values


# ---- archives -------------------------------------------------------------------------------------------------------


class Header(NamedTuple):
    """Shape and bytes of an array; unread: the name of its type where that is none of NumPy's numbers, else ""."""

    shape: tuple[int, ...]
    size: int
    unread: str = ""


class Archive(NamedTuple):
    """Names of arrays, what reads one of them, and what reads its header alone."""

    names: tuple[str, ...]
    read: Callable[[str], Array]
    header: Callable[[str], Header]


@contextlib.contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """Return the arrays of an .npz file or of a .safetensors file."""
    with open(path, "rb") as file:
        yield (_safetensors if path.lower().endswith(".safetensors") else _npz)(path, file)


def _npz(path: str, file: IO[bytes]) -> Archive:
    what = "an .npz file of numbers"
    with _reading(path, what):
        archive = zipfile.ZipFile(file)
        members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}

    @contextlib.contextmanager
    def opened(name: str) -> Iterator[IO[bytes]]:
        with _reading(path, what):
            if members[name].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{name!r} is compressed in a way that NumPy does not write")
            with archive.open(members[name]) as member:
                yield member

    def read(name: str) -> Array:
        with opened(name) as member:
            return as_bfloat16(_array(member, members[name].file_size))

    def header(name: str) -> Header:
        with opened(name) as member:
            shape, _, dtype = _header_of_any(member)
            if _is_foreign(dtype):
                return Header(shape, 0, str(dtype))
            _check_room(shape, dtype, members[name].file_size - member.tell())
            return Header(shape, math.prod(shape) * dtype.itemsize)

    return Archive(tuple(members), read, header)


def _safetensors(path: str, file: IO[bytes]) -> Archive:
    """Return the arrays that a header in JSON lists, with their place behind it."""
    with _reading(path, "a safetensors file"):
        size = os.fstat(file.fileno()).st_size
        begin = 8 + int.from_bytes(file.read(8), "little")
        if not 8 < begin <= size:
            raise ValueError("its header is not there")
        if begin > _MOST_HEADER:
            raise ValueError(f"its header has {begin - 8} bytes, more than any has")
        entries = json.loads(_values(file, np.dtype(np.uint8), begin - 8).tobytes())
        entries.pop("__metadata__", None)
        for name, entry in entries.items():
            first, end = entry["data_offsets"]
            if not 0 <= first <= end <= size - begin:
                raise ValueError(f"{name!r} is not there")

    def read(name: str) -> Array:
        entry = entries[name]
        with _reading(path, f"numbers of NumPy, in {name!r}"):
            dtype, shape, (first, end) = _SAFETENSORS.get(entry["dtype"]), entry["shape"], entry["data_offsets"]
            if dtype is None:
                raise ValueError(f"its type is {entry['dtype']}")
            _check_room(tuple(shape), dtype, end - first)
            file.seek(begin + first)
            return as_bfloat16(_values(file, dtype, math.prod(shape)).reshape(shape))

    def header(name: str) -> Header:
        entry = entries[name]
        with _reading(path, f"numbers of NumPy, in {name!r}"):
            dtype, shape, (first, end) = _SAFETENSORS.get(entry["dtype"]), tuple(entry["shape"]), entry["data_offsets"]
            sides = tuple(map(int, shape))
            if dtype is None:
                return Header(sides, end - first, str(entry["dtype"]))
            _check_room(shape, dtype, end - first)
            return Header(sides, end - first)

    return Archive(tuple(entries), read, header)


@contextlib.contextmanager
def _reading(path: str, what: str) -> Iterator[None]:
    try:
        with named(path):
            yield
    except _BROKEN as error:
        raise ValueError(f"{path} cannot be read as {what}: {error}") from None


def as_bfloat16(array: Array) -> Array:
    """Return the bfloat16 numbers of bytes that NumPy stores; without ml_dtypes the same numbers in float32."""
    if array.dtype != np.dtype("V2"):
        return array
    if "bfloat16" in types_here():
        return array.view(float_type("bfloat16"))
    # the upper half of a float32
    halves = array.view("<u2").astype(np.uint32)
    return np.left_shift(halves, 16, out=halves).view(np.float32)
