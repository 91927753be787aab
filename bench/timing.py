"""Add to the package's own way of measuring: memory whose state is known, and calls made anew."""

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
# bytes: smaller new arrays are recycled memory
RECYCLED = 1 << 24
# of glibc's malloc.h
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def alternate_prepared(sides: Mapping[str, Callable[[Any], Any]], prepare: Callable[[], Any], runs: int) -> Times:
    """Do as `alternate`, for calls of what is made anew: a sample is one call, of what ``prepare`` returned."""
    times: Times = {name: np.empty(runs) for name in sides}
    with no_collection():
        for i in range(-1, runs):  # the first run, to be overwritten by the last, warms up
            for name, call in sides.items():
                times[name][i] = seconds(call, 1, prepare())
    return times


def memset(array: Array, byte: int = 0) -> Callable[[], Any]:
    """Return a call of libc's memset over the array's bytes."""
    assert array.flags.c_contiguous
    address, size = array.ctypes.data, array.nbytes

    def fill(_: Array = array) -> None:  # the default keeps the memory alive
        ctypes.memset(address, byte, size)

    return fill


def steady_malloc() -> None:
    """Let new arrays of less than 16 MiB be recycled memory, and larger ones come fresh from the system.

    So it is in a young process anyway; later glibc moves the border, and a ratio would depend on what ran before it.
    """
    libc = ctypes.CDLL(None) if os.name == "posix" else None
    if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim"):
        libc.mallopt(M_MMAP_THRESHOLD, RECYCLED)
        libc.mallopt(M_TRIM_THRESHOLD, 2 * RECYCLED)
        libc.malloc_trim(0)


def warm(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
    """Return memory that has been written before: its pages are there."""
    array = np.empty(shape, dtype)
    array.fill(1)
    return array


def warm_at(shape: tuple[int, ...], dtype: npt.DTypeLike, offset: int) -> Array:
    """Return the same, ``offset`` bytes behind the start of a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = warm((size + 128,), np.uint8)
    return np.ndarray(shape, dtype, room, -room.ctypes.data % 64 + offset)


def fresh(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> Array:
    """Return memory that nobody has touched: the first write of each page is a fault.

    With huge pages where they are to be had, as NumPy asks for.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    # private: shared pages are never huge
    pages = mmap.mmap(
        -1, max(size, 1), **({"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if os.name == "posix" else {})
    )
    if size >= 2 * HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype, math.prod(shape)).reshape(shape)
