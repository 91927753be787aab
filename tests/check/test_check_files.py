"""Test `check` for files and folders: the reports that the command prints, and errors that name broken files."""

from __future__ import annotations

import json
import os
import pickle
import struct
import sys
import sysconfig
import warnings
import zipfile
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._models.check.report import Finding, Report
from support.command_line import npy, npz, posix, run, safetensors
from support.optional import optional
from support.own_code import LLAMA3
from support.processes import python

CONFIG = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "max_position_embeddings": 8192}
KEYS = ["name", "is", "verdict", "fault", "says", "largest_error", "radians", "first_position"]
FREQUENCIES = pf.Rotary(128, base=5e5).frequencies.astype(np.float32)
NAME = "model.layers.{}.self_attn.rotary_emb.inv_freq"


def stored(values):
    kind = {"float32": "F32", "float16": "F16"}[values.dtype.name]
    return kind, values.shape, values.tobytes()


def model(folder, layers=4, values=FREQUENCIES, config=CONFIG, **more):
    """Write the folder of a model: a config, frequencies of each layer, and other weights. Return the path."""
    folder.mkdir(exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    arrays = {NAME.format(i): values for i in range(layers)}
    arrays |= {f"model.layers.{i}.mlp.up_proj.weight": np.ones((4, 4), np.float32) for i in range(layers)} | more
    safetensors(str(folder / "model.safetensors"), {name: stored(array) for name, array in arrays.items()})
    return str(folder)


# ---- reports --------------------------------------------------------------------------------------------------------


def test_right(tmp_path, capsys):
    assert run("check", str(tmp_path / "none"), model(tmp_path / "model")) == 2
    out, err = capsys.readouterr()
    # other paths are checked after an error
    assert str(tmp_path / "none") in err
    assert run("check", str(tmp_path / "model")) == 0
    assert out.strip() == capsys.readouterr().out.strip()
    name = "right    model.layers.*.self_attn.rotary_emb.inv_freq (4 alike): rotary frequencies: same as base 500000"
    assert name in out
    assert "what to do" not in out


def test_wrong(tmp_path, capsys):
    folder = model(tmp_path / "model", values=FREQUENCIES.astype(np.float16), pe=pf.positional_encoding(100, 64))
    assert run("check", folder) == 1
    out = capsys.readouterr().out
    assert "wrong    model.layers.*.self_attn.rotary_emb.inv_freq (4 alike): rotary frequencies: rounded: " in out
    assert "right    pe: position table: computed by annotated_transformer" in out
    assert out.splitlines()[-2] == "what to do:"
    assert "rounded: keep frequencies, positions and angles in float32" in out


def test_json(tmp_path, capsys):
    folders = [model(tmp_path / "right"), model(tmp_path / "wrong", values=FREQUENCIES.astype(np.float16))]
    assert run("check", *folders, "--json") == 1
    reports = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(report) for report in reports] == [["path", "compared", "findings"]] * 2
    assert [(report["path"], report["compared"]) for report in reports] == [(folder, 4) for folder in folders]
    for report in reports:
        # JSON has a finding for each layer, although the text combines equal layers
        assert [finding["name"] for finding in report["findings"]] == [NAME.format(i) for i in range(4)]
        assert all(list(finding) == KEYS for finding in report["findings"])
    assert reports[1]["findings"][0]["fault"] == "rounded"
    assert reports[1]["findings"][0]["radians"] == pytest.approx(8192 * reports[1]["findings"][0]["largest_error"])


def test_report():
    wrong = Finding("<a>", "rotary tables", "wrong", "values", "row 3", float("inf"), 0.5, 3.0)
    right = Finding("b.0", "position table", "right", None, "same as mae")
    report = Report("there", (right, wrong))
    assert (report.ok, report.compared) == (False, 2)
    assert repr(report) == "<Report: 1 right, 1 wrong, 0 unknown>"
    html = report._repr_html_()
    assert ("&lt;a&gt;" in html, "<a>" in html) == (True, False)
    # JSON cannot express infinity, so the report has null
    assert json.loads(json.dumps(report.to_json()))["findings"][1]["largest_error"] is None
    with pytest.raises(FrozenInstanceError):
        wrong.fault = None
    assert "no positional tensors found" in str(Report("there", ()))


