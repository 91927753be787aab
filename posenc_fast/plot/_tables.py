"""Draw tables as colours: values, angles, the angles of a head, and the shift of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

from .._core.encoding.picture import whole_pairs
from .._core.encoding.rows import encode
from .._core.encoding.value import Encoding
from .._core.numbers.formats import FLOAT32, FLOAT64
from .._core.positions.conversion import convert
from .._core.rotary.value import Rotary
from ._canvas import CYCLIC, SIGNED, Parts, add_angle_bar, axes_of, name_axes, picture, readable, room, ticks_that_fit
from ._subjects import Rows, every_nth, note_of_skipped, one_axis, rotary_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# largest number of columns of a transition matrix that `shift` draws completely
MATRIX = 32


def heatmap(
    encoding: Encoding | Rotary | str,
    length: int = 100,
    *,
    positions: npt.ArrayLike | None = None,
    start: float = 0,
    step: float | None = None,
    d_model: int = 128,
    title: str | None = None,
    cmap: str = SIGNED,
    ax: Axes | None = None,
) -> Axes:
    """Draw a table as colours: positions downwards, columns to the right.

    Parameters
    ----------
    encoding : Encoding, Rotary or str
        One-axis encoding, Rotary, or name of a preset. For a Rotary, all cosines are drawn, then all sines.
    length : int
        Number of positions.
    positions : array_like, optional
        Positions to draw, instead of a length: numbers or times, as in `Encoding.encode`. Missing positions have empty
        rows.
    start, step : float
        First position, and distance between positions (default: 0 and 1). For an encoding of exact periods, the
        default step makes the picture span the longest period.
    d_model : int
        Width of a preset given by name (default: 128), if the preset has a width parameter.
    title : str, optional
        Title of the picture (default: the name of the encoding).
    cmap : str
        Name of a matplotlib colormap.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into (default: the current Axes).

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. Nothing is drawn then.

    Notes
    -----
    A picture has at most 256 rows and 256 columns, and fewer if it is small. If a table has more rows, every n-th row
    is drawn. If it has more columns, all columns of every n-th frequency are drawn. The axis labels give n.
    Values are not averaged.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> plot.heatmap(pf.sinusoidal(64), 50).get_xlabel()
    'column'
    """
    name, encoding = one_axis(encoding, d_model)
    rows = Rows(encoding, length, positions, start, step)
    axes = axes_of(ax)
    most_rows, most_columns = room(axes)
    shown = rows.shown(most_rows)
    columns, skipped = whole_pairs(encoding._sinusoids, most_columns)
    values = encode(_taken(encoding, columns)._plans, shown.positions, FLOAT32.stored)
    image = picture(
        axes,
        values,
        columns=(-0.5, encoding.d_model - 0.5),
        rows=shown.edges,
        limits=_symmetric_limits(float(np.abs(encoding.amplitudes).max())),
        cmap=cmap,
    )
    axes.figure.colorbar(image, ax=axes, label="value")
    shown.label(axes)
    note = f"\n({skipped})" if skipped else ""
    name_axes(axes, name if title is None else title, f"column{note}", f"position{shown.note}")
    return axes


def _taken(encoding: Encoding, columns: npt.NDArray[np.intp]) -> Encoding:
    return encoding if len(columns) == encoding.d_model else encoding._of(encoding._sinusoids.take(columns))


def _symmetric_limits(largest: float) -> tuple[float, float]:
    """Return colour limits with zero in the middle."""
    return -(largest or 1.0), largest or 1.0


def angles(
    encoding: Encoding | Rotary | str,
    length: int = 100,
    *,
    positions: npt.ArrayLike | None = None,
    start: float = 0,
    step: float | None = None,
    d_model: int = 128,
    title: str | None = None,
    cmap: str = CYCLIC,
    ax: Axes | None = None,
) -> Axes:
    """Draw the angle of each frequency at each position, modulo 2π, in cyclic colours.

    Parameters
    ----------
    encoding, length, positions, start, step, d_model, title, cmap, ax
        As in `heatmap`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`.

    Notes
    -----
    The picture has one column for each frequency, the fastest at the left. The angle is ``position * frequency``, like
    the angle of a hand in `clocks`. In the default colormap, angle zero is light.

    Examples
    --------
    >>> from posenc_fast import plot
    >>> plot.angles("whisper", d_model=32).get_ylabel()
    'position'
    """
    name, encoding = one_axis(encoding, d_model)
    rows = Rows(encoding, length, positions, start, step)
    axes = axes_of(ax)
    most_rows, most_columns = room(axes)
    shown, distinct = rows.shown(most_rows), distinct_frequencies(encoding)
    nth = every_nth(len(distinct), most_columns)
    frequencies = distinct[::nth]
    rows_of_hands = encode(hands(frequencies)._plans, shown.positions, FLOAT64.stored)
    image = _angles(axes, rows_of_hands[:, 0::2], rows_of_hands[:, 1::2], shown.edges, len(frequencies), cmap)
    add_angle_bar(axes, image)
    labelled = ticks_that_fit(axes, len(frequencies), 6)
    axes.set_xticks(labelled, [wavelength(w) for w in frequencies[labelled]])
    shown.label(axes)
    words = f"Angles of {name}" if title is None else title
    name_axes(axes, words, f"wavelength (positions){note_of_skipped(nth)}", f"position{shown.note}")
    return axes


def _angles(axes: Axes, sines: Any, cosines: Any, edges: tuple[float, float], width: float, cmap: str) -> Any:
    values = np.arctan2(sines, cosines)
    return picture(axes, values, columns=(-0.5, width - 0.5), rows=edges, limits=(-np.pi, np.pi), cmap=cmap)


def distinct_frequencies(encoding: Encoding) -> npt.NDArray[np.float64]:
    """Return the distinct absolute values of the frequencies, the fastest first."""
    return np.unique(np.abs(encoding.frequencies))[::-1]


def hands(frequencies: npt.NDArray[np.float64]) -> Encoding:
    """Return an Encoding with two columns for each frequency: height (sine) and width (cosine) of a hand's end."""
    return Encoding(np.repeat(frequencies, 2), np.tile([0.0, 0.25], len(frequencies)))


def wavelength(frequency: float) -> str:
    """Return the label of a frequency: the number of positions in a period."""
    return readable(2 * np.pi / abs(frequency)) if frequency else "∞"


def rotary(
    rotary: Rotary | str,
    length: int = 100,
    *,
    positions: npt.ArrayLike | None = None,
    start: float = 0,
    step: float | None = None,
    title: str | None = None,
    cmap: str = CYCLIC,
    ax: Axes | None = None,
) -> Axes:
    """Draw the angles by which the pairs of a head are rotated: tokens downwards, pairs to the right.

    Parameters
    ----------
    rotary : Rotary or str
        Rotary of any number of axes, or the name of a preset.
    length : int
        Number of tokens. Token i has the position ``start + i * step`` on every axis.
    positions : array_like, optional
        Positions of the tokens, instead of a length, of shape (n,) or (n, axes). Functions of
        `posenc_fast.presets.positions` compute them.
    start, step, title, cmap, ax
        As in `heatmap`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`.

    Notes
    -----
    Pairs are in the order of the head. Values of a head that are not rotated are not drawn. If there are more rows or
    pairs than fit in the picture, every n-th is drawn, as in `heatmap`.

    Examples
    --------
    >>> from posenc_fast import plot
    >>> plot.rotary("llama3").get_title()
    'Angles of llama3, 64 pairs'
    """
    name, value = rotary_of(rotary)
    rows = Rows(value, length, positions, start, step)
    axes = axes_of(ax)
    most_rows, most_pairs = room(axes)
    pairs = value.rotary_dim // 2
    nth = every_nth(pairs, most_pairs)
    shown, chosen = rows.shown(most_rows), np.arange(0, pairs, nth)
    waves = _taken(value._angles_of("cos", "sin"), np.concatenate([chosen, pairs + chosen]))
    cosines, sines = np.split(encode(waves._plans, shown.positions, FLOAT64.stored), 2, axis=1)
    add_angle_bar(axes, _angles(axes, sines, cosines, shown.edges, pairs, cmap))
    shown.label(axes)
    all_axes = " (all axes)" if value.ndim > 1 and positions is None else ""
    words = f"Angles of {name}" if title is None else title
    name_axes(axes, words, f"pair{note_of_skipped(nth)}", f"token{all_axes}{shown.note}")
    return axes


def shift(
    encoding: Encoding | Rotary | str,
    length: int = 100,
    offset: float | np.timedelta64 = 10,
    *,
    d_model: int = 128,
    title: str | None = None,
    cmap: str = SIGNED,
    axes: Sequence[Axes] | None = None,
) -> npt.NDArray[Any]:
    """Draw a table, the transition matrix of an offset, and their product, which is the shifted table.

    Parameters
    ----------
    encoding, length, d_model, cmap
        As in `heatmap`. The encoding must have pairs of columns, as for `Encoding.shift`.
    offset : float or timedelta64
        Distance of the shift. A timedelta64 counts in seconds.
    title : str, optional
        Title of the table (default: the name of the encoding).
    axes : sequence of three matplotlib.axes.Axes, optional
        Axes to draw into (default: the Axes of a new figure).

    Returns
    -------
    ndarray of three matplotlib.axes.Axes
        If the matrix has more than 32 columns, the second Axes show the columns of every n-th frequency.

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`, and if a column has no partner a quarter turn apart.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> plot.shift(pf.sinusoidal(16))
    <3 Axes>
    """
    name, encoding = one_axis(encoding, d_model)
    distance: Any = offset
    matrix_columns, skipped_in_matrix = whole_pairs(encoding._sinusoids, MATRIX)
    matrix = _taken(encoding, matrix_columns).transition_matrix(distance)
    # transition_matrix has checked that the offset is a number or a time
    moved = float(convert(offset, 1, "offset").rounded())
    by = f"{offset:.6g}" if isinstance(offset, (int, float)) else str(offset)
    rows = Rows(encoding, length, None, 0, 1)
    if axes is None:
        _, axes = plt.subplots(1, 3, figsize=(12, 3.5), layout="constrained")
    result: npt.NDArray[Any] = np.asarray(axes)
    if result.shape != (3,):
        raise ValueError(f"axes must be three Axes, not an array of shape {result.shape}")
    most_rows, most_columns = room(result[0])
    columns, skipped = whole_pairs(encoding._sinusoids, most_columns)
    shown, table_encoding = rows.shown(most_rows), _taken(encoding, columns)
    table = encode(table_encoding._plans, shown.positions, FLOAT64.stored)
    shifted = table @ table_encoding.transition_matrix(distance)
    limits = _symmetric_limits(float(np.abs(encoding.amplitudes).max()))
    first, last = shown.edges
    wide = (-0.5, encoding.d_model - 0.5)
    column = f"column\n({skipped})" if skipped else "column"
    column_of_matrix = f"column\n({skipped_in_matrix})" if skipped_in_matrix else "column"
    square = (-0.5, len(matrix_columns) - 0.5)
    picture(result[0], table, columns=wide, rows=(first, last), limits=limits, cmap=cmap)
    picture(result[1], matrix, columns=square, rows=square, limits=(-1, 1), cmap=cmap)
    picture(result[2], shifted, columns=wide, rows=(first + moved, last + moved), limits=limits, cmap=cmap)
    name_axes(result[0], name if title is None else title, column, f"position{shown.note}")
    name_axes(result[1], f"× transition matrix of {by}", column_of_matrix, "column")
    name_axes(result[2], f"= table moved by {by}", column, f"position{shown.note}")
    if skipped_in_matrix:
        ticks = np.arange(0, len(matrix_columns), 8)
        result[1].set_xticks(ticks, matrix_columns[ticks])
        result[1].set_yticks(ticks, matrix_columns[ticks])
    return result.view(Parts)
