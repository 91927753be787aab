"""Convert times of NumPy, Python and pandas, with or without a time zone, to exact counts of a unit."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..numbers import annotations as npt

SECONDS = {
    "W": Fraction(604800),
    "D": Fraction(86400),
    "h": Fraction(3600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "ps": Fraction(1, 10**12),
    "fs": Fraction(1, 10**15),
    "as": Fraction(1, 10**18),
}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = Fraction(1, 10**6)


class Time(NamedTuple):
    """A timestamp (letter "M", counted from 1970) or a duration (letter "m").

    The time is ``number`` units, and a unit has ``unit`` seconds.
    """

    letter: str
    number: int
    unit: Fraction


def check(dtype: np.dtype[Any], name: str) -> None:
    """Raise a TypeError for times without a unit, and for durations in months or years, which differ in length."""
    letters, _ = np.datetime_data(dtype)
    if letters == "generic":
        raise TypeError(f"{name} has type {dtype} without a unit; use a type with a unit, as in {dtype.name}[s]")
    if letters in "YM" and dtype.kind == "m":
        raise TypeError(
            f"{name} has type {dtype}, but years and months differ in length; convert them to days or seconds"
        )


def counts_of(
    values: npt.NDArray[Any], name: str
) -> tuple[npt.NDArray[np.int64], Fraction, npt.NDArray[np.bool_] | None]:
    """Return (counts, seconds in a count, mask of missing values or None) of datetime64 or timedelta64 values."""
    check(values.dtype, name)
    missing: npt.NDArray[np.bool_] = np.isnat(values)
    letters, number = np.datetime_data(values.dtype)
    if letters in "YM":
        seconds = values.astype("M8[s]")
        if not ((seconds.astype(values.dtype) == values) | missing).all():
            raise ValueError(
                f"{name} has type {values.dtype}, with a time whose seconds since 1970 do not fit in 64 bits"
            )
        values, letters, number = seconds, "s", 1
    counts = values.astype(values.dtype.newbyteorder("="), copy=False).view(np.int64)
    if not missing.any():
        return counts, SECONDS[letters] * number, None
    return np.where(missing, 0, counts), SECONDS[letters] * number, missing


def time_of(value: Any, name: str) -> Time | None:
    """Return a time of any type as a Time, or None if the value is no time. Callers must exclude NaT."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        counts, unit, _ = counts_of(np.asarray(value), name)
        return Time(value.dtype.kind, int(counts), unit)
    # asm8 keeps the nanoseconds of pandas' Timestamp and Timedelta. A Period is converted to its start_time.
    exact = getattr(getattr(value, "start_time", value), "asm8", None)
    if isinstance(exact, (np.datetime64, np.timedelta64)):
        return time_of(exact, name)
    if isinstance(value, datetime.datetime):
        return Time("M", microseconds(value), _MICROSECOND)
    if isinstance(value, datetime.date):
        return Time("M", value.toordinal() - _EPOCH.toordinal(), SECONDS["D"])
    if isinstance(value, datetime.timedelta):
        return Time("m", value // datetime.timedelta(microseconds=1), _MICROSECOND)
    return None


def microseconds(time: datetime.datetime) -> int:
    """Return the microseconds since 1970. A time without a zone counts as UTC."""
    elapsed = (time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)) - _EPOCH
    return elapsed // datetime.timedelta(microseconds=1)


def common_unit(units: Iterable[Fraction]) -> Fraction:
    """Return the largest unit of which all units are multiples."""
    numerator, denominator = 0, 1
    for unit in units:
        together = math.lcm(denominator, unit.denominator)
        numerator = math.gcd(numerator * (together // denominator), unit.numerator * (together // unit.denominator))
        denominator = together
    return Fraction(numerator, denominator)
