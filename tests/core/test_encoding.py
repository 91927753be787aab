"""Test the Encoding: equality, copies, builders, positions, shift, similarity, locate and add_to."""

from __future__ import annotations

import copy
import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.encoding.cycles import Cycles
from posenc_fast._core.numbers import schedule as _schedule

ARRAY = np.array([3.0, 1.0, 0.5])
BUILD = {
    "sinusoidal": lambda: pf.sinusoidal(8),
    "sinusoidal-odd": lambda: pf.sinusoidal(7, base=50.0, freq_shift=0.5, first=2.0, odd="zero", scale=0.5),
    "sinusoidal-schedule": lambda: pf.sinusoidal(6, frequencies=pf.linear(3, 1, 2), layout="concatenated"),
    "sinusoidal-array": lambda: pf.sinusoidal(6, frequencies=ARRAY, functions=("cos", "-sin")),
    "sinusoidal-per-function": lambda: pf.sinusoidal(4, frequencies={"sin": [1, 2], "cos": [3, 4]}),
    "fourier": lambda: pf.fourier_features(ARRAY, functions=["sin"]),
    "dense": lambda: pf.fourier_features([[1.0, 2.0], [3.0, 4.0]]),
    "join": lambda: pf.join([pf.sinusoidal(4), pf.sinusoidal(6, base=7.0)]),
    "general": lambda: pf.Encoding(ARRAY, [0.1, 0.2, 0.3], [1, -2, 0.5]),
}
builds = pytest.mark.parametrize("build", list(BUILD.values()), ids=list(BUILD))


def rows(encoding, n=6, **options):
    """Encode n evenly spaced positions from -5 to 9, each with the same coordinate on all axes."""
    positions = np.linspace(-5, 9, n)
    return encoding.encode(
        positions if encoding.ndim == 1 else np.stack([positions] * encoding.ndim, axis=-1), **options
    )


# ---- a frozen value ---------------------------------------------------------------------------------------------


@builds
def test_equal_by_value(build):
    one, two = build(), build()
    assert one == two
    assert hash(one) == hash(two)
    assert len({one, two}) == 1
    for other in BUILD.values():
        assert (one == other()) is (build is other)
    assert one != "sinusoidal(8)"
    assert one != one.frequencies.tolist()


def test_unequal():
    four, axes = pf.sinusoidal(4), [pf.sinusoidal(4)] * 2
    others = [pf.sinusoidal(4, base=9999.0), pf.sinusoidal(4, layout="concatenated"), pf.sinusoidal(4, scale=-1.0)]
    for other in (pf.Encoding(pf.geometric(2), 0.0), pf.sinusoidal(5), *others):
        assert four != other, other
    assert pf.Encoding([1.0], 0.1) != pf.Encoding([1.0], 0.2)
    assert pf.Encoding([1.0, 2.0]) != pf.Encoding([[1.0, 2.0]])
    assert pf.join(axes, axes=[0, 1]) != pf.join(axes, axes=[1, 0])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (pf.sinusoidal(4), pf.sinusoidal(4, frequencies=pf.geometric(2))),
        (pf.Encoding([1.0, 2.0], 0.0), pf.Encoding(np.array([1, 2]), [0, 0], [1, 1])),
        (pf.fourier_features([1.0, 2.0]), pf.Encoding([1.0, 2.0, 1.0, 2.0], [0, 0, 0.25, 0.25])),
        (pf.fourier_features([2.0, 1.0]), pf.Encoding([2.0, 1.0, 2.0, 1.0], [0, 0, 0.25, 0.25])),
        (pf.sinusoidal(2, scale=0.0), pf.sinusoidal(2, scale=-0.0)),
        (pf.Encoding([1.0, 2.0], 0.0), pf.Encoding([1.0, 2.0], -0.0)),
    ],
    ids=["schedule", "spelling", "ascending-array", "descending-array", "zeros", "phases-of-zero"],
)
def test_equal_from_different_calls(one, two):
    assert one.frequencies.tolist() == two.frequencies.tolist()
    assert one == two
    assert hash(one) == hash(two)


@builds
def test_pickle_and_copy(build):
    encoding = build()
    twins = [pickle.loads(pickle.dumps(encoding, protocol)) for protocol in (2, pickle.HIGHEST_PROTOCOL)]
    expected = rows(encoding)
    # now that `rows` has filled the encoding's caches, copy the encoding again
    twins += [pickle.loads(pickle.dumps(encoding)), copy.copy(encoding), copy.deepcopy(encoding)]
    for twin in twins:
        assert type(twin) is type(encoding)
        assert twin == encoding
        assert hash(twin) == hash(encoding)
        assert repr(twin) == repr(encoding)
        np.testing.assert_array_equal(rows(twin), expected)


