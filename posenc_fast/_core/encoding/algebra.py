"""Shift and compare encoded positions by the angle addition theorem, and locate encoded positions by a search.

The argument `partners` has two values for each column: the index of the column a quarter turn ahead or behind, and the
direction (+1 ahead, -1 behind, 0 for a constant column). See `Sinusoids.partners`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numbers.arrays import Array, Floats, base_array, check_out, new
from ..numbers.formats import FLOAT32, FLOAT64, float_type, is_real
from ..numbers.rounding import rounded
from ..positions.conversion import convert, number
from ..positions.foreign import as_array
from ..positions.positions import Converted
from .plans import Plans
from .rows import encode, same_memory
from .sinusoids import Partners

# _BLOCK_VALUES is the maximum number of values in a block of rows. _GRID_VALUES is the maximum number of values in the
# grid that `locate` searches.
_BLOCK_VALUES, _GRID_VALUES = 1 << 18, 1 << 36
_STEPS_PER_WAVE = 8
# A position counts as found if its encoding is near the row: both are divided by the `_size` of the row, and their
# squared distance is then at most this number.
_NEAR = 1e-7
# number of bytes that must be free before a matrix product; OpenBLAS allocates half of them as its buffer
_WORK_SPACE = 1 << 26


def _offset(plans: Plans, offset: Any) -> Converted:
    """Return the converted offset. Raise an error unless it is one finite position."""
    converted = _finite(plans, offset, "offset")
    if converted.shape != ():
        wanted = "one number" if plans.sinusoids.axes == 1 else f"{plans.sinusoids.axes} numbers, one for each axis"
        raise ValueError(f"offset must be {wanted}, not {offset!r}")
    return converted


def _finite(plans: Plans, offsets: Any, name: str) -> Converted:
    converted = convert(offsets, plans.axes, name)
    if converted.invalid_rows() is not None:
        raise ValueError(f"{name} must be finite, not {offsets!r}")
    return converted


def _cosines_and_sines(plans: Plans, offsets: Converted) -> tuple[Floats, Floats]:
    """Return (cosines, sines) of the angles of the offsets in each column, two arrays of shape (..., d)."""
    values = encode(plans.derived("quadratures", plans.sinusoids.quadratures), offsets, FLOAT64.stored)
    return values[..., : plans.width], values[..., plans.width :]


def shift(plans: Plans, partners: Partners, encoded: Any, offset: Any, out: Array | None) -> Array:
    encoded = base_array(encoded, "encoded")
    dtype = float_type(encoded.dtype, "encoded")
    if encoded.ndim == 0 or encoded.shape[-1] != plans.width:
        raise ValueError(f"encoded has shape {encoded.shape}, but must have shape (..., {plans.width})")
    partner, ahead = partners
    cosine, sine = _cosines_and_sines(plans, _offset(plans, offset))
    result = new(encoded.shape, dtype) if out is None else check_out(out, encoded.shape, dtype)
    constant = ahead == 0
    cosine, sine = np.where(constant, 1.0, cosine), ahead * sine
    source = encoded
    if not same_memory(result, encoded) and np.may_share_memory(result, encoded):
        source = encoded.copy()
    # each block of rows is read before it is written, so `out` can be the array `encoded`
    flat_source, flat_out = source.reshape(-1, plans.width), result.reshape(-1, plans.width)
    step = max(1, _BLOCK_VALUES // plans.width)
    for first in range(0, len(flat_source), step):
        rows = flat_source[first : first + step].astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            flat_out[first : first + step] = rounded(rows * cosine + rows[:, partner] * sine, dtype)
    if not np.may_share_memory(flat_out, result):
        result[...] = flat_out.reshape(result.shape)
    return result if out is None else out


def transition_matrix(plans: Plans, partners: Partners, offset: Any) -> Floats:
    partner, ahead = partners
    cosine, sine = _cosines_and_sines(plans, _offset(plans, offset))
    matrix = np.zeros((plans.width, plans.width))
    columns = np.arange(plans.width)
    matrix[partner, columns] = ahead * sine
    matrix[columns, columns] = np.where(ahead == 0, 1.0, cosine)
    return matrix


def similarity(plans: Plans, partners: Partners, offsets: Any) -> Array:
    _, ahead = partners
    distances, sinusoids = _finite(plans, offsets, "offsets"), plans.sinusoids
    squares = sinusoids.amplitudes**2
    # A pair adds amplitude**2 * cosine to the dot product, and each of its columns half of this. A constant column adds
    # the square of its value.
    anywhere = encode(plans, Converted(np.zeros((1, sinusoids.axes))), FLOAT64.stored)[0]
    constant = float((anywhere[ahead == 0] ** 2).sum())
    weights = np.where(ahead == 0, 0.0, squares / 2)
    result = np.empty(len(distances))
    step = max(1, _BLOCK_VALUES // plans.width)
    for first in range(0, len(distances), step):
        cosine, _ = _cosines_and_sines(plans, distances.rows(slice(first, first + step)))
        result[first : first + step] = (cosine * weights).sum(axis=1) + constant
    return result.reshape(distances.shape)[()]


def locate(plans: Plans, encoded: Any, low: Any, high: Any) -> tuple[Floats, Floats]:
    sinusoids = plans.sinusoids
    if sinusoids.axes != 1:
        raise ValueError(f"locate needs an encoding of one axis, but this encoding has {sinusoids.axes} axes")
    rows = as_array(encoded, "encoded")
    if not is_real(rows.dtype):
        raise TypeError(f"encoded must be real numbers, not an array of {rows.dtype}")
    rows = rows.astype(np.float64)
    if rows.ndim == 0 or rows.shape[-1] != plans.width:
        raise ValueError(f"encoded has shape {rows.shape}, but must have shape (..., {plans.width})")
    frequencies = np.abs(sinusoids.radians()[sinusoids.index[:, 0]][sinusoids.amplitudes != 0])
    if not frequencies.any():
        raise ValueError("locate needs a column whose frequency and amplitude are not zero, but this encoding has none")
    longest, shortest = (2 * np.pi / f(frequencies[frequencies > 0]) for f in (np.min, np.max))
    begin = float(number(low, "low")) if low is not None else -longest / 2
    end = float(number(high, "high")) if high is not None else longest / 2
    if begin > end:
        raise ValueError(
            f"low={begin} is above high={end}; pass a low that is at most high (defaults: minus and plus half the "
            f"longest wavelength, {longest / 2})"
        )
    steps = (end - begin) / shortest * _STEPS_PER_WAVE
    count = int(min(steps, _GRID_VALUES)) + 2
    if count * plans.width > _GRID_VALUES:
        raise ValueError(
            f"the search from {begin} to {end} would take {steps:.3g} steps, which is too many; pass low and high that "
            f"are closer together (the shortest wavelength is {shortest})"
        )
    flat = rows.reshape(-1, plans.width)
    positions = np.full(len(flat), np.nan)
    finite = np.isfinite(flat).all(axis=1)
    if finite.any():
        on_grid = _coarse(plans, flat[finite], begin, end, count)
        refined = _refine(plans, flat[finite], on_grid, begin, end)
        wavelengths = 2 * np.pi / np.unique(frequencies[frequencies > 0])
        positions[finite] = _whole_waves(plans, flat[finite], refined, begin, end, wavelengths)
    size = _size(flat)
    difference = (_rows(plans, positions) - flat) / size[:, np.newaxis]
    residual = size * np.sqrt((difference**2).sum(axis=1))
    return positions.reshape(rows.shape[:-1])[()], residual.reshape(rows.shape[:-1])[()]


def _rows(plans: Plans, positions: Array, dtype: np.dtype[Any] = FLOAT64.stored) -> Array:
    return encode(plans, Converted(positions[:, np.newaxis]), dtype)


def _whole_waves(
    plans: Plans, rows: Floats, positions: Floats, begin: float, end: float, wavelengths: Floats
) -> Floats:
    """Return positions improved by steps of whole wavelengths.

    If frequencies lie far apart, the grid that `locate` searches can be too coarse. Then the position found on it can
    be off by whole wavelengths.
    """
    size = _size(rows)[:, np.newaxis]

    def distance(candidates: Floats, indices: Any) -> Floats:
        """Return the squared distance of each row to the encoding of its candidate, after division by `_size`.

        indices selects the rows.
        """
        squares: Floats = (((rows[indices] - _rows(plans, candidates)) / size[indices]) ** 2).sum(axis=1)
        return squares

    least = distance(positions, slice(None))
    # indices of the rows whose positions are not found yet
    active = np.flatnonzero(least > _NEAR)
    while len(active):
        before = least[active]
        for wave in (sign * wavelength for wavelength in wavelengths.tolist() for sign in (-1, 1)):
            moved = positions[active] + wave
            inside = (begin <= moved) & (moved <= end)
            indices, candidates = active[inside], moved[inside]
            after = distance(candidates, indices)
            nearer = after < least[indices]
            positions[indices[nearer]], least[indices[nearer]] = candidates[nearer], after[nearer]
        active = active[least[active] < before]
        positions[active] = _refine(plans, rows[active], positions[active], begin, end)
        least[active] = distance(positions[active], active)
    return positions


def _size(rows: Floats) -> Floats:
    """Return the largest magnitude of each row, but at least 1.

    A row can be squared without overflow after it is divided by this number.
    """
    sizes: Floats = np.maximum(np.abs(rows).max(axis=1), 1.0)
    return sizes


def _coarse(plans: Plans, rows: Floats, begin: float, end: float, count: int) -> Floats:
    """Return for each row the grid position with the nearest encoding, among `count` positions from begin to end."""
    step = (end - begin) / (count - 1)
    # the smallest distance of each row so far, and the position with this distance
    best, positions = np.full(len(rows), np.inf), np.zeros(len(rows))
    size = _size(rows)
    scaled = (rows / size[:, np.newaxis]).astype(np.float32)
    block = max(1, _BLOCK_VALUES // plans.width)
    for first in range(0, count, block):
        grid = begin + step * np.arange(first, min(first + block, count))
        table = _rows(plans, grid, FLOAT32.stored)
        # `distance` is (|row - table|^2 - |row|^2) / size, of shape (rows, positions). Leaving out |row|^2 does not
        # change which position is nearest.
        distance = (table**2).sum(axis=1) / size[:, np.newaxis] - 2 * _product(scaled, table.T)
        nearest = distance.argmin(axis=1)
        value = distance[np.arange(len(rows)), nearest]
        better = value < best
        best[better], positions[better] = value[better], grid[nearest[better]]
    return positions


def _product(a: Array, b: Array) -> Array:
    """Return the matrix product. Raise MemoryError if OpenBLAS would abort because it cannot allocate its buffer."""
    np.empty(_WORK_SPACE, np.uint8)
    product: Array = a @ b
    return product


def _refine(plans: Plans, rows: Floats, positions: Floats, begin: float, end: float) -> Floats:
    """Return positions improved by Gauss-Newton steps.

    A step is used only if the encoding of the new position is nearer to the row.
    """
    derivative_plans = plans.derived("derivative", plans.sinusoids.derivative)
    size = _size(rows)[:, np.newaxis]
    difference = rows - _rows(plans, positions)
    for _ in range(20):
        derivative = _rows(derivative_plans, positions)
        norm = (derivative**2).sum(axis=1)
        step = np.divide((derivative * difference).sum(axis=1), norm, out=np.zeros(len(rows)), where=norm > 0)
        moved = np.clip(positions + step, begin, end)
        after = rows - _rows(plans, moved)
        nearer = ((after / size) ** 2).sum(axis=1) < ((difference / size) ** 2).sum(axis=1)
        if not nearer.any():
            break
        positions = np.where(nearer, moved, positions)
        difference = np.where(nearer[:, np.newaxis], after, difference)
    return positions
