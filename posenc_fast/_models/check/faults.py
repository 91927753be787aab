"""Recognize faults of user code, such as a wrong base or a wrong first position.

Compute the rows that each known fault would produce, and compare them with the rows that the code returned.
"""

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
from .report import Fault, listed
from .values import dtype_for
from .waves import Waves, judge_waves, radians_at_end

# number of rows in the first comparison, which quickly rejects most of the faults that are tried
_FIRST_COMPARED = 10
# largest number of rows that are passed to `identify`
_MOST_CONSECUTIVE = 64
# wrong positions of row 0 to try
_OFFSETS = range(-4, 9)
# number of possible table lengths that `_wrong_continuation` compares at a time
_LENGTHS_AT_ONCE = 1 << 16
# largest number of rows that are compared to find a permutation of columns
_MATCHED = 128
# maps each wrong factor of the angles to its description
_WRONG_FACTORS = {
    180 / math.pi: "multiplied by 180/pi, but sines take radians, not degrees",
    math.pi / 180: "multiplied by pi/180, as if they were degrees",
    2 * math.pi: "multiplied by 2 pi",
    1 / (2 * math.pi): "divided by 2 pi",
    math.pi: "multiplied by pi",
    1 / math.pi: "divided by pi",
}


class Sample(NamedTuple):
    """Rows that code returned: values (n, d) at positions (n, axes).

    form: format of the values. slack: tolerance in addition to that of `Waves.allowed`.
    """

    values: Floats
    positions: Floats
    form: Format
    slack: float = 0.0

    def take(self, rows: Any) -> Sample:
        return self._replace(values=self.values[rows], positions=self.positions[rows])


class Outcome(NamedTuple):
    """The result of a comparison.

    fault: kind of fault, or None for right rows. reason: description of the fault, or "" for right rows. The other
    fields mean the same as in a `Finding`.
    """

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

    base: base of the frequencies (default: the base that the encoding stores). plain: the encoding without its scaling
    of frequencies (default: ``encoding``).
    """
    waves = Waves.of(encoding)
    is_finite = np.isfinite(sample.values).all(axis=1)
    # The reason names each row by the absolute value of its position or, with several axes, of its largest coordinate.
    coordinates = np.abs(sample.positions).max(axis=1)
    if not is_finite.any():
        return Outcome("values", "every row has values that are not finite", math.inf, None, float(coordinates.min()))
    finite = sample.take(is_finite)
    is_wrong = ~_within_tolerance(finite, waves, finite.positions).all(axis=1)
    error = float(np.abs(finite.values - waves.at(finite.positions @ waves.frequencies.T)).max())
    radians = radians_at_end(finite.values, waves, finite.positions, np.arange(len(finite.values)))
    wrong = np.r_[coordinates[is_finite][is_wrong], coordinates[~is_finite]]
    first_wrong = float(wrong.min()) if wrong.size else None
    not_finite = "" if is_finite.all() else f"{_subject_and_verb(coordinates[~is_finite])} not finite"
    if not is_wrong.any():
        if not_finite:
            return Outcome("values", not_finite, math.inf, radians, first_wrong)
        return Outcome(None, "", error, radians, None)
    fault, reason = _explained(finite, encoding, base, plain) or (
        "frequencies",
        "the values differ, and no known fault explains the difference",
    )
    return Outcome(fault, f"{reason}; {not_finite}" if not_finite else reason, error, radians, first_wrong)


def _subject_and_verb(positions: Floats) -> str:
    """Return "the row of position 3 is", or "the rows of positions 3, 5 are", to begin a reason about these rows."""
    if len(positions) == 1:
        return f"the row of position {positions[0]:.10g} is"
    return f"the rows of positions {listed((f'{value:.10g}' for value in np.sort(positions)), 4)} are"


def _within_tolerance(sample: Sample, waves: Waves, positions: Floats) -> npt.NDArray[np.bool_]:
    """Return a mask of the sample's values that agree with ``waves`` at ``positions``, one position per row."""
    exact = waves.at(positions @ waves.frequencies.T)
    allowed = waves.allowed(positions, sample.values, sample.form) + sample.slack
    result: npt.NDArray[np.bool_] = np.abs(sample.values - exact) <= allowed
    return result


