"""Test functions on tensors and SinusoidalEncoding: values, gradients, checkpoints and exported programs."""

from __future__ import annotations

import copy
import functools
import importlib.util
import itertools
import math
import pickle
import re
import sys

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
from support.optional import optional
from support.processes import python
from support.tensors import array, equal, half_ulp, random

torch = optional("torch")
pt = optional("posenc_fast.torch")
devices = optional("posenc_fast.torch._devices")
operators = optional("posenc_fast.torch._operators")
tensors = optional("posenc_fast.torch._tensors")
text = optional("posenc_fast.torch._text")


BATCH_FIRST = pytest.mark.parametrize("batch_first", [True, False], ids=["batch-first", "length-first"])


# ---- functions ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
def test_functions_are_those_of_the_core(dtype, rng):
    """Functions compute the bits of the core's methods. They write to out, which may be x, or part of a tensor."""
    encoding, rotary, kind = pf.sinusoidal(20, base=300.0), pf.Rotary(20), tensors.numpy_type(dtype, "dtype")
    x, places = random(rng, 2, 7, 20, dtype=dtype), random(rng, 3, 4, dtype=torch.float64)
    ids = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [9, 9, 8, 8, 7, 7, 6]])
    for function, method, given, options in (
        (pt.table, encoding.table, 9, {"dtype": dtype, "start": -2, "step": 3}),
        (pt.table, encoding.table, 9, {"dtype": dtype, "precision": "float32", "workers": 2}),
        (pt.encode, encoding.encode, places, {"dtype": dtype}),
        (pt.add_to, encoding.add_to, x, {"start": 5, "step": -1, "x_scale": 0.5}),
        (pt.add_to, encoding.add_to, x, {"positions": ids}),
        (pt.rotate, rotary.apply, x, {"positions": ids, "inverse": True}),
        (pt.rotate, rotary.apply, x, {"start": 4, "seq_axis": 0}),
    ):
        call = functools.partial(function, method.__self__, given, **options)
        of_core = options | ({"dtype": kind} if "dtype" in options else {})
        expected = method(given if function is pt.table else array(given), **of_core)
        equal(call(), expected)
        whole = torch.full((*expected.shape[:-1], 32), 7.0, dtype=dtype)
        part = whole[..., 4:24]
        assert call(out=part) is part
        equal(part, expected)
        assert (whole[..., :4] == 7).all()
        assert (whole[..., 24:] == 7).all()
        if given is x:
            same = x.clone()
            assert function(method.__self__, same, **options, out=same) is same
            equal(same, expected)


