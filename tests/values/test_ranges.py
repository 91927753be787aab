"""Test rounding errors in named ranges of positions, for each dtype and engine, with exact values.

To add a range, add a row to RANGES or STEPS. Errors must be within the bounds of `exact.assert_within`.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import posenc_fast as pf
from support import exact

pytestmark = pytest.mark.usefixtures("backend")

DTYPES = ["float64", "float32", "float16", "bfloat16"]
DTYPES = DTYPES if importlib.util.find_spec("ml_dtypes") else DTYPES[:3]
# (d, base, freq_shift) of encodings. If a range has no encoding of its own, the test draws one of these.
SCHEDULES = [(1, 1e4, 0), (2, 2.0, 0), (3, 100.0, 0), (17, 1e6, 0), (64, 1e4, 0), (64, 5e5, 1), (512, 1e4, 1), (4096, 1e4, 0)]  # fmt: skip


def near_quarter_turns(rng, n):
    """Return doubles near multiples of pi/2, where a sine or cosine is almost 0."""
    return rng.integers(1, 10 ** rng.integers(1, 10, n)) * (np.pi / 2)


def near_midpoints(rng, n):
    """Return tiny angles at or near midpoints of adjacent numbers of a small dtype. Sines are near midpoints, too."""
    small = [exact.near_midpoints(rng, name, n // 3) for name in ("float32", "float16", "bfloat16")]
    return rng.permutation(np.concatenate(small))


def near_and_far(rng, n):
    return rng.integers(0, 2 ** rng.choice([13, 31], n)).astype(np.float64)


# midpoints of adjacent bfloat16 numbers, moved by a part that float32 cannot represent, so that rounding twice is wrong
MIDPOINTS = (
    2.0**-134 + 2.0**-151,
    3 * 2.0**-134 - 2.0**-152,
    2.0**-127 * (1 + 2.0**-7 + 2.0**-30),
    -(2.0**-134) * (1 + 2.0**-40),
    2.0**-126 - 2.0**-135 - 2.0**-170,
)


class Range(NamedTuple):
    """A function of rng and n that returns positions, and frequencies or one of SCHEDULES. None: draw a schedule."""

    draw: Callable[[np.random.Generator, int], Any]
    frequencies: tuple[float, ...] | None = None
    schedule: tuple[int, float, float] | None = None


def fixed(*positions: Any) -> Callable[[np.random.Generator, int], Any]:
    return lambda rng, n: np.array(positions)


RANGES = {
    "1e3": Range(lambda rng, n: rng.uniform(0, 1e3, n)),
    "integers to 1e6": Range(lambda rng, n: rng.integers(0, 10**6, n).astype(np.float64)),
    "unix seconds": Range(lambda rng, n: rng.uniform(1.6e9, 1.9e9, n)),
    "unix milliseconds": Range(lambda rng, n: rng.integers(1_600_000_000_000, 1_900_000_000_000, n)),
    "to 2^53": Range(lambda rng, n: rng.integers(-(2**53), 2**53, n).astype(np.float64)),
    # the first integer that is no float64
    "2^53 + 1": Range(fixed(2**53 + 1, -(2**53) - 1, 2**53 + 3), (1.0, 2.0**-20)),
    "int64": Range(lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n, dtype=np.int64, endpoint=True)),
    "uint64": Range(lambda rng, n: rng.integers(0, 2**64 - 1, n, dtype=np.uint64, endpoint=True)),
    "tiny": Range(lambda rng, n: rng.uniform(1, 9, n) * 10.0 ** -rng.integers(1, 300, n)),
    "near midpoints": Range(near_midpoints, (1.0, 0.3)),
    "negative": Range(lambda rng, n: -rng.uniform(0, 1e5, n)),
    "near quarter turns": Range(near_quarter_turns),
    "beyond": Range(lambda rng, n: rng.uniform(1, 9, n) * 10.0 ** rng.integers(17, 300, n)),
    "midpoints of bfloat16": Range(fixed(*MIDPOINTS * 3), (1.0,)),
    **{f"schedule {each}": Range(near_and_far, None, each) for each in SCHEDULES},
    # ranges with frequencies and positions near the limits of float64
    **{f"frequency {f:g}": Range(fixed(0.0, 1.0, -2.0, 1e-305), (f,)) for f in (1e16, 1e30, 1e300, 1.7e308)},
    **{f"positions {p:g}": Range(fixed(p, -p), (1e-300,)) for p in (1e300, 1e305, 1.7e308)},
    "largest product": Range(fixed(1e308), (1e308,)),
    # frequencies or products position * frequency that are subnormal, or whose rounding errors are subnormal or 0
    "subnormal frequency": Range(fixed(1e296), (1e-282, 5e-324)),
    "subnormal frequency alone": Range(fixed(1e300), (5e-324,)),
    "smallest normal frequency": Range(fixed(5.0), (1.0, 2.2250738585072014e-308)),
    "frequencies far apart": Range(fixed(1e-20), (1.0, 1e-300, 3e-260, 1e-200)),
    "subnormal product": Range(fixed(1e-10), (1.0, 1e-300)),
    "integers and tiny frequencies": Range(fixed(2**60 + 1, 3, -2), (1.0, 1e-300, 5e-324)),
    "attoseconds": Range(fixed(np.timedelta64(3, "as")), (1.0, 1e-290)),
}


class Steps(NamedTuple):
    """A range of evenly spaced positions: start, start + step, .., as `table` computes them."""

    start: Any
    step: Any = 1
    rows: int = 80
    frequencies: tuple[float, ...] | None = None


STEPS = {
    "zero": Steps(0),
    "2^40": Steps(2**40 + 12345),
    "2^53": Steps(2**53 - 40),
    "least": Steps(-(2**63)),
    "uint64": Steps(2**64 - 80),
    "tenths": Steps(0.1, 0.3, 40),
    "halves at 2^52": Steps(2.0**52 - 0.5, 0.5, 5, (1.0, 2.0**-20)),
    "downwards": Steps(2**60, -7, 40),
    **{
        f"frequency {f:g} from {start}": Steps(start, 1, 3, (f,))
        for f in (3e5, 1e6, 1e10, 1e13, 1e15)
        for start in (-(10**5) - 7, -1000, -1, 0, 3, 10**5)
        # for larger angles of integers, only sin^2 + cos^2 = 1 is promised
        if max(abs(start), abs(start + 2)) * f <= 2.0**53
    },
    **{f"frequency {f:g} from -1": Steps(-1, 1, 3, (f,)) for f in (1e16, 1e30, 1e300, 1.7e308)},
    **{f"frequency {f:g} by 2": Steps(Fraction(1, 3), 2, 2, (f,)) for f in (1e16, 1e30, 1e300, 1.7e308)},
    **{f"from {-p:g}": Steps(-p, p, 2, (1e-300,)) for p in (1e300, 1e305, 1.7e308)},
    "third and 1e300": Steps(Fraction(1, 3), 1e300, 2, (1e6,)),
    "subnormal frequencies": Steps(-1, 1, 4, (5e-324, 1e-310)),
    **{f"midpoint {p:g}": Steps(p, 1, 1, (1.0,)) for p in MIDPOINTS},
    "frequencies far apart": Steps(1e-20, 1, 1, (1.0, 1e-300, 3e-260, 1e-200)),
}


def encoding_of(frequencies, schedule):
    """Return an encoding, and its frequencies as exact numbers, from explicit frequencies or from a schedule."""
    if frequencies is None:
        d, base, shift = schedule
        return pf.sinusoidal(d, base=base, freq_shift=shift), exact.schedule(d, base, shift)
    encoding = pf.sinusoidal(2 * len(frequencies), frequencies=frequencies)
    return encoding, [exact.number(frequency) for frequency in frequencies]


def names_of(table):
    """Return the names in RANGES or STEPS as parameters. Ranges without frequencies take long: mark them as slow."""
    return [pytest.param(name, marks=[] if each.frequencies else pytest.mark.slow) for name, each in table.items()]


def numbers(positions):
    """Return positions as exact numbers, durations in seconds."""
    if positions.dtype.kind == "m":
        return [Fraction(int(count), 10**18) for count in positions.astype("m8[as]").view(np.int64)]
    return positions.tolist()


@pytest.mark.parametrize("call", ["encode", "encode one", "add_to"])
@pytest.mark.parametrize("name", names_of(RANGES))
def test_positions(name, call, rng):
    draw, frequencies, schedule = RANGES[name]
    encoding, exactly = encoding_of(frequencies, schedule or SCHEDULES[rng.integers(len(SCHEDULES))])
    positions = draw(rng, 12)[: 3 if call == "encode one" else 12]
    columns = exact.some_columns(rng, encoding.d_model)
    for dtype in DTYPES:
        if call == "encode one":
            got = np.stack([encoding.encode(position, dtype=dtype) for position in positions])
        elif call == "add_to":
            # add the rows to zeros, so that the bounds of encode apply to the sums
            x = np.zeros((len(positions), encoding.d_model), encoding.table(0, dtype=dtype).dtype)
            got = encoding.add_to(x, positions=positions)
        else:
            got = encoding.encode(positions, dtype=dtype)
        exact.assert_within(got, numbers(positions), columns, exactly, dtype, call="encode")


@pytest.mark.parametrize("name", names_of(STEPS))
def test_tables(name, rng):
    start, step, rows, frequencies = STEPS[name]
    encoding, exactly = encoding_of(frequencies, SCHEDULES[rng.integers(2, len(SCHEDULES))])
    chosen = sorted({0, min(31, rows - 1), min(32, rows - 1), rows - 1, *rng.integers(0, rows, 6).tolist()})
    positions = [Fraction(start) + i * Fraction(step) for i in chosen]
    columns, call = exact.some_columns(rng, encoding.d_model), "encode" if frequencies else "table"
    for dtype in DTYPES:
        got = encoding.table(rows, start=start, step=step, dtype=dtype)[chosen]
        exact.assert_within(got, positions, columns, exactly, dtype, call=call)


@pytest.mark.parametrize(("frequency", "start"), [(1e13, 10**5), (1e15, -(10**5) - 7), (1e15, 10**5)], ids=str)
def test_integers_beyond_2_to_the_53_turns(frequency, start):
    table = pf.fourier_features([frequency]).table(3, start=start, dtype=np.float64)
    np.testing.assert_allclose(np.hypot(*table.T), 1, rtol=0, atol=1e-15)


# ---- millions of values -----------------------------------------------------------------------------------------

needs_long_double = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than double here"
)
WIDTH, SAMPLES = 64, 20000
# Allowed error of float64 beyond half an ulp. Measured: 2^-62.3 up to unix milliseconds, and 2^-53.9 at 2^53. A part of
# the first number is the error of `exact.fixed_point`.
MILLIONS = {"integers to 1e6": 2.0**-62, "unix seconds": 2.0**-62, "unix milliseconds": 2.0**-62, "to 2^53": 2.0**-53.5}


@functools.cache
def samples(name, seed):
    """Return positions and their exact rows, drawn once for all engines."""
    positions = RANGES[name].draw(np.random.default_rng([seed, *name.encode()]), SAMPLES).astype(np.float64)
    rows = np.empty((SAMPLES, WIDTH), np.longdouble)
    for i, frequency in enumerate(exact.schedule(WIDTH)):
        rows[:, 2 * i], rows[:, 2 * i + 1] = exact.fixed_point(positions.tolist(), frequency)
    return positions, rows


def excess(got, true):
    """Return by how much errors exceed half an ulp of the exact values."""
    half = np.spacing(np.abs(true).astype(got.dtype)).astype(np.longdouble) / 2
    return np.abs(got.astype(np.longdouble) - true) - half


@needs_long_double
@pytest.mark.parametrize("name", list(MILLIONS))
@pytest.mark.slow
def test_millions_of_values(name, seed):
    positions, true = samples(name, seed)
    assert excess(pf.sinusoidal(WIDTH).encode(positions, dtype=np.float64), true).max() < MILLIONS[name]
    # In five million values, all were rounded correctly. About one in thirty million lies so near a midpoint that it
    # may be rounded to the other side, so allow for a small excess.
    assert excess(pf.sinusoidal(WIDTH).encode(positions), true).max() < 2.0**-51
    if name != "unix seconds":
        spans = np.unique(positions[:200].astype(np.int64))
        tables = np.concatenate([pf.sinusoidal(WIDTH).table(1, start=int(p)) for p in spans])
        chosen = [int(np.flatnonzero(positions == p)[0]) for p in spans]
        assert excess(tables, true[chosen]).max() < 2.0**-51
