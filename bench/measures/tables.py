"""Measure tables and grids, written into existing memory, new arrays or a file."""

from __future__ import annotations

import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import bare
import numpy as np
import peers
import timing
import values
from timing import Array

import posenc_fast as pf
from posenc_fast.reference import vaswani_numpy

from . import Measured, Skipped, compare

HUGE = (131072, 512)


def table_and_memset(shape: tuple[int, int], dtype: Any, runs: int) -> Measured:
    """Compare a table with memset of the same buffer, whose pages are already allocated.

    Also measure memset with bytes 255, which is slower than memset of zeros on some processors.
    """
    encoding, out = pf.sinusoidal(shape[1]), timing.warm(shape, dtype)
    sides = {
        "table": lambda: encoding.table(shape[0], dtype=dtype, out=out),
        "memset": timing.memset(out),
        "memset of ones": timing.memset(out, 255),
    }
    times = timing.alternate(sides, runs)
    sides["table"]()
    values.check_table(out, encoding)
    return compare(times, "table", "memset", out.size)


def table_and_bare(shape: tuple[int, int], offset: int, runs: int) -> Measured:
    """Compare a table with the loop of bare.c, by ordinary stores or stores past the cache, whichever is faster.

    offset: number of bytes from the start of a cache line to ``out``.
    """
    if not bare.found():
        raise Skipped("needs an x86-64 machine with the C compiler cc")
    encoding, out = pf.sinusoidal(shape[1]), timing.warm_at(shape, np.float32, offset)
    sides = {
        "table": lambda: encoding.table(shape[0], out=out),
        "bare": bare.table(out, past=False),
        "bare, past the cache": bare.table(out, past=True),
    }
    times = timing.alternate(sides, runs)
    sides["table"]()
    values.check_table(out, encoding)
    medians = timing.medians(times)
    return compare(times, "table", min("bare", "bare, past the cache", key=medians.__getitem__), out.size)


def types(narrow: str, shape: tuple[int, int], runs: int) -> Measured:
    if narrow == "bfloat16" and not peers.found("ml_dtypes"):
        raise Skipped("ml_dtypes is not installed")
    encoding = pf.sinusoidal(shape[1])
    outs = {name: timing.warm(shape, values.dtype_of(name)) for name in (narrow, "float32")}
    sides = {name: partial(encoding.table, shape[0], dtype=out.dtype, out=out) for name, out in outs.items()}
    times = timing.alternate(sides, runs)
    for out in outs.values():
        values.check_table(out, encoding)
    return compare(times, *outs, math.prod(shape))


def grid_and_copy(lengths: tuple[int, int], width: int, runs: int) -> Measured:
    encoding, out = pf.join([pf.sinusoidal(width // 2)] * 2), timing.warm((*lengths, width))
    ready = pf.grid(lengths, encoding)
    sides = {"grid": partial(pf.grid, lengths, encoding, out=out), "copy": partial(np.copyto, out, ready)}
    times = timing.alternate(sides, runs)
    out.fill(0)
    sides["grid"]()
    for row in (0, lengths[0] // 2, lengths[0] - 1):
        points = np.stack([np.full(lengths[1], row), np.arange(lengths[1])], axis=-1)
        values.check_rows(out[row], encoding, points)
    return compare(times, "grid", "copy", out.size)


def tutorial(shape: tuple[int, int], warm: bool, runs: int) -> Measured:
    encoding, out = pf.sinusoidal(shape[1]), timing.warm(shape) if warm else None
    sides = {"tutorial": lambda: vaswani_numpy(*shape), "table": lambda: encoding.table(shape[0], out=out)}
    times = timing.alternate(sides, runs)
    values.check_table(sides["table"](), encoding)
    values.check_near(sides["tutorial"](), encoding, 1e-9)
    return compare(times, "tutorial", "table", math.prod(shape))


def fastest_peer(shape: tuple[int, int], layout: str, runs: int) -> Measured:
    """Compare a table with all peers that support the layout. The ratio is fastest peer / table."""
    length, width = shape
    columns = "interleaved" if layout == "one sine" else layout
    encoding = pf.sinusoidal(width, layout=columns)
    others = peers.calls(length, width, layout)
    for call in others.values():
        values.check_near(call(), encoding, values.single_tolerance(length))
    times = timing.alternate({"table": lambda: encoding.table(length), **others}, runs)
    values.check_table(encoding.table(length), encoding)
    fastest = min(others, key=lambda name: timing.ratio(times, name, "table").median)
    return compare(times, fastest, "table", math.prod(shape))


def fresh_table(shape: tuple[int, int], runs: int) -> Measured:
    """Compare a table with memset, both in untouched memory, where allocation of pages takes much of the time."""
    encoding = pf.sinusoidal(shape[1])
    sides = {
        "table, fresh memory": lambda out: encoding.table(shape[0], out=out),
        "memset, fresh memory": lambda out: timing.memset(out)(),
    }
    times = timing.alternate_prepared(sides, partial(timing.fresh, shape), runs)
    values.check_table(encoding.table(shape[0], out=timing.fresh(shape)), encoding)
    return compare(times, *sides, math.prod(shape))


def levels(first: str, second: str, offset: int, runs: int) -> Measured:
    if not {first, second} <= set(pf.isa_levels()):
        raise Skipped(f"needs {first} and {second}; the levels here are {', '.join(pf.isa_levels()) or 'none'}")
    encoding = pf.sinusoidal(512)
    outs = {level: timing.warm_at((2048, 512), np.float32, offset) for level in (first, second)}

    def side(level: str) -> Array:
        with pf.use_backend("cython", level):
            return encoding.table(2048, out=outs[level])

    times = timing.alternate({level: partial(side, level) for level in outs}, runs)
    for out in outs.values():
        values.check_table(out, encoding)
    return compare(times, first, second, 2048 * 512)


def memory_map(runs: int) -> Measured:
    """Compare a table in a memory map of 1 GiB with a fill of the same map."""
    encoding, shape = pf.sinusoidal(128), (1 << 21, 128)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "table.npy")
        out = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        sides = {"table, memory map": lambda: encoding.table(len(out), out=out), "fill": lambda: out.fill(0)}
        times = timing.alternate(sides, runs)
        sides["table, memory map"]()
        values.check_table(out, encoding)
    return compare(times, *sides, math.prod(shape))
