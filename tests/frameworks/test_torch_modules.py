"""Test the torch modules with images, cached keys and float32 precision, and tables in every layout."""

from __future__ import annotations

import contextlib
import functools

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.tensors import array, equal, random, tables, widened

torch = optional("torch")
pt = optional("posenc_fast.torch")

LAYOUTS = ["half", "interleaved", "interleaved_to_half"]
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
    expected = (2 * x.double() + torch.from_numpy(pf.grid([3, 5], IMAGE, dtype=np.float64))).float()
    # test images that have channels first in memory
    if inplace and len(shape) == 4:
        channels = x.permute(0, 3, 1, 2).contiguous()
        module(channels.permute(0, 2, 3, 1))
        assert torch.equal(channels.permute(0, 2, 3, 1), expected)
    # the default device has no effect, because the module computes positions on the CPU
    with torch.device("meta"):
        got = module(x)
    assert (got is x) == inplace
    assert torch.equal(got, expected)


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


def test_grid(rng):
    coordinates = torch.from_numpy(rng.normal(size=3))
    options = {"indexing": "xy", "dtype": torch.float16}
    expected = torch.from_numpy(pf.grid([coordinates.numpy(), 4], IMAGE, indexing="xy", dtype=np.float16))
    out = torch.empty(4, 3, 10, dtype=torch.float16)
    assert torch.equal(pt.grid([coordinates, 4], IMAGE, **options), expected)
    assert pt.grid([coordinates, 4], IMAGE, **options, out=out) is out
    assert torch.equal(out, expected)
    with pytest.raises(ValueError, match=r"out cannot be used if axes\[0\] requires gradients"):
        pt.grid([coordinates.requires_grad_(), 4], IMAGE, out=out)


# ---- queries and keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inplace", [False, True], ids=["new", "in-place"])
@pytest.mark.parametrize("seq_axis", [-2, 1], ids=["heads-first", "tokens-first"])
def test_queries_and_keys_at_their_own_positions(seq_axis, inplace, rng):
    module, plain = pt.RotaryEncoding(8, seq_axis=seq_axis, inplace=inplace), pt.RotaryEncoding(8, seq_axis=seq_axis)
    options = {"base": 5e5, "layout": "interleaved"}
    assert pt.RotaryEncoding(8, **options).rotary == pf.Rotary(8, **options)
    q, k = (random(rng, 2, 3, n, 8) for n in (2, 7))
    if seq_axis == 1:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    cached = module.rotate_queries_with_cached_keys
    for got, start, key_start in (
        (module(q.clone(), k.clone(), start=5, key_start=0), 5, 0),
        (cached(q.clone(), k.clone()), 5, 0),
        (cached(q.clone(), k.clone(), key_start=4), 9, 4),
    ):
        assert torch.equal(got[0], plain(q, start=start))
        assert torch.equal(got[1], plain(k, start=key_start))


@pytest.mark.parametrize("device", ["cpu", "other"])
def test_precision(device, rng, request):
    if device == "other":
        request.getfixturevalue("elsewhere")
    bounds = {"rtol": 0, "atol": 0} if device == "cpu" else {"rtol": 1e-5, "atol": 1e-6}
    x, options = random(rng, 2, 9, 64), {"start": 12345, "precision": "float32"}
    adding = functools.partial(pt.SinusoidalEncoding, 64, 0, batch_first=True), pf.sinusoidal(64).add_to
    turning = functools.partial(pt.RotaryEncoding, 64), pf.Rotary(64).apply
    for make, method in (adding, turning):
        module, expected = make(precision="float32"), torch.from_numpy(method(x.numpy(), **options))
        for got in (module(x, start=12345), module(x, positions=torch.arange(12345, 12354))):
            torch.testing.assert_close(got, expected, **bounds)
        assert not torch.equal(expected, make()(x, start=12345))
        assert "precision='float32'" in repr(module)
    # the gradient is `expected` rotated back by the same angles, which gives x
    x.requires_grad_()
    (module(x, start=12345) * expected).sum().backward()
    assert torch.allclose(x.grad, x.detach(), atol=1e-6 if device == "cpu" else 1e-5)


