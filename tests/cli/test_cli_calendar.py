"""Test `posenc-fast encode --periods`: calendar cycles in any timezone, and fixed periods, from every file format."""

from __future__ import annotations

import csv
import re
import zoneinfo
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._cli import csv as _csv
from posenc_fast._cli import encode as _encode
from support.command_line import error, parquet, run, same
from support.optional import optional
from support.tables import each_line

if not zoneinfo.available_timezones():
    optional("tzdata")

pytestmark = pytest.mark.usefixtures("inside")

TIMES = np.array(["2026-03-29T00:17:59.999999", "NaT", "2026-03-29T01:00", "1969-12-31T18:00"], "M8[us]")


def expected(times, cycles, timezone=None):
    """Return the expected rows: for each cycle, the sine and cosine of the elapsed part of the cycle."""
    turn = pf.fourier_features(pf.periodic([1]))
    parts = pf.presets.positions.calendar(times, cycles, timezone=timezone)
    return turn.encode(parts).reshape(len(parts), -1)


def half_days(times):
    return pf.fourier_features(pf.periodic(["12h"])).encode(times)


def written(times, offset="", hours=0):
    """Write p.csv with the times of a clock that is some hours ahead of UTC, each followed by an offset such as "Z"."""
    local = times.astype("M8[us]") + np.timedelta64(hours, "h")
    local = ["" if np.isnat(each) else f"{each}{offset}" for each in local]
    Path("p.csv").write_text("n,time\n" + "".join(f"{i},{each}\n" for i, each in enumerate(local)))


def encoded(file, periods, *options):
    assert run("encode", file, "--periods", periods, "-o", "o.npy", *options) == 0
    return "o.npy"


def test_columns_are_named_by_their_cycles():
    written(TIMES)
    options = ["--column", "time", "--periods", "day,12h,86400s", "--layout", "concatenated", "--keep"]
    names = ["n", "time", "day_sin", "12h_sin", "86400s_sin", "day_cos", "12h_cos", "86400s_cos"]
    assert run("encode", "p.csv", *options, "-o", "o.csv") == 0
    with open("o.csv", newline="") as file:
        first, *rows = csv.reader(file)
    assert first == names
    made = np.array(rows)[:, 2:].astype(np.float32)
    np.testing.assert_array_equal(made[:, [0, 3]], expected(TIMES, ["day"]))
    np.testing.assert_array_equal(made[:, 0], made[:, 2])
    np.testing.assert_array_equal(made[:, [1, 4]], half_days(TIMES))
    frame = optional("pyarrow.parquet")
    assert run("encode", "p.csv", *options, "-o", "o.parquet") == 0
    assert frame.read_table("o.parquet").column_names == names


def test_offsets_are_local_times():
    written(TIMES, "+05:30", 5)
    column = ["--column", "time"]
    same(encoded("p.csv", "day,month", *column), expected(TIMES + np.timedelta64(5, "h"), ["day", "month"]))
    utc = TIMES - np.timedelta64(30, "m")
    same(encoded("p.csv", "day", *column, "--timezone", "UTC"), expected(utc, ["day"]))
    # the phase of a period that is a length, such as 12h, is counted in UTC
    same(encoded("p.csv", "12h", *column), half_days(utc))


def test_two_clocks_are_not_guessed(capsys):
    written(TIMES, "+02:00", 2)
    arguments = ["encode", "p.csv", "--column", "time", "--periods", "day,12h", "-o", "o.npy"]
    words = "p.csv, line 2: '2026-03-29T02:17:59.999999+02:00' has a UTC offset, but --periods has both"
    assert words in error(capsys, *arguments)
    assert run(*arguments, "--timezone", "Europe/Berlin") == 0
    same("o.npy", np.hstack([expected(TIMES, ["day"], "Europe/Berlin"), half_days(TIMES)]))
    written(TIMES, "Z")
    assert run(*arguments) == 0
    same("o.npy", np.hstack([expected(TIMES, ["day"]), half_days(TIMES)]))


