"""Test functions for jax under jit, vmap and derivatives, and the exchange of arrays between jax and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
from support.fuzzing import DTYPES
from support.optional import optional

jax = optional("jax")
jnp = optional("jax.numpy")
pfj = optional("posenc_fast.jax")

E = pf.sinusoidal(8)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_exchange_of_arrays_between_jax_and_numpy(dtype, rng):
    encoding, rotary = pf.sinusoidal(16), pf.Rotary(16)
    positions, x = rng.uniform(-100, 100, (3, 5)).astype(np.float32), rng.normal(size=(3, 5, 16))
    p, x = jnp.asarray(positions), jnp.asarray(x, dtype)
    values = np.asarray(x)
    before = values.copy()
    same_bits(jnp.from_dlpack(encoding.encode(p)), encoding.encode(positions))
    same_bits(jnp.asarray(encoding.add_to(values, positions=p)), encoding.add_to(before, positions=positions))
    same_bits(jnp.asarray(rotary.apply(values, positions=p)), rotary.apply(before, positions=positions))
    same_bits(x, before)


def test_nothing_is_copied():
    """NumPy reads the memory of jax arrays, and jax reads NumPy's memory if it is aligned to 64 bytes."""
    ones = jnp.ones((3, 16))
    assert np.from_dlpack(ones).ctypes.data == ones.unsafe_buffer_pointer()
    memory = np.empty(3 * 16 + 16, np.float32)
    out = memory[-memory.ctypes.data % 64 // 4 :][: 3 * 16].reshape(3, 16)
    got = jnp.from_dlpack(pf.sinusoidal(16).add_to(np.from_dlpack(ones), out=out))
    assert got.unsafe_buffer_pointer() == out.ctypes.data
    np.testing.assert_array_equal(np.asarray(got), pf.sinusoidal(16).add_to(np.ones((3, 16), np.float32)))
    # large results are aligned to 64 bytes, so jax reads them without a copy
    rows = pf.sinusoidal(512).table(512)
    assert jnp.from_dlpack(rows).unsafe_buffer_pointer() == rows.ctypes.data


ONES = jnp.ones((2, 8))


@wrong_calls("""
    E.add_to(ONES) | TypeError | x must be a numpy array, not ; give numpy.asarray(x)
    pf.Rotary(8).apply(ONES) | TypeError | x must be a numpy array, not ; give numpy.asarray(x)
    E.add_to(np.ones((2, 8)), out=ONES) | TypeError | out must be a numpy array, not
    E.add_to(np.from_dlpack(ONES), out=np.from_dlpack(ONES)) | ValueError | out is read-only
    jax.jit(E.encode)(jnp.arange(3)) | TypeError | positions has no values yet, because jax traces it; use the functions of posenc_fast.jax
""")
def test_jax_arrays_in_functions_of_numpy(call, error, words):
    """Methods for NumPy reject jax arrays as x or out, read-only views of jax arrays as out, and traced positions."""
    raises(call, error, words)
    assert (ONES == 1).all()


# ---- functions that jax compiles --------------------------------------------------------------------------------------

ENCODING = pf.sinusoidal(8, base=50.0, scale=1.5)
IMAGE = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
ROTARY, SECTIONS = pf.Rotary(8, base=50.0), pf.Rotary(8, sections=[2, 2])
ROTARIES = {
    "half": ROTARY,
    "interleaved": pf.Rotary(8, base=50.0, layout="interleaved"),
    "interleaved-to-half": pf.Rotary(8, base=50.0, layout="interleaved_to_half"),
    "partial": pf.Rotary(8, base=50.0, rotary_dim=6),
    "amplitudes": pf.Rotary(8, scaling={"rope_type": "xpos", "scale_base": 8.0}),
    "sections": SECTIONS,
}


@pytest.fixture
def wide():
    """Enable 64-bit numbers of jax."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def same_bits(got, expected):
    """Assert that got is a jax array with the dtype, shape and bits of expected."""
    assert isinstance(got, jax.Array)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(got).view(np.uint8), np.ascontiguousarray(expected).view(np.uint8))


def both(name, value, **options):
    """Return the function `name` of posenc_fast.jax, and the method of value that it must equal, as functions of x."""
    applied = "apply" if name == "rotate" else name
    return lambda x: getattr(pfj, name)(value, x, **options), lambda x: getattr(value, applied)(x, **options)


ORDINALS = np.arange(12)
CALLS = {
    "encode": both("encode", ENCODING, dtype=np.float32),
    "encode-image": (lambda x: pfj.encode(IMAGE, x[..., :2]), lambda x: IMAGE.encode(x[..., :2])),
    "add_to": both("add_to", ENCODING, start=0.5, x_scale=-2.0),
    "add_to-positions": both("add_to", ENCODING, positions=[3, 0, 7]),
    "add_to-each": both("add_to", ENCODING, positions=ORDINALS[:6].reshape(2, 3)),
    "add_to-image-objects": both("add_to", IMAGE, positions=np.array([[2**62 + 1, 1], [2, 3], [0, -7]], object)),
    "rotate-tokens-first": both("rotate", ROTARY, seq_axis=0, start=9),
    "rotate-positions": both("rotate", SECTIONS, positions=ORDINALS.reshape(2, 3, 2)),
    "rotate-float32": both("rotate", ROTARY, seq_axis=1, start=10**6, precision="float32"),
    **{f"rotate-{name}": both("rotate", rotary, start=2) for name, rotary in ROTARIES.items()},
    **{f"rotate-back-{name}": both("rotate", rotary, inverse=True) for name, rotary in ROTARIES.items()},
}
WAYS = {
    "eager": lambda call, x: call(x),
    "jit": lambda call, x: jax.jit(call)(x),
    "vmap-of-vmap": lambda call, x: jax.vmap(jax.vmap(call))(jnp.stack([x, 2 * x])[:, None])[0, 0],
    "jit-of-vmap": lambda call, x: jax.jit(jax.vmap(call, in_axes=-1, out_axes=1))(jnp.stack([2 * x, x], -1))[:, 1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CALLS)
def test_bits_are_those_of_numpys_calls(name, way, rng):
    jax_call, numpy_call = CALLS[name]
    x = rng.normal(size=(2, 3, 8)).astype(np.float32)
    same_bits(WAYS[way](jax_call, jnp.asarray(x)), numpy_call(x))


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_types(dtype, rng):
    dtype = jnp.dtype(dtype)
    x = jnp.asarray(rng.normal(size=(2, 3, 8)), dtype)
    for jax_call, numpy_call in (CALLS["add_to"], CALLS["rotate-half"]):
        same_bits(jax.jit(jax_call)(x), numpy_call(np.asarray(x)))
    encode = jax.jit(lambda p: pfj.encode(ENCODING, p, dtype=dtype))
    for kind in ("int8", "uint32", "int32", "float16", "float32"):
        positions = jnp.asarray([0, 1, 100, 7.25], kind)
        same_bits(encode(positions), ENCODING.encode(np.asarray(positions), dtype=dtype))
    same_bits(pfj.table(ENCODING, 5, dtype=dtype), ENCODING.table(5, dtype=dtype))


LARGE = np.array([2**62 + 1, -(2**53) - 1, 0])
STATIC = {
    "large-integers": LARGE,
    "large-reals": LARGE + 0.5,
    "masked-reals": np.ma.masked_array([0.0, 1.0, 2.0], [0, 1, 0]),
    "missing": [0, None, 2],
    "objects": np.array([0, 1, 2], object),
    "bfloat16": np.arange(3).astype(DTYPES["bfloat16"]) if "bfloat16" in DTYPES else np.arange(3),
    "times": np.array(["2026-01-01T06:00", "2026-01-02", "1970-01-01"], "M8[m]"),
}


@pytest.mark.parametrize("kind", STATIC)
def test_static_positions_are_those_of_numpys_calls(kind):
    """Static positions are not converted to jax arrays, which would round them to 32 bits."""
    positions, x = STATIC[kind], np.ones((3, 8), np.float32)
    encode = lambda x: pfj.encode(ENCODING, positions), lambda x: ENCODING.encode(positions)
    of_x = (both(name, value, positions=positions) for name, value in (("add_to", ENCODING), ("rotate", ROTARY)))
    for jax_call, numpy_call in (encode, *of_x):
        same_bits(jax_call(x), numpy_call(x))
        same_bits(jax.jit(jax_call)(x), numpy_call(x))


def test_static_positions_are_exact_without_64_bits():
    same_bits(pfj.table(ENCODING, 3, start=2**62 + 1), ENCODING.table(3, start=2**62 + 1))
    # jax rounds positions in its own arrays to float32, but not positions in NumPy arrays
    moved = np.array([2.0**24 + 1])
    assert not (pfj.encode(ENCODING, jnp.asarray(moved)) == pfj.encode(ENCODING, moved)).all()


def test_static_rows_are_computed_during_tracing():
    static = jax.make_jaxpr(lambda x: pfj.table(ENCODING, 3) + pfj.encode(ENCODING, np.arange(3)) + x)
    assert "pure_callback" not in str(static(jnp.ones((3, 8))))
    assert "pure_callback" in str(jax.make_jaxpr(lambda p: pfj.encode(ENCODING, p))(jnp.arange(3)))


def test_traced_start(rng):
    """start may be a traced number: the counter of a loop, or under vmap, the start of each sequence."""
    x = rng.normal(size=(5, 2, 1, 8)).astype(np.float32)

    def step(start, token):
        return start + 1, (
            pfj.rotate(ROTARY, token, start=start),
            pfj.add_to(ENCODING, token, start=start),
            pfj.table(ENCODING, 2, start=start, step=3),
        )

    _, (rotated, added, rows) = jax.lax.scan(step, jnp.asarray(100), x)
    for i in range(5):
        same_bits(rotated[i], ROTARY.apply(x[i], start=100 + i))
        same_bits(added[i], ENCODING.add_to(x[i], start=100 + i))
        same_bits(rows[i], ENCODING.table(2, start=100 + i, step=3))
    starts = jnp.arange(100, 105)
    each = jax.vmap(lambda start, token: step(start, token)[1])
    for count in (1, 2, 5):
        for got, expected in zip(each(starts[:count], x[:count]), (rotated, added, rows), strict=True):
            same_bits(got, np.asarray(expected[:count]))
    alone = jax.vmap(lambda start: pfj.rotate(ROTARY, x[0], start=start))(starts)
    same_bits(alone[3], ROTARY.apply(x[0], start=103))


@pytest.mark.parametrize("lead", [(), (2,)], ids=["shared", "each"])
@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0), (-1, 1)], ids=["x", "positions", "both", "last"])
@pytest.mark.parametrize("value", [ENCODING, IMAGE, ROTARY, SECTIONS], ids=["sum", "sum-image", "rotation", "sections"])
def test_batches_of_positions(value, dims, lead, rng):
    function = pfj.rotate if isinstance(value, pf.Rotary) else pfj.add_to

    def call(x, positions):
        return function(value, x, positions=positions)

    x = rng.normal(size=(4, 2, 3, 8)).astype(np.float32)
    given = x, rng.integers(0, 99, (4, *lead, 3, *((value.ndim,) if value.ndim > 1 else ())))
    operands = [
        values[0] if dim is None else np.moveaxis(values, 0, dim) for values, dim in zip(given, dims, strict=True)
    ]
    got = jax.jit(jax.vmap(call, in_axes=dims))(*operands)
    for i in range(4):
        expected = call(*(values[0 if dim is None else i] for values, dim in zip(given, dims, strict=True)))
        same_bits(got[i], np.asarray(expected))


# ---- derivatives ------------------------------------------------------------------------------------------------------


def rows(encoding, positions):
    """Return rows computed by jax functions from the frequencies, phases and amplitudes of an encoding."""
    positions = jnp.asarray(positions, jnp.float64)[..., None] if encoding.ndim == 1 else positions
    frequencies = encoding.frequencies.reshape(encoding.d_model, encoding.ndim)
    return encoding.amplitudes * jnp.sin(positions @ frequencies.T + 2 * np.pi * encoding.phases)


def matrix_of(call):
    """Return a jax function that equals an affine NumPy function of x, of shape (2, 3, 8): matrix @ x + constant."""
    units = np.eye(48).reshape(48, 2, 3, 8)
    zero = call(np.zeros((2, 3, 8)))
    matrix = np.stack([(call(unit) - zero).ravel() for unit in units], 1)
    return lambda x: (matrix @ x.ravel()).reshape(2, 3, 8) + zero


def cubed(call):
    return lambda x: (call(x) ** 3).sum()


DERIVATIVES = {
    "grad-of-jit": lambda call, x: jax.grad(jax.jit(cubed(call)))(x),
    "jvp": lambda call, x: jax.jvp(call, (x,), (x[::-1],))[1],
    "vmap-of-grad": lambda call, x: jax.jit(jax.vmap(jax.grad(cubed(call))))(jnp.stack([x, 2 * x])),
    "grad-of-vmap": lambda call, x: jax.grad(cubed(jax.vmap(call)))(jnp.stack([x, 2 * x])),
    "hessian": lambda call, x: jax.hessian(cubed(call))(x),
}


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("encode")])
def test_derivatives_of_x(name, derivative, rng):
    jax_call, numpy_call = CALLS[name]
    x, run = jnp.asarray(rng.normal(size=(2, 3, 8))), DERIVATIVES[derivative]
    np.testing.assert_allclose(run(jax_call, x), run(matrix_of(numpy_call), x), rtol=1e-10, atol=1e-10)


def test_derivatives_of_x_with_a_traced_start(rng):
    x = rng.normal(size=(2, 3, 8)).astype(np.float32)
    for value, function in ((ROTARY, pfj.rotate), (ENCODING, pfj.add_to)):

        def gradient(x, start, value=value, function=function):
            return jax.grad(cubed(lambda x: function(value, x, start=start)))(x)

        np.testing.assert_allclose(jax.jit(gradient)(x, 7), gradient(x, 7), rtol=1e-5, atol=1e-5)


def rotated_ones(p):
    """Return an array of ones, of shape (2, 3, 8), rotated by positions of shape (3,)."""
    angles = p[:, None] * ROTARY.frequencies
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([cos - sin, cos + sin], -1) * jnp.ones((2, 1, 1))


def squares(p):
    return jnp.stack([p, p**2], -1)


OF_POSITIONS = {
    "encode": (lambda p: pfj.encode(ENCODING, p, dtype=np.float64), lambda p: rows(ENCODING, p)),
    "encode-image": (
        lambda p: pfj.encode(IMAGE, squares(p), dtype=np.float64),
        lambda p: rows(IMAGE, squares(p)),
    ),
    "add_to": (
        lambda p: pfj.add_to(ENCODING, jnp.ones((2, 3, 8)), positions=p),
        lambda p: 1 + rows(ENCODING, p) + jnp.zeros((2, 3, 8)),
    ),
    "rotate": (lambda p: pfj.rotate(ROTARY, jnp.ones((2, 3, 8)), positions=p), rotated_ones),
}


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("name", OF_POSITIONS)
def test_derivatives_of_positions(name, derivative):
    call, formula = OF_POSITIONS[name]
    positions, run = jnp.asarray([0.5, -3.0, 100.0]), DERIVATIVES[derivative]
    np.testing.assert_allclose(run(call, positions), run(formula, positions), rtol=1e-10, atol=1e-10)


def test_derivatives_in_32_bits(rng):
    """Each derivative has the dtype of its argument. With xpos, derivatives with respect to positions are errors."""
    x, positions = jnp.asarray(rng.normal(size=(2, 3, 8)), jnp.float16), jnp.asarray([0.5, 3.0, 7.0])
    call = jax.jit(lambda x, p, i: pfj.rotate(ROTARY, pfj.add_to(ENCODING, x, positions=p), positions=i).sum())
    of_x, of_positions = jax.grad(call, (0, 1))(x, positions, jnp.arange(3))
    assert (of_x.dtype, of_positions.dtype) == (jnp.float16, jnp.float32)
    rotated_back = ROTARY.apply(np.ones((2, 3, 8)), inverse=True)
    np.testing.assert_allclose(of_x, rotated_back, atol=2e-3)

    def xpos(x, positions):
        return pfj.rotate(ROTARIES["amplitudes"], x, positions=positions).sum()

    with pytest.raises(ValueError, match=r"derivatives with respect to positions are unsupported.*xpos.*stop_gradient"):
        jax.grad(xpos, 1)(x, positions)
    assert jax.grad(lambda x: xpos(x, jax.lax.stop_gradient(positions)))(x).shape == x.shape


X = np.ones((2, 3, 8), np.float32)


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@wrong_calls(
    """
    pfj.table("sinusoidal", 3) | TypeError | encoding; posenc_fast.Encoding; str
    pfj.rotate(ENCODING, X) | TypeError | rotary; posenc_fast.Rotary; Encoding
    pfj.add_to(ROTARY, X) | TypeError | encoding; posenc_fast.Encoding; Rotary
    pfj.encode(ROTARY, i) | TypeError | encoding; posenc_fast.Encoding; Rotary
    pfj.table(ENCODING, -1, start=i) | ValueError | length; -1
    pfj.table(ENCODING, 3, start=i + 0.5) | TypeError | start; float32; use encode(encoding, start + step
    pfj.add_to(ENCODING, X, start=i + 0.5) | TypeError | start; float32; pass positions=start +
    pfj.rotate(ROTARY, X, start=i + np.arange(2)) | TypeError | start; int32[2]; jax.vmap
    pfj.table(IMAGE, 3, start=i) | ValueError | one axis; 2
    pfj.table(ENCODING, 3, dtype="float64") | ValueError | dtype; float64; jax_enable_x64
    pfj.encode(ENCODING, i, precision="double") | ValueError | precision; double
    pfj.encode(ENCODING, i > 0) | TypeError | positions; bool
    pfj.encode(IMAGE, jnp.stack([i, i, i])) | ValueError | positions; (3,); (.., 2)
    pfj.add_to(ENCODING, X[..., :6]) | ValueError | x; (2, 3, 6); 8; d_model
    pfj.add_to(ENCODING, X.astype(int)) | TypeError | x; int
    pfj.add_to(ENCODING, X, start="0") | TypeError | start; '0'
    pfj.add_to(ENCODING, X, start=1, positions=jnp.arange(3)) | ValueError | start=1; positions
    pfj.add_to(ENCODING, X, positions=jnp.arange(4) + i) | ValueError | positions; (4,); (3,)
    pfj.add_to(IMAGE, X) | ValueError | one axis; 2
    pfj.rotate(ROTARY, X[0, 0] + i) | ValueError | x; (8,); head_dim
    pfj.rotate(ROTARY, X, seq_axis=-1) | ValueError | seq_axis=-1; (2, 3, 8)
    pfj.rotate(ROTARY, X, inverse=i) | TypeError | inverse
    pfj.rotate(ROTARY, X, positions=jnp.zeros((3, 3)) + i) | ValueError | (3, 3); (2, 3)
    """,
    "i",
)
def test_errors_are_raised_during_tracing(call, error, words, jitted):
    raises(lambda: (jax.jit(call) if jitted else call)(jnp.asarray(1)), error, words)