def test_config_by_option(tmp_path, capsys):
    folder = model(tmp_path / "model", config=None)
    assert run("check", folder) == 0
    (tmp_path / "other.json").write_text(json.dumps({**CONFIG, "rope_theta": 1e4}))
    assert run("check", folder, "--config", str(tmp_path / "other.json")) == 1
    assert "base: base 500000, but the config has 10000" in capsys.readouterr().out


def test_nothing_to_check(tmp_path, capsys):
    folder = model(tmp_path / "model", layers=0, config=None)
    assert run("check", folder) == 2
    assert "nothing could be compared" in capsys.readouterr().err
    report = pf.check(folder)
    assert (report.ok, report.compared, report.findings) == (None, 0, ())


# ---- formats --------------------------------------------------------------------------------------------------------


def test_numpy_files(tmp_path):
    np.save(tmp_path / "any name.npy", FREQUENCIES)
    cos, sin = pf.Rotary(64).tables(50)
    np.savez_compressed(tmp_path / "tables.npz", cos=cos, sin=sin, other=1)
    assert [finding.verdict for finding in pf.check(tmp_path / "any name.npy").findings] == ["right"]
    (finding,) = pf.check(tmp_path / "tables.npz").findings
    assert (finding.name, finding.verdict) == ("cos, sin", "right")


def test_index(tmp_path):
    model(tmp_path)
    shard = "model-00001-of-00001.safetensors"
    (tmp_path / "model.safetensors").rename(tmp_path / shard)
    index = tmp_path / "model.safetensors.index.json"
    names = [NAME.format(i) for i in range(4)]
    # the second list adds names of tensors that the file does not contain
    for listed, ok, count in ((names, True, 4), ([*names, "lm_head.weight", NAME.format(4)], False, 5)):
        index.write_text(json.dumps({"weight_map": dict.fromkeys(listed, shard)}))
        for path in (tmp_path, index):
            report = pf.check(path)
            assert (report.ok, len(report.findings)) == (ok, count)
    finding = report.findings[-1]
    assert (finding.name, finding.is_) == (index.name, "index")
    assert f"'lm_head.weight' in {shard}, {NAME.format(4)!r} in model" in finding.says


def test_a_name_in_several_files(tmp_path):
    """Findings name the file if several have a tensor of the same name. Cosines are paired with sines of their file."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    cos, sin = pf.Rotary(128, base=5e5).tables(64)
    wrong = {"inv_freq": FREQUENCIES.astype(np.float16), "cos_cached": cos, "sin_cached": -sin}
    for file, arrays in (("a", wrong), ("b", {"inv_freq": FREQUENCIES, "cos_cached": cos, "sin_cached": sin})):
        np.savez(tmp_path / f"{file}.npz", **arrays)
    np.savez(tmp_path / "c.npz", **{"other.inv_freq": FREQUENCIES})
    assert {finding.name: finding.verdict for finding in pf.check(tmp_path).findings} == {
        "a.npz: inv_freq": "wrong",
        "a.npz: cos_cached, sin_cached": "wrong",
        "b.npz: inv_freq": "right",
        "b.npz: cos_cached, sin_cached": "right",
        "other.inv_freq": "right",
    }


def test_tensors_of_unsupported_types(tmp_path):
    kinds = {NAME.format(0): ("F8_E4M3", (64,), bytes(64)), NAME.format(1): stored(FREQUENCIES)}
    safetensors(str(tmp_path / "model.safetensors"), kinds)
    np.savez(tmp_path / "objects.npz", inv_freq=np.array([1, None]), **{"other.inv_freq": FREQUENCIES})
    for path, kind in ((tmp_path / "model.safetensors", "F8_E4M3"), (tmp_path / "objects.npz", "object")):
        first, second = pf.check(path, config=CONFIG).findings
        assert (first.verdict, first.says) == ("unknown", f"numbers of type {kind} are unsupported")
        assert second.verdict == "right"


@pytest.mark.slow
def test_torch_files_and_tensors(tmp_path):
    torch = optional("torch")
    values = torch.from_numpy(FREQUENCIES.copy())
    torch.save({"state_dict": {"rotary_emb.inv_freq": values.bfloat16(), "w": torch.ones(3)}}, tmp_path / "model.pt")
    (finding,) = pf.check(tmp_path / "model.pt").findings
    assert (finding.name, finding.fault) == ("state_dict.rotary_emb.inv_freq", "rounded")
    assert pf.check({"rotary_emb.inv_freq": torch.nn.Parameter(values)}, config=CONFIG).ok
    # tensors without memory of their own
    empty = {"sparse.inv_freq": values.to_sparse(), "meta.inv_freq": torch.empty(64, device="meta")}
    torch.save({**empty, "other.inv_freq": values.half()}, tmp_path / "model.pt")
    sparse, meta, other = pf.check(tmp_path / "model.pt", config=CONFIG).findings
    assert (sparse.verdict, meta.verdict, other.fault) == ("unknown", "unknown", "rounded")
    assert ("to_dense()" in sparse.says, "on meta" in meta.says) == (True, True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pickle", "in a file of torch", "program"])
def test_pickles_of_more_than_weights(kind, inside, capsys):
    """A pickle with objects other than tensors is an error. Torch's advice to set weights_only=False is omitted."""
    torch = optional("torch")
    path = inside / "model.pt"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(Trap()))
    elif kind == "program":
        with warnings.catch_warnings(action="ignore"):
            torch.jit.save(torch.jit.trace(torch.nn.Identity(), torch.ones(2)), path)
    else:
        torch.save({"inv_freq": torch.ones(4), "more": Trap()}, path)
    # `check` must not emit warnings of torch
    with warnings.catch_warnings(action="error"):
        assert run("check", "model.pt") == 2
    error = capsys.readouterr().err
    assert (
        "model.pt cannot be read as torch weights: the file is damaged, or contains objects other than tensors" in error
    )
    assert "could execute code from the file" in error
    assert "weights_only" not in error
    assert "\x1b" not in error
    assert [file.name for file in inside.iterdir()] == ["model.pt"]


