"""Test what commands write: files with the library's values, and no new file after an error."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._cli import csv as _csv
from posenc_fast._cli import encode as _encode
from posenc_fast._cli import output as _output
from posenc_fast._cli import table as _table
from support.command_line import command, error, files, finish, posix, run, same
from support.optional import optional

pytestmark = pytest.mark.usefixtures("inside")

# ---- table ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "options", "encoding", "progression"),
    [
        (8, "", {}, {}),
        (6, "--start -1e1 --step -1e-1", {}, {"start": -10.0, "step": -0.1}),
        (4, "--start 9007199254740993 --step 3", {}, {"start": 2**53 + 1, "step": 3}),
        (4, "--start 18446744073709551585", {}, {"start": 2**64 - 31}),
        (8, "--base 500 --freq-shift 1 --first 2", {"base": 500.0, "freq_shift": 1.0, "first": 2.0}, {}),
        (7, "--layout concatenated --odd zero", {"layout": "concatenated", "odd": "zero"}, {}),
        (6, "--functions cos -sin --scale -2.5", {"functions": ("cos", "-sin"), "scale": -2.5}, {}),
        (6, "--frequencies f.npy", {"frequencies": [1.0, 0.3, 1e-3]}, {}),
        (8, "--dtype float64 --workers -1", {}, {"dtype": np.float64, "workers": -1}),
        (8, "--dtype float16 --precision float32", {}, {"dtype": np.float16, "precision": "float32"}),
    ],
)
def test_table(d, options, encoding, progression, monkeypatch, capsys):
    """The command writes the rows of the library, in blocks of 12 rows."""
    monkeypatch.setattr(_table, "BLOCK", 12 * d)
    np.save("f.npy", [1.0, 0.3, 1e-3])
    expected = pf.sinusoidal(d, **encoding)
    for length in (0, 12, 31):
        assert run("table", str(length), str(d), "-o", "o.npy", *options.split()) == 0
        rows = expected.table(length, **progression)
        same("o.npy", rows)
        size = Path("o.npy").stat().st_size
        assert capsys.readouterr() == (f"wrote o.npy: shape ({length}, {d}), {rows.dtype.name}, {size} bytes\n", "")
    if "--start" not in options:
        positions = np.array([0.0, -0.5, 1e9 + 0.1, np.nan, np.inf, 3e-300])
        np.save("p.npy", positions)
        assert run("encode", "p.npy", "--d-model", str(d), "-o", "o.npy", *options.split()) == 0
        same("o.npy", expected.encode(positions, **progression))


# ---- formats ----------------------------------------------------------------------------------------------------

FORMATS = ("npy", "npz", "csv", "parquet")


def needs(suffix):
    if suffix == "parquet":
        optional("pyarrow.parquet")


def content(file, suffix, dtype):
    """Return the rows of an open file. NumPy reads npy and npz, pyarrow reads parquet, and csv is read as text."""
    if suffix in ("npy", "npz"):
        rows = np.load(file)["encoding"] if suffix == "npz" else np.load(file)
        # bfloat16 values are stored as raw bytes
        assert rows.dtype.str == ("|V2" if dtype.name == "bfloat16" else dtype.str)
        return rows.view(dtype)
    if suffix == "csv":
        first, *lines = file.read().splitlines()
        assert first.split(b",") == [b"c%d" % i for i in range(first.count(b",") + 1)]
        cells = [[float(cell) for cell in line.split(b",")] for line in lines]
        return np.array(cells).reshape(len(lines), -1 if lines else first.count(b",") + 1).astype(dtype)
    table = optional("pyarrow.parquet").read_table(file)
    assert table.column_names == [f"c{i}" for i in range(table.num_columns)]
    return np.stack([column.to_numpy() for column in table.columns], 1)


@pytest.mark.parametrize("count", [0, 22, 23])
@pytest.mark.parametrize(
    ("source", "dtype"), [("table", "float32"), ("table", "bfloat16"), ("p.npy", "float64"), ("p.csv", "float16")]
)
@pytest.mark.parametrize("suffix", FORMATS)
def test_formats(suffix, source, dtype, count, monkeypatch, capfdbinary):
    """Commands write the same rows in each format, to files and to standard output, in blocks of 11 rows.

    Positions from a CSV file, whose number is known only at its end, give the same bytes as those from a .npy file.
    """
    needs(suffix)
    wanted = np.dtype(dtype if dtype != "bfloat16" else optional("ml_dtypes").bfloat16)
    for module in (_table, _encode):
        monkeypatch.setattr(module, "BLOCK", 6 * 11)
    monkeypatch.setattr(_csv, "CELLS", 4)
    positions = np.arange(count) / 4 - 3
    arguments = ["table", str(count), "6", "--start", "-3", "--step", "0.25"]
    if source != "table":
        positions[7:8] = np.nan
        column = ["--column", "t"] if source == "p.csv" else []
        arguments = ["encode", source, *column, "--d-model", "6"]
    np.save("p.npy", positions)
    Path("p.csv").write_text("t\n" + "".join(f"{each}\n" for each in positions))
    options = ["--dtype", dtype, "-o"]
    name = f"o.{suffix.upper()}"
    if (suffix, dtype) == ("parquet", "bfloat16"):
        assert run(*arguments, *options, name) == 2
        assert b"Parquet has no bfloat16; choose another --dtype, or another format" in capfdbinary.readouterr().err
        assert not Path(name).exists()
        return
    assert run(*arguments, *options, name) == 0
    written = Path(name).read_bytes()
    out, err = capfdbinary.readouterr()
    assert out.decode().splitlines()[0] == f"wrote {name}: shape ({count}, 6), {dtype}, {len(written)} bytes"
    assert err == b""
    again = arguments if source == "table" else ["encode", "p.npy", "--d-model", "6"]
    assert run(*again, *options, "other", "--format", suffix) == 0
    assert Path("other").read_bytes() == written
    capfdbinary.readouterr()
    assert run(*arguments, *options, "-", "--format", suffix) == 0
    out, err = capfdbinary.readouterr()
    assert err.decode().splitlines()[0] == f"wrote standard output: shape ({count}, 6), {dtype}"
    # on standard output, an npz archive may have other bytes, because its sizes are written after the array
    assert out == written or suffix == "npz"
    expected = pf.sinusoidal(6).encode(positions, dtype=wanted)
    for data in (written, out):
        got = content(io.BytesIO(data), suffix, wanted)
        np.testing.assert_array_equal(
            got.view(f"u{wanted.itemsize}"), expected.view(f"u{wanted.itemsize}"), strict=True
        )


@pytest.mark.parametrize(
    ("options", "existing"),
    [("-o o.npy", True), ("-o o.npz", False), ("-o o.csv --keep", True), ("-o o.parquet --keep", False)],
)
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


@posix
@pytest.mark.parametrize(("suffix", "unbuffered"), [("npy", "1"), ("npz", "1"), ("parquet", "")])
def test_standard_output_to_a_pipe(suffix, unbuffered):
    """All rows reach a pipe, which cannot seek and may accept only a part of the data at a time."""
    needs(suffix)
    arguments = ("table", "5000", "16", "-o", "-", "--format", suffix)
    status, out, err = finish(command(*arguments, env={"PYTHONUNBUFFERED": unbuffered}))
    assert status == 0, err
    got = content(io.BytesIO(out), suffix, np.dtype(np.float32))
    np.testing.assert_array_equal(got, pf.sinusoidal(16).table(5000))


def test_equal_archives_are_equal_files(monkeypatch):
    assert run("table", "9", "4", "-o", "a.npz") == 0
    monkeypatch.setattr("time.time", lambda: 2e9)
    assert run("table", "9", "4", "-o", "b.npz") == 0
    assert Path("a.npz").read_bytes() == Path("b.npz").read_bytes()


# ---- files: all or nothing ------------------------------------------------------------------------------------------


@posix
def test_mode_and_link_of_output():
    real, link = Path("elsewhere/real.npy"), Path("o.npy")
    real.parent.mkdir()
    real.write_bytes(b"before")
    real.chmod(0o640)
    link.symlink_to(real)
    umask = os.umask(0o027)
    try:
        assert run("table", "3", "4", "-o", "o.npy") == 0
        assert run("table", "3", "4", "-o", "new.npy") == 0
    finally:
        os.umask(umask)
    assert link.is_symlink()
    same("elsewhere/real.npy", pf.sinusoidal(4).table(3))
    assert stat.S_IMODE(real.stat().st_mode) == stat.S_IMODE(Path("new.npy").stat().st_mode) == 0o640
    assert os.listdir("elsewhere") == ["real.npy"]


@pytest.mark.parametrize(
    ("raised", "status", "words", "existing", "nameless"),
    [
        (ValueError("broken"), 2, "p.npy (float64): broken", False, False),
        (MemoryError("broken"), 2, "out of memory: broken", True, False),
        (KeyboardInterrupt(), 130, "interrupted", False, True),
        # None: the file of positions is truncated. With a memory map, SIGBUS would end the process.
        (None, 2, "p.npy cannot be read as a .npy file of numbers: the file ends too early", True, True),
    ],
)
def test_failure_in_the_middle(raised, status, words, existing, nameless, monkeypatch, capsys):
    if nameless and not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no unnamed files")
    if not nameless:
        monkeypatch.setattr(_output, "_created", lambda part: part.open("xb"))
    if existing:
        Path("o.npy").write_bytes(b"before")
    before = files()
    np.save("p.npy", np.arange(500_000.0))
    calls = []
    encode = pf.Encoding.encode

    def breaking(self, positions, **settings):
        calls.append(os.listdir())
        if len(calls) == 4:
            if raised:
                raise raised
            os.truncate("p.npy", 4096)
        return encode(self, positions, **settings)

    monkeypatch.setattr(pf.Encoding, "encode", breaking)
    monkeypatch.setattr(_encode, "BLOCK", 4 * 100_000)
    assert run("encode", "p.npy", "--d-model", "4", "-o", "o.npy") == status
    assert capsys.readouterr().err.startswith(f"posenc-fast: error: {words}")
    os.unlink("p.npy")
    # while the command wrote, the folder contained one more file, unless the system supports unnamed files
    assert len(calls[-1]) == len(before) + 1 + (not nameless)
    assert files() == before


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
@pytest.mark.parametrize(
    ("arguments", "existing", "suffix"),
    [
        *(("table 9999 64", True, suffix) for suffix in FORMATS),
        *(("encode p.csv --d-model 64", False, suffix) for suffix in FORMATS),
        ("encode p.csv --d-model 1", False, "npz"),
    ],
)
def test_disk_full(arguments, existing, suffix, capsys):
    """If rows, or positions that are counted before, do not fit on the disk, no new file remains.

    An .npz file begins with the number of rows. So the command first reads all positions into an unnamed file.
    """
    import resource

    needs(suffix)
    out = f"o.{suffix}"
    Path("p.csv").write_text("1\n" * 30_000)
    if existing:
        Path(out).write_bytes(b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        assert error(capsys, *arguments.split(), "-o", out) == f"{out}: File too large\n"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@posix
@pytest.mark.parametrize("name", ["ENOSPC", "EFBIG", "EDQUOT", "EOPNOTSUPP"])
def test_disk_full_is_reported_before_the_computation(name, monkeypatch, capsys):
    """The command reserves room for a table, if the file system can. It computes no rows for a full disk."""
    code, requests = getattr(errno, name), []

    def allocate(file, begin, size):
        requests.append(begin + size)
        raise OSError(code, os.strerror(code))

    def table(self, length, **settings):
        assert length == 0, "the command computed rows for a full disk"

    monkeypatch.setattr(os, "posix_fallocate", allocate, raising=False)
    arguments = ["table", "1000", "64", "-o", "o.npy"]
    if name == "EOPNOTSUPP":
        assert run(*arguments) == 0
        same("o.npy", pf.sinusoidal(64).table(1000))
    else:
        monkeypatch.setattr(pf.Encoding, "table", table)
        assert error(capsys, *arguments) == f"o.npy: {os.strerror(code)}\n"
        assert requests == [128 + 1000 * 64 * 4]


@contextlib.contextmanager
def unprivileged(*arguments):
    """Be the user `nobody` if the tests run as root, who may read and write all files.

    arguments: a command to run before, so that it imports all modules, whose files `nobody` may be unable to read.
    """
    if os.getuid():
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        run(*arguments, "-o", os.path.join(folder, "o.npy"))
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def public():
    """Return a folder that `nobody` may enter, with two files, unlike the folders of pytest."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("o.npy").write_bytes(b"before")
        Path("p.csv").write_text("1\n")
        yield Path(folder)
        Path(folder).chmod(0o777)


