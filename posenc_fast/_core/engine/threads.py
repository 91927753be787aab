"""Run blocks of rows in as many threads as the argument ``workers`` allows, as in scipy.fft.

A child process after a fork can also call these functions.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_pools: dict[int, ThreadPoolExecutor] = {}

# a child process has no threads after a fork, so it needs new pools
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _pools.clear())


def _pool(workers: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    pool = _pools.get(workers)
    if pool is None:
        # If two calls create a pool at the same time, one pool is kept. The other pool has no threads yet.
        pool = _pools.setdefault(workers, ThreadPoolExecutor(workers, thread_name_prefix="posenc_fast"))
    return pool


def useful(workers: int, size: int, worth: int) -> int:
    """Return the number of workers to use for an array of this size.

    worth is the minimum size for two threads. If there are several threads, each computes at least worth / 2 values or
    bytes on average. Starting a thread takes about 20 microseconds, so a smaller part would not be worth a thread.
    """
    return max(1, min(workers, 2 * size // worth))


def run(task: Callable[[Any], Any], blocks: Iterable[Any], workers: int) -> None:
    """Call task for every block. If a call fails, start no further blocks, and raise the error."""
    if workers == 1:
        for block in blocks:
            task(block)
        return
    import threading

    # The caller uses the lock directly. With a Condition, an interrupt right after the acquisition could leave the lock
    # locked.
    remaining, lock = iter(blocks), threading.Lock()
    idle, stop, busy = threading.Condition(lock), False, 0
    errors: list[BaseException] = []

    def work() -> None:
        while True:
            with lock:
                block = None if stop else next(remaining, None)
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
            errors.append(error)
        finally:
            with idle:
                busy -= 1
                idle.notify_all()

    # after any error from here on, including an interrupt while threads start, no further block begins
    try:
        for _ in range(workers - 1):
            try:
                # The future is not needed. If no thread can start, the task stays in the queue for threads of other
                # calls.
                _pool(workers - 1).submit(contextvars.copy_context().run, help_out)
            except RuntimeError:
                # continue with fewer threads, because the system has no more threads or the interpreter is ending
                break
        # the caller computes as well, because waking a thread takes as long as computing a block of a small array
        work()
        # The system may deliver an interrupt to any thread. CPython without the GIL can miss an interrupt that comes
        # just before the caller sleeps. Then the caller would sleep until the other threads are done. So it sleeps for
        # at most 0.1 s at a time.
        with lock:
            stop = True
            while busy:
                idle.wait(0.1)
        if errors:
            raise errors.pop()
    except BaseException:
        stop = True
        # a second interrupt does not end the wait, so that no thread writes after the call
        while busy:
            with contextlib.suppress(KeyboardInterrupt), lock:
                idle.wait(0.1)
        raise
