"""Test the command line: arguments, printed text, signals and exit statuses."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.__main__ import main
from posenc_fast._cli.main import _parser
from support.command_line import command, error, files, finish, posix, run
from support.optional import optional
from support.tables import each_line

pytestmark = pytest.mark.usefixtures("inside")


def test_info(backend, capsys):
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


def test_help(monkeypatch, capsys):
    """All commands and options have help. The command without arguments prints the help."""

    def printed(*arguments):
        with pytest.raises(SystemExit) as stop:
            run(*arguments)
        assert stop.value.code == 0
        return capsys.readouterr().out

    monkeypatch.setenv("COLUMNS", "80")
    (commands,) = (action for action in _parser()._actions if action.choices)
    names = "bench check completion encode export identify info plot presets table verify"
    assert " ".join(sorted(commands.choices)) == names
    for name, parser in commands.choices.items():
        assert parser.description
        assert [action.dest for action in parser._actions if not action.help] == [], name
        out = printed(name, "--help")
        assert max(map(len, out.splitlines())) <= 80
        # only the help of these commands explains |V2, the type of bfloat16 values in .npy files
        assert ("|V2" in out) == (name in ("table", "encode", "identify", "export"))
    assert all(each.help != commands.choices[each.dest].description for each in commands._choices_actions)
    out = printed("--help")
    assert out.startswith("usage: posenc-fast ")
    assert max(map(len, out.splitlines())) <= 80
    assert run() == 0
    assert capsys.readouterr() == (out, "")
    assert printed("--version") == f"posenc_fast {pf.__version__}\n"


@each_line(r"""
    arguments | words
    tabel 4 4 -o o.npy | not 'tabel'; did you mean 'table'\? \(see posenc-fast --help\)
    --verison | no option --verison; did you mean '--version'
    table 4 4 -o o.npy --wokers 2 | --wokers; did you mean '--workers'\? \(see posenc-fast table --help\)
    table 4 4 -o o.npy --wokers=2 | no option --wokers; did you mean '--workers'
    table --wokers 2 | no option --wokers; did you mean '--workers'
    encode sin --d-model 2 | ^sin: No such file or directory
    table 5 4 --lenght 3 | no option --lenght; did you mean 'LENGTH'\? Pass its value without an option name \(see
    table 5 --d-model 3 | no option --d-model; did you mean 'D_MODEL'
    plot heatmap 8 --lenght 3 -o o.png | no option --lenght; did you mean '--length'
    encode three.npy -o o.npy --periods day week | separate the cycles by commas: --periods day,week\s
    encode -o o.npy --periods day, 12h 7D three.npy | by commas: --periods day,12h,7D\s
    encode three.npy --periods=day week -o o.npy | by commas: --periods day,week\s
    encode three.npy --periods 24 168 -o o.npy | by commas: --periods 24,168\s
    plot clocks --periods 1D 7D -o o.png | by commas: --periods 1D,7D\s
    table 4 4 -o o.npy --sinus | no option --sinus \(see posenc-fast table --help\)
    table 4 4 4 -o o.npy | unrecognized arguments: 4
    table 4 4 -o o.npy --layout interleavd | not 'interleavd'; did you mean 'interleaved'
    table four 4 -o o.npy | four
    table -4 4 -o o.npy | length must be at least 0, not -4
    table 4 4 -o o.npy --step 1e | 1e
    table 4 4 -o o.npy --workers 0 | workers must not be 0
    table 4 4 -o o.npy --functions sin | --functions
    table 4 4 -o o.npy --functions sin tan | tan
    table 4 4 -o o.npy --frequencies missing.npy | missing.npy: No such file
    table 4 4 -o o.npy --frequencies three.npy | frequencies has 3 values
    table 4 4 -o no/o.npy | no: the directory does not exist
    table 3 4 -o /proc/o.npy | ^/proc(/o\.npy)?: [^:]+\n$
    table 4 4 -o o.npy --no-compare | --no-compare
    table 4 4 -o . | not a regular file
    table 4 4 -o /dev/null | not a regular file; choose another path
    table 99999999999999999 64 -o o.npy | 99999999999999999 rows of 64 columns of float32 .* more than a file can .*; reduce
    identify | TABLE
    identify missing.npy | missing.npy: No such file
    identify '' | ^: No such file or directory
    identify three.npy | table has shape \(3,\), but must have shape \(rows, columns\)
    identify three.npy --start nan | start must be a finite number
    identify three.npy --key pe | three.npy has no keys.*leave --key out
    presets wisper | no preset 'wisper'; perhaps whisper
    presets whisper --search diffusion | leave NAME or --search out
    table 4 4 -o o | o must end with .npy, .npz, .csv or .parquet, or --format
    table 4 4 -o o.npy --format txt | '?npy'?, '?npz'?, '?csv'?, '?parquet'?
    encode three.npy --d-model 4 -o o.csv.gz | o.csv.gz must end with
    encode three.npy --d-model 4 -o o.npy --delimiter ';' | three.npy is not CSV; leave --delimiter out
    encode three.npy --d-model 4 -o o.npy --column 0 | leave --column out
    encode missing.npy --d-model 4 -o o.npy | missing.npy: No such file
    encode three.npy --d-model 4 --keep -o o.csv | three.npy is a .npy file and has no columns; leave --keep
    encode three.npy --d-model 4 --keep -o o.npy | --keep needs .*, and npy files have none; choose the format csv or parquet
    verify --seconds nan | seconds .*nan
    verify --seed -1 | seed .*-1
    encode . --d-model 4 -o o.npy | Is a directory|Permission denied
""")
def test_bad_arguments(arguments, words, capsys):
    np.save("three.npy", np.ones(3))
    assert re.search(words, error(capsys, *shlex.split(arguments.replace("/dev/null", os.devnull))))


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (MemoryError(""), "out of memory: length=4000 and d_model=8\n"),
        # the error names the sizes that the user gave, because the shape of an internal array tells the user nothing
        (MemoryError("Unable to allocate 3 GiB for an array with shape (4000, 9) and data type uint8"),
         "out of memory: Unable to allocate 3 GiB for length=4000 and d_model=8\n"),
        # with ``python -W error``, Python raises warnings as errors
        (RuntimeWarning("overflow"), "overflow\n"),
    ],
)  # fmt: skip
def test_errors_of_the_library(raised, words, monkeypatch, capsys):
    def table(*arguments, **settings):
        raise raised

    monkeypatch.setattr(pf.Encoding, "table", table)
    assert error(capsys, "table", "4000", "8", "-o", "o.npy") == words


def test_bad_environment():
    status, _, err = finish(command("info", env={"POSENC_FAST_BACKEND": "fortran"}))
    assert status == 2
    assert re.fullmatch(r"posenc-fast: error: .*fortran.*\n", err)


# ---- completion -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, capsys):
    optional("shtab")
    assert run("completion", shell) == 0
    script = capsys.readouterr().out
    for word in ("table", "completion", "freq-shift", "interleaved", *pf.presets.names()):
        assert word in script
    if shell != "bash" or os.name != "posix" or shutil.which("bash") is None:
        return
    Path("pe.npy").touch()
    completed = {"enc": "encode", "table --la": "--layout", "table 4 4 --preset whi": "whisper", "identify p": "pe.npy"}
    for words in completed:
        script += f"COMP_WORDS=(posenc-fast {words}) COMP_CWORD={len(words.split())}\n_shtab_posenc_fast\n"
        script += "echo ${COMPREPLY[@]}\n"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == list(completed.values())


def test_completion_errors(monkeypatch, capsys):
    optional("shtab")
    assert "SHELL must be one of 'bash', " in error(capsys, "completion", "bsh")
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert error(capsys, "completion", "bash") == "completion needs the package shtab; run pip install shtab\n"


# ---- signals and exit statuses --------------------------------------------------------------------------------------

interruptible = pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="interrupts are ignored")


def writes_to(process, folder):
    """Return whether a process writes in a folder: it has an unnamed file open there, or created a hidden file."""
    opened = []
    for each in Path(f"/proc/{process}/fd").glob("*"):
        with contextlib.suppress(OSError):
            opened.append(os.readlink(each))
    return any(name.startswith(f"{folder}/#") for name in opened) or bool(list(folder.glob(".posenc-fast-*")))


@posix
@interruptible
@pytest.mark.parametrize(
    ("arguments", "name", "existing"),
    [
        ("table 150000 64", "SIGINT", True),
        ("encode p.npy --d-model 64", "SIGTERM", False),
        ("table 150000 64", "SIGKILL", False),
    ],
)
def test_signal(arguments, name, existing, inside):
    if name == "SIGKILL" and not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no unnamed files")
    np.save("p.npy", np.arange(400000.0))
    target = inside / "out"
    target.mkdir()
    if existing:
        (target / "o.npy").write_bytes(b"before")
    # The Python engine is slow enough to be interrupted. A signal can arrive between the opening of a file and the `with`
    # that closes it. Python then closes the file with a warning, which users do not see by default. `command` would
    # turn this warning into an error.
    code = ("-W", "ignore::ResourceWarning", "-m", "posenc_fast")
    arguments = [*arguments.split(), "--dtype", "float16", "-o", "out/o.npy"]
    process = command(*arguments, code=code, env={"POSENC_FAST_BACKEND": "python"})
    deadline = time.monotonic() + 60
    while not writes_to(process.pid, target) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    number = signal.Signals[name]
    process.send_signal(number)
    words = {"SIGINT": "interrupted", "SIGTERM": "stopped by SIGTERM"}
    ended = (128 + number, b"", f"posenc-fast: error: {words[name]}\n") if name in words else (-number, b"", "")
    assert finish(process) == ended
    assert [(file.name, file.read_bytes()) for file in target.iterdir()] == [("o.npy", b"before")] * existing


@posix
@pytest.mark.skipif(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN, reason="SIGTERM is ignored here")
def test_signal_after_all_is_written(monkeypatch):
    """A signal that arrives after the file is complete does not change the exit status 0."""
    replace = os.replace

    def replacing(*names):
        replace(*names)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(os, "replace", replacing)
    assert run("table", "4", "4", "-o", "o.npy") == 0
    assert os.listdir() == ["o.npy"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@posix
@pytest.mark.parametrize("arguments", [["info"], ["nonsense"]])
def test_signal_at_the_end_of_the_process(arguments, monkeypatch):
    """Signals are ignored while the interpreter ends, so they do not change the exit status."""
    monkeypatch.setattr(sys, "argv", ["posenc-fast", *arguments])
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        main()
        assert {signal.getsignal(number) for number in before} == {signal.SIG_IGN}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


SCRIPT = "import sys; from posenc_fast.__main__ import main; sys.exit(main())"


@posix
@interruptible
@pytest.mark.parametrize(
    ("code", "module", "status", "words"),
    [
        (["-m", "posenc_fast"], "numpy", -signal.SIGINT, None),
        (["-mposenc_fast"], "numpy", -signal.SIGINT, None),
        (["posenc-fast"], "numpy", -signal.SIGINT, None),
        (["-m", "other"], "numpy", -signal.SIGINT, "KeyboardInterrupt"),
        (["-c", SCRIPT], "numpy", -signal.SIGINT, "KeyboardInterrupt"),
        # the command installs its handlers of signals before it imports shtab
        (["-m", "posenc_fast"], "shtab", 130, "^posenc-fast: error: interrupted\n$"),
    ],
)
def test_signal_during_imports(code, module, status, words, inside):
    """If the command is interrupted during imports, it ends without a traceback.

    Any other program that is interrupted while it imports the package ends with Python's traceback.
    """
    Path("posenc-fast").write_text(SCRIPT)
    Path("path").mkdir()
    # this file replaces a module that the command imports, and interrupts the process
    interrupt = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(30)"
    Path(f"path/{module}.py").write_text(interrupt)
    Path("path/other.py").write_text(SCRIPT)
    path = os.pathsep.join([str(inside / "path"), str(Path(pf.__file__).parents[1])])
    arguments = ["completion", "bash"] if module == "shtab" else ["info"]
    ended = finish(command(*arguments, code=code, env={"PYTHONPATH": path}))
    assert ended[:2] == (status, b"")
    assert re.search(words, ended[2]) if words else ended[2] == ""


@posix
def test_signal_while_reading():
    process = command("encode", "-", "--d-model", "4", "-o", "o.npy", stdin=subprocess.PIPE)
    assert process.stdin is not None
    # a pipe's buffer holds fewer bytes, so this write returns only after the process has begun to read
    process.stdin.write(b"1\n" * 500_000)
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    status, _, err = finish(process)
    assert status == 143
    assert err.endswith("posenc-fast: error: stopped by SIGTERM\n")
    assert os.listdir() == []


@posix
def test_reader_leaves_in_the_middle():
    process = command("table", "20000", "64", "--format", "npy")
    assert process.stdout is not None
    assert process.stdout.read(6) == b"\x93NUMPY"
    process.stdout.close()
    assert process.stderr is not None
    assert (process.wait(60), process.stderr.read()) == (1, b"")
    process.stderr.close()


NO_ROOM = "posenc-fast: error: standard output: No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_process_with_a_full_standard_output():
    with open("/dev/full", "wb") as full:
        assert finish(command("info", stdout=full)) == (2, None, NO_ROOM)


def run_into(file, unbuffered, *arguments):
    """Run the command with standard output to a file or file descriptor. unbuffered: whether as with ``python -u``.

    Then close standard output, because Python flushes it at the end of a process.
    """
    with open(file, "wb", buffering=0 if unbuffered else -1) as binary:
        with contextlib.redirect_stdout(io.TextIOWrapper(binary, write_through=unbuffered)) as stream:
            status = run(*arguments)
        stream.close()
    return status


def closed_pipe():
    """Return the file descriptor of a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    return write


@posix
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [
        "info",
        "encode --help",
        "encode p.csv --d-model 8 -o -",
        "table 20000 64 -o - --format npz",
        "table 20000 64 -o - --format parquet",
        "table 3 4 -o o.npy",
    ],
)
def test_standard_output_cannot_be_written(arguments, unbuffered, capsys):
    """If standard output is on a full disk, the command fails, and creates or changes no file.

    If nobody reads it, the exit status is 1, or 0 for a report of a file that is written.
    """
    if "parquet" in arguments:
        optional("pyarrow")
    Path("p.csv").write_text("1\n" * 20000)
    report = "o.npy" in arguments
    if os.path.exists("/dev/full"):
        if report and unbuffered:
            Path("o.npy").write_bytes(b"before")
        before = files()
        assert run_into("/dev/full", unbuffered, *arguments.split()) == 2
        assert capsys.readouterr().err == NO_ROOM
        assert files() == before
    assert run_into(closed_pipe(), unbuffered, *arguments.split()) == (0 if report else 1)
    assert capsys.readouterr().err == ""
    assert os.path.exists("o.npy") == report


