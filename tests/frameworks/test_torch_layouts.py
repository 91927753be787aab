"""Test errors for tensors that NumPy cannot read: they name the argument, its layout or dtype, and the fix."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional

torch = optional("torch")
pt = optional("posenc_fast.torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse (CSR|invariant)"),
    pytest.mark.filterwarnings("ignore:.*[Qq]uantiz"),
]

ENCODING, ROTARY = pf.sinusoidal(4), pf.Rotary(4)
IMAGE = pf.join([ENCODING, ENCODING])
X = torch.ones(4, 4)
ARRAY = np.ones((4, 4), np.float32)
HEADS = torch.ones(1, 4, 1, 4)


nested, quantized = torch.nested.nested_tensor, functools.partial(torch.quantize_per_tensor, dtype=torch.qint8)
# keys: kinds of tensors that NumPy cannot read as dense arrays. Values: (function that returns a tensor (4, 4), pattern
# of the error message, in which {} is the name of the argument).
DENSE = r"must be dense: give {}\.to_dense\(\)"
NESTED = r"is a nested tensor, but must be dense: give {}\.to_padded_tensor\(0\)"
KINDS = {
    "sparse": (lambda: torch.eye(4).to_sparse(), r"torch\.sparse_coo, but " + DENSE),
    "mkldnn": (lambda: torch.eye(4).to_mkldnn(), r"torch\._mkldnn, but " + DENSE),
    "nested": (lambda: nested([X, X[1:]]), NESTED),
    "jagged": (lambda: nested([X, X[1:]], layout=torch.jagged), NESTED),
}
# unsupported dtypes, as in `KINDS`. The error of modules differs, and names the four supported dtypes.
DTYPES = {
    "float8": (lambda: torch.eye(4).to(torch.float8_e4m3fn), r"float8_e4m3fn, which NumPy lacks: give {}\.float\(\)"),
    "quantized": (lambda: quantized(X, 0.1, 0), r"qint8, which NumPy lacks: give {}\.dequantize\(\)"),
}
CORE = {
    "positions-encode": ENCODING.encode,
    "positions-add_to": lambda each: ENCODING.add_to(ARRAY, positions=each),
    "positions-apply": lambda each: ROTARY.apply(ARRAY, positions=each),
    "positions-tables": ROTARY.tables,
    "variance-encode": lambda each: ENCODING.encode(ARRAY, variance=each),
    "offset-shift": lambda each: ROTARY.shift(ARRAY, each),
    "cos-apply_tables": lambda each: ROTARY.apply_tables(ARRAY, each, ARRAY[:, :2]),
    "sin-apply_tables": lambda each: ROTARY.apply_tables(ARRAY, ARRAY[:, :2], each),
    "axes[1]-grid": lambda each: pf.grid([2, each], IMAGE),
}
FUNCTIONS = {
    "positions-torch.encode": lambda each: pt.encode(ENCODING, each),
    "positions-torch.add_to": lambda each: pt.add_to(ENCODING, X, positions=each),
    "positions-torch.rotate": lambda each: pt.rotate(ROTARY, X, positions=each),
    "x-torch.add_to": lambda each: pt.add_to(ENCODING, each),
    "x-torch.rotate": lambda each: pt.rotate(ROTARY, each),
    "axes[1]-torch.grid": lambda each: pt.grid([2, each], IMAGE),
    "out-torch.table": lambda each: pt.table(ENCODING, 4, out=each),
    "out-torch.encode": lambda each: pt.encode(ENCODING, torch.arange(4), out=each),
    "out-torch.add_to": lambda each: pt.add_to(ENCODING, X, out=each),
    "out-torch.rotate": lambda each: pt.rotate(ROTARY, X, out=each),
    "out-torch.grid": lambda each: pt.grid([2, 2], IMAGE, out=each),
}
MODULES = {
    "x-SinusoidalEncoding": lambda each: pt.SinusoidalEncoding(4)(each),
    "x-SinusoidalEncoding-image": lambda each: pt.SinusoidalEncoding(8, encoding=IMAGE)(each),
    "q-RotaryEncoding": lambda each: pt.RotaryEncoding(ROTARY)(each),
    "k-RotaryEncoding": lambda each: pt.RotaryEncoding(ROTARY)(X, each),
    "k-rotate_queries_with_cached_keys": lambda each: pt.RotaryEncoding(4).rotate_queries_with_cached_keys(X, each),
    "x-rotary_embedding": lambda each: pt.rotary_embedding(each, X[:, :2], X[:, :2]),
    "cos-rotary_embedding": lambda each: pt.rotary_embedding(HEADS, each, X[:, :2]),
    "sin-rotary_embedding": lambda each: pt.rotary_embedding(HEADS, X[:, :2], each),
    "q-apply_rotary_pos_emb": lambda each: pt.apply_rotary_pos_emb(each, HEADS, X, X),
    "k-apply_rotary_pos_emb": lambda each: pt.apply_rotary_pos_emb(HEADS, each, X, X),
    "cos-apply_rotary_pos_emb": lambda each: pt.apply_rotary_pos_emb(HEADS, HEADS, each, X, 2),
    "sin-apply_rotary_pos_emb": lambda each: pt.apply_rotary_pos_emb(HEADS, HEADS, X, each, 2),
}
OF_MODULES = {
    "positions-SinusoidalEncoding": lambda each: pt.SinusoidalEncoding(4)(X, positions=each),
    "positions-RotaryEncoding": lambda each: pt.RotaryEncoding(ROTARY)(X, positions=each),
}
CALLS = CORE | FUNCTIONS | MODULES | OF_MODULES


@pytest.mark.parametrize("kind", KINDS | DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_errors_name_the_argument_and_the_fix(name, kind):
    make, message = (KINDS | DTYPES)[kind]
    error, tensor, argument = (TypeError, ValueError), make(), re.escape(name.partition("-")[0])
    message = message.format(argument)
    if kind in DTYPES and name in MODULES:
        error, message = TypeError, "must be of float64, float32, float16 or bfloat16, not torch"
    if kind in DTYPES and name in OF_MODULES:
        error, tensor = TypeError, tensor[0]
    with pytest.raises(error, match=f"^{argument} .*{message}"):
        CALLS[name](tensor)


def test_position_ids():
    ids = torch.arange(4)
    for each in (ids.to_sparse(), nested([ids, ids]), nested([ids, ids], layout=torch.jagged)):
        with pytest.raises((TypeError, ValueError), match=r"^position_ids (has|is|must be)"):
            pt.rotary_embedding(HEADS, X[:, :2], X[:, :2], each)


def test_fake_tensors_have_no_values():
    from torch._subclasses.fake_tensor import FakeTensorMode

    fake = FakeTensorMode().from_tensor(X)
    for name, call in CORE.items():
        with pytest.raises(TypeError, match=f"^{re.escape(name.partition('-')[0])} is a fake tensor without values"):
            call(fake)


def test_tables_of_bfloat16():
    cos, sin = (torch.from_numpy(each).bfloat16() for each in ROTARY.tables(4))
    expected = ROTARY.apply_tables(ARRAY, cos.float().numpy(), sin.float().numpy())
    assert np.array_equal(ROTARY.apply_tables(ARRAY, cos, sin), expected)
