"""Test the choice of an engine, threads, forks, compiled instructions, and that engines have the same signatures."""

from __future__ import annotations

import ast
import contextvars
import inspect
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.engine import backend as _backend
from posenc_fast._core.engine import python as numpy_engine
from posenc_fast._core.numbers.formats import FORMATS
from support.engines import ENGINES
from support.errors import raises, wrong_calls
from support.processes import python

needs_kernel = pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel")


# ---- choice -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    os.environ.get("POSENC_FAST_REQUIRE_EXT", "0") in ("", "0"), reason="POSENC_FAST_REQUIRE_EXT is not set"
)
def test_the_required_kernel_is_built():
    assert pf.isa_levels(), _backend.reason
    result = python("import posenc_fast as pf; print(pf.backend())")
    assert (result.stdout.strip(), result.stderr) == ("cython", "")


def test_levels_from_slowest_to_fastest():
    order = ("baseline", "avx2", "avx512", "neon")
    levels = pf.isa_levels()
    assert list(levels) == sorted(set(levels), key=order.index)
    if levels:
        with pf.use_backend("cython"):
            assert pf.isa() == levels[-1]


def test_nested_choices_end_with_their_blocks():
    outside = pf.backend(), pf.isa()
    for one in ENGINES:
        for two in ENGINES:
            with pf.use_backend(*one):
                assert (pf.backend(), pf.isa()) == one
                with pf.use_backend(*two):
                    assert (pf.backend(), pf.isa()) == two
                assert (pf.backend(), pf.isa()) == one
                with pytest.raises(KeyError), pf.use_backend(*two):
                    raise KeyError
                assert (pf.backend(), pf.isa()) == one
    assert (pf.backend(), pf.isa()) == outside


