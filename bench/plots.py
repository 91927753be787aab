"""Measure and draw time against length, speed by dtype and instruction-set level, and times of rotation.

python bench/plots.py [--data FILE] [--redraw FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import peers
import timing
import values

import posenc_fast as pf
from posenc_fast.reference import vaswani_loops, vaswani_numpy

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURES = Path(__file__).parent / "figures"
WIDTH = 512
LENGTHS = [16, 64, 256, 1024, 4096, 16384, 65536]
# keys: slow programs. Values: their largest length.
LONGEST = {"vaswani_loops": 256, "python": 4096}
TYPES = ("float64", "float32", "float16", "bfloat16")
OURS, TUTORIAL, OTHERS = "#0b5cad", "#c8450c", "#6b6b6b"
SHADES = {"python": "#8fb3d6", "baseline": "#6aa5da", "neon": "#0b5cad", "avx2": "#2f7fc4", "avx512": "#0b5cad"}

Data = dict[str, Any]


# ---- measuring ------------------------------------------------------------------------------------------------------


def backends() -> dict[str, tuple[str, str | None]]:
    return {"python": ("python", None)} | {level: ("cython", level) for level in pf.isa_levels()}


def at(name: str, call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that makes a call with one backend and level. name: key of `backends`."""

    def side() -> Any:
        with pf.use_backend(*backends()[name]):
            return call()

    return side


def implementations(length: int) -> dict[str, Callable[[], Any]]:
    """Return {name: call} for the programs that compute a table of this length as a new array.

    Programs in `LONGEST` are left out above their largest length. First check the values of the peers, and of
    posenc_fast for lengths up to ``LONGEST["python"]``.
    """
    encoding = pf.sinusoidal(WIDTH)
    found = {name: at(name, partial(encoding.table, length)) for name in backends()}
    for call in found.values():
        if length <= LONGEST["python"]:
            values.check_table(call(), encoding)
    for program in (vaswani_loops, vaswani_numpy):
        found[program.__name__] = partial(program, length, WIDTH)
    for layout in ("concatenated", "interleaved"):
        others = peers.calls(length, WIDTH, layout)
        for call in others.values():
            expected = pf.sinusoidal(WIDTH, layout=layout)
            values.check_near(call(), expected, values.single_tolerance(length))
        found |= others
    return {name: call for name, call in found.items() if length <= LONGEST.get(name, length)}


def by_length() -> Data:
    """Return nanoseconds per element as {implementation: {length: ns}}."""
    lines: Data = {}
    for length in LENGTHS:
        timing.steady_malloc()
        sides = implementations(length) | {"memset": timing.memset(timing.warm((length, WIDTH)))}
        for name, median in timing.medians(timing.alternate(sides, 15)).items():
            lines.setdefault(name, {})[str(length)] = median / length / WIDTH * 1e9
    return lines


def by_type() -> Data:
    """Return the speed relative to the tutorial's formula at 2048x512: {dtype: {name of a backend: ratio}}."""
    encoding = pf.sinusoidal(WIDTH)
    bars: Data = {}
    for name in TYPES:
        if name == "bfloat16" and not peers.found("ml_dtypes"):
            continue
        timing.steady_malloc()
        dtype = values.dtype_of(name)
        sides = {level: at(level, partial(encoding.table, 2048, dtype=dtype)) for level in backends()}
        for side in sides.values():
            values.check_table(side(), encoding)
        times = timing.alternate(sides | {"tutorial": partial(vaswani_numpy, 2048, WIDTH)}, 31)
        bars[name] = {level: timing.ratio(times, "tutorial", level).median for level in sides}
    return bars


def by_rotation() -> Data:
    """Return nanoseconds per element of rotated queries: {implementation: ns}."""
    rotary, x = pf.Rotary(128), np.random.default_rng(0).standard_normal((1, 32, 2048, 128), np.float32)
    warm, other = x.copy(), x.copy()
    tables = rotary.tables(x.shape[2])
    sides: dict[str, Callable[[], Any]] = {
        level: at(level, partial(rotary.apply, warm, out=warm)) for level in pf.isa_levels()
    }
    sides["np.multiply"] = lambda: np.multiply(other, np.float32(-1), out=other)
    expected, arrays = rotary.apply(x), {}
    for peer in peers.installed():
        if peer.rotary is not None:
            rotation = peer.rotary(x, *tables)
            assert np.abs(rotation.result - expected).max() < 1e-5
            sides[peer.name], arrays[peer.name] = rotation.call, rotation.arrays
    medians = timing.medians(timing.alternate(sides, 15))
    return {name: median / x.size / arrays.get(name, 1) * 1e9 for name, median in medians.items()}


