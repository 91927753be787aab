"""Positions out of files and arrays into files, a block at a time: neither has to fit in memory."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import math
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import tokenize
import traceback
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from .._encoding.times import microseconds
from .._numbers.formats import float_type

__all__ = [
    "Meter",
    "Source",
    "open_positions",
    "read_array",
    "read_arrays",
    "read_vector",
    "usable_target",
    "write_file",
    "write_npy",
]

Array = npt.NDArray[Any]
# label, total (None where unknown), unit -> what is told how much is done
Meter = Callable[[str, int | None, str], contextlib.AbstractContextManager[Callable[[int], object]]]


# ---- writing ----------------------------------------------------------------------------------------------------


def usable_target(path: str) -> Path:
    """The regular file behind a path, whether it is there yet or not; an error for anything else."""
    target = Path(os.path.realpath(path))
    # a rename would put a file in the place of a device or of a named pipe
    if target.exists() and not target.is_file():
        raise ValueError(f"{path} is there already, and is no regular file")
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such directory", str(target.parent))
    return target


def write_npy(path: str, shape: tuple[int, ...], dtype: np.dtype[Any], fill: Callable[[Array], object]) -> int:
    """Let ``fill`` write an array that becomes the .npy file ``path`` when all of it is there; its size in bytes."""
    if math.prod(shape) * dtype.itemsize > sys.maxsize - 4096:
        raise ValueError(f"an array of shape {shape} and type {dtype.name} is larger than any file")
    # no name here keeps the map alive: where files cannot be renamed while they are mapped, it must be gone
    return write_file(path, lambda part: fill(_mapped(part, shape, dtype)))


def write_file(path: str, fill: Callable[[Path], object]) -> int:
    """Let ``fill`` write a file that becomes ``path`` when all of it is there; its size in bytes."""
    target = usable_target(path)
    part = target.with_name(f".posenc-fast-{secrets.token_hex(8)}.tmp")
    try:
        fill(part)
        if target.exists():
            shutil.copymode(target, part)
        size = part.stat().st_size
        os.replace(part, target)
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)
        part.unlink(missing_ok=True)
        raise
    return size


def _mapped(part: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    rows = np.lib.format.open_memmap(part, mode="w+", dtype=dtype, shape=shape)
    _reserve(part)
    return rows


def _reserve(part: Path) -> None:
    """Claim the disk space: a full disk is an error here, and a fatal signal once the memory map is written to."""
    if not hasattr(os, "posix_fallocate"):
        return
    with part.open("r+b") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise OSError(error.errno, error.strerror, str(part.parent)) from None


# ---- reading ----------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """Positions; ``blocks(n)`` has them n rows at a time, each block in parts: (which of its rows, their positions)."""

    length: int
    label: str
    blocks: Callable[[int], Iterator[list[tuple[Any, Array]]]]


@contextlib.contextmanager
def open_positions(path: str, column: str | None, scratch: Path, meter: Meter) -> Iterator[Source]:
    """Positions of a .npy file, or of a column of text; text is spooled to a nameless file in ``scratch``."""
    if path == "-":
        # through a wrapper of its own: what a terminal's encoding is does not matter
        text = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
        try:
            with tempfile.TemporaryFile(dir=scratch) as spool:
                yield _spooled(text, "standard input", column, spool, meter)
        finally:
            text.detach()
    elif _is_npy(path):
        if column is not None:
            raise ValueError(f"{path} is a .npy file and has no columns: leave --column out")
        yield _npy(path)
    else:
        with open(path, encoding="utf-8-sig", newline="") as text, tempfile.TemporaryFile(dir=scratch) as spool:
            yield _spooled(text, path, column, spool, meter)


def _is_npy(path: str) -> bool:
    if path.lower().endswith(".npy"):
        return True
    if not stat.S_ISREG(os.stat(path).st_mode):
        return False
    with open(path, "rb") as file:
        return file.read(6) == b"\x93NUMPY"


def read_vector(path: str) -> Array:
    """The one-dimensional array of a .npy file, read from the disk as it is used."""
    array = read_array(path)
    if array.ndim != 1:
        raise ValueError(f"{path} has shape {array.shape}, but must have one dimension")
    return array


def read_array(path: str) -> Array:
    """The array of a .npy file, read from the disk as it is used."""
    try:
        array: Array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, tokenize.TokenError) as error:
        raise ValueError(f"{path} cannot be read as a .npy file of numbers: {error}") from None
    return array


def read_arrays(path: str) -> dict[str, Array]:
    """The arrays of an .npz file by name; raw bytes, in which NumPy stores bfloat16, as such."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (ValueError, zipfile.BadZipFile, EOFError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} cannot be read as an .npz file of numbers: {error}") from None
    return {
        name: array.view(float_type("bfloat16")) if array.dtype == "V2" else array for name, array in arrays.items()
    }


