"""Values drawn by hypothesis in equivalent forms: cells of CSV files, recipes, configs, and numbers of any type."""

from __future__ import annotations

import contextlib
import csv
import io
import pickle
import tempfile
import warnings
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

import posenc_fast as pf
from posenc_fast.__main__ import main
from support import fuzzing

# ---- cells ------------------------------------------------------------------------------------------------------

times = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.none() | st.just(UTC))
columns = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9),
    st.lists(st.sampled_from([2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 0.5]), min_size=1, max_size=9),
    st.lists(st.floats(), min_size=1, max_size=9),
    st.lists(st.integers(-99, 99) | st.floats(-1e9, 1e9), min_size=1, max_size=9),
    st.lists(times, min_size=1, max_size=9),
)  # fmt: skip
FREQUENCIES = np.array([1.0, 0.01])
# no number, date, missing value, infinity or byte order mark begins with these characters
odd_cells = st.text("ghjkqwxz!?#*~", min_size=1, max_size=9)


def text_of(draw, rows, delimiter):
    """Return the text that Python's csv module writes for the rows."""
    file, quoting = io.StringIO(), draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(rows)
    return file.getvalue()


def encoded(text, delimiter, *options):
    """Return the exit status of `encode` for a file of this text, its error text, and the rows or None."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as err:
        source, target, frequencies = (Path(folder, name) for name in ("in.csv", "out.npy", "frequencies.npy"))
        source.write_text(text, encoding="utf-8", newline="")
        # a column of times needs --frequencies or --periods
        np.save(frequencies, FREQUENCIES)
        arguments = ["encode", str(source), "--d-model", "4", "--dtype", "float64", "-o", str(target), *options]
        arguments += ["--frequencies", str(frequencies)]
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            status = main([*arguments, "--delimiter", delimiter, "--no-progress"])
        return status, err.getvalue(), np.load(target) if target.exists() else None


def one_column(data):
    """For a column of numbers or times in a CSV file, the command line computes the rows of `Encoding.encode`."""
    values = data.draw(columns)
    delimiter = data.draw(st.sampled_from([",", ";", "\t", "|"]))
    cells = [value.isoformat() if isinstance(value, datetime) else repr(value) for value in values]
    rows = [[cell, data.draw(st.sampled_from(["", "a", 'b "c"', "1"]))] for cell in cells]
    status, error, got = encoded(text_of(data.draw, rows, delimiter), delimiter, "--column", "0")
    assert status == 0, (error, rows)
    expected = pf.sinusoidal(4, frequencies=FREQUENCIES).encode(values, dtype=np.float64)
    np.testing.assert_array_equal(got, expected)


def one_odd_cell(data):
    """An invalid cell gives an error of one line, which contains the cell. No file is written."""
    values = data.draw(st.lists(st.integers(-99, 99), min_size=2, max_size=9))
    place, odd = data.draw(st.integers(1, len(values) - 1)), data.draw(odd_cells)
    rows = [[odd if i == place else value] for i, value in enumerate(values)]
    status, error, got = encoded(text_of(data.draw, rows, ","), ",", "--column", "0")
    assert (status, got) == (2, None)
    assert error.startswith("posenc-fast: error: ")
    assert error.count("\n") == 1
    assert f"line {place + 1}" in error
    assert repr(odd) in error


# ---- recipes ----------------------------------------------------------------------------------------------------

SCALINGS = [
    None,
    {"rope_type": "linear", "factor": 3.0},
    {"rope_type": "ntk", "alpha": 7.5},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
    {"rope_type": "xpos", "keys": True},
    {"rope_type": "proportional", "partial_rotary_factor": 0.5},
]


@st.composite
def rotaries(draw):
    half = draw(st.integers(2, 20))
    return pf.Rotary(
        2 * half + 2 * draw(st.integers(0, 2)),
        rotary_dim=2 * half,
        base=draw(st.floats(1.5, 1e8)),
        layout=draw(st.sampled_from(["half", "interleaved", "interleaved_to_half"])),
        scaling=draw(st.sampled_from(SCALINGS)),
    )


schedules = st.one_of(
    st.builds(pf.geometric, st.integers(2, 9), base=st.floats(0.5, 1e6), first=st.floats(-9, 9)),
    st.builds(pf.linear, st.integers(1, 9), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)),
    st.builds(pf.periodic, st.lists(st.fractions(Fraction(1, 99), 10**6, max_denominator=99), min_size=1, max_size=4)),
    st.builds(pf.float32_frequencies, st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6)),
)


def one_recipe(data):
    """A recipe, a pickle, and a repr without angle brackets rebuild an Encoding or a Rotary."""
    names = {**{name: getattr(pf, name) for name in pf.__all__}, "Fraction": Fraction}
    value = data.draw(st.one_of(fuzzing.encodings(), rotaries(), schedules.map(pf.fourier_features)))
    again = eval(value.recipe, names)
    assert again == value
    assert hash(again) == hash(value)
    assert again.recipe == value.recipe
    if not repr(value).startswith("<"):
        assert eval(repr(value), names) == value
    assert pickle.loads(pickle.dumps(value)) == value


# ---- configs ----------------------------------------------------------------------------------------------------

CONFIG = {"model_type": "llama", "head_dim": 64, "rope_theta": 500000.0, "max_position_embeddings": 131072}
STRETCHED = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}  # fmt: skip
UNRELATED = st.dictionaries(st.text("bcdfgklmnsuvwxyz", min_size=3, max_size=8), st.integers() | st.text() | st.none(), max_size=3)  # fmt: skip


def one_config(data):
    """The order of keys, unrelated keys, and integers in place of floats do not change the Rotary of a config."""
    draw = data.draw

    def written(config):
        whole = draw(st.booleans())
        items = draw(st.permutations(list(config.items())))
        return {key: int(value) if whole and isinstance(value, float) else value for key, value in items}

    expected = pf.Rotary.from_config({**CONFIG, "rope_scaling": STRETCHED})
    config = written(draw(UNRELATED) | CONFIG | {"rope_scaling": written(STRETCHED)})
    assert pf.Rotary.from_config(config) == expected


# ---- numbers ----------------------------------------------------------------------------------------------------

TYPES = ["i1", "u1", "<i2", ">i2", "<i4", ">u4", "<i8", ">i8", "<u8", "<f2", ">f4", "<f8", ">f8", "g"]


def one_type(data):
    """Numbers of any dtype have the same rows as equal Fractions. Beyond 2**53, rows may differ by one ulp."""
    kind = np.dtype(data.draw(st.sampled_from(TYPES)))
    if kind.kind == "f":
        values = np.array(data.draw(st.lists(st.floats(-6e4, 6e4), min_size=1, max_size=6))).astype(kind)
    else:
        ends = np.iinfo(kind)
        some = st.lists(st.integers(int(ends.min), int(ends.max)), min_size=1, max_size=6)
        values = np.array(data.draw(some), kind.newbyteorder("=")).astype(kind)
    fractions = [Fraction(*value.as_integer_ratio()) if kind.kind == "f" else Fraction(int(value)) for value in values]
    encoding = pf.sinusoidal(6, base=100.0)
    for dtype in (np.float64, np.float32):
        got, expected = encoding.encode(values, dtype=dtype), encoding.encode(fractions, dtype=dtype)
        if all(abs(fraction) <= 2**53 for fraction in fractions):
            np.testing.assert_array_equal(got, expected)
        else:
            np.testing.assert_array_max_ulp(got, expected, 1)


CASES = {
    "cells": one_column,
    "odd cells": one_odd_cell,
    "recipes": one_recipe,
    "configs": one_config,
    "types": one_type,
}
