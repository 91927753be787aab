"""Test positions, options, float32 frequencies and errors of rotary presets, some of them against transformers."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.presets import positions
from posenc_fast.presets._registry import FACTS
from support.optional import optional
from support.rotations import assert_rotated_alike

pytestmark = pytest.mark.slow

ROTARY = sorted(name for name, facts in FACTS.items() if facts.rotary)


@pytest.fixture(scope="module")
def torch():
    return optional("torch")


@pytest.fixture(scope="module")
def transformers():
    return optional("transformers")


@pytest.fixture(scope="module")
def llama(transformers):
    return importlib.import_module("transformers.models.llama.modeling_llama")


def test_positions_of_patches(torch, transformers):
    utilities = importlib.import_module("transformers.vision_utils")
    expected = utilities.get_vision_position_ids(torch.tensor([[2, 4, 6]]), 2).numpy()
    np.testing.assert_array_equal(positions.qwen2_vl_vision(4, 6, frames=2), expected)


def test_layout_of_pixtral_leaves_the_angles():
    cells = positions.grid(4, 6)
    np.testing.assert_array_equal(
        pf.presets.pixtral(layout="interleaved").tables(cells), pf.presets.pixtral().tables(cells)
    )


def test_lightglue(torch, transformers, rng):
    module = importlib.import_module("transformers.models.lightglue.modeling_lightglue")
    encoder = module.LightGluePositionalEncoder(transformers.LightGlueConfig())
    where = rng.uniform(-1, 1, (9, 2)).astype(np.float32)
    q = rng.standard_normal((1, 4, 9, 64), np.float32)
    x = torch.from_numpy(q)
    cos, sin = encoder(torch.from_numpy(where)[None])[0]
    expected = module.apply_rotary_pos_emb(x, x, cos, sin)[0].detach().numpy()
    rotary = pf.presets.lightglue(encoder.projector.weight.detach().numpy())
    assert_rotated_alike(rotary, where.astype(np.float64), q, expected)


@pytest.mark.parametrize(
    "name", [name for name in ROTARY if "frequencies" in inspect.signature(pf.presets.get(name)).parameters]
)
def test_float32_frequencies(name):
    """With frequencies="float32", the frequencies are float32 numbers near the exact ones, and nothing else changes."""
    exact, single = pf.presets.get(name)(), pf.presets.get(name)(frequencies="float32")
    assert exact != single
    np.testing.assert_array_equal(single.frequencies, single.frequencies.astype(np.float32))
    np.testing.assert_allclose(single.frequencies, exact.frequencies, rtol=5e-7)
    assert (single.ndim, single.rotary_dim, single.head_dim) == (exact.ndim, exact.rotary_dim, exact.head_dim)
    assert single._settings.axes == exact._settings.axes


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tables_of_the_source_are_identified(dtype, torch, transformers):
    """`identify_rotary` identifies the tables that rotary classes of transformers return, also in bfloat16."""
    mrope = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}}
    for preset, config, name, where in (
        ("llama", transformers.LlamaConfig(), "llama.modeling_llama.LlamaRotaryEmbedding", np.arange(16)),
        ("gpt_oss", transformers.GptOssConfig(), "gpt_oss.modeling_gpt_oss.GptOssRotaryEmbedding", np.arange(16)),
        ("qwen2_vl", transformers.Qwen2VLTextConfig(**mrope), "qwen2_vl.modeling_qwen2_vl.Qwen2VLRotaryEmbedding", positions.mrope([4, (1, 3, 4)])),
    ):  # fmt: skip
        module, _, cls = name.rpartition(".")
        embedding = getattr(importlib.import_module(f"transformers.models.{module}"), cls)(config)
        ids = torch.from_numpy(where)
        ids = ids[None] if ids.ndim == 1 else ids.T[:, None]
        cos, sin = (table.float().numpy() for table in embedding(torch.zeros(1, dtype=getattr(torch, dtype)), ids))
        if dtype == "bfloat16":
            cos, sin = (table.astype(pytest.importorskip("ml_dtypes").bfloat16) for table in (cos, sin))
        found = pf.identify_rotary(cos=cos, sin=sin, positions=where)
        assert preset in found.presets
        assert found.layout == (None if preset == "gpt_oss" else "half")


def test_float32_frequencies_are_those_of_the_source(torch, transformers, llama):
    theirs = llama.LlamaRotaryEmbedding(transformers.LlamaConfig()).inv_freq.numpy()
    ours = pf.presets.llama(frequencies="float32").frequencies
    # a few frequencies differ in the last place, because torch does not round all powers correctly
    assert (ours == theirs).mean() > 0.9
    np.testing.assert_allclose(ours, theirs, rtol=1.3e-7)


@pytest.mark.usefixtures("backend")
def test_far_positions_in_float32(torch, transformers, llama, rng):
    """At far positions, precision="float32" gives the inexact angles of transformers."""
    config = transformers.LlamaConfig(hidden_size=256, num_attention_heads=4)
    q, rotary = rng.normal(size=(1, 4, 6, 64)).astype(np.float32), pf.Rotary(64)
    x, embedding = torch.from_numpy(q), llama.LlamaRotaryEmbedding(config)
    frequencies = embedding.inv_freq.numpy()
    cos, sin = embedding(x, torch.arange(10**6, 10**6 + 6)[None])
    expected = llama.apply_rotary_pos_emb(x, x, cos, sin)[0].numpy()
    angles = (np.float32(10**6 + np.arange(6))[:, np.newaxis] * frequencies).astype(np.float64)
    np.testing.assert_allclose(rotary.apply_tables(q, np.cos(angles), np.sin(angles)), expected, atol=2e-6)
    # compare only pairs of equal frequencies, because at position one million, a difference in the last place changes
    # the angle
    same = rotary.frequencies.astype(np.float32) == frequencies
    assert same.sum() > 8
    table = rotary.tables(6, start=10**6, precision="float32")[0]
    np.testing.assert_allclose(table[:, same], cos[0, :, :32].numpy()[:, same], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: pf.presets.qwen2_vl_vision(82), "head_dim=82 must be a multiple of 4, because each of 2 axes .*; give 84"),
    (lambda: pf.presets.flux((16, 56)), r"axes_dim must be 3 even numbers, one for each axis, not \(16, 56\)"),
    (lambda: pf.presets.flux((16, 57, 55)), r"axes_dim\[1\]=57 must be a multiple of 2, .* pairs; give 58"),
    (lambda: pf.presets.qwen2_vl(64), r"mrope_section=\(16, 24, 24\) must be three numbers .* add up to 32"),
    (lambda: pf.presets.gemma3(layer_type="full"), "layer_type must be 'full_attention' or .*, not 'full'"),
    (lambda: pf.presets.qwen2_vl(127), "head_dim=127 must be a multiple of 2"),
    (lambda: pf.presets.llama(7), "head_dim=7 must be a multiple of 2, because values are rotated in pairs; give 8"),
    (lambda: pf.presets.gpt_oss(7), "head_dim=7 must be a multiple of 2, because values are rotated in pairs; give 8"),
    (lambda: pf.presets.gpt_oss(theta=0), "theta must be a finite positive number, not 0"),
    (lambda: pf.presets.gpt_neox(partial_rotary_factor=3), "partial_rotary_factor must be at most 1, not 3"),
    (lambda: pf.presets.ideogram4(mrope_section=(1, 2)), r"mrope_section=\(1, 2\) must be three numbers"),
    (lambda: pf.presets.cosmos3(rope_axes_dim=(24, 20)), r"rope_axes_dim=\(24, 20\) must be three numbers .* to 64"),
    (lambda: pf.presets.gpt_neox(30), r"head_dim=30 has 7 values to rotate \(head_dim \* 0.25, rounded down\)"),
    (lambda: pf.presets.gpt_neox(4), "head_dim=4 has 1 values to rotate"),
    (lambda: pf.presets.ernie4_5_vl(mrope_section=(20, 24, 20)), "must begin with two equal numbers"),
    (lambda: pf.presets.ideogram4(64), "at most 10 pairs for each of h and w .* over the 32 pairs of head_dim=64"),
    (lambda: pf.presets.cosmos(6), "head_dim must be at least 12, not 6"),
    (lambda: pf.presets.cosmos(rope_scale=(2.0, 1.0)), r"rope_scale must be three numbers, .* not \(2.0, 1.0\)"),
    (lambda: pf.presets.ltx(6), "dim=6 must have at least two pairs for each of 3 axes; give at least 12"),
    (lambda: pf.presets.ltx2_split(head=32), "head=32 must be below heads=32"),
    (lambda: pf.presets.ltx2_split(dim=96), "dim=96 must be a multiple of 64, so that each of heads=32"),
    (lambda: pf.presets.cogvideox(40), "head_dim=40 must be a multiple of 16"),
    (lambda: pf.presets.mochi([[1.0]]), r"pos_frequencies has shape \(1, 1\), but must have shape \(3, heads"),
    (lambda: pf.presets.lightglue([1.0]), r"weights has shape \(1,\), but must have shape \(pairs, axes\)"),
    (lambda: pf.presets.minimax_h3(64), "head_dim must be at least 96, not 64"),
    (lambda: positions.grid(), "axes is empty"),
    (lambda: positions.grid([[1]]), r"coordinates of shape \(1, 1\)"),
    (lambda: positions.mrope([(1, 2)]), r"tokens has the part \(1, 2\), but .* a grid \(frames, rows, columns\)"),
    (lambda: positions.mrope([(1, 2, 0)]), "each size of a grid in tokens must be at least 1, not 0"),
    (lambda: positions.mrope([(2, 1, 1)], time_step=1e30), r"time_step=1e\+30 puts 2 frames beyond"),
    (lambda: positions.mrope([(2, 1, 1)], start=2**63 - 1), "start=9223372036854775807 .* put parts beyond"),
    (lambda: positions.mrope([(2, 1, 1)] * 3, time_step=2**61), r"time_step=2305843009213693952 put parts .* smaller"),
    (lambda: positions.grid([2**63 + 5]), "axes has the coordinate 9223372036854775813"),
    (lambda: positions.qwen2_vl_vision(3, 4), "rows=3 must be a multiple of merge=2"),
    (lambda: positions.cogview4(1, 3, sizes=(256,)), r"sizes must be two integers, .* not \(256,\)"),
    (lambda: positions.cogview4(1, 3, sizes=256), "sizes must be two integers, .* not 256"),
])  # fmt: skip
def test_bad_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call()


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