def _npy(path: str) -> Source:
    array = read_vector(path)

    def blocks(rows: int) -> Iterator[list[tuple[Any, Array]]]:
        for i in range(0, len(array), rows):
            yield [(slice(None), array[i : i + rows])]

    return Source(len(array), f"{path} ({array.dtype})", blocks)


# ---- text: every cell becomes a record of its form and its 64 bits ----------------------------------------------

REAL, INTEGER, UNSIGNED, MICROSECONDS, NANOSECONDS = range(5)
FORMS = tuple(np.dtype(name) for name in ("f8", "i8", "u8", "M8[us]", "M8[ns]"))
_RECORD = np.dtype([("form", "u1"), ("bits", "u8")])
# cells that are parsed together
_CELLS = 1 << 14

_WHOLE = re.compile(r"[+-]?[0-9]+")
_INFINITY = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_BEYOND_MICROSECONDS = re.compile(r"[.,][0-9]{6}([0-9]+)")


def _spooled(text: io.TextIOWrapper, name: str, column: str | None, spool: IO[bytes], meter: Meter) -> Source:
    reader = csv.reader(text)
    try:
        cells = _Cells(reader, name, column)
        size = _size(text)
        with meter("reading", size, "B" if size else " rows") as done:
            for records in cells.records():
                spool.write(records.tobytes())
                done(cast(IO[bytes], text.buffer).tell() if size else cells.count)
    except csv.Error as error:
        raise ValueError(f"{name}, line {reader.line_num}: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is neither a .npy file nor text in UTF-8: {error}") from None
    missing = f", {cells.missing} missing" if cells.missing else ""

    def blocks(rows: int) -> Iterator[list[tuple[Any, Array]]]:
        spool.seek(0)
        while block := spool.read(rows * _RECORD.itemsize):
            yield list(_parts(np.frombuffer(block, _RECORD)))

    return Source(cells.count, f"{name}, {cells.label}{missing}", blocks)


