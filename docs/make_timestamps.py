"""Write beneath the blocks of howto-timestamps.md what they print, and draw day.png: ``python docs/make_timestamps.py``.

It needs matplotlib, pandas, polars and scikit-learn.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from posenc_fast.sklearn import PositionalEncoder

HERE = Path(__file__).parent
BLOCK = re.compile(r"^(```python\n(.*?)^```\n)(\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)
END = "-- end of a block --"


def with_outputs(page: str) -> str:
    """Return a page with what each of its blocks prints in a block of text beneath."""
    program = "\n".join(f"{code}\nprint({END!r})" for _, code, _ in BLOCK.findall(page))
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed), threadpool_limits(1):
        path = Path(folder, "page.py")
        path.write_text(program, encoding="utf-8")
        runpy.run_path(str(path))
    outputs = iter(printed.getvalue().split(f"{END}\n"))

    def beneath(block: re.Match[str]) -> str:
        lines = [line.rstrip() for line in next(outputs).splitlines()]
        return block[1] + "\n".join(["", "```text", *lines, "```", ""] if lines else [])

    return BLOCK.sub(beneath, page)


def day() -> Figure:
    """Draw the hours of a day as numbers on a line, and as sines and cosines on a circle."""
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


def main() -> None:
    path = HERE / "howto-timestamps.md"
    path.write_text(with_outputs(path.read_text(encoding="utf-8")), encoding="utf-8")
    day().savefig(HERE / "day.png", dpi=100)


if __name__ == "__main__":
    main()
