"""List bases that sources use, and find possible bases near an estimate."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Bases of sinusoidal encodings (BASES) and of rotary models (ROTARY_BASES). The most common base comes first.
BASES = (10000.0, 1000.0, 100.0, 500000.0, 1000000.0, 100000.0, 20.0, 10.0, 2.0)
ROTARY_BASES = (1e4, 1e6, 5e5, 1e5, 1e3, 1e2, 256.0, 2e3, 5e6, 1e7, 1.6e5, 1.5e5, 2e4, 5e4, 2e6, 2.5e4, 8e6)

# Numbers of significant digits to try. Sources write bases and factors with few digits, so the first rounded number
# that fits is assumed to be right. float32 data determine about 6 digits. For rotary frequencies, 5 digits are not
# tried: many numbers fit 16-bit data, so some results would change.
DIGITS = (1, 2, 3, 4, 5, 6)
ROTARY_DIGITS = (1, 2, 3, 4, 6)


def few_digits(estimate: float, digits: Sequence[int] = DIGITS) -> list[float]:
    """Return an estimate rounded to each number of significant digits in ``digits``."""
    return [float(f"{estimate:.{count}g}") for count in digits]


def bases_near(
    estimates: Sequence[float], slack: float, known: Sequence[float], digits: Sequence[int] = DIGITS
) -> list[float]:
    """Return the known bases near an estimate, and then the estimates rounded to each number of significant digits.

    Callers estimate bases in different ways, for example from all pairs, or only from the first and the last one.
    slack: largest difference between the logarithms of a known base and of an estimate.
    """
    near = [base for base in known if any(abs(math.log(base / estimate)) < slack for estimate in estimates)]
    rounded = zip(*(few_digits(estimate, digits) for estimate in estimates), strict=True)
    return list(dict.fromkeys([*near, *(base for same_digits in rounded for base in same_digits)]))
