"""Test `Rotary.from_gguf`: against the formulas of ggml, and against packages that read GGUF files."""

from __future__ import annotations

import contextlib
import math
import re
import struct
import sys

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._models import gguf as gguf_metadata
from support.optional import optional
from support.processes import python
from support.seeds import SEED

read = pf.Rotary.from_gguf


def file_of(architecture, /, **keys):
    """Return GGUF metadata of an architecture with these keys. Two underscores stand for a dot."""
    return {"general.architecture": architecture} | {
        f"{architecture}.{key.replace('__', '.')}": value for key, value in keys.items()
    }


def with_heads(architecture, dim=128, **keys):
    return file_of(architecture, embedding_length=32 * dim, attention__head_count=32, block_count=48, **keys)


def ggml(x, positions, neox, dims, base, scale=1.0, original=0, yarn=False, factors=None, attention=1.0):
    """Rotate rows of heads as ggml_rope_ext does, in float64. scale: factor of the positions."""
    pairs = dims // 2
    i = np.arange(pairs)
    extrapolated = positions[:, None] * base ** (-2.0 * i / dims) / (1 if factors is None else np.asarray(factors))
    angles = scale * extrapolated
    if yarn:

        def corrected(turns):
            return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

        low, high = max(0, math.floor(corrected(32))), min(dims - 1, math.ceil(corrected(1)))
        ramp = 1 - np.clip((i - low) / max(0.001, high - low), 0, 1)
        angles = angles * (1 - ramp) + extrapolated * ramp
        attention *= 1 + 0.1 * math.log(1 / scale)
    cos, sin = attention * np.cos(angles), attention * np.sin(angles)
    first, second = (i, i + pairs) if neox else (2 * i, 2 * i + 1)
    rotated = x.copy()
    rotated[:, first] = x[:, first] * cos - x[:, second] * sin
    rotated[:, second] = x[:, first] * sin + x[:, second] * cos
    return rotated


# fmt: off
DIVISORS = np.linspace(1, 8, 64, dtype=np.float32)
SHORT, LONG = np.linspace(1, 1.5, 48, dtype=np.float32), np.linspace(1, 60, 48, dtype=np.float32)
YARN = {"rope__scaling__type": "yarn", "rope__scaling__original_context_length": 4096}
GEMMA3 = with_heads("gemma3", 256, attention__sliding_window=1024, rope__freq_base=1e6, rope__scaling__type="linear",
                    rope__scaling__factor=8.0)
PHI3 = with_heads(
    "phi3", rope__dimension_count=96, context_length=131072, rope__scaling__original_context_length=4096,
    rope__scaling__attn_factor=1.25) | {"rope_factors_short.weight": SHORT, "rope_factors_long.weight": LONG}
DEEPSEEK = file_of(
    "deepseek2", **YARN, attention__key_length=576, attention__kv_lora_rank=512, rope__dimension_count=64,
    rope__scaling__factor=40.0, rope__scaling__yarn_log_multiplier=float(np.float32(0.0707)))
GPT_OSS = with_heads("gpt-oss", 64, **YARN, rope__freq_base=150000.0, rope__scaling__factor=32.0,
                     attention__sliding_window=128)
OLMO3 = with_heads("olmo2", rope__freq_base=5e5, rope__scaling__type="yarn", rope__scaling__factor=8.0,
                   rope__scaling__original_context_length=8192, attention__sliding_window=4096)
