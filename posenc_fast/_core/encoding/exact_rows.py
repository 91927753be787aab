"""Compute rows in exact arithmetic, thousands of times slower than in doubles.

A row needs exact arithmetic if a component of its position times a frequency exceeds 2**49 turns. A 64-bit integer has
two components, its upper and its lower 32 bits, so their products exceed this limit only at high frequencies. A row
also needs exact arithmetic if a number is too large for `two_product`, or if an angle is so small that the error of a
product underflows.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ..numbers import annotations as npt
from ..numbers import exact as _exact
from ..numbers import schedule as _schedule
from ..numbers.exact import Real
from .sinusoids import Sinusoids


def _bits_of(number: Fraction) -> int:
    """Return an upper bound of the number of bits before the binary point."""
    return max(0, number.numerator.bit_length() - number.denominator.bit_length() + 1)


def exact_row(sinusoids: Sinusoids, position: list[Fraction], single: bool) -> npt.NDArray[np.float64]:
    """Return the exact row of a position as an array (2, d): high parts and low parts of the values.

    single: whether angles are products in float32. The row is then that of the rounded angles.
    """
    waves = sinusoids.waves()
    # enough bits for all whole turns of the angle, even if position and frequency are large
    largest = max(0, math.frexp(np.abs(sinusoids.radians()).max())[1])
    bits = _exact.PAIR_BITS + max(_bits_of(p) for p in position) + largest + 64
    frequencies: list[Fraction] = []
    for schedule in sinusoids.schedules:
        frequencies += _schedule.exact_turns(schedule, bits)
    angles: list[Real] = []
    infinite = np.zeros(len(waves.residual), np.bool_)
    if single:
        # each operation rounds to float32, as in a framework
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for j in range(len(waves.residual)):
                angle = np.float32(0)
                for a, p in enumerate(position):
                    k = waves.frequency[j, a]
                    angle += np.float32(float(p)) * np.float32(sinusoids.radians()[k] if k >= 0 else 0.0)
                angle += np.float32(2 * np.pi * waves.residual[j])
                # the sine of an infinite angle is NaN
                infinite[j] = not np.isfinite(angle)
                angles.append((0, 0) if infinite[j] else _in_turns(Fraction(*angle.as_integer_ratio()), bits + 128))
    else:
        for j in range(len(waves.residual)):
            total = Fraction(*float(waves.residual[j]).as_integer_ratio())
            for a, p in enumerate(position):
                k = waves.frequency[j, a]
                if k >= 0:
                    total += p * frequencies[k]
            angles.append(
                _exact.divide(total.numerator, total.denominator, _exact.PAIR_BITS + 64 + _bits_of(abs(total)))
            )
    sines_and_cosines = [_exact.sincos_turns(angle, _exact.PAIR_BITS) for angle in angles]
    columns = []
    for c in range(sinusoids.width):
        mantissa, exponent = sines_and_cosines[waves.wave[c]][waves.quadrant[c] % 2]
        sign = -1 if waves.quadrant[c] >= 2 else 1
        numerator, denominator = float(sinusoids.amplitudes[c]).as_integer_ratio()
        columns.append((sign * mantissa * numerator, exponent + 1 - denominator.bit_length()))
    parts = _exact.split(columns)
    parts[:, infinite[waves.wave]] = np.nan
    return parts


def _in_turns(angle: Fraction, bits: int) -> Real:
    mantissa, exponent = _exact.two_pi(bits)
    return _exact.divide(angle.numerator << -exponent, angle.denominator * mantissa, bits)
