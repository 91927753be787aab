"""Presets of diffusion models: timesteps, noise levels and other real numbers."""

from __future__ import annotations

from .._core.encoding.builders import fourier_features
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import count_of, real
from .._core.numbers.schedule import check_denominator
from ..typing import Precision
from . import _recipes
from ._build import TWO_PI, arranged, ascending, even, positive, sinusoids
from ._registry import preset

__all__ = [
    "ddpm",
    "denoising_diffusion_pytorch",
    "diffusers_timesteps",
    "diffwave",
    "edm",
    "flux_timesteps",
    "gligen",
    "guided_diffusion",
    "pi0",
    "qwen_omni_timesteps",
    "wavegrad",
]


@preset(
    source="huggingface/diffusers: models/embeddings.py, get_timestep_embedding",
    frequency="scale * max_period^(-i / (d//2 - downscale_freq_shift))",
    layout="sines, then cosines; with flip_sin_to_cos, cosines come first",
    positions="timesteps: `.encode(t)`; in float32, the source rounds the product of timestep and frequency before it"
    " multiplies by scale",
    odd="zero column at the end if the width is odd",
    differs="downscale_freq_shift (default: 1) is subtracted in the denominator; angles are multiplied by scale",
    example="pf.presets.diffusers_timesteps(4, flip_sin_to_cos=True, downscale_freq_shift=0).encode([0.0, 999.0]).shape"
    " -> (2, 4)",
)
def diffusers_timesteps(
    embedding_dim: int,
    *,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1.0,
    scale: float = 1.0,
    max_period: float = 10000.0,
    frequencies: Precision = "exact",
) -> Encoding:
    """Timestep embedding of diffusers."""
    d, shift = count_of(embedding_dim, "embedding_dim", 1), real(downscale_freq_shift, "downscale_freq_shift")
    check_denominator(d // 2 - shift, d // 2, "downscale_freq_shift", shift)
    return sinusoids(
        d,
        frequencies,
        _recipes.exp_divided,
        base=positive(max_period, "max_period"),
        shift=shift,
        first=real(scale, "scale"),
        functions=("cos", "sin") if flip_sin_to_cos else ("sin", "cos"),
        odd="zero",
    )


@preset(
    source="openai/guided-diffusion: guided_diffusion/nn.py, timestep_embedding",
    frequency="max_period^(-i / (d//2))",
    layout="cosines, then sines",
    positions="timesteps: `.encode(t)`",
    odd="zero column at the end if the width is odd",
    differs="cosines come first",
    also="DiT, latent-diffusion, MONAI get_timestep_embedding, ggml_timestep_embedding, VibeVoice, Pocket TTS; Wan,"
    " DiffSynth and sglang sinusoidal_embedding_1d (computed in float64)",
    example="pf.presets.guided_diffusion(5).encode(0) -> array([1., 1., 0., 0., 0.], dtype=float32)",
)
def guided_diffusion(dim: int, *, max_period: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """Timestep embedding of guided diffusion, DiT and Stable Diffusion."""
    d = count_of(dim, "dim", 1)
    return sinusoids(
        d,
        frequencies,
        _recipes.exp_divided,
        base=positive(max_period, "max_period"),
        functions=("cos", "sin"),
        odd="zero",
    )


@preset(
    source="black-forest-labs/flux: src/flux/modules/layers.py, timestep_embedding",
    frequency="time_factor * max_period^(-i / (d//2))",
    layout="cosines, then sines",
    positions="timesteps in [0, 1]: `.encode(t)`; in float32, the source rounds time_factor * t; to match it, encode"
    " the rounded product with time_factor=1",
    odd="zero column at the end if the width is odd",
    differs="cosines come first; positions are multiplied by time_factor (default: 1000)",
    example="pf.presets.flux_timesteps(4).frequencies -> array([1000.,   10., 1000.,   10.])",
)
def flux_timesteps(
    dim: int, *, max_period: float = 10000.0, time_factor: float = 1000.0, frequencies: Precision = "exact"
) -> Encoding:
    """Timestep embedding of FLUX."""
    return sinusoids(
        count_of(dim, "dim", 1),
        frequencies,
        _recipes.exp_divided,
        base=positive(max_period, "max_period"),
        first=real(time_factor, "time_factor"),
        functions=("cos", "sin"),
        odd="zero",
    )


@preset(
    source="hojonathanho/diffusion: diffusion_tf/nn.py, get_timestep_embedding",
    frequency="max_positions^(-i / (d//2 - 1))",
    layout="sines, then cosines",
    positions="timesteps: `.encode(t)`",
    odd="zero column at the end if the width is odd",
    differs="the last exponent is exactly -1; sines come first",
    also="ermongroup/ddim, yang-song/score_sde, SSSD calc_diffusion_step_embedding",
    example="pf.presets.ddpm(5).encode(0) -> array([0., 0., 1., 1., 0.], dtype=float32)",
)
def ddpm(embedding_dim: int, *, max_positions: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """Timestep embedding of DDPM."""
    d = count_of(embedding_dim, "embedding_dim", 1)
    return sinusoids(
        d, frequencies, _recipes.exp_of_index, base=positive(max_positions, "max_positions"), shift=1, odd="zero"
    )


@preset(
    source="lucidrains/denoising-diffusion-pytorch: denoising_diffusion_pytorch.py, SinusoidalPosEmb",
    frequency="theta^(-i / (d//2 - 1))",
    layout="sines, then cosines",
    positions="timesteps: `.encode(t)`",
    odd="one column less than requested if the width is odd; ValueError for 1",
    differs="the last exponent is exactly -1; sines come first",
    example="pf.presets.denoising_diffusion_pytorch(5).d_model -> 4",
)
def denoising_diffusion_pytorch(dim: int, *, theta: float = 10000.0, frequencies: Precision = "exact") -> Encoding:
    """Timestep embedding of denoising-diffusion-pytorch."""
    d = count_of(dim, "dim", 2) // 2 * 2
    return sinusoids(d, frequencies, _recipes.exp_of_index, base=positive(theta, "theta"), shift=1)


@preset(
    source="NVlabs/edm: training/networks.py, PositionalEmbedding",
    frequency="max_positions^(-i / (d/2 - endpoint))",
    layout="cosines, then sines",
    positions="timesteps or noise labels: `.encode(t)`",
    differs="cosines come first; with endpoint=True, the last exponent is exactly -1",
    example="pf.presets.edm(4, endpoint=True).frequencies -> array([1.e+00, 1.e-04, 1.e+00, 1.e-04])",
)
def edm(
    num_channels: int, *, max_positions: float = 10000.0, endpoint: bool = False, frequencies: Precision = "exact"
) -> Encoding:
    """Positional embedding of EDM."""
    return sinusoids(
        even(num_channels, "num_channels"),
        frequencies,
        _recipes.power_of_inverse,
        base=positive(max_positions, "max_positions"),
        shift=1 if endpoint else 0,
        functions=("cos", "sin"),
    )


@preset(
    source="Physical-Intelligence/openpi: models_pytorch/pi0_pytorch.py, create_sinusoidal_pos_embedding",
    frequency="2 pi / min_period * (max_period / min_period)^(-i / (d/2 - 1))",
    layout="sines, then cosines",
    positions="times in [0, 1]: `.encode(t)`",
    differs="wavelengths range from exactly min_period to exactly max_period; sines come first; the source computes in"
    " float64",
    also="LeRobot pi0 and pi0.5; Hugging Face PI0TimestepEmbeddings (computed in float32)",
    example="pf.presets.pi0(6).wavelengths[:3].round(6) -> array([0.004   , 0.126491, 4.      ])",
)
def pi0(dimension: int, *, min_period: float = 4e-3, max_period: float = 4.0) -> Encoding:
    """Flow time embedding of pi0."""
    d, low = even(dimension, "dimension"), positive(min_period, "min_period")
    ratio = positive(max_period, "max_period") / low
    return sinusoids(d, base=ratio, shift=1, first=TWO_PI / low)


@preset(
    source="huggingface/transformers: models/qwen2_5_omni, SinusPositionEmbedding",
    frequency="scale * 10000^(-i / (d/2 - 1))",
    layout="sines, then cosines",
    positions="times: `.encode(t)`; in float32, the source rounds scale * t; to match it, encode the rounded product"
    " with scale=1",
    differs="the last exponent is exactly -1; sines come first; positions are multiplied by scale (default: 1000)",
    example="pf.presets.qwen_omni_timesteps(4).frequencies -> array([1.e+03, 1.e-01, 1.e+03, 1.e-01])",
)
def qwen_omni_timesteps(dim: int, *, scale: float = 1000.0, frequencies: Precision = "exact") -> Encoding:
    """Time embedding of Qwen2.5-Omni."""
    return sinusoids(even(dim, "dim"), frequencies, _recipes.exp_of_index, shift=1, first=real(scale, "scale"))


@preset(
    source="lmnt-com/diffwave: src/diffwave/model.py, DiffusionEmbedding",
    frequency="10^(4i/63), i = 0 .. 63",
    layout="64 sines, then 64 cosines",
    positions="diffusion steps from 0: `.encode(steps)`; for fractions, the source interpolates between rows of its"
    " table",
    odd="always 128 columns",
    differs="frequencies ascend, from 1 to 10000; sines come first",
    also="CSDI DiffusionEmbedding (default width)",
    example="pf.presets.diffwave().frequencies[[0, 63]].round(6) -> array([1.e+00, 1.e+04])",
)
def diffwave() -> Encoding:
    """Diffusion step embedding of DiffWave."""
    return fourier_features(ascending(64, 10.0, per=63 / 4))


@preset(
    source="lmnt-com/wavegrad: src/wavegrad/model.py, PositionalEncoding",
    frequency="scale * 10000^(-2i/d)",
    layout="sines, then cosines",
    positions="noise levels in [0, 1]: `.encode(levels)`",
    differs="sines come first; positions are multiplied by scale (default: 5000)",
    also="SR3 PositionalEncoding (scale=1)",
    example="pf.presets.wavegrad(4).frequencies -> array([5000.,   50., 5000.,   50.])",
)
def wavegrad(dim: int, *, scale: float = 5000.0) -> Encoding:
    """Noise level encoding of WaveGrad."""
    return sinusoids(even(dim, "dim"), first=real(scale, "scale"))


@preset(
    source="huggingface/diffusers: models/embeddings.py, get_fourier_embeds_from_boundingbox (GLIGEN)",
    frequency="100^(i/n), n = num_freqs frequencies for each of the four coordinates",
    layout="for each frequency: sines of the four coordinates, then their cosines",
    positions="boxes (x0, y0, x1, y1) in [0, 1]: `.encode(boxes)`",
    odd="8 * num_freqs columns",
    differs="frequencies ascend",
    axes="4",
    example="pf.presets.gligen(8).encode([0.1, 0.2, 0.5, 0.9]).shape -> (64,)",
)
def gligen(num_freqs: int = 8) -> Encoding:
    """Fourier embedding of bounding boxes in GLIGEN."""
    n = count_of(num_freqs, "num_freqs", 1)
    return arranged([ascending(n, 100.0, per=n)] * 4, "fsa")
