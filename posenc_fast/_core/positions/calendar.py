"""Convert times to elapsed parts of the day, week, month, quarter and year, by wall clocks and the calendar.

The arithmetic uses integers in the unit of the times, so each part is an exact quotient, rounded once. To convert a
column to a time zone, the UTC offset of the zone is looked up every two days. If two consecutive offsets differ, a
search finds the time of the change.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from ...typing import Cycle
from ..numbers.arrays import Floats
from ..numbers.doubles import Pair, two_product, two_sum
from ..numbers.names import meant
from .conversion import convert
from .frames import column_zone
from .positions import Converted, pair

CYCLES: tuple[Cycle, ...] = get_args(Cycle)
Integers = npt.NDArray[Any]

_DAY = 86400
# number of months of each cycle that begins with a month
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# 1970 began on a Thursday
_DAYS_SINCE_MONDAY = 3
# seconds since 1970 of the first time in Python's calendar, and of the first time after the end of the calendar
_FIRST, _BEYOND = -62135596800, 253402300800
# maximum number of units in a second for arithmetic in int64 and float64; finer units use Python's integers
_FINEST = 10**9
# Changes of a zone's UTC offset are cached in blocks of 2**_BLOCK_BITS seconds, about two years. Offsets are looked up
# every _SAMPLE_SECONDS seconds. No zone changes its offset and then changes it back within three days.
_BLOCK_BITS, _SAMPLE_SECONDS = 26, 2 * _DAY
_SECOND = datetime.timedelta(seconds=1)
_ROWS = 1 << 14
_FIXED = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")


def calendar(times: Any, cycles: Iterable[Cycle], *, timezone: str | None = None) -> Floats:
    """Return the elapsed part of the day, week, month, quarter or year that contains each time.

    Parameters
    ----------
    times : array_like
        Timestamps of any shape: datetime64 of any unit, a column of pandas, polars or pyarrow, or datetimes of Python.
        NaT or None means a missing time.
    cycles : sequence of {"day", "week", "month", "quarter", "year"}
        Weeks begin on Monday. A month has 28 to 31 days, a year 365 or 366.
    timezone : str, optional
        Key of the time zone database, such as "Europe/Berlin". All times are converted to this zone, and times without
        a zone count as UTC. By default, the local time in the data is used without conversion.

    Returns
    -------
    ndarray of float64, shape (..., k)
        Parts from 0 to below 1, each rounded once from the exact quotient. A part that would round to 1 becomes the
        largest number below 1. NaN for missing times.

    Raises
    ------
    TypeError, ValueError
        If times are numbers or durations, a time lies before year 1 or after 9999, or a cycle or time zone is unknown.

    Notes
    -----
    Parts follow the wall clock. If the clock repeats an hour, both hours have the same parts. Every day counts as 24
    hours, also if the clock skips or repeats an hour.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> times = np.array(["2026-07-01T04:00", "2026-07-15T16:00", "NaT"], "M8[s]")
    >>> pf.presets.positions.calendar(times, ["day", "month"], timezone="Europe/Berlin")
    array([[0.25      , 0.00806452],
           [0.75      , 0.47580645],
           [       nan,        nan]])
    """
    local = Calendar(times, cycles, timezone)
    result = np.empty((len(local), len(local.cycles)))
    for part in local.parts():
        result[part] = local.turns(part)[0]
    # the elapsed part at the last nanosecond of a year rounds to 1, but must be less
    np.minimum(result, np.nextafter(1.0, 0.0), out=result)
    return result.reshape(*local.shape, len(local.cycles))


def checked_cycles(cycles: Any) -> tuple[Cycle, ...]:
    """Return the names of cycles as a tuple. Raise an error for an unknown name."""
    if isinstance(cycles, str) or not isinstance(cycles, Iterable):
        raise TypeError(f"cycles must be a sequence of names, such as ['day', 'week'], not {cycles!r}")
    names = tuple(cycles)
    for name in names:
        if not isinstance(name, str) or name not in CYCLES:
            raise ValueError(
                f"cycles must contain only {', '.join(map(repr, CYCLES))}, not {name!r}{meant(name, CYCLES)}"
            )
    if not names:
        raise ValueError(f"cycles must have at least one name, not {cycles!r}")
    return names


class Calendar:
    """Flattened times, with a method that computes the elapsed parts of calendar cycles in turns.

    ``shape`` is the shape of the times before flattening. ``ticks`` are the times as integers, in units of
    1 / ``frequency`` seconds since 1970. If times are finer than nanoseconds, or need more than 64 bits, the ticks are
    Python's integers. The argument zone replaces the zone of the times if timezone is None.
    """

    def __init__(
        self,
        times: Any,
        cycles: Iterable[Cycle],
        timezone: str | None = None,
        name: str = "times",
        zone: datetime.tzinfo | None = None,
    ) -> None:
        self.cycles = checked_cycles(cycles)
        if timezone is not None or zone is None:
            zone = _zone_of_times(times, timezone, name)
        converted = convert(_on_wall_clocks(times, name) if zone is None else times, 1, name)
        self.shape, self.missing = converted.shape, converted.missing
        self.ticks, self.frequency = np.zeros(len(self), np.int64), 1
        invalid = converted.invalid_rows()
        if invalid is not None and invalid.all() and converted.letter != "m":
            # a column in which all times are missing may have any type except durations
            self.missing = invalid
        elif len(self):
            _check_times(converted, self.cycles, name)
            self.ticks, self.frequency = _ticks(converted)
        first_and_last = (self.ticks.min(), self.ticks.max()) if len(self) else (0, 0)
        seconds = [int(tick) // self.frequency for tick in first_and_last]
        _check_range(seconds, name)
        self.changes, self.offsets = _NO_CHANGES, np.zeros(1, np.int64)
        if zone is not None:
            self.changes, self.offsets = _changes_of(zone, self.ticks // self.frequency)
        # the range is a day longer at both ends, because local days differ from UTC days by at most one
        first_day, last_day = seconds[0] // _DAY - 1, seconds[1] // _DAY + 1
        if first_day <= _FIRST // _DAY or last_day >= _BEYOND // _DAY:
            local = self._local(slice(0, len(self)))[0]
            _check_range([int(local.min()) * _DAY, int(local.max()) * _DAY], name)
        # if there are fewer days than times, look up months in a table
        self.first_day, self.tables = first_day, {}
        if last_day - first_day < len(self):
            all_days = np.arange(first_day, last_day + 1)
            self.tables = {cycle: _begins(all_days, _MONTHS[cycle]) for cycle in self.cycles if cycle in _MONTHS}

    def __len__(self) -> int:
        return math.prod(self.shape)

    def parts(self) -> Iterator[slice]:
        """Yield slices that cover all times. They are so small that temporary arrays stay in the cache."""
        for first in range(0, len(self), _ROWS):
            yield slice(first, min(first + _ROWS, len(self)))

    def turns(self, part: slice) -> Pair:
        """Return how much of each cycle has elapsed, in turns, for the times in the slice `part`.

        The result is a sum of two doubles (high, low), each of shape (rows, cycles). For a missing time, high is NaN.
        """
        high, low = np.empty((2, part.stop - part.start, len(self.cycles)))
        days, ticks = self._local(part)
        day = _DAY * self.frequency
        for axis, (elapsed, length) in enumerate(self._cycles(days)):
            # the arrays are int64, or objects for Python's integers
            elapsed, length = (array.astype(ticks.dtype, copy=False) for array in (elapsed, np.asarray(length)))
            high[:, axis], low[:, axis] = _quotient(elapsed * day + ticks, length * day)
        if self.missing is not None:
            high[self.missing[part]] = np.nan
        return high, low

    def _local(self, part: slice) -> tuple[npt.NDArray[np.int64], Integers]:
        """Return (local days since 1970, ticks since local midnight)."""
        ticks, day = self.ticks[part], _DAY * self.frequency
        days = ticks // day
        within = ticks - days * day
        if len(self.offsets) > 1 or self.offsets[0]:
            seconds = days.astype(np.int64) * _DAY + (within // self.frequency).astype(np.int64)
            offset = self.offsets[np.searchsorted(self.changes, seconds, side="right")]
            within = within + offset.astype(ticks.dtype, copy=False) * self.frequency
            # the offset may lead to the day before or after
            carry = within // day
            days, within = days + carry, within - carry * day
        return days.astype(np.int64), within

    def _cycles(self, days: npt.NDArray[np.int64]) -> Iterator[tuple[Integers, Any]]:
        """Yield (number of elapsed days, number of days in the cycle) for each cycle."""
        for cycle in self.cycles:
            if cycle == "day":
                yield np.zeros_like(days), 1
            elif cycle == "week":
                yield (days + _DAYS_SINCE_MONDAY) % 7, 7
            elif cycle in self.tables:
                begin, end = (table[days - self.first_day] for table in self.tables[cycle])
                yield days - begin, end - begin
            else:
                begin, end = _begins(days, _MONTHS[cycle])
                yield days - begin, end - begin


def _begins(days: npt.NDArray[np.int64], count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (first day of the cycle of ``count`` months that contains each day, first day of the next cycle)."""
    months = days.view("M8[D]").astype("M8[M]").view(np.int64)
    first = months - months % count
    begin, end = ((first + months_later).view("M8[M]").astype("M8[D]").view(np.int64) for months_later in (0, count))
    return begin, end


