"""Test that `check` names each kind of fault in stored tensors, and the position where the fault begins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._models.check.frequencies import judge_frequencies
from posenc_fast._models.check.rotary_tables import judge_rotary_tables
from posenc_fast._models.check.tables import judge_table
from support.fuzzing import DTYPES
from support.own_code import LINEAR, LLAMA3, YARN

HALVES = [name for name in ("bfloat16", "float16") if name in DTYPES]
every_half = pytest.mark.parametrize("half", HALVES)
PLAIN = {"llama": pf.Rotary(128), "base 1e7": pf.Rotary(80, base=1e7)}
SCALED = {"llama3": pf.Rotary(128, base=5e5, scaling=LLAMA3), "yarn": pf.Rotary(64, base=1.5e5, scaling=YARN)}
ROTARIES = {"llama": PLAIN["llama"], **SCALED}
every_rotary = pytest.mark.parametrize("rotary", ROTARIES.values(), ids=ROTARIES)
every_type = pytest.mark.parametrize("dtype", DTYPES.values(), ids=tuple(DTYPES))
ROWS = 400


def rounded(values, half):
    return np.asarray(values, np.float32).astype(DTYPES[half]).astype(np.float32)


def is_wrong(finding, fault, word=""):
    assert (finding.verdict, finding.fault) == ("wrong", fault), finding
    assert word in finding.says
    assert finding.largest_error > 0


# ---- frequencies ----------------------------------------------------------------------------------------------------


@every_half
@pytest.mark.parametrize("rotary", [*PLAIN.values(), *SCALED.values()], ids=[*PLAIN, *SCALED])
def test_rounded_frequencies(rotary, half):
    values = rotary.frequencies.astype(np.float32).astype(DTYPES[half])
    for stored in (values, values.astype(np.float32)):
        finding = judge_frequencies("inv_freq", stored, [rotary], length=8192)
        is_wrong(finding, "rounded", half)
        assert finding.radians == pytest.approx(8192 * finding.largest_error)
    if rotary in PLAIN.values():
        is_wrong(judge_frequencies("inv_freq", rounded(rotary.frequencies, half)), "rounded", half)


@every_half
@pytest.mark.parametrize("dim", [20, 32, 92])
def test_rounded_exponents(dim, half):
    """`check` finds frequencies base ** -(arange / dim) whose exponents arange / dim were rounded to 16 bits."""
    exponents = np.arange(0, dim, 2) / dim
    values = 1e4 ** -rounded(exponents, half).astype(np.float64)
    finding = judge_frequencies("inv_freq", values.astype(np.float32), [pf.Rotary(dim)])
    if np.array_equal(rounded(exponents, half), exponents.astype(np.float32)):
        assert finding.verdict == "right"
    else:
        is_wrong(finding, "rounded", "exponents")


def changed(rotary, **arguments):
    return pf.Rotary(rotary.head_dim, **rotary._arguments() | arguments)


def rescaled(rotary, base=None, **scaling):
    """Return the frequencies of a Rotary with another base, or with other scaling parameters."""
    scaling = rotary._arguments().get("scaling", {}) | scaling
    return changed(rotary, base=base or rotary.base, scaling=scaling or None).frequencies


def without_scaling(rotary, scaling=None):
    return changed(rotary, scaling=scaling).frequencies


def in_bfloat16(rotary):
    """Return the frequencies of a Rotary as a formula in bfloat16 computes them: 1 / (1 / frequency), rounded twice."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    return (1 / (1 / rotary.frequencies).astype(bfloat16).astype(np.float32)).astype(bfloat16)


# keys: names of faults in frequencies. Values: (encodings, function that computes wrong frequencies for one of them,
# expected fault, words of the finding).
# fmt: off
FREQUENCY_FAULTS = {
    "computed in bfloat16": (ROTARIES, in_bfloat16, "rounded", ""),
    "base 20000": (ROTARIES, lambda rotary: rescaled(rotary, base=2e4), "base", "base 20000"),
    "base 123456": (ROTARIES, lambda rotary: rescaled(rotary, base=123456.0), "base", "base 123456"),
    "unscaled": (SCALED, without_scaling, "scaling", "without the config's scaling"),
    "scaled twice": (SCALED, lambda rotary: rotary.frequencies**2 / without_scaling(rotary), "scaling", "twice"),
    "factor 32": (SCALED, lambda rotary: rescaled(rotary, factor=32.0), "scaling", "factor 32"),
    "linear scaling": (PLAIN, lambda rotary: without_scaling(rotary, LINEAR), "scaling", ""),
    "llama3 scaling": (PLAIN, lambda rotary: without_scaling(rotary, LLAMA3), "scaling", ""),
    "reversed": (ROTARIES, lambda rotary: rescaled(rotary)[::-1], "layout", "in reverse order"),
    "even ones first": (ROTARIES, lambda rotary: np.concatenate([rescaled(rotary)[::2], rescaled(rotary)[1::2]]),
                        "layout", "in another order"),
}
# fmt: on


