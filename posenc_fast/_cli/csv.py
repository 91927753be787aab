"""Read positions from a column of CSV text.

Each cell of the column becomes a record: 64 bits, and a form that says which type of number or date the bits are.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from .._core.numbers.arrays import Array
from .._core.numbers.names import meant
from .._core.positions.times import microseconds
from .._models.check.arrays import named

# How to read a date with a UTC offset. "UTC": convert it to UTC. "wall": ignore the offset. "either": raise an error if
# the two results differ.
Clock = Literal["UTC", "wall", "either"]

# number of cells that are parsed together
CELLS = 1 << 14
# largest number of characters in a row; the csv module limits only the length of a cell
MOST_CHARACTERS = 1 << 24
# how to write each known delimiter in a shell
_DELIMITERS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}

# A record has one of five forms. FORMS has the dtype of the 64 bits for each form.
REAL, INTEGER, UNSIGNED, MICROSECONDS, NANOSECONDS = range(5)
FORMS = tuple(np.dtype(name) for name in ("f8", "i8", "u8", "M8[us]", "M8[ns]"))
RECORD = np.dtype([("form", "u1"), ("bits", "u8")])

# (records, cells) of some rows; the cells are a list with one sequence for each column that --keep copies
_RecordBlock = tuple[Array, Sequence[Any]]
# a function that takes a number of rows, and yields blocks of at most this number of rows
_RecordReader = Callable[[int], Iterator[_RecordBlock]]
# a function that converts an ISO date or time to microseconds since 1970
_DateReader = Callable[[str], int]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_INFINITY = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
# Matches seconds with more than six decimal places. The group contains the places after the sixth.
_BEYOND_MICROSECONDS = re.compile(r"[.,][0-9]{6}([0-9]+)")


class KeptColumn(NamedTuple):
    """A column of INPUT that --keep copies. field: the Arrow field of a Parquet column, or None for text."""

    name: str
    field: Any


class Block(NamedTuple):
    """Some rows of INPUT.

    parts: pairs (row indices, positions of these rows). kept: for each column that --keep copies, its cells.
    """

    parts: list[tuple[Any, Any]]
    kept: Sequence[Any] = ()


class Source(NamedTuple):
    """Positions, which need not fit in memory. ``blocks(n)`` reads them in blocks of at most n rows.

    length: number of positions, or None if it is unknown until all are read. label: function that returns a description
    of the positions that were read so far. kept: the columns that --keep copies.
    """

    length: int | None
    label: Callable[[], str]
    blocks: Callable[[int], Iterator[Block]]
    kept: Sequence[KeptColumn] = ()


@contextlib.contextmanager
def open_csv(
    path: str,
    column: str | None,
    delimiter: str | None,
    keep: bool,
    spool: tuple[IO[bytes], str] | None,
    clock: Clock = "UTC",
) -> Iterator[Source]:
    """Yield the positions in a column of a CSV file. The path - is standard input.

    keep: whether blocks also contain the cells of all columns. spool: (temporary file, name of the file in errors), or
    None. If there is a spool, all positions are written to its file first, so that their number is known.
    """
    # accept the word tab, and a backslash with t, because a tab is difficult to write in a shell
    separator = {None: ",", "tab": "\t", "\\t": "\t"}.get(delimiter, delimiter)
    assert separator is not None
    if len(separator) != 1 or separator in '"\r\n':
        raise ValueError(
            f"--delimiter must be tab, or one character other than a double quote or a line end, not {delimiter!r}"
        )
    name = "standard input" if path == "-" else path
    with contextlib.ExitStack() as stack:
        binary: Any
        if path == "-":
            if sys.stdin is None:
                raise ValueError("standard input is closed")
            # the bytes are decoded below, as UTF-8 instead of in the terminal's encoding
            binary = sys.stdin.buffer
        else:
            binary = stack.enter_context(open(path, "rb"))
            with named(path):
                first_bytes = binary.peek(2)[:2]
            # files of gzip begin with these two bytes
            if first_bytes == b"\x1f\x8b":
                binary = stack.enter_context(gzip.GzipFile(fileobj=binary))
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
        # detach the wrapper at the end, because closing it would close standard input
        stack.callback(text.detach)
        reader = _Reader(text, separator, name)
        with _reading(reader):
            _, first_row = next(iter(reader), (0, []))
            if not first_row:
                raise ValueError(f"{name} is empty")
        hint = _delimiter_hint(first_row, separator)
        with _reading(reader, hint):
            positions = _Column(reader, first_row, column, keep, clock)

        def parsed(rows: int) -> Iterator[_RecordBlock]:
            blocks = positions.blocks(rows)
            while True:
                # add the file name to errors of the reader, but not to errors that the caller raises between two blocks
                with _reading(reader, hint):
                    block = next(blocks, None)
                if block is None:
                    return
                yield block

        # `_spooled` reads all positions, so positions.count is their number
        read = parsed if spool is None else _spooled(parsed, *spool)
        length = None if spool is None else positions.count

        def blocks(rows: int) -> Iterator[Block]:
            for records, cells in read(rows):
                yield Block(list(_parts(records)), cells)

        kept = [KeptColumn(title, None) for title in positions.titles] if keep else []
        yield Source(length, positions.described, blocks, kept)


def _spooled(read: _RecordReader, file: IO[bytes], name: str) -> _RecordReader:
    """Write all records to a file, and return a function that reads the records from this file."""
    for records, _ in read(CELLS):
        with named(name):
            file.write(records.tobytes())

    def from_file(rows: int) -> Iterator[_RecordBlock]:
        with named(name):
            file.seek(0)
            while block := file.read(rows * RECORD.itemsize):
                yield np.frombuffer(block, RECORD), ()

    return from_file


def _parts(records: Array) -> Iterator[tuple[Any, Array]]:
    """Yield (row indices, positions of these rows) for each form of record."""
    forms = np.unique(records["form"])
    for form in forms:
        rows = slice(None) if len(forms) == 1 else np.flatnonzero(records["form"] == form)
        yield rows, records["bits"][rows].copy().view(FORMS[form])


@contextlib.contextmanager
def _reading(reader: _Reader, hint: str = "") -> Iterator[None]:
    """Turn errors of reading into errors that name the file. hint: text at the end of errors about rows and cells."""
    name = reader.name
    try:
        with named(name):
            yield
    except csv.Error as error:
        raise ValueError(f"{name}, line {reader.rows.line_num}: {error}{hint}") from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not CSV in UTF-8: {error}; convert it to UTF-8. If it is .npy or Parquet, pass the path of the "
            "file"
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{name} cannot be read as gzip: {error}") from None
    except ValueError as error:
        raise ValueError(f"{error}{hint}") from None


def _delimiter_hint(first_row: list[str], separator: str) -> str:
    """Return a hint for errors if the first line seems to have another delimiter, else an empty string."""
    for other, shown in _DELIMITERS.items():
        count = sum(cell.count(other) for cell in first_row)
        # ``separator`` divides the first line in len(first_row) - 1 places
        if other != separator and count and count >= len(first_row) - 1:
            return f"; the first line contains {shown}, so try --delimiter {shown}"
    return ""


# ---- rows and columns -----------------------------------------------------------------------------------------------


class _Reader:
    """Iterate over the rows of CSV text, as (number of the last line of the row, cells). Empty lines are skipped.

    characters_left: number of characters that the current row may still have.
    """

    def __init__(self, text: IO[str], separator: str, name: str) -> None:
        self.text, self.name, self.characters_left = text, name, MOST_CHARACTERS
        self.rows = csv.reader(self._lines(), delimiter=separator)

    def _lines(self) -> Iterator[str]:
        # limit both the line and the row: a line can be as long as the file, and a row can span any number of lines
        while line := self.text.readline(self.characters_left + 1):
            self.characters_left -= len(line)
            if self.characters_left < 0:
                line_number, limit = self.rows.line_num + 1, MOST_CHARACTERS
                raise ValueError(f"{self.name}, line {line_number}: a row of CSV must have at most {limit} characters")
            yield line

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        for row in self.rows:
            self.characters_left = MOST_CHARACTERS
            if row:
                yield self.rows.line_num, row


class _Column:
    """One column of CSV text. Cells become records. With ``keep``, blocks also contain the cells of all columns.

    count, missing: numbers of positions, and of missing positions, that were read so far.
    """

    def __init__(self, reader: _Reader, first_row: list[str], column: str | None, keep: bool, clock: Clock) -> None:
        self.reader, self.name, self.keep, self.read_date = reader, reader.name, keep, _DATE_READERS[clock]
        self.count = self.missing = 0
        # content: "number" or "date", or "" while all cells are missing positions. content_line: number of the line
        # that determined the content.
        self.content, self.content_line = "", 0
        titles = [cell.strip() for cell in first_row]
        self.index = column_index(titles, column, self.name)
        title = titles[self.index]
        has_header = _is_name(column) or _is_header(titles, self.index)
        self.label = f"column {title!r}" if has_header else f"column {self.index}"
        self.titles = titles if has_header else [f"column{i}" for i in range(len(first_row))]
        # rows of data that are already read: (line number, cells)
        self.pending = [] if has_header else [(reader.rows.line_num, first_row)]
        # If no line follows, an error shows this title, because a single line may be data with a typo.
        self.guessed_title = title if has_header and not _is_name(column) else None

    def described(self) -> str:
        missing = f", {self.missing} missing" if self.missing else ""
        return f"{self.name}, {self.label}{missing}"

    def blocks(self, rows: int) -> Iterator[_RecordBlock]:
        """Yield (records, cells by column) of at most ``rows`` rows at a time. Without ``keep``, there are no cells."""
        numbered_rows = itertools.chain(self.pending, self.reader)
        while True:
            kept_rows: list[list[str]] = []
            parts = self._cells(itertools.islice(numbered_rows, rows), kept_rows)
            records = [self._parsed(cells, lines) for cells, lines in parts]
            if not records:
                break
            yield np.concatenate(records), list(zip(*kept_rows, strict=True))
        if not self.count and self.guessed_title is not None:
            raise ValueError(
                f"{self.name} has only one line, and its cell {self.guessed_title!r} is neither a number nor an ISO "
                "date; if the line is a header, pass the name of the column with --column"
            )

    def _cells(
        self, numbered_rows: Iterator[tuple[int, list[str]]], kept_rows: list[list[str]]
    ) -> Iterator[tuple[list[str], list[int]]]:
        """Yield (cells of the column, line numbers), at most CELLS at a time.

        With ``keep``, append each row to kept_rows.
        """
        cells: list[str] = []
        lines: list[int] = []
        for line, row in numbered_rows:
            if len(row) <= self.index:
                raise ValueError(
                    f"{self.name}, line {line}: no column {self.index} (counted from 0); cells in this line: {len(row)}"
                )
            if self.keep:
                if len(row) != len(self.titles):
                    raise ValueError(
                        f"{self.name}, line {line}: with --keep, all lines must have as many cells as the first line, "
                        f"{len(self.titles)}, not {len(row)}"
                    )
                kept_rows.append(row)
            cells.append(row[self.index])
            lines.append(line)
            if len(cells) == CELLS:
                yield cells, lines
                cells, lines = [], []
        if cells:
            yield cells, lines

    def _parsed(self, cells: list[str], lines: list[int]) -> Array:
        records = _parse_equal_forms(cells, self.content, self.read_date)
        if records is None:
            records = self._parsed_one_by_one(cells, lines)
        elif not self.content:
            self._check_content(int(records["form"][0]), lines[0])
        reals = records["bits"][records["form"] == REAL].view(np.float64)
        self.missing += int(np.count_nonzero(np.isnan(reals)))
        self.count += len(cells)
        return records

    def _parsed_one_by_one(self, cells: list[str], lines: list[int]) -> Array:
        parsed = []
        for cell, line in zip(cells, lines, strict=True):
            try:
                form, value = _parse(cell, self.read_date)
                # a missing position (NaN) may occur in a column of numbers, and in a column of dates
                if not math.isnan(value):
                    self._check_content(form, line)
            except ValueError as error:
                raise ValueError(f"{self.name}, line {line}: {error}") from None
            parsed.append((form, value))
        forms = np.array([form for form, _ in parsed])
        records = np.empty(len(cells), RECORD)
        for form in np.unique(forms).tolist():
            records[forms == form] = _records(form, [value for form_of_value, value in parsed if form_of_value == form])
        return records

    def _check_content(self, form: int, line: int) -> None:
        """Raise an error if the column mixes numbers and dates. form: form of the record of a cell."""
        content = "date" if form >= MICROSECONDS else "number"
        if not self.content:
            self.content, self.content_line = content, line
        if self.content != content:
            raise ValueError(
                f"the cell is a {content}, but line {self.content_line} has a {self.content}; positions must be all "
                "numbers or all dates"
            )


def _is_name(column: str | None) -> bool:
    """Return whether --column is the name of a column, and not its number."""
    return column is not None and not re.fullmatch(r"[0-9]+", column)


def column_index(titles: Sequence[str], column: str | None, name: str) -> int:
    """Return the index of the column that --column selects by name or number. None selects the only column."""
    shown = [f"{i} ({title[:40]!r})" for i, title in enumerate(titles[:20])]
    columns = f"the columns are {', '.join(shown)}{', ..' if len(titles) > 20 else ''}"
    if column is None:
        if len(titles) != 1:
            raise ValueError(f"{name} has {len(titles)} columns, so choose one with --column; {columns}")
        return 0
    if _is_name(column):
        if column not in titles:
            raise ValueError(f"{name} has no column {column!r}; {columns}{meant(column, titles)}")
        if titles.count(column) > 1:
            raise ValueError(f"{name} has several columns named {column!r}; pass a number with --column; {columns}")
        return titles.index(column)
    if int(column) >= len(titles):
        raise ValueError(f"{name} has no column {int(column)}; {columns}")
    return int(column)


def _is_header(titles: list[str], index: int) -> bool:
    """Return whether the first row is a header: its cell in the chosen column does not look like a position.

    If this cell is empty, another cell must have text, and no cell may look like a position.
    """
    if titles[index]:
        return not _is_position(titles[index])
    # a column of row indices often has no title, so check the other titles
    return any(titles) and not any(title and _is_position(title) for title in titles)


# ---- cells ----------------------------------------------------------------------------------------------------------


def _parse_equal_forms(cells: list[str], content: str, read_date: _DateReader) -> Array | None:
    """Return the records of cells that are all integers or all floats, or all dates if ``content`` is "date".

    This is a fast path. Return None if each cell must be parsed separately. content: "number" or "date", or "" if it is
    unknown.
    """
    text = "\n".join(cells)
    # int and float would accept 1_000 and non-ASCII digits, and datetime drops digits after microseconds
    if "_" in text or not text.isascii() or (content != "number" and _BEYOND_MICROSECONDS.search(text)):
        return None
    if content == "date":
        with contextlib.suppress(ValueError, OverflowError):
            return _records(MICROSECONDS, np.fromiter(map(read_date, cells), np.int64, len(cells)))
        return None
    with contextlib.suppress(ValueError, OverflowError):
        return _records(INTEGER, np.fromiter(map(int, cells), np.int64, len(cells)))
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    # In three cases, `_parse` must read the cells. If the first value is NaN, the column may contain dates. From 2^53
    # on, float may have rounded integers. A number such as 1e999, which float reads as infinity, is an error.
    if math.isnan(values[0]) or (np.abs(values) >= 2.0**53).any():
        return None
    return _records(REAL, values)


def _records(form: int, values: Sequence[float] | Array) -> Array:
    """Return the records of values of one form. Values of dates are integers, in microseconds or nanoseconds."""
    records = np.empty(len(values), RECORD)
    records["form"] = form
    records["bits"] = np.asarray(values, np.int64 if form >= MICROSECONDS else FORMS[form]).view(np.uint64)
    return records


def _is_position(text: str) -> bool:
    """Return whether a cell of the first row is a position, or begins like a number or a date, perhaps with a typo."""
    try:
        _parse(text, _microseconds)
    except ValueError:
        return text[:1] in "+-." or text[:1].isdecimal()
    return True


def _parse(cell: str, read_date: _DateReader) -> tuple[int, float]:
    """Return (form, value) of one cell. An empty cell is a missing position, NaN."""
    text = cell.strip()
    if _INTEGER.fullmatch(text):
        return _parse_integer(text)
    try:
        # float would also accept non-ASCII digits
        value = float(text or "nan") if text.isascii() else None
    except ValueError:
        value = None
    if value is None:
        return _parse_date(text, read_date)
    if "_" in text:
        raise ValueError(f"{text[:80]!r} is not a number; remove the underscores")
    if math.isinf(value) and not _INFINITY.fullmatch(text):
        raise ValueError(f"{text[:80]} is outside the range of float64")
    return REAL, value


def _parse_integer(text: str) -> tuple[int, int]:
    # int would raise an error for thousands of digits, so replace numbers that are too large anyway by 2^65
    value = int(text) if abs(float(text)) < 2.0**65 else 2**65
    if -(2**63) <= value < 2**63:
        return INTEGER, value
    if 0 <= value < 2**64:
        return UNSIGNED, value
    raise ValueError(f"{text[:80]} fits neither int64 nor uint64; append .0 to round it to float64")


def _parse_date(text: str, read_date: _DateReader) -> tuple[int, int]:
    try:
        count = read_date(text)
    except _AmbiguousClock:
        raise
    except ValueError as error:
        reason = f" ({error})" if text[4:5] == "-" and "isoformat" not in str(error) else ""
        raise ValueError(f"{text[:80]!r} is neither a number nor an ISO date{reason}") from None
    match = _BEYOND_MICROSECONDS.search(text)
    digits = match[1].rstrip("0") if match else ""
    if not digits:
        return MICROSECONDS, count
    if len(digits) > 3:
        raise ValueError(f"{text[:80]!r} is finer than nanoseconds; give at most 9 decimal places of a second")
    nanoseconds = 1000 * count + int(digits.ljust(3, "0"))
    # NumPy reads -2^63 as NaT, so this number is excluded
    if not -(2**63) < nanoseconds < 2**63:
        raise ValueError(
            f"{text[:80]!r} has nanoseconds, which are supported only from September 1677 to April 2262; give at most "
            "6 decimal places of a second"
        )
    return NANOSECONDS, nanoseconds


def _isoformat(text: str) -> datetime:
    """Return the datetime of an ISO date or time. Digits after microseconds are cut off."""
    # a date must have hyphens, because 20260101 is a number
    if text[4:5] != "-" or text[10:11] not in " T":
        # use the word isoformat, as Python does for unreadable text, so that `_parse_date` leaves out this reason
        raise ValueError("not an isoformat string")
    return datetime.fromisoformat(text)


def _microseconds(text: str) -> int:
    """Return the microseconds since 1970 of an ISO date or time. A time without an offset is in UTC."""
    return microseconds(_isoformat(text))


def _wall_microseconds(text: str) -> int:
    """Return the microseconds since 1970 of an ISO date or time by its local clock. A UTC offset is ignored."""
    return microseconds(_isoformat(text).replace(tzinfo=None))


class _AmbiguousClock(ValueError):
    """A time has a UTC offset, and --periods has cycles of the local calendar as well as lengths in UTC."""


def _either_microseconds(text: str) -> int:
    """Return the microseconds since 1970 of an ISO date or time in UTC. Raise an error if its UTC offset is not 0."""
    time = _isoformat(text)
    if time.utcoffset():
        raise _AmbiguousClock(
            f"{text[:80]!r} has a UTC offset, but --periods has both calendar cycles, which need local time, and "
            "lengths, which need UTC; pass --timezone, the time zone of the calendar cycles"
        )
    return microseconds(time)


_DATE_READERS: dict[Clock, _DateReader] = {
    "UTC": _microseconds,
    "wall": _wall_microseconds,
    "either": _either_microseconds,
}
