"""Compute the encodings of all points of a grid. Columns that depend on one axis are computed once, and copied."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, get_args, overload

import numpy as np

from ...typing import Indexing
from ..engine import threads as _threads
from ..engine.blocks import BLOCK, WORTH_A_THREAD, Target, collapse
from ..numbers import annotations as npt
from ..numbers.arguments import check_size, check_workers, count_of
from ..numbers.arrays import Array, check_out, new
from ..numbers.formats import wanted_type
from ..numbers.names import hinted, one_of
from ..numbers.signatures import DType, Float, GridOptions
from ..positions.conversion import checked_integer, convert, of_range, together
from ..positions.positions import Converted
from .rows import encode
from .value import Encoding

if TYPE_CHECKING:
    from ..numbers.signatures import Out

INDEXINGS: tuple[Indexing, ...] = get_args(Indexing)
# number of points in a block, for encodings with columns that depend on several axes
POINTS = 1 << 16


class _Part(NamedTuple):
    """Some columns of an encoding: their indices, and an Encoding with only these columns."""

    columns: npt.NDArray[np.intp] | slice
    encoding: Encoding


@overload
def grid(
    axes: Sequence[int | npt.ArrayLike],
    encoding: Encoding,
    *,
    dtype: None = ...,
    out: None = ...,
    **options: Unpack[GridOptions],
) -> npt.NDArray[np.float32]: ...


@overload
def grid(
    axes: Sequence[int | npt.ArrayLike],
    encoding: Encoding,
    *,
    dtype: DType[Float],
    out: None = ...,
    **options: Unpack[GridOptions],
) -> npt.NDArray[Float]: ...


@overload
def grid(
    axes: Sequence[int | npt.ArrayLike],
    encoding: Encoding,
    *,
    dtype: npt.DTypeLike | None = ...,
    out: Out | None = ...,
    **options: Unpack[GridOptions],
) -> Out: ...


@hinted
def grid(
    axes: Sequence[int | npt.ArrayLike],
    encoding: Encoding,
    *,
    indexing: Indexing = "ij",
    dtype: npt.DTypeLike | None = None,
    out: Array | None = None,
    workers: int | None = None,
) -> Array:
    """Return the encodings of all points of a grid.

    Parameters
    ----------
    axes : sequence with one item for each axis of the encoding
        An item is a number n (for the positions 0 .. n - 1), a range of integers, or an array of coordinates of shape
        (n,), as in `Encoding.encode`.
    encoding : Encoding
        Encoding with the same number of axes, for example from `join`.
    indexing : {"ij", "xy"}
        "ij": the result has the axes in the given order (default). "xy": the first two are exchanged, as in
        `numpy.meshgrid`. Then axes are (x, y, ..), and a row of the result is a row of an image.
    dtype, workers
        As in `Encoding.table`.
    out : ndarray of the result's shape, optional
        Array for the result. The values of a point must be adjacent in memory.

    Returns
    -------
    ndarray of shape (n0, n1, .., d_model), or (n1, n0, .., d_model) for "xy"

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. Nothing is written in this case.

    Notes
    -----
    A column that depends on one axis is computed once for each coordinate of that axis, and copied. A column that
    depends on several axes, as in random Fourier features, is computed for every point. To get one row for each point,
    in raster order, call ``reshape(-1, d_model)`` on the result. To leave rows free for class tokens, pass a part of a
    larger array as out (see the last example). To add the encodings of all axes to x, instead of joining them, call
    `Encoding.add_to` for each axis.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> encoding = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
    >>> pf.grid([2, 3], encoding).shape
    (2, 3, 8)
    >>> centred = np.arange(14) - 6.5
    >>> pf.grid([centred, centred], encoding, indexing="xy").shape
    (14, 14, 8)

    The patches of an image behind a class token whose row is zero:

    >>> table = np.zeros((1 + 14 * 14, 8), np.float32)
    >>> _ = pf.grid([14, 14], encoding, out=table[1:].reshape(14, 14, 8))
    """
    if not isinstance(encoding, Encoding):
        raise TypeError(f"encoding must be an Encoding, not {type(encoding).__name__}")
    coordinates = coordinates_of(axes, encoding.ndim)
    order = order_of(indexing, encoding.ndim)
    result_type, threads = wanted_type(dtype, out), check_workers(workers)
    shape = (*(length_of(coordinates[a]) for a in order), encoding.d_model)
    check_size("axes", axes, shape, result_type.itemsize)
    result = None if out is None else check_out(out, shape, result_type)
    points = filled(coordinates, encoding, order, result_type, result, threads)
    return points if out is None else out


def filled(
    coordinates: list[range | Converted],
    encoding: Encoding,
    order: list[int],
    result_type: np.dtype[Any],
    result: Array | None = None,
    threads: int = 1,
) -> Array:
    """Return the encodings of all points of a grid with these coordinates, which `coordinates_of` has checked.

    order has the axis of the encoding for each dimension of the result (see `order_of`).
    """
    shape = (*(length_of(coordinates[a]) for a in order), encoding.d_model)
    if len(order) == 1:
        return _rows(encoding, coordinates[0], result_type, threads, result)
    in_cache = result is not None
    if result is None:
        result = new(shape, result_type)
    if result.size == 0:
        return result
    parts, mixed = _parts(encoding)
    tables = [_table(encoding, parts[a], coordinates[a], result_type, threads) for a in order]
    # find invalid coordinates before the first value is written, because out may overlap the coordinates
    invalid = [None if isinstance(axis, range) else axis.invalid_rows() for axis in (coordinates[a] for a in order)]
    points = None if mixed is None else _Points(coordinates)
    engine = encoding._plans.engine()
    # 0: write through the cache, not past it, because `mixed` columns are written to the same memory afterwards
    stores = Target(result, warm=in_cache).stores() if mixed is None else 0

    def fill(rows: slice) -> None:
        target = result[rows].view(np.uint16)
        # Each column, except the `mixed` ones, is in the table of one axis, and its bits are zero in the other tables.
        # So OR returns the bits of the column, including the sign of -0.0.
        outer = tables[0][rows]
        for table in tables[1:-1]:
            outer = outer[..., np.newaxis, :] | table
        # merge needs an aligned array of shape (points of the outer axes, points of the last axis, width)
        view = collapse(target, 3) if result.flags.aligned else None
        merged = np.empty((math.prod(target.shape[:-2]), *target.shape[-2:]), np.uint16) if view is None else view
        engine.module.merge(engine.level, outer.reshape(-1, outer.shape[-1]), tables[-1], merged, stores)
        if view is None:
            target[...] = merged.reshape(target.shape)
        if mixed is not None and points is not None:
            positions = points.block(rows, order)
            result[rows][..., mixed.columns] = encode(mixed.encoding._plans, positions, result_type)

    values = BLOCK if mixed is None else POINTS * encoding.d_model
    threads = _threads.useful(threads, result.size, WORTH_A_THREAD)
    step = max(1, min(values * shape[0] // result.size, -(-shape[0] // threads)))
    slices = (slice(i, min(i + step, shape[0])) for i in range(0, shape[0], step))
    _threads.run(fill, slices, threads)
    for dimension, invalid_rows in enumerate(invalid):
        if invalid_rows is not None:
            np.moveaxis(result, dimension, 0)[invalid_rows] = np.nan
    return result


def _table(
    encoding: Encoding, part: _Part | None, axis: range | Converted, result_type: np.dtype[Any], threads: int
) -> Array:
    """Return a row for each coordinate, viewed as 16-bit integers. Columns that are not in the part are zero."""
    table = np.zeros((length_of(axis), encoding.d_model), result_type)
    if part is not None:
        table[:, part.columns] = _rows(part.encoding, axis, result_type, threads)
    return table.view(np.uint16)


class _Points:
    """Coordinates of all axes, converted to a common type. The method `block` combines them to points."""

    def __init__(self, coordinates: list[range | Converted]) -> None:
        axes = [of_range(axis) if isinstance(axis, range) else axis for axis in coordinates]
        self.axes, self.unit, self.form = together(axes)

    def block(self, rows: slice, order: list[int]) -> Converted:
        """Return the points of a slice of the result's first dimension. Dimension i of the result has axis order[i]."""
        axes = [self.axes[a][rows] if dimension == 0 else self.axes[a] for dimension, a in enumerate(order)]
        points = np.empty((*map(len, axes), len(order)), axes[0].dtype)
        for dimension, a in enumerate(order):
            points[..., a] = axes[dimension].reshape(*[1] * dimension, -1, *[1] * (len(order) - dimension - 1))
        flat = points.reshape(math.prod(points.shape[:-1]), len(order))
        return Converted(flat, self.unit, shape=points.shape[:-1], form=self.form)


