"""Test `posenc-fast export`: tables for ONNX, GGUF metadata, parameters of a config, and bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest

import posenc_fast as pf
from support.command_line import error, run
from support.optional import optional
from support.own_code import LLAMA3

CONFIG = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "rope_scaling": LLAMA3, "hidden_size": 4096}
ROTARY = pf.Rotary(128, base=5e5, scaling=LLAMA3)
GEMMA = {
    "model_type": "gemma3_text", "head_dim": 256, "num_hidden_layers": 26, "rope_theta": 1e6,
    "rope_local_base_freq": 1e4,
}  # fmt: skip


def written(path, config=CONFIG):
    path.write_text(json.dumps(config))
    return str(path)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_onnx(dtype, tmp_path, capsys):
    out = tmp_path / "rope.npz"
    arguments = ["--onnx", "40", "--dtype", dtype, "--num-heads", "32", "-o", str(out)]
    assert run("export", written(tmp_path / "config.json"), *arguments) == 0
    said = capsys.readouterr().out
    assert f"wrote {out}: shape (40, 64), {dtype}" in said
    assert "interleaved=0, rotary_embedding_dim=0, num_heads=32" in said
    kind = optional("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    with np.load(out) as arrays:
        assert sorted(arrays) == ["cos_cache", "sin_cache"]
        for name, expected in zip(("cos_cache", "sin_cache"), ROTARY.tables(40, dtype=kind), strict=True):
            assert arrays[name].tobytes() == expected.tobytes()


def test_config(tmp_path, capsys):
    folder = tmp_path / "model"
    folder.mkdir()
    written(folder / "params.json", {**CONFIG, "model_type": "qwen2"})
    assert run("export", str(folder), "--config") == 0
    config = json.loads(capsys.readouterr().out)
    assert config == ROTARY.config()
    assert pf.Rotary.from_config({"model_type": "llama", **config}) == ROTARY


def test_gguf(tmp_path, capsys):
    out = tmp_path / "metadata.json"
    assert run("export", written(tmp_path / "config.json"), "--gguf", "qwen2", "-o", str(out)) == 0
    assert f"wrote {out}: Rotary(128, base=500000.0, scaling=" in capsys.readouterr().out
    metadata = json.loads(out.read_text())
    np.testing.assert_allclose(pf.Rotary.from_gguf(metadata).frequencies, ROTARY.frequencies, rtol=1e-7)


def test_from_gguf(tmp_path, capsys):
    gguf = optional("gguf")
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "qwen2")
    writer.add_key_length(128)
    writer.add_rope_freq_base(1e6)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert run("export", str(tmp_path / "model.gguf"), "--config") == 0
    assert json.loads(capsys.readouterr().out) == pf.Rotary(128, base=1e6).config()
    err = error(capsys, "export", str(tmp_path / "model.gguf"), "--config", "--layout", "half")
    assert "--layout is only for configs" in err


def test_layers_and_layouts(tmp_path, capsys):
    path = written(tmp_path / "config.json", GEMMA)
    for layer, base in ((0, 1e4), (5, 1e6)):
        assert run("export", path, "--gguf", "llama", "--layer", str(layer), "--layout", "interleaved") == 0
        assert json.loads(capsys.readouterr().out)["llama.rope.freq_base"] == base


REFUSED = {
    "nothing to write": (["--onnx", "4", "--config"], "not allowed with"),
    "no target": ([], "one of the arguments --onnx --gguf --config is required"),
    "no file": (["--onnx", "4"], "--onnx writes an .npz file of two arrays; pass -o FILE.npz, not -"),
    "no such folder": (["--onnx", "4", "-o", "nowhere/rope.npz"], "nowhere"),
    "no length": (["--onnx", "0", "-o", "rope.npz"], "length"),
    "heads of a config": (["--config", "--num-heads", "4"], "--num-heads is only for --onnx"),
    "a type of a config": (["--config", "--dtype", "float16"], "--dtype is only for --onnx"),
    "another layout": (["--gguf", "llama"], "layout='half' differs from layout='interleaved', which llama.cpp uses"),
    "an architecture": (["--gguf", "lama"], "did you mean 'llama'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, inside, capsys):
    arguments, words = REFUSED[name]
    assert words in error(capsys, "export", written(inside / "config.json"), *arguments)
    assert [file.name for file in inside.iterdir()] == ["config.json"]


def test_errors_name_options(tmp_path, capsys):
    dynamic = {"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048,
            "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}  # fmt: skip
    for config, words in ((dynamic, "; give --seq-len, the length"), (GEMMA, "; give --layer (the index")):
        assert words in error(capsys, "export", written(tmp_path / "config.json", config), "--config")


def test_missing_models(tmp_path, capsys):
    words = "has no config.json and no params.json"
    assert words in error(capsys, "export", str(tmp_path), "--config")
    assert "config.json" in error(capsys, "export", str(tmp_path / "config.json"), "--config")
    assert "nowhere: the file or folder does not exist" in error(
        capsys, "export", str(tmp_path / "nowhere"), "--config"
    )


def test_encodings_that_no_config_describes(tmp_path, capsys):
    hunyuan = {"model_type": "hunyuan_v1_dense", "head_dim": 128, "rope_theta": 1e4,
            "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}}  # fmt: skip
    assert run("export", written(tmp_path / "config.json", hunyuan), "--config") == 1
    assert "a config.json cannot express Rotary(128, scaling={'rope_type': 'ntk'" in capsys.readouterr().err
    nope = {"model_type": "smollm3", "hidden_size": 64, "num_attention_heads": 4}
    assert run("export", written(tmp_path / "config.json", nope), "--config", "--layer", "3") == 1
    assert "the layer has no rotary encoding" in capsys.readouterr().err
