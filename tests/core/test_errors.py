"""Test errors for invalid arguments: type, name of the argument, its value, and that nothing was written."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.processes import python

E = pf.sinusoidal(4)
TWO = pf.join([E, E])
NAN, INF = float("nan"), float("inf")
HUGE = 10**400
DIGITS = 10**5000
LOOP: list[object] = []
LOOP.append(LOOP)
# the byte order that this machine does not use
SWAPPED = ">" if sys.byteorder == "little" else "<"


def rows(dtype=np.float32):
    return np.full((3, 4), 7, dtype)


def table(**options):
    return lambda: E.table(3, **options)


def sinusoidal(d_model=4, **options):
    return lambda: pf.sinusoidal(d_model, **options)


def encode(positions):
    return lambda: E.encode(positions)


def add_to(x=None, **options):
    return lambda: E.add_to(rows() if x is None else x, **options)


def turn(**options):
    return lambda: pf.Rotary(4).apply(rows(), **options)


def nested(depth):
    given = [1]
    for _ in range(depth):
        given = [given]
    return given


# keys: names of cases. Values: (call, type of the error, name of the argument, another part of the message).
# fmt: off
CASES = {
    # errors about length
    "length-negative": (lambda: E.table(-1), ValueError, "length", "-1"),
    "length-float": (lambda: E.table(2.0), TypeError, "length", "2.0"),
    "length-bool": (lambda: E.table(True), TypeError, "length", "True"),
    "length-text": (lambda: E.table("2"), TypeError, "length", "'2'"),
    "length-none": (lambda: E.table(None), TypeError, "length", "None"),
    "length-overflows": (lambda: E.table(2**62), ValueError, "length", str(2**62)),
    "length-overflows-int64": (lambda: E.table(2**70), ValueError, "length", str(2**70)),
    # errors of sinusoidal
    "d_model-zero": (sinusoidal(0), ValueError, "d_model", "0"),
    "d_model-numpy-bool": (sinusoidal(np.True_), TypeError, "d_model", "True"),
    "d_model-of-shortcut-huge": (lambda: pf.positional_encoding(2, 2**63), ValueError, "d_model", str(2**63)),
    "base-zero": (sinusoidal(base=0), ValueError, "base", "0"),
    "base-nan": (sinusoidal(base=NAN), ValueError, "base", "nan"),
    "base-bool": (sinusoidal(base=True), TypeError, "base", "True"),
    "base-text": (sinusoidal(base="10"), TypeError, "base", "'10'"),
    "base-complex": (sinusoidal(base=1j), TypeError, "base", "1j"),
    "base-array": (sinusoidal(base=[2.0]), TypeError, "base", "[2.0]"),
    "base-huge": (sinusoidal(base=HUGE), ValueError, "base", ""),
    "base-of-shortcut": (lambda: pf.positional_encoding(3, 4, base=NAN), ValueError, "base", "nan"),
    "freq_shift-nan": (sinusoidal(freq_shift=NAN), ValueError, "freq_shift", "nan"),
    "freq_shift-divides-by-zero": (sinusoidal(freq_shift=2), ValueError, "freq_shift", "2"),
    "freq_shift-divides-odd-width": (sinusoidal(5, odd="zero", freq_shift=2), ValueError, "freq_shift", "2"),
    "first-infinite": (sinusoidal(first=INF), ValueError, "first", "inf"),
    "first-too-large": (sinusoidal(first=1e300, base=1e-300, freq_shift=1), ValueError, "first", "1e+300"),
    "scale-nan": (sinusoidal(scale=NAN), ValueError, "scale", "nan"),
    "layout-unknown": (sinusoidal(layout="mixed"), ValueError, "layout", "'mixed'"),
    "layout-of-shortcut": (lambda: pf.positional_encoding(3, 4, layout="x"), ValueError, "layout", "'x'"),
    "odd-unknown": (sinusoidal(odd="pad"), ValueError, "odd", "'pad'"),
    "odd-error": (sinusoidal(5, odd="error"), ValueError, "d_model", "5"),
    "functions-unknown": (sinusoidal(functions=("sin", "tan")), ValueError, "functions", "'tan'"),
    "functions-text": (sinusoidal(functions="sin"), TypeError, "functions", "'sin'"),
    "functions-one": (sinusoidal(functions=("sin",)), ValueError, "functions", "('sin',)"),
    "functions-none": (sinusoidal(functions=None), TypeError, "functions", "None"),
    "frequencies-count": (sinusoidal(frequencies=[1, 2, 3]), ValueError, "frequencies", "3"),
    "frequencies-nan": (sinusoidal(frequencies=[1, NAN]), ValueError, "frequencies", "nan"),
    "frequencies-text": (sinusoidal(frequencies=["a", "b"]), TypeError, "frequencies", "<U1"),
    "frequencies-shape": (sinusoidal(frequencies=[[1, 2]]), ValueError, "frequencies", "(1, 2)"),
    "frequencies-functions": (sinusoidal(frequencies={"sin": [1, 2]}), ValueError, "frequencies", "'sin'"),
    "frequencies-and-base": (sinusoidal(frequencies=[1, 2], base=7.5), ValueError, "base", "7.5"),
    # errors of schedules
    "count-zero": (lambda: pf.geometric(0), ValueError, "count", "0"),
    "count-huge": (lambda: pf.geometric(2**30), ValueError, "count", str(2**30)),
    "linear-count-huge": (lambda: pf.linear(10**400, 1, 2), ValueError, "count", "1000"),
    "geometric-base": (lambda: pf.geometric(2, base=-1), ValueError, "base", "-1"),
    "geometric-freq_shift": (lambda: pf.geometric(3, freq_shift=3), ValueError, "freq_shift", "3"),
    "linear-first": (lambda: pf.linear(2, NAN, 1), ValueError, "first", "nan"),
    "linear-last-huge": (lambda: pf.linear(2, 0, HUGE), ValueError, "last", ""),
    "periods-empty": (lambda: pf.periodic([]), ValueError, "periods", "[]"),
    "periods-alone": (lambda: pf.periodic("1D"), ValueError, "periods", "'1D'"),
    "periods-scalar": (lambda: pf.periodic(np.float64(2)), ValueError, "periods", "2.0"),
    "periods-zero": (lambda: pf.periodic([1, 0]), ValueError, "periods", "0"),
    "periods-negative": (lambda: pf.periodic([np.timedelta64(-1, "D")]), ValueError, "periods", "-1"),
    "periods-nan": (lambda: pf.periodic([NAN]), ValueError, "periods", "nan"),
    "periods-nat": (lambda: pf.periodic([np.timedelta64("NaT", "s")]), ValueError, "periods", "NaT"),
    "periods-months": (lambda: pf.periodic([np.timedelta64(1, "M")]), ValueError, "periods", "'M'"),
    "periods-bool": (lambda: pf.periodic([True]), TypeError, "periods", "True"),
    "periods-dates": (lambda: pf.periodic([np.datetime64("2026")]), TypeError, "periods", "2026"),
    "periods-matrix": (lambda: pf.periodic(np.ones((2, 2))), ValueError, "periods", "1."),
    "periods-text": (lambda: pf.periodic(["1 fortnight"]), ValueError, "periods", "'1 fortnight'"),
    "periods-year": (lambda: pf.periodic(["1Y"]), ValueError, "periods", "'1Y'"),
    "periods-mixed": (lambda: pf.periodic([24, "1D"]), ValueError, "periods", "24 without a unit and '1D' with a unit"),
    "periods-mixed-types": (lambda: pf.periodic([np.timedelta64(1, "D"), np.float64(7)]), ValueError, "periods", "without a unit and"),
    "periods-mixed-arrays": (lambda: pf.periodic([np.array(3), np.array(7, "m8[D]")]), ValueError, "periods", "array(3) without a unit"),
    "periods-huge": (lambda: pf.periodic([HUGE]), ValueError, "periods", ""),
    "periods-huge-fraction": (lambda: pf.periodic([Fraction(HUGE)]), ValueError, "periods", "2**500"),
    # errors of Encoding, fourier_features and join
    "Encoding-ragged": (lambda: pf.Encoding([[1.0], [1.0, 2.0]]), ValueError, "frequencies", "[[1.0], [1.0, 2.0]]"),
    "phases-ragged": (lambda: pf.Encoding([1.0], [[1.0], [1.0, 2.0]]), ValueError, "phases", "[[1.0], [1.0, 2.0]]"),
    "Encoding-empty": (lambda: pf.Encoding([]), ValueError, "frequencies", "(0,)"),
    "Encoding-scalar": (lambda: pf.Encoding(1.0), ValueError, "frequencies", "()"),
    "Encoding-infinite": (lambda: pf.Encoding([INF]), ValueError, "frequencies", "inf"),
    "Encoding-complex": (lambda: pf.Encoding([1j]), TypeError, "frequencies", "complex128"),
    "phases-nan": (lambda: pf.Encoding([1.0], NAN), ValueError, "phases", "nan"),
    "phases-shape": (lambda: pf.Encoding([1.0, 2.0], [0, 0, 0]), ValueError, "phases", "(3,)"),
    "phases-bool": (lambda: pf.Encoding([1.0], True), TypeError, "phases", "bool"),
    "amplitudes-shape": (lambda: pf.Encoding([1.0], 0, [1, 2]), ValueError, "amplitudes", "(2,)"),
    "features-shape": (lambda: pf.fourier_features([[[1.0]]]), ValueError, "frequencies", "(1, 1, 1)"),
    "features-no-functions": (lambda: pf.fourier_features([1.0], functions=[]), TypeError, "functions", "[]"),
    "encodings-empty": (lambda: pf.join([]), TypeError, "encodings", "[]"),
    "encodings-one": (lambda: pf.join(E), TypeError, "encodings", "sinusoidal(4)"),
    "encodings-other": (lambda: pf.join([E, 3]), TypeError, "encodings", "3"),
    "axes-few": (lambda: pf.join([E, E], axes=[0]), ValueError, "axes", "[0]"),
    "axes-gap": (lambda: pf.join([E, E], axes=[0, 2]), ValueError, "axes", "[0, 2]"),
    "axes-negative": (lambda: pf.join([E, E], axes=[0, -1]), ValueError, "axes", "-1"),
    "axes-bool": (lambda: pf.join([E, E], axes=[0, True]), TypeError, "axes", "True"),
    "axes-number": (lambda: pf.join([E, E], axes=3), TypeError, "axes", "3"),
    "axes-twice": (lambda: pf.join([TWO, E], axes=[(0, 0), 1]), ValueError, "axes", "(0, 0)"),
    # errors of table
    "start-nan": (table(start=NAN), ValueError, "start", "nan"),
    "start-infinite": (table(start=-INF), ValueError, "start", "-inf"),
    "start-bool": (table(start=True), TypeError, "start", "True"),
    "start-complex": (table(start=1j), TypeError, "start", "1j"),
    "start-beyond-uint64": (table(start=2**64), ValueError, "start", str(2**64)),
    "start-below-int64": (table(start=-(2**63) - 1), ValueError, "start", str(-(2**63) - 1)),
    "start-huge-fraction": (table(start=Fraction(HUGE, 3)), ValueError, "start", ""),
    "end-beyond-uint64": (table(start=2**64 - 2), ValueError, "start", str(2**64 - 2)),
    "end-beyond-float64": (table(start=1e308, step=1e308), ValueError, "step", "1e+308"),
    "start-beyond-float64": (table(start=10**400), ValueError, "start", "outside the range of float64"),
    "start-decimal": (table(start=Decimal(1)), TypeError, "start", "(int, float or Fraction), not Decimal('1')"),
    "step-nan": (table(step=NAN), ValueError, "step", "nan"),
    "step-beyond-int64": (table(step=2**63), ValueError, "step", str(2**63)),
    "dtype-integer": (table(dtype=np.int32), TypeError, "dtype", "int32"),
    "dtype-bool": (table(dtype=bool), TypeError, "dtype", "bool"),
    "dtype-long-double": (table(dtype=np.longdouble), TypeError, "dtype", "longdouble"),
    "dtype-byte-order": (table(dtype=SWAPPED + "f8"), TypeError, "dtype", SWAPPED + "f8"),
    "dtype-unknown": (table(dtype="nonsense"), TypeError, "dtype", "'nonsense'"),
    "precision-unknown": (table(precision="double"), ValueError, "precision", "'double'"),
    "workers-zero": (table(workers=0), ValueError, "workers", "0"),
    "workers-float": (table(workers=2.0), TypeError, "workers", "2.0"),
    "workers-bool": (table(workers=True), TypeError, "workers", "True"),
    "workers-below": (table(workers=-(10**6)), ValueError, "workers", "-1000000"),
    "precision-array": (table(precision=np.zeros(0)), ValueError, "precision", "array([]"),
    "table-of-two-axes": (lambda: TWO.table(3), ValueError, "table", "2 axes; use encode or grid"),
    "add-to-of-two-axes": (lambda: TWO.add_to(np.ones((2, 8))), ValueError, "add_to", "2 axes; pass positions"),
    "base-beyond-float64": (lambda: pf.sinusoidal(4, base=10**400), ValueError, "base", "outside the range of float64"),
    "freq-shift-half": (lambda: pf.sinusoidal(5, freq_shift=2.5), ValueError, "freq_shift", "choose another freq_shift"),
    # errors of encode
    "positions-bool": (encode([True]), TypeError, "positions", "bool"),
    "positions-complex": (encode([1j]), TypeError, "positions", "complex128"),
    "positions-none": (encode(None), TypeError, "positions", "None"),
    "positions-object": (encode([1, object]), TypeError, "positions", "<class 'object'>"),
    "positions-decimal": (encode([Decimal("0.1")]), TypeError, "positions", "Decimal('0.1')"),
    "positions-fraction-beyond": (encode([Fraction(HUGE, 3)]), ValueError, "positions", "float64"),
    "positions-text": (encode(["1"]), TypeError, "positions", "'1'"),
    "positions-text-beside-numbers": (encode([1, "2026-01-01"]), TypeError, "positions", "'2026-01-01'; for a time, pass np.datetime64"),
    "positions-too-large": (encode([2**70]), ValueError, "positions", f"{2**70}, which is too large"),
    "positions-too-large-beside-reals": (encode([0.5, 2**70]), ValueError, "positions", f"{2**70}, which is too large"),
    "positions-too-small": (encode(-(2**70)), ValueError, "positions", f"{-(2**70)}, which is too small"),
    "positions-time-beside-numbers": (encode([np.timedelta64(1, "ms"), 5]), TypeError, "positions", "mixture"),
    "positions-times-and-spans": (encode([datetime(2026, 1, 1), timedelta(1)]), TypeError, "positions", "mixture"),
    "positions-bool-beside-none": (encode([True, None]), TypeError, "positions", "True"),
    "positions-years-beyond": (encode(np.array([2**60], "M8[Y]")), ValueError, "positions", "do not fit in 64 bits"),
    "positions-bool-beside-reals": (encode([[2.5], [np.False_]]), TypeError, "positions", "bool"),
    "positions-bools-in-an-array": (encode([np.array([True]), np.array([2])]), TypeError, "positions", "bool"),
    "positions-bytearray": (encode(bytearray(b"ab")), TypeError, "positions", "b'ab'"),
    "positions-deep": (encode(nested(3000)), ValueError, "positions", "64 deep"),
    "positions-in-themselves": (encode(LOOP), ValueError, "positions", "64 deep"),
    "positions-record": (encode(np.zeros(2, "i4,i4")), TypeError, "positions", "i4"),
    "positions-ragged": (encode([[1, 2], [3]]), ValueError, "positions", ""),
    "positions-beyond-uint64": (encode([2**64]), ValueError, "positions", ""),
    "positions-months": (encode(np.timedelta64(1, "M")), TypeError, "positions", "timedelta64[M]"),
    "positions-years": (encode([np.timedelta64(1, "Y")]), TypeError, "positions", "timedelta64[Y]"),
    "positions-no-unit": (encode(np.zeros((), "m8")), TypeError, "positions", "timedelta64"),
    "positions-one-axis": (lambda: TWO.encode(1.0), ValueError, "positions", "()"),
    "positions-three-axes": (lambda: TWO.encode([[1, 2, 3]]), ValueError, "positions", "(1, 3)"),
    "encode-precision-array": (lambda: E.encode(1, precision=np.zeros(2)), ValueError, "precision", "array"),
    "encode-workers": (lambda: E.encode(1, workers=0), ValueError, "workers", "0"),
    # errors of add_to
    "x-list": (add_to([[1.0] * 4]), TypeError, "x", "list"),
    "x-integer": (add_to(np.ones((2, 4), int)), TypeError, "x", "int64"),
    "x-byte-order": (add_to(np.ones((2, 4), SWAPPED + "f4")), TypeError, "x", SWAPPED + "f4"),
    "x-complex": (add_to(np.ones((2, 4), complex)), TypeError, "x", "complex128"),
    "x-width": (add_to(np.ones((2, 5))), ValueError, "x", "(2, 5)"),
    "x-one-row": (add_to(np.ones(4)), ValueError, "x", "(4,)"),
    "x_scale-nan": (add_to(x_scale=NAN), ValueError, "x_scale", "nan"),
    "add-positions-shape": (add_to(positions=[1, 2]), ValueError, "positions", "(2,)"),
    "add-positions-bool": (add_to(positions=[True] * 3), TypeError, "positions", "bool"),
    "add-positions-and-start": (add_to(positions=[1, 2, 3], start=5), ValueError, "start", "5"),
    "add-without-positions": (lambda: TWO.add_to(np.ones((3, 8))), ValueError, "positions", "2"),
    "add-without-positions-float32": (lambda: TWO.add_to(np.ones((3, 8), np.float32)), ValueError, "positions", "2"),
    "add-precision-array": (add_to(precision=np.zeros(2)), ValueError, "precision", "array"),
    # errors of grid
    "grid-beyond-all-memory": (lambda: pf.grid([2**63], E), ValueError, "axes", str(2**63)),
    # errors of Rotary
    "head_dim-huge": (lambda: pf.Rotary(2**63), ValueError, "head_dim", str(2**63)),
    "inverse-text": (turn(inverse="no"), TypeError, "inverse", "'no'"),
    "inverse-list": (turn(inverse=[]), TypeError, "inverse", "[]"),
    "rotary-precision-array": (turn(precision=np.zeros(0)), ValueError, "precision", "array([]"),
    # integers with more digits than Python converts to text
    "positions-many-digits": (encode([DIGITS]), ValueError, "positions", "16610 bits"),
    "positions-fraction-of-many-digits": (encode(Fraction(DIGITS, 3)), ValueError, "positions", "Fraction"),
    "start-many-digits": (table(start=DIGITS), ValueError, "start", "16610 bits"),
    "start-fraction-of-many-digits": (table(start=Fraction(DIGITS, 3)), ValueError, "start", "Fraction"),
    "length-many-digits": (lambda: E.table(DIGITS), ValueError, "length", "16610 bits"),
    "base-many-digits": (sinusoidal(base=DIGITS), ValueError, "base", "16610 bits"),
    "periods-many-digits": (lambda: pf.periodic([DIGITS]), ValueError, "periods", "16610 bits"),
    "axes-many-digits": (lambda: pf.grid([DIGITS], E), ValueError, "axes", "list"),
    # errors of shift, transition_matrix, similarity and locate
    "encoded-list": (lambda: E.shift([1.0] * 4, 1), TypeError, "encoded", "list"),
    "encoded-width": (lambda: E.shift(np.ones((2, 5)), 1), ValueError, "encoded", "(2, 5)"),
    "offset-nan": (lambda: E.shift(rows(), NAN), ValueError, "offset", "nan"),
    "offset-bool": (lambda: E.shift(rows(), True), TypeError, "offset", "bool"),
    "offset-two": (lambda: E.transition_matrix([1, 2]), ValueError, "offset", "[1, 2]"),
    "offset-one-of-two": (lambda: TWO.transition_matrix(1), ValueError, "offset", "()"),
    "offsets-complex": (lambda: E.similarity(1j), TypeError, "offsets", "complex128"),
    "offsets-axes": (lambda: TWO.similarity([1, 2, 3]), ValueError, "offsets", "(3,)"),
    "locate-width": (lambda: E.locate([1.0, 2.0]), ValueError, "encoded", "(2,)"),
    "locate-bool": (lambda: E.locate(np.ones((2, 4), bool)), TypeError, "encoded", "bool"),
    "locate-complex": (lambda: E.locate(np.ones((2, 4), complex)), TypeError, "encoded", "complex128"),
    "locate-text": (lambda: E.locate(np.full((2, 4), "1")), TypeError, "encoded", "<U1"),
    "low-above-high": (lambda: E.locate(rows(), low=2, high=1), ValueError, "low", "2"),
    "low-nan": (lambda: E.locate(rows(), low=NAN), ValueError, "low", "nan"),
    "high-text": (lambda: E.locate(rows(), high="9"), TypeError, "high", "'9'"),
    "interval-too-long": (lambda: E.locate(rows(), low=0, high=1e30), ValueError, "high", "1e+30"),
    "interval-overflows": (lambda: E.locate(rows(), low=-1.7e308, high=1.7e308), ValueError, "low", "1.7e+308"),
    "high-below-default": (lambda: E.locate(rows(), high=-1e9), ValueError, "high", "-1000000000.0"),
    "locate-two-axes": (lambda: TWO.locate(np.ones(8)), ValueError, "axis", "2"),
    "locate-constant": (lambda: pf.Encoding([0.0]).locate([0.0]), ValueError, "frequency", ""),
}
# fmt: on


@pytest.mark.parametrize(("call", "error", "name", "value"), list(CASES.values()), ids=list(CASES))
def test_errors_name_the_argument_and_the_value(call, error, name, value):
    with pytest.raises(error) as caught:
        call()
    assert re.search(rf"\b{name}\b", str(caught.value))
    assert value in str(caught.value)


@pytest.mark.parametrize("call", ["table", "encode"])
def test_memory_errors_name_shape_and_dtype(call):
    with pytest.raises(MemoryError, match=r"\(1000000000000, 4\) and data type float64"):
        E.table(10**12, dtype="f8") if call == "table" else E.encode(np.broadcast_to(1.0, 10**12), dtype="f8")


def test_lazy_columns():
    pl = optional("polars")
    for given, words in (
        (pl.col("a"), "a polars expression.*map_batches"),
        (pl.LazyFrame({"a": [1]}), "LazyFrame.*collect"),
    ):
        with pytest.raises(TypeError, match=f"positions .*{words}"):
            E.encode(given)


def test_sparse_tensors():
    torch = optional("torch")
    with pytest.raises(ValueError, match=r"positions .*sparse_coo.*positions\.to_dense"):
        E.encode(torch.eye(2).to_sparse())


def test_empty_positions():
    assert E.encode(np.array([], object)).shape == E.encode([]).shape == (0, 4)


def test_long_double_beyond_float64():
    if np.finfo(np.longdouble).max <= np.finfo(np.float64).max:
        pytest.skip("long double is no wider than double here")
    with pytest.raises(ValueError, match="positions"):
        E.encode(np.array(["1e4000"], np.longdouble))


# ---- out --------------------------------------------------------------------------------------------------------


def read_only():
    out = rows()
    out.flags.writeable = False
    return out


OUTS = {
    "shape": (lambda: np.full((4, 4), 7, np.float32), ValueError, "(4, 4)"),
    "flat": (lambda: np.full(12, 7, np.float32), ValueError, "(12,)"),
    "dtype": (lambda: rows(np.float64), ValueError, "float64"),
    "integers": (lambda: rows(np.int32), ValueError, "int32"),
    "byte-order": (lambda: rows(SWAPPED + "f4"), ValueError, SWAPPED + "f4"),
    "read-only": (read_only, ValueError, "read-only"),
    "columns-apart": (lambda: np.full((3, 8), 7, np.float32)[:, ::2], ValueError, "(32, 8)"),
    "columns-reversed": (lambda: rows()[:, ::-1], ValueError, "(16, -4)"),
    "fortran": (lambda: np.asfortranarray(rows()), ValueError, "(4, 12)"),
    "list": (lambda: [[7.0] * 4] * 3, TypeError, "list"),
    "number": (lambda: 7.0, TypeError, "float"),
}


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(("make", "error", "value"), list(OUTS.values()), ids=list(OUTS))
def test_invalid_out_is_unchanged(make, error, value):
    calls = {
        "table": lambda out: E.table(3, dtype=np.float32, out=out),
        "encode": lambda out: E.encode([1, 2, 3], dtype=np.float32, out=out),
        "add_to": lambda out: E.add_to(rows(), out=out),
        "shift": lambda out: E.shift(rows(), 1, out=out),
        "positional_encoding": lambda out: pf.positional_encoding(3, 4, dtype=np.float32, out=out),
    }
    for name, call in calls.items():
        out = make()
        with pytest.raises(error) as caught:
            call(out)
        assert re.search(r"\bout\b", str(caught.value)), name
        assert value in str(caught.value), name
        assert (np.asarray(out) == 7).all(), name


OTHERS = {
    "table": (
        lambda out, bad: E.table(3, out=out, **bad),
        [{"start": NAN}, {"step": "1"}, {"dtype": "f8"}, {"precision": "x"}, {"workers": 0}, {"start": 2**64 - 1}],
    ),
    "encode": (
        lambda out, bad: E.encode(**({"positions": [1, 2, 3]} | bad), out=out),
        [{"positions": [1j] * 3}, {"positions": ["a"] * 3}, {"positions": [1, 2]}, {"dtype": "i4"}, {"workers": 1.5}],
    ),
    "add_to": (
        lambda out, bad: E.add_to(out, out=out, **bad),
        [{"x_scale": NAN}, {"positions": [1, 2]}, {"positions": [object] * 3}, {"step": NAN}, {"precision": 1}],
    ),
    "shift": (
        lambda out, bad: E.shift(out, **bad, out=out),
        [{"offset": NAN}, {"offset": "1"}, {"offset": [1, 2]}, {"offset": None}],
    ),
}
# fmt: on


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(("call", "invalid"), list(OTHERS.values()), ids=list(OTHERS))
def test_nothing_is_written_before_an_error(call, invalid):
    for options in invalid:
        whole = np.full((5, 12), 7, np.float32)
        with pytest.raises((TypeError, ValueError)):
            call(whole[1:4, 4:8], options)
        assert (whole == 7).all(), options


# ---- sizes out of range ------------------------------------------------------------------------------------------

linux = pytest.mark.skipif(sys.platform != "linux", reason="uses Linux's limit of the address space")
SIZES = [
    "pf.positional_encoding(2**62, 4)",
    "pf.positional_encoding(4, 2**62)",
    "pf.positional_encoding(2**32, 2**32)",
    "pf.sinusoidal(2**62)",
    "pf.sinusoidal(64).table(2**60, start=0.5)",
    "pf.sinusoidal(64).encode(np.broadcast_to(1.0, (2**30, 2**30)))",
    "pf.sinusoidal(64).encode(np.broadcast_to(np.int8(1), (2**58,)))",
    "pf.linear(10**400, 1e308, 1e307)",
    "pf.geometric(2**29, base=1e-308, first=1e308)",
    "pf.fourier_features(pf.geometric(2**62))",
    "pf.Encoding(pf.linear(2**62, 1, 2))",
]


def in_little_memory(code):
    """Run code in a new interpreter, in an address space of 1.5 GiB. Return what it prints, line by line."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))\n"
    result = python("import numpy as np, posenc_fast as pf; pf.positional_encoding(2, 2)\n" + limit + code)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@linux
