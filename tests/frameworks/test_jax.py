"""Functions for jax under compilation, batching and differentiation, and exchange of arrays between jax and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from support.fuzzing import DTYPES
from support.optional import optional

jax = optional("jax")
jnp = optional("jax.numpy")
pfj = optional("posenc_fast.jax")


@pytest.mark.usefixtures("backend")
def test_exchange_of_arrays_between_jax_and_numpy(rng):
    encoding, rotary = pf.sinusoidal(16), pf.Rotary(16)
    positions, x = rng.uniform(-100, 100, (3, 5)).astype(np.float32), rng.normal(size=(3, 5, 16)).astype(np.float32)
    jax_positions, jax_x = jnp.asarray(positions), jnp.asarray(x)

    rows = jnp.from_dlpack(encoding.encode(jax_positions))
    added = jnp.from_dlpack(encoding.add_to(np.from_dlpack(jax_x), positions=jax_positions))
    rotated = jnp.from_dlpack(rotary.apply(np.asarray(jax_x), positions=jax_positions))

    for got, expected in (
        (rows, encoding.encode(positions)),
        (added, encoding.add_to(x, positions=positions)),
        (rotated, rotary.apply(x, positions=positions)),
    ):
        assert isinstance(got, jax.Array)
        assert got.dtype == jnp.float32
        np.testing.assert_array_equal(np.asarray(got), expected)
    np.testing.assert_array_equal(np.asarray(jax_x), x)


def test_nothing_is_copied():
    """NumPy reads the memory of jax arrays, and jax reads NumPy's memory if it is aligned to 64 bytes."""
    ones = jnp.ones((3, 16))
    assert np.from_dlpack(ones).ctypes.data == ones.unsafe_buffer_pointer()
    memory = np.empty(3 * 16 + 16, np.float32)
    out = memory[-memory.ctypes.data % 64 // 4 :][: 3 * 16].reshape(3, 16)
    got = jnp.from_dlpack(pf.sinusoidal(16).add_to(np.from_dlpack(ones), out=out))
    assert got.unsafe_buffer_pointer() == out.ctypes.data
    np.testing.assert_array_equal(np.asarray(got), pf.sinusoidal(16).add_to(np.ones((3, 16), np.float32)))


def test_large_results_are_not_copied():
    rows = pf.sinusoidal(512).table(512)
    assert jnp.from_dlpack(rows).unsafe_buffer_pointer() == rows.ctypes.data


def test_arrays_of_jax_are_not_overwritten():
    """NumPy views of jax arrays are read-only, so out=x raises an error."""
    x = np.from_dlpack(jnp.zeros((3, 8)))
    with pytest.raises(ValueError, match="out is read-only"):
        pf.sinusoidal(8).add_to(x, out=x)


def test_errors_for_jax_arrays_in_numpy_functions():
    encoding, x = pf.sinusoidal(8), jnp.ones((2, 8))
    for call in (encoding.add_to, pf.Rotary(8).apply):
        with pytest.raises(TypeError, match=r"x must be a numpy array, not \w+; give numpy\.asarray\(x\)$"):
            call(x)
        np.testing.assert_array_equal(call(np.asarray(x)), call(np.ones((2, 8), np.float32)))
    # out cannot be a converted copy, because jax would not see the result
    with pytest.raises(TypeError, match=r"out must be a numpy array, not \w+$"):
        encoding.add_to(np.ones((2, 8)), out=x)
    with pytest.raises(
        TypeError, match=r"positions has no values yet, as jax traces it; the functions of posenc_fast\.jax"
    ):
        jax.jit(encoding.encode)(jnp.arange(3))


def test_bfloat16():
    optional("ml_dtypes")
    x = jnp.ones((3, 8), jnp.bfloat16)
    got = pf.sinusoidal(8).add_to(np.asarray(x))
    assert jnp.asarray(got).dtype == jnp.bfloat16
    np.testing.assert_array_equal(got, pf.sinusoidal(8).add_to(np.ones((3, 8), got.dtype)))


def test_in_compiled_functions(rng):
    """A callback computes the rows on the host. Gradients treat them as a constant table."""
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


# ---- functions that jax compiles --------------------------------------------------------------------------------------

ENCODING = pf.sinusoidal(8, base=50.0, scale=1.5)
IMAGE = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
ROTARY, SECTIONS = pf.Rotary(8, base=50.0), pf.Rotary(8, sections=[2, 2])
XPOS = {"rope_type": "xpos", "scale_base": 8.0}
ROTARIES = {
    "half": ROTARY,
    "interleaved": pf.Rotary(8, base=50.0, layout="interleaved"),
    "interleaved-to-half": pf.Rotary(8, base=50.0, layout="interleaved_to_half"),
    "partial": pf.Rotary(8, base=50.0, rotary_dim=6),
    "amplitudes": pf.Rotary(8, scaling=XPOS),
    "sections": SECTIONS,
}


@pytest.fixture(params=[False, True], ids=["32-bits", "64-bits"])
def x64(request):
    """Run the test with and without 64-bit numbers in jax, and return whether they are enabled."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", request.param)
    yield request.param
    jax.config.update("jax_enable_x64", before)


@pytest.fixture
def wide():
    """Enable 64-bit numbers in jax."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def same_bits(got, expected):
    """Raise an error unless both arrays have the same dtype, shape and bits."""
    assert isinstance(got, jax.Array)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(got).view(np.uint8), np.ascontiguousarray(expected).view(np.uint8))


