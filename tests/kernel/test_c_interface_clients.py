"""Compile programs with posenc_fast.h in C and C++, without warnings, and compare their results with Python's calls.

The programs must also name the reason if the package is too old, too new, or has no kernel.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

import posenc_fast as pf
from support.processes import python

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel"),
    pytest.mark.skipif(os.name != "posix", reason="needs a compiler with the options of gcc"),
]

SOURCE = Path(__file__).parents[1] / "c_client.c"
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-Wstrict-prototypes"]
LIMITED = ["-DPy_LIMITED_API=0x030B0000"]
# C and C++ clients, each with the full API of the interpreter and with the limited API
CLIENTS = {
    "C99": ["cc", "-std=c99", *WARNINGS],
    "C99, limited API": ["cc", "-std=c99", *WARNINGS, *LIMITED],
    "C++11": ["c++", "-x", "c++", "-std=c++11", *WARNINGS[:-1]],
    "C++11, limited API": ["c++", "-x", "c++", "-std=c++11", *WARNINGS[:-1], *LIMITED],
}


def compiled(folder, command):
    """Build the module c_client in a folder, and return the folder."""
    headers = Path(sysconfig.get_path("include"))
    if not shutil.which(command[0]) or not (headers / "Python.h").is_file():
        pytest.skip(f"{command[0]} or Python.h is not installed")
    if "-DPy_LIMITED_API=0x030B0000" in command and sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("no limited API without the GIL")
    target = folder / f"c_client{sysconfig.get_config_var('EXT_SUFFIX')}"
    # -isystem suppresses warnings from Python's own headers
    paths = [f"-I{pf.get_include()}", "-isystem", str(headers)]
    link = ["-undefined", "dynamic_lookup"] if sysconfig.get_platform().startswith("macosx") else []
    done = subprocess.run(
        [*command, "-O2", "-fPIC", "-shared", *link, *paths, str(SOURCE), "-o", str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Return a folder with the compiled module c_client."""
    return compiled(tmp_path_factory.mktemp("client"), CLIENTS["C99"])


def run(folder, code):
    """Return the output of code that can import c_client from a folder."""
    return python(f"import sys\nsys.path.insert(0, {str(folder)!r})\n" + code)


USE = """
import numpy as np
import posenc_fast as pf
import c_client

def address(array):
    return array.__array_interface__["data"][0]

encoding, start = pf.sinusoidal(64), 10**6
out = np.empty((5, 64), np.float32)
c_client.table(encoding, address(out), start, 5)
assert out.tobytes() == encoding.table(5, start=start).tobytes()
c_client.add(encoding, address(out), 7, 5)
assert out.tobytes() == encoding.add_to(encoding.table(5, start=start), start=7, x_scale=0.5).tobytes()
c_client.encode(encoding, address(out), start, 0)
assert out[:2].tobytes() == encoding.encode([start, start + 1]).tobytes()
rotary, x = pf.Rotary(64), np.linspace(-1, 1, 64, dtype=np.float32)
for at in (0, 1):
    turned = x.copy()
    c_client.rotate(rotary, address(turned), start, at)
    expected = rotary.apply(x[None], positions=[start]) if at else rotary.apply(x[None], start=start)
    assert turned.tobytes() == expected.tobytes()
several, periods = pf.join([encoding, encoding], axes=[0, 1]), pf.fourier_features(pf.periodic(["1D"]))
for value, place in ((encoding, 0), (several, address(out)), (periods, address(out))):
    try:
        c_client.table(value, place, 0, 1)
    except ValueError as error:
        print(error)
"""


@pytest.mark.parametrize("command", list(CLIENTS.values()), ids=list(CLIENTS))
def test_client(command, tmp_path):
    done = run(compiled(tmp_path, command), USE)
    assert done.returncode == 0, done.stderr
    assert (Path(pf.get_include()).parent / "c_api.pxd").is_file()
    null, axes, periods = done.stdout.splitlines()
    assert null == "a pointer is NULL"
    assert "several axes" in axes
    assert "periods" in periods


# a program that replaces the struct in the kernel's capsule by a struct of another version. The first members of the
# struct are the same in all versions.
OTHER = """
import ctypes
import posenc_fast
from posenc_fast import _kernel

class Start(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("size", ctypes.c_size_t)]

get, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
name = b"posenc_fast._kernel._C_API"
size = Start.from_address(get(_kernel._C_API, name)).size
memory = (ctypes.c_char * (size + 64)).from_buffer_copy(ctypes.string_at(get(_kernel._C_API, name), size) + bytes(64))
start = Start.from_buffer(memory)
assert (start.major, start.minor) == (1, 0)
{change}
_kernel._C_API = new(ctypes.addressof(memory), name, None)
import c_client
print("imported")
"""


# keys: what is wrong. Values: code that imports c_client, and words of the ImportError.
FAILURES = {
    "later major": (OTHER.format(change="start.major = 2"), "1.0 .* version 2.0. Compile the program again"),
    "earlier major": (OTHER.format(change="start.major = 0"), "1.0 .* version 0.0. Install a later version"),
    "shorter struct": (OTHER.format(change="start.size -= 8"), "1.0 .* version 1.0. Install a later version"),
    "capsule of another name": (OTHER.format(change="name = b'other'"), "1.0 .* has no C interface"),
    "no interface": (
        "from posenc_fast import _kernel\ndel _kernel._C_API\nimport c_client",
        "1.0 .* has no C interface. Install a later version",
    ),
    "no kernel": (
        "import warnings\nwarnings.simplefilter('ignore')\nsys.modules['posenc_fast._kernel'] = None\nimport c_client",
        "needs its compiled kernel, which is unavailable: .*None in sys.modules",
    ),
    "no package": ("sys.modules['posenc_fast'] = None\nimport c_client", "import of posenc_fast halted"),
}


def test_a_later_minor_version_is_imported(client):
    done = run(client, OTHER.format(change="start.minor, start.size = 1, size + 64"))
    assert done.stdout == "imported\n", done.stderr


@pytest.mark.parametrize(("code", "words"), list(FAILURES.values()), ids=list(FAILURES))
def test_failures(client, code, words):
    done = run(client, code)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert re.match(f"(ModuleNotFound|Import)Error: .*{words}", last), done.stderr
