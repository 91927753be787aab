"""The command line: its arguments, what it prints where, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from support.command_line import command, posix, run
from support.optional import optional

pytestmark = pytest.mark.usefixtures("inside")


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
        ["plot", "--help"],
        ["verify", "--help"],
        ["--version"],
    ],
)
def test_help(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        run(*arguments)
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "posenc" in out
    # what numpy.save does to bfloat16 is nowhere else to be found out
    assert ("|V2" in out) == (arguments[0] in ("table", "encode", "identify"))
    if "--help" in arguments:
        assert max(map(len, out.splitlines())) <= 80
    else:
        assert out == f"posenc_fast {pf.__version__}\n"


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
        (f"table 4 4 -o {os.devnull}", "no regular file .- is standard output"),
        ("table 99999999999999999 64 -o o.npy", "larger than any file"),
        ("identify", "TABLE"),
        ("identify missing.npy", "missing.npy: No such file"),
        ("identify three.npy", r"table has shape \(3,\), but must have \(rows, columns\)"),
        ("identify three.npy --start 1e", "1e"),
        ("identify three.npy --start nan", "start must be a finite number"),
        ("presets wisper", "no preset 'wisper'; perhaps whisper"),
        ("presets whisper --search diffusion", "leave one of them out"),
        ("identify three.npy --key pe", "three.npy has no keys.*leave --key out"),
        ("table 4 4 -o o.txt", "o.txt must end with .npy, .npz, .csv or .parquet, or --format"),
        ("table 4 4 -o o", "o must end with"),
        ("table 4 4 -o o.npy --format txt", "'?npy'?, '?npz'?, '?csv'?, '?parquet'?"),
        ("encode three.npy --d-model 4 -o o.csv.gz", "o.csv.gz must end with"),
        ("encode three.npy --d-model 4 -o o.npy --delimiter ;", "three.npy is no text: leave --delimiter out"),
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


# ---- how it ends ------------------------------------------------------------------------------------------------------


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
    words = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
    assert (process.returncode, out, err.decode()) == (128 + number, b"", f"posenc-fast: error: {words}\n")
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
    assert process.returncode == 143
    assert err.endswith(b"posenc-fast: error: stopped by SIGTERM\n")
    assert os.listdir() == []


COMMANDS = {
    "text": ["info"],
    "npy": ["table", "20000", "64", "-o", "-"],
    "npz": ["table", "20000", "64", "-o", "-", "--format", "npz"],
    "csv": ["encode", "p.csv", "--d-model", "8", "-o", "-", "--format", "csv"],
    "parquet": ["table", "20000", "64", "-o", "-", "--format", "parquet"],
}


def arguments_of(name: str) -> list[str]:
    if name == "parquet":
        optional("pyarrow")
    Path("p.csv").write_text("1\n" * 20000)
    return COMMANDS[name]


@posix
@pytest.mark.parametrize(("name", "unbuffered"), [*((name, "") for name in COMMANDS), ("text", "1"), ("npy", "1")])
def test_nobody_reads_standard_output(name: str, unbuffered: str) -> None:
    arguments = arguments_of(name)
    read, write = os.pipe()
    os.close(read)
    process = command(*arguments, stdout=write, env={"PYTHONUNBUFFERED": unbuffered})
    os.close(write)
    err = process.communicate(timeout=60)[1]
    assert (process.returncode, err) == (1, b"")


@posix
def test_reader_leaves_in_the_middle() -> None:
    process = command(*COMMANDS["npy"])
    assert process.stdout is not None
    assert process.stdout.read(6) == b"\x93NUMPY"
    process.stdout.close()
    assert process.stderr is not None
    assert (process.wait(60), process.stderr.read()) == (1, b"")
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize(("name", "unbuffered"), [*((name, "") for name in COMMANDS), ("npy", "1"), ("csv", "1")])
def test_standard_output_is_full(name: str, unbuffered: str) -> None:
    arguments = arguments_of(name)
    with open("/dev/full", "wb") as full:
        process = command(*arguments, stdout=full, env={"PYTHONUNBUFFERED": unbuffered})
        err = process.communicate(timeout=60)[1].decode()
    assert (process.returncode, err) == (2, "posenc-fast: error: standard output: No space left on device\n")


@posix
def test_standard_output_is_closed() -> None:
    for arguments, status in ((["info"], 0), (["presets"], 0), (["table", "4", "4", "-o", "-"], 2)):
        closed = f"import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, *{['-m', 'posenc_fast', *arguments]!r}])"
        process = command(code=["-c", closed])
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (status, b"")
        assert err == (b"posenc-fast: error: standard output is closed\n" if status else b"")


def test_standard_error_is_closed(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """What is said of the data does not go among them."""
    Path("p.csv").write_text("0\n")
    monkeypatch.setattr(sys, "stderr", None)
    for arguments in (["encode", "p.csv", "--d-model", "2"], ["table", "1", "2"]):
        assert run(*arguments, "-o", "-", "--format", "csv") == 0
        assert capfdbinary.readouterr() == (b"c0,c1\n0,1\n", b"")
    assert run("encode", "missing.csv", "--d-model", "2", "-o", "o.npy") == 2
    assert run("presets", "--search", "no such word") == 1
    assert capfdbinary.readouterr() == (b"", b"")


def test_terminals_get_no_bytes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("table", "4", "4", "-o", "-") == 2
    assert "standard output is a terminal" in capsys.readouterr().err
    assert run("table", "2", "2", "-o", "-", "--format", "csv") == 0
    assert capsys.readouterr().out == "c0,c1\n0,1\n0.841470957,0.540302277\n"
