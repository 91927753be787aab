"""The ways to fill rows: of integers from a lattice, of any positions one by one, of few positions in one call."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np

from .._engine.blocks import BLOCK, WORTH_A_THREAD, Target, collapse
from .._numbers import annotations as npt
from .._numbers.arguments import MOST_POSITION
from .._numbers.arrays import Array, Floats, check_out, empty, new
from .._numbers.doubles import two_sum
from .._numbers.formats import FLOAT32, FLOAT64, Format
from .._numbers.rounding import round_into
from .._positions.positions import EXACT_IN_FLOAT64, Converted, Positions, Progression, as_float64, form_of
from .exact_rows import exact_row
from .plans import Plans

__all__ = [
    "add",
    "encode",
    "encode_at_once",
    "encode_one",
    "fill",
    "fill_progression",
    "same_memory",
    "sum_at_once",
    "table_at_once",
]

# of real numbers whose item is a float or an int
_REAL = frozenset(np.dtype(code) for code in "bBhHiIlLqQefd")
_SCALARS = frozenset(dtype.type for dtype in _REAL)
# by the dtype of a call
_FORMATS: dict[Any, Format] = {None: FLOAT32}
_FORMATS |= {key: form for form in (FLOAT32, FLOAT64) for key in (form.stored, form.stored.type)}


def encode(
    plans: Plans,
    positions: Converted,
    dtype: np.dtype[Any],
    out: Array | None = None,
    *,
    single: bool = False,
    threads: int = 1,
) -> Array:
    """Return the rows of converted positions: (..., d)."""
    shape = (*positions.shape, plans.width)
    result = new(shape, dtype) if out is None else check_out(out, shape, dtype, "encode")
    if len(positions.values):
        if out is not None:
            positions.keep_from(result)
        rows = collapse(result, 2)
        target = Target(new((len(positions), plans.width), dtype) if rows is None else rows, warm=out is not None)
        fill(plans, target, positions, single, threads)
        if rows is None:
            result[...] = target.out.view(dtype).reshape(result.shape)
    return result if out is None else out


def add(
    plans: Plans,
    x: Array,
    result: Array,
    rows: Converted | tuple[Fraction | int, Fraction | int],
    scale: float,
    single: bool,
    threads: int,
) -> None:
    """Write scale * x + encoding to result, x itself or other memory; rows: their positions, or the first and the step."""
    # one batch of all rows where each has its own position, else batches that share the rows
    batched = isinstance(rows, Converted) and rows.shape != x.shape[-2:-1]
    dims = 2 if batched else 3
    view_x, view = collapse(x, dims), collapse(result, dims)
    if view_x is None or (x.strides[-1] != x.itemsize and plans.width > 1):
        view_x = collapse(np.ascontiguousarray(x), dims)
    assert view_x is not None
    # rows of fractions are written twice, the second time those of integers among them
    twice = isinstance(rows, tuple) and not (isinstance(rows[0], int) and isinstance(rows[1], int))
    copied = view is None or (twice and same_memory(x, result))
    if view is None or copied:
        view = np.empty(view_x.shape, x.dtype)
    if batched:
        view_x, view = view_x[np.newaxis], view[np.newaxis]
    target = Target(view, x=view_x, scale=scale)
    if isinstance(rows, Converted):
        rows.keep_from(result)
        fill(plans, target, rows, single, threads)
    else:
        fill_progression(plans, target, *rows, single, threads)
    if copied:
        result[...] = view.reshape(result.shape)


def same_memory(a: Array, b: Array) -> bool:
    """Whether two arrays of one shape and type are the same values in memory."""
    return a.strides == b.strides and a.__array_interface__["data"] == b.__array_interface__["data"]


def fill_progression(
    plans: Plans,
    target: Target,
    first: Fraction | int,
    each: Fraction | int,
    single: bool,
    threads: int,
) -> None:
    """Write the rows of first + i * each: those of integers from the lattice."""
    if isinstance(first, int) and isinstance(each, int) and not single:
        engine = plans.engine()
        lattice, span_bits = plans.lattice(engine, target.kind == FLOAT64.kind)
        if lattice is not None:
            _fill_integers(lattice, span_bits, engine.level, target, first, each, threads)
            return
    first, each = Fraction(first), Fraction(each)
    fill(plans, target, Progression(first, each, target.rows), single, threads)
    beyond = max(abs(first), abs(first + each * (target.rows - 1))) > MOST_POSITION
    if single or beyond or plans.lattice_impossible():
        return
    i, period = _integers_of(first, each)
    if i < target.rows:
        integers = target.part(slice(i, None, period))
        fill_progression(plans, integers, int(first + each * i), int(each * period), single, threads)


def _fill_integers(
    lattice: Any, span_bits: int, level: int, target: Target, first: int, step: int, threads: int
) -> None:
    """Write the rows of first + i * step, integers of 64 bits."""
    kind, x, scale = target.kind, target.x, target.scale
    consecutive = step == 1 and (x is None or kind != FLOAT64.kind)
    stores = target.stores(each=not consecutive)

    def write(part: slice, block: Target) -> None:
        begin = first + part.start * step
        if consecutive:
            span, offset = divmod(begin, 1 << span_bits)
            lattice.table(level, span, offset, block.out, kind, stores, block.x, scale)
        else:
            spans, offsets = _lattice_points(begin, step, block.rows, span_bits)
            lattice.rows(level, spans, offsets, block.out, kind, stores, block.x, scale)

    target.run(write, threads)


def fill(plans: Plans, target: Target, positions: Positions, single: bool, threads: int) -> None:
    """Write the rows of any positions."""
    engine = plans.engine()
    form, unit = positions.form, positions.unit
    single = single or plans.sinusoids.single_products
    if single:
        # a framework's input: float64 numbers of the base unit, rounded to float32 by the engine
        positions, form, unit = as_float64(positions), "real", Fraction(1)
    plan, phase = plans.plan(engine, form, unit, single)
    stores = target.stores(each=True)

    def write(part: slice, block: Target) -> None:
        components = plans.components(positions, part, phase, single)
        left = plan.encode(engine.level, components, block.out, block.kind, single, stores, block.x, block.scale)
        if left is not None:
            rows = np.flatnonzero(np.frombuffer(left, np.bool_))
            _fill_exactly(plans, block, positions, single, part.start, rows, components)
        if not single:
            plans.sign_zeros(components, block.out, block.kind, block.x is not None)

    target.run(write, threads)


def _fill_exactly(
    plans: Plans, block: Target, positions: Positions, single: bool, begin: int, rows: Array, components: Floats
) -> None:
    """Write rows that the engine left out: by exact arithmetic, or from integers where positions are such."""
    if not single and positions.form == "real" and plans.sinusoids.axes == 1:
        values = components[rows, 0]
        whole = (np.abs(values) < 2.0**63) & (np.abs(values) >= 2.0**52)
        if whole.any():
            integers = Converted(values[whole].astype(np.int64)[:, np.newaxis], positions.unit, form="integer")
            part = block.part(rows[whole])
            fill(plans, part, integers, single, 1)
            block.out[..., rows[whole], :] = part.out
            rows = rows[~whole]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for row in rows:
            high, low = exact_row(plans.sinusoids, positions.exactly(begin + row), single)
            one = block.part(slice(row, row + 1))
            round_into(one.kind, high, low, one.out, one.x, one.scale)


# ---- small calls, whose checks would take longer than their rows: "fixed-cost" of bench/targets.py ---------------
#
# Each function gives the bits of the functions above, or None where that takes more than one call of the engine, or where
# an argument is not of the simplest types: the caller then takes all its checks, and writes again what was written.


def table_at_once(plans: Plans, length: int, start: Any, dtype: Any, out: Array | None) -> Array | None:
    """Return the rows of start, start + 1, .. in one block."""
    form, size = _format(dtype, out), length * plans.width
    if form is None or not 0 < size <= BLOCK:
        return None
    engine = plans.engine()
    if type(start) is float:
        if out is not None or size >= WORTH_A_THREAD or start.is_integer() or not 2.0**-64 <= abs(start) < 2.0**52:
            return None
        numerator, denominator = start.as_integer_ratio()
        # as `Progression` decides
        exact = max(abs(numerator), abs(numerator + (length - 1) * denominator)) <= EXACT_IN_FLOAT64
        plan, phase = plans.plan(engine, "real" if exact else "pair")
        if phase or plans.lattice_impossible():
            return None
        i, rows = np.arange(length, dtype=np.float64), empty((length, plans.width), form.stored)
        positions = (i + start)[:, np.newaxis] if exact else np.stack(two_sum(i, start), axis=1)
        return rows if plan.encode(engine.level, positions, rows, form.kind) is None else None
    if type(start) is not int or abs(start) >= 2**62:
        return None
    lattice, span_bits = plans.lattice(engine, form is FLOAT64)
    memory = _memory(out, (length, plans.width), form)
    if lattice is None or memory is None:
        return None
    # smaller ones fit in any cache
    stores = 0 if size < WORTH_A_THREAD else Target(memory, warm=out is not None).stores()
    span, offset = divmod(start, 1 << span_bits)
    lattice.table(engine.level, span, offset, memory, form.kind, stores)
    return memory if out is None else out


def sum_at_once(plans: Plans, x: Any, start: Any, x_scale: Any, out: Any) -> Array | None:
    """Return a small float32 sum with a table of one schedule, in new memory or in place."""
    if type(start) is not int or type(x) is not np.ndarray:
        return None
    values = _memory(x, x.shape, FLOAT32)
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
    total = values if out is x else empty(shape, FLOAT32.stored)
    view, view_x = total, values
    if len(shape) != 3:
        view, view_x = (array.reshape(-1, *shape[-2:]) for array in (total, values))
    span, offset = divmod(start, 1 << span_bits)
    lattice.table(engine.level, span, offset, view, FLOAT32.kind, 0, view_x, x_scale)
    return x if out is x else total


def encode_one(plans: Plans, position: Any, out: Array | None) -> Array | None:
    """Return the float32 row of one real number of Python, NumPy or torch."""
    kind = type(position)
    shape: tuple[int, ...] = ()
    if kind is float or kind is int:
        value = position
    else:
        if kind is np.ndarray:
            if position.size != 1 or position.dtype not in _REAL:
                return None
            shape = position.shape
        elif kind not in _SCALARS:
            if kind.__module__ != "torch" or kind.__name__ != "Tensor":
                return None
            if position.numel() != 1 or not position.is_cpu or position.requires_grad:
                return None
            shape = tuple(position.shape)
        value = position.item()
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
        row = np.empty(plans.width, FLOAT32.stored)
        if not plan.encode_one(engine.level, value, row, FLOAT32.kind):
            return None
        return row.reshape(*shape, plans.width) if shape else row
    memory = _memory(out, (*shape, plans.width), FLOAT32)
    if memory is None or not plan.encode_one(engine.level, value, memory.reshape(-1), FLOAT32.kind):
        return None
    return out


def encode_at_once(plans: Plans, positions: Any, dtype: Any, out: Array | None) -> Array | None:
    """Return a few rows of the real numbers of a plain array."""
    if type(positions) is not np.ndarray or positions.dtype not in _REAL:
        return None
    form, count, width = _format(dtype, out), positions.size, plans.width
    if form is None or not 0 < count * width < WORTH_A_THREAD or form_of(positions) != "real":
        return None
    engine = plans.engine()
    plan = plans.scalar_plans.get(engine.backend) or plans.scalar_plan(engine)
    if plan is None:
        return None
    rows = _memory(out, (*positions.shape, width), form)
    # rows that are left need the positions as they were
    if rows is None or (out is not None and np.may_share_memory(positions, rows)):
        return None
    values = positions.astype(np.float64, "C").reshape(count, 1)
    block = rows if rows.ndim == 2 else rows.reshape(count, width)
    if plan.encode(engine.level, values, block, form.kind) is not None:
        return None
    return rows if out is None else out


def _format(dtype: Any, out: Any) -> Format | None:
    """Return float32 or float64, where a call asks for it as such or has an out of it."""
    if dtype is None and out is not None:
        dtype = getattr(out, "dtype", None)
    return _FORMATS.get(dtype) if dtype is None or isinstance(dtype, (type, np.dtype)) else None


def _memory(out: Any, shape: tuple[int, ...], form: Format) -> Array | None:
    """Return new memory, or that of out if it is a plain C-contiguous array of that shape and type."""
    if out is None:
        return empty(shape, form.stored)
    if type(out) is not np.ndarray:
        return None
    memory = out.view()
    return memory if memory.shape == shape and memory.dtype is form.stored and memory.flags.carray else None


def _integers_of(first: Fraction, each: Fraction) -> tuple[int, int]:
    """Return the first i >= 0 for which first + i * each is an integer, and the distance to the next; (sys.maxsize, 1) if none."""
    denominator = math.lcm(first.denominator, each.denominator)
    a, c = int(first * denominator), int(each * denominator)
    common = math.gcd(c, denominator)
    if a % common:
        return sys.maxsize, 1
    period = denominator // common
    return -(a // common) * pow(c // common, -1, period) % period, period


def _lattice_points(
    begin: int, step: int, rows: int, span_bits: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return integers begin + i * step of 64 bits as multiples of a span and offsets."""
    # modulo 2**64 the sum is right for int64 and for uint64; the first span of each row tells them apart
    i = np.arange(rows, dtype=np.uint64)
    span, offset = divmod(begin, 1 << span_bits)
    step_span, step_offset = divmod(step, 1 << span_bits)
    offsets = offset + (i * np.uint64(step_offset)).astype(np.int64)
    spans = span + i.astype(np.int64) * step_span + (offsets >> span_bits)
    return spans.astype(np.int64), (offsets & ((1 << span_bits) - 1)).astype(np.int32)
