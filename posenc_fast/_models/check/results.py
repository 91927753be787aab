"""Judge the values that code returns at chosen positions: rows, cosines and sines, and rotated vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
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
from .frequencies import described, presets_clause, without_scaling
from .report import CODE, Finding
from .rotary_tables import Tables, judge_rotary_tables, possible_tables
from .tables import are_about, name_of, tutorial_encodings
from .values import HALVES, array_of, dtype_for, narrowest

# the encoding that the user expects: an encoding, the name of a preset, or None to identify the encoding
Expected = Encoding | Rotary | str | None
# kinds (`Finding.is_`) of findings for code
COMPUTED_ROWS, COMPUTED_TABLES, COMPUTED_ROTATION = CODE
# number that stands for NaN and infinity while columns are compared
_STAND_IN = 2.0**14
# faults that do not change the rows near position 0, so that these rows determine the encoding
_FAULTS_FAR_FROM_0 = ("rounded", "length", "values", "padding")


class Unusable(Exception):
    """A call failed, or its result cannot be judged. The message is the reason."""


# ---- returned values ------------------------------------------------------------------------------------------------


def numbers_in(value: Any, name: str) -> Array:
    """Return the result of a call as an array of floats or of complex numbers, or raise `Unusable`.

    The result may be an array, a tensor, a list of arrays or tensors, or nested lists of numbers.
    """
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "dtype"):
        arrays = [numbers_in(item, name) for item in value]
        if len({array.shape for array in arrays}) > 1:
            raise Unusable(f"the call returned {shape_of(value)}, but the shapes must be equal")
        value = np.stack(arrays)
    if not hasattr(value, "dtype"):
        try:
            value = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            raise Unusable(f"the call returned {shape_of(value)} instead of an array of numbers") from None
    if getattr(value.dtype, "kind", "f") in "iub":
        value = np.asarray(value, np.float64)
    elif "int" in str(value.dtype) and not isinstance(value, np.ndarray):
        # dtypes of torch have no kind
        value = np.asarray(value.tolist(), np.float64)
    try:
        return array_of(value, name)
    except TypeError:
        raise Unusable(f"the call returned values of the unsupported type {value.dtype}") from None


def shape_of(value: Any) -> str:
    """Return a description of the value that a call returned, such as its shape."""
    if isinstance(value, (tuple, list)) and any(hasattr(item, "shape") for item in value):
        shapes = (str(tuple(getattr(item, "shape", ()))) for item in value[:3])
        return f"{len(value)} arrays of shapes {', '.join(shapes)}{', ..' if len(value) > 3 else ''}"
    if hasattr(value, "shape"):
        return f"an array of shape {tuple(value.shape)}"
    return "None" if value is None else f"a value of type {type(value).__name__}"


def rows_in(value: Any, count: int, name: str) -> Array | None:
    """Return the result of a call as rows (count, columns), without axes of length 1.

    Return None for other shapes and for complex numbers.
    """
    array = numbers_in(value, name)
    if array.ndim < 1 or array.dtype.kind == "c":
        return None
    sides = [n for n in array.shape[:-1] if n != 1] or [1]
    return array.reshape(count, array.shape[-1]) if sides == [count] and array.shape[-1] else None


def tables_in(value: Any, count: int, name: str) -> tuple[Array, Array | None] | None:
    """Return the result of a call as (cosines, sines) with ``count`` rows, or None for other shapes.

    A real array of shape (2, count, ..) is split into cosines and sines, unless ``count`` is 2. For any other single
    array, which may contain both, return (array, None).
    """
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(hasattr(item, "shape") for item in value):
        cos, sin = (numbers_in(item, name) for item in value)
    else:
        array = numbers_in(value, name)
        if array.ndim < 2:
            return None
        if array.dtype.kind != "c" and array.ndim > 2 and len(array) == 2 and count != 2:
            cos, sin = array[0], array[1]
        else:
            contains_both = any(len(tables.cos) == count for tables in possible_tables(array, None))
            return (array, None) if contains_both else None
    return (cos, sin) if any(len(tables.cos) == count for tables in possible_tables(cos, sin)) else None


def axes_of(expected: Expected) -> int:
    """Return the number of position axes of the expected encoding, or 1 if this is unknown."""
    if isinstance(expected, str):
        return int(facts(expected).axes) if facts(expected).axes.isdigit() else 1
    return 1 if expected is None else expected.ndim


def expected_of_width(expected: Expected, width: int, name: str) -> Encoding | Rotary | None:
    """Return ``expected`` or, if it is the name of a preset, the preset's encoding of this width.

    Raise ValueError if the preset has no encoding of this width. width: number of columns. For a rotary preset, it is
    the width of a head or the number of values that are rotated.
    """
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
        f"{name} has width {width}, but the preset {expected!r} has no encoding of this width if its other arguments "
        f"are the defaults; pass an Encoding or a Rotary in the argument expected, such as "
        f"posenc_fast.presets.{expected}(..)"
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
    return _outcome_finding(name, COMPUTED_ROWS, judge_rows(sample, expected), repr(expected), call_clause)


def _outcome_finding(name: str, kind: str, outcome: Outcome, words: str, call_clause: str) -> Finding:
    numbers = outcome.largest_error, outcome.radians
    if outcome.fault is None:
        return Finding(name, kind, "right", None, f"same as {words}{call_clause}", *numbers)
    reason = f"compared with {words}: {outcome.reason}{call_clause}"
    return Finding(name, kind, "wrong", outcome.fault, reason, *numbers, outcome.first_position)


class Identified(NamedTuple):
    """The identified encoding of rows at consecutive positions.

    start: position of the first row. words: description. factor: factor of all values, relative to the values of the
    preset or, without a preset, to sines and cosines.
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
    if answer.encoding is None or not (answer.presets or answer.base is not None):
        return None
    if answer.axes or answer.step != 1 or answer.zero_rows:
        return None
    factor = answer.scale
    if answer.presets:
        preset: Any = presets.get(answer.presets[0])
        amplitudes = preset(rows.shape[1]).amplitudes
        factor = float(np.abs(answer.encoding.amplitudes).max() / np.abs(amplitudes).max())
    return Identified(answer.encoding, answer.start, name_of(answer), factor)


