"""Test expressions of polars: rows equal those of direct calls, in eager and lazy frames, and groups."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
from support.optional import optional

pl = optional("polars")
optional("posenc_fast.polars")

ENGINES = ["in-memory", "streaming"]
POSENC = pl.col("t").posenc


def times(count=5, zone=None, unit="us"):
    start = datetime.datetime(2026, 3, 28, 22, 30, 0, 123456)
    end = start + (count - 1) * datetime.timedelta(minutes=37)
    column = pl.datetime_range(start, end, "37m", time_unit=unit, time_zone="UTC" if zone else None, eager=True)
    return column.dt.convert_time_zone(zone) if zone else column


# test_contract.py has columns of other types
COLUMNS = {
    "uint64": pl.Series([2**64 - 1, 2**64 - 2, 0, 1, 2], dtype=pl.UInt64),
    "nanoseconds": times(unit="ns"),
    "milliseconds": times(unit="ms"),
    "berlin": times(zone="Europe/Berlin"),
    "date": pl.Series([datetime.date(2026, 1, day) for day in range(1, 6)]),
}


def selected(column, expression):
    """Return the Array column that an expression computes for a column."""
    return pl.DataFrame({"t": column}).select(expression)["t"]


def array_of(column):
    """Return the values of an Array column, which must contain no nulls."""
    assert column.null_count() == 0
    return column.to_numpy()


# ---- values and cycles ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_are_those_of_the_direct_call(name):
    frame = pl.DataFrame({"t": COLUMNS[name]})
    lazy = frame.lazy().select(POSENC.encode(6, base=100.0))
    # polars knows the schema before it computes the frame
    assert lazy.collect_schema() == {"t": pl.Array(pl.Float32, 6)}
    for got in (frame.select(POSENC.encode(6, base=100.0)), *(lazy.collect(engine=engine) for engine in ENGINES)):
        assert got.schema == {"t": pl.Array(pl.Float32, 6)}
        np.testing.assert_array_equal(array_of(got["t"]), pf.sinusoidal(6, base=100.0).encode(COLUMNS[name]))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("settings", [
    {"periods": ["day", "week", "month", "quarter", "year"], "layout": "concatenated"},
    {"periods": ["day", "12h"], "timezone": "Australia/Lord_Howe"},
    {"periods": ["month", datetime.timedelta(7)], "dtype": "float64"},
], ids=str)  # fmt: skip
def test_cycles_are_those_of_the_transformer(settings, engine):
    encoder = optional("posenc_fast.sklearn").PositionalEncoder(**settings)
    for name in ("nanoseconds", "milliseconds", "date", "berlin"):
        frame = pl.DataFrame({"t": COLUMNS[name]})
        got = frame.lazy().select(POSENC.cycles(**settings)).collect(engine=engine)["t"]
        expected = encoder.fit_transform(frame)
        assert got.dtype == pl.Array(getattr(pl, expected.dtype.name.capitalize()), expected.shape[1])
        np.testing.assert_array_equal(array_of(got), expected, name)


def test_lengths_of_numbers():
    hours = selected([0, 6, 12, 18, 24], POSENC.cycles([24]))
    assert hours.to_list() == [[0, 1], [1, 0], [0, -1], [-1, 0], [0, 1]]
    # if the column contains times, periods that are numbers are counted in seconds
    numbers = selected(COLUMNS["milliseconds"], POSENC.cycles([43200, 7 * 86400]))
    assert numbers.to_list() == selected(COLUMNS["milliseconds"], POSENC.cycles(["12h", "7D"])).to_list()


# ---- missing values, groups and windows --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["uint64", "berlin"])
@pytest.mark.parametrize("engine", ENGINES)
def test_null_stays_null(name, engine):
    rows = pf.sinusoidal(4).encode(COLUMNS[name]).tolist()
    lazy = pl.LazyFrame({"t": COLUMNS[name], "known": [True, False, True, True, False]})
    lazy = lazy.select(pl.when("known").then("t")).select(POSENC.encode(4))
    assert lazy.collect(engine=engine)["t"].to_list() == [rows[0], None, rows[2], rows[3], None]


def test_empty_null_and_nan():
    for rows, dtype in (([], pl.Int64), ([None, None], pl.Datetime("us")), ([None, None], pl.Null)):
        got = selected(pl.Series(rows, dtype=dtype), POSENC.encode(4))
        assert got.dtype == pl.Array(pl.Float32, 4)
        assert got.to_list() == rows
    got = selected([1.0, None, np.nan, np.inf], POSENC.encode(4))
    assert got.is_null().to_list() == [False, True, False, False]
    assert np.isnan(got.drop_nulls().to_numpy()).all(axis=1).tolist() == [False, True, True]
    cycles = selected([None, datetime.date(2026, 1, 1)], POSENC.cycles(["day", "year"]))
    assert cycles.to_list() == [None, [0, 1, 0, 1]]


def test_several_columns_groups_and_windows():
    frame = pl.DataFrame({"k": ["a", "b", "a"], "x": [1.0, 2.0, 3.0], "y": [4, 5, 6]})
    both = frame.select(pl.col("x", "y").posenc.encode(2).name.suffix("_row"))
    assert both.schema == dict.fromkeys(["x_row", "y_row"], pl.Array(pl.Float32, 2))
    rows = pf.sinusoidal(2).encode([1.0, 2.0, 3.0]).tolist()
    groups = frame.group_by("k", maintain_order=True).agg(pl.col("x").posenc.encode(2))
    assert groups["x"].to_list() == [[rows[0], rows[2]], [rows[1]]]
    assert frame.select(pl.col("x").posenc.encode(2).over("k"))["x"].to_list() == rows


# ---- errors -----------------------------------------------------------------------------------------------------


# errors when polars computes an expression: some versions raise the first type, other versions raise the second
COMPUTED = TypeError, pl.exceptions.ComputeError


@wrong_calls("""
    # invalid arguments, when an expression is built
    POSENC.encode(4, layout="concat") | ValueError | layout; 'concatenated'
    POSENC.encode(4, dtype=optional("ml_dtypes").bfloat16) | TypeError | dtype; bfloat16; polars
    POSENC.cycles(["weeek"]) | ValueError | 'weeek'; 'week'
    POSENC.cycles("day") | ValueError | periods; sequence
    POSENC.cycles(["day"], timezone="Europe/Berlim") | ValueError | timezone='Europe/Berlim'; 'Europe/Berlin'
    # invalid columns, when the expression is computed
    selected([1], POSENC.cycles(["month"])) | COMPUTED | column 't'
    selected(["a"], POSENC.encode(4)) | COMPUTED | column 't'; 'a'
    selected([[1.0]], POSENC.encode(4)) | COMPUTED | column 't'; List(Float64)
    pl.LazyFrame({"t": ["a"]}).select(POSENC.encode(4)).collect(engine="streaming") | COMPUTED | column 't'; 'a'
""")
def test_wrong_arguments(call, error, words):
    raises(call, error, words)
