"""Times as parts of the running day, week, month, quarter and year, as wall clocks and calendars count them.

All arithmetic is of integers, in the times' own unit: a part is an exact quotient, and rounded once. A zone is asked for
its offsets every two days, and where two of them differ the second of the change is searched for: so a column is shifted
by a table of few changes.
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
# those that begin with a month, and how many months they have
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# 1970 began on a Thursday
_DAYS_SINCE_MONDAY = 3
# seconds since 1970 of the first time that Python's calendar has, and of the first after its last
_FIRST, _BEYOND = -62135596800, 253402300800
# the finest units a second whose counts of a year, and of the days of years, are exact in int64 and float64
_FINEST = 10**9
# seconds whose changes of offset are kept together, about two years, and between two looks at a zone: in no zone was an
# offset that was left for another taken up again within three days
_BLOCK_BITS, _LOOK = 26, 2 * _DAY
_SECOND = datetime.timedelta(seconds=1)
_ROWS = 1 << 14
_FIXED = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})")


def calendar(times: Any, cycles: Iterable[Cycle], *, timezone: str | None = None) -> Floats:
    """Return the parts of calendar cycles that have passed: of the running day, week, month, quarter or year.

    Parameters
    ----------
    times : array_like
        Points in time of any shape: datetime64 of any unit, a column of pandas, polars or pyarrow, or datetimes of
        Python; NaT or None where one is missing.
    cycles : sequence of {"day", "week", "month", "quarter", "year"}
        Weeks begin on Monday. A month has 28 to 31 days, a year 365 or 366.
    timezone : str, optional
        Key of the zone database, such as "Europe/Berlin", whose wall clock is read; times without a zone are UTC then.
        Not given, times with a zone are taken by its own wall clock, and those without one as they stand.

    Returns
    -------
    ndarray of float64, shape (..., k)
        From 0 to below 1, each rounded once from the exact quotient; NaN where a time is missing.

    Raises
    ------
    TypeError, ValueError
        When times are numbers or spans of time, a time lies before year 1 or after 9999, or a name is not known.

    Notes
    -----
    Wall clocks count: an hour that a clock repeats is the same hour twice, and one that it skips is no part of its day,
    which has 24 hours on every date.

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
    # the last nanosecond of a year is nearer to the whole year than to what a double below 1 can hold
    np.minimum(result, np.nextafter(1.0, 0.0), out=result)
    return result.reshape(*local.shape, len(local.cycles))


def checked_cycles(cycles: Any) -> tuple[Cycle, ...]:
    """Return names of cycles, or raise an error."""
    if isinstance(cycles, str) or not isinstance(cycles, Iterable):
        raise TypeError(f"cycles must be a sequence of names, such as ['day', 'week'], not {cycles!r}")
    names = tuple(cycles)
    for name in names:
        if not isinstance(name, str) or name not in CYCLES:
            raise ValueError(f"cycles must be of {', '.join(map(repr, CYCLES))}, not {name!r}{meant(name, CYCLES)}")
    if not names:
        raise ValueError(f"cycles must be at least one, not {cycles!r}")
    return names