def _unexpected_rows(name: str, sample: Sample, call_clause: str) -> Finding:
    """Return the finding for rows without an expected encoding. Identify the encoding first."""
    known = identified(sample)
    if known is not None:
        differences = [f"row 0 has the values of position {known.start:g}"] if known.start else []
        if abs(known.factor - 1) > 1e-6:
            differences.append(f"all values are multiplied by {known.factor:.6g}")
        if differences:
            reason = f"identified as {known.words}, but {' and '.join(differences)}{call_clause}"
            reason += "; pass expected to decide whether this is right"
            return Finding(name, COMPUTED_ROWS, "unknown", None, reason)
        outcome = judge_rows(sample, known.encoding)
        return _outcome_finding(name, COMPUTED_ROWS, outcome, f"{known.words}, identified from the rows", call_clause)
    for encoding in _likely_tutorials(sample):
        outcome = judge_rows(sample, encoding)
        if outcome.fault in _FAULTS_FAR_FROM_0:
            return _outcome_finding(
                name, COMPUTED_ROWS, outcome, f"{encoding!r}, identified from the rows", call_clause
            )
    reason = f"no known encoding{call_clause}; pass expected, an Encoding or the name of a preset"
    return Finding(name, COMPUTED_ROWS, "unknown", None, reason)


