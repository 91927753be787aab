"""Expressions of polars: the rows of the direct calls, on eager and lazy frames, in streaming, and in groups."""

from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.processes import python

pl = optional("polars")
optional("posenc_fast.polars")

ENGINES = ["in-memory", "streaming"]
START = datetime.datetime(2026, 3, 28, 22, 30, 0, 123456)


def times(count=5, zone=None, unit="us"):
    end = START + (count - 1) * datetime.timedelta(minutes=37)
    column = pl.datetime_range(START, end, "37m", time_unit=unit, time_zone="UTC" if zone else None, eager=True)
    return column.dt.convert_time_zone(zone) if zone else column


COLUMNS = {
    "int64": pl.Series([2**62 + 1, 2**62 + 2, -(2**60) - 3, 0, 7]),
    "uint64": pl.Series([2**64 - 1, 2**64 - 2, 0, 1, 2], dtype=pl.UInt64),
    "int8": pl.Series([-128, 127, 0, 1, 2], dtype=pl.Int8),
    "float32": pl.Series([0.5, -1e6, 3, 0, 1], dtype=pl.Float32),
    "float64": pl.Series([0.1, -1e12, 5.5, 0, 1]),
    "microseconds": times(),
    "nanoseconds": times(unit="ns"),
    "milliseconds": times(unit="ms"),
    "berlin": times(zone="Europe/Berlin"),
    "date": pl.Series([datetime.date(2026, 1, day) for day in range(1, 6)]),
    "duration": pl.Series([datetime.timedelta(hours=h) for h in range(5)]),
}


def array_of(column):
    """Return the values of an Array column without nulls."""
    assert isinstance(column.dtype, pl.Array)
    assert column.null_count() == 0
    return column.to_numpy()


