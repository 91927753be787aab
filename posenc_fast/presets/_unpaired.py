"""Presets of widely copied mistakes: these presets are for checkpoints that were trained with such a mistake."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .._core.encoding.builders import fourier_features
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of, real
from .._core.numbers.schedule import Schedule, geometric
from ._build import even, power
from ._registry import preset

__all__ = ["evans_unpaired", "maxjcohen_unpaired", "positional_embeddings_pytorch_precedence", "wavegrad_swapped"]


def _column_by_column(schedule: Schedule) -> Encoding:
    """Return an Encoding with one frequency for each column, and alternating sines and cosines."""
    return Encoding(schedule, np.arange(len(schedule)) % 2 / 4)


@preset(
    source="SamLynnEvans/Transformer: Embed.py, PositionalEncoder",
    frequency="10000^(-2c/d) for each column c",
    layout="alternating sines and cosines",
    positions="0, 1, ..; jadore801120/attention-is-all-you-need-pytorch sets row 0 to zero: `table[0] = 0`",
    odd="crop if the width is odd: one sine more than cosines",
    differs="the exponent uses the column instead of the pair, so no two columns share a frequency",
    also="jadore801120/attention-is-all-you-need-pytorch before 2017-11, DeepCTR before 0.8.7, Kyubyong/transformer,"
    " YutaroOgawa/pytorch_advanced",
    example="[round(float(value), 4) for value in pf.presets.evans_unpaired(4).encode(2)]"
    " -> [0.9093, 0.9998, 0.0002, 1.0]",
)
def evans_unpaired(d_model: int) -> Encoding:
    """The paper's encoding with 2c/d instead of 2i/d in the exponent (c: column)."""
    d = count_of(d_model, "d_model", 1)
    return _column_by_column(geometric(d, freq_shift=d / 2))


@preset(
    source="maxjcohen/transformer: tst/utils.py, generate_original_PE (early versions)",
    frequency="base^(-c/d) for each column c",
    layout="alternating sines and cosines",
    odd="crop if the width is odd: one sine more than cosines",
    differs="the exponent of column c uses c/2 instead of i, also for odd c; the default base is 1000",
    also="programs that use c/2 instead of c//2 for the pair of column c (base=10000)",
    example="pf.presets.maxjcohen_unpaired(3).frequencies.round(4) -> array([1.  , 0.1 , 0.01])",
)
def maxjcohen_unpaired(d_model: int, *, base: float = 1000.0) -> Encoding:
    """The paper's encoding with c/d instead of 2i/d in the exponent (c: column)."""
    return _column_by_column(geometric(count_of(d_model, "d_model", 1), base=base))


@preset(
    source="ivanvovk/WaveGrad: model/linear_modulation.py, PositionalEncoding (early versions)",
    frequency="scale * (i / (d/2))^0.0001",
    layout="sines, then cosines",
    positions="noise levels in [0, 1]",
    differs="base and exponent are swapped, so that the first frequency is 0, and all others are nearly equal to scale",
    example="pf.presets.wavegrad_swapped(6, scale=1.0).frequencies[:3].round(4) -> array([0.    , 0.9999, 1.    ])",
)
def wavegrad_swapped(dim: int, *, scale: float = 5000.0) -> Encoding:
    """WaveGrad's encoding of noise levels, with base and exponent swapped."""
    n, factor = even(dim, "dim") // 2, real(scale, "scale")
    return fourier_features([factor * power(Fraction(i, n), 1e-4) for i in range(n)])


@preset(
    source="PyPI positional-embeddings-pytorch 0.0.1: sin_cos",
    frequency="10000^(-2i/dim - 1)",
    layout="dim/2 + 1 sines, then the same number of cosines",
    positions="any numbers: `.encode(x)`",
    odd="ValueError if dim is odd; the encoding has dim + 2 columns",
    differs="a missing bracket divides all frequencies by 10000; there is one pair of columns more",
    example="pf.presets.positional_embeddings_pytorch_precedence(4).frequencies[:3] -> array([1.e-04, 1.e-06, 1.e-08])",
)
def positional_embeddings_pytorch_precedence(dim: int) -> Encoding:
    """The encoding of positional-embeddings-pytorch, with 2i/dim + 1 instead of 2i/(dim + 1) in the exponent."""
    d = even(dim, "dim")
    return fourier_features(geometric(d // 2 + 1, freq_shift=1, first=1e-4))
