"""Draw curves and dots: columns, wavelengths, the effect of a scaling on each pair, and errors against position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .._core.encoding.rows import encode
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of
from .._core.numbers.formats import FLOAT32, FLOAT64
from .._core.positions.conversion import convert
from .._core.rotary.value import Rotary
from ._canvas import axes_of, curve, line_colour, name_axes
from ._subjects import Rows, affordable, every_nth, note_of_skipped, one_axis, preset_or_value, rotary_of
from ._tables import wavelength

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# largest numbers of dots, of points of a curve, and of periods of a curve (the eye cannot distinguish more periods)
_DOTS, _POINTS, _PERIODS = 500, 4000, 60
# smallest width of Axes, in inches, that leaves room for a legend beside the curves
_WIDE = 3.5
# Settings of `errors`. At the default positions, a curve has at most _PLACES and at least _LEAST_PLACES points. Each is
# the largest error of _NEIGHBOURS adjacent positions. _BLOCK is the number of values that are computed at a time.
_PLACES, _LEAST_PLACES, _NEIGHBOURS, _BLOCK = 40, 5, 4, 1 << 20


def sinusoids(
    encoding: Encoding | Rotary | str,
    length: int = 50,
    *,
    columns: Sequence[int] | None = None,
    start: float = 0,
    step: float | None = None,
    d_model: int = 128,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw some columns against position, as curves with a dot at each position. The legend shows their wavelengths.

    Parameters
    ----------
    encoding, length, start, step, d_model, title, ax
        As in `heatmap`.
    columns : sequence of int, optional
        Columns to draw (default: up to four columns with different wavelengths, each with half a period to 60 periods
        in the picture).

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`.

    Notes
    -----
    With more than 500 positions, there are no dots. A column with more than 60 periods is drawn as a band between its
    smallest and its largest value.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> import matplotlib.pyplot as plt
    >>> _, ax = plt.subplots()
    >>> ax = plot.sinusoids(pf.sinusoidal(8), columns=[0, 1], ax=ax)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['column 0: 6.28', 'column 1: 6.28']
    """
    name, encoding = one_axis(encoding, d_model)
    rows = Rows(encoding, length, None, start, step)
    first, last = rows.edges()
    chosen = _spread(encoding, abs(last - first)) if columns is None else [count_of(c, "columns", 0) for c in columns]
    if not chosen:
        raise ValueError("columns is empty; pass at least one column")
    if max(chosen) >= encoding.d_model:
        raise ValueError(f"columns has {max(chosen)}, but the encoding has columns 0 to {encoding.d_model - 1}")
    chosen_columns = encoding._of(encoding._sinusoids.take(chosen))
    dots = rows.shown(_DOTS)
    dot_positions = dots.positions.rounded()
    dot_values = encode(chosen_columns._plans, dots.positions, FLOAT32.stored)
    curve_positions = np.linspace(first, last, min(20 * rows.count, _POINTS))
    curve_values = chosen_columns.encode(curve_positions)
    axes = axes_of(ax)
    for i, c in enumerate(chosen):
        label, colour = f"column {c}: {wavelength(encoding.frequencies[c])}", line_colour(i)
        if _PERIODS * encoding.wavelengths[c] < abs(last - first):
            amplitude = abs(float(encoding.amplitudes[c]))
            axes.fill_between([first, last], -amplitude, amplitude, color=colour, alpha=0.3, label=label)
            continue
        axes.plot(curve_positions, curve_values[:, i], label=label, color=colour, linewidth=1.2)
        # a note means that positions were skipped because there are too many for dots
        if not dots.note:
            axes.plot(dot_positions, dot_values[:, i], ".", color=colour, markersize=5)
    name_axes(axes, name if title is None else title, "position", "value")
    _add_legend_outside(axes, len(chosen))
    return axes


