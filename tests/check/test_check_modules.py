"""Test `check` for torch modules: verdicts of their buffers and of the values that they compute.

The classes below imitate modules of published projects.
"""

from __future__ import annotations

import copy
import functools
import math
import random
import re

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.testing import assert_right
from support.optional import optional
from support.programs import program

torch = optional("torch")
nn = torch.nn


def table(rows, d, first=0):
    """Return rows from position `first` on, as PyTorch's tutorial computes them in float32."""
    pe = torch.zeros(rows, d)
    positions = torch.arange(first, rows + first, dtype=torch.float).unsqueeze(1)
    div = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
    pe[:, 0::2], pe[:, 1::2] = torch.sin(positions * div), torch.cos(positions * div)
    return pe


class Adds(nn.Module):
    """The module of the Annotated Transformer and of PyTorch's tutorial. `skip`, `scale` and `first` cause faults."""

    def __init__(self, d=64, rows=700, batch_first=True, skip=0, scale=1.0, x_scale=1.0, persistent=True, first=0):
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.batch_first, self.skip, self.scale, self.x_scale = batch_first, skip, scale, x_scale
        self.register_buffer("pe", table(rows, d, first).unsqueeze(0 if batch_first else 1), persistent=persistent)

    def forward(self, x):
        n, skip = x.size(1 if self.batch_first else 0), self.skip
        pe = self.pe[:, skip : n + skip] if self.batch_first else self.pe[skip : n + skip]
        return self.dropout(self.x_scale * x + self.scale * pe)


def variant(forward, base=Adds):
    """Return a subclass of a module with another forward function."""
    return type(f"{base.__name__}Variant", (base,), {"forward": forward})


class AddsWithoutTable(nn.Module):
    """A module that computes its rows at each call, and whose only number is half of its width."""

    def __init__(self):
        super().__init__()
        self.half = 23

    def forward(self, x):
        return x + table(x.size(1), 2 * self.half)


class ScaledPositions(Adds):
    """A module of ESPnet, with a learned factor, and x times sqrt(64)."""

    def __init__(self, alpha=1.0):
        super().__init__(persistent=False)
        self.alpha = nn.Parameter(torch.tensor(alpha))

    def forward(self, x):
        return x * 8 + self.alpha * self.pe[:, : x.size(1)]


class Timestep(nn.Module):
    """A module of denoising diffusion, without buffers."""

    def __init__(self, dim=64, below=None):
        super().__init__()
        self.dim, self.below = dim, below

    def forward(self, t):
        half = self.dim // 2
        w = torch.exp(torch.arange(half) * -(math.log(10000) / (self.below or half - 1)))
        angles = t[:, None] * w[None, :]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class Frequencies(nn.Module):
    """The buffer of modules with RoPE."""

    def __init__(self, d=64, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1 / base ** (torch.arange(0, d, 2).float() / d))


class Tables(Frequencies):
    """The module of Llama in transformers. `halves`: dtype to which positions are rounded, or None."""

    def __init__(self, d=64, base=10000.0, halves=None):
        super().__init__(d, base)
        self.halves = halves

    def forward(self, x, position_ids):
        positions = position_ids.to(self.halves) if self.halves else position_ids
        angles = positions[:, :, None].float() * self.inv_freq.float()
        both = torch.cat((angles, angles), dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)


class Cached(Frequencies):
    """A module of early GPT-NeoX code, which computes longer tables when it needs them."""

    max_seq_len_cached = 0

    def forward(self, x, seq_len=None):
        if seq_len > self.max_seq_len_cached:
            self.max_seq_len_cached = seq_len
            angles = torch.outer(torch.arange(seq_len).float(), self.inv_freq)
            both = torch.cat((angles, angles), dim=-1)
            self.register_buffer("cos_cached", both.cos()[None, None], persistent=False)
            self.register_buffer("sin_cached", both.sin()[None, None], persistent=False)
        return self.cos_cached[:, :, :seq_len], self.sin_cached[:, :, :seq_len]