@builds
def test_frozen(build):
    encoding = build()
    for name in ("frequencies", "phases", "amplitudes", "d_model", "ndim", "wavelengths", "_phases", "anything"):
        with pytest.raises(AttributeError):
            setattr(encoding, name, 1)
        with pytest.raises(AttributeError):
            delattr(encoding, name)
    for name in ("phases", "amplitudes", "frequencies", "wavelengths"):
        before = rows(encoding).tobytes(), getattr(encoding, name).copy()
        array = getattr(encoding, name)
        try:
            array[...] = 99.0
        except ValueError:
            assert not array.flags.writeable
        assert rows(encoding).tobytes() == before[0]
        np.testing.assert_array_equal(getattr(encoding, name), before[1])


def test_later_changes_of_arguments_have_no_effect():
    frequencies, phases, amplitudes = np.array([1.0, 2.0]), np.array([0.0, 0.25]), np.array([1.0, 3.0])
    encoding = pf.Encoding(frequencies, phases, amplitudes)
    features, joined = pf.fourier_features(frequencies), pf.join([encoding])
    expected = [rows(e).tobytes() for e in (encoding, features, joined)]
    for array in (frequencies, phases, amplitudes):
        array += 1
    assert [rows(e).tobytes() for e in (encoding, features, joined)] == expected


@pytest.mark.parametrize("name", ["sinusoidal", "sinusoidal-odd", "sinusoidal-schedule", "join"])
def test_repr_rebuilds_the_encoding(name):
    encoding = BUILD[name]()
    assert eval(repr(encoding), vars(pf).copy()) == encoding


# ---- attributes and schedules -----------------------------------------------------------------------------------


def test_attributes_of_one_axis():
    encoding = pf.sinusoidal(5, base=16.0, functions=("sin", "-cos"), odd="zero", scale=3.0)
    assert (encoding.d_model, encoding.ndim) == (5, 1)
    assert encoding.frequencies.tolist() == [1, 1, 0.25, 0.25, 0]
    assert encoding.phases.tolist() == [0, 0.25, 0, 0.25, 0]
    assert encoding.amplitudes.tolist() == [3, -3, 3, -3, 0]
    np.testing.assert_allclose(encoding.wavelengths[:4], 2 * np.pi / np.array([1, 1, 0.25, 0.25]), rtol=1e-15)
    assert encoding.wavelengths[4] == np.inf


def test_attributes_of_several_axes():
    encoding = pf.fourier_features([[1.0, 0.0, -4.0], [0.5, 2.0, 0.0]], functions=["sin"])
    assert (encoding.d_model, encoding.ndim) == (2, 3)
    assert encoding.frequencies.tolist() == [[1, 0, -4], [0.5, 2, 0]]
    np.testing.assert_allclose(
        encoding.wavelengths, [[2 * np.pi, np.inf, np.pi / 2], [4 * np.pi, np.pi, np.inf]], rtol=1e-15
    )


@pytest.mark.parametrize("count", [1, 2, 7, 300])
def test_geometric(count):
    for shift in (0.0, 1.0, 0.5, -2.0):
        schedule = pf.geometric(count, base=5e5, freq_shift=shift, first=0.3)
        expected = 0.3 * np.append(1.0, 5e5 ** (-np.arange(1, count) / (count - shift)))
        np.testing.assert_allclose(np.asarray(schedule), expected, rtol=3e-15, err_msg=f"freq_shift={shift}")
        assert len(schedule) == count
        assert eval(repr(schedule), vars(pf).copy()) == schedule
    if count > 1:
        assert np.asarray(pf.geometric(count, freq_shift=1))[-1] == 1e-4


