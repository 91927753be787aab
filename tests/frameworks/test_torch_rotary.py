"""Rotation of torch's queries and keys: values, gradients, and comparison with Hugging Face's function."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.tensors import random

torch = optional("torch")
pt = optional("posenc_fast.torch")
text = optional("posenc_fast.torch._text")

# torch's compiler and functorch cause this warning when they are imported
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

LAYOUTS = ["half", "interleaved", "interleaved_to_half"]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
XPOS = {"rope_type": "xpos", "scale_base": 512.0}
ROTARIES = {
    "plain": pf.Rotary(12),
    "partial": pf.Rotary(12, rotary_dim=8, base=500.0),
    "attention-factor": pf.Rotary(12, scaling=YARN),
    "xpos": pf.Rotary(12, scaling=XPOS),
    "xpos-keys": pf.Rotary(12, scaling={**XPOS, "keys": True}, layout="interleaved"),
    "llama3": pf.Rotary(
        12,
        scaling={
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
    "longrope": pf.Rotary(
        12,
        scaling={
            "rope_type": "longrope",
            "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
            "long_factor": [2.0] * 6,
            "original_max_position_embeddings": 64,
            "max_position_embeddings": 256,
        },
    ),
    "sections": pf.Rotary(12, sections=[2, 3, 1]),
    "axes-by-pair": pf.Rotary(12, sections=[0, 1, 2, 0, 1, 0]),
    "frequencies": pf.Rotary(12, frequencies=[0.1, -0.2, 0.0, 1 / 3], rotary_dim=8, attention_factor=1.5),
    "schedules": pf.Rotary(
        12, frequencies=[pf.geometric(2, base=50.0), pf.linear(4, 0, 1)], sections=[1, 0, 1, 1, 0, 1]
    ),
    "dense": pf.Rotary(12, frequencies=np.arange(12.0).reshape(6, 2) / 7),
    "axial": pf.Rotary(12, scaling={"rope_type": "axial"}, sections=[3, 3], layout="interleaved"),
}


def applied(rotary, x, **options):
    """Return a copy of x rotated by the core."""
    if x.dtype == torch.bfloat16:
        bfloat16 = optional("ml_dtypes").bfloat16
        return torch.from_numpy(
            rotary.apply(x.float().numpy().astype(bfloat16), **options).astype(np.float32)
        ).bfloat16()
    return torch.from_numpy(rotary.apply(x.numpy().copy(), **options))


def positions_for(rotary, *shape):
    positions = torch.arange(int(np.prod(shape)) * rotary.ndim) * 3 % 17
    return positions.reshape(*shape, *(() if rotary.ndim == 1 else (rotary.ndim,)))


def distance(values, exact):
    """Return the error of each value minus half an ulp."""
    half = torch.ldexp(torch.finfo(values.dtype).eps / 2 * torch.ones_like(exact), torch.frexp(exact)[1] - 1)
    # half an ulp of float16 is at least 2^-25, also for subnormal numbers
    half = half.clamp(min=2.0**-25) if values.dtype == torch.float16 else half
    return (values.double() - exact).abs() - half


# ---- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_module_rotates_like_the_core(layout, dtype, rng):
    rotary = pf.Rotary(16, rotary_dim=12, layout=layout)
    module = pt.RotaryEncoding(rotary)
    q, k = random(rng, 2, 4, 5, 16, dtype=dtype), random(rng, 2, 1, 5, 16, dtype=dtype)
    before = q.clone()
    for start in (0, 100):
        turned = module(q, k, start=start)
        assert torch.equal(turned[0], applied(rotary, q, start=start))
        assert torch.equal(turned[1], applied(rotary, k, start=start))
    assert torch.equal(q, before)
    assert torch.equal(module(q), applied(rotary, q))
    for positions in (positions_for(rotary, 5), positions_for(rotary, 2, 5)):
        assert torch.equal(module(q, positions=positions), applied(rotary, q, positions=positions.numpy()))
    tokens_first = pt.RotaryEncoding(rotary, seq_axis=1)
    positions = positions_for(rotary, 2, 5)
    assert torch.equal(
        tokens_first(q.transpose(1, 2), positions=positions).transpose(1, 2), module(q, positions=positions)
    )


@pytest.mark.parametrize("rotary", list(ROTARIES.values()), ids=list(ROTARIES))
def test_every_kind(rotary, rng):
    assert text.from_text(text.to_text(rotary)) == rotary
    module, x = pt.RotaryEncoding(rotary), random(rng, 2, 3, 5, 12)
    assert torch.equal(module(x, start=3), applied(rotary, x, start=3))
    for shape in ((5,), (2, 5)):
        positions = positions_for(rotary, *shape)
        assert torch.equal(module(x, positions=positions), applied(rotary, x, positions=positions.numpy()))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose(1, 2),
        lambda x: x[..., ::2, 4:12],
        lambda x: x[..., ::2],
        lambda x: x[:0],
        lambda x: x[:, :, :0],
    ],
    ids=["swapped", "columns", "every-other", "no-batch", "no-length"],
)
def test_in_place_and_not_contiguous(view, layout, rng):
    base = random(rng, 2, 6, 8, 16)
    x = view(base)
    rotary, others = pf.Rotary(x.shape[-1], layout=layout), base.clone()
    expected = applied(rotary, x)
    assert torch.equal(pt.RotaryEncoding(rotary)(x), expected)
    q, k = pt.RotaryEncoding(rotary, inplace=True)(x, x.clone())
    assert q is x
    assert torch.equal(x, expected)
    assert torch.equal(k, expected)
    view(others).copy_(x)
    assert torch.equal(base, others)


def test_q_and_k_are_checked_before_anything_is_written(rng):
    q, module = random(rng, 1, 2, 3, 8), pt.RotaryEncoding(pf.Rotary(8), inplace=True)
    before = q.clone()
    for k in (q[..., :4], q.long(), q.clone().requires_grad_(), q.numpy()):
        with pytest.raises((ValueError, TypeError), match="k "):
            module(q, k)
        assert torch.equal(q, before)


# ---- gradients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["plain", "partial", "attention-factor", "xpos", "sections"])
def test_gradients(name, layout, rng):
    rotary = ROTARIES[name]
    rotary = type(rotary)(rotary.head_dim, **{**rotary._arguments(), "layout": layout})
    module, x = pt.RotaryEncoding(rotary), random(rng, 2, 2, 3, 12, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: module(x, start=2), (x,))
    assert torch.autograd.gradcheck(lambda x: module(x, positions=positions_for(rotary, 2, 3)), (x,))
    assert torch.autograd.gradgradcheck(module, (x[:1, :1],))
    first = pt.RotaryEncoding(rotary, seq_axis=0)
    assert torch.autograd.gradcheck(lambda x: first(x, positions=positions_for(rotary, 2, 2)), (x,))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_rotated_back(layout, dtype, rng):
    """The inverse of a rotation is its transposed matrix."""
    rotary = pf.Rotary(16, layout=layout)
    x, gradient = random(rng, 2, 3, 5, 16, dtype=dtype).requires_grad_(), random(rng, 2, 3, 5, 16, dtype=dtype)
    pt.RotaryEncoding(rotary)(x, start=7).backward(gradient)
    assert x.grad.dtype == dtype
    assert torch.equal(x.grad, applied(rotary, gradient, start=7, inverse=True))


# ---- other devices --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("rotary", list(ROTARIES.values()), ids=list(ROTARIES))
def test_tables_of_other_devices(rotary, dtype, rng):
    for layout in LAYOUTS:
        turning = type(rotary)(rotary.head_dim, **{**rotary._arguments(), "layout": layout})
        x, module = random(rng, 2, 3, 5, 12, dtype=dtype), pt.RotaryEncoding(turning)
        # products and sums are computed in float32, or in float64 for float64 values
        unit = 2.0**-51 if dtype == torch.float64 else 2.0**-22
        for given in (
            {"start": 1020},
            {"positions": positions_for(turning, 5)},
            {"positions": positions_for(turning, 2, 5)},
        ):
            core = {name: value if isinstance(value, int) else value.numpy() for name, value in given.items()}
            exact = torch.from_numpy(turning.apply(x.double().numpy(), **core))
            got = module(x, **given)
            assert got.dtype == dtype
            assert (distance(got, exact) <= unit * max(float(x.abs().max()), float(exact.abs().max()))).all()
            tokens_first = pt.RotaryEncoding(turning, seq_axis=1)
            assert torch.equal(tokens_first(x.transpose(1, 2), **given).transpose(1, 2), got)
            same = x.clone()
            assert pt.RotaryEncoding(turning, inplace=True)(same, **given) is same
            assert torch.equal(same, got)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_on_other_devices(layout, rng):
    module = pt.RotaryEncoding(pf.Rotary(6, rotary_dim=4, layout=layout, scaling={**YARN}))
    x = random(rng, 1, 2, 3, 6, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(module, (x,))
    assert torch.autograd.gradgradcheck(module, (x,))


@pytest.mark.usefixtures("elsewhere")
def test_given_tables_on_other_devices(rng):
    q, k = random(rng, 2, 4, 5, 16, dtype=torch.float64).requires_grad_(), random(rng, 2, 1, 5, 16, dtype=torch.float64)
    cos, sin = tables(pf.Rotary(16), 5, torch.float64)
    turned = pt.apply_rotary_pos_emb(q, k, cos, sin)
    torch.testing.assert_close(turned[0].detach(), applied(pf.Rotary(16), q.detach()), rtol=0, atol=1e-14)
    assert torch.autograd.gradcheck(lambda q: pt.apply_rotary_pos_emb(q, k, cos, sin)[0], (q,))


def test_meta_device():
    q = torch.empty(2, 4, 5, 16, device="meta", dtype=torch.float16, requires_grad=True)
    turned = pt.RotaryEncoding(pf.Rotary(16))(q)
    cos = torch.empty(1, 5, 16, device="meta")
    by_tables, _ = pt.apply_rotary_pos_emb(q, q, cos, cos)
    for result in (turned, by_tables):
        assert (result.device.type, result.shape, result.dtype) == ("meta", q.shape, torch.float16)
        result.sum().backward()


# ---- compilation ----------------------------------------------------------------------------------------------------


def test_compile(rng):
    torch.compiler.reset()
    module = pt.RotaryEncoding(pf.Rotary(16, layout="interleaved"))
    in_place = pt.RotaryEncoding(pf.Rotary(16), inplace=True)
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    hugging_face = torch.compile(pt.apply_rotary_pos_emb, fullgraph=True, dynamic=True)
    overwrite = torch.compile(lambda q: in_place(q) + 0, fullgraph=True)
    for length in (5, 9, 30):
        q, k = random(rng, 2, 4, length, 16).requires_grad_(), random(rng, 2, 1, length, 16)
        for start in (0, 7):
            got, expected = compiled(q, k, start=start), module(q, k, start=start)
            assert torch.equal(got[0], expected[0])
            assert torch.equal(got[1], expected[1])
            gradients = [torch.autograd.grad((result[0] ** 2).sum(), q)[0] for result in (got, expected)]
            assert torch.equal(*gradients)
        cos, sin = tables(pf.Rotary(16), length)
        assert torch.equal(hugging_face(q, k, cos, sin)[0], pt.apply_rotary_pos_emb(q, k, cos, sin)[0])
        same = k.clone()
        assert torch.equal(overwrite(same), in_place(k.clone()))
        assert torch.equal(same, in_place(k.clone()))


# ---- checkpoints ----------------------------------------------------------------------------------------------------


def test_checkpoints():
    rotary = pf.Rotary(16, base=500.0)
    module = torch.nn.ModuleDict({"rotary_emb": pt.RotaryEncoding(rotary)})
    assert not module.state_dict()
    inv_freq = 1.0 / (500.0 ** (torch.arange(0, 16, 2).float() / 16))
    for stored in (inv_freq, inv_freq.double(), inv_freq.bfloat16(), inv_freq.to("meta")):
        module.load_state_dict({"rotary_emb.inv_freq": stored})
    for stored in (inv_freq[:4], inv_freq * 1.001, inv_freq * torch.nan):
        for strict in (True, False):
            with pytest.raises(RuntimeError, match=r"rotary_emb\.inv_freq does not have the frequencies of Rotary\(16"):
                module.load_state_dict({"rotary_emb.inv_freq": stored}, strict=strict)


# ---- Hugging Face's function ----------------------------------------------------------------------------------------


def tables(rotary, length, dtype=torch.float32, start=0):
    """Return cosines and sines (1, length, head_dim) like Llama's rotary_emb."""
    return tuple(
        torch.from_numpy(t).repeat(1, 2)[None].to(dtype) for t in rotary.tables(length, start=start, dtype=np.float64)
    )


