"""The columns of an encoding as numbers: the frequency, phase and amplitude of each column."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..numbers import annotations as npt
from ..numbers import schedule as schedules_of
from ..numbers.arguments import MOST_AMPLITUDE, check_width
from ..numbers.arrays import Array, Floats
from ..numbers.schedule import Periodic, Schedule, Single
from ..positions.positions import pair


class Waves(NamedTuple):
    """The distinct waves of an encoding, and the wave of each column.

    frequency, of shape (waves, axes), has indices of frequencies, or -1 for frequency 0. residual, of shape (waves,),
    is the phase minus the nearest quarter turn. wave, of shape (d,), is the index of the wave of each column. quadrant,
    of shape (d,), is the number of quarter turns in the phase of each column, modulo 4.
    """

    frequency: npt.NDArray[np.intp]
    residual: Floats
    wave: npt.NDArray[np.intp]
    quadrant: npt.NDArray[np.intp]


class Period(NamedTuple):
    """An exact period.

    axis is the axis of the positions. frequency is the index of the frequency among all frequencies. length is in units
    of position.
    """

    axis: int
    frequency: int
    length: Fraction


# (index of the partner of each column, direction of each column); the direction is 1 for a partner a quarter turn
# ahead, -1 for a partner behind, and 0 if the column is its own partner
Partners = tuple[npt.NDArray[np.intp], Floats]


class Sinusoids:
    """One sinusoid for each column. Sinusoids are immutable. They are equal if all their parameters are equal.

    Parameters
    ----------
    schedules : sequence of Schedule
        Frequencies. They are numbered consecutively over all schedules.
    index : ndarray of int, shape (d, axes)
        Number of the frequency of each column along each axis. -1 means frequency 0.
    phases, amplitudes : ndarray of shape (d,)
        Phase of each column in turns, and amplitude.
    """

    __slots__ = ("_cache", "amplitudes", "index", "phases", "schedules", "single_products")
    schedules: tuple[Schedule, ...]
    index: npt.NDArray[np.intp]
    phases: Floats
    amplitudes: Floats
    single_products: bool

    def __init__(self, schedules: Sequence[Schedule], index: Array, phases: Array, amplitudes: Array) -> None:
        check_width(len(index))
        largest = float(np.abs(amplitudes).max())
        if largest > MOST_AMPLITUDE:
            raise ValueError(
                f"amplitudes must have magnitudes of at most {MOST_AMPLITUDE:.3g}, not {largest!r}; choose smaller "
                "amplitudes, or a smaller scale or attention_factor"
            )
        # merge equal schedules, so that equal frequencies share their waves
        distinct = tuple(dict.fromkeys(schedules))
        if len(distinct) < len(schedules):
            begins = np.cumsum([0, *map(len, distinct)])
            numbers = [begins[distinct.index(schedule)] + np.arange(len(schedule)) for schedule in schedules]
            # index -1, which means frequency 0, selects the last entry of the array, and so stays -1
            index = np.concatenate([*numbers, [-1]])[index]
        kinds = {isinstance(schedule, Single) for schedule in distinct}
        if len(kinds) > 1:
            raise ValueError(
                "frequencies from float32_frequencies cannot be mixed with other frequencies in one encoding; pass "
                "all frequencies through float32_frequencies, or none, or use two encodings"
            )
        # if true, products with positions are rounded to float32, whatever the argument `precision` of a call is
        self.single_products = kinds == {True}
        self.schedules = distinct
        self.index, self.phases, self.amplitudes = (
            np.array(index, np.intp),
            np.array(phases, np.float64),
            np.array(amplitudes, np.float64),
        )
        for array in (self.index, self.phases, self.amplitudes):
            array.setflags(write=False)
        self._cache: dict[str, Any] = {}

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.index)

    @property
    def axes(self) -> int:
        """Number of axes of a position."""
        return int(self.index.shape[1])

    def _key(self) -> tuple[Any, ...]:
        return (
            self.schedules,
            self.index.shape,
            self.index.tobytes(),
            (self.phases + 0.0).tobytes(),
            (self.amplitudes + 0.0).tobytes(),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sinusoids) and (self is other or self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    # ---- derived sinusoids --------------------------------------------------------------------------------------

    def take(self, columns: npt.ArrayLike) -> Sinusoids:
        """Return the sinusoids of the given columns, in the given order. -1 means a column of zeros."""
        chosen = np.asarray(columns)
        zero = chosen < 0
        return Sinusoids(
            self.schedules,
            np.where(zero[:, np.newaxis], -1, self.index[chosen]),
            np.where(zero, 0.0, self.phases[chosen]),
            np.where(zero, 0.0, self.amplitudes[chosen]),
        )

    def with_(self, *, phases: Array | None = None, amplitudes: Array | None = None) -> Sinusoids:
        """Return sinusoids with the same frequencies, and with the given phases or amplitudes."""
        return Sinusoids(
            self.schedules,
            self.index,
            self.phases if phases is None else phases,
            self.amplitudes if amplitudes is None else amplitudes,
        )

    def along(self, axis: int) -> Sinusoids:
        """Return the columns as sinusoids over one axis only."""
        return Sinusoids(self.schedules, self.index[:, [axis]], self.phases, self.amplitudes)

    def quadratures(self) -> Sinusoids:
        """Return sinusoids that compute the cosines and then the sines of all columns' angles, without phases."""
        index = np.concatenate([self.index, self.index])
        return Sinusoids(self.schedules, index, np.repeat([0.25, 0.0], self.width), np.ones(2 * self.width))

    def derivative(self, axis: int = 0) -> Sinusoids:
        """Return the derivatives of the columns with respect to the position along an axis."""
        return self.with_(phases=self.phases + 0.25, amplitudes=self.amplitudes * self.radians()[self.index[:, axis]])

    # ---- cached properties --------------------------------------------------------------------------------------

    def radians(self) -> Floats:
        """Return all frequencies in radians, rounded to float64, with a zero at the end for the index -1."""
        values: Floats | None = self._cache.get("radians")
        if values is None:
            parts = [schedules_of.radians(schedule) for schedule in self.schedules]
            values = self._cache["radians"] = np.concatenate([*parts, [0.0]])
        return values

    def turns(self, unit: Fraction, multiple: int) -> Floats:
        """Return all frequencies in turns as sums of two doubles (2, n), with a zero at the end for the index -1.

        unit and multiple are as in `schedule.split_turns`. Exact periods have zeros here, because `periods.Turns`
        computes their angles.
        """
        parts = [
            np.zeros((2, len(schedule)))
            if isinstance(schedule, Periodic)
            else schedules_of.split_turns(schedule, unit, multiple)
            for schedule in self.schedules
        ]
        return np.concatenate([*parts, np.zeros((2, 1))], axis=1)

    def pairs(self) -> Floats:
        """Return all frequencies in turns per unit of position, in the form of `turns`, also those of exact periods."""
        values: Floats | None = self._cache.get("pairs")
        if values is None:
            values = self._cache["pairs"] = self.turns(Fraction(1), 1)
            for period in self.periods():
                values[:, period.frequency] = pair(1 / period.length)
        return values

    def nonzero(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the frequencies that are nonzero in float64, with False at the end for the index -1."""
        nonzero: npt.NDArray[np.bool_] = self.turns(Fraction(1), 1)[0] != 0
        # a frequency that is nonzero in turns is also nonzero in radians, because its number of radians is larger
        return nonzero if nonzero[:-1].all() else self.radians() != 0

    def periods(self) -> list[Period]:
        """Return a Period for each exact period and each axis that uses it."""
        periods: list[Period] | None = self._cache.get("periods")
        if periods is None:
            periods, first = [], 0
            for schedule in self.schedules:
                if isinstance(schedule, Periodic):
                    for k, period in enumerate(schedule.periods, first):
                        axes = np.flatnonzero((self.index == k).any(axis=0)).tolist()
                        periods += [Period(a, k, period) for a in axes]
                first += len(schedule)
            self._cache["periods"] = periods
        return periods

    def single(self) -> Floats:
        """Return all frequencies in radians, rounded to float32, in the form of `turns`, with low parts of zero."""
        with np.errstate(over="ignore"):
            rounded = self.radians().astype(np.float32).astype(np.float64)
        return np.stack([rounded, np.zeros_like(rounded)])

    def waves(self) -> Waves:
        """Return the Waves of the encoding (see `Waves`).

        Columns share a wave if they have the same frequencies and residual phase.
        """
        waves: Waves | None = self._cache.get("waves")
        if waves is None:
            quarters = np.rint(4 * self.phases)
            residual = self.phases - quarters / 4
            keys = self.index
            if residual.any():
                keys = np.column_stack([keys, residual.view(np.int64)])
            if keys.shape[1] == 1:
                unique, inverse = np.unique(keys[:, 0], return_inverse=True)
                unique = unique[:, np.newaxis]
            else:
                unique, inverse = np.unique(keys, axis=0, return_inverse=True)
            frequency = unique[:, : self.axes]
            residuals = unique[:, self.axes].view(np.float64) if residual.any() else np.zeros(len(unique))
            waves = Waves(frequency, residuals, inverse.reshape(-1), np.mod(quarters, 4).astype(np.intp))
            self._cache["waves"] = waves
        return waves

    def partners(self) -> Partners | int:
        """Return for each column its partner, which is a quarter turn ahead or behind, and the direction, +1 or -1.

        A constant column is its own partner, with direction 0. If columns have no partner, return the index of the
        first such column.
        """
        partners: Partners | int | None = self._cache.get("partners")
        if partners is None:
            partners = self._cache["partners"] = self._partners()
        return partners

    def _partners(self) -> Partners | int:
        waves = self.waves()
        constant = (self.radians()[self.index] == 0).all(axis=1) | (self.amplitudes == 0)
        signs = np.where(waves.quadrant >= 2, -1.0, 1.0) * np.sign(self.amplitudes)
        # columns without a partner so far: (wave, magnitude of the amplitude) -> (sines, cosines)
        unpaired: dict[tuple[int, float], tuple[list[int], list[int]]] = {}
        partner = np.arange(self.width)
        ahead = np.zeros(self.width)
        for c in np.flatnonzero(~constant).tolist():
            lists = unpaired.setdefault((int(waves.wave[c]), abs(float(self.amplitudes[c]))), ([], []))
            odd = int(waves.quadrant[c] % 2)
            if lists[1 - odd]:
                other = lists[1 - odd].pop(0)
                partner[c], partner[other] = other, c
                # If s is the sign of a column, the derivative of s sin is s cos, and the derivative of s cos is -s sin.
                # The partner has its own sign.
                for column, is_cosine in ((c, odd), (other, 1 - odd)):
                    ahead[column] = signs[c] * signs[other] * (-1.0 if is_cosine else 1.0)
            else:
                lists[odd].append(c)
        without_partner = [c for lists in unpaired.values() for columns in lists for c in columns]
        return min(without_partner) if without_partner else (partner, ahead)
