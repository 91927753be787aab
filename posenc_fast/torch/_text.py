"""Encodings as text: as operators take it, so that an exported program carries it; and in the repr of a model."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np

from .._encoding.sinusoids import Sinusoids
from .._encoding.value import Encoding
from .._numbers.schedule import parts_of, schedule_of
from .._rotary.value import Rotary

__all__ = ["options_of", "read", "write"]


def write(value: Encoding | Rotary) -> str:
    """An encoding as text: equal ones are written alike, and what is read equals what was written."""
    written = _arguments(value) if isinstance(value, Rotary) else _columns(value)
    return json.dumps(written, separators=(",", ":"))


@functools.lru_cache(maxsize=64)
def read(text: str) -> Encoding | Rotary:
    """What was written."""
    found = json.loads(text)
    return _rotary(found) if isinstance(found, dict) else _encoding(*found)


def _arguments(rotary: Rotary) -> dict[str, Any]:
    arguments = {"head_dim": rotary.head_dim, **rotary._arguments()}
    if rotary._settings.frequencies is not None:
        arguments["frequencies"] = [parts_of(schedule) for schedule in rotary._settings.frequencies]
    return arguments


def _rotary(arguments: dict[str, Any]) -> Rotary:
    if "frequencies" in arguments:
        arguments = arguments | {"frequencies": [schedule_of(*parts) for parts in arguments["frequencies"]]}
    return Rotary(**arguments)


def _columns(encoding: Encoding) -> list[Any]:
    sinusoids = encoding._sinusoids
    columns = (sinusoids.index, sinusoids.phases + 0.0, sinusoids.amplitudes + 0.0)
    return [[parts_of(schedule) for schedule in sinusoids.schedules], *(array.tolist() for array in columns)]


def _encoding(schedules: list[Any], index: Any, phases: Any, amplitudes: Any) -> Encoding:
    parts = [schedule_of(*parts) for parts in schedules]
    return Encoding._of(Sinusoids(parts, np.array(index), np.array(phases), np.array(amplitudes)))


def options_of(module: Any) -> str:
    """What both modules were given besides an encoding, where it is not the default."""
    precision = "" if module.precision == "exact" else f", precision={module.precision!r}"
    return f"{', inplace=True' if module.inplace else ''}{precision}"
