"""Random calls drawn by hypothesis. Arrays have any memory layout, and lie near pages without access (guarded.py).

Each function of CALLS draws a call, and returns a function that runs and checks it with the current engine.

`test_fuzz.py` runs some of these calls with the quick tests. ``fuzz/harness.py`` runs them for as long as you like.
"""

from __future__ import annotations

import contextlib
import functools
import re
from fractions import Fraction
from unittest import mock

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import posenc_fast as pf
from posenc_fast._core.engine import blocks as _target
from support import c_interface, guarded

TYPES = {"float64": (53, -1074), "float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}
LARGEST = {"float64": 2.0**1023 * (2 - 2.0**-52), "float32": 2.0**127 * (2 - 2.0**-23), "float16": 65504.0}
DTYPES = {name: np.dtype(name) for name in LARGEST}
with contextlib.suppress(ImportError):
    import ml_dtypes

    LARGEST["bfloat16"], DTYPES["bfloat16"] = 2.0**127 * (2 - 2.0**-7), np.dtype(ml_dtypes.bfloat16)
FUNCTIONS = ("sin", "cos", "-sin", "-cos")
# widths around those at which the kernel switches to another loop
EDGES = [63, 64, 65, 127, 128, 129, 130, 255, 256, 257, 512]
OUT, X, POSITIONS = guarded.Arena(1 << 18), guarded.Arena(1 << 18), guarded.Arena(1 << 16)

POSITION_TYPES = ["i1", "u1", "<i2", ">i2", "<i4", ">u4", "<i8", ">i8", "<u8", ">u8", "<f2", "<f4", ">f4", "<f8", ">f8"]
POSITION_TYPES += ["g", "<M8[s]", ">M8[ns]", "m8[15us]"]
# numbers that are subnormal in float16, bfloat16 or float32; some are near the midpoint of two such numbers
# fmt: off
SMALL = [
    3 * 2.0**-25, 2.0**-14 - 2.0**-30, 2.0**-134 + 2.0**-151, 3 * 2.0**-134 - 2.0**-152, -(2.0**-127) * (1 + 2.0**-7),
    2.0**-133, -3 * 2.0**-24, 1e-39, 2.0**-149 * 1.5,
]
SPECIAL = [
    0.0, -0.0, 0.5, 1e-320, -1e-300, 1e-30, 2**31, 2**49 + 1, 2**53, -(2**53) - 1, 2**63 - 1, -(2**63), 2**64 - 1,
    1e17, -1e40, 1.7e308, float("inf"), float("-inf"), float("nan"), *SMALL,
]
# fmt: on


# ---- encodings --------------------------------------------------------------------------------------------------

widths = st.one_of(st.integers(1, 40), st.sampled_from(EDGES))
frequencies = st.floats(-10, 10) | st.sampled_from([0.0, 1.0, 1e-5, 2**-40, 1e-300, 5e-324, 1e10, 1e300, -1e308])
amplitudes = st.one_of(st.floats(-100, 100), st.sampled_from([0.0, -0.0, 1.0, 1e-300, 1e6, 1e30, -1e280, *SMALL]))
phases = st.one_of(st.sampled_from([0.0, 0.25, -0.5, 0.75, 4.25]), st.floats(-4, 4))
layouts = st.sampled_from(["interleaved", "concatenated"])


@contextlib.contextmanager
def rejecting(*errors):
    """Reject the example if the block raises one of these errors."""
    try:
        yield
    except errors:
        assume(False)


@st.composite
def encodings(draw, axes=None):
    """Draw any encoding, of one axis or of the given number of axes."""
    if axes is not None:
        rows = draw(st.lists(st.lists(frequencies, min_size=axes, max_size=axes), min_size=1, max_size=12))
        if draw(st.booleans()):
            functions = draw(st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=3))
            return pf.fourier_features(rows, functions=functions)
        return pf.Encoding(rows, draw(phases), draw(amplitudes))
    builder = draw(st.sampled_from(["sinusoidal", "features", "general", "join"]))
    if builder == "join":
        parts = draw(st.lists(encodings(), min_size=1, max_size=3))
        return pf.join(parts, axes=[0] * len(parts))
    if builder == "sinusoidal":
        options = {
            "base": st.sampled_from([1e4, 2.0, 1e-3, 5e5]),
            "freq_shift": st.sampled_from([0, 1, 0.5, -3]),
            "first": frequencies,
            "layout": layouts,
            "functions": st.tuples(*[st.sampled_from(FUNCTIONS)] * 2),
            "odd": st.sampled_from(["crop", "zero"]),
            "scale": amplitudes,
        }
        with rejecting(ValueError):  # the denominator is zero, or a frequency exceeds float64
            return pf.sinusoidal(draw(widths), **draw(st.fixed_dictionaries(options)))
    count = draw(widths) if draw(st.booleans()) else draw(st.integers(1, 6))
    values = np.resize(draw(st.lists(frequencies, min_size=1, max_size=6)), count)
    if builder == "features":
        return pf.fourier_features(values, layout=draw(layouts))
    given = (np.resize(draw(st.lists(s, min_size=1, max_size=4)), count) for s in (phases, amplitudes))
    return pf.Encoding(values, *given)


