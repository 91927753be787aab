"""Subjects of pictures, checked: an encoding or the name of a preset, and the positions of a picture's rows."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._core.encoding.picture import ordinal
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of, real
from .._core.positions.conversion import convert
from .._core.positions.positions import Converted
from .._core.rotary.value import Rotary
from ..presets._registry import facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# characters of a title
_LONGEST = 60
# values that are computed for one picture
_WORK = 1 << 25
# labels of rows whose positions are any
_LABELS = 8


def preset_or_value(encoding: Any, d_model: int, name: str = "encoding") -> tuple[str, Encoding | Rotary]:
    """Return an Encoding or a Rotary, or that of a preset, with its name in a title."""
    if isinstance(encoding, str):
        value = _of_preset(encoding, d_model, name)
        return f"{encoding}, {_size(value)}", value
    if not isinstance(encoding, (Encoding, Rotary)):
        raise TypeError(f"{name} must be an Encoding, a Rotary or the name of a preset, not {type(encoding).__name__}")
    built = repr(encoding).strip("<>")
    if len(built) <= _LONGEST:
        return built, encoding
    scaling = f", {encoding._settings.rope_type}" if isinstance(encoding, Rotary) else ""
    return f"{type(encoding).__name__} of {_size(encoding)}{scaling.replace(', default', '')}", encoding


def _of_preset(preset: str, d_model: int, name: str) -> Encoding | Rotary:
    try:
        known = facts(preset)
    except AttributeError as error:
        raise ValueError(f"{name}={preset!r}: {error}") from None
    if known.by_width:
        return known.build(d_model)
    needed = [each.name for each in inspect.signature(known.build).parameters.values() if each.default is each.empty]
    if needed:
        call = f"posenc_fast.presets.{preset}({', '.join(f'{each}=..' for each in needed)})"
        raise ValueError(f"{name}={preset!r}: the preset needs {', '.join(needed)}; draw what {call} returns")
    return known.build()


def _size(value: Encoding | Rotary) -> str:
    return f"{value.rotary_dim // 2} pairs" if isinstance(value, Rotary) else f"{value.d_model} columns"


def one_axis(encoding: Any, d_model: int) -> tuple[str, Encoding]:
    """Return the name and the Encoding of one axis; of a Rotary that of its cosines, and then its sines."""
    name, value = preset_or_value(encoding, d_model)
    if value.ndim != 1:
        other = "rotary draws its angles" if isinstance(value, Rotary) else "draw the encoding of each axis"
        raise ValueError(f"encoding has {value.ndim} axes, but must have one; {other}")
    return name, as_encoding(value)


def as_encoding(value: Encoding | Rotary) -> Encoding:
    """Return the Encoding of a Rotary's cosines and sines, or the Encoding itself."""
    if isinstance(value, Encoding):
        return value
    if value._settings.rope_type == "xpos":
        raise ValueError("encoding has rope_type='xpos', whose amplitudes are not drawn; rotary draws its angles")
    return value._angles_of("cos", "sin")


def rotary_of(rotary: Any, name: str = "rotary") -> tuple[str, Rotary]:
    """Return the name and the Rotary, which may be that of a preset."""
    title, value = preset_or_value(rotary, 128, name) if isinstance(rotary, (str, Rotary)) else ("", rotary)
    if not isinstance(value, Rotary):
        is_encoding = isinstance(value, Encoding)
        kind = "an Encoding" if is_encoding else type(value).__name__
        more = "; angles and wavelengths draw an Encoding" if is_encoding else ""
        raise TypeError(f"{name} must be a Rotary or the name of its preset, not {kind}{more}")
    return title, value