def _quotient(numerators: Integers, denominators: Any) -> Pair:
    """Return quotients of integers as sums of two doubles. The first double is the quotient, rounded once."""
    if numerators.dtype == object:
        quotients = [
            pair(Fraction(int(n), int(m))) for n, m in zip(*np.broadcast_arrays(numerators, denominators), strict=True)
        ]
        high, low = np.array(quotients).reshape(-1, 2).T
        return high, low
    # This is a step of long division. The first quotient is of the rounded numerator, the second of the exact
    # remainder.
    d = np.asarray(denominators).astype(np.float64)
    n = numerators.astype(np.float64)
    quotient = n / d
    product, error = two_product(quotient, d)
    remainder = ((n - product) - error) + (numerators - n.astype(np.int64))
    return two_sum(quotient, remainder / d)


# ---- times and their zones ------------------------------------------------------------------------------------------


def _check_times(times: Converted, cycles: tuple[Cycle, ...], name: str) -> None:
    if times.letter == "M":
        return
    kind, fix = ("durations", "add them to a date") if times.letter else ("numbers", _FROM_NUMBERS)
    raise TypeError(f"{name} has {kind}, but the cycle {cycles[-1]!r} needs timestamps; {fix}")


_FROM_NUMBERS = (
    "convert seconds since 1970 to timestamps by numpy's .astype('M8[s]') or pandas.to_datetime(.., unit='s')"
)


