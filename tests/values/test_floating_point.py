"""Test what docs/robustness.md says about results under other rounding modes and with flushed subnormals."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import platform
import sys

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._selfcheck import bits
from support.engines import ENGINES

# keys: processors. Values: rounding modes and their numbers in fenv.h of glibc.
MODES = {
    "x86_64": {"down": 0x400, "up": 0x800, "toward-zero": 0xC00},
    "aarch64": {"down": 0x800000, "up": 0x400000, "toward-zero": 0xC00000},
}.get(platform.machine(), {})
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc" or not MODES or sys.maxsize < 2**32,
    reason="the test sets modes by glibc on x86-64 and 64-bit ARM",
)


def libm():
    return ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")


@contextlib.contextmanager
def environment():
    """Yield the floating-point environment of this thread, as integers of 32 bits. Restore it after the block."""
    before = (ctypes.c_uint32 * 8)()
    libm().fegetenv(before)
    try:
        yield type(before)(*before)
    finally:
        libm().fesetenv(before)


def results():
    """Return the result of each call in each dtype, by name."""
    return {
        f"{call}, {name}": make(np.dtype(name), 0)
        for name in ("float64", "float32", "float16")
        for call, make in bits.calls().items()
        if call != "no positions"
    }


@pytest.fixture(scope="module")
def usual():
    """Return the results in the usual mode, which have the same bits for all engines.

    An Encoding that an engine first uses in another mode keeps less accurate frequencies, so use all engines here.
    """
    for backend, isa in ENGINES:
        with pf.use_backend(backend, isa):
            made = results()
    return made


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=() if name == "down" else pytest.mark.slow, id=name) for name, mode in MODES.items()],
)
def test_other_rounding_modes_change_last_bits(mode, usual):
    with environment():
        assert libm().fesetround(mode) == 0
        assert 1 + np.float64(1e-300) != 1 or 1 - np.float64(1e-300) != 1
        other = results()
    for name, expected in usual.items():
        got = other[name]
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        # only require finite values here: float32 angles change in their last digits, and exact arithmetic is wrong in
        # these modes, because it relies on rounding to nearest
        if name.startswith(("float32 arithmetic", "reals, far")):
            assert np.isfinite(got).all()
            continue
        size = max(1.0, float(np.abs(expected).max()))
        # in float64, allow for 2^-32: near whole turns, angles that are sums of two doubles lose their low parts
        last = 2.0**-32 if got.dtype == np.float64 else 2 * np.finfo(got.dtype).eps
        error = np.abs(got.astype(np.float64) - expected.astype(np.float64)).max()
        assert error <= last * size, name
    # later results in the default mode are unchanged: encodings must not keep rows that were cached in another mode
    again = results()
    assert all(again[name].tobytes() == expected.tobytes() for name, expected in usual.items())


@pytest.mark.usefixtures("backend")
def test_flushing_changes_only_subnormals(usual):
    """Programs built with -ffast-math make the processor flush subnormal results, and on x86 also arguments, to 0."""
    encoding, positions = pf.sinusoidal(4), np.array([2e-308, 1e-310, 5e-324])
    np.testing.assert_array_equal(encoding.encode(positions, dtype=np.float64)[:, 0], positions)
    place, flags = (7, 0x8040) if platform.machine() == "x86_64" else (0, 1 << 24)
    with environment() as changed:
        changed[place] |= flags
        libm().fesetenv(changed)
        assert not np.float64(5e-324) * np.float64(1)
        got = results()
        flushed = encoding.encode(positions, dtype=np.float64)[:, 0]
        assert flushed.tobytes() in (np.zeros(3).tobytes(), positions.tobytes())
    for name, values in usual.items():
        assert got[name].tobytes() == values.tobytes(), name