@posix
@pytest.mark.parametrize(
    ("arguments", "modes", "words"),
    [
        ("table 3 4 -o new.npy", {".": 0o555}, "new.npy: Permission denied in its directory"),
        ("table 3 4 -o o.npy", {".": 0o555, "o.npy": 0o666}, "o.npy: Permission denied in its directory"),
        ("table 3 4 -o o.npy", {".": 0o777, "o.npy": 0o444}, "o.npy: Permission denied"),
        *((f"encode {name} --d-model 4 -o o.npy", {".": 0o777, "o.npy": 0o666, name: 0}, f"{name}: Permission denied")
          for name in ("p.csv", "p.npy", "p.parquet", "p.csv.gz")),
    ],
)  # fmt: skip
def test_no_permission(arguments, modes, words, public, capsys):
    if "parquet" in arguments:
        needs("parquet")
    for name, mode in modes.items():
        Path(name).touch()
        Path(name).chmod(mode)
    with unprivileged("encode", "p.csv", "--d-model", "2"):
        capsys.readouterr()
        assert error(capsys, *arguments.split()) == words + "\n"


# ---- memory ---------------------------------------------------------------------------------------------------------


PEAK = """
import resource, sys
from posenc_fast.__main__ import main
from posenc_fast._cli import encode
encode.MOST_ROWS = 1 << 15
status = main()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1), file=sys.stderr)
sys.exit(status)
"""


