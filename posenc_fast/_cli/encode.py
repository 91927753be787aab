"""The command encode."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._core.engine.blocks import BLOCK
from .._core.numbers.arguments import check_precision, check_workers
from .._core.numbers.arrays import Array
from .._core.numbers.formats import float_type
from .._core.positions.conversion import convert
from .arguments import add_command, add_computation, add_encoding, add_progress, cycles_of, encoding_of
from .csv import Clock, Source
from .formats import BFLOAT16_HELP, OUTPUT_HELP, add_output, check_output, length_first, write_rows
from .output import is_terminal, scratch
from .positions import open_positions
from .progress import progress

# A block has at most MOST_ROWS rows and MOST_CELLS cells that --keep copies. The limits bound the memory for positions
# and cells, which need more memory than the rows of narrow encodings.
MOST_ROWS, MOST_CELLS = 1 << 18, 1 << 18

ABOUT = """\
Write one row for each position in INPUT. INPUT is a one-dimensional .npy file,
a .parquet file, a CSV file (.gz or not), or - (the default) for CSV on standard
input. INPUT and OUT may be larger than memory.

A cell is a number, or an ISO date or time. A time without an offset is in UTC,
unless --periods reads it as local time (see below). Integers are exact over all
of int64 and uint64, times to the nanosecond. The row of a missing position (an
empty cell or "nan") is NaN. Empty lines are skipped, so a missing position in a
file of one column must be "nan". The first line is a header if --column is a
name, or if its cell in the column of positions does not begin like a number or
a date.

Columns of timestamps need --periods or --frequencies. --periods computes a sine
and a cosine of each cycle. A cycle is day, week (from Monday), month, quarter
or year in local time, or a length in UTC such as 12h. For a column of numbers,
pass lengths in the units of the column, such as 24. Local time is the time in
--timezone (default: the time zone or offset of each timestamp; a timestamp
without either is local time). With --periods, CSV and Parquet have the columns
day_sin, day_cos, .. With --frequencies, the position of a timestamp is the
number of seconds since 1970-01-01T00:00Z.
"""
EXAMPLES = """
examples:
  posenc-fast encode visits.csv --column time --periods day,week -o visits.npy
  posenc-fast encode visits.csv.gz --column 2 --delimiter ';' --d-model 64 \\
    -o visits.parquet
  posenc-fast encode steps.npy --preset diffusers_timesteps --d-model 320 \\
    --set flip_sin_to_cos=true -o steps.npz
  posenc-fast encode visits.csv --column age --d-model 8 --keep -o joined.csv
  posenc-fast encode visits.csv --column time --periods day,week,month,12h \\
    --timezone Europe/Berlin -o visits.parquet
  seq 0 0.5 10 | posenc-fast encode --d-model 4
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        _encode,
        "encode",
        "write the encoding of positions or timestamps from a file",
        ABOUT,
        OUTPUT_HELP + BFLOAT16_HELP + EXAMPLES,
        "[INPUT] --d-model D|--periods P [-o OUT] [OPTION ..]",
    )
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="?",
        help=".npy, .parquet or CSV file (also .csv.gz), or - for CSV on standard input (default, unless standard "
        "input is a terminal)",
    )
    parser.add_argument(
        "--d-model",
        type=int,
        metavar="D",
        help="number of columns; leave it out with --periods, or with a preset that has a fixed number of columns",
    )
    parser.add_argument(
        "--column",
        type=str.strip,
        metavar="NAME_OR_NUMBER",
        help="name or number (from 0) of the column with positions (default: the only column)",
    )
    parser.add_argument(
        "--periods",
        metavar="CYCLES",
        help="cycles to encode: day, week, month, quarter, year, or lengths such as 12h, separated by commas; replaces "
        "--d-model and --preset",
    )
    parser.add_argument(
        "--timezone", metavar="ZONE", help="time zone of day, week, .. year in --periods, such as Europe/Berlin"
    )
    parser.add_argument(
        "--delimiter", metavar="CHAR", help="character between cells, such as ';', '|' or tab (default: ',')"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="also write all columns of INPUT, before the encoded columns (only if OUT is CSV or Parquet)",
    )
    add_output(parser)
    add_computation(parser)
    add_progress(parser)
    add_encoding(parser)


