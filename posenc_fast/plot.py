"""Pictures of encodings, with matplotlib: look before you believe.

Each function takes an Encoding of one axis, or the name of a preset, and draws into the Axes that it is given, or into
the current ones. On the command line: ``posenc-fast plot KIND D_MODEL -o FILE``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._encoding.rows import encode
from ._encoding.value import Encoding
from ._numbers.arguments import count_of, real
from ._positions.conversion import convert
from .presets._registry import encoding_preset

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["angles", "clocks", "heatmap", "shift", "similarity", "sinusoids", "wavelengths"]


def __dir__() -> list[str]:
    return sorted(__all__)


try:
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise ImportError("posenc_fast.plot needs matplotlib: pip install matplotlib") from error

# zero is white, what is positive warm; red and blue are told apart by everybody
_SIGNED = "RdBu_r"
_CYCLIC = "twilight"
# rows or columns that any picture has pixels for, and enough of them for a mean
CELLS, FINE = 256, 2048
# columns of a matrix of which each is seen
MATRIX = 32
# from the middle of a clock to that of the next, at least; its radius is 1
CLOCK = 2.5


def _encoding(what: Encoding | str, d_model: int) -> Encoding:
    """Return the encoding itself, or that of a preset; of one axis."""
    if isinstance(what, str):
        try:
            what = encoding_preset(what)(d_model)
        except AttributeError as error:
            raise ValueError(f"encoding={what!r}: {error}") from None
    if not isinstance(what, Encoding):
        raise TypeError(f"encoding must be an Encoding or the name of a preset, not {type(what).__name__}")
    if what.ndim != 1:
        raise ValueError(f"encoding has {what.ndim} axes, but must have one; draw the encoding of each axis")
    return what


def _name(what: Encoding | str, encoding: Encoding) -> str:
    """Return its name in a title: the preset, or the recipe where that fits into a line."""
    if isinstance(what, str):
        return f"{what}, {encoding.d_model} columns"
    built = repr(encoding).strip("<>")
    return built if len(built) <= 60 else f"Encoding of {encoding.d_model} columns"


def new_figure(parts: int) -> Any:
    """Return a figure that needs no screen, and its Axes."""
    figure = Figure(figsize=(7, 4.2) if parts == 1 else (4 * parts, 3.5), layout="constrained")
    return figure, figure.subplots(1, parts)


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    axes: Axes = plt.gca()
    figure = plt.gcf()
    if figure.get_layout_engine() is None and figure.axes == [axes]:
        # or labels beside the Axes are cut off where a figure is saved
        figure.set_layout_engine("constrained")
    return axes


def _picture(ax: Axes, values: npt.NDArray[Any], first: float, largest: float, cmap: str = _SIGNED) -> Any:
    """Draw rows downwards from position ``first``, columns to the right."""
    rows, columns = values.shape
    fine = max(rows, columns) > CELLS
    if fine:
        # a pixel shows the mean of its cells, or patterns would appear that are not there; where cells are larger than
        # pixels, repeating them keeps their edges
        values = values.repeat(-(-FINE // rows), axis=0).repeat(-(-FINE // columns), axis=1)
    for axis, whole in ((ax.xaxis, True), (ax.yaxis, first == int(first))):
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=whole))
    return ax.imshow(
        values,
        cmap=cmap,
        vmin=-largest,
        vmax=largest,
        aspect="auto",
        interpolation="antialiased" if fine else "nearest",
        # of angles the colours have a mean, the numbers have not: -pi and pi are one
        interpolation_stage="rgba" if cmap == _CYCLIC else "data",
        extent=(-0.5, columns - 0.5, first + rows - 0.5, first - 0.5),
    )


def _readable(number: float) -> str:
    """Return three digits, and all those before the point."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def heatmap(
    encoding: Encoding | str, length: int = 100, *, start: float = 0, d_model: int = 128, ax: Axes | None = None
) -> Axes:
    """Draw a table as colours: positions downwards, columns to the right.

    Parameters
    ----------
    encoding : Encoding or str
        Of one axis, or the name of a preset.
    length : int
        Number of positions.
    start : float
        First position.
    d_model : int
        Width of a preset that is given by name.
    ax : matplotlib.axes.Axes, optional
        Where to draw; the current ones if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit; nothing has been drawn then.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> plot.heatmap(pf.sinusoidal(64), 50).get_xlabel()
    'column'
    """
    what, encoding = encoding, _encoding(encoding, d_model)
    table = encoding.table(count_of(length, "length", 1), start=start)
    axes = _axes(ax)
    image = _picture(axes, table, start, float(np.abs(encoding.amplitudes).max()) or 1.0)
    axes.figure.colorbar(image, ax=axes, label="value")
    axes.set(title=_name(what, encoding), xlabel="column", ylabel="position")
    return axes


