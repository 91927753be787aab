"""Schedules of frequencies. A schedule represents exact real numbers. Engines use them as sums of two doubles."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from . import annotations as npt
from . import exact as _exact
from .arguments import MOST_COLUMNS, count_of, real, real_array, shown
from .exact import Real
from .names import hinted

# Number of bits to which a frequency is computed. Two doubles need 106. If a frequency is multiplied by 2**32 and whole
# turns are subtracted, 32 more bits are lost, and 49 more for a frequency of EXACT_LIMIT turns. The other bits absorb
# the errors of a few thousand products. More bits would take more time: 256 bits take 1.4 times as long.
_FREQUENCY_BITS = 208
# `Geometric._times` uses fixed-point numbers if the binary logarithm of the ratio of first to last frequency is at most
# this number. A fixed-point number needs as many additional bits as this logarithm.
_FIXED = 1024

# attributes of an Encoding; if a program reads one of them from a Schedule, the AttributeError has a hint
_OF_ENCODINGS = ("add_to", "d_model", "encode", "table")


class Schedule:
    """A finite sequence of frequencies in radians per unit of position, each an exact real number.

    Schedules are equal if they have the same type and parameters. ``len`` returns the number of frequencies.
    ``numpy.asarray`` returns the frequencies rounded to float64. A slice of a schedule is a schedule.
    """

    __slots__ = ("_key",)
    _key: tuple[Any, ...]

    def __len__(self) -> int:
        raise NotImplementedError

    def _radians(self, bits: int) -> list[Real]:
        raise NotImplementedError

    def _times(self, factor: Real, bits: int) -> list[Real]:
        """Return the frequencies in radians times a factor."""
        return [_exact.multiply(value, factor, bits) for value in _evaluated(self, bits)]

    def __getitem__(self, chosen: slice) -> Schedule:
        if not isinstance(chosen, slice):
            raise TypeError(
                f"the index of a schedule must be a slice, not {chosen!r}; numpy.asarray(schedule) returns its numbers"
            )
        if not range(len(self))[chosen]:
            raise ValueError(f"{chosen!r} selects none of the {len(self)} frequencies; select at least one frequency")
        return self._slice(chosen)

    def _slice(self, chosen: slice) -> Schedule:
        return Part(self, *chosen.indices(len(self)))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with a hint for the attributes of an Encoding in `_OF_ENCODINGS`."""
            hint = (
                "; pass the schedule to fourier_features or sinusoidal to get an Encoding"
                if name in _OF_ENCODINGS
                else ""
            )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and type(self) is type(other) and self._key == other._key

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key))

    def __reduce__(self) -> tuple[Any, ...]:
        return schedule_of, tuple(parts_of(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(radians(self), dtype=dtype)


def check_denominator(
    denominator: float | Fraction, count: int, name: str = "freq_shift", shift: float | None = None
) -> None:
    """Raise ValueError if the denominator of the exponents is zero, unless there is only one frequency.

    name: name of the argument that is subtracted in the denominator. shift: value of this argument to show in the
    error, or None.
    """
    if denominator == 0 and count > 1:
        argument = name if shift is None else f"{name}={shift:g}"
        raise ValueError(
            f"{argument} makes the denominator of the exponents zero for {count} frequencies; choose another {name}"
        )


class Geometric(Schedule):
    """Frequencies ``first * base ** (-i / denominator)``, for i from 0 to count - 1."""

    __slots__ = ()

    def __init__(self, count: int, base: float, denominator: Fraction, first: float) -> None:
        check_denominator(denominator, count)
        if denominator == 0:
            denominator = Fraction(1)
        self._key = (count, base, denominator, first)

    def __len__(self) -> int:
        return self._key[0]  # type: ignore[no-any-return]

    def _radians(self, bits: int) -> list[Real]:
        return self._times((1, 0), bits)

    def _times(self, factor: Real, bits: int) -> list[Real]:
        count, base, denominator, first = self._key
        numerator, divisor = first.as_integer_ratio()
        value = _exact.multiply(_exact.divide(numerator, divisor, bits), factor, bits)
        ratio, shift = _exact.power_ratio(base, -1 / denominator, bits + 16) if count > 1 else (1, 0)
        # range_bits is an upper bound of |log2(first / last)|
        range_bits = abs((count - 1) / denominator) * (abs(math.frexp(base)[1]) + 1)
        values = []
        if range_bits > _FIXED or shift > 0:
            for _ in range(count):
                values.append(value)
                value = _exact.multiply(value, (ratio, shift), bits)
            return values
        # in fixed point, all frequencies have one exponent, and extra bits keep the smallest frequency precise
        extra_bits = max(0, bits + 16 + math.ceil(range_bits) - value[0].bit_length())
        mantissa, exponent = value[0] << extra_bits, value[1] - extra_bits
        for _ in range(count):
            values.append((mantissa, exponent))
            mantissa = mantissa * ratio >> -shift
        return values

    def _last(self, bits: int) -> Real:
        count, base, denominator, first = self._key
        numerator, divisor = first.as_integer_ratio()
        power = _exact.power_ratio(base, (1 - count) / denominator, bits)
        return _exact.multiply(_exact.divide(numerator, divisor, bits), power, bits)

    def _is_finite(self) -> bool:
        count, base, denominator, first = self._key
        logarithm = -(count - 1) / denominator * math.log(base)
        # All frequencies lie between the first and the last. The last is computed exactly only if it may be too large.
        surely_finite = logarithm < 690 and abs(first * math.exp(logarithm)) < 1e300
        return surely_finite or bool(np.isfinite(_exact.split([self._last(_FREQUENCY_BITS)])[0]).all())

    def __repr__(self) -> str:
        count, base, denominator, first = self._key
        shift = count - denominator
        options = (f", freq_shift={float(shift)!r}" if shift else "") + ("" if first == 1 else f", first={first!r}")
        return f"geometric({count}, base={base!r}{options})"


class Linear(Schedule):
    """``count`` equally spaced frequencies from first to last."""

    __slots__ = ()

    def __init__(self, count: int, first: float, last: float) -> None:
        self._key = (count, first, last)

    def __len__(self) -> int:
        return self._key[0]  # type: ignore[no-any-return]

    def _radians(self, bits: int) -> list[Real]:
        count, first, last = self._key
        start, step = Fraction(first), (Fraction(last) - Fraction(first)) / max(count - 1, 1)
        values = (start + i * step for i in range(count))
        return [_exact.divide(value.numerator, value.denominator, bits) for value in values]

    def __repr__(self) -> str:
        return "linear({}, {!r}, {!r})".format(*self._key)


class Explicit(Schedule):
    """Frequencies that are float64 numbers, used without change."""

    __slots__ = ()

    def __init__(self, values: npt.NDArray[np.float64]) -> None:
        self._key = (values.astype("<f8").tobytes(),)

    @property
    def values(self) -> npt.NDArray[np.float64]:
        return np.frombuffer(self._key[0], "<f8").astype(np.float64)

    def __len__(self) -> int:
        return len(self._key[0]) // 8

    def _slice(self, chosen: slice) -> Schedule:
        return type(self)(self.values[chosen])

    def _radians(self, bits: int) -> list[Real]:
        ratios = (value.as_integer_ratio() for value in self.values.tolist())
        # every denominator is a power of two
        return [(numerator, 1 - denominator.bit_length()) for numerator, denominator in ratios]

    def __repr__(self) -> str:
        return np.array2string(self.values, separator=", ", threshold=8)


class Single(Explicit):
    """Frequencies that are float32 numbers. Encodings then also round positions and angles to float32."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"float32_frequencies({super().__repr__()})"


class Part(Schedule):
    """A slice of a schedule. start, stop and step are the results of `slice.indices`."""

    __slots__ = ()

    def __init__(self, whole: Schedule, start: int, stop: int, step: int) -> None:
        self._key = (whole, start, stop, step)

    def _chosen(self) -> slice:
        _, start, stop, step = self._key
        # with a negative step, a stop of -1 means the place before the first frequency, not the last frequency
        return slice(start, None if stop < 0 else stop, step)

    def __len__(self) -> int:
        return len(range(len(self._key[0]))[self._chosen()])

    def _radians(self, bits: int) -> list[Real]:
        whole: Schedule = self._key[0]
        return whole._radians(bits)[self._chosen()]

    def __repr__(self) -> str:
        chosen = self._chosen()
        bounds = ("" if chosen.stop is None else chosen.stop), ("" if chosen.step == 1 else f":{chosen.step}")
        return f"{self._key[0]!r}[{chosen.start}:{bounds[0]}{bounds[1]}]"


def parts_of(schedule: Schedule) -> list[Any]:
    """Return a list of the class name and the parameters of a schedule.

    Fractions become text with a slash, and bytes become hexadecimal digits.
    """
    return [
        type(schedule).__name__,
        *(
            f"{part.numerator}/{part.denominator}"
            if isinstance(part, Fraction)
            else part.hex()
            if isinstance(part, bytes)
            else parts_of(part)
            if isinstance(part, Schedule)
            else part
            for part in schedule._key
        ),
    ]


def schedule_of(name: str, *parts: Any) -> Schedule:
    """Return the schedule for which `parts_of` returned this name and these parts."""
    known: list[type[Schedule]] = [*Schedule.__subclasses__(), Single]
    (cls,) = (known_class for known_class in known if known_class.__name__ == name)
    schedule = cls.__new__(cls)
    schedule._key = tuple(map(_part_of, parts))
    return schedule


def _part_of(part: Any) -> Any:
    if isinstance(part, (list, tuple)):
        return schedule_of(*part)
    if isinstance(part, str):
        return Fraction(part) if "/" in part else bytes.fromhex(part)
    return part


class Periodic(Schedule):
    """Frequencies 2 pi / period, which are exactly 1 / period turns per unit."""

    __slots__ = ()

    def __init__(self, periods: tuple[Fraction, ...]) -> None:
        self._key = periods

    @property
    def periods(self) -> tuple[Fraction, ...]:
        return self._key

    def __len__(self) -> int:
        return len(self._key)

    def _slice(self, chosen: slice) -> Schedule:
        return Periodic(self.periods[chosen])

    def _radians(self, bits: int) -> list[Real]:
        two_pi, exponent = _exact.two_pi(bits + 32)
        values = (_exact.divide(two_pi * p.denominator, p.numerator, bits) for p in self._key)
        return [(mantissa, shift + exponent) for mantissa, shift in values]

    def __repr__(self) -> str:
        numbers = (p.numerator if p.denominator == 1 else float(p) if Fraction(float(p)) == p else p for p in self._key)
        return f"periodic([{', '.join(map(repr, numbers))}])"


# Pickles contain the name posenc_fast._schedule_of, not the path of this module, so that the file can move.
schedule_of.__module__ = "posenc_fast"
schedule_of.__qualname__ = schedule_of.__name__ = "_schedule_of"


def explicit(values: npt.NDArray[np.float64]) -> tuple[Explicit, npt.NDArray[np.intp]]:
    """Return (schedule of the distinct values, index of each value in this schedule) for an array (k, axes)."""
    unique, index = np.unique(values, return_inverse=True)
    return Explicit(unique), index.reshape(len(values), -1)


@functools.lru_cache(maxsize=64)
def _evaluated(schedule: Schedule, bits: int) -> list[Real]:
    """Return the frequencies in radians. The result is cached, because logarithms take milliseconds."""
    return schedule._radians(bits)


@functools.lru_cache(maxsize=64)
def turns(schedule: Schedule, unit: Fraction = Fraction(1), bits: int = _FREQUENCY_BITS) -> list[Real]:
    """Return the frequencies in turns per ``unit`` units of position."""
    mantissa, exponent = _exact.two_pi(bits + 32)
    per_radian = _exact.divide(unit.numerator << -exponent, mantissa * unit.denominator, bits + 32)
    return schedule._times(per_radian, bits)


def exact_turns(schedule: Schedule, bits: int) -> list[Fraction]:
    """Return the frequencies in turns per unit: exact for a `Periodic`, to ``bits`` bits for other schedules."""
    if isinstance(schedule, Periodic):
        return [1 / period for period in schedule.periods]
    return [mantissa * Fraction(2) ** exponent for mantissa, exponent in turns(schedule, bits=bits)]


@functools.lru_cache(maxsize=64)
def split_turns(schedule: Schedule, unit: Fraction = Fraction(1), multiple: int = 1) -> npt.NDArray[np.float64]:
    """Return the frequencies in turns per ``unit`` units of position, an array (2, count) of high and low parts.

    If ``multiple`` is not 1, the frequencies are multiplied by it, and then whole turns are subtracted.
    """
    values = turns(schedule, unit)
    if multiple != 1:
        values = [_fraction(mantissa * multiple, exponent) for mantissa, exponent in values]
    parts = _exact.split(values)
    parts.setflags(write=False)
    return parts


def _fraction(mantissa: int, exponent: int) -> Real:
    """Return the number mantissa * 2**exponent minus the nearest integer."""
    if exponent >= 0:
        return 0, 0
    half = 1 << (-exponent - 1)
    return ((mantissa + half) & (2 * half - 1)) - half, exponent


@functools.lru_cache(maxsize=64)
def radians(schedule: Schedule) -> npt.NDArray[np.float64]:
    """Return the frequencies in radians per unit of position, rounded to float64."""
    values: npt.NDArray[np.float64] = _exact.split(_evaluated(schedule, _FREQUENCY_BITS))[0].copy()
    values.setflags(write=False)
    return values


@hinted
def geometric(count: int, *, base: float = 10000.0, freq_shift: float = 0.0, first: float = 1.0) -> Schedule:
    """Return frequencies in geometric progression: ``first * base ** (-i / (count - freq_shift))``.

    Parameters
    ----------
    count : int
        Number of frequencies.
    base : float
        Ratio of the first frequency to the frequency ``count - freq_shift`` places later (default: 10000).
    freq_shift : float
        Number subtracted from count in the exponent (default: 0, as in the transformer paper). With 1, the last
        of several frequencies is exactly ``first / base``.
    first : float
        First frequency in radians per unit of position (default: 1).

    Returns
    -------
    Schedule
        Exact real numbers, for the parameter ``frequencies`` of `sinusoidal`, `Rotary` and others.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid, or ``count - freq_shift`` is zero and count is more than 1.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> np.asarray(pf.geometric(3, base=100.0, freq_shift=1.0))
    array([1.  , 0.1 , 0.01])
    """
    n = _count(count)
    shift = Fraction(real(freq_shift, "freq_shift"))
    return checked(Geometric(n, real(base, "base", positive=True), n - shift, real(first, "first")))


@hinted
def linear(count: int, first: float, last: float) -> Schedule:
    """Return equally spaced frequencies.

    Parameters
    ----------
    count : int
        Number of frequencies.
    first, last : float
        First and last frequency in radians per unit of position.

    Returns
    -------
    Schedule
        Exact real numbers, for the parameter ``frequencies`` of `sinusoidal`, `Rotary` and others.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> np.asarray(pf.linear(3, 1, 2))
    array([1. , 1.5, 2. ])
    """
    return Linear(_count(count), real(first, "first"), real(last, "last"))


def float32_frequencies(values: npt.ArrayLike) -> Schedule:
    """Return a schedule of the frequencies of a program that computes in float32, to reproduce its tables.

    An Encoding or Rotary with such a schedule rounds the position to float32, and also the product of position and
    frequency. The exact sine and cosine of the rounded product are rounded once. Functions of `presets` with a
    parameter ``frequencies`` compute the frequencies of a known program themselves: pass ``"float32"``.

    Parameters
    ----------
    values : array_like of shape (k,)
        Frequencies in radians per unit of position. They are rounded to float32.

    Returns
    -------
    Schedule
        Value for the parameter ``frequencies`` of `sinusoidal`, `Rotary` and others. With this schedule,
        ``precision="exact"`` and ``precision="float32"`` give the same values.

    Raises
    ------
    TypeError, ValueError
        If values are empty, not real numbers, not one-dimensional, or not finite after rounding to float32.

    Notes
    -----
    Rounding to float32 changes an angle near 10^6 radians by up to 0.03 radians. With the program's own frequencies, a
    table differs from the program's table only by the error of the program's sine. With torch 2.13 on x86-64, one value
    in twenty differs, by one unit in the last place.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> theirs = np.exp(np.arange(4, dtype=np.float32) * np.float32(-np.log(10000.0) / 4))
    >>> encoding = pf.sinusoidal(8, frequencies=pf.float32_frequencies(theirs))
    >>> angle = np.float32(12345) * theirs[1]
    >>> bool(encoding.encode(12345)[2] == np.float32(np.sin(np.float64(angle))))
    True
    """
    numbers = real_array(values, "values")
    with np.errstate(over="ignore", under="ignore"):
        rounded = numbers.astype(np.float32).astype(np.float64)
    if rounded.ndim != 1 or rounded.size == 0:
        raise ValueError(f"values has shape {rounded.shape}, but must have shape (k,), with at least one number")
    if not np.isfinite(rounded).all():
        raise ValueError(f"values must be in the range of float32, but contains {numbers[~np.isfinite(rounded)][0]}")
    return Single(rounded)


def checked(schedule: Geometric) -> Geometric:
    """Return the schedule. Raise an error if a frequency exceeds the range of float64."""
    if not schedule._is_finite():
        raise ValueError(f"a frequency of {schedule!r} is too large for float64; choose another base= or first=")
    return schedule


def _count(count: int) -> int:
    n = count_of(count, "count", 1)
    if n > MOST_COLUMNS:
        raise ValueError(f"count={shown(n)} is too large; the maximum is {MOST_COLUMNS}")
    return n
