"""Caches of tables as tensors: rows on each device, and results derived from a caller's tables.

On devices other than the CPU, torch's own arithmetic rotates by these tables.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy.typing as npt
import torch

from .._core.encoding.value import Encoding
from .._core.rotary.pairs import source_and_target
from .._core.rotary.value import Rotary
from ..typing import Precision, RotaryLayout
from . import _tensors as tensors

Made = TypeVar("Made")
# how many results of tables a thread keeps
RESULTS = 8

# ---- rows on a device -----------------------------------------------------------------------------------------------


def working_type(x: torch.Tensor) -> torch.dtype:
    """Return the type that devices other than the CPU compute in for x."""
    return torch.promote_types(x.dtype, torch.float32)


def rows_on(
    device: torch.device,
    value: Encoding | Rotary,
    start: int,
    length: int,
    positions: torch.Tensor | None,
    dtype: torch.dtype,
    precision: Precision = "exact",
) -> tuple[torch.Tensor, ...]:
    """Return the rows of an encoding, or cosines and sines of a Rotary, on a device.

    Those of consecutive positions are parts of a table that is kept, of whole blocks, so that sequences of many lengths
    and the tokens of a text that is being written share a few.
    """
    if positions is not None:
        return _rows(value, tensors.array_of(positions.cpu(), "positions"), 0, device, dtype, precision)
    block = max(1024, 1 << (length - 1).bit_length()) if length else 1024
    first = start // block * block
    last = max(-(-(start + length) // block) * block, first + block)
    blocks = _kept_rows(value, last - first, first, device, dtype, precision)
    return tuple(table[start - first :][:length] for table in blocks)


def _rows(
    value: Encoding | Rotary,
    positions_or_length: npt.NDArray[Any] | int,
    start: int,
    device: torch.device,
    dtype: torch.dtype,
    precision: Precision,
) -> tuple[torch.Tensor, ...]:
    result_type = tensors.numpy_type(dtype, "x")
    arrays: tuple[npt.NDArray[Any], ...]
    if isinstance(value, Rotary):
        arrays = value.tables(positions_or_length, start=start, dtype=result_type, precision=precision)
    elif isinstance(positions_or_length, int):
        arrays = (value.table(positions_or_length, start=start, dtype=result_type, precision=precision),)
    else:
        arrays = (value.encode(positions_or_length, dtype=result_type, precision=precision),)
    return tuple(tensors.tensor_of(array).to(device) for array in arrays)


_kept_rows = functools.lru_cache(maxsize=16)(_rows)

# ---- rotation in torch's own arithmetic -----------------------------------------------------------------------------


def rotated(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, seq_axis: int, layout: RotaryLayout, transposed: bool = False
) -> torch.Tensor:
    """Return x rotated by tables (length, pairs) or (batch, length, pairs), rounded once in the end."""
    work = working_type(x)
    shape = (*cos.shape[:-2], *[1] * (x.ndim - cos.ndim), *cos.shape[-2:])
    cos, sin = (table.reshape(shape).movedim(-2, seq_axis).to(work) for table in (cos, sin))
    if transposed:
        sin = -sin
    dim = 2 * cos.shape[-1]
    source, target = source_and_target(layout, transposed)
    first, second = _split(x[..., :dim].to(work), source)
    parts = first * cos - second * sin, second * cos + first * sin
    turned = torch.cat(parts, -1) if target == "half" else torch.stack(parts, -1).flatten(-2)
    return torch.cat((turned.to(x.dtype), x[..., dim:]), -1)


def gradients_of_tables(
    gradient: torch.Tensor,
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    seq_axis: int,
    layout: RotaryLayout,
    transposed: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of cos and sin for that of x rotated by them: sums over all values that a column turns."""
    dim, groups = 2 * cos.shape[-1], cos.dim() - 2
    work = functools.reduce(torch.promote_types, (x.dtype, cos.dtype, sin.dtype), torch.float32)
    (x1, x2), (y1, y2) = (
        # not values[..., :dim], which torch cannot do for a batch of gradients where it takes all columns
        _split(values.narrow(-1, 0, dim).movedim(seq_axis, -2).to(work), order)
        for values, order in zip((x, gradient), source_and_target(layout, transposed), strict=True)
    )
    of_cos, of_sin = x1 * y1 + x2 * y2, x1 * y2 - x2 * y1
    shared = list(range(groups, x.dim() - 2))
    if shared:
        of_cos, of_sin = of_cos.sum(shared), of_sin.sum(shared)
    return of_cos.to(cos.dtype), (-of_sin if transposed else of_sin).to(sin.dtype)


def _split(values: torch.Tensor, order: RotaryLayout) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first values of all pairs, and the second."""
    pairs = values.shape[-1] // 2
    if order == "half":
        return values[..., :pairs], values[..., pairs:]
    return values[..., 0::2], values[..., 1::2]


# ---- results derived from a caller's tables -------------------------------------------------------------------------


class _Results(threading.local):
    """Results of each thread: by purpose and identity of the tables, weak references to these, their versions, and it."""

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[list[weakref.ref[torch.Tensor]], list[int], Any]] = {}


_results = _Results()


def made_of(tables: tuple[torch.Tensor, ...], purpose: Hashable, make: Callable[[], Made]) -> Made:
    """Return ``make()``, or its last result for the same purpose and tables, unchanged: a model's layers share them."""
    for table in tables:
        if table.is_inference():
            # it has no version that would tell of changes
            return make()
    key, versions = (purpose, *map(id, tables)), [table._version for table in tables]
    kept = _results.kept
    if key in kept:
        references, versions_then, result = kept[key]
        if versions_then == versions and all(one() is table for one, table in zip(references, tables, strict=True)):
            return result  # type: ignore[no-any-return]
    result = make()
    if len(kept) >= RESULTS:
        kept.pop(next(iter(kept)), None)
    kept[key] = [weakref.ref(table, lambda _: kept.pop(key, None)) for table in tables], versions, result
    return result
