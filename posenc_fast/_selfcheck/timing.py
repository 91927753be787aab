"""Measure speed: sides alternate in one process, without garbage collection, and medians are compared."""

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

# seconds: a shorter call is repeated within one sample, so that neither the clock nor the loop shows
SAMPLE = 5e-5
# seconds: what the caches get to settle before a sample, one call at least
SETTLE = 1e-3
# seconds for one comparison: slow calls get fewer runs, but never fewer than this many
BUDGET, FEWEST = 4.0, 5


class Ratio(NamedTuple):
    """Median of the ratios of neighbouring samples, and the quartiles about it."""

    median: float
    low: float
    high: float


def seconds(
    call: Callable[..., Any], repeats: int, *arguments: Any, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the time of a call in a sample of ``repeats``; the result is freed only after the clock has stopped.

    clock: ``time.thread_time`` for calls of one thread, where other guests of the machine take the processor away.
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
    """Return calls before a sample, calls within it, and the seconds that all of them take."""
    seconds(call, 1)
    once = seconds(call, 1)
    if once < SAMPLE:
        once = min(seconds(call, 16) for _ in range(3))
    before, within = max(1, math.ceil(SETTLE / once)), max(1, math.ceil(SAMPLE / once))
    return before, within, (before + within) * once


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
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
    """Return the seconds of a call of each side, run by run: A B A B ...

    Each sample follows untimed calls of its own side, so that no side finds the caches as the other left them.
    """
    repeats = {name: _repeats(call) for name, call in sides.items()}
    runs = max(FEWEST, min(runs, int(BUDGET / sum(taken for _, _, taken in repeats.values()))))
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
    """Return how many times as long one side takes: neighbours are compared, so that a slow moment meets both."""
    low, median, high = np.percentile(times[above] / times[below], [25, 50, 75])
    return Ratio(float(median), float(low), float(high))


def medians(times: Times) -> dict[str, float]:
    """Return the median seconds of each side."""
    return {name: float(np.median(values)) for name, values in times.items()}
