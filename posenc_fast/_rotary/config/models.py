"""What a model_type stands for: what its class knows beside a config, its parts, and what cannot be read or turns nothing."""

from __future__ import annotations

from typing import TypeVar

__all__ = [
    "ARCHITECTURES",
    "BASES",
    "BASE_KEYS",
    "BY_HEAD_DIM",
    "DIVIDING",
    "FACTORS",
    "FOREIGN",
    "HEADS",
    "INNER_BASE",
    "NEEDS_PARAMETERS",
    "NO_ROTARY",
    "NO_ROTATIONS",
    "ORIGINAL_LENGTHS",
    "PARTS",
    "UNREADABLE",
    "UNRELATED",
    "usual_base",
]

T = TypeVar("T")


def _names(text: str) -> list[str]:
    return text.split()


def _each(models: dict[T, str]) -> dict[str, T]:
    return {model: value for value, names in models.items() for model in _names(names)}


# ---- what is left out of a config ------------------------------------------------------------------------------------

# widths of heads where a config has no head_dim and it is not hidden_size // num_attention_heads
HEADS: dict[str, int] = _each(
    {
        128: """
            afmoe beam cohere2_moe cosmos3_edge_text cwm dia_decoder dia_encoder ernie4_5 flint glm glm4 grok-1
            helium higgs_audio_v2 hrm_text hy_v3 internlm3 iquestcoder kolibri1 laguna lfm3 llama4_text mellum
            minimax_m2 minimax_m3_vl_text ministral3 molmo2_text muse_glimmer_assistant muse_glimmer_text
            paddleocr_vl_text pe_audio_encoder pe_audio_video_encoder pe_video_encoder qwen2_5_omni_talker qwen3
            qwen3_omni_moe_talker_code_predictor qwen3_vl_text seed_oss solar_open step3p5 zaya
        """,
        256: """
            diffusion_gemma_text embedding_gemma2_text gemma gemma2 gemma3_text gemma3n_text gemma4_text
            gemma4_unified_text qwen3_5_moe_text qwen3_5_text qwen3_next qwen4_exp_text t5_gemma_module
            t5gemma2_decoder t5gemma2_text vaultgemma
        """,
        64: """
            gpt_oss muse_spark_text neomme neucodec openai_privacy_filter qwen2_5_omni_dit voxtral_realtime_encoder
            xcodec2
        """,
        192: """
            mimo_v2_flash
        """,
        80: """
            timesfm2_5
        """,
    }
)
# of these, the models whose class reads a head_dim of null as hidden_size // num_attention_heads, which others do not take
DIVIDING = frozenset(_names("afmoe ernie4_5 glm higgs_audio_v2 internlm3 iquestcoder paddleocr_vl_text seed_oss"))
# models whose class has frequencies for head_dim, not for the key that has the width of what turns; and what the class has
# where a config has none, 0 for that width
BY_HEAD_DIM: dict[str, int] = _each(
    {
        0: "axk1 deepseek_v3 glm4_moe_lite jetmoe youtu zamba2",
        64: "longcat_flash",
        128: "mistral4",
    }
)
# models with a base outside of the rotary parameters which is that of the class, if these have another
INNER_BASE = frozenset(_names("bailing_hybrid cohere2_moe"))
# lengths before stretching that a class has, outside of the rotary parameters, so that it reads none inside
ORIGINAL_LENGTHS = {"phi3": 4096, "phi4_multimodal": 4096}
# bases that are not 10000
BASES: dict[str, float] = _each(
    {
        500000.0: """
            bitnet blt_global_transformer blt_local_decoder blt_local_encoder cohere csm csm_depth_decoder_model
            ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text evolla flex_olmo higgs_audio_v2 llama4_text mllama_text_model
            muse_glimmer_assistant paddleocr_vl_text qwen3_vl_moe_text qwen3_vl_text
        """,
        1000000.0: """
            cwm emu3_text_model lfm2 lfm2_moe lfm3_vl_vision minimax ministral3 mixtral phimoe qwen2_5_omni_talker
            qwen2_5_omni_text qwen2_5_vl_text qwen2_vl_text qwen3_omni_moe_text solar_open
        """,
        20000.0: """
            jina_embeddings_v3 pe_audio_encoder pe_audio_video_encoder pe_video_encoder
        """,
        100.0: """
            dinov3_vit eomt_dinov3 sapiens2
        """,
        150000.0: """
            gpt_oss openai_privacy_filter
        """,
        5000000.0: """
            minimax_m2 minimax_m3_vl_text
        """,
        12000000.0: """
            apertus
        """,
        100000000.0: """
            cosmos3_edge_text
        """,
        160000.0: """
            gte
        """,
        100000.0: """
            helium
        """,
        11158840.0: """
            hy_v3
        """,
        10000000.0: """
            longcat_flash
        """,
        1000.0: """
            nomic_bert
        """,
        2000000.0: """
            smollm3
        """,
    }
)


