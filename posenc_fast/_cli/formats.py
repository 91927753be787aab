"""Rows as .npy, .npz, CSV or Parquet, a block at a time."""

from __future__ import annotations

import argparse
import contextlib
import errno
import math
import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .._numbers.formats import format_of
from .output import STANDARD, is_terminal, opened, report_written, usable_target

__all__ = ["BFLOAT16_HELP", "BLOCK", "OUTPUT_HELP", "add_output", "check_output", "write_rows"]

Array = npt.NDArray[Any]
Write = Callable[[Array], object]
Shape = tuple[int, int]

# output values that are computed, compared and written at a time
BLOCK = 1 << 22

OUTPUT_HELP = """\
OUT is written beside its place, then renamed: what was there stays until all is
well. Its suffix says the format, unless --format does. An .npz file has one
array, "encoding"; CSV and Parquet have columns c0, c1, .. (CSV with all digits
that the type needs, Parquet by pyarrow). On standard output, .npy is usual.
"""
BFLOAT16_HELP = """\
NumPy stores bfloat16 as raw bytes, of type |V2: read it with
numpy.load(OUT).view(ml_dtypes.bfloat16).
"""


# ---- one function a format: each yields what writes a block of rows -------------------------------------------------


@contextlib.contextmanager
def _npy(file: IO[bytes], shape: Shape, dtype: np.dtype[Any]) -> Iterator[Write]:
    descr = np.lib.format.dtype_to_descr(np.dtype("V2") if dtype.name == "bfloat16" else dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    # as bytes: types that are not NumPy's own have no buffers
    yield lambda block: file.write(block.view(np.uint8).data)


@contextlib.contextmanager
def _npz(file: IO[bytes], shape: Shape, dtype: np.dtype[Any]) -> Iterator[Write]:
    # without the time, so that equal arrays make equal files
    member = zipfile.ZipInfo("encoding.npy")
    with (
        zipfile.ZipFile(file, "w") as archive,
        archive.open(member, "w", force_zip64=True) as inside,
        _npy(inside, shape, dtype) as write,
    ):
        yield write


@contextlib.contextmanager
def _csv(file: IO[bytes], shape: Shape, dtype: np.dtype[Any]) -> Iterator[Write]:
    known = format_of(dtype)
    assert known is not None
    # as many digits as tell two numbers of the type apart
    form = f"%.{1 + math.ceil(known.bits * math.log10(2))}g"
    file.write(",".join(_names(shape)).encode() + b"\n")
    yield lambda block: np.savetxt(file, block.astype(np.float64), form, ",")


@contextlib.contextmanager
def _parquet(file: IO[bytes], shape: Shape, dtype: np.dtype[Any]) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, pa.from_numpy_dtype(dtype)) for name in _names(shape)])
    # there are hardly two equal numbers
    with pq.ParquetWriter(file, schema, use_dictionary=False) as writer:
        yield lambda block: writer.write_table(pa.table([column.copy() for column in block.T], schema))


def _names(shape: Shape) -> list[str]:
    return [f"c{i}" for i in range(shape[1])]


_FORMATS: dict[str, Callable[[IO[bytes], Shape, np.dtype[Any]], AbstractContextManager[Write]]] = {
    "npy": _npy,
    "npz": _npz,
    "csv": _csv,
    "parquet": _parquet,
}


# ---- the options, and what they are good for ------------------------------------------------------------------------


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help=f"{_listed()} file, or - for standard output; appears when it is complete",
    )
    parser.add_argument("--format", choices=tuple(_FORMATS), help="of OUT (default: its suffix; npy for -)")


def check_output(arguments: argparse.Namespace, dtype: np.dtype[Any]) -> None:
    """Settle the format, with an error for an OUT that cannot be written in it."""
    path = arguments.output
    if path != STANDARD:
        usable_target(path)
    if arguments.format is None:
        arguments.format = "npy" if path == STANDARD else Path(path).suffix[1:].lower()
        if arguments.format not in _FORMATS:
            raise ValueError(f"{path} must end with {_listed()}, or --format must say what it is")
    if path == STANDARD and arguments.format != "csv" and is_terminal(sys.stdout):
        raise ValueError("standard output is a terminal: send it to a file or a program, or add --format csv")
    if arguments.format == "parquet":
        if dtype.name == "bfloat16":
            raise ValueError("Parquet has no bfloat16: choose another --dtype, or another format")
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise ImportError(f"{path}: Parquet needs pyarrow: pip install 'posenc-fast[parquet]'") from None


def _listed() -> str:
    *first, last = (f".{name}" for name in _FORMATS)
    return f"{', '.join(first)} or {last}"


@contextlib.contextmanager
def write_rows(arguments: argparse.Namespace, shape: Shape, dtype: np.dtype[Any]) -> Iterator[Write]:
    """What takes the rows, a block at a time; OUT is there, and said to be, when all have been taken."""
    path = arguments.output
    size = math.prod(shape) * dtype.itemsize
    if size > sys.maxsize - 4096:
        raise ValueError(f"an array of shape {shape} and type {dtype.name} is larger than any file")
    with opened(path) as file, _FORMATS[arguments.format](file, shape, dtype) as write:
        if path != STANDARD and arguments.format == "npy":
            _reserve(file, size)
        yield write
    report_written(path, f"shape {shape}, {dtype.name}")


def _reserve(file: IO[bytes], size: int) -> None:
    """Claim the space on the disk: that there is too little is better known before the work than behind it."""
    if not hasattr(os, "posix_fallocate"):
        return
    file.flush()
    try:
        os.posix_fallocate(file.fileno(), 0, file.tell() + size)
    except OSError as error:
        # others are of file systems that know no such thing
        if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