@pytest.fixture(scope="module")
def llama():
    optional("transformers")
    return optional("transformers.models.llama.modeling_llama")


@pytest.mark.parametrize("form", ["one", "batch", "plain"])
@pytest.mark.parametrize("unsqueeze_dim", [1, 2, -2, -3])
def test_hugging_face(llama, unsqueeze_dim, form, dtype, rng):
    q, k = random(rng, 2, 4, 5, 16, dtype=dtype), random(rng, 2, 1, 5, 16, dtype=dtype)
    cos, sin = tables(pf.Rotary(16), 5, dtype)
    if form == "batch":
        cos, sin = (torch.cat([a, b]) for a, b in zip((cos, sin), tables(pf.Rotary(16), 5, dtype, 7), strict=True))
    dim, given = unsqueeze_dim, (cos, sin)
    if form == "plain":
        dim, given = dim - 1 if dim > 0 else dim, (cos[0], sin[0])
    if unsqueeze_dim in (2, -2):
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    got = pt.apply_rotary_pos_emb(q, k, *given, unsqueeze_dim=dim)
    llama_result = llama.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    # transformers rounds two products and a sum
    for one, other in zip(got, llama_result, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one, other, rtol=0, atol=8 * torch.finfo(dtype).eps)
    wide = llama.apply_rotary_pos_emb(q.double(), k.double(), cos.double(), sin.double(), unsqueeze_dim=unsqueeze_dim)
    # posenc_fast rounds once, for 16 bits from a sum of exact products in float32
    unit = 2.0**-24 if dtype.itemsize == 2 else 2.0**-52
    for one, other in zip(got, wide, strict=True):
        assert (distance(one, other) <= unit * other.abs()).all()


