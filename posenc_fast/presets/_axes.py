"""Presets of video and grids with any number of axes: positions are indices of cells, such as (frame, row, column)."""

from __future__ import annotations

from collections.abc import Sequence

from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of
from ..typing import Precision
from . import _recipes
from ._build import even, fitted, multiple, per_axis, positive, sinusoids
from ._language import tensor2tensor
from ._registry import preset

__all__ = [
    "diffusers_3d",
    "fairseq2_2d",
    "fairseq2_3d",
    "monai",
    "simple_vit_3d",
    "tatp22",
    "tensor2tensor_nd",
]


@preset(
    source="huggingface/diffusers: models/embeddings.py, get_3d_sincos_pos_embed",
    frequency="10000^(-8i/d) / temporal_interpolation_scale for time, 10000^(-16i/(3d)) / spatial_interpolation_scale"
    " for space",
    layout="d/4 columns of time, 3d/8 of x and 3d/8 of y; for each axis sines, then cosines",
    positions="(t, y, x): indices of frame, row and column",
    odd="ValueError unless 16 divides the width",
    differs="time has fewer columns than x and y",
    axes="3",
    example="pf.presets.diffusers_3d(16).encode([0, 0, 0])"
    " -> array([0., 0., 1., 1., 0., 0., 0., 1., 1., 1., 0., 0., 0., 1., 1., 1.],\n      dtype=float32)",
)
def diffusers_3d(
    embed_dim: int, *, spatial_interpolation_scale: float = 1.0, temporal_interpolation_scale: float = 1.0
) -> Encoding:
    """Position embedding of video patches in diffusers (CogVideoX and others)."""
    d = multiple(embed_dim, "embed_dim", 16, 3)
    time = 1 / positive(temporal_interpolation_scale, "temporal_interpolation_scale")
    space = 1 / positive(spatial_interpolation_scale, "spatial_interpolation_scale")
    plane = sinusoids(3 * d // 8, first=space)
    return per_axis([sinusoids(d // 4, first=time), plane, plane], (0, 2, 1))


@preset(
    source="lucidrains/vit-pytorch: vit_pytorch/simple_vit_3d.py, posemb_sincos_3d",
    frequency="temperature^(-i / (d//6 - 1))",
    layout="sines of x, cosines of x, then the same for y, then for z",
    positions="(z, y, x): indices of frame, row and column",
    odd="zero columns at the end if 6 does not divide the width; ValueError below 6",
    differs="the columns of x come first; the last exponent is exactly -1",
    axes="3",
    example="pf.presets.simple_vit_3d(7).encode([0, 0, 0]) -> array([0., 1., 0., 1., 0., 1., 0.], dtype=float32)",
)
def simple_vit_3d(dim: int, *, temperature: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """Position embedding of the simple ViT for video."""
    d = count_of(dim, "dim", 6)
    part = sinusoids(d // 6 * 2, frequencies, _recipes.power, base=positive(temperature, "temperature"), shift=1)
    return fitted(per_axis([part] * 3, (2, 1, 0)), d)


@preset(
    source="tatp22/multidim-positional-encoding: positional_encodings/torch_encodings.py, PositionalEncoding1D to 3D",
    frequency="10000^(-2i/n), n = 2 ceil(channels / (2 ndim)) for each axis",
    layout="for each axis: alternating sines and cosines",
    positions="0, 1, .. on each axis",
    odd="crop if 2 * ndim does not divide the width: the preset computes the next larger multiple of 2 * ndim, and"
    " leaves out the last columns; ValueError if no column is left for the last axis",
    differs="the columns are divided among the axes; if 2 * ndim does not divide the width, the frequencies are those"
    " of the next larger multiple of 2 * ndim",
    also="the class Summer of the same package, which adds the encoding to its input",
    axes="ndim",
    example="pf.presets.tatp22(6, 2).encode([0, 0]) -> array([0., 1., 0., 1., 0., 1.], dtype=float32)",
)
def tatp22(channels: int, ndim: int = 1, *, frequencies: Precision = "exact") -> Encoding:
    """Positional encodings of tatp22 over one or several axes."""
    d, axes = count_of(channels, "channels", 1), count_of(ndim, "ndim", 1)
    pairs = -(-d // (2 * axes))
    if d <= 2 * pairs * (axes - 1):
        raise ValueError(
            f"channels={d} leaves no column for the last of {axes} axes; give {2 * axes * pairs}, for example"
        )
    part = sinusoids(2 * pairs, frequencies, _recipes.power, layout="interleaved")
    return fitted(per_axis([part] * axes, range(axes)), d)


@preset(
    source="Project-MONAI/MONAI: monai/networks/blocks/pos_embed_utils.py, build_sincos_position_embedding",
    frequency="temperature^(-2i/n), n = d / spatial_dims",
    layout="sines of x, cosines of x, then the same for y, and for depth if spatial_dims=3",
    positions="(y, x) with spatial_dims=2, (y, x, depth) with spatial_dims=3",
    odd="ValueError unless 2 * spatial_dims divides the width",
    differs="the columns of x come first",
    axes="2 or 3",
    example="pf.presets.monai(6).encode([0, 1, 0]).round(2)"
    " -> array([0.84, 0.54, 0.  , 1.  , 0.  , 1.  ], dtype=float32)",
)
def monai(
    embed_dim: int, *, spatial_dims: int = 3, temperature: float = 10000.0, frequencies: Precision = "exact"
) -> Encoding:
    """Position embedding of images and volumes in MONAI."""
    if count_of(spatial_dims, "spatial_dims", 2) > 3:
        raise ValueError(f"spatial_dims must be 2 or 3, not {spatial_dims!r}")
    d = multiple(embed_dim, "embed_dim", 2 * spatial_dims, spatial_dims)
    part = sinusoids(d // spatial_dims, frequencies, _recipes.power, base=positive(temperature, "temperature"))
    return per_axis([part] * spatial_dims, (1, 0, 2)[:spatial_dims])


@preset(
    source="facebookresearch/fairseq2: src/fairseq2/nn/position_encoder.py, Sinusoidal2dPositionEncoder",
    frequency="10000^(-2i/n), n = 2 ceil(d/4) for each axis",
    layout="sines of y, cosines of y, sines of x, cosines of x; the last columns are cut off if 4 does not divide the"
    " width",
    positions="(y, x): row and column of a grid cell; if the input has another grid than the source's table, the source"
    " interpolates the table",
    odd="ValueError if the width is odd, and for 2",
    differs="the columns of y come first",
    axes="2",
    example="pf.presets.fairseq2_2d(6).encode([0, 0]) -> array([0., 0., 1., 1., 0., 0.], dtype=float32)",
)
def fairseq2_2d(encoding_dim: int) -> Encoding:
    """Position encoder of images in fairseq2."""
    d = even(encoding_dim, "encoding_dim")
    return _fairseq2(d, [-(-d // 4)] * 2, 4)


@preset(
    source="facebookresearch/fairseq2: src/fairseq2/nn/position_encoder.py, Sinusoidal3dPositionEncoder",
    frequency="10000^(-2i/n), n = 2 ceil(d/4) for depth, 2 ceil(d/8) for y and x; 2 ceil(d/6) with uniform_power",
    layout="sines of depth, cosines of depth, then the same for y, then for x; columns beyond the width are cut off",
    positions="(depth, y, x): indices of a grid cell; if the input has another grid than the source's table, the source"
    " interpolates the table",
    odd="ValueError if the width is odd, and for 2, 4, 6 and 10 (with uniform_power: for 2, 4 and 8)",
    differs="depth has about half of the columns, y and x about a quarter each; with uniform_power, a third each",
    axes="3",
    example="pf.presets.fairseq2_3d(8).encode([0, 0, 0]) -> array([0., 0., 1., 1., 0., 1., 0., 1.], dtype=float32)",
)
def fairseq2_3d(encoding_dim: int, *, uniform_power: bool = False) -> Encoding:
    """Position encoder of video in fairseq2."""
    d = even(encoding_dim, "encoding_dim")
    if uniform_power:
        return _fairseq2(d, [-(-d // 6)] * 3, 6)
    return _fairseq2(d, [-(-d // 4), -(-d // 8), -(-d // 8)], 8)


def _fairseq2(d: int, pairs: Sequence[int], divisor: int) -> Encoding:
    """Return an Encoding of width d.

    pairs: number of pairs of each axis. divisor: every multiple of it is a valid width.
    """
    if 2 * sum(pairs[:-1]) >= d:
        raise ValueError(
            f"encoding_dim={d} leaves no column for the last of {len(pairs)} axes; give a multiple of {divisor}, such "
            f"as {(d // divisor + 1) * divisor}"
        )
    return fitted(per_axis([sinusoids(2 * n) for n in pairs], range(len(pairs))), d)


@preset(
    source="tensorflow/tensor2tensor: layers/common_attention.py, add_timing_signal_nd",
    frequency="min_timescale * (max_timescale / min_timescale)^(-i / (n - 1)), n = d // (2 ndim) for each axis",
    layout="for each axis: sines, then cosines",
    positions="0, 1, .. on each axis",
    odd="zero columns at the end if 2 * ndim does not divide the width; ValueError below 2 * ndim",
    differs="the columns are divided among the axes; the last exponent is exactly -1",
    also="add_timing_signals_given_positions in the same file",
    axes="ndim",
    by_width=False,
    example="pf.presets.tensor2tensor_nd(9, 2).encode([[0, 0]])"
    " -> array([[0., 0., 1., 1., 0., 0., 1., 1., 0.]], dtype=float32)",
)
def tensor2tensor_nd(
    channels: int,
    ndim: int = 2,
    *,
    min_timescale: float = 1.0,
    max_timescale: float = 1.0e4,
    frequencies: Precision = "exact",
) -> Encoding:
    """Timing signal of tensor2tensor over several axes."""
    d, axes = count_of(channels, "channels", 1), count_of(ndim, "ndim", 1)
    if d < 2 * axes:
        raise ValueError(
            f"channels={d} has less than one pair of columns for each of {axes} axes; give at least {2 * axes}"
        )
    part = tensor2tensor(
        d // (2 * axes) * 2, min_timescale=min_timescale, max_timescale=max_timescale, frequencies=frequencies
    )
    return fitted(per_axis([part] * axes, range(axes)), d)
