"""The formulas of presets in plain float64 NumPy, written from the sources that the docstrings of presets name.

Each function of a preset takes positions, of shape (n,) or (n, axes), and the preset's arguments. It returns rows
(n, columns), or None if the source does not support the width.
"""

from __future__ import annotations

import numpy as np

PI = np.pi

# ---- families of frequencies ------------------------------------------------------------------------------------


def down(count, base, denominator):
    """Return the frequencies base^(-i/denominator) for i below count, or only 1.0 if count is 1."""
    return np.array([1.0]) if count == 1 else np.array([base ** (-(i / denominator)) for i in range(count)])


def vaswani(d, base=10000.0):
    """Return the frequencies base^(-2i/d). Their number is d / 2, rounded up."""
    return np.array([base ** (-2 * i / d) for i in range((d + 1) // 2)])


def endpoint(d, base=10000.0):
    """Return d // 2 frequencies from 1 to exactly 1/base, or only 1.0 if d // 2 is 1."""
    return down(d // 2, base, d // 2 - 1)


def half(d, base=10000.0):
    """Return d // 2 frequencies base^(-i/(d // 2))."""
    return down(d // 2, base, d // 2) if d > 3 else np.ones(d // 2)


# ---- columns ----------------------------------------------------------------------------------------------------


def outer(p, w):
    return np.asarray(p, float)[:, None] * np.asarray(w, float)[None, :]


def sin_cos(p, w, w2=None):
    """Return columns of sines, then of cosines. w2: frequencies of the cosines (default: w)."""
    return np.hstack([np.sin(outer(p, w)), np.cos(outer(p, w if w2 is None else w2))])


def cos_sin(p, w):
    return np.hstack([np.cos(outer(p, w)), np.sin(outer(p, w))])


def in_turn(p, w, first=np.sin, second=np.cos):
    """Return columns that alternate between the functions first and second: sin, cos, sin, cos, .."""
    return np.stack([first(outer(p, w)), second(outer(p, w))], axis=2).reshape(len(p), -1)


FUNCTIONS = {"sin": np.sin, "-sin": lambda angles: -np.sin(angles), "cos": np.cos}


def zeros(rows, d):
    """Append columns of zeros to rows, up to the width d."""
    return np.hstack([rows, np.zeros((len(rows), d - rows.shape[1]))])


def only(divisor, formula):
    """Return a formula that returns None for widths that the divisor does not divide."""
    return lambda p, *widths, **options: None if widths and widths[0] % divisor else formula(p, *widths, **options)


def beside(p, columns, w, axes):
    """Return the columns of some axes side by side. w: frequencies of every axis, or a list with one array per axis."""
    w = w if isinstance(w, list) else [w] * len(axes)
    return np.hstack([columns(p[:, axis], own) for axis, own in zip(axes, w, strict=True)])


def bands(p, w, order):
    """Return sines and cosines of all axes and frequencies.

    order: the letters a (axis), f (frequency) and s (sine or cosine), from the index that varies slowest to the
    fastest.
    """
    values = np.stack([np.sin(p[:, :, None] * w), np.cos(p[:, :, None] * w)], axis=3)
    return values.transpose(0, *("afs".index(letter) + 1 for letter in order)).reshape(len(p), -1)


# ---- one axis, by width -----------------------------------------------------------------------------------------


def tensor2tensor(p, d, min_timescale=1.0, max_timescale=1e4):
    return zeros(sin_cos(p, min_timescale * endpoint(d, max_timescale / min_timescale)), d)


def column_by_column(p, d, exponent, base=10000.0):
    columns = [(np.cos if c % 2 else np.sin)(p * base ** -(exponent * c / d)) for c in range(d)]
    return np.stack(columns, axis=1)


def zipformer(p, d):
    columns = [function(p * (c // 2 + 1)) for c, function in zip(range(d), (np.cos, np.sin) * d, strict=False)]
    return np.stack([*columns[:-1], np.ones(len(p))], axis=1)


def depthcharge(p, d, min_wavelength=0.001, max_wavelength=10000.0):
    if d < 2:
        return None
    own = [2 * PI / min_wavelength * down(n, max_wavelength / min_wavelength, n - 1) for n in ((d + 1) // 2, d // 2)]
    return sin_cos(p, *own)


def mlx(p, d, min_freq=1e-4, max_freq=1.0, scale=None, cos_first=False, full_turns=False):
    w = max_freq * endpoint(d, max_freq / min_freq) * (2 * PI if full_turns else 1)
    return (cos_sin if cos_first else sin_cos)(p, w) * ((2 / d) ** 0.5 if scale is None else scale)


def diffusers(p, d, flip_sin_to_cos=False, downscale_freq_shift=1.0, scale=1.0, max_period=10000.0):
    w = scale * down(d // 2, max_period, d // 2 - downscale_freq_shift)
    return zeros((cos_sin if flip_sin_to_cos else sin_cos)(p, w), d)


def tatp22(p, d, ndim=1):
    return beside(p.reshape(-1, ndim), in_turn, vaswani(2 * -(-d // (2 * ndim))), range(ndim))[:, :d]


def pi0(p, d, min_period=4e-3, max_period=4.0):
    return sin_cos(p, 2 * PI / (min_period * (max_period / min_period) ** np.linspace(0, 1, d // 2)))


def flaxformer(p, d, min_timescale=1.0, functions=("sin", "sin")):
    angles = outer(p, vaswani(d, 10000.0 / min_timescale) / min_timescale)
    return np.hstack([FUNCTIONS[f](angles) for f in functions])


def funnel(p, d, part="phi"):
    functions = {"phi": "sin sin", "pi": "cos cos", "psi": "cos sin", "omega": "-sin cos"}[part].split()
    return flaxformer(p, d, functions=functions)


# fmt: off
ONE_AXIS = {
    "annotated_transformer": only(2, lambda p, d, base=10000.0: in_turn(p, vaswani(d, base))),
    "aurora": only(2, lambda p, d, lower=0.01, upper=720.0: sin_cos(p, 2 * PI / np.geomspace(lower, upper, d // 2))),
    "conformer_relative": only(2, lambda p, d: in_turn(p, vaswani(d))),
    "ctranslate2": only(2, lambda p, d: sin_cos(p, endpoint(d))),
    "ddpm": lambda p, d, max_positions=10000.0: zeros(sin_cos(p, endpoint(d, max_positions)), d),
    "denoising_diffusion_pytorch": lambda p, d: sin_cos(p, endpoint(d)) if d > 1 else None,
    "depthcharge": depthcharge,
    "diffusers_timesteps": diffusers,
    "edm": only(2, lambda p, d, endpoint=False: cos_sin(p, down(d // 2, 10000.0, d // 2 - endpoint))),
    "enformer_cosine": lambda p, d: np.cos(outer(p, [2 * PI / (1.25 * 2.0**i) for i in range(d)])),
    "espnet_scaled": only(2, lambda p, d, alpha=1.0: alpha * in_turn(p, vaswani(d))),
    "evans_unpaired": lambda p, d: column_by_column(p, d, 2),
    "fairseq": tensor2tensor,
    "flaxformer_rotary": only(2, flaxformer),
    "flux_timesteps": lambda p, d, time_factor=1000.0: zeros(cos_sin(p * time_factor, half(d)), d),
    "framediff_index": only(2, lambda p, d: sin_cos(p, [PI / 2056 ** (2 * i / d) for i in range(d // 2)])),
    "framediff_timesteps": lambda p, d: zeros(sin_cos(10000.0 * p, endpoint(d)), d),
    "funnel": only(2, funnel),
    "galileo_months": only(2, lambda p, d: sin_cos(p, [2 * PI / 12] * (d // 2))),
    "graphmixer": lambda p, d: np.cos(outer(p, np.sqrt(d) ** -np.linspace(0, np.sqrt(d), d))),
    "guided_diffusion": lambda p, d, max_period=10000.0: zeros(cos_sin(p, half(d, max_period)), d),
    "keras_blog": lambda p, d: in_turn(p, vaswani(d), np.cos, np.sin)[:, :d],
    "keras_hub": lambda p, d: in_turn(p, vaswani(d))[:, :d],
    "marian": lambda p, d: sin_cos(p, vaswani(d), vaswani(d)[: d // 2]),
    "maxjcohen_unpaired": lambda p, d, base=1000.0: column_by_column(p, d, 1, base),
    "mlx": only(2, mlx),
    "musicgen": lambda p, d: zeros(cos_sin(p, endpoint(d)), d),
    "nemo_fixed": only(2, lambda p, d: in_turn(p, vaswani(d)) / np.sqrt(d)),
    "pi0": only(2, pi0),
    "positional_embeddings_pytorch_precedence": only(2, lambda p, d: sin_cos(p, [10000.0 ** -(i / (d / 2) + 1) for i in range(d // 2 + 1)])),
    "pyg": only(2, lambda p, d, base_freq=1e-4, granularity=1.0: sin_cos(p / granularity, base_freq ** np.linspace(0, 1, d // 2))),
    "qwen_omni_timesteps": only(2, lambda p, d, scale=1000.0: sin_cos(scale * p, endpoint(d))),
    "sockeye": only(2, lambda p, d, scale_down_positions=False: sin_cos(p, vaswani(d)) * (d**-0.5 if scale_down_positions else 1)),
    "speechbrain_rotary": only(2, lambda p, d, functions=("-sin", "sin"): in_turn(p, vaswani(d), *(FUNCTIONS[f] for f in functions))),
    "structured_transformer": lambda p, d: cos_sin(p, np.exp(np.arange(0, d, 2) * -(np.log(10000.0) / d))),
    "tatp22": tatp22,
    "tensor2tensor": tensor2tensor,
    "tensorflow_text": lambda p, d: sin_cos(p, vaswani(d)),
    "tgn": lambda p, d: np.cos(outer(p, 1 / 10 ** np.linspace(0, 9, d))),
    "transformer_xl": only(2, lambda p, d, base=10000.0: sin_cos(p, vaswani(d, base))),
    "wavegrad": only(2, lambda p, d, scale=5000.0: sin_cos(scale * p, vaswani(d))),
    "wavegrad_swapped": only(2, lambda p, d, scale=5000.0: sin_cos(scale * p, [(i / (d // 2)) ** 1e-4 for i in range(d // 2)])),
    "whisper": only(2, lambda p, d, max_timescale=10000.0: sin_cos(p, endpoint(d, max_timescale))),
    "x_transformers": only(2, lambda p, d, scale=None: sin_cos(p, vaswani(d)) * (scale or 1 / np.sqrt(d))),
    "xlm": lambda p, d: in_turn(p, vaswani(d))[:, :d],
    "zipformer": only(2, zipformer),
}
# fmt: on


# ---- several axes, by width -------------------------------------------------------------------------------------

YX, XY = (0, 1), (1, 0)


def loftr(p, d, temp_bug_fix=True):
    step = -np.log(10000.0) / (d // 2) if temp_bug_fix else -np.log(10000.0) / d // 2
    return bands(p[:, ::-1], np.exp(np.arange(0, d // 2, 2) * step), "fas")


def diffusers_3d(p, d, spatial_interpolation_scale=1.0, temporal_interpolation_scale=1.0):
    time, space = vaswani(d // 4) / temporal_interpolation_scale, vaswani(3 * d // 8) / spatial_interpolation_scale
    return beside(p, sin_cos, [time, space, space], (0, 2, 1))


def fairseq2(p, d, *parts):
    widths = [2 * -(-d // part) for part in parts]
    if sum(widths[:-1]) >= d:
        return None
    return beside(p, sin_cos, [vaswani(n) for n in widths], range(len(widths)))[:, :d]


def clay(p, d, gsd=1.0):
    n = d // 4
    return beside(p, sin_cos, gsd * np.array([10000.0 ** (-2 * (i / max(n - 1, 1)) / d) for i in range(n)]), XY)


def timm(p, d, reverse_coord=False, interleave_sin_cos=False):
    return bands(p[:, ::-1] if reverse_coord else p, half(d // 2), "asf" if interleave_sin_cos else "saf")


def monai(p, d, spatial_dims=3):
    if d % (2 * spatial_dims):
        return None
    return beside(p, sin_cos, vaswani(d // spatial_dims), (1, 0, 2)[:spatial_dims])


# keys: presets. Values: (number of axes, formula).
SEVERAL_AXES = {
    "clay": (2, only(4, clay)),
    "diffusers_3d": (3, only(16, diffusers_3d)),
    "fairseq2_2d": (2, only(2, lambda p, d: fairseq2(p, d, 4, 4))),
    "fairseq2_3d": (
        3,
        only(2, lambda p, d, uniform_power=False: fairseq2(p, d, *([6, 6, 6] if uniform_power else [4, 8, 8]))),
    ),
    "galileo": (2, only(4, lambda p, d: beside(p, sin_cos, 1 / 10000.0 ** (np.arange(d // 4) / (d // 2) / 2), XY))),
    "loftr": (2, only(4, loftr)),
    "mae": (2, only(4, lambda p, d: beside(p, sin_cos, vaswani(d // 2), XY))),
    "monai": (3, monai),
    "praxis_2d": (2, only(4, lambda p, d: beside(p, sin_cos, vaswani(d // 2), YX))),
    "simple_vit": (2, only(4, lambda p, d: beside(p, sin_cos, endpoint(d // 2), XY))),
    "simple_vit_3d": (3, lambda p, d: None if d < 6 else zeros(beside(p, sin_cos, endpoint(d // 3), (2, 1, 0)), d)),
    "timm": (2, only(4, timm)),
    "wzlxjtu": (2, only(4, lambda p, d: beside(p, in_turn, vaswani(d // 2), XY))),
}


# ---- other arguments --------------------------------------------------------------------------------------------

RNG = np.random.default_rng(20260101)
WEIGHTS, PLANE = RNG.normal(size=6), RNG.normal(size=(6, 2))


def tensor2tensor_nd(p, d, ndim=2, min_timescale=1.0):
    if d < 2 * ndim:
        return None
    n = d // (2 * ndim)
    return zeros(beside(p, sin_cos, min_timescale * down(n, 10000.0 / min_timescale, n - 1), range(ndim)), d)


def diffusers_2d(p, d, g, interpolation_scale=1.0, base_size=16):
    rows, columns = (vaswani(d // 2) * base_size / side / interpolation_scale for side in np.broadcast_to(g, 2))
    return beside(p, sin_cos, [columns, rows], XY)


def detr(p, n=64, *, temperature=10000.0, temperature_height=None, temperature_width=None):
    rows, columns = (vaswani(n, base or temperature) for base in (temperature_height, temperature_width))
    return beside(p, in_turn, [rows, columns], YX)


def dab_detr(p, n=128, **temperatures):
    return detr(p, n, temperature=20.0, **temperatures)


def boxes(p, d=128):
    return beside(p, in_turn, 2 * PI * vaswani(d), range(4))


def hyena(p, emb_dim, seq_len):
    if emb_dim % 2 == 0:
        return None
    w = np.linspace(1e-4, (emb_dim - 1) // 2 - 1, (emb_dim - 1) // 2)
    z = np.exp(-1j * w * (2 * PI * p[:, None] / seq_len))
    return np.hstack([z.real, z.imag])


def nerf(p, n=10, log_sampling=True, max_freq_log2=None):
    last = n - 1 if max_freq_log2 is None else max_freq_log2
    return bands(p, 2.0 ** np.linspace(0, last, n) if log_sampling else np.linspace(1, 2.0**last, n), "fsa")


def perceiver(p, n, max_resolution=(224, 224)):
    angles = np.hstack([outer(p[:, a], PI * np.linspace(1, size / 2, n)) for a, size in enumerate(max_resolution)])
    return np.hstack([np.sin(angles), np.cos(angles)])


def pytorch3d(p, n=6, omega_0=1.0, logspace=True):
    return bands(p, omega_0 * (2.0 ** np.arange(n) if logspace else np.linspace(1, 2.0 ** (n - 1), n)), "saf")


def scales(n, max_radius=10000.0, min_radius=10.0):
    return down(n, max_radius / min_radius, n - 1) / min_radius


def theory(p, n=16, min_radius=1000.0, **radii):
    degrees = np.radians([0, 120, 240])
    return bands(p @ [np.cos(degrees), np.sin(degrees)], scales(n, min_radius=min_radius, **radii), "fas")


def timm_fourier(p, n=64, max_res=224, linear_bands=False, in_pixels=True):
    pixels = np.linspace(1, max_res / 2, n) if linear_bands else 2.0 ** np.linspace(0, np.log2(max_res) - 1, n)
    return bands(p, PI * pixels if in_pixels else down(n, 10000.0, n), "saf")


def graphcast(p):
    """Return GraphCast's features. Unlike the source, do not round the fractions of year and day to float32."""
    seconds, longitude = p.T
    year = np.mod(seconds / 86400 / 365.24219, 1)
    day = np.mod(np.mod(seconds, 86400) / 86400 + np.deg2rad(longitude) / (2 * PI), 1)
    angles = 2 * PI * np.stack([year, day], axis=1)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(-1, 4)


def plr(x, weight):
    angles = 2 * PI * weight * x[..., None]
    return np.concatenate([np.cos(angles), np.sin(angles)], -1).reshape(len(x), -1)


def pbld(x, weight, bias):
    """Return PBLD's cosines (batch, features * k), by batched products of (features, batch, 1) and (features, 1, k)."""
    angles = 2 * PI * x.T[..., None] @ weight[:, None] + bias[:, None]
    return np.cos(angles).transpose(1, 0, 2).reshape(len(x), -1)


def fone(x, d, int_digit_len=5, frac_digit_len=5, period_base_list=(2, 5)):
    most, periods = 10 ** (int_digit_len + 1) - 1, set()
    for digit in range(-frac_digit_len, int_digit_len + 1):
        periods |= {base * 10.0**digit for base in period_base_list if base * 10.0**digit <= most}
    return zeros(in_turn(x, [2 * PI / period for period in sorted(periods)], np.cos, np.sin), d)


def prophet(seconds, period, series_order):
    turns = seconds / 86400 * 2 * PI
    columns = [function(turns * (i + 1) / period) for i in range(series_order) for function in (np.sin, np.cos)]
    return np.stack(columns, axis=1)


def nemos(x, n, period=1.0):
    angles = 2 * PI * outer(x / period, np.arange(n))
    return np.hstack([np.cos(angles), np.sin(angles[:, 1:])])


def satclip(lonlat):
    lon, lat = np.deg2rad(lonlat).T
    return np.stack([np.cos(lon), np.sin(lon), np.cos(lat), np.sin(lat)], axis=1)


def petr(p, n=128, temperature=10000.0):
    return beside(2 * PI * p, in_turn, vaswani(n, temperature), (1, 0, 2) if p.shape[1] == 3 else (0,))


def call(*arguments, **options):
    return arguments, options


# keys: presets. Values: (number of axes, formula, calls), where a call has the arguments of both preset and formula. If
# the formula returns None, the preset must raise an error.
# fmt: off
WITH_ARGUMENTS = {
    "alphafold3": (1, lambda p, w, b: np.cos(2 * PI * (outer(1 / 4 * p, w) + b)), [call(WEIGHTS, WEIGHTS[::-1])]),
    "dab_detr": (2, only(2, dab_detr), [call(), call(7), call(8, temperature_width=30.0)]),
    "dab_detr_boxes": (4, only(2, lambda p, *widths: boxes(p[:, [1, 0, 2, 3]], *widths)), [call(), call(2), call(3)]),
    "deformable_detr": (2, only(2, detr), [call(), call(2, temperature=20.0), call(3)]),
    "deformable_detr_proposals": (4, only(2, boxes), [call(), call(2), call(5)]),
    "detr": (2, only(2, detr), [call(), call(2), call(5), call(6, temperature=20.0)]),
    "diffusers_2d": (
        2,
        only(4, diffusers_2d),
        [call(16, (5, 9)), call(16, 5, interpolation_scale=2.0), call(4, 16), call(6, 16), call(8, 64, base_size=32)],
    ),
    "diffwave": (1, lambda p: sin_cos(p, 10.0 ** (np.arange(64) * 4 / 63)), [call()]),
    "esmfold2": (1, lambda p, w, b: np.cos(2 * PI * (outer(p, w) + b)), [call(WEIGHTS, WEIGHTS[::-1])]),
    "fone": (1, fone, [call(48), call(5, int_digit_len=1, frac_digit_len=0, period_base_list=(10,))]),
    "gencast": (
        1,
        lambda p, n=32, base_period=16.0: cos_sin(p, 2 * PI * np.arange(1, n + 1) / base_period),
        [call(), call(3, base_period=0.7), call(1)],
    ),
    "geo_prior": (2, lambda p: bands(p / [180.0, 90.0], np.array([PI]), "sfa"), [call()]),
    "geoclip_positional": (2, lambda p, sigma, m: beside(p, cos_sin, 2 * PI * sigma ** (np.arange(m) / m), YX), [call(10.0, 6), call(0.5, 1)]),
    "gligen": (4, lambda p, n=8: bands(p, 100.0 ** (np.arange(n) / n), "fsa"), [call(), call(1), call(3)]),
    "graphcast": (2, graphcast, [call()]),
    "hyena": (1, hyena, [call(9, 40), call(3, 5), call(8, 40)]),
    "lingvo_harmonics": (1, only(2, lambda p, d, n: sin_cos(p, 2 * PI / n * np.arange(1, d // 2 + 1))), [call(16, 40), call(2, 1), call(3, 7)]),
    "mip_nerf": (3, lambda p, low=0, high=16: bands(p, 2.0 ** np.arange(low, high), "sfa"), [call(), call(-2, 3), call(4, 5)]),
    "nemos": (1, nemos, [call(4), call(1), call(3, period=2.5)]),
    "nerf": (3, nerf, [call(), call(4, log_sampling=False), call(1), call(5, max_freq_log2=8), call(2, max_freq_log2=0)]),
    "nerfstudio": (
        3,
        lambda p, axes, n, low, high: bands(p, 2 * PI * 2.0 ** np.linspace(low, high, n), "saf"),
        [call(3, 5, 0, 4), call(3, 1, 1, 3), call(3, 2, -1, -1)],
    ),
    "pbld": (2, pbld, [call(PLANE.T, PLANE[::-1].T)]),
    "perceiver": (2, perceiver, [call(3, max_resolution=(4, 6)), call(1), call(8)]),
    "petr": (3, only(2, petr), [call(), call(8, temperature=20.0), call(3)]),
    "plr": (2, plr, [call(PLANE.T)]),
    "prophet": (1, prophet, [call(7, 3), call(365.25, 10)]),
    "pytorch3d": (3, pytorch3d, [call(), call(5, omega_0=0.3), call(4, logspace=False, omega_0=2.0), call(1)]),
    "rbf_sampler": (2, lambda x, w, b: np.sqrt(2 / w.shape[1]) * np.cos(x @ w + b), [call(PLANE.T, WEIGHTS)]),
    "sam": (2, lambda p, g: np.hstack([np.sin(2 * PI * p @ g), np.cos(2 * PI * p @ g)]), [call(PLANE.T)]),
    "satclip_wrap": (2, satclip, [call()]),
    "satmae_temporal": (3, only(2, lambda p, d=128: beside(p, sin_cos, vaswani(d), range(3))), [call(), call(2), call(3)]),
    "space2vec_grid": (
        2,
        lambda p, n=16, **radii: bands(p, scales(n, **radii), "afs"),
        [call(), call(1), call(4, min_radius=1.0, max_radius=360.0)],
    ),
    "space2vec_theory": (2, theory, [call(), call(1), call(4, min_radius=10.0, max_radius=1000.0)]),
    "streampetr_time": (1, only(2, lambda t, n=256, **options: petr(t[:, None], n, **options)), [call(), call(8, temperature=20.0), call(3)]),
    "tensor2tensor_nd": (2, tensor2tensor_nd, [*(call(d) for d in (1, 3, 4, 7, 8, 16, 19)), call(16, min_timescale=2.0)]),
    "timm_fourier": (2, timm_fourier, [call(), call(4, max_res=16, linear_bands=True), call(1), call(5, in_pixels=False)]),
    "tiny_cuda_nn": (3, lambda p, n=12: bands(p, PI * 2.0 ** np.arange(n), "afs"), [call(), call(1)]),
}
# fmt: on
# presets without a formula here: they are only compared with recorded outputs of their sources
RECORDED = ("geoclip", "k_diffusion_fourier", "mp_fourier", "score_sde_fourier", "tancik")
