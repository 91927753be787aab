"""Draw the pictures of the README and of pages, except those of the gallery: ``python docs/make_pictures.py [NAME]..``.

Without names, it draws all of them. It needs jax, matplotlib, mpmath, ml_dtypes, pandas and scikit-learn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

import posenc_fast as pf
from posenc_fast import plot

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import exact

WIDTH = 128
NAMED = {1e6: "a million", 1.7e9: "unix\nseconds", 1.7e12: "unix\nmilliseconds"}


def formula(dtype: Any) -> Callable[[Any], Any]:
    """Return a function that computes rows by the usual formula, with angles of this dtype."""

    def rows(positions: Any) -> Any:
        frequencies = (10000.0 ** (-np.arange(0, WIDTH, 2) / WIDTH)).astype(dtype)
        angles = positions.astype(dtype)[:, np.newaxis] * frequencies
        return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(positions), WIDTH).astype(np.float32)

    return rows


def errors(ax: Any) -> None:
    """Draw the largest absolute error of float32 values against the position."""
    starts = np.geomspace(1, 2e13, 40).round().astype(np.int64)
    programs = {
        "angles in float32\n(the usual program)": (formula(np.float32), "C3"),
        "angles in float64": (formula(np.float64), "C1"),
        "posenc_fast": (pf.sinusoidal(WIDTH).encode, "C0"),
    }
    worst: dict[str, list[float]] = {name: [] for name in programs}
    frequencies = exact.schedule(WIDTH)
    for start in starts.tolist():
        positions = start + np.arange(4)
        true = [[value for f in frequencies for value in exact.sincos(p, f)] for p in positions.tolist()]
        for name, (rows, _) in programs.items():
            got = rows(positions)
            with mpmath.workprec(exact.PRECISION):
                worst[name].append(
                    max(
                        float(abs(mpmath.mpf(float(value)) - exactly))
                        for row, values in zip(got, true, strict=True)
                        for value, exactly in zip(row, values, strict=True)
                    )
                )
    for name, (_, colour) in programs.items():
        ax.loglog(starts, worst[name], color=colour, linewidth=2, label=name)
    for position, name in NAMED.items():
        ax.axvline(position, color="0.8", linewidth=1, zorder=0)
        ax.annotate(name, (position, 12), ha="center", va="bottom", fontsize=8, color="0.4", annotation_clip=False)
    ax.set(xlabel="position", ylabel="largest error of a value", ylim=(1e-8, 8))
    ax.legend(loc="lower left", bbox_to_anchor=(0.24, 0.05), frameon=False, fontsize=8, handlelength=1.2)


def faults(ax: Any) -> None:
    """Draw the largest error of rotary tables against the position.

    One curve is for float32 angles, the others are for positions or frequencies that are rounded to 16 bits.
    """
    from ml_dtypes import bfloat16

    rotary = pf.Rotary(WIDTH)
    exactly = rotary.frequencies
    halves = [(exactly.astype(dtype).astype(np.float32), np.float32) for dtype in (bfloat16, np.float16)]
    programs = {
        "positions in bfloat16": (exactly.astype(np.float32), bfloat16, "C3", (330, 3.2)),
        "frequencies in bfloat16": (*halves[0], "#b85c00", (1.2, 0.13)),
        "frequencies in float16": (*halves[1], "C4", (420, 0.014)),
        "angles in float32": (exactly.astype(np.float32), np.float32, "C0", (900, 1.1e-5)),
    }
    starts = np.unique(np.geomspace(1, 2**17, 120).round().astype(np.int64))
    for name, (frequencies, dtype, colour, place) in programs.items():
        worst = []
        for start in starts.tolist():
            # compare the last eighth of the positions up to start, but at most 512, which is enough to find the largest
            # error
            positions = start - np.arange(min(max(1, start // 8), 512))
            angles = positions.astype(dtype).astype(np.float32)[:, np.newaxis] * frequencies
            # float64 tables are within 1e-16 of the exact values, which is far less than these errors
            cos, sin = rotary.tables(positions, dtype=np.float64)
            worst.append(max(np.abs(np.cos(angles) - cos).max(), np.abs(np.sin(angles) - sin).max()))
        ax.loglog(starts, worst, color=colour, linewidth=2)
        ax.text(*place, name, color=colour, fontsize=10, ha="left", va="bottom")
    ax.axhline(2.0**-9, color="0.5", linewidth=1, linestyle="--", zorder=0)
    ax.text(11, 2.0**-9 * 0.8, "a bfloat16 value,\nrounded once", color="0.35", fontsize=9, ha="left", va="top")
    ax.axvline(256, color="0.8", linewidth=1, zorder=0)
    ax.annotate("256", (256, 1.3e-8), color="0.35", fontsize=9, ha="right", va="bottom", annotation_clip=False)
    ax.set(xlabel="position", ylabel="largest error of a value", xlim=(1, 2**17), ylim=(1e-8, 20))


def day() -> Figure:
    """Draw the hours of a day as numbers on a line, and as sines and cosines on a circle."""
    import pandas as pd

    from posenc_fast.sklearn import PositionalEncoder

    hours = pd.DataFrame({"time": pd.date_range("2026-01-01", periods=24, freq="h")})
    sines, cosines = PositionalEncoder(periods=["day"], dtype=np.float64).fit_transform(hours).T
    figure = Figure(figsize=(9, 4), layout="constrained")
    line, circle = figure.subplots(1, 2, width_ratios=[1.25, 1])
    colours = ["C3" if hour in (0, 23) else "C0" for hour in range(24)]
    line.set(title="the hour as a number", xlim=(-1, 24), ylim=(-1, 1))
    circle.set(title="the hour as a sine and a cosine", xlabel="time_day_sin", ylabel="time_day_cos", aspect="equal")
    for ax, places, outwards in (
        (line, np.stack([np.arange(24), np.zeros(24)], axis=1), np.tile([0, 14], (24, 1))),
        (circle, np.stack([sines, cosines], axis=1), 13 * np.stack([sines, cosines], axis=1)),
    ):
        ax.scatter(*places.T, c=colours, zorder=2)
        for hour in range(24):
            ax.annotate(
                str(hour),
                places[hour],
                outwards[hour],
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=9,
                color=colours[hour],
            )
    line.plot([0, 23], [0, 0], color="0.8", zorder=1)
    line.axis("off")
    circle.plot([*sines, 0], [*cosines, 1], color="0.8", linewidth=1, zorder=1)
    circle.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    return figure


def timesteps() -> Figure:
    """Draw two timestep embeddings: one with sines in the first half of the columns, the other with cosines there."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    families = {
        "ddpm: sines, then cosines": pf.presets.ddpm(128),
        "stable diffusion: cosines, then sines": pf.presets.guided_diffusion(128),
    }
    for ax, (title, encoding) in zip(figure.subplots(1, 2), families.items(), strict=True):
        plot.heatmap(encoding, 1000, title=title, ax=ax)
        ax.set(ylabel="timestep")
    return figure


