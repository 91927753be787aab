"""Test each kind of positions in each function: lists, columns, masked arrays, times, small dtypes, tensors."""

from __future__ import annotations

import functools
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from support import exact
from support.errors import raises, wrong_calls
from support.optional import optional
from support.tables import each_line

E = pf.sinusoidal(8)
TWO = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
FAST = pf.fourier_features([1.0, 2.0**-20])
LARGE = 2**60 + 1
ENDS = [-1, 2**63 + 1]
NAN = [np.nan] * 8
DAY = date(2026, 3, 29)
NOON = datetime(2026, 3, 29, 12, 0, 0, 123457)
TOKYO = timezone(timedelta(hours=9))
ZONED = NOON.replace(tzinfo=TOKYO)
SPAN = timedelta(days=1)


def same(got, expected, **options):
    np.testing.assert_array_equal(got, np.array(expected), **options)


def rows(*positions, dtype="f4"):
    """Return the rows of positions, encoded one by one. None becomes a row of NaN."""
    return np.stack([np.full(8, np.nan, dtype) if p is None else E.encode(p, dtype=dtype) for p in positions])


def fraction(position):
    """Return a number, or the seconds of a duration, as a fraction."""
    if isinstance(position, np.timedelta64):
        return Fraction(int(position.astype("m8[ns]").astype(int)), 10**9)
    return Fraction(*(int(position) if isinstance(position, np.integer) else position).as_integer_ratio())


def assert_exact(row, angles, bound):
    """Assert that a row has the sines and then the cosines of angles, with errors below half an ulp plus a bound."""
    for i, angle in enumerate(angles):
        for value, expected in zip(row[[i, i + len(angles)]], exact.sincos(angle, mpmath.mpf(1)), strict=True):
            assert exact.excess(value, expected, "float64") < bound


# ---- integers ---------------------------------------------------------------------------------------------------


# NumPy would convert such lists to float64, which rounds 2**53 + 1 to 2**53
@pytest.mark.parametrize("numbers", [
    [LARGE, 0.5], [2**53 + 1, 0.5], [0.5, -LARGE], [[LARGE], [0.25]], (2**64 - 1, -0.5), [2**53 + 1, Fraction(1, 3)],
    [np.int64(LARGE), np.float32(0.5)], [np.array([LARGE]), np.array([0.5])], [np.longdouble(LARGE), 3],
], ids=repr)  # fmt: skip
@pytest.mark.usefixtures("backend")
def test_mixed_numbers_are_exact(numbers):
    got = FAST.encode(numbers, dtype=np.float64).reshape(2, 4)
    for position, row in zip(map(fraction, np.array(numbers, object).ravel()), got, strict=True):
        assert_exact(row, [position, position / 2**20], 2.0**-50)


