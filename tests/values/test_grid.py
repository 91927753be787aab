"""Test `grid`: each point has the row of its coordinates, in any memory layout of `out`."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls

pytestmark = pytest.mark.usefixtures("backend")
DTYPES = [np.float64, np.float32, np.float16]
ROW, COLUMN = pf.sinusoidal(6), pf.sinusoidal(5, base=100.0, layout="concatenated")
ENCODINGS = {
    "one": pf.sinusoidal(7),
    "two": pf.join([ROW, COLUMN]),
    "two-swapped": pf.join([ROW, COLUMN], axes=[1, 0]),
    "three": pf.join([ROW, COLUMN, pf.sinusoidal(4, layout="concatenated")], axes=[2, 0, 1]),
    # columns of the first and of the second axis alternate
    "woven": pf.Encoding([[1.0, 0.0], [0.0, 2.0], [0.5, 0.0], [0.0, 0.25]], phases=[0.0, 0.25, 0.125, 0.5]),
    "constant": pf.Encoding([[0.0, 0.0], [0.0, 1.0]], phases=[0.25, 0.0], amplitudes=[-3.0, 2.0]),
    "dense": pf.fourier_features([[1.0, 2.0], [-0.5, 0.125], [0.3, 0.7]]),
    "partly-dense": pf.join([pf.fourier_features([[1.0, 2.0], [-0.5, 0.125]]), ROW], axes=[(0, 1), 1]),
}


def expected(axes, encoding, indexing="ij", dtype=np.float64):
    arrays = [np.arange(axis) if isinstance(axis, int) else axis for axis in axes]
    points = np.stack(np.meshgrid(*arrays, indexing=indexing), axis=-1)
    return encoding.encode(points if encoding.ndim > 1 else points[..., 0], dtype=dtype)


def agree(got, axes, encoding, indexing="ij"):
    exact = expected(axes, encoding, indexing)
    assert got.shape == exact.shape
    # the error is at most half a unit in the last place (float64: one unit) + 2^-50
    units = 1.0 if got.dtype == np.float64 else 0.5
    allowed = units * np.spacing(np.abs(exact).astype(got.dtype)).astype(np.float64) + 2.0**-50
    assert (np.abs(got.astype(np.float64) - exact) <= allowed).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", ENCODINGS)
def test_ranges_are_parts_of_the_grid(name, dtype):
    encoding = ENCODINGS[name]
    lengths, parts = [40, 30, 9][: encoding.ndim], [(7, 31), (2, 30, 3), (8, 0, -2)][: encoding.ndim]
    whole = pf.grid(lengths, encoding, dtype=dtype)
    agree(whole, lengths, encoding)
    some = pf.grid([range(*part) for part in parts], encoding, dtype=dtype)
    np.testing.assert_array_equal(some, whole[tuple(slice(*part) for part in parts)])


@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_coordinates(name, indexing, rng):
    encoding = ENCODINGS[name]
    axes = [rng.uniform(-9, 9, 4), np.arange(-3, 3), np.float32([0.5, 1e6])][: encoding.ndim]
    agree(pf.grid(axes, encoding, indexing=indexing), axes, encoding, indexing)


@pytest.mark.parametrize(("first", "last"), [
    (range(40), range(30)),
    (range(-(2**63), -(2**63) + 3), range(2**64 - 2, 2**64)),
    (np.array([2**62 + 1, -(2**60) - 3]), range(2)),
    (np.datetime64("2026-01-01T00", "h") + np.arange(3), range(4)),
    (np.array(["2026-01-01", "NaT"], "M8[s]"), np.array([0.5, np.nan])),
], ids=["small", "limits of 64 bits", "large", "times", "missing"])  # fmt: skip
def test_rows_of_each_axis(first, last):
    """A grid of joined encodings has the bits of the rows of each axis."""
    grid = pf.grid([first, last], ENCODINGS["two"])
    rows, columns = (e.encode([*axis]) for e, axis in ((ROW, first), (COLUMN, last)))
    missing = np.isnan(rows[:, None, :1]) | np.isnan(columns[:, :1])
    np.testing.assert_array_equal(grid[..., :6], np.where(missing, np.nan, rows[:, None]))
    np.testing.assert_array_equal(grid[..., 6:], np.where(missing, np.nan, columns))


@pytest.mark.parametrize("name", ["two", "dense"])
def test_out_may_hold_the_coordinates(name):
    encoding = ENCODINGS[name]
    out = np.zeros((3, 2, encoding.d_model), np.float32)
    coordinates = out.reshape(-1)[:3]
    coordinates[:] = [1.0, np.nan, 3.0]
    expected = pf.grid([np.array([1.0, np.nan, 3.0]), 2], encoding)
    np.testing.assert_array_equal(pf.grid([coordinates, 2], encoding, out=out), expected)


@pytest.mark.parametrize("name", ["two", "partly-dense"])
def test_workers_give_the_same(name):
    encoding = ENCODINGS[name]
    axes = [400, np.arange(300) / 7.0]
    np.testing.assert_array_equal(pf.grid(axes, encoding, workers=2), pf.grid(axes, encoding))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize(("shape", "part"), [
    ((1 + 6 * 7, 11), lambda room: room[1:].reshape(6, 7, 11)),
    ((12, 7, 20), lambda room: room[::-2, :, 3:14]),
    (6 * 7 * 11 + 1, lambda room: room.view(np.uint8)[1 : 1 - room.itemsize].view(room.dtype).reshape(6, 7, 11)),
], ids=["behind a class token", "strides", "unaligned"])  # fmt: skip
def test_out_in_a_larger_array(shape, part, dtype):
    room = np.full(shape, 9, dtype)
    out, before = part(room), room.copy()
    saved = out.copy()
    assert pf.grid([6, 7], ENCODINGS["two"], out=out) is out
    np.testing.assert_array_equal(out, pf.grid([6, 7], ENCODINGS["two"], dtype=dtype))
    out[...] = saved
    assert room.tobytes() == before.tobytes()


@pytest.mark.parametrize("kind", [np.float64, np.longdouble], ids=lambda t: t.__name__)
@pytest.mark.parametrize("missing", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["two", "dense", "constant"])
def test_missing_coordinates(name, missing, kind):
    """Missing coordinates give rows of NaN.

    Columns that depend on both axes add long doubles as exact fractions. NaN and infinity have no fraction.
    """
    encoding, first = ENCODINGS[name], np.array([1.5, missing, 3.0], kind)
    present = pf.grid([[1.5, 3.0], 4], encoding)
    assert np.isfinite(present).all()
    for last in (4, np.array([0.0, 1.0, 2.0, 3.0, missing])):
        grid = pf.grid([first, last], encoding)
        assert np.isnan(grid[1]).all()
        assert np.isnan(grid[:, 4:]).all()
        np.testing.assert_array_equal(grid[::2, :4], present)


def test_empty():
    assert pf.grid([0, 3], ENCODINGS["two"]).shape == (0, 3, 11)
    assert pf.grid([3, []], ENCODINGS["dense"]).shape == (3, 0, 6)
    assert pf.grid([range(5, 2), 3], ENCODINGS["two"]).shape == (0, 3, 11)


def dense(*axes, **options):
    return pf.grid(axes, ENCODINGS["dense"], **options)


@wrong_calls("""
    pf.grid([3], 4) | TypeError | encoding must be an Encoding, not int
    pf.grid(3, ENCODINGS["dense"]) | ValueError | axes; 2 items; 3
    dense(3) | ValueError | axes; 2 items; (3,)
    dense(3, -1) | ValueError | axes[1]; -1
    dense([[1.0]], 3) | ValueError | axes[0]; (1, 1)
    dense(3, 2.5) | ValueError | axes[1]; ()
    dense(3, 4, indexing="yx") | ValueError | indexing; 'yx'; 'ij'
    dense(3, 4, workers=0) | ValueError | workers must not be 0
    dense(range(2**64), 2) | ValueError | too large
    dense(3, range(2**64 - 1, 2**64 + 1)) | ValueError | axes[1]; 18446744073709551616
""")
def test_wrong_arguments(call, error, words):
    raises(call, error, words)


def test_wrong_out_is_unchanged():
    swapped, wide = np.zeros((4, 3, 6), np.float32), np.zeros((3, 4, 6))
    raises(lambda: dense(3, 4, out=swapped), ValueError, ["out", "(4, 3, 6)", "(3, 4, 6)"])
    raises(lambda: dense(3, 4, out=wide, dtype=np.float32), ValueError, ["out", "float64"])
    assert not swapped.any()
    assert not wide.any()
