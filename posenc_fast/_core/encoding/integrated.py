"""Compute integrated encodings: the mean of each column over normally distributed positions."""

from __future__ import annotations

import functools
import itertools
from decimal import Decimal
from typing import Any

import numpy as np

from ..engine.blocks import Target, collapse
from ..numbers import annotations as npt
from ..numbers import exact
from ..numbers.arguments import real_array
from ..numbers.arrays import Array, Floats, check_out, new
from ..numbers.doubles import Pair, exp2_parts, product, total
from ..numbers.formats import FLOAT64
from ..numbers.rounding import round_once
from ..positions.foreign import as_array
from ..positions.positions import Converted
from .plans import Plans
from .rows import encode

# Maximum frequency in turns, and also maximum variance. Within these limits, a variance times the square of a frequency
# does not overflow float64.
_LARGEST = 2.0**300
# A squared covariance may exceed the product of the variances by this factor, because of rounding.
_TOLERANCE = 1 + 2.0**-20
# number of weights in a block, so that temporary arrays stay in the cache
_VALUES = 1 << 15


@functools.cache
def _exponent_factor() -> tuple[float, float]:
    """Return c = 2 pi^2 / ln(2) as a sum of two doubles.

    The weight exp(-(2 pi t)^2 v / 2), for a frequency of t turns and a variance v, equals 2 ** (-c t^2 v).
    """
    with exact.working():
        value = exact.decimal_two_pi() ** 2 / (2 * Decimal(2).ln())
        high = float(value)
        return high, float(value - Decimal(high))


class Variance:
    """Variances of positions.

    form is "one" (one number for all rows and axes), "axes" (a number for each axis of each row) or "matrix" (a
    covariance matrix for each row).
    """

    def __init__(self, variance: npt.ArrayLike, positions: Converted, axes: int) -> None:
        if np.ma.is_masked(variance):
            raise ValueError(
                "variance has masked values; replace them with variance.filled(number), or leave out these positions"
            )
        values = real_array(as_array(variance, "variance"), "variance")
        # in `wanted`, the axes are always the last dimension; in `public_shape`, only if there are several
        wanted = (*positions.shape, axes)
        public_shape = positions.shape if axes == 1 else wanted
        matrices = (*wanted, axes)
        if axes == 1 and values.ndim == len(public_shape) > 0:
            values = values[..., np.newaxis]
        self.form = "one" if values.ndim == 0 else "matrix" if axes > 1 and values.ndim == len(matrices) else "axes"
        try:
            if self.form != "one":
                values = np.broadcast_to(values, matrices if self.form == "matrix" else wanted)
        except ValueError:
            values = np.empty(())
        if (self.form != "one") != (values.ndim > 0) or (values.ndim and values.ndim < len(wanted)):
            also = f", or {matrices} with a matrix for each position" if axes > 1 else ""
            raise ValueError(
                f"variance has shape {np.shape(variance)}, but must be one number, or have shape {public_shape}{also}"
            )
        diagonal = np.diagonal(values, axis1=-2, axis2=-1) if self.form == "matrix" else values
        if (diagonal < 0).any() or (np.abs(values) > _LARGEST).any():
            wrong = diagonal[diagonal < 0] if (diagonal < 0).any() else values[np.abs(values) > _LARGEST]
            signed = " (covariances from -2**300 to 2**300)" if self.form == "matrix" else ""
            raise ValueError(f"variance must be from 0 to 2**300{signed}, not {wrong[0].item()!r}")
        if self.form == "matrix":
            _check_covariances(values)
        self.values = values if self.form == "one" else values.reshape(-1, *values.shape[len(positions.shape) :])

    def exponents(self, turns: Floats, part: slice) -> Pair:
        """Return log2(exp(-frequency^2 variance / 2)) as high and low parts, each of shape (rows, waves).

        turns has the frequencies of the waves in turns, as high and low parts, of shape (2, waves, axes).
        """
        axes = turns.shape[2]
        if self.form == "one":
            pairs = [(a, a, self.values) for a in range(axes)]
        elif self.form == "axes":
            pairs = [(a, a, self.values[part, a, np.newaxis]) for a in range(axes)]
        else:
            pairs = [(a, b, self.values[part, a, b, np.newaxis]) for a in range(axes) for b in range(axes)]
        rows = 1 if self.form == "one" else self.values[part].shape[0]
        high, low = np.zeros((2, rows, turns.shape[1]))
        for a, b, variance in pairs:
            square, square_low = product(*turns[:, :, a], *turns[:, :, b])
            # with several axes, most waves depend on only one, so most products are zero
            here = np.flatnonzero(square)
            if len(here):
                term = product(square[here], square_low[here], variance, 0.0)
                high[:, here], low[:, here] = total(high[:, here], low[:, here], *term)
        high, low = product(high, low, *_exponent_factor())
        # a sum of rounded products can be slightly negative although the covariance matrix is valid
        return np.minimum(-high, 0.0), np.where(high > 0, -low, 0.0)


