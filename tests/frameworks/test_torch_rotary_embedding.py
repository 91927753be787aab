"""Test `posenc_fast.torch.rotary_embedding`, whose arguments are those of a function proposed for torch itself."""

from __future__ import annotations

import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
from support.optional import optional
from support.tensors import half_ulp, random, rotated, tables

torch = optional("torch")
pt = optional("posenc_fast.torch")


def plain(x, cos, sin, position_ids=None, *, interleaved=False):
    """Return x rotated by plain torch operations in float64."""
    x, cos, sin = (each.double() for each in (x, cos, sin))
    if position_ids is not None:
        cos, sin = cos[position_ids], sin[position_ids]
    return rotated(x, cos[..., None, :], sin[..., None, :], "interleaved" if interleaved else "half")


# keys: names of cases. Values: (axes of x before the tokens, position_ids of three tokens).
IDS = {
    "rows-in-order": ((2,), None),
    "one-sequence": ((2,), [4, 0, 19]),
    "each-sequence": ((2,), [[4, 0, 19], [1, 2, 3]]),
    "one-for-all": ((2,), [[4, 0, 19]]),
    "plain": ((), [4, 4, 19]),
    "two-axes": ((2, 2), [[[4, 0, 19], [1, 2, 3]], [[3, 1, 0], [0, 0, 6]]]),
    "first-axis-of-one": ((1, 2), [[[4, 0, 19], [1, 2, 3]]]),
}


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("interleaved", [False, True], ids=["half", "interleaved"])
@pytest.mark.parametrize("case", IDS)
def test_values(case, interleaved, dtype, rng):
    """Results are within about half an ulp of the exact values, for tables of float32 and of the dtype of x."""
    lead, ids = IDS[case]
    x, ids = random(rng, *lead, 3, 4, 8, dtype=dtype), None if ids is None else torch.tensor(ids, dtype=torch.int32)
    for kind in {torch.float32, dtype}:
        leaves = [x, *tables(pf.Rotary(8), 3 if ids is None else 20, kind)]
        before = [each.clone() for each in leaves]
        got = pt.rotary_embedding(*leaves, ids, interleaved=interleaved)
        assert all(map(torch.equal, leaves, before))
        exact = plain(*leaves, ids, interleaved=interleaved)
        assert (got.dtype, got.shape) == (dtype, x.shape)
        allowed = half_ulp(exact, dtype) + (2.0**-20 if dtype.itemsize == 2 else 2.0**-48)
        assert ((got.double() - exact).abs() <= allowed).all()
        if ids is not None:
            # pass separate tables for each sequence
            separate = (x, *(table[ids] for table in leaves[1:]))
            assert torch.equal(pt.rotary_embedding(*separate, interleaved=interleaved), got)


@pytest.mark.parametrize(("case", "interleaved"), [(case, i % 3 > 0) for i, case in enumerate(IDS)])
def test_gradients(case, interleaved, rng):
    """First and second derivatives by x, cos and sin are right, also if several tokens use one row of the tables."""
    lead, ids = IDS[case]
    x, ids = random(rng, *lead, 3, 2, 4, dtype=torch.float64), None if ids is None else torch.tensor(ids) % 5
    leaves = [each.requires_grad_() for each in (x, *tables(pf.Rotary(4), 3 if ids is None else 5))]

    def call(*leaves):
        return pt.rotary_embedding(*leaves, ids, interleaved=interleaved)

    assert torch.autograd.gradcheck(call, leaves, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, leaves)


@pytest.mark.parametrize("leaf", [0, 1, 2], ids=["x", "cos", "sin"])
def test_gradients_of_one_argument_have_its_type(leaf, dtype, rng):
    leaves = [random(rng, 2, 3, 1, 8, dtype=dtype), *tables(pf.Rotary(8), 3, torch.float32)]
    exact = [each.to(torch.float64, copy=True).requires_grad_() for each in leaves]
    leaves[leaf].requires_grad_()
    pt.rotary_embedding(*leaves).sum().backward()
    plain(*exact).sum().backward()
    assert leaves[leaf].grad.dtype == leaves[leaf].dtype
    allowed = 4 * max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    torch.testing.assert_close(leaves[leaf].grad.double(), exact[leaf].grad, rtol=allowed, atol=allowed)


X, COS = torch.zeros(2, 3, 5, 8), torch.ones(3, 4)
META = torch.empty(3, 4, device="meta")


def called(x=X, cos=COS, sin=COS, ids=None, **options):
    position_ids = None if ids is None else torch.as_tensor(ids)
    return pt.rotary_embedding(x=x, cos=cos, sin=sin, position_ids=position_ids, **options)


@wrong_calls(
    """
    called(x=X.numpy()) | TypeError | x; torch.Tensor; ndarray
    called(cos=None) | TypeError | cos; NoneType
    called(interleaved="half") | TypeError | interleaved; 'half'
    called(x=X[0, 0]) | ValueError | x; (5, 8); (.., length, heads, head_dim)
    called(x=X[..., :7]) | ValueError | x; (2, 3, 5, 7); even
    called(cos=META, sin=META) | ValueError | cos; meta; cpu
    called(sin=COS[:2]) | ValueError | cos; (3, 4); (2, 4)
    called(cos=COS[0], sin=COS[0]) | ValueError | (4,); (length, 4)
    called(cos=torch.ones(3, 8), sin=torch.ones(3, 8)) | ValueError | (3, 8); (length, 4); apply_rotary_pos_emb
    called(cos=COS[:, :2], sin=COS[:, :2]) | ValueError | (3, 2); (length, 4); apply_rotary_pos_emb
    called(cos=torch.ones(9, 4), sin=torch.ones(9, 4)) | ValueError | cos; (9, 4); (2, 3, 5, 8); position_ids
    called(x=X.transpose(1, 2)) | ValueError | (3, 4); (2, 5, 3, 8); x.transpose(-3, -2)
    called(ids=[0, 1, 3]) | ValueError | position_ids; 3; rows 0 to 2; RotaryEncoding
    called(ids=[0, -1, 1]) | ValueError | position_ids; -1; rows 0 to 2
    called(ids=[0, 1]) | ValueError | position_ids; (2,); (2, 3, 5, 8)
    called(ids=[[0, 1, 2]] * 3) | ValueError | position_ids; (3, 3); (2, 3, 5, 8)
    called(ids=[0.0, 1.0, 2.0]) | TypeError | position_ids; float32; integers
    called(ids=[True, False, True]) | TypeError | position_ids; bool
    pt.rotary_embedding(X, COS, COS, [0, 1, 2]) | TypeError | position_ids; list
    called(cos=COS[None], sin=COS[None], ids=[0, 1, 2]) | ValueError | cos; (1, 3, 4); position_ids; (n, 4)
    pt.rotary_embedding(X, COS, COS, None, True) | TypeError | positional
    """
)
def test_errors(call, error, words):
    raises(call, error, words)
