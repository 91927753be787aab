"""The ways to fill rows: integers from a lattice, any positions one by one, and what doubles cannot hold exactly."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .._engine.blocks import Target, collapse
from .._numbers.arguments import MOST
from .._numbers.arrays import Array, Floats, check_out, new
from .._numbers.formats import FLOAT64
from .._numbers.rounding import round_into
from .._positions.positions import Given, Positions, Progression, as_float64
from .exact_rows import exact_row
from .plans import Plans

__all__ = ["encode", "fill", "fill_progression"]


def encode(
    plans: Plans,
    given: Given,
    dtype: np.dtype[Any],
    out: Array | None = None,
    *,
    single: bool = False,
    threads: int = 1,
) -> Array:
    """Rows of positions that were converted: (..., d)."""
    shape = (*given.shape, plans.width)
    result = new(shape, dtype) if out is None else check_out(out, shape, dtype, "encode")
    if len(given):
        if out is not None:
            given.keep_from(out)
        rows = collapse(result, 2)
        target = Target(new((len(given), plans.width), dtype) if rows is None else rows, warm=out is not None)
        fill(plans, target, given, single, threads)
        if rows is None:
            result[...] = target.out.view(dtype).reshape(result.shape)
    return result if out is None else out


def fill_progression(
    plans: Plans,
    target: Target,
    first: Fraction | int,
    each: Fraction | int,
    single: bool,
    threads: int,
) -> None:
    """Rows of first + i * each: those of integers from the lattice."""
    engine = plans.engine()
    whole = isinstance(first, int) and isinstance(each, int)
    beyond = not whole and max(abs(first), abs(first + each * (target.rows - 1))) > MOST
    if single or beyond or plans.lattice_impossible():
        fill(plans, target, Progression(Fraction(first), Fraction(each), target.rows), single, threads)
        return
    if not whole:
        first, each = Fraction(first), Fraction(each)
        fill(plans, target, Progression(first, each, target.rows), single, threads)
        i, period = _integers_of(first, each)
        if i < target.rows:
            fill_progression(plans, target.every(i, period), int(first + each * i), int(each * period), single, threads)
        return
    lattice, span_bits = plans.lattice(engine, target.kind == FLOAT64.kind)
    begin_all, step = int(first), int(each)
    consecutive = step == 1 and (target.x is None or target.kind != FLOAT64.kind)
    stores = target.stores(each=not consecutive)

    def task(part: slice, out: Array, x: Array | None) -> None:
        begin, rows = begin_all + part.start * step, part.stop - part.start
        if consecutive:
            span, offset = divmod(begin, 1 << span_bits)
            lattice.table(engine.level, span, offset, out, target.kind, stores, x, target.scale)
        else:
            spans, offsets = _lattice_points(begin, step, rows, span_bits)
            lattice.rows(engine.level, spans, offsets, out, target.kind, stores, x, target.scale)

    target.run(task, threads)


def fill(plans: Plans, target: Target, positions: Positions, single: bool, threads: int) -> None:
    """Rows of any positions."""
    engine = plans.engine()
    form, unit = positions.form, positions.unit
    single = single or plans.sinusoids.single_products
    if single:
        # what a framework would be given: float64 numbers of the base unit, soon to be rounded to float32
        positions, form, unit = as_float64(positions), "real", Fraction(1)
    plan, phase = plans.plan(engine, form, unit, single)
    stores = target.stores(each=True)

    def task(part: slice, out: Array, x: Array | None) -> None:
        components = plans.components(positions, part, phase, single)
        left = plan.encode(engine.level, components, out, target.kind, single, stores, x, target.scale)
        if left is not None:
            rows = np.flatnonzero(np.frombuffer(left, np.bool_))
            _fill_exactly(plans, target, positions, single, part.start + rows, rows, components, out, x)
        if not single:
            plans.sign_zeros(components, out, target.kind, x is not None)

    target.run(task, threads)


def _fill_exactly(
    plans: Plans,
    target: Target,
    positions: Positions,
    single: bool,
    absolute: Array,
    rows: Array,
    components: Floats,
    out: Array,
    x: Array | None,
) -> None:
    """Rows that the engine left out: by exact arithmetic, or from integers where positions are such."""
    if not single and positions.form == "real" and plans.sinusoids.axes == 1:
        values = components[rows, 0]
        whole = (np.abs(values) < 2.0**63) & (np.abs(values) >= 2.0**52)
        if whole.any():
            given = Given(values[whole].astype(np.int64)[:, np.newaxis], positions.unit, form="integer")
            take = rows[whole]
            part = target.some(out[..., take, :], None if x is None else x[..., take, :])
            fill(plans, part, given, single, 1)
            out[..., take, :] = part.out
            rows, absolute = rows[~whole], absolute[~whole]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for row, position in zip(rows, absolute, strict=True):
            high, low = exact_row(plans.sinusoids, positions.exactly(position), single)
            where = (..., slice(row, row + 1), slice(None))
            round_into(target.kind, high, low, out[where], None if x is None else x[where], target.scale)


def _integers_of(first: Fraction, each: Fraction) -> tuple[int, int]:
    """The first i >= 0 for which first + i * each is an integer, and the distance to the next; (sys.maxsize, 1) if none."""
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
    """Integers begin + i * step of 64 bits as multiples of a span and offsets."""
    # modulo 2**64 the sum is right for int64 and for uint64; the first span of each row tells them apart
    i = np.arange(rows, dtype=np.uint64)
    span, offset = divmod(begin, 1 << span_bits)
    step_span, step_offset = divmod(step, 1 << span_bits)
    offsets = offset + (i * np.uint64(step_offset)).astype(np.int64)
    spans = span + i.astype(np.int64) * step_span + (offsets >> span_bits)
    return spans.astype(np.int64), (offsets & ((1 << span_bits) - 1)).astype(np.int32)
