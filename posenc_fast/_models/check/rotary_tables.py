"""Judge tables of cosines and sines: their frequencies, positions, order of columns, and factor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..._core.encoding.value import Encoding
from ..._core.numbers.arrays import Array, Floats
from ..._core.numbers.formats import Format
from ..._core.rotary.value import Rotary
from ...typing import Function, RotaryLayout
from ..identify.bases import ROTARY_BASES
from ..identify.rotary import identify_rotary
from ..identify.rotations import Sample, columns_of, frequencies_in
from .frequencies import Variant, base_variants, described, presets_clause, scaling_variants
from .report import Fault, Finding, unknown_tensor
from .values import TYPE_SAMPLE, array_of, dtype_for, narrowest, widened
from .waves import Judgement, agrees, judge_waves

# kind (`Finding.is_`) of findings for tables of cosines and sines
_KIND = "rotary tables"
# Frequencies are identified in samples of _SAMPLED_ROWS rows. Bases and scalings that the config does not contain are
# compared with the first _SAMPLED_ROWS rows, and with as many rows spread over the table.
_SAMPLED_ROWS = 256


class Tables(NamedTuple):
    """Tables of cosines and sines, of shape (rows, columns), for one of the orders that the columns may have.

    sin: None if the tables are only cosines. layout: order of the columns in the user's arrays if they have two columns
    per pair, else None. copies: number of columns per pair in ``cos`` and ``sin``. It is 1 if the user's arrays have
    one column per pair, or two equal columns, of which one is kept. It is 2 if the two columns differ in some pairs,
    but at most a quarter of them. Then both columns are kept, half of the width apart.
    """

    cos: Array
    sin: Array | None
    layout: RotaryLayout | None
    copies: int = 1

    @property
    def pairs(self) -> int:
        return int(self.cos.shape[1]) // self.copies

    def rows(self, part: slice) -> Tables:
        return self._replace(cos=self.cos[part], sin=None if self.sin is None else self.sin[part])

    def together(self, swapped: bool = False) -> Array:
        """Return one table: all columns of cosines, then all columns of sines. If ``swapped``, the sines come first."""
        if self.sin is None:
            return self.cos
        return np.concatenate([self.sin, self.cos] if swapped else [self.cos, self.sin], axis=1)

    def encoding(self, rotary: Rotary) -> Encoding:
        """Return the Encoding of the cosines and sines of this Rotary, with its columns in the order of `together`."""
        cosines: list[Function] = ["cos"] * self.copies
        sines: list[Function] = [] if self.sin is None else ["sin"] * self.copies
        return rotary._angles_of(*cosines, *sines)


def judge_rotary_tables(
    name: str, cos: Any, sin: Any = None, positions: Any = None, rotaries: Sequence[Rotary] = ()
) -> Finding:
    """Return the finding for tables such as ``cos_cached`` and ``sin_cached``.

    Parameters
    ----------
    name : str
        Name of the tables.
    cos, sin : array or tensor of shape (rows, columns), possibly with more axes of length 1 before the columns
        One or two columns per pair. The two columns of a pair are adjacent or half of the width apart. Without sin,
        cos may be complex, have a last axis of cosine and sine, contain matrices (rows, pairs, 2, 2), have cosines and
        then sines in each row (vLLM's cos_sin_cache), or contain only cosines.
    positions : array_like of shape (rows,) or (rows, axes), optional
        Positions of the rows (default: 0, 1, ..).
    rotaries : sequence of Rotary
        Encodings of the model's layers; the tables must match one of these. An encoding is left out if its number of
        rotating pairs differs from that of the tables. Empty without a config.
    """
    tables = [array_of(table, name) for table in (cos, sin) if table is not None]
    finding = _judge_arrays(name, tables, positions, rotaries)
    if finding.verdict != "right":
        wider = [table for table in map(widened, tables) if table is not None]
        if len(wider) == len(tables):
            finding_if_wider = _judge_arrays(name, wider, positions, rotaries)
            if finding_if_wider.verdict == "right":
                return finding_if_wider.twice_rounded()
    return finding


def _judge_arrays(name: str, arrays: list[Array], positions: Any, rotaries: Sequence[Rotary]) -> Finding:
    cos, sin = arrays[0], arrays[1] if len(arrays) > 1 else None
    # the tables in each order of columns that the arrays may have
    candidates = list(possible_tables(cos, sin))
    if not candidates:
        return unknown_tensor(name, f"shape {cos.shape} is not (rows, columns), or sines have another shape or type")
    rows = len(candidates[0].cos)
    row_positions = np.arange(rows) if positions is None else np.asarray(positions)
    if len(row_positions) != rows:
        raise ValueError(f"positions has shape {row_positions.shape}, but {name} has {rows} rows")
    row_positions = row_positions.astype(np.float64).reshape(rows, -1)
    # `together` copies rows, so use only some rows
    step = max(1, rows * candidates[0].cos.shape[1] // TYPE_SAMPLE)
    form = narrowest(candidates[0].rows(slice(None, None, step)).together())
    if not rotaries:
        return _without_config(name, candidates, row_positions, form)
    with_config = _with_config(name, candidates, row_positions, form, rotaries)
    if with_config is None or with_config.verdict == "unknown":
        with_config = _judge_separately(name, candidates, row_positions, form, rotaries) or with_config
    if with_config is not None:
        return with_config
    finding = _without_config(name, candidates, row_positions, form)
    if finding.verdict != "right" or _match_equal_axes(candidates, row_positions, form, rotaries):
        return finding
    counts = sorted({rotary.rotary_dim // 2 for rotary in rotaries})
    reason = f"{finding.says}; the config's rotary encodings have {' or '.join(map(str, counts))} pairs"
    return replace(finding, verdict="unknown", says=reason)


def possible_tables(cos: Array, sin: Array | None) -> Iterator[Tables]:
    """Yield `Tables` for each order of columns that arrays of cosines and sines may have."""
    if sin is None and cos.dtype.kind != "c":
        if cos.ndim > 2 and cos.shape[-2:] == (2, 2):
            cos, sin = cos[..., 0, 0], cos[..., 1, 0]
        elif cos.ndim > 2 and cos.shape[-1] == 2:
            cos, sin = cos[..., 0], cos[..., 1]
    if cos.dtype.kind == "c":
        cos, sin = cos.real, cos.imag
    if sin is not None and (sin.shape != cos.shape or sin.dtype != cos.dtype):
        return
    shape = [n for n in cos.shape[:-1] if n != 1] + list(cos.shape[-1:])
    if len(shape) != 2 or min(shape) < 1:
        return
    cos, sin = cos.reshape(shape), None if sin is None else sin.reshape(shape)
    pairs = shape[1] // 2
    if shape[1] % 2 == 0:
        layouts: tuple[RotaryLayout, ...] = ("half", "interleaved")
        for layout in layouts:
            first, second = columns_of(layout, shape[1])
            tables = [cos] if sin is None else [cos, sin]
            # whether the two columns of a pair are equal, for each pair
            equal = np.all([(table[:, first] == table[:, second]).all(axis=0) for table in tables], axis=0)
            if equal.all():
                yield Tables(cos[:, first], None if sin is None else sin[:, first], layout)
            elif 4 * int(equal.sum()) >= 3 * pairs:
                in_halves = [np.concatenate([table[:, first], table[:, second]], axis=1) for table in tables]
                yield Tables(in_halves[0], None if sin is None else in_halves[1], layout, 2)
        if sin is None:
            yield Tables(cos[:, :pairs], cos[:, pairs:], None)
    yield Tables(cos, sin, None)


# ---- with a config --------------------------------------------------------------------------------------------------


def _with_config(
    name: str, candidates: list[Tables], positions: Floats, form: Format, rotaries: Sequence[Rotary]
) -> Finding | None:
    """Return the finding for tables that are compared with encodings of a config.

    candidates: the tables in each order of columns that they may have.
    Return None if no encoding can be compared, for example because none rotates as many pairs as the tables.
    """
    cases = []
    for candidate in candidates:
        for rotary in rotaries:
            tables = _first_pairs(candidate, rotary.rotary_dim // 2)
            # leave out xPos, because it multiplies sinusoids by factors that depend on the position
            if tables is not None and rotary.ndim == positions.shape[1] and not rotary._settings.amplitudes_vary:
                cases.append((tables, rotary))
    if not cases:
        return None
    tables, rotary = cases[0]
    parts = (tables.rows(slice(i, i + _SAMPLED_ROWS)) for i in range(0, len(positions), _SAMPLED_ROWS))
    finite = np.concatenate([np.isfinite(part.together().astype(np.float64)).all(axis=1) for part in parts])
    if not finite.all():
        reason = f"compared with {described(rotary)}: {int((~finite).sum())} rows have values that are not finite"
        position = float(positions[~finite].flat[0])
        return Finding(name, _KIND, "wrong", "values", reason, np.inf, first_position=position)
    judged: list[tuple[Tables, Rotary, Judgement]] = []
    for tables, rotary in cases:
        judgement = judge_waves(tables.together(), tables.encoding(rotary), positions, form)
        if judgement.complete and judgement.fault is None:
            return _judge_layout(name, tables, rotary, judgement)
        judged.append((tables, rotary, judgement))
    # maps each fault to the first finding with this fault
    findings: dict[Fault, Finding] = {}
    for _, rotary, judgement in judged:
        if judgement.fault is not None:
            reason = f"compared with {described(rotary)}: {judgement.reason}"
            findings.setdefault(judgement.fault, _rotary_finding(name, "wrong", judgement.fault, reason, judgement))
    if "rounded" in findings:
        return findings["rounded"]
    for tables, rotary, judgement in judged:
        variant = _explaining_variant(tables, rotary, positions, form)
        if variant is not None:
            return _rotary_finding(name, "wrong", variant.fault, variant.reason, judgement)
    # The fault "values" means that few values are wrong. It comes last, because a wrong scaling may change few, too.
    if "values" in findings:
        return findings["values"]
    tables, rotary, judgement = min(judged, key=lambda case: case[2].largest_error)
    if not _are_cosines_and_sines(tables, form):
        return unknown_tensor(name, "not cosines and sines; probably other weights")
    if not judgement.gross:
        reason = f"close to {described(rotary)}, but with larger errors than those of float32 arithmetic"
        return _rotary_finding(name, "unknown", None, reason, judgement)
    reason = f"different from {described(rotary)}, and no known fault explains the difference"
    return _rotary_finding(name, "wrong", "frequencies", reason, judgement)


def _match_equal_axes(candidates: list[Tables], positions: Floats, form: Format, rotaries: Sequence[Rotary]) -> bool:
    """Return whether tables agree with an encoding of several axes if all axes have the same position, as in text."""
    for rotary in rotaries:
        if rotary.ndim > 1 and positions.shape[1] == 1 and rotary.frequencies.ndim == 1:
            factor = rotary.attention_factor
            one_axis = Rotary(rotary.rotary_dim, frequencies=rotary.frequencies, attention_factor=factor)
            for candidate in candidates:
                tables = _first_pairs(candidate, rotary.rotary_dim // 2)
                if tables and agrees(tables.together(), tables.encoding(one_axis), positions, form):
                    return True
    return False


def _first_pairs(tables: Tables, pairs: int) -> Tables | None:
    """Return the tables with only their first ``pairs`` pairs, or None if there are fewer pairs or later pairs rotate.

    A pair does not rotate if all its cosines are 1 and all its sines are 0.
    """
    if tables.pairs == pairs:
        return tables
    if tables.pairs < pairs or tables.sin is None or tables.copies > 1:
        return None
    if (tables.cos[:, pairs:] != 1).any() or (tables.sin[:, pairs:] != 0).any():
        return None
    return tables._replace(cos=tables.cos[:, :pairs], sin=tables.sin[:, :pairs])


def _rotary_finding(name: str, verdict: Any, fault: Fault | None, reason: str, judgement: Judgement) -> Finding:
    first = judgement.first_position if verdict == "wrong" else None
    return Finding(name, _KIND, verdict, fault, reason, judgement.largest_error, judgement.radians, first)


def _judge_layout(name: str, tables: Tables, rotary: Rotary, judgement: Judgement) -> Finding:
    """Return the finding for tables with right values.

    The layout is wrong if the two columns of a pair are adjacent, but the model's pairs are half of the width apart.
    """
    words = f"same as {described(rotary)}"
    if tables.layout == "interleaved" and rotary.layout == "half" and tables.pairs > 1:
        reason = f"{words}, with the two columns of a pair side by side, but they must be half of the width apart"
        return _rotary_finding(name, "wrong", "layout", reason, judgement)
    return _rotary_finding(name, "right", None, words, judgement)


def _explaining_variant(tables: Tables, rotary: Rotary, positions: Floats, form: Format) -> Variant | None:
    """Return the wrong base, scaling, attention factor or order that explains the tables, or None."""
    if tables.sin is not None and agrees(tables.together(swapped=True), tables.encoding(rotary), positions, form):
        return Variant("layout", f"cosines and sines of {described(rotary)} are swapped", rotary.frequencies)
    exact, factor = rotary.frequencies, rotary.attention_factor
    if tables.sin is None or tables.copies > 1 or exact.ndim > 1 or positions.shape[1] > 1:
        return None
    rows = _sampled_rows(len(positions))
    table, positions = tables.together()[rows], positions[rows]
    if agrees(table, tables.encoding(rotary), positions, form):
        # these rows are right, so no fault of frequencies explains the tables
        return None
    # cosine + i sine, of shape (rows, 1, pairs); absolute values are the attention factor of the tables
    z = (tables.cos[rows].astype(np.float64) + 1j * tables.sin[rows].astype(np.float64))[:, np.newaxis]
    sizes = np.abs(z)
    size = float(sizes.mean())
    if not np.isfinite(sizes).all() or size == 0:
        return None
    variants = [Variant("layout", "pairs rotate backwards", -exact, factor)]
    if factor != 1:
        variants.append(Variant("scaling", f"without the attention factor {factor:g}", exact, 1.0))
        variants.append(Variant("scaling", f"the attention factor {factor:g} applied twice", exact, factor**2))
    variants.append(Variant("scaling", f"attention factor {size:.4g}, but the config has {factor:g}", exact, size))
    measured = frequencies_in(Sample(None, z, positions, form.kind, None, None))
    if measured is not None:
        numbers = measured.frequencies[:, 0]
        variants += [*scaling_variants(rotary, exact, numbers), *base_variants(rotary, exact, numbers)]
    for variant in variants:
        factors = (variant.factor,) if variant.frequencies is exact else (variant.factor, factor, size)
        for amplitude in dict.fromkeys(factors):
            other = Rotary(2 * len(exact), frequencies=variant.frequencies, attention_factor=amplitude)
            if agrees(table, tables.encoding(other), positions, form):
                return variant
    return None


class _Order(NamedTuple):
    """An order of columns. words: description. first: first columns of all pairs. second: second columns, if any."""

    words: str
    first: slice
    second: slice


def _judge_separately(
    name: str, candidates: list[Tables], positions: Floats, form: Format, rotaries: Sequence[Rotary]
) -> Finding | None:
    """Compare cosines and sines with a config separately, and return the finding if an order or a factor is wrong.

    Return None if cosines or sines match the config in no order. Return None also if both match in the same order, but
    not mirrored, and with the same factor.
    """
    for rotary in rotaries:
        pairs, factor = rotary.rotary_dim // 2, rotary.attention_factor
        layouts = (
            _Order("half of the width apart", *columns_of("half", 2 * pairs)),
            _Order("side by side", *columns_of("interleaved", 2 * pairs)),
            _Order("mirrored (the second half is in reverse order)", slice(0, pairs), slice(None, pairs - 1, -1)),
        )
        for tables in candidates:
            if tables.sin is None or tables.layout is not None or rotary.ndim > 1 or positions.shape[1] > 1:
                continue
            copies = tables.cos.shape[1] // pairs
            if tables.cos.shape[1] != copies * pairs or copies not in (1, 2):
                continue
            orders = (_Order("", slice(None), slice(0)),) if copies == 1 else layouts
            of_cos = _order_and_factor(tables.cos, "cos", orders, copies, rotary, positions, form)
            of_sin = _order_and_factor(tables.sin, "sin", orders, copies, rotary, positions, form)
            if of_cos is None or of_sin is None:
                continue
            (cos_order, cos_factor), (sin_order, sin_factor) = of_cos, of_sin
            words = f"compared with {described(rotary)}"
            if cos_order is not sin_order:
                in_cos, in_sin = f"{cos_order.words} in cosines", f"{sin_order.words} in sines"
                reason = f"{words}: the two columns of a pair are {in_cos}, but {in_sin}"
                return Finding(name, _KIND, "wrong", "layout", reason)
            if cos_factor != sin_factor:
                factors = f"attention factor {cos_factor:.4g} in cosines, {sin_factor:.4g} in sines"
                reason = f"{words}: {factors}; the config has {factor:g}"
                return Finding(name, _KIND, "wrong", "scaling", reason)
            if cos_order is layouts[2]:
                reason = f"{words}: the two columns of a pair are {cos_order.words}"
                return Finding(name, _KIND, "wrong", "layout", reason)
    return None


def _order_and_factor(
    table: Array, function: Any, orders: Sequence[_Order], copies: int, rotary: Rotary, positions: Floats, form: Format
) -> tuple[_Order, float] | None:
    """Return (order of columns, factor) with which a table of cosines or of sines matches a Rotary, or None.

    function: "cos" or "sin". orders: orders to try. copies: number of columns per pair.
    """
    config_factor, rows = rotary.attention_factor, _sampled_rows(len(positions))
    exact = np.tile(rotary._angles_of(function).encode(positions[rows, 0], dtype=np.float64), copies)
    square = max(float((exact * exact).sum()), 1e-300)
    for order in orders:
        sample = np.concatenate([table[rows, order.first], table[rows, order.second]], axis=1)
        # measure the factor of all values by least squares
        measured = config_factor * float((sample.astype(np.float64) * exact).sum() / square)
        for factor in dict.fromkeys((config_factor, 1.0, config_factor**2, measured)):
            if np.isfinite(factor) and factor > 0:
                other = Rotary(rotary.rotary_dim, frequencies=rotary.frequencies, attention_factor=factor)
                encoding = other._angles_of(*[function] * copies)
                if agrees(sample, encoding, positions[rows], form):
                    ordered = np.concatenate([table[:, order.first], table[:, order.second]], axis=1)
                    return (order, factor) if agrees(ordered, encoding, positions, form) else None
    return None


def _sampled_rows(rows: int) -> Any:
    """Return the indices of the first rows, and of rows that are spread evenly over the table."""
    spread = np.linspace(0, rows - 1, min(rows, _SAMPLED_ROWS)).round().astype(np.intp)
    return np.unique(np.r_[np.arange(min(rows, _SAMPLED_ROWS)), spread])


def _are_cosines_and_sines(tables: Tables, form: Format) -> bool:
    """Return whether most values in the first rows are cosines and sines of the same angles, times one factor."""
    if tables.sin is None:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        # cos^2 + sin^2 is the square of the factor
        squares = tables.cos[:4096].astype(np.float64) ** 2 + tables.sin[:4096].astype(np.float64) ** 2
        finite = squares[np.isfinite(squares)]
        square = np.median(finite) if finite.size else 0.0
        agreeing = np.abs(squares - square) <= square * (8 * form.rounding + 1e-4)
    return bool(square > 0 and agreeing.mean() > 0.9)


# ---- without a config -----------------------------------------------------------------------------------------------


def _without_config(name: str, candidates: list[Tables], positions: Floats, form: Format) -> Finding:
    """Return the finding for tables that cannot be compared with a config. Identify their encoding first."""
    in_pairs = [tables for tables in candidates if tables.pairs > 1 and tables.copies == 1]
    tables = next((tables for tables in in_pairs if _are_cosines_and_sines(tables, form)), None)
    if tables is None or tables.sin is None or len(positions) < 8:
        return unknown_tensor(name, "not cosines and sines of pairs that rotate, or too few rows or pairs")
    dtype, judged = dtype_for(form), []
    for begin in sorted({0, len(positions) // 2, max(0, len(positions) - _SAMPLED_ROWS)}):
        part = slice(begin, begin + _SAMPLED_ROWS)
        cos, sin = tables.cos[part].astype(dtype), tables.sin[part].astype(dtype)
        if not (np.isfinite(cos).all() and np.isfinite(sin).all()) or len(cos) < 8:
            continue
        positions_of_part = positions[part] if positions.shape[1] > 1 else positions[part, 0]
        answer = identify_rotary(cos=cos, sin=sin, positions=positions_of_part)
        if answer.rotary is None or not (answer.presets or answer.base is not None):
            continue
        judgement = judge_waves(tables.together(), tables.encoding(answer.rotary), positions, form)
        words = described(answer.rotary) + presets_clause(answer)
        if judgement.complete and judgement.fault is None:
            return _rotary_finding(name, "right", None, f"same as {words}", judgement)
        judged.append((words, judgement))
    for words, judgement in judged:
        if judgement.fault is not None:
            reason = f"compared with {words}: {judgement.reason}"
            return _rotary_finding(name, "wrong", judgement.fault, reason, judgement)
    # if rounding changed all rows, no base can be identified, so try the three most common bases
    for base in ROTARY_BASES[:3] if positions.shape[1] == 1 else ():
        rotary = Rotary(2 * tables.pairs, base=base)
        judgement = judge_waves(tables.together(), tables.encoding(rotary), positions, form)
        if judgement.fault == "rounded":
            reason = f"compared with {described(rotary)}: {judgement.reason}"
            return _rotary_finding(name, "wrong", "rounded", reason, judgement)
    return Finding(name, _KIND, "unknown", None, "cosines and sines of unknown frequencies")
