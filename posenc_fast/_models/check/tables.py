"""Judge position tables by their rows and columns, because no config describes them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ... import presets
from ..._core.encoding.builders import LAYOUTS, sinusoidal
from ..._core.encoding.value import Encoding
from ..._core.numbers.arrays import Array, Floats
from ..._core.numbers.formats import FLOAT16, Format
from ..identify.angles import ORDERS
from ..identify.bases import BASES
from ..identify.encoding import Identification, identify
from .report import TABLE, Finding, listed, unknown_tensor
from .values import HALVES, array_of, narrowest, widened
from .waves import Waves, judge_waves, radians_at_end

# If `identify` finds no known encoding of the whole table, it is called for up to _PARTS parts of _PART_ROWS rows.
_PART_ROWS, _PARTS = 64, 4
# A table has at least _LEAST_ROWS rows and _LEAST_COLUMNS columns.
_LEAST_ROWS, _LEAST_COLUMNS = 8, 4
# largest number of rows for other tokens, such as a class token, before the row of position 0
_MOST_TOKENS = 4
# `_may_be_sinusoidal` tests parts of _SINUSOID_ROWS rows and _SINUSOID_COLUMNS columns.
_SINUSOID_ROWS, _SINUSOID_COLUMNS = 48, 32


class _Guess(NamedTuple):
    """An encoding that a table was probably meant to have.

    start: position of row 0. step: difference between the positions of consecutive rows. words: description.
    """

    encoding: Encoding
    start: float
    step: int
    words: str


def judge_table(name: str, table: Any) -> Finding:
    """Return the finding for a table such as ``pe`` with one row per position.

    The encoding is identified with `posenc_fast.identify`. Then the table is compared with the exact values of this
    encoding or, if none was identified, of likely encodings.

    Parameters
    ----------
    name : str
        The tensor's name.
    table : array or tensor of shape (rows, columns), or (height, width, columns) for a grid
        Values in their stored type. More axes of length 1 are allowed.
    """
    array = array_of(table, name)
    finding = _judge_array(name, array)
    wider = None if finding.verdict == "right" else widened(array)
    if wider is not None:
        finding_if_wider = _judge_array(name, wider)
        if finding_if_wider.verdict == "right":
            return finding_if_wider.twice_rounded()
    return finding


def _judge_array(name: str, array: Array) -> Finding:
    if array.dtype.kind == "c":
        return unknown_tensor(name, "complex numbers are not a position table")
    shape = [n for n in array.shape if n != 1]
    if len(shape) < 2 or array.shape[-1] < _LEAST_COLUMNS or array.size < _LEAST_ROWS * array.shape[-1]:
        reason = f"shape {array.shape} has too few rows or columns to identify an encoding"
        return unknown_tensor(name, reason)
    array = array.reshape(shape)
    form = narrowest(array)
    stored_type = array.dtype.name
    if form is FLOAT16:
        # `identify` derives its tolerance from the dtype
        array = array.astype(np.float16)
    flat = array.reshape(-1, shape[-1])
    finite = np.concatenate(
        [np.isfinite(flat[i : i + 4096].astype(np.float64)).all(axis=1) for i in range(0, len(flat), 4096)]
    )
    if not _may_be_sinusoidal(flat if finite.all() else flat[finite]):
        return Finding(name, TABLE, "unknown", None, "not sinusoidal; probably learned positions, or other weights")
    answer = Identification()
    if finite.all():
        try:
            answer = identify(array)
        except ValueError as error:
            return Finding(name, TABLE, "unknown", None, str(error))
        if answer and _is_known(answer, form):
            return _with_zero_rows(_right_finding(name, array, answer, form, stored_type), answer.zero_rows, len(flat))
    # the rows of a grid are not at consecutive positions, so faults of a grid are not named
    wrong = _judge_faults(name, flat, finite, answer, form) if len(shape) == 2 else None
    if wrong is not None:
        return wrong
    if answer:
        reason = f"sinusoids of unknown frequencies: {answer.encoding!r}"
        return Finding(name, TABLE, "unknown", None, reason, answer.error)
    closest = f"; the closest is {answer.closest}, off by {answer.error:.3g}" if answer.closest else ""
    reason = f"no known encoding{closest}; probably learned positions, or other weights"
    return Finding(name, TABLE, "unknown", None, reason)


def _may_be_sinusoidal(flat: Array) -> bool:
    """Return whether at least a quarter of the columns are sinusoidal. Only some rows and columns are tested.

    In a sinusoidal column, the sum of the two neighbours of a value is the value times a number. This number is the
    same in all rows.
    """
    columns = np.unique(
        np.linspace(0, flat.shape[1] - 1, min(flat.shape[1], _SINUSOID_COLUMNS)).round().astype(np.intp)
    )
    sinusoidal_columns = 0
    for start in {0, max(0, len(flat) // 2 - _SINUSOID_ROWS // 2)}:
        rows = flat[start : start + _SINUSOID_ROWS, columns].astype(np.float64)
        rows = rows[rows.any(axis=1)]
        if len(rows) < _LEAST_ROWS:
            continue
        middle, neighbours = rows[1:-1], rows[:-2] + rows[2:]
        # find the fixed multiple of each column by least squares
        squares = (middle**2).sum(axis=0)
        factor = (middle * neighbours).sum(axis=0) / np.maximum(squares, 1e-300)
        residual = np.median(np.abs(neighbours - factor * middle), axis=0)
        allowed = 0.03 * np.sqrt(squares / len(middle)) + 1e-30
        sinusoidal_columns = max(sinusoidal_columns, int((residual <= allowed).sum()))
    return 4 * sinusoidal_columns >= len(columns)


def _is_known(answer: Identification, form: Format) -> bool:
    """Return whether the identified encoding has a preset or a plausible base.

    An encoding with neither has parameters that were fitted to the table, so its agreement proves nothing.
    """
    if answer.presets:
        return True
    if answer.base is None:
        return False
    return form not in HALVES or answer.base in BASES or float(f"{answer.base:.3g}") == answer.base


def name_of(answer: Identification) -> str:
    """Return the names of up to three presets of an identification, or the repr of its encoding if it has no preset."""
    if answer.presets:
        return listed(answer.presets, 3)
    return repr(answer.encoding)


def _right_finding(name: str, array: Array, answer: Identification, form: Format, stored_type: str) -> Finding:
    """Return the finding for a table with a known encoding. stored_type: name of the dtype that stores the table."""
    encoding = answer.encoding
    assert encoding is not None
    radians = None
    reason = f"computed by {name_of(answer)}"
    if not answer.axes and encoding.ndim == 1:
        flat = array.reshape(-1, array.shape[-1])
        positions = answer.start + answer.step * np.arange(len(flat), dtype=np.float64)[:, np.newaxis]
        rows = np.setdiff1d(np.arange(len(flat)), answer.zero_rows)
        radians = radians_at_end(flat, Waves.of(encoding), positions, rows)
    if form in HALVES and form.name != stored_type:
        reason += f", with values of {form.name}, rounded once"
    return Finding(name, TABLE, "right", None, reason, answer.error, radians)


def _with_zero_rows(finding: Finding, zero: tuple[int, ...], rows: int) -> Finding:
    """Return the finding for a table that is right except for rows of zeros.

    The finding stays "right" if only the first 1 to 4 rows (other tokens) or a single row (padding) are zeros. Zeros in
    the last rows make it "unknown" (padding, or never written). Other rows of zeros make it "wrong".
    """
    if not zero or _are_tokens(zero):
        return finding
    count_at_end = next((i for i, row in enumerate(reversed(zero)) if row != rows - 1 - i), len(zero))
    before_end = zero[: len(zero) - count_at_end]
    reason = f"{finding.says}; {'row' if len(zero) == 1 else f'{len(zero)} rows'} of zeros: {listed(zero, 8)}"
    if len(zero) == 1:
        return replace(finding, says=reason)
    if count_at_end and (len(before_end) < 2 or _are_tokens(before_end)):
        return replace(finding, verdict="unknown", says=f"{reason}; the last rows are padding, or were never written")
    return replace(finding, verdict="wrong", fault="values", says=reason, first_position=None)


def _are_tokens(zero: tuple[int, ...]) -> bool:
    """Return whether the rows of zeros are the first rows, and few enough for tokens such as class tokens."""
    return len(zero) <= _MOST_TOKENS and zero == tuple(range(len(zero)))


def _judge_faults(name: str, flat: Array, finite: Any, answer: Identification, form: Format) -> Finding | None:
    """Return the finding for a table that an encoding with a known fault explains, else None.

    Rows of other tokens before position 0 are not a fault: the finding is then right.
    """
    not_zero = np.concatenate([(flat[i : i + 4096] != 0).any(axis=1) for i in range(0, len(flat), 4096)])
    if not_zero.sum() < _LEAST_ROWS:
        return None
    for guess in _guesses(flat, finite & not_zero, answer):
        positions = guess.start + guess.step * np.arange(len(flat), dtype=np.float64)[:, np.newaxis]
        judged = judge_waves(flat, guess.encoding, positions, form, not_zero)
        before_0 = positions[:, 0] < 0
        may_have_tokens = before_0[:_MOST_TOKENS].any() and not before_0[_MOST_TOKENS:].any()
        if judged.fault == "values" and guess.start < 0 and may_have_tokens:
            judged_from_0 = judge_waves(flat, guess.encoding, positions, form, not_zero & ~before_0)
            if judged_from_0.complete and judged_from_0.fault is None:
                count = int(before_0.sum())
                reason = f"computed by {guess.words}, after {count} {'row' if count == 1 else 'rows'} for other tokens"
                numbers = judged_from_0.largest_error, judged_from_0.radians
                return Finding(name, TABLE, "right", None, reason, *numbers)
        if judged.complete and judged.fault is not None:
            reason = f"{guess.words}: {judged.reason}"
            numbers = judged.largest_error, judged.radians
            return Finding(name, TABLE, "wrong", judged.fault, reason, *numbers, judged.first_position)
    return None


def _guesses(flat: Array, kept: Any, answer: Identification) -> Iterator[_Guess]:
    """Yield encodings that a table was probably meant to have.

    These are the closest preset, encodings of tutorials, and encodings that are identified in parts of the table. kept:
    mask of the rows that are finite and not zero.
    """
    width = flat.shape[1]
    if answer.closest:
        nearest: Any = presets.get(answer.closest)(width)
        if nearest.ndim == 1:
            if answer.scale != 1:
                nearest = Encoding(nearest.frequencies, nearest.phases, answer.scale * nearest.amplitudes)
            yield _Guess(nearest, answer.start, answer.step, answer.closest)
    rows = np.flatnonzero(kept)[:_SINUSOID_ROWS]
    for encoding, start in itertools.product(tutorial_encodings(width), (0, 1)):
        if are_about(flat[rows].astype(np.float64), encoding.encode(start + rows, dtype=np.float64)):
            yield _Guess(encoding, start, 1, repr(encoding))
    begins = sorted({int(begin) for begin in np.linspace(0, max(0, len(flat) - _PART_ROWS), _PARTS)})
    seen: set[tuple[Encoding, float]] = set()
    for begin in begins:
        part = slice(begin, begin + _PART_ROWS)
        if not kept[part].all() or len(flat[part]) < 2 * _LEAST_ROWS:
            continue
        found = identify(flat[part])
        if found.encoding is not None and not found.axes and (found.presets or found.base in BASES):
            guess = _Guess(found.encoding, found.start - found.step * begin, found.step, name_of(found))
            if (guess.encoding, guess.start) not in seen:
                seen.add((guess.encoding, guess.start))
                yield guess


def tutorial_encodings(d: int) -> Iterator[Encoding]:
    """Yield the encodings of tutorials: all combinations of layout, order of sine and cosine, and freq_shift 0 or 1."""
    for layout, functions, shift in itertools.product(LAYOUTS, ORDERS, (0.0, 1.0)):
        yield sinusoidal(d, layout=layout, functions=functions, freq_shift=shift)


def are_about(values: Floats, exact: Floats) -> bool:
    """Return whether most values are near the exact values, so that roundings to 16 bits may explain the others."""
    return bool((np.abs(values - exact) < 0.1).mean() > 0.6)