GEMMA4 = file_of(
    "gemma4", attention__key_length=512, attention__key_length_swa=256, rope__dimension_count=512,
    rope__dimension_count_swa=256, rope__freq_base=1e6, rope__freq_base_swa=1e4, attention__sliding_window=512,
    attention__sliding_window_pattern=[True, True, False],
) | {"rope_freqs.weight": np.where(np.arange(256) < 64, 1, 1e30)}
MODERN_BERT = with_heads("modern-bert", 64, rope__freq_base=160000.0, attention__sliding_window=128)
# keys: names of cases. Values: (metadata, arguments of from_gguf, width of heads, arguments of ggml).
CASES = {
    "llama": (with_heads("llama", rope__dimension_count=128, rope__freq_base=5e5), {}, 128, (False, 128, 5e5)),
    "llama-3.1": (with_heads("llama", rope__freq_base=5e5) | {"rope_freqs.weight": DIVISORS}, {}, 128, (False, 128, 5e5, 1.0, 0, False, DIVISORS)),
    "qwen2": (with_heads("qwen2", rope__freq_base=1e6), {}, 128, (True, 128, 1e6)),
    "no-base": (with_heads("qwen2"), {}, 128, (True, 128, 1e4)),
    "phi2, a part": (with_heads("phi2", 80, rope__dimension_count=32), {}, 80, (True, 32, 1e4)),
    "linear": (with_heads("llama", rope__scaling__factor=4.0), {}, 128, (False, 128, 1e4, 0.25)),
    "linear, the old name": (with_heads("llama", rope__scale_linear=4.0), {}, 128, (False, 128, 1e4, 0.25)),
    "none": (with_heads("llama", rope__scaling__factor=4.0, rope__scaling__type="none"), {}, 128, (False, 128, 1e4)),
    "linear with a factor of cosines": (with_heads("qwen2", rope__scaling__factor=4.0, rope__scaling__attn_factor=1.5), {}, 128, (True, 128, 1e4, 0.25, 0, False, None, 1.5)),
    "deepseek2": (DEEPSEEK, {}, 64, (False, 64, 1e4, 1 / 40, 4096, True, None, 1 / (1 + 0.1 * math.log(40)))),
    "gpt-oss": (GPT_OSS, {}, 64, (True, 64, 150000.0, 1 / 32, 4096, True)),
    "gpt-oss, default numbers as keys": (GPT_OSS | {f"gpt-oss.rope.scaling.yarn_{name}": 1.0 for name in ("ext_factor", "attn_factor", "beta_slow")}, {}, 64, (True, 64, 150000.0, 1 / 32, 4096, True)),
    "gpt-oss, a layer": (GPT_OSS, {"layer": 0}, 64, (True, 64, 150000.0, 1 / 32, 4096, True)),
    "yarn with a factor of cosines": (with_heads("qwen3", rope__scaling__type="yarn", rope__scaling__factor=4.0, rope__scaling__attn_factor=0.5, context_length=32768),
        {}, 128, (True, 128, 1e4, 1 / 4, 32768, True, None, 0.5)),
    "phi3, short": (PHI3, {"seq_len": 4096}, 128, (True, 96, 1e4, 1.0, 0, False, SHORT, 1.25)),
    "phi3, long": (PHI3, {"seq_len": 4097}, 128, (True, 96, 1e4, 1.0, 0, False, LONG, 1.25)),
    "gemma3, sliding": (GEMMA3, {"layer": 4}, 256, (True, 256, 1e4)),
    "gemma3, full": (GEMMA3, {"layer": 5}, 256, (True, 256, 1e6, 0.125)),
    "gemma3, another base of sliding layers": (GEMMA3 | {"gemma3.rope.freq_base_swa": 2e4}, {"layer": 0}, 256, (True, 256, 2e4)),
    "gemma4, sliding": (GEMMA4, {"layer": 1}, 256, (True, 256, 1e4)),
    "gemma4, full": (GEMMA4, {"layer": 2}, 512, (True, 512, 1e6, 1.0, 0, False, GEMMA4["rope_freqs.weight"])),
    "olmo3, sliding": (OLMO3, {"layer": 2}, 128, (True, 128, 5e5)),
    "olmo3, full": (OLMO3, {"layer": 3}, 128, (True, 128, 5e5, 1 / 8, 8192, True)),
    "modern-bert, the first": (MODERN_BERT, {"layer": 0}, 64, (True, 64, 160000.0)),
    "modern-bert, the second": (MODERN_BERT, {"layer": 1}, 64, (True, 64, 1e4)),
    "exaone4, small": (with_heads("exaone4", rope__freq_base=1e6), {"layer": 3}, 128, (True, 128, 1e6)),
    "glm4, no sections": (with_heads("glm4", rope__dimension_count=64), {}, 128, (False, 64, 1e4)),
}
# fmt: on


