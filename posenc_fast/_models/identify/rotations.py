"""Measure frequencies in tables and rotated vectors, and find the formula of a source that computes them.

Vectors are complex numbers, one for each token and pair.
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

# original lengths of scalings to try, the most common first
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
    positions: (tokens, axes). kind: number of the type of the values. layout, head_dim: None if they are unknown.
    frequencies: (pairs, axes), if only frequencies are known; then there are no tokens.
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

        Return (largest quotient of a difference and the tolerated difference, largest difference).
        """
        rounding, least = FORMATS[self.kind].rounding, least_of(FORMATS[self.kind])
        if self.frequencies is not None:
            difference = np.abs(self.frequencies - frequencies)
            size = np.abs(frequencies)
            allowed = (2 * rounding + PER_ANGLE) * size + 1e-12 * size.max(initial=1e-300) + least
            misfit = difference / allowed
            return float(misfit.max()), float((difference / np.maximum(size, 1e-300)).max())
        angles = (self.positions @ frequencies.T)[:, np.newaxis]
        largest = np.abs(self.positions).max(axis=0, initial=0.0) @ np.abs(frequencies).T
        turn = factor * np.exp(1j * angles)
        if self.before is None:
            parts = [(self.after.real, turn.real), (self.after.imag, turn.imag)]
            differences = [(np.abs(got - expected), got) for got, expected in parts]
            allowed = factor * PER_ANGLE * largest + 1e-12 + least
            misfit = max(float((d / (2 * rounding * np.abs(got) + allowed)).max()) for d, got in differences)
            return misfit, max(float(d.max()) for d, _ in differences)
        difference = np.abs(self.after - turn * self.before)
        length = factor * np.abs(self.before)
        allowed = length * (4 * rounding + PER_ANGLE * largest + PRODUCT) + 1e-30 + least
        return float((difference / allowed).max()), float(difference.max())


class Measured(NamedTuple):
    """Measured frequencies (pairs, axes), the largest error of each, and the factor of cosines and sines."""

    frequencies: Floats
    errors: Floats
    factor: float


class Guess(NamedTuple):
    """Frequencies (pairs,) near the measured ones.

    arguments: arguments of the Rotary with these frequencies. factor: factor of the cosines and sines of this Rotary.
    """

    frequencies: Floats
    arguments: dict[str, Any]
    factor: float


def frequencies_in(sample: Sample) -> Measured | None:
    """Return the frequencies that are measured in a sample.

    They are measured between tokens whose positions differ by 1 on one axis, and then more precisely by least squares
    on all tokens. Return None if the pairs are not rotated, or if the positions do not determine the frequencies.
    """
    rounding = FORMATS[sample.kind].rounding
    if sample.frequencies is not None:
        return Measured(sample.frequencies, (2 * rounding + PER_ANGLE) * np.abs(sample.frequencies), 1.0)
    ratio = sample.after if sample.before is None else sample.after * sample.before.conj()
    weight = np.ones(ratio.shape) if sample.before is None else np.abs(sample.before) ** 2
    # all heads rotate by the same angles; pairs of length 0 have no angle
    total, weights = ratio.sum(axis=1), weight.sum(axis=1)
    if len(total) < 2 or not weights.all():
        return None
    z = total / weights
    factor = float(np.median(np.abs(z)))
    if factor == 0 or np.abs(np.abs(z) / factor - 1).max() > 8 * rounding + 1e-5:
        return None
    steps = sample.positions[np.newaxis] - sample.positions[:, np.newaxis]
    axes = sample.positions.shape[1]
    values = np.zeros((sample.pairs, axes))
    for a in range(axes):
        others = np.delete(steps, a, axis=2)
        first, second = np.nonzero((steps[..., a] == 1) & (others == 0).all(axis=2))
        if not len(first):
            return None
        values[:, a] = np.angle((z[second] * z[first].conj()).sum(axis=0))
    left = np.angle(z / factor * np.exp(-1j * sample.positions @ values.T))
    more, _, rank, _ = np.linalg.lstsq(sample.positions, left, rcond=None)
    if rank < axes:
        return None
    values = values + more.T
    spread = np.sqrt((sample.positions**2).sum(axis=0))
    largest = np.abs(values) @ np.abs(sample.positions).max(axis=0)
    # the rounding error of a small sine is small, but the rounding errors of rotated values do not depend on the angle
    size = np.minimum(1.0, largest) if sample.before is None else np.ones_like(largest)
    errors = (4 * rounding * size + PER_ANGLE * largest + PRODUCT * 1e-2)[:, np.newaxis] / spread
    return Measured(values, errors, 1.0 if abs(factor - 1) <= 4 * rounding + 1e-6 else factor)