class Rotates(Frequencies):
    """A rotation of (batch, n, heads, d), as in torchtune, or of (batch, heads, n, d)."""

    def __init__(self, heads_first=False, skip=0, layout="interleaved"):
        super().__init__()
        self.heads_first, self.skip, self.layout = heads_first, skip, layout

    def forward(self, x):
        n = x.size(2 if self.heads_first else 1)
        angles = torch.outer(torch.arange(self.skip, n + self.skip).float(), self.inv_freq)
        angles = angles if self.heads_first else angles[:, None]
        cos, sin = angles.cos(), angles.sin()
        if self.layout == "interleaved":
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def rows_of_frequencies(self, pos_seq, bsz=None):
    angles = torch.outer(pos_seq.float(), self.inv_freq)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[:, None, :]


# the module of Informer, which returns only the rows and ignores the values of x
Returns = variant(lambda self, x: self.pe[:, self.skip : x.size(1) + self.skip])


class Complex(nn.Module):
    """A module of the original Llama, which looks up complex numbers."""

    def __init__(self):
        super().__init__()
        w = 1 / 10000 ** (torch.arange(0, 64, 2).float() / 64)
        angles = torch.outer(torch.arange(700).float(), w)
        self.freqs_cis = torch.polar(torch.ones_like(angles), angles)

    def forward(self, input_pos):
        return self.freqs_cis[input_pos]


def of_code(model, report):
    """Return the findings about values that a model computes, without findings about its buffers and parameters."""
    tensors = {name for name, _ in (*model.named_buffers(), *model.named_parameters())}
    return [finding for finding in report.findings if finding.name not in tensors]


def state_of(model):
    """Return copies of a model's attributes, buffers and parameters, and the counts of changes of the latter."""
    attributes = {
        key: value for key, value in vars(model).items() if not re.search("hooks|_buffers|_parameters|_modules", key)
    }
    tensors = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    versions = [tensor._version for tensor in tensors.values()]
    return copy.deepcopy({**attributes, **tensors, "versions": versions})


def computed(model, *arguments):
    return of_code(model, pf.check(model, *arguments))


def judged(model, *arguments):
    return [(finding.verdict, finding.fault) for finding in computed(model, *arguments)]


INTERLEAVED = pf.Rotary(64, layout="interleaved")
# keys: names of modules. Values: (class or function that makes the module, expected encoding, whether quick tests use it)
# fmt: off
RIGHT = {
    "adds": (Adds, pf.sinusoidal(64), True),
    "adds, tokens first": (functools.partial(Adds, batch_first=False), pf.sinusoidal(64), True),
    "adds, x scaled": (functools.partial(Adds, x_scale=8.0), pf.sinusoidal(64), False),
    "adds, wide": (functools.partial(Adds, 512, 5000), pf.sinusoidal(512), False),
    "adds, not persistent": (functools.partial(Adds, persistent=False), pf.sinusoidal(64), False),
    # a module of WeNet, which returns the sum and the rows
    "adds and returns": (variant(lambda self, x: (Adds.forward(self, x), self.pe[:, : x.size(1)])), pf.sinusoidal(64), False),
    "returns": (Returns, pf.sinusoidal(64), False),
    "looks": (variant(lambda self, position_ids: self.pe[0][position_ids]), pf.sinusoidal(64), False),
    "adds, without a table": (AddsWithoutTable, pf.sinusoidal(46), True),
    # a module of speech models, with channels before tokens
    "channels": (variant(lambda self, x: x + self.pe[0, : x.size(2)].T), pf.sinusoidal(64), False),
    "scaled": (ScaledPositions, pf.sinusoidal(64), False),
    "timestep": (Timestep, "ddpm", True),
    "timestep, shift 0": (functools.partial(Timestep, below=32), "transformer_xl", False),
    "tables": (Tables, pf.Rotary(64), True),
    "tables, other base": (functools.partial(Tables, base=5e5), pf.Rotary(64, base=5e5), False),
    "cached": (Cached, pf.Rotary(64), False),
    # a module of Transformer-XL, which returns rows, although its buffer is called inv_freq, as in modules with RoPE
    "rows of frequencies": (variant(rows_of_frequencies, Frequencies), "transformer_xl", False),
    "rotates": (Rotates, INTERLEAVED, True),
    "rotates, heads first": (functools.partial(Rotates, heads_first=True), INTERLEAVED, False),
    "rotates, half": (functools.partial(Rotates, layout="half"), pf.Rotary(64), False),
    "complex": (Complex, INTERLEAVED, False),
}
# fmt: on
CASES = [pytest.param(*each[:2], marks=() if each[2] else pytest.mark.slow, id=name) for name, each in RIGHT.items()]


