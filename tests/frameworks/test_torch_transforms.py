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
HALF = pf.Rotary(8, base=50.0)
INTERLEAVED = pf.Rotary(8, base=50.0, layout="interleaved")
TO_HALF = pf.Rotary(8, base=50.0, layout="interleaved_to_half")
PARTIAL = pf.Rotary(8, base=50.0, rotary_dim=6)
XPOS = pf.Rotary(8, scaling={"rope_type": "xpos", "scale_base": 8.0})
PLACES = [3, 0, 7]
WHERE = torch.tensor(PLACES)


def by_rotary(x, rotary, positions=range(3), inverse=False):
    return rotated(x, *tables(rotary, np.asarray(positions)), rotary.layout, inverse)


def cubed(call):
    """Return a function from x to the sum of the cubes of call(x), whose first and second derivatives depend on x."""
    return lambda x: (call(x) ** 3).sum()


def close(got, expected):
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-11)


# ---- calls, each with its formula -------------------------------------------------------------------------------------


def crossed(x):
    """Return the points of a grid. The coordinates of its three rows come from x, and there are two columns."""
    columns = torch.arange(2.0, dtype=torch.float64)
    return torch.stack(torch.meshgrid(x.flatten()[:3], columns, indexing="ij"), -1)


def by_tables(x):
    both = [widened(each, "half") for each in tables(HALF, 3)]
    return pt.apply_rotary_pos_emb(x[:, None], x[:, None], *both, 0)[0][:, 0]


def by_rows(x, positions=WHERE):
    return pt.rotary_embedding(x[:, :, None], *tables(HALF, 20), positions)[:, :, 0]


adding = functools.partial(pt.SinusoidalEncoding, 8, 0.0, encoding=ENCODING)
turning = pt.RotaryEncoding(HALF)
tokens_first = pt.RotaryEncoding(INTERLEAVED, seq_axis=0)
points = torch.cartesian_prod(torch.arange(2), torch.arange(3))

# keys: names of calls. Values: (function of x of shape (2, 3, 8), its formula).
# fmt: off
CALLS = {
    "SinusoidalEncoding": (
        adding(batch_first=True, x_scale=-1.5), lambda x: -1.5 * x + encoded(ENCODING, torch.arange(3))
    ),
    "SinusoidalEncoding-positions": (
        functools.partial(adding(batch_first=True), positions=WHERE), lambda x: x + encoded(ENCODING, WHERE)
    ),
    "SinusoidalEncoding-length-first": (
        functools.partial(adding(), start=5), lambda x: x + encoded(ENCODING, torch.arange(5, 7))[:, None]
    ),
    "SinusoidalEncoding-image": (
        adding(encoding=IMAGE, x_scale=3.0), lambda x: 3 * x + encoded(IMAGE, points).reshape(2, 3, 8)
    ),
    "RotaryEncoding": (turning, lambda x: by_rotary(x, HALF)),
    "RotaryEncoding-positions": (lambda x: turning(x, positions=WHERE), lambda x: by_rotary(x, HALF, PLACES)),
    "RotaryEncoding-amplitudes": (pt.RotaryEncoding(XPOS), lambda x: by_rotary(x, XPOS)),
    "RotaryEncoding-interleaved-to-half": (pt.RotaryEncoding(TO_HALF), lambda x: by_rotary(x, TO_HALF)),
    "RotaryEncoding-tokens-first": (
        tokens_first, lambda x: by_rotary(x.transpose(0, 1), INTERLEAVED, range(2)).transpose(0, 1)
    ),
    "add_to": (
        lambda x: pt.add_to(ENCODING, x, start=0.5, step=0.25, x_scale=2.0),
        lambda x: 2 * x + encoded(ENCODING, torch.tensor([0.5, 0.75, 1.0])),
    ),
    "add_to-positions": (lambda x: pt.add_to(ENCODING, x, positions=WHERE), lambda x: x + encoded(ENCODING, WHERE)),
    "encode": (lambda x: pt.encode(ENCODING, x, dtype=torch.float64), lambda x: encoded(ENCODING, x)),
    "encode-image": (lambda x: pt.encode(IMAGE, x[..., :2], dtype=torch.float64), lambda x: encoded(IMAGE, x[..., :2])),
    "grid": (lambda x: pt.grid([x.flatten()[:3], 2], IMAGE, dtype=torch.float64), lambda x: encoded(IMAGE, crossed(x))),
    "rotate": (lambda x: pt.rotate(HALF, x, start=2), lambda x: by_rotary(x, HALF, range(2, 5))),
    "rotate-partial": (lambda x: pt.rotate(PARTIAL, x, positions=WHERE), lambda x: by_rotary(x, PARTIAL, PLACES)),
    "rotate-back-amplitudes": (lambda x: pt.rotate(XPOS, x, inverse=True), lambda x: by_rotary(x, XPOS, inverse=True)),
    "rotate-back-interleaved-to-half": (
        lambda x: pt.rotate(TO_HALF, x, inverse=True), lambda x: by_rotary(x, TO_HALF, inverse=True)
    ),
    "apply_rotary_pos_emb": (by_tables, lambda x: by_rotary(x, HALF)),
    "rotary_embedding": (by_rows, lambda x: by_rotary(x, HALF, PLACES)),
}
# fmt: on


