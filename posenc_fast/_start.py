"""While the command starts, let Ctrl-C end it without a traceback.

The package imports this module before NumPy, whose import takes most of the start time. Earlier, while Python imports
`site`, Python itself handles Ctrl-C and prints a traceback.
"""

from __future__ import annotations

import os
import sys

# names that installers give the command
_SCRIPTS = ("posenc-fast", "posenc-fast.exe", "posenc-fast-script.py")


def end_quietly() -> None:
    """If this process runs the command, let SIGINT end it without a traceback, until `main` handles signals."""
    if not _is_command():
        return
    import signal  # imported here because only the command needs it

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _is_command() -> bool:
    """Return whether the process runs ``posenc-fast`` or ``python -m posenc_fast``, not another program."""
    program = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    if program != "-m":
        return program.lower() in _SCRIPTS
    # while Python imports the package of -m, argv does not name it yet
    return sys.orig_argv[-len(sys.argv)].removeprefix("-m") == "posenc_fast"
