"""Encodings as text: operators take them so, and an exported program carries them."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np

from .._core.encoding.sinusoids import Sinusoids
from .._core.encoding.value import Encoding
from .._core.numbers.schedule import parts_of, schedule_of
from .._core.rotary.value import Rotary


def to_text(value: Encoding | Rotary) -> str:
    """Return an encoding as text, the same for equal ones: the arguments of a Rotary, the columns of an Encoding."""
    if isinstance(value, Rotary):
        arguments = {"head_dim": value.head_dim, **value._arguments()}
        if value._settings.frequencies is not None:
            arguments["frequencies"] = [parts_of(schedule) for schedule in value._settings.frequencies]
        return _dumped(arguments)
    sinusoids = value._sinusoids
    # of zeros and negative zeros, which are equal, the first
    columns = (sinusoids.index, sinusoids.phases + 0.0, sinusoids.amplitudes + 0.0)
    return _dumped([[parts_of(schedule) for schedule in sinusoids.schedules], *(array.tolist() for array in columns)])


# what torch.compiler.assume_constant_result does, without the import of the compiler: the compiler calls it once for a
# value, and compiles again for another value
to_text._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _dumped(parts: Any) -> str:
    return json.dumps(parts, separators=(",", ":"))


@functools.lru_cache(maxsize=64)
def from_text(text: str) -> Encoding | Rotary:
    """Return the encoding that `to_text` made a text of."""
    parts = json.loads(text)
    if isinstance(parts, dict):
        if "frequencies" in parts:
            parts["frequencies"] = [schedule_of(*schedule) for schedule in parts["frequencies"]]
        return Rotary(**parts)
    schedules, *columns = parts
    return Encoding._of(Sinusoids([schedule_of(*schedule) for schedule in schedules], *map(np.array, columns)))
