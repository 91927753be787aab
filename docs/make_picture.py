"""Draw front.png, the picture of the README: ``python docs/make_picture.py``. It needs matplotlib and mpmath."""

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


def main() -> None:
    figure = Figure(figsize=(11, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.25])
    plot.heatmap(pf.sinusoidal(WIDTH), 100, ax=left)
    left.set_title("pf.positional_encoding(100, 128)")
    errors(right)
    figure.savefig(Path(__file__).with_name("front.png"), dpi=100)


if __name__ == "__main__":
    main()
