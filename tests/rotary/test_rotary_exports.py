"""Test exports of a Rotary in other programs: ONNX Runtime, transformers, and readers of GGUF."""

from __future__ import annotations

import json

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional

# fmt: off
LINEAR, XPOS = {"rope_type": "linear", "factor": 4.0}, {"rope_type": "xpos"}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 2048, "seq_len": 4096}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
DEEPSEEK = {**YARN, "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.5}
SLOW = {**YARN, "beta_fast": 24.0, "beta_slow": 2.0, "truncate": False, "attention_factor": 1.25}
LONG = {"rope_type": "longrope", "short_factor": np.linspace(1, 1.5, 32).tolist(), "factor": 32.0,
        "long_factor": np.linspace(1, 60, 32).tolist(), "original_max_position_embeddings": 4096}
PROPORTIONAL = {"rope_type": "proportional", "partial_rotary_factor": 0.25}
# fmt: on
IN_TURN = [0, 1, 2] * 10 + [0, 0]


def seq_len_of(rotary):
    return dict(rotary._settings.parameters).get("seq_len")


# ---- ONNX -----------------------------------------------------------------------------------------------------------------


def run_onnx(domain, x, positions, cache, dtype):
    """Return x rotated by the operator RotaryEmbedding of ONNX Runtime.

    cache: export of the Rotary for this operator.
    """
    onnx, runtime = optional("onnx"), optional("onnxruntime")
    kind, of = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), onnx.helper.make_tensor_value_info
    inputs = ["x", "cos", "sin", "positions"] if not domain else ["x", "positions", "cos", "sin"]
    node = onnx.helper.make_node("RotaryEmbedding", inputs, ["y"], domain=domain, **cache.attributes)
    given = [of("x", kind, x.shape), of("positions", onnx.TensorProto.INT64, positions.shape)]
    tables = [onnx.numpy_helper.from_array(getattr(cache, name), name) for name in ("cos", "sin")]
    graph = onnx.helper.make_graph([node], "rotary", given, [of("y", kind, x.shape)], tables)
    opsets = [onnx.helper.make_opsetid("", 23), *([onnx.helper.make_opsetid(domain, 1)] if domain else [])]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x, "positions": positions})[0]


