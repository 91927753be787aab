"""Memory between two pages without access, filled with a pattern, to detect accesses outside of an array.

An access to one of these pages ends the process (not on Windows). A write next to an array changes the pattern.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np

PATTERN = 0xA5
_NO_ACCESS = 0


class Arena:
    """``size`` bytes, rounded up to whole pages, between two pages that cannot be read or written."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        self.size = -(-size // page) * page
        self._map = mmap.mmap(-1, self.size + 2 * page)
        whole = np.frombuffer(self._map, np.uint8)
        if sys.platform != "win32":
            libc = ctypes.CDLL(None, use_errno=True)
            for begin in (0, page + self.size):
                if libc.mprotect(ctypes.c_void_p(whole.ctypes.data + begin), ctypes.c_size_t(page), _NO_ACCESS):
                    raise OSError(ctypes.get_errno(), "mprotect")
        self.bytes = whole[page : page + self.size]
        self._mine = np.zeros(self.size, np.bool_)

    def place(self, shape, dtype, *, strides=None, at_end=True, distance=0):
        """Return an array in this memory, and fill all of the memory with the pattern.

        If at_end is true, the array ends ``distance`` bytes before the page behind the memory. Otherwise it begins that
        many bytes after the page in front.
        """
        dtype = np.dtype(dtype)
        if strides is None:
            strides = tuple(dtype.itemsize * int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        before, after = -sum(s for s in steps if s < 0), sum(s for s in steps if s > 0) + dtype.itemsize
        if not all(shape):
            before = after = 0
        if before + after + distance > self.size:
            raise ValueError(f"{before + after + distance} bytes do not fit into {self.size}")
        offset = self.size - distance - after if at_end else before + distance
        self.bytes[:] = PATTERN
        self._mine[:] = False
        view = np.ndarray((*shape, dtype.itemsize), np.bool_, self._mine, offset, (*strides, 1))
        view[...] = True
        return np.ndarray(shape, dtype, self.bytes, offset, strides)

    def untouched(self) -> bool:
        """Return whether all bytes around the last placed array still have the pattern."""
        return bool((self.bytes[~self._mine] == PATTERN).all())
