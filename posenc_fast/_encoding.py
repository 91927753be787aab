"""The Encoding: a frozen value of frequencies, phases and amplitudes, and everything computed from it."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from . import _algebra, _backend, _checks, _hard, _positions, _schedule
from ._checks import (
    MOST_AMPLITUDE,
    check_out,
    check_precision,
    check_size,
    check_width,
    check_workers,
    count_of,
    float_type,
    new,
    plain,
    usual_type,
)
from ._periods import Turns
from ._positions import Positions
from ._rounding import HUGE, MOST, deliver, hard_rows
from ._schedule import Periodic, Schedule, explicit, real_array
from ._target import WORTH_A_THREAD, Target, collapse

__all__ = ["Encoding"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

# offset rows should stay in a second-level cache
_OFFSET_VALUES = 1 << 16

_ONE = np.ones(1)
_FLOAT32 = np.dtype(np.float32)
# of positions that are alone
_USUAL = (np.dtype(np.float64), np.dtype(np.int64))


def _usual_rows(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
    """New memory, or out seen as a plain array as `check_out` sees it; None for all but the most usual arrays."""
    if out is None:
        return np.empty(shape, dtype)
    if type(out) is not np.ndarray:
        return None
    rows = out.view()
    return rows if rows.shape == shape and rows.dtype is dtype and rows.flags.carray else None


class _NoPlan:
    """A Plan that leaves every position to the general way."""

    @staticmethod
    def encode_one(level: int, position: float, out: Array, kind: int) -> bool:
        return False


class _Waves(NamedTuple):
    """frequency: (waves, axes), indices into the encoding's frequencies, -1 for zero; residual: phase beyond a quarter turn;
    wave, quadrant: (d,), which wave a column takes, and how many quarter turns on."""

    frequency: npt.NDArray[np.intp]
    residual: Floats
    wave: npt.NDArray[np.intp]
    quadrant: npt.NDArray[np.intp]


class _Columns(NamedTuple):
    """Where each column, its derivative by angle, and its wave's cosine and sine stand in a row of waves."""

    planar: bool
    runs: npt.NDArray[np.int32]
    source: npt.NDArray[np.int32]
    amplitude: Floats
    quadrature_source: npt.NDArray[np.int32]
    quadrature_amplitude: Floats
    cosine: npt.NDArray[np.int32]
    sine: npt.NDArray[np.int32]


def _frozen(array: Array) -> Array:
    array.setflags(write=False)
    return array


