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

# A preset is named as the closest only if it differs by at most this fraction of its largest value. Any two cosines
# differ by at most 2.
NEAR = 0.5
# largest number of values that are compared at a time
BLOCK = 1 << 20
# possible orders of sine and cosine in a pair of columns
ORDERS: tuple[tuple[Function, Function], ...] = (("sin", "cos"), ("cos", "sin"))
# values of freq_shift to try
_SHIFTS = (0.0, 1.0, 0.5)
# first frequencies that sources use
FIRSTS = (1.0, 2 * math.pi, math.pi, 2.0, 0.5)


class Table(NamedTuple):
    """A checked table.

    whole: all rows. values: first rows, in which angles are measured. rows: indices of the first rows that are not
    zero. zero_rows: indices of all rows of zeros. form: format of the numbers.
    """

    whole: npt.NDArray[Any]
    values: Floats
    rows: npt.NDArray[np.intp]
    zero_rows: tuple[int, ...]
    form: Format


class Angles(NamedTuple):
    """Measurements of pairs of columns. All fields but step have one value per pair.

    frequencies: radians per row. errors: errors of the frequencies. known: whether the frequency exceeds its error.
    phases: angles in row 0. rounding: errors of the phases. step: distance of consecutive positions, 1 or -1.
    """

    frequencies: Floats
    errors: Floats
    known: npt.NDArray[np.bool_]
    phases: Floats
    rounding: Floats
    step: int


def scale_of(table: Table, values: Floats, expected: Floats) -> float:
    """Return the factor by which values differ from expected values, measured by least squares.

    If the measured factor agrees with one that sources use, return the latter.
    """
    scale = float((values * expected).sum() / max((expected**2).sum(), 1e-300))
    d = values.shape[1]
    common = (1.0, d**-0.5, (2 / d) ** 0.5, 2**0.5, d**0.5)
    return next((one for one in common if abs(scale / one - 1) < table.form.rounding / 2 + 1e-6), scale)


def tolerated(table: Table, values: Floats, angles: Floats, scale: float) -> Floats:
    """Return the tolerated difference of each value from the exact value. Sources compute these angles in float32."""
    allowed = 2 * table.form.rounding * np.abs(values) + abs(scale) * (IDENTIFIED_SINE + PER_ANGLE * np.abs(angles))
    result: Floats = np.maximum(allowed, 1e-300)
    return result


def odd_of(table: Table) -> Odd:
    """Return the argument ``odd`` of `sinusoidal` for the last column of the table."""
    return "zero" if table.values.shape[1] % 2 and not table.values[:, -1].any() else "crop"


def measure(table: Table, layout: Layout, functions: tuple[Function, ...]) -> Angles | None:
    """Return the measured frequency and phase of each pair of columns.

    Return None if the two columns of a pair are not the cosine and the sine of an angle that grows evenly.
    """
    d = table.values.shape[1]
    pairs = d // 2
    half = pairs if odd_of(table) == "zero" else d - pairs
    values = table.values[table.rows]
    if layout == "interleaved":
        both = {functions[0]: values[:, 0 : 2 * pairs : 2], functions[1]: values[:, 1 : 2 * pairs : 2]}
    else:
        both = {functions[0]: values[:, :pairs], functions[1]: values[:, half : half + pairs]}
    z = both["cos"] + 1j * both["sin"]
    lengths = np.abs(z)
    scale = lengths.mean() if pairs else 0.0
    if scale == 0 or np.abs(lengths / scale - 1).max() > 4 * table.form.rounding + 1e-5:
        return None
    consecutive = np.diff(table.rows) == 1
    if not consecutive.any():
        return None
    turns = np.angle((z[1:] * z[:-1].conj())[consecutive].sum(axis=0))
    n = table.rows[:, np.newaxis].astype(np.float64)
    # after the mean rotation is subtracted, the remaining angles are small and continuous
    rest = np.unwrap(np.angle(z * np.exp(-1j * turns * n)), axis=0)
    centre = n.mean()
    spread = ((n - centre) ** 2).sum()
    slope = ((n - centre) * rest).sum(axis=0) / spread
    noise = rest - rest.mean(axis=0) - slope * (n - centre)
    frequencies = turns + slope
    if np.abs(noise).max() > 8 * table.form.rounding + 1e-5 + 1e-6 * np.abs(frequencies).max() * n.max():
        return None
    phases = np.angle(np.exp(1j * (rest.mean(axis=0) - slope * centre)))
    # small sines have smaller rounding errors
    rounding = table.form.rounding * np.minimum(1.0, np.abs(phases) + np.abs(frequencies) * n.max()) + 1e-9
    errors = np.maximum(np.sqrt((noise**2).mean(axis=0)), rounding) / np.sqrt(spread)
    known = np.abs(frequencies) > 4 * errors
    step = -1 if frequencies[known].sum() < 0 else 1
    if not known.any() or (frequencies[known] * step < 0).any():
        return None
    return Angles(np.abs(frequencies), errors, known, phases, rounding, step)


