"""Draw the sine and the cosine of an angle as the hand of a clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.patches import Circle

from .._core.encoding.rows import encode
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of
from .._core.numbers.formats import FLOAT64
from .._core.positions.conversion import convert
from .._core.rotary.value import Rotary
from ._canvas import axes_of, line_colour, name_axes, ticks_that_fit
from ._subjects import one_axis, text_of
from ._tables import distinct_frequencies, hands, wavelength

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# smallest distance between the centres of two clocks, in radii of a clock
CLOCK = 2.5
# largest number of clocks in a drawing: more cannot be distinguished
MOST_CLOCKS = 2000


def clocks(
    encoding: Encoding | Rotary | str,
    positions: Sequence[float] | npt.NDArray[np.datetime64] = (0, 1, 10, 100),
    *,
    pairs: int = 8,
    d_model: int = 128,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw sine and cosine as the hand of a clock: a row of clocks for each position, a column for each frequency.

    Parameters
    ----------
    encoding, d_model, title, ax
        As in `heatmap`.
    positions : sequence of float, or of datetime64
        Positions that the clocks show, one for each row (default: 0, 1, 10, 100).
    pairs : int
        Largest number of frequencies to draw (default: 8). They are equally spaced in the sorted list of all
        frequencies, the fastest first.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As for `heatmap`, and if there are more than 2000 clocks.

    Notes
    -----
    The angle of a hand is ``position * frequency``, counterclockwise from the right. So the end of a hand is
    ``sin(angle)`` above the centre and ``cos(angle)`` to the right of it. A missing position has clocks without hands.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> ax = plot.clocks(pf.sinusoidal(6), [0, 1, 2])
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['6.28', '135', '2,916']
    """
    name, encoding = one_axis(encoding, d_model)
    most_columns = count_of(pairs, "pairs", 1)
    converted = convert(positions, 1)
    distinct = distinct_frequencies(encoding)
    columns, rows = min(most_columns, len(distinct)), len(converted)
    if not rows:
        raise ValueError("positions is empty; pass at least one position")
    if columns * rows > MOST_CLOCKS:
        raise ValueError(
            f"pairs and positions make {columns:,} x {rows:,} clocks, but at most {MOST_CLOCKS} can be drawn; pass "
            "fewer pairs or positions"
        )
    frequencies = distinct[np.linspace(0, len(distinct) - 1, columns).round().astype(int)]
    # ends[row, column] has the height (sine) and the width (cosine) of the end of a hand
    ends = encode(hands(frequencies)._plans, converted, FLOAT64.stored).reshape(rows, columns, 2)
    axes = axes_of(ax)
    across, down = _spacing(axes, columns, rows)
    for i, ends_of_row in enumerate(ends):
        for j, (up, right) in enumerate(ends_of_row):
            x, y = across * j, -down * i
            axes.add_patch(Circle((x, y), 1.0, fill=False, color="0.6"))
            # a dot at the end of the hand
            axes.plot(
                [x, x + right],
                [y, y + up],
                color=line_colour(0),
                linewidth=2,
                solid_capstyle="round",
                marker="o",
                markersize=3.5,
                markevery=[1],
            )
    labelled = ticks_that_fit(axes, columns)
    axes.set_xticks(across * labelled, [wavelength(w) for w in frequencies[labelled]])
    flat = converted.rows(slice(None))
    given = np.asarray(positions).reshape(-1)
    axes.set_yticks(-down * np.arange(rows), [text_of(given, flat, row) for row in range(rows)])
    name_axes(
        axes,
        f"{name}: {columns} of {len(distinct)} pairs" if title is None else title,
        "wavelength (positions)",
        "position",
    )
    axes.set(aspect="equal", xlim=(-across / 2, across * (columns - 0.5)), ylim=(-down * (rows - 0.5), down / 2))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes


def _spacing(axes: Axes, columns: int, rows: int) -> tuple[float, float]:
    """Return the distances between the centres of clocks, across and down, at which the clocks fill the Axes."""
    box = axes.get_window_extent()
    width, height = CLOCK * columns, CLOCK * rows
    aspect = box.height / box.width if box.width > 0 else height / width
    return CLOCK * max(1.0, height / (width * aspect)), CLOCK * max(1.0, width * aspect / height)
