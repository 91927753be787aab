"""Test what `posenc-fast encode` reads: all forms of positions, and errors that name invalid input."""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._cli import csv as _csv
from posenc_fast._cli import encode as _encode
from support.command_line import command, error, finish, parquet, run, same
from support.optional import optional
from support.tables import each_line

pytestmark = pytest.mark.usefixtures("inside")

# ---- encode: .npy ---------------------------------------------------------------------------------------------------


POSITIONS = {
    "float64": np.array([0.0, -0.5, 1e9 + 0.1, np.nan, np.inf, 3e-300]),
    "float32, big-endian": np.array([0.5, 3.25, -1e7], ">f4"),
    "float16": np.array([0.5, 3.25, -1e4], np.float16),
    "int8": np.array([-128, 0, 127], np.int8),
    "int64": np.array([-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1]),
    "uint64": np.array([0, 2**53 + 1, 2**64 - 1], np.uint64),
    "datetime64[ns]": np.array(["2026-01-01T00:00:00.123456789", "NaT", "1677-12-31"], "M8[ns]"),
    "datetime64[us]": np.array(["2026-01-01T00:00:00.5", "NaT", "0001-07-01"], "M8[us]"),
    "datetime64[D]": np.array(["2026-01-01", "0001-01-01"], "M8[D]"),
    "timedelta64[ms]": np.array([1, -5, 2**40], "m8[ms]"),
    "empty": np.empty(0),
}


# periods for timestamps need a unit; three periods give six columns
CLOCK = "12h,7s,1000D"


def options_of(positions):
    """Return the options of the command for these positions, and the Encoding of six columns that they select."""
    if positions.dtype.kind == "M":
        return ["--periods", CLOCK], pf.fourier_features(pf.periodic(CLOCK.split(",")), layout="interleaved")
    return ["--d-model", "6"], pf.sinusoidal(6)


def saved(array, save=np.save):
    file = io.BytesIO()
    save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("name", POSITIONS)
def test_encode_npy(name, capsys):
    """A .npy file is recognized by its first bytes, whatever its name. OUT may be INPUT."""
    file = "p" if name == "int64" else "p.npy"
    Path(file).write_bytes(saved(POSITIONS[name]))
    options, encoding = options_of(POSITIONS[name])
    assert run("encode", file, *options, "-o", file, "--format", "npy") == 0
    expected = encoding.encode(POSITIONS[name])
    same(file, expected)
    out, err = capsys.readouterr()
    size = Path(file).stat().st_size
    assert out.splitlines()[0] == f"wrote {file}: shape ({len(expected)}, 6), float32, {size} bytes"
    assert err == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read"),
        (b"1\n2\n", "cannot be read"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': 'junk'(\n", "cannot be read"),
        (saved(np.arange(5.0))[:-1], "cannot be read"),
        (saved(np.arange(5.0), np.savez), "cannot be read"),
        (saved(np.array([1, None])), "cannot be read"),
        (saved(np.ones((2, 3))), r"shape \(2, 3\)"),
        (saved(np.float64(3.0)), r"shape \(\)"),
        (saved(np.array(["2026-01-01"])), "positions must be"),
        (saved(np.array([True])), "positions must be"),
        (saved(np.array([1j])), "positions must be"),
        (saved(np.zeros(2, "V2")), "positions must be"),
        (saved(np.zeros(2, "f4,f4")), "cannot be read as a .npy file of numbers: the type"),
        (saved(np.array([1, 2], "m8[M]")), "months|M, which"),
    ],
)
def test_bad_npy(content, words, capsys):
    Path("p.npy").write_bytes(content)
    Path("o.npy").write_bytes(b"before")
    assert re.search(words, error(capsys, "encode", "p.npy", "--d-model", "4", "-o", "o.npy"))


# ---- encode: CSV ----------------------------------------------------------------------------------------------------


