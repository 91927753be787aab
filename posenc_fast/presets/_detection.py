"""Presets of the DETR family: positions are boxes, points, times, or (y, x) from `mask_coordinates`."""

from __future__ import annotations

from .._core.encoding.value import Encoding
from .._core.numbers.schedule import geometric
from ._build import TWO_PI, arranged, even, per_axis, positive, sinusoids
from ._images import XY, YX
from ._registry import preset

__all__ = [
    "dab_detr",
    "dab_detr_boxes",
    "deformable_detr",
    "deformable_detr_proposals",
    "detr",
    "petr",
    "streampetr_time",
]


@preset(
    source="facebookresearch/detr: models/position_encoding.py, PositionEmbeddingSine",
    frequency="temperature^(-2i/n), n = num_pos_feats",
    layout="alternating sines and cosines of y, then of x",
    positions="`.encode(mask_coordinates(mask, normalize=True))`; normalize=False for models with this setting; the"
    " source divides positions by float32 periods, and puts the channels before rows and columns",
    odd="ValueError if num_pos_feats is odd; the encoding has 2 * num_pos_feats columns",
    differs="the columns of y come first; with normalize=True, positions are scaled to (0, 2 pi]",
    also="Conditional DETR, MaskFormer, Mask2Former, Table Transformer, mmdet SinePositionalEncoding (pass its offset"
    " to `mask_coordinates`); Mask2Former for video adds `annotated_transformer(2 * num_pos_feats)` of the frame",
    axes="2",
    example="mask = [[True, True, True], [True, True, True]]\n"
    "pf.presets.detr(2).encode(pf.mask_coordinates(mask)).shape"
    " -> (2, 3, 4)",
)
def detr(num_pos_feats: int = 64, *, temperature: float = 10000.0) -> Encoding:
    """Sine position embedding of DETR."""
    d = even(num_pos_feats, "num_pos_feats")
    return per_axis([sinusoids(d, base=positive(temperature, "temperature"), layout="interleaved")] * 2, YX)


@preset(
    source="fundamentalvision/Deformable-DETR: models/position_encoding.py, PositionEmbeddingSine",
    frequency="temperature^(-2i/n), n = num_pos_feats",
    layout="alternating sines and cosines of y, then of x",
    positions="`.encode(mask_coordinates(mask, offset=-0.5))`; the source puts the channels before rows and columns",
    odd="ValueError if num_pos_feats is odd; the encoding has 2 * num_pos_feats columns",
    differs="like `detr`, but with positions at the centres of the cells",
    also="Hugging Face DeformableDetrSinePositionEmbedding",
    axes="2",
    example="pf.presets.deformable_detr(64) == pf.presets.detr(64) -> True",
)
def deformable_detr(num_pos_feats: int = 64, *, temperature: float = 10000.0) -> Encoding:
    """Sine position embedding of Deformable DETR."""
    return detr(num_pos_feats, temperature=temperature)


@preset(
    source="huggingface/transformers: models/dab_detr, DabDetrSinePositionEmbedding",
    frequency="temperature^(-2i/n), n = num_pos_feats, with a temperature for each axis",
    layout="alternating sines and cosines of y, then of x",
    positions="`.encode(mask_coordinates(mask))`; the source puts the channels before rows and columns",
    odd="ValueError if num_pos_feats is odd; the encoding has 2 * num_pos_feats columns",
    differs="like `detr`, but the default temperature is 20",
    also="Hugging Face GroundingDinoSinePositionEmbedding",
    axes="2",
    example="pf.presets.dab_detr(4).frequencies[[0, 2], 0].round(4) -> array([1.    , 0.2236])",
)
def dab_detr(
    num_pos_feats: int = 128, *, temperature_height: float = 20.0, temperature_width: float = 20.0
) -> Encoding:
    """Sine position embedding of DAB-DETR."""
    d = even(num_pos_feats, "num_pos_feats")
    bases = positive(temperature_height, "temperature_height"), positive(temperature_width, "temperature_width")
    parts = [sinusoids(d, base=base, layout="interleaved") for base in bases]
    return per_axis(parts, YX)