def measure() -> Data:
    return {"length": by_length(), "ratios": by_type(), "rotary": by_rotation()}


# ---- drawing --------------------------------------------------------------------------------------------------------


def spread(heights: list[float], apart: float) -> list[float]:
    """Return the heights, moved to be at least ``apart`` from each other, so that labels do not overlap.

    Heights that are too close form a block, whose labels are spread evenly around its middle.
    """
    blocks: list[list[int]] = []
    order = sorted(range(len(heights)), key=heights.__getitem__)

    def extent(block: list[int]) -> tuple[float, float]:
        middle = float(np.mean([heights[i] for i in block]))
        return middle - apart * (len(block) - 1) / 2, middle + apart * (len(block) - 1) / 2

    for i in order:
        blocks.append([i])
        while len(blocks) > 1 and extent(blocks[-2])[1] + apart > extent(blocks[-1])[0]:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    moved = list(heights)
    for block in blocks:
        low = extent(block)[0]
        for place, i in enumerate(block):
            moved[i] = low + place * apart
    return moved


def style(name: str) -> dict[str, Any]:
    """Return the line style: posenc_fast blue, its best level widest, tutorials orange, memset black, others grey."""
    if name == "memset":
        return {"color": "black", "linestyle": "--", "linewidth": 1.6, "zorder": 3}
    if name in SHADES:
        best = name == (pf.isa_levels() or ("python",))[-1]
        return {"color": SHADES[name], "linewidth": 3.2 if best else 1.6, "zorder": 4, "marker": "o", "markersize": 4}
    if name.startswith("vaswani"):
        return {"color": TUTORIAL, "linewidth": 2.2, "zorder": 2, "marker": "o", "markersize": 4}
    return {"color": OTHERS, "linewidth": 1.1, "alpha": 0.8, "zorder": 1, "marker": "o", "markersize": 2.5}


def label(name: str) -> str:
    if name == "memset":
        return "libc memset (warm)"
    if name == "python":
        return "posenc_fast.reference"
    if name in SHADES:
        return f"posenc_fast, {name}"
    return {"vaswani_numpy": "tutorial, NumPy", "vaswani_loops": "tutorial, loops"}.get(name, name)