def _size(text: io.TextIOWrapper) -> int | None:
    """Bytes of a regular file, None for a pipe."""
    try:
        status = os.fstat(text.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and status.st_size else None


def _parts(records: Array) -> Iterator[tuple[Any, Array]]:
    forms = np.unique(records["form"])
    for form in forms:
        where = slice(None) if len(forms) == 1 else np.flatnonzero(records["form"] == form)
        yield where, records["bits"][where].copy().view(FORMS[form])


class _Cells:
    """One column of a CSV reader."""

    def __init__(self, reader: Any, name: str, column: str | None) -> None:
        self.reader, self.name = reader, name
        self.count = self.missing = 0
        # "number" or "date" and the first line that has one: a column of both is a mistake
        self.kind, self.kind_line = "", 0
        first = next((row for row in reader if row), None)
        if first is None:
            raise ValueError(f"{name} is empty")
        self.index, header = _choose(first, name, column)
        self.label = f"column {first[self.index].strip()!r}" if header else f"column {self.index}"
        self.pending = [] if header else [(reader.line_num, first)]

    def records(self) -> Iterator[Array]:
        """Records of a few cells at a time; empty lines are no rows."""
        cells: list[str] = []
        lines: list[int] = []
        for line, row in self._rows():
            if len(row) <= self.index:
                raise ValueError(f"{self.name}, line {line}: no column {self.index}, the line has {len(row)}")
            cells.append(row[self.index])
            lines.append(line)
            if len(cells) == _CELLS:
                yield self._parsed(cells, lines)
                cells, lines = [], []
        if cells:
            yield self._parsed(cells, lines)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        yield from self.pending
        for row in self.reader:
            if row:
                yield self.reader.line_num, row

    def _parsed(self, cells: list[str], lines: list[int]) -> Array:
        records = _quickly(cells, self.kind)
        if records is None:
            records = self._one_by_one(cells, lines)
        elif not self.kind:
            self._see(int(records["form"][0]), lines[0])
        if records["form"].min() == REAL:
            reals = records["bits"][records["form"] == REAL].view(np.float64)
            self.missing += int(np.count_nonzero(np.isnan(reals)))
        self.count += len(cells)
        return records

    def _one_by_one(self, cells: list[str], lines: list[int]) -> Array:
        records = np.empty(len(cells), _RECORD)
        found: dict[int, tuple[list[int], list[float]]] = {}
        for row, cell in enumerate(cells):
            try:
                form, value = _parse(cell)
                # NaN goes with numbers and with dates
                if not math.isnan(value):
                    self._see(form, lines[row])
            except ValueError as error:
                raise ValueError(f"{self.name}, line {lines[row]}: {error}") from None
            rows, values = found.setdefault(form, ([], []))
            rows.append(row)
            values.append(value)
        for form, (rows, values) in found.items():
            whole = np.float64 if form == REAL else np.uint64 if form == UNSIGNED else np.int64
            records["form"][rows] = form
            records["bits"][rows] = np.array(values, whole).view(np.uint64)
        return records

    def _see(self, form: int, line: int) -> None:
        kind = "date" if form >= MICROSECONDS else "number"
        if not self.kind:
            self.kind, self.kind_line = kind, line
        if self.kind != kind:
            raise ValueError(
                f"a {kind}, where line {self.kind_line} has a {self.kind}; positions must all be of one kind"
            )


def _choose(first: list[str], name: str, column: str | None) -> tuple[int, bool]:
    """Index of the column, and whether the first row names the columns."""
    titles = [cell.strip() for cell in first]
    if column is not None and not re.fullmatch(r"[0-9]+", column):
        if titles.count(column) != 1:
            many = "has several columns" if column in titles else "has no column"
            raise ValueError(f"{name} {many} {column!r}; {_listed(titles)}")
        return titles.index(column), True
    if column is None and len(titles) > 1:
        raise ValueError(f"{name} has {len(titles)} columns: choose one with --column; {_listed(titles)}")
    index = int(column or 0)
    if index >= len(titles):
        raise ValueError(f"{name} has no column {index}; {_listed(titles)}")
    if titles[index]:
        return index, not _is_position(titles[index])
    # an index column often has no title: then the other titles tell
    return index, any(titles) and not any(title and _is_position(title) for title in titles)


def _listed(titles: list[str]) -> str:
    shown = [f"{i} ({title[:40]!r})" for i, title in enumerate(titles[:20])]
    return f"the first line has {', '.join(shown)}{', ..' if len(titles) > 20 else ''}"


def _is_position(text: str) -> bool:
    try:
        _parse(text)
    except ValueError:
        # the beginnings of a number or date, gone wrong, are no title
        return text[:1] in "+-.0123456789"
    return True


def _quickly(cells: list[str], kind: str) -> Array | None:
    """Records of cells that are all of the most usual kinds; None where a cell needs a closer look."""
    together = "\n".join(cells)
    # int and float take 1_000, and a time is cut to microseconds
    if "_" in together or (kind != "number" and _BEYOND_MICROSECONDS.search(together)):
        return None
    count = len(cells)
    with contextlib.suppress(ValueError, OverflowError):
        if kind == "date":
            return _records(MICROSECONDS, np.fromiter(map(_microseconds, cells), np.int64, count))
        return _records(INTEGER, np.fromiter(map(int, cells), np.int64, count))
    if kind == "date":
        return None
    with contextlib.suppress(ValueError):
        values = np.fromiter(map(float, cells), np.float64, count)
        # NaN belongs to no kind, 1e999 is no infinity, and from 2**53 on an integer may have been rounded
        return None if math.isnan(values[0]) or (np.abs(values) >= 2.0**53).any() else _records(REAL, values)
    return None


def _records(form: int, values: Array) -> Array:
    records = np.empty(len(values), _RECORD)
    records["form"], records["bits"] = form, values.view(np.uint64)
    return records


def _parse(cell: str) -> tuple[int, float]:
    """Form and value of one cell; a date's value counts since 1970."""
    text = cell.strip()
    if _WHOLE.fullmatch(text):
        return _whole(text)
    try:
        value = float(text or "nan")
    except ValueError:
        return _date(text)
    if "_" in text:
        raise ValueError(f"{text[:80]!r} is no number")
    if math.isinf(value) and not _INFINITY.fullmatch(text):
        raise ValueError(f"{text[:80]} is outside of float64")
    return REAL, value


def _whole(text: str) -> tuple[int, int]:
    value = int(text) if abs(float(text)) < 2.0**65 else 2**65
    if -(2**63) <= value < 2**63:
        return INTEGER, value
    if 0 <= value < 2**64:
        return UNSIGNED, value
    raise ValueError(f"{text[:80]} is outside of int64 and uint64; write {text[:80]}.0 if a float64 is meant")


def _date(text: str) -> tuple[int, int]:
    try:
        count = _microseconds(text)
    except ValueError as error:
        reason = f" ({error})" if text[4:5] == "-" and "isoformat" not in str(error) else ""
        raise ValueError(f"{text[:80]!r} is neither a number nor an ISO date{reason}") from None
    match = _BEYOND_MICROSECONDS.search(text)
    digits = match[1].rstrip("0") if match else ""
    if not digits:
        return MICROSECONDS, count
    if len(digits) > 3:
        raise ValueError(f"{text[:80]!r} is finer than nanoseconds")
    nanoseconds = 1000 * count + int(digits.ljust(3, "0"))
    # the least number stands for a missing time
    if not -(2**63) < nanoseconds < 2**63:
        raise ValueError(f"{text[:80]!r} is outside of the years 1678 to 2261, those that nanoseconds reach")
    return NANOSECONDS, nanoseconds


def _microseconds(text: str) -> int:
    """Microseconds since 1970 of an ISO date or time, UTC if it does not say; further digits are cut off."""
    # with hyphens only: 20260101 is a number
    if text[4:5] != "-" or text[10:11] not in " T":
        raise ValueError("not an isoformat string")
    return microseconds(datetime.fromisoformat(text))
