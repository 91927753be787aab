"""Which of a file's columns is meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .._numbers.names import meant

__all__ = ["by_name", "column_index"]


def by_name(column: str | None) -> bool:
    """Whether a column is given by its name, which is no number."""
    return column is not None and not re.fullmatch(r"[0-9]+", column)


def column_index(titles: Sequence[str], column: str | None, name: str) -> int:
    """Index of the column that is given by name or by number, or that is the only one."""
    shown = [f"{i} ({title[:40]!r})" for i, title in enumerate(titles[:20])]
    there = f"there are {', '.join(shown)}{', ..' if len(titles) > 20 else ''}"
    if column is None:
        if len(titles) != 1:
            raise ValueError(f"{name} has {len(titles)} columns: choose one with --column; {there}")
        return 0
    if by_name(column):
        if titles.count(column) != 1:
            many = "has several columns" if column in titles else "has no column"
            raise ValueError(f"{name} {many} {column!r}{meant(column, titles)}; {there}")
        return titles.index(column)
    if int(column) >= len(titles):
        raise ValueError(f"{name} has no column {int(column)}; {there}")
    return int(column)
