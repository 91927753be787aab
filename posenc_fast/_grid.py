"""Encodings of all points of a grid: the work of each axis is done once, the rest is copying."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _positions, _threads
from ._checks import check_out, check_workers, count_of, float_type, new
from ._encoding import Encoding
from ._names import one_of
from ._target import BLOCK, WORTH_A_THREAD

__all__ = ["grid"]

Array = npt.NDArray[Any]

# for columns that read several axes, whose points are written down
POINTS = 1 << 16


class _Part(NamedTuple):
    """Some columns of an encoding, and what computes them."""

    columns: npt.NDArray[np.intp] | slice
    encoding: Encoding


def grid(
    axes: Sequence[int | npt.ArrayLike],
    encoding: Encoding,
    *,
    indexing: str = "ij",
    dtype: npt.DTypeLike = np.float32,
    out: Array | None = None,
    workers: int | None = None,
) -> Array:
    """The encodings of all points of a grid.

    Parameters
    ----------
    axes : sequence, one for each axis of the encoding
        A number n, for the positions 0 .. n - 1, a range of integers, or an array of shape (n,) of coordinates:
        whatever `Encoding.encode` takes as positions.
    encoding : Encoding
        Over as many axes, such as `join` makes.
    indexing : {"ij", "xy"}
        "ij": the result's axes are those given. "xy": the first two change places, as in `numpy.meshgrid`; axes are
        then (x, y, ..), and a row of the result is a row of an image.
    dtype, workers
        As in `Encoding.table`.
    out : ndarray of the result's shape, optional
        Where to write; the values of a point must be next to each other. It is returned.

    Returns
    -------
    ndarray of shape (n0, n1, .., d_model), or (n1, n0, .., d_model) for "xy"

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit; nothing has been written then.

    Notes
    -----
    A column that reads one axis is computed for that axis alone and copied, one that reads several (random Fourier
    features, say) for every point. ``reshape(-1, d_model)`` gives the points in raster order. Rows for class tokens
    are left free by giving a slice as out; a learned scale or a sum of axes is `Encoding.add_to`.

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
    coordinates = _coordinates(axes, encoding.ndim)
    order = _order(indexing, encoding.ndim)
    kind, threads = float_type(dtype), check_workers(workers)
    shape = (*(_length(coordinates[a]) for a in order), encoding.d_model)
    parts, mixed = _parts(encoding)
    result = new(shape, kind) if out is None else check_out(out, shape, kind)
    if result.size == 0:
        return result if out is None else out
    points = None if mixed is None else _points(coordinates)
    missing = [_missing(coordinates[a]) for a in order]
    tables = []
    for place, a in enumerate(order):
        part = parts[a]
        if part is not None:
            table = np.zeros((shape[place], encoding.d_model), kind)
            table[:, part.columns] = _rows(part.encoding, coordinates[a], kind, workers)
            tables.append(_along(_bits(table), place, len(order)))

    def fill(rows: slice) -> None:
        target = _bits(result[rows])
        # a column is all zero bits in every table but its own, so its own bits are kept, a minus of zero included
        some = [table if table.shape[0] == 1 else table[rows] for table in tables]
        if len(some) > 1:
            np.bitwise_or(functools.reduce(np.bitwise_or, some[:-1]), some[-1], out=target)
        elif some:
            target[...] = some[0]
        if mixed is not None and points is not None:
            where = np.empty((*target.shape[:-1], len(order)), points[0].dtype)
            for place, a in enumerate(order):
                where[..., a] = _along(points[a][rows] if place == 0 else points[a], place, len(order))
            result[rows][..., mixed.columns] = mixed.encoding.encode(where, dtype=kind)

    values = BLOCK if mixed is None else POINTS * encoding.d_model
    step = max(1, min(values * shape[0] // result.size, -(-shape[0] // threads)))
    slices = (slice(i, min(i + step, shape[0])) for i in range(0, shape[0], step))
    _threads.run(fill, slices, threads if result.size >= WORTH_A_THREAD else 1)
    for place, where_none in enumerate(missing):
        if where_none is not None:
            np.moveaxis(result, place, 0)[where_none] = np.nan
    return result if out is None else out


def _order(indexing: str, count: int) -> list[int]:
    """Which axis each dimension of the result is; as well, which dimension each axis is."""
    one_of(indexing, "indexing", ("ij", "xy"))
    order = list(range(count))
    if indexing == "xy":
        order[:2] = order[1::-1]
    return order


def _coordinates(axes: Any, count: int) -> list[range | Array]:
    """What was given for each axis, checked."""
    given = list(axes) if isinstance(axes, Iterable) and not isinstance(axes, (str, bytes)) else None
    if given is None or len(given) != count:
        raise ValueError(
            f"axes must have a length or an array of coordinates for each of the encoding's {count} axes, not {axes!r}"
        )
    result: list[range | Array] = []
    for a, axis in enumerate(given):
        name = f"axes[{a}]"
        if isinstance(axis, (int, np.integer)):
            result.append(range(count_of(axis, name, 0)))
            continue
        if isinstance(axis, range):
            _positions.convert([axis[0], axis[-1]] if axis else [], 1, name)
            result.append(axis)
            continue
        array = np.asarray(axis)
        if array.ndim != 1:
            raise ValueError(f"{name} has shape {array.shape}, but must be a number of positions or have shape (n,)")
        _positions.convert(axis, 1, name)
        result.append(array)
    return result


def _length(axis: range | Array) -> int:
    if isinstance(axis, range):
        # len() stops at sys.maxsize
        return (axis[-1] - axis[0]) // axis.step + 1 if axis else 0
    return len(axis)


def _numbers(axis: range | Array) -> Array:
    if isinstance(axis, range) and min(axis.start, axis.stop) >= -(2**63) and max(axis.start, axis.stop) < 2**63:
        return np.arange(axis.start, axis.stop, axis.step)
    # numpy counts in int64, and reads all others one by one
    return np.asarray(axis)


def _rows(encoding: Encoding, axis: range | Array, kind: np.dtype[Any], workers: int | None) -> Array:
    if isinstance(axis, range):
        return encoding.table(len(axis), start=axis.start, step=axis.step, dtype=kind, workers=workers)
    return encoding.encode(axis, dtype=kind, workers=workers)


def _missing(axis: range | Array) -> npt.NDArray[np.bool_] | None:
    """Which coordinates have no value."""
    if isinstance(axis, range) or axis.dtype.kind not in "fmM":
        return None
    missing: npt.NDArray[np.bool_] = ~np.isfinite(axis)
    return missing if missing.any() else None


def _points(coordinates: list[range | Array]) -> list[Array]:
    """The coordinates of all axes in one type that holds them."""
    arrays = [_numbers(axis) for axis in coordinates]
    if len({array.dtype.kind in "mM" for array in arrays}) > 1:
        raise TypeError(
            f"axes of types {', '.join(str(array.dtype) for array in arrays)} cannot be added up in one column; "
            "convert times to seconds"
        )
    common = np.result_type(*arrays)
    for a, array in enumerate(arrays):
        if common.kind == "f" and array.dtype.kind in "iu" and ((array > 2**53) | (array < -(2**53))).any():
            raise ValueError(
                f"axes[{a}] has integers beyond 2**53, but must be added to real numbers as {common}; round them first"
            )
    return [array.astype(common) for array in arrays]


def _along(array: Array, place: int, dims: int) -> Array:
    """The array's first dimension as dimension ``place`` of ``dims``, those behind it at the end."""
    return array.reshape(*[1] * place, len(array), *[1] * (dims - place - 1), *array.shape[1:])


def _bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}")


def _parts(encoding: Encoding) -> tuple[list[_Part | None], _Part | None]:
    """The columns that read each axis alone (those that read none are the first axis'), and those that read several."""
    found = encoding._cache.get("parts")
    if found is None:
        reads = encoding._radians()[encoding._index] != 0
        axis = np.where(reads.sum(axis=1) > 1, -1, reads.argmax(axis=1))

        def part(a: int) -> _Part | None:
            columns = np.flatnonzero(axis == a)
            if len(columns) == 0:
                return None
            index = encoding._index[columns]
            if a >= 0:
                index = index[:, [a]]
            schedules, phases, amplitudes = (
                encoding._schedules,
                encoding._phases[columns],
                encoding._amplitudes[columns],
            )
            first, last = int(columns[0]), int(columns[-1])
            adjacent = last - first + 1 == len(columns)
            return _Part(
                slice(first, last + 1) if adjacent else columns,
                type(encoding)._make(schedules, index, phases, amplitudes, ""),
            )

        found = encoding._cache["parts"] = ([part(a) for a in range(encoding.ndim)], part(-1))
    return found
