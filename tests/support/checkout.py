"""The checkout around the tests: its README, documentation and tools are not there where a wheel is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def checkout(*, whole_file: bool = False) -> Path:
    """The root of the checkout; skips the test, or the whole file, where there is none."""
    if not (ROOT / "setup.py").is_file():
        pytest.skip("this is no checkout", allow_module_level=whole_file)
    return ROOT
