"""Check that results have the same bits on all machines, by the SHA-256 of the results of each call and dtype.

The arguments are integers and short binary fractions from a generator in this file, because NumPy's functions and
random numbers may differ between machines and versions. `bits.json` contains the expected hashes under four keys: "1"
for one run of each call, "128" for 128 runs, "loops" for the kernel's loops at many widths, and "frequencies" for the
sets of `frequencies.py`. After you change the arguments or the computed values, write the file again with
``python tests/bits.py --write``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._core.encoding.builders import fourier_features, join, sinusoidal
from .._core.encoding.grid import grid
from .._core.encoding.periods import periodic
from .._core.encoding.value import Encoding
from .._core.engine import backend as _backend
from .._core.numbers.arrays import Array
from .._core.numbers.formats import float_type, types_here
from .._core.rotary.value import Rotary
from ..typing import Function, Layout, RotaryLayout
from .accuracy import engines
from .frequencies import sets

FILE = Path(__file__).with_name("bits.json")
# approximate number of values in the result of one call
VALUES = 1 << 16
# Each call runs SHORT or LONG times. SHORT runs of all calls compute at least 2^20 values of each dtype, and LONG runs
# at least 2^27.
SHORT, LONG = 1, 128


def _integers(count: int, seed: int, bits: int) -> npt.NDArray[np.int64]:
    """Return integers of ``bits`` bits and a sign, from the sequence of splitmix64."""
    z = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)
    z *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return z.view(np.int64) >> (63 - bits)


def _values(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Return numbers of a dtype: fractions of 40 bits for float64, and of 10 bits for the other dtypes."""
    # places: number of bits after the point
    bits, places = (40, 36) if dtype.itemsize == 8 else (10, 6)
    integers = _integers(int(np.prod(shape)), seed, bits).reshape(shape)
    return (integers / 2.0**places).astype(dtype)


