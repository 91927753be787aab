"""Draw the similarity of rows: around a position, over a distance, and over the patches of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._core.encoding.sinusoids import Sinusoids
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of, real
from .._core.rotary.value import Rotary
from ._canvas import LIKENESS, axes_of, curve, name_axes, picture, room
from ._subjects import affordable, as_encoding, every_nth, note_of_skipped, one_axis, preset_or_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# _POINTS is the largest number of points of a curve. If a row has very many columns, fewer points or cells of a grid
# are drawn, but at least _LEAST_POINTS. _BLOCK is the number of values that are computed at a time.
_POINTS, _LEAST_POINTS, _BLOCK = 2000, 20, 1 << 20


def similarity(
    encoding: Encoding | Rotary | str,
    position: float = 0.0,
    *,
    span: int = 100,
    step: float = 1,
    d_model: int = 128,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the dot products of one row with the rows around it, divided by the dot product of this row with itself.

    Parameters
    ----------
    encoding, d_model, title, ax
        As in `heatmap`. The rows of a Rotary are its cosines and sines. Their similarity is the mean cosine over all
        pairs, as in `decay`.
    position : float
        Position in the middle.
    span : int
        Number of rows on each side.
    step : float
        Distance between neighbouring rows.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`, and if all values of the row of ``position`` are 0.

    Notes
    -----
    If the columns are pairs of sines and cosines, all rows have the same norm. The squared distance of two rows is then
    proportional to one minus their similarity. If there are more than 2000 rows, every n-th is drawn, and the axis
    label gives n.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> plot.similarity(pf.sinusoidal(64), 500).get_xlabel()
    'offset from position 500'
    """
    name, encoding = one_axis(encoding, d_model)
    middle, distance = real(position, "position"), real(step, "step", positive=True)
    rows_on_side = count_of(span, "span", 1)
    nth = every_nth(2 * rows_on_side, affordable(encoding.d_model, _POINTS, _LEAST_POINTS))
    # draw every n-th row, counted from the middle, so that the row of the position itself is drawn
    drawn_on_side = rows_on_side // nth
    offsets = np.arange(-drawn_on_side, drawn_on_side + 1) * (nth * distance)
    dots = _likeness(encoding, middle + offsets, middle, f"position {middle:.15g}")
    axes = axes_of(ax)
    curve(axes, offsets, dots, name, f"Similarity of rows of {name}" if title is None else title)
    axes.set(xlabel=f"offset from position {middle:.15g}{note_of_skipped(nth, 'row')}", ylabel="similarity")
    return axes


