"""Presets of models of speech and music."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core.encoding.builders import fourier_features, sinusoidal
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of, real
from .._core.numbers.schedule import linear
from ..typing import Function, Precision
from . import _recipes
from ._build import TWO_PI, even, positive, power, sinusoids
from ._registry import preset

__all__ = [
    "conformer_relative",
    "espnet_scaled",
    "hyena",
    "musicgen",
    "nemo_fixed",
    "speechbrain_rotary",
    "whisper",
    "zipformer",
]


@preset(
    source="openai/whisper: whisper/model.py, sinusoids",
    frequency="max_timescale^(-i / (d/2 - 1))",
    layout="sines, then cosines",
    differs="the last exponent is exactly -1; sines come first",
    also="Hugging Face Whisper and Qwen2.5-Omni SinusoidsPositionEmbedding, WeNet WhisperPositionalEncoding, OpenNMT-py"
    " SinusoidalConcat, Pegasus-X (max_scale is max_timescale), vit-pytorch posemb_sincos_1d, Gemma 4 audio (positions"
    " descend to 0)",
    example="pf.presets.whisper(6).frequencies -> array([1.e+00, 1.e-02, 1.e-04, 1.e+00, 1.e-02, 1.e-04])",
)
def whisper(channels: int, *, max_timescale: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """Sinusoids of Whisper's audio encoder."""
    d = even(channels, "channels")
    return sinusoids(d, frequencies, _recipes.exp_of_index, base=positive(max_timescale, "max_timescale"), shift=1)