class Encoding:
    """A row of sinusoids: ``amplitude[c] * sin(sum_a position[a] * frequency[c, a] + 2 pi phase[c])``.

    A frozen value: equal by value, hashable, picklable, safe to share between threads.

    Parameters
    ----------
    frequencies : array_like of shape (d,) or (d, A), or Schedule
        Radians per unit of position, for one axis or for A axes. Numbers are taken as exactly those float64 values.
    phases : array_like of shape () or (d,)
        Turns. A cosine is a sine with a phase of 0.25.
    amplitudes : array_like of shape () or (d,)
        Factors; a column of zeros has amplitude 0.

    Raises
    ------
    TypeError, ValueError
        When an argument is not finite or does not fit the others.

    See Also
    --------
    sinusoidal, fourier_features, join : the usual ways to one.

    Examples
    --------
    >>> import numpy as np, posenc_fast as pf
    >>> encoding = pf.Encoding([1.0, 1.0], phases=[0.0, 0.25])
    >>> encoding.encode(0)
    array([0., 1.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_amplitudes", "_cache", "_index", "_phases", "_recipe", "_schedules")
    _schedules: tuple[Schedule, ...]
    _index: npt.NDArray[np.intp]
    _phases: Floats
    _amplitudes: Floats
    _recipe: str
    _cache: dict[Any, Any]
    _pinned: str | None = None

    def __init__(
        self, frequencies: npt.ArrayLike | Schedule, phases: npt.ArrayLike = 0.0, amplitudes: npt.ArrayLike = 1.0
    ) -> None:
        schedule: Schedule
        if isinstance(frequencies, Schedule):
            schedule, index = frequencies, np.arange(len(frequencies))[:, np.newaxis]
        else:
            values = real_array(frequencies, "frequencies")
            if values.ndim not in (1, 2) or values.size == 0:
                raise ValueError(
                    f"frequencies has shape {values.shape}, but must have (d,) or (d, axes), none of them 0"
                )
            schedule, index = explicit(values)
        d = len(index)
        arrays: list[Floats] = []
        for name, given in (("phases", phases), ("amplitudes", amplitudes)):
            array = real_array(given, name)
            if array.shape not in ((), (d,)):
                raise ValueError(
                    f"{name} has shape {array.shape}, but must be one number or have shape ({d},), as many as frequencies"
                )
            arrays.append(np.broadcast_to(array, (d,)))
        self._set((schedule,), index, arrays[0], arrays[1], "")

    @classmethod
    def _make(
        cls, schedules: tuple[Schedule, ...], index: Array, phases: Array, amplitudes: Array, recipe: str
    ) -> Self:
        self = cls.__new__(cls)
        self._set(schedules, index, phases, amplitudes, recipe)
        return self

    @classmethod
    def _adopt(cls, other: Encoding) -> Self:
        return cls._make(other._schedules, other._index, other._phases, other._amplitudes, other._recipe)

    def _set(
        self, schedules: tuple[Schedule, ...], index: Array, phases: Array, amplitudes: Array, recipe: str
    ) -> None:
        check_width(len(index))
        largest = float(np.abs(amplitudes).max())
        if largest > MOST_AMPLITUDE:
            raise ValueError(f"amplitudes (scale) must be at most {MOST_AMPLITUDE:.3g}, not {largest!r}")
        # equal schedules are one, so that equal frequencies share their waves
        different = tuple(dict.fromkeys(schedules))
        if len(different) < len(schedules):
            begins = np.cumsum([0, *map(len, different)])
            places = [begins[different.index(schedule)] + np.arange(len(schedule)) for schedule in schedules]
            index = np.concatenate([*places, [-1]])[index]
        values = {
            "_schedules": different,
            "_index": _frozen(np.array(index, np.intp)),
            "_phases": _frozen(np.array(phases, np.float64)),
            "_amplitudes": _frozen(np.array(amplitudes, np.float64)),
            "_recipe": recipe,
            "_cache": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    # ---- the value ----------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Encoding is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an Encoding is frozen: {name} cannot be deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self._schedules, self._index, self._phases, self._amplitudes, self._recipe)

    def _key(self) -> tuple[Any, ...]:
        return (
            self._schedules,
            self._index.shape,
            self._index.tobytes(),
            (self._phases + 0.0).tobytes(),
            (self._amplitudes + 0.0).tobytes(),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Encoding):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        if self._recipe:
            return self._recipe
        axes = f" over {self.ndim} axes" if self.ndim > 1 else ""
        return f"<Encoding of {self.d_model} columns{axes}>"

    @property
    def d_model(self) -> int:
        """Number of columns."""
        return len(self._index)

    @property
    def ndim(self) -> int:
        """Number of axes of a position."""
        return int(self._index.shape[1])

    @property
    def frequencies(self) -> Floats:
        """Radians per unit of position, rounded to float64: (d,), or (d, A) for A axes."""
        values = self._radians()[self._index]
        return values[:, 0] if self.ndim == 1 else values

    @property
    def phases(self) -> Floats:
        """Phases in turns: (d,)."""
        return self._phases

    @property
    def amplitudes(self) -> Floats:
        """Amplitudes: (d,)."""
        return self._amplitudes

    @property
    def wavelengths(self) -> Floats:
        """Units of position per turn, infinite where the frequency is zero: (d,), or (d, A) for A axes."""
        with np.errstate(divide="ignore"):
            return 2 * np.pi / np.abs(self.frequencies)

    # ---- what the engines take ----------------------------------------------------------------------------------

    def _radians(self) -> Floats:
        """All frequencies, rounded, and a zero behind them for the index -1."""
        values = self._cache.get("radians")
        if values is None:
            parts = [_schedule.radians(schedule) for schedule in self._schedules]
            values = self._cache["radians"] = np.concatenate([*parts, [0.0]])
        return values

    def _waves(self) -> _Waves:
        waves = self._cache.get("waves")
        if waves is None:
            quarters = np.rint(4 * self._phases)
            residual = self._phases - quarters / 4
            keys = self._index
            if residual.any():
                keys = np.column_stack([keys, residual.view(np.int64)])
            if keys.shape[1] == 1:
                unique, inverse = np.unique(keys[:, 0], return_inverse=True)
                unique = unique[:, np.newaxis]
            else:
                unique, inverse = np.unique(keys, axis=0, return_inverse=True)
            index = unique[:, : self.ndim]
            residuals = unique[:, self.ndim].view(np.float64) if residual.any() else np.zeros(len(unique))
            waves = _Waves(index, residuals, inverse.reshape(-1), np.mod(quarters, 4).astype(np.intp))
            self._cache["waves"] = waves
        return waves

    def _columns(self) -> _Columns:
        columns = self._cache.get("columns")
        if columns is None:
            waves = self._waves()
            count = len(waves.frequency)

            def place(quadrant: Array, planar: bool) -> npt.NDArray[np.int32]:
                odd = quadrant % 2
                places: Array = waves.wave + count * odd if planar else 2 * waves.wave + odd
                return places.astype(np.int32)

            def runs(source: Array) -> npt.NDArray[np.int32]:
                breaks = np.flatnonzero(np.diff(source) != 1) + 1
                return np.concatenate([[0], breaks, [len(source)]]).astype(np.int32)

            planar = min((False, True), key=lambda p: len(runs(place(waves.quadrant, p))))
            source, following = place(waves.quadrant, planar), waves.quadrant + 1
            columns = self._cache["columns"] = _Columns(
                planar,
                runs(source),
                source,
                np.where(waves.quadrant >= 2, -self._amplitudes, self._amplitudes),
                place(following, planar),
                np.where(following % 4 >= 2, -self._amplitudes, self._amplitudes),
                place(np.ones_like(following), planar),
                place(np.zeros_like(following), planar),
            )
        return columns

    def _engine(self) -> _backend.Engine:
        return _backend.current() if self._pinned is None else _backend.select(self._pinned)

    def _plan(
        self, engine: _backend.Engine, form: str, unit: Fraction = Fraction(1), single: bool = False
    ) -> tuple[Any, Floats, bool]:
        """The engine's Plan for positions of a form, its largest turns, and whether a component of ones is needed."""
        key: tuple[Any, ...] = (
            (engine.backend, form) if unit == 1 and not single else (engine.backend, form, unit, single)
        )
        found = self._cache.get(key)
        if found is None:
            waves, columns = self._waves(), self._columns()
            phase = bool(waves.residual.any())
            axes = []
            for multiple in {"real": (1,), "pair": (1, 1), "integer": (2**32, 1)}[form]:
                frequencies = self._single() if single else self._turns(unit, multiple)
                axes += [frequencies[:, waves.frequency[:, a]] for a in range(self.ndim)]
            if not single:
                # their positions come reduced to turns, as sums of two doubles
                turns = [waves.frequency[:, a] == k for a, k, _ in self._periods()]
                axes += [np.stack([each, np.zeros(len(each))]) for each in 2 * turns]
            if phase:
                ones = np.stack([waves.residual, np.zeros_like(waves.residual)])
                axes.append((2 * np.pi * ones).astype(np.float32).astype(np.float64) if single else ones)
            frequencies = np.ascontiguousarray(np.stack(axes, axis=1))
            largest = np.abs(frequencies[0]).max(axis=1) / (2 * np.pi if single else 1)
            # no position can be multiplied with these but by exact arithmetic
            largest[largest > HUGE] = np.inf
            plan = engine.module.Plan(
                frequencies, largest, columns.source, columns.amplitude, columns.runs, columns.planar
            )
            found = self._cache[key] = (plan, largest, phase)
        return found

    def _turns(self, unit: Fraction, multiple: int) -> Floats:
        """All frequencies in turns as sums of two doubles, and a zero behind them for the index -1."""
        parts = [
            np.zeros((2, len(schedule)))
            if isinstance(schedule, Periodic)
            else _schedule.split_turns(schedule, unit, multiple)
            for schedule in self._schedules
        ]
        return np.concatenate([*parts, np.zeros((2, 1))], axis=1)

    def _periods(self) -> list[tuple[int, int, Fraction]]:
        """Axis, index into the frequencies and length of every exact period."""
        found = self._cache.get("periods")
        if found is None:
            found, first = [], 0
            for schedule in self._schedules:
                if isinstance(schedule, Periodic):
                    for k, period in enumerate(schedule.periods, first):
                        axes = np.flatnonzero((self._index == k).any(axis=0)).tolist()
                        found += [(a, k, period) for a in axes]
                first += len(schedule)
            self._cache["periods"] = found
        return found

    def _single(self) -> Floats:
        """The same in radians, rounded to float32."""
        with np.errstate(over="ignore"):
            rounded = self._radians().astype(np.float32).astype(np.float64)
        return np.stack([rounded, np.zeros_like(rounded)])

    def _far(self, engine: _backend.Engine) -> bool:
        """Whether rows have to be evaluated one by one: one step is very many turns, or whole turns are to be exact."""
        far = self._cache.get("far")
        if far is None:
            largest = self._plan(engine, "integer")[1][self.ndim : 2 * self.ndim]
            far = self._cache["far"] = bool((largest > MOST).any() or self._periods())
        return far

    def _lattice(self, engine: _backend.Engine, wide: bool) -> tuple[Any, int]:
        """The engine's Lattice, and the binary logarithm of its span; None where each step is too many turns for one."""
        key = (engine.backend, engine.level, wide)
        found = self._cache.get(key)
        if found is None:
            if self._far(engine):
                found = self._cache[key] = (None, 0)
                return found
            columns = self._columns()
            block_bits = max(2, min(6, (_OFFSET_VALUES // self.d_model).bit_length() - 1))
            span_bits = block_bits + 6
            lattice = engine.module.Lattice(
                engine.level,
                self._plan(engine, "integer")[0],
                columns.quadrature_source,
                columns.quadrature_amplitude,
                columns.cosine,
                columns.sine,
                block_bits,
                span_bits,
                wide,
            )
            found = self._cache[key] = (lattice, span_bits)
        return found

    # ---- tables -------------------------------------------------------------------------------------------------

    def table(
        self,
        length: int,
        *,
        start: float = 0,
        step: float = 1,
        dtype: npt.DTypeLike = np.float32,
        precision: str = "exact",
        out: Array | None = None,
        workers: int | None = None,
    ) -> Array:
        """Rows of the positions ``start + i * step``.

        Parameters
        ----------
        length : int
            Number of rows; 0 gives an empty array.
        start, step : int or float
            First position and distance, real numbers; integers are exact over all of int64 and uint64.
        dtype : dtype
            float64, float32, float16 or bfloat16 (of ml_dtypes).
        precision : {"exact", "float32"}
            "float32" reproduces frameworks that compute in float32: frequencies, positions and their products are
            rounded to float32, then the exact sine is taken.
        out : ndarray of shape (length, d_model), optional
            Where to write, of that dtype; the values of a row must be next to each other. It is returned.
        workers : int, optional
            Largest number of threads, as in `scipy.fft`; None is 1. Small tables use one.

        Returns
        -------
        ndarray of shape (length, d_model)

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit; nothing has been written then.

        Notes
        -----
        The row of an integer position has the same bits whatever start, length, step, workers and out are.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> pf.sinusoidal(4, base=100.0).table(2)
        array([[0.        , 1.        , 0.        , 1.        ],
               [0.84147096, 0.5403023 , 0.09983341, 0.9950042 ]], dtype=float32)
        """
        length = count_of(length, "length", 0)
        check_size("length", length, (length, self.d_model), 2)
        self._one_axis("table")
        if precision == "exact" and workers is None and type(start) is int and type(step) is int:
            table = self._small_table(length, start, step, dtype, out)
            if table is not None:
                return table
        kind = float_type(dtype)
        check_size("length", length, (length, self.d_model), kind.itemsize)
        single, threads = check_precision(precision), check_workers(workers)
        first, each = _checks.progression(start, step, length)
        result = self._allocate(out, (length, self.d_model), kind)
        if length:
            self._fill_progression(Target(result, warm=out is not None), first, each, single, threads)
        return result if out is None else out

    def encode(
        self,
        positions: npt.ArrayLike,
        *,
        dtype: npt.DTypeLike = np.float32,
        precision: str = "exact",
        out: Array | None = None,
        workers: int | None = None,
    ) -> Array:
        """Rows of any positions.

        Parameters
        ----------
        positions : array_like of shape (...), or (..., A) for an encoding of A axes
            Integers (exact over all of int64 and uint64), real numbers, or datetime64 and timedelta64, which count
            seconds. NaN, infinite and missing positions give rows of NaN.
        dtype, precision, out, workers
            As in `table`; out has shape (..., d_model).

        Returns
        -------
        ndarray of shape (..., d_model)

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit; nothing has been written then.

        Notes
        -----
        With a = abs(position * frequency) up to 2^53 (and for all 64-bit integers, for frequencies up to 1) the
        error is at most half a unit in the last place of the result plus 2^-50 min(1, a); for float64, one unit in
        the last place plus 2^-60 min(1, a) up to a = 2^31, and 2^-50 beyond. ``encode(-p)`` mirrors ``encode(p)`` bit
        for bit where phases are quarter turns.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> pf.sinusoidal(2).encode([0.0, -0.5])
        array([[ 0.        ,  1.        ],
               [-0.47942555,  0.87758255]], dtype=float32)
        >>> pf.sinusoidal(2).encode(np.datetime64("2026-01-01T00:00:00")).shape
        (2,)
        """
        # one timestep is asked for so often that its checks would take longer than its row
        one: Any = positions
        if (
            isinstance(one, (float, int))
            and not isinstance(one, bool)
            and dtype is np.float32
            and out is None
            and precision == "exact"
            and workers is None
            and -9007199254740992 <= one <= 9007199254740992
        ):
            engine = _backend.current() if self._pinned is None else self._engine()
            plan = self._cache.get(engine.backend) or self._quick_plan(engine)
            row = np.empty(len(self._index), _FLOAT32)
            if plan.encode_one(engine.level, one, row, 1):
                return row
        elif type(one) is np.ndarray and one.size == 1 and one.dtype in _USUAL and dtype is np.float32:
            alone = self._alone(one, out) if precision == "exact" and workers is None else None
            if alone is not None:
                return alone
        kind = float_type(dtype)
        single, threads = check_precision(precision), check_workers(workers)
        given, shape = _positions.convert(positions, self.ndim)
        result = self._allocate(out, (*shape, self.d_model), kind)
        if len(given):
            if out is not None and np.may_share_memory(given.values, out):
                given.values = given.values.copy()
            rows = collapse(result, 2)
            target = Target(new((len(given), self.d_model), kind) if rows is None else rows, warm=out is not None)
            self._fill(target, given, single, threads)
            if rows is None:
                result[...] = target.out.view(kind).reshape(result.shape)
        return result if out is None else out

    def add_to(
        self,
        x: Array,
        *,
        start: float = 0,
        step: float = 1,
        positions: npt.ArrayLike | None = None,
        x_scale: float = 1.0,
        precision: str = "exact",
        out: Array | None = None,
        workers: int | None = None,
    ) -> Array:
        """``x_scale * x + encoding``, rounded once, without a table.

        Parameters
        ----------
        x : ndarray of shape (..., L, d_model)
            float64, float32, float16 or bfloat16.
        start, step : int or float
            Row i of the L rows has position ``start + i * step``.
        positions : array_like, optional
            Positions instead: of shape (L,), or (..., L) for each row of the batch; with A axes, (L, A) or (..., L, A).
        x_scale : float
            Factor of x.
        precision, workers
            As in `table`.
        out : ndarray of the shape and type of x, optional
            Where to write; ``out=x`` adds in place. Other memory shared with x is an error.

        Returns
        -------
        ndarray of the shape and type of x

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit; x and out are as they were then.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> x = np.ones((3, 2, 4), np.float32)
        >>> pf.sinusoidal(4).add_to(x, out=x) is x
        True
        >>> x[2, 0]
        array([1., 2., 1., 2.], dtype=float32)
        """
        if type(start) is int and type(step) is int and step == 1:
            usual = positions is None and precision == "exact" and workers is None
            total = self._small_sum(x, start, x_scale, out) if usual else None
            if total is not None:
                return total
        given_x, x = x, plain(x, "x")
        dtype = float_type(x.dtype, "x")
        if x.ndim < 2 or x.shape[-1] != self.d_model:
            raise ValueError(
                f"x has shape {x.shape}, but must have (..., L, {self.d_model}), the encoding's d_model last"
            )
        scale = _checks.real(x_scale, "x_scale")
        single, threads = check_precision(precision), check_workers(workers)
        length = x.shape[-2]
        given = None
        if positions is None:
            self._one_axis("add_to without positions")
            first, each = _checks.progression(start, step, length)
        else:
            if (start, step) != (0, 1):
                raise ValueError(f"positions excludes start={start!r} and step={step!r}; leave one side out")
            given, shape = _positions.convert(positions, self.ndim)
            if shape not in ((length,), x.shape[:-1]):
                raise ValueError(
                    f"positions is for rows {shape}, but must be for {(length,)} or for {x.shape[:-1]}, those of x"
                )
        result = self._allocate(out, x.shape, dtype)
        same = out is given_x or (
            result.strides == x.strides and result.__array_interface__["data"] == x.__array_interface__["data"]
        )
        if out is not None and not same and _overlap(x, result):
            raise ValueError("out and x overlap without being the same array; give out=x, or memory of its own")
        if x.size == 0:
            return result if out is None else out
        if given is not None and out is not None and np.may_share_memory(given.values, result):
            given.values = given.values.copy()
        # one batch of all rows where each has its own position, else batches that share the rows
        batched = given is not None and shape != (length,)
        view_x, view_out = (collapse(array, 2 if batched else 3) for array in (x, result))
        if view_x is None or (x.strides[-1] != x.itemsize and self.d_model > 1):
            view_x = collapse(np.ascontiguousarray(x), 2 if batched else 3)
        assert view_x is not None
        whole = given is not None or (isinstance(first, int) and isinstance(each, int))
        direct = view_out is not None and (whole or not same)
        if not direct:
            view_out = np.empty(view_x.shape, dtype)
        assert view_out is not None
        if batched:
            view_x, view_out = view_x[np.newaxis], view_out[np.newaxis]
        target = Target(view_out, x=view_x, scale=scale)
        if given is not None:
            self._fill(target, given, single, threads)
        else:
            self._fill_progression(target, first, each, single, threads)
        if not direct:
            result[...] = view_out.reshape(result.shape)
        return result if out is None else out

    # ---- angle addition -----------------------------------------------------------------------------------------

    def shift(self, encoded: Array, offset: float, *, out: Array | None = None) -> Array:
        """Rows of positions p to rows of positions p + offset, by rotation of the pairs; no position is needed.

        Parameters
        ----------
        encoded : ndarray of shape (..., d_model)
            Rows of this encoding, float64, float32, float16 or bfloat16.
        offset : float, or one for each axis
            How far to move, in units of position.
        out : ndarray of the shape and type of encoded, optional
            Where to write; ``out=encoded`` moves in place.

        Returns
        -------
        ndarray of the shape and type of encoded
            Within two units in the last place of 1 (times the amplitude).

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit, or a column has no partner a quarter turn apart.

        Notes
        -----
        sin(a + b) = sin a cos b + cos a sin b, and the same for the cosine: section 3.5 of Vaswani et al., 2017,
        arXiv:1706.03762, gives this as the reason for sinusoids.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> encoding = pf.sinusoidal(8)
        >>> moved = encoding.shift(encoding.encode(3), 4)
        >>> bool(np.abs(moved - encoding.encode(7)).max() < 3e-7)
        True
        """
        return _algebra.shift(self, encoded, offset, out)

    def transition_matrix(self, offset: float) -> Floats:
        """The matrix M with ``encode(p) @ M == encode(p + offset)`` for every p.

        Parameters
        ----------
        offset : float, or one for each axis
            In units of position.

        Returns
        -------
        ndarray of float64, shape (d_model, d_model)
            Block diagonal but for the order of the columns; orthogonal.

        Raises
        ------
        TypeError, ValueError
            As for `shift`.

        Examples
        --------
        >>> import numpy as np, posenc_fast as pf
        >>> encoding = pf.sinusoidal(8)
        >>> table = encoding.table(20, dtype=np.float64)
        >>> bool(np.allclose(table[10:] @ encoding.transition_matrix(-10), table[:10]))
        True
        """
        return _algebra.transition_matrix(self, offset)

    def similarity(self, offsets: npt.ArrayLike) -> Array:
        """The dot product of encode(p) and encode(p + offset), which is the same for every p.

        Parameters
        ----------
        offsets : array_like of shape (...), or (..., A) for an encoding of A axes
            In units of position.

        Returns
        -------
        ndarray of float64, shape (...)

        Raises
        ------
        TypeError, ValueError
            As for `shift`.

        Notes
        -----
        The sum over pairs of ``amplitude**2 * cos(frequency * offset)``, without any encoding made.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> pf.sinusoidal(8).similarity(0)
        np.float64(4.0)
        """
        return _algebra.similarity(self, offsets)

    def locate(
        self, encoded: npt.ArrayLike, *, low: float | None = None, high: float | None = None
    ) -> tuple[Floats, Floats]:
        """The positions whose encodings are nearest to given rows.

        Parameters
        ----------
        encoded : array_like of shape (..., d_model)
            Rows, exact or disturbed.
        low, high : float, optional
            Interval to search; half the longest wavelength either side of 0 if not given. The time it takes grows
            with its length over the shortest wavelength.

        Returns
        -------
        position : ndarray of float64, shape (...)
            NaN for rows that are not finite.
        residual : ndarray of float64, shape (...)
            Euclidean distance between the row and the encoding of the position.

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit, the encoding has several axes or no frequency, or the interval is too long.

        Examples
        --------
        >>> import posenc_fast as pf
        >>> encoding = pf.sinusoidal(8, base=100.0)
        >>> position, residual = encoding.locate(encoding.encode(12.5))
        >>> round(float(position), 4), bool(residual < 1e-6)
        (12.5, True)
        """
        return _algebra.locate(self, encoded, low, high)

    def _small_table(self, length: int, start: int, step: int, dtype: Any, out: Array | None) -> Array | None:
        """The usual table without detours, where it is small enough for them to show."""
        usual, d_model = usual_type(dtype), len(self._index)
        if usual is None or step != 1 or not (0 < length * d_model < WORTH_A_THREAD) or abs(start) >= 2**62:
            return None
        rows = _usual_rows(out, (length, d_model), usual[0])
        if rows is None:
            return None
        engine = self._engine()
        lattice, span_bits = self._lattice(engine, usual[1] == 0)
        if lattice is None:
            return None
        span, offset = divmod(start, 1 << span_bits)
        lattice.table(engine.level, span, offset, rows, usual[1])
        return rows if out is None else out

    def _small_sum(self, x: Any, start: int, x_scale: Any, out: Any) -> Array | None:
        """The usual sum without detours, where x is small enough for them to show: in new memory or in place."""
        values = _usual_rows(x, x.shape, _FLOAT32) if type(x) is np.ndarray else None
        if values is None or not (out is None or out is x) or type(x_scale) is not float or not math.isfinite(x_scale):
            return None
        shape = values.shape
        if len(shape) < 2 or shape[-1] != len(self._index) or not 0 < values.size < WORTH_A_THREAD:
            return None
        if len(self._schedules) != 1 or abs(start) >= 2**62:
            return None
        engine = self._engine()
        lattice, span_bits = self._lattice(engine, False)
        if lattice is None:
            return None
        total = values if out is x else np.empty(shape, _FLOAT32)
        span, offset = divmod(start, 1 << span_bits)
        view, seen = total, values
        if len(shape) != 3:
            view, seen = (array.reshape(-1, *shape[-2:]) for array in (total, values))
        lattice.table(engine.level, span, offset, view, 1, False, seen, x_scale)
        return x if out is x else total

    def _alone(self, position: Array, out: Any) -> Array | None:
        """The row of one position in an array, or None where the usual road must be taken."""
        row = _usual_rows(out, (*position.shape, len(self._index)), _FLOAT32)
        value = position.item()
        if row is None or not -9007199254740992 <= value <= 9007199254740992:
            return None
        engine = self._engine()
        plan = self._cache.get(engine.backend) or self._quick_plan(engine)
        if not plan.encode_one(engine.level, value, row.reshape(-1), 1):
            return None
        return row if out is None else out

    def _quick_plan(self, engine: _backend.Engine) -> Any:
        """The Plan for one axis and no residual phases, or one that does no position."""
        plan, _, phase = self._plan(engine, "real")
        if phase or self.ndim != 1 or self._periods():
            plan = _NoPlan
        self._cache[engine.backend] = plan
        return plan

    def _one_axis(self, call: str) -> None:
        if self.ndim != 1:
            raise ValueError(f"{call} is for encodings of one axis; this one has {self.ndim}: use encode or grid")

    def _allocate(self, out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return new(shape, dtype) if out is None else check_out(out, shape, dtype)

    def _fill_progression(
        self, target: Target, first: Fraction | int, each: Fraction | int, single: bool, threads: int
    ) -> None:
        """Rows of first + i * each: those of integers from the lattice."""
        engine = self._engine()
        whole = isinstance(first, int) and isinstance(each, int)
        beyond = not whole and max(abs(first), abs(first + each * (target.rows - 1))) > _checks.MOST
        if single or beyond or self._far(engine):
            self._fill(target, _positions.Progression(Fraction(first), Fraction(each), target.rows), single, threads)
            return
        if not whole:
            first, each = Fraction(first), Fraction(each)
            self._fill(target, _positions.Progression(first, each, target.rows), single, threads)
            i, period = _integers_of(first, each)
            if i < target.rows:
                self._fill_progression(
                    target.every(i, period), int(first + each * i), int(each * period), single, threads
                )
            return
        lattice, span_bits = self._lattice(engine, target.kind == 0)
        begin_all, step = int(first), int(each)

        def fill(part: slice, out: Array, x: Array | None) -> None:
            begin, rows = begin_all + part.start * step, part.stop - part.start
            if step == 1 and (x is None or target.kind):
                span, offset = divmod(begin, 1 << span_bits)
                lattice.table(engine.level, span, offset, out, target.kind, target.stream, x, target.scale)
            else:
                spans, offsets = _lattice_points(begin, step, rows, span_bits)
                lattice.rows(engine.level, spans, offsets, out, target.kind, x, target.scale)

        target.run(fill, threads)

    def _fill(self, target: Target, positions: Positions, single: bool, threads: int) -> None:
        """Rows of any positions."""
        engine = self._engine()
        form, unit = positions.form, positions.unit
        if single:
            # what a framework would be given: float64 numbers of the base unit, soon to be rounded to float32
            positions, form, unit = _positions.plainly(positions), "real", Fraction(1)
        plan, largest, phase = self._plan(engine, form, unit, single)

        def fill(part: slice, out: Array, x: Array | None) -> None:
            components = self._components(positions, part, phase, single, target.kind)
            hard = plan.encode(engine.level, components, out, target.kind, single, x, target.scale)
            if hard:
                rows = np.flatnonzero(hard_rows(components, largest, target.kind))
                self._fill_hard(target, positions, single, part.start + rows, rows, components, out, x)

        target.run(fill, threads)

    def _components(self, positions: Positions, part: slice, phase: bool, single: bool, kind: int) -> Floats:
        """What the plan multiplies its frequencies with."""
        periods = self._periods()
        if single or not periods:
            return positions.components(part, phase)
        key = "turns", positions.unit
        turns = self._cache.get(key)
        if turns is None:
            turns = self._cache[key] = Turns([(a, period) for a, _, period in periods], positions.unit)
        angles = turns.of(positions, part)
        # so small an angle is left to exact arithmetic, as if it were enormous
        high = angles[:, : len(periods)]
        high[hard_rows(high.reshape(-1, 1), _ONE, kind).reshape(high.shape)] = 2 * HUGE
        parts = [positions.components(part, False), angles, *[np.ones((len(angles), 1))] * phase]
        return np.concatenate(parts, axis=1)

    def _fill_hard(
        self,
        target: Target,
        positions: Positions,
        single: bool,
        absolute: Array,
        rows: Array,
        components: Floats,
        out: Array,
        x: Array | None,
    ) -> None:
        """Rows that the engine left out."""
        if not single and positions.form == "real" and self.ndim == 1:
            values = components[rows, 0]
            whole = (np.abs(values) < 2.0**63) & (np.abs(values) >= 2.0**52)
            if whole.any():
                given = _positions.Given(values[whole].astype(np.int64)[:, np.newaxis], positions.unit, None)
                given.form = "integer"
                take = rows[whole]
                part = Target.__new__(Target)
                part.__dict__.update(target.__dict__, rows=len(take), stream=False)
                part.out, part.x = out[..., take, :], None if x is None else x[..., take, :]
                self._fill(part, given, single, 1)
                out[..., take, :] = part.out
                rows, absolute = rows[~whole], absolute[~whole]
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            for row, position in zip(rows, absolute, strict=True):
                high, low = _hard.exact_row(self, positions.exactly(position), single)
                where = (..., slice(row, row + 1), slice(None))
                deliver(target.kind, high, low, out[where], None if x is None else x[where], target.scale)


def _restore(cls: type[Encoding], *state: Any) -> Encoding:
    return cls._make(*state)


def _overlap(a: Array, b: Array) -> bool:
    try:
        return np.shares_memory(a, b, max_work=100000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _integers_of(first: Fraction, each: Fraction) -> tuple[int, int]:
    """The first i >= 0 for which first + i * each is an integer, and the distance to the next; (sys.maxsize, 1) if none."""
    denominator = math.lcm(first.denominator, each.denominator)
    a, c = int(first * denominator), int(each * denominator)
    common = math.gcd(c, denominator)
    if a % common:
        return sys.maxsize, 1
    period = denominator // common
    return -(a // common) * pow(c // common, -1, period) % period, period


def _lattice_points(
    begin: int, step: int, rows: int, span_bits: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Integers begin + i * step of 64 bits as multiples of a span and offsets."""
    # modulo 2**64 the sum is right for int64 and for uint64; the first span of each row tells them apart
    i = np.arange(rows, dtype=np.uint64)
    span, offset = divmod(begin, 1 << span_bits)
    step_span, step_offset = divmod(step, 1 << span_bits)
    offsets = offset + (i * np.uint64(step_offset)).astype(np.int64)
    spans = span + i.astype(np.int64) * step_span + (offsets >> span_bits)
    return spans.astype(np.int64), (offsets & ((1 << span_bits) - 1)).astype(np.int32)