def encoded(text, *options):
    """Return the rows of six columns that `encode` writes for a CSV file with this text."""
    Path("p.csv").write_bytes(text.encode())
    width = () if "--periods" in options else ("--d-model", "6")
    assert run("encode", "p.csv", *width, "-o", "o.npy", *options) == 0
    return np.load("o.npy")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("1\n2.5\n-3e2\n", ""),
        ("1\r\n2.5\r\n-3e2", ""),
        ("\ufeff1\n\n2.5\n\n\n-3e2\n\n", ""),
        (" 1 \n\t2.5\n-300\n", ""),
        ('"1"\n"2.5"\n"-300"\n', ""),
        ("t\n1\n2.5\n-300\n", ""),
        ("t\n1\n2.5\n-300\n", "--column t"),
        ("\ufeff t \n1\n2.5\n-300\n", "--column t"),
        ("t\n1\n2.5\n-300\n", "--column 0"),
        ("a,1,b\na,2.5,b\na,-300,b\n", "--column 1"),
        ("a,b\nx,1\ny,2.5\nz,-300\n", "--column b"),
        ("a,b\nx,1\ny,2.5,more\nz,-300\n", "--column 1"),
        (",b\n1,x\n2.5,y\n-300,z\n", "--column 0"),
        ('"a\nb",c\n"x\ny",1\nx,2.5\nx,-300\n', "--column c"),
    ],
)
def test_columns(text, options):
    np.testing.assert_array_equal(encoded(text, *options.split()), pf.sinusoidal(6).encode([1.0, 2.5, -300.0]))


@pytest.mark.parametrize("text", ["hello", "hello\n\n", "a,hello\n"])
def test_one_line_is_no_header(text, capsys):
    """A single line without a number or date is an error. If --column names one of its cells, the line is a header."""
    Path("p.csv").write_text(text)
    arguments = ["encode", "p.csv", "--d-model", "4", "-o", "o.npy", "--column"]
    words = "p.csv has only one line, and its cell 'hello' is neither a number nor an ISO date"
    assert words in error(capsys, *arguments, "1" if "," in text else "0")
    assert run(*arguments, "hello") == 0


@pytest.mark.parametrize("empty", ["nan", "NaN", '""', '" "', "-nan"])
def test_missing_cells(empty, monkeypatch, capsys):
    """Missing cells give rows of NaN, and the command prints their number in all blocks of two rows."""
    monkeypatch.setattr(_encode, "BLOCK", 12)
    numbers = encoded(f"t\n{empty}\n4\n{empty}\n9007199254740993\n")
    np.testing.assert_array_equal(np.isnan(numbers).all(axis=1), [True, False, True, False])
    np.testing.assert_array_equal(numbers[[1, 3]], pf.sinusoidal(6).encode(np.array([4, 2**53 + 1])))
    dates = encoded(f"t\n{empty}\n2026-01-01\n{empty}\n", "--periods", CLOCK)
    np.testing.assert_array_equal(np.isnan(dates).all(axis=1), [True, False, True])
    assert "2 missing" in capsys.readouterr().out


def test_infinite_cells_are_rows_of_nan():
    np.testing.assert_array_equal(np.isnan(encoded("inf\n1\n-Infinity\n")).all(axis=1), [True, False, True])


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-02", "2026-01-02T00:00:00"),
        ("2026-01-02 03:04", "2026-01-02T03:04:00"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05"),
        ("2026-01-02 00:04:05+0230", "2026-01-01T21:34:05"),
        ("2026-01-02T03:04:05.6-11", "2026-01-02T14:04:05.6"),
        ("2026-01-02T03:04:05.000001-00:30", "2026-01-02T03:34:05.000001"),
        ("2026-01-02T03:04:05.123456789", "2026-01-02T03:04:05.123456789"),
        ("2026-01-02T03:04:05.123456700+02:00", "2026-01-02T01:04:05.1234567"),
        ("2026-01-02T03:04:05.123456000000Z", "2026-01-02T03:04:05.123456"),
        ("1677-10-01T00:00:00.000000001", "1677-10-01T00:00:00.000000001"),
        ("1969-12-31T23:59:59.9999999", "1969-12-31T23:59:59.9999999"),
        ("0001-01-01T00:00:00.5+01:00", "0000-12-31T23:00:00.5"),
        ("9999-12-31T23:59:59.999999-12:00", "10000-01-01T11:59:59.999999"),
    ],
)
def test_timestamps(text, utc):
    unit = "ns" if len(utc.partition(".")[2]) > 6 else "us"
    # at the first two frequencies, a microsecond changes the angle by 7 radians or more, so times must be exact
    frequencies = np.array([3e9, 7e6, 1e-7])
    np.save("f.npy", frequencies)
    options = ("--frequencies", "f.npy", "--dtype", "float64")
    expected = pf.sinusoidal(6, frequencies=frequencies).encode(np.array([utc], f"M8[{unit}]"), dtype=np.float64)
    np.testing.assert_array_equal(encoded(f"{text}\n", *options), expected)
    # encode the time again, in a file that has four rows before it: times in nanoseconds, and dates
    others = "2026-01-01T00:00:00.0000001+01:00\n2026-01-01\n" * 2
    np.testing.assert_array_equal(encoded(f"time\n{others}{text}\n", *options)[4:], expected)


