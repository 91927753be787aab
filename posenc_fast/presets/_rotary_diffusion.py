"""Rotary presets of diffusion transformers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from .._core.numbers.arguments import count_of, real_array
from .._core.numbers.schedule import geometric
from .._core.rotary.pairs import in_turn
from .._core.rotary.value import Rotary
from ..typing import Precision
from ._build import positive, power, sequence_of
from ._recipes import exp_divided
from ._registry import rotary_preset
from ._rotary_build import (
    alternating_axes,
    axis_by_axis,
    checked_sections,
    columns_first,
    ltx_pairs,
    ltx_rotary,
    partial_dim,
    per_axis_spectra,
    whole_pairs,
    with_spectra,
    with_theta,
)

__all__ = [
    "cogvideox",
    "cogview4",
    "cosmos",
    "cosmos3",
    "flux",
    "flux2",
    "hidream",
    "hunyuan_dit",
    "hunyuan_image",
    "hunyuan_video",
    "ideogram4",
    "kandinsky5",
    "krea2",
    "ltx",
    "ltx2",
    "ltx2_split",
    "lumina2",
    "lumina_next",
    "minimax_h3",
    "mochi",
    "prx",
    "qwen_image",
    "stable_audio",
    "wan",
    "z_image",
]


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_flux.py, FluxPosEmbed",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis; the source computes in float64",
    pairs="adjacent values; consecutive blocks of pairs for the image's index, row and column",
    positions="(0, row, column) for the image, (0, 0, 0) for text: `positions.flux(rows, columns, text)`",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="3",
    also="Chroma, Bria, LongCat-Image and Ovis-Image (each with its own positions of text)",
    example="pf.presets.flux().tables(pf.presets.positions.flux(2, 3, text=4))[0].shape -> (10, 64)",
)
def flux(axes_dim: Sequence[int] = (16, 56, 56), *, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of Flux."""
    return axis_by_axis(axes_dim, 3, theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_flux2.py, Flux2PosEmbed",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis; the source computes in float64",
    pairs="adjacent values; consecutive blocks of pairs for the image's index, row, column and the token's index",
    positions="(index of the image, row, column, 0) for images, (0, 0, 0, index) for text: `positions.flux2(rows,"
    " columns, text)`",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="4",
    also="Flux 3 (theta 10000)",
    example="pf.presets.flux2().tables(pf.presets.positions.flux2(2, 3, text=4))[0].shape -> (10, 64)",
)
def flux2(axes_dim: Sequence[int] = (32, 32, 32, 32), *, theta: float = 2000.0) -> Rotary:
    """Rotary embedding of Flux.2."""
    return axis_by_axis(axes_dim, 4, theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_krea2.py, Krea2RotaryPosEmbed",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis; the source computes in float64",
    pairs="adjacent values; consecutive blocks of pairs for the image's index, row and column",
    positions="(0, row, column) for the image, (0, 0, 0) for text: `positions.flux(rows, columns, text)`",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="3",
)
def krea2(axes_dim: Sequence[int] = (32, 48, 48), *, theta: float = 1000.0) -> Rotary:
    """Rotary embedding of Krea 2."""
    return axis_by_axis(axes_dim, 3, theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_z_image.py, RopeEmbedder",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis; the source computes in float64",
    pairs="adjacent values; consecutive blocks of pairs for frame, row and column",
    positions="(1 + length of the padded text, row, column) for the image, then (1 + index, 0, 0) for text, both padded"
    " to multiples of 32 tokens: `positions.z_image(rows, columns, text)`",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="3",
    also="Bria Fibo 2",
    example="pf.presets.z_image().tables(pf.presets.positions.z_image(2, 3, text=4))[0].shape -> (64, 64)",
)
def z_image(axes_dim: Sequence[int] = (32, 48, 48), *, theta: float = 256.0) -> Rotary:
    """Rotary embedding of Z-Image."""
    return axis_by_axis(axes_dim, 3, theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_lumina2.py, Lumina2RotaryPosEmbed",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis; the source computes in float64",
    pairs="adjacent values; consecutive blocks of pairs for the token's index, row and column",
    positions="(number of text tokens, row, column) for the image, (index, 0, 0) for text: `positions.lumina2(rows,"
    " columns, text)`",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="3",
    example="pf.presets.lumina2().tables(pf.presets.positions.lumina2(2, 3, text=4))[0].shape -> (10, 48)",
)
def lumina2(axes_dim: Sequence[int] = (32, 32, 32), *, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of Lumina-Image 2."""
    return axis_by_axis(axes_dim, 3, theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_hidream_image.py, HiDreamImageEmbedND; "
    "default of axes_dim from the checkpoint's config.json",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis; the source computes in float64",
    pairs="adjacent values; consecutive blocks of pairs for the image's index, row and column",
    positions="(0, row, column) for the image, (0, 0, 0) for text: `positions.flux(rows, columns, text)`",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="3",
)
def hidream(axes_dim: Sequence[int] = (64, 32, 32), *, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of HiDream-I1."""
    return axis_by_axis(axes_dim, 3, theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_prx.py, PRXEmbedND",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis; the source computes in float64",
    pairs="adjacent values; consecutive blocks of pairs for row and column",
    positions="(row, column): `positions.grid(rows, columns)` for the image, (0, 0) for text",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="2",
)
def prx(axes_dim: Sequence[int] = (32, 32), *, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of PRX."""
    return axis_by_axis(axes_dim, 2, theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_qwenimage.py, QwenEmbedRope",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis",
    pairs="adjacent values; consecutive blocks of pairs for frame, row and column",
    positions="(frame, row, column), rows and columns relative to the centre: `positions.qwen_image(rows, columns,"
    " text)`",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="3",
    also="NucleusMoE-Image",
    example="pf.presets.qwen_image().tables(pf.presets.positions.qwen_image(2, 3, text=4))[0].shape -> (10, 64)",
)
def qwen_image(
    axes_dim: Sequence[int] = (16, 56, 56), *, theta: float = 10000.0, frequencies: Precision = "exact"
) -> Rotary:
    """Rotary embedding of Qwen-Image."""
    return axis_by_axis(axes_dim, 3, theta, frequencies)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_hunyuan_video.py, HunyuanVideoRotaryPosEmbed",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis",
    pairs="adjacent values; consecutive blocks of pairs for frame, row and column",
    positions="(frame, row, column): `positions.grid(frames, rows, columns)`; text does not rotate",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="3",
    also="HunyuanVideo 1.5, FramePack (with its own indices of frames), Motif-Video",
)
def hunyuan_video(
    axes_dim: Sequence[int] = (16, 56, 56), *, theta: float = 256.0, frequencies: Precision = "exact"
) -> Rotary:
    """Rotary embedding of HunyuanVideo."""
    return axis_by_axis(axes_dim, 3, theta, frequencies)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_hunyuanimage.py, HunyuanImageRotaryPosEmbed",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis",
    pairs="adjacent values; consecutive blocks of pairs for row and column",
    positions="(row, column): `positions.grid(rows, columns)`; text does not rotate",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="2",
)
def hunyuan_image(
    axes_dim: Sequence[int] = (64, 64), *, theta: float = 256.0, frequencies: Precision = "exact"
) -> Rotary:
    """Rotary embedding of HunyuanImage 2.1."""
    return axis_by_axis(axes_dim, 2, theta, frequencies)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_wan.py, WanRotaryPosEmbed",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis; the source computes in float64",
    pairs="adjacent values; consecutive blocks of pairs for frame, row and column",
    positions="(frame, row, column): `positions.grid(frames, rows, columns)`",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    axes="3",
    also="SkyReels-V2, ChronoEdit (its two frames have positions 0 and 7), AnyFlow, SANA-Video, Helios, Wan-Animate",
)
def wan(axes_dim: Sequence[int] = (44, 42, 42), *, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of Wan."""
    return axis_by_axis(axes_dim, 3, theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_cosmos.py, CosmosRotaryPosEmbed",
    frequency="(10000 * rope_scale^(D/(D-2)))^(-2i/D) for each axis, where D values of a head use the axis;"
    " for head_dim 128, D is 44, 42 and 42",
    pairs="values half a head apart; consecutive blocks of pairs for frame, row and column",
    positions="(frame * 24 / fps, row, column): `positions.cosmos(frames, rows, columns, fps=fps)`",
    odd="ValueError if head_dim is odd, or below 12",
    differs="pairs are not adjacent values; the base of an axis depends on its rope_scale",
    axes="3",
    example="pf.presets.cosmos().tables(pf.presets.positions.cosmos(2, 3, 4, fps=30))[0].shape -> (24, 64)",
)
def cosmos(head_dim: int = 128, *, rope_scale: Sequence[float] = (2.0, 1.0, 1.0)) -> Rotary:
    """Rotary embedding of Cosmos."""
    d = whole_pairs(head_dim, "head_dim")
    side = d // 6 * 2
    dims = (d - 2 * side, side, side)
    if side < 4:
        raise ValueError(f"head_dim must be at least 12, not {d}")
    scales = sequence_of(rope_scale, "rope_scale")
    if len(scales) != 3:
        raise ValueError(f"rope_scale must be three numbers, one for each axis, not {rope_scale!r}")
    spectra = [
        geometric(dim // 2, base=10000.0 * power(positive(scale, "rope_scale"), Fraction(dim, dim - 2)))
        for dim, scale in zip(dims, scales, strict=True)
    ]
    return with_spectra(d, spectra)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_cosmos3.py, Cosmos3VLTextRotaryEmbedding",
    frequency="theta^(-2i/head_dim)",
    pairs="values half a head apart; pairs alternate between t, h and w; when h and w have all their pairs, the rest"
    " use t",
    positions="(t, h, w): `positions.mrope`; the source computes the times of frames from fps",
    odd="ValueError unless head_dim is twice the sum of rope_axes_dim",
    differs="pairs are not adjacent values; the axes alternate from pair to pair",
    axes="3",
    example="pf.presets.cosmos3() == pf.presets.qwen3_vl() -> True",
)
def cosmos3(head_dim: int = 128, *, theta: float = 5000000.0, rope_axes_dim: Sequence[int] = (24, 20, 20)) -> Rotary:
    """Rotary embedding of Cosmos 3."""
    counts = checked_sections(rope_axes_dim, head_dim, "rope_axes_dim")
    return with_theta(head_dim, theta, sections=in_turn(counts, head_dim // 2))


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_ideogram4.py, Ideogram4MRoPE",
    frequency="theta^(-2i/head_dim)",
    pairs="values half a head apart; the first pairs (60 by default) alternate between t, h and w, the rest use t",
    positions="(t, h, w); all coordinates of image tokens begin at 65536",
    odd="ValueError if head_dim is odd, or below 6 times the number of pairs of h or of w",
    differs="pairs are not adjacent values; the axes alternate from pair to pair",
    axes="3",
)
def ideogram4(head_dim: int = 256, *, theta: float = 5000000.0, mrope_section: Sequence[int] = (24, 20, 20)) -> Rotary:
    """Rotary embedding of Ideogram 4."""
    counts = [count_of(count, "mrope_section", 1) for count in sequence_of(mrope_section, "mrope_section")]
    if len(counts) != 3:
        raise ValueError(f"mrope_section={tuple(counts)} must be three numbers of pairs")
    _, h, w = counts
    pairs = whole_pairs(head_dim, "head_dim") // 2
    if 3 * max(h, w) > pairs:
        raise ValueError(
            f"mrope_section={tuple(counts)} must have at most {pairs // 3} pairs for each of h and w (the last two "
            f"numbers), because three axes alternate over the {pairs} pairs of head_dim={2 * pairs}"
        )
    return with_theta(head_dim, theta, sections=in_turn([pairs - h - w, h, w], pairs))


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_ltx.py, LTXVideoRotaryPosEmbed",
    frequency="pi/2 * theta^(i/(n-1)) for each axis, n = dim // 6; the preset rounds frequencies to float64",
    pairs="adjacent values of vectors that are not yet split into heads; the first dim % 6 values do not rotate, the"
    " other pairs alternate between frame, row and column",
    positions="(t, row, column): seconds / 20 and pixels / 2048, scaled from 0 .. 1 to -1 .. 1:"
    " `positions.ltx(frames, rows, columns)`",
    odd="ValueError if dim is odd, or below 12",
    differs="frequencies ascend; each head has its own frequencies",
    axes="3",
    example="pf.presets.ltx().tables(pf.presets.positions.ltx(2, 3, 4))[0].shape -> (24, 1024)",
)
def ltx(dim: int = 2048, *, theta: float = 10000.0) -> Rotary:
    """Rotary embedding of LTX-Video, for all heads at once."""
    d = whole_pairs(dim, "dim")
    return ltx_rotary(d, 3, theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_ltx2.py, LTX2AudioVideoRotaryPosEmbed with "
    'rope_type="interleaved"',
    frequency="pi/2 * theta^(i/(n-1)) for each axis, n = dim // (2 * axes); the preset rounds frequencies to float64",
    pairs="adjacent values of vectors that are not yet split into heads; the first (dim // 2) % axes pairs"
    " do not rotate, the others alternate between the axes",
    positions="(t, row, column) at the middle of a patch: seconds / 20 and pixels / 2048, scaled from 0 .. 1 to -1 .."
    " 1: `positions.ltx2(frames, rows, columns)`; for audio, `positions.ltx2_audio(frames)`",
    odd="ValueError if dim is odd, or below 4 * axes",
    differs="frequencies ascend; each head has its own frequencies",
    axes="1 or 3",
    example="pf.presets.ltx2(2048, axes=1).tables(pf.presets.positions.ltx2_audio(5))[0].shape -> (5, 1024)",
)
def ltx2(dim: int = 4096, *, theta: float = 10000.0, axes: int = 3) -> Rotary:
    """Rotary embedding of LTX-2, for all heads at once; axes=1 for audio."""
    d = whole_pairs(dim, "dim")
    return ltx_rotary(d, count_of(axes, "axes", 1), theta)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_ltx2.py, LTX2AudioVideoRotaryPosEmbed with "
    'rope_type="split"',
    frequency="the frequencies of `ltx2`, divided among the heads in order",
    pairs="values half a head apart; pairs alternate between the axes",
    positions="as for the preset `ltx2`: `positions.ltx2(frames, rows, columns)`; for audio,"
    " `positions.ltx2_audio(frames)`",
    odd="ValueError unless 2 * heads divides dim, or if dim is below 4 * axes",
    differs="pairs are not adjacent values; frequencies ascend; each head has its own frequencies",
    axes="1 or 3",
    example="pf.presets.ltx2_split(head=31).head_dim -> 128",
)
def ltx2_split(dim: int = 4096, *, head: int = 0, heads: int = 32, theta: float = 10000.0, axes: int = 3) -> Rotary:
    """Rotary embedding of one head of LTX-2, for checkpoints with rope_type "split"."""
    d, count, index = whole_pairs(dim, "dim"), count_of(heads, "heads", 1), count_of(head, "head", 0)
    if d % (2 * count):
        raise ValueError(f"dim={d} must be a multiple of {2 * count}, so that each of heads={count} has whole pairs")
    if index >= count:
        raise ValueError(f"head={index} must be below heads={count}, because heads are counted from 0")
    by_pair, axis_of_pair = ltx_pairs(d, count_of(axes, "axes", 1), theta)
    # one row for each pair of all heads, one column for each axis; a pair uses one axis, and its other columns are 0
    frequencies = np.zeros((d // 2, axes))
    frequencies[np.arange(d // 2), axis_of_pair] = by_pair
    # head 0 has the first pairs, head 1 the next, and so on
    pairs = d // 2 // count
    return Rotary(2 * pairs, frequencies=frequencies[index * pairs : (index + 1) * pairs])


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_mochi.py, MochiRoPE",
    frequency="pos_frequencies, from the checkpoint",
    pairs="adjacent values of vectors that are not yet split into heads; each pair uses all axes",
    positions="(frame, row, column), rows and columns relative to the centre, scaled to an area of 192 * 192:"
    " `positions.mochi(frames, rows, columns)`",
    odd="2 values for each head and frequency: pos_frequencies has shape (3, heads, frequencies)",
    differs="each angle depends on all axes; frequencies are learned; each head has its own frequencies",
    axes="3",
    example="rotary = pf.presets.mochi([[[1.0, 0.5]], [[0.25, -2.0]], [[0.0, 1.0]]])\n"
    "rotary.tables(pf.presets.positions.mochi(1, 2, 2))[0].shape"
    " -> (4, 2)",
)
def mochi(pos_frequencies: npt.ArrayLike) -> Rotary:
    """Rotary embedding of Mochi with learned frequencies, for all heads at once."""
    values = real_array(pos_frequencies, "pos_frequencies")
    if values.ndim != 3 or len(values) != 3:
        raise ValueError(f"pos_frequencies has shape {values.shape}, but must have shape (3, heads, head_dim/2)")
    dense = values.reshape(3, -1).T
    return Rotary(2 * len(dense), frequencies=dense, layout="interleaved")


@rotary_preset(
    source="huggingface/diffusers: models/embeddings.py, get_3d_rotary_pos_embed",
    frequency="theta^(-2i/D) for each axis, D = head_dim/4 for frames, 3 head_dim/8 for rows and for columns",
    pairs="adjacent values; consecutive blocks of pairs for frame, row and column",
    positions="(frame, row, column) of a grid that is scaled to fit into 30 by 45: `positions.cogvideox(frames, rows,"
    " columns)`; CogVideoX 1.5 uses `positions.grid`; text does not rotate",
    odd="ValueError unless 16 divides head_dim",
    differs="positions are real numbers",
    also="ConsisID; EasyAnimate, whose grid is also scaled to fit into 30 by 45",
    axes="3",
    example="pf.presets.cogvideox().tables(pf.presets.positions.cogvideox(2, 30, 45))[0].shape -> (2700, 32)",
)
def cogvideox(head_dim: int = 64, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of CogVideoX."""
    d = count_of(head_dim, "head_dim", 16)
    if d % 16:
        raise ValueError(
            f"head_dim={d} must be a multiple of 16, because frames, rows and columns use 1/4, 3/8 and 3/8 of a head, "
            "in whole pairs"
        )
    return axis_by_axis((d // 4, d // 8 * 3, d // 8 * 3), 3, theta, frequencies)


@rotary_preset(
    source="huggingface/diffusers: models/embeddings.py, get_2d_rotary_pos_embed",
    frequency="10000^(-4i/head_dim) for each axis",
    pairs="adjacent values; the first half of the pairs uses the column, the second half the row",
    positions="(row, column) of a grid that is scaled to fit into 32 by 32: `positions.cropped(rows, columns,"
    " base_rows=32, base_columns=32)`",
    odd="ValueError unless 4 divides head_dim",
    differs="positions are real numbers",
    axes="2",
    example="pf.presets.hunyuan_dit().tables(pf.presets.positions.cropped(4, 6, base_rows=32, "
    "base_columns=32))[0].shape -> (24, 44)",
)
def hunyuan_dit(head_dim: int = 88, *, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Hunyuan-DiT."""
    return columns_first(head_dim, 1e4, frequencies)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_cogview4.py, CogView4RotaryPosEmbed",
    frequency="theta^(-4i/head_dim) for each axis",
    pairs="values half a head apart; the first half of the pairs uses the row, the second half the column",
    positions="(256 * row // rows, 256 * column // columns): `positions.cogview4(rows, columns)`; text does not rotate",
    odd="ValueError unless 4 divides head_dim",
    differs="pairs are not adjacent values",
    also="GLM-Image, whose positions are not scaled: `positions.grid(rows, columns)`",
    axes="2",
    example="pf.presets.cogview4().tables(pf.presets.positions.cogview4(4, 6))[0].shape -> (24, 64)",
)
def cogview4(head_dim: int = 128, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of CogView4."""
    d = whole_pairs(head_dim, "head_dim", 2)
    return axis_by_axis((d // 2, d // 2), 2, theta, frequencies, layout="half")


@rotary_preset(
    source="huggingface/diffusers: models/embeddings.py, get_2d_rotary_pos_embed_lumina",
    frequency="(10000 * ntk_factor)^(-4i/head_dim) / linear_factor for each axis",
    pairs="adjacent values; pairs alternate between row and column",
    positions="(row, column) from 0: `positions.grid(rows, columns)`",
    odd="ValueError unless 4 divides head_dim",
    differs="early diffusion steps use linear_factor, later steps ntk_factor",
    axes="2",
    example="pf.presets.lumina_next(8).frequencies -> array([1.  , 1.  , 0.01, 0.01])",
)
def lumina_next(head_dim: int = 96, *, linear_factor: float = 1.0, ntk_factor: float = 1.0) -> Rotary:
    """Rotary embedding of Lumina-Next."""
    d = whole_pairs(head_dim, "head_dim", 2)
    base, factor = 10000.0 * positive(ntk_factor, "ntk_factor"), positive(linear_factor, "linear_factor")
    schedule = geometric(d // 4, base=base, first=1 / factor)
    return with_spectra(d, [schedule, schedule], axes=alternating_axes(d // 4, 2), layout="interleaved")


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_kandinsky.py, Kandinsky5RoPE3D",
    frequency="theta^(-2i/D) for each axis, where D is the axes_dim of the axis",
    pairs="adjacent values; consecutive blocks of pairs for frame, row and column",
    positions="(frame, row / scale, column / scale), where scale is 2 if both sides have 480 to 854 pixels, else"
    " 3.16; for scale 2: `positions.grid(frames, rows, columns) / (1, 2, 2)`; text has positions of one axis, as in"
    " `roformer`",
    odd="ValueError unless axes_dim has one even number, at least 2, for each axis",
    differs="positions are real numbers",
    also="Kandinsky 6 (axes_dim 32, 48, 48)",
    axes="3",
)
def kandinsky5(
    axes_dim: Sequence[int] = (16, 24, 24), *, theta: float = 10000.0, frequencies: Precision = "exact"
) -> Rotary:
    """Rotary embedding of Kandinsky 5."""
    return axis_by_axis(axes_dim, 3, theta, frequencies, recipe=exp_divided)


@rotary_preset(
    source="huggingface/diffusers: models/transformers/transformer_minimax_h3.py, MiniMaxH3RotaryPosEmbed",
    frequency="theta^(-i/rope_freq_dim) for each axis",
    pairs="values D/2 apart, among the first D = 6 * rope_freq_dim values of a head; consecutive blocks of pairs for"
    " t, row and column",
    positions="(t, row, column)",
    odd="ValueError if head_dim is below 6 * rope_freq_dim",
    differs="pairs are not adjacent values; only a part of each head rotates",
    axes="3",
)
def minimax_h3(
    head_dim: int = 128, *, rope_freq_dim: int = 16, theta: float = 10000.0, frequencies: Precision = "exact"
) -> Rotary:
    """Rotary embedding of MiniMax-H3."""
    dim = 2 * count_of(rope_freq_dim, "rope_freq_dim", 1)
    return with_spectra(count_of(head_dim, "head_dim", 3 * dim), per_axis_spectra([dim] * 3, theta, frequencies))


@rotary_preset(
    source="huggingface/diffusers: pipelines/stable_audio/pipeline_stable_audio.py, get_1d_rotary_pos_embed",
    frequency="theta^(-2i/D), D = head_dim / 2 rounded down",
    pairs="values D/2 apart, among the first D values of a head",
    positions="the token's index from 0; global tokens before the audio are counted too",
    odd="ValueError unless head_dim / 2, rounded down, is even and at least 2",
    differs="pairs are not adjacent values; only a part of each head rotates",
    also="Stable Audio 3, MiniMax-Music (each with its own rotary width)",
)
def stable_audio(head_dim: int = 64, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Rotary:
    """Rotary embedding of Stable Audio Open."""
    return with_theta(head_dim, theta, frequencies, rotary_dim=partial_dim(head_dim, 0.5))
