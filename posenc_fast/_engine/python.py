"""The engine in NumPy: the twin of the compiled kernel, with its accuracy and its classes `Plan` and `Lattice`.

A *wave* is one frequency with one residual phase, in turns; its sine and cosine serve every column that is a quarter
turn apart. Doubles are kept in pairs (high, low) whose sum is meant, so that position * turns is known to 106 bits:
whole turns can then be subtracted without a loss, whatever the position.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .._numbers.doubles import Floats, Pair, product, two_product, two_sum
from .._numbers.rounding import BFLOAT16, deliver, hard_rows, round_to, values_of

__all__ = ["Lattice", "Plan", "rotate"]

TWO_PI, TWO_PI_LOW = float.fromhex("0x1.921fb54442d18p+2"), float.fromhex("0x1.1a62633145c07p-52")
PER_RADIAN, PER_RADIAN_LOW = float.fromhex("0x1.45f306dc9c883p-3"), float.fromhex("-0x1.6b01ec5417056p-57")


def _inverse_factorial(n: int) -> tuple[float, float]:
    exact = Fraction(1, math.factorial(n))
    return float(exact), float(exact - Fraction(float(exact)))


# high and low parts of 1/n!
INVERSE_FACTORIALS = {n: _inverse_factorial(n) for n in range(2, 22)}


# ---- waves ------------------------------------------------------------------------------------------------------


def angles(positions: Floats, turns: Floats) -> Pair:
    """Angles in turns, whole turns taken off: positions (rows, axes), turns (2, axes, waves) -> (rows, waves)."""
    angle = low = np.zeros((len(positions), turns.shape[2]))
    for a in range(turns.shape[1]):
        p = positions[:, a, np.newaxis]
        t, e = two_product(p, turns[0, a])
        angle, error = two_sum(angle, t - np.rint(t))
        low = low + (error + (p * turns[1, a] + e))
    return angle, low


def angles_single(positions: Floats, radians: Floats) -> Pair:
    """The same with float32 frequencies in radians and float32 products, as float32 frameworks have them."""
    single = radians[0].astype(np.float32)
    angle = np.zeros((len(positions), single.shape[1]), np.float32)
    for a in range(len(single)):
        angle = angle + positions[:, a, np.newaxis].astype(np.float32) * single[a]
    exact = angle.astype(np.float64)
    t, e = two_product(exact, PER_RADIAN)
    return t - np.rint(t), exact * PER_RADIAN_LOW + e


def sincos(turns: Floats, turns_low: Floats) -> tuple[Pair, Pair]:
    """Sine and cosine of an angle in turns, each a sum of two doubles to 2^-65: Taylor's series about quarter turns."""
    h, h_low = two_sum(turns, turns_low)
    quadrant = np.rint(4.0 * h)
    r, r_low = product(h - 0.25 * quadrant, h_low, TWO_PI, TWO_PI_LOW)
    z, z_low = product(r, r_low, r, r_low)

    def series(first: int) -> Pair:
        """1/first! - z/(first + 2)! + z^2/(first + 4)! - ..: the small terms in one double, the large in two."""
        value, low = np.zeros_like(z), np.zeros_like(z)
        for n in range(first + 18, first - 1, -2):
            c, c_low = ((-1) ** ((n - first) // 2) * part for part in INVERSE_FACTORIALS[n])
            if n > 6:
                value = c + z * value
            else:
                p, e = product(z, z_low, value, low)
                value = c + p
                low = (p - (value - c)) + (e + c_low)
        return value, low

    # the leading terms stand apart, so that a small angle keeps its own bits
    s, s_low = product(r, r_low, *product(z, z_low, *series(3)))
    sine = r - s
    sine_low = (-s - (sine - r)) + (r_low - s_low)
    c, c_low = product(z, z_low, *series(2))
    cosine = 1.0 - c
    cosine_low = ((1.0 - cosine) - c) - c_low

    swap = quadrant % 2 == 1
    sign_s = np.where(quadrant % 4 >= 2, -1.0, 1.0)
    sign_c = np.where((quadrant + 1) % 4 >= 2, -1.0, 1.0)
    return (
        (sign_s * np.where(swap, cosine, sine), sign_s * np.where(swap, cosine_low, sine_low)),
        (sign_c * np.where(swap, sine, cosine), sign_c * np.where(swap, sine_low, cosine_low)),
    )


# ---- the engine: the same classes as the compiled one's ---------------------------------------------------------


class Plan:
    """Waves and columns of an encoding: the twin of the compiled kernel's Plan, see there."""

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
        x: npt.NDArray[Any] | None = None,
        scale: float = 1.0,
    ) -> bytes | None:
        """Fill out (rows, width), or write scale * x + encoding to out (batch, rows, width).

        positions: float64 (rows, axes). Returns None, or where rows could not be done and are left as they were a byte
        for each row: 1 for those.
        """
        hard = hard_rows(positions, self.largest)
        self._encode_chosen(~hard, positions, out, kind, single, x, scale)
        return hard.tobytes() if hard.any() else None

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
        """Some of the rows."""
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            # a few rows at a time, so that the temporaries stay in the cache
            rows = max(1, 32768 // max(len(self.source), 1))
            for first in range(0, len(positions), rows):
                part = slice(first, first + rows)
                some = chosen[part]
                if some.all():
                    self._encode(
                        positions[part], out[..., part, :], kind, single, None if x is None else x[:, part], scale
                    )
                elif some.any():
                    target = out[..., part, :][..., some, :]
                    self._encode(
                        positions[part][some], target, kind, single, None if x is None else x[:, part][:, some], scale
                    )
                    out[..., part, :][..., some, :] = target

    def encode_one(self, level: int, position: float, out: npt.NDArray[Any], kind: int) -> bool:
        """Fill out (width,) for one position of one axis; False if that could not be done."""
        return self.encode(level, np.array([[position]], np.float64), out[np.newaxis], kind) is None

    def _encode(
        self,
        positions: Floats,
        out: npt.NDArray[Any],
        kind: int,
        single: bool,
        x: npt.NDArray[Any] | None,
        scale: float,
    ) -> None:
        angle = (angles_single if single else angles)(positions, self.frequencies)
        sine, cosine = sincos(*angle)
        if self.planar:
            waves = [np.concatenate(parts, axis=1) for parts in zip(sine, cosine, strict=True)]
        else:
            waves = [np.stack(parts, axis=2).reshape(len(positions), -1) for parts in zip(sine, cosine, strict=True)]
        high, low = product(waves[0][:, self.source], waves[1][:, self.source], self.amplitude, 0.0)
        deliver(kind, high, low, out, x, scale)


class Lattice:
    """Rows of integer positions: the twin of the compiled kernel's Lattice, without its rotations."""

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
        wide: bool,
    ) -> None:
        self.plan, self.span_bits = plan, span_bits

    def table(
        self,
        level: int,
        span: int,
        offset: int,
        out: npt.NDArray[Any],
        kind: int,
        stream: bool = False,
        x: npt.NDArray[Any] | None = None,
        scale: float = 1.0,
    ) -> None:
        """Fill out (rows, width): consecutive integers from span * 2**span_bits + offset on.

        Or write scale * x + encoding to out (batch, rows, width).
        """
        offsets = offset + np.arange(out.shape[-2], dtype=np.int64)
        mask = (1 << self.span_bits) - 1
        self.rows(level, span + (offsets >> self.span_bits), offsets & mask, out, kind, x, scale)

    def rows(
        self,
        level: int,
        spans: npt.NDArray[np.int64],
        offsets: npt.NDArray[Any],
        out: npt.NDArray[Any],
        kind: int,
        x: npt.NDArray[Any] | None = None,
        scale: float = 1.0,
    ) -> None:
        """Fill out (rows, width), or write scale * x + encoding to out (batch, rows, width): any integers."""
        shift = 32 - self.span_bits
        # the nearest multiple of 2**32, so that what is left is small where the position is, on both sides of zero
        multiples = (spans + (1 << (shift - 1))) >> shift
        rest = ((spans - (multiples << shift)) << self.span_bits) + offsets
        columns = [multiples, rest, np.ones_like(rest)][: self.plan.frequencies.shape[1]]
        positions = np.stack(columns, axis=1).astype(np.float64)
        # like the kernel's lattice this one leaves no row out, however many turns it is away
        self.plan._encode_chosen(np.ones(len(positions), np.bool_), positions, out, kind, False, x, scale)


def rotate(
    level: int, angles: npt.NDArray[Any], x: npt.NDArray[Any], out: npt.NDArray[Any], kind: int, layout: int
) -> None:
    """Turn the pairs of x (groups, batches, heads, rows, width) into out, which may be x.

    angles: (groups, rows, 2 * pairs), cosines, then sines; float64, or float32 where x is of 16-bit floats, which are
    turned in that. layout: 0 for pairs half a row apart, 1 for pairs side by side, 2 for pairs side by side in x that
    are half a row apart in out. Values behind the pairs stay.
    """
    pairs = angles.shape[-1] // 2
    halves, neighbours = (slice(pairs), slice(pairs, 2 * pairs)), (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    cosine, sine = (angles[:, np.newaxis, np.newaxis, :, half] for half in halves)
    first, second = (x[..., part] for part in (halves if layout == 0 else neighbours))
    far = _is_far(first) | _is_far(second) if kind == BFLOAT16.kind else np.False_
    first, second = (values_of(kind, part) for part in (first, second))
    if out is not x:
        out[..., 2 * pairs :] = x[..., 2 * pairs :]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        turned = _products(first.astype(angles.dtype), second.astype(angles.dtype), cosine, sine)
        if far.any():
            doubles = _products(first, second, cosine.astype(np.float64), sine.astype(np.float64))
            turned = [np.where(far, *both) for both in zip(doubles, turned, strict=True)]
        for part, value in zip(neighbours if layout == 1 else halves, turned, strict=True):
            # a zero keeps its sign when -0.0 is added
            out[..., part] = round_to(kind, value.astype(np.float64), np.full(value.shape, -0.0))


def _products(
    first: npt.NDArray[Any], second: npt.NDArray[Any], cosine: npt.NDArray[Any], sine: npt.NDArray[Any]
) -> list[npt.NDArray[Any]]:
    return [first * cosine - second * sine, second * cosine + first * sine]


def _is_far(x: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    """Which bfloat16 have products with cosines and sines that may leave the range of float32: those are doubles."""
    size = x & np.uint16(0x7FFF)
    return np.asarray(((size != 0) & (size < 0x80)) | (size >= 0x7000))
