"""Recognize faults of user code: construct the rows of each known fault, and compare them with the returned rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..._core.encoding.value import Encoding
from ..._core.numbers.arrays import Floats
from ..._core.numbers.formats import Format
from ..identify.bases import BASES, bases_near, few_digits
from ..identify.encoding import Identification, identify
from .report import Fault
from .values import dtype_for
from .waves import Waves, judge_waves, radians_at_end

# number of rows in the first comparison, which rejects most candidates
_FEW = 10
# largest number of rows that are passed to `identify`
_CONSECUTIVE = 64
# offsets of positions to try
_OFFSETS = range(-4, 9)
# `_length` compares this number of possible table lengths at a time
_CHUNK = 1 << 16
# number of rows that are compared to find a permutation of columns
_MATCHED = 128
# description of each wrong factor of the angles
_UNITS = {
    180 / math.pi: "multiplied by 180/pi, but sines take radians, not degrees",
    math.pi / 180: "multiplied by pi/180, as if they were degrees",
    2 * math.pi: "multiplied by 2 pi",
    1 / (2 * math.pi): "divided by 2 pi",
    math.pi: "multiplied by pi",
    1 / math.pi: "divided by pi",
}


class Sample(NamedTuple):
    """Rows that code returned: values (n, d) at positions (n, axes).

    form: format of the values. slack: difference to allow in addition to the rounding errors of the format.
    """

    values: Floats
    positions: Floats
    form: Format
    slack: float = 0.0

    def take(self, rows: Any) -> Sample:
        return self._replace(values=self.values[rows], positions=self.positions[rows])


class Outcome(NamedTuple):
    """The result of a comparison. fault: None for right rows. The other fields are fields of a `Finding`."""

    fault: Fault | None
    reason: str
    largest_error: float | None = None
    radians: float | None = None
    first_position: float | None = None


class _Variant(NamedTuple):
    """A fault, with the rows that it would produce: the values of `waves` at `positions`."""

    fault: Fault
    reason: str
    waves: Waves
    positions: Floats


def judge_rows(
    sample: Sample, encoding: Encoding, *, base: float | None = None, plain: Encoding | None = None
) -> Outcome:
    """Compare rows with an encoding at their positions, and name the fault if they differ.

    base: base of the frequencies if the encoding does not store it. plain: encoding without a scaling of frequencies.
    """
    waves = Waves.of(encoding)
    finite = np.isfinite(sample.values).all(axis=1)
    kept = sample.take(finite)
    coordinates = np.abs(sample.positions).max(axis=1)
    if not finite.any():
        return Outcome("values", "no row is finite", math.inf, None, float(coordinates.min()))
    wrong = ~_near(kept, waves, kept.positions)
    error = np.abs(kept.values - waves.at(kept.positions @ waves.frequencies.T)).max()
    radians = radians_at_end(kept.values, waves, kept.positions, np.arange(len(kept.values)))
    bad = np.r_[coordinates[finite][wrong.any(axis=1)], coordinates[~finite]]
    numbers = (float(error), radians, float(bad.min()) if bad.size else None)
    if not wrong.any():
        if finite.all():
            return Outcome(None, "", *numbers)
        return Outcome("values", f"{_rows_of(coordinates[~finite])} not finite", math.inf, *numbers[1:])
    explained = _explained(kept, encoding, base, plain)
    more = "" if finite.all() else f"; {_rows_of(coordinates[~finite])} not finite"
    if explained is None:
        return Outcome("frequencies", f"the values differ, and no known fault explains the difference{more}", *numbers)
    return Outcome(explained[0], explained[1] + more, *numbers)


def _rows_of(positions: Floats) -> str:
    """Return the subject and the verb of a sentence about the rows of some positions."""
    if len(positions) == 1:
        return f"the row of position {positions[0]:.10g} is"
    shown = ", ".join(f"{value:.10g}" for value in np.sort(positions)[:4])
    return f"the rows of positions {shown}{', ..' if len(positions) > 4 else ''} are"


def _near(sample: Sample, waves: Waves, positions: Floats) -> npt.NDArray[np.bool_]:
    exact = waves.at(positions @ waves.frequencies.T)
    allowed = waves.allowed(positions, sample.values, sample.form) + sample.slack
    near: npt.NDArray[np.bool_] = np.abs(sample.values - exact) <= allowed
    return near


def is_right(sample: Sample, encoding: Encoding) -> bool:
    """Return whether all rows agree with an encoding."""
    return bool(_near(sample, Waves.of(encoding), sample.positions).all())


def _explains(sample: Sample, variant: _Variant) -> bool:
    few = np.linspace(0, len(sample.values) - 1, _FEW).astype(np.intp)
    parts = (few, slice(None)) if len(sample.values) > _FEW else (slice(None),)
    return all(bool(_near(sample.take(part), variant.waves, variant.positions[part]).all()) for part in parts)


def _explained(
    sample: Sample, encoding: Encoding, base: float | None, plain: Encoding | None
) -> tuple[Fault, str] | None:
    """Return (fault, reason) for the first fault that explains all rows, or None. The rows may have a common factor."""
    waves = Waves.of(encoding)
    for variant in _variants(sample, encoding, base, plain):
        if _explains(sample, variant):
            return variant.fault, variant.reason
    zero = (sample.values == 0).all(axis=1) & (waves.at(sample.positions @ waves.frequencies.T) != 0).any(axis=1)
    if zero.any() and not zero.all():
        explained = _zeros(sample, encoding, zero, base, plain)
        if explained is not None:
            return explained
    length = _length(sample, waves)
    if length:
        return "length", length
    judged = judge_waves(sample.values, encoding, sample.positions, sample.form)
    if judged.fault == "rounded":
        return "rounded", judged.reason
    permutation = _permutation(sample, waves)
    if permutation:
        return "layout", permutation
    factor = _factor(sample, waves)
    if factor is not None:
        scaled = sample._replace(values=sample.values / factor)
        for variant in _variants(scaled, encoding, base, plain):
            if _explains(scaled, variant):
                return variant.fault, f"{variant.reason}, and all values are multiplied by {factor:.6g}"
    several = _by_identification(sample, encoding)
    if several is not None:
        return several
    if judged.fault == "values":
        return "values", judged.reason
    return None


def _zeros(
    sample: Sample, encoding: Encoding, zero: npt.NDArray[np.bool_], base: float | None, plain: Encoding | None
) -> tuple[Fault, str] | None:
    """Return (fault, reason) for rows of zeros if the other rows are right or have a known fault, else None.

    zero: mask of the rows of zeros.
    """
    coordinates = np.abs(sample.positions).max(axis=1)
    reason = f"{_rows_of(coordinates[zero])} zero"
    rest = sample.take(~zero)
    # if all zeros are beyond the other rows, the table is too short
    fault: Fault = "length" if zero.sum() > 1 and coordinates[zero].min() > coordinates[~zero].max() else "padding"
    if _near(rest, Waves.of(encoding), rest.positions).all():
        return fault, reason
    for variant in _variants(rest, encoding, base, plain):
        if _explains(rest, variant):
            return fault, f"{reason}; in the others, {variant.reason}"
    return None


# ---- families of faults ---------------------------------------------------------------------------------------------


def _variants(sample: Sample, encoding: Encoding, base: float | None, plain: Encoding | None) -> Iterator[_Variant]:
    waves, positions = Waves.of(encoding), sample.positions
    yield from _starts(waves, positions)
    yield from _signs(waves, positions)
    yield from _units(waves, positions)
    yield from _orders(waves, positions)
    one_axis = waves.frequencies.shape[1] == 1
    if one_axis:
        yield from _exponents(encoding, plain or encoding, positions, base or encoding.base)
    factor = _factor(sample, waves)
    if factor is not None and abs(factor - 1) > 1e-6:
        yield _Variant("amplitude", _named_factor(factor, encoding.d_model), _times(waves, factor), positions)
    if one_axis:
        yield from _measured(sample, encoding, base)


def _times(waves: Waves, factor: float) -> Waves:
    return waves._replace(amplitudes=factor * waves.amplitudes)


def _starts(waves: Waves, positions: Floats) -> Iterator[_Variant]:
    """Yield rows that belong to wrong positions: shifted positions, positions in reverse order, or one position."""
    for offset in sorted(_OFFSETS, key=lambda one: (abs(one), -one)):
        if offset:
            yield _Variant(
                "start",
                f"row p has the values of position p {'+' if offset > 0 else '-'} {abs(offset)}",
                waves,
                positions + offset,
            )
    for half in (0.5, -0.5):
        yield _Variant(
            "start", f"row p has the values of position p {'+' if half > 0 else '-'} 1/2", waves, positions + half
        )
    yield _Variant("start", "the rows are in reverse order", waves, positions.max(axis=0) - positions)
    for place in (0.0, 1.0):
        yield _Variant(
            "start", f"every row has the values of position {place:g}", waves, np.full_like(positions, place)
        )
    if positions.shape[1] > 1:
        for roll in range(1, positions.shape[1]):
            yield _Variant("layout", "the axes of a position are in another order", waves, np.roll(positions, roll, 1))
        yield _Variant("layout", "the axes of a position are in reverse order", waves, positions[:, ::-1])


def _signs(waves: Waves, positions: Floats) -> Iterator[_Variant]:
    yield _Variant("sign", "positions count backwards, so the sines have the opposite sign", waves, -positions)
    yield _Variant("sign", "all values have the opposite sign", _times(waves, -1.0), positions)
    cosines = np.where(np.abs(np.cos(waves.phases)) < 0.5, -1.0, 1.0)
    flipped = waves._replace(amplitudes=waves.amplitudes * cosines)
    yield _Variant("sign", "the cosines have the opposite sign", flipped, positions)


def _units(waves: Waves, positions: Floats) -> Iterator[_Variant]:
    for unit, words in _UNITS.items():
        yield _Variant("units", f"the angles are {words}", waves, unit * positions)


def _orders(waves: Waves, positions: Floats) -> Iterator[_Variant]:
    """Yield rows in which all columns are sines or all are cosines, and rows with the columns in the usual orders."""
    sine = np.abs(np.cos(waves.phases)) > 0.5
    for phase, words in ((0.0, "sines"), (math.pi / 2, "cosines")):
        both = bool(sine.any() and (~sine).any())
        if both:
            yield _Variant(
                "functions",
                f"all columns are {words}",
                waves._replace(phases=np.full_like(waves.phases, phase)),
                positions,
            )
    order = _pairs_of(waves)
    if order is None:
        return
    sines, cosines = order
    arranged = {
        "sines and cosines side by side": _side_by_side(sines, cosines),
        "cosines and sines side by side": _side_by_side(cosines, sines),
        "all sines, then all cosines": np.r_[sines, cosines],
        "all cosines, then all sines": np.r_[cosines, sines],
    }
    for words, columns in arranged.items():
        yield _Variant("layout", f"the columns are {words}", _columns(waves, columns), positions)
    slow = _columns(waves, _onto(waves, sines[::-1], cosines[::-1], sines, cosines))
    yield _Variant("layout", "the frequencies are in reverse order", slow, positions)


def _pairs_of(waves: Waves) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None:
    """Return (indices of sine columns, indices of cosine columns), or None.

    The result is None if a column is neither, or if the numbers of sines and cosines do not fit.
    """
    usable = (waves.amplitudes != 0) & (np.abs(np.sin(2 * waves.phases)) < 1e-9)
    if not usable.all():
        return None
    sine = np.abs(np.cos(waves.phases)) > 0.5
    sines, cosines = np.flatnonzero(sine), np.flatnonzero(~sine)
    return (sines, cosines) if 0 <= len(sines) - len(cosines) <= 1 and len(cosines) else None


def _side_by_side(first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    result = np.empty(len(first) + len(second), np.intp)
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    result[0::2], result[1::2] = longer, shorter
    if longer is second and len(first) == len(second):
        result[0::2], result[1::2] = first, second
    return result


def _onto(waves: Waves, *parts: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return an order of columns. parts: two lists of columns, and the two lists of places where they are put."""
    result = np.arange(len(waves.phases))
    for part, place in zip(parts[:2], parts[2:], strict=True):
        result[place] = part
    return result


