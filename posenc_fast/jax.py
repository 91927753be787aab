"""Encodings in jax: functions that work under ``jit`` and ``vmap``, with derivatives of any order.

All arguments that are not arrays of jax are static, such as a length, a number as start, or positions in a NumPy array.
A result that depends only on static arguments is computed during tracing. Arrays that jax traces are sent to the host
when the compiled program runs, by `jax.pure_callback`. The results have the same bits as those of the methods of
Encoding and Rotary, called with the same arrays, or under ``vmap`` with the whole batch. Needs jax:
``pip install jax``.

Examples
--------
>>> import jax, jax.numpy as jnp, posenc_fast as pf, posenc_fast.jax as pfj
>>> encoding = pf.sinusoidal(64)
>>> rows = jax.jit(lambda positions: pfj.encode(encoding, positions))(jnp.arange(10))
>>> bool((rows == encoding.table(10)).all())
True
"""

# without jax, pyright resolves `import jax` to this module
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ._core.encoding.derivatives import derivative_of
from ._core.encoding.value import Encoding
from ._core.numbers.arguments import check_precision, count_of, progression, real
from ._core.numbers.arrays import Array, is_masked_array
from ._core.numbers.formats import FLOAT64, float_type, kind_of, wanted_type
from ._core.positions.conversion import convert
from ._core.positions.foreign import as_array
from ._core.rotary.pairs import source_and_target
from ._core.rotary.value import Rotary
from .typing import Precision

try:
    import jax
    import jax.numpy as jnp
    from jax.custom_derivatives import SymbolicZero
except ImportError as error:
    raise ImportError("posenc_fast.jax needs jax; run pip install jax") from error

__all__ = ["add_to", "encode", "rotate", "table"]


def __dir__() -> list[str]:
    return sorted(__all__)


def table(
    encoding: Encoding,
    length: int,
    *,
    start: Any = 0,
    step: float = 1,
    dtype: npt.DTypeLike | None = None,
    precision: Precision = "exact",
) -> Any:
    """Return the rows of the positions ``start + i * step`` as an array of jax.

    See `Encoding.table`.

    Parameters
    ----------
    encoding : Encoding
        Encoding of one axis.
    length, step, dtype, precision
        As in `Encoding.table`.
    start : float, or jax.Array of shape () with an integer
        First position (default: 0). If it is a number, the table is a constant of the traced program.

    Returns
    -------
    jax.Array of shape (length, d_model)

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Examples
    --------
    >>> import jax, posenc_fast as pf, posenc_fast.jax as pfj
    >>> next_rows = jax.jit(lambda start: pfj.table(pf.sinusoidal(64), 3, start=start))
    >>> bool((next_rows(100) == pf.sinusoidal(64).table(3, start=100)).all())
    True
    """
    _check(encoding, Encoding, "encoding")
    result_type = _checked_dtype(dtype)
    if not isinstance(start, jax.Array):
        return jnp.asarray(encoding.table(length, start=start, step=step, dtype=result_type, precision=precision))
    encoding._one_axis("table")
    check_precision(precision)
    rows = count_of(length, "length", 0)
    progression(0, step, rows)
    _check_start(start, "use encode(encoding, start + step * jnp.arange(length))")
    return _call(_Table(encoding, rows, step, result_type, precision), start)


def encode(
    encoding: Encoding, positions: Any, *, dtype: npt.DTypeLike | None = None, precision: Precision = "exact"
) -> Any:
    """Return the rows of any positions as an array of jax.

    See `Encoding.encode`.

    Parameters
    ----------
    encoding : Encoding
        Encoding of A axes.
    positions : jax.Array of shape (...), or (..., A) for an encoding of A axes
        Integers or real numbers. Other types that `Encoding.encode` accepts are static. Static positions are exact even
        if jax is limited to numbers of 32 bits.
    dtype, precision
        As in `Encoding.encode`.

    Returns
    -------
    jax.Array of shape (..., d_model)

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, posenc_fast as pf, posenc_fast.jax as pfj
    >>> wave = pf.Encoding([2.0])
    >>> slope = jax.grad(lambda t: pfj.encode(wave, t)[0])(0.0)
    >>> float(slope)
    2.0
    """
    _check(encoding, Encoding, "encoding")
    result_type = _checked_dtype(dtype)
    if not isinstance(positions, jax.Array):
        return jnp.asarray(encoding.encode(positions, dtype=result_type, precision=precision))
    check_precision(precision)
    _check_positions(positions, encoding.ndim)
    return _call(_Rows(encoding, result_type, precision), positions)


