"""Test calendar cycles: parts of days, weeks, months, quarters and years, compared with datetime and zoneinfo."""

from __future__ import annotations

import functools
import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from posenc_fast._core.encoding.cycles import Cycles
from posenc_fast.presets.positions import calendar
from support.errors import raises, wrong_calls
from support.optional import optional
from support.seeds import SEED

if not zoneinfo.available_timezones():
    optional("tzdata")

CYCLES = ["day", "week", "month", "quarter", "year"]
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Lord Howe changes its clocks by half an hour. The offset of India contains half an hour. Apia moved across the date
# line, and skipped a day. Casablanca also changes its clocks before and after Ramadan.
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"]
ZONES += ["Africa/Casablanca"]


def parts_of(day, passed):
    """Return the part of each cycle (day, week, month, quarter, year) that has passed after a part of a day."""
    monday = day - timedelta(day.weekday())
    spans = [(day, day + timedelta(1)), (monday, monday + timedelta(7))]
    for months in (1, 3, 12):
        begin = day.replace(day=1, month=day.month - (day.month - 1) % months)
        following = begin.month + months
        spans.append((begin, begin.replace(year=begin.year + following // 13, month=(following - 1) % 12 + 1)))
    return [((day - begin).days + passed) / Fraction((end - begin).days) for begin, end in spans]


def on_the_clock(microseconds, zone):
    return (EPOCH + microseconds * MICROSECOND).astimezone(zoneinfo.ZoneInfo(zone)).replace(tzinfo=None)


def parts_on_the_clock(counts, zone):
    """Return the parts of all cycles for times in microseconds since 1970, exactly."""
    rows = []
    for count in counts.tolist():
        local = on_the_clock(count, zone)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        rows.append(parts_of(local.date(), Fraction((local - midnight) // MICROSECOND, 86400 * 10**6)))
    return rows


def of_two_centuries(rng, count):
    """Return random times of 1900 to 2099 in microseconds since 1970."""
    first, last = (int((datetime(year, 1, 1, tzinfo=UTC) - EPOCH) / MICROSECOND) for year in (1900, 2100))
    return rng.integers(first, last, count)


def same(got, expected):
    np.testing.assert_array_equal(got, np.array(expected, np.float64))


def assert_on_the_clock(counts, zone):
    """Assert that each part is a quotient, rounded once, for times in microseconds since 1970."""
    same(calendar(counts.view("M8[us]"), CYCLES, timezone=zone), parts_on_the_clock(counts, zone))


# ---- against datetime and zoneinfo ----------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ZONES)
def test_times_of_two_centuries(zone, rng):
    assert_on_the_clock(of_two_centuries(rng, 600), zone)


@functools.cache
def sines_and_cosines(zone):
    """Return random times, and the sines and cosines of all cycles. Each of these is a sum of two doubles."""
    counts = of_two_centuries(np.random.default_rng([SEED, ZONES.index(zone)]), 3000)
    parts = [part for row in parts_on_the_clock(counts, zone) for part in row]
    with mpmath.workprec(120):
        angles = [2 * mpmath.pi * part.numerator / part.denominator for part in parts]
        values = [value for angle in angles for value in (mpmath.sin(angle), mpmath.cos(angle))]
        high = np.array([float(value) for value in values])
        low = np.array([float(value - above) for value, above in zip(values, high.tolist(), strict=True)])
    return counts.view("M8[us]"), high, low


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.usefixtures("backend")
def test_sines_and_cosines_of_two_centuries(zone):
    """In float64, errors are below 3e-16. In float32, values are correctly rounded."""
    times, high, low = sines_and_cosines(zone)
    cycles = Cycles(CYCLES, timezone=zone)
    wide, narrow = (cycles.encode(times, np.dtype(kind)).ravel() for kind in ("f8", "f4"))
    assert np.abs((wide - high) - low).max() < 3e-16
    # `high` is already rounded to a double, which changes the float32 of fewer than one value in 100 million
    np.testing.assert_array_equal(narrow, high.astype(np.float32))


@pytest.mark.parametrize(
    "zone", [pytest.param(zone, marks=() if zone == "Australia/Lord_Howe" else pytest.mark.slow) for zone in ZONES]
)
def test_days_of_clock_changes(zone):
    """The parts of all cycles are right near each change of the offset in 40 years.

    The times are the whole and half hours within 24 hours of the first midnight (UTC) after the change, and the last
    microsecond before each whole hour.
    """
    days = range(365 * 20, 365 * 60)
    offsets = [on_the_clock(day * 86400 * 10**6, zone) - datetime(1970, 1, 1) - timedelta(day) for day in days]
    changes = [day for day, before, after in zip(days[1:], offsets, offsets[1:], strict=False) if before != after]
    assert changes or zone == "Asia/Kolkata"
    # in a zone without changes, test the days around the first one
    hours = np.add.outer(24 * np.array(changes or days[:1]), np.arange(-24, 25)).ravel() * 3600 * 10**6
    assert_on_the_clock(np.concatenate([hours, hours - 1, hours + 1800 * 10**6]), zone)


def test_no_zone_returns_to_an_offset_within_two_days():
    """In no zone, an offset changes and changes back within two days.

    The package reads an offset every two days, and would miss such changes.
    """
    from zoneinfo import _zoneinfo  # type: ignore[attr-defined]

    for key in zoneinfo.available_timezones():
        zone = _zoneinfo.ZoneInfo(key)
        changes: list[tuple[int, timedelta]] = []
        for second, offset in zip(zone._trans_utc, (each.utcoff for each in zone._ttinfos), strict=True):
            if not changes or changes[-1][1] != offset:
                changes.append((second, offset))
        for (_, before), (begin, _), (end, after) in zip(changes, changes[1:], changes[2:], strict=False):
            assert before != after or end - begin > 2 * 86400, key


@pytest.mark.parametrize(("zone", "year"), [
    ("Africa/Freetown", 1939), ("America/Recife", 2000), ("Europe/Vienna", 1945), ("Asia/Gaza", 2040),
])  # fmt: skip
def test_offsets_of_a_few_days(zone, year):
    # if there are more times than days, the package looks up the month of each day in a table
    hours = np.arange(str(year), str(year + 1), dtype="M8[h]")[::5]
    assert_on_the_clock(hours.astype("M8[us]").astype(np.int64), zone)


# ---- known dates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cycle", "zone", "time", "part"), [
    ("day", None, "2026-03-01T18:00", 0.75),
    ("week", None, "1969-12-29", 0.0),
    ("week", None, "2026-01-06T18:00", 0.25),
    ("month", None, "2024-02-15T12:00", 0.5),
    ("quarter", None, "2024-05-16T12:00", 0.5),
    ("year", None, "2024-07-02", 0.5),
    ("year", None, "1900-07-02T12:00", 0.5),
    ("year", None, "0001-01-01", 0.0),
    ("month", None, "9999-12-31T23:59:59.999999", float(1 - Fraction(1, 31 * 86400 * 10**6))),
    # an hour is repeated, an hour is skipped, and 30 December is skipped, so that the 29th ends at the 31st
    ("day", "Europe/Berlin", "2026-10-25T00:30", 5 / 48),
    ("day", "Europe/Berlin", "2026-10-25T01:30", 5 / 48),
    ("day", "Europe/Berlin", "2026-03-29T01:30", 7 / 48),
    ("month", "Pacific/Apia", "2011-12-30T09:59:59", float((29 - Fraction(1, 86400)) / 31)),
    ("month", "Pacific/Apia", "2011-12-30T10:00", 30 / 31),
    # local times have limits of years, UTC has none
    ("day", "America/New_York", "9999-12-31T23:30", 18.5 / 24),
], ids=str)  # fmt: skip
def test_known_times(cycle, zone, time, part):
    same(calendar(np.datetime64(time), [cycle], timezone=zone), [part])


# keys: units. Values: their lengths in seconds.
DIGITS = {"as": 18, "fs": 15, "ps": 12, "ns": 9, "us": 6, "ms": 3}
UNITS = {unit: Fraction(1, 10**digits) for unit, digits in DIGITS.items()}
UNITS |= {"s": 1, "m": 60, "h": 3600, "D": 86400, "W": 604800, "25us": Fraction(1, 40000), "7D": 604800}


@pytest.mark.parametrize(("zone", "offset"), [(None, 0), ("Asia/Kolkata", 19800)])
@pytest.mark.parametrize("unit", [*UNITS, "M", "Y"])
def test_units(unit, zone, offset):
    for count in (0, 1, 2, -1, 55):
        time = np.datetime64(count, unit)
        seconds = count * UNITS[unit] if unit in UNITS else int(time.astype("M8[s]").astype(int))
        days, passed = divmod(seconds + offset, 86400)
        # a part is always below 1: instead of rounding to 1, it is the largest double below 1
        parts = parts_of(date(1970, 1, 1) + timedelta(days), Fraction(passed, 86400))
        same(calendar(time, CYCLES, timezone=zone), [min(float(part), 1 - 2.0**-53) for part in parts])


def test_times_of_many_units_in_one_list():
    fine, early = np.datetime64(10**18 + 1, "as"), np.datetime64("0001-01-01T06:00", "s")
    got = calendar([fine, early, None], ["day"])
    same(got, [[float(Fraction(10**18 + 1, 86400 * 10**18))], [0.25], [np.nan]])


# ---- columns of other packages --------------------------------------------------------------------------------------

ZONE = "Europe/Berlin"
UTC_TIMES = ["2026-03-29T00:30:00.123456789", "NaT", "2026-10-25T01:30", "1950-02-28T23:59:59.999999999"]


def test_columns_with_a_zone_count_local_time():
    pd, pl, pa = optional("pandas"), optional("polars"), optional("pyarrow")
    times = np.array(UTC_TIMES, "M8[ns]")
    series = pd.Series(times).dt.tz_localize("UTC").dt.tz_convert(ZONE)
    backed = pd.Series(times, dtype=pd.ArrowDtype(pa.timestamp("ns")))
    arrow = pa.array(times, pa.timestamp("ns", ZONE))
    stamps = [None if pd.isna(each) else each for each in series]
    own, kolkata = (calendar(times, CYCLES, timezone=zone) for zone in (ZONE, "Asia/Kolkata"))
    assert np.isnan(own[1]).all()
    for name, column in {
        "pandas-series": series,
        "pandas-index": pd.DatetimeIndex(series),
        "pandas-array": series.array,
        "pandas-arrow": backed.dt.tz_localize("UTC").dt.tz_convert(ZONE),
        "pandas-objects": series.astype(object),
        "polars": pl.Series(times).dt.replace_time_zone("UTC").dt.convert_time_zone(ZONE),
        "pyarrow": arrow,
        "pyarrow-chunks": pa.chunked_array([arrow[:1], arrow[1:]]),
        "pyarrow-dictionary": arrow.dictionary_encode(),
        "pyarrow-scalars": list(arrow),
        "timestamps": stamps,
        "dateutil": pd.DatetimeIndex(series).tz_convert(optional("dateutil.tz").gettz(ZONE)),
        "objects": np.array(stamps, object),
    }.items():
        np.testing.assert_array_equal(calendar(column, CYCLES), own, err_msg=name)
        np.testing.assert_array_equal(calendar(column, CYCLES, timezone="Asia/Kolkata"), kolkata, err_msg=name)


def test_columns_without_a_zone():
    pd, pl, pa = optional("pandas"), optional("polars"), optional("pyarrow")
    times = np.array(UTC_TIMES, "M8[ns]")
    plain, berlin = calendar(times, CYCLES), calendar(times, CYCLES, timezone=ZONE)
    assert not np.array_equal(plain[0], berlin[0])
    for column in (pd.Series(times), pd.DatetimeIndex(times), pl.Series(times), pa.array(times), list(times)):
        same(calendar(column, CYCLES), plain)
        # with the argument timezone, times without a zone are read as UTC
        same(calendar(column, CYCLES, timezone=ZONE), berlin)
    days = [date(2026, 2, 15), None]
    for column in (days, pl.Series(days), pd.PeriodIndex(days, freq="D")):
        same(calendar(column, CYCLES), calendar(np.array(["2026-02-15", "NaT"], "M8[D]"), CYCLES))


def test_fixed_offsets():
    noon = datetime(2026, 6, 1, 12, tzinfo=timezone(timedelta(hours=-3, minutes=-30)))
    same(calendar(noon, ["day"]), [0.5])
    same(calendar([noon, noon.replace(tzinfo=None), None], ["day"]), [[0.5], [0.5], [np.nan]])
    same(calendar(noon, ["day"], timezone="UTC"), [15.5 / 24])
    # the limits of years apply to local time
    same(calendar(datetime(1, 1, 1, 6, tzinfo=timezone(timedelta(hours=9))), ["day"]), [0.25])
    pd, pa = optional("pandas"), optional("pyarrow")
    same(calendar(pd.Series([noon]), ["day"]), [[0.5]])
    same(calendar(pa.array([noon.astimezone(UTC)], pa.timestamp("us", "-03:30")), ["day"]), [[0.5]])


def test_shapes():
    times = np.arange("2026-01-01", "2026-01-07", dtype="M8[D]").reshape(2, 3)
    assert calendar(times, CYCLES).shape == (2, 3, 5)
    same(calendar(times, CYCLES), calendar(times.ravel(), CYCLES).reshape(2, 3, 5))
    assert calendar(times[:0], CYCLES).shape == (0, 3, 5)
    assert calendar([], CYCLES).shape == (0, 5)
    same(calendar([None, np.datetime64("NaT", "s")], ["week"]), [[np.nan], [np.nan]])
    same(calendar(np.ma.array(times[0], mask=[0, 1, 0]), ["day"]), [[0], [np.nan], [0]])


# ---- errors ---------------------------------------------------------------------------------------------------------


NOW, DAY, MONTH = np.datetime64("2026-01-01"), ["day"], ["day", "month"]


@wrong_calls("""
    calendar([1.0, 2.0], MONTH) | TypeError | times; numbers; month; M8[s]; to_datetime
    calendar(np.arange(3), MONTH) | TypeError | times; numbers; month
    calendar(np.arange(3).view("m8[s]"), MONTH) | TypeError | times; durations; month
    calendar("2026-01-01", MONTH) | TypeError | times; text
    calendar(np.array(["10000-01-01"], "M8[s]"), MONTH) | ValueError | times; 10000-01-01; 9999
    calendar(np.array(["0000-12-31", "2026-01-01"], "M8[D]"), MONTH) | ValueError | times; 0000-12-31; year 1
    calendar(np.datetime64(2**62, "s"), MONTH) | ValueError | times; 9999
    calendar(np.datetime64(2**60, "W"), MONTH) | ValueError | times; 697286925986221051084800 seconds since 1970; 9999
    calendar(np.datetime64("9999-12-31T23:30"), DAY, timezone="Asia/Tokyo") | ValueError | times; 10000-01-01; 9999
    calendar(np.datetime64("0001-01-01T01"), DAY, timezone="America/New_York") | ValueError | times; 0000-12-31; year 1
    calendar(NOW, ["dya"]) | ValueError | cycles; 'dya'; 'day'; did you mean
    calendar(NOW, ["day", "Month"]) | ValueError | cycles; 'Month'; did you mean 'month'
    calendar(NOW, ["century"]) | ValueError | cycles; 'century'; 'quarter'
    calendar(NOW, []) | ValueError | cycles; at least one
    calendar(NOW, "day") | TypeError | cycles; 'day'; sequence
    calendar(NOW, [86400]) | ValueError | cycles; 86400; 'week'
    calendar(NOW, DAY, timezone="Europe/Berln") | ValueError | timezone; 'Europe/Berln'; did you mean 'Europe/Berlin'
    calendar(NOW, DAY, timezone="europe/belrin") | ValueError | timezone; did you mean 'Europe/Berlin'
    calendar(NOW, DAY, timezone="Europe") | ValueError | timezone; 'Europe'
    calendar(NOW, DAY, timezone="../Berlin") | ValueError | timezone; '../Berlin'
    calendar(NOW, DAY, timezone="+02:00") | ValueError | timezone; '+02:00'
    calendar(NOW, DAY, timezone=2) | TypeError | timezone; key; 2
    calendar(NOW, DAY, timezone=UTC) | TypeError | timezone; key; timezone.utc
""")
def test_wrong_arguments(call, error, words):
    raises(call, error, words)


def test_error_without_time_zone_data(monkeypatch):
    def missing(key):
        raise zoneinfo.ZoneInfoNotFoundError(key)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", missing)
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    with pytest.raises(ImportError, match="pip install tzdata"):
        calendar(NOW, DAY, timezone="Europe/Berlin")


def test_frames_and_lists_of_columns_are_refused():
    pd, pl, pa = optional("pandas"), optional("polars"), optional("pyarrow")
    times = np.array(UTC_TIMES, "M8[ns]")
    for frame in (pd.DataFrame({"t": times}), pl.DataFrame({"t": times}), pa.table({"t": times})):
        with pytest.raises(TypeError, match="pass one column"):
            calendar(frame, ["day"])
    with pytest.raises(TypeError, match=r"Europe/Berlin.*timezone"):
        calendar([pd.Series(times).dt.tz_localize("UTC").dt.tz_convert(ZONE)], DAY)