def _ticks(times: Converted) -> tuple[Integers, int]:
    """Return (times as integers, number of units in a second).

    The dtype is int64, or object for times finer than nanoseconds and integers that may need more than 64 bits.
    """
    values, unit = times.values[:, 0], times.unit
    if times.form == "pair" or values.dtype == object:
        seconds = [Fraction(value) * unit for value in values.tolist()]
        frequency = math.lcm(*(second.denominator for second in seconds))
        return np.array([int(second * frequency) for second in seconds], object), frequency
    values = values.astype(np.int64, copy=False)
    largest = max(-int(values.min()), int(values.max()))
    if unit.denominator > _FINEST or largest * unit.numerator >= 2**63:
        values = values.astype(object)
    return values * unit.numerator if unit.numerator > 1 else values, unit.denominator


def _check_range(seconds: Iterable[int], name: str) -> None:
    for second in seconds:
        if not _FIRST <= second < _BEYOND:
            date = np.datetime64(second, "s") if abs(second) < 2**62 else f"{second} seconds since 1970"
            raise ValueError(
                f"{name} has {date}, but the calendar supports only year 1 to year 9999; leave out such times, or "
                "replace them by NaT"
            )


def _zone_of_times(times: Any, timezone: str | None, name: str) -> datetime.tzinfo | None:
    """Return the time zone to which times are converted, or None to use the local times in the data."""
    if hasattr(type(times), "columns"):
        raise TypeError(f"{name} is a frame or table, whose columns may have different time zones; pass one column")
    if timezone is not None:
        return zone_of(timezone, f"timezone={timezone!r}")
    zone = column_zone(times)
    return zone_of(zone, f"{name} has the zone {zone!r}, which") if isinstance(zone, str) else zone


def clock_of(column: Any, name: str) -> tuple[bool, datetime.tzinfo | None]:
    """Return (whether times have a zone, the zone or None).

    The zone of a column of datetime objects is None if they have several zones or fixed offsets.
    """
    common_zone = _zone_of_times(column, None, name)
    if common_zone is not None or getattr(column, "dtype", None) != object:
        return common_zone is not None, common_zone
    # pandas' NaT is an instance of datetime, so the name of the type is checked
    times = (
        value for value in column.tolist() if isinstance(value, datetime.datetime) and type(value).__name__ != "NaTType"
    )
    zones = [time.tzinfo for time in times]
    if None in zones and any(zones):
        raise ValueError(
            f"{name} has times with a time zone and times without one; use a time zone for all times or for none"
        )
    first = next(iter(zones), None)
    varies = first is not None and first.utcoffset(None) is None
    return first is not None, first if varies and all(zone == first for zone in zones) else None


def _on_wall_clocks(times: Any, name: str) -> Any:
    """Return times with the time zones of datetimes removed. The local times stay the same."""
    if isinstance(times, (list, tuple)):
        return [_on_wall_clocks(item, name) for item in times]
    if isinstance(times, datetime.datetime):
        return times if times.tzinfo is None else times.replace(tzinfo=None)
    if getattr(times, "dtype", None) == object:
        objects = times if isinstance(times, np.ndarray) else times.to_numpy()
        local = objects.copy()
        local.reshape(-1)[:] = [_on_wall_clocks(value, name) for value in objects.reshape(-1).tolist()]
        return local
    zone = column_zone(times)
    if zone is not None and hasattr(times, "as_py"):
        return _on_wall_clocks(times.as_py(), name)
    if zone is not None:
        raise TypeError(
            f"{name} is a list that contains a column with the time zone {zone}; pass the column itself, or pass "
            "timezone"
        )
    return times