@pytest.mark.parametrize(("make", "expected"), CASES)
def test_right_modules(make, expected):
    """Correct modules are right, alone and compared with the expected encoding. `check` does not change a module."""
    model = make().train()
    model.calls = []
    model.register_forward_hook(lambda *_: model.calls.append(1))
    model.register_forward_pre_hook(lambda *_: model.calls.append(1))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = state_of(model)
    torch.manual_seed(3)
    np.random.seed(4)
    random.seed(5)
    states = torch.get_rng_state(), np.random.get_state()[1], random.getstate()
    for arguments in ((), (expected,)):
        report = pf.check(model, *arguments)
        assert [finding.verdict for finding in of_code(model, report)] == ["right"], report
        assert "wrong" not in {finding.verdict for finding in report.findings}, report
    assert torch.equal(torch.get_rng_state(), states[0])
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])
    assert random.getstate() == states[2]
    # the state includes `training` and `calls`
    after = state_of(model)
    assert list(after) == list(before)
    for key, value in after.items():
        assert torch.equal(value, before[key]) if isinstance(value, torch.Tensor) else value == before[key], key


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adds", "returns", "looks", "scaled", "rotates", "tables"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_modules_in_other_types(name, dtype):
    model = RIGHT[name][0]().to(dtype)
    report = pf.check(model)
    if name in ("rotates", "tables") and dtype != torch.float64:
        assert {(finding.verdict, finding.fault) for finding in report.findings} == {("wrong", "rounded")}
    else:
        assert {finding.verdict for finding in of_code(model, report)} == {"right"}, report


# keys: names of faulty modules. Values: (function that makes the module, expected encoding, expected fault, whether the
# fault is found without the expected encoding; other faults may be intended)
# fmt: off
FAULTS = {
    "one row too far": (functools.partial(Adds, skip=1), pf.sinusoidal(64), "start", True),
    "tokens first": (functools.partial(Adds, skip=1, batch_first=False), pf.sinusoidal(64), "start", True),
    "returns one row too far": (functools.partial(Returns, skip=1), pf.sinusoidal(64), "start", True),
    "positions from 1": (functools.partial(Adds, first=1), pf.sinusoidal(64), "start", False),
    "scaled rows": (functools.partial(Adds, scale=8.0), pf.sinusoidal(64), "amplitude", True),
    "a learnt factor": (functools.partial(ScaledPositions, alpha=0.9), pf.sinusoidal(64), "amplitude", True),
    "d/2 below": (functools.partial(Timestep, below=31), pf.sinusoidal(64, layout="concatenated"), "exponent", False),
    "positions in bfloat16": (functools.partial(Tables, halves=torch.bfloat16), pf.Rotary(64), "rounded", True),
    "positions in float16": (functools.partial(Tables, halves=torch.float16), pf.Rotary(64), "rounded", False),
    "other base": (functools.partial(Tables, base=5e5), pf.Rotary(64), "base", False),
    "rotates one too far": (functools.partial(Rotates, skip=1, layout="half"), pf.Rotary(64), "start", True),
    "other layout": (Rotates, pf.Rotary(64), "layout", False),
}
# fmt: on


