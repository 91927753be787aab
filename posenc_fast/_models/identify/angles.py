"""Measure frequencies and phases in the columns of a table, and find schedules of frequencies near them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.numbers.arrays import Floats
from ..._core.numbers.formats import Format
from ...typing import Function, Layout, Odd
from .bases import BASES, DIGITS, few_digits
from .tolerances import IDENTIFIED_SINE, PER_ANGLE

# The closest preset is named only if it differs from the data by at most this fraction of the preset's largest value.
# For comparison, unrelated cosines differ by up to 2.
NEAR = 0.5
# largest number of values that are compared at a time
BLOCK = 1 << 20
# possible orders of sine and cosine in a pair of columns
ORDERS: tuple[tuple[Function, Function], ...] = (("sin", "cos"), ("cos", "sin"))
# values of freq_shift to try
_SHIFTS = (0.0, 1.0, 0.5)
# common frequencies of the first pair
FIRSTS = (1.0, 2 * math.pi, math.pi, 2.0, 0.5)


class Table(NamedTuple):
    """A checked table.

    whole: all rows. values: first rows, in which angles are measured. rows: indices of the rows in ``values`` that are
    not zero. zero_rows: indices of all rows of zeros in ``whole``. form: format of the numbers.
    """

    whole: npt.NDArray[Any]
    values: Floats
    rows: npt.NDArray[np.intp]
    zero_rows: tuple[int, ...]
    form: Format


class Angles(NamedTuple):
    """Measurements of pairs of columns. All fields but step have one value per pair.

    frequencies: radians per row. errors: errors of the frequencies. known: whether the frequency exceeds four times its
    error. phases: angles in row 0. rounding: errors of the phases. step: difference of consecutive positions, 1 or -1.
    """

    frequencies: Floats
    errors: Floats
    known: npt.NDArray[np.bool_]
    phases: Floats
    rounding: Floats
    step: int


def scale_of(table: Table, values: Floats, expected: Floats) -> float:
    """Return the factor by which the values differ from the expected values, measured by least squares.

    If it agrees with a factor that sources use, such as 1 or the square root of the width, return that factor.
    """
    scale = float((values * expected).sum() / max((expected**2).sum(), 1e-300))
    d = values.shape[1]
    common = (1.0, d**-0.5, (2 / d) ** 0.5, 2**0.5, d**0.5)
    return next((factor for factor in common if abs(scale / factor - 1) < table.form.rounding / 2 + 1e-6), scale)


def tolerated(table: Table, values: Floats, angles: Floats, scale: float) -> Floats:
    """Return the tolerated difference of each value from the exact value. It includes the errors of float32 angles."""
    allowed = 2 * table.form.rounding * np.abs(values) + abs(scale) * (IDENTIFIED_SINE + PER_ANGLE * np.abs(angles))
    result: Floats = np.maximum(allowed, 1e-300)
    return result


def odd_of(table: Table) -> Odd:
    """Return the argument ``odd`` of `sinusoidal` for the last column of the table."""
    return "zero" if table.values.shape[1] % 2 and not table.values[:, -1].any() else "crop"


def measure(table: Table, layout: Layout, functions: tuple[Function, ...]) -> Angles | None:
    """Return the measured frequency and phase of each pair of columns.

    Return None if the two columns of a pair are not the cosine and the sine of an angle that changes by the same amount
    from row to row.
    """
    d = table.values.shape[1]
    pairs = d // 2
    values = table.values[table.rows]
    if layout == "interleaved":
        first, second = values[:, 0 : 2 * pairs : 2], values[:, 1 : 2 * pairs : 2]
    else:
        half = pairs if odd_of(table) == "zero" else d - pairs
        first, second = values[:, :pairs], values[:, half : half + pairs]
    cos, sin = (first, second) if functions[0] == "cos" else (second, first)
    # (rows, pairs)
    z = cos + 1j * sin
    lengths = np.abs(z)
    scale = lengths.mean() if pairs else 0.0
    if scale == 0 or np.abs(lengths / scale - 1).max() > 4 * table.form.rounding + 1e-5:
        return None
    consecutive = np.diff(table.rows) == 1
    if not consecutive.any():
        return None
    mean_rotation = np.angle((z[1:] * z[:-1].conj())[consecutive].sum(axis=0))
    rows = table.rows[:, np.newaxis].astype(np.float64)
    # after the mean rotation is subtracted, the remaining angles are small and continuous; fit a line to them
    remaining = np.unwrap(np.angle(z * np.exp(-1j * mean_rotation * rows)), axis=0)
    centre = rows.mean()
    spread = ((rows - centre) ** 2).sum()
    slope = ((rows - centre) * remaining).sum(axis=0) / spread
    noise = remaining - remaining.mean(axis=0) - slope * (rows - centre)
    frequencies = mean_rotation + slope
    if np.abs(noise).max() > 8 * table.form.rounding + 1e-5 + 1e-6 * np.abs(frequencies).max() * rows.max():
        return None
    phases = np.angle(np.exp(1j * (remaining.mean(axis=0) - slope * centre)))
    # small sines have smaller rounding errors
    rounding = table.form.rounding * np.minimum(1.0, np.abs(phases) + np.abs(frequencies) * rows.max()) + 1e-9
    errors = np.maximum(np.sqrt((noise**2).mean(axis=0)), rounding) / np.sqrt(spread)
    known = np.abs(frequencies) > 4 * errors
    step = -1 if frequencies[known].sum() < 0 else 1
    if not known.any() or (frequencies[known] * step < 0).any():
        return None
    return Angles(np.abs(frequencies), errors, known, phases, rounding, step)


def start_of(angles: Angles) -> float:
    """Return the position of row 0, computed from the phases.

    The slowest pair determines the position without ambiguity. Each faster pair makes the position more precise. The
    estimates of the pairs are averaged, and weighted by the inverse of their variances.
    """
    known_pairs = np.flatnonzero(angles.known)
    slowest_first = known_pairs[np.argsort(angles.frequencies[known_pairs])]
    start, variance = 0.0, math.inf
    for k in slowest_first.tolist():
        frequency = float(angles.frequencies[k])
        # the measured phase, minus start * frequency, brought into the range from -pi to pi
        difference = (float(angles.phases[k]) - start * frequency + math.pi) % (2 * math.pi) - math.pi
        pair_variance = (float(angles.rounding[k]) / frequency) ** 2
        share = 1.0 if math.isinf(variance) else variance / (variance + pair_variance)
        start += share * difference / frequency
        variance = pair_variance if math.isinf(variance) else variance * pair_variance / (variance + pair_variance)
    return start


def schedules(angles: Angles, half: float) -> Iterator[dict[str, float]]:
    """Yield arguments of `sinusoidal` for geometric progressions near the measured frequencies.

    Common arguments come first. half: denominator of the exponents without a shift.
    """
    # frequency i is first * base ** (-i / (half - freq_shift)), so the logarithms lie on a line that falls
    i = np.flatnonzero(angles.known)
    frequencies, errors = angles.frequencies[i], angles.errors[i]
    weights, logs = (frequencies / errors) ** 2, np.log(frequencies)
    if len(i) > 1:
        centre, level = np.average(i, weights=weights), np.average(logs, weights=weights)
        fall = -(weights * (i - centre) * logs).sum() / (weights * (i - centre) ** 2).sum()
        measured = math.exp(level + fall * centre)
    else:
        # a single frequency does not determine a base, so assume the most common base
        fall = math.log(BASES[0]) / half
        measured = float(frequencies[0] * math.exp(fall * i[0]))
    seen = set()
    common = [first for first in FIRSTS if abs(first / measured - 1) < 0.02]
    for first in (*common, float(f"{measured:.4g}"), measured):
        if len(i) > 1:
            # measure the base again, with exactly this first frequency
            fall = -(weights * i * (logs - math.log(first))).sum() / (weights * i**2).sum()
        for base, shift in _bases_and_shifts(fall, half):
            expected = math.log(first) - i / (half - shift) * math.log(base)
            close = np.abs(expected - logs) < 0.05 + 8 * errors / frequencies
            if close.all() and (base, shift, first) not in seen:
                seen.add((base, shift, first))
                yield {"base": base, "freq_shift": shift, "first": first}


def _bases_and_shifts(fall: float, half: float) -> list[tuple[float, float]]:
    """Return a list of (base, freq_shift) for which the logarithms of frequencies fall by about ``fall`` per pair.

    Bases in `BASES` come first, then the estimated bases rounded to 2, 3, .. digits, and then the estimates themselves.
    """
    options = []
    for order, shift in enumerate(_SHIFTS):
        if half > shift and abs(fall * (half - shift)) < 600:
            estimate = math.exp(fall * (half - shift))
            near = [base if abs(math.log(base / estimate)) < 0.05 else None for base in BASES]
            ranked = enumerate([*near, *few_digits(estimate, DIGITS[1:]), estimate])
            options += [(rank, order, base) for rank, base in ranked if base is not None]
    return [(base, _SHIFTS[order]) for _, order, base in sorted(options)]
