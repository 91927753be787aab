"""List the engines of this machine: pure Python, and the kernel at each instruction-set level.

With POSENC_FAST_TEST_ENGINES=cython, the list contains only the engines whose names begin with "cython".
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

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
