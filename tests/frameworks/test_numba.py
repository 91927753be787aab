"""Test posenc_fast.numba: compiled functions compute the same bits as Python calls, and reject invalid arguments."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
from support.optional import optional

pytestmark = pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel")
numba = optional("numba")
if pf.isa_levels():
    pfn = pytest.importorskip("posenc_fast.numba")


def same_bits(got, expected):
    assert got.dtype == expected.dtype
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_calls_from_compiled_functions(dtype, rng):
    @numba.njit(nogil=True)
    def compiled(encoding, rotary, start, reals, integers, x, queries, out, rotated):
        pfn.table(encoding, start, out[0])
        pfn.encode(encoding, reals, out[1])
        pfn.encode(encoding, integers, out[2])
        pfn.add_to(encoding, x, start, 0.5, out[3:])
        pfn.rotate(rotary, queries, start, rotated)

    encoding, rotary, start = pf.sinusoidal(12), pf.Rotary(16), 10**6
    reals, integers = rng.uniform(-1e6, 1e6, 20), rng.integers(-(2**62), 2**62, 20)
    # more tokens than values in a head
    x, queries = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 20, 12), (2, 3, 400, 16)))
    # out consists of some columns of a wider array
    out, rotated = np.empty((5, 20, 15), dtype)[..., 2:-1], np.empty_like(queries)
    addresses = pfn.address_of(encoding), pfn.address_of(rotary)
    compiled(*addresses, start, reals, integers, x, queries, out, rotated)
    same_bits(out[0], encoding.table(20, start=start, dtype=dtype))
    same_bits(out[1], encoding.encode(reals, dtype=dtype))
    same_bits(out[2], encoding.encode(integers, dtype=dtype))
    same_bits(out[3:], encoding.add_to(x, start=start, x_scale=0.5))
    same_bits(rotated, rotary.apply(queries, start=start))


LINE, ROTARY, ROWS = pf.sinusoidal(12), pf.Rotary(12), np.full((3, 12), 7.0)
READ_ONLY = np.frombuffer(bytes(3 * 12 * 8)).reshape(3, 12)


def at(value):
    """Return the address of an Encoding or Rotary, which is valid as long as the value exists."""
    return pfn.address_of(value)


@wrong_calls("""
    pfn.table(at(LINE), 0, ROWS[:, 1:]) | ValueError | d_model values (for an Encoding)
    pfn.table(at(LINE), 0, np.empty((3, 24))[:, ::2]) | ValueError | each row of x and out must be contiguous
    pfn.table(at(LINE), 0, np.empty((3, 12), np.int64)) | numba.TypingError | x and out must be arrays of float64 or float32
    pfn.table(at(LINE), 0.5, ROWS) | numba.TypingError | start must be an integer
    pfn.table(at(LINE), np.uint64(2**63), ROWS) | ValueError | start must be below
    pfn.encode(at(LINE), np.zeros(2), ROWS) | ValueError | as many rows as out
    pfn.encode(at(LINE), np.full(3, 1e200), np.empty((3, 12))) | ValueError | exact arithmetic
    pfn.encode(at(LINE), np.zeros(6)[::2], ROWS) | ValueError | positions must be contiguous
    pfn.add_to(at(LINE), np.zeros((1, 2, 12)), 0, 1.0, ROWS[np.newaxis]) | ValueError | same shape and dtype
    pfn.add_to(at(LINE), np.zeros((1, 3, 12), np.float32), 0, 1.0, ROWS[np.newaxis]) | ValueError | same shape and dtype
    pfn.rotate(at(ROTARY), np.zeros((1, 2, 3, 12)), 0, ROWS[np.newaxis, np.newaxis]) | ValueError | same shape and dtype
    pfn.rotate(at(ROTARY), np.zeros((1, 1, 3, 12), "f4"), 0, ROWS[np.newaxis, np.newaxis]) | ValueError | same shape and dtype
    pfn.table(at(LINE), 5, READ_ONLY) | numba.TypingError | read-only
    pfn.encode(at(LINE), np.ones(3), np.zeros(12)) | numba.TypingError | out must be an array of 2 dimensions
    pfn.add_to(at(LINE), ROWS, 5, 1.0, ROWS) | numba.TypingError | out must be an array of 3 dimensions
    pfn.rotate(at(ROTARY), ROWS, 5, ROWS) | numba.TypingError | out must be an array of 4 dimensions
    at(8) | TypeError | an Encoding or a Rotary, not int
    at(pf.fourier_features(pf.periodic(["1D"]))) | ValueError | periods
""")
def test_invalid_arguments(call, error, words):
    raises(call, error, words)
    assert (ROWS == 7).all()


def test_starts_empty_arrays_and_one_column():
    out = np.empty((3, 12))
    for start in (np.uint64(2**63 - 3), -(2**63), np.int32(-5)):
        pfn.table(at(LINE), start, out)
        same_bits(out, LINE.table(3, start=int(start), dtype="f8"))
    pfn.encode(at(LINE), np.empty(0), np.empty((0, 12)))
    pfn.rotate(at(ROTARY), np.empty((1, 2, 0, 12)), 0, np.empty((1, 2, 0, 12)))
    # x may be read-only, because it is only read
    pfn.add_to(at(LINE), READ_ONLY[np.newaxis], 5, 1.0, out[np.newaxis])
    same_bits(out, LINE.table(3, start=5, dtype="f8"))
    wave, column = pf.Encoding([1.0]), np.empty((1, 3)).T
    pfn.table(at(wave), 0, column)
    same_bits(column, wave.table(3, dtype="f8"))