@pytest.mark.parametrize("domain", ["", "com.microsoft"], ids=["ai.onnx", "com.microsoft"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("rotary", [
    pf.Rotary(64, base=5e5),
    pf.Rotary(64, layout="interleaved"),
    pf.Rotary(64, rotary_dim=32),
    pf.Rotary(64, layout="interleaved", rotary_dim=32),
    pf.Rotary(64, scaling=YARN),
    pf.Rotary(64, frequencies=pf.linear(32, 0.1, 1.0), attention_factor=0.5),
], ids=["half", "interleaved", "a part", "a part, interleaved", "attention factor", "frequencies"])  # fmt: skip
def test_onnx_runtime(rotary, dtype, domain):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 4, 50, 64)).astype(dtype)
    positions = rng.integers(0, 300, (2, 50))
    cache = rotary.onnx_cache(300, dtype=dtype, num_heads=4)
    assert cache.cos.shape == cache.sin.shape == (300, rotary.rotary_dim // 2)
    assert cache.cos.dtype == cache.sin.dtype == dtype
    rotated = run_onnx(domain, x, positions, cache, dtype)
    expected = rotary.apply(x, positions=positions)
    np.testing.assert_allclose(rotated.astype(float), expected.astype(float), atol=1e-6 if dtype == "float32" else 1e-2)
    # if x has three axes, the operator derives the head width from the attribute num_heads
    flat = np.ascontiguousarray(x.swapaxes(1, 2)).reshape(2, 50, 256)
    again = run_onnx(domain, flat, positions, cache, dtype).reshape(2, 50, 4, 64).swapaxes(1, 2)
    np.testing.assert_array_equal(again, rotated)

    if not domain:
        # this operator needs num_heads only if x has three axes
        cache = rotary.onnx_cache(300, dtype=dtype)
        assert "num_heads" not in cache.attributes
        np.testing.assert_array_equal(run_onnx(domain, x, positions, cache, dtype), rotated)


@pytest.mark.parametrize(("rotary", "arguments", "words"), [
    (pf.Rotary(8, layout="interleaved_to_half"), {"length": 4}, "layout='interleaved'; with the same weights"),
    (pf.Rotary(8, sections=[2, 2]), {"length": 4}, r"several axes; use Rotary.tables\(positions\)"),
    (pf.Rotary(4, frequencies=[[1.0, 2.0], [3.0, 4.0]]), {"length": 4}, "several axes; use Rotary.tables"),
    (pf.Rotary(8), {"length": 0}, "length"),
    (pf.Rotary(8), {"length": 4, "num_heads": 0}, "num_heads"),
], ids=["layout", "sections", "sums over axes", "length", "heads"])  # fmt: skip
def test_onnx_refused(rotary, arguments, words):
    with pytest.raises(ValueError, match=words):
        rotary.onnx_cache(**arguments)


# ---- transformers -----------------------------------------------------------------------------------------------------------

CONFIGS = {
    "default": pf.Rotary(64, base=5e5),
    "a part": pf.Rotary(80, rotary_dim=32),
    "linear": pf.Rotary(64, scaling=LINEAR),
    "dynamic": pf.Rotary(64, scaling=DYNAMIC),
    "llama3": pf.Rotary(64, base=5e5, scaling=LLAMA3),
    "yarn": pf.Rotary(64, base=1e6, scaling=YARN),
    "yarn, two scales": pf.Rotary(64, scaling=DEEPSEEK),
    "yarn, all parameters": pf.Rotary(64, scaling=SLOW),
    "longrope, short": pf.Rotary(64, scaling={**LONG, "seq_len": 4096}),
    "longrope, long": pf.Rotary(64, scaling={**LONG, "seq_len": 4097}),
    "proportional": pf.Rotary(64, scaling=PROPORTIONAL),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_frequencies_of_transformers(name):
    utilities, transformers = optional("transformers.modeling_rope_utils"), optional("transformers")
    llama = optional("transformers.models.llama.modeling_llama")
    expected, seq_len = CONFIGS[name], seq_len_of(CONFIGS[name])
    config = transformers.LlamaConfig(hidden_size=1024, num_attention_heads=16, **expected.config())
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        frequencies, factor = llama.LlamaRotaryEmbedding.compute_default_rope_parameters(config)
        # LlamaRotaryEmbedding always rotates whole heads, so compare with a Rotary of whole heads
        expected = expected if name != "a part" else pf.Rotary(80)
    else:
        compute = utilities.ROPE_INIT_FUNCTIONS[kind]
        frequencies, factor = compute(config, "cpu", seq_len=None if seq_len is None else int(seq_len))
    np.testing.assert_allclose(frequencies.numpy(), expected.frequencies, rtol=1e-6)
    assert factor == pytest.approx(expected.attention_factor, rel=1e-12)


@pytest.mark.parametrize("rotary", [
    *CONFIGS.values(),
    pf.Rotary(128, sections=[16, 24, 24]),
    pf.Rotary(64, sections=IN_TURN),
    pf.Rotary(192, rotary_dim=64),
    pf.Rotary(96, rotary_dim=22),
], ids=[*CONFIGS, "sections", "interleaved sections", "a third", "no simple part"])  # fmt: skip
def test_config_round_trip(rotary):
    config = json.loads(json.dumps(rotary.config()))
    again = pf.Rotary.from_config(config, layout="half", seq_len=seq_len_of(rotary))
    np.testing.assert_array_equal(again.frequencies, rotary.frequencies)
    assert again.attention_factor == rotary.attention_factor
    assert (again.head_dim, again.rotary_dim, again.ndim) == (rotary.head_dim, rotary.rotary_dim, rotary.ndim)
    np.testing.assert_array_equal(again.tables(5)[0], rotary.tables(5)[0])


@pytest.mark.parametrize("rotary", [
    pf.Rotary(8, frequencies=[1.0, 0.5, 0.25, 0.1]),
    pf.Rotary(8, scaling=XPOS),
    pf.Rotary(8, scaling={"rope_type": "ntk", "alpha": 2.0}),
    pf.Rotary(8, scaling={"rope_type": "axial"}, sections=[2, 2]),
    pf.Rotary(8, sections=[1, 0, 0, 1]),
    pf.Rotary(16, rotary_dim=8, scaling={"rope_type": "proportional"}),
], ids=["frequencies", "xpos", "ntk", "axial", "sections", "a part of a part"])  # fmt: skip
def test_rotary_without_a_config(rotary):
    assert rotary.config() is None


# ---- GGUF -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("architecture", "rotary"), [
    ("qwen2", pf.Rotary(128, base=1e6)),
    ("llama", pf.Rotary(128, base=5e5, layout="interleaved")),
    ("phi2", pf.Rotary(80, rotary_dim=32)),
    ("qwen3", pf.Rotary(64, scaling=LINEAR)),
    ("qwen3", pf.Rotary(64, base=1e6, scaling=YARN)),
    ("mistral3", pf.Rotary(64, layout="interleaved", scaling={**YARN, "beta_fast": 24.0, "beta_slow": 2.0})),
    ("qwen2vl", pf.Rotary(128, base=1e6, sections=[16, 24, 24])),
    ("qwen3vl", pf.Rotary(64, base=5e6, sections=IN_TURN)),
], ids=lambda one: one if isinstance(one, str) else "")  # fmt: skip
def test_gguf_round_trip(architecture, rotary):
    assert pf.Rotary.from_gguf(rotary.gguf(architecture)) == rotary


