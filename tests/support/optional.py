"""Import packages that only some tests need."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

# keys: modules. Values: the package that contains the module, if its name differs.
PACKAGES = {"dateutil": "python-dateutil", "sklearn": "scikit-learn"}


def optional(name: str) -> Any:
    """Import a module. If a package is missing, skip the test, or fail if POSENC_FAST_REQUIRE_EXTRAS is set."""
    with skipped_without(name):
        return importlib.import_module(name)


@contextlib.contextmanager
def skipped_without(name: str) -> Iterator[None]:
    """Skip or fail like `optional` if the block imports a package that is not installed."""
    try:
        yield
    except ImportError as error:
        if os.environ.get("POSENC_FAST_REQUIRE_EXTRAS"):
            raise
        # name the package of the module that the root cause names
        cause: BaseException = error
        while cause.__cause__ or cause.__context__:
            cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
        module = (getattr(cause, "name", None) or name).partition(".")[0]
        pytest.skip(f"{PACKAGES.get(module, module)} is not installed", allow_module_level=True)