def affordable(columns: int, most: int, least: int) -> int:
    """Return how many rows of so many columns are computed: the most, or what takes seconds, but at least some."""
    return max(least, min(most, _WORK // columns))


def every_nth(count: int, most: int) -> int:
    """Return the distance at which at most ``most`` of ``count`` are taken."""
    return -(-count // most)


class ShownRows(NamedTuple):
    """Positions that are drawn, from one edge of the picture to the other, a label for each or none, and which they are."""

    positions: Converted
    edges: tuple[float, float]
    labels: list[str] | None
    note: str

    def label(self, axes: Axes, axis: str = "y") -> None:
        """Write the labels of positions that are no progression."""
        if self.labels is None:
            return
        height = axes.get_window_extent().height / axes.figure.dpi
        count = min(len(self.labels), _LABELS, max(2, int(height / 0.3)))
        places = np.unique(np.linspace(0, len(self.labels) - 1, count).round().astype(int))
        axes.set_yticks(places, [self.labels[place] for place in places])


class Rows:
    """The positions of a picture's rows: ``start + i * step`` up to a length, or any that are given."""

    def __init__(self, value: Encoding | Rotary, length: Any, positions: Any, start: Any, step: Any) -> None:
        self.axes = value.ndim
        self.converted: Converted | None = None
        if positions is None:
            self.count = count_of(length, "length", 1)
            real(start, "start")
            if step is None:
                step = _step(value, self.count)
            elif real(step, "step") == 0:
                raise ValueError(f"step={step!r} must not be zero")
            self.start, self.step = start, step
            first = float(start)
            if first + 0.5 * float(step) == first:
                raise ValueError(f"start={start!r} and step={step!r} are positions that a float64 does not tell apart")
            return
        if start != 0 or step is not None:
            raise ValueError(f"start={start!r} and step={step!r} are for a length; positions are taken as they are")
        self.given = positions
        self.converted = convert(positions, self.axes)
        if len(self.converted.shape) != 1 or not len(self.converted):
            raise ValueError(f"positions has shape {self.converted.shape}, but must have (n,), at least one")
        invalid = self.converted.invalid_rows()
        if invalid is not None and invalid.all():
            raise ValueError("positions has no number: all of them are missing, NaN or infinite")
        self.count = len(self.converted)

    def shown(self, most: int) -> ShownRows:
        """Return at most so many of the rows, at equal distances."""
        every = every_nth(self.count, most)
        places = range(0, self.count, every)
        note = f"\n(every {ordinal(every)})" if every > 1 else ""
        if self.converted is not None:
            chosen = np.arange(0, self.count, every)
            labels = [text_of(self.given, self.converted, row) for row in places]
            return ShownRows(self.converted.select(chosen), (-0.5, len(chosen) - 0.5), labels, note)
        values = [self.start + i * self.step for i in places]
        rows = convert(
            values if self.axes == 1 else [[value] * self.axes for value in values], self.axes, "start + i * step"
        )
        first, distance = float(self.start), float(self.step) * every
        return ShownRows(
            rows, (first - 0.5 * float(self.step), first + distance * len(values) - 0.5 * float(self.step)), None, note
        )

    def edges(self) -> tuple[float, float]:
        """Return the first and the last position, of a length."""
        return float(self.start), float(self.start + (self.count - 1) * self.step)


def _step(value: Encoding | Rotary, count: int) -> Any:
    """Return 1, or of exact periods the distance at which the rows are one turn of the longest."""
    periods = value._sinusoids.periods() if isinstance(value, Encoding) else []
    if not periods:
        return 1
    step = max(period.length for period in periods) / count
    return int(step) if step.denominator == 1 else float(step)


def text_of(positions: Any, converted: Converted, row: int) -> str:
    """Return the label of a position: a time as a time, and not as seconds."""
    try:
        value = np.asarray(positions)[row]
    except (TypeError, ValueError):
        value = None
    if isinstance(value, (np.datetime64, np.timedelta64)) or converted.unit != 1:
        # seconds that are zero say nothing
        return re.sub(r"(\d\d:\d\d):00(\.0+)?$|(?<=:\d\d)\.0+$", r"\1", str(value))
    numbers = [float(number) for number in np.atleast_1d(converted.rounded()[row])]
    texts = [f"{number:.15g}" for number in numbers]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
