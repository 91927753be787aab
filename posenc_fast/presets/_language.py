"""Presets of text models: tensor2tensor, programs derived from it, and sequence-to-sequence models."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from .._core.encoding.builders import sinusoidal
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of
from .._core.numbers.names import one_of
from .._core.numbers.schedule import linear
from ..typing import Function, FunnelPart, Precision
from . import _recipes
from ._build import TWO_PI, even, positive, power, sinusoids
from ._registry import preset

__all__ = [
    "ctranslate2",
    "fairseq",
    "flaxformer_rotary",
    "funnel",
    "lingvo_harmonics",
    "marian",
    "mlx",
    "sockeye",
    "tensor2tensor",
    "transformer_xl",
    "x_transformers",
]

FUNNEL: dict[FunnelPart, tuple[Function, Function]] = {
    "phi": ("sin", "sin"),
    "pi": ("cos", "cos"),
    "psi": ("cos", "sin"),
    "omega": ("-sin", "cos"),
}


@preset(
    source="tensorflow/tensor2tensor: layers/common_attention.py, get_timing_signal_1d",
    frequency="min_timescale * (max_timescale / min_timescale)^(-i / (d//2 - 1))",
    layout="sines, then cosines",
    positions="0, 1, .., or from start_index on: `.table(n, start=start_index)`",
    odd="zero column at the end if the width is odd",
    differs="the last exponent is exactly -1; sines come first; min_timescale multiplies the frequencies, despite its"
    " name",
    also="get_timing_signal of common_layers (width 2 num_timescales), praxis and maxtext PositionalEmbedding, lingvo"
    " PositionalEmbeddingLayer, flax sinusoidal_init (wmt, lm1b), flaxformer sinusoidal, AllenNLP"
    " add_positional_features, tensorflow/models RelativePositionEmbedding (an odd width has no zero column there)",
    example="pf.presets.tensor2tensor(4, max_timescale=100.0).frequencies -> array([1.  , 0.01, 1.  , 0.01])",
)
def tensor2tensor(
    channels: int, *, min_timescale: float = 1.0, max_timescale: float = 1.0e4, frequencies: Precision = "exact"
) -> Encoding:
    """Timing signal of tensor2tensor."""
    d, low = count_of(channels, "channels", 1), positive(min_timescale, "min_timescale")
    ratio = positive(max_timescale, "max_timescale") / low
    return sinusoids(d, frequencies, _recipes.exp_of_index, base=ratio, shift=1, first=low, odd="zero")


@preset(
    source="tensorflow/lingvo: core/layers.py, SinusoidalPositionalEmbeddingLayer",
    frequency="2 pi (i + 1) / length",
    layout="sines, then cosines",
    positions="0, 1, .. length - 1",
    differs="frequencies are the integer multiples of 2 pi / length; sines come first",
    example="pf.presets.lingvo_harmonics(4, 8).wavelengths -> array([8., 4., 8., 4.])",
)
def lingvo_harmonics(embedding_dim: int, length: int) -> Encoding:
    """Encoding of lingvo, whose frequencies are harmonics of the sequence length."""
    d, step = even(embedding_dim, "embedding_dim"), TWO_PI / count_of(length, "length", 1)
    return sinusoidal(d, frequencies=linear(d // 2, step, d // 2 * step), layout="concatenated")


@preset(
    source="google/flaxformer: components/embedding.py, generate_fixed_pos_embedding",
    frequency="(max_timescale / min_timescale)^(-2i/d) / min_timescale",
    layout="all sines, then the same sines again, as in the sine table of RoPE",
    differs="both halves of the columns are equal; functions=('cos', 'cos') returns the table of cosines",
    example="pf.presets.flaxformer_rotary(4).encode(1).round(2) -> array([0.84, 0.01, 0.84, 0.01], dtype=float32)",
)
def flaxformer_rotary(
    features: int,
    *,
    functions: Sequence[Function] = ("sin", "sin"),
    min_timescale: float = 1.0,
    max_timescale: float = 10000.0,
) -> Encoding:
    """Table of sines or of cosines for flaxformer's rotary embedding."""
    d, low = even(features, "features"), positive(min_timescale, "min_timescale")
    ratio = positive(max_timescale, "max_timescale") / low
    return sinusoids(d, base=ratio, first=1 / low, functions=functions)


