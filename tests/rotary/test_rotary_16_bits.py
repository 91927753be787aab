"""Test that rotations of float16 and bfloat16 are within the error bound, and have the same bits with all engines."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from support import exact
from support.engines import bits_of_all_engines
from support.optional import optional

ml_dtypes = optional("ml_dtypes")
TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
LAYOUTS = ["half", "interleaved", "interleaved_to_half"]
# In bfloat16, these bits are small values, large values, values just outside of these two ranges, 1 and 0. Products of
# small values with a cosine may be subnormal in float32. Sums of large values may exceed the range of float32.
# In float16, these bits are subnormal and normal numbers, NaN and 0.
FAR = [0x0001, 0x0002, 0x0003, 0x007F, 0x0080, 0x0081, 0x00FF, 0x6FFF, 0x7000, 0x7F00, 0x7F7F, 0x3F80, 0x0000]


@pytest.fixture(params=list(TYPES.values()), ids=list(TYPES))
def dtype(request):
    return request.param


def any_finite(rng, shape, dtype):
    """Return random finite values with uniformly drawn bits, so that subnormal and large numbers occur."""
    bits, exponent = rng.integers(0, 1 << 16, shape).astype(np.uint16), 0x7F80 if dtype.name == "bfloat16" else 0x7C00
    return np.where(bits & exponent == exponent, np.uint16(0), bits).view(dtype)


def far_pairs(dtype):
    """Return all pairs (n, 2) of values in FAR, with all signs."""
    numbers = np.array([sign | size for size in FAR for sign in (0, 0x8000)], np.uint16)
    return np.array([(a, b) for a in numbers for b in numbers], np.uint16).view(dtype)


def cancelling(rng, count, dtype, cosines, sines):
    """Return pairs (count, pairs, 2) whose first rotated value is nearly zero, because its two products cancel."""
    length = np.exp2(rng.uniform(-10, 10, (count, len(cosines))))
    return np.stack([length * sines, length * cosines], -1).astype(np.float32).astype(dtype)


def near_ties(rng, count, dtype, cosines, sines):
    """Return pairs (count, pairs, 2) whose first rotated value lies near a rounding midpoint of the type."""
    bits = 8 if dtype.name == "bfloat16" else 11
    middle = (2 * rng.integers(1 << (bits - 1), 1 << bits, (count, len(cosines))) + 1) * 2.0**-bits
    best = np.zeros((count, len(cosines), 2), dtype)
    off = np.full(middle.shape, np.inf)
    for b in np.linspace(-1, 1, 129):
        second = np.full(middle.shape, b).astype(dtype)
        first = ((middle + second.astype(float) * sines) / cosines).astype(np.float32).astype(dtype)
        distance = np.abs(first.astype(float) * cosines - second.astype(float) * sines - middle)
        chosen = distance < off
        best[chosen] = np.stack([first, second], -1)[chosen]
        off = np.minimum(off, distance)
    return best


def in_layout(pairs, layout):
    """Return pairs (.., pairs, 2) as rows (.., 2 * pairs) in a layout."""
    return np.concatenate(np.moveaxis(pairs, -1, 0), -1) if layout == "half" else pairs.reshape(*pairs.shape[:-2], -1)


def from_layout(rows, layout):
    if layout == "interleaved":
        return rows.reshape(*rows.shape[:-1], -1, 2)
    return np.stack(np.split(rows, 2, -1), -1)


def check(rotary, pairs, start):
    """Rotate pairs (heads, pairs, 2), and assert that all engines give the same bits, with errors within the bound.

    The bound is half an ulp, plus 2^-20 times the length of the pair.
    """
    dtype, layout = pairs.dtype, rotary.layout
    x = in_layout(pairs, layout)[:, np.newaxis]
    got = from_layout(bits_of_all_engines(lambda: rotary.apply(x, start=start)[:, 0]).view(dtype), layout)
    largest = float(ml_dtypes.finfo(dtype).max)
    angles = [exact.sincos(start, frequency) for frequency in exact.schedule(2 * pairs.shape[1])]
    for h, j in np.ndindex(pairs.shape[:2]):
        rotated, length = exact.rotation(pairs[h, j], *angles[j])
        for value, true in zip(got[h, j].astype(np.float64).tolist(), rotated, strict=True):
            if np.isinf(value):
                assert abs(true) > largest * (1 - 2.0**-19)
            else:
                over = exact.excess(value, true, dtype.name)
                assert over <= length * 2.0**-20, (h, j, pairs[h, j], value, true)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("start", [pytest.param(1, marks=pytest.mark.slow), 12345, -(2**40)])
def test_bound(start, layout, dtype, rng):
    rotary = pf.Rotary(12, layout=layout)
    cosines, sines = (table[0] for table in rotary.tables(1, start=start, dtype=np.float64))
    for pairs in (
        any_finite(rng, (20, 6, 2), dtype),
        rng.normal(size=(10, 6, 2)).astype(dtype),
        cancelling(rng, 10, dtype, cosines, sines),
        near_ties(rng, 10, dtype, cosines, sines),
    ):
        check(rotary, pairs, start)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_subnormal_and_large_pairs(layout, dtype):
    pairs = far_pairs(dtype)
    pairs = pairs[np.isfinite(pairs.astype(np.float64)).all(-1)]
    pairs = np.repeat(pairs[:: 7 if layout == "half" else 11, np.newaxis], 2, axis=1)
    check(pf.Rotary(4, layout=layout), pairs, 7)


@pytest.mark.parametrize("inverse", [False, True], ids=["rotated", "rotated-back"])
@pytest.mark.parametrize("rotary_dim", [128, 96, 64, 34, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_engine_gives_the_same_bits(layout, rotary_dim, inverse, dtype, rng):
    far = far_pairs(dtype).reshape(-1)[: 40 * 26].reshape(1, 1, 40, 26).repeat(5, -1)[..., :128]
    usual, zeros = rng.normal(size=(1, 3, 40, 128)).astype(dtype), np.zeros((1, 1, 40, 128), dtype)
    x = np.concatenate([usual, any_finite(rng, (1, 2, 40, 128), dtype), far, zeros], axis=1)
    rotary = pf.Rotary(128, rotary_dim=rotary_dim, layout=layout)

    def rotate():
        rotated, inside = rotary.apply(x, start=1000, inverse=inverse), x.copy()
        assert rotary.apply(inside, start=1000, inverse=inverse, out=inside) is inside
        # engines may have different NaNs, so replace each NaN by the same bits
        values = [np.where(np.isnan(y.astype(np.float32)), 0x7FFF, y.view(np.uint16)) for y in (rotated, inside)]
        np.testing.assert_array_equal(*values)
        return values[0].astype(np.uint16)

    bits_of_all_engines(rotate)


@pytest.mark.parametrize("head_dim", [128, 64, 66])
def test_large_rows_among_others(head_dim, dtype, rng):
    # Engines rotate rows of bfloat16 with large values by a separate method. The usual method would round one result in
    # 40000 wrongly. x has more rows than the kernel rotates in one pass. Its first axes are (batch, heads, tokens) or
    # (batch, tokens, heads).
    x = rng.normal(size=(4, 5, 300, head_dim)).astype(dtype)
    least, most = (0x7F00, 0x7F80) if dtype.name == "bfloat16" else (0x7800, 0x7C00)
    rows = rng.integers(300, size=200)
    large = rng.integers(least, most, (4, 5, 200, head_dim)) | rng.integers(2, size=(4, 5, 200, head_dim)) << 15
    x.view(np.uint16)[:, :, rows] = large
    rotary, swapped = pf.Rotary(head_dim), np.ascontiguousarray(x.swapaxes(1, 2))

    def rotate():
        both = []
        for given, seq_axis in ((x, 2), (swapped, 1)):
            rotated, inside = rotary.apply(given, seq_axis=seq_axis), given.copy()
            assert rotary.apply(inside, seq_axis=seq_axis, out=inside).tobytes() == rotated.tobytes()
            both.append(rotated.view(np.uint16))
        np.testing.assert_array_equal(both[0], both[1].swapaxes(1, 2))
        return both[0]

    bits_of_all_engines(rotate)


@pytest.mark.parametrize("n", [33, pytest.param(1, marks=pytest.mark.slow)], ids=["behind-usual-pairs", "alone"])
def test_largest_subnormals_near_ties(n):
    # Products of small bfloat16 (a and b below) with a cosine or sine may be subnormal in float32, and then lose bits.
    # This changes a result only if its distance from a rounding midpoint is at most 2^-16 units in the last place.
    positions, everywhere = [], np.arange(1 << 20)
    cosines, sines, pairs = np.cos(everywhere), np.sin(everywhere), []
    for a in (0x007F, 0x0080, 0x0081):
        for b in (0x0001, 0x0040, 0x007F, 0x0080, 0x0081, 0x00FF):
            for sign in (0, 0x8000):
                middle = (a * cosines - (-b if sign else b) * sines) % 1 - 0.5
                positions += np.argpartition(np.abs(middle), 16)[:16].tolist()
                pairs += [(a, b | sign)] * 16
    x = np.ones((3, len(pairs), 2 * n), TYPES["bfloat16"])
    x.view(np.uint16)[..., [n - 1, -1]] = pairs
    rotary = pf.Rotary(2 * n, frequencies=np.repeat([0.5, 1.0], [n - 1, 1]))
    bits_of_all_engines(lambda: rotary.apply(x, positions=positions))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("head_dim", [2, 34, 130, 8400])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_single_head_rotates_as_among_others(layout, head_dim, dtype, rng):
    # the kernel has one loop for a single head and another loop for several heads, so compare both
    x, rotary = rng.normal(size=(2, 3, 5, head_dim)).astype(dtype), pf.Rotary(head_dim, layout=layout)
    x[0, 1, 2, 0] = 1e-40
    together = rotary.apply(x, start=77).view(np.uint16)
    for head in range(3):
        np.testing.assert_array_equal(rotary.apply(x[:, [head]], start=77).view(np.uint16), together[:, [head]])


@pytest.mark.usefixtures("backend")
def test_special_values(dtype):
    rotary = pf.Rotary(4)
    for first, second in ((np.nan, 1.0), (1.0, np.nan), (np.inf, 1.0), (0.0, -np.inf), (np.inf, np.inf)):
        x = np.array([[[[first, 1.0, second, 1.0]]]], dtype)
        with np.errstate(invalid="ignore"):
            expected = rotary.apply(x.astype(np.float64), start=1).astype(np.float32).astype(dtype)
        np.testing.assert_array_equal(rotary.apply(x, start=1).astype(float), expected.astype(float))
    # at position 0, zeros keep their signs
    x = np.array([[0.0, -0.0, 0.0, -0.0]], dtype)
    np.testing.assert_array_equal(np.signbit(rotary.apply(x)), np.signbit(rotary.apply(x.astype(np.float32))))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001])
def test_missing_angles_of_any_bits_give_nan(bits, dtype):
    x = np.ones((1, 2, 3, 8), dtype)
    table = np.full((3, 4), np.array(bits, np.uint32).view(np.float32))
    assert np.isnan(pf.Rotary(8).apply_tables(x, table, table).astype(np.float32)).all()
    position = np.array([np.array(0xFFFFFFFFFFFFFFFF, np.uint64).view(np.float64)] * 3)
    assert np.isnan(pf.Rotary(8).apply(x, positions=position).astype(np.float32)).all()