INTS = [LARGE, None, 3]
T = np.array([5, 10**18 + 1, "NaT"], "M8[ns]")
# lines: a column, and the positions that it contains. Numbers stay exact, although some positions are missing.
COLUMNS = """
    [LARGE, None, 3] | INTS
    [LARGE, float("nan"), 3] | INTS
    [LARGE, np.datetime64("NaT", "s"), 3] | INTS
    np.array(INTS, object) | INTS
    np.array([LARGE, float("nan"), 3], object) | INTS
    np.array([LARGE, np.datetime64("NaT", "s"), 3], object) | INTS
    [None, None] | [None, None]
    np.ma.array([LARGE, 1, 3], mask=[False, True, False]) | INTS
    [np.ma.array([LARGE, 1, 3], mask=[False, True, False])] * 2 | INTS * 2
    [LARGE, np.ma.masked, 3] | INTS
    [[LARGE], [np.ma.masked], [3]] | INTS
    [[np.ma.array([LARGE, 1], mask=[False, True])], [np.ma.array([3, 3])]] | [LARGE, None, 3, 3]
    np.ma.masked | [None]
    np.ma.array([1, 2], mask=False) | [1, 2]
    np.ma.array(["NaT", "2026", "2025"], "M8[s]", mask=[0, 1, 0]) | [None, None, np.datetime64("2025", "s")]
    [np.datetime64("3000-01-01", "s"), np.datetime64(1, "ns"), None, DAY] | [np.datetime64("3000"), T[0] - np.timedelta64(4, "ns"), None, DAY]
    pd.Series(INTS, dtype="Int64") | INTS
    pd.Series(INTS, dtype="Int64").array | INTS
    pd.Index(pd.Series(INTS, dtype="Int64")) | INTS
    pd.Series(INTS, dtype="int64[pyarrow]") | INTS
    pd.Series(INTS, dtype=object) | INTS
    [LARGE, pd.NA, 3] | INTS
    [pd.Series([each], dtype="Int64") for each in INTS] | INTS
    [pd.Series(T)] * 2 | [*T, *T]
    pd.Series([NOON, None], dtype="timestamp[ns][pyarrow]") | [NOON, None]
    pd.Series([ZONED, None], dtype="timestamp[us, Asia/Tokyo][pyarrow]") | [ZONED, None]
    pd.Series([DAY, None], dtype=pd.ArrowDtype(pa.date32())) | [DAY, None]
    pd.Series([SPAN, None], dtype="duration[us][pyarrow]") | [SPAN, None]
    pl.Series(INTS) | INTS
    pl.Series(INTS, dtype=pl.Int128) | INTS
    pl.Series([INTS], dtype=pl.Array(pl.Int64, 3)) | INTS
    pl.Series([{"a": each} for each in INTS]) | INTS
    [pl.Series([each], dtype=pl.Int64) for each in INTS] | INTS
    [pl.Series(T)] * 2 | [*T, *T]
    pl.Series([NOON, None], dtype=pl.Datetime("ns")) | [NOON, None]
    pl.Series([ZONED, None], dtype=pl.Datetime("us", "Asia/Tokyo")) | [ZONED, None]
    pl.Series([DAY, None], dtype=pl.Date) | [DAY, None]
    pl.Series([SPAN, None], dtype=pl.Duration("ms")) | [SPAN, None]
    pa.array(INTS) | INTS
    pa.array(INTS).dictionary_encode() | INTS
    pa.chunked_array([pa.array(INTS).dictionary_encode()]) | INTS
    pa.RunEndEncodedArray.from_arrays([1, 2, 3], pa.array(INTS)) | INTS
    pa.chunked_array([[LARGE], [None, 3]]) | INTS
    [pa.scalar(LARGE), pa.scalar(None), 3] | INTS
    [pa.array([each], pa.int64()) for each in INTS] | INTS
    [pa.array(T)] * 2 | [*T, *T]
    pa.array([2.5, None]).dictionary_encode() | [2.5, None]
    pa.chunked_array([pa.array([2.5, None]).dictionary_encode()]) | [2.5, None]
    pa.array([5, None], pa.timestamp("ns")).dictionary_encode() | [T[0], None]
    pa.chunked_array([pa.array([5, None], pa.timestamp("ns")).dictionary_encode()]) | [T[0], None]
    pa.array([7, None], pa.duration("us")).dictionary_encode() | [timedelta(microseconds=7), None]
    pa.array([NOON, None], pa.timestamp("us")) | [NOON, None]
    pa.array([ZONED, None], pa.timestamp("ns", "Asia/Tokyo")) | [ZONED, None]
    pa.array([DAY, None], pa.date32()) | [DAY, None]
    pa.array([SPAN, None], pa.duration("s")) | [SPAN, None]
"""


def of_packages(expression):
    """Return the value of an expression with pandas as pd, polars as pl, and pyarrow as pa."""
    packages = {"pd": "pandas", "pl": "polars", "pa": "pyarrow"}
    needed = {short: optional(name) for short, name in packages.items() if f"{short}." in expression}
    return eval(expression, globals() | needed)


@each_line(f"column | positions{COLUMNS}")
def test_columns(column, positions):
    got = E.encode(of_packages(column), dtype="f8").reshape(-1, 8)
    same(got, rows(*of_packages(positions), dtype="f8"))