def peak(*arguments):
    """Run a command and return how much memory it used at most, without mapped pages of o.npy, in kilobytes."""
    status, _, err = finish(command(*arguments, code=["-c", PEAK]))
    assert status == 0, err
    output = Path("o.npy")
    size = output.stat().st_size if output.exists() else 0
    output.unlink(missing_ok=True)
    return int(err) - size // 1024


@posix
@pytest.mark.parametrize("column", ["calendar", "kept"])
def test_memory_is_bounded(column):
    """`encode` needs about the same memory for many rows as for few."""
    calendar = ["--periods", "month", "--timezone", "Asia/Tokyo", "-o", "o.npy"]
    options = {"calendar": calendar, "kept": ["--d-model", "2", "-o", "o.csv", "--keep"]}[column]
    peaks = []
    for count in (50_000, 350_000):
        with open("p.csv", "w") as file:
            file.write("name,time\n")
            for i in range(count):
                date = f"2026-01-01T{i % 24:02d}:{i % 60:02d}:00.{i % 10**6:06d}Z"
                file.write(f"some text beside it,{date if column == 'calendar' else 1.7e9 + i / 8}\n")
        peaks.append(peak("encode", "p.csv", "--column", "time", *options, "--dtype", "float16"))
    # the cells of 300 000 dates, as strings, would take 25 MB
    assert peaks[1] - peaks[0] < 15_000


@posix
def test_table_memory_is_bounded():
    few, many = (peak("table", n, "64", "--dtype", "float16", "-o", "o.npy") for n in ("200000", "1000000"))
    # a float64 array of the size of the whole table would take 512 MB
    assert many - few < 50_000