def test_gradients_of_hugging_face(llama, rng):
    q = random(rng, 2, 4, 5, 16, dtype=torch.float64).requires_grad_()
    k = random(rng, 2, 1, 5, 16, dtype=torch.float64).requires_grad_()
    cos, sin = tables(pf.Rotary(16, scaling=YARN), 5, torch.float64)
    results = []
    for function in (pt.apply_rotary_pos_emb, llama.apply_rotary_pos_emb):
        turned = function(q, k, cos, sin)
        results.append(torch.autograd.grad((turned[0] * turned[1]).sum(), (q, k)))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-13)
    assert torch.autograd.gradcheck(lambda q: pt.apply_rotary_pos_emb(q, k, cos, sin)[0], (q,))
    assert torch.autograd.gradgradcheck(lambda q: pt.apply_rotary_pos_emb(q, k, cos, sin)[0], (q,))


def test_partial_rotation_by_tables(rng):
    """Values beyond the width of the tables are unchanged, as in GPT-NeoX and GLM."""
    q, rotary = random(rng, 2, 4, 5, 16), pf.Rotary(16, rotary_dim=6)
    turned, _ = pt.apply_rotary_pos_emb(q, q, *tables(rotary, 5, torch.float64))
    assert torch.equal(turned, applied(rotary, q))


