"""Every speed target as a named benchmark: a ratio of two sides that alternate in this process. Prints a table.

    python bench/targets.py [--only NAME] [--runs N] [--long] [--json FILE] [--write]

Both sides of a ratio, and all the others of its line, write float32 with one thread unless it says otherwise.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
import os
import platform
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import bare
import numpy as np
import peers
import tables
import timing
import values
from timing import Array, Ratio, Times

import posenc_fast as pf
from posenc_fast._encoding import builders as _api
from posenc_fast._numbers import exact as _exact
from posenc_fast._numbers import schedule as _schedule
from posenc_fast.reference import vaswani_numpy

SEQUENCE, LARGE, HUGE = (2048, 512), (8192, 1024), (131072, 512)
QUERIES, LAYER = (1, 32, 2048, 128), (32, 512, 768)


class Skipped(Exception):
    """Why a target cannot be measured here."""


class Measured(NamedTuple):
    ratio: Ratio
    # nanoseconds of each side: of an output element, or of a call where `elements` is 1
    sides: dict[str, float]
    elements: int


class Target(NamedTuple):
    name: str
    what: str
    # "<=" or ">=" and the bound; "" for what is only reported
    sense: str
    bound: float
    measure: Callable[[int], Measured]


def compare(times: Times, above: str, below: str, elements: int) -> Measured:
    """The ratio of two sides, and the medians of all."""
    sides = {name: median / elements * 1e9 for name, median in timing.medians(times).items()}
    return Measured(timing.ratio(times, above, below), sides, elements)


# ---- tables into memory that is there -------------------------------------------------------------------------------


def table_and_memset(shape: tuple[int, int], dtype: Any, runs: int) -> Measured:
    """Both write the same warm buffer; beside them another byte than zero, which some processors store more slowly."""
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
    """Beside the bare loops, through the cache and past it; out begins so many bytes behind the start of a cache line."""
    if not bare.found():
        raise Skipped("there is no C compiler for x86-64")
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


# ---- rotary ---------------------------------------------------------------------------------------------------------


def rotary_sides(shape: tuple[int, ...]) -> tuple[Array, Array, Callable[[], Any]]:
    """Random queries, the same turned, and the call that turns others in place."""
    rotary, rng = pf.Rotary(shape[-1]), np.random.default_rng(0)
    x = rng.standard_normal(shape, dtype=np.float32)
    warm = x.copy()
    turned = rotary.apply(x)
    half = shape[-1] // 2
    angles = np.outer(np.arange(shape[-2]), rotary.frequencies)
    first, second = x[..., :half].astype(np.float64), x[..., half:].astype(np.float64)
    exact = first * np.cos(angles) - second * np.sin(angles)
    assert np.abs(turned[..., :half] - exact).max() < 2.0**-24 * np.abs(x).max() * 2
    return x, turned, partial(rotary.apply, warm, out=warm)


def rotary_and_multiply(runs: int) -> Measured:
    x, _, apply = rotary_sides(QUERIES)
    factor = np.float32(-1)
    sides = {"apply in place": apply, "np.multiply": lambda: np.multiply(x, factor, out=x)}
    return compare(timing.alternate(sides, runs), *sides, x.size)


def rotary_and_peer(package: str, runs: int) -> Measured:
    missing = [
        name for name in {"onnx": ("onnx", "onnxruntime")}.get(package, ("torch", package)) if not peers.found(name)
    ]
    if missing:
        raise Skipped(f"{' and '.join(missing)} not installed")
    x, turned, apply = rotary_sides(QUERIES)
    cos, sin = pf.Rotary(QUERIES[-1]).tables(QUERIES[-2])
    theirs = {"onnx": peers.onnx_rotary, "transformers": peers.transformers_rotary}[package](x, cos, sin)
    result = theirs()
    first = np.asarray(result[0] if isinstance(result, tuple) else result)
    assert np.abs(first - turned).max() < 1e-5
    # transformers turns queries and keys at once
    times = 2 if isinstance(result, tuple) else 1
    sides = {package: getattr(theirs, "timed", theirs), "apply in place": lambda: [apply() for _ in range(times)]}
    return compare(timing.alternate(sides, runs), *sides, times * x.size)


def rotary_cell(dtype: str, tokens: int, ours: str, runs: int) -> Measured:
    """Queries of 32 heads and keys of 8, 128 wide, in new tensors, one thread; as in every layer but a model's first."""
    for package in ("torch", "transformers", *(["ml_dtypes"] if dtype == "bfloat16" else [])):
        if not peers.found(package):
            raise Skipped(f"{package} is not installed")
    torch, rotary = peers.one_thread(), pf.Rotary(128)
    theirs = importlib.import_module("transformers.models.llama.modeling_llama").apply_rotary_pos_emb
    package = importlib.import_module("posenc_fast.torch")
    number_type, source = getattr(torch, dtype), torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, heads, tokens, 128, generator=source).to(number_type) for heads in (32, 8))
    exact = [torch.from_numpy(table).repeat(1, 2)[None] for table in rotary.tables(tokens, start=1000)]
    cos, sin = (table.to(number_type) for table in exact)
    module = package.RotaryEncoding(rotary)
    calls = {
        "module": lambda: module(q, k, start=1000),
        "function": lambda: package.apply_rotary_pos_emb(q, k, cos, sin),
    }
    sides = {ours: calls[ours], "Hugging Face": lambda: theirs(q, k, cos, sin)}
    with torch.no_grad():
        given = exact if ours == "module" else (cos, sin)
        expected = theirs(q.double(), k.double(), *(table.double() for table in given))
        for got, true in zip(sides[ours](), expected, strict=True):
            assert (got.double() - true).abs().max() < torch.finfo(number_type).eps * true.abs().max()
        return compare(timing.alternate(sides, runs), ours, "Hugging Face", 1)


