"""Test the Encoding: equality, copies, builders, positions, shift, similarity, locate and add_to."""

from __future__ import annotations

import copy
import itertools
import pickle
import pickletools
from fractions import Fraction
from functools import partial

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
    "sinusoidal-per-function": lambda: pf.sinusoidal(4, frequencies={"sin": [1, 2], "cos": [3, 4]}),
    "fourier": lambda: pf.fourier_features(ARRAY, functions=["sin"]),
    "dense": lambda: pf.fourier_features([[1.0, 2.0], [3.0, 4.0]]),
    "join": lambda: pf.join([pf.sinusoidal(4), pf.sinusoidal(6, base=7.0)]),
    "general": lambda: pf.Encoding(ARRAY, [0.1, 0.2, 0.3], [1, -2, 0.5]),
}
builds = pytest.mark.parametrize("build", list(BUILD.values()), ids=list(BUILD))


def rows(encoding):
    """Encode 6 evenly spaced positions, each with the same coordinate on all axes."""
    positions = np.linspace(-5, 9, 6)
    return encoding.encode(positions if encoding.ndim == 1 else np.stack([positions] * encoding.ndim, axis=-1))


# ---- a frozen value ---------------------------------------------------------------------------------------------


@builds
def test_equal_by_value(build):
    one, two = build(), build()
    assert one == two
    assert hash(one) == hash(two)
    for other in BUILD.values():
        assert (one == other()) is (build is other)
    assert one != "sinusoidal(8)"
    assert one != one.frequencies.tolist()


def test_unequal():
    four, axes = pf.sinusoidal(4), [pf.sinusoidal(4)] * 2
    for options in ({"base": 9999.0}, {"layout": "concatenated"}, {"scale": -1.0}):
        assert four != pf.sinusoidal(4, **options)
    assert pf.Encoding([1.0, 2.0]) != pf.Encoding([[1.0, 2.0]])
    assert pf.join(axes, axes=[0, 1]) != pf.join(axes, axes=[1, 0])


@pytest.mark.parametrize(("one", "two"), [
    (pf.sinusoidal(4), pf.sinusoidal(4, frequencies=pf.geometric(2))),
    (pf.Encoding([1.0, 2.0], 0.0), pf.Encoding(np.array([1, 2]), [0, 0], [1, 1])),
    (pf.fourier_features([1.0, 2.0]), pf.Encoding([1.0, 2.0, 1.0, 2.0], [0, 0, 0.25, 0.25])),
    (pf.sinusoidal(2, scale=0.0), pf.sinusoidal(2, scale=-0.0)),
    (pf.Encoding([1.0, 2.0], 0.0), pf.Encoding([1.0, 2.0], -0.0)),
], ids=["schedule", "spelling", "features", "zeros", "phases-of-zero"])  # fmt: skip
def test_equal_from_different_calls(one, two):
    assert one.frequencies.tolist() == two.frequencies.tolist()
    assert one == two
    assert hash(one) == hash(two)


@pytest.mark.parametrize("value", [
    *(build() for build in BUILD.values()),
    pf.geometric(4, base=7.0),
    pf.periodic(["1D", "7s"]),
    pf.Rotary(8, scaling={"rope_type": "linear", "factor": 2.0}),
], ids=repr)  # fmt: skip
def test_pickle_and_copy(value):
    pickles = [pickle.dumps(value, protocol) for protocol in (2, pickle.HIGHEST_PROTOCOL)]
    expected = rows(value) if isinstance(value, pf.Encoding) else None
    # now that `rows` has filled the caches of an encoding, copy it again
    pickles.append(pickle.dumps(value))
    for twin in (*map(pickle.loads, pickles), copy.copy(value), copy.deepcopy(value)):
        assert type(twin) is type(value)
        assert twin == value
        assert hash(twin) == hash(value)
        assert repr(twin) == repr(value)
        if isinstance(value, pf.Encoding):
            np.testing.assert_array_equal(rows(twin), expected)
    # pickles contain public names only
    for each in pickles:
        words = {word for _, text, _ in pickletools.genops(each) if isinstance(text, str) for word in text.split()}
        assert {word for word in words if word.startswith("posenc_fast")} <= {"posenc_fast"}