def _likeness(encoding: Encoding, positions: npt.NDArray[Any], middle: Any, words: str) -> npt.NDArray[np.float64]:
    """Return the dot products of the rows of positions with the row of `middle`, divided by the square of its norm.

    words: text for `middle` in the error for a row of zeros.
    """
    centre = encoding.encode(middle, dtype=np.float64)
    square = float(centre @ centre)
    if not square > 0:
        raise ValueError(f"the row of {words} is all zeros, so it has no similarity to other rows")
    dots = np.empty(len(positions))
    block = max(1, _BLOCK // encoding.d_model)
    for first in range(0, len(positions), block):
        part = slice(first, first + block)
        dots[part] = encoding.encode(positions[part], dtype=np.float64) @ centre
    return dots / square


def decay(
    encoding: Encoding | Rotary | str,
    distance: int = 131072,
    *,
    d_model: int = 128,
    label: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean cosine over all pairs against the distance of two positions.

    Parameters
    ----------
    encoding, d_model, title, ax
        As in `heatmap`. A second call with the same Axes adds a curve.
    distance : int
        Largest distance. Distances start at 1, and their steps grow.
    label : str, optional
        Name of the curve in the legend (default: the name of the encoding).

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`.

    Notes
    -----
    The curve is the mean of ``cos(distance * frequency)`` over the pairs. If a query and a key are equal, and their
    pairs are all alike, this mean is the dot product of the rotated query and key, divided by their dot product at
    distance 0. For an Encoding, columns are weighted by their squared amplitudes. The curve is then the dot product of
    two rows at this distance, averaged over all positions, and divided by that at distance 0.

    Examples
    --------
    >>> import posenc_fast as pf
    >>> from posenc_fast import plot
    >>> import matplotlib.pyplot as plt
    >>> _, ax = plt.subplots()
    >>> ax = plot.decay(pf.Rotary(64), ax=ax)
    >>> ax = plot.decay(pf.Rotary(64, base=500_000), ax=ax)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['Rotary(64)', 'Rotary(64, base=500000.0)']
    """
    name, encoding = one_axis(encoding, d_model)
    farthest = count_of(distance, "distance", 2)
    if farthest > 2**62:
        raise ValueError(f"distance={farthest} must be at most 2^62")
    distances = np.unique(
        np.geomspace(1, farthest, affordable(encoding.d_model, _POINTS, _LEAST_POINTS)).round().astype(np.int64)
    )
    sinusoids = encoding._sinusoids
    # columns with the same frequency contribute the same cosine, so add up their weights
    index, frequency_of_column = np.unique(sinusoids.index[:, 0], return_inverse=True)
    weights = np.bincount(frequency_of_column, sinusoids.amplitudes**2)
    if not weights.sum() > 0:
        raise ValueError("all columns of encoding are zero; pass an encoding with a column that is not zero")
    cosines = encoding._of(
        Sinusoids(sinusoids.schedules, index[:, np.newaxis], np.full(len(index), 0.25), np.ones(len(index)))
    )
    means = np.empty(len(distances))
    block = max(1, _BLOCK // len(index))
    for first in range(0, len(distances), block):
        part = slice(first, first + block)
        means[part] = cosines.encode(distances[part], dtype=np.float64) @ weights / weights.sum()
    axes = axes_of(ax)
    curve(axes, distances, means, name if label is None else label, title, linewidth=1)
    axes.set(xscale="log", xlabel="distance (positions)", ylabel="mean cosine over pairs")
    return axes


def grid(
    encoding: Encoding | Rotary | str,
    shape: Sequence[int] = (14, 14),
    patch: Sequence[int] | None = None,
    *,
    step: float = 1,
    d_model: int = 128,
    title: str | None = None,
    cmap: str = LIKENESS,
    ax: Axes | None = None,
) -> Axes:
    """Draw the similarity of one image patch to all patches.

    The similarity is the dot product of both encodings, divided by the dot product of the encoding of ``patch`` with
    itself.

    Parameters
    ----------
    encoding : Encoding, Rotary or str
        Encoding or Rotary of two axes, or the name of a preset.
    shape : pair of int
        Rows and columns of patches.
    patch : pair of int, optional
        Row and column of the patch to compare with (default: the patch in the middle).
    step : float
        Distance between neighbouring patches. A patch is at ``(step * row, step * column)``.
    d_model, title, cmap, ax
        As in `heatmap`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        As in `heatmap`, and if the patch is outside of the image.

    Notes
    -----
    If the image has more patches than fit in the picture, every n-th row and column is drawn.

    Examples
    --------
    >>> from posenc_fast import plot
    >>> plot.grid("mae", patch=(4, 9)).get_title()
    'mae, 128 columns: similarity to patch (4, 9)'
    """
    name, value = preset_or_value(encoding, d_model)
    if value.ndim != 2:
        raise ValueError(f"encoding must have two axes, for rows and columns of an image, but has {value.ndim}")
    size = [count_of(count, f"shape[{i}]", 1) for i, count in enumerate(_pair(shape, "shape"))]
    middle = [count // 2 for count in size] if patch is None else _pair(patch, "patch")
    centre = [count_of(place, f"patch[{i}]", 0) for i, place in enumerate(middle)]
    if any(place >= count for place, count in zip(centre, size, strict=True)):
        raise ValueError(f"patch={tuple(centre)} is outside of the image, whose shape is {tuple(size)}")
    distance = real(step, "step", positive=True)
    encoding = as_encoding(value)
    axes = axes_of(ax)
    most = affordable(encoding.d_model, max(room(axes)) ** 2, _LEAST_POINTS)
    nth = [every_nth(count, min(side, math.isqrt(most))) for count, side in zip(size, room(axes), strict=True)]
    # begin at place % n, so that the row and the column of the patch itself are drawn
    shown = [np.arange(place % n, count, n) for place, count, n in zip(centre, size, nth, strict=True)]
    points = distance * np.stack(np.meshgrid(*shown, indexing="ij"), axis=-1).reshape(-1, 2)
    dots = _likeness(encoding, points, [distance * place for place in centre], f"patch {tuple(centre)}")
    image = picture(
        axes,
        dots.reshape(len(shown[0]), len(shown[1])),
        columns=_edges(shown[1], nth[1]),
        rows=_edges(shown[0], nth[0]),
        limits=(float(dots.min()), 1.0),
        cmap=cmap,
    )
    axes.set_aspect("equal")
    axes.figure.colorbar(image, ax=axes, label="similarity")
    axes.plot(centre[1], centre[0], "x", color="black", markersize=7, markeredgewidth=1.5)
    notes = [note_of_skipped(n) for n in nth]
    words = f"{name}: similarity to patch {tuple(centre)}"
    name_axes(axes, words if title is None else title, f"column{notes[1]}", f"row{notes[0]}")
    return axes


def _edges(shown: npt.NDArray[np.intp], nth: int) -> tuple[float, float]:
    return float(shown[0]) - 0.5 * nth, float(shown[-1]) + 0.5 * nth


def _pair(value: Any, name: str) -> list[Any]:
    try:
        pair = list(value)
    except TypeError:
        pair = []
    if len(pair) != 2:
        raise ValueError(f"{name} must be two integers, for rows and for columns, not {value!r}")
    return pair
