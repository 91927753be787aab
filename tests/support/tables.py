"""Parametrize tests by tables of text."""

from __future__ import annotations

from typing import Any

import pytest


def each_line(table: str) -> Any:
    """Parametrize a test by the lines of a table. Bars separate the cells, and the first line has the names."""
    names, *rows = [line.strip().split(" | ") for line in table.strip().splitlines()]
    return pytest.mark.parametrize(names, rows)