def angles(
    encoding: Encoding | str, length: int = 100, *, start: float = 0, d_model: int = 128, ax: Axes | None = None
) -> Axes:
    """Draw the angle of every frequency at every position, whole turns taken off, in colours that close a circle.

    Parameters
    ----------
    encoding, length, start, d_model, ax
        As in `heatmap`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As for `heatmap`.

    Notes
    -----
    One column of the picture for each frequency, the fastest at the left: ``position * frequency``, where the hand of
    that clock in `clocks` points. Sine and cosine columns are its height and its width.

    Examples
    --------
    >>> from posenc_fast import plot
    >>> plot.angles("whisper", d_model=32).get_ylabel()
    'position'
    """
    what, encoding = encoding, _encoding(encoding, d_model)
    rows = count_of(length, "length", 1)
    frequencies = _clocks_of(encoding)
    hands = _hands(frequencies).table(rows, start=start, dtype=np.float64).reshape(rows, -1, 2)
    axes = _axes(ax)
    image = _picture(axes, np.arctan2(hands[..., 0], hands[..., 1]), start, np.pi, _CYCLIC)
    bar = axes.figure.colorbar(image, ax=axes, label="angle (radians)", ticks=[-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi])
    bar.ax.set_yticklabels(["← −π", "↓ −π/2", "→ 0", "↑ π/2", "← π"])
    shown = np.unique(np.linspace(0, len(frequencies) - 1, min(6, len(frequencies))).round().astype(int))
    axes.set_xticks(shown, [_wavelength(w) for w in frequencies[shown]])
    axes.set(title=f"Angles of {_name(what, encoding)}", xlabel="wavelength (positions)", ylabel="position")
    return axes


def _clocks_of(encoding: Encoding) -> npt.NDArray[np.float64]:
    """Return the distinct frequencies, the fastest first."""
    return np.unique(np.abs(encoding.frequencies))[::-1]


def _hands(frequencies: npt.NDArray[np.float64]) -> Encoding:
    """Return an encoding of each frequency's hand: the sine is how far up it points, the cosine how far to the right."""
    return Encoding(np.repeat(frequencies, 2), np.tile([0.0, 0.25], len(frequencies)))


def _wavelength(frequency: float) -> str:
    return _readable(2 * np.pi / abs(frequency)) if frequency else "∞"


def wavelengths(encoding: Encoding | str, *, d_model: int = 128, ax: Axes | None = None) -> Axes:
    """Draw the wavelength of every column, on a logarithmic scale.

    Parameters
    ----------
    encoding, d_model, ax
        As in `heatmap`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As for `heatmap`.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> plot.wavelengths(pf.sinusoidal(64)).get_yscale()
    'log'
    """
    what, encoding = encoding, _encoding(encoding, d_model)
    axes = _axes(ax)
    lengths = np.abs(encoding.wavelengths)
    # constant columns have none
    finite = np.isfinite(lengths)
    others = axes.has_data()
    axes.semilogy(np.flatnonzero(finite), lengths[finite], ".", label=_name(what, encoding))
    # a legend says what a title cannot: which dots are whose
    if others:
        axes.set_title("")
        axes.legend()
    else:
        axes.set_title(_name(what, encoding))
    axes.set_xlim(-0.5 - 0.02 * encoding.d_model, encoding.d_model - 0.5 + 0.02 * encoding.d_model)
    axes.set(xlabel="column", ylabel="wavelength (positions)")
    axes.grid(alpha=0.3)
    return axes


