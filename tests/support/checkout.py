"""Find the checkout around the tests. Tests of an installed wheel have no README, documentation or tools."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def checkout(*, whole_file: bool = False) -> Path:
    """Return the root of the checkout. Skip the test, or the whole file, if there is none."""
    if not (ROOT / "setup.py").is_file():
        pytest.skip("needs a checkout of the repository", allow_module_level=whole_file)
    return ROOT
