"""Presets of Fourier features: points in scenes."""

from __future__ import annotations

import math

from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of, real
from .._core.numbers.schedule import geometric, linear
from ._build import TWO_PI, arranged, ascending, power
from ._registry import preset

__all__ = [
    "mip_nerf",
    "nerf",
    "nerfstudio",
    "pytorch3d",
    "tiny_cuda_nn",
]


def _exponent(value: float, name: str) -> float:
    """Return the exponent e of a frequency 2**e as a float. Raise an error unless it is between -1000 and 1000."""
    exponent = real(value, name)
    if abs(exponent) > 1000:
        raise ValueError(f"{name}={value!r} must lie between -1000 and 1000, so that float64 contains 2 to this power")
    return exponent


@preset(
    source="bmild/nerf: run_nerf_helpers.py, Embedder",
    frequency="2^(i max_freq_log2 / (num_freqs - 1)); linspace(1, 2^max_freq_log2, num_freqs) with log_sampling=False",
    layout="for each frequency: sines of all axes, then their cosines",
    positions="coordinates; the source puts the coordinates before the columns: `np.concatenate([x,"
    " encoding.encode(x)], -1)`",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; positions are not multiplied by pi, unlike in the NeRF paper",
    axes="input_dims",
    example="pf.presets.nerf(2, input_dims=1).frequencies -> array([1., 1., 2., 2.])",
)
def nerf(
    num_freqs: int = 10, *, input_dims: int = 3, max_freq_log2: float | None = None, log_sampling: bool = True
) -> Encoding:
    """Positional encoding of NeRF."""
    n = count_of(num_freqs, "num_freqs", 1)
    last = float(n - 1) if max_freq_log2 is None else _exponent(max_freq_log2, "max_freq_log2")
    if not log_sampling:
        bands = linear(n, 1.0, power(2.0, last))
    else:
        # if all exponents i / per are integers, the frequencies are exact powers of 2
        bands = ascending(n, 2.0, per=(n - 1) / last) if n > 1 and last else geometric(n, base=1.0)
    return arranged([bands] * count_of(input_dims, "input_dims", 1), "fsa")


@preset(
    source="google/mipnerf: internal/mip.py, pos_enc",
    frequency="2^k, k = min_deg .. max_deg - 1",
    layout="sines of the first frequency on all axes, then of the next; then the cosines in the same order",
    positions="coordinates; the source puts the coordinates before the columns: `np.concatenate([x,"
    " encoding.encode(x)], -1)`; for integrated_pos_enc: `.encode(x, variance=cov)`, where cov contains variances or"
    " covariance matrices",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; the source computes each cosine as a sine of the angle plus pi/2",
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
    frequency="omega_0 * 2^i; omega_0 * linspace(1, 2^(n - 1), n), n = n_harmonic_functions, with logspace=False",
    layout="sines of all frequencies of the first axis, then of the next; then the cosines in the same order",
    positions="coordinates; with append_input, the source puts the coordinates after the columns:"
    " `np.concatenate([encoding.encode(x), x], -1)`; with diag_cov: `.encode(x, variance=diag_cov)`",
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
    layout="sines of all frequencies of the first axis, then of the next; then the cosines in the same order",
    positions="coordinates in [0, 1]; with include_input, the source puts the coordinates after the columns:"
    " `np.concatenate([encoding.encode(x), x], -1)`; with covs (covariance matrices), the source uses only"
    " the variances, and does not multiply them by (2 pi)^2:"
    " `.encode(x, variance=np.diagonal(covs, 0, -2, -1) / (2 * np.pi) ** 2)`",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; positions are multiplied by 2 pi",
    axes="in_dim",
    example="pf.presets.nerfstudio(1, 2, 0.0, 1.0).wavelengths -> array([1. , 0.5, 1. , 0.5])",
)
def nerfstudio(in_dim: int, num_frequencies: int, min_freq_exp: float, max_freq_exp: float) -> Encoding:
    """Positional encoding of nerfstudio."""
    n, low = count_of(num_frequencies, "num_frequencies", 1), _exponent(min_freq_exp, "min_freq_exp")
    span = _exponent(max_freq_exp, "max_freq_exp") - low
    first = TWO_PI * power(2.0, low)
    bands = (
        ascending(n, 2.0, per=(n - 1) / span, first=first) if n > 1 and span else geometric(n, base=1.0, first=first)
    )
    return arranged([bands] * count_of(in_dim, "in_dim", 1), "saf")


@preset(
    source="NVlabs/tiny-cuda-nn: include/tiny-cuda-nn/encodings/frequency.h, FrequencyEncoding",
    frequency="pi * 2^i",
    layout="for each axis: alternating sines and cosines",
    positions="coordinates; to pad its output, the source appends k columns of ones: `np.pad(encoding.encode(x), ((0,"
    " 0), (0, k)), constant_values=1)`",
    odd="2 columns for each frequency of each axis",
    differs="frequencies ascend; positions are multiplied by pi",
    axes="input_dims",
    example="pf.presets.tiny_cuda_nn(2, input_dims=1).wavelengths -> array([2., 2., 1., 1.])",
)
def tiny_cuda_nn(n_frequencies: int = 12, *, input_dims: int = 3) -> Encoding:
    """Frequency encoding of tiny-cuda-nn."""
    bands = ascending(count_of(n_frequencies, "n_frequencies", 1), 2.0, first=math.pi)
    return arranged([bands] * count_of(input_dims, "input_dims", 1), "afs")
