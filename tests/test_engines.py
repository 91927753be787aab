"""Choice of the backend, twins, threads, forks, and what importing must not do."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import _backend, reference

needs_kernel = pytest.mark.skipif(not pf.isa_levels(), reason="no compiled kernel in this build")


def run(code, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("POSENC_FAST")}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_compiled_where_it_must_be():
    if os.environ.get("POSENC_FAST_REQUIRE_EXT", "0") not in ("", "0"):
        assert "cython" in {_backend.select("cython").backend}
        assert pf.isa_levels()


def test_names(backend):
    assert pf.backend() == backend
    assert (pf.isa() in pf.isa_levels()) if backend == "cython" else (pf.isa() is None)


def test_nesting_and_other_threads():
    outside = pf.backend()
    seen = []
    with pf.use_backend("python"):
        thread = threading.Thread(target=lambda: seen.append(pf.backend()))
        thread.start()
        thread.join()
        assert pf.backend() == "python"
        if pf.isa_levels():
            with pf.use_backend("cython", pf.isa_levels()[0]):
                assert (pf.backend(), pf.isa()) == ("cython", pf.isa_levels()[0])
        assert pf.backend() == "python"
    assert seen == [outside]
    assert pf.backend() == outside


@needs_kernel
@pytest.mark.parametrize("name", ["python", "cython", "auto", ""])
def test_variable(name):
    result = run("import posenc_fast as pf; print(pf.backend())", POSENC_FAST_BACKEND=name)
    assert result.stdout.strip() == ("python" if name == "python" else "cython"), result.stderr
    assert not result.stderr


@needs_kernel
def test_isa_variable():
    for isa in pf.isa_levels():
        result = run("import posenc_fast as pf; print(pf.isa())", POSENC_FAST_ISA=isa)
        assert result.stdout.strip() == isa, result.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"POSENC_FAST_BACKEND": "rust"},
        {"POSENC_FAST_ISA": "sse9"},
        {"POSENC_FAST_BACKEND": "python", "POSENC_FAST_ISA": "avx2"},
    ],
    ids=str,
)
def test_variable_that_cannot_be_had(environment):
    result = run("import posenc_fast as pf; pf.positional_encoding(2, 2)", **environment)
    assert result.returncode == 1
    assert re.search(f"Error: POSENC_FAST.*{next(iter(set(environment.values()) - {'python'}))}", result.stderr), (
        result.stderr
    )


HIDE = "import sys; sys.modules['posenc_fast._kernel'] = None; import posenc_fast as pf; "


def test_fallback_warns_once_and_computes():
    code = (
        HIDE + "pf.positional_encoding(2, 2); print(pf.positional_encoding(2, 2)[1, 0], pf.backend(), pf.isa_levels())"
    )
    result = run(code)
    assert result.stdout.split() == ["0.84147096", "python", "()"]
    assert result.stderr.count("RuntimeWarning") == 1
    assert "pure Python" in result.stderr
    assert "_kernel" in result.stderr
    assert not run(code, POSENC_FAST_BACKEND="python").stderr


def test_forcing_a_missing_kernel():
    result = run(HIDE + "pf.positional_encoding(2, 2)", POSENC_FAST_BACKEND="cython")
    assert result.returncode == 1
    assert "RuntimeError: POSENC_FAST_BACKEND: the cython backend cannot be had" in result.stderr


@pytest.mark.parametrize("name", [n for n in reference.__all__ if hasattr(pf, n)])
def test_reference_has_the_same_names(name):
    ours, theirs = getattr(pf, name), getattr(reference, name)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert ours.__doc__ == theirs.__doc__


def test_reference_computes_in_python(monkeypatch):
    encoding = reference.sinusoidal(8)
    assert encoding._engine().backend == "python"
    assert encoding == pf.sinusoidal(8)
    np.testing.assert_array_equal(reference.positional_encoding(5, 8), encoding.table(5))


@needs_kernel
@pytest.mark.parametrize("name", ["Plan", "Lattice"])
def test_engines_are_twins(name):
    ours, theirs = getattr(reference, name), getattr(_backend.kernel, name)
    public = {m for m in dir(ours) if not m.startswith("_") and callable(getattr(ours, m))}
    assert public == {m for m in dir(theirs) if not m.startswith("_") and callable(getattr(theirs, m))}


def test_importing_does_not_flush_subnormals():
    code = (
        "import threading, posenc_fast as pf; pf.positional_encoding(3, 4); tiny = 5e-324; results = [tiny * 1.0]\n"
        "t = threading.Thread(target=lambda: results.append(tiny * 1.0)); t.start(); t.join(); print(results)"
    )
    assert run(code, POSENC_FAST_BACKEND="auto").stdout.strip() == "[5e-324, 5e-324]"


def test_threads_share_an_encoding(backend):
    encoding = pf.Encoding(np.arange(1.0, 40.0))
    expected = pf.Encoding(np.arange(1.0, 40.0)).table(2000)
    context = {"python": ("python", None), "cython": ("cython", pf.isa())}[backend]

    def work(i):
        with pf.use_backend(*context):
            return encoding.table(2000 - i, start=i)

    with ThreadPoolExecutor(8) as pool:
        for i, table in enumerate(pool.map(work, range(40))):
            np.testing.assert_array_equal(table, expected[i:])


def _child(queue):
    queue.put(pf.sinusoidal(64).table(40000, workers=2)[-1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_after_threads():
    expected = pf.sinusoidal(64).table(40000, workers=2)[-1]
    context = get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_child, args=(queue,))
    process.start()
    try:
        np.testing.assert_array_equal(queue.get(timeout=60), expected)
    finally:
        process.join(10)
        process.kill()


def test_loops_are_vector_code():
    if not {"avx2", "avx512"} <= set(pf.isa_levels()) or shutil.which("objdump") is None:
        pytest.skip("needs objdump and a machine with all levels")
    assert _backend.kernel is not None
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", _backend.kernel.__file__], capture_output=True, text=True, check=True
    ).stdout
    counts = {
        register: len(re.findall(rf"\s(?:vf[n]?m(?:add|sub)\w*pd|vmulpd|vaddpd)\s.*%{register}", listing))
        for register in ("ymm", "zmm")
    }
    # measured with gcc 12: about 1300 and 1200; scalar loops would leave next to none
    assert counts["ymm"] > 300, counts
    assert counts["zmm"] > 300, counts
