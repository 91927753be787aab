"""Compare `coarse_to_fine`, which enables frequencies one after another, with the programs of BARF and Nerfies."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast import presets

ALPHAS = (-1.0, 0.0, 0.25, 1.0, 2.999, 9.99, 47.0)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_barf(alpha, rng):
    """Compare with BARF, whose frequencies are pi * 2^i. Its columns are ordered by axis, function and frequency."""
    n, x = 10, rng.normal(size=(4, 3))
    spectrum = x[..., None] * 2.0 ** np.arange(n) * np.pi
    weight = (1 - np.cos(np.clip(alpha - np.arange(n), 0, 1) * np.pi)) / 2
    expected = np.stack([np.sin(spectrum), np.cos(spectrum)], axis=-2) * weight
    encoding = presets.tiny_cuda_nn(n)
    now = pf.Encoding(encoding.frequencies, encoding.phases, encoding.coarse_to_fine(alpha))
    made = now.encode(x, dtype=np.float64).reshape(4, 3, n, 2).swapaxes(2, 3)
    np.testing.assert_allclose(made, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_nerfies(alpha):
    """In Nerfies, frequency 2^i has a weight above 0 if alpha > i.

    In `coarse_to_fine`, alpha counts from the lowest frequency.
    """
    low, n = 2, 5
    bands = np.linspace(low, low + n - 1, n)
    window = 0.5 * (1 + np.cos(np.pi * np.clip(alpha - bands, 0.0, 1.0) + np.pi))
    made = presets.mip_nerf(low, low + n).coarse_to_fine(alpha - low)
    np.testing.assert_allclose(made.reshape(2, n, 3), np.broadcast_to(window[:, None], (2, n, 3)), rtol=0, atol=1e-15)


@pytest.mark.parametrize("alpha", [1e-300, 1e-9, 1 / 3, 1 - 2**-53])
def test_rounded_once(alpha):
    """Weights are rounded once, also for a tiny alpha, for which the formula (1 - cos) / 2 would lose all digits."""
    with mpmath.workprec(300):
        exact = mpmath.sin(mpmath.pi * mpmath.mpf(alpha) / 2) ** 2
    assert pf.fourier_features([3.0]).coarse_to_fine(alpha).tolist() == [float(exact)] * 2


def test_bands_are_different_frequencies():
    encoding = pf.fourier_features([4.0, -1.0, 0.0, 4.0, 2.0], functions=("cos",), scale=-0.5)
    assert encoding.coarse_to_fine(1.5).tolist() == [-0.0, -0.5, -0.5, -0.0, -0.25]
    # columns whose frequency vectors have equal lengths are one band: three directions, each with sine and cosine
    theory = presets.space2vec_theory(4)
    assert theory.coarse_to_fine(2).tolist() == [0.0] * 12 + [1.0] * 12
    assert pf.Encoding([0.0, 0.0]).coarse_to_fine(0).tolist() == [1, 1]


@pytest.mark.parametrize(("alpha", "error"), [("1", TypeError), (np.nan, ValueError), (np.inf, ValueError)])
def test_bad_alpha(alpha, error):
    with pytest.raises(error, match="alpha must be a"):
        pf.sinusoidal(4).coarse_to_fine(alpha)
