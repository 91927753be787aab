"""Test `check` with configs. A config has its own verdict. If it cannot be read, no rotary tensor is judged right."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._models.check.config import parts_of
from posenc_fast._models.config.reader import MOST_KINDS
from support.command_line import run, safetensors

LLAMA = {"model_type": "llama", "hidden_size": 1024, "num_attention_heads": 8}
GEMMA = {"model_type": "gemma3_text", "head_dim": 256, "num_hidden_layers": 12, "rope_theta": 1e6}
# frequencies of base 10000, although some configs below have another base
FREQUENCIES = (1e4 ** (-np.arange(64) / 64)).astype(np.float32)
COS, SIN = pf.Rotary(128).tables(100)
NAME = "model.layers.0.self_attn.rotary_emb.inv_freq"
SCALING = {"rope_type": "linear", "factor": 2}
PARAMETERS = {"full_attention": {"rope_theta": 1e6}}
PARAMETERS_OF_ONE_KIND = {"rope_parameters": PARAMETERS, "layer_types": ["full_attention", "x"]}
# keys: names of cases. Values: (config, expected verdict, words of the reason).
# fmt: off
UNREAD = {
    "base as text": ({**LLAMA, "rope_theta": "500000"}, "wrong", "rope_theta"),
    "base below 0": ({**LLAMA, "rope_theta": -1}, "wrong", "must be a finite positive number, not -1"),
    "width as text": ({**LLAMA, "head_dim": "wide"}, "wrong", "'head_dim'] must be an integer, not 'wide'"),
    "unknown rope_type": ({**LLAMA, "rope_scaling": {"rope_type": "liner", "factor": 4}}, "wrong", "'liner'"),
    "misspelt factor": ({**LLAMA, "rope_scaling": {"rope_type": "linear", "fctor": 4}}, "wrong", "did you mean factor"),
    "misspelt base": ({**LLAMA, "rope_thet": 5e5}, "wrong", "did you mean rope_theta"),
    "two bases": ({**LLAMA, "rope_theta": 5e5, "rope_parameters": {"rope_theta": 1e6}}, "wrong", "different bases"),
    "two scalings": ({**LLAMA, "rope_scaling": SCALING, "rope_parameters": {"rope_theta": 1}}, "wrong", "both rope_s"),
    "scaling as a list": ({**LLAMA, "rope_scaling": [1]}, "wrong", "must be a mapping"),
    "number of layers as a bool": ({**GEMMA, "layer_types": 7, "num_hidden_layers": True}, "wrong", "not True"),
    "kinds of layers as a number": ({**GEMMA, "layer_types": 7}, "wrong", "must be a sequence of strings, not 7"),
    "a kind of layers without parameters": ({**GEMMA, **PARAMETERS_OF_ONE_KIND}, "wrong", "no parameters for x"),
    "rotary encoding and a part": ({**LLAMA, "text_config": {"text_config": {"model_type": []}}}, "wrong", "also contains"),
    "yarn without a length": ({**LLAMA, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "unknown", "lacks"),
    "no heads": ({"model_type": "llama", "hidden_size": 1024, "rope_theta": 5e5}, "unknown", "num_attention_heads"),
    "unknown type": ({"model_type": "no_such", "head_dim": 128, "rope_theta": 5e5}, "unknown", "'no_such'"),
    "unknown architecture": ({"model_type": "no_such", "architectures": ["No"], "head_dim": 8}, "unknown", "'no_such'"),
    "numbers as names": ({"model_type": 1, "architectures": 5}, "unknown", "config['model_type']=1 is unknown"),
    "nothing": ({}, "unknown", "no model_type"),
    "gpt2": ({"model_type": "gpt2", "n_embd": 1024, "n_head": 8}, "unknown", "no rotary encoding"),
    "bert": ({"model_type": "bert", "hidden_size": 1024, "num_attention_heads": 8}, "unknown", "no rotary encoding"),
}
# fmt: on


def folder_of(path, config, **arrays):
    (path / "config.json").write_text(json.dumps(config))
    stored = {name: ("F32", array.shape, array.tobytes()) for name, array in arrays.items()}
    safetensors(str(path / "model.safetensors"), {"w": ("F32", (2,), bytes(8)), **stored})
    return str(path)


@pytest.mark.parametrize(("config", "verdict", "word"), UNREAD.values(), ids=UNREAD)
def test_configs_that_cannot_be_read(config, verdict, word, tmp_path, capsys):
    """The config has the expected verdict, alone and beside tensors. The verdict of the tensors is "unknown"."""
    ok, status = (False, 1) if verdict == "wrong" else (None, 2)
    report = pf.check(config)
    (finding,) = report.findings
    assert (finding.is_, finding.verdict) == ("config", verdict)
    assert word in finding.says
    assert (report.ok, report.compared) == (ok, verdict == "wrong")
    for arrays in ({NAME: FREQUENCIES}, {"rotary_emb.inv_freq": FREQUENCIES}, {"cos_cached": COS, "sin_cached": SIN}):
        report = pf.check(arrays, config=config)
        tensor, of_config = report.findings
        assert (tensor.verdict, of_config.is_, of_config.verdict) == ("unknown", "config", verdict)
        assert word in of_config.says
        assert of_config.name in tensor.says
        assert report.ok is ok
    for arrays in ({}, {NAME: FREQUENCIES}):
        assert run("check", folder_of(tmp_path, config, **arrays)) == status
    captured = capsys.readouterr()
    assert word in captured.out
    assert ("nothing could be compared" in captured.err) == (status == 2)


def test_rounded_frequencies_are_wrong_beside_any_config():
    finding, _ = pf.check({NAME: FREQUENCIES.astype(np.float16)}, config=UNREAD["unknown type"][0]).findings
    assert (finding.verdict, finding.fault) == ("wrong", "rounded")


def test_one_part_that_cannot_be_read():
    text = {**LLAMA, "rope_theta": 1e4}
    vision = {"model_type": "qwen2_vl_vision", "embed_dim": 1280, "num_heads": 16}
    wrong = {"model_type": "llava", "text_config": {**text, "rope_thet": 5e5}, "vision_config": vision}
    right = {**wrong, "text_config": text}
    for config, verdicts, *name in ((right, ["right"]), (wrong, ["unknown", "wrong"], "config['text_config'] (llama)")):
        findings = pf.check({NAME: FREQUENCIES}, config=config).findings
        assert [finding.verdict for finding in findings] == verdicts
        assert [finding.name for finding in findings[1:]] == name


def test_a_head_of_another_width():
    report = pf.check({"cos_cached": COS, "sin_cached": SIN}, config={**LLAMA, "head_dim": 256})
    assert (report.findings[0].verdict, report.ok) == ("unknown", None)
    assert "128" in report.findings[0].says


def test_frequencies_that_were_cut_in_a_folder(tmp_path, capsys):
    """If no tensor could be compared, the command fails with exit status 2, although the config is right."""
    folder = folder_of(tmp_path, LLAMA, **{NAME: FREQUENCIES[:-1]})
    assert [finding.verdict for finding in pf.check(folder).findings] == ["unknown"]
    assert run("check", folder) == 2
    assert "nothing could be compared" in capsys.readouterr().err


def test_tables_of_texts_with_a_config_of_several_axes():
    """Text tokens have equal positions on all axes, so their tables can be compared with a config of several axes."""
    scaling = {"type": "mrope", "mrope_section": [16, 24, 24]}
    config = {**LLAMA, "model_type": "qwen2_vl_text", "rope_theta": 1e6, "rope_scaling": scaling}
    for base, verdict in ((1e6, "right"), (1e4, "unknown")):
        cos, sin = pf.Rotary(128, base=base).tables(100)
        (finding,) = pf.check({"cos_cached": cos, "sin_cached": sin}, config=config).findings
        assert finding.verdict == verdict


def test_a_config_alone(tmp_path, capsys):
    config = {**LLAMA, "rope_theta": 5e5, "max_position_embeddings": 8192}
    for source in (config, folder_of(tmp_path, config), str(tmp_path / "config.json")):
        report = pf.check(source)
        (finding,) = report.findings
        assert (finding.is_, finding.verdict) == ("config", "right")
        assert "base 500000, 64 pairs; 8192 positions; the program that loads" in finding.says
        assert (report.ok, report.compared) == (True, 1)
    assert run("check", str(tmp_path)) == 0
    *_, load, check = capsys.readouterr().out.splitlines()
    assert (load.strip(), check.strip()) == ("model = AutoModel.from_pretrained(..)", "posenc_fast.check(model)")
    assert "AutoModel.from_pretrained(..)" in report._repr_html_()


GEMMA_LINEAR = {**GEMMA, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
DYNAMIC = {**LLAMA, "max_position_embeddings": 2048, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}


@pytest.mark.parametrize(("config", "words"), [
    (GEMMA_LINEAR, "sliding_attention: base 10000, 128 pairs"),
    (GEMMA_LINEAR, "full_attention: base 1e+06 with linear scaling of factor 8, 128 pairs"),
    (DYNAMIC, "2048 tokens: "),
    (DYNAMIC, "2049 tokens: "),
], ids=str)  # fmt: skip
def test_layers_and_lengths_that_differ(config, words):
    (finding,) = pf.check(config).findings
    assert (finding.verdict, words in finding.says) == ("right", True)


@pytest.mark.parametrize("more", [
    {"layer_types": [f"kind {i}" for i in range(99_999)], "num_hidden_layers": 99_999},
    {f"{i}_config": LLAMA for i in range(64)},
    {f"key {i}": i for i in range(4096)},
], ids=["kinds", "parts", "keys"])  # fmt: skip
def test_configs_larger_than_any_model_has(more):
    report = pf.check({NAME: FREQUENCIES}, config={**GEMMA, **more})
    assert [finding.verdict for finding in report.findings] == ["unknown", "unknown"]
    assert re.search(f"more than {MOST_KINDS} layers|at most 64 parts of a config", report.findings[1].says)


def test_layers_with_a_base_each():
    bases = [1e4, 5e5, 0, 1e4, 2e4]
    config = {**LLAMA, "model_type": "granite_swa", "layer_rope_theta": bases, "num_hidden_layers": 5}
    assert {rotary.base for rotary in parts_of(config).rotaries} == {1e4, 5e5, 2e4}
    for count, verdict in ((MOST_KINDS, "right"), (MOST_KINDS + 1, "unknown")):
        config |= {"layer_rope_theta": [1e4 + i for i in range(count)], "num_hidden_layers": count}
        assert parts_of(config).parts[0].verdict == verdict