def _columns(waves: Waves, columns: npt.NDArray[np.intp]) -> Waves:
    return Waves(waves.frequencies[columns], waves.phases[columns], waves.amplitudes[columns])


class _Ladder(NamedTuple):
    """An encoding whose columns have the frequencies ``first * base ** (-pair / denominator)``.

    pair: for each column, the index of its frequency. sine: for each column, whether it is a sine.
    """

    first: float
    base: float
    denominator: float
    pair: npt.NDArray[np.intp]
    sine: npt.NDArray[np.bool_]

    def frequencies(self, exponents: Floats) -> Floats:
        # Frequencies below 1e-60 become 0, so that quotients stay finite. Their angles are practically 0.
        powers = self.first * np.exp(np.clip(-exponents * math.log(self.base), -300, 300))
        return np.where(powers < 1e-60, 0.0, powers)


def _ladder(encoding: Encoding, base: float | None) -> _Ladder | None:
    frequencies, sine = encoding.frequencies, np.abs(np.cos(2 * math.pi * encoding.phases)) > 0.5
    used = encoding.amplitudes != 0
    distinct = list(dict.fromkeys(frequencies[used].tolist()))
    if len(distinct) < 2 or min(distinct) <= 0:
        return None
    logs = np.log(distinct)
    step = float(logs[0] - logs[1])
    if abs(step) < 1e-12 or np.abs(logs - logs[0] + step * np.arange(len(logs))).max() > 1e-9 * (1 + abs(logs).max()):
        return None
    if base is None:
        # choose a known base for which the denominator is a multiple of 1/2
        likely = [one for one in BASES if abs(2 * math.log(one) / step - round(2 * math.log(one) / step)) < 1e-6]
        base = likely[0] if likely else math.exp(step * len(logs))
    places = {value: i for i, value in enumerate(distinct)}
    index = np.array([places.get(value, 0) for value in frequencies.tolist()], np.intp)
    return _Ladder(distinct[0], base, math.log(base) / step, index, sine)


