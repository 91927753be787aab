"""The operators that turn by ready tables, which autograd, torch.compile and torch.export know."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch

from .._rotary.value import LAYOUTS, Rotary
from ..typing import RotaryLayout
from . import _devices as devices
from . import _memory as memory
from ._eager import only_values
from ._kept import made_of

__all__ = ["TABLES", "pair_columns", "pairs_of", "rotate_by", "turn_all_by", "turned_by"]

# which columns of cosines are those of pair i: i and i + pairs, 2i and 2i + 1, or i alone
TABLES = ("half", "interleaved", "pairs")


def turned_by(
    x: npt.NDArray[Any],
    out: npt.NDArray[Any] | None,
    cos: npt.NDArray[Any],
    sin: npt.NDArray[Any],
    seq_axis: int,
    layout: RotaryLayout,
    transposed: bool,
    workers: int | None,
) -> npt.NDArray[Any]:
    """x turned by tables of a column for each pair; transposed, times the transposed matrix of that."""
    spread = transposed and layout == LAYOUTS[2]
    rotary = _plain_rotary(x.shape[-1], 2 * cos.shape[-1], LAYOUTS[0] if spread else layout)
    result = rotary.apply_tables(x, cos, -sin if transposed else sin, seq_axis=seq_axis, out=out, workers=workers)
    if spread:
        pairs = result[..., : rotary.rotary_dim]
        pairs[...] = pairs.reshape(*x.shape[:-1], 2, -1).swapaxes(-1, -2).reshape(pairs.shape)
    return result


@functools.lru_cache(maxsize=64)
def _plain_rotary(head_dim: int, rotary_dim: int, layout: RotaryLayout) -> Rotary:
    """What turns by given tables, whose own angles do not matter."""
    return Rotary(head_dim, rotary_dim=rotary_dim, layout=layout)


def pairs_of(table: torch.Tensor, columns: str, name: str) -> torch.Tensor:
    """A table of a column for each pair; a ValueError where the two columns of a pair differ.

    It has two axes where all sequences share it.
    """
    if columns == TABLES[2]:
        return table[0] if table.dim() == 3 and table.shape[0] == 1 else table
    if not only_values(table):
        return pair_columns(table, columns, name)
    return made_of((table,), columns, lambda: _pair_columns(table, columns, name))


def _pair_columns(table: torch.Tensor, columns: str, name: str) -> torch.Tensor:
    pairs = table.shape[-1] // 2
    if table.dim() == 3 and table.shape[0] == 1:
        table = table[0]
    if columns == TABLES[0]:
        first, second = table[..., :pairs], table[..., pairs:]
    else:
        first, second = table[..., 0::2], table[..., 1::2]
    # other devices would have to wait
    if memory.on_cpu(table) and not torch.equal(first, second):
        places = "both halves of a row" if columns == TABLES[0] else "columns 2i and 2i + 1"
        raise ValueError(
            f"{name} must have the same values in {places}, with tables={columns!r}; tables must be one of "
            f"{', '.join(map(repr, TABLES))}"
        )
    # not a view, which would keep the table
    return first.clone(memory_format=torch.contiguous_format)


@torch.library.custom_op(
    "posenc_fast::pair_columns", mutates_args=(), schema="(Tensor table, str columns, str name) -> Tensor"
)
def pair_columns(table: torch.Tensor, columns: str, name: str) -> torch.Tensor:
    """The same, which looks at the values wherever a compiled program runs."""
    return _pair_columns(table, columns, name)


def _fake_pairs(table: torch.Tensor, columns: str, name: str) -> torch.Tensor:
    lead = table.shape[1:-1] if table.dim() == 3 and table.shape[0] == 1 else table.shape[:-1]
    return torch.empty((*lead, table.shape[-1] // 2), dtype=table.dtype, device=table.device)


torch.library.register_fake("posenc_fast::pair_columns", _fake_pairs)


def _rotate_by(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, seq_axis: int, layout: RotaryLayout, transposed: bool = False
) -> torch.Tensor:
    if not memory.on_cpu(x):
        return devices.rotated(x, cos, sin, seq_axis, layout, transposed)
    out, tables = memory.result_for(x), (memory.array_of(cos, "cos"), memory.array_of(sin, "sin"))
    into = None if out is None else memory.array_of(out, "out")
    result = turned_by(memory.array_of(x, "x"), into, *tables, seq_axis, layout, transposed, memory.workers(x))
    return memory.tensor_of(result) if out is None else out


@torch.library.custom_op(
    "posenc_fast::rotate_by",
    mutates_args=(),
    schema="(Tensor x, Tensor cos, Tensor sin, int seq_axis, str layout='half', bool transposed=False) -> Tensor",
)
def rotate_by(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    seq_axis: int,
    layout: RotaryLayout = LAYOUTS[0],
    transposed: bool = False,
) -> torch.Tensor:
    """x turned by tables of a column for each pair; transposed, times the transposed matrix of that."""
    return _rotate_by(x, cos, sin, seq_axis, layout, transposed)


def turn_all_by(
    parts: Sequence[torch.Tensor], cos: torch.Tensor, sin: torch.Tensor, seq_axis: int, layout: RotaryLayout
) -> tuple[torch.Tensor, ...]:
    """Queries and keys, or either alone, without the operator where nothing but the values counts."""
    function = _rotate_by if only_values(*parts, cos, sin) else rotate_by
    return tuple([function(part, cos, sin, seq_axis, layout) for part in parts])


def _keep_tables(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, cos, sin, ctx.seq_axis, ctx.layout, ctx.transposed = inputs
    ctx.save_for_backward(cos, sin)


def _turned_back_by(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    cos, sin = ctx.saved_tensors
    turned = rotate_by(gradient, cos, sin, ctx.seq_axis, ctx.layout, not ctx.transposed)
    return turned, None, None, None, None, None


torch.library.register_autograd("posenc_fast::rotate_by", _turned_back_by, setup_context=_keep_tables)
torch.library.register_fake("posenc_fast::rotate_by", lambda x, *_: memory.new_like(x))
