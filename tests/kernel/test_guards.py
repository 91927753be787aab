"""Test that debug builds check the arguments of the kernel's functions, and that usual builds contain no such checks.

These tests build the debug kernel in a separate folder, unless the installed build is a debug build. `.ci/sanitize` runs
other tests with a debug build, whose checks must accept the right arguments.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.engine import backend as _backend
from posenc_fast._core.numbers.formats import KINDS
from support.checkout import checkout

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel")]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """Return a kernel with guards, which are checks of arguments: the kernel of this build, or a new one."""
    if _backend.kernel.DEBUG:
        return _backend.kernel
    checkout()
    if importlib.util.find_spec("Cython") is None:
        pytest.skip("Cython is not installed")
    folder = tmp_path_factory.mktemp("debug")
    for name in ("src", "setup.py", "pyproject.toml", "README.md", "LICENSE", "posenc_fast"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.so"))
        else:
            shutil.copy(ROOT / name, folder / name)
    environment = os.environ | {"POSENC_FAST_DEBUG": "1", "POSENC_FAST_REQUIRE_EXT": "1"}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    built = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    (file,) = (f for f in (folder / "posenc_fast").glob("_kernel.*") if f.suffix in (".so", ".pyd"))
    spec = importlib.util.spec_from_file_location("guarded._kernel", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def engine(kernel, monkeypatch):
    monkeypatch.setattr(_backend, "kernel", kernel)
    with pf.use_backend("cython"):
        yield _backend.current()


def fresh(width=6):
    """Return an Encoding that is not cached. In a cached one, later tests would find plans of the debug kernel."""
    return pf.Encoding._of(pf.sinusoidal(width)._sinusoids)


def nothing(tokens, head_dim):
    """Return an item of the list `arrays` for `rotate_memory`, with 0 as the addresses of x and out."""
    return (1, 1, tokens, head_dim), 0, (0, 0, 0, 1), 0, (0, 0, 0, 1)


def calls(engine):
    """Return {case: (call with one wrong argument, name of this argument)}. The error must contain this name."""
    plan = fresh()._plans.plan(engine, "real")[0]
    lattice, _ = fresh()._plans.lattice(engine, False)
    ints = np.zeros(3, np.int64), np.zeros(3, np.int32)
    at, rows = np.zeros((3, 1)), np.zeros((3, 6), np.float32)
    x, angles = np.zeros((1, 1, 1, 3, 6), np.float32), np.zeros((1, 3, 6))
    bits = [np.zeros(shape, np.uint16) for shape in ((2, 6), (4, 6), (2, 4, 6))]
    frequencies, six = np.zeros((2, 1, 3)), np.arange(6, dtype=np.int32)
    runs, kernel = np.array([0, 6], np.int32), engine.module
    turns = fresh()
    turns.table(1), turns.table(1, dtype=np.float64)
    compiled = turns._plans.calls()
    return {
        "encode level": (lambda: plan.encode(9, at, rows, 1), "level"),
        "encode kind": (lambda: plan.encode(0, at, rows, 4), "kind"),
        "encode positions": (lambda: plan.encode(0, np.zeros((3, 2)), rows, 1), "positions"),
        "encode float32 positions": (lambda: plan.encode(0, at.astype("f4"), rows, 1), "positions"),
        "encode strided positions": (lambda: plan.encode(0, np.zeros((6, 1))[::2], rows, 1), "positions"),
        "encode rows": (lambda: plan.encode(0, at, rows[:2], 1), "out"),
        "encode width": (lambda: plan.encode(0, at, rows[:, :5], 1), "out"),
        "encode type": (lambda: plan.encode(0, at, rows, 0), "out"),
        "encode strides": (lambda: plan.encode(0, at, np.zeros((6, 3), "f4").T, 1), "out"),
        "encode x": (lambda: plan.encode(0, at, rows[np.newaxis], 1, x=np.zeros((2, 3, 6), "f4")), "x"),
        "table level": (lambda: lattice.table(9, 0, 0, rows, 1), "level"),
        "table offset": (lambda: lattice.table(0, 0, 1 << 20, rows, 1), "offset"),
        "table width": (lambda: lattice.table(0, 0, 0, rows[:, :5], 1), "out"),
        "rows number": (lambda: lattice.rows(0, *ints, rows[:2], 1), "out"),
        "rows offsets": (lambda: lattice.rows(0, ints[0], ints[1] - 1, rows, 1), "offsets"),
        "rows offsets number": (lambda: lattice.rows(0, ints[0], ints[1][:2], rows, 1), "offsets"),
        "merge level": (lambda: kernel.merge(9, *bits), "level"),
        "merge outer": (lambda: kernel.merge(0, bits[0][:1], bits[1], bits[2]), "outer"),
        "merge inner": (lambda: kernel.merge(0, bits[0], bits[1][:3], bits[2]), "inner"),
        "merge out": (lambda: kernel.merge(0, *bits[:2], bits[2][..., ::2]), "out"),
        "rotate level": (lambda: kernel.rotate(9, angles, x, x, 1, 0), "level"),
        "rotate layout": (lambda: kernel.rotate(0, angles, x, x, 1, 3), "layout"),
        "rotate angles": (lambda: kernel.rotate(0, angles[:, :2].copy(), x, x, 1, 0), "x"),
        "rotate out": (lambda: kernel.rotate(0, angles, x, x[..., :5], 1, 0), "out"),
        "rotate type of angles": (lambda: kernel.rotate(0, angles.astype("f4"), x, x, 1, 0), "angles"),
        "rotate_memory rows": (lambda: kernel.rotate_memory(0, angles, [nothing(4, 6)], 2, 1, 0), "angles"),
        "rotate_rows level": (lambda: kernel.rotate_rows(9, angles, x[0], 2, None, KINDS, np.empty, 6, 0), "level"),
        "calls number": (lambda: compiled.rotate_memory(0, [nothing(1, 6)] * 3, 2, 1, 0), "arrays"),
        "calls tokens": (lambda: compiled.rotate_memory(0, [nothing(1, 6), nothing(2, 6)], 2, 1, 0), "shape"),
        "calls heads": (lambda: compiled.rotate_memory(0, [nothing(1, 6), nothing(1, 8)], 2, 1, 0), "shape"),
        "calls axis": (lambda: compiled.rotate_memory(0, [nothing(1, 6)], 3, 1, 0), "axis"),
        "calls width": (lambda: compiled.rotate_memory(0, [nothing(1, 4)], 2, 1, 0), "shape"),
        "rotate width": (lambda: kernel.rotate(0, np.zeros((1, 3, 8)), x, x, 1, 0), "x"),
        "plan source": (lambda: kernel.Plan(frequencies, np.ones(1), six + 1, np.ones(6), runs, True), "source"),
        "plan largest": (lambda: kernel.Plan(frequencies, np.ones(2), six, np.ones(6), runs, True), "largest"),
        "plan amplitude": (lambda: kernel.Plan(frequencies, np.ones(1), six, np.ones(5), runs, True), "amplitude"),
        "plan runs": (lambda: kernel.Plan(frequencies, np.ones(1), six, np.ones(6), runs + 1, True), "runs"),
        "lattice axes": (lambda: kernel.Lattice(0, plan, six, np.ones(6), six, six, 2, 8, False), "plan"),
    }


def test_errors_name_the_wrong_argument(engine):
    assert engine.module.DEBUG
    said = {}
    for case, (call, _) in calls(engine).items():
        try:
            call()
        except AssertionError as error:
            said[case] = str(error)
    wanted = {case: f"kernel: {name} must" for case, (_, name) in calls(engine).items()}
    assert {case: said.get(case, "")[: len(words)] for case, words in wanted.items()} == wanted


def symbols(kernel):
    return subprocess.run(["nm", str(kernel.__file__)], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm is not installed")
def test_only_debug_builds_have_guards(kernel):
    """A usual build contains no guards: the compiler removes code behind a constant that is false."""
    assert "guards_require" in symbols(kernel)
    if kernel is not _backend.kernel:
        assert "__pyx_f" in symbols(_backend.kernel)
        assert "guards" not in symbols(_backend.kernel)
