"""Test errors for invalid arguments: type, name of the argument, its value, and that nothing was written."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from datetime import datetime, timedelta  # noqa: F401 - calls in tables use it, as the next two
from decimal import Decimal  # noqa: F401
from fractions import Fraction  # noqa: F401

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
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


def nested(depth):
    given = [1]
    for _ in range(depth):
        given = [given]
    return given


@wrong_calls(f"""
    # errors about length
    E.table(-1) | ValueError | length; -1
    E.table(2.0) | TypeError | length; 2.0
    E.table(True) | TypeError | length; True
    E.table("2") | TypeError | length; '2'
    E.table(None) | TypeError | length; None
    E.table(2**62) | ValueError | length; {2**62}
    E.table(2**70) | ValueError | length; {2**70}
    # errors of sinusoidal
    pf.sinusoidal(0) | ValueError | d_model; 0
    pf.sinusoidal(np.True_) | TypeError | d_model; True
    pf.positional_encoding(2, 2**63) | ValueError | d_model; {2**63}
    pf.sinusoidal(4, base=0) | ValueError | base; 0
    pf.sinusoidal(4, base=NAN) | ValueError | base; nan
    pf.sinusoidal(4, base=True) | TypeError | base; True
    pf.sinusoidal(4, base="10") | TypeError | base; '10'
    pf.sinusoidal(4, base=1j) | TypeError | base; 1j
    pf.sinusoidal(4, base=[2.0]) | TypeError | base; [2.0]
    pf.sinusoidal(4, base=HUGE) | ValueError | base; outside the range of float64
    pf.positional_encoding(3, 4, base=NAN) | ValueError | base; nan
    pf.sinusoidal(4, freq_shift=NAN) | ValueError | freq_shift; nan
    pf.sinusoidal(4, freq_shift=2) | ValueError | freq_shift; 2
    pf.sinusoidal(5, odd="zero", freq_shift=2) | ValueError | freq_shift; 2
    pf.sinusoidal(4, first=INF) | ValueError | first; inf
    pf.sinusoidal(4, first=1e300, base=1e-300, freq_shift=1) | ValueError | first; 1e+300
    pf.sinusoidal(4, scale=NAN) | ValueError | scale; nan
    pf.sinusoidal(4, layout="mixed") | ValueError | layout; 'mixed'
    pf.positional_encoding(3, 4, layout="x") | ValueError | layout; 'x'
    pf.sinusoidal(4, odd="pad") | ValueError | odd must; 'pad'
    pf.sinusoidal(5, odd="error") | ValueError | d_model; 5
    pf.sinusoidal(4, functions=("sin", "tan")) | ValueError | functions; 'tan'
    pf.sinusoidal(4, functions="sin") | TypeError | functions; 'sin'
    pf.sinusoidal(4, functions=("sin",)) | ValueError | functions; ('sin',)
    pf.sinusoidal(4, functions=None) | TypeError | functions; None
    pf.sinusoidal(4, frequencies=[1, 2, 3]) | ValueError | frequencies; 3
    pf.sinusoidal(4, frequencies=[1, NAN]) | ValueError | frequencies; nan
    pf.sinusoidal(4, frequencies=["a", "b"]) | TypeError | frequencies; <U1
    pf.sinusoidal(4, frequencies=[[1, 2]]) | ValueError | frequencies; (1, 2)
    pf.sinusoidal(4, frequencies={{"sin": [1, 2]}}) | ValueError | frequencies; 'sin'
    pf.sinusoidal(4, frequencies=[1, 2], base=7.5) | ValueError | base; 7.5
    # errors of schedules
    pf.geometric(0) | ValueError | count; 0
    pf.geometric(2**30) | ValueError | count; {2**30}
    pf.linear(10**400, 1, 2) | ValueError | count; 1000
    pf.geometric(2, base=-1) | ValueError | base; -1
    pf.geometric(3, freq_shift=3) | ValueError | freq_shift; 3
    pf.linear(2, NAN, 1) | ValueError | first; nan
    pf.linear(2, 0, HUGE) | ValueError | last
    pf.periodic([]) | ValueError | periods; []
    pf.periodic("1D") | ValueError | periods; '1D'
    pf.periodic(np.float64(2)) | ValueError | periods; 2.0
    pf.periodic([1, 0]) | ValueError | periods must be positive; 0
    pf.periodic([np.timedelta64(-1, "D")]) | ValueError | periods; -1
    pf.periodic([NAN]) | ValueError | periods; nan
    pf.periodic([np.timedelta64("NaT", "s")]) | ValueError | periods; NaT
    pf.periodic([np.timedelta64(1, "M")]) | ValueError | periods; 'M'
    pf.periodic([True]) | TypeError | periods; True
    pf.periodic([np.datetime64("2026")]) | TypeError | periods; 2026
    pf.periodic(np.ones((2, 2))) | ValueError | periods; 1.
    pf.periodic(["1 fortnight"]) | ValueError | periods; '1 fortnight'
    pf.periodic(["1Y"]) | ValueError | periods; '1Y'
    pf.periodic([24, "1D"]) | ValueError | periods; 24 without a unit and '1D' with a unit
    pf.periodic([np.timedelta64(1, "D"), np.float64(7)]) | ValueError | periods; without a unit and
    pf.periodic([np.array(3), np.array(7, "m8[D]")]) | ValueError | periods; array(3) without a unit
    pf.periodic([HUGE]) | ValueError | periods
    pf.periodic([Fraction(HUGE)]) | ValueError | periods; 2**500
    # errors of Encoding, fourier_features and join
    pf.Encoding([[1.0], [1.0, 2.0]]) | ValueError | frequencies; [[1.0], [1.0, 2.0]]
    pf.Encoding([1.0], [[1.0], [1.0, 2.0]]) | ValueError | phases; [[1.0], [1.0, 2.0]]
    pf.Encoding([]) | ValueError | frequencies; (0,)
    pf.Encoding(1.0) | ValueError | frequencies; ()
    pf.Encoding([INF]) | ValueError | frequencies; inf
    pf.Encoding([1j]) | TypeError | frequencies; complex128
    pf.Encoding([1.0], NAN) | ValueError | phases; nan
    pf.Encoding([1.0, 2.0], [0, 0, 0]) | ValueError | phases; (3,)
    pf.Encoding([1.0], True) | TypeError | phases; bool
    pf.Encoding([1.0], 0, [1, 2]) | ValueError | amplitudes; (2,)
    pf.fourier_features([[[1.0]]]) | ValueError | frequencies; (1, 1, 1)
    pf.fourier_features([1.0], functions=[]) | TypeError | functions; []
    pf.join([]) | TypeError | encodings; []
    pf.join(E) | TypeError | encodings; sinusoidal(4)
    pf.join([E, 3]) | TypeError | encodings; 3
    pf.join([E, E], axes=[0]) | ValueError | axes; [0]
    pf.join([E, E], axes=[0, 2]) | ValueError | axes; [0, 2]
    pf.join([E, E], axes=[0, -1]) | ValueError | axes; -1
    pf.join([E, E], axes=[0, True]) | TypeError | axes; True
    pf.join([E, E], axes=3) | TypeError | axes; 3
    pf.join([E, pf.sinusoidal(4, frequencies=pf.float32_frequencies([1, 0.5]))]) | ValueError | float32_frequencies; mixed
    pf.join([TWO, E], axes=[(0, 0), 1]) | ValueError | axes; (0, 0)
    # errors of table
    E.table(3, start=NAN) | ValueError | start; nan
    E.table(3, start=-INF) | ValueError | start; -inf
    E.table(3, start=True) | TypeError | start; True
    E.table(3, start=1j) | TypeError | start; 1j
    E.table(3, start=2**64) | ValueError | start; {2**64}
    E.table(3, start=-(2**63) - 1) | ValueError | start; {-(2**63 + 1)}
    E.table(3, start=Fraction(HUGE, 3)) | ValueError | start
    E.table(3, start=2**64 - 2) | ValueError | start; {2**64 - 2}
    E.table(3, start=1e308, step=1e308) | ValueError | step; 1e+308
    E.table(3, start=10**400) | ValueError | start; outside the range of float64
    E.table(3, start=Decimal(1)) | TypeError | start; (int, float or Fraction), not Decimal('1')
    E.table(3, step=NAN) | ValueError | step; nan
    E.table(3, step=2**63) | ValueError | step; {2**63}
    E.table(3, dtype=np.int32) | TypeError | dtype; int32
    E.table(3, dtype=bool) | TypeError | dtype; bool
    E.table(3, dtype=np.longdouble) | TypeError | dtype; longdouble
    E.table(3, dtype="{SWAPPED}f8") | TypeError | dtype; {SWAPPED}f8
    E.table(3, dtype="nonsense") | TypeError | dtype; 'nonsense'
    E.table(3, precision="double") | ValueError | precision; 'double'
    E.table(3, workers=0) | ValueError | workers; 0
    E.table(3, workers=2.0) | TypeError | workers; 2.0
    E.table(3, workers=True) | TypeError | workers; True
    E.table(3, workers=-(10**6)) | ValueError | workers; -1000000
    E.table(3, precision=np.zeros(0)) | ValueError | precision; array([]
    TWO.table(3) | ValueError | table; 2 axes; use encode or grid
    TWO.add_to(np.ones((2, 8))) | ValueError | add_to; 2 axes; pass positions
    pf.sinusoidal(5, freq_shift=2.5) | ValueError | freq_shift; choose another freq_shift
    # errors of encode
    E.encode([True]) | TypeError | positions; bool
    E.encode([1j]) | TypeError | positions; complex128
    E.encode(None) | TypeError | positions; None
    E.encode([1, object]) | TypeError | positions; <class 'object'>
    E.encode([Decimal("0.1")]) | TypeError | positions; Decimal('0.1')
    E.encode([Fraction(HUGE, 3)]) | ValueError | positions; float64
    E.encode(["1"]) | TypeError | positions; '1'
    E.encode([1, "2026-01-01"]) | TypeError | positions; '2026-01-01'; for a time, pass np.datetime64
    E.encode([0.5, 2**70]) | ValueError | positions; {2**70}, which is too large
    E.encode(-(2**70)) | ValueError | positions; {-(2**70)}, which is too small
    E.encode([np.timedelta64(1, "ms"), 5]) | TypeError | positions; mixture
    E.encode([datetime(2026, 1, 1), timedelta(1)]) | TypeError | positions; mixture
    E.encode([True, None]) | TypeError | positions; True
    E.encode(np.array([2**60], "M8[Y]")) | ValueError | positions; do not fit in 64 bits
    E.encode([[2.5], [np.False_]]) | TypeError | positions; bool
    E.encode([np.array([True]), np.array([2])]) | TypeError | positions; bool
    E.encode(bytearray(b"ab")) | TypeError | positions; b'ab'
    E.encode(nested(3000)) | ValueError | positions; 64 deep
    E.encode(LOOP) | ValueError | positions; 64 deep
    E.encode(np.zeros(2, "i4,i4")) | TypeError | positions; i4
    E.encode([[1, 2], [3]]) | ValueError | positions
    E.encode([2**64]) | ValueError | positions; {2**64}, which is too large
    E.encode(np.timedelta64(1, "M")) | TypeError | positions; timedelta64[M]
    E.encode([np.timedelta64(1, "Y")]) | TypeError | positions; timedelta64[Y]
    E.encode(np.zeros((), "m8")) | TypeError | positions; timedelta64
    TWO.encode(1.0) | ValueError | positions; ()
    TWO.encode([[1, 2, 3]]) | ValueError | positions; (1, 3)
    E.encode(1, precision=np.zeros(2)) | ValueError | precision; array
    E.encode(1, workers=0) | ValueError | workers; 0
    # errors of add_to
    E.add_to([[1.0] * 4]) | TypeError | x must; list
    E.add_to(np.ones((2, 4), int)) | TypeError | x must; int64
    E.add_to(np.ones((2, 4), "{SWAPPED}f4")) | TypeError | x must; {SWAPPED}f4
    E.add_to(np.ones((2, 4), complex)) | TypeError | x must; complex128
    E.add_to(np.ones((2, 5))) | ValueError | x has; (2, 5)
    E.add_to(np.ones(4)) | ValueError | x has; (4,)
    E.add_to(rows(), x_scale=NAN) | ValueError | x_scale; nan
    E.add_to(rows(), positions=[1, 2]) | ValueError | positions has shape (2,), but must have shape (3,).
    E.add_to(np.ones((2, 3, 4)), positions=[1]) | ValueError | must have shape (3,), or (2, 3) if each sequence
    E.add_to(rows(), positions=[True] * 3) | TypeError | positions; bool
    E.add_to(rows(), positions=[1, 2, 3], start=5) | ValueError | start; 5
    TWO.add_to(np.ones((3, 8), np.float32)) | ValueError | positions; 2
    E.add_to(rows(), precision=np.zeros(2)) | ValueError | precision; array
    # errors of grid
    pf.grid([2**63], E) | ValueError | axes; {2**63}
    # errors of Rotary
    pf.Rotary(2**63) | ValueError | head_dim; {2**63}
    pf.Rotary(4).apply(rows(), inverse="no") | TypeError | inverse; 'no'
    pf.Rotary(4).apply(rows(), inverse=[]) | TypeError | inverse; []
    pf.Rotary(4).apply(rows(), precision=np.zeros(0)) | ValueError | precision; array([]
    # integers with more digits than Python converts to text
    E.encode([DIGITS]) | ValueError | positions; 16610 bits
    E.encode(Fraction(DIGITS, 3)) | ValueError | positions; Fraction
    E.table(3, start=DIGITS) | ValueError | start; 16610 bits
    E.table(3, start=Fraction(DIGITS, 3)) | ValueError | start; Fraction
    E.table(DIGITS) | ValueError | length; 16610 bits
    pf.sinusoidal(4, base=DIGITS) | ValueError | base; 16610 bits
    pf.periodic([DIGITS]) | ValueError | periods; 16610 bits
    pf.grid([DIGITS], E) | ValueError | axes; list
    # errors of shift, transition_matrix, similarity and locate
    E.shift([1.0] * 4, 1) | TypeError | encoded; list
    E.shift(np.ones((2, 5)), 1) | ValueError | encoded; (2, 5)
    E.shift(rows(), NAN) | ValueError | offset; nan
    E.shift(rows(), True) | TypeError | offset; bool
    E.transition_matrix([1, 2]) | ValueError | offset; [1, 2]
    TWO.transition_matrix(1) | ValueError | offset; ()
    E.similarity(1j) | TypeError | offsets; complex128
    TWO.similarity([1, 2, 3]) | ValueError | offsets; (3,)
    E.locate([1.0, 2.0]) | ValueError | encoded; (2,)
    E.locate(np.ones((2, 4), bool)) | TypeError | encoded; bool
    E.locate(np.ones((2, 4), complex)) | TypeError | encoded; complex128
    E.locate(np.full((2, 4), "1")) | TypeError | encoded; <U1
    E.locate(rows(), low=2, high=1) | ValueError | low; 2
    E.locate(rows(), low=NAN) | ValueError | low; nan
    E.locate(rows(), high="9") | TypeError | high; '9'
    E.locate(rows(), low=0, high=1e30) | ValueError | high; 1e+30
    E.locate(rows(), low=-1.7e308, high=1.7e308) | ValueError | low; 1.7e+308
    E.locate(rows(), high=-1e9) | ValueError | high; -1000000000.0
    TWO.locate(np.ones(8)) | ValueError | axis; 2
    pf.Encoding([0.0]).locate([0.0]) | ValueError | frequency
""")
def test_errors_name_the_argument_and_the_value(call, error, words):
    raises(call, error, words)


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


def test_frequencies_out_of_range_take_no_time():
    """Frequencies that are rounded to zero are computed in less than a second."""
    schedules = "pf.geometric(4, freq_shift=4 - 1e-7), pf.geometric(3, base=1e-300, first=0)"
    code = f"""if True:
    import time
    import numpy as np, posenc_fast as pf
    begin = time.process_time()
    print(*[np.asarray(schedule).tolist()[:2] for schedule in ({schedules})], time.process_time() - begin < 1)
    """
    assert python(code).stdout == "[1.0, 0.0] [0.0, 0.0] True\n"


def test_the_last_frequency_is_checked_exactly():
    # 1e16 / 1e-292 = 1e308 is less than the largest float64, 1.8e308
    assert np.asarray(pf.geometric(2, freq_shift=1, base=1e-292, first=1e16))[1] == 1e308
    with pytest.raises(ValueError, match="too large"):
        pf.geometric(2, freq_shift=1, base=5e-293, first=1e16)


# ---- unknown names -----------------------------------------------------------------------------------------------


@wrong_calls("""
    pf.sinusodial | AttributeError | did you mean 'sinusoidal'?
    pf.sklear | AttributeError | did you mean 'sklearn'?
    pf.sinusoidal(4, layout="concat") | ValueError | did you mean 'concatenated'?
    pf.sinusoidal(4, functions=("sin", "COS")) | ValueError | did you mean 'cos'?
    pf.sinusoidal(5, odd="croped") | ValueError | did you mean 'crop'?
    E.table(2, precision="float") | ValueError | did you mean 'float32'?
    E.table(2, dtype="bfloat") | TypeError | did you mean 'bfloat16'?
    pf.grid([2, 2], TWO, indexing="IJ") | ValueError | did you mean 'ij'?
    pf.reorder_columns(rows(), "interleave", "concatenated") | ValueError | did you mean 'interleaved'?
    pf.Rotary(4, layout="interleave") | ValueError | did you mean 'interleaved'?
    pf.permute_rotary(np.ones(4), 4, source="halves", target="half") | ValueError | did you mean 'half'?
    pf.Rotary(4, scaling={"rope_type": "longropes"}) | ValueError | did you mean 'longrope'?
    pf.Rotary(4, scaling={"rope_type": "linear", "factr": 2.0}) | ValueError | did you mean 'factor'?
    pf.use_backend("cpython").__enter__() | ValueError | did you mean 'python'?
""")
def test_errors_suggest_similar_names(call, error, words):
    (suggestion,) = words
    assert raises(call, error, words).endswith(f"; {suggestion}")


def test_errors_suggest_presets():
    with pytest.raises(AttributeError, match=r"perhaps .*whisper"):
        pf.presets.wisper  # noqa: B018


@wrong_calls("""
    # arguments of other libraries
    pf.sinusoidal(64, theta=5e5) | TypeError | 'theta'; did you mean 'base'?
    pf.sinusoidal(dim=64) | TypeError | 'dim'; did you mean 'd_model'?
    pf.sinusoidal(64, max_period=1e3) | TypeError | 'max_period'; did you mean 'base'?
    pf.sinusoidal(64, seq_len=9) | TypeError | 'seq_len'; pass the length to Encoding.table or Rotary.tables
    pf.positional_encoding(seq_len=9, d_model=4) | TypeError | 'seq_len'; did you mean 'length'?
    pf.positional_encoding(9, 4, n=100) | TypeError | 'n'; did you mean 'base'?
    pf.positional_encoding(9, 4, offset=100) | TypeError | 'offset'; did you mean 'start'?
    pf.positional_encoding(9, 4, layuot="concatenated") | TypeError | 'layout'
    pf.fourier_features([1.0], interleaved=True) | TypeError | 'interleaved'; did you mean 'layout'?
    pf.geometric(4, theta=5) | TypeError | 'theta'; did you mean 'base'?
    pf.linear(n=4, first=1, last=2) | TypeError | 'n'; did you mean 'count'?
    pf.grid(shape=[3], encoding=E) | TypeError | 'shape'; did you mean 'axes'?
    pf.join([E], dims=[0]) | TypeError | 'dims'; did you mean 'axes'?
    # names of other libraries
    pf.rope | AttributeError | module 'posenc_fast' has no attribute 'rope'; did you mean Rotary?
    pf.RoPE | AttributeError | module 'posenc_fast' has no attribute 'RoPE'; did you mean Rotary?
    pf.RotaryEmbedding | AttributeError | module 'posenc_fast' has no attribute 'RotaryEmbedding'; did you mean Rotary or posenc_fast.torch.RotaryEncoding?
    pf.PositionalEncoding | AttributeError | module 'posenc_fast' has no attribute 'PositionalEncoding'; did you mean 'positional_encoding'?
    pf.SinusoidalEncoding | AttributeError | module 'posenc_fast' has no attribute 'SinusoidalEncoding'; did you mean posenc_fast.torch.SinusoidalEncoding or sinusoidal?
""")
def test_names_of_other_libraries(call, error, words):
    assert "; ".join(words) in raises(call, error, words)


def test_no_suggestion_without_a_similar_name():
    with pytest.raises(ValueError, match=r"not 'x'$"):
        pf.sinusoidal(4, layout="x")
    with pytest.raises(ValueError, match=r"not 3$"):
        pf.sinusoidal(4, layout=3)
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        pf.zzz  # noqa: B018


def test_other_type_errors_are_unchanged():
    with pytest.raises(TypeError, match=r"^sinusoidal\(\) missing 1 required positional argument: 'd_model'$"):
        pf.sinusoidal()
    with pytest.raises(TypeError, match=r"^d_model must be an integer, not 'x'$"):
        pf.sinusoidal("x")
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'zzz'$"):
        pf.sinusoidal(4, zzz=1)


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
