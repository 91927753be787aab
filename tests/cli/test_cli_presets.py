"""Test the command `presets`, and the option --preset of other commands."""

from __future__ import annotations

import inspect
import re
import sys

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._cli.presets import _columns
from posenc_fast.presets._registry import FACTS
from support.command_line import error, run, same
from support.tables import each_line

pytestmark = pytest.mark.usefixtures("inside")


def summary(name):
    return pf.presets.get(name).__doc__.partition("\n")[0]


# ---- the command presets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [20, 80])
def test_names_fit_a_terminal(width, monkeypatch, capsys):
    """A program reads one name on each line. A terminal shows columns, and cuts the lines of a search."""
    assert run("presets") == 0
    assert capsys.readouterr() == ("\n".join(pf.presets.names()) + "\n", "")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    assert run("presets") == 0
    *lines, hint = capsys.readouterr().out.splitlines()
    assert hint == "posenc-fast presets NAME shows one; posenc-fast presets --search WORD finds some"
    # a line may exceed the width only by a single long name; the longest name has 40 characters
    assert max(map(len, lines)) <= max(width, 41)
    assert sorted(" ".join(line for line in lines if ":" not in line).split()) == sorted(pf.presets.names())
    assert len(lines) < 6 + 2 * 7000 / width
    numbers = [int(line.split()[0]) for line in lines if ":" in line]
    rotary = sum(facts.rotary for facts in FACTS.values())
    assert numbers == [len(FACTS) - rotary, rotary]
    monkeypatch.setenv("COLUMNS", "60")
    assert run("presets", "--search", "embedding") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert any(line.endswith(" …") for line in lines)
    # a name longer than the line is printed once, and not cut
    monkeypatch.setenv("COLUMNS", "20")
    name = "positional_embeddings_pytorch_precedence"
    assert run("presets", "--search", "precedence") == 0
    assert f"{name} …\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("width", "lines"), [(9, ["aa  b  cc"]), (8, ["aa  cc", "b"]), (6, ["aa  cc", "b"]), (5, ["aa", "b", "cc"])]
)
def test_names_take_as_few_lines_as_possible(width, lines):
    assert _columns(["aa", "b", "cc"], width) == lines


