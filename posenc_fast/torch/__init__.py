"""Encodings in torch: modules for models, on any device; and functions on CPU tensors that copy nothing.

The modules know autograd, ``torch.compile``, ``torch.export`` and ``torch.func.vmap``, but neither ``torch.func.grad`` nor
derivatives in forward mode, which torch has not for operators that are written in Python; the functions know no
transform. An exported program that was loaded needs
this module imported before it runs.
"""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .._encoding.builders import sinusoidal
from .._encoding.grid import grid as grid_of
from .._encoding.value import Encoding
from .._numbers.arguments import check_precision, count_of, real
from .._rotary.value import LAYOUTS, Rotary
from ..presets._registry import encoding_preset
from ..typing import Indexing, Precision, RotaryLayout, TableLayout

try:
    import torch
    from torch.autograd import forward_ad
except ImportError as error:
    raise ImportError("posenc_fast.torch needs the package torch: pip install torch") from error

from . import _operators as ops
from . import _short as short

__all__ = [
    "RotaryEncoding",
    "SinusoidalEncoding",
    "add_to",
    "apply_rotary_pos_emb",
    "encode",
    "grid",
    "rotate",
    "table",
]


def __dir__() -> list[str]:
    return sorted(__all__)


# ---- functions on CPU tensors ---------------------------------------------------------------------------------------


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
    kind = None if dtype is None else ops.numpy_type(dtype, "dtype")
    rows = encoding.table(length, start=start, step=step, dtype=kind, precision=precision, out=given, workers=workers)
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
    kind = None if dtype is None else ops.numpy_type(dtype, "dtype")
    where = _positions(positions)
    rows = encoding.encode(where, dtype=kind, precision=precision, out=given, workers=workers)
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
    values = _read(x, "SinusoidalEncoding")
    where = None if positions is None else _positions(positions)
    given = _written(out)
    if out is x:
        given = values
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
    kind, given = ops.numpy_type(dtype, "dtype"), _written(out)
    where = [_positions(axis) if isinstance(axis, torch.Tensor) else axis for axis in axes]
    return _result(grid_of(where, encoding, indexing=indexing, dtype=kind, out=given, workers=workers), out)


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
    values = _read(x, "RotaryEncoding")
    where = None if positions is None else _positions(positions)
    given = _written(out)
    if out is x:
        given = values
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


def _wants_gradients(tensor: torch.Tensor) -> bool:
    return bool(tensor.requires_grad and torch.is_grad_enabled())


def _read(x: Any, module: str) -> np.ndarray[Any, Any]:
    values = ops.array_of(x, "x")
    if _wants_gradients(x):
        raise ValueError(f"x requires gradients, which would end here; use {module}, x.detach() or torch.no_grad()")
    return values


def _positions(positions: Any) -> np.ndarray[Any, Any]:
    array = ops.array_of(positions, "positions")
    _no_gradients(positions, "positions")
    return array


def _no_gradients(tensor: torch.Tensor, name: str) -> None:
    if _wants_gradients(tensor):
        raise ValueError(f"{name} requires gradients, which do not go through it; give {name}.detach()")


def _written(out: Any) -> np.ndarray[Any, Any] | None:
    return None if out is None else ops.array_of(out, "out", written=True)


def _result(array: np.ndarray[Any, Any], out: torch.Tensor | None) -> torch.Tensor:
    if out is None:
        return ops.tensor_of(array)
    # so that autograd sees that what it had kept of this tensor is gone
    torch.autograd.graph.increment_version(out)
    return out


# ---- modules --------------------------------------------------------------------------------------------------------