@pytest.mark.parametrize(("column", "values"), [
    ("np.ma.array([LARGE, 1, 3], mask=[0, 1, 0])", INTS),
    ('pd.Series(INTS, dtype="Int64")', INTS),
    ("pl.Series(INTS)", INTS),
    ("pa.array(INTS)", INTS),
])  # fmt: skip
@pytest.mark.usefixtures("backend")
def test_columns_with_nulls_in_each_function(column, values):
    positions, x = of_packages(column), np.ones((3, 8))
    same(E.add_to(np.zeros_like(x, "f4"), positions=positions), rows(*values))
    same(pf.grid([positions], E), rows(*values))
    for scaling in (None, {"rope_type": "linear", "factor": 3.0}):
        rotary = pf.Rotary(8, scaling=scaling)
        applied, tables = rotary.apply(x, positions=positions), np.hstack(rotary.tables(positions, dtype="f8"))
        assert np.isnan(np.hstack([applied, tables])[1]).all()
        for i in (0, 2):
            one = np.hstack(rotary.tables(1, start=values[i], dtype="f8"))
            np.testing.assert_allclose(tables[i : i + 1], one, rtol=0, atol=3e-16)
            np.testing.assert_allclose(applied[i : i + 1], rotary.apply(x[:1], start=values[i]), rtol=0, atol=4e-16)


def test_missing_positions_on_one_of_two_axes():
    same(TWO.encode([[None, 1], [2, 3]]), np.stack([NAN, TWO.encode([2, 3])]))
    same(TWO.encode(np.array([["NaT", "2026"], ["2025", "2026"]], "M8[s]"))[0], NAN)
    same(TWO.encode(np.ma.array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]])), np.stack([NAN, TWO.encode([3, 4])]))
    # one column of a frame has missing values, or all columns
    for last in (4, None):
        holes = optional("pandas").DataFrame({"a": [LARGE, None, 3], "b": [2, 1, last]}, dtype="Int64")
        same(TWO.encode(holes), np.stack([TWO.encode([LARGE, 2]), NAN, TWO.encode([3, 4]) if last else NAN]))


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
        words = ["positions contains lists or arrays instead of numbers; ", lists.__name__]
        raises(functools.partial(E.encode, column), TypeError, words)
        np.testing.assert_array_equal(E.encode(lists(column)).reshape(-1, 8), rows(*values))


