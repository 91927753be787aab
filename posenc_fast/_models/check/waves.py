"""Compare a table with an encoding. Find wrong rows and columns, and a rounding to 16 bits that explains them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.encoding.value import Encoding
from ..._core.numbers.arrays import Array, Floats
from ..._core.numbers.formats import Format
from ..identify.angles import BLOCK
from ..identify.tolerances import CHECKED_SINE, least_of, relative_slack
from .report import Fault, listed
from .values import HALVES, through

# Roundings to 16 bits are tried on at most 2 * _ROWS rows and _COLUMNS columns.
_ROWS, _COLUMNS = 192, 64
# A rounding explains a table if at least this fraction of the values matches. The other values are near ties, where the
# last bit of an angle decides.
_AGREEING = 0.95
# A difference is gross, and not noise of float32 arithmetic, if it is larger than this number of tolerances.
_GROSS = 20.0


class Waves(NamedTuple):
    """An encoding whose columns are ``amplitude * sin(position * frequency + phase)``.

    The shape of frequencies is (columns, axes). Phases are in radians.
    """

    frequencies: Floats
    phases: Floats
    amplitudes: Floats

    @classmethod
    def of(cls, encoding: Encoding) -> Waves:
        frequencies = encoding.frequencies.reshape(encoding.d_model, -1)
        return cls(frequencies, 2 * math.pi * encoding.phases, encoding.amplitudes)

    def take(self, columns: npt.NDArray[np.intp]) -> Waves:
        return Waves(self.frequencies[columns], self.phases[columns], self.amplitudes[columns])

    def at(self, angles: Floats) -> Floats:
        result: Floats = self.amplitudes * np.sin(angles + self.phases)
        return result

    def allowed(self, positions: Floats, values: Floats, form: Format) -> Floats:
        """Return the tolerance of each value: the errors of float32 arithmetic and of one rounding to ``form``."""
        angles = np.abs(positions) @ np.abs(self.frequencies).T
        slack = relative_slack(self.frequencies)
        # an infinite value would have an infinite tolerance, so that it would count as right
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
        result: Floats = (
            2 * form.rounding * sizes + np.abs(self.amplitudes) * (CHECKED_SINE + slack * angles) + least_of(form)
        )
        return result


class Judgement(NamedTuple):
    """The result of the comparison of a table with an encoding.

    complete: whether the values are right, or a fault explains them. fault: None if no fault was found. gross: whether
    a difference is larger than the noise of float32 arithmetic; False if ``complete`` is True. The other fields are
    fields of a `Finding`.
    """

    complete: bool
    fault: Fault | None
    reason: str
    largest_error: float
    radians: float
    first_position: float | None
    gross: bool = False


class _Differences(NamedTuple):
    """Differences of a table from an encoding.

    of_rows, of_columns: number of wrong values in each row and in each column. largest: largest difference. gross:
    whether a difference is larger than the noise of float32 arithmetic.
    """

    of_rows: npt.NDArray[np.intp]
    of_columns: npt.NDArray[np.intp]
    largest: float
    gross: bool


def _compare(
    table: Array, encoding: Encoding, waves: Waves, positions: Floats, form: Format, rows: npt.NDArray[np.intp]
) -> _Differences:
    of_rows, of_columns = np.zeros(len(rows), np.intp), np.zeros(table.shape[1], np.intp)
    largest, gross = 0.0, False
    count = max(1, BLOCK // table.shape[1])
    for first in range(0, len(rows), count):
        part = rows[first : first + count]
        values, part_positions = table[part].astype(np.float64), positions[part]
        exact = encoding.encode(part_positions if positions.shape[1] > 1 else part_positions[:, 0], dtype=np.float64)
        difference = np.abs(values - exact)
        allowed = waves.allowed(part_positions, values, form)
        # `~(<=)` instead of `>`, so that NaN counts as wrong
        wrong = ~(difference <= allowed)
        gross |= not bool((difference <= _GROSS * allowed).all())
        of_rows[first : first + count] = wrong.sum(axis=1)
        of_columns += wrong.sum(axis=0)
        largest = max(largest, float(np.nan_to_num(difference, nan=math.inf).max(initial=0.0)))
    return _Differences(of_rows, of_columns, largest, gross)


def agrees(table: Array, encoding: Encoding, positions: Floats, form: Format) -> bool:
    """Return whether all values of a table agree with an encoding."""
    waves, rows = Waves.of(encoding), np.arange(len(table))
    # compare the first 8 rows first, which suffices to reject most encodings
    parts = (rows[:8], rows) if len(rows) > 8 else (rows,)
    return not any(_compare(table, encoding, waves, positions, form, part).of_rows.any() for part in parts)


def judge_waves(table: Array, encoding: Encoding, positions: Floats, form: Format, kept: Any = None) -> Judgement:
    """Compare a table (rows, columns) with an encoding at positions (rows, axes).

    kept: mask of the rows to compare (default: all).
    """
    waves = Waves.of(encoding)
    rows = np.flatnonzero(np.ones(len(table), bool) if kept is None else kept)
    wrong_rows, wrong_columns, largest, gross = _compare(table, encoding, waves, positions, form, rows)
    radians = radians_at_end(table, waves, positions, rows)
    if not wrong_rows.any():
        return Judgement(True, None, "", largest, radians, None)
    wrong_positions = positions[rows[wrong_rows > 0]]
    first_position = float(wrong_positions[np.abs(wrong_positions).max(axis=1).argmin()].flat[0])
    rounding = _rounding(table, waves, positions, rows, np.flatnonzero(wrong_rows > 0), form)
    if rounding:
        return Judgement(True, "rounded", rounding, largest, radians, first_position)
    few_wrong = _few_wrong(positions[rows], wrong_rows, wrong_columns) if gross else ""
    if few_wrong:
        return Judgement(True, "values", few_wrong, largest, radians, first_position)
    return Judgement(False, None, "", largest, radians, first_position, gross)


def radians_at_end(table: Array, waves: Waves, positions: Floats, rows: npt.NDArray[np.intp]) -> float:
    """Return a lower bound of the largest error of an angle, in radians, in the row of the largest position."""
    last = rows[np.abs(positions[rows]).max(axis=1).argmax()]
    difference = table[last].astype(np.float64) - waves.at(positions[last] @ waves.frequencies.T)
    chords = np.abs(difference) / np.maximum(np.abs(waves.amplitudes), 1e-300)
    return float(2 * np.arcsin(np.clip(np.nan_to_num(chords, nan=2.0) / 2, 0, 1)).max(initial=0.0))


def _few_wrong(positions: Floats, wrong_rows: npt.NDArray[np.intp], wrong_columns: npt.NDArray[np.intp]) -> str:
    """Return a clause about the wrong rows or columns, or an empty string if too many are wrong.

    At most half of the rows or a quarter of the columns may be wrong.
    """
    rows, columns = np.flatnonzero(wrong_rows), np.flatnonzero(wrong_columns)
    if 2 * len(rows) <= len(positions):
        shown = listed((f"{value:g}" for value in positions[rows, 0]), 8)
        in_columns = "" if len(columns) > 8 else f" in columns {listed(columns, 8)}"
        return f"{len(rows)} of {len(positions)} rows are wrong{in_columns}, at positions {shown}"
    if 4 * len(columns) <= len(wrong_columns):
        return f"{len(columns)} columns are wrong: {listed(columns, 8)}"
    return ""


def _rounding(
    table: Array,
    waves: Waves,
    positions: Floats,
    rows: npt.NDArray[np.intp],
    wrong: npt.NDArray[np.intp],
    form: Format,
) -> str:
    """Return a clause about the steps of the formula whose rounding to 16 bits explains the table, else "".

    Only some rows and columns are compared. wrong: indices in ``rows`` of the rows with wrong values.
    """
    spread_rows, spread_wrong_rows = _evenly_spread(len(rows), _ROWS), wrong[_evenly_spread(len(wrong), _ROWS)]
    rows, columns = rows[np.union1d(spread_rows, spread_wrong_rows)], _evenly_spread(table.shape[1], _COLUMNS)
    waves, positions = waves.take(columns), positions[rows]
    values = table[np.ix_(rows, columns)].astype(np.float64)
    exact = waves.at(positions @ waves.frequencies.T)
    allowed = waves.allowed(positions, values, form)
    for words, angles in _roundings(positions, waves.frequencies):
        with np.errstate(invalid="ignore"):
            rounded = waves.at(angles)
        agrees = np.abs(values - rounded) <= allowed
        # Mask of the values that the rounding changes by more than 3 tolerances. Most of these values in the table must
        # agree with the rounded values, and so must most of the other values.
        changed = np.abs(rounded - exact) > 3 * allowed
        if changed.sum() >= 8 and agrees[changed].mean() >= _AGREEING and agrees[~changed].mean() >= _AGREEING:
            return words
    return ""


def _evenly_spread(count: int, most: int) -> npt.NDArray[np.intp]:
    """Return at most ``most`` indices, evenly spread from 0 to ``count - 1``."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.intp))


