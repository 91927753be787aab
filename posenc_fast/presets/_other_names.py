"""Names that people type, in addition to the names of presets."""

from __future__ import annotations

__all__ = ["ELSEWHERE", "LEARNED", "OTHER_NAMES"]

_TUTORIALS = """
    attention_is_all_you_need original paper pytorch pytorch_tutorial transformer transformer_tutorial tutorial vaswani
"""
_STABLE_DIFFUSION = "sd sd15 sd_xl sdxl stable_diffusion stable_diffusion_xl"
# keys: names that people type. Values: calls of presets that the name may mean, the most likely first.
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_TUTORIALS.split(), ("annotated_transformer",)),
    **dict.fromkeys(
        _STABLE_DIFFUSION.split(), ("diffusers_timesteps(320, flip_sin_to_cos=True, downscale_freq_shift=0)",)
    ),
    **dict.fromkeys(("af3", "boltz", "boltz2"), ("alphafold3",)),
    "distilbert": ("xlm",),
    "fourier_number_embedding": ("fone",),
    **dict.fromkeys(("gvp", "struct2seq"), ("structured_transformer",)),
    "kitchen_sinks": ("rbf_sampler",),
    "llama2": ("llama",),
    "mae_vit": ("mae",),
    "masked_autoencoder": ("mae",),
    "presto": ("galileo_months", "annotated_transformer(128, base=1000.0)"),
    "random_kitchen_sinks": ("rbf_sampler",),
    "realmlp": ("pbld",),
    "rtdl_num_embeddings": ("plr",),
    "streampetr": ("petr", "streampetr_time"),
    **dict.fromkeys(("tabm", "tabr"), ("plr",)),
    "tgat": ("tgn",),
    "vit_mae": ("mae",),
    "weathernext": ("graphcast", "gencast"),
}
# names of models with learned positions
_LEARNED = """
    albert bart beit bert blip clip deberta deit dinov2 electra gpt gpt1 gpt2 gpt_2 gpt3 mbart mpnet openai_gpt opt
    roberta siglip swin xlm_roberta
"""
LEARNED = frozenset(_LEARNED.split())
# keys: kinds of encoding that are not presets. Values: advice.
ELSEWHERE = {
    "alibi": "ALiBi adds distances to the scores of attention, without sines and cosines",
    "rope": "posenc_fast.Rotary is RoPE; the presets are roformer (the paper) and llama (most language models)",
    "rotary": "posenc_fast.Rotary is RoPE; the presets are roformer (the paper) and llama (most language models)",
    "sinusoidal": "posenc_fast.sinusoidal has all parameters; annotated_transformer is the encoding of the paper",
    "t5": "T5 has learned biases of distances, which have no formula",
    "vit": "ViT's positions are learned, and have no formula; mae and simple_vit are similar and sinusoidal",
    "wav2vec2": "wav2vec 2.0 learns its positions as a convolution, which has no formula",
}
