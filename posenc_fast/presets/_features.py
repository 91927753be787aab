"""Presets of Fourier features: scenes, places, and measured numbers."""

from __future__ import annotations

import math

import numpy as np

from .._encoding.builders import fourier_features, sinusoidal
from .._encoding.value import Encoding
from .._numbers.arguments import count_of, real
from .._numbers.schedule import Schedule, geometric, linear
from ._build import TWO_PI, arranged, ascending, even, positive, power, sinusoids
from ._registry import preset

__all__ = [
    "depthcharge",
    "enformer_cosine",
    "geoclip_positional",
    "graphmixer",
    "mip_nerf",
    "nerf",
    "nerfstudio",
    "pyg",
    "pytorch3d",
    "space2vec_grid",
    "space2vec_theory",
    "tiny_cuda_nn",
]


@preset(
    source="bmild/nerf: run_nerf_helpers.py, Embedder",
    frequency="2^(i max_freq_log2 / (num_freqs - 1)), or linspace(1, 2^max_freq_log2, num_freqs)",
    layout="for each frequency: sines of all axes, then their cosines",
    positions="coordinates; the source has them before the columns: `np.concatenate([x, rows], -1)`",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; no factor pi, which the NeRF paper has",
    axes="input_dims",
    example="pf.presets.nerf(2, input_dims=1).frequencies -> array([1., 1., 2., 2.])",
)
def nerf(
    num_freqs: int = 10, *, input_dims: int = 3, max_freq_log2: float | None = None, log_sampling: bool = True
) -> Encoding:
    """Positional encoding of NeRF."""
    n = count_of(num_freqs, "num_freqs", 1)
    last = float(n - 1) if max_freq_log2 is None else real(max_freq_log2, "max_freq_log2")
    if not log_sampling:
        bands = linear(n, 1.0, power(2.0, last))
    else:
        # integers stay powers of two
        bands = ascending(n, 2.0, per=(n - 1) / last) if n > 1 and last else geometric(n, base=1.0)
    return arranged([bands] * count_of(input_dims, "input_dims", 1), "fsa")


@preset(
    source="google/mipnerf: internal/mip.py, pos_enc",
    frequency="2^k, k = min_deg .. max_deg - 1",
    layout="sines: for each frequency all axes; then the cosines",
    positions="coordinates; the source has them before the columns: `np.concatenate([x, rows], -1)`;"
    " integrated_pos_enc multiplies the columns by exp(-frequency^2 variance / 2)",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; cosines are sines of x + pi/2",
    axes="input_dims",
    example="pf.presets.mip_nerf(0, 2, input_dims=1).frequencies -> array([1., 2., 1., 2.])",
)
def mip_nerf(min_deg: int = 0, max_deg: int = 16, *, input_dims: int = 3) -> Encoding:
    """Positional encoding of mip-NeRF."""
    low = count_of(min_deg, "min_deg", -1000)
    n = count_of(max_deg, "max_deg", low + 1) - low
    return arranged([ascending(n, 2.0, first=2.0**low)] * count_of(input_dims, "input_dims", 1), "sfa")


@preset(
    source="facebookresearch/pytorch3d: renderer/implicit/harmonic_embedding.py, HarmonicEmbedding",
    frequency="omega_0 * 2^i, or omega_0 * linspace(1, 2^(n - 1), n)",
    layout="sines of all frequencies of the first axis, then of the next; then the cosines",
    positions="coordinates; with append_input the source has them behind the columns: `np.concatenate([rows, x], -1)`;"
    " diag_cov multiplies the columns by exp(-frequency^2 variance / 2)",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend",
    axes="input_dims",
    example="pf.presets.pytorch3d(2, omega_0=0.5, input_dims=1).frequencies -> array([0.5, 1. , 0.5, 1. ])",
)
def pytorch3d(
    n_harmonic_functions: int = 6, *, omega_0: float = 1.0, logspace: bool = True, input_dims: int = 3
) -> Encoding:
    """Harmonic embedding of PyTorch3D."""
    n, first = count_of(n_harmonic_functions, "n_harmonic_functions", 1), real(omega_0, "omega_0")
    bands = ascending(n, 2.0, first=first) if logspace else linear(n, first, first * 2.0 ** (n - 1))
    return arranged([bands] * count_of(input_dims, "input_dims", 1), "saf")


