"""The command line: ``posenc-fast``, or ``python -m posenc_fast``."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from .. import __version__, reference, sinusoidal
from .._encoding.builders import FUNCTIONS, LAYOUTS, ODD
from .._encoding.value import Encoding
from .._engine import backend as _backend
from .._numbers.arguments import count_of, progression, real
from .._numbers.formats import TYPES, float_type
from .files import Meter, open_positions, read_array, read_arrays, read_vector, usable_target, write_file, write_npy

__all__ = ["main"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

# output values that are computed, or compared, at a time
BLOCK = 1 << 22
# rows of one column take more for their positions than for their encodings
MOST_ROWS = 1 << 18

ENCODE_HELP = """\
INPUT is a .npy file of one dimension, a CSV file, or - for CSV on standard input.

A cell is a number or an ISO date or time; dates count seconds since 1970-01-01T00:00Z, and are UTC unless they say
otherwise. Integers are exact over all of int64 and uint64, times to the nanosecond. An empty cell or "nan" is a missing
position, and its row is NaN; an empty line is no row. The first line is a header when the column is given by name, or
when its cell is the beginning of neither a number nor a date. INPUT and OUT may be larger than memory.
"""
PLOTS = ("angles", "clocks", "heatmap", "shift", "similarity", "sinusoids", "wavelengths")
PLOT_HELP = """\
angles       the angle of each column at each position, in colours that close a circle (--length, --start)
clocks       pairs of columns as hands of clocks (--positions)
heatmap      the table (--length, --start)
shift        a table, its transition matrix, and both multiplied (--length, --offset)
similarity   dot product and squared differences around a position (--position)
sinusoids    columns against position (--length, --start)
wavelengths  of every column, on a logarithmic scale
"""
BFLOAT16_HELP = """\
NumPy stores bfloat16 as raw bytes, of type |V2: read it with numpy.load(OUT).view(ml_dtypes.bfloat16).
"""
BFLOAT16_IDENTIFY_HELP = """\
Raw bytes of type |V2, in which NumPy stores bfloat16, are taken for bfloat16.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process if not given.

    Returns
    -------
    int
        Exit status: 0, 1 where nothing was identified, 2 for bad arguments or input, 130 for an interruption.
    """
    given = sys.argv[1:] if argv is None else argv
    try:
        with _interruptible():
            arguments = _parser().parse_args([_shielded(argument) for argument in given])
            status: int = arguments.run(arguments) or 0
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # whoever read the output has seen enough; the interpreter must not try to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
    except MemoryError as error:
        return _fail(f"out of memory: {error}")
    except (ValueError, TypeError, OverflowError, ImportError, RuntimeError) as error:
        return _fail(str(error))
    return status


def _fail(message: str, status: int = 2) -> int:
    # one line, even where the message shows an array
    print(f"posenc-fast: error: {' '.join(message.splitlines())}", file=sys.stderr)
    return status


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does; a second signal does not disturb the cleaning up."""
    handled: dict[signal.Signals, Any] = {}

    def interrupt(number: int, frame: object) -> NoReturn:
        for other in handled:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    try:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                # nohup, and a shell for its background jobs, have them ignored
                if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    handled[number] = signal.getsignal(number)
                    signal.signal(number, interrupt)
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)


# ---- arguments --------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Errors in the form of all others."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def _shielded(argument: str) -> str:
    """The argument, with a space before it where argparse would take a value for an option: -sin, -1e3."""
    if argument.startswith("-"):
        with contextlib.suppress(ValueError):
            float(argument)
            return " " + argument
    return " " + argument if argument in FUNCTIONS else argument