def is_right(sample: Sample, encoding: Encoding) -> bool:
    """Return whether all rows agree with an encoding."""
    return bool(_within_tolerance(sample, Waves.of(encoding), sample.positions).all())


def _explains(sample: Sample, variant: _Variant) -> bool:
    """Return whether all rows agree with the rows that a fault would produce."""
    some_rows, all_rows = np.linspace(0, len(sample.values) - 1, _FIRST_COMPARED).astype(np.intp), slice(None)
    for rows in (some_rows, all_rows) if len(sample.values) > _FIRST_COMPARED else (all_rows,):
        if not _within_tolerance(sample.take(rows), variant.waves, variant.positions[rows]).all():
            return False
    return True


def _explained(
    sample: Sample, encoding: Encoding, base: float | None, plain: Encoding | None
) -> tuple[Fault, str] | None:
    """Return (fault, reason) for the first known fault that explains the differences, or None."""
    waves = Waves.of(encoding)
    for variant in _variants(sample, encoding, base, plain):
        if _explains(sample, variant):
            return variant.fault, variant.reason
    exact = waves.at(sample.positions @ waves.frequencies.T)
    zero = (sample.values == 0).all(axis=1) & (exact != 0).any(axis=1)
    if zero.any() and not zero.all():
        explained = _zeros(sample, encoding, zero, base, plain)
        if explained is not None:
            return explained
    continuation = _wrong_continuation(sample, waves)
    if continuation:
        return "length", continuation
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
    differences = _by_identification(sample, encoding)
    if differences is not None:
        return differences
    if judged.fault == "values":
        return "values", judged.reason
    return None


def _zeros(
    sample: Sample, encoding: Encoding, zero: npt.NDArray[np.bool_], base: float | None, plain: Encoding | None
) -> tuple[Fault, str] | None:
    """Return (fault, reason) for rows of zeros if the other rows are right or have a known fault, else None.

    The fault is "length" if several rows of zeros follow all other rows, as in a table that is too short. Otherwise, it
    is "padding". zero: mask of the rows of zeros.
    """
    coordinates = np.abs(sample.positions).max(axis=1)
    reason = f"{_subject_and_verb(coordinates[zero])} zero"
    others = sample.take(~zero)
    # Several rows of zeros after all other rows mean that the table is too short. A single row of zeros is padding,
    # wherever it is.
    fault: Fault = "length" if zero.sum() > 1 and coordinates[zero].min() > coordinates[~zero].max() else "padding"
    if is_right(others, encoding):
        return fault, reason
    for variant in _variants(others, encoding, base, plain):
        if _explains(others, variant):
            return fault, f"{reason}; in the other rows, {variant.reason}"
    return None


# ---- families of faults ---------------------------------------------------------------------------------------------


def _variants(sample: Sample, encoding: Encoding, base: float | None, plain: Encoding | None) -> Iterator[_Variant]:
    """Yield a variant for each known fault that a single comparison of all rows can recognize."""
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
        yield _Variant("amplitude", _factor_clause(factor, encoding.d_model), _scaled(waves, factor), positions)
    if one_axis:
        yield from _measured_frequencies(sample, encoding, base)


def _scaled(waves: Waves, factor: float) -> Waves:
    return waves._replace(amplitudes=factor * waves.amplitudes)


