"""Presets of tabular data and time series: numerical features and seasons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import cast

import numpy as np
import numpy.typing as npt

from .._core.encoding.builders import fourier_features
from .._core.encoding.periods import periodic
from .._core.encoding.sinusoids import Sinusoids
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of, real_array
from .._core.rotary.value import Rotary
from ._build import TWO_PI, cosines, fitted, matrix, per_axis, positive, sequence_of
from ._registry import preset, rotary_preset
from ._rotary_build import whole_pairs, with_theta

__all__ = ["fone", "moirai", "nemos", "pbld", "plr", "prophet", "rbf_sampler"]


@preset(
    source="yandex-research/rtdl-num-embeddings: package/rtdl_num_embeddings.py, _Periodic of PeriodicEmbeddings",
    frequency="2 pi weight[:, i]",
    layout="for each feature: cosines, then sines",
    positions="rows of features: `.encode(x).reshape(*x.shape, -1)` has one vector for each feature; the preset does"
    " not contain the linear layers of the model",
    odd="2 columns for each weight",
    differs="frequencies are learned numbers from a checkpoint; each frequency belongs to one axis; cosines come first",
    also="TabR, and TabM with these embeddings; pytabkit PLREmbeddingsLayer and PeriodicEmbeddingsLayerSinCos"
    " (weight is weight_1[:, 0])",
    axes="any number",
    example="pf.presets.plr([[0.25], [0.5]]).encode([1.0, 1.0]).round(6) -> array([ 0.,  1., -1.,  0.], dtype=float32)",
)
def plr(weight: npt.ArrayLike) -> Encoding:
    """Periodic embeddings of numerical features (PL, PLR)."""
    rows = TWO_PI * matrix(weight, "weight", "(features, k)")
    return per_axis([fourier_features(row, functions=("cos", "sin")) for row in rows], range(len(rows)))


@preset(
    source="dholzmueller/pytabkit: pytabkit/models/nn_models/nn.py, PLREmbeddingsLayerCosBias (PBLD)",
    frequency="2 pi weight_1[:, i]",
    layout="for each feature: only cosines, each with its own phase",
    positions="rows of features: `.encode(x)`; the source's layer also has a linear layer, and outputs x itself too",
    odd="1 column for each weight",
    differs="frequencies and phases are learned numbers from a checkpoint: `weight_1[:, 0]` and `bias_1[:, 0]`",
    also="RealMLP",
    axes="any number",
    example="pf.presets.pbld([[0.25], [0.5]], [[0.0], [3.0]]).encode([1.0, 1.0]).round(4)"
    " -> array([0.  , 0.99], dtype=float32)",
)
def pbld(weight_1: npt.ArrayLike, bias_1: npt.ArrayLike) -> Encoding:
    """Periodic embeddings with biases in RealMLP (PBLD)."""
    rows = TWO_PI * matrix(weight_1, "weight_1", "(features, k)")
    phases = matrix(bias_1, "bias_1", "(features, k)") / TWO_PI
    if phases.shape != rows.shape:
        raise ValueError(f"bias_1 has shape {phases.shape}, but must have the shape of weight_1, {rows.shape}")
    parts = [cosines(row, phases_of_row) for row, phases_of_row in zip(rows, phases, strict=True)]
    return per_axis(parts, range(len(rows)))


@preset(
    source="scikit-learn/scikit-learn: sklearn/kernel_approximation.py, RBFSampler",
    frequency="random_weights[:, i]",
    layout="only cosines, each with its own phase",
    positions="rows of features: `.encode(x)`",
    odd="1 column for each column of random_weights",
    differs="frequencies and phases are random numbers from the fitted sampler: `random_weights_` and"
    " `random_offset_`; all columns are multiplied by sqrt(2/d)",
    also="random kitchen sinks of Rahimi and Recht; Sphere2Vec RFFSpatialRelationEncoder"
    " (random_weights is dirvec, random_offset is shift)",
    axes="any number",
    example="pf.presets.rbf_sampler([[0.5, 1.0]], [0.0, 3.0]).encode([0.0]).round(2) -> array([[ 1.  , -0.99]], dtype=float32)",
)
def rbf_sampler(random_weights: npt.ArrayLike, random_offset: npt.ArrayLike) -> Encoding:
    """Random kitchen sinks of scikit-learn (RBFSampler)."""
    columns = matrix(random_weights, "random_weights", "(features, k)").T
    offset = real_array(random_offset, "random_offset")
    if offset.shape != columns.shape[:1]:
        raise ValueError(
            f"random_offset has shape {offset.shape}, but must have shape ({len(columns)},), with one number for each "
            "column of random_weights"
        )
    return cosines(columns, offset / TWO_PI, math.sqrt(2 / len(columns)))


@preset(
    source="KevinZhoutianyi/FoNE: number_encoders/FNE.py, FNE",
    frequency="one turn per period; each period is a number of period_base_list times a power of ten, whose exponents"
    " are the integers from minus frac_digit_len to int_digit_len; periods of ten times the largest power or more are"
    " left out",
    layout="alternating cosines and sines, from the shortest period to the longest, then zero columns",
    positions="numbers: `.encode(x)`; the source encodes the number 0 as zeros",
    odd="zero columns at the end if d is more than twice the number of periods; ValueError if d is less",
    differs="periods are exact; cosines come first; the source computes in float64",
    also="arXiv:2502.09741, whose periods are the powers of ten: period_base_list=(10,)",
    by_width=False,
    example="pf.presets.fone(4, int_digit_len=0, frac_digit_len=0, period_base_list=(2,)).encode(7)"
    " -> array([-1.,  0.,  0.,  0.], dtype=float32)",
)
def fone(
    embedding_dim: int, *, int_digit_len: int = 5, frac_digit_len: int = 5, period_base_list: Sequence[float] = (2, 5)
) -> Encoding:
    """Fourier number embedding (FoNE)."""
    d = count_of(embedding_dim, "embedding_dim", 1)
    integer_digits = count_of(int_digit_len, "int_digit_len", 0)
    fraction_digits = count_of(frac_digit_len, "frac_digit_len", 0)
    bases = [Fraction(positive(base, "period_base_list")) for base in sequence_of(period_base_list, "period_base_list")]
    digits = range(integer_digits + fraction_digits + 1)
    multiples = {base * Fraction(10**digit, 10**fraction_digits) for base in bases for digit in digits}
    periods = sorted(period for period in multiples if period < 10 ** (integer_digits + 1))
    if d < 2 * len(periods):
        raise ValueError(
            f"embedding_dim={d} leaves no columns for some of {len(periods)} periods; give at least {2 * len(periods)}"
        )
    return fitted(fourier_features(periodic(periods), functions=("cos", "sin"), layout="interleaved"), d)


@preset(
    source="facebook/prophet: python/prophet/forecaster.py, fourier_series",
    frequency="2 pi (i + 1) / (86400 period)",
    layout="alternating sines and cosines",
    positions="dates (datetime64), or seconds since 1970: `.encode(dates)`",
    odd="2 * series_order columns",
    differs="frequencies are integer multiples of one frequency, whose period is in days",
    also="NeuralProphet; statsmodels Fourier (multiply its positions by 86400)",
    example="pf.presets.prophet(7, 1).encode(7 * 86400 // 4) -> array([1., 0.], dtype=float32)",
)
def prophet(period: float, series_order: int) -> Encoding:
    """Seasonal features of Prophet, with period 365.25 for a year and 7 for a week."""
    n, seconds = count_of(series_order, "series_order", 1), 86400 * Fraction(positive(period, "period"))
    return fourier_features(periodic([seconds / (i + 1) for i in range(n)]), layout="interleaved")


@preset(
    source="flatironinstitute/nemos: src/nemos/basis/_fourier_basis.py, FourierBasis",
    frequency="2 pi masked_frequencies[:, i] / period",
    layout="cosines, then sines; if the first frequency is 0, it has no sine",
    positions="samples x between the bounds low and high: `.encode(x - low)`, with period=high - low",
    odd="2 columns for each frequency, but only 1 for the first frequency if it is 0",
    differs="frequencies are integer multiples of one frequency; an angle can depend on several axes; cosines come"
    " first",
    axes="any number",
    example="pf.presets.nemos(2).encode(0.25) -> array([1., 0., 1.], dtype=float32)",
)
def nemos(masked_frequencies: int | npt.ArrayLike, *, period: float | Sequence[float] = 1.0) -> Encoding:
    """Fourier basis of NeMoS."""
    if np.ndim(masked_frequencies) == 0:
        masked_frequencies = [range(count_of(masked_frequencies, "masked_frequencies", 1))]
    turns = matrix(masked_frequencies, "masked_frequencies", "(axes, k)")
    if not turns.size or (turns < 0).any() or (turns % 1 > 0).any():
        raise ValueError(f"masked_frequencies must be a non-empty array of whole numbers, 0 or larger, not {turns!r}")
    lengths = [period] * len(turns) if np.ndim(period) == 0 else [*cast(Sequence[float], period)]
    if len(lengths) != len(turns):
        raise ValueError(f"period has {len(lengths)} numbers, but must have one for each of {len(turns)} axes")
    # (basis functions, axes): index into periods, or -1 if the function does not depend on the axis
    periods: list[Fraction] = []
    index = np.full(turns.T.shape, -1)
    for axis, row in enumerate(turns):
        period_of_axis = Fraction(positive(lengths[axis], "period"))
        for multiple in np.unique(row[row > 0]):
            index[row == multiple, axis] = len(periods)
            periods.append(period_of_axis / int(multiple))
    # columns are all cosines, then all sines; if the first function is constant, its sine is left out
    columns = np.concatenate([index, index[0 if turns[:, 0].any() else 1 :]])
    phases = np.where(np.arange(len(columns)) < len(index), 0.25, 0.0)
    return Encoding._of(Sinusoids([periodic(periods or [1])], columns, phases, np.ones(len(columns))))


@rotary_preset(
    source="SalesforceAIResearch/uni2ts: src/uni2ts/module/position/attn_projection.py, QueryKeyProjection",
    frequency="10000^(-2i/D), D = head_dim/2",
    pairs="adjacent values, in the first half of a head",
    positions="the patch's index in its series (time_id), from 0",
    odd="ValueError unless 4 divides head_dim",
    differs="the second half of a head does not rotate",
)
def moirai(head_dim: int = 64) -> Rotary:
    """Rotary embedding of time series in Moirai, which rotates the first half of a head."""
    head = whole_pairs(head_dim, "head_dim", 2)
    return with_theta(head, rotary_dim=head // 2, layout="interleaved")
