"""Test rotations of queries and keys in torch: values, gradients, and comparison with transformers' function."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
from support.optional import optional
from support.tensors import array, half_ulp, random, tables, widened

torch = optional("torch")
pt = optional("posenc_fast.torch")
text = optional("posenc_fast.torch._text")


LAYOUTS = ["half", "interleaved", "interleaved_to_half"]
XPOS = {"rope_type": "xpos", "scale_base": 512.0}
# keys: names. Values: options of Rotary(12).
OPTIONS = {
    "plain": {},
    "partial": {"rotary_dim": 8, "base": 500.0},
    "attention-factor": {"scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}},
    "xpos": {"scaling": XPOS},
    "xpos-keys": {"scaling": XPOS | {"keys": True}},
    "sections": {"sections": [2, 3, 1]},
    "axes-by-pair": {"sections": [0, 1, 2, 0, 1, 0]},
    "frequencies": {"frequencies": [0.1, -0.2, 0.0, 1 / 3], "rotary_dim": 8, "attention_factor": 1.5},
    "schedules": {"frequencies": [pf.geometric(2, base=50.0), pf.linear(4, 0, 1)], "sections": [1, 0, 1, 1, 0, 1]},
    "dense": {"frequencies": np.arange(12.0).reshape(6, 2) / 7},
    "axial": {"scaling": {"rope_type": "axial"}, "sections": [3, 3]},
}


def applied(rotary, x, **options):
    """Return a copy of x rotated by `Rotary.apply`, in the dtype of x."""
    return torch.from_numpy(rotary.apply(array(x), **options).astype(np.float64)).to(x.dtype)


def positions_for(rotary, *shape):
    positions = torch.arange(int(np.prod(shape)) * rotary.ndim) * 3 % 17
    return positions.reshape(*shape, *(() if rotary.ndim == 1 else (rotary.ndim,)))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", OPTIONS)
def test_module_rotates_like_the_core(name, dtype, rng):
    q, k = random(rng, 2, 4, 5, 12, dtype=dtype), random(rng, 2, 1, 7, 12)
    before = q.clone()
    for layout in LAYOUTS:
        rotary = pf.Rotary(12, **OPTIONS[name], layout=layout)
        assert text.from_text(text.to_text(rotary)) == rotary
        module, tokens_first = pt.RotaryEncoding(rotary), pt.RotaryEncoding(rotary, seq_axis=1)
        for start in (0, 100):
            for got, x in zip(module(q, k, start=start), (q, k), strict=True):
                assert torch.equal(got, applied(rotary, x, start=start))
        for axis in (-3, -2, 1, 2):
            expected = applied(rotary, q, start=7, seq_axis=axis)
            assert torch.equal(pt.RotaryEncoding(rotary, seq_axis=axis)(q, start=7), expected)
        for positions in (positions_for(rotary, 5), positions_for(rotary, 2, 5)):
            expected = applied(rotary, q, positions=positions.numpy())
            assert torch.equal(module(q, positions=positions), expected)
            assert torch.equal(tokens_first(q.transpose(1, 2), positions=positions).transpose(1, 2), expected)
    assert torch.equal(q, before)


@pytest.mark.parametrize("lengths", [(1, 1), (1, 3), (9, 9), (2, 40)])
def test_queries_and_keys_may_differ_in_length_and_dtype(lengths, rng):
    rotary = pf.Rotary(16)
    module = pt.RotaryEncoding(rotary)
    for types in itertools.product((torch.float64, torch.float32, torch.float16), repeat=2):
        q, k = (random(rng, 2, 4, length, 16, dtype=each) for length, each in zip(lengths, types, strict=True))
        # call twice, because only the second call uses the compiled shortcut
        for _ in range(2):
            for rotated, x in zip(module(q, k, start=7), (q, k), strict=True):
                assert torch.equal(rotated, applied(rotary, x, start=7)), types


def test_q_and_k_are_checked_before_anything_is_written(rng):
    q, module = random(rng, 1, 2, 3, 8), pt.RotaryEncoding(pf.Rotary(8), inplace=True)
    before = q.clone()
    for k in (q[..., :4], q.long(), q.clone().requires_grad_(), q.numpy()):
        with pytest.raises((ValueError, TypeError), match="k "):
            module(q, k)
        assert torch.equal(q, before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_rotated_back(layout, dtype, rng):
    """Gradients are rotated back: the transposed matrix of a rotation is its inverse."""
    x, gradient = random(rng, 2, 3, 5, 12, dtype=dtype).requires_grad_(), random(rng, 2, 3, 5, 12, dtype=dtype)
    sections, positions = pf.Rotary(12, sections=[2, 3, 1], layout=layout), torch.arange(15).reshape(5, 3)
    for rotary, options in ((pf.Rotary(12, layout=layout), {"start": 7}), (sections, {"positions": positions})):
        x.grad = None
        pt.RotaryEncoding(rotary)(x, **options).backward(gradient)
        assert x.grad.dtype == dtype
        assert torch.equal(x.grad, applied(rotary, gradient, inverse=True, **options))


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", OPTIONS)
def test_tables_of_other_devices(name, dtype, rng):
    for layout in LAYOUTS:
        rotary = pf.Rotary(12, **OPTIONS[name], layout=layout)
        x, module = random(rng, 2, 3, 5, 12, dtype=dtype), pt.RotaryEncoding(rotary)
        tokens_first, in_place = pt.RotaryEncoding(rotary, seq_axis=1), pt.RotaryEncoding(rotary, inplace=True)
        # allow for rounding errors of products and sums, in float64 for float64 values, else in float32
        unit = 2.0**-51 if dtype == torch.float64 else 2.0**-22
        positions = [{"positions": positions_for(rotary, *shape)} for shape in ((5,), (2, 5))]
        for options in ({"start": 1020}, *positions):
            exact = torch.from_numpy(rotary.apply(x.double().numpy(), **options))
            got, same = module(x, **options), x.clone()
            assert got.dtype == dtype
            allowed = half_ulp(exact, dtype) + unit * max(float(x.abs().max()), float(exact.abs().max()))
            assert ((got.double() - exact).abs() <= allowed).all()
            assert torch.equal(tokens_first(x.transpose(1, 2), **options).transpose(1, 2), got)
            assert in_place(same, **options) is same
            assert torch.equal(same, got)


@pytest.mark.parametrize("default", ["cpu", "meta"])
def test_checkpoints(default):
    """A checkpoint may contain the frequencies of the module, whatever the default device is."""
    module = torch.nn.ModuleDict({"rotary_emb": pt.RotaryEncoding(pf.Rotary(16, base=500.0))})
    assert not module.state_dict()
    inv_freq = 1.0 / (500.0 ** (torch.arange(0, 16, 2).float() / 16))
    with torch.device(default):
        for stored in (inv_freq, inv_freq.double(), inv_freq.bfloat16(), inv_freq.to("meta")):
            module.load_state_dict({"rotary_emb.inv_freq": stored})
        for stored in (inv_freq[:4], inv_freq * 1.001, inv_freq * torch.nan):
            for strict in (True, False):
                with pytest.raises(RuntimeError, match=r"rotary_emb\.inv_freq does not have .* of Rotary\(16"):
                    module.load_state_dict({"rotary_emb.inv_freq": stored}, strict=strict)


# ---- Hugging Face's function ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["one", "batch", "plain"])
@pytest.mark.parametrize("unsqueeze_dim", [1, 2, -2, -3])
def test_hugging_face(unsqueeze_dim, form, dtype, rng):
    llama = optional("transformers.models.llama.modeling_llama")
    q, k = random(rng, 2, 4, 5, 16, dtype=dtype), random(rng, 2, 1, 5, 16, dtype=dtype)
    both = [tables(pf.Rotary(16), 5, dtype, start=start) for start in ((0, 7) if form == "batch" else (0,))]
    # two equal columns for a pair, as in Llama
    cos, sin = (torch.stack([widened(table, "half") for table in each]) for each in zip(*both, strict=True))
    dim, given = unsqueeze_dim, (cos, sin)
    if form == "plain":
        dim, given = dim - 1 if dim > 0 else dim, (cos[0], sin[0])
    if unsqueeze_dim in (2, -2):
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    got = pt.apply_rotary_pos_emb(q, k, *given, unsqueeze_dim=dim)
    llama_result = llama.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
    wide = llama.apply_rotary_pos_emb(*(each.double() for each in (q, k, cos, sin)), unsqueeze_dim=unsqueeze_dim)
    # posenc_fast rounds once, from float32 arithmetic for 16 bits, else from float64 arithmetic
    unit = 2.0**-24 if dtype.itemsize == 2 else 2.0**-52
    for one, other, exact in zip(got, llama_result, wide, strict=True):
        assert one.dtype == dtype
        # transformers rounds two products and their sum, so it may differ by several ulps
        torch.testing.assert_close(one, other, rtol=0, atol=8 * torch.finfo(dtype).eps)
        assert ((one.double() - exact).abs() <= half_ulp(exact, dtype) + unit * exact.abs()).all()


def test_llama(monkeypatch):
    """With our `apply_rotary_pos_emb`, logits and gradients of a Llama model are nearly those of its own function."""
    llama = optional("transformers.models.llama.modeling_llama")
    sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    torch.manual_seed(0)
    config = llama.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    model, tokens, results = llama.LlamaForCausalLM(config).eval(), torch.randint(0, 50, (2, 9)), []
    for function in (llama.apply_rotary_pos_emb, pt.apply_rotary_pos_emb):
        monkeypatch.setattr(llama, "apply_rotary_pos_emb", function)
        logits = model(tokens).logits
        (gradient,) = torch.autograd.grad((logits**2).mean(), model.model.layers[0].self_attn.q_proj.weight)
        results.append((logits, gradient))
    assert gradient.abs().max() > 1e-5
    torch.testing.assert_close(*results, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["cos", "sin"])
def test_gradients_of_one_table(name, rng):
    """The gradient of the cosines or the sines is right if nothing else requires a gradient."""
    q, cos, sin = (random(rng, *shape, dtype=torch.float64) for shape in ((1, 2, 3, 8), (1, 3, 4), (1, 3, 4)))
    given = {"cos": cos, "sin": sin}

    def call(table):
        return pt.apply_rotary_pos_emb(q, q.flip(-1), **given | {name: table}, tables="pairs")

    def loss(table):
        return sum((rotated * q).sum() for rotated in call(table))

    table = given[name].clone().requires_grad_()
    assert torch.autograd.gradcheck(call, table)
    torch.testing.assert_close(torch.func.grad(loss)(given[name]), torch.autograd.grad(loss(table), table)[0])


Q, COS, META = torch.zeros(2, 4, 3, 8), torch.zeros(1, 3, 8), torch.empty(1, 3, 8, device="meta")
BATCH_OF_TWO = torch.zeros(3, 3, 8)


def hugging_face(q=Q, k=Q, cos=COS, sin=COS, unsqueeze_dim=1, **options):
    return pt.apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim, **options)


def rotary(head_dim=8, **options):
    return pt.RotaryEncoding(head_dim, **options)


@wrong_calls(
    """
    rotary("64") | TypeError | rotary; 64
    rotary(True) | TypeError | rotary; True
    rotary(63) | ValueError | 63
    rotary(pf.Rotary(8), base=500.0) | TypeError | base; head_dim
    rotary(8, precision="double") | ValueError | precision; double
    rotary()(Q, Q, key_start=0.5) | TypeError | key_start; 0.5
    rotary()(Q, Q, key_start=1, positions=torch.arange(3)) | ValueError | key_start=1
    rotary().rotate_queries_with_cached_keys(Q, Q[:, :, :2]) | ValueError | q has 3; k has 2
    rotary(seq_axis=1.0) | TypeError | seq_axis; 1.0
    rotary(seq_axis=-1)(Q) | ValueError | q; seq_axis=-1
    rotary(seq_axis=3)(Q) | ValueError | q; seq_axis=3
    rotary()(Q[0, 0, 0]) | ValueError | q; (8,)
    rotary(pf.Rotary(6))(Q) | ValueError | q; (2, 4, 3, 8); 6
    rotary()(Q, start=0.5) | TypeError | start; 0.5
    rotary()(Q, positions=torch.arange(4)) | ValueError | (4,); (3,); (2, 3)
    rotary(pf.Rotary(8, sections=[2, 2]))(Q, positions=torch.arange(3)) | ValueError | (3, 2)
    hugging_face(q=Q[0]) | ValueError | q; (4, 3, 8); (batch, heads, length, head_dim)
    hugging_face(cos=COS.numpy()) | TypeError | cos; ndarray
    hugging_face(cos=META) | ValueError | cos is on meta, q on cpu and k on cpu; all must be on one device
    hugging_face(sin=COS[..., :4]) | ValueError | (1, 3, 8); (1, 3, 4)
    hugging_face(cos=COS[..., :7], sin=COS[..., :7]) | ValueError | (1, 3, 7); even
    hugging_face(cos=COS[None], sin=COS[None]) | ValueError | (1, 1, 3, 8)
    hugging_face(unsqueeze_dim=0) | ValueError | unsqueeze_dim=0; 1; 2
    hugging_face(unsqueeze_dim=5) | ValueError | unsqueeze_dim=5; 1; 2
    hugging_face(cos=COS[0], sin=COS[0], unsqueeze_dim=3) | ValueError | unsqueeze_dim=3; 0; 1
    hugging_face(unsqueeze_dim="1") | TypeError | unsqueeze_dim must be an integer, not '1'
    hugging_face(unsqueeze_dim=2) | ValueError | q; (2, 4, 3, 8); unsqueeze_dim=2
    hugging_face(cos=BATCH_OF_TWO, sin=BATCH_OF_TWO) | ValueError | q; (3, 3, 8)
    hugging_face(q=Q[..., :6]) | ValueError | q; (2, 4, 3, 6)
    hugging_face(sin=torch.arange(24.0).reshape(1, 3, 8)) | ValueError | sin; both halves
    hugging_face(sin=torch.arange(24.0).reshape(1, 3, 8), tables="interleaved") | ValueError | sin; 2i + 1
    hugging_face(tables="pairs") | ValueError | q; (1, 3, 8); tables='pairs'
    hugging_face(tables="full") | ValueError | tables; 'full'; 'pairs'
    hugging_face(layout="halves") | ValueError | layout; 'halves'; 'interleaved'
    """
)
def test_errors(call, error, words):
    raises(call, error, words)
    assert not Q.any()
