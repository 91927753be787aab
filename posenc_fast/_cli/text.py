"""Positions in a column of CSV text."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import math
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from typing import IO

import numpy as np

from .._numbers.arrays import Array
from .cells import MICROSECONDS, REAL, RECORD, UNSIGNED, is_position, parse, parts, quickly
from .columns import by_name, column_index
from .output import named
from .progress import Meter
from .source import Block, Source

__all__ = ["open_text"]


# cells that are parsed together
CELLS = 1 << 14
# characters of a row; csv alone has a limit, for a cell
ROW = 1 << 24
# what else may stand between cells, and how a shell says it
_DELIMITERS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}


def open_text(
    path: str,
    column: str | None,
    delimiter: str | None,
    spool: IO[bytes],
    where: str,
    kept: IO[bytes] | None,
    meter: Meter,
) -> Source:
    """The positions in a column of a file, or of standard input for -, spooled to a file that is called ``where``.

    All columns are spooled to ``kept``, on the same disk, where they are wanted.
    """
    separator = {None: ",", "tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    assert separator is not None
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(f"--delimiter must be one character, or tab, not {delimiter!r}")
    name = "standard input" if path == "-" else path
    with contextlib.ExitStack() as stack:
        if path == "-":
            if sys.stdin is None:
                raise ValueError("standard input is closed")
            # through a wrapper of its own: what a terminal's encoding is does not matter
            raw = packed = sys.stdin.buffer
        else:
            raw = packed = stack.enter_context(open(path, "rb"))
            if raw.peek(2)[:2] == b"\x1f\x8b":
                packed = stack.enter_context(gzip.GzipFile(fileobj=raw))
        text = io.TextIOWrapper(packed, encoding="utf-8-sig", newline="")
        # what is not ours stays open
        stack.callback(text.detach)
        reader = _Reader(text, separator, name)
        with _broken(reader):
            first = next(iter(reader), (0, []))[1]
            if not first:
                raise ValueError(f"{name} is empty")
        with _broken(reader, _hint(first, separator)):
            columns = None if kept is None else _Columns(kept, where, len(first))
            return _spooled(_Column(reader, first, column, columns), raw, spool, where, meter)


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
            kept = column.columns.blocks(rows) if column.columns else itertools.repeat(())
            while block := spool.read(rows * RECORD.itemsize):
                yield Block(list(parts(np.frombuffer(block, RECORD))), next(kept))

    titles = [(title, None) for title in column.titles] if column.columns else []
    return Source(column.count, f"{column.name}, {column.label}{missing}", blocks, titles)


def _size(file: IO[bytes]) -> int | None:
    """Bytes of a regular file, None for a pipe."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and status.st_size else None


class _Reader:
    """Rows of CSV text with the numbers of their last lines; empty lines are no rows."""

    def __init__(self, text: IO[str], separator: str, name: str) -> None:
        self.text, self.name, self.left = text, name, ROW
        self.rows = csv.reader(self._lines(), delimiter=separator)

    def _lines(self) -> Iterator[str]:
        # a line may be as long as the file, and a row have any number of them
        while line := self.text.readline(self.left + 1):
            self.left -= len(line)
            if self.left < 0:
                raise ValueError(f"{self.name}, line {self.line + 1}: more than {ROW} characters in a row are no CSV")
            yield line

    @property
    def line(self) -> int:
        """Number of lines that were read."""
        return self.rows.line_num

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        for row in self.rows:
            self.left = ROW
            if row:
                yield self.rows.line_num, row


class _Columns:
    """The cells of all columns, as CSV in a file without a name."""

    def __init__(self, file: IO[bytes], where: str, count: int) -> None:
        self.text, self.where, self.count = io.TextIOWrapper(file, "utf-8", newline=""), where, count
        # with both characters, so that csv quotes each of them in cells
        self.writer = csv.writer(self.text, lineterminator="\r\n")

    def write(self, row: list[str]) -> None:
        try:
            self.writer.writerow(row)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.where) from None

    def blocks(self, rows: int) -> Iterator[list[tuple[str, ...]]]:
        self.text.seek(0)
        reader = csv.reader(self.text)
        while block := list(itertools.islice(reader, rows)):
            yield list(zip(*block, strict=True))


@contextlib.contextmanager
def _broken(reader: _Reader, hint: str = "") -> Iterator[None]:
    """Say of each error which file it is in."""
    name = reader.name
    try:
        with named(name):
            yield
    except csv.Error as error:
        raise ValueError(f"{name}, line {reader.line}: {error}{hint}") from None
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
    """One column of CSV text, as records; all of them go to ``columns`` as well, where that is given."""

    def __init__(self, reader: _Reader, first: list[str], column: str | None, columns: _Columns | None) -> None:
        self.reader, self.name, self.columns = reader, reader.name, columns
        self.count = self.missing = 0
        # "number" or "date" and the first line that has one: a column of both is a mistake
        self.content, self.content_line = "", 0
        self.index, header = _choose(first, self.name, column)
        title = first[self.index].strip()
        self.label = f"column {title!r}" if header else f"column {self.index}"
        self.titles = [cell.strip() if header else f"column{i}" for i, cell in enumerate(first)]
        self.pending = [] if header else [(reader.line, first)]
        # what no line follows may as well be a broken position
        self.alone = title if header and not by_name(column) else None

    def records(self) -> Iterator[Array]:
        """Records of a few cells at a time; empty lines are no rows."""
        # of the other cells of a row nothing stays in memory
        cells: list[str] = []
        lines: list[int] = []
        for line, row in itertools.chain(self.pending, self.reader):
            if len(row) <= self.index:
                raise ValueError(f"{self.name}, line {line}: no column {self.index}, the line has {len(row)}")
            if self.columns:
                if len(row) != self.columns.count:
                    raise ValueError(
                        f"{self.name}, line {line}: cells: {len(row)}, and {self.columns.count} in the first line; "
                        f"--keep needs as many in each"
                    )
                self.columns.write(row)
            cells.append(row[self.index])
            lines.append(line)
            if len(cells) == CELLS:
                yield self._parsed(cells, lines)
                cells, lines = [], []
        if cells:
            yield self._parsed(cells, lines)
        if not self.count and self.alone is not None:
            raise ValueError(
                f"{self.name} has no line but one, whose {self.alone!r} is neither a number nor an ISO date; "
                f"if it is a header, give its name with --column"
            )

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