class _Encoder:
    """Encode positions as the options describe. cycles: the cycles of --periods, or None. width: number of columns."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.cycles = cycles_of(arguments, "--d-model")
        self.encoding = encoding_of(arguments, "--d-model") if self.cycles is None else self.cycles.encoding
        self.width = self.encoding.d_model if self.cycles is None else len(self.cycles.columns)
        self.dtype = float_type(arguments.dtype)
        self.precision, self.workers = arguments.precision, arguments.workers
        # without --periods, only --frequencies gives timestamps a unit: its numbers are then radians per second
        self.accepts_times = hasattr(arguments, "frequencies")

    def check(self, positions: Any) -> None:
        """Raise an error for timestamps if the options are for numbers.

        These options are a length of --periods without a unit, or an encoding without --frequencies.
        """
        letter = convert(positions[:1], 1).letter
        if self.cycles is not None:
            self.cycles.check_lengths(letter, "positions")
        elif letter == "M" and not self.accepts_times:
            raise ValueError(
                "positions are timestamps; pass --periods, such as --periods day,week, without --d-model and --preset, "
                "or pass --frequencies, in radians per second"
            )

    def rows(self, positions: Any, out: Array | None = None) -> Array:
        """Return the encoding of positions."""
        if self.cycles is None or not self.cycles.calendar:
            return self.encoding.encode(
                positions, dtype=self.dtype, precision=self.precision, out=out, workers=self.workers
            )
        single, threads = check_precision(self.precision), check_workers(self.workers)
        return self.cycles.encode(positions, self.dtype, out, name="positions", single=single, threads=threads)

    def clock(self) -> Clock:
        """Return how to read dates with a UTC offset. Cycles of the calendar are in local time, lengths are in UTC."""
        if self.cycles is None or not self.cycles.calendar or self.cycles.timezone:
            return "UTC"
        return "either" if self.cycles.lengths else "wall"


def _encoded_blocks(source: Source, encoder: _Encoder, rows: int, buffer: Array) -> Iterator[tuple[Array, Any]]:
    """Yield (encoded rows, cells that --keep copies), at most ``rows`` rows at a time.

    The encoded rows are a view of the buffer, which the next block overwrites.
    """
    for parts, cells in source.blocks(rows):
        block = buffer[: sum(len(positions) for _, positions in parts)]
        try:
            for indices, positions in parts:
                encoder.check(positions)
                if isinstance(indices, slice):
                    # a slice selects all rows of the block, so they need no copy
                    encoder.rows(positions, out=block)
                else:
                    block[indices] = encoder.rows(positions)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{source.label()}: {error}") from None
        yield block, cells


def _encode(arguments: argparse.Namespace) -> None:
    encoder = _Encoder(arguments)
    # encode no positions, so that wrong settings are reported before a long input is read
    encoder.rows(np.zeros(0, "M8[s]"))
    if arguments.input is None and (sys.stdin is None or is_terminal(sys.stdin)):
        raise ValueError("give INPUT, a file of positions (- is standard input)")
    check_output(arguments, encoder.dtype, arguments.keep)
    path, column, delimiter, keep = arguments.input or "-", arguments.column, arguments.delimiter, arguments.keep
    with contextlib.ExitStack() as stack:
        spool = stack.enter_context(scratch(arguments.output)) if length_first(arguments) else None
        source = stack.enter_context(open_positions(path, column, delimiter, keep, spool, encoder.clock()))
        rows = max(1, min(BLOCK // encoder.width, MOST_ROWS, MOST_CELLS // max(1, len(source.kept))))
        buffer_rows = rows if source.length is None else min(rows, source.length)
        buffer = np.empty((buffer_rows, encoder.width), encoder.dtype)
        blocks = _encoded_blocks(source, encoder, rows, buffer)
        # encode the first block now, so that a column that cannot be encoded is reported before anything is written
        first_block = list(itertools.islice(blocks, 1))
        names = None if encoder.cycles is None else encoder.cycles.columns
        notes: list[str] = []
        with (
            write_rows(arguments, source.length, encoder.width, encoder.dtype, notes, source.kept, names) as write,
            progress(arguments.progress, "encoding", source.length, " rows") as done,
        ):
            written = 0
            for block, cells in itertools.chain(first_block, blocks):
                write(block, cells)
                written += len(block)
                done(written)
            notes.append(f"positions: {source.label()}")
