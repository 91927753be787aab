"""Test that the verdict of `check` is unknown for learned positions, other weights and ambiguous tensors."""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._models.check.names import kind_of
from support.fuzzing import DTYPES

CONFIG = {"model_type": "llama", "head_dim": 128, "rope_theta": 5e5, "max_position_embeddings": 8192}
OF_FREQUENCIES = ("inv_freq", "rotary.inv_timescale", "rope_freqs.weight")
NAMES = (*OF_FREQUENCIES, "pe", "cos_cached", "sin_cached", "freqs_cis", "rotary.cos")
every_type = pytest.mark.parametrize("dtype", DTYPES.values(), ids=tuple(DTYPES))


@every_type
@pytest.mark.parametrize("config", [None, CONFIG], ids=["alone", "with a config"])
@pytest.mark.parametrize("name", NAMES)
def test_random_weights(name, dtype, config, seed):
    rng = np.random.default_rng(seed)
    shape = (64,) if name in OF_FREQUENCIES else (200, 128)
    for values in (rng.normal(size=shape), 0.02 * rng.normal(size=shape), np.abs(rng.normal(size=shape))):
        arrays = {name: values.astype(dtype)}
        if name == "rotary.cos":
            arrays["rotary.sin"] = rng.normal(size=shape).astype(dtype)
        (finding,) = pf.check(arrays, config=config).findings
        assert (finding.verdict, finding.fault) == ("unknown", None), finding


@pytest.mark.parametrize("smooth", [1, 2])
def test_learned_positions_that_are_smooth(smooth, seed):
    table = 0.02 * np.random.default_rng(seed).normal(size=(512, 64))
    for _ in range(smooth):
        table = np.cumsum(table, axis=0)
    report = pf.check({"wpe.weight": table.astype(np.float32)})
    # `compared` counts this table, because it was compared, although it equals no encoding
    assert ([finding.verdict for finding in report.findings], report.ok, report.compared) == (["unknown"], True, 1)


def test_numbers_far_from_all_frequencies_do_not_overflow():
    # The first value is 0. So `check` also compares the values with a schedule of zeros, and tolerates almost no
    # differences. The quotients of differences and tolerances overflow to infinity. This must not cause a warning.
    (finding,) = pf.check({"inv_freq": np.arange(4.0)}).findings
    assert finding.verdict == "unknown"


def test_linear_scaling_is_ambiguous():
    """With linear scaling, unscaled frequencies are "unknown": some programs divide the positions instead of them."""
    config = {**CONFIG, "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
    frequencies = pf.Rotary(128, base=5e5).frequencies.astype(np.float32)
    (finding,) = pf.check({"inv_freq": frequencies}, config=config).findings
    assert (finding.verdict, "divides positions" in finding.says) == ("unknown", True)


@pytest.mark.parametrize(("name", "shape", "kind"), [
    ("model.layers.3.self_attn.rotary_emb.inv_freq", (64,), "frequencies"),
    ("inv_freq", (64, 64), None),
    ("model.rotary.inv_timescale", (64,), "schedule"),
    ("rope_freqs.weight", (64,), "divisors"),
    ("freqs_cis", (100, 64), "both"),
    ("attn.cos_cached", (1, 1, 100, 64), "cos"),
    ("cosine_head.weight", (100, 64), None),
    ("pe", (1, 100, 64), "table"),
    ("wpe.weight", (1024, 768), "table"),
    ("position_ids", (1, 512), None),
    ("relative_position_bias_table", (169, 12), None),
    # the limits of lengths
    ("inv_freq", (2**16,), "frequencies"),
    ("inv_freq", (2**16 + 1,), None),
    ("pe", (8, 4), "table"),
    ("pe", (7, 4), None),
    ("pe", (8, 3), None),
])  # fmt: skip
def test_names_and_shapes(name, shape, kind):
    assert kind_of(name, shape) == kind
