"""Checks of loaded models: every causal class is right as it is, and each fault that is planted is found and named."""

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
# rotary classes of one axis, all of whose layers are alike, of pairs in every order
TWENTY = [
    *("llama", "cohere", "glm4", "helium", "deepseek_v2", "deepseek_v3", "arcee", "qwen2", "qwen3_moe", "mistral"),
    *("mixtral", "olmo2", "phi3", "starcoder2", "gemma", "smollm3", "granite", "minimax_m2", "ernie4_5", "seed_oss"),
]
# a position encoding that the tiny model has no valid config for
NOT_READ = {"mimo_v2_flash", "minimax_m3_vl_text"}
# what computes its frequencies anew in each call, whatever its buffers have
WITHOUT_BUFFERS = {"phimoe"}


def rotary_modules(model):
    return [module for module in model.modules() if running.is_rotary(module)]


def inverse_frequencies(model):
    return [buffer for module in rotary_modules(model) for name, buffer in module.named_buffers() if "inv_freq" in name]


def verdicts(report):
    return {finding.verdict for finding in report.findings}


def faults(report, computed=None):
    """Faults of all findings; or of those alone that are computed, or are not."""
    return {
        finding.fault
        for finding in report.findings
        if finding.verdict == "wrong" and (computed is None or finding.is_.startswith("computed") == computed)
    }


# ---- no false alarm -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", models.ROTARY)
def test_rotary_models_are_right(name):
    model = models.built(name)
    report = ours.check(model)
    assert report.ok is not False, str(report)
    computed = {finding.verdict for finding in report.findings if finding.is_.startswith("computed")}
    assert computed == ({"unknown"} if name in NOT_READ else {"right"} if rotary_modules(model) else set())


@pytest.mark.parametrize("name", models.OTHERS)
def test_other_models_are_not_wrong(name):
    report = ours.check(models.built(name))
    assert report.ok is not False, str(report)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", models.ROTARY[::5])
def test_weights_in_16_bits_are_no_fault(name, dtype):
    """As ``from_pretrained(.., dtype=..)`` loads them: tables come out in 16 bits, of float32 frequencies."""
    model = models.built(name)
    kept = [buffer.clone() for buffer in inverse_frequencies(model)]
    model.to(dtype)
    for buffer, values in zip(inverse_frequencies(model), kept, strict=True):
        buffer.data = values
    report = ours.check(model)
    assert report.ok is not False, str(report)
    assert "right" in verdicts(report) or not kept or name in NOT_READ


def rotary_classes():
    """Yield the rotary classes of transformers with the configs that they are built from, as their annotations say."""
    for path in sorted(pathlib.Path(transformers.__file__).parent.glob("models/*/modeling_*.py")):
        name = f"transformers.models.{path.parent.name}"
        if "RotaryEmbedding" not in path.read_text("utf-8"):
            continue
        module = importlib.import_module(f"{name}.{path.stem}")
        for cls in vars(module).values():
            if not inspect.isclass(cls) or cls.__module__ != module.__name__ or "Rotary" not in cls.__name__:
                continue
            config = inspect.signature(cls).parameters.get("config")
            wanted = getattr(config, "annotation", None)
            wanted = vars(module).get(wanted) if isinstance(wanted, str) else wanted
            if inspect.isclass(wanted) and issubclass(wanted, transformers.PreTrainedConfig):
                yield cls, wanted


@pytest.mark.slow
def test_no_rotary_class_of_a_default_config_is_wrong():
    """With -s, how many there are of each verdict."""
    counts = {"right": 0, "unknown": 0, "wrong": 0}
    wrong = []
    for cls, config_class in rotary_classes():
        try:
            module = cls(config_class())
        except Exception:  # noqa: BLE001, S112 - defaults of some configs do not make a model
            continue
        report = ours.check(torch.nn.ModuleDict({"rotary_emb": module}))
        computed = {finding.verdict for finding in report.findings if finding.is_.startswith("computed")}
        counts["right" if computed == {"right"} else "unknown" if report.ok is not False else "wrong"] += 1
        wrong += [] if report.ok is not False else [f"{cls.__name__}: {report}"]
    print("\n", counts)
    assert not wrong, "\n".join(wrong)
    assert counts["right"] > 150
    assert counts["unknown"] < 0.15 * counts["right"]