def part_of(axis: range | Converted, rows: slice) -> range | Converted:
    """Return a part of the coordinates of an axis. rows: the slice of their indices."""
    return axis[rows] if isinstance(axis, range) else axis.rows(rows)


def order_of(indexing: Indexing, count: int) -> list[int]:
    """Return the axis of the encoding for each dimension of the result. The list is its own inverse permutation."""
    one_of(indexing, "indexing", INDEXINGS)
    order = list(range(count))
    if indexing == "xy":
        order[:2] = order[1::-1]
    return order


def coordinates_of(axes: Any, count: int) -> list[range | Converted]:
    """Check the coordinates of each axis, and return them."""
    items = list(axes) if isinstance(axes, Iterable) and not isinstance(axes, (str, bytes)) else None
    if items is None or len(items) != count:
        needs_join = count == 1 and items is not None and len(items) > 1
        raise ValueError(
            f"axes must have {count} item{'' if count == 1 else 's'}, one for each axis of the encoding (a length or an array "
            f"of coordinates), not {axes!r}"
            + ("; join([...]) builds an encoding of several axes from one encoding for each axis" if needs_join else "")
        )
    result: list[range | Converted] = []
    for a, axis in enumerate(items):
        name = f"axes[{a}]"
        if isinstance(axis, (int, np.integer)):
            result.append(range(count_of(axis, name, 0)))
            continue
        if isinstance(axis, range):
            for end in (axis[0], axis[-1]) if axis else ():
                checked_integer(end, name)
            result.append(axis)
            continue
        converted = convert(axis, 1, name)
        if len(converted.shape) != 1:
            raise ValueError(
                f"{name} has shape {converted.shape}, but must be an integer (the number of positions) or have shape "
                "(n,)"
            )
        result.append(converted)
    return result


