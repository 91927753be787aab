"""Compare rotated queries with those of a program that computes angles in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

import posenc_fast as pf


def pairs(x: Any, rotary: pf.Rotary) -> np.ndarray:
    """Return the rotated values of x as complex numbers (..., pairs), one for each pair."""
    rotating = np.asarray(x, np.float64)[..., : rotary.rotary_dim]
    if rotary.layout == "interleaved":
        return rotating[..., 0::2] + 1j * rotating[..., 1::2]
    return rotating[..., : rotary.rotary_dim // 2] + 1j * rotating[..., rotary.rotary_dim // 2 :]


def assert_rotated_alike(rotary: pf.Rotary, positions: Any, q: np.ndarray, expected: np.ndarray) -> None:
    """Assert that a Rotary rotates q to the expected values, up to the errors of float32 angles."""
    rotated = rotary.apply(q, positions=positions)
    np.testing.assert_array_equal(rotated[..., rotary.rotary_dim :], expected[..., rotary.rotary_dim :])
    frequencies = rotary._angles_of("cos").frequencies.reshape(rotary.rotary_dim // 2, -1)
    angles = np.abs(np.asarray(positions, np.float64).reshape(len(positions), -1)) @ np.abs(frequencies).T
    allowed = np.abs(pairs(rotated, rotary)) * (1e-6 + 5e-7 * angles)
    difference = np.abs(pairs(rotated, rotary) - pairs(expected, rotary))
    assert (difference <= allowed).all(), (difference / allowed).max()