# ---- faults in buffers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", models.ROTARY[::5])
def test_converted_models(name, dtype):
    """``.to(dtype)`` converts the frequencies with the weights."""
    model = models.built(name).to(dtype)
    report = ours.check(model)
    if not inverse_frequencies(model) or name in NOT_READ | WITHOUT_BUFFERS:
        assert report.ok is not False
    else:
        assert faults(report, computed=False) == faults(report, computed=True) == {"rounded"}, str(report)
        assert all(str(dtype).removeprefix("torch.") in finding.says for finding in report.findings), str(report)


def with_other_base(frequencies):
    # of a base of 1e4, one of 1e5
    return frequencies**1.25


def with_linear_scaling(frequencies):
    return frequencies / 4


def swapped(frequencies):
    return frequencies.flip(0)


def with_one_wrong(frequencies):
    return torch.cat((frequencies[:1] * 3, frequencies[1:]))


CHANGES = {
    "base": with_other_base,
    "scaling": with_linear_scaling,
    "layout": swapped,
    "values": with_one_wrong,
    "rounded": lambda frequencies: frequencies.to(torch.bfloat16).float(),
}


@pytest.mark.parametrize("fault", CHANGES)
@pytest.mark.parametrize("name", TWENTY)
def test_frequencies_that_are_not_the_configs(name, fault):
    model = models.built(name)
    for buffer in inverse_frequencies(model):
        buffer.copy_(CHANGES[fault](buffer))
    report = ours.check(model)
    assert faults(report, computed=False) == {fault}, str(report)
    # what the module computes of them is as wrong
    assert not report.ok
    assert faults(report, computed=True), str(report)


def llama(rope, **more):
    config = transformers.LlamaConfig(
        hidden_size=256,
        intermediate_size=64,
        vocab_size=99,
        num_hidden_layers=1,
        num_attention_heads=4,
        rope_parameters={"rope_theta": 10000.0, **rope},
        **more,
    )
    return transformers.LlamaForCausalLM(config)


def test_scaling_applied_twice():
    model = llama({"rope_type": "linear", "factor": 4.0})
    assert ours.check(model).ok
    for buffer in inverse_frequencies(model):
        buffer /= 4
    report = ours.check(model)
    assert faults(report, computed=False) == faults(report, computed=True) == {"scaling"}, str(report)
    assert "twice" in report.findings[0].says


def test_attention_factor_applied_twice():
    rope = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512}
    model = llama(rope, max_position_embeddings=4096)
    assert ours.check(model).ok
    (module,) = rotary_modules(model)
    module.attention_scaling **= 2
    report = ours.check(model)
    assert faults(report, computed=False) == set()
    assert faults(report, computed=True) == {"scaling"}, str(report)


# ---- faults in code -------------------------------------------------------------------------------------------------


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
@pytest.mark.parametrize("name", TWENTY)
def test_code_in_16_bits(name, patch, dtype):
    model = models.built(name)
    for module in rotary_modules(model):
        module.forward = types.MethodType(patch(dtype), module)
    report = ours.check(model)
    assert faults(report, computed=False) == set(), str(report)
    assert faults(report, computed=True) == {"rounded"}, str(report)
    words = " ".join(finding.says for finding in report.findings if finding.verdict == "wrong")
    assert str(dtype).removeprefix("torch.") in words
    assert ("positions" if patch is with_positions_in else "angles") in words


def test_positions_in_bfloat16_are_wrong_from_257_on():
    model = llama({"rope_type": "default"})
    (module,) = rotary_modules(model)
    module.forward = types.MethodType(with_positions_in(torch.bfloat16), module)
    (finding,) = [finding for finding in ours.check(model).findings if finding.verdict == "wrong"]
    assert finding.first_position == 257
    assert finding.largest_error > 0.8


def test_sinusoids_in_16_bits():
    """Pegasus-X computes frequencies, positions and angles in the type of the model."""
    cls = importlib.import_module(
        "transformers.models.pegasus_x.modeling_pegasus_x"
    ).PegasusXSinusoidalPositionalEmbedding
    model = torch.nn.ModuleDict({"embed_positions": cls(64)})
    assert [finding.verdict for finding in ours.check(model).findings] == ["right"]
    model.dtype = torch.bfloat16
    assert faults(ours.check(model)) == {"rounded"}