def add_to(
    encoding: Encoding,
    x: Any,
    *,
    start: Any = 0,
    positions: Any = None,
    x_scale: float = 1.0,
    precision: Precision = "exact",
) -> Any:
    """Return ``x_scale * x + encoding``, rounded once, as an array of jax.

    See `Encoding.add_to`.

    Parameters
    ----------
    encoding : Encoding
        Encoding to add.
    x : jax.Array of shape (..., length, d_model)
        Array of float64, float32, float16 or bfloat16.
    start : float, or jax.Array of shape () with an integer
        Position of the first row (default: 0).
    positions : array_like, optional
        Positions of the rows, traced or static as in `encode` (default: ``start, start + 1, ..``). The shape is
        (length,) or (..., length). An encoding of A > 1 axes needs a further last axis of A coordinates.
    x_scale, precision
        As in `Encoding.add_to`.

    Returns
    -------
    jax.Array of the shape and dtype of x

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, posenc_fast as pf, posenc_fast.jax as pfj
    >>> embed = jax.jit(lambda x: pfj.add_to(pf.sinusoidal(4), x, x_scale=2.0))
    >>> embed(jnp.ones((1, 4))).tolist()
    [[2.0, 3.0, 2.0, 3.0]]
    """
    _check(encoding, Encoding, "encoding")
    check_precision(precision)
    x = _checked_x(x, encoding.d_model, "d_model")
    if positions is None:
        encoding._one_axis("add_to without positions")
    tokens, traced = _tokens(x.shape[:-2], x.shape[-2], encoding.ndim, start, positions, partly=False)
    return _call(_Sum(encoding, real(x_scale, "x_scale"), precision, x.ndim, tokens), x, *traced)


def rotate(
    rotary: Rotary,
    x: Any,
    *,
    start: Any = 0,
    positions: Any = None,
    seq_axis: int = -2,
    inverse: bool = False,
    precision: Precision = "exact",
) -> Any:
    """Rotate queries or keys, arrays of jax, by the angles of their positions.

    See `Rotary.apply`.

    Parameters
    ----------
    rotary : Rotary
        Rotary encoding.
    x : jax.Array of shape (..., head_dim)
        Array of float64, float32, float16 or bfloat16.
    start : float, or jax.Array of shape () with an integer
        Position of the first token (default: 0), such as the counter of a compiled loop.
    positions : array_like, optional
        Positions of the tokens, traced or static as in `encode` (default: ``start, start + 1, ..``). The shape is
        (length,), or has the first axes of x in front, such as (batch, length). A Rotary of A > 1 axes needs a further
        last axis of A coordinates.
    seq_axis, inverse, precision
        As in `Rotary.apply`.

    Returns
    -------
    jax.Array of the shape and dtype of x

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Notes
    -----
    The gradient of x is the gradient of the result, rotated by the opposite angles, and multiplied by the same factors
    as x (the attention factor, or those of xPos). The gradient is rotated by jax operations, so its last bits may
    differ from those of `Rotary.apply`. Derivatives by positions are unsupported for xPos.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, posenc_fast as pf, posenc_fast.jax as pfj
    >>> rotate = jax.jit(lambda x, start: pfj.rotate(pf.Rotary(64), x, start=start))
    >>> rotate(jnp.ones((1, 8, 1, 64)), 100).shape
    (1, 8, 1, 64)
    """
    _check(rotary, Rotary, "rotary")
    check_precision(precision)
    if not isinstance(inverse, bool):
        raise TypeError(f"inverse must be True or False, not {inverse!r}")
    x = _checked_x(x, rotary.head_dim, "head_dim")
    axis = count_of(seq_axis, "seq_axis", -x.ndim)
    if axis >= x.ndim - 1 or axis == -1:
        raise ValueError(f"seq_axis={axis} must be an axis of x other than the last; x has shape {x.shape}")
    # count the axis from the end, because jax.vmap adds axes in front of x
    axis = axis - x.ndim if axis >= 0 else axis
    lead = x.shape[:axis] + x.shape[x.ndim + axis + 1 : -1]
    tokens, traced = _tokens(lead, x.shape[axis], rotary.ndim, start, positions, partly=True)
    return _call(_Rotation(rotary, axis, inverse, precision, x.ndim, tokens), x, *traced)