def rotary_token(runs: int) -> Measured:
    """Microseconds of a call, in the place of a ratio; each token has a position of its own."""
    rotary, x = pf.Rotary(128), np.ones((1, 32, 1, 128), np.float32)
    position = iter(range(10**9))
    sides = {
        "a new position": lambda: rotary.apply(x, start=next(position), out=x),
        "the same position": lambda: rotary.apply(x, start=1000, out=x),
    }
    times = {name: timing.alternate({name: side}, 10 * runs)[name] for name, side in sides.items()}
    micro = np.percentile(times["a new position"] * 1e6, [50, 25, 75])
    return Measured(Ratio(*micro.tolist()), {name: float(np.median(t)) * 1e9 for name, t in times.items()}, 1)


def processors() -> float:
    """How many processors two threads of pure computing get at this moment."""
    block = bytes(1 << 24)
    begin, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: hashlib.sha256(block), range(20)))
    return (time.process_time() - cpu) / (time.perf_counter() - begin)


def two_workers(runs: int) -> Measured:
    had = processors()
    if had < 1.8:
        raise Skipped(f"two threads get {had:.2f} processors; is something else running?")
    encoding, out = pf.sinusoidal(HUGE[1]), timing.warm(HUGE)
    halves = [timing.memset(half, 255) for half in np.split(out, 2)]
    with ThreadPoolExecutor(2) as pool:
        sides = {
            "one worker": partial(encoding.table, HUGE[0], out=out),
            "two workers": partial(encoding.table, HUGE[0], out=out, workers=2),
            # what a second thread gives where nothing is computed, on this machine
            "memset of ones": timing.memset(out, 255),
            "memset of ones in two threads": lambda: list(pool.map(lambda half: half(), halves)),
        }
        times = timing.alternate(sides, runs)
    sides["two workers"]()
    values.check_table(out, encoding)
    return compare(times, "one worker", "two workers", out.size)


