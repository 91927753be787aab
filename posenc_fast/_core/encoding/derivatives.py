"""Differentiate encodings by position: add a quarter turn to each phase, and multiply amplitudes by frequencies."""

from __future__ import annotations

import functools

from .value import Encoding


@functools.lru_cache(maxsize=64)
def derivative_of(encoding: Encoding, axis: int = 0) -> Encoding:
    """Return the derivative of an encoding with respect to the position along an axis."""
    return type(encoding)._of(encoding._sinusoids.derivative(axis))
