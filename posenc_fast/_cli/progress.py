"""Show a progress bar on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from .output import is_terminal


@contextlib.contextmanager
def progress(shown: bool | None, label: str, total: int | None, unit: str) -> Iterator[Callable[[int], object]]:
    """Yield a function that takes the amount of finished work, and shows it in a progress bar if tqdm is installed.

    shown: whether to show the bar; None means only if standard error is a terminal. label: text before the bar. total:
    amount of all work, or None if it is unknown.
    """
    if sys.stderr is None or not (is_terminal(sys.stderr) if shown is None else shown):
        yield lambda done: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda done: None
        return
    with tqdm(desc=label, total=total, unit=unit, unit_scale=True, file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.n)
