"""Presets of graphs and molecules: times of events, residues of chains, spectra, and noise levels."""

from __future__ import annotations

import math

import numpy.typing as npt

from .._core.encoding.builders import fourier_features, sinusoidal
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of, real_array
from .._core.numbers.schedule import geometric
from ._build import TWO_PI, cosines, even, positive, sinusoids, weights_of
from ._registry import preset

__all__ = [
    "alphafold3",
    "depthcharge",
    "enformer_cosine",
    "esmfold2",
    "framediff_index",
    "framediff_timesteps",
    "graphmixer",
    "pyg",
    "structured_transformer",
    "tgn",
]


@preset(
    source="twitter-research/tgn: model/time_encoding.py, TimeEncode",
    frequency="10^(-9i / (d - 1))",
    layout="only cosines",
    positions="time differences: `.encode(t)`; after training: `Encoding(weight, bias / (2 * np.pi) + 0.25)`",
    odd="any number of columns, because columns do not form pairs",
    differs="only cosines; the last frequency is exactly 10^-9",
    also="TGAT TimeEncode (weight is basis_freq, bias is phase), DyGLib TimeEncoder",
    example="pf.presets.tgn(4).frequencies -> array([1.e+00, 1.e-03, 1.e-06, 1.e-09])",
)
def tgn(dimension: int) -> Encoding:
    """Time encoding of temporal graph networks, before training."""
    d = count_of(dimension, "dimension", 1)
    return fourier_features(geometric(d, base=1e9, freq_shift=1), functions=("cos",))


@preset(
    source="pyg-team/pytorch_geometric: torch_geometric/nn/encoding.py, TemporalEncoding (GraphMixer)",
    frequency="d^(-i sqrt(d) / (2 (d - 1)))",
    layout="only cosines",
    positions="time differences: `.encode(t)`",
    odd="any number of columns, because columns do not form pairs",
    differs="only cosines; the base is the number of columns",
    example="pf.presets.graphmixer(4).frequencies.round(4) -> array([1.    , 0.63  , 0.3969, 0.25  ])",
)
def graphmixer(out_channels: int) -> Encoding:
    """Temporal encoding of GraphMixer."""
    d = count_of(out_channels, "out_channels", 1)
    return fourier_features(geometric(d, base=d, freq_shift=d - 2 * (d - 1) / math.sqrt(d)), functions=("cos",))


@preset(
    source="pyg-team/pytorch_geometric: torch_geometric/nn/encoding.py, PositionalEncoding",
    frequency="base_freq^(i / (d/2 - 1)) / granularity",
    layout="sines, then cosines",
    positions="any numbers: `.encode(x)`",
    differs="the last exponent is exactly 1; sines come first; positions are divided by granularity",
    example="pf.presets.pyg(4, granularity=0.5).frequencies -> array([2.e+00, 2.e-04, 2.e+00, 2.e-04])",
)
def pyg(out_channels: int, *, base_freq: float = 1e-4, granularity: float = 1.0) -> Encoding:
    """Positional encoding of PyTorch Geometric."""
    d, last = even(out_channels, "out_channels"), positive(base_freq, "base_freq")
    return sinusoids(d, base=1 / last, shift=1, first=1 / positive(granularity, "granularity"))