def calls() -> dict[str, Callable[[np.dtype[Any], int], Array]]:
    """Return calls by name. They cover the methods that compute rows, sums, cosines and sines, or rotations.

    A call has two arguments: t, a dtype, and k, a number that selects the values. It returns about 65536 values.
    """
    wide, medium, narrow = sinusoidal(512), sinusoidal(64), sinusoidal(6)
    gaps = sinusoidal(33, layout="concatenated", freq_shift=1.0, odd="zero")
    phases = Encoding([1.0, 0.3125, 5.0, 0.0], [0.1, 0.2, 0.25, 0.125], [1.0, 2.0, -0.75, 3.0])
    two_axes = join([narrow, medium])
    half, interleaved = Rotary(64, layout="half"), Rotary(64, layout="interleaved")

    def count(encoding: Encoding) -> int:
        """Return the number of rows of a call."""
        return VALUES // encoding.d_model

    def reals(encoding: Encoding, k: int, bits: int = 30, places: int = 10) -> npt.NDArray[np.float64]:
        """Return positions of ``bits`` bits, ``places`` of them after the point."""
        return _integers(count(encoding), k, bits) / 2.0**places

    def invalid(k: int) -> npt.NDArray[np.float64]:
        positions = reals(gaps, k)
        positions[::5], positions[1::7] = np.nan, np.inf
        return positions

    def add(encoding: Encoding, t: np.dtype[Any], k: int, **options: Any) -> Array:
        x = _values((2, count(encoding) // 2, encoding.d_model), t, k)
        return encoding.add_to(x, out=x, **options)

    return {
        "table": lambda t, k: wide.table(128, start=100003 * k - 61, dtype=t),
        "table, narrow": lambda t, k: narrow.table(count(narrow), start=k * 2**33 - 5000, dtype=t),
        "table, far": lambda t, k: medium.table(1024, start=2**62 + 99991 * k, dtype=t),
        "table, any step": lambda t, k: medium.table(1024, start=1000 * k + 0.25, step=0.375, dtype=t),
        "reals": lambda t, k: wide.encode(reals(wide, k), dtype=t),
        "reals, narrow": lambda t, k: narrow.encode(reals(narrow, k), dtype=t),
        "reals, far": lambda t, k: medium.encode(reals(medium, k, bits=52, places=3), dtype=t),
        "integers": lambda t, k: medium.encode(_integers(1024, k, 63), dtype=t),
        "times": lambda t, k: medium.encode(_integers(1024, k, 60).view("M8[ns]"), dtype=t),
        "no positions": lambda t, k: gaps.encode(invalid(k), dtype=t),
        "phases": lambda t, k: phases.encode(reals(phases, k), dtype=t),
        "axes": lambda t, k: two_axes.encode(_integers(1872, k, 20).reshape(-1, 2) / 64, dtype=t),
        "grid": lambda t, k: grid([30, np.arange(31) / 8 + k], two_axes, dtype=t),
        "float32 arithmetic": lambda t, k: medium.encode(reals(medium, k), dtype=t, precision="float32"),
        "sum": lambda t, k: add(wide, t, k, start=77 * k),
        "sum, scaled": lambda t, k: add(medium, t, k, x_scale=1.7, start=0.5),
        "sum, positions": lambda t, k: add(medium, t, k, x_scale=8.0, positions=reals(medium, k)[:512]),
        "shift": lambda t, k: medium.shift(_values((1024, 64), t, k), k + 3.5),
        "angles": lambda t, k: np.stack(half.tables(1024, start=5000 * k, dtype=t)),
        "rotation": lambda t, k: half.apply(_values((4, 256, 64), t, k), start=1000 * k),
        "rotation, neighbours": lambda t, k: interleaved.apply(
            _values((1024, 64), t, k), positions=_integers(1024, k, 20) / 32.0
        ),
    }


def _digest(results: Iterable[Array]) -> str:
    """Return the SHA-256 of the bits of arrays, in little-endian order."""
    digest = hashlib.sha256()
    for values in results:
        size = values.itemsize
        digest.update(np.ascontiguousarray(values).view(f"u{size}").astype(f"<u{size}", copy=False).data)
    return digest.hexdigest()


def hashes(times: int) -> Iterator[tuple[str, str]]:
    """Yield name and SHA-256 of the results of each call and dtype, from the active engine.

    times is the number of runs of each call, SHORT or LONG.
    """
    for name in types_here():
        dtype = float_type(name)
        for call, make in calls().items():
            yield f"{call}, {name}", _digest(make(dtype, k) for k in range(times))


# ---- the loops of the kernel ----------------------------------------------------------------------------------------

# all widths up to 33, and for each multiple of 8 (the length of a vector) the widths around it and one further width
WIDTHS = sorted({*range(1, 34), *(8 * k + offset for k in range(4, 38) for offset in (-1, 0, 1, 2 + k % 5))})
# (layout, functions) of encodings for which the kernel has separate loops: interleaved, concatenated, negative
# functions, and any other order
_ORDERS: tuple[tuple[Layout, tuple[Function, Function]], ...] = (
    ("interleaved", ("sin", "cos")),
    ("concatenated", ("sin", "cos")),
    ("concatenated", ("-sin", "-cos")),
    ("interleaved", ("cos", "-sin")),
)
# outputs of more bytes bypass the cache, if the kernel can write past the cache and knows its size
_BYTES_PAST_CACHE = 1 << 24
# positions with angles of all sizes, signed zeros, and invalid positions
_POSITIONS = [
    *(0.0, -0.0, 0.5, 1000.125, 2.0**39 + 0.25, -(2.0**43) - 3, 2.0**47 + 1, np.nan, -np.inf),
    # positions that use all bits of float64
    *((-1) ** k * (1 + (2 * k + 1) / 11) * 2.0 ** (9 * k - 40) for k in range(9)),
]
# positions near the limit beyond which exact arithmetic computes the rows
_POSITIONS_NEAR_LIMIT = [(1 if k % 2 else -1) * (2.0**49 + 2.0**47 * k + k) for k in range(1, 70)]


@functools.cache
def _by_width() -> list[list[Encoding]]:
    """Return, for each of WIDTHS, a list of encodings, one for each of _ORDERS."""
    return [
        [sinusoidal(width, layout=layout, functions=functions) for layout, functions in _ORDERS] for width in WIDTHS
    ]


@functools.cache
def _rotaries() -> list[Rotary]:
    layouts: tuple[RotaryLayout, ...] = ("half", "interleaved", "interleaved_to_half")
    return [Rotary(2 * pairs, layout=layout) for pairs in WIDTHS if pairs <= 150 for layout in layouts]


@functools.cache
def _images() -> list[Encoding]:
    return [join([sinusoidal(5), sinusoidal(width, functions=("cos", "-sin"))]) for width in WIDTHS[::4]]


@functools.cache
def _pool(dtype: np.dtype[Any]) -> Array:
    """Return numbers for `_values_of_pool`, which copies them, because computing them again would take longer."""
    return _values((1 << 16,), dtype, 5)


def _values_of_pool(shape: tuple[int, ...], dtype: np.dtype[Any], seed: int) -> Array:
    """Return a copy of values of `_pool`, beginning at an index that depends on the seed."""
    first = 61 * seed % 32768
    return _pool(dtype)[first : first + math.prod(shape)].reshape(shape).copy()


def _of_each_width() -> Iterator[tuple[int, Encoding]]:
    """Yield (width, encoding) for each of WIDTHS. The first two of _ORDERS alternate from width to width.

    One order for each width is enough, because both orders use the same loops at integer positions.
    """
    return ((width, encodings[i % 2]) for i, (width, encodings) in enumerate(zip(WIDTHS, _by_width(), strict=True)))


def _tables(t: np.dtype[Any]) -> Iterator[Array]:
    """Yield tables that cross a multiple of 4096, where a span of the kernel begins, and tables that begin there."""
    for width, encoding in _of_each_width():
        yield encoding.table(200, start=4096 * (1 + width % 3) - 131, dtype=t)
        yield encoding.table(192, start=8192, dtype=t)


def _long_tables(t: np.dtype[Any]) -> Iterator[Array]:
    """Yield tables over several spans (4096 positions) of the kernel, and tables at positions of any size."""
    for width in (6, 33):
        yield sinusoidal(width).table(9000, start=-50, dtype=t)
    encoding = sinusoidal(40)
    # for the last number of bits, the positions need uint64, or begin at the lowest int64 number
    for bits in (*range(12, 63), 63.25):
        middle = int(2**bits)
        yield encoding.table(70, start=middle - 35, dtype=t)
        yield encoding.table(70, start=max(-middle - 35, -(2**63)), dtype=t)


def _reals(t: np.dtype[Any]) -> Iterator[Array]:
    for encodings in _by_width():
        for encoding in encodings:
            yield encoding.encode(_POSITIONS, dtype=t)
    # signed zeros in rows that are rounded again because they contain subnormal numbers
    with_zero_amplitudes = Encoding([1.0] * 20, np.arange(20) % 2 / 4, [1.0, 0.0, 0.0, -0.0] * 5)
    yield with_zero_amplitudes.encode([-(2.0**-130), 2.0**-130, -(2.0**-15), 0.0, -0.0], dtype=t)
    for layout, functions in _ORDERS:
        yield sinusoidal(9, layout=layout, functions=functions).encode(_POSITIONS_NEAR_LIMIT, dtype=t)


def _integers_in_any_order(t: np.dtype[Any]) -> Iterator[Array]:
    for width, encoding in _of_each_width():
        yield encoding.encode(_integers(6, width, 40), dtype=t)
        yield encoding.table(6, start=4090 - width, step=-4097, dtype=t)
    # only about one in 2^17 bfloat16 values differs if it is rounded twice, so many values are necessary
    yield sinusoidal(256).table(4096, start=5, step=100003, dtype=t)


def _sums(t: np.dtype[Any]) -> Iterator[Array]:
    for width, encoding in _of_each_width():
        x = _values_of_pool((2, 7, width), t, width)
        # row 3 cancels the encoding of position 4096 in the first sum; row 4 contains negative zeros
        x[:, 3] = -encoding.encode(4096.0, dtype=t)
        x[:, 4] = -0.0
        yield encoding.add_to(x, start=4093)
        yield encoding.add_to(x[0], start=-3)
        yield encoding.add_to(x, x_scale=8.0, positions=_integers(7, width, 30) / 2.0**8)
        yield encoding.add_to(x[1], x_scale=1.7, out=x[1])
        yield encoding.add_to(x, out=x, start=100 * width)


def _middles(t: np.dtype[Any]) -> Iterator[Array]:
    """Yield values near the middle of two neighbouring numbers of the dtype (for float64: any values)."""
    significant_bits = {8: 53, 4: 24, 2: 11 if t == np.float16 else 8}[t.itemsize]
    for k in range(40):
        frequencies = (1 + np.abs(_integers(100, 2 * k, 30))) / 2.0**30
        position = float(_integers(1, k, 18)[0]) / 2.0**8
        phases = np.arange(200) % 2 / 4
        values = Encoding(np.repeat(frequencies, 2), phases).encode(position, dtype=np.float64)
        # middles: integers of significant_bits bits plus a half, so they lie between two numbers of the dtype
        middles = np.abs(_integers(200, 2 * k + 1, significant_bits - 1)) + 2.0 ** (significant_bits - 1) + 0.5
        # replace invalid amplitudes, so that a broken engine shows as a wrong hash, not as an error
        amplitudes = np.nan_to_num(middles / 2.0**significant_bits / values, nan=1.0, posinf=1.0, neginf=1.0)
        yield Encoding(np.repeat(frequencies, 2), phases, amplitudes).encode([position] * 3, dtype=t)


def _rotations(t: np.dtype[Any]) -> Iterator[Array]:
    single = np.dtype(np.float32)
    for rotary in _rotaries():
        d = rotary.head_dim
        x = _values_of_pool((2, 3, d), t, d)
        # signed zeros
        x[0, 1, ::3], x[1, 1, 1::4] = -0.0, 0.0
        # large values: at most 2^15 in float16, else 2^122 or 2^99
        exponent = 11 if t == np.float16 else 118 if d % 4 else 95
        x[1, 2] = _values_of_pool((d,), single, d) * np.float32(2.0**exponent)
        cosines, sines = (_values_of_pool((3, d // 2), single, d + k) / np.float32(16) for k in (1, 2))
        yield rotary.apply_tables(x, cosines, sines)
        yield rotary.apply_tables(x, cosines, sines, out=x)


def _grids(t: np.dtype[Any]) -> Iterator[Array]:
    for encoding in _images():
        yield grid([3, np.array([0.0, 0.5, 3.25])], encoding, dtype=t)


def _cycles(t: np.dtype[Any]) -> Iterator[Array]:
    """Yield rows for exact periods. At quarters of a period, they contain signed zeros."""
    days = fourier_features(periodic(["1D", "12h", "7D"]))
    negative = fourier_features(periodic([7, 24, Fraction(365, 3)]), functions=("-sin", "-cos"), layout="interleaved")
    for encoding in (days, negative):
        yield encoding.encode(np.arange(-500, 500) * 10800, dtype=t)
        yield encoding.encode(np.arange(-300, 300) * 5.25, dtype=t)
        yield encoding.table(100, start=-50, dtype=t)
        yield encoding.add_to(_values_of_pool((60, encoding.d_model), t, 3), start=-30)


def _past_the_cache(t: np.dtype[Any]) -> Iterator[Array]:
    """Yield rows that are written past the cache and begin anywhere in a cache line."""
    # the widest encoding, in the second of _ORDERS
    encoding = _by_width()[-1][1]
    # an even number, so that the rows are also a batch of two
    rows = 2 * (_BYTES_PAST_CACHE // (2 * encoding.d_model * t.itemsize) + 1)
    out = np.ones((rows, encoding.d_model), t)
    yield encoding.table(rows, start=-rows // 2, out=out)
    if t == np.float64:
        yield encoding.encode(np.arange(rows) / 8, out=out)
    x = out.reshape(2, rows // 2, -1)
    yield encoding.add_to(x, start=5, out=np.ones_like(x))
    image = join([sinusoidal(250), sinusoidal(47)])
    yield grid([30, rows // 30 + 1], image, out=np.ones((30, rows // 30 + 1, image.d_model), t))


def _loops() -> dict[str, Callable[[np.dtype[Any]], Iterator[Array]]]:
    return {
        "tables": _tables,
        "tables, long": _long_tables,
        "reals": _reals,
        "integers": _integers_in_any_order,
        "sums": _sums,
        "middles": _middles,
        "rotations": _rotations,
        "grids": _grids,
        "cycles": _cycles,
        "past the cache": _past_the_cache,
    }


def hashes_of_loops() -> Iterator[tuple[str, str]]:
    """Yield name and SHA-256 of the results of each function in `_loops` for each dtype, from the active engine."""
    for name in types_here():
        for loop, make in _loops().items():
            yield f"{loop}, {name}", _digest(make(float_type(name)))


# ---- frequencies ----------------------------------------------------------------------------------------------------


def _numbers(value: Encoding | Rotary) -> Iterator[Array]:
    """Yield the frequencies, the other numbers that define the value, and some rows or rotated values."""
    yield value.frequencies
    # 21600 and -43200 seconds are multiples of a quarter of a day, so columns with a period of a day have signed zeros
    positions = np.array([0.0, 1.0, 77.0, 100003.0, 21600.0, -43200.0])
    if value.ndim > 1:
        positions = positions[:, np.newaxis] + np.arange(value.ndim)
    if isinstance(value, Rotary):
        yield np.array([value.attention_factor])
        yield value.apply(np.ones((len(positions), value.head_dim)), positions=positions)
    else:
        yield value.phases
        yield value.amplitudes
        yield value.encode(positions, dtype=np.float64)


def hashes_of_frequencies() -> Iterator[tuple[str, str]]:
    """Yield the name of each Encoding and Rotary of `sets`, and the SHA-256 of its `_numbers`.

    The active engine computes the rows among these numbers.
    """
    for name, make in sets().items():
        yield name, _digest(_numbers(make()))


# ---- expected hashes ------------------------------------------------------------------------------------------------


def expected(part: int | str) -> dict[str, str]:
    """Return a dict from name to expected hash. part is a key of `bits.json`: SHORT, LONG, "loops" or "frequencies"."""
    digests: dict[str, str] = json.loads(FILE.read_text("utf-8"))[str(part)]
    return digests


def report_bits() -> bool:
    """Print whether the results of every engine of this machine have the expected hashes. Return whether all have."""
    expected_calls, expected_loops, equal = expected(SHORT), expected("loops"), True
    for engine, (backend, isa) in engines().items():
        prefix = f"backend or level {engine}, "
        with _backend.use_backend(backend, isa):
            equal &= _compare(engine, prefix, dict(hashes(SHORT)), expected_calls)
            # only the compiled kernel has these loops
            if isa is not None:
                equal &= _compare(
                    f"{engine} at all widths", f"{prefix}loops, ", dict(hashes_of_loops()), expected_loops
                )
    return _compare("frequencies", "", dict(hashes_of_frequencies()), expected("frequencies")) and equal


def _compare(title: str, prefix: str, digests: dict[str, str], expected_digests: dict[str, str]) -> bool:
    """Print how many digests are as expected, and the names of all wrong digests. Return whether none is wrong."""
    broken = [name for name, digest in digests.items() if expected_digests.get(name) != digest]
    print(f"{title:21} {len(digests) - len(broken):3} of {len(digests):3} hashes are as expected")
    for name in broken:
        print(f"BROKEN: {prefix}{name}: the bits differ from those of other machines")
    return not broken