@pytest.mark.parametrize("name", CASES)
def test_rotates_as_ggml_does(name):
    metadata, arguments, head, program = CASES[name]
    rotary = read(metadata, **arguments)
    assert rotary.head_dim == head
    x = np.random.default_rng(7).normal(size=(40, head))
    positions = np.arange(40.0) * 97
    np.testing.assert_allclose(rotary.apply(x, positions=positions), ggml(x, positions, *program), atol=1e-11)


@pytest.mark.parametrize(("metadata", "layers"), [
    (with_heads("smollm3"), [True, True, True, False] * 2),
    (with_heads("llama4"), [True, True, True, False] * 2),
    (with_heads("cohere2", attention__sliding_window=4096), [True, True, True, False] * 2),
    (with_heads("exaone4", attention__sliding_window=4096) | {"exaone4.block_count": 64}, [True, True, True, False]),
    (with_heads("lfm2", attention__head_count_kv=[0, 8, 0, 8]), [False, True, False, True]),
    (with_heads("deci", attention__key_length=128) | {"deci.attention.head_count": [32, 0, 32]}, [True, False, True]),
    (with_heads("qwen3next"), [False, False, False, True]),
    (with_heads("granite", rope__scaling__finetuned=False), [False]),
    (with_heads("granite", rope__scaling__finetuned=True), [True]),
], ids=lambda one: one["general.architecture"] if isinstance(one, dict) else "")  # fmt: skip
def test_layers_without_rope(metadata, layers):
    assert [read(metadata, layer=i) is not None for i in range(len(layers))] == layers
    # without layer=, from_gguf returns the Rotary of the layers that have RoPE
    if any(layers):
        assert read(metadata) is not None
    else:
        with pytest.raises(ValueError, match="means no rotary encoding in 'granite'"):
            read(metadata)


@pytest.mark.parametrize(("architecture", "sections", "axes"), [
    ("qwen2vl", [16, 24, 24], [0] * 16 + [1] * 24 + [2] * 24),
    ("glm4", [24, 20, 20, 0], [0] * 24 + [1] * 20 + [2] * 20),
    ("qwen3vl", [24, 20, 20, 0], [0, 1, 2] * 20 + [0] * 4),
])  # fmt: skip
def test_sections(architecture, sections, axes):
    rotary = read(with_heads(architecture, rope__dimension_sections=sections))
    assert rotary == pf.Rotary(128, sections=axes)


@pytest.mark.parametrize(("layout", "architectures"), [
    # layouts from llama_model_rope_type of llama.cpp
    ("interleaved", "llama llama4 command-r olmo minicpm granite chatglm mistral3 ernie4_5 arcee smollm3 internlm2"),
    ("half", "qwen2 qwen3 qwen3moe gemma gemma2 phi2 phi3 olmo2 falcon stablelm gptneox starcoder2 lfm2 bitnet"),
])  # fmt: skip
def test_layouts(layout, architectures):
    for architecture in architectures.split():
        assert read(with_heads(architecture)).layout == layout, architecture


# ---- files, and other programs that read them -----------------------------------------------------------------------------


def written(path, architecture, tensors=(), **keys):
    """Write a GGUF file with the package gguf, and return its path."""
    writer = optional("gguf").GGUFWriter(path, architecture)
    for key, value in ({"block_count": 2, "token_list": ["a", "b"]} | keys).items():
        getattr(writer, f"add_{key}")(value)
    for name, values in tensors:
        writer.add_tensor(name, values)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    return path