# ---- arguments ------------------------------------------------------------------------------------------------------


def _check(value: Any, cls: type, name: str) -> None:
    if not isinstance(value, cls):
        raise TypeError(f"{name} must be of type posenc_fast.{cls.__name__}, not {type(value).__name__}")


def _checked_dtype(dtype: Any) -> np.dtype[Any]:
    result_type = wanted_type(dtype)
    if result_type == FLOAT64.stored and not jax.config.jax_enable_x64:
        raise ValueError(
            'dtype is float64, which jax supports only after jax.config.update("jax_enable_x64", True); call this, '
            "or pass dtype='float32'"
        )
    return result_type


def _checked_x(x: Any, width: int, columns: str) -> Any:
    x = jnp.asarray(x)
    float_type(np.dtype(x.dtype), "x")
    if x.ndim < 2 or x.shape[-1] != width:
        raise ValueError(
            f"x has shape {x.shape}, but must have at least two axes, the last of length {width} (the {columns})"
        )
    return x


def _check_positions(positions: Any, axes: int) -> None:
    kind = np.dtype(positions.dtype)
    if kind.kind not in "iu" and kind_of(kind) is None:
        raise TypeError(f"positions must be integers or real numbers, not {kind}")
    if axes > 1 and positions.shape[-1:] != (axes,):
        raise ValueError(
            f"positions has shape {positions.shape}, but must have shape (.., {axes}), with one number for each axis of "
            "the encoding"
        )


def _check_start(start: Any, for_real_start: str) -> None:
    """Raise an error unless start, a jax.Array, is one integer. for_real_start is the advice for one real number."""
    if start.shape == () and np.dtype(start.dtype).kind in "iu":
        return
    fix = f"for a real start, {for_real_start}" if start.shape == () else "for one start per sequence, use jax.vmap"
    raise TypeError(
        "start must be a number, or a jax.Array of shape () that contains an integer, not "
        f"{start.dtype}[{', '.join(map(str, start.shape))}]; {fix}"
    )


@dataclasses.dataclass(frozen=True)
class _Tokens:
    """Positions of the tokens of x, given as a start or as an array.

    Static positions are stored in this object. Arrays of jax are not: `_Angles`, `_Sum` and `_Rotation` get them as an
    argument. is_start is true if a start is given. ndim is the number of axes of the array of positions. start is the
    static start. array has dtype, shape and bytes of the static array.
    """

    is_start: bool
    ndim: int = 0
    start: Any = None
    array: tuple[str, tuple[int, ...], bytes] | None = None

    def positions(self, *traced: Any) -> Array | int | float:
        """Return the start or the positions, from the traced argument or from the static value."""
        if traced:
            return np.asarray(traced[0])
        if self.array is None:
            start: int | float = self.start
            return start
        dtype, shape, memory = self.array
        return np.frombuffer(memory, dtype).reshape(shape)


def _tokens(
    lead: tuple[int, ...], length: int, axes: int, start: Any, positions: Any, *, partly: bool
) -> tuple[_Tokens, tuple[Any, ...]]:
    """Return (the positions of the tokens, a tuple with start or positions if it is an array of jax).

    lead has the lengths of all axes of x other than tokens and columns. positions may have these axes before the axis
    of the tokens: if partly is true, any number of the first ones, otherwise all or none.
    """
    if positions is None:
        if isinstance(start, jax.Array):
            _check_start(start, "pass positions=start + jnp.arange(length)")
            return _Tokens(True), (start,)
        progression(start, 1, length)
        return _Tokens(True, start=start), ()
    if isinstance(start, jax.Array) or start != 0:
        raise ValueError(f"pass positions or start={start!r}, not both")
    is_traced = isinstance(positions, jax.Array)
    if is_traced:
        _check_positions(positions, axes)
    else:
        positions = _static(positions, axes)
    coordinates = (axes,) if axes > 1 else ()
    # number of axes before the axis of the tokens
    before = positions.ndim - 1 - len(coordinates)
    accepted = before >= 0 if partly else before in (0, len(lead))
    if not accepted or positions.shape != (*lead[:before], length, *coordinates):
        batched = (*(lead[:1] if partly else lead), length, *coordinates)
        raise ValueError(
            f"positions has shape {positions.shape}, which does not match x; pass shape {(length, *coordinates)}"
            f"{f' or {batched}' if lead else ''}"
        )
    if is_traced:
        return _Tokens(False, positions.ndim), (positions,)
    return _Tokens(False, positions.ndim, array=(positions.dtype.str, positions.shape, positions.tobytes())), ()


