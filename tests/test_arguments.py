"""Bad input: the error names the argument and its value, and nothing has been written."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf

E = pf.sinusoidal(4)
HUGE = 2**62
X = np.ones((3, 4), np.float32)

CASES = {
    "length-negative": (lambda: E.table(-1), ValueError, "length.*-1"),
    "length-real": (lambda: E.table(2.5), TypeError, "length.*2.5"),
    "length-bool": (lambda: E.table(True), TypeError, "length.*True"),
    "length-huge": (lambda: E.table(HUGE), ValueError, str(HUGE)),
    "d_model-zero": (lambda: pf.sinusoidal(0), ValueError, "d_model.*0"),
    "d_model-real": (lambda: pf.sinusoidal(4.0), TypeError, "d_model.*4.0"),
    "base-zero": (lambda: pf.sinusoidal(4, base=0), ValueError, "base.*0"),
    "base-negative": (lambda: pf.sinusoidal(4, base=-2.0), ValueError, "base.*-2.0"),
    "base-nan": (lambda: pf.sinusoidal(4, base=float("nan")), ValueError, "base.*nan"),
    "base-text": (lambda: pf.sinusoidal(4, base="10"), TypeError, "base.*'10'"),
    "first-infinite": (lambda: pf.sinusoidal(4, first=float("inf")), ValueError, "first.*inf"),
    "frequency-too-large": (lambda: pf.sinusoidal(4, base=1e-300, first=1e300, freq_shift=1), ValueError, "too large"),
    "layout": (lambda: pf.sinusoidal(4, layout="mixed"), ValueError, "layout.*'mixed'"),
    "odd": (lambda: pf.sinusoidal(4, odd="pad"), ValueError, "odd.*'pad'"),
    "functions-name": (lambda: pf.sinusoidal(4, functions=("sin", "tan")), ValueError, "functions.*'tan'"),
    "functions-text": (lambda: pf.sinusoidal(4, functions="sin"), TypeError, "functions.*'sin'"),
    "functions-three": (lambda: pf.sinusoidal(4, functions=("sin", "cos", "sin")), ValueError, "functions"),
    "frequencies-count": (lambda: pf.sinusoidal(4, frequencies=[1.0]), ValueError, "frequencies are 1"),
    "frequencies-and-base": (lambda: pf.sinusoidal(4, frequencies=[1, 2], base=3), ValueError, "frequencies excludes"),
    "frequencies-functions": (lambda: pf.sinusoidal(4, frequencies={"sin": [1, 2]}), ValueError, "frequencies.*'sin'"),
    "frequencies-nan": (lambda: pf.Encoding([1.0, np.nan]), ValueError, "frequencies.*nan"),
    "frequencies-complex": (lambda: pf.Encoding([1j]), TypeError, "frequencies.*complex"),
    "phases-shape": (lambda: pf.Encoding([1.0, 2.0], [0.1, 0.2, 0.3]), ValueError, r"phases.*\(3,\)"),
    "dtype-integer": (lambda: E.table(2, dtype=np.int32), TypeError, "dtype.*int32"),
    "dtype-byte-order": (lambda: E.table(2, dtype=">f4"), TypeError, "dtype.*native"),
    "precision": (lambda: E.table(2, precision="double"), ValueError, "precision.*'double'"),
    "workers-zero": (lambda: E.table(2, workers=0), ValueError, "workers"),
    "workers-real": (lambda: E.table(2, workers=1.5), TypeError, "workers.*1.5"),
    "workers-below": (lambda: E.table(2, workers=-100000), ValueError, "workers.*-100000"),
    "start-nan": (lambda: E.table(2, start=float("nan")), ValueError, "start.*nan"),
    "start-text": (lambda: E.table(2, start="1"), TypeError, "start.*'1'"),
    "start-beyond": (lambda: E.table(2, start=2**64 - 1), ValueError, str(2**64 - 1)),
    "step-beyond": (lambda: E.table(3, step=-(2**63)), ValueError, "step"),
    "positions-bool": (lambda: E.encode([True]), TypeError, "positions.*bool"),
    "positions-complex": (lambda: E.encode([1j]), TypeError, "positions.*complex"),
    "positions-object": (lambda: E.encode([None]), TypeError, "positions.*object"),
    "positions-text": (lambda: E.encode(["a"]), TypeError, "positions"),
    "positions-beyond": (lambda: E.encode([2**64]), ValueError, "positions"),
    "positions-months": (lambda: E.encode(np.timedelta64(1, "M")), TypeError, "positions"),
    "positions-no-unit": (lambda: E.encode(np.timedelta64(1)), TypeError, "positions"),
    "positions-axes": (lambda: pf.join([E, E]).encode([1.0, 2.0, 3.0]), ValueError, r"positions.*\(3,\)"),
    "x-list": (lambda: E.add_to([[1.0] * 4]), TypeError, "x must.*list"),
    "x-integer": (lambda: E.add_to(np.ones((2, 4), int)), TypeError, "x must.*int64"),
    "x-width": (lambda: E.add_to(np.ones((2, 5))), ValueError, r"x has shape \(2, 5\)"),
    "x-row": (lambda: E.add_to(np.ones(4)), ValueError, r"x has shape \(4,\)"),
    "x_scale": (lambda: E.add_to(X, x_scale=np.inf), ValueError, "x_scale.*inf"),
    "add-positions-shape": (lambda: E.add_to(X, positions=[1, 2]), ValueError, r"positions.*\(2,\)"),
    "add-positions-and-start": (lambda: E.add_to(X, positions=[1, 2, 3], start=1), ValueError, "positions.*start=1"),
    "table-axes": (lambda: pf.join([E, E]).table(3), ValueError, "2"),
    "join-empty": (lambda: pf.join([]), TypeError, "encodings"),
    "join-gap": (lambda: pf.join([E, E], axes=[0, 2]), ValueError, "axis 1"),
    "shift-partner": (lambda: pf.sinusoidal(5).shift(np.ones((2, 5)), 1), ValueError, "column 4"),
    "shift-function": (
        lambda: pf.fourier_features([1.0], functions=["sin"]).transition_matrix(1),
        ValueError,
        "column 0",
    ),
    "shift-width": (lambda: E.shift(np.ones((2, 5)), 1), ValueError, r"\(2, 5\)"),
    "locate-interval": (lambda: E.locate(E.encode(1), low=2, high=1), ValueError, "low=2"),
    "locate-axes": (lambda: pf.join([E, E]).locate(np.ones(8)), ValueError, "2"),
    "backend": (lambda: pf.use_backend("fortran").__enter__(), ValueError, "'fortran'"),
    "backend-isa": (lambda: pf.use_backend("python", "avx2").__enter__(), ValueError, "avx2"),
}


@pytest.mark.parametrize(("call", "error", "message"), list(CASES.values()), ids=list(CASES))
def test_error(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def readonly():
    out = np.full((3, 4), 7, np.float32)
    out.flags.writeable = False
    return out


OUTS = {
    "shape": (lambda: np.full((4, 4), 7, np.float32), ValueError, r"out.*\(4, 4\)"),
    "dtype": (lambda: np.full((3, 4), 7, np.float64), ValueError, "out.*float64"),
    "byte-order": (lambda: np.full((3, 4), 7, ">f4"), ValueError, "out.*>f4"),
    "read-only": (readonly, ValueError, "out is read-only"),
    "columns-apart": (lambda: np.full((3, 8), 7, np.float32)[:, ::2], ValueError, "out has strides"),
    "list": (lambda: [[7.0] * 4] * 3, TypeError, "out must.*list"),
}


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("call", ["table", "encode", "add_to", "shift"])
@pytest.mark.parametrize(("make", "error", "message"), list(OUTS.values()), ids=list(OUTS))
def test_out(make, error, message, call):
    out = make()
    calls = {
        "table": lambda: E.table(3, out=out),
        "encode": lambda: E.encode([1, 2, 3], out=out),
        "add_to": lambda: E.add_to(X, out=out),
        "shift": lambda: E.shift(X, 1, out=out),
    }
    with pytest.raises(error, match=message):
        calls[call]()
    assert np.array_equal(np.asarray(out), np.full(np.shape(out), 7))


@pytest.mark.usefixtures("backend")
def test_overlap_leaves_x_untouched():
    memory = np.arange(16, dtype=np.float32).reshape(4, 4)
    before = memory.copy()
    with pytest.raises(ValueError, match="overlap"):
        E.add_to(memory[:3], out=memory[1:])
    np.testing.assert_array_equal(memory, before)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(
    "bad", [{"step": "1"}, {"positions": [1, 2]}, {"x_scale": None}, {"precision": "half"}], ids=str
)
def test_in_place_error_leaves_x_untouched(bad):
    x = np.full((2, 3, 4), 7, np.float32)
    with pytest.raises((TypeError, ValueError)):
        E.add_to(x, out=x, **bad)
    assert (x == 7).all()