def layouts() -> Figure:
    """Draw where each of eight columns is in three orders of columns. Columns of a pair have equally strong colours."""
    figure = Figure(figsize=(9, 2.3), layout="constrained")
    ax = figure.subplots()
    interleaved = [(function, i) for i in range(4) for function in ("sin", "cos")]
    concatenated = [(function, i) for function in ("sin", "cos") for i in range(4)]
    orders = {
        '"interleaved"': interleaved,
        '"concatenated"': concatenated,
        "cosines first": concatenated[4:] + concatenated[:4],
    }
    for row, columns in enumerate(orders.values()):
        for column, (function, i) in enumerate(columns):
            colour = {"sin": "C0", "cos": "C1"}[function]
            ax.add_patch(Rectangle((column, row), 1, 0.8, facecolor=colour, alpha=1 - 0.22 * i, edgecolor="white"))
            ax.text(column + 0.5, row + 0.4, f"{function} $\\omega_{i}$", ha="center", va="center", fontsize=11)
    ax.set(xlim=(0, 8), ylim=(3, 0), xticks=np.arange(8) + 0.5, yticks=np.arange(3) + 0.4)
    ax.set_xticklabels(map(str, range(8)))
    ax.set_yticklabels(orders)
    ax.tick_params(length=0)
    ax.xaxis.tick_top()
    ax.spines[:].set_visible(False)
    return figure


