"""The short way of few tokens: between two tokens of a model there are many calls, all for the same positions.

Rows of angles are kept, and the usual x goes to the engine as it lies. Each function gives the bits of the general way,
or None where something about the call is not the most usual; the general way then takes all its checks. Nothing has
been written when None is returned.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .._engine.backend import EngineOf
from .._engine.blocks import one_thread
from .._numbers.arrays import Array, empty
from .._numbers.formats import BFLOAT16, FLOAT16, format_of, kind_of
from .pairs import LAYOUTS
from .rows import Angles, angle_rows

__all__ = [
    "ANGLES",
    "Turning",
    "angles_type",
    "by_positions",
    "by_tables",
    "rows_kept",
    "side_by_side",
    "with_plain_nans",
]


# angles that are made at a time, so that they stay in the second-level cache
ANGLES = 1 << 15
# rows that are made when one is asked for
AHEAD = 32
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# as the engines count: angles of float64 and float32, which are turned in doubles, and of 16-bit types
_TYPES = (_FLOAT64, _FLOAT64, _FLOAT32, _FLOAT32)
_SIXTEEN_BITS = frozenset([FLOAT16.kind, BFLOAT16.kind])


class Turning(Angles, Protocol):
    """What is asked of a Rotary here. _last: the angle rows that are kept."""

    @property
    def _last(self) -> dict[Any, Any]: ...
    @property
    def _engine(self) -> EngineOf: ...


def angles_type(kind: int) -> np.dtype[Any]:
    """What the engines take cosines and sines in, for x of a kind."""
    return _TYPES[kind]


def by_positions(rotary: Turning, x: Any, start: Any, seq_axis: Any, out: Any, workers: Any) -> Array | None:
    """x turned for consecutive positions, into new memory, in place or into plain memory of the caller."""
    few = _usual(rotary, x, seq_axis, out, workers)
    if few is None or type(start) is not int or abs(start) >= 2**62:
        return None
    _, source, _, kind = few
    length = source.shape[2]
    if length * rotary._settings.rotary_dim > ANGLES:
        return None
    return _turned(rotary, few, rows_kept(rotary, length, start, False, False, angles_type(kind)))


def by_tables(rotary: Turning, x: Any, cos: Any, sin: Any, seq_axis: Any, out: Any, workers: Any) -> Array | None:
    """x turned by given cosines and sines, for all batches or for each."""
    if type(cos) is not np.ndarray or type(sin) is not np.ndarray or cos.shape != sin.shape:
        return None
    few = _usual(rotary, x, seq_axis, out, workers)
    if few is None or kind_of(cos.dtype) is None or kind_of(sin.dtype) is None:
        return None
    _, source, _, kind = few
    expected = source.shape[0], source.shape[2], rotary._settings.rotary_dim // 2
    if cos.shape not in (expected, expected[1:]) or 2 * cos.size > ANGLES:
        return None
    return _turned(rotary, few, side_by_side(cos, sin, kind))


def side_by_side(cos: Array, sin: Array, kind: int) -> Array:
    """Given cosines and sines as the engines take them for x of a kind."""
    rows = np.empty((*cos.shape[:-1], 2 * cos.shape[-1]), angles_type(kind))
    # a cosine beyond float32 is infinite there
    with np.errstate(over="ignore"):
        rows[..., : cos.shape[-1]] = cos
        rows[..., cos.shape[-1] :] = sin
    return with_plain_nans(rows)


def with_plain_nans(rows: Array) -> Array:
    """Rows as they are, where NaNs may have come from outside: the kernel rounds to bfloat16 what is in their last bits."""
    if rows.dtype == _FLOAT32:
        np.copyto(rows, np.nan, where=np.isnan(rows))
    return rows


def rows_kept(rotary: Turning, count: int, start: Any, single: bool, inverse: bool, dtype: np.dtype[Any]) -> Array:
    """Cosines and sines of consecutive positions.

    Every layer of a model asks for the same ones, and the next token for the next: a few are made ahead and kept.
    """
    width = rotary._settings.rotary_dim
    if type(start) is not int or abs(start) >= 2**62 or count * width > ANGLES:
        return angle_rows(rotary, count, start, single, inverse, dtype)
    engine = rotary._engine()
    key = single, inverse, engine.backend, engine.level, dtype
    kept = rotary._last.get(key)
    if kept is None or not kept[0] <= start <= start + count <= kept[0] + len(kept[1]):
        ahead = max(count, min(AHEAD, ANGLES // width))
        if len(rotary._last) >= len(_TYPES):
            rotary._last.clear()
        # one assignment, so that threads find whole entries
        rotary._last[key] = kept = start, angle_rows(rotary, ahead, start, single, inverse, dtype)
    first, rows = kept
    return rows[start - first : start - first + count]


# what is returned; x and that as (batch, heads, length, head_dim), as the engines take them; their kind
_Few = tuple[Array, Array, Array, int]


def _usual(rotary: Turning, x: Any, seq_axis: Any, out: Any, workers: Any) -> _Few | None:
    """x of four axes and where it goes, where nothing has to be copied; None for all but the most usual."""
    if type(x) is not np.ndarray or x.ndim != 4 or not (workers is None or one_thread(workers, x.size)):
        return None
    if type(seq_axis) is not int or seq_axis not in (-2, 2, 1, -3):
        return None
    # as they are now, whatever another thread makes of them
    few = x.view()
    form, key, shape = format_of(few.dtype), rotary._settings, few.shape
    if form is None or shape[3] != key.head_dim or 0 in shape or key.layout == LAYOUTS[2]:
        return None
    if not few.flags.aligned or few.strides[3] != few.itemsize:
        return None
    result = empty(shape, few.dtype) if out is None else out
    if type(result) is not np.ndarray:
        return None
    into = few if out is x else result.view()
    if out is not x and (into.shape != shape or into.dtype != few.dtype or np.may_share_memory(few, into)):
        return None
    # in whole memory, in this order of its axes or with heads and tokens exchanged, no two values are in one place
    if not into.flags.carray and not into.swapaxes(1, 2).flags.carray:
        return None
    kind = form.kind
    if kind in _SIXTEEN_BITS:
        few, into = few.view(np.uint16), into.view(np.uint16)
    if seq_axis in (1, -3):
        few, into = few.swapaxes(1, 2), into.swapaxes(1, 2)
    # in place one view is both
    return result, few, few if out is x else into, kind


def _turned(rotary: Turning, few: _Few, rows: Array) -> Array:
    # groups that share angles: all batches, or each by itself
    where: Any = np.newaxis if rows.ndim == 2 else (slice(None), np.newaxis)
    rows = rows[np.newaxis] if rows.ndim == 2 else rows
    result, source, target, kind = few
    engine, layout = rotary._engine(), LAYOUTS.index(rotary._settings.layout)
    grouped = source[where]
    engine.module.rotate(engine.level, rows, grouped, grouped if target is source else target[where], kind, layout)
    return result