def _starts(waves: Waves, positions: Floats) -> Iterator[_Variant]:
    """Yield variants with wrong positions: shifted, in reverse order, all equal, or with the axes in another order."""
    # try small offsets first
    offsets = sorted((offset for offset in _OFFSETS if offset), key=lambda offset: (abs(offset), -offset))
    for offset, size in (*((offset, f"{abs(offset)}") for offset in offsets), (0.5, "1/2"), (-0.5, "1/2")):
        reason = f"row p has the values of position p {'+' if offset > 0 else '-'} {size}"
        yield _Variant("start", reason, waves, positions + offset)
    yield _Variant("start", "the rows are in reverse order", waves, positions.max(axis=0) - positions)
    for position in (0.0, 1.0):
        reason = f"every row has the values of position {position:g}"
        yield _Variant("start", reason, waves, np.full_like(positions, position))
    axes = positions.shape[1]
    for shift in range(1, axes):
        yield _Variant("layout", "the axes of a position are in another order", waves, np.roll(positions, shift, 1))
    if axes > 1:
        yield _Variant("layout", "the axes of a position are in reverse order", waves, positions[:, ::-1])


def _signs(waves: Waves, positions: Floats) -> Iterator[_Variant]:
    yield _Variant("sign", "positions count backwards, so the sines have the opposite sign", waves, -positions)
    yield _Variant("sign", "all values have the opposite sign", _scaled(waves, -1.0), positions)
    negative_cosines = waves._replace(amplitudes=np.where(_are_sines(waves), 1.0, -1.0) * waves.amplitudes)
    yield _Variant("sign", "the cosines have the opposite sign", negative_cosines, positions)


def _are_sines(waves: Waves) -> npt.NDArray[np.bool_]:
    """Return a mask of the sine columns, whose phase is less than 60 degrees from 0 or 180. The others are cosines."""
    result: npt.NDArray[np.bool_] = np.abs(np.cos(waves.phases)) > 0.5
    return result


def _units(waves: Waves, positions: Floats) -> Iterator[_Variant]:
    for factor, words in _WRONG_FACTORS.items():
        yield _Variant("units", f"the angles are {words}", waves, factor * positions)


def _orders(waves: Waves, positions: Floats) -> Iterator[_Variant]:
    """Yield variants in which all columns are sines or all are cosines, and variants with other orders of columns."""
    are_sines = _are_sines(waves)
    if are_sines.any() and not are_sines.all():
        for phase, words in ((0.0, "sines"), (math.pi / 2, "cosines")):
            same_function = waves._replace(phases=np.full_like(waves.phases, phase))
            yield _Variant("functions", f"all columns are {words}", same_function, positions)
    columns_of_pairs = _pairs_of(waves)
    if columns_of_pairs is None:
        return
    sines, cosines = columns_of_pairs
    orders = {
        "sines and cosines side by side": _side_by_side(sines, cosines),
        "cosines and sines side by side": _side_by_side(cosines, sines),
        "all sines, then all cosines": np.r_[sines, cosines],
        "all cosines, then all sines": np.r_[cosines, sines],
    }
    for words, columns in orders.items():
        yield _Variant("layout", f"the columns are {words}", waves.take(columns), positions)
    reverse = np.arange(len(waves.phases))
    reverse[sines], reverse[cosines] = sines[::-1], cosines[::-1]
    yield _Variant("layout", "the frequencies are in reverse order", waves.take(reverse), positions)


def _pairs_of(waves: Waves) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None:
    """Return (indices of sine columns, indices of cosine columns), or None if the columns do not form pairs.

    They form pairs if no amplitude is 0, each column is a sine or a cosine, and there are as many sines as cosines or
    one sine more. There must be at least one cosine.
    """
    usable = (waves.amplitudes != 0) & (np.abs(np.sin(2 * waves.phases)) < 1e-9)
    if not usable.all():
        return None
    are_sines = _are_sines(waves)
    sines, cosines = np.flatnonzero(are_sines), np.flatnonzero(~are_sines)
    return (sines, cosines) if 0 <= len(sines) - len(cosines) <= 1 and len(cosines) else None


