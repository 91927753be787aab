"""Test stores that bypass the cache: when the kernel uses them, and that they change no value."""

import inspect
import itertools
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
from posenc_fast._core.rotary import rotator as _rotator
from support.checkout import checkout
from support.tables import each_line

pytestmark = pytest.mark.skipif(_backend.kernel is None, reason="the kernel is not built")
MIB = 1 << 20
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells which memory is mapped")
levels = pytest.mark.parametrize("level", pf.isa_levels())
FLOAT64, FLOAT32, FLOAT16 = 0, 1, 2
PAST = "past the cache"


def answer(out, x=None, kind=FLOAT32, last_level=32 * MIB, given=True, each=False):
    return _backend.kernel.STORES[_backend.kernel.stores(out, x, kind, last_level, given, each)]


def written(rows, width, dtype=np.float32):
    return np.ones((rows, width), dtype)


# A row of 256 float32 values has 1024 bytes.
@linux
@each_line("""
    call | words
    answer(written(1 << 14, 256)) | past the cache
    answer(written((1 << 14) - 1, 256)) | may still be there
    answer(written(1 << 12, 256), last_level=8 * MIB) | past the cache
    answer(written((1 << 12) - 1, 256), last_level=8 * MIB) | may still be there
    answer(written(1 << 14, 256), last_level=1 << 40) | past the cache
    answer(written((1 << 14) - 1, 256), last_level=1 << 40) | may still be there
    answer(written(1 << 15, 256), last_level=0) | may still be there
    answer(written(1 << 15, 256), given=False) | cleared
    answer(written(1 << 19, 63)) | two rows would share
    answer(written(1 << 19, 64)) | past the cache
    answer(written(1 << 19, 64, np.uint16), kind=FLOAT16) | two rows would share
    answer(written(1 << 15, 256), each=True) | longer to compute
    answer(written(1 << 14, 256, np.float64), kind=FLOAT64, each=True) | past the cache
    answer(written(1 << 14, 256, np.float64), kind=FLOAT64, each=True, given=False) | cleared
""")
def test_answers_for_tables(call, words):
    assert words in eval(call)


@pytest.fixture(scope="module")
def summands():
    return {name: np.ones((2, 1 << 14, 256), np.float32) for name in ("x", "out")}


@each_line("""
    call | words
    answer(out, x) | past the cache
    answer(out, x, given=False) | past the cache
    answer(out, x, each=True) | past the cache
    answer(x, x) | the result is x
    answer(out[:1], x[:1]) | one float32 batch
    answer(out[:1].view(np.uint16), x[:1].view(np.uint16), kind=FLOAT16) | past the cache
    answer(out[:, :100], x[:, :100]) | may still be there
    answer(out[..., :60], x[..., :60], last_level=2) | two rows would share
    answer(np.ones((2, 1 << 14, 256)), np.ones((2, 1 << 14, 256)), kind=FLOAT64) | sums in float64
""")
def test_answers_for_sums(call, words, summands):
    assert words in eval(call, globals() | summands)


def test_new_memory_of_the_caller_goes_through_the_cache():
    """The kernel asks the system whether the pages of `out` were ever written."""
    with mmap.mmap(-1, 32 * MIB) as area:
        never = np.frombuffer(area, np.float32).reshape(-1, 256)
        assert "cleared" in answer(never)
        del never


class Recorder:
    """Wrapper of a plan, a lattice or the kernel that records the kind of stores of each call.

    twin: the same in the Python engine, whose functions have the same parameters.
    """

    def __init__(self, recorded, twin, stores):
        self.recorded, self.twin, self.stores = recorded, twin, stores

    def __getattr__(self, name):
        function = getattr(self.recorded, name)
        twin = getattr(self.twin, name, None)
        parameters = [each for each in inspect.signature(twin).parameters if each != "self"] if callable(twin) else []
        if "stores" not in parameters:
            return function

        def call(*arguments):
            self.stores.append(_backend.kernel.STORES[dict(zip(parameters, arguments, strict=False)).get("stores", 0)])
            return function(*arguments)

        return call


@pytest.fixture
def tiny_cache(monkeypatch):
    monkeypatch.setattr(_blocks, "cache_size", lambda: 3)


