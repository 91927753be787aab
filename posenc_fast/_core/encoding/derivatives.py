"""Derivatives of encodings by position: each column moves ahead by a quarter turn, and is multiplied by its frequency."""

from __future__ import annotations

import functools

from .value import Encoding


@functools.lru_cache(maxsize=64)
def derivative_of(encoding: Encoding, axis: int = 0) -> Encoding:
    """Return the derivative of an encoding by the positions along an axis."""
    return type(encoding)._of(encoding._sinusoids.derivative(axis))