@preset(
    source="facebookresearch/fairseq: modules/sinusoidal_positional_embedding.py, SinusoidalPositionalEmbedding",
    frequency="10000^(-i / (d//2 - 1))",
    layout="sines, then cosines",
    positions="from padding_idx + 1: `.table(n, start=padding_idx + 1)`; with padding: `.encode(mask_positions(mask,"
    " padding_idx=padding_idx))`; in the source's table, whose first position is 0, row padding_idx is zero:"
    " `table[padding_idx] = 0`",
    odd="zero column at the end if the width is odd",
    differs="the last exponent is exactly -1; sines come first; positions start after padding_idx",
    also="Hugging Face M2M100, SpeechToText, SpeechT5, TrOCR, NLLB-MoE, XGLM, Kosmos-2, SeamlessM4T, FSMT; fairseq2"
    " SinusoidalPositionEncoder (starts at 1 + _legacy_pad_idx)",
    example="padding_idx = 1\n"
    "pf.presets.fairseq(4).table(2, start=padding_idx + 1).round(2)"
    " -> array([[ 0.91,  0.  , -0.42,  1.  ],\n       [ 0.14,  0.  , -0.99,  1.  ]], dtype=float32)",
)
def fairseq(embedding_dim: int, *, frequencies: Precision = "exact") -> Encoding:
    """Sinusoidal positional embedding of fairseq."""
    d = count_of(embedding_dim, "embedding_dim", 1)
    return sinusoids(d, frequencies, _recipes.exp_of_index, shift=1, odd="zero")


@preset(
    source="huggingface/transformers: models/marian, MarianSinusoidalPositionalEmbedding",
    frequency="10000^(-2i/d)",
    layout="sines, then cosines",
    positions="0, 1, ..; after cached tokens: `.table(n, start=past_key_values_length)`",
    odd="crop if the width is odd: one sine more than cosines",
    differs="sines come first; the source computes in float64 and rounds the result",
    also="Pegasus, RoFormer, Informer, Autoformer and TimeSeriesTransformer of Hugging Face, CTRL positional_encoding"
    " (computed in float32), CTranslate2's Marian converter",
    example="pf.presets.marian(5).encode(0) -> array([0., 0., 0., 1., 1.], dtype=float32)",
)
def marian(embedding_dim: int) -> Encoding:
    """Sinusoidal positional embedding of Marian."""
    return sinusoidal(count_of(embedding_dim, "embedding_dim", 1), layout="concatenated")


