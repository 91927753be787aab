"""Blocks of rows over threads, as scipy.fft's ``workers``: no thread unless asked for, safe after a fork."""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_pools: dict[int, ThreadPoolExecutor] = {}

# threads do not survive a fork
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _pools.clear())


def _pool(workers: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    pool = _pools.get(workers)
    if pool is None:
        # of two that are made at the same time one is kept; the other has no threads yet
        pool = _pools.setdefault(workers, ThreadPoolExecutor(workers, thread_name_prefix="posenc_fast"))
    return pool


def useful(workers: int, size: int, worth: int) -> int:
    """Return how many of the workers to take for what is worth a second one from a size on: half of it for each.

    To hand a thread its part takes some 20 microseconds, so that all threads of a large machine would take longer.
    """
    return max(1, min(workers, 2 * size // worth))


def run(task: Callable[[Any], Any], blocks: Iterable[Any], workers: int) -> None:
    """Call task for every block; the first error is raised, and blocks that have not begun by then never do."""
    if workers == 1:
        for block in blocks:
            task(block)
        return
    import threading

    # an interrupt may come behind the acquisition of a Condition, but not behind that of a lock in a with statement
    rest, lock = iter(blocks), threading.Lock()
    idle, stop, busy = threading.Condition(lock), False, 0
    failed: list[BaseException] = []

    def work() -> None:
        while True:
            with lock:
                block = None if stop else next(rest, None)
            if block is None:
                return
            task(block)

    def help_out() -> None:
        nonlocal stop, busy
        with lock:
            busy += 1
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            stop = True
            failed.append(error)
        finally:
            with idle:
                busy -= 1
                idle.notify_all()

    # whatever happens from here on, an interrupt while the threads are started included, no block begins after it
    try:
        for _ in range(workers - 1):
            try:
                # its future is no use: where no thread can be started, it is queued for those of other calls all the same
                _pool(workers - 1).submit(contextvars.copy_context().run, help_out)
            except RuntimeError:
                # no more threads are to be had, from the system or while the interpreter ends: fewer do the same
                break
        # to wake a thread takes as long as a block of a small array: the caller computes as well
        work()
        # The system may let any thread hear of an interrupt, and CPython without the GIL forgets one that comes while it
        # is about to sleep, which takes long where others compute: so the caller never sleeps for longer than this.
        with lock:
            stop = True
            while busy:
                idle.wait(0.1)
        if failed:
            raise failed.pop()
    except BaseException:
        stop = True
        # a second interrupt waits as well: when the call is over, no thread writes
        while busy:
            with contextlib.suppress(KeyboardInterrupt), lock:
                idle.wait(0.1)
        raise