def start_of(angles: Angles) -> float:
    """Return the position of row 0, computed from the phases.

    The slowest pair determines it without ambiguity. Each faster pair makes it more precise.
    """
    order = np.flatnonzero(angles.known)[np.argsort(angles.frequencies[angles.known])]
    start, variance = 0.0, math.inf
    for k in order.tolist():
        frequency = float(angles.frequencies[k])
        rest = (float(angles.phases[k]) - start * frequency + math.pi) % (2 * math.pi) - math.pi
        own = (float(angles.rounding[k]) / frequency) ** 2
        share = 1.0 if math.isinf(variance) else variance / (variance + own)
        start += share * rest / frequency
        variance = own if math.isinf(variance) else variance * own / (variance + own)
    return start


def schedules(angles: Angles, half: float) -> Iterator[dict[str, float]]:
    """Yield arguments of `sinusoidal` for geometric progressions near the measured frequencies.

    Common arguments come first. half: denominator of the exponents without a shift.
    """
    i, w = np.flatnonzero(angles.known), angles.frequencies[angles.known]
    weights, logs = (w / angles.errors[angles.known]) ** 2, np.log(w)
    if len(w) > 1:
        centre, level = np.average(i, weights=weights), np.average(logs, weights=weights)
        fall = -(weights * (i - centre) * logs).sum() / (weights * (i - centre) ** 2).sum()
        measured = math.exp(level + fall * centre)
    else:
        # a single frequency does not determine a base, so assume the most common base
        fall = math.log(BASES[0]) / half
        measured = float(w[0] * math.exp(fall * i[0]))
    seen = set()
    near = [first for first in FIRSTS if abs(first / measured - 1) < 0.02]
    for first in (*near, float(f"{measured:.4g}"), measured):
        if len(w) > 1:
            # measure the base again, with exactly this first frequency
            fall = -(weights * i * (logs - math.log(first))).sum() / (weights * i**2).sum()
        for base, shift in _bases(fall, half):
            expected = math.log(first) - i / (half - shift) * math.log(base)
            close = np.abs(expected - logs) < 0.05 + 8 * angles.errors[angles.known] / w
            if close.all() and (base, shift, first) not in seen:
                seen.add((base, shift, first))
                yield {"base": base, "freq_shift": shift, "first": first}


def _bases(fall: float, half: float) -> list[tuple[float, float]]:
    """Return possible (base, freq_shift). The logarithms of their frequencies fall by about ``fall`` per pair."""
    options = []
    for order, shift in enumerate(_SHIFTS):
        if half > shift and abs(fall * (half - shift)) < 600:
            base = math.exp(fall * (half - shift))
            options += [(rank, order, known) for rank, known in enumerate(BASES) if abs(math.log(known / base)) < 0.05]
            options += [
                (rank, order, one) for rank, one in enumerate([*few_digits(base, DIGITS[1:]), base], len(BASES))
            ]
    return [(base, _SHIFTS[order]) for _, order, base in sorted(options)]