def test_sizes_that_overflow_take_neither_time_nor_memory():
    code = f"""if True:
    import time
    for call in {SIZES}:
        begin = time.process_time()
        try:
            eval(call)
        except Exception as error:
            print(call, type(error).__name__, time.process_time() - begin < 0.5)
    """
    assert in_little_memory(code) == [f"{call} ValueError True" for call in SIZES]


@linux
def test_schedules_are_checked_without_their_frequencies():
    schedules = "pf.linear(2**29, 1e308, -1e308), pf.geometric(2**29, first=1e308)"
    assert in_little_memory(f"print(*map(len, ({schedules})))") == [f"{2**29} {2**29}"]


@linux
def test_frequencies_out_of_range_take_no_time():
    """Frequencies that are rounded to zero are computed in less than a second."""
    schedules = "pf.geometric(4, freq_shift=4 - 1e-7), pf.geometric(3, base=1e-300, first=0)"
    code = f"""if True:
    import time
    begin = time.process_time()
    print(*[np.asarray(schedule).tolist()[:2] for schedule in ({schedules})], time.process_time() - begin < 1)
    """
    assert in_little_memory(code) == ["[1.0, 0.0] [0.0, 0.0] True"]


def test_the_last_frequency_is_checked_exactly():
    # 1e16 / 1e-292 = 1e308 is less than the largest float64, 1.8e308
    assert np.asarray(pf.geometric(2, freq_shift=1, base=1e-292, first=1e16))[1] == 1e308
    with pytest.raises(ValueError, match="too large"):
        pf.geometric(2, freq_shift=1, base=5e-293, first=1e16)


