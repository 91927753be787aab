"""Compare one worker with two, for tables, encodings and rotations."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import timing
import values
from timing import Array

import posenc_fast as pf

from . import Measured, Skipped, compare
from .positions import timestamps
from .tables import HUGE


def two_workers(make: Callable[[], tuple[Array, Callable[[int], object], Callable[[], None]]], runs: int) -> Measured:
    """Compare a call with one worker and with two, and measure memset in one thread and in two.

    make: function that returns (array, function of the number of workers that fills the array, check of the values).
    """
    had = processors()
    if had < 1.8:
        raise Skipped(
            f"two threads get only {had:.2f} processors; stop other programs, or use a machine with two processors"
        )
    out, call, check = make()
    halves = [timing.memset(half, 255) for half in np.split(out, 2)]
    with ThreadPoolExecutor(2) as pool:
        sides = {
            "one worker": partial(call, 1),
            "two workers": partial(call, 2),
            # the times of memset show how much two threads can gain on this machine if they only write
            "memset of ones": timing.memset(out, 255),
            "memset of ones in two threads": lambda: list(pool.map(lambda half: half(), halves)),
        }
        times = timing.alternate(sides, runs)
    call(2)
    check()
    return compare(times, "one worker", "two workers", out.size)


def table() -> tuple[Array, Callable[[int], object], Callable[[], None]]:
    encoding, out = pf.sinusoidal(HUGE[1]), timing.warm(HUGE)
    return (
        out,
        lambda workers: encoding.table(HUGE[0], out=out, workers=workers),
        lambda: values.check_table(out, encoding),
    )


def encode() -> tuple[Array, Callable[[int], object], Callable[[], None]]:
    encoding, positions, out = pf.sinusoidal(64), timestamps(), timing.warm((1_000_000, 64))

    def check() -> None:
        for part in values.blocks(*out.shape):
            values.check_rows(out[part], encoding, positions[part])

    return out, lambda workers: encoding.encode(positions, out=out, workers=workers), check


def rotary() -> tuple[Array, Callable[[int], object], Callable[[], None]]:
    """Return an array, a function that writes 32 rotated heads of 2048 tokens into it, and a check.

    Each call of the function uses new positions.
    """
    x = np.random.default_rng(0).standard_normal((1, 32, 2048, 128), np.float32)
    rotary, start, out = pf.Rotary(x.shape[-1]), itertools.count(), np.ones_like(x[0])
    return (
        out,
        lambda workers: rotary.apply(x[0], start=next(start), out=out, workers=workers),
        lambda: np.testing.assert_array_equal(out, rotary.apply(x[0], start=next(start) - 1)),
    )


def processors() -> float:
    """Return the number of processors that two busy threads get at this moment."""
    block = bytes(1 << 24)
    begin, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: hashlib.sha256(block), range(20)))
    return (time.process_time() - cpu) / (time.perf_counter() - begin)