def test_other_threads_and_contexts_are_not_affected():
    outside, context = pf.backend(), contextvars.copy_context()
    with pf.use_backend("python"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(pf.backend).result() == outside
        assert context.run(pf.backend) == outside
        assert pool.submit(contextvars.copy_context().run, pf.backend).result() == "python"


# a level of other processors
OTHER = "avx2" if "neon" in pf.isa_levels() else "neon"


@wrong_calls(f"""
    pf.use_backend("rust") | ValueError | 'rust'
    pf.use_backend(None) | ValueError | None
    pf.use_backend("python", "avx2") | ValueError | 'avx2'
    pf.use_backend("cython", "sse9") | ValueError | isa must be one of; 'sse9'
    pf.use_backend("cython", 5) | ValueError | isa must be one of; 5
    pf.use_backend("cython", OTHER) | RuntimeError | {f"'{OTHER}'" if pf.isa_levels() else "the cython backend is"}; unavailable
""")
def test_unavailable_choices(call, error, words):
    outside = pf.backend()
    raises(lambda: call().__enter__(), error, words)
    assert pf.backend() == outside


# ---- the environment --------------------------------------------------------------------------------------------


def default_engine(monkeypatch, **variables):
    """Choose the default engine anew, with the variables POSENC_FAST_BACKEND and POSENC_FAST_ISA (default: empty)."""
    for name in ("BACKEND", "ISA"):
        monkeypatch.setenv(f"POSENC_FAST_{name}", variables.get(name, ""))
    monkeypatch.setattr(_backend, "_default", None)
    return pf.backend(), pf.isa()


@pytest.mark.parametrize("name", ["", "auto", "cython"])
@needs_kernel
def test_variables_choose_the_engine(name, monkeypatch):
    assert default_engine(monkeypatch, BACKEND=name) == ("cython", pf.isa_levels()[-1])
    for isa in pf.isa_levels():
        assert default_engine(monkeypatch, BACKEND=name, ISA=isa) == ("cython", isa)


@pytest.mark.parametrize(("variables", "because"), [
    ({"BACKEND": "rust"}, "POSENC_FAST_BACKEND: .* one of.*'auto', 'cython', 'python', not 'rust'"),
    ({"ISA": "sse9"}, "POSENC_FAST_ISA.*'sse9'"),
    ({"BACKEND": "python", "ISA": "avx2"}, "POSENC_FAST_ISA: .*unset POSENC_FAST_ISA.*'avx2'"),
])  # fmt: skip
def test_unavailable_choices_of_variables(variables, because, monkeypatch):
    with pytest.raises(ValueError, match=f"^{because}"):
        default_engine(monkeypatch, **variables)
    # a block does not need the variables
    with pf.use_backend("python"):
        assert pf.backend() == "python"


# ---- without the kernel -----------------------------------------------------------------------------------------


def test_fallback_warns_once_and_gives_the_same_values(tmp_path):
    call = "pf.positional_encoding(50, 8, dtype=np.float64)"
    code = f"""if True:
        import sys; sys.modules['posenc_fast._kernel'] = None
        import numpy as np, posenc_fast as pf
        for _ in range(3):
            np.save({str(tmp_path / "table.npy")!r}, {call})
        print(pf.backend(), pf.isa(), pf.isa_levels())
    """
    result = python(code, flags=["-W", "always"])
    assert result.stdout.strip() == "python None ()", result.stderr
    assert result.stderr.count("RuntimeWarning") == 1
    assert re.search(r"pure Python.*posenc_fast\._kernel", result.stderr)
    np.testing.assert_allclose(np.load(tmp_path / "table.npy"), eval(call), rtol=0, atol=2**-52)


def test_only_python_can_be_chosen_without_the_kernel(monkeypatch):
    monkeypatch.setattr(_backend, "kernel", None)
    monkeypatch.setattr(_backend, "reason", "no module posenc_fast._kernel")
    for variables in ({"BACKEND": "cython"}, {"ISA": "baseline"}):
        with pytest.raises(RuntimeError, match=f"^POSENC_FAST_{next(iter(variables))}.*cython.*posenc_fast._kernel"):
            default_engine(monkeypatch, **variables)
    with pytest.raises(RuntimeError, match=r"^use_backend.*cython.*posenc_fast\._kernel"), pf.use_backend("cython"):
        pass
    # chosen Python does not warn
    assert default_engine(monkeypatch, BACKEND="python") == ("python", None)
    monkeypatch.setattr(_backend, "_default", None)
    monkeypatch.setenv("POSENC_FAST_BACKEND", "")
    with pf.use_backend("python"):
        assert pf.backend() == "python"


@needs_kernel
def test_a_level_that_was_not_built_warns(monkeypatch):
    slowest = pf.isa_levels()[0]
    monkeypatch.setattr(_backend, "kernel", SimpleNamespace(LEVELS=[slowest], MISSED=("avx9",)))
    with pytest.warns(RuntimeWarning, match=f"{slowest}.*avx9.*POSENC_FAST_ISA={slowest}") as caught:
        assert default_engine(monkeypatch) == ("cython", slowest)
    assert len(caught) == 1
    assert default_engine(monkeypatch, ISA=slowest) == ("cython", slowest)
    assert default_engine(monkeypatch, BACKEND="python") == ("python", None)


@needs_kernel
@pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux",
    reason="compares the levels with the CPU flags of x86-64 Linux",
)
def test_levels_are_what_the_cpu_has():
    assert _backend.kernel.MISSED == ()
    flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split())
    avx2 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe", "abm"} <= flags
    avx512 = avx2 and {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags
    assert pf.isa_levels() == ("baseline", *["avx2"] * avx2, *["avx512"] * avx512)


# ---- equal signatures of the engines ----------------------------------------------------------------------------


def parameters(function):
    """Return (name, default) of each parameter. Annotations are left out, because compiled functions have none."""
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


@needs_kernel
@pytest.mark.parametrize("name", ["Plan", "Lattice"])
def test_engines_have_the_same_methods(name):
    ours, theirs = getattr(numpy_engine, name), getattr(_backend.kernel, name)
    methods = {m for m in dir(ours) if not m.startswith("_") and callable(getattr(ours, m))}
    assert methods == {m for m in dir(theirs) if not m.startswith("_") and callable(getattr(theirs, m))}
    for method in methods:
        assert parameters(getattr(ours, method)) == parameters(getattr(theirs, method))
        assert getattr(theirs, method).__doc__
    tree = ast.parse((Path(pf.__file__).parent / "_kernel.pyi").read_text(encoding="utf-8"))
    (stub,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    for method in (node for node in stub.body if isinstance(node, ast.FunctionDef)):
        names = [argument.arg for argument in method.args.args]
        assert names == list(inspect.signature(getattr(ours, method.name)).parameters)


@needs_kernel
def test_engines_have_the_same_functions_and_numbers_of_formats():
    for name in ("merge", "rotate"):
        ours, theirs = getattr(numpy_engine, name), getattr(_backend.kernel, name)
        assert parameters(ours) == parameters(theirs)
        # getdoc removes the indentation, as Python 3.13 does when it compiles a docstring
        assert inspect.getdoc(ours) == inspect.getdoc(theirs)
    assert {each.name: each.kind for each in FORMATS} == _backend.kernel.KINDS


# ---- subnormals, forks and threads ------------------------------------------------------------------------------


def test_importing_does_not_flush_subnormals():
    code = """if True:
        from concurrent.futures import ThreadPoolExecutor
        import posenc_fast as pf
        pf.positional_encoding(3, 4)
        kept = lambda: pf.sinusoidal(2).frequencies[0] * float("5e-324") != 0
        print(kept(), ThreadPoolExecutor(1).submit(kept).result())
    """
    result = python(code)
    assert result.stdout.strip() == "True True", result.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_threads_in_a_child_process(method, tmp_path):
    code = f"""
        import multiprocessing, warnings
        import posenc_fast as pf

        def work(_=None):
            return pf.sinusoidal(256).table(4200, start=5, workers=2)[-1].tobytes()

        if __name__ == "__main__":
            warnings.simplefilter("ignore", DeprecationWarning)
            expected = work()
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                print([row == expected for row in pool.map_async(work, range(4)).get(timeout=45)], work() == expected)
    """
    script = tmp_path / "work.py"
    script.write_text(textwrap.dedent(code), encoding="utf-8")
    result = python(script)
    assert result.stdout == f"{[True] * 4} True\n", result.stderr


def test_many_threads_share_a_new_encoding(backend):
    frequencies, positions, barrier = np.linspace(0.01, 2, 40), np.arange(500) / 3, threading.Barrier(8)
    ready, choice = pf.Encoding(frequencies), (backend, pf.isa())
    table, rows = ready.table(1000), ready.encode(positions, dtype=np.float64)

    def work(fresh, start):
        barrier.wait()
        with pf.use_backend(*choice):
            np.testing.assert_array_equal(fresh.table(500, start=start), table[start : start + 500])
            np.testing.assert_array_equal(fresh.encode(positions, dtype=np.float64), rows)
            assert hash(fresh) == hash(ready)

    for _ in range(3):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, [pf.Encoding(frequencies)] * 8, range(0, 296, 37)))


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("disk full")

    encoding = pf.sinusoidal(256)
    with pf.use_backend("python"):
        monkeypatch.setattr(numpy_engine.Plan, "_encode", fail)
        with pytest.raises(OSError, match="disk full"):
            encoding.encode(np.arange(4200) / 2, workers=2)


