"""Functions that measure the targets. Each compares the times of two sides, and checks their values."""

from __future__ import annotations

from typing import NamedTuple

import timing
from timing import Ratio, Times


class Skipped(Exception):
    """A target cannot be measured on this machine. The message says why."""


class Measured(NamedTuple):
    ratio: Ratio
    # nanoseconds of each side per output element, or per call if `elements` is 1
    sides: dict[str, float]
    elements: int


def compare(times: Times, above: str, below: str, elements: int) -> Measured:
    """Return the ratio of the times of two sides, above / below, and the medians of all sides.

    elements: number of output elements of a call, or 1.
    """
    sides = {name: median / elements * 1e9 for name, median in timing.medians(times).items()}
    return Measured(timing.ratio(times, above, below), sides, elements)
