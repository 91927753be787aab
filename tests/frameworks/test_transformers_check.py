"""Test `check` for loaded models: it finds no fault in models of any causal class, and names each planted fault."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import types

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional

torch = optional("torch")
transformers = optional("transformers")
models = optional("support.tiny_models")
ours = optional("posenc_fast.transformers")
running = optional("posenc_fast.transformers._running")

HALVES = [torch.bfloat16, torch.float16]
# models with one axis and one kind of layers, in all layouts
LAYOUTS = ["llama", "cohere", "glm4", "helium", "deepseek_v2", "deepseek_v3", "phi3", "minimax_m2"]
# models whose config, with the tiny sizes of this test, cannot be read
NOT_READ = {"mimo_v2_flash", "minimax_m3_vl_text"}


def rotary_modules(model):
    return [module for module in model.modules() if running.is_rotary(module)]


def inverse_frequencies(model):
    return [buffer for module in rotary_modules(model) for name, buffer in module.named_buffers() if "inv_freq" in name]


def verdicts(report):
    return {finding.verdict for finding in report.findings}


def computed(report):
    """Return the findings about tables that modules compute, without those about stored tensors."""
    return [finding for finding in report.findings if finding.is_.startswith("computed")]


def faults(report):
    """Return two sets: faults of stored frequencies and tables, and faults of computed tables."""
    wrong = [finding for finding in report.findings if finding.verdict == "wrong"]
    of_tables = [finding for finding in computed(report) if finding.verdict == "wrong"]
    return {finding.fault for finding in wrong if finding not in of_tables}, {finding.fault for finding in of_tables}


def module_report(module, name="rotary_emb"):
    return ours.check(torch.nn.ModuleDict({name: module}))


# ---- no false alarm -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*models.ROTARY, *models.OTHERS])
def test_models_are_right(name):
    model = models.built(name)
    report = ours.check(model)
    assert report.ok is not False, str(report)
    if name in models.ROTARY:
        expected = {"unknown"} if name in NOT_READ else {"right"} if rotary_modules(model) else set()
        assert {finding.verdict for finding in computed(report)} == expected


def rotary_classes():
    """Yield (class, config class) of each rotary class of transformers whose parameter `config` is annotated."""
    for path in sorted(pathlib.Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
        name = f"transformers.models.{path.parent.name}"
        if "RotaryEmbedding" not in path.read_text("utf-8"):
            continue
        module = importlib.import_module(f"{name}.{path.stem}")
        for cls in vars(module).values():
            if not inspect.isclass(cls) or cls.__module__ != module.__name__ or "Rotary" not in cls.__name__:
                continue
            config = inspect.signature(cls).parameters.get("config")
            annotation = getattr(config, "annotation", None)
            config_class = vars(module).get(annotation) if isinstance(annotation, str) else annotation
            if inspect.isclass(config_class) and issubclass(config_class, transformers.PreTrainedConfig):
                yield cls, config_class


@pytest.mark.slow
def test_no_rotary_class_of_a_default_config_is_wrong():
    """`check` calls no rotary module of a default config wrong."""
    counts, wrong = {"right": 0, "unknown": 0}, []
    for cls, config_class in rotary_classes():
        try:
            module = cls(config_class())
        except Exception:  # noqa: BLE001, S112 - defaults of some configs do not make a model
            continue
        report = module_report(module)
        if report.ok is False:
            wrong.append(f"{cls.__name__}: {report}")
        else:
            counts["right" if {finding.verdict for finding in computed(report)} == {"right"} else "unknown"] += 1
    assert not wrong, "\n".join(wrong)
    assert counts["right"] > 150
    assert counts["unknown"] < 0.15 * counts["right"]


# ---- faults ---------------------------------------------------------------------------------------------------------


CHANGES = {
    # with this power, the base 1e4 becomes 1e5
    "base": lambda frequencies: frequencies**1.25,
    "scaling": lambda frequencies: frequencies / 4,
    "layout": lambda frequencies: frequencies.flip(0),
    "values": lambda frequencies: torch.cat((frequencies[:1] * 3, frequencies[1:])),
    "rounded": lambda frequencies: frequencies.to(torch.bfloat16).float(),
}


@pytest.mark.parametrize("fault", CHANGES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_frequencies_that_are_not_the_configs(name, fault):
    model = models.built(name)
    for buffer in inverse_frequencies(model):
        buffer.copy_(CHANGES[fault](buffer))
    report = ours.check(model)
    stored, of_tables = faults(report)
    assert stored == {fault}, str(report)
    # the tables that the module computes from these frequencies are wrong as well
    assert not report.ok
    assert of_tables, str(report)


LINEAR = {"rope_type": "linear", "factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512}
LENGTHS = {
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0 + i / 64 for i in range(32)],
        "long_factor": [1.0 + i / 8 for i in range(32)],
        "original_max_position_embeddings": 512,
        "factor": 4.0,
    },
}


def llama(rope=None, length=2048):
    """Return a tiny Llama and its rotary module. rope: its rotary parameters. length: its max_position_embeddings."""
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 64}
    parameters = {"rope_theta": 10000.0, **(rope or {"rope_type": "default"})}
    config = transformers.LlamaConfig(
        **sizes, max_position_embeddings=length, rope_parameters=parameters, vocab_size=99
    )
    model = transformers.LlamaForCausalLM(config)
    return model, rotary_modules(model)[0]


def attention_factor_twice(module):
    module.attention_scaling **= 2


@pytest.mark.parametrize(("rope", "length", "change", "stored", "of_tables", "word"), [
    (LINEAR, 2048, lambda module: module.inv_freq.div_(4), {"scaling"}, {"scaling"}, "twice"),
    (YARN, 4096, attention_factor_twice, set(), {"scaling"}, ""),
    # the dynamic scaling matters only beyond the trained length
    (LENGTHS["dynamic"], 8192, lambda module: vars(module).update(rope_type="default"), set(), {"scaling"}, ""),
    (None, 2048, lambda module: module.inv_freq.neg_(), {"layout"}, {"layout"}, ""),
    (None, 2048, lambda module: module.to(torch.bfloat16), {"rounded"}, {"rounded"}, "bfloat16"),
    (None, 2048, lambda module: module.to(torch.float16), {"rounded"}, {"rounded"}, "float16"),
    # NaN stands for frequencies that were never written
    (None, 2048, lambda module: module.inv_freq.fill_(np.nan), {"values"}, None, ""),
], ids=["scaling-twice", "attention-twice", "unscaled", "negative", "bfloat16", "float16", "nan"])  # fmt: skip
def test_changed_modules(rope, length, change, stored, of_tables, word):
    model, module = llama(rope, length)
    assert ours.check(model).ok
    change(module)
    report = ours.check(model)
    assert faults(report)[0] == stored, str(report)
    assert faults(report)[1] == of_tables if of_tables is not None else faults(report)[1], str(report)
    assert word in report.findings[0].says


def with_positions_in(dtype):
    def patched(self, x, position_ids):
        return type(self).forward(self, x, position_ids.to(dtype))

    return patched


def with_angles_in(dtype):
    def patched(self, x, position_ids):
        angles = (position_ids[..., None].float() * self.inv_freq).to(dtype).float()
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos() * self.attention_scaling, angles.sin() * self.attention_scaling

    return patched


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("patch", [with_positions_in, with_angles_in], ids=["positions", "angles"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_code_in_16_bits(name, patch, dtype):
    model = models.built(name)
    for module in rotary_modules(model):
        module.forward = types.MethodType(patch(dtype), module)
    report = ours.check(model)
    assert faults(report) == (set(), {"rounded"}), str(report)
    (finding,) = [finding for finding in report.findings if finding.verdict == "wrong"]
    assert str(dtype).removeprefix("torch.") in finding.says
    assert ("positions" if patch is with_positions_in else "angles") in finding.says
    if patch is with_positions_in:
        # the first of the checked positions that the dtype cannot represent
        assert finding.first_position == (257 if dtype is torch.bfloat16 else 2049)
        assert finding.largest_error > 0.8


def test_sinusoids_in_16_bits():
    """`check` finds that Pegasus-X computes frequencies, positions and angles in the model's dtype, bfloat16."""
    pegasus = importlib.import_module("transformers.models.pegasus_x.modeling_pegasus_x")
    model = torch.nn.ModuleDict({"embed_positions": pegasus.PegasusXSinusoidalPositionalEmbedding(64)})
    assert [finding.verdict for finding in ours.check(model).findings] == ["right"]
    model.dtype = torch.bfloat16
    assert set.union(*faults(ours.check(model))) == {"rounded"}