def test_npy_and_parquet():
    np.save("p.npy", TIMES)
    same(encoded("p.npy", "year", "--timezone", "Asia/Tokyo"), expected(TIMES, ["year"], "Asia/Tokyo"))
    pa = optional("pyarrow")
    for zone in (None, "Asia/Tokyo", "+09:00"):
        parquet({"t": pa.array(TIMES, pa.timestamp("us", zone))}, row_group_size=2)
        same(encoded("p.parquet", "day,year"), expected(TIMES, ["day", "year"], "Asia/Tokyo" if zone else None))


def test_blocks(monkeypatch, rng):
    """Encode many blocks and parts of a file with missing cells, and with times in microseconds and nanoseconds."""
    times = rng.integers(-(2**60), 2**60, 1000).view("M8[ns]")
    times[::3] = times[::3].astype("M8[us]")
    times[rng.integers(0, 1000, 30)] = "NaT"
    Path("p.csv").write_text("t\n" + "".join("nan\n" if np.isnat(each) else f"{each}\n" for each in times))
    monkeypatch.setattr(_csv, "CELLS", 70)
    monkeypatch.setattr(_encode, "BLOCK", 4 * 97)
    zone = "America/New_York"
    same(encoded("p.csv", "month,year", "--timezone", zone), expected(times, ["month", "year"], zone))
    rows, direct = np.load(encoded("p.csv", "12h")), half_days(times)
    # about one in 30 million values, near a rounding midpoint, may differ from a direct call
    assert np.count_nonzero(np.nan_to_num(rows) != np.nan_to_num(direct)) <= 1
    np.testing.assert_allclose(rows, direct, rtol=2**-22, atol=0)


def test_lengths_of_numbers():
    Path("p.csv").write_text("hour\n0\n6\n12\n")
    same(encoded("p.csv", "24"), np.float32([[0, 1], [1, 0], [0, -1]]))


@each_line("""
    arguments | words
    t.csv --d-model 64 | are timestamps; pass --periods, such as --periods day,week, without --d-model
    t.npy --d-model 64 | pass --periods
    t.parquet --d-model 64 | pass --periods
    t.csv --d-model 64 --base 500 --first 2 | pass --periods
    t.csv --preset diffusers_timesteps --d-model 8 | pass --periods
    t.csv --periods 24 | periods has 24 without a unit, but positions has timestamps; .*'day', .*'24h'
    t.npy --periods 0.5,86400 | periods has 0.5 without a unit
    t.parquet --periods day,24 | 24
    p.csv --column time --periods dya | periods has 'dya'.*did you mean 'day'
    p.csv --column time --periods , | periods must have at least one
    p.csv --column time --periods day --timezone Europe/Berln | 'Europe/Berln'.*did you mean 'Europe/Berlin'
    p.csv --column time --periods 12h --timezone Europe/Berlin | timezone='Europe/Berlin' needs a calendar cycle
    p.csv --column time --timezone Europe/Berlin --d-model 4 | --timezone is for the cycles of --periods
    p.csv --column time --periods day --d-model 4 | --periods excludes --d-model
    p.csv --column time --periods day --preset vaswani2017 | --periods excludes --preset
    p.csv --column time --periods day --freq-shift 1 | --periods excludes --freq-shift
    p.csv --column n --periods day,month | 'n': positions has numbers, but the cycle 'month' needs timestamps
    p.csv --column late --periods day --timezone UTC | p.csv, column 'late': positions has .*, but .* supports .* 9999
""")
def test_bad_cycles(arguments, words, capsys):
    """Bad cycles, times without cycles, and positions that have none raise an error before anything is written."""
    Path("t.csv").write_text("nan\n2026-01-01\n")
    Path("p.csv").write_text("n,time,late\n1,2026-01-01,9999-12-31T23:30-01:00\n2,2026-01-02,2026-01-01\n")
    np.save("t.npy", TIMES)
    if "parquet" in arguments:
        parquet({"t": optional("pyarrow").array(TIMES)}, "t.parquet")
    assert re.search(words, error(capsys, "encode", *arguments.split(), "-o", "o.npy"))
