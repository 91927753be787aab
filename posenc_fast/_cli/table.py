"""The command table."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from .._core.engine.blocks import BLOCK
from .._core.numbers.arguments import count_of, progression
from .._core.numbers.arrays import Array
from .._core.numbers.formats import float_type
from .arguments import add_command, add_computation, add_encoding, encoding_of, number
from .formats import BFLOAT16_HELP, OUTPUT_HELP, add_output, check_output, write_rows

ABOUT = """\
Write one row for each of the LENGTH positions START, START + STEP, ..
"""
EXAMPLES = """
examples:
  posenc-fast table 2048 512 -o pe.npy
  posenc-fast table 1500 384 --preset whisper -o whisper.npz
  posenc-fast table 512 64 --preset mlx --set cos_first=true --set scale=2 \\
    --dtype float16 -o mlx.parquet
  posenc-fast table 5 4
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        _table,
        "table",
        "write the encoding of consecutive positions",
        ABOUT,
        OUTPUT_HELP + BFLOAT16_HELP + EXAMPLES,
        "LENGTH [D_MODEL] [-o OUT] [OPTION ..]",
    )
    parser.add_argument("length", type=int, metavar="LENGTH", help="number of positions")
    parser.add_argument(
        "d_model",
        type=int,
        nargs="?",
        metavar="D_MODEL",
        help="number of columns; may be left out with a preset that has a fixed number of columns",
    )
    add_output(parser)
    parser.add_argument("--start", type=number, default=0, help="first position (default: 0)")
    parser.add_argument("--step", type=number, default=1, help="distance between positions (default: 1)")
    add_computation(parser)
    add_encoding(parser)


def _table(arguments: argparse.Namespace) -> None:
    encoding = encoding_of(arguments, "D_MODEL")
    dtype = float_type(arguments.dtype)
    length = count_of(arguments.length, "length", 0)
    check_output(arguments, dtype)
    # start and step are integers or exact fractions, so that the first position of a block is not rounded
    start: Any
    step: Any
    start, step = progression(arguments.start, arguments.step, length)
    rows = max(1, min(BLOCK // encoding.d_model, length))
    buffer = np.empty((min(rows, length), encoding.d_model), dtype)

    def fill(block: Array, first: int) -> None:
        """Write rows of the table to a block, beginning with row ``first``."""
        encoding.table(
            len(block),
            start=start + first * step,
            step=step,
            dtype=dtype,
            precision=arguments.precision,
            out=block,
            workers=arguments.workers,
        )

    # compute no rows, so that wrong settings are reported before anything is written
    fill(buffer[:0], 0)
    with write_rows(arguments, length, encoding.d_model, dtype) as write:
        for first in range(0, length, rows):
            block = buffer[: length - first]
            fill(block, first)
            write(block, ())