def _static(positions: Any, axes: int) -> Array:
    """Return static positions as an array of numbers or times. Masked and missing positions become NaN or NaT."""
    if not is_masked_array(positions):
        array = as_array(positions, "positions")
        if array.dtype.kind in "iufMm":
            return array
    converted = convert(positions, axes)
    if converted.form == "integer" and converted.missing is None and converted.unit == 1:
        return converted.values.reshape(*converted.shape, *[axes] * (axes > 1))
    return converted.rounded()


# ---- calls: two calls with equal settings compare equal, so that jax does not compile the second one ----------------


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Call that computes rows of an encoding at any positions."""

    encoding: Encoding
    dtype: np.dtype[Any]
    precision: Precision

    def __call__(self, positions: Any) -> Array:
        return self.encoding.encode(np.asarray(positions), dtype=self.dtype, precision=self.precision)

    def result(self, positions: Any) -> Any:
        """Return the shape and dtype of the result."""
        shape = positions.shape if self.encoding.ndim == 1 else positions.shape[:-1]
        return jax.ShapeDtypeStruct((*shape, self.encoding.d_model), self.dtype)

    def tangent(self, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        """Return the tangent of the result.

        It is the sum over all axes: the derivative by an axis (also an encoding) times the tangent of its coordinates.
        """
        (positions,), (direction,) = primals, tangents
        if _is_zero(direction):
            return _zeros(self.result(positions))
        wide = np.dtype(jnp.promote_types(_wide(self.dtype), positions.dtype))
        # directions: tangents of the coordinates, of shape (.., axes)
        directions = (direction[..., None] if self.encoding.ndim == 1 else direction).astype(wide)
        slopes = (
            _call(_Rows(derivative_of(self.encoding, axis), wide, self.precision), positions)
            for axis in range(self.encoding.ndim)
        )
        return sum(slope * directions[..., axis, None] for axis, slope in enumerate(slopes)).astype(self.dtype)


@dataclasses.dataclass(frozen=True)
class _Table:
    """Call that computes the rows of the positions start + i * step, for an integer start."""

    encoding: Encoding
    length: int
    step: float
    dtype: np.dtype[Any]
    precision: Precision

    def __call__(self, start: Any) -> Array:
        starts = np.asarray(start)
        rows = np.empty((*starts.shape, self.length, self.encoding.d_model), self.dtype)
        for index in np.ndindex(starts.shape):
            first = int(starts[index])
            self.encoding.table(self.length, start=first, step=self.step, precision=self.precision, out=rows[index])
        return rows

    def result(self, start: Any) -> Any:
        """Return the shape and dtype of the result."""
        return jax.ShapeDtypeStruct((self.length, self.encoding.d_model), self.dtype)

    def tangent(self, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        """Return a tangent of zeros, because an integer start has no derivative."""
        return _zeros(self.result(*primals))


@dataclasses.dataclass(frozen=True)
class _Angles:
    """Call that computes a row for each token: the cosines of a Rotary (or of its inverse), then the sines."""

    rotary: Rotary
    inverse: bool
    length: int
    tokens: _Tokens
    dtype: np.dtype[Any]
    precision: Precision

    def __call__(self, *traced: Any) -> Array:
        positions = self.tokens.positions(*traced)
        if not self.tokens.is_start:
            return self._rows(positions)
        if not traced:
            return self._rows(self.length, start=positions)
        starts = np.asarray(positions)
        rows = np.empty((*starts.shape, self.length, self.rotary.rotary_dim), self.dtype)
        for index in np.ndindex(starts.shape):
            rows[index] = self._rows(self.length, start=int(starts[index]))
        return rows

    def _rows(self, positions_or_length: Any, start: Any = 0) -> Array:
        cos, sin = self.rotary.tables(positions_or_length, start=start, dtype=np.float64, precision=self.precision)
        if self.inverse:
            squares = cos * cos + sin * sin
            cos, sin = cos / squares, -sin / squares
        return np.concatenate([cos, sin], -1).astype(self.dtype)

    def result(self, *traced: Any) -> Any:
        """Return the shape and dtype of the result."""
        tokens = (self.length,)
        if traced and not self.tokens.is_start:
            tokens = traced[0].shape if self.rotary.ndim == 1 else traced[0].shape[:-1]
        return jax.ShapeDtypeStruct((*tokens, self.rotary.rotary_dim), self.dtype)

    def tangent(self, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        """Return the tangent of the result."""
        if _is_zero(tangents[0]):
            return _zeros(self.result(*primals))
        if self.rotary._settings.amplitudes_vary:
            raise ValueError(
                "derivatives with respect to positions are unsupported for rope_type='xpos', whose amplitudes depend on "
                "positions; pass positions=jax.lax.stop_gradient(positions)"
            )
        angles = self.rotary._angles_of("cos", "-sin" if self.inverse else "sin", inverse=self.inverse)
        return _Rows(angles, self.dtype, self.precision).tangent(primals, tangents)


@dataclasses.dataclass(frozen=True)
class _Sum:
    """Call that adds an encoding to x. ndim is the number of axes of x without the axes that jax.vmap adds."""

    encoding: Encoding
    x_scale: float
    precision: Precision
    ndim: int
    tokens: _Tokens

    def __call__(self, x: Any, *traced: Any) -> Array:
        return _in_batches(self, self.encoding.ndim, np.asarray(x), *traced)

    def compute(self, x: Array, **positions: Any) -> Array:
        """Return the sum of x, a NumPy array, and the encoding at these positions."""
        return self.encoding.add_to(x, x_scale=self.x_scale, precision=self.precision, **positions)

    def result(self, x: Any, *traced: Any) -> Any:
        """Return the shape and dtype of the result."""
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    def tangent(self, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        """Return the tangent of the result."""
        x, wide = primals[0], _wide(primals[0].dtype)
        total = jnp.zeros(x.shape, wide) if _is_zero(tangents[0]) else tangents[0].astype(wide) * self.x_scale
        positions_are_traced = len(primals) == 2 and not self.tokens.is_start
        if positions_are_traced:
            total = total + _Rows(self.encoding, wide, self.precision).tangent(primals[1:], tangents[1:])
        return total.astype(x.dtype)


@dataclasses.dataclass(frozen=True)
class _Rotation:
    """Call that rotates x. ndim is the number of axes of x without the axes that jax.vmap adds."""

    rotary: Rotary
    seq_axis: int
    inverse: bool
    precision: Precision
    ndim: int
    tokens: _Tokens

    def __call__(self, x: Any, *traced: Any) -> Array:
        return _in_batches(self, self.rotary.ndim, np.asarray(x), *traced)

    def compute(self, x: Array, **positions: Any) -> Array:
        """Return x, a NumPy array, rotated."""
        return self.rotary.apply(x, seq_axis=self.seq_axis, inverse=self.inverse, precision=self.precision, **positions)

    def result(self, x: Any, *traced: Any) -> Any:
        """Return the shape and dtype of the result."""
        return jax.ShapeDtypeStruct(x.shape, x.dtype)

    def tangent(self, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        """Return the tangent of the result."""
        varying = [i for i, tangent in enumerate(tangents) if not _is_zero(tangent)]
        if not varying:
            return _zeros(self.result(*primals))

        def formula(*varying_operands: Any) -> Any:
            operands = list(primals)
            for i, operand in zip(varying, varying_operands, strict=True):
                operands[i] = operand
            return self._formula(*operands)

        _, tangent = jax.jvp(formula, tuple(primals[i] for i in varying), tuple(tangents[i] for i in varying))
        return tangent

    def _formula(self, x: Any, *traced: Any) -> Any:
        """Return x rotated, computed with jax operations. Only the cosines and sines come from a callback."""
        wide, rotary_dim = _wide(x.dtype), self.rotary.rotary_dim
        angles = _Angles(self.rotary, self.inverse, x.shape[self.seq_axis], self.tokens, wide, self.precision)
        # rows is (length, rotary_dim), possibly after the first axes of x; insert 1 as the length of x's other axes
        rows = _call(angles, *traced)
        rows = rows.reshape(*rows.shape[:-2], *[1] * (x.ndim - rows.ndim), *rows.shape[-2:])
        cos, sin = jnp.split(jnp.moveaxis(rows, -2, self.seq_axis), 2, -1)
        source, target = source_and_target(self.rotary.layout, self.inverse)
        values = x[..., :rotary_dim].astype(wide)
        first, second = jnp.split(values, 2, -1) if source == "half" else (values[..., 0::2], values[..., 1::2])
        parts = first * cos - second * sin, first * sin + second * cos
        rotated = jnp.concatenate(parts, -1) if target == "half" else jnp.stack(parts, -1).reshape(values.shape)
        return jnp.concatenate([rotated.astype(x.dtype), x[..., rotary_dim:]], -1)


def _in_batches(call: _Sum | _Rotation, axes: int, x: Array, *traced: Any) -> Array:
    """Return ``call.compute(x, ..)``. x and the positions may have axes of jax.vmap in front, which broadcast."""
    positions = call.tokens.positions(*traced)
    if not isinstance(positions, np.ndarray):
        return call.compute(x, start=positions)
    batch, shape = _split_batch(x.shape, call.ndim)
    if call.tokens.is_start:
        return _from_starts(call, x, positions, batch, shape)
    return _at_positions(call, axes, x, positions, batch, shape)


def _split_batch(shape: tuple[int, ...], ndim: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the batch axes of a shape, and the last ``ndim`` axes."""
    return shape[: len(shape) - ndim], shape[len(shape) - ndim :]


