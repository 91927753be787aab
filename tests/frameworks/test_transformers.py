"""Models of transformers, whose rotation is exchanged: tiny ones of every causal class."""

from __future__ import annotations

import copy
import io
import pickle
import threading

import pytest

import posenc_fast as pf
from support.optional import optional

torch = optional("torch")
optional("transformers")
models = optional("support.tiny_models")
ours = optional("posenc_fast.transformers")
functions = optional("posenc_fast.transformers._rotations")
sinusoids = optional("posenc_fast.transformers._sinusoids")
llama = optional("transformers.models.llama.modeling_llama")

# what torch's compiler and functorch import, whatever is given to them
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning", "ignore::FutureWarning")

TOKENS = torch.randint(3, 90, (2, 9), generator=torch.Generator().manual_seed(1))
# of every kind of rotation
ROTATIONS = {
    "llama": "pairs half, tables with both halves alike",
    "gpt_neox": "pairs half, tables with both halves alike, also the first part of a head",
    "cohere": "pairs interleaved, tables with neighbours alike",
    "glm": "pairs interleaved, tables whose first half is read, also the first part of a head",
    "helium": "pairs interleaved, tables whose first half is read",
    "gptj": "pairs interleaved, tables of a column for each pair",
    "gpt_oss": "pairs half, tables of a column for each pair",
    "deepseek_v2": "pairs interleaved, complex tables",
    "deepseek_v3": "pairs interleaved_to_half, tables whose first half is read",
    "deepseek_v4": "pairs interleaved, tables of a column for each pair, also the last part of a head",
    "nanochat": "pairs half, turned backwards, tables with both halves alike",
}


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def turned(monkeypatch):
    """Whether each call of ours turned anything itself."""
    calls, function = [], functions._results

    def noted(*arguments):
        result = function(*arguments)
        calls.append(result is not None)
        return result

    monkeypatch.setattr(functions, "_results", noted)
    return calls


def logits(model, **options):
    with torch.no_grad():
        return model(input_ids=TOKENS, **options).logits


def off(a, b):
    """Distance, beside the largest of them."""
    return ((a - b).abs().max() / b.abs().max().clamp(min=1)).item()


# ---- every model ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", models.ROTARY)
def test_models_that_turn(name, turned):
    model = models.built(name)
    before, classes = logits(model), [type(module) for module in model.modules()]
    with ours.accelerate(model) as report:
        assert report.replaced
        assert not report.left, str(report)
        assert not turned
        assert off(logits(model), before) <= 1e-5
        assert any(turned)
    calls = len(turned)
    assert torch.equal(logits(model), before)
    assert len(turned) == calls
    assert [type(module) for module in model.modules()] == classes


def test_there_are_enough_of_them():
    assert len(models.ROTARY) + len(models.OTHERS) > 110
    assert len(models.ROTARY) >= 60


@pytest.mark.parametrize("name", models.OTHERS)
def test_models_that_do_not(name):
    model = models.built(name)
    before = logits(model)
    report = ours.accelerate(model)
    assert not report.replaced
    if report.left:
        assert {line.why for line in report.left} == {sinusoids.TABLE}, str(report)
    else:
        assert "nothing to replace" in str(report)
    assert torch.equal(logits(model), before)


@pytest.mark.parametrize(("name", "what"), ROTATIONS.items())
def test_what_is_found_of_them(name, what):
    report = ours.accelerate(models.built(name))
    assert what in {line.why for line in report.replaced}
    assert all(line.module in str(report) for line in report.lines)
    assert repr(report) == f"<Report: {len(report.lines)} replaced, 0 left>"


