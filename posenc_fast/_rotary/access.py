"""What the rest of the package may do with a Rotary beyond its public methods."""

from __future__ import annotations

from typing import Any

from .._encoding.value import Encoding
from .._engine.backend import Engine
from .._numbers.schedule import parts_of, schedule_of
from ..typing import Function
from .settings import Settings
from .value import Rotary

__all__ = ["angles", "arguments", "engine", "read", "scaling", "settings", "written"]


def settings(rotary: Rotary) -> Settings:
    """What makes it equal to another."""
    return rotary._key


def engine(rotary: Rotary) -> Engine:
    """What turns in this context."""
    return rotary._engine()


def scaling(rotary: Rotary) -> dict[str, Any] | None:
    """Its scaling as an argument; None without one."""
    found: dict[str, Any] | None = rotary._arguments().get("scaling")
    return found


def arguments(rotary: Rotary) -> dict[str, Any]:
    """What to call `Rotary` with, beside head_dim, for an equal one."""
    return rotary._arguments()


def angles(rotary: Rotary, *functions: Function) -> Encoding:
    """What computes these functions of all pairs' angles, side by side."""
    return rotary._angles_of(*functions)


def written(rotary: Rotary) -> dict[str, Any]:
    """Lists, numbers and strings that say all of it: equal ones are written alike."""
    found = {"head_dim": rotary.head_dim, **arguments(rotary)}
    if rotary._key.frequencies is not None:
        found["frequencies"] = [parts_of(schedule) for schedule in rotary._key.frequencies]
    return found


def read(found: dict[str, Any]) -> Rotary:
    """What was written."""
    if "frequencies" in found:
        found = found | {"frequencies": [schedule_of(*parts) for parts in found["frequencies"]]}
    return Rotary(**found)
