"""The command identify: tables and rotary encodings, in all files that have them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import posenc_fast as pf
from support.command_line import run
from support.optional import optional

pytestmark = pytest.mark.usefixtures("inside")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_identify(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command table writes, bfloat16 as raw bytes, identify reads."""
    if dtype == "bfloat16":
        optional("ml_dtypes")
    arguments = ["40", "64", "-o", "o.npy", "--layout", "concatenated", "--start", "2", "--dtype", dtype]
    assert run("table", *arguments, "--no-compare") == 0
    capsys.readouterr()
    assert run("identify", "o.npy") == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = dict(line.split(None, 1) for line in out.splitlines())
    assert lines["presets"] == "marian, sockeye, tensorflow_text, transformer_xl"
    assert lines["encoding"] == "sinusoidal(64, layout='concatenated')"
    assert lines["positions"] == "2, 3, .."
    assert 0 <= float(lines["error"]) < 3e-3


def test_identify_padding(capsys: pytest.CaptureFixture[str]) -> None:
    table = pf.presets.fairseq(16).table(40)
    table[1] = 0
    np.save("o.npy", table)
    assert run("identify", "o.npy") == 0
    assert "zero rows   1\n" in capsys.readouterr().out


def test_identify_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("o.npy", np.eye(20))
    assert run("identify", "o.npy") == 1
    assert re.fullmatch(r"no known encoding; the closest is \w+, off by [0-9.e-]+\n", capsys.readouterr().out)
    np.save("o.npy", pf.sinusoidal(4).table(40, start=1000))
    assert run("identify", "o.npy", "--start", "1000") == 0
    assert run("identify", "o.npy", "--start", "999") == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_identify_rotary(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables, turned vectors and frequencies of an .npz file, bfloat16 as raw bytes."""
    number_type = np.dtype(dtype) if dtype == "float32" else pytest.importorskip("ml_dtypes").bfloat16
    rotary, positions = pf.presets.flux(), pf.presets.positions.grid(2, 2, 4)
    cos, sin = rotary.tables(positions, dtype=number_type)
    x = np.random.default_rng(0).normal(size=(2, 16, 128)).astype(number_type)
    np.savez("tables.npz", cos=cos, sin=sin, positions=positions)
    np.savez("vectors.npz", x=x, turned=rotary.apply(x, positions=positions), positions=positions)
    np.savez("frequencies.npz", frequencies=pf.presets.gpt_oss().frequencies.astype(number_type), head_dim=64)
    for name, preset in (("tables", "flux"), ("vectors", "flux"), ("frequencies", "gpt_oss")):
        assert run("identify", f"{name}.npz") == 0
        assert preset in capsys.readouterr().out.splitlines()[0]


def test_identify_rotary_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("o.npz", frequencies=np.array([0.5, 0.7, 0.1, 0.2]))
    assert run("identify", "o.npz") == 1
    assert "no known rotary encoding" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arrays", "more", "words"),
    [
        (
            {"cosines": np.ones(4), "sin": np.ones(4)},
            [],
            "o.npz has an array 'cosines', which is none of frequencies, cos, sin, x",
        ),
        ({"a": np.ones(4), "pos_embed": np.ones(4)}, [], "choose one with --key; the keys are pos_embed, a"),
        ({"a": np.ones(4), "pe": np.ones(4)}, ["--key", "PE"], "no key 'PE'; is 'pe' meant?; the keys are a, pe"),
        ({}, ["--key", "pe"], "o.npz has no key 'pe'; the keys are none"),
        ({"a": np.ones((2, 3, 4))}, [], "o.npz: table has shape (2, 3, 4)"),
        ({"frequencies": np.ones(4)}, ["--start", "3"], "--start is for a table"),
        ({"x": np.ones((4, 4))}, [], "x needs turned"),
        ({"frequencies": np.array([None])}, [], "o.npz cannot be read as an .npz file of numbers"),
    ],
)
def test_identify_rotary_bad_files(
    arrays: Any, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("o.npz", **arrays)
    assert run("identify", "o.npz", *more) == 2
    assert words in capsys.readouterr().err
    Path("o.npz").write_bytes(b"no archive")
    assert run("identify", "o.npz") == 2
    assert "o.npz cannot be read as an .npz file of numbers" in capsys.readouterr().err


# ---- keys -----------------------------------------------------------------------------------------------------------


def saved(suffix: str, arrays: dict[str, Any]) -> str:
    """The name of a file that has the arrays."""
    if suffix == "npz":
        np.savez("o.npz", **arrays)
    else:
        optional("safetensors.numpy").save_file(arrays, "o.safetensors")
    return f"o.{suffix}"


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(200, 64), (1, 200, 64), (200, 1, 64)])
def test_table_by_key(suffix: str, dtype: str, shape: tuple[int, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Buffers of torch modules have an axis more."""
    wanted = np.dtype(dtype) if dtype == "float32" else pytest.importorskip("ml_dtypes").bfloat16
    table = pf.presets.whisper(64).table(200, dtype=wanted).reshape(shape)
    file = saved(suffix, {"encoder.pos": table, "weight": np.eye(20, dtype=np.float32)})
    assert run("identify", file, "--key", "encoder.pos") == 0
    assert "whisper" in capsys.readouterr().out.splitlines()[0]
    assert run("identify", file, "--key", "encoder.pos", "--start", "1") == 1
    assert run("identify", file, "--key", "weight") == 1


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_only_one_array_needs_no_key(suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("identify", saved(suffix, {"pe": pf.presets.whisper(64).table(200)})) == 0
    assert "whisper" in capsys.readouterr().out
    assert run("identify", saved(suffix, {"pe": np.eye(20)})) == 1


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_frequencies_by_key(suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    frequencies = np.unique(pf.presets.llama(128).frequencies)[::-1].astype(np.float32)
    file = saved(suffix, {"rotary.inv_freq": frequencies, "pe": np.eye(20, dtype=np.float32)})
    assert run("identify", file, "--key", "rotary.inv_freq") == 0
    assert "llama" in capsys.readouterr().out.splitlines()[0]


def test_rotary_tables_in_safetensors(capsys: pytest.CaptureFixture[str]) -> None:
    cos, sin = pf.presets.llama(64).tables(100)
    assert run("identify", saved("safetensors", {"cos": cos, "sin": sin})) == 0
    assert "llama" in capsys.readouterr().out.splitlines()[0]


def test_written_npz_is_identified(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("table", "100", "64", "--preset", "fairseq", "-o", "o.npz") == 0
    capsys.readouterr()
    assert run("identify", "o.npz") == 0
    assert "fairseq" in capsys.readouterr().out


def test_bad_safetensors(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved("safetensors", {"a": np.zeros((9, 4))})
    whole = Path(file).read_bytes()
    for content in (b"", b"short", b"\xff" * 100, whole[:-9]):
        Path("bad.safetensors").write_bytes(content)
        assert run("identify", "bad.safetensors") == 2
        assert "error: bad.safetensors cannot be read as a safetensors file" in capsys.readouterr().err
    assert run("identify", "missing.safetensors") == 2
    assert "error: missing.safetensors: No such file or directory\n" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert run("identify", file) == 2
    assert "pip install 'posenc-fast[safetensors]'" in capsys.readouterr().err


def test_type_that_numpy_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    file = saved("safetensors", {"f8": np.zeros((9, 4), ml_dtypes.float8_e4m3fn), "b": np.zeros(4)})
    assert run("identify", file, "--key", "f8") == 2
    assert "o.safetensors cannot be read as numbers of NumPy, in 'f8'" in capsys.readouterr().err
