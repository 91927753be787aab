"""Functions that measure the targets of bench/targets.py.

Most compare the times of two calls, the sides, and check the values that posenc_fast computes.
"""

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
    """Return the ratio of the times of two sides, above / below, and the median time of each side.

    elements: number of output elements of a call, for times per element, or 1 for times per call.
    """
    sides = {name: median / elements * 1e9 for name, median in timing.medians(times).items()}
    return Measured(timing.ratio(times, above, below), sides, elements)
