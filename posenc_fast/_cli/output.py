"""OUT: a file that appears when all of it is there, or standard output; errors have the name that the user gave it."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

__all__ = [
    "STANDARD",
    "complain",
    "is_terminal",
    "named",
    "opened",
    "report",
    "report_written",
    "scratch",
    "usable_target",
]

STANDARD = "-"


@contextlib.contextmanager
def named(name: str, hidden: Path | None = None) -> Iterator[None]:
    """Give errors without a file's name, or with one that nobody knows, that which the user knows."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(hidden)):
            raise
        raise OSError(error.errno, error.strerror, name) from None


def usable_target(path: str) -> Path:
    """The regular file behind a path, whether it is there yet or not; an error for what cannot be written."""
    target = Path(os.path.realpath(path))
    # a rename would put a file in the place of a device or of a named pipe
    if target.exists() and not target.is_file():
        raise ValueError(f"{path} is there already, and is no regular file (- is standard output)")
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such directory", str(Path(path).parent))
    # a rename does not ask whether what it replaces may be written to
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"{os.strerror(errno.EACCES)} in its directory", path)
    return target


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A binary file that becomes ``path`` at the end, if there is no error; standard output for -."""
    if path == STANDARD:
        with named("standard output"), _standard() as file:
            yield file
        return
    target = usable_target(path)
    part = target.with_name(f".posenc-fast-{secrets.token_hex(8)}.tmp")
    with named(path, part):
        try:
            with open(part, "xb") as file:
                yield file
            if target.exists():
                shutil.copymode(target, part)
            os.replace(part, target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _standard() -> Iterator[IO[bytes]]:
    if sys.stdout is None:
        raise ValueError("standard output is closed")
    sys.stdout.flush()
    file: IO[bytes] = sys.stdout.buffer
    if isinstance(file, io.RawIOBase):
        # python -u: a raw file may write less than it is told to; closed at once, so that nothing is tried again later
        with open(os.dup(file.fileno()), "wb") as buffered:
            yield buffered
        return
    yield file
    file.flush()


@contextlib.contextmanager
def scratch(path: str) -> Iterator[tuple[IO[bytes], str]]:
    """A nameless file on the disk that ``path`` is on, and what to call it."""
    directory = tempfile.gettempdir() if path == STANDARD else str(usable_target(path).parent)
    name = directory if path == STANDARD else path
    try:
        file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
    with file:
        yield file, name


def report(path: str, text: str) -> None:
    """Say what was done: beside the data, where that goes to standard output."""
    if path == STANDARD:
        complain(text)
    else:
        print(text)


def complain(text: str) -> None:
    """Print to standard error, if there is any: print itself would take standard output."""
    if sys.stderr is not None:
        print(text, file=sys.stderr)


def is_terminal(file: IO[str] | None) -> bool:
    """Whether a standard stream, which may be closed, is a terminal."""
    return file is not None and file.isatty()


def report_written(path: str, what: str) -> None:
    """Say that ``path`` is there."""
    if path == STANDARD:
        report(path, f"wrote standard output: {what}")
    else:
        report(path, f"wrote {path}: {what}, {os.stat(path).st_size} bytes")