def test_autograd_sees_what_was_overwritten(rng):
    for call in (
        lambda x: pt.add_to(pf.sinusoidal(4), x, out=x),
        lambda x: pt.table(pf.sinusoidal(4), 3, out=x),
        lambda x: pt.SinusoidalEncoding(4, inplace=True)(x),
        lambda x: pt.RotaryEncoding(pf.Rotary(4), inplace=True)(x),
    ):
        weight, x = torch.ones(3, 4, requires_grad=True), random(rng, 3, 4)
        product = weight * x
        call(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()


# ---- values of the module -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@BATCH_FIRST
def test_module_adds_what_the_core_adds(batch_first, dtype, rng):
    make = functools.partial(pt.SinusoidalEncoding, 12, 0.0, batch_first=batch_first, x_scale="sqrt")
    module, in_place = make(), make(inplace=True)
    x, add_to = random(rng, 3, 7, 12, dtype=dtype), functools.partial(pf.sinusoidal(12).add_to, x_scale=math.sqrt(12))
    each = torch.from_numpy(rng.uniform(-9, 9, (3, 7)))
    for options in ({"start": 4}, {"positions": torch.arange(7, 0, -1)}, {"positions": each}):
        given = (x if batch_first else x.transpose(0, 1)).contiguous()
        before, expected = given.clone(), add_to(array(x), **options)
        expected = expected if batch_first else expected.swapaxes(0, 1)
        got = module(given, **options)
        assert (got.shape, got.dtype, got.stride()) == (given.shape, dtype, given.stride())
        equal(got, expected)
        assert torch.equal(given, before)
        assert in_place(given, **options) is given
        equal(given, expected)
    equal(module(x[0]), add_to(array(x[0])))


@BATCH_FIRST
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"], indirect=True)
def test_large_results(batch_first, dtype, rng):
    """Large results, which use huge pages and several threads, have the right values, strides and dtype."""
    x = random(rng, 2, 1100, 1024, dtype=dtype)
    assert x.nbytes >= tensors.HUGE_PAGES_FROM
    assert x.numel() >= tensors.WORTH_A_THREAD
    module, threads = pt.SinusoidalEncoding(1024, 0.0, batch_first=batch_first), torch.get_num_threads()
    y = x if batch_first else x.transpose(0, 1)
    try:
        torch.set_num_threads(2)
        got = module(x)
        assert (got.shape, got.stride(), got.dtype) == (x.shape, x.stride(), dtype)
        equal(got if batch_first else got.transpose(0, 1), module.encoding.add_to(array(y)))
        assert (got + 1).shape == got.shape
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("device", ["cpu", "other"])
def test_results_are_those_of_the_tutorial(device, rng, request):
    """Sums and dropout have the bits of the tutorial's module, if its table has float64 (float32 on other devices)."""
    table = torch.from_numpy(pf.positional_encoding(50, 16, dtype=np.float64))
    if device == "other":
        request.getfixturevalue("elsewhere")
        table = table.float()
    x, module = random(rng, 50, 3, 16), pt.SinusoidalEncoding(16, 0.3)
    total = (x + table[:, None]).float()
    torch.manual_seed(5)
    got = module(x)
    torch.manual_seed(5)
    assert torch.equal(got, torch.nn.Dropout(0.3)(total))
    assert (got == 0).any()
    assert torch.equal(module.eval()(x), total)
    assert pt.SinusoidalEncoding(16).dropout.p == 0.1


def test_dropout_is_a_separate_module(rng):
    """`dropout` is a submodule: its hooks run, also in evaluation, and it can be replaced or have a mode of its own."""
    module, x, seen = pt.SinusoidalEncoding(16, dropout=0.5).eval(), random(rng, 2, 3, 16), []
    module.dropout.register_forward_hook(lambda _, given, result: seen.append(result))
    assert module(x) is seen[0]
    module.dropout.train()
    assert (module(x) == 0).any()
    module.dropout = torch.nn.Hardtanh(-0.25, 0.25)
    assert module(x).abs().max() == 0.25


def test_encodings_given_as_values_and_by_options():
    layout = pf.sinusoidal(6, layout="concatenated", base=50.0)
    assert pt.SinusoidalEncoding(6, encoding=layout).encoding is layout
    assert pt.SinusoidalEncoding(6, layout="concatenated", base=50.0).encoding == layout
    wide = pt.SinusoidalEncoding(6, encoding="annotated_transformer", base=500.0).encoding
    assert wide == pf.presets.annotated_transformer(6, base=500.0)
    with pytest.raises(AttributeError, match="encoding"):
        pt.SinusoidalEncoding(6).encoding = layout


def test_text_is_complete():
    for encoding in (
        pf.sinusoidal(4, frequencies={"sin": [1 / 3, 2.0], "cos": [0.1, -1e-300]}, functions=("sin", "cos")),
        pf.Encoding([5e-324, -0.0, 1.7e308], phases=[0.1, 1 / 3, -7.0], amplitudes=[1e-5, 2.0, 0.0]),
        pf.join([pf.sinusoidal(4), pf.fourier_features([[0.1, 1 / 3]])], axes=[[2], [0, 1]]),
    ):
        assert text.from_text(text.to_text(encoding)) == encoding


def test_gradients_are_scaled_and_of_the_type_of_x(dtype, rng):
    x, gradient = random(rng, 2, 5, 8, dtype=dtype).requires_grad_(), random(rng, 2, 5, 8, dtype=dtype)
    for scale in (1.0, 3.0):
        y, x.grad = pt.SinusoidalEncoding(8, 0.0, batch_first=True, x_scale=scale)(x), None
        equal(y, pf.sinusoidal(8).add_to(array(x), x_scale=scale))
        y.backward(gradient)
        assert torch.equal(x.grad, gradient * scale)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
@pytest.mark.parametrize("inplace", [False, True])
def test_without_gradients(inplace, mode, rng):
    """Without gradients, x that requires gradients may be overwritten. Inference tensors have no version counter."""
    module, x = pt.SinusoidalEncoding(8, 0.0, inplace=inplace), random(rng, 5, 8).requires_grad_()
    expected = module.encoding.add_to(array(x))
    with mode():
        y, inner = module(x), torch.zeros(5, 8)
        assert (y is x) == inplace
        assert y.requires_grad == inplace
        equal(y, expected)
        equal(module(inner), module.encoding.table(5))
        equal(pt.add_to(module.encoding, inner, out=inner), array(inner))


# ---- states ---------------------------------------------------------------------------------------------------------


def of_tutorials(length, width):
    """Return the float32 table of the PositionalEncoding module of many tutorials."""
    angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


@pytest.mark.parametrize("stored", ["exact", "float64", "float32", "float16", "bfloat16"])
def test_checkpoints_of_tutorials(stored):
    model = torch.nn.Sequential(torch.nn.Linear(2, 32), pt.SinusoidalEncoding(32))
    assert not [*model[1].state_dict(), *model[1].parameters(), *model[1].buffers()]
    for length, shape in ((5000, (-1, 1, 32)), (5000, (1, -1, 32)), (5000, (-1, 32)), (1, (1, 1, 32))):
        exact = torch.from_numpy(pf.positional_encoding(length, 32))
        pe = exact if stored == "exact" else of_tutorials(length, 32).to(getattr(torch, stored))
        state = model.state_dict() | {"1.pe": pe.reshape(shape)}
        keys = list(state)
        assert str(model.load_state_dict(state, strict=True)) == "<All keys matched successfully>"
        assert list(state) == keys
        assert not model[1].state_dict()
    for pe in (torch.empty(0, 1, 32), torch.empty(100, 1, 32, device="meta")):
        model[1].load_state_dict({"pe": pe})


WRONG_TABLES = {
    "is not the table of sinusoidal": pf.positional_encoding(100, 8, layout="concatenated"),
    "differ by 0.0": pf.positional_encoding(5000, 8, base=10001.0),
    "identify": pf.positional_encoding(100, 8, start=1),
    "differ by nan": np.full((100, 8), np.nan, np.float32),
    "shape (100, 6)": pf.positional_encoding(100, 6),
    "shape (8,)": np.zeros(8, np.float32),
}


@pytest.mark.parametrize("message", WRONG_TABLES)
def test_checkpoints_of_other_encodings(message):
    model = torch.nn.ModuleDict({"position": pt.SinusoidalEncoding(8)})
    for strict in (True, False):
        with pytest.raises(RuntimeError, match=rf"position\.pe .*{re.escape(message)}"):
            model.load_state_dict({"position.pe": torch.from_numpy(WRONG_TABLES[message])}, strict=strict)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*other"):
        model.load_state_dict({"position.other": torch.zeros(1)})


def test_copies(rng):
    model, x = torch.nn.Sequential(pt.SinusoidalEncoding(8, 0.0), pt.RotaryEncoding(pf.Rotary(8))), random(rng, 4, 8)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), model(x))
        assert repr(other) == repr(model)
        assert (other[0].encoding, other[1].rotary) == (model[0].encoding, model[1].rotary)
    module = pt.SinusoidalEncoding(4, batch_first=True, x_scale="sqrt", inplace=True)
    assert module.extra_repr() == "sinusoidal(4), batch_first=True, x_scale=2, inplace=True"


