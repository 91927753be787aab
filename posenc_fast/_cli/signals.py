"""Signals that stop a command, as long as what it was asked for is not complete."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

# signals that are handled now, and what handled them before
_handled: dict[signal.Signals, Any] = {}


class Stopped(KeyboardInterrupt):
    """A signal came; ``number`` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


@contextlib.contextmanager
def interruptible(last: bool) -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM and SIGHUP, as at Ctrl-C; a second signal does not disturb the cleaning up.

    Nor does any signal disturb the end of the process, if this is the last that it does: its status is settled.
    """

    def interrupt(number: int, frame: object) -> NoReturn:
        complete()
        raise Stopped(number)

    try:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                # nohup, and a shell for its background jobs, have them ignored
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