def zone_of(key: Any, label: str) -> datetime.tzinfo:
    """Return the zone for a key. Errors about unknown keys begin with the label.

    A fixed offset such as "+02:00" is accepted as the zone of a column, but not as the argument timezone.
    """
    if not isinstance(key, str):
        raise TypeError(f"timezone must be a key of the time zone database, such as 'Europe/Berlin', not {key!r}")
    fixed = _FIXED.fullmatch(key)
    if fixed and not label.startswith("timezone"):
        minutes = 60 * int(fixed[2]) + int(fixed[3])
        return datetime.timezone(datetime.timedelta(minutes=-minutes if fixed[1] == "-" else minutes))
    try:
        return zoneinfo.ZoneInfo(key)
    except (KeyError, ValueError, OSError):
        keys = zoneinfo.available_timezones()
    if not keys:
        raise ImportError(f"{label} needs a time zone database, but this system has none; run pip install tzdata")
    raise ValueError(
        f"{label} is not a key of the time zone database; use a key such as 'Europe/Berlin'{meant(key, sorted(keys))}"
    )


_NO_CHANGES = np.empty(0, np.int64)


def _changes_of(zone: datetime.tzinfo, seconds: Integers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (seconds at which a new offset of the zone begins, all offsets).

    There is one more offset than seconds. The first offset is valid before the first second. Each other offset is valid
    from its second on. Two successive offsets can be equal, because the beginning of each block after the first is also
    returned (see `_changes_in_block`).
    """
    fixed = zone.utcoffset(None)
    if fixed is not None or not len(seconds):
        return _NO_CHANGES, np.array([fixed // _SECOND if fixed else 0], np.int64)
    # changes are cached only for ZoneInfo, because other classes of zones may be unhashable
    changes_in = _changes_in_block if isinstance(zone, zoneinfo.ZoneInfo) else _changes_in_block.__wrapped__
    # use all blocks from first to last; if these are too many, use only blocks that contain times
    first, last = (int(second) >> _BLOCK_BITS for second in (seconds.min(), seconds.max()))
    blocks: Sequence[int] = range(first, last + 1)
    if len(blocks) > len(seconds) >> 10:
        blocks = np.unique(seconds.astype(np.int64) >> _BLOCK_BITS).tolist()
    pieces = [changes_in(zone, block) for block in blocks]
    changes = np.array([begin for begins, _ in pieces for begin in begins], np.int64)
    offsets = np.array([offset for _, offsets in pieces for offset in offsets], np.int64)
    # the first entry of changes is the beginning of the first block, which is not a change
    return changes[1:], offsets


@functools.lru_cache(4096)
def _changes_in_block(zone: datetime.tzinfo, block: int) -> tuple[list[int], list[int]]:
    """Return (times, offsets) of a block, which has 2**_BLOCK_BITS seconds.

    The times are the beginning of the block and the changes in it, in seconds. An offset is valid from its time on.
    """

    def offset_at(second: int) -> int:
        # Python cannot compute offsets on the first and last day of its calendar. On these days, no zone changes its
        # offset.
        second = max(_FIRST + _DAY, min(second, _BEYOND - 2 * _DAY))
        time = datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(seconds=second)
        offset = zone.fromutc(time).utcoffset()
        assert offset is not None
        return offset // _SECOND

    begin, end = block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS
    samples = [*range(begin, end, _SAMPLE_SECONDS), end]
    offsets = list(map(offset_at, samples))
    changes = [(begin, offsets[0])]
    for i in range(1, len(samples)):
        changes += _changes_between(offset_at, samples[i - 1], offsets[i - 1], samples[i], offsets[i])
    # a change at the end belongs to the next block
    return [second for second, _ in changes if second < end], [offset for second, offset in changes if second < end]


def _changes_between(
    offset_at: Callable[[int], int], low: int, before: int, high: int, after: int
) -> list[tuple[int, int]]:
    """Return (second, new offset) for each change after ``low`` up to ``high``."""
    if before == after:
        return []
    if high - low == 1:
        return [(high, after)]
    middle = (low + high) // 2
    between = offset_at(middle)
    return [
        *_changes_between(offset_at, low, before, middle, between),
        *_changes_between(offset_at, middle, between, high, after),
    ]
