"""Run the code of README, of the pages in docs/ and of the examples, and check names and links of pages."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import runpy
import shutil

import numpy as np
import pytest

import posenc_fast as pf
from support.checkout import checkout
from support.optional import optional
from support.processes import python

pytestmark = pytest.mark.slow

ROOT = checkout(whole_file=True)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"(?<![\w:.-])-?\d+\.\d*")
# matches a number of bytes in an output. Tests ignore it, because it depends on the versions of packages.
BYTES = re.compile(r"\b\d+(?= bytes\b)")
DOCS = {path.stem: path.read_text("utf-8") for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]}
README = DOCS["README"]
# pages whose Python blocks run one after another. The blocks of howto-c are files, which its shell commands build.
PAGES = [page for page, text in DOCS.items() if BLOCK.search(text) and page not in ("README", "howto-c")]
# matches imports of optional packages: a test of code with such an import is skipped if the package is missing
PACKAGES = re.compile(
    r"^ *(?:import|from) (dask|jax|matplotlib|ml_dtypes|numba|pandas|polars|sklearn|torch|transformers|zarr)\b",
    re.MULTILINE,
)


def run(text, program, monkeypatch):
    """Write text to the file `program`, run the file, and return its global names. Skip if a package is missing."""
    for package in sorted(set(PACKAGES.findall(text))):
        optional(package)
    # let the program write files into its own folder, and draw pictures without opening windows
    monkeypatch.chdir(program.parent)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    program.write_text(text, "utf-8")
    # with more threads, the models that a page fits in parallel compete for the processors, and take minutes
    with optional("threadpoolctl").threadpool_limits(1) if "sklearn" in text else contextlib.nullcontext():
        names = runpy.run_path(str(program))
    if "matplotlib" in text:
        importlib.import_module("matplotlib.pyplot").close("all")
    return names


@pytest.fixture(scope="module")
def maker():
    return runpy.run_path(str(ROOT / "docs" / "make_outputs.py"))


@pytest.mark.parametrize("page", PAGES)
def test_page(page, maker, tmp_path, monkeypatch, capsys):
    run(maker["python_program"](DOCS[page]), tmp_path / f"{page}.py", monkeypatch)
    compare_outputs(maker, page, "python", capsys.readouterr().out)
    for block in BLOCK.findall(DOCS[page]):
        if "__main__" in block:
            # run it in a new interpreter, because it starts processes that import its file
            alone = tmp_path / "alone.py"
            alone.write_text(block, "utf-8")
            process = python(alone, flags=("-W", "error"), timeout=300)
            assert process.returncode == 0, process.stderr


def compare_outputs(maker, page, language, printed):
    """Compare the printed output of each block with the output that the page shows."""
    printed = list(maker["outputs"](printed))
    shown = [output for _, name, _, output in maker["BLOCK"].findall(DOCS[page]) if name == language]
    lacking = [output for output, text in zip(printed, shown, strict=True) if bool(output) != bool(text)]
    assert not lacking, f"{page} shows other outputs than its blocks print; run python docs/make_outputs.py {page}"
    for output, text in zip(printed, shown, strict=True):
        same_text(output, text)


def same_text(got, expected):
    """Assert that two texts have equal words and integers, and decimal fractions that differ by at most 0.5 %.

    Fractions may differ, because processors may round differently. Numbers of bytes are ignored.
    """
    got, expected = (BYTES.sub("#", text).split() for text in (got, expected))
    assert [NUMBER.sub("#", word) for word in got] == [NUMBER.sub("#", word) for word in expected]
    for one, other in zip(*(NUMBER.findall(" ".join(words)) for words in (got, expected)), strict=True):
        assert float(one) == pytest.approx(float(other), rel=0.005), (one, other)


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize(("page", "least"), [("README", 4), ("howto-check", 2), ("howto-shell", 4)])
def test_shell(page, least, maker, tmp_path, monkeypatch):
    """Run the shell commands of a page, and compare their output with the page."""
    if page == "howto-check":
        # create the folder that the commands check
        (make,) = (block for block in BLOCK.findall(DOCS[page]) if ".mkdir()" in block)
        run(make, tmp_path / "make.py", monkeypatch)
    program = maker["shell_program"](DOCS[page])
    assert len(re.findall("^[^$\n]*posenc-fast ", program, re.MULTILINE)) >= least
    for package, word in (("pyarrow", "parquet"), ("matplotlib", "plot")):
        if re.search(rf"^posenc-fast.*{word}", program, re.MULTILINE):
            optional(package)
    compare_outputs(maker, page, "sh", maker["run_shell"](program, tmp_path))


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel")
def test_page_of_c_builds_and_runs(maker, tmp_path):
    """The three programs of the page, in C, Cython and Numba, print the output that the page shows."""
    for package in ("Cython", "numba"):
        optional(package)
    if not shutil.which("cc"):
        pytest.skip("no C compiler is here")
    page = DOCS["howto-c"]
    blocks = re.findall(r"^```(?:c|cython|python)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    names = [re.match(r"(?:/\*|#) file: (\S+)", block)[1] for block in blocks]
    assert names == ["client.c", "client.pyx", "client_numba.py"]
    for name, block in zip(names, blocks, strict=True):
        (tmp_path / name).write_text(block, "utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert maker["run_shell"](f"set -e\n{commands}", tmp_path) == 3 * shown
    rows = [[float.fromhex(number) for number in line.split()] for line in shown.splitlines()]
    np.testing.assert_array_equal(rows, pf.sinusoidal(8).table(3, start=10**6))


@pytest.mark.parametrize("number", range(len(BLOCK.findall(README))))
def test_readme(number, maker, tmp_path, monkeypatch, capsys):
    # each block must run alone, because readers copy single blocks
    code = BLOCK.findall(README)[number]
    run(code, tmp_path / "readme.py", monkeypatch)
    (printed,) = maker["outputs"](f"{capsys.readouterr().out}{maker['END']}\n")
    (shown,) = (output for _, _, block, output in maker["BLOCK"].findall(README) if block == code)
    same_text(printed, shown)


@pytest.mark.parametrize("example", sorted(ROOT.glob("docs/examples/plot_*.py")), ids=lambda path: path.stem)
def test_example(example, tmp_path, monkeypatch):
    run(example.read_text("utf-8"), tmp_path / example.name, monkeypatch)


# ---- names on pages ----------------------------------------------------------------------------------------------


def test_planted_faults_have_their_place():
    run = python(ROOT / ".ci" / "mutants", "--check")
    assert run.returncode == 0, run.stderr


def test_reference_has_every_name():
    text = (ROOT / "docs" / "api.md").read_text("utf-8")
    listed = {}
    for part in text.split(".. currentmodule:: ")[1:]:
        listed.setdefault(part.split()[0], set()).update(re.findall(r"^   (\w+)$", part, re.MULTILINE))
    # keys: modules of posenc_fast that need another package. Values: these packages. api.md documents
    # posenc_fast.transformers as one module, without a list of names.
    packages = {name: name for name in pf.SUBMODULES if name != "transformers"} | {"plot": "matplotlib"}
    modules = [name for name, package in packages.items() if importlib.util.find_spec(package)]
    for module in ["posenc_fast", *(f"posenc_fast.{name}" for name in modules)]:
        names = set(importlib.import_module(module).__all__) - {"__version__", "presets", "reference"}
        assert names <= listed[module], f"docs/api.md lacks {sorted(names - listed[module])} of {module}"


def test_links_of_the_readme_lead_somewhere():
    """Files that README links to exist. Sphinx checks the links of the other pages."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README):
        assert (ROOT / target).exists(), target


def test_tests_named_on_pages_exist():
    files = [*ROOT.glob("tests/*/test_*.py"), *ROOT.glob("bench/test_*.py")]
    known = {name for file in files for name in (file.name, *re.findall(r"def (test_\w+)", file.read_text("utf-8")))}
    for path in (*ROOT.glob("docs/*.md"), ROOT / "bench" / "README.md"):
        named = set(re.findall(r"`(test_\w+(?:\.py)?)`", path.read_text("utf-8")))
        assert named <= known, f"{path.name} names {sorted(named - known)}"
