"""The command line: what it writes is what the library returns, and nothing is left behind when it cannot."""

from __future__ import annotations

import io
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import reference
from posenc_fast._cli import commands as cli
from posenc_fast._cli import files as _files
from posenc_fast._cli.speed import formula

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX signals, modes and limits")


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> int:
    return cli.main(arguments)


def command(*arguments: str, code: Sequence[str] = ("-m", "posenc_fast"), **more: Any) -> subprocess.Popen[bytes]:
    """The same in a process of its own, where warnings are errors too."""
    path = os.pathsep.join([str(Path(pf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, **more.pop("env", {})}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen([sys.executable, "-W", "error", *code, *arguments], env=environment, **pipes)


def same(file: str, expected: np.ndarray[Any, Any]) -> None:
    np.testing.assert_array_equal(np.load(file), expected, strict=True)


# ---- info and arguments -----------------------------------------------------------------------------------------


def test_info(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info") == 0
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.replace("isa levels", "levels").splitlines())
    assert lines == {
        "backend": backend,
        "isa": pf.isa() or "none",
        "levels": ", ".join(pf.isa_levels()) or "none",
        "posenc_fast": pf.__version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
    }


def test_module_is_a_command() -> None:
    process = command("info")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"backend ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["table", "--help"],
        ["encode", "--help"],
        ["identify", "--help"],
        ["presets", "--help"],
        ["--version"],
    ],
)
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(*arguments)
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "posenc" in out
    # what numpy.save does to bfloat16 is nowhere else to be found out
    assert ("|V2" in out) == (arguments[0] in ("table", "encode", "identify"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "COMMAND"),
        ("tabel 4 4 -o o.npy", "tabel"),
        ("table 4 -o o.npy", "D_MODEL"),
        ("table 4 4", "-o"),
        ("table four 4 -o o.npy", "four"),
        ("table -4 4 -o o.npy", "length must be at least 0, not -4"),
        ("table 4 0 -o o.npy", "d_model must be at least 1"),
        ("table 4 4 -o o.npy --base -2", "base must be a finite positive number"),
        ("table 4 4 -o o.npy --start nan", "start"),
        ("table 4 4 -o o.npy --step 1e", "1e"),
        ("table 4 4 -o o.npy --start 18446744073709551613", "outside of int64 and uint64"),
        ("table 4 4 -o o.npy --workers 0", "workers=0 must not be zero"),
        ("table 4 4 -o o.npy --dtype int8", "int8"),
        ("table 4 4 -o o.npy --layout diagonal", "diagonal"),
        ("table 4 4 -o o.npy --functions sin", "--functions"),
        ("table 4 4 -o o.npy --functions sin tan", "tan"),
        ("table 4 5 -o o.npy --odd error", "odd"),
        ("table 4 4 -o o.npy --freq-shift 2", "denominator of zero"),
        ("table 4 4 -o o.npy --frequencies missing.npy", "missing.npy: No such file"),
        ("table 4 4 -o o.npy --frequencies three.npy", "frequencies are 3"),
        ("table 4 6 -o o.npy --frequencies three.npy --base 2", "excludes base"),
        ("table 9 98 -o o.npy --frequencies nan.npy", "frequencies must be finite"),
        ("table 4 4 -o no/o.npy", "no: there is no such directory"),
        ("table 4 4 -o .", "no regular file"),
        (f"table 4 4 -o {os.devnull}", "no regular file"),
        ("table 99999999999999999 64 -o o.npy", "larger than any file"),
        ("identify", "TABLE"),
        ("identify missing.npy", "missing.npy: No such file"),
        ("identify three.npy", r"table has shape \(3,\), but must have \(rows, columns\)"),
        ("identify three.npy --start 1e", "1e"),
        ("identify three.npy --start nan", "start must be a finite number"),
        ("presets whisper", "unrecognized arguments: whisper"),
        ("encode three.npy -o o.npy", "--d-model"),
        ("encode three.npy --d-model 4 -o o.npy --column 0", "leave --column out"),
        ("encode three.npy --d-model 4 -o o.npy --workers 0", "workers=0 must not be zero"),
        ("encode missing.npy --d-model 4 -o o.npy", "missing.npy: No such file"),
        ("encode missing.csv --d-model 4 -o o.npy", "missing.csv: No such file"),
        ("encode . --d-model 4 -o o.npy", "Is a directory|Permission denied"),
        ("encode three.npy --d-model 4 -o no/o.npy", "no: there is no such directory"),
    ],
)
def test_bad_arguments(arguments: str, words: str, inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("three.npy", np.ones(3))
    np.save("nan.npy", np.full(49, np.nan))
    assert run(*arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"posenc-fast: error: [^\n]+\n", err)
    assert re.search(words, err)
    assert sorted(os.listdir()) == ["nan.npy", "three.npy"]


def test_bad_environment(capsys: pytest.CaptureFixture[str]) -> None:
    process = command("info", env={"POSENC_FAST_BACKEND": "fortran"})
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 2
    assert re.fullmatch(r"posenc-fast: error: .*fortran.*\n", err)


# ---- presets and identify ---------------------------------------------------------------------------------------


def test_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("presets") == 0
    assert capsys.readouterr() == (pf.presets.table() + "\n", "")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_identify(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command table writes, bfloat16 as raw bytes, identify reads."""
    arguments = ["40", "64", "-o", "o.npy", "--layout", "concatenated", "--start", "2", "--dtype", dtype]
    assert run("table", *arguments, "--no-compare") == 0
    capsys.readouterr()
    assert run("identify", "o.npy") == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = dict(line.split(None, 1) for line in out.splitlines())
    assert lines["presets"] == "marian, sockeye, tensorflow_text, transformer_xl"
    assert lines["encoding"] == "sinusoidal(64, layout='concatenated')"
    assert lines["positions"] == "2, 3, .."
    assert 0 <= float(lines["error"]) < 3e-3


def test_identify_padding(capsys: pytest.CaptureFixture[str]) -> None:
    table = pf.presets.fairseq(16).table(40)
    table[1] = 0
    np.save("o.npy", table)
    assert run("identify", "o.npy") == 0
    assert "zero rows   1\n" in capsys.readouterr().out


def test_identify_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("o.npy", np.eye(20))
    assert run("identify", "o.npy") == 1
    assert re.fullmatch(r"no known encoding; the closest is \w+, off by [0-9.e-]+\n", capsys.readouterr().out)
    np.save("o.npy", pf.sinusoidal(4).table(40, start=1000))
    assert run("identify", "o.npy", "--start", "1000") == 0
    assert run("identify", "o.npy", "--start", "999") == 1


# ---- table ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "options", "encoding", "progression"),
    [
        (8, "", {}, {}),
        (7, "--start -3 --step 5", {}, {"start": -3, "step": 5}),
        (8, "--start -0.5 --step 2.5e-1", {}, {"start": -0.5, "step": 0.25}),
        (6, "--start -1e1 --step -1e-1", {}, {"start": -10.0, "step": -0.1}),
        (4, "--start 9007199254740993", {}, {"start": 2**53 + 1}),
        (4, "--start 18446744073709551585", {}, {"start": 2**64 - 31}),
        (8, "--base 500 --freq-shift 1 --first 2", {"base": 500.0, "freq_shift": 1.0, "first": 2.0}, {}),
        (7, "--layout concatenated --odd zero", {"layout": "concatenated", "odd": "zero"}, {}),
        (6, "--functions cos -sin --scale -2.5", {"functions": ("cos", "-sin"), "scale": -2.5}, {}),
        (6, "--functions -sin -cos --scale 0", {"functions": ("-sin", "-cos"), "scale": 0.0}, {}),
        (5, "--functions sin sin", {"functions": ("sin", "sin")}, {}),
        (6, "--frequencies f.npy", {"frequencies": [1.0, 0.3, 1e-3]}, {}),
        (8, "--dtype float64 --workers 2", {}, {"dtype": np.float64, "workers": 2}),
        (8, "--dtype float16 --precision float32", {}, {"dtype": np.float16, "precision": "float32"}),
    ],
)
def test_table(
    d: int,
    options: str,
    encoding: dict[str, Any],
    progression: dict[str, Any],
    backend: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.save("f.npy", [1.0, 0.3, 1e-3])
    assert run("table", "31", str(d), "-o", "o.npy", *options.split()) == 0
    expected = pf.sinusoidal(d, **encoding).table(31, **progression)
    same("o.npy", expected)
    wrote, kernel, tutorial, largest = capsys.readouterr().out.splitlines()
    assert wrote == f"wrote o.npy: shape (31, {d}), {expected.dtype.name}, {Path('o.npy').stat().st_size} bytes"
    assert re.fullmatch(rf"kernel \({backend}.*\): [0-9.e+-]+ m?s; .*", kernel)
    assert re.fullmatch(r"tutorial's formula \(NumPy float64\): [0-9.e+-]+ m?s, [0-9.e+-]+ times as long", tutorial)
    # positions of up to 32 and frequencies of up to 2 leave float64 with about 1e-14
    if progression.get("start", 0) < 2**53 and progression.get("precision") is None:
        assert (
            float(largest.split()[-1]) <= np.finfo(expected.dtype).eps * max(1, abs(encoding.get("scale", 1))) + 2e-14
        )


@pytest.mark.parametrize("d", [1, 2, 7, 8])
def test_tutorial(d: int) -> None:
    table = formula(pf.sinusoidal(d), np.arange(50.0))
    np.testing.assert_allclose(table, reference.vaswani_numpy(50, d), rtol=0, atol=1e-14)
    zero = formula(pf.sinusoidal(d, odd="zero", scale=3.0, layout="concatenated"), np.arange(50.0))
    expected = pf.sinusoidal(d, odd="zero", scale=3.0, layout="concatenated").table(50, dtype=np.float64)
    np.testing.assert_allclose(zero, expected, rtol=0, atol=3e-14)


def test_largest_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("table", "300", "16", "-o", "o.npy", "--dtype", "float16") == 0
    largest = capsys.readouterr().out.split()[-1]
    assert largest == f"{np.abs(np.load('o.npy') - reference.vaswani_numpy(300, 16)).max():.3g}"
    assert float(largest) > 1e-4


@pytest.mark.parametrize("options", ["", "--start 9007199254740993 --step 3", "--start 0.1 --step 0.7"])
@pytest.mark.parametrize("length", [12, 13, 61])
def test_table_in_blocks(
    length: int, options: str, backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("table", str(length), "4", "-o", "whole.npy", *options.split()) == 0
    monkeypatch.setattr(cli, "BLOCK", 48)
    assert run("table", str(length), "4", "-o", "blocks.npy", *options.split()) == 0
    same("blocks.npy", np.load("whole.npy"))
    differences = re.findall(r"difference: (\S+)", capsys.readouterr().out)
    assert differences[0] == differences[1]


def test_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("table", "0", "4", "-o", "o.npy") == 0
    same("o.npy", np.empty((0, 4), np.float32))
    assert "largest difference: 0\n" in capsys.readouterr().out


def test_no_compare(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("table", "9", "4", "-o", "o.npy", "--no-compare") == 0
    assert "tutorial" not in capsys.readouterr().out


def test_bfloat16(capsys: pytest.CaptureFixture[str]) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert run("table", "9", "4", "-o", "o.npy", "--dtype", "bfloat16") == 0
    raw = np.load("o.npy")
    assert raw.dtype.str == "|V2"
    expected = pf.sinusoidal(4).table(9, dtype=ml_dtypes.bfloat16)
    np.testing.assert_array_equal(raw.view(ml_dtypes.bfloat16), expected)
    np.save("p.npy", np.arange(9))
    assert run("encode", "p.npy", "--d-model", "4", "-o", "e.npy", "--dtype", "bfloat16") == 0
    np.testing.assert_array_equal(np.load("e.npy").view(ml_dtypes.bfloat16), expected)


# ---- encode: .npy -----------------------------------------------------------------------------------------------

POSITIONS = {
    "float64": np.array([0.0, -0.5, 1e9 + 0.1, np.nan, np.inf, 3e-300]),
    "float32, big-endian": np.array([0.5, 3.25, -1e7], ">f4"),
    "float16": np.array([0.5, 3.25, -1e4], np.float16),
    "int8": np.array([-128, 0, 127], np.int8),
    "int64": np.array([-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1]),
    "uint64": np.array([0, 2**53 + 1, 2**64 - 1], np.uint64),
    "datetime64[ns]": np.array(["2026-01-01T00:00:00.123456789", "NaT", "1677-12-31"], "M8[ns]"),
    "datetime64[D]": np.array(["2026-01-01", "0001-01-01"], "M8[D]"),
    "timedelta64[ms]": np.array([1, -5, 2**40], "m8[ms]"),
    "empty": np.empty(0),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_encode_npy(name: str, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("p.npy", POSITIONS[name])
    assert run("encode", "p.npy", "--d-model", "6", "-o", "o.npy") == 0
    expected = pf.sinusoidal(6).encode(POSITIONS[name])
    same("o.npy", expected)
    out, err = capsys.readouterr()
    size = Path("o.npy").stat().st_size
    assert out.splitlines()[0] == f"wrote o.npy: shape ({len(expected)}, 6), float32, {size} bytes"
    assert err == ""


@pytest.mark.parametrize(
    ("options", "encoding", "call"),
    [
        ("--base 500 --freq-shift 1 --first 2", {"base": 500.0, "freq_shift": 1.0, "first": 2.0}, {}),
        ("--layout concatenated --odd zero", {"layout": "concatenated", "odd": "zero"}, {}),
        ("--functions -cos sin --scale -1e3", {"functions": ("-cos", "sin"), "scale": -1e3}, {}),
        ("--frequencies f.npy", {"frequencies": [3, 2, 1]}, {}),
        ("--dtype float64 --workers -1", {}, {"dtype": np.float64}),
        ("--precision float32 --dtype float16", {}, {"dtype": np.float16, "precision": "float32"}),
    ],
)
def test_encode_options(options: str, encoding: dict[str, Any], call: dict[str, Any]) -> None:
    np.save("f.npy", [3, 2, 1])
    positions = POSITIONS["float64"]
    np.save("p.npy", positions)
    assert run("encode", "p.npy", "--d-model", "5", "-o", "o.npy", *options.split()) == 0
    same("o.npy", pf.sinusoidal(5, **encoding).encode(positions, **call))


def test_npy_by_content_and_onto_itself() -> None:
    positions = np.arange(5.0)
    np.save("p.npy", positions)
    os.rename("p.npy", "p")
    assert run("encode", "p", "--d-model", "4", "-o", "p") == 0
    same("p", pf.sinusoidal(4).encode(positions))


def truncated() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(5.0))
    return file.getvalue()[:-1]


def saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.arange(5.0))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read"),
        (b"1\n2\n", "cannot be read"),
        (b"\x93NUMPY\x01\x00\x10\x00{'descr': 'junk'(\n", "cannot be read"),
        (truncated(), "cannot be read"),
        (zipped(), "cannot be read"),
        (saved(np.array([1, None])), "cannot be read"),
        (saved(np.ones((2, 3))), r"shape \(2, 3\)"),
        (saved(np.float64(3.0)), r"shape \(\)"),
        (saved(np.array(["2026-01-01"])), "positions must be"),
        (saved(np.array([True])), "positions must be"),
        (saved(np.array([1j])), "positions must be"),
        (saved(np.zeros(2, "V2")), "positions must be"),
        (saved(np.array([1, 2], "m8[M]")), "months|M, which"),
    ],
)
def test_bad_npy(content: bytes, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.npy").write_bytes(content)
    Path("o.npy").write_bytes(b"before")
    assert run("encode", "p.npy", "--d-model", "4", "-o", "o.npy") == 2
    err = capsys.readouterr().err
    assert re.match("posenc-fast: error: ", err)
    assert re.search(words, err)
    assert sorted(os.listdir()) == ["o.npy", "p.npy"]
    assert Path("o.npy").read_bytes() == b"before"


# ---- encode: CSV ------------------------------------------------------------------------------------------------


def encoded(text: str | bytes, *options: str, d: int = 6) -> np.ndarray[Any, Any]:
    """The rows that are written for a CSV file of that text."""
    Path("p.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    assert run("encode", "p.csv", "--d-model", str(d), "-o", "o.npy", *options) == 0
    rows: np.ndarray[Any, Any] = np.load("o.npy")
    return rows


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
def test_columns(text: str, options: str, backend: str) -> None:
    np.testing.assert_array_equal(encoded(text, *options.split()), pf.sinusoidal(6).encode([1.0, 2.5, -300.0]))


def test_header_alone() -> None:
    assert encoded("t\n").shape == (0, 6)


@pytest.mark.parametrize("empty", ["nan", "NaN", '""', '" "', "-nan"])
def test_missing_cells(empty: str, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = encoded(f"t\n{empty}\n4\n{empty}\n9007199254740993\n")
    np.testing.assert_array_equal(np.isnan(numbers).all(axis=1), [True, False, True, False])
    np.testing.assert_array_equal(numbers[[1, 3]], pf.sinusoidal(6).encode(np.array([4, 2**53 + 1])))
    dates = encoded(f"t\n{empty}\n2026-01-01\n{empty}\n", "--odd", "zero", d=5)
    np.testing.assert_array_equal(np.isnan(dates).all(axis=1), [True, False, True])
    assert "2 missing" in capsys.readouterr().out


def test_infinite_cells_are_rows_of_nan() -> None:
    np.testing.assert_array_equal(np.isnan(encoded("inf\n1\n-Infinity\n")).all(axis=1), [True, False, True])


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-02", "2026-01-02T00:00:00"),
        ("2026-01-02 03:04", "2026-01-02T03:04:00"),
        ("2026-01-02T03:04:05", "2026-01-02T03:04:05"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05"),
        ("2026-01-02 00:04:05+0230", "2026-01-01T21:34:05"),
        ("2026-01-02T03:04:05-11", "2026-01-02T14:04:05"),
        ("2026-01-02T03:04:05.6", "2026-01-02T03:04:05.6"),
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
def test_timestamps(text: str, utc: str, backend: str) -> None:
    unit = "ns" if len(utc.partition(".")[2]) > 6 else "us"
    # microseconds turn by several radians a unit here: nothing but the exact time gives these numbers
    frequencies = np.array([3e9, 7e6, 1.0, 1e-7])
    np.save("f.npy", frequencies)
    options = ("--frequencies", "f.npy", "--dtype", "float64")
    expected = pf.sinusoidal(8, frequencies=frequencies).encode(np.array([utc], f"M8[{unit}]"), dtype=np.float64)
    np.testing.assert_array_equal(encoded(f"{text}\n", *options, d=8), expected)
    # among times of the other resolution, and in a later chunk than the first
    others = "2026-01-01T00:00:00.0000001+01:00\n2026-01-01\n" * 2
    np.testing.assert_array_equal(encoded(f"time\n{others}{text}\n", *options, d=8)[4:], expected)


@pytest.mark.parametrize("cells", [3, 4, 100])
def test_mixed_numbers_are_exact(cells: int, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers beyond float64 beside floats and unsigned ones, over the borders of chunks and blocks."""
    monkeypatch.setattr(_files, "_CELLS", cells)
    monkeypatch.setattr(cli, "BLOCK", 24)
    numbers: list[Any] = [
        2**53 + 1,
        0.1,
        -(2**63),
        2**64 - 1,
        1e300,
        7,
        2**63 - 1,
        -0.0,
        2**63,
        1,
        2,
        3,
        4.5,
        5,
        2**62 + 1,
    ]
    text = "\n".join(map(repr, numbers))
    rows = encoded(text, "--dtype", "float64")
    encode = pf.sinusoidal(6).encode
    expected = []
    for value in numbers:
        array = np.array([value], np.float64 if isinstance(value, float) else np.uint64 if value >= 2**63 else np.int64)
        expected.append(encode(array, dtype=np.float64)[0])
    # forms of positions differ in the last place of a float64 at most
    np.testing.assert_allclose(rows, expected, rtol=2**-51, atol=2**-50)
    assert abs(rows[0] - encode([2.0**53], dtype=np.float64)[0]).max() > 0.1


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63, 2**64 - 1])
def test_one_large_integer_among_floats(number: int) -> None:
    array = np.array([number], np.uint64 if number >= 2**63 else np.int64)
    np.testing.assert_array_equal(encoded(f"0.5\n{number}\n1.5\n")[1:2], pf.sinusoidal(6).encode(array))