@pytest.mark.parametrize(("make", "expected", "fault", "found_alone"), FAULTS.values(), ids=FAULTS)
def test_faults_of_modules(make, expected, fault, found_alone):
    model = make()
    assert judged(model, expected) == [("wrong", fault)]
    if found_alone:
        # the buffers are right, but the values that the module computes disagree with them
        report = pf.check(model)
        stored = [finding for finding in report.findings if "computed" not in finding.is_ and finding.name != "alpha"]
        assert {finding.verdict for finding in stored} == {"right"}, report
        assert judged(model) == [("wrong", fault)], report


def test_modules_of_a_model():
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
    parts = {"embedding": nn.Embedding(99, 64), "positions": Adds(skip=1), "layers": layers, "rotary": Tables(32)}
    model = nn.ModuleDict(parts)
    verdicts = {finding.name: finding.verdict for finding in pf.check(model).findings}
    assert verdicts == {"positions.pe": "right", "rotary.inv_freq": "right", "positions": "wrong", "rotary": "right"}
    # an expected Encoding is not compared with a rotary module, which keeps its verdict
    verdicts = {finding.name: finding.verdict for finding in pf.check(model, pf.sinusoidal(32)).findings}
    assert verdicts["rotary"] == "right"
    # nor is a preset compared with modules of the other kind
    model = nn.ModuleDict({"positions": Adds(skip=1), "rotary": Tables(128)})
    for name in ("llama", "annotated_transformer", "gptj"):
        verdicts = {finding.name: finding.verdict for finding in pf.check(model, name).findings}
        wrong = {part for part, verdict in verdicts.items() if verdict == "wrong"}
        assert wrong - {"rotary"} == {"positions"}, name
        assert name != "llama" or verdicts["rotary"] == "right"


def test_an_encoding_of_another_width_is_expected_of_one_of_several_modules():
    model = nn.ModuleDict({"one": Adds(), "other": Adds(32)})
    findings = {finding.name: finding for finding in pf.check(model, pf.sinusoidal(64)).findings}
    assert (findings["one"].verdict, findings["other"].verdict, findings["other"].fault) == ("right", "unknown", None)
    assert judged(Adds(32), pf.sinusoidal(64)) == [("wrong", "shape")]


def test_a_config_says_what_a_module_must_compute():
    config = {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5, "max_position_embeddings": 4096}
    assert {finding.verdict for finding in pf.check(Tables(base=5e5), config=config).findings} == {"right"}
    assert {finding.fault for finding in pf.check(Tables(), config=config).findings} == {"base"}
    assert {finding.fault for finding in computed(Tables(), config)} == {"base"}


@pytest.mark.slow
def test_models_of_transformers_have_the_check_of_transformers():
    transformers = optional("transformers")
    sizes = {"vocab_size": 99, "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4}
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=1)
    model = transformers.LlamaForCausalLM(config)
    from posenc_fast.transformers import check

    assert pf.check(model) == check(model)
    assert {finding.verdict for finding in pf.check(model).findings} == {"right"}
    # modules next to a model of transformers are checked too
    both = nn.ModuleDict({"positions": Adds(skip=1), "decoder": model.model})
    verdicts = {finding.name: finding.verdict for finding in pf.check(both).findings}
    assert verdicts.pop("positions") == "wrong"
    assert verdicts.pop("decoder.rotary_emb") == "right"
    assert set(verdicts.values()) == {"right"}
    assert "rounded" in {finding.fault for finding in pf.check(model.to(torch.bfloat16)).findings}