@builds
def test_frozen(build):
    encoding = build()
    expected = rows(encoding)
    for name in ("frequencies", "phases", "amplitudes", "d_model", "ndim", "wavelengths", "_phases", "anything"):
        with pytest.raises(AttributeError):
            setattr(encoding, name, 1)
        with pytest.raises(AttributeError):
            delattr(encoding, name)
    for name in ("phases", "amplitudes", "frequencies", "wavelengths"):
        array, before = getattr(encoding, name), getattr(encoding, name).copy()
        # an attribute is read-only, or a copy
        if array.flags.writeable:
            array[...] = 99.0
        np.testing.assert_array_equal(getattr(encoding, name), before)
        np.testing.assert_array_equal(rows(encoding), expected)


def test_later_changes_of_arguments_have_no_effect():
    given = [np.array([0.1, 2.0]) for _ in range(3)]
    encodings = pf.Encoding(*given), pf.fourier_features(given[0])
    expected = [rows(encoding).tobytes() for encoding in encodings]
    for array in given:
        array += 1
    assert [rows(encoding).tobytes() for encoding in encodings] == expected


# ---- attributes and schedules -----------------------------------------------------------------------------------


def test_attributes():
    encoding = pf.sinusoidal(5, base=16.0, functions=("sin", "-cos"), odd="zero", scale=3.0)
    assert (encoding.d_model, encoding.ndim) == (5, 1)
    assert encoding.frequencies.tolist() == [1, 1, 0.25, 0.25, 0]
    assert encoding.phases.tolist() == [0, 0.25, 0, 0.25, 0]
    assert encoding.amplitudes.tolist() == [3, -3, 3, -3, 0]
    expected = 2 * np.pi / np.array([1, 1, 0.25, 0.25])
    np.testing.assert_allclose(encoding.wavelengths, [*expected, np.inf], rtol=1e-15)
    axes = pf.fourier_features([[1.0, 0.0, -4.0], [0.5, 2.0, 0.0]], functions=["sin"])
    assert (axes.d_model, axes.ndim) == (2, 3)
    assert axes.frequencies.tolist() == [[1, 0, -4], [0.5, 2, 0]]
    expected = [[2 * np.pi, np.inf, np.pi / 2], [4 * np.pi, np.pi, np.inf]]
    np.testing.assert_allclose(axes.wavelengths, expected, rtol=1e-15)


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


@pytest.mark.parametrize("schedule", [
    pf.geometric(256),
    pf.geometric(64, base=5e5, freq_shift=1),
    pf.geometric(7, base=1e60, first=-0.3),
    pf.geometric(5, base=1e-9, first=1e-20),
    pf.geometric(3, base=1.0, first=2.0),
    pf.geometric(1, base=3.0, freq_shift=0.5),
    pf.geometric(4, first=0.0),
], ids=repr)  # fmt: skip
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
    # 1e16 / 1e-292 = 1e308 is less than the largest float64, 1.8e308
    assert np.asarray(pf.geometric(2, freq_shift=1, base=1e-292, first=1e16))[1] == 1e308


def test_linear():
    schedule = pf.linear(5, 1, 3)
    assert np.asarray(schedule).tolist() == [1, 1.5, 2, 2.5, 3]
    assert np.asarray(pf.linear(1, 2, 9)).tolist() == [2]
    assert np.asarray(pf.linear(11, 0, 1))[3] == 0.3
    assert schedule == pf.linear(5, 1.0, 3.0) != pf.linear(5, 1, 4)
    assert hash(schedule) == hash(pf.linear(5, 1.0, 3.0))
    assert pf.linear(2, 1, 2) != pf.geometric(2)
    assert eval(repr(schedule), vars(pf).copy()) == schedule


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
def test_join(rng):
    row, column, dense = pf.sinusoidal(6), pf.sinusoidal(5, base=9.0), pf.fourier_features(rng.normal(size=(2, 2)))
    points = rng.uniform(-9, 9, (7, 4))
    for axes, read in ((None, [0, slice(1, 3), 3]), ([1, (2, 0), 1], [1, [2, 0], 1])):
        joined = pf.join([row, dense, column], axes=axes)
        assert (joined.d_model, joined.ndim) == (15, 3 if axes else 4)
        parts = zip([row, dense, column], read, strict=True)
        expected = np.concatenate([part.encode(points[:, columns]) for part, columns in parts], axis=1)
        np.testing.assert_allclose(joined.encode(points[:, : joined.ndim]), expected, rtol=0, atol=6e-8)
    nested = pf.join([pf.join([row, column]), row])
    np.testing.assert_array_equal(nested.encode(points[:, :3]), pf.join([row, column, row]).encode(points[:, :3]))
    shared = pf.join([row, column], axes=[0, 0]).table(9)
    np.testing.assert_array_equal(shared, np.concatenate([row.table(9), column.table(9)], axis=1))


