"""Test that rotary presets of language, speech and vision rotate queries like the classes of transformers."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.presets import positions
from posenc_fast.presets._registry import FACTS
from support.optional import optional
from support.rotations import assert_rotated_alike

pytestmark = pytest.mark.slow

ROTARY = sorted(name for name, facts in FACTS.items() if facts.rotary)
YARN = {"rope_type": "yarn", "original_max_position_embeddings": 4096}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


@pytest.fixture(scope="module")
def torch():
    return optional("torch")


@pytest.fixture(scope="module")
def transformers():
    return optional("transformers")


class Model:
    """A modeling module of transformers, and a config of its model."""

    def __init__(self, torch: Any, transformers: Any, model: str, config: str, **settings: Any) -> None:
        self.torch = torch
        self.module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
        configs = importlib.import_module(f"transformers.models.{model}.configuration_{model}")
        self.config = getattr(configs, config)(**settings)

    def rotated(
        self, name: str, q: np.ndarray, where: np.ndarray, layer_type: str | None = None, apply="apply_rotary_pos_emb"
    ) -> np.ndarray:
        """Return q rotated by the tables of a rotary class (name) and a function of the module (apply).

        where: positions (length,) or (length, axes).
        """
        x = self.torch.from_numpy(q)
        ids = self.torch.from_numpy(np.asarray(where))
        ids = ids[None] if ids.ndim == 1 else ids.T[:, None]
        more = () if layer_type is None else (layer_type,)
        cos, sin = getattr(self.module, name)(self.config)(x, ids, *more)
        rotate = getattr(self.module, apply)
        if "k" not in inspect.signature(rotate).parameters:
            return rotate(x, cos, sin).numpy()
        return rotate(x, x, cos, sin)[0].numpy()


# keys: presets. Values: (module, config, rotary class, settings of the config, arguments of the preset).
TEXT: dict[str, tuple[Any, ...]] = {
    "llama": ("llama", "LlamaConfig", "LlamaRotaryEmbedding", {}, {}),
    "llama3": ("llama", "LlamaConfig", "LlamaRotaryEmbedding", {"rope_parameters": LLAMA3}, {}),
    "gpt_neox": ("gpt_neox", "GPTNeoXConfig", "GPTNeoXRotaryEmbedding", {}, {}),
    "glm4": ("glm4", "Glm4Config", "Glm4RotaryEmbedding", {}, {}),
    "cohere": ("cohere", "CohereConfig", "CohereRotaryEmbedding", {}, {}),
    "helium": ("helium", "HeliumConfig", "HeliumRotaryEmbedding", {}, {}),
    "nanochat": ("nanochat", "NanoChatConfig", "NanoChatRotaryEmbedding", {}, {}),
    "gpt_oss": ("gpt_oss", "GptOssConfig", "GptOssRotaryEmbedding", {}, {}),
    "ministral3": ("ministral3", "Ministral3Config", "Ministral3RotaryEmbedding", {}, {}),
    "hunyuan": ("hunyuan_v1_dense", "HunYuanDenseV1Config", "HunYuanDenseV1RotaryEmbedding",
        {"head_dim": 128, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 1000.0, "factor": 1.0}}, {}),
    "gemma3": ("gemma3", "Gemma3TextConfig", "Gemma3RotaryEmbedding", {}, {"layer_type": "full_attention"}),
    "gemma3 sliding": ("gemma3", "Gemma3TextConfig", "Gemma3RotaryEmbedding", {}, {"layer_type": "sliding_attention"}),
    "gemma4": ("gemma4", "Gemma4TextConfig", "Gemma4TextRotaryEmbedding", {}, {"layer_type": "full_attention"}),
    "gemma4 sliding": ("gemma4", "Gemma4TextConfig", "Gemma4TextRotaryEmbedding", {}, {"layer_type": "sliding_attention"}),
    "modernbert": ("modernbert", "ModernBertConfig", "ModernBertRotaryEmbedding", {}, {"layer_type": "full_attention"}),
    "modernbert sliding": ("modernbert", "ModernBertConfig", "ModernBertRotaryEmbedding", {}, {"layer_type": "sliding_attention"}),
    "mimo_v2_flash": ("mimo_v2_flash", "MiMoV2FlashConfig", "MiMoV2FlashRotaryEmbedding", {}, {"layer_type": "full_attention"}),
    "mimo_v2_flash sliding": ("mimo_v2_flash", "MiMoV2FlashConfig", "MiMoV2FlashRotaryEmbedding", {}, {"layer_type": "sliding_attention"}),
    "minimax_m2": ("minimax_m2", "MiniMaxM2Config", "MiniMaxM2RotaryEmbedding", {"rotary_dim": 64}, {}),
    "qwen3_next": ("qwen3_next", "Qwen3NextConfig", "Qwen3NextRotaryEmbedding", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}}, {}),
    "nomic_bert": ("nomic_bert", "NomicBertConfig", "NomicBertRotaryEmbedding", {}, {}),
    "moonshine": ("moonshine", "MoonshineConfig", "MoonshineRotaryEmbedding", {}, {}),
    "pe_audio": ("pe_audio", "PeAudioEncoderConfig", "PeAudioEncoderRotaryEmbedding", {}, {}),
}  # fmt: skip
MULTIMODAL = {
    "qwen2_vl": ("qwen2_vl", "Qwen2VLTextConfig", "Qwen2VLRotaryEmbedding", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}}, {}),
    "qwen3_vl": ("qwen3_vl", "Qwen3VLTextConfig", "Qwen3VLTextRotaryEmbedding", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [24, 20, 20]}}, {}),
    "qwen3_5": ("qwen3_5", "Qwen3_5TextConfig", "Qwen3_5TextRotaryEmbedding",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10]}}, {}),
    "glm4v": ("glm4v", "Glm4vTextConfig", "Glm4vTextRotaryEmbedding", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}}, {}),
    "ernie4_5_vl": ("ernie4_5_vl_moe", "Ernie4_5_VLMoeTextConfig", "Ernie4_5_VLMoeTextRotaryEmbedding", {}, {}),
}  # fmt: skip


def compare(torch, transformers, rng, entry, where, preset):
    model, config, name, settings, options = entry
    rotary = pf.presets.get(preset.partition(" ")[0])(**options)
    q = rng.standard_normal((1, 2, len(where), rotary.head_dim), np.float32)
    made = Model(torch, transformers, model, config, **settings)
    theirs = made.rotated(name, q, where, options.get("layer_type"))
    assert_rotated_alike(rotary, where, q, theirs)


@pytest.mark.parametrize("preset", TEXT)
def test_text(preset, torch, transformers, rng):
    where = np.array([0, 1, 2, 3, 17, 100, 1000])
    compare(torch, transformers, rng, TEXT[preset], where, preset)


@pytest.mark.parametrize("preset", MULTIMODAL)
def test_multimodal(preset, torch, transformers, rng):
    where = positions.mrope([3, (2, 3, 4), 2, (1, 2, 2), 1])
    compare(torch, transformers, rng, MULTIMODAL[preset], where, preset)


def test_positions_of_images_in_text(torch, transformers):
    """`positions.mrope` returns the positions that Qwen2-VL computes."""
    module = importlib.import_module("transformers.models.qwen2_vl.modeling_qwen2_vl")
    config = transformers.Qwen2VLConfig(image_token_id=7, video_token_id=8, vision_start_token_id=6)
    ids = torch.tensor([[1, 1, 6] + [7] * 12 + [9, 9, 6] + [7] * 4 + [9]])
    model = module.Qwen2VLModel.__new__(module.Qwen2VLModel)
    torch.nn.Module.__init__(model)
    model.config = config
    grids = torch.tensor([[1, 6, 8], [1, 4, 4]])
    token_types = (ids == 7).int()
    theirs, _ = model.get_rope_index(ids, mm_token_type_ids=token_types, image_grid_thw=grids)
    ours = positions.mrope([3, (1, 3, 4), 3, (1, 2, 2), 1])
    np.testing.assert_array_equal(theirs[:, 0].T.numpy(), ours)


# ---- classes with their own functions -------------------------------------------------------------------------------


def llama4(model, x, where):
    factors = model.module.Llama4TextRotaryEmbedding(model.config)(x, model.torch.arange(9)[None])
    return model.module.apply_rotary_emb(x.transpose(1, 2), x.transpose(1, 2), factors)[0].transpose(1, 2)


def phi(model, x, where):
    # rotate only the first 32 values of a head, as the attention layer of Phi does
    part = model.torch.from_numpy(model.rotated("PhiRotaryEmbedding", x[..., :32].numpy(), where))
    return model.torch.cat([part, x[..., 32:]], -1)


def gptj(model, x, where):
    x = x.transpose(1, 2)
    sin, cos = model.torch.split(model.module.create_sinusoidal_positions(9, 64), 32, dim=-1)
    rotated = model.module.apply_rotary_pos_emb(x[..., :64], sin[None], cos[None])
    return model.torch.cat([rotated, x[..., 64:]], -1).transpose(1, 2)


def roformer(model, x, where):
    embedding = model.module.RoFormerSinusoidalPositionalEmbedding(64, 64)
    embedding.weight.data = embedding.create_weight() if hasattr(embedding, "create_weight") else embedding.weight.data
    apply = model.module.RoFormerSelfAttention.apply_rotary_position_embeddings
    return apply(embedding([1, 9])[None, None], x, x)[0]


def deepseek_v2(model, x, where):
    factors = model.module.DeepseekV2RotaryEmbedding(model.config)(x, model.torch.arange(9)[None])
    return model.module.apply_rotary_emb(x, x, factors)[0]


def deepseek_v3(model, x, where):
    apply = "apply_rotary_pos_emb_interleave"
    return model.torch.from_numpy(model.rotated("DeepseekV3RotaryEmbedding", x.numpy(), where, apply=apply))


def deepseek_v4(model, x, where):
    # the source rotates the last 64 of the 512 values of a head, so build heads of 512 from x
    whole = model.torch.cat([x] * 8, -1)
    cos, sin = model.module.DeepseekV4RotaryEmbedding(model.config)(whole, model.torch.arange(9)[None], "compress")
    rotated = model.module.apply_rotary_pos_emb(whole, cos, sin)
    np.testing.assert_array_equal(rotated[..., :448], whole[..., :448])
    return rotated[..., 448:]


def wav2vec2_conformer(model, x, where):
    hidden = x.transpose(1, 2).reshape(1, 9, 128)
    tables = model.module.Wav2Vec2ConformerRotaryPositionalEmbedding(model.config)(hidden)
    attention = model.module.Wav2Vec2ConformerSelfAttention(model.config)
    return attention._apply_rotary_embedding(hidden, tables).reshape(1, 9, 2, 64).transpose(1, 2)


def vision(name):
    """Return a function that rotates x by a class (name) of a vision tower, whose queries have tokens before heads."""

    def rotate(model, x, where):
        x = x[0].transpose(0, 1)
        cos, sin = getattr(model.module, name)(model.config)(x, model.torch.from_numpy(where))
        return model.module.apply_rotary_pos_emb_vision(x, x, cos, sin)[0].transpose(0, 1)[None]

    return rotate


def sam2(model, x, where):
    # our positions are (row, column), but the class expects (column, row)
    ids = model.torch.from_numpy(np.ascontiguousarray(where[:, ::-1]))
    cos, sin = model.module.Sam2VideoVisionRotaryEmbedding(model.config)(x, ids)
    return model.module.apply_rotary_pos_emb_2d(x, x, cos[None], sin[None])[0]


def pixtral(model, x, where):
    cos, sin = model.module.PixtralVisionRotaryEmbedding(model.config)(x, model.torch.from_numpy(where))
    return model.module.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=0)[0]


def dinov3(model, x, where):
    cos, sin = model.module.DINOv3ViTRopePositionEmbedding(model.config).eval()(model.torch.zeros(1, 3, 32, 64))
    return model.module.apply_rotary_pos_emb(x, x, cos, sin)[0]


def llama4_vision(model, x, where):
    x = x.transpose(1, 2)
    factors = model.module.Llama4VisionRotaryEmbedding(model.config)(x)
    return model.module.vision_apply_rotary_emb(x, x, factors)[0].transpose(1, 2)


def efficient_loftr(model, x, where):
    side = model.config.q_aggregation_kernel_size
    image = model.torch.zeros(1, 256, 3 * side, 4 * side)
    cos, sin = (table.reshape(1, 12, 256) for table in model.module.EfficientLoFTRRotaryEmbedding(model.config)(image))
    return model.module.apply_rotary_pos_emb(x, x, cos, sin)[0]


DEEPSEEK = {**YARN, "rope_theta": 1e4, "factor": 40.0, "beta_fast": 32, "beta_slow": 1}
V2, V3 = ({"rope_parameters": {**DEEPSEEK, "mscale": m, "mscale_all_dim": m}} for m in (0.707, 1.0))
MAIN = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.125}
COMPRESS = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 65536, "attention_factor": 1.0}
V4 = {"rope_parameters": {"main": MAIN, "compress": {**MAIN, **COMPRESS, "rope_theta": 1.6e5}}}
CONFORMER = {"hidden_size": 128, "num_attention_heads": 2, "position_embeddings_type": "rotary"}
TILES = {"hidden_size": 176, "num_attention_heads": 2, "image_size": 42, "patch_size": 14}
NINE, CELLS, PATCHES = np.arange(9), positions.grid(4, 6), positions.qwen2_vl_vision(4, 6)
# keys: presets. Values: (Rotary, number of heads, positions, function that rotates, module, config, settings).
PROGRAMS = {
    "llama4": (pf.presets.llama4(), 2, NINE, llama4, "llama4", "Llama4TextConfig", {}),
    "phi": (pf.presets.phi(), 2, NINE, phi, "phi", "PhiConfig", {}),
    "gptj": (pf.presets.gptj(), 2, NINE, gptj, "gptj", "GPTJConfig", {}),
    "roformer": (pf.presets.roformer(), 2, NINE, roformer, "roformer", "RoFormerConfig", {}),
    "deepseek_v2": (pf.presets.deepseek_v2(), 2, NINE, deepseek_v2, "deepseek_v2", "DeepseekV2Config", V2),
    "deepseek_v3": (pf.presets.deepseek_v3(), 2, np.array([0, 1, 2, 3, 17, 100, 1000, 2000, 3000]), deepseek_v3, "deepseek_v3", "DeepseekV3Config", V3),
    "deepseek_v4": (pf.presets.deepseek_v4(), 2, NINE, deepseek_v4, "deepseek_v4", "DeepseekV4Config", V4),
    "wav2vec2_conformer": (pf.presets.wav2vec2_conformer(), 2, NINE, wav2vec2_conformer, "wav2vec2_conformer", "Wav2Vec2ConformerConfig", CONFORMER),
    "qwen2_vl_vision": (pf.presets.qwen2_vl_vision(), 2, positions.qwen2_vl_vision(4, 6, frames=2), vision("Qwen2VLVisionRotaryEmbedding"), "qwen2_vl", "Qwen2VLVisionConfig", {}),
    "kimi_vision": (pf.presets.kimi_vision(), 2, PATCHES, vision("Kimi_K25VisionRotaryEmbedding"), "kimi_k25", "Kimi_K25VisionConfig", {}),
    "inkling_vision": (pf.presets.inkling_vision(), 2, 1 + CELLS, vision("Inkling2VisionRotaryEmbedding"), "inkling2", "Inkling2VisionConfig", {}),
    "minimax_m3_vision": (pf.presets.minimax_m3_vision(), 2, positions.grid(2, 4, 6), vision("MiniMaxM3VLVisionRotaryEmbedding"), "minimax_m3_vl", "MiniMaxM3VLVisionConfig", {}),
    "sam2": (pf.presets.sam2(), 1, CELLS, sam2, "sam2_video", "Sam2VideoConfig", {}),
    "pixtral": (pf.presets.pixtral(), 2, CELLS, pixtral, "pixtral", "PixtralVisionConfig", {}),
    "dinov3": (pf.presets.dinov3(), 2, positions.dinov3(2, 4), dinov3, "dinov3_vit", "DINOv3ViTConfig", {"image_size": 64, "patch_size": 16}),
    "llama4_vision": (pf.presets.llama4_vision(), 2, positions.llama4_vision(3, 3), llama4_vision, "llama4", "Llama4VisionConfig", TILES),
    "efficient_loftr": (pf.presets.efficient_loftr(), 1, 1 + positions.grid(3, 4), efficient_loftr, "efficientloftr", "EfficientLoFTRConfig", {}),
}  # fmt: skip


@pytest.mark.parametrize("preset", PROGRAMS)
def test_program(preset, torch, transformers, rng):
    rotary, heads, where, program, model, config, settings = PROGRAMS[preset]
    q = rng.standard_normal((1, heads, len(where), rotary.head_dim), np.float32)
    rotated = program(Model(torch, transformers, model, config, **settings), torch.from_numpy(q), where)
    assert_rotated_alike(rotary, where, q, rotated.detach().numpy())


def test_positions_of_patches(torch, transformers):
    utilities = importlib.import_module("transformers.vision_utils")
    expected = utilities.get_vision_position_ids(torch.tensor([[2, 4, 6]]), 2).numpy()
    np.testing.assert_array_equal(positions.qwen2_vl_vision(4, 6, frames=2), expected)


def test_layout_of_pixtral_leaves_the_angles():
    np.testing.assert_array_equal(
        pf.presets.pixtral(layout="interleaved").tables(CELLS), pf.presets.pixtral().tables(CELLS)
    )


def test_lightglue(torch, transformers, rng):
    model = Model(torch, transformers, "lightglue", "LightGlueConfig")
    encoder = model.module.LightGluePositionalEncoder(model.config)
    where = rng.uniform(-1, 1, (9, 2)).astype(np.float32)
    q = rng.standard_normal((1, 4, 9, 64), np.float32)
    x = torch.from_numpy(q)
    cos, sin = encoder(torch.from_numpy(where)[None])[0]
    expected = model.module.apply_rotary_pos_emb(x, x, cos, sin)[0].detach().numpy()
    rotary = pf.presets.lightglue(encoder.projector.weight.detach().numpy())
    assert_rotated_alike(rotary, where.astype(np.float64), q, expected)


# ---- all presets ----------------------------------------------------------------------------------------------------


def test_every_preset_is_compared_with_its_source():
    texts = Path(__file__).read_text(encoding="utf-8")
    for other in ("test_rotary_diffusers.py", "test_rotary_programs.py"):
        texts += (Path(__file__).parent / other).read_text(encoding="utf-8")
    compared = {*re.findall(r"\bpresets\.(\w+)\(", texts), *TEXT, *MULTIMODAL}
    assert sorted(set(ROTARY) - compared) == []
    assert len(ROTARY) >= 40


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
    number_type = getattr(torch, dtype)
    for model, config, name, preset, where in (
        ("llama", "LlamaConfig", "LlamaRotaryEmbedding", "llama", np.arange(16)),
        ("gpt_oss", "GptOssConfig", "GptOssRotaryEmbedding", "gpt_oss", np.arange(16)),
        (*MULTIMODAL["qwen2_vl"][:3], "qwen2_vl", positions.mrope([4, (1, 3, 4)])),
    ):
        settings = MULTIMODAL["qwen2_vl"][3] if preset == "qwen2_vl" else {}
        made = Model(torch, transformers, model, config, **settings)
        ids = torch.from_numpy(where)
        ids = ids[None] if ids.ndim == 1 else ids.T[:, None]
        tables = getattr(made.module, name)(made.config)(torch.zeros(1, dtype=number_type), ids)
        cos, sin = (table.float().numpy() for table in tables)
        if dtype == "bfloat16":
            cos, sin = (table.astype(pytest.importorskip("ml_dtypes").bfloat16) for table in (cos, sin))
        found = pf.identify_rotary(cos=cos, sin=sin, positions=where)
        assert preset in found.presets
        assert found.layout == (None if preset == "gpt_oss" else "half")


def test_float32_frequencies_are_those_of_the_source(torch, transformers):
    model = Model(torch, transformers, "llama", "LlamaConfig")
    theirs = model.module.LlamaRotaryEmbedding(model.config).inv_freq.numpy()
    ours = pf.presets.llama(frequencies="float32").frequencies
    # a few frequencies differ in the last place, because torch does not round all powers correctly
    assert (ours == theirs).mean() > 0.9
    np.testing.assert_allclose(ours, theirs, rtol=1.3e-7)


@pytest.mark.usefixtures("backend")
def test_far_positions_in_float32(torch, transformers, rng):
    """At far positions, precision="float32" gives the inexact angles of transformers."""
    model = Model(torch, transformers, "llama", "LlamaConfig", hidden_size=256, num_attention_heads=4)
    q, rotary = rng.normal(size=(1, 4, 6, 64)).astype(np.float32), pf.Rotary(64)
    x, embedding = torch.from_numpy(q), model.module.LlamaRotaryEmbedding(model.config)
    frequencies = embedding.inv_freq.numpy()
    cos, sin = embedding(x, torch.arange(10**6, 10**6 + 6)[None])
    expected = model.module.apply_rotary_pos_emb(x, x, cos, sin)[0].numpy()
    angles = (np.float32(10**6 + np.arange(6))[:, np.newaxis] * frequencies).astype(np.float64)
    np.testing.assert_allclose(rotary.apply_tables(q, np.cos(angles), np.sin(angles)), expected, atol=2e-6)
    # compare only pairs of equal frequencies, because at position one million, a difference in the last place changes
    # the angle
    same = rotary.frequencies.astype(np.float32) == frequencies
    assert same.sum() > 8
    table = rotary.tables(6, start=10**6, precision="float32")[0]
    np.testing.assert_allclose(table[:, same], cos[0, :, :32].numpy()[:, same], rtol=0, atol=1e-6)


# keys: functions that return positions of grids. Values: their size arguments, except `columns`.
SIZED = {
    positions.flux: {"rows": 2},
    positions.flux2: {"rows": 2},
    positions.qwen_image: {"rows": 2},
    positions.dinov3: {"rows": 2},
    positions.llama4_vision: {"rows": 2},
    positions.lumina2: {"rows": 2, "text": 3},
    positions.z_image: {"rows": 2, "text": 3},
    positions.cosmos: {"frames": 2, "rows": 2},
    positions.ltx: {"frames": 2, "rows": 2},
    positions.ltx2: {"frames": 2, "rows": 2},
    positions.mochi: {"frames": 2, "rows": 2},
    positions.cogvideox: {"frames": 2, "rows": 2},
}


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


@pytest.mark.parametrize("call", SIZED, ids=lambda call: call.__name__)
def test_a_size_is_one_integer(call):
    with pytest.raises(TypeError, match=r"columns must be an integer, not \[2\]"):
        call(**SIZED[call], columns=[2])
    with pytest.raises(ValueError, match=r"columns must be at least [01], not -1"):
        call(**SIZED[call], columns=-1)
