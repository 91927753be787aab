"""Test the promised accuracy, and that every backend and level computes the same bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.engine import blocks as _target
from support import exact
from support.optional import optional

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("backend")]

DTYPES = ["float64", "float32", "float16", "bfloat16"]


@pytest.fixture(params=DTYPES)
def dtype(request):
    if request.param == "bfloat16":
        pytest.importorskip("ml_dtypes")
    return request.param


@pytest.mark.parametrize("scale", [1.0, 22.627416997969522, -0.3])
@pytest.mark.parametrize("how", ["start", "positions", "in place"])
def test_add_to(how, scale, dtype, rng):
    encoding, start = pf.sinusoidal(34, base=500.0), int(rng.integers(-(10**6), 10**6))
    x = rng.normal(size=(2, 40, 34)).astype(pf.sinusoidal(2).table(1, dtype=dtype).dtype)
    # in every third row of x[0], scale * x nearly cancels the encoding, which makes errors large relative to the sum
    x[0, ::3] = (-encoding.table(40, start=start, dtype=np.float64)[::3] / scale).astype(x.dtype)
    before = x.copy()
    if how == "positions":
        got = encoding.add_to(x, positions=start + np.arange(40.0), x_scale=scale)
    else:
        got = encoding.add_to(x, start=start, x_scale=scale, out=x if how == "in place" else None)
    for b, i in ((0, 0), (0, 39), (1, 0), (0, 3), (1, 17)):
        columns = exact.some_columns(rng, 34)
        frequencies = exact.schedule(34, 500.0)
        exact.assert_within(
            got[b, i : i + 1], [start + i], columns, frequencies, dtype, call="add", scale=scale, x=before[b, i]
        )


def test_shift(dtype, rng):
    encoding = pf.sinusoidal(32)
    positions, offset = rng.uniform(-1000, 1000, 20), float(rng.uniform(-1e4, 1e4))
    moved = encoding.shift(encoding.encode(positions, dtype=dtype), offset)
    frequencies = exact.schedule(32)
    bits = exact.TYPES[dtype][0]
    for row, position in zip(moved, positions.tolist(), strict=True):
        for c in range(32):
            value = exact.sincos(Fraction(position) + Fraction(offset), frequencies[c // 2])[c % 2]
            assert abs(float(row[c]) - float(value)) <= 2 * 2.0 ** (1 - bits), (position, offset, c)


def test_values_near_the_middle_of_two_float32(rng):
    """Values within 2^-44 of the middle of two adjacent float32 numbers are rounded correctly.

    A less exact kernel would round some of them to the wrong side.
    """
    encoding = pf.sinusoidal(64)
    positions = rng.integers(0, 2**24, 40000).astype(np.float64)
    wide = encoding.encode(positions, dtype=np.float64)
    low = np.nextafter(wide.astype(np.float32), np.float32(-2)).astype(np.float64)
    high = np.nextafter(wide.astype(np.float32), np.float32(2)).astype(np.float64)
    near = wide.astype(np.float32).astype(np.float64)
    middles = np.minimum(abs(wide - (low + near) / 2), abs(wide - (high + near) / 2))
    rows, columns = np.nonzero(middles < 2.0**-44)
    assert len(rows) > 5
    got = encoding.encode(positions[rows], dtype=np.float32)
    frequencies = exact.schedule(64)
    for k in range(min(len(rows), 60)):
        position = positions[rows[k]]
        exact.assert_within(got[k : k + 1], [position], [columns[k]], frequencies, "float32", call="encode")
        table = encoding.table(1, start=int(position))
        exact.assert_within(table, [position], [columns[k]], frequencies, "float32", call="table")


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_one_rounding_to_16_bits(name, rng):
    """Values are rounded once to 16 bits. The tested values would differ if they were first rounded to float32."""
    pytest.importorskip("ml_dtypes")
    encoding = pf.sinusoidal(64)
    positions = rng.integers(0, 2**24, 60000).astype(np.float64)
    wide = encoding.encode(positions, dtype=np.float64)
    once = encoding.encode(positions, dtype=name)
    twice = wide.astype(np.float32).astype(once.dtype)
    rows, columns = np.nonzero(once != twice)
    assert len(rows) > 3
    frequencies = exact.schedule(64)
    for row, column in list(zip(rows, columns, strict=True))[:60]:
        exact.assert_within(once[row : row + 1], [positions[row]], [column], frequencies, name, call="encode")


SECONDS = {"as": -18, "fs": -15, "ps": -12, "ns": -9, "us": -6, "ms": -3}
SECONDS = {unit: Fraction(10) ** power for unit, power in SECONDS.items()}
SECONDS |= {"s": 1, "m": 60, "h": 3600, "D": 86400, "W": 604800, "10s": 10}


@pytest.mark.parametrize("unit", [*SECONDS, "M", "Y"])
def test_times(unit, rng, dtype):
    encoding, frequencies = pf.sinusoidal(16), exact.schedule(16)
    most = 10**6 if unit in "DWMY" else 2**62
    counts = rng.integers(-most, most, 5) // (2**30 if unit in ("m", "h", "10s") else 1)
    times = counts.astype(f"M8[{unit}]")
    if unit in "MY":
        exactly = [Fraction(int(c)) for c in times.astype("M8[s]").view(np.int64)]
    else:
        exactly = [Fraction(int(c)) * SECONDS[unit] for c in counts]
        got = encoding.encode(counts.astype(f"m8[{unit}]"), dtype=dtype)
        np.testing.assert_array_equal(got, encoding.encode(times, dtype=dtype))
    exact.assert_within(encoding.encode(times, dtype=dtype), exactly, range(16), frequencies, dtype, call="encode")


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def test_positions_of_every_type(rng, dtype):
    encoding, frequencies = pf.sinusoidal(6), exact.schedule(6)
    for name in (*INTEGERS, "float16", "float32", "float64", "longdouble"):
        values = (rng.integers(0, 100, 6) if name in INTEGERS else rng.uniform(-100, 100, 6)).astype(name)
        if name == "longdouble":
            values = values + np.longdouble(1) / 3
        exactly = [int(v) if name in INTEGERS else Fraction(*v.as_integer_ratio()) for v in values]
        exact.assert_within(encoding.encode(values, dtype=dtype), exactly, range(6), frequencies, dtype, call="encode")
        x = np.zeros((6, 6), encoding.table(0, dtype=dtype).dtype)
        exact.assert_within(encoding.add_to(x, positions=values), exactly, range(6), frequencies, dtype, call="encode")


@pytest.mark.parametrize("d", [1, 7, 130])
def test_zero_and_mirror(d, dtype, rng):
    encoding = pf.sinusoidal(d)
    zero = [c % 2 for c in range(d)]
    assert encoding.encode(0, dtype=dtype).astype(float).tolist() == zero
    assert encoding.table(5, start=-2, dtype=dtype)[2].astype(float).tolist() == zero
    positions = [rng.normal(size=50) * 10.0 ** rng.integers(-20, 14, 50), rng.integers(-(2**63) + 1, 2**63, 50)]
    for p in positions:
        plus, minus = encoding.encode(p, dtype=dtype), encoding.encode(-p, dtype=dtype)
        np.testing.assert_array_equal(plus[:, 1::2], minus[:, 1::2])
        np.testing.assert_array_equal(plus[:, 0::2], -minus[:, 0::2])


@pytest.mark.parametrize("d", [2, 7, 64])
def test_same_bits_for_every_length(d, dtype):
    encoding = pf.sinusoidal(d)
    for start in (0, -50, 2**31 - 40, 2**40 + 77, 2**53 - 30, 2**63 - 101, -(2**63)):
        table = encoding.table(101, start=start, dtype=dtype)
        for n in range(1, 101):
            head, tail = (
                encoding.table(length, start=begin, dtype=dtype) for length, begin in ((n, start), (101 - n, start + n))
            )
            np.testing.assert_array_equal(np.concatenate([head, tail]), table, err_msg=f"start={start}, n={n}")


def test_same_bits_for_every_step(dtype):
    encoding = pf.sinusoidal(14)
    table = encoding.table(9000, start=-4500, dtype=dtype)
    np.testing.assert_array_equal(encoding.table(900, start=-4500, step=10, dtype=dtype), table[::10])
    np.testing.assert_array_equal(encoding.table(9000, start=4499, step=-1, dtype=dtype), table[::-1])
    np.testing.assert_array_equal(encoding.table(2000, start=-20, step=0.5, dtype=dtype)[::2], table[4480:5480])


@pytest.mark.parametrize("workers", [2, -1])
def test_same_bits_with_workers(workers, dtype):
    encoding = pf.sinusoidal(64)
    rows = 20000
    table = encoding.table(rows, dtype=dtype)
    np.testing.assert_array_equal(encoding.table(rows, dtype=dtype, workers=workers), table)
    positions = np.arange(rows) * 0.37
    encoded = encoding.encode(positions, dtype=dtype)
    np.testing.assert_array_equal(encoding.encode(positions, dtype=dtype, workers=workers), encoded)
    x = np.ones_like(table)
    np.testing.assert_array_equal(encoding.add_to(x, workers=workers), encoding.add_to(x))


WIDTH = 64
SINGLE = np.exp(np.arange(0, WIDTH, 2, dtype=np.float32) * np.float32(-np.log(10000.0) / WIDTH))


def rows_of_a_framework(first):
    """Return a table from position `first` on, with float32 frequencies and angles, as frameworks compute it."""
    rows = 4096 if first == 0 else WIDTH
    return pf.sinusoidal(WIDTH, frequencies=SINGLE).table(rows, start=first, precision="float32")


@pytest.mark.parametrize("first", [0, 10**6], ids=str)
def test_float32_frameworks(first):
    got = rows_of_a_framework(first)
    positions = np.arange(first, first + len(got), dtype=np.float32)
    encoding = pf.sinusoidal(WIDTH, frequencies=SINGLE)
    assert np.array_equal(got, encoding.encode(positions, precision="float32"))
    angles = (positions[:, None] * SINGLE).astype(np.float64)
    for trig, columns in ((np.sin, got[:, 0::2]), (np.cos, got[:, 1::2])):
        expected = trig(angles).astype(np.float32)
        assert (np.abs(columns - expected) <= np.spacing(np.abs(expected))).all()
    x = np.zeros_like(got)
    np.testing.assert_array_equal(encoding.add_to(x, start=first, precision="float32"), got)
    if first:
        assert np.abs(got - encoding.table(len(got), start=first)).max() > 1e-3


@pytest.mark.parametrize("first", [0, 10**6], ids=str)
def test_float32_mode_equals_torch(first):
    torch = optional("torch")
    got = rows_of_a_framework(first)
    angles = torch.arange(first, first + len(got)).float()[:, None] * torch.from_numpy(SINGLE)
    theirs = torch.sin(angles).numpy()
    assert (np.abs(got[:, 0::2] - theirs) <= np.spacing(np.abs(theirs))).all()


@pytest.mark.parametrize("batches", [1, 5])
@pytest.mark.parametrize("width", [8, 300, 700])
def test_sums_larger_than_the_cache(dtype, width, batches, monkeypatch):
    """Sums have the same bits with a huge and with a tiny cache size. With the tiny size, the kernel prefetches x."""
    encoding, rows = pf.sinusoidal(width), 150
    number_type = encoding.table(0, dtype=dtype).dtype
    x = np.random.default_rng(3).standard_normal((batches, rows, width + 3)).astype(number_type)[..., :width]
    for start in (0, -37, 10**6 + 5):
        sums = []
        for size in (1 << 40, 3):
            monkeypatch.setattr(_target, "cache_size", lambda size=size: size)
            there = x.copy()
            # with a negative number of workers, the compiled shortcut for small arrays is not used
            sums += [encoding.add_to(there, start=start, out=there, workers=-1)]
            sums += [encoding.add_to(x, start=start, workers=-1)]
            room = np.full((batches, rows, width + 5), 7, number_type)
            sums += [encoding.add_to(x, start=start, out=room[..., 2:-3], workers=-1)]
            assert (room[..., :2] == 7).all()
            assert (room[..., -3:] == 7).all()
        for total in sums:
            np.testing.assert_array_equal(
                total.view(f"u{number_type.itemsize}"), sums[0].view(f"u{number_type.itemsize}")
            )
        if number_type == np.float32:
            wide = encoding.table(rows, start=start, dtype=np.float64) + x
            np.testing.assert_allclose(sums[0], wide, rtol=2.0**-24, atol=2.0**-50)
