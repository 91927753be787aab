"""Test which configs `Rotary.from_config` reads and rejects, without the packages that the configs belong to."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.rotary import scaling as _rope
from posenc_fast._core.rotary.value import LAYOUTS
from posenc_fast._models.config import reader, rules, spelling, table
from support.checkout import checkout
from support.processes import python

read, TURN = pf.Rotary.from_config, pf.Rotary
# fmt: off
HALF, LATENT = {"layout": "half"}, {"layout": "interleaved_to_half"}
FULL, SLIDING = {"layer_type": "full_attention"}, {"layer_type": "sliding_attention"}
SHORT, LONG = [1 + 0.01 * i for i in range(48)], [1.0 + i for i in range(48)]
SHORT_64, LONG_64 = [1 + 0.01 * i for i in range(64)], [1.0 + i for i in range(64)]
MROPE = [16, 24, 24]
# scalings
LINEAR, AXIAL, NTK = {"rope_type": "linear", "factor": 4.0}, {"rope_type": "axial"}, {"rope_type": "ntk", "factor": 4.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
NULL_FACTOR = {**YARN, "factor": None, "original_max_position_embeddings": 4096}
DEEPSEEK = {"type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0,
            "mscale_all_dim": 1.0}
GPT_OSS = {"rope_type": "yarn", "factor": 32.0, "truncate": False, "original_max_position_embeddings": 4096}
PROPORTIONAL = {"rope_type": "proportional", "partial_rotary_factor": 0.25}
LENGTHS = {"original_max_position_embeddings": 4096, "max_position_embeddings": 131072}
LISTS = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}
LISTS_64 = {"rope_type": "longrope", "short_factor": SHORT_64, "long_factor": LONG_64}
ALPHA = {"rope_type": "ntk", "alpha": 1000.0}
HUNYUAN = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0}
XDROPE = {"type": "xdrope", "alpha": 1000.0, "xdrope_section": [16, 16, 16, 16], "factor": 1.0}
PANGU = {"rope_type": "openpangu", "mrope_interleaved": True}
GROK_LOG = {**YARN, "rope_type": "yarn_log", "factor": 16.0, "beta_fast": 8}
# configs
LLAMA = {"model_type": "llama", "head_dim": 128}
PHI3 = {"model_type": "phi3", "head_dim": 128, "partial_rotary_factor": 0.75, **LENGTHS,
        "rope_scaling": {"type": "su", "short_factor": SHORT, "long_factor": LONG}}
PHIMOE = {"model_type": "phimoe", "head_dim": 128, "rope_theta": 1e4, **LENGTHS,
          "rope_scaling": {**LISTS_64, "short_mscale": 1.243163121, "long_mscale": 1.5}}
ATOMS = {"model_type": "esmfold2_atom_encoder", "head_dim": 16, "num_spatial_rope_pairs_per_axis": 2,
         "num_uid_rope_pairs": 1, "spatial_rope_base_frequency": 100.0, "uid_rope_base_frequency": 1e4}
GEMMA3 = {"model_type": "gemma3_text", "num_hidden_layers": 26, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
          "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
GEMMA4 = {"model_type": "gemma4_text", "head_dim": 256, "layer_types": ["full_attention", "sliding_attention"]}
V4 = {"model_type": "deepseek_v4", "head_dim": 512, "qk_rope_head_dim": 64, "compress_ratios": [0, 4, 128],
      "rope_theta": 1e4, "compress_rope_theta": 1.6e5,
      "rope_scaling": {"type": "yarn", "factor": 16.0, "original_max_position_embeddings": 65536}}
GROK = {"model_type": "git", "architectures": ["Grok1ForCausalLM"], "head_dim": 128, "rope_theta": 2e8,
        "rope_type": "yarn_log", "scaling_factor": 16.0, "original_max_position_embeddings": 8192,
        "extrapolation_factor": 1.0, "attn_factor": 1.0, "beta_fast": 8, "beta_slow": 1}
SIZES, TOWER = {"hidden_size": 2048, "num_attention_heads": 32}, {"hidden_size": 1152, "num_attention_heads": 16}
DOTS = {"model_type": "dots3_note_text", "qk_rope_head_dim": 64}
FLAT = {"model_type": "qwen2_vl", "hidden_size": 1536, "num_attention_heads": 12, "rope_theta": 1e6}
CLVP = {"model_type": "clvp_encoder", "projection_dim": 768, "hidden_size": 768, "num_attention_heads": 12}
CHATGLM = {"model_type": "chatglm", "kv_channels": 128, "original_rope": True}
DBRX = {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "attn_config": {"kv_n_heads": 8, "rope_theta": 5e5}}
KIMI = {"model_type": "kimi_k2", "qk_rope_head_dim": 64, "rope_theta": 5e4}
PHI3_SMALL = {"model_type": "phi3small", "hidden_size": 4096, "num_attention_heads": 32, "rope_position_scale": 1.0}
MODERNBERT = {"model_type": "modernbert", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 6,
              "global_rope_theta": 1.6e5, "local_rope_theta": 1e4}
STEP = {"model_type": "step3p5", "layer_types": ["full_attention", "sliding_attention"] * 2, "head_dim": 128,
        "rope_theta": [5e6, 1e4] * 2, "partial_rotary_factors": [0.5, 1.0] * 2}
NESTED = {"model_type": "gemma3_text", "rope_parameters": {
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}}}
BEAM = {"model_type": "beam", "rope_parameters": {"sliding_attention": {"rope_theta": 1e4}, "full_attention": None}}
GRANITE = {"model_type": "granitemoe_swa", "head_dim": 8, "layer_rope_theta": [1e4, 0, 5e5], "rope_theta": 1e4}
MOLMO = {"model_type": "molmo2_text", "rope_scaling": LINEAR, "rope_theta": 1e6, "rope_scaling_layers": [1]}
PART = {"head_dim": 64, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5}}
NEW = {"model_type": "new", "head_dim": 64, "rope_theta": 5e5, "partial_rotary_factor": 0.5}
KINDS = {"model_type": "new", "head_dim": 8, "rope_parameters": {"a": {"rope_theta": 1e4}, "b": {"rope_theta": 5.0}}}
# expected results
LOCAL, WHOLE = TURN(256), TURN(256, base=1e6, scaling={"rope_type": "linear", "factor": 8.0})
COMPRESSED = TURN(64, base=1.6e5, layout="interleaved", scaling={**V4["rope_scaling"], "attention_factor": 1.0})

# (config, options, result). The result is the expected Rotary, or only its head_dim, or None for layers without RoPE.
READ = [
    ({**GRANITE, "layer_rope_theta": [0, 5e5, 0]}, {}, TURN(8, base=5e5)),
    # the numbers of these scalings are tested in test_rotary_exact.py and test_rotary_golden.py
    ({**LLAMA, "rope_theta": 5e5, "rope_scaling": LLAMA3}, {}, TURN(128, base=5e5, scaling=LLAMA3)),
    ({"model_type": "mimo_v2_flash", "head_dim": 192}, {"layer_type": "full_attention"}, TURN(192, base=5e6, rotary_dim=64)),
    ({"model_type": "gpt_oss", "head_dim": 64, "rope_theta": 1.5e5, "rope_scaling": GPT_OSS}, {}, TURN(64, base=1.5e5, scaling=GPT_OSS)),
    ({"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_scaling": DEEPSEEK}, {}, TURN(64, scaling=DEEPSEEK, **LATENT)),
    ({"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_scaling": {**DEEPSEEK, "mscale_all_dim": 0}}, {}, TURN(64, scaling={**DEEPSEEK, "mscale_all_dim": None}, **LATENT)),
    (PHI3, {"seq_len": 4096}, TURN(128, rotary_dim=96, scaling={**LISTS, **LENGTHS, "seq_len": 4096})),
    (PHI3, {"seq_len": 4097}, TURN(128, rotary_dim=96, scaling={**LISTS, **LENGTHS, "seq_len": 4097})),
    (PHIMOE, {"seq_len": 4096}, TURN(128, scaling={**LISTS_64, **LENGTHS, "attention_factor": 1.243163121, "seq_len": 4096})),
    (PHIMOE, {"seq_len": 5001}, TURN(128, scaling={**LISTS_64, **LENGTHS, "attention_factor": 1.5, "seq_len": 5001})),
    ({**LLAMA, "max_position_embeddings": 2048, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, {"seq_len": 4096}, TURN(128, scaling={"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 2048, "seq_len": 4096})),
    ({"model_type": "gemma4_text", "head_dim": 256, "num_hidden_layers": 6}, {"layer": 5}, TURN(512, base=1e6, scaling=PROPORTIONAL)),
    ({"model_type": "gemma4_text", "num_hidden_layers": 6}, FULL, TURN(512, base=1e6, scaling=PROPORTIONAL)),
    ({"model_type": "ministral3", "head_dim": 128, "rope_parameters": {**DEEPSEEK, "rope_theta": 1e6, "llama_4_scaling_beta": 0.1}}, {}, TURN(128, base=1e6, scaling=DEEPSEEK)),
    # TeleChat3 has 0.07 instead of 0.1 in the formula of the attention factor, and Grok-1 interpolates logarithms
    ({"model_type": "telechat3", "head_dim": 128, "rope_scaling": {**YARN, "rope_type": "telechat3-yarn"}}, {}, TURN(128, scaling={**YARN, "attention_factor": 1.0970406052783923})),
    (GROK, {}, TURN(128, base=2e8, scaling=GROK_LOG)),
    ({**GROK, "rope_rotate_half_dims": True}, {}, TURN(128, base=2e8, rotary_dim=64, scaling=GROK_LOG)),
    ({**GROK, "rope_type": "theta_scale"}, {}, TURN(128, base=2e8, scaling={"rope_type": "theta_scale", "factor": 16.0, "original_max_position_embeddings": 8192})),
    ({"model_type": "nanochat", "head_dim": 8}, {}, pf.presets.nanochat(8)),
    ({"model_type": "pixtral", "head_dim": 8, "rope_theta": 5e5}, {}, TURN(8, sections=[2, 2], frequencies=[pf.geometric(4, base=5e5)[i::2] for i in (0, 1)])),
    ({"model_type": "pixtral", "head_dim": 64}, {"layout": "interleaved"}, pf.presets.pixtral(64, layout="interleaved")),
    # this class does not read the inner base, which is accepted if it is the default
    ({"model_type": "dinov3_vit", "hidden_size": 384, "num_attention_heads": 6, "rope_parameters": {"rope_theta": 100.0}}, {}, pf.presets.dinov3(64)),
    # pairs that belong to no axis of atoms do not rotate
    (ATOMS, {}, TURN(16, frequencies=[1.0, 0.1] * 3 + [1.0, 0.0], sections=[2, 2, 2, 2])),
    (ATOMS | {"num_uid_rope_pairs": 2}, {}, TURN(16, frequencies=[1.0, 0.1] * 3 + [1.0, 0.01], sections=[2, 2, 2, 2])),
    # qk_rope_head_dim is the rotated width itself, so partial_rotary_factor must not shorten it
    ({"model_type": "mistral4", "qk_rope_head_dim": 64, "head_dim": 128, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 1e4}}, {}, TURN(64, **LATENT)),
    ({"model_type": "deepseek_v4", "qk_rope_head_dim": 64, "head_dim": 512, "partial_rotary_factor": 0.125, "compress_ratios": [0]}, {}, TURN(64, layout="interleaved")),
    ({**DOTS, "head_dim": 256, "partial_rotary_factor": 0.25, "layer_types": ["indexed_attention"]}, {}, TURN(64, base=8e7, **LATENT)),
    # in files of this model, head_dim is the width of the key cache, not of the rotated part
    ({"model_type": "sarvam_mla", "qk_rope_head_dim": 64, "head_dim": 576, "rope_scaling": {"type": "deepseek_yarn", "factor": 40.0, "original_max_position_embeddings": 4096}}, {}, TURN(64, scaling={"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}, **LATENT)),
    ({"model_type": "sarvam_moe"}, {}, TURN(64, base=8e6)),
    ({"model_type": "exaone", "head_dim": 128, "rope_theta": 5e5}, {}, TURN(128, base=5e5)),
    ({"model_type": "hy_v4_vl", "text_config": {"qk_rope_head_dim": 64}}, {}, TURN(64, layout="interleaved", sections=[0, 1, 2] * 10 + [0, 0])),
    # in a config of Dory, layer_types also lists MLPs, and may be missing
    ({"model_type": "dory", "layer_types": ["sliding_attention", "mlp", "full_attention", "mlp"]}, {"layer": 1}, TURN(256, base=1e7)),
    ({"model_type": "dory", "num_hidden_layers": 8}, {"layer": 7}, TURN(256, base=1e7)),
    # if the config of a part has no model_type, the class of the composite model sets the type
    ({"model_type": "dots3_note", "text_config": {"qk_rope_head_dim": 64, "layer_types": ["sliding_attention"]}}, {}, TURN(64, base=5e4, **LATENT)),
    ({"model_type": "aya_vision", "text_config": {"model_type": "cohere2", "head_dim": 8}, "vision_config": {"model_type": "siglip_vision_model"}}, {}, TURN(8, layout="interleaved")),
    ({"thinker_config": {"text_config": {"head_dim": 128}}, "model_type": "qwen2_5_omni"}, {}, TURN(128, base=1e6, sections=MROPE)),
    # the first configs of Qwen2-VL have the keys of the text part at the top
    ({**FLAT, "vision_config": {}}, {}, TURN(128, base=1e6, sections=MROPE)),
    ({"model_type": "ernie4_5_vl_moe_text", "head_dim": 128, "rope_theta": 5e5}, {}, TURN(128, base=5e5, layout="interleaved", sections=[1, 2] * 22 + [0] * 20)),
    ({"model_type": "cosmos3_edge_text", "rope_parameters": {"rope_theta": 1e8}}, {}, TURN(128, base=1e8, sections=[0, 1, 2] * 20 + [0] * 4)),
    # heads are wider in full-attention layers, and per_layer_config can set the width of a layer
    (GEMMA4, SLIDING, TURN(256)),
    (GEMMA4 | {"global_head_dim": 128}, FULL, 128),
    *[(GEMMA4 | {"per_layer_config": {"00": {"head_dim": 64}}}, {"layer": i}, (64, 256)[i]) for i in (0, 1)],
    # per_layer_config has no key that sets a Rotary, so all layers are alike
    (LLAMA | {"per_layer_config": {"0": {"sliding_window": 64}}}, {}, TURN(128)),
    # no layer has the requested type, so per_layer_config sets no width for it
    ({"model_type": "gemma4_text", "layer_types": ["full_attention"], "per_layer_config": {"0": {"head_dim": 64}}}, SLIDING, 256),
    # this class divides hidden_size by the number of heads if head_dim is None
    ({"model_type": "afmoe", "hidden_size": 256, "num_attention_heads": 4, "head_dim": None}, {}, 64),
    ({"model_type": "jetmoe", "kv_channels": 128, **SIZES}, {}, TURN(128)),
    ({"model_type": "zamba2", "attention_head_dim": 160, "use_mem_rope": True, **SIZES}, {}, TURN(160)),
    ({**CLVP, "use_rotary_embedding": True}, {}, TURN(64, rotary_dim=32)),
    # configs of vision towers
    ({"model_type": "qwen2_vl_vision", "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16}, {}, TURN(80, scaling=AXIAL, sections=[20, 20])),
    ({"model_type": "kimi_k25_vision", **TOWER}, {}, TURN(72, scaling=AXIAL, sections=[1, 0] * 18)),
    ({"model_type": "llama4_vision_model", **TOWER}, {}, TURN(72, scaling=AXIAL, sections=[1] * 18 + [0] * 18, layout="interleaved")),
    ({"model_type": "minimax_m3_vl_vision", "head_dim": 80}, {}, TURN(80, rotary_dim=78, scaling=AXIAL, sections=[13, 13, 13])),
    # configs of models whose code is not in transformers
    (CHATGLM, {}, TURN(128, rotary_dim=64, layout="interleaved")),
    ({**CHATGLM, "rope_ratio": 50}, {}, TURN(128, base=5e5, rotary_dim=64, layout="interleaved")),
    ({**CHATGLM, "original_rope": False}, {}, TURN(128, rotary_dim=64)),
    # ChatGLM 2 with a context of 32k divides positions by rope_ratio
    ({**CHATGLM, "rope_ratio": 4, "_name_or_path": "THUDM/chatglm2-6b-32k"}, {}, TURN(128, rotary_dim=64, layout="interleaved", scaling=LINEAR)),
    (DBRX, {}, TURN(128, base=5e5)),
    ({**PHI3_SMALL, "rope_embedding_base": 1e6}, HALF, TURN(128, base=1e6)),
    ({"model_type": "kimi_k25", "text_config": KIMI}, {}, TURN(64, base=5e4, **LATENT)),
    # configs with several kinds of layers
    *[(GEMMA3, {"layer": i}, WHOLE if i == 5 else LOCAL) for i in range(7)],
    (NESTED, FULL, WHOLE),
    (NESTED, SLIDING, LOCAL),
    *[(MODERNBERT, {"layer": i}, TURN(64) if i % 3 else TURN(64, base=1.6e5)) for i in range(4)],
    (STEP, {"layer": 2}, TURN(128, base=5e6, rotary_dim=64)),
    (STEP, SLIDING, TURN(128)),
    *[(V4, options, COMPRESSED) for options in ({"layer": 1}, {"layer": 2}, {"layer_type": "compress"})],
    *[(V4, options, TURN(64, layout="interleaved")) for options in ({"layer": 0}, {"layer_type": "main"})],
    # a model with layers of one kind needs no layer_type
    ({"model_type": "mellum", "layer_types": ["full_attention"] * 3}, {}, TURN(128, base=5e5)),
    (BEAM, {}, TURN(128)),
    (BEAM, FULL, None),
    ({"model_type": "neomme", "layer_types": ["full_attention", "sliding_attention"], "rope_parameters": {"full_attention": {}, "sliding_attention": {"rope_theta": 777.0}}}, SLIDING, TURN(64, base=777.0, sections=[0, 1] * 16)),
    (GRANITE, {"layer": 0}, TURN(8)),
    (GRANITE, {"layer": 1}, None),
    (GRANITE, {"layer": 2}, TURN(8, base=5e5)),
    (MOLMO, {"layer": 1}, TURN(128, base=1e6, scaling=LINEAR)),
    (MOLMO, {"layer": 0}, TURN(128, base=1e6)),
    # configs with scalings
    ({"model_type": "hunyuan_v1_moe", "head_dim": 128, "rope_scaling": HUNYUAN}, {}, TURN(128, scaling=ALPHA)),
    # the config has no model_type, so `layout` must be passed
    ({"head_dim": 128, "rope_scaling": XDROPE}, HALF, TURN(128, scaling=ALPHA, sections=[16, 16, 16, 16])),
    ({"head_dim": 128, "rope_scaling": {"mrope_section": [24, 20, 20], "mrope_interleaved": True}}, HALF, TURN(128, sections=[0, 1, 2] * 20 + [0] * 4)),
    # as in vLLM, axes alternate; if there are three axes, the last pair uses the first axis
    ({"head_dim": 16, "rope_scaling": {**PANGU, "mrope_section": [2, 3, 3]}}, HALF, TURN(16, sections=[0, 1, 2, 1, 2, 1, 2, 0])),
    ({"head_dim": 8, "rope_scaling": {**PANGU, "mrope_section": [2, 2]}}, HALF, TURN(8, sections=[0, 1, 0, 1])),
    ({"head_dim": 64, "rope_scaling": NTK}, HALF, TURN(64, scaling={"rope_type": "ntk_fixed", "factor": 4.0})),
    ({"head_dim": 64, "rope_scaling": {**NTK, "mixed_b": 0.625}}, HALF, TURN(64, scaling={"rope_type": "ntk_mixed", "factor": 4.0, "b": 0.625})),
    ({"model_type": "llama", "head_dim": 64, "rope_parameters": {**PROPORTIONAL, "rope_theta": 1e6}}, {}, TURN(64, base=1e6, scaling=PROPORTIONAL)),
    # without partial_rotary_factor, "proportional" scaling uses the default of the class
    *[
        ({"model_type": model, "head_dim": 64, "rope_scaling": {"rope_type": "proportional"}}, {}, TURN(64, scaling={**PROPORTIONAL, "partial_rotary_factor": part}))
        for model, part in (("phi", 0.5), ("gpt_neox", 0.25), ("bamba", 0.5), ("llama", 1.0))
    ],
    # these classes read original_max_position_embeddings only outside of the rotary parameters (default: 4096)
    *[
        ({"model_type": model, "head_dim": 96, "max_position_embeddings": 8192, "rope_scaling": {**LISTS, "original_max_position_embeddings": 1024}}, {"seq_len": 3000},
         TURN(96, scaling={**LISTS, "original_max_position_embeddings": 4096, "max_position_embeddings": 8192, "seq_len": 3000}))
        for model in ("phi3", "phi4_multimodal")
    ],
    # if factor is null, it is max_position_embeddings / original_max_position_embeddings
    ({**LLAMA, "max_position_embeddings": 32768, "rope_scaling": NULL_FACTOR}, {}, TURN(128, scaling={**NULL_FACTOR, "factor": 8.0})),
    # configs with various keys for the width of heads, the base, and the part of a head that rotates
    (PART, HALF, TURN(64, base=1e6, rotary_dim=32)),
    ({"text_config": PART, "head_dim": 3}, HALF, TURN(64, base=1e6, rotary_dim=32)),
    ({"head_dim": 128, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, HALF, TURN(128, sections=MROPE)),
    ({"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "head_dim": 64, "rope_interleave": True}, {}, TURN(64, **LATENT)),
    ({"model_type": "cohere2", "head_dim": 8}, {}, TURN(8, layout="interleaved")),
    ({"model_type": "qwen2_5_omni_dit", "head_dim": 8}, {}, TURN(8, **LATENT)),
    ({"model_type": "gptj", "hidden_size": 4096, "num_attention_heads": 16, "rotary_dim": 64}, {}, TURN(256, rotary_dim=64, layout="interleaved")),
    ({"model_type": "gpt_neox", "head_dim": 96, "rotary_pct": 0.25, "rotary_emb_base": 5000}, {}, TURN(96, rotary_dim=24, base=5000.0)),
    # keys that resemble rotary keys, but have another meaning or none
    (LLAMA | {"num_key_value_heads": 2, "v_head_dim": 8, "rotary": True, "use_rotary_pos_emb": True, "rope_scalling": None}, {}, TURN(128)),
    (
        {"model_type": "nomic_bert", "hidden_size": 768, "num_attention_heads": 12, "rotary_emb_interleaved": False, "rotary_emb_base": 1000,
         "rotary_emb_fraction": 1.0, "rotary_emb_scale_base": None, "rotary_scaling_factor": 2}, {}, TURN(64, base=1000.0),
    ),
    # this key is three edits away from rotary_dim, and so no mistake
    (LLAMA | {"oarydimt": 64}, {}, TURN(128)),
    # two keys for the base, or for the width, are accepted if they have the same value
    ({**LLAMA, "rope_theta": 1e6, "theta": 1e6}, {}, TURN(128, base=1e6)),
    ({"model_type": "llama", "hidden_size": 256, "n_embd": 256, "num_attention_heads": 4, "n_head": 4}, {}, TURN(64)),
    # Llama reads no rotated fraction, so only 1 is accepted
    (LLAMA | {"partial_rotary_factor": 1.0}, {}, TURN(128)),
    # configs of unknown models
    *[(NEW, {"layout": layout}, TURN(64, base=5e5, rotary_dim=32, layout=layout)) for layout in ("half", "interleaved", "interleaved_to_half")],
    (KINDS, {"layout": "half", "layer_type": "b"}, TURN(8, base=5.0)),
]
# fmt: on


@pytest.mark.parametrize(
    ("config", "options", "rotary"), READ, ids=[f"{one[0].get('model_type')} {one[1]}" for one in READ]
)
def test_read(config, options, rotary):
    result = read(config, **options)
    assert (result.head_dim if isinstance(rotary, int) else result) == rotary


def test_nanochat_with_a_scaling():
    rotary = read({"model_type": "nanochat", "head_dim": 8, "rope_scaling": LINEAR})
    np.testing.assert_array_equal(rotary.frequencies, -pf.Rotary(8, scaling=LINEAR).frequencies)


@pytest.mark.parametrize(("config", "rotating"), [
    ({"model_type": "smollm3", "head_dim": 8}, "1110111011101110"),
    ({"model_type": "smollm3", "head_dim": 8, "no_rope_layer_interval": 3}, "1101101101101101"),
    ({"model_type": "llama4_text", "no_rope_layers": [0, 1] * 8}, "0101010101010101"),
    ({"model_type": "granite_swa", "head_dim": 8, "layer_rope_theta": [1e4, 0, 0, 1e4] * 4}, "1001100110011001"),
    ({"model_type": "muse_glimmer_text", "layer_rope_theta": [1e4, 1e4, 0, 1e4] * 4}, "1101110111011101"),
    ({"model_type": "cohere2", "head_dim": 8, "sliding_window_pattern": 4}, "1110111011101110"),
    ({"model_type": "afmoe", "layer_types": ["sliding_attention", "full_attention"] * 8}, "1010101010101010"),
    ({"model_type": "exaone4", "head_dim": 8, "sliding_window": 4, "layer_types": ["full_attention", "sliding_attention"] * 8}, "0101010101010101"),
    ({"model_type": "exaone4", "head_dim": 8, "sliding_window": None, "layer_types": ["full_attention"] * 16}, "1111111111111111"),
    ({"model_type": "qwen3_next", "layer_types": ["linear_attention", "full_attention"] * 8}, "0101010101010101"),
    ({"model_type": "lara_mini", "layer_types": ["linear_attention", "sliding_attention", "full_attention", "sliding_attention"] * 4}, "0101010101010101"),
    ({"model_type": "bamba", "head_dim": 8, "layers_block_type": ["mamba", "attention"] * 8}, "0101010101010101"),
    ({"model_type": "cohere2_moe", "layer_types": ["full_attention", "full_attention", "sliding_attention", "full_attention"] * 4, "mlp_layer_types": ["dense"] + ["sparse"] * 15}, "1010001000100010"),
], ids=lambda value: value["model_type"] if isinstance(value, dict) else value)  # fmt: skip
def test_layers_without_rope(config, rotating):
    config = {"num_hidden_layers": 16, **config}
    found = "".join("01"[read(config, layer=i) is not None] for i in range(16))
    assert found == rotating


# ---- refusals --------------------------------------------------------------------------------------------------------

SECTIONS = {"rope_type": "default", "mrope_section": [8, 12, 12]}
BERT = {"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12}
CLIP = {"model_type": "clip", "text_config": {"hidden_size": 8}, "vision_config": {"hidden_size": 8}}
DEEP = functools.reduce(lambda inner, _: [inner], range(100_000), [])
QWEN3 = {"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16}
# keys: names of cases. Values: (config, parts of the error, options of from_config (default: none)).
REFUSED = {
    "BERT": (BERT, ["'bert' has no rotary encoding"], HALF),
    "CLIP": (CLIP, ["'clip' has no rotary encoding", "text_config, vision_config"]),
    "alibi": ({"model_type": "falcon", "alibi": True, "head_dim": 64}, ["alibi", "True", "ALiBi"]),
    "head of LongCat": ({"model_type": "longcat_flash", "qk_rope_head_dim": 32}, ["head_dim=64 (the default of the class)", "qk_rope_head_dim=32"]),
    "head_dim of LongCat": ({"model_type": "longcat_flash", "qk_rope_head_dim": 32, "head_dim": 16}, ["head_dim=16 and qk_rope_head_dim=32"]),
    "no base of EXAONE": ({"model_type": "exaone", "head_dim": 128}, ["lacks 'rope_theta'", "exaone"]),
    "MLPs of Dory": ({"model_type": "dory", "layer_types": ["sliding_attention", "mlp", "mlp", "full_attention"]}, ["layer_types", "'mlp' after the type"], {"layer": 0}),
    "no base": ({"model_type": "olmo_hybrid", "head_dim": 8, "rope_parameters": {"rope_theta": None}}, ["rope_theta", "no rotary"]),
    "absolute": ({"model_type": "esm", "hidden_size": 8, "num_attention_heads": 1}, ["position_embedding_type", "'rotary'"]),
    "unknown model": ({"model_type": "lama", "head_dim": 8}, ["'lama'", "'llama'", "layout="]),
    "no model": ({"head_dim": 8}, ["model_type", "None", "layout="]),
    "no width": ({"model_type": "llama"}, ["hidden_size", "head_dim"]),
    "no heads": ({"model_type": "llama", "hidden_size": 64}, ["num_attention_heads"]),
    "no parameters": ({"model_type": "gpt_oss", "head_dim": 64}, ["rope_parameters", "gpt_oss"]),
    "gemma4_vision": ({"model_type": "gemma4_vision", "head_dim": 64}, ["gemma4_vision", "Rotary(head_dim // 2"]),
    "unknown scaling": ({**LLAMA, "rope_scaling": {"type": "magic"}}, ["'rope_scaling'", "'magic'", "yarn"]),
    "unknown key": ({**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0, "facter": 3}}, ["'facter'", "3", "factor"]),
    "alpha": ({**LLAMA, "rope_scaling": {"type": "dynamic", "alpha": 2.0}, "max_position_embeddings": 8}, ["'alpha'", "dynamic"]),
    "two types": ({**LLAMA, "rope_scaling": {"type": "linear", "rope_type": "dynamic", "factor": 2.0}}, ["'linear'", "'dynamic'", "leave one out"]),
    "two places": ({**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_theta": 1e4}}, ["rope_scaling", "rope_parameters", "leave one out"]),
    "yarn without a factor": ({**LLAMA, "rope_scaling": {"type": "yarn", "original_max_position_embeddings": 8}, "max_position_embeddings": 64}, ["'factor'", "yarn"]),
    "half of mscale": ({**LLAMA, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "mscale": 0.7}}, ["'mscale'", "0.7", "mscale_all_dim"]),
    "no length": ({**LLAMA, "rope_scaling": {"type": "yarn", "factor": 4.0}}, ["max_position_embeddings", "yarn"]),
    "fope": ({**LLAMA, "rope_scaling": {"type": "fope"}}, ["'fope'", "apply_tables"]),
    "a factor that is not read": ({**LLAMA, "partial_rotary_factor": 0.5}, ["partial_rotary_factor", "0.5", "rotary_dim"]),
    "a factor twice": ({"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "partial_rotary_factor": 0.5}, ["partial_rotary_factor", "0.5", "qk_rope_head_dim=64"]),
    "odd": ({"model_type": "glm4_moe", "head_dim": 42}, ["21 of 42", "odd", "rotary_dim=20"]),
    "a value": ({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 8}, ["heads of 1 values", "hidden_size, num_attention_heads"]),
    "a value that rotates": ({"model_type": "phi", "head_dim": 8, "partial_rotary_factor": 0.125}, ["1 would rotate", "from 2 to 8"]),
    "a key of another name": ({"model_type": "llama", "n_embd": -1, "n_head": 8}, ["['n_embd']", "-1"]),
    "too wide": ({"model_type": "phi", "head_dim": 8, "partial_rotary_factor": 2.0}, ["the fraction 2 of a head", "correct partial_rotary_factor"]),
    "dim and factor": ({"model_type": "minimax_m2", "head_dim": 128, "rotary_dim": 64, "partial_rotary_factor": 0.25}, ["rotary_dim", "64", "0.25"]),
    "a dim of a whole head": ({"model_type": "minimax", "head_dim": 128, "rotary_dim": 64}, ["rotary_dim", "64", "128"]),
    "a part of another name": ({**LLAMA, "rotary_pct": 0.25}, ["rotary_pct", "0.25", "128"]),
    "gptj": ({"model_type": "gptj", "n_embd": 64, "n_head": 4, "rotary_dim": None}, ["rotary_dim", "None"]),
    "a base that is not read": ({**LLAMA, "rotary_emb_base": 5e5}, ["rotary_emb_base", "500000.0", "llama"]),
    "two bases": ({"model_type": "dbrx", "d_model": 64, "n_heads": 4, "rope_theta": 1e4, "attn_config": {"rope_theta": 5e5}}, ["attn_config", "500000.0", "10000.0"]),
    "proportional part": ({"model_type": "deepseek_v4", "qk_rope_head_dim": 64, "head_dim": 512, "compress_ratios": [0], "rope_parameters": {"main": {"rope_type": "proportional", "rope_theta": 1e4}, "compress": {}}}, ["proportional", "512", "64"]),
    "few sections": ({"model_type": "qwen2_vl_text", "head_dim": 128, "rope_scaling": SECTIONS}, ["mrope_section", "32", "64 rotated pairs"]),
    "interleaved or not": ({"model_type": "qwen2_vl_text", "head_dim": 128, "rope_scaling": {"mrope_interleaved": True}}, ["mrope_interleaved", "True", "assigns pairs to axes"]),
    "sections of text": ({**LLAMA, "rope_scaling": SECTIONS}, ["mrope_section", "default"]),
    "kinds of a model without": ({**LLAMA, "rope_parameters": {"full": {}, "sliding": {}}}, ["full", "sliding", "one kind"]),
    "one for all kinds": ({"model_type": "laguna", "rope_parameters": {"rope_theta": 1e4}, "layer_types": ["full_attention"]}, ["full_attention", "separate parameters"]),
    "beside kinds": ({"model_type": "olmo3", "head_dim": 8, "layer_types": ["full_attention"], "rope_parameters": {"full_attention": {}, "truncate": False}}, ["truncate", "False", "next to"]),
    "truncate in kinds": (
        {"model_type": "olmo3", "head_dim": 8, "layer_types": ["full_attention"], "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 2.0, "truncate": False}}},
        ["truncate", "False", "always uses truncate=True"],
    ),
    "axial text": ({**LLAMA, "rope_parameters": {"rope_type": "axial"}}, ["axial", "llama"]),
    "scaled tower": ({"model_type": "qwen2_5_vl_vision", "head_dim": 8, "rope_parameters": {"rope_type": "yarn"}}, ["yarn", "no scaling"]),
    "parts missing": ({"model_type": "llava"}, ["llava", "text_config"]),
    "width of no number": ({"model_type": "llama", "head_dim": 3.5}, ["head_dim", "3.5"]),
    "layer types": ({"model_type": "gemma3_text", "layer_types": "full"}, ["layer_types", "'full'"]),
    "parameters of no mapping": ({**LLAMA, "rope_parameters": "yarn"}, ["rope_parameters", "'yarn'"]),
    "no length of sequences": ({**PHI3}, ["'longrope'", "seq_len=", "4096"]),
    "no length, dynamic": ({**LLAMA, "max_position_embeddings": 2048, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, ["'dynamic'", "seq_len=", "2048"]),
    "null base": ({**LLAMA, "rope_theta": None}, ["rope_theta", "None", "to a number"]),
    "null base inside": ({**LLAMA, "rope_parameters": {"rope_theta": None}}, ["rope_parameters", "rope_theta", "None"]),
    "null base of Grok": ({"model_type": "grok-1", "head_dim": 8, "rope_theta": None}, ["rope_theta", "None"]),
    "mscale_all_dim alone": ({**LLAMA, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "mscale_all_dim": 1.0}}, ["'mscale_all_dim'", "1.0"]),
    "type of no string": ({**LLAMA, "rope_scaling": {"type": ["yarn"]}}, ["['type']", "['yarn']", "string"]),
    "number of the scaling": ({**LLAMA, "rope_scaling": {"type": "linear", "factor": "4"}}, ["config['rope_scaling']['factor']", "'4'"]),
    "number missing": ({**LLAMA, "rope_scaling": {"type": "linear"}}, ["config['rope_scaling']", "'factor'"]),
    "a base of atoms": (ATOMS | {"spatial_rope_base_frequency": 0}, ["spatial_rope_base_frequency", "positive", "0"]),
    "another base of atoms": (ATOMS | {"uid_rope_base_frequency": -1.0}, ["uid_rope_base_frequency", "positive", "-1.0"]),
    "a count of atoms": (ATOMS | {"num_uid_rope_pairs": -1}, ["num_uid_rope_pairs", "at least 0", "-1"]),
    "more pairs than a head of atoms": (ATOMS | {"num_uid_rope_pairs": 3}, ["9 pairs to rotate", "8 pairs"]),
    "no mscale": ({**PHIMOE, "rope_scaling": {"type": "longrope", "short_factor": SHORT_64, "long_factor": LONG_64, "long_mscale": 1.5}}, ["lacks 'short_mscale'", "phimoe"], {"seq_len": 5}),
    "xpos": ({**LLAMA, "rope_scaling": {"type": "xpos"}}, ["'xpos'", "keys"]),
    "a part of more than all": ({**LLAMA, "rope_parameters": {"rope_type": "proportional", "partial_rotary_factor": 2.0}}, ["partial_rotary_factor", "2.0"]),
    "two spellings of a width": ({"model_type": "llama", "hidden_size": 256, "n_embd": 512, "num_attention_heads": 4}, ["hidden_size", "256", "n_embd", "512"]),
    "two spellings of a length": ({**LLAMA, "max_position_embeddings": 8192, "n_positions": 64, "rope_scaling": {"type": "yarn", "factor": 4.0}}, ["max_position_embeddings", "8192", "n_positions", "64"]),
    "two bases of llama": ({**LLAMA, "rope_theta": 777.0, "rope_parameters": {"rope_theta": 5e5}}, ["'rope_theta'", "777.0", "rope_parameters", "500000.0"]),
    "two bases of a kind": ({**GEMMA3, "rope_scaling": None, "layer_types": ["full_attention"], "rope_parameters": {"full_attention": {"rope_theta": 777.0}}}, ["777.0", "1000000.0", "full_attention"]),
    "two parts": ({"model_type": "phi", "head_dim": 64, "partial_rotary_factor": 0.5, "rope_parameters": {"partial_rotary_factor": 0.25}}, ["partial_rotary_factor", "0.5", "0.25"]),
    "two original lengths": ({**LLAMA, "original_max_position_embeddings": 64, "rope_scaling": {**LLAMA3, "original_max_position_embeddings": 128}}, ["original_max_position_embeddings", "64", "128"]),
    "two widths, latent": ({"model_type": "deepseek_v3", "qk_rope_head_dim": 32, "head_dim": 64}, ["qk_rope_head_dim", "32", "head_dim=64"]),
    "two widths, kv_channels": ({"model_type": "jetmoe", "kv_channels": 128, "head_dim": 64}, ["kv_channels=128", "head_dim=64"]),
    "a width that is not read": ({"model_type": "unlimited_ocr_text", "hidden_size": 256, "num_attention_heads": 4, "head_dim": 48}, ["head_dim", "48", "64"]),
    "null width": ({"model_type": "qwen3", "hidden_size": 256, "num_attention_heads": 4, "head_dim": None}, ["head_dim", "None", "128", "qwen3"]),
    "null width beside another": ({"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "head_dim": None}, ["head_dim", "None"]),
    "huge width": ({"model_type": "llama", "hidden_size": 10**30, "num_attention_heads": 4}, ["250000000", "hidden_size, num_attention_heads", "at most"]),
    "a head above the limit": ({"model_type": "llama", "head_dim": 2**20 + 2}, ["1048578", "head_dim", "at most 1048576"]),
    "many layers": ({"model_type": "gemma3_text", "num_hidden_layers": 10**12}, ["num_hidden_layers", "1000000000000", "at most"]),
    "text inside text": ({**LLAMA, "text_config": LLAMA}, ["llama", "text_config"]),
    "llama3's equal factors": ({**LLAMA, "rope_scaling": {"type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64, "low_freq_factor": 4.0, "high_freq_factor": 4.0}}, ["low_freq_factor=4.0 must be less than high_freq_factor=4.0"]),
    "slow and no fast": ({**LLAMA, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_slow": 40}}, ["beta_slow=40 must be at most beta_fast=32.0"]),
    "no base for a kind": ({"model_type": "ultrabert", "hidden_size": 64, "num_attention_heads": 1, "layer_types": ["full_attention"], "rope_parameters": {"full_attention": {"rope_type": "default"}}}, ["rope_theta", "'full_attention'", "ultrabert"]),
    "type of a kind": ({"model_type": "neomme", "layer_types": ["full_attention"], "rope_parameters": {"full_attention": {"type": "linear", "factor": 2.0}}}, ["'type'", "'linear'", "neomme"]),
    "layers of their own": ({"model_type": "embedding_gemma2_text", "head_dim": 256, "rope_parameters": {"full_attention": {"rope_theta": 1e6}}, "per_layer_config": {"1": {"head_dim": 64}}}, ["per_layer_config", "layer="]),
    "a kind alone": ({**V4, "rope_scaling": None, "rope_parameters": {"compress": {"rope_theta": 1.6e5}}, "compress_ratios": [4]}, ["lacks 'main'", "deepseek_v4"]),
    "no part for a kind": ({"model_type": "laguna", "layer_types": ["full_attention"], "rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, ["partial_rotary_factor", "laguna"]),
    "a base for each layer of Llama": ({**LLAMA, "rope_theta": [1e4, 5e5]}, ["rope_theta", "must be a real number"], {"layer": 0}),
    "positions that are scaled": ({"model_type": "llama", "head_dim": 8, "rope_position_scale": 2.0}, ["rope_position_scale", "2.0", "not read"]),
    "type outside": ({**LLAMA, "rope_type": "yarn"}, ["rope_type", "'yarn'", "rope_scaling"]),
    "alpha of another type": ({"model_type": "hunyuan_v1_dense", "head_dim": 8, "rope_scaling": {"type": "linear", "factor": 2.0, "alpha": 100.0}}, ["alpha", "100.0", "'linear'", "'dynamic'"]),
    "alpha and factor": ({"model_type": "hunyuan_v1_dense", "head_dim": 8, "rope_scaling": {"type": "ntk", "alpha": 100.0, "factor": 2.0}}, ["alpha", "100.0", "rope_type is 'ntk'"]),
    "a key beside a factor": ({"head_dim": 64, "rope_scaling": {"type": "ntk", "factor": 2.0, "beta": 1}}, ["'beta'", "rope_type 'ntk'"], HALF),
    "a key beside alpha": ({"model_type": "hunyuan_v1_dense", "head_dim": 8, "rope_scaling": {"type": "dynamic", "alpha": 100.0, "alfa": 1}}, ["'alfa'", "dynamic"]),
    "scaling that is not read": ({"model_type": "grok-1", "head_dim": 8, "rope_scaling": {"type": "linear", "factor": 2.0}}, ["rope_scaling", "'linear'", "grok-1"]),
    "a base inside": ({"model_type": "gptj", "head_dim": 64, "rope_parameters": {"rope_theta": 5e5}}, ["rope_theta", "500000.0", "gptj"]),
    "a part of another kind": ({"model_type": "laguna", "partial_rotary_factor": 0.25, "layer_types": ["sliding_attention"]}, ["partial_rotary_factor", "0.25", "laguna"]),
    "misspelt key of a layer": ({"model_type": "gemma4_text", "layer_types": ["full_attention"], "per_layer_config": {"0": {"head_dimm": 64}}}, ["['head_dimm']=64 is not read", "did you mean head_dim?"], {"layer": 0}),
    "parts of lists": ({**LLAMA, "partial_rotary_factors": [0.5]}, ["partial_rotary_factors", "[0.5]"]),
    "no base in the parameters": ({"model_type": "ministral3", "rope_parameters": {"rope_type": "linear", "factor": 2.0}}, ["rope_theta", "ministral3"]),
    "no part in the parameters": ({"model_type": "moonshine_streaming", "head_dim": 40, "rope_parameters": {"rope_theta": 1e4}}, ["partial_rotary_factor", "moonshine_streaming"]),
    "type beside a default": ({**GEMMA3, "layer_types": ["full_attention"], "rope_scaling": {"type": "linear", "factor": 8.0}}, ["'type'", "'linear'", "rope_type"]),
    "flat and new": ({"model_type": "gemma3_text", "layer_types": ["full_attention"], "rope_parameters": {"rope_type": "linear", "factor": 8.0}}, ["rope_parameters", "each of", "rope_scaling"]),
    "flat and truncate": ({"model_type": "olmo3", "head_dim": 8, "layer_types": ["full_attention"], "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "truncate": False}}, ["truncate", "False", "always uses truncate=True"]),
    "kinds that are not there": ({"model_type": "gemma3_text", "layer_types": ["full_attention"], "rope_parameters": {"global": {"rope_theta": 1e4}}}, ["'global'", "sliding_attention"]),
    "a base of other layers": ({"model_type": "dots3_note_text", "qk_rope_head_dim": 64, "layer_types": ["sliding_attention"], "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, ["rope_theta", "sliding_attention"]),
    "two lists of bases": ({"model_type": "step3p5", "layer_types": ["full_attention"], "rope_theta": [1e4], "rope_parameters": {"full_attention": {"rope_theta": 5e4}, "sliding_attention": {}}}, ["rope_theta", "[10000.0]", "remove rope_theta from"]),
    "sections of a class": ({"model_type": "qwen2_vl_text", "head_dim": 64}, ["mrope_section", "[16, 24, 24]", "32"]),
    "interleaved, as text": ({"model_type": "qwen3_vl_text", "head_dim": 128, "rope_scaling": {"mrope_section": [24, 20, 20], "mrope_interleaved": "false"}}, ["mrope_interleaved", "'false'"]),
    "layers of a pattern": ({"model_type": "gemma3_text", "sliding_window_pattern": 0, "num_hidden_layers": 8}, ["sliding_window_pattern", "0"]),
    "a count as text": ({"model_type": "gemma3_text", "num_hidden_layers": "26"}, ["num_hidden_layers", "'26'"]),
    "switch as text": ({"model_type": "deepseek_v3", "qk_rope_head_dim": 64, "rope_interleave": "false"}, ["rope_interleave", "'false'"]),
    "global width": ({"model_type": "gemma4_text", "layer_types": ["full_attention"], "global_head_dim": None}, ["global_head_dim", "None"]),
    "codes of no number": ({"model_type": "deepseek_v4", "qk_rope_head_dim": 64, "head_dim": 512, "compress_ratios": [[0]]}, ["compress_ratios", "[0]"]),
    "parts of no name": ({"text_config": LLAMA, "llm_config": LLAMA}, ["no model_type", "config['text_config'] or config['llm_config']"]),
    "ignored scaling": ({"model_type": "cohere2_moe", "rope_scaling": {"type": "linear", "factor": 2.0}}, ["rope_scaling", "linear"]),
    "parts of one kind": ({"model_type": "blt", **{f"{part}_config": {"head_dim": 8} for part in ("patcher", "encoder", "decoder", "global")}}, ["blt", "'encoder_config'", " or ", "'global_config'"]),
    "part for images": ({"model_type": "qwen2_vl", "embed_dim": 1280, "num_heads": 16, "patch_size": 14}, ["part for images", "'qwen2_vl_vision'"]),
    "no kv_channels": ({"model_type": "jetmoe", **SIZES}, ["kv_channels", "jetmoe"]),
    "two kinds": (GEMMA3, ["sliding_attention, full_attention; give layer_type= (one of"]),
    "no such kind": (GEMMA3, ["layer_type='global' is not a layer type of config; give one of sliding_attention, full_attention"], {"layer_type": "global"}),
    "kinds without parameters": ({**GEMMA3, "rope_scaling": None, "rope_parameters": {"sliding_attention": None, "full_attention": None}}, ["rope_parameters", "for any of the layer types (sliding_attention, full_attention)"]),
    "no such layer": (GEMMA3, ["layer=26 is too large", "26 layers"], {"layer": 26}),
    "a layer and a kind": (GEMMA3, ["exclude each other"], {"layer": 1, **FULL}),
    "a base for each layer": (GRANITE, ["layer_rope_theta", "give layer="]),
    "layers that are scaled": (MOLMO, ["rope_scaling_layers", "give layer="]),
    "layers without types": ({"model_type": "qwen3_next"}, ["lacks layer_types, which determines the type of layer=3 (not needed with layer_type="], {"layer": 3}),
    "different axes": ({"model_type": "hunyuan_vl", "text_config": {"model_type": "hunyuan_vl_text", "head_dim": 128, "rope_scaling": XDROPE}}, ["hunyuan_vl_text", "different axes", "layout='half'"]),
    "no such layout": (NEW, ["layout must be one of"], {"layout": "neox"}),
    "lists of several lengths": ({**PHI3, "rope_scaling": {"type": "su", "short_factor": [1.0, [2.0]], "long_factor": LONG}}, ["short_factor", "48", "several lengths"], {"seq_len": 9}),
    "lists of zeros": ({**PHI3, "rope_scaling": {"type": "su", "short_factor": [0.0] * 48, "long_factor": LONG}}, ["short_factor", "positive numbers, not 0.0"], {"seq_len": 9}),
    "lists in lists": ({**LLAMA, "rope_theta": DEEP}, ["config is nested too deeply"]),
    "an axis without pairs": ({"head_dim": 16, "rope_scaling": {"type": "openpangu", "mrope_section": [0, 4, 4]}}, ["mrope_section", "at least 1", "0"], {**HALF, "seq_len": 100}),
    "a kind of Llama": (LLAMA, ["layer_type='mamba'", "llama", "leave layer_type out"], {"layer_type": "mamba"}),
    "length as text": (LLAMA, ["seq_len", "'long'"], {"seq_len": "long"}),
    "original length as text": ({**PHIMOE, "original_max_position_embeddings": "4096"}, ["original_max_position", "'4096'"], {"seq_len": 5}),
    "no such layer of GPT-J": ({"model_type": "gptj", "head_dim": 64, "n_layer": 2}, ["layer=2", "2 layers"], {"layer": 2}),
    "an odd type of layers": ({"model_type": "gemma3_text", "layer_types": ["odd"]}, ["'odd'", "full_attention"], {"layer": 0}),
    "layers of which nothing is known": ({"model_type": "qwen3_next", "layer_types": ["rwkv"]}, ["'rwkv'", "linear_attention"], {"layer": 0}),
    "no_rope_layers as text": ({"model_type": "smollm3", "head_dim": 8, "no_rope_layers": ["0"]}, ["no_rope_layers", "'0'"], {"layer": 0}),
    "every 0th layer": ({"model_type": "llama4_text", "no_rope_layer_interval": 0}, ["no_rope_layer_interval", "0"], {"layer": 0}),
    "layers of no list": ({"model_type": "molmo2_text", "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_scaling_layers": 1}, ["rope_scaling_layers", "1"], {"layer": 0, "seq_len": 100}),
    "alibi of an unknown model": ({"head_dim": 8, "alibi": True}, ["alibi", "True"], HALF),
    "nope of an unknown model": ({"head_dim": 8, "position_embedding_type": "nope"}, ["position_embedding_type", "'nope'"], HALF),
    "two names of sections": ({"head_dim": 64, "rope_scaling": {"type": "xdrope", "alpha": 2.0, "mrope_section": [32], "xdrope_section": [32]}}, ["mrope_section", "xdrope_section", "leave one out"], {**HALF, "seq_len": 100}),
    "no sections of openPangu": ({"head_dim": 64, "rope_scaling": {"type": "openpangu"}}, ["openpangu", "mrope_section"], {**HALF, "seq_len": 100}),
}  # fmt: skip
# (config, a misspelt key and its value, part of the error, options of from_config (default: none))
MISSPELT = [
    (QWEN3, "head_din", 64, "did you mean head_dim?"),
    (QWEN3, "headDim", 64, "did you mean head_dim?"),
    (QWEN3, "head_size", 64, "did you mean head_dim?"),
    ({"model_type": "gpt_neox"}, "rotary_base", 777.0, "did you mean rotary_emb_base?"),
    (GEMMA3, "rope_local_base_frequency", 777.0, "did you mean rope_local_base_freq?", {"layer": 0}),
    ({"model_type": "deepseek_v3"}, "rope_interleaved", False, "did you mean rope_interleave?"),
    (LLAMA, "rotary_scaling", LINEAR, "did you mean rope_scaling?"),
    (LLAMA, "rope", LINEAR, "remove rope from"),
    (LLAMA, "rope_factor", 4.0, "remove rope_factor from"),
    (LLAMA, "rope_mode", "yarn", "did you mean rope_"),
    (LLAMA, "freq_base", 5e5, "did you mean rope_theta?"),
    (LLAMA, "theta_dim", 64, "did you mean theta?"),
    (GEMMA3, "layer_type", ["full_attention"], "did you mean layer_types?", {"layer": 0}),
    ({"model_type": "new"}, "use_ropes", False, "did you mean use_rope?", HALF),
]  # fmt: skip
REFUSED |= {
    key: ({**config, key: value}, [f"[{key!r}]={value!r} is not read", words], *options)
    for config, key, value, words, *options in MISSPELT
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    config, words, *options = REFUSED[name]
    with pytest.raises((TypeError, ValueError)) as raised:
        read(config, **(options[0] if options else {}))
    assert all(word in str(raised.value) for word in words), raised.value


def mistakes(key, at, letter):
    """Return misspellings of a key: other separators or case, and a letter added, omitted, replaced or swapped."""
    cases = [key.replace("_", "-"), key.replace("_", ""), key.title()]
    return [*cases, key[:at] + letter + key[at:], key[:at] + key[at + 1 :], key[:at] + letter + key[at + 1 :],
            key[:at] + key[at + 1] + key[at] + key[at + 2 :]]  # fmt: skip


GARBAGE = [None, True, 0, -1, 3, 1e308, 1e-300, float("nan"), float("inf"), "yarn", "", [], [1, 2], {}, {"a": {}}, {1: 2}, b"x"]  # fmt: skip


@pytest.mark.parametrize("family", [*table.families(), table.UNKNOWN])
def test_every_key_with_a_mistake(family, rng):
    """If a key that a family of models reads is misspelt, the error names the misspelt key and its value."""
    for known in sorted(spelling.keys_of(family)):
        made = mistakes(known, int(rng.integers(len(known) - 1)), chr(rng.integers(97, 123)))
        # None is the only value that is no mistake
        key, value = made[rng.integers(len(made))], GARBAGE[rng.integers(1, len(GARBAGE))]
        if key not in spelling.keys_of(family) and key not in table.names("unrelated"):
            with pytest.raises(ValueError, match=rf"{re.escape(f'[{key!r}]={value!r}')} is not read"):
                read({key: value, "model_type": table.families().get(family, ["new"])[0]}, layout="half")


def recorded(look_up):
    def recording(config, key, *default):
        config.keys_read.add(key)
        return look_up(config, key, *default)

    return recording


class Recording(dict):
    """A config that adds the keys that are looked up to the set `keys_read`."""

    get, __getitem__, __contains__ = map(recorded, (dict.get, dict.__getitem__, dict.__contains__))


@pytest.mark.parametrize("family", table.families())
def test_keys_that_are_read_are_known(family):
    """from_config recognizes misspellings of each key that it looks up, except names of parts such as text_config."""
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "qk_rope_head_dim": 16, "num_hidden_layers": 4}
    dims = {"projection_dim": 64, "kv_channels": 16, "attention_head_dim": 16, "memory_attention_hidden_size": 64}
    scaling = {"rope_scaling": {"type": "yarn", "factor": 2.0}, "max_position_embeddings": 64}
    needs = {key: value for key, value, *_ in table.family(family).needs}
    read_keys = set()
    for model in table.families()[family]:
        for more in ({}, sizes | dims, sizes | scaling, {"rope_type": "yarn", "head_dim": 16}):
            for options in ({}, {"layer": 1}, {"layer_type": "full_attention"}, {"layer_type": "sliding_attention"}):
                config = Recording(more | needs | {"model_type": model})
                config.keys_read = read_keys
                with contextlib.suppress(TypeError, ValueError):
                    read(config, **options)
    assert "model_type" in read_keys
    assert read_keys - {*reader.TEXTS} <= spelling.keys_of(family)


def test_objects_and_files(tmp_path):
    made = SimpleNamespace(to_dict=lambda: {"head_dim": 8}, model_type="llama")
    assert read(made) == pf.Rotary(8)
    path = tmp_path / "config.json"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        path.write_text(json.dumps(LLAMA), encoding=encoding)
        assert read(path) == read(str(path)) == pf.Rotary(128)
    with pytest.raises(TypeError, match=r"config must be a mapping.*not list"):
        read([1])


@pytest.mark.parametrize(("contents", "words"), [
    (b"[" * 200000, "nested too deeply"),
    (b'{"model_type": "llama"', "line 1 column"),
    (b"", "line 1 column"),
    (b"\x89PNG\r\n\xff\xfe", "decode"),
    (b'{"model_type": "llama", "head_dim": 8, "head_dim": 16}', "'head_dim' occurs more than once"),
    (b'{"model_type": "llama", "head_dim": 8, "rope_theta": 1' + b"0" * 5000 + b"}", "digits"),
], ids=["deep", "cut", "empty", "no text", "a key twice", "digits"])  # fmt: skip
def test_broken_files(contents, words, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=words) as raised:
        read(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("kind", [str, Path])
def test_names_of_models_are_not_paths(kind):
    """If config is the name of a model on the Hub, the error tells how to download its config."""
    with pytest.raises(FileNotFoundError) as error:
        pf.Rotary.from_config(kind("meta-llama/Llama-3.1-8B"))
    assert error.value.filename == str(Path("meta-llama/Llama-3.1-8B"))
    for words in (
        "config must be a mapping, the path of a config.json",
        "transformers.AutoConfig.from_pretrained('meta-llama/Llama-3.1-8B')",
        "huggingface_hub.hf_hub_download('meta-llama/Llama-3.1-8B', 'config.json')",
    ):
        assert words in str(error.value)


@pytest.mark.parametrize("name", ["nowhere/config.json", "config.json", "/nowhere/llama", "a/b/c"])
def test_missing_files(name):
    with pytest.raises(FileNotFoundError, match=re.escape(name)) as error:
        pf.Rotary.from_config(name)
    assert "config must be a mapping, the path of a config.json" in str(error.value)
    assert "from_pretrained" not in str(error.value)


# matches errors that name a part of the config or an argument of Rotary
ERROR = "config|layer|scaling|rope_type|head_dim|rotary_dim|base|sections|frequencies|attention_factor|amplitudes"


def test_garbage(rng):
    """For any config, from_config returns a Rotary or None, or raises TypeError or ValueError with a reason."""
    whole = [config for config, *_ in [*REFUSED.values(), *READ]]
    families_of = [{"model_type": models[0], "num_hidden_layers": 4} for models in table.families().values()]
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "qk_rope_head_dim": 16, "projection_dim": 64}
    keys = sorted({key for config in whole for key in config} | {"layer_types", "per_layer_config", "rope_scaling"})
    parameters = {key for scaling in _rope.SCALINGS.values() for key in scaling.parameters}
    inner = sorted(parameters | {"rope_theta", "mrope_section"})
    for _ in range(1000):
        config = dict((whole + families_of)[rng.integers(len(whole) + len(families_of))])
        if rng.random() < 0.5:
            config = sizes | config
        for _ in range(rng.integers(1, 3)):
            garbage = GARBAGE[rng.integers(len(GARBAGE))]
            if rng.random() < 0.5:
                config[keys[rng.integers(len(keys))]] = garbage
            else:
                rope = config.get("rope_parameters")
                rope_type = sorted(_rope.SCALINGS)[rng.integers(len(_rope.SCALINGS))]
                given = {"rope_type": rope_type, inner[rng.integers(len(inner))]: garbage}
                config["rope_parameters"] = (rope if isinstance(rope, dict) else {}) | given
        options = [{}, {"layer": 1}, {"layer_type": "full_attention"}, {"layout": "half"}][rng.integers(4)]
        try:
            found = read(config, **options)
        except (TypeError, ValueError) as error:
            found = str(error)
        assert found is None or isinstance(found, pf.Rotary) or re.search(ERROR, found), (config, found)


# ---- the table -------------------------------------------------------------------------------------------------------


def test_table_is_consistent():
    """In models.txt, no model type occurs twice, and all rules that rows name exist."""
    models = re.findall(r"^    models ((?:.*\n {12})*.*)", table.FILE.read_text("utf-8"), re.MULTILINE)
    text = re.sub(r"\([^)]*\)", "", " ".join(models))
    assert sorted(text.split()) == sorted(table.types())
    for model in table.types():
        row = table.row(model)
        assert row.sections is None or row.sections.rule in {*rules.AXES, *rules.COUNTED, "atoms"}
        assert row.layout in LAYOUTS
        assert row.source
        assert row.spectrum in {*rules.SPECTRA, "geometric"}
        assert row.parameters in {*rules.PARAMETERS, ""}
        assert row.rotary_dim in {*rules.ROTARY_DIMS, ""}
        assert set(row.without) <= set(rules.WITHOUT)
        for group in row.groups.values():
            assert group.rope_type in _rope.SCALINGS
            assert group.head in {*rules.HEADS, ""}
    followed = {part for parts in table.parts().values() for part in parts.values()}
    known = {*table.types(), *table.parts(), *table.pairs("unreadable"), *table.names("without")}
    assert followed <= known, followed - known


def test_table_is_read_when_a_config_is():
    """models.txt is read once, with the first config. The import of the package and `Rotary(8)` do not read it."""
    code = """if True:
        import sys
        opened = []
        sys.addaudithook(lambda event, arguments: event == "open" and opened.append(str(arguments[0])))
        import posenc_fast as pf
        pf.Rotary(8)
        assert "posenc_fast._models.config.table" not in sys.modules
        assert not any(name.endswith("models.txt") for name in opened)
        for model in ("llama", "gemma"):
            pf.Rotary.from_config({"model_type": model, "head_dim": 8})
        assert sum(name.endswith("models.txt") for name in opened) == 1, opened
    """
    result = python(code)
    assert result.returncode == 0, result.stderr


def test_page_of_the_documentation_is_current():
    root = checkout()
    script = python(root / "docs" / "make_rotary_models.py", "--print")
    assert script.returncode == 0, script.stderr
    assert (root / "docs" / "rotary-models.md").read_text(encoding="utf-8") == script.stdout
