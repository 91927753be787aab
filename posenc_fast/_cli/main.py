"""Run the command line, ``posenc-fast`` or ``python -m posenc_fast``, and return its exit status."""

from __future__ import annotations

import argparse
import contextlib
import io
import signal
import sys
from collections.abc import Iterator, Sequence

from .. import __version__
from . import check, completion, encode, export, identify, machine, plot, presets, table
from .arguments import Parser, shielded
from .output import give_up_output, report_error
from .signals import Stopped, interruptible

EXAMPLES = """\
examples:
  posenc-fast table 2048 512 -o pe.npy
  posenc-fast encode visits.csv --column time --periods day,week -o visits.npy
  posenc-fast presets --search diffusion
  posenc-fast identify model.safetensors --key encoder.embed_positions.weight
  posenc-fast check models/llama

exit status: 0 on success; 1 if nothing was found or a check failed; 2 for bad
arguments or files; 128 + signal number (130 for Ctrl-C, 143 for SIGTERM).
After an error, existing files are unchanged.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; default `sys.argv[1:]`. With the default, signals are ignored after the command ends.

    Returns
    -------
    int
        Exit status: 0 on success; 1 if nothing was found, a check failed, a config.json cannot express an encoding, or
        the reader of standard output closed the pipe; 2 for other errors, such as bad arguments or input; 128 plus the
        signal number after an interruption.
    """
    words = sys.argv[1:] if argv is None else argv
    try:
        with interruptible(last=argv is None), _escape_unencodable():
            return _run([shielded(argument) for argument in words])
    except KeyboardInterrupt as error:
        number = error.number if isinstance(error, Stopped) else signal.SIGINT
        return _fail("interrupted" if number == signal.SIGINT else f"stopped by {number.name}", 128 + number)
    except BrokenPipeError:
        # the program that reads standard output closed the pipe
        give_up_output()
        return 1
    except OSError as error:
        give_up_output()
        # `named` adds the filename to errors of files, so an error without a filename comes from print
        source = "standard output" if error.filename is None else error.filename
        return _fail(f"{source}: {error.strerror}" if error.strerror else str(error))
    except MemoryError as error:
        return _fail(": ".join(filter(None, ("out of memory", str(error)))))
    except (ValueError, TypeError, OverflowError, ImportError, RuntimeError, Warning) as error:
        return _fail(str(error))


def _run(words: list[str]) -> int:
    try:
        arguments = _parser().parse_args(words)
        try:
            status: int = arguments.run(arguments) or 0
        except MemoryError as error:
            raise MemoryError(_memory_message(error, arguments)) from None
        return status
    finally:
        # flush here, so that `main` reports a full disk or a closed pipe, also when help is printed
        if sys.stdout is not None:
            sys.stdout.flush()


def _memory_message(error: MemoryError, arguments: argparse.Namespace) -> str:
    """Return a message with the amount of missing memory and the sizes that the user passed."""
    sizes = {name: getattr(arguments, name, None) for name in ("length", "d_model")}
    shape = " and ".join(f"{name}={size}" for name, size in sizes.items() if size is not None)
    missing = str(error).partition(" for an array")[0]
    return " for ".join(filter(None, (missing, shape)))


@contextlib.contextmanager
def _escape_unencodable() -> Iterator[None]:
    """Let standard output escape characters that its encoding lacks, as standard error does."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        yield
        return
    before = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        # reconfigure flushes, which fails on a full disk
        with contextlib.suppress(OSError):
            stream.reconfigure(errors=before)


def _parser() -> Parser:
    about = "Compute and check position encodings, rounded once from the exact value."
    parser = Parser(prog="posenc-fast", description=about, epilog=EXAMPLES)
    parser.add_argument("--version", action="version", version=f"posenc_fast {__version__}")
    parser.set_defaults(run=lambda arguments: parser.print_help())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module in (table, encode, presets, identify, check, export, plot, machine):
        module.add(commands)
    completion.add(commands, parser)
    return parser


def _fail(message: str, status: int = 2) -> int:
    report_error(message)
    return status
