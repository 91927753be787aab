"""Test the command line: arguments, printed text, signals and exit statuses."""

from __future__ import annotations

import contextlib
import io
import os
import re
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
from support.command_line import command, error, posix, run, safetensors
from support.optional import optional

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


def test_module_is_a_command():
    process = command("info")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"backend ")


@pytest.mark.parametrize(
    "name",
    ["table", "encode", "identify", "presets", "plot", "check", "export", "info", "verify", "bench", "completion"],
)
def test_help(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        run(name, "--help")
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "posenc" in out
    assert max(map(len, out.splitlines())) <= 80
    # only the help of these commands explains |V2, the type of bfloat16 values in .npy files
    assert ("|V2" in out) == (name in ("table", "encode", "identify", "export"))


def test_every_option_has_help():
    (commands,) = (action for action in _parser()._actions if action.choices)
    for name, parser in commands.choices.items():
        assert parser.description
        assert [action.dest for action in parser._actions if not action.help] == [], name
    assert all(each.help != commands.choices[each.dest].description for each in commands._choices_actions)


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        run("--version")
    assert (stop.value.code, capsys.readouterr().out) == (0, f"posenc_fast {pf.__version__}\n")


BAD_ARGUMENTS = r"""
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
table 4 -o o.npy | D_MODEL
table four 4 -o o.npy | four
table -4 4 -o o.npy | length must be at least 0, not -4
table 4 4 -o o.npy --start nan | start
table 4 4 -o o.npy --step 1e | 1e
table 4 4 -o o.npy --workers 0 | workers must not be 0
table 4 4 -o o.npy --layout diagonal | diagonal
table 4 4 -o o.npy --functions sin | --functions
table 4 4 -o o.npy --functions sin tan | tan
table 4 4 -o o.npy --frequencies missing.npy | missing.npy: No such file
table 4 4 -o o.npy --frequencies three.npy | frequencies has 3 values
table 4 4 -o no/o.npy | no: the directory does not exist
table 3 4 -o /proc/o.npy | ^/proc(/o\.npy)?: [^:]+\n$
table 4 4 -o o.npy --no-compare | --no-compare
table 4 4 -o . | not a regular file
table 4 4 -o /dev/null | not a regular file; choose another path
table 99999999999999999 64 -o o.npy | 99999999999999999 rows of 64 columns of float32 .* more than a file can have; reduce
identify | TABLE
identify missing.npy | missing.npy: No such file
identify three.npy | table has shape \(3,\), but must have shape \(rows, columns\)
identify three.npy --start 1e | 1e
identify three.npy --start nan | start must be a finite number
presets wisper | no preset 'wisper'; perhaps whisper
presets whisper --search diffusion | leave NAME or --search out
identify three.npy --key pe | three.npy has no keys.*leave --key out
table 4 4 -o o.txt | o.txt must end with .npy, .npz, .csv or .parquet, or --format
table 4 4 -o o | o must end with
table 4 4 -o o.npy --format txt | '?npy'?, '?npz'?, '?csv'?, '?parquet'?
encode three.npy --d-model 4 -o o.csv.gz | o.csv.gz must end with
encode three.npy --d-model 4 -o o.npy --delimiter ; | three.npy is not CSV; leave --delimiter out
encode three.npy -o o.npy | --d-model
encode three.npy --d-model 4 -o o.npy --column 0 | leave --column out
encode three.npy --d-model 4 -o o.npy --workers 0 | workers must not be 0
encode missing.npy --d-model 4 -o o.npy | missing.npy: No such file
encode missing.csv --d-model 4 -o o.npy | missing.csv: No such file
encode three.npy --d-model 4 --keep -o o.csv | three.npy is a .npy file and has no columns; leave --keep
encode three.npy --d-model 4 --keep -o o.npy | --keep needs .*, and npy files have none; choose the format csv or parquet
encode three.npy --d-model 4 --keep -o - --format npz | and npz files have none; choose the format csv or parquet
encode . --d-model 4 -o o.npy | Is a directory|Permission denied
encode three.npy --d-model 4 -o no/o.npy | no: the directory does not exist
"""


@pytest.mark.parametrize("row", BAD_ARGUMENTS.strip().splitlines())
def test_bad_arguments(row, capsys):
    arguments, words = row.replace("/dev/null", os.devnull).split(" | ")
    np.save("three.npy", np.ones(3))
    assert re.search(words, error(capsys, *arguments.split()))
    assert os.listdir() == ["three.npy"]


def test_no_command(monkeypatch, capsys):
    """The command without arguments prints the help."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run() == 0
    printed = capsys.readouterr()
    with pytest.raises(SystemExit):
        run("--help")
    assert printed == capsys.readouterr()
    assert printed.out.startswith("usage: posenc-fast ")
    assert max(map(len, printed.out.splitlines())) <= 80


def test_link_to_a_missing_directory(inside, capsys):
    (inside / "o.npy").symlink_to(inside / "no" / "x.npy")
    assert error(capsys, "table", "4", "4", "-o", "o.npy") == f"{inside / 'no'}: the directory does not exist\n"


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
    ids=["memory", "bytes", "warning"],
)  # fmt: skip
def test_errors_of_the_library(raised, words, monkeypatch, capsys):
    def table(*arguments, **settings):
        raise raised

    monkeypatch.setattr(pf.Encoding, "table", table)
    assert error(capsys, "table", "4000", "8", "-o", "o.npy") == words


def test_bad_environment(capsys):
    process = command("info", env={"POSENC_FAST_BACKEND": "fortran"})
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 2
    assert re.fullmatch(r"posenc-fast: error: .*fortran.*\n", err)


# ---- completion -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, capsys):
    optional("shtab")
    assert run("completion", shell) == 0
    script = capsys.readouterr().out
    for word in ("table", "completion", "freq-shift", "interleaved", *pf.presets.names()):
        assert word in script


@posix
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_completion_in_bash(capsys):
    optional("shtab")
    assert run("completion", "bash") == 0
    Path("pe.npy").touch()
    completed = {
        "enc": "encode",
        "table --la": "--layout",
        "table 4 4 --layout inter": "interleaved",
        "table 4 4 --preset whi": "whisper",
        "presets whi": "whisper",
        "identify p": "pe.npy",
        "export p": "pe.npy",
    }
    script = capsys.readouterr().out
    for words in completed:
        script += f"COMP_WORDS=(posenc-fast {words}) COMP_CWORD={len(words.split())}\n_shtab_posenc_fast\n"
        script += "echo ${COMPREPLY[@]}\n"
    shell = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert shell.stdout.splitlines() == list(completed.values())


def test_completion_errors(monkeypatch, capsys):
    optional("shtab")
    assert "SHELL must be one of 'bash', " in error(capsys, "completion", "bsh")
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert error(capsys, "completion", "bash") == "completion needs the package shtab; run pip install shtab\n"


# ---- signals and exit statuses --------------------------------------------------------------------------------------


def table_long(inside):
    return ["table", "150000", "64", "--dtype", "float16"]


def encode_long(inside):
    np.save(inside / "p.npy", np.arange(400000.0))
    return ["encode", str(inside / "p.npy"), "--d-model", "64", "--dtype", "float16"]


def writes_to(process, folder):
    """Return whether a process writes in a folder: it has an unnamed file open there, or created a hidden file."""
    opened = []
    for each in Path(f"/proc/{process}/fd").glob("*"):
        with contextlib.suppress(OSError):
            opened.append(os.readlink(each))
    return any(name.startswith(f"{folder}/#") for name in opened) or bool(list(folder.glob(".posenc-fast-*")))


def wait_until_it_writes(process, folder):
    deadline = time.monotonic() + 60
    while not writes_to(process.pid, folder) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)


@posix
@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="interrupts are ignored here")
@pytest.mark.parametrize(
    ("arguments", "number", "existing"), [(table_long, signal.SIGINT, True), (encode_long, signal.SIGTERM, False)]
)
def test_signal(arguments, number, existing, inside):
    target = inside / "out"
    target.mkdir()
    if existing:
        (target / "o.npy").write_bytes(b"before")
    # The Python engine is slow enough to be interrupted. A signal can arrive between the opening of a file and the `with`
    # that closes it. Python then closes the file with a warning, which users do not see by default. `command` would
    # turn this warning into an error.
    code = ("-W", "ignore::ResourceWarning", "-m", "posenc_fast")
    process = command(*arguments(inside), "-o", "out/o.npy", code=code, env={"POSENC_FAST_BACKEND": "python"})
    wait_until_it_writes(process, target)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    words = "interrupted" if number == signal.SIGINT else "stopped by SIGTERM"
    assert (process.returncode, out, err.decode()) == (128 + number, b"", f"posenc-fast: error: {words}\n")
    assert [(file.name, file.read_bytes()) for file in target.iterdir()] == [("o.npy", b"before")] * existing


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system has no unnamed files")
def test_nothing_stays_of_a_process_that_is_killed(inside):
    (inside / "out").mkdir()
    process = command(*table_long(inside), "-o", "out/o.npy", env={"POSENC_FAST_BACKEND": "python"})
    wait_until_it_writes(process, inside / "out")
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert os.listdir("out") == []


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
@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="interrupts are ignored here")
@pytest.mark.parametrize(
    ("code", "module"),
    [
        (["-m", "posenc_fast"], "numpy"), (["-mposenc_fast"], "numpy"), (["posenc-fast"], "numpy"),
        (["-m", "other"], "numpy"), (["-c", SCRIPT], "numpy"),
        (["-m", "posenc_fast"], "shtab"),
    ],
)  # fmt: skip
def test_signal_during_imports(code, module, inside):
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
    process = command(*arguments, code=code, env={"PYTHONPATH": path})
    out, err = process.communicate(timeout=60)
    assert out == b""
    if module == "shtab":
        # the command installs its handlers of signals before it imports shtab
        assert (process.returncode, err) == (130, b"posenc-fast: error: interrupted\n")
    elif code[0] == "-c" or code[-1] == "other":
        assert process.returncode == -signal.SIGINT
        assert b"KeyboardInterrupt" in err
    else:
        assert (process.returncode, err) == (-signal.SIGINT, b"")


@posix
def test_signal_while_reading(inside):
    process = command("encode", "-", "--d-model", "4", "-o", "o.npy", stdin=subprocess.PIPE)
    assert process.stdin is not None
    # a pipe's buffer holds fewer bytes, so this write returns only after the process has begun to read
    process.stdin.write(b"1\n" * 500_000)
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert err.endswith(b"posenc-fast: error: stopped by SIGTERM\n")
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
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")


@needs_full
def test_process_with_a_full_standard_output():
    with open("/dev/full", "wb") as full:
        process = command("info", stdout=full)
        err = process.communicate(timeout=60)[1].decode()
    assert (process.returncode, err) == (2, NO_ROOM)


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


COMMANDS = {
    "text": ["info"],
    "npy": ["table", "20000", "64", "--format", "npy"],
    "npz": ["table", "20000", "64", "-o", "-", "--format", "npz"],
    "help": ["encode", "--help"],
    "csv": ["encode", "p.csv", "--d-model", "8", "-o", "-"],
    "parquet": ["table", "20000", "64", "-o", "-", "--format", "parquet"],
}


@posix
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("name", COMMANDS)
def test_standard_output_cannot_be_written(name, unbuffered, capsys):
    if name == "parquet":
        optional("pyarrow")
    Path("p.csv").write_text("1\n" * 20000)
    assert run_into(closed_pipe(), unbuffered, *COMMANDS[name]) == 1
    assert capsys.readouterr().err == ""
    if os.path.exists("/dev/full"):
        assert run_into("/dev/full", unbuffered, *COMMANDS[name]) == 2
        assert capsys.readouterr().err == NO_ROOM


@needs_full
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("existing", [True, False])
def test_no_room_for_the_report(existing, unbuffered, capsys):
    """If standard output is on a full disk, the command fails, and creates or changes no other file."""
    if existing:
        Path("o.npy").write_bytes(b"before")
    assert run_into("/dev/full", unbuffered, "table", "3", "4", "-o", "o.npy") == 2
    assert capsys.readouterr().err == NO_ROOM
    assert os.listdir() == ["o.npy"] * existing
    assert not existing or Path("o.npy").read_bytes() == b"before"


@posix
def test_nobody_reads_the_report(capsys):
    assert run_into(closed_pipe(), False, "table", "3", "4", "-o", "o.npy") == 0
    assert capsys.readouterr().err == ""
    assert os.listdir() == ["o.npy"]


def test_names_that_the_terminal_cannot_print(capsys):
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
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (2, b"", b"posenc-fast: error: standard output is closed\n")


@pytest.mark.parametrize(
    ("stream", "arguments", "message"),
    [
        ("stdin", "encode --d-model 4 -o o.npy", "give INPUT, a file of positions (- is standard input)"),
        ("stdin", "encode - --d-model 4 -o o.npy", "standard input is closed"),
        ("stdout", "info", ""),
        ("stdout", "presets", ""),
        ("stdout", "table 4 4 -o -", "standard output is closed"),
        ("stdout", "encode missing.csv --d-model 4 -o o.npy", "missing.csv: No such file or directory"),
    ],
)
def test_standard_streams_are_closed(stream, arguments, message, monkeypatch, capsys):
    """If standard input or output is closed, only commands that need it fail, with one error."""
    monkeypatch.setattr(sys, stream, None)
    assert run(*arguments.split()) == (2 if message else 0)
    assert capsys.readouterr() == ("", f"posenc-fast: error: {message}\n" if message else "")


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
    assert run("table", "4", "4", "-o", "-", "--format", "npy") == 2
    assert "standard output is a terminal" in capsys.readouterr().err
    assert run("table", "2", "2") == 0
    assert capsys.readouterr().out == "c0,c1\n0,1\n0.841470957,0.540302277\n"


def colourful(monkeypatch):
    """Make standard output and standard error look like a terminal that shows colours."""
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    for name, value in {"TERM": "xterm", "WT_SESSION": "1", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


COLOURED = {
    "error": (["table"], "posenc-fast: \x1b[1;31merror:\x1b[0m the following"),
    "names": (["presets"], " rotary encodings:\x1b[0m\n"),
    "preset": (["presets", "whisper"], "\x1b[1mfrequency i\x1b[0m  "),
    "search": (["presets", "--search", "whisper"], "\x1b[1mwhisper\x1b[0m  "),
    "check": (["check", "pe.npy"], "\x1b[32mright\x1b[0m    pe: "),
}


@pytest.mark.parametrize(("arguments", "words"), COLOURED.values(), ids=COLOURED)
def test_colours(arguments, words, monkeypatch, capsys):
    np.save("pe.npy", pf.presets.whisper(64).table(40))
    colourful(monkeypatch)
    status = run(*arguments)
    printed = "".join(capsys.readouterr())
    assert words in printed
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed)
    assert "\x1b" not in plain
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as environment:
            environment.setenv(name, value)
            assert run(*arguments) == status
            assert "".join(capsys.readouterr()) == plain
    # no colours in pipes
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: False)
    assert run(*arguments) == status
    assert "\x1b" not in "".join(capsys.readouterr())


# HOSTILE: text with control characters that would change the terminal, such as its title or the direction of text.
# ESCAPED: the same text as the command must print it.
HOSTILE = "\x1b]0;owned\x07a\x08\x9b2J\u202eb\u2066c\x7f"
ESCAPED = r"\x1b]0;owned\x07a\x08\x9b2J\u202eb\u2066c\x7f"


def harmless(text):
    assert not [each for each in text if not each.isprintable() and each != "\n"]


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_names_of_arrays_are_escaped(suffix, capsys):
    if suffix == "npz":
        arrays = {HOSTILE: np.zeros((2, 2)), "b": np.zeros((2, 2))}
        np.savez("o.npz", **arrays)
    else:
        safetensors("o.safetensors", {HOSTILE: ("F32", (2, 2), bytes(16)), "b": ("F32", (2, 2), bytes(16))})
    assert run("identify", f"o.{suffix}") == 2
    err = capsys.readouterr().err
    harmless(err)
    assert f"the keys are {ESCAPED}, b" in err


def test_titles_of_columns_are_escaped(capsys):
    pa, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    fields = [pa.field(HOSTILE, pa.int64()), pa.field("s", pa.struct([(HOSTILE, pa.int64())]))]
    parquet.write_table(pa.table([[1], [{HOSTILE: 1}]], pa.schema(fields)), "p.parquet")
    for column in ("0", "1", "2"):
        run("encode", "p.parquet", "--column", column, "--d-model", "4", "-o", "o.npy")
        harmless("".join(capsys.readouterr()))


@posix
def test_names_with_undecodable_bytes_are_escaped(capsys):
    name = os.fsdecode(b"\x1b[2J\xff.npy")
    assert run("table", "3", "4", "-o", name) == 0
    out = capsys.readouterr().out
    harmless(out)
    assert out.startswith(r"wrote \x1b[2J\udcff.npy: ")
    assert run("identify", name) == 2
    harmless(capsys.readouterr().err)


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="no /proc/self/mem here")
@pytest.mark.parametrize(
    "arguments",
    ["encode in --d-model 4", "encode in.npy --d-model 4", "encode in.csv.gz --d-model 4", "export in.json --config"],
)
def test_error_of_reading_names_the_input(arguments, capsys):
    """If INPUT can be opened but not read, the error names INPUT."""
    name = arguments.split()[1]
    # the first page of memory cannot be read
    os.symlink("/proc/self/mem", name)
    assert error(capsys, *arguments.split()) == f"{name}: Input/output error\n"


def test_error_of_reading_names_an_empty_path(capsys):
    assert error(capsys, "identify", "") == ": No such file or directory\n"
