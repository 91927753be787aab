"""List sets of frequencies whose bits must be equal on all machines: presets, scalings, configs, exact periods.

Each function that `sets` returns builds one Encoding or Rotary, from integers and short fractions.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from .._core.encoding.builders import fourier_features, sinusoidal
from .._core.encoding.periods import periodic
from .._core.encoding.value import Encoding
from .._core.rotary.value import Rotary
from ..presets import get, names
from ..presets._registry import facts

# a width that is valid for every preset whose width can be chosen
WIDTH = 96
_WEIGHTS = np.arange(1, 25).reshape(12, 2) / 8
# preset -> arguments of its call; other presets get WIDTH if their width can be chosen, else no argument
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "alphafold3": (_WEIGHTS[:, 0], _WEIGHTS[:, 1]),
    "diffusers_2d": (WIDTH, 24),
    "esmfold2": (_WEIGHTS[:, 0], _WEIGHTS[:, 1]),
    "fone": (WIDTH,),
    "galileo_months": (WIDTH,),
    "geoclip": (_WEIGHTS,),
    "geoclip_positional": (16.0, 10),
    "hyena": (9, 100),
    "k_diffusion_fourier": (_WEIGHTS,),
    "lightglue": (_WEIGHTS,),
    "lingvo_harmonics": (WIDTH, 100),
    "mochi": (np.arange(72).reshape(3, 2, 12) / 8,),
    "mp_fourier": (_WEIGHTS[:, 0],),
    "nemos": (9,),
    "nerfstudio": (3, 10, 0.0, 9.0),
    "pbld": (_WEIGHTS, _WEIGHTS[:, ::-1]),
    "perceiver": (10,),
    "plr": (_WEIGHTS,),
    "prophet": (365.25, 10),
    "rbf_sampler": (_WEIGHTS.T, _WEIGHTS[:, 0]),
    "sam": (_WEIGHTS.T,),
    "score_sde_fourier": (_WEIGHTS[:, 0],),
    "tancik": (_WEIGHTS,),
    "tensor2tensor_nd": (WIDTH,),
}

_FACTORS = {"factor": 8.0, "original_max_position_embeddings": 4096}
_LLAMA3 = {**_FACTORS, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_LISTS = {"short_factor": [1 + i / 64 for i in range(32)], "long_factor": [1.0 + i for i in range(32)]}
# rope_type -> parameters of one or more scalings, for head_dim=64
SCALINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "default": ({},),
    "linear": ({"factor": 3.0}, {"factor": 4.0}),
    "dynamic": (
        {"factor": 2.0, "max_position_embeddings": 2048, "seq_len": 5000},
        {"factor": 2.0, "max_position_embeddings": 2048},
    ),
    "ntk": ({"alpha": 7.0}, {"alpha": 1000.0}),
    "ntk_fixed": ({"factor": 6.0},),
    "ntk_mixed": ({"factor": 6.0, "b": 0.625}, {"factor": 6.0, "b": 1.5}),
    "yarn": (
        _FACTORS,
        {**_FACTORS, "truncate": False, "beta_fast": 24.0, "beta_slow": 1.5},
        {**_FACTORS, "mscale": 0.75, "mscale_all_dim": 1.25},
    ),
    "yarn_log": ({**_FACTORS, "extrapolation_factor": 0.875}, _FACTORS),
    "theta_scale": (_FACTORS,),
    "longrope": (
        {**_LISTS, "original_max_position_embeddings": 4096, "factor": 32.0},
        {**_LISTS, "original_max_position_embeddings": 4096, "max_position_embeddings": 131072, "seq_len": 4097},
    ),
    "llama3": (_LLAMA3,),
    "proportional": ({"factor": 3.0, "partial_rotary_factor": 0.25},),
    "axial": ({},),
    "xpos": ({}, {"center": 100.5, "keys": True}),
}
BASES = (10000.0, 500000.0, 1234567.0)

_PHI3 = {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "head_dim": 64}
# keys: model_type, or another name if the config contains its own model_type. Values: configs.
_CONFIGS: dict[str, dict[str, Any]] = {
    "atoms": {
        "model_type": "esmfold2_atom_encoder",
        "head_dim": 64,
        "num_spatial_rope_pairs_per_axis": 7,
        "num_uid_rope_pairs": 9,
        "spatial_rope_base_frequency": 100.0,
        "uid_rope_base_frequency": 300.0,
    },
    "clvp_encoder": {
        "projection_dim": 768,
        "hidden_size": 768,
        "num_attention_heads": 12,
        "use_rotary_embedding": True,
    },
    "deepseek_v3": {
        "qk_rope_head_dim": 64,
        "rope_scaling": {**_FACTORS, "type": "yarn", "factor": 40.0, "mscale": 0.75, "mscale_all_dim": 1.0},
    },
    "dinov3_vit": {"hidden_size": 384, "num_attention_heads": 6},
    "gemma3_text": {
        "num_hidden_layers": 26,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    },
    "gemma4_text": {"head_dim": 256, "num_hidden_layers": 6},
    "gpt_neox": {"hidden_size": 6144, "num_attention_heads": 64, "rotary_pct": 0.25},
    "gpt_oss": {
        "head_dim": 64,
        "rope_theta": 150000.0,
        "rope_scaling": {**_FACTORS, "rope_type": "yarn", "factor": 32.0, "truncate": False},
    },
    "hunyuan_v1_dense": {"head_dim": 128, "rope_scaling": {"type": "dynamic", "alpha": 1000.0}},
    "llama": {
        "head_dim": 128,
        "rope_theta": 500000.0,
        "rope_scaling": {"rope_type": "llama3", **_LLAMA3, "original_max_position_embeddings": 8192},
    },
    "minimax_m3_vl_vision": {"head_dim": 80},
    "ministral3": {
        "head_dim": 128,
        "rope_parameters": {
            "type": "yarn",
            "rope_theta": 1e6,
            "factor": 16.0,
            "original_max_position_embeddings": 16384,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.1,
        },
    },
    "nanochat": {"head_dim": 64, "rope_scaling": {"rope_type": "linear", "factor": 3.0}},
    "phi3": {**_PHI3, "rope_scaling": {"type": "su", **_LISTS}},
    "phimoe": {**_PHI3, "rope_scaling": {"type": "longrope", **_LISTS, "short_mscale": 1.25, "long_mscale": 1.5}},
    "pixtral": {"head_dim": 64},
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "gemma3_text": {"layer_type": "full_attention"},
    "gemma4_text": {"layer": 5},
    "phi3": {"seq_len": 4097},
    "phimoe": {"seq_len": 4097},
}
# key of _CONFIGS -> (config, options) for `Rotary.from_config`
CONFIGS = {name: ({"model_type": name, **config}, _OPTIONS.get(name, {})) for name, config in _CONFIGS.items()}

_DAY = 86400
_PERIODS: dict[str, list[Any]] = {
    "days and weeks": ["1D", "7D", "365.2425D"],
    "numbers": [_DAY, 7, 24, 1],
    "fractions": [Fraction(1, 3), 2.5, Fraction(10**12 + 1, 10**6)],
}


def sets() -> dict[str, Callable[[], Encoding | Rotary]]:
    """Return functions by name, each of which builds an Encoding or a Rotary."""
    builders: dict[str, Callable[[], Encoding | Rotary]] = {}
    for name in names():
        build = get(name)
        arguments = _ARGUMENTS.get(name, (WIDTH,) if facts(name).by_width else ())
        builders[f"preset {name}"] = functools.partial(build, *arguments)
        if "frequencies" in inspect.signature(build).parameters:
            builders[f"preset {name}, float32"] = functools.partial(build, *arguments, frequencies="float32")
    for name, cases in SCALINGS.items():
        for i, parameters in enumerate(cases):
            for base in BASES:
                builders[f"scaling {name} {i}, base {base:g}"] = functools.partial(
                    Rotary,
                    64,
                    base=base,
                    scaling={"rope_type": name, **parameters},
                    sections=[12, 10, 10] if name == "axial" else None,
                )
    for name, (config, options) in CONFIGS.items():
        builders[f"config {name}"] = functools.partial(Rotary.from_config, config, **options)
    for name, periods in _PERIODS.items():
        builders[f"periods, {name}"] = functools.partial(fourier_features, periodic(periods))
        builders[f"periods, {name}, interleaved"] = functools.partial(
            sinusoidal, 2 * len(periods), frequencies=periodic(periods)
        )
    return builders
