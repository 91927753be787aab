"""The commands info, verify and bench, which report on this machine."""

from __future__ import annotations

import argparse
import platform
import secrets
import sys
from typing import Any

import numpy as np

from .. import __version__
from .._core.engine import backend as _backend
from .._core.numbers.arguments import count_of, real
from .._core.numbers.formats import types_here
from .arguments import add_command, add_progress
from .output import styled
from .progress import progress


def add(commands: Any) -> None:
    """Add the commands to the parser."""
    about = "Print the active backend, the instruction levels of this processor, and the\nversions of posenc_fast, NumPy and Python."
    add_command(commands, _info, "info", "print the backend and the versions", about)
    verify = add_command(
        commands,
        _verify,
        "verify",
        "check accuracy on this machine",
        "Compare values of every backend and instruction level with exact values, and\ncompare the bits of results "
        "with those of other machines. Exit status 1 if an\nerror exceeds the promised bound, or bits differ.",
    )
    verify.add_argument(
        "--seconds", type=float, default=20.0, help="seconds to spend on random positions (default: 20)"
    )
    verify.add_argument("--seed", type=int, help="seed of the random positions (default: a new seed, which is printed)")
    add_progress(verify)
    add_command(
        commands,
        _bench,
        "bench",
        "compare the speed with NumPy's",
        "Time posenc_fast and NumPy programs with the same results, alternately, on one\nthread. Takes half a minute.",
    )


def _info(arguments: argparse.Namespace) -> None:
    print(f"backend      {_backend.backend()}")
    print(f"isa          {_backend.isa() or 'none'}")
    print(f"isa levels   {', '.join(_backend.isa_levels()) or 'none'}")
    print(f"posenc_fast  {__version__}")
    print(f"numpy        {np.__version__}")
    print(f"python       {platform.python_version()}")


def _verify(arguments: argparse.Namespace) -> int:
    from .._selfcheck.accuracy import CALLS, RANGES, engines, verify
    from .._selfcheck.bits import report_bits

    seconds = real(arguments.seconds, "--seconds", positive=True)
    seed = secrets.randbits(32) if arguments.seed is None else count_of(arguments.seed, "--seed", 0)
    print(f"posenc_fast {__version__} on {platform.machine()}, seed {seed}")
    print(f"positions: {', '.join(RANGES)}")
    with progress(arguments.progress, "verifying", 100, " %") as done:
        findings = verify(seconds, seed, lambda passed: done(int(100 * passed / seconds)))
        done(100)
    print("Largest error as a part of the promised bound (1 is the bound), by backend or level:")
    heading = f"{'type':9} {'call':7} {'values':>9}  {'  '.join(f'{name:>8}' for name in engines())}"
    print(styled(heading, "bold", sys.stdout))
    for dtype in types_here():
        for call in CALLS:
            row = [findings[dtype, call, engine] for engine in engines()]
            shares = [finding.worst.share for finding in row]
            cells = "  ".join(f"{share:8.4f}" if share < 100 else f"{share:8.1e}" for share in shares)
            held = all(finding.held for finding in row)
            verdict = styled("held", "green", sys.stdout) if held else styled("BROKEN", "red", sys.stdout)
            print(f"{dtype:9} {call:7} {row[0].values:9}  {cells}  {verdict}")
    broken = {key: finding.worst for key, finding in findings.items() if not finding.held}
    for (dtype, call, engine), worst in broken.items():
        backend, level = engines()[engine]
        print(
            f"BROKEN: backend {backend}{f', level {level}' if level else ''}, {call}, {dtype}: {worst.encoding!r}, "
            f"position {worst.position!r}, column {worst.column}: {worst.value!r} = {worst.value.hex()}; the exact "
            f"value is {worst.exact:.25g}, and the error is {worst.share:.9g} times the promised bound; "
            f"posenc-fast verify --seed {seed} --seconds {seconds:g} draws the same positions again"
        )
    bits_are_equal = report_bits()
    return 0 if bits_are_equal and not broken else 1


def _bench(arguments: argparse.Namespace) -> None:
    from .._selfcheck.speed import compare, sides

    print(f"{', '.join(filter(None, (_backend.backend(), _backend.isa())))}; NumPy {np.__version__}")
    print("Nanoseconds per value: medians of runs, on one thread, into new float32 arrays,")
    print("or arrays of the dtype in the name. Ratio: NumPy's time / posenc_fast's time.")
    print("Middle half: range of this ratio, without the lowest and the highest quarter.")
    print("After the slash: what NumPy computes. float64 formula: the paper's. float32")
    print("formula: the program of PyTorch's tutorial, written in NumPy. ready: computed")
    print("before, so not part of NumPy's time.")
    heading = f"{'':38} {'posenc_fast':>11} {'NumPy':>6} {'ratio':>6}  middle half"
    print(styled(heading, "bold", sys.stdout))
    noisy_count = 0
    for side in sides():
        result = compare(side)
        noisy_count += result.noisy
        times = f"{_digits(result.ours):>6} {_digits(result.numpy):>6} {_digits(result.ratio):>6}"
        mark = styled("*", "yellow", sys.stdout) if result.noisy else " "
        print(f"{result.name:43} {times}{mark} {_digits(result.low)} to {_digits(result.high)}", flush=True)
    if noisy_count:
        print(f"* The runs of {noisy_count} of these differ widely: the machine is busy. Run bench again.")


def _digits(number: float) -> str:
    """Return a number as text, with three significant digits, or with all digits before the point if these are more."""
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"