# ---- lengths --------------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("rope_type", LENGTHS)
def test_short_and_long_sequences(rope_type):
    """Frequencies that depend on the length are right at each, whatever was run before."""
    model = llama(LENGTHS[rope_type], max_position_embeddings=2048)
    for length in (1, 300, 3000):
        with torch.no_grad():
            model(torch.zeros(1, length, dtype=torch.int64))
        report = ours.check(model)
        assert report.ok is not False, str(report)
        assert len([finding for finding in report.findings if finding.is_.startswith("computed")]) == 2


# ---- nothing changes ------------------------------------------------------------------------------------------------


def state_of(model):
    """All that a check could change: modes, attributes, and the buffers and parameters themselves and their values."""
    return {
        name: (
            module.training,
            {key: value for key, value in vars(module).items() if not isinstance(value, (dict, torch.Tensor))},
            {key: (id(tensor), tensor.dtype, tensor.clone()) for key, tensor in module.named_buffers(recurse=False)},
            {key: (id(tensor), tensor._version) for key, tensor in module.named_parameters(recurse=False)},
        )
        for name, module in model.named_modules()
    }


def assert_same(before, after):
    assert before.keys() == after.keys()
    for name, (training, attributes, buffers, parameters) in before.items():
        now = after[name]
        assert (training, attributes, parameters) == (now[0], now[1], now[3]), name
        assert buffers.keys() == now[2].keys()
        for key, (identity, dtype, values) in buffers.items():
            assert (identity, dtype) == now[2][key][:2], (name, key)
            assert torch.equal(values, now[2][key][2]), (name, key)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("rope_type", LENGTHS)
