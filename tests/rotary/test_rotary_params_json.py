"""Test `Rotary.from_config` with params.json and with configs of torchtune and litgpt: formats, results and errors."""

from __future__ import annotations

import contextlib
import json
import math

import numpy as np
import pytest

import posenc_fast as pf
from support.command_line import run

read = pf.Rotary.from_config

# contents of published files: Llama 2 7B, Llama 3.1 8B, Llama 4, Mistral 7B 0.3 and others
# fmt: off
LLAMA2 = {"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-5, "vocab_size": -1}
LLAMA31 = {**LLAMA2, "n_kv_heads": 8, "vocab_size": 128256, "ffn_dim_multiplier": 1.3, "multiple_of": 1024,
           "rope_theta": 500000.0, "use_scaled_rope": True}
LLAMA32 = {**LLAMA31, "dim": 2048, "n_layers": 16, "ffn_dim_multiplier": 1.5, "multiple_of": 256}
LLAMA4 = {"dim": 5120, "n_layers": 48, "n_heads": 40, "rope_theta": 500000.0, "vocab_size": 202048,
          "nope_layer_interval": 4, "use_scaled_rope": False, "moe_args": {"num_experts": 16}}
MISTRAL = {"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8,
           "norm_eps": 1e-5, "vocab_size": 32768, "rope_theta": 1000000.0}
NEMO = {**MISTRAL, "dim": 5120, "n_layers": 40, "max_seq_len": 128000, "model_type": "transformer"}
YARN = {"original_max_position_embeddings": 16384, "factor": 16, "apply_scale": False, "beta": 32, "alpha": 1}
SMALL = {**MISTRAL, "dim": 3072, "n_layers": 26, "yarn": YARN, "llama_4_scaling": {"beta": 0.1}}
LATENT = {**MISTRAL, "head_dim": None, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
TUNE = {"num_heads": 32, "embed_dim": 4096, "num_layers": 32, "rope_base": 500000}
LIT = {"name": "Llama-3.1-8B", "n_embd": 4096, "n_head": 32, "head_size": 128, "n_layer": 32, "rotary_percentage": 1.0,
       "rope_base": 500000, "rope_condense_ratio": 1, "rope_interleave": False, "rope_local_base_freq": None,
       "rope_indices": None, "latent_attention": None, "rope_adjustments": {
           "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_seq_len": 8192}}
GEMMA = {**LIT, "n_head": 8, "head_size": 256, "rope_base": 1000000, "rope_adjustments": {"factor": 8.0},
         "rope_local_base_freq": 10000, "rope_indices": [1, 1, 1, 1, 1, 0]}
PYTHIA = {**LIT, "n_embd": 512, "n_head": 8, "head_size": 64, "rotary_percentage": 0.25, "rope_base": 10000,
          "rope_adjustments": None}
# fmt: on


def original(*arguments, **options):
    return pf.Rotary(*arguments, layout="interleaved", **options)


RIGHT = {
    "Llama 2": (LLAMA2, {}, original(128)),
    "Llama 3.1": (LLAMA31, {}, original(128, base=5e5, scaling={**LLAMA3, "factor": 8.0})),
    "Llama 3.2": (LLAMA32, {}, original(64, base=5e5, scaling={**LLAMA3, "factor": 32.0})),
    "factors": ({**LLAMA31, "dim": 512, "rope_scaling_factor": 16, "rope_high_freq_factor": 2}, {}, original(16, base=5e5, scaling={**LLAMA3, "factor": 16.0, "high_freq_factor": 2.0})),
    "Llama 4, layer 2": (LLAMA4, {"layer": 2}, original(128, base=5e5)),
    "Llama 4, layer 3": (LLAMA4, {"layer": 3}, None),
    "a window": ({**MISTRAL, "sliding_window": [4096, None], "rope_theta": 1e4}, {"layer": 1}, original(128)),
    "Mistral Nemo": (NEMO, {}, original(128, base=1e6)),
    "in the order of transformers": (MISTRAL, {"layout": "half"}, pf.Rotary(128, base=1e6)),
    "yarn": (SMALL, {}, original(128, base=1e6, scaling={"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384, "attention_factor": 1.0})),
    "latent attention": (LATENT, {}, original(64, base=1e6)),
    "either format": ({"dim": 1024, "n_heads": 8, "n_layers": 4, "norm_eps": 1e-5, "vocab_size": 100, "rope_theta": 1e4}, {}, original(128)),
    "torchtune, Llama 3": ({"_component_": "torchtune.models.llama3.llama3", **TUNE}, {}, original(128, base=5e5)),
    "torchtune, Llama 3.2": ({"_component_": "torchtune.models.llama3_2.llama3_2", **TUNE, "scale_factor": 32}, {}, original(128, base=5e5, scaling={**LLAMA3, "factor": 32.0})),
    "torchtune, Qwen 2": ({"_component_": "torchtune.models.qwen2.qwen2", **TUNE}, {}, pf.Rotary(128, base=5e5)),
    "torchtune, Gemma": ({"_component_": "torchtune.models.gemma.gemma", **TUNE, "head_dim": 256}, {}, original(256, base=5e5)),
    "litgpt": (LIT, {}, pf.Rotary(128, base=5e5, scaling={**LLAMA3, "factor": 8.0})),
    "litgpt, a part": (PYTHIA, {}, pf.Rotary(64, rotary_dim=16)),
    # vars() of litgpt's Config contains rope_n_elem, which litgpt's files do not contain
    "litgpt, with its own count": ({**PYTHIA, "rope_n_elem": 16}, {}, pf.Rotary(64, rotary_dim=16)),
    "litgpt, condensed": ({**PYTHIA, "rope_condense_ratio": 8}, {}, pf.Rotary(64, rotary_dim=16, scaling={"rope_type": "linear", "factor": 8.0})),
    "litgpt, local": (GEMMA, {"layer": 0}, pf.Rotary(256)),
    "litgpt, global": (GEMMA, {"layer": 5}, pf.Rotary(256, base=1e6, scaling={"rope_type": "linear", "factor": 8.0})),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_read(name, tmp_path):
    config, arguments, expected = RIGHT[name]
    assert read(config, **arguments) == expected
    (tmp_path / "params.json").write_text(json.dumps(config))
    assert read(tmp_path / "params.json", **arguments) == expected


def without(config, *keys):
    return {key: value for key, value in config.items() if key not in keys}


REFUSED = {
    "keys of both formats": ({**LLAMA31, "hidden_dim": 1}, {}, "of Meta's params.json and the key hidden_dim of Mistral's"),
    "a misspelt key": ({**LLAMA31, "rope_thetta": 1e4}, {}, r"params\.json of Meta.*rope_thetta"),
    "a base of Llama 3": (without(LLAMA31, "rope_theta"), {}, "lacks 'rope_theta', which is 10000 in Llama 1 and 2"),
    "a base of Mistral": (without(MISTRAL, "rope_theta"), {}, "of Mistral. lacks 'rope_theta'.*Mistral 7B 0.1"),
    "neither format": ({"dim": 64, "n_heads": 2}, {}, "no keys that identify the model"),
    "factors of no known model": ({**LLAMA31, "dim": 512}, {}, "8 for Llama 3.1 and 3.3, and 32 for Llama 3.2"),
    "factors without scaling": ({**LLAMA4, "rope_scaling_factor": 8}, {}, "not read without use_scaled_rope"),
    "factors in no order": ({**LLAMA31, "rope_scaling_factor": 16, "rope_high_freq_factor": 1}, {}, "the high factor must be larger"),
    "text for a switch": ({**LLAMA31, "use_scaled_rope": "yes"}, {}, "must be true or false, not 'yes'"),
    "text for a base": ({**MISTRAL, "rope_theta": "big"}, {}, "rope_theta"),
    "half a yarn": ({**MISTRAL, "yarn": {"factor": 4}}, {}, "must have exactly the keys alpha, apply_scale, beta"),
    "a yarn with two readings": ({**MISTRAL, "yarn": {**YARN, "apply_scale": True}}, {}, "is ambiguous"),
    "a layer too many": (MISTRAL, {"layer": 32}, "layer=32 is too large"),
    "a kind of layer": (MISTRAL, {"layer_type": "full_attention"}, "a params.json of Mistral; pass layer="),
    "no width": (without(LLAMA31, "n_layers"), {}, "lacks 'n_layers'"),
    "torchtune's factor": ({"_component_": "torchtune.models.llama3_1.llama3_1", **TUNE}, {}, "lacks scale_factor, which torchtune sets in the code.*layout='interleaved', scaling="),
    "another builder": ({"_component_": "my.models.x", **TUNE}, {}, "is an unknown model"),
    "litgpt's yarn": ({**LIT, "rope_adjustments": {"factor": 4, "beta_fast": 32, "beta_slow": 1, "original_max_seq_len": 8}}, {}, "computes differently"),
    "litgpt's layers": (GEMMA, {}, "give layer="),
    "litgpt's two scalings": ({**LIT, "rope_condense_ratio": 2}, {}, "are both scalings"),
    "litgpt's other adjustments": ({**LIT, "rope_adjustments": {"factor": 4, "bend": 2}}, {}, "must have only the key factor"),
    "litgpt's contradiction": ({**PYTHIA, "rope_n_elem": 32}, {}, "rotates 16 of 64 values"),
    "litgpt's part beyond the whole": ({**PYTHIA, "rotary_percentage": 1e308}, {}, "must be at most 1"),
    "litgpt's enormous width": ({**LIT, "head_size": None, "n_embd": 10**400}, {}, "has heads of 3125000"),
    "litgpt, interleaved": ({**LIT, "rope_interleave": True}, {}, "is unsupported"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    config, arguments, words = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=words):
        read(config, **arguments)


JUNK = [None, "", "x", -1, 0, 1, True, math.nan, math.inf, 10**30, 1e-320, [], [1], {}, {"factor": "x"}]


@pytest.mark.parametrize("name", RIGHT)
def test_junk(name):
    """For a wrong value at any key, from_config returns a finite Rotary or None, or raises TypeError or ValueError."""
    config, arguments, _ = RIGHT[name]
    for key in config:
        for value in JUNK:
            with contextlib.suppress(TypeError, ValueError):
                rotary = read({**config, key: value}, **arguments)
                assert rotary is None or np.isfinite(rotary.frequencies).all(), (key, value)


# ---- the check of files ---------------------------------------------------------------------------------------------------


def test_check(tmp_path, capsys):
    """`check` names the format of the file, and compares the frequencies of weights with it."""
    (tmp_path / "params.json").write_text(json.dumps(LLAMA31))
    for base, verdict in ((5e5, "right"), (1e4, "wrong")):
        rotary = pf.Rotary(128, base=base, scaling={**LLAMA3, "factor": 8.0})
        np.savez(tmp_path / "weights.npz", inv_freq=rotary.frequencies.astype(np.float32))
        (finding,) = pf.check(tmp_path).findings
        assert finding.verdict == verdict
    (tmp_path / "params.json").write_text(json.dumps(MISTRAL))
    (tmp_path / "weights.npz").unlink()
    assert run("check", str(tmp_path)) == 0
    assert "config (params.json of Mistral): config: base 1e+06, 64 pairs" in capsys.readouterr().out
