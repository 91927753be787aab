"""Test functions and modules of posenc_fast.torch under torch.compile, traces, dispatch modes and fake tensors.

Together, the calls in CALLS, WITH_OUT and IN_PLACE use most keyword arguments.
"""

from __future__ import annotations

import functools

import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
from support.optional import optional
from support.tensors import random

torch = optional("torch")
pt = optional("posenc_fast.torch")

# a warning of torch's compiler about calls that it does not trace, which pytest would raise
pytestmark = pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`:UserWarning")

ENCODING = pf.sinusoidal(8, base=50.0)
IMAGE = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
ROTARY = pf.Rotary(8, base=50.0, rotary_dim=6, layout="interleaved_to_half")
XPOS = pf.Rotary(8, scaling={"rope_type": "xpos", "scale_base": 8.0})
PAIRS = [torch.from_numpy(each) for each in pf.Rotary(8).tables(20)]
WIDE = [each[:3].repeat(1, 2) for each in PAIRS]


@pytest.fixture(autouse=True)
def afresh():
    torch.compiler.reset()


compiled = functools.partial(torch.compile, fullgraph=True, backend="aot_eager")
encode, add_to = functools.partial(pt.encode, ENCODING), functools.partial(pt.add_to, ENCODING)
rotate = functools.partial(pt.rotate, ROTARY)


def table(x, **options):
    return pt.table(ENCODING, x.shape[-2], **options)


# modules that `SOME` and `CALLS` use
ADDING = pt.SinusoidalEncoding(8, 0.0, batch_first=True, x_scale="sqrt", encoding="whisper")
LENGTH_FIRST = pt.SinusoidalEncoding(8, 0.0, encoding=ENCODING, precision="float32")
IMAGES = pt.SinusoidalEncoding(8, 0.0, encoding=IMAGE)
TURNING = pt.RotaryEncoding(ROTARY)
TOKENS_FIRST = pt.RotaryEncoding(pf.Rotary(8), seq_axis=0, precision="float32")

# functions of x of shape (2, 3, 8), with at least one for each function and module
SOME = {
    "encode-float64": lambda x: encode(x, dtype=torch.float64),
    "encode-image": lambda x: pt.encode(IMAGE, x[..., :2]),
    "grid-xy": lambda x: pt.grid([x[0, 0], x[0, 1]], IMAGE, indexing="xy", dtype=torch.float64),
    "add_to-start-step": lambda x: add_to(x, start=0.25, step=-0.5, x_scale=2),
    "rotate": lambda x: rotate(x),
    "rotate-start": lambda x: rotate(x, start=0.25, seq_axis=0, precision="float32", workers=2),
    "rotate-back": lambda x: pt.rotate(XPOS, x, start=3, inverse=True),
    "rotary_embedding": lambda x: pt.rotary_embedding(
        x[:, :, None], *PAIRS, torch.arange(x.shape[1]), interleaved=True
    ),
    "SinusoidalEncoding": lambda x: ADDING(x * 2),
    "SinusoidalEncoding-length-first": lambda x: LENGTH_FIRST(x, positions=torch.arange(x.shape[0]) * 3),
    "RotaryEncoding-tokens-first": lambda x: TOKENS_FIRST(x),
}
CALLS = SOME | {
    "table": table,
    "table-options": lambda x: table(x, start=0.25, step=-0.5, dtype=torch.bfloat16, precision="float32", workers=2),
    "encode": encode,
    "encode-options": lambda x: encode(x, dtype=torch.bfloat16, precision="float32", workers=2),
    "encode-integers": lambda x: encode((x * 100).long() + 2**60),
    "grid": lambda x: pt.grid([x[0, 0], 4], IMAGE, workers=2),
    "add_to": add_to,
    "add_to-positions": lambda x: add_to(x, positions=x[0, :, 0], precision="float32", workers=2),
    "rotate-positions": lambda x: rotate(x, positions=torch.tensor([2, 0, 7])),
    "apply_rotary_pos_emb": lambda x: pt.apply_rotary_pos_emb(x[None], x[None], *WIDE, 0, layout="interleaved"),
    "SinusoidalEncoding-start": lambda x: ADDING(x, start=7),
    "SinusoidalEncoding-image": lambda x: IMAGES(x, start=4),
    "RotaryEncoding": lambda x: TURNING(x, x[:1], start=7),
}
WITH_OUT = {
    "table": lambda x, out: table(x[0], out=out[0]),
    "encode": lambda x, out: encode(x[..., 0], out=out),
    "add_to": lambda x, out: add_to(x, out=out),
    "rotate": lambda x, out: rotate(x, out=out),
    "grid": lambda x, out: pt.grid([2, x[0, :3, 0]], IMAGE, dtype=out.dtype, out=out),
}
IN_PLACE = {
    "add_to": lambda x: add_to(x, out=x),
    "rotate": lambda x: rotate(x, out=x),
    "SinusoidalEncoding": pt.SinusoidalEncoding(8, 0.0, batch_first=True, inplace=True),
    "RotaryEncoding": pt.RotaryEncoding(8, inplace=True),
}


def leaves(result):
    return result if isinstance(result, tuple) else (result,)


def equal(got, expected):
    pairs = zip(leaves(got), leaves(expected), strict=True)
    return all(one.dtype == other.dtype and torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("name", CALLS)
def test_compiled(name, rng):
    call = compiled(CALLS[name])
    for length in (3,) if name in ("rotate-positions", "apply_rotary_pos_emb") else (3, 5, 9):
        x = random(rng, 2, length, 8)
        assert equal(call(x), CALLS[name](x))


def test_another_start_or_encoding_compiles_again(rng):
    """If a compiled function is called with another start or encoding, it computes the results for these."""

    def call(encoding, rotary, start):
        rows = pt.encode(encoding, x), pt.table(encoding, 3, start=start)
        return *rows, pt.add_to(encoding, x, start=start), pt.rotate(rotary, x, start=start)

    x, again = random(rng, 2, 3, 8), compiled(call, dynamic=True)
    pairs = {base: (pf.sinusoidal(8, base=base), pf.Rotary(8, base=base)) for base in (50.0, 60.0)}
    for base, start in ((50.0, 3), (50.0, 0), (50.0, 5), (50.0, 0.5), (60.0, 5), (50.0, 3)):
        assert equal(again(*pairs[base], start), call(*pairs[base], start))


@pytest.mark.parametrize("name", WITH_OUT)
def test_out(name, rng):
    call, x = WITH_OUT[name], random(rng, 2, 3, 8)
    expected, out = torch.zeros_like(x), torch.zeros_like(x)
    assert torch.equal(call(x, expected), compiled(call)(x, out))
    assert torch.equal(out, expected)


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name, rng):
    call, x = IN_PLACE[name], random(rng, 2, 3, 8)
    expected = call(x.clone())
    assert torch.equal(torch.compile(lambda x: call(x) * 2, fullgraph=True)(x), expected * 2)
    assert torch.equal(x, expected)


@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", SOME)
def test_gradients(name, compiler, rng):
    """Gradients of compiled code are right. Computed as a batch, they have the same bits as in eager mode."""
    x = random(rng, 2, 3, 8, dtype=torch.float64).requires_grad_()

    def total(x):
        return (SOME[name](x) ** 3).sum()

    (got,), (expected,) = (torch.autograd.grad(call(x), x) for call in (compiled(total, backend=compiler), total))
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    calls = compiled(SOME[name], backend=compiler), SOME[name]
    assert torch.equal(*(torch.autograd.functional.jacobian(call, x, vectorize=True) for call in calls))


# the compiler reports most errors as an error of its own, with the message of the error
@wrong_calls(
    """
    table(x, dtype=torch.int32) | Exception | dtype must be one of
    encode(x, dtype=torch.int32) | Exception | dtype must be one of
    encode(x.to("meta")) | Exception | positions is on meta, but must be on the CPU
    add_to(x.to("meta")) | Exception | x is on meta, but must be on the CPU
    rotate(x.to("meta")) | Exception | x is on meta, but must be on the CPU
    rotate(x.int()) | Exception | x must be of float64
    rotate(x[..., :4]) | Exception | x has shape
    add_to(x[..., :4]) | Exception | x has shape
    pt.encode(IMAGE, x) | Exception | positions
    rotate(x, positions=torch.arange(3.0).requires_grad_()) | Exception | positions requires gradients
    add_to(x, positions=torch.arange(3.0).requires_grad_()) | Exception | positions requires gradients
    rotate(x, start=2**70) | Exception | too big
    add_to(x, out=torch.zeros(1, 3, 4)) | Exception | out has shape (1, 3, 4); must have (2, 3, 8)
    add_to(x, out=torch.zeros(2, 3, 8, dtype=torch.float64)) | Exception | out has; dtype torch.float64; torch.float32
    rotate(x, out=torch.zeros(2, 3, 8, device="meta")) | Exception | out is on meta, but must be on the CPU
    """,
    "x",
)
def test_errors(call, error, words, rng):
    x = random(rng, 2, 3, 8)
    raises(lambda: compiled(call, backend="eager")(x), error, words)


# Each of these functions lets torch observe a call, by a trace or a mode. Such a call must run one of posenc_fast's
# operators, because torch cannot observe anything else. Plain evaluation calls no operator.
def traced(call, x):
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(call)(x)(x + 1)


def seen(call, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    names = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Seen():
        y = call(x + 1)
    assert any(name.startswith("posenc_fast.") for name in names), names
    return y


LOOKS = {
    "make_fx": traced,
    "dispatch mode": seen,
    "jit trace": lambda call, x: torch.jit.trace(call, x)(x + 1),
    "functionalize": lambda call, x: torch.func.functionalize(call)(x + 1),
}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", [*SOME, "apply_rotary_pos_emb"])
def test_observers_see_an_operator(name, look, rng):
    call, x = CALLS[name], random(rng, 2, 3, 8)
    assert equal(LOOKS[look](call, x), call(x + 1))


@pytest.mark.parametrize("name", CALLS)
def test_fake_tensors(name, rng):
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    call, x = CALLS[name], random(rng, 2, 3, 8)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        results = [call(mode.from_tensor(x))]
    if name in ("encode", "add_to", "rotate"):
        # fake tensors must also work while their mode is not active
        results.append(call(FakeTensorMode().from_tensor(x)))
    for result in results:
        for fake, expected in zip(leaves(result), leaves(call(x)), strict=True):
            assert isinstance(fake, FakeTensor)
            assert (fake.shape, fake.dtype) == (expected.shape, expected.dtype)