def test_casting_or_moving_the_module_has_no_effect(rng):
    """Results have the dtype and the device of x."""
    module, x = pt.SinusoidalEncoding(8, 0.0), random(rng, 4, 8)
    for move in (torch.nn.Module.half, torch.nn.Module.double, lambda module: module.to("meta")):
        move(module)
        for dtype in (torch.float64, torch.float32, torch.float16):
            equal(module(x.to(dtype)), module.encoding.add_to(array(x.to(dtype))))


# ---- other devices --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("x_scale", [1.0, 3.7])
def test_tables_of_other_devices(x_scale, dtype, rng):
    """On devices other than the CPU, modules add a float32 table (float64 for a float64 x), and round to x.dtype."""
    make = functools.partial(pt.SinusoidalEncoding, 8, 0.0, batch_first=True, x_scale=x_scale)
    module, in_place = make(), make(inplace=True)
    for start, length in ((0, 5), (0, 1024), (1020, 9), (5000, 1500), (-3, 7), (10**6, 2), (0, 0)):
        x = random(rng, 2, length, 8, dtype=dtype)
        rows = module.encoding.table(length, start=start, dtype=np.float64)
        exact = x.double() * x_scale + torch.from_numpy(rows)
        got, same = module(x, start=start), x.clone()
        assert got.dtype == dtype
        # allow for half an ulp, and for rounding errors of rows, products and sums in the dtype of the table
        half = half_ulp(exact, dtype)
        work = torch.finfo(dtype if dtype == torch.float64 else torch.float32).eps
        assert ((got.double() - exact).abs() <= half + work * (1 + (x.double() * x_scale).abs())).all()
        assert in_place(same, start=start) is same
        assert torch.equal(same, got)
        # in float64, rows may differ in the last place between start= and positions=
        between = (module(x, positions=start + torch.arange(length)).double() - got.double()).abs()
        assert (between <= (2 * half + 2.0**-53 if dtype == torch.float64 else 0.0)).all()


