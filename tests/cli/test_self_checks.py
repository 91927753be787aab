"""Test the commands verify and bench: the numbers that they print, and that verify finds faults in an engine."""

from __future__ import annotations

import itertools
import re
import shutil
import struct
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import reference
from posenc_fast.__main__ import main
from posenc_fast._core.encoding import builders as _builders
from posenc_fast._core.engine import backend as _backend
from posenc_fast._core.engine import python as numpy_engine
from posenc_fast._core.numbers.formats import FLOAT16, FLOAT32
from posenc_fast._selfcheck import accuracy as _verify
from posenc_fast._selfcheck import oracle as _oracle
from posenc_fast._selfcheck import speed as _speed
from posenc_fast._selfcheck import timing as _timing
from support import exact
from support.command_line import error
from support.processes import python


def verify(capsys, *arguments):
    status = main(["verify", "--seconds", "0.01", *arguments])
    return status, capsys.readouterr()


def test_verify(capsys):
    status, printed = verify(capsys, "--seed", "5")
    assert status == 0
    lines = printed.out.splitlines()
    assert "seed 5" in lines[0]
    assert lines[2] == "Largest error as a part of the promised bound (1 is the bound), by backend or level:"
    table = [line.split() for line in lines[3:] if "hashes" not in line]
    hashes = [
        re.fullmatch(r"(.*\S) +(\d+) of +(\d+) hashes are as expected", line).groups()
        for line in lines
        if "hashes" in line
    ]
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
    # the same seed draws the same values
    assert verify(capsys, "--seed", "5")[1].out == printed.out
    assert verify(capsys)[1].out != printed.out


@pytest.mark.parametrize(("call", "name"), [("encode", "float32"), ("table", "float16"), ("add_to", "float64")])
def test_verify_finds_a_wrong_value(call, name, capsys, monkeypatch):
    right = getattr(pf.Encoding, call)

    def wrong(self, *args, **kwargs):
        rows = right(self, *args, **kwargs)
        if rows.dtype == name and rows.size:
            # add three units in the last place to one value of each row
            rows[..., 0] += 3 * np.spacing(np.abs(rows[..., 0]))
        return rows

    monkeypatch.setattr(pf.Encoding, call, wrong)
    status, printed = verify(capsys)
    assert status == 1
    broken = [line.split()[:2] for line in printed.out.splitlines() if line.endswith("BROKEN")]
    assert broken == [[name, call]]


def test_verify_finds_nan(capsys, monkeypatch):
    right = pf.Encoding.encode
    monkeypatch.setattr(pf.Encoding, "encode", lambda *args, **kwargs: right(*args, **kwargs) * np.float32("nan"))
    status, printed = verify(capsys)
    assert status == 1
    assert {("float32", "encode"), ("float64", "encode")} <= broken(printed.out)[0]
    assert ": nan = nan; the exact value is " in printed.out


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
    assert python(code, Path(pf.__file__).parent).stdout.split() == [
        "posenc_fast._selfcheck",
        "posenc_fast._selfcheck.oracle",
        "posenc_fast.reference",
    ]


def test_ranges_reach_their_ends():
    rng = np.random.default_rng(3)
    drawn = {name: np.array([draw(rng) for _ in range(2000)]) for name, draw in _verify.RANGES.items()}
    assert drawn["all of uint64"].max() > 2**63
    assert drawn["all of int64"].min() < -(2**62)
    for name, (bits, least) in exact.TYPES.items():
        # the sine of a tiny position is nearly equal to the position, so these positions have subnormal sines
        sizes = np.abs(drawn["subnormal results"])
        assert ((sizes > 2.0**least) & (sizes < 2.0 ** (least + bits - 1))).sum() > 200, name


# ---- faults that verify must see ----------------------------------------------------------------------------------


def broken(printed):
    """Return two sets: (type, call) of rows marked BROKEN, and (engine, type) of lines that begin with BROKEN."""
    rows = {tuple(line.split()[:2]) for line in printed.splitlines() if line.endswith("BROKEN")}
    shown = re.findall(
        r"^BROKEN: backend (\w+)(?:, level (\w+))?, (\w+), (\w+): .* times the promised bound.*$", printed, re.MULTILINE
    )
    assert rows == {(name, call) for _, _, call, name in shown}
    return rows, {(level or engine, name) for engine, level, _, name in shown}


