"""Encode times with cycles of the calendar, such as "month", and periods of fixed length, such as "12h".

Months differ in length, so no schedule of frequencies can represent them. Instead, the elapsed part of each cycle is
computed for each time, and encoded with a period of 1.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...typing import Layout
from ..numbers.arrays import Array, check_out, new
from ..numbers.doubles import Pair
from ..numbers.names import meant
from ..positions.calendar import CYCLES, Calendar
from ..positions.conversion import convert
from ..positions.positions import Converted, InTurns
from .builders import columns_of, fourier_features
from .periods import Turns, exact_period, has_unit, length_of, periodic
from .rows import encode
from .sinusoids import Period


class Cycles:
    """Encodes times with periods. A period is a fixed length or a cycle of the calendar.

    If all periods are lengths, the attribute `encoding` encodes times. Otherwise it encodes the elapsed part of a
    period, a number from 0 to 1, and its only period has the length 1. The attribute `labels` has a name for each
    period.
    """

    def __init__(self, periods: Any, layout: Layout = "interleaved", timezone: str | None = None) -> None:
        self.layout: Layout = layout
        self.timezone = timezone
        items = [] if isinstance(periods, str) or not isinstance(periods, Iterable) else list(periods)
        is_cycle = [isinstance(period, str) and period in CYCLES for period in items]
        self.calendar = [period for period, cycle in zip(items, is_cycle, strict=True) if cycle]
        lengths = [period for period, cycle in zip(items, is_cycle, strict=True) if not cycle]
        self.lengths = [_length(period) for period in lengths]
        self._without_unit = [period for period in lengths if not has_unit(period)]
        self.labels = [period if cycle else length_of(period) for period, cycle in zip(items, is_cycle, strict=True)]
        if timezone is not None and not self.calendar:
            raise ValueError(
                f"timezone={timezone!r} needs a calendar cycle in periods, such as 'day', but periods has none. "
                "Periods of fixed length, such as '24h', are counted in UTC, so leave timezone out"
            )
        if lengths or not self.calendar:
            schedule = periodic(lengths if self.calendar else periods)
        self.encoding = fourier_features(periodic([1]) if self.calendar else schedule, layout=layout)
        # `_order[i]` is the place of period i if all calendar cycles come before all lengths
        self._order = np.argsort(np.argsort(np.logical_not(is_cycle), kind="stable"))

    @property
    def columns(self) -> list[str]:
        """Names of the columns that `encode` returns."""
        functions, cycles = columns_of([len(self.labels)] * 2, self.layout)
        return [f"{self.labels[c]}_{('sin', 'cos')[f]}" for f, c in zip(functions, cycles, strict=True)]

    def check(self, column: Any, name: str) -> None:
        """Raise an error if there are calendar cycles and the column has no valid times for them."""
        if self.calendar:
            Calendar(column, self.calendar, self.timezone, name)

    def check_lengths(self, letter: str, name: str) -> None:
        """Raise an error if a length has no unit and the column has timestamps (dtype letter "M").

        Without this error, a length of 24 would silently mean 24 seconds.
        """
        if letter == "M" and self._without_unit:
            raise ValueError(
                f"periods has {self._without_unit[0]!r} without a unit, but {name} has timestamps; pass a calendar "
                "cycle such as 'day', or a period with a unit such as '24h'"
            )

    def encode(
        self,
        column: Any,
        dtype: np.dtype[Any],
        out: Array | None = None,
        *,
        name: str = "times",
        zone: datetime.tzinfo | None = None,
        **settings: Any,
    ) -> Array:
        """Return the sines and cosines of a column of times, of shape (..., 2 k) for k periods.

        zone is a time zone that replaces the time zone of the column. settings are options of `rows.encode`.
        """
        plans = self.encoding._plans
        if not self.calendar:
            return encode(plans, convert(column, 1, name), dtype, out, **settings)
        calendar = Calendar(column, self.calendar, self.timezone, name, zone)
        fixed = _Lengths(self.lengths, convert(column, 1, name)) if self.lengths else None
        shape = (*calendar.shape, 2 * len(self.labels))
        result = new(shape, dtype) if out is None else check_out(out, shape, dtype)
        rows = result.reshape(len(calendar), shape[-1])
        for part in calendar.parts():
            high, low = calendar.turns(part)
            if fixed is not None:
                fixed_high, fixed_low = fixed.turns(part)
                high = np.hstack([high, fixed_high])[:, self._order]
                low = np.hstack([low, fixed_low])[:, self._order]
            pairs = encode(plans, InTurns(high, low), dtype, **settings)
            if self.layout == "concatenated":
                pairs = pairs.swapaxes(1, 2)
            rows[part] = pairs.reshape(len(pairs), shape[-1])
        if not np.may_share_memory(rows, result):
            result[...] = rows.reshape(shape)
        return result if out is None else out


class _Lengths:
    """Computes position / period, in turns without whole turns, for periods of fixed length."""

    def __init__(self, lengths: Sequence[Fraction], positions: Converted) -> None:
        self.positions = positions
        self.counter = Turns([Period(0, i, length) for i, length in enumerate(lengths)], positions.unit)

    def turns(self, part: slice) -> Pair:
        high, low = np.hsplit(self.counter.of(self.positions, part), 2)
        return high, low


def _length(period: Any) -> Any:
    try:
        return exact_period(period)
    except ValueError as error:
        if not isinstance(period, str):
            raise
        known = ", ".join(map(repr, CYCLES))
        raise ValueError(f"{error}. Calendar cycles are {known}{meant(period, CYCLES)}") from None
