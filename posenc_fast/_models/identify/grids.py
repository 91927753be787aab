"""Identify tables over two and three axes. Compare them with presets on each grid that has one point per row."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..._core.encoding.value import Encoding
from ...presets._images import diffusers_2d
from ...presets._registry import FACTS
from .angles import BLOCK, Table, scale_of, tolerated

# number of rows that are compared first, to reject most presets and shapes
_SAMPLE = 8
# largest ratio of the lengths of the last two axes, in the shapes to try
_LONGEST = 16
# Maps the name of a preset's first parameter to a number. The argument is the width divided by this number.
_WIDTHS = {"num_pos_feats": 2, "channels": 1}


class GridFit(NamedTuple):
    """The encoding of a table over several axes.

    presets: names of presets that return the encoding. axes: argument of `grid`. scale: factor of all columns. error:
    largest difference from the table.
    """

    presets: tuple[str, ...]
    encoding: Encoding
    axes: tuple[int | range, ...]
    scale: float
    error: float


def fit_grid(table: Table, start: float | None, shape: tuple[int, ...] | None) -> GridFit | None:
    """Return the first preset and grid that match the table after its leading rows of zeros, or None."""
    skipped = next(i for i, row in enumerate((*table.zero_rows, -1)) if row != i)
    points = len(table.whole) - skipped
    if shape is not None and skipped:
        return None
    names_of: dict[Encoding, list[str]] = {}
    for name, encoding in _presets(table.whole.shape[1]):
        names_of.setdefault(encoding, []).append(name)
    sampled = np.unique(np.linspace(0, points - 1, _SAMPLE).astype(np.intp))
    sample = table.whole[skipped + sampled].astype(np.float64)
    shapes = [*_shapes(points, 2), *_shapes(points, 3)] if shape is None else [shape]
    candidates = [
        (lengths, encoding, names)
        for encoding, names in names_of.items()
        for lengths in shapes
        if len(lengths) == encoding.ndim
    ]
    candidates += [
        (lengths, encoding, ["diffusers_2d"]) for lengths in shapes for encoding in _stretched(lengths, table)
    ]
    for lengths, encoding, names in candidates:
        cells = np.stack(np.unravel_index(sampled, lengths), -1)
        for firsts in _firsts(lengths, start):
            angles = (cells + firsts) @ encoding.frequencies.T
            expected = encoding.amplitudes * np.sin(angles + 2 * np.pi * encoding.phases)
            scale = scale_of(table, sample, expected)
            if scale == 0 or (np.abs(sample - scale * expected) > tolerated(table, sample, angles, scale)).any():
                continue
            error = _compared(table, skipped, encoding, lengths, firsts, scale)
            if error is not None:
                axes = tuple(n if f == 0 else range(f, f + n) for f, n in zip(firsts, lengths, strict=True))
                return GridFit(tuple(names), encoding, axes, scale, error)
    return None


def _presets(d: int) -> Iterator[tuple[str, Encoding]]:
    """Yield (name, encoding) of the presets of two or three axes that have this width, with default parameters."""
    for name, facts in sorted(FACTS.items()):
        parameters = list(inspect.signature(facts.build).parameters)
        # some presets have no parameters, and a fixed width
        first = parameters[0] if parameters else ""
        if facts.rotary or facts.axes == "1" or not (facts.by_width or first in _WIDTHS):
            continue
        ndim_names = [parameter for parameter in parameters if parameter in ("ndim", "spatial_dims")]
        for options in [{ndim_names[0]: ndim} for ndim in (2, 3)] if ndim_names else [{}]:
            build: Any = facts.build
            try:
                encoding = build(d // _WIDTHS.get(first, 1), **options)
            except ValueError:
                # the source of the preset does not support this width
                continue
            if encoding.ndim in (2, 3) and encoding.d_model == d:
                yield name, encoding


def _stretched(lengths: tuple[int, ...], table: Table) -> Iterator[Encoding]:
    """Yield encodings of diffusers for a square grid with scaled positions, as in PixArt and Stable Diffusion 3."""
    side, d = lengths[0], table.whole.shape[1]
    if lengths == (side, side) and d % 4 == 0:
        for base_size, scale in ((16, 1), (32, 1), (64, 1), (side, 2), (side, 4)):
            yield diffusers_2d(d, side, base_size=base_size, interpolation_scale=scale)


def _shapes(points: int, ndim: int) -> Iterator[tuple[int, ...]]:
    """Yield shapes with this number of points and sides of at least 2.

    Shapes whose last two sides are similar come first. The ratio of these sides is at most `_LONGEST`.
    """
    sides = [n for n in range(2, math.isqrt(points) + 1) if points % n == 0]
    divisors = sorted({*sides, *(points // n for n in sides)})
    if ndim == 2:
        shapes: list[tuple[int, ...]] = [
            (n, points // n) for n in divisors if 1 / _LONGEST <= n * n / points <= _LONGEST
        ]
    else:
        shapes = [(t, *rest) for t in divisors for rest in _shapes(points // t, 2)]
    return iter(sorted(shapes, key=lambda lengths: abs(math.log(lengths[-2] / lengths[-1]))))


def _firsts(lengths: tuple[int, ...], start: float | None) -> list[tuple[Any, ...]]:
    """Return possible positions of the first cell of a grid, one coordinate per axis.

    If start is None, all coordinates are 0, or all are 1, or they centre the grid. Otherwise, all coordinates are
    start, and there are no possible positions if start is not an integer.
    """
    if start is not None:
        return [(int(start),) * len(lengths)] if start == int(start) else []
    return [(0,) * len(lengths), (1,) * len(lengths), tuple(-(n // 2) for n in lengths)]


def _compared(
    table: Table, skipped: int, encoding: Encoding, lengths: tuple[int, ...], firsts: tuple[int, ...], scale: float
) -> float | None:
    """Return the largest difference over all rows after the skipped ones, or None if a row differs too much."""
    rows, count, largest = len(table.whole) - skipped, max(1, BLOCK // encoding.d_model), 0.0
    for first in range(0, rows, count):
        last = min(first + count, rows)
        values = table.whole[skipped + first : skipped + last].astype(np.float64)
        cells = np.stack(np.unravel_index(np.arange(first, last), lengths), -1) + firsts
        difference = np.abs(values - scale * encoding.encode(cells, dtype=np.float64))
        if (difference > tolerated(table, values, cells @ encoding.frequencies.T, scale)).any():
            return None
        largest = max(largest, float(difference.max()))
    return largest