# ---- unknown names -----------------------------------------------------------------------------------------------

MISSPELLED = {
    "module": (lambda: pf.sinusodial, AttributeError, "sinusoidal"),
    "module-optional": (lambda: pf.sklear, AttributeError, "sklearn"),
    "layout": (lambda: pf.sinusoidal(4, layout="concat"), ValueError, "concatenated"),
    "functions": (lambda: pf.sinusoidal(4, functions=("sin", "COS")), ValueError, "cos"),
    "odd": (lambda: pf.sinusoidal(5, odd="croped"), ValueError, "crop"),
    "precision": (lambda: pf.sinusoidal(4).table(2, precision="float"), ValueError, "float32"),
    "dtype": (lambda: pf.sinusoidal(4).table(2, dtype="bfloat"), TypeError, "bfloat16"),
    "indexing": (lambda: pf.grid([2, 2], pf.join([E, E]), indexing="IJ"), ValueError, "ij"),
    "order": (lambda: pf.reorder_columns(np.ones((2, 4)), "interleave", "concatenated"), ValueError, "interleaved"),
    "rotary-layout": (lambda: pf.Rotary(4, layout="interleave"), ValueError, "interleaved"),
    "permute": (lambda: pf.permute_rotary(np.ones(4), 4, source="halves", target="half"), ValueError, "half"),
    "scaling-type": (lambda: pf.Rotary(4, scaling={"rope_type": "longropes"}), ValueError, "longrope"),
    "scaling-key": (lambda: pf.Rotary(4, scaling={"rope_type": "linear", "factr": 2.0}), ValueError, "factor"),
    "backend": (lambda: pf.use_backend("cpython").__enter__(), ValueError, "python"),
}


