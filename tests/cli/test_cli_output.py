"""Test what commands write: files with the library's values, and no new file after an error."""

from __future__ import annotations

import errno
import io
import os
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import reference
from posenc_fast._cli import csv as _csv
from posenc_fast._cli import encode as _encode
from posenc_fast._cli import output as _output
from posenc_fast._cli import table as _table
from posenc_fast._selfcheck.speed import formula
from support.command_line import command, error, posix, run, same
from support.optional import optional

pytestmark = pytest.mark.usefixtures("inside")

# ---- table ----------------------------------------------------------------------------------------------------------


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
def test_table(d, options, encoding, progression, backend, capsys):
    np.save("f.npy", [1.0, 0.3, 1e-3])
    assert run("table", "31", str(d), "-o", "o.npy", *options.split()) == 0
    expected = pf.sinusoidal(d, **encoding).table(31, **progression)
    same("o.npy", expected)
    size = Path("o.npy").stat().st_size
    assert capsys.readouterr() == (f"wrote o.npy: shape (31, {d}), {expected.dtype.name}, {size} bytes\n", "")


@pytest.mark.parametrize("d", [1, 2, 7, 8])
def test_tutorial(d):
    table = formula(pf.sinusoidal(d), np.arange(50.0))
    np.testing.assert_allclose(table, reference.vaswani_numpy(50, d), rtol=0, atol=1e-14)
    zero = formula(pf.sinusoidal(d, odd="zero", scale=3.0, layout="concatenated"), np.arange(50.0))
    expected = pf.sinusoidal(d, odd="zero", scale=3.0, layout="concatenated").table(50, dtype=np.float64)
    np.testing.assert_allclose(zero, expected, rtol=0, atol=3e-14)


@pytest.mark.parametrize("options", ["", "--start 9007199254740993 --step 3", "--start 0.1 --step 0.7"])
@pytest.mark.parametrize("length", [12, 13, 61])
def test_table_in_blocks(length, options, backend, monkeypatch):
    assert run("table", str(length), "4", "-o", "whole.npy", *options.split()) == 0
    monkeypatch.setattr(_table, "BLOCK", 48)
    assert run("table", str(length), "4", "-o", "blocks.npy", *options.split()) == 0
    same("blocks.npy", np.load("whole.npy"))


def test_bfloat16(capsys):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert run("table", "9", "4", "-o", "o.npy", "--dtype", "bfloat16") == 0
    raw = np.load("o.npy")
    assert raw.dtype.str == "|V2"
    expected = pf.sinusoidal(4).table(9, dtype=ml_dtypes.bfloat16)
    np.testing.assert_array_equal(raw.view(ml_dtypes.bfloat16), expected)
    np.save("p.npy", np.arange(9))
    assert run("encode", "p.npy", "--d-model", "4", "-o", "e.npy", "--dtype", "bfloat16") == 0
    np.testing.assert_array_equal(np.load("e.npy").view(ml_dtypes.bfloat16), expected)


# ---- formats ----------------------------------------------------------------------------------------------------

FORMATS = ("npy", "npz", "csv", "parquet")
DTYPES = ("float64", "float32", "float16", "bfloat16")


def needs(suffix):
    if suffix == "parquet":
        optional("pyarrow.parquet")