def test_worker_threads_use_the_chosen_engine(monkeypatch):
    seen, both = set(), threading.Barrier(2)
    real = numpy_engine.Plan._encode

    def spy(self, *args, **kwargs):
        each = pf.backend(), threading.current_thread() is threading.main_thread()
        if each not in seen:
            seen.add(each)
            both.wait(timeout=60)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(numpy_engine.Plan, "_encode", spy)
    with pf.use_backend("python"):
        pf.sinusoidal(256).encode(np.arange(4200) / 2, workers=2)
    assert seen == {("python", False), ("python", True)}


# ---- vector code ------------------------------------------------------------------------------------------------


FILES = ("loops", "rotations", "grids")


@pytest.fixture(scope="module")
def code():
    """Return the disassembled instructions of the compiled kernel, by (source file, instruction-set level)."""
    if not {"avx2", "avx512"} <= set(pf.isa_levels()):
        pytest.skip("this build or machine does not have all x86-64 levels")
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed")
    command = ["objdump", "-d", "--no-show-raw-insn", str(_backend.kernel.__file__)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # in the listing, the loops of a file and level come before the exported function of that file and level
    parts = re.split(rf"<posenc_({'|'.join(FILES)})_(\w+)>:", listing)
    return {(file, isa): part for part, file, isa in zip(parts[0::3], parts[1::3], parts[2::3], strict=False)}


def count(code, instruction, register):
    return len(re.findall(rf"\t{instruction}\s.*%{register}", code))


@pytest.mark.parametrize(("isa", "register"), [("avx2", "ymm"), ("avx512", "zmm")])
def test_loops_are_vector_code(code, isa, register):
    # the limits are about a third of the counts with gcc 12. Without vectorization, the counts are almost 0.
    assert count(code["loops", isa], r"vfn?m\w+pd", register) > 50
    assert count(code["loops", isa], r"v\w+p[ds]", register) > 300
    assert count(code["rotations", isa], r"v(mul|add|sub)pd", register) > 150
    # the loops rotate 16-bit types in float32
    assert count(code["rotations", isa], r"v(mul|add|sub)ps", register) > 100
    assert count(code["rotations", isa], "vpminuw", register) > 0
    # compilers must not contract products and sums to FMA, which would change the bits
    assert not re.search(r"\tvfn?m", code["rotations", isa])
    assert count(code["rotations", isa], r"vcvt\w+", register) > 12
    # one loop uses ordinary stores, and the other uses stores that bypass the cache
    assert count(code["grids", isa], r"vp?or\w*", register) >= 2
    assert count(code["grids", isa], r"vmovntdq", register) > 0


def test_levels_use_only_their_registers(code):
    assert set(code) == {(file, isa) for file in FILES for isa in ("baseline", "avx2", "avx512")}
    for file in FILES:
        assert not re.search("%[yz]mm", code[file, "baseline"])
        assert "%zmm" not in code[file, "avx2"]
    assert count(code["loops", "baseline"], "(?:mul|add)pd", "xmm") > 100