# ---- programs of other projects -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_rotary_of_torchtune():
    dim = 64
    theirs = program("torchtune", "torchtune/modules/position_embeddings.py").RotaryPositionalEmbeddings(dim, 3000)
    expected = pf.Rotary(dim, layout="interleaved")
    assert_right(theirs)
    assert_right(theirs, expected)
    assert_right(theirs, {"model_type": "gptj", "n_embd": 4 * dim, "n_head": 4, "rotary_dim": dim})
    assert judged(theirs, pf.Rotary(dim)) == [("wrong", "layout")]
    # tables in 16 bits are right if they were rounded only once
    assert judged(theirs.to(torch.bfloat16), expected) == [("right", None)]


@pytest.mark.slow
def test_positions_of_transformers_alone():
    optional("transformers")
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding

    config = LlamaConfig(hidden_size=256, num_attention_heads=4, rope_theta=5e5)
    module = LlamaRotaryEmbedding(config)
    assert_right(module)
    assert_right(module, config)
    assert {finding.verdict for finding in computed(module, pf.Rotary(64, base=1e6))} == {"wrong"}


# ---- unknown --------------------------------------------------------------------------------------------------------


class Learned(nn.Module):
    def __init__(self):
        super().__init__()
        self.positional_embedding = nn.Parameter(torch.randn(300, 64))

    def forward(self, x):
        return x + self.positional_embedding[: x.size(1)]


class PositionalRaises(nn.Module):
    def forward(self, x):
        raise RuntimeError("not\nhere")


class PositionalEncoder(Adds):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, x):
        return self.layer(x + self.pe[:, : x.size(1)])


def not_finite(self, x):
    assert x.size(-1) == 64
    return torch.full((x.size(1), 6), math.nan)


def any_shape(self, x):
    assert x.size(-1) == 64
    return x[:, 1:] if x.any() else x + 1


def rows(self, x):
    return self.pe[:, : x.size(1)]


# fmt: off
UNKNOWN = {
    "learned": (Learned, "no known encoding"),
    "raises": (PositionalRaises, "RuntimeError: not"),
    "has weights": (PositionalEncoder, "has weights"),
    "random positions": (variant(lambda self, x: x + nn.functional.dropout(rows(self, x), 0.5)), ""),
    "not finite": (variant(not_finite), "no value of the result is finite"),
    "any shape": (variant(any_shape), "the shape of the result depends on the values of x"),
    "may be intended": (functools.partial(Adds, first=1), "pass expected"),
}
# fmt: on


@pytest.mark.parametrize(("make", "words"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_modules(make, words):
    (finding,) = computed(make())
    assert (finding.verdict, finding.fault) == ("unknown", None)
    assert words in finding.says
    assert "\n" not in finding.says


def test_modules_without_a_batch_axis():
    reversed_rows = variant(lambda self, x: x + (rows(self, x[None])[0].flip(0) if x.ndim == 2 else rows(self, x)))
    for make, words in ((Adds, False), (reversed_rows, True)):
        (finding,) = computed(make())
        assert finding.verdict == "right"
        assert ("x without a batch axis gets different rows" in finding.says) == words


def test_the_call_of_a_module_is_named():
    # a rotation of queries and keys
    both = variant(lambda self, q, k: (Rotates.forward(self, q), Rotates.forward(self, k)), Rotates)
    for make, call in ((Rotates, "forward(x (batch, n, heads, d))"), (both, "forward(x (batch, n, heads, d), x)")):
        (finding,) = computed(make())
        assert (finding.verdict, f"called as {call};" in finding.says) == ("right", True), finding.says


def test_modules_on_meta_or_without_copies():
    (finding,) = computed(Adds().to("meta"))
    assert "meta" in finding.says
    model = Adds()
    model.lock = (number for number in range(3))
    (finding,) = computed(model)
    assert (finding.verdict, "copied" in finding.says) == ("unknown", True)


def test_rows_that_are_not_finite_are_wrong():
    model = Adds()
    model.pe[:, 20] = math.nan
    assert judged(model, pf.sinusoidal(64)) == [("wrong", "values")]
