"""Modules of torch: SinusoidalEncoding adds an encoding, RotaryEncoding rotates queries and keys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import torch

from .._core.encoding.builders import sinusoidal
from .._core.encoding.value import Encoding
from .._core.numbers.arguments import check_precision, count_of, real
from .._core.rotary.value import Rotary
from ..presets._registry import encoding_preset
from ..typing import Precision
from . import _operators as operators
from . import _tensors as tensors
from ._functions import table
from ._text import to_text


class _Dropout(torch.nn.Dropout):
    """Dropout that returns x itself in evaluation mode.

    torch.nn.Dropout also does so, but its call takes a third of the time that `SinusoidalEncoding` needs for one token.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) if self.training else input

    def _get_name(self) -> str:
        return "Dropout"


def _shown_options(module: Any) -> str:
    """Return inplace and precision of a module as text for its repr. Leave out values that are the default."""
    precision = "" if module.precision == "exact" else f", precision={module.precision!r}"
    return f"{', inplace=True' if module.inplace else ''}{precision}"


class SinusoidalEncoding(torch.nn.Module):
    """Drop-in for the tutorials' ``PositionalEncoding``: dropout of ``x_scale * x + encoding``, for any length.

    Parameters
    ----------
    d_model : int
        Number of columns of x and of the encoding.
    dropout : float
        Dropout probability, applied to the sum (default: 0.1, as in PyTorch's tutorial).
    max_len : int, optional
        Ignored: sequences may have any length. Accepted because the tutorials' modules have this argument.
    batch_first : bool
        Whether x has shape (batch, length, d_model) instead of (length, batch, d_model). The default is False, as in
        PyTorch's tutorial and `torch.nn.Transformer`. If the encoding has several axes, the batch is always first.
    x_scale : float or "sqrt"
        Factor of x (default: 1). "sqrt" is the square root of d_model.
    encoding : Encoding or str, optional
        An Encoding with d_model columns, or the name of a preset (default: ``sinusoidal(d_model, **options)``). The
        preset is called with d_model and the options. Use an Encoding of several axes for images and volumes, such as
        (batch, height, width, d_model).
    inplace : bool
        Whether to overwrite x (default: False). x must not require gradients then.
    precision : {"exact", "float32"}
        Exact values (default), or the values of a framework's float32 arithmetic. See `Encoding.table`.
    **options
        Options of `sinusoidal` or of the preset.

    Raises
    ------
    TypeError, ValueError, AttributeError
        If an argument is invalid, or no preset has that name.

    Notes
    -----
    On the CPU, the module rounds the sum once, needs no table, and uses at most as many threads as torch. On other
    devices, the module adds rows of float32 (float64 if x has float64). It computes the sum in this dtype. The result
    has the dtype of x. The rows are computed on the CPU, and cached unless positions are given.

    The module has no parameters and no buffers, so its ``state_dict`` is empty. The ``pe`` buffer of a checkpoint is
    compared with the table of this encoding. If they are equal up to errors of float32 or of storage in 16 bits, the
    buffer is ignored. Otherwise loading fails, also with ``strict=False``. The error message gives the difference.

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

    Add an encoding to the pixels of an image, of shape (batch, height, width, d_model):

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
                f"the options {', '.join(options)} need a preset or the default encoding, but encoding is {encoding!r}"
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
        self._encoding, self._text = encoding, to_text(encoding)

    @property
    def encoding(self) -> Encoding:
        """Encoding that the module adds."""
        return self._encoding

    def forward(
        self, x: torch.Tensor, *, start: int | Sequence[int] = 0, positions: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return dropout of ``x_scale * x + encoding``.

        Parameters
        ----------
        x : torch.Tensor of shape (length, batch, d_model) or (length, d_model)
            With batch_first, the shape is (batch, length, d_model) or (length, d_model). With an encoding of A axes, it
            is (batch, n1, .., nA, d_model) or (n1, .., nA, d_model), such as (batch, height, width, d_model). float64,
            float32, float16 or bfloat16 (which needs the package ml_dtypes).
        start : int or sequence of int
            Position of the first token (default: 0), for example the length of a key cache. With several axes, give one
            integer for all axes, or one for each axis.
        positions : torch.Tensor, optional
            Positions of the tokens (default: ``start, start + 1, ..``). The shape is (length,) or (batch, length); with
            A axes, (n1, .., nA, A) or (batch, n1, .., nA, A). Positions on a GPU are copied to the CPU.

        Returns
        -------
        torch.Tensor of the shape and dtype of x
        """
        if self.encoding.ndim > 1:
            return self.dropout(self._add_points(x, start, positions))
        tensors.check_x(x, "x", start, self.inplace)
        if x.ndim < 2 or x.shape[-1] != self.d_model or (not self.batch_first and x.ndim > 3):
            batched = "(batch, length" if self.batch_first else "(length, batch"
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but must have {batched}, {self.d_model}) or (length, {self.d_model})"
            )
        length_first = not self.batch_first and x.ndim == 3
        rows = x.transpose(0, 1) if length_first else x
        if positions is not None:
            tensors.check_positions(positions, rows, start)
            if tuple(positions.shape) not in ((rows.shape[-2],), tuple(rows.shape[:-1])):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but must have {(rows.shape[-2],)}, with a position "
                    f"for each token, or {tuple(rows.shape[:-1])}, with a position for each token of each sequence"
                )
        total = self._added(rows, start, positions, self.inplace)
        # if inplace is true, x contains the sum: rows is a view of x
        return self.dropout(x if self.inplace else total.transpose(0, 1) if length_first else total)

    def _added(self, x: torch.Tensor, start: Any, positions: torch.Tensor | None, inplace: bool) -> torch.Tensor:
        arguments = start, positions, self.x_scale, self.precision
        return operators.run_add_encoding(x, self._encoding, self._text, inplace, *arguments)

    def _add_points(self, x: torch.Tensor, start: int | Sequence[int], positions: torch.Tensor | None) -> torch.Tensor:
        """Return the sum for an encoding of several axes, before dropout."""
        axes = self.encoding.ndim
        starts: tuple[Any, ...] = tuple(start) if isinstance(start, Sequence) else (start,) * axes
        for start_of_axis in starts:
            tensors.check_x(x, "x", start_of_axis, self.inplace)
        if len(starts) != axes:
            raise ValueError(
                f"start={start!r} must be one integer, or {axes} integers, one for each axis of {self.encoding!r}"
            )
        if not axes + 1 <= x.ndim <= axes + 2 or x.shape[-1] != self.d_model:
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but must have shape (batch, *lengths, {self.d_model}) or (*lengths, "
                f"{self.d_model}), with a length for each of the {axes} axes"
            )
        lengths = x.shape[-1 - axes : -1]
        if positions is None:
            ranges = (torch.arange(first, first + n, device="cpu") for first, n in zip(starts, lengths, strict=True))
            points: Any = torch.stack(torch.meshgrid(*ranges, indexing="ij"), -1)
        else:
            tensors.check_positions(positions, x, 0 if all(first == 0 for first in starts) else starts)
            if tuple(positions.shape) not in ((*lengths, axes), (*x.shape[:-1], axes)):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but must have {(*lengths, axes)} or "
                    f"{(*x.shape[:-1], axes)}, with {axes} coordinates for each row of x"
                )
            points = positions
        # flatten the axes of the encoding: rows become (points, d_model) or (batch, points, d_model), and points become
        # (points, axes) or (batch, points, axes)
        rows = x.reshape(*x.shape[: -1 - axes], -1, self.d_model)
        points = points.reshape(*points.shape[: -1 - axes], -1, axes)
        if self.inplace and x.is_contiguous():
            # writing to rows writes to x, because rows is a view of x
            self._added(rows, 0, points, True)
            return x
        total = self._added(rows, 0, points, False).reshape(x.shape)
        return x.copy_(total) if self.inplace else total

    if TYPE_CHECKING:

        def __call__(
            self, x: torch.Tensor, *, start: int | Sequence[int] = 0, positions: torch.Tensor | None = None
        ) -> torch.Tensor: ...

    def extra_repr(self) -> str:
        """Return the options of the module, as text for its repr."""
        scale = "" if self.x_scale == 1 else f", x_scale={self.x_scale:.6g}"
        return f"{self.encoding!r}, batch_first={self.batch_first}{scale}{_shown_options(self)}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        stored = state_dict.pop(prefix + "pe", None)
        if stored is not None:
            problem = _difference_of_table(stored, self.encoding)
            if problem:
                args[-1].append(f"{prefix}pe {problem}")
        super()._load_from_state_dict(state_dict, prefix, *args)


