"""Encodings of any positions."""

from __future__ import annotations

from collections.abc import Callable

import bare
import numpy as np
import timing
import values
from timing import Array

import posenc_fast as pf

from . import Measured, Skipped, compare


def timestamps() -> Array:
    """Return seconds since 1970 with their fractions, in no order."""
    return np.random.default_rng(1706).uniform(0, 2e9, 1_000_000)


def encode_and_bare(rows: int, width: int, runs: int) -> Measured:
    if not bare.found():
        raise Skipped("there is no C compiler for x86-64")
    encoding, positions, out = pf.sinusoidal(width), timestamps()[:rows], timing.warm((rows, width))
    sides = {
        "encode": lambda: encoding.encode(positions, out=out),
        "bare": bare.encode(positions, encoding.frequencies[::2], out),
    }
    times = timing.alternate(sides, runs)
    sides["bare"]()
    expected = out.copy()
    sides["encode"]()
    for part in values.blocks(*out.shape):
        values.check_rows(out[part], encoding, positions[part])
    # turns of 3e8 in one double
    assert np.abs(out - expected).max() < 1e-6
    return compare(times, "encode", "bare", out.size)


def encode_and_memset(runs: int) -> Measured:
    encoding, positions, out = pf.sinusoidal(64), timestamps(), timing.warm((1_000_000, 64))
    sides = {
        "encode": lambda: encoding.encode(positions, out=out),
        "memset": timing.memset(out),
        "memset of ones": timing.memset(out, 255),
    }
    times = timing.alternate(sides, runs)
    sides["encode"]()
    for part in values.blocks(*out.shape):
        values.check_rows(out[part], encoding, positions[part])
    return compare(times, "encode", "memset", out.size)


def encode_and_numpy(runs: int) -> Measured:
    encoding, positions, out = pf.sinusoidal(64), timestamps(), timing.warm((1_000_000, 64))
    frequencies = encoding.frequencies[0::2]

    def formula() -> None:
        angles = positions[:, np.newaxis] * frequencies
        out[:, 0::2] = np.sin(angles)
        out[:, 1::2] = np.cos(angles)

    times = timing.alternate({"formula": formula, "encode": lambda: encoding.encode(positions, out=out)}, runs)
    formula()
    expected = out[:1000].copy()
    encoding.encode(positions, out=out)
    for part in values.blocks(*out.shape):
        values.check_rows(out[part], encoding, positions[part])
    # a float64 angle of 2e9 radians is good to 2e-7
    assert np.abs(out[:1000] - expected).max() < 1e-6
    return compare(times, "formula", "encode", out.size)


def one_timestep(runs: int) -> Measured:
    """Measure a new row as diffusion models want it; NumPy in the faster of two types, with ready frequencies."""
    encoding = pf.sinusoidal(320, layout="concatenated")
    double = encoding.frequencies[:160].copy()
    single = double.astype(np.float32)

    def formula(frequencies: Array) -> Array:
        angles = 981.0 * frequencies
        row = np.empty(320, np.float32)
        np.sin(angles, out=row[:160], casting="same_kind")
        np.cos(angles, out=row[160:], casting="same_kind")
        return row

    sides: dict[str, Callable[[], Array]] = {
        "encode": lambda: encoding.encode(981.0),
        "numpy float64": lambda: formula(double),
        "numpy float32": lambda: formula(single),
    }
    times = timing.alternate(sides, 10 * runs)
    values.check_rows(sides["encode"](), encoding, np.array(981.0))
    assert np.abs(sides["encode"]() - sides["numpy float64"]()).max() < 1e-6
    assert np.abs(sides["encode"]() - sides["numpy float32"]()).max() < values.single_tolerance(981)
    faster = min(("numpy float64", "numpy float32"), key=lambda name: np.median(times[name]))
    return compare(times, "encode", faster, 1)
