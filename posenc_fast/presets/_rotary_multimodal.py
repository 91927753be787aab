"""Rotary presets of multimodal language models and speech models: positions of images and videos are (t, h, w)."""

from __future__ import annotations

from collections.abc import Sequence

from .._core.rotary.pairs import in_turn
from .._core.rotary.value import Rotary
from ._registry import rotary_preset
from ._rotary_build import checked_sections, partial_dim, with_theta

__all__ = [
    "ernie4_5_vl",
    "glm4v",
    "moonshine",
    "pe_audio",
    "qwen2_vl",
    "qwen3_5",
    "qwen3_vl",
    "wav2vec2_conformer",
]


@rotary_preset(
    source="huggingface/transformers: models/moonshine/modeling_moonshine.py, MoonshineRotaryEmbedding",
    frequency="10000^(-2i/D), D = partial_rotary_factor * head_dim rounded down",
    pairs="adjacent values, among the first D values of a head",
    positions="the frame's or the token's index from 0; cross attention has no rotary encoding",
    odd="ValueError unless partial_rotary_factor * head_dim, rounded down, is even and at least 2",
    differs="only a part of each head rotates",
    example="pf.presets.moonshine(36).rotary_dim -> 32",
)
def moonshine(head_dim: int = 36, *, partial_rotary_factor: float = 0.9) -> Rotary:
    """Rotary embedding of Moonshine, for speech."""
    return with_theta(head_dim, rotary_dim=partial_dim(head_dim, partial_rotary_factor), layout="interleaved")


