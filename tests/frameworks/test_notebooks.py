"""Test the HTML that notebooks show for identifications and presets: it is well-formed, and has their text."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import posenc_fast as pf


def cells(text: str) -> list[list[str]]:
    """Return the texts of the cells of an HTML table, row by row. Raise an error if the HTML is not well-formed."""
    return [["".join(cell.itertext()) for cell in row] for row in ET.fromstring(text).iter("tr")]


IDENTIFICATIONS = {
    "encoding": lambda: pf.identify(pf.presets.fairseq(16).table(40, start=2)),
    "padding": lambda: pf.identify(np.pad(pf.sinusoidal(16).table(40), ((3, 0), (0, 0)))),
    "grid": lambda: pf.identify(pf.grid([14, 14], pf.presets.mae(64)).reshape(196, 64)),
    "rotary": lambda: pf.identify_rotary(frequencies=pf.presets.llama3().frequencies),
    "no-encoding": lambda: pf.identify(np.random.default_rng(0).normal(size=(20, 8))),
    "no-rotary": lambda: pf.identify_rotary(frequencies=np.ones((2, 5))),
}


@pytest.mark.parametrize("identified", IDENTIFICATIONS.values(), ids=IDENTIFICATIONS)
def test_identifications_are_tables(identified):
    """The table of an identification has a row for each line of the printed text."""
    value = identified()
    lines = str(value).splitlines()
    expected = [[line[:11].rstrip(), line[12:]] for line in lines] if value else [lines]
    assert cells(value._repr_html_()) == expected


CALLS = "sinusoidal(64, layout='concatenated')", "presets.loftr(32)", "Rotary(128, base=300000.0)", "presets.gpt_oss()"


@pytest.mark.parametrize("call", CALLS)
def test_identifications_name_the_call_that_rebuilds(call):
    value = eval(f"pf.{call}")
    if isinstance(value, pf.Rotary):
        identification = pf.identify_rotary(frequencies=value.frequencies)
        assert identification.rotary == value
    else:
        rows = value.table(40) if value.ndim == 1 else pf.grid([14, 14], value).reshape(196, -1)
        identification = pf.identify(rows)
        assert identification.encoding == value
    assert str(identification).splitlines()[-1] == f"call        posenc_fast.{call}"


def test_no_call_if_it_would_be_too_long():
    frequencies = np.sort(np.random.default_rng(0).uniform(0.001, 1, 100))[::-1]
    identification = pf.identify(pf.sinusoidal(200, frequencies=frequencies).table(60))
    assert identification
    assert "call " not in str(identification)


def test_presets_by_family():
    text = pf.presets._repr_html_()
    families = ET.fromstring(f"<div>{text}</div>")
    assert [part.tag for part in families] == ["details"] * len(families)
    rows = [row for part in families for row in cells(ET.tostring(part[1], encoding="unicode"))]
    assert sorted(name for name, _ in rows) == sorted(pf.presets.names())
    assert ["whisper", "Sinusoids of Whisper's audio encoder."] in rows
    # notebooks ask for this name first, and ignore _repr_html_ of objects that have it
    with pytest.raises(AttributeError):
        pf.presets._ipython_canary_method_should_not_exist_  # noqa: B018


@pytest.mark.parametrize("rotary", [None, False, True])
def test_the_table_of_presets(rotary):
    table = pf.presets.table(rotary=rotary)
    assert isinstance(table, str)
    heading, *rows = cells(table._repr_html_())
    assert heading == table.splitlines()[0][2:-2].split(" | ")
    assert [row[0] for row in rows] == [line.split("`")[1] for line in table.splitlines()[2:]]
    assert {len(row) for row in rows} == {8}
