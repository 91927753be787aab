"""Encodings as text: as operators take it, so that an exported program carries it; and in the repr of a model."""

from __future__ import annotations

import functools
import json
from typing import Any

from .._encoding import access
from .._encoding.value import Encoding
from .._rotary.access import read as rotary_read
from .._rotary.access import written as rotary_written
from .._rotary.value import Rotary

__all__ = ["options_of", "read", "write"]


def write(value: Encoding | Rotary) -> str:
    """An encoding as text: equal ones are written alike, and what is read equals what was written."""
    written = rotary_written(value) if isinstance(value, Rotary) else access.written(value)
    return json.dumps(written, separators=(",", ":"))


@functools.lru_cache(maxsize=64)
def read(text: str) -> Encoding | Rotary:
    """What was written."""
    found = json.loads(text)
    return rotary_read(found) if isinstance(found, dict) else access.read(*found)


def options_of(module: Any) -> str:
    """What both modules were given besides an encoding, where it is not the default."""
    precision = "" if module.precision == "exact" else f", precision={module.precision!r}"
    return f"{', inplace=True' if module.inplace else ''}{precision}"
