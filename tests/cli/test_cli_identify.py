"""Test `posenc-fast identify`: tables and rotary encodings in files of every format."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._models.check.arrays import open_archive
from support.command_line import error, npy, npz, run, safetensors
from support.optional import optional

pytestmark = pytest.mark.usefixtures("inside")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_identify(dtype, capsys):
    """`identify` reads each dtype that `table` writes. bfloat16 is stored as raw bytes of type |V2."""
    if dtype == "bfloat16":
        optional("ml_dtypes")
    arguments = ["40", "64", "-o", "o.npy", "--layout", "concatenated", "--start", "2", "--dtype", dtype]
    assert run("table", *arguments) == 0
    capsys.readouterr()
    assert run("identify", "o.npy") == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = dict(line.split(None, 1) for line in out.splitlines())
    assert lines["presets"] == "marian, sockeye, tensorflow_text, transformer_xl"
    assert lines["encoding"] == "sinusoidal(64, layout='concatenated')"
    assert lines["positions"] == "2, 3, .."
    assert 0 <= float(lines["error"]) < 3e-3
    assert lines["call"] == "posenc_fast.sinusoidal(64, layout='concatenated')"


@pytest.mark.filterwarnings("error")
def test_signalling_nan(capsys):
    """For a table with a signalling NaN, the command prints only its error, not the warning that NumPy emits."""
    table = pf.sinusoidal(8).table(40)
    table.view(np.uint32)[3, 3] = 0x7F800001
    np.save("o.npy", table)
    assert error(capsys, "identify", "o.npy").startswith("o.npy: table has values that are not finite")


def test_identify_nothing(capsys):
    np.save("o.npy", np.eye(20))
    assert run("identify", "o.npy") == 1
    assert capsys.readouterr().out == "no known encoding, and no preset is close\n"
    np.save("o.npy", pf.sinusoidal(64).table(40) + 0.1)
    assert run("identify", "o.npy") == 1
    assert re.fullmatch(r"no known encoding; the closest is \w+, off by [0-9.e-]+\n", capsys.readouterr().out)
    np.save("o.npy", pf.sinusoidal(4).table(40, start=1000))
    assert run("identify", "o.npy", "--start", "1000") == 0
    assert run("identify", "o.npy", "--start", "999") == 1


ONES = np.ones(4)


@pytest.mark.parametrize(
    ("arrays", "options", "words"),
    [
        ({"cosines": ONES, "sin": ONES}, "", "(frequencies, cos, sin, x, turned, positions, head_dim), but 'cosines' "),
        ({"a": ONES, "pos_embed": ONES}, "", "but 'a' is not; the keys are pos_embed, a"),
        ({"a": ONES, "pe": ONES}, "--key PE", "no key 'PE'; the keys are a, pe; did you mean 'pe'?"),
        ({}, "", "o.npz contains no arrays"),
        ({"frequencies": ONES}, "--start 3", "--start is for a table"),
        ({"frequencies": np.array([None])}, "", "o.npz cannot be read as an .npz file of numbers"),
    ],
)
def test_identify_rotary_bad_files(arrays, options, words, capsys):
    np.savez("o.npz", **arrays)
    assert words in error(capsys, "identify", "o.npz", *options.split())


# ---- keys -----------------------------------------------------------------------------------------------------------


def saved(suffix, arrays):
    """Write arrays to an .npz or .safetensors file, and return the name of the file."""
    if suffix == "npz":
        np.savez("o.npz", **arrays)
    else:
        optional("safetensors.numpy").save_file(arrays, "o.safetensors")
    return f"o.{suffix}"


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_table_by_key(suffix, capsys):
    """Option --key selects one of several tables by its name. The table may have an axis of length 1."""
    table = pf.presets.whisper(64).table(200, dtype=optional("ml_dtypes").bfloat16)[:, np.newaxis]
    file = saved(suffix, {"encoder.pos": table, "weight": np.eye(20)})
    assert run("identify", file, "--key", "encoder.pos") == 0
    assert "whisper" in capsys.readouterr().out.splitlines()[0]
    assert run("identify", file, "--key", "weight") == 1
    assert run("identify", saved(suffix, {"pe": table})) == 0


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_identify_rotary(suffix, dtype, capsys):
    """Identify tables, rotated vectors and frequencies. An .npz file has bfloat16 as raw bytes."""
    wanted = np.dtype(dtype) if dtype == "float32" else pytest.importorskip("ml_dtypes").bfloat16
    rotary, positions = pf.presets.flux(), np.ascontiguousarray(pf.presets.positions.grid(2, 2, 4))
    cos, sin = rotary.tables(positions, dtype=wanted)
    x = np.random.default_rng(0).normal(size=(2, 16, 128)).astype(wanted)
    turned = rotary.apply(x, positions=positions)
    frequencies = pf.presets.gpt_oss().frequencies.astype(wanted)
    inverse = np.unique(pf.presets.llama(128).frequencies)[::-1].astype(np.float32)
    for preset, arrays, options in [
        ("flux", {"cos": cos, "sin": sin, "positions": positions}, []),
        ("flux", {"x": x, "turned": turned, "positions": positions}, []),
        ("gpt_oss", {"frequencies": frequencies, "head_dim": np.array(64)}, []),
        ("llama", {"rotary.inv_freq": inverse, "pe": np.eye(20)}, ["--key", "rotary.inv_freq"]),
    ]:
        assert run("identify", saved(suffix, arrays), *options) == 0
        assert preset in capsys.readouterr().out.splitlines()[0]
    assert run("identify", saved(suffix, {"frequencies": np.array([0.5, 0.7, 0.1, 0.2])})) == 1
    assert "no known rotary encoding" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "shape", "size", "words"),
    [
        ("F8_E4M3", (9, 4), 36, r"numbers of NumPy \(tensor 'a'\): the type F8_E4M3 is unsupported"),
        ("F32", (9, 5), 144, r"a safetensors file: 'a' has 144 bytes, but shape \[9, 5\] and type F32 need 180"),
        ("F32", (10**30,), 144, "a safetensors file: the header has the number 10{30}, which is not an integer"),
    ],
)
def test_bad_arrays_of_safetensors(kind, shape, size, words, capsys):
    safetensors("o.safetensors", {"a": (kind, shape, bytes(size)), "b": ("F64", (4,), bytes(32))})
    err = error(capsys, "identify", "o.safetensors", "--key", "a")
    assert re.match(rf"o.safetensors cannot be read as {words}", err)


@pytest.mark.parametrize("installed", [True, False], ids=["ml_dtypes", "no-ml_dtypes"])
def test_types_of_safetensors(installed, monkeypatch):
    """The command reads safetensors files without the package safetensors."""
    if installed:
        optional("ml_dtypes")
    else:
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    # all 65536 bit patterns of bfloat16, including NaN, infinities and subnormal numbers
    halves = np.arange(2**16, dtype="<u2")
    table = pf.presets.whisper(64).table(9)
    types = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8"}
    arrays = {name: (name, table.shape, table.astype(kind).tobytes()) for name, kind in types.items()}
    safetensors("o.safetensors", {**arrays, "BF16": ("BF16", (256, 256), halves.tobytes())})
    np.savez("o.npz", BF16=halves.view("V2").reshape(256, 256))
    with open_archive("o.safetensors") as archive:
        for name, kind in types.items():
            np.testing.assert_array_equal(archive.read(name), table.astype(kind), strict=True)
    expected = (halves.astype(np.uint32) << 16).view(np.float32).reshape(256, 256)
    for file in ("o.safetensors", "o.npz"):
        with open_archive(file) as archive:
            np.testing.assert_array_equal(archive.read("BF16").astype(np.float32), expected)


# ---- archives that are broken ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy(f"({10**30},)"), "need 8000000000000000000000000000000 bytes, but only 0 bytes follow the header"),
        (npy("(9, 4)", bytes(280)), r"shape \(9, 4\) and type float64 need 288 bytes, but only 280 bytes follow the"),
        (npy("(-3, -3)", bytes(72)), r"the shape \(-3, -3\) has a negative number"),
        (npy("-" * 9000 + "1"), "header"),
        (npy("(3,)", bytes(24), version=3), r"version \(3, 0\) of the format is unsupported"),
    ],
)
def test_bad_headers(suffix, content, words, capsys):
    Path(f"o.{suffix}").write_bytes(content if suffix == "npy" else npz({"a.npy": content}))
    article = "a" if suffix == "npy" else "an"
    pattern = rf"o.{suffix} cannot be read as {article} .{suffix} file of numbers: .*{words}.*\n"
    assert re.fullmatch(pattern, error(capsys, "identify", f"o.{suffix}"))


def test_bad_archives(capsys):
    content = npy("(9, 4)", bytes(288))
    whole = npz({"a.npy": content})
    changed, encrypted = bytearray(whole), bytearray(whole)
    changed[150] ^= 1
    # set the encryption flag in the local header and in the central directory
    encrypted[6] |= 1
    encrypted[whole.index(b"PK\1\2") + 8] |= 1
    for damaged in (changed, encrypted, whole[:-30], npz({"a.npy": content}, zipfile.ZIP_BZIP2)):
        Path("o.npz").write_bytes(damaged)
        assert error(capsys, "identify", "o.npz").startswith("o.npz cannot be read as an .npz file of numbers: ")
