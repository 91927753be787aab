"""Compute rows. A lattice computes the rows of integer progressions, and a plan the rows of any positions."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np

from ..engine.blocks import Target, collapse
from ..numbers import annotations as npt
from ..numbers.arguments import MOST_POSITION
from ..numbers.arrays import Array, Floats, check_out, new
from ..numbers.formats import FLOAT64
from ..numbers.rounding import round_into
from ..positions.positions import Converted, Positions, Progression, as_float64
from .exact_rows import exact_row
from .plans import Plans


def encode(
    plans: Plans,
    positions: Converted,
    dtype: np.dtype[Any],
    out: Array | None = None,
    *,
    single: bool = False,
    threads: int = 1,
) -> Array:
    """Return the rows of converted positions, an array of shape (..., d)."""
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
    positions: Converted | tuple[Fraction | int, Fraction | int],
    scale: float,
    single: bool,
    threads: int,
) -> None:
    """Write scale * x + encoding to result, which may be x.

    positions has the positions of the rows, or is the pair (first position, step).
    """
    # If batched, each row of x has its own position, and all rows form one batch. Otherwise all batches share
    # positions.
    batched = isinstance(positions, Converted) and positions.shape != x.shape[-2:-1]
    dims = 2 if batched else 3
    view_x, view = collapse(x, dims), collapse(result, dims)
    if view_x is None or (x.strides[-1] != x.itemsize and plans.width > 1):
        view_x = collapse(np.ascontiguousarray(x), dims)
    assert view_x is not None
    # In a progression of fractions, rows at integer positions are written twice (see `fill_progression`). If the first
    # writing changed x, the second would add to the changed x. So the rows are written to a new array first.
    written_twice = isinstance(positions, tuple) and not all(isinstance(number, int) for number in positions)
    copied = view is None or (written_twice and same_memory(x, result))
    if view is None or copied:
        view = np.empty(view_x.shape, x.dtype)
    if batched:
        view_x, view = view_x[np.newaxis], view[np.newaxis]
    target = Target(view, x=view_x, scale=scale)
    if isinstance(positions, Converted):
        positions.keep_from(result)
        fill(plans, target, positions, single, threads)
    else:
        fill_progression(plans, target, *positions, single, threads)
    if copied:
        result[...] = view.reshape(result.shape)


def same_memory(a: Array, b: Array) -> bool:
    """Return whether two arrays of the same shape and dtype use the same memory in the same order."""
    return a.strides == b.strides and a.__array_interface__["data"] == b.__array_interface__["data"]


def fill_progression(
    plans: Plans,
    target: Target,
    first: Fraction | int,
    step: Fraction | int,
    single: bool,
    threads: int,
) -> None:
    """Write the rows of the positions first + i * step.

    If single is false and the encoding has a lattice, the lattice computes the rows at integer positions.
    """
    if isinstance(first, int) and isinstance(step, int) and not single:
        engine = plans.engine()
        lattice, span_bits = plans.lattice(engine, target.kind == FLOAT64.kind)
        if lattice is not None:
            _fill_integers(lattice, span_bits, engine.level, target, first, step, threads)
            return
    first, step = Fraction(first), Fraction(step)
    fill(plans, target, Progression(first, step, target.rows), single, threads)
    too_large = max(abs(first), abs(first + step * (target.rows - 1))) > MOST_POSITION
    if single or too_large or plans.lattice_impossible():
        return
    # write the rows at integer positions again, with the same bits as in tables of integer positions
    i, period = _integers_of(first, step)
    if i < target.rows:
        integers = target.part(slice(i, None, period))
        fill_progression(plans, integers, int(first + step * i), int(step * period), single, threads)


def _fill_integers(
    lattice: Any, span_bits: int, level: int, target: Target, first: int, step: int, threads: int
) -> None:
    """Write the rows of the positions first + i * step, which are 64-bit integers."""
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
    """Write the rows of any positions to target, by a plan. If single is true, angles are float32 products."""
    engine = plans.engine()
    form, unit = positions.form, positions.unit
    single = single or plans.sinusoids.single_products
    if single:
        # Frameworks compute with numbers, so times become seconds. The engine rounds the float64 positions to float32.
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
    """Write the rows that the engine left out.

    With one axis, real positions with magnitudes from 2**52 to below 2**63 are whole, and are encoded as integers.
    Other rows are computed in exact arithmetic.
    """
    if not single and positions.form == "real" and plans.sinusoids.axes == 1:
        values = components[rows, 0]
        # float64 numbers from 2**52 on are whole
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
            target = block.part(slice(row, row + 1))
            round_into(target.kind, high, low, target.out, target.x, target.scale)


def _integers_of(first: Fraction, step: Fraction) -> tuple[int, int]:
    """Return (smallest i >= 0 for which first + i * step is an integer, distance to the next such i).

    Return (sys.maxsize, 1) if no such i exists.
    """
    # solve numerator + i * step_numerator = 0 modulo the denominator
    denominator = math.lcm(first.denominator, step.denominator)
    numerator, step_numerator = int(first * denominator), int(step * denominator)
    common = math.gcd(step_numerator, denominator)
    if numerator % common:
        return sys.maxsize, 1
    period = denominator // common
    return -(numerator // common) * pow(step_numerator // common, -1, period) % period, period


def _lattice_points(
    begin: int, step: int, rows: int, span_bits: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return (spans, offsets): the 64-bit integers begin + i * step divided by 2**span_bits, and the remainders."""
    # the indices of spans fit in int64, even if positions in uint64 do not
    i = np.arange(rows, dtype=np.uint64)
    span, offset = divmod(begin, 1 << span_bits)
    step_span, step_offset = divmod(step, 1 << span_bits)
    offsets = offset + (i * np.uint64(step_offset)).astype(np.int64)
    spans = span + i.astype(np.int64) * step_span + (offsets >> span_bits)
    return spans.astype(np.int64), (offsets & ((1 << span_bits) - 1)).astype(np.int32)
