"""Test that the package uses no network, and loads no compiled code but its own, NumPy's and Python's."""

from __future__ import annotations

import importlib.metadata
import re

import pytest

import posenc_fast as pf
from support.processes import python

CODE = """if True:
    import sys

    def watch(event, arguments):
        if event.startswith(("socket.", "urllib.", "http.", "ftplib.", "smtplib.")):
            raise RuntimeError(f"the program used the network: {event}")

    sys.addaudithook(watch)
    import importlib.machinery, os
    import numpy as np
    numpy_alone = set(sys.modules)
    import posenc_fast as pf
    from posenc_fast.__main__ import main

    encoding = pf.sinusoidal(8)
    encoding.table(20, workers=2)
    encoding.locate(encoding.shift(encoding.encode(0.5), 2))
    os.chdir(sys.argv[1])
    assert main(["table", "9", "4", "-o", "pe.npy"]) == main(["encode", "pe.csv", "--d-model", "4", "-o", "pe.npy"]) == 0
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    files = {n: getattr(sys.modules[n], "__file__", None) or "" for n in set(sys.modules) - numpy_alone}
    compiled = {n for n, file in files.items() if file.endswith(suffixes)}
    print(sorted(n for n in compiled if n.partition(".")[0] not in {"numpy", *sys.stdlib_module_names}))
"""


@pytest.mark.parametrize("name", ["cython", "python"])
def test_neither_network_nor_other_compiled_code(name, tmp_path):
    if name == "cython" and not pf.isa_levels():
        pytest.skip("this build has no compiled kernel")
    (tmp_path / "pe.csv").write_text("1\n2.5\n")
    result = python(CODE, tmp_path, POSENC_FAST_BACKEND=name)
    # the last line lists compiled modules: the kernel, which is loaded even if the Python backend is active
    assert result.stdout.splitlines()[-1] == str(["posenc_fast._kernel"] if pf.isa_levels() else []), result.stderr


# modules that take a millisecond or more to import. The usual calls do not need them. Errors, several workers, files,
# pictures, the command and some submodules do. The import of numpy.ma takes ten times as long as a first call.
LATE = """argparse asyncio base64 concurrent.futures csv ctypes dataclasses difflib html http json logging
    multiprocessing numpy.ma numpy.typing pathlib queue shutil signal socket statistics subprocess tempfile threading
    typing_extensions unittest urllib.parse zlib"""


def test_imports_and_first_calls_import_little():
    code = """if True:
        import sys
        import numpy
        numpy_alone = set(sys.modules)
        import posenc_fast as pf
        print(*sorted(set(sys.modules) - numpy_alone))
        encoding = pf.sinusoidal(8)
        encoding.encode(5.0), encoding.encode([1, 2.5, None]), encoding.table(3)
        pf.Rotary(8).apply(numpy.ones((1, 2, 3, 8), "f"))
        print(*sorted(set(sys.modules) - numpy_alone))
    """
    result = python(code)
    plain, after_calls = (set(line.split()) for line in result.stdout.splitlines())
    assert "posenc_fast._core.encoding.value" in plain, result.stderr
    # the NumPy engine must not be imported in addition to the kernel
    assert "posenc_fast._core.engine.python" not in plain
    own = {"_cli", "_models", "_selfcheck", "dask", "plot", "presets", "reference", "sklearn", "torch"}
    assert sorted(own & {name.split(".")[1] for name in plain if name.startswith("posenc_fast.")}) == []
    assert "posenc_fast._core.rotary.value" in after_calls
    assert sorted(after_calls & set(LATE.split())) == []


def test_late_imports():
    code = """if True:
        import posenc_fast as pf
        assert set(pf.__all__) <= set(dir(pf))
        for name in pf.__all__:
            assert getattr(pf, name) is vars(pf)[name], name
        from posenc_fast import *
        assert reference is pf.reference
    """
    result = python(code)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


@pytest.fixture
def metadata():
    try:
        return importlib.metadata.metadata("posenc-fast")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed here, only imported")


def test_numpy_is_the_only_requirement(metadata):
    required = metadata.get_all("Requires-Dist", [])
    assert [r.split(">")[0] for r in required if "extra ==" not in r] == ["numpy"]


def test_the_description_needs_no_other_file(metadata):
    """The description links only to web addresses, because a package index has no other files of the checkout."""
    text = metadata["Description"] or metadata.get_payload()
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert "import posenc_fast as pf" in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert "pip install -e" not in text
