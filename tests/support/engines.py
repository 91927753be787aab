"""List the engines of this machine: pure Python, and the kernel at each instruction-set level.

With POSENC_FAST_TEST_ENGINES=cython, the list contains only the engines whose names begin with "cython".
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import numpy as np
import pytest

import posenc_fast as pf

# keys: names in failures and ids of tests. Values: arguments of `posenc_fast.use_backend`.
BY_NAME = {"python": ("python", None)} | {f"cython-{isa}": ("cython", isa) for isa in pf.isa_levels()}
NAMES = [name for name in BY_NAME if name.startswith(os.environ.get("POSENC_FAST_TEST_ENGINES", ""))]
ENGINES = [BY_NAME[name] for name in NAMES]


def with_each_engine(test: Callable[..., None]) -> Callable[..., None]:
    """Return a test that runs with each engine. A failure names the engine. If all engines skip, the test skips."""

    @functools.wraps(test)
    def run(**arguments: object) -> None:
        skips = []
        for name, (backend, isa) in zip(NAMES, ENGINES, strict=True):
            if "backend" in arguments:
                arguments["backend"] = backend
            try:
                with pf.use_backend(backend, isa):
                    test(**arguments)
            except pytest.skip.Exception as skip:
                skips.append(skip)
            except BaseException as error:
                error.add_note(f"Engine: {name}")
                raise
        if len(skips) == len(ENGINES):
            raise skips[0]

    return run


def bits_of_all_engines(call: Callable[[], np.ndarray]) -> np.ndarray:
    """Call a function with each engine, assert that the results have the same bits, and return the bits."""
    results = []
    for name, engine in zip(NAMES, ENGINES, strict=True):
        with pf.use_backend(*engine):
            result = call()
        results.append(result.view(f"u{result.itemsize}"))
        np.testing.assert_array_equal(results[-1], results[0], err_msg=name)
    return results[0]
