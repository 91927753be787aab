"""Let signals stop a command until its output is complete."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

# handled signals, and their previous handlers
_handled: dict[signal.Signals, Any] = {}


class Stopped(KeyboardInterrupt):
    """Raised when a signal arrives. ``number`` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


@contextlib.contextmanager
def interruptible(last: bool) -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM and SIGHUP, as at Ctrl-C. A second signal does not interrupt the cleanup.

    last: True if the process ends afterwards. Then signals stay ignored, so that they cannot change the exit status.
    """

    def interrupt(number: int, frame: object) -> NoReturn:
        complete()
        raise Stopped(number)

    try:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                # keep signals ignored if nohup or a shell's background job ignores them
                if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    _handled[number] = signal.getsignal(number)
                    signal.signal(number, interrupt)
        yield
    finally:
        if last:
            complete()
        while _handled:
            number, before = _handled.popitem()
            if not last:
                signal.signal(number, before)


def complete() -> None:
    """Ignore signals: the output is complete, so the exit status must be 0."""
    for number in _handled:
        signal.signal(number, signal.SIG_IGN)
