"""Show how much is done: bars or lines on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from .output import is_terminal

__all__ = ["Meter", "meter"]

# label, total (None where unknown), unit -> what is told how much is done
Meter = Callable[[str, int | None, str], contextlib.AbstractContextManager[Callable[[int], object]]]


def meter(shown: bool | None) -> Meter:
    """Return bars of tqdm, or lines where it is not installed; by default nothing unless on a terminal."""
    if sys.stderr is None or not (is_terminal(sys.stderr) if shown is None else shown):
        return lambda label, total, unit: contextlib.nullcontext(lambda done: None)
    try:
        from tqdm import tqdm
    except ImportError:
        return _lines

    @contextlib.contextmanager
    def bars(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], object]]:
        with tqdm(desc=label, total=total, unit=unit, unit_scale=True, file=sys.stderr) as bar:
            yield lambda done: bar.update(done - bar.n)

    return bars


@contextlib.contextmanager
def _lines(label: str, total: int | None, unit: str) -> Iterator[Callable[[int], object]]:
    """Show one line on a terminal, else a line for each per cent (each million, where the total is unknown)."""
    begin, end = ("\r", "") if is_terminal(sys.stderr) else ("", "\n")
    before = -1

    def show(done: int) -> None:
        nonlocal before
        now = 100 * done // max(total, 1) if total is not None else done // 1_000_000
        if now != before:
            before = now
            text = f"{label}: {now} %" if total is not None else f"{label}: {done}{unit}"
            print(begin + text, end=end, file=sys.stderr, flush=True)

    try:
        show(0)
        yield show
    finally:
        if not end:
            print(file=sys.stderr)
