"""Positions, a block at a time: they need not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = ["Block", "Source"]


class Block(NamedTuple):
    """Some rows of INPUT.

    parts: which of the rows, and their positions. kept: the cells of each column that is kept.
    """

    parts: list[tuple[Any, Any]]
    kept: Sequence[Any] = ()


class Source(NamedTuple):
    """So many positions, what they are, and ``blocks(n)``, which has them n at a time.

    kept: names of the columns that are kept, and their fields in Arrow; None for text.
    """

    length: int
    label: str
    blocks: Callable[[int], Iterator[Block]]
    kept: Sequence[tuple[str, Any]] = ()
