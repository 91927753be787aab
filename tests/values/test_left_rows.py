"""Test rows that an engine leaves to exact arithmetic: the engine marks them, and the package computes them."""

from __future__ import annotations

import types

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.engine import backend as _backend

pytestmark = pytest.mark.usefixtures("backend")


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("largest", [0.0, 1e9, np.inf], ids="{:g}".format)
def test_rows_that_the_engine_leaves_are_computed(largest, dtype):
    """Results do not depend on which rows the engine leaves.

    The argument `largest`, a bound of the frequencies, decides which rows these are.
    """
    engine = _backend.current()

    def plan(frequencies, _, *others):
        return engine.module.Plan(frequencies, np.array([largest]), *others)

    encoding, positions, eps = pf.sinusoidal(6, base=50.0), np.linspace(-3e6, 4e6, 71), np.finfo(dtype).eps
    expected = encoding.encode(positions, dtype=dtype)
    # change the plan of a new Encoding, because other tests use the Encoding that `sinusoidal` caches
    doctored = pf.Encoding._of(pf.sinusoidal(6, base=50.0, scale=-1.0)._sinusoids)
    # this keeps the plan for later calls
    doctored._plans.plan(engine._replace(module=types.SimpleNamespace(Plan=plan)), "real")
    out = np.full((71, 6), np.nan, dtype)
    doctored.encode(positions, dtype=dtype, out=out)
    np.testing.assert_allclose(-out, expected, rtol=2 * eps, atol=0)
    np.testing.assert_allclose(-doctored.encode(positions[3], dtype=dtype), expected[3], rtol=2 * eps, atol=0)
    out = doctored.add_to(np.full((71, 6), -1, dtype), positions=positions)
    added = encoding.add_to(np.ones((71, 6), dtype), positions=positions)
    np.testing.assert_allclose(-out, added, rtol=0, atol=2 * eps)
