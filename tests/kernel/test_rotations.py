"""Test that rotations by the kernel have the bits of the Python engine, for any shape and any memory layout."""

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.engine import backend as _backend
from posenc_fast._core.engine import python as _python
from posenc_fast._core.rotary import rotator as _rotator
from support.guarded import Arena

pytestmark = pytest.mark.skipif(_backend.kernel is None, reason="the kernel is not built")
KINDS = {"float64": (0, np.float64), "float32": (1, np.float32), "float16": (2, np.float16), "bfloat16": (3, np.uint16)}
HALF, INTERLEAVED = 0, 1
X, OUT = Arena(1 << 16), Arena(1 << 16)
levels = pytest.mark.parametrize("level", range(len(pf.isa_levels())), ids=pf.isa_levels())
kinds = pytest.mark.parametrize("kind", KINDS)
layouts = pytest.mark.parametrize("layout", [HALF, INTERLEAVED], ids=["half", "interleaved"])


def stored(values, kind):
    """Return values in the dtype that the engines read. 16-bit types are uint16 with their bits.

    bfloat16 is rounded towards zero.
    """
    number, dtype = KINDS[kind]
    if number == 3:
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype).view(np.uint16) if number == 2 else values.astype(dtype)


def angles_of(rng, groups, rows, pairs, kind):
    turns = rng.uniform(0, 7, (groups, rows, pairs))
    return np.concatenate([np.cos(turns), np.sin(turns)], -1).astype(np.float64 if KINDS[kind][0] < 2 else np.float32)


def expected(angles, x, kind, layout):
    out = np.empty_like(x)
    _python.rotate(0, angles, x, out, KINDS[kind][0], layout)
    return out


def past(stores):
    return _backend.kernel.STORES.index("past the cache") if stores else 0


def check(level, angles, x, kind, layout, distance=0, tokens_first=False, **options):
    """Assert that the kernel rotates x like the Python engine, in place and into other memory.

    Both arrays begin or end near a page without access. distance: bytes between x and the page. out is twice as far.
    """
    true = expected(angles, x, kind, layout)
    order = (0, 1, 3, 2, 4) if tokens_first else (0, 1, 2, 3, 4)
    shape = tuple(x.shape[axis] for axis in order)
    for at_end in (True, False):
        source = X.place(shape, x.dtype, at_end=at_end, distance=distance).transpose(order)
        source[...] = x
        out = OUT.place(shape, x.dtype, at_end=at_end, distance=2 * distance).transpose(order)
        _backend.kernel.rotate(level, angles, source, out, KINDS[kind][0], layout, **options)
        np.testing.assert_array_equal(out, true, strict=True)
        assert OUT.untouched()
        np.testing.assert_array_equal(source, x, strict=True)
        _backend.kernel.rotate(level, angles, source, source, KINDS[kind][0], layout, **options)
        np.testing.assert_array_equal(source, true, strict=True)
        assert X.untouched()


@levels
@kinds
@layouts
@pytest.mark.parametrize("tokens_first", [False, True], ids=["heads first", "tokens first"])
def test_any_number_of_heads(level, kind, layout, tokens_first, rng):
    for heads in (1, 2, 3, 4, 5, 6, 7, 8, 9):
        for batches, rows in ((1, 1), (1, 5), (3, 3)):
            x = stored(rng.standard_normal((1, batches, heads, rows, 40)), kind)
            check(level, angles_of(rng, 1, rows, 20, kind), x, kind, layout, tokens_first=tokens_first)


@levels
@kinds
@layouts
def test_any_number_of_pairs(level, kind, layout, rng):
    """Rotate fewer pairs than a vector register holds, and more. Some rows have values after the pairs."""
    size = KINDS[kind][1]().itemsize
    for pairs in (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65):
        for behind in (0, 3):
            x = stored(rng.standard_normal((2, 1, 7, 3, 2 * pairs + behind)), kind)
            angles = angles_of(rng, 2, 3, pairs, kind)
            check(level, angles, x, kind, layout, distance=size * (pairs % 9))


@levels
@kinds
@layouts
@pytest.mark.parametrize("tokens_first", [False, True], ids=["heads first", "tokens first"])
def test_rows_past_the_cache(level, kind, layout, tokens_first, rng):
    """Bypass the cache for rows that begin at different offsets in a cache line, and may end inside of a line."""
    size = KINDS[kind][1]().itemsize
    for width, rows in ((64, 5), (96, 5), (128, 5), (128, 1), (136, 5)):
        for first in range(0, 64 // size, 5):
            x = stored(rng.standard_normal((1, 2, 5, rows, width)), kind)
            angles = angles_of(rng, 1, rows, 32, kind)
            check(level, angles, x, kind, layout, size * first, tokens_first, stores=past(True))


@levels
@layouts
@pytest.mark.parametrize(("width", "pairs"), [(64, 32), (72, 36), (130, 64)])
@pytest.mark.parametrize("number", [0.0, 5 * 2.0**-133, 3e38, np.inf, np.nan])
def test_one_bfloat16_far_from_the_others(level, layout, width, pairs, number, rng):
    """Rotate rows of usual values, except for one value that is zero, subnormal, huge, infinite or NaN.

    The rotation halves values. Half of 5 * 2^-133 is midway between two bfloat16 numbers, where rounding in float32
    would not choose the even one.
    """
    angles = np.tile(np.repeat(np.float32([0.5, 0.0]), pairs), (1, 2, 1))
    for stores in (0, past(True)):
        for place in range(0, 2 * pairs, 13):
            values = rng.standard_normal((1, 1, 7, 2, width))
            values[0, 0, place % 7, place % 2, place] = number
            check(level, angles, stored(values, "bfloat16"), "bfloat16", layout, stores=stores)


@levels
@kinds
@layouts
def test_more_rows_than_one_pass(level, kind, layout, rng):
    """The angles exceed one block: the kernel rotates all heads by one block of angles before it reads the next."""
    x = stored(rng.standard_normal((1, 1, 6, 1100, 128)), kind)
    angles = angles_of(rng, 1, 1100, 64, kind)
    true = expected(angles, x, kind, layout)
    swapped = np.ascontiguousarray(x.swapaxes(2, 3)).swapaxes(2, 3)
    for source in (x, swapped):
        out = np.empty_like(source)
        _backend.kernel.rotate(level, angles, source, out, KINDS[kind][0], layout)
        np.testing.assert_array_equal(out, true, strict=True)


@pytest.mark.parametrize("start", [0, -7, 2**61])
def test_threads_fill_the_cache(start, monkeypatch, rng):
    """The second call fills one cached array in several threads. Later calls use it, in one thread or several."""
    monkeypatch.setattr(_rotator, "WORTH_THREADS", 1)
    monkeypatch.setattr(_rotator, "ANGLES", 100)
    x = rng.standard_normal((2, 3, 101, 32), np.float32)
    true = pf.Rotary(32).apply(x, start=start)
    rotary = pf.Rotary(32)
    for _ in range(2):
        np.testing.assert_array_equal(rotary.apply(x, start=start, workers=2), true)
    entries = list(rotary._rotator._cache.values())
    assert [(first, len(rows)) for first, rows in entries] == [(start, 101)]
    np.testing.assert_array_equal(rotary.apply(x[:, :, 5:], start=start + 5), true[:, :, 5:])
    assert next(rows for _, rows in rotary._rotator._cache.values()) is entries[0][1]
