"""Native code against the reference against the tutorials' programs, at three sizes that mean something.

``pytest bench`` prints one group for each size; the ids are those of the tests. Every benchmark checks the values that
it timed. ``bench/targets.py`` has the ratios, side by side.
"""

from __future__ import annotations

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.reference import vaswani_loops, vaswani_numpy

BACKENDS = {f"cython-{isa}": ("cython", isa) for isa in pf.isa_levels()} | {"python": ("python", None)}
SHAPES = {"token 1x512": (1, 512), "sequence 512x512": (512, 512), "table 8192x1024": (8192, 1024)}


def check(table, length, d_model):
    rows = min(length, 64)
    expected = vaswani_numpy(length, d_model)[-rows:]
    assert table.shape == (length, d_model)
    assert np.abs(np.asarray(table)[-rows:] - expected).max() < 1e-7


@pytest.mark.parametrize(("length", "d_model"), list(SHAPES.values()), ids=list(SHAPES))
@pytest.mark.parametrize("name", list(BACKENDS))
def test_table(benchmark, name, length, d_model):
    benchmark.group = f"{length}x{d_model}"
    if name == "python" and length > 1000:
        pytest.skip("the reference takes seconds at this size; the tutorial's program stands for NumPy")
    with pf.use_backend(*BACKENDS[name]):
        check(benchmark(pf.positional_encoding, length, d_model), length, d_model)


@pytest.mark.parametrize(("length", "d_model"), list(SHAPES.values()), ids=list(SHAPES))
@pytest.mark.parametrize("program", [vaswani_numpy, vaswani_loops], ids=lambda program: program.__name__)
def test_tutorial(benchmark, program, length, d_model):
    if program is vaswani_loops and length > 1:
        pytest.skip("a double loop in Python takes seconds at this size")
    benchmark.group = f"{length}x{d_model}"
    check(benchmark(program, length, d_model), length, d_model)


@pytest.mark.parametrize("name", list(BACKENDS))
def test_one_timestep(benchmark, name):
    benchmark.group = "encode one timestep, width 512"
    encoding = pf.sinusoidal(512)
    with pf.use_backend(*BACKENDS[name]):
        row = benchmark(encoding.encode, 500.0)
    assert np.abs(row - pf.reference.sinusoidal(512).encode(500.0)).max() < 1e-7
