"""Choose the tensor of a model's files that is a position table, for `identify`."""

from __future__ import annotations

from typing import Any

from .files import MOST_BYTES, Tensor, open_files
from .names import kind_of
from .report import listed

# largest number of names of tensors in an error
_MOST_NAMES = 20


def table_in(path: str) -> Any:
    """Return the values of the only tensor in a file or folder, or of the only tensor named like a position table.

    Raise ValueError if there is no such tensor, or if its values cannot be read.
    """
    with open_files(path) as opened:
        tensors = [entry for entry in opened if isinstance(entry, Tensor)]
        tables = [tensor for tensor in tensors if kind_of(tensor.name, tensor.shape) == "table"]
        if len(tensors) == 1:
            tables = tensors
        if len(tables) != 1:
            names = listed((tensor.name for tensor in tables or tensors), _MOST_NAMES) or "none"
            count = "several position tables" if tables else "no tensor with the name of a position table"
            kind = "position tables" if tables else "tensors"
            raise ValueError(
                f"{path} has {count}; load one tensor, and pass its array instead of the path. The {kind} are: {names}"
            )
        (table,) = tables
        if table.unread:
            raise ValueError(f"{path}: {table.name} has numbers of the unsupported type {table.unread}")
        if table.size > MOST_BYTES:
            raise ValueError(f"{path}: {table.name} has {table.size} bytes; at most {MOST_BYTES} are read")
        return table.read()
