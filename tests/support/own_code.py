"""Small programs that compute sinusoidal rows, tables or rotations: correct ones, and others with one fault each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import posenc_fast as pf
from support.fuzzing import DTYPES


class Style(NamedTuple):
    """Settings of a program for sinusoidal rows: width, column order, frequencies and dtype; and its correct steps."""

    d: int
    layout: str = "interleaved"
    cos_first: bool = False
    shift: float = 0.0
    base: float = 10000.0
    dtype: Any = np.float64

    @property
    def encoding(self) -> pf.Encoding:
        functions = ("cos", "sin") if self.cos_first else ("sin", "cos")
        return pf.sinusoidal(self.d, base=self.base, freq_shift=self.shift, layout=self.layout, functions=functions)

    @property
    def index(self) -> np.ndarray:
        return np.arange(self.d // 2, dtype=self.dtype)

    @property
    def below(self) -> float:
        return self.d / 2 - self.shift

    def powers(self, exponents: Any) -> np.ndarray:
        with np.errstate(over="ignore"):
            return (self.dtype(self.base) ** -np.asarray(exponents, self.dtype)).astype(self.dtype)

    @property
    def frequencies(self) -> np.ndarray:
        return self.powers(self.index / self.below)

    def angles(self, positions: Any, frequencies: Any = None) -> np.ndarray:
        frequencies = self.frequencies if frequencies is None else frequencies
        return np.asarray(positions).astype(self.dtype)[:, None] * frequencies.astype(self.dtype)

    def columns(self, sines: Any, cosines: Any) -> np.ndarray:
        first, second = (cosines, sines) if self.cos_first else (sines, cosines)
        both = np.stack([first, second], axis=1 if self.layout == "concatenated" else 2)
        return both.reshape(len(sines), self.d)

    def of_angles(self, angles: np.ndarray) -> np.ndarray:
        return self.columns(np.sin(angles), np.cos(angles))

    def rows(self, positions: Any) -> np.ndarray:
        return self.of_angles(self.angles(positions))


STYLES = {
    "paper": Style(64),
    "wide": Style(512, dtype=np.float32),
    "halves": Style(64, "concatenated"),
    "whisper": Style(96, "concatenated", shift=1.0),
    "whisper, float32": Style(384, "concatenated", shift=1.0, dtype=np.float32),
    "timesteps": Style(128, "concatenated", cos_first=True, dtype=np.float32),
    "musicgen": Style(32, "concatenated", cos_first=True, shift=1.0),
    "cosines first": Style(48, cos_first=True),
    "narrow": Style(16),
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
LINEAR = {"rope_type": "linear", "factor": 4.0}
ROTARIES = {
    "llama": pf.Rotary(128),
    "neox": pf.Rotary(64, rotary_dim=32),
    "qwen": pf.Rotary(64, base=1e6),
    "gptj": pf.Rotary(64, layout="interleaved"),
    "llama3": pf.Rotary(128, base=5e5, scaling=LLAMA3),
    "yarn": pf.Rotary(128, scaling=YARN),
    "linear": pf.Rotary(80, scaling=LINEAR),
}


def pairs(layout: str, dim: int) -> tuple[slice, slice]:
    """Return the columns of the first and of the second values of pairs."""
    if layout == "interleaved":
        return slice(0, dim, 2), slice(1, dim, 2)
    return slice(0, dim // 2), slice(dim // 2, dim)


class Turns(NamedTuple):
    """The correct steps of a program for the cosines and sines of a Rotary, and for the rotation, in one dtype."""

    rotary: pf.Rotary
    dtype: Any = np.float64

    @property
    def index(self) -> np.ndarray:
        return np.arange(self.rotary.rotary_dim // 2, dtype=np.float64)

    @property
    def below(self) -> float:
        return self.rotary.rotary_dim / 2

    def powers(self, exponents: Any) -> np.ndarray:
        """Return base ** -exponents for all pairs, multiplied by the ratio of scaled and unscaled frequencies."""
        return self.rotary.base ** -np.asarray(exponents) * (self.frequencies / self.like(scaling=None))

    @property
    def frequencies(self) -> np.ndarray:
        return self.rotary.frequencies

    def like(self, **changes: Any) -> np.ndarray:
        """Return the frequencies of a similar Rotary."""
        return pf.Rotary(self.rotary.head_dim, **{**self.rotary._arguments(), **changes}).frequencies

    def angles(self, positions: Any, frequencies: Any = None) -> np.ndarray:
        frequencies = self.frequencies if frequencies is None else frequencies
        return np.asarray(positions).astype(self.dtype)[:, None] * frequencies.astype(self.dtype)

    def of_angles(self, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        factor = self.dtype(self.rotary.attention_factor)
        return factor * np.cos(angles), factor * np.sin(angles)

    def tables(self, positions: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.of_angles(self.angles(positions))

    @property
    def other_layout(self) -> str:
        return "half" if self.rotary.layout == "interleaved" else "interleaved"

    def rotate(self, x: Any, cos: Any, sin: Any, layout: str | None = None) -> np.ndarray:
        a, b = pairs(layout or self.rotary.layout, self.rotary.rotary_dim)
        y = np.array(x, np.float64)
        y[..., a], y[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., b] * cos + x[..., a] * sin
        return y


# ---- faults -------------------------------------------------------------------------------------------------------------
# The functions below take functions that change one step of a program. They return a function that takes a Style or
# Turns, and returns the program with this fault.


def at(change: Callable[[Any], Any]) -> Any:
    return lambda s: lambda p: s.of_angles(s.angles(change(np.asarray(p))))


def with_frequencies(change: Callable[[Any], Any]) -> Any:
    return lambda s: lambda p: s.of_angles(s.angles(p, change(s)))


def with_exponents(exponents: Callable[[Any], Any]) -> Any:
    return with_frequencies(lambda s: s.powers(exponents(s)))


def with_angles(change: Callable[[np.ndarray], np.ndarray]) -> Any:
    return lambda s: lambda p: s.of_angles(change(s.angles(p)).astype(s.dtype))


def with_rows(change: Callable[[np.ndarray, np.ndarray, Style], np.ndarray]) -> Any:
    return lambda s: lambda p: change(s.rows(p), np.asarray(p), s)


def with_columns(change: Callable[[np.ndarray], tuple[Any, Any]]) -> Any:
    """change: function from angles to the values in the columns of sines, and to those in the columns of cosines."""
    return lambda s: lambda p: s.columns(*change(s.angles(p)))


def with_two_exponents(factor: float, of_sines: float, of_cosines: float) -> Any:
    """For pair i, the exponents of sines and cosines are factor * i + of_sines and factor * i + of_cosines, by d / 2."""

    def fault(s: Style) -> Any:
        frequencies = [s.powers((factor * s.index + shift) / s.below) for shift in (of_sines, of_cosines)]
        return lambda p: s.columns(np.sin(s.angles(p, frequencies[0])), np.cos(s.angles(p, frequencies[1])))

    return fault


def other(change: Callable[[Style], dict[str, Any]]) -> Any:
    return lambda s: s._replace(**change(s)).rows


def through(half: Any, values: Any) -> np.ndarray:
    """Return values of any type, rounded to 16 bits."""
    return np.asarray(values, np.float32).astype(half).astype(np.float64)


def without_row(number: int) -> Any:
    return with_rows(lambda rows, p, s: np.where((p == number)[:, None], 0, rows))


def rotates(tables: Callable[[Turns], Any]) -> Any:
    """tables: function that takes Turns, and returns a program for tables with a fault."""
    return lambda t: lambda x, p: t.rotate(x, *tables(t)(p))


def mixed(copies: bool, partners: bool, signs: tuple[int, int] = (-1, 1)) -> Any:
    """Return a function that takes Turns, and returns a program that rotates by x * cos + partner * sin, with a fault.

    The partner of a value is the other value of its pair. copies: whether the two copies of each cosine and sine are in
    the wrong layout. partners: whether the partners are taken in the wrong layout. signs: signs of the partner of a
    pair's first value and of its second value; (-1, 1) is correct.
    """

    def fault(t: Turns) -> Any:
        dim = t.rotary.rotary_dim
        of_copies, of_partners = (t.other_layout if wrong else t.rotary.layout for wrong in (copies, partners))

        def f(x: Any, p: Any) -> np.ndarray:
            cos, sin, y = np.empty((len(p), dim)), np.empty((len(p), dim)), np.array(x, np.float64)
            for columns in pairs(of_copies, dim):
                cos[:, columns], sin[:, columns] = t.tables(p)
            a, b = pairs(of_partners, dim)
            y[..., a], y[..., b] = signs[0] * x[..., b], signs[1] * x[..., a]
            y[..., :dim] = x[..., :dim] * cos + y[..., :dim] * sin
            return y

        return f

    return fault


# keys: names of cases. Values: (fault that the report must name, function that takes Style or Turns).
Faults = dict[str, tuple[str, Callable[[Any], Any]]]
# fmt: off
SHARED_FAULTS: Faults = {
    "positions from 1": ("start", at(lambda p: p + 1)),
    "positions from -1": ("start", at(lambda p: p - 1)),
    "always position 0": ("start", at(lambda p: 0 * p)),
    "i/d for 2i/d": ("exponent", with_exponents(lambda s: s.index / (2 * s.below))),
    "4i/d for 2i/d": ("exponent", with_exponents(lambda s: 2 * s.index / s.below)),
    "d - 2 below": ("exponent", with_exponents(lambda s: s.index / (s.below - 1))),
    "d + 2 below": ("exponent", with_exponents(lambda s: s.index / (s.below + 1))),
    "i from 1": ("exponent", with_exponents(lambda s: (s.index + 1) / s.below)),
    "powers for quotients": ("exponent", with_exponents(lambda s: -s.index / s.below)),
    "degrees": ("units", with_angles(np.degrees)),
    "turns": ("units", with_angles(lambda angles: 2 * np.pi * angles)),
    "slow frequencies first": ("layout", with_frequencies(lambda s: s.frequencies[::-1].copy())),
    "repeats after 2048": ("length", at(lambda p: p % 2048)),
}
for name in ("bfloat16", "float16"):
    if name in DTYPES:
        rounded = functools.partial(through, DTYPES[name])
        SHARED_FAULTS |= {
            f"positions in {name}": ("rounded", at(rounded)),
            f"frequencies in {name}": ("rounded", with_frequencies(lambda s, rounded=rounded: rounded(s.frequencies))),
            f"angles in {name}": ("rounded", with_angles(rounded)),
        }
SINUSOIDAL_FAULTS: Faults = {
    **SHARED_FAULTS,
    "positions from 2": ("start", at(lambda p: p + 2)),
    "centres of positions": ("start", at(lambda p: p + 0.5)),
    "d + 1 below": ("exponent", with_exponents(lambda s: s.index / (s.below + 0.5))),
    "d/2 - 1 below 2i": ("exponent", with_exponents(lambda s: 2 * s.index / (s.below - 1))),
    "odd exponents": ("exponent", with_exponents(lambda s: (s.index + 0.5) / s.below)),
    "exponents of cosines one too far": ("exponent", with_two_exponents(1, 0, 0.5)),
    "exponents of cosines two too far": ("exponent", with_two_exponents(1, 0, 1)),
    "exponents of sines one too far": ("exponent", with_two_exponents(1, 0.5, 0)),
    "exponents of columns": ("exponent", with_two_exponents(2, 0, 1)),
    "exponents of doubled columns": ("exponent", with_two_exponents(4, 0, 2)),
    "integer division": ("exponent", with_exponents(lambda s: 0 * s.index)),
    "logarithm to base 10": ("exponent", with_exponents(lambda s: s.index / s.below / np.log(10))),
    "logarithm to base 2": ("exponent", with_exponents(lambda s: s.index / s.below / np.log(2))),
    "2i not divided": ("exponent", with_exponents(lambda s: 2 * s.index)),
    "i not divided": ("exponent", with_exponents(lambda s: s.index)),
    "degrees the other way": ("units", with_angles(np.radians)),
    "other layout": ("layout", other(lambda s: {"layout": "concatenated" if s.layout == "interleaved" else "interleaved"})),
    "other function first": ("layout", other(lambda s: {"cos_first": not s.cos_first})),
    "columns exchanged": ("layout", with_rows(lambda rows, p, s: rows[:, np.r_[2, 3, 0, 1, 4 : s.d]])),
    "sines alone": ("functions", with_columns(lambda angles: (np.sin(angles), np.sin(angles)))),
    "cosines alone": ("functions", with_columns(lambda angles: (np.cos(angles), np.cos(angles)))),
    "negative positions": ("sign", at(lambda p: -p)),
    "negative rows": ("sign", with_rows(lambda rows, p, s: -rows)),
    "negative cosines": ("sign", with_columns(lambda angles: (np.sin(angles), -np.cos(angles)))),
    "base 1000": ("base", other(lambda s: {"base": 1000.0})),
    "base 100000": ("base", other(lambda s: {"base": 100000.0})),
    "base 500000": ("base", other(lambda s: {"base": 500000.0})),
    "base 12345": ("base", other(lambda s: {"base": 12345.0})),
    "repeats after 512": ("length", at(lambda p: p % 512)),
    "repeats after 5000": ("length", at(lambda p: p % 5000)),
    "stays at 1023": ("length", at(lambda p: np.minimum(p, 1023))),
    "zero after 2000": ("length", with_rows(lambda rows, p, s: np.where((p < 2000)[:, None], rows, 0))),
    "signed 16 bits": ("length", at(lambda p: (p + 32768) % 65536 - 32768)),
    "times sqrt(d)": ("amplitude", with_rows(lambda rows, p, s: rows * s.d**0.5)),
    "by sqrt(d)": ("amplitude", with_rows(lambda rows, p, s: rows / s.d**0.5)),
    "times a learnt factor": ("amplitude", with_rows(lambda rows, p, s: rows * 0.9371)),
    "added twice": ("amplitude", with_rows(lambda rows, p, s: 2 * rows)),
    "half the positions": ("scaling", at(lambda p: p / 2)),
    "thousand times the positions": ("scaling", at(lambda p: p * 1000.0)),
    "a padding row": ("padding", without_row(0)),
    "a padding row 1": ("padding", without_row(1)),
    "a padding row and one too far": ("padding", lambda s: lambda p: np.where((np.asarray(p) == 0)[:, None], 0, s.rows(np.asarray(p) - 1))),
    "a row is not finite": ("values", with_rows(lambda rows, p, s: np.where((p == 7)[:, None], np.nan, rows))),
    "a row is another": ("values", with_rows(lambda rows, p, s: np.where((p == 7)[:, None], 0.25, rows))),
    "a column is another": ("values", with_rows(lambda rows, p, s: np.where(np.arange(s.d) == 3, 0.25, rows))),
}
TABLE_FAULTS: Faults = {
    **SHARED_FAULTS,
    "exchanged": ("layout", lambda t: lambda p: t.tables(p)[::-1]),
    "backwards": ("sign", lambda t: lambda p: (t.tables(p)[0], -t.tables(p)[1])),
    "other cosines' sign": ("sign", lambda t: lambda p: (-t.tables(p)[0], t.tables(p)[1])),
    "other base": ("base", with_frequencies(lambda t: t.like(base=2.5 * t.rotary.base))),
    "a tenth of the base": ("base", with_frequencies(lambda t: t.like(base=t.rotary.base / 10))),
    "stays at 4095": ("length", at(lambda p: np.minimum(p, 4095))),
    "attention factor": ("scaling", lambda t: lambda p: tuple(t.dtype(1.25) * table for table in t.tables(p))),
    "positions divided by 8": ("scaling", at(lambda p: p / 8)),
}
FAULTS_OF_ROTATIONS = "positions from 1", "d - 2 below", "degrees", "other base", "repeats after 2048", "positions in float16"
TABLE_FAULTS |= {f"rotation: {name}": (TABLE_FAULTS[name][0], rotates(TABLE_FAULTS[name][1])) for name in FAULTS_OF_ROTATIONS}
TABLE_FAULTS |= {
    "rotation: other layout": ("layout", lambda t: lambda x, p: t.rotate(x, *t.tables(p), t.other_layout)),
    "rotation: cosines of the other layout": ("layout", mixed(True, False)),
    "rotation: partners of the other layout": ("layout", mixed(False, True)),
    "rotation: a sign lost": ("layout", mixed(False, False, (1, 1))),
    "rotation: backwards": ("sign", mixed(False, False, (1, -1))),
}
SCALED_FAULTS: Faults = {
    "without the scaling": ("scaling", with_frequencies(lambda t: t.like(scaling=None))),
    "the scaling twice": ("scaling", with_frequencies(lambda t: t.frequencies**2 / t.like(scaling=None))),
}
# fmt: on