@pytest.mark.parametrize("column", ["int", "float", "date", "nanoseconds"])
def test_many_chunks(column: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "_CELLS", 1000)
    monkeypatch.setattr(cli, "BLOCK", 700 * 4)
    count = 5003
    positions: np.ndarray[Any, Any]
    if column == "int":
        positions = rng.integers(-(2**63), 2**63 - 1, count) >> rng.integers(0, 63, count)
        text = [str(p) for p in positions]
    elif column == "float":
        positions = rng.normal(size=count) * 10.0 ** rng.integers(-20, 15, count)
        text = [repr(float(p)) for p in positions]
    else:
        positions = rng.integers(-(10**18), 10**18, count).astype("M8[ns]")
        if column == "date":
            positions = positions.astype("M8[us]")
        text = [f"{p}Z" for p in positions]
    rows = encoded("x,t\n" + "".join(f"{i},{t}\n" for i, t in enumerate(text)), "--column", "t", d=4)
    expected = pf.sinusoidal(4).encode(positions)
    # rounding may fall to either side about once in 30 million values
    assert np.count_nonzero(rows != expected) <= 1
    np.testing.assert_allclose(rows, expected, rtol=2**-22, atol=0)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", "", "p.csv is empty"),
        ("\n\n", "", "p.csv is empty"),
        ("a,b\n1,2\n", "", r"2 columns: choose one with --column; .* 0 \('a'\), 1 \('b'\)"),
        ("1,2\n", "", r"2 columns: .*0 \('1'\), 1 \('2'\)"),
        ("a,b\n1,2\n", "--column c", r"no column 'c'; .* 0 \('a'\), 1 \('b'\)"),
        ("a,b\n1,2\n", "--column 2", "no column 2"),
        ("a,b\n1,2\n", "--column -1", "no column '-1'"),
        ("a,a\n1,2\n", "--column a", "several columns 'a'"),
        ("a,b\n1,2\n3\n4,5\n", "--column b", "line 3: no column 1"),
        ("t\n1\n2\nthree\n4\n", "", "line 4: 'three' is neither a number nor an ISO date"),
        ("1x\n2\n", "", "line 1: '1x'"),
        ('t\n"1\n2"\n', "", "line 3: "),
        ("t\n1\n1_000\n", "", "line 3: '1_000' is no number"),
        ("t\n1\n1,000\n2;000\n", "", "line 4: '2;000'"),
        ("t\n1\n18446744073709551616\n", "", "line 3: 18446744073709551616 is outside of int64 and uint64"),
        ("t\n-9223372036854775809\n", "", "line 2: -9223372036854775809 is outside"),
        ("t\n1\n" + "9" * 5000 + "\n", "", "line 3: 9+ is outside of int64"),
        ("t\n1.5\n1e999\n", "", "line 3: 1e999 is outside of float64"),
        ("t\n2026-01-01\n2026-13-01\n", "", r"line 3: '2026-13-01' .* \(month must be in 1..12"),
        ("2026-02-29\n", "", "line 1: '2026-02-29' .*day"),
        ("t\n2026-01-01x10:00\n", "", "line 2: '2026-01-01x10:00' is neither"),
        ("t\n2026-01-01T10:00+99:00\n", "", "line 2: "),
        ("t\n2026-01-01T00:00:00.1234567891\n", "", "line 2: .* finer than nanoseconds"),
        ("t\n2500-01-01T00:00:00.123456789\n", "", "line 2: .* outside of the years 1678 to 2261"),
        ("t\n2026-01-01\n17\n", "", "line 3: a number, where line 2 has a date"),
        ("t\n17\n2026-01-01\n", "", "line 3: a date, where line 2 has a number"),
        ("t\n\xff\n", "", "UTF-8"),
        ("t\n" + "1" * 200000 + "\n", "", "line 2: field larger than field limit"),
    ],
)
def test_bad_csv(text: str, options: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.csv").write_bytes(text.encode("latin-1"))
    Path("o.npy").write_bytes(b"before")
    assert run("encode", "p.csv", "--d-model", "4", "-o", "o.npy", *options.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"posenc-fast: error: [^\n]+\n", err)
    assert re.search(words, err)
    assert sorted(os.listdir()) == ["o.npy", "p.csv"]
    assert Path("o.npy").read_bytes() == b"before"


def test_bad_cell_in_a_late_chunk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_files, "_CELLS", 5)
    cells = [str(i) for i in range(23)]
    cells[17] = "oops"
    for text in (
        "\n".join(cells),
        "\n".join(f"2026-01-{1 + i:02d}" if c != "oops" else c for i, c in enumerate(cells)),
    ):
        Path("p.csv").write_text(f"t\n{text}\n")
        assert run("encode", "p.csv", "--d-model", "4", "-o", "o.npy") == 2
        assert "line 19: 'oops'" in capsys.readouterr().err


