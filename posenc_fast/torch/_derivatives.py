"""Rules for derivatives in forward and backward mode, and for batches, under nested transforms of torch.func.

An operator of torch.library supports only autograd's backward mode. A function that reads the memory of a tensor
supports no derivatives. The functions `of_x`, `of_tables`, `of_table` and `of_positions` support both modes and
batches. Torch applies their rules once for each transform, and then calls the function that computes the values.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import torch

from .._core.encoding.derivatives import derivative_of
from .._core.encoding.value import Encoding
from ..typing import RotaryLayout, TableLayout
from . import _devices as devices
from . import _tensors as tensors


def scaled(tensor: torch.Tensor, scale: float) -> torch.Tensor:
    """Return scale * tensor. With scale 1, the result is the tensor itself."""
    return tensor if scale == 1 else tensor * scale


# ---- derivatives with respect to x: sums, and rotations by positions -------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Addition:
    """The sum x_scale * x + encoding.

    compute: function of (x, positions) that returns the sum. axes: number of coordinates of one position.
    """

    compute: Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]
    x_scale: float
    axes: int = 1

    def __call__(self, x: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """Return the sum."""
        return self.compute(x, positions)

    def forward(self, tangent: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """Return x_scale * tangent. `backward` is the same function, called with the gradient of the sum as tangent."""
        return scaled(tangent, self.x_scale)

    backward = forward

    def batched(self) -> Addition:
        """Return the same operation for a batch of x, which has one more axis in front."""
        return self

    def batched_positions(self, positions: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return positions (batch, length) or (batch, ..., length) expanded for x (batch, ..., length, d_model)."""
        size, *shape = positions.shape
        # if the encoding has several axes, the last axis of positions contains the coordinates of a row
        coordinates = shape[-1:] if self.axes > 1 else []
        missing = x.dim() - 1 + len(coordinates) - positions.dim()
        return positions.reshape(size, *[1] * missing, *shape).expand(*x.shape[:-1], *coordinates)


