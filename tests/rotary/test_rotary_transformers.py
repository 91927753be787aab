"""Compare every rotary class of transformers with `Rotary.from_config` of its config, and with the preset of its model.

Both must have the same frequencies and rotate in the same way. Otherwise from_config must raise an error, and REFUSED
must contain the reason, or NEEDED what the config lacks.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import json
import math
import re
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._models.config import spelling, table
from posenc_fast.presets import positions as places
from posenc_fast.presets._registry import FACTS
from support.optional import optional
from support.rotations import assert_rotated_alike

pytestmark = pytest.mark.slow

# model types that transformers 5.24 added; empty if the installed version has them
NEWER = {"apertus1p5_text", "dory", "exaone", "hy_v4_vl_text", "lara_mini", "sarvam_mla", "sarvam_moe"}
_spec = find_spec("transformers")
if _spec is not None and (Path(_spec.origin).parent / "models" / "dory").is_dir():
    NEWER = set()
# keys: model types whose default config cannot be expressed by a Rotary. Values: reasons.
REFUSED = {
    "gemma4_vision": "each half of a head rotates separately",
    "hunyuan_vl_text": "the values of a pair read different axes",
    "mistral_large4_text": "frequencies are multiplied by weights",
    "mlcd_vision_model": "the class token rotates by weights",
    "musicflamingo": "angles are products of two coordinates; the config is read as that of its text",
    "vjepa2": "the values of a pair have different angles",
    "lightglue": "frequencies are weights",
    "glm4_moe": "a factor of 0.5 of 42 values is an odd number",
    "glm4v_moe_text": "a factor of 0.5 of 42 values is an odd number",
    "qwen3_omni_moe_text": "heads of 73 values, an odd number",
    "minimax_m3_vl_text": "rotary_dim=64 is not read by the class, which rotates 128 values",
}
# keys: model types. Values: keys and values that the default config needs for a valid RoPE, or for all kinds of layers.
NEEDED = {
    "granitemoehybrid": {"position_embedding_type": "rope"},
    "zamba2": {"use_mem_rope": True},
    "esm": {"position_embedding_type": "rotary"},
    "wav2vec2-bert": {"position_embeddings_type": "rotary"},
    "wav2vec2-conformer": {"position_embeddings_type": "rotary"},
    "seamless_m4t": {"position_embeddings_type": "rotary"},
    "glm4v_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "glm_image_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    "cohere_compass_text": {"layer_types": ["sliding_attention", "full_attention"] * 20, "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 5e4}, "full_attention": None}},
    "glm4_moe": {"head_dim": 128},
    "glm4v_moe_text": {"head_dim": 128},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "minimax_m3_vl_text": {"rotary_dim": 64, "partial_rotary_factor": 0.5},
    "laguna": {"layer_types": ["sliding_attention", "full_attention"] * 20},
    "mellum": {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "step3p5": {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "rope_theta": [1e4, 5e6] * 2, "partial_rotary_factors": [1.0, 0.5] * 2},
    "zaya": {"num_hidden_layers": 4, "sliding_window": 8, "layer_types": ["hybrid_sliding", "hybrid"] * 2},
}  # fmt: skip
# model types of NEEDED whose default config raises no error
ACCEPTED = {"laguna", "mellum", "step3p5", "zaya"}
# keys: config classes without a model_type. Values: the model types of this package for them.
UNNAMED = {
    "Qwen3OmniMoeCode2WavConfig": "qwen3_omni_moe_code2wav", "SaProtConfig": "evolla_protein_encoder",
    "EsmFold2AtomEncoderConfig": "esmfold2_atom_encoder",
}  # fmt: skip
# keys: model types. Values: modules and rotary classes, where `rotary_class` does not find them.
CLASS_OF = {
    "deepseek_ocr2_encoder": "deepseek_ocr2.DeepseekOcr2VisionRotaryEmbedding",
    "evolla_protein_encoder": "evolla.EvollaSaProtRotaryEmbedding",
    **dict.fromkeys(["internlm3", "iquestcoder", "exaone"], "llama.LlamaRotaryEmbedding"),
    "qwen2_5_omni_talker": "qwen2_5_omni.Qwen2_5OmniRotaryEmbedding",
    "qwen2_5_omni_text": "qwen2_5_omni.Qwen2_5OmniRotaryEmbedding",
    "qwen3_omni_moe_code2wav": "qwen3_omni_moe.Qwen3OmniMoeRotaryEmbedding",
    "qwen3_omni_moe_talker_code_predictor": "qwen3_omni_moe.Qwen3OmniMoeRotaryEmbedding",
    "qwen3_omni_moe_talker_text": "qwen3_omni_moe.Qwen3OmniMoeTalkerRotaryEmbedding",
    "qwen3_omni_moe_text": "qwen3_omni_moe.Qwen3OmniMoeThinkerTextRotaryEmbedding",
    "sarvam_mla": "deepseek_v3.DeepseekV3RotaryEmbedding",
    "sarvam_moe": "glm4_moe.Glm4MoeRotaryEmbedding",
    # in these models, an embedding or an attention layer computes RoPE
    "roformer": "roformer.RoFormerSinusoidalPositionalEmbedding",
    "lightglue": "lightglue.LightGluePositionalEncoder",
    "vjepa2": "vjepa2.VJEPA2RopeAttention",
    # in these models, a function computes it before transformers 5.24, and a class from 5.24 on
    **({"codegen": "codegen.create_sinusoidal_positions", "gptj": "gptj.create_sinusoidal_positions"} if NEWER else {}),
}
# model types whose code is not in transformers
OF_OTHER_CODE = "chatglm deepseek grok-1 internlm2 kimi_k2 openpangu_vl_text telechat3"
TOKENS, POSITIONS = 6, [0, 1, 2, 13, 41, 97]
TOKENS_AT = 98


@pytest.fixture(scope="module")
def torch():
    return optional("torch")


@pytest.fixture(scope="module")
def transformers(torch):
    package = optional("transformers")
    package.logging.set_verbosity_error()
    return package


@pytest.fixture(scope="module")
def configs(transformers):
    """Return the classes of all configs by model_type."""
    found = {}
    for path in sorted((Path(transformers.__file__).parent / "models").glob("*/configuration_*.py")):
        module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        for name, one in inspect.getmembers(module, inspect.isclass):
            if issubclass(one, transformers.PreTrainedConfig) and one.__module__ == module.__name__:
                found[UNNAMED.get(name) or one.model_type] = one
    return found


def models():
    return sorted((set(table.types()) | set(REFUSED)) - set(OF_OTHER_CODE.split()) - NEWER)


def modeling(name):
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def rotary_class(model, config):
    """Return the modeling module and the rotary class of a model type.

    It is the class whose config is annotated with the model type, or the only one that is not for images.
    """
    if model in CLASS_OF:
        directory, name = CLASS_OF[model].split(".")
        return modeling(directory), getattr(modeling(directory), name)
    module, found = modeling(type(config).__module__.split(".")[2]), {}
    for name, one in inspect.getmembers(module, inspect.isclass):
        parameters = list(inspect.signature(one.__init__).parameters.values())
        if re.search("Rotary|RopePos", name) and one.__module__ == module.__name__ and len(parameters) > 1:
            annotation = getattr(parameters[1].annotation, "__name__", parameters[1].annotation)
            of = getattr(importlib.import_module(type(config).__module__), annotation, None)
            found[getattr(of, "model_type", name)] = one
    if model not in found:
        (found[model],) = [one for one in found.values() if "Vision" not in one.__name__]
    return module, found[model]


# ---- calls of transformers: each creates queries, and returns them with positions, rotated queries and the axis of tokens


class Case(SimpleNamespace):
    """A comparison: ours (a Rotary), model, config, label of the kind of layers, torch, rng, module and cls."""

    def __init__(self, *values):
        super().__init__(**dict(zip(("ours", "model", "config", "label", "torch", "rng"), values, strict=True)))
        self.module, self.cls = rotary_class(self.model, self.config)

    def queries(self, *shape):
        return self.rng.normal(size=(*shape, self.ours.head_dim)).astype(np.float32)

    def grid(self, axes=2):
        return self.rng.integers(0, 30, (TOKENS, axes))

    def tensor(self, array):
        return self.torch.from_numpy(np.ascontiguousarray(array))

    def embedding(self):
        return self.cls(self.config).eval()

    def tables(self, q, positions):
        return self.embedding()(self.tensor(q), self.tensor(positions), *kind(self.label).values())

    def rotate(self, name, q, *tables, **options):
        return getattr(self.module, name)(self.tensor(q), self.tensor(q), *tables, **options)[0]


def text(case):
    """Rotate queries (batch, heads, length, head_dim) at positions (batch, length), or (axes, batch, length)."""
    q, positions = case.queries(1, 2, TOKENS), np.array(POSITIONS)
    if case.ours.ndim > 1:
        positions = case.rng.integers(0, 60, (TOKENS, case.ours.ndim))
        given = np.moveaxis(positions, -1, 0)[:, np.newaxis]
    else:
        given = positions[np.newaxis]
    cos, sin = case.tables(q, given)
    return q, positions, apply(case, case.tensor(q), cos, sin), -2


def apply(case, q, cos, sin):
    """Rotate as the attention layers of the model do."""
    name, dim, function = case.model, case.ours.rotary_dim, "apply_rotary_pos_emb"
    if name == "qwen2_5_omni_dit":
        q = case.module.deinterleave_head_dim(q)
    elif table.row(name).layout == "interleaved_to_half" and getattr(case.config, "rope_interleave", True):
        function = "apply_rotary_pos_emb_interleave"
    rotate = getattr(case.module, function)
    if name in ("gemma3n_text", "gemma4_text", "gemma4_unified_text", "diffusion_gemma_text", "deepseek_v4"):
        return rotate(q, cos, sin)
    if name in ("gpt_neox_japanese", "persimmon", "phi", "stablelm"):
        # these functions rotate only the part that they get
        return case.torch.cat([rotate(q[..., :dim], q[..., :dim], cos, sin)[0], q[..., dim:]], dim=-1)
    return rotate(q, q, cos, sin)[0]


def by_complex_numbers(case):
    tokens_first = case.model == "llama4_text"
    q = case.queries(*((1, TOKENS, 2) if tokens_first else (1, 2, TOKENS)))
    rotated = case.rotate("apply_rotary_emb", q, case.tables(q, np.array([POSITIONS])))
    return q, POSITIONS, rotated, 1 if tokens_first else -2


def gptj(case):
    q, dim = case.queries(1, TOKENS, 2), case.config.rotary_dim
    if inspect.isclass(case.cls):
        sin, cos = case.tables(q, np.arange(TOKENS)[np.newaxis])
    else:
        sin, cos = case.torch.split(case.cls(TOKENS, dim)[np.newaxis], dim // 2, dim=-1)
    head = case.module.apply_rotary_pos_emb(case.tensor(q[..., :dim]), sin, cos)
    return q, range(TOKENS), case.torch.cat([head, case.tensor(q[..., dim:])], dim=-1), 1


def roformer(case):
    q, embedding = case.queries(1, 2, TOKENS), case.cls(64, case.ours.head_dim)
    embedding.weight.data = embedding.create_weight()
    rotate = case.module.RoFormerSelfAttention.apply_rotary_position_embeddings
    rotated = rotate(embedding((1, TOKENS))[None, None], case.tensor(q), case.tensor(q))[0]
    return q, range(TOKENS), rotated, -2


def clvp(case):
    q, dim = case.queries(1, 2, TOKENS), case.ours.rotary_dim
    angles = case.embedding()(case.torch.zeros(1, TOKENS, 8))[0]
    part = case.tensor(q[..., :dim])
    tables = angles.cos(), angles.sin(), case.torch.arange(TOKENS)[None]
    rotated = case.module.apply_rotary_pos_emb(part, part, part, *tables)[0]
    return q, range(TOKENS), case.torch.cat([rotated, case.tensor(q[..., dim:])], dim=-1), -2


def hidden_states(case):
    """Rotate hidden states (batch, length, hidden_size), split into heads."""
    q = case.queries(1, TOKENS, 3)
    name = {"wav2vec2-bert": "Wav2Vec2Bert", "wav2vec2-conformer": "Wav2Vec2Conformer"}.get(case.model)
    attention = getattr(case.module, f"{name or 'SeamlessM4TConformer'}SelfAttention")
    x, fake = case.tensor(q.reshape(1, TOKENS, -1)), SimpleNamespace(num_heads=3, head_size=case.ours.head_dim)
    return q, range(TOKENS), attention._apply_rotary_embedding(fake, x, case.embedding()(x)).reshape(q.shape), 1


def vision(case):
    """Rotate queries (tokens, heads, head_dim) at positions (tokens, axes)."""
    q, positions = case.queries(TOKENS, 2), case.grid(case.ours.ndim)
    return q, positions, case.rotate("apply_rotary_pos_emb_vision", q, *case.tables(q, positions)), 0


def pixtral(case):
    q, positions = case.queries(1, 2, TOKENS), case.grid()
    return q, positions, case.rotate("apply_rotary_pos_emb", q, *case.tables(q, positions), unsqueeze_dim=0), -2


def sam(case):
    """Rotate at (row, column) positions, which the class of transformers expects as (column, row)."""
    q, positions = case.queries(1, 2, TOKENS), case.grid()
    name = "apply_rotary_pos_emb_2d" + ("_self_attn" if case.model == "edgetam_video" else "")
    return q, positions, case.rotate(name, q, *case.tables(q, positions[:, ::-1])), -2


def llama4_vision(case):
    side = case.config.image_size // case.config.patch_size
    q = case.queries(1, side * side + 1, 2)
    rotated = case.rotate("vision_apply_rotary_emb", q, case.embedding()(case.tensor(q)))
    return q, places.llama4_vision(side, side), rotated, 1


def dinov3(case):
    rows, columns, patch = 3, 2, case.config.patch_size
    q = case.queries(1, 2, rows * columns)
    tables = case.embedding()(case.torch.zeros(1, 3, rows * patch, columns * patch))
    return q, places.dinov3(rows, columns), case.rotate("apply_rotary_pos_emb", q, *tables), -2


def loftr(case):
    rows, columns = 3, 2
    size, step = case.config.q_aggregation_kernel_size, case.config.q_aggregation_stride
    x = case.torch.zeros(1, 8, (rows - 1) * step + size, (columns - 1) * step + size)
    tables = (table.reshape(1, rows * columns, -1) for table in case.embedding()(x))
    q = case.queries(1, rows * columns, 1)
    return q, 1 + places.grid(rows, columns), case.rotate("apply_rotary_pos_emb", q, *tables, unsqueeze_dim=2), 1


def atoms(case):
    q, positions = case.queries(1, 2, TOKENS), case.rng.normal(size=(TOKENS, 4)).astype(np.float32) * 9
    given = case.tensor(positions)[None]
    tables = case.embedding()(given[..., :3], given[..., 3], case.torch.float32)
    return q, positions, case.rotate("apply_rotary_pos_emb", q, *tables), -2


CALLS = {
    "deepseek_v2": by_complex_numbers, "llama4_text": by_complex_numbers, "gptj": gptj, "codegen": gptj, "roformer": roformer,
    "clvp_encoder": clvp, "wav2vec2-bert": hidden_states, "wav2vec2-conformer": hidden_states,
    "seamless_m4t": hidden_states, "pixtral": pixtral, "sam3_vit_model": sam, "sam2_video": sam,
    "sam3_tracker_video": sam, "edgetam_video": sam, "llama4_vision_model": llama4_vision, "dinov3_vit": dinov3,
    "eomt_dinov3": dinov3, "sapiens2": dinov3, "efficientloftr": loftr, "esmfold2_atom_encoder": atoms,
}  # fmt: skip


def call_of(model):
    return CALLS.get(model) or (vision if re.search("_vision(_encoder)?$", model) else text)


def assert_alike(ours, q, positions, rotated, axis):
    q, rotated = (np.moveaxis(np.asarray(x), axis, -2) for x in (q, rotated))
    assert_rotated_alike(ours, np.asarray(positions), np.ascontiguousarray(q), rotated)


def kind(label):
    return {} if label is None else {"layer_type": label}


def labels_of(model, config):
    """Return the kinds of layers for which the rotary class of a model has tables, or [None] if all layers are alike."""
    groups, parameters = table.row(model).groups, getattr(config, "rope_parameters", None) or {}
    if not groups:
        return [None]
    used = {name: {name, *group.layer_types} & set(config.layer_types) for name, group in groups.items()}
    labels = [name for name in groups if isinstance(parameters.get(name), dict)]
    # the rotary class of DeepSeek V4 has tables for all kinds of layers, even if no layer has the kind
    return [name for name in labels if used[name] or model == "deepseek_v4"]


def check(case):
    """Assert that the Rotary of a case has the frequencies of the class of transformers, and rotates like it.

    Order and repetitions of frequencies do not matter.
    """
    buffer = None
    # some classes need other arguments, and have no frequencies
    with contextlib.suppress(TypeError):
        buffer = getattr(case.embedding(), "inv_freq" if case.label is None else f"{case.label}_inv_freq", None)
    if buffer is not None:
        scale = 2 * math.pi if table.row(case.model).spectrum == "dinov3" else 1
        ours, theirs = np.abs(case.ours.frequencies).ravel() / scale, buffer.numpy().ravel()
        for one, other in ((ours, theirs), (theirs, ours)):
            nearest = np.abs(one[:, np.newaxis] - other).min(axis=1)
            np.testing.assert_array_less(nearest, 1e-6 * np.abs(one) + 1e-30)
    with case.torch.no_grad():
        assert_alike(case.ours, *call_of(case.model)(case))


def compare(model, config, given, torch, rng):
    """Compare each kind of layers with transformers, and return the number of kinds."""
    labels = labels_of(model, config)
    for label in labels:
        ours = pf.Rotary.from_config(given, seq_len=TOKENS_AT, **kind(label))
        check(Case(ours, model, config, label, torch, rng))
    return len(labels)


def default(configs, model, **more):
    config = configs[model](**more)
    # some configs of parts of a model have no model_type, so add the one that models.txt uses
    given = config if config.model_type else {**config.to_dict(), "model_type": model}
    return config, given


# ---- the comparison --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", models())
def test_default_config(model, configs, torch, rng):
    """The Rotary of a default config, and of one with the keys in NEEDED, rotates like transformers."""
    if model == "musicflamingo":
        assert pf.Rotary.from_config(configs[model]()) == pf.Rotary.from_config(configs[model]().text_config)
        return
    valid = [NEEDED[model]] if model in NEEDED else []
    if model in REFUSED or model in NEEDED.keys() - ACCEPTED:
        with pytest.raises(ValueError, match="config"):
            pf.Rotary.from_config(default(configs, model)[1])
    else:
        valid.append({})
    for more in valid:
        assert compare(model, *default(configs, model, **more), torch, rng)


# fmt: off
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 40.0, "original_max_position_embeddings": 4096}
V4 = {**YARN, "rope_theta": 1.6e5, "factor": 16.0, "original_max_position_embeddings": 65536, "attention_factor": 1.0,
      "partial_rotary_factor": 0.125}
PLAIN = {"rope_type": "default", "rope_theta": 1e4}
# keys: presets. Values: model types, whose default config they have.
OF_DEFAULTS = {
    **{name: name for name in (
        "cohere", "glm4", "gpt_neox", "gpt_oss", "gptj", "helium", "llama", "mimo_v2_flash", "ministral3", "modernbert",
        "moonshine", "nanochat", "nomic_bert", "phi", "pixtral", "qwen2_vl_vision", "roformer",
    )},
    "dinov3": "dinov3_vit", "efficient_loftr": "efficientloftr", "ernie4_5_vl": "ernie4_5_vl_moe_text",
    "gemma3": "gemma3_text", "gemma4": "gemma4_text", "inkling_vision": "inkling2_vision",
    "kimi_vision": "kimi_k25_vision", "llama4": "llama4_text", "minimax_m3_vision": "minimax_m3_vl_vision",
    "pe_audio": "pe_audio_encoder", "sam2": "sam2_video",
}
# keys: presets. Values: (model type, settings of the config).
PRESETS = {
    **{name: (model, {}) for name, model in OF_DEFAULTS.items()},
    "llama3": ("llama", {"rope_parameters": LLAMA3}),
    "hunyuan": ("hunyuan_v1_dense", {"head_dim": 128, "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "alpha": 1000.0, "factor": 1.0}}),
    "minimax_m2": ("minimax_m2", {"rotary_dim": 64}),
    "qwen3_next": ("qwen3_next", {"rope_parameters": {**PLAIN, "rope_theta": 1e7, "partial_rotary_factor": 0.25}}),
    "deepseek_v2": ("deepseek_v2", {"rope_parameters": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707}}),
    "deepseek_v3": ("deepseek_v3", {"rope_parameters": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}),
    "deepseek_v4": ("deepseek_v4", {"rope_parameters": {"main": {**PLAIN, "partial_rotary_factor": 0.125}, "compress": V4}}),
    "wav2vec2_conformer": ("wav2vec2-conformer", {"position_embeddings_type": "rotary"}),
    # several axes
    "qwen2_vl": ("qwen2_vl_text", {"rope_parameters": {**PLAIN, "rope_theta": 1e6, "mrope_section": [16, 24, 24]}}),
    "qwen3_vl": ("qwen3_vl_text", {"rope_parameters": {**PLAIN, "rope_theta": 5e6, "mrope_section": [24, 20, 20]}}),
    "qwen3_5": ("qwen3_5_text", {"rope_parameters": {**PLAIN, "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10]}}),
    "glm4v": ("glm4v_text", {"rope_parameters": {**PLAIN, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}}),
    "llama4_vision": ("llama4_vision_model", {"hidden_size": 176, "num_attention_heads": 2, "image_size": 42, "patch_size": 14}),
}
# fmt: on


@pytest.mark.parametrize("name", PRESETS)
def test_preset(name, configs, torch, rng):
    (model, settings), preset = PRESETS[name], pf.presets.get(name)
    config, of_kinds = configs[model](**settings), "layer_type" in inspect.signature(preset).parameters
    # the preset of DeepSeek V4 is that of its compressed layers
    for label in [label for label in labels_of(model, config) if label != "main"]:
        check(Case(preset(**(kind(label) if of_kinds else {})), model, config, label, torch, rng))


def test_every_preset_is_compared_with_its_source():
    compared = set(PRESETS)
    for name in ("diffusers", "presets", "programs"):
        text = Path(__file__).with_name(f"test_rotary_{name}.py").read_text(encoding="utf-8")
        compared |= set(re.findall(r"\bpresets\.(\w+)\(", text))
    assert {name for name, facts in FACTS.items() if facts.rotary} <= compared


def test_gemma4_vision_by_halves(configs, torch, rng):
    """In the vision tower of Gemma 4, a Rotary of half the width rotates each half of a head, as the error advises.

    The first half rotates by column positions, the second by row positions.
    """
    config, module = configs["gemma4_vision"](), modeling("gemma4")
    positions, half = rng.integers(0, 30, (TOKENS, 2)), config.head_dim // 2
    q = rng.normal(size=(1, TOKENS, 2, config.head_dim)).astype(np.float32)
    x, given = torch.from_numpy(q), torch.from_numpy(positions[np.newaxis, :, ::-1].copy())
    theirs = module.apply_multidimensional_rope(x, *module.Gemma4VisionRotaryEmbedding(config)(x, given), given).numpy()
    rotary = pf.Rotary(half, base=config.rope_parameters["rope_theta"])
    for axis, part in ((1, slice(half)), (0, slice(half, None))):
        assert_alike(rotary, q[..., part], positions[:, axis], theirs[..., part], 1)


def test_every_type_is_known(configs):
    """Each model type is in exactly one list of models.txt: with RoPE, composite, unreadable, or without RoPE."""
    known = [set(table.types()), set(table.parts()), set(table.pairs("unreadable")), set(table.names("without"))]
    assert sum(map(len, known)) == len(set().union(*known))
    missing = set(configs) - set().union(*known) - {"", None}
    assert not missing, sorted(missing)


def test_keys_that_transformers_has_are_no_mistakes(configs):
    """No key of a config class is reported as misspelt. All but two `unrelated` keys of models.txt are such keys."""
    excused = set()
    unrelated = set(table.names("unrelated"))
    for name, types in table.families().items():
        known = spelling.keys_of(name)
        for model in set(types) & set(configs):
            config = configs[model](**NEEDED.get(model, {}))
            for given in (config.to_dict(), config.to_diff_dict()):
                spelling.check_spelling(given, "config", table.row(model))
            names = {*config.to_dict(), *inspect.signature(type(config).__init__).parameters, *config.attribute_map}
            excused |= names & unrelated - known
            spelling.check_spelling(dict.fromkeys(names - known - unrelated, True), "config", table.row(model))
    # these two keys occur only in files of nomic_bert, whose code is not in transformers
    assert excused == unrelated - {"rotary_emb_scale_base", "rotary_scaling_factor"}


def test_every_rotary_class_is_compared(transformers, configs):
    """Each class of transformers with Rotary or RoPE in its name is compared, except for attention layers."""
    pattern = re.compile(r"^class (\w*(?:Rotary|Rope|RoPE)\w*)\(", re.MULTILINE)
    sources = (Path(transformers.__file__).parent / "models").glob("*/modeling_*.py")
    theirs = {name for path in sources for name in pattern.findall(path.read_text(encoding="utf-8"))}
    seen = set()
    for model in models():
        name = CLASS_OF.get(model) or rotary_class(model, default(configs, model)[0])[1].__name__
        seen.add(name.rpartition(".")[2])
    assert {name for name in theirs - seen if not name.endswith("Attention")} == set()


# ---- other spellings -------------------------------------------------------------------------------------------------


def spellings(given):
    """Yield variants of a config that occur in files: without some keys, and with keys of older versions."""
    yield json.loads(json.dumps(given, default=str))
    yield {key: value for key, value in given.items() if key != "head_dim"}
    yield {key: value for key, value in given.items() if key != "rope_parameters"}
    rope = given.get("rope_parameters")
    if rope and not any(isinstance(value, dict) for value in rope.values()):
        old = {key: value for key, value in given.items() if key != "rope_parameters"}
        scaling = {key: value for key, value in rope.items() if key not in ("rope_theta", "partial_rotary_factor")}
        top = {key: rope[key] for key in ("rope_theta", "partial_rotary_factor") if key in rope}
        yield {**old, **top, "rope_scaling": None if scaling == {"rope_type": "default"} else scaling}
        yield {**old, "rope_scaling": {"type": "linear", "factor": 2.0}, **top}


LISTS = ("layer_types", "layers_block_type", "no_rope_layers", "layer_rope_theta", "per_layer_config")


@pytest.mark.parametrize("model", sorted(set(models()) - set(REFUSED) - {"musicflamingo"}))
def test_spellings(model, configs):
    """from_config returns the same Rotary for a file and for the config that transformers reads from it.

    It may also reject the file. Files without lists of layers have the same Rotary for each layer.
    """
    config, _ = default(configs, model, **NEEDED.get(model, {}))
    given = config.to_dict() | {"model_type": model}
    files = [(file, [kind(label) for label in labels_of(model, config)]) for file in spellings(given)]
    layers = [{"layer": layer} for layer in range(min(13, given.get("num_hidden_layers") or 0))]
    for file, options in [*files, ({key: value for key, value in given.items() if key not in LISTS}, layers)]:
        whole = None
        # transformers may reject the file with an error of any kind
        with contextlib.suppress(Exception):
            whole = configs[model].from_dict(dict(file)).to_dict() | {"model_type": model}
        for option in options if whole else ():
            try:
                ours = pf.Rotary.from_config(file, **option)
            except ValueError:
                continue
            assert ours == pf.Rotary.from_config(whole, **option), (file, option)


SCALINGS = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 2.0},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096, "beta_fast": 16.0},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.5},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 1024},
]  # fmt: skip
OLD_YARN = {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 1024}
NEW = {"rope_type": "default", "rope_theta": 777.0}
LONG = {"rope_type": "longrope", "short_factor": [1.5] * 16, "long_factor": [2.5] * 16}
FILES = [
    {"partial_rotary_factor": 0.5},
    {"rotary_pct": 0.5},
    {"rotary_dim": 32},
    {"head_dim": 32},
    {"rope_theta": 12345.0},
    {"rope_scaling": {"type": "linear", "factor": 4.0}},
    {"rope_scaling": OLD_YARN},
    {"rope_scaling": {**OLD_YARN, "truncate": False}},
    {"rope_scaling": OLD_YARN, "rope_theta": 5e5},
    {"rope_scaling": OLD_YARN, "original_max_position_embeddings": 2048},
    {"rope_scaling": {"rope_type": "yarn", **OLD_YARN, "beta_fast": 16, "attention_factor": 1.3}},
    {"rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}, "head_dim": 64},
    {"rope_parameters": NEW},
    {"rope_parameters": {**NEW, "partial_rotary_factor": 0.5}},
    {"rope_parameters": NEW, "rope_theta": 5e5},
    {"rope_parameters": {"rope_type": "linear", "factor": 2.0}},
    {"rope_parameters": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}},
    {"rope_parameters": {"full_attention": NEW, "sliding_attention": {**NEW, "rope_type": "linear", "factor": 2.0}}},
    {"rope_parameters": {"sliding_attention": NEW}},
    {"rope_theta": 2e6, "rope_local_base_freq": 5e3, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    {"global_rope_theta": 5e3},
    {"local_rope_theta": 5e3},
    {"rotary_emb_base": 5e3},
    {"rotary_embedding_base": 5e3},
    {"head_dim": None},
    {"head_dim": 48, "qk_rope_head_dim": 32, "kv_channels": 64},
    {"rope_scaling": {"rope_type": "proportional"}},
    {"rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "default"}}},
    {"rope_scaling": {**LONG, "original_max_position_embeddings": 1024}, "head_dim": 32},
]


def scaled(rope, scaling):
    """Return rotary parameters, or the parameters of each kind of layers, with a scaling instead of their own."""
    if any(isinstance(one, dict) for one in rope.values()):
        return {label: one and scaled(one, scaling) for label, one in rope.items()}
    return {key: rope[key] for key in ("rope_theta", "mrope_section", "partial_rotary_factor") if key in rope} | scaling


# the layers of these models have several bases, but their rotary class is built with one base
BY_LAYERS = ("granite_swa", "granitemoe_swa")


@pytest.mark.parametrize("model", sorted(set(models()) - set(REFUSED) - set(BY_LAYERS)))
def test_files(model, configs, torch, rng):
    """For files with other keys than a default config, from_config and the class of transformers agree.

    Files that either of them rejects are skipped.
    """
    needed = NEEDED.get(model, {})
    default_of_class = default(configs, model, **needed)[0].to_dict()
    rope = default_of_class.get("rope_parameters") or {}
    for more in FILES + [{"rope_parameters": scaled(rope, scaling)} for scaling in SCALINGS if rope]:
        left_out = ("rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factors")
        file = {key: value for key, value in default_of_class.items() if key not in left_out}
        kept = {} if "rope_parameters" in more or "rope_scaling" in more else needed
        file = json.loads(json.dumps({**file, **kept, **more, "model_type": model}, default=str))
        config = None
        with contextlib.suppress(Exception):
            # pass a copy, because from_dict changes its argument
            config = configs[model].from_dict(copy.deepcopy(file))
        for label in [] if config is None else labels_of(model, config):
            try:
                ours = pf.Rotary.from_config(file, seq_len=TOKENS_AT, **kind(label))
            except (TypeError, ValueError):
                continue
            theirs = None
            # skip a class that fails, because there is nothing to compare
            with contextlib.suppress(Exception), torch.no_grad():
                theirs = call_of(model)(Case(ours, model, config, label, torch, rng))
            if theirs is not None:
                assert_alike(ours, *theirs)


# ---- which layers have RoPE, in small models that run ---------------------------------------------------------------

SMALL = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32,
    "num_hidden_layers": 8, "vocab_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "max_position_embeddings": 64, "sliding_window": 8, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_intermediate_size": 16,
}  # fmt: skip
RUNNING = {
    "afmoe": ("AfmoeModel", {"num_dense_layers": 1}),
    "cohere2": ("Cohere2Model", {}),
    "cohere2_moe": ("Cohere2MoeModel", {}),
    "dory": ("DoryModel", {"n_input_layers": 2, "n_output_layers": 2, "n_recurrent_loops": 1}),
    "exaone4": ("Exaone4Model", {}),
    "flint": ("FlintModel", {}),
    "granite_swa": ("GraniteSWAModel", {"layer_rope_theta": [1e4, 0, 0, 1e4] * 2}),
    "kolibri1": ("Kolibri1Model", {}),
    "lara_mini": ("LaraMiniModel", {"linear_num_key_heads": 2, "linear_num_value_heads": 4}),
    "llama4": ("Llama4TextModel", {"intermediate_size_mlp": 32}),
    "muse_spark": ("MuseSparkTextModel", {}),
    "qwen3_next": ("Qwen3NextModel", {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}),
    "smollm3": ("SmolLM3Model", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(RUNNING) - NEWER))
def test_layers_with_rope(name, torch, transformers, monkeypatch):
    """from_config returns None exactly for the layers in which a small model does not call its rotary function."""
    module, (model_class, more) = modeling(name), RUNNING[name]
    model_class = getattr(module, model_class)
    known = {*inspect.signature(model_class.config_class.__init__).parameters, *model_class.config_class.attribute_map}
    config = model_class.config_class(**{key: value for key, value in (SMALL | more).items() if key in known})
    model = model_class(config).eval()
    rotating, running = set(), []
    for i, layer in enumerate(model.layers):
        layer.register_forward_pre_hook(lambda *_, i=i: running.append(i))
    for function in {"apply_rotary_pos_emb", "apply_rotary_emb"} & set(vars(module)):
        theirs = getattr(module, function)

        def spy(*args, theirs=theirs, **options):
            rotating.add(running[-1])
            return theirs(*args, **options)

        monkeypatch.setattr(module, function, spy)
    with torch.no_grad():
        model(input_ids=torch.arange(3, 9)[None])
    assert rotating
    assert rotating == {i for i in range(8) if pf.Rotary.from_config(config, layer=i) is not None}