# ---- memory -----------------------------------------------------------------------------------------------------


@st.composite
def strides_of(draw, shape, itemsize, *, close=True):
    """Draw strides in bytes: any order of dimensions, both directions, with or without gaps.

    close: whether the values of the last axis must be adjacent.
    """
    steps = [0] * len(shape)
    inner = itemsize if close else itemsize * draw(st.sampled_from([1, 1, 2, 3, -1]))
    steps[-1] = inner
    extent = abs(inner) * (shape[-1] - 1) + itemsize if shape[-1] else itemsize
    for i in draw(st.permutations(range(len(shape) - 1))):
        step = extent + draw(st.sampled_from([0, 0, itemsize, 3, 64 - extent % 64]))
        steps[i] = draw(st.sampled_from([1, 1, -1])) * step
        extent = step * max(shape[i], 1)
    return tuple(steps)


def lay(draw, arena, shape, dtype, *, close=True):
    """Place an array of drawn strides in an arena. Reject the example if the array does not fit."""
    strides = draw(strides_of(shape, dtype.itemsize, close=close)) if shape else ()
    distance = draw(st.sampled_from([0, 0, dtype.itemsize, 1, 3, 64]))
    with rejecting(ValueError):
        return arena.place(shape, dtype, strides=strides, at_end=draw(st.booleans()), distance=distance)


