"""Judge the values that code returns at chosen positions: rows, cosines and sines, and rotated vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ... import presets
from ..._core.encoding.value import Encoding
from ..._core.numbers.arrays import Array, Floats
from ..._core.numbers.formats import FLOAT32, FLOAT64
from ..._core.rotary.value import Rotary
from ...presets._registry import facts
from ..identify.encoding import identify
from ..identify.rotary import identify_rotary
from ..identify.rotations import columns_of, complex_pairs
from .faults import Outcome, Sample, is_right, judge_rows
from .frequencies import described, without_scaling
from .report import CODE, Finding
from .rotary_tables import Tables, judge_rotary_tables, orders_of
from .tables import are_about, name_of, tutorial_encodings
from .values import HALVES, array_of, dtype_for, narrowest

# the encoding that the user expects: an encoding, the name of a preset, or None to identify the encoding
Expected = Encoding | Rotary | str | None
COMPUTED_ROWS, COMPUTED_TABLES, COMPUTED_ROTATION = CODE
# number that stands for NaN and infinity while columns are compared
_MARK = 2.0**14
# faults that do not change the rows near position 0, so that these rows determine the encoding
_PLAIN = ("rounded", "length", "values", "padding")


class Unusable(Exception):
    """A call failed, or its result cannot be judged. The message is the reason."""


# ---- returned values ------------------------------------------------------------------------------------------------


def numbers_in(value: Any, name: str) -> Array:
    """Return the result of a call as an array of floats. The result may be an array, or nested lists of numbers."""
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "dtype"):
        arrays = [numbers_in(one, name) for one in value]
        if len({array.shape for array in arrays}) > 1:
            raise Unusable(f"the call returned {shape_of(value)}")
        value = np.stack(arrays)
    if not hasattr(value, "dtype"):
        try:
            value = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            raise Unusable(f"the call returned {shape_of(value)} instead of an array of numbers") from None
    if getattr(getattr(value, "dtype", None), "kind", "f") in "iub":
        value = np.asarray(value, np.float64)
    elif "int" in str(value.dtype) and not isinstance(value, np.ndarray):
        value = np.asarray(value.tolist(), np.float64)
    try:
        return array_of(value, name)
    except TypeError:
        raise Unusable(f"the call returned numbers of type {value.dtype}") from None


def shape_of(value: Any) -> str:
    """Return a description of the value that a call returned, such as its shape."""
    if isinstance(value, (tuple, list)) and any(hasattr(one, "shape") for one in value):
        shapes = (str(tuple(getattr(one, "shape", ()))) for one in value[:3])
        return f"{len(value)} arrays of shapes {', '.join(shapes)}{', ..' if len(value) > 3 else ''}"
    if hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    return "None" if value is None else f"a value of type {type(value).__name__}"


def rows_in(value: Any, count: int, name: str) -> Array | None:
    """Return the result of a call as rows (count, columns), or None for other shapes. Axes of length 1 are ignored."""
    array = numbers_in(value, name)
    if array.ndim < 1 or array.dtype.kind == "c":
        return None
    sides = [n for n in array.shape[:-1] if n != 1] or [1]
    return array.reshape(count, array.shape[-1]) if sides == [count] and array.shape[-1] else None


def tables_in(value: Any, count: int, name: str) -> tuple[Array, Array | None] | None:
    """Return the result of a call as (cosines, sines) with ``count`` rows, or None for other shapes.

    If one array contains both, return (array, None).
    """
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(hasattr(one, "shape") for one in value):
        cos, sin = (numbers_in(one, name) for one in value)
    else:
        array = numbers_in(value, name)
        if array.ndim < 2:
            return None
        if array.dtype.kind != "c" and array.ndim > 2 and len(array) == 2 and count != 2:
            cos, sin = array[0], array[1]
        else:
            both = [tables for tables in orders_of(array, None) if len(tables.cos) == count]
            return (array, None) if both else None
    return (cos, sin) if any(len(tables.cos) == count for tables in orders_of(cos, sin)) else None


def axes_of(expected: Expected) -> int:
    """Return the number of position axes of the expected encoding."""
    if isinstance(expected, str):
        return int(facts(expected).axes) if facts(expected).axes.isdigit() else 1
    return 1 if expected is None else expected.ndim


def expected_of_width(expected: Expected, width: int, name: str) -> Encoding | Rotary | None:
    """Return the expected encoding for rows or tables of this width. A preset is called with the width."""
    if not isinstance(expected, str):
        return expected
    build: Any = presets.get(expected)
    if facts(expected).rotary:
        for options in ({}, {"head_dim": width}):
            try:
                rotary: Rotary = build(**options)
            except (TypeError, ValueError):
                continue
            if width in (rotary.rotary_dim, rotary.head_dim) and rotary.ndim == axes_of(expected):
                return rotary
    else:
        # some presets add one or two columns to the given width
        for arguments in ((width,), (), (width - 1,), (width - 2,)):
            try:
                encoding: Encoding = build(*arguments)
            except (TypeError, ValueError):
                continue
            if encoding.d_model == width and encoding.ndim == axes_of(expected):
                return encoding
    raise ValueError(
        f"expected={expected!r} needs more arguments for the {width} columns that {name} returns; pass an "
        f"Encoding or a Rotary, such as posenc_fast.presets.{expected}(..)"
    )


# ---- rows -----------------------------------------------------------------------------------------------------------


def judge_code_rows(
    name: str, rows: Array, positions: Floats, expected: Encoding | None, call_clause: str = ""
) -> Finding:
    """Return the finding for rows (n, columns) at positions (n, axes).

    If expected is None, the encoding is identified first. call_clause: clause about the call, for the finding.
    """
    form = narrowest(rows)
    sample = Sample(rows.astype(np.float64), positions, form)
    if expected is None:
        return _unexpected_rows(name, sample, call_clause)
    if rows.shape[1] != expected.d_model:
        reason = f"{rows.shape[1]} columns, where {expected.d_model} are expected{call_clause}"
        return Finding(name, COMPUTED_ROWS, "wrong", "shape", reason)
    return _finding(name, COMPUTED_ROWS, judge_rows(sample, expected), repr(expected), call_clause)


def _finding(name: str, kind: str, outcome: Outcome, words: str, call_clause: str) -> Finding:
    numbers = outcome.largest_error, outcome.radians
    if outcome.fault is None:
        return Finding(name, kind, "right", None, f"same as {words}{call_clause}", *numbers)
    reason = f"compared with {words}: {outcome.reason}{call_clause}"
    return Finding(name, kind, "wrong", outcome.fault, reason, *numbers, outcome.first_position)


class Identified(NamedTuple):
    """The identified encoding of rows at consecutive positions.

    start: position of the first row. words: description. factor: values divided by the values of the preset.
    """

    encoding: Encoding
    start: float
    words: str
    factor: float = 1.0


def identified(sample: Sample) -> Identified | None:
    """Return the encoding of the first rows, identified from their values, or None if it is unknown."""
    if sample.positions.shape[1] != 1 or sample.values.shape[1] < 2:
        return None
    column = sample.positions[:, 0]
    count = next((i for i, position in enumerate(column) if position != i), len(column))
    rows = sample.values[: min(count, 64)]
    if len(rows) < 8 or not np.isfinite(rows).all():
        return None
    try:
        answer = identify(rows.astype(dtype_for(sample.form)))
    except ValueError:
        return None
    known = answer.encoding is not None and (answer.presets or answer.base is not None)
    if not known or answer.axes or answer.step != 1 or answer.encoding is None or answer.zero_rows:
        return None
    if not answer.presets:
        return Identified(answer.encoding, answer.start, name_of(answer), answer.scale)
    source: Any = presets.get(answer.presets[0])
    own = np.abs(answer.encoding.amplitudes).max() / np.abs(source(rows.shape[1]).amplitudes).max()
    return Identified(answer.encoding, answer.start, name_of(answer), float(own))


def _unexpected_rows(name: str, sample: Sample, call_clause: str) -> Finding:
    known = identified(sample)
    if known is not None and (known.start or abs(known.factor - 1) > 1e-6):
        start = f"row 0 has the values of position {known.start:g}" if known.start else ""
        factor = f"all values are multiplied by {known.factor:.6g}" if abs(known.factor - 1) > 1e-6 else ""
        but = " and ".join(words for words in (start, factor) if words)
        reason = f"identified as {known.words}, but {but}{call_clause}; pass expected to decide whether this is right"
        return Finding(name, COMPUTED_ROWS, "unknown", None, reason)
    if known is not None:
        return _finding(
            name, COMPUTED_ROWS, judge_rows(sample, known.encoding), f"{known.words}, as identified", call_clause
        )
    for encoding in _usual(sample):
        outcome = judge_rows(sample, encoding)
        if outcome.fault in _PLAIN:
            return _finding(name, COMPUTED_ROWS, outcome, f"{encoding!r}, as identified", call_clause)
    reason = f"no known encoding{call_clause}; pass expected, an Encoding or the name of a preset"
    return Finding(name, COMPUTED_ROWS, "unknown", None, reason)


def _usual(sample: Sample) -> Iterator[Encoding]:
    """Yield the encodings of tutorials whose values near position 0 are close to the sample."""
    d, few = sample.values.shape[1], np.abs(sample.positions).max(axis=1) <= 32
    if d < 4 or sample.positions.shape[1] > 1 or not few.any():
        return
    for encoding in tutorial_encodings(d):
        if are_about(sample.values[few], encoding.encode(sample.positions[few, 0], dtype=np.float64)):
            yield encoding


# ---- cosines and sines ----------------------------------------------------------------------------------------------


def judge_code_tables(
    name: str,
    tables: tuple[Array, Array | None],
    positions: Floats,
    expected: Rotary | None,
    call_clause: str = "",
    slack: float = 0.0,
) -> Finding:
    """Return the finding for cosines and sines at positions (n, axes).

    call_clause: clause about the call. slack: difference to allow in addition to rounding errors.
    """
    cos, sin = tables
    if expected is None:
        finding = judge_rotary_tables(name, cos, sin, positions)
        known = ", as identified" if finding.verdict != "unknown" else ""
        return replace(finding, is_=COMPUTED_TABLES, says=f"{finding.says}{known}{call_clause}")
    orders = list(_orders_with_nan(cos, sin))
    pairs = expected.rotary_dim // 2
    fitting = [one for one in orders if one.pairs == pairs and one.sin is not None and one.copies == 1]
    if not fitting:
        widths = " or ".join(sorted({str(2 * one.pairs) for one in orders}))
        reason = f"cosines and sines of {widths} values, where {2 * pairs} are expected{call_clause}"
        return Finding(name, COMPUTED_TABLES, "wrong", "shape", reason)
    finding = judge_rotary_tables(name, cos, sin, positions, [expected])
    reason = finding.says.replace("the config's", "the expected").replace("the config has", "the expected Rotary has")
    finding = replace(finding, is_=COMPUTED_TABLES, says=f"{reason}{call_clause}")
    if finding.verdict == "right" or expected._settings.amplitudes_vary:
        return finding
    if finding.fault == "layout" and "side by side" in finding.says:
        return finding
    outcomes = [_of_tables(one, positions, expected, slack) for one in fitting]
    best = next((one for one in outcomes if one.fault not in ("frequencies", "values")), outcomes[0])
    # `judge_rotary_tables` describes a wrong base, a wrong scaling or swapped columns in more detail
    vague = best.fault in ("frequencies", "values", "scaling", "base", "amplitude", finding.fault)
    if best.fault is not None and vague and finding.fault in ("base", "scaling", "rounded", "layout"):
        return finding
    return _finding(name, COMPUTED_TABLES, best, described(expected), call_clause)


def _orders_with_nan(cos: Array, sin: Array | None) -> Iterator[Tables]:
    """Yield the tables for each order of columns that they may have. NaN and infinity count as equal."""

    def marked(table: Array | None) -> Array | None:
        # every dtype can represent the mark, and no cosine is so large
        return None if table is None else np.where(np.isfinite(table), table, table.dtype.type(_MARK))

    def unmarked(table: Array | None) -> Array | None:
        return None if table is None else np.where(table == table.dtype.type(_MARK), table.dtype.type(np.nan), table)

    for one in orders_of(marked(cos), marked(sin)):  # type: ignore[arg-type]
        yield one._replace(cos=unmarked(one.cos), sin=unmarked(one.sin))  # type: ignore[arg-type]


def _of_tables(tables: Tables, positions: Floats, rotary: Rotary, slack: float) -> Outcome:
    together = tables.together()
    sample = Sample(together.astype(np.float64), positions, narrowest(together), slack)
    plain = None
    if rotary.base is not None and rotary.frequencies.ndim == 1 and rotary.ndim == 1:
        plain = tables.encoding(Rotary(rotary.rotary_dim, base=rotary.base))
        if np.array_equal(without_scaling(rotary, rotary.frequencies), rotary.frequencies):
            plain = None
    return judge_rows(sample, tables.encoding(rotary), base=rotary.base, plain=plain)


# ---- rotated vectors ------------------------------------------------------------------------------------------------


class Rotation(NamedTuple):
    """Two sets of vectors (n, head_dim) before and after a rotation by the user's code, and positions (n, axes).

    No pair of values of a vector is near zero, in any layout.
    """

    before: tuple[Floats, Floats]
    after: tuple[Array, Array]
    positions: Floats


# (layout of pairs before the rotation, layout after it, description) for each kind of rotation
_ROTATIONS = {
    "half": ("half", "half", "half a head apart"),
    "interleaved": ("interleaved", "interleaved", "side by side"),
    "interleaved_to_half": ("interleaved", "half", "side by side before, half a head apart after the rotation"),
    "half_to_interleaved": ("half", "interleaved", "half a head apart before, side by side after the rotation"),
}


def judge_rotation(name: str, rotation: Rotation, expected: Rotary | None, call_clause: str = "") -> Finding:
    """Return the finding for rotated vectors. Determine the layout of the pairs first, then judge the angles."""
    kind = COMPUTED_ROTATION
    if expected is None:
        return _unexpected_rotation(name, rotation, call_clause)
    after = tuple(one.astype(np.float64) for one in rotation.after)
    words, dim, own = f"compared with {described(expected)}: ", expected.rotary_dim, expected.layout
    finite = np.isfinite(after[0]).all(axis=1) & np.isfinite(after[1]).all(axis=1)
    if not finite.all():
        first = float(np.abs(rotation.positions[~finite]).min())
        reason = f"{words}values that are not finite from position {first:g} on{call_clause}"
        lost = Finding(name, kind, "wrong", "values", reason, np.inf, first_position=first)
        if not finite.any():
            return lost
        before, some = (tuple(one[finite] for one in both) for both in (rotation.before, rotation.after))
        rest = judge_rotation(name, Rotation(before, some, rotation.positions[finite]), expected, call_clause)  # type: ignore[arg-type]
        return lost if rest.verdict == "right" else rest
    for width in dict.fromkeys((dim, rotation.before[0].shape[1])):
        for layout in dict.fromkeys((own, *_ROTATIONS)):
            tables = _rotated_by(rotation.before, after, layout, width)
            if tables is None:
                continue
            if width != dim:
                reason = f"{words}{width} values of a head are rotated, where {dim} are expected{call_clause}"
                return Finding(name, kind, "wrong", "layout", reason)
            finding = _of_rotation(name, tables, rotation, expected, call_clause)
            if layout == own:
                return finding
            reason = (
                f"{words}pairs are {_ROTATIONS[layout][2]}, but the model's pairs are {_ROTATIONS[own][2]}{call_clause}"
            )
            if finding.verdict == "right":
                return replace(finding, verdict="wrong", fault="layout", says=reason)
            return replace(finding, says=f"{reason}; and {finding.says}")
    mixed = _mixed(rotation, after[0], expected)
    if mixed:
        return Finding(name, kind, "wrong", "layout", f"{words}{mixed}{call_clause}")
    return Finding(name, kind, "wrong", "values", f"{words}the result is not a rotation of pairs{call_clause}")


def _of_rotation(
    name: str, tables: tuple[Array, Array], rotation: Rotation, expected: Rotary, call_clause: str
) -> Finding:
    """Return the finding for the cosines and sines of a rotation. The code may round these to 16 bits."""
    encoding = expected._angles_of("cos", "sin")
    own = narrowest(rotation.after[0])
    for form in (own,) if own in HALVES else (own, *reversed(HALVES)):
        sample = Sample(np.concatenate(tables, axis=1), rotation.positions, FLOAT32, 4 * form.rounding)
        outcome = judge_rows(sample, encoding) if is_right(sample, encoding) else None
        if outcome is not None:
            return _finding(name, COMPUTED_ROTATION, outcome, described(expected), call_clause)
    slack = 4 * own.rounding
    return replace(
        judge_code_tables(name, tables, rotation.positions, expected, call_clause, slack), is_=COMPUTED_ROTATION
    )


def _in_pairs(z: Any, layout: str) -> Floats:
    """Return complex numbers (n, pairs) as real columns (n, 2 * pairs) in a layout."""
    result = np.empty((len(z), 2 * z.shape[1]))
    first, second = columns_of(layout, 2 * z.shape[1])
    result[:, first], result[:, second] = z.real, z.imag
    return result


def _rotated_by(before: Any, after: Any, layout: str, dim: int) -> tuple[Floats, Floats] | None:
    """Return (cosines, sines) by which both sets of vectors were rotated in this layout.

    Return None if the cosines and sines of the two sets differ, or if values after the first ``dim`` have changed.
    """
    first, last, _ = _ROTATIONS[layout]
    z = []
    for x, y in zip(before, after, strict=True):
        if np.abs(y[:, dim:] - x[:, dim:]).max(initial=0.0) > 1e-2:
            return None
        z.append(complex_pairs(y, last, dim) / complex_pairs(x, first, dim))
    if np.abs(z[0] - z[1]).max() > 2e-2 * max(1.0, float(np.abs(z[0]).max())):
        return None
    mean = (z[0] + z[1]) / 2
    return np.ascontiguousarray(mean.real), np.ascontiguousarray(mean.imag)


def _mixed(rotation: Rotation, after: Floats, expected: Rotary) -> str:
    """Return a description if a rotation mixes two layouts or has a wrong sign, else an empty string."""
    dim = expected.rotary_dim
    near = np.abs(rotation.positions).max(axis=1) <= 4096
    near_positions = rotation.positions[near] if expected.ndim > 1 else rotation.positions[near, 0]
    cos, sin = (np.asarray(table, np.float64) for table in expected.tables(near_positions, dtype=np.float64))
    x, y = rotation.before[0][near, :dim], after[near, :dim]
    for copies in ("half", "interleaved"):
        both_cos, both_sin = (_in_pairs(table + 1j * table, copies) for table in (cos, sin))
        for partner in ("half", "interleaved"):
            z = complex_pairs(x, partner, dim)
            # a right rotation multiplies sines by (-second, first)
            for sign, other in ((-1, 1), (1, -1), (1, 1), (-1, -1)):
                partners = _in_pairs(sign * z.imag + 1j * other * z.real, partner)
                if np.abs(x * both_cos + partners * both_sin - y).max(initial=0.0) < 2e-2:
                    reason = []
                    if copies != partner:
                        reason.append(
                            f"each cosine multiplies two values {_ROTATIONS[copies][2]}, but each pair is {_ROTATIONS[partner][2]}"
                        )
                    if (sign, other) != (-1, 1):
                        reason.append("a pair (a, b) becomes (a cos + b sin, ..) instead of (a cos - b sin, ..)")
                    return " and ".join(reason)
    return ""


def _unexpected_rotation(name: str, rotation: Rotation, call_clause: str) -> Finding:
    positions = rotation.positions[:, 0] if rotation.positions.shape[1] == 1 else rotation.positions
    kind = np.float64 if narrowest(rotation.after[0]) is FLOAT64 else np.float32
    few = slice(64)
    x, rotated = rotation.before[0][few].astype(kind), rotation.after[0][few].astype(kind)
    try:
        answer = identify_rotary(x=x, turned=rotated, positions=positions[few])
    except ValueError as error:
        return Finding(name, COMPUTED_ROTATION, "unknown", None, f"{error}{call_clause}")
    if answer.rotary is None or answer.direction < 0:
        reason = f"no known rotation{call_clause}; pass expected, a Rotary or the name of a preset"
        return Finding(name, COMPUTED_ROTATION, "unknown", None, reason)
    names = f" ({', '.join(answer.presets[:3])})" if answer.presets else ""
    judged = judge_rotation(name, rotation, answer.rotary, call_clause)
    return replace(judged, says=f"{judged.says}{names}, as identified")
