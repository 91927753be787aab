"""Frequencies and phases measured in a table's columns, and the schedules that come near them."""

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

# largest difference of a preset that is named as the closest, as a part of its largest value: two cosines differ by up to 2
NEAR = 0.5
# values that are compared at a time
BLOCK = 1 << 20
# functions of a pair of columns
ORDERS: tuple[tuple[Function, Function], ...] = (("sin", "cos"), ("cos", "sin"))
_SHIFTS = (0.0, 1.0, 0.5)
FIRSTS = (1.0, 2 * math.pi, math.pi, 2.0, 0.5)


class Table(NamedTuple):
    """A checked table. values: its first rows, on which angles are measured; rows: which of those are not zero."""

    whole: npt.NDArray[Any]
    values: Floats
    rows: npt.NDArray[np.intp]
    zero_rows: tuple[int, ...]
    form: Format


class Angles(NamedTuple):
    """Measurements of pairs of columns, with the distance of their rows' positions, 1 or -1.

    frequencies, errors: in radians a row; known: which exceed their errors. phases, rounding: angles of row 0, and theirs.
    """

    frequencies: Floats
    errors: Floats
    known: npt.NDArray[np.bool_]
    phases: Floats
    rounding: Floats
    step: int


def scale_of(table: Table, values: Floats, expected: Floats) -> float:
    """Return the number that times the expected values comes nearest to the values; a common one if it is about that."""
    scale = float((values * expected).sum() / max((expected**2).sum(), 1e-300))
    d = values.shape[1]
    common = (1.0, d**-0.5, (2 / d) ** 0.5, 2**0.5, d**0.5)
    return next((one for one in common if abs(scale / one - 1) < table.form.rounding / 2 + 1e-6), scale)


def tolerated(table: Table, values: Floats, angles: Floats, scale: float) -> Floats:
    """Return how far values of a source may be from the exact ones, at these angles."""
    allowed = 2 * table.form.rounding * np.abs(values) + abs(scale) * (IDENTIFIED_SINE + PER_ANGLE * np.abs(angles))
    result: Floats = np.maximum(allowed, 1e-300)
    return result


def odd_of(table: Table) -> Odd:
    """Return how `sinusoidal` is to make the last column of an odd width."""
    return "zero" if table.values.shape[1] % 2 and not table.values[:, -1].any() else "crop"


def measure(table: Table, layout: Layout, functions: tuple[Function, ...]) -> Angles | None:
    """Return frequencies and phases of the pairs of columns in this order, or None if they are no pairs."""
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
    # what is left of the angles once the mean turn is taken off is small, and has no jumps
    rest = np.unwrap(np.angle(z * np.exp(-1j * turns * n)), axis=0)
    centre = n.mean()
    spread = ((n - centre) ** 2).sum()
    slope = ((n - centre) * rest).sum(axis=0) / spread
    noise = rest - rest.mean(axis=0) - slope * (n - centre)
    frequencies = turns + slope
    if np.abs(noise).max() > 8 * table.form.rounding + 1e-5 + 1e-6 * np.abs(frequencies).max() * n.max():
        return None
    phases = np.angle(np.exp(1j * (rest.mean(axis=0) - slope * centre)))
    # a small sine is rounded to as many digits as a large one
    rounding = table.form.rounding * np.minimum(1.0, np.abs(phases) + np.abs(frequencies) * n.max()) + 1e-9
    errors = np.maximum(np.sqrt((noise**2).mean(axis=0)), rounding) / np.sqrt(spread)
    known = np.abs(frequencies) > 4 * errors
    step = -1 if frequencies[known].sum() < 0 else 1
    if not known.any() or (frequencies[known] * step < 0).any():
        return None
    return Angles(np.abs(frequencies), errors, known, phases, rounding, step)


def start_of(angles: Angles) -> float:
    """Return the position of row 0, by its phases: from the slowest pair on, each next one makes it more precise."""
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
    """Yield geometric progressions near the frequencies, the more common first."""
    i, w = np.flatnonzero(angles.known), angles.frequencies[angles.known]
    weights, logs = (w / angles.errors[angles.known]) ** 2, np.log(w)
    if len(w) > 1:
        centre, level = np.average(i, weights=weights), np.average(logs, weights=weights)
        fall = -(weights * (i - centre) * logs).sum() / (weights * (i - centre) ** 2).sum()
        measured = math.exp(level + fall * centre)
    else:
        # a single frequency does not determine a base: assume the most common one
        fall = math.log(BASES[0]) / half
        measured = float(w[0] * math.exp(fall * i[0]))
    seen = set()
    near = [first for first in FIRSTS if abs(first / measured - 1) < 0.02]
    for first in (*near, float(f"{measured:.4g}"), measured):
        if len(w) > 1:
            # the best fall from exactly this frequency on
            fall = -(weights * i * (logs - math.log(first))).sum() / (weights * i**2).sum()
        for base, shift in _bases(fall, half):
            expected = math.log(first) - i / (half - shift) * math.log(base)
            close = np.abs(expected - logs) < 0.05 + 8 * angles.errors[angles.known] / w
            if close.all() and (base, shift, first) not in seen:
                seen.add((base, shift, first))
                yield {"base": base, "freq_shift": shift, "first": first}


def _bases(fall: float, half: float) -> list[tuple[float, float]]:
    """Return (base, freq_shift) for about this fall of the logarithms from frequency to frequency."""
    options = []
    for order, shift in enumerate(_SHIFTS):
        if half > shift and abs(fall * (half - shift)) < 600:
            base = math.exp(fall * (half - shift))
            options += [(rank, order, known) for rank, known in enumerate(BASES) if abs(math.log(known / base)) < 0.05]
            options += [
                (rank, order, one) for rank, one in enumerate([*few_digits(base, DIGITS[1:]), base], len(BASES))
            ]
    return [(base, _SHIFTS[order]) for _, order, base in sorted(options)]