def test_layouts_of_calendar_cycles():
    times = np.array(["2026-03-01T05:00:00", "2026-07-09T22:30:00"], "M8[s]")
    interleaved, concatenated = (
        Cycles(["day", "week"], layout, None).encode(times, np.dtype(np.float64))
        for layout in ("interleaved", "concatenated")
    )
    np.testing.assert_array_equal(concatenated, interleaved[:, [0, 2, 1, 3]])


# ---- positions --------------------------------------------------------------------------------------------------


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
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_rows_of_missing_and_infinite_positions(dtype):
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    one = pf.sinusoidal(7, odd="zero")
    points = np.array([[1.0, 2.0], [1.0, np.nan], [-np.inf, 2.0]])
    for encoding, positions, valid in (
        (one, np.array([1.0, np.nan, np.inf, -np.inf, 2.0]), [0, 4]),
        (one, np.array(["1970-01-01T00:00:02", "NaT"], "M8[s]"), [0]),
        (pf.join([one, one]), points, [0]),
    ):
        got = encoding.encode(positions, dtype=dtype)
        np.testing.assert_array_equal(got[valid], encoding.encode(positions[valid], dtype=dtype))
        assert np.isnan(np.delete(got, valid, axis=0)).all()
    assert np.isnan(one.encode(np.nan, dtype=dtype)).all()


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("rows", [3, 5000])
def test_positions_in_the_memory_of_out(rows):
    # out contains the positions, so writing the first row overwrites positions of later rows
    encoding, out = pf.sinusoidal(8), np.empty((rows, 8))
    positions = out.reshape(-1)[:rows]
    positions[:] = np.arange(rows) + 0.5
    expected = encoding.encode(positions.copy(), dtype=np.float64)
    np.testing.assert_array_equal(encoding.encode(positions, out=out), expected)
    x = np.arange(8.0 * rows).reshape(rows, 8)
    expected = encoding.add_to(x, positions=x[:, 1].copy())
    np.testing.assert_array_equal(encoding.add_to(x, positions=x[:, 1], out=x), expected)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("axes", [1, 3])
def test_precision_float32(axes, rng):
    """This precision rounds frequencies, positions, their products, and the sums of products over several axes."""
    frequencies, points = rng.normal(size=(16, axes)), rng.uniform(0, 1e5, (50, axes))
    angles = np.zeros((50, 16), np.float32)
    for f, p in zip(frequencies.T.astype(np.float32), points.T.astype(np.float32), strict=True):
        angles += p[:, np.newaxis] * f
    encoding = pf.fourier_features(frequencies if axes > 1 else frequencies[:, 0])
    points = points if axes > 1 else points[:, 0]
    got = encoding.encode(points, precision="float32", dtype=np.float64)
    expected = np.hstack([np.sin(angles.astype(np.float64)), np.cos(angles.astype(np.float64))])
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-15)
    assert np.abs(encoding.encode(points) - expected).max() > 1e-4


# ---- shift, transition matrix, similarity -----------------------------------------------------------------------