def _side_by_side(first: npt.NDArray[np.intp], second: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the indices of both arrays in turn, beginning with the longer array.

    The lengths may differ by 1. If they are equal, the result begins with ``first``.
    """
    if len(second) > len(first):
        first, second = second, first
    result = np.empty(len(first) + len(second), np.intp)
    result[0::2], result[1::2] = first, second
    return result


class _Powers(NamedTuple):
    """Frequencies ``first * base ** (-pair / denominator)`` of the columns of an encoding.

    pair: for each column, the index of its frequency. is_sine: for each column, whether it is a sine.
    """

    first: float
    base: float
    denominator: float
    pair: npt.NDArray[np.intp]
    is_sine: npt.NDArray[np.bool_]

    def frequencies(self, exponents: Floats) -> Floats:
        # Set frequencies below 1e-60 to 0, so that quotients of frequencies are finite. Their angles are practically 0.
        powers = self.first * np.exp(np.clip(-exponents * math.log(self.base), -300, 300))
        return np.where(powers < 1e-60, 0.0, powers)


def _powers_in(encoding: Encoding, base: float | None) -> _Powers | None:
    """Return the frequencies of an encoding as powers of a base, or None if they are not powers of one base.

    base: base of the powers. If it is None, a likely base is chosen.
    """
    frequencies = encoding.frequencies
    distinct = list(dict.fromkeys(frequencies[encoding.amplitudes != 0].tolist()))
    if len(distinct) < 2 or min(distinct) <= 0:
        return None
    logs = np.log(distinct)
    step = float(logs[0] - logs[1])
    if abs(step) < 1e-12 or np.abs(logs - logs[0] + step * np.arange(len(logs))).max() > 1e-9 * (1 + abs(logs).max()):
        return None
    if base is None:
        # Choose a known base for which the denominator is a multiple of 1/2. If there is none, choose the base for
        # which the denominator is the number of frequencies.
        denominators = {known: math.log(known) / step for known in BASES}
        likely = [known for known, d in denominators.items() if abs(2 * d - round(2 * d)) < 1e-6]
        base = likely[0] if likely else math.exp(step * len(logs))
    pair_of = {frequency: pair for pair, frequency in enumerate(distinct)}
    pairs = np.array([pair_of.get(frequency, 0) for frequency in frequencies.tolist()], np.intp)
    return _Powers(distinct[0], base, math.log(base) / step, pairs, _are_sines(Waves.of(encoding)))


def _exponents(encoding: Encoding, plain: Encoding, positions: Floats, base: float | None) -> Iterator[_Variant]:
    """Yield variants whose frequencies are powers of the base with wrong exponents."""
    powers = _powers_in(plain, base)
    if powers is None:
        return
    waves = Waves.of(encoding)
    scaling_factors = encoding.frequencies / np.where(plain.frequencies == 0, 1.0, plain.frequencies)
    # The right exponent of pair i is i / d, where d is half of the number of columns if there is no shift. The column c
    # of a sine is 2 i, and of a cosine 2 i + 1.
    i, d, is_cosine = powers.pair.astype(np.float64), powers.denominator, np.where(powers.is_sine, 0.0, 1.0)
    c = 2 * i + is_cosine

    def variant(reason: str, exponents: Floats) -> _Variant:
        frequencies = (powers.frequencies(exponents) * scaling_factors)[:, np.newaxis]
        return _Variant("exponent", reason, waves._replace(frequencies=frequencies), positions)

    whole = f"{2 * d:g}"
    for factor, numerator in ((1.0, "2i"), (0.5, "i"), (2.0, "4i")):
        for denominator in (d, d - 1.0, d + 1.0, d - 0.5, d + 0.5):
            if (factor, denominator) != (1.0, d) and denominator > 0:
                reason = f"the exponent is {numerator}/{2 * denominator:g} instead of 2i/{whole}"
                yield variant(reason, factor * i / denominator)
    for shift in (1.0, 0.5, -0.5, -1.0):
        yield variant(f"the exponent is (2i{2 * shift:+g})/{whole} instead of 2i/{whole}", (i + shift) / d)
    for shift in (0.5, 1.0):
        words = f"is (2i{2 * shift:+g})/{whole} instead of 2i/{whole}"
        yield variant(f"the exponent of cosines {words}", (i + shift * is_cosine) / d)
        yield variant(f"the exponent of sines {words}", (i + shift * (1 - is_cosine)) / d)
    for numerator, exponents in (("2c", c / d), ("c", c / (2 * d)), ("4c", 2 * c / d)):
        words = f"{numerator}/{whole} for column c instead of 2i/{whole} for both columns of pair i"
        yield variant(f"the exponent is {words}", exponents)
    yield variant("all exponents are 0, as after an integer division", 0 * i)
    yield variant("the exponents have the opposite sign, so positions are multiplied by powers of the base", -i / d)
    yield variant("the exponents use log10(base) instead of the natural logarithm of the base", i / d / math.log(10))
    yield variant("the exponents use log2(base) instead of the natural logarithm of the base", i / d / math.log(2))
    yield variant(f"the exponent is 2i instead of 2i/{whole}", 2 * i)
    yield variant(f"the exponent is i instead of 2i/{whole}", i)


def _factor(sample: Sample, waves: Waves) -> float | None:
    """Return the factor by which the sample differs from the exact values, or None if it is near 0 or not measurable."""
    exact = waves.at(sample.positions @ waves.frequencies.T)
    # measure the factor by least squares
    product, square = float((sample.values * exact).sum()), float((exact**2).sum())
    if square == 0:
        return None
    factor = product / square
    # If the rows are not a multiple of the exact rows, they have another fault too, and least squares fails. Then use
    # the quotient of the root mean squares, which most faults leave unchanged.
    largest_difference = float(np.abs(sample.values - factor * exact).max())
    if largest_difference > 0.05 * abs(factor) * float(np.abs(exact).max()):
        factor = math.sqrt(float((sample.values**2).sum()) / square)
    return factor if factor and math.isfinite(factor) and abs(factor) > 1e-9 else None


def _factor_clause(factor: float, d: int) -> str:
    names = {math.sqrt(d): f"sqrt({d})", 1 / math.sqrt(d): f"1/sqrt({d})", float(d): f"{d}", 1 / d: f"1/{d}"}
    name = next((words for number, words in names.items() if abs(factor / number - 1) < 1e-5), f"{factor:.6g}")
    return f"all values are multiplied by {name}"


def _measured_frequencies(sample: Sample, encoding: Encoding, base: float | None) -> Iterator[_Variant]:
    """Yield variants in which one factor multiplies all frequencies, and variants with another base.

    Factor and base are measured in the rows of consecutive positions.
    """
    waves = Waves.of(encoding)
    measured = _angles_per_row(sample, waves)
    if measured is None:
        return
    columns, angles = measured
    factor = _factor_of_frequencies(angles, np.abs(encoding.frequencies[columns]))
    for number in () if factor is None else dict.fromkeys([*few_digits(factor), factor]):
        if number > 0 and abs(number - 1) > 1e-6:
            reason = f"all frequencies are multiplied by {number:g}"
            yield _Variant("scaling", reason, waves, number * sample.positions)
    powers = _powers_in(encoding, base or encoding.base)
    if powers is None:
        return
    measured_base = _base_of_angles(angles, powers.first, powers.pair[columns] / powers.denominator)
    if measured_base is None:
        return
    for other in dict.fromkeys([*bases_near([measured_base], 0.05, BASES), measured_base]):
        if other > 0 and abs(other / powers.base - 1) > 1e-9:
            frequencies = powers.first * other ** -(powers.pair / powers.denominator)
            reason = f"the base is {other:g} instead of {powers.base:g}"
            yield _Variant("base", reason, waves._replace(frequencies=frequencies[:, np.newaxis]), sample.positions)


def _factor_of_frequencies(angles: Floats, frequencies: Floats) -> float | None:
    """Return the quotient of the measured angles per row and the frequencies, or None if no pair rotates.

    The quotient is measured by least squares in the pairs that rotate by less than 3 radians per row. If there are no
    such pairs, all pairs that rotate are used.
    """
    usable = (frequencies != 0) & (angles > 1e-7)
    if not usable.any():
        return None
    # a pair that rotates by more than half a turn per row looks slower than it is, so use only slow pairs
    slowest = np.where(usable, frequencies, np.inf).argmin()
    slow = usable & (frequencies * (angles[slowest] / frequencies[slowest]) < 3)
    slow = slow if slow.any() else usable
    return float((angles[slow] * frequencies[slow]).sum() / (frequencies[slow] ** 2).sum())


def _base_of_angles(angles: Floats, first: float, exponents: Floats) -> float | None:
    """Return the base for which ``first * base ** -exponents`` is closest to the angles per row.

    Return None if no pair has an exponent and an angle above 0, or if the base is not between exp(-100) and exp(100).
    """
    usable = (exponents > 0) & (angles > 1e-7)
    if not usable.any():
        return None
    logs = np.log(first / angles[usable]) / exponents[usable]
    weights = (exponents[usable] * angles[usable]) ** 2
    mean = float((weights * logs).sum() / weights.sum())
    return math.exp(mean) if abs(mean) < 100 else None


def _angles_per_row(sample: Sample, waves: Waves) -> tuple[npt.NDArray[np.intp], Floats] | None:
    """Return two arrays with one entry per pair: the index of its sine column, and the angle of its rotation per row.

    Return None if the columns do not form pairs, or if `_consecutive` returns None.
    """
    columns_of_pairs = _pairs_of(waves)
    rows = _consecutive(sample)
    if columns_of_pairs is None or rows is None:
        return None
    sines, cosines = columns_of_pairs
    sines = sines[: len(cosines)]
    # cosine + i sine, of shape (rows, pairs)
    z = rows[:, cosines] / waves.amplitudes[cosines] + 1j * rows[:, sines] / waves.amplitudes[sines]
    estimate = np.angle((z[1:] * z[:-1].conj()).sum(axis=0))
    # the angle between the first and the last row makes the estimate more precise
    steps = len(z) - 1
    correction = np.angle(z[-1] * z[0].conj() * np.exp(-1j * estimate * steps)) / steps
    return sines, np.abs(estimate + correction)


def _consecutive(sample: Sample) -> Floats | None:
    """Return the rows of the positions 0, 1, .. up to the first missing position, at most 64 rows.

    Return None if there are fewer than 8 such rows, or if positions have several axes.
    """
    if sample.positions.shape[1] != 1:
        return None
    row_of = {position: row for row, position in reversed(list(enumerate(sample.positions[:, 0].tolist())))}
    count = next((i for i in range(_MOST_CONSECUTIVE) if float(i) not in row_of), _MOST_CONSECUTIVE)
    return sample.values[[row_of[float(i)] for i in range(count)]] if count >= 8 else None


# ---- faults that need more than one comparison ----------------------------------------------------------------------


def _wrong_continuation(sample: Sample, waves: Waves) -> str:
    """Return a clause that describes the wrong rows after the right rows, or "" if no description fits.

    The wrong rows may repeat the right rows, equal the last right row, or be the rows of negative positions.
    """
    positions = sample.positions[:, 0]
    if sample.positions.shape[1] != 1 or (positions < 0).any():
        return ""
    right = _within_tolerance(sample, waves, sample.positions).all(axis=1)
    first_wrong = positions[~right].min()
    last_right = positions[right & (positions < first_wrong)].max(initial=-1.0)
    if last_right < 1 or (positions[right] > first_wrong).mean() > 0.5:
        return ""
    wrong_row = sample.take(np.flatnonzero(positions == first_wrong)[:1])
    beyond = sample.take(positions >= first_wrong)
    lengths = np.arange(int(last_right) + 1, int(first_wrong) + 1, dtype=np.float64)
    # Maps the description of a wrong continuation to a function of positions p and the table length n. The function
    # returns the positions whose rows the code returns at p.
    continuations: dict[str, Callable[[Any, Any], Any]] = {
        "repeat after {:g} rows": np.mod,
        "stay the same from row {:g} on": lambda p, n: np.minimum(p, n - 1),
        "from row {0:g} on are the rows of positions from -{0:g} on": lambda p, n: np.mod(p + n, 2 * n) - n,
    }
    for words, used_rows in continuations.items():
        for begin in range(0, len(lengths), _LENGTHS_AT_ONCE):
            some_lengths = lengths[begin : begin + _LENGTHS_AT_ONCE]
            possible = _rows_alike(wrong_row, waves, used_rows(first_wrong, some_lengths))
            for length in some_lengths[possible][:64]:
                if _explains(beyond, _Variant("length", "", waves, used_rows(beyond.positions, length))):
                    return f"the rows {words.format(length - 1 if 'stay' in words else length)}"
    return ""


def _rows_alike(row: Sample, waves: Waves, positions: Floats) -> npt.NDArray[np.intp]:
    """Return the indices of the positions whose exact values agree with a row. At most 6 columns are compared."""
    columns = np.unique(np.linspace(0, len(waves.phases) - 1, 6).astype(np.intp))
    values = np.broadcast_to(row.values[:, columns], (len(positions), len(columns)))
    agrees = _within_tolerance(row._replace(values=values), waves.take(columns), positions[:, np.newaxis])
    return np.flatnonzero(agrees.all(axis=1))


def _permutation(sample: Sample, waves: Waves) -> str:
    """Return a clause about the order of the columns if they are permuted, else "".

    More than 1024 columns are not compared.
    """
    d = len(waves.phases)
    if d > 1024 or d < 2:
        return ""
    part = sample.take(np.unique(np.linspace(0, len(sample.values) - 1, _MATCHED).astype(np.intp)))
    exact = waves.at(part.positions @ waves.frequencies.T)
    allowed = waves.allowed(part.positions, part.values, part.form).max(axis=1, keepdims=True)
    # for each column of the sample, find the unused exact column that differs least
    unused, order = np.ones(d, bool), []
    for column in range(d):
        differences = (np.abs(exact - part.values[:, [column]]) / allowed).max(axis=0)
        best = int(np.where(unused, differences, np.inf).argmin())
        if differences[best] > 2:
            return ""
        unused[best] = False
        order.append(best)
    if not _explains(sample, _Variant("layout", "", waves.take(np.array(order)), sample.positions)):
        return ""
    return f"the columns are in another order: from left to right, they are the expected columns {listed(order, 6)}"


def _by_identification(sample: Sample, encoding: Encoding) -> tuple[Fault, str] | None:
    """Identify the encoding of the rows, and compare its parameters with those of the expected encoding.

    Return (fault of the first difference, description of all differences). Return None if the encoding of the rows
    cannot be identified, or if no parameter differs.
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
    found, expected = answers
    if found.encoding is None or found.encoding.ndim != 1 or found.axes or (found.base is None and not found.presets):
        return None
    positions = found.start + found.step * sample.positions
    if not _explains(sample, _Variant("frequencies", "", Waves.of(found.encoding), positions)):
        return None
    differences = list(_differences(found, expected))
    if not differences:
        return None
    return differences[0][0], " and ".join(words for _, words in differences)


def _differences(found: Identification, expected: Identification) -> Iterator[tuple[Fault, str]]:
    """Yield (fault, description) for each parameter of an identified encoding that differs from the expected value."""
    if found.start != expected.start:
        yield "start", f"the first row has the values of position {found.start:g}"
    if found.step != expected.step:
        yield "sign", "positions count backwards"
    if (found.layout, found.functions) != (expected.layout, expected.functions) and found.layout and expected.layout:
        yield "layout", f"the columns are {found.layout}, {' before '.join(found.functions)}"
    if expected.base is not None and found.base is not None:
        if found.freq_shift != expected.freq_shift:
            yield "exponent", f"the frequency shift is {found.freq_shift:g} instead of {expected.freq_shift:g}"
        if found.base != expected.base:
            yield "base", f"the base is {found.base:g} instead of {expected.base:g}"
        if found.first != expected.first:
            yield "scaling", f"the first frequency is {found.first:g} instead of {expected.first:g}"
    if abs(found.scale - expected.scale) > 1e-6:
        yield "amplitude", f"all values are multiplied by {found.scale / expected.scale:.6g}"
