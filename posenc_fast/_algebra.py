"""What follows from the angle addition theorem: moving, comparing and finding encoded positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._checks import check_out, float_type, kind_of, new, plain, real
from ._rounding import rounded
from ._schedule import real_array

if TYPE_CHECKING:
    from ._encoding import Encoding

__all__ = ["locate", "shift", "similarity", "transition_matrix"]

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

# values of a block of rows, and of the grid that locate searches
_BLOCK, _GRID = 1 << 18, 1 << 36
_STEPS_PER_WAVE = 8


def partners(encoding: Encoding, call: str) -> tuple[npt.NDArray[np.intp], Floats]:
    """For each column the one that is a quarter turn ahead of it or behind, and +1 or -1 for which.

    A column of frequency zero is its own partner, with 0.
    """
    found = encoding._cache.get("partners")
    if found is None:
        found = encoding._cache["partners"] = _partners(encoding)
    if isinstance(found, int):
        raise ValueError(  # noqa: TRY004
            f"{call} needs columns in pairs a quarter turn apart, of one frequency and amplitude; "
            f"column {found} of {encoding!r} has no partner"
        )
    return found


def _partners(encoding: Encoding) -> tuple[npt.NDArray[np.intp], Floats] | int:
    waves = encoding._waves()
    constant = (encoding._radians()[encoding._index] == 0).all(axis=1) | (encoding.amplitudes == 0)
    # the sine-like and the cosine-like columns of a wave, by amplitude and sign of the amplitude
    signs = np.where(waves.quadrant >= 2, -1.0, 1.0) * np.sign(encoding.amplitudes)
    waiting: dict[tuple[int, float], tuple[list[int], list[int]]] = {}
    partner = np.arange(encoding.d_model)
    ahead = np.zeros(encoding.d_model)
    for c in np.flatnonzero(~constant).tolist():
        lists = waiting.setdefault((int(waves.wave[c]), abs(float(encoding.amplitudes[c]))), ([], []))
        odd = int(waves.quadrant[c] % 2)
        if lists[1 - odd]:
            other = lists[1 - odd].pop(0)
            partner[c], partner[other] = other, c
            # d/dangle of s * sin is s * cos, of s * cos is -s * sin; the partner has a sign of its own
            for one, two, is_cosine in ((c, other, odd), (other, c, 1 - odd)):
                ahead[one] = signs[one] * signs[two] * (-1.0 if is_cosine else 1.0)
        else:
            lists[odd].append(c)
    left = [c for lists in waiting.values() for columns in lists for c in columns]
    return min(left) if left else (partner, ahead)


def _offset(encoding: Encoding, offset: Any) -> Floats:
    """An offset of one position as (axes,)."""
    values = np.atleast_1d(real_array(offset, "offset"))
    if values.shape != (encoding.ndim,):
        wanted = "one number" if encoding.ndim == 1 else f"{encoding.ndim} numbers, one for each axis"
        raise ValueError(f"offset must be {wanted}, not {offset!r}")
    return values


def _cosines_and_sines(encoding: Encoding, offsets: Floats) -> tuple[Floats, Floats]:
    """Of the angles that offsets (n, axes) are for each column: (n, d)."""
    key = "angles"
    both = encoding._cache.get(key)
    if both is None:
        d = encoding.d_model
        index = np.concatenate([encoding._index, encoding._index])
        phases = np.repeat([0.25, 0.0], d)
        both = encoding._cache[key] = type(encoding)._make(encoding._schedules, index, phases, np.ones(2 * d), "")
    values = both.encode(offsets[:, 0] if encoding.ndim == 1 else offsets, dtype=np.float64)
    return values[:, : encoding.d_model], values[:, encoding.d_model :]


def shift(encoding: Encoding, encoded: Any, offset: Any, out: Array | None) -> Array:
    encoded = plain(encoded, "encoded")
    dtype = float_type(encoded.dtype, "encoded")
    if encoded.ndim == 0 or encoded.shape[-1] != encoding.d_model:
        raise ValueError(f"encoded has shape {encoded.shape}, but must have (..., {encoding.d_model})")
    partner, ahead = partners(encoding, "shift")
    cosine, sine = (part[0] for part in _cosines_and_sines(encoding, _offset(encoding, offset)[np.newaxis]))
    result = new(encoded.shape, dtype) if out is None else check_out(out, encoded.shape, dtype)
    constant = ahead == 0
    cosine, sine = np.where(constant, 1.0, cosine), ahead * sine
    source = encoded
    same = result.strides == encoded.strides and result.ctypes.data == encoded.ctypes.data
    if not same and np.may_share_memory(result, encoded):
        source = encoded.copy()
    # a row at a time is read before it is written, so that out may be encoded
    flat_source, flat_out = source.reshape(-1, encoding.d_model), result.reshape(-1, encoding.d_model)
    step = max(1, _BLOCK // encoding.d_model)
    for first in range(0, len(flat_source), step):
        rows = flat_source[first : first + step].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            flat_out[first : first + step] = rounded(rows * cosine + rows[:, partner] * sine, dtype)
    if not np.may_share_memory(flat_out, result):
        result[...] = flat_out.reshape(result.shape)
    return result if out is None else out


def transition_matrix(encoding: Encoding, offset: Any) -> Floats:
    partner, ahead = partners(encoding, "transition_matrix")
    cosine, sine = (part[0] for part in _cosines_and_sines(encoding, _offset(encoding, offset)[np.newaxis]))
    matrix = np.zeros((encoding.d_model, encoding.d_model))
    columns = np.arange(encoding.d_model)
    matrix[partner, columns] = ahead * sine
    matrix[columns, columns] = np.where(ahead == 0, 1.0, cosine)
    return matrix


def similarity(encoding: Encoding, offsets: Any) -> Array:
    _, ahead = partners(encoding, "similarity")
    values = real_array(offsets, "offsets")
    shape = values.shape
    if encoding.ndim > 1:
        if not shape or shape[-1] != encoding.ndim:
            raise ValueError(
                f"offsets has shape {shape}, but must have (..., {encoding.ndim}), one number for each axis"
            )
        shape = shape[:-1]
    squares = encoding.amplitudes**2
    # each pair has the square of its amplitude once; a constant column its own value squared
    constant = encoding.amplitudes * np.sin(2 * np.pi * encoding.phases)
    still = float((constant[ahead == 0] ** 2).sum())
    weights = np.where(ahead == 0, 0.0, squares / 2)
    rows = values.reshape(-1, encoding.ndim)
    result = np.empty(len(rows))
    step = max(1, _BLOCK // encoding.d_model)
    for first in range(0, len(rows), step):
        cosine, _ = _cosines_and_sines(encoding, rows[first : first + step])
        result[first : first + step] = cosine @ weights + still
    return result.reshape(shape)[()]


def locate(encoding: Encoding, encoded: Any, low: Any, high: Any) -> tuple[Floats, Floats]:
    if encoding.ndim != 1:
        raise ValueError(f"locate is for encodings of one axis; this one has {encoding.ndim}")
    rows = np.asarray(encoded)
    if rows.dtype.kind not in "iuf" and kind_of(rows.dtype) is None:
        raise TypeError(f"encoded must be real numbers, not an array of {rows.dtype}")
    rows = rows.astype(np.float64)
    if rows.ndim == 0 or rows.shape[-1] != encoding.d_model:
        raise ValueError(f"encoded has shape {rows.shape}, but must have (..., {encoding.d_model})")
    frequencies = np.abs(encoding.frequencies[encoding.amplitudes != 0])
    if not frequencies.any():
        raise ValueError("locate needs a column whose frequency and amplitude are not zero")
    longest, shortest = (2 * np.pi / f(frequencies[frequencies > 0]) for f in (np.min, np.max))
    begin = real(low, "low") if low is not None else -longest / 2
    end = real(high, "high") if high is not None else longest / 2
    if begin > end:
        raise ValueError(f"low={low!r} is above high={high!r}")
    steps = (end - begin) / shortest * _STEPS_PER_WAVE
    count = int(min(steps, _GRID)) + 2
    if count * encoding.d_model > _GRID:
        raise ValueError(
            f"from {begin} to {end} there are {steps:.3g} steps to search; narrow the interval by low and high, "
            f"the shortest wavelength is {shortest}"
        )
    flat = rows.reshape(-1, encoding.d_model)
    positions = np.full(len(flat), np.nan)
    fine = np.isfinite(flat).all(axis=1)
    if fine.any():
        positions[fine] = _refine(encoding, flat[fine], _coarse(encoding, flat[fine], begin, end, count), begin, end)
    size = _size(flat)
    residual = size * np.linalg.norm(
        (encoding.encode(positions, dtype=np.float64) - flat) / size[:, np.newaxis], axis=1
    )
    return positions.reshape(rows.shape[:-1])[()], residual.reshape(rows.shape[:-1])[()]


def _size(rows: Floats) -> Floats:
    """The largest value of each row, at least 1: divided by it, no row overflows when it is squared."""
    sizes: Floats = np.maximum(np.abs(rows).max(axis=1), 1.0)
    return sizes


def _coarse(encoding: Encoding, rows: Floats, begin: float, end: float, count: int) -> Floats:
    """The best of a grid that is finer than the shortest wave."""
    step = (end - begin) / (count - 1)
    best, where = np.full(len(rows), np.inf), np.zeros(len(rows))
    size = _size(rows)
    narrow = (rows / size[:, np.newaxis]).astype(np.float32)
    block = max(1, _BLOCK // encoding.d_model)
    for first in range(0, count, block):
        grid = begin + step * np.arange(first, min(first + block, count))
        table = encoding.encode(grid, dtype=np.float32)
        # |row - table|^2 without the part that is the row's alone, over the row's size
        distance = (table**2).sum(axis=1) / size[:, np.newaxis] - 2 * (narrow @ table.T)
        nearest = distance.argmin(axis=1)
        value = distance[np.arange(len(rows)), nearest]
        better = value < best
        best[better], where[better] = value[better], grid[nearest[better]]
    return where


def _refine(encoding: Encoding, rows: Floats, positions: Floats, begin: float, end: float) -> Floats:
    """Gauss-Newton from the grid's best; a step is taken only where it brings the row nearer."""
    slope = type(encoding)._make(
        encoding._schedules,
        encoding._index,
        encoding.phases + 0.25,
        encoding.amplitudes * encoding.frequencies,
        "",
    )
    size = _size(rows)[:, np.newaxis]
    difference = rows - encoding.encode(positions, dtype=np.float64)
    for _ in range(20):
        derivative = slope.encode(positions, dtype=np.float64)
        norm = (derivative**2).sum(axis=1)
        step = np.divide((derivative * difference).sum(axis=1), norm, out=np.zeros(len(rows)), where=norm > 0)
        moved = np.clip(positions + step, begin, end)
        after = rows - encoding.encode(moved, dtype=np.float64)
        nearer = ((after / size) ** 2).sum(axis=1) < ((difference / size) ** 2).sum(axis=1)
        if not nearer.any():
            break
        positions = np.where(nearer, moved, positions)
        difference = np.where(nearer[:, np.newaxis], after, difference)
    return positions
