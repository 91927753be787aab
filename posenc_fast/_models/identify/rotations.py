"""Measure frequencies in tables and rotated vectors, and find a known formula that computes them.

Vectors are stored as complex numbers, one for each token and pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.numbers.arrays import Array, Floats
from ..._core.numbers.formats import FORMATS
from ..._core.numbers.schedule import geometric
from ..._core.rotary.scaling import checked_scaling, frequencies_of
from ...typing import RotaryLayout
from .bases import ROTARY_BASES, ROTARY_DIGITS, few_digits
from .tolerances import PER_ANGLE, PRODUCT, least_of

Complex = npt.NDArray[np.complex128]

# values of original_max_position_embeddings to try, the most common first
_ORIGINALS = (8192.0, 4096.0, 2048.0, 32768.0, 16384.0, 65536.0, 1024.0, 131072.0, 262144.0)


def columns_of(layout: str, dim: int) -> tuple[slice, slice]:
    """Return (columns of first values, columns of second values) of all pairs.

    The two values of a pair are adjacent if the layout is "interleaved", and half of dim apart otherwise.
    """
    if layout == "interleaved":
        return slice(0, dim, 2), slice(1, dim, 2)
    return slice(0, dim // 2), slice(dim // 2, dim)


def complex_pairs(values: Array, layout: str, dim: int) -> Array:
    """Return the first dim columns as complex numbers, one for each pair of columns in the layout."""
    first, second = columns_of(layout, dim)
    pairs: Array = values[..., first] + 1j * values[..., second]
    return pairs


class Sample(NamedTuple):
    """Vectors before and after a rotation, tables of cosines and sines, or frequencies.

    before, after: complex numbers (tokens, heads, pairs). For tables, `after` is cos + i sin, and `before` is None.
    positions: (tokens, axes). kind: index of the format of the values in `FORMATS`. layout, head_dim: None if they are
    unknown. frequencies: (pairs, axes) if only frequencies are known, so that there are no tokens; else None.
    """

    before: Complex | None
    after: Complex
    positions: Floats
    kind: int
    layout: RotaryLayout | None
    head_dim: int | None
    frequencies: Floats | None = None

    @property
    def pairs(self) -> int:
        return int(self.after.shape[-1])

    def compare(self, frequencies: Floats, factor: float) -> tuple[float, float]:
        """Compare the sample with frequencies (pairs, axes), and with a factor of cosines and sines.

        The factor is not used if only frequencies are known.
        Return (largest quotient of a difference and the tolerated difference, largest difference). If only frequencies
        are known, the second number is a relative difference.
        """
        rounding, least = FORMATS[self.kind].rounding, least_of(FORMATS[self.kind])
        if self.frequencies is not None:
            difference = np.abs(self.frequencies - frequencies)
            size = np.abs(frequencies)
            allowed = (2 * rounding + PER_ANGLE) * size + 1e-12 * size.max(initial=1e-300) + least
            return float((difference / allowed).max()), float((difference / np.maximum(size, 1e-300)).max())
        # rotations: (tokens, 1, pairs); largest_angles: (pairs,)
        rotations = factor * np.exp(1j * (self.positions @ frequencies.T)[:, np.newaxis])
        largest_angles = np.abs(self.positions).max(axis=0, initial=0.0) @ np.abs(frequencies).T
        if self.before is None:
            # compare cosines and sines: (2, tokens, 1, pairs)
            values = np.stack([self.after.real, self.after.imag])
            difference = np.abs(values - np.stack([rotations.real, rotations.imag]))
            allowed = 2 * rounding * np.abs(values) + (factor * PER_ANGLE * largest_angles + 1e-12 + least)
        else:
            difference = np.abs(self.after - rotations * self.before)
            length = factor * np.abs(self.before)
            allowed = length * (4 * rounding + PER_ANGLE * largest_angles + PRODUCT) + 1e-30 + least
        return float((difference / allowed).max()), float(difference.max())


class Measured(NamedTuple):
    """Measured frequencies (pairs, axes), an upper bound of each error, and the factor of cosines and sines."""

    frequencies: Floats
    errors: Floats
    factor: float


class Guess(NamedTuple):
    """Frequencies (pairs,) that a formula computes, near the measured ones.

    arguments: arguments of the Rotary with these frequencies. factor: factor of the cosines and sines of this Rotary.
    """

    frequencies: Floats
    arguments: dict[str, Any]
    factor: float


def frequencies_in(sample: Sample) -> Measured | None:
    """Return the frequencies that are measured in a sample.

    They are measured between tokens whose positions differ by 1 on one axis, and then more precisely by least squares
    on all tokens. Return None if the sample is not a rotation, or if the positions do not determine the frequencies.
    """
    rounding = FORMATS[sample.kind].rounding
    if sample.frequencies is not None:
        return Measured(sample.frequencies, (2 * rounding + PER_ANGLE) * np.abs(sample.frequencies), 1.0)
    products = sample.after if sample.before is None else sample.after * sample.before.conj()
    squares = np.ones(products.shape) if sample.before is None else np.abs(sample.before) ** 2
    # all heads rotate by the same angles; pairs of length 0 have no angle
    products, squares = products.sum(axis=1), squares.sum(axis=1)
    if len(products) < 2 or not squares.all():
        return None
    # (tokens, pairs)
    rotations = products / squares
    factor = float(np.median(np.abs(rotations)))
    if factor == 0 or np.abs(np.abs(rotations) / factor - 1).max() > 8 * rounding + 1e-5:
        return None
    positions, axes = sample.positions, sample.positions.shape[1]
    # steps[i, j]: step from the position of token i to that of token j
    steps = positions[np.newaxis] - positions[:, np.newaxis]
    frequencies = np.zeros((sample.pairs, axes))
    for axis in range(axes):
        other_axes = np.delete(steps, axis, axis=2)
        before, after = np.nonzero((steps[..., axis] == 1) & (other_axes == 0).all(axis=2))
        if not len(before):
            return None
        frequencies[:, axis] = np.angle((rotations[after] * rotations[before].conj()).sum(axis=0))
    remaining_angles = np.angle(rotations / factor * np.exp(-1j * positions @ frequencies.T))
    corrections, _, rank, _ = np.linalg.lstsq(positions, remaining_angles, rcond=None)
    if rank < axes:
        return None
    frequencies = frequencies + corrections.T
    largest_angles = np.abs(frequencies) @ np.abs(positions).max(axis=0)
    # the rounding error of a small sine is small, but the rounding errors of rotated values do not depend on the angle
    size = np.minimum(1.0, largest_angles) if sample.before is None else np.ones_like(largest_angles)
    angle_errors = 4 * rounding * size + PER_ANGLE * largest_angles + PRODUCT * 1e-2
    # (pairs, axes): the fit by least squares averages the errors of all tokens
    errors = angle_errors[:, np.newaxis] / np.sqrt((positions**2).sum(axis=0))
    return Measured(frequencies, errors, 1.0 if abs(factor - 1) <= 4 * rounding + 1e-6 else factor)


def guesses(measured: Measured) -> Iterator[tuple[Guess, list[int] | None]]:
    """Yield (guess, axis of each pair) for formulas near the measured frequencies. Simple formulas come first.

    For positions with one axis, None is yielded instead of the axes.
    """
    # (pairs, axes): whether a pair rotates if the position changes on an axis
    rotates_on = np.abs(measured.frequencies) > 4 * measured.errors
    if not rotates_on.any() or (rotates_on.sum(axis=1) > 1).any():
        return
    pairs, axes = rotates_on.shape
    axis_of_pair, rotates = rotates_on.argmax(axis=1), rotates_on.any(axis=1)
    sections = None if axes == 1 else axis_of_pair.tolist()
    if sections is not None and set(sections) != set(range(axes)):
        return
    # (pairs,): frequency of each pair on its axis, and its error
    frequencies, errors = (array[np.arange(pairs), axis_of_pair] for array in (measured.frequencies, measured.errors))
    sign = float(np.sign(frequencies[rotates][0]))
    # the formulas are compared as if all pairs rotated forwards
    frequencies = sign * frequencies
    if (frequencies[rotates] < 0).any():
        return
    exponents = np.arange(pairs) / pairs
    for base in _bases(frequencies[rotates], errors[rotates], exponents[rotates]):
        for guess in _with_base(base, sign, frequencies, errors, measured.factor):
            yield guess, sections
    if sections is not None:
        # the frequencies of each axis may start again from 1
        schedules, expected = [], np.zeros(pairs)
        for axis in range(axes):
            on_axis = axis_of_pair == axis
            known, count = on_axis & rotates, int(on_axis.sum())
            exponents[on_axis] = np.arange(count) / count
            base_of_axis = next(_bases(frequencies[known], errors[known], exponents[known]), None)
            if base_of_axis is None:
                return
            schedules.append(geometric(count, base=base_of_axis, first=sign))
            expected[on_axis] = sign * base_of_axis ** -exponents[on_axis]
        arguments = {"frequencies": schedules, "attention_factor": measured.factor}
        yield Guess(expected, arguments, measured.factor), sections


def _bases(frequencies: Floats, errors: Floats, exponents: Floats) -> Iterator[float]:
    """Yield bases whose powers ``base ** -exponents`` are near all frequencies, or near the fastest ones.

    The base is estimated from all pairs, and then from the fastest ones. For each estimate, known bases come first,
    then the rounded estimate, then the estimate itself.
    """
    usable = (exponents > 0) & (frequencies > 0)
    if not usable.any():
        return
    # divide by the first frequency, because a scaling of all frequencies changes it from 1
    first = frequencies[exponents == 0]
    logs = np.log(frequencies[usable] / (first[0] if len(first) else 1.0))
    exponents, log_errors = exponents[usable], errors[usable] / frequencies[usable] + 1e-9
    seen: set[float] = set()
    # estimate the base from all pairs, and then only from the fastest pairs, which most scalings leave unchanged
    for share in (1.0, 0.25):
        count = max(1, int(share * len(logs)))
        weights = (exponents[:count] / log_errors[:count]) ** 2
        log_base = float(-(weights * logs[:count] / exponents[:count]).sum() / weights.sum())
        if not 0 < log_base < 100:
            continue
        slack = 8 / math.sqrt(weights.sum()) + 1e-5
        estimate = math.exp(log_base)
        for base in (*ROTARY_BASES, *few_digits(estimate, ROTARY_DIGITS), estimate):
            if base > 1 and base not in seen and abs(math.log(base) - log_base) < slack:
                seen.add(base)
                yield base


def _with_base(base: float, sign: float, frequencies: Floats, errors: Floats, factor: float) -> Iterator[Guess]:
    """Yield guesses with a base: powers of the base without a scaling, and then with known scalings.

    sign: -1 if pairs rotate backwards, else 1. frequencies: measured frequencies, multiplied by the sign. factor:
    factor of the cosines and sines.
    """
    pairs = len(frequencies)
    unscaled = base ** (-np.arange(pairs) / pairs)
    if sign < 0 or factor != 1:
        schedule = geometric(pairs, base=base, first=sign)
        yield Guess(sign * unscaled, {"frequencies": schedule, "attention_factor": factor}, factor)
    else:
        yield Guess(unscaled, {"base": base}, 1.0)
    precise = (errors < 0.02 * frequencies) & (frequencies > 0)
    # scalings have more parameters, which only precise frequencies determine
    if sign < 0 or pairs < 8 or precise.sum() < 4:
        return
    divisors = unscaled[precise] / frequencies[precise]
    # linear, llama3 and yarn divide the frequency of the slowest pair by their factor
    measured_factor = float(divisors[-1])
    two_digits = float(f"{measured_factor:.2g}")
    scaling_factor = two_digits if abs(two_digits / measured_factor - 1) < 0.02 else measured_factor
    at_rest = np.abs(frequencies) <= 4 * errors
    rotating = int(np.argmax(at_rest)) if at_rest.any() else pairs
    scalings: list[dict[str, Any]] = []
    if factor == 1 and scaling_factor > 1 and divisors.max() < 1.05 * divisors.min():
        scalings.append({"rope_type": "linear", "factor": scaling_factor})
    if factor == 1 and 0 < rotating < pairs and at_rest[rotating:].all():
        scalings.append({"rope_type": "proportional", "partial_rotary_factor": rotating / pairs})
    if scaling_factor > 1 and abs(divisors[0] - 1) < 0.02:
        for original in _ORIGINALS:
            shared = {"factor": scaling_factor, "original_max_position_embeddings": original}
            if factor == 1:
                scalings.append({"rope_type": "llama3", **shared, "low_freq_factor": 1.0, "high_freq_factor": 4.0})
            if abs(factor - (0.1 * math.log(scaling_factor) + 1)) >= 0.01:
                shared["attention_factor"] = factor
            scalings += [{"rope_type": "yarn", **shared, "truncate": truncate} for truncate in (True, False)]
    for scaling in scalings:
        rope_type, parameters = checked_scaling(scaling, pairs)
        scaled = frequencies_of(2 * pairs, base, rope_type, parameters)
        yield Guess(np.asarray(scaled.values), {"base": base, "scaling": scaling}, scaled.attention_factor)
