"""Check the promised accuracy against exact values on this machine, for ``posenc-fast verify``.

The exact values, including their frequencies, come from `oracle.py` and the definition in `reference.py`. The engines
(Python code and compiled kernel) share only the formula with these modules.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from .._core.encoding.builders import sinusoidal
from .._core.encoding.value import Encoding
from .._core.engine import backend as _backend
from .._core.numbers.arrays import Array
from .._core.numbers.formats import FORMATS, float_type, types_here
from ..reference import exact_frequencies
from ..typing import Backend, Isa
from . import oracle as _oracle

CALLS = ("table", "encode", "add_to")
# number of rows to draw and to compute exactly at a time
ROWS = 4
# (width, base, freq_shift) of the encodings to check
_SCHEDULES = ((64, 10000.0, 0.0), (17, 10000.0, 1.0), (2, 100.0, 0.0), (130, 500000.0, 0.0))
# name of a dtype -> (number of significant bits, binary exponent of the smallest positive number)
_FORMATS = {each.name: (each.bits, each.least) for each in FORMATS}


def _subnormal(rng: np.random.Generator) -> float:
    """Return a position close to a subnormal number of a random dtype, or to the middle of two such numbers.

    The sine of so small a position is almost equal to the position.
    """
    bits, least = list(_FORMATS.values())[rng.integers(len(_FORMATS))]
    # `middle` is a subnormal number, or the middle of two, in units of the smallest positive number
    middle = rng.integers(0, 2 ** (bits - 1)) + 0.5 * rng.integers(0, 2)
    factor = 1 + math.ldexp(rng.uniform(-1, 1), -int(rng.integers(bits, 60)))
    return float(rng.choice([-1, 1]) * math.ldexp(middle * factor, least))


# name of a range of positions -> function that draws a position of the range. If it draws an integer, this is the first
# of ROWS consecutive positions.
RANGES: dict[str, Callable[[np.random.Generator], Any]] = {
    "0 .. 4095": lambda rng: rng.integers(0, 4096 - ROWS),
    "1e6 .. 2e6": lambda rng: rng.integers(10**6, 2 * 10**6),
    "unix seconds": lambda rng: rng.integers(16 * 10**8, 19 * 10**8),
    "unix milliseconds": lambda rng: rng.integers(16 * 10**11, 19 * 10**11),
    "all of int64": lambda rng: rng.integers(-(2**63), 2**63 - ROWS),
    "all of uint64": lambda rng: rng.integers(0, 2**64 - ROWS, dtype=np.uint64),
    "-1000 .. 1000": lambda rng: rng.uniform(-1000, 1000),
    "up to 2^53": lambda rng: rng.choice([-1, 1]) * 2.0 ** rng.uniform(0, 53),
    "near 0": lambda rng: rng.normal() * 10.0 ** rng.integers(-40, 0),
    "tiny": lambda rng: rng.normal() * 10.0 ** rng.integers(-320, -40),
    "subnormal results": _subnormal,
}


class Worst(NamedTuple):
    """The value with the largest error relative to its bound. exact is its exact value, and share is error / bound."""

    encoding: Encoding
    position: float
    column: int
    value: float
    exact: Decimal
    share: float


class Finding(NamedTuple):
    """Number of values checked for one dtype, call and engine, and the worst of them."""

    values: int
    worst: Worst

    @property
    def held(self) -> bool:
        """True if every value is within its bound."""
        return self.worst.share <= 1

    def merged(self, other: Finding) -> Finding:
        """Return one finding for the values of both findings."""
        return Finding(self.values + other.values, max(self.worst, other.worst, key=lambda worst: worst.share))


def engines() -> dict[str, tuple[Backend, Isa | None]]:
    """Return a dict from the name of each engine of this machine to (backend, instruction-set level or None)."""
    by_name: dict[str, tuple[Backend, Isa | None]] = {"python": ("python", None)}
    for isa in _backend.isa_levels():
        by_name[isa] = "cython", isa
    return by_name


def verify(
    seconds: float, seed: int, done: Callable[[float], object] = lambda passed: None
) -> dict[tuple[str, str, str], Finding]:
    """Check random positions for this number of seconds, or longer, until every encoding had positions of every range.

    Return a dict (dtype, call, engine) -> Finding. After each sample, call ``done`` with the number of seconds that
    have passed, at most ``seconds``.
    """
    rng = np.random.default_rng(seed)
    encodings = [
        (sinusoidal(d, base=base, freq_shift=shift), exact_frequencies(d, base, shift)) for d, base, shift in _SCHEDULES
    ]
    findings: dict[tuple[str, str, str], Finding] = {}
    draws, dtypes = list(RANGES.values()), types_here()
    begin, rounds = time.monotonic(), 0
    while rounds < len(draws) * len(encodings) or time.monotonic() - begin < seconds:
        # each encoding in turn, with every range
        draw = draws[rounds % len(draws)]
        encoding, frequencies = encodings[rounds // len(draws) % len(encodings)]
        first = draw(rng)
        positions: Any
        if isinstance(first, np.integer):
            # consecutive positions, so that `table` can compute them
            positions = first + np.arange(ROWS, dtype=first.dtype)
        else:
            positions = [draw(rng) for _ in range(ROWS)]
        sample = _Sample(encoding, frequencies, np.array(positions), rng)
        for dtype in dtypes:
            x = sample.noise.astype(float_type(dtype))
            sample.compute_sums(x)
            for call in CALLS:
                for engine, (backend, isa) in engines().items():
                    with _backend.use_backend(backend, isa):
                        finding = sample.judge(sample.rows(call, dtype, x), call, dtype)
                    key = dtype, call, engine
                    findings[key] = findings[key].merged(finding) if key in findings else finding
        rounds += 1
        done(min(time.monotonic() - begin, seconds))
    return findings


class _Sample:
    """Positions of one sample, and the exact rows at these positions.

    angles has the absolute angles of the values, in radians, of shape (ROWS, d_model). noise has float64 numbers of
    this shape. Rounded to a dtype, they are the x of `add_to`.
    """

    def __init__(
        self, encoding: Encoding, frequencies: Sequence[Decimal], positions: Array, rng: np.random.Generator
    ) -> None:
        self.encoding, self.positions, self.x_scale = encoding, positions, math.sqrt(encoding.d_model)
        # exact rows by the name of the call; `compute_sums` sets the entry "add_to"
        rows = _oracle.rows(positions.tolist(), frequencies, encoding.d_model)
        self.exact = {"table": rows, "encode": rows}
        scaled = _oracle.scaled(rows)
        self.scaled: dict[str, Any] = {"table": scaled, "encode": scaled}
        self.angles = np.abs(np.outer(positions.astype(np.float64), np.repeat([float(f) for f in frequencies], 2)))
        self.angles = self.angles[:, : encoding.d_model]
        self.noise = rng.normal(size=self.angles.shape)
        # in row 0, the sum nearly cancels, which shows lost digits; in row 1, x is 0, so the sum is the encoding
        self.noise[0] = [-float(value) / self.x_scale for value in rows[0]]
        self.noise[1] = 0

    def compute_sums(self, x: Array) -> None:
        """Compute the exact sums of `add_to` for x, and the larger of 1 and abs(x_scale * x) for each sum.

        1 is the largest value of the encoding.
        """
        self.exact["add_to"] = _oracle.sums(self.exact["encode"], x, self.x_scale)
        self.scaled["add_to"] = _oracle.scaled(self.exact["add_to"])
        self.larger_term = np.maximum(1.0, np.abs(x.astype(np.float64) * self.x_scale))

    def rows(self, call: str, dtype: str, x: Array) -> Array:
        """Return the rows that the active engine computes for the positions."""
        result_type = float_type(dtype)
        if call == "encode":
            return self.encoding.encode(self.positions, dtype=result_type)
        if call == "add_to":
            return self.encoding.add_to(x, positions=self.positions, x_scale=self.x_scale)
        if self.positions.dtype.kind in "iu":
            # the positions are consecutive, see `verify`
            return self.encoding.table(ROWS, start=self.positions[0].item(), dtype=result_type)
        return np.concatenate([self.encoding.table(1, start=p, dtype=result_type) for p in self.positions.tolist()])

    def judge(self, rows: Array, call: str, dtype: str) -> Finding:
        """Compare rows with the exact rows, and the errors with the bounds of docs/accuracy.md."""
        # all arrays have the shape of rows; the exact values are (exact + exact_low) / 2^exponents
        exponents, exact, exact_low = self.scaled[call]
        values = rows.astype(np.float64)
        # scale a value, its exact value and its bound by the same power of two, so that subnormal numbers lose nothing
        errors = np.abs((np.ldexp(values, exponents) - exact) - exact_low)
        bits, least = _FORMATS[dtype]
        half_ulp = np.ldexp(0.5, np.maximum(np.frexp(exact)[1] - bits, least + exponents))
        larger_term = self.larger_term if call == "add_to" else np.ones(rows.shape)
        # the last summand of a bound is proportional to `size`, except for large angles in float64
        size = np.minimum(1.0, self.angles) if call == "encode" else larger_term
        if dtype == "float64":
            bound_of_small_angles = 2 * half_ulp + np.ldexp(2.0**-60 * size, exponents)
            bound_of_large_angles = np.ldexp(2.0**-50 * larger_term, exponents)
            bound = np.where(self.angles <= 2.0**31, bound_of_small_angles, bound_of_large_angles)
            has_bound = self.angles <= 2.0**53
        else:
            bound = half_ulp + np.ldexp(2.0**-50 * size, exponents)
            has_bound = np.ones(rows.shape, np.bool_)
        # NaN counts as an infinite error
        shares = np.where(has_bound, np.nan_to_num(errors / bound, nan=math.inf), 0.0)
        row, column = np.unravel_index(int(shares.argmax()), shares.shape)
        worst = Worst(
            encoding=self.encoding,
            position=self.positions[row].item(),
            column=int(column),
            value=float(values[row, column]),
            exact=self.exact[call][row][column],
            share=float(shares[row, column]),
        )
        return Finding(int(has_bound.sum()), worst)
