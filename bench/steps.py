"""Print the worst error of each step of the arithmetic. ``src/_loops.pyx`` states these errors.

``python bench/steps.py`` needs mpmath. For each step, it draws random arguments, and compares the results with those of
mpmath. It calls the Python engine, which computes the same bits as the kernel.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import mpmath
import numpy as np
import numpy.typing as npt

import posenc_fast as pf
from posenc_fast._core.engine import backend, python

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import exact

Floats = npt.NDArray[np.float64]
# largest argument of `sincos`, in turns; see src/coefficients.py
FOLDED = 0.1255
# precision of mpmath in bits: whole turns take 64 bits, and fractions 150
BITS = 220


def worst(errors: Iterable[mpmath.mpf]) -> str:
    """Return the largest error, as a power of two."""
    return f"2^{float(mpmath.log(max(errors), 2)):.1f}"


def turns_of(rng: np.random.Generator, count: int) -> Floats:
    """Return random frequencies in turns, each the sum of two doubles, of shape (2, 1, count)."""
    high = 2.0 ** rng.uniform(-40, 0, count)
    return np.stack([high, high * rng.uniform(-(2.0**-54), 2.0**-54, count)])[:, np.newaxis]


def reduction(rng: np.random.Generator, samples: int) -> Iterator[mpmath.mpf]:
    """Yield errors of reduced angles, relative to the angle before the reduction, for angles up to 2^49 turns."""
    positions, turns = 2.0 ** rng.uniform(0, 49, (samples, 1)), turns_of(rng, 1)
    high, low = python.angles(positions, turns)
    for position, *angle in zip(positions[:, 0], high[:, 0], low[:, 0], strict=True):
        whole = mpmath.mpf(position) * mpmath.fsum(map(mpmath.mpf, turns[:, 0, 0]))
        error = mpmath.fsum(map(mpmath.mpf, angle)) - whole
        yield abs(error - mpmath.nint(error)) / whole


def sincos(rng: np.random.Generator, samples: int, fused: bool) -> Iterator[mpmath.mpf]:
    x = rng.uniform(-FOLDED, FOLDED, samples)
    sine, cosine = python.sincos(x, np.zeros(samples, np.uint64), fused)
    for angle, *values in zip(x, sine, cosine, strict=True):
        for value, true in zip(values, exact.sincos(angle, 2 * mpmath.pi), strict=True):
            yield abs(value - true)


def sincos_dd(rng: np.random.Generator, samples: int) -> Iterator[mpmath.mpf]:
    """Yield errors of sines and cosines in double-double arithmetic, relative to the value."""
    x = rng.uniform(-0.5, 0.5, samples)
    x_low = x * rng.uniform(-(2.0**-54), 2.0**-54, samples)
    for i, parts in enumerate(python.sincos_dd(x, x_low)):
        for *angle, high, low in zip(x, x_low, *parts, strict=True):
            true = (mpmath.sin, mpmath.cos)[i](2 * mpmath.pi * mpmath.fsum(map(mpmath.mpf, angle)))
            yield abs(mpmath.mpf(high) + mpmath.mpf(low) - true) / abs(true)


def rotation(rng: np.random.Generator, samples: int, wide: bool) -> Iterator[mpmath.mpf]:
    """Yield errors of rows of 64 columns that two rotations compute, as in a table.

    The first rotation leads from the start of a span to an anchor row, the second from the anchor to the row. The
    class `Lattice` of the Python engine explains spans and anchors. wide: whether the rotations use double-double
    arithmetic.
    """
    encoding = pf.sinusoidal(64)
    with pf.use_backend("python"):
        lattice, span_bits = encoding._plans.lattice(backend.current(), wide)
    positions = rng.integers(0, 2**31, samples // 64)
    high, low = lattice._rotated(positions >> span_bits, positions & ((1 << span_bits) - 1))
    frequencies = exact.schedule(64)
    for position, *parts in zip(positions, high, low if wide else np.zeros_like(high), strict=True):
        true = [value for frequency in frequencies for value in exact.sincos(int(position), frequency)]
        for *value, expected in zip(*parts, true, strict=True):
            yield abs(mpmath.fsum(map(mpmath.mpf, value)) - expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1 << 16)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, samples = np.random.default_rng(arguments.seed), arguments.samples
    with mpmath.workprec(BITS):
        for name, errors in {
            "argument reduction": reduction(rng, samples),
            "sincos, with FMA": sincos(rng, samples, True),
            "sincos, without": sincos(rng, samples, False),
            "sincos_dd, of the value": sincos_dd(rng, samples),
            "rotated, doubles": rotation(rng, samples, False),
            "rotated, double-double": rotation(rng, samples, True),
        }.items():
            print(f"{name:24}{worst(errors)}", flush=True)


if __name__ == "__main__":
    main()
