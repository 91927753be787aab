"""The operators that turn by positions, which autograd, torch.compile and torch.export know."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .._encoding.value import Encoding
from .._rotary.value import Rotary
from ..typing import Precision
from . import _devices as devices
from . import _memory as memory
from ._by_tables import turned_by
from ._eager import either, overwrite
from ._text import read

__all__ = ["rotate", "rotate_", "turn"]

_TURNED = "str rotary, SymInt start, Tensor? positions, int seq_axis, bool transposed, str precision='exact'"


def _rotate(
    x: torch.Tensor,
    out: torch.Tensor | None,
    rotary: Encoding | Rotary,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    transposed: bool = False,
    precision: Precision = "exact",
) -> torch.Tensor:
    """x turned into out, which may be x, or into a new tensor."""
    assert isinstance(rotary, Rotary)
    if not memory.on_cpu(x):
        cos, sin = devices.rows(rotary, start, x.shape[seq_axis], positions, x.device, devices.wide(x), precision)
        turned = devices.rotated(x, cos, sin, seq_axis, rotary._settings.layout, transposed)
        return (memory.new_like(x) if out is None else out).copy_(turned)
    values, workers, out = memory.array_of(x, "x"), memory.workers(x), memory.result_for(x) if out is None else out
    into = values if out is x else None if out is None else memory.array_of(out, "out")
    where = None if positions is None else memory.array_of(positions, "positions")
    if not transposed:
        result = rotary.apply(
            values,
            positions=where,
            start=start,
            seq_axis=seq_axis,
            precision=precision,
            out=into,
            workers=workers,
        )
        return memory.tensor_of(result) if out is None else out
    # not the inverse, which would divide by amplitudes
    if where is None:
        tables = rotary.tables(x.shape[seq_axis], start=start, dtype=np.float64, precision=precision)
    else:
        tables = rotary.tables(where, dtype=np.float64, precision=precision)
    result = turned_by(values, into, *tables, seq_axis, rotary._settings.layout, True, workers)
    return memory.tensor_of(result) if out is None else out


@torch.library.custom_op("posenc_fast::rotate", mutates_args=(), schema=f"(Tensor x, {_TURNED}) -> Tensor")
def rotate(
    x: torch.Tensor,
    rotary: str,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    transposed: bool,
    precision: Precision = "exact",
) -> torch.Tensor:
    """x turned; transposed, times the transposed matrix of that."""
    return _rotate(x, None, read(rotary), start, positions, seq_axis, transposed, precision)


@torch.library.custom_op("posenc_fast::rotate_", mutates_args=("x",), schema=f"(Tensor(a!) x, {_TURNED}) -> ()")
def rotate_(
    x: torch.Tensor,
    rotary: str,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    transposed: bool,
    precision: Precision = "exact",
) -> None:
    """The same, in place."""
    overwrite(x, _rotate, rotate, rotary, start, positions, seq_axis, transposed, precision)


def turn(
    x: torch.Tensor,
    rotary: Rotary,
    text: str,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    inplace: bool,
    precision: Precision,
) -> torch.Tensor:
    """Either, without the operator where nothing but the values counts. text: the rotary encoding, written."""
    given = rotary, text, start, positions, seq_axis, False, precision
    return either(x, positions, inplace, _rotate, (rotate, rotate_), *given)


def _keep_angles(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, ctx.rotary, ctx.start, positions, ctx.seq_axis, ctx.transposed, ctx.precision = inputs
    ctx.save_for_backward(positions)


def _turned_back(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    (positions,) = ctx.saved_tensors
    turned = rotate(gradient, ctx.rotary, ctx.start, positions, ctx.seq_axis, not ctx.transposed, ctx.precision)
    return turned, None, None, None, None, None, None


torch.library.register_autograd("posenc_fast::rotate", _turned_back, setup_context=_keep_angles)
torch.library.register_fake("posenc_fast::rotate", lambda x, *_: memory.new_like(x))
torch.library.register_fake("posenc_fast::rotate_", lambda *_: None)
