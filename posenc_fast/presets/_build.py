"""Shared functions of presets: check arguments, compute frequencies (exact or float32), and reorder columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.encoding.builders import fourier_features, join, sinusoidal
from .._core.encoding.value import Encoding
from .._core.numbers import exact
from .._core.numbers.arguments import PRECISIONS, count_of, real, real_array
from .._core.numbers.names import one_of
from .._core.numbers.schedule import Schedule, float32_frequencies, geometric
from ..typing import Function, Layout, Odd, Precision
from ._recipes import Recipe

__all__ = [
    "TWO_PI",
    "arranged",
    "ascending",
    "cosines",
    "even",
    "fitted",
    "matrix",
    "multiple",
    "per_axis",
    "positive",
    "power",
    "sequence_of",
    "sinusoids",
    "spectrum",
    "weights_of",
]

# 2 pi as a float64 number, a factor of many frequencies
TWO_PI = 6.283185307179586


def even(value: Any, name: str) -> int:
    """Return a width. Raise ValueError if it is odd. name: name of the width in the error."""
    d = count_of(value, name, 1)
    if d % 2:
        smaller = f" or {d - 1}" if d > 1 else ""
        raise ValueError(
            f"{name}={d} is odd, but the source of this preset has only even widths; give {d + 1}{smaller}"
        )
    return d


def multiple(value: Any, name: str, divisor: int, axes: int) -> int:
    """Return a width. Raise ValueError unless it is a multiple of ``divisor``, so that each axis has whole pairs.

    name: name of the width in the error. axes: number of axes in the error.
    """
    d = count_of(value, name, 1)
    if d % divisor:
        raise ValueError(
            f"{name}={d} must be a multiple of {divisor}, so that each of {axes} axes has whole pairs of a sine and a "
            f"cosine; give {(d // divisor + 1) * divisor}, for example"
        )
    return d


def positive(value: Any, name: str) -> float:
    """Return a number as a float. Raise ValueError unless it is positive. name: name of the number in the error."""
    return real(value, name, positive=True)


def matrix(value: npt.ArrayLike, name: str, shape: str) -> npt.NDArray[np.float64]:
    """Return an array of float64. Raise ValueError unless it has two axes.

    name: name of the array in the error. shape: the valid shape, as text for the error.
    """
    array = real_array(value, name)
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {array.shape}, but must have shape {shape}")
    return array


def weights_of(value: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    """Return an array of k frequencies: (k,) for one axis, (k, axes) for several.

    Raise ValueError for other shapes, and for an empty array.
    """
    array = real_array(value, name)
    if array.ndim not in (1, 2) or not array.size:
        raise ValueError(
            f"{name} has shape {array.shape}, but must have shape (k,) or (k, axes), with k and axes at least 1"
        )
    return array


def sequence_of(value: Any, name: str) -> list[Any]:
    """Return the items of an iterable as a list. Raise TypeError for strings and for values that are not iterable."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence of numbers, not {value!r}")
    return list(value)


def power(base: float | Fraction, exponent: float | Fraction) -> float:
    """Return base ** exponent, rounded once.

    The result has the same bits on every machine, unlike the result of a C library's `pow`.
    """
    return float(exact.power(base, exponent))


def _is_float32(frequencies: Any) -> bool:
    """Return whether the argument ``frequencies`` of a preset is "float32". Raise an error if it is no `Precision`."""
    return one_of(frequencies, "frequencies", PRECISIONS) == "float32"


def spectrum(
    frequencies: Precision, recipe: Recipe, count: int, *, base: float = 10000.0, shift: float = 0.0, first: float = 1.0
) -> Schedule:
    """Return frequencies ``first * base ** (-i / (count - shift))``.

    frequencies: "exact", or "float32" for the frequencies that ``recipe`` computes in float32.
    """
    # call `geometric` in both cases, because it also checks the arguments
    schedule = geometric(count, base=base, freq_shift=shift, first=first)
    if not _is_float32(frequencies):
        return schedule
    rounded = recipe(count, float(base), float(count - shift)) if count > 1 else np.ones(count, np.float32)
    return float32_frequencies(rounded * np.float32(first))


def sinusoids(
    d: int,
    frequencies: Precision = "exact",
    recipe: Recipe | None = None,
    *,
    base: float = 10000.0,
    shift: float = 0.0,
    first: float = 1.0,
    layout: Layout = "concatenated",
    functions: Sequence[Function] = ("sin", "cos"),
    odd: Odd = "crop",
    scale: float = 1.0,
) -> Encoding:
    """Return the Encoding of `sinusoidal`. If frequencies is "float32", use the frequencies of the recipe, if any."""
    settings: Any = {"layout": layout, "functions": functions, "odd": odd, "scale": scale}
    count = d // 2 if odd == "zero" else -(-d // 2)
    if not _is_float32(frequencies) or recipe is None or count == 0:
        return sinusoidal(d, base=base, freq_shift=shift, first=first, **settings)
    # `sinusoidal` divides exponents by pairs - freq_shift, and `spectrum` by count - shift. The shift below makes both
    # denominators equal.
    pairs = count if odd == "zero" else d / 2
    rounded = spectrum(frequencies, recipe, count, base=base, shift=count - pairs + shift, first=first)
    return sinusoidal(d, frequencies=rounded, **settings)


def ascending(count: int, ratio: float, *, per: float = 1.0, first: float = 1.0) -> Schedule:
    """Return frequencies ``first * ratio ** (i / per)``."""
    # the exponents of `geometric` are -i / (count - freq_shift), which is i / per for this freq_shift
    return geometric(count, base=ratio, freq_shift=count + per, first=first)


def cosines(frequencies: npt.ArrayLike, turns: npt.NDArray[np.float64], scale: float = 1.0) -> Encoding:
    """Return an Encoding of one cosine for each frequency. turns: phases of the cosines, in turns."""
    return Encoding(frequencies, turns + 0.25, scale)


def fitted(encoding: Encoding, d: int) -> Encoding:
    """Return an Encoding with exactly d columns. Cut off columns from d on, or append columns of zeros."""
    columns = encoding.d_model
    return encoding if columns == d else _taken(encoding, [c if c < columns else -1 for c in range(d)])


def arranged(spectra: Sequence[Schedule], order: str, functions: Sequence[Function] = ("sin", "cos")) -> Encoding:
    """Return an Encoding with given frequencies for each axis, and columns in a given order.

    spectra: the frequencies of each axis, equally many. order: the letters a (axis), f (frequency) and s (sine or
    cosine), from the index that varies slowest over the columns to the fastest.
    """
    encoding = join([fourier_features(schedule, functions=functions) for schedule in spectra])
    # the columns of `encoding`, in the order (axis, function, frequency)
    index = np.arange(encoding.d_model).reshape(len(spectra), len(functions), -1)
    return _taken(encoding, index.transpose(["asf".index(letter) for letter in order]).ravel())


def per_axis(parts: Sequence[Encoding], axes: Sequence[int]) -> Encoding:
    """Join the columns of one-axis encodings. axes: for each encoding, the axis of the positions that it encodes."""
    return join(parts, axes=list(axes))


def _taken(encoding: Encoding, columns: npt.ArrayLike) -> Encoding:
    """Return an Encoding with the columns of the given indices. The index -1 gives a column of zeros."""
    return Encoding._of(encoding._sinusoids.take(columns))
