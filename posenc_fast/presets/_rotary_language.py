"""Rotary presets of language models."""

from __future__ import annotations

from .._core.numbers.schedule import geometric
from .._core.rotary.value import Rotary
from ..typing import LayerType, Precision
from ._build import positive
from ._registry import rotary_preset
from ._rotary_build import YARN, checked_layer_type, partial_dim, whole_pairs, with_theta

__all__ = [
    "cohere",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v4",
    "gemma3",
    "gemma4",
    "glm4",
    "gpt_neox",
    "gpt_oss",
    "gptj",
    "helium",
    "hunyuan",
    "llama",
    "llama3",
    "llama4",
    "mimo_v2_flash",
    "minimax_m2",
    "ministral3",
    "modernbert",
    "nanochat",
    "nomic_bert",
    "phi",
    "qwen3_next",
    "roformer",
]


@rotary_preset(
    source="huggingface/transformers: models/llama/modeling_llama.py, LlamaRotaryEmbedding",
    frequency="theta^(-2i/head_dim)",
    pairs="values half a head apart",
    differs="pairs are not adjacent values",
    also="Mistral, Mixtral, Qwen2, Qwen3, OLMo, Falcon, Gemma and StarCoder2, each with its own theta; CSM, Mimi and"
    " Dia; ACE-Step and Anima of diffusers",
    example="pf.presets.llama(64, theta=1e6) == pf.Rotary(64, base=1e6) -> True",
)
def llama(head_dim: int = 128, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Llama in Hugging Face, and of most later models."""
    return with_theta(head_dim, theta, frequencies)


@rotary_preset(
    source="huggingface/transformers: modeling_rope_utils.py, _compute_llama3_parameters",
    frequency="theta^(-2i/head_dim), divided by factor if the wavelength is above 8192 positions, by a smaller"
    " number if it is between 2048 and 8192",
    pairs="values half a head apart",
    differs="pairs are not adjacent values; frequencies with wavelengths above 2048 positions are divided",
    also="Llama 3.2 with factor 32",
    example="round(float(pf.presets.llama3().frequencies[-1]), 9) -> 3.07e-07",
)
def llama3(head_dim: int = 128, *, theta: float = 500000.0, factor: float = 8.0) -> Rotary:
    """Rotary embedding of Llama 3.1, which divides the frequencies of slow pairs by a factor."""
    scaling = {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    return Rotary(whole_pairs(head_dim, "head_dim"), base=positive(theta, "theta"), scaling=scaling)


@rotary_preset(
    source="huggingface/transformers: models/llama4/modeling_llama4.py, Llama4TextRotaryEmbedding",
    frequency="theta^(-2i/head_dim)",
    pairs="adjacent values",
    positions="the token's index from 0; every fourth layer has no rotary encoding",
    differs="the default of theta is 500000 instead of 10000",
    also="meta-llama/llama (theta 10000)",
    example='pf.presets.llama4(64) == pf.Rotary(64, base=5e5, layout="interleaved") -> True',
)
def llama4(head_dim: int = 128, *, theta: float = 500000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Llama 4's text, and of the original Llama code."""
    return with_theta(head_dim, theta, frequencies, layout="interleaved")


@rotary_preset(
    source="huggingface/transformers: models/gpt_neox/modeling_gpt_neox.py, GPTNeoXRotaryEmbedding",
    frequency="theta^(-2i/D), D = partial_rotary_factor * head_dim rounded down",
    pairs="values D/2 apart, among the first D values of a head",
    odd="ValueError unless partial_rotary_factor * head_dim, rounded down, is even and at least 2",
    differs="pairs are not adjacent values; only a part of each head rotates",
    also="Pythia; StableLM",
    example="pf.presets.gpt_neox(96).rotary_dim -> 24",
)
def gpt_neox(head_dim: int = 96, *, partial_rotary_factor: float = 0.25, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of GPT-NeoX, which rotates the first quarter of a head."""
    return with_theta(head_dim, theta, rotary_dim=partial_dim(head_dim, partial_rotary_factor))


@rotary_preset(
    source="huggingface/transformers: models/gptj/modeling_gptj.py, create_sinusoidal_positions",
    frequency="10000^(-2i/rotary_dim)",
    pairs="adjacent values, among the first rotary_dim values of a head",
    odd="ValueError if rotary_dim is odd, or above head_dim",
    differs="only a part of each head rotates",
    also="CodeGen",
)
def gptj(head_dim: int = 256, *, rotary_dim: int = 64) -> Rotary:
    """Rotary embedding of GPT-J."""
    return with_theta(head_dim, rotary_dim=whole_pairs(rotary_dim, "rotary_dim"), layout="interleaved")


@rotary_preset(
    source="huggingface/transformers: models/phi/modeling_phi.py, PhiRotaryEmbedding",
    frequency="theta^(-2i/D), D = partial_rotary_factor * head_dim rounded down",
    pairs="values D/2 apart, among the first D values of a head",
    odd="ValueError unless partial_rotary_factor * head_dim, rounded down, is even and at least 2",
    differs="pairs are not adjacent values; only a part of each head rotates",
    also="Persimmon, Nemotron, Bamba; Stable Audio Open in diffusers",
    example="pf.presets.phi(64).rotary_dim -> 32",
)
def phi(head_dim: int = 64, *, partial_rotary_factor: float = 0.5, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of Phi, which rotates the first half of a head."""
    return with_theta(head_dim, theta, rotary_dim=partial_dim(head_dim, partial_rotary_factor))


@rotary_preset(
    source="huggingface/transformers: models/roformer/modeling_roformer.py, RoFormerSinusoidalPositionalEmbedding",
    frequency="10000^(-2i/head_dim)",
    pairs="adjacent values",
    differs="nothing",
    example='pf.presets.roformer(64) == pf.Rotary(64, layout="interleaved") -> True',
)
def roformer(head_dim: int = 64) -> Rotary:
    """Rotary embedding of RoFormer, the first one that was published."""
    return with_theta(head_dim, layout="interleaved")


@rotary_preset(
    source="huggingface/transformers: models/glm4/modeling_glm4.py, Glm4RotaryEmbedding",
    frequency="theta^(-2i/D), D = partial_rotary_factor * head_dim rounded down",
    pairs="adjacent values, among the first D values of a head",
    odd="ValueError unless partial_rotary_factor * head_dim, rounded down, is even and at least 2",
    differs="only a part of each head rotates",
    also="ChatGLM2; ChatGLM3, which is also the text encoder of Kolors",
    example="pf.presets.glm4(128).rotary_dim -> 64",
)
def glm4(head_dim: int = 128, *, partial_rotary_factor: float = 0.5, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of GLM-4, which rotates the first half of a head."""
    return with_theta(head_dim, theta, rotary_dim=partial_dim(head_dim, partial_rotary_factor), layout="interleaved")


@rotary_preset(
    source="huggingface/transformers: models/cohere/modeling_cohere.py, CohereRotaryEmbedding",
    frequency="theta^(-2i/head_dim)",
    pairs="adjacent values",
    differs="the default of theta is 500000 instead of 10000",
    also="Command R7B, Ernie 4.5",
    example="pf.presets.cohere() == pf.presets.llama4() -> True",
)
def cohere(head_dim: int = 128, *, theta: float = 500000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Command R."""
    return with_theta(head_dim, theta, frequencies, layout="interleaved")


@rotary_preset(
    source="huggingface/transformers: models/helium/modeling_helium.py, HeliumRotaryEmbedding",
    frequency="theta^(-2i/head_dim)",
    pairs="adjacent values",
    differs="the default of theta is 100000 instead of 10000",
    example='pf.presets.helium() == pf.Rotary(128, base=1e5, layout="interleaved") -> True',
)
def helium(head_dim: int = 128, *, theta: float = 100000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Helium."""
    return with_theta(head_dim, theta, frequencies, layout="interleaved")


@rotary_preset(
    source="huggingface/transformers: models/nanochat/modeling_nanochat.py, NanoChatRotaryEmbedding",
    frequency="-theta^(-2i/head_dim)",
    pairs="values half a head apart",
    differs="pairs are not adjacent values; the rotation goes in the opposite direction",
    example="pf.presets.nanochat(4).tables(2)[1][1].round(4) -> array([-0.8415, -0.01  ], dtype=float32)",
)
def nanochat(head_dim: int = 128, *, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of nanochat, which rotates backwards."""
    head = whole_pairs(head_dim, "head_dim")
    return Rotary(head, frequencies=geometric(head // 2, base=positive(theta, "theta"), first=-1.0))


@rotary_preset(
    source="huggingface/transformers: models/deepseek_v2/modeling_deepseek_v2.py, DeepseekV2RotaryEmbedding; "
    "defaults from the checkpoint's config.json",
    frequency="10000^(-2i/head_dim), divided by factor for slow pairs, by less for medium pairs (YaRN, original length"
    " 4096)",
    pairs="adjacent values, among the last qk_rope_head_dim values of a query, and in the part of the key that all"
    " heads share",
    differs="slow frequencies are divided by factor; the source also multiplies attention scores by (0.1 * mscale *"
    " ln(factor) + 1)^2",
    example="pf.presets.deepseek_v2().attention_factor -> 1.0",
)
def deepseek_v2(head_dim: int = 64, *, factor: float = 40.0, mscale: float = 0.707) -> Rotary:
    """Rotary embedding of DeepSeek-V2, for the rotary part of a head."""
    scaling = {**YARN, "factor": factor, "mscale": mscale, "mscale_all_dim": mscale}
    return Rotary(whole_pairs(head_dim, "head_dim"), scaling=scaling, layout="interleaved")


@rotary_preset(
    source="huggingface/transformers: models/deepseek_v3/modeling_deepseek_v3.py, "
    "apply_rotary_pos_emb_interleave; defaults from the checkpoint's config.json",
    frequency="10000^(-2i/head_dim), divided by factor for slow pairs, by less for medium pairs (YaRN, original length"
    " 4096)",
    pairs="adjacent values before the rotation, head_dim/2 apart after it; among the last qk_rope_head_dim values of a"
    " query, and in the part of the key that all heads share",
    differs="slow frequencies are divided by factor; the rotated values are in another order; the source also"
    " multiplies attention scores by (0.1 * ln(factor) + 1)^2",
    also="Kimi K2, but with factor 32 and theta 50000: use `Rotary.from_config`",
    example="round(float(pf.presets.deepseek_v3().frequencies[-1]), 9) -> 3.334e-06",
)
def deepseek_v3(head_dim: int = 64, *, factor: float = 40.0) -> Rotary:
    """Rotary embedding of DeepSeek-V3 and R1, for the rotary part of a head."""
    scaling = {**YARN, "factor": factor, "mscale": 1.0, "mscale_all_dim": 1.0}
    return Rotary(whole_pairs(head_dim, "head_dim"), scaling=scaling, layout="interleaved_to_half")


@rotary_preset(
    source="huggingface/transformers: models/deepseek_v4/modeling_deepseek_v4.py, DeepseekV4RotaryEmbedding; "
    "defaults from the checkpoint's config.json",
    frequency="theta^(-2i/head_dim), divided by factor for slow pairs, by less for medium pairs (YaRN, original length"
    " 65536)",
    pairs="adjacent values, in the last eighth of a head: apply the Rotary to `x[..., -64:]`; the output of attention"
    " is rotated back",
    positions="the token's index from 0; a compressed key has the position of the first token of its window",
    differs="slow frequencies are divided by factor; sliding layers have theta 10000 and no YaRN",
    example="pf.presets.deepseek_v4().attention_factor -> 1.0",
)
def deepseek_v4(head_dim: int = 64, *, theta: float = 160000.0, factor: float = 16.0) -> Rotary:
    """Rotary embedding of DeepSeek-V4's compressed layers, for the rotary part of a head."""
    scaling = {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": 65536,
        "attention_factor": 1.0,
    }
    return Rotary(
        whole_pairs(head_dim, "head_dim"), base=positive(theta, "theta"), scaling=scaling, layout="interleaved"
    )


@rotary_preset(
    source="huggingface/transformers: models/gpt_oss/modeling_gpt_oss.py, GptOssRotaryEmbedding",
    frequency="theta^(-2i/head_dim), divided by factor for slow pairs, by less for medium pairs (YaRN without rounding,"
    " original length 4096)",
    pairs="values half a head apart",
    differs="pairs are not adjacent values; slow frequencies are divided by factor, and cosines and sines are"
    " multiplied by 0.1 * ln(factor) + 1",
    example="round(pf.presets.gpt_oss().attention_factor, 4) -> 1.3466",
)
def gpt_oss(head_dim: int = 64, *, theta: float = 150000.0, factor: float = 32.0) -> Rotary:
    """Rotary embedding of gpt-oss."""
    return Rotary(
        whole_pairs(head_dim, "head_dim"),
        base=positive(theta, "theta"),
        scaling={**YARN, "factor": factor, "truncate": False},
    )


@rotary_preset(
    source="huggingface/transformers: models/ministral3/modeling_ministral3.py, Ministral3RotaryEmbedding",
    frequency="theta^(-2i/head_dim), divided by factor for slow pairs, by less for medium pairs (YaRN, original length"
    " 16384)",
    pairs="values half a head apart",
    differs="pairs are not adjacent values; slow frequencies are divided by factor; the source also multiplies"
    " queries by 1 + 0.1 * ln(1 + position // 16384)",
    example="pf.presets.ministral3().attention_factor -> 1.0",
)
def ministral3(head_dim: int = 128, *, theta: float = 1000000.0, factor: float = 16.0) -> Rotary:
    """Rotary embedding of Ministral 3."""
    scaling = {
        **YARN,
        "original_max_position_embeddings": 16384,
        "factor": factor,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    }
    return Rotary(whole_pairs(head_dim, "head_dim"), base=positive(theta, "theta"), scaling=scaling)


@rotary_preset(
    source="huggingface/transformers: models/hunyuan_v1_dense/modeling_hunyuan_v1_dense.py, "
    "HunYuanDenseV1RotaryEmbedding; default of alpha from the checkpoint's config.json",
    frequency="(theta * alpha^(D/(D-2)))^(-2i/D), D = head_dim",
    pairs="values half a head apart",
    differs="pairs are not adjacent values; the base is multiplied by a power of alpha",
    example="round(float(pf.presets.hunyuan().frequencies[1]), 6) -> 0.776034",
)
def hunyuan(head_dim: int = 128, *, theta: float = 10000.0, alpha: float = 1000.0) -> Rotary:
    """Rotary embedding of HunYuan, whose base is multiplied by a power of alpha."""
    return Rotary(
        whole_pairs(head_dim, "head_dim"), base=positive(theta, "theta"), scaling={"rope_type": "ntk", "alpha": alpha}
    )


@rotary_preset(
    source="huggingface/transformers: models/gemma3/modeling_gemma3.py, Gemma3RotaryEmbedding",
    frequency="10000^(-2i/head_dim) in sliding layers, 1000000^(-2i/head_dim) / factor in full layers",
    pairs="values half a head apart",
    differs="pairs are not adjacent values; the base depends on the kind of layer",
    also="Gemma 3n, T5Gemma 2; released checkpoints of Gemma 3 with 4B and more have factor 8",
    example='pf.presets.gemma3(layer_type="sliding_attention") == pf.Rotary(256) -> True',
)
def gemma3(head_dim: int = 256, *, layer_type: LayerType = "full_attention", factor: float = 1.0) -> Rotary:
    """Rotary embedding of Gemma 3, for one kind of layer."""
    if checked_layer_type(layer_type) == "sliding_attention":
        return with_theta(head_dim)
    if factor == 1:
        return with_theta(head_dim, 1e6)
    return Rotary(whole_pairs(head_dim, "head_dim"), base=1e6, scaling={"rope_type": "linear", "factor": factor})


@rotary_preset(
    source="huggingface/transformers: models/gemma4/modeling_gemma4.py, Gemma4TextRotaryEmbedding",
    frequency="10000^(-2i/256) in sliding layers; in full layers 1000000^(-2i/512) for the first 64 pairs, 0 for the"
    " rest",
    pairs="values half a head apart",
    odd="always 512 values in full layers, 256 in sliding layers",
    differs="pairs are not adjacent values; full layers have heads of 512, and three quarters of the pairs do not"
    " rotate",
    example="rotary = pf.presets.gemma4()\nrotary.head_dim, int((rotary.frequencies > 0).sum()) -> (512, 64)",
)
def gemma4(*, layer_type: LayerType = "full_attention") -> Rotary:
    """Rotary embedding of Gemma 4's text, for one kind of layer."""
    if checked_layer_type(layer_type) == "sliding_attention":
        return with_theta(256)
    return Rotary(512, base=1e6, scaling={"rope_type": "proportional", "partial_rotary_factor": 0.25})


@rotary_preset(
    source="huggingface/transformers: models/modernbert/modeling_modernbert.py, ModernBertRotaryEmbedding",
    frequency="10000^(-2i/head_dim) in sliding layers, 160000^(-2i/head_dim) in full layers",
    pairs="values half a head apart",
    positions="the token's index from 0 in its own sequence, also if a batch packs several sequences into one row",
    differs="pairs are not adjacent values; the base depends on the kind of layer",
    example="pf.presets.modernbert() == pf.Rotary(64, base=160000.0) -> True",
)
def modernbert(head_dim: int = 64, *, layer_type: LayerType = "full_attention") -> Rotary:
    """Rotary embedding of ModernBERT, for one kind of layer."""
    return with_theta(head_dim, 1e4 if checked_layer_type(layer_type) == "sliding_attention" else 1.6e5)


@rotary_preset(
    source="huggingface/transformers: models/mimo_v2_flash/modeling_mimo_v2_flash.py, MiMoV2FlashRotaryEmbedding",
    frequency="theta^(-2i/D), D = 0.334 * head_dim rounded down, theta 10000 in sliding layers and 5000000 in full"
    " layers",
    pairs="values D/2 apart, among the first D values of a head",
    odd="ValueError unless 0.334 * head_dim, rounded down, is even and at least 2",
    differs="pairs are not adjacent values; the base depends on the kind of layer; only a part of each head rotates",
)
def mimo_v2_flash(head_dim: int = 192, *, layer_type: LayerType = "full_attention") -> Rotary:
    """Rotary embedding of MiMo-V2-Flash, for one kind of layer."""
    theta = 1e4 if checked_layer_type(layer_type) == "sliding_attention" else 5e6
    return with_theta(head_dim, theta, rotary_dim=partial_dim(head_dim, 0.334))


@rotary_preset(
    source="huggingface/transformers: models/minimax_m2/modeling_minimax_m2.py, MiniMaxM2RotaryEmbedding; "
    "default of rotary_dim from the checkpoint's config.json",
    frequency="theta^(-2i/rotary_dim)",
    pairs="values rotary_dim/2 apart, among the first rotary_dim values of a head",
    odd="ValueError if rotary_dim is odd, or above head_dim",
    differs="pairs are not adjacent values; only a part of each head rotates",
    example="pf.presets.minimax_m2() == pf.Rotary(128, base=5e6, rotary_dim=64) -> True",
)
def minimax_m2(head_dim: int = 128, *, rotary_dim: int = 64, theta: float = 5000000.0) -> Rotary:
    """Rotary embedding of MiniMax-M2."""
    return with_theta(head_dim, theta, rotary_dim=whole_pairs(rotary_dim, "rotary_dim"))


@rotary_preset(
    source="huggingface/transformers: models/qwen3_next/modeling_qwen3_next.py, Qwen3NextRotaryEmbedding; "
    "default of theta from the checkpoint's config.json",
    frequency="theta^(-2i/D), D = head_dim / 4 rounded down",
    pairs="values D/2 apart, among the first D values of a head",
    odd="ValueError unless head_dim / 4, rounded down, is even and at least 2",
    differs="pairs are not adjacent values; only a part of each head rotates",
)
def qwen3_next(head_dim: int = 256, *, theta: float = 10000000.0) -> Rotary:
    """Rotary embedding of Qwen3-Next's attention layers."""
    return with_theta(head_dim, theta, rotary_dim=partial_dim(head_dim, 0.25))


@rotary_preset(
    source="huggingface/transformers: models/nomic_bert/modeling_nomic_bert.py, NomicBertRotaryEmbedding",
    frequency="theta^(-2i/head_dim)",
    pairs="values half a head apart",
    differs="pairs are not adjacent values; the default of theta is 1000 instead of 10000",
    example="pf.presets.nomic_bert() == pf.Rotary(64, base=1000.0) -> True",
)
def nomic_bert(head_dim: int = 64, *, theta: float = 1000.0) -> Rotary:
    """Rotary embedding of Nomic Embed."""
    return with_theta(head_dim, theta)