@pytest.mark.parametrize("name", MISSPELLED)
def test_errors_suggest_similar_names(name):
    call, error, meant = MISSPELLED[name]
    with pytest.raises(error, match=f"; did you mean '{meant}'\\?$"):
        call()


def test_errors_suggest_presets():
    with pytest.raises(AttributeError, match=r"perhaps .*whisper"):
        pf.presets.wisper  # noqa: B018


def test_no_suggestion_without_a_similar_name():
    with pytest.raises(ValueError, match=r"not 'x'$"):
        pf.sinusoidal(4, layout="x")
    with pytest.raises(ValueError, match=r"not 3$"):
        pf.sinusoidal(4, layout=3)
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        pf.zzz  # noqa: B018


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pf.sinusoidal(64, theta=5e5), "'theta'; did you mean 'base'?"),
        (lambda: pf.sinusoidal(dim=64), "'dim'; did you mean 'd_model'?"),
        (lambda: pf.sinusoidal(64, max_period=1e3), "'max_period'; did you mean 'base'?"),
        (lambda: pf.sinusoidal(64, seq_len=9), "'seq_len'; pass the length to Encoding.table or Rotary.tables"),
        (lambda: pf.positional_encoding(seq_len=9, d_model=4), "'seq_len'; did you mean 'length'?"),
        (lambda: pf.positional_encoding(9, 4, n=100), "'n'; did you mean 'base'?"),
        (lambda: pf.positional_encoding(9, 4, offset=100), "'offset'; did you mean 'start'?"),
        (lambda: pf.positional_encoding(9, 4, layuot="concatenated"), "'layout'"),
        (lambda: pf.fourier_features([1.0], interleaved=True), "'interleaved'; did you mean 'layout'?"),
        (lambda: pf.geometric(4, theta=5), "'theta'; did you mean 'base'?"),
        (lambda: pf.linear(n=4, first=1, last=2), "'n'; did you mean 'count'?"),
        (lambda: pf.grid(shape=[3], encoding=pf.sinusoidal(4)), "'shape'; did you mean 'axes'?"),
        (lambda: pf.join([pf.sinusoidal(4)], dims=[0]), "'dims'; did you mean 'axes'?"),
    ],
)
def test_arguments_of_other_libraries(call, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        call()


def test_other_type_errors_are_unchanged():
    with pytest.raises(TypeError, match=r"^sinusoidal\(\) missing 1 required positional argument: 'd_model'$"):
        pf.sinusoidal()
    with pytest.raises(TypeError, match=r"^d_model must be an integer, not 'x'$"):
        pf.sinusoidal("x")
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zzz'$"):
        pf.sinusoidal(4, zzz=1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rope", "; did you mean Rotary?"),
        ("RoPE", "; did you mean Rotary?"),
        ("RotaryEmbedding", "; did you mean Rotary or posenc_fast.torch.RotaryEncoding?"),
        ("PositionalEncoding", "; did you mean 'positional_encoding'?"),
        ("SinusoidalEncoding", "; did you mean posenc_fast.torch.SinusoidalEncoding or sinusoidal?"),
    ],
)
def test_names_of_other_libraries(name, words):
    with pytest.raises(AttributeError, match=re.escape(f"module 'posenc_fast' has no attribute {name!r}{words}")):
        getattr(pf, name)


