"""Test `posenc-fast encode --periods`: calendar cycles in any timezone, and fixed periods, from every file format."""

from __future__ import annotations

import csv
import os
import re
import zoneinfo
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._cli import encode as _encode
from support.command_line import error, run, same
from support.optional import optional

if not zoneinfo.available_timezones():
    optional("tzdata")

pytestmark = pytest.mark.usefixtures("inside")

TIMES = np.array(["2026-03-29T00:17:59.999999", "NaT", "2026-03-29T01:00", "1969-12-31T18:00"], "M8[us]")
CYCLES = ["day", "week", "month", "quarter", "year"]


def expected(times, cycles, timezone=None):
    """Return the expected rows: for each cycle, the sine and cosine of the elapsed part of the cycle."""
    turn = pf.fourier_features(pf.periodic([1]))
    parts = pf.presets.positions.calendar(times, cycles, timezone=timezone)
    return turn.encode(parts).reshape(len(parts), -1)


def written(times, offset="", hours=0):
    """Write p.csv with the times of a clock that is some hours ahead of UTC.

    offset: text after each time, such as "Z".
    """
    local = times.astype("M8[us]") + np.timedelta64(hours, "h")
    local = ["" if np.isnat(each) else f"{each}{offset}" for each in local]
    Path("p.csv").write_text("n,time\n" + "".join(f"{i},{each}\n" for i, each in enumerate(local)))


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "Australia/Lord_Howe"])
def test_csv(zone):
    written(TIMES)
    options = ["--periods", "day,week, month,quarter,year", *(["--timezone", zone] if zone else [])]
    assert run("encode", "p.csv", "--column", "time", *options, "-o", "o.npy") == 0
    same("o.npy", expected(TIMES, CYCLES, zone))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_are_named_by_their_cycles(suffix):
    written(TIMES)
    options = ["--column", "time", "--periods", "day,12h,86400s", "--layout", "concatenated", "--keep"]
    names = ["n", "time", "day_sin", "12h_sin", "86400s_sin", "day_cos", "12h_cos", "86400s_cos"]
    if suffix == "parquet":
        frame = optional("pyarrow.parquet")
        assert run("encode", "p.csv", *options, "-o", "o.parquet") == 0
        assert frame.read_table("o.parquet").column_names == names
        return
    assert run("encode", "p.csv", *options, "-o", "o.csv") == 0
    with open("o.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == names
    made = np.array(rows[1:])[:, 2:].astype(np.float32)
    np.testing.assert_array_equal(made[:, [0, 3]], expected(TIMES, ["day"]))
    np.testing.assert_array_equal(made[:, 0], made[:, 2])
    np.testing.assert_array_equal(made[:, [1, 4]], pf.fourier_features(pf.periodic(["12h"])).encode(TIMES))


def test_offsets_are_local_times():
    written(TIMES, "+05:30", 5)
    assert run("encode", "p.csv", "--column", "time", "--periods", "day,month", "-o", "o.npy") == 0
    same("o.npy", expected(TIMES + np.timedelta64(5, "h"), ["day", "month"]))
    assert run("encode", "p.csv", "--column", "time", "--periods", "day", "--timezone", "UTC", "-o", "o.npy") == 0
    same("o.npy", expected(TIMES - np.timedelta64(30, "m"), ["day"]))
    # the phase of a period that is a length, such as 12h, is counted in UTC
    assert run("encode", "p.csv", "--column", "time", "--periods", "12h", "-o", "o.npy") == 0
    same("o.npy", pf.fourier_features(pf.periodic(["12h"])).encode(TIMES - np.timedelta64(30, "m")))


def test_two_clocks_are_not_guessed(capsys):
    written(TIMES, "+02:00", 2)
    arguments = ["encode", "p.csv", "--column", "time", "--periods", "day,12h", "-o", "o.npy"]
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert "p.csv, line 2: '2026-03-29T02:17:59.999999+02:00' has a UTC offset, but --periods has both" in error
    assert os.listdir() == ["p.csv"]
    assert run(*arguments, "--timezone", "Europe/Berlin") == 0
    same("o.npy", expected_beside(TIMES, "Europe/Berlin"))
    written(TIMES, "Z")
    assert run(*arguments) == 0
    same("o.npy", expected_beside(TIMES, None))


def expected_beside(times, zone):
    return np.hstack([expected(times, ["day"], zone), pf.fourier_features(pf.periodic(["12h"])).encode(times)])


def test_npy_and_parquet():
    np.save("p.npy", TIMES)
    assert run("encode", "p.npy", "--periods", "year", "--timezone", "Asia/Tokyo", "-o", "o.npy") == 0
    same("o.npy", expected(TIMES, ["year"], "Asia/Tokyo"))
    pa = optional("pyarrow")
    for zone in (None, "Asia/Tokyo", "+09:00"):
        table = pa.table({"t": pa.array(TIMES, pa.timestamp("us", zone))})
        optional("pyarrow.parquet").write_table(table, "p.parquet", row_group_size=2)
        assert run("encode", "p.parquet", "--periods", "day,year", "-o", "o.npy") == 0
        same("o.npy", expected(TIMES, ["day", "year"], "Asia/Tokyo" if zone else None))


def test_blocks(monkeypatch, rng):
    """Encode several blocks of rows, with missing cells, and with times in microseconds and in nanoseconds."""
    times = rng.integers(-(2**60), 2**60, 1000).view("M8[ns]")
    times[::3] = times[::3].astype("M8[us]")
    times[rng.integers(0, 1000, 30)] = "NaT"
    Path("p.csv").write_text("t\n" + "".join("nan\n" if np.isnat(each) else f"{each}\n" for each in times))
    monkeypatch.setattr(_encode, "BLOCK", 4 * 97)
    assert run("encode", "p.csv", "--periods", "month,year", "--timezone", "America/New_York", "-o", "o.npy") == 0
    same("o.npy", expected(times, ["month", "year"], "America/New_York"))


def test_only_missing_cells():
    Path("p.csv").write_text("t\nnan\n\nnan\n")
    assert run("encode", "p.csv", "--column", "t", "--periods", "day", "-o", "o.npy") == 0
    same("o.npy", np.full((2, 2), np.nan, np.float32))


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("csv", "--d-model 64", "are timestamps; pass --periods, such as --periods day,week, without --d-model"),
        ("npy", "--d-model 64", "pass --periods"),
        ("parquet", "--d-model 64", "pass --periods"),
        ("csv", "--d-model 64 --base 500 --first 2", "pass --periods"),
        ("csv", "--preset diffusers_timesteps --d-model 8", "pass --periods"),
        ("csv", "--periods 24", "periods has 24 without a unit, but positions has timestamps; .*'day', .*'24h'"),
        ("npy", "--periods 0.5,86400", "periods has 0.5 without a unit"),
        ("parquet", "--periods day,24", "24"),
    ],
)
def test_times_need_periods_with_a_unit(kind, options, words, capsys):
    file = f"p.{kind}"
    if kind == "csv":
        Path(file).write_text("nan\n2026-01-01\n")
    elif kind == "npy":
        np.save(file, TIMES)
    else:
        pa = optional("pyarrow")
        optional("pyarrow.parquet").write_table(pa.table({"t": pa.array(TIMES)}), file)
    assert re.search(words, error(capsys, "encode", file, *options.split(), "-o", "o.npy"))
    assert os.listdir() == [file]


