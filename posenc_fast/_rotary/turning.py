"""The general way of turning: any array, by rows of angles of its positions or by given tables, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .._engine import threads as _threads
from .._engine.blocks import WORTH_A_THREAD
from .._numbers.arguments import check_precision, check_workers, count_of, progression
from .._numbers.arrays import Array, base_array, check_out, empty
from .._numbers.formats import TYPES, Format, float_type, format_of, kind_of
from .._positions.conversion import convert
from . import short
from .pairs import LAYOUTS
from .rows import angle_rows
from .short import Turning

__all__ = ["by_positions", "by_tables"]


def by_positions(
    rotary: Turning,
    x: Any,
    positions: Any,
    start: Any,
    seq_axis: Any,
    inverse: bool,
    precision: Any,
    out: Any,
    workers: Any,
) -> Array:
    """`Rotary.apply`."""
    single, threads = check_precision(precision), check_workers(workers)
    if not isinstance(inverse, (bool, np.bool_)):
        raise TypeError(f"inverse must be True or False, not {inverse!r}")
    inverse = bool(inverse)
    x, form, axis, lead, length = _checked_x(rotary, x, seq_axis)
    dtype = short.angles_type(form.kind)
    if positions is None:
        if isinstance(start, (list, tuple, np.ndarray)):
            raise TypeError(
                f"start must be one number, not {start!r}; for one a sequence give positions=numpy.add.outer(start, "
                f"range({length}))"
            )
        if length:
            progression(start, 1, length)

        def angles(part: slice) -> Array:
            return short.rows_kept(rotary, part.stop - part.start, start + part.start, single, inverse, dtype)

        return _turned(rotary, x, form, out, axis, lead, 0, angles, threads, inverse)
    if start != 0:
        raise ValueError(f"positions excludes start={start!r}; leave one side out")
    given = convert(positions, rotary.ndim)
    shape = given.shape
    groups = len(shape) - 1
    if groups < 0 or shape != (*lead[:groups], length):
        raise ValueError(
            f"positions is for {shape}, but must be for {(length,)}, or for the first axes of x and its {length} "
            f"tokens: {(*lead[:1], length)}"
        )
    if isinstance(out, np.ndarray):
        given.keep_from(out)

    def angles_at(part: slice) -> Array:
        rows = angle_rows(rotary, given.select((slice(None),) * groups + (part,)), 0, single, inverse, dtype)
        return short.with_plain_nans(rows)

    return _turned(rotary, x, form, out, axis, lead, groups, angles_at, threads, inverse)


def by_tables(rotary: Turning, x: Any, cos: Any, sin: Any, seq_axis: Any, out: Any, workers: Any) -> Array:
    """`Rotary.apply_tables`."""
    threads = check_workers(workers)
    x, form, axis, lead, length = _checked_x(rotary, x, seq_axis, "apply_rotary_pos_emb")
    parts = [np.asarray(cos), np.asarray(sin)]
    for name, part in zip(("cos", "sin"), parts, strict=True):
        if kind_of(part.dtype) is None:
            raise TypeError(f"{name} must have real numbers of one of {', '.join(TYPES)}, not {part.dtype}")
    groups = parts[0].ndim - 2
    expected = (*lead[: max(groups, 0)], length, rotary._settings.rotary_dim // 2)
    for name, part in zip(("cos", "sin"), parts, strict=True):
        if groups < 0 or part.shape != expected:
            raise ValueError(
                f"{name} has shape {part.shape}, but must have {expected[-2:]}, or the first axes of x before that"
            )

    if isinstance(out, np.ndarray):
        # block by block, tables in the memory of out would be overwritten before they are read
        parts = [part.copy() if np.may_share_memory(part, out) else part for part in parts]

    def angles(part: slice) -> Array:
        cosines, sines = (one[(slice(None),) * groups + (part,)] for one in parts)
        return short.side_by_side(cosines, sines, form.kind)

    return _turned(rotary, x, form, out, axis, lead, groups, angles, threads, False)


def _checked_x(
    rotary: Turning, x: Any, seq_axis: Any, twin: str = "rotate"
) -> tuple[Array, Format, int, tuple[int, ...], int]:
    """x and its format; the axis of the tokens, counted from the front; the lengths of the others and its own."""
    x = base_array(x, "x", twin)
    form = format_of(float_type(x.dtype, "x"))
    assert form is not None
    shape, dims = x.shape, x.ndim
    if dims < 2 or shape[-1] != rotary._settings.head_dim:
        raise ValueError(f"x has shape {shape}, but must have (.., {rotary._settings.head_dim}), the head_dim last")
    axis = seq_axis if type(seq_axis) is int else count_of(seq_axis, "seq_axis", -dims)
    if not -dims <= axis < dims - 1 or axis == -1:
        raise ValueError(f"seq_axis={axis} must be one of the axes of x, which has shape {shape}, but the last")
    axis %= dims
    return x, form, axis, shape[:axis] + shape[axis + 1 : -1], shape[axis]


def _turned(
    rotary: Turning,
    x: Array,
    form: Format,
    out: Array | None,
    axis: int,
    lead: tuple[int, ...],
    groups: int,
    angles: Callable[[slice], Array],
    threads: int,
    inverse: bool,
) -> Array:
    result = empty(x.shape, x.dtype) if out is None else check_out(out, x.shape, x.dtype, "rotate")
    same = result.strides == x.strides and result.ctypes.data == x.ctypes.data
    if out is not None and not same and np.may_share_memory(x, result):
        raise ValueError("out and x overlap without being the same array; give out=x, or memory of its own")
    if x.size == 0:
        return result if out is None else out
    # the engines take whole numbers of values, side by side
    source = x if x.flags.aligned and x.strides[-1] == x.itemsize else np.array(x, order="C")
    target = result if result.flags.aligned else np.empty(x.shape, x.dtype)
    length, pairs, layout = x.shape[axis], rotary._settings.rotary_dim // 2, LAYOUTS.index(rotary._settings.layout)
    back = inverse and layout == 2
    from_, to = (_arranged(array.view(form.stored), axis, groups) for array in (source, target))
    engine = rotary._engine()

    def turn(part: slice) -> None:
        rows = angles(part).reshape(*lead[:groups], -1, 2 * pairs)
        if to.ndim == 5:
            pieces: Iterable[tuple[Any, Any]] = [((...,), (slice(None),) * 3)]
        else:
            pieces = _pieces(to.shape, max(groups, 1))
        for outer, where in pieces:
            piece = np.ascontiguousarray(rows[outer]).reshape(-1, rows.shape[-2], 2 * pairs)
            where = (*where, part)
            engine.module.rotate(engine.level, piece, from_[where], to[where], form.kind, 0 if back else layout)

    block = max(1, min(short.ANGLES // (2 * pairs * math.prod(lead[:groups])), -(-length // threads)))
    if block >= length:
        turn(slice(0, length))
    else:
        slices = (slice(i, min(i + block, length)) for i in range(0, length, block))
        _threads.run(turn, slices, threads if x.size >= WORTH_A_THREAD else 1)
    if back:
        turned = target[..., : 2 * pairs].copy()
        target[..., 0 : 2 * pairs : 2], target[..., 1 : 2 * pairs : 2] = turned[..., :pairs], turned[..., pairs:]
    if target is not result:
        result[...] = target
    return result if out is None else out


def _arranged(array: Array, axis: int, groups: int) -> Array:
    """At least one group and two batches in front of (length, head_dim)."""
    if axis != array.ndim - 2:
        array = np.moveaxis(array, axis, -2)
    if groups == 0:
        array, groups = array[np.newaxis], 1
    missing = 4 - (array.ndim - groups)
    return array[(slice(None),) * groups + (np.newaxis,) * missing] if missing > 0 else array


def _pieces(shape: tuple[int, ...], groups: int) -> Iterator[tuple[tuple[int, ...], tuple[Any, ...]]]:
    """Indices of parts of five dimensions, which the engines take: of the groups alone, and of all before the rows."""
    for outer in np.ndindex(*shape[: groups - 1]):
        for inner in np.ndindex(*shape[groups:-4]):
            yield outer, (*outer, slice(None), *inner, slice(None), slice(None))
