"""Features of the modules that other packages have too: images, cached keys, tables in every layout."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.tensors import random

torch = optional("torch")
pt = optional("posenc_fast.torch")

# torch's compiler and functorch cause this warning when they are imported
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

IMAGE = pf.join([pf.sinusoidal(4), pf.sinusoidal(6, layout="concatenated")])
VOLUME = pf.join([pf.sinusoidal(2), pf.sinusoidal(4), pf.sinusoidal(6)])


def points(*axes):
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)


# ---- images and volumes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inplace", [False, True], ids=["new", "in-place"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 10), (3, 5, 10)], ids=["batch", "one-image"])
def test_images(shape, inplace, rng):
    module = pt.SinusoidalEncoding(10, dropout=0, encoding=IMAGE, x_scale=2.0, inplace=inplace)
    x = random(rng, *shape)
    exact = 2 * x.double() + torch.from_numpy(pf.grid([3, 5], IMAGE, dtype=np.float64))
    got = module(x)
    assert (got is x) == inplace
    assert torch.equal(got, exact.float())


def test_volumes_that_begin_anywhere(rng):
    module = pt.SinusoidalEncoding(12, dropout=0, encoding=VOLUME)
    x = random(rng, 2, 3, 4, 5, 12)
    got = module(x, start=(7, 0, -2))
    coordinates = [torch.arange(7, 10), torch.arange(4), torch.arange(-2, 3)]
    assert torch.equal(got, (x.double() + pt.grid(coordinates, VOLUME, dtype=torch.float64)).float())
    assert torch.equal(got, module(x, positions=points(*coordinates)))
    each = torch.stack([points(*coordinates), points(*coordinates) + 1])
    assert torch.equal(module(x, positions=each)[1], module(x[1], start=(8, 1, -1)))
    assert torch.equal(module(x, start=3), module(x, start=(3, 3, 3)))


def test_channels_first_images_and_gradients(rng):
    module = pt.SinusoidalEncoding(10, dropout=0, encoding=IMAGE, inplace=True)
    x = random(rng, 2, 10, 3, 5)
    expected = (x.permute(0, 2, 3, 1).double() + pt.grid([3, 5], IMAGE, dtype=torch.float64)).float()
    module(x.permute(0, 2, 3, 1))
    assert torch.equal(x.permute(0, 2, 3, 1), expected)
    x = random(rng, 2, 3, 5, 10, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(pt.SinusoidalEncoding(10, dropout=0, encoding=IMAGE, x_scale=3.0), (x,))


def test_compiled_images(rng):
    module = pt.SinusoidalEncoding(10, dropout=0, encoding=IMAGE)
    compiled, x = torch.compile(module, fullgraph=True, dynamic=True), random(rng, 2, 3, 5, 10)
    assert torch.equal(compiled(x), module(x))
    assert torch.equal(compiled(x[:, :2], start=4), module(x[:, :2], start=4))


def test_grid(rng):
    coordinates = torch.from_numpy(rng.normal(size=3))
    expected = pf.grid([coordinates.numpy(), 4], IMAGE, indexing="xy", dtype=np.float16)
    got = pt.grid([coordinates, 4], IMAGE, indexing="xy", dtype=torch.float16)
    assert torch.equal(got, torch.from_numpy(expected))
    out = torch.empty(4, 3, 10, dtype=torch.float16)
    assert pt.grid([coordinates, 4], IMAGE, indexing="xy", dtype=torch.float16, out=out) is out
    assert torch.equal(out, got)
    with pytest.raises(ValueError, match=r"out cannot be written to if axes\[0\] requires gradients"):
        pt.grid([coordinates.requires_grad_(), 4], IMAGE, out=out)


# ---- queries and keys -----------------------------------------------------------------------------------------------


def test_rotary_by_its_width():
    assert pt.RotaryEncoding(64).rotary == pf.Rotary(64)
    assert pt.RotaryEncoding(64, base=5e5, layout="interleaved").rotary == pf.Rotary(64, base=5e5, layout="interleaved")


@pytest.mark.parametrize("inplace", [False, True], ids=["new", "in-place"])
@pytest.mark.parametrize("seq_axis", [-2, 1], ids=["heads-first", "tokens-first"])
def test_queries_and_keys_at_their_own_positions(seq_axis, inplace, rng):
    module = pt.RotaryEncoding(8, seq_axis=seq_axis, inplace=inplace)
    q, k = (random(rng, 2, 3, n, 8) for n in (2, 7))
    if seq_axis == 1:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    plain = pt.RotaryEncoding(8, seq_axis=seq_axis)
    expected = plain(q, start=5), plain(k, start=0)
    got = module(q.clone(), k.clone(), start=5, key_start=0)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])
    cached = module.rotate_queries_with_cached_keys(q.clone(), k.clone())
    assert torch.equal(cached[0], expected[0])
    assert torch.equal(cached[1], expected[1])
    shifted = module.rotate_queries_with_cached_keys(q.clone(), k.clone(), key_start=4)
    assert torch.equal(shifted[0], plain(q, start=9))
    assert torch.equal(shifted[1], plain(k, start=4))


def test_precision(rng):
    x = random(rng, 2, 9, 64)
    values = x.numpy()
    adding = pt.SinusoidalEncoding(64, dropout=0, batch_first=True, precision="float32")
    expected = pf.sinusoidal(64).add_to(values, start=12345, precision="float32")
    assert torch.equal(adding(x, start=12345), torch.from_numpy(expected))
    assert not torch.equal(adding(x, start=12345), pt.SinusoidalEncoding(64, 0, batch_first=True)(x, start=12345))
    turning = pt.RotaryEncoding(64, precision="float32")
    expected = torch.from_numpy(pf.Rotary(64).apply(values, start=12345, precision="float32"))
    assert torch.equal(turning(x, start=12345), expected)
    assert torch.equal(turning(x, positions=torch.arange(12345, 12354)), expected)
    assert not torch.equal(expected, pt.RotaryEncoding(64)(x, start=12345))
    compiled = torch.compile(lambda x: (adding(x, start=12345), turning(x, start=12345)), fullgraph=True)
    assert torch.equal(compiled(x)[1], expected)
    # the gradient is rotated back by the same angles
    x.requires_grad_()
    (turning(x, start=12345) * expected).sum().backward()
    assert torch.allclose(x.grad, x.detach(), atol=1e-6)
    assert "precision='float32'" in repr(adding)
    assert "precision='float32'" in repr(turning)


# ---- Hugging Face's function ----------------------------------------------------------------------------------------


def widened(table, tables):
    """Return a table with one column for each pair in the layout of a model."""
    if tables == "pairs":
        return table
    return table.repeat(1, 2) if tables == "half" else table.repeat_interleave(2, -1)


@pytest.mark.parametrize("width", [16, 12], ids=["all", "partial"])
@pytest.mark.parametrize("tables", ["half", "interleaved", "pairs"])
@pytest.mark.parametrize("layout", ["half", "interleaved", "interleaved_to_half"])
def test_layouts_and_tables(layout, tables, width, rng):
    rotary = pf.Rotary(16, rotary_dim=width, layout=layout)
    q, k = random(rng, 2, 3, 5, 16, dtype=torch.float64), random(rng, 2, 1, 5, 16, dtype=torch.float64)
    cos, sin = (widened(torch.from_numpy(one), tables)[None] for one in rotary.tables(5, dtype=np.float64))
    expected = pt.RotaryEncoding(rotary)(q, k)
    call = {"layout": layout, "tables": tables}
    for got in (
        pt.apply_rotary_pos_emb(q, k, cos, sin, **call),
        pt.apply_rotary_pos_emb(q, k, cos[0], sin[0], unsqueeze_dim=0, **call),
        [x.transpose(1, 2) for x in pt.apply_rotary_pos_emb(q.transpose(1, 2), k.transpose(1, 2), cos, sin, 2, **call)],
    ):
        assert torch.allclose(got[0], expected[0], rtol=0, atol=1e-15)
        assert torch.allclose(got[1], expected[1], rtol=0, atol=1e-15)
    token, here = q[:1, :1, 1:2].requires_grad_(), (cos[:, 1:2], sin[:, 1:2])
    assert torch.autograd.gradcheck(lambda q: pt.apply_rotary_pos_emb(q, q, *here, **call)[0], (token,))
    assert torch.autograd.gradgradcheck(lambda q: pt.apply_rotary_pos_emb(q, q, *here, **call)[0], (token,))


@pytest.mark.parametrize("given", ["half", "interleaved"])
def test_compiled_code_checks_the_tables(given, rng):
    q = random(rng, 1, 2, 5, 16)
    cos, sin = (widened(torch.from_numpy(one), given)[None] for one in pf.Rotary(16).tables(5))
    compiled = torch.compile(pt.apply_rotary_pos_emb, fullgraph=True)
    expected = pt.apply_rotary_pos_emb(q, q, cos, sin, tables=given)
    assert torch.equal(compiled(q, q, cos, sin, tables=given)[0], expected[0])
    other = "half" if given == "interleaved" else "interleaved"
    for function in (pt.apply_rotary_pos_emb, compiled):
        with pytest.raises(ValueError, match="cos must have the same values in"):
            function(q, q, cos, sin, tables=other)


def test_changed_tables_are_checked_again(rng):
    q = random(rng, 1, 2, 5, 16)
    cos, sin = (torch.from_numpy(one).repeat(1, 2)[None] for one in pf.Rotary(16).tables(5))
    pt.apply_rotary_pos_emb(q, q, cos, sin)
    cos.mul_(2)
    expected = pt.apply_rotary_pos_emb(q, q, cos.clone(), sin)
    assert torch.equal(pt.apply_rotary_pos_emb(q, q, cos, sin)[0], expected[0])
    cos[..., 3] = 7
    with pytest.raises(ValueError, match="cos must have the same values in both halves"):
        pt.apply_rotary_pos_emb(q, q, cos, sin)
    with torch.inference_mode():
        cos, sin = cos.clone(), sin.clone()
        cos[..., 3] = cos[..., 11]
        pt.apply_rotary_pos_emb(q, q, cos, sin)
        cos[..., 3] = 7
        with pytest.raises(ValueError, match="cos must have the same values in both halves"):
            pt.apply_rotary_pos_emb(q, q, cos, sin)


# ---- TorchScript ----------------------------------------------------------------------------------------------------

TRACED = {
    "sinusoidal": (lambda: pt.SinusoidalEncoding(8, dropout=0.5, batch_first=True), (2, 5, 8), (3, 9, 8)),
    "image": (lambda: pt.SinusoidalEncoding(10, dropout=0, encoding=IMAGE), (2, 3, 5, 10), (1, 4, 7, 10)),
    "rotary": (lambda: pt.RotaryEncoding(8), (2, 3, 5, 8), (1, 2, 9, 8)),
}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(("make", "shape", "other"), TRACED.values(), ids=TRACED)
def test_traces_support_other_sizes_and_can_be_saved(make, shape, other, rng, tmp_path):
    module = make().eval()
    traced = torch.jit.trace(module, random(rng, *shape))
    torch.jit.save(traced, tmp_path / "module.pt")
    for each in (traced, torch.jit.load(tmp_path / "module.pt")):
        for x in (random(rng, *shape), random(rng, *other), random(rng, *other, dtype=torch.float16)):
            assert torch.equal(each(x), module(x))


@pytest.mark.parametrize("make", [given[0] for given in TRACED.values()], ids=TRACED)
def test_torch_cannot_script_the_modules(make):
    """torch.jit.script raises an error, as the documentation says."""
    with pytest.raises(torch.jit.frontend.NotSupportedError, match="use keyword-only arguments with defaults"):
        torch.jit.script(make())


# ---- other default devices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inplace", [False, True])
def test_default_positions_are_on_the_cpu(inplace, rng):
    x = torch.from_numpy(rng.standard_normal((1, 2, 3, 8), np.float32))
    module = pt.SinusoidalEncoding(8, 0, encoding=pf.join([pf.sinusoidal(4), pf.sinusoidal(4)]), inplace=inplace)
    expected = module(x.clone())
    with torch.device("meta"):
        assert torch.equal(module(x), expected)


def test_frequencies_of_a_checkpoint_while_another_device_is_the_default():
    module = pt.RotaryEncoding(8)
    state = {"inv_freq": 1 / 10000 ** (torch.arange(0, 8, 2) / 8)}
    with torch.device("meta"):
        module.load_state_dict(dict(state))
        with pytest.raises(RuntimeError, match="does not have the frequencies"):
            module.load_state_dict({"inv_freq": state["inv_freq"] * 2})


# ---- tensors of other kinds -----------------------------------------------------------------------------------------


def test_tensors_without_memory():
    """Autograd creates tensors without memory for gradients that are zero everywhere."""
    zeros = torch._efficientzerotensor((1, 1, 1, 8))
    assert not pt.RotaryEncoding(8)(zeros).any()
    assert not pt.rotate(pf.Rotary(8), zeros).any()


def test_lazily_negated_tensors(rng):
    z = torch.from_numpy(rng.standard_normal((2, 1, 2, 3, 8), np.float32))
    negative = torch.complex(z[0], z[1]).conj().imag
    assert negative.is_neg()
    rotary = pf.Rotary(8)
    assert torch.equal(pt.rotate(rotary, negative), pt.rotate(rotary, -z[1]))
    assert torch.equal(pt.encode(pf.sinusoidal(4), negative), pt.encode(pf.sinusoidal(4), -z[1]))
    with pytest.raises(ValueError, match="out has its negative values in memory"):
        pt.rotate(rotary, z[0], out=negative)


@pytest.mark.parametrize("strides", [(1, 1), (0, 1), (4, 1)], ids=str)
def test_results_whose_rows_overlap(strides):
    out = torch.zeros(40).as_strided((3, 8), strides)
    with pytest.raises(ValueError, match=r"out has strides .* several values share memory"):
        pt.table(pf.sinusoidal(8), 3, out=out)


def test_starts_beyond_64_bits():
    module, q = pt.RotaryEncoding(8), torch.ones(1, 2, 3, 8)
    assert torch.equal(module(q, start=2**63), torch.from_numpy(pf.Rotary(8).apply(q.numpy(), start=2**63)))
    with pytest.raises(ValueError, match="start=9223372036854775808 does not fit in 64 bits"):
        module(q.requires_grad_(), start=2**63)
