"""Test that every engine computes the same bits: stored hashes, and results near rounding midpoints."""

from __future__ import annotations

import hashlib
import re
from fractions import Fraction

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.engine import python as engine
from posenc_fast._core.numbers import rounding
from posenc_fast._core.numbers.doubles import fma
from posenc_fast._core.rotary.scaling import SCALINGS
from posenc_fast._models.config.rules import SPECTRA
from posenc_fast._models.config.table import row
from posenc_fast._selfcheck import bits, frequencies
from support.checkout import checkout
from support.engines import ENGINES, bits_of_all_engines
from support.fuzzing import DTYPES

NARROW = {name: dtype for name, dtype in DTYPES.items() if name != "float64"}


def of(array):
    return array.view(f"u{array.itemsize}")


def test_stored_hashes(backend):
    found = dict(bits.hashes(bits.SHORT))
    assert found == {name: digest for name, digest in bits.expected(bits.SHORT).items() if name in found}


# in pure Python, the hashes at all widths take minutes
LOOPS = [pytest.param("python", None, marks=pytest.mark.slow), *(("cython", level) for level in pf.isa_levels())]


@pytest.mark.parametrize(("name", "level"), LOOPS)
def test_stored_hashes_at_all_widths(name, level):
    with pf.use_backend(name, level):
        found = dict(bits.hashes_of_loops())
    assert found == {name: digest for name, digest in bits.expected("loops").items() if name in found}


def test_rows_in_the_middle_of_two_anchors(backend):
    """All engines compute a row in the middle of two anchor rows by rotating the same one of them.

    If an engine rotated the other one, about 20 of these million values would differ.
    """
    rows = pf.sinusoidal(512).table(2048, start=2**33 + 32, step=64, dtype=np.float64)
    digest = hashlib.sha256(rows.astype("<f8", copy=False)).hexdigest()
    assert digest == "c4134c343efa177362151757399c4469d19cd64671aa35d794e6d93cfb3eea44"


def test_the_loops_meet_the_ends_of_vectors():
    """For the tested widths and vectors, the end of a row after its last whole vector has every possible length."""
    for lanes in (4, 8, 16, 32):
        assert {width % lanes for width in bits.WIDTHS} == set(range(lanes))
        assert {width % lanes for width in bits.WIDTHS if width > 100} >= {0, 1, lanes - 1}
    assert max(bits.WIDTHS) > 256 + 32


@pytest.mark.parametrize("frequency", [1.0, 0.37])
def test_every_magnitude(frequency, rng):
    # all engines must change the method of argument reduction at the same angles; else the bits would differ there
    positions = np.ldexp(rng.uniform(1, 2, (200, 91)), np.arange(-30, 61)).ravel()
    encoding = pf.fourier_features([frequency])
    bits_of_all_engines(lambda: encoding.encode(positions))


@pytest.mark.parametrize("scale", [1.0, 1.1, -1e-200, 2.0**1000, 3.3e300])
def test_enormous_sums(scale, rng):
    """For these products, FMA gives the rounding error, but Dekker's algorithm overflows when it splits the factors."""
    x = rng.uniform(-1, 1, (2, 200, 64)) * 2.0 ** rng.integers(-20, 1023, (2, 200, 64))
    with np.errstate(over="ignore"):
        bits_of_all_engines(lambda: pf.sinusoidal(64).add_to(x, x_scale=scale))


def test_stored_hashes_of_frequencies():
    found, right = dict(bits.hashes_of_frequencies()), bits.expected("frequencies")
    assert found.keys() == right.keys()
    assert [name for name, digest in found.items() if right[name] != digest] == []


def test_the_stored_frequencies_are_of_every_kind():
    """The stored hashes cover all presets, all scalings, all rules of models.txt for frequencies, and exact periods."""
    names = frequencies.sets().keys()
    assert {name.split()[1].rstrip(",") for name in names if name.startswith("preset ")} == set(pf.presets.names())
    assert frequencies.SCALINGS.keys() == SCALINGS.keys()
    models = {config["model_type"] for config, _ in frequencies.CONFIGS.values()}
    assert {row(model).spectrum for model in models} >= SPECTRA.keys()
    assert any("periods" in name for name in names)


def test_the_calls_have_as_many_values_as_promised():
    for dtype in (np.dtype(np.float64), np.dtype(np.float16)):
        assert sum(make(dtype, 0).size for make in bits.calls().values()) >= 2**20


