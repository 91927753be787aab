"""The commands verify and bench: what they print is what is so, and they can fail."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.__main__ import main
from posenc_fast._cli import speed as _speed
from posenc_fast._cli import timing as _timing
from posenc_fast._cli import verify as _verify


def verify(capsys, *arguments):
    status = main(["verify", "--seconds", "0.01", *arguments])
    return status, capsys.readouterr()


def test_verify(capsys):
    status, printed = verify(capsys, "--seed", "5")
    assert status == 0
    lines = printed.out.splitlines()
    assert "seed 5" in lines[0]
    table = [line.split() for line in lines[3:]]
    engines = ["python", *pf.isa_levels()]
    assert table[0] == ["type", "call", "values", *engines]
    assert [row[1] for row in table[1:4]] == list(_verify.CALLS)
    for row in table[1:]:
        assert row[-1] == "held"
        assert int(row[2]) > 1000
        # a correct rounding takes up half a unit in the last place: all that is promised for 32 and 16 bits
        shares = [float(share) for share in row[3 : 3 + len(engines)]]
        assert all(0.4 < share <= (0.6 if row[0] == "float64" else 1.0) for share in shares), row
    assert printed.err == ""
    # the seed draws them again
    assert verify(capsys, "--seed", "5")[1].out == printed.out
    assert verify(capsys)[1].out != printed.out


@pytest.mark.parametrize(("call", "name"), [("encode", "float32"), ("table", "float16"), ("add_to", "float64")])
def test_verify_finds_a_wrong_value(call, name, capsys, monkeypatch):
    right = getattr(pf.Encoding, call)

    def wrong(self, *args, **kwargs):
        rows = right(self, *args, **kwargs)
        if rows.dtype == name and rows.size:
            # three units in the last place of one value
            rows[..., 0] += 3 * np.spacing(np.abs(rows[..., 0]))
        return rows

    monkeypatch.setattr(pf.Encoding, call, wrong)
    status, printed = verify(capsys)
    assert status == 1
    broken = [line.split()[:2] for line in printed.out.splitlines() if line.endswith("BROKEN")]
    assert broken == [[name, call]]


def test_verify_finds_what_is_no_number(capsys, monkeypatch):
    right = pf.Encoding.encode
    monkeypatch.setattr(pf.Encoding, "encode", lambda *args, **kwargs: right(*args, **kwargs) * np.float32("nan"))
    status, printed = verify(capsys)
    assert status == 1
    assert printed.out.count("BROKEN") == printed.out.count(" encode ")


def test_verify_shows_progress(capsys):
    assert "verifying" in verify(capsys, "--progress")[1].err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seconds", "0"], ["seconds", "0"]),
        (["--seconds", "nan"], ["seconds", "nan"]),
        (["--seed", "-1"], ["seed", "-1"]),
    ],
    ids="-".join,
)
def test_verify_says_what_is_wrong(arguments, words, capsys):
    assert main(["verify", *arguments]) == 2
    printed = capsys.readouterr()
    assert all(word in printed.err for word in words)
    assert printed.out == ""


def test_bench(capsys, monkeypatch):
    # that the numbers are right is a matter of bench/, here it is that they are printed
    monkeypatch.setattr(_timing, "BUDGET", 0.01)
    assert main(["bench"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [side.name for side in _speed.sides()]
    assert [line[:54].rstrip() for line in lines[2:]] == names
    for line in lines[2:]:
        ours, numpy, ratio, low, _, high = line[54:].replace("(", " ").replace(")", " ").split()
        assert float(ours) > 0
        assert float(numpy) > 0
        assert 0 < float(low) <= float(ratio) <= float(high)


def test_bench_looks_at_the_values(monkeypatch, capsys):
    monkeypatch.setattr(_speed, "vaswani_numpy", lambda *shape: np.zeros(shape))
    assert main(["bench"]) == 2
    assert "the two sides differ by 1" in capsys.readouterr().err
