"""`rotary_embedding` of torch, with the arguments of a function proposed for torch.nn.functional."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.tensors import random

torch = optional("torch")
pt = optional("posenc_fast.torch")

# torch's compiler and functorch cause this warning when they are imported
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


def plain(x, cos, sin, position_ids=None, *, interleaved=False):
    """Return x rotated by the formula in float64."""
    x, cos, sin = (each.double() for each in (x, cos, sin))
    if position_ids is not None:
        cos, sin = cos[position_ids], sin[position_ids]
    cos, sin = cos[..., None, :], sin[..., None, :]
    pairs = x.shape[-1] // 2
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :pairs], x[..., pairs:])
    parts = first * cos - second * sin, second * cos + first * sin
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


def tables(n, pairs, dtype=torch.float32):
    return [torch.from_numpy(each).to(dtype) for each in pf.Rotary(2 * pairs).tables(n, dtype=np.float64)]


IDS = {
    "rows-in-order": None,
    "one-sequence": [4, 0, 19],
    "each-sequence": [[4, 0, 19], [1, 2, 3]],
    "one-for-all": [[4, 0, 19]],
}
ORDERS = pytest.mark.parametrize("interleaved", [False, True], ids=["half", "interleaved"])


@pytest.mark.usefixtures("backend")
@ORDERS
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_values(ids, interleaved, dtype, rng):
    """Results are within half an ulp of the exact values, for float32 tables and for tables with the dtype of x."""
    x = random(rng, 2, 3, 4, 8, dtype=dtype)
    ids = None if ids is None else torch.tensor(ids)
    for kind in {torch.float32, dtype}:
        cos, sin = tables(3 if ids is None else 20, 4, kind)
        got = pt.rotary_embedding(x, cos, sin, ids, interleaved=interleaved)
        exact = plain(x, cos, sin, ids, interleaved=interleaved)
        assert (got.dtype, got.shape) == (dtype, x.shape)
        half = torch.ldexp(torch.finfo(dtype).eps / 2 * torch.ones_like(exact), torch.frexp(exact)[1] - 1)
        assert ((got.double() - exact).abs() <= half + 2.0**-20 * (dtype.itemsize == 2) + 2.0**-48).all()


def test_is_the_rotation_of_rotary(rng):
    x = random(rng, 2, 5, 3, 16)
    cos, sin = tables(100, 8, torch.float64)
    positions = torch.tensor([7, 8, 9, 10, 99])
    assert torch.equal(
        pt.rotary_embedding(x, cos, sin, positions), pt.RotaryEncoding(16, seq_axis=1)(x, positions=positions)
    )


def test_heads_before_tokens(rng):
    """Transposed views rotate an x with heads before tokens, as in the proposal."""
    x, (cos, sin) = random(rng, 2, 3, 5, 16), tables(5, 8)
    got = pt.rotary_embedding(x.transpose(1, 2), cos, sin).transpose(1, 2)
    assert torch.equal(got, pt.apply_rotary_pos_emb(x, x, cos, sin, 0, tables="pairs")[0])


@pytest.mark.parametrize("shape", [(5, 3, 8), (4, 5, 3, 8), (2, 4, 5, 3, 8)], ids=["plain", "batch", "two-axes"])
def test_any_axes_before_the_tokens(shape, rng):
    x, (cos, sin) = random(rng, *shape, dtype=torch.float64), tables(50, 4, torch.float64)
    ids = torch.from_numpy(rng.integers(0, 50, shape[:-2]))
    expected = plain(x, cos, sin, ids)
    torch.testing.assert_close(pt.rotary_embedding(x, cos, sin, ids), expected, rtol=0, atol=1e-14)
    # separate tables for each sequence
    torch.testing.assert_close(pt.rotary_embedding(x, cos[ids], sin[ids]), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["int64", "int32", "int16", "uint8"])
def test_position_ids_of_every_integer_type(kind, rng):
    x, (cos, sin) = random(rng, 3, 1, 8), tables(20, 4)
    ids = torch.tensor([4, 0, 19])
    got = pt.rotary_embedding(x, cos, sin, ids.to(getattr(torch, kind)))
    assert torch.equal(got, pt.rotary_embedding(x, cos, sin, ids))


def test_nothing_is_changed(rng):
    x, (cos, sin) = random(rng, 2, 3, 1, 8), tables(3, 4)
    before = [each.clone() for each in (x, cos, sin)]
    pt.rotary_embedding(x, cos, sin)
    assert all(map(torch.equal, (x, cos, sin), before))


# ---- gradients --------------------------------------------------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_gradients(ids, interleaved, rng):
    """First and second derivatives of x, cos and sin are right. A row that several tokens share gets the sum."""
    x = random(rng, 2, 3, 2, 4, dtype=torch.float64)
    ids = None if ids is None else torch.tensor(ids) % 5
    leaves = [each.requires_grad_() for each in (x, *tables(3 if ids is None else 5, 2, torch.float64))]

    def call(*leaves):
        return pt.rotary_embedding(*leaves, ids, interleaved=interleaved)

    assert torch.autograd.gradcheck(call, leaves, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, leaves)
    gradients, expected_gradients = (
        torch.autograd.grad((result**3).sum(), leaves)
        for result in (call(*leaves), plain(*leaves, ids, interleaved=interleaved))
    )
    for got, expected in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("leaf", [0, 1, 2], ids=["x", "cos", "sin"])
def test_gradients_of_one_argument_have_its_type(leaf, dtype, rng):
    leaves = [random(rng, 2, 3, 1, 8, dtype=dtype), *tables(3, 4)]
    leaves[leaf].requires_grad_()
    pt.rotary_embedding(*leaves).sum().backward()
    assert leaves[leaf].grad.dtype == leaves[leaf].dtype
    exact = [each.detach().double() for each in leaves]
    exact[leaf].requires_grad_()
    plain(*exact).sum().backward()
    allowed = 4 * max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    torch.testing.assert_close(leaves[leaf].grad.double(), exact[leaf].grad, rtol=allowed, atol=allowed)


@pytest.mark.usefixtures("elsewhere")
@ORDERS
def test_other_devices(interleaved, rng):
    leaves = [
        each.requires_grad_() for each in (random(rng, 2, 3, 2, 4, dtype=torch.float64), *tables(5, 2, torch.float64))
    ]
    ids = torch.tensor([4, 0, 4])
    assert torch.autograd.gradcheck(lambda *each: pt.rotary_embedding(*each, ids, interleaved=interleaved), leaves)


# ---- compilation and export -------------------------------------------------------------------------------------------


def test_compile(rng):
    """One graph serves all lengths. Values have the bits of eager calls, and x, cos and sin have gradients."""
    torch.compiler.reset()

    def call(x, cos, sin, ids):
        return pt.rotary_embedding(x * 2, cos, sin, ids, interleaved=True)

    compiled = torch.compile(call, fullgraph=True, dynamic=True)
    for length in (3, 5):
        x, ids = random(rng, 2, length, 2, 8), torch.from_numpy(rng.integers(0, 20, (2, length)))
        leaves = [each.requires_grad_() for each in (x, *tables(20, 4))]
        results = []
        for run in (call, compiled):
            y = run(*leaves, ids)
            results.append((y.detach(), *torch.autograd.grad((y**2).sum(), leaves)))
        assert torch.equal(results[0][0], results[1][0])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_export(tmp_path, rng):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, table in zip(("cos", "sin"), tables(50, 4), strict=True):
                self.register_buffer(name, table)

        def forward(self, x, ids):
            return pt.rotary_embedding(x, self.cos, self.sin, ids)

    model, ids = Model(), torch.tensor([[3, 1, 4], [1, 5, 9]])
    length = torch.export.Dim("length")
    program = torch.export.export(
        model, (random(rng, 2, 3, 2, 8), ids), dynamic_shapes=({1: length}, {1: length}), strict=False
    )
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2").module()
    x, ids = random(rng, 2, 7, 2, 8), torch.from_numpy(rng.integers(0, 50, (2, 7)))
    assert torch.equal(loaded(x, ids), model(x, ids))


# ---- the signature, and errors ----------------------------------------------------------------------------------------


def test_signature():
    """Positional and keyword arguments are those of the proposal."""
    parameters = inspect.signature(pt.rotary_embedding).parameters
    assert list(parameters) == ["x", "cos", "sin", "position_ids", "interleaved"]
    assert parameters["position_ids"].default is None
    assert parameters["interleaved"].default is False
    assert [name for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY] == ["interleaved"]


X, COS = torch.zeros(2, 3, 5, 8), torch.ones(3, 4)
META = torch.empty(3, 4, device="meta")


def called(x=X, cos=COS, sin=COS, ids=None, **options):
    return pt.rotary_embedding(x, cos, sin, None if ids is None else torch.as_tensor(ids), **options)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: called(x=X.numpy()), TypeError, ["x", "torch.Tensor", "ndarray"]),
        (lambda: called(x=X.long()), TypeError, ["x", "int64", "float32"]),
        (lambda: called(sin=COS.long()), TypeError, ["sin", "int64"]),
        (lambda: called(cos=None), TypeError, ["cos", "NoneType"]),
        (lambda: called(interleaved="half"), TypeError, ["interleaved", "'half'"]),
        (lambda: called(x=X[0, 0]), ValueError, ["x", "(5, 8)", "(.., length, heads, head_dim)"]),
        (lambda: called(x=X[..., :7]), ValueError, ["x", "(2, 3, 5, 7)", "even"]),
        (lambda: called(cos=META, sin=META), ValueError, ["cos", "meta", "cpu"]),
        (lambda: called(sin=COS[:2]), ValueError, ["cos", "(3, 4)", "(2, 4)"]),
        (lambda: called(cos=COS[0], sin=COS[0]), ValueError, ["(4,)", "(length, 4)"]),
        (
            lambda: called(cos=torch.ones(3, 8), sin=torch.ones(3, 8)),
            ValueError,
            ["(3, 8)", "(length, 4)", "apply_rotary_pos_emb"],
        ),
        (
            lambda: called(cos=COS[:, :2], sin=COS[:, :2]),
            ValueError,
            ["(3, 2)", "(length, 4)", "apply_rotary_pos_emb"],
        ),
        (
            lambda: called(cos=torch.ones(9, 4), sin=torch.ones(9, 4)),
            ValueError,
            ["cos", "(9, 4)", "(2, 3, 5, 8)", "position_ids"],
        ),
        (lambda: called(x=X.transpose(1, 2)), ValueError, ["(3, 4)", "(2, 5, 3, 8)", "x.transpose(-3, -2)"]),
        (lambda: called(ids=[0, 1, 3]), ValueError, ["position_ids", "3", "rows 0 to 2", "RotaryEncoding"]),
        (lambda: called(ids=[0, -1, 1]), ValueError, ["position_ids", "-1", "rows 0 to 2"]),
        (lambda: called(ids=[0, 1]), ValueError, ["position_ids", "(2,)", "(2, 3, 5, 8)"]),
        (lambda: called(ids=[[0, 1, 2]] * 3), ValueError, ["position_ids", "(3, 3)", "(2, 3, 5, 8)"]),
        (lambda: called(ids=[0.0, 1.0, 2.0]), TypeError, ["position_ids", "float32", "integers"]),
        (lambda: called(ids=[True, False, True]), TypeError, ["position_ids", "bool"]),
        (lambda: pt.rotary_embedding(X, COS, COS, [0, 1, 2]), TypeError, ["position_ids", "list"]),
        (
            lambda: called(cos=COS[None], sin=COS[None], ids=[0, 1, 2]),
            ValueError,
            ["cos", "(1, 3, 4)", "position_ids", "(n, 4)"],
        ),
        (lambda: pt.rotary_embedding(X, COS, COS, None, True), TypeError, ["positional"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{caught.value} does not say {missing}"
