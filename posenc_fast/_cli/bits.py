"""The promise of the same bits everywhere, held against hashes: calls, and the SHA-256 of what each makes of each type.

The arguments are integers and short binary fractions of a generator of its own, since functions and random numbers of
NumPy may differ between machines and versions. `bits.json` has what is expected, for a part of the results and for many.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._encoding.builders import join, sinusoidal
from .._encoding.grid import grid
from .._encoding.value import Encoding
from .._engine import backend as _backend
from .._numbers.formats import float_type, types_here
from .._rotary.value import Rotary
from .verify import engines

__all__ = ["LONG", "SHORT", "calls", "expected", "hashes", "report"]

Array = npt.NDArray[Any]

FILE = Path(__file__).with_name("bits.json")
# values of one call and type at a time, and how many times: 2^20 and 2^27 values of a type at least
VALUES = 1 << 16
SHORT, LONG = 1, 128


def _integers(count: int, seed: int, bits: int) -> npt.NDArray[np.int64]:
    """Integers of so many bits, with sign: the sequence of splitmix64."""
    z = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)
    z *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return z.view(np.int64) >> (63 - bits)


def _values(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Numbers of every type."""
    # a float64 has more digits than the others to lose
    fine = _integers(int(np.prod(shape)), seed, 40 if dtype.itemsize == 8 else 10).reshape(shape)
    return (fine / 2.0 ** (36 if dtype.itemsize == 8 else 6)).astype(dtype)


def calls() -> dict[str, Callable[[np.dtype[Any], int], Array]]:
    """Calls that reach every way to the rows, by name: some 65536 values of a type, different for each number."""
    wide, usual, narrow = sinusoidal(512), sinusoidal(64), sinusoidal(6)
    gaps = sinusoidal(33, layout="concatenated", freq_shift=1.0, odd="zero")
    phases = Encoding([1.0, 0.3125, 5.0, 0.0], [0.1, 0.2, 0.25, 0.125], [1.0, 2.0, -0.75, 3.0])
    two, half, neighbours = join([narrow, usual]), Rotary(64), Rotary(64, layout="interleaved")

    def rows(encoding: Encoding) -> int:
        return VALUES // encoding.d_model

    def reals(encoding: Encoding, k: int, bits: int = 30, places: int = 10) -> npt.NDArray[np.float64]:
        return _integers(rows(encoding), k, bits) / 2.0**places

    def nowhere(k: int) -> npt.NDArray[np.float64]:
        positions = reals(gaps, k)
        positions[::5], positions[1::7] = np.nan, np.inf
        return positions

    def add(encoding: Encoding, t: np.dtype[Any], k: int, **how: Any) -> Array:
        x = _values((2, rows(encoding) // 2, encoding.d_model), t, k)
        return encoding.add_to(x, out=x, **how)

    return {
        "table": lambda t, k: wide.table(128, start=100003 * k - 61, dtype=t),
        "table, narrow": lambda t, k: narrow.table(rows(narrow), start=k * 2**33 - 5000, dtype=t),
        "table, far": lambda t, k: usual.table(1024, start=2**62 + 99991 * k, dtype=t),
        "table, any step": lambda t, k: usual.table(1024, start=1000 * k + 0.25, step=0.375, dtype=t),
        "reals": lambda t, k: wide.encode(reals(wide, k), dtype=t),
        "reals, narrow": lambda t, k: narrow.encode(reals(narrow, k), dtype=t),
        "reals, far": lambda t, k: usual.encode(reals(usual, k, 52, 3), dtype=t),
        "integers": lambda t, k: usual.encode(_integers(1024, k, 63), dtype=t),
        "times": lambda t, k: usual.encode(_integers(1024, k, 60).view("M8[ns]"), dtype=t),
        "no positions": lambda t, k: gaps.encode(nowhere(k), dtype=t),
        "phases": lambda t, k: phases.encode(reals(phases, k), dtype=t),
        "axes": lambda t, k: two.encode(_integers(1872, k, 20).reshape(-1, 2) / 64, dtype=t),
        "grid": lambda t, k: grid([30, np.arange(31) / 8 + k], two, dtype=t),
        "float32 arithmetic": lambda t, k: usual.encode(reals(usual, k), dtype=t, precision="float32"),
        "sum": lambda t, k: add(wide, t, k, start=77 * k),
        "sum, scaled": lambda t, k: add(usual, t, k, x_scale=1.7, start=0.5),
        "sum, positions": lambda t, k: add(usual, t, k, x_scale=8.0, positions=reals(usual, k)[:512]),
        "shift": lambda t, k: usual.shift(_values((1024, 64), t, k), k + 3.5),
        "angles": lambda t, k: np.stack(half.tables(1024, start=5000 * k, dtype=t)),
        "rotation": lambda t, k: half.apply(_values((4, 256, 64), t, k), start=1000 * k),
        "rotation, neighbours": lambda t, k: neighbours.apply(
            _values((1024, 64), t, k), positions=_integers(1024, k, 20) / 32.0
        ),
    }


def hashes(times: int) -> Iterator[tuple[str, str]]:
    """Name and SHA-256 of each call's results of each type, from the engine in use; times: SHORT or LONG."""
    for name in types_here():
        dtype = float_type(name)
        for call, make in calls().items():
            digest = hashlib.sha256()
            for k in range(times):
                values = np.ascontiguousarray(make(dtype, k))
                size = values.itemsize
                digest.update(values.view(f"u{size}").astype(f"<u{size}", copy=False).tobytes())
            yield f"{call}, {name}", digest.hexdigest()


def expected(times: int) -> dict[str, str]:
    """The hashes that all machines have."""
    found: dict[str, str] = json.loads(FILE.read_text("utf-8"))[str(times)]
    return found


def report() -> bool:
    """Print whether every engine of this machine has the bits that all machines have."""
    right, same = expected(SHORT), True
    for engine, (backend, isa) in engines().items():
        with _backend.use_backend(backend, isa):
            found = dict(hashes(SHORT))
        other = [name for name, digest in found.items() if right[name] != digest]
        same = same and not other
        print(f"{engine:9} {len(found) - len(other)} of {len(found)} hashes are those of all machines")
        for name in other:
            print(f"BROKEN: engine {engine}, {name}: other bits than on other machines")
    return same
