"""Compare rotary encodings with transformers and ONNX Runtime, if installed (dependency group ``test-extras``).

The classes of transformers are compared in test_rotary_transformers.py.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("backend")]


@pytest.fixture(scope="module")
def torch():
    return optional("torch")


@pytest.fixture(scope="module")
def transformers(torch):
    return optional("transformers")


def modeling(name):
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def random(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


CONFIGS = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096},
    "yarn-truncate": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096, "truncate": False, "beta_fast": 24.0, "beta_slow": 2.0},
    "yarn-mscale": {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.707},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    "longrope": {"rope_type": "longrope", "short_factor": [1 + 0.01 * i for i in range(32)], "long_factor": [1 + 0.5 * i for i in range(32)], "original_max_position_embeddings": 4096},
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.25},
}  # fmt: skip


@pytest.mark.parametrize("seq_len", [100, 100_000], ids=["short", "long"])
@pytest.mark.parametrize("name", CONFIGS)
def test_frequencies_of_transformers(name, seq_len, transformers):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    options = {"hidden_size": 512, "num_attention_heads": 8, "max_position_embeddings": 32768}
    rope = {"rope_theta": 500000.0, **CONFIGS[name]}
    config = transformers.LlamaConfig(**options, rope_parameters=dict(rope))
    ours = pf.Rotary.from_config({"model_type": "llama", **options, "rope_parameters": rope}, seq_len=seq_len)
    if name == "default":
        theirs, factor = modeling("llama").LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        theirs, factor = ROPE_INIT_FUNCTIONS[name.partition("-")[0]](config, "cpu", seq_len=seq_len)
    np.testing.assert_allclose(ours.frequencies, theirs.numpy(), rtol=5e-7, atol=0)
    assert ours.attention_factor == pytest.approx(factor, rel=1e-15)


def test_llama_at_any_position_in_float32(torch, transformers, rng):
    """The mode "float32" has the angles of transformers, which are far from the exact angles here."""
    module, q = modeling("llama"), random(rng, 1, 4, 6, 64)
    config = transformers.LlamaConfig(hidden_size=256, num_attention_heads=4)
    embedding = module.LlamaRotaryEmbedding(config)
    cos, sin = embedding(torch.from_numpy(q), torch.arange(10**6, 10**6 + 6)[None])
    # a frequency may differ by a unit in the last place, which position one million makes large
    theirs = embedding.inv_freq.numpy().astype(np.float64)
    angles = (np.float32(10**6 + np.arange(6))[:, np.newaxis] * theirs.astype(np.float32)).astype(np.float64)
    rotary = pf.Rotary(64)
    got = rotary.apply_tables(q, np.cos(angles), np.sin(angles))
    np.testing.assert_allclose(
        got, module.apply_rotary_pos_emb(torch.from_numpy(q), torch.from_numpy(q), cos, sin)[0].numpy(), atol=2e-6
    )
    same = rotary.frequencies.astype(np.float32) == embedding.inv_freq.numpy()
    ours = rotary.tables(6, start=10**6, precision="float32")[0]
    np.testing.assert_allclose(ours[:, same], cos[0, :, :32].numpy()[:, same], rtol=0, atol=1e-6)
    assert same.sum() > 8


@pytest.mark.parametrize("rotary_dim", [32, 16], ids=["whole", "partial"])
@pytest.mark.parametrize("interleaved", [0, 1], ids=["half", "interleaved"])
@pytest.mark.parametrize("domain", ["com.microsoft", "ai.onnx"])
def test_onnxruntime(domain, interleaved, rotary_dim, rng):
    runtime, onnx = optional("onnxruntime"), optional("onnx")
    q = random(rng, 2, 4, 9, 32)
    rotary = pf.Rotary(32, rotary_dim=rotary_dim, layout="interleaved" if interleaved else "half")
    cos, sin = rotary.tables(9)
    positions = np.tile(np.arange(9), (2, 1))
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": rotary_dim if rotary_dim < 32 else 0}
    if domain == "com.microsoft":
        inputs, attributes["num_heads"] = {"x": q, "p": positions, "c": cos, "s": sin}, 4
    else:
        inputs = {"x": q, "c": cos, "s": sin, "p": positions}
    onnx_types = {np.dtype(np.float32): onnx.TensorProto.FLOAT, np.dtype(np.int64): onnx.TensorProto.INT64}
    node = onnx.helper.make_node(
        "RotaryEmbedding", list(inputs), ["y"], domain="" if domain == "ai.onnx" else domain, **attributes
    )
    values = [onnx.helper.make_tensor_value_info(n, onnx_types[a.dtype], a.shape) for n, a in inputs.items()]
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, q.shape)
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "rotary", values, [result]),
        opset_imports=[onnx.helper.make_opsetid("", 23), onnx.helper.make_opsetid("com.microsoft", 1)],
        ir_version=10,
    )
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(rotary.apply(q), session.run(None, inputs)[0], rtol=0, atol=1e-6)