def _exponents(encoding: Encoding, plain: Encoding, positions: Floats, base: float | None) -> Iterator[_Variant]:
    """Yield rows whose frequencies are powers of the base with wrong exponents."""
    ladder = _ladder(plain, base)
    if ladder is None:
        return
    waves = Waves.of(encoding)
    ratio = encoding.frequencies / np.where(plain.frequencies == 0, 1.0, plain.frequencies)
    i, d, second = ladder.pair.astype(np.float64), ladder.denominator, np.where(ladder.sine, 0.0, 1.0)
    column = 2 * i + second

    def variant(reason: str, exponents: Floats) -> _Variant:
        frequencies = (ladder.frequencies(exponents) * ratio)[:, np.newaxis]
        return _Variant("exponent", reason, waves._replace(frequencies=frequencies), positions)

    shown = f"{2 * d:g}"
    for factor, numerator in ((1.0, "2i"), (0.5, "i"), (2.0, "4i")):
        for shift in (0.0, 1.0, -1.0, 0.5, -0.5):
            below = d - shift
            if (factor, shift) != (1.0, 0.0) and below > 0:
                yield variant(f"the exponent is {numerator}/{2 * below:g} instead of 2i/{shown}", factor * i / below)
    for ahead in (1.0, 0.5, -0.5, -1.0):
        yield variant(f"the exponent is (2i{2 * ahead:+g})/{shown} instead of 2i/{shown}", (i + ahead) / d)
    for ahead in (0.5, 1.0):
        words = f"instead of 2i/{shown}"
        yield variant(f"the exponent of cosines is (2i{2 * ahead:+g})/{shown} {words}", (i + ahead * second) / d)
        yield variant(f"the exponent of sines is (2i{2 * ahead:+g})/{shown} {words}", (i + ahead * (1 - second)) / d)
    yield variant(f"the exponent is 2c/{shown} for column c, where a pair of columns shares 2i/{shown}", column / d)
    yield variant(
        f"the exponent is c/{shown} for column c, where a pair of columns shares 2i/{shown}", column / (2 * d)
    )
    yield variant(f"the exponent is 4c/{shown} for column c, where a pair of columns shares 2i/{shown}", 2 * column / d)
    yield variant("the exponents are all 0, as an integer division makes them", 0 * i)
    yield variant("the exponents have the opposite sign, so positions are multiplied by powers of the base", -i / d)
    yield variant("the logarithm of the base is to base 10 instead of e", i / d / math.log(10))
    yield variant("the logarithm of the base is to base 2 instead of e", i / d / math.log(2))
    yield variant(f"the exponent is 2i instead of 2i/{shown}", 2 * i)
    yield variant(f"the exponent is i instead of 2i/{shown}", i)


