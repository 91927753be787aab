"""Compiled functions of posenc_fast.numba have the bits of Python's calls, and reject invalid arguments."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import posenc_fast as pf
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
    x, queries = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 20, 12), (2, 3, 5, 16)))
    # columns of a wider array
    out, rotated = np.empty((5, 20, 15), dtype)[..., 2:-1], np.empty_like(queries)
    addresses = pfn.address_of(encoding), pfn.address_of(rotary)
    compiled(*addresses, start, reals, integers, x, queries, out, rotated)
    same_bits(out[0], encoding.table(20, start=start, dtype=dtype))
    same_bits(out[1], encoding.encode(reals, dtype=dtype))
    same_bits(out[2], encoding.encode(integers, dtype=dtype))
    same_bits(out[3:], encoding.add_to(x, start=start, x_scale=0.5))
    same_bits(rotated, rotary.apply(queries, start=start))


def test_threads():
    encoding, out = pf.sinusoidal(16), np.empty((8, 1000, 16))
    address = pfn.address_of(encoding)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: pfn.table(address, 1000 * i, out[i]), range(8)))
    same_bits(out.reshape(8000, 16), encoding.table(8000, dtype="f8"))


def test_invalid_arguments():
    encoding = pf.sinusoidal(12)
    address = pfn.address_of(encoding)
    with pytest.raises(ValueError, match="d_model values of the Encoding"):
        pfn.table(address, 0, np.empty((3, 11)))
    with pytest.raises(ValueError, match="rows must be contiguous"):
        pfn.table(address, 0, np.empty((3, 24))[:, ::2])
    with pytest.raises(ValueError, match="one row for each row of out"):
        pfn.encode(address, np.zeros(2), np.empty((3, 12)))
    with pytest.raises(ValueError, match="exact arithmetic"):
        pfn.encode(address, np.full(3, 1e200), np.empty((3, 12)))
    with pytest.raises(numba.TypingError, match="float64 and float32"):
        pfn.table(address, 0, np.empty((3, 12), np.int64))
    with pytest.raises(TypeError, match="an Encoding or a Rotary, not int"):
        pfn.address_of(8)
    with pytest.raises(ValueError, match="periods"):
        pfn.address_of(pf.fourier_features(pf.periodic(["1D"])))


@pytest.mark.parametrize("axes", [1, 3], ids=["too-few", "too-many"])
def test_wrong_number_of_axes(axes):
    encoding, rotary = pf.sinusoidal(8), pf.Rotary(8)
    address, other = pfn.address_of(encoding), pfn.address_of(rotary)
    array = np.full((3,) * (axes - 1) + (8,), 7.0)
    for call in (
        lambda: pfn.table(address, 0, array),
        lambda: pfn.encode(address, np.zeros(3), array),
        lambda: pfn.add_to(address, array[np.newaxis], 0, 1.0, array[np.newaxis]),
        lambda: pfn.rotate(other, array[np.newaxis, np.newaxis], 0, array[np.newaxis, np.newaxis]),
    ):
        with pytest.raises(numba.TypingError, match=r"expects an array of [234] axes here, not of"):
            call()
    assert (array == 7).all()


def test_read_only_arrays():
    memory = bytes(3 * 8 * 8)
    rows = np.frombuffer(memory).reshape(3, 8)
    encoding, rotary = pf.sinusoidal(8), pf.Rotary(8)
    address, other = pfn.address_of(encoding), pfn.address_of(rotary)
    for call in (
        lambda: pfn.table(address, 5, rows),
        lambda: pfn.encode(address, np.ones(3), rows),
        lambda: pfn.add_to(address, np.zeros((1, 3, 8)), 5, 1.0, rows[np.newaxis]),
        lambda: pfn.rotate(other, np.ones((1, 1, 3, 8)), 5, rows[np.newaxis, np.newaxis]),
    ):
        with pytest.raises(numba.TypingError, match="read-only"):
            call()
    assert not rows.any()
    # an array that is only read may be read-only
    out = np.empty((1, 3, 8))
    pfn.add_to(address, rows[np.newaxis], 5, 1.0, out)
    same_bits(out[0], encoding.table(3, start=5, dtype="f8"))


def test_starts():
    encoding, out = pf.sinusoidal(8), np.full((3, 8), 7.0)
    address = pfn.address_of(encoding)
    for start in (0.5, 1e300, True):
        with pytest.raises(numba.TypingError, match="start must be an integer"):
            pfn.table(address, start, out)
    with pytest.raises(ValueError, match="start must be below"):
        pfn.table(address, np.uint64(2**63), out)
    assert (out == 7).all()
    for start in (np.uint64(2**63 - 3), -(2**63), np.int32(-5)):
        pfn.table(address, start, out)
        same_bits(out, encoding.table(3, start=int(start), dtype="f8"))


def test_empty_arrays_and_one_column():
    # keep references: an address is valid as long as its object exists
    encoding, rotary = pf.sinusoidal(8), pf.Rotary(8)
    address = pfn.address_of(encoding)
    pfn.table(address, 0, np.empty((0, 8)))
    pfn.encode(address, np.empty(0), np.empty((0, 8)))
    pfn.add_to(address, np.empty((2, 0, 8)), 0, 1.0, np.empty((2, 0, 8)))
    pfn.rotate(pfn.address_of(rotary), np.empty((1, 2, 0, 8)), 0, np.empty((1, 2, 0, 8)))
    wave = pf.Encoding([1.0])
    column = np.empty((1, 3)).T
    pfn.table(pfn.address_of(wave), 0, column)
    same_bits(column, wave.table(3, dtype="f8"))


def test_points_of_wrong_shape():
    encoding = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
    with pytest.raises(ValueError, match="one row for each row of out"):
        pfn.encode(pfn.address_of(encoding), np.zeros((6, 1)), np.empty((3, 8)))


def test_address_of_an_encoding_is_constant():
    encoding = pf.Encoding([1.0, 0.5])
    assert pfn.address_of(encoding) == pfn.address_of(encoding)
    rotary = pf.Rotary(8)
    assert pfn.address_of(rotary) == pfn.address_of(rotary)