def _roundings(positions: Floats, frequencies: Floats) -> Iterator[tuple[str, Floats]]:
    """Yield (description, angles) for each choice of steps of the formula that may have been rounded to 16 bits."""
    for form in HALVES:
        round_to_form = partial(through, form)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rotating = frequencies != 0
            sizes, signs = np.abs(frequencies[rotating]), np.sign(frequencies[rotating])
            of_powers, of_exponents = frequencies.copy(), frequencies.copy()
            of_powers[rotating] = signs / round_to_form(1 / sizes)
            of_exponents[rotating] = signs * np.exp(round_to_form(np.log(sizes)))
            # maps the rounded steps in the formula of frequencies to the frequencies that result
            steps = {
                "": frequencies,
                "frequencies": round_to_form(frequencies),
                "powers of the base": of_powers,
                "powers of the base and frequencies": round_to_form(of_powers),
                "exponents": of_exponents,
                "exponents and frequencies": round_to_form(of_exponents),
            }
            choices = product(steps.items(), (False, True), (False, True))
            for (step, used_frequencies), round_angles, round_positions in choices:
                is_rounded = {"positions": round_positions, step: step != "", "angles": round_angles}
                names = [name for name, rounded in is_rounded.items() if rounded]
                if names:
                    used_positions = round_to_form(positions) if round_positions else positions
                    angles = used_positions @ used_frequencies.T
                    angles = round_to_form(angles) if round_angles else angles
                    yield f"{' and '.join(names)} went through {form.name}", angles
