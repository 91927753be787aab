"""Presets of random Fourier features: frequencies are random numbers from a checkpoint."""

from __future__ import annotations

import math

import numpy.typing as npt

from .._core.encoding.builders import fourier_features
from .._core.encoding.value import Encoding
from ._build import TWO_PI, matrix, weights_of
from ._registry import preset

__all__ = [
    "k_diffusion_fourier",
    "mp_fourier",
    "sam",
    "score_sde_fourier",
    "tancik",
]


@preset(
    source="yang-song/score_sde: models/layerspp.py, GaussianFourierProjection",
    frequency="2 pi weights[i]",
    layout="sines, then cosines",
    positions="noise levels: `.encode(x)`; diffusers with log=True: `.encode(np.log(x))`",
    odd="2 columns for each weight",
    differs="frequencies are random numbers from a checkpoint",
    also="diffusers GaussianFourierProjection, lucidrains RandomOrLearnedSinusoidalPosEmb (with x itself before the"
    " columns: `np.column_stack([x, encoding.encode(x)])`)",
    example="pf.presets.score_sde_fourier([0.25]).encode(1).round(6) -> array([1., 0.], dtype=float32)",
)
def score_sde_fourier(weights: npt.ArrayLike) -> Encoding:
    """Gaussian Fourier projection of score-based models."""
    return fourier_features(TWO_PI * weights_of(weights, "weights"))


@preset(
    source="crowsonkb/k-diffusion: k_diffusion/layers.py, FourierFeatures",
    frequency="2 pi weights[i]; weights has one row per frequency and one column per axis",
    layout="cosines, then sines",
    positions="noise levels: `.encode(x)`",
    odd="2 columns for each row of weights",
    differs="frequencies are random numbers from a checkpoint; cosines come first",
    also="NVlabs/edm FourierEmbedding (weights are its freqs), diffusers GaussianFourierProjection with"
    " flip_sin_to_cos",
    axes="any number",
    example="pf.presets.k_diffusion_fourier([0.25]).encode(2).round(6) -> array([-1.,  0.], dtype=float32)",
)
def k_diffusion_fourier(weights: npt.ArrayLike) -> Encoding:
    """Fourier features of k-diffusion and EDM."""
    return fourier_features(TWO_PI * weights_of(weights, "weights"), functions=("cos", "sin"))


@preset(
    source="lucidrains/denoising-diffusion-pytorch: karras_unet.py, MPFourierEmbedding",
    frequency="2 pi weights[i]",
    layout="sines, then cosines",
    positions="noise levels: `.encode(x)`",
    odd="2 columns for each weight",
    differs="frequencies are random numbers from a checkpoint; all columns are multiplied by sqrt(2)",
    example="pf.presets.mp_fourier([0.25]).encode(0).round(4) -> array([0.    , 1.4142], dtype=float32)",
)
def mp_fourier(weights: npt.ArrayLike) -> Encoding:
    """Magnitude-preserving Fourier embedding."""
    return fourier_features(TWO_PI * weights_of(weights, "weights"), scale=math.sqrt(2))


@preset(
    source="tancik/fourier-feature-networks: input_mapping",
    frequency="2 pi weights[i]; weights has one row per frequency and one column per axis",
    layout="sines, then cosines",
    positions="coordinates: `.encode(x)`",
    odd="2 columns for each row of weights",
    differs="frequencies are random vectors (arXiv:2006.10739)",
    also="nerfstudio RFFEncoding, rff",
    axes="any number",
    example="pf.presets.tancik([[0.25, 0.5]]).encode([1.0, 0.5]).round(6) -> array([ 0., -1.], dtype=float32)",
)
def tancik(weights: npt.ArrayLike) -> Encoding:
    """Random Fourier features of Tancik et al."""
    return fourier_features(TWO_PI * weights_of(weights, "weights"))


@preset(
    source="facebookresearch/segment-anything: modeling/prompt_encoder.py, PositionEmbeddingRandom",
    frequency="2 pi gaussian_matrix[:, i]",
    layout="sines, then cosines",
    positions="(x, y) in [0, 1], scaled to [-1, 1]: `.encode(2 * xy - 1)`; for a grid cell, pass its centre:"
    " ((column + 0.5) / width, (row + 0.5) / height)",
    odd="2 columns for each column of gaussian_matrix",
    differs="frequencies are random vectors from a checkpoint",
    axes="any number",
    example="pf.presets.sam([[0.25], [0.5]]).encode([1.0, 0.5]).round(6) -> array([ 0., -1.], dtype=float32)",
)
def sam(gaussian_matrix: npt.ArrayLike) -> Encoding:
    """Position embedding of Segment Anything."""
    return fourier_features(TWO_PI * matrix(gaussian_matrix, "gaussian_matrix", "(axes, k)").T)