def test_fma_is_rounded_once(rng):
    # every third c cancels the product a * b except for the last bits of the product, where a wrong rounding shows
    a, b = (rng.uniform(1, 2, 3000) * 2.0 ** rng.integers(-9, 9, 3000) for _ in range(2))
    c = -a * b * np.where(np.arange(3000) % 3 == 0, 1, 2.0 ** rng.integers(-60, 60, 3000))
    # products of 54 bits lie in the middle between two doubles, so a far smaller c decides the rounding
    middle = rng.integers(2**26 + 2**25, 2**27, (2, 300)) | 1
    a, b = np.concatenate([[a, b], middle], axis=1)
    c = np.concatenate([c, rng.choice([-1, 1], 300) * 2.0 ** rng.integers(-120, -60, 300)])
    for got, *numbers in zip(fma(a, b, c).tolist(), a.tolist(), b.tolist(), c.tolist(), strict=True):
        x, y, z = map(Fraction, numbers)
        assert got == float(x * y + z), numbers


def test_reach_bounds_changes_by_fma(rng):
    """Sines and cosines with FMA differ from those without FMA by at most 2^-50.8 of the value, the proven bound."""
    x = np.concatenate(
        [rng.uniform(-0.1255, 0.1255, 200000), rng.normal(size=1000) * 10.0 ** rng.integers(-200, -1, 1000)]
    )
    zero = np.zeros(x.shape, np.uint64)
    for one, other in zip(engine.sincos(x, zero), engine.sincos(x, zero, fused=True), strict=True):
        assert np.abs(other / one - 1).max() <= 2.0**-50.8


def middles(name, subnormal, values, rng):
    """Return amplitudes whose products with the values are as near to rounding midpoints of a type as doubles allow."""
    places, least = {"float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}[name]
    if subnormal:
        return (rng.integers(0, 2 ** (places - 1), values.shape) + 0.5) * 2.0**least / values
    return (rng.integers(2 ** (places - 1), 2**places, values.shape) + 0.5) * 2.0**-places / values


@pytest.mark.parametrize("subnormal", [False, True], ids=["normal", "subnormal"])
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("count", [3, 100], ids=["several rows at a time", "row by row"])
def test_the_middle_of_two_numbers(name, subnormal, count, rng, monkeypatch):
    """For these values, levels without FMA must emulate it: plain products and sums often round to the other side."""
    results = {which: [] for which in [*ENGINES, "plain"]}
    for _ in range(300 // count + 10):
        frequencies = np.repeat(rng.uniform(0.1, 1, count), 2)
        phases, position = np.tile([0.0, 0.25], count), rng.uniform(-1000, 1000)
        values = pf.Encoding(frequencies, phases).encode(position, dtype=np.float64)
        encoding = pf.Encoding(frequencies, phases, middles(name, subnormal, values, rng))
        for which, found in results.items():
            with pf.use_backend(*("python", None) if which == "plain" else which), monkeypatch.context() as patch:
                if which == "plain":
                    patch.setattr(engine, "REACH", 0.0)
                found.append(of(encoding.encode(np.full(50, position), dtype=NARROW[name])))
    for which in ENGINES:
        assert np.array_equal(results[which], results[ENGINES[0]]), which
    assert not np.array_equal(results["plain"], results[ENGINES[0]])


def test_one_set_of_constants_in_two_files():
    """The kernel and the Python engine define the same polynomials and limits.

    Tests of values do not find a limit that is too high in one of them.
    """
    headers = "".join((checkout() / "src" / f"{name}.h").read_text() for name in ("coefficients", "constants"))
    defined = dict(re.findall(r"^ *#define (\w+) (\S+)$", headers, re.MULTILINE))
    for letter, coefficients in (("S", engine.SINE), ("C", engine.COSINE)):
        assert [float.fromhex(defined[f"{letter}{k}"]) for k in range(7)] == coefficients
    assert float(defined["ROUNDER"]) == engine.ROUNDER
    assert float(defined["QUARTERS"]) == engine.QUARTERS
    assert float(defined["MOST_DIRECT"]) == engine.MOST_DIRECT
    assert float.fromhex(defined["REACH"]) == engine.REACH
    assert float(defined["MOST"]) == rounding.EXACT_LIMIT
    assert float(defined["TINY"]) == rounding.TINY
    assert float.fromhex(defined["POSENC_HUGE"]) == rounding.SPLIT_LIMIT


@pytest.mark.parametrize("dtype", [np.float64, *NARROW.values()], ids=["float64", *NARROW])
def test_missing_positions_and_infinite_angles_are_one_nan(dtype, backend):
    encoding, nan = pf.sinusoidal(9, odd="zero", freq_shift=1.0), of(np.array([np.nan], dtype))
    for precision in ("exact", "float32"):
        rows = encoding.encode([np.nan, -np.nan, np.inf, -np.inf], dtype=dtype, precision=precision)
        assert (of(rows) == nan).all(), precision
    # in float32, the angles of the second column are finite, and the others are infinite
    encoding = pf.Encoding([1e30, 1e-30, 1e30, 1e30], [0.0, 0.0, 0.25, 0.1])
    rows = of(encoding.encode([1e30, -1e30, 1e20], dtype=dtype, precision="float32"))
    assert (rows[:, [0, 2, 3]] == nan).all()
    assert (rows[:, 1] != nan).all()