@dataclasses.dataclass(frozen=True)
class Rotation:
    """A rotation by the angles of positions.

    compute: function of (x, positions, seq_axis, transposed) that returns x rotated. transposed: whether to multiply by
    the transposed matrix of the rotation. axes: number of coordinates of one position.
    """

    compute: Callable[[torch.Tensor, torch.Tensor | None, int, bool], torch.Tensor]
    seq_axis: int
    transposed: bool = False
    axes: int = 1

    def __call__(self, x: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """Return x rotated."""
        return self.compute(x, positions, self.seq_axis, self.transposed)

    def forward(self, tangent: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """Return the tangent of the result for the tangent of x."""
        return of_x(self, tangent, positions)

    def backward(self, gradient: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
        """Return the gradient of x for the gradient of the result."""
        return of_x(dataclasses.replace(self, transposed=not self.transposed), gradient, positions)

    def batched(self) -> Rotation:
        """Return the same operation for a batch of x, which has one more axis in front."""
        return dataclasses.replace(self, seq_axis=_shifted_axis(self.seq_axis))

    def batched_positions(self, positions: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return the positions of a batch unchanged, because `compute` accepts their shape."""
        return positions


def of_x(call: Addition | Rotation, x: torch.Tensor, positions: torch.Tensor | None) -> torch.Tensor:
    """Return ``call(x, positions)``, differentiable by x."""
    result: torch.Tensor = _OfX.apply(x, positions, call)
    return result


class _OfX(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, positions: torch.Tensor | None, call: Addition | Rotation) -> torch.Tensor:
        return call(x, positions)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        _, positions, ctx.call = inputs
        if ctx.needs_input_grad[1]:
            tensors.refuse_gradients()
        _save(ctx, positions)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> Any:
        (positions,) = ctx.saved_tensors
        return None if gradient is None else ctx.call.backward(gradient, positions), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor | None, positions_tangent: torch.Tensor | None, _: None) -> Any:
        if positions_tangent is not None:
            tensors.refuse_gradients()
        (positions,) = ctx.saved_tensors
        return None if tangent is None else ctx.call.forward(tangent, positions)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], x: torch.Tensor, positions: torch.Tensor | None, call: Addition | Rotation
    ) -> Any:
        x = _batch_first(x, in_dims[0], info.batch_size)
        if positions is not None and (in_dims[1] is not None or positions.dim() > (2 if call.axes > 1 else 1)):
            positions = call.batched_positions(_batch_first(positions, in_dims[1], info.batch_size), x)
        return of_x(call.batched(), x, positions), 0


# ---- derivatives with respect to x and tables: rotations by tables ---------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TableRotation:
    """A rotation by tables of cosines and sines, which have one column for each pair.

    compute: function of (x, cos, sin, seq_axis, layout, transposed) that returns x rotated. transposed: whether to
    multiply by the transposed matrix of the rotation.
    """

    compute: Callable[..., torch.Tensor]
    seq_axis: int
    layout: RotaryLayout
    transposed: bool = False

    def __call__(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return x rotated."""
        return self.compute(x, cos, sin, self.seq_axis, self.layout, self.transposed)


def of_tables(call: TableRotation, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return ``call(x, cos, sin)``, differentiable by x, cos and sin."""
    result: torch.Tensor = _OfTables.apply(x, cos, sin, call)
    return result


class _OfTables(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, call: TableRotation) -> torch.Tensor:
        return call(x, cos, sin)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        x, cos, sin, ctx.call = inputs
        _save(ctx, x, cos, sin)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> Any:
        if gradient is None:
            return None, None, None, None
        x, cos, sin = ctx.saved_tensors
        call: TableRotation = ctx.call
        of_x = of_cos = of_sin = None
        if ctx.needs_input_grad[0]:
            of_x = of_tables(dataclasses.replace(call, transposed=not call.transposed), gradient, cos, sin)
        if any(ctx.needs_input_grad[1:3]):
            options = call.seq_axis, call.layout, call.transposed
            of_cos, of_sin = devices.gradients_of_tables(gradient, x, cos, sin, *options)
        return of_x, of_cos, of_sin, None

    @staticmethod
    def jvp(
        ctx: Any,
        x_tangent: torch.Tensor | None,
        cos_tangent: torch.Tensor | None,
        sin_tangent: torch.Tensor | None,
        _: None,
    ) -> Any:
        x, cos, sin = ctx.saved_tensors
        parts = [] if x_tangent is None else [of_tables(ctx.call, x_tangent, cos, sin)]
        if cos_tangent is not None or sin_tangent is not None:
            # the result is linear in the two tables, and values beyond the pairs do not depend on them
            cos_tangent = torch.zeros_like(cos) if cos_tangent is None else cos_tangent
            sin_tangent = torch.zeros_like(sin) if sin_tangent is None else sin_tangent
            rotary_dim = 2 * cos.shape[-1]
            values = torch.nn.functional.pad(x[..., :rotary_dim], (0, x.shape[-1] - rotary_dim))
            parts.append(of_tables(ctx.call, values, cos_tangent, sin_tangent))
        return sum(parts[1:], parts[0]) if parts else None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, call: TableRotation
    ) -> Any:
        x = _batch_first(x, in_dims[0], info.batch_size)
        if in_dims[1:3] != (None, None) or cos.dim() > 2:
            cos = _batch_first(cos, in_dims[1], info.batch_size)
            sin = _batch_first(sin, in_dims[2], info.batch_size)
        return of_tables(dataclasses.replace(call, seq_axis=_shifted_axis(call.seq_axis)), x, cos, sin), 0


# ---- derivatives with respect to a table: the first column of each pair ----------------------------------------------


@dataclasses.dataclass(frozen=True)
class ColumnsOfPairs:
    """Selection of the first of the two columns that a table of cosines or sines has for each pair.

    compute: function of (table, columns, name) that returns the first columns. columns: where a table has the two
    columns of a pair. name: name of the table in errors.
    """

    compute: Callable[..., torch.Tensor]
    columns: TableLayout
    name: str

    def __call__(self, table: torch.Tensor) -> torch.Tensor:
        """Return the first column of each pair."""
        return self.compute(table, self.columns, self.name)

    def backward(self, gradient: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """Return the gradient of a table of this shape: the gradient of the first columns, and zeros for the second."""
        parts = gradient, torch.zeros_like(gradient)
        wide = torch.cat(parts, -1) if self.columns == "half" else torch.stack(parts, -1)
        return wide.reshape(shape)


def of_table(call: ColumnsOfPairs, table: torch.Tensor) -> torch.Tensor:
    """Return ``call(table)``, differentiable by table. The gradient of the columns that are left out is zero."""
    result: torch.Tensor = _OfTable.apply(table, call)
    return result


class _OfTable(torch.autograd.Function):
    @staticmethod
    def forward(table: torch.Tensor, call: ColumnsOfPairs) -> torch.Tensor:
        return call(table)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        table, ctx.call = inputs
        ctx.shape = table.shape

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.call.backward(gradient, ctx.shape), None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> Any:
        # do not use call(tangent): it raises an error if the two columns of a pair differ, as in many tangents
        first, _ = devices.split_pairs(tangent, ctx.call.columns)
        return first[0] if tensors.is_batch_of_one(tangent) else first

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], table: torch.Tensor, call: ColumnsOfPairs) -> Any:
        table = table.movedim(in_dims[0], 0)
        size, *lead, columns = table.shape
        if len(lead) == 2 and lead[0] == 1:
            # lead is (1, length): all sequences share the table
            lead = lead[1:]
        return of_table(call, table.reshape(-1, columns)).reshape(size, *lead, columns // 2), 0


# ---- derivatives with respect to positions: encodings ----------------------------------------------------------------


def of_positions(
    compute: Callable[[Encoding, torch.Tensor, torch.dtype], torch.Tensor],
    encoding: Encoding,
    positions: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return ``compute(encoding, positions, dtype)``, differentiable by the positions."""
    result: torch.Tensor = _OfPositions.apply(positions, compute, encoding, dtype)
    return result


class _OfPositions(torch.autograd.Function):
    @staticmethod
    def forward(
        positions: torch.Tensor, compute: Callable[..., torch.Tensor], encoding: Encoding, dtype: torch.dtype
    ) -> torch.Tensor:
        return compute(encoding, positions, dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        positions, ctx.compute, ctx.encoding, ctx.dtype = inputs
        _save(ctx, positions)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> Any:
        if gradient is None:
            return None, None, None, None
        (positions,) = ctx.saved_tensors
        return along_axes(_slopes(ctx, positions), gradient, positions), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor | None, *_: None) -> Any:
        if tangent is None:
            return None
        (positions,) = ctx.saved_tensors
        tangents = [tangent] if ctx.encoding.ndim == 1 else tangent.unbind(-1)
        parts = [slope * part[..., None] for slope, part in zip(_slopes(ctx, positions), tangents, strict=True)]
        return sum(parts[1:], parts[0]).to(ctx.dtype)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[Any, ...],
        positions: torch.Tensor,
        compute: Callable[..., torch.Tensor],
        encoding: Encoding,
        dtype: torch.dtype,
    ) -> Any:
        return of_positions(compute, encoding, positions.movedim(in_dims[0], 0), dtype), 0


def _slopes(ctx: Any, positions: torch.Tensor) -> list[torch.Tensor]:
    return slopes(functools.partial(of_positions, ctx.compute), ctx.encoding, positions, ctx.dtype)


def slopes(
    compute: Callable[[Encoding, torch.Tensor, torch.dtype], torch.Tensor],
    encoding: Encoding,
    positions: torch.Tensor,
    dtype: torch.dtype,
) -> list[torch.Tensor]:
    """Return the derivatives of the rows by each coordinate of the positions, as one tensor for each axis."""
    wide = torch.promote_types(torch.promote_types(dtype, positions.dtype), torch.float32)
    return [compute(derivative_of(encoding, axis), positions, wide) for axis in range(encoding.ndim)]


def along_axes(slopes: list[torch.Tensor], gradient: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return the gradient of positions for the gradient of rows. slopes: the result of `slopes`."""
    parts = [(slope * gradient).sum(-1) for slope in slopes]
    total = parts[0] if len(parts) == 1 else torch.stack(parts, -1)
    return total.to(positions.dtype)


# ---- shared functions ------------------------------------------------------------------------------------------------


def _save(ctx: Any, *inputs: torch.Tensor | None) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs)


def _batch_first(tensor: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """Return a tensor with the axis of the batch in front. Without such an axis (dim None), expand the tensor."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _shifted_axis(seq_axis: int) -> int:
    """Return the new number of the axis seq_axis after another axis is added in front of the tensor."""
    return seq_axis + 1 if seq_axis >= 0 else seq_axis
