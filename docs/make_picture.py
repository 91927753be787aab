"""Draw front.png, the picture of the README, and faults.png, that of the page on checks: ``python docs/make_picture.py``.

It needs matplotlib, mpmath and ml_dtypes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from matplotlib.figure import Figure

import posenc_fast as pf
from posenc_fast import plot

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import exact

WIDTH = 128
NAMED = {1e6: "a million", 1.7e9: "unix\nseconds", 1.7e12: "unix\nmilliseconds"}


def formula(dtype: Any) -> Callable[[Any], Any]:
    """What the usual program does, with angles of this type."""

    def rows(positions: Any) -> Any:
        frequencies = (10000.0 ** (-np.arange(0, WIDTH, 2) / WIDTH)).astype(dtype)
        angles = positions.astype(dtype)[:, np.newaxis] * frequencies
        return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(positions), WIDTH).astype(np.float32)

    return rows


def errors(ax: Any) -> None:
    """Largest absolute error of float32 values against the position."""
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
    ax.legend(loc="lower left", bbox_to_anchor=(0.26, 0.09), frameon=False, fontsize=9)


def faults(ax: Any) -> None:
    """Largest error of a rotary cosine or sine against the position, for each fault, with ready tables in float32."""
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
            # back to the position drawn before, or what is enough to see the largest error
            positions = start - np.arange(min(max(1, start // 8), 512))
            angles = positions.astype(dtype).astype(np.float32)[:, np.newaxis] * frequencies
            # of float64, within 1e-16 of the exact ones: nothing beside these errors
            cos, sin = rotary.tables(positions, dtype=np.float64)
            worst.append(max(np.abs(np.cos(angles) - cos).max(), np.abs(np.sin(angles) - sin).max()))
        ax.loglog(starts, worst, color=colour, linewidth=2)
        ax.text(*place, name, color=colour, fontsize=10, ha="left", va="bottom")
    ax.axhline(2.0**-9, color="0.5", linewidth=1, linestyle="--", zorder=0)
    ax.text(11, 2.0**-9 * 0.8, "a bfloat16 value,\nrounded once", color="0.35", fontsize=9, ha="left", va="top")
    ax.axvline(256, color="0.8", linewidth=1, zorder=0)
    ax.annotate("256", (256, 1.3e-8), color="0.35", fontsize=9, ha="right", va="bottom", annotation_clip=False)
    ax.set(xlabel="position", ylabel="largest error of a value", xlim=(1, 2**17), ylim=(1e-8, 20))


def main() -> None:
    figure = Figure(figsize=(5, 3.9), layout="constrained")
    faults(figure.subplots())
    figure.savefig(Path(__file__).with_name("faults.png"), dpi=180)
    figure = Figure(figsize=(11, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
    plot.heatmap(pf.sinusoidal(WIDTH), 100, ax=left)
    left.set_title("pf.positional_encoding(100, 128)")
    errors(right)
    figure.savefig(Path(__file__).with_name("front.png"), dpi=100)


if __name__ == "__main__":
    main()