@pytest.fixture
def seen(tiny_cache, monkeypatch):
    """Yield an encoding of 256 columns, and a function that returns the kind of stores of a call of the encoding.

    Blocks have 4000 values, so that the calls have several blocks.
    """
    monkeypatch.setattr(_blocks, "BLOCK", 4000)
    monkeypatch.setattr(_blocks, "WORTH_A_THREAD", 1)
    encoding, stores = pf.sinusoidal(256), []
    plans = type(encoding._plans)
    plan, lattice = plans.plan, plans.lattice

    def stores_of(call):
        del stores[:]
        call()
        assert len(stores) > 1
        (kind,) = set(stores)
        return kind

    with pf.use_backend("cython"):
        engine = _backend.current()
        lattices = {wide: lattice(encoding._plans, engine, wide) for wide in (False, True)}

        def recorded(made, twin):
            return Recorder(made[0], twin, stores), made[1]

        monkeypatch.setattr(plans, "lattice", lambda _, __, wide: recorded(lattices[wide], _python.Lattice))
        monkeypatch.setattr(plans, "plan", lambda *given: recorded(plan(*given), _python.Plan))
        yield encoding, stores_of


@linux
def test_stores_of_tables(seen):
    encoding, stores_of = seen
    out = written(100, 256)
    assert stores_of(lambda: encoding.table(100, out=out, workers=-1)) == PAST
    np.testing.assert_array_equal(out, encoding.table(100))
    assert "cleared" in stores_of(lambda: encoding.table(100, workers=-1))


def test_stores_of_sums(seen):
    encoding, stores_of = seen
    x, total = np.zeros((2, 100, 256), np.float32), np.ones((2, 100, 256), np.float32)
    assert stores_of(lambda: encoding.add_to(x, out=total, workers=-1)) == PAST
    np.testing.assert_array_equal(total[1], encoding.table(100))
    assert "the result is x" in stores_of(lambda: encoding.add_to(x, out=x, workers=-1))
    np.testing.assert_array_equal(x, total)


@linux
def test_stores_of_rows_of_any_positions(seen):
    encoding, stores_of = seen
    out, positions = written(100, 256, np.float64), np.random.default_rng(0).uniform(0, 1e6, 100)
    assert stores_of(lambda: encoding.encode(positions, out=out, workers=-1)) == PAST
    assert stores_of(lambda: encoding.table(100, step=3, out=out, workers=-1)) == PAST
    assert "cleared" in stores_of(lambda: encoding.encode(positions, dtype=np.float64, workers=-1))
    assert "longer to compute" in stores_of(lambda: encoding.encode(positions, workers=-1))


@linux
@pytest.mark.usefixtures("tiny_cache")
def test_stores_of_grids():
    encoding = pf.join([pf.sinusoidal(128), pf.sinusoidal(128)])
    mixed = pf.join([pf.fourier_features(np.ones((64, 2))), pf.sinusoidal(128)], axes=[(0, 1), 1])
    merging, out = Recorder(_backend.kernel, _python, []), np.ones((5, 7, 256), np.float32)
    with pf.use_backend("cython"):
        expected = pf.grid([5, 7], encoding)
        _backend._chosen.set(_backend.current()._replace(module=merging))
        np.testing.assert_array_equal(pf.grid([5, 7], encoding, out=out), expected)
        assert merging.stores.pop() == PAST
        pf.grid([5, 7], encoding)
        assert "cleared" in merging.stores.pop()
        # columns that depend on both axes are written after the merge, so the merged array should stay in the cache
        pf.grid([5, 7], mixed, out=out)
        assert "may still be there" in merging.stores.pop()
    assert not merging.stores


@pytest.mark.usefixtures("tiny_cache")
@pytest.mark.parametrize("workers", [1, 2])
def test_stores_of_rotary(workers, monkeypatch, rng):
    monkeypatch.setattr(_rotator, "WORTH_THREADS", 1)
    rotary, rotating = pf.Rotary(128), Recorder(_backend.kernel, _python, [])
    x = rng.standard_normal((3, 50, 128), np.float32)
    out = np.ones_like(x)
    with pf.use_backend("cython"):
        rotated = rotary.apply(x)
        _backend._chosen.set(_backend.current()._replace(module=rotating))
        rotary.apply(x, out=out, workers=workers)
        np.testing.assert_array_equal(out, rotated)
        assert "may still" not in " ".join(rotating.stores)
        del rotating.stores[:]
        rotary.apply(x, out=x, workers=workers)
        np.testing.assert_array_equal(x, rotated)
        assert all("may still be there" in each for each in rotating.stores)
        assert rotating.stores