def number(text: str) -> int | float:
    """An integer as an int: exact, however large."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="posenc-fast", description="Sinusoidal position encodings.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"posenc_fast {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    info = commands.add_parser("info", help="print the backend and the versions", allow_abbrev=False)
    info.set_defaults(run=_info)

    table = commands.add_parser(
        "table",
        help="write the encoding of consecutive positions",
        description="Write the rows of positions START + i * STEP, and compare them with the tutorial's NumPy formula.",
        epilog=BFLOAT16_HELP,
        allow_abbrev=False,
    )
    table.add_argument("length", type=int, metavar="LENGTH", help="number of positions")
    table.add_argument("d_model", type=int, metavar="D_MODEL", help="number of columns")
    _add_output(table)
    table.add_argument("--start", type=number, default=0, help="first position (default 0)")
    table.add_argument("--step", type=number, default=1, help="distance of positions (default 1)")
    table.add_argument("--no-compare", action="store_true", help="leave the comparison with the tutorial's formula out")
    _add_encoding(table)
    table.set_defaults(run=_table)

    encode = commands.add_parser(
        "encode",
        help="write the encoding of positions or timestamps from a file",
        description=ENCODE_HELP,
        epilog=BFLOAT16_HELP,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    encode.add_argument("input", metavar="INPUT", help=".npy or CSV file, - for CSV on standard input")
    encode.add_argument("--d-model", type=int, required=True, metavar="D", help="number of columns")
    encode.add_argument(
        "--column", type=str.strip, metavar="NAME_OR_NUMBER", help="name of the CSV column, or its number from 0"
    )
    _add_output(encode)
    _add_progress(encode)
    _add_encoding(encode)
    encode.set_defaults(run=_encode)

    names = commands.add_parser("presets", help="print the table of presets, in Markdown", allow_abbrev=False)
    names.set_defaults(run=_presets)

    identify = commands.add_parser(
        "identify",
        help="find out which encoding made a table",
        description="Print the presets and the encoding that made TABLE. Exit status 1 if none did.",
        epilog=BFLOAT16_IDENTIFY_HELP,
        allow_abbrev=False,
    )
    identify.add_argument(
        "table",
        metavar="TABLE",
        help=".npy file of rows of consecutive positions; or .npz file of frequencies, of cos and sin, or of x and turned "
        "with positions, for a rotary encoding",
    )
    identify.add_argument("--start", type=number, help="position of the first row (default: found out)")
    identify.set_defaults(run=_identify)

    plot = commands.add_parser(
        "plot",
        help="draw an encoding",
        description="Draw an encoding of D_MODEL columns, or a preset of that width, with matplotlib.",
        epilog=PLOT_HELP,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plot.add_argument("kind", metavar="KIND", choices=PLOTS, help=", ".join(PLOTS))
    plot.add_argument("d_model", type=int, metavar="D_MODEL", nargs="?", default=128, help="columns (default 128)")
    plot.add_argument("-o", "--output", required=True, metavar="OUT", help=".png, .svg or .pdf file, say")
    plot.add_argument("--preset", metavar="NAME", help="in place of the options under encoding")
    plot.add_argument("--length", type=int, help="number of positions")
    plot.add_argument("--start", type=number, help="first position")
    plot.add_argument("--position", type=number, help="position in the middle")
    plot.add_argument("--positions", type=number, nargs="+", metavar="P", help="what the clocks show")
    plot.add_argument("--offset", type=number, help="how far to shift")
    plot.add_argument("--dpi", type=float, default=150.0, help="pixels an inch (default 150)")
    _add_encoding(plot)
    plot.set_defaults(run=_plot)

    verify = commands.add_parser(
        "verify",
        help="compare what this machine computes with exact values",
        description="Hold every backend and level to the promised bounds. Exit status 1 if one of them is broken.",
        allow_abbrev=False,
    )
    verify.add_argument("--seconds", type=float, default=20.0, help="how long to draw positions (default 20)")
    verify.add_argument("--seed", type=int, help="of the positions (default: a new one, which is printed)")
    _add_progress(verify)
    verify.set_defaults(run=_verify)

    bench = commands.add_parser(
        "bench",
        help="compare the speed with NumPy's",
        description="Time calls and the NumPy programs that do the same, in turn, on one thread. Takes half a minute.",
        allow_abbrev=False,
    )
    bench.set_defaults(run=_bench)
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help=".npy file; appears when it is complete")
    parser.add_argument("--dtype", choices=TYPES, default="float32", help="default float32")
    parser.add_argument(
        "--precision",
        choices=("exact", "float32"),
        default="exact",
        help="float32: as frameworks that compute in float32 (default exact)",
    )
    parser.add_argument(
        "--workers", type=int, help="most threads; negative numbers count back from the CPUs (default 1)"
    )


def _add_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="show progress (default: on a terminal)"
    )


def _add_encoding(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("encoding", "as in posenc_fast.sinusoidal")
    group.add_argument("--base", type=float, default=10000.0, help="ratio of the wavelengths (default 10000)")
    group.add_argument("--freq-shift", type=float, default=0.0, metavar="SHIFT", help="taken off D/2 (default 0)")
    group.add_argument("--first", type=float, default=1.0, help="first frequency (default 1)")
    group.add_argument("--frequencies", metavar="FILE.npy", help="frequencies, in place of the three above")
    group.add_argument("--layout", choices=LAYOUTS, default="interleaved", help="default interleaved")
    group.add_argument(
        "--functions",
        nargs=2,
        # the space is that of _shielded
        type=str.strip,
        choices=tuple(FUNCTIONS),
        default=("sin", "cos"),
        help="two of sin, cos, -sin, -cos (default sin cos)",
        metavar=("F", "G"),
    )
    group.add_argument("--odd", choices=ODD, default="crop", help="what to do with an odd width (default crop)")
    group.add_argument("--scale", type=float, default=1.0, help="factor of all columns (default 1)")


def _encoding(arguments: argparse.Namespace) -> Encoding:
    return sinusoidal(
        arguments.d_model,
        base=arguments.base,
        freq_shift=arguments.freq_shift,
        first=arguments.first,
        frequencies=None if arguments.frequencies is None else read_vector(arguments.frequencies),
        layout=arguments.layout,
        functions=tuple(arguments.functions),
        odd=arguments.odd,
        scale=arguments.scale,
    )


# ---- commands ---------------------------------------------------------------------------------------------------


def _info(arguments: argparse.Namespace) -> None:
    print(f"backend      {_backend.backend()}")
    print(f"isa          {_backend.isa() or 'none'}")
    print(f"isa levels   {', '.join(_backend.isa_levels()) or 'none'}")
    print(f"posenc_fast  {__version__}")
    print(f"numpy        {np.__version__}")
    print(f"python       {platform.python_version()}")


def _table(arguments: argparse.Namespace) -> None:
    encoding = _encoding(arguments)
    dtype = float_type(arguments.dtype)
    shape = (count_of(arguments.length, "length", 0), arguments.d_model)
    usable_target(arguments.output)
    trial = _Trial(encoding, dtype, arguments)

    def fill(rows: Array) -> None:
        for i in range(0, len(rows), trial.count):
            rows[i : i + trial.count] = trial.block(i)

    _wrote(arguments.output, shape, dtype, write_npy(arguments.output, shape, dtype, fill))
    print(f"kernel ({_engine()}): {_time(trial.kernel)}; its first call, with its constants: {_time(trial.first_call)}")
    if trial.compare:
        ratio = f", {trial.tutorial / trial.kernel:.3g} times as long" if trial.kernel else ""
        print(f"tutorial's formula (NumPy float64): {_time(trial.tutorial)}{ratio}")
        print(f"largest difference: {trial.largest:.3g}")


class _Trial:
    """Blocks of a table, and beside them the same rows by the tutorial's formula; the seconds that each took."""

    def __init__(self, encoding: Encoding, dtype: np.dtype[Any], arguments: argparse.Namespace) -> None:
        self.encoding, self.length, self.compare = encoding, arguments.length, not arguments.no_compare
        self.start, self.step = progression(arguments.start, arguments.step, arguments.length)
        self.settings: dict[str, Any] = {"precision": arguments.precision, "workers": arguments.workers}
        self.count = max(1, min(BLOCK // encoding.d_model, self.length))
        # to memory and then to the file, so that the disk is in neither of the times
        self.buffer = np.empty((min(self.count, self.length), encoding.d_model), dtype)
        plain = self.start == 0 and self.step == 1 and encoding == sinusoidal(encoding.d_model)
        self.whole = plain and len(self.buffer) == self.length
        # both once before: for memory that is touched first, and for what is kept for further calls
        self.first_call = self._run(self.buffer, 0)
        if self.compare and self.length:
            self._run_tutorial(self.buffer, 0)
        self.kernel = self.tutorial = self.largest = 0.0

    def block(self, i: int) -> Array:
        """Rows from i on, valid until the next call."""
        block = self.buffer[: self.length - i]
        self.kernel += self._run(block, i)
        if self.compare:
            expected, seconds = self._run_tutorial(block, i)
            self.tutorial += seconds
            expected -= block.astype(np.float64)
            self.largest = max(self.largest, float(np.abs(expected, out=expected).max()))
        return block

    def _run(self, block: Array, i: int) -> float:
        # exact numbers: where a block begins must not be rounded
        exact: dict[str, Any] = {"start": self.start + i * self.step, "step": self.step}
        begin = time.perf_counter()
        self.encoding.table(len(block), out=block, dtype=block.dtype, **exact, **self.settings)
        return time.perf_counter() - begin

    def _run_tutorial(self, block: Array, i: int) -> tuple[Floats, float]:
        from .speed import formula

        begin = time.perf_counter()
        if self.whole:
            expected = reference.vaswani_numpy(*block.shape)
        else:
            positions = float(self.start + i * self.step) + float(self.step) * np.arange(len(block), dtype=np.float64)
            expected = formula(self.encoding, positions)
        return expected, time.perf_counter() - begin


def _encode(arguments: argparse.Namespace) -> None:
    encoding = _encoding(arguments)
    dtype = float_type(arguments.dtype)
    settings: dict[str, Any] = {"dtype": dtype, "precision": arguments.precision, "workers": arguments.workers}
    # what is wrong with the settings is said before a long input is read
    encoding.encode(np.zeros(0), **settings)
    scratch = usable_target(arguments.output).parent
    meter = _meter(arguments.progress)
    with open_positions(arguments.input, arguments.column, scratch, meter) as source:
        rows = max(1, min(BLOCK // arguments.d_model, MOST_ROWS))

        def fill(out: Array) -> None:
            first = 0
            with meter("encoding", source.length, " rows") as done:
                for parts in source.blocks(rows):
                    block = out[first : first + rows]
                    for where, positions in parts:
                        if isinstance(where, slice):
                            encoding.encode(positions, out=block, **settings)
                        else:
                            block[where] = encoding.encode(positions, **settings)
                    first += len(block)
                    done(first)

        shape = (source.length, arguments.d_model)
        _wrote(arguments.output, shape, dtype, write_npy(arguments.output, shape, dtype, fill))
        print(f"positions: {source.label}")


def _presets(arguments: argparse.Namespace) -> None:
    from .. import presets

    print(presets.table())


def _identify(arguments: argparse.Namespace) -> int:
    from .. import identify

    if arguments.table.endswith(".npz"):
        return _identify_rotary(arguments)
    table = read_array(arguments.table)
    if table.dtype == np.dtype("V2"):
        table = table.view(float_type("bfloat16"))
    found = identify(table, start=arguments.start)
    print(found)
    return 0 if found else 1


def _identify_rotary(arguments: argparse.Namespace) -> int:
    from .. import identify_rotary

    arrays: dict[str, Any] = read_arrays(arguments.table)
    known = inspect.signature(identify_rotary).parameters
    for name in arrays:
        if name not in known:
            raise ValueError(f"{arguments.table} has an array {name!r}, which is none of {', '.join(known)}")
    if arguments.start is not None:
        raise ValueError("--start is for a .npy file; give an .npz file an array of positions")
    found = identify_rotary(**arrays)
    print(found)
    return 0 if found else 1


def _plot(arguments: argparse.Namespace) -> None:
    from .. import plot

    what: Any = arguments.preset
    if what is None:
        what = _encoding(arguments)
    else:
        usual = _Parser()
        _add_encoding(usual)
        for name, value in vars(usual.parse_args([])).items():
            if getattr(arguments, name) != value:
                raise ValueError(f"--preset excludes --{name.replace('_', '-')}; leave one of them out")
    draw = getattr(plot, arguments.kind)
    taken = inspect.signature(draw).parameters
    given = {name: getattr(arguments, name) for name in ("length", "start", "position", "positions", "offset")}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in taken:
            raise ValueError(f"{arguments.kind} takes no --{name} (see posenc-fast plot --help)")
    figure, axes = plot.new_figure(3 if "axes" in taken else 1)
    known, suffix = figure.canvas.get_supported_filetypes(), Path(arguments.output).suffix[1:].lower()
    if suffix not in known:
        raise ValueError(f"{arguments.output} must end with one of {', '.join(f'.{name}' for name in sorted(known))}")
    draw(what, d_model=arguments.d_model, **given, **{"axes" if "axes" in taken else "ax": axes})
    size = write_file(arguments.output, lambda part: figure.savefig(part, format=suffix, dpi=arguments.dpi))
    print(f"wrote {arguments.output}: {arguments.kind}, {size} bytes")


def _verify(arguments: argparse.Namespace) -> int:
    from .bits import report
    from .verify import CALLS, RANGES, engines, verify

    seconds = real(arguments.seconds, "seconds", positive=True)
    seed = int(np.random.SeedSequence().entropy) % 2**32 if arguments.seed is None else arguments.seed  # type: ignore[arg-type]
    count_of(seed, "seed", 0)
    print(f"posenc_fast {__version__} on {platform.machine()}, seed {seed}")
    print(f"positions: {', '.join(RANGES)}")
    total = int(100 * seconds)
    with _meter(arguments.progress)("verifying", total, " cs") as done:
        found = verify(seconds, seed, lambda passed: done(int(100 * passed)))
        done(total)
    print("Of what is promised, the largest errors take up, by engine:")
    print(f"{'type':9} {'call':7} {'values':>9}  {'  '.join(f'{name:>8}' for name in engines())}  ")
    for name in dict.fromkeys(name for name, _, _ in found):
        for call in CALLS:
            row = [found[name, call, engine] for engine in engines()]
            errors = [finding.worst.share for finding in row]
            shares = "  ".join(f"{share:8.4f}" if share < 100 else f"{share:8.1e}" for share in errors)
            verdict = "held" if all(finding.held for finding in row) else "BROKEN"
            print(f"{name:9} {call:7} {row[0].values:9}  {shares}  {verdict}")
    broken = {key: finding.worst for key, finding in found.items() if not finding.held}
    for (name, call, engine), worst in broken.items():
        backend, level = engines()[engine]
        print(
            f"BROKEN: engine {backend}{f', level {level}' if level else ''}, {call}, {name}: "
            f"{worst.encoding!r}, position {worst.position!r}, column {worst.column}: {worst.value!r} = {worst.value.hex()}, "
            f"exactly {worst.exact:.25g}, {worst.share:.9g} times what is promised; "
            f"posenc-fast verify --seed {seed} --seconds {seconds:g} draws it again"
        )
    return 0 if report() and not broken else 1


def _bench(arguments: argparse.Namespace) -> None:
    from .speed import compare, sides

    print(f"{_engine()}; NumPy {np.__version__}; nanoseconds a value, medians")
    print(f"{'':54} {'posenc_fast':>11} {'NumPy':>8}  times as long (middle half)")
    for side in sides():
        one = compare(side)
        spread = f"{one.ratio.median:.3g} ({one.ratio.low:.3g} to {one.ratio.high:.3g})"
        print(f"{one.name:54} {one.ours:11.3g} {one.numpy:8.3g}  {spread}", flush=True)


def _wrote(path: str, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> None:
    print(f"wrote {path}: shape {shape}, {dtype.name}, {size} bytes")


def _engine() -> str:
    return ", ".join(filter(None, (_backend.backend(), _backend.isa())))


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


# ---- progress ---------------------------------------------------------------------------------------------------


def _meter(shown: bool | None) -> Meter:
    """Progress bars of tqdm, or lines where it is not installed; if not told, nothing unless on a terminal."""
    if not (sys.stderr.isatty() if shown is None else shown):
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
    """One line on a terminal, else a line for each per cent (each million, where the total is unknown)."""
    begin, end = ("\r", "") if sys.stderr.isatty() else ("", "\n")
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
