"""Memory that tensors and arrays share, and new memory for results."""

# where torch is not installed, pyright takes posenc_fast/torch/ for it
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .._engine.blocks import WORTH_A_THREAD
from .._numbers.arrays import empty
from .._numbers.formats import TYPES, float_type, kind_of
from ._transforms import is_transformed

__all__ = [
    "apart",
    "array_of",
    "check_cpu",
    "is_float",
    "new_like",
    "numpy_type",
    "on_cpu",
    "overlaps_itself",
    "result_for",
    "tensor_of",
    "workers",
]

DTYPES = {torch.float64: "float64", torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
# bytes from which NumPy asks the system for huge pages, and torch does not: then most of the time goes into page faults
HUGE = 1 << 22


def is_float(tensor: torch.Tensor, name: str) -> None:
    """A TypeError for other types than the four."""
    if tensor.dtype not in DTYPES:
        raise TypeError(f"{name} must be of float64, float32, float16 or bfloat16, not of {tensor.dtype}")


@functools.lru_cache(maxsize=64)
def numpy_type(dtype: Any, name: str) -> np.dtype[Any]:
    """The array type of a tensor type."""
    if dtype not in DTYPES:
        raise TypeError(f"{name} must be one of {', '.join(map(str, DTYPES))}, not {dtype!r}")
    return float_type(DTYPES[dtype], name)


def check_cpu(tensor: Any, name: str) -> None:
    """An error for what is no CPU tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, not {type(tensor).__name__}")
    if not tensor.is_cpu:
        raise ValueError(
            f"{name} is on {tensor.device}, but must be on the CPU: give {name}.cpu(); the modules work on any device"
        )
    if is_transformed(tensor):
        raise NotImplementedError(
            f"{name} is inside a transform of torch.func (grad, vmap, jvp, ..) and has no memory of its own; the modules "
            "know vmap, and torch.autograd.grad"
        )


def array_of(tensor: Any, name: str, *, written: bool = False) -> npt.NDArray[Any]:
    """The memory of a CPU tensor as an array."""
    check_cpu(tensor, name)
    if written and tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{name} requires gradients and cannot be overwritten; give other memory, or use torch.no_grad()"
        )
    if written and overlaps_itself(tensor):
        raise ValueError(
            f"{name} has strides {tensor.stride()}: several of its values are one and cannot be overwritten; "
            f"give {name}.contiguous()"
        )
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:
        as_numpy = numpy_type(tensor.dtype, name)
        return tensor.view(torch.int16).numpy().view(as_numpy)  # type: ignore[no-any-return]
    return tensor.numpy()  # type: ignore[no-any-return]


def overlaps_itself(x: torch.Tensor) -> bool:
    """Whether several values are one, as of an expanded tensor."""
    if x.is_contiguous() or x.numel() == 0:
        return False
    return any(n > 1 and stride == 0 for n, stride in zip(x.shape, x.stride(), strict=True))


def tensor_of(array: npt.NDArray[Any]) -> torch.Tensor:
    """An array's memory as a tensor."""
    if kind_of(array.dtype) == TYPES.index("bfloat16"):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def new_like(x: torch.Tensor, device: str | None = None) -> torch.Tensor:
    """A new tensor in the order of x, but with the values of a row next to each other."""
    # half a microsecond less where no device is said
    like = torch.empty_like(x) if device is None else torch.empty_like(x, device=device)
    return like if like.stride(-1) == 1 else torch.empty(x.shape, dtype=x.dtype, device=like.device)


def result_for(x: torch.Tensor) -> torch.Tensor | None:
    """The same, of memory that is soon had; None for what a new array would be."""
    if x.is_contiguous():
        return None
    if x.numel() * x.element_size() < HUGE:
        return new_like(x)
    like = new_like(x, "meta")
    memory = torch.from_numpy(empty((x.numel() * x.element_size(),), np.dtype(np.uint8)))
    return memory.view(x.dtype).as_strided(like.shape, like.stride())


def on_cpu(x: torch.Tensor) -> bool:
    """Whether the kernel can take it."""
    return bool(x.is_cpu)


def apart(x: torch.Tensor) -> bool:
    """Whether the values of a row are not next to each other, which the kernel cannot write."""
    return on_cpu(x) and x.stride(-1) != 1


def workers(x: torch.Tensor) -> int | None:
    """As many threads as torch has, where the core would use them: it takes longer to ask than a token takes."""
    threads = torch.get_num_threads() if x.numel() >= WORTH_A_THREAD else 1
    return None if threads == 1 else threads
