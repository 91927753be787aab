"""Names that were given: one of those that are known, or an error with the one that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeVar

__all__ = ["meant", "one_of"]

Choice = TypeVar("Choice", bound=str)


def meant(name: Any, known: Iterable[str]) -> str:
    """What to put behind an error about a name that is not known: ``; is 'sinusoidal' meant?``, or nothing."""
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), lower, 1) if isinstance(name, str) else []
    return f"; is {lower[near[0]]!r} meant?" if near else ""


def one_of(value: Any, name: str, choices: Iterable[Choice]) -> Choice:
    """The value, if it is one of the choices."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}{meant(value, known)}")
    return value  # pyright: ignore[reportReturnType]