def draw_lengths(lines: Data, file: Path) -> None:
    figure, axes = plt.subplots(figsize=(10, 6.4), dpi=130)
    ends = {}
    for name, points in lines.items():
        lengths, ns = [int(n) for n in points], list(points.values())
        axes.loglog(lengths, ns, **style(name))
        ends[name] = (lengths[-1], ns[-1])
    last = max(x for x, _ in ends.values())
    at_edge = [name for name, (x, _) in ends.items() if x == last]
    places = dict(zip(at_edge, spread([np.log10(ends[name][1]) for name in at_edge], 0.115), strict=True))
    for name, (x, y) in ends.items():
        look = {"color": style(name)["color"], "fontsize": 9.5, "va": "center", "annotation_clip": False}
        look["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        if style(name)["linewidth"] > 2:
            look["fontweight"] = "bold"
        if name not in places:
            axes.annotate(label(name), (x, y), (8, 0), textcoords="offset points", **look)
            continue
        line = {"arrowstyle": "-", "color": look["color"], "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(label(name), (x, y), (last * 1.5, 10 ** places[name]), arrowprops=line, **look)
    axes.axvline(timing.RECYCLED / WIDTH / 4, color="#a8a8a8", linewidth=0.8, linestyle=":")
    axes.annotate(
        "recycled memory  |  fresh memory",
        (timing.RECYCLED / WIDTH / 4, 1), (4, -3), xycoords=("data", "axes fraction"), textcoords="offset points",
        ha="center", va="top", fontsize=8.5, color="#6b6b6b",
    )  # fmt: skip
    axes.set_xticks(LENGTHS, [f"{n:,}" for n in LENGTHS])
    axes.minorticks_off()
    axes.set_ylim(top=2.2 * axes.get_ylim()[1])
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.set_xlabel(f"rows of {WIDTH} columns, new float32 array (the tutorials: float64)")
    axes.set_ylabel("nanoseconds an element, one thread")
    axes.set_title("Time of a table: lower is faster", loc="left", fontweight="bold")
    axes.grid(True, which="major", color="#e4e4e4", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    figure.subplots_adjust(left=0.08, right=0.78, top=0.94, bottom=0.09)
    figure.savefig(file)
    plt.close(figure)


def draw_ratios(bars: Data, file: Path) -> None:
    figure, axes = plt.subplots(figsize=(9, 4.8), dpi=130)
    levels = list(next(iter(bars.values())))
    each = 0.84 / len(levels)
    for i, level in enumerate(levels):
        places = np.arange(len(bars)) + (i - (len(levels) - 1) / 2) * each
        heights = [bars[name][level] for name in bars]
        drawn = axes.bar(places, heights, each * 0.92, color=SHADES[level], label=label(level))
        axes.bar_label(drawn, [f"{h:.0f}x" if h >= 10 else f"{h:.1f}x" for h in heights], padding=2, fontsize=9)
    axes.margins(y=0.08)
    axes.axhline(1, color=TUTORIAL, linewidth=1.5)
    axes.annotate(
        "tutorial\n= 1", (1, 1), (4, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
        color=TUTORIAL, fontsize=9.5, fontweight="bold", annotation_clip=False,
    )  # fmt: skip
    axes.set_xticks(np.arange(len(bars)), list(bars), fontsize=11)
    axes.set_ylabel("times as fast")
    axes.set_title(
        "Table 2048x512 against the tutorial's NumPy formula (float64): higher is faster",
        loc="left", fontweight="bold", fontsize=11,
    )  # fmt: skip
    axes.legend(frameon=False, ncols=len(levels), loc="upper left", bbox_to_anchor=(0, -0.09), fontsize=9.5)
    axes.tick_params(axis="x", length=0)
    axes.grid(True, axis="y", color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.subplots_adjust(left=0.08, right=0.92, top=0.92, bottom=0.17)
    figure.savefig(file)
    plt.close(figure)


def draw_rotations(bars: Data, file: Path) -> None:
    figure, axes = plt.subplots(figsize=(9, 3.2), dpi=130)
    names = sorted(bars, key=bars.__getitem__, reverse=True)
    colors = ["black" if name == "np.multiply" else SHADES.get(name, OTHERS) for name in names]
    drawn = axes.barh([label(name) for name in names], [bars[name] for name in names], 0.7, color=colors)
    axes.bar_label(drawn, [f"{bars[name]:.2g}" for name in names], padding=3, fontsize=9.5)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_xlabel("nanoseconds an element, one thread")
    axes.set_title(
        "Rotation of float32 queries (1, 32, 2048, 128) in place: lower is faster",
        loc="left", fontweight="bold", fontsize=11,
    )  # fmt: skip
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x", color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.subplots_adjust(left=0.2, right=0.96, top=0.88, bottom=0.18)
    figure.savefig(file)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure, and draw length.png, ratios.png and rotary.png in bench/figures."
    )
    parser.add_argument("--data", type=Path, metavar="FILE", help="save the measured numbers in this file")
    parser.add_argument(
        "--redraw", type=Path, metavar="FILE", help="draw the numbers in this file, without a measurement"
    )
    options = parser.parse_args()
    data = json.loads(options.redraw.read_text()) if options.redraw else measure()
    if options.data:
        options.data.write_text(json.dumps(data, indent=1))
    FIGURES.mkdir(exist_ok=True)
    draw_lengths(data["length"], FIGURES / "length.png")
    draw_ratios(data["ratios"], FIGURES / "ratios.png")
    draw_rotations(data["rotary"], FIGURES / "rotary.png")
    if absent := peers.skipped():
        print(f"Skipped, because not installed: {', '.join(absent)}.")


if __name__ == "__main__":
    main()
