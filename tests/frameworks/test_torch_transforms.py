"""Derivatives and batches of the modules and functions of torch: backward, forward, and by the transforms of torch.func.

Each test compares a call with the same formula in float64, in torch operations that support all of these.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.tensors import random

torch = optional("torch")
pt = optional("posenc_fast.torch")

# torch's compiler and functorch cause this warning when they are imported
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

ENCODING = pf.sinusoidal(8, base=50.0, scale=1.5)
IMAGE = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
XPOS = {"rope_type": "xpos", "scale_base": 8.0}
ROTARIES = {
    "half": pf.Rotary(8, base=50.0),
    "interleaved": pf.Rotary(8, base=50.0, layout="interleaved"),
    "interleaved-to-half": pf.Rotary(8, base=50.0, layout="interleaved_to_half"),
    "partial": pf.Rotary(8, base=50.0, rotary_dim=6),
    "amplitudes": pf.Rotary(8, scaling=XPOS),
}
PLACES = [3, 0, 7]
WHERE = torch.tensor(PLACES)

# ---- the formulas -----------------------------------------------------------------------------------------------------


def rows(encoding, positions):
    """Return rows computed by torch from the frequencies, phases and amplitudes of the encoding."""
    positions = positions.double()[..., None] if encoding.ndim == 1 else positions.double()
    frequencies = torch.from_numpy(encoding.frequencies.reshape(encoding.d_model, encoding.ndim).copy())
    phases, amplitudes = (torch.from_numpy(each.copy()) for each in (encoding.phases, encoding.amplitudes))
    return amplitudes * torch.sin(positions @ frequencies.T + 2 * torch.pi * phases)


def rotated(x, cos, sin, layout, inverse=False):
    """Return x (..., tokens, columns) rotated by cosines and sines with one column for each pair."""
    pairs = cos.shape[-1]
    if inverse:
        squares = cos**2 + sin**2
        cos, sin = cos / squares, -sin / squares
    source, target = (layout, layout) if layout != "interleaved_to_half" else ("interleaved", "half")
    if inverse:
        source, target = target, source
    values, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if source == "half":
        first, second = values[..., :pairs], values[..., pairs:]
    else:
        first, second = values[..., 0::2], values[..., 1::2]
    parts = first * cos - second * sin, first * sin + second * cos
    return torch.cat([torch.cat(parts, -1) if target == "half" else torch.stack(parts, -1).flatten(-2), rest], -1)


def tables(rotary, positions):
    return [torch.from_numpy(table) for table in rotary.tables(positions, dtype=np.float64)]


def by_rotary(x, rotary, positions=range(3), inverse=False):
    return rotated(x, *tables(rotary, np.asarray(positions)), rotary.layout, inverse)


# ---- calls, each with its formula -------------------------------------------------------------------------------------


def module(make, **options):
    """Return a module with keyword arguments for its call."""
    return functools.partial(make(), **options)


CALLS = {
    "SinusoidalEncoding": (
        lambda: pt.SinusoidalEncoding(8, 0.0, batch_first=True, x_scale=-1.5, encoding=ENCODING),
        lambda x: -1.5 * x + rows(ENCODING, torch.arange(3)),
    ),
    "SinusoidalEncoding-positions": (
        lambda: module(lambda: pt.SinusoidalEncoding(8, 0.0, batch_first=True, encoding=ENCODING), positions=WHERE),
        lambda x: x + rows(ENCODING, WHERE),
    ),
    "SinusoidalEncoding-length-first": (
        lambda: module(lambda: pt.SinusoidalEncoding(8, 0.0, encoding=ENCODING), start=5),
        lambda x: x + rows(ENCODING, torch.arange(5, 7))[:, None],
    ),
    "RotaryEncoding-tokens-first": (
        lambda: pt.RotaryEncoding(ROTARIES["interleaved"], seq_axis=0),
        lambda x: by_rotary(x.transpose(0, 1), ROTARIES["interleaved"], range(2)).transpose(0, 1),
    ),
    "RotaryEncoding-positions": (
        lambda: module(lambda: pt.RotaryEncoding(ROTARIES["half"]), positions=WHERE),
        lambda x: by_rotary(x, ROTARIES["half"], PLACES),
    ),
    "add_to": (
        lambda: lambda x: pt.add_to(ENCODING, x, start=0.5, step=0.25, x_scale=2.0),
        lambda x: 2 * x + rows(ENCODING, torch.tensor([0.5, 0.75, 1.0])),
    ),
    "add_to-positions": (
        lambda: lambda x: pt.add_to(ENCODING, x, positions=WHERE),
        lambda x: x + rows(ENCODING, WHERE),
    ),
    "encode": (lambda: lambda x: pt.encode(ENCODING, x, dtype=torch.float64), lambda x: rows(ENCODING, x)),
    "encode-image": (
        lambda: lambda x: pt.encode(IMAGE, x[..., :2], dtype=torch.float64),
        lambda x: rows(IMAGE, x[..., :2]),
    ),
    "grid": (
        lambda: lambda x: pt.grid([x.flatten()[:3], 2], IMAGE, dtype=torch.float64),
        lambda x: rows(
            IMAGE,
            torch.stack(torch.meshgrid(x.flatten()[:3], torch.arange(2.0, dtype=torch.float64), indexing="ij"), -1),
        ),
    ),
    "apply_rotary_pos_emb": (
        lambda: (
            lambda x: pt.apply_rotary_pos_emb(
                x[:, None], x[:, None], *(each.repeat(1, 2) for each in tables(ROTARIES["half"], 3)), 0
            )[0][:, 0]
        ),
        lambda x: by_rotary(x, ROTARIES["half"]),
    ),
    "rotary_embedding": (
        lambda: lambda x: pt.rotary_embedding(x[:, :, None], *tables(ROTARIES["half"], 9), WHERE)[:, :, 0],
        lambda x: by_rotary(x, ROTARIES["half"], PLACES),
    ),
}
for each, one in ROTARIES.items():
    CALLS |= {
        f"RotaryEncoding-{each}": (
            lambda one=one: pt.RotaryEncoding(one),
            lambda x, one=one: by_rotary(x, one),
        ),
        f"rotate-{each}": (
            lambda one=one: lambda x: pt.rotate(one, x, start=2),
            lambda x, one=one: by_rotary(x, one, range(2, 5)),
        ),
        f"rotate-back-{each}": (
            lambda one=one: lambda x: pt.rotate(one, x, inverse=True),
            lambda x, one=one: by_rotary(x, one, inverse=True),
        ),
    }


def cubed(call):
    """Return a function to a number whose first and second derivatives depend on x."""
    return lambda x: (call(x) ** 3).sum()


func = torch.func
TRANSFORMS = {
    "value": lambda call, x: call(x),
    "grad": lambda call, x: func.grad(cubed(call))(x),
    "vmap": lambda call, x: func.vmap(call)(torch.stack([x, 2 * x])),
    "vmap-last": lambda call, x: func.vmap(call, in_dims=-1, out_dims=1)(torch.stack([x, 2 * x], -1)),
    "jvp": lambda call, x: func.jvp(call, (x,), (x.flip(0),))[1],
    "jacfwd": lambda call, x: func.jacfwd(call)(x),
    "jacrev": lambda call, x: func.jacrev(call)(x),
    "grad-of-vmap": lambda call, x: func.grad(cubed(func.vmap(call)))(torch.stack([x, 2 * x])),
    "vmap-of-grad": lambda call, x: func.vmap(func.grad(cubed(call)))(torch.stack([x, 2 * x])),
    "hessian": lambda call, x: func.hessian(cubed(call))(x),
    "backward": lambda call, x: torch.autograd.grad(cubed(call)(x.requires_grad_()), x)[0],
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", CALLS)
def test_transforms(name, transform, rng):
    make, formula = CALLS[name]
    x, run = random(rng, 2, 3, 8, dtype=torch.float64), TRANSFORMS[transform]
    torch.testing.assert_close(run(make(), x), run(formula, x.detach()), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", CALLS)
def test_forward_mode(name, rng):
    """Forward mode works without torch.func, and for gradients."""
    make, formula = CALLS[name]
    x, forward_ad = random(rng, 2, 3, 8, dtype=torch.float64), torch.autograd.forward_ad

    def tangents(call):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x.clone().requires_grad_(), x.flip(0))
            result = call(dual)
            (gradient,) = torch.autograd.grad((result**3).sum(), dual, create_graph=True)
            return [forward_ad.unpack_dual(each).tangent.detach() for each in (result, gradient)]

    for got, expected in zip(tangents(make()), tangents(formula), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", ["SinusoidalEncoding", "RotaryEncoding-half", "rotary_embedding"])
@pytest.mark.parametrize("transform", ["grad", "vmap", "jvp", "hessian"])
def test_other_devices(name, transform, rng):
    test_transforms(name, transform, rng)


# ---- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SinusoidalEncoding", "RotaryEncoding-half", "add_to", "rotate-half", "encode"])
def test_bits_do_not_depend_on_transforms(name, dtype, rng):
    call, x = CALLS[name][0](), random(rng, 4, 2, 3, 8, dtype=dtype)
    expected = torch.stack([call(each) for each in x])
    assert torch.equal(func.vmap(call)(x), expected)
    assert torch.equal(func.jvp(call, (x[0],), (x[0],))[0], expected[0])
    assert torch.equal(func.grad_and_value(lambda x: call(x).double().sum())(x[0])[1], expected[0].double().sum())


def test_gradients_of_16_bits_are_rounded_once(rng):
    """Gradients have the dtype of x and the bits of the inverse rotation."""
    x, gradient = (random(rng, 2, 3, 8, dtype=torch.float16) for _ in "xg")
    _, back = func.vjp(pt.RotaryEncoding(ROTARIES["half"]), x)
    assert torch.equal(back(gradient)[0], pt.rotate(ROTARIES["half"], gradient, inverse=True))
    positions = random(rng, 5, dtype=torch.float16)
    assert func.grad(lambda p: pt.encode(ENCODING, p).sum())(positions).dtype == torch.float16


# ---- batches of gradients without torch.func, which torch computes in an older way ------------------------------------


def batched_gradients(call, x):
    x = x.clone().requires_grad_()
    y = call(x)
    each = torch.eye(y.numel(), dtype=y.dtype).reshape(-1, *y.shape)
    (rows_of_jacobian,) = torch.autograd.grad(y, x, each, is_grads_batched=True)
    return rows_of_jacobian.reshape(*y.shape, *x.shape)


jacobian, hessian = torch.autograd.functional.jacobian, torch.autograd.functional.hessian
BATCHED = {
    "gradients": (batched_gradients, func.jacrev),
    "jacobian": (functools.partial(jacobian, vectorize=True), func.jacrev),
    "jacobian-forward": (functools.partial(jacobian, vectorize=True, strategy="forward-mode"), func.jacrev),
    "hessian": (
        lambda call, *x: hessian(cubed(call), *x, vectorize=True),
        lambda call: func.hessian(cubed(call)),
    ),
    "hessian-forward": (
        lambda call, *x: hessian(cubed(call), *x, vectorize=True, outer_jacobian_strategy="forward-mode"),
        lambda call: func.hessian(cubed(call)),
    ),
}


@pytest.mark.parametrize("type_of_x", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("way", BATCHED)
@pytest.mark.parametrize("name", CALLS)
def test_batches_of_gradients(name, way, type_of_x, rng):
    make, formula = CALLS[name]
    x, (run, by_torch) = random(rng, 2, 3, 8, dtype=type_of_x), BATCHED[way]
    got, expected = run(make(), x), by_torch(formula)(x.double())
    close = 1e-11 if type_of_x == torch.float64 else 1e-4
    torch.testing.assert_close(got.double(), expected, rtol=close, atol=close * expected.abs().max().item())


@pytest.mark.parametrize("columns", ["half", "interleaved", "pairs"])
@pytest.mark.parametrize("dim", [6, 8], ids=["partial", "whole"])
def test_batches_of_gradients_of_tables(columns, dim, rng):
    q = random(rng, 1, 2, 3, 8, dtype=torch.float64)
    both = [random(rng, 3, dim // 2, dtype=torch.float64) for _ in "cs"]
    if columns != "pairs":
        both = [each.repeat(1, 2) if columns == "half" else each.repeat_interleave(2, -1) for each in both]

    def call(cos):
        return pt.apply_rotary_pos_emb(q, q, cos, both[1], 0, tables=columns)[0]

    got, x = batched_gradients(call, both[0]), both[0].clone().requires_grad_()
    y = call(x)
    one_by_one = [torch.autograd.grad(each, x, retain_graph=True)[0] for each in y.flatten()]
    assert torch.equal(got, torch.stack(one_by_one).reshape(got.shape))


@pytest.mark.parametrize("name", ["rotate-half", "add_to", "encode", "apply_rotary_pos_emb", "RotaryEncoding-half"])
def test_bits_of_a_batch_of_gradients(name, dtype, rng):
    """A batch of gradients has the bits of a loop over single gradients."""
    call, x = CALLS[name][0](), random(rng, 2, 3, 8, dtype=dtype).requires_grad_()
    y = call(x)
    gradients = random(rng, 5, *y.shape, dtype=y.dtype)
    (got,) = torch.autograd.grad(y, x, gradients, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(y, x, each, retain_graph=True)[0] for each in gradients]
    assert torch.equal(got, torch.stack(one_by_one))


# ---- batches of positions and tables ----------------------------------------------------------------------------------

SECTIONS = pf.Rotary(8, sections=[2, 2])
BATCHES = {
    "one-a-sequence": (3, 0),
    "one-each": ((2, 3), 0),
    "sequences-shared": ((2, 3), None),
}


@pytest.mark.parametrize("x_dim", [0, None], ids=["x", "one-x"])
@pytest.mark.parametrize(("lead", "dim"), BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("kind", ["sum", "sum-image", "rotation", "rotation-sections", "tables"])
def test_batches_of_positions(kind, lead, dim, x_dim, rng):
    if x_dim is None and dim is None:
        x_dim = 0
    lead = (lead,) if isinstance(lead, int) else lead
    axes = 2 if kind in ("sum-image", "rotation-sections") else 1
    call = {
        "sum": lambda x, p: pt.add_to(ENCODING, x, positions=p),
        "sum-image": lambda x, p: pt.add_to(IMAGE, x, positions=p),
        "rotation": lambda x, p: pt.RotaryEncoding(ROTARIES["half"])(x, positions=p),
        "rotation-sections": lambda x, p: pt.RotaryEncoding(SECTIONS)(x, positions=p),
        "tables": lambda x, p: pt.rotary_embedding(x[:, :, None], *tables(ROTARIES["half"], 20), p)[:, :, 0],
    }[kind]
    x = random(rng, *(() if x_dim is None else (4,)), 2, 3, 8)
    shape = (*(() if dim is None else (4,)), *lead, *((axes,) if axes > 1 else ()))
    positions = torch.from_numpy(rng.integers(0, 20, shape))
    got = func.vmap(call, in_dims=(x_dim, dim))(x, positions)
    each = [call(x if x_dim is None else x[i], positions if dim is None else positions[i]) for i in range(4)]
    assert torch.equal(got, torch.stack(each))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_batches_of_hugging_faces_tables(layout, rng):
    cos, sin = (each[:, :, :4] for each in random(rng, 2, 5, 3, 8))
    widened = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
    q = random(rng, 5, 2, 4, 3, 8)
    call = functools.partial(pt.apply_rotary_pos_emb, layout=layout)
    got = func.vmap(lambda q, cos, sin: call(q, q[:, :1], cos, sin))(q, *(each[:, None] for each in widened))
    expected = [call(q[i], q[i, :, :1], widened[0][i], widened[1][i], 0) for i in range(5)]
    for both, one in zip(got, zip(*expected, strict=True), strict=True):
        assert torch.equal(both, torch.stack(one))
    wrong = widened[0].clone()
    wrong[3, 1, 0] += 1
    with pytest.raises(ValueError, match="cos must have the same values in both halves"):
        func.vmap(lambda cos: call(q[0], q[0], cos, widened[1][0], 0))(wrong)


@pytest.mark.parametrize("columns", ["half", "interleaved", "pairs"])
@pytest.mark.parametrize("transform", ["backward", "grad", "jvp", "hessian"])
def test_derivatives_of_angles_go_through_tables(columns, transform, rng):
    """Gradients reach the learned frequencies from which tables are computed."""
    q = random(rng, 1, 2, 3, 8, dtype=torch.float64)

    def angles(frequencies):
        return torch.arange(3.0, dtype=torch.float64)[:, None] * frequencies

    def wide(table):
        if columns == "pairs":
            return table
        return torch.cat([table, table], -1) if columns == "half" else table.repeat_interleave(2, -1)

    def call(frequencies):
        both = wide(angles(frequencies).cos())[None], wide(angles(frequencies).sin())[None]
        return pt.apply_rotary_pos_emb(q, q, *both, tables=columns)[0]

    def formula(frequencies):
        return rotated(q, angles(frequencies).cos(), angles(frequencies).sin(), "half")

    frequencies, run = random(rng, 4, dtype=torch.float64), TRANSFORMS[transform]
    torch.testing.assert_close(run(call, frequencies), run(formula, frequencies.detach()), rtol=1e-11, atol=1e-11)


# ---- in place, and errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda inplace: pt.SinusoidalEncoding(8, 0.0, batch_first=True, inplace=inplace),
        lambda inplace: pt.RotaryEncoding(ROTARIES["half"], inplace=inplace),
    ],
    ids=["sum", "rotation"],
)
def test_in_place(make, rng):
    x = random(rng, 4, 2, 3, 8)
    expected, values = func.vmap(make(False))(x), x.clone()
    assert torch.equal(func.vmap(make(True))(values), expected)
    assert torch.equal(values, expected)
    value, tangent = func.jvp(lambda x: make(True)(x * 1), (x,), (x,))
    expected, of_new = func.jvp(make(False), (x,), (x,))
    assert torch.equal(value, expected)
    assert torch.equal(tangent, of_new)
    with pytest.raises(ValueError, match=r"(x|q) requires gradients and cannot be overwritten"):
        func.grad(lambda x: make(True)(x).sum())(x)


X, OUT = torch.ones(2, 3, 8), torch.zeros(2, 3, 8)
LOST = {
    "sum": lambda p: pt.SinusoidalEncoding(8, 0.0, batch_first=True)(X, positions=p),
    "rotation": lambda p: pt.RotaryEncoding(ROTARIES["half"])(X, positions=p),
    "add_to": lambda p: pt.add_to(ENCODING, X, positions=p),
    "rotate": lambda p: pt.rotate(ROTARIES["half"], X, positions=p),
}


@pytest.mark.parametrize("transform", ["grad", "jvp", "grad-of-vmap", "vmap-of-grad", "hessian", "backward"])
@pytest.mark.parametrize("name", LOST)
def test_derivatives_of_positions_are_not_lost(name, transform):
    with pytest.raises(ValueError, match=r"positions requires gradients, or has a tangent"):
        TRANSFORMS[transform](LOST[name], torch.arange(3.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: pt.add_to(ENCODING, x, out=out),
        lambda x, out: pt.rotate(ROTARIES["half"], x, out=out),
        lambda x, out: pt.encode(ENCODING, x[..., 0], out=out),
    ],
    ids=["add_to", "rotate", "encode"],
)
def test_nothing_is_written_to_out(call):
    for run, message in (
        (lambda: func.vmap(lambda x: call(x, OUT))(X[None]), "inside a transform"),
        (lambda: func.jvp(lambda x: call(x, OUT), (X,), (X,)), "inside a transform"),
        (lambda: call(X.clone().requires_grad_(), OUT), "requires gradients"),
    ):
        with pytest.raises(ValueError, match=f"out cannot be written to .*{message}.*leave it out"):
            run()
    with pytest.raises(ValueError, match=r"out is inside a transform of torch\.func .* leave out out"):
        func.vmap(lambda out: pt.table(ENCODING, 3, out=out))(OUT)
    assert not OUT.any()
