"""Test the commands verify and bench: the numbers that they print, and that verify finds faults in an engine."""

from __future__ import annotations

import functools
import gc
import itertools
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import reference
from posenc_fast.__main__ import main
from posenc_fast._core.encoding import builders as _builders
from posenc_fast._core.engine import python as numpy_engine
from posenc_fast._core.numbers import exact as _exact
from posenc_fast._core.numbers import schedule as _schedule
from posenc_fast._core.numbers.formats import FLOAT16, FLOAT32
from posenc_fast._selfcheck import accuracy as _verify
from posenc_fast._selfcheck import bits as _bits
from posenc_fast._selfcheck import oracle as _oracle
from posenc_fast._selfcheck import speed as _speed
from posenc_fast._selfcheck import timing as _timing
from support import exact
from support.processes import python


def verify(capsys, *arguments):
    status = main(["verify", "--seconds", "0.01", *arguments])
    return status, capsys.readouterr()


@pytest.fixture
def quick(monkeypatch):
    """Let verify check one encoding of 17 columns, and no hashes.

    Clear caches before and after the test, because encodings and schedules keep values of a broken engine.
    """
    monkeypatch.setattr(_verify, "_SCHEDULES", ((17, 10000.0, 1.0),))
    monkeypatch.setattr(_bits, "report_bits", lambda: True)
    cached = [each for each in [_builders._geometric, *vars(_schedule).values()] if hasattr(each, "cache_clear")]
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


def test_verify(capsys):
    status, printed = verify(capsys, "--seed", "5")
    assert status == 0
    lines = printed.out.splitlines()
    assert "seed 5" in lines[0]
    assert lines[2] == "Largest error as a part of the promised bound (1 is the bound), by backend or level:"
    table = [line.split() for line in lines[3:] if "hashes" not in line]
    hashes = re.findall(r"^(.*\S) +(\d+) of +(\d+) hashes are as expected$", printed.out, re.MULTILINE)
    assert len(hashes) == printed.out.count("hashes")
    engines = ["python", *pf.isa_levels()]
    assert table[0] == ["type", "call", "values", *engines]
    assert [row[1] for row in table[1:4]] == list(_verify.CALLS)
    for row in table[1:]:
        assert row[-1] == "held"
        assert int(row[2]) > 1000
        # Shares are largest errors divided by the bound. For 32 and 16 bits, the bound is about half a unit in the last
        # place. Correct rounding causes errors of this size, so shares near 1 are right.
        shares = [float(share) for share in row[3 : 3 + len(engines)]]
        assert all(0.4 < share <= (0.6 if row[0] == "float64" else 1.0) for share in shares), row
    levels = [[level, f"{level} at all widths"] for level in pf.isa_levels()]
    assert [row[0] for row in hashes] == ["python", *itertools.chain(*levels), "frequencies"]
    assert all(0 < int(found) == int(all_of_them) for _, found, all_of_them in hashes)
    assert printed.err == ""


@pytest.mark.usefixtures("quick")
def test_the_seed_determines_the_positions(capsys):
    given, again, other = (verify(capsys, *more)[1] for more in (["--seed", "5"], ["--seed", "5", "--progress"], []))
    assert again.out == given.out
    # the first line contains the seed
    assert other.out.splitlines()[1:] != given.out.splitlines()[1:]
    assert re.search(r"verifying: +100 ?%", again.err)


# ---- the exact values of verify ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "base", "freq_shift"), [(64, 1e4, 0.0), (17, 1e4, 1.0), (2, 100.0, 1.0), (130, 5e5, 0.5)]
)
def test_exact_values(d, base, freq_shift):
    positions = [0, 3, -1e-320, 12345.678, 2**53, 2**64 - 1, -(2**63)]
    frequencies = reference.exact_frequencies(d, base, freq_shift)
    rows = _oracle.rows(positions, frequencies, d)
    schedule = exact.schedule(d, base, freq_shift)
    with mpmath.workprec(exact.PRECISION):
        for position, row in zip(positions, rows, strict=True):
            expected = [value for frequency in schedule for value in exact.sincos(position, frequency)][:d]
            for value, correct in zip(row, expected, strict=True):
                assert abs(exact.number(Fraction(value)) - correct) <= abs(correct) * mpmath.mpf(10) ** -50