@pytest.mark.parametrize(
    "schedule",
    [
        pf.geometric(256),
        pf.geometric(64, base=5e5, freq_shift=1),
        pf.geometric(7, base=1e60, first=-0.3),
        pf.geometric(5, base=1e-9, first=1e-20),
        pf.geometric(3, base=1.0, first=2.0),
        pf.geometric(1, base=3.0, freq_shift=0.5),
        pf.geometric(4, first=0.0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("multiple", [1, 2**32], ids="multiple={}".format)
def test_fixed_point_has_the_bits_of_the_general_loop(schedule, multiple, monkeypatch):
    unit = Fraction(1, 1000)
    pairs = _schedule.split_turns(schedule, unit, multiple)
    # this limit disables fixed-point arithmetic: every progression exceeds it
    monkeypatch.setattr(_schedule, "_FIXED", -1)
    for function in (_schedule.turns, _schedule.split_turns):
        function.cache_clear()
    assert _schedule.split_turns(schedule, unit, multiple).tobytes() == pairs.tobytes()
    assert np.isfinite(pairs).all()
    assert multiple == 1 or np.abs(pairs[0]).max() <= 0.5


def test_a_progression_over_more_orders_than_float64_has():
    high, low = _schedule.split_turns(pf.geometric(40, base=1e300, freq_shift=38.0))
    assert high[0] == 1 / (2 * np.pi)
    assert high[1] == pytest.approx(1e-150 / (2 * np.pi), rel=1e-15)
    assert not high[5:].any()
    assert not low[5:].any()


def test_linear():
    assert np.asarray(pf.linear(5, 1, 3)).tolist() == [1, 1.5, 2, 2.5, 3]
    assert np.asarray(pf.linear(1, 2, 9)).tolist() == [2]
    assert np.asarray(pf.linear(11, 0, 1))[3] == 0.3
    assert pf.linear(5, 1, 3) == pf.linear(5, 1.0, 3.0) != pf.linear(5, 1, 4)
    assert hash(pf.linear(5, 1, 3)) == hash(pf.linear(5, 1.0, 3.0))
    assert pf.linear(2, 1, 2) != pf.geometric(2)
    assert pickle.loads(pickle.dumps(pf.linear(5, 1, 3))) == pf.linear(5, 1, 3)
    assert eval(repr(pf.linear(5, 1, 3)), vars(pf).copy()) == pf.linear(5, 1, 3)


def test_schedules_are_real_numbers(backend):
    # 10000^(-1/4) is exactly 0.1. float64 only approximates 0.1, which changes the rows of large positions.
    p = 2.0**52
    exact = pf.sinusoidal(8, odd="error").encode(p, dtype=np.float64)
    rounded = pf.sinusoidal(8, frequencies=[1, 0.1, 0.01, 0.001]).encode(p, dtype=np.float64)
    assert abs(exact[2] - rounded[2]) > 1e-3
    np.testing.assert_array_equal(exact[:2], rounded[:2])


# ---- general columns, features, several axes --------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("axes", [1, 2, 3, 5], ids="{}-axes".format)
def test_formula(axes, rng):
    frequencies = rng.uniform(-3, 3, (20, axes))
    phases, amplitudes = rng.uniform(-2, 2, 20), rng.uniform(-2, 2, 20)
    encoding = pf.Encoding(frequencies if axes > 1 else frequencies[:, 0], phases, amplitudes)
    positions = rng.uniform(-50, 50, (4, 3, axes))
    expected = amplitudes * np.sin(positions @ frequencies.T + 2 * np.pi * phases)
    got = encoding.encode(positions if axes > 1 else positions[..., 0], dtype=np.float64)
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-13)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("functions", [["sin"], ["cos", "sin"], ["cos", "-sin", "-cos"]], ids="|".join)
@pytest.mark.parametrize("axes", [1, 3], ids="{}-axes".format)
def test_fourier_features(axes, functions, layout, rng):
    frequencies = rng.normal(size=(6, axes))
    trig = {"sin": np.sin, "cos": np.cos, "-sin": lambda a: -np.sin(a), "-cos": lambda a: -np.cos(a)}
    positions = rng.normal(size=(9, axes)) * 10
    parts = np.stack([2.5 * trig[f](positions @ frequencies.T) for f in functions])
    expected = np.moveaxis(parts, 0, 2 if layout == "interleaved" else 1).reshape(9, -1)
    encoding = pf.fourier_features(
        frequencies if axes > 1 else frequencies[:, 0], functions=functions, layout=layout, scale=2.5
    )
    got = encoding.encode(positions if axes > 1 else positions[:, 0], dtype=np.float64)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-13)


@pytest.mark.usefixtures("backend")
def test_join_reads_its_axes(rng):
    row, column, dense = pf.sinusoidal(6), pf.sinusoidal(5, base=9.0), pf.fourier_features(rng.normal(size=(2, 2)))
    points = rng.uniform(-9, 9, (7, 4))
    joined = pf.join([row, dense, column])
    assert (joined.d_model, joined.ndim) == (15, 4)
    expected = [row.encode(points[:, 0]), dense.encode(points[:, 1:3]), column.encode(points[:, 3])]
    np.testing.assert_allclose(joined.encode(points), np.concatenate(expected, axis=1), rtol=0, atol=6e-8)
    shared = pf.join([row, dense, column], axes=[1, (2, 0), 1])
    assert (shared.d_model, shared.ndim) == (15, 3)
    expected = [row.encode(points[:, 1]), dense.encode(points[:, [2, 0]]), column.encode(points[:, 1])]
    np.testing.assert_allclose(shared.encode(points[:, :3]), np.concatenate(expected, axis=1), rtol=0, atol=6e-8)


@pytest.mark.usefixtures("backend")
def test_join_of_joins(rng):
    parts = [pf.sinusoidal(4, base=float(b)) for b in (10, 20, 30)]
    points = rng.uniform(-9, 9, (5, 3))
    nested = pf.join([pf.join(parts[:2]), parts[2]])
    np.testing.assert_array_equal(nested.encode(points), pf.join(parts).encode(points))
    np.testing.assert_array_equal(
        pf.join([parts[0], parts[1]], axes=[0, 0]).table(9),
        np.concatenate([parts[0].table(9), parts[1].table(9)], axis=1),
    )


def test_layouts_of_calendar_cycles():
    times = np.array(["2026-03-01T05:00:00", "2026-07-09T22:30:00"], "M8[s]")
    interleaved, concatenated = (
        Cycles(["day", "week"], layout, None).encode(times, np.dtype(np.float64))
        for layout in ("interleaved", "concatenated")
    )
    np.testing.assert_array_equal(concatenated, interleaved[:, [0, 2, 1, 3]])


# ---- positions --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
def test_position_dtypes():
    encoding = pf.sinusoidal(10)
    expected = encoding.encode(np.arange(100.0))
    for code in ("i1", "u1", "<i2", ">u2", "<i4", ">i4", "u4", "i8", ">i8", "u8", "f2", "f4", ">f8"):
        positions = np.arange(100).astype(code)
        for some, rows in (
            (positions, expected),
            (positions[::-3], expected[::-3]),
            (positions.reshape(5, 4, 5), expected.reshape(5, 4, 5, 10)),
            (positions[7], expected[7]),
        ):
            np.testing.assert_array_equal(encoding.encode(some), rows, err_msg=code)


@pytest.mark.usefixtures("backend")
def test_integer_positions_are_exact():
    encoding = pf.sinusoidal(16)
    for positions in (
        np.array([-(2**63), -(2**53) - 1, 2**53 + 1, 2**63 - 1], np.int64),
        np.array([2**53 + 1, 2**63 + 1, 2**64 - 1], np.uint64),
        [2**63 + 1, 2**64 - 1],
        # NumPy would convert a list that needs both int64 and uint64 to float64
        [2**63 + 1, -1],
        np.array([2**62 + 1], np.longdouble),
    ):
        expected = [encoding.table(1, start=int(p))[0] for p in positions]
        np.testing.assert_allclose(encoding.encode(positions), expected, rtol=0, atol=2**-24, err_msg=str(positions))


@pytest.mark.usefixtures("backend")
def test_times_are_exact_to_their_unit():
    encoding = pf.sinusoidal(8)
    seconds = np.array(["2026-01-01T00:00:00", "1969-12-31T23:59:59"], "M8[s]")
    expected = encoding.encode(seconds.astype(np.int64))
    for unit in ("s", "ms", "us", "ns"):
        np.testing.assert_allclose(encoding.encode(seconds.astype(f"M8[{unit}]")), expected, rtol=0, atol=2**-24)
    later = seconds.astype("M8[ns]") + np.timedelta64(1, "ns")
    assert (encoding.encode(later, dtype=np.float64) != encoding.encode(seconds, dtype=np.float64))[:, 0].all()
    np.testing.assert_array_equal(
        encoding.encode(np.array(["2026-03"], "M8[M]")), encoding.encode([np.datetime64("2026-03-01T00:00:00")])
    )
    np.testing.assert_array_equal(encoding.encode(seconds.astype(">M8[s]")), encoding.encode(seconds))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_rows_of_missing_and_infinite_positions(dtype):
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    encoding = pf.sinusoidal(7, odd="zero")
    got = encoding.encode([1.0, np.nan, np.inf, -np.inf, 2.0], dtype=dtype)
    assert np.isnan(got[1:4]).all()
    np.testing.assert_array_equal(got[[0, 4]], encoding.encode([1.0, 2.0], dtype=dtype))
    assert np.isnan(encoding.encode(np.nan, dtype=dtype)).all()
    times = np.array(["1970-01-01T00:00:02", "NaT"], "M8[s]")
    got = encoding.encode(times, dtype=dtype)
    np.testing.assert_array_equal(got[0], encoding.encode(2, dtype=dtype))
    assert np.isnan(got[1]).all()
    points = pf.join([encoding, encoding]).encode([[1.0, np.nan], [1.0, 2.0]], dtype=dtype)
    assert np.isnan(points[0]).all()
    assert np.isfinite(points[1]).all()


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("rows", [3, 5000])
def test_positions_in_the_memory_of_out(rows):
    # out contains the positions, so writing the first row overwrites positions of later rows
    encoding, out = pf.sinusoidal(8), np.empty((rows, 8))
    positions = out.reshape(-1)[:rows]
    positions[:] = np.arange(rows) + 0.5
    expected = encoding.encode(positions.copy(), dtype=np.float64)
    np.testing.assert_array_equal(encoding.encode(positions, out=out), expected)


@pytest.mark.usefixtures("backend")
def test_precision_float32_rounds_frequencies_positions_and_products(rng):
    encoding = pf.sinusoidal(32)
    positions = rng.uniform(0, 1e5, 50)
    angles = positions.astype(np.float32)[:, np.newaxis] * encoding.frequencies.astype(np.float32)
    expected = np.where(np.arange(32) % 2, np.cos(angles.astype(np.float64)), np.sin(angles.astype(np.float64)))
    got = encoding.encode(positions, precision="float32")
    np.testing.assert_allclose(got, expected, rtol=0, atol=2**-24)
    assert np.abs(encoding.encode(positions) - expected).max() > 1e-4


@pytest.mark.usefixtures("backend")
def test_precision_float32_rounds_sums_of_axes_and_their_products(rng):
    frequencies, points = (rng.normal(size=(n, 3)).astype(np.float32) for n in (5, 200))
    angles = np.zeros((200, 5), np.float32)
    for axis in range(3):
        angles = angles + points[:, axis, np.newaxis] * frequencies[:, axis]
    assert angles.dtype == np.float32
    got = pf.fourier_features(frequencies.astype(np.float64)).encode(points, precision="float32", dtype=np.float64)
    expected = np.hstack([np.sin(angles.astype(np.float64)), np.cos(angles.astype(np.float64))])
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-15)


