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


LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 4096}
DEEPSEEK = {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.707}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": 1 + 0.01 * np.arange(32),
    "long_factor": 1 + 0.5 * np.arange(32),
    "original_max_position_embeddings": 4096,
    "factor": 32.0,
}
# (key of the recorded frequencies, key of the recorded attention factor (optional), base, scaling)
SCALINGS = [
    ("g247", "g248", 5e5, {"rope_type": "linear", "factor": 4.0}),
    ("g249", "g250", 5e5, {"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 4096, "seq_len": 16384}),
    ("g251", "g252", 5e5, YARN),
    ("g253", "g254", 5e5, {**YARN, "truncate": False}),
    ("g255", "g256", 5e5, {**YARN, **DEEPSEEK}),
    ("g257", "g258", 5e5, LLAMA3),
    ("g259", "g260", 5e5, LONGROPE),
    ("g261", "g262", 5e5, {**LONGROPE, "seq_len": 4097}),
    ("g263", "g264", 5e5, {"rope_type": "proportional", "partial_rotary_factor": 0.25}),
    ("g265", None, 5e5, {"rope_type": "ntk_fixed", "factor": 4.0}),
    ("g266", None, 5e5, {"rope_type": "ntk_mixed", "factor": 4.0, "b": 0.625}),
    ("g267", None, 5e5, {"rope_type": "ntk", "alpha": 1000.0}),
    ("g268", None, 1e4, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16384}),
    ("g270", None, 1e4, {**YARN, "factor": 4.0, "truncate": False}),
    ("g273", None, 5e5, LLAMA3),
    ("g308", None, 1e4, {"rope_type": "proportional", "partial_rotary_factor": 0.25}),
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


def close(got, expected, angles):
    """Assert that values are equal up to the errors of float32 angles, which are proportional to the angles."""
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6 + 2.4e-7 * np.abs(angles).max())


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(("key", "which"), [("g239", 0), ("g240", 1)], ids=["cos", "sin"])
def test_llama_tables(key, which, arrays):
    positions, expected = arrays[key + "X"].reshape(-1), arrays[key]
    expected = expected.reshape(len(positions), -1)
    rotary = pf.Rotary(expected.shape[1])
    got = rotary.tables(positions)[which]
    for half in np.split(expected, 2, axis=1):
        close(got, half, np.outer(positions, rotary.frequencies))


@pytest.mark.usefixtures("backend")
def test_flash_attention_cosines(arrays):
    close(pf.Rotary(16).tables(9)[0], arrays["g278"], 9.0)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize(("key", "sections"), [
    ("g300", [16, 24, 24]),
    ("g301", {"mrope_section": [24, 20, 20], "mrope_interleaved": True}),
], ids=["Qwen2-VL", "Qwen3-VL"])  # fmt: skip
def test_sections(key, sections, arrays):
    positions, expected = arrays[key + "X"], arrays[key]
    expected = expected.reshape(len(positions), -1)
    if isinstance(sections, dict):
        rotary = pf.Rotary.from_config({"head_dim": 128, "rope_scaling": sections}, layout="half")
    else:
        rotary = pf.Rotary(128, sections=sections)
    got = rotary.tables(positions)[0]
    for half in np.split(expected, 2, axis=1):
        close(got, half, positions)


@pytest.mark.usefixtures("backend")
def test_two_by_two(arrays):
    """FLUX stores a matrix for each pair, with the cosine and sine of `Rotary.tables` and the negative sine."""
    rotary = pf.Rotary(16)
    cos, sin = rotary.tables(9)
    expected = arrays["g291"]
    close(np.stack([cos, -sin, sin, cos], axis=-1).reshape(9, 8, 2, 2), expected, 9.0)