def test_llama(llama, monkeypatch):
    """A model with this function instead of its own has the same logits and gradients, up to rounding errors."""
    config = llama.LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    torch.manual_seed(0)
    model = llama.LlamaForCausalLM(config).eval()
    tokens = torch.randint(0, 50, (2, 9))
    results = []
    for function in (llama.apply_rotary_pos_emb, pt.apply_rotary_pos_emb):
        monkeypatch.setattr(llama, "apply_rotary_pos_emb", function)
        model.zero_grad()
        logits = model(tokens, labels=tokens).logits
        (logits**2).mean().backward()
        gradient = model.model.layers[0].self_attn.q_proj.weight.grad.clone()
        with torch.no_grad():
            written = model.generate(tokens, max_new_tokens=5, do_sample=False, pad_token_id=0)
        results.append((logits.detach(), gradient, written))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=0, atol=1e-6)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=0, atol=1e-7)
    assert torch.equal(results[0][2], results[1][2])
    assert results[0][1].abs().max() > 1e-5


# ---- errors ---------------------------------------------------------------------------------------------------------

Q, COS, META = torch.zeros(2, 4, 3, 8), torch.zeros(1, 3, 8), torch.empty(1, 3, 8, device="meta")
BATCH_OF_TWO = torch.zeros(3, 3, 8)


