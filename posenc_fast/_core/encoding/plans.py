"""Create and cache the `Plan` and `Lattice` objects of the engines, which compute the rows of an encoding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..engine import backend
from ..engine.backend import Engine
from ..engine.blocks import cache_size
from ..numbers import annotations as npt
from ..numbers.arrays import Array, Floats, empty
from ..numbers.formats import KINDS
from ..numbers.rounding import EXACT_LIMIT, SPLIT_LIMIT, TINY, round_once, rows_left_out, values_of
from ..positions.positions import Positions
from .periods import Turns
from .sinusoids import Sinusoids

_ONE = np.ones(1)
# maximum number of values in the offset rows of a lattice, so that they stay in the second-level cache
_OFFSET_VALUES = 1 << 16
# If two frequencies differ by more than this factor, a product with the smaller frequency may underflow although the
# engine finds no underflow. The engine checks only products with the largest frequency.
_FAR_APART = 2.0**70


class _Columns(NamedTuple):
    """Indices and factors that the engines use to compute columns from a row of waves.

    A row of waves has the sine and the cosine of each wave. If planar is true, all sines come before all cosines.
    Otherwise the sine and cosine of each wave are adjacent. Column c is amplitude[c] * waves[source[c]], where waves is
    this row. The derivative of column c by the angle is quadrature_amplitude[c] * waves[quadrature_source[c]]. cosine
    and sine have the indices of the cosine and the sine of each column's wave. runs has the first column of each run of
    columns whose sources are consecutive, and then the number of columns.
    """

    planar: bool
    runs: npt.NDArray[np.int32]
    source: npt.NDArray[np.int32]
    amplitude: Floats
    quadrature_source: npt.NDArray[np.int32]
    quadrature_amplitude: Floats
    cosine: npt.NDArray[np.int32]
    sine: npt.NDArray[np.int32]


class Plans:
    """The engines' `Plan` and `Lattice` objects of some sinusoids. Each is created on first use, and cached.

    Threads may use the cache without a lock. If two threads create the same entry, the two entries are equal, and one
    of them stays in the cache.
    """

    __slots__ = (
        "_cache",
        "_calls",
        "_columns_cache",
        "_derived",
        "_lattice_impossible",
        "_least",
        "_turns",
        "axes",
        "sinusoids",
        "width",
    )

    engine = staticmethod(backend.current)

    def __init__(self, sinusoids: Sinusoids) -> None:
        self.sinusoids = sinusoids
        self.width, self.axes = sinusoids.width, sinusoids.axes
        # (engine of the compiled calls, compiled calls or None); see `calls`
        self._calls: tuple[Engine | None, Any] = (None, None)
        self._cache: dict[tuple[Any, ...], Any] = {}
        self._derived: dict[str, Plans] = {}
        self._turns: dict[Fraction, Turns] = {}
        # The keys are units. The unit 1 is an int, because hashing a Fraction takes most of a microsecond.
        self._least: dict[Fraction | int, Floats | None] = {}
        self._columns_cache: _Columns | None = None
        self._lattice_impossible: bool | None = None

    def derived(self, name: str, make: Callable[[], Sinusoids]) -> Plans:
        """Return the plans of the sinusoids that `make` derives from these sinusoids. They are cached by name."""
        plans = self._derived.get(name)
        if plans is None:
            plans = self._derived[name] = Plans(make())
        return plans

    def _columns(self) -> _Columns:
        columns = self._columns_cache
        if columns is None:
            waves, amplitudes = self.sinusoids.waves(), self.sinusoids.amplitudes
            count = len(waves.frequency)

            def place(quadrant: Array, planar: bool) -> npt.NDArray[np.int32]:
                odd = quadrant % 2
                places: Array = waves.wave + count * odd if planar else 2 * waves.wave + odd
                return places.astype(np.int32)

            def runs(source: Array) -> npt.NDArray[np.int32]:
                begins = np.ones(len(source) + 1, np.bool_)
                np.not_equal(source[1:], source[:-1] + 1, out=begins[1:-1])
                return np.flatnonzero(begins).astype(np.int32)

            planar = min((False, True), key=lambda p: len(runs(place(waves.quadrant, p))))
            source, following = place(waves.quadrant, planar), waves.quadrant + 1
            columns = self._columns_cache = _Columns(
                planar,
                runs(source),
                source,
                np.where(waves.quadrant >= 2, -amplitudes, amplitudes),
                place(following, planar),
                np.where(following % 4 >= 2, -amplitudes, amplitudes),
                place(np.ones_like(following), planar),
                place(np.zeros_like(following), planar),
            )
        return columns

    def plan(self, engine: Engine, form: str, unit: Fraction = Fraction(1), single: bool = False) -> tuple[Any, bool]:
        """Return (Plan for positions of this form and unit, whether the Plan needs a component of ones for the phases).

        form is "real", "pair" or "integer", as in `Positions`. If single is true, angles are float32 products.
        """
        key: tuple[Any, ...] = (
            (engine.backend, form) if unit == 1 and not single else (engine.backend, form, unit, single)
        )
        cached: tuple[Any, bool] | None = self._cache.get(key)
        if cached is None:
            sinusoids, columns = self.sinusoids, self._columns()
            waves = sinusoids.waves()
            has_phase = bool(waves.residual.any())
            # for each component of a position, in the order of `components`: an array (2, waves) with the high and low
            # parts of the factor of the component in each wave
            factors = []
            for multiple in {"real": (1,), "pair": (1, 1), "integer": (2**32, 1)}[form]:
                per_frequency = sinusoids.single() if single else sinusoids.turns(unit, multiple)
                factors += [per_frequency[:, waves.frequency[:, a]] for a in range(sinusoids.axes)]
            if not single:
                has_period = [waves.frequency[:, period.axis] == period.frequency for period in sinusoids.periods()]
                # each period has two components: the high parts of the turns come first, for all periods, then the low
                # parts
                factors += [np.stack([mask, np.zeros(len(mask))]) for mask in 2 * has_period]
            if has_phase:
                phases = np.stack([waves.residual, np.zeros_like(waves.residual)])
                factors.append((2 * np.pi * phases).astype(np.float32).astype(np.float64) if single else phases)
            # `frequencies` has the shape (2, components, waves)
            frequencies = np.ascontiguousarray(np.stack(factors, axis=1))
            largest = np.abs(frequencies[0]).max(axis=1) / (2 * np.pi if single else 1)
            # `two_product` overflows for frequencies above SPLIT_LIMIT. If `largest` is infinite, the engine leaves all
            # rows to exact arithmetic.
            largest[largest > SPLIT_LIMIT] = np.inf
            plan = engine.module.Plan(
                frequencies, largest, columns.source, columns.amplitude, columns.runs, columns.planar
            )
            cached = self._cache[key] = (plan, has_phase)
            self._calls = (None, None)
        return cached

    def calls(self) -> Any:
        """Return the `Calls` of the active engine, a fast path for few rows, or None (see `_calls_of`)."""
        engine = self.engine()
        calls_engine, calls = self._calls
        if calls_engine is not engine:
            count, calls = len(self._cache), self._calls_of(engine)
            if len(self._cache) == count:
                # no other thread has added a plan or lattice in the meantime
                self._calls = engine, calls
        return calls

    def _calls_of(self, engine: Engine) -> Any:
        """Return a `Calls` of the kernel that uses the cached plans and lattices.

        Missing plans are not created here, because this would delay the first call. Return None for the Python engine,
        for exact periods or products in float32, and if no Plan is cached.
        """
        sinusoids, name, level = self.sinusoids, engine.backend, engine.level
        real, phase = self._cache.get((name, "real"), (None, False))
        integer, phase = self._cache.get((name, "integer"), (None, phase))
        if name == "python" or (real or integer) is None or sinusoids.periods() or sinusoids.single_products:
            return None
        lattices = [self._cache.get((name, level, wide), (None, 0))[0] for wide in (False, True)]
        least = self.least(Fraction(1))
        return engine.module.Calls(level, real, integer, *lattices, least, phase, self.axes, cache_size(), KINDS, empty)

    def least(self, unit: Fraction) -> Floats | None:
        """Return the smallest nonzero frequency of each axis, in turns per unit, to check rows for underflow.

        The engine checks only the products with the largest frequency for underflow. Return None if no product with a
        smaller frequency can underflow unnoticed. The result is 0 for a frequency that is too small for a sum of two
        doubles.
        """
        key = 1 if unit == 1 else unit
        if key not in self._least:
            sinusoids, index = self.sinusoids, self.sinusoids.waves().frequency
            turns = np.abs(sinusoids.turns(unit, 1)[0])[index]
            # array (waves, axes): whether a product with the position on the axis contributes to the wave
            is_factor = sinusoids.nonzero()[index]
            for period in sinusoids.periods():
                is_factor[index[:, period.axis] == period.frequency, period.axis] = False
            least = np.where(is_factor, turns, np.inf).min(axis=0)
            least[least < TINY] = 0.0
            far_apart = least < turns.max(axis=0) / _FAR_APART
            self._least[key] = least if far_apart.any() or not least.all() else None
        return self._least[key]

    def lattice_impossible(self) -> bool:
        """Return whether the encoding cannot have a lattice.

        The reasons are several axes, frequencies that are too large or too small, exact periods, or products in
        float32.
        """
        if self._lattice_impossible is None:
            sinusoids = self.sinusoids
            turns = sinusoids.turns(Fraction(1), 1)[0]
            too_large = (np.abs(turns[sinusoids.index]) > EXACT_LIMIT).any()
            least = self.least(Fraction(1))
            too_small = least is not None and not least.all()
            self._lattice_impossible = bool(
                sinusoids.axes != 1 or too_large or too_small or sinusoids.periods() or sinusoids.single_products
            )
        return self._lattice_impossible

    def components(self, positions: Positions, part: slice, phase: bool, single: bool) -> Floats:
        """Return the components of the positions in ``part``, which a Plan multiplies by its frequencies.

        The components are positions, turns of exact periods (high parts, then low parts), and ones if `phase` is true.
        A value above SPLIT_LIMIT in a row tells the engine to leave the row to exact arithmetic.
        """
        periods = self.sinusoids.periods()
        if single:
            return positions.components(part, phase)
        if not periods:
            return self._without_tiny(positions.components(part, phase), positions)
        turns = self._turns.get(positions.unit)
        if turns is None:
            turns = self._turns[positions.unit] = Turns(periods, positions.unit)
        angles = turns.of(positions, part)
        # rows with a tiny angle get a value above SPLIT_LIMIT, so that the engine leaves them to exact arithmetic
        high = angles[:, : len(periods)]
        high[rows_left_out(high.reshape(-1, 1), _ONE).reshape(high.shape)] = 2 * SPLIT_LIMIT
        result = np.concatenate(
            [positions.components(part, False), angles, *[np.ones((len(angles), 1))] * phase], axis=1
        )
        return self._without_tiny(result, positions)

    def _without_tiny(self, components: Floats, positions: Positions) -> Floats:
        """Return the components, with values above SPLIT_LIMIT in rows whose smallest nonzero angle is tiny.

        The engine leaves rows with such values to exact arithmetic.
        """
        least = self.least(positions.unit)
        if least is None:
            return components
        sizes = np.abs(components[:, : len(least)])
        if positions.form == "integer":
            sizes += np.abs(components[:, len(least) : 2 * len(least)])
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            tiny = ((sizes > 0) & (sizes * least < TINY)).any(axis=1, keepdims=True)
        return np.where(tiny & np.isfinite(components).all(axis=1, keepdims=True), 2 * SPLIT_LIMIT, components)

    def sign_zeros(self, components: Floats, out: Array, kind: int, added: bool) -> None:
        """Set the signs of zeros at whole quarter turns of periods, as IEEE 754 defines them for sinPi and cosPi.

        A zero of a sine has the sign of the position, so that the sine of -p is minus the sine of p. The engines get
        angles without whole turns, in which this sign is lost. The sign of a zero of a cosine does not depend on the
        position. If `added` is true, the rows are sums, and their zeros become +0.
        """
        periods, sinusoids, waves = self.sinusoids.periods(), self.sinusoids, self.sinusoids.waves()
        if not periods:
            return
        # The columns of `components` are `first` positions, `count` high and `count` low parts of the turns, and ones
        # if there are phases.
        count, first = len(periods), components.shape[1] - 2 * len(periods) - bool(waves.residual.any())
        one_term = ((sinusoids.index >= 0).sum(axis=1) == 1) & (waves.residual[waves.wave] == 0)
        for i, (axis, frequency, _) in enumerate(periods):
            for c in np.flatnonzero(one_term & (sinusoids.index[:, axis] == frequency)).tolist():
                zeros = (values_of(kind, out[..., c]) == 0).reshape(-1, len(components))
                rows = np.flatnonzero(zeros.any(axis=0))
                in_rows, quadrant, amplitude = components[rows], int(waves.quadrant[c]), sinusoids.amplitudes[c]
                quarters, low = 4 * in_rows[:, first + i], in_rows[:, first + count + i]
                side = np.sign(in_rows[:, axis : first : sinusoids.axes].sum(axis=1))
                # true where the value is exactly 0 at a quarter turn, except at position 0, whose zeros have the right
                # signs already; all other zeros are values that underflow
                exact = (low == 0) & (quarters == np.rint(quarters)) & ((quarters + quadrant) % 2 == 0) & (side != 0)
                sides = side[exact] if quadrant % 2 == 0 and not added else np.ones(int(exact.sum()))
                signs = sides if added else (-amplitude if quadrant >= 2 else amplitude) * sides
                zero_cells = (..., rows[exact], c)
                values = out[zero_cells]
                out[zero_cells] = np.where(values_of(kind, values) == 0, round_once(kind, 0.0 * signs), values)

    def capsule(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return the capsule for the key, which `make` creates on first use.

        The capsule points to memory that these plans keep.
        """
        cached = self._cache.get(("capsule", key))
        # if two threads create a capsule at the same time, both return the first capsule
        return self._cache.setdefault(("capsule", key), make()) if cached is None else cached

    def lattice(self, engine: Engine, double_double: bool) -> tuple[Any, int]:
        """Return (Lattice, binary logarithm of the number of rows in a span), or (None, 0) if `lattice_impossible`."""
        key = (engine.backend, engine.level, double_double)
        cached: tuple[Any, int] | None = self._cache.get(key)
        if cached is None:
            if self.lattice_impossible():
                cached = self._cache[key] = (None, 0)
                return cached
            columns = self._columns()
            block_bits = max(2, min(6, (_OFFSET_VALUES // self.width).bit_length() - 1))
            span_bits = block_bits + 6
            lattice = engine.module.Lattice(
                engine.level,
                self.plan(engine, "integer")[0],
                columns.quadrature_source,
                columns.quadrature_amplitude,
                columns.cosine,
                columns.sine,
                block_bits,
                span_bits,
                double_double,
            )
            cached = self._cache[key] = (lattice, span_bits)
            self._calls = (None, None)
        return cached
