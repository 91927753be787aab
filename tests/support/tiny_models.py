"""Tiny causal language models of transformers, with random weights."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

transformers.logging.set_verbosity_error()

SIZES = {
    **dict.fromkeys([
        "hidden_size", "d_model", "n_embd", "dim", "intermediate_size", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim",
    ], 64),
    **dict.fromkeys(["n_layer", "num_layers", "num_hidden_layers", "decoder_layers", "encoder_layers"], 2),
    **dict.fromkeys([
        "n_head", "num_attention_heads", "num_heads", "n_heads", "decoder_attention_heads", "encoder_attention_heads",
        "num_experts", "num_local_experts", "n_routed_experts",
    ], 4),
    **dict.fromkeys(["max_position_embeddings", "n_positions"], 128),
    **dict.fromkeys([
        "head_dim", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim",
    ], 16),
    **dict.fromkeys(["n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"], 1),
    **dict.fromkeys(["num_key_value_heads", "num_experts_per_tok", "eos_token_id"], 2),
    "moe_intermediate_size": 32, "vocab_size": 99, "pad_token_id": 0, "bos_token_id": 1, "initializer_range": 0.1,
}  # fmt: skip
_TURNING = """
afmoe apertus arcee aria_text beam bitnet cohere cohere2 cohere2_moe cwm deepseek_v4 diffllama doge ernie4_5
ernie4_5_moe exaone4 exaone_moe falcon flex_olmo flint gemma gemma2 gemma3_text glm glm4 glm4_moe gpt_neox
gpt_neox_japanese gpt_oss granite granite_swa granitemoe granitemoe_swa granitemoeshared helium hrm_text hy_v3 hy_v4
hyperclovax internlm3 iquestcoder jais2 jetmoe kolibri1 laguna lfm2 lfm3 llama llama4_text mellum mimo_v2_flash
minimax minimax_m2 minimax_m3_vl_text ministral3 mistral mixtral modernbert-decoder moshi nanochat olmo olmo2 olmo3
olmo_hybrid olmoe persimmon phi phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next
seed_oss smollm3 solar_open stablelm starcoder2 vaultgemma hunyuan_v1_dense hunyuan_v1_moe ministral codegen gptj
nemotron
"""
# models with latent attention; they get as many key heads as query heads (see OPTIONS)
_LATENT = """
deepseek_v2 axk1 axk2 bailing_hybrid deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa longcat_flash minicpm3 youtu
"""
_WITHOUT = """
bart bert bert-generation big_bird bigbird_pegasus biogpt blenderbot blenderbot-small bloom camembert cpmant ctrl
data2vec-text electra ernie gpt-sw3 gpt2 gpt_bigcode inkling2_text inkling_text marian mbart megatron-bert mpt mvp
nemotron_h openai-gpt opt pegasus plbart prophetnet rembert roberta roberta-prelayernorm roc_bert roformer rwkv
trocr whisper xglm xlm xlm-roberta xlm-roberta-xl xlnet
"""
# models that transformers 5.24 added
_NEWER = ["apertus1p5_text", "dory", "exaone", "lara_mini", "sarvam_mla", "sarvam_moe"]
# ROTARY: models with RoPE, for which `check` must be right. OTHERS: models that `check` must not call wrong.
ROTARY = (*_TURNING.split(), *_LATENT.split(), *(name for name in _NEWER if name in transformers.CONFIG_MAPPING))
OTHERS = (*_WITHOUT.split(), "kimi_linear")
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {"num_key_value_heads": 4} for name in (*_LATENT.split(), "kimi_linear", "sarvam_mla")},
    **{name: {"head_dim": 16} for name in ("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral")},
    **{name: {"rotary_dim": 8} for name in ("codegen", "gptj")},
    "deepseek_v2": {"num_key_value_heads": 4, "num_experts_per_tok": 2, "topk_method": "greedy"},
    "nemotron": {"head_dim": 16, "num_key_value_heads": 2},
}


def built(name: str) -> Any:
    """Return a model by its type, in evaluation mode, with weights from a fixed seed."""
    config_class = transformers.CONFIG_MAPPING[name]
    usual = config_class()
    other_names = getattr(usual, "attribute_map", {})
    names = {*usual.to_dict(), *other_names}
    sizes = {key: size for key, size in SIZES.items() if key in names and getattr(usual, key, None) is not None}
    sizes.update(OPTIONS.get(name, {}))
    for key, same in other_names.items():
        if key != same and key in sizes and same in sizes:
            del sizes[key]
    layer_types = getattr(usual, "layer_types", None)
    if isinstance(layer_types, list):
        # build one layer of each kind, and at least two layers
        one_of_each = list(dict.fromkeys(layer_types))
        sizes["layer_types"] = (2 * one_of_each)[: max(2, len(one_of_each))]
        for key in ("num_hidden_layers", "num_layers", "n_layer"):
            if key in sizes:
                sizes[key] = len(sizes["layer_types"])
    torch.manual_seed(0)
    return MODEL_FOR_CAUSAL_LM_MAPPING[config_class](config_class(**sizes)).eval()