@pytest.mark.parametrize(("rotaries", "faulty", "fault", "words"), FREQUENCY_FAULTS.values(), ids=FREQUENCY_FAULTS)
def test_faults_of_frequencies(rotaries, faulty, fault, words):
    for rotary in rotaries.values():
        is_wrong(judge_frequencies("inv_freq", faulty(rotary).astype(np.float32), [rotary]), fault, words)


@every_rotary
def test_single_frequencies(rotary, rng):
    values = rotary.frequencies.astype(np.float32)
    k = int(rng.integers(1, len(values) - 4))
    values[k] *= 1.01
    is_wrong(judge_frequencies("inv_freq", values, [rotary]), "values", f"values at indices {k} ")


@every_rotary
def test_frequencies_that_nothing_explains(rotary, rng):
    values = rotary.frequencies * (1 + 0.05 * rng.uniform(-1, 1, len(rotary.frequencies)))
    is_wrong(judge_frequencies("inv_freq", values.astype(np.float32), [rotary]), "frequencies")


# ---- bfloat16 stored in float16 ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "base", "dim"), [(100, 1e6, 32), pytest.param(2048, 1e4, 32, marks=pytest.mark.slow)])
def test_tables_that_went_through_bfloat16(rows, base, dim):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    pe = pf.positional_encoding(rows, dim, base=base)
    rotary = pf.Rotary(dim, base=base)
    pe, cos, sin = (
        table.astype(bfloat16).astype(np.float32).astype(np.float16) for table in (pe, *rotary.tables(rows))
    )
    for finding in (
        judge_table("pe", pe),
        judge_rotary_tables("rope", cos, sin),
        judge_rotary_tables("rope", cos, sin, None, [rotary]),
    ):
        is_wrong(finding, "rounded", "bfloat16 before they were stored in float16")
    # a table that was rounded only once, to its dtype, is right
    assert judge_table("pe", pf.positional_encoding(rows, dim, base=base, dtype=np.float16)).verdict == "right"


# ---- tables of cosines and sines ------------------------------------------------------------------------------------


def rounded_angles(frequencies, rows, steps, half):
    """Return float32 angles. steps: text that names what to round to 16 bits: positions, frequencies or angles."""
    positions, frequencies = np.arange(rows, dtype=np.float32), frequencies.astype(np.float32)
    positions = rounded(positions, half) if "positions" in steps else positions
    frequencies = rounded(frequencies, half) if "frequencies" in steps else frequencies
    angles = positions[:, np.newaxis] * frequencies
    return rounded(angles, half) if "angles" in steps else angles


def factor(rotary):
    return np.float32(rotary.attention_factor)


def tables(rotary, rows=ROWS, dtype=np.float32, steps="", half=None):
    """Return cosines and sines of float32 angles, as programs compute them. steps, half: as in `rounded_angles`."""
    angles = np.tile(rounded_angles(rotary.frequencies, rows, steps, half), 2)
    return (factor(rotary) * np.stack([np.cos(angles), np.sin(angles)])).astype(dtype)


@every_half
@every_rotary
@pytest.mark.parametrize("steps", ["positions", "frequencies", "angles", "positions and frequencies and angles"])
@pytest.mark.parametrize("dtype", [np.float32, "the same"], ids=["float32", "same"])
def test_rounded_tables(rotary, half, steps, dtype):
    rows = 2100 if (half, steps) == ("float16", "positions") else ROWS
    cos, sin = tables(rotary, rows, DTYPES[half] if dtype == "the same" else dtype, steps, half)
    finding = judge_rotary_tables("rope", cos, sin, None, [rotary])
    is_wrong(finding, "rounded", f"went through {half}")
    assert "positions" not in steps or half != "bfloat16" or "positions" in finding.says
    if steps == "positions":
        # the first integers that need more than 8 significant bits (bfloat16), or 11 (float16)
        assert finding.first_position == {"bfloat16": 257, "float16": 2049}[half]
        assert finding.says.endswith(f": positions went through {half}")
    assert finding.radians > 1e-3


YARNS = {str(by): pf.Rotary(64, base=1e6, scaling={**YARN, "factor": by}) for by in (1.5, 40.0)}
# keys: names of faults in tables. Values: (encodings, function that changes one of them or its tables, expected fault,
# words of the finding).
TABLE_FAULTS = {
    "base 20000": (ROTARIES, lambda rotary: tables(changed(rotary, base=2e4)), "base", "base 20000"),
    "cosines for sines": (ROTARIES, lambda rotary: tables(rotary)[::-1], "layout", "are swapped"),
    "unscaled": (SCALED, lambda rotary: tables(changed(rotary, scaling=None)), "scaling", "without the config's"),
    "no attention factor": (YARNS, lambda rotary: tables(rotary) / factor(rotary), "scaling", "without the attention"),
    "attention factor twice": (YARNS, lambda rotary: tables(rotary) * factor(rotary), "scaling", "twice"),
}