@preset(
    source="huggingface/transformers: models/dab_detr, encode_sinusoidal_position_embedding",
    frequency="2 pi * temperature^(-2i/n), n = num_pos_feats",
    layout="alternating sines and cosines of y, then of x, width and height",
    positions="boxes (x, y, width, height) in [0, 1]: `.encode(boxes)`",
    odd="ValueError if num_pos_feats is odd; the encoding has 4 * num_pos_feats columns",
    differs="the columns of y come first; positions are multiplied by 2 pi",
    also="Conditional DETR and Grounding DINO (for points (x, y), use the first 2 * num_pos_feats columns)",
    axes="4",
    example="pf.presets.dab_detr_boxes(2).encode([0.25, 0.0, 0.0, 0.0]).round(6)"
    " -> array([0., 1., 1., 0., 0., 1., 0., 1.], dtype=float32)",
)
def dab_detr_boxes(num_pos_feats: int = 128, *, temperature: float = 10000.0) -> Encoding:
    """Encoding of boxes in DAB-DETR."""
    d = even(num_pos_feats, "num_pos_feats")
    return per_axis(
        [sinusoids(d, base=positive(temperature, "temperature"), first=TWO_PI, layout="interleaved")] * 4, (*XY, 2, 3)
    )


@preset(
    source="fundamentalvision/Deformable-DETR: models/deformable_transformer.py, get_proposal_pos_embed",
    frequency="2 pi * temperature^(-2i/n), n = num_pos_feats",
    layout="alternating sines and cosines of x, then of y, width and height",
    positions="boxes (x, y, width, height) in [0, 1]: `.encode(boxes)`",
    odd="ValueError if num_pos_feats is odd; the encoding has 4 * num_pos_feats columns",
    differs="the columns of x come first; positions are multiplied by 2 pi",
    axes="4",
    example="pf.presets.deformable_detr_proposals(2).encode([0.25, 0.0, 0.0, 0.0]).round(6)"
    " -> array([1., 0., 0., 1., 0., 1., 0., 1.], dtype=float32)",
)
def deformable_detr_proposals(num_pos_feats: int = 128, *, temperature: float = 10000.0) -> Encoding:
    """Encoding of proposals in Deformable DETR."""
    d = even(num_pos_feats, "num_pos_feats")
    return arranged([geometric(d // 2, base=positive(temperature, "temperature"), first=TWO_PI)] * 4, "afs")


@preset(
    source="megvii-research/PETR: projects/mmdet3d_plugin/models/dense_heads/petr_head.py, pos2posemb3d",
    frequency="2 pi * temperature^(-2i/n), n = num_pos_feats",
    layout="alternating sines and cosines of y, then of x and z",
    positions="points (x, y, z) in [0, 1]: `.encode(points)`",
    odd="ValueError if num_pos_feats is odd; the encoding has 3 * num_pos_feats columns",
    differs="the columns of y come first; positions are multiplied by 2 pi",
    also="PETRv2; StreamPETR models/utils/positional_encoding.py, pos2posemb3d",
    axes="3",
    example="pf.presets.petr(2).encode([0.25, 0.0, 0.5]).round(6)"
    " -> array([ 0.,  1.,  1.,  0.,  0., -1.], dtype=float32)",
)
def petr(num_pos_feats: int = 128, *, temperature: float = 10000.0) -> Encoding:
    """Encoding of points in space in PETR."""
    return per_axis([streampetr_time(num_pos_feats, temperature=temperature)] * 3, (1, 0, 2))


@preset(
    source="exiawsh/StreamPETR: projects/mmdet3d_plugin/models/utils/positional_encoding.py, pos2posemb1d",
    frequency="2 pi * temperature^(-2i/n), n = num_pos_feats",
    layout="alternating sines and cosines",
    positions="times: `.encode(t)`",
    odd="ValueError if the width is odd",
    differs="positions are multiplied by 2 pi",
    example="pf.presets.streampetr_time(2).encode(0.25).round(6) -> array([1., 0.], dtype=float32)",
)
def streampetr_time(num_pos_feats: int = 256, *, temperature: float = 10000.0) -> Encoding:
    """Encoding of times in StreamPETR."""
    d = even(num_pos_feats, "num_pos_feats")
    return sinusoids(d, base=positive(temperature, "temperature"), first=TWO_PI, layout="interleaved")