# ---- check does not change models -----------------------------------------------------------------------------------


def state_of(model):
    """Return all that `check` might change: for each module its mode, attributes, buffers and parameters."""
    return {
        name: (
            module.training,
            {key: value for key, value in vars(module).items() if not isinstance(value, (dict, torch.Tensor))},
            {key: (id(tensor), tensor.dtype, tensor.tolist()) for key, tensor in module.named_buffers(recurse=False)},
            {key: (id(tensor), tensor._version) for key, tensor in module.named_parameters(recurse=False)},
        )
        for name, module in model.named_modules()
    }


@pytest.mark.parametrize("rope_type", LENGTHS)
def test_nothing_changes_for_short_and_long_sequences(rope_type):
    """`check` finds no fault in frequencies that depend on the length of the model's last call, and changes nothing."""
    model = llama(LENGTHS[rope_type])[0].train()
    for length in (0, 1, 300, 3000):
        if length:
            with torch.no_grad():
                model(torch.zeros(1, length, dtype=torch.int64))
        before, random = state_of(model), torch.get_rng_state()
        report = ours.check(model)
        assert report.ok is not False, str(report)
        assert len(computed(report)) == 2
        assert state_of(model) == before
        assert torch.equal(random, torch.get_rng_state())
        assert torch.is_grad_enabled()


