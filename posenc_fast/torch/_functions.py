"""Functions that compute in the memory of CPU tensors, and two functions that rotate by tables on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
import torch

from .._core.encoding.grid import grid as grid_of
from .._core.encoding.value import Encoding
from .._core.rotary.pairs import LAYOUTS
from .._core.rotary.value import Rotary
from ..typing import Indexing, Precision, RotaryLayout, TableLayout
from . import _derivatives as derivatives
from . import _operators as operators
from . import _tensors as tensors
from ._text import to_text


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
    """Return the rows of the positions ``start + i * step`` as a tensor.

    See `Encoding.table`.

    Parameters
    ----------
    encoding : Encoding
        Encoding to compute.
    length, start, step, precision, workers
        As in `Encoding.table`.
    dtype : torch.dtype, optional
        float64, float32, float16 or bfloat16 (default: the dtype of out, or float32). bfloat16 needs the package
        ml_dtypes.
    out : CPU tensor of shape (length, d_model), optional
        Tensor for the result. Compiled code computes a new tensor and copies it to out.

    Returns
    -------
    torch.Tensor of shape (length, d_model), on the CPU

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. Nothing is written in this case.

    Examples
    --------
    >>> import posenc_fast as pf, posenc_fast.torch
    >>> posenc_fast.torch.table(pf.sinusoidal(4), 3).shape
    torch.Size([3, 4])
    """
    if tensors.needs_operator():
        torch_type = _result_type(dtype, out)
        rows = operators.table(to_text(encoding), length, start, step, torch_type, precision, workers)
        return _copied(rows, out)
    result_type = None if dtype is None else tensors.numpy_type(dtype, "dtype")
    out_array = None if out is None else _written(out)
    array = encoding.table(
        length, start=start, step=step, dtype=result_type, precision=precision, out=out_array, workers=workers
    )
    return tensors.tensor_of(array) if out is None else _result(array, out)


def encode(
    encoding: Encoding,
    positions: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    precision: Precision = "exact",
    out: torch.Tensor | None = None,
    workers: int | None = None,
) -> torch.Tensor:
    """Return the rows of any positions as a tensor.

    See `Encoding.encode`.

    Parameters
    ----------
    encoding : Encoding
        Encoding to compute.
    positions : CPU tensor of shape (...), or (..., A) for an encoding of A axes
        Integers (exact) or real numbers. The result is differentiable by the positions, to any order.
    dtype, out
        As in `table`. The shape of out is (..., d_model).
    precision, workers
        As in `Encoding.encode`.

    Returns
    -------
    torch.Tensor of shape (..., d_model), on the CPU

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. Nothing is written in this case.

    Examples
    --------
    >>> import torch, posenc_fast as pf, posenc_fast.torch
    >>> posenc_fast.torch.encode(pf.sinusoidal(4), torch.tensor([0.5, 999.0])).shape
    torch.Size([2, 4])
    """

    def rows(
        encoding: Encoding,
        positions: torch.Tensor,
        dtype: torch.dtype | None,
        out: torch.Tensor | None = None,
        direct: bool = False,
    ) -> torch.Tensor:
        if not direct and tensors.needs_operator(positions):
            tensors.check_operand(positions, "positions")
            torch_type = _result_type(dtype, out)
            return _copied(operators.encode(positions, to_text(encoding), torch_type, precision, workers), out)
        array = encoding.encode(
            tensors.array_of(positions, "positions"),
            dtype=None if dtype is None else tensors.numpy_type(dtype, "dtype"),
            precision=precision,
            out=_written(out),
            workers=workers,
        )
        return _result(array, out)

    direct = tensors.is_direct(positions)
    if not direct and _is_followed({"positions": positions}, out):
        return derivatives.of_positions(rows, encoding, positions, _result_type(dtype, None))
    return rows(encoding, positions, dtype, out, direct)


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
    """Return ``x_scale * x + encoding`` for a CPU tensor x, rounded once, without a table.

    See `Encoding.add_to`.

    Parameters
    ----------
    encoding : Encoding
        Encoding to add.
    x : CPU tensor of shape (..., length, d_model)
        Tensor to add to. Differentiable.
    start, step, x_scale, precision, workers
        As in `Encoding.add_to`.
    positions : CPU tensor, optional
        As in `Encoding.add_to`.
    out : CPU tensor of the shape and dtype of x, optional
        Tensor for the result. ``out=x`` adds in place.

    Returns
    -------
    torch.Tensor of the shape and dtype of x

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. x and out are unchanged in this case.

    Examples
    --------
    >>> import torch, posenc_fast as pf, posenc_fast.torch
    >>> x = torch.zeros(2, 3, 4)
    >>> posenc_fast.torch.add_to(pf.sinusoidal(4), x, out=x) is x
    True
    """

    def added(
        x: torch.Tensor, positions: torch.Tensor | None, out: torch.Tensor | None = None, direct: bool = False
    ) -> torch.Tensor:
        if not direct and tensors.needs_operator(x, positions):
            _check_operands(x, positions)
            text = to_text(encoding)
            total = operators.add_encoding(x, text, start, positions, x_scale, precision, step, workers)
            return _copied(total, out)
        values, position_array, out_array = _arrays(x, positions, out)
        array = encoding.add_to(
            values,
            start=start,
            step=step,
            positions=position_array,
            x_scale=x_scale,
            precision=precision,
            out=out_array,
            workers=workers,
        )
        return _result(array, out)

    direct = tensors.is_direct(x, positions)
    if not direct and _is_followed({"x": x, "positions": positions}, out):
        return derivatives.of_x(derivatives.Addition(added, x_scale, encoding.ndim), x, positions)
    return added(x, positions, out, direct)


def grid(
    axes: Sequence[int | torch.Tensor | Any],
    encoding: Encoding,
    *,
    indexing: Indexing = "ij",
    dtype: torch.dtype = torch.float32,
    out: torch.Tensor | None = None,
    workers: int | None = None,
) -> torch.Tensor:
    """Return the rows of all points of a grid as a tensor.

    See `posenc_fast.grid`.

    Parameters
    ----------
    axes : sequence with one item for each axis of the encoding
        As in `posenc_fast.grid`. Coordinates may also be CPU tensors of shape (n,), by which the result is
        differentiable.
    encoding : Encoding
        Encoding with as many axes as there are items.
    indexing, workers
        As in `posenc_fast.grid`.
    dtype : torch.dtype
        As in `table`, but the default is float32, also with out.
    out : CPU tensor, optional
        Tensor for the result, of the same shape and dtype as the result.

    Returns
    -------
    torch.Tensor of shape (n0, n1, .., d_model), or (n1, n0, .., d_model) for "xy", on the CPU

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. Nothing is written in this case.

    Examples
    --------
    >>> import torch, posenc_fast as pf, posenc_fast.torch
    >>> encoding = pf.join([pf.sinusoidal(4), pf.sinusoidal(4)])
    >>> posenc_fast.torch.grid([2, torch.arange(3) / 3], encoding).shape
    torch.Size([2, 3, 8])
    """
    tensors.check_dtype(dtype, "dtype")
    coordinates = {f"axes[{i}]": axis for i, axis in enumerate(axes) if isinstance(axis, torch.Tensor)}
    direct = tensors.is_direct(*coordinates.values())
    if not direct and (_is_followed(coordinates, out) or tensors.needs_operator(*coordinates.values())):
        for name, axis in coordinates.items():
            tensors.check_operand(axis, name)
        # lines: one tensor of shape (n,) for each axis; if their dtypes differ, convert all to float64
        lines = [torch.arange(axis, device="cpu") if isinstance(axis, int) else torch.as_tensor(axis) for axis in axes]
        if len({line.dtype for line in lines}) > 1:
            lines = [line.double() for line in lines]
        points = torch.stack(torch.meshgrid(*lines, indexing=indexing), -1)
        return encode(encoding, points, dtype=dtype, out=out, workers=workers)
    result_type = tensors.numpy_type(dtype, "dtype")
    arrays = [
        tensors.array_of(axis, f"axes[{i}]") if isinstance(axis, torch.Tensor) else axis for i, axis in enumerate(axes)
    ]
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
    """Rotate queries or keys in a CPU tensor.

    See `Rotary.apply`.

    Parameters
    ----------
    rotary : Rotary
        Rotary encoding.
    x : CPU tensor of shape (..., head_dim)
        Queries or keys. Differentiable.
    positions : CPU tensor, optional
        As in `Rotary.apply`.
    start, seq_axis, inverse, precision, workers
        As in `Rotary.apply`.
    out : CPU tensor of the shape and dtype of x, optional
        Tensor for the result. ``out=x`` rotates in place.

    Returns
    -------
    torch.Tensor of the shape and dtype of x

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. x and out are unchanged in this case.

    Examples
    --------
    >>> import torch, posenc_fast as pf, posenc_fast.torch
    >>> token = torch.ones(1, 8, 1, 64)
    >>> posenc_fast.torch.rotate(pf.Rotary(64), token, start=100, out=token) is token
    True
    """

    def rotated(
        x: torch.Tensor,
        positions: torch.Tensor | None,
        seq_axis: int,
        transposed: bool = False,
        out: torch.Tensor | None = None,
        direct: bool = False,
    ) -> torch.Tensor:
        options = seq_axis, transposed, precision, inverse
        if not direct and tensors.needs_operator(x, positions):
            _check_operands(x, positions)
            return _copied(operators.rotate(x, to_text(rotary), start, positions, *options, workers), out)
        values, position_array, out_array = _arrays(x, positions, out)
        return _result(
            operators.rotated_by_positions(rotary, values, position_array, start, *options, out_array, workers), out
        )

    direct = tensors.is_direct(x, positions)
    if not direct and _is_followed({"x": x, "positions": positions}, out):
        return derivatives.of_x(derivatives.Rotation(rotated, seq_axis, axes=rotary.ndim), x, positions)
    return rotated(x, positions, seq_axis, out=out, direct=direct)


def _is_followed(arguments: dict[str, torch.Tensor | None], out: torch.Tensor | None) -> bool:
    """Return whether autograd, torch.func or forward-mode differentiation needs the rules of `_derivatives`.

    Under a compiler, return False. Raise ValueError if the rules are needed and `out` is given. arguments: tensors of
    the call by argument name.
    """
    for name, tensor in arguments.items():
        if tensor is not None and not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, not {type(tensor).__name__}")
    if torch.compiler.is_compiling():
        # the compiler traces the operators instead
        return False
    recorded = [name for name, tensor in arguments.items() if tensor is not None and tensors.wants_gradients(tensor)]
    followed = bool(recorded) or tensors.is_followed(*arguments.values())
    if followed and out is not None:
        if tensors.is_followed(*arguments.values()):
            raise ValueError(
                "out cannot be used inside a transform of torch.func or in forward-mode differentiation; do not pass out"
            )
        raise ValueError(
            f"out cannot be used if {recorded[0]} requires gradients; do not pass out, or call under torch.no_grad()"
        )
    return followed


def _result_type(dtype: torch.dtype | None, out: torch.Tensor | None) -> torch.dtype:
    """Return the dtype of the rows: dtype, or else the dtype of out, or else float32."""
    torch_type = dtype or (torch.float32 if out is None else out.dtype)
    tensors.check_dtype(torch_type, "dtype" if dtype else "out.dtype")
    return torch_type


def _check_operands(x: torch.Tensor, positions: torch.Tensor | None) -> None:
    """Raise an error for tensors that operators accept, but the functions here do not, such as tensors on a GPU."""
    tensors.check_x(x, "x")
    tensors.check_operand(x, "x")
    if positions is not None:
        tensors.check_operand(positions, "positions")
        if tensors.wants_gradients(positions):
            tensors.refuse_gradients()


def _copied(result: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """Return the result of an operator, or out with the result copied to it if out is given."""
    if out is None:
        return result
    if not isinstance(out, torch.Tensor):
        raise TypeError(f"out must be a torch.Tensor, not {type(out).__name__}")
    tensors.check_operand(out, "out")
    if out.shape != result.shape or out.dtype != result.dtype:
        raise ValueError(
            f"out has shape {tuple(out.shape)} and dtype {out.dtype}, but must have {tuple(result.shape)} and "
            f"{result.dtype}"
        )
    return out.copy_(result)


def _arrays(x: Any, positions: Any, out: Any) -> tuple[Any, Any, Any]:
    """Return x, positions and out as arrays. If out is x, the first and the last array are the same object."""
    values = tensors.array_of(x, "x")
    position_array = None if positions is None else tensors.array_of(positions, "positions")
    out_array = _written(out)
    return values, position_array, values if out is x else out_array


def _written(out: Any) -> npt.NDArray[Any] | None:
    return None if out is None else tensors.array_of(out, "out", overwritten=True)


def _result(array: npt.NDArray[Any], out: torch.Tensor | None) -> torch.Tensor:
    if out is None:
        return tensors.tensor_of(array)
    # report the write to autograd, which may have saved values of out
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
    """Rotate queries and keys by precomputed tables, like Hugging Face's function of this name.

    On the CPU, the result is computed in one pass and rounded once.

    Parameters
    ----------
    q, k : torch.Tensor of shape (batch, heads, length, head_dim)
        float64, float32, float16 or bfloat16 (which needs the package ml_dtypes). q and k may have
        different numbers of heads.
    cos, sin : torch.Tensor of shape (batch, length, columns), (1, length, columns) or (length, columns)
        Cosines and sines. If a pair has two columns, they must be equal, and only the first column gets a gradient.
        Tables of fewer than head_dim/2 pairs rotate the first values of each head and leave the others unchanged.
    unsqueeze_dim : int
        1 for q and k as above (default), 2 for (batch, length, heads, head_dim). Subtract 1 if cos and sin have two
        dimensions.
    layout : {"half", "interleaved", "interleaved_to_half"}
        Pairs of values in q and k, as in `Rotary` (default: "half").
    tables : {"half", "interleaved", "pairs"}
        Columns of each pair in cos and sin. "half" (default): two equal columns, one in each half of a row, as Llama's
        ``rotary_emb`` returns them. "interleaved": two equal columns side by side, as in Cohere. "pairs": one column,
        as in gpt-oss and `Rotary.tables`. tables may differ from layout: GLM uses "half" tables for interleaved pairs.

    Returns
    -------
    q, k : torch.Tensor
        Rotated queries and keys, with the shapes and dtypes of q and k.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid. On the CPU, also in compiled code, cos or sin is invalid if the two columns of a pair
        differ.

    Notes
    -----
    For "half" and "interleaved" tables, a call may keep a copy of one column of each pair. Later calls with the same
    cos and sin may use this copy until torch's version counter of cos or sin changes. Writes through a NumPy view or
    through ``.data`` do not change the counter. After such a write, pass clones of cos and sin.

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
        # shortcut for few tokens, which takes a fifth of the time of the code below
        rotated = operators.rotate_few_by_tables((q, k), cos, sin, 3 - unsqueeze_dim, layout)
        if rotated is not None:
            return rotated[0], rotated[1]
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUTS))}, not {layout!r}")
    if tables not in operators.TABLES:
        raise ValueError(f"tables must be one of {', '.join(map(repr, operators.TABLES))}, not {tables!r}")
    columns_per_pair = 1 if tables == "pairs" else 2
    for name, part in (("q", q), ("k", k)):
        tensors.check_x(part, name)
        if part.ndim != 4:
            raise ValueError(
                f"{name} has shape {tuple(part.shape)}, but must have four axes: (batch, heads, length, head_dim), or "
                "(batch, length, heads, head_dim) with unsqueeze_dim=2"
            )
    for name, part in (("cos", cos), ("sin", sin)):
        tensors.check_x(part, name)
        if part.device != q.device or q.device != k.device:
            raise ValueError(
                f"{name} is on {part.device}, q on {q.device} and k on {k.device}; all must be on one device"
            )
    if cos.ndim not in (2, 3) or cos.shape != sin.shape or cos.shape[-1] % columns_per_pair or cos.shape[-1] == 0:
        columns, needed = ("pairs", "at least one pair") if tables == "pairs" else ("rotary_dim", "an even rotary_dim")
        raise ValueError(
            f"cos has shape {tuple(cos.shape)} and sin {tuple(sin.shape)}, but both must have shape (batch, length, "
            f"{columns}) or (length, {columns}), with {needed}"
        )
    if not hasattr(unsqueeze_dim, "__index__"):
        raise TypeError(f"unsqueeze_dim must be an integer, not {unsqueeze_dim!r}")
    # axis of the heads in q and k; cos and sin of two dimensions have no batch axis, so add 1 for them
    heads_axis = unsqueeze_dim % (cos.ndim + 1) + 3 - cos.ndim
    if not -cos.ndim - 1 <= unsqueeze_dim <= cos.ndim or heads_axis not in (1, 2):
        raise ValueError(
            f"unsqueeze_dim={unsqueeze_dim} must be {cos.ndim - 2} or -3 for heads before length, or {cos.ndim - 1} or -2 "
            f"for length before heads, with cos of {cos.ndim} dimensions"
        )
    seq_axis = 3 - heads_axis
    pairs = cos.shape[-1] // columns_per_pair
    # rows is (batch, length), or (length,) for tables that all sequences share
    rows = tuple(cos.shape[1:-1] if tensors.is_batch_of_one(cos) else cos.shape[:-1])
    for name, part in (("q", q), ("k", k)):
        tokens = (part.shape[0], part.shape[seq_axis])
        if rows != tokens[2 - len(rows) :] or 2 * pairs > part.shape[-1]:
            raise ValueError(
                f"{name} has shape {tuple(part.shape)}, and cos and sin have shape {tuple(cos.shape)}; with "
                f"unsqueeze_dim={unsqueeze_dim}, {name} has batch {tokens[0]} and length {tokens[1]}. cos and sin must "
                f"have this length, and this batch, batch 1 or no batch axis. With tables={tables!r}, they rotate "
                f"{2 * pairs} values of each head, so head_dim must be at least {2 * pairs}"
            )
    cos, sin = (operators.columns_of_pairs(part, tables, name) for name, part in (("cos", cos), ("sin", sin)))
    q, k = operators.run_rotate_by((q, k), cos, sin, seq_axis, layout)
    return q, k


