"""Test the scikit-learn transformer inside pipelines of sktime, where times are in the index."""

from __future__ import annotations

import numpy as np
import pytest

from support.optional import optional

pd = optional("pandas")
optional("sktime")
linear_model = optional("sklearn.linear_model")
compose = optional("sktime.forecasting.compose")
TabularToSeriesAdaptor = optional("sktime.transformations.adapt").TabularToSeriesAdaptor
FunctionTransformer = optional("sktime.transformations.func_transform").FunctionTransformer
TimeSince = optional("sktime.transformations.time_since").TimeSince
PositionalEncoder = optional("posenc_fast.sklearn").PositionalEncoder

# sktime warns about one of its own defaults; pytest would turn this warning into an error
pytestmark = pytest.mark.filterwarnings("ignore:The default of config ``remember_data`` will change:FutureWarning")

HOURS = pd.date_range("2026-01-01", periods=24 * 21, freq="h")
PRICES = pd.DataFrame({"price": np.linspace(1, 2, len(HOURS))}, index=HOURS)
ENCODER = PositionalEncoder(periods=["day", "week"]).set_output(transform="pandas")


def clock(frame):
    """Return the encoded times of a frame's index."""
    return ENCODER.fit_transform(frame.index.to_frame(name="time"))


def test_forecasts_of_an_index_of_times():
    turns = 2 * np.pi * np.arange(len(HOURS)) / 24
    demand = pd.Series(np.sin(turns) + np.cos(turns / 7) + 3 * PRICES.price.to_numpy(), index=HOURS)
    regression = compose.make_reduction(linear_model.Ridge(1e-6), strategy="recursive", window_length=1)
    encoder = FunctionTransformer(lambda frame: clock(frame).join(frame))
    model, known = compose.ForecastingPipeline([("c", encoder), ("r", regression)]), 24 * 14
    model.fit(demand[:known], X=PRICES[:known], fh=np.arange(1, 24 * 7 + 1))
    forecast = model.predict(X=PRICES[known:])
    assert forecast.index.equals(HOURS[known:])
    np.testing.assert_allclose(forecast, demand[known:], rtol=0, atol=1e-3)


@pytest.mark.parametrize("index", [HOURS, HOURS.to_period("h")], ids=["times", "periods"])
def test_an_index_becomes_columns(index):
    got = FunctionTransformer(clock).fit_transform(PRICES.set_index(index))
    assert list(got.columns) == list(ENCODER.get_feature_names_out())
    assert got.index.equals(index)
    # a period of the index, such as an hour, is encoded by the time of its start
    np.testing.assert_array_equal(got, ENCODER.fit_transform(pd.DataFrame({"time": HOURS})))


def test_steps_of_an_index_in_an_adaptor():
    adaptor = TabularToSeriesAdaptor(PositionalEncoder(periods=[24, 24 * 7]))
    # measure time since a Monday, so that weeks begin on Monday
    got = (TimeSince(["1969-12-29"], freq="h") * adaptor).fit_transform(PRICES)
    assert got.index.equals(HOURS)
    np.testing.assert_array_equal(got, clock(PRICES))