def _likely_tutorials(sample: Sample) -> Iterator[Encoding]:
    """Yield the encodings of tutorials whose values near position 0 are close to the sample."""
    d, near_0 = sample.values.shape[1], np.abs(sample.positions).max(axis=1) <= 32
    if d < 4 or sample.positions.shape[1] > 1 or not near_0.any():
        return
    for encoding in tutorial_encodings(d):
        if are_about(sample.values[near_0], encoding.encode(sample.positions[near_0, 0], dtype=np.float64)):
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

    If expected is None, the encoding is identified first. call_clause: clause about the call, for the finding. slack:
    tolerance in addition to that of float32 arithmetic and one rounding.
    """
    cos, sin = tables
    if expected is None:
        finding = judge_rotary_tables(name, cos, sin, positions)
        known = "; the encoding was identified from the tables" if finding.verdict != "unknown" else ""
        return replace(finding, is_=COMPUTED_TABLES, says=f"{finding.says}{known}{call_clause}")
    candidates = list(_possible_tables_with_nan(cos, sin))
    pairs = expected.rotary_dim // 2
    fitting = [one for one in candidates if one.pairs == pairs and one.sin is not None and one.copies == 1]
    if not fitting:
        widths = " or ".join(sorted({str(2 * one.pairs) for one in candidates}))
        reason = f"cosines and sines for {widths} rotated values, where {2 * pairs} are expected{call_clause}"
        return Finding(name, COMPUTED_TABLES, "wrong", "shape", reason)
    finding = judge_rotary_tables(name, cos, sin, positions, [expected])
    reason = finding.says.replace("the config's", "the expected").replace("the config has", "the expected Rotary has")
    finding = replace(finding, is_=COMPUTED_TABLES, says=f"{reason}{call_clause}")
    if finding.verdict == "right" or expected._settings.amplitudes_vary:
        return finding
    if finding.fault == "layout" and "side by side" in finding.says:
        return finding
    outcomes = [_compare_tables(candidate, positions, expected, slack) for candidate in fitting]
    best = next((outcome for outcome in outcomes if outcome.fault not in ("frequencies", "values")), outcomes[0])
    # `judge_rotary_tables` describes a wrong base, a wrong scaling or swapped columns in more detail
    vague = best.fault in ("frequencies", "values", "scaling", "base", "amplitude", finding.fault)
    if best.fault is not None and vague and finding.fault in ("base", "scaling", "rounded", "layout"):
        return finding
    return _outcome_finding(name, COMPUTED_TABLES, best, described(expected), call_clause)


def _possible_tables_with_nan(cos: Array, sin: Array | None) -> Iterator[Tables]:
    """Yield `Tables` for each order of columns that cosines and sines may have. Infinity becomes NaN.

    While columns are compared, a number stands for NaN, so that columns with NaN can be equal.
    """

    def without_nan(table: Array) -> Array:
        # every dtype can represent the number that stands for NaN, and no cosine is so large
        return np.where(np.isfinite(table), table, table.dtype.type(_STAND_IN))

    def with_nan(table: Array) -> Array:
        return np.where(table == table.dtype.type(_STAND_IN), table.dtype.type(np.nan), table)

    for tables in possible_tables(without_nan(cos), None if sin is None else without_nan(sin)):
        yield tables._replace(cos=with_nan(tables.cos), sin=None if tables.sin is None else with_nan(tables.sin))


def _compare_tables(tables: Tables, positions: Floats, rotary: Rotary, slack: float) -> Outcome:
    together = tables.together()
    sample = Sample(together.astype(np.float64), positions, narrowest(together), slack)
    exact, plain = rotary.frequencies, None
    one_axis = exact.ndim == 1 and rotary.ndim == 1
    if one_axis and rotary.base is not None and not np.array_equal(without_scaling(rotary, exact), exact):
        plain = tables.encoding(Rotary(rotary.rotary_dim, base=rotary.base))
    return judge_rows(sample, tables.encoding(rotary), base=rotary.base, plain=plain)


# ---- rotated vectors ------------------------------------------------------------------------------------------------


class Rotation(NamedTuple):
    """Two sets of vectors (n, head_dim) before and after a rotation by the user's code, and positions (n, axes).

    No value of a vector before the rotation is near zero, so that its pairs have an angle in any layout.
    """

    before: tuple[Floats, Floats]
    after: tuple[Array, Array]
    positions: Floats

    def take(self, rows: Any) -> Rotation:
        (x, other_x), (y, other_y) = self.before, self.after
        return Rotation((x[rows], other_x[rows]), (y[rows], other_y[rows]), self.positions[rows])


# maps each layout of a Rotary to (layout of pairs before the rotation, layout after the rotation, description)
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
    after = rotation.after[0].astype(np.float64), rotation.after[1].astype(np.float64)
    words, dim = f"compared with {described(expected)}: ", expected.rotary_dim
    finite = np.isfinite(after[0]).all(axis=1) & np.isfinite(after[1]).all(axis=1)
    if not finite.all():
        first = float(np.abs(rotation.positions[~finite]).min())
        values = f"values that are not finite, first at position {first:g}{call_clause}"
        of_finite = judge_rotation(name, rotation.take(finite), expected) if finite.any() else None
        if of_finite is None or of_finite.verdict != "wrong":
            return Finding(name, kind, "wrong", "values", f"{words}{values}", np.inf, first_position=first)
        return replace(of_finite, says=f"{of_finite.says}; and {values}")
    for width in dict.fromkeys((dim, rotation.before[0].shape[1])):
        for layout in dict.fromkeys((expected.layout, *_ROTATIONS)):
            tables = _cosines_and_sines(rotation.before, after, layout, width)
            if tables is None:
                continue
            if width != dim:
                reason = f"{words}{width} values of a head are rotated, where {dim} are expected{call_clause}"
                return Finding(name, kind, "wrong", "layout", reason)
            finding = _judge_angles(name, tables, rotation, expected, call_clause)
            if layout == expected.layout:
                return finding
            must_be = f"must be {_ROTATIONS[expected.layout][2]}"
            reason = f"{words}the two values of a pair are {_ROTATIONS[layout][2]}, but {must_be}{call_clause}"
            if finding.verdict == "right":
                return replace(finding, verdict="wrong", fault="layout", says=reason)
            return replace(finding, says=f"{reason}; and {finding.says}")
    mixed = _mixed_layouts(rotation, after[0], expected)
    if mixed:
        return Finding(name, kind, "wrong", "layout", f"{words}{mixed}{call_clause}")
    return Finding(name, kind, "wrong", "values", f"{words}the result is not a rotation of pairs{call_clause}")


def _judge_angles(
    name: str, tables: tuple[Array, Array], rotation: Rotation, expected: Rotary, call_clause: str
) -> Finding:
    """Return the finding for the cosines and sines of a rotation. Cosines and sines in 16 bits are accepted.

    tables: (cosines, sines), which are computed from the vectors before and after the rotation.
    """
    encoding = expected._angles_of("cos", "sin")
    result_form = narrowest(rotation.after[0])
    for form in (result_form,) if result_form in HALVES else (result_form, *reversed(HALVES)):
        sample = Sample(np.concatenate(tables, axis=1), rotation.positions, FLOAT32, 4 * form.rounding)
        if is_right(sample, encoding):
            outcome = judge_rows(sample, encoding)
            return _outcome_finding(name, COMPUTED_ROTATION, outcome, described(expected), call_clause)
    slack = 4 * result_form.rounding
    finding = judge_code_tables(name, tables, rotation.positions, expected, call_clause, slack)
    return replace(finding, is_=COMPUTED_ROTATION)


def _in_pairs(z: Any, layout: str) -> Floats:
    """Return complex numbers (n, pairs) as real columns (n, 2 * pairs) in a layout."""
    result = np.empty((len(z), 2 * z.shape[1]))
    first, second = columns_of(layout, 2 * z.shape[1])
    result[:, first], result[:, second] = z.real, z.imag
    return result


def _cosines_and_sines(before: Any, after: Any, layout: str, dim: int) -> tuple[Floats, Floats] | None:
    """Return (cosines, sines) by which both sets of vectors were rotated in this layout, or None.

    before, after: the vectors before and after the rotation, as two sets. dim: number of values that rotate.

    Return None if the cosines and sines of the two sets differ, or if values after the first ``dim`` have changed.
    """
    layout_before, layout_after, _ = _ROTATIONS[layout]
    # for each set: cosine + i sine, of shape (n, pairs)
    quotients = []
    for x, y in zip(before, after, strict=True):
        if np.abs(y[:, dim:] - x[:, dim:]).max(initial=0.0) > 1e-2:
            return None
        quotients.append(complex_pairs(y, layout_after, dim) / complex_pairs(x, layout_before, dim))
    first, second = quotients
    if np.abs(first - second).max() > 2e-2 * max(1.0, float(np.abs(first).max())):
        return None
    mean = (first + second) / 2
    return np.ascontiguousarray(mean.real), np.ascontiguousarray(mean.imag)


def _mixed_layouts(rotation: Rotation, after: Floats, expected: Rotary) -> str:
    """Return a description of the fault if a rotation mixes two layouts or has a wrong sign, else an empty string."""
    dim = expected.rotary_dim
    rows = np.abs(rotation.positions).max(axis=1) <= 4096
    positions = rotation.positions[rows] if expected.ndim > 1 else rotation.positions[rows, 0]
    cos, sin = (np.asarray(table, np.float64) for table in expected.tables(positions, dtype=np.float64))
    x, y = rotation.before[0][rows, :dim], after[rows, :dim]
    layouts = ("half", "interleaved")
    # A right rotation is x * cos + partners * sin, where the partners of a pair (a, b) are (-b, a).
    signs = ((-1, 1), (1, -1), (1, 1), (-1, -1))
    for table_layout, pair_layout, (sign_b, sign_a) in product(layouts, layouts, signs):
        cos_columns, sin_columns = (_in_pairs(table + 1j * table, table_layout) for table in (cos, sin))
        pairs = complex_pairs(x, pair_layout, dim)
        partners = _in_pairs(sign_b * pairs.imag + 1j * sign_a * pairs.real, pair_layout)
        if np.abs(x * cos_columns + partners * sin_columns - y).max(initial=0.0) < 2e-2:
            reasons = []
            if table_layout != pair_layout:
                table_words, pair_words = _ROTATIONS[table_layout][2], _ROTATIONS[pair_layout][2]
                reasons.append(
                    f"each cosine multiplies two values {table_words}, but the values of a pair are {pair_words}"
                )
            if (sign_b, sign_a) != (-1, 1):
                a, b = f"a cos {'+' if sign_b > 0 else '-'} b sin", f"b cos {'+' if sign_a > 0 else '-'} a sin"
                reasons.append(f"a pair (a, b) becomes ({a}, {b}) instead of (a cos - b sin, b cos + a sin)")
            return " and ".join(reasons)
    return ""


def _unexpected_rotation(name: str, rotation: Rotation, call_clause: str) -> Finding:
    """Return the finding for a rotation without an expected encoding. Identify the encoding first."""
    positions = rotation.positions[:, 0] if rotation.positions.shape[1] == 1 else rotation.positions
    dtype = np.float64 if narrowest(rotation.after[0]) is FLOAT64 else np.float32
    x, rotated = rotation.before[0][:64].astype(dtype), rotation.after[0][:64].astype(dtype)
    try:
        answer = identify_rotary(x=x, turned=rotated, positions=positions[:64])
    except ValueError as error:
        return Finding(name, COMPUTED_ROTATION, "unknown", None, f"{error}{call_clause}")
    if answer.rotary is None or answer.direction < 0:
        reason = f"an unknown or backwards rotation{call_clause}; pass expected, a Rotary or the name of a preset"
        return Finding(name, COMPUTED_ROTATION, "unknown", None, reason)
    judged = judge_rotation(name, rotation, answer.rotary, call_clause)
    return replace(judged, says=f"{judged.says}; the encoding{presets_clause(answer)} was identified from the vectors")
