"""Convert encodings to text and back, because operators and exported programs store encodings as text."""

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
    """Return the arguments of a Rotary, or the columns of an Encoding, as text. Equal encodings have equal text."""
    if isinstance(value, Rotary):
        arguments = {"head_dim": value.head_dim, **value._arguments()}
        if value._settings.frequencies is not None:
            arguments["frequencies"] = [parts_of(schedule) for schedule in value._settings.frequencies]
        return _dumped(arguments)
    sinusoids = value._sinusoids
    # + 0.0 makes negative zeros positive: equal values must have equal text
    columns = (sinusoids.index, sinusoids.phases + 0.0, sinusoids.amplitudes + 0.0)
    return _dumped([[parts_of(schedule) for schedule in sinusoids.schedules], *(array.tolist() for array in columns)])


# this attribute has the effect of torch.compiler.assume_constant_result, without importing the compiler. The compiler
# calls the function once for each encoding, and recompiles for another encoding.
to_text._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _dumped(parts: Any) -> str:
    return json.dumps(parts, separators=(",", ":"))


@functools.lru_cache(maxsize=64)
def from_text(text: str) -> Encoding | Rotary:
    """Return the encoding that `to_text` converted to text."""
    parts = json.loads(text)
    if isinstance(parts, dict):
        if "frequencies" in parts:
            parts["frequencies"] = [schedule_of(*schedule) for schedule in parts["frequencies"]]
        return Rotary(**parts)
    schedules, *columns = parts
    return Encoding._of(Sinusoids([schedule_of(*schedule) for schedule in schedules], *map(np.array, columns)))