def test_nothing_changes(rope_type, training):
    model = llama(LENGTHS[rope_type], max_position_embeddings=2048).train(training)
    before, weights = state_of(model), {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    ours.check(model)
    assert_same(before, state_of(model))
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    assert torch.is_grad_enabled()


def test_nothing_changes_where_a_module_fails():
    model = llama({"rope_type": "default"}).train()
    (module,) = rotary_modules(model)

    def failing(self, x, position_ids):
        self.count = 1
        self.inv_freq.zero_()
        raise RuntimeError("no")

    module.forward = types.MethodType(failing, module)
    before = state_of(model)
    report = ours.check(model)
    assert_same(before, state_of(model))
    assert verdicts(report) == {"right", "unknown"}


# ---- frequencies that are none, and that turn the other way --------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_frequencies_that_were_never_written(value):
    model = llama({"rope_type": "default"})
    rotary_modules(model)[0].inv_freq.fill_(value)
    report = ours.check(model)
    assert faults(report, computed=False) == {"values"}, str(report)
    assert faults(report, computed=True), str(report)


def test_frequencies_that_turn_backwards():
    model = llama({"rope_type": "default"})
    rotary_modules(model)[0].inv_freq.neg_()
    report = ours.check(model)
    assert faults(report, computed=False) == faults(report, computed=True) == {"layout"}, str(report)


def test_faults_that_16_bits_hide():
    """The tables are as they were, rounded to bfloat16, and change with the buffer all the same."""
    model = llama({"rope_type": "default"}).to(torch.bfloat16)
    module = rotary_modules(model)[0]
    model.model.rotary_emb = module = type(module)(model.config)
    assert ours.check(model).ok
    module.inv_freq[-1] *= 1.001
    report = ours.check(model)
    assert faults(report, computed=False) == {"values"}, str(report)
    assert faults(report, computed=True) == set(), str(report)


def test_buffers_that_nothing_reads():
    model = llama({"rope_type": "default"})
    module = rotary_modules(model)[0]
    kept, forward = module.inv_freq.clone(), type(module).forward

    def anew(self, x, position_ids):
        self.inv_freq = kept
        return forward(self, x, position_ids)

    module.forward = types.MethodType(anew, module)
    module.inv_freq = kept.half().float()
    report = ours.check(model)
    assert report.ok, str(report)
    assert "does not change with them" in str(report)


# ---- what cannot be known -------------------------------------------------------------------------------------------


def test_no_values_on_the_device_meta():
    with torch.device("meta"):
        report = ours.check(llama({"rope_type": "default"}))
    assert verdicts(report) == {"unknown"}
    assert all("meta" in finding.says for finding in report.findings)


def test_modules_without_a_config_are_unknown():
    module = rotary_modules(llama({"rope_type": "default"}))[0]
    del module.config
    module.rope_type = "default"
    report = ours.check(torch.nn.ModuleDict({"rotary_emb": module}))
    assert report.ok
    (finding,) = [finding for finding in report.findings if finding.is_.startswith("computed")]
    assert finding.verdict == "unknown"


# ---- ready tables ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gptj", "marian", "xglm", "roformer"])
def test_ready_tables(name):
    """Those that a model reads are right in 16 bits, of float32 angles; and wrong where their positions were rounded."""
    model = models.built(name)
    assert {"right"} == verdicts(ours.check(model))
    tables = [
        tensor
        for key, tensor in (*model.named_buffers(), *model.named_parameters())
        if "embed_positions" in key and tensor.dim() == 2
    ]
    assert tables
    model.to(torch.bfloat16)
    report = ours.check(model)
    assert verdicts(report) == {"right"}, str(report)


def test_a_table_of_rounded_positions():
    positions = torch.arange(512, dtype=torch.bfloat16).double().numpy()
    model = torch.nn.Module()
    model.register_buffer("pe", torch.from_numpy(pf.sinusoidal(64).encode(positions)))
    (finding,) = ours.check(model).findings
    assert (finding.verdict, finding.fault, finding.first_position) == ("wrong", "rounded", 257)
    assert "positions" in finding.says


def test_learned_positions_are_unknown():
    model = torch.nn.ModuleDict({"position_embeddings": torch.nn.Embedding(512, 64)})
    (finding,) = ours.check(model).findings
    assert finding.verdict == "unknown"
    assert ours.check(model).ok


@pytest.mark.parametrize(
    "key", ["max_position_embeddings", "n_positions", "max_seq_len", "model_max_length", "seq_length"]
)
def test_every_key_of_the_longest_position(key):
    longest = importlib.import_module("posenc_fast.transformers._check")._longest
    assert longest(types.SimpleNamespace(**{key: 777})) == 776


def test_patches_of_images():
    """A table of complex numbers in a buffer, of rows and columns."""
    llama4 = importlib.import_module("transformers.models.llama4.modeling_llama4")
    module = llama4.Llama4VisionRotaryEmbedding(transformers.Llama4VisionConfig())
    report = ours.check(torch.nn.ModuleDict({"rotary_emb": module}))
    assert report.ok
    assert [finding.verdict for finding in report.findings if finding.is_.startswith("computed")] == ["right"]
    with torch.no_grad():
        module.freqs_ci.copy_(torch.view_as_complex(torch.view_as_real(module.freqs_ci).to(torch.bfloat16).float()))
    assert ours.check(torch.nn.ModuleDict({"rotary_emb": module})).ok


def test_names_that_only_look_like_rotary():
    class SolarOpen(torch.nn.Module):
        def forward(self, x, position_ids):
            return x

    assert not running.is_rotary(SolarOpen())


def test_what_is_no_model():
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not str"):
        ours.check("model")


def test_right_values_are_not_presets_alone():
    """A rotary module is held against its own config: the frequencies of another base are those of some model, too."""
    model = llama({"rope_type": "default"})
    for buffer in inverse_frequencies(model):
        buffer.copy_(torch.from_numpy(pf.Rotary(64, base=500000.0).frequencies))
    report = ours.check(model)
    assert faults(report) == {"base"}, str(report)
    assert "500000" in report.findings[0].says or "5e+05" in report.findings[0].says


def test_a_config_that_cannot_be_read():
    """The frequencies of the model are those that it began with, but the config no longer says so."""
    model = llama({"rope_type": "default"})
    assert ours.check(model).ok
    model.config.rope_parameters = {"rope_type": "linear", "fctor": 4.0, "rope_theta": 10000.0}
    report = ours.check(model)
    assert report.ok is None, str(report)
    assert any("is factor meant" in finding.says for finding in report.findings), str(report)
