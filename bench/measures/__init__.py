"""Functions that measure the targets. Most compare the times of two sides, and check the values of posenc_fast."""

from __future__ import annotations

from typing import NamedTuple

import timing
from timing import Ratio, Times


class Skipped(Exception):
    """Raised if a target cannot be measured on this machine. The message is the reason."""


class Measured(NamedTuple):
    ratio: Ratio
    # keys: names of sides. Values: nanoseconds per output element, or per call if `elements` is 1.
    sides: dict[str, float]
    elements: int


def compare(times: Times, above: str, below: str, elements: int) -> Measured:
    """Return the ratio of the times of two sides, above / below, and the medians of all sides.

    elements: number of output elements of a call, or 1.
    """
    sides = {name: median / elements * 1e9 for name, median in timing.medians(times).items()}
    return Measured(timing.ratio(times, above, below), sides, elements)
