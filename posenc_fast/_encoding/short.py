"""The short way of small calls, whose checks would take longer than their rows.

Each function gives the bits of the general way, or None where something about the call is not the most usual; the general
way then takes all its checks. What has been written when None is returned, it writes again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._engine.blocks import BLOCK, WORTH_A_THREAD, Target
from .._numbers.arrays import Array, empty
from .._numbers.doubles import two_sum
from .._numbers.formats import FLOAT32, FLOAT64, usual_type
from .._positions.positions import EXACT_IN_FLOAT64, form_of
from .plans import Plans

__all__ = ["fractional", "row", "rows", "sums", "table"]


_FLOAT32 = np.dtype(np.float32)
_SINGLE, _DOUBLE = FLOAT32.kind, FLOAT64.kind
# of positions that are alone: those whose item is a float or an int, exactly
_SCALARS = frozenset(np.dtype(code).type for code in "bBhHiIlLqQefd")
_REAL = frozenset(np.dtype(code) for code in "bBhHiIlLqQefd")


def _contiguous_rows(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
    """New memory, or out seen as a plain array as `check_out` sees it; None for all but the most usual arrays."""
    if out is None:
        return empty(shape, dtype)
    if type(out) is not np.ndarray:
        return None
    rows = out.view()
    return rows if rows.shape == shape and rows.dtype is dtype and rows.flags.carray else None


def table(plans: Plans, length: int, start: int, dtype: Any, out: Array | None) -> Array | None:
    """A table of consecutive integers that is one block."""
    usual, width = usual_type(dtype, out), plans.width
    if usual is None or not (0 < length * width <= BLOCK) or abs(start) >= 2**62:
        return None
    rows = _contiguous_rows(out, (length, width), usual[0])
    if rows is None:
        return None
    engine = plans.engine()
    lattice, span_bits = plans.lattice(engine, usual[1] == _DOUBLE)
    if lattice is None:
        return None
    span, offset = divmod(start, 1 << span_bits)
    # smaller ones fit in any cache
    stores = 0 if length * width < WORTH_A_THREAD else Target(rows, warm=out is not None).stores()
    lattice.table(engine.level, span, offset, rows, usual[1], stores)
    return rows if out is None else out


def fractional(plans: Plans, length: int, start: float, dtype: Any) -> Array | None:
    """A small new table of start, start + 1, .. that are no integers."""
    usual, width = usual_type(dtype), plans.width
    if usual is None or not (0 < length * width < WORTH_A_THREAD) or not 2.0**-64 <= abs(start) < 2.0**52:
        return None
    numerator, denominator = start.as_integer_ratio()
    if denominator == 1:
        return None
    # as `Progression` decides
    largest = max(abs(numerator), abs(numerator + (length - 1) * denominator))
    engine = plans.engine()
    exact = largest <= EXACT_IN_FLOAT64
    plan, phase = plans.plan(engine, "real" if exact else "pair")
    if phase or plans.lattice_impossible():
        return None
    whole = np.arange(length, dtype=np.float64)
    positions = (whole + start)[:, np.newaxis] if exact else np.stack(two_sum(whole, start), axis=1)
    result = empty((length, width), usual[0])
    return result if plan.encode(engine.level, positions, result, usual[1]) is None else None


def sums(plans: Plans, x: Any, start: int, x_scale: Any, out: Any) -> Array | None:
    """A small float32 sum with a table of one schedule, in new memory or in place."""
    values = _contiguous_rows(x, x.shape, _FLOAT32) if type(x) is np.ndarray else None
    if values is None or not (out is None or out is x) or type(x_scale) is not float or not math.isfinite(x_scale):
        return None
    shape = values.shape
    if len(shape) < 2 or shape[-1] != plans.width or not 0 < values.size < WORTH_A_THREAD:
        return None
    if len(plans.sinusoids.schedules) != 1 or abs(start) >= 2**62:
        return None
    engine = plans.engine()
    lattice, span_bits = plans.lattice(engine, False)
    if lattice is None:
        return None
    total = values if out is x else empty(shape, _FLOAT32)
    span, offset = divmod(start, 1 << span_bits)
    view, seen = total, values
    if len(shape) != 3:
        view, seen = (array.reshape(-1, *shape[-2:]) for array in (total, values))
    lattice.table(engine.level, span, offset, view, _SINGLE, 0, seen, x_scale)
    return x if out is x else total


def row(plans: Plans, position: Any, out: Any) -> Array | None:
    """The float32 row of one real number: of Python, NumPy or torch."""
    given_as = type(position)
    shape: tuple[int, ...] = ()
    if given_as is float or given_as is int:
        value = position
    else:
        if given_as is np.ndarray:
            if position.size != 1 or position.dtype not in _REAL:
                return None
            value, shape = position.item(), position.shape
        elif given_as in _SCALARS:
            value = position.item()
        else:
            if given_as.__module__ != "torch" or given_as.__name__ != "Tensor":
                return None
            if position.numel() != 1 or not position.is_cpu or position.requires_grad:
                return None
            value, shape = position.item(), tuple(position.shape)
        # torch has bools and complex numbers as well
        if type(value) is not float and type(value) is not int:
            return None
    # of 64-bit integers those that are float64 numbers too
    if not -9007199254740992 <= value <= 9007199254740992:
        return None
    engine = plans.engine()
    plan = plans.scalar_plans.get(engine.backend) or plans.scalar_plan(engine)
    if plan is None:
        return None
    if out is None:
        rows = np.empty(plans.width, _FLOAT32)
        if not plan.encode_one(engine.level, value, rows, _SINGLE):
            return None
        return rows if not shape else rows.reshape(*shape, plans.width)
    given = _contiguous_rows(out, (*shape, plans.width), _FLOAT32)
    if given is None or not plan.encode_one(engine.level, value, given.reshape(-1), _SINGLE):
        return None
    return out  # type: ignore[no-any-return]


def rows(plans: Plans, positions: Any, dtype: Any, out: Array | None) -> Array | None:
    """A few rows of the real numbers of a plain array."""
    if type(positions) is not np.ndarray or positions.dtype not in _REAL:
        return None
    usual = usual_type(dtype, out)
    if usual is None:
        return None
    count, width = positions.size, plans.width
    if not 0 < count * width < WORTH_A_THREAD or form_of(positions) != "real":
        return None
    engine = plans.engine()
    plan = plans.scalar_plans.get(engine.backend) or plans.scalar_plan(engine)
    if plan is None:
        return None
    result = _contiguous_rows(out, (*positions.shape, width), usual[0])
    # rows that are left are for the general way, which then needs the positions as they were
    if result is None or (out is not None and np.may_share_memory(positions, result)):
        return None
    # in the order of rows, whatever the order of the memory is
    values = positions.astype(np.float64, "C").reshape(count, 1)
    target = result if result.ndim == 2 else result.reshape(count, width)
    if plan.encode(engine.level, values, target, usual[1]) is not None:
        return None
    return result if out is None else out