def batched_gradients(call, x):
    x = x.clone().requires_grad_()
    y = call(x)
    each = torch.eye(y.numel(), dtype=y.dtype).reshape(-1, *y.shape)
    return torch.autograd.grad(y, x, each, is_grads_batched=True)[0]


def forward_mode(call, x):
    """Return the forward-mode derivatives of the result and of its gradient, without torch.func."""
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.clone().requires_grad_(), x.flip(0))
        result = call(dual)
        (gradient,) = torch.autograd.grad((result**3).sum(), dual, create_graph=True)
        return [forward_ad.unpack_dual(each).tangent.detach() for each in (result, gradient)]


func, jacobian, hessian = torch.func, torch.autograd.functional.jacobian, torch.autograd.functional.hessian
FORWARD = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
TRANSFORMS = {
    "value": lambda call, x: call(x),
    "grad": lambda call, x: func.grad(cubed(call))(x),
    "vmap": lambda call, x: func.vmap(call)(torch.stack([x, 2 * x])),
    "vmap-last": lambda call, x: func.vmap(call, in_dims=-1, out_dims=1)(torch.stack([x, 2 * x], -1)),
    "jvp": lambda call, x: func.jvp(call, (x,), (x.flip(0),))[1],
    "grad-of-vmap": lambda call, x: func.grad(cubed(func.vmap(call)))(torch.stack([x, 2 * x])),
    "vmap-of-grad": lambda call, x: func.vmap(func.grad(cubed(call)))(torch.stack([x, 2 * x])),
    "hessian": lambda call, x: func.hessian(cubed(call))(x),
    "backward": lambda call, x: torch.autograd.grad(cubed(call)(x.requires_grad_()), x)[0],
    # batches of gradients and forward mode, by torch.autograd instead of torch.func
    "gradients": batched_gradients,
    "forward-mode": forward_mode,
    "jacobian-forward": lambda call, x: jacobian(call, x, vectorize=True, strategy="forward-mode"),
    "vectorized-hessian": lambda call, x: hessian(cubed(call), x, vectorize=True),
    "hessian-forward": lambda call, x: hessian(cubed(call), x, **FORWARD),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", CALLS)
def test_transforms(name, transform, rng):
    (call, formula), run = CALLS[name], TRANSFORMS[transform]
    x = random(rng, 2, 3, 8, dtype=torch.float64)
    close(run(call, x), run(formula, x.detach()))


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", [name for name in CALLS if name[0] in "SR" or "rotary" in name])
@pytest.mark.parametrize("transform", ["value", "vmap", "hessian", "backward"])
def test_other_devices(name, transform, rng):
    test_transforms(name, transform, rng)


@pytest.mark.parametrize(
    "name", ["SinusoidalEncoding", "RotaryEncoding", "add_to", "rotate", "encode", "apply_rotary_pos_emb"]
)
def test_bits_do_not_depend_on_transforms(name, dtype, rng):
    """Results under transforms have the bits of single calls, and batches of gradients those of single gradients."""
    call, x = CALLS[name][0], random(rng, 4, 2, 3, 8, dtype=dtype)
    expected = torch.stack([call(each) for each in x])
    assert torch.equal(func.vmap(call)(x), expected)
    assert torch.equal(func.jvp(call, (x[0],), (x[0],))[0], expected[0])
    gradient, total = func.grad_and_value(lambda x: call(x).double().sum())(x[0])
    assert gradient.dtype == dtype
    assert torch.equal(total, expected[0].double().sum())
    y = call(x.requires_grad_()[0])
    gradients = random(rng, 5, *y.shape, dtype=y.dtype)
    (got,) = torch.autograd.grad(y, x, gradients, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(y, x, each, retain_graph=True)[0] for each in gradients]
    assert torch.equal(got, torch.stack(one_by_one))


# ---- batches of positions and tables ----------------------------------------------------------------------------------

# keys: names of cases. Values: (function of x and positions, shape of one position).
SECTIONS = pt.RotaryEncoding(pf.Rotary(8, sections=[2, 2]))
OF_POSITIONS = {
    "SinusoidalEncoding": (lambda x, p: adding(batch_first=True)(x, positions=p), ()),
    "RotaryEncoding": (lambda x, p: turning(x, positions=p), ()),
    "add_to": (lambda x, p: pt.add_to(ENCODING, x, positions=p), ()),
    "rotate": (lambda x, p: pt.rotate(HALF, x, positions=p), ()),
    "add_to-image": (lambda x, p: pt.add_to(IMAGE, x, positions=p), (2,)),
    "RotaryEncoding-sections": (lambda x, p: SECTIONS(x, positions=p), (2,)),
    "rotary_embedding": (by_rows, ()),
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
    q, (cos, sin) = random(rng, 5, 2, 4, 3, 8), random(rng, 2, 5, 3, 4).repeat(1, 1, 1, 2)
    call = functools.partial(pt.apply_rotary_pos_emb, layout=layout)
    got = func.vmap(lambda q, cos, sin: call(q, q[:, :1], cos, sin))(q, cos[:, None], sin[:, None])
    expected = [call(q[i], q[i, :, :1], cos[i], sin[i], 0) for i in range(5)]
    for batch, each in zip(got, zip(*expected, strict=True), strict=True):
        assert torch.equal(batch, torch.stack(each))
    cos[3, 1, 0] += 1
    with pytest.raises(ValueError, match="cos must have equal values in both halves"):
        func.vmap(lambda cos: call(q[0], q[0], cos, sin[0], 0))(cos)


@pytest.mark.parametrize(("columns", "pairs"), [("half", 4), ("interleaved", 3), ("pairs", 4)])
@pytest.mark.parametrize("transform", ["backward", "grad", "jvp", "hessian", "gradients"])
def test_derivatives_of_angles_go_through_tables(columns, pairs, transform, rng):
    """Derivatives pass through the tables to the frequencies from which the tables were computed."""
    q, frequencies = random(rng, 1, 2, 3, 8, dtype=torch.float64), random(rng, pairs, dtype=torch.float64)

    def angles(frequencies):
        return torch.arange(3.0, dtype=torch.float64)[:, None] * frequencies

    def call(frequencies):
        both = [widened(each(angles(frequencies)), columns)[None] for each in (torch.cos, torch.sin)]
        return pt.apply_rotary_pos_emb(q, q, *both, tables=columns)[0]

    def formula(frequencies):
        return rotated(q, angles(frequencies).cos(), angles(frequencies).sin())

    run = TRANSFORMS[transform]
    close(run(call, frequencies), run(formula, frequencies.detach()))


# ---- in place, and errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SinusoidalEncoding", "RotaryEncoding"])
def test_in_place(name, rng):
    arguments = {"d_model": 8, "dropout": 0.0, "batch_first": True} if name[0] == "S" else {"rotary": HALF}
    new, in_place = (getattr(pt, name)(**arguments, inplace=each) for each in (False, True))
    x = random(rng, 4, 2, 3, 8)
    expected, values = func.vmap(new)(x), x.clone()
    assert torch.equal(func.vmap(in_place)(values), expected)
    assert torch.equal(values, expected)
    assert all(map(torch.equal, func.jvp(lambda x: in_place(x * 1), (x,), (x,)), func.jvp(new, (x,), (x,))))
    with pytest.raises(ValueError, match=r"(x|q) requires gradients and cannot be overwritten"):
        func.grad(lambda x: in_place(x).sum())(x)


X, OUT = torch.ones(2, 3, 8), torch.zeros(2, 3, 8)


@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap-of-grad", "backward"])
@pytest.mark.parametrize("name", ["SinusoidalEncoding", "RotaryEncoding", "add_to", "rotate"])
def test_derivatives_of_positions_are_not_lost(name, transform):
    with pytest.raises(ValueError, match=r"positions requires gradients or has a forward-mode tangent"):
        TRANSFORMS[transform](functools.partial(OF_POSITIONS[name][0], X), torch.arange(3.0))


def test_nothing_is_written_to_out():
    for call in (
        lambda x: pt.add_to(ENCODING, x, out=OUT),
        lambda x: pt.rotate(HALF, x, out=OUT),
        lambda x: pt.encode(ENCODING, x[..., 0], out=OUT),
    ):
        for transform in ("grad", "vmap", "jvp"):
            with pytest.raises(ValueError, match=r"out cannot be used inside a transform .*do not pass out$"):
                TRANSFORMS[transform](call, X)
    with pytest.raises(ValueError, match=r"out is inside a transform of torch\.func .* do not pass out"):
        func.vmap(lambda out: pt.table(ENCODING, 3, out=out))(OUT)
    assert not OUT.any()