def test_lengths_of_numbers():
    Path("p.csv").write_text("hour\n0\n6\n12\n")
    assert run("encode", "p.csv", "--periods", "24", "-o", "o.npy") == 0
    same("o.npy", np.float32([[0, 1], [1, 0], [0, -1]]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--column time --periods dya", "periods has 'dya'.*did you mean 'day'"),
        ("--column time --periods ,", "periods must have at least one"),
        ("--column time --periods day --timezone Europe/Berln", "'Europe/Berln'.*did you mean 'Europe/Berlin'"),
        ("--column time --periods 12h --timezone Europe/Berlin", "timezone='Europe/Berlin' needs a calendar cycle"),
        ("--column time --timezone Europe/Berlin --d-model 4", "--timezone is for the cycles of --periods"),
        ("--column time --periods day --d-model 4", "--periods excludes --d-model"),
        ("--column time --periods day --preset vaswani2017", "--periods excludes --preset"),
        ("--column time --periods day --freq-shift 1", "--periods excludes --freq-shift"),
        ("--column n --periods day,month", "'n': positions has numbers, but the cycle 'month' needs timestamps"),
        ("--column late --periods day", "p.csv, column 'late': positions has .*, but the calendar supports .* 9999"),
    ],
)
def test_bad_cycles(options, words, capsys):
    """Bad cycles, and positions that have no cycles, raise an error before the command writes anything."""
    Path("p.csv").write_text("n,time,late\n1,2026-01-01,9999-12-31T23:30-01:00\n2,2026-01-02,2026-01-01\n")
    zone = ["--timezone", "UTC"] if "late" in options else []
    assert re.search(words, error(capsys, "encode", "p.csv", *options.split(), *zone))
    assert os.listdir() == ["p.csv"]
