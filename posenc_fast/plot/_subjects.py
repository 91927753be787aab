"""Check the subjects of pictures: an encoding or the name of a preset, and the positions of the rows."""

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

# largest number of characters in a title
_LONGEST = 60
# largest number of values that are computed for one picture
_WORK = 1 << 25
# largest number of tick labels of an axis of rows whose positions the user gave
_LABELS = 8


def preset_or_value(encoding: Any, d_model: int, name: str = "encoding") -> tuple[str, Encoding | Rotary]:
    """Return (title, Encoding or Rotary) for an Encoding, a Rotary or the name of a preset.

    A preset is called with d_model if its first parameter is the width. name is the name of the argument in errors.
    """
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
    parameters = inspect.signature(known.build).parameters.values()
    needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
    if needed:
        call = f"posenc_fast.presets.{preset}({', '.join(f'{argument}=..' for argument in needed)})"
        raise ValueError(
            f"{name}={preset!r}: the preset needs {', '.join(needed)}; pass the result of {call} instead of the name"
        )
    return known.build()


def _size(value: Encoding | Rotary) -> str:
    return f"{value.rotary_dim // 2} pairs" if isinstance(value, Rotary) else f"{value.d_model} columns"


def one_axis(encoding: Any, d_model: int) -> tuple[str, Encoding]:
    """Return (title, one-axis Encoding). A Rotary becomes the Encoding of its cosines and sines."""
    name, value = preset_or_value(encoding, d_model)
    if value.ndim != 1:
        other = "plot.rotary draws its angles" if isinstance(value, Rotary) else "draw the encoding of each axis"
        raise ValueError(f"encoding has {value.ndim} axes, but must have one; {other}")
    return name, as_encoding(value)


def as_encoding(value: Encoding | Rotary) -> Encoding:
    """Return the Encoding of a Rotary's cosines and sines, or the Encoding itself."""
    if isinstance(value, Encoding):
        return value
    if value._settings.amplitudes_vary:
        raise ValueError(
            "encoding has rope_type='xpos', whose amplitudes depend on the position, which this plot does not support; "
            "plot.rotary draws its angles"
        )
    return value._angles_of("cos", "sin")


def rotary_of(rotary: Any, name: str = "rotary") -> tuple[str, Rotary]:
    """Return (title, Rotary) for a Rotary or the name of a preset. name is the name of the argument in errors."""
    title, value = preset_or_value(rotary, 128, name) if isinstance(rotary, (str, Rotary)) else ("", rotary)
    if not isinstance(value, Rotary):
        is_encoding = isinstance(value, Encoding)
        kind = "an Encoding" if is_encoding else type(value).__name__
        more = "; plot.angles and plot.wavelengths draw an Encoding" if is_encoding else ""
        raise TypeError(f"{name} must be a Rotary or the name of a preset of a Rotary, not {kind}{more}")
    return title, value


