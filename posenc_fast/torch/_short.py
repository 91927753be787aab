"""The short way of few tokens: the memory of the usual CPU tensors goes to the engine by its address.

Between two tokens of a model there are many such calls, and tensors seen as arrays take longer than the turning. Each
function gives the bits of the general way, or None where something about the call is not the most usual; the general way
then takes all its checks. Nothing has been written when None is returned.
"""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.autograd import forward_ad

from .._engine import backend
from .._engine.blocks import WORTH_A_THREAD
from .._numbers.formats import FORMATS
from .._rotary.turning import ANGLES, angles_type
from .._rotary.value import LAYOUTS, Rotary, rows_kept
from ..typing import RotaryLayout
from . import _eager as eager
from . import _memory as memory

__all__ = ["by_positions", "by_rows", "by_tables"]

KINDS = {getattr(torch, each.name): each.kind for each in FORMATS}
# the tokens of (batch, heads, length, head_dim) or (batch, length, heads, head_dim)
AXES = {-2: 2, 2: 2, 1: 1, -3: 1}


def by_positions(
    rotary: Rotary, parts: tuple[Any, ...], start: Any, seq_axis: int, inplace: bool
) -> tuple[torch.Tensor, ...] | None:
    """Queries and keys turned for consecutive positions."""
    if torch.compiler.is_compiling():
        return None
    axis, engine = AXES.get(seq_axis), rotary._engine()
    if axis is None or type(start) is not int or abs(start) >= 2**62:
        return None
    key = rotary._settings
    dim, layout = key.rotary_dim, LAYOUTS.index(key.layout)
    seen = _usual(engine, parts, axis, dim, layout, inplace)
    if seen is None:
        return None
    made: dict[tuple[int, int], npt.NDArray[Any]] = {}
    angles = []
    for _, shape, _, kind in seen:
        if shape[3] != key.head_dim:
            return None
        same = shape[axis], kind
        if same not in made:
            made[same] = rows_kept(rotary, shape[axis], start, False, False, angles_type(kind))[np.newaxis]
        angles.append(made[same])
    return tuple([_turned(engine, rows, x, axis, layout, inplace) for rows, x in zip(angles, seen, strict=True)])


def by_tables(
    parts: tuple[Any, ...], cos: Any, sin: Any, unsqueeze_dim: Any, layout: RotaryLayout
) -> tuple[torch.Tensor, ...] | None:
    """Queries and keys turned by cosines and sines (batch or 1, length, rotary_dim), of the same values in both halves."""
    if torch.compiler.is_compiling():
        return None
    axis = {1: 2, 2: 1}.get(unsqueeze_dim) if type(unsqueeze_dim) is int else None
    if axis is None or layout not in LAYOUTS or not _plain(cos) or not _plain(sin):
        return None
    shape = cos.shape
    if len(shape) != 3 or shape != sin.shape or cos.dtype != sin.dtype or shape[2] % 2:
        return None
    if not cos.is_contiguous() or not sin.is_contiguous():
        return None
    return by_rows(parts, shape, lambda dtype: side_by_side(cos, sin, dtype), axis, layout)


def by_rows(
    parts: Sequence[Any],
    shape: tuple[int, ...],
    rows_of: Callable[[np.dtype[Any]], npt.NDArray[Any] | None],
    axis: int,
    layout: RotaryLayout,
) -> tuple[torch.Tensor, ...] | None:
    """Queries and keys turned by angles of a shape (batch or 1, length, 2 * pairs), which are made for a type if needed."""
    engine, places = backend.current(), LAYOUTS.index(layout)
    seen = _usual(engine, parts, axis, shape[2], places, False) if math.prod(shape) <= ANGLES else None
    if seen is None:
        return None
    made: dict[np.dtype[Any], npt.NDArray[Any]] = {}
    angles = []
    for _, lengths, _, kind in seen:
        dtype = angles_type(kind)
        if lengths[axis] != shape[1] or shape[0] not in (1, lengths[0]) or not 0 < shape[2] <= lengths[3]:
            return None
        if dtype not in made:
            rows = rows_of(dtype)
            if rows is None:
                return None
            made[dtype] = rows
        angles.append(made[dtype])
    return tuple([_turned(engine, rows, x, axis, places, False) for rows, x in zip(angles, seen, strict=True)])


def side_by_side(cos: torch.Tensor, sin: torch.Tensor, dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Angles of contiguous tables (batch, length, 2 * pairs); None where the halves of a row are not alike."""
    rows = np.empty(cos.shape, dtype)
    alike = backend.current().module.side_by_side(cos.data_ptr(), sin.data_ptr(), KINDS[cos.dtype], rows)
    return rows if alike else None


def _plain(x: Any) -> bool:
    """Whether x is one of the usual tensors, of which nothing but the values counts."""
    return (
        type(x) is torch.Tensor
        and x.dtype in KINDS
        and memory.on_cpu(x)
        and x.layout is torch.strided
        and not x.requires_grad
        and not x.is_neg()
    )


# a tensor with its shape, strides and kind: each question to a tensor takes as long as a hundred additions
_Seen = tuple[torch.Tensor, tuple[int, ...], tuple[int, ...], int]


def _usual(
    engine: backend.Engine, parts: Sequence[Any], axis: int, dim: int, layout: int, inplace: bool
) -> list[_Seen] | None:
    if engine.backend != "cython" or layout == 2 or not eager.only_values() or forward_ad._current_level >= 0:
        return None
    seen: list[_Seen] = []
    for x in parts:
        if not _plain(x):
            return None
        shape, strides, size = x.shape, x.stride(), x.numel()
        if len(shape) != 4 or strides[3] != 1 or shape[axis] * dim > ANGLES:
            return None
        if not 0 < size < WORTH_A_THREAD or size * x.element_size() >= memory.HUGE:
            return None
        if inplace and not x.is_contiguous():
            return None
        seen.append((x, shape, strides, KINDS[x.dtype]))
    return seen


def _turned(
    engine: backend.Engine, rows: npt.NDArray[Any], seen: _Seen, axis: int, layout: int, inplace: bool
) -> torch.Tensor:
    x, shape, strides, kind = seen
    out = x if inplace else memory.new_like(x)
    engine.module.rotate_memory(
        engine.level, rows, shape, x.data_ptr(), strides, out.data_ptr(), out.stride(), axis, kind, layout
    )
    if inplace:
        torch.autograd.graph.increment_version(x)
    return out
