"""Calls that need no operator: where nothing but the values counts, these are computed at once."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .._encoding.value import Encoding
from .._rotary.value import Rotary
from . import _memory as memory
from . import _transforms as transforms
from ._text import read

__all__ = ["either", "only_values", "overwrite"]


def only_values(*tensors: torch.Tensor | None) -> bool:
    """Whether nothing but the values counts: no compiler, trace, transform, mode or gradient, which need an operator."""
    if (
        torch.compiler.is_compiling()
        or transforms.modes()
        or transforms.transforms() is not None
        or transforms.trace() is not None
    ):
        return False
    for x in tensors:
        if x is None:
            continue
        if type(x) is not torch.Tensor or not memory.on_cpu(x) or x.requires_grad or x.is_neg():
            return False
    return True


def either(
    x: torch.Tensor,
    positions: torch.Tensor | None,
    inplace: bool,
    compute: Callable[..., torch.Tensor],
    operators: tuple[Callable[..., Any], Callable[..., Any]],
    value: Encoding | Rotary,
    text: str,
    *given: Any,
) -> torch.Tensor:
    """``compute(x, out, value, *given)``; or an operator, where one is needed: the first, or the second in place.

    Operators take the value as text.
    """
    if not only_values(x, positions) or (inplace and memory.apart(x)):
        made = operators[inplace](x, text, *given)
        return x if inplace else made
    made = compute(x, x if inplace else None, value, *given)
    if inplace:
        torch.autograd.graph.increment_version(x)
    return made


def overwrite(
    x: torch.Tensor, compute: Callable[..., Any], operator: Callable[..., Any], text: str, *given: Any
) -> None:
    """``compute(x, x, ..)`` of what was written, or a copy of what the operator makes, where the kernel cannot write."""
    if memory.apart(x):
        x.copy_(operator(x, text, *given))
    else:
        compute(x, x, read(text), *given)