def rotary_embedding(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    *,
    interleaved: bool = False,
) -> torch.Tensor:
    """Rotate queries or keys by precomputed tables.

    With position_ids, the tables may be longer than the sequence. On the CPU, the result is computed in one pass and
    rounded once.

    Parameters
    ----------
    x : torch.Tensor of shape (..., length, heads, head_dim)
        Queries or keys of float64, float32, float16 or bfloat16 (which needs the package ml_dtypes).
    cos, sin : torch.Tensor of shape (length, head_dim/2), or (..., length, head_dim/2)
        Cosines and sines of each pair in any of these dtypes, for example from `Rotary.tables`. With position_ids, the
        shape is (n, head_dim/2). Differentiable.
    position_ids : torch.Tensor of integers of shape (length,) or (..., length), optional
        Row of cos and sin for each token, from 0 to n - 1 (default: row i for token i).
    interleaved : bool
        Whether the values of a pair are side by side (default: False, half of head_dim apart).

    Returns
    -------
    torch.Tensor of the shape and dtype of x

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Notes
    -----
    A function with this name and these arguments is proposed for `torch.nn.functional`. The proposal expects heads
    before tokens, (batch, heads, length, head_dim). ``rotary_embedding(x.transpose(1, 2), ..).transpose(1, 2)`` rotates
    such an x without a copy.

    References
    ----------
    pytorch/pytorch, pull request 187286.

    Examples
    --------
    >>> import torch, posenc_fast as pf
    >>> from posenc_fast.torch import rotary_embedding
    >>> cos, sin = map(torch.from_numpy, pf.Rotary(64).tables(2048))
    >>> queries = torch.ones(2, 3, 8, 64)
    >>> rotated = rotary_embedding(queries, cos, sin, torch.tensor([[0, 1, 2], [100, 101, 102]]))
    >>> rotated.shape
    torch.Size([2, 3, 8, 64])
    >>> torch.equal(rotated[0], rotary_embedding(queries[0], cos[:3], sin[:3]))
    True
    """
    for name, part in (("x", x), ("cos", cos), ("sin", sin)):
        tensors.check_x(part, name)
    if not isinstance(interleaved, bool):
        raise TypeError(f"interleaved must be True or False, not {interleaved!r}")
    if x.ndim < 3 or x.shape[-1] % 2 or x.shape[-1] == 0:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but must have shape (.., length, heads, head_dim), with an even head_dim"
        )
    for name, part in (("cos", cos), ("sin", sin)):
        if part.device != x.device:
            raise ValueError(f"{name} is on {part.device}, but must be on the device of x, {x.device}")
    pairs = x.shape[-1] // 2
    if cos.ndim < 2 or cos.shape != sin.shape or cos.shape[-1] != pairs:
        raise ValueError(
            f"cos has shape {tuple(cos.shape)} and sin {tuple(sin.shape)}, but both must have shape (length, {pairs}) or "
            f"(.., length, {pairs}), with one column for each pair of x, which has shape {tuple(x.shape)}; for tables "
            "with two columns per pair, or if only part of a head rotates, use apply_rotary_pos_emb"
        )
    if position_ids is not None:
        cos, sin = (_rows_at(table, position_ids) for table in (cos, sin))
    # x has shape (.., length, heads, head_dim). cos must have shape (length, pairs), after any of the first axes of x.
    before = x.shape[:-3]
    while cos.ndim > 2 and cos.shape[0] == 1 and cos.shape[:-2] != before[: cos.ndim - 2]:
        # one table for all sequences
        cos, sin = cos[0], sin[0]
    if cos.shape[:-1] != (*before[: cos.ndim - 2], x.shape[-3]):
        name, shape = ("cos", cos.shape) if position_ids is None else ("position_ids", position_ids.shape)
        raise ValueError(
            f"{name} has shape {tuple(shape)}, which does not match x of shape {tuple(x.shape)}, read as (.., "
            "length, heads, head_dim); pass x.transpose(-3, -2) if the heads of x come first"
            + (", or position_ids if cos has more rows" if position_ids is None else "")
        )
    (rotated,) = operators.run_rotate_by((x,), cos, sin, x.ndim - 3, "interleaved" if interleaved else "half")
    return rotated