def test_files(tmp_path):
    path, tensors = tmp_path / "model.gguf", [("rope_freqs.weight", DIVISORS)]
    written(path, "llama", tensors, embedding_length=4096, head_count=32, rope_dimension_count=128, rope_freq_base=5e5)
    metadata = with_heads("llama", rope__freq_base=5e5) | dict(tensors)
    assert read(path) == read(str(path)) == read(metadata)
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    yarn = {"type": optional("gguf").RopeScalingType.YARN, "factor": 4.0, "orig_ctx_len": 32768}
    written(path, "qwen3", key_length=128, **{f"rope_scaling_{key}": value for key, value in yarn.items()})
    assert read(path) == pf.Rotary(128, scaling=scaling)
    written(path, "qwen2vl", key_length=128, rope_freq_base=1e6, rope_dimension_sections=[16, 24, 24, 0])
    assert read(path) == pf.Rotary(128, base=1e6, sections=[16, 24, 24])


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "keys"), [
    ("llama", {"rope_dimension_count": 128, "rope_freq_base": 5e5}),
    ("qwen2", {"rope_freq_base": 1e6}),
    ("qwen3", {"rope_freq_base": 1e6, "key_length": 128}),
    ("qwen2moe", {"rope_freq_base": 1e6}),
    ("qwen3moe", {"rope_freq_base": 1e6, "key_length": 128}),
    ("phi3", {"rope_freq_base": 2e4, "rope_dimension_count": 128}),
    ("minimax-m2", {"rope_freq_base": 5e6, "key_length": 128, "rope_dimension_count": 64}),
])  # fmt: skip
def test_files_that_transformers_reads(architecture, keys, tmp_path):
    optional("gguf")
    utilities = optional("transformers.modeling_gguf_pytorch_utils")
    path = written(tmp_path / "model.gguf", architecture, embedding_length=4096, head_count=32, **keys)
    config = utilities.load_gguf_checkpoint(str(path))["config"]
    rotary, theirs = read(path), pf.Rotary.from_config(config)
    np.testing.assert_array_equal(rotary.frequencies, theirs.frequencies)
    # transformers permutes the weights of a llama when it reads them, so its layout is "half" for all architectures
    assert (rotary.layout, theirs.layout) == ("interleaved" if architecture == "llama" else "half", "half")


# ---- bad input ------------------------------------------------------------------------------------------------------------


