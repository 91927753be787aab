"""Compare tables and rows of `sinusoidal` with tutorial programs, known examples and a plain formula."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import reference
from posenc_fast._core.engine.blocks import Target

pytestmark = pytest.mark.usefixtures("backend")

TRIG = {"sin": np.sin, "cos": np.cos, "-sin": lambda a: -np.sin(a), "-cos": lambda a: -np.cos(a)}
PAIR = ("sin", "cos")


def plain(
    positions, d, *, base=10000.0, shift=0.0, first=1.0, layout="interleaved", functions=PAIR, odd="crop", scale=1.0
):
    """Return the rows of `sinusoidal`, computed in NumPy, column by column."""
    even = d // 2 * 2 if odd == "zero" else d
    columns = [[], []]
    for f, count in enumerate([(even + 1) // 2, even // 2]):
        for i in range(count):
            frequency = first * base ** (-i / (even / 2 - shift)) if i else first
            columns[f].append(scale * TRIG[functions[f]](np.asarray(positions) * frequency))
    chosen = [columns[c % 2][c // 2] for c in range(even)] if layout == "interleaved" else columns[0] + columns[1]
    return np.stack(chosen + [np.zeros(len(positions))] * (d - even), axis=1)


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (40, 7), (100, 512)], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("program", [reference.vaswani_loops, reference.vaswani_numpy], ids=["loops", "numpy"])
def test_tutorial_program(program, shape, name):
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else name
    length, d = shape
    expected = program(length, d)
    # results are rounded once, so errors are at most half an ulp, plus the errors of the programs
    half_ulp = np.spacing(np.abs(expected).astype(dtype)).astype(np.float64) / 2
    for got in (
        pf.positional_encoding(length, d, dtype=dtype),
        pf.sinusoidal(d).encode(np.arange(length), dtype=dtype),
    ):
        assert (got.shape, got.dtype.name) == (shape, name)
        assert (np.abs(got.astype(np.float64) - expected) <= half_ulp + 1e-12).all()
    assert pf.positional_encoding(length, d).dtype == np.float32


def test_copied_example_with_an_exponent_for_each_column():
    exponents = {"sin": [0, 2 * 2 / 4], "cos": [2 * 1 / 4, 2 * 3 / 4]}
    own = {name: 10000.0 ** -np.array(e) for name, e in exponents.items()}
    row = pf.sinusoidal(4, frequencies=own).encode(2, dtype=np.float64)
    np.testing.assert_allclose(row, [0.909, 0.9998, 0.0002, 1.0], rtol=0, atol=5e-4)
    assert row[1] != pytest.approx(pf.sinusoidal(4).encode(2)[1], abs=1)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("odd", ["crop", "zero"])
@pytest.mark.parametrize("d", [1, 2, 3, 9, 32, 33], ids="d={}".format)
def test_parameters(d, odd, layout):
    for shift, first, functions, scale in (
        (0, 1.0, PAIR, 1.0),
        (0, 0.75, PAIR, 0.0),
        (1, 0.75, ("cos", "sin"), 512**-0.5),
        (0.5, 0.5, ("-sin", "cos"), -1.0),
        (-3.25, 0.5, ("sin", "-cos"), 1.0),
    ):
        same = {"base": 300.0, "first": first, "layout": layout, "functions": functions, "odd": odd, "scale": scale}
        got = pf.sinusoidal(d, freq_shift=shift, **same).table(40, dtype=np.float64)
        expected = plain(np.arange(40), d, shift=shift, **same)
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13, err_msg=f"freq_shift={shift}, scale={scale}")


@pytest.mark.parametrize(("start", "step"), [(-7, 1), (3, 4), (10, -3), (0, 0), (0.5, 1), (-2, 0.25), (100, -0.7)])
def test_start_and_step(start, step):
    positions, parameters = start + step * np.arange(100), {"base": 50.0, "layout": "concatenated"}
    table = pf.positional_encoding(100, 7, start=start, step=step, dtype=np.float64, **parameters)
    np.testing.assert_allclose(table, plain(positions, 7, **parameters), rtol=0, atol=1e-12)
    encoding = pf.sinusoidal(7, **parameters)
    np.testing.assert_array_equal(table, encoding.table(100, start=start, step=step, dtype=np.float64))
    np.testing.assert_allclose(table, encoding.encode(positions, dtype=np.float64), rtol=0, atol=1e-13)


# ---- memory -----------------------------------------------------------------------------------------------------

MEMORY = {
    "contiguous": lambda x: x.copy(),
    "columns-of-wider-rows": lambda x: np.pad(x, [(0, 0), (0, 0), (4, 5)])[..., 4:-5],
    "rows-reversed": lambda x: x[:, ::-1].copy()[:, ::-1],
    "unaligned": lambda x: np.frombuffer(bytearray(b"." + x.tobytes()), np.uint8)[1:].view(x.dtype).reshape(x.shape),
    # only as x: the columns of out must be adjacent, and its rows must not overlap
    "fortran": np.asfortranarray,
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("memory", MEMORY.values(), ids=MEMORY)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16], ids=lambda t: t.__name__)
def test_any_memory(memory, dtype, rng):
    """Results do not depend on the memory of x and out. Calls do not write to the memory around out."""
    encoding, points = pf.sinusoidal(6), np.arange(140).reshape(2, 70) + 0.5
    calls = {
        "table": lambda x, out: encoding.table(70, dtype=dtype, out=out),
        "encode": lambda x, out: encoding.encode(points, dtype=dtype, out=out),
        "add_to": lambda x, out: encoding.add_to(x, out=out),
        "add_to shared positions": lambda x, out: encoding.add_to(x, positions=points[0], out=out),
        "add_to each position": lambda x, out: encoding.add_to(x, positions=points, out=out),
        "shift": lambda x, out: encoding.shift(x, 0.25, out=out),
    }
    x = rng.normal(size=(2, 70, 6)).astype(dtype)
    x[1] = x[0]
    for name, call in calls.items():
        expected = call(x, None)
        given, whole = memory(x), memory(np.full(x.shape, 7, dtype))
        np.testing.assert_array_equal(call(given, None), expected, err_msg=name)
        if not whole.flags.writeable or whole.strides[-1] != whole.itemsize:
            continue
        out = whole[1] if name == "table" else whole
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        before, saved = whole.tobytes(), out.copy()
        assert call(given, out) is out, name
        np.testing.assert_array_equal(out, expected, err_msg=name)
        out[...] = saved
        assert whole.tobytes() == before, name
        if name.startswith(("add_to", "shift")):
            assert call(given, given) is given
            np.testing.assert_array_equal(given, expected, err_msg=name)


def test_engines_get_aligned_blocks():
    """Blocks of unaligned arrays are copies, because engines must not read or write unaligned memory."""
    x, out = MEMORY["unaligned"](np.ones((1, 3, 4))), MEMORY["unaligned"](np.zeros((1, 3, 4)))
    assert not x.flags.aligned

    def task(rows, block):
        assert block.x.flags.aligned
        assert block.out.flags.aligned
        block.out[...] = block.x

    Target(out, x=x).run(task, 1)
    assert (out == 1).all()


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_dtypes_and_zero_length(name):
    dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else name)
    encoding, out = pf.sinusoidal(6), np.empty((0, 6), dtype)
    for given in (name, dtype, dtype.type):
        for got in (
            encoding.table(0, dtype=given, out=out),
            encoding.table(0, start=-5, step=0.5, dtype=given, workers=np.int64(2)),
            encoding.encode(np.array([], object), dtype=given),
        ):
            assert (got.shape, got.dtype) == ((0, 6), dtype)
        assert pf.positional_encoding(3, 6, dtype=given).dtype == encoding.encode([1, 2], dtype=given).dtype == dtype
    assert encoding.encode(np.empty((2, 0, 3)), dtype=name).shape == (2, 0, 3, 6)
    assert encoding.add_to(np.empty((3, 0, 6), dtype)).shape == (3, 0, 6)
    assert encoding.shift(np.empty((0, 6), dtype), 3).shape == (0, 6)
