"""What the rest of the package may do with an Encoding beyond its public methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from .._numbers.schedule import parts_of, schedule_of
from .._positions.positions import Given
from .recipes import recipe_of
from .rows import encode
from .sinusoids import Sinusoids
from .value import Encoding

__all__ = ["bound", "figure", "named", "of_sinusoids", "one_axis", "read", "rows", "scaled", "take", "written"]

Bound = TypeVar("Bound", bound=Encoding)


def bound(cls: type[Bound], encoding: Encoding) -> Bound:
    """The same value as an Encoding of another class, which may compute with another engine."""
    return cls._of(encoding._sinusoids, encoding._recipe)


def figure(encoding: Encoding, title: str, columns: str) -> str:
    """A picture of it for notebooks, below a title."""
    # only notebooks ask
    from . import picture

    return picture.figure(encoding._sinusoids, title, columns)


def named(encoding: Encoding, call: str, *arguments: Any, **options: Any) -> Encoding:
    """The same, made by a call; itself where it knows of one already."""
    if encoding._recipe:
        return encoding
    return encoding._of(encoding._sinusoids, recipe_of(call, *arguments, **options))


def of_sinusoids(sinusoids: Sinusoids) -> Encoding:
    """An Encoding of these columns."""
    return Encoding._of(sinusoids)


def one_axis(encoding: Encoding, call: str) -> None:
    """A ValueError that names the call where the encoding has several axes."""
    encoding._one_axis(call)


def take(encoding: Encoding, columns: npt.ArrayLike) -> Encoding:
    """Some columns in any order; -1 is a column of zeros."""
    return Encoding._of(encoding._sinusoids.take(columns))


def scaled(encoding: Encoding, scale: float) -> Encoding:
    """All columns times a factor."""
    return Encoding._of(encoding._sinusoids.with_(amplitudes=scale * encoding.amplitudes))


def rows(
    encoding: Encoding,
    given: Given,
    dtype: np.dtype[Any],
    out: npt.NDArray[Any] | None = None,
    *,
    single: bool = False,
    threads: int = 1,
) -> npt.NDArray[Any]:
    """`Encoding.encode` of positions that were converted."""
    return encode(encoding._plans, given, dtype, out, single=single, threads=threads)


def written(encoding: Encoding) -> list[Any]:
    """Lists, numbers and strings that say all of it: equal encodings are written alike."""
    sinusoids = encoding._sinusoids
    columns = (sinusoids.index, sinusoids.phases + 0.0, sinusoids.amplitudes + 0.0)
    return [[parts_of(schedule) for schedule in sinusoids.schedules], *(array.tolist() for array in columns)]


def read(schedules: Sequence[Sequence[Any]], index: Any, phases: Any, amplitudes: Any) -> Encoding:
    """What was written."""
    parts = [schedule_of(*parts) for parts in schedules]
    return Encoding._of(Sinusoids(parts, np.array(index), np.array(phases), np.array(amplitudes)))
