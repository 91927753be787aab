"""Test that mypy and pyright accept the correct programs in tests/typed, and report each marked mistake there."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import runpy
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
import posenc_fast.typing
from support.optional import optional

pytestmark = pytest.mark.slow

HERE = Path(__file__).parents[1] / "typed"
ROOT = Path(pf.__file__).parents[1]


def by_mypy(files, folder):
    """Yield (file name, line, message) of each error that mypy reports."""
    optional("mypy")
    # mypy finds an installed package by the interpreter, and rejects its folder in MYPYPATH
    path = {} if "site-packages" in ROOT.parts else {"MYPYPATH": str(ROOT)}
    options = ["--strict", "--config-file=", "--cache-dir=cache", "--follow-imports=silent", "--output=json"]
    command = [sys.executable, "-m", "mypy", *options, *files]
    run = subprocess.run(command, cwd=folder, env=os.environ | path, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    for error in map(json.loads, run.stdout.splitlines()):
        if error["severity"] == "error":
            yield Path(error["file"]).name, error["line"], error["message"]


def by_pyright(files, folder):
    """Yield (file name, line, message) of each error that pyright reports."""
    optional("pyright")
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", folder]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = json.loads(run.stdout)
    assert found["summary"]["filesAnalyzed"] == len(files)
    for error in found["generalDiagnostics"]:
        if error["severity"] == "error":
            yield Path(error["file"]).name, error["range"]["start"]["line"] + 1, error["message"]


@pytest.fixture(scope="module", params=[by_mypy, by_pyright])
def said(request, tmp_path_factory):
    """Return a function from a file name to a type checker's messages, as {line: message}.

    One run checks all files, because torch makes each run slow.
    """
    has_torch = importlib.util.find_spec("torch") is not None
    files = [file for file in sorted(HERE.glob("*.py")) if has_torch or "torch" not in file.name]
    folder = tmp_path_factory.mktemp("checked")
    copies = [shutil.copy(file, folder) for file in files]
    found = list(request.param(copies, folder))
    return lambda name: {line: message for file, line, message in found if file == name}


@pytest.fixture(params=["", "torch_"], ids=["numpy", "torch"])
def prefix(request):
    """Return the prefix of file names: the empty text, or "torch_" for programs that use torch."""
    if request.param:
        optional("torch")
    return request.param


def test_right_and_wrong_programs(said, prefix):
    assert said(f"{prefix}right.py") == {}
    file = f"{prefix}mistakes.py"
    lines = (HERE / file).read_text("utf-8").splitlines()
    marked = {i for i, line in enumerate(lines, 1) if line.endswith("# mistake")}
    assert len(marked) >= 9
    found = said(file)
    assert set(found) == marked, {line: found.get(line, "missed") for line in set(found) ^ marked}


def asserted(value, expected):
    """Assert at run time that a value has the expected type, and an array the expected dtype.

    A replacement of `typing.assert_type`, which checks nothing at run time.
    """
    if typing.get_origin(expected) is tuple:
        for one, each in zip(value, typing.get_args(expected), strict=False):
            asserted(one, each)
    elif typing.get_origin(expected) is np.ndarray:
        (scalar,) = typing.get_args(typing.get_args(expected)[1])
        assert isinstance(value, np.ndarray | np.generic)
        assert scalar is typing.Any or value.dtype == scalar
    elif isinstance(expected, type):
        assert isinstance(value, expected)
    return value


def test_right_programs_run(prefix, monkeypatch):
    monkeypatch.setattr(typing, "assert_type", asserted)
    runpy.run_path(str(HERE / f"{prefix}right.py"))


def test_annotations_can_be_read_when_a_program_runs():
    for found in (getattr(pf, name) for name in pf.__all__):
        each = vars(found).values() if inspect.isclass(found) else [found]
        for function in filter(inspect.isfunction, each):
            typing.get_type_hints(function)


@pytest.mark.parametrize(
    ("name", "values", "call"),
    [
        ("Layout", "interleaved concatenated", lambda value: pf.sinusoidal(4, layout=value)),
        ("Function", "sin cos -sin -cos", lambda value: pf.fourier_features([1.0], functions=[value])),
        ("Odd", "crop zero error", lambda value: pf.sinusoidal(4, odd=value)),
        ("Precision", "exact float32", lambda value: pf.sinusoidal(4).table(2, precision=value)),
        ("Indexing", "ij xy", lambda value: pf.grid([2], pf.sinusoidal(4), indexing=value)),
        ("RotaryLayout", "half interleaved interleaved_to_half", lambda value: pf.Rotary(4, layout=value)),
    ],
)
def test_sets_are_those_that_are_checked(name, values, call):
    assert " ".join(typing.get_args(getattr(posenc_fast.typing, name))) == values
    for value in values.split():
        call(value)
    with pytest.raises(ValueError, match="must be one of"):
        call("other")