def _add_legend_outside(axes: Axes, curves: int) -> None:
    """Add the legend beside wide Axes and above narrow ones, because curves fill the space inside."""
    inches = axes.get_window_extent().width / axes.figure.dpi
    axes.xaxis.set_major_locator(MaxNLocator(max(2, min(9, int(inches / 0.8))), steps=[1, 2, 5, 10]))
    place: dict[str, Any]
    if inches >= _WIDE:
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1), "title": "wavelength\n(positions)"}
    else:
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1.01, 1, 0.1), "mode": "expand"}
        place |= {"ncols": 2, "fontsize": "x-small"}
        # raise the title above the rows of the legend, which has two columns
        axes.set_title(axes.get_title(), fontsize="medium", wrap=True, pad=10 + 12 * -(-curves // 2))
    axes.legend(frameon=False, borderaxespad=0, **place)


def _spread(encoding: Encoding, distance: float) -> list[int]:
    """Return up to four columns of different wavelengths, with half a period to _PERIODS periods over a distance.

    If there is no such column, return the first column of the shortest wavelength.
    """
    lengths = np.abs(encoding.wavelengths)
    # `first_columns` has the first column of each wavelength, shortest wavelength first
    _, first_columns = np.unique(lengths, return_index=True)
    # leave out shorter wavelengths: with more than _PERIODS periods, a column would be drawn as a band
    shortest, longest = distance / _PERIODS, 2 * distance + 2
    visible = [c for c in first_columns.tolist() if shortest <= lengths[c] <= longest] or first_columns[:1].tolist()
    places = np.linspace(0, len(visible) - 1, min(4, len(visible))).round().astype(int)
    return [visible[i] for i in places]


def wavelengths(
    encoding: Encoding | Rotary | str,
    *,
    d_model: int = 128,
    label: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the wavelength of every column, or of every pair of a Rotary, on a logarithmic scale.

    Parameters
    ----------
    encoding, d_model, title, ax
        As in `heatmap`. A second call with the same Axes adds another series of dots.
    label : str, optional
        Name of the dots in the legend (default: the name of the encoding).

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`.

    Notes
    -----
    Columns and pairs of frequency 0 are not drawn.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> plot.wavelengths(pf.sinusoidal(64)).get_yscale()
    'log'
    """
    name, value = preset_or_value(encoding, d_model)
    rates = np.abs(value.frequencies)
    if rates.ndim != 1:
        words = (
            f"{value.ndim} axes, but must have one; draw the encoding of each axis"
            if isinstance(value, Encoding)
            else f"{value.ndim} frequencies for each pair, but must have one; plot.rotary draws its angles"
        )
        raise ValueError(f"encoding has {words}")
    nth = every_nth(len(rates), _POINTS)
    # columns of frequency 0 have no wavelength
    drawn = np.flatnonzero(rates[::nth] > 0) * nth
    if not len(drawn):
        raise ValueError("encoding has no column with a wavelength, because all frequencies are 0")
    axes = axes_of(ax)
    curve(axes, drawn, 2 * np.pi / rates[drawn], name if label is None else label, title, dots=True, markersize=5)
    columns = len(rates)
    axes.set_xlim(-0.5 - 0.02 * columns, columns - 0.5 + 0.02 * columns)
    note = note_of_skipped(nth)
    unit = "pair" if isinstance(value, Rotary) else "column"
    axes.set(yscale="log", xlabel=f"{unit}{note}", ylabel="wavelength (positions)")
    return axes


def frequencies(
    rotary: Rotary | str,
    original: Rotary | str | None = None,
    *,
    label: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the factor by which a scaling slows each pair: the unscaled frequency divided by the scaled frequency.

    Parameters
    ----------
    rotary : Rotary or str
        Rotary with a scaling, or the name of a preset. A second call with the same Axes adds a curve.
    original : Rotary or str, optional
        Rotary encoding to compare with, with the same number of pairs (default: the same base without scaling).
    label : str, optional
        Name of the curve in the legend (default: the name of the rotary encoding).
    title, ax
        As in `heatmap`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`, and if ``original`` is missing and ``rotary`` has no base.

    Notes
    -----
    Pairs of frequency 0 are not drawn.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> ax = plot.frequencies("llama3")
    >>> ax.get_lines()[-1].get_ydata()[[0, -1]].round(6).tolist()
    [1.0, 8.0]
    """
    name, scaled = rotary_of(rotary)
    plain = _original(scaled) if original is None else rotary_of(original, "original")[1]
    new, old = np.abs(scaled.frequencies), np.abs(plain.frequencies)
    if new.ndim != 1 or new.shape != old.shape:
        raise ValueError(
            f"rotary has frequencies of shape {new.shape} and original of shape {old.shape}, but both must have shape "
            "(pairs,), with the same number of pairs"
        )
    pairs = np.flatnonzero((new > 0) & (old > 0))
    if not len(pairs):
        raise ValueError("no pair can be drawn, because in each pair the frequency of rotary or of original is 0")
    axes = axes_of(ax)
    curve(axes, pairs, old[pairs] / new[pairs], name if label is None else label, title, marker=".", markersize=4)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set(xlabel="pair", ylabel="times slower")
    if axes.get_legend():
        # the lower right is free, because scalings slow the last pairs the most
        axes.legend(loc="lower right", fontsize="small")
    factors = np.concatenate([np.asarray(line.get_ydata()) for line in axes.get_lines()])
    exponents = np.log2(factors[factors > 0])
    # limits at powers of two, which have ticks
    axes.set_ylim(2 ** np.floor(exponents.min() - 0.2), 2 ** np.ceil(exponents.max() + 0.2))
    return axes


def _original(rotary: Rotary) -> Rotary:
    if rotary.base is None:
        raise ValueError(
            "rotary has no base, so its unscaled frequencies are unknown; in Python, pass original=, the Rotary to compare "
            "with"
        )
    return Rotary(rotary.head_dim, base=rotary.base, rotary_dim=rotary.rotary_dim)


def errors(
    encoding: Encoding | Rotary | str,
    values: Callable[[npt.NDArray[Any]], npt.ArrayLike] | npt.ArrayLike | None = None,
    positions: npt.ArrayLike | None = None,
    *,
    d_model: int = 128,
    label: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the largest error of each row against the position of the row.

    Parameters
    ----------
    encoding, d_model, title, ax
        As in `heatmap`. Values are compared with the exact values of this encoding. A second call with the same Axes
        adds a curve.
    values : callable or array_like, optional
        Rows of ``positions``, or a function that returns the rows of an array of positions. By default, two curves are
        drawn: for float32 values of the encoding with ``precision="exact"``, and with ``precision="float32"``.
    positions : array_like, optional
        Positions of the rows. Required if ``values`` is an array. By default, positions are groups of 4 neighbouring
        integers, from 1 to about 2e13, and the largest error of each group is drawn.
    label : str, optional
        Name of the curve in the legend, if ``values`` is given (default: the name of the function, or "values").

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`, and if the rows have a wrong shape, or each of them has a NaN or an infinity.

    Notes
    -----
    The values to compare with are exact values rounded to float64, with errors of up to 1e-15. So errors below 1e-15 in
    the picture mean nothing. A position with an error of zero has no dot on the logarithmic scale.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> from posenc_fast import plot
    >>> def tutorial(positions):
    ...     angles = positions[:, np.newaxis] * np.float32(100.0) ** (-np.arange(2, dtype=np.float32) / 2)
    ...     return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(-1, 4)
    >>> ax = plot.errors(pf.sinusoidal(4, base=100.0), tutorial, label="the tutorial")
    >>> ax.get_ylabel()
    'largest error'
    """
    name, encoding = one_axis(encoding, d_model)
    if positions is None:
        if values is not None and not callable(values):
            raise ValueError(
                "values is an array, so positions are needed too; pass one position for each row of values"
            )
        count, neighbours = affordable(_NEIGHBOURS * encoding.d_model, _PLACES, _LEAST_PLACES), _NEIGHBOURS
        starts = np.geomspace(1, 2e13, count).round().astype(np.int64)
        compared: Any = (starts[:, np.newaxis] + np.arange(neighbours)).reshape(-1)
    else:
        compared, neighbours = positions, 1
    converted = convert(compared, 1)
    if len(converted.shape) != 1 or not len(converted):
        raise ValueError(f"positions has shape {converted.shape}, but must have shape (n,), with at least one position")
    if values is None:
        curves = [
            (_error(encoding, converted, encoding.encode(compared, precision="float32")), "angles in float32"),
            (_error(encoding, converted, encoding.encode(compared)), "posenc_fast"),
        ]
    else:
        rows = values(np.asarray(compared)) if callable(values) else values
        source = getattr(values, "__name__", "values") if callable(values) else "values"
        curves = [(_error(encoding, converted, rows), source if label is None else label)]
    # draw one dot for the largest error of neighbouring positions, at the first of these positions
    dots = converted.rounded().reshape(-1, neighbours)[:, 0]
    axes = axes_of(ax)
    for row_errors, words in curves:
        curve(axes, dots, row_errors.reshape(-1, neighbours).max(axis=1), words, None, marker=".")
    axes.legend(fontsize="small")
    if any((np.asarray(line.get_ydata()) > 0).any() for line in axes.get_lines()):
        axes.set_yscale("log")
    if dots.min() > 0 and dots.max() > 100 * dots.min():
        axes.set_xscale("log")
    name_axes(axes, f"Errors of {name}" if title is None else title, "position", "largest error")
    return axes


def _error(encoding: Encoding, positions: Any, values: Any) -> npt.NDArray[np.float64]:
    """Return the largest error of each row of values, compared with the exact rows at the positions."""
    rows = np.asarray(values)
    if rows.shape != (len(positions), encoding.d_model) or rows.dtype.kind not in "fiu":
        raise ValueError(
            f"values have shape {rows.shape} and type {rows.dtype}, but must be numbers of shape "
            f"({len(positions)}, {encoding.d_model}), a row for each position"
        )
    worst = np.empty(len(rows))
    block = max(1, _BLOCK // encoding.d_model)
    for first in range(0, len(rows), block):
        part = slice(first, first + block)
        exact = encode(encoding._plans, positions.rows(part), FLOAT64.stored)
        worst[part] = np.abs(rows[part].astype(np.float64) - exact).max(axis=1)
    if not np.isfinite(worst).any():
        raise ValueError("every row of values has NaN or infinity, so no error can be drawn")
    return worst