@pytest.mark.parametrize("cells", [3, 100])
def test_mixed_numbers_are_exact(cells, monkeypatch):
    """A column may mix floats with integers that float64 cannot represent. cells: number of cells parsed together."""
    monkeypatch.setattr(_csv, "CELLS", cells)
    monkeypatch.setattr(_encode, "BLOCK", 24)
    numbers = [2**53 + 1, 0.1, -(2**63), 2**64 - 1, 1e300, 7, 2**63 - 1, -0.0, 2**63, 1, 2, 3, 4.5, 5, 2**62 + 1]
    text = "\n".join(map(repr, numbers))
    rows = encoded(text, "--dtype", "float64")
    encode = pf.sinusoidal(6).encode
    expected = [encode(np.array([value]), dtype=np.float64)[0] for value in numbers]
    # rows of a mixed column may differ in the last place of float64 from rows of a single position
    np.testing.assert_allclose(rows, expected, rtol=2**-51, atol=2**-50)
    assert abs(rows[0] - encode([2.0**53], dtype=np.float64)[0]).max() > 0.1


@pytest.mark.parametrize("kind", ["int", "float"])
def test_many_chunks(kind, rng, monkeypatch):
    monkeypatch.setattr(_csv, "CELLS", 1000)
    monkeypatch.setattr(_encode, "BLOCK", 700 * 4)
    if kind == "int":
        positions = rng.integers(-(2**63), 2**63 - 1, 5003) >> rng.integers(0, 63, 5003)
    else:
        positions = rng.normal(size=5003) * 10.0 ** rng.integers(-20, 15, 5003)
    rows = encoded("x,t\n" + "".join(f"{i},{each}\n" for i, each in enumerate(positions)), "--column", "t")
    expected = pf.sinusoidal(6).encode(positions)
    # about one in 30 million values, near a rounding midpoint, may differ from a direct call
    assert np.count_nonzero(rows != expected) <= 1
    np.testing.assert_allclose(rows, expected, rtol=2**-22, atol=0)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", "", "p.csv is empty"),
        ("\n\n", "", "p.csv is empty"),
        ("a,b\n1,2\n", "", r"2 columns, so choose one with --column; .* 0 \('a'\), 1 \('b'\)"),
        ("1,2\n", "", r"2 columns, so .*0 \('1'\), 1 \('2'\)"),
        ("a,b\n1,2\n", "--column c", r"no column 'c'; .* 0 \('a'\), 1 \('b'\)"),
        ("a,b\n1,2\n", "--column 2", "no column 2"),
        ("a,b\n1,2\n", "--column -1", "no column '-1'"),
        ("a,a\n1,2\n", "--column a", r"several columns named 'a'; pass a number .*; .* 0 \('a'\), 1 \('a'\)$"),
        ("a,b\n1,2\n3\n4,5\n", "--column b", "line 3: no column 1"),
        ("t\n1\n2\nthree\n4\n", "", "line 4: 'three' is neither a number nor an ISO date"),
        ("1x\n2\n", "", "line 1: '1x'"),
        ('t\n"1\n2"\n', "", "line 3: "),
        ("t\n1\n1_000\n", "", "line 3: '1_000' is not a number"),
        ("t\n1\n1,000\n2;000\n", "", "line 4: '2;000'"),
        ("t\n1\n18446744073709551616\n", "", "line 3: 18446744073709551616 fits neither int64 nor uint64"),
        ("t\n-9223372036854775809\n", "", "line 2: -9223372036854775809 fits neither"),
        ("t\n1\n" + "9" * 5000 + "\n", "", "line 3: 9+ fits neither int64"),
        ("t\n1.5\n1e999\n", "", "line 3: 1e999 is outside the range of float64"),
        ("t\n2026-01-01\n2026-13-01\n", "", r"line 3: '2026-13-01' .* \(month must be in 1..12"),
        ("2026-02-29\n", "", "line 1: '2026-02-29' .*day"),
        ("t\n2026-01-01x10:00\n", "", "line 2: '2026-01-01x10:00' is neither"),
        ("t\n2026-01-01T10:00+99:00\n", "", "line 2: "),
        ("t\n2026-01-01T00:00:00.1234567891\n", "", "line 2: .* finer than nanoseconds"),
        ("t\n2500-01-01T00:00:00.123456789\n", "", "line 2: .* has nanoseconds, .* from September 1677 to April 2262"),
        ("t\n2026-01-01\n17\n", "", "line 3: the cell is a number, but line 2 has a date"),
        ("t\n17\n2026-01-01\n", "", "line 3: the cell is a date, but line 2 has a number"),
        ("t\n" + "1\n" * 17 + "oops\n2\n", "", "line 19: 'oops'"),
        ("t\n" + "2026-01-01\n" * 17 + "oops\n", "--periods day", "line 19: 'oops'"),
        ("t\n" + "1\n" * 17 + "2026-01-01\n", "", "line 19: the cell is a date, but line 2 has a number"),
        ("t\n" + "2026-01-01\n" * 17 + "7\n", "--periods day", "line 19: the cell is a number, but line 2 has a date"),
        # Python's int and float accept digits of other scripts, but the command must not
        ("t\n1\n１２\n", "", "line 3: '１２' is neither a number nor an ISO date"),
        ("t\n٣.٥\n", "", "line 2: '٣.٥' is neither"),
        ("１２\n５\n", "", "line 1: '１２' is neither"),
        ("t\n2026-01-01\n２０２６-０１-０２\n", "", "line 3: '２０２６-０１-０２' is neither"),
        ("t\n2026-01-0２\n", "--periods day", "line 2: '2026-01-0２' is neither"),
        ("t\n\xff\n", "", "UTF-8"),
        ("t\n" + "1" * 200000 + "\n", "", "line 2: field larger than field limit"),
        # columns that --keep cannot copy
        ("c1,t\n1,2\n", "--column t --keep", "OUT would have 2 columns named 'c1'; rename columns of INPUT"),
        (" c0 ,t\n1,2\n", "--column t --keep", "2 columns named 'c0'"),
        ("a,t,a\n1,2,3\n", "--column t --keep", "2 columns named 'a'"),
        ("a,t\n1,2\n3,4,5\n", "--column t --keep", "line 3: .* as many cells as the first line, 2, not 3"),
        ("t,a\n1,2\n3\n", "--column t --keep", "line 3: .* as many cells as the first line, 2, not 1"),
    ],
)
def test_bad_csv(text, options, words, monkeypatch, capsys):
    monkeypatch.setattr(_csv, "CELLS", 5)
    Path("p.csv").write_text(text, encoding="latin-1" if "\xff" in text else "utf-8")
    out = "o.csv" if "--keep" in options else "o.npy"
    Path(out).write_bytes(b"before")
    width = "" if "--periods" in options else "--d-model 4"
    assert re.search(words, error(capsys, "encode", "p.csv", "-o", out, *width.split(), *options.split()))


