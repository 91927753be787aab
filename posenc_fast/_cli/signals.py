"""Let signals interrupt a command, but only until its output is complete."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

# previous handler of each signal that is handled here
_handled: dict[signal.Signals, Any] = {}


class Stopped(KeyboardInterrupt):
    """A signal interrupted the command. number: the signal."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


@contextlib.contextmanager
def interruptible(last: bool) -> Iterator[None]:
    """Raise `Stopped` at the first Ctrl-C, SIGTERM or SIGHUP. Then ignore them, so that none interrupts the cleanup.

    last: whether the process ends after the ``with`` block. If so, signals stay ignored, so that they cannot change the
    exit status.
    """

    def interrupt(number: int, frame: object) -> NoReturn:
        complete()
        raise Stopped(number)

    try:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                # leave signals ignored that nohup, or a shell for its background job, has set to be ignored
                if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    _handled[number] = signal.getsignal(number)
                    signal.signal(number, interrupt)
        yield
    finally:
        if last:
            complete()
        while _handled:
            number, previous_handler = _handled.popitem()
            if not last:
                signal.signal(number, previous_handler)


def complete() -> None:
    """Ignore the signals of `interruptible` from now on.

    After the output is complete, a signal must not change the exit status.
    """
    for number in _handled:
        signal.signal(number, signal.SIG_IGN)
