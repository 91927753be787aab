"""Measure the speed targets, and print a table. Most targets are ratios of the times of two calls.

    python bench/targets.py [--only NAME] [--runs N] [--long] [--json FILE] [--write]

Unless a target says otherwise, the two calls (the sides) alternate in this process, and write float32 values with one
thread.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import peers
import tables
import timing
from measures import Measured, Skipped, workers
from measures.calls import c_call, encode_blocks, first_use, fixed_cost, importing, linear, table_blocks
from measures.positions import (
    calendar_and_pandas,
    calendar_and_periods,
    encode_and_bare,
    encode_and_memset,
    encode_and_numpy,
    mrope_and_transformers,
    mrope_of_text,
    one_timestep,
)
from measures.rotary import rotary_and_numpy, rotary_and_peer, rotary_cell, rotary_token
from measures.sums import add, module
from measures.tables import (
    HUGE,
    fastest_peer,
    fresh_table,
    grid_and_copy,
    levels,
    memory_map,
    table_and_bare,
    table_and_memset,
    tutorial,
    types,
)
from measures.workers import two_workers

SEQUENCE, LARGE, LAYER = (2048, 512), (8192, 1024), (32, 512, 768)


class Target(NamedTuple):
    name: str
    what: str
    # "<=" or ">=", and the bound; "" if the ratio is only reported
    sense: str
    bound: float
    measure: Callable[[int], Measured]


# ---- the list -------------------------------------------------------------------------------------------------------


def bar(name: str, what: str, sense: str, bound: float, measure: Callable[..., Measured], *arguments: Any) -> Target:
    return Target(name, what, sense, bound, partial(measure, *arguments))


def shown(name: str, what: str, measure: Callable[..., Measured], *arguments: Any) -> Target:
    """Return a target without a bound: its ratio is only reported."""
    return Target(name, what, "", math.nan, partial(measure, *arguments))


def table_targets() -> list[Target]:
    memset, narrow = "table, float64, `out=` warm / memset", "table / float32 table, `out=` warm"
    peer = "fastest peer / table, float32, new array"
    loops = "table, float32, `out=` warm, {} bytes into a line / the better bare loop"
    return [
        *(
            bar(f"bare-{rows}x{d}+{offset}", loops.format(offset), "<=", 1.15, table_and_bare, (rows, d), offset)
            for rows, d in ((256, 512), SEQUENCE, LARGE, HUGE)
            for offset in (0, 16)
        ),
        bar("tutorial-2048x512", "tutorial NumPy / table, float32, `out=` warm", ">=", 18, tutorial, SEQUENCE, True),
        bar("peers-2048x512", peer, ">=", 4, fastest_peer, SEQUENCE, "interleaved"),
        bar("peers-8192x1024", peer, ">=", 4, fastest_peer, LARGE, "interleaved"),
        bar("float16-2048x512", narrow, "<=", 1.2, types, "float16", SEQUENCE),
        bar("float16-8192x1024", narrow, "<=", 1.2, types, "float16", LARGE),
        bar("bfloat16-2048x512", narrow, "<=", 1.2, types, "bfloat16", SEQUENCE),
        bar("bfloat16-8192x1024", narrow, "<=", 1.2, types, "bfloat16", LARGE),
        bar("float64-65536x512", memset, "<=", 1.6, table_and_memset, (65536, 512), np.float64),
        bar("workers-131072x512", "table, one worker / two, `out=` warm", ">=", 1.7, two_workers, workers.table),
        bar(
            "workers-encode-1000000x64", "encode, one worker / two, `out=` warm", ">=", 1.7, two_workers, workers.encode
        ),
        bar(
            "workers-rotary-32x2048",
            "Rotary.apply, one worker / two, into other warm memory",
            ">=",
            1.7,
            two_workers,
            workers.rotary,
        ),
        *(
            bar(
                f"levels-2048x512+{offset}",
                f"avx512 / avx2, `out=` warm, {offset} bytes into a line",
                "<=",
                1,
                levels,
                "avx512",
                "avx2",
                offset,
            )
            for offset in (0, 16, 32, 48)
        ),
    ]


def other_targets(most: int) -> list[Target]:
    added = "add_to in place / np.add of a ready table, in place"
    cached = "table in torch, new tensor / module"
    grows = f"ns an element from 1e3 to {most:.0e} rows of 128: worst / best"
    first = "first {} of sinusoidal(512) / 128 rows by NumPy, CPU time in new processes"
    return [
        *(
            bar(f"bare-encode-{rows}x{d}", "encode, `out=` warm / bare loop", "<=", 1.05, encode_and_bare, rows, d)
            for rows, d in ((1_000_000, 64), (100_000, 512), (2000, 128))
        ),
        bar("encode-numpy", "NumPy formula / encode, 1e6 timestamps x 64, `out=` warm", ">=", 30, encode_and_numpy),
        bar(
            "calendar-periods",
            "day, week, month, quarter, year / five fixed periods, 1e6 times, `out=` warm",
            "<=",
            3,
            calendar_and_periods,
        ),
        *(
            bar(
                f"calendar-pandas{suffix}",
                f"pandas' .dt with NumPy's sine / day, week, month, quarter, year, 1e6 times{of_zone}, `out=` warm",
                ">=",
                1,
                calendar_and_pandas,
                zone,
            )
            for suffix, of_zone, zone in (("", "", None), ("-zone", " with a zone", "Europe/Berlin"))
        ),
        bar(
            "mrope-transformers",
            "transformers' get_rope_index / presets.positions.mrope, 4096 tokens with 20 images",
            ">=",
            20,
            mrope_and_transformers,
        ),
        bar(
            "mrope-text", "microseconds of a call: presets.positions.mrope, 128 tokens of text", "<=", 5, mrope_of_text
        ),
        bar("add-32x512x768", added, "<=", 0.95, add, LAYER),
        bar("add-1x131072x512", added, "<=", 0.95, add, (1, *HUGE)),
        bar("module-32x512x768", "x * sqrt(d) + " + cached, ">=", 1, module, LAYER, LAYER[2] ** 0.5, False),
        bar("module-plain-32x512x768", "x + " + cached, ">=", 1, module, LAYER, 1.0, False),
        bar("module-inplace-32x512x768", "x.add_(table in torch) / module in place", ">=", 1, module, LAYER, 1.0, True),
        *(
            bar(
                f"grid-{rows}x{rows}x{d}",
                "grid / copy of the array, both into the same warm memory",
                "<=",
                1.25,
                grid_and_copy,
                (rows, rows),
                d,
            )
            for rows, d in ((512, 256), (64, 768))
        ),
        *rotary_passes(),
        bar(
            "rotary-onnx",
            "ONNX Runtime RotaryEmbedding, bound / Rotary.apply in place",
            ">=",
            2.5,
            rotary_and_peer,
            "ONNX Runtime",
        ),
        bar(
            "rotary-transformers",
            "transformers apply_rotary_pos_emb / Rotary.apply in place, queries and keys",
            ">=",
            20,
            rotary_and_peer,
            "transformers, Llama",
        ),
        bar("rotary-token", "microseconds of a call: one token, 32 heads of 128", "<=", 5, rotary_token),
        *rotary_cells(),
        bar("c-call", "microseconds of a call from C: encode of one position, width 2", "<=", 0.2, c_call),
        bar("timestep-320", "encode of one timestep, new array / NumPy, ready frequencies", "<=", 0.75, one_timestep),
        bar("linear-table", "table, " + grows, "<=", 2, linear, table_blocks, most),
        bar("linear-encode", "encode, " + grows, "<=", 2, linear, encode_blocks, most),
        bar("first-row", first.format("row"), "<=", 1.5, first_use, "pf.sinusoidal(512).encode(0)"),
        bar("first-table", first.format("table of 128 rows"), "<=", 2.5, first_use, "pf.sinusoidal(512).table(128)"),
        bar("import", "milliseconds of CPU time: import after NumPy's, in new processes", "<=", 22, importing),
    ]


def rotary_passes() -> list[Target]:
    """Return the targets of rotations at new positions, compared with one pass of NumPy over as many float32 values."""
    what = "Rotary.apply, 2048 tokens, {} / {} of float32"
    place, to = "np.multiply in place", "np.copyto"
    return [
        bar(f"rotary-{name}", what.format(text, plain), "<=", bound, rotary_and_numpy, *arguments)
        for name, text, plain, bound, arguments in (
            ("multiply", "32 heads, half", place, 1.5, (32, "half", "float32", False, False)),
            ("multiply-interleaved", "32 heads, interleaved", place, 1.6, (32, "interleaved", "float32", False, False)),
            ("multiply-8-heads", "8 heads, half", place, 2.7, (8, "half", "float32", False, False)),
            ("multiply-float16", "32 heads, half, float16", place, 1, (32, "half", "float16", False, False)),
            ("multiply-tokens-first", "32 heads after each token", place, 1.8, (32, "half", "float32", True, False)),
            ("copyto", "32 heads, half, into other memory", to, 1.1, (32, "half", "float32", False, True)),
        )
    ]


def rotary_cells() -> list[Target]:
    """Return the targets of rotations in torch, for each dtype and number of tokens."""
    # published times of a CPU kernel for rotary encodings in transformers, divided by times of the eager function
    bounds = {("bfloat16", 1): 25 / 39, ("bfloat16", 128): 220 / 1200, ("bfloat16", 2048): 5200 / 37000}
    cells = [(dtype, tokens) for dtype in ("bfloat16", "float16", "float32") for tokens in (1, 128, 2048)]
    what = " / Hugging Face eager, queries and keys, tokens: "
    return [
        bar(
            f"rotary-{dtype}-{n}",
            f"RotaryEncoding{what}{n}",
            "<=",
            bounds.get((dtype, n), 1),
            rotary_cell,
            dtype,
            n,
            "module",
        )
        for dtype, n in cells
    ] + [
        bar(f"rotary-tables-{dtype}-{n}", f"apply_rotary_pos_emb{what}{n}", "<=", 1, rotary_cell, dtype, n, "function")
        for dtype, n in cells
    ]


def reported(long: bool) -> list[Target]:
    peer = "fastest peer / table, float32, new array"
    joined, one_sine = peer + ", sines before cosines", peer + "; the peers rewritten to one sine with a phase"
    cached = "table in torch, in the cache / module"
    memset = "table, float32, `out=` warm / memset"
    targets = [
        *(
            shown(f"memset-{rows}x{d}", memset, table_and_memset, (rows, d), np.float32)
            for rows, d in ((256, 512), SEQUENCE, LARGE, HUGE)
        ),
        shown("encode-memset", "encode, 1e6 timestamps x 64, `out=` warm / memset", encode_and_memset),
        shown("fixed-cost", "encode of one position, width 2 / np.sin of two values", fixed_cost),
        shown("fresh-2048x512", "table / memset, fresh memory", fresh_table, SEQUENCE),
        shown("fresh-131072x512", "table / memset, fresh memory", fresh_table, HUGE),
        shown("tutorial-8192x1024", "tutorial NumPy / table, float32, new array", tutorial, LARGE, False),
        shown("module-scaled-8x128x768", "x * sqrt(d) + " + cached, module, (8, 128, 768), 768**0.5, False),
        shown("module-8x128x768", "x + " + cached, module, (8, 128, 768), 1.0, False),
        shown("module-token", "x + " + cached + ", (1, 1, 768)", module, (1, 1, 768), 1.0, False),
        shown("joined-2048x512", joined, fastest_peer, SEQUENCE, "concatenated"),
        shown("joined-8192x1024", joined, fastest_peer, LARGE, "concatenated"),
        shown("one-sine-2048x512", one_sine, fastest_peer, SEQUENCE, "one sine"),
        shown("one-sine-8192x1024", one_sine, fastest_peer, LARGE, "one sine"),
    ]
    return targets + ([shown("memory-map", "table into a file of 1 GiB / fill of it", memory_map)] if long else [])


# ---- running and printing -------------------------------------------------------------------------------------------


def held(target: Target, measured: Measured) -> str:
    if not target.sense:
        return "-"
    ratio = measured.ratio.median
    return "held" if (ratio <= target.bound if target.sense == "<=" else ratio >= target.bound) else "NOT HELD"


def record(target: Target, measured: Measured) -> dict[str, Any]:
    return {
        "name": target.name,
        "what": target.what,
        "target": f"{target.sense} {target.bound:g}" if target.sense else None,
        "ratio": measured.ratio._asdict(),
        "verdict": held(target, measured),
        "ns": measured.sides,
        "per": "call" if measured.elements == 1 else "element",
    }


def load() -> str:
    """Return the load average as text. Other programs distort ratios, mainly those of one and two workers."""
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"


def run(chosen: list[Target], runs: int) -> list[dict[str, Any]]:
    """Measure targets, print the row of each at once and the times of all sides after the table. Return the results."""
    print(tables.TARGETS_HEADING, flush=True)
    records = []
    for target in chosen:
        timing.steady_malloc()
        try:
            measured = target.measure(runs)
        except Skipped as reason:
            print(f"| {target.name} | {target.what} | | | | skipped: {reason} |", flush=True)
            continue
        records.append(record(target, measured))
        print(tables.target(records[-1]), flush=True)
    print("\nMedian nanoseconds of each side, per output element unless stated otherwise:\n")
    for each in records:
        sides = ", ".join(f"{name} {ns:.3g}" for name, ns in each["ns"].items())
        print(f"- {each['name']}{' (of a call)' if each['per'] == 'call' else ''}: {sides}")
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure every speed target and print a table.")
    parser.add_argument("--only", metavar="NAME", help="targets with NAME in their name")
    parser.add_argument(
        "--runs", type=int, default=31, help="samples of each side; slow targets take fewer (default: %(default)s)"
    )
    parser.add_argument("--long", action="store_true", help="also measure 1e8 rows, and a memory map of 1 GiB")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the results in this file")
    parser.add_argument(
        "--write",
        action="store_true",
        help="save the results in bench/results, and write the table into bench/README.md",
    )
    options = parser.parse_args()
    if options.write and (options.only or options.long):
        parser.error(
            "--write needs all targets, at the sizes of the table in bench/README.md; leave out --only and --long"
        )
    every = table_targets() + other_targets(10**8 if options.long else 10**7) + reported(options.long)
    chosen = [target for target in every if (options.only or "") in target.name]
    if not chosen:
        parser.error(f"no target has {options.only!r} in its name; the targets are {', '.join(t.name for t in every)}")
    before = load()
    records = run(chosen, options.runs)
    absent = ", ".join(peers.skipped())
    print(f"\nSkipped, because not installed: {absent or 'none'}.")
    print(f"Load average of the last minute: {before} before, {load()} after; 1 means that only this program ran.")
    measured = tables.new_run(records)
    print(f"{tables.conditions(measured)}.")
    if options.write:
        tables.publish("targets", measured)
    if options.json:
        tables.save(measured, options.json)


if __name__ == "__main__":
    main()