# ---- shift, transition matrix, similarity -----------------------------------------------------------------------

PAIRED = {
    "sinusoidal": lambda rng: pf.sinusoidal(12),
    "concatenated": lambda rng: pf.sinusoidal(12, layout="concatenated", functions=("cos", "-sin"), scale=-0.5),
    "zero-column": lambda rng: pf.sinusoidal(13, odd="zero", freq_shift=1),
    "constant-column": lambda rng: pf.Encoding([0.0, 2.0, 2.0], [0.1, 0.3125, 0.0625], [3.0, 1.0, 1.0]),
    "negative-frequency": lambda rng: pf.fourier_features([-1.0, 0.3, -0.3]),
    "axes": lambda rng: pf.join([pf.sinusoidal(4), pf.sinusoidal(6, base=7.0)]),
    "dense": lambda rng: pf.fourier_features(rng.normal(size=(5, 2))),
}


@pytest.fixture(params=list(PAIRED.values()), ids=list(PAIRED))
def paired(request, rng):
    return request.param(rng)


def some(rng, encoding, n):
    """Return n random points, with one coordinate for each axis of the encoding."""
    points = rng.uniform(-20, 20, (n, encoding.ndim))
    return points if encoding.ndim > 1 else points[:, 0]


@pytest.mark.usefixtures("backend")
def test_moving(paired, rng):
    points, offset = some(rng, paired, 30), some(rng, paired, 1)[0]
    here, there = paired.encode(points, dtype=np.float64), paired.encode(points + offset, dtype=np.float64)
    # the tolerance includes the rounding error of points + offset, which is multiplied by the frequencies
    np.testing.assert_allclose(paired.shift(here, offset), there, rtol=0, atol=5e-14)
    matrix = paired.transition_matrix(offset)
    assert matrix.shape == (paired.d_model,) * 2
    np.testing.assert_allclose(here @ matrix, there, rtol=0, atol=5e-14)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(paired.d_model), rtol=0, atol=1e-14)
    np.testing.assert_allclose(matrix.T, paired.transition_matrix(-offset), rtol=0, atol=0)