# ---- values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("engine", [None, *ENGINES])
def test_rows_are_those_of_the_direct_call(name, engine):
    frame = pl.DataFrame({"t": COLUMNS[name]})
    expression = pl.col("t").posenc.encode(6, base=100.0)
    got = frame.select(expression) if engine is None else frame.lazy().select(expression).collect(engine=engine)
    assert got.schema == {"t": pl.Array(pl.Float32, 6)}
    np.testing.assert_array_equal(array_of(got["t"]), pf.sinusoidal(6, base=100.0).encode(COLUMNS[name]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_types_are_known_from_the_schema(dtype):
    kind = getattr(pl, dtype.capitalize(), None)
    if kind is None:
        pytest.skip("this polars has no float16")
    lazy = pl.LazyFrame({"t": COLUMNS["float64"]}).select(pl.col("t").posenc.encode(5, dtype=dtype))
    # the schema is known before the frame is computed
    assert lazy.collect_schema() == {"t": pl.Array(kind, 5)}
    np.testing.assert_array_equal(
        array_of(lazy.collect()["t"]), pf.sinusoidal(5).encode(COLUMNS["float64"], dtype=dtype)
    )


def test_settings_are_those_of_sinusoidal():
    settings = {"base": 100.0, "freq_shift": 1.0, "first": 0.5, "layout": "concatenated"}
    got = pl.DataFrame({"p": range(5)}).select(pl.col("p").posenc.encode(6, **settings))
    np.testing.assert_array_equal(array_of(got["p"]), pf.sinusoidal(6, **settings).table(5))


# ---- cycles -----------------------------------------------------------------------------------------------------

# zones with summer time, with a shift of half an hour, and with a skipped date
ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"]


def columns_of_zones(zone, engine, **arguments):
    """Return a frame with times of a zone, and their cycles: day, half day (a length) and week."""
    start = datetime.datetime(2010, 12, 1, tzinfo=zoneinfo.ZoneInfo("UTC"))
    column = pl.datetime_range(start, start.replace(year=2012), "7h13m", time_zone="UTC", eager=True)
    lazy = pl.LazyFrame({"t": column.dt.convert_time_zone(zone) if zone else column.dt.replace_time_zone(None)})
    lazy = lazy.with_columns(got=pl.col("t").posenc.cycles(["day", "12h", "week"], dtype="float64", **arguments))
    return lazy.collect(engine=engine)


def expected_cycles(times, zone):
    """Yield the parts of the day and the week by the wall clock of a zone, and of the half day by UTC."""
    for utc in times:
        local = utc.astimezone(zone)
        passed = [
            (moment.hour * 3600 + moment.minute * 60 + moment.second) / 86400
            for moment in (local, utc.astimezone(datetime.UTC))
        ]
        yield [passed[0], 2 * passed[1], (local.weekday() + passed[0]) / 7]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("engine", ENGINES)
def test_cycles_follow_the_wall_clock_and_lengths_utc(zone, engine):
    frame = columns_of_zones(zone, engine)
    got = array_of(frame["got"])
    assert frame.schema["got"] == pl.Array(pl.Float64, 6)
    turns = np.array(list(expected_cycles(frame["t"], zoneinfo.ZoneInfo(zone))))
    np.testing.assert_allclose(got[:, 0::2], np.sin(2 * np.pi * turns), rtol=0, atol=1e-13)
    np.testing.assert_allclose(got[:, 1::2], np.cos(2 * np.pi * turns), rtol=0, atol=1e-13)


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_another_zone(zone):
    # with timezone, times without a zone are read as UTC
    got = columns_of_zones(zone, "in-memory", timezone="Europe/Berlin")["got"]
    np.testing.assert_array_equal(array_of(got), array_of(columns_of_zones("Europe/Berlin", "in-memory")["got"]))


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize(
    "periods",
    [["day", "week", "month", "quarter", "year"], ["12h", "7D"], ["month", datetime.timedelta(1)]],
    ids=str,
)
@pytest.mark.parametrize("name", ["microseconds", "nanoseconds", "milliseconds", "date", "berlin"])
def test_cycles_are_those_of_the_transformer(name, periods, layout):
    sklearn = optional("posenc_fast.sklearn")
    frame = pl.DataFrame({"t": COLUMNS[name]})
    got = frame.select(pl.col("t").posenc.cycles(periods, layout=layout))["t"]
    expected = sklearn.PositionalEncoder(periods=periods, layout=layout).fit_transform(frame)
    np.testing.assert_array_equal(array_of(got), expected)


def test_lengths_of_numbers():
    got = pl.DataFrame({"hour": [0, 6, 12, 18, 24]}).select(pl.col("hour").posenc.cycles([24]))["hour"]
    assert got.to_list() == [[0, 1], [1, 0], [0, -1], [-1, 0], [0, 1]]
    # numbers are seconds if the column contains times
    cycles = pl.DataFrame({"t": COLUMNS["milliseconds"]}).select(
        numbers=pl.col("t").posenc.cycles([43200, 7 * 86400]), lengths=pl.col("t").posenc.cycles(["12h", "7D"])
    )
    assert cycles["numbers"].to_list() == cycles["lengths"].to_list()


def test_cycles_of_a_null():
    got = pl.DataFrame({"t": [None, datetime.date(2026, 1, 1)]}).select(pl.col("t").posenc.cycles(["day", "year"]))
    assert got["t"].to_list() == [None, [0, 1, 0, 1]]


# ---- missing values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("engine", ENGINES)
def test_null_stays_null(name, engine):
    column = COLUMNS[name]
    holes = pl.DataFrame({"t": column, "known": [True, False, True, True, False]})
    lazy = holes.lazy().select(pl.when("known").then("t")).select(pl.col("t").posenc.encode(4))
    got = lazy.collect(engine=engine)["t"]
    assert got.is_null().to_list() == [False, True, False, False, True]
    known = pf.sinusoidal(4).encode(column).tolist()
    assert got.drop_nulls().to_list() == [known[0], known[2], known[3]]


def test_nan_is_a_row_of_nan():
    got = pl.DataFrame({"x": [1.0, None, np.nan, np.inf]}).select(pl.col("x").posenc.encode(4))["x"]
    assert got.is_null().to_list() == [False, True, False, False]
    assert np.isnan(got.drop_nulls().to_numpy()).all(axis=1).tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", [pl.Datetime("us"), pl.Int64, pl.Null], ids=str)
def test_empty_and_null_columns(dtype):
    for rows in ([], [None, None]):
        got = pl.DataFrame({"t": pl.Series(rows, dtype=dtype)}).select(pl.col("t").posenc.encode(4))["t"]
        assert got.dtype == pl.Array(pl.Float32, 4)
        assert got.to_list() == rows


# ---- within larger queries --------------------------------------------------------------------------------------


def test_streaming_encodes_batches():
    """Rows that a filter removes are not encoded, and the results of batches keep their order."""
    frame = pl.DataFrame({"t": times(200_000), "n": np.arange(200_000)})
    lazy = frame.lazy().filter(pl.col("n") % 3 == 0).with_columns(row=pl.col("t").posenc.encode(4))
    got = lazy.collect(engine="streaming")
    assert got.columns == ["t", "n", "row"]
    assert got["n"].to_list() == list(range(0, 200_000, 3))
    np.testing.assert_array_equal(array_of(got["row"]), pf.sinusoidal(4).encode(frame["t"])[::3])


def test_several_columns_groups_and_windows():
    frame = pl.DataFrame({"k": ["a", "b", "a"], "x": [1.0, 2.0, 3.0], "y": [4, 5, 6]})
    both = frame.select(pl.col("x", "y").posenc.encode(2).name.suffix("_row"))
    assert both.schema == dict.fromkeys(["x_row", "y_row"], pl.Array(pl.Float32, 2))
    rows = pf.sinusoidal(2).encode([1.0, 2.0, 3.0]).tolist()
    groups = frame.group_by("k", maintain_order=True).agg(pl.col("x").posenc.encode(2))
    assert groups["x"].to_list() == [[rows[0], rows[2]], [rows[1]]]
    assert frame.select(pl.col("x").posenc.encode(2).over("k"))["x"].to_list() == rows


def test_a_column_of_rows_becomes_columns():
    frame = pl.DataFrame({"t": COLUMNS["float64"]})
    fields = ["sin0", "cos0", "sin1"]
    wide = frame.select(pl.col("t").posenc.encode(3).arr.to_struct(fields=fields).struct.unnest())
    assert wide.columns == fields
    np.testing.assert_array_equal(wide.to_numpy(), pf.sinusoidal(3).encode(frame["t"]))


# ---- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"d_model": 0}, ValueError, ["d_model", "0"]),
        ({"d_model": "4"}, TypeError, ["d_model", "'4'"]),
        ({"d_model": 4, "layout": "concat"}, ValueError, ["layout", "'concatenated'"]),
        ({"d_model": 4, "base": -1.0}, ValueError, ["base", "-1"]),
        ({"d_model": 4, "dtype": int}, TypeError, ["dtype", "int"]),
        ({"d_model": 4, "dtype": "bfloat16"}, TypeError, ["dtype", "bfloat16", "polars"]),
    ],
    ids=str,
)
def test_bad_arguments_raise_when_the_expression_is_built(arguments, error, words):
    if arguments.get("dtype") == "bfloat16":
        optional("ml_dtypes")
    with pytest.raises(error) as raised:
        pl.col("t").posenc.encode(**arguments)
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"periods": ["weeek"]}, ValueError, ["'weeek'", "'week'"]),
        ({"periods": "day"}, ValueError, ["periods", "sequence"]),
        ({"periods": []}, ValueError, ["periods", "at least one"]),
        (
            {"periods": ["day"], "timezone": "Europe/Berlim"},
            ValueError,
            ["timezone='Europe/Berlim'", "'Europe/Berlin'"],
        ),
        ({"periods": ["24h"], "timezone": "Europe/Berlin"}, ValueError, ["timezone", "lengths"]),
        ({"periods": ["day"], "layout": "concat"}, ValueError, ["layout", "'concatenated'"]),
    ],
    ids=str,
)
def test_bad_cycles_raise_when_the_expression_is_built(arguments, error, words):
    with pytest.raises(error) as raised:
        pl.col("t").posenc.cycles(**arguments)
    assert all(word in str(raised.value) for word in words), raised.value


