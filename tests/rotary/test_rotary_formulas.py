"""Compare the frequencies, axes, layouts and widths of rotary presets with independent formulas."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.presets._registry import FACTS

PI = np.pi


def powers(base, dim):
    return base ** (-2 * np.arange(dim // 2) / dim)


def rotating(head, frequencies, layout="half", axes=None):
    """Return the expected (head_dim, rotary_dim, layout, frequencies, axes) of a preset. axes: the axes of pairs."""
    return head, 2 * len(frequencies), layout, frequencies, axes or [0] * len(frequencies)


def one(base, head, dim=None, layout="half", axes=None):
    """Return the expected values for frequencies of one base."""
    return rotating(head, powers(base, dim or head), layout, axes)


def several(base, dims, layout="interleaved", head=None, factor=1.0):
    """Return the expected values for consecutive blocks of pairs, one block for each axis."""
    axes = np.repeat(np.arange(len(dims)), [dim // 2 for dim in dims]).tolist()
    return rotating(head or sum(dims), factor * np.concatenate([powers(base, dim) for dim in dims]), layout, axes)


def thirds(pairs, h, w):
    return [1 if i % 3 == 1 and i < 3 * h else 2 if i % 3 == 2 and i < 3 * w else 0 for i in range(pairs)]


def scaled(base, dim, rope_type, factor, original, **more):
    """Return frequencies that test_rotary_exact.py compares with the formula of the scaling."""
    scaling = {"rope_type": rope_type, "factor": factor, "original_max_position_embeddings": original, **more}
    return pf.Rotary(dim, base=base, scaling=scaling).frequencies


def rising(dim):
    """Return the expected values for three axes whose frequencies rise from pi/2, after pairs that do not rotate."""
    count, rest = divmod(dim // 2, 3)
    values = np.repeat(PI / 2 * 10000.0 ** (np.arange(count) / (count - 1)), 3)
    return rotating(dim, np.concatenate([np.zeros(rest), values]), "interleaved", [0] * rest + [0, 1, 2] * count)


COSMOS = zip([1e4 * 2 ** (44 / 42), 1e4, 1e4], (44, 42, 42), strict=True)
# keys: presets. Values: (head_dim, rotary_dim, layout, frequencies, axes).
FORMULAS = {
    "cogvideox": several(1e4, (16, 24, 24)),
    "cogview4": several(1e4, (64, 64), "half"),
    "cohere": one(5e5, 128, layout="interleaved"),
    "cosmos": rotating(128, np.concatenate([powers(*each) for each in COSMOS]), axes=[0] * 22 + [1] * 21 + [2] * 21),
    "cosmos3": one(5e6, 128, axes=thirds(64, 20, 20)),
    "deepseek_v2": rotating(64, scaled(1e4, 64, "yarn", 40, 4096), "interleaved"),
    "deepseek_v3": rotating(64, scaled(1e4, 64, "yarn", 40, 4096), "interleaved_to_half"),
    "deepseek_v4": rotating(64, scaled(1.6e5, 64, "yarn", 16, 65536), "interleaved"),
    "dinov3": several(100.0, (32, 32), "half", factor=2 * PI),
    "efficient_loftr": rotating(256, np.repeat(powers(1e4, 128), 2), "interleaved", [0, 1] * 64),
    "ernie4_5_vl": one(5e5, 128, layout="interleaved", axes=[1, 2] * 22 + [0] * 20),
    "flux": several(1e4, (16, 56, 56)),
    "flux2": several(2e3, (32, 32, 32, 32)),
    "gemma3": one(1e6, 256),
    "gemma4": rotating(512, powers(1e6, 512) * (np.arange(256) < 64)),
    "glm4": one(1e4, 128, 64, "interleaved"),
    "glm4v": one(1e4, 128, 64, "interleaved", [0] * 8 + [1] * 12 + [2] * 12),
    "gpt_neox": one(1e4, 96, 24),
    "gpt_oss": rotating(64, scaled(1.5e5, 64, "yarn", 32, 4096, truncate=False)),
    "gptj": one(1e4, 256, 64, "interleaved"),
    "helium": one(1e5, 128, layout="interleaved"),
    "hidream": several(1e4, (64, 32, 32)),
    "hunyuan": one(1e4 * 1000 ** (128 / 126), 128),
    "hunyuan_dit": rotating(88, np.tile(powers(1e4, 44), 2), "interleaved", [1] * 22 + [0] * 22),
    "hunyuan_image": several(256.0, (64, 64)),
    "hunyuan_video": several(256.0, (16, 56, 56)),
    "ideogram4": one(5e6, 256, axes=thirds(128, 20, 20)),
    "inkling_vision": rotating(64, np.tile(powers(1e4, 32), 2), "interleaved", [1] * 16 + [0] * 16),
    "kandinsky5": several(1e4, (16, 24, 24)),
    "kimi_vision": rotating(72, np.repeat(powers(1e4, 36), 2), axes=[1, 0] * 18),
    "krea2": several(1e3, (32, 48, 48)),
    "llama": one(1e4, 128),
    "llama3": rotating(128, scaled(5e5, 128, "llama3", 8, 8192, low_freq_factor=1, high_freq_factor=4)),
    "llama4": one(5e5, 128, layout="interleaved"),
    "llama4_vision": rotating(88, np.tile(powers(1e4, 44), 2), "interleaved", [1] * 22 + [0] * 22),
    "ltx": rising(2048),
    "ltx2": rising(4096),
    "lumina2": several(1e4, (32, 32, 32)),
    "lumina_next": rotating(96, np.repeat(powers(1e4, 48), 2), "interleaved", [0, 1] * 24),
    "mimo_v2_flash": one(5e6, 192, 64),
    "minimax_h3": several(1e4, (32, 32, 32), "half", head=128),
    "minimax_m2": one(5e6, 128, 64),
    "minimax_m3_vision": several(1e4, (26, 26, 26), "half", head=80),
    "ministral3": rotating(128, scaled(1e6, 128, "yarn", 16, 16384)),
    "modernbert": one(1.6e5, 64),
    "moirai": one(1e4, 64, 32, "interleaved"),
    "moonshine": one(1e4, 36, 32, "interleaved"),
    "nanochat": rotating(128, -powers(1e4, 128)),
    "nomic_bert": one(1e3, 64),
    "pe_audio": one(2e4, 128, layout="interleaved"),
    "phi": one(1e4, 64, 32),
    "pixtral": rotating(64, np.concatenate([powers(1e4, 64)[0::2], powers(1e4, 64)[1::2]]), axes=[0] * 16 + [1] * 16),
    "prx": several(1e4, (32, 32)),
    "qwen2_vl": one(1e6, 128, axes=[0] * 16 + [1] * 24 + [2] * 24),
    "qwen2_vl_vision": several(1e4, (40, 40), "half"),
    "qwen3_5": one(1e7, 256, 64, axes=thirds(32, 11, 10)),
    "qwen3_next": one(1e7, 256, 64),
    "qwen3_vl": one(5e6, 128, axes=thirds(64, 20, 20)),
    "qwen_image": several(1e4, (16, 56, 56)),
    "roformer": one(1e4, 64, layout="interleaved"),
    "sam2": rotating(256, np.tile(powers(1e4, 128), 2), "interleaved", [1] * 64 + [0] * 64),
    "stable_audio": one(1e4, 64, 32),
    "wan": several(1e4, (44, 42, 42)),
    "wav2vec2_conformer": one(1e4, 64),
    "z_image": several(256.0, (32, 48, 48)),
}  # fmt: skip
# presets that other tests cover, because they need arguments or their angles are sums over all axes
OTHERS = {"lightglue", "ltx2_split", "mochi"}


@pytest.mark.parametrize("name", FORMULAS)
def test_formula(name):
    head, dim, layout, frequencies, axes = FORMULAS[name]
    rotary = pf.presets.get(name)()
    assert (rotary.head_dim, rotary.rotary_dim, rotary._settings.layout) == (head, dim, layout)
    np.testing.assert_allclose(rotary.frequencies, frequencies, rtol=1e-12, atol=0)
    assert list(rotary._settings.axes or [0] * (dim // 2)) == axes
    assert rotary.ndim == max(axes) + 1
    assert rotary.attention_factor == pytest.approx(0.1 * np.log(32) + 1 if name == "gpt_oss" else 1.0, rel=1e-12)
    assert str(rotary.ndim) in FACTS[name].axes.split(" or ")


def test_every_preset_has_a_formula():
    assert {*FORMULAS, *OTHERS} == {name for name, facts in FACTS.items() if facts.rotary}


def test_arguments():
    for name, base in {"gemma3": 1e4, "gemma4": 1e4, "mimo_v2_flash": 1e4, "modernbert": 1e4}.items():
        rotary = pf.presets.get(name)(layer_type="sliding_attention")
        np.testing.assert_allclose(rotary.frequencies, powers(base, rotary.rotary_dim), rtol=1e-12)
    eight = pf.presets.gemma3(factor=8.0)
    np.testing.assert_allclose(eight.frequencies, powers(1e6, 256) / 8, rtol=1e-12)
    tables = [pf.presets.pixtral(**options).tables([[3, 5]]) for options in ({}, {"layout": "interleaved"})]
    np.testing.assert_array_equal(*tables)