def test_nothing_changes_where_a_module_fails():
    model, module = llama()
    model.train()

    def failing(self, x, position_ids):
        self.count = 1
        self.inv_freq.zero_()
        raise RuntimeError("no")

    module.forward = types.MethodType(failing, module)
    before = state_of(model)
    report = ours.check(model)
    assert state_of(model) == before
    assert verdicts(report) == {"right", "unknown"}


def test_faults_that_16_bits_hide():
    """`check` finds a slightly wrong buffer, although the tables computed from it are right in bfloat16."""
    model, module = llama()
    model.to(torch.bfloat16)
    model.model.rotary_emb = module = type(module)(model.config)
    assert ours.check(model).ok
    module.inv_freq[-1] *= 1.001
    report = ours.check(model)
    assert faults(report) == ({"values"}, set()), str(report)
    # `check` sets the buffer to zero to see whether the tables depend on it, but a module may accept no zeros
    forward = type(module).forward

    def without_zeros(self, x, position_ids):
        assert self.inv_freq.any()
        return forward(self, x, position_ids)

    module.forward = types.MethodType(without_zeros, module)
    assert faults(ours.check(model)) == ({"values"}, set())


def test_buffers_that_nothing_reads():
    model, module = llama()
    right, forward = module.inv_freq.clone(), type(module).forward

    def with_right_frequencies(self, x, position_ids):
        self.inv_freq = right
        return forward(self, x, position_ids)

    module.forward = types.MethodType(with_right_frequencies, module)
    module.inv_freq = right.half().float()
    report = ours.check(model)
    assert report.ok, str(report)
    assert "do not depend on this buffer" in str(report)


# ---- unknown values -------------------------------------------------------------------------------------------------


