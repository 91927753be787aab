"""Operators for autograd, torch.compile and torch.export, and shortcuts for eager calls.

`run_add_encoding`, `run_rotate` and `run_rotate_by` compute eager calls directly. They call an operator under a
compiler, a trace or a dispatch mode of torch, and for gradients, subclasses of tensors and devices other than the CPU.
They call the functions of `_derivatives` for the transforms of torch.func and for derivatives in forward mode, which
operators do not support.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch

from .._core.encoding.value import Encoding
from .._core.engine import backend
from .._core.engine.blocks import WORTH_A_THREAD
from .._core.rotary.pairs import LAYOUTS, source_and_target
from .._core.rotary.rotator import ANGLES, angles_type
from .._core.rotary.value import Rotary, rotator_of
from ..typing import Precision, RotaryLayout, TableLayout
from . import _derivatives as derivatives
from . import _devices as devices
from . import _tensors as tensors
from ._text import from_text, to_text

# ---- pairs of operators: the first returns a new tensor, the second writes to x --------------------------------------


def _pair_of_operators(name: str, arguments: str, compute: Callable[..., torch.Tensor]) -> tuple[Any, Any]:
    """Return two operators that call ``compute(x, out, value, ..)``: one returns a new tensor, one overwrites x.

    name: name of the first operator; the name of the second has an underscore at the end. arguments: arguments of both
    operators after x, in torch's syntax of schemas. The first of these arguments is the text of value, an Encoding or a
    Rotary.
    """

    def new(x: torch.Tensor, text: str, *options: Any) -> torch.Tensor:
        return compute(x, None, from_text(text), *options)

    def in_place(x: torch.Tensor, text: str, *options: Any) -> None:
        if tensors.has_strided_rows(x):
            x.copy_(new(x, text, *options))
        else:
            compute(x, x, from_text(text), *options)

    custom_op = torch.library.custom_op
    returning = custom_op(f"posenc_fast::{name}", new, mutates_args=(), schema=f"(Tensor x, {arguments}) -> Tensor")
    writing = custom_op(
        f"posenc_fast::{name}_", in_place, mutates_args=("x",), schema=f"(Tensor(a!) x, {arguments}) -> ()"
    )
    returning.register_fake(lambda x, *_: tensors.new_like(x))
    writing.register_fake(lambda *_: None)
    return returning, writing


def _run(
    compute: Callable[..., torch.Tensor],
    operators: tuple[Any, Any],
    x: torch.Tensor,
    value: Encoding | Rotary,
    text: str,
    inplace: bool,
    start: int,
    positions: torch.Tensor | None,
    *options: Any,
) -> torch.Tensor:
    """Return ``compute(x, out, value, ..)``, with out=x if inplace is true.

    Use an operator if the call is not eager, or if x is overwritten and its rows are not contiguous. operators: the
    operator that returns a new tensor, and the one that overwrites x. text: value as text.
    """
    if not tensors.is_eager(x, positions) or (inplace and tensors.has_strided_rows(x)):
        returning, writing = operators
        if not inplace:
            return returning(x, text, start, positions, *options)
        writing(x, text, start, positions, *options)
        return x
    result = compute(x, x if inplace else None, value, start, positions, *options)
    if inplace:
        torch.autograd.graph.increment_version(x)
    return result


# ---- adding an encoding ---------------------------------------------------------------------------------------------


def _add_encoding(
    x: torch.Tensor,
    out: torch.Tensor | None,
    encoding: Encoding,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    precision: Precision = "exact",
    step: float = 1,
    threads: int | None = None,
) -> torch.Tensor:
    """Return x_scale * x + encoding, written to out, or to a new tensor if out is None. out may be x.

    On devices other than the CPU, step must be 1, because the function does not read it there.
    """
    if not tensors.on_cpu(x):
        work = devices.working_type(x)
        (rows,) = devices.rows_on(x.device, encoding, start, x.shape[-2], positions, work, precision)
        # torch.add computes in the dtype of the rows and rounds the sum once, even if x has a narrower dtype
        return torch.add(rows, x, alpha=x_scale, out=tensors.new_like(x) if out is None else out)
    values, out, out_array = tensors.arrays_of(x, out)
    result = encoding.add_to(
        values,
        start=start,
        step=step,
        positions=None if positions is None else tensors.array_of(positions, "positions"),
        x_scale=x_scale,
        precision=precision,
        out=out_array,
        workers=tensors.workers(x) if threads is None else threads,
    )
    return tensors.tensor_of(result) if out is None else out


add_encoding, add_encoding_ = _pair_of_operators(
    "add_encoding",
    "str encoding, Scalar start, Tensor? positions, float x_scale, str precision='exact', Scalar step=1, "
    "int? threads=None",
    _add_encoding,
)


def run_add_encoding(
    x: torch.Tensor,
    encoding: Encoding,
    text: str,
    inplace: bool,
    start: int,
    positions: torch.Tensor | None,
    x_scale: float,
    precision: Precision,
) -> torch.Tensor:
    """Return x_scale * x + encoding, written to x if inplace is true. text: the encoding as text."""
    if not inplace and tensors.is_direct(x, positions):
        return _add_encoding(x, None, encoding, start, positions, x_scale, precision)

    def run(x: torch.Tensor, positions: torch.Tensor | None, inplace: bool = False) -> torch.Tensor:
        arguments = start, positions, x_scale, precision
        return _run(_add_encoding, (add_encoding, add_encoding_), x, encoding, text, inplace, *arguments)

    if not tensors.is_followed(x, positions):
        return run(x, positions, inplace)
    result = derivatives.of_x(derivatives.Addition(run, x_scale, encoding.ndim), x, positions)
    return x.copy_(result) if inplace else result


def _save_scale(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.x_scale = inputs[4]


def _gradient_of_add_encoding(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    # the 7 other arguments have no gradients
    return derivatives.scaled(gradient, ctx.x_scale), *[None] * 7


add_encoding.register_autograd(_gradient_of_add_encoding, setup_context=_save_scale)

# ---- rotation by positions ------------------------------------------------------------------------------------------


def _rotate(
    x: torch.Tensor,
    out: torch.Tensor | None,
    rotary: Rotary,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    transposed: bool = False,
    precision: Precision = "exact",
    inverse: bool = False,
    threads: int | None = None,
) -> torch.Tensor:
    """Return x rotated, written to out, or to a new tensor if out is None. out may be x.

    transposed: multiply by the transposed matrix of the rotation. On devices other than the CPU, inverse must be False,
    because the function does not read it there.
    """
    length = x.shape[seq_axis]
    if not tensors.on_cpu(x):
        work = devices.working_type(x)
        cos, sin = devices.rows_on(x.device, rotary, start, length, positions, work, precision)
        result = devices.rotated(x, cos, sin, seq_axis, rotary.layout, transposed)
        return (tensors.new_like(x) if out is None else out).copy_(result)
    values, out, out_array = tensors.arrays_of(x, out)
    workers = tensors.workers(x) if threads is None else threads
    places = None if positions is None else tensors.array_of(positions, "positions")
    array = rotated_by_positions(
        rotary, values, places, start, seq_axis, transposed, precision, inverse, out_array, workers
    )
    return tensors.tensor_of(array) if out is None else out


def rotated_by_positions(
    rotary: Rotary,
    x: npt.NDArray[Any],
    positions: npt.NDArray[Any] | None,
    start: float,
    seq_axis: int,
    transposed: bool,
    precision: Precision,
    inverse: bool,
    out: npt.NDArray[Any] | None,
    workers: int | None,
) -> npt.NDArray[Any]:
    """Return x rotated, or multiplied by the transposed matrix of the rotation if transposed is true.

    inverse: use the inverse rotation. The transposed matrix differs from the inverse if the rotation also scales, by an
    attention factor or as in xpos.
    """
    if not transposed:
        return rotary.apply(
            x,
            positions=positions,
            start=start,
            seq_axis=seq_axis,
            inverse=inverse,
            precision=precision,
            out=out,
            workers=workers,
        )
    length = x.shape[seq_axis]
    positions_or_length = length if positions is None else positions
    cos, sin = rotary.tables(positions_or_length, start=start, dtype=np.float64, precision=precision)
    if inverse:
        squares = cos * cos + sin * sin
        cos, sin = cos / squares, sin / squares
    return _rotated_by_tables(x, out, cos, sin, seq_axis, rotary.layout, not inverse, workers)


rotate, rotate_ = _pair_of_operators(
    "rotate",
    "str rotary, Scalar start, Tensor? positions, int seq_axis, bool transposed, str precision='exact', "
    "bool inverse=False, int? threads=None",
    _rotate,
)


def run_rotate(
    x: torch.Tensor,
    rotary: Rotary,
    text: str,
    inplace: bool,
    start: int,
    positions: torch.Tensor | None,
    seq_axis: int,
    precision: Precision,
) -> torch.Tensor:
    """Return x rotated by positions, written to x if inplace is true. text: the rotary as text."""
    if not inplace and tensors.is_direct(x, positions):
        return _rotate(x, None, rotary, start, positions, seq_axis, False, precision)

    def run(
        x: torch.Tensor, positions: torch.Tensor | None, seq_axis: int, transposed: bool, inplace: bool = False
    ) -> torch.Tensor:
        arguments = start, positions, seq_axis, transposed, precision
        return _run(_rotate, (rotate, rotate_), x, rotary, text, inplace, *arguments)

    if not tensors.is_followed(x, positions):
        return run(x, positions, seq_axis, False, inplace)
    result = derivatives.of_x(derivatives.Rotation(run, seq_axis, axes=rotary.ndim), x, positions)
    return x.copy_(result) if inplace else result


def _save_angles(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, ctx.rotary, ctx.start, positions, ctx.seq_axis, ctx.transposed, *ctx.options = inputs
    ctx.save_for_backward(positions)


def _gradient_of_rotate(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    (positions,) = ctx.saved_tensors
    for_other_arguments = [None] * 8

    def run(x: torch.Tensor, positions: torch.Tensor | None, seq_axis: int, transposed: bool) -> torch.Tensor:
        result: torch.Tensor = rotate(x, ctx.rotary, ctx.start, positions, seq_axis, transposed, *ctx.options)
        return result

    if tensors.is_followed(gradient):
        axes = from_text(ctx.rotary).ndim
        call = derivatives.Rotation(run, ctx.seq_axis, not ctx.transposed, axes)
        return derivatives.of_x(call, gradient, positions), *for_other_arguments
    return run(gradient, positions, ctx.seq_axis, not ctx.transposed), *for_other_arguments


rotate.register_autograd(_gradient_of_rotate, setup_context=_save_angles)

# ---- rows of an encoding --------------------------------------------------------------------------------------------


def _encode(
    positions: torch.Tensor,
    text: str,
    dtype: torch.dtype,
    precision: Precision = "exact",
    workers: int | None = None,
) -> torch.Tensor:
    array, result_type = tensors.array_of(positions, "positions"), tensors.numpy_type(dtype, "dtype")
    encoding: Any = from_text(text)
    return tensors.tensor_of(encoding.encode(array, dtype=result_type, precision=precision, workers=workers))


encode = torch.library.custom_op(
    "posenc_fast::encode",
    _encode,
    mutates_args=(),
    schema="(Tensor positions, str encoding, ScalarType dtype, str precision='exact', int? workers=None) -> Tensor",
)


@encode.register_fake
def _fake_rows(positions: torch.Tensor, text: str, dtype: torch.dtype, *_: Any) -> torch.Tensor:
    encoding: Any = from_text(text)
    lead = positions.shape if encoding.ndim == 1 else positions.shape[:-1]
    return torch.empty((*lead, encoding.d_model), dtype=dtype, device=positions.device)


def _save_positions(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    positions, ctx.text, ctx.dtype, *ctx.options = inputs
    ctx.save_for_backward(positions)


def _gradient_of_positions(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    (positions,) = ctx.saved_tensors
    encoding: Any = from_text(ctx.text)

    def rows(derivative: Encoding, positions: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        result: torch.Tensor = encode(positions, to_text(derivative), dtype, *ctx.options)
        return result

    slopes = derivatives.slopes(rows, encoding, positions, ctx.dtype)
    return derivatives.along_axes(slopes, gradient, positions), *[None] * 4


encode.register_autograd(_gradient_of_positions, setup_context=_save_positions)


def _table(
    text: str,
    length: int,
    start: float,
    step: float,
    dtype: torch.dtype,
    precision: Precision,
    workers: int | None,
) -> torch.Tensor:
    encoding: Any = from_text(text)
    result_type = tensors.numpy_type(dtype, "dtype")
    return tensors.tensor_of(
        encoding.table(length, start=start, step=step, dtype=result_type, precision=precision, workers=workers)
    )


table = torch.library.custom_op(
    "posenc_fast::table",
    _table,
    mutates_args=(),
    schema="(str encoding, SymInt length, Scalar start, Scalar step, ScalarType dtype, str precision, int? workers) "
    "-> Tensor",
)


@table.register_fake
def _fake_table(text: str, length: int, start: float, step: float, dtype: torch.dtype, *_: Any) -> torch.Tensor:
    encoding: Any = from_text(text)
    return torch.empty((length, encoding.d_model), dtype=dtype, device="cpu")


# ---- rotation by precomputed tables ---------------------------------------------------------------------------------

TABLES: tuple[TableLayout, ...] = get_args(TableLayout)


def columns_of_pairs(table: torch.Tensor, columns: TableLayout, name: str) -> torch.Tensor:
    """Return a table with one column for each pair. Remove the batch axis if its length is 1.

    Raise a ValueError if the table is on the CPU and the two columns of a pair differ. columns: order of the columns in
    the given table.
    """
    if columns == "pairs":
        return table[0] if tensors.is_batch_of_one(table) else table
    if tensors.is_followed(table):
        return derivatives.of_table(derivatives.ColumnsOfPairs(pair_columns, columns, name), table)
    if not tensors.is_eager(table):
        return pair_columns(table, columns, name)
    return devices.cached_result((table,), columns, lambda: _columns_of_pairs(table, columns, name))


def _columns_of_pairs(table: torch.Tensor, columns: TableLayout, name: str) -> torch.Tensor:
    if tensors.is_batch_of_one(table):
        table = table[0]
    first, second = devices.split_pairs(table, columns)
    # compare only on the CPU: a comparison on another device would wait for that device
    if tensors.on_cpu(table) and not torch.equal(first, second):
        places = "both halves of each row" if columns == "half" else "columns 2i and 2i + 1"
        others = " or ".join(f"tables={other!r}" for other in TABLES if other != columns)
        raise ValueError(
            f"{name} must have equal values in {places} with tables={columns!r}; for another order of columns, pass "
            f"{others}"
        )
    # return a copy, because a view would keep the whole table in memory
    return first.clone(memory_format=torch.contiguous_format)


# columns_of_pairs as an operator, so that compiled programs compare the columns when they run
pair_columns = torch.library.custom_op(
    "posenc_fast::pair_columns",
    _columns_of_pairs,
    mutates_args=(),
    schema="(Tensor table, str columns, str name) -> Tensor",
)


@pair_columns.register_fake
def _fake_columns(table: torch.Tensor, columns: TableLayout, name: str) -> torch.Tensor:
    lead = table.shape[1:-1] if tensors.is_batch_of_one(table) else table.shape[:-1]
    return torch.empty((*lead, table.shape[-1] // 2), dtype=table.dtype, device=table.device)


def _save_columns(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    table, columns, name = inputs
    ctx.call, ctx.shape = derivatives.ColumnsOfPairs(pair_columns, columns, name), table.shape


def _gradient_of_table(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    return ctx.call.backward(gradient, ctx.shape), None, None


pair_columns.register_autograd(_gradient_of_table, setup_context=_save_columns)


def _rotate_by(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    seq_axis: int,
    layout: RotaryLayout = "half",
    transposed: bool = False,
) -> torch.Tensor:
    """Return x rotated by tables with one column for each pair.

    If transposed is true, multiply by the transposed matrix of the rotation.
    """
    if not tensors.on_cpu(x):
        return devices.rotated(x, cos, sin, seq_axis, layout, transposed)
    values, out, out_array = tensors.arrays_of(x, None)
    tables = tensors.array_of(cos, "cos"), tensors.array_of(sin, "sin")
    array = _rotated_by_tables(values, out_array, *tables, seq_axis, layout, transposed, tensors.workers(x))
    return tensors.tensor_of(array) if out is None else out


rotate_by = torch.library.custom_op(
    "posenc_fast::rotate_by",
    _rotate_by,
    mutates_args=(),
    schema="(Tensor x, Tensor cos, Tensor sin, int seq_axis, str layout='half', bool transposed=False) -> Tensor",
)
rotate_by.register_fake(lambda x, *_: tensors.new_like(x))


def run_rotate_by(
    parts: Sequence[torch.Tensor],
    cos: torch.Tensor,
    sin: torch.Tensor,
    seq_axis: int,
    layout: RotaryLayout,
    transposed: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Return queries and keys, or one of them, rotated by tables with one column for each pair."""
    if tensors.is_direct(*parts, cos, sin):
        return tuple([_rotate_by(part, cos, sin, seq_axis, layout, transposed) for part in parts])
    if tensors.is_followed(*parts, cos, sin):
        call = derivatives.TableRotation(_dispatched_rotate_by, seq_axis, layout, transposed)
        return tuple([derivatives.of_tables(call, part, cos, sin) for part in parts])
    return tuple([_dispatched_rotate_by(part, cos, sin, seq_axis, layout, transposed) for part in parts])


