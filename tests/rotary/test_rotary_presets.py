"""Test positions, options, float32 frequencies and errors of rotary presets, some of them against transformers."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

from posenc_fast import presets
from posenc_fast.presets import positions
from posenc_fast.presets._registry import FACTS
from support.errors import raises, wrong_calls
from support.optional import optional
from support.rotations import assert_rotated_alike

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def torch():
    optional("transformers")
    return optional("torch")


def test_positions_of_patches(torch):
    utilities = importlib.import_module("transformers.vision_utils")
    expected = utilities.get_vision_position_ids(torch.tensor([[2, 4, 6]]), 2).numpy()
    np.testing.assert_array_equal(positions.qwen2_vl_vision(4, 6, frames=2), expected)


def test_lightglue(torch, rng):
    module = importlib.import_module("transformers.models.lightglue.modeling_lightglue")
    encoder = module.LightGluePositionalEncoder(optional("transformers").LightGlueConfig())
    where, q = rng.uniform(-1, 1, (9, 2)).astype(np.float32), rng.standard_normal((1, 4, 9, 64), np.float32)
    cos, sin = encoder(torch.from_numpy(where)[None])[0]
    expected = module.apply_rotary_pos_emb(torch.from_numpy(q), torch.from_numpy(q), cos, sin)[0].detach().numpy()
    rotary = presets.lightglue(encoder.projector.weight.detach().numpy())
    assert_rotated_alike(rotary, where.astype(np.float64), q, expected)


@pytest.mark.parametrize("name", [
    name for name, facts in sorted(FACTS.items())
    if facts.rotary and "frequencies" in inspect.signature(presets.get(name)).parameters
])  # fmt: skip
def test_float32_frequencies(name):
    """With frequencies="float32", the frequencies are float32 numbers near the exact ones, and nothing else changes."""
    exact, single = presets.get(name)(), presets.get(name)(frequencies="float32")
    assert exact != single
    np.testing.assert_array_equal(single.frequencies, single.frequencies.astype(np.float32))
    np.testing.assert_allclose(single.frequencies, exact.frequencies, rtol=5e-7)
    assert (single.ndim, single.rotary_dim, single.head_dim) == (exact.ndim, exact.rotary_dim, exact.head_dim)
    assert single._settings.axes == exact._settings.axes


@wrong_calls("""
    presets.qwen2_vl_vision(82) | ValueError | head_dim=82 must be a multiple of 4, because each of 2 axes; give 84
    presets.flux((16, 56)) | ValueError | axes_dim must be 3 even numbers, one for each axis, not (16, 56)
    presets.flux((16, 57, 55)) | ValueError | axes_dim[1]=57 must be a multiple of 2, because; pairs; give 58
    presets.qwen2_vl(64) | ValueError | mrope_section=(16, 24, 24) must be three numbers; add up to 32
    presets.gemma3(layer_type="full") | ValueError | layer_type must be 'full_attention' or; not 'full'
    presets.qwen2_vl(127) | ValueError | head_dim=127 must be a multiple of 2
    presets.llama(7) | ValueError | head_dim=7 must be a multiple of 2, because values are rotated in pairs; give 8
    presets.gpt_oss(7) | ValueError | head_dim=7 must be a multiple of 2, because values are rotated in pairs; give 8
    presets.gpt_oss(theta=0) | ValueError | theta must be a finite positive number, not 0
    presets.gpt_neox(partial_rotary_factor=3) | ValueError | partial_rotary_factor must be at most 1, not 3
    presets.ideogram4(mrope_section=(1, 2)) | ValueError | mrope_section=(1, 2) must be three numbers
    presets.cosmos3(rope_axes_dim=(24, 20)) | ValueError | rope_axes_dim=(24, 20) must be three numbers; to 64
    presets.gpt_neox(30) | ValueError | head_dim=30 has 7 values to rotate (head_dim * 0.25, rounded down)
    presets.gpt_neox(4) | ValueError | head_dim=4 has 1 values to rotate
    presets.ernie4_5_vl(mrope_section=(20, 24, 20)) | ValueError | must begin with two equal numbers
    presets.ideogram4(64) | ValueError | at most 10 pairs for each of h and w; over the 32 pairs of head_dim=64
    presets.cosmos(6) | ValueError | head_dim must be at least 12, not 6
    presets.cosmos(rope_scale=(2.0, 1.0)) | ValueError | rope_scale must be three numbers; not (2.0, 1.0)
    presets.ltx(6) | ValueError | dim=6 must have at least two pairs for each of 3 axes; give at least 12
    presets.ltx2_split(head=32) | ValueError | head=32 must be below heads=32
    presets.ltx2_split(dim=96) | ValueError | dim=96 must be a multiple of 64, so that each of heads=32
    presets.cogvideox(40) | ValueError | head_dim=40 must be a multiple of 16
    presets.mochi([[1.0]]) | ValueError | pos_frequencies has shape (1, 1), but must have shape (3, heads
    presets.lightglue([1.0]) | ValueError | weights has shape (1,), but must have shape (pairs, axes)
    presets.minimax_h3(64) | ValueError | head_dim must be at least 96, not 64
    positions.grid() | ValueError | axes is empty
    positions.grid([[1]]) | ValueError | coordinates of shape (1, 1)
    positions.mrope([(1, 2)]) | ValueError | tokens has the part (1, 2), but; a grid (frames, rows, columns)
    positions.mrope([(1, 2, 0)]) | ValueError | each size of a grid in tokens must be at least 1, not 0
    positions.mrope([(2, 1, 1)], time_step=1e30) | ValueError | time_step=1e+30 puts 2 frames beyond
    positions.mrope([(2, 1, 1)], start=2**63 - 1) | ValueError | start=9223372036854775807; put parts beyond
    positions.mrope([(2, 1, 1)] * 3, time_step=2**61) | ValueError | time_step=2305843009213693952 put parts; smaller
    positions.grid([2**63 + 5]) | ValueError | axes has the coordinate 9223372036854775813
    positions.qwen2_vl_vision(3, 4) | ValueError | rows=3 must be a multiple of merge=2
    positions.cogview4(1, 3, sizes=(256,)) | ValueError | sizes must be two integers; not (256,)
    positions.cogview4(1, 3, sizes=256) | ValueError | sizes must be two integers; not 256
""")
def test_bad_arguments(call, error, words):
    raises(call, error, words)


OF_GRIDS = (
    "flux", "flux2", "qwen_image", "dinov3", "llama4_vision", "lumina2", "z_image", "cosmos", "ltx", "ltx2", "mochi", "cogvideox",
)  # fmt: skip


@pytest.mark.parametrize("name", OF_GRIDS)
def test_a_size_is_one_integer(name):
    call = getattr(positions, name)
    sizes = {key: 2 for key, one in inspect.signature(call).parameters.items() if one.default is one.empty}
    with pytest.raises(TypeError, match=r"columns must be an integer, not \[2\]"):
        call(**sizes | {"columns": [2]})
    with pytest.raises(ValueError, match=r"columns must be at least [01], not -1"):
        call(**sizes | {"columns": -1})