def _from_starts(
    call: _Sum | _Rotation, x: Array, starts: Array, batch: tuple[int, ...], shape: tuple[int, ...]
) -> Array:
    """Return the result for x of shape (*batch, *shape), with one start, or one for each element of the batch."""
    if starts.size == 1:
        return call.compute(x, start=int(starts.reshape(())))
    batch = np.broadcast_shapes(batch, starts.shape)
    x, starts = np.broadcast_to(x, batch + shape), np.broadcast_to(starts, batch)
    result = np.empty(x.shape, x.dtype)
    for index in np.ndindex(batch):
        result[index] = call.compute(x[index], start=int(starts[index]))
    return result


def _at_positions(
    call: _Sum | _Rotation,
    axes: int,
    x: Array,
    positions: Array,
    batch: tuple[int, ...],
    shape: tuple[int, ...],
) -> Array:
    """Return the result for x of shape (*batch, *shape), with positions that may have other batch axes than x."""
    batch_of_positions, tokens = _split_batch(positions.shape, call.tokens.ndim)
    # tokens is (length,) or (length, axes), possibly after some axes of x
    shared = len(tokens) == (2 if axes > 1 else 1)
    batch = np.broadcast_shapes(batch, batch_of_positions)
    x = np.broadcast_to(x, batch + shape)
    if math.prod(batch_of_positions) == 1 and shared:
        # all sequences in x have the same positions
        return call.compute(x, positions=positions.reshape(tokens))
    positions = np.broadcast_to(positions, batch + tokens)
    if isinstance(call, _Sum) and shared:
        # Encoding.add_to does not broadcast positions (batch, length) over the axes of x between batch and length, so
        # expand them
        between = [1] * (len(shape) - 2)
        positions = np.broadcast_to(positions.reshape(*batch, *between, *tokens), (*x.shape[:-1], *tokens[1:]))
    return call.compute(x, positions=positions)


