"""Test the C interface: the bits of its results, error codes for unsafe memory, and the lifetime of capsules."""

from __future__ import annotations

import ctypes
import gc
import itertools
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import posenc_fast as pf
from support import c_interface as c
from support.guarded import Arena

pytestmark = pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel")

ENCODINGS = {
    "sinusoidal": pf.sinusoidal(24),
    "concatenated": pf.sinusoidal(40, layout="concatenated", functions=("cos", "sin")),
    "padded": pf.sinusoidal(9, odd="zero"),
    "scaled": pf.sinusoidal(16, scale=0.3),
    "phases": pf.Encoding([1.0, 0.25, 3.0], [0.1, 0.7, 0.25], [2.0, -1.0, 0.0]),
    "wide": pf.sinusoidal(770),
    "float32 products": pf.fourier_features(pf.float32_frequencies(pf.geometric(8))),
    # the second frequency is so small that its products with positions may underflow
    "far apart": pf.fourier_features([1.0, 1e-200]),
}
by_encoding = pytest.mark.parametrize("encoding", list(ENCODINGS.values()), ids=list(ENCODINGS))


@pytest.fixture(params=c.TYPES)
def dtype(request):
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if request.param == "bfloat16" else request.param)


def same_bits(got, expected, case=None):
    assert got.dtype == expected.dtype, case
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes(), case


# ---- the bits of Python's calls -------------------------------------------------------------------------------------


@pytest.fixture(params=pf.isa_levels())
def level(request):
    with pf.use_backend("cython", request.param):
        yield request.param


@pytest.mark.usefixtures("level")
@by_encoding
def test_table(encoding, dtype):
    for start in (0, -70, 10**6, 2**51 - 400):
        out = np.empty((300, encoding.d_model), dtype)
        expected = encoding.table(300, start=start, dtype=dtype)
        same_bits(c.table(c.encoding_of(encoding), start, out), expected, start)


def assert_encoded(encoding, positions, dtype):
    out = np.empty((len(positions), encoding.d_model), dtype)
    same_bits(c.encode(c.encoding_of(encoding), positions, out), encoding.encode(positions, dtype=dtype))


@pytest.mark.usefixtures("level")
@by_encoding
def test_encode(encoding, dtype, rng):
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e12, 2.0**60 + 256]
    positions = np.concatenate([rng.uniform(-1e5, 1e5, 300), rng.uniform(-1, 1, 300), special])
    if encoding is ENCODINGS["float32 products"]:
        # the interface rejects the last position, because rounding its products to float32 needs exact arithmetic
        positions = positions[:-1]
    assert_encoded(encoding, positions, dtype)


@by_encoding
def test_encode_integers(encoding, dtype, rng):
    for most in (2**15, 2**50, 2**51 if encoding is ENCODINGS["float32 products"] else 2**63 - 1):
        positions = rng.integers(-most, most, 600)
        positions[:3] = most, -most, 0
        assert_encoded(encoding, positions, dtype)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("kind", [np.float64, np.int64], ids=["reals", "integers"])
def test_encode_of_several_axes(axes, kind, dtype, rng):
    encoding = pf.join([pf.sinusoidal(6 + 2 * a) for a in range(axes)], axes=range(axes))
    positions = rng.uniform(-1e4, 1e4, (500, axes)).astype(kind)
    far = np.where(positions > 9900, 2**60 if kind is np.int64 else 2**40, positions).astype(kind)
    for some in (positions, positions[:1], far):
        assert_encoded(encoding, some, dtype)


def views(shape, dtype):
    """Return arrays of a shape in several memory layouts, filled with 7, also in the gaps between their values."""
    wide = np.full((*shape[:-1], shape[-1] + 5), 7, dtype)
    backwards = np.full(shape, 7, dtype)[:, ::-1]
    transposed = np.full((shape[1], shape[0], shape[2]), 7, dtype).swapaxes(0, 1)
    every_other = np.full((shape[0], 2 * shape[1], shape[2]), 7, dtype)[:, ::2]
    return np.full(shape, 7, dtype), wide[..., 2:-3], backwards, transposed, every_other