def test_several_axes_of_positions(turned):
    from transformers import Qwen2VLTextConfig, Qwen2VLTextModel

    torch.manual_seed(0)
    model = Qwen2VLTextModel(
        Qwen2VLTextConfig(
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            vocab_size=99,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
        )
    ).eval()
    where = {"position_ids": torch.stack([torch.arange(9) // n for n in (1, 2, 3)])[:, None].expand(3, 2, 9)}
    with torch.no_grad():
        before = model(input_ids=TOKENS, **where).last_hidden_state
        with ours.accelerate(model) as report:
            assert off(model(input_ids=TOKENS, **where).last_hidden_state, before) <= 1e-5
    assert report.replaced
    assert all(turned)


def pegasus_x():
    from transformers import PegasusXConfig, PegasusXForConditionalGeneration

    torch.manual_seed(0)
    sizes = dict.fromkeys(["d_model", "encoder_ffn_dim", "decoder_ffn_dim"], 64)
    layers = dict.fromkeys(["encoder_layers", "decoder_layers", "num_global_tokens"], 2)
    heads = dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 4)
    config = PegasusXConfig(**sizes, **layers, **heads, vocab_size=99, block_size=4, init_std=0.1)
    return PegasusXForConditionalGeneration(config).eval()


def test_sines_that_are_computed_at_each_call(monkeypatch):
    model, made, rows = pegasus_x(), [], sinusoids._rows
    monkeypatch.setattr(sinusoids, "_rows", lambda *given: made.append(given) or rows(*given))
    given = {"input_ids": TOKENS, "decoder_input_ids": TOKENS[:, :5]}
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    embedding = model.model.encoder.embed_positions
    kind, many, few = type(embedding), torch.zeros(1, 300, 64), torch.zeros(1, 3, 64)
    with torch.no_grad():
        before, text, table = model(**given).logits, model.generate(TOKENS, **options), embedding(many, 5000)
        with ours.accelerate(model) as report:
            assert [line.replaced for line in report.lines] == [True, True]
            assert not ours.accelerate(model).replaced
            assert "sines and cosines of 64 columns" in str(report)
            made.clear()
            assert off(model(**given).logits, before) <= 1e-5
            assert torch.equal(model.generate(TOKENS, **options), text)
            assert len(made) == 2 + 1 + options["max_new_tokens"]
            assert off(embedding(many, 5000), table) <= 2**-22
            assert type(copy.deepcopy(model).model.encoder.embed_positions) is kind
            made.clear()
            for other in ((few.double(),), (few.bfloat16(),), (few, torch.tensor(2)), (few, 0, torch.ones(3, 1))):
                assert torch.equal(embedding(*other), kind.forward(embedding, *other))
            compiled = torch.compile(embedding, backend="aot_eager", fullgraph=True)
            assert off(compiled(many, 5000), table) <= 1e-5
            assert not made
        assert type(embedding) is kind
        assert torch.equal(model(**given).logits, before)
        assert not made


def test_sines_that_are_something_else():
    class OddSinusoidal(type(pegasus_x().model.encoder.embed_positions)):
        def forward(self, inputs_embeds, past_key_values_length=0, position_ids=None):
            return super().forward(inputs_embeds, past_key_values_length, position_ids) * 1.001

    class OtherSinusoidal(torch.nn.Module):
        def forward(self, timesteps):
            return timesteps.sin()

    for module, why in ((OddSinusoidal(64), "does not give sines"), (OtherSinusoidal(), r"takes (timesteps)")):
        type(module).__module__ = "transformers.models.odd"
        (line,) = ours.accelerate(module).lines
        assert why in line.why
        assert not line.replaced


# ---- training, generating, compiling --------------------------------------------------------------------------------


def trained(model, **options):
    model.train(**options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    losses = []
    for _ in range(10):
        loss = model(input_ids=TOKENS, labels=TOKENS).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", ROTATIONS)
def test_ten_steps_of_training(name, turned):
    theirs, model = (models.built(name) for _ in range(2))
    expected = trained(theirs)
    with ours.accelerate(model):
        assert trained(model) == pytest.approx(expected, rel=1e-5)
        assert any(turned)
    assert expected[-1] < expected[0]
    for mine, other in zip(model.parameters(), theirs.parameters(), strict=True):
        assert off(mine, other) <= 1e-5


def test_checkpointing(turned):
    theirs, model = (models.built("llama") for _ in range(2))
    model.gradient_checkpointing_enable()
    with ours.accelerate(model):
        assert trained(model) == pytest.approx(trained(theirs), rel=1e-4)
    assert all(turned)


@pytest.mark.parametrize("name", ["llama", "glm", "gpt_oss", "nanochat", "gemma2"])
def test_generate(name, turned):
    model = models.built(name)
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    expected = model.generate(TOKENS, **options)
    with ours.accelerate(model):
        assert torch.equal(model.generate(TOKENS, **options), expected)
    assert all(turned)
    assert len(turned) >= 8


@pytest.mark.parametrize("name", ["llama", "glm"])
def test_compile(name):
    model = models.built(name)
    before = logits(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        with ours.accelerate(model):
            assert off(logits(compiled), before) <= 1e-5
        assert off(logits(compiled), before) <= 1e-5
    assert torch.equal(logits(model), before)


@pytest.mark.parametrize("name", ["llama", "glm", "nanochat"])
def test_compiled_after_it(name, turned):
    """What a compiler sees of an accelerated model is the model's own."""
    model = models.built(name)
    before = logits(model)
    with ours.accelerate(model) as report:
        assert report.replaced
        compiled = torch.compile(model, backend="aot_eager")
        assert off(logits(compiled), before) <= 1e-5
        assert not turned
        options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
        expected = model.generate(TOKENS, **options)
        assert torch.equal(compiled.generate(TOKENS, **options), expected)
        compiled.train()
        loss = compiled(input_ids=TOKENS, labels=TOKENS).loss
        loss.backward()
    torch.compiler.reset()
    own = models.built(name).train()
    own(input_ids=TOKENS, labels=TOKENS).loss.backward()
    for mine, theirs in zip(model.parameters(), own.parameters(), strict=True):
        assert off(mine.grad, theirs.grad) <= 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bits(dtype, turned):
    optional("ml_dtypes")
    for name in ("llama", "glm", "olmo", "cohere", "gpt_neox"):
        model = models.built(name)
        exact, theirs = logits(model), logits(model.to(dtype))
        with ours.accelerate(model):
            got = logits(model)
        assert got.dtype == theirs.dtype
        assert off(got.float(), exact) <= 2 * off(theirs.float(), exact)
    assert all(turned)
    model = models.built("llama")
    exact = logits(model)
    with torch.autocast("cpu", dtype):
        theirs = logits(model)
        with ours.accelerate(model):
            got = logits(model)
    assert got.dtype == theirs.dtype
    assert off(got.float(), exact) <= 2 * off(theirs.float(), exact)
    assert all(turned)


def test_what_comes_out_besides(turned):
    model = models.built("llama")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        before = model(input_ids=TOKENS, output_attentions=True, output_hidden_states=True)
        with ours.accelerate(model):
            after = model(input_ids=TOKENS, output_attentions=True, output_hidden_states=True)
    for name in ("attentions", "hidden_states"):
        assert len(after[name]) == len(before[name]) > 0
        for mine, theirs in zip(after[name], before[name], strict=True):
            assert off(mine, theirs) <= 1e-5


# ---- one model, and no other ----------------------------------------------------------------------------------------


def test_no_other_model_changes(turned):
    model, other = models.built("llama"), models.built("llama")
    before, function = logits(other), llama.apply_rotary_pos_emb
    with ours.accelerate(model):
        assert llama.apply_rotary_pos_emb is function
        assert torch.equal(logits(other), before)
        assert not turned
        with ours.accelerate(other):
            assert type(model.model.layers[0].self_attn) is type(other.model.layers[0].self_attn)
        assert torch.equal(logits(other), before)
        logits(model)
        assert turned


def test_twice(turned):
    model = models.built("llama")
    before = logits(model)
    with ours.accelerate(model) as report:
        once = logits(model)
        with ours.accelerate(model) as again:
            assert not again.replaced
            assert {line.why for line in again.left} == {"it is ours already"}
            assert torch.equal(logits(model), once)
        assert torch.equal(logits(model), once)
    report.undo()
    assert torch.equal(logits(model), before)


def test_threads():
    model = models.built("llama")
    before = logits(model)
    problems = []

    def work(accelerating):
        try:
            for _ in range(10):
                if accelerating:
                    with ours.accelerate(models.built("llama")) as report:
                        problems.extend(report.left)
                if not torch.equal(logits(model), before):
                    problems.append("another model changed")
        except Exception as problem:  # noqa: BLE001 - shown by the test
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(n == 0,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_copies_are_as_the_model_was(turned):
    model = models.built("llama")
    before = logits(model)
    with ours.accelerate(model):
        stored = io.BytesIO()
        torch.save(model, stored)
        stored.seek(0)
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(stored, weights_only=False)]
        for one in copies:
            assert type(one.model.layers[0].self_attn) is llama.LlamaAttention
            assert torch.equal(logits(one), before)
        assert not turned
        assert model.state_dict().keys() == copies[0].state_dict().keys()
        assert repr(model) == repr(copies[0])


def test_hooks_on_methods(turned):
    """As other packages wrap a module's forward, before and after."""
    model = models.built("llama")
    before, attention = logits(model), model.model.layers[0].self_attn
    attention._old_forward = attention.forward
    attention.forward = lambda *args, **kwargs: attention._old_forward(*args, **kwargs)
    with ours.accelerate(model):
        logits(model)
        assert len(turned) == 2
    assert torch.equal(logits(model), before)
    assert len(turned) == 2
    assert attention._old_forward.__func__ is llama.LlamaAttention.forward


def test_what_somebody_else_changed_is_left_to_them():
    model = models.built("llama")
    report = ours.accelerate(model)
    attention = model.model.layers[0].self_attn
    attention.__class__ = type("Sharded", (type(attention),), {})
    with pytest.raises(RuntimeError, match=r"model.layers.0.self_attn: changed by somebody else since"):
        report.undo()
    assert type(model.model.layers[1].self_attn) is llama.LlamaAttention
    report.undo()


# ---- functions ------------------------------------------------------------------------------------------------------


def rotate_half(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)


def turning(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def stretching(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin * 1.001


def mirroring(q, k, cos, sin):
    return q * cos + rotate_half(q).abs() * sin, k


def failing(q, k, cos, sin):
    raise RuntimeError("not today")


def with_values(q, k, v, cos, sin):
    return turning(q, k, cos, sin)


def through(q, k, cos, sin, scale):
    return turning(q * scale, k, cos, sin)


class Kernel(torch.nn.Module):
    """A function that was made a module, as the package kernels does."""

    def forward(self, q, k, cos, sin, unsqueeze_dim=1):
        return turning(q, k, cos, sin, unsqueeze_dim)


kernel = Kernel()


def decorated(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Calls(torch.nn.Module):
    def forward(self, *args, **kwargs):
        return turning(*args, **kwargs)


class CallsKernel(torch.nn.Module):
    def forward(self, *args):
        return kernel(*args)


class CallsDecorated(torch.nn.Module):
    @decorated
    def forward(self, *args):
        def inner():
            return turning(*args)

        return inner()


class CallsStatic(torch.nn.Module):
    @staticmethod
    def turned(*args):
        return turning(*args)

    def forward(self, *args):
        return self.turned(*args)


class CallsThrough(torch.nn.Module):
    def forward(self, *args):
        return through(*args, 1.0)


class CallsStretching(torch.nn.Module):
    def forward(self, *args):
        return stretching(*args)


class CallsMirroring(torch.nn.Module):
    def forward(self, *args):
        return mirroring(*args)


class CallsFailing(torch.nn.Module):
    def forward(self, *args):
        return failing(*args)


class CallsWithValues(torch.nn.Module):
    def forward(self, q, *args):
        return with_values(q, q, q, *args[1:])


class SameName(torch.nn.Module):
    def forward(self, *args):
        self.turning = 1
        return turning(*args)


def given(rng, dtype=torch.float64, table_dtype=torch.float64, heads=3, columns=16):
    q, k = (torch.from_numpy(rng.normal(size=(2, n, 5, 16))).to(dtype) for n in (heads, 1))
    cos, sin = (torch.from_numpy(one) for one in pf.Rotary(columns).tables(5, dtype="float64"))
    return q, k, cos.repeat(1, 2)[None].to(table_dtype), sin.repeat(1, 2)[None].to(table_dtype)


@pytest.mark.parametrize("cls", [Calls, CallsKernel, CallsDecorated, CallsStatic, CallsThrough])
def test_ways_to_call(cls, turned, rng):
    module, call = cls(), given(rng)
    before = module(*call)
    with ours.accelerate(module) as report:
        after = module(*call)
        assert turned == [True]
    assert len(report.replaced) == 1
    for mine, theirs in zip(after, before, strict=True):
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-14)
    module(*call)
    assert turned == [True]


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (CallsStretching, "does not turn pairs"),
        (CallsMirroring, "does not turn pairs"),
        (CallsFailing, "does not turn pairs"),
        (CallsWithValues, "it also takes v"),
    ],
)
def test_what_is_left(cls, why, turned, rng):
    module = cls()
    report = ours.accelerate(module)
    assert [why in line.why for line in report.left if line.function != "turning"] == [True]
    if cls is not CallsWithValues:
        assert type(module) is cls
        assert not report.replaced


def test_a_name_that_is_an_attribute_too(turned, rng):
    module = SameName()
    ours.accelerate(module)
    module(*given(rng))
    assert module.turning == 1


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda q, k, cos, sin: (q, k, cos * torch.linspace(0, 1, 16), sin), {}),
        (lambda q, k, cos, sin: (q, k, cos.requires_grad_(), sin), {}),
        (lambda q, k, cos, sin: (q, k.float(), cos, sin), {}),
        (lambda q, k, cos, sin: (q, k, cos[:, :1], sin[:, :1]), {}),
        (lambda q, k, cos, sin: (q[:, :, :1], k, cos[:, :1].expand(1, 5, 16), sin), {}),
        (lambda q, k, cos, sin: (q, k, cos[0, 0], sin[0, 0]), {"unsqueeze_dim": 0}),
        (lambda q, k, cos, sin: (q.to("meta"), k.to("meta"), cos.to("meta"), sin.to("meta")), {}),
        (lambda q, k, cos, sin: (q, k, cos, sin), {"unsqueeze_dim": torch.tensor(1)}),
        (lambda q, k, cos, sin: (torch.nn.Parameter(q), k, cos, sin), {}),
    ],
    ids=["unlike-halves", "learned", "two-types", "one-row", "lengths", "one-axis", "meta", "tensor-axis", "parameter"],
)
def test_what_was_not_tried_is_theirs(change, options, turned, rng):
    module, call = Calls(), change(*given(rng))
    expected = turning(*call, **options)
    ours.accelerate(module)
    got = module(*call, **options)
    assert turned == [False]
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.device.type == "meta" or torch.equal(mine, theirs)


@pytest.mark.parametrize(("name", "heads"), [("llama", 1), ("glm", 1), ("gpt_oss", 1), ("gemma3n", 2), ("cohere", 1)])
def test_results_lie_in_memory_as_theirs_do(name, heads, rng):
    """What comes after may count on that."""
    theirs = optional(f"transformers.models.{name}.modeling_{name}").apply_rotary_pos_emb
    what = functions.rotation_of(theirs)
    mine = functions.replacement(theirs, what)
    for width in (16, 24) if what.part else (16,):
        x = torch.from_numpy(rng.normal(size=(2, 5, 3, width)))
        for q in (x, x.transpose(1, 2)):
            length = q.shape[3 - heads]
            cos, sin = (torch.from_numpy(one)[None] for one in pf.Rotary(16).tables(length, dtype="float64"))
            if what.tables != "pairs":
                cos, sin = (
                    one.repeat_interleave(2, -1) if what.tables == "interleaved" else one.repeat(1, 1, 2)
                    for one in (cos, sin)
                )
            parts = [q] * len(what.arguments.turned)
            got, expected = mine(*parts, cos, sin, heads), theirs(*parts, cos, sin, heads)
            if len(parts) == 1:
                got, expected = (got,), (expected,)
            for one, other in zip(got, expected, strict=True):
                assert one.is_contiguous() == other.is_contiguous()


def as_taken(what, cos, sin):
    """Tables of a column for each pair as a function takes them."""
    if what.tables == "complex":
        return (torch.complex(cos, sin),)
    if what.tables == "pairs":
        return cos, sin
    return [one.repeat_interleave(2, -1) if what.tables == "interleaved" else one.repeat(1, 1, 2) for one in (cos, sin)]


@pytest.mark.skipif(not pf.isa_levels(), reason="the kernel is not built")
@pytest.mark.parametrize("inference", [False, True], ids=["no-grad", "inference-mode"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["llama", "gpt_neox", "cohere", "glm", "gpt_oss", "nanochat", "deepseek_v2"])
def test_few_tokens_take_the_short_way(name, dtype, inference, monkeypatch, rng):
    """Which gives the same bits, for tables that change where they are as well."""
    optional("ml_dtypes")
    module = optional(f"transformers.models.{name}.modeling_{name}")
    theirs = module.apply_rotary_emb if name == "deepseek_v2" else module.apply_rotary_pos_emb
    what, kind, short = functions.rotation_of(theirs), getattr(torch, dtype), []
    mine, few = functions.replacement(theirs, what), functions._few
    monkeypatch.setattr(functions, "_few", lambda *given: short.append(few(*given)) or short[-1])
    complex_types = {torch.float64: torch.float64, torch.float32: torch.float32}
    table_kind = complex_types.get(kind, torch.float32) if what.tables == "complex" else kind
    with pf.use_backend("cython"), torch.inference_mode() if inference else torch.no_grad():
        for batch, length, start in ((1, 1, 70), (2, 1, 5), (2, 3, 0)):
            q, k = (torch.from_numpy(rng.normal(size=(batch, length, n, 16))).to(kind).transpose(1, 2) for n in (4, 2))
            columns = (
                torch.from_numpy(one)[None] for one in pf.Rotary(16).tables(length, start=start, dtype="float64")
            )
            tables = as_taken(what, *(one.to(table_kind) for one in columns))
            for _ in range(2):
                got = mine(q, k, *tables)
                assert short.pop() is not None or (name == "deepseek_v2" and dtype in ("float16", "bfloat16"))
                with monkeypatch.context() as patch:
                    patch.setattr(functions, "_few", lambda *_: None)
                    expected = mine(q, k, *tables)
                for one, other in zip(got, expected, strict=True):
                    assert one.is_contiguous() == other.is_contiguous()
                    assert torch.equal(one, other)
                for table in tables:
                    table.mul_(-1)


def written_to(q, k, cos, sin):
    turned = turning(q, k, cos, sin)
    q.copy_(turned[0])
    return turned


class CallsWrittenTo(torch.nn.Module):
    def forward(self, *args):
        return written_to(*args)


def test_what_writes_into_queries_is_left():
    report = ours.accelerate(CallsWrittenTo())
    assert [line.function for line in report.left] == ["written_to"]


@pytest.mark.parametrize("call", [{}, {"position_ids": None}], ids=["too-few", "unknown"])
def test_errors_are_theirs(call):
    module = Calls()
    ours.accelerate(module)
    with pytest.raises(TypeError, match=r"turning\(\)"):
        module(1, **call)


def test_types_that_come_out(turned, rng):
    optional("ml_dtypes")
    module = Calls()
    ours.accelerate(module)
    types = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    for dtype in types:
        for table_dtype in types:
            call = given(rng, dtype, table_dtype)
            for mine, theirs in zip(module(*call), turning(*call), strict=True):
                assert mine.dtype == theirs.dtype
                allowed = 8 * torch.finfo(mine.dtype).eps
                assert torch.allclose(mine.double(), theirs.double(), rtol=allowed, atol=allowed)
    assert all(turned)


def test_transforms_and_forward_mode(turned, rng):
    module = Calls()
    ours.accelerate(module)
    q, k, cos, sin = given(rng)
    each = torch.func.vmap(lambda q, k: module(q[None], k[None], cos, sin)[0])(q, k)
    assert torch.allclose(each[:, 0], turning(q, k, cos, sin)[0])
    torch.func.grad(lambda q: module(q, k, cos, sin)[0].sum())(q)
    torch.func.jvp(lambda q: module(q, k, cos, sin)[0], (q,), (q,))
    assert not any(turned)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, q)
        tangent = torch.autograd.forward_ad.unpack_dual(module(dual, k, cos, sin)[0]).tangent
    assert torch.allclose(tangent, turning(q, k, cos, sin)[0])
    assert not any(turned)


def test_gradients(turned, rng):
    module = Calls()
    ours.accelerate(module)
    q, k, cos, sin = given(rng, heads=1)
    token = q[:1, :, :1].clone().requires_grad_(), k[:1, :, :1].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k: module(q, k, cos[:, :1], sin[:, :1]), token)
    assert all(turned)


def test_only_modules():
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not dict"):
        ours.accelerate({})