@pytest.mark.slow
def test_pickles_next_to_other_files(tmp_path, capsys):
    """Pickled weights are read if the folder has no safer weight files. Audio filters in .npz are not weight files."""
    torch = optional("torch")
    torch.save({NAME.format(0): torch.from_numpy(FREQUENCIES).half()}, tmp_path / "pytorch_model.bin")
    np.savez(tmp_path / "mel_filters.npz", mel_80=np.ones((80, 201)))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert [finding.fault for finding in pf.check(tmp_path).findings] == ["rounded"]
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "pytorch_model-00002-of-00002.bin"}}))
    assert run("check", str(tmp_path)) == 2
    assert "pytorch_model-00002-of-00002.bin', which does not exist" in capsys.readouterr().err
    assert pf.check(model(tmp_path)).ok


def test_gguf(tmp_path):
    gguf = optional("gguf")
    divisors = FREQUENCIES / pf.Rotary(128, base=5e5, scaling=LLAMA3).frequencies
    for name, values, fault in (("right", divisors, None), ("wrong", np.ones_like(divisors), "scaling")):
        writer = gguf.GGUFWriter(tmp_path / f"{name}.gguf", "llama")
        writer.add_tensor("rope_freqs.weight", values.astype(np.float32))
        for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
            write()
        writer.close()
        (finding,) = pf.check(tmp_path / f"{name}.gguf", config={**CONFIG, "rope_scaling": LLAMA3}).findings
        assert (finding.verdict, finding.fault) == (name, fault)


@pytest.mark.parametrize(("suffix", "package"), [(".pt", "torch"), (".bin", "torch"), (".gguf", "gguf")])
def test_a_package_that_is_missing(suffix, package, tmp_path, monkeypatch, capsys):
    path = tmp_path / f"weights{suffix}"
    path.write_bytes(b"no matter")
    monkeypatch.setitem(sys.modules, package, None)
    assert run("check", str(path)) == 2
    assert f"pip install {package}\n" in capsys.readouterr().err


# ---- bad input ------------------------------------------------------------------------------------------------------


