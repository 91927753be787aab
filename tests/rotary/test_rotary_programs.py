"""Compare rotary presets and configs with the original programs, which are unchanged files of other packages."""

from __future__ import annotations

import dataclasses
import inspect
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.programs import program

read = pf.Rotary.from_config
LENGTH = 40


def assert_rotated_alike(rotary, q, theirs, positions=None, name=""):
    """Assert that a Rotary rotates q to `theirs`, up to the errors of float32 frequencies and angles."""
    positions = np.arange(q.shape[-2]) if positions is None else positions
    ours = rotary.apply(q, positions=positions)
    theirs = np.asarray(theirs)
    np.testing.assert_array_equal(ours[..., rotary.rotary_dim :], theirs[..., rotary.rotary_dim :], name)
    bound = 2.0**-22 + 2.0**-23 * positions.max()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=bound * np.abs(q).max(), err_msg=name)


@pytest.fixture
def torch():
    return optional("torch")


def queries(rng, head_dim, length=LENGTH):
    return rng.standard_normal((1, 2, length, head_dim), np.float32)


# ---- series and proteins ------------------------------------------------------------------------------------------------


def test_moirai(torch, rng):
    """`moirai` rotates the first half of each head, like Moirai's projection with partial_factor (0, 0.5)."""
    module = program("uni2ts", "uni2ts/module/position/attn_projection.py", "jaxtyping")
    half = {"partial_factor": (0.0, 0.5)}
    theirs = module.QueryKeyProjection(128, 2, 1, module.RotaryProjection, **half)
    q, time_id = queries(rng, 64), rng.integers(0, 500, size=LENGTH)
    x = torch.from_numpy(q)[:, None]
    ids = torch.from_numpy(time_id)[None, None, None]
    rotated, _ = theirs(x, x, ids, ids)
    assert_rotated_alike(pf.presets.moirai(), q, rotated[:, 0], time_id)


@pytest.mark.parametrize("file", ["timesfm/torch/transformer.py", "timesfm3/torch/transformer.py"], ids=["2.5", "3"])
def test_timesfm(file, torch, rng):
    """Compare the Rotary of a TimesFM config with the programs of TimesFM 2.5 and 3."""
    module = program("timesfm", file)
    q = queries(rng, 80)
    rotated = module.RotaryPositionalEmbedding(80)(torch.from_numpy(q).transpose(1, 2)).transpose(1, 2)
    assert_rotated_alike(read({"model_type": "timesfm2_5", "head_dim": 80}), q, rotated)


def test_esmc(torch, rng):
    """Compare the Rotary of an ESM C config (300 million parameters) with the original program."""
    theirs = program("esm", "esm/layers/rotary.py").RotaryEmbedding(64)
    q = queries(rng, 64)
    x = torch.from_numpy(q).transpose(1, 2)
    rotated, _ = theirs(x, x.clone())
    config = {"model_type": "esmc", "hidden_size": 960, "num_attention_heads": 15}
    assert_rotated_alike(read(config), q, rotated.transpose(1, 2))


# ---- params.json --------------------------------------------------------------------------------------------------------

LLAMA = {"dim": 512, "n_heads": 4, "n_layers": 2, "multiple_of": 256, "norm_eps": 1e-5, "vocab_size": 1000}


@pytest.mark.parametrize(("config", "scaled"), [
    ({"vocab_size": 32000}, False),
    ({"rope_theta": 500000.0, "use_scaled_rope": False}, False),
    ({"rope_theta": 500000.0, "use_scaled_rope": True, "rope_scaling_factor": 8, "rope_high_freq_factor": 4}, True),
], ids=["Llama 2", "Llama 3", "Llama 3.1"])  # fmt: skip
def test_params_json_of_meta(config, scaled, torch, rng):
    parallel = ("", ".nn", ".nn.model_parallel", ".nn.model_parallel.initialize", ".nn.model_parallel.layers")
    module = program("llama_models", "llama_models/llama3/model.py", *(f"fairscale{name}" for name in parallel))
    q = queries(rng, 128)
    factors = module.precompute_freqs_cis(128, LENGTH, config.get("rope_theta", 10000.0), scaled)
    x = torch.from_numpy(q).transpose(1, 2)
    rotated, _ = module.apply_rotary_emb(x, x, factors)
    assert_rotated_alike(read({**LLAMA, **config}), q, rotated.transpose(1, 2))


@pytest.mark.parametrize("theta", [1e4, 1e6])
def test_params_json_of_mistral(theta, torch, rng):
    module = program("mistral_inference", "mistral_inference/rope.py")
    q = queries(rng, 128)
    x = torch.from_numpy(q)[0].transpose(0, 1)
    rotated, _ = module.apply_rotary_emb(x, x, module.precompute_freqs_cis(128, LENGTH, theta))
    config = {"dim": 512, "head_dim": 128, "hidden_dim": 1024, "n_heads": 4, "n_layers": 2, "rope_theta": theta}
    assert_rotated_alike(read(config), q, rotated.transpose(0, 1)[None])