def content(file, suffix, dtype):
    """Return the rows of an open file. NumPy reads npy and npz, pyarrow reads parquet, and csv is read as text."""
    if suffix in ("npy", "npz"):
        rows = np.load(file)
        return (rows["encoding"] if suffix == "npz" else rows).view(dtype)
    if suffix == "csv":
        first, *lines = file.read().splitlines()
        assert first.split(b",") == [b"c%d" % i for i in range(first.count(b",") + 1)]
        cells = [[float(cell) for cell in line.split(b",")] for line in lines]
        return np.array(cells).reshape(len(lines), -1 if lines else first.count(b",") + 1).astype(dtype)
    table = optional("pyarrow.parquet").read_table(file)
    assert table.column_names == [f"c{i}" for i in range(table.num_columns)]
    return np.stack([column.to_numpy() for column in table.columns], 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("command_name", ["table", "encode"])
def test_formats(command_name, suffix, dtype, monkeypatch, capfdbinary):
    """Commands write the same rows in each format, to files and to standard output.

    The suffix of the file or --format sets the format. The rows are written in several blocks.
    """
    needs(suffix)
    wanted = np.dtype(dtype) if dtype != "bfloat16" else np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    positions = np.arange(-3.0, 98.0)
    if command_name == "encode":
        positions[7] = np.nan
    np.save("p.npy", positions)
    arguments = {"table": ["table", "101", "6", "--start", "-3"], "encode": ["encode", "p.npy", "--d-model", "6"]}
    full = [*arguments[command_name], "--dtype", dtype]
    for module in (_table, _encode):
        monkeypatch.setattr(module, "BLOCK", 6 * 11)
    if (suffix, dtype) == ("parquet", "bfloat16"):
        assert run(*full, "-o", "o.parquet") == 2
        assert b"Parquet has no bfloat16; choose another --dtype, or another format" in capfdbinary.readouterr().err
        assert os.listdir() == ["p.npy"]
        return
    assert run(*full, "-o", f"o.{suffix.upper()}") == 0
    out, err = capfdbinary.readouterr()
    assert err == b""
    size = Path(f"o.{suffix.upper()}").stat().st_size
    assert out.decode().splitlines()[0] == f"wrote o.{suffix.upper()}: shape (101, 6), {dtype}, {size} bytes"
    assert run(*full, "-o", "other", "--format", suffix) == 0
    capfdbinary.readouterr()
    assert run(*full, "-o", "-", "--format", suffix) == 0
    out, err = capfdbinary.readouterr()
    assert err.decode().splitlines()[0] == f"wrote standard output: shape (101, 6), {dtype}"
    expected = pf.sinusoidal(6).encode(positions, dtype=wanted)
    for data in (Path(f"o.{suffix.upper()}").read_bytes(), Path("other").read_bytes(), out):
        got = content(io.BytesIO(data), suffix, wanted)
        np.testing.assert_array_equal(got.view(f"u{wanted.itemsize}"), expected.view(f"u{wanted.itemsize}"))


@pytest.mark.parametrize("rows", [0, 1, 22, 23])
@pytest.mark.parametrize("suffix", FORMATS)
def test_text_makes_the_same_bytes(suffix, rows, monkeypatch, capfdbinary):
    """Positions from a CSV file give the same output bytes as positions from a .npy file.

    The number of rows is known only at the end of a CSV file, but at the start of a .npy file.
    An npz archive on standard output may have other bytes.
    """
    needs(suffix)
    monkeypatch.setattr(_encode, "BLOCK", 6 * 11)
    monkeypatch.setattr(_csv, "CELLS", 4)
    positions = np.arange(rows) / 4
    np.save("p.npy", positions)
    Path("p.csv").write_text("t\n" + "".join(f"{each}\n" for each in positions))
    options = ["--d-model", "6", "--format", suffix]
    assert run("encode", "p.npy", *options, "-o", "expected") == 0
    assert run("encode", "p.csv", "--column", "t", *options, "-o", "o") == 0
    report = f"wrote o: shape ({rows}, 6), float32, {Path('o').stat().st_size} bytes"
    assert report in capfdbinary.readouterr().out.decode()
    assert Path("o").read_bytes() == Path("expected").read_bytes()
    assert run("encode", "p.csv", "--column", "t", *options, "-o", "-") == 0
    out, err = capfdbinary.readouterr()
    # on standard output, an npz archive may have other bytes, because its sizes are written after the array
    assert out == Path("expected").read_bytes() or suffix == "npz"
    assert content(io.BytesIO(out), suffix, np.dtype(np.float32)).shape == (rows, 6)
    assert err.decode().startswith(f"wrote standard output: shape ({rows}, 6), float32")


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("options", ["-o o.npy", "-o o.npz", "-o o.csv", "-o o.csv --keep", "-o o.parquet --keep"])
def test_bad_cell_after_some_rows(options, existing, monkeypatch, capsys):
    """If a cell is invalid after some rows were written, no new file remains, and an existing file is unchanged."""
    name = options.split()[1]
    needs(Path(name).suffix[1:])
    monkeypatch.setattr(_encode, "BLOCK", 8)
    if existing:
        Path(name).write_bytes(b"before")
    Path("p.csv").write_text("t\n" + "1\n" * 20 + "x\n")
    err = error(capsys, "encode", "p.csv", "--column", "t", "--d-model", "4", *options.split())
    assert err == "p.csv, line 22: 'x' is neither a number nor an ISO date\n"
    assert sorted(os.listdir()) == [*[name] * existing, "p.csv"]
    assert not existing or Path(name).read_bytes() == b"before"


def test_all_missing_cells_are_counted(monkeypatch, capsys):
    monkeypatch.setattr(_encode, "BLOCK", 8)
    Path("p.csv").write_text("1\nnan\n3\n" * 5)
    assert run("encode", "p.csv", "--d-model", "4", "-o", "o.npy") == 0
    assert "positions: p.csv, column 0, 5 missing\n" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", FORMATS)
def test_no_rows(suffix, capsys):
    needs(suffix)
    assert run("table", "0", "4", "-o", f"o.{suffix}") == 0
    Path("p.csv").write_text("t\n")
    assert run("encode", "p.csv", "--column", "t", "--d-model", "4", "-o", f"e.{suffix}") == 0
    for name in ("o", "e"):
        with open(f"{name}.{suffix}", "rb") as file:
            assert content(file, suffix, np.dtype(np.float32)).shape == (0, 4)


@pytest.mark.parametrize("options", [[], ["-o", "-"]], ids=["none", "-"])
def test_standard_output_is_csv(options, capfdbinary):
    assert run("table", "9", "4", "-o", "o.csv") == 0
    capfdbinary.readouterr()
    np.save("p.npy", np.arange(9))
    for arguments in (["table", "9", "4"], ["encode", "p.npy", "--d-model", "4"]):
        assert run(*arguments, *options) == 0
        assert capfdbinary.readouterr().out == Path("o.csv").read_bytes()


@posix
@pytest.mark.parametrize(("suffix", "unbuffered"), [*((suffix, "") for suffix in FORMATS), ("npy", "1"), ("npz", "1")])
def test_standard_output_to_a_pipe(suffix, unbuffered):
    """All rows reach a pipe, which cannot seek and may accept only a part of the data at a time."""
    needs(suffix)
    arguments = ("table", "5000", "16", "-o", "-", "--format", suffix)
    process = command(*arguments, env={"PYTHONUNBUFFERED": unbuffered})
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    got = content(io.BytesIO(out), suffix, np.dtype(np.float32))
    np.testing.assert_array_equal(got, pf.sinusoidal(16).table(5000))


def test_equal_archives_are_equal_files(monkeypatch):
    assert run("table", "9", "4", "-o", "a.npz") == 0
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert run("table", "9", "4", "-o", "b.npz") == 0
    assert Path("a.npz").read_bytes() == Path("b.npz").read_bytes()


# ---- files: all or nothing ------------------------------------------------------------------------------------------


@posix
def test_mode_and_link_of_output(inside):
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


@pytest.mark.parametrize("nameless", [True, False], ids=["nameless", "named"])
@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("raised", [ValueError("broken"), MemoryError("broken"), KeyboardInterrupt()])
def test_failure_in_the_middle(raised, existing, nameless, monkeypatch, capsys):
    if nameless and not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no unnamed files")
    if not nameless:
        monkeypatch.setattr(_output, "_created", lambda part: part.open("xb"))
    np.save("p.npy", np.arange(100.0))
    if existing:
        Path("o.npy").write_bytes(b"before")
    before = sorted(os.listdir())
    calls = []
    encode = pf.Encoding.encode

    def breaking(self, positions, **settings):
        calls.append(sorted(os.listdir()))
        if len(calls) == 4:
            raise raised
        return encode(self, positions, **settings)

    monkeypatch.setattr(pf.Encoding, "encode", breaking)
    monkeypatch.setattr(_encode, "BLOCK", 40)
    status = 130 if isinstance(raised, KeyboardInterrupt) else 2
    assert run("encode", "p.npy", "--d-model", "4", "-o", "o.npy") == status
    # while the command wrote, the folder contained one more file, unless the system supports unnamed files
    assert len(calls[-1]) == len(before) + (not nameless)
    assert sorted(os.listdir()) == before
    assert not existing or Path("o.npy").read_bytes() == b"before"
    assert capsys.readouterr().err.startswith("posenc-fast: error: ")


@pytest.mark.parametrize("there", ["system", "folder", "link"])
def test_without_nameless_files(there, monkeypatch):
    """`table` also works if the system or the folder has no unnamed files, or if such a file cannot get a name."""

    def link(*names, **folders):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    if there == "link":
        monkeypatch.setattr(os, "link", link)
    elif there == "system":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    else:
        # open fails, as on file systems without unnamed files
        monkeypatch.setattr(os, "O_TMPFILE", os.O_CREAT | os.O_EXCL, raising=False)
    for _ in range(2):
        assert run("table", "3", "4", "-o", "o.npy") == 0
        same("o.npy", pf.sinusoidal(4).table(3))
        assert os.listdir() == ["o.npy"]


@posix
def test_line_feeds_in_names(capsys):
    """The report prints each file name on one line, with escapes for line breaks and control characters."""
    Path("p\nq.csv").write_text("1\n2\n")
    assert run("encode", "p\nq.csv", "--d-model", "4", "-o", "a\nwrote b\x1b[1m.npy") == 0
    out, err = capsys.readouterr()
    assert err == ""
    written = "wrote a\\nwrote b\\x1b[1m.npy: shape (2, 4), float32, 160 bytes"
    assert out.splitlines() == [written, "positions: p\\nq.csv, column 0"]
    assert "a\nwrote b\x1b[1m.npy" in os.listdir()


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
from posenc_fast.__main__ import main
sys.exit(main())
"""


@posix
@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(("arguments", "existing"), [("table 9999 64", True), ("encode p.csv --d-model 64", False)])
def test_disk_full(arguments, existing, suffix):
    needs(suffix)
    Path("p.csv").write_text("1\n" * 9999)
    before = {"p.csv"}
    if existing:
        Path(f"o.{suffix}").write_bytes(b"before")
        before.add(f"o.{suffix}")
    process = command(*arguments.split(), "-o", f"o.{suffix}", code=["-c", LIMITED])
    err = process.communicate(timeout=60)[1].decode()
    assert (process.returncode, err) == (2, f"posenc-fast: error: o.{suffix}: File too large\n")
    assert set(os.listdir()) == before
    assert not existing or Path(f"o.{suffix}").read_bytes() == b"before"


@posix
def test_disk_full_of_positions():
    """If the positions of a CSV file do not fit on the disk, the command prints an error of one line.

    An .npz file begins with the number of rows. So the command first reads all positions into an unnamed file.
    """
    Path("p.csv").write_text("1\n" * 20000)
    process = command("encode", "p.csv", "--d-model", "1", "-o", "o.npz", code=["-c", LIMITED])
    err = process.communicate(timeout=60)[1].decode()
    assert (process.returncode, err) == (2, "posenc-fast: error: o.npz: File too large\n")
    assert os.listdir() == ["p.csv"]


@posix
@pytest.mark.parametrize("number", ["ENOSPC", "EFBIG", "EDQUOT"])
def test_disk_full_is_reported_before_the_computation(number, monkeypatch, capsys):
    code, requests = getattr(errno, number), []

    def allocate(file, begin, size):
        requests.append(begin + size)
        raise OSError(code, os.strerror(code))

    def table(self, length, **settings):
        assert length == 0, "the command computed rows for a full disk"

    monkeypatch.setattr(os, "posix_fallocate", allocate, raising=False)
    monkeypatch.setattr(pf.Encoding, "table", table)
    assert error(capsys, "table", "1000", "64", "-o", "o.npy") == f"o.npy: {os.strerror(code)}\n"
    assert requests == [128 + 1000 * 64 * 4]
    assert os.listdir() == []


@posix
def test_file_systems_that_reserve_nothing(monkeypatch):
    def allocate(*arguments):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", allocate, raising=False)
    assert run("table", "1000", "64", "-o", "o.npy") == 0
    same("o.npy", pf.sinusoidal(64).table(1000))


# Root may write everywhere, so a test that runs as root continues as user nobody. The program first runs two commands,
# which import all modules, because the files of the modules may be unreadable for user nobody.
UNPRIVILEGED = """
import contextlib, locale, os, sys, tempfile
from posenc_fast.__main__ import main
with contextlib.suppress(ImportError):
    import pyarrow.parquet
with tempfile.TemporaryDirectory() as folder:
    positions, out = os.path.join(folder, "p.csv"), os.path.join(folder, "o.npy")
    with open(positions, "w") as file:
        file.write("1")
    main(["encode", positions, "--d-model", "2", "-o", out])
    main(["table", "1", "2", "-o", out])
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
sys.exit(main())
"""


@posix
@pytest.mark.parametrize(
    ("arguments", "name", "modes", "words"),
    [
        ("table 3 4", "new", {".": 0o555}, "Permission denied in its directory"),
        ("table 3 4", "o", {".": 0o555, "o": 0o666}, "Permission denied in its directory"),
        ("table 3 4", "o", {".": 0o777, "o": 0o444}, "Permission denied"),
        ("encode p.csv --d-model 4", "o", {".": 0o555, "o": 0o666}, "Permission denied in its directory"),
    ],
)
def test_no_permission(arguments, name, modes, words):
    # the program may run as the user `nobody`, who must be able to enter the folder, but cannot enter those of pytest
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "o.npy")
        target.write_bytes(b"before")
        Path(folder, "p.csv").write_text("1\n")
        for file, mode in modes.items():
            (target if file == "o" else Path(folder)).chmod(mode)
        process = command(*arguments.split(), "-o", f"{name}.npy", code=["-c", UNPRIVILEGED], cwd=folder)
        err = process.communicate(timeout=60)[1].decode()
        assert (process.returncode, err) == (2, f"posenc-fast: error: {name}.npy: {words}\n")
        assert sorted(os.listdir(folder)) == ["o.npy", "p.csv"]
        assert target.read_bytes() == b"before"
        Path(folder).chmod(0o755)


@posix
def test_no_permission_to_read():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        for name in ("p.csv", "p.npy", "p.parquet", "p.csv.gz"):
            Path(folder, name).write_bytes(b"")
            Path(folder, name).chmod(0)
            if name == "p.parquet":
                needs("parquet")
            process = command("encode", name, "--d-model", "4", "-o", "o.npy", code=["-c", UNPRIVILEGED], cwd=folder)
            err = process.communicate(timeout=60)[1].decode()
            assert (process.returncode, err) == (2, f"posenc-fast: error: {name}: Permission denied\n")


# ---- memory ---------------------------------------------------------------------------------------------------------


PEAK = """
import resource, sys
from posenc_fast.__main__ import main
status = main()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1), file=sys.stderr)
sys.exit(status)
"""


def peak(*arguments):
    """Run a command and return the largest amount of memory that it used, in kilobytes."""
    process = command(*arguments, code=["-c", PEAK])
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 0, err
    return int(err)


@posix
@pytest.mark.parametrize("column", ["number", "date", "calendar", "kept"])
def test_memory_is_bounded(column):
    """`encode` needs about the same memory for many rows as for few, apart from mapped pages of the output file."""
    few, many = (150_000, 600_000) if column == "kept" else (50_000, 1_000_000)
    out = ["o.csv", "--keep"] if column == "kept" else ["o.npy"]
    calendar = ["--periods", "month", "--timezone", "Asia/Tokyo"]
    options = {"calendar": calendar, "date": ["--periods", "12h"]}.get(column, ["--d-model", "2"])
    dates = column in ("date", "calendar")
    peaks = {}
    for count in (few, many):
        with open("p.csv", "w") as file:
            file.write("name,time\n")
            for i in range(count):
                date = f"2026-01-01T{i % 24:02d}:{i % 60:02d}:00.{i % 10**6:06d}Z"
                file.write(f"some text beside it,{date if dates else 1.7e9 + i / 8}\n")
        peaks[count] = peak("encode", "p.csv", "--column", "time", *options, "--dtype", "float16", "-o", *out)
        if column != "kept":
            assert np.load("o.npy", mmap_mode="r").shape == (count, 2)
    output = Path(out[0]).stat().st_size // 1024 if column != "kept" else 0
    # a list of the cells as strings would take 70 MB
    assert peaks[many] - peaks[few] < output + 25_000


@posix
def test_table_memory_is_bounded():
    """`table` needs about the same memory for many rows as for few, apart from mapped pages of the output file."""
    peaks = {}
    for length in (200_000, 1_000_000):
        used = peak("table", str(length), "64", "--dtype", "float16", "-o", "o.npy")
        peaks[length] = used - Path("o.npy").stat().st_size // 1024
    os.unlink("o.npy")
    # a float64 array of the size of the whole table would take 512 MB
    assert peaks[1_000_000] - peaks[200_000] < 50_000