def _zeros(result: Any) -> Any:
    return jnp.zeros(result.shape, result.dtype)


def _is_zero(tangent: Any) -> bool:
    """Return whether a tangent is zero, because it belongs to a constant or to integers."""
    return isinstance(tangent, SymbolicZero) or tangent.dtype == jax.dtypes.float0


def _wide(dtype: Any) -> np.dtype[Any]:
    """Return the dtype in which derivatives are computed."""
    result: np.dtype[Any] = np.dtype(jnp.promote_types(dtype, np.float32))
    return result


def _call(call: Any, *operands: Any) -> Any:
    """Return the result of a call: directly if jax traces no operand, else by a differentiable callback."""
    if any(isinstance(operand, jax.core.Tracer) for operand in operands):
        return _traced(call, *operands)
    return jnp.asarray(call(*operands))


def _by_callback(call: Any, *operands: Any) -> Any:
    if any(isinstance(operand, jax.core.Tracer) for operand in operands):
        return jax.pure_callback(call, call.result(*operands), *operands, vmap_method="expand_dims")
    return jnp.asarray(call(*operands))


def _jvp(call: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    return _call(call, *primals), call.tangent(primals, tangents)


_traced = jax.custom_jvp(_by_callback, nondiff_argnums=(0,))
_traced.defjvp(_jvp, symbolic_zeros=True)
