"""Measure first calls, small calls, and the time of calls against the number of rows."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import timing
import values
from timing import Array, Ratio, Times

import posenc_fast as pf

from . import Measured, Skipped, compare

# program of a new process, which prints the CPU time of a call. CPU time excludes the time that other programs and
# other virtual machines take.
FRESH = """
import time
import numpy
{before}
begin = time.thread_time()
{call}
print(time.thread_time() - begin)
"""


def in_fresh_processes(sides: Mapping[str, tuple[str, str]], runs: int) -> Times:
    """Return CPU times of calls. Each call runs in a new process.

    sides: {name: (code that runs before the call and is not timed, call)}.
    """
    times: Times = {name: np.empty(runs) for name in sides}
    # the new process imports the same package and compiled modules as this process
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for i in range(-1, runs):  # in run -1, Python compiles imported files; the last run overwrites its times
        for name, (before, call) in sides.items():
            code = FRESH.format(before=before, call=call)
            run = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True)
            times[name][i] = float(run.stdout)
    return times


def first_use(call: str, runs: int) -> Measured:
    """Compare a call of the package with a table by NumPy, each as the first call of a process after the imports."""
    imports = "import posenc_fast as pf\nfrom posenc_fast.reference import vaswani_numpy"
    sides = {call: (imports, call), "128 rows by NumPy": (imports, "vaswani_numpy(128, 512)")}
    return compare(in_fresh_processes(sides, runs), *sides, 1)


def importing(runs: int) -> Measured:
    """Measure the import of the package after NumPy's import. `Measured.ratio` contains milliseconds of CPU time."""
    sides = {"import posenc_fast": ("", "import posenc_fast")}
    (times,) = in_fresh_processes(sides, runs).values()
    milli = np.percentile(times * 1e3, [50, 25, 75])
    return Measured(Ratio(*milli.tolist()), {name: float(np.median(times)) * 1e9 for name in sides}, 1)


def fixed_cost(runs: int) -> Measured:
    """Compare `encode` of one row of two values with np.sin of two values, and also time other small calls.

    These times consist mainly of the fixed cost of a call.
    """
    encoding, x, two, row = pf.sinusoidal(2), np.zeros((1, 2), np.float32), np.ones(2), np.empty((1, 2), np.float32)
    position = np.array([5.0])
    sides: dict[str, Callable[[], Any]] = {
        "encode(5.0)": lambda: encoding.encode(5.0),
        "np.sin of two values": lambda: np.sin(two),
        "table(1)": lambda: encoding.table(1),
        "table(1, out=)": lambda: encoding.table(1, out=row),
        "encode of an array, out=": lambda: encoding.encode(position, out=row),
        "add_to(x, out=x)": lambda: encoding.add_to(x, out=x),
        "sinusoidal(2), again": lambda: pf.sinusoidal(2),
    }
    times = timing.alternate(sides, 10 * runs)
    values.check_rows(encoding.encode(5.0), encoding, np.array(5.0))
    return compare(times, "encode(5.0)", "np.sin of two values", 1)


def c_call(runs: int) -> Measured:
    """Measure a call of the C interface that computes two values. `Measured.ratio` contains microseconds."""
    headers, calls = sysconfig.get_path("include"), 1000
    if not pf.isa_levels() or shutil.which("cc") is None or not Path(headers, "Python.h").is_file():
        raise Skipped("needs the compiled kernel, the C compiler cc and the header Python.h")
    from posenc_fast import _kernel

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "calls.so"
        include = [f"-I{pf.get_include()}", f"-I{headers}"]
        source = Path(__file__).parents[1] / "calls.c"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", *include, str(source), "-o", str(file)], check=True)
        library = ctypes.CDLL(str(file))
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = pf.sinusoidal(2).__posenc_encoding__()
    library.posenc_calls.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t]
    api = pointer_of(_kernel._C_API, b"posenc_fast._kernel._C_API")
    arguments = api, pointer_of(capsule, b"posenc_fast_encoding"), calls
    assert library.posenc_calls(*arguments) == 0
    name = f"{calls} calls from C"
    times = timing.alternate({name: lambda: library.posenc_calls(*arguments)}, 10 * runs)[name]
    micro = np.percentile(times / calls * 1e6, [50, 25, 75])
    return Measured(Ratio(*micro.tolist()), {name: float(np.median(times)) * 1e9}, 1)


def in_blocks(write: Callable[[Array, int], Any], block: Array, rows: int) -> None:
    """Write rows block by block into the memory of one block, because memory for all rows could be too large."""
    for first in range(0, rows, len(block)):
        write(block[: rows - first], first)


def linear(write_of: Callable[[pf.Encoding], Callable[[Array, int], Any]], most: int, runs: int) -> Measured:
    """Measure nanoseconds per element for 1e3, 1e4, .., ``most`` rows. The ratio is longest time / shortest time."""
    encoding, width = pf.sinusoidal(128), 128
    write, block = write_of(encoding), timing.warm((1 << 20, width))
    lengths = [10**n for n in range(3, round(math.log10(most)) + 1)]
    sides = {f"{rows:.0e} rows": partial(in_blocks, write, block, rows) for rows in lengths}
    medians = timing.medians(timing.alternate(sides, runs))
    each = {name: medians[name] / rows / width * 1e9 for name, rows in zip(sides, lengths, strict=True)}
    write(block[:1000], 0)
    values.check_rows(block[:1000], encoding, np.arange(1000))
    spread = max(each.values()) / min(each.values())
    return Measured(Ratio(spread, spread, spread), each, width)


def table_blocks(encoding: pf.Encoding) -> Callable[[Array, int], Any]:
    return lambda out, first: encoding.table(len(out), start=first, out=out)


def encode_blocks(encoding: pf.Encoding) -> Callable[[Array, int], Any]:
    positions = np.arange(1 << 20, dtype=np.float64)
    return lambda out, first: encoding.encode(positions[: len(out)], out=out)
