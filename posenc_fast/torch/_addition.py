"""The operators that add an encoding, which autograd, torch.compile and torch.export know."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import torch

from .._encoding.value import Encoding
from .._rotary.value import Rotary
from ..typing import Precision
from . import _devices as devices
from . import _memory as memory
from ._eager import either, overwrite
from ._text import read

__all__ = ["add", "add_encoding", "add_encoding_"]

_ADDED = "str encoding, SymInt start, Tensor? positions, float x_scale, str precision='exact'"


def _add(
    x: torch.Tensor,
    out: torch.Tensor | None,
    encoding: Encoding | Rotary,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    precision: Precision = "exact",
) -> torch.Tensor:
    """The sum in out, which may be x, or in a new tensor."""
    if not memory.on_cpu(x):
        (rows,) = devices.rows(encoding, start, x.shape[-2], positions, x.device, devices.wide(x), precision)
        # one operation in the type of the rows, which rounds the sum once where that of x is narrower
        return torch.add(rows, x, alpha=x_scale, out=memory.new_like(x) if out is None else out)
    assert isinstance(encoding, Encoding)
    values, out = memory.array_of(x, "x"), memory.result_for(x) if out is None else out
    result = encoding.add_to(
        values,
        start=start,
        positions=None if positions is None else memory.array_of(positions, "positions"),
        x_scale=x_scale,
        precision=precision,
        out=values if out is x else None if out is None else memory.array_of(out, "out"),
        workers=memory.workers(x),
    )
    return memory.tensor_of(result) if out is None else out


@torch.library.custom_op("posenc_fast::add_encoding", mutates_args=(), schema=f"(Tensor x, {_ADDED}) -> Tensor")
def add_encoding(
    x: torch.Tensor,
    encoding: str,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    precision: Precision = "exact",
) -> torch.Tensor:
    """x_scale * x + encoding."""
    return _add(x, None, read(encoding), start, positions, x_scale, precision)


@torch.library.custom_op("posenc_fast::add_encoding_", mutates_args=("x",), schema=f"(Tensor(a!) x, {_ADDED}) -> ()")
def add_encoding_(
    x: torch.Tensor,
    encoding: str,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    precision: Precision = "exact",
) -> None:
    """The same, in place."""
    overwrite(x, _add, add_encoding, encoding, start, positions, x_scale, precision)


def add(
    x: torch.Tensor,
    encoding: Encoding,
    text: str,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    inplace: bool,
    precision: Precision,
) -> torch.Tensor:
    """Either, without the operator where nothing but the values counts. text: the encoding, written."""
    given = encoding, text, start, positions, x_scale, precision
    return either(x, positions, inplace, _add, (add_encoding, add_encoding_), *given)


def _keep_scale(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.x_scale = inputs[4]


def _scaled(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return gradient if ctx.x_scale == 1 else gradient * ctx.x_scale, None, None, None, None, None


torch.library.register_autograd("posenc_fast::add_encoding", _scaled, setup_context=_keep_scale)
torch.library.register_fake("posenc_fast::add_encoding", lambda x, *_: memory.new_like(x))
torch.library.register_fake("posenc_fast::add_encoding_", lambda *_: None)