@preset(
    source="nerfstudio-project/nerfstudio: field_components/encodings.py, NeRFEncoding",
    frequency="2 pi * 2^linspace(min_freq_exp, max_freq_exp, num_frequencies)",
    layout="sines of all frequencies of the first axis, then of the next; then the cosines",
    positions="coordinates in [0, 1]; with include_input the source has them behind the columns:"
    " `np.concatenate([rows, x], -1)`",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; positions are multiplied by 2 pi",
    axes="in_dim",
    example="pf.presets.nerfstudio(1, 2, 0.0, 1.0).wavelengths -> array([1. , 0.5, 1. , 0.5])",
)
def nerfstudio(in_dim: int, num_frequencies: int, min_freq_exp: float, max_freq_exp: float) -> Encoding:
    """Positional encoding of nerfstudio."""
    n, low = count_of(num_frequencies, "num_frequencies", 1), real(min_freq_exp, "min_freq_exp")
    span = real(max_freq_exp, "max_freq_exp") - low
    first = TWO_PI * power(2.0, low)
    bands = (
        ascending(n, 2.0, per=(n - 1) / span, first=first) if n > 1 and span else geometric(n, base=1.0, first=first)
    )
    return arranged([bands] * count_of(in_dim, "in_dim", 1), "saf")


@preset(
    source="NVlabs/tiny-cuda-nn: include/tiny-cuda-nn/encodings/frequency.h, FrequencyEncoding",
    frequency="pi * 2^i",
    layout="for each axis: sine and cosine in turn",
    positions="coordinates; the source pads the columns with ones: `np.pad(rows, ((0, 0), (0, k)), constant_values=1)`",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; positions are multiplied by pi",
    axes="input_dims",
    example="pf.presets.tiny_cuda_nn(2, input_dims=1).wavelengths -> array([2., 2., 1., 1.])",
)
def tiny_cuda_nn(n_frequencies: int = 12, *, input_dims: int = 3) -> Encoding:
    """Frequency encoding of tiny-cuda-nn."""
    bands = ascending(count_of(n_frequencies, "n_frequencies", 1), 2.0, first=math.pi)
    return arranged([bands] * count_of(input_dims, "input_dims", 1), "afs")


@preset(
    source="jmclong/random-fourier-features-pytorch: rff/functional.py, positional_encoding",
    frequency="2 pi * sigma^(i/m)",
    layout="for each axis: cosines, then sines",
    positions="coordinates: `.encode(x)`",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; cosines come first",
    also="GeoCLIP positional_encoding",
    axes="input_dims",
    example="pf.presets.geoclip_positional(4.0, 2, input_dims=1).wavelengths -> array([1. , 0.5, 1. , 0.5])",
)
def geoclip_positional(sigma: float, m: int, *, input_dims: int = 2) -> Encoding:
    """Positional encoding of GeoCLIP's library of Fourier features."""
    n = count_of(m, "m", 1)
    bands = ascending(n, positive(sigma, "sigma"), per=n, first=TWO_PI)
    return arranged([bands] * count_of(input_dims, "input_dims", 1), "asf", ("cos", "sin"))


@preset(
    source="gengchenmai/space2vec: SpatialRelationEncoder.py, TheoryGridCellSpatialRelationEncoder",
    frequency="(max_radius / min_radius)^(-i / (n - 1)) / min_radius, along unit vectors at 0, 120 and 240 degrees",
    layout="for each frequency: sine and cosine along each of the three vectors",
    positions="(x, y): `.encode(xy)`; computed in float64",
    odd="6 columns for each frequency",
    differs="three directions in the plane; the exponent reaches exactly 1",
    also="SatCLIP and Sphere2Vec Theory",
    axes="2",
    example="pf.presets.space2vec_theory(1, min_radius=1.0).encode([0.0, 1.0]).round(2)"
    " -> array([ 0.  ,  1.  ,  0.76,  0.65, -0.76,  0.65], dtype=float32)",
)
def space2vec_theory(frequency_num: int = 16, *, max_radius: float = 10000.0, min_radius: float = 1000.0) -> Encoding:
    """Theory encoder of Space2Vec."""
    bands = np.asarray(_radii(frequency_num, max_radius, min_radius))
    directions = np.array([[1.0, 0.0], [-0.5, math.sqrt(3) / 2], [-0.5, -math.sqrt(3) / 2]])
    return fourier_features((bands[:, np.newaxis, np.newaxis] * directions).reshape(-1, 2), layout="interleaved")


