"""What is computed: the encodings in pure Python and NumPy, with the accuracy of the compiled kernel.

This module is three things in one: the definition that a reader reads first, the fallback when there is no compiled
kernel, and the oracle of first resort. It has the public names of the package, bound to this implementation, and
the two short programs that every tutorial shows.

Every encoding is a row of independent sinusoids::

    out[n, c] = amplitude[c] * sin(sum_a position[n, a] * frequency[c, a] + 2 pi phase[c])

A *wave* is one frequency with one residual phase, in turns; its sine and cosine serve every column that is a quarter
turn apart. Doubles are kept in pairs (high, low) whose sum is meant, so that position * turns is known to 106 bits:
whole turns can then be subtracted without a loss, whatever the position.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _api, _backend, _encoding, _grid, _periods, _rotary, _schedule
from ._doubles import Floats, Pair, product, two_product, two_sum
from ._rounding import deliver, hard_rows, round_to, values_of

__all__ = [
    "Encoding",
    "Rotary",
    "fourier_features",
    "geometric",
    "grid",
    "join",
    "linear",
    "periodic",
    "permute_rotary",
    "positional_encoding",
    "sinusoidal",
    "vaswani_loops",
    "vaswani_numpy",
]

TWO_PI, TWO_PI_LOW = float.fromhex("0x1.921fb54442d18p+2"), float.fromhex("0x1.1a62633145c07p-52")
PER_RADIAN, PER_RADIAN_LOW = float.fromhex("0x1.45f306dc9c883p-3"), float.fromhex("-0x1.6b01ec5417056p-57")


def _inverse_factorial(n: int) -> tuple[float, float]:
    exact = Fraction(1, math.factorial(n))
    return float(exact), float(exact - Fraction(float(exact)))


# high and low parts of 1/n!
INVERSE_FACTORIALS = {n: _inverse_factorial(n) for n in range(2, 22)}


# ---- the two programs of the tutorials --------------------------------------------------------------------------


def vaswani_loops(length: int, d_model: int) -> Floats:
    """The paper's formula as a double loop.

    Parameters
    ----------
    length, d_model : int
        Rows and columns.

    Returns
    -------
    ndarray of float64, shape (length, d_model)

    Notes
    -----
    PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i+1) = cos(p / 10000^(2i/d)): section 3.5 of Vaswani et al.,
    "Attention Is All You Need", 2017, arXiv:1706.03762.

    Examples
    --------
    >>> from posenc_fast import reference
    >>> reference.vaswani_loops(2, 2)
    array([[0.        , 1.        ],
           [0.84147098, 0.54030231]])
    """
    table = np.empty((length, d_model))
    for p in range(length):
        for c in range(d_model):
            angle = p / 10000.0 ** ((c - c % 2) / d_model)
            table[p, c] = math.sin(angle) if c % 2 == 0 else math.cos(angle)
    return table


def vaswani_numpy(length: int, d_model: int) -> Floats:
    """The paper's formula in array operations.

    Parameters
    ----------
    length, d_model : int
        Rows and columns.

    Returns
    -------
    ndarray of float64, shape (length, d_model)

    Notes
    -----
    The formula of `vaswani_loops`, in the form in which tutorials vectorise it.

    Examples
    --------
    >>> from posenc_fast import reference
    >>> reference.vaswani_numpy(2, 2)
    array([[0.        , 1.        ],
           [0.84147098, 0.54030231]])
    """
    positions = np.arange(length)[:, np.newaxis]
    frequencies = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    table = np.empty((length, d_model))
    table[:, 0::2] = np.sin(positions * frequencies)
    table[:, 1::2] = np.cos(positions * frequencies[: d_model // 2])
    return table


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
    ) -> int:
        """Fill out (rows, width), or write scale * x + encoding to out (batch, rows, width).

        positions: float64 (rows, axes). Returns how many rows could not be done; they are left as they were.
        """
        hard = hard_rows(positions, self.largest, kind)
        self._encode_chosen(~hard, positions, out, kind, single, x, scale)
        return int(hard.sum())

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
        return self.encode(level, np.array([[position]], np.float64), out[np.newaxis], kind) == 0

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


def rotate(level: int, angles: Floats, x: npt.NDArray[Any], out: npt.NDArray[Any], kind: int, layout: int) -> None:
    """Turn the pairs of x (groups, batches, heads, rows, width) into out, which may be x.

    angles: (groups, rows, 2 * pairs), cosines, then sines. layout: 0 for pairs half a row apart, 1 for pairs side by
    side, 2 for pairs side by side in x that are half a row apart in out. Values behind the pairs stay.
    """
    pairs = angles.shape[-1] // 2
    halves, neighbours = (slice(pairs), slice(pairs, 2 * pairs)), (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    cosine, sine = (angles[:, np.newaxis, np.newaxis, :, half] for half in halves)
    first, second = (values_of(kind, x[..., part]) for part in (halves if layout == 0 else neighbours))
    if out is not x:
        out[..., 2 * pairs :] = x[..., 2 * pairs :]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        turned = first * cosine - second * sine, second * cosine + first * sine
        for part, value in zip(neighbours if layout == 1 else halves, turned, strict=True):
            out[..., part] = round_to(kind, value, np.zeros_like(value))


# ---- the package's public names, bound to this implementation ---------------------------------------------------


class Encoding(_encoding.Encoding):
    __doc__ = _encoding.Encoding.__doc__
    __slots__ = ()
    _pinned = "python"


class Rotary(_rotary.Rotary):
    __doc__ = _rotary.Rotary.__doc__
    __slots__ = ()
    _pinned = "python"
    _encodings = Encoding


def _bound(function: Any) -> Any:
    """The same builder, for an Encoding that computes here."""

    @functools.wraps(function)
    def build(*args: Any, **kwargs: Any) -> Encoding:
        return Encoding._adopt(function(*args, **kwargs))

    return build


sinusoidal = _bound(_api.sinusoidal)
fourier_features = _bound(_api.fourier_features)
join = _bound(_api.join)
geometric = _schedule.geometric
permute_rotary = _rotary.permute_rotary
linear = _schedule.linear
periodic = _periods.periodic


def _here(function: Any) -> Any:
    """The same function, computing here."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> npt.NDArray[Any]:
        with _backend.use_backend("python"):
            return function(*args, **kwargs)  # type: ignore[no-any-return]

    return call


positional_encoding = _here(_api.positional_encoding)
grid = _here(_grid.grid)
