"""The formula of every preset, written out anew from its source in plain float64 NumPy.

Each function takes positions, of shape (n,) or (n, axes), and the preset's arguments, and returns (n, columns); None
where the source has no such width. Where the formula's source is, the preset's docstring says.
"""

from __future__ import annotations

import numpy as np

PI = np.pi


def down(count, base, denominator):
    """base^(-i/denominator); a single frequency is 1."""
    return np.array([1.0]) if count == 1 else np.array([base ** (-(i / denominator)) for i in range(count)])


def outer(p, w):
    return np.asarray(p, float)[:, None] * np.asarray(w, float)[None, :]


def sin_cos(p, w, w2=None):
    """Sines, then cosines."""
    return np.hstack([np.sin(outer(p, w)), np.cos(outer(p, w if w2 is None else w2))])


def cos_sin(p, w):
    return np.hstack([np.cos(outer(p, w)), np.sin(outer(p, w))])


def in_turn(p, w):
    """sin, cos, sin, cos, .."""
    return np.stack([np.sin(outer(p, w)), np.cos(outer(p, w))], axis=2).reshape(len(p), -1)


def zeros(rows, d):
    """Columns of zeros up to the width."""
    return np.hstack([rows, np.zeros((len(rows), d - rows.shape[1]))])


def vaswani(d):
    return np.array([10000.0 ** (-2 * i / d) for i in range((d + 1) // 2)])


def endpoint(d, base=10000.0):
    return down(d // 2, base, d // 2 - 1)


def only(divisor, formula):
    """No other widths than multiples."""
    return lambda p, d, **more: None if d % divisor else formula(p, d, **more)


def beside(p, *blocks):
    """Blocks (axis, function of one axis' positions) side by side."""
    return np.hstack([block(p[:, axis]) for axis, block in blocks])


# ---- one axis, by width -----------------------------------------------------------------------------------------


def tensor2tensor(p, d, min_timescale=1.0, max_timescale=1e4):
    return zeros(sin_cos(p, min_timescale * endpoint(d, max_timescale / min_timescale)), d)


def xlm(p, d):
    return in_turn(p, vaswani(d))[:, :d]


def marian(p, d):
    w = vaswani(d)
    return np.hstack([np.sin(outer(p, w)), np.cos(outer(p, w[: d // 2]))])


def keras_blog(p, d):
    w = vaswani(d)
    return np.stack([np.cos(outer(p, w)), np.sin(outer(p, w))], axis=2).reshape(len(p), -1)[:, :d]


def column_by_column(p, d, exponent, base=10000.0):
    columns = [(np.cos if c % 2 else np.sin)(p * base ** -(exponent * c / d)) for c in range(d)]
    return np.stack(columns, axis=1)


def half_frequencies(d, base=10000.0):
    return down(d // 2, base, d // 2) if d > 3 else np.ones(d // 2)


def zipformer(p, d):
    columns = [function(p * (c // 2 + 1)) for c, function in zip(range(d), (np.cos, np.sin) * d, strict=False)]
    return np.stack([*columns[:-1], np.ones(len(p))], axis=1)


def graphmixer(p, d):
    return np.cos(outer(p, np.sqrt(d) ** -np.linspace(0, np.sqrt(d), d)))


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
    if ndim == 1:
        p = p.reshape(-1, 1)
    c = 2 * -(-d // (2 * ndim))
    w = np.array([10000.0 ** (-2 * i / c) for i in range(c // 2)])
    return np.hstack([in_turn(p[:, a], w) for a in range(ndim)])[:, :d]


def pi0(p, d, min_period=4e-3, max_period=4.0):
    fraction = np.linspace(0, 1, d // 2)
    return sin_cos(p, 2 * PI / (min_period * (max_period / min_period) ** fraction))


def speechbrain(p, d, functions=("-sin", "sin")):
    angles = outer(p, vaswani(d))
    values = {"sin": np.sin(angles), "-sin": -np.sin(angles), "cos": np.cos(angles)}
    return np.stack([values[f] for f in functions], axis=2).reshape(-1, d)


ONE_AXIS = {
    "annotated_transformer": only(2, lambda p, d, base=10000.0: in_turn(p, down(d // 2, base, d / 2))),
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
    "flaxformer_rotary": only(
        2,
        lambda p, d, min_timescale=1.0, functions=("sin",) * 2: np.hstack(
            [
                getattr(np, f)(
                    outer(p, [(10000.0 / min_timescale) ** (-2 * i / d) / min_timescale for i in range(d // 2)])
                )
                for f in functions
            ]
        ),
    ),
    "flux_timesteps": lambda p, d, time_factor=1000.0: zeros(cos_sin(p * time_factor, half_frequencies(d)), d),
    "framediff_index": only(2, lambda p, d: sin_cos(p, [PI / 2056 ** (2 * i / d) for i in range(d // 2)])),
    "framediff_timesteps": lambda p, d: zeros(sin_cos(10000.0 * p, endpoint(d)), d),
    "funnel": only(
        2,
        lambda p, d, part="phi": {
            "phi": lambda s, c: np.hstack([s, s]),
            "pi": lambda s, c: np.hstack([c, c]),
            "psi": lambda s, c: np.hstack([c, s]),
            "omega": lambda s, c: np.hstack([-s, c]),
        }[part](np.sin(outer(p, vaswani(d))), np.cos(outer(p, vaswani(d)))),
    ),
    "graphmixer": graphmixer,
    "guided_diffusion": lambda p, d, max_period=10000.0: zeros(cos_sin(p, half_frequencies(d, max_period)), d),
    "keras_blog": keras_blog,
    "keras_hub": lambda p, d: xlm(p, d),
    "marian": marian,
    "maxjcohen_unpaired": lambda p, d, base=1000.0: column_by_column(p, d, 1, base),
    "mlx": only(2, mlx),
    "musicgen": lambda p, d: zeros(cos_sin(p, endpoint(d)), d),
    "nemo_fixed": only(2, lambda p, d: in_turn(p, vaswani(d)) / np.sqrt(d)),
    "pi0": only(2, pi0),
    "positional_embeddings_pytorch_precedence": only(
        2, lambda p, d: sin_cos(p, [10000.0 ** -(i / (d / 2) + 1) for i in range(d // 2 + 1)])
    ),
    "pyg": only(
        2,
        lambda p, d, base_freq=1e-4, granularity=1.0: sin_cos(p / granularity, base_freq ** np.linspace(0, 1, d // 2)),
    ),
    "qwen_omni_timesteps": only(2, lambda p, d, scale=1000.0: sin_cos(scale * p, endpoint(d))),
    "sockeye": only(
        2,
        lambda p, d, scale_down_positions=False: sin_cos(p, vaswani(d)) * (d**-0.5 if scale_down_positions else 1),
    ),
    "speechbrain_rotary": only(2, speechbrain),
    "tatp22": tatp22,
    "tensor2tensor": tensor2tensor,
    "tensorflow_text": lambda p, d: sin_cos(p, vaswani(d)),
    "transformer_xl": only(2, lambda p, d, base=10000.0: sin_cos(p, down(d // 2, base, d / 2))),
    "wavegrad": only(2, lambda p, d, scale=5000.0: sin_cos(scale * p, vaswani(d))),
    "wavegrad_swapped": only(
        2, lambda p, d, scale=5000.0: sin_cos(scale * p, [(i / (d // 2)) ** 1e-4 for i in range(d // 2)])
    ),
    "whisper": only(2, lambda p, d, max_timescale=10000.0: sin_cos(p, endpoint(d, max_timescale))),
    "x_transformers": only(2, lambda p, d, scale=None: sin_cos(p, vaswani(d)) * (scale or 1 / np.sqrt(d))),
    "xlm": xlm,
    "zipformer": only(2, zipformer),
}


# ---- several axes, by width -------------------------------------------------------------------------------------


def loftr(p, d, temp_bug_fix=True):
    step = -np.log(10000.0) / (d // 2) if temp_bug_fix else -np.log(10000.0) / d // 2
    columns = []
    for i in range(0, d // 2, 2):
        w = np.exp(i * step)
        columns += [np.sin(p[:, 1] * w), np.cos(p[:, 1] * w), np.sin(p[:, 0] * w), np.cos(p[:, 0] * w)]
    return np.stack(columns, axis=1)


def simple_vit_3d(p, d):
    if d < 6:
        return None
    w = down(d // 6, 10000.0, d // 6 - 1)
    return zeros(beside(p, *((axis, lambda x: sin_cos(x, w)) for axis in (2, 1, 0))), d)


def diffusers_3d(p, d, spatial_interpolation_scale=1.0, temporal_interpolation_scale=1.0):
    t, y, x = p.T / np.array(
        [[temporal_interpolation_scale], [spatial_interpolation_scale], [spatial_interpolation_scale]]
    )
    return np.hstack([sin_cos(t, vaswani(d // 4)), sin_cos(x, vaswani(3 * d // 8)), sin_cos(y, vaswani(3 * d // 8))])


def fairseq2(p, d, widths):
    if sum(widths[:-1]) >= d:
        return None
    return np.hstack([sin_cos(p[:, a], vaswani(n)) for a, n in enumerate(widths)])[:, :d]


def up4(d, by):
    return 2 * -(-d // by)


def fairseq2_3d(p, d, uniform_power=False):
    return fairseq2(p, d, [up4(d, 6)] * 3 if uniform_power else [up4(d, 4), up4(d, 8), up4(d, 8)])


def clay(p, d, gsd=1.0):
    n = d // 4
    w = gsd * np.array([10000.0 ** (-2 * (i / max(n - 1, 1)) / d) for i in range(n)])
    return np.hstack([sin_cos(p[:, 1], w), sin_cos(p[:, 0], w)])


def timm(p, d, reverse_coord=False, interleave_sin_cos=False):
    w = down(d // 4, 10000.0, d // 4)
    y, x = (outer(p[:, a], w) for a in ((1, 0) if reverse_coord else (0, 1)))
    order = [np.sin(y), np.cos(y), np.sin(x), np.cos(x)]
    return np.hstack(order if interleave_sin_cos else [order[0], order[2], order[1], order[3]])


def monai(p, d, spatial_dims=3):
    if d % (2 * spatial_dims):
        return None
    w = vaswani(d // spatial_dims)
    return np.hstack([sin_cos(p[:, a], w) for a in (1, 0, 2)[:spatial_dims]])


# number of axes, and the formula
SEVERAL_AXES = {
    "clay": (2, only(4, clay)),
    "diffusers_3d": (3, only(16, diffusers_3d)),
    "fairseq2_2d": (2, only(2, lambda p, d: fairseq2(p, d, [up4(d, 4)] * 2))),
    "fairseq2_3d": (3, only(2, fairseq2_3d)),
    "loftr": (2, only(4, loftr)),
    "mae": (2, only(4, lambda p, d: np.hstack([sin_cos(p[:, a], vaswani(d // 2)) for a in (1, 0)]))),
    "monai": (3, monai),
    "praxis_2d": (2, only(4, lambda p, d: np.hstack([sin_cos(p[:, a], vaswani(d // 2)) for a in (0, 1)]))),
    "simple_vit": (2, only(4, lambda p, d: np.hstack([sin_cos(p[:, a], endpoint(d // 2)) for a in (1, 0)]))),
    "simple_vit_3d": (3, simple_vit_3d),
    "timm": (2, only(4, timm)),
    "wzlxjtu": (2, only(4, lambda p, d: np.hstack([in_turn(p[:, a], vaswani(d // 2)) for a in (1, 0)]))),
}


# ---- given arguments --------------------------------------------------------------------------------------------

RNG = np.random.default_rng(20260101)
WEIGHTS, PLANE = RNG.normal(size=6), RNG.normal(size=(6, 2))


def bands(p, w, order):
    """Sines and cosines of every axis and frequency in an order of a(xis), f(requency) and s(ine or cosine)."""
    values = np.stack([np.sin(p[:, :, None] * w), np.cos(p[:, :, None] * w)], axis=3)
    return values.transpose(0, *("afs".index(letter) + 1 for letter in order)).reshape(len(p), -1)


def tensor2tensor_nd(p, d, ndim=2, min_timescale=1.0):
    if d < 2 * ndim:
        return None
    n = d // (2 * ndim)
    w = min_timescale * down(n, 10000.0 / min_timescale, n - 1)
    return zeros(np.hstack([sin_cos(p[:, a], w) for a in range(ndim)]), d)


def boxes(p, d, axes):
    return np.hstack([in_turn(2 * PI * p[:, a], vaswani(d)) for a in axes])


def theory(p, n=16, max_radius=10000.0, min_radius=1000.0):
    columns = []
    for i in range(n):
        w = 1 / (min_radius * (max_radius / min_radius) ** (i / max(n - 1, 1)))
        for degrees in (0, 120, 240):
            along = p @ [np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]
            columns += [np.sin(along * w), np.cos(along * w)]
    return np.stack(columns, axis=1)


def perceiver(p, n, max_resolution=(224, 224)):
    angles = np.hstack([outer(p[:, a], PI * np.linspace(1, size / 2, n)) for a, size in enumerate(max_resolution)])
    return np.hstack([np.sin(angles), np.cos(angles)])


def detr(p, n=64, temperature_height=10000.0, temperature_width=10000.0):
    if n % 2:
        return None
    rows = []
    for a, base in enumerate((temperature_height, temperature_width)):
        period = base ** (2 * (np.arange(n) // 2) / n)
        angles = p[:, a, None] / period
        rows.append(np.stack([np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])], axis=2).reshape(len(p), n))
    return np.hstack(rows)


def hyena(p, emb_dim, seq_len):
    if emb_dim % 2 == 0:
        return None
    w = np.linspace(1e-4, (emb_dim - 1) // 2 - 1, (emb_dim - 1) // 2)
    z = np.exp(-1j * w * (2 * PI * p[:, None] / seq_len))
    return np.hstack([z.real, z.imag])


def grid_cell(p, n=16, max_radius=10000.0, min_radius=10.0):
    return bands(p, down(n, max_radius / min_radius, n - 1) / min_radius, "afs")


# axes, formula, and arguments to call both with; an argument list whose formula is None must be refused
WITH_ARGUMENTS = {
    "dab_detr": (
        2,
        lambda p, n=128, temperature_height=20.0, temperature_width=20.0: detr(
            p, n, temperature_height, temperature_width
        ),
        [((), {}), ((7,), {}), ((8,), {"temperature_width": 30.0})],
    ),
    "dab_detr_boxes": (
        4,
        lambda p, d=128: boxes(p, d, (1, 0, 2, 3)) if d % 2 == 0 else None,
        [((), {}), ((2,), {}), ((3,), {})],
    ),
    "deformable_detr": (
        2,
        lambda p, n=64, temperature=10000.0: detr(p, n, temperature, temperature),
        [((), {}), ((2,), {"temperature": 20.0}), ((3,), {})],
    ),
    "deformable_detr_proposals": (
        4,
        lambda p, d=128: boxes(p, d, range(4)) if d % 2 == 0 else None,
        [((), {}), ((2,), {}), ((5,), {})],
    ),
    "detr": (
        2,
        lambda p, n=64, temperature=10000.0: detr(p, n, temperature, temperature),
        [((), {}), ((2,), {}), ((5,), {}), ((6,), {"temperature": 20.0})],
    ),
    "diffusers_2d": (
        2,
        lambda p, d, g, interpolation_scale=1.0, base_size=16: (
            None
            if d % 4
            else np.hstack(
                [
                    sin_cos(p[:, a] / (np.broadcast_to(g, 2)[a] / base_size) / interpolation_scale, vaswani(d // 2))
                    for a in (1, 0)
                ]
            )
        ),
        [
            ((16, (5, 9)), {}),
            ((16, 5), {"interpolation_scale": 2.0}),
            ((4, 16), {}),
            ((6, 16), {}),
            ((8, 64), {"base_size": 32}),
        ],
    ),
    "diffwave": (1, lambda p: sin_cos(p, 10.0 ** (np.arange(64) * 4 / 63)), [((), {})]),
    "esmfold2": (1, lambda p, w, b: np.cos(2 * PI * (outer(p, w) + b)), [((WEIGHTS, WEIGHTS[::-1]), {})]),
    "geoclip": (2, lambda p, b: np.hstack([np.cos(2 * PI * p @ b.T), np.sin(2 * PI * p @ b.T)]), [((PLANE,), {})]),
    "geoclip_positional": (
        2,
        lambda p, sigma, m: np.hstack([cos_sin(p[:, a], 2 * PI * sigma ** (np.arange(m) / m)) for a in (0, 1)]),
        [((10.0, 6), {}), ((0.5, 1), {})],
    ),
    "gligen": (4, lambda p, n=8: bands(p, 100.0 ** (np.arange(n) / n), "fsa"), [((), {}), ((1,), {}), ((3,), {})]),
    "hyena": (1, hyena, [((9, 40), {}), ((3, 5), {}), ((8, 40), {})]),
    "k_diffusion_fourier": (
        2,
        lambda p, b: np.hstack([np.cos(2 * PI * p @ b.T), np.sin(2 * PI * p @ b.T)]),
        [((PLANE,), {})],
    ),
    "lingvo_harmonics": (
        1,
        lambda p, d, n: None if d % 2 else sin_cos(p, 2 * PI / n * np.arange(1, d // 2 + 1)),
        [((16, 40), {}), ((2, 1), {}), ((3, 7), {})],
    ),
    "mip_nerf": (
        3,
        lambda p, low=0, high=16: bands(p, 2.0 ** np.arange(low, high), "sfa"),
        [((), {}), ((-2, 3), {}), ((4, 5), {})],
    ),
    "mp_fourier": (1, lambda p, w: np.sqrt(2) * sin_cos(p, 2 * PI * w), [((WEIGHTS,), {})]),
    "nerf": (
        3,
        lambda p, n=10, log_sampling=True, max_freq_log2=None: bands(
            p,
            2.0 ** np.linspace(0, n - 1 if max_freq_log2 is None else max_freq_log2, n)
            if log_sampling
            else np.linspace(1, 2.0 ** (n - 1 if max_freq_log2 is None else max_freq_log2), n),
            "fsa",
        ),
        [
            ((), {}),
            ((4,), {"log_sampling": False}),
            ((1,), {}),
            ((5,), {"max_freq_log2": 8}),
            ((2,), {"max_freq_log2": 0}),
        ],
    ),
    "nerfstudio": (
        3,
        lambda p, axes, n, low, high: bands(p, 2 * PI * 2.0 ** np.linspace(low, high, n), "saf"),
        [((3, 5, 0, 4), {}), ((3, 1, 1, 3), {}), ((3, 2, -1, -1), {})],
    ),
    "perceiver": (2, perceiver, [((3,), {"max_resolution": (4, 6)}), ((1,), {}), ((8,), {})]),
    "pytorch3d": (
        3,
        lambda p, n=6, omega_0=1.0, logspace=True: bands(
            p, omega_0 * (2.0 ** np.arange(n) if logspace else np.linspace(1, 2.0 ** (n - 1), n)), "saf"
        ),
        [((), {}), ((5,), {"omega_0": 0.3}), ((4,), {"logspace": False, "omega_0": 2.0}), ((1,), {})],
    ),
    "sam": (
        2,
        lambda p, g: (
            sin_cos(np.ones(1), [0])[:0] if g is None else np.hstack([np.sin(2 * PI * p @ g), np.cos(2 * PI * p @ g)])
        ),
        [((PLANE.T,), {})],
    ),
    "satmae_temporal": (
        3,
        lambda p, d=128: None if d % 2 else np.hstack([sin_cos(p[:, a], vaswani(d)) for a in range(3)]),
        [((), {}), ((2,), {}), ((3,), {})],
    ),
    "score_sde_fourier": (1, lambda p, w: sin_cos(p, 2 * PI * w), [((WEIGHTS,), {})]),
    "space2vec_grid": (2, grid_cell, [((), {}), ((1,), {}), ((4,), {"min_radius": 1.0, "max_radius": 360.0})]),
    "space2vec_theory": (2, theory, [((), {}), ((1,), {}), ((4,), {"min_radius": 10.0, "max_radius": 1000.0})]),
    "tancik": (2, lambda p, b: np.hstack([np.sin(2 * PI * p @ b.T), np.cos(2 * PI * p @ b.T)]), [((PLANE,), {})]),
    "tensor2tensor_nd": (
        2,
        tensor2tensor_nd,
        [((d,), {}) for d in (1, 3, 4, 7, 8, 16, 19)] + [((16,), {"min_timescale": 2.0})],
    ),
    "timm_fourier": (
        2,
        lambda p, n=64, max_res=224, linear_bands=False, in_pixels=True: bands(
            p,
            down(n, 10000.0, n)
            if not in_pixels
            else PI
            * (np.linspace(1, max_res / 2, n) if linear_bands else 2.0 ** np.linspace(0, np.log2(max_res) - 1, n)),
            "saf",
        ),
        [((), {}), ((4,), {"max_res": 16, "linear_bands": True}), ((1,), {}), ((5,), {"in_pixels": False})],
    ),
    "tiny_cuda_nn": (3, lambda p, n=12: bands(p, PI * 2.0 ** np.arange(n), "afs"), [((), {}), ((1,), {})]),
}
