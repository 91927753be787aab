"""Test stores that bypass the cache: when the kernel uses them, and that they change no value."""

import inspect
import mmap
import platform
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.engine import backend as _backend
from posenc_fast._core.engine import blocks as _blocks
from posenc_fast._core.engine import python as _python
from support.checkout import checkout

pytestmark = pytest.mark.skipif(_backend.kernel is None, reason="the kernel is not built")
MIB = 1 << 20
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells which memory is mapped")
FLOAT64, FLOAT32, FLOAT16 = 0, 1, 2


def answer(out, x=None, kind=FLOAT32, last_level=32 * MIB, given=True, each=False):
    return _backend.kernel.STORES[_backend.kernel.stores(out, x, kind, last_level, given, each)]


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


def test_no_stores_past_an_unknown_cache():
    assert "may still be there" in answer(written(1 << 15, 256), last_level=0)


def test_new_memory_goes_through_the_cache():
    out = written(1 << 15, 256)
    assert "cleared" in answer(out, given=False)
    # the caller may pass new memory: the kernel asks the system whether the pages of `out` were ever written
    with mmap.mmap(-1, 32 * MIB) as area:
        never = np.frombuffer(area, np.float32).reshape(-1, 256)
        assert "cleared" in answer(never)
        del never


@linux
def test_narrow_rows_go_through_the_cache():
    assert "two rows would share" in answer(written(1 << 19, 63))
    assert answer(written(1 << 19, 64)) == "past the cache"
    assert "two rows would share" in answer(written(1 << 19, 64, np.uint16), kind=FLOAT16)


def test_sums_go_past_the_cache_unless_in_place():
    x, out = np.ones((2, 1 << 14, 256), np.float32), np.ones((2, 1 << 14, 256), np.float32)
    assert answer(out, x) == answer(out, x, given=False) == "past the cache"
    assert "the result is x" in answer(x, x)
    assert "one float32 batch" in answer(out[:1], x[:1])
    assert answer(out[:1].view(np.uint16), x[:1].view(np.uint16), kind=FLOAT16) == "past the cache"
    assert "may still be there" in answer(out[:, :100], x[:, :100])
    assert "two rows would share" in answer(out[..., :60], x[..., :60], last_level=2)
    wide = np.ones((2, 1 << 14, 256))
    assert "sums in float64" in answer(wide, wide.copy(), kind=FLOAT64)


@linux
def test_rows_of_any_positions_go_past_the_cache_in_sums_and_float64():
    assert "longer to compute" in answer(written(1 << 15, 256), each=True)
    wide = written(1 << 14, 256, np.float64)
    assert answer(wide, kind=FLOAT64, each=True) == "past the cache"
    assert "cleared" in answer(wide, kind=FLOAT64, each=True, given=False)
    assert answer(
        written(1 << 15, 256)[np.newaxis].repeat(2, 0), np.ones((2, 1 << 15, 256), np.float32), each=True
    ) == ("past the cache")


class Seen:
    """Wrapper of a plan or a lattice that records the kind of stores of each call."""

    def __init__(self, seen, stores):
        self.seen, self.stores = seen, stores

    def __getattr__(self, name):
        method = getattr(self.seen, name)
        place = list(inspect.signature(getattr(_python.Plan, name, None) or getattr(_python.Lattice, name)).parameters)

        def call(*arguments):
            self.stores.append(_backend.kernel.STORES[arguments[place.index("stores") - 1]])
            return method(*arguments)

        return call


@pytest.fixture
def seen(monkeypatch):
    """Yield an encoding of 256 columns, and the list in which its engine records the kind of stores of each call.

    The cache has 3 bytes, and blocks have 4000 values.
    """
    monkeypatch.setattr(_blocks, "cache_size", lambda: 3)
    monkeypatch.setattr(_blocks, "BLOCK", 4000)
    monkeypatch.setattr(_blocks, "WORTH_A_THREAD", 1)
    encoding, stores = pf.sinusoidal(256), []
    plans = type(encoding._plans)
    plan, lattice = plans.plan, plans.lattice
    with pf.use_backend("cython"):
        engine = _backend.current()
        lattices = {wide: lattice(encoding._plans, engine, wide) for wide in (False, True)}
        monkeypatch.setattr(plans, "lattice", lambda _, __, wide: (Seen(lattices[wide][0], stores), lattices[wide][1]))
        monkeypatch.setattr(plans, "plan", lambda *given: (Seen(plan(*given)[0], stores), plan(*given)[1]))
        yield encoding, stores


