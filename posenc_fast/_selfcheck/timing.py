"""Measure speed: time the calls to compare (the sides) alternately in one process, without garbage collection."""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Times = dict[str, npt.NDArray[np.float64]]

# minimum seconds of a sample: shorter calls are repeated, so that the cost of clock and loop is negligible
SAMPLE = 5e-5
# seconds of untimed calls before a sample (at least one call), so that the CPU's caches are as in a loop of such calls
SETTLE = 1e-3
# Slow calls have fewer runs, so that a comparison takes at most about BUDGET seconds. There are at least FEWEST runs,
# even if these take longer.
BUDGET, FEWEST = 4.0, 5


class Ratio(NamedTuple):
    """Median and quartiles of the ratios of neighbouring samples."""

    median: float
    low: float
    high: float


def seconds(
    call: Callable[..., Any], repeats: int, *arguments: Any, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the mean time of ``repeats`` calls. If ``repeats`` is 1, the result is freed after the clock has stopped.

    If other programs use the CPU too, and the calls use one thread, pass ``time.thread_time`` as clock. It does not
    count the time of other programs.
    """
    kept = None
    if repeats == 1:
        begin = clock()
        kept = call(*arguments)
        end = clock()
    else:
        begin = clock()
        for _ in repeat(None, repeats):
            call(*arguments)
        end = clock()
    del kept
    return (end - begin) / repeats


def _repeats(call: Callable[[], Any]) -> tuple[int, int, float]:
    """Return the number of calls before a sample and within a sample, and the estimated seconds of all these calls."""
    seconds(call, 1)
    once = seconds(call, 1)
    if once < SAMPLE:
        once = min(seconds(call, 16) for _ in range(3))
    before, within = max(1, math.ceil(SETTLE / once)), max(1, math.ceil(SAMPLE / once))
    return before, within, (before + within) * once


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Collect garbage before the ``with`` block, but not within it."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def alternate(
    sides: Mapping[str, Callable[[], Any]], runs: int, clock: Callable[[], float] = time.perf_counter
) -> Times:
    """Time the sides alternately (A B A B ..), and return the seconds per call of each side and run.

    Each side has ``runs`` samples. If the calls are slow, there are fewer, but at least 5. Untimed calls of the same
    side precede each sample: they fill the CPU's caches again, which the other sides have changed.
    """
    repeats = {name: _repeats(call) for name, call in sides.items()}
    runs = max(FEWEST, min(runs, int(BUDGET / sum(total for _, _, total in repeats.values()))))
    times: Times = {name: np.empty(runs) for name in sides}
    with no_collection():
        for i in range(runs):
            for name, call in sides.items():
                before, within, _ = repeats[name]
                for _ in range(before):
                    call()
                times[name][i] = seconds(call, within, clock=clock)
    return times


def ratio(times: Times, above: str, below: str) -> Ratio:
    """Return median and quartiles of the times of side ``above`` divided by those of side ``below``, run by run.

    Both samples of a run are close in time, so a slow phase of the machine affects both.
    """
    low, median, high = np.percentile(times[above] / times[below], [25, 50, 75])
    return Ratio(float(median), float(low), float(high))


def medians(times: Times) -> dict[str, float]:
    """Return the median seconds per call of each side."""
    return {name: float(np.median(values)) for name, values in times.items()}
