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
from .frequencies import Variant, base_variants, described, scaling_variants
from .report import Fault, Finding
from .values import TYPE_SAMPLE, array_of, dtype_for, narrowest, widened
from .waves import Judgement, agrees, judge_waves

_KIND = "rotary tables"
# number of rows in which frequencies are measured, and with which bases and scalings are compared
_ROWS = 256


class Tables(NamedTuple):
    """Tables of cosines and sines, of shape (rows, columns), in one order of columns.

    sin: None if the tables are only cosines. layout: layout of tables that had two columns per pair, else None.
    copies: number of columns per pair. It is 1 if a table has one column per pair, or two equal ones, of which one is
    kept. It is 2 if the two columns of some pairs differ. These columns are half of the width apart.
    """

    cos: Array
    sin: Array | None
    layout: RotaryLayout | None
    copies: int = 1

    @property
    def pairs(self) -> int:
        return int(self.cos.shape[1]) // self.copies

    def rows(self, some: slice) -> Tables:
        return self._replace(cos=self.cos[some], sin=None if self.sin is None else self.sin[some])

    def together(self, swapped: bool = False) -> Array:
        if self.sin is None:
            return self.cos
        return np.concatenate([self.sin, self.cos] if swapped else [self.cos, self.sin], axis=1)

    def encoding(self, rotary: Rotary) -> Encoding:
        """Return the Encoding of a Rotary whose columns have the order of the columns of `together`."""
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
    cos, sin : array or tensor of shape (rows, columns), with axes of length 1 anywhere
        One or two columns per pair. The two columns of a pair are adjacent or half of the width apart. Without sin,
        cos may be complex, have a last axis of cosine and sine, contain matrices (rows, pairs, 2, 2), have cosines and
        then sines in each row (vLLM's cos_sin_cache), or contain only cosines.
    positions : array_like of shape (rows,) or (rows, axes), optional
        Positions of the rows (default: 0, 1, ..).
    rotaries : sequence of Rotary
        Encodings of the model's layers; the tables must match one. Encodings with another number of pairs are left out.
        Empty without a config.
    """
    tables = [array_of(table, name) for table in (cos, sin) if table is not None]
    finding = _judged(name, tables, positions, rotaries)
    if finding.verdict != "right":
        wider = [table for table in map(widened, tables) if table is not None]
        if len(wider) == len(tables) and (other := _judged(name, wider, positions, rotaries)).verdict == "right":
            return other.twice_rounded()
    return finding


def _judged(name: str, arrays: list[Array], positions: Any, rotaries: Sequence[Rotary]) -> Finding:
    cos, sin = arrays[0], arrays[1] if len(arrays) > 1 else None
    orders = list(orders_of(cos, sin))
    if not orders:
        return Finding(name, "a tensor", "unknown", None, f"cosines and sines cannot have shape {cos.shape}")
    rows = len(orders[0].cos)
    places = np.arange(rows) if positions is None else np.asarray(positions)
    if len(places) != rows:
        raise ValueError(f"positions has shape {places.shape}, but {name} has {rows} rows")
    places = places.astype(np.float64).reshape(rows, -1)
    # `together` copies rows, so use only some rows
    step = max(1, rows * orders[0].cos.shape[1] // TYPE_SAMPLE)
    form = narrowest(orders[0].rows(slice(None, None, step)).together())
    if not rotaries:
        return _without_config(name, orders, places, form)
    judged = _with_config(name, orders, places, form, rotaries)
    if judged is None or judged.verdict == "unknown":
        judged = _apart(name, orders, places, form, rotaries) or judged
    if judged is not None:
        return judged
    finding = _without_config(name, orders, places, form)
    if finding.verdict != "right" or _of_equal_axes(orders, places, form, rotaries):
        return finding
    counts = sorted({rotary.rotary_dim // 2 for rotary in rotaries})
    reason = f"{finding.says}; the config's rotary encodings have {' or '.join(map(str, counts))} pairs"
    return replace(finding, verdict="unknown", says=reason)


def orders_of(cos: Array, sin: Array | None) -> Iterator[Tables]:
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
            one, other = columns_of(layout, shape[1])
            there = [table for table in (cos, sin) if table is not None]
            alike = np.all([(table[:, one] == table[:, other]).all(axis=0) for table in there], axis=0)
            if alike.all():
                yield Tables(cos[:, one], None if sin is None else sin[:, one], layout)
            elif 4 * int(alike.sum()) >= 3 * pairs:
                both = [np.concatenate([table[:, one], table[:, other]], axis=1) for table in there]
                yield Tables(both[0], both[1] if sin is not None else None, layout, 2)
        if sin is None:
            yield Tables(cos[:, :pairs], cos[:, pairs:], None)
    yield Tables(cos, sin, None)


# ---- with a config --------------------------------------------------------------------------------------------------


def _with_config(
    name: str, orders: list[Tables], positions: Floats, form: Format, rotaries: Sequence[Rotary]
) -> Finding | None:
    """Return the finding for tables that are compared with encodings of a config.

    Return None if no encoding has the number of pairs of the tables.
    """
    cases = []
    for tables in orders:
        for rotary in rotaries:
            usable = _of_width(tables, rotary.rotary_dim // 2)
            if usable is not None and rotary.ndim == positions.shape[1] and not rotary._settings.amplitudes_vary:
                cases.append((usable, rotary))
    if not cases:
        return None
    first, rotary = cases[0]
    blocks = (first.rows(slice(i, i + _ROWS)).together().astype(np.float64) for i in range(0, len(positions), _ROWS))
    lost = np.flatnonzero(np.concatenate([~np.isfinite(block).all(axis=1) for block in blocks]))
    if len(lost):
        reason = f"compared with {described(rotary)}: {len(lost)} rows have values that are not finite"
        position = float(positions[lost[0]].flat[0])
        return Finding(name, _KIND, "wrong", "values", reason, np.inf, first_position=position)
    judged: list[tuple[Tables, Rotary, Judgement]] = []
    for tables, rotary in cases:
        judgement = judge_waves(tables.together(), tables.encoding(rotary), positions, form)
        if judgement.complete and judgement.fault is None:
            return _in_layout(name, tables, rotary, judgement)
        judged.append((tables, rotary, judgement))
    # the fault "values" comes last, because a wrong scaling may also leave most values unchanged
    for fault in ("rounded", None, "values"):
        for tables, rotary, judgement in judged:
            if fault is None:
                variant = _variant(tables, rotary, positions, form)
                if variant is not None:
                    return _finding(name, "wrong", variant.fault, variant.reason, judgement)
            elif judgement.fault == fault:
                return _finding(
                    name, "wrong", judgement.fault, f"compared with {described(rotary)}: {judgement.reason}", judgement
                )
    tables, rotary, judgement = min(judged, key=lambda one: one[2].largest_error)
    if _turns(tables, form) and not judgement.gross:
        reason = f"close to {described(rotary)}, but with larger errors than those of float32 arithmetic"
        return _finding(name, "unknown", None, reason, judgement)
    if _turns(tables, form):
        reason = f"different from {described(rotary)}, and no known fault explains the difference"
        return _finding(name, "wrong", "frequencies", reason, judgement)
    return Finding(name, "a tensor", "unknown", None, "not cosines and sines; probably other weights")


def _of_equal_axes(orders: list[Tables], positions: Floats, form: Format, rotaries: Sequence[Rotary]) -> bool:
    """Return whether tables agree with an encoding of several axes if all axes have the same position, as in text."""
    for rotary in rotaries:
        if rotary.ndim > 1 and positions.shape[1] == 1 and rotary.frequencies.ndim == 1:
            one = Rotary(rotary.rotary_dim, frequencies=rotary.frequencies, attention_factor=rotary.attention_factor)
            usable = [_of_width(tables, rotary.rotary_dim // 2) for tables in orders]
            if any(each and agrees(each.together(), each.encoding(one), positions, form) for each in usable):
                return True
    return False


def _of_width(tables: Tables, pairs: int) -> Tables | None:
    """Return the tables with only their first ``pairs`` pairs, or None if a pair after these rotates."""
    if tables.pairs == pairs:
        return tables
    if tables.pairs < pairs or tables.sin is None or tables.copies > 1:
        return None
    rest = (tables.cos[:, pairs:] == 1).all() and (tables.sin[:, pairs:] == 0).all()
    return tables._replace(cos=tables.cos[:, :pairs], sin=tables.sin[:, :pairs]) if rest else None


def _finding(name: str, verdict: Any, fault: Fault | None, reason: str, judgement: Judgement) -> Finding:
    first = judgement.first_position if verdict == "wrong" else None
    return Finding(name, _KIND, verdict, fault, reason, judgement.largest_error, judgement.radians, first)


def _in_layout(name: str, tables: Tables, rotary: Rotary, judgement: Judgement) -> Finding:
    """Return the finding for tables with right values.

    The layout is wrong if the columns are interleaved, and the model rotates pairs that are half a head apart.
    """
    words = f"same as {described(rotary)}"
    if tables.layout == "interleaved" and rotary.layout == "half" and tables.pairs > 1:
        reason = f"{words}, with the two columns of a pair side by side, but the model's pairs are half a head apart"
        return _finding(name, "wrong", "layout", reason, judgement)
    return _finding(name, "right", None, words, judgement)


def _variant(tables: Tables, rotary: Rotary, positions: Floats, form: Format) -> Variant | None:
    """Return the wrong base, scaling, attention factor or order that explains the tables, or None."""
    if tables.sin is not None and agrees(tables.together(swapped=True), tables.encoding(rotary), positions, form):
        return Variant("layout", f"cosines and sines of {described(rotary)} are swapped", rotary.frequencies)
    some = _some(len(positions))
    exact, factor = rotary.frequencies, rotary.attention_factor
    if tables.sin is None or tables.copies > 1 or exact.ndim > 1 or positions.shape[1] > 1:
        return None
    table = tables.together()[some]
    if agrees(table, tables.encoding(rotary), positions[some], form):
        # these rows are right, so no fault of frequencies explains the tables
        return None
    z = (tables.cos[some].astype(np.float64) + 1j * tables.sin[some].astype(np.float64))[:, np.newaxis]
    sizes = np.abs(z)
    size = float(sizes.mean())
    if not np.isfinite(sizes).all() or size == 0:
        return None
    variants = [Variant("layout", "pairs rotate backwards", -exact, factor)]
    if factor != 1:
        variants.append(Variant("scaling", f"without the attention factor {factor:g}", exact, 1.0))
        variants.append(Variant("scaling", f"the attention factor {factor:g} applied twice", exact, factor**2))
    variants.append(Variant("scaling", f"attention factor {size:.4g}, but the config has {factor:g}", exact, size))
    measured = frequencies_in(Sample(None, z, positions[some], form.kind, None, None))
    if measured is not None:
        numbers = measured.frequencies[:, 0]
        variants += [*scaling_variants(rotary, exact, numbers), *base_variants(rotary, exact, numbers)]
    for variant in variants:
        factors = (variant.factor,) if variant.frequencies is exact else (variant.factor, factor, size)
        for amplitude in dict.fromkeys(factors):
            other = Rotary(2 * len(exact), frequencies=variant.frequencies, attention_factor=amplitude)
            if agrees(table, tables.encoding(other), positions[some], form):
                return variant
    return None


class _Order(NamedTuple):
    """An order of columns. first, second: the first columns and the second columns of all pairs. words: description."""

    words: str
    first: slice
    second: slice


def _apart(
    name: str, orders: list[Tables], positions: Floats, form: Format, rotaries: Sequence[Rotary]
) -> Finding | None:
    """Return the finding for cosines and sines that match a config separately, with different orders or factors.

    Return None if they do not match.
    """
    for rotary in rotaries:
        pairs, factor = rotary.rotary_dim // 2, rotary.attention_factor
        layouts = (
            _Order("in halves", *columns_of("half", 2 * pairs)),
            _Order("side by side", *columns_of("interleaved", 2 * pairs)),
            _Order("in halves, the second half in reverse order", slice(0, pairs), slice(None, pairs - 1, -1)),
        )
        for tables in orders:
            if tables.sin is None or tables.layout is not None or rotary.ndim > 1 or positions.shape[1] > 1:
                continue
            copies = tables.cos.shape[1] // pairs
            if tables.cos.shape[1] != copies * pairs or copies not in (1, 2):
                continue
            separate = (_Order("", slice(None), slice(0)),) if copies == 1 else layouts
            each = [
                _order_and_factor(table, function, separate, copies, rotary, positions, form)
                for table, function in ((tables.cos, "cos"), (tables.sin, "sin"))
            ]
            if each[0] is None or each[1] is None:
                continue
            (cosines, one), (sines, other) = each[0], each[1]
            words = f"compared with {described(rotary)}"
            if cosines is not sines:
                reason = f"{words}: the cosines of pairs are {cosines.words}, the sines {sines.words}"
                return Finding(name, _KIND, "wrong", "layout", reason)
            if one != other:
                reason = (
                    f"{words}: attention factor {one:.4g} in cosines, {other:.4g} in sines; the config has {factor:g}"
                )
                return Finding(name, _KIND, "wrong", "scaling", reason)
            if cosines is layouts[2]:
                return Finding(name, _KIND, "wrong", "layout", f"{words}: the columns of pairs are {cosines.words}")
    return None


def _order_and_factor(
    table: Array, function: Any, orders: Sequence[_Order], copies: int, rotary: Rotary, positions: Floats, form: Format
) -> tuple[_Order, float] | None:
    """Return (order of columns, factor) with which a table of cosines or of sines matches a config, or None."""
    factor, some = rotary.attention_factor, _some(len(positions))
    exact = rotary._angles_of(function).encode(positions[some, 0], dtype=np.float64)
    for order in orders:
        ordered = np.concatenate([table[some, order.first], table[some, order.second]], axis=1)
        # measure the factor of all values by least squares
        both = np.tile(exact, copies)
        measured = factor * float((ordered.astype(np.float64) * both).sum() / max(float((both * both).sum()), 1e-300))
        for one in dict.fromkeys((factor, 1.0, factor**2, measured)):
            if np.isfinite(one) and one > 0:
                other = Rotary(rotary.rotary_dim, frequencies=rotary.frequencies, attention_factor=one)
                encoding = other._angles_of(*[function] * copies)
                if agrees(ordered, encoding, positions[some], form):
                    every = np.concatenate([table[:, order.first], table[:, order.second]], axis=1)
                    return (order, one) if agrees(every, encoding, positions, form) else None
    return None


def _some(rows: int) -> Any:
    """Return the indices of the first rows and of some rows among all others."""
    spread = np.linspace(0, rows - 1, min(rows, _ROWS)).round().astype(np.intp)
    return np.unique(np.r_[np.arange(min(rows, _ROWS)), spread])


def _turns(tables: Tables, form: Format) -> bool:
    """Return whether these are cosines and sines of the same angles, with one common factor."""
    if tables.sin is None:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        squares = tables.cos[:4096].astype(np.float64) ** 2 + tables.sin[:4096].astype(np.float64) ** 2
        known = squares[np.isfinite(squares)]
        size = np.median(known) if known.size else 0.0
        near = np.abs(squares - size) <= size * (8 * form.rounding + 1e-4)
    return bool(size > 0 and near.mean() > 0.9)


# ---- without a config -----------------------------------------------------------------------------------------------


def _without_config(name: str, orders: list[Tables], positions: Floats, form: Format) -> Finding:
    """Return the finding for tables whose encoding is identified, because there is no config."""
    turning = [tables for tables in orders if _turns(tables, form) and tables.pairs > 1 and tables.copies == 1]
    if not turning or len(positions) < 8:
        return Finding(name, "a tensor", "unknown", None, "not cosines and sines of pairs that rotate")
    tables, dtype = turning[0], dtype_for(form)
    # `_turns` is False for tables without sines
    assert tables.sin is not None
    judged = []
    for begin in sorted({0, len(positions) // 2, max(0, len(positions) - _ROWS)}):
        part = slice(begin, begin + _ROWS)
        cos, sin = tables.cos[part].astype(dtype), tables.sin[part].astype(dtype)
        if not (np.isfinite(cos).all() and np.isfinite(sin).all()) or len(cos) < 8:
            continue
        own = positions[part] if positions.shape[1] > 1 else positions[part, 0]
        answer = identify_rotary(cos=cos, sin=sin, positions=own)
        if answer.rotary is None or not (answer.presets or answer.base is not None):
            continue
        judgement = judge_waves(tables.together(), tables.encoding(answer.rotary), positions, form)
        words = described(answer.rotary) + (f" ({', '.join(answer.presets[:3])})" if answer.presets else "")
        if judgement.complete and judgement.fault is None:
            return _finding(name, "right", None, f"same as {words}", judgement)
        judged.append((words, judgement))
    for words, judgement in judged:
        if judgement.fault is not None:
            return _finding(name, "wrong", judgement.fault, f"compared with {words}: {judgement.reason}", judgement)
    # if all rows are wrong, no base can be measured, so try the three most common bases
    for base in ROTARY_BASES[:3]:
        rotary = Rotary(2 * tables.pairs, base=base)
        if positions.shape[1] == 1:
            judgement = judge_waves(tables.together(), tables.encoding(rotary), positions, form)
            if judgement.fault == "rounded":
                return _finding(
                    name, "wrong", "rounded", f"compared with {described(rotary)}: {judgement.reason}", judgement
                )
    return Finding(name, _KIND, "unknown", None, "cosines and sines of unknown frequencies")