def hugging_face(q=Q, k=Q, cos=COS, sin=COS, unsqueeze_dim=1, **options):
    return pt.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim, **options)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pt.RotaryEncoding("64"), TypeError, ["rotary", "64"]),
        (lambda: pt.RotaryEncoding(True), TypeError, ["rotary", "True"]),
        (lambda: pt.RotaryEncoding(63), ValueError, ["63"]),
        (lambda: pt.RotaryEncoding(pf.Rotary(8), base=500.0), TypeError, ["base", "head_dim"]),
        (lambda: pt.RotaryEncoding(8, precision="double"), ValueError, ["precision", "double"]),
        (lambda: pt.RotaryEncoding(8)(Q, Q, key_start=0.5), TypeError, ["key_start", "0.5"]),
        (lambda: pt.RotaryEncoding(8)(Q, Q, key_start=1, positions=torch.arange(3)), ValueError, ["key_start=1"]),
        (lambda: pt.RotaryEncoding(8).rotate_queries_with_cached_keys(Q, Q[:, :, :2]), ValueError, ["q has 3", "k 2"]),
        (lambda: pt.RotaryEncoding(pf.Rotary(8), seq_axis=1.0), TypeError, ["seq_axis", "1.0"]),
        (lambda: pt.RotaryEncoding(pf.Rotary(8), seq_axis=-1)(Q), ValueError, ["q", "seq_axis=-1"]),
        (lambda: pt.RotaryEncoding(pf.Rotary(8), seq_axis=3)(Q), ValueError, ["q", "seq_axis=3"]),
        (lambda: pt.RotaryEncoding(pf.Rotary(8))(Q[0, 0, 0]), ValueError, ["q", "(8,)"]),
        (lambda: pt.RotaryEncoding(pf.Rotary(6))(Q), ValueError, ["q", "(2, 4, 3, 8)", "6"]),
        (lambda: pt.RotaryEncoding(pf.Rotary(8))(Q, Q.int()), TypeError, ["k", "int32"]),
        (lambda: pt.RotaryEncoding(pf.Rotary(8))(Q, start=0.5), TypeError, ["start", "0.5"]),
        (lambda: pt.RotaryEncoding(pf.Rotary(8))(Q, positions=torch.arange(4)), ValueError, ["(4,)", "(3,)", "(2, 3)"]),
        (
            lambda: pt.RotaryEncoding(pf.Rotary(8, sections=[2, 2]))(Q, positions=torch.arange(3)),
            ValueError,
            ["(3, 2)"],
        ),
        (
            lambda: pt.RotaryEncoding(pf.Rotary(8), inplace=True)(Q.clone().requires_grad_()),
            ValueError,
            ["q", "gradients"],
        ),
        (
            lambda: pt.RotaryEncoding(pf.Rotary(8), inplace=True)(Q[:1].expand(2, 4, 3, 8)),
            ValueError,
            ["q", "expanded"],
        ),
        (lambda: hugging_face(q=Q[0]), ValueError, ["q", "(4, 3, 8)", "(batch, heads, length, head_dim)"]),
        (lambda: hugging_face(k=Q.long()), TypeError, ["k", "int64"]),
        (lambda: hugging_face(cos=COS.numpy()), TypeError, ["cos", "ndarray"]),
        (lambda: hugging_face(cos=META), ValueError, ["cos", "meta"]),
        (lambda: hugging_face(sin=COS[..., :4]), ValueError, ["(1, 3, 8)", "(1, 3, 4)"]),
        (lambda: hugging_face(cos=COS[..., :7], sin=COS[..., :7]), ValueError, ["(1, 3, 7)", "even"]),
        (lambda: hugging_face(cos=COS[None], sin=COS[None]), ValueError, ["(1, 1, 3, 8)"]),
        (lambda: hugging_face(unsqueeze_dim=0), ValueError, ["unsqueeze_dim=0", "1", "2"]),
        (lambda: hugging_face(unsqueeze_dim=3), ValueError, ["unsqueeze_dim=3"]),
        (lambda: hugging_face(unsqueeze_dim=2), ValueError, ["q", "(2, 4, 3, 8)", "unsqueeze_dim=2"]),
        (lambda: hugging_face(cos=BATCH_OF_TWO, sin=BATCH_OF_TWO), ValueError, ["q", "(3, 3, 8)"]),
        (lambda: hugging_face(q=Q[..., :6]), ValueError, ["q", "(2, 4, 3, 6)"]),
        (lambda: hugging_face(sin=torch.arange(24.0).reshape(1, 3, 8)), ValueError, ["sin", "both halves"]),
        (
            lambda: hugging_face(sin=torch.arange(24.0).reshape(1, 3, 8), tables="interleaved"),
            ValueError,
            ["sin", "2i + 1"],
        ),
        (lambda: hugging_face(tables="pairs"), ValueError, ["q", "(1, 3, 8)", "tables='pairs'"]),
        (lambda: hugging_face(tables="full"), ValueError, ["tables", "'full'", "'pairs'"]),
        (lambda: hugging_face(layout="halves"), ValueError, ["layout", "'halves'", "'interleaved'"]),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error) as caught:
        call()
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{caught.value} does not say {missing}"
    assert not Q.any()
