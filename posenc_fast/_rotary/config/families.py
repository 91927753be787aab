"""How the models of each type turn queries and keys: a table, read by `arguments.py` and printed into the docs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..._numbers.arguments import count_of, real

__all__ = ["FAMILIES", "UNKNOWN", "Family", "LayerGroup", "NoRotary", "Pattern", "Sections"]

Config = Mapping[str, Any]


class LayerGroup(NamedTuple):
    """What layers with rotary parameters of their own say in these."""

    base: float
    base_keys: tuple[str, ...] = ()
    # where a config has no rotary parameters for them; the factor always where these have none
    factor: float | None = None
    always: bool = False
    rope_type: str = "default"
    # whether rotary parameters that name no group are for this one, and what is added to them: rope_type, key, value
    flat: bool = False
    # whether its base is for a config without rotary parameters alone
    unscaled_base: bool = False
    defaults: tuple[tuple[str, str, Any], ...] = ()
    # types of layers, where they do not have the name of the group; another width of heads
    layer_types: tuple[str, ...] = ()
    head: Callable[[Config], int | None] | None = None


class Pattern(NamedTuple):
    """Which layers are full_attention where a config does not list them: those with (i + 1) % every == 0, or with
    i % every == 0, and the last if it always is; the others are sliding_attention."""

    key: str
    every: int
    first: bool = False
    last: bool = False


class Sections(NamedTuple):
    """How pairs choose an axis: a rule of `axes.py`, the counts if a config has none, what the axes are."""

    rule: str
    default: tuple[int, ...] | None
    axes: str = "(t, row, column)"


class NoRotary(NamedTuple):
    """Layers without rotary encoding: a rule of `layers.py`, its key, and both in words."""

    rule: str
    key: str = ""
    words: str = ""


class Family(NamedTuple):
    """Models that turn alike. Keys are those of a config; base and factor may stand in its rotary parameters as well."""

    name: str
    # their types, and where their code is
    models: str
    source: str
    # of the pairs; a key, and the layout where it is false; what turns, in words
    layout: str = "half"
    switch: tuple[str, str] | None = None
    turned: str = "the head"
    # how many values are turned together: keys, or else a quotient of two
    width: tuple[str, ...] = ("head_dim",)
    per_head: tuple[str, str] | None = ("hidden_size", "num_attention_heads")
    # the part of them that turns if a config has none; None where the class reads none, and all turn: then `only` is
    # the one that may stand there
    factor: float | None = None
    only: float = 1.0
    factor_keys: tuple[str, ...] = ("partial_rotary_factor",)
    # or how many turn: keys, whether the class reads them, and the number where they are missing
    dims: tuple[str, ...] = ()
    dims_read: bool = True
    usual_dim: int | None = None
    # or that number from the width, and from what a function of a key gives
    rotary_dim: Callable[[Callable[[str], int], int], int] | None = None
    # the base; a key of the bases of all layers, which win over it
    base_keys: tuple[str, ...] = ("rope_theta",)
    layer_bases: str = ""
    # layers with rotary parameters of their own, by the names of these
    groups: Mapping[str, LayerGroup] = {}
    # the types of all layers, beside layer_types: a key of numbers that stand for them; what they are if a config has none
    codes: tuple[str, Mapping[int, str]] = ("", {})
    pattern: Pattern | None = None
    # layers that do not turn; a key of those that are scaled, where others are not
    without: tuple[NoRotary, ...] = ()
    scaled_layers: str = ""
    # whether rotary parameters that name no group are added to a rope_type, so that `type` is not read
    preset: bool = False
    # whether a base, and a part of the width outside of it, are read in rotary parameters
    inner_base: bool = True
    outer_factor: bool = True
    # makes the rotary parameters of a config that has them elsewhere
    parameters: Callable[[Config], dict[str, Any]] | None = None
    # which axes pairs read; frequencies that are no progression from 1, by their name in spectra.py
    sections: Sections | None = None
    spectrum: str = "geometric"
    # keys of rotary parameters that are of no scaling; other names of a rope_type; whether there is any but the default
    also: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}
    scalable: bool = True
    # further keys that the functions of this row, of its groups, and of its rules and frequencies read
    keys: tuple[str, ...] = ()
    # what a config must have: a key, its value, the value where it is missing, and what another means
    needs: tuple[tuple[str, Any, Any, str], ...] = ()
    note: str = ""


def _global_head(config: Config) -> int | None:
    if "per_layer_config" in config:
        return None
    return count_of(config.get("global_head_dim", 512), "config['global_head_dim']", 2)


def _sliding_dots(config: Config) -> int | None:
    if "per_layer_config" in config:
        return None
    rope, head, rest = (config.get(f"swa_{key}") for key in ("qk_rope_head_dim", "head_dim", "qk_nope_head_dim"))
    if rope is not None:
        return count_of(rope, "config['swa_qk_rope_head_dim']", 2)
    whole = 256 if head is None else count_of(head, "config['swa_head_dim']", 2)
    return whole - (192 if rest is None else count_of(rest, "config['swa_qk_nope_head_dim']", 0))


def _chatglm(config: Config) -> dict[str, Any]:
    given = config.get("rope_ratio")
    ratio = 1.0 if given is None else real(given, "config['rope_ratio']", positive=True)
    # the code of chatglm2-6b-32k divides positions by what later models multiply the base by
    if ratio != 1 and "chatglm2" in str(config.get("_name_or_path")).lower():
        return {"rope_theta": _SMALL, "rope_type": "linear", "factor": ratio}
    return {"rope_theta": _SMALL * ratio}


_GROK = ("beta_fast", "beta_slow", "extrapolation_factor")


def _grok(config: Config) -> dict[str, Any]:
    if "rope_theta" in config and config["rope_theta"] is None:
        raise ValueError("config['rope_theta']=None is no base; give a number, or leave it out for 10000")
    rope: dict[str, Any] = {"rope_theta": config.get("rope_theta", _SMALL)}
    if config.get("rope_rotate_half_dims"):
        rope["partial_rotary_factor"] = 0.5
    name = str(config.get("rope_type") or "original")
    if name == "original":
        return rope
    rope |= {"rope_type": {"yarn_linear": "yarn"}.get(name, name), "factor": config.get("scaling_factor")}
    if rope["rope_type"] == "yarn":
        rope["attention_factor"] = 1.0
    if name != "theta_scale":
        rope |= {key: config[key] for key in _GROK if config.get(key) is not None}
    if rope["rope_type"] == "yarn" and rope.get("extrapolation_factor") == 1:
        del rope["extrapolation_factor"]
    return rope


_MLA = "the last qk_rope_head_dim values of a query and the key that all heads share"
_LLAMA = "transformers: modeling_llama.py, and files made from it"
_SMALL = 10000.0


def _two(
    sliding: float, full: float, keys: tuple[str, str] = ("", ""), flat: str = "", **more: Any
) -> dict[str, LayerGroup]:
    """Layers with a window and layers without: their bases, and the keys of these outside the rotary parameters."""
    return {
        name: LayerGroup(base, (key,) if key else (), flat=flat in (name, "both"), **more)
        for name, base, key in (("sliding_attention", sliding, keys[0]), ("full_attention", full, keys[1]))
    }


_GEMMA = _two(1e4, 1e6, ("rope_local_base_freq", "rope_theta"), "full_attention")
_FULL = NoRotary("full_attention", words="layers of full_attention have none")
_WINDOWED = NoRotary(
    "full_attention_if", "sliding_window", "layers of full_attention have none, unless sliding_window is null"
)
_LISTED = NoRotary("zero", "no_rope_layers", "layers whose no_rope_layers is 0 (every 4th if not given) have none")
_BASES_OF_LAYERS = NoRotary("zero", "layer_rope_theta", "layers whose layer_rope_theta is 0 have none")
_HYBRID = NoRotary("other", words="layers without attention (mamba, linear, conv, recurrent) have none")
_VISION = Sections("axial", None, "(row, column)")
_GEMMA4 = {
    "sliding_attention": LayerGroup(1e4),
    "full_attention": LayerGroup(1e6, factor=0.25, rope_type="proportional", head=_global_head),
}

# models of unknown types, whose layout the caller gives
UNKNOWN = Family(
    "unknown",
    "",
    "",
    width=("qk_rope_head_dim", "head_dim"),
    factor=1.0,
    factor_keys=("partial_rotary_factor", "rotary_pct"),
    dims=("rotary_dim",),
    base_keys=("rope_theta", "rotary_emb_base", "rope_embedding_base"),
    sections=Sections("flagged", None),
    also=("alpha", "xdrope_section"),
    aliases={"openpangu": "default"},
    keys=("position_embedding_type", "position_embeddings_type"),
    needs=(
        ("alibi", False, False, "ALiBi"),
        ("use_rope", True, True, "no rotary encoding"),
        ("rope_position_scale", 1, 1, "positions that are scaled"),
    ),
)

FAMILIES = (
    Family(
        "Llama",
        "apertus arcee aria_text bitnet chameleon csm csm_depth_decoder_model cwm dbrx deepseek deepseek_ocr2_encoder "
        "dia_decoder dia_encoder diffllama doge dots1 emu3_text_model esmc eurobert evolla exaone "
        "flex_olmo gemma gemma2 gradium_phonon_tts granite granite4_vision_text granite_docling_text granitemoe "
        "granitemoeshared gte higgs_audio_v2 hrm_text hy_v3 hyperclovax idefics internlm2 internlm3 iquestcoder jais2 "
        "jina_embeddings_v3 kyutai_speech_to_text lasr_encoder llama mimi mimi_decoder mimi_encoder ministral mistral "
        "mixtral mllama_text_model moshi muse_glimmer_assistant neucodec nomic_bert olmo olmo2 olmoe pocket_tts "
        "pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder pocket_tts_audio_tokenizer_encoder qwen2 "
        "qwen2_moe qwen3 qwen3_moe qwen3_omni_moe_code2wav qwen3_omni_moe_talker_code_predictor seed_oss solar_open starcoder2 "
        "t5_gemma_module timesfm2_5 vaultgemma voxtral_realtime_encoder voxtral_realtime_text "
        "xcodec2",
        _LLAMA,
        note="original files of Llama and Mistral have pairs side by side: layout='interleaved'",
    ),
    Family(
        "OCR",
        "deepseek_ocr2_text unlimited_ocr_text",
        "transformers: modeling_deepseek_ocr2.py, modeling_unlimited_ocr.py",
        width=(),
    ),
    Family("Falcon", "falcon", "transformers: modeling_falcon.py", needs=(("alibi", False, False, "ALiBi"),)),
    Family(
        "AFMoE",
        "afmoe",
        "transformers: modeling_afmoe.py",
        without=(_FULL,),
        pattern=Pattern("global_attn_every_n_layers", 4),
    ),
    Family("Flint", "flint", "transformers: modeling_flint.py", without=(_FULL,)),
    Family("EXAONE 4", "exaone4 exaone_moe kolibri1", "transformers: modeling_exaone4.py", without=(_WINDOWED,)),
    Family("SmolLM 3", "smollm3", "transformers: modeling_smollm3.py", without=(_LISTED,)),
    Family(
        "Granite with windows",
        "granite_swa granitemoe_swa",
        "transformers: modeling_granite_swa.py",
        layer_bases="layer_rope_theta",
        without=(_BASES_OF_LAYERS,),
        note="layer_rope_theta has the base of each layer",
    ),
    Family(
        "Muse",
        "muse_glimmer_text muse_spark_text",
        "transformers: modeling_muse_glimmer.py",
        without=(_BASES_OF_LAYERS,),
    ),
    Family(
        "hybrids",
        "falcon_h1 lfm2 lfm2_moe minimax",
        "transformers: modeling_lfm2.py, modeling_minimax.py, modeling_falcon_h1.py",
        without=(_HYBRID,),
    ),
    Family(
        "Granite, hybrid",
        "granitemoehybrid",
        "transformers: modeling_granitemoehybrid.py",
        without=(_HYBRID,),
        needs=(("position_embedding_type", "rope", None, "no rotary encoding"),),
    ),
    Family(
        "OLMo, hybrid",
        "olmo_hybrid",
        "transformers: modeling_olmo_hybrid.py",
        without=(_HYBRID, NoRotary("no_base", words="rope_theta null means none")),
    ),
    Family("JetMoE", "jetmoe", "transformers: modeling_jetmoe.py", width=("kv_channels",), per_head=None),
    Family(
        "Zamba 2",
        "zamba2",
        "transformers: modeling_zamba2.py",
        width=("attention_head_dim",),
        per_head=None,
        without=(_HYBRID,),
        needs=(("use_mem_rope", True, False, "no rotary encoding"),),
    ),
    Family(
        "a part of the head",
        "glm4_moe glmasr_encoder minimax_m3_vl_text nemotron "
        "nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp nemotron3_diarization_audio persimmon "
        "phi stablelm",
        "transformers: modeling_phi.py, modeling_stablelm.py, modeling_glm4_moe.py",
        factor=1.0,
        dims=("rotary_dim",),
        dims_read=False,
    ),
    Family(
        "dots 3's audio",
        "dots3_note_audio_encoder",
        "transformers: modeling_dots3_note.py",
        width=(),
        factor=1.0,
    ),
    Family(
        "GPT-NeoX",
        "gpt_neox gpt_neox_japanese",
        "transformers: modeling_gpt_neox.py",
        factor=1.0,
        factor_keys=("rotary_pct",),
        outer_factor=False,
        base_keys=("rotary_emb_base",),
    ),
    Family("MiniMax M2", "minimax_m2", "transformers: modeling_minimax_m2.py", factor=1.0, dims=("rotary_dim",)),
    Family(
        "Phi-3",
        "phi3 phi4_multimodal",
        "transformers: modeling_phi3.py",
        factor=1.0,
        aliases={"su": "longrope", "yarn": "longrope"},
    ),
    Family(
        "PhiMoE",
        "phimoe",
        "transformers: modeling_phimoe.py",
        also=("short_mscale", "long_mscale"),
        spectrum="phimoe",
        note="cosines and sines are multiplied by short_mscale or, past the original length, long_mscale; transformers 5.0 to "
        "5.23 have the frequencies of short_factor at every length, other than Microsoft's code",
    ),
    Family(
        "Bamba",
        "bamba",
        "transformers: modeling_bamba.py",
        factor=0.5,
        outer_factor=False,
        without=(_HYBRID,),
    ),
    Family(
        "Qwen3-Next",
        "qwen3_next",
        "transformers: modeling_qwen3_next.py",
        factor=0.25,
        without=(_HYBRID,),
    ),
    Family(
        "RecurrentGemma",
        "recurrent_gemma",
        "transformers: modeling_recurrent_gemma.py",
        factor=0.5,
        without=(_HYBRID,),
        scalable=False,
    ),
    Family(
        "half tables", "gpt_oss", "transformers: modeling_gpt_oss.py", note="as Llama, with tables of half the width"
    ),
    Family(
        "pairs side by side",
        "cohere helium ernie4_5 ernie4_5_moe blt_global_transformer blt_local_decoder blt_local_encoder blt_patcher "
        "openai_privacy_filter pe_audio_encoder pe_audio_video_encoder pe_video_encoder",
        "transformers: modeling_cohere.py, modeling_ernie4_5.py, modeling_blt.py, modeling_pe_audio.py",
        layout="interleaved",
    ),
    Family(
        "Cohere 2",
        "cohere2",
        "transformers: modeling_cohere2.py",
        layout="interleaved",
        without=(_FULL,),
        pattern=Pattern("sliding_window_pattern", 4),
    ),
    Family(
        "Cohere 2 MoE",
        "cohere2_moe",
        "transformers: modeling_cohere2_moe.py",
        layout="interleaved",
        without=(
            NoRotary(
                "cohere2_moe",
                words="layers of full_attention have none, unless their MLP is dense and prefix_dense_sliding_window_pattern is 1",
            ),
        ),
        keys=("mlp_layer_types", "prefix_dense_sliding_window_pattern"),
        needs=(("rope_scaling", None, None, "a scaling that transformers does not read"),),
    ),
    Family(
        "Llama 4",
        "llama4_text",
        "transformers: modeling_llama4.py",
        layout="interleaved",
        without=(_LISTED,),
        note="queries of the layers without are scaled by position instead",
    ),
    Family(
        "GLM",
        "glm glm4 moonshine_streaming",
        "transformers: modeling_glm.py",
        layout="interleaved",
        factor=1.0,
    ),
    Family(
        "Moonshine",
        "moonshine",
        "transformers: modeling_moonshine.py",
        layout="interleaved",
        factor=0.9,
        per_head=("hidden_size", "decoder_num_attention_heads"),
    ),
    Family(
        "ChatGLM",
        "chatglm",
        "THUDM/chatglm3-6b: modeling_chatglm.py; vLLM: models/chatglm.py",
        layout="interleaved",
        switch=("original_rope", "half"),
        width=("kv_channels",),
        factor=0.5,
        base_keys=("rope_ratio",),
        parameters=_chatglm,
        keys=("_name_or_path",),
        note="the base is 10000 * rope_ratio; a ChatGLM 2, by its _name_or_path, has a linear scaling by rope_ratio instead",
    ),
    Family(
        "GPT-J",
        "gptj codegen",
        "transformers: modeling_gptj.py",
        layout="interleaved",
        factor=1.0,
        factor_keys=(),
        dims=("rotary_dim",),
        usual_dim=64,
        base_keys=(),
        scalable=False,
    ),
    Family(
        "RoFormer",
        "roformer",
        "transformers: modeling_roformer.py",
        layout="interleaved",
        base_keys=(),
        scalable=False,
        note="with rotary_value, values turn, too",
    ),
    Family(
        "NanoChat", "nanochat", "transformers: modeling_nanochat.py", spectrum="backwards", note="angles are negative"
    ),
    Family(
        "HunYuan",
        "hunyuan_v1_dense hunyuan_v1_moe",
        "transformers: modeling_hunyuan_v1_dense.py",
        also=("alpha",),
        note="a dynamic scaling with alpha is ntk: base * alpha ** (d / (d - 2)) at every length; its other keys are not read",
    ),
    Family(
        "Molmo 2",
        "molmo2_text",
        "transformers: modeling_molmo2.py",
        scaled_layers="rope_scaling_layers",
        note="layers that rope_scaling_layers leaves out are not scaled",
    ),
    Family(
        "Ministral 3",
        "ministral3",
        "transformers: modeling_ministral3.py",
        also=("llama_4_scaling_beta", "max_position_embeddings"),
        note="turned queries are multiplied by 1 + llama_4_scaling_beta * ln(1 + floor(position / original length))",
    ),
    Family(
        "TeleChat 3",
        "telechat3",
        "Tele-AI/TeleChat3; vLLM: rotary_embedding/telechat3_scaling_rope.py",
        note="telechat3-yarn is yarn with the attention factor 0.07 ln(factor) + 1",
    ),
    Family(
        "Grok",
        "grok-1",
        "sglang: models/grok.py",
        factor=1.0,
        parameters=_grok,
        keys=("scaling_factor", *_GROK),
        note="cosines and sines are not multiplied by yarn's factor",
    ),
    # ---- latent attention
    Family(
        "DeepSeek V2",
        "deepseek_v2",
        "transformers: modeling_deepseek_v2.py",
        layout="interleaved",
        turned=_MLA,
        width=("qk_rope_head_dim",),
        per_head=None,
    ),
    Family(
        "DeepSeek V3",
        "deepseek_v3 kimi_k2 axk1 glm4_moe_lite youtu",
        "transformers: modeling_deepseek_v3.py; moonshotai/Kimi-K2-Instruct: modeling_deepseek.py",
        layout="interleaved_to_half",
        switch=("rope_interleave", "half"),
        turned=_MLA,
        width=("qk_rope_head_dim",),
        per_head=None,
    ),
    Family(
        "Mistral 4",
        "mistral4",
        "transformers: modeling_mistral4.py",
        layout="interleaved_to_half",
        switch=("rope_interleave", "half"),
        turned=_MLA,
        width=("qk_rope_head_dim",),
        per_head=None,
        also=("llama_4_scaling_beta", "max_position_embeddings"),
    ),
    Family(
        "DeepSeek V3.2",
        "axk2 deepseek_v32 glm_moe_dsa longcat_flash",
        "transformers: modeling_deepseek_v32.py, modeling_longcat_flash.py",
        layout="interleaved_to_half",
        turned=_MLA,
        width=("qk_rope_head_dim",),
        per_head=None,
        note="the indexers of deepseek_v32 and axk2 have halves",
    ),
    Family(
        "Bailing, hybrid",
        "bailing_hybrid",
        "transformers: modeling_bailing_hybrid.py",
        layout="interleaved_to_half",
        turned=_MLA,
        width=("qk_rope_head_dim",),
        per_head=None,
        without=(_HYBRID,),
    ),
    Family(
        "MiniCPM 3",
        "minicpm3 hy_v4",
        "transformers: modeling_minicpm3.py, modeling_hy_v4.py",
        turned=_MLA,
        width=("qk_rope_head_dim",),
        per_head=None,
    ),
    Family(
        "dots 3",
        "dots3_note_text",
        "transformers: modeling_dots3_note.py",
        layout="interleaved_to_half",
        turned=_MLA,
        width=("qk_rope_head_dim",),
        per_head=None,
        groups={
            "sliding_attention": LayerGroup(
                5e4, ("swa_rope_theta",), flat=True, unscaled_base=True, head=_sliding_dots
            ),
            "indexed_attention": LayerGroup(8e7, ("rope_theta",), flat=True),
            "full_attention": LayerGroup(8e7, ("rope_theta",), flat=True),
        },
        keys=("swa_qk_rope_head_dim", "swa_head_dim", "swa_qk_nope_head_dim"),
    ),
    Family(
        "DeepSeek V4",
        "deepseek_v4",
        "transformers: modeling_deepseek_v4.py",
        layout="interleaved",
        turned="the last values of a head; the output of attention is turned back",
        width=("qk_rope_head_dim",),
        per_head=None,
        codes=(
            "compress_ratios",
            {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"},
        ),
        groups={
            "main": LayerGroup(1e4, ("rope_theta",), layer_types=("sliding_attention",)),
            "compress": LayerGroup(
                1.6e5,
                ("compress_rope_theta",),
                flat=True,
                layer_types=("compressed_sparse_attention", "heavily_compressed_attention"),
                defaults=(("yarn", "attention_factor", 1.0),),
            ),
        },
    ),
    # ---- groups of layers
    Family(
        "Gemma 3",
        "gemma3_text t5gemma2_decoder t5gemma2_text",
        "transformers: modeling_gemma3.py",
        groups=_GEMMA,
        preset=True,
        pattern=Pattern("sliding_window_pattern", 6),
    ),
    Family("Gemma 3n", "gemma3n_text", "transformers: modeling_gemma3n.py", groups=_GEMMA, preset=True),
    Family(
        "ModernBERT",
        "modernbert modernbert-decoder",
        "transformers: modeling_modernbert.py",
        groups=_two(1e4, 1.6e5, ("local_rope_theta", "global_rope_theta"), "both"),
        preset=True,
        pattern=Pattern("global_attn_every_n_layers", 3, first=True),
    ),
    Family("UltraBERT", "ultrabert", "transformers: modeling_ultrabert.py", groups=_two(1e4, 2.56e6)),
    Family(
        "OLMo 3",
        "olmo3",
        "transformers: modeling_olmo3.py",
        groups=_two(5e5, 5e5, ("", "rope_theta"), "full_attention"),
        preset=True,
        pattern=Pattern("", 4),
        note="a rope_theta outside of rotary parameters is for full_attention alone",
    ),
    Family("Mellum", "mellum", "transformers: modeling_mellum.py", groups=_two(1e4, 5e5)),
    Family(
        "Laguna",
        "laguna",
        "transformers: modeling_laguna.py",
        groups={"sliding_attention": LayerGroup(1e4), "full_attention": LayerGroup(5e5, factor=0.5)},
        factor=1.0,
        outer_factor=False,
    ),
    Family("MiMo V2", "mimo_v2_flash", "transformers: modeling_mimo_v2_flash.py", groups=_two(1e4, 5e6), factor=0.334),
    Family(
        "Step 3.5",
        "step3p5",
        "transformers: modeling_step3p7.py",
        groups=_two(1e4, 1e4, ("rope_theta", "rope_theta"), "full_attention"),
        preset=True,
        factor=1.0,
        factor_keys=("partial_rotary_factors",),
        outer_factor=False,
        note="rope_theta and partial_rotary_factors may be lists, of an entry for each layer",
    ),
    Family(
        "Zaya",
        "zaya",
        "transformers: modeling_zaya.py",
        groups={"hybrid": LayerGroup(5e6, factor=0.5), "hybrid_sliding": LayerGroup(1e4, factor=0.5)},
        factor=1.0,
    ),
    Family("Beam", "beam", "transformers: modeling_beam.py", groups=_two(1e4, 1e4), without=(_FULL,)),
    Family(
        "Gemma 4",
        "gemma4_text gemma4_unified_text diffusion_gemma_text",
        "transformers: modeling_gemma4.py",
        groups=_GEMMA4,
        pattern=Pattern("", 6, last=True),
        keys=("global_head_dim",),
    ),
    Family(
        "EmbeddingGemma 2",
        "embedding_gemma2_text",
        "transformers: modeling_embedding_gemma2.py",
        groups={"sliding_attention": LayerGroup(1e4), "full_attention": LayerGroup(1e6, head=_global_head)},
        keys=("global_head_dim",),
    ),
    Family(
        "LFM 3",
        "lfm3",
        "transformers: modeling_lfm3.py",
        groups={
            "sliding_attention": LayerGroup(1e4),
            "full_attention": LayerGroup(1e6, factor=0.5, rope_type="proportional"),
        },
        without=(_HYBRID,),
    ),
    # ---- positions of several axes
    Family(
        "M-RoPE",
        "paddleocr_vl_text qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_vl_text qwen2_vl_text",
        "transformers: modeling_qwen2_vl.py",
        sections=Sections("contiguous", (16, 24, 24)),
    ),
    Family(
        "M-RoPE, a part of the head",
        "glm4v_moe_text glm_image_text",
        "transformers: modeling_glm4v_moe.py",
        factor=1.0,
        sections=Sections("contiguous", (8, 12, 12)),
    ),
    Family(
        "M-RoPE, pairs side by side",
        "glm4v_text glm_ocr_text",
        "transformers: modeling_glm4v.py",
        layout="interleaved",
        factor=1.0,
        sections=Sections("contiguous", (8, 12, 12)),
    ),
    Family(
        "M-RoPE in turn",
        "qwen3_omni_moe_talker_text qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text",
        "transformers: modeling_qwen3_vl.py",
        sections=Sections("in_turn", (24, 20, 20)),
    ),
    Family(
        "Cosmos 3 Edge",
        "cosmos3_edge_text",
        "transformers: modeling_cosmos3_edge.py",
        sections=Sections("in_turn", (24, 20, 20)),
        scalable=False,
    ),
    Family(
        "M-RoPE in turn, a part of the head",
        "qwen3_5_moe_text qwen3_5_text qwen4_exp_text",
        "transformers: modeling_qwen3_5.py",
        factor=1.0,
        sections=Sections("in_turn", (11, 11, 10)),
        without=(_HYBRID,),
    ),
    Family(
        "Cohere Compass",
        "cohere_compass_text",
        "transformers: modeling_cohere_compass.py",
        groups=_two(1e4, 1e4),
        sections=Sections("in_turn", (24, 20, 20)),
    ),
    Family(
        "ERNIE 4.5 VL",
        "ernie4_5_vl_moe_text",
        "transformers: modeling_ernie4_5_vl_moe.py",
        layout="interleaved",
        sections=Sections("ernie", (22, 22, 20)),
        scalable=False,
        note="sections count rows, columns and time; pairs of rows and of columns alternate",
    ),
    Family(
        "NeoMME",
        "neomme",
        "transformers: modeling_neomme.py",
        groups={
            "sliding_attention": LayerGroup(1e4, ("rope_theta",), factor=1.0, always=True),
            "full_attention": LayerGroup(1e6, ("rope_theta",), factor=0.25, always=True),
        },
        factor=1.0,
        sections=Sections("alternating", None, "(row, column)"),
    ),
    # ---- towers of images, video and audio
    Family(
        "vision, rows and columns",
        "cohere_compass_vision dots3_note_vision_encoder ernie4_5_vl_moe_vision exaone4_5_vision glm4v_moe_vision "
        "glm4v_vision glm5_next_vision glm_ocr_vision muse_glimmer_vision muse_spark_vision "
        "paddleocr_vl_vision qwen2_5_omni_vision_encoder qwen2_5_vl_vision qwen3_5_moe_vision qwen3_5_vision "
        "qwen3_omni_moe_vision_encoder qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision video_llama_3_vision",
        "transformers: modeling_qwen2_5_vl.py",
        sections=_VISION,
    ),
    Family(
        "LFM 3's vision",
        "lfm3_vl_vision",
        "transformers: modeling_lfm3_vl.py",
        sections=_VISION,
        without=(_HYBRID,),
    ),
    Family(
        "Qwen2-VL's vision",
        "qwen2_vl_vision",
        "transformers: modeling_qwen2_vl.py",
        per_head=("embed_dim", "num_attention_heads"),
        sections=_VISION,
    ),
    Family(
        "Kimi's vision",
        "kimi_k25_vision",
        "transformers: modeling_kimi_k25.py",
        sections=Sections("axial_alternating", None, "(row, column), column first"),
        note="files have pairs side by side, and are permuted as they are read",
    ),
    Family(
        "Step's vision",
        "step3p5_vision",
        "transformers: modeling_step3p7.py",
        sections=Sections("axial_columns", None, "(row, column), columns first"),
        note="files have pairs side by side, and are permuted as they are read",
    ),
    Family(
        "Inkling's vision",
        "inkling2_vision",
        "transformers: modeling_inkling2.py",
        layout="interleaved",
        sections=Sections("axial_columns", None, "(row + 1, column + 1), columns first"),
        note="tokens that are no patches are at 0",
    ),
    Family(
        "SAM 3's vision",
        "sam3_vit_model",
        "transformers: modeling_sam3.py",
        layout="interleaved",
        sections=Sections("axial_columns", None, "(row, column), columns first, times window_size / grid size"),
    ),
    Family(
        "SAM's memory",
        "sam2_video sam3_tracker_video edgetam_video",
        "transformers: modeling_sam2_video.py",
        layout="interleaved",
        width=(),
        per_head=("memory_attention_hidden_size", "memory_attention_num_attention_heads"),
        sections=Sections("axial_columns", None, "(row, column), columns first"),
        needs=(("memory_attention_downsample_rate", 1, 1, "heads that are narrower by it"),),
        note="keys of memory begin anew with each frame; the last num_k_exclude_rope do not turn",
    ),
    Family(
        "Llama 4's vision",
        "llama4_vision_model",
        "transformers: modeling_llama4.py",
        layout="interleaved",
        sections=Sections("axial_columns", None, "(row + 1, column + 1), columns first"),
        scalable=False,
        note="the class token comes last, at 0",
    ),
    Family(
        "MiniMax M3's vision",
        "minimax_m3_vl_vision",
        "transformers: modeling_minimax_m3_vl.py",
        rotary_dim=lambda get, head: 6 * (head // 6),
        sections=Sections("axial_three", None),
    ),
    Family(
        "Pixtral's vision",
        "pixtral",
        "transformers: modeling_pixtral.py; mistral-inference: rope.py, precompute_freqs_cis_2d",
        sections=_VISION,
        spectrum="pixtral",
        note="rows have every other frequency, columns those between; original files: layout='interleaved'",
    ),
    Family(
        "DINOv3",
        "dinov3_vit eomt_dinov3 sapiens2",
        "transformers: modeling_dinov3_vit.py",
        width=(),
        sections=Sections("axial", None, "2 (cell + 1/2) / cells - 1 of (row, column)"),
        spectrum="dinov3",
        inner_base=False,
        scalable=False,
        note="a cell at c turns by 2 pi c base^(-i / pairs of an axis); class token and registers come first, and stay",
    ),
    Family(
        "EfficientLoFTR",
        "efficientloftr",
        "transformers: modeling_efficientloftr.py",
        layout="interleaved",
        turned="the hidden state, before it is cut into heads",
        width=("hidden_size",),
        per_head=None,
        only=4.0,
        sections=Sections("axial_rows_alternating", None, "(row, column), from 1"),
        needs=(("num_attention_heads", 8, 8, "tables that do not fit"),),
        scalable=False,
    ),
    Family(
        "ESMFold 2's atoms",
        "esmfold2_atom_encoder",
        "transformers: modeling_esmfold2.py",
        width=("head_dim",),
        base_keys=(),
        sections=Sections("atoms", None, "(x, y, z, identity)"),
        spectrum="atoms",
        keys=(
            "num_spatial_rope_pairs_per_axis",
            "num_uid_rope_pairs",
            "spatial_rope_base_frequency",
            "uid_rope_base_frequency",
        ),
        scalable=False,
    ),
    Family(
        "Qwen2.5-Omni's code to wave",
        "qwen2_5_omni_dit",
        "transformers: modeling_qwen2_5_omni.py",
        layout="interleaved_to_half",
        turned="the first head alone",
    ),
    Family(
        "CLVP",
        "clvp_encoder",
        "transformers: modeling_clvp.py",
        width=(),
        rotary_dim=lambda get, head: max(get("projection_dim") // (2 * get("num_attention_heads")), 32),
        keys=("projection_dim",),
        base_keys=(),
        scalable=False,
        needs=(("use_rotary_embedding", True, False, "no rotary encoding"),),
        note="values turn, too",
    ),
    Family(
        "ESM",
        "esm evolla_protein_encoder",
        "transformers: modeling_esm.py",
        needs=(("position_embedding_type", "rotary", "absolute", "no rotary encoding"),),
        inner_base=False,
        scalable=False,
    ),
    Family(
        "Wav2Vec2",
        "wav2vec2-bert wav2vec2-conformer",
        "transformers: modeling_wav2vec2_conformer.py",
        turned="the hidden state, cut into heads, before queries and keys are made of it",
        width=(),
        base_keys=("rotary_embedding_base",),
        inner_base=False,
        needs=(("position_embeddings_type", "rotary", "relative", "no rotary encoding"),),
        scalable=False,
    ),
    Family(
        "SeamlessM4T",
        "seamless_m4t",
        "transformers: modeling_seamless_m4t.py",
        turned="the hidden state, cut into heads, before queries and keys are made of it",
        width=(),
        per_head=("hidden_size", "speech_encoder_attention_heads"),
        base_keys=("rotary_embedding_base",),
        inner_base=False,
        needs=(("position_embeddings_type", "rotary", "relative", "no rotary encoding"),),
        scalable=False,
    ),
)