def sinusoids(
    encoding: Encoding | str,
    length: int = 50,
    *,
    columns: Sequence[int] | None = None,
    start: float = 0,
    d_model: int = 128,
    ax: Axes | None = None,
) -> Axes:
    """Draw some columns against position, as curves, with a dot at every position; the legend has their wavelengths.

    Parameters
    ----------
    encoding, length, start, d_model, ax
        As in `heatmap`.
    columns : sequence of int, optional
        Which columns; if not given four whose wavelengths are spread over those that can be seen.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As for `heatmap`.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> ax = plot.sinusoids(pf.sinusoidal(8), columns=[0, 1])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['column 0: 6.28', 'column 1: 6.28']
    """
    what, encoding = encoding, _encoding(encoding, d_model)
    rows = count_of(length, "length", 1)
    chosen = _spread(encoding, rows) if columns is None else [count_of(c, "columns", 0) for c in columns]
    if max(chosen, default=0) >= encoding.d_model:
        raise ValueError(f"columns has {max(chosen)}, but the encoding has columns 0 to {encoding.d_model - 1}")
    dots = encoding.table(rows, start=start)
    fine = start + np.linspace(0, rows - 1, min(20 * rows, 4000))
    smooth = encoding.encode(fine)
    axes = _axes(ax)
    for c, colour in zip(chosen, plt.get_cmap("viridis")(np.linspace(0, 0.85, len(chosen))), strict=True):
        label = f"column {c}: {_wavelength(encoding.frequencies[c])}"
        axes.plot(fine, smooth[:, c], label=label, color=colour, linewidth=1)
        axes.plot(start + np.arange(rows), dots[:, c], ".", color=colour, markersize=5)
    axes.set(title=_name(what, encoding), xlabel="position", ylabel="value")
    # beside the curves, which fill all there is between the axes
    axes.legend(
        title="wavelength\n(positions)", loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, borderaxespad=0
    )
    return axes


def _spread(encoding: Encoding, rows: int) -> list[int]:
    """Return one column of each of four frequencies, from the highest to one of which a period can be seen."""
    lengths = np.abs(encoding.wavelengths)
    _, first = np.unique(lengths, return_index=True)
    seen = [c for c in first.tolist() if lengths[c] <= 2 * rows] or first[:1].tolist()
    places = np.linspace(0, len(seen) - 1, min(4, len(seen))).round().astype(int)
    return [seen[i] for i in places]


def similarity(
    encoding: Encoding | str,
    position: float = 0.0,
    *,
    span: int = 100,
    d_model: int = 128,
    ax: Axes | None = None,
) -> Axes:
    """Draw how alike the encoding of a position and those around it are: dot product and squared error.

    Parameters
    ----------
    encoding, d_model, ax
        As in `heatmap`.
    position : float
        The position in the middle.
    span : int
        How far to go to both sides.

    Returns
    -------
    matplotlib.axes.Axes
        Of the dot products; the squared errors are on a second axis at its right.

    Raises
    ------
    TypeError, ValueError
        As for `heatmap`.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> plot.similarity(pf.sinusoidal(64), 500).get_xlabel()
    'offset from position 500'
    """
    what, encoding = encoding, _encoding(encoding, d_model)
    middle, reach = real(position, "position"), count_of(span, "span", 1)
    offsets = np.arange(-reach, reach + 1)
    rows = encoding.encode(middle + offsets, dtype=np.float64)
    centre = rows[reach]
    axes = _axes(ax)
    right = axes.twinx()
    axes.plot(offsets, rows @ centre, color="C0")
    right.plot(offsets, ((rows - centre) ** 2).sum(axis=1), color="C1", linestyle="--")
    axes.set(title=f"Similarity of rows of {_name(what, encoding)}", xlabel=f"offset from position {middle:.15g}")
    # the colour of a label says which curve is meant
    axes.set_ylabel("dot product (solid)", color="C0")
    right.set_ylabel("sum of squared differences (dashed)", color="C1")
    return axes


