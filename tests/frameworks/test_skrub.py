"""Test the scikit-learn transformer inside transformers of skrub, which select the time columns of a table."""

from __future__ import annotations

import numpy as np
import pytest

from support.optional import optional

pd = optional("pandas")
pl = optional("polars")
skrub = optional("skrub")
linear_model = optional("sklearn.linear_model")
PositionalEncoder = optional("posenc_fast.sklearn").PositionalEncoder

HOURS = pd.date_range("2026-01-01", periods=24 * 28, freq="h")
ENCODER = PositionalEncoder(periods=["day", "week", "12h"])
NAMES = [str(name) for name in ENCODER.fit(pd.DataFrame({"time": HOURS})).get_feature_names_out()]
SOLD = [name.replace("time", "sold") for name in NAMES]


def tables():
    """Return {name: frame} with the same table in pandas and polars, and with times of several types."""
    prices = np.linspace(1, 2, len(HOURS))
    plain = pd.DataFrame({"time": HOURS, "price": prices, "kind": np.array(["a", "b"] * 336), "sold": HOURS[::-1]})
    frame = pl.DataFrame({name: plain[name].to_numpy() for name in plain.columns})
    return {
        "pandas": plain,
        # this zone is 12 hours from UTC, so the phase of the period "12h" stays the same
        "zone": plain.assign(time=HOURS.tz_localize("Pacific/Wake")),
        "text": plain.assign(time=HOURS.strftime("%Y-%m-%d %H:%M")),
        "polars": frame.with_columns(pl.col("time").dt.replace_time_zone("Pacific/Wake")),
    }


@pytest.mark.parametrize("table", tables().values(), ids=tables())
def test_table_vectorizer(table):
    vectorizer = skrub.TableVectorizer(datetime=ENCODER)
    got = vectorizer.fit_transform(table)
    assert list(got.columns) == [*NAMES, "price", "kind_b", *SOLD]
    expected = ENCODER.fit_transform(pd.DataFrame({"time": HOURS}))
    np.testing.assert_array_equal(np.asarray(got[NAMES]), expected)
    np.testing.assert_array_equal(np.asarray(got[SOLD]), expected[::-1])
    # transform rows that fit has not seen
    np.testing.assert_array_equal(np.asarray(vectorizer.transform(table[100:200])[NAMES]), expected[100:200])


def test_tabular_pipeline_learns_the_clock():
    """The pipeline fills in the row of NaN of a missing time."""
    table = tables()["zone"].drop(columns="sold")
    demand = np.cos(2 * np.pi * (HOURS.hour - 18) / 24) + 0.1 * table["price"]
    table.loc[5, "time"] = None
    got = skrub.TableVectorizer(datetime=ENCODER).fit_transform(table)
    assert got[NAMES].isna().all(axis=1).tolist() == [row == 5 for row in range(len(table))]
    model = skrub.tabular_pipeline(linear_model.Ridge(1e-3)).set_params(tablevectorizer__datetime=ENCODER)
    model.fit(table[:500], demand[:500])
    assert model.score(table[500:], demand[500:]) > 0.999
    assert np.isfinite(model.predict(table)).all()
