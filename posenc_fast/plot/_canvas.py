"""Functions and constants that all drawings use: Axes, colours, labels that fit, matrices, curves with a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from .._core.numbers.names import meant

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# colormap for signed values: zero is white, positive values are red, negative values blue. It is safe for
# colour-blind readers.
SIGNED = "RdBu_r"
# colormap for angles: cyclic, and light at angle zero
CYCLIC = "twilight_shifted"
LIKENESS = "viridis"
# colours of curves: the palette of Okabe and Ito, safe for colour-blind readers. Yellow and black are left out, because
# the curves must be visible on white and on black.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_MARKERS = ".x+^vs"
# The limit of a picture's columns is the width of its Axes in pixels, times _CELLS_A_PIXEL. The limit of its rows is
# computed from the height. _CELLS_A_PIXEL is below 1, because a colour bar makes the Axes smaller. Both limits lie
# between _LEAST_CELLS and _MOST_CELLS.
_MOST_CELLS, _LEAST_CELLS, _CELLS_A_PIXEL = 256, 16, 0.7
# width of a tick label in inches
_LABEL = 0.5


class Parts(np.ndarray[Any, Any]):
    """An array of Axes that a notebook prints as one line."""

    def __repr__(self) -> str:
        return f"<{self.size} Axes>"


def new_figure(parts: int) -> Any:
    """Return a figure that needs no screen, and its Axes: one, or an array of ``parts`` Axes."""
    figure = Figure(figsize=(7, 4.2) if parts == 1 else (4 * parts, 3.5), layout="constrained")
    return figure, figure.subplots(1, parts)


def axes_of(ax: Axes | None) -> Axes:
    """Return the Axes to draw into (default: the current Axes)."""
    if ax is not None:
        return ax
    axes: Axes = plt.gca()
    figure = plt.gcf()
    if figure.get_layout_engine() is None and figure.axes == [axes]:
        # without a layout engine, saved figures cut off labels beside the Axes
        figure.set_layout_engine("constrained")
    return axes


def room(axes: Axes) -> tuple[int, int]:
    """Return the largest number of rows and columns of a matrix whose cells are visible in the Axes."""
    box = axes.get_window_extent()
    rows, columns = (int(_CELLS_A_PIXEL * pixels) for pixels in (box.height, box.width))
    return max(_LEAST_CELLS, min(_MOST_CELLS, rows)), max(_LEAST_CELLS, min(_MOST_CELLS, columns))


def ticks_that_fit(axes: Axes, count: int, most: int | None = None) -> npt.NDArray[np.intp]:
    """Return at most ``most`` equally spaced indices below ``count``, whose tick labels along x do not overlap."""
    inches = axes.get_window_extent().width / axes.figure.dpi
    labels = max(2, int(inches / _LABEL))
    if most is not None:
        labels = min(labels, most)
    return np.arange(0, count, -(-count // labels))


def name_axes(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    """Write a title, wrapped to fit the figure, and the labels of both axes."""
    axes.set_title(title, fontsize="medium", wrap=True)
    axes.set(xlabel=xlabel, ylabel=ylabel)


def readable(number: float) -> str:
    """Return the number as text: with three significant digits, or as an integer if that has more than three digits."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def picture(
    axes: Axes,
    values: npt.NDArray[Any],
    *,
    columns: tuple[float, float],
    rows: tuple[float, float],
    limits: tuple[float, float],
    cmap: str,
) -> Any:
    """Draw a matrix with rows downwards and columns to the right. columns and rows are the limits of x and y."""
    if not isinstance(cmap, str):
        raise TypeError(f"cmap must be the name of a colormap of matplotlib, not {type(cmap).__name__}")
    if cmap not in colormaps:
        raise ValueError(f"cmap={cmap!r} is not the name of a colormap of matplotlib{meant(cmap, colormaps)}")
    # earlier curves in the same Axes may have set a logarithmic scale
    axes.set(xscale="linear", yscale="linear")
    for axis, (first, last), count in ((axes.xaxis, columns, values.shape[1]), (axes.yaxis, rows, values.shape[0])):
        # Whether the first edge lies halfway between two integers, and cells are at least 1 wide. If so, ticks lie at
        # integers.
        at_integers = (first + 0.5) % 1 == 0 and abs(last - first) >= count
        if at_integers and abs(last - first) == 1:
            axis.set_major_locator(FixedLocator([first + 0.5]))
        else:
            axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=at_integers))
    return axes.imshow(
        values,
        cmap=cmap,
        vmin=limits[0],
        vmax=limits[1],
        aspect="auto",
        # interpolation would show values that the matrix does not contain
        interpolation="nearest",
        extent=(*columns, rows[1], rows[0]),
    )


def add_angle_bar(axes: Axes, image: Any) -> None:
    """Draw a colour bar of angles beside the Axes."""
    bar = axes.figure.colorbar(image, ax=axes, label="angle (radians)", ticks=[-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi])
    bar.ax.set_yticklabels(["← −π", "↓ −π/2", "→ 0", "↑ π/2", "← π"])


def line_colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def curve(axes: Axes, x: Any, y: Any, label: str, title: str | None, *, dots: bool = False, **style: Any) -> None:
    """Draw one more curve, or dots. If the Axes then have several curves, add a legend.

    title: title of the Axes. If it is None, the title is the label of the curve, or empty if there are several curves.
    """
    drawn = sum(not str(line.get_label()).startswith("_") for line in axes.get_lines())
    shape = {"linestyle": "", "marker": _MARKERS[drawn % len(_MARKERS)]} if dots else {"linewidth": 1.5}
    axes.plot(x, y, color=line_colour(drawn), label=label, **(shape | style))
    if drawn:
        # remove the default title, because it cannot name several curves
        axes.legend(fontsize="small")
        label = ""
    axes.set_title(label if title is None else title, fontsize="medium", wrap=True)
    axes.grid(alpha=0.3)
