"""Test `float32_frequencies`: an Encoding with these frequencies rounds their products with positions to float32."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import posenc_fast as pf

FREQUENCIES = np.exp(np.arange(8, dtype=np.float32) * np.float32(-0.7))
# at this position, rounding the products with frequencies to float32 changes sines and cosines much
FAR = 123457


def program(positions):
    """Return the rows that calls must compute: products rounded to float32, then sines and cosines rounded once."""
    angles = (np.asarray(positions, np.float32)[..., np.newaxis] * FREQUENCIES).astype(np.float64)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1).astype(np.float32)


@pytest.fixture
def encoding():
    return pf.sinusoidal(16, frequencies=pf.float32_frequencies(FREQUENCIES), layout="concatenated")


@pytest.mark.usefixtures("backend")
class TestCalls:
    """Test methods of an Encoding, with small and large arrays."""

    def test_table(self, encoding):
        for length in (1, 7, 5000):
            np.testing.assert_array_equal(encoding.table(length, start=FAR), program(np.arange(FAR, FAR + length)))
        np.testing.assert_array_equal(encoding.table(5, start=0.5, step=3), program(np.arange(5) * 3 + 0.5))

    def test_encode(self, encoding):
        np.testing.assert_array_equal(encoding.encode(FAR + 0.25), program(FAR + 0.25))
        for count in (1, 9, 6000):
            positions = np.linspace(-FAR, FAR, count)
            np.testing.assert_array_equal(encoding.encode(positions), program(positions))
            np.testing.assert_array_equal(encoding.encode(positions.astype(np.int64)), program(positions.astype(int)))

    def test_sums_and_grids(self, encoding):
        x = np.zeros((2, 9, 16), np.float32)
        np.testing.assert_array_equal(encoding.add_to(x, start=FAR)[1], program(np.arange(FAR, FAR + 9)))
        np.testing.assert_array_equal(encoding.add_to(x, positions=np.arange(9.0))[0], program(np.arange(9)))
        made = pf.grid([np.array([FAR, 3]), 5], pf.join([encoding, encoding], axes=[0, 1]))
        np.testing.assert_array_equal(made[0, 4], np.concatenate([program(FAR), program(4)]))

    @pytest.mark.parametrize("length", [1, 300])
    def test_rotary(self, length, rng):
        rotary = pf.Rotary(16, frequencies=pf.float32_frequencies(FREQUENCIES))
        cosines, sines = rotary.tables(length, start=FAR)
        tables = np.concatenate([sines, cosines], axis=1)
        np.testing.assert_array_equal(tables, program(np.arange(FAR, FAR + length)), strict=True)
        x = rng.normal(size=(1, 2, length, 16)).astype(np.float32)
        turned = rotary.apply(x, start=FAR)
        np.testing.assert_array_equal(turned, rotary.apply(x, start=FAR, precision="float32"))
        np.testing.assert_array_equal(turned, rotary.apply(x, positions=np.arange(FAR, FAR + length)))


def test_is_a_value(encoding):
    for value in (encoding, pf.Rotary(16, frequencies=pf.float32_frequencies(FREQUENCIES))):
        assert pickle.loads(pickle.dumps(value)) == value == eval(value.recipe, vars(pf))
    assert encoding != pf.sinusoidal(16, frequencies=FREQUENCIES, layout="concatenated")
    assert pf.float32_frequencies(FREQUENCIES)[1:4] == pf.float32_frequencies(FREQUENCIES[1:4])
    # other numbers are rounded
    wide = FREQUENCIES.astype(np.float64) * (1 + 2.0**-30)
    assert pf.sinusoidal(16, frequencies=pf.float32_frequencies(wide), layout="concatenated") == encoding
    with pytest.raises(ValueError, match=r"float32_frequencies.*two encodings"):
        pf.join([encoding, pf.sinusoidal(4)])


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        ([1.0, 1e39], ValueError, r"range of float32, but contains 1e\+39"),
        ([np.nan], ValueError, "finite"),
        (1.0, ValueError, r"shape \(\), but must have shape \(k,\)"),
        ([], ValueError, r"shape \(0,\)"),
        (["a"], TypeError, "values must be real numbers"),
    ],
)
def test_refused(values, error, says):
    with pytest.raises(error, match=says):
        pf.float32_frequencies(values)


def test_schedules_are_cut():
    schedule = pf.geometric(9)
    for chosen in (slice(1, None, 2), slice(None, None, -2), slice(0, 4), slice(-3, None)):
        part = schedule[chosen]
        np.testing.assert_array_equal(np.asarray(part), np.asarray(schedule)[chosen])
        assert len(part) == np.asarray(part).size
        assert eval(repr(part), vars(pf)) == part == pickle.loads(pickle.dumps(part))
    assert pf.periodic([7, 24, 365])[1:] == pf.periodic([24, 365])
    with pytest.raises(TypeError, match=r"must be a slice, not 3; numpy.asarray"):
        schedule[3]
    with pytest.raises(ValueError, match="selects none of the 9 frequencies"):
        schedule[9:]