@pytest.mark.parametrize(
    "moved", [(slice(0, -1), slice(1, None)), (slice(1, None), slice(0, -1))], ids=["after", "before"]
)
def test_shift_into_memory_that_overlaps(moved):
    # the rows do not fit into one block, so a wrong order of blocks would overwrite input before it is read
    encoding = pf.sinusoidal(4)
    memory = encoding.table(150_000)
    before, after = memory[moved[0]], memory[moved[1]]
    expected = encoding.shift(before, 3)
    assert encoding.shift(before, 3, out=after) is after
    same(after, expected)


@pytest.mark.usefixtures("backend")
def test_similarity(paired, rng):
    points, offsets = some(rng, paired, 6), some(rng, paired, 6)
    here = paired.encode(points, dtype=np.float64)
    there = paired.encode(points + offsets, dtype=np.float64)
    got = paired.similarity(offsets)
    assert got.shape == (6,)
    np.testing.assert_allclose(got, (here * there).sum(axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(paired.similarity(-offsets), got, rtol=0, atol=1e-14)
    np.testing.assert_allclose(paired.similarity(offsets[0] * 0), (here**2).sum(axis=1), rtol=1e-14)
    assert np.shape(paired.similarity(offsets[0])) == ()


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float64, 4e-16), (np.float32, 2.4e-7), (np.float16, 2e-3)], ids=["f8", "f4", "f2"]
)
def test_shift_of_each_dtype_and_shape(dtype, tolerance):
    encoding = pf.sinusoidal(16)
    table = encoding.table(24, dtype=dtype)
    expected = encoding.table(24, start=5, dtype=dtype)
    moved = encoding.shift(table, 5)
    assert moved.dtype == dtype
    np.testing.assert_allclose(moved, expected, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(encoding.shift(table.reshape(2, 3, 4, 16), 5), moved.reshape(2, 3, 4, 16))
    np.testing.assert_array_equal(encoding.shift(table[3], 5), moved[3])


@pytest.mark.parametrize(
    ("encoding", "column"),
    [
        (pf.sinusoidal(5), 4),
        (pf.sinusoidal(4, functions=("sin", "sin")), 0),
        (pf.fourier_features([1.0], functions=["cos"]), 0),
        (pf.sinusoidal(4, frequencies={"sin": [1, 2], "cos": [3, 4]}), 0),
        (pf.Encoding([1.0, 1.0], [0.0, 0.25], [1.0, 2.0]), 0),
        (pf.Encoding([1.0, 1.0], [0.0, 0.2]), 0),
    ],
    ids=["odd", "sines", "one-function", "per-function", "amplitudes", "phases"],
)
def test_column_without_a_partner(encoding, column):
    x = np.full((2, encoding.d_model), 7.0)
    out = x.copy()
    for call in (
        lambda: encoding.shift(x, 1, out=out),
        lambda: encoding.transition_matrix(1),
        lambda: encoding.similarity(1),
    ):
        with pytest.raises(ValueError, match=f"column {column}"):
            call()
    np.testing.assert_array_equal(out, x)


def test_partners_of_equal_frequency_from_several_builders():
    sine, cosine = (pf.fourier_features([1.5], functions=[name]) for name in ("sin", "cos"))
    for encoding in (
        pf.join([sine, cosine], axes=[0, 0]),
        pf.sinusoidal(2, frequencies={"sin": [1.5], "cos": [1.5]}),
    ):
        moved = encoding.shift(encoding.encode(2, dtype=np.float64), 0.5)
        np.testing.assert_allclose(moved, encoding.encode(2.5), rtol=0, atol=1e-7)


# ---- locate -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=lambda t: t.__name__)
def test_locate(dtype, rng):
    encoding = pf.sinusoidal(32, base=1000.0)
    positions = rng.uniform(-500, 500, (3, 4))
    found, residual = encoding.locate(encoding.encode(positions, dtype=dtype), low=-500, high=500)
    assert found.shape == residual.shape == (3, 4)
    np.testing.assert_allclose(found, positions, rtol=0, atol=1e-12 if dtype is np.float64 else 1e-6)
    assert residual.max() < (1e-12 if dtype is np.float64 else 1e-6)


@pytest.mark.usefixtures("backend")
def test_locate_with_noise(rng):
    encoding = pf.sinusoidal(64, base=1000.0)
    positions = rng.uniform(0, 300, 20)
    noise = rng.normal(size=(20, 64)) * 0.1
    found, residual = encoding.locate(encoding.encode(positions, dtype=np.float64) + noise, low=0, high=300)
    # Standard deviation of the best possible estimator (Cramér-Rao bound). `frequencies` has each frequency twice, for
    # the sine and for the cosine, so half of the sum counts each frequency once. Errors may be six times as large.
    deviation = 0.1 / np.sqrt((encoding.frequencies**2).sum() / 2)
    assert np.abs(found - positions).max() < 6 * deviation
    # the residual is at most the distance between the noisy row and the row of the original position
    assert (residual <= np.linalg.norm(noise, axis=1) + 1e-12).all()
    np.testing.assert_allclose(
        residual,
        np.linalg.norm(encoding.encode(found, dtype=np.float64) - encoding.encode(positions) - noise, axis=1),
        rtol=0,
        atol=1e-5,
    )


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("d_model", [4, 6])
def test_locate_with_frequencies_far_apart(d_model, rng):
    """`locate` finds positions even if the best point of its search grid is wrong by whole waves."""
    encoding = pf.sinusoidal(d_model)
    positions = rng.uniform(0, 600, 200)
    places, residual = encoding.locate(encoding.encode(positions, dtype=np.float64), low=0, high=600)
    np.testing.assert_allclose(places, positions, rtol=0, atol=1e-9)
    assert residual.max() < 1e-12
    disturbed = encoding.encode(positions) + np.float32(rng.normal(scale=1e-3, size=(200, d_model)))
    np.testing.assert_allclose(encoding.locate(disturbed, low=0, high=600)[0], positions, rtol=0, atol=0.01)


def test_locate_default_interval():
    encoding = pf.sinusoidal(8, base=10.0)
    half = encoding.wavelengths.max() / 2
    for p in (-half + 0.01, 0.0, half - 0.01):
        assert encoding.locate(encoding.encode(p, dtype=np.float64))[0] == pytest.approx(p, abs=1e-9)
    outside = half + 5.0
    assert abs(encoding.locate(encoding.encode(outside))[0]) <= half
    assert encoding.locate(encoding.encode(outside), high=outside + 1)[0] == pytest.approx(outside, abs=1e-5)
    assert encoding.locate(encoding.encode(3.0), low=3, high=3)[0] == 3


def test_locate_rows_of_no_position():
    encoding = pf.sinusoidal(8, base=10.0)
    found, residual = encoding.locate(np.array([np.zeros(8), np.full(8, np.nan), np.full(8, np.inf)]))
    assert residual[0] == pytest.approx(2)
    assert np.isnan(found[1:]).all()
    found, residual = encoding.locate(encoding.encode(2.5).tolist())
    assert (found.shape, residual.shape) == ((), ())
    assert found == pytest.approx(2.5, abs=1e-5)
    assert encoding.locate(np.empty((0, 8)))[0].shape == (0,)


def test_locate_rows_of_any_size():
    encoding = pf.sinusoidal(8, base=10.0)
    found, residual = encoding.locate(np.full(8, 1e100))
    assert np.isfinite(found)
    assert residual == pytest.approx(1e100 * 8**0.5)


# ---- add_to -----------------------------------------------------------------------------------------------------

DTYPES = {"float64": 4e-16, "float32": 2.4e-7, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.fixture(params=list(DTYPES))
def x_dtype(request):
    if request.param == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(request.param)


def same(got, expected, scale=1.0):
    """Assert that errors are at most about 2 * scale machine epsilons of the dtype of got, times the largest value."""
    np.testing.assert_allclose(
        got.astype(np.float64), expected, rtol=0, atol=DTYPES[got.dtype.name] * np.abs(expected).max() * scale
    )


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("how", ["new", "in-place", "out"])
def test_add_to(how, x_dtype, rng):
    encoding = pf.sinusoidal(10)
    for x_scale in (1.0, 0.0, 22.6, -0.5):
        x = rng.normal(size=(2, 3, 20, 10)).astype(x_dtype)
        expected = x_scale * x.astype(np.float64) + encoding.table(20, start=7, dtype=np.float64)
        before = x.copy()
        out = {"new": None, "in-place": x, "out": np.empty_like(x)}[how]
        got = encoding.add_to(x, start=7, x_scale=x_scale, out=out)
        assert got.dtype == x_dtype
        assert out is None or got is out
        same(got, expected)
        if how != "in-place":
            np.testing.assert_array_equal(x, before)


@pytest.mark.usefixtures("backend")
def test_rows_to_add(x_dtype, rng):
    """`add_to` adds the rows of start and step, or of positions for one or for each sequence, on one or two axes."""
    one, two = pf.sinusoidal(10), pf.join([pf.sinusoidal(4), pf.sinusoidal(6)])
    cases = []
    for start, step in itertools.product((0.5, -3, 2**60), (1, -2, 0.25)):
        options = {"start": start, "step": step}
        cases.append((one, options, one.table(20, dtype=np.float64, **options)))
    for encoding, shape in ((one, (20,)), (one, (2, 20)), (one, (1, 20)), (two, (20, 2)), (two, (2, 20, 2))):
        positions = rng.uniform(-100, 100, shape)
        cases.append((encoding, {"positions": positions}, encoding.encode(positions, dtype=np.float64)))
    for encoding, options, rows in cases:
        x = rng.normal(size=(len(rows) if rows.ndim == 3 else 2, 20, 10)).astype(x_dtype)
        expected = x.astype(np.float64) + rows
        same(encoding.add_to(x, **options), expected)
        assert encoding.add_to(x, **options, out=x) is x
        same(x, expected)


@pytest.mark.usefixtures("backend")
def test_positions_in_the_memory_of_x():
    encoding = pf.sinusoidal(4)
    x = np.arange(20.0).reshape(5, 4)
    expected = x + encoding.encode(x[:, 1], dtype=np.float64)
    encoding.add_to(x, positions=x[:, 1], out=x)
    same(x, expected)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("places", [(slice(0, 3), slice(1, 4)), (slice(1, 4), slice(0, 3))], ids=["after", "before"])
def test_overlap_is_an_error(places):
    memory = np.arange(16.0).reshape(4, 4)
    x, out = memory[places[0]], memory[places[1]]
    before = memory.copy()
    with pytest.raises(ValueError, match="overlap"):
        pf.sinusoidal(4).add_to(x, out=out)
    np.testing.assert_array_equal(memory, before)


@pytest.mark.usefixtures("backend")
def test_parts_of_one_array_that_do_not_overlap():
    memory = np.arange(32.0).reshape(4, 8)
    expected = memory[:, :4] + pf.sinusoidal(4).table(4, dtype=np.float64)
    pf.sinusoidal(4).add_to(memory[:, :4], out=memory[:, 4:])
    same(memory[:, 4:], expected)
    np.testing.assert_array_equal(memory[:, :4], np.arange(32.0).reshape(4, 8)[:, :4])


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    "shape", [(), (2,), *(pytest.param(s, marks=pytest.mark.slow) for s in ((1,), (1, 1)))], ids=str
)
@pytest.mark.parametrize(
    "encoding",
    [pf.sinusoidal(7), pf.sinusoidal(600, base=3.0), pf.Encoding([1.0, 0.0], [0.1, 0.3]), pf.sinusoidal(4, first=1e9)],
    ids=["narrow", "wide", "phases", "fast"],
)
def test_one_position_has_the_bits_of_many(encoding, shape, rng):
    many = rng.normal(size=(12, *shape)) * 10.0 ** rng.integers(-300, 15, (12, *shape))
    many[3, ...], many[4, ...], many[5, ...] = np.nan, np.inf, -(2.0**60)
    many[6:9] = rng.integers(-(2**53), 2**53, (3, *shape))
    expected = encoding.encode(many)
    for positions, row in zip(many, expected, strict=True):
        positions = np.asarray(positions)
        np.testing.assert_array_equal(encoding.encode(positions), row)
        np.testing.assert_array_equal(encoding.encode(positions.astype(">f8")), row)
        if (np.isfinite(positions) & (np.trunc(positions) == positions)).all():
            np.testing.assert_array_equal(encoding.encode(positions.astype(np.int64)), row)
        out = np.empty(row.shape, np.float32)
        assert encoding.encode(positions, out=out) is out
        np.testing.assert_array_equal(out, row)
        apart = np.zeros((*row.shape[:-1], 3, row.shape[-1]), np.float32)[..., 1, :]
        assert encoding.encode(positions, out=apart) is apart
        np.testing.assert_array_equal(apart, row)
    # the positions lie in the memory of out, so writing to out overwrites them
    memory = np.zeros(encoding.d_model)
    for given in (memory[:1], memory[1:2], memory[:1].reshape(()), memory[1::-1]):
        given[...] = 0.5 + np.arange(given.size).reshape(given.shape)
        expected = encoding.encode(given.copy())
        out = memory.view(np.float32)[: expected.size].reshape(expected.shape)
        np.testing.assert_array_equal(encoding.encode(given, out=out), expected)
