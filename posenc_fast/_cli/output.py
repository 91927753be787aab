"""Write output files atomically or to standard output, and print messages. Errors show the path that the user typed."""

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

# path that means standard output
STANDARD = "-"
# ANSI code of each style
_STYLES = {"bold": "1", "red": "1;31", "green": "32", "yellow": "33"}
Style = Literal["bold", "red", "green", "yellow"]


def usable_target(path: str) -> Path:
    """Return the path without symbolic links. Raise an error if no regular file can be written there."""
    target = Path(os.path.realpath(path))
    # a rename would replace a device or a named pipe by a file
    if target.exists() and not target.is_file():
        raise ValueError(f"{path} exists already and is not a regular file; choose another path")
    if not target.parent.is_dir():
        shown = target if os.path.islink(path) else Path(path)
        raise FileNotFoundError(errno.ENOENT, "the directory does not exist", str(shown.parent))
    # check the permission of the file, because a rename would replace a read-only file as well
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"{os.strerror(errno.EACCES)} in its directory", path)
    return target


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Yield a binary file, and rename it to ``path`` at the end of the ``with`` block, unless an error occurred.

    For the path -, yield standard output.
    """
    if path == STANDARD:
        with named("standard output"), _standard_output() as file:
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
                    # before `_link`, the file may have no name, and can be reached only by its path in /proc
                    shutil.copymode(target, part if part.exists() else _proc_path(file.fileno()))
                # if the process is killed between `_link` and `os.replace`, a hidden file remains
                _link(file, part)
                complete()
            os.replace(part, target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _created(part: Path) -> IO[bytes]:
    """Return a new open file without a name, so that nothing remains if the process is killed.

    If the file system does not support this, the file has the name ``part``.
    """
    if hasattr(os, "O_TMPFILE"):
        # file systems that do not support O_TMPFILE raise different errors
        with contextlib.suppress(OSError):
            descriptor = os.open(part.parent, os.O_TMPFILE | os.O_RDWR, 0o666)
            # `_link` needs /proc
            if os.path.exists(_proc_path(descriptor)):
                return open(descriptor, "w+b")
            os.close(descriptor)
    return open(part, "xb")


def _link(file: IO[bytes], part: Path) -> None:
    """Give a file without a name the name ``part``, so that it can be renamed.

    Only a rename can replace an existing file atomically.
    """
    if os.fstat(file.fileno()).st_nlink == 0:
        folder = os.open(part.parent, os.O_RDONLY)
        try:
            # os.link follows the symbolic link in /proc only if a folder is passed
            os.link(_proc_path(file.fileno()), part.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            # linking is not permitted: copy the file, which is slower and needs the space twice
            file.seek(0)
            with open(part, "xb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
        finally:
            os.close(folder)


def _proc_path(descriptor: int) -> str:
    """Return the path of an open file in /proc, which Linux has also for a file without a name."""
    return f"/proc/self/fd/{descriptor}"


@contextlib.contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    if sys.stdout is None:
        raise ValueError("standard output is closed")
    sys.stdout.flush()
    file: IO[bytes] = sys.stdout.buffer
    if isinstance(file, io.RawIOBase):
        # With python -u, standard output is a raw file, which may write only a part of the data. The buffered file is
        # closed here, so that a failed write is not repeated by a later flush.
        with open(os.dup(file.fileno()), "wb") as buffered:
            yield buffered
        return
    yield file
    file.flush()


@contextlib.contextmanager
def scratch(path: str) -> Iterator[tuple[IO[bytes], str]]:
    """Yield (temporary file in the directory of ``path``, name of the file in errors).

    For the path -, the file is in the system's directory for temporary files.
    """
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
    """Return text with line feeds unchanged, and all other unprintable characters escaped.

    Unprintable characters could control the terminal.
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def styled(text: str, style: Style, file: IO[str] | None) -> str:
    """Return the text in bold or in a colour, if ``file`` is a terminal that shows bold text and colours."""
    # NO_COLOR is explained on https://no-color.org. Windows Terminal sets WT_SESSION, and shows escape sequences for
    # bold text and colours. Other terminals of Windows may print them as text.
    plain = (
        os.environ.get("NO_COLOR")
        or os.environ.get("TERM") == "dumb"
        or (os.name == "nt" and "WT_SESSION" not in os.environ)
    )
    return text if plain or not is_terminal(file) else f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def say(text: str, styles: Mapping[str, Style] | None = None) -> None:
    """Print text, with unprintable characters escaped. styles: style of each word that may begin a line."""
    for line in _printable(text).split("\n"):
        word, space, rest = line.partition(" ")
        if styles and word in styles:
            word = styled(word, styles[word], sys.stdout)
        print(word + space + rest)


def complain(text: str, heading: str = "") -> None:
    """Print text to standard error, or nothing if standard error is closed.

    In this case, sys.stderr is None, and `print` would use standard output.

    text: its unprintable characters are escaped. heading: words to print before the text, unchanged.
    """
    if sys.stderr is not None:
        # if writing to standard error fails, the failure cannot be reported
        with contextlib.suppress(OSError):
            print(heading + _printable(text), file=sys.stderr)


def report_error(message: str) -> None:
    """Print an error in one line. Line ends in the message become spaces, such as those in the repr of an array."""
    complain(f" {' '.join(message.splitlines())}", f"posenc-fast: {styled('error:', 'red', sys.stderr)}")


def give_up_output() -> None:
    """Redirect standard output to the null device if it cannot be flushed.

    Otherwise the interpreter would flush it again at exit, and print a second error.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        # suppress the error of a standard output without a file descriptor, as in tests
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_terminal(file: IO[str] | None) -> bool:
    """Return whether a standard stream is open and a terminal. file: the stream, or None if it is closed."""
    return file is not None and file.isatty()


def report_written(path: str, file: IO[bytes], content: str, *more_lines: str) -> None:
    """Print a line that says which file was written, and then ``more_lines``.

    The line has the path, the description ``content`` and the size of the file. If the data go to standard output, the
    lines go to standard error, and have no size. Call this function before `opened` ends, so that an existing file
    stays unchanged if printing fails.
    """
    if path == STANDARD:
        complain("\n".join((f"wrote standard output: {content}", *more_lines)))
        return
    file.flush()
    size = os.fstat(file.fileno()).st_size
    try:
        with named("standard output"):
            # a file name may contain line feeds, which would divide the line
            lines = (f"wrote {path}: {content}, {size} bytes", *more_lines)
            say("\n".join(line.replace("\n", "\\n") for line in lines))
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # the program that reads standard output closed the pipe
        give_up_output()