def clocks(
    encoding: Encoding | str,
    positions: Sequence[float] = (0, 1, 10, 100),
    *,
    pairs: int = 8,
    d_model: int = 128,
    ax: Axes | None = None,
) -> Axes:
    """Draw pairs of columns as the hands of clocks: one row of clocks a position, one column a frequency.

    Parameters
    ----------
    encoding, d_model, ax
        As in `heatmap`.
    positions : sequence of float, or of datetime64
        What time the clocks show.
    pairs : int
        How many frequencies at most, equally spaced among all, the fastest first.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As for `heatmap`.

    Notes
    -----
    A hand's angle is ``position * frequency``, counted from the right and upwards: its height is the sine column, its
    width the cosine column.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> ax = plot.clocks(pf.sinusoidal(6), [0, 1, 2])
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['6.28', '135', '2,916']
    """
    what, encoding = encoding, _encoding(encoding, d_model)
    every = _clocks_of(encoding)
    shown = min(count_of(pairs, "pairs", 1), len(every))
    frequencies = every[np.linspace(0, len(every) - 1, shown).round().astype(int)]
    converted = convert(positions, 1)
    times = converted.rounded().reshape(-1)
    hands = encode(_hands(frequencies)._plans, converted, times.dtype)
    axes = _axes(ax)
    across, down = _spacing(axes, shown, len(times))
    for i, row in enumerate(hands.reshape(len(times), shown, 2)):
        for j, (up, right) in enumerate(row):
            x, y = across * j, -down * i
            axes.add_patch(Circle((x, y), 1.0, fill=False, color="0.7"))
            axes.plot([x, x + right], [y, y + up], color="C0", linewidth=2, solid_capstyle="round")
    axes.set_xticks(across * np.arange(shown), [_wavelength(w) for w in frequencies])
    axes.set_yticks(-down * np.arange(len(times)), _labels(positions, times))
    axes.set(
        title=f"{_name(what, encoding)}: {shown} of {len(every)} pairs",
        xlabel="wavelength (positions)",
        ylabel="position",
        aspect="equal",
        xlim=(-across / 2, across * (shown - 0.5)),
        ylim=(-down * (len(times) - 0.5), down / 2),
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes


def _labels(positions: Any, numbers: npt.NDArray[np.float64]) -> list[str]:
    """Return labels of positions: times as times, and not as seconds."""
    values = np.asarray(positions).reshape(-1)
    return [str(time) for time in values] if values.dtype.kind in "mM" else [f"{number:.15g}" for number in numbers]


def _spacing(axes: Axes, columns: int, rows: int) -> tuple[float, float]:
    """Return distances of the clocks that fill the Axes, whatever their shape is."""
    box = axes.get_window_extent()
    wide, high = CLOCK * columns, CLOCK * max(rows, 1)
    shape = box.height / box.width if box.width > 0 else high / wide
    return CLOCK * max(1.0, high / (wide * shape)), CLOCK * max(1.0, wide * shape / high)


def shift(
    encoding: Encoding | str,
    length: int = 100,
    offset: float | np.timedelta64 = 10,
    *,
    d_model: int = 128,
    axes: Sequence[Axes] | None = None,
) -> npt.NDArray[Any]:
    """A table, the matrix that moves it, and the moved table: ``table @ transition_matrix(offset)``.

    Parameters
    ----------
    encoding, length, d_model
        As in `heatmap`; the encoding has pairs of columns, as `Encoding.shift` needs them.
    offset : float or timedelta64
        How far to move; a timedelta64 is as many seconds.
    axes : sequence of three matplotlib.axes.Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    ndarray of three matplotlib.axes.Axes
        Of a matrix of more than 32 columns the second shows those of 16 frequencies, equally spaced among all.

    Raises
    ------
    TypeError, ValueError
        As for `heatmap`, and for columns without a partner.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> len(plot.shift(pf.sinusoidal(16)))
    3
    """
    what, encoding = encoding, _encoding(encoding, d_model)
    distance: Any = offset
    matrix = encoding.transition_matrix(distance)
    # the matrix has taken the offset, so it is a number or a time
    moved = float(convert(offset, 1, "offset").rounded())
    by = f"{offset:.6g}" if isinstance(offset, (int, float)) else str(offset)
    table = encoding.table(count_of(length, "length", 1), dtype=np.float64)
    if axes is None:
        _, axes = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    result: npt.NDArray[Any] = np.asarray(axes)
    if result.shape != (3,):
        raise ValueError(f"axes must be three Axes, not an array of shape {result.shape}")
    largest = float(np.abs(encoding.amplitudes).max())
    chosen = _matrix_columns(encoding)
    part = "" if len(chosen) == encoding.d_model else f", {len(chosen)} of {encoding.d_model} columns"
    parts = (
        (table, 0, largest, "position", _name(what, encoding)),
        (matrix[np.ix_(chosen, chosen)], 0, 1.0, "column", f"transition matrix of {by}{part}"),
        (table @ matrix, moved, largest, "position", f"table times matrix: moved by {by}"),
    )
    for ax, (values, first, most, label, title) in zip(result, parts, strict=True):
        _picture(ax, values, first, most)
        ax.set(title=title, xlabel="column", ylabel=label)
        ax.title.set_size("medium")
    if part:
        places = np.arange(0, len(chosen), 8)
        result[1].set_xticks(places, chosen[places])
        result[1].set_yticks(places, chosen[places])
    return result


def _matrix_columns(encoding: Encoding) -> npt.NDArray[np.intp]:
    """Return all columns, or those of frequencies that are equally spaced among all; partners stay together."""
    if encoding.d_model <= MATRIX:
        return np.arange(encoding.d_model)
    every, which = np.unique(np.abs(encoding.frequencies), return_inverse=True)
    kept = np.unique(np.linspace(0, len(every) - 1, min(MATRIX // 2, len(every))).round().astype(int))
    return np.flatnonzero(np.isin(which, kept))
