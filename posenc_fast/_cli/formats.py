"""Write rows as .npy, .npz, CSV or Parquet, one block at a time."""

from __future__ import annotations

import argparse
import collections
import contextlib
import csv
import errno
import math
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from .._core.numbers.arrays import Array
from .._core.numbers.formats import format_of
from .csv import KeptColumn
from .output import STANDARD, is_terminal, opened, report_written, usable_target

# a function that writes (encoded rows, cells); the cells are one sequence for each column that --keep copies
Write = Callable[[Array, Sequence[Any]], object]

OUTPUT_HELP = """\
OUT is written under another name, and renamed when it is complete. An existing
file is unchanged until then. The suffix of OUT determines the format, unless
--format does. An .npz file has one array, "encoding". CSV and Parquet have the
columns c0, c1, .. CSV has enough digits to restore each value. Parquet needs
pyarrow. Standard output is CSV, unless --format names another format.
"""
BFLOAT16_HELP = """\
.npy and .npz files store bfloat16 as raw bytes, of type |V2. Convert an array
that numpy.load returns with array.view(ml_dtypes.bfloat16).
"""


class _Table(NamedTuple):
    """The table to write: copied columns, and then encoded columns.

    shape, dtype: shape and dtype of the encoded values. kept: columns that --keep copies. encoded: names of the encoded
    columns, for formats whose columns have names.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    kept: Sequence[KeptColumn]
    encoded: Sequence[str]

    def names(self) -> list[str]:
        """Return the names of all columns in order."""
        return [*(column.name for column in self.kept), *self.encoded]


# ---- one context manager per format: each yields a function that writes a block of rows -----------------------------


@contextlib.contextmanager
def _npy(file: IO[bytes], table: _Table) -> Iterator[Write]:
    _write_header(file, table.shape, table.dtype)
    # write bytes, because arrays of bfloat16 do not support the buffer protocol
    yield lambda block, cells: file.write(block.view(np.uint8).data)


def _write_header(file: IO[bytes], shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Write the header of a .npy file. Its size is the same for any number of rows, so that it can be overwritten."""
    descr = np.lib.format.dtype_to_descr(np.dtype("V2") if dtype.name == "bfloat16" else dtype)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


@contextlib.contextmanager
def _npz(file: IO[bytes], table: _Table) -> Iterator[Write]:
    # a ZipInfo has a constant timestamp, so that equal arrays give equal files
    member = zipfile.ZipInfo("encoding.npy")
    with (
        zipfile.ZipFile(file, "w") as archive,
        archive.open(member, "w", force_zip64=True) as member_file,
        _npy(member_file, table) as write,
    ):
        yield write


@contextlib.contextmanager
def _csv(file: IO[bytes], table: _Table) -> Iterator[Write]:
    number_format = format_of(table.dtype)
    assert number_format is not None
    # write enough digits to distinguish any two numbers of the type
    digits = 1 + math.ceil(number_format.bits * math.log10(2))
    # a template of a line: %s for the text of all copied cells, then one %g for each encoded value
    line = f"%s{',' if table.kept else ''}{','.join([f'%.{digits}g'] * table.shape[1])}\n"
    (header,) = _quoted([table.names()])
    file.write(f"{header}\n".encode())

    def write(block: Array, cells: Sequence[Any]) -> None:
        copied = _quoted(zip(*map(_texts, cells), strict=True)) if table.kept else [""] * len(block)
        for copied_cells, row in zip(copied, block.astype(np.float64), strict=True):
            file.write((line % (copied_cells, *row)).encode())

    yield write


def _texts(column: Any) -> Sequence[str | None]:
    """Return the cells of a column as text. Cells of CSV are text already. Arrow converts a column of Parquet."""
    if isinstance(column, tuple):
        return column
    import pyarrow as pa

    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return texts


class _Lines(list[str]):
    """A list of lines. csv.writer appends a line with the method `write`."""

    def write(self, line: str) -> None:
        self.append(line)


def _quoted(rows: Iterable[Sequence[str | None]]) -> list[str]:
    """Return each row as a line of CSV, without a line end."""
    lines = _Lines()
    # Some versions of csv.writer quote a cell with \r or \n only if lineterminator contains this character. So
    # lineterminator has both.
    csv.writer(lines, lineterminator="\r\n").writerows(rows)
    return [line[:-2] for line in lines]


@contextlib.contextmanager
def _parquet(file: IO[bytes], table: _Table) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, text = pa.from_numpy_dtype(table.dtype), pa.string()
    copied_fields = [pa.field(name, text) if field is None else field for name, field in table.kept]
    schema = pa.schema([*copied_fields, *((name, number) for name in table.encoded)])

    def write(block: Array, cells: Sequence[Any]) -> None:
        copied = [pa.array(column, text) if isinstance(column, tuple) else column for column in cells]
        writer.write_table(pa.table([*copied, *(column.copy() for column in block.T)], schema))

    # use Parquet's dictionary encoding only for copied columns, because encoded numbers are nearly all distinct
    with pq.ParquetWriter(file, schema, use_dictionary=[name for name, _ in table.kept] or False) as writer:
        yield write