@pytest.mark.parametrize("column", [pl.Series([1]), pl.Series([0.5]), COLUMNS["duration"]], ids=lambda c: str(c.dtype))
def test_numbers_cannot_have_calendar_cycles(column):
    lazy = pl.LazyFrame({"t": column}).select(pl.col("t").posenc.cycles(["month"]))
    with pytest.raises((TypeError, pl.exceptions.ComputeError), match="column 't'"):
        lazy.collect()


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pl.Series(["a"]), ["column 't'", "'a'"]),
        (pl.Series([True]), ["column 't'", "bool"]),
        (pl.Series([[1.0]]), ["column 't'", "List(Float64)"]),
        (pl.Series([{"a": 1, "b": 2}]), ["column 't'", "Struct"]),
        (pl.Series([[1.0, 2.0]], dtype=pl.Array(pl.Float64, 2)), ["column 't'", "Array(Float64"]),
    ],
    ids=["text", "bool", "list", "struct", "array"],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_bad_columns(column, words, engine):
    lazy = pl.LazyFrame({"t": column}).select(pl.col("t").posenc.encode(4))
    # the version of polars decides which error is raised
    with pytest.raises((TypeError, pl.exceptions.ComputeError)) as raised:
        lazy.collect(engine=engine)
    assert all(word in str(raised.value) for word in words), raised.value


def test_without_polars():
    run = python("import sys; sys.modules['polars'] = None; import posenc_fast.polars")
    assert run.returncode == 1
    assert "ImportError: posenc_fast.polars needs polars: pip install polars" in run.stderr