@linux
def test_stores_of_tables(seen):
    encoding, stores = seen
    out = written(100, 256)
    encoding.table(100, out=out, workers=-1)
    assert set(stores) == {"past the cache"}
    assert len(stores) > 1
    np.testing.assert_array_equal(out, encoding.table(100))
    del stores[:]
    encoding.table(100, workers=-1)
    assert len(stores) > 1
    assert all("cleared" in each for each in stores)


def test_stores_of_sums(seen):
    encoding, stores = seen
    x = np.zeros((2, 100, 256), np.float32)
    total = encoding.add_to(x, workers=-1)
    assert set(stores) == {"past the cache"}
    np.testing.assert_array_equal(total[1], encoding.table(100))
    del stores[:]
    encoding.add_to(x, out=x, workers=-1)
    assert stores
    assert all("the result is x" in each for each in stores)
    np.testing.assert_array_equal(x, total)


@linux
def test_stores_of_rows_of_any_positions(seen):
    encoding, stores = seen
    out = written(100, 256, np.float64)
    positions = np.random.default_rng(0).uniform(0, 1e6, 100)
    encoding.encode(positions, out=out, workers=-1)
    encoding.table(100, step=3, out=out, workers=-1)
    assert set(stores) == {"past the cache"}
    del stores[:]
    encoding.encode(positions, dtype=np.float64, workers=-1)
    assert stores
    assert all("cleared" in each for each in stores)
    del stores[:]
    encoding.encode(positions, workers=-1)
    assert stores
    assert all("longer to compute" in each for each in stores)


class Merging:
    """The kernel module, but `merge` records the kind of stores of each call."""

    def __init__(self):
        self.stores = []

    def __getattr__(self, name):
        return getattr(_backend.kernel, name)

    def merge(self, level, outer, inner, out, way):
        self.stores.append(_backend.kernel.STORES[way])
        _backend.kernel.merge(level, outer, inner, out, way)


@linux
def test_stores_of_grids(monkeypatch):
    monkeypatch.setattr(_blocks, "cache_size", lambda: 3)
    encoding = pf.join([pf.sinusoidal(128), pf.sinusoidal(128)])
    mixed = pf.join([pf.fourier_features(np.ones((64, 2))), pf.sinusoidal(128)], axes=[(0, 1), 1])
    merging, out = Merging(), np.ones((5, 7, 256), np.float32)
    with pf.use_backend("cython"):
        expected = pf.grid([5, 7], encoding)
        _backend._chosen.set(_backend.current()._replace(module=merging))
        np.testing.assert_array_equal(pf.grid([5, 7], encoding, out=out), expected)
        assert merging.stores.pop() == "past the cache"
        pf.grid([5, 7], encoding)
        assert "cleared" in merging.stores.pop()
        # columns that depend on both axes are written after the merge, so the merged array should stay in the cache
        pf.grid([5, 7], mixed, out=out)
        assert "may still be there" in merging.stores.pop()
    assert not merging.stores