class _Dropout(torch.nn.Dropout):
    """The same without a call of an operator that would return what it was given: a third of a token's time."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) if self.training else input

    def _get_name(self) -> str:
        return "Dropout"


class SinusoidalEncoding(torch.nn.Module):
    """Dropout of ``x_scale * x + encoding``: a drop-in for the tutorials' ``PositionalEncoding``, for any length.

    Parameters
    ----------
    d_model : int
        Width.
    dropout : float
        Probability of dropout of the sum, 0.1 as in PyTorch's tutorial.
    max_len : int, optional
        Accepted where a tutorial's module has it, and ignored: there is no longest sequence.
    batch_first : bool
        Whether x has shape (batch, length, d_model), or (length, batch, d_model), as in PyTorch's tutorial and by
        default in `torch.nn.Transformer`. With several axes the batch is always first.
    x_scale : float or "sqrt"
        Factor of x; "sqrt" is the square root of d_model.
    encoding : Encoding or str, optional
        What to add in place of ``sinusoidal(d_model, **options)``: an Encoding of this width, or the name of a preset,
        which is given d_model and the options. One of several axes is for images and volumes, of shape
        (batch, height, width, d_model) and the like.
    inplace : bool
        Whether x itself is overwritten; not for x that requires gradients. The default never changes x.
    precision : {"exact", "float32"}
        As in `Encoding.table`: the exact values, or those of a framework's float32 arithmetic.
    **options
        Of `sinusoidal` or of the preset.

    Raises
    ------
    TypeError, ValueError, AttributeError
        When an argument does not fit, or there is no such preset.

    Notes
    -----
    On the CPU the sum is made and rounded once, without a table, with as many threads as torch has. Other devices keep
    tables of float32 (for float64 of that), and round the sum once. The result has the type of x.

    The module has no parameters, no buffers and nothing in its ``state_dict``. A checkpoint's ``pe`` buffer is taken for
    what it is, a table: it is accepted if it is the one of this encoding, as well as float32 arithmetic makes it, and
    else is an error that says how far the two are apart, with ``strict=False`` as well.

    References
    ----------
    Vaswani et al., 2017, arXiv:1706.03762, section 3.5. Tutorial modules: harvardnlp/annotated-transformer,
    pytorch/examples word_language_model.

    Examples
    --------
    >>> import torch
    >>> from posenc_fast.torch import SinusoidalEncoding
    >>> module = SinusoidalEncoding(4, batch_first=True, x_scale="sqrt").eval()
    >>> module(torch.zeros(1, 2, 4))[0, 0]
    tensor([0., 1., 0., 1.])

    An image's pixels, of shape (batch, height, width, d_model):

    >>> import posenc_fast as pf
    >>> pixels = SinusoidalEncoding(8, dropout=0, encoding=pf.join([pf.sinusoidal(4), pf.sinusoidal(4)]))
    >>> pixels(torch.zeros(1, 2, 3, 8)).shape
    torch.Size([1, 2, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        dropout: float = 0.1,
        max_len: int | None = None,
        *,
        batch_first: bool = False,
        x_scale: float | str = 1.0,
        encoding: Encoding | str | None = None,
        inplace: bool = False,
        precision: Precision = "exact",
        **options: Any,
    ) -> None:
        super().__init__()
        d_model = count_of(d_model, "d_model", 1)
        if encoding is None:
            encoding = sinusoidal(d_model, **options)
        elif isinstance(encoding, str):
            encoding = encoding_preset(encoding)(d_model, **options)
        elif not isinstance(encoding, Encoding):
            raise TypeError(f"encoding must be an Encoding or the name of a preset, not {encoding!r}")
        elif options:
            raise TypeError(
                f"{', '.join(options)}: options are for a preset or the usual encoding, not for {encoding!r}"
            )
        if encoding.d_model != d_model:
            raise ValueError(f"encoding has {encoding.d_model} columns, but must have d_model={d_model}")
        if isinstance(x_scale, str) and x_scale != "sqrt":
            raise ValueError(f"x_scale must be a number or 'sqrt', not {x_scale!r}")
        self.d_model = d_model
        self.batch_first = bool(batch_first)
        self.x_scale = math.sqrt(d_model) if isinstance(x_scale, str) else real(x_scale, "x_scale")
        self.inplace = bool(inplace)
        check_precision(precision)
        self.precision: Precision = precision
        self.dropout = _Dropout(dropout, inplace=self.inplace)
        self._encoding, self._text = encoding, ops.write(encoding)

    @property
    def encoding(self) -> Encoding:
        """What is added."""
        return self._encoding

    def forward(
        self, x: torch.Tensor, *, start: int | Sequence[int] = 0, positions: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Add the encoding to x.

        Parameters
        ----------
        x : torch.Tensor of shape (batch, length, d_model), or (length, batch, d_model), or (length, d_model)
            With an encoding of A axes: of shape (batch, n1, .., nA, d_model) or (n1, .., nA, d_model), as
            (batch, height, width, d_model). float64, float32, float16 or bfloat16 (which needs the package ml_dtypes).
        start : int, or a sequence of one for each axis
            Position of the first token, as when generating with a cache; of the first point along each axis.
        positions : torch.Tensor, optional
            Positions in place of ``start, start + 1, ..``: of shape (length,) or (batch, length); with A axes, of shape
            (n1, .., nA, A) or (batch, n1, .., nA, A). A device other than the CPU has to wait for them.

        Returns
        -------
        torch.Tensor of the shape and type of x
        """
        if self.encoding.ndim > 1:
            return self.dropout(self._add_points(x, start, positions))
        _check_x(x, "x", start, self.inplace)
        if x.ndim < 2 or x.shape[-1] != self.d_model or (not self.batch_first and x.ndim > 3):
            batched = "(batch, length" if self.batch_first else "(length, batch"
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but must have {batched}, {self.d_model}) or (length, {self.d_model})"
            )
        swapped = not self.batch_first and x.ndim == 3
        y = x.transpose(0, 1) if swapped else x
        if positions is not None:
            _check_positions(positions, y, start)
            if tuple(positions.shape) not in ((y.shape[-2],), tuple(y.shape[:-1])):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but must have {(y.shape[-2],)} or "
                    f"{tuple(y.shape[:-1])}: (length,) or (batch, length)"
                )
        first: Any = start
        y = ops.add(y, self._text, first, positions, self.x_scale, self.inplace, self.precision)
        return self.dropout(x if self.inplace else y.transpose(0, 1) if swapped else y)

    def _add_points(self, x: torch.Tensor, start: int | Sequence[int], positions: torch.Tensor | None) -> torch.Tensor:
        """The sum for an encoding of several axes, before dropout."""
        axes = self.encoding.ndim
        firsts: tuple[Any, ...] = tuple(start) if isinstance(start, Sequence) else (start,) * axes
        for first in firsts:
            _check_x(x, "x", first, self.inplace)
        if len(firsts) != axes:
            raise ValueError(f"start={start!r} must be one integer, or {axes}: one for each axis of {self.encoding!r}")
        if not axes + 1 <= x.ndim <= axes + 2 or x.shape[-1] != self.d_model:
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but must have (batch, {axes} axes, {self.d_model}) or ({axes} axes, "
                f"{self.d_model}), as the encoding has {axes} axes"
            )
        lengths = x.shape[-1 - axes : -1]
        if positions is None:
            counted = (torch.arange(first, first + n) for first, n in zip(firsts, lengths, strict=True))
            where: Any = torch.stack(torch.meshgrid(*counted, indexing="ij"), -1)
        else:
            _check_positions(positions, x, 0 if all(first == 0 for first in firsts) else firsts)
            if tuple(positions.shape) not in ((*lengths, axes), (*x.shape[:-1], axes)):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but must have {(*lengths, axes)} or "
                    f"{(*x.shape[:-1], axes)}: an axis more than x, of {axes} coordinates"
                )
            where = positions
        rows = (*x.shape[: -1 - axes], -1, self.d_model)
        given = where.reshape(*where.shape[: -1 - axes], -1, axes)
        at_once = self.inplace and x.is_contiguous()
        y = ops.add(x.reshape(rows), self._text, 0, given, self.x_scale, at_once, self.precision)
        if at_once:
            return x
        return x.copy_(y.reshape(x.shape)) if self.inplace else y.reshape(x.shape)

    if TYPE_CHECKING:

        def __call__(
            self, x: torch.Tensor, *, start: int | Sequence[int] = 0, positions: torch.Tensor | None = None
        ) -> torch.Tensor: ...

    def extra_repr(self) -> str:
        """What was given, for the repr of a model."""
        scale = "" if self.x_scale == 1 else f", x_scale={self.x_scale:.6g}"
        return f"{self.encoding!r}, batch_first={self.batch_first}{scale}{_options_of(self)}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        stored = state_dict.pop(prefix + "pe", None)
        if stored is not None:
            problem = _difference_of_table(stored, self.encoding)
            if problem:
                args[-1].append(f"{prefix}pe {problem}")
        super()._load_from_state_dict(state_dict, prefix, *args)


class RotaryEncoding(torch.nn.Module):
    """Rotation of queries and keys by their positions.

    Parameters
    ----------
    rotary : Rotary or int
        How to turn; an integer is the head_dim of ``Rotary(head_dim, **options)``.
    seq_axis : int
        Which axis is that of the tokens: -2 for (batch, heads, length, head_dim), 1 for (batch, length, heads,
        head_dim).
    inplace : bool
        Whether queries and keys are overwritten; not for those that require gradients.
    precision : {"exact", "float32"}
        As in `Rotary.apply`: exact angles, or those of a framework's float32 arithmetic.
    **options
        Of `Rotary`, where rotary is an integer.

    Raises
    ------
    TypeError, ValueError
        When an argument does not fit.

    Notes
    -----
    On the CPU values are turned in doubles, float16 and bfloat16 in float32, and rounded once, with as many threads as
    torch has. Other devices keep tables of float32 (for float64 of that), and round once in the end. The gradient is
    turned back.

    The module has no parameters, no buffers and nothing in its ``state_dict``. A checkpoint's ``inv_freq`` buffer is
    accepted if it has the frequencies of this encoding, and else is an error.

    References
    ----------
    Su et al., 2021, RoFormer, arXiv:2104.09864.

    Examples
    --------
    >>> import torch, posenc_fast as pf
    >>> from posenc_fast.torch import RotaryEncoding
    >>> module = RotaryEncoding(64)
    >>> q, k = module(torch.ones(1, 8, 10, 64), torch.ones(1, 2, 10, 64))
    >>> q.shape, k.shape
    (torch.Size([1, 8, 10, 64]), torch.Size([1, 2, 10, 64]))
    >>> RotaryEncoding(64, base=500000.0).rotary == pf.Rotary(64, base=500000.0)
    True
    """

    def __init__(
        self,
        rotary: Rotary | int,
        *,
        seq_axis: int = -2,
        inplace: bool = False,
        precision: Precision = "exact",
        **options: Any,
    ) -> None:
        super().__init__()
        if isinstance(rotary, bool) or not isinstance(rotary, Rotary | int):
            raise TypeError(f"rotary must be a posenc_fast.Rotary or a head_dim, not {rotary!r}")
        if isinstance(rotary, int):
            rotary = Rotary(rotary, **options)
        elif options:
            raise TypeError(f"{', '.join(options)}: options are for a head_dim, not for {rotary!r}")
        if isinstance(seq_axis, bool) or not isinstance(seq_axis, int):
            raise TypeError(f"seq_axis must be an integer, not {seq_axis!r}")
        self.head_dim = rotary.head_dim
        check_precision(precision)
        self.seq_axis = seq_axis
        self.inplace = bool(inplace)
        self.precision: Precision = precision
        self._axes, self._rotary, self._text = rotary.ndim, rotary, ops.write(rotary)

    @property
    def rotary(self) -> Rotary:
        """How queries and keys are turned."""
        return self._rotary

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None = None,
        *,
        start: int = 0,
        key_start: int | None = None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """Turn queries, and keys if they are given.

        Parameters
        ----------
        q, k : torch.Tensor of shape (..., head_dim)
            Such as (batch, heads, length, head_dim), each with any number of heads and a length of its own; float64,
            float32, float16 or bfloat16 (which needs the package ml_dtypes).
        start : int
            Position of the first token, as when generating with a cache.
        key_start : int, optional
            Position of the first key, where it is not that of the first query.
        positions : torch.Tensor, optional
            Positions in place of ``start, start + 1, ..``: of shape (length,) or (batch, length); for a rotary encoding
            with sections one more axis of (axes,). A device other than the CPU has to wait for them.

        Returns
        -------
        torch.Tensor, or a pair of them
            Of the shapes and types of q and k.
        """
        if positions is None and key_start in (None, start) and self.precision == "exact":
            few = short.by_positions(self._rotary, (q,) if k is None else (q, k), start, self.seq_axis, self.inplace)
            if few is not None:
                return few[0] if k is None else few
        if key_start is None:
            key_start = start
        elif positions is not None:
            raise ValueError(f"positions excludes key_start={key_start!r}; leave one side out")
        # nothing may be written before both have been checked
        self._check(q, "q", start, positions)
        if k is not None:
            self._check(k, "k", key_start, positions, "key_start")
        rest = positions, self.seq_axis, self.inplace, self.precision
        turned = ops.turn(q, self._text, start, *rest)
        return turned if k is None else (turned, ops.turn(k, self._text, key_start, *rest))

    if TYPE_CHECKING:

        @overload
        def __call__(
            self, q: torch.Tensor, k: None = None, *, start: int = 0, positions: torch.Tensor | None = None
        ) -> torch.Tensor: ...
        @overload
        def __call__(
            self,
            q: torch.Tensor,
            k: torch.Tensor,
            *,
            start: int = 0,
            key_start: int | None = None,
            positions: torch.Tensor | None = None,
        ) -> tuple[torch.Tensor, torch.Tensor]: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def rotate_queries_with_cached_keys(
        self, q: torch.Tensor, k: torch.Tensor, *, key_start: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Turn the last queries of a sequence, and all its keys, which a cache has kept as they were.

        Parameters
        ----------
        q : torch.Tensor of shape (..., head_dim)
            The last tokens, no more than there are keys.
        k : torch.Tensor of shape (..., head_dim)
            The keys from key_start on, not yet turned, with those of q's tokens last.
        key_start : int
            Position of the first key.

        Returns
        -------
        q, k : torch.Tensor
            Of the shapes and types of q and k.

        Raises
        ------
        TypeError, ValueError
            When an argument does not fit.

        Examples
        --------
        >>> import torch
        >>> from posenc_fast.torch import RotaryEncoding
        >>> module, q, keys = RotaryEncoding(64), torch.ones(1, 8, 1, 64), torch.ones(1, 8, 10, 64)
        >>> turned, _ = module.rotate_queries_with_cached_keys(q, keys)
        >>> torch.equal(turned, module(q, start=9))
        True
        """
        self._check(q, "q", 0, None)
        self._check(k, "k", key_start, None, "key_start")
        before = k.shape[self.seq_axis] - q.shape[self.seq_axis]
        if before < 0:
            raise ValueError(
                f"q has {q.shape[self.seq_axis]} tokens and k {k.shape[self.seq_axis]}, but q's must be the last of k's"
            )
        return self(q, k, start=key_start + before, key_start=key_start)

    def _check(
        self, x: torch.Tensor, name: str, start: int, positions: torch.Tensor | None, first: str = "start"
    ) -> None:
        _check_x(x, name, start, self.inplace, first)
        if x.ndim < 2 or x.shape[-1] != self.head_dim:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, but must have (.., {self.head_dim}), the head_dim last"
            )
        if not -x.ndim <= self.seq_axis < x.ndim - 1 or self.seq_axis == -1:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, whose axis seq_axis={self.seq_axis} cannot be the tokens"
            )
        if positions is not None:
            _check_positions(positions, x, start)
            axes = () if self._axes == 1 else (self._axes,)
            lead = list(x.shape[:-1])
            length = lead.pop(self.seq_axis if self.seq_axis >= 0 else self.seq_axis + 1)
            if tuple(positions.shape) not in ((length, *axes), (*lead[:1], length, *axes)):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but for {name} of shape {tuple(x.shape)} must have "
                    f"{(length, *axes)} or {(*lead[:1], length, *axes)}"
                )

    def extra_repr(self) -> str:
        """What was given, for the repr of a model."""
        return f"{self.rotary!r}, seq_axis={self.seq_axis}{_options_of(self)}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        stored = state_dict.pop(prefix + "inv_freq", None)
        if stored is not None and not stored.is_meta:
            ours = torch.tensor(self.rotary.frequencies)
            # float32 powers; and perhaps stored in 16 bits
            relative = 1e-5 + _unit(stored)
            if stored.shape != ours.shape or not torch.allclose(stored.cpu().double(), ours, rtol=relative, atol=0):
                args[-1].append(f"{prefix}inv_freq does not have the frequencies of {self.rotary!r}")
        super()._load_from_state_dict(state_dict, prefix, *args)


