"""The command table."""

from __future__ import annotations

import argparse
import functools
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import reference
from .._encoding.builders import sinusoidal
from .._encoding.value import Encoding
from .._numbers.arguments import count_of, progression
from .._numbers.formats import float_type
from .arguments import add_command, add_encoding, add_rows, encoding_of, number
from .formats import BFLOAT16_HELP, BLOCK, OUTPUT_HELP, add_output, check_output, write_rows
from .machine import engine
from .output import report

__all__ = ["add"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

ABOUT = """\
Write the rows of positions START + i * STEP, and compare them with the
tutorial's NumPy formula.
"""
EXAMPLES = """
examples:
  posenc-fast table 2048 512 -o pe.npy
  posenc-fast table 1500 384 --preset whisper -o whisper.npz
  posenc-fast table 512 64 --preset mlx --set cos_first=true --set scale=2 \\
    --dtype float16 -o mlx.parquet
  posenc-fast table 5 4 -o - --format csv
"""


def add(commands: Any) -> None:
    """Put the command on the parser."""
    parser = add_command(
        commands,
        _table,
        "table",
        "write the encoding of consecutive positions",
        ABOUT,
        OUTPUT_HELP + BFLOAT16_HELP + EXAMPLES,
    )
    parser.add_argument("length", type=int, metavar="LENGTH", help="number of positions")
    parser.add_argument(
        "d_model", type=int, nargs="?", metavar="D_MODEL", help="number of columns; a preset may have its own"
    )
    add_output(parser)
    parser.add_argument("--start", type=number, default=0, help="first position (default 0)")
    parser.add_argument("--step", type=number, default=1, help="distance of positions (default 1)")
    parser.add_argument(
        "--no-compare", action="store_true", help="leave the comparison with the tutorial's formula out"
    )
    add_rows(parser)
    add_encoding(parser)


def _table(arguments: argparse.Namespace) -> None:
    encoding = encoding_of(arguments, "D_MODEL")
    dtype = float_type(arguments.dtype)
    length = count_of(arguments.length, "length", 0)
    check_output(arguments, dtype)
    trial = _Trial(encoding, dtype, arguments)
    with write_rows(arguments, (length, encoding.d_model), dtype) as write:
        for i in range(0, length, trial.count):
            write(trial.block(i))
    say = functools.partial(report, arguments.output)
    say(f"kernel ({engine()}): {_time(trial.kernel)}; its first call, with its constants: {_time(trial.first_call)}")
    if trial.compare:
        ratio = f", {trial.tutorial / trial.kernel:.3g} times as long" if trial.kernel else ""
        say(f"tutorial's formula (NumPy float64): {_time(trial.tutorial)}{ratio}")
        say(f"largest difference: {trial.largest:.3g}")


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


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