def usual_base(model: str) -> float:
    """The base of a model whose config has none."""
    return BASES.get(model, 10000.0)


# parts of the head that turn, where it is not that of the family
FACTORS: dict[str, float] = _each(
    {
        0.5: """
            dots3_note_audio_encoder glm glm4 glm4_moe glm4v_moe_text glmasr_encoder nemotron
            nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp persimmon phi
        """,
        0.25: """
            gpt_neox qwen3_5_moe_text qwen3_5_text stablelm
        """,
        0.8: """
            moonshine_streaming
        """,
    }
)
# models that have other parameters where a config has none than where it has some, and read none beside these
NEEDS_PARAMETERS = frozenset(
    [
        "apertus",
        "bailing_hybrid",
        "cohere_compass_text",
        "cosmos3_edge_text",
        "cwm",
        "gpt_oss",
        "higgs_audio_v2",
        "ministral3",
        "mistral4",
        "moonshine_streaming",
        "muse_spark_text",
        "nemotron3_5_transcribe_asr_audio",
        "nemotron3_5_transcribe_word_timestamp",
        "openai_privacy_filter",
    ]
)

# keys outside the rotary parameters that have a base
BASE_KEYS = (
    "rope_theta",
    "rotary_emb_base",
    "rotary_embedding_base",
    "rope_local_base_freq",
    "local_rope_theta",
    "global_rope_theta",
    "rope_local_theta",
    "swa_rope_theta",
    "compress_rope_theta",
    "layer_rope_theta",
    "rope_base",
    "rope_ratio",
    "rope_embedding_base",
    "positional_embedding_theta",
    "theta",
)


# keys of the configs of models that turn, which look like others that are read
UNRELATED = frozenset(
    _names(
        """
        _sliding_window_pattern compress_rates emb_dim encoder_num_attention_heads memory_attention_rope_dropout
        memory_attention_rope_feat_sizes memory_attention_rope_k_sizes num_kv_heads qk_nope_head_dim
        rotary_emb_scale_base rotary_scaling_factor v_head_dim
        """
    )
)
# keys that other packages have for what is read under another name
FOREIGN: dict[str, str] = _each(
    {
        "head_dim": """
            attention_head_dim attention_head_size d_head dim_head dim_per_head head_size head_width size_per_head
        """,
        "rope_theta": """
            base_freq base_frequency freq_base
        """,
    }
)


# ---- models of several parts -----------------------------------------------------------------------------------------

