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
from support.rotations import assert_rotated_alike

read = pf.Rotary.from_config
LENGTH = 40


@pytest.fixture
def torch():
    return optional("torch")


def alike(rotary, rng, rotate, positions=None):
    """Assert that a Rotary rotates queries like a program for tensors (batch, length, heads, head_dim)."""
    q = rng.standard_normal((1, 2, LENGTH, rotary.head_dim), np.float32)
    rotated = rotate(optional("torch").from_numpy(q).transpose(1, 2)).transpose(1, 2)
    assert_rotated_alike(rotary, np.arange(LENGTH) if positions is None else positions, q, rotated.numpy())


# ---- series and proteins ------------------------------------------------------------------------------------------------


def test_moirai(torch, rng):
    """`moirai` rotates the first half of each head, like Moirai's projection with partial_factor (0, 0.5)."""
    module = program("uni2ts", "uni2ts/module/position/attn_projection.py", "jaxtyping")
    theirs = module.QueryKeyProjection(128, 2, 1, module.RotaryProjection, partial_factor=(0.0, 0.5))
    time_id = rng.integers(0, 500, size=LENGTH)
    ids = torch.from_numpy(time_id)[None, None, None]

    def rotate(q):
        x = q.transpose(1, 2)[:, None]
        return theirs(x, x, ids, ids)[0][:, 0].transpose(1, 2)

    alike(pf.presets.moirai(), rng, rotate, time_id)


@pytest.mark.parametrize("file", ["timesfm/torch/transformer.py", "timesfm3/torch/transformer.py"], ids=["2.5", "3"])
def test_timesfm(file, rng):
    """Compare the Rotary of a TimesFM config with the programs of TimesFM 2.5 and 3."""
    module = program("timesfm", file)
    alike(read({"model_type": "timesfm2_5", "head_dim": 80}), rng, module.RotaryPositionalEmbedding(80))


def test_esmc(rng):
    """Compare the Rotary of an ESM C config (300 million parameters) with the original program."""
    theirs = program("esm", "esm/layers/rotary.py").RotaryEmbedding(64)
    config = {"model_type": "esmc", "hidden_size": 960, "num_attention_heads": 15}
    alike(read(config), rng, lambda q: theirs(q, q.clone())[0])


# ---- params.json --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "scaled"), [
    ({"vocab_size": 32000}, False),
    ({"rope_theta": 500000.0, "use_scaled_rope": False}, False),
    ({"rope_theta": 500000.0, "use_scaled_rope": True, "rope_scaling_factor": 8, "rope_high_freq_factor": 4}, True),
], ids=["Llama 2", "Llama 3", "Llama 3.1"])  # fmt: skip
def test_params_json_of_meta(config, scaled, rng):
    parallel = ("", ".nn", ".nn.model_parallel", ".nn.model_parallel.initialize", ".nn.model_parallel.layers")
    module = program("llama_models", "llama_models/llama3/model.py", *(f"fairscale{name}" for name in parallel))
    factors = module.precompute_freqs_cis(128, LENGTH, config.get("rope_theta", 10000.0), scaled)
    shape = {"dim": 512, "n_heads": 4, "n_layers": 2, "multiple_of": 256, "norm_eps": 1e-5, "vocab_size": 1000}
    alike(read({**shape, **config}), rng, lambda q: module.apply_rotary_emb(q, q, factors)[0])


@pytest.mark.parametrize("theta", [1e4, 1e6])
def test_params_json_of_mistral(theta, rng):
    module = program("mistral_inference", "mistral_inference/rope.py")
    factors = module.precompute_freqs_cis(128, LENGTH, theta)
    config = {"dim": 512, "head_dim": 128, "hidden_dim": 1024, "n_heads": 4, "n_layers": 2, "rope_theta": theta}
    alike(read(config), rng, lambda q: module.apply_rotary_emb(q[0], q[0], factors)[0][None])


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
def test_torchtune(family, rng, monkeypatch):
    arguments, theirs = torchtune_model(family, monkeypatch)
    alike(read({"_component_": f"torchtune.models.{family}.{TORCHTUNE[family][1]}", **arguments}), rng, theirs)


# ---- litgpt -------------------------------------------------------------------------------------------------------------


def test_litgpt(torch, rng):
    """The Rotary of each config of litgpt rotates like litgpt. If a config has two bases, test a layer of each base."""
    configs = program("litgpt", "litgpt/config.py")
    model = program("litgpt", "litgpt/model.py", "litgpt.scripts.convert_hf_checkpoint")
    assert len(configs.configs) > 100
    for values in configs.configs:
        config = configs.Config(**values)
        table, n = model.GPT.rope_cache(SimpleNamespace(config=config, max_seq_length=LENGTH)), config.rope_n_elem
        for layer in [None] if config.rope_indices is None else [config.rope_indices.index(kind) for kind in (0, 1)]:
            cos, sin = table if layer is None else (each[..., config.rope_indices[layer]] for each in table)

            def rotate(q, cos=cos[None], sin=sin[None], n=n):
                x = q.transpose(1, 2)
                return torch.cat([model.apply_rope(x[..., :n], cos, sin), x[..., n:]], -1).transpose(1, 2)

            rotary = read(dataclasses.asdict(config), layer=layer)
            alike(rotary, rng, rotate)
            assert read(vars(config), layer=layer) == rotary