def _options_of(module: SinusoidalEncoding | RotaryEncoding) -> str:
    precision = "" if module.precision == "exact" else f", precision={module.precision!r}"
    return f"{', inplace=True' if module.inplace else ''}{precision}"


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
    if tables == "half":
        few = short.by_tables((q, k), cos, sin, unsqueeze_dim, layout)
        if few is not None:
            return few[0], few[1]
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(map(repr, LAYOUTS))}, not {layout!r}")
    if tables not in ops.TABLES:
        raise ValueError(f"tables must be one of {', '.join(map(repr, ops.TABLES))}, not {tables!r}")
    each = 1 if tables == "pairs" else 2
    for name, part in (("q", q), ("k", k)):
        _check_x(part, name)
        if part.ndim != 4:
            raise ValueError(f"{name} has shape {tuple(part.shape)}, but must have (batch, heads, length, head_dim)")
    for name, part in (("cos", cos), ("sin", sin)):
        _check_x(part, name)
        _no_gradients(part, name)
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
    cos, sin = ops.pairs_of(cos, tables, "cos"), ops.pairs_of(sin, tables, "sin")
    q, k = ops.turn_all_by((q, k), cos, sin, seq_axis, layout)
    return q, k


# ---- checks ---------------------------------------------------------------------------------------------------------