@preset(
    source="jingraham/neurips19-graph-protein-design: struct2seq/protein_features.py, PositionalEncodings",
    frequency="10000^(-2i/d)",
    layout="cosines, then sines",
    positions="indices of neighbours minus indices of residues: `.encode(j - i)`",
    odd="one column more than requested if the width is odd",
    differs="cosines come first; positions are differences of indices",
    also="GVP gvp/data.py, _positional_embeddings",
    example="pf.presets.structured_transformer(4).encode(-1).round(4)"
    " -> array([ 0.5403,  1.    , -0.8415, -0.01  ], dtype=float32)",
)
def structured_transformer(num_embeddings: int = 16) -> Encoding:
    """Relative encoding of residues in the Structured Transformer and GVP."""
    d = count_of(num_embeddings, "num_embeddings", 1)
    n = -(-d // 2)
    return fourier_features(geometric(n, freq_shift=n - d / 2), functions=("cos", "sin"))


@preset(
    source="google-deepmind/alphafold3: src/alphafold3/model/network/noise_level_embeddings.py, noise_embeddings",
    frequency="2 pi / 4 * weights[i]",
    layout="only cosines, each with its own phase",
    positions="logarithms of noise levels in units of 16 angstrom: `.encode(np.log(sigma / 16))`",
    odd="1 column for each weight",
    differs="frequencies and phases are random numbers from the source or a checkpoint; the source draws them with"
    " jax.random from PRNGKey(42) with jax_threefry_partitionable=False",
    also="Boltz FourierEmbedding (weights are proj.weight[:, 0], biases are proj.bias), whose input is"
    " np.log(sigma / 16) / 4",
    example="pf.presets.alphafold3([2.0], [0.0]).encode(1.0) -> array([-1.], dtype=float32)",
)
def alphafold3(weights: npt.ArrayLike, biases: npt.ArrayLike) -> Encoding:
    """Fourier embedding of noise levels in AlphaFold 3 and Boltz."""
    return _with_biases(TWO_PI / 4, weights, biases)


@preset(
    source="huggingface/transformers: models/esmfold2, Fourier embedding of times",
    frequency="2 pi weights[i]",
    layout="only cosines, each with its own phase",
    positions="times: `.encode(t)`",
    odd="1 column for each weight",
    differs="frequencies and phases are random numbers from a checkpoint",
    example="pf.presets.esmfold2([0.5], [0.25]).encode(0.5).round(6) -> array([-1.], dtype=float32)",
)
def esmfold2(weights: npt.ArrayLike, biases: npt.ArrayLike) -> Encoding:
    """Fourier embedding of times in ESMFold2, with random phases."""
    return _with_biases(TWO_PI, weights, biases)


def _with_biases(factor: float, weights: npt.ArrayLike, biases: npt.ArrayLike) -> Encoding:
    """Return an Encoding of one cosine for each weight, of frequency factor * weight. biases: phases in turns."""
    frequencies, phases = factor * weights_of(weights, "weights"), real_array(biases, "biases")
    if phases.shape not in ((), frequencies.shape[:1]):
        raise ValueError(
            f"biases has shape {phases.shape}, but must have shape {frequencies.shape[:1]}, with one number for each "
            "weight"
        )
    return cosines(frequencies, phases)


@preset(
    source="jasonkyuyim/se3_diffusion: model/score_network.py, get_index_embedding",
    frequency="pi / max_len^(2i/d)",
    layout="sines, then cosines",
    positions="residue indices: `.encode(indices)`",
    differs="all frequencies are multiplied by pi; the default base is 2056; sines come first",
    example="float(pf.presets.framediff_index(4).wavelengths[0]) -> 2.0",
)
def framediff_index(embed_dim: int, *, max_len: float = 2056.0) -> Encoding:
    """Residue index embedding of FrameDiff."""
    return sinusoids(even(embed_dim, "embed_dim"), base=positive(max_len, "max_len"), first=TWO_PI / 2)


@preset(
    source="jasonkyuyim/se3_diffusion: model/score_network.py, get_timestep_embedding",
    frequency="max_positions * max_positions^(-i / (d//2 - 1))",
    layout="sines, then cosines",
    positions="times in [0, 1]: `.encode(t)`",
    odd="zero column at the end if the width is odd",
    differs="positions are multiplied by max_positions; the last exponent is exactly -1; sines come first",
    example="pf.presets.framediff_timesteps(4).frequencies -> array([1.e+04, 1.e+00, 1.e+04, 1.e+00])",
)
def framediff_timesteps(embedding_dim: int, *, max_positions: float = 10000.0) -> Encoding:
    """Timestep embedding of FrameDiff."""
    d = count_of(embedding_dim, "embedding_dim", 1)
    return sinusoids(
        d,
        base=positive(max_positions, "max_positions"),
        shift=1,
        first=positive(max_positions, "max_positions"),
        odd="zero",
    )


@preset(
    source="wfondrie/depthcharge: depthcharge/encoders/sinusoidal.py, FloatEncoder",
    frequency="2 pi / min_wavelength * (max_wavelength / min_wavelength)^(-i / (n - 1)), where n is the number of"
    " sines or of cosines",
    layout="sines, then cosines",
    positions="real numbers, such as m/z: `.encode(mz)`",
    odd="one sine more than cosines if the width is odd; sines and cosines then have different frequencies; ValueError"
    " for 1",
    differs="wavelengths range from exactly min_wavelength to exactly max_wavelength; sines come first",
    example="pf.presets.depthcharge(5).wavelengths.round(4)"
    " -> array([1.0000e-03, 3.1623e+00, 1.0000e+04, 1.0000e-03, 1.0000e+04])",
)
def depthcharge(d_model: int, *, min_wavelength: float = 0.001, max_wavelength: float = 10000.0) -> Encoding:
    """Float encoder of depthcharge."""
    d, low = count_of(d_model, "d_model", 2), positive(min_wavelength, "min_wavelength")
    ratio = positive(max_wavelength, "max_wavelength") / low
    schedules = {
        name: geometric(count, base=ratio, freq_shift=1, first=TWO_PI / low)
        for name, count in (("sin", -(-d // 2)), ("cos", d // 2))
    }
    # if there are as many sines as cosines, both have the same schedule
    return sinusoidal(d, frequencies=schedules if d % 2 else schedules["sin"], layout="concatenated")


@preset(
    source="google-deepmind/deepmind-research: enformer/attention_module.py, positional_features_cosine",
    frequency="2 pi / (1.25 * 2^i)",
    layout="only cosines",
    positions="signed distances: `.encode(distances)`",
    odd="any number of columns, because columns do not form pairs",
    differs="only cosines; the base is 2",
    example="pf.presets.enformer_cosine(3).wavelengths -> array([1.25, 2.5 , 5.  ])",
)
def enformer_cosine(num_basis: int) -> Encoding:
    """Cosine features of Enformer."""
    n = count_of(num_basis, "num_basis", 1)
    return fourier_features(geometric(n, base=2.0, freq_shift=n - 1, first=TWO_PI / 1.25), functions=("cos",))