def digits() -> Figure:
    """Draw binary digits of positions, with waves of the same periods."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    waves = pf.fourier_features(pf.periodic([2, 4, 8, 16]), functions=("sin",))
    between = np.linspace(0, 32, 641)
    positions = np.arange(32)
    axes = figure.subplots(4, 1, sharex=True)
    for i, (ax, wave) in enumerate(zip(axes, waves.encode(between, dtype=np.float64).T, strict=True)):
        ax.stairs(positions >> i & 1, np.arange(33), color="0.6", fill=True, alpha=0.45)
        ax.plot(between, (1 - wave) / 2, color="C0", linewidth=2)
        ax.set(xlim=(0, 32), ylim=(-0.1, 1.1), yticks=[0, 1])
        ax.set_ylabel(f"period {2 << i}", rotation=0, ha="right", va="center")
    axes[-1].set(xlabel="position", xticks=range(0, 33, 4))
    axes[0].set_title("binary digits (grey), and waves of the same periods (blue)")
    return figure


def turned() -> Figure:
    """Draw a query and a key of two values as rotated vectors, at three pairs of positions."""
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    rotary = pf.Rotary(2, frequencies=[0.25])
    query, key = np.array([[1.0, 0.0]]), np.array([[0.8 * np.cos(1.1), 0.8 * np.sin(1.1)]])
    for ax, (m, n) in zip(figure.subplots(1, 3), [(0, 0), (4, 1), (9, 6)], strict=True):
        angles = []
        for name, vector, position, colour in (("query", query, m, "C0"), ("key", key, n, "C1")):
            (end,) = rotary.apply(vector, start=position)
            ax.annotate(
                "",
                end,
                (0, 0),
                arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2.5, "shrinkA": 0, "shrinkB": 0},
            )
            ax.text(
                *(end + 0.27 * end / np.hypot(*end)),
                f"{name}\nat {position}",
                color=colour,
                ha="center",
                va="center",
                fontsize=10,
            )
            ax.plot(*np.stack([np.zeros(2), vector[0]], axis=1), color=colour, linewidth=1, linestyle=":")
            angles.append(np.arctan2(end[1], end[0]))
        low, high = sorted(np.unwrap(angles))
        arc = np.linspace(low, high, 40)
        ax.plot(0.35 * np.cos(arc), 0.35 * np.sin(arc), color="0.3", linewidth=1.5)
        product = (rotary.apply(query, start=m) @ rotary.apply(key, start=n).T).item()
        ax.set(title=f"distance {m - n}: dot product {product:.2f}", aspect="equal")
        ax.set(xlim=(-1.55, 1.55), ylim=(-1.55, 1.55), xticks=[], yticks=[])
        ax.spines[:].set_color("0.8")
        ax.add_patch(Circle((0, 0), 1, fill=False, color="0.85", linewidth=1))
    return figure


def show(ax: Any, rows: Any, title: str) -> Any:
    """Draw a table of rows in the colours of `plot`."""
    ax.set(title=title, xlabel="column")
    return ax.imshow(rows, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")


def variance() -> Figure:
    """Draw rows of positions without variance, and rows of positions with a growing variance."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    encoding = pf.sinusoidal(64)
    variances = np.arange(100.0)
    sides = {
        "variance 0": encoding.table(100),
        "variance grows with the position": encoding.encode(variances, variance=variances),
    }
    axes = figure.subplots(1, 2, sharey=True)
    for ax, (title, rows) in zip(axes, sides.items(), strict=True):
        shown = show(ax, rows, title)
    axes[0].set_ylabel("position")
    figure.colorbar(shown, ax=axes, ticks=[-1, 0, 1])
    return figure


def far() -> Figure:
    """Draw rows of positions that neither float32 nor float64 can distinguish."""
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    ax = figure.subplots()
    shown = show(ax, pf.sinusoidal(64).table(100, start=2**60 + 500_000_000), "rows[500_000_000:500_000_100]")
    ax.set_ylabel("row, from 500 000 000")
    figure.colorbar(shown, ax=ax, ticks=[-1, 0, 1])
    return figure


