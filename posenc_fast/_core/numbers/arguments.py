"""Check arguments that are numbers, check the sizes of arrays, and find repeated keys in JSON objects."""

from __future__ import annotations

import functools
import math
import operator
import os
import sys
from collections import Counter
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from ...typing import Precision
from . import annotations as npt
from .names import one_of

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
# smallest integer position (the limit of int64) and largest integer position (the limit of uint64)
LEAST_POSITION, MOST_POSITION = -(2**63), 2**64 - 1
# maximum number of columns, because the engines count two values for each wave in 32 bits
MOST_COLUMNS = 2**30 - 1
# maximum amplitude for which the engines can compute exact products
MOST_AMPLITUDE = 2.0**960


def shown(value: Any) -> str:
    """Return the repr of a value for an error.

    For an integer or Fraction with too many digits for repr, return the type and the number of bits instead.
    """
    try:
        return repr(value)
    except ValueError:
        size = f" of {math.ceil(value).bit_length()} bits" if isinstance(value, (int, Fraction)) else ""
        return f"<{type(value).__name__}{size}>"


def real(value: Any, name: str, *, positive: bool = False) -> float:
    """Return a number as a finite float. Raise an error with the argument's name for other values."""
    if type(value) is float and math.isfinite(value) and (value > 0 or not positive):
        return value
    if isinstance(value, (bool, np.bool_, str, bytes, complex)) or not isinstance(
        value, (int, float, np.integer, np.floating, Fraction)
    ):
        raise TypeError(f"{name} must be a real number (int, float or Fraction), not {value!r}")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name}={shown(value)} is outside the range of float64") from None
    if not math.isfinite(number) or (positive and number <= 0):
        raise ValueError(f"{name} must be a finite{' positive' if positive else ''} number, not {shown(value)}")
    return number


def real_array(value: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise type(error)(f"{name} must be an array of numbers, not {shown(value)} ({error})") from None
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise TypeError(
            f"{name} must be real numbers of an integer dtype, float16, float32 or float64, not of dtype {array.dtype}; "
            "convert them to float64"
        )
    finite = np.isfinite(array)
    if not finite.all():
        raise ValueError(f"{name} must be finite, not {array[~finite][0]}")
    return array.astype(np.float64)


def count_of(value: Any, name: str, least: int) -> int:
    """Return an integer of at least ``least``. Raise an error with the argument's name for other values."""
    if type(value) is int and value >= least:
        return value
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {value!r}") from None
    if number < least:
        raise ValueError(f"{name} must be at least {least}, not {shown(value)}")
    return number


def is_exact(precision: Any) -> bool:
    """Return whether precision is "exact". `check_precision` raises the error for an invalid value."""
    return isinstance(precision, str) and precision == "exact"


def check_precision(precision: Any) -> bool:
    """Return whether precision is "float32". Raise an error if precision is unknown."""
    return not is_exact(precision) and one_of(precision, "precision", PRECISIONS) == "float32"


# cached, because os.cpu_count reads a file each time
@functools.cache
def _cpus() -> int:
    return os.cpu_count() or 1


def check_workers(workers: Any) -> int:
    """Return the number of threads for the argument workers: at least 1, and at most the number of CPUs.

    As in scipy.fft, None means 1, and negative numbers count back from the number of CPUs: -1 means all CPUs.
    """
    if workers is None:
        return 1
    if isinstance(workers, bool):
        raise TypeError(f"workers must be an integer or None, not {workers!r}")
    count = count_of(workers, "workers", -sys.maxsize)
    cpus = _cpus()
    if count == 0:
        raise ValueError("workers must not be 0; pass None or 1 for one thread, or -1 for all CPUs")
    if count < 0:
        if count < -cpus:
            raise ValueError(
                f"workers={shown(count)} must be at least -{cpus}, because {cpus} is the number of CPUs here"
            )
        count += 1 + cpus
    # more threads than CPUs would only wait for one another
    return min(count, cpus)


def check_size(name: str, value: Any, shape: tuple[int, ...], itemsize: int) -> None:
    """Raise a ValueError, with the name and value of an argument, if an array would exceed the address space."""
    check_bytes(f"{name}={shown(value)} is too large: an array", shape, itemsize)


def check_bytes(subject: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Raise a ValueError if an array would exceed the address space. The message begins with the subject."""
    size = math.prod(shape) * itemsize
    if size > sys.maxsize:
        raise ValueError(
            f"{subject} of shape {shown(shape)} would take {shown(size)} bytes, more than can be addressed"
        )


def check_width(width: int, name: str = "d_model") -> None:
    """Raise a ValueError if there are more columns than the engines can count in 32 bits."""
    if width > MOST_COLUMNS:
        fix = "; use several encodings" if name == "d_model" else ""
        raise ValueError(f"{name}={shown(width)} is too large; the maximum is {MOST_COLUMNS}{fix}")


def exact_number(value: Any, name: str) -> Fraction | int:
    """Return an integer or finite real number as an int or Fraction, without rounding."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a real number (int, float or Fraction), not {value!r}")
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, Fraction):
        return value
    return Fraction(real(value, name))


def progression(start: Any, step: Any, length: int) -> tuple[Fraction | int, Fraction | int]:
    """Return (start, step) as exact numbers, or raise an error.

    Both are int if all positions start + i * step are integers from -2**63 to 2**64 - 1. If start and step are integers
    that lead to other positions, an error is raised. Otherwise both are Fractions. The step is 1 if there is at most
    one position.
    """
    # number of steps from the first to the last position
    steps = max(length - 1, 0)
    if (
        type(start) is type(step) is int
        and LEAST_POSITION <= start <= MOST_POSITION
        and LEAST_POSITION <= start + step * steps <= MOST_POSITION
    ):
        return start, step if steps else 1
    first, exact_step = exact_number(start, "start"), exact_number(step, "step")
    if steps == 0:
        # the step is unused, because there is at most one row
        exact_step = 1
    last: Fraction | int = first + exact_step * steps
    whole = first.denominator == exact_step.denominator == 1
    if whole and min(first, last) >= LEAST_POSITION and max(first, last) <= MOST_POSITION:
        return first.numerator, exact_step.numerator
    # some callers have no argument step, and pass 1
    arguments = f"start={shown(start)}" if step == 1 else f"start={shown(start)} and step={shown(step)}"
    if max(abs(Fraction(first)), abs(Fraction(last))) > sys.float_info.max:
        raise ValueError(f"{arguments} would lead to a position outside the range of float64")
    if isinstance(first, int) and isinstance(exact_step, int):
        raise ValueError(  # noqa: TRY004
            f"{arguments} would lead from position {shown(first)} to {shown(last)}, outside the range of int64 and "
            "uint64; pass float(start), which rounds start to float64"
        )
    return Fraction(first), Fraction(exact_step)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dict.

    Raise an error for a repeated key, because parsers disagree which value counts.
    """
    result = dict(pairs)
    if len(result) < len(pairs):
        repeated = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {repeated!r} occurs more than once in one JSON object; keep only one")
    return result
