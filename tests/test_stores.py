"""When results are written past the cache: what the kernel answers, and that tables and sums are written so."""

import mmap
import sys

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._engine import backend as _backend
from posenc_fast._engine import blocks as _blocks

pytestmark = pytest.mark.skipif(_backend.kernel is None, reason="the kernel is not built")
MIB = 1 << 20
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="nobody else says which memory is mapped")
FLOAT32, FLOAT16 = 1, 2


def answer(out, x=None, kind=FLOAT32, last_level=32 * MIB, given=True):
    return _backend.kernel.STORES[_backend.kernel.stores(out, x, kind, last_level, given)]


def written(rows, width, dtype=np.float32):
    return np.ones((rows, width), dtype)


@linux
@pytest.mark.parametrize(
    ("last_level", "least"),
    [(32 * MIB, 16 * MIB), (8 * MIB, 4 * MIB), (260 * MIB, 16 * MIB), (1 << 40, 16 * MIB)],
)
def test_large_results_go_past_the_cache(last_level, least):
    out = written(least // 1024, 256)
    assert answer(out, last_level=last_level) == "past the cache"
    assert "may still be there" in answer(out[1:], last_level=last_level)


def test_of_an_unknown_cache_nothing_goes_past_it():
    assert "may still be there" in answer(written(1 << 15, 256), last_level=0)


def test_new_memory_goes_through_the_cache():
    out = written(1 << 15, 256)
    assert "cleared" in answer(out, given=False)
    # of an output array that was given, the system is asked
    with mmap.mmap(-1, 32 * MIB) as area:
        never = np.frombuffer(area, np.float32).reshape(-1, 256)
        assert "cleared" in answer(never)
        del never


@linux
def test_narrow_rows_go_through_the_cache():
    assert "shared by two rows" in answer(written(1 << 19, 63))
    assert answer(written(1 << 19, 64)) == "past the cache"
    assert "shared by two rows" in answer(written(1 << 19, 64, np.uint16), kind=FLOAT16)


def test_sums_go_past_the_cache_where_they_do_not_read_what_they_write():
    x, out = np.ones((2, 1 << 14, 256), np.float32), np.ones((2, 1 << 14, 256), np.float32)
    assert answer(out, x) == answer(out, x, given=False) == "past the cache"
    assert "added to" in answer(x, x)
    assert "one float32 batch" in answer(out[:1], x[:1])
    assert answer(out[:1].view(np.uint16), x[:1].view(np.uint16), kind=FLOAT16) == "past the cache"
    assert "may still be there" in answer(out[:, :100], x[:, :100])
    assert "shared by two rows" in answer(out[..., :60], x[..., :60], last_level=2)


class Seen:
    """A lattice that keeps what its tables are told."""

    def __init__(self, lattice):
        self.lattice, self.stores = lattice, []

    def table(self, level, span, offset, out, kind, stores=0, x=None, scale=1.0):
        self.stores.append(_backend.kernel.STORES[stores])
        self.lattice.table(level, span, offset, out, kind, stores, x, scale)


@pytest.fixture
def seen(monkeypatch):
    """An encoding of 64 columns whose lattice is watched, with a cache of 3 bytes and blocks of 1000 values."""
    monkeypatch.setattr(_blocks, "cache_size", lambda: 3)
    monkeypatch.setattr(_blocks, "BLOCK", 1000)
    monkeypatch.setattr(_blocks, "WORTH_A_THREAD", 1)
    encoding = pf.sinusoidal(64)
    with pf.use_backend("cython"):
        engine = _backend.current()
        lattice, bits = encoding._plans.lattice(engine, False)
        watched = Seen(lattice)
        monkeypatch.setattr(type(encoding._plans), "lattice", lambda *_: (watched, bits))
        yield encoding, watched.stores


@linux
def test_tables_are_written_so(seen):
    encoding, stores = seen
    out = written(100, 64)
    encoding.table(100, out=out, workers=1)
    assert set(stores) == {"past the cache"}
    assert len(stores) > 1
    np.testing.assert_array_equal(out, encoding.table(100))
    del stores[:]
    encoding.table(100, workers=1)
    assert len(stores) > 1
    assert all("cleared" in each for each in stores)


def test_sums_are_written_so(seen):
    encoding, stores = seen
    x = np.zeros((2, 100, 64), np.float32)
    total = encoding.add_to(x, workers=1)
    assert set(stores) == {"past the cache"}
    np.testing.assert_array_equal(total[1], encoding.table(100))
    del stores[:]
    encoding.add_to(x, out=x, workers=1)
    assert stores
    assert all("added to" in each for each in stores)
    np.testing.assert_array_equal(x, total)