@pytest.mark.parametrize("text", ["1" * 100, "1,2\n" + "1," * 50, "a,b\n" + '"\n",' * 50, "\0" * 100])
def test_rows_without_end(text, monkeypatch, capsys):
    """If a row of CSV is too long, the command stops reading at the limit, and ends with an error."""
    monkeypatch.setattr(_csv, "MOST_CHARACTERS", 20)
    Path("p.csv").write_text(text)
    arguments = ["encode", "p.csv", "--d-model", "4", "-o", "o.npy", "--column", "0"]
    assert re.search(r"p.csv, line \d+: a row of CSV must have at most 20 characters", error(capsys, *arguments))
    # the limit applies to rows, not to files
    Path("p.csv").write_text("1,2\n" * 100)
    assert run(*arguments) == 0


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero here")
def test_a_file_without_end(capsys):
    words = "/dev/zero, line 1: a row of CSV must have at most 16777216 characters"
    assert words in error(capsys, "encode", "/dev/zero", "--d-model", "4", "-o", "o.npy")


# ---- encode: other delimiters ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delimiter", "given"), [*((each, each) for each in ";|§ \t"), ("\t", "tab"), ("\t", "\\t")])
def test_delimiter(delimiter, given):
    text = 'a;"b;"\n"1,5";2.5\nx;-3\n'.replace(";", delimiter)
    rows = encoded(text, "--column", "1", "--delimiter", given)
    np.testing.assert_array_equal(rows, pf.sinusoidal(6).encode([2.5, -3.0]))