def levels(first: str, second: str, offset: int, runs: int) -> Measured:
    if not {first, second} <= set(pf.isa_levels()):
        raise Skipped(f"the levels are {', '.join(pf.isa_levels())}")
    encoding = pf.sinusoidal(512)
    outs = {level: timing.warm_at((2048, 512), np.float32, offset) for level in (first, second)}

    def side(level: str) -> Array:
        with pf.use_backend("cython", level):
            return encoding.table(2048, out=outs[level])

    times = timing.alternate({level: partial(side, level) for level in outs}, runs)
    for out in outs.values():
        values.check_table(out, encoding)
    return compare(times, first, second, 2048 * 512)


# ---- tables as new arrays -------------------------------------------------------------------------------------------


def tutorial(shape: tuple[int, int], warm: bool, runs: int) -> Measured:
    encoding, out = pf.sinusoidal(shape[1]), timing.warm(shape) if warm else None
    sides = {"tutorial": lambda: vaswani_numpy(*shape), "table": lambda: encoding.table(shape[0], out=out)}
    times = timing.alternate(sides, runs)
    values.check_table(sides["table"](), encoding)
    values.check_near(sides["tutorial"](), encoding, 1e-9)
    return compare(times, "tutorial", "table", math.prod(shape))


def fastest_peer(shape: tuple[int, int], layout: str, runs: int) -> Measured:
    """The smallest ratio of any peer; all of them alternate with the table of the same layout."""
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
    """Memory straight from the system: what is left of the difference once every page has to be had first."""
    encoding = pf.sinusoidal(shape[1])
    sides = {
        "table, fresh memory": lambda out: encoding.table(shape[0], out=out),
        "memset, fresh memory": lambda out: timing.memset(out)(),
    }
    times = timing.alternate_prepared(sides, partial(timing.fresh, shape), runs)
    values.check_table(encoding.table(shape[0], out=timing.fresh(shape)), encoding)
    return compare(times, *sides, math.prod(shape))


# ---- any positions --------------------------------------------------------------------------------------------------


def timestamps() -> Array:
    """Seconds since 1970 with their fractions, in no order."""
    return np.random.default_rng(1706).uniform(0, 2e9, 1_000_000)


def encode_and_bare(rows: int, width: int, runs: int) -> Measured:
    if not bare.found():
        raise Skipped("there is no C compiler for x86-64")
    encoding, positions, out = pf.sinusoidal(width), timestamps()[:rows], timing.warm((rows, width))
    sides = {
        "encode": lambda: encoding.encode(positions, out=out),
        "bare": bare.encode(positions, encoding.frequencies[::2], out),
    }
    times = timing.alternate(sides, runs)
    sides["bare"]()
    expected = out.copy()
    sides["encode"]()
    for part in values.blocks(*out.shape):
        values.check_rows(out[part], encoding, positions[part])
    # turns of 3e8 in one double
    assert np.abs(out - expected).max() < 1e-6
    return compare(times, "encode", "bare", out.size)


def encode_and_memset(runs: int) -> Measured:
    encoding, positions, out = pf.sinusoidal(64), timestamps(), timing.warm((1_000_000, 64))
    sides = {
        "encode": lambda: encoding.encode(positions, out=out),
        "memset": timing.memset(out),
        "memset of ones": timing.memset(out, 255),
    }
    times = timing.alternate(sides, runs)
    sides["encode"]()
    for part in values.blocks(*out.shape):
        values.check_rows(out[part], encoding, positions[part])
    return compare(times, "encode", "memset", out.size)


def encode_and_numpy(runs: int) -> Measured:
    encoding, positions, out = pf.sinusoidal(64), timestamps(), timing.warm((1_000_000, 64))
    frequencies = encoding.frequencies[0::2]

    def formula() -> None:
        angles = positions[:, np.newaxis] * frequencies
        out[:, 0::2] = np.sin(angles)
        out[:, 1::2] = np.cos(angles)

    times = timing.alternate({"formula": formula, "encode": lambda: encoding.encode(positions, out=out)}, runs)
    formula()
    expected = out[:1000].copy()
    encoding.encode(positions, out=out)
    for part in values.blocks(*out.shape):
        values.check_rows(out[part], encoding, positions[part])
    # a float64 angle of 2e9 radians is good to 2e-7
    assert np.abs(out[:1000] - expected).max() < 1e-6
    return compare(times, "formula", "encode", out.size)


