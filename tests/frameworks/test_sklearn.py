"""The scikit-learn transformer: a good citizen of scikit-learn, and exact for every type of column."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.processes import python

pd = optional("pandas")
checks = optional("sklearn.utils.estimator_checks")
compose = optional("sklearn.compose")
linear_model = optional("sklearn.linear_model")
model_selection = optional("sklearn.model_selection")
pipeline = optional("sklearn.pipeline")
base = optional("sklearn.base")
PositionalEncoder = optional("posenc_fast.sklearn").PositionalEncoder

DAY, WEEK = 86400, 7 * 86400


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

COLUMNS = {
    "int64": np.array([2**62 + 1, 2**62 + 2, -(2**60) - 3, 0, 7]),
    "uint64": np.array([2**64 - 1, 2**64 - 2, 0, 1, 2], np.uint64),
    "int8": np.array([-128, 127, 0, 1, 2], np.int8),
    "float32": np.float32([0.5, -1e6, 3, 0, np.nan]),
    "float64": np.array([0.1, -1e12, np.nan, 0, 1]),
    "seconds": times(unit="s").to_numpy(),
    "nanoseconds": times().to_numpy(),
    "missing-time": np.array(["2026-01-01", "NaT", "1950-05-05", "2026-01-02", "2026-01-03"], "M8[us]"),
    "timedelta": np.array([1, -5, 10**15 + 1, 0, 3], "m8[ms]"),
}


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16], ids=lambda t: t.__name__)
def test_every_column_is_encoded_from_its_own_type(dtype):
    X = frame(**COLUMNS)
    encoder = PositionalEncoder(6, dtype=dtype).fit(X)
    got = encoder.transform(X)
    assert encoder.encoding_ == pf.sinusoidal(6)
    assert got.dtype == dtype
    assert got.shape == (5, 6 * len(COLUMNS))
    for i, values in enumerate(COLUMNS.values()):
        np.testing.assert_array_equal(got[:, 6 * i : 6 * i + 6], pf.sinusoidal(6).encode(values, dtype=dtype))


@pytest.mark.parametrize("name", COLUMNS)
def test_arrays_without_names(name):
    values = COLUMNS[name]
    got = PositionalEncoder(6).fit_transform(np.stack([values, values[::-1]], axis=1))
    np.testing.assert_array_equal(got[:, :6], pf.sinusoidal(6).encode(values))
    np.testing.assert_array_equal(got[:, 6:], pf.sinusoidal(6).encode(values[::-1]))


def test_zones_count_as_utc():
    # an hour that this zone skips lies in between
    berlin = times("Europe/Berlin")
    got = PositionalEncoder(6).fit_transform(frame(berlin=berlin, tokyo=berlin.tz_convert("Asia/Tokyo")))
    plain = pf.sinusoidal(6).encode(berlin.tz_convert(None).to_numpy())
    np.testing.assert_array_equal(got[:, :6], plain)
    np.testing.assert_array_equal(got[:, 6:], plain)


def test_missing_values_of_pandas():
    large = 2**62 + 1
    X = frame(
        integer=pd.array([large, None, 3], dtype="Int64"),
        whole=pd.array([large, 2, 3], dtype="Int64"),
        unsigned=pd.array([2**64 - 1, None, 3], dtype="UInt64"),
        real=pd.array([0.5, None, 3], dtype="Float64"),
        zone=pd.Series([times()[0], None, times()[1]]).dt.tz_localize("UTC"),
    )
    got = PositionalEncoder(4).fit_transform(X).reshape(3, 5, 4)
    assert np.isnan(got[1, [0, 2, 3, 4]]).all()
    encoding = pf.sinusoidal(4)
    np.testing.assert_array_equal(got[:, 1], encoding.encode([large, 2, 3]))
    np.testing.assert_array_equal(got[[0, 2], 0], encoding.encode([large, 3]))
    np.testing.assert_array_equal(got[[0, 2], 2], encoding.encode(np.array([2**64 - 1, 3], np.uint64)))
    np.testing.assert_array_equal(got[[0, 2], 3], encoding.encode([0.5, 3]))
    np.testing.assert_array_equal(got[[0, 2], 4], encoding.encode(times(count=2).to_numpy()))


def test_columns_of_arrow():
    arrow = optional("pyarrow")
    tokyo = times("Asia/Tokyo", unit="us", count=3)
    X = frame(
        time=pd.Series(tokyo, dtype=pd.ArrowDtype(arrow.timestamp("us", "Asia/Tokyo"))),
        integer=pd.Series([2**62 + 1, None, 3], dtype=pd.ArrowDtype(arrow.int64())),
        real=pd.Series([0.5, None, 3], dtype=pd.ArrowDtype(arrow.float64())),
    )
    got = PositionalEncoder(4).fit_transform(X).reshape(3, 3, 4)
    encoding = pf.sinusoidal(4)
    np.testing.assert_array_equal(got[:, 0], encoding.encode(tokyo.tz_convert(None).to_numpy()))
    np.testing.assert_array_equal(got[[0, 2], 1], encoding.encode([2**62 + 1, 3]))
    np.testing.assert_array_equal(got[:, 2], encoding.encode([0.5, np.nan, 3]))
    assert np.isnan(got[1, 1]).all()


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_periods(layout):
    encoder = PositionalEncoder(periods=[DAY, WEEK], layout=layout, dtype=np.float64)
    got = encoder.fit_transform(frame(t=times()))
    seconds = times().to_numpy().astype(np.int64) / 1e9
    for cycle, period in enumerate([DAY, WEEK]):
        for function in ("sin", "cos"):
            column = list(encoder.get_feature_names_out()).index(f"t_{function}{cycle}")
            expected = getattr(np, function)(2 * np.pi * (seconds % period) / period)
            # the seconds, of which there are 2e9, are rounded to float64
            np.testing.assert_allclose(got[:, column], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
@pytest.mark.parametrize(
    "periods", [["1D", "7D"], [DAY, WEEK], pd.to_timedelta([1, 7], unit="D")], ids=["text", "s", "index"]
)
def test_the_sine_of_midnight_is_zero(periods, unit):
    mondays = pd.date_range("1677-09-26", "2262-04-07", freq="7D").as_unit(unit) - pd.Timedelta("3D")
    got = PositionalEncoder(periods=periods).fit_transform(frame(t=mondays))
    assert len(got) > 30000
    # 1970 began on a Thursday
    np.testing.assert_array_equal(got, np.tile(np.float32([0, 1]), (len(got), 2)))


def test_settings_are_those_of_sinusoidal():
    X = np.arange(5)[:, np.newaxis]
    settings = {"base": 100.0, "freq_shift": 1.0, "first": 0.5, "layout": "concatenated"}
    np.testing.assert_array_equal(
        PositionalEncoder(6, **settings).fit_transform(X), pf.sinusoidal(6, **settings).table(5)
    )


# ---- names ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"d_model": 4}, "sin0 cos0 sin1 cos1"),
        ({"d_model": 5}, "sin0 cos0 sin1 cos1 sin2"),
        ({"d_model": 5, "layout": "concatenated"}, "sin0 sin1 sin2 cos0 cos1"),
        ({"periods": [DAY, WEEK]}, "sin0 cos0 sin1 cos1"),
        ({"periods": [DAY, WEEK], "layout": "concatenated"}, "sin0 sin1 cos0 cos1"),
        ({"d_model": 1}, "sin0"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(map(str, value)),
)
def test_names_tell_what_columns_are(settings, expected):
    encoder = PositionalEncoder(**settings).fit(frame(time=times(), age=range(5)))
    names = [f"{column}_{made}" for column in ("time", "age") for made in expected.split()]
    assert list(encoder.get_feature_names_out()) == names
    # at position 0 sines are 0 and cosines are 1
    at_zero = encoder.transform(frame(time=np.zeros(1, "M8[s]"), age=[0]))[0]
    assert at_zero.tolist() == [float("cos" in name) for name in names]


def test_names_without_names():
    encoder = PositionalEncoder(2).fit(np.zeros((3, 2)))
    assert list(encoder.get_feature_names_out()) == ["x0_sin0", "x0_cos0", "x1_sin0", "x1_cos0"]
    assert list(encoder.get_feature_names_out(["a", "b"])) == ["a_sin0", "a_cos0", "b_sin0", "b_cos0"]
    with pytest.raises(ValueError, match="input_features"):
        encoder.get_feature_names_out(["a"])


def test_pandas_out():
    X = frame(time=times(), age=range(5)).set_index(pd.Index(list("vwxyz")))
    encoder = PositionalEncoder(2).set_output(transform="pandas")
    got = encoder.fit_transform(X)
    assert list(got.columns) == ["time_sin0", "time_cos0", "age_sin0", "age_cos0"]
    assert list(got.index) == list("vwxyz")
    assert set(got.dtypes) == {np.dtype(np.float32)}
    np.testing.assert_array_equal(got, base.clone(encoder).set_output(transform="default").fit_transform(X))


# ---- with the rest of scikit-learn ------------------------------------------------------------------------------


def demand():
    """Four weeks of hours, and something that depends on the time of day."""
    hours = pd.date_range("2026-01-01", periods=24 * 28, freq="h", tz="Europe/Berlin")
    X = frame(time=hours, station=np.arange(len(hours)) % 3, temperature=np.linspace(-5, 5, len(hours)))
    return X, np.sin(2 * np.pi * (hours.hour - 3) / 24) + 0.01 * X.temperature


def test_columns_with_settings_of_their_own():
    X, y = demand()
    made = compose.ColumnTransformer(
        [
            ("clock", PositionalEncoder(periods=[DAY]), ["time"]),
            ("station", PositionalEncoder(4, base=100.0), ["station"]),
        ],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    got = made.fit_transform(X, y)
    stations = [f"station_{name}" for name in ("sin0", "cos0", "sin1", "cos1")]
    assert list(got.columns) == ["time_sin0", "time_cos0", *stations, "temperature"]
    model = pipeline.make_pipeline(made, linear_model.LinearRegression())
    assert model.fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.999


def test_grid_search_finds_the_period():
    X, y = demand()
    model = pipeline.Pipeline([("clock", PositionalEncoder()), ("ridge", linear_model.Ridge(1e-3))])
    search = model_selection.GridSearchCV(model, {"clock__periods": [[DAY / 1.5], [DAY], [WEEK]]}, cv=3)
    search.fit(X[["time"]], y)
    assert search.best_params_ == {"clock__periods": [DAY]}
    assert search.best_score_ > 0.99


def test_grid_search_finds_the_width(rng):
    X = rng.uniform(0, 1000, (400, 1))
    y = PositionalEncoder(12, base=10.0, dtype=np.float64).fit_transform(X) @ rng.uniform(1, 2, 12)
    model = pipeline.make_pipeline(PositionalEncoder(base=10.0), linear_model.Ridge(1e-3))
    search = model_selection.GridSearchCV(model, {"positionalencoder__d_model": [2, 6, 12]}, cv=3).fit(X, y)
    assert search.best_params_ == {"positionalencoder__d_model": 12}
    assert search.best_score_ > 0.9999


def test_copies_are_the_same():
    X, _ = demand()
    encoder = PositionalEncoder(periods=np.array([DAY, WEEK]), dtype=np.float64).fit(X[["time"]])
    expected = encoder.transform(X[["time"]])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).transform(X[["time"]]), expected)
    copy = base.clone(encoder)
    assert not hasattr(copy, "encoding_")
    np.testing.assert_array_equal(copy.fit_transform(X[["time"]]), expected)


# ---- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"d_model": 0}, ValueError, ["d_model", "0"]),
        ({"d_model": 2.5}, TypeError, ["d_model", "2.5"]),
        ({"base": -1.0}, ValueError, ["base", "-1"]),
        ({"layout": "woven"}, ValueError, ["layout", "'woven'", "'interleaved'"]),
        ({"dtype": int}, TypeError, ["dtype", "int"]),
        ({"periods": []}, ValueError, ["periods", "[]"]),
        ({"periods": DAY}, ValueError, ["periods", "86400"]),
        ({"periods": [DAY, 0]}, ValueError, ["periods", "positive", "0"]),
        ({"periods": ["a day"]}, ValueError, ["periods", "'a day'"]),
        ({"periods": [np.nan]}, ValueError, ["periods", "nan"]),
        ({"periods": [DAY], "d_model": 8}, ValueError, ["periods", "d_model=8"]),
        ({"periods": [DAY], "first": 2.0}, ValueError, ["periods", "first=2.0"]),
    ],
    ids=str,
)
def test_bad_settings(settings, error, words):
    encoder = PositionalEncoder(**settings)
    with pytest.raises(error) as raised:
        encoder.fit([[1.0]])
    assert all(word in str(raised.value) for word in words), raised.value
    assert not hasattr(encoder, "encoding_")


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        (frame(time=times(), text=list("abcde")), TypeError, ["X['text']", "pandas.to_datetime"]),
        (frame(flag=[True, False]), TypeError, ["X['flag']", "bool"]),
        (frame(kind=pd.Categorical([1, 2])), TypeError, ["X['kind']", "category"]),
        (frame(age=[1.0, np.inf]), ValueError, ["X['age']", "infinity"]),
        (frame(age=np.zeros(2, "c8")), TypeError, ["X['age']", "complex64"]),
        (frame(age=[1, 2])[[]], ValueError, ["X", "no columns"]),
        (frame(age=[1, 2])[:0], ValueError, ["0 sample(s)"]),
        (frame(age=[1, 2]).age, ValueError, ["2-dimensional"]),
        (np.array([[True]]), TypeError, ["X", "bool"]),
        (np.zeros((2, 1), "m8"), TypeError, ["X", "timedelta64[s]"]),
    ],
    ids=["text", "bool", "category", "infinite", "complex", "no-columns", "no-rows", "series", "bools", "no-unit"],
)
def test_bad_columns(X, error, words):
    with pytest.raises(error) as raised:
        PositionalEncoder().fit(X)
    assert all(word in str(raised.value) for word in words), raised.value


def test_columns_must_be_those_of_fit():
    encoder = PositionalEncoder(2).fit(frame(time=times(), age=range(5)))
    with pytest.raises(ValueError, match="feature names"):
        encoder.transform(frame(age=range(5), time=times()))
    with pytest.raises(ValueError, match="feature"):
        encoder.transform(frame(time=times()))


def test_without_scikit_learn():
    run = python("import sys; sys.modules['sklearn'] = None; import posenc_fast.sklearn")
    assert run.returncode == 1
    assert "ImportError: posenc_fast.sklearn needs scikit-learn: pip install scikit-learn" in run.stderr
