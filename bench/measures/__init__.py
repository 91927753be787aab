"""Sides that alternate in this process, and whose values are compared: a function for each kind of target."""

from __future__ import annotations

from typing import NamedTuple

import timing
from timing import Ratio, Times


class Skipped(Exception):
    """The reason why a target cannot be measured here."""


class Measured(NamedTuple):
    ratio: Ratio
    # nanoseconds of each side: of an output element, or of a call where `elements` is 1
    sides: dict[str, float]
    elements: int


def compare(times: Times, above: str, below: str, elements: int) -> Measured:
    """Return the ratio of two sides, and the medians of all."""
    sides = {name: median / elements * 1e9 for name, median in timing.medians(times).items()}
    return Measured(timing.ratio(times, above, below), sides, elements)
