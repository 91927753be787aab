"""The module that adds an encoding."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._encoding.builders import sinusoidal
from .._encoding.value import Encoding
from .._numbers.arguments import check_precision, count_of, real
from ..presets._registry import encoding_preset
from ..typing import Precision
from ._addition import add
from ._checks import check_positions, check_x, unit
from ._functions import table
from ._text import options_of, write

__all__ = ["SinusoidalEncoding"]


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
        self._encoding, self._text = encoding, write(encoding)

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
        check_x(x, "x", start, self.inplace)
        if x.ndim < 2 or x.shape[-1] != self.d_model or (not self.batch_first and x.ndim > 3):
            batched = "(batch, length" if self.batch_first else "(length, batch"
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but must have {batched}, {self.d_model}) or (length, {self.d_model})"
            )
        swapped = not self.batch_first and x.ndim == 3
        y = x.transpose(0, 1) if swapped else x
        if positions is not None:
            check_positions(positions, y, start)
            if tuple(positions.shape) not in ((y.shape[-2],), tuple(y.shape[:-1])):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but must have {(y.shape[-2],)} or "
                    f"{tuple(y.shape[:-1])}: (length,) or (batch, length)"
                )
        first: Any = start
        y = add(y, self._encoding, self._text, first, positions, self.x_scale, self.inplace, self.precision)
        return self.dropout(x if self.inplace else y.transpose(0, 1) if swapped else y)

    def _add_points(self, x: torch.Tensor, start: int | Sequence[int], positions: torch.Tensor | None) -> torch.Tensor:
        """The sum for an encoding of several axes, before dropout."""
        axes = self.encoding.ndim
        firsts: tuple[Any, ...] = tuple(start) if isinstance(start, Sequence) else (start,) * axes
        for first in firsts:
            check_x(x, "x", first, self.inplace)
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
            check_positions(positions, x, 0 if all(first == 0 for first in firsts) else firsts)
            if tuple(positions.shape) not in ((*lengths, axes), (*x.shape[:-1], axes)):
                raise ValueError(
                    f"positions has shape {tuple(positions.shape)}, but must have {(*lengths, axes)} or "
                    f"{(*x.shape[:-1], axes)}: an axis more than x, of {axes} coordinates"
                )
            where = positions
        rows = (*x.shape[: -1 - axes], -1, self.d_model)
        given = where.reshape(*where.shape[: -1 - axes], -1, axes)
        at_once = self.inplace and x.is_contiguous()
        y = add(x.reshape(rows), self._encoding, self._text, 0, given, self.x_scale, at_once, self.precision)
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
        return f"{self.encoding!r}, batch_first={self.batch_first}{scale}{options_of(self)}"

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        stored = state_dict.pop(prefix + "pe", None)
        if stored is not None:
            problem = _difference_of_table(stored, self.encoding)
            if problem:
                args[-1].append(f"{prefix}pe {problem}")
        super()._load_from_state_dict(state_dict, prefix, *args)


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
    allowed = 2.0**-22 * length + unit(stored)
    if off <= allowed:
        return None
    return (
        f"is not the table of {encoding!r}, as they differ by {off:.3g}; posenc_fast.identify(pe) may tell whose it is, for "
        "encoding=, and without this entry in the state_dict it is not asked for"
    )