def positions_of(draw, shape):
    """Draw positions of any type in any memory layout."""
    dtype = np.dtype(draw(st.sampled_from(POSITION_TYPES)))
    array = lay(draw, POSITIONS, shape, dtype, close=False)
    numbers = st.floats(-1e6, 1e6) | st.integers(-99, 99)
    some = draw(st.lists(st.sampled_from(SPECIAL) | numbers, min_size=1))
    near = draw(st.lists(numbers, min_size=1))
    # far positions take long in pure Python: in large arrays, at most 50 positions are far
    step = array.size // 50 + 1
    with np.errstate(all="ignore"):
        for i, place in enumerate(np.ndindex(shape)):
            value = np.float64(near[i % len(near)] if i % step else some[i // step % len(some)])
            if dtype.kind in "iumM":
                whole = int(np.clip(np.nan_to_num(value), -(2**62), 2**62))
                # the remainder of a negative integer is large, so near positions are positive
                value = (abs(whole) if i % step else whole) % 256**dtype.itemsize // 2
            array[place] = value
    array.flags.writeable = draw(st.booleans())
    return array


def positions_for(draw, encoding, shape):
    """Draw positions for rows of an encoding. Return them, and their coordinates (*shape, axes) as float64."""
    positions = positions_of(draw, (*shape, encoding.ndim) if encoding.ndim > 1 else shape)
    return positions, seconds(positions).reshape(*shape, encoding.ndim)


def x_of(draw, shape, name, special):
    """Draw an array x of a dtype in any memory layout, with usual and special values."""
    x = lay(draw, X, shape, DTYPES[name], close=draw(st.booleans()))
    some = draw(st.lists(st.floats(-1e3, 1e3) | st.sampled_from(special), min_size=1, max_size=9))
    with np.errstate(all="ignore"):
        x[...] = np.resize(np.array(some, np.float64), shape).astype(x.dtype)
    return x


# ---- what must hold for every call ------------------------------------------------------------------------------


def seconds(positions):
    """Return positions as float64. datetime64 and timedelta64 become seconds."""
    if positions.dtype.kind in "mM":
        counts = positions.astype(positions.dtype.newbyteorder("=")).view(np.int64).astype(np.float64)
        number = np.datetime_data(positions.dtype)
        return counts * float({"s": 1, "us": 1e-6, "ns": 1e-9}[number[0]]) * number[1]
    with np.errstate(all="ignore"):
        return positions.astype(np.float64)


def ulp(values, name):
    bits, least = TYPES[name]
    return np.ldexp(1.0, np.maximum(np.frexp(values)[1] - bits, least))


def angles_of(encoding, positions):
    """Return the largest |position * frequency| of each row, for positions (..., axes)."""
    frequencies = encoding.frequencies.reshape(encoding.d_model, encoding.ndim)
    with np.errstate(all="ignore"):
        return (np.abs(positions.astype(np.float64)) @ np.abs(frequencies).T).max(axis=-1)


def assert_close(got, expected, name, magnitude, angles):
    """Assert that two results differ by at most the sum of both error bounds."""
    a, b = got.astype(np.float64), expected.astype(np.float64)
    # for angles beyond 2^53 no bound is promised: accept any finite number, and infinity if the dtype may overflow
    number = np.isfinite(a) | (np.isinf(a) & (magnitude > LARGEST[name]))
    a = np.where((angles > 2.0**53)[..., np.newaxis] & number, b, a)
    with np.errstate(all="ignore"):
        largest = np.fmax(np.abs(a), np.abs(b))
        allowed = (2 if name == "float64" else 1) * ulp(np.where(np.isfinite(largest), largest, 0), name)
        good = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed + 2.0**-48 * magnitude)
        # one result may be rounded to infinity, and the other to the largest number
        good |= np.isinf(a - b) & (np.fmin(np.abs(a), np.abs(b)) == LARGEST[name]) & (np.sign(a) == np.sign(b))
    assert good.all(), (a[~good][:5], b[~good][:5])


def bits(array):
    """Return the bytes of an array. All NaNs get the same bits, because processors differ in the NaN of a sum."""
    return np.where(np.isnan(array), np.array(np.nan, array.dtype), array).tobytes()


def assert_rounded_once(got, wide, name, magnitude, angles):
    """Assert that got is the float64 result (wide) rounded once, also for subnormal numbers.

    name: dtype of got. magnitude: bound of the absolute value of each summand. angles: largest angle of each row.
    """
    a, b = got.astype(np.float64), wide
    with np.errstate(all="ignore"):
        allowed = ulp(np.where(np.isfinite(b), b, 0), name) / 2 + 2.0**-48 * magnitude
        good = (np.abs(a - b) <= allowed) | (np.isnan(a) & np.isnan(b)) | (a == b)
        good |= np.isinf(a) & (np.abs(b) >= LARGEST[name]) | (angles > 2.0**53)[..., np.newaxis]
    assert good.all(), (a[~good][:5], b[~good][:5])


def past_the_cache(target, each=False):
    """Replace `Target.stores`: bypass the cache whenever that is possible, not only if it is faster."""
    if _target.kernel is None or (target.x is not None and target.kind == _target.kernel.KINDS["float64"]):
        return 0
    return _target.kernel.STORES.index("past the cache")


def with_settings(draw, check):
    """Return a check that runs with drawn settings of the engine: small blocks, a tiny cache, stores that bypass it.

    With few values in a block, threads also work on small arrays.
    """
    settings = {"cache_size": draw(st.sampled_from([_target.cache_size, lambda: 3]))}
    if draw(st.booleans()):
        settings |= {"WORTH_A_THREAD": 1, "BLOCK": draw(st.sampled_from([1, 64, 1000]))}
    stores = draw(st.sampled_from([_target.Target.stores, past_the_cache]))
    return mock.patch.multiple(_target, **settings)(mock.patch.object(_target.Target, "stores", stores)(check))


def checks(draw, call, name, shape, magnitude, angles, *, wide=None, inputs=(), x=None, same=bits):
    """Return a function to run with each engine. It asserts that call(out=..) writes the result of call() to out.

    The function also asserts that the call writes nothing around out, and does not change its inputs, which are arrays
    with their arenas. It compares the result with that of pure Python.

    name: dtype of the result. wide: function that returns the result in float64, from which the result must be
    rounded once (None: the rounding is not checked). x: array for which the call also runs in place. Both results must
    be equal after the function `same`.
    """
    out = lay(draw, OUT, shape, DTYPES[name])
    inputs = [*inputs, (X, x)] if x is not None else inputs
    before, writeable = [array.copy() for _, array in inputs], draw(st.booleans())

    # cached, because pure Python takes long, and the result of each engine is compared with its result
    @functools.cache
    def result(backend, isa):
        with pf.use_backend(backend, isa):
            return call()

    def check_inputs():
        for (arena, array), content in zip(inputs, before, strict=True):
            assert arena.untouched()
            assert array.tobytes() == content.tobytes()

    def check():
        if x is not None:
            x.flags.writeable = writeable
        fresh = result(pf.backend(), pf.isa())
        assert fresh.dtype == DTYPES[name]
        # remove the result of the engine before, which would hide values that this engine does not write
        OUT.bytes[:] = guarded.PATTERN
        assert call(out=out) is out
        assert OUT.untouched()
        assert out.tobytes() == fresh.tobytes()
        if wide is not None:
            assert_rounded_once(fresh, wide(), name, magnitude, angles)
        assert_close(fresh, result("python", None), name, magnitude, angles)
        check_inputs()
        if x is not None and x.strides[-1] == x.itemsize:
            x.flags.writeable = True
            assert call(out=x) is x
            assert same(x) == same(out)
            x[...] = before[-1]
            check_inputs()

    return with_settings(draw, check)


def checks_of_rows(draw, call, name, encoding, positions, *inputs):
    """Return `checks` of a call with the argument dtype that computes rows at positions (.., axes)."""
    shape, magnitude = (*positions.shape[:-1], encoding.d_model), np.abs(encoding.amplitudes).max()
    typed, wide = (functools.partial(call, dtype=dtype) for dtype in (DTYPES[name], np.float64))
    return checks(draw, typed, name, shape, magnitude, angles_of(encoding, positions), wide=wide, inputs=inputs)


precisions = st.sampled_from(["exact", "exact", "float32"])
workers = st.sampled_from([None, None, 1, 2, -1])
names = st.sampled_from(list(DTYPES))


def rows_for(draw, encoding):
    """Draw a number of rows. With huge frequencies, which need slow exact arithmetic in each row, draw at most 40."""
    most = 40 if np.abs(encoding.frequencies).max() > 1e8 else 300
    return draw(st.integers(0, 12) | st.integers(0, max(12, min(most, 3000 // encoding.d_model))))


# ---- the calls --------------------------------------------------------------------------------------------------


def one_table(data):
    draw = data.draw
    encoding, name = draw(encodings()), draw(names)
    rows = rows_for(draw, encoding)
    starts = st.integers(-300, 300) | st.integers(-(2**63), 2**64 - 1) | st.floats(-1e6, 1e6)
    starts |= st.sampled_from([2**32 - 5, -(2**32) - 3, 2**53 - 3, 2**63 - 7, 1e300, -1.7e308, 1e-310])
    starts |= st.fractions(-9, 9, max_denominator=6)
    steps = st.sampled_from([1, 1, 1, -1, 0, 3, 0.5, 0.1, Fraction(1, 3)])
    steps |= st.integers(-(2**60), 2**60) | st.floats(-1e305, 1e305)
    options = {"start": draw(starts), "step": draw(steps), "precision": draw(precisions), "workers": draw(workers)}
    call = functools.partial(encoding.table, rows, **options)
    with rejecting(ValueError):  # positions exceed 64 bits
        call()
    positions = float(options["start"]) + float(options["step"]) * np.arange(rows)[:, np.newaxis]
    return checks_of_rows(draw, call, name, encoding, positions)


def one_encode(data):
    draw = data.draw
    encoding, name = draw(encodings(draw(st.sampled_from([None, None, 1, 2, 3])))), draw(names)
    shape = draw(st.sampled_from([(), (1,), (-1,), (-1,), (2, -1), (3, 1, -1), (0, 4)]))
    rows = rows_for(draw, encoding)
    shape = tuple(rows if n < 0 else n for n in shape)
    assume(np.prod(shape) * encoding.d_model <= 6000)
    positions, given = positions_for(draw, encoding, shape)
    options = {"precision": draw(precisions), "workers": draw(workers)}
    call = functools.partial(encoding.encode, positions, **options)
    return checks_of_rows(draw, call, name, encoding, given, (POSITIONS, positions))


def one_add_to(data):
    draw = data.draw
    encoding, name = draw(encodings(draw(st.sampled_from([None, None, 2])))), draw(names)
    rows = rows_for(draw, encoding)
    shape = (*draw(st.sampled_from([(), (), (1,), (3,), (2, 3), (0,)])), rows, encoding.d_model)
    assume(np.prod(shape) <= 8000)
    x = x_of(draw, shape, name, SPECIAL)
    options = {"x_scale": draw(st.sampled_from([1.0, 0.0, -2.5, 512**0.5, 1e-300, 1e300]))}
    options |= {"precision": draw(precisions), "workers": draw(workers)}
    if encoding.ndim > 1 or draw(st.booleans()):
        options["positions"], given = positions_for(draw, encoding, shape[:-1] if draw(st.booleans()) else (rows,))
    else:
        options |= {"start": draw(st.integers(-(2**40), 2**40) | st.floats(-9, 9))}
        options |= {"step": draw(st.sampled_from([1, 2, -3, 0.5]))}
        given = (options["start"] + options["step"] * np.arange(rows, dtype=np.float64))[:, np.newaxis]
    with np.errstate(all="ignore"):
        finite = np.abs(x.astype(np.float64) * options["x_scale"])
        magnitude = np.abs(encoding.amplitudes).max() + finite[np.isfinite(finite)].max(initial=0)
    angles = np.broadcast_to(angles_of(encoding, given), shape[:-1])
    return checks(draw, functools.partial(encoding.add_to, x, **options), name, shape, magnitude, angles, x=x)


def one_shift(data):
    draw = data.draw
    encoding, name = pf.sinusoidal(2 * draw(st.integers(1, 40))), draw(names)
    shape = (*draw(st.sampled_from([(), (5,), (2, 3), (0,)])), encoding.d_model)
    x = lay(draw, X, shape, DTYPES[name], close=False)
    size = draw(st.sampled_from([1.0, 1.0, *SMALL]))
    x[...] = (size * encoding.encode(np.zeros(shape[:-1]))).astype(x.dtype)
    call = functools.partial(encoding.shift, x, draw(st.floats(-1e9, 1e9)))
    return checks(draw, call, name, shape, 4.0 * abs(size), np.zeros(shape[:-1]), inputs=[(X, x)])


def one_grid(data):
    draw = data.draw
    axes = draw(st.integers(1, 3))
    encoding = draw(encodings(axes)) if draw(st.booleans()) else pf.join([draw(encodings()) for _ in range(axes)])
    name = draw(names)
    given = [draw(st.integers(0, 6)) for _ in range(axes)]
    assume(np.prod(given) * encoding.d_model <= 6000)
    where = [np.arange(n, dtype=np.float64) for n in given]
    if draw(st.booleans()):
        k = draw(st.integers(0, axes - 1))
        given[k] = positions_of(draw, (given[k],))
        where[k] = seconds(given[k])
    options = {"indexing": draw(st.sampled_from(["ij", "xy"])), "workers": draw(workers)}
    points = np.stack(np.meshgrid(*where, indexing=options["indexing"]), axis=-1)
    try:
        pf.grid(given, encoding)
    except (TypeError, ValueError) as error:
        # a column cannot mix axes of times and numbers, or of types without a common type
        if not re.search(r"cannot be added up|integers beyond 2\*\*53", str(error)):
            raise
        assume(False)
    return checks_of_rows(draw, functools.partial(pf.grid, given, encoding, **options), name, encoding, points)


def one_rotate(data):
    draw = data.draw
    half = draw(st.integers(1, 20) | st.sampled_from([32, 33, 64, 65]))
    rotary = pf.Rotary(
        2 * half,
        base=draw(st.sampled_from([1e4, 2.0, 5e5])),
        rotary_dim=2 * draw(st.integers(1, half)),
        layout=draw(st.sampled_from(["half", "interleaved", "interleaved_to_half"])),
        scaling=draw(st.sampled_from([None, {"rope_type": "linear", "factor": 3.0}])),
    )
    name, rows = draw(names), draw(st.integers(0, 12))
    lead = draw(st.sampled_from([(), (3,), (2, 3), (2, 1, 2), (0,), (0, 2)]))
    seq_axis = draw(st.integers(0, len(lead)))
    shape = (*lead[:seq_axis], rows, *lead[seq_axis:], 2 * half)
    assume(np.prod(shape) <= 8000)
    x = x_of(draw, shape, name, [0.0, -0.0, 1e-320, 6e4, *SMALL])
    options = {"seq_axis": seq_axis, "inverse": draw(st.booleans())}
    options |= {"precision": draw(precisions), "workers": draw(workers)}
    if draw(st.booleans()):
        groups = draw(st.integers(0, min(1, len(lead))))
        options["positions"] = positions_of(draw, (*lead[:groups], rows))
        furthest = np.abs(seconds(options["positions"])).max(initial=0.0)
    else:
        options["start"] = draw(st.integers(-(2**40), 2**40) | st.floats(-9, 9))
        furthest = abs(options["start"]) + rows
    call, angles = functools.partial(rotary.apply, x, **options), np.full(shape[:-1], furthest)
    magnitude = 2 * np.abs(x.astype(np.float64)).max(initial=0.0)
    return checks(draw, call, name, shape, magnitude, angles, x=x, same=np.ndarray.tobytes)


def one_c_call(data):
    """A function of the C interface returns the bits of Python's call, or an error with nothing written."""
    draw = data.draw
    encoding, name = draw(encodings()), draw(names)
    dtype, function = DTYPES[name], draw(st.sampled_from(["table", "encode", "encode_int64", "add"]))
    size, width = dtype.itemsize, encoding.d_model * dtype.itemsize
    wrong = draw(st.sampled_from(["nothing", "nothing", "nothing", "rows", "stride", "place", "scratch"]))
    # wrong numbers of rows are negative or exceed the address space; valid ones fit in the arena
    rows = draw(st.sampled_from([-1, 2**62, 2**63 - 1]) if wrong == "rows" else st.integers(0, 9))
    if wrong == "stride":
        stride = draw(st.sampled_from([0, 1, width - size, width + 1, 2**62]))
    else:
        stride = width + size * draw(st.integers(0, 6))
    stride *= -1 if stride == 2**62 else draw(st.sampled_from([1, -1]))
    assume(rows > 9 or abs(stride) == 2**62 or abs(rows * stride) + width < 1 << 16)
    c = c_interface.api()
    needed = c.scratch(c_interface.encoding_of(encoding).pointer)
    scratch = np.empty(needed - (draw(st.integers(1, needed)) if wrong == "scratch" else 0), np.uint8)
    kind, start = c_interface.TYPES.index(name), draw(st.integers(-(2**63), 2**63 - 1) | st.integers(-99, 99))
    place = (1 << 17) + (draw(st.integers(1, 7)) if wrong == "place" else size * draw(st.integers(0, 9)))
    address = c_interface.address
    to = address(OUT.bytes) + place
    count = min(max(rows, 0), 9)
    if function == "table":
        given, expected = (start, rows), lambda: encoding.table(rows, start=start, dtype=dtype)
    elif function == "add":
        x = np.resize(np.array([0.5, -3.0, 1e-6, 0.0]), (count, encoding.d_model)).astype(dtype)
        given, expected = (start, 0.75, 1, rows), lambda: encoding.add_to(x, start=start, x_scale=0.75)
    else:
        integers = function == "encode_int64"
        numbers = st.integers(-(2**63), 2**63 - 1) if integers else st.floats(-1e9, 1e9) | st.sampled_from(SPECIAL)
        some = draw(st.lists(numbers, min_size=count, max_size=count))
        positions = np.array(some, np.int64 if integers else np.float64)
        given, expected = (address(positions), rows), lambda: encoding.encode(positions, dtype=dtype)
    places = (address(x), 0, width, to, 0, stride) if function == "add" else (to, stride)

    def run():
        OUT.bytes[:] = guarded.PATTERN
        pointer = c_interface.encoding_of(encoding).pointer
        error = getattr(c, function)(pointer, *given, kind, *places, address(scratch), len(scratch))
        if error:
            assert (OUT.bytes == guarded.PATTERN).all()
            return
        assert rows <= 9
        if rows == 0:
            return
        got = np.ndarray((rows, encoding.d_model), dtype, OUT.bytes, place, (stride, size))
        assert bits(got) == bits(expected())
        theirs = np.zeros(OUT.bytes.shape, np.bool_)
        np.ndarray((rows, width), np.bool_, theirs, place, (stride, 1))[...] = True
        assert (OUT.bytes[~theirs] == guarded.PATTERN).all()

    return run


CALLS = {"table": one_table, "encode": one_encode, "add_to": one_add_to, "shift": one_shift, "grid": one_grid}
CALLS |= {"rotate": one_rotate} | ({"c_call": one_c_call} if pf.isa_levels() else {})
