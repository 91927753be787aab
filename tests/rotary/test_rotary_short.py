"""Test the shortcut for few tokens in torch: it has the bits and errors of the general code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional

pytestmark = pytest.mark.slow

torch = optional("torch")
pt = optional("posenc_fast.torch")
operators = optional("posenc_fast.torch._operators")
ml_dtypes = optional("ml_dtypes")

TYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in ("float64", "float32", "float16", "bfloat16")}
# (batch, heads, length, head_dim) for one token, for a few tokens, and for too many tokens for the shortcut
SHAPES = [(1, 3, 1, 24), (2, 3, 9, 24), (1, 1, 2050, 24)]


@pytest.fixture(params=list(TYPES.values()), ids=list(TYPES))
def dtype(request):
    return request.param


def bits(x):
    return np.ascontiguousarray(x).view(np.uint8)


@pytest.mark.usefixtures("backend")
def test_cached_rows_do_not_mix_dtypes_and_starts(rng):
    rotary, x = pf.Rotary(24), rng.normal(size=(1, 3, 2, 24))
    for start in (0, 1, 31, 5, 1000, 1030, -3, 1001):
        for dtype in TYPES.values():
            y = x.astype(dtype)
            fresh = pf.Rotary(24).apply(y, positions=[start, start + 1])
            np.testing.assert_array_equal(bits(rotary.apply(y, start=start)), bits(fresh))


TENSORS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "columns": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
    "spread": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda x: x[:, :1].expand(x.shape),
}


def by_module(q, k, layout, seq_axis, inplace):
    module = pt.RotaryEncoding(pf.Rotary(24, rotary_dim=16, layout=layout), seq_axis=seq_axis, inplace=inplace)
    return [module(q, start=3), *module(q, k, start=7)]


def by_function(q, k, layout, seq_axis, inplace):
    cos, sin = (torch.from_numpy(t).repeat(1, 2)[None].to(q.dtype) for t in pf.Rotary(16).tables(q.shape[seq_axis]))
    return list(pt.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=2 if seq_axis == 1 else 1))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("inplace", [False, True], ids=["new", "in-place"])
@pytest.mark.parametrize("call", [by_module, by_function])
@pytest.mark.parametrize(("layout", "seq_axis"), [("half", -2), ("interleaved", 1)])
def test_tensors(layout, seq_axis, call, inplace, dtype, rng, monkeypatch):
    for shape, view in itertools.product(SHAPES, TENSORS.values()):
        queries = [torch.from_numpy(rng.normal(size=shape)).to(getattr(torch, dtype.name)) for _ in range(2)]
        queries = [x.transpose(1, 2) if seq_axis == 1 else x for x in map(view, queries)]

        def outcome(tensors=queries):
            # in place, rotate a copy of the tensor; but pass an expanded tensor itself, because its copy is not
            # expanded
            copies = [x.clone() if inplace and 0 not in x.stride() else x for x in tensors]
            try:
                rotated = call(*copies, layout, seq_axis, inplace)
            except ValueError as error:
                return [str(error)]
            return [x._version for x in copies] + [bits(x.contiguous().view(torch.uint8)).tobytes() for x in rotated]

        got = outcome()
        with monkeypatch.context() as patch:
            for name in ("rotate_few", "rotate_few_by_tables"):
                patch.setattr(operators, name, lambda *_: None)
            expected = outcome()
        assert got == expected


@pytest.mark.skipif(not pf.isa_levels(), reason="the kernel is not built")
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("seq_axis", [-2, 1])
def test_usual_tensors_take_the_fast_path(seq_axis, layout, dtype, rng):
    with pf.use_backend("cython"):
        rotary, x = pf.Rotary(24, layout=layout), torch.ones(2, 3, 3, 24, dtype=getattr(torch, dtype.name))
        for inplace in (False, True):
            assert operators.rotate_few((x, x), rotary, 5, seq_axis, inplace) is not None
        table = torch.ones(1, 3, 24, dtype=x.dtype)
        assert operators.rotate_few_by_tables((x, x), table, table, 2, layout) is not None
        assert operators.rotate_few_by_tables((x, x), table, torch.arange(72.0).reshape(1, 3, 24), 2, layout) is None
