"""Arrays of jax go in and out by DLPack, which other libraries speak too, and as NumPy arrays do."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional

jax = optional("jax")
jnp = optional("jax.numpy")


@pytest.mark.usefixtures("backend")
def test_arrays_go_in_and_out(rng):
    encoding, rotary = pf.sinusoidal(16), pf.Rotary(16)
    positions, x = rng.uniform(-100, 100, (3, 5)).astype(np.float32), rng.normal(size=(3, 5, 16)).astype(np.float32)
    theirs_positions, theirs_x = jnp.asarray(positions), jnp.asarray(x)

    rows = jnp.from_dlpack(encoding.encode(theirs_positions))
    added = jnp.from_dlpack(encoding.add_to(np.from_dlpack(theirs_x), positions=theirs_positions))
    turned = jnp.from_dlpack(rotary.apply(np.asarray(theirs_x), positions=theirs_positions))

    for got, expected in (
        (rows, encoding.encode(positions)),
        (added, encoding.add_to(x, positions=positions)),
        (turned, rotary.apply(x, positions=positions)),
    ):
        assert isinstance(got, jax.Array)
        assert got.dtype == jnp.float32
        np.testing.assert_array_equal(np.asarray(got), expected)
    np.testing.assert_array_equal(np.asarray(theirs_x), x)


def test_nothing_is_copied():
    """Going in; and going out, where the memory begins as jax wants it."""
    theirs = jnp.ones((3, 16))
    assert np.from_dlpack(theirs).ctypes.data == theirs.unsafe_buffer_pointer()
    memory = np.empty(3 * 16 + 16, np.float32)
    out = memory[-memory.ctypes.data % 64 // 4 :][: 3 * 16].reshape(3, 16)
    got = jnp.from_dlpack(pf.sinusoidal(16).add_to(np.from_dlpack(theirs), out=out))
    assert got.unsafe_buffer_pointer() == out.ctypes.data
    np.testing.assert_array_equal(np.asarray(got), pf.sinusoidal(16).add_to(np.ones((3, 16), np.float32)))


def test_large_results_are_not_copied():
    rows = pf.sinusoidal(512).table(512)
    assert jnp.from_dlpack(rows).unsafe_buffer_pointer() == rows.ctypes.data


def test_arrays_of_jax_are_not_overwritten():
    """They do not change, and the memory that they show is read-only."""
    x = np.from_dlpack(jnp.zeros((3, 8)))
    with pytest.raises(ValueError, match="out is read-only"):
        pf.sinusoidal(8).add_to(x, out=x)


def test_what_must_be_an_array_of_numpy_says_so():
    encoding, x = pf.sinusoidal(8), jnp.ones((2, 8))
    for call in (encoding.add_to, pf.Rotary(8).apply):
        with pytest.raises(TypeError, match=r"x must be a numpy array, not \w+; give numpy\.asarray\(x\)$"):
            call(x)
        np.testing.assert_array_equal(call(np.asarray(x)), call(np.ones((2, 8), np.float32)))
    # nothing would be written to a copy
    with pytest.raises(TypeError, match=r"out must be a numpy array, not \w+$"):
        encoding.add_to(np.ones((2, 8)), out=x)
    with pytest.raises(TypeError, match=r"positions has no values yet, as jax traces it; jax\.pure_callback calls"):
        jax.jit(encoding.encode)(jnp.arange(3))


def test_bfloat16():
    optional("ml_dtypes")
    x = jnp.ones((3, 8), jnp.bfloat16)
    got = pf.sinusoidal(8).add_to(np.asarray(x))
    assert jnp.asarray(got).dtype == jnp.bfloat16
    np.testing.assert_array_equal(got, pf.sinusoidal(8).add_to(np.ones((3, 8), got.dtype)))


def test_in_compiled_functions(rng):
    """A callback computes on the host; gradients go past it, as to a table."""
    encoding = pf.sinusoidal(16)

    @jax.jit
    def embed(x, positions):
        shape = jax.ShapeDtypeStruct((*positions.shape, 16), x.dtype)
        rows = jax.pure_callback(lambda p: encoding.encode(np.asarray(p)), shape, jax.lax.stop_gradient(positions))
        return 4 * x + rows

    x, positions = jnp.asarray(rng.normal(size=(2, 5, 16)), jnp.float32), jnp.arange(10).reshape(2, 5)
    np.testing.assert_array_equal(np.asarray(embed(x, positions)), 4 * np.asarray(x) + encoding.encode(positions))
    gradient = jax.grad(lambda x: embed(x, positions).sum())(x)
    np.testing.assert_array_equal(np.asarray(gradient), 4)