def guesses(measured: Measured) -> Iterator[tuple[Guess, list[int] | None]]:
    """Yield (guess, axis of each pair) for formulas near the measured frequencies. Simple formulas come first.

    For positions with one axis, None is yielded instead of the axes.
    """
    values, errors = measured.frequencies, measured.errors
    turning = np.abs(values) > 4 * errors
    if not turning.any() or (turning.sum(axis=1) > 1).any():
        return
    axes = turning.argmax(axis=1)
    picked, errors_of_pair = (array[np.arange(len(array)), axes] for array in (values, errors))
    known = np.flatnonzero(turning.any(axis=1))
    sign = float(np.sign(picked[known[0]]))
    if (picked[known] * sign < 0).any():
        return
    size = sign * picked
    sections = None if values.shape[1] == 1 else axes.tolist()
    if sections is not None and set(sections) != set(range(values.shape[1])):
        return
    place = np.arange(len(size))
    for base in _bases(size[known], errors_of_pair[known], place[known] / len(size)):
        for guess in _with_base(base, sign, size, errors_of_pair, measured.factor):
            yield guess, sections
    if sections is not None:
        # the frequencies of each axis may start again from 1
        schedules, expected = [], np.zeros(len(size))
        for a in range(values.shape[1]):
            of_axis = axes == a
            count = int(of_axis.sum())
            exponents = np.arange(count) / count
            turns = turning[of_axis].any(axis=1)
            base_of_axis = next(_bases(size[of_axis][turns], errors_of_pair[of_axis][turns], exponents[turns]), None)
            if base_of_axis is None:
                return
            schedules.append(geometric(count, base=base_of_axis, first=sign))
            expected[of_axis] = sign * base_of_axis**-exponents
        arguments = {"frequencies": schedules, "attention_factor": measured.factor}
        yield Guess(expected, arguments, measured.factor), sections


def _bases(size: Floats, errors: Floats, exponents: Floats) -> Iterator[float]:
    """Yield bases whose powers ``base ** -exponents`` are near all frequencies, or near the fastest ones.

    Known bases come first, then rounded estimates, then the estimate.
    """
    usable = (exponents > 0) & (size > 0)
    if not usable.any():
        return
    # divide by the first frequency, because a scaling of all frequencies changes it from 1
    first = size[exponents == 0]
    logs = np.log(size[usable] / (first[0] if len(first) else 1.0))
    exponents, doubt = exponents[usable], errors[usable] / size[usable] + 1e-9
    seen: set[float] = set()
    # estimate the base from all pairs, and then only from the fastest pairs, which most scalings leave unchanged
    for share in (1.0, 0.25):
        most = max(1, int(share * len(logs)))
        weights = (exponents[:most] / doubt[:most]) ** 2
        estimate = float(-(weights * logs[:most] / exponents[:most]).sum() / weights.sum())
        if not 0 < estimate < 100:
            continue
        slack = 8 / math.sqrt(weights.sum()) + 1e-5
        exact = math.exp(estimate)
        for base in (*ROTARY_BASES, *few_digits(exact, ROTARY_DIGITS), exact):
            if base > 1 and base not in seen and abs(math.log(base) - estimate) < slack:
                seen.add(base)
                yield base


def _with_base(base: float, sign: float, size: Floats, errors: Floats, factor: float) -> Iterator[Guess]:
    """Yield guesses with a base: powers of the base without a scaling, and then with known scalings."""
    pairs = len(size)
    unscaled = base ** (-np.arange(pairs) / pairs)
    if sign < 0 or factor != 1:
        schedule = geometric(pairs, base=base, first=sign)
        yield Guess(sign * unscaled, {"frequencies": schedule, "attention_factor": factor}, factor)
    else:
        yield Guess(unscaled, {"base": base}, 1.0)
    precise = (errors < 0.02 * size) & (size > 0)
    # scalings have more parameters, which only precise frequencies determine
    if sign < 0 or pairs < 8 or precise.sum() < 4:
        return
    ratios = unscaled[precise] / size[precise]
    slow = float(ratios[-1])
    rounded = float(f"{slow:.2g}")
    slow = rounded if abs(rounded / slow - 1) < 0.02 else slow
    still = np.abs(size) <= 4 * errors
    begin = int(np.argmax(still)) if still.any() else pairs
    scalings: list[dict[str, Any]] = []
    if factor == 1 and slow > 1 and ratios.max() < 1.05 * ratios.min():
        scalings.append({"rope_type": "linear", "factor": slow})
    if factor == 1 and 0 < begin < pairs and still[begin:].all():
        scalings.append({"rope_type": "proportional", "partial_rotary_factor": begin / pairs})
    if slow > 1 and abs(ratios[0] - 1) < 0.02:
        for original in _ORIGINALS:
            shared = {"factor": slow, "original_max_position_embeddings": original}
            if factor == 1:
                scalings.append({"rope_type": "llama3", **shared, "low_freq_factor": 1.0, "high_freq_factor": 4.0})
            if abs(factor - (0.1 * math.log(slow) + 1)) >= 0.01:
                shared["attention_factor"] = factor
            scalings += [{"rope_type": "yarn", **shared, "truncate": truncate} for truncate in (True, False)]
    for scaling in scalings:
        rope_type, parameters = checked_scaling(scaling, pairs)
        scaled = frequencies_of(2 * pairs, base, rope_type, parameters)
        yield Guess(np.asarray(scaled.values), {"base": base, "scaling": scaling}, scaled.attention_factor)