def test_the_oracle_shares_no_code_with_the_engines():
    code = """if True:
        import sys, types
        package = types.ModuleType("posenc_fast")
        package.__path__ = [sys.argv[1]]
        sys.modules["posenc_fast"] = package
        import posenc_fast._selfcheck.oracle
        print(*sorted(name for name in sys.modules if name.startswith("posenc_fast.")))
    """
    imported = python(code, Path(pf.__file__).parent).stdout
    assert imported == "posenc_fast._selfcheck posenc_fast._selfcheck.oracle posenc_fast.reference\n"


# range of positions -> bounds of all sizes, an upper bound of the smallest size, and a lower bound of the largest size
SIZES = {
    "0 .. 4095": (0, 4095, 50, 4000),
    "1e6 .. 2e6": (1e6, 2e6, 1.01e6, 1.99e6),
    "unix seconds": (16e8, 19e8, 1.61e9, 1.89e9),
    "unix milliseconds": (16e11, 19e11, 1.61e12, 1.89e12),
    "all of int64": (0, 2**63, 2**55, 2**62),
    "all of uint64": (0, 2**64, 2**56, 2**63),
    "-1000 .. 1000": (0, 1000, 10, 990),
    "up to 2^53": (1, 2**53, 1.5, 2**52),
    "near 0": (0, 1, 1e-38, 1e-3),
    "tiny": (0, 1e-39, 1e-315, 1e-43),
    "subnormal results": (0, 1e-4, 1e-308, 1e-5),
}


def test_ranges_reach_their_ends():
    rng = np.random.default_rng(3)
    drawn = {name: np.array([draw(rng) for _ in range(2000)]) for name, draw in _verify.RANGES.items()}
    for name, (low, high, smallest, largest) in SIZES.items():
        sizes = np.abs(drawn[name].astype(np.float64))
        assert low <= sizes.min() <= smallest, name
        assert largest <= sizes.max() <= high, name
        # positions of ranges around 0 have both signs
        both = name in ("all of int64", "-1000 .. 1000", "up to 2^53", "near 0", "tiny", "subnormal results")
        assert (drawn[name].min() < 0 < drawn[name].max()) == both, name
    for name, (bits, least) in exact.TYPES.items():
        # the sine of a tiny position is nearly equal to the position, so these positions have subnormal sines
        sizes = np.abs(drawn["subnormal results"])
        assert ((sizes > 2.0**least) & (sizes < 2.0 ** (least + bits - 1))).sum() > 200, name


# ---- faults that verify must see ----------------------------------------------------------------------------------


def broken(printed):
    """Return two sets: (type, call) of rows marked BROKEN, and (engine, type) of lines that begin with BROKEN."""
    rows = {tuple(line.split()[:2]) for line in printed.splitlines() if line.endswith("BROKEN")}
    pattern = r"^BROKEN: backend (\w+)(?:, level (\w+))?, (\w+), (\w+): .* times the promised bound.*$"
    shown = re.findall(pattern, printed, re.MULTILINE)
    assert rows == {(name, call) for _, _, call, name in shown}
    return rows, {(level or engine, name) for engine, level, _, name in shown}


def found(capsys):
    """Run verify, which must find errors. Return the two sets of `broken`."""
    status, printed = verify(capsys, "--seed", "7")
    assert status == 1
    return broken(printed.out)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("call", "name", "units"), [("encode", "float32", np.nan), ("table", "float16", 3), ("add_to", "float64", 3)]
)
def test_verify_finds_a_wrong_value(call, name, units, capsys, monkeypatch):
    right = getattr(pf.Encoding, call)

    def wrong(self, *args, **kwargs):
        rows = right(self, *args, **kwargs)
        if rows.dtype == name and rows.size:
            # add units in the last place to one value of each row
            rows[..., 0] += units * np.spacing(np.abs(rows[..., 0]))
        return rows

    monkeypatch.setattr(pf.Encoding, call, wrong)
    assert found(capsys)[0] == {(name, call)}


