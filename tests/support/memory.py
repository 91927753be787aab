"""Measure the memory that a call allocates."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any


def peak_of(call: Callable[[], Any]) -> int:
    """Return the most bytes that Python and NumPy had allocated at one time during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
