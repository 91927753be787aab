"""Hugging Face's function of rotation by ready tables."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import torch

from .._rotary.value import LAYOUTS
from ..typing import RotaryLayout, TableLayout
from . import _short as short
from ._by_tables import TABLES, pairs_of, turn_all_by
from ._checks import check_x, no_gradients

__all__ = ["apply_rotary_pos_emb"]


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
    if tables not in TABLES:
        raise ValueError(f"tables must be one of {', '.join(map(repr, TABLES))}, not {tables!r}")
    each = 1 if tables == "pairs" else 2
    for name, part in (("q", q), ("k", k)):
        check_x(part, name)
        if part.ndim != 4:
            raise ValueError(f"{name} has shape {tuple(part.shape)}, but must have (batch, heads, length, head_dim)")
    for name, part in (("cos", cos), ("sin", sin)):
        check_x(part, name)
        no_gradients(part, name)
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
    cos, sin = pairs_of(cos, tables, "cos"), pairs_of(sin, tables, "sin")
    q, k = turn_all_by((q, k), cos, sin, seq_axis, layout)
    return q, k
