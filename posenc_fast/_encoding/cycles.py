"""Cycles of the calendar beside periods of fixed length: their names, and the sines and cosines of columns of times.

A month has no length that a schedule could hold. So times are counted in turns of each cycle, and these are encoded with
a period of 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._numbers.arrays import Array, check_out, new
from .._numbers.names import meant
from .._positions.calendar import CYCLES, Calendar
from .._positions.conversion import convert
from .._positions.positions import InTurns
from ..typing import Layout
from .builders import columns_of, fourier_features
from .periods import Turns, exact_period, length_of, periodic
from .rows import encode
from .sinusoids import Period

__all__ = ["Cycles"]


class Cycles:
    """Periods that are lengths or names of the calendar, and what encodes them.

    encoding: of positions where all are lengths, else of the turns of each. labels: a name for each period.
    """

    def __init__(self, periods: Any, layout: Layout = "interleaved", timezone: str | None = None) -> None:
        self.layout, self.timezone = layout, timezone
        items = [] if isinstance(periods, str) or not isinstance(periods, Iterable) else list(periods)
        is_cycle = [isinstance(each, str) and each in CYCLES for each in items]
        self.calendar = [each for each, cycle in zip(items, is_cycle, strict=True) if cycle]
        lengths = [each for each, cycle in zip(items, is_cycle, strict=True) if not cycle]
        self.lengths = [_length(each) for each in lengths]
        self.labels = [each if cycle else length_of(each) for each, cycle in zip(items, is_cycle, strict=True)]
        if timezone is not None and not self.calendar:
            raise ValueError(
                f"timezone={timezone!r} is for the cycles of the calendar, and periods has none of them: lengths count as UTC"
            )
        if lengths or not self.calendar:
            schedule = periodic(lengths if self.calendar else periods)
        self.encoding = fourier_features(periodic([1]) if self.calendar else schedule, layout=layout)
        # of those of the calendar, then those of fixed lengths
        self._places = np.argsort(np.argsort(np.logical_not(is_cycle), kind="stable"))

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are made."""
        functions, cycles = columns_of([len(self.labels)] * 2, self.layout)
        return [f"{self.labels[c]}_{('sin', 'cos')[f]}" for f, c in zip(functions, cycles, strict=True)]

    def check(self, column: Any, name: str) -> None:
        """Raise an error for a column that cannot be encoded."""
        if self.calendar:
            Calendar(column, self.calendar, self.timezone, name)

    def encode(
        self, column: Any, dtype: np.dtype[Any], out: Array | None = None, *, name: str = "times", **settings: Any
    ) -> Array:
        """Return the sines and cosines of a column, (..., 2 k); settings are those of rows.encode."""
        plans = self.encoding._plans
        if not self.calendar:
            return encode(plans, convert(column, 1, name), dtype, out, **settings)
        calendar = Calendar(column, self.calendar, self.timezone, name)
        positions = convert(column, 1, name) if self.lengths else None
        width = 2 * len(self.labels)
        shape = (*calendar.shape, width)
        result = new(shape, dtype) if out is None else check_out(out, shape, dtype)
        rows = result.reshape(len(calendar), width)
        of_lengths = positions and Turns([Period(0, i, each) for i, each in enumerate(self.lengths)], positions.unit)
        for part in calendar.parts():
            high, low = calendar.turns(part)
            if of_lengths and positions:
                fixed = np.hsplit(of_lengths.of(positions, part), 2)
                high, low = (np.hstack(both)[:, self._places] for both in zip((high, low), fixed, strict=True))
            pairs = encode(plans, InTurns(high, low), dtype, **settings)
            order = "C" if self.layout == "interleaved" else "F"
            rows[part] = pairs.reshape(len(pairs), width) if order == "C" else pairs.swapaxes(1, 2).reshape(-1, width)
        return result if out is None else out


def _length(period: Any) -> Any:
    try:
        return exact_period(period)
    except ValueError as error:
        if not isinstance(period, str):
            raise
        known = ", ".join(map(repr, CYCLES))
        raise ValueError(f"{error}, or a cycle of the calendar: {known}{meant(period, CYCLES)}") from None
