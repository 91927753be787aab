"""Compile the loops of bare.c for this machine.

The times of the loops show how long the arithmetic and the stores of a table or of `encode` take, without the rest of a
call.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import Array, warm_at

__all__ = ["encode", "found", "table"]

# `table` computes this number of rows above each anchor row, and as many rows below it
HALF = 32
FLAGS = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]


def found() -> bool:
    """Return whether this is an x86-64 machine with the C compiler cc."""
    return shutil.which("cc") is not None and platform.machine() in ("x86_64", "AMD64")


@functools.cache
def _library() -> Any:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "bare.so"
        subprocess.run(["cc", *FLAGS, "-o", str(file), str(Path(__file__).with_suffix(".c"))], check=True)
        library = ctypes.CDLL(str(file))
    number, pointer = ctypes.c_ssize_t, ctypes.c_void_p
    library.bare_table.argtypes = [pointer, *[number] * 4, pointer, pointer, ctypes.c_int]
    library.bare_encode.argtypes = [pointer, number, number, *[pointer] * 3]
    library.bare_table.restype = library.bare_encode.restype = None
    return library


def table(out: Array, past: bool) -> Callable[[], None]:
    """Return a call that fills the array ``out`` by the arithmetic that a table needs.

    The inputs of the arithmetic are constants, so the values are not an encoding. The number of rows of ``out`` must
    be a multiple of 128. past: whether stores bypass the cache.
    """
    (rows, d), library = out.shape, _library()
    assert rows % (4 * HALF) == 0
    # stride: values from row to row, an odd number of cache lines, as in the kernel
    stride = ((d + 7) // 8 | 1) * 8
    anchors, offsets = (warm_at((count,), np.float64, 0) for count in (4 * d, 2 * HALF * stride))
    anchors[:], offsets[:] = 0.6, 0.8
    arguments = out.ctypes.data, rows, d, HALF, stride, anchors.ctypes.data, offsets.ctypes.data, int(past)

    def fill(_: tuple[Array, ...] = (out, anchors, offsets)) -> None:  # default arguments keep the memory alive
        library.bare_table(*arguments)

    return fill


def encode(positions: Array, frequencies: Array, out: Array) -> Callable[[], None]:
    """Return a call that writes sines and cosines of positions times frequencies to out, in float32.

    frequencies: in radians per unit of position, one double each. The kernel uses a sum of two doubles for each.
    """
    library, waves = _library(), len(frequencies)
    assert out.shape == (len(positions), 2 * waves)
    high, low = frequencies / (2 * np.pi), np.zeros(waves)
    arguments = out.ctypes.data, len(positions), waves, positions.ctypes.data, high.ctypes.data, low.ctypes.data

    def fill(_: tuple[Array, ...] = (positions, high, low, out)) -> None:
        library.bare_encode(*arguments)

    return fill