@linux
@pytest.mark.parametrize("level", range(len(pf.isa_levels())), ids=pf.isa_levels())
@pytest.mark.parametrize("way", ["through the cache", "past the cache"])
@pytest.mark.parametrize(
    ("batches", "rows", "width", "around"),
    [(3, 5, 6, 0), (2, 700, 3, 0), (2, 9, 512, 0), (2, 7, 515, 0), (2, 7, 1024, 5), (3, 4, 40, 8), (4, 1, 1, 0)],
)
def test_merged_rows_begin_anywhere(level, way, batches, rows, width, around, rng):
    """With each kind of stores, `merge` writes the same rows as the Python engine, and nothing around them.

    The rows begin at any offset in a cache line.
    """
    stores = 0 if way == "through the cache" else _backend.kernel.STORES.index(way)
    outer, inner = (rng.integers(0, 1 << 16, (n, width), np.uint16) for n in (batches, rows))
    for first in range(33):
        whole = [np.full(batches * rows * (width + around) + 64, 7, np.uint16) for _ in range(2)]
        for memory, merge in zip(whole, (_python.merge, _backend.kernel.merge), strict=True):
            begin = -memory.ctypes.data % 64 // 2 + first
            out = memory[begin : begin + batches * rows * (width + around)].reshape(batches, rows, -1)[..., :width]
            merge(level, outer, inner, out, stores)
            memory[:] = np.roll(memory, -begin)
        np.testing.assert_array_equal(*whole, err_msg=str(first))