@pytest.mark.usefixtures("elsewhere")
def test_cached_tables_and_gradients_on_other_devices(rng):
    module, misses = pt.SinusoidalEncoding(8, 0.0, x_scale=2.5), devices._cached_rows.cache_info
    for length in (1, 7, 300, 1024):
        module(random(rng, length, 8))
    assert misses().misses == 1
    for start in range(1000, 1100):
        module(random(rng, 1, 8), start=start)
    assert misses().misses == 2
    # a table that was cached in inference mode can also be used for gradients
    with torch.inference_mode():
        module(random(rng, 3, 8, dtype=torch.float64))
    assert misses().misses == 3
    assert torch.autograd.gradcheck(module, (random(rng, 3, 8, dtype=torch.float64).requires_grad_(),))


def test_meta_device(dtype):
    x, cos = torch.empty(2, 3, 8, dtype=dtype, device="meta"), torch.empty(3, 4, device="meta")
    for call in (
        pt.SinusoidalEncoding(8, batch_first=True),
        pt.RotaryEncoding(8),
        lambda x: pt.apply_rotary_pos_emb(x[None], x[None], cos, cos, 0, tables="pairs")[0][0],
    ):
        y = call(x.requires_grad_())
        assert (y.device.type, y.shape, y.dtype, y.requires_grad) == ("meta", x.shape, dtype, True)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert gradient.shape == x.shape


# ---- compilation and export -----------------------------------------------------------------------------------------


def test_operators_are_registered_as_they_behave(rng):
    check = torch.library.opcheck
    encoding, rotary = text.to_text(pf.sinusoidal(8)), text.to_text(pf.Rotary(8))
    positions, cos = torch.arange(5), random(rng, 5, 4).requires_grad_()
    for x in (random(rng, 5, 2, 8).transpose(0, 1), random(rng, 2, 8, 5).transpose(1, 2)):
        leaf = x.clone().requires_grad_()
        check(operators.add_encoding, (leaf, encoding, 0.5, None, 2.0, "float32", 0.25, 2))
        check(operators.rotate, (leaf, rotary, 0.5, None, -2, False, "float32", True, 2))
        check(operators.rotate_by, (leaf, cos, cos, 1, "interleaved_to_half", True))
        check(operators.encode, (leaf, encoding, torch.float64, "exact", 2))
    check(operators.add_encoding_, (x.clone(), encoding, 0, positions, 2.0))
    check(operators.rotate_, (x.clone(), rotary, 0, positions, -2, False))
    check(operators.table, (encoding, 5, 0.5, 2, torch.float32, "exact", None))
    check(operators.pair_columns, (cos.detach().repeat_interleave(2, -1), "interleaved", "cos"))


def test_plain_evaluation_needs_no_operator(monkeypatch, rng):
    """Without gradients and modes of torch, modules call no registered operator, and compute the same bits."""
    x, positions = random(rng, 2, 5, 8), torch.tensor([3, 1, 4, 1, 5])
    modules = [pt.SinusoidalEncoding(8, 0.0, batch_first=True, x_scale="sqrt", inplace=each) for each in (False, True)]
    modules += [pt.RotaryEncoding(8, inplace=each) for each in (False, True)]

    def results():
        given = (x.clone(), x.transpose(0, 1).clone().transpose(0, 1)), ({}, {"start": 1000}, {"positions": positions})
        return [module(each.clone(), **options) for module in modules for each, options in itertools.product(*given)]

    with monkeypatch.context() as patch:
        # let the package believe that a mode of torch is active, so that every call uses an operator
        patch.setattr(tensors, "modes", lambda: 1)
        expected = results()
    for name in ("add_encoding", "add_encoding_", "rotate", "rotate_", "rotate_by"):
        monkeypatch.setattr(operators, name, None)
    for got, operator_result in zip(results(), expected, strict=True):
        assert torch.equal(got, operator_result)
        assert got.stride() == operator_result.stride()
    with pytest.raises(TypeError, match="NoneType"):
        modules[0](x.requires_grad_())