# keys: misspelt keys. Values: the keys that the error suggests.
MISSPELT = {
    "llama.rope.freq_bas": "llama.rope.freq_base", "llama.rope.theta": "llama.rope.freq_base",
    "llama.attention.key_length_k": "llama.attention.key_length", "lama.rope.freq_base": "llama.rope.freq_base",
    "qwen2.rope.freq_base": "llama.rope.freq_base", "rope_freq.weight": "rope_freqs.weight",
    "rope_freqs": "rope_freqs.weight",
}  # fmt: skip
WITHOUT = ["gpt2", "bloom", "mpt", "bert", "t5", "mamba", "rwkv7", "nemotron_h"]
REFUSED = {
    **{name: (with_heads(name), {}, r"no rotary encoding in llama\.cpp") for name in WITHOUT},
    **{
        key: (with_heads("llama") | {key: 64}, {}, rf"source\['{re.escape(key)}'\] is unknown .*did you mean '{meant}'")
        for key, meant in MISSPELT.items()
    },
    "nothing": ({}, {}, "general.architecture"),
    "unknown": (file_of("qwen9"), {}, "'qwen9' is unknown, .*; did you mean '.*'"),
    "no width": (file_of("llama"), {}, "lacks 'llama.embedding_length'"),
    "a part of a whole": (with_heads("llama", rope__dimension_count=64), {}, "dimension_count'.=64"),
    "more than a head": (with_heads("qwen2", rope__dimension_count=256), {}, "more than the 128 values"),
    "an odd width": (with_heads("qwen2", rope__dimension_count=63), {}, "odd"),
    "scaling": (with_heads("llama", rope__scaling__type="dynamic"), {}, "'dynamic' must be one of"),
    "no length": (PHI3, {}, "give seq_len="),
    "no factors": (with_heads("phi3", rope__scaling__type="longrope"), {}, "needs the tensors rope_factors_short"),
    "one list": ({k: v for k, v in PHI3.items() if "long.weight" not in k}, {"seq_len": 1}, "has rope_factors_short.weight, but lacks rope_factors_long.weight"),
    "a list of too few layers": (file_of("qwen2", embedding_length=256, attention__head_count=[2, 4]), {"layer": 2}, "must have one value per layer"),
    "factors of another width": (with_heads("llama", 64) | {"rope_freqs.weight": DIVISORS}, {}, "has 64 numbers, but must have one number for each of 32 pairs"),
    "three lists": (PHI3 | {"rope_freqs.weight": SHORT}, {"seq_len": 1}, "rope_freqs.weight and rope_factors_short.weight exclude each other"),
    "lists and a factor": (PHI3 | {"phi3.rope.scaling.factor": 4.0}, {"seq_len": 1}, "rope_factors_short.weight and the scaling factor 4 exclude each other"),
    "divided twice": (with_heads("llama", rope__scaling__factor=2.0) | {"rope_freqs.weight": DIVISORS}, {}, "exclude each other"),
    "two kinds of layers": (GEMMA3, {}, "give layer="),
    "windows of unknown layers": (with_heads("qwen2", rope__freq_base_swa=1e6), {}, "does not know which layers"),
    "no pattern": ({key: value for key, value in GEMMA4.items() if not key.endswith("pattern")}, {"layer": 0}, "sliding_window_pattern'. must be an array"),
    "a layer too many": (with_heads("llama"), {"layer": 48}, "layer=48 is too large"),
    "a negative layer": (with_heads("llama"), {"layer": -1}, "layer"),
    "sections that do not fit": (with_heads("qwen2vl", rope__dimension_sections=[16, 24, 16, 0]), {}, "add up to 64 pairs"),
    "no sections": (with_heads("qwen2vl"), {}, "dimension_sections'. is missing"),
    "sections of another architecture": (with_heads("llama", rope__dimension_sections=[32, 16, 16]), {}, "is not read"),
    "a multiplier of unknown meaning": (GPT_OSS | {"gpt-oss.rope.scaling.yarn_log_multiplier": 0.1}, {}, "no known meaning"),
    "beta_fast": (GPT_OSS | {"gpt-oss.rope.scaling.yarn_beta_fast": 8.0}, {}, "not read by llama.cpp"),
    "attn_factor": (GPT_OSS | {"gpt-oss.rope.scaling.yarn_attn_factor": 2.0}, {}, "not read by llama.cpp"),
    "ALiBi": (with_heads("baichuan") | {"baichuan.block_count": 40}, {}, "ALiBi"),
    "other widths of layers": (with_heads("deci", attention__key_length=[64, 128]), {}, "give layer="),
    "factors of 0": (with_heads("llama") | {"rope_freqs.weight": [*DIVISORS[:63], 0.0]}, {}, r"\['rope_freqs.weight'\]\[63\] is 0, but must be finite and above 0"),
    "yarn without its type": (with_heads("llama", rope__scaling__yarn_ext_factor=0.5), {}, "type 'linear'"),
    "another scaling of the base": (with_heads("hunyuan-dense", rope__scaling__alpha=50.0), {}, "scaling.alpha'. is unknown"),
    "a base of text": (with_heads("llama", rope__freq_base="big"), {}, "rope.freq_base"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    metadata, arguments, words = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=words):
        read(metadata, **arguments)


def edited(key, rng):
    """Return a key with one typing error: an extra, missing or wrong character, or two swapped characters."""
    i, letter = rng.integers(len(key)), chr(rng.choice(list(b"abcdefghijklmnopqrstuvwxyz0123456789._-")))
    swapped = key[:i] + key[i : i + 2][::-1] + key[i + 2 :]
    edits = [key[:i] + key[i + 1 :], key[:i] + letter + key[i:], key[:i] + letter + key[i + 1 :], swapped]
    return str(rng.choice(edits))


def test_errors_name_misspelt_keys():
    rng = np.random.default_rng(SEED)
    cases = list(CASES.values())
    for _ in range(100):
        metadata, arguments, *_ = cases[rng.integers(len(cases))]
        key = other = str(rng.choice(list(metadata)))
        while other in metadata:
            other = edited(key, rng)
        with pytest.raises((TypeError, ValueError)) as error:
            read({other if name == key else name: value for name, value in metadata.items()}, **arguments)
        assert repr(other) in str(error.value) or key == "general.architecture", (key, other)


def test_keys_of_converters_are_read():
    """from_gguf knows all GGUF keys that contain "rope" or begin with "attention.key_length", except one.

    Keys without these texts have no effect if from_gguf does not know them.
    """
    constants = optional("gguf.constants")

    def texts(group):
        for name, value in vars(group).items():
            if isinstance(value, str) and not name.startswith("_"):
                yield value.removeprefix("{arch}.") if value.startswith("{arch}.") else "." + value
            elif isinstance(value, type):
                yield from texts(value)

    keys, known = set(texts(constants.Keys)), {*gguf_metadata._KEYS, *gguf_metadata._UNUSED}
    assert len(keys) > 200
    assert {key for key in keys if "rope" in key or key.startswith("attention.key_length")} - known == {
        # changes the base of HunYuan-VL
        "rope.scaling.alpha"
    }
    metadata = with_heads("llama")
    others = {key[1:] if key[0] == "." else f"llama.{key}": 3 for key in keys - known - {"rope.scaling.alpha"}}
    assert read(others | metadata) == pf.Rotary(128, layout="interleaved")


JUNK = [None, "", "x", b"x", -1, 0, 1, 3, True, math.nan, math.inf, 10**30, 1e-320, [], [1], [1, 2], ["x"], {}, [[1]]]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if i % 5 else ()) for i, name in enumerate(CASES)]
)
def test_junk(name):
    """For a wrong value at any key, from_gguf returns a finite Rotary or None, or raises TypeError or ValueError."""
    metadata, arguments, *_ = CASES[name]
    for key in [*metadata, f"{metadata['general.architecture']}.attention.head_count_kv"]:
        for value in JUNK:
            with contextlib.suppress(TypeError, ValueError):
                rotary = read({**metadata, key: value}, **arguments)
                assert rotary is None or np.isfinite(rotary.frequencies).all(), (key, value)


