"""Cache rows of encodings on each device, and results that are derived from a caller's tables of cosines and sines.

On devices other than the CPU, torch operations add the cached rows, or rotate by them.
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
from ..typing import Precision, RotaryLayout, TableLayout
from . import _tensors as tensors

Result = TypeVar("Result")
# maximum number of results that each thread caches
RESULTS = 8

# ---- rows on a device -----------------------------------------------------------------------------------------------


def working_type(x: torch.Tensor) -> torch.dtype:
    """Return the dtype in which devices other than the CPU compute: the dtype of x, or float32 if x has 16 bits."""
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

    For consecutive positions (positions is None), the rows are slices of a cached table, which covers whole blocks of
    at least 1024 positions. So sequences of many lengths, and the steps of text generation, share a few tables.
    """
    if positions is not None:
        return _rows(value, tensors.array_of(positions.cpu(), "positions"), 0, device, dtype, precision)
    block = max(1024, 1 << (length - 1).bit_length()) if length else 1024
    begin = start // block * block
    end = max(-(-(start + length) // block) * block, begin + block)
    tables = _cached_rows(value, end - begin, begin, device, dtype, precision)
    return tuple(table[start - begin :][:length] for table in tables)


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


_cached_rows = functools.lru_cache(maxsize=16)(_rows)

# ---- rotation by torch operations -----------------------------------------------------------------------------------


def rotated(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, seq_axis: int, layout: RotaryLayout, transposed: bool = False
) -> torch.Tensor:
    """Return x rotated by tables (length, pairs) or (batch, length, pairs), computed in the dtype of `working_type`."""
    work = working_type(x)
    # insert an axis of length 1 for each other axis of x, such as the heads: (batch or 1, 1, length, pairs)
    shape = (*cos.shape[:-2], *[1] * (x.ndim - cos.ndim), *cos.shape[-2:])
    cos, sin = (table.reshape(shape).movedim(-2, seq_axis).to(work) for table in (cos, sin))
    if transposed:
        sin = -sin
    rotary_dim = 2 * cos.shape[-1]
    source, target = source_and_target(layout, transposed)
    first, second = split_pairs(x[..., :rotary_dim].to(work), source)
    parts = first * cos - second * sin, second * cos + first * sin
    pairs = torch.cat(parts, -1) if target == "half" else torch.stack(parts, -1).flatten(-2)
    return torch.cat((pairs.to(x.dtype), x[..., rotary_dim:]), -1)


def gradients_of_tables(
    gradient: torch.Tensor,
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    seq_axis: int,
    layout: RotaryLayout,
    transposed: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the tables cos and sin, given the gradient of the rotated x.

    An element of a table may rotate several pairs of x, for example one in each head. Its gradient is the sum of the
    gradients from these pairs.
    """
    # lead: number of axes of the tables before (length, pairs), 0 or 1 for the batch
    rotary_dim, lead = 2 * cos.shape[-1], cos.dim() - 2
    work = functools.reduce(torch.promote_types, (x.dtype, cos.dtype, sin.dtype), torch.float32)
    (x1, x2), (y1, y2) = (
        # use narrow, because torch has no batching rule for values[..., :rotary_dim] if it selects all columns
        split_pairs(values.narrow(-1, 0, rotary_dim).movedim(seq_axis, -2).to(work), order)
        for values, order in zip((x, gradient), source_and_target(layout, transposed), strict=True)
    )
    of_cos, of_sin = x1 * y1 + x2 * y2, x1 * y2 - x2 * y1
    # sum over the axes of x that share a table, such as the heads
    shared = list(range(lead, x.dim() - 2))
    if shared:
        of_cos, of_sin = of_cos.sum(shared), of_sin.sum(shared)
    return of_cos.to(cos.dtype), (-of_sin if transposed else of_sin).to(sin.dtype)


def split_pairs(values: torch.Tensor, order: RotaryLayout | TableLayout) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first values of all pairs, and the second values.

    order: "half" if the two values of a pair are half a row apart. Otherwise they are side by side.
    """
    pairs = values.shape[-1] // 2
    if order == "half":
        return values[..., :pairs], values[..., pairs:]
    return values[..., 0::2], values[..., 1::2]


# ---- results derived from a caller's tables -------------------------------------------------------------------------


class _Results(threading.local):
    """Cached results of each thread.

    by_key: a key is a purpose (see `cached_result`) and the ids of the tables. Its value is weak references to the
    tables, the version counters of the tables, and the result.
    """

    def __init__(self) -> None:
        self.by_key: dict[Any, tuple[list[weakref.ref[torch.Tensor]], list[int], Any]] = {}


_results = _Results()


def cached_result(tables: tuple[torch.Tensor, ...], purpose: Hashable, compute: Callable[[], Result]) -> Result:
    """Return ``compute()``, or its cached result for the same purpose and unchanged tables.

    purpose: what is computed from the tables. The cache saves time because all layers of a model rotate by the same
    tables.
    """
    for table in tables:
        if table.is_inference():
            # inference tensors have no version counter, so the cache would miss changes of the table
            return compute()
    key, versions = (purpose, *map(id, tables)), [table._version for table in tables]
    cache = _results.by_key
    if key in cache:
        references, cached_versions, result = cache[key]
        same_tables = all(reference() is table for reference, table in zip(references, tables, strict=True))
        if cached_versions == versions and same_tables:
            return result  # type: ignore[no-any-return]
    result = compute()
    if len(cache) >= RESULTS:
        cache.pop(next(iter(cache)), None)
    cache[key] = [weakref.ref(table, lambda _: cache.pop(key, None)) for table in tables], versions, result
    return result