# a function of a jax array, and the same function of a NumPy array
CALLS = {
    "encode": (lambda x: pfj.encode(ENCODING, x), lambda x: ENCODING.encode(x, dtype=np.float32)),
    "encode-image": (lambda x: pfj.encode(IMAGE, x[..., :2]), lambda x: IMAGE.encode(x[..., :2])),
    "add_to": (
        lambda x: pfj.add_to(ENCODING, x, start=0.5, x_scale=-2.0),
        lambda x: ENCODING.add_to(x, start=0.5, x_scale=-2.0),
    ),
    "add_to-positions": (
        lambda x: pfj.add_to(ENCODING, x, positions=[3, 0, 7]),
        lambda x: ENCODING.add_to(x, positions=[3, 0, 7]),
    ),
    "add_to-each": (
        lambda x: pfj.add_to(ENCODING, x, positions=np.arange(6).reshape(2, 3)),
        lambda x: ENCODING.add_to(x, positions=np.arange(6).reshape(2, 3)),
    ),
    "add_to-image": (
        lambda x: pfj.add_to(IMAGE, x, positions=np.arange(6).reshape(3, 2)),
        lambda x: IMAGE.add_to(x, positions=np.arange(6).reshape(3, 2)),
    ),
    "rotate-tokens-first": (
        lambda x: pfj.rotate(ROTARY, x, seq_axis=0, start=9),
        lambda x: ROTARY.apply(x, seq_axis=0, start=9),
    ),
    "rotate-positions": (
        lambda x: pfj.rotate(SECTIONS, x, positions=np.arange(12).reshape(2, 3, 2)),
        lambda x: SECTIONS.apply(x, positions=np.arange(12).reshape(2, 3, 2)),
    ),
    "rotate-float32": (
        lambda x: pfj.rotate(ROTARY, x, start=10**6, precision="float32"),
        lambda x: ROTARY.apply(x, start=10**6, precision="float32"),
    ),
}
for each, one in ROTARIES.items():
    CALLS |= {
        f"rotate-{each}": (lambda x, one=one: pfj.rotate(one, x, start=2), lambda x, one=one: one.apply(x, start=2)),
        f"rotate-back-{each}": (
            lambda x, one=one: pfj.rotate(one, x, inverse=True),
            lambda x, one=one: one.apply(x, inverse=True),
        ),
    }
