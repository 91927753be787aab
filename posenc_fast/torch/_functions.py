"""Functions on CPU tensors that copy nothing."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .._encoding.grid import grid as grid_of
from .._encoding.value import Encoding
from .._rotary.value import Rotary
from ..typing import Indexing, Precision
from . import _memory as memory
from ._checks import no_gradients, wants_gradients

__all__ = ["add_to", "encode", "grid", "rotate", "table"]


def table(
    encoding: Encoding,
    length: int,
    *,
    start: float = 0,
    step: float = 1,
    dtype: torch.dtype | None = None,
    precision: Precision = "exact",
    out: torch.Tensor | None = None,
    workers: int | None = None,
) -> torch.Tensor:
    """Rows of the positions ``start + i * step`` as a tensor: `Encoding.table`.

    Parameters
    ----------
    encoding : Encoding
        What to compute.
    length, start, step, precision, workers
        As in `Encoding.table`.
    dtype : torch.dtype, optional
        float64, float32, float16 or bfloat16 (which needs the package ml_dtypes); not given, that of out, or float32.
    out : CPU tensor of shape (length, d_model), optional
        Where to write, without a copy. It is returned.

    Returns
    -------
    torch.Tensor of shape (length, d_model), on the CPU

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit; nothing has been written then.

    Examples
    --------
    >>> import posenc_fast as pf, posenc_fast.torch
    >>> posenc_fast.torch.table(pf.sinusoidal(4), 3).shape
    torch.Size([3, 4])
    """
    given = _written(out)
    result_type = None if dtype is None else memory.numpy_type(dtype, "dtype")
    rows = encoding.table(
        length, start=start, step=step, dtype=result_type, precision=precision, out=given, workers=workers
    )
    return _result(rows, out)


def encode(
    encoding: Encoding,
    positions: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    precision: Precision = "exact",
    out: torch.Tensor | None = None,
    workers: int | None = None,
) -> torch.Tensor:
    """Rows of any positions as a tensor: `Encoding.encode`.

    Parameters
    ----------
    encoding : Encoding
        What to compute.
    positions : CPU tensor of shape (...), or (..., A) for an encoding of A axes
        Of any real type; integers are exact. No gradients go through this function.
    dtype, out
        As in `table`; out has shape (..., d_model).
    precision, workers
        As in `Encoding.encode`.

    Returns
    -------
    torch.Tensor of shape (..., d_model), on the CPU

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit; nothing has been written then.

    Examples
    --------
    >>> import torch, posenc_fast as pf, posenc_fast.torch
    >>> posenc_fast.torch.encode(pf.sinusoidal(4), torch.tensor([0.5, 999.0])).shape
    torch.Size([2, 4])
    """
    given = _written(out)
    result_type = None if dtype is None else memory.numpy_type(dtype, "dtype")
    where = _positions(positions)
    rows = encoding.encode(where, dtype=result_type, precision=precision, out=given, workers=workers)
    return _result(rows, out)


def add_to(
    encoding: Encoding,
    x: torch.Tensor,
    *,
    start: float = 0,
    step: float = 1,
    positions: torch.Tensor | None = None,
    x_scale: float = 1.0,
    precision: Precision = "exact",
    out: torch.Tensor | None = None,
    workers: int | None = None,
) -> torch.Tensor:
    """``x_scale * x + encoding`` on CPU tensors, rounded once, without a table: `Encoding.add_to`.

    Parameters
    ----------
    encoding : Encoding
        What to add.
    x : CPU tensor of shape (..., L, d_model)
        No gradients go through this function; `SinusoidalEncoding` has them.
    start, step, x_scale, precision, workers
        As in `Encoding.add_to`.
    positions : CPU tensor, optional
        As in `Encoding.add_to`.
    out : CPU tensor of the shape and type of x, optional
        Where to write; ``out=x`` adds in place.

    Returns
    -------
    torch.Tensor of the shape and type of x

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit; x and out are as they were then.

    Examples
    --------
    >>> import torch, posenc_fast as pf, posenc_fast.torch
    >>> x = torch.zeros(2, 3, 4)
    >>> posenc_fast.torch.add_to(pf.sinusoidal(4), x, out=x) is x
    True
    """
    values, where, given = _arrays(x, positions, out, "SinusoidalEncoding")
    result = encoding.add_to(
        values,
        start=start,
        step=step,
        positions=where,
        x_scale=x_scale,
        precision=precision,
        out=given,
        workers=workers,
    )
    return _result(result, out)


def grid(
    axes: Sequence[int | torch.Tensor | Any],
    encoding: Encoding,
    *,
    indexing: Indexing = "ij",
    dtype: torch.dtype = torch.float32,
    out: torch.Tensor | None = None,
    workers: int | None = None,
) -> torch.Tensor:
    """Rows of all points of a grid as a tensor: `posenc_fast.grid`.

    Parameters
    ----------
    axes : sequence, one for each axis of the encoding
        As in `posenc_fast.grid`; coordinates may be CPU tensors of shape (n,). No gradients go through them.
    encoding : Encoding
        Over as many axes.
    indexing, workers
        As in `posenc_fast.grid`.
    dtype, out
        As in `table`; out has the result's shape.

    Returns
    -------
    torch.Tensor of shape (n0, n1, .., d_model), or (n1, n0, .., d_model) for "xy", on the CPU

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit; nothing has been written then.

    Examples
    --------
    >>> import torch, posenc_fast as pf, posenc_fast.torch
    >>> encoding = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
    >>> posenc_fast.torch.grid([2, torch.arange(3) / 3], encoding).shape
    torch.Size([2, 3, 8])
    """
    result_type, given = memory.numpy_type(dtype, "dtype"), _written(out)
    where = [_positions(axis) if isinstance(axis, torch.Tensor) else axis for axis in axes]
    return _result(grid_of(where, encoding, indexing=indexing, dtype=result_type, out=given, workers=workers), out)


def rotate(
    rotary: Rotary,
    x: torch.Tensor,
    *,
    positions: torch.Tensor | None = None,
    start: float = 0,
    seq_axis: int = -2,
    inverse: bool = False,
    precision: Precision = "exact",
    out: torch.Tensor | None = None,
    workers: int | None = None,
) -> torch.Tensor:
    """Queries or keys turned, on CPU tensors: `Rotary.apply`.

    Parameters
    ----------
    rotary : Rotary
        How to turn.
    x : CPU tensor of shape (..., head_dim)
        No gradients go through this function; `RotaryEncoding` has them.
    positions : CPU tensor, optional
        As in `Rotary.apply`.
    start, seq_axis, inverse, precision, workers
        As in `Rotary.apply`.
    out : CPU tensor of the shape and type of x, optional
        Where to write; ``out=x`` turns in place.

    Returns
    -------
    torch.Tensor of the shape and type of x

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit; x and out are as they were then.

    Examples
    --------
    >>> import torch, posenc_fast as pf, posenc_fast.torch
    >>> token = torch.ones(1, 8, 1, 64)
    >>> posenc_fast.torch.rotate(pf.Rotary(64), token, start=100, out=token) is token
    True
    """
    values, where, given = _arrays(x, positions, out, "RotaryEncoding")
    result = rotary.apply(
        values,
        positions=where,
        start=start,
        seq_axis=seq_axis,
        inverse=inverse,
        precision=precision,
        out=given,
        workers=workers,
    )
    return _result(result, out)


def _arrays(x: Any, positions: Any, out: Any, module: str) -> tuple[Any, Any, Any]:
    """x, positions and out; out is x where that is to be overwritten."""
    values = memory.array_of(x, "x")
    if wants_gradients(x):
        raise ValueError(f"x requires gradients, which would end here; use {module}, x.detach() or torch.no_grad()")
    where, given = None if positions is None else _positions(positions), _written(out)
    return values, where, values if out is x else given


def _positions(positions: Any) -> np.ndarray[Any, Any]:
    array = memory.array_of(positions, "positions")
    no_gradients(positions, "positions")
    return array


def _written(out: Any) -> np.ndarray[Any, Any] | None:
    return None if out is None else memory.array_of(out, "out", written=True)


def _result(array: np.ndarray[Any, Any], out: torch.Tensor | None) -> torch.Tensor:
    if out is None:
        return memory.tensor_of(array)
    # so that autograd sees that what it had kept of this tensor is gone
    torch.autograd.graph.increment_version(out)
    return out