def test_unknown_values():
    with torch.device("meta"):
        report = ours.check(llama()[0])
    assert verdicts(report) == {"unknown"}
    assert all("meta" in finding.says for finding in report.findings)
    # the tables that a rotary module without a config computes are unknown
    _, module = llama()
    del module.config
    module.rope_type = "default"
    report = module_report(module)
    assert report.ok
    assert [finding.verdict for finding in computed(report)] == ["unknown"]

    class RotaryOfPixels(torch.nn.Module):
        def forward(self, pixel_values):
            return pixel_values

    # a rotary module that needs the sizes of an image is unknown if the config has no sizes
    model = torch.nn.ModuleDict({"rotary_emb": RotaryOfPixels()})
    model.config = transformers.LlamaConfig(head_dim=64)
    (finding,) = ours.check(model).findings
    assert finding.verdict == "unknown"
    assert "returned no tables" in finding.says
    # learned positions are unknown
    report = module_report(torch.nn.Embedding(512, 64), "position_embeddings")
    assert [finding.verdict for finding in report.findings] == ["unknown"]
    assert report.ok
    # the frequencies of the model are right, but the config was made invalid afterwards
    model, _ = llama()
    model.config.rope_parameters = {"rope_type": "linear", "fctor": 4.0, "rope_theta": 10000.0}
    report = ours.check(model)
    assert report.ok is None, str(report)
    assert any("did you mean factor" in finding.says for finding in report.findings), str(report)


def test_arguments():
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not str"):
        ours.check("model")


# ---- ready tables ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gptj", "marian", "xglm", "roformer"])
def test_ready_tables(name):
    """`check` finds no fault in stored tables that were computed from float32 angles and then rounded to bfloat16."""
    model = models.built(name)
    assert {"right"} == verdicts(ours.check(model))
    values = dict([*model.named_buffers(), *model.named_parameters()])
    assert [key for key, tensor in values.items() if "embed_positions" in key and tensor.dim() == 2]
    report = ours.check(model.to(torch.bfloat16))
    assert verdicts(report) == {"right"}, str(report)


def test_patches_of_images():
    """`check` reads modules of image encoders. The first has a complex buffer for rows and columns of patches."""
    llama4 = importlib.import_module("transformers.models.llama4.modeling_llama4")
    module = llama4.Llama4VisionRotaryEmbedding(transformers.Llama4VisionConfig())
    report = module_report(module)
    assert report.ok
    assert [finding.verdict for finding in computed(report)] == ["right"]
    with torch.no_grad():
        module.freqs_ci.copy_(torch.view_as_complex(torch.view_as_real(module.freqs_ci).to(torch.bfloat16).float()))
    assert module_report(module).ok
    # this module gets the pixels, and computes positions from their number
    dinov3 = importlib.import_module("transformers.models.dinov3_vit.modeling_dinov3_vit")
    report = module_report(dinov3.DINOv3ViTRopePositionEmbedding(transformers.DINOv3ViTConfig()))
    assert [finding.verdict for finding in computed(report)] == ["right"]


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_modules_that_count_tokens(wrong):
    """`check` can run modules that receive hidden states or the number of tokens, but no position ids.

    wrong: whether the angles from position 4096 on are too large by 1. Modules run without autocast, which would compute
    this product in bfloat16.
    """

    def tables(count):
        angles = torch.arange(count).float()[:, None] @ torch.from_numpy(pf.Rotary(64).frequencies).float()[None]
        angles[4096:] += wrong
        return angles.cos(), angles.sin()

    class RotaryOfTokens(torch.nn.Module):
        def forward(self, hidden_states):
            return tables(hidden_states.shape[1])

    class RotaryOfLength(torch.nn.Module):
        def forward(self, x, seq_len):
            return tables(seq_len)

    for module in (RotaryOfTokens(), RotaryOfLength()):
        module.config = transformers.LlamaConfig(head_dim=64, max_position_embeddings=2048)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            (finding,) = module_report(module).findings
        assert finding.verdict == ("wrong" if wrong else "right"), (module, finding)
