"""The module that turns queries and keys by their positions."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import torch

from .._numbers.arguments import check_precision
from .._rotary.value import Rotary
from ..typing import Precision
from . import _short as short
from ._by_positions import turn
from ._checks import check_positions, check_x, unit
from ._text import options_of, write

__all__ = ["RotaryEncoding"]


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
        self._axes, self._rotary, self._text = rotary.ndim, rotary, write(rotary)

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
        turned = turn(q, self._rotary, self._text, start, *rest)
        return turned if k is None else (turned, turn(k, self._rotary, self._text, key_start, *rest))

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
        check_x(x, name, start, self.inplace, first)
        if x.ndim < 2 or x.shape[-1] != self.head_dim:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, but must have (.., {self.head_dim}), the head_dim last"
            )
        if not -x.ndim <= self.seq_axis < x.ndim - 1 or self.seq_axis == -1:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, whose axis seq_axis={self.seq_axis} cannot be the tokens"
            )
        if positions is not None:
            check_positions(positions, x, start)
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
        return f"{self.rotary!r}, seq_axis={self.seq_axis}{options_of(self)}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        stored = state_dict.pop(prefix + "inv_freq", None)
        if stored is not None and not stored.is_meta:
            ours = torch.tensor(self.rotary.frequencies)
            # float32 powers; and perhaps stored in 16 bits
            relative = 1e-5 + unit(stored)
            if stored.shape != ours.shape or not torch.allclose(stored.cpu().double(), ours, rtol=relative, atol=0):
                args[-1].append(f"{prefix}inv_freq does not have the frequencies of {self.rotary!r}")
        super()._load_from_state_dict(state_dict, prefix, *args)