@pytest.mark.usefixtures("quick")
def test_verify_sees_a_wrong_schedule(capsys, monkeypatch):
    right = _schedule.Geometric._times

    def wrong(self, factor, bits):
        return right(self, _exact.multiply(factor, _exact.divide(10**6 + 1, 10**6, bits), bits), bits)

    monkeypatch.setattr(_schedule.Geometric, "_times", wrong)
    rows, shown = found(capsys)
    assert len(rows) == 3 * len({name for name, _ in rows}) >= 9
    assert {engine for engine, _ in shown} == {"python", *pf.isa_levels()}


right_rounding = numpy_engine.round_once


def wrong_rounding(kind, value):
    """Round values like the Python engine, but float32 towards zero, and float16 twice, first to float32."""
    if kind == FLOAT32.kind:
        rounded = value.astype(np.float32)
        return np.where(np.abs(rounded) > np.abs(value), np.nextafter(rounded, np.float32(0)), rounded)
    if kind == FLOAT16.kind:
        return value.astype(np.float32).astype(np.float16).view(np.uint16)
    return right_rounding(kind, value)


@pytest.mark.usefixtures("quick")
def test_a_reported_value_can_be_reproduced(capsys, monkeypatch):
    """Verify sees values that are rounded wrongly or twice, and names calls and options that give them again."""
    # about one in 8000 values differs if it is rounded twice, so check more columns
    monkeypatch.setattr(_verify, "_SCHEDULES", ((130, 500000.0, 0.0),))
    monkeypatch.setattr(numpy_engine, "round_once", wrong_rounding)
    printed = verify(capsys, "--seed", "7")[1].out
    assert broken(printed)[1] == {("python", "float16"), ("python", "float32")}
    (line,) = (line for line in printed.splitlines() if "backend python" in line and "encode, float32" in line)
    pattern = (
        r"float32: (.*), position (\S+), column (\d+): (\S+) = (\S+); the exact value is (\S+), and the error is \S+ times "
        r"the promised bound; posenc-fast verify --seed (\d+) --seconds (\S+) draws the same positions again$"
    )
    encoding, position, column, value, hexadecimal, correct, seed, seconds = re.search(pattern, line).groups()
    assert float(value) == float.fromhex(hexadecimal)
    assert abs(float(correct)) > abs(float(value))
    assert main(["verify", "--seed", seed, "--seconds", seconds]) == 1
    assert line in capsys.readouterr().out
    # the reported call has the wrong value too
    one = eval(encoding, vars(pf).copy())
    where = int(position) if position.isdigit() else float(position)
    with pf.use_backend("python"):
        assert one.encode([where])[0, int(column)] == np.float32(float(value))


# ---- hashes that verify must compare ------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_wrong_bits_change_the_exit_status(capsys, monkeypatch):
    monkeypatch.setattr(_bits, "report_bits", lambda: False)
    assert verify(capsys)[0] == 1


@pytest.mark.parametrize(
    ("part", "lines"),
    [
        (None, []),
        ("1", [f"backend or level {engine}, a" for engine in _verify.engines()]),
        ("loops", [f"backend or level {level}, loops, b" for level in pf.isa_levels()]),
        ("frequencies", ["c"]),
    ],
)
def test_wrong_bits_are_named(part, lines, capsys, monkeypatch):
    """Each wrong hash has a line. part: part of the file of expected hashes in which one hash is wrong."""
    monkeypatch.setattr(_bits, "hashes", lambda times: [("a", f"{times} time"), ("right", "right")])
    monkeypatch.setattr(_bits, "hashes_of_loops", lambda: [("b", "in loops")])
    monkeypatch.setattr(_bits, "hashes_of_frequencies", lambda: [("c", "of frequencies")])
    first = {"a": "1 time", "right": "right"}
    expected = {"1": first, "loops": {"b": "in loops"}, "frequencies": {"c": "of frequencies"}}
    if part:
        expected[part][min(expected[part])] = "another"
    monkeypatch.setattr(_bits, "expected", lambda part: expected[str(part)])
    assert _bits.report_bits() == (not lines)
    printed = capsys.readouterr().out.splitlines()
    said = [f"BROKEN: {line}: the bits differ from those of other machines" for line in lines]
    assert [line for line in printed if line.startswith("BROKEN")] == said
    assert printed[0] == f"python                  {1 if part == '1' else 2} of   2 hashes are as expected"


