"""Packages that some tests need."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

import pytest

# where a package's name is not that of its module
PACKAGES = {"dateutil": "python-dateutil", "sklearn": "scikit-learn"}


def optional(name: str) -> Any:
    """The module; skips by the name of the package that is not installed, and fails with POSENC_FAST_REQUIRE_EXTRAS=1."""
    with skipped_without(name):
        return importlib.import_module(name)


@contextlib.contextmanager
def skipped_without(name: str) -> Iterator[None]:
    """Skip, or fail, where something that a block imports is not installed, as `optional` does."""
    try:
        yield
    except ImportError as error:
        if os.environ.get("POSENC_FAST_REQUIRE_EXTRAS"):
            raise
        pytest.skip(f"{missing(error, name)} is not installed", allow_module_level=True)


def missing(error: BaseException, name: str) -> str:
    """Of what was to be imported by a name, the package that is not there: the first error of those that led to this one."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    module = (getattr(error, "name", None) or name).partition(".")[0]
    return PACKAGES.get(module, module)