@pytest.mark.parametrize("given", ["", ";;", '"', "\n", "\r", "semicolon"])
def test_bad_delimiter(given, capsys):
    Path("p.csv").write_text("1\n")
    err = error(capsys, "encode", "p.csv", "--d-model", "4", "-o", "o.npy", "--delimiter", given)
    assert f"--delimiter must be tab, or one character other than a double quote or a line end, not {given!r}" in err


@pytest.mark.parametrize(
    ("text", "options", "hint"),
    [
        ("a;b\n1;2\n", "", "';'"),
        ("a;b\n1;2\n", "--column b", "';'"),
        ("a;b\n1;2\n", "--column 1", "';'"),
        ("1;2,5\n3;4,5\n", "", "';'"),
        ("a\tb\n1\t2\n", "--column b", "tab"),
        ("a|b|c\n1|2|3\n", "--column b", "'|'"),
        ("a,b\n1,2\n", "--column b --delimiter ;", "','"),
        # None: the error must not suggest a delimiter
        ("a,b\n1,x\n", "--column b", None),
        ("a,b;c,d\n1,x,y\n", "--column 0", None),
        ("a,b;c,d\nx,x,y\n", "--column d", None),
        ("a\nx;y\n", "", None),
        # this file is valid, so there is no error
        ("a;b\n1\n2\n", "", None),
    ],
)
def test_hint_at_another_delimiter(text, options, hint, capsys):
    Path("p.csv").write_text(text)
    status = run("encode", "p.csv", "--d-model", "4", "-o", "o.npy", *options.split())
    err = capsys.readouterr().err
    assert ("--delimiter" in err) == bool(hint)
    if hint:
        assert status == 2
        assert err.endswith(f"; the first line contains {hint}, so try --delimiter {hint}\n")


# ---- encode: gzip ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["p.csv.gz", "p.csv"])
def test_gzip(name, capsys):
    """A gzip file is recognized by its first bytes, whatever its name. The texts of its members are joined."""
    text = "t,x\n" + "".join(f"{i / 8},{i}\n" for i in range(40_000))
    data = text.encode()
    Path(name).write_bytes(gzip.compress(data[:1001]) + gzip.compress(data[1001:]))
    assert run("encode", name, "--column", "t", "--d-model", "4", "-o", "o.npy") == 0
    same("o.npy", pf.sinusoidal(4).encode(np.arange(40_000) / 8))
    assert f"positions: {name}, column 't'" in capsys.readouterr().out


