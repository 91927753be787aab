"""Output arrays of the engines. Engines write rows block by block, and can add an input array x to them."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ..numbers.arrays import Array
from ..numbers.formats import FLOAT32, format_of
from . import threads as _threads
from .backend import CACHE_SIZE, kernel

# directory in which Linux describes the caches of a core
CACHES = "/sys/devices/system/cpu/cpu0/cache"
# minimum number of output values for a second thread
WORTH_A_THREAD = 1 << 20
# maximum number of output values in a block, so that an interrupt takes effect soon
BLOCK = 1 << 22


@functools.cache
def cache_size() -> int:
    """Return the size in bytes of the last-level cache of a core, or 0 if it is unknown."""
    sizes = []
    for name in os.listdir(CACHES) if os.path.isdir(CACHES) else ():
        # in containers and on systems that emulate Linux, files may be missing or contain something else
        with contextlib.suppress(OSError, ValueError), open(f"{CACHES}/{name}/size", "rb", buffering=0) as file:
            # The mode is binary, because creating a text decoder takes longer than reading the file.
            text = file.read().strip()
            sizes.append(int(text.rstrip(b"KM")) << {b"K": 10, b"M": 20}.get(text[-1:], 0))
    return max(sizes, default=CACHE_SIZE)


def one_thread(workers: Any, size: int) -> bool:
    """Return whether workers is valid, and a call for `size` values certainly uses one thread.

    If this is False, callers must check workers by `check_workers`.
    """
    return workers is None or (type(workers) is int and workers > 0 and size < WORTH_A_THREAD)


def collapse(array: Array, dims: int) -> Array | None:
    """Return a view with ``dims`` dimensions. Leading dimensions are merged, or added with length 1.

    Return None if merging needs a copy. If dimensions of an array without values are merged, the result is a new array.
    """
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
    """The array `out` to which engines write an encoding (rows, d), or scale * x + encoding (batch, rows, d).

    If warm, the memory of `out` existed before the call. The engines need aligned arrays, so blocks of unaligned arrays
    are copied.
    """

    __slots__ = ("kind", "out", "rows", "scale", "warm", "x")

    def __init__(self, out: Array, *, x: Array | None = None, scale: float = 1.0, warm: bool = False) -> None:
        form = format_of(out.dtype)
        assert form is not None
        if form.bits < FLOAT32.bits:
            out, x = out.view(form.stored), x if x is None else x.view(form.stored)
        self.out, self.x, self.scale, self.warm = out, x, scale, warm
        self.kind, self.rows = form.kind, out.shape[-2]

    def stores(self, each: bool = False) -> int:
        """Return an index in POSENC_STORES (src/tuning.h). It tells the kernel to write through the cache or past it.

        each is true if rows are computed one by one, not as rows of consecutive integers.
        """
        if kernel is None:
            return 0
        return int(kernel.stores(self.out, self.x, self.kind, cache_size(), self.warm, each))

    def part(self, rows: Any) -> Target:
        """Return a Target for some rows. A slice selects views of the arrays, and indices select copies."""
        block = Target.__new__(Target)
        block.kind, block.scale, block.warm = self.kind, self.scale, self.warm
        block.out = self.out[..., rows, :]
        block.x = None if self.x is None else self.x[..., rows, :]
        block.rows = block.out.shape[-2]
        return block

    def run(self, task: Callable[[slice, Target], Any], workers: int) -> None:
        """Call task(rows, block) for each block of rows. Large arrays use up to `workers` threads."""
        if self.out.size < WORTH_A_THREAD and self.out.flags.aligned and (self.x is None or self.x.flags.aligned):
            task(slice(0, self.rows), self)
            return
        workers = _threads.useful(workers, self.out.size, WORTH_A_THREAD)
        rows = max(1, min(BLOCK * self.rows // self.out.size, -(-self.rows // workers)))
        # Round large blocks down to a multiple of 4096 rows, the longest span of a lattice. Otherwise more spans would
        # lie in two blocks, and be evaluated twice.
        rows = rows // 4096 * 4096 or rows

        def aligned(part: slice) -> None:
            block = self.part(part)
            if block.x is not None and not block.x.flags.aligned:
                block.x = block.x.copy()
            out = block.out
            if not out.flags.aligned:
                block.out = out.copy()
            task(part, block)
            if block.out is not out:
                out[...] = block.out

        _threads.run(aligned, (slice(i, min(i + rows, self.rows)) for i in range(0, self.rows, rows)), workers)
