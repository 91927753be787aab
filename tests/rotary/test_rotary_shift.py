"""Test that keys moved by `Rotary.shift` equal keys rotated at the new positions, within the error bound."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from support import exact
from support.errors import raises, wrong_calls
from support.optional import optional

# bounds of the error of one rotation, relative to the length of a pair: rounding of the result, plus arithmetic errors
ONE_TURN = {
    "float64": 2.0**-51, "float32": 2.0**-24 + 2.0**-51, "float16": 2.0**-11 + 2.0**-20, "bfloat16": 2.0**-8 + 2.0**-20,
}  # fmt: skip

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
KINDS = {
    "half": pf.Rotary(16),
    "interleaved": pf.Rotary(16, layout="interleaved"),
    "a part of the head": pf.Rotary(16, rotary_dim=8),
    "yarn, interleaved to half": pf.Rotary(16, layout="interleaved_to_half", scaling=YARN),
    "frequencies": pf.Rotary(16, frequencies=np.linspace(-1, 1, 8), attention_factor=1.5),
}


def draw(rng, *shape):
    return rng.standard_normal(shape, np.float32)


def alike(moved, at_once):
    """Assert that keys differ by at most six rounding errors of float32 at the largest value."""
    np.testing.assert_allclose(moved, at_once, rtol=0, atol=6 * 2.0**-24 * np.abs(at_once).max())


@pytest.mark.parametrize("rotary", KINDS.values(), ids=KINDS)
def test_moved_keys_equal_keys_rotated_there(rotary, rng):
    keys = draw(rng, 2, 3, 10, 16)
    cache = rotary.apply(keys, start=100)
    alike(rotary.shift(cache, -40), rotary.apply(keys, start=60))
    alike(rotary.shift(cache, 0.5), rotary.apply(keys, start=100.5))


@pytest.mark.parametrize("seq_axis", [-2, 1], ids=["heads first", "tokens first"])
@pytest.mark.parametrize("offset", [-7, range(10), np.arange(20).reshape(2, 10), [[-7], [8]]], ids=[
    "all", "each token", "each token of each sequence", "each block",
])  # fmt: skip
def test_offsets_of_tokens_sequences_and_blocks(offset, seq_axis, rng):
    rotary, keys, places = pf.Rotary(16), draw(rng, 2, 3, 10, 16), np.arange(100, 110)
    cache = rotary.apply(keys, positions=places)
    expected = rotary.apply(keys, positions=np.broadcast_to(places + np.asarray(offset), (2, 10)))
    if seq_axis == 1:
        cache = np.ascontiguousarray(cache.swapaxes(1, 2))
    moved = rotary.shift(cache, offset, seq_axis=seq_axis)
    alike(moved.swapaxes(1, 2) if seq_axis == 1 else moved, expected)
    # out may be the cache itself
    assert rotary.shift(cache, offset, seq_axis=seq_axis, out=cache) is cache
    np.testing.assert_array_equal(cache, moved)


@pytest.mark.parametrize("offset", [5, [1, 2, 3], [[1, 2, 3]], np.arange(15).reshape(5, 3)], ids=str)
def test_positions_of_several_axes(offset, rng):
    rotary, keys = pf.presets.qwen2_vl(16, mrope_section=(2, 3, 3)), draw(rng, 1, 2, 5, 16)
    places = rng.integers(0, 99, (5, 3))
    moved = rotary.shift(rotary.apply(keys, positions=places), offset)
    alike(moved, rotary.apply(keys, positions=places + np.asarray(offset)))


def test_views_in_place(rng):
    """`shift` can move keys in place, also in a view of an array of keys and values, and in unaligned memory.

    Other values of the array are unchanged.
    """
    rotary, unaligned = pf.Rotary(16), np.zeros(3 * 10 * 16 * 4 + 1, np.uint8)
    for packed, keys in (
        (draw(rng, 2, 4, 3, 10, 16), lambda packed: packed[0]),
        (draw(rng, 4, 10, 2, 3, 16), lambda packed: packed[:, :, 0].swapaxes(1, 2)),
        (draw(rng, 4, 3, 10, 32), lambda packed: packed[..., :16]),
        (unaligned, lambda packed: packed[1:].view(np.float32).reshape(3, 10, 16)),
    ):
        view = keys(packed)
        view[...] = draw(rng, *view.shape)
        before = packed.copy()
        expected = rotary.shift(np.ascontiguousarray(view), -3)
        rotary.shift(view, -3, out=view)
        np.testing.assert_array_equal(keys(packed), expected)
        keys(before)[...] = expected
        np.testing.assert_array_equal(packed, before)


def test_offsets_in_the_memory_of_out(rng):
    """`shift` reads offsets that lie in the memory of `out` before it writes to `out`."""
    rotary, keys = pf.Rotary(64), rng.normal(size=(1, 4000, 64))
    offset, out = rng.integers(-99, 99, 4000).astype(float), np.zeros_like(keys)
    expected = rotary.shift(keys, offset)
    inside = out.reshape(-1)[:4000]
    inside[...] = offset
    np.testing.assert_array_equal(rotary.shift(keys, inside, out=out), expected)


@pytest.mark.parametrize("name", ONE_TURN)
@pytest.mark.parametrize("shifts", [1, 3])
def test_error_of_several_roundings(name, shifts, rng):
    """After a rotation and n shifts, errors are within n + 1 roundings.

    Each rounding may also lengthen the pair, and so increase the next error.
    """
    dtype = optional("ml_dtypes").bfloat16 if name == "bfloat16" else np.dtype(name)
    rotary, keys, frequencies = pf.Rotary(32), rng.standard_normal((40, 32)).astype(dtype), exact.schedule(32)
    start, offsets = int(rng.integers(0, 2**20)), [int(n) for n in rng.integers(-(2**20), 2**20, shifts)]
    cache = rotary.apply(keys, start=start)
    for offset in offsets:
        rotary.shift(cache, offset, out=cache)
    allowed = (1 + ONE_TURN[name]) ** (shifts + 1) - 1
    largest = 0.0
    for i, j in np.ndindex(40, 16):
        rotated, length = exact.rotation(keys[i, j::16], *exact.sincos(start + i + sum(offsets), frequencies[j]))
        for value, true in zip(cache[i, j::16], rotated, strict=True):
            error = float(abs(mpmath.mpf(float(value)) - true) / length)
            assert error <= allowed
            largest = max(largest, error)
    # the bound is not too wide: the largest error reaches an eighth of it
    assert largest > allowed / 8


@wrong_calls(
    """
    pf.Rotary(16, scaling={"rope_type": "xpos"}).shift(x, 3) | ValueError | with rope_type='xpos', the norms of
    pf.Rotary(16).shift(x, [1, 2]) | ValueError | shape (2,), but must be one number, or; shape (10,)
    pf.Rotary(16).shift(x, [[1], [2], [3]]) | ValueError | offset; shape (3, 1),; (2, 10); (2, 1)
    pf.Rotary(16).shift(x, "far") | TypeError | offset
    pf.Rotary(16).shift(x[..., :8], 3) | ValueError | keys has shape; but must have shape (.., length, 16)
    pf.Rotary(16).shift(x, 3, out=x[:, :1]) | ValueError | out has shape
    pf.Rotary(16).shift(x[:, :, 1:], 3, out=x[:, :, :-1]) | ValueError | out and keys overlap
    pf.presets.qwen2_vl(16, mrope_section=(2, 3, 3)).shift(x, [1, 2]) | ValueError | offset has shape
""",
    "x",
)
def test_invalid_arguments_raise_errors(call, error, words, rng):
    x = draw(rng, 2, 3, 10, 16)
    before = x.copy()
    raises(lambda: call(x), error, words)
    np.testing.assert_array_equal(x, before)
