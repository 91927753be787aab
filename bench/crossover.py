"""Measure how large an output must be, so that stores past the cache are faster. src/tuning.h has the results.

``python bench/crossover.py`` prints ratios for tables of 1 to 128 MiB in memory that has been written before: the time
with stores that bypass the cache, divided by the time with ordinary stores. The first ratio is for writing only, the
second for writing and reading once. Calls with either kind of stores alternate in one process, and each ratio is a
median. ``--width`` and ``--type`` set the number of columns and the dtype. ``--offset`` sets how many bytes after the
start of a cache line the first row begins. Instead of tables, ``--encode`` measures rows of any positions, and
``--grid`` measures grids.
"""

from __future__ import annotations

import argparse
import functools

import numpy as np
from timing import Array, alternate, ratio, warm_at

import posenc_fast as pf
from posenc_fast._core.engine import backend
from posenc_fast._core.engine.blocks import cache_size

MIB = 1 << 20
SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 64, 128)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--offset", type=int, default=0, help="bytes from the start of a cache line")
    parser.add_argument("--type", default="float32", choices=("float64", "float32", "float16"))
    parser.add_argument("--encode", action="store_true", help="rows of any positions instead of a table")
    parser.add_argument("--grid", action="store_true", help="a grid with 64 points on its second axis")
    parser.add_argument("--runs", type=int, default=21)
    arguments = parser.parse_args()
    engine, dtype = backend.current(), np.dtype(arguments.type)
    kernel = engine.module
    kind = kernel.KINDS[arguments.type]
    ways = {"through": 0, "past": kernel.STORES.index("past the cache")}
    encoding = pf.sinusoidal(arguments.width)
    lattice, _ = encoding._plans.lattice(engine, kind == 0)
    plan, _ = encoding._plans.plan(engine, "real")
    print(
        f"rows of {arguments.width} {dtype}, {arguments.offset} bytes into a line; last level {cache_size() / MIB:g} MiB"
    )
    print("  MiB  written  written and read")
    for size in SIZES:
        rows = size * MIB // dtype.itemsize // arguments.width
        out = warm_at((rows, arguments.width), dtype, arguments.offset)
        stored = out.view(np.uint16) if kind == 2 else out
        positions = np.random.default_rng(0).uniform(0, 1e6, (rows, 1))
        grid = out.view(np.uint16)[: rows // 64 * 64].reshape(rows // 64, 64, -1)
        axes = [np.zeros((n, grid.shape[2]), np.uint16) for n in grid.shape[:2]]

        def fill(
            stores: int,
            read: int,
            out: Array = stored,
            positions: Array = positions,
            axes: list[Array] = axes,
            grid: Array = grid,
        ) -> None:
            if arguments.grid:
                kernel.merge(engine.level, *axes, grid, stores)
            elif arguments.encode:
                plan.encode(engine.level, positions, out, kind, False, stores)
            else:
                lattice.table(engine.level, 0, 0, out, kind, stores)
            if read:
                out.max()

        sides = {
            f"{way} {read}": functools.partial(fill, stores, read) for way, stores in ways.items() for read in (0, 1)
        }
        times = alternate(sides, arguments.runs)
        written, read = (ratio(times, f"past {read}", f"through {read}").median for read in (0, 1))
        print(f"{size:5d}  {written:7.2f}  {read:7.2f}", flush=True)


if __name__ == "__main__":
    main()