def test_verify_sees_a_wrong_schedule():
    code = """if True:
        from posenc_fast._core.numbers import exact as _exact
        from posenc_fast._core.numbers import schedule as _schedule
        from posenc_fast.__main__ import main

        right = _schedule.Geometric._times
        def wrong(self, factor, bits):
            return right(self, _exact.multiply(factor, _exact.divide(10**6 + 1, 10**6, bits), bits), bits)

        _schedule.Geometric._times = wrong
        raise SystemExit(main(["verify", "--seconds", "0.01", "--seed", "7"]))
    """
    run = python(code, timeout=300)
    assert run.returncode == 1, run.stderr
    rows, shown = broken(run.stdout)
    assert len(rows) == 3 * len({name for name, _ in rows}) >= 9
    assert {engine for engine, _ in shown} == {"python", *pf.isa_levels()}


@pytest.fixture
def fresh_encodings():
    """Clear the cache of encodings before and after a test, because a cached encoding keeps rows of a broken engine."""
    _builders._geometric.cache_clear()
    yield
    _builders._geometric.cache_clear()


@pytest.mark.usefixtures("fresh_encodings")
def test_verify_sees_a_wrong_coefficient(capsys, monkeypatch):
    high, low = numpy_engine.TAYLOR[5]
    monkeypatch.setitem(numpy_engine.TAYLOR, 5, (high * (1 + 2.0**-16), low))
    status, printed = verify(capsys, "--seed", "7")
    assert status == 1
    assert ("python", "float64") in broken(printed.out)[1]


# a coefficient of the polynomial for types of at most 32 bits, and the coefficient 1/5! of the polynomial for float64
COEFFICIENTS = {"S3": (float.fromhex("-0x1.32d2cce2ca8c0p+6"), "float32"), "T5": (1 / 120, "float64")}


@pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel")
@pytest.mark.skipif(sys.platform == "darwin", reason="macOS does not load a library that was changed")
@pytest.mark.parametrize("name", COEFFICIENTS)
def test_verify_sees_a_wrong_coefficient_of_the_kernel(name, tmp_path):
    value, number_type = COEFFICIENTS[name]
    package = shutil.copytree(Path(pf.__file__).parent, tmp_path / "posenc_fast")
    kernel = package / Path(_backend.kernel.__file__).name
    right, wrong = (struct.pack("=d", value * factor) for factor in (1, 1 + 2.0**-16))
    code = kernel.read_bytes()
    assert right in code
    kernel.write_bytes(code.replace(right, wrong))
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from posenc_fast.__main__ import main; "
    run = python(program + "raise SystemExit(main(['verify', '--seconds', '0.01', '--seed', '7']))", timeout=300)
    assert run.returncode == 1, run.stderr
    assert {(level, number_type) for level in pf.isa_levels()} <= broken(run.stdout)[1]


def cut(kind, value):
    """Round values like the Python engine, but float32 towards zero: a fault that verify must find."""
    if kind != FLOAT32.kind:
        return right_rounding(kind, value)
    rounded = value.astype(np.float32)
    return np.where(np.abs(rounded) > np.abs(value), np.nextafter(rounded, np.float32(0)), rounded)


def twice(kind, value):
    """Round values like the Python engine, but float16 twice, first to float32: a fault that verify must find."""
    if kind != FLOAT16.kind:
        return right_rounding(kind, value)
    return value.astype(np.float32).astype(np.float16).view(np.uint16)


right_rounding = numpy_engine.round_once


@pytest.mark.usefixtures("fresh_encodings")
@pytest.mark.parametrize(("wrong", "number_type"), [(cut, "float32"), (twice, "float16")], ids=["cut", "twice"])
def test_verify_sees_a_wrong_rounding(wrong, number_type, capsys, monkeypatch):
    monkeypatch.setattr(numpy_engine, "round_once", wrong)
    status, printed = verify(capsys, "--seed", "7")
    assert status == 1
    assert ("python", number_type) in broken(printed.out)[1]


