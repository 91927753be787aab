"""Read arrays by name from .npy, .npz and safetensors files.

Files are read instead of mapped into memory, because a process crashes if another program truncates a file that it has
mapped. The sizes in a header are compared with the size of the file before memory is allocated.
"""

from __future__ import annotations

import contextlib
import errno
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
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from ..._core.numbers.arguments import unique
from ..._core.numbers.arrays import Array
from ..._core.numbers.formats import float_type, types_here

# errors that NumPy, zipfile, json and the parser of headers raise for damaged files
_DAMAGE_ERRORS = (
    AttributeError,
    EOFError,
    KeyError,
    OSError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
# NumPy's dtype for each type of safetensors. NumPy has no bfloat16, so BF16 is read as raw bytes.
_SAFETENSORS = {
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (8, 4, 2)},
    **{f"{kind}{8 * size}": np.dtype(f"<{kind.lower()}{size}") for kind in "IU" for size in (8, 4, 2, 1)},
    "BF16": np.dtype("V2"),
    "BOOL": np.dtype("?"),
    "C64": np.dtype("<c8"),
}
# number of bits of each type of safetensors
_BITS = {
    **{kind: 8 * dtype.itemsize for kind, dtype in _SAFETENSORS.items()},
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
# largest number of bytes that are read at a time
_MOST_BYTES_AT_ONCE = 1 << 24
# The format safetensors limits the bytes of a header to _MOST_HEADER, and each number in a header to _MOST_NUMBER.
_MOST_HEADER, _MOST_NUMBER = 100_000_000, 2**64 - 1


@contextlib.contextmanager
def named(name: str, hidden: Path | None = None) -> Iterator[None]:
    """Set the file name of an OSError of the ``with`` block to ``name`` if the error has none, or has ``hidden``.

    name: path that the user passed. hidden: path that the user does not know.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(hidden)):
            raise
        raise OSError(error.errno, error.strerror, name) from None


# ---- .npy -----------------------------------------------------------------------------------------------------------


class Vector(NamedTuple):
    """The one-dimensional array of a .npy file. take: function that reads and returns the next ``count`` values."""

    length: int
    dtype: np.dtype[Any]
    take: Callable[[int], Array]


@contextlib.contextmanager
def open_vector(path: str) -> Iterator[Vector]:
    """Yield the one-dimensional array of a .npy file, whose values can be read in parts."""
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
    """Return (shape, dtype) of the array of a .npy file."""
    with open(path, "rb") as file, _reading(path, "a .npy file of numbers"):
        shape, _, dtype = _header(file, os.fstat(file.fileno()).st_size)
        return shape, dtype


def _array(file: IO[bytes], size: int) -> Array:
    shape, fortran, dtype = _header(file, size)
    return _values(file, dtype, math.prod(shape)).reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return (shape, whether the order is Fortran's, dtype) of the array in a .npy file of ``size`` bytes."""
    shape, fortran, dtype = _header_of_any(file)
    if _is_foreign(dtype):
        raise ValueError(f"the type {dtype} is unsupported")
    _check_room(shape, dtype, size - file.tell())
    return shape, fortran, dtype


def _is_foreign(dtype: np.dtype[Any]) -> bool:
    """Return whether the values of a dtype are objects, records or arrays, or have no bytes."""
    return dtype.hasobject or dtype.subdtype is not None or dtype.names is not None or not dtype.itemsize


def _header_of_any(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return (shape, whether the order is Fortran's, dtype) of the array in a .npy file. Any dtype is accepted."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is unsupported")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    # NumPy warns about headers of old versions, and about malformed headers before it raises an error
    with warnings.catch_warnings(action="ignore"):
        try:
            shape, fortran, dtype = read(file)
        except MemoryError:
            raise ValueError("the header is nested too deeply") from None
    return shape, fortran, dtype


def _check_room(shape: tuple[int, ...], dtype: np.dtype[Any], available: int) -> None:
    """Raise an error if an array needs more than ``available`` bytes, which follow the header in the file."""
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape {shape} has a negative number")
    needed = math.prod(shape) * dtype.itemsize
    if needed > available:
        raise ValueError(
            f"shape {shape} and type {dtype} need {needed} bytes, but only {available} bytes follow the header"
        )


def _values(file: IO[bytes], dtype: np.dtype[Any], count: int) -> Array:
    """Return the next ``count`` values of a file."""
    values = np.empty(count, dtype)
    unfilled = values.view(np.uint8).data
    while unfilled:
        # Zipfile decompresses all requested bytes into memory first, so request few bytes at a time. Files and members
        # of zip archives have `readinto`, but `typing.IO` does not declare it.
        count_read = file.readinto(unfilled[:_MOST_BYTES_AT_ONCE])  # type: ignore[attr-defined]
        if not count_read:
            raise EOFError("the file ends too early, or was cut while it was read")
        unfilled = unfilled[count_read:]
    return values


# ---- archives -------------------------------------------------------------------------------------------------------


class Header(NamedTuple):
    """Shape of an array and its size in bytes.

    unread: name of the array's type if this type cannot be read, else "". The size of an unread type may be 0.
    """

    shape: tuple[int, ...]
    size: int
    unread: str = ""


class Archive(NamedTuple):
    """The arrays of a file. names: names of the arrays. read, header: functions that read the array of a name, or only
    its header.
    """

    names: tuple[str, ...]
    read: Callable[[str], Array]
    header: Callable[[str], Header]


@contextlib.contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """Yield an `Archive` that reads the arrays of an .npz or .safetensors file. Use it inside of the ``with`` block."""
    with open(path, "rb") as file:
        yield _safetensors(path, file) if path.lower().endswith(".safetensors") else _npz(path, file)


def _npz(path: str, file: IO[bytes]) -> Archive:
    kind = "an .npz file of numbers"
    with _reading(path, kind):
        archive = zipfile.ZipFile(file)
        members: dict[str, zipfile.ZipInfo] = {}
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in members:
                raise ValueError(f"{members[name].filename!r} and {member.filename!r} are arrays with the same name")
            if not member.is_dir():
                members[name] = member

    @contextlib.contextmanager
    def open_member(name: str) -> Iterator[IO[bytes]]:
        with _reading(path, kind):
            if members[name].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{name!r} has a compression that NumPy does not write")
            with archive.open(members[name]) as member:
                yield member

    def read(name: str) -> Array:
        with open_member(name) as member:
            return as_bfloat16(_array(member, members[name].file_size))

    def header(name: str) -> Header:
        with open_member(name) as member:
            shape, _, dtype = _header_of_any(member)
            if _is_foreign(dtype):
                return Header(shape, 0, str(dtype))
            _check_room(shape, dtype, members[name].file_size - member.tell())
            return Header(shape, math.prod(shape) * dtype.itemsize)

    return Archive(tuple(members), read, header)


def _safetensors(path: str, file: IO[bytes]) -> Archive:
    """Return an `Archive` of the arrays that the JSON header of a safetensors file lists."""
    with _reading(path, "a safetensors file"):
        size = os.fstat(file.fileno()).st_size
        begin = 8 + int.from_bytes(file.read(8), "little")
        if not 8 < begin <= size:
            raise ValueError("the header is incomplete")
        if begin > _MOST_HEADER:
            raise ValueError(f"the header has {begin - 8} bytes, more than the format allows")
        entries = _entries(_values(file, np.dtype(np.uint8), begin - 8).tobytes(), size - begin)

    def read(name: str) -> Array:
        entry = entries[name]
        with _reading(path, f"numbers of NumPy (tensor {name!r})"):
            dtype, shape, first = _SAFETENSORS.get(entry["dtype"]), entry["shape"], entry["data_offsets"][0]
            if dtype is None:
                raise ValueError(f"the type {entry['dtype']} is unsupported")
            file.seek(begin + first)
            return as_bfloat16(_values(file, dtype, math.prod(shape)).reshape(shape))

    def header(name: str) -> Header:
        entry = entries[name]
        first, end = entry["data_offsets"]
        return Header(tuple(entry["shape"]), end - first, "" if entry["dtype"] in _SAFETENSORS else entry["dtype"])

    return Archive(tuple(entries), read, header)


def _entries(text: bytes, size: int) -> dict[str, dict[str, Any]]:
    """Return the entry of each tensor in a header of safetensors: its dtype, shape and data_offsets.

    Raise an error if the header breaks a rule of the format. size: number of bytes of data after the header.
    """

    def refuse(number: str) -> NoReturn:
        raise ValueError(f"the header has the number {number}, which is not an integer from 0 to 2^64 - 1")

    def parse_integer(digits: str) -> int:
        # int raises an error for more than 4300 digits, so check the number of digits first
        if len(digits) > 20 or digits[0] == "-" or int(digits) > _MOST_NUMBER:
            refuse(digits)
        return int(digits)

    decoded = text.decode("utf-8")
    if not decoded.startswith("{"):
        raise ValueError("the header does not begin with {")
    entries: dict[str, Any] = json.loads(
        decoded, object_pairs_hook=unique, parse_int=parse_integer, parse_float=refuse, parse_constant=refuse
    )
    metadata = entries.pop("__metadata__", {})
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("__metadata__ is not a mapping from strings to strings")
    for text_in_header in (*entries, *metadata, *metadata.values()):
        # encode raises an error for unpaired surrogates
        text_in_header.encode("utf-8")
    for name, entry in entries.items():
        _check_entry(name, entry)
    previous_end = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        if begin != previous_end:
            raise ValueError(
                f"{name!r} begins at byte {begin}, but must begin at byte {previous_end}, because tensors must follow "
                "each other without gaps or overlaps"
            )
        previous_end = end
    if previous_end != size:
        raise ValueError(f"the tensors need {previous_end} bytes, but {size} bytes follow the header")
    return entries


def _check_entry(name: str, entry: Any) -> None:
    """Raise an error if the entry of a tensor is malformed, or if its dtype, shape and size do not agree."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name!r} must have dtype, shape and data_offsets, and nothing else")
    for key in ("shape", "data_offsets"):
        if not isinstance(entry[key], list) or not all(type(number) is int for number in entry[key]):
            raise ValueError(f"{name!r} has {key}={entry[key]!r}, which must be a list of integers")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _BITS:
        raise ValueError(f"{name!r} has dtype={kind!r}, which is not a type of safetensors")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(
            f"{name!r} has data_offsets={offsets!r}, which must be two numbers: the first byte of the tensor, and the byte "
            "after its last byte"
        )
    bits, size = _BITS[kind], offsets[1] - offsets[0]
    # multiply the largest sides first: otherwise a side of 0 would hide that a product is too large
    for side in sorted(shape, reverse=True):
        if bits * side > _MOST_NUMBER:
            raise ValueError(f"{name!r} has shape={shape!r}, which is too large")
        bits *= side
    if bits != 8 * size:
        raise ValueError(f"{name!r} has {size} bytes, but shape {shape!r} and type {kind} need {bits / 8:.12g} bytes")


@contextlib.contextmanager
def _reading(path: str, kind: str) -> Iterator[None]:
    """Turn errors of damaged files into a ValueError that names the file and its expected kind."""
    try:
        with named(path):
            yield
    except _DAMAGE_ERRORS as error:
        # EINVAL means that a damaged header caused a seek to before the beginning of the file
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        reason = str(error)
        raise ValueError(f"{path} cannot be read as {kind}: {reason[:400]}{'..' if reason[400:] else ''}") from None


def as_bfloat16(array: Array) -> Array:
    """Return raw bytes of bfloat16 (dtype V2) as numbers: bfloat16 with ml_dtypes, else float32.

    An array of another dtype is returned unchanged.
    """
    if array.dtype != np.dtype("V2"):
        return array
    if "bfloat16" in types_here():
        return array.view(float_type("bfloat16"))
    # bfloat16 is the upper half of a float32
    bits = array.view("<u2").astype(np.uint32)
    return np.left_shift(bits, 16, out=bits).view(np.float32)