def _factor(sample: Sample, waves: Waves) -> float | None:
    """Return the common factor of all values, measured by least squares, or None for rows of zeros."""
    exact = waves.at(sample.positions @ waves.frequencies.T)
    product, square = float((sample.values * exact).sum()), float((exact**2).sum())
    if square == 0:
        return None
    factor = product / square
    # if the rows are not a multiple of the exact rows, return the quotient of the root mean squares
    rest = float(np.abs(sample.values - factor * exact).max())
    if rest > 0.05 * abs(factor) * float(np.abs(exact).max()):
        factor = math.sqrt(float((sample.values**2).sum()) / square)
    return factor if factor and math.isfinite(factor) and abs(factor) > 1e-9 else None


def _named_factor(factor: float, d: int) -> str:
    names = {math.sqrt(d): f"sqrt({d})", 1 / math.sqrt(d): f"1/sqrt({d})", float(d): f"{d}", 1 / d: f"1/{d}"}
    near = next((words for number, words in names.items() if abs(factor / number - 1) < 1e-5), "")
    return f"all values are multiplied by {near or f'{factor:.6g}'}"


def _measured(sample: Sample, encoding: Encoding, base: float | None) -> Iterator[_Variant]:
    """Yield rows with scaled frequencies, and rows with another base. Both are measured in the first rows."""
    waves = Waves.of(encoding)
    measured = _turns(sample, waves)
    if measured is None:
        return
    columns, turns = measured
    own = encoding.frequencies[columns]
    usable = (own != 0) & (turns > 1e-7)
    if usable.any():
        # pairs that rotate by more than half a turn per row look slower, so measure slow pairs
        slowest = np.abs(own[usable]).argmin()
        about = turns[usable][slowest] / abs(own[usable][slowest])
        slow = usable & (np.abs(own) * about < 3)
        slow = slow if slow.any() else usable
        factor = float((turns[slow] * np.abs(own[slow])).sum() / (own[slow] ** 2).sum())
        for number in dict.fromkeys([*few_digits(factor), factor]):
            if number > 0 and abs(number - 1) > 1e-6:
                yield _Variant(
                    "scaling", f"all frequencies are multiplied by {number:g}", waves, number * sample.positions
                )
    ladder = _ladder(encoding, base or encoding.base)
    if ladder is None:
        return
    exponents = ladder.pair[columns] / ladder.denominator
    usable = (exponents > 0) & (turns > 1e-7)
    if not usable.any():
        return
    logs = np.log(ladder.first / turns[usable]) / exponents[usable]
    weights = (exponents[usable] * turns[usable]) ** 2
    middle = float((weights * logs).sum() / weights.sum())
    if not abs(middle) < 100:
        return
    about = math.exp(middle)
    for other in dict.fromkeys([*bases_near([about], 0.05, BASES), about]):
        if other > 0 and abs(other / ladder.base - 1) > 1e-9:
            frequencies = ladder.first * other ** -(ladder.pair / ladder.denominator)
            reason = f"the base is {other:g} instead of {ladder.base:g}"
            yield _Variant("base", reason, waves._replace(frequencies=frequencies[:, np.newaxis]), sample.positions)