# ---- torchtune ----------------------------------------------------------------------------------------------------------

# keys: families. Values: (a published model, the family that contains its parts).
TORCHTUNE = {
    "llama2": ("llama2_7b", "llama2"),
    "code_llama2": ("code_llama2_7b", "llama2"),
    "llama3": ("llama3_8b", "llama3"),
    "llama3_1": ("llama3_1_8b", "llama3_1"),
    "llama3_2": ("llama3_2_1b", "llama3_2"),
    # torchtune builds models of Llama 3.3 by the functions of Llama 3.1
    "llama3_3": ("llama3_1_70b", "llama3_1"),
    "mistral": ("mistral_7b", "mistral"),
    "gemma": ("gemma_2b", "gemma"),
    "gemma2": ("gemma2_2b", "gemma2"),
    "qwen2": ("qwen2_7b", "qwen2"),
    "qwen2_5": ("qwen2_5_7b_base", "qwen2"),
    "phi3": ("phi3_mini", "phi3"),
    "phi4": ("phi4_14b", "phi3"),
}
MODULES = ("", ".attention", ".common_utils", ".low_precision", ".model_fusion", ".peft", ".tied_linear", ".tokenizers",
           ".transforms", ".transforms.tokenizers")  # fmt: skip
PARTS = ("FeedForward", "RMSNorm", "TransformerDecoder", "TransformerSelfAttentionLayer", "nn", "torch")


def torchtune_model(family, monkeypatch):
    """Return the arguments of a published model of torchtune, including defaults, and its rotary module."""
    name, parts = TORCHTUNE[family]
    root = "torchtune/models"
    builders = f"torchtune.models.{parts}._component_builders"
    unused = (
        "torchtune.data", "torchtune.data._prompt_templates",
        *(f"torchtune.modules{module}" for module in MODULES),
        *(f"torchtune.models.{each}._tokenizer" for each in TORCHTUNE),
    )  # fmt: skip
    source = parts if family == "llama3_3" else family
    models = program("torchtune", f"{root}/{source}/_model_builders.py", builders, f"torchtune.models.{parts}", *unused)
    builder = mock.MagicMock()
    monkeypatch.setattr(models, parts, builder)
    getattr(models, name)()
    rope = program("torchtune", "torchtune/modules/position_embeddings.py")
    components = program("torchtune", f"{root}/{parts}/_component_builders.py", *unused)
    for part in PARTS:
        monkeypatch.setattr(components, part, mock.MagicMock(), raising=False)
    attention = mock.MagicMock()
    for kind in ("MultiHeadAttention", "Gemma2Attention"):
        monkeypatch.setattr(components, kind, attention, raising=False)
    monkeypatch.setattr(components, "RotaryPositionalEmbeddings", rope.RotaryPositionalEmbeddings, raising=False)
    build = getattr(components, parts)
    arguments = inspect.signature(build).bind(**builder.call_args.kwargs)
    arguments.apply_defaults()
    build(**{**arguments.arguments, "num_layers": 1, "vocab_size": 1, "max_seq_len": LENGTH})
    return arguments.arguments, attention.call_args.kwargs["pos_embeddings"]


@pytest.mark.parametrize("family", TORCHTUNE)
def test_torchtune(family, torch, rng, monkeypatch):
    arguments, theirs = torchtune_model(family, monkeypatch)
    rotary = read({"_component_": f"torchtune.models.{family}.{TORCHTUNE[family][1]}", **arguments})
    q = queries(rng, rotary.head_dim)
    assert_rotated_alike(rotary, q, theirs(torch.from_numpy(q).transpose(1, 2)).transpose(1, 2))


# ---- litgpt -------------------------------------------------------------------------------------------------------------


def test_litgpt(torch, rng):
    """The Rotary of each config of litgpt rotates like litgpt. If a config has two bases, test a layer of each base."""
    configs = program("litgpt", "litgpt/config.py")
    model = program("litgpt", "litgpt/model.py", "litgpt.scripts.convert_hf_checkpoint")
    assert len(configs.configs) > 100
    for values in configs.configs:
        config = configs.Config(**values)
        table = model.GPT.rope_cache(SimpleNamespace(config=config, max_seq_length=LENGTH))
        q = queries(rng, config.head_size)
        x, n = torch.from_numpy(q), config.rope_n_elem
        for layer in [None] if config.rope_indices is None else [config.rope_indices.index(kind) for kind in (0, 1)]:
            cos, sin = table if layer is None else (each[..., config.rope_indices[layer]] for each in table)
            rotated = torch.cat([model.apply_rope(x[..., :n], cos[None], sin[None]), x[..., n:]], -1)
            assert_rotated_alike(read(dataclasses.asdict(config), layer=layer), q, rotated, name=config.name)
            assert read(vars(config), layer=layer) == read(dataclasses.asdict(config), layer=layer)
