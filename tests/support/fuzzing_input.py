"""Arguments and files drawn by hypothesis, most of them invalid: a call returns a result or raises a clear error."""

from __future__ import annotations

import contextlib
import gzip
import io
import tempfile
import warnings
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
from hypothesis import strategies as st

import posenc_fast as pf
from posenc_fast.__main__ import main
from support import exact

# ---- arguments --------------------------------------------------------------------------------------------------


class Text(str):
    __slots__ = ()


class Number(float):
    __slots__ = ()


class Unwilling:
    """Argument that raises a ValueError for most operations, such as conversions, comparisons and attributes."""

    def __getattr__(self, name):
        raise ValueError("unwilling")

    __index__ = __float__ = __len__ = __iter__ = __array__ = __eq__ = __repr__ = __getattr__
    __hash__ = None


# fmt: off
# numbers are small, or far too large for the size of an array. Numbers in between would allocate much memory.
JUNK = [
    None, True, False, 0, 1, -1, 3, 2.5, -0.0, 5e-324, 1e308, float("nan"), float("inf"), 1j, 2**62, 2**64, -(2**63) - 1,
    10**400, Fraction(1, 3), Decimal("NaN"), "", "1", "sin", "float16", "bfloat16", "python", b"1", Text("float32"),
    Number(2), (), [], [[]], {}, {"sin": 1}, set(), [1, [2, 3]], [None], ["a", "b"], [1.0, 2.0], ("sin", "cos"), range(3),
    object(), Unwilling(), len, int, np.int8, np.float16, ">f8", "M8[s]", "i4,i4", np.nan, np.True_, np.datetime64("NaT", "s"),
    np.timedelta64(1, "Y"), np.timedelta64(1, "as"), np.str_("1"), np.array(1.0), np.array([]), np.zeros((0, 4)),
    np.zeros(4), np.ones((3, 4), np.float32), np.ones((3, 4), ">f4"), np.ones((3, 4), object), np.ones((3, 4), "i4,i4"),
    memoryview(b"12"), np.array(["x"]), np.array([2**63], np.uint64), np.array([np.nan]), np.ma.masked,
    np.eye(4).view(np.matrix), np.longdouble(1) / 3, [2**60 + 1, 0.5], [2**60 + 1, None, 3], [2**70], [Fraction(1, 3), -1, 2**64 - 1],
    np.ma.array([1, 2, 3], mask=[0, 1, 0]), [np.ma.masked, 2**60 + 1, 3], datetime(2026, 1, 1), date(2026, 1, 1), timedelta(1),
    [datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=9))), None, date(1, 1, 1)], ["2026-01-01"], [np.timedelta64(1, "s"), 5, 1],
    np.array([1, 2, 3], "f2"), np.array([1, 2, 3], "i1"), np.ones((3, 4), np.float32, order="F"),
]
ONE, TWO = pf.sinusoidal(4), pf.join([pf.sinusoidal(2), pf.sinusoidal(2)])
# the frequencies are low, so that `locate` searches few wavelengths, even in a range from a small number to a date
LONG = pf.fourier_features([1e-5, 1e-7])
GOOD = {
    "d_model": 4, "length": 3, "count": 2, "first": 1.0, "last": 2.0, "frequencies": [1.0, 0.5], "encodings": [ONE, ONE],
    "positions": [1, 2, 3], "x": np.ones((3, 4), np.float32), "encoded": np.ones((3, 4)), "offset": 1.0, "offsets": 1.0,
}
# fmt: on

# (function, required parameters, optional parameters)
FUNCTIONS = [
    (pf.sinusoidal, "d_model", "base freq_shift first frequencies layout functions odd scale"),
    (pf.positional_encoding, "length d_model", "start step base layout dtype out workers"),
    (pf.fourier_features, "frequencies", "functions layout scale"),
    (pf.geometric, "count", "base freq_shift first"),
    (pf.linear, "count first last", ""),
    (pf.join, "encodings", "axes"),
    (pf.Encoding, "frequencies", "phases amplitudes"),
]
for encoding in (ONE, TWO):
    FUNCTIONS += [
        (encoding.table, "length", "start step dtype precision out workers"),
        (encoding.encode, "positions", "dtype precision out workers"),
        (encoding.add_to, "x", "start step positions x_scale precision out workers"),
        (encoding.shift, "encoded offset", "out"),
        (encoding.transition_matrix, "offset", ""),
        (encoding.similarity, "offsets", ""),
    ]
