"""The command table."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from .. import reference
from .._encoding.builders import sinusoidal
from .._encoding.value import Encoding
from .._numbers.arguments import count_of, progression
from .._numbers.arrays import Array, Floats
from .._numbers.formats import float_type
from .arguments import add_command, add_encoding, add_rows, encoding_of, number
from .formats import BFLOAT16_HELP, BLOCK, OUTPUT_HELP, add_output, check_output, write_rows
from .machine import engine

__all__ = ["add"]


ABOUT = """\
Write the rows of positions START + i * STEP.
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
        "--compare", action="store_true", help="time the tutorial's NumPy formula beside it, and print the difference"
    )
    add_rows(parser)
    add_encoding(parser)


def _table(arguments: argparse.Namespace) -> None:
    encoding = encoding_of(arguments, "D_MODEL")
    dtype = float_type(arguments.dtype)
    length = count_of(arguments.length, "length", 0)
    check_output(arguments, dtype)
    trial = _Trial(encoding, dtype, arguments)
    notes: list[str] = []
    with write_rows(arguments, (length, encoding.d_model), dtype, notes) as write:
        for i in range(0, length, trial.count):
            write(trial.block(i), ())
        if trial.compare:
            notes += trial.notes()


class _Trial:
    """Blocks of a table; to compare, the same rows by the tutorial's formula, and the seconds that each took."""

    def __init__(self, encoding: Encoding, dtype: np.dtype[Any], arguments: argparse.Namespace) -> None:
        self.encoding, self.length, self.compare = encoding, arguments.length, arguments.compare
        self.start, self.step = progression(arguments.start, arguments.step, arguments.length)
        self.settings: dict[str, Any] = {"precision": arguments.precision, "workers": arguments.workers}
        self.count = max(1, min(BLOCK // encoding.d_model, self.length))
        # to memory and then to the file, so that the disk is in neither of the times
        self.buffer = np.empty((min(self.count, self.length), encoding.d_model), dtype)
        plain = self.start == 0 and self.step == 1 and encoding == sinusoidal(encoding.d_model)
        self.whole = plain and len(self.buffer) == self.length
        self.kernel = self.tutorial = self.largest = self.first_call = 0.0
        # what is wrong with the settings is said before anything is written
        self._run(self.buffer[:0], 0)
        if self.compare:
            # both once before: for memory that is touched first, and for what is kept for further calls
            self.first_call = self._run(self.buffer, 0)
            if self.length:
                self._run_tutorial(self.buffer, 0)

    def notes(self) -> list[str]:
        """What the comparison showed."""
        # shorter times say more of the clock than of the two
        ratio = f", {self.tutorial / self.kernel:.3g} times as long" if min(self.tutorial, self.kernel) > 1e-4 else ""
        return [
            f"kernel ({engine()}): {_time(self.kernel)}; its first call, with its constants: {_time(self.first_call)}",
            f"tutorial's formula (NumPy float64): {_time(self.tutorial)}{ratio}",
            f"largest difference between the two: {self.largest:.3g}",
        ]

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
        from .._selfcheck.speed import formula

        begin = time.perf_counter()
        if self.whole:
            expected = reference.vaswani_numpy(*block.shape)
        else:
            positions = float(self.start + i * self.step) + float(self.step) * np.arange(len(block), dtype=np.float64)
            expected = formula(self.encoding, positions)
        return expected, time.perf_counter() - begin


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