def _rows_at(table: torch.Tensor, position_ids: Any) -> torch.Tensor:
    """Return the rows of a table at position_ids, which may have any shape."""
    if not isinstance(position_ids, torch.Tensor):
        raise TypeError(f"position_ids must be a torch.Tensor, not {type(position_ids).__name__}")
    if (
        position_ids.is_floating_point()
        or position_ids.is_complex()
        or position_ids.is_quantized
        or position_ids.dtype == torch.bool
    ):
        raise TypeError(
            f"position_ids must be integers, not {position_ids.dtype}; RotaryEncoding accepts real positions"
        )
    if table.ndim != 2:
        raise ValueError(
            f"cos and sin have shape {tuple(table.shape)}, but with position_ids both must have shape (n, "
            f"{table.shape[-1]})"
        )
    if tensors.is_eager(position_ids) and position_ids.numel():
        lowest, highest = (int(position) for position in torch.aminmax(position_ids))
        if lowest < 0 or highest >= table.shape[0]:
            position, fix = (lowest, "") if lowest < 0 else (highest, "pass longer tables, or ")
            raise ValueError(
                f"position_ids has {position}, but cos and sin have rows 0 to {table.shape[0] - 1}; {fix}use "
                "RotaryEncoding, which computes any position"
            )
    tensors.check_dense(position_ids, "position_ids")
    rows = table.index_select(0, position_ids.reshape(-1).long())
    return rows.reshape(*position_ids.shape, table.shape[-1])