@preset(
    source="kimiyoung/transformer-xl: pytorch/mem_transformer.py, PositionalEmbedding",
    frequency="base^(-2i/d)",
    layout="sines, then cosines",
    positions="n - 1, .., 0: `.table(n, start=n - 1, step=-1)`; with clamp_len: `.encode(np.minimum(positions,"
    " clamp_len))`",
    differs="sines come first; positions are distances, in descending order",
    also="XLNet relative_positional_encoding (positions from klen down to 1 - qlen), GPT-J and CodeGen"
    " create_sinusoidal_positions, VideoPrism, fairseq FixedPositionalEmbedding, NeMo TTS PositionalEmbedding,"
    " GPT-NeoX SinusoidalPositionalEmbedding, GluonTS, torchscale xPos, trax SinCosPositionalEncoding, Funnel"
    " (relative)",
    example="pf.presets.transformer_xl(4).table(2, start=1, step=-1).round(2)"
    " -> array([[0.84, 0.01, 0.54, 1.  ],\n       [0.  , 0.  , 1.  , 1.  ]], dtype=float32)",
)
def transformer_xl(demb: int, *, base: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """Positional embedding of Transformer-XL."""
    return sinusoids(even(demb, "demb"), frequencies, _recipes.power, base=base)


@preset(
    source="awslabs/sockeye: layers.py, get_positional_embeddings and PositionalEmbeddings",
    frequency="10000^(-2i/d)",
    layout="sines, then cosines",
    positions="0, 1, ..; beyond its maximum length, the source repeats the last position",
    differs="sines come first; with scale_down_positions, all columns are divided by sqrt(d)",
    example="pf.presets.sockeye(4, scale_down_positions=True).encode(0) -> array([0. , 0. , 0.5, 0.5], dtype=float32)",
)
def sockeye(depth: int, *, scale_down_positions: bool = False) -> Encoding:
    """Positional embeddings of Sockeye."""
    d = even(depth, "depth")
    return sinusoids(d, scale=power(d, -0.5) if scale_down_positions else 1.0)


@preset(
    source="OpenNMT/CTranslate2: src/layers/common.cc, SinusoidalPositionEncoder",
    frequency="10000^(-i / (d/2 - 1))",
    layout="sines, then cosines",
    positions="1, 2, ..: `.table(n, start=1)`",
    differs="the last exponent is exactly -1; sines come first; positions start at 1",
    example="pf.presets.ctranslate2(4).table(1, start=1).round(2) -> array([[0.84, 0.  , 0.54, 1.  ]], dtype=float32)",
)
def ctranslate2(depth: int, *, frequencies: Precision = "exact") -> Encoding:
    """Sinusoidal position encoder of CTranslate2."""
    return sinusoids(even(depth, "depth"), frequencies, _recipes.exp_of_index, shift=1)


@preset(
    source="huggingface/transformers: models/funnel, get_position_embeds",
    frequency="10000^(-2i/d)",
    layout="phi: sines, then the same sines; pi: cosines, then the same cosines; psi: cosines, then sines; omega:"
    " negative sines, then cosines",
    differs="the factorized attention of the source uses four tables; for its relative_shift attention, use"
    " `transformer_xl`",
    example='pf.presets.funnel(4, part="omega").encode(0) -> array([-0., -0.,  1.,  1.], dtype=float32)',
)
def funnel(d_model: int, *, part: FunnelPart = "phi") -> Encoding:
    """One of the four position tables in the attention of the Funnel Transformer."""
    d = even(d_model, "d_model")
    return sinusoids(d, functions=FUNNEL[one_of(part, "part", FUNNEL)])


@preset(
    source="lucidrains/x-transformers: x_transformers.py, ScaledSinusoidalEmbedding",
    frequency="theta^(-2i/d)",
    layout="sines, then cosines",
    positions="0, 1, .., or from offset on: `.table(n, start=offset)`",
    differs="sines come first; all columns are multiplied by a learned factor, initially 1 / sqrt(d)",
    example="pf.presets.x_transformers(4).encode(0) -> array([0. , 0. , 0.5, 0.5], dtype=float32)",
)
def x_transformers(
    dim: int, *, theta: float = 10000.0, scale: float | None = None, frequencies: Precision = "exact"
) -> Encoding:
    """Scaled sinusoidal embedding of x-transformers."""
    d = even(dim, "dim")
    factor = power(d, -0.5) if scale is None else scale
    return sinusoids(d, frequencies, _recipes.power_negative, base=positive(theta, "theta"), scale=factor)


@preset(
    source="ml-explore/mlx: python/mlx/nn/layers/positional_encoding.py, SinusoidalPositionalEncoding",
    frequency="max_freq * (max_freq / min_freq)^(-i / (d/2 - 1)), times 2 pi with full_turns",
    layout="sines, then cosines; with cos_first, cosines come first",
    positions="any numbers: `.encode(x)`",
    differs="the last exponent is exactly -1; sines come first; all columns are multiplied by sqrt(2/d), or by scale",
    example="pf.presets.mlx(8).encode(0) -> array([0. , 0. , 0. , 0. , 0.5, 0.5, 0.5, 0.5], dtype=float32)",
)
def mlx(
    dims: int,
    *,
    min_freq: float = 0.0001,
    max_freq: float = 1.0,
    scale: float | None = None,
    cos_first: bool = False,
    full_turns: bool = False,
) -> Encoding:
    """Sinusoidal positional encoding of MLX."""
    d, high = even(dims, "dims"), positive(max_freq, "max_freq")
    ratio = high / positive(min_freq, "min_freq")
    return sinusoids(
        d,
        base=ratio,
        shift=1,
        first=high * TWO_PI if full_turns else high,
        functions=("cos", "sin") if cos_first else ("sin", "cos"),
        scale=power(Fraction(2, d), 0.5) if scale is None else scale,
    )
