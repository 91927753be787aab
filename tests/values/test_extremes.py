"""Test extreme arguments: enormous and infinite numbers, arrays with a false shape, and huge sizes.

pytest turns warnings into errors, and results that are correctly rounded to infinity must not cause a warning.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.encoding.sinusoids import Sinusoids  # noqa: F401 - a call in a table uses it
from posenc_fast._core.numbers.arguments import MOST_AMPLITUDE
from support import exact
from support.errors import raises, wrong_calls

pytestmark = pytest.mark.usefixtures("backend")

INF, NAN = float("inf"), float("nan")


# ---- enormous numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [10**400, -(2**70), 1e305, Fraction(10**400, 3)], ids=lambda s: type(s).__name__)
def test_step_after_the_only_row(step):
    """If there is only one row, the step may have any size, because no position uses it."""
    encoding, zero = pf.sinusoidal(6), np.zeros((1, 6), np.float32)
    for start, expected in ((3, encoding.table(4)[3:]), (3.5, encoding.encode([3.5]))):
        np.testing.assert_array_equal(encoding.table(1, start=start, step=step), expected)
        np.testing.assert_array_equal(encoding.add_to(zero, start=start, step=step), expected)
        assert encoding.table(0, start=start, step=step).shape == (0, 6)


@pytest.mark.parametrize("position", [[5e-324, 0.0], [0.0, -1e-310], [1e-310, 2.0]], ids=str)
def test_tiny_angles_on_several_axes(position):
    row = pf.fourier_features([[1.0, 0.0], [0.0, 1.0]]).encode(position, dtype=np.float64)
    np.testing.assert_array_equal(row.reshape(2, 2).T, pf.fourier_features([1.0]).encode(position, dtype=np.float64))
    shifted = pf.Encoding([1.0, 1.0], phases=[0, 0.1]).encode(position[0], dtype=np.float64)
    assert shifted[0] == position[0]


def test_precision_float32_beyond_float32():
    assert np.isnan(pf.sinusoidal(4).encode([1e300, 1e40], precision="float32")).all()


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_missing_and_enormous_coordinates(dtype):
    encoding = pf.fourier_features([[0.0, 1.0], [1.0, 1e5]])
    for missing, other in itertools.product([NAN, INF, -INF], [1.0, 2.0**50, 1e300]):
        rows = encoding.encode(np.array([[missing, other], [other, missing], [0, 0]], dtype))
        assert np.isnan(rows[:2]).all()
        assert rows[2].tolist() == [0, 0, 1, 1]


def test_largest_amplitude():
    rows = pf.fourier_features([1.0], scale=MOST_AMPLITUDE).table(50, start=-25, dtype=np.float64)
    exact.assert_within(rows / MOST_AMPLITUDE, range(-25, 25), range(2), [mpmath.mpf(1)], "float64", call="table")
    # 1e200 exceeds float32, so the five values other than sin(0) are rounded to infinity
    assert np.isinf(pf.fourier_features([1.0], scale=1e200).table(3)).sum() == 5


@pytest.mark.parametrize("positions", [None, [0.5, 1.0]], ids=["table", "positions"])
@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_adding_to_infinite_values(name, positions):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    largest = float(ml_dtypes.finfo(dtype).max)
    x = np.array([[INF, -INF, NAN, largest]] * 2).astype(dtype)
    for x_scale, *expected in ((1.0, INF, -INF, largest), (2.0, INF, -INF, INF), (-1e308, -INF, INF, -INF)):
        got = pf.sinusoidal(4).add_to(x, x_scale=x_scale, positions=positions).astype(np.float64)
        np.testing.assert_array_equal(got, [[*expected[:2], NAN, expected[2]]] * 2)


@pytest.mark.parametrize("position", [0.0, 1.5, -3.0], ids=str)
@pytest.mark.parametrize(("x", "x_scale"), [
    (0.0, 1e300), (1e-300, 1e300), (1e305, 1e-305), (-1.7e308, 1e-305), (0.0, -1.7e308),
])  # fmt: skip
def test_sums_beyond_exact_arithmetic(x, x_scale, position):
    """Errors of sums with x or x_scale beyond 2**989 are within the bound of docs/accuracy.md."""
    term = Fraction(x) * Fraction(x_scale)
    for options in ({"positions": [position]}, {"start": position}):
        got = pf.fourier_features([np.pi]).add_to(np.full((1, 2), x), x_scale=x_scale, **options)[0]
        for value, true in zip(got, exact.sincos(position, exact.number(np.pi)), strict=True):
            assert abs(value - (true + exact.number(term))) <= 2.0**-51 * max(1, abs(float(term)))


@pytest.mark.parametrize("amplitude", [5e-324, 1e-310, 2.0**-960], ids="{:g}".format)
def test_products_with_amplitudes_that_underflow(amplitude):
    """Errors of rows with amplitudes of at most 2**-960 are within the bound of docs/accuracy.md."""
    positions = np.array([-1.0, 0.1, 1e-20, 1e-200, 3.0, -(2.0**40) - 0.5])
    rows = pf.fourier_features([1.0], scale=amplitude).encode(positions, dtype=np.float64)
    for row, position in zip(rows, positions, strict=True):
        for got, true in zip(row, exact.sincos(position, mpmath.mpf(1)), strict=True):
            assert abs(got - exact.number(amplitude) * true) <= 2.0**-1070 + 2.0**-52 * abs(got)


def test_rounding_to_infinity_does_not_warn():
    encoding = pf.sinusoidal(4, scale=1e6)
    assert np.isinf(encoding.encode(2.0**60, dtype=np.float16)).any()
    assert np.isinf(encoding.encode(1.0, variance=0.1, dtype=np.float16)).any()
    assert np.isinf(encoding.shift(np.full(4, 6e4, np.float16), 1.0)).any()
    assert np.isinf(pf.Rotary(4).apply(np.full((2, 4), 6e4, np.float16))).any()


@pytest.mark.parametrize("name", ["float64", "float32", "float16"])
def test_rotating_infinite_values(name):
    rotary = pf.Rotary(4, layout="interleaved")
    x = np.array([[INF, -INF, NAN, 1.0], [INF, 1.0, 0.0, -0.0], [1.0, -INF, 0.0, 1.0]], name)
    (a, b), (cos, sin) = (x[:, 0::2], x[:, 1::2]), rotary.tables(3, start=1, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        expected = np.stack([a * cos - b * sin, b * cos + a * sin], axis=-1).reshape(3, 4)
    np.testing.assert_allclose(rotary.apply(x, start=1), expected, rtol=0, atol=1e-15 + np.finfo(name).eps)


@pytest.mark.parametrize("width", [130, 2000], ids="width={}".format)
@pytest.mark.parametrize("build", [pf.sinusoidal, lambda d: pf.Encoding([0.5] * d)], ids=["many-waves", "one-wave"])
def test_scratch_memory_is_large_enough(build, width):
    """Each call computes right values for wide rows of each dtype.

    In builds with sanitizers, accesses beyond scratch memory are errors.
    """
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    encoding, positions = build(width), np.arange(5.0)
    for dtype, tolerance in ((np.float64, 1e-15), (np.float32, 1e-7), (np.float16, 5e-4), (bfloat16, 4e-3)):
        x, expected = np.zeros((2, 5, width), dtype), encoding.table(5, dtype=dtype).astype(float)
        for got in (
            encoding.encode(positions, dtype=dtype),
            encoding.add_to(x)[1],
            encoding.add_to(x, positions=positions)[1],
            encoding.add_to(x, positions=np.stack([positions, positions]))[1],
            encoding.add_to(x, start=0.0, step=1.0, precision="float32")[1],
            encoding.table(9, start=-4, step=1, dtype=dtype)[4:],
            encoding.table(5, step=1.0, dtype=dtype),
        ):
            np.testing.assert_allclose(got.astype(float), expected, rtol=0, atol=3e-7 + tolerance, err_msg=str(dtype))


# ---- unusual arrays ---------------------------------------------------------------------------------------------


class FalseShape(np.ndarray):
    """An array whose `shape` attribute is larger than its memory."""

    @property
    def shape(self):
        return (1000, 64)


class Unreadable(np.ndarray):
    """An array of a subclass whose methods for indexing and views raise TypeErrors."""

    __getitem__ = view = None


CALLS = {
    "table": lambda e, n, out: e.table(n, out=out),
    "encode": lambda e, n, out: e.encode(np.arange(n) + 0.5, out=out),
    "add_to": lambda e, n, out: e.add_to(np.zeros((n, e.d_model), np.float32), out=out),
    "add_to-itself": lambda e, n, out: e.add_to(out, out=out),
    "shift": lambda e, n, out: e.shift(np.zeros((n, e.d_model), np.float32), 0.5, out=out),
}
calls = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@calls
def test_shape_of_a_subclass_is_not_trusted(call):
    out = np.full((2, 4), 7, np.float32).view(FalseShape)
    with pytest.raises(ValueError, match=r"\(2, 4\)"):
        call(pf.sinusoidal(64), 1000, out)
    assert (np.asarray(out) == 7).all()


@calls
@pytest.mark.parametrize("subclass", [Unreadable, np.matrix, np.ma.MaskedArray, np.recarray], ids=lambda k: k.__name__)
def test_out_of_a_subclass(subclass, call):
    encoding, (memory, plain) = pf.sinusoidal(4), np.zeros((2, 3, 4), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        out = np.ndarray.view(memory, subclass)
    assert call(encoding, 3, out) is out
    call(encoding, 3, plain)
    assert memory.tobytes() == plain.tobytes()


def test_shape_changed_by_another_thread():
    """A call writes to `out` with the shape that it checked, although another thread changes the shape meanwhile."""
    encoding, n = pf.sinusoidal(16), 64
    out, stop, done = np.zeros((n, 16), np.float32), threading.Event(), 0

    def disturb():
        while not stop.is_set():
            out.shape = (1, n * 16)
            out.shape = (n, 16)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        thread = threading.Thread(target=disturb)
        thread.start()
        try:
            while done < 50:
                with contextlib.suppress(ValueError):
                    encoding.encode(np.arange(n), out=out)
                    done += 1
        finally:
            stop.set()
            thread.join()
    np.testing.assert_array_equal(out.reshape(n, 16), encoding.table(n))


@pytest.mark.parametrize("rows", [3, 500])
def test_unaligned_positions(rows):
    positions = np.zeros(8 * rows + 3, np.uint8)[3:].view(np.float64)
    assert not positions.flags.aligned
    positions[...] = np.arange(rows) / 3
    encoding = pf.sinusoidal(6)
    np.testing.assert_array_equal(encoding.encode(positions), encoding.encode(positions.copy()))


# ---- sizes ------------------------------------------------------------------------------------------------------


@wrong_calls("""
    pf.sinusoidal(2**30) | ValueError | d_model=1073741824 is too large
    Sinusoids((pf.geometric(1),), np.broadcast_to(0, (2**30, 1)), np.zeros(1), np.zeros(1)) | ValueError | d_model=1073741824 is too large
    pf.Encoding([1.0, 2.0], 0.0, [1, -1e300]) | ValueError | amplitudes; 1e+300
    pf.sinusoidal(4, scale=-1e300) | ValueError | 1e+300; a smaller scale
""")
def test_too_many_columns_and_too_large_amplitudes(call, error, words):
    raises(call, error, words)
