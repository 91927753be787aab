"""Create schedules of exact periods, and compute the angle of each position for each period.

A sum of two doubles represents 1/86400 with an error. With this sum as frequency, the sine of midnight would be about
2**-80 instead of 0. So whole turns and quarter turns are first subtracted from the position, without error. Only the
rest is divided by the period.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from ...typing import Cycle
from ..numbers import annotations as npt
from ..numbers import exact as _exact
from ..numbers.arguments import shown
from ..numbers.arrays import Floats
from ..numbers.doubles import Pair, product, two_product, two_sum
from ..numbers.schedule import Periodic, Schedule
from ..positions.positions import InTurns, Positions, Progression, pair
from ..positions.times import SECONDS, time_of
from .sinusoids import Period

# shortest and longest period; both, and their reciprocals, are far within the range of float64
_SHORTEST, _LONGEST = Fraction(1, 2**500), Fraction(2**500)
_UNITS = SECONDS | {"min": SECONDS["m"], "µs": SECONDS["us"]}
# units in the labels of periods, from the largest to the smallest
_WRITTEN = ("D", "h", "min", "s", "ms", "us", "ns", "ps", "fs", "as")
_TEXT = r"(\d+\.?\d*|\.\d+)?\s*([A-Za-zµ]+)"
# This is the maximum number of turns for which `_of_floats` counts quarter turns without error. It is also the maximum
# denominator of a period that `_quotient` accepts.
_EXACT_COUNT = 2.0**40
# number of angles in a block, so that temporary arrays stay in the cache
_VALUES = 8192


def periodic(periods: Any) -> Schedule:
    """Return the frequencies ``2 pi / period``, so that a whole period is exactly one turn.

    Parameters
    ----------
    periods : sequence of shape (k,)
        Lengths of a turn in units of position: real numbers (int, float, Fraction, Decimal), used without rounding. If
        positions are times, numbers are seconds, so 24 means 24 seconds. For times, or positions in seconds, you can
        also pass timedelta64, `datetime.timedelta`, `pandas.Timedelta`, or text such as "1D", "12h" or "365.2425D".
        Text is a decimal number (default: 1), followed by a unit: W, D, h, min (or m), s, ms, us, ns, ps, fs or as.

    Returns
    -------
    Schedule
        k frequencies, for the parameter ``frequencies`` of `sinusoidal` or `fourier_features`.

    Raises
    ------
    TypeError, ValueError
        If a period is invalid, if numbers and times are mixed, or if periods is empty.

    Notes
    -----
    The angle of position p is p / period turns, and the period is not rounded. At a whole number of quarter turns, the
    sine and the cosine are exactly 0, 1 or -1, for any position and any dtype. For example, the sine of midnight is 0
    at any date. With ``precision="float32"``, these values are not exact. Columns with such frequencies take longer
    than other columns, because each angle is computed separately, also in tables.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> clock = pf.fourier_features(pf.periodic(["1D", "7D"]))
    >>> clock.encode(np.datetime64("2026-01-01T00:00"))[::2]
    array([0., 1.], dtype=float32)
    """
    if isinstance(periods, str) or not isinstance(periods, Iterable) or getattr(periods, "ndim", 1) != 1:
        raise ValueError(f"periods must be a sequence of periods, such as ['1D', '7D'], not {periods!r}")
    items = list(periods)
    if not items:
        raise ValueError(f"periods must have at least one period, not {periods!r}")
    lengths = tuple(exact_period(period) for period in items)
    times, numbers = ([period for period in items if has_unit(period) is with_unit] for with_unit in (True, False))
    if times and numbers:
        raise ValueError(
            f"periods has {numbers[0]!r} without a unit and {times[0]!r} with a unit. Add a unit to all periods, as in "
            "'24h'. Leave out all units if positions are not times, or if the periods are in seconds"
        )
    return Periodic(lengths)


def exact_period(period: Any) -> Fraction:
    """Return the length of a period, in seconds if the period is a time. Raise an error if the period is invalid."""
    value = _exactly(period)
    if value <= 0:
        raise ValueError(f"periods must be positive, not {shown(period)}")
    if not _SHORTEST <= value <= _LONGEST:
        raise ValueError(f"periods must lie between 2**-500 and 2**500, not {shown(period)}")
    return value


def length_of(period: Any) -> str:
    """Return a period as text. Text is unchanged, and a plain number has no unit.

    A time becomes a whole number of the largest unit that divides it, without weeks.
    """
    if isinstance(period, str):
        return period
    value = exact_period(period)
    if not has_unit(period):
        return str(value if value.denominator == 1 else period)
    unit = next(name for name in _WRITTEN if (value / _UNITS[name]).denominator == 1)
    return f"{value / _UNITS[unit]}{unit}"


def has_unit(period: Any) -> bool:
    """Return whether a period is a time, not a plain number."""
    return isinstance(period, (str, datetime.timedelta, np.timedelta64)) or np.asarray(period).dtype.kind == "m"


def _exactly(period: Any) -> Fraction:
    if isinstance(period, str):
        if period in get_args(Cycle):
            raise ValueError(
                f"periods has {period!r}, a calendar cycle without a fixed length. Use "
                "posenc_fast.presets.positions.calendar to compute the elapsed fraction of a cycle, or "
                "posenc_fast.sklearn.PositionalEncoder, which accepts calendar cycles"
            )
        match = re.fullmatch(_TEXT, period.strip())
        if match is None or match[2] not in _UNITS:
            raise ValueError(
                f"periods has {period!r}, but a period in text must be a number followed by one of the units "
                f"{', '.join(_UNITS)}, as in '1D' or '12h'"
            )
        return Fraction(match[1] or 1) * _UNITS[match[2]]
    if isinstance(period, np.ndarray) and period.ndim == 0:
        period = period[()]
    if isinstance(period, np.timedelta64) and (np.datetime_data(period.dtype)[0] not in SECONDS or np.isnat(period)):
        raise ValueError(
            f"periods has {period!r}, but a timedelta must not be NaT, and must be in weeks or smaller units, which "
            "have a fixed length"
        )
    if isinstance(period, (datetime.timedelta, np.timedelta64)):
        time = time_of(period, "periods")
        assert time is not None
        return time.number * time.unit
    if isinstance(period, (bool, np.bool_)) or not isinstance(
        period, (int, float, Fraction, Decimal, np.integer, np.floating)
    ):
        raise TypeError(f"periods must be real numbers, timedeltas or text such as '1D', not {period!r}")
    if isinstance(period, (int, np.integer)):
        return Fraction(int(period))
    if isinstance(period, Fraction):
        return period
    if not (math.isfinite(period) and isinstance(period, (float, Decimal, np.floating))):
        raise ValueError(f"periods must be finite, not {period!r}")
    return Fraction(*period.as_integer_ratio())


class Turns:
    """Computes the angle of each position for each period: position / period, in turns, without whole turns.

    Each period belongs to one axis of the positions. The attributes have one entry for each period. counted has the
    length in units of the positions. quotients has the results of `_quotient` for these lengths, or is None if one
    result is None. ratios has the numerators and denominators of these lengths, or is None if one of these integers is
    too large for `_of_integers`. inverse has 1 / (4 numerator), in high and low parts.
    """

    def __init__(self, periods: Sequence[Period], unit: Fraction) -> None:
        self.axes = [period.axis for period in periods]
        self.periods = [period.length for period in periods]
        self.counted = [period / unit for period in self.periods]
        quotients = [_quotient(period) for period in self.counted]
        self.quotients = None if None in quotients else np.array(quotients).T
        ratios = [period.as_integer_ratio() for period in self.counted]
        small = all(max(8 * n, n * d) < 2**63 for n, d in ratios)
        self.ratios = np.array(ratios, np.uint64).T if small else None
        self.inverse = np.array([pair(Fraction(1, 4 * n)) for n, _ in ratios]).T

    def of(self, positions: Positions, part: slice) -> Floats:
        """Return the angles in turns, without whole turns, as an array (rows, 2 * periods).

        The first half of a row has the high parts for all periods, the second half the low parts. An angle that is a
        whole number of quarter turns is exact. The angle of a position that is not finite is arbitrary.
        """
        count = len(self.axes)
        result = np.empty((part.stop - part.start, 2 * count))
        step = max(1, _VALUES // count)
        with np.errstate(invalid="ignore", under="ignore"):
            for first in range(part.start, part.stop, step):
                chunk = slice(first, min(first + step, part.stop))
                rows = result[first - part.start : chunk.stop - part.start]
                rows[:, :count], rows[:, count:] = self._angles(positions, chunk)
        return result

    def _angles(self, positions: Positions, part: slice) -> Pair:
        if isinstance(positions, InTurns):
            return positions.turns(part)
        if positions.form == "real" and self.quotients is not None:
            return _of_floats(positions.components(part, False)[:, self.axes], self.quotients)
        if positions.form == "integer" and self.ratios is not None:
            components = positions.components(part, False)
            sign = np.where((components < 0).reshape(len(components), 2, -1).any(axis=1), -1.0, 1.0)[:, self.axes]
            counts = np.nan_to_num(np.abs(components)).astype(np.uint64)
            magnitudes = (counts[:, : counts.shape[1] // 2] << np.uint64(32)) + counts[:, counts.shape[1] // 2 :]
            angle, angle_low = _of_integers(magnitudes[:, self.axes], self.ratios, self.inverse)
            return sign * angle, sign * angle_low
        integers, unit = _integers(positions, part)
        pairs = [
            _of_any(integers[:, axis], period / unit) for axis, period in zip(self.axes, self.periods, strict=True)
        ]
        high, low = np.stack(pairs, axis=2)
        return high, low


def _quotient(period: Fraction) -> tuple[float, ...] | None:
    """Return doubles (n, d, high, low), where n / d equals the period, and high + low is about 1 / n.

    d is 1 if float64 represents the period. Return None if float64 cannot represent n, or if n or d is too large.
    """
    if Fraction(float(period)) == period:
        return float(period), 1.0, *pair(1 / period)
    n, d = period.as_integer_ratio()
    if n > 2**900 or d > _EXACT_COUNT or int(float(n)) != n:
        return None
    return float(n), float(d), *pair(Fraction(1, n))


def _of_floats(values: Floats, quotients: Floats) -> Pair:
    """Return the angles of float64 positions. The four rows of quotients are n, d, high and low of `_quotient`."""
    numerator, denominator, *inverse = quotients
    low = np.zeros_like(values)
    if (np.abs(values) > _EXACT_COUNT * (numerator / denominator)).any():
        values = np.fmod(values, numerator)
    if (denominator != 1).any():
        values, low = two_product(values, denominator)
    # the unit of `values` is now period / numerator, so a turn is `numerator` units
    quarter = numerator / 4
    quarters = np.rint(values / quarter)
    # Up to _EXACT_COUNT turns, the number of quarters is exact. The remainder is a multiple of the last place of
    # `values` or of `quarter`, and at most about half of `quarter`. So float64 represents the remainder without error.
    in_quarters, error = two_product(quarters, quarter)
    remainder, low = two_sum((values - in_quarters) - error, low)
    return _sum(quarters - 4 * np.rint(0.25 * quarters), *product(remainder, low, *inverse))


def _of_integers(magnitudes: npt.NDArray[np.uint64], ratios: npt.NDArray[np.uint64], inverse: Floats) -> Pair:
    """Return the angles of uint64 positions. `inverse` has high and low parts of 1 / (4 numerator) for each ratio."""
    numerator, denominator = ratios
    # four times the angle, without whole turns of the angle; the unit is a turn divided by `numerator`
    fourfold = magnitudes % numerator * denominator % numerator * np.uint64(4)
    quarters = (fourfold + numerator // np.uint64(2)) // numerator
    remainder = fourfold.astype(np.int64) - (quarters * numerator).astype(np.int64)
    high = remainder.astype(np.float64)
    low = (remainder - high.astype(np.int64)).astype(np.float64)
    return _sum(quarters.astype(np.float64), *product(high, low, *inverse))


def _of_any(integers: npt.NDArray[Any], period: Fraction) -> Pair:
    """Return the angles for one period, from Python integers. This is a hundred times slower than `_of_integers`."""
    numerator, denominator = period.as_integer_ratio()
    sign, fourfold = np.where(integers < 0, -1.0, 1.0), 4 * (abs(integers) * denominator % numerator)
    quarters = (fourfold + numerator // 2) // numerator
    remainders = (fourfold - quarters * numerator).tolist()
    high, low = _exact.split([_exact.divide(abs(n), 4 * numerator, _exact.PAIR_BITS) for n in remainders])
    remainder_sign = np.array([-1.0 if n < 0 else 1.0 for n in remainders])
    angle, angle_low = _sum(quarters.astype(np.float64), remainder_sign * high, remainder_sign * low)
    return sign * angle, sign * angle_low


def _sum(quarters: Floats, remainder: Floats, remainder_low: Floats) -> Pair:
    angle, error = two_sum(0.25 * quarters, remainder)
    return angle, error + remainder_low


def _integers(positions: Positions, part: slice) -> tuple[npt.NDArray[Any], Fraction]:
    """Return (positions as an array of Python integers of shape (rows, axes), unit of these integers).

    Rows that are not finite are 0.
    """
    if isinstance(positions, Progression):
        unit = Fraction(1, math.lcm(positions.first.denominator, positions.step.denominator))
        i = np.arange(part.start, part.stop).astype(object)[:, np.newaxis]
        return int(positions.first / unit) + i * int(positions.step / unit), unit
    finite: Any = np.isfinite(positions.components(part, False)).all(axis=1)
    rows = [positions.exactly(part.start + row) for row in np.flatnonzero(finite).tolist()]
    unit = Fraction(1, math.lcm(*(value.denominator for row in rows for value in row)))
    integers = np.full((len(finite), max(map(len, rows), default=1)), 0, dtype=object)
    integers[finite] = [[int(value / unit) for value in row] for row in rows]
    return integers, unit
