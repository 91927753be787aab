"""What devices other than the CPU do: torch's own arithmetic, with tables that are kept for each device and type."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch

from .._encoding.value import Encoding
from .._rotary.value import LAYOUTS, Rotary
from ..typing import Precision, RotaryLayout
from . import _memory as memory

__all__ = ["rotated", "rows", "wide"]


def wide(x: torch.Tensor) -> torch.dtype:
    """The type that other devices compute in."""
    return torch.promote_types(x.dtype, torch.float32)


@functools.lru_cache(maxsize=16)
def _kept(
    value: Encoding | Rotary, length: int, first: int, device: torch.device, dtype: torch.dtype, precision: Precision
) -> tuple[torch.Tensor, ...]:
    result_type = memory.numpy_type(dtype, "x")
    arrays: Sequence[npt.NDArray[Any]]
    if isinstance(value, Rotary):
        arrays = value.tables(length, start=first, dtype=result_type, precision=precision)
    else:
        arrays = [value.table(length, start=first, dtype=result_type, precision=precision)]
    return tuple(memory.tensor_of(array).to(device) for array in arrays)


def rows(
    value: Encoding | Rotary,
    start: int,
    length: int,
    positions: torch.Tensor | None,
    device: torch.device,
    dtype: torch.dtype,
    precision: Precision = "exact",
) -> tuple[torch.Tensor, ...]:
    """Rows on a device: of an encoding, or cosines and sines of a rotary one.

    Those of consecutive positions are parts of a table that is kept, of whole blocks, so that sequences of many lengths
    and the tokens of a text that is being written share a few.
    """
    if positions is None:
        block = max(1024, 1 << (length - 1).bit_length()) if length else 1024
        first = start // block * block
        last = max(-(-(start + length) // block) * block, first + block)
        kept = _kept(value, last - first, first, device, dtype, precision)
        return tuple(table[start - first :][:length] for table in kept)
    result_type, where = memory.numpy_type(dtype, "x"), memory.array_of(positions.cpu(), "positions")
    if isinstance(value, Rotary):
        return tuple(
            memory.tensor_of(array).to(device) for array in value.tables(where, dtype=result_type, precision=precision)
        )
    return (memory.tensor_of(value.encode(where, dtype=result_type, precision=precision)).to(device),)


def rotated(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, seq_axis: int, layout: RotaryLayout, transposed: bool = False
) -> torch.Tensor:
    """Rotation by tables (length, pairs) or (batch, length, pairs), in torch's own arithmetic, rounded once in the end."""
    work = wide(x)
    shape = (*cos.shape[:-2], *[1] * (x.ndim - cos.ndim), *cos.shape[-2:])
    cos, sin = (table.reshape(shape).movedim(-2, seq_axis).to(work) for table in (cos, sin))
    if transposed:
        sin = -sin
    pairs, dim = cos.shape[-1], 2 * cos.shape[-1]
    source, target = {
        LAYOUTS[0]: (LAYOUTS[0], LAYOUTS[0]),
        LAYOUTS[1]: (LAYOUTS[1], LAYOUTS[1]),
        LAYOUTS[2]: (LAYOUTS[0], LAYOUTS[1]) if transposed else (LAYOUTS[1], LAYOUTS[0]),
    }[layout]
    turning = x[..., :dim].to(work)
    if source == LAYOUTS[0]:
        first, second = turning[..., :pairs], turning[..., pairs:]
    else:
        first, second = turning[..., 0::2], turning[..., 1::2]
    parts = first * cos - second * sin, second * cos + first * sin
    turned = torch.cat(parts, -1) if target == LAYOUTS[0] else torch.stack(parts, -1).flatten(-2)
    return torch.cat((turned.to(x.dtype), x[..., dim:]), -1)
