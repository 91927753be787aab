"""Functions of `posenc_fast._selfcheck.timing`, with additions: warm and fresh memory, memset, prepared arguments."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from posenc_fast._selfcheck.timing import Ratio, Times, alternate, medians, no_collection, ratio, seconds

__all__ = ["Array", "Ratio", "Times", "alternate", "medians", "ratio"]

Array = npt.NDArray[Any]

HUGE_PAGE = 1 << 21
# after `steady_malloc`, new arrays below this number of bytes use recycled memory
RECYCLED = 1 << 24
# constants of glibc's malloc.h
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def alternate_prepared(sides: Mapping[str, Callable[[Any], Any]], prepare: Callable[[], Any], runs: int) -> Times:
    """Time like `alternate`, but pass a new result of ``prepare`` to each call. A sample is one call."""
    times: Times = {name: np.empty(runs) for name in sides}
    with no_collection():
        for i in range(-1, runs):  # run -1 warms up; the last run overwrites its times
            for name, call in sides.items():
                times[name][i] = seconds(call, 1, prepare())
    return times


def memset(array: Array, byte: int = 0) -> Callable[[], Any]:
    """Return a call of libc's memset over the array's bytes."""
    assert array.flags.c_contiguous
    address, size = array.ctypes.data, array.nbytes

    def fill(_: Array = array) -> None:  # default arguments keep the memory alive
        ctypes.memset(address, byte, size)

    return fill


def steady_malloc() -> None:
    """Make glibc recycle memory for arrays below 16 MiB, and get fresh memory for larger ones.

    Otherwise glibc adapts the limit to the arrays of earlier measurements, and times would depend on their order.
    """
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim"):
        libc.mallopt(M_MMAP_THRESHOLD, RECYCLED)
        libc.mallopt(M_TRIM_THRESHOLD, 2 * RECYCLED)
        libc.malloc_trim(0)


def warm(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
    """Return an array whose memory has been written, so that its pages are allocated."""
    array = np.empty(shape, dtype)
    array.fill(1)
    return array


def warm_at(shape: tuple[int, ...], dtype: npt.DTypeLike, offset: int) -> Array:
    """Return an array like `warm` that begins ``offset`` bytes after the start of a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = warm((size + 128,), np.uint8)
    return np.ndarray(shape, dtype, room, -room.ctypes.data % 64 + offset)


def fresh(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
    """Return an array in untouched memory, where the first write to each page causes a page fault.

    Like NumPy's arrays, an array of at least 4 MiB uses huge pages if the system offers them.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    # the mapping is private, because Linux by default does not make shared pages huge
    pages = mmap.mmap(
        -1, max(size, 1), **({"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {})
    )
    if size >= 2 * HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype, math.prod(shape)).reshape(shape)