@pytest.mark.parametrize("kind", ["M8", "m8"])
@pytest.mark.parametrize("unit", ["s", "ns", "as"])
def test_lists_of_arrays_of_times(kind, unit):
    """Lists of arrays of times keep their unit. As objects, times finer than microseconds would become integers."""
    t = np.array([5, -7, 2**60 + 1], f"{kind}[{unit}]")
    expected, x = E.encode(t, dtype="f8"), np.ones((2, 3, 8))
    assert abs(expected[0, 0]) < 1e-5 or unit == "s"
    both = np.stack([expected, expected])
    for given in ([t, t], (t, t), [list(t), t], [t, np.ma.array(t)], [np.array(t[0]), t[0]]):
        same(E.encode(given, dtype="f8").reshape(2, -1, 8), both[:, : np.size(given) // 2])
    same(E.encode([[t], [t]], dtype="f8"), both[:, np.newaxis])
    same(E.add_to(x * 0, positions=[t, t]), both)
    same(pf.Rotary(8).apply(x, positions=[t, t]), pf.Rotary(8).apply(x, positions=np.stack([t, t])))
    same(TWO.encode([t[:2]]), TWO.encode(t[np.newaxis, :2]))


def test_frames_of_several_types():
    pd, pl, pa = optional("pandas"), optional("polars"), optional("pyarrow")
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        same(TWO.encode(make({"a": [LARGE, 3], "b": [0.5, 0.25]})), TWO.encode([[LARGE, 0.5], [3, 0.25]]))


# ---- the same conversion in each function -----------------------------------------------------------------------


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


@pytest.mark.usefixtures("backend")
def test_grid_of_int64_and_uint64():
    same(pf.grid([ENDS], E), E.encode(ENDS))
    dense = pf.fourier_features([[1.0, 0.5], [2.0**-40, 1.0]])
    for one, other in (
        ([LARGE, 2], np.array([1, 2], np.uint8)),
        (ENDS, [LARGE]),
        ([0.5], np.array([LARGE, 5])),
        (range(2**63, 2**63 + 2), [0.25]),
        (range(2**64 - 2, 2**64), np.array([2**64 - 2, 2**64 - 1], np.uint64)),
        (np.array([2**53 + 1, 2**53 + 2]), np.array([2**53 + 1, 2**53 + 2])),
        (np.array([1, 2], "m8[ns]"), np.array([3], "m8[s]")),
        (np.array([1, 2], "m8[ns]"), [0.1, LARGE]),
    ):
        got = pf.grid([one, other], dense, dtype=np.float64)
        for i, a in enumerate(map(fraction, one)):
            for j, b in enumerate(map(fraction, other)):
                assert_exact(got[i, j], [a + b / 2, a / 2**40 + b], 2.0**-49)


def test_offsets_are_exact():
    both = np.eye(8)
    same(E.transition_matrix(LARGE), E.transition_matrix(np.array(LARGE)))
    same(E.transition_matrix(np.timedelta64(5, "s")), E.transition_matrix(5))
    same(E.shift(both, timedelta(seconds=5)), E.shift(both, 5))
    np.testing.assert_allclose(E.similarity([LARGE, 0.5]), [E.similarity(LARGE), E.similarity(0.5)], rtol=1e-15)
    assert abs(float(E.transition_matrix(LARGE)[0, 0]) - float(exact.sincos(LARGE, mpmath.mpf(1))[1])) < 1e-15
    row = E.encode(12.5)
    assert E.locate(row, low=Fraction(0), high=timedelta(seconds=20)) == E.locate(row, low=0, high=20)


# ---- times ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("time", "expected"), [
    (NOON, np.datetime64(NOON, "us")),
    (ZONED, np.datetime64(NOON, "us") - np.timedelta64(9, "h")),
    (DAY, np.datetime64(DAY, "D")),
    (timedelta(days=1, microseconds=7), np.timedelta64(86400 * 10**6 + 7, "us")),
    (datetime(1, 1, 1), np.datetime64("0001-01-01", "us")),
], ids=["datetime", "zoned", "date", "timedelta", "early"])  # fmt: skip
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
    frame = pl.LazyFrame({"a": [1, 2]})
    raises(lambda: E.encode(frame), TypeError, ["positions is a lazy polars LazyFrame; pass positions.collect()"])
    words = ["positions is a polars expression, which has no values yet. Pass a column of a DataFrame", "map_batches"]
    raises(lambda: pf.Rotary(4).tables(pl.col("a")), TypeError, words)
    # both fixes that the errors suggest work
    same(E.encode(frame.collect()["a"]), E.encode([1, 2]))
    kind = pl.Array(pl.Float32, 8)
    expression = pl.col("a").map_batches(lambda column: pl.Series(E.encode(column)), return_dtype=kind)
    same(frame.select(expression).collect()["a"].to_numpy(), E.encode([1, 2]))


# ---- bfloat16, tensors ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_bfloat16_positions_and_tables():
    torch, jax = optional("torch"), optional("jax")
    optional("ml_dtypes")
    wide = pf.sinusoidal(64)
    for make in (
        lambda a: torch.as_tensor(a, dtype=torch.bfloat16),
        lambda a: jax.numpy.asarray(a, dtype=jax.numpy.bfloat16),
    ):
        same(E.encode(make([0.5, 3.0, 1e30])), E.encode([0.5, 3.0, float(make([1e30])[0])]))
        same(E.encode(make(3.0)), E.encode(3.0))
        table = make(wide.table(64))
        assert pf.identify(table).encoding == wide
        moved = pf.reorder_columns(table, "interleaved", "concatenated")
        assert moved.dtype.name == "bfloat16"
        same(moved.astype("f4"), pf.sinusoidal(64, layout="concatenated").table(64, dtype="bfloat16").astype("f4"))
        assert abs(float(wide.locate(table[7], low=0, high=64)[0]) - 7) < 0.1


