"""Test `check` for broken and incomplete tensors, and for names that have several meanings."""

from __future__ import annotations

import re

import numpy as np
import pytest

import posenc_fast as pf

BASE = 5e5
CONFIG = {"model_type": "llama", "head_dim": 128, "rope_theta": BASE, "max_position_embeddings": 8192}
FREQUENCIES = pf.Rotary(128, base=BASE).frequencies.astype(np.float32)
NAME = "layers.0.rotary_emb.inv_freq"


def the_finding(arrays, config=CONFIG):
    (finding,) = pf.check(arrays, config=config).findings
    return finding


def is_wrong(finding, fault, word=""):
    assert (finding.verdict, finding.fault) == ("wrong", fault), finding
    assert word in finding.says


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize("where", [(70, 3), 70, slice(None)], ids=["one", "row", "all"])
@pytest.mark.parametrize("config", [CONFIG, None], ids=["config", "alone"])
def test_tables_that_are_not_finite(config, where, value):
    cos, sin = pf.Rotary(128, base=BASE).tables(300)
    cos[where] = value
    if config is None and where == slice(None):
        assert the_finding({"cos_cached": cos, "sin_cached": sin}, None).verdict == "unknown"
    else:
        is_wrong(the_finding({"cos_cached": cos, "sin_cached": sin}, config), "values")


def test_position_tables_that_are_not_finite():
    pe = pf.positional_encoding(512, 128)
    pe[200, 7] = np.inf
    finding = the_finding({"pe": pe})
    is_wrong(finding, "values", "200")
    assert finding.first_position == 200


def changed(where, value):
    frequencies = FREQUENCIES.copy()
    frequencies[where] = value
    return frequencies


OTHER_BASE = (1e4 ** (-np.arange(64) / 64)).astype(np.float32)
# (name of a tensor, its values, expected verdict, or expected fault if it is wrong, words of the finding)
# fmt: off
NAMED_FREQUENCIES = [
    (NAME, changed(slice(None), np.nan), "values", "not finite"),
    (NAME, changed(5, -np.inf), "values", "not finite"),
    (NAME, np.zeros(64, np.float32), "values", "all values are 0"),
    ("freqs", np.zeros(64, np.float32), "unknown", ""),
    (NAME, changed(slice(-3, None), 0.5), "frequencies", "no known fault explains the difference"),
    # the last frequency equals the first, so no base explains both
    (NAME, changed(slice(-3, None), 1.0), "frequencies", "no known fault explains the difference"),
    (NAME, -FREQUENCIES, "layout", "opposite sign"),
    (NAME, FREQUENCIES[:32], "unknown", "the config's rotary encodings have 64"),
    # this name means a vision encoder, whose number of frequencies may differ from that of the config's text model
    ("visual.rotary_pos_emb.inv_freq", pf.Rotary(40).frequencies.astype(np.float32), "right", ""),
    # names of schedules of other encodings
    ("pos_encoder.div_term", OTHER_BASE, "right", ""),
    ("rotary_emb.freqs", OTHER_BASE, "base", ""),
    ("timescale", 1 / FREQUENCIES, "right", ""),
    # GGUF stores the divisors of frequencies under this name
    ("rope_freqs.weight", FREQUENCIES, "base", ""),
    (NAME, FREQUENCIES.astype(np.int64), "unknown", "int64"),
    (NAME, FREQUENCIES.astype(np.complex64), "unknown", "complex numbers are not frequencies"),
]
# fmt: on


@pytest.mark.parametrize(("name", "values", "expected", "words"), NAMED_FREQUENCIES)
def test_frequencies(name, values, expected, words):
    finding = the_finding({name: values})
    verdict_and_fault = (expected, None) if expected in ("right", "unknown") else ("wrong", expected)
    assert (finding.verdict, finding.fault) == verdict_and_fault, finding
    assert words in finding.says


@pytest.mark.parametrize(("rows", "verdict", "word"), [
    ([0], "right", ""),
    ([0, 1], "right", ""),
    ([200], "right", "row of zeros: 200"),
    ([1], "right", "row of zeros: 1"),
    (slice(500, None), "unknown", "12 rows of zeros: 500, 501, .*the last rows"),
    ([5, 200, 201], "wrong", "3 rows of zeros: 5, 200, 201"),
    (slice(1, None, 2), "wrong", "256 rows of zeros: 1, 3, "),
    (slice(0, 200), "wrong", "200 rows of zeros: 0, 1, "),
], ids=str)  # fmt: skip
def test_rows_of_zeros(rows, verdict, word):
    pe = pf.positional_encoding(512, 128, start=1)
    pe[rows] = 0
    finding = the_finding({"pe": pe})
    assert finding.verdict == verdict, finding
    assert re.search(word, finding.says), finding


@pytest.mark.parametrize(("d", "last"), [(16, 1), (512, 30)])
def test_a_row_for_padding_before_rows_of_zeros_at_the_end(d, last):
    table = pf.sinusoidal(d, freq_shift=1.0, layout="concatenated").table(130)
    table[1] = 0
    padded = np.concatenate([table, np.zeros((last, d))]).astype(np.float32)
    finding = the_finding({"encoder.pe": padded})
    assert finding.verdict == "unknown", finding
    assert "the last rows are padding" in finding.says
    # row 1 may be zero as a padding row, but row 40 must not: it lies between rows of positions
    padded[40] = 0
    is_wrong(the_finding({"encoder.pe": padded}), "values", f"{2 + last} rows of zeros: 1, 40, 130")


@pytest.mark.parametrize("count", [1, 2])
def test_rows_of_other_tokens_before_the_first_position(count, rng):
    tokens = 0.02 * rng.normal(size=(count, 128))
    pe = np.concatenate([tokens, pf.positional_encoding(512, 128)]).astype(np.float32)
    finding = the_finding({"pos_embed": pe})
    assert finding.verdict == "right", finding
    assert f"after {count} row" in finding.says
    # `check` must find a fault in a row after the rows of these tokens
    pe[100, :5] = 7
    is_wrong(the_finding({"pos_embed": pe}), "values", str(100 - count))


@pytest.mark.parametrize("name", ["sin_cos", "sincos_cache", "attn.sin_cos_cached"])
def test_order_of_sines_and_cosines_in_names(name):
    cos, sin = pf.Rotary(128, base=BASE).tables(512)
    sines_first = np.concatenate([sin, cos], axis=1)
    assert the_finding({name: sines_first}).verdict == "right"
    assert the_finding({name: np.stack([sin, cos], -1)}).verdict == "right"
    is_wrong(the_finding({"cos_sin_cache": sines_first}), "layout")
    is_wrong(the_finding({name: np.roll(sines_first, 64, axis=1)}), "layout")


def test_a_table_of_two_types():
    cos, sin = pf.Rotary(128, base=BASE).tables(300)
    halves = [table.astype(np.float16).astype(np.float32) for table in (cos, sin)]
    for pair, verdict in (((halves[0], sin), "unknown"), ((cos, halves[1]), "unknown"), (halves, "right")):
        assert the_finding({"cos_cached": pair[0], "sin_cached": pair[1]}).verdict == verdict


def test_names_take_one_line():
    name = "a\x1b[31m\ud800\nright    encoder.pe"
    text = str(pf.check({name: np.random.default_rng(0).normal(size=(64, 64))}))
    assert len(text.splitlines()) == 2
    assert r"a\x1b[31m\ud800\nright    encoder.pe: " in text
