"""What was made of tables, kept as long as they stay as they are: a model's layers all get the same ones."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch

__all__ = ["made_of"]

Made = TypeVar("Made")
# so many
KEPT = 8


class _Kept(threading.local):
    """Of each thread: by purpose and tables, these, their versions, and what was made."""

    def __init__(self) -> None:
        self.made: dict[Any, tuple[list[weakref.ref[torch.Tensor]], list[int], Any]] = {}


_kept = _Kept()


def made_of(tables: tuple[torch.Tensor, ...], purpose: Hashable, make: Callable[[], Made]) -> Made:
    """``make()``, or what it returned before for the same tables and purpose."""
    for table in tables:
        if table.is_inference():
            # without a version, so that nobody would know of changes
            return make()
    key, versions = (purpose, *map(id, tables)), [table._version for table in tables]
    made = _kept.made
    if key in made:
        known, then, found = made[key]
        if then == versions and all(one() is table for one, table in zip(known, tables, strict=True)):
            return found  # type: ignore[no-any-return]
    found = make()
    if len(made) >= KEPT:
        made.pop(next(iter(made)), None)
    made[key] = [weakref.ref(table, lambda _: made.pop(key, None)) for table in tables], versions, found
    return found