@pytest.mark.usefixtures("level")
@by_encoding
def test_add(encoding, dtype, rng):
    shape = 3, 150, encoding.d_model
    x = rng.standard_normal(shape).astype(dtype)
    handle, start = c.encoding_of(encoding), -20
    expected = encoding.add_to(x, start=start, x_scale=0.75)
    for out in views(shape, dtype):
        same_bits(c.add(handle, start, 0.75, x, out), expected)
        out[...] = x
        same_bits(c.add(handle, start, 0.75, out, out), expected)
    same_bits(c.add(handle, start, 0.75, x[:1], out[:1]), expected[:1])


def test_add_does_not_change_neighbouring_columns(dtype, rng):
    memory = rng.standard_normal((2, 50, 40)).astype(dtype)
    encoding, before = pf.sinusoidal(12), memory.copy()
    # rows of x and of the result alternate in memory
    c.add(c.encoding_of(encoding), 5, 1.0, memory[..., 3:15], memory[..., 20:32])
    same_bits(memory[..., 20:32], encoding.add_to(before[..., 3:15], start=5))
    before[..., 20:32] = memory[..., 20:32]
    same_bits(memory, before)


ROTARIES = {
    "half": pf.Rotary(64),
    "interleaved": pf.Rotary(64, layout="interleaved"),
    "separated": pf.Rotary(64, layout="interleaved_to_half"),
    "of 128": pf.Rotary(128, base=500000.0),
    "partial": pf.Rotary(48, rotary_dim=18),
    "yarn": pf.Rotary(32, scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}),
}


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("rotary", list(ROTARIES.values()), ids=list(ROTARIES))
def test_rotate(rotary, dtype, rng):
    handle = c.rotary_of(rotary)
    for shape in ((1, 3, 1), (2, 3, 200), (2, 1, 5)):
        x = rng.standard_normal((*shape, rotary.head_dim)).astype(dtype)
        expected = rotary.apply(x, start=1000)
        same_bits(c.rotate(handle, 1000, x, np.empty_like(x)), expected)
        in_place = x.copy()
        same_bits(c.rotate(handle, 1000, in_place, in_place), expected)
        # tokens before heads, and rows that are part of wider rows
        wide = np.zeros((shape[0], shape[2], shape[1], rotary.head_dim + 8), dtype)
        inner = wide[..., : rotary.head_dim].swapaxes(1, 2)
        same_bits(c.rotate(handle, 1000, x, inner), expected)
        assert not wide[..., rotary.head_dim :].any()
        positions = rng.integers(-(2**40), 2**40, shape[2])
        same_bits(c.rotate(handle, positions, x, np.empty_like(x)), rotary.apply(x, positions=positions))


def test_lengths_of_zero():
    encoding = c.encoding_of(pf.sinusoidal(8))
    scratch = c.scratch_of(c.api().scratch(encoding.pointer))
    assert c.api().table(encoding.pointer, 0, 0, 1, None, 0, None, 0) == 0
    assert c.api().encode(encoding.pointer, None, 0, 1, None, 0, c.address(scratch), len(scratch)) == 0


def test_numbers():
    encoding, rotary, functions = c.encoding_of(pf.sinusoidal(10)), c.rotary_of(pf.Rotary(48, rotary_dim=18)), c.api()
    assert (functions.major, functions.minor) == (1, 0)
    assert functions.size >= ctypes.sizeof(c.Api)
    assert (functions.columns(encoding.pointer), functions.axes(encoding.pointer)) == (10, 1)
    assert functions.head_dim(rotary.pointer) == 48
    assert [functions.angles_row(rotary.pointer, kind) for kind in range(-1, 5)] == [0, 144, 144, 72, 72, 0]
    sizes = [functions.rotary_scratch(rotary.pointer, tokens) for tokens in (-(2**63), 0, 1, 2**40, 2**63 - 1)]
    assert sizes[0] == sizes[1] == sizes[2] < sizes[3] == sizes[4] < 2**20
    texts = [functions.error_text(code).decode() for code in range(-1, 12)]
    assert texts[0] == texts[-1] == "not an error of posenc_fast"
    assert len(set(texts)) == len(c.ERRORS) + 1


def test_eight_threads_have_the_bits_of_one():
    encoding, rows = pf.sinusoidal(96), 4000
    handle, out = c.encoding_of(encoding), np.empty((8 * rows, 96), np.float32)

    def work(i):
        part = out[i * rows : (i + 1) * rows]
        for _ in range(5):
            c.encode(handle, np.arange(rows) / 3, part)
            same_bits(c.table(handle, i * rows, part), expected[i * rows : (i + 1) * rows])

    expected = encoding.table(8 * rows)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    same_bits(out, expected)


