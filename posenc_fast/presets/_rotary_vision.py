"""Rotary presets of vision towers: most positions are (row, column)."""

from __future__ import annotations

import numpy.typing as npt

from .._core.numbers.arguments import real_array
from .._core.numbers.schedule import geometric
from .._core.rotary.value import Rotary
from ..typing import Precision, RotaryLayout
from ._build import TWO_PI, positive, spectrum
from ._recipes import power
from ._registry import rotary_preset
from ._rotary_build import alternating_axes, columns_first, per_axis_spectra, whole_pairs, with_spectra

__all__ = [
    "dinov3",
    "efficient_loftr",
    "inkling_vision",
    "kimi_vision",
    "lightglue",
    "llama4_vision",
    "minimax_m3_vision",
    "pixtral",
    "qwen2_vl_vision",
    "sam2",
]


@rotary_preset(
    source="huggingface/transformers: models/qwen2_vl/modeling_qwen2_vl.py, Qwen2VLVisionRotaryEmbedding",
    frequency="theta^(-4i/head_dim) for each axis",
    pairs="values half a head apart; the first half of the pairs uses the row, the second half the column",
    positions="(row, column); patches that are merged into one token follow each other:"
    " `positions.qwen2_vl_vision(rows, columns)`",
    odd="ValueError unless 4 divides head_dim",
    differs="pairs are not adjacent values",
    also="Qwen2.5-VL, Qwen3-VL, GLM-4V, PaddleOCR-VL, VideoLLaMA 3 and ERNIE 4.5 VL, each with its own head_dim;"
    " LFM3-VL (theta 1000000)",
    axes="2",
    example="pf.presets.qwen2_vl_vision().tables(pf.presets.positions.qwen2_vl_vision(4, 6))[0].shape -> (24, 40)",
)
def qwen2_vl_vision(head_dim: int = 80, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Qwen2-VL's vision tower, and of several other vision towers."""
    d = whole_pairs(head_dim, "head_dim", 2)
    return with_spectra(d, per_axis_spectra([d // 2] * 2, theta, frequencies))


@rotary_preset(
    source="huggingface/transformers: models/pixtral/modeling_pixtral.py, PixtralVisionRotaryEmbedding",
    frequency="theta^(-4i/head_dim) for rows, theta^(-(4i+2)/head_dim) for columns; the preset rounds"
    " frequencies to float64",
    pairs='values half a head apart (adjacent values in mistral-inference: pass layout="interleaved"); the first half'
    " of the pairs uses the row, the second half the column",
    positions="(row, column) from 0: `positions.grid(rows, columns)`",
    odd="ValueError unless 4 divides head_dim",
    differs="pairs are not adjacent values; of the frequencies of a RoPE with one axis, rows use those of even index,"
    " columns those of odd index",
    also="the vision tower of Mistral Small 3.1",
    axes="2",
    example="pf.presets.pixtral().frequencies[[0, 16]].round(3) -> array([1.  , 0.75])",
)
def pixtral(head_dim: int = 64, *, theta: float = 10000.0, layout: RotaryLayout = "half") -> Rotary:
    """Rotary embedding of Pixtral's vision tower."""
    d = whole_pairs(head_dim, "head_dim", 2)
    unscaled = geometric(d // 2, base=positive(theta, "theta"))
    return with_spectra(d, [unscaled[0::2], unscaled[1::2]], layout=layout)


@rotary_preset(
    source="huggingface/transformers: models/dinov3_vit/modeling_dinov3_vit.py, DINOv3ViTRopePositionEmbedding",
    frequency="2 pi theta^(-4i/head_dim) for each axis",
    pairs="values half a head apart; the first half of the pairs uses the row, the second half the column",
    positions="(row, column) of patch centres in [-1, 1]: `positions.dinov3(rows, columns)`; tokens before the "
    "patches do not rotate",
    odd="ValueError unless 4 divides head_dim",
    differs="pairs are not adjacent values; positions are relative to the sides of the image",
    also="Sapiens 2, EoMT with DINOv3",
    axes="2",
    example="pf.presets.dinov3().tables(pf.presets.positions.dinov3(2, 3))[0].shape -> (6, 32)",
)
def dinov3(head_dim: int = 64, *, theta: float = 100.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of DINOv3."""
    d = whole_pairs(head_dim, "head_dim", 2)
    base = positive(theta, "theta")
    return with_spectra(d, [spectrum(frequencies, power, d // 4, base=base, first=TWO_PI)] * 2)


@rotary_preset(
    source="huggingface/transformers: models/llama4/modeling_llama4.py, Llama4VisionRotaryEmbedding",
    frequency="theta^(-4i/head_dim) for each axis",
    pairs="adjacent values; the first half of the pairs uses the column, the second half the row",
    positions="(row, column) from 1, and (0, 0) for the class token, which is last: `positions.llama4_vision(rows,"
    " columns)`",
    odd="ValueError unless 4 divides head_dim",
    axes="2",
    example="pf.presets.llama4_vision().tables(pf.presets.positions.llama4_vision(2, 3))[0].shape -> (7, 44)",
)
def llama4_vision(head_dim: int = 88, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Llama 4's vision tower."""
    return columns_first(head_dim, theta, frequencies)


@rotary_preset(
    source="huggingface/transformers: models/sam2_video/modeling_sam2_video.py, Sam2VideoVisionRotaryEmbedding",
    frequency="theta^(-4i/head_dim) for each axis",
    pairs="adjacent values; the first half of the pairs uses the column, the second half the row",
    positions="(row, column) from 0: `positions.grid(rows, columns)`; every frame of the memory has the same"
    " positions; the object tokens, at the end of the memory, do not rotate",
    odd="ValueError unless 4 divides head_dim",
    also="SAM 3 (head_dim 64; positions multiplied by 24/72 in global layers), EdgeTAM; rope-vit with theta 100",
    axes="2",
)
def sam2(head_dim: int = 256, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of SAM 2's memory attention."""
    return columns_first(head_dim, theta, frequencies)


@rotary_preset(
    source="huggingface/transformers: models/kimi_k25/modeling_kimi_k25.py, Kimi_K25VisionRotaryEmbedding",
    frequency="theta^(-4i/head_dim) for each axis",
    pairs="values half a head apart (adjacent values for the weights in the checkpoint, which transformers permutes);"
    " pairs alternate between column and row",
    positions="(row, column): `positions.qwen2_vl_vision(rows, columns)`",
    odd="ValueError unless 4 divides head_dim",
    differs="pairs are not adjacent values",
    axes="2",
)
def kimi_vision(head_dim: int = 72, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of the vision tower of Kimi K2.5."""
    d = whole_pairs(head_dim, "head_dim", 2)
    return with_spectra(d, per_axis_spectra([d // 2] * 2, theta, frequencies), axes=[1, 0] * (d // 4))


@rotary_preset(
    source="huggingface/transformers: models/inkling2/modeling_inkling2.py, Inkling2VisionRotaryEmbedding",
    frequency="theta^(-4i/head_dim) for each axis",
    pairs="adjacent values; the first half of the pairs uses the column, the second half the row",
    positions="(row, column) from 1: `1 + positions.grid(rows, columns)`; class and padding tokens are at (0, 0)",
    odd="ValueError unless 4 divides head_dim",
    axes="2",
    example="pf.presets.inkling_vision() == pf.presets.sam2(64) -> True",
)
def inkling_vision(head_dim: int = 64, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Inkling 2's vision tower."""
    return columns_first(head_dim, theta, frequencies)


@rotary_preset(
    source="huggingface/transformers: models/minimax_m3_vl/modeling_minimax_m3_vl.py, MiniMaxM3VLVisionRotaryEmbedding",
    frequency="theta^(-2i/S) for each axis, S = 2 * (head_dim // 3 // 2)",
    pairs="values 3S/2 apart, among the first 3S values of a head; consecutive blocks of pairs for t, row and column",
    positions="(t, row, column); patches that are merged into one token follow each other",
    odd="ValueError if head_dim is odd, or below 6",
    differs="pairs are not adjacent values; only a part of each head rotates",
    axes="3",
)
def minimax_m3_vision(head_dim: int = 80, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of the vision tower of MiniMax-M3-VL."""
    d = whole_pairs(head_dim, "head_dim")
    return with_spectra(d, per_axis_spectra([2 * (d // 3 // 2)] * 3, theta, frequencies))


@rotary_preset(
    source="huggingface/transformers: models/efficientloftr/modeling_efficientloftr.py, EfficientLoFTRRotaryEmbedding",
    frequency="theta^(-4i/hidden_size) for each axis",
    pairs="adjacent values of vectors that are not yet split into heads; pairs alternate between row and column",
    positions="(row, column) from 1: `1 + positions.grid(rows, columns)`",
    odd="ValueError unless 4 divides hidden_size",
    differs="each head has its own frequencies",
    axes="2",
)
def efficient_loftr(hidden_size: int = 256, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Efficient LoFTR, for all heads at once."""
    d = whole_pairs(hidden_size, "hidden_size", 2)
    return with_spectra(
        d, per_axis_spectra([d // 2] * 2, theta, frequencies), axes=alternating_axes(d // 4, 2), layout="interleaved"
    )


@rotary_preset(
    source="huggingface/transformers: models/lightglue/modeling_lightglue.py, LightGluePositionalEncoder",
    frequency="weights, from posenc.projector of the checkpoint",
    pairs="adjacent values; each pair uses both axes",
    positions="(x, y) of a keypoint, normalised by the size of the image",
    odd="2 values for each row of weights",
    differs="each angle depends on both axes; frequencies are learned",
    also="RoPE-Mixed of rope-vit: pass the frequencies of one layer and head, of shape (axes, pairs), transposed",
    axes="2",
    example="pf.presets.lightglue([[1.0, 0.5], [0.25, -2.0]]).ndim -> 2",
)
def lightglue(weights: npt.ArrayLike) -> Rotary:
    """Rotary embedding of LightGlue, whose frequencies are learned."""
    values = real_array(weights, "weights")
    if values.ndim != 2:
        raise ValueError(f"weights has shape {values.shape}, but must have shape (pairs, axes)")
    return Rotary(2 * len(values), frequencies=values, layout="interleaved")
