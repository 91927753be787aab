"""Frequencies and phases measured in a table's columns, and the schedules that come near them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._numbers.arrays import Floats
from .._numbers.formats import Format
from ..typing import Function, Layout, Odd

__all__ = [
    "BASES",
    "FIRSTS",
    "NEAR",
    "Angles",
    "Table",
    "factor",
    "measure",
    "odd_of",
    "schedules",
    "start_of",
    "tolerated",
]


# what float32 angles of sources differ by from exact ones: a constant, and a part of the angle
_CONSTANT, _PER_ANGLE = 2e-6, 1e-6
# difference of the closest preset, as a part of its largest value: that of a cosine from another is up to 2
NEAR = 0.5
# the more usual come first
BASES = (10000.0, 1000.0, 100.0, 500000.0, 1000000.0, 100000.0, 20.0, 10.0, 2.0)
_SHIFTS = (0.0, 1.0, 0.5)
FIRSTS = (1.0, 2 * math.pi, math.pi, 2.0, 0.5)


class Table(NamedTuple):
    """values: rows that angles are measured on; rows: which of them are not zero; form: of its numbers."""

    whole: npt.NDArray[Any]
    values: Floats
    rows: npt.NDArray[np.intp]
    zero_rows: tuple[int, ...]
    form: Format


class Angles(NamedTuple):
    """Of pairs of columns: frequencies, their errors, whether those leave something; angles of row 0, their errors."""

    frequencies: Floats
    errors: Floats
    known: npt.NDArray[np.bool_]
    phases: Floats
    rounding: Floats
    step: int


def factor(given: Table, values: Floats, expected: Floats) -> float:
    """The number that times what is expected comes nearest to the values; a usual one where it is about that."""
    scale = float((values * expected).sum() / max((expected**2).sum(), 1e-300))
    d = values.shape[1]
    usual = (1.0, d**-0.5, (2 / d) ** 0.5, 2**0.5, d**0.5)
    return next((one for one in usual if abs(scale / one - 1) < given.form.rounding / 2 + 1e-6), scale)


def tolerated(given: Table, values: Floats, angles: Floats, scale: float) -> Floats:
    """How far values of a source may be from what it means, at these angles."""
    allowed = 2 * given.form.rounding * np.abs(values) + abs(scale) * (_CONSTANT + _PER_ANGLE * np.abs(angles))
    result: Floats = np.maximum(allowed, 1e-300)
    return result


def odd_of(given: Table) -> Odd:
    """What the last column of an odd width is."""
    return "zero" if given.values.shape[1] % 2 and not given.values[:, -1].any() else "crop"


def measure(given: Table, layout: Layout, functions: tuple[Function, ...]) -> Angles | None:
    """Frequencies and phases of the pairs of columns in this order, or None if they are no pairs."""
    d = given.values.shape[1]
    pairs = d // 2
    half = pairs if odd_of(given) == "zero" else d - pairs
    values = given.values[given.rows]
    if layout == "interleaved":
        both = {functions[0]: values[:, 0 : 2 * pairs : 2], functions[1]: values[:, 1 : 2 * pairs : 2]}
    else:
        both = {functions[0]: values[:, :pairs], functions[1]: values[:, half : half + pairs]}
    z = both["cos"] + 1j * both["sin"]
    lengths = np.abs(z)
    scale = lengths.mean() if pairs else 0.0
    if scale == 0 or np.abs(lengths / scale - 1).max() > 4 * given.form.rounding + 1e-5:
        return None
    next_to = np.diff(given.rows) == 1
    if not next_to.any():
        return None
    turns = np.angle((z[1:] * z[:-1].conj())[next_to].sum(axis=0))
    n = given.rows[:, np.newaxis].astype(np.float64)
    # what is left of the angles once the mean turn is taken off is small, and has no jumps
    rest = np.unwrap(np.angle(z * np.exp(-1j * turns * n)), axis=0)
    centre = n.mean()
    spread = ((n - centre) ** 2).sum()
    slope = ((n - centre) * rest).sum(axis=0) / spread
    noise = rest - rest.mean(axis=0) - slope * (n - centre)
    frequencies = turns + slope
    if np.abs(noise).max() > 8 * given.form.rounding + 1e-5 + 1e-6 * np.abs(frequencies).max() * n.max():
        return None
    phases = np.angle(np.exp(1j * (rest.mean(axis=0) - slope * centre)))
    # a small sine is rounded to as many digits as a large one
    rounding = given.form.rounding * np.minimum(1.0, np.abs(phases) + np.abs(frequencies) * n.max()) + 1e-9
    errors = np.maximum(np.sqrt((noise**2).mean(axis=0)), rounding) / np.sqrt(spread)
    known = np.abs(frequencies) > 4 * errors
    step = -1 if frequencies[known].sum() < 0 else 1
    if not known.any() or (frequencies[known] * step < 0).any():
        return None
    return Angles(np.abs(frequencies), errors, known, phases, rounding, step)


def start_of(angles: Angles) -> float:
    """The position whose angles the phases are: from the slowest pair on, each next one makes it more precise."""
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
    """Geometric progressions near the frequencies, the more usual first."""
    i, w = np.flatnonzero(angles.known), angles.frequencies[angles.known]
    weights, logs = (w / angles.errors[angles.known]) ** 2, np.log(w)
    if len(w) > 1:
        centre, level = np.average(i, weights=weights), np.average(logs, weights=weights)
        fall = -(weights * (i - centre) * logs).sum() / (weights * (i - centre) ** 2).sum()
        measured = math.exp(level + fall * centre)
    else:
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
    """(base, freq_shift) that give about this fall of the logarithms from frequency to frequency."""
    options = []
    for order, shift in enumerate(_SHIFTS):
        if half > shift and abs(fall * (half - shift)) < 600:
            base = math.exp(fall * (half - shift))
            options += [(rank, order, known) for rank, known in enumerate(BASES) if abs(math.log(known / base)) < 0.05]
            options += [(len(BASES) + digits, order, float(f"{base:.{digits}g}")) for digits in (2, 3, 4, 5, 6, 17)]
    return [(base, _SHIFTS[order]) for _, order, base in sorted(options)]