@linux
@pytest.mark.parametrize("level", range(len(pf.isa_levels())), ids=pf.isa_levels())
@pytest.mark.parametrize("way", ["through the cache", PAST])
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


# (dtype, width, values between rows, rows). The rows of the last six cases are whole cache lines.
PLACES = [
    (kind, width, around, 9)
    for kind in ("float64", "float32", "float16", "bfloat16")
    for width, around in ((256, 0), (256, 5), (515, 5))
]
PLACES += [("float32", width, around, 350) for width in (16, 64, 528) for around in (0, 16)]


@linux
@levels
@pytest.mark.parametrize(("kind", "width", "around", "rows"), PLACES)
def test_the_values_do_not_depend_on_stores(level, kind, width, around, rows):
    """Both kinds of stores write the same values to rows at any offset in a cache line, and nothing around them."""
    number, stored = _backend.kernel.KINDS[kind], {"float64": np.float64, "float32": np.float32}.get(kind, np.uint16)
    encoding, positions = pf.sinusoidal(width), np.random.default_rng(1).uniform(-1e6, 1e6, (rows, 1))
    positions[3] = np.nan
    with pf.use_backend("cython", isa=level):
        engine = _backend.current()
        plan, _ = encoding._plans.plan(engine, "real")
        lattice, _ = encoding._plans.lattice(engine, kind == "float64")
        spans, offsets = np.arange(rows, dtype=np.int64), np.arange(rows, dtype=np.int32) % 9 * 7
        ways = {
            "encode": lambda out, way: plan.encode(engine.level, positions, out, number, False, way),
            "rows": lambda out, way: lattice.rows(engine.level, spans, offsets, out, number, way),
            "table": lambda out, way: lattice.table(engine.level, 0, 60, out, number, way),
        }
        size = rows * (width + around)
        for (name, fill), first in itertools.product(ways.items(), range(64 // np.dtype(stored).itemsize)):
            made = []
            for way in (0, _backend.kernel.STORES.index(PAST)):
                whole = np.full(size + 128, 7, stored)
                begin = -whole.ctypes.data % 64 // whole.itemsize + first
                fill(whole[begin : begin + size].reshape(rows, -1)[:, :width], way)
                made.append(whole[begin - first :][: first + size + 16].tobytes())
            assert made[0] == made[1], (name, first)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_rows_are_prefetched_by_the_sizes_of_caches(tmp_path):
    """The sizes of caches decide how large an x must be to be prefetched."""
    # KiB of the second-level cache, KiB of the last-level cache, and bytes of the smallest x that is prefetched
    cases = [(2048, 260 * 1024, 2 * MIB + 1), (1024, 32 * 1024, 16 * MIB), (1024, 8 * 1024, 4 * MIB)]
    cases += [(1024, 0, sys.maxsize), (512, 32 * 1024, sys.maxsize)]
    program = tmp_path / "rule.c"
    calls = "".join(f'printf("%td ", posenc_prefetch_from({s} << 10, {last} << 10));' for s, last, _ in cases)
    program.write_text(f'#include "tuning.h"\n#include <stdio.h>\nint main(void) {{ {calls} return 0; }}\n')
    subprocess.run(["cc", f"-I{checkout() / 'src'}", "-o", tmp_path / "rule", program], check=True)
    found = subprocess.run([tmp_path / "rule"], capture_output=True, text=True, check=True).stdout.split()
    assert [int(n) for n in found] == [least for _, _, least in cases]


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


def test_one_missing_fence_is_found(listing):
    functions = re.findall(r"^[0-9a-f]+ <.*>:\n(?:.+\n)*", listing, re.MULTILINE)
    function = next(function for function in functions if "\tsfence" in function)
    found = open_ends(listing.replace(function, re.sub(r"\tsfence.*", "\tnop", function)))[1]
    assert found == {re.match(r"\w+ <(.*)>:", function)[1]}