@pytest.mark.usefixtures("fresh_encodings")
def test_a_reported_value_can_be_reproduced(capsys, monkeypatch):
    monkeypatch.setattr(numpy_engine, "round_once", cut)
    printed = verify(capsys, "--seed", "7")[1]
    (line,) = (line for line in printed.out.splitlines() if "backend python" in line and "encode, float32" in line)
    encoding, position, column, value, hexadecimal, correct, seed, seconds = re.search(
        r"float32: (.*), position (\S+), column (\d+): (\S+) = (\S+); the exact value is (\S+), and the error is \S+ "
        r"times the promised bound; "
        r"posenc-fast verify --seed (\d+) --seconds (\S+) draws the same positions again$",
        line,
    ).groups()
    assert float(value) == float.fromhex(hexadecimal)
    assert abs(float(correct)) > abs(float(value))
    assert main(["verify", "--seed", seed, "--seconds", seconds]) == 1
    assert line in capsys.readouterr().out
    # the reported call has the wrong value too
    one = eval(encoding, vars(pf).copy())
    where = int(position) if position.isdigit() else float(position)
    with pf.use_backend("python"):
        assert one.encode([where])[0, int(column)] == np.float32(float(value))


def test_verify_shows_progress(capsys):
    assert re.search(r"verifying: +100 ?%", verify(capsys, "--progress")[1].err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [("--seconds 0", "seconds .*0"), ("--seconds nan", "seconds .*nan"), ("--seed -1", "seed .*-1")],
)
def test_bad_arguments_of_verify(arguments, words, capsys):
    assert re.search(words, error(capsys, "verify", *arguments.split()))


def test_bench(capsys, monkeypatch):
    # this test checks the form of the printed table, and that ratios agree with times
    monkeypatch.setattr(_timing, "BUDGET", 0.01)
    assert main(["bench"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # lines with a star may be longer: on a busy machine, ratios such as 0.0123 take two columns more
    assert max(len(line) for line in lines if "*" not in line) <= 80
    first = 1 + [line.split() for line in lines].index(["posenc_fast", "NumPy", "ratio", "middle", "half"])
    names = [side.name for side in _speed.sides()]
    # a name consists of the names of both compared calls
    assert all(" / " in name for name in names)
    lines, more = lines[first : first + len(names)], lines[first + len(names) :]
    assert [line[:43].rstrip() for line in lines] == names
    for line in lines:
        ours, numpy, ratio, mark, low, high = re.fullmatch(
            r" +(\S+) +(\S+) +([^\s*]+)(\*| ) (\S+) to (\S+)", line[43:]
        ).groups()
        assert float(ours) > 0
        assert float(numpy) > 0
        # the ratio agrees with the two printed times, up to their rounding
        assert float(ratio) == pytest.approx(float(numpy) / float(ours), rel=0.02)
        assert 0 < float(low) <= float(high)
        assert mark == "*" or float(low) <= 1.01 * float(ratio) <= 1.03 * float(high)
    noisy = sum("*" in line for line in lines)
    assert len(more) == (noisy > 0)
    assert not noisy or f"The runs of {noisy} of these differ widely" in more[0]


@pytest.mark.parametrize(
    ("numpy", "low", "high", "noisy"),
    [(20.0, 1.9, 2.1, False), (20.0, 1.5, 2.5, True), (20.0, 2.1, 2.2, True), (20.0, 1.8, 1.9, True)],
)
def test_bench_marks_noisy_rows(numpy, low, high, noisy):
    """A row is noisy if the quartiles low and high differ widely, or do not enclose the ratio of the medians."""
    one = _speed.Comparison("", 10.0, numpy, low, high)
    assert one.ratio == 2
    assert one.noisy == noisy


def test_bench_compares_the_values(monkeypatch, capsys):
    monkeypatch.setattr(_speed, "vaswani_numpy", lambda *shape: np.zeros(shape))
    assert main(["bench"]) == 2
    assert "the values of posenc_fast and NumPy differ by 1, but may differ by at most " in capsys.readouterr().err