def length_of(axis: range | Converted) -> int:
    if isinstance(axis, range):
        # len() raises an error above sys.maxsize
        return (axis[-1] - axis[0]) // axis.step + 1 if axis else 0
    return len(axis)


def _rows(
    encoding: Encoding, axis: range | Converted, result_type: np.dtype[Any], threads: int, out: Array | None = None
) -> Array:
    if isinstance(axis, range):
        return encoding.table(len(axis), start=axis.start, step=axis.step, dtype=result_type, workers=threads, out=out)
    return encode(encoding._plans, axis, result_type, out, threads=threads)


def _parts(encoding: Encoding) -> tuple[list[_Part | None], _Part | None]:
    """Return (parts, mixed), which contain all columns.

    parts has for each axis the columns that depend only on this axis. mixed has the columns that depend on several
    axes. A part is None if it has no column. Constant columns belong to the first axis.
    """
    parts = encoding._derived.get("parts")
    if parts is None:
        sinusoids = encoding._sinusoids
        # array (d_model, axes): whether each column depends on each axis
        depends = sinusoids.radians()[sinusoids.index] != 0
        axis_of_column = np.where(depends.sum(axis=1) > 1, -1, depends.argmax(axis=1))

        def part(a: int) -> _Part | None:
            columns = np.flatnonzero(axis_of_column == a)
            if len(columns) == 0:
                return None
            chosen = sinusoids.take(columns)
            first, last = int(columns[0]), int(columns[-1])
            adjacent = last - first + 1 == len(columns)
            return _Part(
                slice(first, last + 1) if adjacent else columns, encoding._of(chosen.along(a) if a >= 0 else chosen)
            )

        parts = encoding._derived["parts"] = ([part(a) for a in range(encoding.ndim)], part(-1))
    return parts