@pytest.mark.slow
@wrong_calls(
    """
    E.encode(torch.tensor(True)) | TypeError | positions; bool
    E.encode(grad) | ValueError | requires gradients; detach
    E.locate(grad) | ValueError | requires gradients; detach
    E.similarity(grad) | ValueError | requires gradients; detach
    E.encode(meta) | ValueError | meta; a tensor with values
    E.locate(meta) | ValueError | meta; a tensor with values
    E.similarity(meta) | ValueError | meta; a tensor with values
    pf.identify(meta) | ValueError | meta; a tensor with values
    E.add_to(x) | TypeError | posenc_fast.torch.add_to
    E.add_to(x.numpy(), out=x) | TypeError | posenc_fast.torch.add_to
    E.encode([1, 2, 3], out=x) | TypeError | posenc_fast.torch.encode
    E.table(3, out=x) | TypeError | posenc_fast.torch.table
    E.table(3, out=x, dtype="f4") | TypeError | posenc_fast.torch.table
    pf.Rotary(8).apply(x) | TypeError | posenc_fast.torch.rotate
    pf.Rotary(8).apply(x.numpy(), out=x) | TypeError | posenc_fast.torch.rotate
    pf.Rotary(8).apply_tables(x, *pf.Rotary(8).tables(3)) | TypeError | posenc_fast.torch.apply_rotary_pos_emb
    E.shift(x, 1) | TypeError | encoded.numpy(force=True)
    pf.grid([3], E, out=x) | TypeError | out.numpy()
    """,
    *("torch", "x", "grad", "meta"),
)
def test_tensors_without_values_or_in_place_of_arrays(call, error, words):
    torch = optional("torch")
    grad, meta = torch.ones(16, 8, requires_grad=True), torch.ones(16, 8, device="meta")
    raises(lambda: call(torch, torch.zeros(3, 8), grad, meta), error, words)


@wrong_calls("""
    pf.grid([3, 3], E) | ValueError | must have 1 item; [3, 3]; join
    E.locate(np.ones(8), low="0", high=20) | TypeError | low
    E.locate(np.ones(8), low=[1, 2], high=20) | TypeError | low
    E.locate(np.ones(8), low=True, high=20) | TypeError | low
    E.encode([np.timedelta64(1, "s"), np.datetime64(1, "s")]) | TypeError | mixture
    E.encode(np.array([0, 10**15]).astype("M8[Y]")) | ValueError | seconds since 1970 do not fit in 64 bits
    E.encode(np.array([0, 10**15]).astype("M8[M]")) | ValueError | seconds since 1970 do not fit in 64 bits
    E.encode(True) | TypeError | positions
    E.encode(np.True_) | TypeError | positions
    E.encode(np.array([True])) | TypeError | positions
    E.encode(np.array(1j)) | TypeError | positions
""")
@pytest.mark.usefixtures("backend")
def test_wrong_arguments(call, error, words):
    raises(call, error, words)


# ---- dtype and out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float64", "float32", "float16"])
def test_out_sets_the_dtype(name):
    expected = E.table(3, dtype=name)
    for call, *given in ((E.table, 3), (E.encode, [0, 1, 2]), (pf.positional_encoding, 3, 8), (pf.grid, [3], E)):
        assert call(*given, dtype=None).dtype == np.float32
        for options in ({}, {"dtype": None}):
            out = np.empty((3, 8), name)
            assert call(*given, out=out, **options) is out
            same(out, expected)
    same(E.encode(1.0, out=np.empty(8, name)), expected[1], strict=True)
    pair = np.empty((3, 4), name), np.empty((3, 4), name)
    same(pf.Rotary(8).tables(3, out=pair)[1], pf.Rotary(8).tables(3, dtype=name)[1])


def test_columns_of_out_must_be_adjacent():
    x, words = np.ones((3, 8), np.float32), ["next to each other", "empty((3, 8), 'float32')"]
    calls = [(E.table, 3), (E.encode, [1, 2, 3]), (E.add_to, x), (pf.grid, [3], E), (pf.Rotary(8).apply, x)]
    for out in (np.zeros((8, 3), np.float32).T, np.zeros((3, 16), np.float32)[:, ::2]):
        for call, *given in calls:
            raises(functools.partial(call, *given, out=out), ValueError, words)
        assert not out.any()
