"""Test errors for invalid arguments: type, name of the argument, its value, and that nothing was written."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta  # noqa: F401 - calls in tables use it, as the next two
from decimal import Decimal  # noqa: F401
from fractions import Fraction  # noqa: F401
from functools import partial

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


@pytest.mark.usefixtures("backend")
@wrong_calls(
    f"""
    # errors about length
    E.table(-1) | ValueError | length; -1
    E.table(2.0) | TypeError | length; 2.0
    E.table(True) | TypeError | length; True
    E.table(2**62) | ValueError | length; {2**62}
    # errors of sinusoidal
    pf.sinusoidal(0) | ValueError | d_model; 0
    pf.sinusoidal(np.True_) | TypeError | d_model; True
    pf.positional_encoding(2, 2**63) | ValueError | d_model; {2**63}
    pf.sinusoidal(4, base=0) | ValueError | base; 0
    pf.sinusoidal(4, base=NAN) | ValueError | base; nan
    pf.sinusoidal(4, base=True) | TypeError | base; True
    pf.sinusoidal(4, base=[2.0]) | TypeError | base; [2.0]
    pf.sinusoidal(4, base=HUGE) | ValueError | base; outside the range of float64
    pf.sinusoidal(4, freq_shift=NAN) | ValueError | freq_shift; nan
    pf.sinusoidal(4, freq_shift=2) | ValueError | freq_shift; 2
    pf.sinusoidal(5, odd="zero", freq_shift=2) | ValueError | freq_shift; 2
    pf.sinusoidal(4, first=INF) | ValueError | first; inf
    pf.sinusoidal(4, first=1e300, base=1e-300, freq_shift=1) | ValueError | first; 1e+300
    pf.sinusoidal(4, scale=NAN) | ValueError | scale; nan
    pf.sinusoidal(4, layout="mixed") | ValueError | layout; 'mixed'
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
    pf.geometric(2, freq_shift=1, base=5e-293, first=1e16) | ValueError | first; too large
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
    E.table(3, start=NAN, out=out) | ValueError | start; nan
    E.table(3, start=True) | TypeError | start; True
    E.table(3, start=2**64) | ValueError | start; {2**64}
    E.table(3, start=-(2**63) - 1) | ValueError | start; {-(2**63 + 1)}
    E.table(3, start=2**64 - 2, out=out) | ValueError | start; {2**64 - 2}
    E.table(3, start=1e308, step=1e308, out=out) | ValueError | step; 1e+308
    E.table(3, start=10**400) | ValueError | start; outside the range of float64
    E.table(3, start=Decimal(1)) | TypeError | start; (int, float or Fraction), not Decimal('1')
    E.table(3, step=NAN, out=out) | ValueError | step; nan
    E.table(3, step="1", out=out) | TypeError | step; '1'
    E.table(3, step=2**63) | ValueError | step; {2**63}
    E.table(3, dtype="f8", out=out) | ValueError | dtype; float64
    E.table(3, dtype=np.int32, out=out) | TypeError | dtype; int32
    E.table(3, dtype=np.longdouble) | TypeError | dtype; longdouble
    E.table(3, dtype="{SWAPPED}f8") | TypeError | dtype; {SWAPPED}f8
    E.table(3, dtype="nonsense") | TypeError | dtype; 'nonsense'
    E.table(3, precision="double", out=out) | ValueError | precision; 'double'
    E.table(3, workers=0, out=out) | ValueError | workers; 0
    E.table(3, workers=2.0) | TypeError | workers; 2.0
    E.table(3, workers=True) | TypeError | workers; True
    E.table(3, workers=-(10**6)) | ValueError | workers; -1000000
    E.table(3, precision=np.zeros(0)) | ValueError | precision; array([]
    TWO.table(3) | ValueError | table; 2 axes; use encode or grid
    TWO.add_to(np.ones((2, 8))) | ValueError | add_to; 2 axes; pass positions
    pf.sinusoidal(5, freq_shift=2.5) | ValueError | freq_shift; choose another freq_shift
    # errors of encode
    E.encode([True]) | TypeError | positions; bool
    E.encode([1j] * 3, out=out) | TypeError | positions; complex128
    E.encode(None) | TypeError | positions; None
    E.encode([1, object]) | TypeError | positions; <class 'object'>
    E.encode([Decimal("0.1")] * 3, out=out) | TypeError | positions; Decimal('0.1')
    E.encode([Fraction(HUGE, 3)]) | ValueError | positions; float64
    E.encode(["1"] * 3, out=out) | TypeError | positions; '1'
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
    E.encode(LOOP) | ValueError | positions; 64 deep
    E.encode(np.zeros(2, "i4,i4")) | TypeError | positions; i4
    E.encode([[1, 2], [3]]) | ValueError | positions
    E.encode([2**64]) | ValueError | positions; {2**64}, which is too large
    E.encode(np.timedelta64(1, "M")) | TypeError | positions; timedelta64[M]
    E.encode([np.timedelta64(1, "Y")]) | TypeError | positions; timedelta64[Y]
    E.encode(np.zeros((), "m8")) | TypeError | positions; timedelta64
    TWO.encode(1.0) | ValueError | positions; ()
    TWO.encode([[1, 2, 3]]) | ValueError | positions; (1, 3)
    E.encode([1] * 3, precision=np.zeros(2), out=out) | ValueError | precision; array
    E.encode([1] * 3, workers=1.5, out=out) | TypeError | workers; 1.5
    E.encode([1] * 3, dtype="i4", out=out) | TypeError | dtype; i4
    # errors of memory
    E.table(10**12, dtype="f8") | MemoryError | (1000000000000, 4) and data type float64
    E.encode(np.broadcast_to(1.0, 10**12), dtype="f8") | MemoryError | (1000000000000, 4) and data type float64
    # errors of add_to
    E.add_to([[1.0] * 4]) | TypeError | x must; list
    E.add_to(np.ones((2, 4), int)) | TypeError | x must; int64
    E.add_to(np.ones((2, 4), "{SWAPPED}f4")) | TypeError | x must; {SWAPPED}f4
    E.add_to(np.ones((2, 4), complex)) | TypeError | x must; complex128
    E.add_to(np.ones((2, 5))) | ValueError | x has; (2, 5)
    E.add_to(np.ones(4)) | ValueError | x has; (4,)
    E.add_to(out, x_scale=NAN, out=out) | ValueError | x_scale; nan
    E.add_to(out, positions=[1, 2], out=out) | ValueError | positions has shape (2,), but must have shape (3,).
    E.add_to(np.ones((2, 3, 4)), positions=[1]) | ValueError | must have shape (3,), or (2, 3) if each sequence
    E.add_to(out, positions=[True] * 3, out=out) | TypeError | positions; bool
    E.add_to(out, positions=[1, 2, 3], start=5, out=out) | ValueError | start; 5
    E.add_to(out, step=NAN, out=out) | ValueError | step; nan
    TWO.add_to(np.ones((3, 8), np.float32)) | ValueError | positions; 2
    E.add_to(out, precision=np.zeros(2), out=out) | ValueError | precision; array
    # errors of grid
    pf.grid([2**63], E) | ValueError | axes; {2**63}
    # errors of presets and Rotary
    pf.presets.wisper | AttributeError | wisper; perhaps; whisper
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
    E.shift(out, NAN, out=out) | ValueError | offset; nan
    E.shift(out, True, out=out) | TypeError | offset; bool
    E.shift(out, "1", out=out) | TypeError | offset; '1'
    E.shift(out, None, out=out) | TypeError | offset; None
    E.shift(out, [1, 2], out=out) | ValueError | offset; [1, 2]
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
    """,
    "out",
)
def test_errors_name_the_argument_and_the_value(call, error, words):
    """Calls with an error write nothing."""
    whole = np.full((5, 12), 7, np.float32)
    raises(lambda: call(whole[1:4, 4:8]), error, words)
    assert (whole == 7).all()


def test_long_double_beyond_float64():
    if np.finfo(np.longdouble).max <= np.finfo(np.float64).max:
        pytest.skip("long double is no wider than double here")
    with pytest.raises(ValueError, match="positions"):
        E.encode(np.array(["1e4000"], np.longdouble))


# ---- out --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@wrong_calls(f"""
    np.full((4, 4), 7, np.float32) | ValueError | out; (4, 4)
    np.full(12, 7, np.float32) | ValueError | out; (12,)
    rows(np.float64) | ValueError | out; float64
    rows(np.int32) | ValueError | out; int32
    rows("{SWAPPED}f4") | ValueError | out; {SWAPPED}f4
    np.frombuffer(rows().tobytes(), np.float32).reshape(3, 4) | ValueError | out; read-only
    np.full((3, 8), 7, np.float32)[:, ::2] | ValueError | out; (32, 8)
    rows()[:, ::-1] | ValueError | out; (16, -4)
    np.asfortranarray(rows()) | ValueError | out; (4, 12)
    [[7.0] * 4] * 3 | TypeError | out; list
    7.0 | TypeError | out; float
""")
def test_invalid_out_is_unchanged(call, error, words):
    for write in (
        lambda out: E.table(3, dtype=np.float32, out=out),
        lambda out: E.encode([1, 2, 3], dtype=np.float32, out=out),
        lambda out: E.add_to(rows(), out=out),
        lambda out: E.shift(rows(), 1, out=out),
        lambda out: pf.positional_encoding(3, 4, dtype=np.float32, out=out),
    ):
        # the table has values of out in place of calls
        out = call()
        raises(partial(write, out), error, words)
        assert (np.asarray(out) == 7).all()


# ---- sizes out of range ------------------------------------------------------------------------------------------

# lines: a call, and its result or the type of its error
SIZES = """
    pf.positional_encoding(2**62, 4) | ValueError
    pf.positional_encoding(4, 2**62) | ValueError
    pf.positional_encoding(2**32, 2**32) | ValueError
    pf.sinusoidal(2**62) | ValueError
    pf.sinusoidal(64).table(2**60, start=0.5) | ValueError
    pf.sinusoidal(64).encode(np.broadcast_to(1.0, (2**30, 2**30))) | ValueError
    pf.sinusoidal(64).encode(np.broadcast_to(np.int8(1), (2**58,))) | ValueError
    pf.linear(10**400, 1e308, 1e307) | ValueError
    pf.geometric(2**29, base=1e-308, first=1e308) | ValueError
    pf.fourier_features(pf.geometric(2**62)) | ValueError
    pf.Encoding(pf.linear(2**62, 1, 2)) | ValueError
    len(pf.linear(2**29, 1e308, -1e308)) | 536870912
    len(pf.geometric(2**29, first=1e308)) | 536870912
    np.asarray(pf.geometric(4, freq_shift=4 - 1e-7)).tolist() | [1.0, 0.0, 0.0, 0.0]
    np.asarray(pf.geometric(3, base=1e-300, first=0)).tolist() | [0.0, 0.0, 0.0]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses Linux's limit of the address space")
def test_large_numbers_take_neither_time_nor_memory():
    """Each call takes less than half a second, in an address space of 1.5 GiB."""
    lines = [line.strip() for line in SIZES.strip().splitlines()]
    code = f"""if True:
        import resource, time
        import numpy as np, posenc_fast as pf
        pf.positional_encoding(2, 2)
        resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))
        for line in {lines}:
            call, begin = line.partition(" | ")[0], time.process_time()
            try:
                result = eval(call)
            except Exception as error:
                result = type(error).__name__
            print(f"{{call}} | {{result}}", time.process_time() - begin < 0.5)
    """
    run = python(code)
    assert run.stdout.splitlines() == [f"{line} True" for line in lines], run.stderr


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
    # no name is similar
    pf.sinusoidal(4, layout="x") | ValueError | layout must be one of 'interleaved', 'concatenated', not 'x'
    pf.sinusoidal(4, layout=3) | ValueError | layout must be one of 'interleaved', 'concatenated', not 3
    pf.zzz | AttributeError | module 'posenc_fast' has no attribute 'zzz'
    # arguments of other libraries
    pf.sinusoidal(64, theta=5e5) | TypeError | 'theta'; did you mean 'base'?
    pf.sinusoidal(dim=64) | TypeError | 'dim'; did you mean 'd_model'?
    pf.sinusoidal(64, max_period=1e3) | TypeError | 'max_period'; did you mean 'base'?
    pf.sinusoidal(64, seq_len=9) | TypeError | 'seq_len'; pass the length to Encoding.table or Rotary.tables, which have no maximum length
    pf.positional_encoding(seq_len=9, d_model=4) | TypeError | 'seq_len'; did you mean 'length'?
    pf.positional_encoding(9, 4, n=100) | TypeError | 'n'; did you mean 'base'?
    pf.positional_encoding(9, 4, offset=100) | TypeError | 'offset'; did you mean 'start'?
    pf.positional_encoding(9, 4, layuot="concatenated") | TypeError | 'layout'?
    pf.fourier_features([1.0], interleaved=True) | TypeError | 'interleaved'; did you mean 'layout'?
    pf.geometric(4, theta=5) | TypeError | 'theta'; did you mean 'base'?
    pf.linear(n=4, first=1, last=2) | TypeError | 'n'; did you mean 'count'?
    pf.grid(shape=[3], encoding=E) | TypeError | 'shape'; did you mean 'axes'?
    pf.join([E], dims=[0]) | TypeError | 'dims'; did you mean 'axes'?
    # names of other libraries
    pf.rope | AttributeError | module 'posenc_fast' has no attribute 'rope'; did you mean Rotary?
    pf.RoPE | AttributeError | module 'posenc_fast' has no attribute 'RoPE'; did you mean Rotary?
    pf.RotaryEmbedding | AttributeError | did you mean Rotary or posenc_fast.torch.RotaryEncoding?
    pf.PositionalEncoding | AttributeError | did you mean 'positional_encoding'?
    pf.SinusoidalEncoding | AttributeError | did you mean posenc_fast.torch.SinusoidalEncoding or sinusoidal?
    # functions of encodings
    pf.periodic(["1D"]).encode | AttributeError | pass the schedule to fourier_features or sinusoidal to get an Encoding
    pf.geometric(4).table | AttributeError | pass the schedule to fourier_features or sinusoidal to get an Encoding
    pf.linear(2, 1, 2).encode | AttributeError | pass the schedule to fourier_features or sinusoidal to get an Encoding
    pf.linear(2, 1, 2).shape | AttributeError | 'Linear' object has no attribute 'shape'
    # other TypeErrors are unchanged
    pf.sinusoidal() | TypeError | sinusoidal() missing 1 required positional argument: 'd_model'
    pf.sinusoidal("x") | TypeError | d_model must be an integer, not 'x'
    pf.sinusoidal(4, zzz=1) | TypeError | sinusoidal() got an unexpected keyword argument 'zzz'
""")
def test_errors_suggest_similar_names(call, error, words):
    assert raises(call, error, words).endswith("; ".join(words))


@wrong_calls(
    """
    pf.torch.RotaryEmbedding | AttributeError | has no attribute 'RotaryEmbedding'; did you mean 'RotaryEncoding'?
    pf.torch.addto | AttributeError | has no attribute 'addto'; did you mean 'add_to'?
    pf.torch.qq | AttributeError | has no attribute 'qq'
    pf.torch.SinusoidalEncoding(64, theta=5) | TypeError | 'theta'; did you mean 'base'?
    E.encode(torch.eye(2).to_sparse()) | ValueError | positions has the layout torch.sparse_coo, but must be dense: give positions.to_dense()
    """,
    "torch",
)
def test_errors_with_torch(call, error, words):
    torch = optional("torch")
    assert raises(lambda: call(torch), error, words).endswith("; ".join(words))