@rotary_preset(
    source="huggingface/transformers: models/wav2vec2_conformer/modeling_wav2vec2_conformer.py, "
    "Wav2Vec2ConformerRotaryPositionalEmbedding",
    frequency="theta^(-2i/head_dim)",
    pairs="values half a head apart",
    positions="the frame's index from 0; hidden states are rotated, head by head, before the query and key projections",
    differs="pairs are not adjacent values; hidden states are rotated instead of queries and keys",
    also="Wav2Vec2-BERT, SeamlessM4T; ESM and ESM-2 (they rotate queries and keys)",
    example="pf.presets.wav2vec2_conformer() == pf.Rotary(64) -> True",
)
def wav2vec2_conformer(head_dim: int = 64, *, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of Wav2Vec2-Conformer, for speech."""
    return with_theta(head_dim, theta)


@rotary_preset(
    source="huggingface/transformers: models/pe_audio/modeling_pe_audio.py, PeAudioEncoderRotaryEmbedding, "
    "apply_rotary_pos_emb",
    frequency="theta^(-2i/head_dim)",
    pairs="adjacent values",
    positions="the frame's index from 0",
    differs="the default of theta is 20000 instead of 10000",
    example='pf.presets.pe_audio() == pf.Rotary(128, base=2e4, layout="interleaved") -> True',
)
def pe_audio(head_dim: int = 128, *, theta: float = 20000.0) -> Rotary:
    """Rotary embedding of the Perception Encoder for audio and video."""
    return with_theta(head_dim, theta, layout="interleaved")


@rotary_preset(
    source="huggingface/transformers: models/qwen2_vl/modeling_qwen2_vl.py, Qwen2VLRotaryEmbedding",
    frequency="theta^(-2i/head_dim)",
    pairs="values half a head apart; by default, the first 16 pairs use t, the next 24 use h, the last 24 use w",
    positions="(t, h, w): `positions.mrope([text, (frames, rows, columns), text])`",
    odd="ValueError unless head_dim is twice the sum of mrope_section",
    differs="pairs are not adjacent values; each axis uses a part of the frequencies",
    also="Qwen2.5-VL, Qwen2.5-Omni, PaddleOCR-VL (theta 500000)",
    axes="3",
    example="positions = pf.presets.positions.mrope([3, (1, 2, 2), 2])\n"
    "pf.presets.qwen2_vl().tables(positions)[0].shape"
    " -> (9, 64)",
)
def qwen2_vl(head_dim: int = 128, *, theta: float = 1000000.0, mrope_section: Sequence[int] = (16, 24, 24)) -> Rotary:
    """Multimodal rotary embedding of Qwen2-VL's text."""
    return with_theta(head_dim, theta, sections=checked_sections(mrope_section, head_dim))


@rotary_preset(
    source="huggingface/transformers: models/qwen3_vl/modeling_qwen3_vl.py, Qwen3VLTextRotaryEmbedding, "
    "apply_interleaved_mrope; default of theta from the checkpoint's config.json",
    frequency="theta^(-2i/head_dim)",
    pairs="values half a head apart; pairs alternate between t, h and w; when h and w have all their pairs, the rest"
    " use t",
    positions="(t, h, w): `positions.mrope([text, (frames, rows, columns), text])`",
    odd="ValueError unless head_dim is twice the sum of mrope_section",
    differs="pairs are not adjacent values; the axes alternate from pair to pair",
    also="Qwen3-Omni (theta 1000000), Cohere Compass",
    axes="3",
)
def qwen3_vl(head_dim: int = 128, *, theta: float = 5000000.0, mrope_section: Sequence[int] = (24, 20, 20)) -> Rotary:
    """Multimodal rotary embedding of Qwen3-VL's text."""
    return with_theta(head_dim, theta, sections=in_turn(checked_sections(mrope_section, head_dim), head_dim // 2))


@rotary_preset(
    source="huggingface/transformers: models/qwen3_5/modeling_qwen3_5.py, Qwen3_5TextRotaryEmbedding; "
    "default of theta from the checkpoint's config.json",
    frequency="theta^(-2i/D), D = head_dim / 4 rounded down",
    pairs="values D/2 apart, among the first D values of a head; pairs alternate between t, h and w",
    positions="(t, h, w): `positions.mrope([text, (frames, rows, columns), text])`",
    odd="ValueError unless head_dim / 4, rounded down, is twice the sum of mrope_section",
    differs="pairs are not adjacent values; the axes alternate from pair to pair; only a part of each head rotates",
    axes="3",
)
def qwen3_5(head_dim: int = 256, *, theta: float = 10000000.0, mrope_section: Sequence[int] = (11, 11, 10)) -> Rotary:
    """Multimodal rotary embedding of Qwen3.5's attention layers."""
    dim = partial_dim(head_dim, 0.25)
    return with_theta(head_dim, theta, rotary_dim=dim, sections=in_turn(checked_sections(mrope_section, dim), dim // 2))


@rotary_preset(
    source="huggingface/transformers: models/glm4v/modeling_glm4v.py, Glm4vTextRotaryEmbedding",
    frequency="theta^(-2i/D), D = head_dim / 2 rounded down",
    pairs="adjacent values, among the first D values of a head; by default, the first 8 pairs use t, the next 12 use"
    " h, the last 12 use w",
    positions="(t, h, w): `positions.mrope([text, (frames, rows, columns), text])`",
    odd="ValueError unless head_dim / 2, rounded down, is twice the sum of mrope_section",
    differs="each axis uses a part of the frequencies; only a part of each head rotates",
    also="GLM-OCR, but whole heads rotate (mrope_section 16, 24, 24): use `Rotary.from_config`",
    axes="3",
)
def glm4v(head_dim: int = 128, *, theta: float = 10000.0, mrope_section: Sequence[int] = (8, 12, 12)) -> Rotary:
    """Multimodal rotary embedding of GLM-4V's text."""
    dim = partial_dim(head_dim, 0.5)
    return with_theta(
        head_dim, theta, rotary_dim=dim, layout="interleaved", sections=checked_sections(mrope_section, dim)
    )


@rotary_preset(
    source="huggingface/transformers: models/ernie4_5_vl_moe/modeling_ernie4_5_vl_moe.py, "
    "Ernie4_5_VLMoeTextRotaryEmbedding",
    frequency="theta^(-2i/head_dim)",
    pairs="adjacent values; by default, the first 44 pairs alternate between h and w, the last 20 use t",
    positions="(t, h, w): `positions.mrope([text, (frames, rows, columns), text])`",
    odd="ValueError unless head_dim is twice the sum of mrope_section, and h and w have equal numbers of pairs",
    differs="t has the slowest frequencies",
    axes="3",
)
def ernie4_5_vl(head_dim: int = 128, *, theta: float = 500000.0, mrope_section: Sequence[int] = (22, 22, 20)) -> Rotary:
    """Multimodal rotary embedding of ERNIE 4.5 VL's text."""
    h, w, t = checked_sections(mrope_section, head_dim)
    if h != w:
        raise ValueError(
            f"mrope_section={(h, w, t)} must begin with two equal numbers (pairs of h and of w), because h and w "
            "alternate"
        )
    return with_theta(head_dim, theta, layout="interleaved", sections=[1, 2] * h + [0] * t)
