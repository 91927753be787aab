"""What makes a Rotary: the values that its arguments have come to."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._numbers.schedule import Schedule
from ..typing import RotaryLayout

__all__ = ["Settings"]


class Settings(NamedTuple):
    """What makes two encodings equal: parameters are sorted; axes has the axis of each pair."""

    head_dim: int
    base: float
    rotary_dim: int
    layout: RotaryLayout
    rope_type: str
    parameters: tuple[tuple[str, Any], ...]
    axes: tuple[int, ...] | None
    frequencies: tuple[Schedule, ...] | None
    attention_factor: float