def _turns(sample: Sample, waves: Waves) -> tuple[npt.NDArray[np.intp], Floats] | None:
    """Return (index of the sine column, angle between consecutive rows) of each pair as two arrays, or None."""
    order = _pairs_of(waves)
    rows = _consecutive(sample)
    if order is None or rows is None:
        return None
    sines, cosines = order[0][: len(order[1])], order[1]
    z = rows[:, cosines] / waves.amplitudes[cosines] + 1j * rows[:, sines] / waves.amplitudes[sines]
    steps = z[1:] * z[:-1].conj()
    turn = np.angle(steps.sum(axis=0))
    # the angle between the first and the last row makes the estimate more precise
    whole = np.angle(z[-1] * z[0].conj() * np.exp(-1j * turn * (len(z) - 1)))
    return sines, np.abs(turn + whole / (len(z) - 1))


def _consecutive(sample: Sample) -> Floats | None:
    """Return the rows of the consecutive positions 0, 1, .., or None if there are fewer than 8 such rows."""
    if sample.positions.shape[1] != 1:
        return None
    row_of = {position: row for row, position in reversed(list(enumerate(sample.positions[:, 0].tolist())))}
    count = next((i for i in range(_CONSECUTIVE) if float(i) not in row_of), _CONSECUTIVE)
    return sample.values[[row_of[float(i)] for i in range(count)]] if count >= 8 else None


# ---- faults that need more than one comparison ----------------------------------------------------------------------