WAYS = {
    "eager": lambda call, x: call(x),
    "jit": lambda call, x: jax.jit(call)(x),
    "vmap": lambda call, x: jax.vmap(call)(jnp.stack([x, 2 * x]))[0],
    "vmap-of-vmap": lambda call, x: jax.vmap(jax.vmap(call))(jnp.stack([x, 2 * x])[:, None])[0, 0],
    "jit-of-vmap": lambda call, x: jax.jit(jax.vmap(call, in_axes=-1, out_axes=1))(jnp.stack([2 * x, x], -1))[:, 1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CALLS)
def test_bits_are_those_of_numpys_calls(name, way, x64, rng):
    jax_call, numpy_call = CALLS[name]
    x = rng.normal(size=(2, 3, 8)).astype(np.float64 if x64 else np.float32)
    same_bits(WAYS[way](jax_call, jnp.asarray(x)), numpy_call(x))


@pytest.mark.usefixtures("backend", "wide")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_types(dtype, rng):
    dtype = jnp.dtype(dtype)
    x = jnp.asarray(rng.normal(size=(2, 3, 8)), dtype)
    for jax_call, numpy_call in (CALLS["add_to"], CALLS["rotate-half"]):
        same_bits(jax.jit(jax_call)(x), numpy_call(np.asarray(x)))
    positions = jnp.arange(5)
    same_bits(
        jax.jit(lambda p: pfj.encode(ENCODING, p, dtype=dtype))(positions), ENCODING.encode(range(5), dtype=dtype)
    )
    same_bits(pfj.table(ENCODING, 5, dtype=dtype), ENCODING.table(5, dtype=dtype))


@pytest.mark.parametrize("kind", ["int8", "uint32", "int32", "float16", "float32"])
def test_positions_have_the_dtype_of_the_jax_array(kind):
    positions = jnp.asarray([0, 1, 100, 7.25], kind)
    same_bits(jax.jit(lambda p: pfj.encode(ENCODING, p))(positions), ENCODING.encode(np.asarray(positions)))


def test_static_positions_are_exact_without_64_bits():
    """Static NumPy positions are not converted to jax arrays, which would round them."""
    large = np.array([2**62 + 1, -(2**53) - 1])
    same_bits(jax.jit(lambda: pfj.encode(ENCODING, large))(), ENCODING.encode(large))
    times = np.array(["2026-01-01T06:00", "2026-01-02"], "datetime64[m]")
    same_bits(pfj.encode(ENCODING, times), ENCODING.encode(times))
    x = np.ones((2, 8), np.float32)
    for positions in (large, large + 0.5, times):
        same_bits(
            jax.jit(lambda x, p=positions: pfj.add_to(ENCODING, x, positions=p))(x),
            ENCODING.add_to(x, positions=positions),
        )
        same_bits(
            jax.jit(lambda x, p=positions: pfj.rotate(ROTARY, x, positions=p))(x), ROTARY.apply(x, positions=positions)
        )
    same_bits(pfj.table(ENCODING, 3, start=2**62 + 1), ENCODING.table(3, start=2**62 + 1))
    # a jax array rounds the same position to float32
    moved = np.array([2.0**24 + 1])
    assert not (pfj.encode(ENCODING, jnp.asarray(moved)) == pfj.encode(ENCODING, moved)).all()


@pytest.mark.parametrize(
    "positions",
    [
        np.ma.masked_array([0, 1, 2], [0, 1, 0]),
        np.ma.masked_array([0.0, 1.0, 2.0], [0, 1, 0]),
        [0, None, 2],
        np.array([0, 1, 2], object),
        np.arange(3).astype(DTYPES["bfloat16"]) if "bfloat16" in DTYPES else np.arange(3),
        np.array([0, 1, 2**60]).astype("M8[us]"),
    ],
    ids=["masked-integers", "masked-reals", "missing", "objects", "bfloat16", "times"],
)
def test_static_positions_are_those_of_numpys_calls(positions):
    encoding, rotary, x = pf.sinusoidal(4), pf.Rotary(4), np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(pfj.encode(encoding, positions), encoding.encode(positions))
    np.testing.assert_array_equal(pfj.add_to(encoding, x, positions=positions), encoding.add_to(x, positions=positions))
    np.testing.assert_allclose(
        pfj.rotate(rotary, x, positions=positions), rotary.apply(x, positions=positions), rtol=0, atol=1e-6
    )


def test_static_rows_are_computed_during_tracing():
    def program(x):
        return pfj.table(ENCODING, 3) + pfj.encode(ENCODING, np.arange(3)) + x

    assert "pure_callback" not in str(jax.make_jaxpr(program)(jnp.ones((3, 8))))
    assert "pure_callback" in str(jax.make_jaxpr(lambda p: pfj.encode(ENCODING, p))(jnp.arange(3)))


def test_traced_start(rng):
    """start may be traced: the counter of a loop that generates tokens, or one start for each sequence of a batch."""
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
    for each, expected in zip(
        jax.vmap(lambda start, token: step(start, token)[1])(starts, x), (rotated, added, rows), strict=True
    ):
        same_bits(each, np.asarray(expected))
    alone = jax.vmap(lambda start: pfj.rotate(ROTARY, x[0], start=start))(starts)
    same_bits(alone[3], ROTARY.apply(x[0], start=103))


BATCHES = {"x": (0, None), "positions": (None, 0), "both": (0, 0), "last": (-1, 1)}


@pytest.mark.parametrize("lead", [(), (2,)], ids=["shared", "each"])
@pytest.mark.parametrize("dims", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("kind", ["sum", "sum-image", "rotation", "rotation-sections"])
def test_batches_of_positions(kind, dims, lead, rng):
    call, axes = {
        "sum": (lambda x, p: pfj.add_to(ENCODING, x, positions=p), ()),
        "sum-image": (lambda x, p: pfj.add_to(IMAGE, x, positions=p), (2,)),
        "rotation": (lambda x, p: pfj.rotate(ROTARY, x, positions=p), ()),
        "rotation-sections": (lambda x, p: pfj.rotate(SECTIONS, x, positions=p), (2,)),
    }[kind]
    x = rng.normal(size=(4, 2, 3, 8)).astype(np.float32)
    positions = rng.integers(0, 99, (4, *lead, 3, *axes))
    operands = [
        values[0] if dim is None else np.moveaxis(values, 0, dim)
        for values, dim in zip((x, positions), dims, strict=True)
    ]
    got = jax.jit(jax.vmap(call, in_axes=dims))(*operands)
    for i in range(4):
        expected = call(*(values[0 if dim is None else i] for values, dim in zip((x, positions), dims, strict=True)))
        same_bits(got[i], np.asarray(expected))


# ---- derivatives ------------------------------------------------------------------------------------------------------


def rows(encoding, positions):
    """Return rows computed by jax from the frequencies, phases and amplitudes of the encoding."""
    positions = jnp.asarray(positions, jnp.float64)[..., None] if encoding.ndim == 1 else positions
    frequencies = encoding.frequencies.reshape(encoding.d_model, encoding.ndim)
    return encoding.amplitudes * jnp.sin(positions @ frequencies.T + 2 * np.pi * encoding.phases)


def matrix_of(call):
    """Return a jax function equal to an affine NumPy function, from its results for all unit vectors."""
    units = np.eye(48).reshape(48, 2, 3, 8)
    zero = call(np.zeros((2, 3, 8)))
    matrix = np.stack([(call(unit) - zero).ravel() for unit in units], 1)
    return lambda x: (matrix @ x.ravel()).reshape(2, 3, 8) + zero


def cubed(call):
    return lambda x: (call(x) ** 3).sum()


DERIVATIVES = {
    "grad": lambda call, x: jax.grad(cubed(call))(x),
    "jit-of-grad": lambda call, x: jax.jit(jax.grad(cubed(call)))(x),
    "grad-of-jit": lambda call, x: jax.grad(jax.jit(cubed(call)))(x),
    "jvp": lambda call, x: jax.jvp(call, (x,), (x[::-1],))[1],
    "jit-of-jvp": lambda call, x: jax.jit(lambda x: jax.jvp(call, (x,), (x[::-1],))[1])(x),
    "vjp": lambda call, x: jax.vjp(call, x)[1](call(x) + 1)[0],
    "jacfwd": lambda call, x: jax.jacfwd(call)(x),
    "jacrev": lambda call, x: jax.jacrev(call)(x),
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


OF_POSITIONS = {
    "encode": (lambda p: pfj.encode(ENCODING, p, dtype=np.float64), lambda p: rows(ENCODING, p)),
    "encode-image": (
        lambda p: pfj.encode(IMAGE, jnp.stack([p, p**2], -1), dtype=np.float64),
        lambda p: rows(IMAGE, jnp.stack([p, p**2], -1)),
    ),
    "add_to": (
        lambda p: pfj.add_to(ENCODING, jnp.ones((2, 3, 8)), positions=p),
        lambda p: 1 + rows(ENCODING, p) + jnp.zeros((2, 3, 8)),
    ),
    "rotate": (
        lambda p: pfj.rotate(ROTARY, jnp.ones((2, 3, 8)), positions=p),
        lambda p: (
            jnp.concatenate(
                [
                    jnp.cos(p[:, None] * ROTARY.frequencies) - jnp.sin(p[:, None] * ROTARY.frequencies),
                    jnp.cos(p[:, None] * ROTARY.frequencies) + jnp.sin(p[:, None] * ROTARY.frequencies),
                ],
                -1,
            )
            * jnp.ones((2, 1, 1))
        ),
    ),
}


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("name", OF_POSITIONS)
def test_derivatives_of_positions(name, derivative):
    call, formula = OF_POSITIONS[name]
    positions, run = jnp.asarray([0.5, -3.0, 100.0]), DERIVATIVES[derivative]
    np.testing.assert_allclose(run(call, positions), run(formula, positions), rtol=1e-10, atol=1e-10)


def test_derivatives_in_32_bits(rng):
    """Each derivative has the dtype of its argument. Integers have no derivative."""
    x, positions = jnp.asarray(rng.normal(size=(2, 3, 8)), jnp.float16), jnp.asarray([0.5, 3.0, 7.0])
    call = jax.jit(lambda x, p, i: pfj.rotate(ROTARY, pfj.add_to(ENCODING, x, positions=p), positions=i).sum())
    of_x, of_positions = jax.grad(call, (0, 1))(x, positions, jnp.arange(3))
    assert (of_x.dtype, of_positions.dtype) == (jnp.float16, jnp.float32)
    rotated_back = ROTARY.apply(np.ones((2, 3, 8)), inverse=True)
    np.testing.assert_allclose(of_x, rotated_back, atol=2e-3)


def test_derivatives_that_are_unsupported():
    x, rotary = jnp.ones((3, 8)), ROTARIES["amplitudes"]
    with pytest.raises(ValueError, match=r"positions is not differentiable.*xpos.*stop_gradient"):
        jax.grad(lambda p: pfj.rotate(rotary, x, positions=p).sum())(jnp.arange(3.0))
    constant = jax.grad(lambda x, p: pfj.rotate(rotary, x, positions=jax.lax.stop_gradient(p)).sum())(
        x, jnp.arange(3.0)
    )
    assert constant.shape == x.shape


# ---- errors -----------------------------------------------------------------------------------------------------------

X = np.ones((2, 3, 8), np.float32)


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda i: pfj.table("sinusoidal", 3), TypeError, ["encoding", "posenc_fast.Encoding", "str"]),
        (lambda i: pfj.rotate(ENCODING, X), TypeError, ["rotary", "posenc_fast.Rotary", "Encoding"]),
        (lambda i: pfj.table(ENCODING, -1, start=i), ValueError, ["length", "-1"]),
        (lambda i: pfj.table(ENCODING, 3, start=i + 0.5), TypeError, ["start", "float32", "positions"]),
        (lambda i: pfj.table(IMAGE, 3, start=i), ValueError, ["one axis", "2"]),
        (lambda i: pfj.table(ENCODING, 3, dtype="float64"), ValueError, ["dtype", "float64", "jax_enable_x64"]),
        (lambda i: pfj.encode(ENCODING, i, dtype="int32"), TypeError, ["dtype", "int32"]),
        (lambda i: pfj.encode(ENCODING, i, precision="double"), ValueError, ["precision", "double"]),
        (lambda i: pfj.encode(ENCODING, i > 0), TypeError, ["positions", "bool"]),
        (lambda i: pfj.encode(IMAGE, jnp.stack([i, i, i])), ValueError, ["positions", "(3,)", "(.., 2)"]),
        (lambda i: pfj.add_to(ENCODING, X[..., :6]), ValueError, ["x", "(2, 3, 6)", "8", "d_model"]),
        (lambda i: pfj.add_to(ENCODING, X.astype(int)), TypeError, ["x", "int"]),
        (lambda i: pfj.add_to(ENCODING, X, start="0"), TypeError, ["start", "'0'"]),
        (lambda i: pfj.add_to(ENCODING, X, start=1, positions=jnp.arange(3)), ValueError, ["start=1", "positions"]),
        (lambda i: pfj.add_to(ENCODING, X, positions=jnp.arange(4) + i), ValueError, ["positions", "(4,)", "(3,)"]),
        (lambda i: pfj.add_to(IMAGE, X), ValueError, ["one axis", "2"]),
        (lambda i: pfj.rotate(ROTARY, X[0, 0] + i), ValueError, ["x", "(8,)", "head_dim"]),
        (lambda i: pfj.rotate(ROTARY, X, seq_axis=-1), ValueError, ["seq_axis=-1", "(2, 3, 8)"]),
        (lambda i: pfj.rotate(ROTARY, X, inverse=i), TypeError, ["inverse"]),
        (lambda i: pfj.rotate(ROTARY, X, positions=jnp.zeros((3, 3)) + i), ValueError, ["(3, 3)", "(2, 3)"]),
    ],
)
def test_errors_are_raised_during_tracing(call, error, words, jitted):
    with pytest.raises(error) as caught:
        (jax.jit(call) if jitted else call)(jnp.asarray(1))
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{caught.value} does not say {missing}"


@pytest.mark.parametrize("count", [1, 2])
def test_few_sequences_with_their_own_start(count, rng):
    x = rng.normal(size=(count, 3, 8)).astype(np.float32)
    starts = jnp.arange(7, 7 + count)
    got = jax.vmap(lambda start, rows: pfj.add_to(pf.sinusoidal(8), rows, start=start))(starts, jnp.asarray(x))
    same_bits(got, np.stack([pf.sinusoidal(8).add_to(rows, start=7 + i) for i, rows in enumerate(x)]))