def _difference_of_table(stored: torch.Tensor, encoding: Encoding) -> str | None:
    """Return how a stored buffer differs from the table of an encoding, as text for an error.

    Return None if they are equal.
    Differences that float32 arithmetic or storage in 16 bits explains are tolerated.
    """
    shape, width = tuple(stored.shape), encoding.d_model
    length = math.prod(shape[:-1])
    if len(shape) < 2 or shape[-1] != width or sum(n != 1 for n in shape[:-1]) > 1:
        return (
            f"has shape {shape}, but a table of {encoding!r} has (length, {width}), possibly with more axes of length 1"
        )
    if stored.is_meta or not length:
        return None
    rows = stored.detach().cpu().double().reshape(length, width)
    difference = (rows - table(encoding, length, dtype=torch.float64)).abs().max().item()
    # tolerate errors of float32 angles (some units in the last place) and of a table stored in 16 bits
    allowed = 2.0**-22 * length + tensors.relative_spacing(stored)
    if difference <= allowed:
        return None
    return (
        f"is not the table of {encoding!r}: they differ by {difference:.3g}; find the encoding with "
        "posenc_fast.identify(pe) and pass it as encoding=, or remove this entry from the state_dict"
    )


class RotaryEncoding(torch.nn.Module):
    """RoPE: rotation of queries and keys by their positions.

    Parameters
    ----------
    rotary : Rotary or int
        The rotary encoding. An integer is the head_dim of ``Rotary(head_dim, **options)``.
    seq_axis : int
        Axis of the tokens: -2 for (batch, heads, length, head_dim), the default; 1 for (batch, length, heads,
        head_dim).
    inplace : bool
        Whether to overwrite queries and keys (default: False). They must not require gradients then.
    precision : {"exact", "float32"}
        Exact angles (default), or the angles of a framework's float32 arithmetic. See `Rotary.apply`.
    **options
        Options of `Rotary`, if rotary is an integer.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.

    Notes
    -----
    On the CPU, the module rotates float64 and float32 in float64, and float16 and bfloat16 in float32. It rounds once
    and uses at most as many threads as torch. On other devices, the module rotates float64 by tables of float64, and
    other dtypes by tables of float32. It rounds once at the end. The tables are computed on the CPU, and cached unless
    positions are given. The backward pass rotates gradients by the opposite angles.

    The module has no parameters and no buffers, so its ``state_dict`` is empty. The ``inv_freq`` buffer of a checkpoint
    is ignored if it contains the frequencies of this encoding. Otherwise loading fails.

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
            raise TypeError(f"the options {', '.join(options)} need an integer head_dim, but rotary is {rotary!r}")
        if isinstance(seq_axis, bool) or not isinstance(seq_axis, int):
            raise TypeError(f"seq_axis must be an integer, not {seq_axis!r}")
        self.head_dim = rotary.head_dim
        check_precision(precision)
        self.seq_axis = seq_axis
        self.inplace = bool(inplace)
        self.precision: Precision = precision
        self._axes, self._rotary, self._text = rotary.ndim, rotary, to_text(rotary)

    @property
    def rotary(self) -> Rotary:
        """Rotary that rotates queries and keys."""
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
        """Rotate queries, and optionally keys.

        Parameters
        ----------
        q, k : torch.Tensor of shape (..., head_dim)
            Queries and keys, such as (batch, heads, length, head_dim). Their numbers of heads and lengths may differ.
            float64, float32, float16 or bfloat16 (which needs the package ml_dtypes).
        start : int
            Position of the first query (default: 0), for example the length of a key cache.
        key_start : int, optional
            Position of the first key (default: start).
        positions : torch.Tensor, optional
            Positions of the tokens (default: ``start, start + 1, ..``). The shape is (length,) or (batch, length). If
            the Rotary has A > 1 axes (see ``sections``), the shape is (length, A) or (batch, length, A). Positions on a
            GPU are copied to the CPU.

        Returns
        -------
        torch.Tensor, or a pair of tensors
            Rotated queries, or if k is given, rotated queries and keys. They have the shapes and dtypes of q and k.
        """
        if positions is None and key_start in (None, start) and self.precision == "exact":
            # shortcut for few tokens, which takes half the time of the code below
            parts = (q,) if k is None else (q, k)
            rotated_parts = operators.rotate_few(parts, self._rotary, start, self.seq_axis, self.inplace)
            if rotated_parts is not None:
                return rotated_parts[0] if k is None else rotated_parts
        if key_start is None:
            key_start = start
        elif positions is not None:
            raise ValueError(f"pass positions or key_start={key_start!r}, not both")
        # check q and k before anything is written
        self._check(q, "q", start, positions)
        if k is not None:
            self._check(k, "k", key_start, positions, "key_start")
        rotated = self._rotated(q, start, positions)
        return rotated if k is None else (rotated, self._rotated(k, key_start, positions))

    def _rotated(self, x: torch.Tensor, start: int, positions: torch.Tensor | None) -> torch.Tensor:
        arguments = start, positions, self.seq_axis, self.precision
        return operators.run_rotate(x, self._rotary, self._text, self.inplace, *arguments)

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
        """Rotate the queries of the last tokens, and all keys of the sequence, for a cache of unrotated keys.

        Parameters
        ----------
        q : torch.Tensor of shape (..., head_dim)
            Queries of the last tokens, at most as many as keys.
        k : torch.Tensor of shape (..., head_dim)
            Unrotated keys of all tokens from key_start on. The last tokens of k are the tokens of q.
        key_start : int
            Position of the first key (default: 0).

        Returns
        -------
        q, k : torch.Tensor
            Rotated queries and keys, with the shapes and dtypes of q and k.

        Raises
        ------
        TypeError, ValueError
            If an argument is invalid.

        Examples
        --------
        >>> import torch
        >>> from posenc_fast.torch import RotaryEncoding
        >>> module, q, keys = RotaryEncoding(64), torch.ones(1, 8, 1, 64), torch.ones(1, 8, 10, 64)
        >>> rotated, _ = module.rotate_queries_with_cached_keys(q, keys)
        >>> torch.equal(rotated, module(q, start=9))
        True
        """
        self._check(q, "q", 0, None)
        self._check(k, "k", key_start, None, "key_start")
        before = k.shape[self.seq_axis] - q.shape[self.seq_axis]
        if before < 0:
            raise ValueError(
                f"q has {q.shape[self.seq_axis]} tokens and k has {k.shape[self.seq_axis]}, but q must not have more "
                "tokens than k"
            )
        return self(q, k, start=key_start + before, key_start=key_start)

    def _check(
        self, x: torch.Tensor, name: str, start: int, positions: torch.Tensor | None, start_name: str = "start"
    ) -> None:
        tensors.check_x(x, name, start, self.inplace, start_name)
        if x.ndim < 2 or x.shape[-1] != self.head_dim:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, but must have at least two axes, the last of length "
                f"{self.head_dim} (the head_dim)"
            )
        if not -x.ndim <= self.seq_axis < x.ndim - 1 or self.seq_axis == -1:
            raise ValueError(
                f"seq_axis={self.seq_axis} must be an axis of {name} other than the last; {name} has shape "
                f"{tuple(x.shape)}"
            )
        if positions is not None:
            tensors.check_positions(positions, x, start)
            axes = () if self._axes == 1 else (self._axes,)
            # others: lengths of all axes of x except head_dim and the tokens, such as batch and heads
            others = list(x.shape[:-1])
            length = others.pop(self.seq_axis if self.seq_axis >= 0 else self.seq_axis + 1)
            shared, batched = (length, *axes), (*others[:1], length, *axes)
            if tuple(positions.shape) not in (shared, batched):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but must have {shared} or {batched}, because "
                    f"{name} has shape {tuple(x.shape)}"
                )

    def extra_repr(self) -> str:
        """Return the options of the module, as text for its repr."""
        return f"{self.rotary!r}, seq_axis={self.seq_axis}{_shown_options(self)}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        stored = state_dict.pop(prefix + "inv_freq", None)
        if stored is not None and not stored.is_meta:
            exact = torch.tensor(self.rotary.frequencies, device="cpu")
            # tolerate errors of float32 powers and of frequencies stored in 16 bits
            relative = 1e-5 + tensors.relative_spacing(stored)
            if stored.shape != exact.shape or not torch.allclose(stored.cpu().double(), exact, rtol=relative, atol=0):
                args[-1].append(
                    f"{prefix}inv_freq does not have the frequencies of {self.rotary!r}; create the module with the base "
                    "and scaling of the checkpoint, or remove this entry from the state_dict"
                )
        super()._load_from_state_dict(state_dict, prefix, *args)
