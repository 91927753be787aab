"""Small programs that compute sinusoidal rows, tables or rotations: correct ones, and others with one fault each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import posenc_fast as pf
from support.fuzzing import DTYPES

HALVES = [DTYPES[name] for name in ("bfloat16", "float16") if name in DTYPES]


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
        if self.layout == "concatenated":
            return np.concatenate([first, second], axis=1)
        rows = np.empty((len(sines), self.d), sines.dtype)
        rows[:, 0::2], rows[:, 1::2] = first, second
        return rows

    def rows(self, positions: Any, frequencies: Any = None, of_cosines: Any = None) -> np.ndarray:
        """Return rows of positions. of_cosines: frequencies of the cosines, if the sines have other frequencies."""
        angles = self.angles(positions, frequencies)
        others = angles if of_cosines is None else self.angles(positions, of_cosines)
        return self.columns(np.sin(angles), np.cos(others))


def through(half: Any, values: Any) -> np.ndarray:
    """Return values of any type, rounded to 16 bits."""
    return np.asarray(values, np.float32).astype(half).astype(np.float64)


def of_exponents(exponents: Callable[[Style], Any], of_cosines: Callable[[Style], Any] | None = None) -> Any:
    def fault(style: Style) -> Any:
        second = None if of_cosines is None else style.powers(of_cosines(style))
        return lambda p: style.rows(p, style.powers(exponents(style)), second)

    return fault


def of_positions(change: Callable[[Any], Any]) -> Any:
    return lambda style: lambda p: style.rows(change(np.asarray(p)))


def of_rows(change: Callable[[np.ndarray, np.ndarray, Style], np.ndarray]) -> Any:
    return lambda style: lambda p: change(style.rows(p), np.asarray(p), style)


def of_angles(change: Callable[[np.ndarray], np.ndarray]) -> Any:
    def fault(style: Style) -> Any:
        def f(p: Any) -> np.ndarray:
            angles = change(style.angles(p)).astype(style.dtype)
            return style.columns(np.sin(angles), np.cos(angles))

        return f

    return fault


def other(**changes: Any) -> Any:
    return lambda style: style._replace(**changes).rows


def without_row(number: int) -> Any:
    return of_rows(lambda rows, p, style: np.where((p == number)[:, None], 0, rows))


def alike(function: Any) -> Any:
    """Return a fault that uses one function for the columns of sines and of cosines."""
    return lambda style: lambda p: style.columns(function(style.angles(p)), function(style.angles(p)))


# keys: names of cases. Values: (fault that the report must name, program).
# fmt: off
SINUSOIDAL_FAULTS: dict[str, tuple[str, Callable[[Style], Any]]] = {
    "rows one too far": ("start", of_positions(lambda p: p + 1)),
    "rows two too far": ("start", of_positions(lambda p: p + 2)),
    "rows one too early": ("start", of_positions(lambda p: p - 1)),
    "centres of positions": ("start", of_positions(lambda p: p + 0.5)),
    "always row 0": ("start", of_positions(lambda p: 0 * p)),
    "i/d for 2i/d": ("exponent", of_exponents(lambda s: s.index / (2 * s.below))),
    "4i/d for 2i/d": ("exponent", of_exponents(lambda s: 2 * s.index / s.below)),
    "d - 2 below": ("exponent", of_exponents(lambda s: s.index / (s.below - 1))),
    "d + 2 below": ("exponent", of_exponents(lambda s: s.index / (s.below + 1))),
    "d + 1 below": ("exponent", of_exponents(lambda s: s.index / (s.below + 0.5))),
    "d/2 - 1 below 2i": ("exponent", of_exponents(lambda s: 2 * s.index / (s.below - 1))),
    "i from 1": ("exponent", of_exponents(lambda s: (s.index + 1) / s.below)),
    "odd exponents": ("exponent", of_exponents(lambda s: (s.index + 0.5) / s.below)),
    "exponents of cosines one too far": ("exponent", of_exponents(lambda s: s.index / s.below, lambda s: (s.index + 0.5) / s.below)),
    "exponents of cosines two too far": ("exponent", of_exponents(lambda s: s.index / s.below, lambda s: (s.index + 1) / s.below)),
    "exponents of sines one too far": ("exponent", of_exponents(lambda s: (s.index + 0.5) / s.below, lambda s: s.index / s.below)),
    "exponents of columns": ("exponent", of_exponents(lambda s: 2 * s.index / s.below, lambda s: (2 * s.index + 1) / s.below)),
    "exponents of half columns": ("exponent", of_exponents(lambda s: s.index / s.below, lambda s: (2 * s.index + 1) / (2 * s.below))),
    "exponents of doubled columns": ("exponent", of_exponents(lambda s: 4 * s.index / s.below, lambda s: (4 * s.index + 2) / s.below)),
    "integer division": ("exponent", of_exponents(lambda s: 0 * s.index)),
    "powers for quotients": ("exponent", of_exponents(lambda s: -s.index / s.below)),
    "logarithm to base 10": ("exponent", of_exponents(lambda s: s.index / s.below / np.log(10))),
    "logarithm to base 2": ("exponent", of_exponents(lambda s: s.index / s.below / np.log(2))),
    "2i not divided": ("exponent", of_exponents(lambda s: 2 * s.index)),
    "i not divided": ("exponent", of_exponents(lambda s: s.index)),
    "degrees": ("units", of_angles(np.degrees)),
    "degrees the other way": ("units", of_angles(np.radians)),
    "turns": ("units", of_angles(lambda angles: 2 * np.pi * angles)),
    "other layout": ("layout", lambda s: s._replace(layout="concatenated" if s.layout == "interleaved" else "interleaved").rows),
    "other function first": ("layout", lambda s: s._replace(cos_first=not s.cos_first).rows),
    "slow frequencies first": ("layout", lambda s: lambda p: s.rows(p, s.frequencies[::-1].copy())),
    "columns exchanged": ("layout", of_rows(lambda rows, p, s: rows[:, np.r_[2, 3, 0, 1, 4 : s.d]])),
    "sines alone": ("functions", alike(np.sin)),
    "cosines alone": ("functions", alike(np.cos)),
    "negative positions": ("sign", of_positions(lambda p: -p)),
    "negative rows": ("sign", of_rows(lambda rows, p, s: -rows)),
    "negative cosines": ("sign", lambda s: lambda p: s.columns(np.sin(s.angles(p)), -np.cos(s.angles(p)))),
    "base 1000": ("base", other(base=1000.0)),
    "base 100000": ("base", other(base=100000.0)),
    "base 500000": ("base", other(base=500000.0)),
    "base 12345": ("base", other(base=12345.0)),
    "repeats after 512": ("length", of_positions(lambda p: p % 512)),
    "repeats after 5000": ("length", of_positions(lambda p: p % 5000)),
    "stays at 1023": ("length", of_positions(lambda p: np.minimum(p, 1023))),
    "zero after 2000": ("length", of_rows(lambda rows, p, s: np.where((p < 2000)[:, None], rows, 0))),
    "signed 16 bits": ("length", of_positions(lambda p: (p + 32768) % 65536 - 32768)),
    "times sqrt(d)": ("amplitude", of_rows(lambda rows, p, s: rows * s.d**0.5)),
    "by sqrt(d)": ("amplitude", of_rows(lambda rows, p, s: rows / s.d**0.5)),
    "times a learnt factor": ("amplitude", of_rows(lambda rows, p, s: rows * 0.9371)),
    "added twice": ("amplitude", of_rows(lambda rows, p, s: 2 * rows)),
    "half the positions": ("scaling", of_positions(lambda p: p / 2)),
    "thousand times the positions": ("scaling", of_positions(lambda p: p * 1000.0)),
    "a padding row": ("padding", without_row(0)),
    "a padding row 1": ("padding", without_row(1)),
    "a padding row and one too far": ("padding", lambda s: lambda p: np.where((np.asarray(p) == 0)[:, None], 0, s.rows(np.asarray(p) - 1))),
    "a row is not finite": ("values", of_rows(lambda rows, p, s: np.where((p == 7)[:, None], np.nan, rows))),
    "a row is another": ("values", of_rows(lambda rows, p, s: np.where((p == 7)[:, None], 0.25, rows))),
    "a column is another": ("values", of_rows(lambda rows, p, s: np.where(np.arange(s.d) == 3, 0.25, rows))),
}
# fmt: on
for half in HALVES:
    name = np.dtype(half).name
    SINUSOIDAL_FAULTS |= {
        f"positions in {name}": ("rounded", of_positions(lambda p, half=half: through(half, p))),
        f"frequencies in {name}": ("rounded", lambda s, half=half: lambda p: s.rows(p, through(half, s.frequencies))),
        f"angles in {name}": ("rounded", of_angles(lambda angles, half=half: through(half, angles))),
    }

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


# ---- rotary encodings -----------------------------------------------------------------------------------------------

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


class Turns(NamedTuple):
    """The correct steps of a program for the cosines and sines of a Rotary, and for the rotation, in one dtype."""

    rotary: pf.Rotary
    dtype: Any = np.float64

    @property
    def index(self) -> np.ndarray:
        return np.arange(self.rotary.rotary_dim // 2, dtype=np.float64)

    def powers(self, exponents: Any) -> np.ndarray:
        """Return base ** -exponents for all pairs, multiplied by the ratio of scaled and unscaled frequencies."""
        dim, base = self.rotary.rotary_dim, self.rotary.base
        plain = pf.Rotary(dim, base=base).frequencies
        return base ** -np.asarray(exponents) * (self.rotary.frequencies / plain)

    def angles(self, p: Any, frequencies: Any = None) -> np.ndarray:
        frequencies = self.rotary.frequencies if frequencies is None else frequencies
        return np.asarray(p).astype(self.dtype)[:, None] * frequencies.astype(self.dtype)

    def tables(self, p: Any, frequencies: Any = None, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        angles = self.angles(p, frequencies)
        size = self.dtype(factor * self.rotary.attention_factor)
        return size * np.cos(angles), size * np.sin(angles)

    def rotate(self, x: Any, cos: Any, sin: Any, layout: str | None = None) -> np.ndarray:
        layout = layout or self.rotary.layout
        dim = self.rotary.rotary_dim
        y, half = np.array(x, np.float64), dim // 2
        a, b = (slice(0, dim, 2), slice(1, dim, 2)) if layout == "interleaved" else (slice(0, half), slice(half, dim))
        y[..., a], y[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., b] * cos + x[..., a] * sin
        return y


def of_angles_of(change: Callable[[np.ndarray], np.ndarray]) -> Any:
    def fault(turns: Turns) -> Any:
        def f(p: Any) -> tuple[np.ndarray, np.ndarray]:
            angles = change(turns.angles(p)).astype(turns.dtype)
            size = turns.rotary.attention_factor
            return size * np.cos(angles), size * np.sin(angles)

        return f

    return fault


def at(change: Callable[[Any], Any]) -> Any:
    return lambda turns: lambda p: turns.tables(change(np.asarray(p)))


def with_exponents(exponents: Callable[[np.ndarray, int], Any]) -> Any:
    return lambda turns: lambda p: turns.tables(p, turns.powers(exponents(turns.index, turns.rotary.rotary_dim)))


# fmt: off
TABLE_FAULTS: dict[str, tuple[str, Callable[[Turns], Any]]] = {
    "positions from 1": ("start", at(lambda p: p + 1)),
    "positions from -1": ("start", at(lambda p: p - 1)),
    "always position 0": ("start", at(lambda p: 0 * p)),
    "i/d for 2i/d": ("exponent", with_exponents(lambda i, d: i / d)),
    "4i/d for 2i/d": ("exponent", with_exponents(lambda i, d: 4 * i / d)),
    "d - 2 below": ("exponent", with_exponents(lambda i, d: 2 * i / (d - 2))),
    "d + 2 below": ("exponent", with_exponents(lambda i, d: 2 * i / (d + 2))),
    "i from 1": ("exponent", with_exponents(lambda i, d: 2 * (i + 1) / d)),
    "powers for quotients": ("exponent", with_exponents(lambda i, d: -2 * i / d)),
    "degrees": ("units", of_angles_of(np.degrees)),
    "turns": ("units", of_angles_of(lambda angles: 2 * np.pi * angles)),
    "exchanged": ("layout", lambda t: lambda p: t.tables(p)[::-1]),
    "slow pairs first": ("layout", lambda t: lambda p: t.tables(p, t.rotary.frequencies[::-1])),
    "backwards": ("sign", lambda t: lambda p: (t.tables(p)[0], -t.tables(p)[1])),
    "other cosines' sign": ("sign", lambda t: lambda p: (-t.tables(p)[0], t.tables(p)[1])),
    "other base": ("base", lambda t: lambda p: t.tables(p, _like(t.rotary, base=2.5 * t.rotary.base).frequencies)),
    "a tenth of the base": ("base", lambda t: lambda p: t.tables(p, _like(t.rotary, base=t.rotary.base / 10).frequencies)),
    "repeats after 2048": ("length", at(lambda p: p % 2048)),
    "stays at 4095": ("length", at(lambda p: np.minimum(p, 4095))),
    "attention factor": ("scaling", lambda t: lambda p: t.tables(p, factor=1.25)),
    "positions divided by 8": ("scaling", at(lambda p: p / 8)),
}
for half in HALVES:
    name = np.dtype(half).name
    TABLE_FAULTS |= {
        f"positions in {name}": ("rounded", at(lambda p, half=half: through(half, p))),
        f"frequencies in {name}": ("rounded", lambda t, half=half: lambda p: t.tables(p, through(half, t.rotary.frequencies))),
        f"angles in {name}": ("rounded", of_angles_of(lambda angles, half=half: through(half, angles))),
    }
SCALED_FAULTS: dict[str, tuple[str, Callable[[Turns], Any]]] = {
    "without the scaling": ("scaling", lambda t: lambda p: t.tables(p, _like(t.rotary, scaling=None).frequencies)),
    "the scaling twice": ("scaling", lambda t: lambda p: t.tables(p, t.rotary.frequencies**2 / _like(t.rotary, scaling=None).frequencies)),
}
# fmt: on


def _like(rotary: pf.Rotary, **changes: Any) -> pf.Rotary:
    return pf.Rotary(rotary.head_dim, **{**rotary._arguments(), **changes})


def _other_layout(turns: Turns) -> str:
    return "half" if turns.rotary.layout == "interleaved" else "interleaved"


def _spread(table: np.ndarray, layout: str) -> np.ndarray:
    return np.repeat(table, 2, axis=1) if layout == "interleaved" else np.concatenate([table, table], axis=1)


def _partners(x: np.ndarray, layout: str, signs: tuple[int, int] = (-1, 1)) -> np.ndarray:
    y, half = np.empty_like(x), x.shape[-1] // 2
    a, b = (slice(0, None, 2), slice(1, None, 2)) if layout == "interleaved" else (slice(0, half), slice(half, None))
    y[..., a], y[..., b] = signs[0] * x[..., b], signs[1] * x[..., a]
    return y


def mixed(copies: bool, partners: bool, signs: tuple[int, int] = (-1, 1)) -> Any:
    """Return a function that takes Turns, and returns a program that rotates by x * cos + partner * sin, with a fault.

    The partner of a value is the other value of its pair. copies: whether the two copies of each cosine and sine are in
    the wrong layout. partners: whether the partners are taken in the wrong layout. signs: signs of the partner of a
    pair's first value and of its second value; (-1, 1) is correct.
    """

    def fault(turns: Turns) -> Any:
        own, dim = turns.rotary.layout, turns.rotary.rotary_dim
        spread = _other_layout(turns) if copies else own
        pairs = _other_layout(turns) if partners else own

        def f(x: Any, p: Any) -> np.ndarray:
            cos, sin = (_spread(table, spread) for table in turns.tables(p))
            part = np.array(x[..., :dim], np.float64)
            return np.concatenate([part * cos + _partners(part, pairs, signs) * sin, x[..., dim:]], axis=-1)

        return f

    return fault


# fmt: off
ROTATION_FAULTS: dict[str, tuple[str, Callable[[Turns], Any]]] = {
    "other layout": ("layout", lambda t: lambda x, p: t.rotate(x, *t.tables(p), _other_layout(t))),
    "cosines of the other layout": ("layout", mixed(True, False)),
    "partners of the other layout": ("layout", mixed(False, True)),
    "a sign lost": ("layout", mixed(False, False, (1, 1))),
    "backwards": ("sign", mixed(False, False, (1, -1))),
    "positions from 1": ("start", lambda t: lambda x, p: t.rotate(x, *t.tables(np.asarray(p) + 1))),
    "d - 2 below": ("exponent", lambda t: lambda x, p: t.rotate(x, *t.tables(p, t.powers(2 * t.index / (t.rotary.rotary_dim - 2))))),
    "degrees": ("units", lambda t: lambda x, p: t.rotate(x, *of_angles_of(np.degrees)(t)(p))),
    "other base": ("base", lambda t: lambda x, p: t.rotate(x, *t.tables(p, _like(t.rotary, base=3 * t.rotary.base).frequencies))),
    "repeats after 2048": ("length", lambda t: lambda x, p: t.rotate(x, *t.tables(np.asarray(p) % 2048))),
    "positions in 16 bits": ("rounded", lambda t: lambda x, p: t.rotate(x, *t.tables(np.asarray(p).astype(np.float16).astype(float)))),
}
# fmt: on
