"""Presets of images: positions of images are (y, x)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._core.encoding.builders import join
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of
from .._core.numbers.exact import exp, log
from .._core.numbers.schedule import geometric, linear
from ..typing import Precision
from . import _recipes
from ._build import arranged, ascending, multiple, per_axis, positive, sequence_of, sinusoids, spectrum
from ._registry import preset

__all__ = [
    "diffusers_2d",
    "loftr",
    "mae",
    "perceiver",
    "praxis_2d",
    "simple_vit",
    "timm",
    "timm_fourier",
    "wzlxjtu",
]

YX, XY = (0, 1), (1, 0)


@preset(
    source="facebookresearch/mae: util/pos_embed.py, get_2d_sincos_pos_embed",
    frequency="10000^(-4i/d)",
    layout="sines of x, cosines of x, sines of y, cosines of y",
    positions="(y, x): row and column of a grid cell; the source puts zero rows for class tokens before the table",
    odd="ValueError unless 4 divides the width",
    differs="the columns of x come first, although the rows of the table are sorted by y first; the source"
    " computes in float64",
    also="DiT; ViT-MAE, AIMv2 and Granite Docling of Hugging Face; MoCo v3 and OmDet-Turbo, with cells in column-major"
    " order; MONAI build_sincos_position_embedding in 2-D; Scale-MAE, with positions multiplied by the resolution of"
    " the image",
    axes="2",
    example="pf.presets.mae(4).encode([0, 1]).round(2) -> array([0.84, 0.54, 0.  , 1.  ], dtype=float32)",
)
def mae(embed_dim: int) -> Encoding:
    """Position embedding of the masked autoencoder."""
    d = multiple(embed_dim, "embed_dim", 4, 2)
    return per_axis([sinusoids(d // 2)] * 2, XY)


@preset(
    source="huggingface/diffusers: models/embeddings.py, get_2d_sincos_pos_embed",
    frequency="base_size / (s interpolation_scale) * 10000^(-4i/d), where s is the side of grid_size on the axis",
    layout="sines of x, cosines of x, sines of y, cosines of y",
    positions="(y, x): row and column of a grid cell; the source puts zero rows for extra tokens before the table",
    odd="ValueError unless 4 divides the width",
    differs="like `mae`, but positions are multiplied by base_size / (s * interpolation_scale)",
    axes="2",
    example="pf.presets.diffusers_2d(8, 32).encode([0, 2]) == pf.presets.mae(8).encode([0, 1])"
    " -> array([ True,  True,  True,  True,  True,  True,  True,  True])",
)
def diffusers_2d(
    embed_dim: int, grid_size: int | Sequence[int], *, interpolation_scale: float = 1.0, base_size: int = 16
) -> Encoding:
    """Position embedding of patches in diffusers (PixArt and others)."""
    d = multiple(embed_dim, "embed_dim", 4, 2)
    sides = list(grid_size) if isinstance(grid_size, Sequence) else [grid_size, grid_size]
    if len(sides) != 2:
        raise ValueError(f"grid_size must be an integer or (rows, columns), not {grid_size!r}")
    base, scale = count_of(base_size, "base_size", 1), positive(interpolation_scale, "interpolation_scale")
    rows, columns = (sinusoids(d // 2, first=base / (count_of(side, "grid_size", 1) * scale)) for side in sides)
    return per_axis([columns, rows], XY)


@preset(
    source="google/praxis: layers/embedding_softmax.py, PositionalEmbedding2D",
    frequency="temperature^(-4i/d)",
    layout="sines of y, cosines of y, sines of x, cosines of x",
    positions="(y, x) relative to the centre: y from -(height // 2), x from -(width // 2); the"
    " source's table also has zero rows for class tokens",
    odd="ValueError unless 4 divides the width",
    differs="the columns of y come first",
    also="Hugging Face build_2d_sinusoidal_position_embedding (cells are counted from 0), in RT-DETR, D-FINE and"
    " DEIMv2; if a model of Hugging Face puts the columns of x first, use `mae`",
    axes="2",
    example="pf.presets.praxis_2d(4).encode([1, 0]).round(2) -> array([0.84, 0.54, 0.  , 1.  ], dtype=float32)",
)
def praxis_2d(embedding_dims: int, *, temperature: float = 10000.0) -> Encoding:
    """Positional embedding of praxis in two dimensions."""
    d = multiple(embedding_dims, "embedding_dims", 4, 2)
    return per_axis([sinusoids(d // 2, base=positive(temperature, "temperature"))] * 2, YX)


@preset(
    source="lucidrains/vit-pytorch: vit_pytorch/simple_vit.py, posemb_sincos_2d",
    frequency="temperature^(-i / (d/4 - 1))",
    layout="sines of x, cosines of x, sines of y, cosines of y",
    positions="(y, x): row and column of a grid cell",
    odd="ValueError unless 4 divides the width",
    differs="the columns of x come first; the last exponent is exactly -1",
    also="google-research/big_vision models/vit.py posemb_sincos_2d",
    axes="2",
    example="pf.presets.simple_vit(8).frequencies[:, 1]"
    " -> array([1.e+00, 1.e-04, 1.e+00, 1.e-04, 0.e+00, 0.e+00, 0.e+00, 0.e+00])",
)
def simple_vit(dim: int, *, temperature: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """Position embedding of the simple ViT."""
    d = multiple(dim, "dim", 4, 2)
    return per_axis(
        [sinusoids(d // 2, frequencies, _recipes.power, base=positive(temperature, "temperature"), shift=1)] * 2, XY
    )


@preset(
    source="huggingface/pytorch-image-models: timm/layers/pos_embed_sincos.py, build_sincos2d_pos_embed",
    frequency="temperature^(-4i/d)",
    layout="sines of y, sines of x, cosines of y, cosines of x; with interleave_sin_cos, sines of y, cosines of y,"
    " sines of x, cosines of x; with reverse_coord, x comes before y",
    positions="(y, x): row and column of a grid cell; with reverse_coord, the source orders cells column by column",
    odd="ValueError unless 4 divides the width",
    differs="all sines come before all cosines, unless interleave_sin_cos is true",
    axes="2",
    example="pf.presets.timm(4).encode([1, 0]).round(2) -> array([0.84, 0.  , 0.54, 1.  ], dtype=float32)",
)
def timm(
    dim: int = 64,
    *,
    temperature: float = 10000.0,
    reverse_coord: bool = False,
    interleave_sin_cos: bool = False,
    frequencies: Precision = "exact",
) -> Encoding:
    """Position embedding of images in timm."""
    d = multiple(dim, "dim", 4, 2)
    part = spectrum(frequencies, _recipes.power, d // 4, base=positive(temperature, "temperature"))
    encoding = arranged([part, part], "asf" if interleave_sin_cos else "saf")
    return join([encoding], axes=[XY if reverse_coord else YX])


@preset(
    source="huggingface/pytorch-image-models: timm/layers/pos_embed_sincos.py, build_fourier_pos_embed",
    frequency="pi * (max_res/2)^(i / (n - 1)), n = num_bands; pi * linspace(1, max_res/2, n) with linear_bands=True;"
    " temperature^(-i/n) with in_pixels=False",
    layout="sines of all frequencies of y, then of x; then the cosines in the same order",
    positions="(y, x) from -1 to 1; with in_pixels=False, row and column of a grid cell; with include_grid, the"
    " source puts the coordinates before the columns: `np.concatenate([grid, encoding.encode(grid)], -1)`",
    odd="4 columns for each frequency",
    differs="with in_pixels, frequencies ascend",
    axes="2",
    example="pf.presets.timm_fourier(2).encode([[-1.0, 1.0]]).shape -> (1, 8)",
)
def timm_fourier(
    num_bands: int = 64,
    *,
    max_res: float = 224,
    temperature: float = 10000.0,
    linear_bands: bool = False,
    in_pixels: bool = True,
) -> Encoding:
    """Fourier position embedding of images in timm."""
    n, pi = count_of(num_bands, "num_bands", 1), math.pi
    half = positive(max_res, "max_res") / 2
    if not in_pixels:
        bands = geometric(n, base=positive(temperature, "temperature"))
    elif linear_bands:
        bands = linear(n, pi, pi * half)
    else:
        bands = ascending(n, half, per=max(n - 1, 1), first=pi)
    return arranged([bands, bands], "saf")


@preset(
    source="wzlxjtu/PositionalEncoding2D: positionalembedding2d.py, positionalencoding2d",
    frequency="10000^(-4i/d)",
    layout="alternating sines and cosines of x, then of y",
    positions="(y, x): row and column of a grid cell; the source puts the channels before rows and columns:"
    " `np.moveaxis(encoding.encode(cells), -1, 0)`",
    odd="ValueError unless 4 divides the width",
    differs="the columns of x come first",
    axes="2",
    example="pf.presets.wzlxjtu(4).encode([0, 1]).round(2) -> array([0.84, 0.54, 0.  , 1.  ], dtype=float32)",
)
def wzlxjtu(d_model: int, *, frequencies: Precision = "exact") -> Encoding:
    """Position encoding of images, with alternating sines and cosines."""
    d = multiple(d_model, "d_model", 4, 2)
    return per_axis([sinusoids(d // 2, frequencies, _recipes.exp_of_even, layout="interleaved")] * 2, XY)


@preset(
    source="zju3dv/LoFTR: src/loftr/utils/position_encoding.py, PositionEncodingSine",
    frequency="10000^(-4i/d); exp(-2i) with temp_bug_fix=False",
    layout="for each frequency: sine and cosine of x, sine and cosine of y",
    positions="(y, x): row and column of a grid cell, counted from 1; the source puts the channels before rows and"
    " columns: `np.moveaxis(encoding.encode(cells), -1, 0)`",
    odd="ValueError unless 4 divides the width",
    differs="the axes alternate; positions start at 1",
    axes="2",
    example="pf.presets.loftr(8, temp_bug_fix=False).frequencies[:, 1].round(4)"
    " -> array([1.    , 1.    , 0.    , 0.    , 0.1353, 0.1353, 0.    , 0.    ])",
)
def loftr(d_model: int, *, temp_bug_fix: bool = True) -> Encoding:
    """Position encoding of LoFTR."""
    d = multiple(d_model, "d_model", 4, 2)
    part = geometric(d // 4) if temp_bug_fix else geometric(d // 4, base=_loftr_base(d), freq_shift=d // 4 - 1)
    return join([arranged([part, part], "fas")], axes=[XY])


def _loftr_base(d: int) -> float:
    """Return the base that results in the source, where ``-log(10000) / d // 2`` rounds down to an integer."""
    return float(exp(-2 * (-float(log(10000.0)) / d // 2)))


@preset(
    source="huggingface/transformers: models/perceiver, generate_fourier_features",
    frequency="pi * linspace(1, n/2, num_bands) for each axis, where n is the number in max_resolution for the axis",
    layout="sines of all frequencies of the first axis, then of the next; then the cosines in the same order",
    positions="from -1 to 1 on each axis; with concat_pos, the source puts the coordinates before the columns:"
    " `np.concatenate([grid, encoding.encode(grid)], -1)`",
    odd="2 columns for each frequency of each axis",
    differs="frequencies are equally spaced up to about half a turn per pixel",
    axes="any number",
    example="pf.presets.perceiver(3, max_resolution=(4, 6)).d_model -> 12",
)
def perceiver(num_bands: int, *, max_resolution: Sequence[int] = (224, 224)) -> Encoding:
    """Fourier features of the Perceiver."""
    n = count_of(num_bands, "num_bands", 1)
    pi, sizes = math.pi, [count_of(size, "max_resolution", 1) for size in sequence_of(max_resolution, "max_resolution")]
    return arranged([linear(n, pi, pi * size / 2) for size in sizes], "saf")