@pytest.mark.parametrize(("rotaries", "faulty", "fault", "words"), TABLE_FAULTS.values(), ids=TABLE_FAULTS)
def test_faults_of_tables(rotaries, faulty, fault, words):
    for rotary in rotaries.values():
        is_wrong(judge_rotary_tables("rope", *faulty(rotary), None, [rotary]), fault, words)


@every_rotary
def test_single_rows_and_columns_of_tables(rotary, rng):
    row, column = int(rng.integers(1, ROWS)), int(rng.integers(1, rotary.rotary_dim))
    (cos, sin), (others, same) = tables(rotary), tables(rotary)
    sin[row], others[:, column] = cos[row - 1], 0.3
    for pair, first in (((cos, sin), row), ((others, same), 0)):
        finding = judge_rotary_tables("rope", *pair, None, [rotary])
        is_wrong(finding, "values")
        assert finding.first_position == first


ORDERS = {
    "halves": lambda table: np.concatenate([table, table], axis=1),
    "side by side": lambda table: np.repeat(table, 2, axis=1),
    "reversed": lambda table: np.concatenate([table, table[:, ::-1]], axis=1),
}


@every_rotary
@every_type
def test_cosines_and_sines_in_two_orders(rotary, dtype):
    cos, sin = rotary.tables(ROWS, dtype=np.float64)
    for one, other in itertools.product(ORDERS, ORDERS):
        pair = (ORDERS[one](cos).astype(dtype), ORDERS[other](sin).astype(dtype))
        finding = judge_rotary_tables("rope", *pair, None, [rotary])
        expected = ("right", None) if one == other == "halves" else ("wrong", "layout")
        assert (finding.verdict, finding.fault) == expected, (one, other, finding)
        assert "side by side" in finding.says or (one, other) != ("side by side", "side by side"), finding


@every_type
@pytest.mark.parametrize("order", ["halves", None])
@pytest.mark.parametrize("wrong", [0, 1], ids=["cosines", "sines"])
def test_an_attention_factor_on_cosines_or_sines_alone(wrong, order, dtype):
    rotary = pf.Rotary(64, scaling={**YARN, "factor": 8.0})
    pair = list(rotary.tables(ROWS, dtype=np.float64))
    pair[wrong] = pair[wrong] / rotary.attention_factor
    pair = [(ORDERS[order](table) if order else table).astype(dtype) for table in pair]
    finding = judge_rotary_tables("rope", *pair, None, [rotary])
    assert (finding.verdict, finding.fault, "1.208" in finding.says) == ("wrong", "scaling", True), finding


# ---- position tables ------------------------------------------------------------------------------------------------

every_shape = pytest.mark.parametrize(("d", "layout", "shift"), [
    (32, "interleaved", 0),
    pytest.param(100, "concatenated", 0, marks=pytest.mark.slow),
])  # fmt: skip


def position_table(d, layout, shift, rows=ROWS, dtype=np.float32, steps="", half=None):
    angles = rounded_angles(1e4 ** (-np.arange(d // 2) / (d // 2 - shift)), rows, steps, half)
    both = np.stack([np.sin(angles), np.cos(angles)], axis=-1 if layout == "interleaved" else 1)
    return both.reshape(rows, d).astype(dtype)


@every_half
@every_shape
@pytest.mark.parametrize("steps", ["positions", "frequencies", "angles"])
def test_rounded_position_tables(d, layout, shift, half, steps):
    rows = 2100 if (half, steps) == ("float16", "positions") else ROWS
    finding = judge_table("pe", position_table(d, layout, shift, rows, steps=steps, half=half)[None])
    is_wrong(finding, "rounded", f"{steps} went through {half}")
    if steps == "positions":
        assert finding.first_position == {"bfloat16": 257, "float16": 2049}[half]


@every_shape
def test_single_rows_and_columns_of_position_tables(d, layout, shift, rng):
    rows, columns = position_table(d, layout, shift), position_table(d, layout, shift)
    row, column = int(rng.integers(1, ROWS)), int(rng.integers(0, d))
    rows[row], columns[:, column] = 0.5, 0.5
    finding = judge_table("pe", rows)
    is_wrong(finding, "values", f"at positions {row}")
    assert finding.first_position == row
    is_wrong(judge_table("pe", columns), "values", f"columns are wrong: {column}")