@preset(
    source="huggingface/transformers: models/musicgen, MusicgenSinusoidalPositionalEmbedding",
    frequency="max_period^(-i / (d//2 - 1))",
    layout="cosines, then sines",
    odd="zero column at the end if the width is odd",
    differs="the last exponent is exactly -1; cosines come first",
    also="audiocraft create_sin_embedding (it divides positions by float32 periods)",
    example="pf.presets.musicgen(5).encode(0) -> array([1., 1., 0., 0., 0.], dtype=float32)",
)
def musicgen(embedding_dim: int, *, max_period: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """Sinusoidal positional embedding of MusicGen."""
    d = count_of(embedding_dim, "embedding_dim", 1)
    return sinusoids(
        d,
        frequencies,
        _recipes.exp_of_index,
        base=positive(max_period, "max_period"),
        shift=1,
        functions=("cos", "sin"),
        odd="zero",
    )


@preset(
    source="espnet/espnet: nets/pytorch_backend/transformer/embedding.py, ScaledPositionalEncoding",
    frequency="10000^(-2i/d)",
    layout="alternating sines and cosines",
    differs="all columns are multiplied by a learned factor alpha, initially 1",
    also="Hugging Face SpeechT5ScaledPositionalEncoding",
    example="pf.presets.espnet_scaled(4, alpha=0.5).encode(0) -> array([0. , 0.5, 0. , 0.5], dtype=float32)",
)
def espnet_scaled(d_model: int, *, alpha: float = 1.0, frequencies: Precision = "exact") -> Encoding:
    """Scaled positional encoding of ESPnet."""
    d = even(d_model, "d_model")
    return sinusoids(d, frequencies, _recipes.exp_of_even, layout="interleaved", scale=real(alpha, "alpha"))


@preset(
    source="NVIDIA/NeMo: asr/modules/transformer/transformer_modules.py, FixedPositionalEncoding",
    frequency="10000^(-2i/d)",
    layout="alternating sines and cosines",
    positions="0, 1, .., or other indices: `.encode(indices)`",
    differs="all columns are divided by sqrt(d)",
    example="pf.presets.nemo_fixed(4).encode(0) -> array([0. , 0.5, 0. , 0.5], dtype=float32)",
)
def nemo_fixed(hidden_size: int, *, frequencies: Precision = "exact") -> Encoding:
    """Fixed positional encoding of NeMo's transformer."""
    d = even(hidden_size, "hidden_size")
    return sinusoids(d, frequencies, _recipes.exp_of_even, layout="interleaved", scale=power(d, -0.5))


@preset(
    source="espnet/espnet: nets/pytorch_backend/transformer/embedding.py, RelPositionalEncoding",
    frequency="10000^(-2i/d)",
    layout="alternating sines and cosines",
    positions="n - 1, .., -(n - 1): `.encode(relative_positions(n))`",
    differs="positions are signed distances, in descending order",
    also="NeMo RelPositionalEncoding and LocalAttRelPositionalEncoding (positions left, .., -right), WeNet, fairseq,"
    " Hugging Face FastSpeech2Conformer, Wav2Vec2Conformer and Parakeet; SpeechBrain RelPosEncXL, which does not"
    " distinguish past and future: `.encode(abs(relative_positions(n)))`",
    example="pf.presets.conformer_relative(2).encode(pf.relative_positions(2)).round(2)"
    " -> array([[ 0.84,  0.54],\n       [ 0.  ,  1.  ],\n       [-0.84,  0.54]], dtype=float32)",
)
def conformer_relative(d_model: int, *, frequencies: Precision = "exact") -> Encoding:
    """Relative positional encoding of the Conformer."""
    return sinusoids(even(d_model, "d_model"), frequencies, _recipes.exp_of_even, layout="interleaved")


@preset(
    source="NVIDIA/NeMo: hyena/hyena_filter.py, PositionalEmbedding",
    frequency="2 pi / seq_len * (1e-4 + i (b - 1 - 1e-4) / (b - 1)), b = (emb_dim - 1) / 2",
    layout="cosines, then negative sines",
    positions="0, 1, .. seq_len - 1; the source puts a column of times before the others:"
    " `np.column_stack([np.linspace(0, 1, seq_len), encoding.table(seq_len)])`",
    odd="ValueError unless emb_dim is odd and at least 3; the encoding has emb_dim - 1 columns, without the column of"
    " times",
    differs="frequencies are equally spaced; angles are negative",
    example="pf.presets.hyena(5, 8).encode(0) -> array([ 1.,  1., -0., -0.], dtype=float32)",
)
def hyena(emb_dim: int, seq_len: int) -> Encoding:
    """Positional embedding of the Hyena filter, without its column of times."""
    d = count_of(emb_dim, "emb_dim", 3)
    if d % 2 == 0:
        raise ValueError(f"emb_dim={d} must be odd (one column of times, then pairs); give {d - 1} or {d + 1}")
    bands, step = (d - 1) // 2, TWO_PI / count_of(seq_len, "seq_len", 1)
    return fourier_features(linear(bands, 1e-4 * step, (bands - 1) * step), functions=("cos", "-sin"))


@preset(
    source="speechbrain/speechbrain: nnet/attention.py, PrecomputedRoPESinusoids",
    frequency="10000^(-2i/d)",
    layout="for each frequency: the negative sine, then the sine (the sine table of RoPE)",
    differs="both columns of a pair contain the sine; functions=('cos', 'cos') returns the table of cosines",
    example="pf.presets.speechbrain_rotary(2).encode(1).round(2) -> array([-0.84,  0.84], dtype=float32)",
)
def speechbrain_rotary(input_size: int, *, functions: Sequence[Function] = ("-sin", "sin")) -> Encoding:
    """Table of sines or of cosines for SpeechBrain's rotary embedding."""
    return sinusoidal(even(input_size, "input_size"), functions=functions)


@preset(
    source="k2-fsa/icefall: zipformer/zipformer.py, CompactRelPositionalEncoding",
    frequency="i + 1",
    layout="alternating cosines and sines; the last column is 1",
    positions="angles of the relative positions p = -(n - 1), .., n - 1 of n tokens. With s = sqrt(d) and the source's"
    " argument length_factor (default: 1):"
    " `.encode(np.arctan(2 * np.pi * s / (length_factor * d) * np.sign(p) * np.log1p(np.abs(p) / s)))`",
    differs="frequencies are integers; positions are compressed logarithmically; the cosine comes first; the last"
    " sine is replaced by 1",
    example="pf.presets.zipformer(4).encode(0) -> array([1., 0., 1., 1.], dtype=float32)",
)
def zipformer(embed_dim: int) -> Encoding:
    """Compact relative positional encoding of the Zipformer."""
    d = even(embed_dim, "embed_dim")
    harmonics = np.repeat(np.arange(1.0, d // 2 + 1), 2)
    harmonics[-1] = 0.0
    phases = np.tile([0.25, 0.0], d // 2)
    phases[-1] = 0.25
    return Encoding(harmonics, phases)