def _check_x(x: Any, name: str, start: Any = 0, inplace: bool = False, first: str = "start") -> None:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(x).__name__}")
    ops.is_float(x, name)
    if not isinstance(start, (int, torch.SymInt)) or isinstance(start, bool):
        raise TypeError(f"{first} must be an integer, not {start!r}; give positions of any kind as such")
    if inplace and _wants_gradients(x):
        raise ValueError(
            f"{name} requires gradients and cannot be overwritten; use inplace=False, or torch.no_grad() where no "
            "gradients are wanted"
        )
    if not torch.compiler.is_compiling():
        if forward_ad.unpack_dual(x).tangent is not None:
            raise NotImplementedError(
                f"{name} has a tangent, but there are no derivatives in forward mode; use backward mode"
            )
        if ops.is_differentiated(x):
            raise NotImplementedError(
                f"{name} is inside torch.func.grad or a relative of it, which no operator written in Python knows; use "
                "torch.autograd.grad or backward()"
            )
    if inplace and ops.overlaps_itself(x):
        raise ValueError(f"{name} is expanded, several of its values are one and cannot be overwritten; give a copy")
    if inplace and not torch.compiler.is_compiling() and x.is_neg():
        raise ValueError(
            f"{name} is the negative of what its memory holds, as the imaginary part of a conjugate is, and cannot be "
            "overwritten; give a copy"
        )


