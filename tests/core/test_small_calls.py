"""Test compiled shortcuts for small arrays: results, errors and written memory equal those of the general code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.encoding.plans import Plans
from posenc_fast._core.rotary.rotator import Rotator
from support.optional import optional

pytestmark = pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel")

ml_dtypes = optional("ml_dtypes")

TYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
ENCODINGS = {
    "sinusoidal": lambda: pf.sinusoidal(6),
    "odd": lambda: pf.sinusoidal(7, odd="zero"),
    "wide": lambda: pf.sinusoidal(600),
    "phases": lambda: pf.Encoding([0.1, 2.0, 3.0], phases=[0.1, 0.2, 0.3]),
    "fast": lambda: pf.Encoding([1e15, 1.0]),
    "two axes": lambda: pf.join([pf.sinusoidal(4)] * 2),
    "periods": lambda: pf.fourier_features(pf.periodic([7.0, 24.0])),
}
POSITIONS = {
    "number": 5.25,
    "integer": -7,
    "no axes": np.array(3.5),
    "integers": np.arange(-3, 9),
    "beyond 2^53": np.array([2**53 + 1, -(2**62) - 1, 3, 4]),
    "uint64": np.array([2**64 - 1, 3], np.uint64),
    "float16": np.arange(6).astype(np.float16) / 8,
    "NaN and infinite": np.array([np.nan, np.inf, -np.inf, 1.0]),
    "enormous": np.array([1e300, 1e17, 5e-324, -1e-310]),
    "columns": np.asfortranarray(np.arange(24.0).reshape(4, 6) / 8),
    "every other": np.arange(20.0)[::2],
    "other byte order": np.arange(4.0).astype(">f8"),
    "bools": np.array([True, False]),
    "none": np.zeros((0, 2)),
}
STARTS = [0, 5, -3, 2**40, -(2**62) + 1, 2**62, 2**63, 2.0, 0.5, -6.9, 0.1, 1e-9, 2.0**-70, 2.0**51 + 0.5, 2.0**53]


def outcome(call, *arguments, **options):
    """Return the dtype, shape, C-contiguity and bytes of a result, or type and text of a TypeError or ValueError."""
    try:
        result = call(*arguments, **options)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    return result.dtype, result.shape, result.flags.c_contiguous, np.ascontiguousarray(result).tobytes()


@pytest.fixture
def general(monkeypatch):
    """Return a function that computes the outcome of a call without the compiled shortcuts for small arrays."""

    def general(call, *arguments, **options):
        if pf.backend() == "python":
            pytest.skip("pure Python has no compiled calls")
        with monkeypatch.context() as patch:
            patch.setattr(Plans, "calls", lambda plans: None)
            patch.setattr(Rotator, "few_by_positions", lambda *arguments: None)
            patch.setattr(Rotator, "few_by_tables", lambda *arguments: None)
            return outcome(call, *arguments, **options)

    return general


def outs(shape, dtype):
    """Return arrays to pass as out, by name. Some are invalid, such as "read-only" and "too long"."""
    rows = np.ones((2 * shape[0], *shape[1:-1], shape[-1] + 3), dtype)
    unaligned = np.ones(np.prod(shape, dtype=int) * rows.itemsize + 1, np.uint8)[1:].view(dtype).reshape(shape)
    read_only = np.ones(shape, dtype)
    read_only.flags.writeable = False
    return {
        "whole": np.ones(shape, dtype),
        "columns": rows[: shape[0], ..., 1 : 1 + shape[-1]],
        "every other row": rows[::2, ..., : shape[-1]],
        "unaligned": unaligned,
        "backwards": np.ones(shape, dtype)[..., ::-1],
        "read-only": read_only,
        "too long": np.ones((shape[0] + 1, *shape[1:]), dtype),
        "an axis more": np.ones((1, *shape), dtype),
        "other type": np.ones(shape, np.float32 if dtype == np.float64 else np.float64),
        "other byte order": np.ones(shape, dtype).astype(np.dtype(np.float64).newbyteorder()),
        "a subclass": np.ma.masked_array(np.ones(shape, dtype)),
        "a list": [1.0],
    }


def same_twice(general, call, *arguments, **options):
    """Assert that a call has the same outcome as without shortcuts, before and after its plan exists."""
    got = [outcome(call, *arguments, **options) for _ in range(2)]
    assert got == 2 * [general(call, *arguments, **options)], (call, arguments, options)


def same_with_outs(general, shape, dtype, call, *arguments, **options):
    """Assert that a call with and without shortcuts writes the same to each of `outs`, or raises the same error."""
    for name in outs(shape, dtype):
        one, other = outs(shape, dtype)[name], outs(shape, dtype)[name]
        assert outcome(call, *arguments, out=one, **options) == general(call, *arguments, out=other, **options), name
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes(), name


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("make", ENCODINGS.values(), ids=ENCODINGS)
def test_encode(make, general):
    encode, width, axes = make().encode, make().d_model, make().ndim
    for positions, dtype in itertools.product(POSITIONS.values(), [None, np.float64]):
        same_twice(general, encode, positions, dtype=dtype)
    positions = np.arange(4.0 * axes).reshape((4, 2)[:axes]) / 8
    for dtype in TYPES:
        same_with_outs(general, (4, width), np.dtype(dtype), encode, positions)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("make", ENCODINGS.values(), ids=ENCODINGS)
def test_table(make, general):
    table, width = make().table, make().d_model
    for start, length, dtype in itertools.product(STARTS, (1, 13), (np.float32, ml_dtypes.bfloat16)):
        same_twice(general, table, length, start=start, dtype=dtype)
    for dtype, start in itertools.product(TYPES, (3, 0.5)):
        same_with_outs(general, (5, width), np.dtype(dtype), table, 5, start=start)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("make", ENCODINGS.values(), ids=ENCODINGS)
def test_add_to(make, general, rng):
    add_to, width = make().add_to, make().d_model
    options = [(0, 1), (-7, 0.5), (2**62, 1), (2**64 - 9, 1), (0.5, 1), (0, np.inf), (0, 2), (0, -0.0)]
    for dtype in TYPES:
        for shape in [(3,), (2, 1, 3), (70, 3)]:
            x = rng.normal(size=(*shape, width)).astype(dtype)
            for start, scale in options:
                same_twice(general, add_to, x, start=start, x_scale=scale)
            one, other = x.copy(), x.copy()
            assert outcome(add_to, one, out=one) == general(add_to, other, out=other)
        x = rng.normal(size=(2, 3, width)).astype(dtype)
        same_with_outs(general, x.shape, x.dtype, add_to, x)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
def test_rotary(dtype, layout, general, rng):
    rotary = pf.Rotary(24, rotary_dim=16, layout=layout)
    for tokens, axis in [*itertools.product((1, 8, 9, 70), (-2, 1)), (8, 2), (8, -3), (8, 0), (8, 3), (8, 1.0)]:
        x = rng.normal(size=(2, 3, tokens, 24)).astype(dtype)
        x = x.swapaxes(1, 2) if axis in (1, -3) else x
        tables = rotary.tables(tokens, start=5)
        each = [np.stack([table, table[::-1]]) for table in tables]
        calls = [(rotary.apply, (), {"start": start}) for start in (5, 2**40, 2**63)]
        calls += [(rotary.apply_tables, rows, {}) for rows in (tables, each)]
        for call, rows, options in calls:
            same_twice(general, call, x, *rows, seq_axis=axis, **options)
            one, other = x.copy(order="K"), x.copy(order="K")
            got = outcome(call, one, *rows, seq_axis=axis, out=one, **options)
            expected = general(call, other, *rows, seq_axis=axis, out=other, **options)
            assert got == expected, (call, options, tokens, axis)
    x = rng.normal(size=(2, 3, 2, 24)).astype(dtype)
    same_with_outs(general, x.shape, x.dtype, rotary.apply, x, start=3)


@pytest.mark.usefixtures("backend")
def test_shared_memory(general):
    encoding, rotary = pf.sinusoidal(2), pf.Rotary(4)
    tables = rotary.tables(5)

    def overlapping(x):
        return np.lib.stride_tricks.as_strided(x, (2, 1, 5, 4), (8, 8, 32, 8))

    calls = [
        lambda rows, x: encoding.encode(rows[:, 0], out=rows),
        lambda rows, x: encoding.add_to(rows[:2], out=rows[1:]),
        lambda rows, x: encoding.add_to(rows[::-1], out=rows),
        lambda rows, x: encoding.table(3, out=np.broadcast_to(rows[:1], rows.shape)),
        lambda rows, x: rotary.apply(x[:-1], out=x[1:]),
        lambda rows, x: rotary.apply(x[::-1], out=x),
        lambda rows, x: rotary.apply_tables(x[:2], *tables, out=x[1:3]),
        lambda rows, x: rotary.apply_tables(x, x[0, 0, :, :2], x[0, 0, :, 2:], out=x),
        lambda rows, x: rotary.apply(x[2:4].copy(), out=overlapping(x)),
    ]
    for i, call in enumerate(calls):
        for _ in range(2):
            one = np.array([[1e300, 0.5], [2.0**60, -3.0], [1e-300, 1e18]]), np.arange(100.0).reshape(5, 1, 5, 4)
            other = [array.copy() for array in one]
            assert outcome(call, *one) == general(call, *other), i
            assert [array.tobytes() for array in one] == [array.tobytes() for array in other], i


def test_plain_calls_are_compiled(monkeypatch):
    """Plain small calls use the compiled shortcuts. The general code is replaced by a function that raises an error."""
    encoding, rotary = pf.sinusoidal(6), pf.Rotary(24)
    rows, x, tokens = np.ones((4, 6)), np.ones((2, 4, 6)), np.ones((2, 3, 8, 24))
    for dtype in TYPES:
        encoding.table(4, dtype=dtype)
        rotary.apply(tokens.astype(dtype))
    encoding.encode(np.arange(4.0))
    tables = {count: rotary.tables(count) for count in (8, 72)}

    def fail(*arguments, **options):
        raise AssertionError("the general way")

    for name in ("wanted_type", "base_array", "convert"):
        monkeypatch.setattr(f"posenc_fast._core.encoding.value.{name}", fail)
    monkeypatch.setattr(Rotator, "by_positions", fail)
    monkeypatch.setattr(Rotator, "by_tables", fail)
    for dtype, workers in itertools.product(TYPES, (None, 1, 8)):
        out, form = rows.astype(dtype), {"dtype": dtype, "workers": workers}
        for start in (0, -(2**40), 2.0, 0.5):
            encoding.table(4, start=start, **form)
            assert encoding.table(4, start=start, out=out, workers=workers) is out
        for positions in (5.0, 5, np.int64(5), np.array(5), np.arange(4), np.arange(4.0), np.ones((2, 2), np.float32)):
            encoding.encode(positions, **form)
        assert encoding.encode(np.arange(4), out=out, workers=workers) is out
        y, z = x.astype(dtype), tokens.astype(dtype)
        encoding.add_to(y, workers=workers)
        assert encoding.add_to(y, out=y, workers=workers) is y
        for axis, many in itertools.product((-2, 2, 1, -3), (z, np.repeat(z, 9, axis=2))):
            many = many.swapaxes(1, 2) if axis in (1, -3) else many
            rotary.apply(many, start=9, seq_axis=axis, workers=workers)
            assert rotary.apply(many, seq_axis=axis, out=many, workers=workers) is many
            rotary.apply_tables(many, *tables[many.shape[axis]], seq_axis=axis, workers=workers)


@pytest.mark.parametrize("dtype", [np.float64, ml_dtypes.bfloat16], ids=lambda t: np.dtype(t).name)
def test_results_of_a_mebibyte_begin_at_a_cache_line(dtype):
    """Results of at least a mebibyte begin at a cache line, also if a compiled shortcut allocates them."""
    encoding, rotary = pf.sinusoidal(64), pf.Rotary(64)
    x, tables = np.ones((1, 32, 275, 64), dtype), rotary.tables(275)
    calls = {
        "table": lambda: encoding.table(8800, dtype=dtype),
        "encode": lambda: encoding.encode(np.arange(8800.0), dtype=dtype),
        "add_to": lambda: encoding.add_to(x),
        "eight tokens": lambda: rotary.apply(x.reshape(1, 1100, 8, 64)),
        "more tokens": lambda: rotary.apply(x),
        "tables": lambda: rotary.apply_tables(x, *tables),
    }
    assert x.nbytes >= 1 << 20
    for name, call in calls.items():
        # check several arrays, because one could begin at a cache line by chance
        for array in [call() for _ in range(4)]:
            assert array.ctypes.data % 64 == 0, name
