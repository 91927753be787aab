"""Test rows that an engine leaves to exact arithmetic: the engine marks them, and the package computes them."""

from __future__ import annotations

import types

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.encoding.plans import Plans
from posenc_fast._core.engine import backend as _backend

pytestmark = pytest.mark.usefixtures("backend")


def plan_of(encoding, **changed):
    """Return a Plan of the engine for an encoding, with some arguments changed, and the original argument `largest`."""
    arguments = {}

    def recorded(frequencies, largest, source, amplitude, runs, planar):
        arguments.update(locals())
        return object()

    engine = _backend.current()
    spy = engine._replace(module=types.SimpleNamespace(Plan=recorded))
    Plans(encoding._sinusoids).plan(spy, "real")
    names = ("frequencies", "largest", "source", "amplitude", "runs", "planar")
    return engine.module.Plan(**{key: changed.get(key, arguments[key]) for key in names}), arguments["largest"]


def test_engine_returns_which_rows_it_left():
    plan, largest = plan_of(pf.sinusoidal(6))
    positions = np.array([0.0, 1e-300, 5.0, 2.0**50 / largest[0], -1e300, np.nan, -(2.0**40)])[:, np.newaxis]
    out = np.full((len(positions), 6), -7.0)
    left = plan.encode(_backend.current().level, positions, out, 0)
    assert left == bytes([0, 1, 0, 1, 1, 0, 0])
    assert ((out == -7).all(axis=1) == np.frombuffer(left, np.bool_)).all()
    assert plan.encode(_backend.current().level, positions[[0, 2, 6]], out[:3], 0) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("largest", [0.0, 1e9, np.inf], ids="{:g}".format)
def test_rows_that_the_engine_leaves_are_computed(largest, dtype):
    """Results do not depend on which rows the engine leaves.

    The argument `largest`, a bound of the frequencies, decides which rows these are.
    """
    encoding, positions, eps = pf.sinusoidal(6, base=50.0), np.linspace(-3e6, 4e6, 71), np.finfo(dtype).eps
    expected = encoding.encode(positions, dtype=dtype)
    # change the plan of a new Encoding, because other tests use the Encoding that `sinusoidal` caches
    doctored = pf.Encoding._of(pf.sinusoidal(6, base=50.0, scale=-1.0)._sinusoids)
    plan, _ = plan_of(doctored, largest=np.array([largest]))
    doctored._plans._cache[_backend.current().backend, "real"] = plan, False
    out = np.full((71, 6), np.nan, dtype)
    doctored.encode(positions, dtype=dtype, out=out)
    np.testing.assert_allclose(-out, expected, rtol=2 * eps, atol=0)
    np.testing.assert_allclose(-doctored.encode(positions[3], dtype=dtype), expected[3], rtol=2 * eps, atol=0)
    out = doctored.add_to(np.full((71, 6), -1, dtype), positions=positions)
    added = encoding.add_to(np.ones((71, 6), dtype), positions=positions)
    np.testing.assert_allclose(-out, added, rtol=0, atol=2 * eps)