def _check_positions(positions: Any, x: torch.Tensor, start: Any) -> None:
    if not isinstance(positions, torch.Tensor):
        raise TypeError(f"positions must be a torch.Tensor, not {type(positions).__name__}")
    if positions.is_complex() or positions.dtype == torch.bool:
        raise TypeError(f"positions must be integers or real numbers, not {positions.dtype}")
    if positions.device.type != x.device.type and positions.device.type != "cpu":
        raise ValueError(f"positions is on {positions.device}, but must be on {x.device} or on the CPU")
    if start != 0:
        raise ValueError(f"positions excludes start={start!r}; leave one side out")
    _no_gradients(positions, "positions")


def _difference_of_table(stored: torch.Tensor, encoding: Encoding) -> str | None:
    """In what a tutorial's buffer differs from the table of an encoding."""
    shape, width = tuple(stored.shape), encoding.d_model
    length = math.prod(shape[:-1])
    if len(shape) < 2 or shape[-1] != width or sum(n != 1 for n in shape[:-1]) > 1:
        return f"has shape {shape}, which is no table of {encoding!r}: of (length, {width}), perhaps with axes of 1"
    if stored.is_meta or not length:
        return None
    rows = stored.detach().cpu().double().reshape(length, width)
    off = (rows - table(encoding, length, dtype=torch.float64)).abs().max().item()
    # float32 angles are wrong by some units in their last place; and the table may be stored in 16 bits
    allowed = 2.0**-22 * length + _unit(stored)
    if off <= allowed:
        return None
    return (
        f"is not the table of {encoding!r}, as they differ by {off:.3g}; posenc_fast.identify(pe) may tell whose it is, for "
        "encoding=, and without this entry in the state_dict it is not asked for"
    )


def _unit(stored: torch.Tensor) -> float:
    """Distance from 1 to the next number of a tensor's type."""
    return float(torch.finfo(stored.dtype).eps) if stored.is_floating_point() else 0.0