def test_versions_of_torch_without_private_names(monkeypatch):
    """If torch lacks a private name that the package reads, every call uses an operator."""
    monkeypatch.delattr(torch._C._functorch, "is_functorch_wrapped_tensor")
    spec = importlib.util.spec_from_file_location("posenc_fast.torch._other", tensors.__file__)
    other, x = importlib.util.module_from_spec(spec), torch.ones(2, 8)
    spec.loader.exec_module(other)
    assert other.needs_operator()
    assert not other.is_eager(x)
    assert not other.is_followed(x)
    equal(x, other.array_of(x, "x"))


LINE, TURN = pf.sinusoidal(16), pf.Rotary(8)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 16)
        self.position = pt.SinusoidalEncoding(16, batch_first=True, x_scale="sqrt", encoding="fairseq")
        yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
        self.rotary = pt.RotaryEncoding(pf.Rotary(8, scaling=yarn))
        self.cos, self.sin = map(torch.from_numpy, TURN.tables(64))

    def forward(self, tokens):
        x = self.position(self.embedding(tokens)) + pt.table(LINE, tokens.shape[1])
        x = pt.add_to(LINE, x) + pt.encode(LINE, tokens.float())
        heads = pt.rotate(TURN, x.unflatten(-1, (2, 8)), seq_axis=1)
        heads = pt.rotary_embedding(heads, self.cos, self.sin, tokens).transpose(1, 2)
        q, k = self.rotary(heads, heads[:, :1])
        return q @ k.transpose(-1, -2)


def test_export(tmp_path, rng):
    """An exported program computes the results of the model, also for other lengths and in a new process."""
    model, tokens = Model().eval(), torch.from_numpy(rng.integers(0, 50, (2, 7)))
    longer = torch.from_numpy(rng.integers(0, 50, (3, 40)))
    torch.save((longer, model(longer)), tmp_path / "values.pt")
    dynamic = {0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("length", min=2, max=4096)}
    exported = torch.export.export(model, (tokens,), dynamic_shapes=(dynamic,))
    torch.export.save(exported, tmp_path / "model.pt2")
    assert torch.equal(exported.module()(tokens), model(tokens))
    program = """
import sys, torch, posenc_fast.torch
tokens, expected = torch.load(sys.argv[1] + "/values.pt")
assert torch.equal(torch.export.load(sys.argv[1] + "/model.pt2").module()(tokens), expected)
"""
    result = python(program, tmp_path, timeout=300)
    assert result.returncode == 0, result.stderr


X = torch.zeros(2, 3, 8)
GRAD = torch.zeros(2, 3, 8, requires_grad=True)
META = torch.empty(2, 3, 8, device="meta")
E = pf.sinusoidal(8)
NEGATIVE = torch.zeros(2, 3, 8, dtype=torch.complex64).conj().imag


PIXELS = pt.SinusoidalEncoding(8, encoding=pf.join([pf.sinusoidal(4), pf.sinusoidal(4)]))


def adding(d_model=8, **options):
    return pt.SinusoidalEncoding(d_model, **options)


