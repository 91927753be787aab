"""Measure `Encoding.add_to` and the torch module, which add an encoding to x."""

from __future__ import annotations

import importlib

import numpy as np
import peers
import timing
import values

import posenc_fast as pf

from . import Measured, Skipped, compare


def add(shape: tuple[int, int, int], runs: int) -> Measured:
    """Compare `add_to` with np.add of a table that was computed before. Both add to the same x, in place."""
    encoding = pf.sinusoidal(shape[2])
    table, x = encoding.table(shape[1]), timing.warm(shape)
    sides = {"add_to": lambda: encoding.add_to(x, out=x), "np.add": lambda: np.add(x, table, out=x)}
    times = timing.alternate(sides, runs)
    x.fill(0.375)
    sides["add_to"]()
    for part in values.blocks(*shape[1:]):
        values.check_rows(x[[0, -1], part], encoding, np.arange(part.start, part.stop), 0.375)
    return compare(times, "add_to", "np.add", x.size)


def module(shape: tuple[int, int, int], x_scale: float, inplace: bool, runs: int) -> Measured:
    """Compare the torch module in evaluation mode with a tutorial's sum of x and a table that was computed before."""
    if not peers.found("torch"):
        raise Skipped("torch is not installed")
    torch = peers.one_thread()
    encoding = pf.sinusoidal(shape[2])
    adding = importlib.import_module("posenc_fast.torch").SinusoidalEncoding(
        shape[2], batch_first=True, x_scale=x_scale, inplace=inplace
    )
    adding.eval()
    table, x = torch.from_numpy(encoding.table(5000))[None], torch.from_numpy(timing.warm(shape))
    ways = {
        "in place": lambda: x.add_(table[:, : x.size(1)]),
        "plain": lambda: x + table[:, : x.size(1)],
        "scaled": lambda: x * x_scale + table[:, : x.size(1)],
    }
    line = ways["in place" if inplace else "plain" if x_scale == 1 else "scaled"]
    sides = {"cached table": line, "module": lambda: adding(x)}
    times = timing.alternate(sides, runs)
    x.fill_(0.375)
    result = sides["module"]().numpy()
    for part in values.blocks(*shape[1:]):
        values.check_rows(result[[0, -1], part], encoding, np.arange(part.start, part.stop), 0.375 * x_scale)
    return compare(times, *sides, x.numel())