def test_names_that_the_terminal_cannot_print():
    out = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(out, encoding="ascii")) as stream:
        assert run("table", "3", "4", "-o", "ö.npy") == 0
        stream.flush()
    assert out.getvalue().splitlines() == [rb"wrote \xf6.npy: shape (3, 4), float32, 176 bytes"]
    assert os.listdir() == ["ö.npy"]


CLOSED = """
import os, sys
os.close(1)
os.execv(sys.executable, [sys.executable, "-m", "posenc_fast", *sys.argv[1:]])
"""


@posix
def test_process_with_a_closed_standard_output():
    process = command("table", "4", "4", "-o", "-", code=["-c", CLOSED])
    assert finish(process) == (2, b"", "posenc-fast: error: standard output is closed\n")


@each_line("""
    stream | arguments | message
    stdin | encode --d-model 4 -o o.npy | give INPUT, a file of positions (- is standard input)
    stdin | encode - --d-model 4 -o o.npy | standard input is closed
    stdout | info | none
    stdout | presets | none
    stdout | table 4 4 -o - | standard output is closed
    stdout | encode missing.csv --d-model 4 -o o.npy | missing.csv: No such file or directory
""")
def test_standard_streams_are_closed(stream, arguments, message, monkeypatch, capsys):
    """If standard input or output is closed, only commands that need it fail, with one error."""
    monkeypatch.setattr(sys, stream, None)
    if message == "none":
        assert run(*arguments.split()) == 0
        assert capsys.readouterr() == ("", "")
    else:
        assert error(capsys, *arguments.split()) == f"{message}\n"