def test_architectures_of_the_package():
    gguf = optional("gguf")
    # architectures that only newer releases of the package gguf contain
    later = {"deepseek32", "laguna", "mellum"}
    assert set(gguf_metadata.ARCHITECTURES) - later <= set(gguf.MODEL_ARCH_NAMES.values())


def test_files_that_are_not_gguf(tmp_path):
    optional("gguf")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.gguf"):
        read(tmp_path / "nowhere.gguf")
    name, path = b"general.architecture", tmp_path / "bad.gguf"
    for contents in (
        bytes(8),
        # an array of 2^40 integers is announced, but missing
        struct.pack("<IQQQ20sIIQ", 3, 0, 1, 20, name, 9, 0, 2**40),
        # these bytes are not UTF-8
        struct.pack("<IQQQ20sIQ2s", 3, 0, 1, 20, name, 8, 2, b"\xff\xfe"),
    ):
        path.write_bytes(b"GGUF" + contents)
        with pytest.raises(ValueError, match=r"bad\.gguf cannot be read as GGUF"):
            read(path)
    with pytest.raises(ValueError, match="is not a regular file"):
        read(tmp_path)
    with pytest.raises(TypeError, match="source must be the path"):
        read(3)


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ImportError, match=r"pip install gguf"):
        read(tmp_path / "model.gguf")
    # metadata can be read without the package gguf, but files cannot
    assert read(with_heads("qwen2")) == pf.Rotary(128)


def test_import_of_the_package_does_not_import_gguf():
    names = "{'gguf', 'posenc_fast._models.gguf', 'posenc_fast._models.exports'}"
    code = f"import sys, posenc_fast as pf; pf.Rotary(8).tables(4); print(sorted({names} & set(sys.modules)))"
    assert python(code).stdout.strip() == "[]"
