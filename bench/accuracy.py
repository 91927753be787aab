"""Print the distance of results from the exact value, for posenc_fast and other programs, as two tables.

``python bench/accuracy.py`` needs mpmath. It measures posenc_fast, and the installed programs of peers.py that compute
the rows of given positions. The first table counts values by their distance in ulps from the exact value, which mpmath
computes with at least 300 bits. The second table contains the largest error of each library at four magnitudes of
positions. ``--libraries`` prints only the second table. ``--brief`` leaves out most levels and calls of posenc_fast in
the first table. ``--write`` implies ``--brief``, saves the printed tables in bench/results, and writes them into the
pages that show them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import mpmath
import numpy as np
import peers
import tables

import posenc_fast as pf
from posenc_fast._core.numbers.formats import types_here

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import exact

WIDTH = 64
RANGES = {
    "0..4095": lambda rng, n: rng.integers(0, 4096, n),
    "1e6": lambda rng, n: rng.integers(10**6, 2 * 10**6, n),
    "unix seconds": lambda rng, n: rng.integers(1_600_000_000, 1_900_000_000, n),
    "unix ms": lambda rng, n: rng.integers(1_600_000_000_000, 1_900_000_000_000, n),
    "int64": lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n),
}
# keys: columns in the table of libraries. Values: first of the positions that a column measures.
STARTS = {"1e3": 10**3, "1e5": 10**5, "1e6": 10**6, "unix seconds": 1_700_000_000}
# peers in the table of counts
COUNTED = (
    "NumPy float64 formula",
    "NumPy float64, stored as float32",
    "NumPy float32 angles",
    "torch",
    "transformers",
    "diffusers",
    "positional-encodings",
)


def ours(backend, isa, call, dtype):
    """Return a function of positions that computes their rows in one dtype.

    backend, isa: engine and instruction-set level. call: "table", "encode" or "add_to".
    """
    encoding = pf.sinusoidal(WIDTH)

    def rows(positions):
        with pf.use_backend(backend, isa):
            if call == "encode":
                return encoding.encode(positions, dtype=dtype)
            if call == "table":
                return np.concatenate([encoding.table(1, start=int(p), dtype=dtype) for p in positions])
            x = np.zeros((len(positions), WIDTH), encoding.table(0, dtype=dtype).dtype)
            return encoding.add_to(x, positions=positions)

    return rows


def libraries(rng, samples):
    """Return the name, the arithmetic and the largest errors of each library.

    There is one error for each key of STARTS, or None if the library cannot compute rows at the positions of this key.
    """
    drawn = {name: start + rng.integers(0, start // 1000 + samples, samples) for name, start in STARTS.items()}
    true = {name: exact_rows(positions) for name, positions in drawn.items()}
    programs = [("posenc_fast", "exact values, rounded once to float32", pf.sinusoidal(WIDTH).encode, 2**63)]
    programs += [
        (peer.library, peer.arithmetic, peer.rows(WIDTH), peer.largest) for peer in peers.installed() if peer.library
    ]
    return [
        {
            "library": name,
            "arithmetic": arithmetic,
            "largest errors": {
                start: largest_error(rows(positions), true[start]) if positions.max() <= largest else None
                for start, positions in drawn.items()
            },
        }
        for name, arithmetic, rows, largest in programs
    ]


def largest_error(got, true):
    with mpmath.workprec(exact.PRECISION):
        return max(
            float(abs(mpmath.mpf(float(value)) - exactly))
            for row, values in zip(np.asarray(got), true, strict=True)
            for value, exactly in zip(row, values, strict=True)
        )


def implementations(brief):
    """Yield (name, dtype, call, rows, largest position) of each implementation in the table of counts.

    rows: function from positions to rows. brief: whether to leave out most levels and calls of posenc_fast.
    """
    best = (pf.isa_levels() or (None,))[-1]
    backends = [(f"posenc_fast {isa}", "cython", isa) for isa in pf.isa_levels()] + [
        ("posenc_fast python", "python", None)
    ]
    for dtype in sorted(types_here(), key=lambda name: name != "float32"):
        for call in ("table", "encode", "add_to"):
            for name, backend, isa in backends:
                if isa != best and (brief or dtype != "float32"):
                    continue
                if not brief or call == ("table" if dtype == "float32" else "encode"):
                    yield name, dtype, call, ours(backend, isa, call, dtype), 2**63
    for peer in peers.installed():
        if peer.name in COUNTED:
            yield peer.name, peer.dtype, "encode" if peer.largest == 2**63 else "table", peer.rows(WIDTH), peer.largest


def exact_rows(positions):
    frequencies = exact.schedule(WIDTH)
    return [[value for f in frequencies for value in exact.sincos(int(p), f)] for p in positions]


def measure(got, true, dtype):
    """Return the number of values in each interval of `tables.DISTANCES`, and the largest absolute error."""
    counts, largest = [0] * len(tables.DISTANCES), 0.0
    with mpmath.workprec(exact.PRECISION):
        for row, values in zip(np.asarray(got), true, strict=True):
            for value, exactly in zip(row, values, strict=True):
                error = abs(mpmath.mpf(float(value)) - exactly)
                distance = float(error / (2 * exact.half_ulp(exactly, dtype))) if exactly else float(error != 0)
                # allowed: limit of the interval "≤ 0.5", which is half an ulp plus the promised excess (slack), in ulps
                slack = mpmath.ldexp(1, -60 if dtype == "float64" else -50)
                allowed = 0.5 + float(slack / (2 * exact.half_ulp(exactly, dtype))) if exactly else 0.5
                limits = (0.0, allowed, 1.0, 2.0, 3.0, np.inf)
                counts[next(i for i, limit in enumerate(limits) if distance <= limit)] += 1
                largest = max(largest, float(error))
    return counts, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40, help="positions for each range")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--brief", action="store_true", help="only the best level and one call per dtype of posenc_fast"
    )
    parser.add_argument("--libraries", action="store_true", help="print only the table of libraries")
    parser.add_argument(
        "--write",
        action="store_true",
        help="save the results of --brief and of libraries, and write both tables into pages",
    )
    arguments = parser.parse_args()
    if absent := peers.skipped():
        print(f"Skipped, because not installed: {', '.join(absent)}.\n")
    if not arguments.libraries:
        results = counts(arguments)
        if arguments.write:
            tables.publish("counts", tables.new_run(results))
    run = tables.new_run(libraries(np.random.default_rng(arguments.seed), arguments.samples))
    print(tables.libraries(run))
    if arguments.write:
        tables.publish("libraries", run)


def counts(arguments):
    """Print the table of counts, line by line, and return its results."""
    rng = np.random.default_rng(arguments.seed)
    drawn = {name: draw(rng, arguments.samples) for name, draw in RANGES.items()}
    true = {name: exact_rows(positions) for name, positions in drawn.items()}
    print(tables.COUNTS_HEADING)
    results = []
    for name, dtype, call, rows, most in implementations(arguments.brief or arguments.write):
        for title, positions in drawn.items():
            if abs(int(positions.max())) > most:
                continue
            numbers, error = measure(rows(positions), true[title], dtype)
            result = {"implementation": name, "type": dtype, "call": call, "positions": title}
            results.append(result | {"counts": numbers, "largest error": error})
            print(tables.count(results[-1]), flush=True)
    print()
    return results


if __name__ == "__main__":
    main()