FUNCTIONS += [(encoding.locate, "encoded", "low high") for encoding in (LONG, TWO)]


def one_argument_list(data):
    """Random arguments give a result, or a TypeError or ValueError with nothing written."""
    call, required, optional = data.draw(st.sampled_from(FUNCTIONS))
    names = required.split() + optional.split()
    bad = data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from(JUNK), min_size=1, max_size=3))
    out = np.full((5, 6), 7, np.float32)
    if "out" in names and "out" not in bad and data.draw(st.booleans()):
        bad["out"] = out[1:4, 1:5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call(**({name: GOOD[name] for name in required.split()} | bad))
        except (TypeError, ValueError):
            assert (out == 7).all()


# ---- files ------------------------------------------------------------------------------------------------------

# fmt: off
TOKENS = [
    "1", "-0.5", "1e999", "nan", "", '"', '"a', ",", ",,", "\n", "\r\n", "\r", "\0", "\ufeff", "time", "2026-01-01", "é",
    "2026-01-01T00:00:00.123456789Z", "2026-13-01", ";", "18446744073709551615", "9" * 400, "1_0", "+", "--1", "0x1", " ", "\t",
]
OPTIONS = ["--column=0", "--column=time", "--column=1", "--delimiter=;", "--dtype=float16", "--no-progress"]
# fmt: on


def header(descr, order, shape, version, rest):
    """Return the bytes of a .npy file with this header, and the given bytes (rest) after the header."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + rest


texts = st.lists(st.sampled_from(TOKENS) | st.text(max_size=5), max_size=40)
headers = st.builds(
    header,
    st.sampled_from(["<f8", ">i4", "|O", "<M8[ns]", "|b1", "<U3", "V9", "nonsense", [("a", "<f8")]]),
    st.sampled_from(["False", "True", "None", "(" * 300]),
    st.sampled_from(["(3,)", "()", "(2, 2)", "(-1,)", f"({10**20},)", f"({2**62},)", "(0,)", "3", "(1.5,)"]),
    st.sampled_from([b"\1\0", b"\2\0", b"\3\0", b"\xff\xff"]),
    st.binary(max_size=40),
)
lines = texts.map(lambda parts: "".join(parts).encode(errors="ignore"))
packed = st.tuples(lines.map(gzip.compress), st.integers(0, 100)).map(lambda both: both[0][: 100 - both[1] // 2])
contents = st.one_of(lines, packed, headers, st.binary(max_size=60).map(b"PAR1".__add__), st.binary(max_size=60))


def one_file(data):
    """The command line writes the output file, or prints an error of one line. It leaves no other file."""
    content = data.draw(contents)
    options = data.draw(st.lists(st.sampled_from(OPTIONS), max_size=2))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()) as err:
        source, target = Path(folder, "in"), Path(folder, "out.npy")
        source.write_bytes(content)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            status = main(["encode", str(source), "--d-model", "4", "-o", str(target), *options])
        assert sorted(file.name for file in Path(folder).iterdir()) == ["in", "out.npy"][: 1 + (status == 0)]
        if status:
            assert status == 2
            assert err.getvalue().startswith("posenc-fast: error: ")
            assert err.getvalue().count("\n") == 1
        else:
            assert np.load(target).shape[1] == 4


# ---- positions --------------------------------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1)
FREQUENCIES = [1.0, 2.0**-20]
NOWHERE = [None, float("nan"), np.datetime64("NaT", "s"), np.ma.masked]
SMALL = ["i1", "u1", "i2", "u2", "i4", "u4", "f2", "f4", ">f4", ">i8"]
zones = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours)))
times = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.none() | zones)
numbers = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(-1e18, 1e18),
    st.sampled_from([2**53 + 1, 2**60 + 1, -(2**63), 2**64 - 1, 1e300, 5e-324, 0.5, float("inf")]),
    st.fractions(-(10**6), 10**6, max_denominator=1000),
    st.floats(-1e4, 1e4).map(np.float16),
    st.integers(-99, 99).map(np.int8),
)
points = st.one_of(times, times.map(datetime.date), times.map(lambda t: np.datetime64(t.replace(tzinfo=None), "ms")))
units = st.sampled_from(["as", "ns", "us", "s", "D"])
spans = st.timedeltas() | st.builds(np.timedelta64, st.integers(-(2**62), 2**62), units)


def value_of(position):
    """Return a position as an exact number, in seconds for times. Return None for a missing or infinite one."""
    if position is None or position is np.ma.masked:
        return None
    if isinstance(position, (np.datetime64, np.timedelta64)):
        if np.isnat(position):
            return None
        unit, many = np.datetime_data(position.dtype)
        digits = {"ms": 3, "us": 6, "ns": 9, "as": 18}.get(unit, 0)
        return int(position.astype(np.int64)) * many * Fraction({"D": 86400}.get(unit, 1), 10**digits)
    if isinstance(position, datetime):
        zone = position.utcoffset() or timedelta(0)
        position = position.replace(tzinfo=None) - EPOCH - zone
    elif isinstance(position, date):
        position = datetime(position.year, position.month, position.day) - EPOCH
    if isinstance(position, timedelta):
        return Fraction(position // timedelta(microseconds=1), 10**6)
    if isinstance(position, (int, np.integer, Fraction)):
        return position if isinstance(position, Fraction) else Fraction(int(position))
    return Fraction(*position.as_integer_ratio()) if np.isfinite(position) else None


def packed(draw, given):
    """Return positions in a drawn container, such as a tuple, a masked array or a column of pandas."""
    objects = np.empty(len(given), object)
    objects[:] = given
    forms = {
        "list": lambda: list(given),
        "tuple": lambda: tuple(given),
        "nested": lambda: [[one] for one in given],
        "objects": lambda: objects,
        "masked": lambda: np.ma.array(objects, mask=[p is None for p in given]),
    }
    with contextlib.suppress(ImportError):
        import pandas as pd

        forms["series"] = lambda: pd.Series(objects, dtype=object)
        forms["stamps"] = lambda: [pd.Timestamp(p) if isinstance(p, datetime) else p for p in given]
        # pandas would round integers of a list with None, so pass integers and mask
        present = [p for p in given if type(p) is int]
        low, high = min(present, default=0), max(present, default=0)
        if all(type(p) is int or p is None for p in given) and (low >= 0 or high < 2**63):
            whole = np.array([p or 0 for p in given], np.int64 if high < 2**63 else np.uint64)
            mask = np.array([p is None for p in given])
            forms["nullable"] = lambda: pd.arrays.IntegerArray(whole, mask)
    return forms[draw(st.sampled_from(list(forms)))]()


def one_kind_of_positions(data):
    """`encode` computes right rows of positions in every container. Other functions compute equal rows."""
    draw = data.draw
    encoding = pf.fourier_features(FREQUENCIES, layout="interleaved")
    if draw(st.booleans()):
        one = draw(st.sampled_from([numbers, points, spans])) | st.sampled_from(NOWHERE)
        given = draw(st.lists(one, min_size=1, max_size=6))
        positions = packed(draw, given)
    else:
        number_type = np.dtype(draw(st.sampled_from(SMALL)))
        plain = np.array(draw(st.lists(st.integers(0, 99), min_size=1, max_size=6)), number_type)
        mask = [draw(st.booleans()) for _ in plain]
        given = [None if masked else value for masked, value in zip(mask, plain.tolist(), strict=True)]
        positions = np.ma.array(plain, mask=mask) if any(mask) else plain
    got = encoding.encode(positions, dtype=np.float64).reshape(-1, 4)
    for position, row in zip(given, got, strict=True):
        value = value_of(position)
        if value is None:
            assert np.isnan(row).all(), (position, row)
            continue
        for c, frequency in enumerate(FREQUENCIES):
            for one, expected in zip(row[2 * c : 2 * c + 2], exact.sincos(value, mpmath.mpf(frequency)), strict=True):
                assert exact.excess(one, expected, "float64", 1.0) < 2.0**-50, (position, frequency, one, expected)
    flat = positions if not isinstance(positions, list) or not isinstance(positions[0], list) else given
    np.testing.assert_array_equal(encoding.add_to(np.zeros((len(given), 4)), positions=flat), got + 0.0)
    np.testing.assert_array_equal(pf.grid([flat], encoding, dtype=np.float64), got)
    np.testing.assert_array_equal(pf.Rotary(4, base=2.0**40).tables(flat, dtype=np.float64)[1], got[:, ::2])


CASES = {"arguments": one_argument_list, "files": one_file, "positions": one_kind_of_positions}
