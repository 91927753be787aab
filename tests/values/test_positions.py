"""Test each kind of positions in each function: lists, columns, masked arrays, times, small dtypes, tensors."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from support import exact
from support.optional import optional

E = pf.sinusoidal(8)
FAST = pf.fourier_features([1.0, 2.0**-20])
LARGE = 2**60 + 1
ENDS = [-1, 2**63 + 1]
NAN = [np.nan] * 8
DAY = date(2026, 3, 29)
NOON = datetime(2026, 3, 29, 12, 0, 0, 123457)
TOKYO = timezone(timedelta(hours=9))


def same(got, expected):
    np.testing.assert_array_equal(got, np.array(expected))


def rows(*positions):
    """Return the rows of positions, encoded one by one. None becomes a row of NaN."""
    return np.stack([np.full(8, np.nan, np.float32) if p is None else E.encode(p) for p in positions])


def fraction(position):
    if isinstance(position, (int, np.integer, Fraction)):
        return Fraction(int(position)) if not isinstance(position, Fraction) else position
    return Fraction(*position.as_integer_ratio())


# ---- integers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers",
    [
        [LARGE, 0.5],
        # NumPy would convert this list to float64, which rounds 2**53 + 1 to 2**53
        [2**53 + 1, 0.5],
        [0.5, -LARGE],
        [[LARGE], [0.25]],
        (2**64 - 1, -0.5),
        [np.int64(LARGE), np.float32(0.5)],
        [np.array([LARGE]), np.array([0.5])],
        [2**53 + 1, Fraction(1, 3)],
        [np.longdouble(LARGE), 3],
    ],
    ids=["first", "smallest", "last", "nested", "tuple", "scalars", "arrays", "fraction", "long-double"],
)
@pytest.mark.usefixtures("backend")
def test_mixed_numbers_are_exact(numbers):
    got = FAST.encode(numbers, dtype=np.float64).reshape(2, 4)
    for position, row in zip(np.array(numbers, object).ravel(), got, strict=True):
        number = fraction(position)
        for column, frequency in enumerate([1.0, 2.0**-20]):
            for value, expected in zip(row[[column, column + 2]], exact.sincos(number, frequency), strict=True):
                assert exact.excess(value, expected, "float64") < 2.0**-50


@pytest.mark.parametrize("missing", [None, float("nan"), np.datetime64("NaT", "s")], ids=["None", "nan", "NaT"])
def test_integers_next_to_a_missing_position_are_exact(missing):
    same(E.encode([LARGE, missing, 3]), rows(LARGE, None, 3))
    same(E.encode(np.array([LARGE, missing, 3], object)), rows(LARGE, None, 3))


def test_only_missing_positions():
    same(E.encode([None, None]), [NAN, NAN])
    two = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
    same(two.encode([[None, 1], [2, 3]]), np.stack([NAN, two.encode([2, 3])]))
    same(two.encode(np.array([["NaT", "2026"], ["2025", "2026"]], "M8[s]"))[0], NAN)


def columns():
    pd, pl, pa = optional("pandas"), optional("polars"), optional("pyarrow")
    values = [LARGE, None, 3]
    nullable = pd.Series(values, dtype="Int64")
    return {
        "pandas-series": nullable,
        "pandas-array": nullable.array,
        "pandas-index": pd.Index(nullable),
        "pandas-arrow": pd.Series(values, dtype="int64[pyarrow]"),
        "pandas-object": pd.Series(values, dtype=object),
        "pandas-NA": [LARGE, pd.NA, 3],
        "polars": pl.Series(values),
        "polars-128": pl.Series(values, dtype=pl.Int128),
        "pyarrow": pa.array(values),
        "pyarrow-dictionary": pa.array(values).dictionary_encode(),
        "pyarrow-dictionary-chunks": pa.chunked_array([pa.array(values).dictionary_encode()]),
        "pyarrow-runs": pa.RunEndEncodedArray.from_arrays([1, 2, 3], pa.array(values)),
        "pyarrow-chunks": pa.chunked_array([[LARGE], [None, 3]]),
        "pyarrow-scalars": [pa.scalar(LARGE), pa.scalar(None), 3],
    }


@pytest.mark.parametrize("function", ["encode", "add_to", "grid", "Rotary"])
def test_columns_with_nulls_are_exact(function):
    for name, column in columns().items():
        call = {
            "encode": E.encode,
            "add_to": lambda column: E.add_to(np.zeros((3, 8), np.float32), positions=column),
            "grid": lambda column: pf.grid([column], E),
            "Rotary": lambda column: pf.Rotary(8).apply(np.ones((3, 8), np.float32), positions=column),
        }[function]
        got = call(column)
        assert np.isnan(got[1]).all(), name
        np.testing.assert_array_equal(got[[0, 2]], call([LARGE, 3, 3])[[0, 2]], err_msg=name)


def test_nested_columns_with_nulls_are_exact():
    pd, pl, pa = optional("pandas"), optional("polars"), optional("pyarrow")
    values = [LARGE, None, 3]
    for column in (
        pl.Series([values], dtype=pl.Array(pl.Int64, 3)),
        pl.Series([{"a": value} for value in values]),
        [pd.Series([value], dtype="Int64") for value in values],
        [pl.Series([value], dtype=pl.Int64) for value in values],
        [pa.array([value], pa.int64()) for value in values],
        [[np.ma.array([LARGE, 1], mask=[False, True])], [np.ma.array([3, 3])]],
    ):
        got = E.encode(column).reshape(-1, 8)[[0, 1, -1]]
        np.testing.assert_array_equal(got, rows(*values), err_msg=repr(column))
    with pytest.raises((TypeError, ValueError), match="positions"):
        E.encode(pl.Series([[LARGE], None], dtype=pl.Array(pl.Int64, 1)))


@pytest.mark.parametrize("values", [[LARGE, None, 3], [LARGE, 3], [0.5, None]], ids=str)
def test_columns_of_lists_are_refused_with_a_fix(values):
    pd, pl, pa = optional("pandas"), optional("polars"), optional("pyarrow")
    arrow = pa.array([values])
    for column, lists in (
        (pl.Series([values]), pl.Series.to_list),
        (arrow, pa.Array.to_pylist),
        (pa.chunked_array([arrow]), pa.ChunkedArray.to_pylist),
        (pa.array([values], pa.list_(arrow.type.value_type, len(values))), pa.Array.to_pylist),
        (pd.Series(arrow, dtype=pd.ArrowDtype(arrow.type)), pd.Series.tolist),
    ):
        with pytest.raises(
            TypeError, match=f"positions contains lists or arrays instead of numbers; .*{lists.__name__}"
        ):
            E.encode(column)
        np.testing.assert_array_equal(E.encode(lists(column)).reshape(-1, 8), rows(*values))


@pytest.mark.parametrize("kind", ["M8", "m8"])
@pytest.mark.parametrize("unit", ["s", "us", "ns", "ps", "fs", "as"])
def test_lists_of_arrays_of_times(kind, unit):
    """Lists of arrays of times keep their unit. As objects, times finer than microseconds would become integers."""
    t = np.array([5, -7, 2**60 + 1], f"{kind}[{unit}]")
    expected, x = E.encode(t, dtype="f8"), np.zeros((2, 3, 8))
    assert abs(expected[0, 0]) < 1e-5 or unit == "s"
    for given in ([t, t], (t, t), [list(t), t], [t, np.ma.array(t)], [np.array(t[0]), t[0]]):
        same(E.encode(given, dtype="f8").reshape(2, -1, 8), np.stack([expected, expected])[:, : np.size(given) // 2])
    same(E.encode([[t], [t]], dtype="f8"), np.stack([expected, expected])[:, np.newaxis])
    same(E.add_to(x, positions=[t, t]), np.stack([expected, expected]))
    x[...] = 1
    same(pf.Rotary(8).apply(x, positions=[t, t]), pf.Rotary(8).apply(x, positions=np.stack([t, t])))
    same(pf.join([E, E]).encode([t[:2]]), pf.join([E, E]).encode(t[np.newaxis, :2]))
    # arrays of different units in one list are exact, too
    seconds = np.array([1, 2, 3], f"{kind}[s]")
    same(E.encode([t, seconds], dtype="f8"), np.stack([expected, E.encode(seconds, dtype="f8")]))


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_lists_of_columns_of_times(package):
    t = np.array([5, 10**18 + 1, "NaT"], "M8[ns]")
    make = {"pandas": "Series", "polars": "Series", "pyarrow": "array"}[package]
    column = getattr(optional(package), make)(t)
    same(E.encode([column, column], dtype="f8"), np.stack([E.encode(t, dtype="f8")] * 2))


def test_dictionaries_of_times_and_reals():
    pa = optional("pyarrow")
    for values, kind in (([2.5, None], pa.float64()), ([5, None], pa.timestamp("ns")), ([7, None], pa.duration("us"))):
        plain = pa.array(values, kind)
        for column in (plain.dictionary_encode(), pa.chunked_array([plain.dictionary_encode()])):
            same(E.encode(column), E.encode(plain))


def test_frames_of_several_types():
    pd, pl, pa = optional("pandas"), optional("polars"), optional("pyarrow")
    two = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
    expected = two.encode([[LARGE, 0.5], [3, 0.25]])
    for frame in (
        pd.DataFrame({"a": [LARGE, 3], "b": [0.5, 0.25]}),
        pl.DataFrame({"a": [LARGE, 3], "b": [0.5, 0.25]}),
        pa.table({"a": [LARGE, 3], "b": [0.5, 0.25]}),
    ):
        same(two.encode(frame), expected)
    holes = pd.DataFrame({"a": [LARGE, None], "b": [2, 1]}, dtype="Int64")
    same(two.encode(holes), np.stack([two.encode([LARGE, 2]), NAN]))


# ---- masked -----------------------------------------------------------------------------------------------------


def test_masked_positions_are_missing():
    masked = np.ma.array([LARGE, 1, 2], mask=[False, True, False])
    expected = rows(LARGE, None, 2)
    same(E.encode(masked), expected)
    same(E.encode([masked, masked]), np.stack([expected, expected]))
    same(E.encode([LARGE, np.ma.masked, 2]), expected)
    same(E.encode([[LARGE], [np.ma.masked], [2]])[:, 0], expected)
    same(E.encode(np.ma.masked), NAN)
    same(E.add_to(np.zeros((3, 8), np.float32), positions=masked), expected)
    same(pf.grid([masked], E), expected)
    same(E.encode(np.ma.array([1, 2], mask=False)), rows(1, 2))
    same(E.encode(np.ma.array(["NaT", "2026", "2025"], "M8[s]", mask=[0, 1, 0]))[:2], [NAN, NAN])
    x = np.ones((3, 8), np.float32)
    rotated = pf.Rotary(8).apply(x, positions=masked)
    assert np.isnan(rotated[1]).all()
    same(rotated[[0, 2]], pf.Rotary(8).apply(x, positions=[LARGE, 1, 2])[[0, 2]])
    cos, sin = pf.Rotary(8).tables(masked)
    assert np.isnan(cos[1]).all()
    assert np.isnan(sin[1]).all()
    two = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
    same(two.encode(np.ma.array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])), np.stack([NAN, two.encode([3, 4])]))


# ---- the same conversion in each function -----------------------------------------------------------------------


@pytest.mark.parametrize("scaling", [None, {"rope_type": "linear", "factor": 3.0}], ids=["plain", "linear"])
@pytest.mark.usefixtures("backend")
def test_rotary_rotates_at_int64_and_uint64(scaling):
    rotary = pf.Rotary(8, scaling=scaling)
    x = np.ones((2, 8))
    expected = np.concatenate([rotary.apply(x[:1], start=start) for start in ENDS])
    np.testing.assert_allclose(rotary.apply(x, positions=ENDS), expected, rtol=0, atol=4e-16)
    each = np.concatenate([rotary.tables(1, start=start, dtype="f8") for start in ENDS], axis=1)
    np.testing.assert_allclose(rotary.tables(ENDS, dtype="f8"), each, rtol=0, atol=3e-16)


@pytest.mark.usefixtures("backend")
def test_first_integer_that_is_no_float64():
    # 2**53 + 1 is the first integer that float64 cannot represent, so it must not be converted
    expected = FAST.table(1, start=2**53 + 1, dtype="f8")
    for positions in (np.array([2**53 + 1]), np.array([2**53 + 1], np.uint64), [2**53 + 1]):
        same(FAST.encode(positions, dtype="f8"), expected)
    same(FAST.encode(2**53 + 1, dtype="f8"), expected[0])
    same(FAST.table(5, start=2.0**52 - 0.5, step=0.5, dtype="f8")[2], FAST.encode(Fraction(2**53 + 1, 2), dtype="f8"))


def test_rotary_rows_do_not_depend_on_their_neighbours():
    positions = np.arange(4000) + 2**53
    positions[0] = 2**60
    rotary, x = pf.Rotary(64), np.random.default_rng(1).normal(size=(4000, 64))
    same(rotary.apply(x, positions=positions)[2000:], rotary.apply(x, positions=positions, workers=2)[2000:])


def test_sections_count_from_any_start():
    rotary = pf.Rotary(8, sections=[2, 2])
    x = np.ones((3, 8))
    for start in (2**63 - 2, 0.5, Fraction(1, 3), 2**62 + 1):
        given = [[start + i, start + i] for i in range(3)]
        np.testing.assert_allclose(rotary.apply(x, start=start), rotary.apply(x, positions=given), rtol=0, atol=4e-16)


def test_xpos_counts_seconds():
    rotary, x = pf.Rotary(8, scaling={"rope_type": "xpos"}), np.ones((2, 8))
    same(rotary.apply(x, positions=np.array([1000, 2000], "m8[ms]")), rotary.apply(x, positions=[1, 2]))


def test_grid_of_int64_and_uint64():
    same(pf.grid([ENDS], E), E.encode(ENDS))
    dense = pf.fourier_features([[1.0, 0.5], [2.0**-40, 1.0]])
    for one, other in (
        (ENDS, [0.5]),
        ([LARGE, 2], np.array([1, 2], np.uint8)),
        (ENDS, [LARGE]),
        ([0.5], np.array([LARGE, 5])),
        (range(2**63, 2**63 + 2), [0.25]),
        (np.array([1, 2], "m8[ns]"), np.array([3], "m8[s]")),
        (np.array([1, 2], "m8[ns]"), [0.1, LARGE]),
    ):
        got = pf.grid([one, other], dense, dtype=np.float64)
        for i, a in enumerate(seconds(one)):
            for j, b in enumerate(seconds(other)):
                row = got[i, j]
                for c, frequency in enumerate([(1.0, 0.5), (2.0**-40, 1.0)]):
                    angle = sum((p * Fraction(f) for p, f in zip((a, b), frequency, strict=True)), Fraction(0))
                    for value, expected in zip(row[[c, c + 2]], exact.sincos(angle, mpmath.mpf(1)), strict=True):
                        assert exact.excess(value, expected, "float64") < 2.0**-49


def seconds(axis):
    if getattr(axis, "dtype", np.dtype(int)).kind == "m":
        unit = Fraction(1, 10**9) if axis.dtype == "m8[ns]" else Fraction(1)
        return [int(count) * unit for count in axis.view(np.int64)]
    return [fraction(p) for p in list(axis)]


def test_error_of_a_grid_with_an_axis_too_few():
    with pytest.raises(ValueError, match=r"must have 1 item, .*\[3, 3\].*join"):
        pf.grid([3, 3], pf.sinusoidal(8))


def test_offsets_are_exact():
    both = np.eye(8)
    same(E.transition_matrix(LARGE), E.transition_matrix(np.array(LARGE)))
    same(E.transition_matrix(np.timedelta64(5, "s")), E.transition_matrix(5))
    same(E.shift(both, timedelta(seconds=5)), E.shift(both, 5))
    np.testing.assert_allclose(E.similarity([LARGE, 0.5]), [E.similarity(LARGE), E.similarity(0.5)], rtol=1e-15)
    assert abs(float(E.transition_matrix(LARGE)[0, 0]) - float(exact.sincos(LARGE, mpmath.mpf(1))[1])) < 1e-15


def test_locate_accepts_any_interval():
    row = E.encode(12.5)
    expected = E.locate(row, low=0, high=20)
    assert E.locate(row, low=Fraction(0), high=np.float32(20)) == expected
    assert E.locate(row, low=np.timedelta64(0, "s"), high=timedelta(seconds=20)) == expected
    for bad, error in ((np.nan, ValueError), ("0", TypeError), ([1, 2], TypeError), (True, TypeError)):
        with pytest.raises(error, match="low"):
            E.locate(row, low=bad, high=20)


# ---- times ------------------------------------------------------------------------------------------------------

MICROSECONDS = np.datetime64(NOON, "us")
TIMES = {
    "datetime": (NOON, MICROSECONDS),
    "zoned": (NOON.replace(tzinfo=TOKYO), MICROSECONDS - np.timedelta64(9, "h")),
    "date": (DAY, np.datetime64(DAY, "D")),
    "timedelta": (timedelta(days=1, microseconds=7), np.timedelta64(86400 * 10**6 + 7, "us")),
    "early": (datetime(1, 1, 1), np.datetime64("0001-01-01", "us")),
}


@pytest.mark.parametrize(("time", "expected"), list(TIMES.values()), ids=list(TIMES))
def test_times_of_python(time, expected):
    row = E.encode(expected, dtype=np.float64)
    same(E.encode(time, dtype=np.float64), row)
    same(E.encode([time, None], dtype=np.float64), [row, NAN])
    same(E.encode(np.array([[time]], object), dtype=np.float64), [[row]])
    same(E.add_to(np.zeros((1, 8)), positions=[time]), [row])
    same(pf.grid([[time]], E, dtype=np.float64), [row])
    x = np.ones((1, 8))
    same(pf.Rotary(8).apply(x, positions=[time]), pf.Rotary(8).apply(x, positions=np.array([expected])))


def test_times_of_pandas():
    pd = optional("pandas")
    nano = np.datetime64("2026-03-29T12:00:00.123456789", "ns")
    stamp = pd.Timestamp(nano)
    for time, expected in (
        (stamp, nano),
        (stamp.tz_localize("Asia/Tokyo"), nano - np.timedelta64(9, "h")),
        (pd.Timedelta(7, "ns"), np.timedelta64(7, "ns")),
        (pd.Period("2026-03", "M"), np.datetime64("2026-03", "D")),
    ):
        row = E.encode(expected, dtype=np.float64)
        same(E.encode(time, dtype=np.float64), row)
        same(E.encode([time, pd.NaT], dtype=np.float64), [row, NAN])
        for column in (pd.Series([time, pd.NaT]), pd.Index([time, pd.NaT]), pd.Series([time, None], dtype=object)):
            same(E.encode(column, dtype=np.float64), [row, NAN])
            same(E.encode(column.array, dtype=np.float64), [row, NAN])
    same(E.encode(pd.NaT), NAN)
    same(E.encode(pd.NA), NAN)


def test_lazy_values_of_polars_are_refused_with_a_fix():
    pl = optional("polars")
    encoding = pf.sinusoidal(4)
    for lazy, words in (
        (pl.LazyFrame({"a": [1]}), r"positions is a lazy polars LazyFrame; pass positions\.collect\(\)"),
        (pl.col("a"), "positions is a polars expression, which has no values yet. Pass a column of a DataFrame, or"),
        (pl.lit(1), "map_batches"),
    ):
        with pytest.raises(TypeError, match=words):
            encoding.encode(lazy)
        with pytest.raises(TypeError, match=words):
            pf.Rotary(4).tables(lazy)
    # both fixes that the errors suggest work
    expected = encoding.encode([1, 2])
    frame = pl.LazyFrame({"a": [1, 2]})
    np.testing.assert_array_equal(encoding.encode(frame.collect()["a"]), expected)
    rows = pl.col("a").map_batches(
        lambda column: pl.Series(encoding.encode(column)), return_dtype=pl.Array(pl.Float32, 4)
    )
    np.testing.assert_array_equal(frame.select(rows).collect()["a"].to_numpy(), expected)


def test_times_of_arrow_and_polars():
    pd, pl, pa = optional("pandas"), optional("polars"), optional("pyarrow")
    zoned = NOON.replace(tzinfo=TOKYO)
    for time, column_types in (
        (NOON, ("timestamp[ns][pyarrow]", pl.Datetime("ns"), pa.timestamp("us"))),
        (
            zoned,
            ("timestamp[us, Asia/Tokyo][pyarrow]", pl.Datetime("us", "Asia/Tokyo"), pa.timestamp("ns", "Asia/Tokyo")),
        ),
        (DAY, (pd.ArrowDtype(pa.date32()), pl.Date, pa.date32())),
        (timedelta(days=1), ("duration[us][pyarrow]", pl.Duration("ms"), pa.duration("s"))),
    ):
        row = E.encode(time)
        for make, column_type in zip((pd.Series, pl.Series, pa.array), column_types, strict=True):
            values = [time, None]
            column = make(values, dtype=column_type) if make is not pa.array else pa.array(values, column_type)
            same(E.encode(column), [row, NAN])


def test_times_of_several_units_are_exact():
    times = [np.datetime64("3000-01-01", "s"), np.datetime64(1, "ns"), None, DAY]
    same(E.encode(times), np.stack([rows(times[0], times[1]), [NAN, E.encode(DAY)]]).reshape(4, 8))
    with pytest.raises(TypeError, match="mixture"):
        E.encode([np.timedelta64(1, "s"), np.datetime64(1, "s")])


def test_times_in_scikit_learn():
    pd, encoder = optional("pandas"), optional("posenc_fast.sklearn").PositionalEncoder(periods=["12h", "7s"])
    clock = pf.fourier_features(pf.periodic(["12h", "7s"]), layout="interleaved")
    times = [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=TOKYO)]
    frame = pd.DataFrame({"object": pd.Series(times, dtype=object), "day": pd.Series([DAY, None], dtype=object)})
    got = encoder.fit_transform(frame)
    same(got[:, :4], clock.encode(times))
    same(got[:, 4:], clock.encode([DAY, None]))


# ---- one position -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
def test_one_position_of_any_type_has_the_bits_of_many():
    for code in "bBhHiIlLqQefdg":
        value = np.dtype(code).type(3.0)
        many = E.encode(np.full(3, value))[0]
        same(E.encode([value])[0], many)
        for one in (value, np.array(value), np.array([value]), np.array([[value]])):
            got = E.encode(one)
            assert got.shape == (*np.shape(one), 8)
            same(got.reshape(8), many)
            same(E.encode(one, out=np.empty_like(got)), got)
    for bad in (True, np.True_, np.array([True]), np.array(1j)):
        with pytest.raises(TypeError, match="positions"):
            E.encode(bad)


@pytest.mark.usefixtures("backend")
def test_one_tensor():
    torch = optional("torch")
    for tensor_type in ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "float64"):
        for shape in ((), (1,), (1, 1), (2,)):
            one = torch.full(shape, 3, dtype=getattr(torch, tensor_type))
            same(E.encode(one), np.broadcast_to(E.encode(3.0), (*shape, 8)))
    with pytest.raises(TypeError, match="bool"):
        E.encode(torch.tensor(True))


# ---- bfloat16, tensors ------------------------------------------------------------------------------------------


def halves():
    torch = optional("torch")
    optional("ml_dtypes")
    made = {"torch": lambda a: torch.from_numpy(np.asarray(a, np.float32)).bfloat16()}
    jax = optional("jax")
    return made | {"jax": lambda a: jax.numpy.asarray(a, dtype=jax.numpy.bfloat16)}


def test_bfloat16_positions_and_tables():
    for make in halves().values():
        same(E.encode(make([0.5, 3.0, 1e30])), E.encode(np.array([0.5, 3.0, float(make([1e30])[0])])))
        wide = pf.sinusoidal(64)
        table = make(wide.table(64))
        assert pf.identify(table).encoding == wide
        moved = pf.reorder_columns(table, "interleaved", "concatenated")
        assert moved.dtype.name == "bfloat16"
        same(
            moved.astype(np.float32), pf.reorder_columns(np.asarray(moved), "concatenated", "concatenated").astype("f4")
        )
        assert abs(float(wide.locate(table[7], low=0, high=64)[0]) - 7) < 0.1


def test_tensors_of_other_devices_are_refused():
    torch = optional("torch")
    for call in (E.encode, E.locate, pf.identify, E.similarity):
        # `identify` accepts tensors that require gradients, because weights of models do; other functions reject them
        if call is not pf.identify:
            with pytest.raises(ValueError, match=r"requires gradients.*detach"):
                call(torch.ones(16, 8, requires_grad=True))
        with pytest.raises(ValueError, match=r"meta.*a tensor with values"):
            call(torch.ones(16, 8, device="meta"))


def test_errors_for_tensors_name_the_torch_function():
    torch = optional("torch")
    x, rotary = torch.zeros(3, 8), pf.Rotary(8)
    for call, name in (
        (lambda: E.add_to(x), r"posenc_fast\.torch\.add_to"),
        (lambda: E.add_to(x.numpy(), out=x), r"posenc_fast\.torch\.add_to"),
        (lambda: E.encode([1, 2, 3], out=x), r"posenc_fast\.torch\.encode"),
        (lambda: E.table(3, out=x), r"posenc_fast\.torch\.table"),
        (lambda: E.table(3, out=x, dtype="f4"), r"posenc_fast\.torch\.table"),
        (lambda: rotary.apply(x), r"posenc_fast\.torch\.rotate"),
        (lambda: rotary.apply(x.numpy(), out=x), r"posenc_fast\.torch\.rotate"),
        (lambda: rotary.apply_tables(x, *rotary.tables(3)), r"posenc_fast\.torch\.apply_rotary_pos_emb"),
        (lambda: E.shift(x, 1), r"encoded\.numpy\(force=True\)"),
        (lambda: pf.grid([3], E, out=x), r"out\.numpy\(\)"),
    ):
        with pytest.raises(TypeError, match=name):
            call()


# ---- dtype and out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float64", "float32", "float16"])
def test_out_sets_the_dtype(name):
    expected = E.table(3, dtype=name)
    for call in (
        lambda out: E.table(3, out=out),
        lambda out: E.table(3, out=out, dtype=None),
        lambda out: E.encode([0, 1, 2], out=out),
        lambda out: pf.positional_encoding(3, 8, out=out),
        lambda out: pf.grid([3], E, out=out),
    ):
        out = np.empty((3, 8), name)
        assert call(out) is out
        same(out, expected)
    one = np.empty(8, name)
    same(E.encode(1.0, out=one), expected[1])
    pair = np.empty((3, 4), name), np.empty((3, 4), name)
    same(pf.Rotary(8).tables(3, out=pair)[1], pf.Rotary(8).tables(3, dtype=name)[1])


def test_default_dtype_is_float32():
    tables = E.table(3, dtype=None), pf.grid([3], E, dtype=None), pf.positional_encoding(3, 8, dtype=None)
    rows = E.encode([1], dtype=None), E.encode(1.0, dtype=None), pf.Rotary(8).tables(3, dtype=None)[0]
    assert {array.dtype.name for array in (*tables, *rows)} == {"float32"}


def test_out_sets_the_dtype_in_torch():
    torch, pt = optional("torch"), optional("posenc_fast.torch")
    out = torch.empty(3, 8, dtype=torch.float64)
    same(pt.table(E, 3, out=out).numpy(), E.table(3, dtype=np.float64))
    same(pt.encode(E, torch.arange(3), out=out).numpy(), E.encode([0, 1, 2], dtype=np.float64))
    assert pt.table(E, 3).dtype == torch.float32


@pytest.mark.parametrize("out", [np.zeros((8, 3), np.float32).T, np.zeros((3, 16), np.float32)[:, ::2]])
def test_columns_of_out_must_be_adjacent(out):
    for call in (
        lambda: E.table(3, out=out),
        lambda: E.encode([1, 2, 3], out=out),
        lambda: E.add_to(np.ones((3, 8), np.float32), out=out),
        lambda: pf.grid([3], E, out=out),
        lambda: pf.Rotary(8).apply(np.ones((3, 8), np.float32), out=out),
    ):
        with pytest.raises(ValueError, match=r"next to each other.*numpy\.empty\(\(3, 8\), 'float32'\)"):
            call()
        assert not out.any()


@pytest.mark.parametrize("unit", ["Y", "M"])
def test_years_beyond_64_bits_of_seconds(unit):
    times = np.array([0, 10**15]).astype(f"M8[{unit}]")
    with pytest.raises(ValueError, match="seconds since 1970 do not fit in 64 bits"):
        pf.sinusoidal(4).encode(times)
