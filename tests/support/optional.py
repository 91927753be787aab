"""Packages that some tests need."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def optional(name: str) -> Any:
    """The module; skips by name where it is not installed, and fails with POSENC_FAST_REQUIRE_EXTRAS=1."""
    if os.environ.get("POSENC_FAST_REQUIRE_EXTRAS"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed", exc_type=ImportError)