@preset(
    source="gengchenmai/space2vec: SpatialRelationEncoder.py, GridCellSpatialRelationEncoder",
    frequency="(max_radius / min_radius)^(-i / (n - 1)) / min_radius",
    layout="of x: sine and cosine in turn; of y: the same",
    positions="(x, y): `.encode(xy)`; computed in float64",
    odd="4 columns for each frequency",
    differs="two axes; the exponent reaches exactly 1",
    also="SatCLIP and Sphere2Vec GridCell",
    axes="2",
    example="pf.presets.space2vec_grid(1, min_radius=1.0).encode([0.0, 1.0]).round(2)"
    " -> array([0.  , 1.  , 0.84, 0.54], dtype=float32)",
)
def space2vec_grid(frequency_num: int = 16, *, max_radius: float = 10000.0, min_radius: float = 10.0) -> Encoding:
    """Grid cell encoder of Space2Vec."""
    return arranged([_radii(frequency_num, max_radius, min_radius)] * 2, "afs")


def _radii(frequency_num: int, max_radius: float, min_radius: float) -> Schedule:
    low = positive(min_radius, "min_radius")
    ratio = positive(max_radius, "max_radius") / low
    return geometric(count_of(frequency_num, "frequency_num", 1), base=ratio, freq_shift=1, first=1 / low)


@preset(
    source="pyg-team/pytorch_geometric: torch_geometric/nn/encoding.py, PositionalEncoding",
    frequency="base_freq^(i / (d/2 - 1)) / granularity",
    layout="sines, then cosines",
    positions="given: `.encode(x)`",
    differs="the exponent reaches exactly 1; sines come first; positions are divided by granularity",
    example="pf.presets.pyg(4, granularity=0.5).frequencies -> array([2.e+00, 2.e-04, 2.e+00, 2.e-04])",
)
def pyg(out_channels: int, *, base_freq: float = 1e-4, granularity: float = 1.0) -> Encoding:
    """Positional encoding of PyTorch Geometric."""
    d, last = even(out_channels, "out_channels"), positive(base_freq, "base_freq")
    return sinusoids(d, base=1 / last, shift=1, first=1 / positive(granularity, "granularity"))


@preset(
    source="pyg-team/pytorch_geometric: torch_geometric/nn/encoding.py, TemporalEncoding (GraphMixer)",
    frequency="d^(-i sqrt(d) / (2 (d - 1)))",
    layout="cosines alone",
    positions="time differences: `.encode(t)`",
    odd="no pairs: any width",
    differs="one function; a base that grows with the width",
    example="pf.presets.graphmixer(4).frequencies.round(4) -> array([1.    , 0.63  , 0.3969, 0.25  ])",
)
def graphmixer(out_channels: int) -> Encoding:
    """Temporal encoding of GraphMixer."""
    d = count_of(out_channels, "out_channels", 1)
    return fourier_features(geometric(d, base=d, freq_shift=d - 2 * (d - 1) / math.sqrt(d)), functions=("cos",))


@preset(
    source="wfondrie/depthcharge: depthcharge/encoders/sinusoidal.py, FloatEncoder",
    frequency="2 pi / min_wavelength * (max_wavelength / min_wavelength)^(-i / (n - 1)), n sines or cosines",
    layout="sines, then cosines",
    positions="real numbers, such as m/z: `.encode(mz)`",
    odd="one sine more, with frequencies of their own",
    differs="wavelengths from min_wavelength to max_wavelength, both reached exactly",
    example="pf.presets.depthcharge(5).wavelengths.round(4)"
    " -> array([1.0000e-03, 3.1623e+00, 1.0000e+04, 1.0000e-03, 1.0000e+04])",
)
def depthcharge(d_model: int, *, min_wavelength: float = 0.001, max_wavelength: float = 10000.0) -> Encoding:
    """Float encoder of depthcharge."""
    d, low = count_of(d_model, "d_model", 2), positive(min_wavelength, "min_wavelength")
    ratio = positive(max_wavelength, "max_wavelength") / low
    own = {
        name: geometric(count, base=ratio, freq_shift=1, first=TWO_PI / low)
        for name, count in (("sin", -(-d // 2)), ("cos", d // 2))
    }
    # where both are as many, they are one
    return sinusoidal(d, frequencies=own if d % 2 else own["sin"], layout="concatenated")


@preset(
    source="google-deepmind/deepmind-research: enformer/attention_module.py, positional_features_cosine",
    frequency="2 pi / (1.25 * 2^i)",
    layout="cosines alone",
    positions="relative, -n .. n: `.encode(positions)`",
    odd="no pairs: any width",
    differs="one function; the base is 2",
    example="pf.presets.enformer_cosine(3).wavelengths -> array([1.25, 2.5 , 5.  ])",
)
def enformer_cosine(num_basis: int) -> Encoding:
    """Cosine features of Enformer."""
    n = count_of(num_basis, "num_basis", 1)
    return fourier_features(geometric(n, base=2.0, freq_shift=n - 1, first=TWO_PI / 1.25), functions=("cos",))