def one_timestep(runs: int) -> Measured:
    """A new row as diffusion models want it; NumPy in the faster of float64 and float32, with ready frequencies."""
    encoding = pf.sinusoidal(320, layout="concatenated")
    double = encoding.frequencies[:160].copy()
    single = double.astype(np.float32)

    def formula(frequencies: Array) -> Array:
        angles = 981.0 * frequencies
        row = np.empty(320, np.float32)
        np.sin(angles, out=row[:160], casting="same_kind")
        np.cos(angles, out=row[160:], casting="same_kind")
        return row

    sides: dict[str, Callable[[], Array]] = {
        "encode": lambda: encoding.encode(981.0),
        "numpy float64": lambda: formula(double),
        "numpy float32": lambda: formula(single),
    }
    times = timing.alternate(sides, 10 * runs)
    values.check_rows(sides["encode"](), encoding, np.array(981.0))
    assert np.abs(sides["encode"]() - sides["numpy float64"]()).max() < 1e-6
    assert np.abs(sides["encode"]() - sides["numpy float32"]()).max() < values.single_tolerance(981)
    faster = min(("numpy float64", "numpy float32"), key=lambda name: np.median(times[name]))
    return compare(times, "encode", faster, 1)


# ---- sums -----------------------------------------------------------------------------------------------------------


def add(shape: tuple[int, int, int], runs: int) -> Measured:
    """In place, both on the same x; the other side has its table ready."""
    encoding = pf.sinusoidal(shape[2])
    table, x = encoding.table(shape[1]), timing.warm(shape)
    sides = {"add_to": lambda: encoding.add_to(x, out=x), "np.add": lambda: np.add(x, table, out=x)}
    times = timing.alternate(sides, runs)
    x.fill(0.375)
    sides["add_to"]()
    for part in values.blocks(*shape[1:]):
        values.check_rows(x[[0, -1], part], encoding, np.arange(part.start, part.stop), 0.375)
    return compare(times, "add_to", "np.add", x.size)


def module(shape: tuple[int, int, int], x_scale: float, inplace: bool, runs: int) -> Measured:
    """torch's module beside a tutorial's line with the table ready, (batch, length, d_model); in evaluation."""
    if not peers.found("torch"):
        raise Skipped("torch is not installed")
    torch = peers.one_thread()
    encoding = pf.sinusoidal(shape[2])
    adding = importlib.import_module("posenc_fast.torch").SinusoidalEncoding(
        shape[2], batch_first=True, x_scale=x_scale, inplace=inplace
    )
    adding.eval()
    table, x = torch.from_numpy(encoding.table(5000))[None], torch.from_numpy(timing.warm(shape))
    ways = {
        "in place": lambda: x.add_(table[:, : x.size(1)]),
        "plain": lambda: x + table[:, : x.size(1)],
        "scaled": lambda: x * x_scale + table[:, : x.size(1)],
    }
    line = ways["in place" if inplace else "plain" if x_scale == 1 else "scaled"]
    sides = {"cached table": line, "module": lambda: adding(x)}
    times = timing.alternate(sides, runs)
    x.fill_(0.375)
    result = sides["module"]().numpy()
    for part in values.blocks(*shape[1:]):
        values.check_rows(result[[0, -1], part], encoding, np.arange(part.start, part.stop), 0.375 * x_scale)
    return compare(times, *sides, x.numel())


# ---- small calls ----------------------------------------------------------------------------------------------------


def forget() -> None:
    """Everything that was ever computed for a schedule, pi included."""
    for module in (_api, _schedule, _exact):
        for function in vars(module).values():
            if hasattr(function, "cache_clear"):
                function.cache_clear()


def first_building(last: Callable[[pf.Encoding], Array], runs: int) -> Measured:
    """From nothing to a first result, so that no work can hide behind laziness."""
    sides = {
        "first building": lambda _: last(pf.sinusoidal(512)),
        "128 rows by NumPy": lambda _: vaswani_numpy(128, 512),
    }
    times = timing.alternate_prepared(sides, forget, 5 * runs)
    values.check_rows(np.atleast_2d(sides["first building"](None))[:1], pf.sinusoidal(512), np.array([0]))
    return compare(times, *sides, 1)


