"""Time the kernel, the pure-Python engine and the programs of the tutorials, at three typical sizes.

``pytest bench/test_bench.py`` prints a group of times for each size. Every benchmark compares the timed values with
those of the pure-Python backend. For ratios, run ``bench/targets.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import values

import posenc_fast as pf
from posenc_fast.reference import vaswani_loops, vaswani_numpy

BACKENDS = {"python": ("python", None)} | {f"cython-{isa}": ("cython", isa) for isa in pf.isa_levels()}
pytestmark = pytest.mark.benchmark(disable_gc=True)
SHAPES = {"512x512": (512, 512), "8192x1024": (8192, 1024)}


@pytest.fixture(params=list(BACKENDS.values()), ids=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    name, isa = request.param
    with pf.use_backend(name, isa):
        yield name


@pytest.fixture(params=list(SHAPES.values()), ids=list(SHAPES))
def shape(request: pytest.FixtureRequest) -> tuple[int, int]:
    return request.param


def timed(benchmark: Any, group: str, slow: bool, call: Any, *arguments: Any) -> Any:
    """Return the result of a call, and time it: three rounds if it is slow, else many. group: heading of the times."""
    benchmark.group = group
    return benchmark.pedantic(call, arguments, rounds=3, warmup_rounds=1) if slow else benchmark(call, *arguments)


def test_one_token(benchmark: Any, backend: str) -> None:
    encoding = pf.sinusoidal(512)
    row = timed(benchmark, "one token, 1x512", False, encoding.encode, 0)
    values.check_rows(row[np.newaxis], encoding, np.array([0]))


def test_table(benchmark: Any, backend: str, shape: tuple[int, int]) -> None:
    slow = backend == "python" and shape[0] > 512
    table = timed(benchmark, f"table, {shape[0]}x{shape[1]}", slow, pf.positional_encoding, *shape)
    values.check_table(table, pf.sinusoidal(shape[1]))


@pytest.mark.parametrize("program", [vaswani_numpy, vaswani_loops], ids=["vaswani_numpy", "vaswani_loops"])
def test_one_token_by_the_tutorial(benchmark: Any, program: Any) -> None:
    row = timed(benchmark, "one token, 1x512", False, program, 1, 512)
    values.check_near(row, pf.sinusoidal(512), 1e-12)


def test_table_by_the_tutorial(benchmark: Any, shape: tuple[int, int]) -> None:
    table = timed(benchmark, f"table, {shape[0]}x{shape[1]}", shape[0] > 512, vaswani_numpy, *shape)
    values.check_near(table, pf.sinusoidal(shape[1]), 1e-10)


def test_table_by_loops(benchmark: Any) -> None:
    # at 8192x1024 the loops take seconds
    table = timed(benchmark, "table, 512x512", True, vaswani_loops, 512, 512)
    values.check_near(table, pf.sinusoidal(512), 1e-10)
