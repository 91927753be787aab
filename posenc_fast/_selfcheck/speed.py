"""Compare speed with NumPy programs on this machine, for ``posenc-fast bench``. See bench/ for more comparisons."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._core.encoding.builders import sinusoidal
from .._core.encoding.value import Encoding
from .._core.numbers.arrays import Array, Floats
from .._core.numbers.formats import float_type, types_here
from .._core.rotary.value import Rotary
from ..reference import vaswani_numpy
from . import timing as _timing

RUNS = 41


class Side(NamedTuple):
    """Two calls to compare: ours and NumPy's. Their values differ by at most ``tolerance``."""

    name: str
    ours: Callable[[], Array]
    numpy: Callable[[], Array]
    tolerance: float


class Comparison(NamedTuple):
    """Result of a comparison.

    ours and numpy are median nanoseconds per value. low and high are quartiles of the ratio of NumPy's time to ours.
    """

    name: str
    ours: float
    numpy: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Ratio of NumPy's time to ours, from the two medians."""
        return self.numpy / self.ours

    @property
    def noisy(self) -> bool:
        """True if the times vary so much that the numbers are unreliable, for example on a busy machine."""
        return self.high > 1.5 * self.low or not self.low <= self.ratio <= self.high


def compare(side: Side) -> Comparison:
    """Check that the values of both sides agree, then time the sides alternately, on one thread each."""
    values = side.ours()
    error = float(np.abs(values.astype(np.float64) - side.numpy()).max())
    if not error <= side.tolerance:
        raise RuntimeError(
            f"{side.name}: the values of posenc_fast and NumPy differ by {error:.3g}, but may differ by at most "
            f"{side.tolerance:g}"
        )
    times = _timing.alternate({"ours": side.ours, "numpy": side.numpy}, RUNS)
    medians, ratio = _timing.medians(times), _timing.ratio(times, "numpy", "ours")
    ours, numpy = (1e9 * medians[name] / values.size for name in ("ours", "numpy"))
    return Comparison(side.name, ours, numpy, ratio.low, ratio.high)


def sides() -> Iterator[Side]:
    """Yield pairs of calls. Timing all of them takes half a minute.

    A name contains our call and, after the slash, the NumPy program. Both sides return new arrays, of float32 unless
    the side's part of the name contains another dtype.
    """
    wide, narrow = sinusoidal(512), sinusoidal(64)
    tolerances = {"float64": 1e-9, "float32": 1e-7, "float16": 5e-4, "bfloat16": 4e-3}
    for dtype in types_here():
        table = functools.partial(wide.table, 2048, dtype=float_type(dtype))
        name = f"table 2048 x 512 {dtype} / float64 formula"
        yield Side(name, table, lambda: vaswani_numpy(2048, 512), tolerances[dtype])
    name = "table 2048 x 512 float32 / float32 formula"
    yield Side(name, functools.partial(wide.table, 2048), lambda: float32_formula(2048, 512), 3e-4)
    for count in (1, 100_000):
        seconds = np.random.default_rng(0).uniform(1.6e9, 1.9e9, count)
        numpy_rows = functools.partial(formula, narrow, seconds)
        name = f"encode {count} times x 64 / float64 formula"
        yield Side(name, functools.partial(narrow.encode, seconds), numpy_rows, 1e-6)
    x = np.zeros((8, 512, 512), np.float32)
    ready = wide.table(512)
    yield Side(
        "add to 8 x 512 x 512 / x + ready table",
        functools.partial(wide.add_to, x),
        lambda: x + ready,
        0.0,
    )
    rotary, queries = Rotary(128), np.random.default_rng(0).standard_normal((1, 32, 512, 128), np.float32)
    cos, sin = (np.concatenate([part, part], -1) for part in rotary.tables(512))
    yield Side(
        "rotate 32 x 512 x 128 / ready cos and sin",
        functools.partial(rotary.apply, queries),
        lambda: queries * cos + np.concatenate([-queries[..., 64:], queries[..., :64]], -1) * sin,
        2e-6,
    )


def float32_formula(length: int, d_model: int) -> Array:
    """Return the table of PyTorch's tutorial, computed with NumPy in the steps of the tutorial, all in float32."""
    position = np.arange(length, dtype=np.float32)[:, np.newaxis]
    exponents = np.arange(0, d_model, 2, dtype=np.float32) * np.float32(-math.log(10000.0) / d_model)
    angles = position * np.exp(exponents)
    table = np.zeros((length, d_model), np.float32)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles)
    return table


def formula(encoding: Encoding, positions: Floats) -> Floats:
    """Return the rows of any encoding of one axis by the float64 formula, as in `reference.vaswani_numpy`."""
    table = np.zeros((len(positions), encoding.d_model))
    # columns of amplitude 0 stay 0
    nonzero = encoding.amplitudes != 0
    for phase in np.unique(encoding.phases[nonzero]):
        columns = _as_slice(np.flatnonzero((encoding.phases == phase) & nonzero))
        angles = positions[:, np.newaxis] * encoding.frequencies[columns]
        values = np.cos(angles) if phase == 0.25 else np.sin(angles + 2 * np.pi * phase if phase else angles)
        amplitudes = encoding.amplitudes[columns]
        table[:, columns] = values if (amplitudes == 1).all() else amplitudes * values
    return table


def _as_slice(columns: npt.NDArray[np.intp]) -> slice | npt.NDArray[np.intp]:
    """Return columns at equal distances as a slice, which is faster in NumPy, and other columns unchanged."""
    steps = np.diff(columns)
    if len(steps) == 0 or (steps != steps[0]).any():
        return columns
    return slice(int(columns[0]), int(columns[-1]) + 1, int(steps[0]))