def test_bad_gzip(rng, capsys):
    whole = gzip.compress("\n".join(map(str, rng.integers(0, 10**9, 5000))).encode())
    # bytes of the header, in the middle, and of the checksum
    damaged = [whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4 :] for at in (2, len(whole) // 2, len(whole) - 8)]
    for content in (whole[:-200], *damaged):
        Path("p.csv.gz").write_bytes(content)
        # gzip reports the damage only after it has unpacked wrong bytes, so the error may be about these bytes
        assert re.match(r"p\.csv\.gz\b", error(capsys, "encode", "p.csv.gz", "--d-model", "4", "-o", "o.npy"))


# ---- encode: Parquet ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POSITIONS)
def test_parquet(name, capsys):
    """Positions of each type are read exactly, and missing values give rows of NaN.

    A Parquet file is recognized by its first bytes, whatever its name.
    """
    pa = optional("pyarrow")
    file = "p" if name == "int64" else "p.parquet"
    positions = POSITIONS[name].astype(POSITIONS[name].dtype.newbyteorder("="))
    missing = np.arange(len(positions)) % 2 == 1
    zoned = pa.timestamp("us", "Europe/Berlin") if name == "datetime64[us]" else None
    column = pa.array(positions, zoned, mask=missing)
    parquet({"other": ["x"] * len(column), "t": column}, file, row_group_size=2)
    options, encoding = options_of(positions)
    assert run("encode", file, "--column", "t", *options, "-o", "o.npy", "--dtype", "float64") == 0
    assert f"positions: {file}, column 't' ({column.type})\n" in capsys.readouterr().out
    rows = np.load("o.npy")
    assert np.isnan(rows[missing]).all()
    # rows of a column may differ in the last place of float64 from rows of other columns
    expected = encoding.encode(positions[~missing], dtype=np.float64)
    np.testing.assert_allclose(rows[~missing], expected, rtol=2**-51, atol=2**-50)


def test_parquet_in_blocks(monkeypatch, rng):
    """Read a Parquet file with row groups of 37 rows. The command encodes blocks of 100 rows."""
    positions = rng.integers(-(2**60), 2**60, 1003)
    parquet({"n": positions}, row_group_size=37)
    monkeypatch.setattr(_encode, "BLOCK", 4 * 100)
    assert run("encode", "p.parquet", "--d-model", "4", "-o", "o.npy") == 0
    same("o.npy", pf.sinusoidal(4).encode(positions))


@each_line(r"""
    arguments | words
    p.parquet | p.parquet has 4 columns, so choose one with --column; the columns are 0 \('n'\), 1 \('s'\)
    p.parquet --column nn | p.parquet has no column 'nn'; the columns are .*; did you mean 'n'
    p.parquet --column 7 | p.parquet has no column 7
    p.parquet --column s | p.parquet, column 's' \(string\): positions must be integers, .* or times, not text
    p.parquet --column b | p.parquet, column 'b' \(bool\): positions must be
    p.parquet --column l | p.parquet: column 'l' has the type list<.*, but must have one position per row
    p.parquet --column n --delimiter ; | p.parquet is not CSV; leave --delimiter out
    p.parquet --column n --keep -o - | --keep cannot copy column 'l' of type list<.*> to CSV; choose the format parquet
""")
def test_bad_column_of_parquet(arguments, words, capsys):
    parquet({"n": [1, 2], "s": ["1", "2"], "b": [True, False], "l": [[1], [2]]})
    assert re.search(words, error(capsys, "encode", "--d-model", "4", "-o", "o.npy", *arguments.split()))


def test_bad_parquet(rng, capsys):
    parquet({"n": rng.integers(0, 2**60, 10_000)}, compression="gzip", use_dictionary=False)
    whole = Path("p.parquet").read_bytes()
    for damaged in (whole[:-12], whole[:1000] + bytes(100) + whole[1100:], b""):
        Path("p.parquet").write_bytes(damaged)
        err = error(capsys, "encode", "p.parquet", "--d-model", "4", "-o", "o.npy")
        assert err.startswith("p.parquet cannot be read as Parquet: ")


def test_parquet_needs_pyarrow(monkeypatch, capsys):
    Path("p.parquet").write_bytes(b"PAR1")
    np.save("p.npy", np.arange(3))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for arguments in (["encode", "p.parquet", "-o", "o.npy"], ["encode", "p.npy", "-o", "o.parquet"]):
        words = ".parquet: Parquet needs the package pyarrow; run pip install pyarrow\n"
        assert error(capsys, *arguments, "--d-model", "4").endswith(words)


# ---- standard input -------------------------------------------------------------------------------------------------


def test_standard_input():
    process = command("encode", "-", "--column", "t", "--d-model", "6", "-o", "o.npy", stdin=subprocess.PIPE)
    status, out, err = finish(process, b"name,t\nx,0.5\ny,-2e3\n")
    assert (status, err) == (0, "")
    assert b"standard input, column 't'" in out
    same("o.npy", pf.sinusoidal(6).encode([0.5, -2e3]))


@pytest.mark.parametrize(
    ("text", "options", "written"),
    [
        (b"\xef\xbb\xbf0\n1\n", "- -o -", b"c0,c1\n0,1\n0.841470957,0.540302277\n"),
        (b"0\n1\n", "", b"c0,c1\n0,1\n0.841470957,0.540302277\n"),
        (b"id,t\n01,0\n02,0\n", "--column t --keep", b"id,t,c0,c1\n01,0,0,1\n02,0,0,1\n"),
        (b"a,0\nb,1\n", "--column 1 --keep", b"column0,column1,c0,c1\na,0,0,1\nb,1,0.841470957,0.540302277\n"),
    ],
)
def test_standard_input_in_process(text, options, written, monkeypatch, capfdbinary):
    """INPUT and OUT are standard input and output by default. The output is CSV by default."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert run("encode", *options.split(), "--d-model", "2") == 0
    assert capfdbinary.readouterr().out == written
    # standard input stays open
    assert not sys.stdin.buffer.closed


def test_the_terminal_is_no_input(monkeypatch, capsys):
    """At a terminal, the command asks for INPUT instead of waiting for typed positions."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("1"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert "give INPUT, a file of positions (- is standard input)" in error(capsys, "encode", "--d-model", "2")


# ---- columns that are kept ------------------------------------------------------------------------------------------

ROWS = [["id", "t", "x y"], ["007", " 1.50 ", 'q"u'], ["", "2e0", "a,b;c"], ["line\nbreak\r", "nan", "é "]]


@pytest.mark.parametrize(("block", "delimiter"), [(2, ","), (100, ";")])
def test_kept_columns_of_csv(block, delimiter, monkeypatch):
    """With --keep, each row of the output begins with the unchanged cells of the input's row. The encoding follows."""
    monkeypatch.setattr(_encode, "BLOCK", block)
    with open("p.csv", "w", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\r\n").writerows(ROWS)
    arguments = ["encode", "p.csv", "--column", "t", "--d-model", "2", "--delimiter", delimiter, "-o"]
    assert run(*arguments, "plain.csv") == 0
    assert run(*arguments, "o.csv", "--keep") == 0
    encoded_rows = Path("plain.csv").read_text().splitlines()
    expected = [[*row, *line.split(",")] for row, line in zip(ROWS, encoded_rows, strict=True)]
    with open("o.csv", newline="") as file:
        assert list(csv.reader(file, strict=True)) == expected
    parquet_file = optional("pyarrow.parquet")
    assert run(*arguments, "o.parquet", "--keep") == 0
    table = parquet_file.read_table("o.parquet")
    assert table.column_names == ["id", "t", "x y", "c0", "c1"]
    assert [list(row.values())[:3] for row in table.to_pylist()] == ROWS[1:]
    rows = np.stack([table["c0"].to_numpy(), table["c1"].to_numpy()], 1)
    np.testing.assert_array_equal(rows, pf.sinusoidal(2).encode([1.5, 2.0, np.nan]))


@pytest.mark.parametrize("block", [6, 1000])
def test_kept_columns_of_parquet(block, monkeypatch):
    """With --keep, columns of Parquet keep their types in a Parquet output, and become text in a CSV output."""
    monkeypatch.setattr(_encode, "BLOCK", block)
    pa = optional("pyarrow")
    columns = {
        "name": pa.array(["a,b", None, "c"]),
        "t": pa.array([1, 2, None]),
        "when": pa.array(np.array(["2026-01-01T06:00", "NaT", "1969-01-01"], "M8[ms]")),
        "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
        "parts": pa.array([[1], [], None]),
    }
    parquet(columns, row_group_size=2)
    options = ["encode", "p.parquet", "--column", "t", "--d-model", "2", "--keep"]
    assert run(*options, "-o", "o.parquet") == 0
    table = optional("pyarrow.parquet").read_table("o.parquet")
    assert table.select(list(columns)).equals(pa.table(columns))
    assert table.column_names == [*columns, "c0", "c1"]
    del columns["parts"]
    parquet(columns)
    assert run(*options, "-o", "o.csv") == 0
    with open("o.csv", newline="") as file:
        rows = [row[:4] for row in csv.reader(file)]
    assert rows == [
        ["name", "t", "when", "kind"],
        ["a,b", "1", "2026-01-01 06:00:00.000", "x"],
        ["", "2", "", "y"],
        ["c", "", "1969-01-01 00:00:00.000", "x"],
    ]


# ---- progress -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("installed", [True, False], ids=["tqdm", "no tqdm"])
def test_progress(installed, monkeypatch, capsys):
    if installed:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    np.save("p.npy", np.arange(3))
    Path("p.csv").write_text("1\n2\n3\n")
    for name, done in (("p.npy", r"100%"), ("p.csv", r"3\.00 rows")):
        assert run("encode", name, "--d-model", "6", "-o", "o.npy", "--progress") == 0
        err = capsys.readouterr().err
        assert re.search(rf"encoding: +{done}", err) if installed else err == ""
        assert run("encode", name, "--d-model", "6", "-o", "o.npy", "--no-progress") == 0
        assert capsys.readouterr().err == ""
