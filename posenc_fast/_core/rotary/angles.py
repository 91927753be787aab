"""Compute cosines and sines of the angles of a Rotary's pairs at positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...typing import Function, Precision
from ..encoding.builders import FUNCTIONS
from ..encoding.rows import encode
from ..encoding.sinusoids import Sinusoids
from ..encoding.value import Encoding
from ..numbers.arguments import check_precision, check_workers, count_of, progression
from ..numbers.arrays import Array, Floats, check_out, overlap
from ..numbers.formats import FLOAT64, wanted_type
from ..numbers.rounding import rounded
from ..numbers.schedule import Explicit, Schedule, explicit
from ..positions.conversion import convert, counted
from ..positions.positions import Converted
from .pairs import Settings
from .scaling import xpos_amplitudes


class Angles:
    """Computes cosines and sines of the pairs' angles, times the attention factor and the amplitudes of xPos.

    The argument schedules has one schedule for all pairs, or one for each axis.
    """

    __slots__ = ("_encodings", "_schedules", "factor", "settings")

    def __init__(self, settings: Settings, schedules: tuple[Schedule, ...], factor: float) -> None:
        self.settings, self.factor = settings, factor
        self._schedules = schedules
        self._encodings: dict[tuple[tuple[Function, ...], bool], Encoding] = {}

    def with_factor(self, factor: float, settings: Settings) -> Angles:
        """Return an Angles with the same frequencies, and with the given attention factor and settings."""
        return Angles(settings, self._schedules, factor)

    @property
    def ndim(self) -> int:
        """Number of axes of a position."""
        return self.of("cos").ndim

    def of(self, *functions: Function, inverse: bool = False) -> Encoding:
        """Return the Encoding of functions of the pairs' angles. All columns of the first function come first.

        The amplitudes of xPos are not included. If inverse is true, the functions are divided by the attention factor
        instead of multiplied by it.
        """
        encoding = self._encodings.get((functions, inverse))
        if encoding is None:
            sinusoids = _sinusoids(self._schedules, self.settings.axes, functions, self.factor, inverse)
            encoding = self._encodings[functions, inverse] = Encoding._of(sinusoids)
        return encoding

    def tables(
        self, positions_or_length: Any, start: Any, dtype: Any, precision: Any, out: Any, workers: Any
    ) -> tuple[Array, Array]:
        """Check the arguments of `Rotary.tables` and return its result."""
        positions: int | Converted
        if isinstance(positions_or_length, (int, np.integer)) and not isinstance(positions_or_length, bool):
            positions = count_of(positions_or_length, "length", 0)
            progression(start, 1, positions)
            shape: tuple[int, ...] = (positions,)
        else:
            if start != 0:
                raise ValueError(
                    f"start={start!r} works only with a length, not with an array of positions; add start to the "
                    "positions instead"
                )
            positions = convert(positions_or_length, self.ndim)
            shape = positions.shape
        outs: Any = (None, None) if out is None else out
        if not isinstance(outs, (tuple, list)) or len(outs) != 2:
            given = f"{len(outs)} items" if isinstance(outs, (tuple, list)) else type(out).__name__
            raise TypeError(f"out must be a pair of arrays for cosines and sines, not {given}")
        result_type = wanted_type(dtype, outs[0], name="out[0]")
        single, threads = check_precision(precision), check_workers(workers)
        if out is not None:
            shape = (*shape, self.settings.rotary_dim // 2)
            outs = tuple(check_out(outs[i], shape, result_type, name=f"out[{i}]") for i in range(2))
            if overlap(*outs):
                raise ValueError("the two arrays of out share memory; give cosines and sines separate memory")
            if isinstance(positions, Converted):
                # if out shares memory with positions, cosines would overwrite them before sines are computed
                positions.keep_from(outs[0])
        cos = self._rows(self.of("cos"), positions, start, result_type, single, outs[0], threads)
        sin = self._rows(self.of("sin"), positions, start, result_type, single, outs[1], threads)
        return (cos, sin) if out is None else (out[0], out[1])

    def rows(
        self,
        positions: int | Converted,
        start: Any,
        single: bool,
        inverse: bool,
        dtype: np.dtype[Any],
        out: Array | None = None,
    ) -> Array:
        """Return rows of the cosines of all pairs and then their sines. If inverse is true, they rotate backwards.

        positions has converted positions, or is the number of consecutive positions from start.
        """
        encoding = self.of("cos", "-sin" if inverse else "sin", inverse=inverse)
        return self._rows(encoding, positions, start, dtype, single, out, inverse=inverse)

    def _rows(
        self,
        encoding: Encoding,
        positions: int | Converted,
        start: Any,
        dtype: np.dtype[Any],
        single: bool,
        out: Array | None = None,
        threads: int = 1,
        inverse: bool = False,
    ) -> Array:
        amplitudes_vary = self.settings.amplitudes_vary
        if not isinstance(positions, Converted):
            if encoding.ndim == 1 and not amplitudes_vary:
                precision: Precision = "float32" if single else "exact"
                return encoding.table(
                    positions, start=start, dtype=dtype, out=out, precision=precision, workers=threads
                )
            positions = counted(start, positions, encoding.ndim)
        if not amplitudes_vary:
            return encode(encoding._plans, positions, dtype, out, single=single, threads=threads)
        rows: Floats = encode(encoding._plans, positions, FLOAT64.stored, single=single, threads=threads)
        pairs = self.settings.rotary_dim // 2
        amplitudes = xpos_amplitudes(positions.rounded(), pairs, dict(self.settings.parameters))
        amplitudes = np.tile(amplitudes, encoding.d_model // pairs)
        result = rounded(rows / amplitudes if inverse else rows * amplitudes, dtype)
        if out is None:
            return result
        out[...] = result
        return out


def _sinusoids(
    schedules: Sequence[Schedule],
    axes: tuple[int, ...] | None,
    functions: Sequence[Function],
    factor: float,
    inverse: bool,
) -> Sinusoids:
    """Return a Sinusoids with a column for each function of the angle of each pair.

    The columns of the first function come first. schedules and axes are as in `Angles` and `Settings`. Columns are
    multiplied by factor, or divided by it if inverse is true.
    """
    distinct: list[Schedule] = []
    # for each schedule, an array with the index of each frequency in the list of all distinct frequencies
    numbers = []
    for schedule in schedules:
        begin = sum(map(len, distinct))
        if type(schedule) is Explicit:
            # columns of equal frequencies share one sine and one cosine
            unique, number = explicit(schedule.values[:, np.newaxis])
            distinct.append(unique)
            numbers.append(begin + number[:, 0])
        else:
            distinct.append(schedule)
            numbers.append(begin + np.arange(len(schedule)))
    if axes is None:
        index = np.stack(numbers, axis=1)
    else:
        axis_of_pair = np.array(axes)
        index = np.full((len(axes), max(axes) + 1), -1)
        if len(numbers) == 1:
            index[np.arange(len(axes)), axis_of_pair] = numbers[0]
        else:
            for a, number in enumerate(numbers):
                index[axis_of_pair == a, a] = number
    phases, amplitudes = np.repeat([FUNCTIONS[name] for name in functions], len(index), axis=0).T
    amplitudes = (1 / factor if inverse else factor) * amplitudes
    return Sinusoids(distinct, np.tile(index, (len(functions), 1)), phases, amplitudes)