@linux
@pytest.mark.parametrize("level", pf.isa_levels())
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("width", "around"), [(256, 0), (256, 5), (515, 5)])
def test_the_values_do_not_depend_on_stores(level, kind, width, around):
    """Both kinds of stores write the same values to rows at any offset in a cache line, and nothing around them."""
    engine_kind = _backend.kernel.KINDS[kind]
    stored = {"float64": np.float64, "float32": np.float32}.get(kind, np.uint16)
    encoding, rows = pf.sinusoidal(width), 9
    positions = np.random.default_rng(1).uniform(-1e6, 1e6, (rows, 1))
    positions[3] = np.nan
    with pf.use_backend("cython", isa=level):
        engine = _backend.current()
        plan, _ = encoding._plans.plan(engine, "real")
        lattice, _ = encoding._plans.lattice(engine, kind == "float64")
        spans, offsets = np.arange(rows, dtype=np.int64), np.arange(rows, dtype=np.int32) * 7
        ways = {
            "encode": lambda out, way: plan.encode(engine.level, positions, out, engine_kind, False, way),
            "rows": lambda out, way: lattice.rows(engine.level, spans, offsets, out, engine_kind, way),
            "table": lambda out, way: lattice.table(engine.level, 0, 60, out, engine_kind, way),
        }
        for name, fill in ways.items():
            for first in range(0, 64 // np.dtype(stored).itemsize, 3):
                made = []
                for way in ("through", "past"):
                    whole = np.full(rows * (width + around) + 64, 7, stored)
                    begin = -whole.ctypes.data % 64 // whole.itemsize + first
                    out = whole[begin : begin + rows * (width + around)].reshape(rows, -1)[:, :width]
                    fill(out, _backend.kernel.STORES.index("past the cache") if way == "past" else 0)
                    made.append(whole[begin - first :][: first + rows * (width + around)].tobytes())
                assert made[0] == made[1], (name, first)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_rows_are_prefetched_by_the_sizes_of_caches(tmp_path):
    """The sizes of caches decide how large an x must be to be prefetched.

    Each case has three sizes in KiB: second-level cache, last-level cache, and smallest x that is prefetched. None: no
    x is prefetched. In the first case, the smallest x has one byte more.
    """
    cases = [
        (2048, 260 * 1024, 2048),
        (1024, 32 * 1024, 16 * 1024),
        (1024, 8 * 1024, 4 * 1024),
        (1024, 0, None),
        (512, 32 * 1024, None),
    ]
    program = tmp_path / "rule.c"
    calls = "".join(f'printf("%td ", posenc_prefetch_from({s} << 10, {last} << 10));' for s, last, _ in cases)
    program.write_text(f'#include "tuning.h"\n#include <stdio.h>\nint main(void) {{ {calls} return 0; }}\n')
    subprocess.run(["cc", f"-I{checkout() / 'src'}", "-o", tmp_path / "rule", program], check=True)
    found = subprocess.run([tmp_path / "rule"], capture_output=True, text=True, check=True).stdout.split()
    never = sys.maxsize
    assert [int(n) for n in found] == [never if k is None else k * 1024 + (s == 2048) for s, _, k in cases]


@linux
@pytest.mark.parametrize("level", pf.isa_levels())
@pytest.mark.parametrize("around", [0, 16])
@pytest.mark.parametrize("width", [16, 64, 528])
def test_rows_of_whole_lines(level, width, around):
    """Both kinds of stores write the same values to rows whose size is a multiple of a cache line."""
    encoding, rows, kind = pf.sinusoidal(width), 350, _backend.kernel.KINDS["float32"]
    past = _backend.kernel.STORES.index("past the cache")
    with pf.use_backend("cython", isa=level):
        engine = _backend.current()
        lattice, _ = encoding._plans.lattice(engine, False)
        for first in range(16):
            made = []
            for way in (0, past):
                whole = np.full(rows * (width + around) + 64, 7, np.float32)
                begin = -whole.ctypes.data % 64 // 4 + first
                out = whole[begin : begin + rows * (width + around)].reshape(rows, -1)[:, :width]
                lattice.table(engine.level, 0, 40, out, kind, way)
                made.append(whole[begin - first :][: first + rows * (width + around) + 16])
            np.testing.assert_array_equal(*made, err_msg=f"{first} values into a line")


# ---- fences: without a fence, another thread may read old memory, which tests of values do not find ------------------


# matches symbols of the functions with the kernel's loops. A compiler may split a function into parts with suffixes.
ENTRY = re.compile(r"_(table|rows_in_any_order|encode|merge)(\.[\w.]+)?$")


def open_ends(listing):
    """Return two sets: addresses of functions that bypass the cache, and names of functions that do so without a fence.

    A function is unfenced if it contains no fence, and bypasses the cache itself or calls an unfenced function. The
    second set contains an unfenced function if it matches `ENTRY` or nothing calls it. listing: disassembly of the
    kernel.
    """
    code = {}
    for line in listing.splitlines():
        if found := re.fullmatch(r"([0-9a-f]+) <(.*)>:", line):
            name, address = found[2], int(found[1], 16)
            code[address] = (name, lines := [])
        elif "\t" in line:
            lines.append(line.split("\t", 1)[1])
    calls = {
        address: {
            int(target, 16)
            for target in re.findall(r"^(?:call|jmp)q? +([0-9a-f]+) <[^+>]*>", "\n".join(lines), re.MULTILINE)
        }
        for address, (_, lines) in code.items()
    }
    fenced = {address for address, (_, lines) in code.items() if any(line.startswith("sfence") for line in lines)}
    past = {address for address, (_, lines) in code.items() if re.search(r"^v?movnt", "\n".join(lines), re.MULTILINE)}
    unfenced, more = set(), past - fenced
    while more:
        unfenced |= more
        more = {address for address in code if calls[address] & unfenced} - unfenced - fenced
    called = set().union(*calls.values())
    names = {address: code[address][0] for address in unfenced}
    return past, {name for address, name in names.items() if ENTRY.search(name) or address not in called}


@pytest.fixture(scope="module")
def listing():
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("only x86-64 has stores past the cache")
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed")
    command = ["objdump", "-d", "--no-show-raw-insn", str(_backend.kernel.__file__)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "write_streamed" not in found:
        pytest.skip("the kernel's symbols were stripped")
    return found


def test_stores_past_the_cache_are_fenced(listing):
    past, unfenced = open_ends(listing)
    # every level has several functions with such stores: for tables, sums, rows of any positions, and grids
    assert len(past) >= 2 * len(pf.isa_levels())
    assert not unfenced


def test_a_missing_fence_is_found(listing):
    assert open_ends(re.sub(r"\tsfence.*", "\tnop", listing))[1]
    # a fence that is missing in only one function must be found as well
    functions = re.findall(r"^[0-9a-f]+ <.*>:\n(?:.+\n)*", listing, re.MULTILINE)
    function = next(function for function in functions if "\tsfence" in function)
    found = open_ends(listing.replace(function, re.sub(r"\tsfence.*", "\tnop", function)))[1]
    assert found == {re.match(r"\w+ <(.*)>:", function)[1]}