# ---- errors ---------------------------------------------------------------------------------------------------------


ARGUMENTS = {
    "table": "value start rows type out out_row scratch scratch_size",
    "encode": "value positions rows type out out_row scratch scratch_size",
    "encode_int64": "value positions rows type out out_row scratch scratch_size",
    "add": "value start x_scale batches rows type x x_batch x_row out out_batch out_row scratch scratch_size",
    "angles": "value start rows type out scratch scratch_size",
    "angles_at": "value positions rows type out scratch scratch_size",
    "rotate": "value angles type shape x x_strides out out_strides scratch scratch_size",
}
FUNCTIONS = tuple(ARGUMENTS)
# functions of an encoding; the others are functions of a rotary
ENCODING = FUNCTIONS[:4]
MOST = 2**63 - 1


class Calls:
    """Call a function of the interface with valid arguments, except for those that a test replaces.

    Return the name of the error, or "ok". Assert that out is unchanged after an error.
    """

    def __init__(self):
        self.encoding, self.rotary = c.encoding_of(pf.sinusoidal(6)), c.rotary_of(pf.Rotary(6))
        self.memory = np.full(4096, 0xA5, np.uint8)
        self.memory = self.memory[-c.address(self.memory) % 64 :]
        self.x, self.positions = np.ones((2, 3, 10, 6), np.float32), np.arange(10, dtype=np.float64)
        self.angles = np.ones((10, 6))
        self.scratch = np.empty(10**6, np.uint8)
        self.set_lengths("shape", 0, 2)

    def set_lengths(self, name, axis, value):
        """Make the shape and the strides of a rotation valid, then set the number at [name][axis] to a value."""
        valid = {"shape": (2, 3, 10), "x_strides": (720, 240, 24), "out_strides": (720, 240, 24)}
        self.lengths = {key: np.array(numbers, np.intp) for key, numbers in valid.items()}
        self.lengths[name][axis] = value

    def pointers(self, function):
        arrays = self.lengths | {"x": self.x, "positions": self.positions, "angles": self.angles}
        arrays |= {"out": self.memory, "scratch": self.scratch}
        value = (self.encoding if function in ENCODING else self.rotary).pointer
        return {"value": value} | {name: c.address(array) for name, array in arrays.items()}

    def arguments(self, function):
        numbers = {"start": 0, "rows": 10, "type": 1, "x_scale": 1.0, "batches": 2, "scratch_size": len(self.scratch)}
        numbers |= {"x_batch": 240, "x_row": 24, "out_batch": 240, "out_row": 24}
        every = self.pointers(function) | numbers
        return {name: every[name] for name in ARGUMENTS[function].split()}

    def __call__(self, function, **changes):
        arguments = self.arguments(function)
        assert set(changes) <= set(arguments)
        error = getattr(c.api(), function)(*(arguments | changes).values())
        if error:
            assert (self.memory == 0xA5).all(), "an error, but out has changed"
        return c.ERRORS[error]


@pytest.fixture
def calls():
    return Calls()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_pointers(calls, function):
    arguments = calls.arguments(function)
    for name in calls.pointers(function).keys() & arguments.keys():
        assert calls(function, **{name: None}) == "null", name
    for name in {"out", "x", "positions", "angles"} & arguments.keys():
        for distance in (1, 2, 3):
            assert calls(function, **{name: arguments[name] + distance}) == "alignment", name
    assert calls(function) == "ok"
    assert not (calls.memory == 0xA5).all()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_too_little_scratch(calls, function):
    rotary = calls.rotary.pointer, 10
    needed = c.api().scratch(calls.encoding.pointer) if function in ENCODING else c.api().rotary_scratch(*rotary)
    assert calls(function, scratch_size=0) == "scratch"
    assert calls(function, scratch_size=100) == "scratch"
    # for ten tokens, `rotate` needs all bytes that rotary_scratch returns, but `angles` needs fewer
    if not function.startswith("angles"):
        assert calls(function, scratch_size=needed - 1) == "scratch"
        assert calls(function, scratch_size=needed) == "ok"