@wrong_calls(
    """
    adding()(X.numpy()) | TypeError | x; torch.Tensor; ndarray
    adding(6)(X) | ValueError | (2, 3, 8); (length, batch, 6)
    adding()(X[0, 0]) | ValueError | (8,); (length, 8)
    adding()(X[None]) | ValueError | (1, 2, 3, 8); (length, batch, 8)
    adding(6, batch_first=True)(X) | ValueError | (2, 3, 8); (batch, length, 6)
    adding(inplace=True)(GRAD) | ValueError | x; gradients; no_grad
    adding(inplace=True)(X[:1].expand(5, 3, 8)) | ValueError | x; expanded
    adding(inplace=True)(NEGATIVE) | ValueError | x; negated view; resolve_neg
    pt.RotaryEncoding(pf.Rotary(8), inplace=True)(NEGATIVE, X) | ValueError | q ; negated view; resolve_neg
    adding()(X, start=0.5) | TypeError | start; 0.5; positions
    adding()(X, start=True) | TypeError | start; True
    adding()(X, positions=[0, 1]) | TypeError | positions; list
    adding()(X, positions=torch.arange(3)) | ValueError | (3,); (2,), with; (3, 2), with
    adding()(X, positions=torch.arange(2), start=1) | ValueError | start=1
    adding()(X, positions=X[:, 0, 0] > 0) | TypeError | positions must be integers or real numbers, not torch.bool
    adding()(X, positions=X[:, 0, 0] * 1j) | TypeError | positions must be integers or real numbers, not torch.complex64
    adding()(X, positions=GRAD[:, 0, 0]) | ValueError | positions; gradients; detach
    adding()(X, positions=META[:, 0, 0]) | ValueError | positions; meta; cpu
    adding()(X, start=2**64) | (ValueError, RuntimeError) | 18446744073709551616
    adding(0) | ValueError | d_model; 0
    adding(dropout=1.5) | ValueError | dropout; 1.5
    adding(x_scale="root") | ValueError | x_scale; 'root'; 'sqrt'
    adding(x_scale=math.nan) | ValueError | x_scale; nan
    adding(encoding="whispers") | AttributeError | whispers; whisper
    adding(encoding=3) | TypeError | encoding; 3
    adding(encoding=pf.sinusoidal(6)) | ValueError | 6 columns; d_model=8
    PIXELS(X[0]) | ValueError | (3, 8); 2 axes
    PIXELS(X, start=(1, 2, 3)) | ValueError | (1, 2, 3); 2
    PIXELS(X, start=(1, 0.5)) | TypeError | start; 0.5
    PIXELS(X, positions=torch.zeros(2, 3)) | ValueError | (2, 3); (2, 3, 2)
    PIXELS(X, positions=torch.zeros(2, 3, 2), start=(0, 1)) | ValueError | start=(0, 1)
    adding(precision="double") | ValueError | precision; double
    adding(encoding=E, base=2.0) | TypeError | base; sinusoidal(8)
    pt.table(E, 3, dtype=torch.int32) | TypeError | dtype; torch.int32
    pt.table(E, 3, out=META[0]) | ValueError | out; meta; CPU
    pt.table(E, 3, out=GRAD[0]) | ValueError | out; gradients
    pt.table(E, 3, dtype=torch.float32, out=X[0].half()) | ValueError | out; float16; float32
    pt.table(E, 4, out=X[0]) | ValueError | out; (3, 8); (4, 8)
    pt.table(E, 3, out=X[0, :1].expand(3, 8)) | ValueError | out has strides (0, 1), so several values share memory
    pt.table(E, 3, out=X.flatten().as_strided((3, 8), (1, 1))) | ValueError | out has strides (1, 1)
    pt.table(E, 3, out=X.flatten().as_strided((3, 8), (4, 1))) | ValueError | out has strides (4, 1)
    pt.encode(E, [1.0]) | TypeError | positions; list
    pt.encode(E, GRAD[0, 0], out=X[0]) | ValueError | positions; gradients; out
    pt.add_to(E, META) | ValueError | x; meta; x.cpu()
    pt.add_to(E, GRAD, out=X) | ValueError | x; gradients; out; no_grad
    pt.add_to(E, X, out=GRAD) | ValueError | out; gradients
    pt.add_to(E, X[:1].expand(2, 3, 8), out=X[:1].expand(2, 3, 8)) | ValueError | out; strides (0, 8, 1); contiguous
    pt.add_to(pf.sinusoidal(6), X) | ValueError | x; (2, 3, 8); 6
    pt.add_to(E, X.numpy()) | TypeError | x; ndarray
    pt.rotate(pf.Rotary(8), GRAD, out=X) | ValueError | x; gradients; out; no_grad
    """
)
def test_errors(call, error, words):
    raises(call, error, words)
    assert not X.any()
    assert not GRAD.any()


def test_bfloat16_without_ml_dtypes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    # clear the cache of dtypes, because earlier calls may have stored the bfloat16 of ml_dtypes
    tensors.numpy_type.cache_clear()
    x, encoding = torch.zeros(2, 8, dtype=torch.bfloat16), pf.sinusoidal(8)
    table = functools.partial(pt.table, encoding, 3, dtype=torch.bfloat16)
    for call in (table, lambda: pt.SinusoidalEncoding(8)(x), lambda: pt.add_to(encoding, x)):
        with pytest.raises(ImportError, match=r"pip install ml_dtypes"):
            call()
