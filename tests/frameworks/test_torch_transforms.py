"""Test the torch modules and functions with derivatives in reverse and forward mode, and under torch.func and vmap.

Most tests compare a call with its formula in plain torch operations, which support all these transforms.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.tensors import encoded, random, rotated, tables, widened

torch = optional("torch")
pt = optional("posenc_fast.torch")


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


def by_rotary(x, rotary, positions=range(3), inverse=False):
    return rotated(x, *tables(rotary, np.asarray(positions)), rotary.layout, inverse)


def cubed(call):
    """Return a function from x to the sum of the cubes of call(x), whose first and second derivatives depend on x."""
    return lambda x: (call(x) ** 3).sum()


def close(got, expected, tolerance=1e-11):
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


# ---- calls, each with its formula -------------------------------------------------------------------------------------


def adding(call=None, **options):
    """Return a function that builds a SinusoidalEncoding.

    options: arguments of the module. call: keyword arguments of each call of the module.
    """
    return lambda: functools.partial(pt.SinusoidalEncoding(8, 0.0, encoding=ENCODING, **options), **(call or {}))


def turning(name, call=None, **options):
    return lambda: functools.partial(pt.RotaryEncoding(ROTARIES[name], **options), **(call or {}))


def crossed(x):
    """Return the points of a grid. The coordinates of its three rows come from x, and there are two columns."""
    columns = torch.arange(2.0, dtype=torch.float64)
    return torch.stack(torch.meshgrid(x.flatten()[:3], columns, indexing="ij"), -1)


def by_tables(x):
    both = [widened(each, "half") for each in tables(ROTARIES["half"], 3)]
    return pt.apply_rotary_pos_emb(x[:, None], x[:, None], *both, 0)[0][:, 0]


# fmt: off
CALLS = {
    "SinusoidalEncoding": (adding(batch_first=True, x_scale=-1.5), lambda x: -1.5 * x + encoded(ENCODING, torch.arange(3))),
    "SinusoidalEncoding-positions": (adding({"positions": WHERE}, batch_first=True), lambda x: x + encoded(ENCODING, WHERE)),
    "SinusoidalEncoding-length-first": (adding({"start": 5}), lambda x: x + encoded(ENCODING, torch.arange(5, 7))[:, None]),
    "RotaryEncoding-tokens-first": (
        turning("interleaved", seq_axis=0),
        lambda x: by_rotary(x.transpose(0, 1), ROTARIES["interleaved"], range(2)).transpose(0, 1),
    ),
    "RotaryEncoding-positions": (turning("half", {"positions": WHERE}), lambda x: by_rotary(x, ROTARIES["half"], PLACES)),
    "add_to": (
        lambda: lambda x: pt.add_to(ENCODING, x, start=0.5, step=0.25, x_scale=2.0),
        lambda x: 2 * x + encoded(ENCODING, torch.tensor([0.5, 0.75, 1.0])),
    ),
    "add_to-positions": (lambda: lambda x: pt.add_to(ENCODING, x, positions=WHERE), lambda x: x + encoded(ENCODING, WHERE)),
    "encode": (lambda: lambda x: pt.encode(ENCODING, x, dtype=torch.float64), lambda x: encoded(ENCODING, x)),
    "encode-image": (lambda: lambda x: pt.encode(IMAGE, x[..., :2], dtype=torch.float64), lambda x: encoded(IMAGE, x[..., :2])),
    "grid": (lambda: lambda x: pt.grid([x.flatten()[:3], 2], IMAGE, dtype=torch.float64), lambda x: encoded(IMAGE, crossed(x))),
    "apply_rotary_pos_emb": (lambda: by_tables, lambda x: by_rotary(x, ROTARIES["half"])),
    "rotary_embedding": (
        lambda: lambda x: pt.rotary_embedding(x[:, :, None], *tables(ROTARIES["half"], 9), WHERE)[:, :, 0],
        lambda x: by_rotary(x, ROTARIES["half"], PLACES),
    ),
}
for name, one in ROTARIES.items():
    CALLS |= {
        f"RotaryEncoding-{name}": (turning(name), lambda x, one=one: by_rotary(x, one)),
        f"rotate-{name}": (lambda one=one: lambda x: pt.rotate(one, x, start=2), lambda x, one=one: by_rotary(x, one, range(2, 5))),
        f"rotate-back-{name}": (
            lambda one=one: lambda x: pt.rotate(one, x, inverse=True), lambda x, one=one: by_rotary(x, one, inverse=True)
        ),
    }
# fmt: on


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
    close(run(make(), x), run(formula, x.detach()))


@pytest.mark.parametrize("name", CALLS)
def test_forward_mode(name, rng):
    """Forward-mode derivatives of results and of gradients are right without torch.func, too."""
    make, formula = CALLS[name]
    x, forward_ad = random(rng, 2, 3, 8, dtype=torch.float64), torch.autograd.forward_ad

    def tangents(call):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x.clone().requires_grad_(), x.flip(0))
            result = call(dual)
            (gradient,) = torch.autograd.grad((result**3).sum(), dual, create_graph=True)
            return [forward_ad.unpack_dual(each).tangent.detach() for each in (result, gradient)]

    close(tangents(make()), tangents(formula))


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", [name for name in CALLS if name[0] in "SR" or "rotary" in name])
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
    """Gradients with respect to 16-bit x or positions have 16 bits.

    The gradient with respect to x has the bits of `rotate(.., inverse=True)` of the gradient of the result.
    """
    x, gradient = (random(rng, 2, 3, 8, dtype=torch.float16) for _ in "xg")
    _, back = func.vjp(pt.RotaryEncoding(ROTARIES["half"]), x)
    assert torch.equal(back(gradient)[0], pt.rotate(ROTARIES["half"], gradient, inverse=True))
    positions = random(rng, 5, dtype=torch.float16)
    assert func.grad(lambda p: pt.encode(ENCODING, p).sum())(positions).dtype == torch.float16


# ---- batches of gradients by torch.autograd instead of torch.func ---------------------------------------------------


def batched_gradients(call, x):
    x = x.clone().requires_grad_()
    y = call(x)
    each = torch.eye(y.numel(), dtype=y.dtype).reshape(-1, *y.shape)
    (rows_of_jacobian,) = torch.autograd.grad(y, x, each, is_grads_batched=True)
    return rows_of_jacobian.reshape(*y.shape, *x.shape)


jacobian, hessian = torch.autograd.functional.jacobian, torch.autograd.functional.hessian
FORWARD = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
BATCHED = {
    "gradients": (batched_gradients, func.jacrev),
    "jacobian": (functools.partial(jacobian, vectorize=True), func.jacrev),
    "jacobian-forward": (functools.partial(jacobian, vectorize=True, strategy="forward-mode"), func.jacrev),
    "hessian": (lambda call, x: hessian(cubed(call), x, vectorize=True), lambda call: func.hessian(cubed(call))),
    "hessian-forward": (lambda call, x: hessian(cubed(call), x, **FORWARD), lambda call: func.hessian(cubed(call))),
}


@pytest.mark.parametrize("type_of_x", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("way", BATCHED)
@pytest.mark.parametrize("name", CALLS)
def test_batches_of_gradients(name, way, type_of_x, rng):
    make, formula = CALLS[name]
    x, (run, by_torch) = random(rng, 2, 3, 8, dtype=type_of_x), BATCHED[way]
    got, expected = run(make(), x), by_torch(formula)(x.double())
    tolerance = 1e-11 if type_of_x == torch.float64 else 1e-4
    torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance * expected.abs().max().item())


@pytest.mark.parametrize("columns", ["half", "interleaved", "pairs"])
@pytest.mark.parametrize("dim", [6, 8], ids=["partial", "whole"])
def test_batches_of_gradients_of_tables(columns, dim, rng):
    q = random(rng, 1, 2, 3, 8, dtype=torch.float64)
    cos, sin = (widened(random(rng, 3, dim // 2, dtype=torch.float64), columns) for _ in "cs")

    def call(cos):
        return pt.apply_rotary_pos_emb(q, q, cos, sin, 0, tables=columns)[0]

    got, x = batched_gradients(call, cos), cos.clone().requires_grad_()
    y = call(x)
    one_by_one = [torch.autograd.grad(each, x, retain_graph=True)[0] for each in y.flatten()]
    assert torch.equal(got, torch.stack(one_by_one).reshape(got.shape))


@pytest.mark.parametrize("name", ["rotate-half", "add_to", "encode", "apply_rotary_pos_emb", "RotaryEncoding-half"])
def test_bits_of_a_batch_of_gradients(name, dtype, rng):
    """Gradients that are computed as a batch have the same bits as gradients computed one by one."""
    call, x = CALLS[name][0](), random(rng, 2, 3, 8, dtype=dtype).requires_grad_()
    y = call(x)
    gradients = random(rng, 5, *y.shape, dtype=y.dtype)
    (got,) = torch.autograd.grad(y, x, gradients, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(y, x, each, retain_graph=True)[0] for each in gradients]
    assert torch.equal(got, torch.stack(one_by_one))


# ---- batches of positions and tables ----------------------------------------------------------------------------------

SECTIONS = pf.Rotary(8, sections=[2, 2])


def by_rows(x, positions):
    return pt.rotary_embedding(x[:, :, None], *tables(ROTARIES["half"], 20), positions)[:, :, 0]


# keys: names of cases. Values: (function of x and positions, shape of one position).
OF_POSITIONS = {
    "sum": (lambda x, p: pt.add_to(ENCODING, x, positions=p), ()),
    "sum-image": (lambda x, p: pt.add_to(IMAGE, x, positions=p), (2,)),
    "rotation": (lambda x, p: pt.RotaryEncoding(ROTARIES["half"])(x, positions=p), ()),
    "rotation-sections": (lambda x, p: pt.RotaryEncoding(SECTIONS)(x, positions=p), (2,)),
    "tables": (by_rows, ()),
}


@pytest.mark.parametrize("dims", [(0, 0), (None, 0), (0, None)], ids=["both", "one-x", "positions-shared"])
@pytest.mark.parametrize("lead", [(3,), (2, 3)], ids=["one-a-sequence", "one-each"])
@pytest.mark.parametrize("kind", OF_POSITIONS)
def test_batches_of_positions(kind, lead, dims, rng):
    call, axes = OF_POSITIONS[kind]
    batches = [() if dim is None else (4,) for dim in dims]
    x = random(rng, *batches[0], 2, 3, 8)
    positions = torch.from_numpy(rng.integers(0, 20, (*batches[1], *lead, *axes)))
    got = func.vmap(call, in_dims=dims)(x, positions)
    each = [call(x[i] if batches[0] else x, positions[i] if batches[1] else positions) for i in range(4)]
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
    with pytest.raises(ValueError, match="cos must have equal values in both halves"):
        func.vmap(lambda cos: call(q[0], q[0], cos, widened[1][0], 0))(wrong)


@pytest.mark.parametrize("columns", ["half", "interleaved", "pairs"])
@pytest.mark.parametrize("transform", ["backward", "grad", "jvp", "hessian"])
def test_derivatives_of_angles_go_through_tables(columns, transform, rng):
    """Derivatives pass through the tables to the frequencies from which the tables were computed."""
    q, run = random(rng, 1, 2, 3, 8, dtype=torch.float64), TRANSFORMS[transform]
    positions, frequencies = torch.arange(3.0, dtype=torch.float64)[:, None], random(rng, 4, dtype=torch.float64)

    def call(frequencies):
        both = [widened(each(positions * frequencies), columns)[None] for each in (torch.cos, torch.sin)]
        return pt.apply_rotary_pos_emb(q, q, *both, tables=columns)[0]

    def formula(frequencies):
        return rotated(q, (positions * frequencies).cos(), (positions * frequencies).sin())

    close(run(call, frequencies), run(formula, frequencies.detach()))


# ---- in place, and errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SinusoidalEncoding", "RotaryEncoding"])
def test_in_place(name, rng):
    make = (
        functools.partial(pt.SinusoidalEncoding, 8, 0.0, batch_first=True)
        if name == "SinusoidalEncoding"
        else functools.partial(pt.RotaryEncoding, ROTARIES["half"])
    )
    new, in_place = make(), make(inplace=True)
    x = random(rng, 4, 2, 3, 8)
    expected, values = func.vmap(new)(x), x.clone()
    assert torch.equal(func.vmap(in_place)(values), expected)
    assert torch.equal(values, expected)
    assert all(map(torch.equal, func.jvp(lambda x: in_place(x * 1), (x,), (x,)), func.jvp(new, (x,), (x,))))
    with pytest.raises(ValueError, match=r"(x|q) requires gradients and cannot be overwritten"):
        func.grad(lambda x: in_place(x).sum())(x)


X, OUT = torch.ones(2, 3, 8), torch.zeros(2, 3, 8)


@pytest.mark.parametrize("transform", ["grad", "jvp", "grad-of-vmap", "vmap-of-grad", "hessian", "backward"])
@pytest.mark.parametrize("name", ["SinusoidalEncoding", "RotaryEncoding", "add_to", "rotate"])
def test_derivatives_of_positions_are_not_lost(name, transform):
    call = {
        "SinusoidalEncoding": lambda p: pt.SinusoidalEncoding(8, 0.0, batch_first=True)(X, positions=p),
        "RotaryEncoding": lambda p: pt.RotaryEncoding(ROTARIES["half"])(X, positions=p),
        "add_to": lambda p: pt.add_to(ENCODING, X, positions=p),
        "rotate": lambda p: pt.rotate(ROTARIES["half"], X, positions=p),
    }[name]
    with pytest.raises(ValueError, match=r"positions requires gradients or has a forward-mode tangent"):
        TRANSFORMS[transform](call, torch.arange(3.0))


def test_nothing_is_written_to_out():
    for call in (
        lambda x: pt.add_to(ENCODING, x, out=OUT),
        lambda x: pt.rotate(ROTARIES["half"], x, out=OUT),
        lambda x: pt.encode(ENCODING, x[..., 0], out=OUT),
    ):
        for run, message in (
            (lambda call: func.vmap(call)(X[None]), "inside a transform .*do not pass out$"),
            (lambda call: func.jvp(call, (X,), (X,)), "inside a transform .*do not pass out$"),
            (lambda call: func.grad(lambda x: call(x).sum())(X), "inside a transform .*do not pass out$"),
            (lambda call: call(X.clone().requires_grad_()), r"requires gradients; .*call under torch\.no_grad\(\)$"),
        ):
            with pytest.raises(ValueError, match=f"out cannot be used .*{message}"):
                run(call)
    with pytest.raises(ValueError, match=r"out is inside a transform of torch\.func .* do not pass out"):
        func.vmap(lambda out: pt.table(ENCODING, 3, out=out))(OUT)
    assert not OUT.any()
