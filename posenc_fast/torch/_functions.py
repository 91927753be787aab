"""Functions: those on CPU tensors, which copy nothing, and Hugging Face's one of rotation by ready tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch

from .._encoding.grid import grid as grid_of
from .._encoding.value import Encoding
from .._rotary.value import LAYOUTS, Rotary
from ..typing import Indexing, Precision, RotaryLayout, TableLayout
from . import _operators as operators
from . import _tensors as tensors

__all__ = ["add_to", "apply_rotary_pos_emb", "encode", "grid", "rotate", "table"]


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
    result_type = None if dtype is None else tensors.numpy_type(dtype, "dtype")
    array = encoding.table(
        length, start=start, step=step, dtype=result_type, precision=precision, out=_written(out), workers=workers
    )
    return _result(array, out)


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
    result_type = None if dtype is None else tensors.numpy_type(dtype, "dtype")
    array = encoding.encode(
        _positions(positions), dtype=result_type, precision=precision, out=_written(out), workers=workers
    )
    return _result(array, out)


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
    values, where, into = _arrays(x, positions, out, "SinusoidalEncoding")
    array = encoding.add_to(
        values,
        start=start,
        step=step,
        positions=where,
        x_scale=x_scale,
        precision=precision,
        out=into,
        workers=workers,
    )
    return _result(array, out)


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
    result_type = tensors.numpy_type(dtype, "dtype")
    arrays = [_positions(axis) if isinstance(axis, torch.Tensor) else axis for axis in axes]
    array = grid_of(arrays, encoding, indexing=indexing, dtype=result_type, out=_written(out), workers=workers)
    return _result(array, out)


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
    values, where, into = _arrays(x, positions, out, "RotaryEncoding")
    array = rotary.apply(
        values,
        positions=where,
        start=start,
        seq_axis=seq_axis,
        inverse=inverse,
        precision=precision,
        out=into,
        workers=workers,
    )
    return _result(array, out)


def _arrays(x: Any, positions: Any, out: Any, module: str) -> tuple[Any, Any, Any]:
    """Return x, positions and out as arrays, one array for x and out if they are one. module: what has gradients of x."""
    values = tensors.array_of(x, "x")
    if tensors.wants_gradients(x):
        raise ValueError(f"x requires gradients, which would end here; use {module}, x.detach() or torch.no_grad()")
    where, into = None if positions is None else _positions(positions), _written(out)
    return values, where, values if out is x else into


def _positions(positions: Any) -> npt.NDArray[Any]:
    array = tensors.array_of(positions, "positions")
    tensors.check_no_gradients(positions, "positions")
    return array


def _written(out: Any) -> npt.NDArray[Any] | None:
    return None if out is None else tensors.array_of(out, "out", overwritten=True)


def _result(array: npt.NDArray[Any], out: torch.Tensor | None) -> torch.Tensor:
    if out is None:
        return tensors.tensor_of(array)
    # so that autograd sees that what it had kept of this tensor is gone
    torch.autograd.graph.increment_version(out)
    return out


def apply_rotary_pos_emb(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    unsqueeze_dim: int = 1,
    *,
    layout: RotaryLayout = "half",
    tables: TableLayout = "half",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys turned by ready tables: Hugging Face's function of this name, in one pass, rounded once.

    Parameters
    ----------
    q, k : torch.Tensor of shape (batch, heads, length, head_dim)
        float64, float32, float16 or bfloat16 (which needs the package ml_dtypes). Each has any number of heads.
    cos, sin : torch.Tensor of shape (batch, length, columns), (1, length, columns) or (length, columns)
        Cosines and sines; no gradients go to them. Values of q and k beyond those that turn stay.
    unsqueeze_dim : int
        1 for q and k as above, 2 for (batch, length, heads, head_dim); of cos and sin of two dimensions, one less.
    layout : {"half", "interleaved", "interleaved_to_half"}
        Which values of q and k are a pair, as in `Rotary`.
    tables : {"half", "interleaved", "pairs"}
        Which columns of cos and sin are a pair's: "half", two of the same values, in both halves of a row, as Llama's
        ``rotary_emb`` makes them; "interleaved", two side by side, as Cohere's does; "pairs", one, as gpt-oss's and
        `Rotary.tables` have it. It does not depend on layout: GLM has "half" tables for interleaved pairs.

    Returns
    -------
    q, k : torch.Tensor
        Of the shapes and types of q and k, whatever the type of cos and sin.

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit; on the CPU also when the two columns of a pair differ, in compiled code as well.

    References
    ----------
    huggingface/transformers, models/llama/modeling_llama.py: apply_rotary_pos_emb.

    Examples
    --------
    >>> import torch, posenc_fast as pf
    >>> from posenc_fast.torch import apply_rotary_pos_emb
    >>> cos, sin = (torch.from_numpy(table).repeat(1, 2)[None] for table in pf.Rotary(64).tables(10))
    >>> q, k = apply_rotary_pos_emb(torch.ones(1, 8, 10, 64), torch.ones(1, 2, 10, 64), cos, sin)
    >>> q.shape, k.shape
    (torch.Size([1, 8, 10, 64]), torch.Size([1, 2, 10, 64]))
    """
    if tables == "half" and type(unsqueeze_dim) is int and unsqueeze_dim in (1, 2) and layout in LAYOUTS:
        # few tokens, in a fifth of the time
        few = operators.rotate_few_by_tables((q, k), cos, sin, 3 - unsqueeze_dim, layout)
        if few is not None:
            return few[0], few[1]
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUTS))}, not {layout!r}")
    if tables not in operators.TABLES:
        raise ValueError(f"tables must be one of {', '.join(map(repr, operators.TABLES))}, not {tables!r}")
    each = 1 if tables == "pairs" else 2
    for name, part in (("q", q), ("k", k)):
        tensors.check_x(part, name)
        if part.ndim != 4:
            raise ValueError(f"{name} has shape {tuple(part.shape)}, but must have (batch, heads, length, head_dim)")
    for name, part in (("cos", cos), ("sin", sin)):
        tensors.check_x(part, name)
        tensors.check_no_gradients(part, name)
        if part.device != q.device or q.device != k.device:
            raise ValueError(f"{name} is on {part.device}, q on {q.device} and k on {k.device}; they must be on one")
    if cos.ndim not in (2, 3) or cos.shape != sin.shape or cos.shape[-1] % each or cos.shape[-1] == 0:
        columns = "rotary_dim" if each == 2 else "pairs"
        raise ValueError(
            f"cos has shape {tuple(cos.shape)} and sin {tuple(sin.shape)}, but both must have (batch, length, {columns}) "
            f"or (length, {columns}), with {'an even rotary_dim' if each == 2 else 'at least one pair'}"
        )
    before = unsqueeze_dim % (cos.ndim + 1) - (cos.ndim - 2)
    if before not in (0, 1):
        raise ValueError(
            f"unsqueeze_dim={unsqueeze_dim} must be {cos.ndim - 2} for heads before length, or {cos.ndim - 1} for length "
            f"before heads, with cos of {cos.ndim} dimensions"
        )
    seq_axis = 1 if before else 2
    pairs = cos.shape[-1] // each
    lead = tuple(cos.shape[1:-1] if cos.ndim == 3 and cos.shape[0] == 1 else cos.shape[:-1])
    for name, part in (("q", q), ("k", k)):
        expected = (part.shape[0], part.shape[seq_axis])
        if lead != expected[2 - len(lead) :] or 2 * pairs > part.shape[-1]:
            raise ValueError(
                f"{name} has shape {tuple(part.shape)}, to which cos and sin of shape {tuple(cos.shape)} do not fit with "
                f"unsqueeze_dim={unsqueeze_dim} and tables={tables!r}"
            )
    cos, sin = (operators.columns_of_pairs(part, tables, name) for name, part in (("cos", cos), ("sin", sin)))
    q, k = operators.run_rotate_by((q, k), cos, sin, seq_axis, layout)
    return q, k