def _dispatched_rotate_by(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *arguments: Any) -> torch.Tensor:
    """Return x rotated by tables. Use the operator only if the call is not eager."""
    function = _rotate_by if tensors.is_eager(x, cos, sin) else rotate_by
    result: torch.Tensor = function(x, cos, sin, *arguments)
    return result


def _save_tables(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, cos, sin, ctx.seq_axis, ctx.layout, ctx.transposed = inputs
    # x may be large, so save it only if a table needs a gradient
    ctx.save_for_backward(x if any(ctx.needs_input_grad[1:3]) else None, cos, sin)


def _gradients_of_rotate_by(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, cos, sin = ctx.saved_tensors
    (back,) = run_rotate_by((gradient,), cos, sin, ctx.seq_axis, ctx.layout, not ctx.transposed)
    of_cos = of_sin = None
    if x is not None:
        arguments = ctx.seq_axis, ctx.layout, ctx.transposed
        of_cos, of_sin = devices.gradients_of_tables(gradient, x, cos, sin, *arguments)
    return back, of_cos, of_sin, None, None, None


rotate_by.register_autograd(_gradients_of_rotate_by, setup_context=_save_tables)


def _rotated_by_tables(
    x: npt.NDArray[Any],
    out: npt.NDArray[Any] | None,
    cos: npt.NDArray[Any],
    sin: npt.NDArray[Any],
    seq_axis: int,
    layout: RotaryLayout,
    transposed: bool,
    workers: int | None,
) -> npt.NDArray[Any]:
    # apply_tables has no layout that reads halves and writes adjacent pairs: write halves, then interleave them
    interleave = source_and_target(layout, transposed) == ("half", "interleaved")
    rotary = _rotary_for_tables(x.shape[-1], 2 * cos.shape[-1], "half" if interleave else layout)
    result = rotary.apply_tables(x, cos, -sin if transposed else sin, seq_axis=seq_axis, out=out, workers=workers)
    if interleave:
        pairs = result[..., : rotary.rotary_dim]
        pairs[...] = pairs.reshape(*x.shape[:-1], 2, -1).swapaxes(-1, -2).reshape(pairs.shape)
    return result


@functools.lru_cache(maxsize=64)
def _rotary_for_tables(head_dim: int, rotary_dim: int, layout: RotaryLayout) -> Rotary:
    """Return a Rotary for `Rotary.apply_tables`; its angles are unused."""
    return Rotary(head_dim, rotary_dim=rotary_dim, layout=layout)


# ---- few tokens -----------------------------------------------------------------------------------------------------
# In text generation, each layer of a model rotates one token at a time. Converting tensors to arrays takes longer than
# this rotation, so these functions pass addresses to the kernel. They return the same bits as `run_rotate` and
# `run_rotate_by`.

# keys: seq_axis, the axis of the tokens in (batch, heads, length, head_dim) or (batch, length, heads, head_dim).
# Values: the same axis, counted from 0.
_TOKENS = {-2: 2, 2: 2, 1: 1, -3: 1}
# each tensor, and its shape, address and strides
_Memory = list[tuple[torch.Tensor, torch.Size, int, tuple[int, ...]]]


def rotate_few(
    parts: tuple[torch.Tensor, ...], rotary: Rotary, start: Any, seq_axis: int, inplace: bool
) -> tuple[torch.Tensor, ...] | None:
    """Return parts rotated by the positions start, start + 1, .., or None if the shortcut does not support the call.

    Nothing is written if the result is None. parts: queries, or queries and keys.
    """
    if type(start) is not int or abs(start) >= 2**62 or seq_axis not in _TOKENS:
        return None
    plain = _memory_of(parts, rotary.layout, inplace)
    if plain is None:
        return None
    kind, memory = plain
    axis, head_dim = _TOKENS[seq_axis], rotary.head_dim
    _, first_shape, _, _ = memory[0]
    length = first_shape[axis]
    for _, shape, _, _ in memory:
        if shape[axis] != length or shape[3] != head_dim:
            return None
    if length * rotary.rotary_dim > ANGLES:
        return None
    results, arrays = _with_results(memory, inplace)
    # compute cosines and sines only here, where the call is eager, because a compiler must not trace the computation
    rotator, layout = rotator_of(rotary), LAYOUTS.index(rotary.layout)
    calls = rotator.calls()
    if calls is None or not calls.rotate_memory(start, arrays, axis, kind, layout):
        angles = rotator.rows(length, start, False, False, angles_type(kind))[np.newaxis]
        engine = backend.current()
        engine.module.rotate_memory(engine.level, angles, arrays, axis, kind, layout)
    return results


def _memory_of(parts: tuple[Any, ...], layout: RotaryLayout, inplace: bool) -> tuple[int, _Memory] | None:
    """Return the kernel's number for the dtype of the tensors, and the memory of each tensor.

    Return None if the shortcuts do not support the call, for example if the tensors have different dtypes.
    """
    if not tensors.is_direct() or layout == "interleaved_to_half":
        return None
    if backend.current().backend != "cython":
        return None
    kind, memory = None, []
    for x in parts:
        address = tensors.plain_address(x)
        if address is None:
            return None
        value_format = tensors.DTYPES.get(x.dtype)
        if value_format is None or kind not in (None, value_format.kind):
            return None
        # read each attribute once: one read takes as long as a hundred additions
        shape, strides, count = x.shape, x.stride(), x.numel()
        if len(shape) != 4 or strides[3] != 1 or not 0 < count < WORTH_A_THREAD or (inplace and not x.is_contiguous()):
            return None
        kind, itemsize = value_format.kind, value_format.stored.itemsize
        # the shortcuts support neither results on huge pages nor unaligned memory
        if count * itemsize >= tensors.HUGE_PAGES_FROM or address % itemsize:
            return None
        memory.append((x, shape, address, strides))
    assert kind is not None
    return kind, memory


def _with_results(memory: _Memory, inplace: bool) -> tuple[tuple[torch.Tensor, ...], list[Any]]:
    """Return tensors for the results, and the shapes, addresses and strides that the kernel's `rotate_memory` takes.

    If inplace is true, the results are written to the given tensors.
    """
    results, arrays = [], []
    for x, shape, address, strides in memory:
        if inplace:
            torch.autograd.graph.increment_version(x)
            results.append(x)
            arrays.append((shape, address, strides, address, strides))
        else:
            out = tensors.new_like(x)
            results.append(out)
            arrays.append((shape, address, strides, out.data_ptr(), out.stride()))
    return tuple(results), arrays


def rotate_few_by_tables(
    parts: tuple[Any, ...], cos: Any, sin: Any, seq_axis: int, layout: RotaryLayout
) -> tuple[torch.Tensor, ...] | None:
    """Return queries and keys rotated by cos and sin, of shape (batch or 1, length, 2 * pairs).

    The two halves of each row of cos and sin must be equal. If they differ, or if the shortcut does not support the
    call, return None and write nothing.
    """
    if torch.compiler.is_compiling() or not tensors.is_plain(cos) or not tensors.is_plain(sin):
        return None
    shape_of_tables = cos.shape
    if len(shape_of_tables) != 3 or shape_of_tables != sin.shape:
        return None
    batch, length, columns = shape_of_tables
    if columns % 2 or not 0 < math.prod(shape_of_tables) <= ANGLES:
        return None
    if cos.dtype not in tensors.DTYPES or cos.dtype != sin.dtype:
        return None
    if not cos.is_contiguous() or not sin.is_contiguous():
        return None
    plain = _memory_of(parts, layout, False)
    if plain is None:
        return None
    kind, memory = plain
    for _, shape, _, _ in memory:
        if shape[seq_axis] != length or shape[3] < columns or batch not in (1, shape[0]):
            return None
    angles = angles_of_tables(cos, sin, angles_type(kind))
    if angles is None:
        return None
    results, arrays = _with_results(memory, False)
    engine = backend.current()
    engine.module.rotate_memory(engine.level, angles, arrays, seq_axis, kind, LAYOUTS.index(layout))
    return results


def angles_of_tables(cos: torch.Tensor, sin: torch.Tensor, dtype: np.dtype[Any]) -> npt.NDArray[Any] | None:
    """Return rows with the cosines of all pairs, and then their sines.

    cos and sin are contiguous tables of shape (batch, length, 2 * pairs). The two halves of each of their rows must be
    equal. Return None if they differ.
    """
    angles, kind = np.empty(cos.shape, dtype), tensors.DTYPES[cos.dtype].kind
    halves_equal = backend.current().module.side_by_side(cos.data_ptr(), sin.data_ptr(), kind, angles)
    return angles if halves_equal else None
