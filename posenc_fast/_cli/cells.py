"""What a cell of text says: a number or a time, as a record of its form and its 64 bits."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np

from .._numbers.arrays import Array
from .._positions.times import microseconds

__all__ = ["INTEGER", "MICROSECONDS", "REAL", "RECORD", "UNSIGNED", "is_position", "parse", "parts", "quickly"]


REAL, INTEGER, UNSIGNED, MICROSECONDS, NANOSECONDS = range(5)
FORMS = tuple(np.dtype(name) for name in ("f8", "i8", "u8", "M8[us]", "M8[ns]"))
RECORD = np.dtype([("form", "u1"), ("bits", "u8")])

_WHOLE = re.compile(r"[+-]?[0-9]+")
_INFINITY = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_BEYOND_MICROSECONDS = re.compile(r"[.,][0-9]{6}([0-9]+)")


def parts(found: Array) -> Iterator[tuple[Any, Array]]:
    """The positions of records, those of one form together: (which of the rows, their positions)."""
    forms = np.unique(found["form"])
    for form in forms:
        where = slice(None) if len(forms) == 1 else np.flatnonzero(found["form"] == form)
        yield where, found["bits"][where].copy().view(FORMS[form])


def is_position(text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        # the beginnings of a number or date, gone wrong, are no title
        return text[:1] in "+-.0123456789"
    return True


def quickly(cells: list[str], content: str) -> Array | None:
    """Records of cells that are all of the most usual forms; None where a cell needs a closer look."""
    together = "\n".join(cells)
    # int and float take 1_000, and a time is cut to microseconds
    if "_" in together or (content != "number" and _BEYOND_MICROSECONDS.search(together)):
        return None
    count = len(cells)
    with contextlib.suppress(ValueError, OverflowError):
        if content == "date":
            return _records(MICROSECONDS, np.fromiter(map(_microseconds, cells), np.int64, count))
        return _records(INTEGER, np.fromiter(map(int, cells), np.int64, count))
    if content == "date":
        return None
    with contextlib.suppress(ValueError):
        values = np.fromiter(map(float, cells), np.float64, count)
        # NaN belongs to neither, 1e999 is no infinity, and from 2**53 on an integer may have been rounded
        return None if math.isnan(values[0]) or (np.abs(values) >= 2.0**53).any() else _records(REAL, values)
    return None


def _records(form: int, values: Array) -> Array:
    found = np.empty(len(values), RECORD)
    found["form"], found["bits"] = form, values.view(np.uint64)
    return found


def parse(cell: str) -> tuple[int, float]:
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