def _check_covariances(matrices: Floats) -> None:
    """Raise a ValueError if a covariance in the matrices, of shape (.., A, A), is larger than the variances allow."""
    for a, b in itertools.combinations(range(matrices.shape[-1]), 2):
        mixed = (matrices[..., a, b] + matrices[..., b, a]) / 2
        wrong = mixed**2 > matrices[..., a, a] * matrices[..., b, b] * _TOLERANCE
        if wrong.any():
            shown = matrices[wrong][0].tolist()
            raise ValueError(
                "variance must contain covariance matrices v, with abs(v[a, b]) at most sqrt(v[a, a] * v[b, b]), not "
                f"{shown}"
            )


def integrate(
    plans: Plans,
    positions: Converted,
    variance: npt.ArrayLike,
    dtype: np.dtype[Any],
    out: Array | None = None,
    *,
    single: bool = False,
    threads: int = 1,
) -> Array:
    """Return the rows of positions, of shape (..., d). Each column is multiplied by exp(-frequency^2 variance / 2)."""
    sinusoids = plans.sinusoids
    spread = Variance(variance, positions, sinusoids.axes)
    waves = sinusoids.waves()
    turns = sinusoids.pairs()[:, waves.frequency]
    if (np.abs(turns) > _LARGEST).any():
        raise ValueError(
            "variance needs frequencies of at most 2**300 turns per unit of position, but this encoding has higher ones"
        )
    shape = (*positions.shape, plans.width)
    result = new(shape, dtype) if out is None else check_out(out, shape, dtype, "encode")
    if out is not None:
        positions.keep_from(result)
        if np.may_share_memory(spread.values, result):
            spread.values = spread.values.copy()
    if not len(positions):
        return result if out is None else out
    rows = collapse(result, 2)
    target = Target(new((len(positions), plans.width), dtype) if rows is None else rows, warm=out is not None)
    step = max(1, _VALUES // plans.width)

    def write(part: slice, block: Target) -> None:
        for begin in range(part.start, part.stop, step):
            chunk = slice(begin, min(begin + step, part.stop))
            values = encode(plans, positions.rows(chunk), FLOAT64.stored, single=single)
            # A weight can be too small for float64, although its product with the value is not. So a weight is split
            # into a factor near 1 and a power of two, and the value is multiplied by the power of two last.
            weights, powers = (array[:, waves.wave] for array in exp2_parts(*spread.exponents(turns, chunk)))
            with np.errstate(over="ignore", under="ignore"):
                values = np.ldexp(values * weights, powers)
                block.out[begin - part.start : chunk.stop - part.start] = round_once(block.kind, values)

    target.run(write, threads)
    if rows is None:
        result[...] = target.out.view(dtype).reshape(result.shape)
    return result if out is None else out
