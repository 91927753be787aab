"""The promises about accuracy, held against exact values on the machine at hand: ``posenc-fast verify``.

The exact values come from integers of Python (`_exact`), which share nothing with the engines but the definition.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _backend
from ._api import sinusoidal
from ._checks import float_type, types_here
from ._doubles import Floats, two_product
from ._encoding import Encoding
from ._hard import exact_row

__all__ = ["CALLS", "RANGES", "Finding", "engines", "verify"]

Array = npt.NDArray[Any]

CALLS = ("table", "encode", "add_to")
# rows that are drawn, and computed exactly, at a time
ROWS = 4
# width, base, freq_shift
_SCHEDULES = ((64, 10000.0, 0), (17, 10000.0, 1), (2, 100.0, 0), (130, 500000.0, 0))
# digits, and the exponent of the least number, of what is rounded to
_FORMATS = {"float64": (53, -1074), "float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}

RANGES: dict[str, Callable[[np.random.Generator], Any]] = {
    "0 .. 4095": lambda rng: rng.integers(0, 4096 - ROWS),
    "1e6 .. 2e6": lambda rng: rng.integers(10**6, 2 * 10**6),
    "unix seconds": lambda rng: rng.integers(16 * 10**8, 19 * 10**8),
    "unix milliseconds": lambda rng: rng.integers(16 * 10**11, 19 * 10**11),
    "all of int64": lambda rng: rng.integers(-(2**63), 2**63 - ROWS),
    "-1000 .. 1000": lambda rng: rng.uniform(-1000, 1000),
    "near 0": lambda rng: rng.normal() * 10.0 ** rng.integers(-40, 0),
}


class Finding(NamedTuple):
    """Of one type, call and engine.

    values: how many were judged; rounded_away: how many are not the nearest number to the exact one; worst: the largest
    error, as a part of what is promised.
    """

    values: int
    rounded_away: int
    worst: float

    @property
    def held(self) -> bool:
        """Whether every value was within its bound."""
        return self.worst <= 1

    def with_(self, other: Finding) -> Finding:
        """Both together."""
        return Finding(self.values + other.values, self.rounded_away + other.rounded_away, max(self.worst, other.worst))


def engines() -> dict[str, tuple[str, str | None]]:
    """Backend and level of every engine of this machine."""
    found: dict[str, tuple[str, str | None]] = {"python": ("python", None)}
    for isa in _backend.isa_levels():
        found[isa] = "cython", isa
    return found


def verify(
    seconds: float, seed: int, done: Callable[[float], object] = lambda passed: None
) -> dict[tuple[str, str, str], Finding]:
    """Draw positions until the time is over, at least once from every range; findings by type, call and engine.

    ``done`` is told how many of the seconds have passed.
    """
    rng = np.random.default_rng(seed)
    encodings = [sinusoidal(d, base=base, freq_shift=shift) for d, base, shift in _SCHEDULES]
    names = types_here()
    found: dict[tuple[str, str, str], Finding] = {}
    begin, rounds = time.monotonic(), 0
    while rounds < len(RANGES) * len(encodings) or time.monotonic() - begin < seconds:
        draw = list(RANGES.values())[rounds % len(RANGES)]
        encoding = encodings[rounds // len(RANGES) % len(encodings)]
        first = draw(rng)
        positions = first + np.arange(ROWS) if isinstance(first, np.integer) else [draw(rng) for _ in range(ROWS)]
        sample = _Sample(encoding, np.array(positions), rng)
        for name in names:
            x = sample.noise.astype(float_type(name))
            for call in CALLS:
                for engine, (backend, isa) in engines().items():
                    with _backend.use_backend(backend, isa):
                        finding = sample.judge(sample.rows(call, name, x), call, name, x)
                    key = name, call, engine
                    found[key] = found[key].with_(finding) if key in found else finding
        rounds += 1
        done(min(time.monotonic() - begin, seconds))
    return found


class _Sample:
    """Some positions, and their exact rows as sums of two doubles."""

    def __init__(self, encoding: Encoding, positions: Array, rng: np.random.Generator) -> None:
        self.encoding, self.positions = encoding, positions
        exactly = [Fraction(p) for p in positions.tolist()]
        self.exact = np.stack([exact_row(encoding, [p], False) for p in exactly], axis=1)
        self.angles = np.abs(np.array([float(p) for p in exactly])[:, np.newaxis] * encoding.frequencies)
        self.noise, self.x_scale = rng.normal(size=self.angles.shape), math.sqrt(encoding.d_model)
        # a sum that nearly cancels shows what is lost
        self.noise[0] = -self.exact[0, 0] / self.x_scale

    def rows(self, call: str, name: str, x: Array) -> Array:
        """What the engine in use makes of them."""
        kind, start = float_type(name), self.positions[0].item()
        if call == "encode":
            return self.encoding.encode(self.positions, dtype=kind)
        if call == "add_to":
            return self.encoding.add_to(x, positions=self.positions, x_scale=self.x_scale)
        if isinstance(start, int):
            return self.encoding.table(ROWS, start=start, dtype=kind)
        return np.concatenate([self.encoding.table(1, start=p, dtype=kind) for p in self.positions.tolist()])

    def judge(self, rows: Array, call: str, name: str, x: Array) -> Finding:
        """How far rows are from the exact ones, against the bounds of docs/accuracy.md."""
        parts = [self.exact[0], self.exact[1]]
        largest = np.ones(rows.shape)
        if call == "add_to":
            product = two_product(x.astype(np.float64), self.x_scale)
            parts += product
            largest = np.maximum(1.0, np.abs(product[0]))
        exact = _sums(*parts)
        errors = np.abs(_sums(rows.astype(np.float64), *(-part for part in parts)))
        bits, least = _FORMATS[name]
        half = np.ldexp(0.5, np.maximum(np.frexp(exact)[1] - bits, least))
        small = np.minimum(1.0, self.angles) if call == "encode" else largest
        if name == "float64":
            near = self.angles <= 2.0**31
            allowed = np.where(near, 2 * half + 2.0**-60 * small, 2.0**-50 * largest)
            judged = self.angles <= 2.0**53
        else:
            allowed = half + 2.0**-50 * small
            judged = np.ones(rows.shape, np.bool_)
        # what is no number is further away than any
        worst = np.nan_to_num(errors[judged] / allowed[judged], nan=math.inf).max(initial=0.0)
        return Finding(int(judged.sum()), int((errors > half)[judged].sum()), float(worst))


def _sums(*parts: Floats) -> Floats:
    """Sums, each rounded once."""
    return np.array([math.fsum(each) for each in zip(*(part.flat for part in parts), strict=True)]).reshape(
        parts[0].shape
    )