def test_names_of_other_libraries_in_torch():
    optional("torch")
    for name, words in (
        ("RotaryEmbedding", "did you mean 'RotaryEncoding'?"),
        ("addto", "did you mean 'add_to'?"),
        ("qq", ""),
    ):
        with pytest.raises(AttributeError, match=f"has no attribute {name!r}.*{re.escape(words)}$"):
            getattr(pf.torch, name)
    with pytest.raises(TypeError, match="'theta'; did you mean 'base'"):
        pf.torch.SinusoidalEncoding(64, theta=5)


def test_schedules_suggest_an_encoding():
    for schedule in (pf.periodic(["1D"]), pf.geometric(4), pf.linear(2, 1, 2)):
        for name in ("encode", "table"):
            with pytest.raises(
                AttributeError, match=f"no attribute {name!r}; pass the schedule to fourier_features or sinusoidal"
            ):
                getattr(schedule, name)
        with pytest.raises(AttributeError, match=r"has no attribute 'shape'$"):
            schedule.shape  # noqa: B018
        assert pickle.loads(pickle.dumps(schedule)) == copy.copy(schedule) == schedule


MODULES = {
    "plot": ("matplotlib", "pip install matplotlib"),
    "torch": ("torch", "pip install torch"),
    "transformers": ("torch", "pip install torch"),
    "dask": ("dask", r"pip install 'dask\[array\]'"),
    "sklearn": ("sklearn", "pip install scikit-learn"),
    "polars": ("polars", "pip install polars"),
    "jax": ("jax", "pip install jax"),
}


def test_optional_modules_without_their_packages():
    code = f"""if True:
        import sys
        import posenc_fast as pf
        sys.modules.update(dict.fromkeys({[package for package, _ in MODULES.values()]}))
        for module in {list(MODULES)}:
            try:
                getattr(pf, module)
            except AttributeError as error:
                print(error)
    """
    result = python(code)
    for (module, (_, words)), error in zip(MODULES.items(), result.stdout.splitlines(), strict=True):
        assert re.search(f"posenc_fast.{module} needs .*{words}", error), result.stderr


@pytest.mark.slow
def test_an_optional_module_needs_no_import():
    optional("matplotlib")
    run = python("import posenc_fast as pf; print(pf.plot.heatmap.__name__)")
    assert run.stdout == "heatmap\n", run.stderr
