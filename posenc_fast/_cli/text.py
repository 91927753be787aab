"""Positions in a column of CSV text."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import math
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .cells import MICROSECONDS, REAL, RECORD, UNSIGNED, is_position, parse, parts, quickly
from .columns import by_name, column_index
from .output import named
from .progress import Meter
from .source import Block, Source

__all__ = ["open_text"]

Array = npt.NDArray[Any]

# cells that are parsed together
CELLS = 1 << 14
# what else may stand between cells, and how a shell says it
_DELIMITERS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}


def open_text(
    path: str, column: str | None, delimiter: str | None, spool: IO[bytes], where: str, meter: Meter
) -> Source:
    """The positions in a column of a file, or of standard input for -, spooled to a file that is called ``where``."""
    separator = {None: ",", "tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    assert separator is not None
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(f"--delimiter must be one character, or tab, not {delimiter!r}")
    name = "standard input" if path == "-" else path
    with contextlib.ExitStack() as stack:
        if path == "-":
            # through a wrapper of its own: what a terminal's encoding is does not matter
            raw = packed = sys.stdin.buffer
        else:
            raw = packed = stack.enter_context(open(path, "rb"))
            if raw.peek(2)[:2] == b"\x1f\x8b":
                packed = stack.enter_context(gzip.GzipFile(fileobj=raw))
        text = io.TextIOWrapper(packed, encoding="utf-8-sig", newline="")
        # what is not ours stays open
        stack.callback(text.detach)
        reader = csv.reader(text, delimiter=separator)
        with _broken(name, reader):
            first = next(_lines(reader), (0, []))[1]
            if not first:
                raise ValueError(f"{name} is empty")
        with _broken(name, reader, _hint(first, separator)):
            return _spooled(_Column(reader, first, name, column), raw, spool, where, meter)


def _spooled(column: _Column, raw: IO[bytes], spool: IO[bytes], where: str, meter: Meter) -> Source:
    size = _size(raw)
    with meter("reading", size, "B" if size else " rows") as done:
        for records in column.records():
            with named(where):
                spool.write(records.tobytes())
            done(raw.tell() if size else column.count)
    missing = f", {column.missing} missing" if column.missing else ""

    def blocks(rows: int) -> Iterator[Block]:
        with named(where):
            spool.seek(0)
            while block := spool.read(rows * RECORD.itemsize):
                yield list(parts(np.frombuffer(block, RECORD)))

    return Source(column.count, f"{column.name}, {column.label}{missing}", blocks)


def _size(file: IO[bytes]) -> int | None:
    """Bytes of a regular file, None for a pipe."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and status.st_size else None


def _lines(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Lines with their numbers; empty ones are no rows."""
    for row in reader:
        if row:
            yield reader.line_num, row


@contextlib.contextmanager
def _broken(name: str, reader: Any, hint: str = "") -> Iterator[None]:
    """Say of each error which file it is in."""
    try:
        with named(name):
            yield
    except csv.Error as error:
        raise ValueError(f"{name}, line {reader.line_num}: {error}{hint}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is neither a .npy or .parquet file nor text in UTF-8: {error}") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{name} cannot be read as gzip: {error}") from None
    except ValueError as error:
        raise ValueError(f"{error}{hint}") from None


def _hint(first: list[str], separator: str) -> str:
    """What to say beside an error where the first line has more of another delimiter, or as many."""
    for other, shown in _DELIMITERS.items():
        count = sum(cell.count(other) for cell in first)
        if other != separator and count and count >= len(first) - 1:
            return f"; its first line has {shown}: perhaps --delimiter {shown}"
    return ""


class _Column:
    """One column of a CSV reader, as records."""

    def __init__(self, reader: Any, first: list[str], name: str, column: str | None) -> None:
        self.reader, self.name = reader, name
        self.count = self.missing = 0
        # "number" or "date" and the first line that has one: a column of both is a mistake
        self.content, self.content_line = "", 0
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
            if len(cells) == CELLS:
                yield self._parsed(cells, lines)
                cells, lines = [], []
        if cells:
            yield self._parsed(cells, lines)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        yield from self.pending
        yield from _lines(self.reader)

    def _parsed(self, cells: list[str], lines: list[int]) -> Array:
        records = quickly(cells, self.content)
        if records is None:
            records = self._one_by_one(cells, lines)
        elif not self.content:
            self._see(int(records["form"][0]), lines[0])
        if records["form"].min() == REAL:
            reals = records["bits"][records["form"] == REAL].view(np.float64)
            self.missing += int(np.count_nonzero(np.isnan(reals)))
        self.count += len(cells)
        return records

    def _one_by_one(self, cells: list[str], lines: list[int]) -> Array:
        records = np.empty(len(cells), RECORD)
        found: dict[int, tuple[list[int], list[float]]] = {}
        for row, cell in enumerate(cells):
            try:
                form, value = parse(cell)
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
        content = "date" if form >= MICROSECONDS else "number"
        if not self.content:
            self.content, self.content_line = content, line
        if self.content != content:
            raise ValueError(
                f"a {content}, where line {self.content_line} has a {self.content}; positions must all be of one kind"
            )


def _choose(first: list[str], name: str, column: str | None) -> tuple[int, bool]:
    """Index of the column, and whether the first row names the columns."""
    titles = [cell.strip() for cell in first]
    index = column_index(titles, column, name)
    if by_name(column):
        return index, True
    if titles[index]:
        return index, not is_position(titles[index])
    # an index column often has no title: then the other titles tell
    return index, any(titles) and not any(title and is_position(title) for title in titles)