# by the type of the whole: keys of the parts that turn, and their types where a part does not name its own; of a model
# with a text_config that is read alone
PARTS: dict[str, dict[str, str]] = {
    model: {"text_config": text}
    for model, text in _each(
        {
            "llama": """
                deepseek_vl deepseek_vl_hybrid glmasr idefics3 janus llava llava_next llava_next_video perception_lm
                smolvlm video_llava vipllava voxtral
            """,
            "qwen2": """
                audioflamingo3 fast_vlm got_ocr2 internvl llava_onevision musicflamingo ovis2 pp_chart2table qwen2_audio
                vibevoice vibevoice_asr video_llama_3
            """,
            "qwen3": """
                fun_asr_nano lighton_ocr moss_transcribe_diarize qianfan_ocr qwen3_asr
            """,
            "qwen3_5_text": """
                jev minicpm_ocr minicpmv4_6 minicpmv4_7 qwen3_5
            """,
            "modernbert": """
                modernvbert pe_audio pe_audio_video pe_video
            """,
            "glm4v_text": """
                glm46v glm4v glmga
            """,
            "cohere2": """
                aya_vision cohere2_vision
            """,
            "qwen3_vl_text": """
                cosmos3_omni qwen3_vl
            """,
            "gemma3_text": """
                gemma3 shieldgemma2
            """,
            "gemma4_unified_text": """
                gemma4_unified gemma4_unified_assistant
            """,
            "granite": """
                granite_speech granite_speech_plus
            """,
            "mistral": """
                idefics2 mistral3
            """,
            "gemma4_text": """
                gemma4 gemma4_assistant
            """,
            "aria_text": """
                aria
            """,
            "clvp_encoder": """
                clvp
            """,
            "cohere_compass_text": """
                cohere_compass
            """,
            "cosmos3_edge_text": """
                cosmos3_edge
            """,
            "deepseek_ocr2_text": """
                deepseek_ocr2
            """,
            "diffusion_gemma_text": """
                diffusion_gemma
            """,
            "dots3_note_text": """
                dots3_note
            """,
            "embedding_gemma2_text": """
                embedding_gemma2
            """,
            "emu3_text_model": """
                emu3
            """,
            "ernie4_5_vl_moe_text": """
                ernie4_5_vl_moe
            """,
            "exaone4": """
                exaone4_5
            """,
            "persimmon": """
                fuyu
            """,
            "gemma3n_text": """
                gemma3n
            """,
            "glm4v_moe_text": """
                glm4v_moe
            """,
            "glm5_next_text": """
                glm5_next
            """,
            "glm_image_text": """
                glm_image
            """,
            "glm_ocr_text": """
                glm_ocr
            """,
            "granite4_vision_text": """
                granite4_vision
            """,
            "granite_docling_text": """
                granite_docling
            """,
            "hunyuan_vl_text": """
                hunyuan_vl
            """,
            "hyperclovax": """
                hyperclovax_vision_v2
            """,
            "inkling2_text": """
                inkling2
            """,
            "deepseek_v3": """
                kimi_k25
            """,
            "lfm2": """
                lfm2_vl
            """,
            "lfm3": """
                lfm3_vl
            """,
            "llama4_text": """
                llama4
            """,
            "minimax_m3_vl_text": """
                minimax_m3_vl
            """,
            "mistral_large4_text": """
                mistral_large4
            """,
            "mllama_text_model": """
                mllama
            """,
            "molmo2_text": """
                molmo2
            """,
            "muse_glimmer_text": """
                muse_glimmer
            """,
            "muse_spark_text": """
                muse_spark
            """,
            "nemotron_h": """
                nemo_speechlm
            """,
            "paddleocr_vl_text": """
                paddleocr_vl
            """,
            "gemma": """
                paligemma
            """,
            "qwen2_5_omni_text": """
                qwen2_5_omni_thinker
            """,
            "qwen2_5_vl_text": """
                qwen2_5_vl
            """,
            "qwen2_vl_text": """
                qwen2_vl
            """,
            "qwen3_5_moe_text": """
                qwen3_5_moe
            """,
            "qwen3_omni_moe_text": """
                qwen3_omni_moe_thinker
            """,
            "qwen3_vl_moe_text": """
                qwen3_vl_moe
            """,
            "qwen4_exp_text": """
                qwen4_exp
            """,
            "clip_text_model": """
                sam3
            """,
            "sam3_lite_text_text_model": """
                sam3_lite_text
            """,
            "step3p5": """
                step3p7
            """,
            "t5gemma2_text": """
                t5gemma2_encoder
            """,
            "ultrabert": """
                ultravbert
            """,
            "unlimited_ocr_text": """
                unlimited_ocr
            """,
            "voxtral_realtime_text": """
                voxtral_realtime
            """,
        }
    ).items()
} | {
    "blt": {
        "patcher_config": "blt_patcher",
        "encoder_config": "blt_local_encoder",
        "decoder_config": "blt_local_decoder",
        "global_config": "blt_global_transformer",
    },
    "chmv2": {"backbone_config": "dinov3_vit"},
    "colmodernvbert": {"vlm_config": "modernvbert"},
    "colpali": {"vlm_config": "paligemma"},
    "colqwen2": {"vlm_config": "qwen2_vl"},
    "deepseek_ocr2_vision": {"encoder_config": "deepseek_ocr2_encoder"},
    "dia": {"encoder_config": "dia_encoder", "decoder_config": "dia_decoder"},
    "esmfold2": {"esmc_config": "esmc", "atom_encoder": "esmfold2_atom_encoder"},
    "lasr_ctc": {"encoder_config": "lasr_encoder"},
    "nemotron3_5_transcribe_audio": {
        "asr_config": "nemotron3_5_transcribe_asr_audio",
        "diarization_config": "nemotron3_diarization",
    },
    "nemotron3_diarization": {"audio_config": "nemotron3_diarization_audio"},
    "pi0": {"vlm_config": "paligemma", "dit_config": "gemma"},
    "qwen2_5_omni": {"thinker_config": "qwen2_5_omni_thinker"},
    "qwen2_5_omni_token2wav": {"dit_config": "qwen2_5_omni_dit"},
    "qwen3_omni_moe": {"thinker_config": "qwen3_omni_moe_thinker"},
    "qwen3_omni_moe_talker": {
        "text_config": "qwen3_omni_moe_talker_text",
        "code_predictor_config": "qwen3_omni_moe_talker_code_predictor",
    },
    "sam3_tracker": {"vision_config": "sam3_vision_model"},
    "sam3_video": {"detector_config": "sam3", "tracker_config": "sam3_tracker_video"},
    "sam3_vision_model": {"backbone_config": "sam3_vit_model"},
    "encoder-decoder": {"encoder": "bert", "decoder": "bert"},
    "speech-encoder-decoder": {"encoder": "wav2vec2", "decoder": "bert"},
    "vision-encoder-decoder": {"encoder": "vit", "decoder": "bert"},
    "vision-text-dual-encoder": {"text_config": "bert", "vision_config": "vit"},
    "t5gemma": {"encoder": "t5_gemma_module", "decoder": "t5_gemma_module"},
    "t5gemma2": {"encoder": "t5gemma2_encoder", "decoder": "t5gemma2_decoder"},
}
# files whose model_type is another model's
ARCHITECTURES = {"Grok1ForCausalLM": "grok-1"}

