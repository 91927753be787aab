"""posenc_fast.numba: compiled functions with the bits of Python's calls, and an error for what does not fit."""

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
    def compiled(encoding, rotary, start, reals, integers, x, queries, out, turned):
        pfn.table(encoding, start, out[0])
        pfn.encode(encoding, reals, out[1])
        pfn.encode(encoding, integers, out[2])
        pfn.add_to(encoding, x, start, 0.5, out[3:])
        pfn.rotate(rotary, queries, start, turned)

    encoding, rotary, start = pf.sinusoidal(12), pf.Rotary(16), 10**6
    reals, integers = rng.uniform(-1e6, 1e6, 20), rng.integers(-(2**62), 2**62, 20)
    x, queries = (rng.standard_normal(shape).astype(dtype) for shape in ((2, 20, 12), (2, 3, 5, 16)))
    # columns of a wider array
    out, turned = np.empty((5, 20, 15), dtype)[..., 2:-1], np.empty_like(queries)
    addresses = pfn.address_of(encoding), pfn.address_of(rotary)
    compiled(*addresses, start, reals, integers, x, queries, out, turned)
    same_bits(out[0], encoding.table(20, start=start, dtype=dtype))
    same_bits(out[1], encoding.encode(reals, dtype=dtype))
    same_bits(out[2], encoding.encode(integers, dtype=dtype))
    same_bits(out[3:], encoding.add_to(x, start=start, x_scale=0.5))
    same_bits(turned, rotary.apply(queries, start=start))


def test_threads():
    encoding, out = pf.sinusoidal(16), np.empty((8, 1000, 16))
    address = pfn.address_of(encoding)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: pfn.table(address, 1000 * i, out[i]), range(8)))
    same_bits(out.reshape(8000, 16), encoding.table(8000, dtype="f8"))


def test_what_does_not_fit():
    address = pfn.address_of(pf.sinusoidal(12))
    with pytest.raises(ValueError, match="as many values"):
        pfn.table(address, 0, np.empty((3, 11)))
    with pytest.raises(ValueError, match="side by side"):
        pfn.table(address, 0, np.empty((3, 24))[:, ::2])
    with pytest.raises(ValueError, match="as many positions as rows"):
        pfn.encode(address, np.zeros(2), np.empty((3, 12)))
    with pytest.raises(ValueError, match="exact arithmetic"):
        pfn.encode(address, np.full(3, 1e200), np.empty((3, 12)))
    with pytest.raises(numba.TypingError, match="float64 and float32"):
        pfn.table(address, 0, np.empty((3, 12), np.int64))
    with pytest.raises(TypeError, match="an Encoding or a Rotary, not int"):
        pfn.address_of(8)
    with pytest.raises(ValueError, match="periods"):
        pfn.address_of(pf.fourier_features(pf.periodic(["1D"])))


def test_addresses_hold_as_long_as_the_encoding():
    encoding = pf.Encoding([1.0, 0.5])
    assert pfn.address_of(encoding) == pfn.address_of(encoding)
    rotary = pf.Rotary(8)
    assert pfn.address_of(rotary) == pfn.address_of(rotary)
