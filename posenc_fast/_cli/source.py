"""Positions, a block at a time: they need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["Block", "Source"]

# parts of a block: which of its rows, and their positions
Block = list[tuple[Any, Any]]


class Source(NamedTuple):
    """So many positions, what they are, and ``blocks(n)``, which has them n at a time."""

    length: int
    label: str
    blocks: Callable[[int], Iterator[Block]]
