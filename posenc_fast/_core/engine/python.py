"""The NumPy engine. It has the same classes `Plan` and `Lattice` as the compiled kernel, and the same accuracy.

A *wave* is one frequency with one residual phase, which is the phase minus the nearest multiple of a quarter turn. The
sine and the cosine of a wave serve all columns of its frequency whose phases differ by quarter turns. A number is
*double-double* if it is the sum of a pair of doubles (high, low), which has about 106 bits. Frequencies and angles are
double-double, because one double is too imprecise for large positions. The argument reduction subtracts whole turns,
without error for angles of up to 2^49 turns. The *quadrature* of a column is its value with a quarter turn added to the
phase.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ..numbers import annotations as npt
from ..numbers.arrays import Floats
from ..numbers.doubles import Pair, fma, product, total, two_product, two_sum
from ..numbers.formats import BFLOAT16, FLOAT64
from ..numbers.rounding import SPLIT_LIMIT, add_rounded, round_into, round_once, rows_left_out, values_of

Bits = npt.NDArray[np.uint64]

TWO_PI, TWO_PI_LOW = float.fromhex("0x1.921fb54442d18p+2"), float.fromhex("0x1.1a62633145c07p-52")
PER_RADIAN, PER_RADIAN_LOW = float.fromhex("0x1.45f306dc9c883p-3"), float.fromhex("-0x1.6b01ec5417056p-57")
# Adding ROUNDER rounds a number to an integer, and adding QUARTERS rounds a number to a multiple of 1/4. The low bits
# of the sum then count the integers or the quarters.
ROUNDER, QUARTERS = 1.5 * 2.0**52, 1.5 * 2.0**50
# Up to this angle in turns, the low part is so small that only the high part must be reduced by quarter turns.
MOST_DIRECT = 2.0**40
# bound of the relative difference between `sincos` with FMA and without FMA; this difference is at most 2^-50.8
REACH = 2.0**-49
# coefficients of polynomials in x**2 for sin(2 pi x) / x (SINE) and cos(2 pi x) (COSINE)
SINE = [
    float.fromhex("0x1.921fb54442d18p+2"),
    float.fromhex("-0x1.4abbce625be40p+5"),
    float.fromhex("0x1.466bc6775868cp+6"),
    float.fromhex("-0x1.32d2cce2ca8c0p+6"),
    float.fromhex("0x1.50782fbd1b346p+5"),
    float.fromhex("-0x1.e300557a585cap+3"),
    float.fromhex("0x1.e3e94c3f0a6bfp+1"),
]
COSINE = [
    float.fromhex("0x1.0000000000000p+0"),
    float.fromhex("-0x1.3bd3cc9be45a2p+4"),
    float.fromhex("0x1.03c1f081b11d8p+6"),
    float.fromhex("-0x1.55d3c7dc7a4fdp+6"),
    float.fromhex("0x1.e1f4fbb9cd535p+5"),
    float.fromhex("-0x1.a6c9df8e94876p+4"),
    float.fromhex("0x1.f3e318c9d179ap+2"),
]


def _taylor(n: int) -> tuple[float, float]:
    exact = Fraction((-1) ** (n // 2), math.factorial(n))
    return float(exact), float(exact - Fraction(float(exact)))


# n -> (high part, low part) of the Taylor coefficient of the sine (odd n) or cosine (even n) in radians
TAYLOR = {n: _taylor(n) for n in range(2, 21)}


# ---- waves: the same operations in the same order as in src/sincos.pxd and src/columns.pxd, and so the same bits ----


def angles(positions: Floats, turns: Floats) -> Pair:
    """Return double-double angles (rows, waves) in turns, with whole turns subtracted.

    positions has the shape (rows, axes). turns has the frequencies in turns per unit of position, of shape
    (2, axes, waves): high parts and low parts.
    """
    angle = low = np.zeros((len(positions), turns.shape[2]))
    for a in range(turns.shape[1]):
        p = positions[:, a, np.newaxis]
        term, term_error = two_product(p, turns[0, a])
        angle, sum_error = two_sum(angle, term - ((term + ROUNDER) - ROUNDER))
        low = low + (sum_error + (p * turns[1, a] + term_error))
    return angle, low


def angles_single(positions: Floats, radians: Floats) -> Pair:
    """Return double-double angles (rows, waves) in turns. They are first computed in radians, in float32.

    radians has the shape (2, axes, waves). radians[0] has the frequencies in radians, already rounded to float32.
    radians[1] is unused.
    """
    single = radians[0].astype(np.float32)
    angle = np.zeros((len(positions), single.shape[1]), np.float32)
    for a in range(len(single)):
        angle = angle + positions[:, a, np.newaxis].astype(np.float32) * single[a]
    exact = angle.astype(np.float64)
    turns, error = two_product(exact, PER_RADIAN)
    return turns - ((turns + ROUNDER) - ROUNDER), exact * PER_RADIAN_LOW + error


def nearest_quarter(turns: Floats) -> tuple[Floats, Bits]:
    """Return (turns minus the nearest multiple of a quarter turn, integer).

    The last two bits of the integer are the number of quarter turns in this multiple, modulo 4.
    """
    q = turns + QUARTERS
    return turns - (q - QUARTERS), q.view(np.uint64)


def apply_quadrant(quadrant: Bits, sine: Floats, cosine: Floats) -> Pair:
    """Return the sine and cosine of an angle plus quarter turns, whose number is in the last two bits of quadrant.

    For an odd number of quarter turns, sine and cosine are swapped. Then the signs are set.
    """
    one, top, sign = np.uint64(1), np.uint64(62), np.uint64(1 << 63)
    odd = (quadrant & one) == one
    s, c = np.where(odd, cosine, sine).view(np.uint64), np.where(odd, sine, cosine).view(np.uint64)
    s ^= (quadrant << top) & sign
    c ^= ((quadrant + one) << top) & sign
    return s.view(np.float64), c.view(np.float64)


def sincos(x: Floats, quadrant: Bits, fused: bool = False) -> Pair:
    """Return sine and cosine of an angle of `quadrant` quarter turns plus x turns, with errors up to 2^-51.

    If `fused` is true, a product and the following sum are rounded once, as by FMA. Otherwise both are rounded.
    """
    z = x * x
    values = []
    for coefficients in (SINE, COSINE):
        if fused:
            value = np.full_like(z, coefficients[6])
            for c in coefficients[5::-1]:
                value = fma(z, value, np.full_like(z, c))
        else:
            value, pair = np.full_like(z, coefficients[6]), z * z
            for k in (4, 2, 0):
                value = (coefficients[k] + z * coefficients[k + 1]) + pair * value
        values.append(value)
    return apply_quadrant(quadrant, x * values[0], values[1])


def sincos_dd(angle: Floats, angle_low: Floats) -> tuple[Pair, Pair]:
    """Return double-double sine and cosine of an angle in turns, by Taylor series, with errors up to 2^-65."""
    high, x_low = two_sum(angle, angle_low)
    x, quadrant = nearest_quarter(high)
    # r is x in radians, and z is the square of r
    r, r_low = product(x, x_low, TWO_PI, TWO_PI_LOW)
    z, z_low = product(r, r_low, r, r_low)

    def horner(c: float, c_low: float, value: Floats, low: Floats) -> Pair:
        """Return (c + c_low) + (z + z_low) * (value + low), double-double. c must be the largest term."""
        p, e = product(z, z_low, value, low)
        s = c + p
        return s, (p - (s - c)) + (e + c_low)

    def series(last: int, first: int) -> Pair:
        """Return T[first] + z * T[first + 2] + .. up to T[last], where T are the coefficients TAYLOR.

        Terms from T[7] on are so small that doubles are precise enough for their sum. The other terms are
        double-double.
        """
        value = np.full_like(z, TAYLOR[last][0])
        for n in range(last - 4, 6, -4):
            value = (TAYLOR[n][0] + z * TAYLOR[n + 2][0]) + z * z * value
        low = np.zeros_like(z)
        for n in range(6 - first % 2, first - 1, -2):
            value, low = horner(*TAYLOR[n], value, low)
        return value, low

    # sine is r + r * z * sum, not r * (1 + z * sum), so that a small angle keeps all its bits
    t, t_low = product(z, z_low, *series(19, 3))
    p, e = two_product(r, t)
    low = e + (r * t_low + r_low * (1.0 + t))
    sine = r + p
    sine_low = (p - (sine - r)) + low
    cosine, cosine_low = horner(1.0, 0.0, *series(20, 2))
    highs, lows = apply_quadrant(quadrant, sine, cosine), apply_quadrant(quadrant, sine_low, cosine_low)
    return (highs[0], lows[0]), (highs[1], lows[1])


# ---- the engine: the same classes as in the compiled kernel -----------------------------------------------------


class Plan:
    """Waves and columns of an encoding, as in the Plan of the compiled kernel."""

    def __init__(
        self,
        frequencies: Floats,
        largest: Floats,
        source: npt.NDArray[np.int32],
        amplitude: Floats,
        runs: npt.NDArray[np.int32],
        planar: bool,
    ) -> None:
        self.frequencies, self.largest = frequencies, largest
        self.source, self.amplitude, self.planar = source, amplitude, planar

    def encode(
        self,
        level: int,
        positions: Floats,
        out: npt.NDArray[Any],
        kind: int,
        single: bool = False,
        stores: int = 0,
        x: npt.NDArray[Any] | None = None,
        scale: float = 1.0,
    ) -> bytes | None:
        """Write the encoding to `out`, of shape (rows, width), or scale * x + encoding to `out`, (batch, rows, width).

        positions are float64 of shape (rows, axes). single is true if angles are float32 products. The argument stores
        is unused here. Return None if all rows are written. Otherwise return a byte for each row. It is 1 if the row
        needs exact arithmetic and was not written, else 0.
        """
        left = rows_left_out(positions, self.largest)
        self._encode_chosen(~left, positions, out, kind, single, x, scale)
        return left.tobytes() if left.any() else None

    def _encode_chosen(
        self,
        chosen: npt.NDArray[np.bool_],
        positions: Floats,
        out: npt.NDArray[Any],
        kind: int,
        single: bool,
        x: npt.NDArray[Any] | None,
        scale: float,
    ) -> None:
        """Write the rows for which the mask `chosen` is true."""
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            # compute a few rows at a time, so that temporary arrays stay in the cache
            rows = max(1, 32768 // max(len(self.source), 1))
            for first in range(0, len(positions), rows):
                part = slice(first, first + rows)
                in_part = chosen[part]
                if in_part.all():
                    self._encode(
                        positions[part], out[..., part, :], kind, single, None if x is None else x[:, part], scale
                    )
                elif in_part.any():
                    target = out[..., part, :][..., in_part, :]
                    self._encode(
                        positions[part][in_part],
                        target,
                        kind,
                        single,
                        None if x is None else x[:, part][:, in_part],
                        scale,
                    )
                    out[..., part, :][..., in_part, :] = target

    def _encode(
        self,
        positions: Floats,
        out: npt.NDArray[Any],
        kind: int,
        single: bool,
        x: npt.NDArray[Any] | None,
        scale: float,
    ) -> None:
        invalid = ~np.isfinite(positions).all(axis=1)
        if kind == FLOAT64.kind:
            high, low = self._exact(positions, self.source, self.amplitude, single)
            high[invalid], low[invalid] = np.nan, 0.0
            round_into(kind, high, low, out, x, scale)
            return
        waves = self._sincos_rows(positions, single)
        waves[invalid] = np.nan
        columns = waves[:, self.source]
        if x is not None:
            out[...] = add_rounded(kind, columns * self.amplitude, x, scale)
            return
        # `larger` and `smaller` are the rounded bounds of values with FMA. If the bounds of a value differ, its row is
        # computed again with FMA, because the compiled kernel uses FMA, and the bits must be equal.
        larger, smaller = (round_once(kind, columns * (self.amplitude * (1.0 + reach))) for reach in (REACH, -REACH))
        bits = f"u{larger.itemsize}"
        doubtful = (larger.view(bits) != smaller.view(bits)).any(axis=1)
        if doubtful.any():
            columns = self._sincos_rows(positions[doubtful], single, fused=True)[:, self.source]
            larger[doubtful] = round_once(kind, columns * self.amplitude)
        out[...] = larger

    def _sincos_rows(self, positions: Floats, single: bool, fused: bool = False) -> Floats:
        """Return rows of sines and cosines, as in `_row`, exact enough for output dtypes of at most 32 bits."""
        direct = np.zeros(len(positions), np.bool_)
        if len(self.largest) == 1 and not single:
            p = np.abs(positions[:, 0])
            direct = (p * self.largest[0] <= MOST_DIRECT) & (p <= SPLIT_LIMIT)
        x = np.empty((len(positions), self.frequencies.shape[2]))
        quadrant = np.empty(x.shape, np.uint64)
        if direct.any():
            p, (high, low) = positions[direct], self.frequencies[:, 0]
            t, error = two_product(p, high)
            remainder, quadrant[direct] = nearest_quarter(t)
            x[direct] = remainder + (p * low + error)
        if not direct.all():
            other = ~direct
            high, low = two_sum(*(angles_single if single else angles)(positions[other], self.frequencies))
            remainder, quadrant[other] = nearest_quarter(high)
            x[other] = remainder + low
        return self._row(*sincos(x, quadrant, fused))

    def _row(self, sine: Floats, cosine: Floats) -> Floats:
        """Return rows of sines and cosines. If self.planar, all sines come first.

        Otherwise the sine and cosine of each wave are adjacent.
        """
        return (
            np.concatenate([sine, cosine], axis=1)
            if self.planar
            else np.stack([sine, cosine], axis=2).reshape(len(sine), -1)
        )

    def _exact(
        self, positions: Floats, source: npt.NDArray[np.int32], amplitude: Floats | float, single: bool = False
    ) -> Pair:
        """Return rows as (high, low). Column c is amplitude[c] * row[source[c]], where `_row` returned row."""
        sine, cosine = sincos_dd(*(angles_single if single else angles)(positions, self.frequencies))
        high, low = (self._row(*parts)[:, source] for parts in zip(sine, cosine, strict=True))
        p, e = two_product(amplitude, high)
        return p, amplitude * low + e


class _Offsets:
    """Cosines and sines of columns at the offsets 0, step, 2 * step and so on, each computed at its first use."""

    def __init__(self, plan: Plan, sources: tuple[npt.NDArray[np.int32], ...], step: int, rows: int) -> None:
        self.plan, self.sources, self.step = plan, sources, step
        self.computed = np.zeros(rows, np.bool_)
        self.parts = np.empty((4, rows, len(sources[0])))

    def __call__(self, rows: npt.NDArray[np.int64]) -> Floats:
        """Return an array of (cosine, its low part, sine, its low part) at the offsets rows * step."""
        missing = np.unique(rows[~self.computed[rows]])
        if len(missing):
            positions = np.zeros((len(missing), self.plan.frequencies.shape[1]))
            positions[:, 1] = missing * self.step
            for k, source in enumerate(self.sources):
                self.parts[2 * k : 2 * k + 2, missing] = self.plan._exact(positions, source, 1.0)
            self.computed[missing] = True
        return self.parts[:, rows]


class Lattice:
    """Rows of integer positions, as in the Lattice of the compiled kernel.

    A span has 2**span_bits positions, and a block 2**block_bits. The middle row of a block is its anchor. Anchors are
    rotated from the first row of a span, and the rows of a block are rotated from its anchor.
    """

    def __init__(
        self,
        level: int,
        plan: Plan,
        quadrature_source: npt.NDArray[np.int32],
        quadrature_amplitude: Floats,
        cosine: npt.NDArray[np.int32],
        sine: npt.NDArray[np.int32],
        block_bits: int,
        span_bits: int,
        double_double: bool,
    ) -> None:
        self.plan, self.quadrature = plan, (quadrature_source, quadrature_amplitude)
        self.block_bits, self.span_bits, self.double_double = block_bits, span_bits, double_double
        self.fine = _Offsets(plan, (cosine, sine), 1, (1 << block_bits) // 2 + 1)
        self.coarse = _Offsets(plan, (cosine, sine), 1 << block_bits, 1 << (span_bits - block_bits))

    def table(
        self,
        level: int,
        span: int,
        offset: int,
        out: npt.NDArray[Any],
        kind: int,
        stores: int = 0,
        x: npt.NDArray[Any] | None = None,
        scale: float = 1.0,
    ) -> None:
        """Write the rows of consecutive integers to `out`, of shape (rows, width).

        The first integer is span * 2**span_bits + offset.
        With x, write scale * x + encoding to `out`, of shape (batch, rows, width). The argument stores is unused here.
        In the compiled kernel, it decides whether rows are written through the cache or past it.
        """
        offsets = offset + np.arange(out.shape[-2], dtype=np.int64)
        mask = (1 << self.span_bits) - 1
        self.rows(level, span + (offsets >> self.span_bits), offsets & mask, out, kind, stores, x, scale)

    def rows(
        self,
        level: int,
        spans: npt.NDArray[np.int64],
        offsets: npt.NDArray[Any],
        out: npt.NDArray[Any],
        kind: int,
        stores: int = 0,
        x: npt.NDArray[Any] | None = None,
        scale: float = 1.0,
    ) -> None:
        """Write the rows of the integers spans * 2**span_bits + offsets to `out`, of shape (rows, width).

        With x, write scale * x + encoding to `out`, of shape (batch, rows, width).
        """
        rows = max(1, 32768 // max(len(self.plan.source), 1))
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for first in range(0, len(spans), rows):
                part = slice(first, first + rows)
                target, addend = out[..., part, :], None if x is None else x[:, part]
                high, low = self._rotated(spans[part], offsets[part].astype(np.int64))
                if self.double_double:
                    round_into(kind, high, low, target, addend, scale)
                else:
                    target[...] = add_rounded(kind, high, addend, scale)

    def _rotated(self, spans: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> Pair:
        """Return rows, rotated from the anchors of blocks. The anchors are rotated from the first rows of spans."""
        # An anchor is the middle row of a block. The last half block of a span belongs to an anchor in the next span.
        block = (offsets + (1 << self.block_bits >> 1)) >> self.block_bits
        offset = offsets - (block << self.block_bits)
        bits = self.span_bits - self.block_bits
        # Compute each span and each anchor only once. The number of an anchor is (span_of_row << bits) + the number of
        # the block in the span.
        distinct_spans, span_of_row = np.unique(spans + (block >> bits), return_inverse=True)
        anchors, anchor_of_row = np.unique((span_of_row << bits) + (block & ((1 << bits) - 1)), return_inverse=True)
        value, quadrature = self._exact(distinct_spans)
        span_of_anchor = anchors >> bits
        value, quadrature = ((high[span_of_anchor], low[span_of_anchor]) for high, low in (value, quadrature))
        coarse = self.coarse(anchors & ((1 << bits) - 1))
        value, quadrature = self._rotate(value, quadrature, coarse, 1.0), self._rotate(quadrature, value, coarse, -1.0)
        value, quadrature = ((high[anchor_of_row], low[anchor_of_row]) for high, low in (value, quadrature))
        sign = np.where(offset >= 0, 1.0, -1.0)[:, np.newaxis]
        return self._rotate(value, quadrature, self.fine(np.abs(offset)), sign)

    def _exact(self, spans: npt.NDArray[np.int64]) -> tuple[Pair, Pair]:
        """Return (values, quadratures) at the positions spans * 2**span_bits, as sums of two doubles."""
        shift = 32 - self.span_bits
        # Split a position into the nearest multiple of 2**32 and a remainder. With the next lower multiple instead,
        # small negative positions would get the multiple -1 and a large remainder, and lose precision.
        multiples = (spans + (1 << (shift - 1))) >> shift
        remainders = (spans - (multiples << shift)) << self.span_bits
        columns = [multiples, remainders, np.ones_like(remainders)][: self.plan.frequencies.shape[1]]
        positions = np.stack(columns, axis=1).astype(np.float64)
        plan = self.plan
        return plan._exact(positions, plan.source, plan.amplitude), plan._exact(positions, *self.quadrature)

    def _rotate(self, value: Pair, quadrature: Pair, offset: Floats, sign: Floats | float) -> Pair:
        """Return value * cosine + sign * quadrature * sine as (high, low).

        offset has (cosine, its low part, sine, its low part). If self.double_double is false, callers ignore low.
        """
        cosine, cosine_low, sine, sine_low = offset
        if not self.double_double:
            return value[0] * cosine + sign * (quadrature[0] * sine), value[1]
        a, a_low = product(*value, cosine, cosine_low)
        b, b_low = product(*quadrature, sine, sine_low)
        return total(a, a_low, sign * b, sign * b_low)


def merge(
    level: int,
    outer: npt.NDArray[np.uint16],
    inner: npt.NDArray[np.uint16],
    out: npt.NDArray[np.uint16],
    stores: int = 0,
) -> None:
    """Write outer | inner to `out`, with shapes (batch, width), (rows, width) and (batch, rows, width).

    The arrays contain 16-bit pieces of values of any type. The argument stores is as in `Lattice.table`.
    """
    np.bitwise_or(outer[:, np.newaxis], inner, out=out)


def rotate(
    level: int,
    angles: npt.NDArray[Any],
    x: npt.NDArray[Any],
    out: npt.NDArray[Any],
    kind: int,
    layout: int,
    stores: int = 0,
) -> None:
    """Rotate the pairs of x, of shape (groups, batches, heads, rows, width), and write them to `out`, which may be x.

    angles is a C-contiguous array (groups, rows, 2 * pairs) of cosines and then sines. It is float64, or float32 if x
    has a 16-bit type. layout is 0 if the two values of a pair are `pairs` values apart, and 1 if they are adjacent. It
    is 2 if they are adjacent in x and `pairs` values apart in `out`. Values behind the pairs are copied. The argument
    stores is as in `Lattice.table`.
    """
    pairs = angles.shape[-1] // 2
    halves, neighbours = (slice(pairs), slice(pairs, 2 * pairs)), (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    cosine, sine = (angles[:, np.newaxis, np.newaxis, :, half] for half in halves)
    first, second = (x[..., part] for part in (halves if layout == 0 else neighbours))
    beyond_float32 = _may_leave_float32(first) | _may_leave_float32(second) if kind == BFLOAT16.kind else np.False_
    first, second = (values_of(kind, part) for part in (first, second))
    if out is not x:
        out[..., 2 * pairs :] = x[..., 2 * pairs :]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        rotated = _products(first.astype(angles.dtype), second.astype(angles.dtype), cosine, sine)
        if kind == BFLOAT16.kind:
            rotated = [_nearest_bfloat(value) for value in rotated]
        else:
            rotated = [round_once(kind, value.astype(np.float64)) for value in rotated]
        if beyond_float32.any():
            doubles = _products(first, second, cosine.astype(np.float64), sine.astype(np.float64))
            rotated = [
                np.where(beyond_float32, round_once(kind, double), rounded)
                for double, rounded in zip(doubles, rotated, strict=True)
            ]
        for part, value in zip(neighbours if layout == 1 else halves, rotated, strict=True):
            out[..., part] = value


def _products(
    first: npt.NDArray[Any], second: npt.NDArray[Any], cosine: npt.NDArray[Any], sine: npt.NDArray[Any]
) -> list[npt.NDArray[Any]]:
    return [first * cosine - second * sine, second * cosine + first * sine]


def _nearest_bfloat(x: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16. Ties round away from zero, as in the compiled kernel.

    No rule for ties is more accurate than another, because x itself was rounded.
    """
    return ((x.view(np.uint32) + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)


def _may_leave_float32(x: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    """Return a mask of the bfloat16 values whose products with cosines and sines may leave the range of float32."""
    size = x & np.uint16(0x7FFF)
    return np.asarray(((size != 0) & (size < 0x80)) | (size >= 0x7000))
