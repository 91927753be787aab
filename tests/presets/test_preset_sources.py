"""Compare presets of weather and tabular data with their sources: scikit-learn, and values in the sources' own tests.
test_source_programs.py tests presets whose programs are in packages."""

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


def graphcast(seconds, longitude):
    return presets.graphcast().encode(np.stack(np.broadcast_arrays(seconds, longitude), -1), dtype=np.float64)


def test_progress_of_graphcast():
    """The progress of year and day has the values in GraphCast's own tests."""
    # after multiples of 125 years, which are a whole number of seconds, sine and cosine of the year are (0, 1)
    rows = graphcast(np.array([0, 125, 1000, 10**7]) // 125 * 3944615652, 0)
    assert rows[:, :2].tolist() == [[0, 1]] * 4
    # shortly before the end of 1 and of 42 years, the progress is just below 1
    rows = graphcast((31556925.216 - 1) * np.array([1, 42]), 0.0)
    progress = np.arctan2(rows[:, 0], rows[:, 1]) / TWO_PI % 1
    assert ((progress > 0.999) & (progress < 1)).all()
    # at quarters of a local day (by longitude), sine and cosine of the day are exact in any year
    for day in (0, 20000, 10**9):
        rows = graphcast(86400.0 * day + np.array([0.0, 43200.0, 64800.0, 0.0]), [0.0, 0.0, 90.0, 270.0])
        assert rows[:, 2:].tolist() == [[0, 1], [0, -1], [0, 1], [-1, 0]]


def test_digits_of_fone_are_exact(rng):
    encoding = presets.fone(36, int_digit_len=17, frac_digit_len=0, period_base_list=(10,))
    numbers = rng.integers(0, 10**17, size=2000)
    rows = encoding.encode(numbers, dtype=np.float64)
    # for the periods 10, 100, .., the tenth of a period in which a number lies is a decimal digit of the number
    turns = np.arctan2(rows[:, 1::2], rows[:, 0::2]) / TWO_PI % 1
    digits = (np.floor(10 * turns + 1e-9) % 10).astype(int)
    np.testing.assert_array_equal(digits, numbers[:, None] // 10 ** np.arange(18) % 10)
    # columns of a multiple of the period are exactly (1, 0), however large it is
    rows = presets.fone(48).encode(np.array([5 * 10**17, 10**18]))
    np.testing.assert_array_equal(rows, np.tile([*[1, 0] * 22, 0, 0, 0, 0], (2, 1)))


def test_midnights_of_prophet_are_exact():
    assert presets.prophet(1, 1).encode(np.datetime64("2200-05-05")).tolist() == [0, 1]