def fixed_cost(runs: int) -> Measured:
    """Calls that have next to nothing to compute; beside them what NumPy takes to do nothing much."""
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


# ---- cost against length --------------------------------------------------------------------------------------------


def in_blocks(write: Callable[[Array, int], Any], block: Array, rows: int) -> None:
    """So many rows, in parts where the memory for all of them would be too large."""
    for first in range(0, rows, len(block)):
        write(block[: rows - first], first)


def linear(write_of: Callable[[pf.Encoding], Callable[[Array, int], Any]], most: int, runs: int) -> Measured:
    """Nanoseconds of an element from 1e3 rows on: the worst over the best."""
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


def memory_map(runs: int) -> Measured:
    """1 GiB of a file: the same table, beside a fill of the same map."""
    encoding, shape = pf.sinusoidal(128), (1 << 21, 128)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "table.npy")
        out = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        sides = {"table, memory map": lambda: encoding.table(len(out), out=out), "fill": lambda: out.fill(0)}
        times = timing.alternate(sides, runs)
        sides["table, memory map"]()
        values.check_table(out, encoding)
    return compare(times, *sides, math.prod(shape))


# ---- the list -------------------------------------------------------------------------------------------------------


def bar(name: str, what: str, sense: str, bound: float, measure: Callable[..., Measured], *given: Any) -> Target:
    return Target(name, what, sense, bound, partial(measure, *given))


def shown(name: str, what: str, measure: Callable[..., Measured], *given: Any) -> Target:
    """What has no bar, and is reported beside them."""
    return Target(name, what, "", math.nan, partial(measure, *given))


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
        bar("workers-131072x512", "one worker / two, `out=` warm", ">=", 1.7, two_workers),
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
    first = "first sinusoidal(512) and its first row / 128 rows by NumPy"
    return [
        *(
            bar(f"bare-encode-{rows}x{d}", "encode, `out=` warm / bare loop", "<=", 1.05, encode_and_bare, rows, d)
            for rows, d in ((1_000_000, 64), (100_000, 512), (2000, 128))
        ),
        bar("encode-numpy", "NumPy formula / encode, 1e6 timestamps x 64, `out=` warm", ">=", 30, encode_and_numpy),
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
        bar(
            "rotary-multiply",
            "Rotary.apply in place, (1, 32, 2048, 128) / np.multiply in place",
            "<=",
            1.7,
            rotary_and_multiply,
        ),
        bar(
            "rotary-onnx",
            "ONNX Runtime RotaryEmbedding, bound / Rotary.apply in place",
            ">=",
            2.5,
            rotary_and_peer,
            "onnx",
        ),
        bar(
            "rotary-transformers",
            "transformers apply_rotary_pos_emb / Rotary.apply in place, queries and keys",
            ">=",
            20,
            rotary_and_peer,
            "transformers",
        ),
        bar("rotary-token", "microseconds of a call: one token, 32 heads of 128", "<=", 5, rotary_token),
        *rotary_cells(),
        bar("timestep-320", "encode of one timestep, new array / NumPy, ready frequencies", "<=", 0.75, one_timestep),
        bar("linear-table", "table, " + grows, "<=", 2, linear, table_blocks, most),
        bar("linear-encode", "encode, " + grows, "<=", 2, linear, encode_blocks, most),
        bar("first-building", first, "<=", 1, first_building, lambda encoding: encoding.encode(0)),
    ]