def sums() -> Figure:
    """Draw the errors of x * sqrt(d) + pe in bfloat16, for sums rounded at each step and sums rounded once."""
    from ml_dtypes import bfloat16

    width, length = 512, 1000
    encoding = pf.sinusoidal(width)
    x = np.random.default_rng(0).standard_normal((length, width)).astype(bfloat16)
    scale = width**0.5
    exactly = x.astype(np.float64) * scale + encoding.table(length, dtype=np.float64)
    programs = {
        "rounded at each step": x * bfloat16(scale) + encoding.table(length, dtype=bfloat16),
        "SinusoidalEncoding": encoding.add_to(x, x_scale=scale),
    }
    spacing = 2.0 ** (np.floor(np.log2(np.abs(exactly))) - 7)
    figure = Figure(figsize=(6, 3.2), layout="constrained")
    ax = figure.subplots()
    for (name, rows), colour in zip(programs.items(), ("C3", "C0"), strict=True):
        off = np.abs((rows.astype(np.float64) - exactly) / spacing).ravel()
        bins = np.linspace(0, 1.5, 61)
        ax.hist(off, bins, weights=np.full(off.size, 100 / off.size), color=colour, alpha=0.7, label=name)
    ax.set(xlim=(0, 1.5), xlabel="error in units in the last place of bfloat16", ylabel="% of values")
    ax.legend(frameon=False)
    return figure


def slopes() -> Figure:
    """Draw columns against the position, and their derivatives by jax."""
    import jax

    from posenc_fast import jax as pfj

    encoding = pf.sinusoidal(8)
    positions = np.linspace(0, 30, 601, dtype=np.float32)
    values = pfj.encode(encoding, positions)
    steepness = jax.vmap(jax.jacfwd(lambda position: pfj.encode(encoding, position)))(jax.numpy.asarray(positions))
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    for ax, column in zip(figure.subplots(2, 1, sharex=True), (0, 2), strict=True):
        ax.plot(positions, values[:, column], color="C0", linewidth=2, label="value")
        ax.plot(positions, steepness[:, column], color="C1", linewidth=2, linestyle="--", label="derivative")
        ax.set(title=f"column {column} of sinusoidal(8)", xlim=(0, 30), ylim=(-1.15, 1.15), yticks=[-1, 0, 1])
    ax.set_xlabel("position")
    ax.legend(loc="lower left", frameon=False)
    return figure


def front_table() -> Figure:
    """Draw the picture of the README that shows a table of 100 rows and 128 columns."""
    figure = Figure(figsize=(3.9, 3.3), layout="constrained")
    ax = figure.subplots()
    plot.heatmap(pf.sinusoidal(WIDTH), 100, ax=ax)
    ax.set_title("pf.positional_encoding(100, 128)", fontsize=10)
    return figure


def front_errors() -> Figure:
    """Draw the picture of the README that shows errors against the position."""
    figure = Figure(figsize=(4.2, 3.3), layout="constrained")
    errors(figure.subplots())
    return figure


def faulty() -> Figure:
    figure = Figure(figsize=(5, 3.9), layout="constrained")
    faults(figure.subplots())
    return figure


# keys: names of pictures. Values: (function that draws the picture, resolution).
PICTURES = {
    "front-table": (front_table, 100),
    "front-errors": (front_errors, 100),
    "faults": (faulty, 180),
    "day": (day, 100),
    "timesteps": (timesteps, 100),
    "layouts": (layouts, 100),
    "digits": (digits, 100),
    "turned": (turned, 100),
    "variance": (variance, 100),
    "far": (far, 100),
    "sums": (sums, 100),
    "slopes": (slopes, 100),
}


def main() -> None:
    for name in sys.argv[1:] or PICTURES:
        draw, dpi = PICTURES[name]
        draw().savefig(Path(__file__).with_name(f"{name}.png"), dpi=dpi)


if __name__ == "__main__":
    main()