@pytest.mark.parametrize(("architecture", "rotary"), [
    ("llama", pf.Rotary(64, base=5e5, layout="interleaved", scaling=LLAMA3)),
    ("qwen3", pf.Rotary(64, scaling=DYNAMIC)),
    ("qwen3", pf.Rotary(64, scaling=SLOW)),
    ("qwen3", pf.Rotary(64, scaling=DEEPSEEK)),
    ("phi3", pf.Rotary(64, scaling={**LONG, "seq_len": 4097})),
    ("phi3", pf.Rotary(96, rotary_dim=64, scaling={**LONG, "seq_len": 10})),
    ("qwen2", pf.Rotary(8, frequencies=[1.0, 0.5, 0.25, 0.1], attention_factor=0.5)),
    ("gemma4", pf.Rotary(64, scaling=PROPORTIONAL)),
], ids=lambda one: one if isinstance(one, str) else "")  # fmt: skip
def test_gguf_by_factors(architecture, rotary, tmp_path):
    gguf = optional("gguf")
    metadata = rotary.gguf(architecture)
    # write the metadata to a file with the package gguf, as other programs do
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", metadata.pop("general.architecture"))
    add = {np.ndarray: writer.add_tensor, str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}
    for key, value in metadata.items():
        add[type(value)](key, value)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    for source in (rotary.gguf(architecture), tmp_path / "model.gguf"):
        again = pf.Rotary.from_gguf(source, seq_len=seq_len_of(rotary))
        assert (again.head_dim, again.rotary_dim, again.layout) == (rotary.head_dim, rotary.rotary_dim, rotary.layout)
        # numbers in GGUF files are float32, and a pair of frequency 0 is written with a frequency of about 1e-30
        np.testing.assert_allclose(again.frequencies, rotary.frequencies, rtol=1.3e-7, atol=2e-30)
        assert again.attention_factor == pytest.approx(rotary.attention_factor, rel=1e-7)


@pytest.mark.parametrize(("rotary", "architecture", "words"), [
    (pf.Rotary(8), "llama", "which llama.cpp uses for 'llama'; permute"),
    (pf.Rotary(8), "lama", "'lama' is unknown; did you mean 'llama'"),
    (pf.Rotary(8), "gpt2", "no rotary encoding"),
    (pf.Rotary(8), None, "architecture=None is unknown; give"),
    (pf.Rotary(8, scaling=XPOS), "qwen2", "no keys"),
    (pf.Rotary(8, sections=[2, 2]), "qwen2", "several axes"),
    (pf.Rotary(8), "qwen2vl", "needs contiguous sections of at most 4 axes, which this Rotary lacks"),
    (pf.Rotary(8, sections=[2, 1, 1]), "qwen3vl", "interleaved sections"),
    (pf.Rotary(8, frequencies=[1.0, -0.5, 0.25, 0.1]), "qwen2", "negative"),
    (pf.Rotary(4, layout="interleaved_to_half"), "llama", "layout='interleaved'; with the same weights"),
    (pf.Rotary(4, layout="interleaved_to_half"), "qwen2", "permute the weights of queries and keys"),
    (pf.Rotary(4, frequencies=[1.0, 1e-300]), "qwen2", "not a positive float32"),
    (pf.Rotary(4, frequencies=[1.0, 1e300]), "qwen2", "not a positive float32"),
], ids=lambda one: one if isinstance(one, str) else "")  # fmt: skip
def test_gguf_refused(rotary, architecture, words):
    with pytest.raises(ValueError, match=words):
        rotary.gguf(architecture)