PAIRED = {
    "sinusoidal": lambda rng: pf.sinusoidal(12),
    "concatenated": lambda rng: pf.sinusoidal(12, layout="concatenated", functions=("cos", "-sin"), scale=-0.5),
    "constant-column": lambda rng: pf.Encoding([0.0, 2.0, 2.0], [0.1, 0.3125, 0.0625], [3.0, 1.0, 1.0]),
    "negative-frequency": lambda rng: pf.fourier_features([-1.0, 0.3, -0.3]),
    "per-function": lambda rng: pf.sinusoidal(2, frequencies={"sin": [1.5], "cos": [1.5]}),
    "joined": lambda rng: pf.join([pf.fourier_features([1.5], functions=[f]) for f in ("sin", "cos")], axes=[0, 0]),
    "axes": lambda rng: pf.join([pf.sinusoidal(4), pf.sinusoidal(6, base=7.0)]),
    "dense": lambda rng: pf.fourier_features(rng.normal(size=(5, 2))),
}


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("make", PAIRED.values(), ids=PAIRED)
def test_moving_and_similarity(make, rng):
    encoding = make(rng)
    points, offsets = rng.uniform(-20, 20, (2, 30, encoding.ndim))
    if encoding.ndim == 1:
        points, offsets = points[:, 0], offsets[:, 0]
    here, offset = encoding.encode(points, dtype=np.float64), offsets[0]
    # the tolerance includes the rounding error of points + offset, which is multiplied by the frequencies
    there = encoding.encode(points + offset, dtype=np.float64)
    moved = encoding.shift(here, offset)
    np.testing.assert_allclose(moved, there, rtol=0, atol=5e-14)
    np.testing.assert_array_equal(encoding.shift(here.reshape(2, 3, 5, -1), offset), moved.reshape(2, 3, 5, -1))
    matrix = encoding.transition_matrix(offset)
    assert matrix.shape == (encoding.d_model,) * 2
    np.testing.assert_allclose(here @ matrix, there, rtol=0, atol=5e-14)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(encoding.d_model), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(matrix.T, encoding.transition_matrix(-offset))

    products = (here * encoding.encode(points + offsets, dtype=np.float64)).sum(axis=1)
    got = encoding.similarity(offsets)
    assert got.shape == (30,)
    np.testing.assert_allclose(got, products, rtol=0, atol=1e-12)
    np.testing.assert_allclose(encoding.similarity(-offsets), got, rtol=0, atol=1e-14)
    np.testing.assert_allclose(encoding.similarity(offset * 0), (here**2).sum(axis=1), rtol=1e-14)
    assert np.shape(encoding.similarity(offset)) == ()


@pytest.mark.parametrize("down", [True, False])
def test_shift_into_memory_that_overlaps(down):
    # the rows do not fit into one block, so a wrong order of blocks would overwrite input before it is read
    encoding = pf.sinusoidal(4)
    memory = encoding.table(150_000)
    given, out = (memory[:-1], memory[1:]) if down else (memory[1:], memory[:-1])
    expected = encoding.shift(given, 3)
    assert encoding.shift(given, 3, out=out) is out
    same(out, expected)


@pytest.mark.parametrize(("encoding", "column"), [
    (pf.sinusoidal(5), 4),
    (pf.sinusoidal(4, functions=("sin", "sin")), 0),
    (pf.sinusoidal(4, frequencies={"sin": [1, 2], "cos": [3, 4]}), 0),
    (pf.Encoding([1.0, 1.0], [0.0, 0.25], [1.0, 2.0]), 0),
    (pf.Encoding([1.0, 1.0], [0.0, 0.2]), 0),
], ids=["odd", "sines", "per-function", "amplitudes", "phases"])  # fmt: skip
def test_column_without_a_partner(encoding, column):
    x = np.full((2, encoding.d_model), 7.0)
    for call in (partial(encoding.shift, x, out=x), encoding.transition_matrix, encoding.similarity):
        with pytest.raises(ValueError, match=f"column {column}"):
            call(1)
    assert (x == 7).all()


# ---- locate -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    ("d_model", "base", "dtype", "tolerance"),
    [(32, 1e3, "f8", 1e-12), (32, 1e3, "f4", 1e-6), (4, 1e4, "f8", 1e-9), (6, 1e4, "f8", 1e-9)],
)
def test_locate(d_model, base, dtype, tolerance, rng):
    """With 4 or 6 columns, the best point of the search grid is wrong by whole waves."""
    encoding = pf.sinusoidal(d_model, base=base)
    positions = rng.uniform(-300, 300, (20, 10))
    rows = encoding.encode(positions, dtype=dtype)
    found, residual = encoding.locate(rows, low=-300, high=300)
    assert found.shape == residual.shape == (20, 10)
    np.testing.assert_allclose(found, positions, rtol=0, atol=tolerance)
    assert residual.max() < (1e-12 if dtype == "f8" else 1e-6)
    disturbed = rows + np.float32(rng.normal(scale=1e-3, size=rows.shape))
    found, residual = encoding.locate(disturbed, low=-300, high=300)
    np.testing.assert_allclose(found, positions, rtol=0, atol=0.01)
    distance = np.linalg.norm(encoding.encode(found, dtype=np.float64) - disturbed, axis=-1)
    np.testing.assert_allclose(residual, distance, rtol=0, atol=1e-5)


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
    found, residual = encoding.locate([np.zeros(8), np.full(8, 1e100), np.full(8, np.nan), np.full(8, np.inf)])
    np.testing.assert_allclose(residual[:2], [2, 1e100 * 8**0.5], rtol=1e-6)
    assert np.isfinite(found[:2]).all()
    assert np.isnan(found[2:]).all()
    found, residual = encoding.locate(encoding.encode(2.5).tolist())
    assert (found.shape, residual.shape) == ((), ())
    assert found == pytest.approx(2.5, abs=1e-5)
    assert encoding.locate(np.empty((0, 8)))[0].shape == (0,)