class Trap:
    """An object whose unpickling creates a folder."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def header(entries, size=0, encoding="utf-8", prefix=b""):
    text = prefix + (entries if isinstance(entries, str) else json.dumps(entries)).encode(encoding)
    return len(text).to_bytes(8, "little") + text + bytes(size)


def entry(begin=0, end=256, shape=(64,), kind="F32"):
    return {"dtype": kind, "shape": list(shape), "data_offsets": [begin, end]}


NPY = npy(FREQUENCIES.shape, FREQUENCIES.tobytes(), "<f4")
# an array of 2^40 bytes, of which the file contains none
BOMB = npy((2**38,), descr="<f4")
# a header with a repeated key, of which Python's JSON reader keeps only the second entry
TWICE = f'{{"inv_freq": {json.dumps(entry(kind="I32"))}, "inv_freq": {json.dumps(entry())}}}'
BROKEN = {
    "lying-header.safetensors": (2**62).to_bytes(8, "little") + b"{}",
    "no-object.safetensors": header([1, 2]),
    "outside.safetensors": header({"inv_freq": entry(0, 10**12)}, 16),
    "shape.safetensors": header({"inv_freq": entry(0, 16, (10**12,))}, 16),
    "negative.safetensors": header({"inv_freq": entry(0, 16, (-4,))}, 16),
    "words.safetensors": header({"inv_freq": {"dtype": "F32", "shape": "abc", "data_offsets": [0, 16]}}, 16),
    "deep.safetensors": (200000).to_bytes(8, "little") + b"[" * 200000,
    "gap.safetensors": header({"inv_freq": entry(8, 264)}, 264),
    "overlap.safetensors": header({"a.inv_freq": entry(), "b.inv_freq": entry()}, 256),
    "more.safetensors": header({"inv_freq": entry()}, 264),
    "false.safetensors": header({"inv_freq": entry(False)}, 256),
    "fraction.safetensors": header({"inv_freq": entry(0, 256.0)}, 256),
    "metadata.safetensors": header({"__metadata__": 5, "inv_freq": entry()}, 256),
    "metadata-numbers.safetensors": header({"__metadata__": {"a": 1}, "inv_freq": entry()}, 256),
    "metadata-list.safetensors": header({"__metadata__": [], "inv_freq": entry()}, 256),
    "type.safetensors": header({"inv_freq": entry(kind="F31")}, 256),
    "more-keys.safetensors": header({"inv_freq": {**entry(), "stride": [1]}}, 256),
    "large.safetensors": header({"inv_freq": entry(0, 0, (2**40, 2**40, 0))}),
    "utf-16.safetensors": header({"inv_freq": entry()}, 256, "utf-16"),
    "space.safetensors": header({"inv_freq": entry()}, 256, prefix=b" "),
    "twice.safetensors": header(TWICE, 256),
    "twice.npz": npz({"a.inv_freq": NPY, "a.inv_freq.npy": NPY}),
    "bomb.npz": npz({"pe.npy": BOMB + bytes(10**7)}, zipfile.ZIP_DEFLATED),
    "no-archive.npz": b"PK\x03\x04nothing",
    "pickle.npy": npy((1,), pickle.dumps(Trap()), "|O"),
    "pickle.pt": pickle.dumps(Trap()),
    "lying.npy": BOMB,
    "empty.gguf": b"",
    # the header announces an array of 2^40 integers, which the file does not contain
    "array.gguf": b"GGUF" + struct.pack("<IQQQ3sIIQ", 3, 0, 1, 3, b"a.b", 9, 0, 2**40),
    "cut.gguf": b"GGUF" + bytes(8),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name.endswith((".pt", ".gguf")) else []) for name in BROKEN]
)
def test_broken_files(name, inside, capsys):
    for suffix, package in ((".pt", "torch"), (".gguf", "gguf")):
        if name.endswith(suffix):
            optional(package)
    written = inside / ("model.pt" if name.endswith(".pt") else name)
    written.write_bytes(BROKEN[name])
    for path in (written, inside):
        assert run("check", str(path)) == 2
        error = capsys.readouterr().err
        assert written.name in error
        assert len(error) < 600
        assert [file.name for file in inside.iterdir()] == [written.name]


def test_a_folder_in_an_archive(tmp_path):
    (tmp_path / "model.npz").write_bytes(npz({"layers/": b"", "layers/rotary.inv_freq.npy": NPY}))
    (finding,) = pf.check(tmp_path / "model.npz").findings
    assert (finding.name, finding.verdict) == ("layers/rotary.inv_freq", "right")


MEMORY = """
import re, sys, posenc_fast as pf
def most():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1))
pf.check({"pe": pf.positional_encoding(50, 64)})
before = most()
(finding,) = pf.check(sys.argv[1]).findings
print(finding.verdict, most() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the test reads the memory use from /proc")
def test_tables_of_zeros_take_their_own_memory(tmp_path):
    """For compressed arrays, `check` needs the memory of the unpacked arrays, and less than one array more."""
    size = 64 << 20
    zeros = np.zeros((size // 512, 128), np.float32)
    np.savez_compressed(tmp_path / "zeros.npz", cos_cached=zeros, sin_cached=zeros)
    verdict, used = python(MEMORY, tmp_path / "zeros.npz").stdout.split()
    assert verdict == "unknown"
    # without the GIL, Python's allocator keeps about 50 MB more, whatever the size of the arrays
    kept = 64 << 20 if sysconfig.get_config_var("Py_GIL_DISABLED") else 0
    assert int(used) * 1024 < 2.75 * size + kept


def test_tensors_too_large_to_read_are_unknown(tmp_path):
    """The verdict of a tensor above the limit of 1 GiB is "unknown".

    The test file is sparse, so it takes little space on the disk.
    """
    path = tmp_path / "pe.npy"
    rows = 2**30 // 256
    with path.open("wb") as file:
        file.write(npy((rows + 1, 64), descr="<f4"))
        file.truncate(2**30 + 4096)
    (finding,) = pf.check(path).findings
    assert (finding.verdict, finding.says) == ("unknown", f"{256 * (rows + 1)} bytes exceed the limit of {2**30}")


NAMES_OF_NO_FILES = ("../model.safetensors", "/etc/passwd", "model.safetensors.index.json", "..", "no", 1)


@pytest.mark.parametrize("weight_map", [*({"a": name} for name in NAMES_OF_NO_FILES), ["a"], None], ids=str)
def test_broken_indexes(weight_map, tmp_path, capsys):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    for path in (index, tmp_path):
        assert run("check", str(path)) == 2
        assert str(index) in capsys.readouterr().err


@pytest.mark.parametrize(("text", "words"), [
    ("[1]", "must contain a JSON object, not a list"),
    ("[" * 100000, "cannot be read as JSON"),
    ('{"rope_theta": 1e6, "rope_theta": 1e4}', "'rope_theta' occurs more than once"),
], ids=lambda text: text[:4])  # fmt: skip
def test_broken_configs(text, words, tmp_path, capsys):
    model(tmp_path)
    (tmp_path / "config.json").write_text(text, encoding="latin-1")
    assert run("check", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert ("config.json" in error, words in error) == (True, True), error


@pytest.mark.parametrize("kind", ["folder", pytest.param("pipe", marks=posix), pytest.param("nowhere", marks=posix)])
def test_a_config_that_is_no_file(kind, tmp_path, capsys):
    config = tmp_path / "config.json"
    {"folder": config.mkdir, "pipe": lambda: os.mkfifo(config), "nowhere": lambda: config.symlink_to("gone")}[kind]()
    assert run("check", model(tmp_path, config=None)) == 2
    assert "config.json" in capsys.readouterr().err


@posix
def test_no_regular_file(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert run("check", str(tmp_path / "pipe.safetensors")) == 2
    assert "not a regular file" in capsys.readouterr().err
    # in a folder, `check` ignores weight files that are not regular files, such as pipes
    assert len(pf.check(model(tmp_path)).findings) == 4
    (tmp_path / "loop.safetensors").symlink_to("loop.safetensors")
    (tmp_path / "folder.npz").mkdir()
    assert len(pf.check(tmp_path).findings) == 4


def test_bad_paths(tmp_path, capsys):
    # an empty path must be an error: it is what a shell passes for "$MODEL" if the variable is not set
    assert run("check", "") == 2
    assert "the path is empty; pass the path of a folder or a file" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("pe")
    assert run("check", str(tmp_path / "notes.txt")) == 2
    assert "must be a folder" in capsys.readouterr().err
