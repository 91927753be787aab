"""Compare the frequencies, axes, layouts and widths of rotary presets with independent formulas."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.presets._registry import FACTS

PI = np.pi
LLAMA3 = {
    "rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


def powers(base, dim, count=None):
    return base ** (-2 * np.arange(dim // 2 if count is None else count) / dim)


def one(base, head, dim=None, layout="half", sign=1):
    """Return the expected (head_dim, rotary_dim, layout, frequencies, axes) of a preset with one axis."""
    dim = dim or head
    return head, dim, layout, sign * powers(base, dim), [0] * (dim // 2)


def several(base, dims, layout="interleaved", head=None, factor=1.0):
    """Return the expected values, as `one` does, for consecutive blocks of pairs, one block for each axis."""
    parts = [factor * powers(base, dim) for dim in dims]
    axes = np.repeat(np.arange(len(dims)), [dim // 2 for dim in dims]).tolist()
    return head or sum(dims), sum(dims), layout, np.concatenate(parts), axes


def shared(base, head, axes, dim=None, layout="half"):
    """Return the expected values, as `one` does, for frequencies of one base. axes: the axis of each pair."""
    return head, dim or head, layout, powers(base, dim or head), axes


def thirds(pairs, h, w):
    return [1 if i % 3 == 1 and i < 3 * h else 2 if i % 3 == 2 and i < 3 * w else 0 for i in range(pairs)]


def scaled(base, dim, scaling):
    """Return frequencies that test_rotary_exact.py compares with the formula of the scaling."""
    return pf.Rotary(dim, base=base, scaling=scaling).frequencies


def yarn(base, dim, factor, original, truncate=True):
    parameters = {"factor": factor, "original_max_position_embeddings": original, "truncate": truncate}
    return scaled(base, dim, {"rope_type": "yarn", **parameters})


def with_frequencies(head, frequencies, layout="half", axes=None):
    return head, 2 * len(frequencies), layout, frequencies, axes or [0] * len(frequencies)


def rising(dim, axes):
    count = dim // (2 * axes)
    rest = dim // 2 - count * axes
    values = PI / 2 * 10000.0 ** (np.arange(count) / (count - 1))
    return np.concatenate([np.zeros(rest), np.repeat(values, axes)]), [0] * rest + list(range(axes)) * count


def cosmos_bases():
    return [1e4 * scale ** (dim / (dim - 2)) for scale, dim in ((2, 44), (1, 42), (1, 42))]


# keys: presets. Values: (head_dim, rotary_dim, layout, frequencies, axes).
FORMULAS = {
    "cogvideox": several(1e4, (16, 24, 24)),
    "cogview4": several(1e4, (64, 64), "half"),
    "cohere": one(5e5, 128, layout="interleaved"),
    "cosmos": with_frequencies(128, np.concatenate([powers(base, dim) for base, dim in zip(cosmos_bases(), (44, 42, 42), strict=True)]), axes=[0] * 22 + [1] * 21 + [2] * 21),
    "cosmos3": shared(5e6, 128, thirds(64, 20, 20)),
    "deepseek_v2": with_frequencies(64, yarn(1e4, 64, 40, 4096), "interleaved"),
    "deepseek_v3": with_frequencies(64, yarn(1e4, 64, 40, 4096), "interleaved_to_half"),
    "deepseek_v4": with_frequencies(64, yarn(1.6e5, 64, 16, 65536), "interleaved"),
    "dinov3": several(100.0, (32, 32), "half", factor=2 * PI),
    "efficient_loftr": with_frequencies(256, np.repeat(powers(1e4, 128), 2), "interleaved", [0, 1] * 64),
    "ernie4_5_vl": shared(5e5, 128, [1, 2] * 22 + [0] * 20, layout="interleaved"),
    "flux": several(1e4, (16, 56, 56)),
    "flux2": several(2e3, (32, 32, 32, 32)),
    "gemma3": one(1e6, 256),
    "gemma4": with_frequencies(512, powers(1e6, 512) * (np.arange(256) < 64)),
    "glm4": one(1e4, 128, 64, "interleaved"),
    "glm4v": shared(1e4, 128, [0] * 8 + [1] * 12 + [2] * 12, 64, "interleaved"),
    "gpt_neox": one(1e4, 96, 24),
    "gpt_oss": with_frequencies(64, yarn(1.5e5, 64, 32, 4096, truncate=False)),
    "gptj": one(1e4, 256, 64, "interleaved"),
    "helium": one(1e5, 128, layout="interleaved"),
    "hidream": several(1e4, (64, 32, 32)),
    "hunyuan": one(1e4 * 1000 ** (128 / 126), 128),
    "hunyuan_dit": with_frequencies(88, np.tile(powers(1e4, 44), 2), "interleaved", [1] * 22 + [0] * 22),
    "hunyuan_image": several(256.0, (64, 64)),
    "hunyuan_video": several(256.0, (16, 56, 56)),
    "ideogram4": shared(5e6, 256, thirds(128, 20, 20)),
    "inkling_vision": with_frequencies(64, np.tile(powers(1e4, 32), 2), "interleaved", [1] * 16 + [0] * 16),
    "kandinsky5": several(1e4, (16, 24, 24)),
    "kimi_vision": with_frequencies(72, np.repeat(powers(1e4, 36), 2), axes=[1, 0] * 18),
    "krea2": several(1e3, (32, 48, 48)),
    "llama": one(1e4, 128),
    "llama3": with_frequencies(128, scaled(5e5, 128, LLAMA3)),
    "llama4": one(5e5, 128, layout="interleaved"),
    "llama4_vision": with_frequencies(88, np.tile(powers(1e4, 44), 2), "interleaved", [1] * 22 + [0] * 22),
    "ltx": with_frequencies(2048, rising(2048, 3)[0], "interleaved", rising(2048, 3)[1]),
    "ltx2": with_frequencies(4096, rising(4096, 3)[0], "interleaved", rising(4096, 3)[1]),
    "lumina2": several(1e4, (32, 32, 32)),
    "lumina_next": with_frequencies(96, np.repeat(powers(1e4, 48), 2), "interleaved", [0, 1] * 24),
    "mimo_v2_flash": one(5e6, 192, 64),
    "minimax_h3": several(1e4, (32, 32, 32), "half", head=128),
    "minimax_m2": one(5e6, 128, 64),
    "minimax_m3_vision": several(1e4, (26, 26, 26), "half", head=80),
    "ministral3": with_frequencies(128, yarn(1e6, 128, 16, 16384)),
    "modernbert": one(1.6e5, 64),
    "moirai": one(1e4, 64, 32, "interleaved"),
    "moonshine": one(1e4, 36, 32, "interleaved"),
    "nanochat": one(1e4, 128, sign=-1),
    "nomic_bert": one(1e3, 64),
    "pe_audio": one(2e4, 128, layout="interleaved"),
    "phi": one(1e4, 64, 32),
    "pixtral": with_frequencies(64, np.concatenate([powers(1e4, 64)[0::2], powers(1e4, 64)[1::2]]), axes=[0] * 16 + [1] * 16),
    "prx": several(1e4, (32, 32)),
    "qwen2_vl": shared(1e6, 128, [0] * 16 + [1] * 24 + [2] * 24),
    "qwen2_vl_vision": several(1e4, (40, 40), "half"),
    "qwen3_5": shared(1e7, 256, thirds(32, 11, 10), 64),
    "qwen3_next": one(1e7, 256, 64),
    "qwen3_vl": shared(5e6, 128, thirds(64, 20, 20)),
    "qwen_image": several(1e4, (16, 56, 56)),
    "roformer": one(1e4, 64, layout="interleaved"),
    "sam2": with_frequencies(256, np.tile(powers(1e4, 128), 2), "interleaved", [1] * 64 + [0] * 64),
    "stable_audio": one(1e4, 64, 32),
    "wan": several(1e4, (44, 42, 42)),
    "wav2vec2_conformer": one(1e4, 64),
    "z_image": several(256.0, (32, 48, 48)),
}  # fmt: skip
FACTORS = {"gpt_oss": 0.1 * np.log(32) + 1}
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
    assert rotary.attention_factor == pytest.approx(FACTORS.get(name, 1.0), rel=1e-12)
    assert str(rotary.ndim) in FACTS[name].axes.split(" or ")


def test_every_preset_has_a_formula():
    assert {*FORMULAS, *OTHERS} == {name for name, facts in FACTS.items() if facts.rotary}


def test_kinds_of_layers():
    sliding = {"gemma3": 1e4, "gemma4": 1e4, "mimo_v2_flash": 1e4, "modernbert": 1e4}
    for name, base in sliding.items():
        rotary = pf.presets.get(name)(layer_type="sliding_attention")
        np.testing.assert_allclose(rotary.frequencies, powers(base, rotary.rotary_dim), rtol=1e-12)
    eight = pf.presets.gemma3(factor=8.0)
    np.testing.assert_allclose(eight.frequencies, powers(1e6, 256) / 8, rtol=1e-12)


def test_learned_frequencies(rng):
    """`lightglue` keeps learned frequencies (pairs, axes). `mochi` reorders (axes, heads, pairs) by head and pair."""
    weights = rng.normal(size=(5, 2))
    np.testing.assert_array_equal(pf.presets.lightglue(weights).frequencies, weights)
    given = rng.normal(size=(3, 4, 6))
    rotary = pf.presets.mochi(given)
    assert (rotary.head_dim, rotary.ndim) == (48, 3)
    np.testing.assert_array_equal(rotary.frequencies.reshape(4, 6, 3), given.transpose(1, 2, 0))


def test_heads_of_split_pairs():
    whole = pf.presets.ltx2(256)
    dense = np.zeros((128, 3))
    dense[np.arange(128), whole._settings.axes] = whole.frequencies
    heads = [pf.presets.ltx2_split(256, head=head, heads=4) for head in range(4)]
    np.testing.assert_array_equal(np.concatenate([head.frequencies for head in heads]), dense)
    assert {head._settings.layout for head in heads} == {"half"}
