"""Modules: one that adds an encoding, and one that rotates queries and keys."""

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
    """Dropout that returns x as it is in evaluation: torch's calls an operator for that, a third of a token's time."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) if self.training else input

    def _get_name(self) -> str:
        return "Dropout"


def _shown_options(module: Any) -> str:
    """Return the options that both modules have, where they are not the defaults."""
    precision = "" if module.precision == "exact" else f", precision={module.precision!r}"
    return f"{', inplace=True' if module.inplace else ''}{precision}"


class SinusoidalEncoding(torch.nn.Module):
    """Dropout of ``x_scale * x + encoding``: a drop-in for the tutorials' ``PositionalEncoding``, for any length.

    Parameters
    ----------
    d_model : int
        Width.
    dropout : float
        Probability of dropout of the sum, 0.1 as in PyTorch's tutorial.
    max_len : int, optional
        Accepted where a tutorial's module has it, and ignored, as a sequence may have any length.
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
        When an argument does not fit, or no preset has that name.

    Notes
    -----
    On the CPU the sum is made and rounded once, without a table, with as many threads as torch has. Other devices keep
    tables of float32 (for float64 of that), and round the sum once. The result has the type of x.

    The module has no parameters, no buffers and nothing in its ``state_dict``. A checkpoint's ``pe`` buffer is
    compared with the table of this encoding: if they are equal up to the errors of float32 arithmetic, it is accepted
    and left out; otherwise loading fails and says how far they are apart, with ``strict=False`` as well.

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
        self._encoding, self._text = encoding, to_text(encoding)

    @property
    def encoding(self) -> Encoding:
        """The encoding that is added."""
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
        tensors.check_x(x, "x", start, self.inplace)
        if x.ndim < 2 or x.shape[-1] != self.d_model or (not self.batch_first and x.ndim > 3):
            batched = "(batch, length" if self.batch_first else "(length, batch"
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but must have {batched}, {self.d_model}) or (length, {self.d_model})"
            )
        swapped = not self.batch_first and x.ndim == 3
        y = x.transpose(0, 1) if swapped else x
        if positions is not None:
            tensors.check_positions(positions, y, start)
            if tuple(positions.shape) not in ((y.shape[-2],), tuple(y.shape[:-1])):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but must have {(y.shape[-2],)} or "
                    f"{tuple(y.shape[:-1])}: (length,) or (batch, length)"
                )
        y = self._added(y, start, positions, self.inplace)
        return self.dropout(x if self.inplace else y.transpose(0, 1) if swapped else y)

    def _added(self, x: torch.Tensor, start: Any, positions: torch.Tensor | None, inplace: bool) -> torch.Tensor:
        arguments = start, positions, self.x_scale, self.precision
        return operators.run_add_encoding(x, self._encoding, self._text, inplace, *arguments)

    def _add_points(self, x: torch.Tensor, start: int | Sequence[int], positions: torch.Tensor | None) -> torch.Tensor:
        """Return the sum for an encoding of several axes, before dropout."""
        axes = self.encoding.ndim
        firsts: tuple[Any, ...] = tuple(start) if isinstance(start, Sequence) else (start,) * axes
        for first in firsts:
            tensors.check_x(x, "x", first, self.inplace)
        if len(firsts) != axes:
            raise ValueError(f"start={start!r} must be one integer, or {axes}: one for each axis of {self.encoding!r}")
        if not axes + 1 <= x.ndim <= axes + 2 or x.shape[-1] != self.d_model:
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but must have (batch, {axes} axes, {self.d_model}) or ({axes} axes, "
                f"{self.d_model}), as the encoding has {axes} axes"
            )
        lengths = x.shape[-1 - axes : -1]
        if positions is None:
            ranges = (torch.arange(first, first + n, device="cpu") for first, n in zip(firsts, lengths, strict=True))
            points: Any = torch.stack(torch.meshgrid(*ranges, indexing="ij"), -1)
        else:
            tensors.check_positions(positions, x, 0 if all(first == 0 for first in firsts) else firsts)
            if tuple(positions.shape) not in ((*lengths, axes), (*x.shape[:-1], axes)):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but must have {(*lengths, axes)} or "
                    f"{(*x.shape[:-1], axes)}: an axis more than x, of {axes} coordinates"
                )
            points = positions
        rows = x.reshape(*x.shape[: -1 - axes], -1, self.d_model)
        points = points.reshape(*points.shape[: -1 - axes], -1, axes)
        at_once = self.inplace and x.is_contiguous()
        y = self._added(rows, 0, points, at_once)
        if at_once:
            return x
        return x.copy_(y.reshape(x.shape)) if self.inplace else y.reshape(x.shape)

    if TYPE_CHECKING:

        def __call__(
            self, x: torch.Tensor, *, start: int | Sequence[int] = 0, positions: torch.Tensor | None = None
        ) -> torch.Tensor: ...

    def extra_repr(self) -> str:
        """Return the arguments, for the repr of a model."""
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
    """Return how a tutorial's buffer differs from the table of an encoding; None if it does not."""
    shape, width = tuple(stored.shape), encoding.d_model
    length = math.prod(shape[:-1])
    if len(shape) < 2 or shape[-1] != width or sum(n != 1 for n in shape[:-1]) > 1:
        return f"has shape {shape}, which is not that of a table of {encoding!r}: of (length, {width}), perhaps with axes of 1"
    if stored.is_meta or not length:
        return None
    rows = stored.detach().cpu().double().reshape(length, width)
    off = (rows - table(encoding, length, dtype=torch.float64)).abs().max().item()
    # float32 angles are wrong by some units in their last place; and the table may be stored in 16 bits
    allowed = 2.0**-22 * length + tensors.relative_spacing(stored)
    if off <= allowed:
        return None
    return (
        f"is not the table of {encoding!r}: they differ by {off:.3g}; posenc_fast.identify(pe) may name the encoding to "
        "give as encoding=, or remove this entry from the state_dict"
    )


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
    accepted and left out if it has the frequencies of this encoding; otherwise loading fails.

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
        self._axes, self._rotary, self._text = rotary.ndim, rotary, to_text(rotary)

    @property
    def rotary(self) -> Rotary:
        """The Rotary that rotates queries and keys."""
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
        """Rotate queries, and keys if they are given.

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
            # few tokens, in half the time
            parts = (q,) if k is None else (q, k)
            few = operators.rotate_few(parts, self._rotary, start, self.seq_axis, self.inplace)
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
        """Rotate the last queries of a sequence, and all of its keys, which a cache holds as they were before.

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
        self, x: torch.Tensor, name: str, start: int, positions: torch.Tensor | None, start_name: str = "start"
    ) -> None:
        tensors.check_x(x, name, start, self.inplace, start_name)
        if x.ndim < 2 or x.shape[-1] != self.head_dim:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, but must have (.., length, {self.head_dim}), the head_dim last"
            )
        if not -x.ndim <= self.seq_axis < x.ndim - 1 or self.seq_axis == -1:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, whose axis seq_axis={self.seq_axis} cannot be the tokens"
            )
        if positions is not None:
            tensors.check_positions(positions, x, start)
            axes = () if self._axes == 1 else (self._axes,)
            lead = list(x.shape[:-1])
            length = lead.pop(self.seq_axis if self.seq_axis >= 0 else self.seq_axis + 1)
            if tuple(positions.shape) not in ((length, *axes), (*lead[:1], length, *axes)):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but for {name} of shape {tuple(x.shape)} must have "
                    f"{(length, *axes)} or {(*lead[:1], length, *axes)}"
                )

    def extra_repr(self) -> str:
        """Return the arguments, for the repr of a model."""
        return f"{self.rotary!r}, seq_axis={self.seq_axis}{_shown_options(self)}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        stored = state_dict.pop(prefix + "inv_freq", None)
        if stored is not None and not stored.is_meta:
            ours = torch.tensor(self.rotary.frequencies, device="cpu")
            # float32 powers; and perhaps stored in 16 bits
            relative = 1e-5 + tensors.relative_spacing(stored)
            if stored.shape != ours.shape or not torch.allclose(stored.cpu().double(), ours, rtol=relative, atol=0):
                args[-1].append(f"{prefix}inv_freq does not have the frequencies of {self.rotary!r}")
        super()._load_from_state_dict(state_dict, prefix, *args)