def affordable(columns: int, most: int, least: int) -> int:
    """Return the number of rows to compute: ``most``, or fewer if ``most`` rows have more than _WORK values.

    The result is at least ``least``. columns is the number of values of a row.
    """
    return max(least, min(most, _WORK // columns))


def every_nth(count: int, most: int) -> int:
    """Return the smallest step that selects at most ``most`` of ``count`` items."""
    return -(-count // most)


def note_of_skipped(nth: int, noun: str = "") -> str:
    """Return the second line of an axis label if only every n-th item is drawn, else an empty string."""
    return f"\n(every {ordinal(nth)}{noun and ' '}{noun})" if nth > 1 else ""


class ShownRows(NamedTuple):
    """Positions to draw.

    edges has the limits of the axis of positions. labels has a tick label for each position, or is None. note is the
    text about skipped positions, or an empty string.
    """

    positions: Converted
    edges: tuple[float, float]
    labels: list[str] | None
    note: str

    def label(self, axes: Axes) -> None:
        """Write as many of the tick labels as fit, if there are any."""
        if self.labels is None:
            return
        height = axes.get_window_extent().height / axes.figure.dpi
        count = min(len(self.labels), _LABELS, max(2, int(height / 0.3)))
        places = np.unique(np.linspace(0, len(self.labels) - 1, count).round().astype(int))
        axes.set_yticks(places, [self.labels[place] for place in places])


class Rows:
    """Positions of the rows of a picture: ``start + i * step`` for a length, or given positions."""

    def __init__(self, value: Encoding | Rotary, length: Any, positions: Any, start: Any, step: Any) -> None:
        self.axes = value.ndim
        # `converted` has the given positions, or is None if a length is given
        self.converted: Converted | None = None
        if positions is None:
            self.count = count_of(length, "length", 1)
            real(start, "start")
            if step is None:
                step = _step(value, self.count)
            elif real(step, "step") == 0:
                raise ValueError(f"step={step!r} must not be zero")
            self.start, self.step = start, step
            if float(start) + 0.5 * float(step) == float(start):
                raise ValueError(
                    f"step={step!r} is too small for start={start!r}, because float64 cannot represent start + step/2; "
                    "pass a larger step"
                )
            return
        if start != 0 or step is not None:
            name, number = ("start", start) if step is None else ("step", step)
            raise ValueError(f"pass positions or {name}={number!r}, not both")
        self.given = positions
        self.converted = convert(positions, self.axes)
        if len(self.converted.shape) != 1 or not len(self.converted):
            raise ValueError(
                f"positions has shape {self.converted.shape}, but must have shape (n,), with at least one position"
            )
        invalid = self.converted.invalid_rows()
        if invalid is not None and invalid.all():
            raise ValueError("positions has no finite number (all are missing, NaN or infinite); pass at least one")
        self.count = len(self.converted)

    def shown(self, most: int) -> ShownRows:
        """Return at most ``most`` of the rows, equally spaced."""
        nth = every_nth(self.count, most)
        shown, note = range(0, self.count, nth), note_of_skipped(nth)
        if self.converted is not None:
            labels = [text_of(self.given, self.converted, row) for row in shown]
            return ShownRows(self.converted.select(np.array(shown)), (-0.5, len(shown) - 0.5), labels, note)
        values = [self.start + i * self.step for i in shown]
        positions: Any = values if self.axes == 1 else [[value] * self.axes for value in values]
        # the axis begins half a step before the first drawn position. It ends half a step before the position that
        # would be drawn after the last one.
        first = float(self.start) - 0.5 * float(self.step)
        last = float(self.start) + float(self.step) * nth * len(values) - 0.5 * float(self.step)
        return ShownRows(convert(positions, self.axes, "start + i * step"), (first, last), None, note)

    def edges(self) -> tuple[float, float]:
        """Return the first and the last position. Defined only for a length, not for given positions."""
        return float(self.start), float(self.start + (self.count - 1) * self.step)


def _step(value: Encoding | Rotary, count: int) -> Any:
    """Return the default step: 1, or for exact periods the step at which ``count`` rows span the longest period."""
    periods = value._sinusoids.periods() if isinstance(value, Encoding) else []
    if not periods:
        return 1
    step = max(period.length for period in periods) / count
    return int(step) if step.denominator == 1 else float(step)


def text_of(positions: Any, converted: Converted, row: int) -> str:
    """Return the label of a position. Times are shown as times, not as seconds."""
    try:
        value = np.asarray(positions)[row]
    except (TypeError, ValueError):
        value = None
    if isinstance(value, (np.datetime64, np.timedelta64)) or converted.unit != 1:
        # leave out seconds that are zero, or a fraction of a second that is zero
        return re.sub(r"(\d\d:\d\d):00(\.0+)?$|(?<=:\d\d)\.0+$", r"\1", str(value))
    numbers = [float(number) for number in np.atleast_1d(converted.rounded()[row])]
    texts = [f"{number:.15g}" for number in numbers]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