def rotary_cells() -> list[Target]:
    """The bounds of bfloat16 are those of the rotary CPU kernel published for transformers, and 0.6 of it, for many tokens."""
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
    first = "first sinusoidal(512) and 128 rows / 128 rows by NumPy"
    cached = "table in torch, in the cache / module"
    memset = "table, float32, `out=` warm / memset"
    found = [
        *(
            shown(f"memset-{rows}x{d}", memset, table_and_memset, (rows, d), np.float32)
            for rows, d in ((256, 512), SEQUENCE, LARGE, HUGE)
        ),
        shown("encode-memset", "encode, 1e6 timestamps x 64, `out=` warm / memset", encode_and_memset),
        shown("first-table", first, first_building, lambda encoding: encoding.table(128)),
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
    return found + ([shown("memory-map", "table into a file of 1 GiB / fill of it", memory_map)] if long else [])


# ---- running and printing -------------------------------------------------------------------------------------------


def held(target: Target, measured: Measured) -> str:
    if not target.sense:
        return "-"
    ratio = measured.ratio.median
    return "held" if (ratio <= target.bound if target.sense == "<=" else ratio >= target.bound) else "NOT HELD"


HEADING = "| name | ratio | target | measured | middle half of the runs | verdict |\n|---|---|---|---|---|---|"


def row(found: dict[str, Any]) -> str:
    ratio = found["ratio"]
    cells = [found["name"], found["what"], found["target"] or "-", f"{ratio['median']:.3g}"]
    cells += [f"{ratio['low']:.3g} to {ratio['high']:.3g}", found["verdict"]]
    return f"| {' | '.join(cells)} |"


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


def machine() -> str:
    names = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    levels = f"{pf.backend()}, {pf.isa()} of {', '.join(pf.isa_levels())}"
    return (
        f"{names[0] if names else platform.processor()}, {os.cpu_count()} CPUs, {platform.system()}; Python "
        f"{platform.python_version()}, NumPy {np.__version__}, posenc_fast {pf.__version__} ({levels})"
    )


def load() -> str:
    """Others on the same machine spoil the comparison of one worker with two first of all."""
    return f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def run(chosen: list[Target], runs: int) -> list[dict[str, Any]]:
    """Measure each and print its row at once; what was timed comes after the table."""
    print(HEADING, flush=True)
    records = []
    for target in chosen:
        timing.steady_malloc()
        try:
            measured = target.measure(runs)
        except Skipped as reason:
            print(f"| {target.name} | {target.what} | | | | skipped: {reason} |", flush=True)
            continue
        records.append(record(target, measured))
        print(row(records[-1]), flush=True)
    print("\nMedian nanoseconds of each side, of an output element where not said otherwise:\n")
    for each in records:
        sides = ", ".join(f"{name} {ns:.3g}" for name, ns in each["ns"].items())
        print(f"- {each['name']}{' (of a call)' if each['per'] == 'call' else ''}: {sides}")
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure every speed target and print a table.")
    parser.add_argument("--only", metavar="NAME", help="targets with NAME in their name")
    parser.add_argument("--runs", type=int, default=31, help="samples of each side, fewer where slow (%(default)s)")
    parser.add_argument("--long", action="store_true", help="up to 1e8 rows, and a memory map of 1 GiB")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there as well")
    parser.add_argument("--write", action="store_true", help="put the targets into bench/README.md")
    options = parser.parse_args()
    if options.write and (options.only or options.long):
        parser.error("--write writes the whole table, of the usual sizes; leave out --only and --long")
    every = table_targets() + other_targets(10**8 if options.long else 10**7) + reported(options.long)
    chosen = [target for target in every if (options.only or "") in target.name]
    if not chosen:
        parser.error(f"--only {options.only}: there are {', '.join(target.name for target in every)}")
    before = load()
    print(machine() + "\n")
    records = run(chosen, options.runs)
    absent = ", ".join(peers.skipped())
    print(f"\nSkipped, because not installed: {absent or 'none'}.")
    print(f"Load average of the last minute: {before} before, {load()} after; 1 is this program alone.")
    if options.write:
        rows = [row(found) for found in records if found["target"]]
        tables.put("bench/README.md", "targets", "\n".join([f"Measured on {machine()}.\n", HEADING, *rows]))
    if options.json:
        options.json.write_text(
            json.dumps({"machine": machine(), "skipped": peers.skipped(), "results": records}, indent=1)
        )


if __name__ == "__main__":
    main()
