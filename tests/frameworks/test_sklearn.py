"""Test the scikit-learn transformer: scikit-learn's own checks, and exact rows for every type of column."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
from support.optional import optional

pd = optional("pandas")
checks = optional("sklearn.utils.estimator_checks")
base = optional("sklearn.base")
PositionalEncoder = optional("posenc_fast.sklearn").PositionalEncoder


@checks.parametrize_with_checks(
    [
        PositionalEncoder(),
        PositionalEncoder(5, base=100.0, layout="concatenated", dtype=np.float64),
        PositionalEncoder(periods=[1.0, 10.0], dtype="float16"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def frame(**columns):
    return pd.DataFrame(columns)


def times(zone=None, unit="ns", count=5):
    return pd.date_range("2026-03-28T22:30:00.123456", periods=count, freq="37min", tz=zone).as_unit(unit)


# ---- values -----------------------------------------------------------------------------------------------------


def test_every_column_is_encoded_from_its_own_type():
    columns = {
        "int64": np.array([2**62 + 1, 2**62 + 2, -(2**60) - 3, 0, 7]),
        "uint64": np.array([2**64 - 1, 2**64 - 2, 0, 1, 2], np.uint64),
        "float32": np.float32([0.5, -1e6, 3, 0, np.nan]),
        "float64": np.array([0.1, -1e12, np.nan, 0, 1]),
        "timedelta": np.array([1, -5, 10**15 + 1, 0, 3], "m8[ms]"),
    }
    cycles = pf.fourier_features(pf.periodic([7.0, 24]), layout="interleaved")
    for settings, encoding in (({"d_model": 6}, pf.sinusoidal(6)), ({"periods": [7.0, 24]}, cycles)):
        expected = np.hstack([encoding.encode(values, dtype=np.float64) for values in columns.values()])
        got = PositionalEncoder(**settings, dtype=np.float64).fit_transform(frame(**columns))
        np.testing.assert_array_equal(got, expected)


def test_columns_of_pandas_and_arrow():
    """Integers are exact beside missing values. Lengths follow UTC, although clocks of the zone skip an hour."""
    arrow, integers = optional("pyarrow"), [2**62 + 1, None, 3]
    numbers = frame(
        Int64=pd.array(integers, dtype="Int64"),
        arrow=pd.array(integers, dtype=pd.ArrowDtype(arrow.int64())),
        Float64=pd.array([0.5, None, 3], dtype="Float64"),
    )
    got, encoding = PositionalEncoder(4).fit_transform(numbers), pf.sinusoidal(4)
    integer_rows, real_rows = encoding.encode([2**62 + 1, 3]), encoding.encode([0.5, 3])
    np.testing.assert_array_equal(got[[0, 2]], np.hstack([integer_rows, integer_rows, real_rows]))
    assert np.isnan(got[1]).all()
    berlin = pd.Series(times("Europe/Berlin"))
    in_arrow = berlin.astype(pd.ArrowDtype(arrow.timestamp("ns", "Europe/Berlin")))
    missing = berlin.where([True, False, True, True, True])
    zones = frame(pandas=berlin, tokyo=berlin.dt.tz_convert("Asia/Tokyo"), arrow=in_arrow, missing=missing)
    got = PositionalEncoder(periods=["12h", "7s"]).fit_transform(zones)
    lengths = pf.fourier_features(pf.periodic(["12h", "7s"]), layout="interleaved")
    expected = np.tile(lengths.encode(berlin.dt.tz_convert(None).to_numpy()), 4)
    expected[1, 12:] = np.nan
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("unit", ["ns", "s"])
@pytest.mark.parametrize(
    "periods", [["1D", "7D"], [np.timedelta64(1, "D"), timedelta(7)], pd.to_timedelta([1, 7], unit="D")], ids=repr
)
def test_the_sine_of_midnight_is_zero(periods, unit):
    # midnights a whole number of weeks before or after 1970-01-01, which was a Thursday
    thursdays = pd.date_range("1677-09-26", "2262-04-07", freq="7D").as_unit(unit) - pd.Timedelta("3D")
    got = PositionalEncoder(periods=periods).fit_transform(frame(t=thursdays))
    assert len(got) > 30000
    np.testing.assert_array_equal(got, np.tile(np.float32([0, 1]), (len(got), 2)))


# ---- cycles of the calendar ---------------------------------------------------------------------------------------

CYCLES = ["day", "week", "month", "quarter", "year"]
KINDS = ["pandas", "polars", "pyarrow"]
calendar = pf.presets.positions.calendar


def in_frame(kind, **columns):
    """Return a frame of pandas, polars or pyarrow."""
    package, X = optional(kind), frame(**columns)
    return X if kind == "pandas" else package.from_pandas(X) if kind == "polars" else package.Table.from_pandas(X)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_keep_the_zones_of_their_columns(kind):
    berlin = times("Europe/Berlin")
    columns = {"berlin": berlin, "tokyo": berlin.tz_convert("Asia/Tokyo"), "plain": berlin.tz_convert(None)}
    X, encoder = in_frame(kind, **columns), PositionalEncoder(periods=CYCLES)
    got = encoder.fit_transform(X)
    assert list(encoder.get_feature_names_out())[:3] == ["berlin_day_sin", "berlin_day_cos", "berlin_week_sin"]
    parts = np.hstack([calendar(column, CYCLES) for column in columns.values()])
    turn = pf.fourier_features(pf.periodic([1]), layout="interleaved")
    np.testing.assert_array_equal(got, turn.encode(parts).reshape(got.shape))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_cycles_in_frames(kind):
    optional(kind)
    X = frame(time=times("Europe/Berlin")).set_index(pd.Index(list("vwxyz")))
    encoder = PositionalEncoder(periods=["day", "month", "12h"]).set_output(transform=kind)
    got = encoder.fit_transform(X)
    names = [f"time_{cycle}_{f}" for cycle in ("day", "month", "12h") for f in ("sin", "cos")]
    assert list(got.columns) == names
    if kind == "pandas":
        assert list(got.index) == list("vwxyz")
        assert set(got.dtypes) == {np.dtype(np.float32)}
    back = encoder.inverse_transform(got)
    assert type(back) is type(got)
    assert list(back.columns) == ["time_day", "time_month", "time_12h"]
    np.testing.assert_allclose(back.to_numpy()[:, :2], calendar(X.time, ["day", "month"]), atol=1e-7)
    # the period "12h" has two cycles a day, which follow UTC
    utc = X.time.dt.tz_convert("UTC")
    np.testing.assert_allclose(back.to_numpy()[:, 2], 2 * calendar(utc, ["day"])[:, 0] % 1, atol=1e-7)
    np.testing.assert_array_equal(got, base.clone(encoder).set_output(transform="default").fit_transform(X))
    apart = base.clone(encoder).set_params(layout="concatenated")
    np.testing.assert_array_equal(apart.inverse_transform(apart.fit_transform(X)), back)


# ---- the zone that fit saw ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["America/New_York", "+02:00"])
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_another_zone_are_converted(kind, zone):
    """`transform` converts columns to the zone of `fit`, so equal instants have equal features in all zones."""
    berlin = times("Europe/Berlin", count=300)
    if kind == "polars" and zone == "+02:00":
        zone = "Etc/GMT-2"
    other = in_frame(kind, time=berlin.tz_convert(zone))
    encoder = PositionalEncoder(periods=[*CYCLES, "12h"], dtype=np.float64)
    expected = encoder.fit_transform(in_frame(kind, time=berlin))
    names = encoder.get_feature_names_out()
    for each in (encoder, pickle.loads(pickle.dumps(encoder))):
        got = each.transform(other)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(each.inverse_transform(got), encoder.inverse_transform(expected))
        np.testing.assert_array_equal(each.get_feature_names_out(), names)
    # `transform` also accepts a frame of another package than the frame that `fit` got
    for each in KINDS:
        got = encoder.transform(in_frame(each, time=berlin.tz_convert("UTC")))
        np.testing.assert_array_equal(got, expected)


def test_datetimes_of_python_are_converted():
    berlin = times("Europe/Berlin")
    of_berlin, of_utc = berlin.to_pydatetime().tolist(), berlin.tz_convert("UTC").to_pydatetime().tolist()
    # the same times with fixed offsets from UTC: one hour in winter, two hours in summer
    of_offsets = [each.replace(tzinfo=timezone(each.utcoffset())) for each in of_berlin]

    def objects(column):
        return frame(time=pd.Series(column, dtype=object))

    encoder = PositionalEncoder(periods=["day", "12h"])
    expected = encoder.fit_transform(frame(time=berlin))
    for column in (of_berlin, of_utc):
        np.testing.assert_array_equal(encoder.transform(objects(column)), expected)
    encoder.fit(objects(of_berlin))
    np.testing.assert_array_equal(encoder.transform(frame(time=berlin.tz_convert("UTC"))), expected)
    days = PositionalEncoder(periods=["day"])
    np.testing.assert_array_equal(days.fit_transform(objects(of_offsets)), expected[:, :2])
    with pytest.raises(ValueError, match=r"X\['time'\] has times with a time zone and times without one"):
        encoder.transform(objects([*of_berlin, datetime(2026, 1, 1)]))
    # after a fit in which all times were missing, `transform` accepts columns with a zone
    encoder.fit(objects([None, None]))
    np.testing.assert_array_equal(encoder.transform(frame(time=berlin)), expected)


def test_a_timezone_is_the_clock_of_all_columns():
    """With timezone, all columns follow the clock of that zone. Columns without a zone are read as UTC."""
    berlin = times("Europe/Berlin")
    columns = [berlin, berlin.tz_convert("UTC"), berlin.tz_convert("Asia/Tokyo"), berlin.tz_convert(None)]
    expected = PositionalEncoder(periods=["day", "year"]).fit_transform(frame(time=berlin))
    for fitted in columns:
        encoder = PositionalEncoder(periods=["day", "year"], timezone="Europe/Berlin").fit(frame(time=fitted))
        for column in columns:
            np.testing.assert_array_equal(encoder.transform(frame(time=column)), expected)


# ---- inverse_transform ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("d_model", [4, 7])
def test_inverse_transform_returns_positions(layout, d_model, rng):
    X = frame(age=rng.uniform(0, 600, 40), visits=np.append(rng.integers(-300, 300, 39), 0))
    X.loc[3, "age"] = np.nan
    encoder = PositionalEncoder(d_model, layout=layout, dtype=np.float64).fit(X)
    np.testing.assert_array_equal(encoder.range_[1], [X.visits.min(), X.visits.max()])
    back = encoder.inverse_transform(encoder.set_output(transform="pandas").transform(X))
    assert list(back.columns) == ["age", "visits"]
    np.testing.assert_allclose(back, X, rtol=0, atol=1e-8)
    # `inverse_transform` returns durations as seconds
    durations = frame(t=times(unit="s") - pd.Timestamp("2026-01-01"))
    encoder = PositionalEncoder(dtype=np.float64).fit(durations)
    back = encoder.inverse_transform(encoder.transform(durations))[:, 0]
    np.testing.assert_allclose(back, durations.t.dt.total_seconds(), rtol=0, atol=1e-4)


def test_inverse_transform_of_whole_turns_and_missing_values():
    encoder = PositionalEncoder(periods=["day"], dtype=np.float64)
    midnights = np.array([["2026-01-01"], ["NaT"], ["2026-01-02T23:59:59.999999"]], "M8[us]")
    back = encoder.inverse_transform(encoder.fit_transform(midnights))
    assert back[0, 0] == 0
    assert np.isnan(back[1, 0])
    assert 1 - 2e-11 < back[2, 0] < 1
    # only the angle of the vector (sine, cosine) determines the result, so the vector may have any length
    vectors = [[0, 0.5], [0.25, 0], [0, -2], [1e160, 1e160], [1e-170, 1e-170], [0, -1e308], [5e-324, 0]]
    parts = [[0], [0.25], [0.5], [0.125], [0.125], [0.5], [0.25]]
    np.testing.assert_array_equal(encoder.inverse_transform(vectors), parts)


# ---- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("expected", "settings"), [
    ("sin0 cos0 sin1 cos1 sin2", {"d_model": 5}),
    ("sin0 sin1 sin2 cos0 cos1", {"d_model": 5, "layout": "concatenated"}),
    ("1D_sin 12h_sin 1D_cos 12h_cos", {"periods": ["1D", "12h"], "layout": "concatenated"}),
    ("90min_sin 90min_cos 1s_sin 1s_cos", {"periods": [np.timedelta64(90, "m"), timedelta(seconds=1)]}),
    ("0.5_sin 0.5_cos 1/3_sin 1/3_cos 7_sin 7_cos", {"periods": [0.5, Fraction(1, 3), 7.0]}),
])  # fmt: skip
def test_names_of_output_columns(expected, settings):
    encoder = PositionalEncoder(**settings).fit(frame(time=np.arange(5).astype("m8[h]"), age=range(5)))
    names = [f"{column}_{ending}" for column in ("time", "age") for ending in expected.split()]
    assert list(encoder.get_feature_names_out()) == names
    # at position 0, sines are 0 and cosines are 1
    at_zero = encoder.transform(frame(time=np.zeros(1, "m8[s]"), age=[0]))[0]
    assert at_zero.tolist() == [float("cos" in name) for name in names]


def test_names_without_input_names():
    encoder = PositionalEncoder(2).fit(np.zeros((3, 2)))
    assert list(encoder.get_feature_names_out()) == ["x0_sin0", "x0_cos0", "x1_sin0", "x1_cos0"]
    assert list(encoder.get_feature_names_out(["a", "b"])) == ["a_sin0", "a_cos0", "b_sin0", "b_cos0"]
    with pytest.raises(ValueError, match="input_features"):
        encoder.get_feature_names_out(["a"])


def test_copies_are_the_same():
    X = frame(time=times("Europe/Berlin", count=99))
    encoder = PositionalEncoder(periods=np.array([1, 7], "m8[D]"), dtype=np.float64).fit(X)
    expected, pickled, copy = encoder.transform(X), pickle.dumps(encoder), base.clone(encoder)
    np.testing.assert_array_equal(pickle.loads(pickled).transform(X), expected)
    assert not hasattr(copy, "encoding_")
    np.testing.assert_array_equal(copy.fit_transform(X), expected)
    # pickles must not name private modules, which may be renamed; _encoding_of is in posenc_fast itself
    assert "posenc_fast._" not in pickled.decode("latin-1").replace("posenc_fast._encoding_of", "")


# ---- errors -----------------------------------------------------------------------------------------------------


def fit(X=((1.0,),), **settings):
    encoder = PositionalEncoder(**settings)
    try:
        return encoder.fit(X)
    except Exception:
        assert not hasattr(encoder, "encoding_")
        raise


def back(rows, **settings):
    fit(frame(t=times()), periods=["day", "week"], **settings).inverse_transform(rows)


def zone_lost(kind, periods):
    zoned, plain = (in_frame(kind, time=times(zone)) for zone in ("Europe/Berlin", None))
    fit(zoned, periods=periods).transform(plain)


NAMED = frame(size=range(5), age=range(5))
TIME, ZONE = (frame(time=times(zone)) for zone in (None, "Europe/Berlin"))
LATE = frame(time=np.array(["10000-01-01"], "M8[s]"))


@wrong_calls("""
    fit(layout="woven") | ValueError | layout; 'woven'; 'interleaved'
    fit(periods=[]) | ValueError | periods; []
    fit(periods=[86400, 0]) | ValueError | periods; positive; 0
    fit(periods=[86400], d_model=8) | ValueError | periods; d_model=8
    fit(periods=["day"]) | TypeError | X; numbers; day; to_datetime
    fit(periods="day") | ValueError | periods; 'day'; sequence
    fit(periods=["day", "12h", 24]) | ValueError | periods; 24; '12h'
    fit(periods=["day"], timezone="Europe/Berln") | ValueError | timezone; did you mean 'Europe/Berlin'
    fit(timezone="Europe/Berlin") | ValueError | timezone; periods
    fit(frame(time=times(), text=list("abcde"))) | TypeError | X['text']; pandas.to_datetime
    fit(frame(kind=pd.Categorical([1, 2]))) | TypeError | X['kind']; category
    fit(frame(age=[1.0, np.inf])) | ValueError | X['age']; infinity
    fit(frame(age=np.zeros(0))) | ValueError | 0 sample(s); required by PositionalEncoder
    fit(NAMED[[]]) | ValueError | X; no columns
    fit(TIME, periods=["month"]).transform(LATE) | ValueError | X['time']; 10000-01-01; 9999
    zone_lost("pandas", ["day"]) | ValueError | X['time'] has no time zone, but had a time zone; tz_localize
    zone_lost("polars", ["day"]) | ValueError | X['time'] has no time zone, but had a time zone; tz_localize
    fit(TIME, periods=["12h"]).transform(ZONE) | ValueError | X['time'] has a time zone, but had no time zone
    fit(NAMED).transform(NAMED[["age", "size"]]) | ValueError | feature names
    fit([[0], [10000]], d_model=8).inverse_transform(np.ones((1, 8))) | ValueError | 'x0'; 0.0; 10000.0; 6283; base
    fit(d_model=1).inverse_transform([[1]]) | ValueError | 'x0'; cannot be recovered; d_model of at least 2
    fit([[np.nan]], d_model=2).inverse_transform([[0, 1]]) | ValueError | 'x0'; missing
    fit(TIME) | ValueError | periods is missing, but X['time']; 'day'; '24h'
    fit(TIME.to_numpy()) | ValueError | periods is missing, but X has timestamps; 'day'; '24h'
    fit(frame(time=range(5))).transform(TIME) | ValueError | periods is missing, but X['time']; 'day'; '24h'
    fit(ZONE, periods=[0.5, 24]) | ValueError | periods has ; without a unit, but X['time']; 'day'; '24h'
    back([[0, 1, 1, 0], [0, 0, 1, 0]], layout="concatenated") | ValueError | row 1 of X is 0 in 't_week_sin'
    back([[0, 1, 1]]) | ValueError | 3 columns; 4
    back(frame(a=[0.0], b=[1.0], c=[1.0], d=[0.0])) | ValueError | t_day_sin
""")
def test_wrong_arguments(call, error, words):
    raises(call, error, words)