# ---- what cannot be read, and what does not turn ---------------------------------------------------------------------

UNREADABLE = {
    "vjepa2": "the two values of a pair turn by different angles, which is no rotation",
    "hunyuan_vl_text": "the two values of a pair read different axes of the position, which is no rotation (transformers 5.23); "
    "the model's own code turns pairs: layout='half' with model_type left out reads xdrope_section",
    "gemma4_vision": "each half of a head turns by itself, the first by columns: take Rotary(head_dim // 2, "
    "base=rope_theta) for x[..., : head_dim // 2] and for the rest",
    "lightglue": "frequencies are weights (posenc.projector): give them as Rotary(head_dim, frequencies=..., "
    "layout='interleaved')",
    "mistral_large4_text": "frequencies are multiplied by the exponentials of weights (rotary_emb.alpha): give the "
    "products as Rotary(qk_rope_head_dim, frequencies=..., layout='interleaved_to_half')",
    "mlcd_vision_model": "the class token turns by weights (class_pos_emb): make cosines and sines of patches with "
    "Rotary(head_dim, scaling={'rope_type': 'axial'}, sections=[head_dim // 4, head_dim // 4]), put the token's "
    "before, and give them to apply_tables",
}
# rope types of other packages that are no rotations by position, or by none that a config could tell
NO_ROTATIONS = {
    "fope": "sums of several frequencies, learned; give their cosines and sines to apply_tables",
    "dual_chunk": "keys and queries turn by positions that depend on both",
    "pope": "angles are of the position alone and magnitudes of the content, which is no rotation of pairs",
    "hope_hyperbolic": "Lorentz boosts, which are no rotations",
    "lerope": "frequencies are multiplied by weights; give the products as Rotary(head_dim, frequencies=...)",
    "xpos": "queries are multiplied by amplitudes that keys are divided by; give Rotary(head_dim, scaling={'rope_type': "
    "'xpos'}) for queries, and with 'keys': True for keys",
    "mixed": "frequencies are weights; give them as Rotary(head_dim, frequencies=...)",
}
# types of transformers without rotary encoding
NO_ROTARY = frozenset(
    _names(
        """
        aimv2 aimv2_text_model aimv2_vision_model albert align align_text_model align_vision_model altclip
        altclip_text_model altclip_vision_model audio-spectrogram-transformer audioflamingo3_encoder autoformer bark
        bart beit bert bert-generation big_bird bigbird_pegasus biogpt bit blenderbot blenderbot-small blip blip-2
        blip_2_qformer blip_2_vision_model blip_text_model blip_vision_model bloom bridgetower
        bridgetower_text_model bridgetower_vision_model bros camembert canary canary_decoder canine chameleon_vqgan
        chinese_clip chinese_clip_text_model chinese_clip_vision_model clap clap_audio_model clap_text_model clip
        clip_text_model clip_vision_model clipseg clipseg_text_model clipseg_vision_model clvp_decoder
        coarse_acoustics cohere_asr conditional_detr convbert convnext convnextv2 cosmos3_edge_vision cpmant ctrl
        cvt d_fine dab-detr dac data2vec-audio data2vec-text data2vec-vision deberta deberta-v2 decision_transformer
        deepseek_ocr2_sam_vision_model deformable_detr deimv2 deit depth_anything depth_pro detr dinat dinov2
        dinov2_with_registers dinov3_convnext distilbert donut-swin dpr dpt edgetam edgetam_mask_decoder
        edgetam_prompt_encoder edgetam_video_mask_decoder edgetam_video_prompt_encoder edgetam_vision_model
        efficientnet electra emu3_vqgan encodec eomt ernie falcon_mamba fastspeech2_conformer
        fastspeech2_conformer_hifigan fastspeech2_conformer_with_hifigan fine_acoustics flaubert flava
        flava_image_codebook flava_image_model flava_multimodal_model flava_text_model florence2 florence_vision
        fnet focalnet fsmt fun_asr_nano_encoder funnel gemma3n_audio gemma3n_vision gemma4_audio
        gemma4_unified_audio gemma4_unified_vision git git_vision_model glm5_next_text glm_image_vision
        glm_image_vqmodel glpn got_ocr2_vision gpt2 gpt_bigcode gpt_neo granite_docling_vision granite_speech5_ctc
        granite_speech5_encoder granite_speech_encoder granite_speech_plus_encoder grounding-dino groupvit
        groupvit_text_model groupvit_vision_model hgnet_v2 hiera higgs_audio_v2_tokenizer hubert hunyuan_vl_vision
        ibert idefics2_perceiver idefics2_vision idefics3_vision idefics_perciever idefics_vision ijepa imagegpt
        informer inkling2_text inkling_audio inkling_mm_model inkling_text inkling_vision instructblip
        instructblip_qformer instructblip_vision_model instructblipvideo instructblipvideo_qformer
        instructblipvideo_vision_model internvl_vision jamba janus_vision_model janus_vqgan kimi_linear kosmos-2
        kosmos-2.5 kosmos_2_5_text_model kosmos_2_5_vision_model kosmos_2_text_model kosmos_2_vision_model layoutlm
        layoutlmv2 layoutlmv3 layoutxlm led levit lilt longformer longt5 luke lw_detr lw_detr_vit lxmert m2m_100
        mamba mamba2 marian markuplm mask2former maskformer maskformer-swin mbart megatron-bert metaclip_2
        metaclip_2_text_model metaclip_2_vision_model mgp-str minicpm_ocr_vision minicpmv4_6_vision
        minicpmv4_7_vision mllama_vision_model mm-grounding-dino mobilebert mobilenet_v1 mobilenet_v2 mobilevit
        mobilevitv2 molmo2_adapter molmo2_vision moonshine_streaming_encoder moshi_depth
        moss_transcribe_diarize_audio mpnet mpt mra mt5 muse_spark_audio musicgen musicgen_decoder musicgen_melody
        musicgen_melody_decoder mvp nemotron3_5_asr nemotron_asr_streaming nemotron_asr_streaming_encoder nemotron_h
        nemotron_h_omni nllb-moe nougat nystromformer omdet-turbo oneformer openai-gpt opt ovis2_vision owlv2
        owlv2_text_model owlv2_vision_model owlvit owlvit_text_model owlvit_vision_model parakeet_ctc
        parakeet_encoder parakeet_rnnt parakeet_tdt patchtsmixer patchtst pegasus pegasus_x perceiver
        phi4_multimodal_audio phi4_multimodal_vision pix2struct pix2struct_text_model pix2struct_vision_model pixio
        plbart poolformer pop2piano pp_chart2table_vision pp_doclayout_v2 pp_doclayout_v3 pp_doclayout_v4
        pp_formulanet pp_formulanet_text pp_formulanet_vision pp_lcnet pp_lcnet_v3 pp_lcnet_v4 pp_ocrv5_mobile_det
        pp_ocrv5_mobile_rec pp_ocrv5_server_det pp_ocrv5_server_rec pp_ocrv6_medium_det pp_ocrv6_small_det
        pp_ocrv6_small_rec pp_ocrv6_tiny_rec prompt_depth_anything prophetnet pvt pvt_v2 qianfan_ocr_vision
        qwen2_5_omni_audio_encoder qwen2_5_omni_bigvgan qwen2_audio_encoder qwen3_asr_encoder
        qwen3_omni_moe_audio_encoder radio rag reformer regnet rembert resnet rf_detr rf_detr_dinov2 roberta
        roberta-prelayernorm roc_bert rt_detr rt_detr_resnet rt_detr_v2 rwkv sam sam2 sam2_hiera_det_model
        sam2_mask_decoder sam2_prompt_encoder sam2_video_mask_decoder sam2_video_prompt_encoder sam2_vision_model
        sam3_detr_decoder sam3_detr_encoder sam3_geometry_encoder sam3_lite_text_detr_decoder
        sam3_lite_text_detr_encoder sam3_lite_text_geometry_encoder sam3_lite_text_mask_decoder
        sam3_lite_text_text_model sam3_mask_decoder sam3_tracker_mask_decoder sam3_tracker_prompt_encoder
        sam3_tracker_video_mask_decoder sam3_tracker_video_prompt_encoder sam_hq sam_hq_mask_decoder
        sam_hq_prompt_encoder sam_hq_vision_model sam_mask_decoder sam_prompt_encoder sam_vision_model sapiens2_head
        seamless_m4t_v2 segformer seggpt semantic sew sew-d siglip siglip2 siglip2_text_model siglip2_vision_model
        siglip_text_model siglip_vision_model slanet slanext slanext_vision smolvlm_vision
        speech_to_text speecht5 speecht5_hifigan splinter squeezebert superglue superpoint swiftformer swin swin2sr
        swinv2 switch_transformers t5 table-transformer tapas textnet time_series_transformer timesfm timesformer
        timm_backbone timm_wrapper tipsv2 tipsv2_dpt tipsv2_text_model tipsv2_vision_model trocr tvp udop umt5
        unispeech unispeech-sat univnet unlimited_ocr_sam_vision_model unlimited_ocr_vision
        unlimited_ocr_vision_encoder upernet uvdoc uvdoc_backbone vibevoice_acoustic_tokenizer
        vibevoice_acoustic_tokenizer_decoder vibevoice_acoustic_tokenizer_encoder vibevoice_diffusion videomae
        videomt videoprism videoprism_text_model videoprism_vision_model vilt
         visual_bert vit vit_mae vit_msn vitdet vitmatte vitpose vitpose_backbone vits vivit
        voxtral_encoder wav2vec2 wavlm whisper xclip xclip_text_model xclip_vision_model xcodec xglm xlm xlm-roberta
        xlm-roberta-xl xlnet xlstm xmod yolos yoso zamba zoedepth
        """
    )
)