def test_standard_error_is_closed(monkeypatch, capfdbinary):
    """If standard error is closed, messages are omitted. They must not go to standard output, between the data."""
    Path("p.csv").write_text("0\n")
    monkeypatch.setattr(sys, "stderr", None)
    for arguments in (["encode", "p.csv", "--d-model", "2"], ["table", "1", "2"]):
        assert run(*arguments, "-o", "-", "--format", "csv") == 0
        assert capfdbinary.readouterr() == (b"c0,c1\n0,1\n", b"")
    assert run("encode", "missing.csv", "--d-model", "2", "-o", "o.npy") == 2
    assert run("presets", "--search", "no such word") == 1
    assert capfdbinary.readouterr() == (b"", b"")


def test_terminals_get_no_bytes(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "standard output is a terminal" in error(capsys, "table", "4", "4", "-o", "-", "--format", "npy")
    assert run("table", "2", "2") == 0
    assert capsys.readouterr().out == "c0,c1\n0,1\n0.841470957,0.540302277\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("table", "posenc-fast: \x1b[1;31merror:\x1b[0m the following"),
        ("presets", " rotary encodings:\x1b[0m\n"),
        ("presets whisper", "\x1b[1mfrequency i\x1b[0m  "),
        ("presets --search whisper", "\x1b[1mwhisper\x1b[0m  "),
        ("check pe.npy", "\x1b[32mright\x1b[0m    pe: "),
    ],
)
def test_colours(arguments, words, monkeypatch, capsys):
    def printed(terminal, **environment):
        for stream in (sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: terminal)
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in {"TERM": "xterm", "WT_SESSION": "1", "COLUMNS": "200", **environment}.items():
            monkeypatch.setenv(name, value)
        return run(*arguments.split()), "".join(capsys.readouterr())

    np.save("pe.npy", pf.presets.whisper(64).table(40))
    status, coloured = printed(terminal=True)
    assert words in coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert "\x1b" not in plain
    assert printed(terminal=True, NO_COLOR="1") == (status, plain)
    assert printed(terminal=True, TERM="dumb") == (status, plain)
    assert "\x1b" not in printed(terminal=False)[1]


# HOSTILE: text with control characters that would change the terminal, such as its title or the direction of text.
# ESCAPED: the same text as the command must print it.
HOSTILE = "\x1b]0;owned\x07a\x08\x9b2J\u202eb\u2066c\x7f"
ESCAPED = r"\x1b]0;owned\x07a\x08\x9b2J\u202eb\u2066c\x7f"


@posix
def test_names_are_escaped(capsys):
    """Reports and errors print a name on one line, with escapes for control characters and undecodable bytes."""
    np.savez("o.npz", **{HOSTILE: np.zeros((2, 2)), "b": np.zeros((2, 2))})
    err = error(capsys, "identify", "o.npz")
    assert f"the keys are {ESCAPED}, b" in err
    assert err.rstrip("\n").isprintable()
    Path("p\nq.csv").write_text("1\n2\n")
    name = os.fsdecode(b"a\nwrote b\x1b[1m\xff.npy")
    assert run("encode", "p\nq.csv", "--d-model", "4", "-o", name) == 0
    written = r"wrote a\nwrote b\x1b[1m\udcff.npy: shape (2, 4), float32, 160 bytes"
    assert capsys.readouterr() == (f"{written}\npositions: p\\nq.csv, column 0\n", "")
    assert name in os.listdir()
    assert error(capsys, "identify", name).rstrip("\n").isprintable()


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="no /proc/self/mem here")
@pytest.mark.parametrize(
    "arguments",
    ["encode in.npy --d-model 4", "encode in.csv.gz --d-model 4", "export in.json --config"],
)
def test_error_of_reading_names_the_input(arguments, capsys):
    """If INPUT can be opened but not read, the error names INPUT."""
    name = arguments.split()[1]
    # the first page of memory cannot be read
    os.symlink("/proc/self/mem", name)
    assert error(capsys, *arguments.split()) == f"{name}: Input/output error\n"