# ---- standard input, progress -----------------------------------------------------------------------------------


@pytest.mark.parametrize("piped", [True, False])
def test_standard_input(piped: bool) -> None:
    text = "name,t\nx,0.5\ny,-2e3\n"
    Path("p.csv").write_text(text)
    with open("p.csv", "rb") as file:
        stdin = subprocess.PIPE if piped else file
        process = command("encode", "-", "--column", "t", "--d-model", "6", "-o", "o.npy", stdin=stdin)
        out, err = process.communicate(text.encode() if piped else None, timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"standard input, column 't'" in out
    same("o.npy", pf.sinusoidal(6).encode([0.5, -2e3]))


def test_standard_input_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf1\n2\n")))
    assert run("encode", "-", "--d-model", "6", "-o", "o.npy") == 0
    same("o.npy", pf.sinusoidal(6).encode([1, 2]))
    # left open for whoever comes next
    assert not sys.stdin.buffer.closed


@pytest.mark.parametrize("installed", [True, False], ids=["tqdm", "no tqdm"])
def test_progress(installed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if installed:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    Path("p.csv").write_text("1\n2\n3\n")
    assert run("encode", "p.csv", "--d-model", "6", "-o", "o.npy", "--progress") == 0
    err = capsys.readouterr().err
    for label in ("reading", "encoding"):
        assert re.search(rf"{label}: +0 ?%", err)
        assert re.search(rf"{label}: +100 ?%", err)
    assert run("encode", "p.csv", "--d-model", "6", "-o", "o.npy", "--no-progress") == 0
    assert capsys.readouterr().err == ""


def test_progress_of_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1\n2\n")))
    assert run("encode", "-", "--d-model", "6", "-o", "o.npy", "--progress") == 0
    assert "reading: 0 rows\n" in capsys.readouterr().err


# ---- files: all or nothing --------------------------------------------------------------------------------------


@posix
def test_mode_and_link_of_output(inside: Path) -> None:
    (inside / "elsewhere").mkdir()
    (inside / "elsewhere" / "real.npy").write_bytes(b"before")
    (inside / "elsewhere" / "real.npy").chmod(0o640)
    (inside / "o.npy").symlink_to("elsewhere/real.npy")
    umask = os.umask(0o027)
    try:
        assert run("table", "3", "4", "-o", "o.npy") == 0
        assert run("table", "3", "4", "-o", "new.npy") == 0
    finally:
        os.umask(umask)
    assert (inside / "o.npy").is_symlink()
    same("elsewhere/real.npy", pf.sinusoidal(4).table(3))
    assert stat.S_IMODE((inside / "o.npy").stat().st_mode) == 0o640
    assert stat.S_IMODE((inside / "new.npy").stat().st_mode) == 0o640
    assert os.listdir("elsewhere") == ["real.npy"]


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("error", [ValueError("broken"), MemoryError("broken"), KeyboardInterrupt()])
def test_failure_in_the_middle(
    error: BaseException, existing: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("p.npy", np.arange(100.0))
    if existing:
        Path("o.npy").write_bytes(b"before")
    before = sorted(os.listdir())
    calls = []
    encode = pf.Encoding.encode

    def breaking(self: pf.Encoding, positions: Any, **settings: Any) -> Any:
        calls.append(sorted(os.listdir()))
        if len(calls) == 4:
            raise error
        return encode(self, positions, **settings)

    monkeypatch.setattr(pf.Encoding, "encode", breaking)
    monkeypatch.setattr(cli, "BLOCK", 40)
    assert run("encode", "p.npy", "--d-model", "4", "-o", "o.npy") == (
        130 if isinstance(error, KeyboardInterrupt) else 2
    )
    # there was a file to be cleaned up
    assert len(calls[-1]) == len(before) + 1
    assert sorted(os.listdir()) == before
    assert not existing or Path("o.npy").read_bytes() == b"before"
    assert capsys.readouterr().err.startswith("posenc-fast: error: ")


def table_long(inside: Path) -> list[str]:
    return ["table", "150000", "64", "--dtype", "float16"]


def encode_long(inside: Path) -> list[str]:
    np.save(inside / "p.npy", np.arange(400000.0))
    return ["encode", str(inside / "p.npy"), "--d-model", "64", "--dtype", "float16"]


@posix
@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="interrupts are ignored here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("arguments", [table_long, encode_long])
@pytest.mark.parametrize("existing", [True, False])
def test_signal(arguments: Callable[[Path], list[str]], number: signal.Signals, existing: bool, inside: Path) -> None:
    target = inside / "out"
    target.mkdir()
    if existing:
        (target / "o.npy").write_bytes(b"before")
    # slow enough to be caught in the act
    process = command(*arguments(inside), "-o", "out/o.npy", env={"POSENC_FAST_BACKEND": "python"})
    deadline = time.monotonic() + 60
    while not list(target.glob(".posenc-fast-*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    # an interruption inside numpy.memmap may add a ResourceWarning of numpy's own
    assert (process.returncode, out, err.splitlines()[-1]) == (130, b"", b"posenc-fast: error: interrupted")
    assert [(file.name, file.read_bytes()) for file in target.iterdir()] == [("o.npy", b"before")] * existing


@posix
def test_signal_while_reading(inside: Path) -> None:
    process = command("encode", "-", "--d-model", "4", "-o", "o.npy", "--progress", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"1\n" * 50000)
    process.stdin.flush()
    # the first words about progress: it is at work, and waits for more
    assert process.stderr.read(1)
    process.send_signal(signal.SIGTERM)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert err.endswith(b"posenc-fast: error: interrupted\n")
    assert os.listdir() == []


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from posenc_fast.__main__ import main
sys.exit(main())
"""


@posix
@pytest.mark.parametrize("arguments", [["table", "9999", "64"], ["encode", "p.csv", "--d-model", "64"]])
def test_disk_full(arguments: list[str]) -> None:
    Path("p.csv").write_text("1\n" * 9999)
    process = command(*arguments, "-o", "o.npy", code=["-c", LIMITED])
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 2
    assert re.fullmatch(r"posenc-fast: error: .*File too large.*\n", err)
    assert os.listdir() == ["p.csv"]


@posix
def test_closed_output() -> None:
    read, write = os.pipe()
    os.close(read)
    process = command("info", stdout=write)
    os.close(write)
    err = process.communicate(timeout=60)[1]
    assert (process.returncode, err) == (1, b"")


# ---- memory -----------------------------------------------------------------------------------------------------

PEAK = """
import resource, sys
from posenc_fast.__main__ import main
status = main()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1), file=sys.stderr)
sys.exit(status)
"""


@posix
@pytest.mark.parametrize("column", ["number", "date"])
def test_memory_is_bounded(column: str) -> None:
    """A million rows take no more memory than a few thousand, but for the pages of the output."""
    peaks = {}
    for count in (50_000, 1_000_000):
        with open("p.csv", "w") as file:
            file.write("name,time\n")
            for i in range(count):
                cell = (
                    f"{1.7e9 + i / 8}"
                    if column == "number"
                    else f"2026-01-01T{i % 24:02d}:{i % 60:02d}:00.{i % 10**6:06d}Z"
                )
                file.write(f"some text beside it,{cell}\n")
        process = command(
            "encode",
            "p.csv",
            "--column",
            "time",
            "--d-model",
            "2",
            "--dtype",
            "float16",
            "-o",
            "o.npy",
            code=["-c", PEAK],
        )
        err = process.communicate(timeout=60)[1]
        assert process.returncode == 0, err
        peaks[count] = int(err)
        assert np.load("o.npy", mmap_mode="r").shape == (count, 2)
    output = Path("o.npy").stat().st_size // 1024
    # the cells alone, as a list of strings, would be 70 MB
    assert peaks[1_000_000] - peaks[50_000] < output + 25_000


@posix
def test_table_memory_is_bounded(inside: Path) -> None:
    """A table takes blocks, not the whole, besides the pages of the file."""
    peaks = {}
    for length in (200_000, 1_000_000):
        process = command("table", str(length), "64", "--dtype", "float16", "-o", "o.npy", code=["-c", PEAK])
        err = process.communicate(timeout=60)[1]
        assert process.returncode == 0, err
        peaks[length] = int(err) - (inside / "o.npy").stat().st_size // 1024
    (inside / "o.npy").unlink()
    # the formula's matrix alone would be 512 MB in float64
    assert peaks[1_000_000] - peaks[200_000] < 50_000


# ---- rotary encodings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_identify_rotary(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, turned vectors and frequencies of an .npz file, bfloat16 as raw bytes."""
    number_type = np.dtype(dtype) if dtype == "float32" else pytest.importorskip("ml_dtypes").bfloat16
    rotary, positions = pf.presets.flux(), pf.presets.positions.grid(2, 2, 4)
    cos, sin = rotary.tables(positions, dtype=number_type)
    x = np.random.default_rng(0).normal(size=(2, 16, 128)).astype(number_type)
    np.savez("tables.npz", cos=cos, sin=sin, positions=positions)
    np.savez("vectors.npz", x=x, turned=rotary.apply(x, positions=positions), positions=positions)
    np.savez("frequencies.npz", frequencies=pf.presets.gpt_oss().frequencies.astype(number_type), head_dim=64)
    for name, preset in (("tables", "flux"), ("vectors", "flux"), ("frequencies", "gpt_oss")):
        assert run("identify", f"{name}.npz") == 0
        assert preset in capsys.readouterr().out.splitlines()[0]


def test_identify_rotary_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("o.npz", frequencies=np.array([0.5, 0.7, 0.1, 0.2]))
    assert run("identify", "o.npz") == 1
    assert "no known rotary encoding" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arrays", "more", "words"),
    [
        ({"cosines": np.ones(4)}, [], "o.npz has an array 'cosines', which is none of frequencies, cos, sin, x"),
        ({"frequencies": np.ones(4)}, ["--start", "3"], "--start is for a .npy file"),
        ({"x": np.ones((4, 4))}, [], "x needs turned"),
        ({"frequencies": np.array([None])}, [], "o.npz cannot be read as an .npz file of numbers"),
    ],
)
def test_identify_rotary_bad_files(
    arrays: Any, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("o.npz", **arrays)
    assert run("identify", "o.npz", *more) == 2
    assert words in capsys.readouterr().err
    Path("o.npz").write_bytes(b"no archive")
    assert run("identify", "o.npz") == 2
    assert "o.npz cannot be read as an .npz file of numbers" in capsys.readouterr().err