# ---- bench --------------------------------------------------------------------------------------------------------


def test_bench(capsys, monkeypatch):
    """The command bench prints a line of times and ratios for each comparison, and marks noisy lines with a star."""
    sides = list(_speed.sides())
    noisy = "encode 1 times x 64 / float64 formula"
    now = iter(sides)

    def alternate(calls, runs):
        # NumPy takes 1, 2 or 3 seconds, and 2 in the median; on a busy machine 1 or 3
        ours = np.full(5, 0.25)
        return {"ours": ours, "numpy": np.array([1, 1, 2, 3, 3] if next(now).name == noisy else [1, 2, 2, 2, 3.0])}

    monkeypatch.setattr(_timing, "alternate", alternate)
    assert main(["bench"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    first = 1 + [line.split() for line in lines].index(["posenc_fast", "NumPy", "ratio", "middle", "half"])
    *lines, more = lines[first:]
    assert [line[:43].rstrip() for line in lines] == [side.name for side in sides]
    # a name consists of the names of both compared calls
    assert all(" / " in side.name for side in sides)
    # a second is 10**9 nanoseconds, and the first table has 2**20 values
    assert lines[0][43:].split() == ["238", "1907", "8", "8", "to", "8"]
    for line, side in zip(lines, sides, strict=True):
        assert line.endswith("8* 4 to 12" if side.name == noisy else "8  8 to 8")
    assert more == "* The runs of 1 of these differ widely: the machine is busy. Run bench again."


def test_bench_compares_the_values(monkeypatch, capsys):
    monkeypatch.setattr(_speed, "vaswani_numpy", lambda *shape: np.zeros(shape))
    assert main(["bench"]) == 2
    assert "the values of posenc_fast and NumPy differ by 1, but may differ by at most " in capsys.readouterr().err


@pytest.mark.parametrize(("long", "before", "runs"), [(2.0**-10, 2, 41), (0.125, 1, 15), (4.0, 1, 5)])
def test_sides_are_timed_alternately(long, before, runs, monkeypatch):
    """Samples of both sides alternate, without garbage collection. Calls before each sample fill the caches.

    A sample takes 50 microseconds or more, and a comparison about four seconds, but has at least 5 runs.
    """
    now, calls = 0.0, []

    def call(name, duration):
        nonlocal now
        now += duration
        calls.append((name, gc.isenabled()))

    sides = {"short": functools.partial(call, "short", 2.0**-17), "long": functools.partial(call, "long", long)}
    monkeypatch.setitem(_timing.seconds.__kwdefaults__, "clock", lambda: now)
    times = _timing.alternate(sides, 41, clock=lambda: now)
    expected = {"short": [2.0**-17] * runs, "long": [long] * runs}
    assert {name: values.tolist() for name, values in times.items()} == expected
    estimates = [("short", True)] * (2 + 3 * 16) + [("long", True)] * 2
    # 132 calls take a millisecond, and 7 calls take 50 microseconds
    assert calls == estimates + ([("short", False)] * (132 + 7) + [("long", False)] * (before + 1)) * runs
    assert gc.isenabled()


@pytest.mark.parametrize(
    "encoding",
    [pf.sinusoidal(1), pf.sinusoidal(8), pf.sinusoidal(7, odd="zero", scale=3.0, layout="concatenated"),
     pf.Encoding([1.0, 0.3, 2.0], [0.25, 0.1, 0.5], [1.0, -2.0, 0.5])],
    ids=repr,
)  # fmt: skip
def test_formula(encoding):
    """The float64 formula of bench has the values of any encoding of one axis."""
    table = _speed.formula(encoding, np.arange(50.0))
    np.testing.assert_allclose(table, encoding.table(50, dtype=np.float64), rtol=0, atol=1e-13)