# ---- add_to -----------------------------------------------------------------------------------------------------

DTYPES = {"float64": 4e-16, "float32": 2.4e-7, "float16": 2e-3, "bfloat16": 1.6e-2}


def same(got, expected):
    """Assert that errors are at most about two machine epsilons of the dtype of got, times the largest value."""
    allowed = DTYPES[got.dtype.name] * np.abs(expected).max()
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=0, atol=allowed)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", DTYPES)
def test_add_to(name, rng):
    """`add_to` adds the rows of start and step, or of positions for one or for each sequence, on one or two axes."""
    x_dtype = pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else name
    one, two = pf.sinusoidal(10), pf.join([pf.sinusoidal(4), pf.sinusoidal(6)])
    cases = []
    for start, step in itertools.product((0.5, -3, 2**60), (1, -2, 0.25)):
        options = {"start": start, "step": step}
        cases.append((one, options, one.table(20, dtype=np.float64, **options)))
    for encoding, shape in ((one, (20,)), (one, (2, 20)), (one, (1, 20)), (two, (20, 2)), (two, (2, 20, 2))):
        positions = rng.uniform(-100, 100, shape)
        cases.append((encoding, {"positions": positions}, encoding.encode(positions, dtype=np.float64)))
    cases += [(one, {"x_scale": scale}, one.table(20, dtype=np.float64)) for scale in (0.0, 22.6, -0.5)]
    for encoding, options, rows in cases:
        x = rng.normal(size=(len(rows) if rows.ndim == 3 else 2, 20, 10)).astype(x_dtype)
        before, expected = x.copy(), options.get("x_scale", 1.0) * x.astype(np.float64) + rows
        got = encoding.add_to(x, **options)
        assert got.dtype == x_dtype
        same(got, expected)
        np.testing.assert_array_equal(x, before)
        assert encoding.add_to(x, **options, out=x) is x
        np.testing.assert_array_equal(x, got)


@pytest.mark.usefixtures("backend")
def test_parts_of_one_array():
    encoding, memory = pf.sinusoidal(4), np.arange(32.0).reshape(4, 8)
    left, right, before = memory[:, :4], memory[:, 4:], memory.copy()
    for x, out in ((left[:3], left[1:]), (left[1:], left[:3])):
        with pytest.raises(ValueError, match="overlap"):
            encoding.add_to(x, out=out)
        np.testing.assert_array_equal(memory, before)
    encoding.add_to(left, out=right)
    same(right, left + encoding.table(4, dtype=np.float64))
    np.testing.assert_array_equal(left, before[:, :4])


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("shape", [(), (2,)], ids=str)
@pytest.mark.parametrize("encoding", [
    pf.sinusoidal(7), pf.sinusoidal(600, base=3.0), pf.Encoding([1.0, 0.0], [0.1, 0.3]), pf.sinusoidal(4, first=1e9),
], ids=["narrow", "wide", "phases", "fast"])  # fmt: skip
def test_one_position_has_the_bits_of_many(encoding, shape, rng):
    many = rng.normal(size=(12, *shape)) * 10.0 ** rng.integers(-300, 15, (12, *shape))
    many[3, ...], many[4, ...], many[5, ...] = np.nan, np.inf, -(2.0**60)
    many[6:9] = rng.integers(-(2**53), 2**53, (3, *shape))
    expected = encoding.encode(many)
    for positions, row in zip(many, expected, strict=True):
        np.testing.assert_array_equal(encoding.encode(positions), row)
        if (np.isfinite(positions) & (np.trunc(positions) == positions)).all():
            np.testing.assert_array_equal(encoding.encode(positions.astype(np.int64)), row)
