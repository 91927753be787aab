"""Compare presets of weather, molecules and tabular data with their sources: scikit-learn, published constants, and
values in the sources' own tests. test_source_programs.py tests presets whose programs are in packages."""

from __future__ import annotations

import numpy as np
import pytest

from posenc_fast import presets
from support.optional import optional

TWO_PI = 2 * np.pi


@pytest.mark.slow
def test_random_kitchen_sinks_of_scikit_learn(rng):
    """`rbf_sampler` returns the values of scikit-learn's RBFSampler. Each column of x is an axis."""
    sampler = optional("sklearn.kernel_approximation").RBFSampler(gamma=0.3, n_components=40, random_state=7)
    x = rng.normal(size=(20, 300))
    expected = sampler.fit_transform(x)
    made = presets.rbf_sampler(sampler.random_weights_, sampler.random_offset_)
    np.testing.assert_allclose(made.encode(x, dtype=np.float64), expected, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_constants_of_alphafold3():
    """Jax draws the constants of the source, as the page of presets describes."""
    jax = optional("jax")
    with jax.threefry_partitionable(False):
        of_weights, of_biases = jax.random.split(jax.random.PRNGKey(42))
        weights = np.asarray(jax.random.normal(of_weights, [256]))
        biases = np.asarray(jax.random.uniform(of_biases, [256]))
    np.testing.assert_allclose(weights[:4], [0.45873642, 0.06516238, -0.07278306, -0.26992258], rtol=0, atol=5e-9)
    np.testing.assert_allclose(biases[:4], [0.00465965, 0.21738243, 0.22277749, 0.68463874], rtol=0, atol=5e-9)


class TestGraphCast:
    """Compare `graphcast` with values in GraphCast's own tests of the progress of year and day."""

    def test_whole_years_begin_anew(self):
        """After multiples of 125 years, which are a whole number of seconds, sine and cosine of the year are (0, 1)."""
        seconds = np.array([0, 125, 1000, 10**7]) // 125 * 3944615652
        rows = presets.graphcast().encode(np.stack([seconds, np.zeros(4, int)], -1), dtype=np.float64)
        assert rows[:, :2].tolist() == [[0, 1]] * 4

    def test_last_second_of_a_year(self):
        """Shortly before the end of 1 and of 42 years, the progress is just below 1, as in GraphCast's test."""
        year = 31556925.216
        seconds = np.array([year - 1, (year - 1) * 42])
        rows = presets.graphcast().encode(np.stack([seconds, [0.0, 0.0]], -1), dtype=np.float64)
        progress = np.arctan2(rows[:, 0], rows[:, 1]) / TWO_PI % 1
        assert ((progress > 0.999) & (progress < 1)).all()

    def test_days_follow_the_longitude(self):
        """At quarters of a local day (by longitude), sine and cosine of the day are exact in any year."""
        for day in (0, 20000, 10**9):
            seconds = 86400.0 * day + np.array([0.0, 43200.0, 64800.0, 0.0])
            longitude = np.array([0.0, 0.0, 90.0, 270.0])
            rows = presets.graphcast().encode(np.stack([seconds, longitude], -1), dtype=np.float64)
            assert rows[:, 2:].tolist() == [[0, 1], [0, -1], [0, 1], [-1, 0]]


class TestFoNE:
    def decoded(self, rows):
        """Return, for each row and period, in which tenth of the period (0 to 9) the position lies.

        For the periods 10, 100, .., this tenth is a decimal digit of the position.
        """
        turns = np.arctan2(rows[:, 1::2], rows[:, 0::2]) / TWO_PI % 1
        return (np.floor(10 * turns + 1e-9) % 10).astype(int)

    def test_digits_of_whole_numbers_are_exact(self, rng):
        encoding = presets.fone(36, int_digit_len=17, frac_digit_len=0, period_base_list=(10,))
        numbers = rng.integers(0, 10**17, size=2000)
        digits = numbers[:, None] // 10 ** np.arange(18) % 10
        np.testing.assert_array_equal(self.decoded(encoding.encode(numbers, dtype=np.float64)), digits)

    def test_residues_are_whole_turns(self):
        """Columns of a position that is a multiple of the period are exactly (1, 0), however large the position is."""
        encoding = presets.fone(48)
        rows = encoding.encode(np.array([5 * 10**17, 10**18]))
        np.testing.assert_array_equal(rows[:, :44], np.tile([1, 0], (2, 22)))
        assert not rows[:, 44:].any()


def test_midnights_of_prophet_are_exact():
    assert presets.prophet(1, 1).encode(np.datetime64("2200-05-05")).tolist() == [0, 1]
