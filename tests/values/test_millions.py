"""The accuracy of float32 and float64 over millions of samples, against exact integer arithmetic."""

from __future__ import annotations

import functools

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from support import exact

needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than double here"
)
WIDTH, SAMPLES = 64, 20000
RANGES = {
    "1e6": lambda rng: rng.integers(0, 10**6, SAMPLES).astype(np.float64),
    "unix seconds": lambda rng: rng.uniform(1.6e9, 1.9e9, SAMPLES),
    "unix milliseconds": lambda rng: rng.integers(1_600_000_000_000, 1_900_000_000_000, SAMPLES).astype(np.float64),
    "2^53": lambda rng: rng.integers(-(2**53), 2**53, SAMPLES).astype(np.float64),
}


@functools.cache
def samples(name, seed):
    """Positions, and the exact row of each: drawn once for all backends."""
    positions = RANGES[name](np.random.default_rng([seed, *name.encode()]))
    rows = np.empty((SAMPLES, WIDTH), np.longdouble)
    for i, frequency in enumerate(exact.schedule(WIDTH)):
        rows[:, 2 * i], rows[:, 2 * i + 1] = exact.fixed_point(positions.tolist(), frequency)
    return positions, rows


@needs_long_double
def test_fixed_point_agrees_with_mpmath(rng):
    frequencies = exact.schedule(WIDTH)
    for power in (-30, -3, 0, 3, 9, 15, 18):
        positions = (rng.uniform(-9, 9, 40) * 10.0**power).tolist()
        for i in (0, 1, 17, 31):
            for k, got in enumerate(exact.fixed_point(positions, frequencies[i])):
                for position, value in zip(positions, got, strict=True):
                    true = exact.sincos(position, frequencies[i])[k]
                    high = float(value)
                    with mpmath.workprec(exact.PRECISION):
                        error = abs(mpmath.mpf(high) + mpmath.mpf(float(value - np.longdouble(high))) - true)
                        assert error < 2.0**-60, (position, i, float(error))


def beyond(got, true):
    """Error less half an ulp of the exact value."""
    error = np.abs(got.astype(np.longdouble) - true)
    return error - np.spacing(np.abs(true).astype(got.dtype)).astype(np.longdouble) / 2


@needs_long_double
@pytest.mark.parametrize("name", list(RANGES))
def test_float32(name, seed, backend):
    positions, true = samples(name, seed)
    excess = beyond(pf.sinusoidal(WIDTH).encode(positions), true)
    # measured: not one of five million on the wrong side; one in thirty million lies close enough to the middle
    assert excess.max() < 2.0**-51, (backend, float(excess.max()))
    if name != "unix seconds":
        spans = np.unique(positions[:200].astype(np.int64))
        tables = np.concatenate([pf.sinusoidal(WIDTH).table(1, start=int(p)) for p in spans])
        chosen = [int(np.flatnonzero(positions == p)[0]) for p in spans]
        assert beyond(tables, true[chosen]).max() < 2.0**-51


@needs_long_double
@pytest.mark.parametrize("name", list(RANGES))
def test_float64(name, seed, backend):
    positions, true = samples(name, seed)
    got = pf.sinusoidal(WIDTH).encode(positions, dtype=np.float64)
    error = np.abs(got.astype(np.longdouble) - true)
    spacing = np.spacing(np.abs(true).astype(np.float64)).astype(np.longdouble)
    # measured: 2^-62.3 beyond half an ulp up to unix milliseconds, much of it the oracle's own; 2^-53.9 at 2^53
    limit = 2.0**-53.5 if name == "2^53" else 2.0**-62
    assert (error - spacing / 2).max() < limit, (backend, float((error - spacing / 2).max()))