_FORMATS: dict[str, Callable[[IO[bytes], _Table], AbstractContextManager[Write]]] = {
    "npy": _npy,
    "npz": _npz,
    "csv": _csv,
    "parquet": _parquet,
}
# formats whose columns have names
_WITH_NAMES = ("csv", "parquet")


# ---- options of the output ------------------------------------------------------------------------------------------


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--output",
        default=STANDARD,
        metavar="OUT",
        help=f"{_suffixes()} file to write, or - for standard output (default)",
    )
    parser.add_argument("--format", choices=tuple(_FORMATS), help="format of OUT (default: its suffix; csv for -)")


def check_output(arguments: argparse.Namespace, dtype: np.dtype[Any], keep: bool = False) -> None:
    """Set --format to its default if it is absent. Raise an error if OUT cannot be written in this format.

    keep: whether OUT also has the columns of INPUT, which only some formats support.
    """
    path = arguments.output
    if path != STANDARD:
        usable_target(path)
    if arguments.format is None:
        arguments.format = "csv" if path == STANDARD else Path(path).suffix[1:].lower()
        if arguments.format not in _FORMATS:
            raise ValueError(f"{path} must end with {_suffixes()}, or --format must name its format")
    if path == STANDARD and arguments.format != "csv" and is_terminal(sys.stdout):
        raise ValueError(
            f"standard output is a terminal, which cannot show {arguments.format}; write to a file with -o, send the "
            "output to a program, or leave --format out"
        )
    if keep and arguments.format not in _WITH_NAMES:
        raise ValueError(
            f"--keep needs columns with names, and {arguments.format} files have none; choose the format csv or parquet"
        )
    if arguments.format == "parquet":
        if dtype.name == "bfloat16":
            raise ValueError("Parquet has no bfloat16; choose another --dtype, or another format")
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise ImportError(f"{path}: Parquet needs the package pyarrow; run pip install pyarrow") from None


def length_first(arguments: argparse.Namespace) -> bool:
    """Return whether the number of rows must be known before the first row is written.

    In a pipe or an archive, the header cannot be written again at the end.
    """
    file_format: str = arguments.format
    return file_format == "npz" or (file_format == "npy" and arguments.output == STANDARD)


def _suffixes() -> str:
    """Return the suffixes of all formats as a list in words."""
    *others, last = (f".{name}" for name in _FORMATS)
    return f"{', '.join(others)} or {last}"


@contextlib.contextmanager
def write_rows(
    arguments: argparse.Namespace,
    length: int | None,
    width: int,
    dtype: np.dtype[Any],
    notes: Iterable[str] = (),
    kept: Sequence[KeptColumn] = (),
    columns: Sequence[str] | None = None,
) -> Iterator[Write]:
    """Yield a function that writes a block of rows. At the end, rename the complete file to OUT, and print notes.

    length: number of rows, or None if it is unknown; it must be known if `length_first` is True. kept: columns that
    --keep copies. columns: names of the encoded columns (default: c0, c1, ..).
    """
    path = arguments.output
    size = (length or 0) * width * dtype.itemsize
    if size > sys.maxsize - 4096:
        raise ValueError(
            f"{length} rows of {width} columns of {dtype.name} need {size} bytes, more than a file can have; reduce the "
            "number of rows"
        )
    if columns is None:
        columns = [f"c{i}" for i in range(width)] if arguments.format in _WITH_NAMES else ()
    table = _Table((length or 0, width), dtype, kept, columns)
    if kept:
        _check_kept(table, arguments.format)
    written = 0
    with opened(path) as file:
        with _FORMATS[arguments.format](file, table) as write:
            if path != STANDARD and arguments.format == "npy":
                _reserve(file, size)

            def counted(block: Array, cells: Sequence[Any]) -> None:
                nonlocal written
                write(block, cells)
                written += len(block)

            yield counted
        if length is None and arguments.format == "npy":
            file.seek(0)
            _write_header(file, (written, width), dtype)
        report_written(path, file, f"shape {(written, width)}, {dtype.name}", *notes)


def _check_kept(table: _Table, file_format: str) -> None:
    """Raise an error if --keep cannot copy all columns of INPUT to OUT."""
    name, count = collections.Counter(table.names()).most_common(1)[0]
    if count > 1:
        raise ValueError(f"with --keep, OUT would have {count} columns named {name!r}; rename columns of INPUT")
    if file_format == "csv":
        for name, field in table.kept:
            if field is not None:
                _check_text(name, field.type)


def _check_text(name: str, arrow_type: Any) -> None:
    """Raise an error if Arrow cannot convert a column of Parquet to text."""
    import pyarrow as pa

    try:
        pa.array([], arrow_type).cast(pa.string())
    except pa.ArrowException:
        raise ValueError(
            f"--keep cannot copy column {name!r} of type {arrow_type} to CSV; choose the format parquet"
        ) from None


def _reserve(file: IO[bytes], size: int) -> None:
    """Reserve ``size`` bytes on the disk, if possible, so that a full disk is reported before the computation."""
    if not hasattr(os, "posix_fallocate"):
        return
    file.flush()
    try:
        os.posix_fallocate(file.fileno(), 0, file.tell() + size)
    except OSError as error:
        # ignore all other errors: file systems that cannot reserve space raise different errors
        if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
