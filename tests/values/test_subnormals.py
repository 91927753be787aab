"""Test that results of small dtypes are rounded once, also subnormal ones. Rounding to float32 first would change some.

A column of frequency 0 and phase 0.25 equals its amplitude, so the tests can let each call round any float64.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.numbers.arguments import MOST_AMPLITUDE
from support import exact

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("backend")]

DTYPES = {"float32": np.dtype("f4"), "float16": np.dtype("f2"), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


@pytest.fixture(params=list(DTYPES))
def name(request):
    return request.param


def nearest(value, name):
    """Return the number of a dtype that is nearest to a float64, ties to even, by integer arithmetic."""
    if not math.isfinite(value) or value == 0:
        return value
    bits, least = exact.TYPES[name]
    quantum = Fraction(2) ** max(math.frexp(value)[1] - bits, least)
    rounded = round(Fraction(value) / quantum) * quantum
    largest = float(ml_dtypes.finfo(DTYPES[name]).max)
    return math.copysign(float(rounded) if abs(rounded) <= largest else math.inf, value)


def doubles(rng, name, count):
    """Return doubles at and near midpoints of subnormal and of normal numbers of a dtype, and others."""
    bits, least = exact.TYPES[name]
    normal = np.ldexp(rng.integers(2**bits, 2 ** (bits + 1), count) + 0.5, rng.integers(least, 0, count))
    others = np.ldexp(rng.uniform(1, 2, count), rng.integers(-900, 900, count))
    ends = [0.0, 2.0 ** (least - 1), 2.0**least, 2.0 ** (bits + least - 1)]
    values = np.concatenate([normal, normal * (1 - 2.0**-53), others, ends])
    values = np.concatenate([exact.near_midpoints(rng, name, count), values * rng.choice([1, -1], len(values))])
    return values[np.abs(values) < MOST_AMPLITUDE]


def same(got, expected):
    np.testing.assert_array_equal(got.astype(np.float64), expected)


CALLS = {
    "encode": lambda e, dtype: e.encode(np.arange(70) + 0.5, dtype=dtype),
    "encode one": lambda e, dtype: e.encode(0.5, dtype=dtype),
    "table": lambda e, dtype: e.table(70, start=-30, dtype=dtype),
    "rows": lambda e, dtype: e.table(70, start=2**40, step=-3, dtype=dtype),
    "add_to": lambda e, dtype: e.add_to(np.zeros((2, 70, e.d_model), dtype)),
    "add_to rows": lambda e, dtype: e.add_to(np.zeros((2, 70, e.d_model), dtype), positions=np.arange(70) + 0.5),
}


@pytest.mark.parametrize("width", [3, 700], ids="width={}".format)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_float64_is_rounded_once(call, width, name, rng):
    values = np.resize(rng.permutation(doubles(rng, name, 250)), width)
    got = call(pf.Encoding(np.zeros(width), 0.25, values), DTYPES[name]).reshape(-1, width)
    same(got, np.broadcast_to([nearest(float(v), name) for v in values], got.shape))


def assert_rounded_once(got, true, name, slack):
    """Assert that got is the exact value (true), rounded once to a dtype. slack: allowed error before the rounding."""
    assert exact.excess(got, true, name) <= slack, (float(got).hex(), mpmath.nstr(true, 25), slack)


def assert_rotated(got, pair, sine, cosine, name, slack):
    """Assert that both values of a rotated pair are rounded once. slack: allowed error for a pair of length 1."""
    rotated, length = exact.rotation(pair, sine, cosine)
    for value, true in zip(got, rotated, strict=True):
        assert_rounded_once(value, true, name, slack * float(length))


@pytest.mark.parametrize("call", ["table", "add_to", "add_to rows"])
def test_small_amplitudes(call, name, rng):
    d, rows, start = 64, 90, int(rng.integers(0, 10**6))
    bits, least = exact.TYPES[name]
    amplitude = 2.0 ** (least + int(rng.integers(1, bits))) * (1 + 2.0**-9)
    encoding, schedule, x_scale = pf.sinusoidal(d, scale=amplitude), exact.schedule(d), 0.30000001192092896
    x = (rng.integers(-9, 9, (rows, d)) * 2.0**least * (call != "table")).astype(DTYPES[name])
    if call == "table":
        got = encoding.table(rows, start=start, dtype=DTYPES[name])
    else:
        options = {"start": start} if call == "add_to" else {"positions": start + np.arange(float(rows))}
        got = encoding.add_to(x, x_scale=x_scale, **options)
    for i in rng.integers(0, rows, 30).tolist():
        for c in rng.integers(0, d, 12).tolist():
            true = amplitude * exact.sincos(start + i, schedule[c // 2])[c % 2]
            term = Fraction(x_scale) * Fraction(float(x[i, c]))
            assert_rounded_once(got[i, c], true + exact.number(term), name, 2.0**-50 * (amplitude + abs(float(term))))


# the cosine of this angle is slightly above 1/2, so rotations of the smallest numbers are near midpoints
ANGLE = math.acos(0.5 * (1 + 2.0**-17))


def test_shift(name, rng):
    encoding, least = pf.Encoding([1.0, 1.0], [0, 0.25]), 2.0 ** exact.TYPES[name][1]
    assert float(encoding.shift(np.array([0, least], DTYPES[name]), ANGLE)[1]) == least
    encoded = (rng.integers(-90, 90, (400, 2)) * least).astype(DTYPES[name])
    sine, cosine = exact.sincos(0.7, mpmath.mpf(1))
    for pair, row in zip(encoded, encoding.shift(encoded, 0.7), strict=True):
        # the columns are sine and cosine, so a shift rotates them by the opposite angle
        assert_rotated(row, pair, -sine, cosine, name, 2.0**-50)


@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
def test_rotations(layout, name, rng):
    # with base 1, all frequencies are 1, so all pairs rotate by the same angle
    rotary, least = pf.Rotary(40, base=1.0, layout=layout), 2.0 ** exact.TYPES[name][1]
    x = (rng.integers(-3, 4, (1, 40)) * least).astype(DTYPES[name])
    got = rotary.apply(x, start=ANGLE)
    before = x.reshape(2, 20).T if layout == "half" else x.reshape(20, 2)
    after = got.reshape(20, 2) if layout == "interleaved" else got.reshape(2, 20).T
    for pair, rotated in zip(before, after, strict=True):
        assert_rotated(rotated, pair, *exact.sincos(ANGLE, mpmath.mpf(1)), name, 2.0**-20)
    alone = pf.Rotary(2, base=1.0, layout=layout).apply(np.array([[least, 0]], DTYPES[name]), start=ANGLE)
    assert float(alone[0, 0]) == least


def test_nan_of_any_payload(name):
    """NaN of any bits stays NaN. If its bits were rounded like those of a number, a carry could reach the sign."""
    every = np.array([0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x7FF8000000000001], np.uint64).view(np.float64)
    assert np.isnan(pf.sinusoidal(40).encode(every, dtype=DTYPES[name]).astype(float)).all()
