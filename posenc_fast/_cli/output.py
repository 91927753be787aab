"""Write output files atomically, or write to standard output. Errors show the path the user typed."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Literal

from .._models.check.arrays import named
from .signals import complete

STANDARD = "-"
# ANSI codes
_STYLES = {"bold": "1", "red": "1;31", "green": "32", "yellow": "33"}
Style = Literal["bold", "red", "green", "yellow"]


def usable_target(path: str) -> Path:
    """Return the path without symbolic links. Raise an error if no regular file can be written there."""
    target = Path(os.path.realpath(path))
    # a rename would replace a device or a named pipe by a file
    if target.exists() and not target.is_file():
        raise ValueError(f"{path} exists already and is not a regular file (- is standard output)")
    if not target.parent.is_dir():
        shown = target if os.path.islink(path) else Path(path)
        raise FileNotFoundError(errno.ENOENT, "there is no such directory", str(shown.parent))
    # check, because a rename replaces even a read-only file
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"{os.strerror(errno.EACCES)} in its directory", path)
    return target


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Yield a binary file that is renamed to ``path`` at the end if there was no error. For -, yield standard output."""
    if path == STANDARD:
        with named("standard output"), _standard() as file:
            yield file
        return
    target = usable_target(path)
    part = target.with_name(f".posenc-fast-{secrets.token_hex(8)}.tmp")
    with named(path, part):
        try:
            with _created(part) as file:
                yield file
                file.flush()
                if target.exists():
                    shutil.copymode(target, part if part.exists() else _path_of(file.fileno()))
                # a process that is killed between these steps leaves a hidden file
                _link(file, part)
                complete()
            os.replace(part, target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _created(part: Path) -> IO[bytes]:
    """Return a nameless file, so that a killed process leaves nothing. If unsupported, return the open file ``part``."""
    if hasattr(os, "O_TMPFILE"):
        # not every file system supports this; the errors differ
        with contextlib.suppress(OSError):
            number = os.open(part.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
            if os.path.exists(_path_of(number)):
                return open(number, "w+b")
            os.close(number)
    return open(part, "xb")


def _link(file: IO[bytes], part: Path) -> None:
    """Link a nameless file to ``part``. Only a rename replaces a file atomically, and it needs a name."""
    if os.fstat(file.fileno()).st_nlink == 0:
        folder = os.open(part.parent, os.O_RDONLY)
        try:
            # os.link follows the symbolic link in /proc only if a folder is passed
            os.link(_path_of(file.fileno()), part.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            # if linking is not permitted, copy the file (slower, needs the space twice)
            file.seek(0)
            with open(part, "xb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
        finally:
            os.close(folder)


def _path_of(number: int) -> str:
    return f"/proc/self/fd/{number}"


@contextlib.contextmanager
def _standard() -> Iterator[IO[bytes]]:
    if sys.stdout is None:
        raise ValueError("standard output is closed")
    sys.stdout.flush()
    file: IO[bytes] = sys.stdout.buffer
    if isinstance(file, io.RawIOBase):
        # python -u: a raw file may write only part of its data; the buffer is closed here, so that no later flush repeats
        # a failed write
        with open(os.dup(file.fileno()), "wb") as buffered:
            yield buffered
        return
    yield file
    file.flush()


@contextlib.contextmanager
def scratch(path: str) -> Iterator[tuple[IO[bytes], str]]:
    """Yield a temporary file on the same disk as ``path``, and its name in errors."""
    directory = tempfile.gettempdir() if path == STANDARD else str(usable_target(path).parent)
    name = directory if path == STANDARD else path
    try:
        file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
    with file:
        yield file, name


# ---- messages -------------------------------------------------------------------------------------------------------


def _printable(text: str) -> str:
    """Escape control characters, text directions and surrogates, which could change the terminal."""
    return "".join(each if each.isprintable() or each == "\n" else repr(each)[1:-1] for each in text)


def styled(text: str, style: Style, file: IO[str] | None) -> str:
    """Return the text in bold or in a colour, if the standard stream is a terminal that shows them."""
    # https://no-color.org; on Windows, only Windows Terminal is known to support the codes
    plain = (
        os.environ.get("NO_COLOR")
        or os.environ.get("TERM") == "dumb"
        or (os.name == "nt" and "WT_SESSION" not in os.environ)
    )
    return text if plain or not is_terminal(file) else f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def say(text: str, styles: Mapping[str, Style] | None = None) -> None:
    """Print lines, with characters from files escaped. A first word that is a key of ``styles`` gets this style."""
    for line in _printable(text).split("\n"):
        first, space, rest = line.partition(" ")
        style = (styles or {}).get(first)
        print((styled(first, style, sys.stdout) if style else first) + space + rest)


def complain(text: str, heading: str = "") -> None:
    """Print to standard error. Does nothing if it is closed (`print` would fall back to standard output)."""
    if sys.stderr is not None:
        # standard error is not writable: nothing more can be done
        with contextlib.suppress(OSError):
            print(heading + _printable(text), file=sys.stderr)


def report_error(message: str) -> None:
    """Print an error in one line. Line ends in the message, as of an array, become spaces."""
    complain(f" {' '.join(message.splitlines())}", f"posenc-fast: {styled('error:', 'red', sys.stderr)}")


def give_up_output() -> None:
    """Redirect a failing standard output to the null device, so that the interpreter does not flush it again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        # in tests, standard output may have no file descriptor
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_terminal(file: IO[str] | None) -> bool:
    """Return True if a standard stream is open and a terminal."""
    return file is not None and file.isatty()


def report_written(path: str, file: IO[bytes], *lines: str) -> None:
    """Print the path, content and size of the output. If the data go to standard output, print to standard error.

    Call this before `opened` ends: if printing fails, the existing file stays unchanged.
    """
    first, *more = lines
    if path == STANDARD:
        complain("\n".join((f"wrote standard output: {first}", *more)))
        return
    file.flush()
    size = os.fstat(file.fileno()).st_size
    try:
        with named("standard output"):
            # keep line feeds in names on one line
            lines = (f"wrote {path}: {first}, {size} bytes", *more)
            say("\n".join(line.replace("\n", "\\n") for line in lines))
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # the reader closed the pipe
        give_up_output()
