"""Compare rotary encodings with outputs of published code; see golden/README.md."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import posenc_fast as pf

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = {
    entry["key"]: entry["name"]
    for part in json.loads((GOLDEN / "golden.json").read_text(encoding="utf-8")).values()
    if isinstance(part, list)
    for entry in part
}


@pytest.fixture(scope="module")
def arrays():
    with np.load(GOLDEN / "golden.npz") as file:
        return dict(file)


# fmt: off
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
LONGROPE = {"rope_type": "longrope", "short_factor": 1 + 0.01 * np.arange(32), "factor": 32.0,
            "long_factor": 1 + 0.5 * np.arange(32), "original_max_position_embeddings": 4096}
# fmt: on
# (key of the recorded frequencies, key of the recorded attention factor (optional), base, scaling)
SCALINGS = [
    ("g247", "g248", 5e5, {"rope_type": "linear", "factor": 4.0}),
    ("g249", "g250", 5e5, {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 4096, "seq_len": 16384}),
    ("g251", "g252", 5e5, YARN),
    ("g253", "g254", 5e5, {**YARN, "truncate": False}),
    ("g255", "g256", 5e5, {**YARN, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.707}),
    ("g257", "g258", 5e5, LLAMA3),
    ("g259", "g260", 5e5, LONGROPE),
    ("g261", "g262", 5e5, {**LONGROPE, "seq_len": 4097}),
    ("g263", "g264", 5e5, {"rope_type": "proportional", "partial_rotary_factor": 0.25}),
    ("g265", None, 5e5, {"rope_type": "ntk_fixed", "factor": 4.0}),
    ("g266", None, 5e5, {"rope_type": "ntk_mixed", "factor": 4.0, "b": 0.625}),
    ("g267", None, 5e5, {"rope_type": "ntk", "alpha": 1000.0}),
]


@pytest.mark.parametrize(
    ("frequencies", "factor", "base", "scaling"), SCALINGS, ids=[f"{case[0]} {NAMES[case[0]]}" for case in SCALINGS]
)
def test_scalings(frequencies, factor, base, scaling, arrays):
    rotary = pf.Rotary(64, base=base, scaling=scaling)
    # the tolerance covers the errors of published frequencies, which are computed in float32
    np.testing.assert_allclose(rotary.frequencies, arrays[frequencies], rtol=5e-7, atol=0)
    if factor is not None:
        np.testing.assert_allclose(rotary.attention_factor, arrays[factor][0], rtol=1e-15)


# (key of the recorded table, Rotary, function of the cosines and sines of its tables)
TABLES = [
    ("g239", pf.Rotary(16), lambda cos, sin: np.tile(cos, 2)),
    # FLUX stores a matrix of two by two for each pair
    ("g291", pf.Rotary(16), lambda cos, sin: np.stack([cos, -sin, sin, cos], axis=-1)),
    ("g300", pf.Rotary(128, sections=[16, 24, 24]), lambda cos, sin: np.tile(cos, 2)),
    ("g301", pf.Rotary(128, sections=[0, 1, 2] * 20 + [0] * 4), lambda cos, sin: np.tile(cos, 2)),
]


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(("key", "rotary", "columns"), TABLES, ids=[f"{case[0]} {NAMES[case[0]]}" for case in TABLES])
def test_tables(key, rotary, columns, arrays):
    positions = arrays.get(key + "X", np.arange(9))
    positions = positions.reshape(-1) if rotary.ndim == 1 else positions
    got = columns(*rotary.tables(positions))
    # errors of float32 angles are proportional to the angles
    atol = 2e-6 + 2.4e-7 * np.abs(positions).max()
    np.testing.assert_allclose(got, arrays[key].reshape(got.shape), rtol=0, atol=atol)