def _length(sample: Sample, waves: Waves) -> str:
    """Return a sentence about the row from which the rows repeat or stay the same, or "" if they do neither."""
    positions = sample.positions[:, 0]
    if sample.positions.shape[1] != 1 or (positions < 0).any():
        return ""
    right = _near(sample, waves, sample.positions).all(axis=1)
    first = positions[~right].min()
    last = positions[right & (positions < first)].max(initial=-1.0)
    if last < 1 or (positions[right] > first).mean() > 0.5:
        return ""
    row = sample.take(np.flatnonzero(positions == first)[:1])
    beyond = sample.take(positions >= first)
    later = beyond.positions[:, 0]
    counts = np.arange(int(last) + 1, int(first) + 1, dtype=np.float64)
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "repeat after {:g} rows": np.mod,
        "stay the same from row {:g} on": lambda p, n: np.minimum(p, n - 1),
        "repeat after {:g} rows, with the opposite sign before them": lambda p, n: np.mod(p + n, 2 * n) - n,
    }
    for words, way in ways.items():
        for begin in range(0, len(counts), _CHUNK):
            some = counts[begin : begin + _CHUNK]
            for count in some[_rows_alike(row, waves, way(first, some))][:64]:
                if _explains(beyond, _Variant("length", "", waves, way(later, count)[:, np.newaxis])):
                    return f"the rows {words.format(count - 1 if 'stay' in words else count)}"
    return ""


def _rows_alike(row: Sample, waves: Waves, places: Floats) -> npt.NDArray[np.intp]:
    """Return the indices in ``places`` of the positions whose exact values agree with a row."""
    columns = np.unique(np.linspace(0, len(waves.phases) - 1, 6).astype(np.intp))
    part = waves.take(columns)
    values = np.broadcast_to(row.values[:, columns], (len(places), len(columns)))
    near = _near(row._replace(values=values), part, places[:, np.newaxis]).all(axis=1)
    return np.flatnonzero(near)


def _permutation(sample: Sample, waves: Waves) -> str:
    """Return a sentence about the order of the columns if the columns are permuted, else an empty string."""
    d = len(waves.phases)
    if d > 1024 or d < 2:
        return ""
    few = sample.take(np.unique(np.linspace(0, len(sample.values) - 1, _MATCHED).astype(np.intp)))
    exact = waves.at(few.positions @ waves.frequencies.T)
    allowed = waves.allowed(few.positions, few.values, few.form).max(axis=1, keepdims=True)
    left, chosen = np.ones(d, bool), []
    for column in range(d):
        misfits = (np.abs(exact - few.values[:, [column]]) / allowed).max(axis=0)
        best = int(np.where(left, misfits, np.inf).argmin())
        if misfits[best] > 2:
            return ""
        left[best] = False
        chosen.append(best)
    if not _explains(sample, _Variant("layout", "", _columns(waves, np.array(chosen)), sample.positions)):
        return ""
    shown = ", ".join(map(str, chosen[:6]))
    return f"the columns are in another order: the exact columns {shown}{', ..' if d > 6 else ''}"


def _by_identification(sample: Sample, encoding: Encoding) -> tuple[Fault, str] | None:
    """Identify the encoding of the rows, and compare its parameters with those of the expected encoding.

    Return (first fault, description of all differences), or None if the encoding is unknown or equal.
    """
    rows = _consecutive(sample)
    if rows is None or rows.shape[1] < 4:
        return None
    answers = []
    for values in (rows.astype(dtype_for(sample.form)), encoding.table(len(rows), dtype=np.float64)):
        try:
            answers.append(identify(values))
        except ValueError:
            return None
    found, own = answers
    made = found.encoding
    if made is None or made.ndim != 1 or found.axes or (found.base is None and not found.presets):
        return None
    shifted = found.start + found.step * sample.positions
    if not _explains(sample, _Variant("frequencies", "", Waves.of(made), shifted)):
        return None
    differences = list(_differences(found, own))
    if not differences:
        return None
    return differences[0][0], " and ".join(words for _, words in differences)


def _differences(found: Identification, own: Identification) -> Iterator[tuple[Fault, str]]:
    if found.start != own.start:
        yield "start", f"the first row has the values of position {found.start:g}"
    if found.step != own.step:
        yield "sign", "positions count backwards"
    if (found.layout, found.functions) != (own.layout, own.functions) and found.layout and own.layout:
        yield "layout", f"the columns are {found.layout}, {' before '.join(found.functions)}"
    if own.base is not None and found.base is not None:
        if found.freq_shift != own.freq_shift:
            yield "exponent", f"the frequency shift is {found.freq_shift:g} instead of {own.freq_shift:g}"
        if found.base != own.base:
            yield "base", f"the base is {found.base:g} instead of {own.base:g}"
        if found.first != own.first:
            yield "scaling", f"the first frequency is {found.first:g} instead of {own.first:g}"
    if abs(found.scale - own.scale) > 1e-6:
        yield "amplitude", f"all values are multiplied by {found.scale / own.scale:.6g}"
