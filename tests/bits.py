"""Hashes of what each level computes: ``python tests/bits.py`` prints them, ``python tests/bits.py FILE`` compares.

No compiler, flag or architecture may change them, so that a run on one machine is a test of another. The arguments are
integers and short binary fractions, since NumPy's own functions differ between machines.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator

import numpy as np

import posenc_fast as pf

DTYPES = ("f8", "f4", "f2")


def calls(widths: tuple[int, ...] = (2, 5, 70, 512)) -> Iterator[tuple[str, object]]:
    """Names and results of calls that reach every loop: each way to the rows, width, layout and type of output."""
    rng = np.random.default_rng(7)
    anywhere = rng.integers(-(10**9), 10**9, 211) / 1024
    far = rng.integers(-(2**62), 2**62, 61).astype(np.float64)
    mixed = pf.Encoding([1.0, 0.5, 0.375, 1.0, 3.0], [0, 0.25, 0.125, 0.25, 0.5], [1, 2, -0.5, 1, 3])
    for d in widths:
        encoding = mixed if d == 5 else pf.sinusoidal(d)
        x = (rng.integers(-999, 999, (3, 130, d)) / 256).astype(np.float64)
        for t in DTYPES:
            yield f"table {d} {t}", encoding.table(300, start=-9, dtype=t)
            yield f"far table {d} {t}", encoding.table(130, start=2**40 + 5, dtype=t)
            yield f"steps {d} {t}", encoding.table(130, start=0.25, step=0.375, dtype=t)
            yield f"positions {d} {t}", encoding.encode(anywhere, dtype=t)
            yield f"far positions {d} {t}", encoding.encode(far, dtype=t)
            yield f"integers {d} {t}", encoding.encode(np.arange(99)[::-1] * 77777, dtype=t)
            yield f"one {d} {t}", encoding.encode(12345.678, dtype=t)
            yield f"add {d} {t}", encoding.add_to(x.astype(t), start=3)
            yield f"scaled {d} {t}", encoding.add_to(x.astype(t), x_scale=8)
        yield f"float32 arithmetic {d}", encoding.encode(anywhere[:50], precision="float32")
    for layout in ("half", "interleaved"):
        rotary = pf.Rotary(64, layout=layout)
        q = (rng.integers(-999, 999, (2, 3, 77, 64)) / 128).astype(np.float64)
        for t in DTYPES:
            yield f"rotate {layout} {t}", rotary.apply(q.astype(t))


def lines() -> Iterator[str]:
    for level in pf.isa_levels():
        with pf.use_backend("cython", level):
            for name, values in calls():
                array = np.asarray(values)
                data = array.astype(array.dtype.newbyteorder("<")).tobytes()
                # 64-bit ARM has fused products, as avx2
                yield f"{'avx2' if level == 'neon' else level} {name}: {hashlib.sha256(data).hexdigest()[:16]}"


def main() -> int:
    made = list(lines())
    if not sys.argv[1:]:
        print(*made, sep="\n")
        return 0
    with open(sys.argv[1], encoding="utf-8") as file:
        expected = set(file.read().splitlines())
    other = [line for line in made if line not in expected]
    print(f"{', '.join(pf.isa_levels()) or 'no level'}: {len(made) - len(other)} of {len(made)} hashes are the same")
    print(*other, sep="\n", end="")
    return 1 if other or not made else 0


if __name__ == "__main__":
    sys.exit(main())
