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
    x = rng.normal(size=(2, 40, 34)).astype(encoding.table(1, dtype=dtype).dtype)
    # in every third row of x[0], scale * x nearly cancels the encoding, which makes errors large relative to the sum
    x[0, ::3] = (-encoding.table(40, start=start, dtype=np.float64)[::3] / scale).astype(x.dtype)
    before, frequencies = x.copy(), exact.schedule(34, 500.0)
    if how == "positions":
        got = encoding.add_to(x, positions=start + np.arange(40.0), x_scale=scale)
    else:
        got = encoding.add_to(x, start=start, x_scale=scale, out=x if how == "in place" else None)
    for b, i in ((0, 0), (0, 39), (1, 0), (0, 3), (1, 17)):
        options = {"call": "add", "scale": scale, "x": before[b, i]}
        columns = exact.some_columns(rng, 34)
        exact.assert_within(got[b, i : i + 1], [start + i], columns, frequencies, dtype, **options)


def test_shift(dtype, rng):
    encoding, frequencies = pf.sinusoidal(32), exact.schedule(32)
    positions, offset = rng.uniform(-1000, 1000, 20), float(rng.uniform(-1e4, 1e4))
    encoded = encoding.encode(positions, dtype=dtype)
    moved = encoding.shift(encoded, offset)
    assert moved.dtype == encoded.dtype
    for row, position in zip(moved, positions.tolist(), strict=True):
        for c in range(32):
            value = exact.sincos(Fraction(position) + Fraction(offset), frequencies[c // 2])[c % 2]
            assert abs(float(row[c]) - float(value)) <= 2 * 2.0 ** (1 - exact.TYPES[dtype][0]), (position, offset, c)


SECONDS = {unit: Fraction(10) ** (3 * i - 18) for i, unit in enumerate(["as", "fs", "ps", "ns", "us", "ms", "s"])}
SECONDS |= {"m": 60, "h": 3600, "D": 86400, "W": 604800, "10s": 10}


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
    got = encoding.encode(times.astype(times.dtype.newbyteorder()), dtype=dtype)
    np.testing.assert_array_equal(got, encoding.encode(times, dtype=dtype))
    exact.assert_within(got, exactly, range(16), frequencies, dtype, call="encode")


INTEGERS = ["i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "u4", "i8", ">i8", "u8"]


def test_positions_of_every_type(rng, dtype):
    encoding, frequencies = pf.sinusoidal(6), exact.schedule(6)
    for code in (*INTEGERS, "f2", "f4", ">f4", "f8", ">f8", "longdouble"):
        values = (rng.integers(0, 100, 6) if code in INTEGERS else rng.uniform(-100, 100, 6)).astype(code)
        if code == "longdouble":
            values = values + np.longdouble(1) / 3
        exactly = [int(v) if code in INTEGERS else Fraction(*v.as_integer_ratio()) for v in values]
        got = encoding.encode(values, dtype=dtype)
        exact.assert_within(got, exactly, range(6), frequencies, dtype, call="encode")
        np.testing.assert_array_equal(encoding.encode(values[::-2].reshape(1, 3), dtype=dtype), got[np.newaxis, ::-2])
        x = np.zeros((6, 6), got.dtype)
        exact.assert_within(encoding.add_to(x, positions=values), exactly, range(6), frequencies, dtype, call="encode")


@pytest.mark.parametrize("d", [2, 7, 64])
def test_same_bits_for_every_length(d, dtype):
    encoding = pf.sinusoidal(d)
    for start in (0, -50, 2**31 - 40, 2**40 + 77, 2**53 - 30, 2**63 - 101, -(2**63)):
        table = encoding.table(101, start=start, dtype=dtype)
        for n in range(1, 101):
            head = encoding.table(n, start=start, dtype=dtype)
            tail = encoding.table(101 - n, start=start + n, dtype=dtype)
            np.testing.assert_array_equal(np.concatenate([head, tail]), table, err_msg=f"start={start}, n={n}")


def test_same_bits_for_every_step(dtype):
    encoding = pf.sinusoidal(14)
    table = encoding.table(9000, start=-4500, dtype=dtype)
    np.testing.assert_array_equal(encoding.table(900, start=-4500, step=10, dtype=dtype), table[::10])
    np.testing.assert_array_equal(encoding.table(9000, start=4499, step=-1, dtype=dtype), table[::-1])
    np.testing.assert_array_equal(encoding.table(2000, start=-20, step=0.5, dtype=dtype)[::2], table[4480:5480])


@pytest.mark.parametrize("workers", [2, -1])
def test_same_bits_with_workers(workers, dtype):
    encoding, rows = pf.sinusoidal(64), 20000
    table = encoding.table(rows, dtype=dtype)
    np.testing.assert_array_equal(encoding.table(rows, dtype=dtype, workers=workers), table)
    positions = np.arange(rows) * 0.37
    encoded = encoding.encode(positions, dtype=dtype)
    np.testing.assert_array_equal(encoding.encode(positions, dtype=dtype, workers=workers), encoded)
    x = np.ones_like(table)
    np.testing.assert_array_equal(encoding.add_to(x, workers=workers), encoding.add_to(x))


# frequencies as frameworks compute them, in float32
SINGLE = np.exp(np.arange(0, 64, 2, dtype=np.float32) * np.float32(-np.log(10000.0) / 64))
FRAMEWORK = pf.sinusoidal(64, frequencies=SINGLE)


@pytest.mark.parametrize(("first", "rows"), [(0, 4096), (10**6, 64)])
def test_float32_frameworks(first, rows):
    got = FRAMEWORK.table(rows, start=first, precision="float32")
    positions = np.arange(first, first + rows, dtype=np.float32)
    np.testing.assert_array_equal(FRAMEWORK.encode(positions, precision="float32"), got)
    np.testing.assert_array_equal(FRAMEWORK.add_to(np.zeros_like(got), start=first, precision="float32"), got)
    angles = (positions[:, None] * SINGLE).astype(np.float64)
    for trig, columns in ((np.sin, got[:, 0::2]), (np.cos, got[:, 1::2])):
        expected = trig(angles).astype(np.float32)
        assert (np.abs(columns - expected) <= np.spacing(np.abs(expected))).all()
    if first:
        assert np.abs(got - FRAMEWORK.table(rows, start=first)).max() > 1e-3


@pytest.mark.parametrize(("first", "rows"), [(0, 4096), (10**6, 64)])
def test_float32_mode_equals_torch(first, rows):
    torch = optional("torch")
    got = FRAMEWORK.table(rows, start=first, precision="float32")
    angles = torch.arange(first, first + rows).float()[:, None] * torch.from_numpy(SINGLE)
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
            room = np.full((batches, rows, width + 5), 7, number_type)
            for given, out in ((there, there), (x, None), (x, room[..., 2:-3])):
                # with a negative number of workers, the compiled shortcut for small arrays is not used
                sums.append(encoding.add_to(given, start=start, out=out, workers=-1))
            assert (room[..., :2] == 7).all()
            assert (room[..., -3:] == 7).all()
        for total in sums:
            np.testing.assert_array_equal(*(each.view(f"u{number_type.itemsize}") for each in (total, sums[0])))
        if number_type == np.float32:
            wide = encoding.table(rows, start=start, dtype=np.float64) + x
            np.testing.assert_allclose(sums[0], wide, rtol=2.0**-24, atol=2.0**-50)
