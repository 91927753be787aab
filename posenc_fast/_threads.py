"""Blocks of rows over threads, as scipy.fft's ``workers``: no thread unless asked for, safe after a fork."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

__all__ = ["run"]

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def _forget() -> None:
    # threads do not survive a fork, and another thread may have held the lock
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _pool(workers: int) -> ThreadPoolExecutor:
    with _lock:
        pool = _pools.get(workers)
        if pool is None:
            pool = _pools[workers] = ThreadPoolExecutor(workers, thread_name_prefix="posenc_fast")
        return pool


def run(task: Callable[[Any], Any], blocks: Iterable[Any], workers: int) -> None:
    """Call task for every block; the first error is raised, and blocks that have not begun by then never do."""
    if workers == 1:
        for block in blocks:
            task(block)
        return
    context = contextvars.copy_context()
    futures = [_pool(workers).submit(context.copy().run, task, block) for block in blocks]
    try:
        for future in futures:
            future.result()
    except BaseException:
        for future in futures:
            future.cancel()
        for future in futures:
            if not future.cancelled():
                future.exception()
        raise