@pytest.mark.parametrize("function", ENCODING)
def test_scratch_before_the_result(calls, function):
    size = c.api().scratch(calls.encoding.pointer)
    out = c.address(calls.scratch) + (size + 64) // 64 * 64
    for apart, error in ((size - 1, "overlap"), (size, "ok")):
        assert calls(function, out=out, scratch=out - apart, scratch_size=size) == error


TOO_LARGE = (MOST // 4 * 4, -(2**62), -MOST - 1)
# fmt: off
# (functions, arguments, values, error)
WRONG_NUMBERS = [
    (" ".join(FUNCTIONS), "type", (-1, 4, 2**31 - 1), "type"),
    (" ".join(FUNCTIONS[:-1]), "rows", (-1, -MOST - 1, 2**59, 2**60, 2**62, MOST), "length"),
    ("add", "batches", (-1, 2**60, MOST), "length"),
    ("table encode add", "out_row", TOO_LARGE, "length"),
    ("add", "x_batch x_row out_batch", TOO_LARGE, "length"),
    ("table encode_int64 add", "out_row", (0, 4, 20, -20), "overlap"),
    ("add", "out_batch", (236, 0), "overlap"),
    ("add", "x_batch x_row out_batch out_row", (241, 242, 243), "alignment"),
    ("add", "x_scale", (np.nan, np.inf, -np.inf), "scale"),
]
# (arrays of lengths for rotate, axes, values, error)
WRONG_LENGTHS = [
    ("shape", (0, 1, 2), (-1, 2**59, MOST), "length"),
    ("x_strides out_strides", (0, 1, 2), TOO_LARGE, "length"),
    ("x_strides out_strides", (0, 1, 2), (241, 242, 243), "alignment"),
    ("out_strides", [1], (236, 24), "overlap"),
]
# fmt: on


@pytest.mark.parametrize(("functions", "names", "values", "error"), WRONG_NUMBERS)
def test_one_wrong_number(calls, functions, names, values, error):
    for function, name, value in itertools.product(functions.split(), names.split(), values):
        assert calls(function, **{name: value}) == error, (function, name, value)


@pytest.mark.parametrize(("names", "axes", "values", "error"), WRONG_LENGTHS)
def test_one_wrong_length_of_rotate(calls, names, axes, values, error):
    for name, axis, value in itertools.product(names.split(), axes, values):
        calls.set_lengths(name, axis, value)
        assert calls("rotate") == error, (name, axis, value)


def test_strides_of_valid_calls(calls):
    """Rows of x may overlap. Strides of a single row are ignored."""
    assert calls("add", x_batch=0, x_row=0) == "ok"
    assert calls("table", rows=1, out_row=3) == "ok"
    assert calls("add", rows=1, batches=1, x_row=MOST, out_row=-MOST, x_batch=1, out_batch=1) == "ok"


def test_arrays_that_overlap(calls):
    out = c.address(calls.memory)
    assert calls("add", x=out + 8) == "overlap"
    assert calls("add", x=out, x_row=32, x_batch=320) == "overlap"
    assert calls("encode", positions=out + 72) == "overlap"
    assert calls("encode_int64", positions=out + 8 * ((240 - 1) // 8)) == "overlap"
    assert calls("angles_at", positions=out) == "overlap"
    for function in FUNCTIONS:
        assert calls(function, scratch=out + 200) == "overlap"
    assert calls("add", scratch=c.address(calls.x) - 100) == "overlap"
    assert calls("rotate", angles=out) == "overlap"
    assert calls("rotate", x=out + 24) == "overlap"


def test_what_the_interface_does_not_compute(calls):
    """There is no table of several axes. Nor are there rows of positions that need exact arithmetic.

    The functions check all rows before they write the first one, so `out` is unchanged after the error "beyond".
    """
    axes = c.encoding_of(pf.join([pf.sinusoidal(2), pf.sinusoidal(4)], axes=[0, 1]))
    assert calls("table", value=axes.pointer) == calls("add", value=axes.pointer) == "axes"
    for position in (1e200, 1e-290):
        calls.positions[7] = position
        assert calls("encode") == "beyond"
    fast = c.encoding_of(pf.fourier_features([2.0**55, 1.0, 2.0]))
    assert calls("table", value=fast.pointer, start=10**9) == "beyond"
    assert calls("add", value=fast.pointer, start=2**62) == "beyond"
    apart = c.encoding_of(pf.fourier_features([1.0, 1e-200, 2.0]))
    calls.positions[7] = 1e-100
    assert calls("encode", value=apart.pointer) == "beyond"


# ---- memory ---------------------------------------------------------------------------------------------------------


def test_no_access_beyond_the_arrays(dtype, rng):
    """Inputs, results and scratch memory end or begin at a page without access."""
    arenas = [Arena(1 << 19) for _ in range(4)]
    for encoding in (ENCODINGS["padded"], ENCODINGS["phases"], ENCODINGS["wide"]):
        handle, rows = c.encoding_of(encoding), 3 if encoding.d_model > 700 else 70
        size = c.api().scratch(handle.pointer)
        for at_end in (True, False):
            out = arenas[0].place((2, rows, encoding.d_model), dtype, at_end=at_end)
            x = arenas[1].place(out.shape, dtype, at_end=at_end)
            x[...] = rng.standard_normal(x.shape).astype(dtype)
            scratch = arenas[2].place((size,), np.uint8, at_end=at_end)
            positions = arenas[3].place((rows,), np.float64, at_end=at_end)
            positions[:] = rng.uniform(-1e3, 1e3, rows)
            for start in (0, -40):
                same_bits(c.table(handle, start, out[0], scratch), encoding.table(rows, start=start, dtype=dtype))
            same_bits(c.encode(handle, positions, out[0], scratch), encoding.encode(positions, dtype=dtype))
            same_bits(c.add(handle, 3, 1.0, x, out, scratch), encoding.add_to(x, start=3))
            assert all(arena.untouched() for arena in arenas)


def test_rotations_do_not_exceed_their_scratch(dtype, rng):
    arena = Arena(1 << 19)
    for rotary in ROTARIES.values():
        handle = c.rotary_of(rotary)
        for tokens in (1, 7, 300):
            x = rng.standard_normal((2, 3, tokens, rotary.head_dim)).astype(dtype)
            expected = rotary.apply(x)
            scratch = arena.place((c.api().rotary_scratch(handle.pointer, tokens),), np.uint8)
            same_bits(c.rotate(handle, 0, x, x, scratch), expected)
            assert arena.untouched()


@pytest.fixture
def frozen():
    """Hide older objects from the garbage collector, because searching all objects of the tests takes long."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen")
def test_capsules_own_their_memory(rng):
    """A capsule keeps the memory of a deleted Encoding or Rotary. Deleting the last capsule frees the memory."""

    def owners():
        gc.collect()
        return sum(type(each).__name__ == "_Encoding" for each in gc.get_objects())

    encoding, rotary, x = pf.Encoding([1.0, 0.5], [0.0, 0.25]), pf.Rotary(8, base=77.0), rng.normal(size=(1, 2, 5, 8))
    table, rotated, gone = encoding.table(3), rotary.apply(x), weakref.ref(encoding)
    handle, turning = c.encoding_of(encoding), c.rotary_of(rotary)
    del encoding, rotary
    gc.collect()
    assert gone() is None
    same_bits(c.table(handle, 0, np.empty((3, 2), np.float32)), table)
    same_bits(c.rotate(turning, 0, x, x), rotated)
    count = owners()
    del handle
    assert owners() == count - 1


# ---- encodings without a capsule ------------------------------------------------------------------------------------


def test_encodings_without_a_capsule():
    with pytest.raises(ValueError, match="periods"):
        pf.fourier_features(pf.periodic(["1D"])).__posenc_encoding__()
    with pytest.raises(ValueError, match="2 axes"):
        pf.Rotary(8, sections=[2, 2]).__posenc_rotary__()
    with pytest.raises(ValueError, match="xpos"):
        pf.Rotary(8, scaling={"rope_type": "xpos"}).__posenc_rotary__()


def test_pure_python_has_the_same_bits():
    """The capsule always uses the kernel, also if another backend is active."""
    with pf.use_backend("python"):
        handle = c.encoding_of(pf.sinusoidal(8))
        expected = pf.sinusoidal(8).table(20)
    same_bits(c.table(handle, 0, np.empty((20, 8), np.float32)), expected)
