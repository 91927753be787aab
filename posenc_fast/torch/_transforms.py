"""What else may want to see a call: transforms of torch.func, modes and traces."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from typing import Any

import torch

__all__ = ["is_differentiated", "is_transformed", "modes", "trace", "transforms"]

try:
    modes = torch._C._len_torch_dispatch_stack
    transforms = torch._C._functorch.peek_interpreter_stack
    trace = torch._C._get_tracing_state
    _wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    _unwrapped = torch._C._functorch.get_unwrapped
    _batched, _tracked = torch._C._functorch.is_batchedtensor, torch._C._functorch.is_gradtrackingtensor
except AttributeError:
    # names that torch does not promise to keep; without them every call is that of an operator, and errors are torch's
    modes = transforms = trace = functools.partial(int, 1)

    def _is_none(tensor: Any) -> Any:
        return False

    _wrapped = _unwrapped = _batched = _tracked = _is_none


def is_differentiated(tensor: torch.Tensor) -> bool:
    """Whether a transform of torch.func takes derivatives of a tensor, at any depth."""
    while transforms() is not None and _wrapped(tensor):
        if _tracked(tensor):
            return True
        tensor = _unwrapped(tensor)
    return False


def is_transformed(tensor: torch.Tensor) -> bool:
    """Whether a tensor stands for others in a transform of torch.func, and has no memory of its own."""
    return transforms() is not None and bool(_batched(tensor) or _tracked(tensor))
