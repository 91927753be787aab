"""Test exact periods: quarter turns are exact at any position of any dtype, and other values keep the error bounds."""

from __future__ import annotations

import datetime
import itertools
import pickle
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from support import exact
from support.optional import optional

DAY = 86400
FIRST, LAST = np.datetime64("1677-09-22"), np.datetime64("2262-04-11")
CLOCK = pf.fourier_features(pf.periodic(["1D", "12h"]))


def kind_of(dtype):
    return np.dtype(optional("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)


pytestmark = pytest.mark.usefixtures("backend")
dtypes = pytest.mark.parametrize("dtype", list(exact.TYPES))


# ---- whole turns ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "m", "h", "D"])
@dtypes
def test_midnights(backend, unit, dtype):
    midnights = np.arange(FIRST, LAST, np.timedelta64(1 if backend == "cython" else 97, "D")).astype(f"M8[{unit}]")
    rows = CLOCK.encode(midnights, dtype=kind_of(dtype)).astype(np.float64)
    np.testing.assert_array_equal(rows, np.tile([0.0, 0, 1, 1], (len(rows), 1)))


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "m", "h", "float64"])
def test_quarters_of_a_day(unit):
    hours = np.arange(FIRST.astype("M8[h]"), LAST.astype("M8[h]"), np.timedelta64(6 * 31, "h"))
    times = hours.astype("M8[s]").astype(np.float64) if unit == "float64" else hours.astype(f"M8[{unit}]")
    quarters = np.array([[0.0, 0, 1, 1], [1, 0, 0, -1], [0, 0, -1, 1], [-1, 0, 0, -1]])
    expected = quarters[hours.astype(np.int64) // 6 % 4]
    np.testing.assert_array_equal(CLOCK.encode(times, dtype=np.float64), expected)


@pytest.mark.parametrize(("period", "positions"), [
    (Fraction(1, 3), [0.0, 1.0, -3.0, 2.0**40]),
    (0.125, [0.25, -0.125, 2.0**60, 1e300]),
    (0.1, [0.1, 0.2, 0.4, 0.1 * 2**40]),
    (2**61 + 1, [0, 2**61 + 1, 4 * (2**61 + 1), 7 * (2**61 + 1)]),
    ("365.2425D", [31556952 * n for n in (1, -7, 2**38)]),
    (10**30, [0]),
    (2**70 + 1, [0.0]),
], ids=["thirds", "eighths", "tenths", "uint64", "year", "large", "more-than-a-float"])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_whole_periods(period, positions, dtype):
    encoding = pf.fourier_features(pf.periodic([period]))
    np.testing.assert_array_equal(encoding.encode(positions, dtype=dtype), np.tile(dtype([0, 1]), (len(positions), 1)))
    for p in positions:
        np.testing.assert_array_equal(encoding.encode(p, dtype=dtype), dtype([0, 1]))


def test_tables():
    encoding = pf.fourier_features(pf.periodic([6, Fraction(1, 2)]))
    for start in (0, 6 * 10**17, -(6 * 10**17)):
        table = encoding.table(13, start=start, dtype=np.float64)
        np.testing.assert_array_equal(table[:, [1, 3]], np.tile([0, 1], (13, 1)))
        np.testing.assert_array_equal(table[::3, [0, 2]], [[0, 1], [0, -1], [0, 1], [0, -1], [0, 1]])
        np.testing.assert_array_equal(table, encoding.encode(start + np.arange(13), dtype=np.float64))
    # positions are exact for steps that float64 cannot represent, too
    thirds = pf.fourier_features(pf.periodic([1])).table(10, start=Fraction(10**12), step=Fraction(1, 3))
    np.testing.assert_array_equal(thirds[::3], np.tile(np.float32([0, 1]), (4, 1)))
    tenths = pf.fourier_features(pf.periodic([0.1])).table(10**4, step=0.1)
    np.testing.assert_array_equal(tenths, np.tile(np.float32([0, 1]), (10**4, 1)))


def test_long_doubles():
    if np.finfo(np.longdouble).nmant == 52:
        pytest.skip("long doubles are doubles here")
    positions = 3 * (2 ** np.arange(62, dtype=np.longdouble) + np.longdouble(0.5))
    rows = pf.fourier_features(pf.periodic([3])).encode(np.append(positions, np.nan), dtype=np.float64)
    np.testing.assert_array_equal(rows[:-1], np.tile([0.0, -1], (62, 1)))
    assert np.isnan(rows[-1]).all()


def test_sums():
    x = np.full((2, 3, 4), 7, np.float32)
    times = np.array(["2026-01-01", "2026-01-01T06", "NaT"], "M8[ns]")
    total = CLOCK.add_to(x, positions=times)
    np.testing.assert_array_equal(total[:, :2], [[[7, 7, 8, 8], [8, 7, 7, 6]]] * 2)
    assert np.isnan(total[:, 2]).all()
    assert CLOCK.add_to(x, start=-DAY, step=DAY // 2, out=x) is x
    np.testing.assert_array_equal(x, [[[7, 7, 8, 8], [7, 7, 6, 8], [7, 7, 8, 8]]] * 2)


def test_with_other_frequencies():
    """Periods are exact in encodings that also have other frequencies, on one axis or two, and for other phases."""
    both = pf.join([CLOCK, pf.sinusoidal(4)], axes=[0, 0])
    times = np.array(["1700-01-01", "2026-01-01T12"], "M8[ns]")
    for dtype in (np.float64, np.float32):
        rows = both.encode(times, dtype=dtype)
        np.testing.assert_array_equal(rows[:, :4], [[0, 0, 1, 1], [0, 0, -1, 1]])
        np.testing.assert_array_equal(rows[:, 4:], pf.sinusoidal(4).encode(times, dtype=dtype))
    grid = pf.grid([np.arange(0, 3 * DAY, DAY // 2), 5], pf.join([CLOCK, pf.sinusoidal(4)]))
    np.testing.assert_array_equal(grid[:, 0, :4], [[0, 0, 1, 1], [0, 0, -1, 1]] * 3)
    np.testing.assert_array_equal(grid[..., :4], np.repeat(grid[:, :1, :4], 5, axis=1))
    shifted = pf.Encoding(pf.periodic([DAY]), phases=1 / 3).encode(np.arange(5) * DAY, dtype=np.float64)
    np.testing.assert_allclose(shifted, np.full((5, 1), 0.75**0.5), rtol=1e-15)
    np.testing.assert_array_equal(CLOCK.shift(CLOCK.table(5, dtype=np.float64), DAY), CLOCK.table(5, dtype=np.float64))


# ---- other values -------------------------------------------------------------------------------------------------

PERIODS = (7, 0.1, Fraction(22, 7), 31556952, Fraction(10**30 + 1, 3), 1e-9)


DRAWN = {
    "int64": lambda rng: rng.integers(-(2**63), 2**63 - 1, 60),
    "near-quarters": lambda rng: np.nextafter(np.arange(60) * 7 / 4, rng.choice([-np.inf, np.inf], 60)),
    **{
        name: lambda rng, powers=powers: rng.normal(size=60) * 10.0 ** rng.integers(*powers, 60)
        for name, powers in {"small": (-300, 0), "usual": (-3, 12), "large": (12, 15), "far": (27, 33)}.items()
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
@dtypes
def test_accuracy(draw, dtype, rng):
    positions = draw(rng)
    rows = pf.fourier_features(pf.periodic(PERIODS), layout="interleaved").encode(positions, dtype=kind_of(dtype))
    ulps, least = (1, 2.0**-60) if dtype == "float64" else (0.5, 2.0**-50)
    bad = []
    for position, row in zip(positions.tolist(), rows, strict=True):
        for i, period in enumerate(PERIODS):
            # subtract whole turns as rational numbers, before any rounding
            turns = Fraction(position) / Fraction(period)
            turns -= round(turns)
            bound = least * min(1, 2 * np.pi * abs(position / float(period)))
            with mpmath.workprec(1500):
                angle = 2 * mpmath.pi * turns.numerator / turns.denominator
                values = mpmath.sin(angle), mpmath.cos(angle)
            for c, value in zip((2 * i, 2 * i + 1), values, strict=True):
                excess = exact.excess(row[c], value, dtype, ulps)
                if excess > bound:
                    bad.append((excess, bound, position, c, row[c], value))
    assert not bad, exact.report(bad)


QUARTERS, STRAIGHT = pf.periodic([4]), [[1.0, 0.0], [0.0, -1.0], [-1.0, 0.0], [0.0, 1.0]]
REVERSED = [[-0.0, -1.0], [1.0, -0.0], [-0.0, 1.0], [-1.0, -0.0]]
# Encodings with the period 4 in some columns, the signs of columns at negative positions, and the first four quarters
BUILDS = {
    "straight": (pf.fourier_features(QUARTERS), [-1, 1], STRAIGHT),
    "interleaved": (pf.fourier_features(QUARTERS, layout="interleaved", scale=0.5), [-1, 1], np.divide(STRAIGHT, 2)),
    "all quadrants": (pf.Encoding(pf.periodic([4] * 4), [0, 0.25, 0.5, 0.75]), [-1, 1, -1, 1], None),
    "with others": (pf.join([pf.sinusoidal(3), pf.fourier_features(QUARTERS)], axes=[0, 0]), [-1, 1, -1, -1, 1], None),
    "reversed": (pf.fourier_features(QUARTERS, functions=("-cos", "-sin")), [1, -1], REVERSED),
    "long": (pf.Encoding(pf.periodic([4 * (10**20 + 1)] * 2), [0, 0.25]), [-1, 1], STRAIGHT),
}
# keys: types of positions. Values: nine quarters, the first is 1.
KINDS = {kind: np.arange(1, 10).astype(kind) for kind in ("int64", "float64", "longdouble")}
KINDS["nanoseconds"] = np.arange(10**9, 10**10, 10**9).astype("m8[ns]")
KINDS["fractions"] = np.array([Fraction(n * 10**20 + n) for n in range(1, 10)])


@pytest.mark.parametrize(("build", "given_as"), [
    *itertools.product([*BUILDS][:-1], ["int64", "float64"]),
    ("straight", "longdouble"), ("straight", "nanoseconds"), ("long", "fractions"),
])  # fmt: skip
@dtypes
def test_zeros_have_the_signs_of_ieee_754(dtype, build, given_as):
    """Zeros have the signs of IEEE 754's sinPi and cosPi.

    ``encode(-p)`` has the bits of ``encode(p)``, up to the signs.
    """
    (encoding, odd, first), positions, kind = BUILDS[build], KINDS[given_as], kind_of(dtype)
    ahead, back = (encoding.encode(each, dtype=kind) for each in (positions, -positions))
    assert back.tobytes() == (ahead * np.array(odd, kind)).tobytes()
    if first is not None:
        assert ahead.tobytes() == np.tile(np.array(first, kind), (3, 1))[:9].tobytes()


@dtypes
def test_zeros_of_tables_and_sums(dtype):
    encoding, kind = pf.fourier_features(pf.periodic([4, Fraction(8, 3)])), kind_of(dtype)
    table = encoding.table(17, start=-8, dtype=kind)
    assert table.tobytes() == encoding.encode(np.arange(-8, 9), dtype=kind).tobytes()
    assert table.tobytes() == encoding.table(17, start=8, step=-1, dtype=kind)[::-1].tobytes()
    assert pf.grid([np.arange(-8, 9)], encoding, dtype=kind).tobytes() == table.tobytes()
    below = (np.arange(-8, 9) < 0)[:, np.newaxis] & [True, True, False, False]
    np.testing.assert_array_equal(np.signbit(table.astype("f8")), (table < 0) | ((table == 0) & below))
    negative = pf.fourier_features(pf.periodic([4, Fraction(8, 3)]), functions=("-sin", "-cos"))
    for each, expected, x in ((encoding, table, 0.0), (encoding, table, -0.0), (negative, -table, 0.0)):
        total = each.add_to(np.full((17, 4), x, kind), start=-8)
        np.testing.assert_array_equal(total, expected)
        assert not np.signbit(total[total == 0].astype("f8")).any()


def test_values_rounded_to_zero_keep_their_sign():
    encoding = pf.fourier_features(pf.periodic([4]))
    rows = encoding.encode(np.array([1e-12, -1e-12, 2 + 1e-12, 1 + 1e-12]), dtype="f2")
    assert np.signbit(rows[:3, 0]).tolist() == [False, True, True]
    assert np.signbit(rows[3, 1])


def test_float32_mode(rng):
    positions = rng.integers(0, 1000, 20)
    plain = pf.fourier_features(2 * np.pi / np.array([float(DAY), DAY / 2]))
    got, expected = (each.encode(positions, precision="float32") for each in (CLOCK, plain))
    np.testing.assert_array_equal(got, expected)


# ---- the schedule ---------------------------------------------------------------------------------------------------


SPELLINGS = {
    DAY: [86400.0, Fraction(86400), Decimal("86400.0"), "24h", "D", "1440.0 min", "1440m", np.timedelta64(3, "8h")],
    31556952: ["365.2425D"],
    Fraction(1, 10): [".1s", Decimal("0.1")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("period", "seconds"), [(each, seconds) for seconds, periods in SPELLINGS.items() for each in periods], ids=repr
)
def test_spellings(period, seconds):
    schedule = pf.periodic([period])
    assert schedule == pf.periodic([seconds])
    assert hash(schedule) == hash(pf.periodic([seconds]))
    assert repr(schedule) == f"periodic([{seconds!r}])"


def test_arrays_of_periods():
    days = pf.periodic(["1D", "7D"])
    assert days == pf.periodic(np.array([1, 7], "m8[D]")) == pf.periodic(np.array([DAY, 7.0 * DAY]))
    assert pf.periodic([0.1]) != pf.periodic([Decimal("0.1")])
    assert len(pf.periodic((1, 2, 3))) == 3
    # a list of periods may contain texts, timedelta64 and timedelta together
    mixed = ["1D", np.timedelta64(12, "h"), datetime.timedelta(days=7)]
    assert pf.periodic(mixed) == pf.periodic([DAY, DAY / 2, 7 * DAY])
    assert pf.periodic(optional("pandas").to_timedelta(["1D", "1ns"])) == pf.periodic(["1D", "1ns"])


def test_numbers_count_seconds_of_times():
    """For times, a period that is a number counts seconds: 24 is 24 seconds, not 24 hours."""
    clock = pf.fourier_features(pf.periodic([24]))
    np.testing.assert_array_equal(clock.encode(np.datetime64("1970-01-01T00:00:06")), [1, 0])
    np.testing.assert_array_equal(clock.encode(np.datetime64("2026-01-01T05")), [0, 1])
    np.testing.assert_array_equal(clock.encode(6), [1, 0])


def test_value():
    schedule = pf.periodic([DAY, 0.1, Fraction(1, 3)])
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    np.testing.assert_allclose(np.asarray(schedule), 2 * np.pi / np.array([DAY, 0.1, 1 / 3]), rtol=1e-15)
    np.testing.assert_allclose(pf.sinusoidal(6, frequencies=schedule).wavelengths[::2], [DAY, 0.1, 1 / 3], rtol=1e-15)
    assert schedule != pf.periodic([DAY, 0.1]) != pf.linear(2, 1, 2)


def test_usual_times_need_no_exact_arithmetic(monkeypatch):
    """Rows of usual times do not use exact arithmetic, which takes 100 times as long."""
    monkeypatch.setattr("posenc_fast._core.encoding.rows.exact_row", lambda *arguments: pytest.fail(str(arguments[1])))
    encoding = pf.fourier_features(pf.periodic(["1D", "7D"]))
    encoding.encode(np.datetime64("2026-01-01", "s") + np.arange(1000) * 3607)
    encoding.encode(np.arange(1000.0) + 0.25)
    pf.join([encoding, pf.sinusoidal(8)]).encode(np.stack([np.arange(1000.0)] * 2, axis=1))


@pytest.mark.parametrize("name", ["day", "year"])
def test_cycles_of_the_calendar_are_not_periods(name):
    with pytest.raises(ValueError, match=rf"periods has '{name}'.*calendar.*PositionalEncoder"):
        pf.periodic([name])