# ---- Hugging Face's function ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [16, 12], ids=["all", "partial"])
@pytest.mark.parametrize("columns", ["half", "interleaved", "pairs"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_tables(layout, columns, width, rng):
    rotary = pf.Rotary(16, rotary_dim=width, layout=layout)
    q, k = random(rng, 2, 3, 5, 16, dtype=torch.float64), random(rng, 2, 1, 5, 16, dtype=torch.float64)
    cos, sin = (widened(table, columns)[None] for table in tables(rotary, 5))
    expected = pt.RotaryEncoding(rotary)(q, k)
    call = functools.partial(pt.apply_rotary_pos_emb, layout=layout, tables=columns)
    swapped = [x.transpose(1, 2) for x in call(q.transpose(1, 2), k.transpose(1, 2), cos, sin, 2)]
    for got in (call(q, k, cos, sin), call(q, k, cos[0], sin[0], unsqueeze_dim=0), swapped):
        torch.testing.assert_close([*got], [*expected], rtol=0, atol=1e-15)
    token = q[:1, :1, 1:2].requires_grad_()
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda q: call(q, q, cos[:, 1:2], sin[:, 1:2])[0], (token,))


@pytest.mark.parametrize("given", ["half", "interleaved"])
def test_tables_are_checked(given, rng):
    """If the two columns of a pair differ, there is an error, also if a call accepted the table before it changed."""
    q, error = random(rng, 1, 2, 5, 16), pytest.raises(ValueError, match="cos must have equal values in")
    cos, sin = (widened(table, given)[None] for table in tables(pf.Rotary(16), 5, torch.float32))
    compiled = torch.compile(pt.apply_rotary_pos_emb, fullgraph=True, backend="aot_eager")
    assert torch.equal(*(call(q, q, cos, sin, tables=given)[0] for call in (compiled, pt.apply_rotary_pos_emb)))
    for function in (pt.apply_rotary_pos_emb, compiled):
        with error:
            function(q, q, cos, sin, tables="half" if given == "interleaved" else "interleaved")
    for mode in (contextlib.nullcontext, torch.inference_mode):
        with mode():
            changed = cos.clone()
            pt.apply_rotary_pos_emb(q, q, changed, sin.clone(), tables=given)
            changed[..., 3] = 7
            with error:
                pt.apply_rotary_pos_emb(q, q, changed, sin.clone(), tables=given)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    ("module", "shape", "other"),
    [
        (pt.SinusoidalEncoding(10, dropout=0.5, encoding=IMAGE), (2, 3, 5, 10), (1, 4, 7, 10)),
        (pt.RotaryEncoding(8), (2, 3, 5, 8), (1, 2, 9, 8)),
    ],
    ids=["image", "rotary"],
)
def test_traces_support_other_sizes_and_can_be_saved(module, shape, other, rng, tmp_path):
    traced = torch.jit.trace(module.eval(), random(rng, *shape))
    torch.jit.save(traced, tmp_path / "module.pt")
    for each in (traced, torch.jit.load(tmp_path / "module.pt")):
        for x in (random(rng, *shape), random(rng, *other), random(rng, *other, dtype=torch.float16)):
            assert torch.equal(each(x), module(x))
    # torch.jit.script is unsupported: it raises an error, as the documentation says
    with pytest.raises(torch.jit.frontend.NotSupportedError, match="use keyword-only arguments with defaults"):
        torch.jit.script(module)


# ---- tensors of other kinds -----------------------------------------------------------------------------------------


VIEWS = {
    "swapped": lambda x: x.transpose(1, 2),
    "columns": lambda x: x[..., ::2, 4:12],
    "every-other": lambda x: x[..., ::2],
    "no-length": lambda x: x[:, :, :0],
}


@pytest.mark.parametrize("name", ["sum", *LAYOUTS])
@pytest.mark.parametrize("view", VIEWS)
def test_x_that_is_not_contiguous(view, name, dtype, rng):
    """Modules accept any strides. In place, they write only to the values of x."""
    base = random(rng, 2, 6, 8, 16, dtype=dtype)
    x, others = VIEWS[view](base), base.clone()
    if name == "sum":
        make = functools.partial(pt.SinusoidalEncoding, x.shape[-1], 0.0, batch_first=True)
        expected = pf.sinusoidal(x.shape[-1]).add_to(array(x))
    else:
        make = functools.partial(pt.RotaryEncoding, x.shape[-1], layout=name)
        expected = pf.Rotary(x.shape[-1], layout=name).apply(array(x))
    equal(make()(x), expected)
    assert torch.equal(base, others)
    assert make(inplace=True)(x) is x
    equal(x, expected)
    VIEWS[view](others).copy_(x)
    assert torch.equal(base, others)


def test_expanded_tensors_and_tensors_without_memory(rng):
    """Modules and functions accept tensors without memory, which autograd creates for gradients that are zero."""
    rotary, zeros = pf.Rotary(8), torch._efficientzerotensor((1, 1, 1, 8))
    assert not pt.RotaryEncoding(rotary)(zeros).any()
    assert not pt.rotate(rotary, zeros).any()
    x = random(rng, 1, 1, 8).expand(2, 6, 8)
    equal(pt.RotaryEncoding(rotary)(x), rotary.apply(array(x)))


def test_lazily_negated_tensors(rng):
    z = torch.from_numpy(rng.standard_normal((2, 1, 2, 3, 8), np.float32))
    negative = torch.complex(z[0], z[1]).conj().imag
    assert negative.is_neg()
    rotary = pf.Rotary(8)
    assert torch.equal(pt.rotate(rotary, negative), pt.rotate(rotary, -z[1]))
    assert torch.equal(pt.encode(pf.sinusoidal(4), negative), pt.encode(pf.sinusoidal(4), -z[1]))
    with pytest.raises(ValueError, match="out is a negated view"):
        pt.rotate(rotary, z[0], out=negative)


def test_starts_beyond_64_bits():
    module, q = pt.RotaryEncoding(8), torch.ones(1, 2, 3, 8)
    assert torch.equal(module(q, start=2**63), torch.from_numpy(pf.Rotary(8).apply(q.numpy(), start=2**63)))
    with pytest.raises(ValueError, match="start=9223372036854775808 does not fit in a signed 64-bit integer"):
        module(q.requires_grad_(), start=2**63)
