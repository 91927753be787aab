"""Test that `identify_rotary` finds a Rotary from frequencies, tables or rotated vectors, and rejects other data."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._models.identify.rotary import _defaults, _Fit, _named, _of_frequencies
from posenc_fast._models.identify.rotations import _bases
from posenc_fast.presets import positions
from posenc_fast.presets._registry import FACTS
from support.errors import raises, wrong_calls
from support.optional import optional
from support.own_code import LLAMA3, YARN

# the most common type, and the one with the largest tolerances
DTYPES = ["float32", "bfloat16"]
# presets whose frequencies come from a checkpoint
LEARNED = {"lightglue", "mochi"}
PRESETS = {f"{name} {i}": (name, rotary) for i, (name, rotary) in enumerate(_defaults())}


def number_type(dtype):
    return pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


def sixteen(name, rotary, rng):
    """Return typical positions of 16 tokens for a preset, with one coordinate for each axis of the rotary."""
    if name in ("dinov3", "ltx", "ltx2", "ltx2_split"):
        return rng.uniform(-1, 1, (16, rotary.ndim))
    if rotary.ndim == 4:
        return positions.flux2(2, 4, text=8)
    return {1: np.arange(16), 2: positions.grid(4, 4), 3: positions.grid(2, 2, 4)}[rotary.ndim]


# ---- presets --------------------------------------------------------------------------------------------------------


def test_all_presets_are_tried():
    assert {name for name, facts in FACTS.items() if facts.rotary} == {name for name, _ in PRESETS.values()} | LEARNED


@pytest.mark.parametrize("preset", PRESETS)
def test_tables_and_vectors_of_presets(preset, rng):
    name, rotary = PRESETS[preset]
    where, vectors = sixteen(name, rotary, rng), rng.normal(size=(2, 16, rotary.head_dim))
    exact = rotary.tables(where, dtype=np.float64)
    for dtype in DTYPES:
        cos, sin = rotary.tables(where, dtype=number_type(dtype))
        found = pf.identify_rotary(cos=cos, sin=sin, positions=where)
        assert (name in found.presets, found.rotary_dim) == (True, rotary.rotary_dim), dtype
        # the identified Rotary has the same tables
        identified = found.rotary.tables(where, dtype=np.float64)
        np.testing.assert_allclose(identified, exact, rtol=0, atol=1e-6, err_msg=dtype)
        x = vectors.astype(number_type(dtype))
        found = pf.identify_rotary(x=x, turned=rotary.apply(x, positions=where), positions=where)
        assert (name in found.presets, found.layout) == (True, rotary.layout), dtype
        assert (found.rotary.head_dim, found.rotary.layout) == (rotary.head_dim, rotary.layout), dtype


@pytest.mark.parametrize("head", [64, 256])
def test_presets_of_other_widths(head):
    found = pf.identify_rotary(frequencies=pf.presets.llama3(head_dim=head).frequencies)
    assert (found.presets, found.rotary) == (("llama3",), pf.presets.llama3(head_dim=head))


# ---- shapes ---------------------------------------------------------------------------------------------------------


COS, SIN = pf.Rotary(64).tables(16)
TWICE = np.tile(COS, 2), np.tile(SIN, 2)
REPEATED = np.repeat(COS, 2, -1), np.repeat(SIN, 2, -1)
# keys: names of shapes. Values: (cosines, sines, layout that the shape determines)
SHAPES = {
    "columns of pairs": (COS, SIN, None),
    "halves": (*TWICE, "half"),
    "side by side": (*REPEATED, "interleaved"),
    "batch": (np.tile(COS, (3, 1, 2)), np.tile(SIN, (3, 1, 2)), "half"),
    "an axis of heads": (*(table[None, :, None] for table in REPEATED), "interleaved"),
    "tokens first": (*(table[:, None, None] for table in TWICE), "half"),
    "complex": (COS + 1j * SIN, None, None),
    "complex batch": ((COS + 1j * SIN)[None, :, None], None, None),
    "matrices": (np.stack([COS, -SIN, SIN, COS], -1).reshape(1, 16, 1, 32, 2, 2), None, None),
}


@pytest.mark.parametrize(("cos", "sin", "layout"), SHAPES.values(), ids=SHAPES)
def test_shapes_of_tables(cos, sin, layout):
    found = pf.identify_rotary(cos=cos, sin=sin)
    assert "llama" in found.presets
    assert (found.layout, found.base, found.rotary_dim, found.direction) == (layout, 10000.0, 64, 1)
    if layout:
        assert found.rotary == pf.Rotary(64, layout=layout)


def test_padding_is_left_out(rng):
    x = rng.normal(size=(2, 16, 64)).astype(np.float32)
    x[:, :5] = 0
    found = pf.identify_rotary(x=x, turned=pf.presets.roformer(64).apply(x))
    # the layout of llama differs
    assert ("roformer" in found.presets, "llama" in found.presets) == (True, False)


# ---- encodings without a preset -------------------------------------------------------------------------------------


LONG = {**YARN, "original_max_position_embeddings": 32768}
OTHERS = [
    pf.Rotary(64, base=12345.0),
    pf.Rotary(128, base=1e6, scaling={"rope_type": "linear", "factor": 4.0}),
    pf.Rotary(128, base=5e5, scaling={**LLAMA3, "factor": 32.0}),
    pf.Rotary(128, base=1e6, scaling={**LONG, "truncate": False, "attention_factor": 1.0}),
    pf.Rotary(256, base=1e6, scaling={"rope_type": "proportional", "partial_rotary_factor": 0.5}),
    pf.Rotary(64, frequencies=pf.geometric(32, base=500.0, first=-1.0)),
    pf.Rotary(96, base=2e6, sections=[0, 1, 2, 0] * 12),
    pf.Rotary(48, frequencies=[pf.geometric(8, base=100.0), pf.geometric(16, base=1e4)]),
    pf.Rotary(32, frequencies=pf.geometric(16), attention_factor=1.5),
]


@pytest.mark.parametrize("rotary", OTHERS, ids=repr)
def test_measured(rotary, rng):
    """Identify a Rotary that no preset returns: its base, direction, scaling, sections or attention factor."""
    where = sixteen("", rotary, rng)
    cos, sin = rotary.tables(where)
    x = rng.normal(size=(2, 16, rotary.head_dim)).astype(np.float32)
    rotated = rotary.apply(x, positions=where)
    given = [{"cos": cos, "sin": sin, "positions": where}, {"x": x, "turned": rotated, "positions": where}]
    if rotary.attention_factor == 1:
        given.append({"frequencies": rotary._angles_of("cos").frequencies.astype(np.float32)})
    for options in given:
        found = pf.identify_rotary(**options)
        assert found, options
        np.testing.assert_allclose(found.rotary.frequencies, rotary.frequencies, rtol=1e-5, atol=1e-12)
        assert found.attention_factor == pytest.approx(rotary.attention_factor, rel=1e-5)
        assert found.rotary._settings.axes == rotary._settings.axes == found.sections
        assert found.direction == np.sign(rotary.frequencies[0])
        if "x" in options:
            assert found.layout == rotary._settings.layout
        if rotary._settings.rope_type != "default":
            assert found.scaling["rope_type"] == rotary._settings.rope_type
            factor = dict(rotary._settings.parameters).get("factor")
            assert found.scaling.get("factor") == factor


def test_widths(rng):
    for head in (64, 256):
        found = pf.identify_rotary(frequencies=pf.presets.llama3(head_dim=head).frequencies)
        assert (found.presets, found.rotary) == (("llama3",), pf.presets.llama3(head_dim=head))
    x = rng.normal(size=(2, 16, 80)).astype(np.float32)
    rotary = pf.Rotary(80, base=777.0, rotary_dim=20, layout="interleaved")
    assert pf.identify_rotary(x=x, turned=rotary.apply(x)).rotary == rotary
    cos, sin = rotary.tables(16)
    assert pf.identify_rotary(cos=cos, sin=sin, head_dim=80).rotary.head_dim == 80


def test_all_pairs_determine_the_base():
    """An error in the fastest pair changes the measured base little."""
    exponents = np.arange(32) / 32
    frequencies = 777.0**-exponents
    frequencies[1] *= 1.0001
    assert 777.0 in _bases(frequencies, 1e-4 * frequencies, exponents)
    assert [*_bases(frequencies[:1], frequencies[:1], exponents[:1])] == []


def test_simple_encodings_are_preferred():
    """If two encodings match about as well, the one without a scaling is named first."""
    sample = _of_frequencies(pf.Rotary(64).frequencies, None, None)
    simple, scaled = pf.Rotary(64), pf.Rotary(64, scaling={"rope_type": "linear", "factor": 1.0})
    fits = [
        _Fit(0.52, 0.0, scaled, sample, "a"),
        _Fit(0.54, 0.0, simple, sample, "b"),
    ]
    found = _named(fits)
    assert (found.scaling, found.presets) == (None, ("a", "b"))
    # a clear difference counts more
    found = _named([fits[0], fits[1]._replace(misfit=0.72)])
    assert (found.scaling["rope_type"], found.presets) == ("linear", ("a", "b"))


# ---- data that are not identified -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pairs", [4, 8, 64])
def test_random_data_is_nothing(pairs, dtype, rng):
    for _ in range(2):
        x, other = rng.normal(size=(2, 2, 16, 2 * pairs))
        angles = rng.uniform(-np.pi, np.pi, (16, pairs))
        slower = np.sort(np.exp(rng.uniform(-12, 0, pairs)))[::-1]
        even = np.outer(np.arange(16), slower)
        values = x[..., :pairs] + 1j * x[..., pairs:]
        turned = [np.exp(1j * a) * values for a in (angles, even)]
        given = [
            {"cos": rng.uniform(-1, 1, (16, pairs)), "sin": rng.uniform(-1, 1, (16, pairs))},
            *({"cos": np.cos(a), "sin": np.sin(a)} for a in (angles, even, np.outer(np.arange(16), rng.random(pairs)))),
            *({"frequencies": f} for f in (slower, rng.normal(size=pairs), rng.random((pairs, 2)))),
            {"x": x, "turned": other},
            {"x": x, "turned": x},
            *({"x": x, "turned": np.concatenate([z.real, z.imag], -1)} for z in turned),
        ]
        for options in given:
            found = pf.identify_rotary(**{name: array.astype(number_type(dtype)) for name, array in options.items()})
            assert not found, (found, options)
            assert found.presets == ()
            assert found.closest is None or found.error > 0


def test_vectors_that_are_not_rotated_are_nothing():
    """Data without a rotation are not identified, because rotations by whole turns would give the same data."""
    assert not pf.identify_rotary(cos=np.ones((16, 4)), sin=np.zeros((16, 4)))
    assert not pf.identify_rotary(frequencies=np.zeros(4))
    x = np.ones((16, 8))
    assert not pf.identify_rotary(x=x, turned=x)
    assert not pf.identify_rotary(x=0 * x, turned=0 * x)
    assert not pf.identify_rotary(x=x[:, :7], turned=2 * x[:, :7])


def test_closest_and_text():
    cos, sin = pf.Rotary(128, base=9.9e3).tables(16)
    cos[3, 5] += 0.01
    found = pf.identify_rotary(cos=cos, sin=sin)
    assert not found
    assert found.closest == "llama"
    assert (found.direction, found.rotary_dim, found.attention_factor) == (0, 0, 1.0)
    assert 0.005 < found.error < 0.05
    assert str(found).startswith("no known rotary encoding; the closest is llama, off by 0.0")
    assert str(pf.identify_rotary(frequencies=np.ones((2, 5)))) == "no known rotary encoding, and no preset is close"
    text = str(pf.identify_rotary(frequencies=pf.presets.nanochat().frequencies))
    assert text.startswith("presets     nanochat\n")
    assert "direction   backwards\n" in text
    assert "layout      undetermined\n" in text


def test_far_ones_are_not_close(rng):
    far = pf.identify_rotary(cos=-pf.Rotary(64).tables(16)[0], sin=rng.uniform(-1, 1, (16, 32)))
    assert (bool(far), far.closest) == (False, None)
    assert far.error > 0.5
    assert pf.identify_rotary(frequencies=5 + rng.random(32)).closest is None
    x = 100 * rng.normal(size=(16, 64))
    near = pf.Rotary(64).apply(x) + 1
    assert not pf.identify_rotary(x=x, turned=near)
    assert pf.identify_rotary(x=x, turned=near).closest is not None
    assert pf.identify_rotary(x=x, turned=100 * rng.normal(size=x.shape)).closest is None


@pytest.mark.parametrize("ml_dtypes", [True, False], ids=["ml_dtypes", "without"])
def test_tensors(ml_dtypes, monkeypatch):
    torch = optional("torch")
    if not ml_dtypes:
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    rotary = pf.Rotary(64)
    cos, sin = (torch.tensor(each).bfloat16().requires_grad_() for each in rotary.tables(32))
    assert pf.identify_rotary(cos=cos, sin=sin).rotary == rotary
    turns = torch.polar(torch.ones(32, 32), torch.outer(torch.arange(32.0), torch.tensor(rotary.frequencies).float()))
    assert pf.identify_rotary(cos=turns.requires_grad_()).base == 10000.0
    with pytest.raises(TypeError, match="the dtype of cos must be one of float64"):
        pf.identify_rotary(cos=torch.ones(4, 4, dtype=torch.int64), sin=sin)


TWO_TABLES = np.stack([COS, SIN])


@wrong_calls(
    """
    dict() | ValueError | pass exactly one of frequencies, cos; and x; , not 0 of them
    dict(frequencies=[1.0], cos=COS) | ValueError | not 2 of them
    dict(frequencies=[1.0], sin=SIN) | ValueError | sin needs cos
    dict(cos=COS, sin=SIN, turned=COS) | ValueError | turned needs x
    dict(x=COS) | ValueError | x needs turned
    dict(x=COS, turned=COS[:, :4]) | ValueError | x has shape (16, 32) and turned has shape (16, 4)
    dict(x=1.0, turned=1.0) | ValueError | x has shape ()
    dict(x=COS, turned=COS, head_dim=4) | ValueError | head_dim=4 differs from the width of x
    dict(x=COS[:1], turned=COS[:1]) | ValueError | at least two tokens
    dict(cos=COS) | ValueError | without sin, cos must be complex
    dict(cos=COS, sin=SIN[1:]) | ValueError | not float64 (16, 32) and float64 (15, 32)
    dict(cos=TWO_TABLES, sin=TWO_TABLES[::-1]) | ValueError | several different tables
    dict(cos=COS, sin=SIN, positions=[1, 2]) | ValueError | has shape (2,), but must have shape (16,)
    dict(cos=COS[:1], sin=SIN[:1]) | ValueError | cos has shape (1, 32), ; at least two tokens
    dict(cos=1.0, sin=0.0) | ValueError | cos has shape (), ; at least two tokens
    dict(cos=COS[:0], sin=SIN[:0]) | ValueError | must not be empty
    dict(cos=COS, sin=SIN, positions=np.full(16, np.nan)) | ValueError | positions has values that are
    dict(cos=COS, sin=SIN, positions=np.ones(16)) | ValueError | all positions are 1.0; pass at least two
    dict(cos=np.full((2, 2), np.nan), sin=SIN) | ValueError | cos has values that are not finite
    dict(cos=COS.astype(int), sin=SIN) | TypeError | the dtype of cos must be one of float64
    dict(frequencies=np.ones((2, 2, 2))) | ValueError | (pairs,) or (pairs, axes), not float64 of shape (2, 2, 2)
    dict(frequencies=[1.0], positions=[1]) | ValueError | frequencies do not depend on positions
    dict(frequencies=[1.0], head_dim=1) | ValueError | head_dim must be at least 2
    dict(frequencies=[1.0], head_dim=2**64) | ValueError | head_dim=18446744073709551616 is too large
    """
)
def test_bad_arguments(call, error, words):
    raises(lambda: pf.identify_rotary(**call()), error, words)
