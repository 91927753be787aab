"""Test `posenc-fast export`: tables for ONNX, GGUF metadata, parameters of a config, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from support.command_line import error, run
from support.optional import optional
from support.own_code import LLAMA3
from support.tables import each_line

pytestmark = pytest.mark.usefixtures("configs")

ROTARY = pf.Rotary(128, base=5e5, scaling=LLAMA3)
LLAMA = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "rope_scaling": LLAMA3, "hidden_size": 4096}
GEMMA = {"model_type": "gemma3_text", "head_dim": 256, "num_hidden_layers": 26}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
HUNYUAN = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}


@pytest.fixture
def configs(inside):
    Path("model").mkdir()
    # fmt: off
    configs = {
        "llama.json": LLAMA,
        "model/params.json": LLAMA | {"model_type": "qwen2"},
        "gemma.json": GEMMA | {"rope_theta": 1e6, "rope_local_base_freq": 1e4},
        "dynamic.json": {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048, "rope_scaling": DYNAMIC},
        "hunyuan.json": {"model_type": "hunyuan_v1_dense", "head_dim": 128, "rope_theta": 1e4, "rope_scaling": HUNYUAN},
        "smollm3.json": {"model_type": "smollm3", "hidden_size": 64, "num_attention_heads": 4},
    }
    # fmt: on
    for name, config in configs.items():
        Path(name).write_text(json.dumps(config))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_onnx(dtype, capsys):
    kind = optional("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    arguments = ["--onnx", "40", "--dtype", dtype, "--num-heads", "32", "-o", "rope.npz"]
    assert run("export", "llama.json", *arguments) == 0
    said = capsys.readouterr().out
    assert f"wrote rope.npz: shape (40, 64), {dtype}" in said
    assert "interleaved=0, rotary_embedding_dim=0, num_heads=32" in said
    with np.load("rope.npz") as arrays:
        assert sorted(arrays) == ["cos_cache", "sin_cache"]
        for name, expected in zip(("cos_cache", "sin_cache"), ROTARY.tables(40, dtype=kind), strict=True):
            assert arrays[name].tobytes() == expected.tobytes()


def test_config(capsys):
    assert run("export", "model", "--config") == 0
    config = json.loads(capsys.readouterr().out)
    assert config == ROTARY.config()
    assert pf.Rotary.from_config({"model_type": "llama", **config}) == ROTARY


def test_gguf(capsys):
    assert run("export", "llama.json", "--gguf", "qwen2", "-o", "metadata.json") == 0
    assert "wrote metadata.json: Rotary(128, base=500000.0, scaling=" in capsys.readouterr().out
    metadata = json.loads(Path("metadata.json").read_text())
    np.testing.assert_allclose(pf.Rotary.from_gguf(metadata).frequencies, ROTARY.frequencies, rtol=1e-7)


def test_from_gguf(capsys):
    gguf = optional("gguf")
    writer = gguf.GGUFWriter("model.gguf", "qwen2")
    writer.add_key_length(128)
    writer.add_rope_freq_base(1e6)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert run("export", "model.gguf", "--config") == 0
    assert json.loads(capsys.readouterr().out) == pf.Rotary(128, base=1e6).config()
    assert "--layout is only for configs" in error(capsys, "export", "model.gguf", "--config", "--layout", "half")


def test_layers_and_layouts(capsys):
    assert run("export", "gemma.json", "--gguf", "llama", "--layer", "0", "--layout", "interleaved") == 0
    assert json.loads(capsys.readouterr().out)["llama.rope.freq_base"] == 1e4


@each_line("""
    arguments | words
    llama.json | one of the arguments --onnx --gguf --config is required
    llama.json --onnx 4 | --onnx writes an .npz file of two arrays; pass -o FILE.npz, not -
    llama.json --onnx 4 -o nowhere/rope.npz | nowhere
    llama.json --config --dtype float16 | --dtype is only for --onnx
    llama.json --gguf llama | layout='half' differs from layout='interleaved', which llama.cpp uses
    dynamic.json --config | ; give --seq-len, the length
    gemma.json --config | ; give --layer (the index
    . --config | the folder . has no config.json and no params.json
    nowhere --config | nowhere: the file or folder does not exist
""")
def test_errors(arguments, words, capsys):
    assert words in error(capsys, "export", *arguments.split())


@each_line("""
    arguments | words
    hunyuan.json | a config.json cannot express Rotary(128, scaling={'rope_type': 'ntk'
    smollm3.json --layer 3 | the layer has no rotary encoding
""")
def test_encodings_that_no_config_describes(arguments, words, capsys):
    assert run("export", *arguments.split(), "--config") == 1
    assert words in capsys.readouterr().err