class Calendar:
    """Times of shape ``shape``, one behind the other, and the turns of calendar cycles that have passed at them.

    Times that are finer than nanoseconds, or whose counts 64 bits do not hold, take the same way as Python's integers.
    zone: used where there is no timezone, in place of the zone of the times.
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
        absent = converted.invalid_rows()
        if absent is not None and absent.all() and converted.letter != "m":
            # what is only missing has no type
            self.missing = absent
        elif len(self):
            _check_times(converted, self.cycles, name)
            self.ticks, self.frequency = _ticks(converted)
        ends = (self.ticks.min(), self.ticks.max()) if len(self) else (0, 0)
        seconds = [int(each) // self.frequency for each in ends]
        _check_range(seconds, name)
        self.changes, self.offsets = _NO_CHANGES, np.zeros(1, np.int64)
        if zone is not None:
            self.changes, self.offsets = _changes_of(zone, self.ticks // self.frequency)
        days = [second // _DAY + side for second, side in zip(seconds, (-1, 1), strict=True)]
        if days[0] <= _FIRST // _DAY or days[1] >= _BEYOND // _DAY:
            local = self._local(slice(0, len(self)))[0]
            _check_range([int(local.min()) * _DAY, int(local.max()) * _DAY], name)
        # of days that many times share, months are looked up in a table
        self.first_day, self.tables = days[0], {}
        if days[1] - days[0] < len(self):
            every = np.arange(days[0], days[1] + 1)
            self.tables = {cycle: _begins(every, _MONTHS[cycle]) for cycle in self.cycles if cycle in _MONTHS}

    def __len__(self) -> int:
        return math.prod(self.shape)

    def parts(self) -> Iterator[slice]:
        """Yield slices of the times of which what is made of them stays in the cache."""
        for first in range(0, len(self), _ROWS):
            yield slice(first, min(first + _ROWS, len(self)))

    def turns(self, part: slice) -> Pair:
        """Return the turns of some times, (rows, cycles), as sums of two doubles; NaN where a time is missing."""
        high, low = np.empty((2, part.stop - part.start, len(self.cycles)))
        days, ticks = self._local(part)
        day = _DAY * self.frequency
        for axis, (passed, count) in enumerate(self._cycles(days)):
            # of integers of 64 bits, or of Python's
            passed, count = (each.astype(ticks.dtype, copy=False) for each in (passed, np.asarray(count)))
            high[:, axis], low[:, axis] = _quotient(passed * day + ticks, count * day)
        if self.missing is not None:
            high[self.missing[part]] = np.nan
        return high, low

    def _local(self, part: slice) -> tuple[npt.NDArray[np.int64], Integers]:
        """Return days since 1970 by the wall clock, and the ticks since their midnights."""
        ticks, day = self.ticks[part], _DAY * self.frequency
        days = ticks // day
        within = ticks - days * day
        if len(self.offsets) > 1 or self.offsets[0]:
            seconds = days.astype(np.int64) * _DAY + (within // self.frequency).astype(np.int64)
            offset = self.offsets[np.searchsorted(self.changes, seconds, side="right")]
            within = within + offset.astype(ticks.dtype, copy=False) * self.frequency
            more = within // day
            days, within = days + more, within - more * day
        return days.astype(np.int64), within

    def _cycles(self, days: npt.NDArray[np.int64]) -> Iterator[tuple[Integers, Any]]:
        """Yield, for each cycle, how many of its days have passed, and how many it has."""
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
    """Return the first days of the cycles of ``count`` months that days belong to, and of those behind them."""
    months = days.view("M8[D]").astype("M8[M]").view(np.int64)
    first = months - months % count
    begin, end = ((first + more).view("M8[M]").astype("M8[D]").view(np.int64) for more in (0, count))
    return begin, end


def _quotient(numerators: Integers, denominators: Any) -> Pair:
    """Return quotients of integers as sums of two doubles, the first of them rounded once."""
    if numerators.dtype == object:
        quotients = [
            pair(Fraction(int(n), int(m))) for n, m in zip(*np.broadcast_arrays(numerators, denominators), strict=True)
        ]
        high, low = np.array(quotients).reshape(-1, 2).T
        return high, low
    whole = np.asarray(denominators).astype(np.float64)
    n = numerators.astype(np.float64)
    first = n / whole
    taken, error = two_product(first, whole)
    rest = ((n - taken) - error) + (numerators - n.astype(np.int64))
    return two_sum(first, rest / whole)


# ---- times and their zones ------------------------------------------------------------------------------------------


def _check_times(times: Converted, cycles: tuple[Cycle, ...], name: str) -> None:
    if times.letter == "M":
        return
    kind, way = ("spans of time", "add them to a date") if times.letter else ("numbers", _FROM_NUMBERS)
    raise TypeError(f"{name} has {kind}, which have no {cycles[-1]}: {way}")


_FROM_NUMBERS = (
    "make points in time of seconds since 1970 by numpy's .astype('M8[s]') or pandas.to_datetime(.., unit='s')"
)


def _ticks(times: Converted) -> tuple[Integers, int]:
    """Return integers, and how many of them are a second; objects where 64 bits might not hold what is made of them."""
    values, unit = times.values[:, 0], times.unit
    if times.form == "pair" or values.dtype == object:
        exact = [Fraction(each) * unit for each in values.tolist()]
        frequency = math.lcm(*(each.denominator for each in exact))
        return np.array([int(each * frequency) for each in exact], object), frequency
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
                f"{name} has {date}, but the calendar reaches from year 1 to 9999; leave such times "
                "out, or make them NaT"
            )


def _zone_of_times(times: Any, timezone: str | None, name: str) -> datetime.tzinfo | None:
    """Return the zone by whose clock times are taken; None for as they stand."""
    if hasattr(type(times), "columns"):
        raise TypeError(f"{name} is a frame or table of columns, which may have different zones: give one of them")
    if timezone is not None:
        return zone_of(timezone, f"timezone={timezone!r}")
    own = column_zone(times)
    return zone_of(own, f"{name} has the zone {own!r}, which") if isinstance(own, str) else own


def clock_of(column: Any, name: str) -> tuple[bool, datetime.tzinfo | None]:
    """Return whether a column of times has a zone, and which; None for datetimes that have offsets of their own."""
    own = _zone_of_times(column, None, name)
    if own is not None or getattr(column, "dtype", None) != object:
        return own is not None, own
    # NaT of pandas is a datetime, too
    times = (
        each for each in column.tolist() if isinstance(each, datetime.datetime) and type(each).__name__ != "NaTType"
    )
    zones = [each.tzinfo for each in times]
    if None in zones and any(zones):
        raise ValueError(f"{name} has times with a zone and times without one; give all of them one, or none")
    first = next(iter(zones), None)
    varies = first is not None and first.utcoffset(None) is None
    return first is not None, first if varies and all(each == first for each in zones) else None


def _on_wall_clocks(times: Any, name: str) -> Any:
    """Return lists and arrays with datetimes without their zones, on the clocks of which they stay."""
    if isinstance(times, (list, tuple)):
        return [_on_wall_clocks(each, name) for each in times]
    if isinstance(times, datetime.datetime):
        return times if times.tzinfo is None else times.replace(tzinfo=None)
    if getattr(times, "dtype", None) == object:
        objects = times if isinstance(times, np.ndarray) else times.to_numpy()
        local = objects.copy()
        local.reshape(-1)[:] = [_on_wall_clocks(each, name) for each in objects.reshape(-1).tolist()]
        return local
    zone = column_zone(times)
    if zone is not None and hasattr(times, "as_py"):
        return _on_wall_clocks(times.as_py(), name)
    if zone is not None:
        raise TypeError(f"{name} has a column with the zone {zone} in a list: give the column itself, or timezone")
    return times


def zone_of(key: Any, label: str) -> datetime.tzinfo:
    """Return the zone of a key, or raise an error that begins with the label; a fixed offset is for columns of Arrow."""
    if not isinstance(key, str):
        raise TypeError(f"timezone must be a key of the zone database, such as 'Europe/Berlin', not {key!r}")
    fixed = _FIXED.fullmatch(key)
    if fixed and not label.startswith("timezone"):
        minutes = 60 * int(fixed[2]) + int(fixed[3])
        return datetime.timezone(datetime.timedelta(minutes=-minutes if fixed[1] == "-" else minutes))
    try:
        return zoneinfo.ZoneInfo(key)
    except (KeyError, ValueError, OSError):
        keys = zoneinfo.available_timezones()
    if not keys:
        raise ImportError(f"{label} needs a zone database, and this system has none: pip install tzdata")
    raise ValueError(f"{label} is not a key of the zone database, such as 'Europe/Berlin'{meant(key, sorted(keys))}")


_NO_CHANGES = np.empty(0, np.int64)


def _changes_of(zone: datetime.tzinfo, seconds: Integers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the seconds at which a zone's offset changes, and the offsets before the first and from each on."""
    fixed = zone.utcoffset(None)
    if fixed is not None or not len(seconds):
        return _NO_CHANGES, np.array([fixed // _SECOND if fixed else 0], np.int64)
    # others need not be hashable
    known = _known_changes if isinstance(zone, zoneinfo.ZoneInfo) else _known_changes.__wrapped__
    # where there are fewer blocks than times, it is quicker to know all of them
    first, last = (int(each) >> _BLOCK_BITS for each in (seconds.min(), seconds.max()))
    blocks: Sequence[int] = range(first, last + 1)
    if len(blocks) > len(seconds) >> 10:
        blocks = np.unique(seconds.astype(np.int64) >> _BLOCK_BITS).tolist()
    pieces = [known(zone, block) for block in blocks]
    changes, offsets = (np.array([each for piece in pieces for each in piece[i]], np.int64) for i in (0, 1))
    return changes[1:], offsets


@functools.lru_cache(4096)
def _known_changes(zone: datetime.tzinfo, block: int) -> tuple[list[int], list[int]]:
    """Return the seconds from which on an offset holds, and the offsets, from the beginning of a block to its end."""

    def offset_at(second: int) -> int:
        # no zone changes on the calendar's first or last day, where Python cannot say it
        within = max(_FIRST + _DAY, min(second, _BEYOND - 2 * _DAY))
        moment = datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(seconds=within)
        offset = zone.fromutc(moment).utcoffset()
        assert offset is not None
        return offset // _SECOND

    begin, end = block << _BLOCK_BITS, (block + 1) << _BLOCK_BITS
    looks = [*range(begin, end, _LOOK), end]
    offsets = list(map(offset_at, looks))
    changes = [(begin, offsets[0])]
    for i in range(1, len(looks)):
        changes += _changes_between(offset_at, looks[i - 1], offsets[i - 1], looks[i], offsets[i])
    # a change at the end is the next block's first
    return [each for each, _ in changes if each < end], [offset for each, offset in changes if each < end]


def _changes_between(
    offset_at: Callable[[int], int], low: int, before: int, high: int, after: int
) -> list[tuple[int, int]]:
    """Return the changes after ``low``, up to ``high``, and the offsets from them on."""
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