@pytest.mark.parametrize(
    ("name", "width", "call"),
    [
        ("whisper", 40, "\nposenc-fast table LENGTH D_MODEL --preset whisper -o OUT\n"),
        ("lingvo_harmonics", 40, " LENGTH --preset lingvo_harmonics --set embedding_dim=.. --set length=.. -o OUT\n"),
        ("llama", 80, "\n"),
    ],
)
def test_one_is_shown(name, width, call, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    assert run("presets", name) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.endswith(call)
    assert ("posenc-fast table" in out) == (name != "llama")
    first, second, *lines = out.splitlines()
    build, facts = pf.presets.get(name), FACTS[name]
    assert first.startswith(f"{name}(")
    assert set(inspect.signature(build).parameters) <= set(re.findall(r"\w+", first))
    assert second == summary(name)
    # compare without spaces, because long facts take several lines
    text = re.sub(r"\s", "", out)
    for fact in (facts.frequency, facts.layout, facts.positions, facts.differs, facts.source, facts.also):
        assert re.sub(r"[\s`]", "", fact) in text
    # only lines with a long word, such as an address, exceed the width
    long = [line for line in lines if len(line) > width and "posenc-fast table" not in line]
    assert all(" " not in line.strip() or len(line.split()) <= 2 for line in long)


@each_line("""
    words | names
    whisper | whisper
    Stable DIFFUSION | guided_diffusion
    diffusion timesteps | ddpm edm diffwave diffusers_timesteps
    sdxl | diffusers_timesteps
""")
def test_search(words, names, monkeypatch, capsys):
    """A search also finds words of the titles of families, and other names of models."""
    # in a pipe, lines are not wrapped, whatever the width of the terminal, so that programs can read them
    monkeypatch.setenv("COLUMNS", "40")
    assert run("presets", "--search", *words.split()) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = dict(line.split(None, 1) for line in out.splitlines())
    assert set(names.split()) <= set(found)
    assert len(found) < 20
    assert found == {name: summary(name) for name in found}


@each_line("""
    words | printed
    whisper flux2 | 'whisper' and 'flux2'; perhaps whisper, flux2
    qqqqqq | 'qqqqqq'; list presets with posenc-fast presets, or identify a table with posenc-fast identify
    gpt-2 | 'gpt-2'; the positions of that model are learned, and have no formula
    Phi3 | 'Phi3'; posenc_fast.Rotary.from_config reads the config.json of that model
""")
def test_search_without_a_match_has_advice(words, printed, capsys):
    assert run("presets", "--search", *words.split()) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(f"no preset mentions {printed}\n", err)


# ---- --preset -------------------------------------------------------------------------------------------------------


LEARNED = (np.array([0.3, -1.5, 2.0]), np.array([0.1, 0.7, 0.25]))


@each_line("""
    arguments | call
    --preset whisper --set channels=384 | whisper(384)
    384 --preset whisper --set max_timescale=5e2 | whisper(384, max_timescale=500.0)
    64 --preset whisper --set frequencies=float32 | whisper(64, frequencies='float32')
    16 --preset mlx --set cos_first=true --set scale=-2 --set full_turns=False | mlx(16, cos_first=True, scale=-2.0)
    16 --preset flaxformer_rotary --set functions=cos,cos | flaxformer_rotary(16, functions=('cos', 'cos'))
    --preset diffwave | diffwave()
    128 --preset diffwave | diffwave()
    --preset lingvo_harmonics --set embedding_dim=8 --set length=40 | lingvo_harmonics(8, 40)
    --preset esmfold2 --set weights=w.npy --set biases=b.npy | esmfold2(*LEARNED)
    8 --preset positional_embeddings_pytorch_precedence | positional_embeddings_pytorch_precedence(8)
""")
def test_preset(arguments, call):
    np.save("w.npy", LEARNED[0])
    np.save("b.npy", LEARNED[1])
    positions = np.linspace(-5, 90, 40)
    np.save("p.npy", positions)
    # the last encoding of the table has two columns more than requested
    encoding = eval(f"pf.presets.{call}")
    assert run("table", "40", *arguments.split(), "-o", "o.npy", "--start", "3") == 0
    same("o.npy", encoding.table(40, start=3))
    options = arguments if arguments.startswith("--") else f"--d-model {arguments}"
    assert run("encode", "p.npy", *options.split(), "-o", "o.npy", "--dtype", "float64") == 0
    same("o.npy", encoding.encode(positions, dtype=np.float64))


@each_line(r"""
    arguments | words
    table 4 8 --preset wisper | --preset: there is no preset 'wisper'; perhaps whisper
    table 4 8 --preset llama | is a Rotary, not an Encoding; posenc_fast.presets.llama
    table 4 8 --preset mae | 'mae' has 2 axes, but this command supports only one; use posenc_fast.grid
    table 4 8 --preset whisper --frequencies f.npy | --preset excludes --frequencies
    table 4 8 --set max_timescale=3 | --set is for the arguments of a preset; add --preset NAME
    table 4 8 --preset whisper --set max_timescale | --set max_timescale must have the form KEY=VALUE
    table 4 8 --preset whisper --set max_timescal=3 | has the arguments channels, .*; did you mean 'max_timescale'?
    table 4 8 --preset whisper --set channels=9 | D_MODEL is 8, but --set gives channels=9; leave one of them out
    table 4 8 --preset lingvo_harmonics | needs embedding_dim, length; add --set embedding_dim=VALUE --set length=VALUE
    table 4 8 --preset diffwave | 'diffwave' has 128 columns, not 8; leave D_MODEL out
    table 4 8 --preset diffwave --set channels=4 | has no arguments; leave --set out
    table 4 | give D_MODEL, the number of columns, or a --preset with a fixed number of columns
    table 4 --preset whisper | 'whisper' needs channels; add D_MODEL
    encode p.npy | give --d-model, the number of columns
""")
def test_bad_preset(arguments, words, capsys):
    np.save("p.npy", np.arange(4))
    assert re.search(words, error(capsys, *arguments.split(), "-o", "o.npy"))
