"""Output arrays as the engines take them: written block by block, or added to another array in the same pass."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._numbers.arrays import Array
from .._numbers.formats import format_of
from . import threads as _threads
from .backend import CACHE_SIZE, kernel

__all__ = ["Target", "collapse", "one_thread"]


# output values: below, a thread costs more than it gives
WORTH_A_THREAD = 1 << 20
# output values in a block: small enough to answer an interrupt soon
BLOCK = 1 << 22


@functools.cache
def cache_size() -> int:
    """Bytes of the last-level cache that one core sees, 0 where unknown."""
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        # what a container or another kernel shows there is not to be relied on
        with contextlib.suppress(OSError, ValueError):
            text = file.read_text().strip()
            sizes.append(int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1:], 0))
    return max(sizes, default=CACHE_SIZE)


def one_thread(workers: Any, size: int) -> bool:
    """Whether a call of so many values takes one thread, as far as that is seen without a closer look at workers."""
    return workers is None or (type(workers) is int and workers > 0 and size < WORTH_A_THREAD)


def collapse(array: Array, dims: int) -> Array | None:
    """The array with its leading dimensions made one, so that ``dims`` are left, where that takes no copy."""
    if array.ndim == dims:
        return array
    if array.ndim < dims:
        return array[(np.newaxis,) * (dims - array.ndim)]
    shape = (-1, *array.shape[array.ndim - dims + 1 :])
    if array.size == 0:
        return np.empty((0, *shape[1:]), array.dtype)
    view = array.reshape(shape)
    return view if np.may_share_memory(view, array) else None


class Target:
    """out: (rows, d) to be filled, or (batch, rows, d) that takes scale * x + encoding.

    Arrays that the engines cannot take as they are (unaligned ones) go through a copy of each block.
    """

    def __init__(self, out: Array, *, x: Array | None = None, scale: float = 1.0, warm: bool = False) -> None:
        form = format_of(out.dtype)
        assert form is not None
        self.kind, self.scale = form.kind, scale
        self.out = out.view(form.stored)
        self.x = x if x is None else x.view(form.stored)
        self.rows, self.width = out.shape[-2:]
        self.warm = warm

    def stores(self, each: bool = False) -> int:
        """How the kernel is to write rows, or their sum with x: see src/tuning.h. each: rows are made one by one."""
        if kernel is None:
            return 0
        return int(kernel.stores(self.out, self.x, self.kind, cache_size(), self.warm, each))

    def some(self, out: Array, x: Array | None) -> Target:
        """The same for some rows, of which out and x are copies or views."""
        other = Target.__new__(Target)
        other.__dict__.update(self.__dict__)
        other.out, other.x, other.rows = out, x, out.shape[-2]
        return other

    def every(self, first: int, step: int) -> Target:
        """The rows first, first + step, .."""
        part = (..., slice(first, None, step), slice(None))
        return self.some(self.out[part], None if self.x is None else self.x[part])

    def run(self, task: Callable[[slice, Array, Array | None], Any], workers: int) -> None:
        """Call task(rows, out, x) for blocks of rows, in threads where that is worth it."""
        if self.out.size < WORTH_A_THREAD:
            workers = 1
            if self.out.flags.aligned and (self.x is None or self.x.flags.aligned):
                task(slice(0, self.rows), self.out, self.x)
                return
        rows = max(1, min(BLOCK * self.rows // self.out.size, -(-self.rows // workers)))
        # whole spans of a lattice, where there is room for them
        rows = rows // 4096 * 4096 or rows

        def block(part: slice) -> None:
            out = self.out[..., part, :]
            x = None if self.x is None else self.x[..., part, :]
            if x is not None and not x.flags.aligned:
                x = x.copy()
            if out.flags.aligned:
                task(part, out, x)
            else:
                copy = out.copy()
                task(part, copy, x)
                out[...] = copy

        parts = (slice(i, min(i + rows, self.rows)) for i in range(0, self.rows, rows))
        _threads.run(block, parts, workers)
